/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Documents of a descriptor, piece by piece: see stream.h. */
#include "merge/stream.h"

#include "base/buffer.h"
#include "store/json/read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 18 };

static const char mark[] = "\n{\"schema\"";

/* Without a document that can be read; what follows is not read. */
static const uint64_t MOST_SKIPPED = SNAP_JSON_MAX_BYTES + (256u << 20);

void snap_merge_stream_deinit(struct snap_merge_stream *stream)
{
	free(stream->data);
	stream->data = NULL;
}

/* Another block, behind what is left of the last one, which goes to the front. */
static struct stacksnap_error *read_block(struct snap_merge_stream *stream)
{
	ssize_t got;

	/* Also where nothing comes, as from a fifo: a signal ends the read. */
	SNAP_TRY(snap_options_check(stream->options));
	if (stream->begin) {
		memmove(stream->data, stream->data + stream->begin, stream->end - stream->begin);
		stream->searched -= stream->begin;
		stream->end -= stream->begin;
		stream->begin = 0;
	}
	if (!snap_reserve_array(stream->data, stream->capacity, stream->end + BLOCK + 1))
		return snap_error_no_memory();
	do
		got = read(stream->fd, stream->data + stream->end, BLOCK);
	while (got < 0 && errno == EINTR && !snap_options_cancelled(stream->options));
	if (got < 0 && errno == EINTR)
		return snap_error_cancelled();
	if (got < 0)
		return snap_error_os(errno, "cannot read it");
	stream->ended = got == 0;
	stream->end += (size_t)got;
	return NULL;
}

/* Whether a document begins in what was not searched; `at_ret`: there, else the end. */
static bool find_mark(struct snap_merge_stream *stream, size_t *at_ret)
{
	enum { LENGTH = sizeof(mark) - 1 };
	const char *found = NULL;

	if (stream->end > stream->searched)
		found = memmem(stream->data + stream->searched, stream->end - stream->searched,
			       mark, LENGTH);
	*at_ret = found ? (size_t)(found + 1 - stream->data) : stream->end;
	/* A mark may stand across the end of the block. */
	if (!found && stream->end > stream->searched + LENGTH)
		stream->searched = stream->end - LENGTH;
	return found != NULL;
}

static void let_go(struct snap_merge_stream *stream)
{
	if (stream->holds)
		stream->data[stream->held] = stream->replaced;
	stream->holds = false;
}

static void hold(struct snap_merge_stream *stream, size_t at)
{
	stream->held = at;
	stream->replaced = at < stream->end ? stream->data[at] : '\0';
	stream->data[at] = '\0';
	stream->holds = true;
}

/* What is kept of a piece without an end: nothing that is no JSON needs memory. */
static size_t most_of_piece(const struct snap_merge_stream *stream)
{
	size_t at = stream->begin;

	while (at < stream->end && memchr(" \t\r\n", stream->data[at], 4))
		at++;
	return at < stream->end && stream->data[at] == '{' ? SNAP_JSON_MAX_BYTES : BLOCK;
}

struct stacksnap_error *snap_merge_stream_next(struct snap_merge_stream *stream, char **ret,
					       size_t *size_ret)
{
	uint64_t skipped = 0;
	size_t at;

	let_go(stream);
	while (!find_mark(stream, &at) && !stream->ended) {
		size_t most = skipped ? BLOCK : most_of_piece(stream);

		if (stream->end - stream->begin > most) {
			skipped += stream->searched - stream->begin;
			stream->begin = stream->searched;
		}
		if (skipped > MOST_SKIPPED) {
			stream->begin = stream->searched = stream->end;
			stream->ended = true;
			continue;
		}
		SNAP_TRY(read_block(stream));
	}
	*ret = stream->data + stream->begin;
	*size_ret = at - stream->begin;
	if (at == stream->begin)
		*ret = NULL;
	else
		hold(stream, at);
	stream->begin = stream->searched = at;
	if (!skipped)
		return NULL;
	return snap_error_format(SNAP_ERROR_FORMAT, "it is no JSON, or larger than 1 GiB%s",
				 skipped > MOST_SKIPPED ? "; all that follows is left out" : "");
}
