/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Images with bytes changed: single ones, words that look like addresses of the same image, and
 * extremes. Always the same, for the same image.
 */
#include "live.h"

#include <string.h>

enum { MOST_CHANGES = 16 };

struct change {
	uint8_t *at;
	uint8_t before[8];
};

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 29;
}

static uint64_t word_for(const struct snap_memory_image *image, uint64_t *state)
{
	static const uint64_t extremes[] = { 0, 1, UINT64_MAX, 1ull << 63, 1ull << 32, 0x7fffffff };
	const struct snap_memory_piece *piece =
		&image->pieces[next_random(state) % image->piece_count];

	switch (next_random(state) % 3) {
	case 0:
		return extremes[next_random(state) % SNAP_ARRAY_SIZE(extremes)];
	case 1:
		return piece->address + (next_random(state) % piece->size & ~7ull);
	}
	return next_random(state);
}

static void change_one(const struct snap_memory_image *image, uint64_t *state, struct change *ret)
{
	const struct snap_memory_piece *piece =
		&image->pieces[next_random(state) % image->piece_count];
	uint64_t word, at;

	ret->at = NULL;
	if (piece->size < 8)
		return;
	at = next_random(state) % (piece->size - 7);
	if (next_random(state) % 4)
		at &= ~7ull;
	/* It is ours: the room of the image. */
	ret->at = (uint8_t *)piece->bytes + at;
	memcpy(ret->before, ret->at, sizeof(ret->before));
	word = word_for(image, state);
	if (next_random(state) % 2)
		memcpy(ret->at, &word, sizeof(word));
	else
		*ret->at = (uint8_t)word;
}

void live_mutate(struct live_image *image, unsigned rounds, void (*read)(void *context),
		 void *context)
{
	uint64_t state = 1;

	for (unsigned i = 0; i < rounds && image->image.piece_count > 0; i++) {
		struct change changes[MOST_CHANGES];
		size_t count = 1 + next_random(&state) % MOST_CHANGES;

		for (size_t k = 0; k < count; k++)
			change_one(&image->image, &state, &changes[k]);
		read(context);
		while (count-- > 0)
			if (changes[count].at)
				memcpy(changes[count].at, changes[count].before,
				       sizeof(changes[count].before));
	}
}
