/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots as bytes, as a parser that was taken over could hand them over: what is read can be
 * printed in every format, with nothing forbidden in it. The first byte says what the others are:
 * 0 the bytes themselves, else changes to those of one that is made here.
 */
#include "fuzz.h"
#include "store/snapshot/file.h"

/* Rows of waits check their number, in tests with cmocka. */
#define assert_true(holds) fuzz_check(holds, #holds)
#include "../unit/wait_rows.h"

#include <string.h>

static uint8_t *written(const struct snap_snapshot *snapshot, size_t *size_ret)
{
	uint8_t *bytes;
	uint64_t size;

	*size_ret = (size_t)snap_snapshot_size(snapshot);
	bytes = malloc(*size_ret);
	fuzz_check(bytes != NULL, "there is memory");
	fuzz_no_error(snap_snapshot_write(snapshot, bytes, *size_ret, &size));
	return bytes;
}

/* A place, what to do there, a value: four bytes each. */
static void change(uint8_t *bytes, size_t size, struct fuzz_bytes changes)
{
	while (changes.end - changes.at >= 4) {
		size_t at = (fuzz_u8(&changes) << 8 | fuzz_u8(&changes)) % size;
		uint8_t how = fuzz_u8(&changes), value = fuzz_u8(&changes);
		uint32_t number = how & 0x80 ? (uint32_t)0x01010101 * value : value;

		if (how & 1)
			bytes[at] ^= value;
		else if (how & 2 && at + sizeof(number) <= size)
			memcpy(bytes + at, &number, sizeof(number));
		else if (how & 4)
			bytes[at] = (uint8_t)(bytes[at] + (how & 8 ? 1 : -1));
		else
			bytes[at] = value;
	}
}

static uint8_t *make_bytes(const uint8_t *data, size_t size, size_t *size_ret)
{
	struct snap_snapshot flat = flat_service(), trouble = all_troubled(),
			     waiting = waiting_snapshot();
	const struct snap_snapshot *const made[] = { &service, &hostile, &flat, &trouble,
						     &waiting };
	uint8_t *bytes;

	if (data[0]) {
		bytes = written(made[data[0] % SNAP_ARRAY_SIZE(made)], size_ret);
		change(bytes, *size_ret, (struct fuzz_bytes){ data + 1, data + size });
		return bytes;
	}
	*size_ret = size - 1;
	bytes = malloc(size);
	fuzz_check(bytes != NULL, "there is memory");
	memcpy(bytes, data + 1, size - 1);
	return bytes;
}

static void print(const struct snap_snapshot *snapshot, const struct snap_options *options)
{
	struct fuzz_output output = fuzz_render("list", snapshot, options);

	fuzz_check_text(&output);
	fuzz_output_deinit(&output);
	for (const struct snap_format *format = snap_formats; format->name; format++) {
		output = fuzz_render(format->name, snapshot, options);
		fuzz_check_format(format, &output);
		fuzz_output_deinit(&output);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL, *again = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_free_ uint8_t *bytes = NULL, *second = NULL, *third = NULL;
	size_t second_size, third_size;

	snap_options_init(&options);
	if (size < 2)
		return 0;
	if (data[0] & 8)
		options.explain = SNAP_EXPLAIN_ALL;
	options.utf8 = data[0] & 0x10;
	options.summary = data[0] & 0x20;
	options.verbose = data[0] >> 6;
	options.show_build_id = data[0] & 0x40;
	bytes = make_bytes(data, size, &size);
	if (snap_error_ignore(snap_snapshot_read(bytes, size, &snapshot)))
		return 0;
	print(snapshot, &options);
	second = written(snapshot, &second_size);
	fuzz_no_error(snap_snapshot_read(second, second_size, &again));
	if (!again)
		return 0;
	third = written(again, &third_size);
	fuzz_check(second_size == third_size && memcmp(second, third, second_size) == 0,
		   "what is read is written as the same");
	return 0;
}
