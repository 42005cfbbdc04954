/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of a log, and what is waited for, as bytes: a log that read them is, as a file, byte for byte the one that they were
 * written from; whatever byte is wrong, the log is as it was, or every format can live with it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/log/log.h"
#include "base/buffer.h"
#include "fine.h"
#include "render/render.h"
#include "store/log/index.h"
#include "store/recording/file.h"
#include "store/recording/names.h"

#include <string.h>
#include <sys/mman.h>

/* Bytes that were asked for: the linker sends all calls here. */
static size_t asked;

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	asked += count * size;
	return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	asked += size;
	return __real_realloc(old, size);
}

struct bytes {
	uint8_t *data;
	size_t size;
};

#define HOSTILE "a\033[31m\n\xe2\x80\xae\\x\xff\xc2\x9b"

/* A futex; within a tick. */
static void add_object(struct snap_log *log, uint32_t space, uint64_t address)
{
	struct snap_log_object object = {
		.space = space,
		.call = { .known = true, .number = 202, .arguments = { address, 0x80 } },
		.is_futex = true,
	};
	uint32_t number;

	fine(snap_log_find_object(log, &object, NULL, &number));
}

/* A thread that is at so many frames, in stacks of `depth`; and two objects. */
static struct snap_log *make_log(size_t frames, size_t depth)
{
	static struct snap_map map = {
		.start = 0x1000, .end = 1 << 30, .inode = 7, .execute = true, .path = "/bin/prog"
	};
	struct snap_process facts = { .pid = 10, .name = "prog", .maps = &map, .map_count = 1 };
	struct snap_host host = { .name = "host", .ticks_per_second = 100 };
	_cleanup_free_ uint64_t *bits = calloc(depth, sizeof(*bits));
	uint32_t process, space, thread;
	struct snap_log *log;

	fine(snap_log_create(&host, 1700000000000000000, 10101010, false, &log));
	fine(snap_log_begin_tick(log, 0));
	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	fine(snap_log_add_thread(log, process, 10, 1, "main", false, &thread));
	add_object(log, space, 0x5000);
	add_object(log, space, 0x6000);
	snap_log_end_tick(log, 0);
	for (size_t i = 0; i < frames; i += depth) {
		struct snap_log_pcs pcs = { .bits = bits, .count = depth };
		struct snap_log_change change = { .thread = thread, .syscall = -1, .state = 1 };

		for (size_t k = 0; k < depth; k++)
			bits[k] = 0x1000 + 8 * (i + k);
		fine(snap_log_begin_tick(log, (int64_t)(i / depth + 1) * 10101010));
		fine(snap_log_stack(log, space, &pcs, &change.stack));
		fine(snap_log_change(log, &change));
		snap_log_end_tick(log, 0);
	}
	return log;
}

/* "f12()": the number stands between. */
static const char *kept(struct snap_log *log, const char *head, size_t number, const char *tail)
{
	char text[100];
	int length = snprintf(text, sizeof(text), "%s%zu%s", head, number, tail);

	return snap_intern(&log->strings, text, (size_t)length);
}

static void name_frame(struct snap_log *log, size_t i)
{
	struct snap_entry *entries = snap_arena_new_array(&log->arena, 2, struct snap_entry);
	struct snap_frame frame = { .address = log->frames[i].bits,
				    .offset = i % 5 ? 0x10 + i : 0,
				    .has_offset = i % 5 != 0,
				    .file_offset = i,
				    .module = i % 7 ? kept(log, "/bin/prog", 1, "") : NULL,
				    .build_id = i % 3 ? kept(log, "abcd", 1, "") : NULL,
				    .entries = entries,
				    .entry_count = 1 + i % 2 };

	entries[0] = (struct snap_entry){ .function = kept(log, HOSTILE "f", i, "()"),
					  .symbol = kept(log, "_f", i, ""),
					  .file = kept(log, "a", i % 100, ".c"),
					  .line = (uint32_t)i,
					  .column = 2,
					  .inlined = i % 2 };
	entries[1] = (struct snap_entry){ .system = i % 3 == 0, .kernel = i % 3 == 1 };
	assert_true(snap_reserve_array(log->names, log->name_capacity, log->name_count + 1));
	log->names[log->name_count++] = frame;
	log->frames[i].name = (uint32_t)log->name_count;
}

static void warn(struct snap_log *log)
{
	snap_capture_warn(log->capture, "module_symbols", 0, 0, "cannot read " HOSTILE);
	snap_capture_warn(log->capture, "perf_map_refused", 10, 0, "it is odd");
}

/* Two pairs, of one of which nothing is known. */
static void explain(struct snap_log *log)
{
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_LIKELY);

	wait.variant = "recursive";
	wait.address = 0x5000;
	wait.symbol = HOSTILE;
	wait.module = "/bin/prog";
	wait.call = "futex";
	wait.owner_word = (struct snap_owner_word){ 0x5008, SNAP_OWNER_FORM_MASKED };
	fine(snap_log_explain(log, 1, 0, &wait));
	fine(snap_log_explain(log, 0, 1, NULL));
}

/* ---- both ways ---- */

static struct bytes write_names(const struct snap_log *log, size_t from, size_t warnings_from)
{
	const struct snap_log_named before = { from, warnings_from, 0 };
	struct bytes bytes = { .data = malloc(64 << 20) };

	assert_non_null(bytes.data);
	fine(snap_log_names_write(log, &before, bytes.data, 64 << 20, &bytes.size));
	bytes.data = realloc(bytes.data, bytes.size);
	return bytes;
}

/* The log as a file: all that there is to know of it. */
static struct bytes file_of(const struct snap_log *log)
{
	_cleanup_fd_ int fd = memfd_create("log", MFD_CLOEXEC);
	struct bytes bytes;

	fine(snap_log_write(log, fd));
	bytes.size = (size_t)lseek(fd, 0, SEEK_END);
	bytes.data = malloc(bytes.size);
	assert_int_equal(pread(fd, bytes.data, bytes.size, 0), bytes.size);
	return bytes;
}

static void check_same(struct bytes a, struct bytes b)
{
	assert_int_equal(a.size, b.size);
	assert_memory_equal(a.data, b.data, a.size);
	free(a.data);
	free(b.data);
}

/* Names every frame, but not the last ones; hands their bytes to a log that has the same frames. */
static void check(size_t frames, size_t depth, size_t before)
{
	struct snap_log *log = make_log(frames, depth), *other = make_log(frames, depth);
	size_t warnings = 0;
	struct bytes bytes;

	for (size_t i = 0; i < before; i++) {
		name_frame(log, 2 * i);
		name_frame(other, 2 * i);
	}
	if (before) {
		warn(log);
		warn(other);
		warnings = log->capture->warning_count;
	}
	for (size_t i = 0; i < log->frame_count - 1; i++)
		if (log->frames[i].name == 0)
			name_frame(log, i);
	snap_capture_warn(log->capture, "module_symbols", 0, 0, "one more");
	bytes = write_names(log, before, warnings);
	fine(snap_log_names_read(other, bytes.data, bytes.size));
	/* Texts are copied, and each is there once. */
	memset(bytes.data, 0xff, bytes.size);
	free(bytes.data);
	assert_ptr_equal(other->names[1].module, other->names[2].module);
	assert_int_equal(other->capture->warning_count, warnings + 1);
	check_same(file_of(log), file_of(other));
	snap_log_destroy(log);
	snap_log_destroy(other);
}

static void test_round_trip(void **state _unused_)
{
	check(30, 10, 0);
	check(30, 10, 7);
	check(100000, 500, 5);
}

static void test_waits(void **state _unused_)
{
	struct snap_log *log = make_log(20, 10), *other = make_log(20, 10);
	const struct snap_log_explained *known;
	struct bytes bytes;

	explain(log);
	bytes = write_names(log, 0, 0);
	fine(snap_log_names_read(other, bytes.data, bytes.size));
	memset(bytes.data, 0xff, bytes.size);
	snap_log_destroy(log);
	assert_int_equal(other->explained_count, 2);
	known = snap_log_explained(other, 1, 0);
	assert_non_null(known);
	assert_int_equal(known->wait->kind, SNAP_WAIT_MUTEX);
	assert_string_equal(known->wait->variant, "recursive");
	assert_string_equal(known->wait->symbol, HOSTILE);
	assert_int_equal(known->wait->owner_word.address, 0x5008);
	assert_int_equal(known->wait->owner_word.form, SNAP_OWNER_FORM_MASKED);
	known = snap_log_explained(other, 0, 1);
	assert_non_null(known);
	assert_null(known->wait);
	free(bytes.data);
	snap_log_destroy(other);
}

static void test_nothing_new(void **state _unused_)
{
	struct snap_log *log = make_log(20, 10);
	struct bytes bytes = write_names(log, 0, 0), before = file_of(log);

	fine(snap_log_names_read(log, bytes.data, bytes.size));
	assert_int_equal(log->name_count, 0);
	check_same(before, file_of(log));
	free(bytes.data);
	snap_log_destroy(log);
}

/* ---- wrong bytes ---- */

static void refuse(struct snap_log *log, const uint8_t *data, size_t size, const char *why)
{
	struct bytes before = file_of(log);
	struct stacksnap_error *err = snap_log_names_read(log, data, size);

	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	if (!strstr(snap_error_message(err), why))
		fail_msg("\"%s\" does not say \"%s\"", snap_error_message(err), why);
	snap_error_destroy(err);
	check_same(before, file_of(log));
}

static void test_of_another_log(void **state _unused_)
{
	struct snap_log *log = make_log(20, 10), *other = make_log(30, 10);
	struct bytes bytes;

	name_frame(log, 3);
	bytes = write_names(log, 0, 0);
	refuse(other, bytes.data, bytes.size, "another log");
	/* Twice. */
	refuse(log, bytes.data, bytes.size, "another log");
	snap_log_destroy(other);
	/* As many names, but of other frames. */
	name_frame(log, 4);
	free(bytes.data);
	bytes = write_names(log, 1, 0);
	other = make_log(20, 10);
	name_frame(other, 4);
	refuse(other, bytes.data, bytes.size, "frame named twice");
	free(bytes.data);
	snap_log_destroy(log);
	snap_log_destroy(other);
}

/* A small log with names, as bytes. */
static struct bytes small(void)
{
	struct snap_log *log = make_log(12, 4);
	struct bytes bytes;

	for (size_t i = 0; i < 6; i++)
		name_frame(log, i);
	warn(log);
	explain(log);
	bytes = write_names(log, 0, 0);
	snap_log_destroy(log);
	return bytes;
}

static void test_cut_off_anywhere(void **state _unused_)
{
	struct snap_log *log = make_log(12, 4);
	struct bytes bytes = small();

	for (size_t size = 0; size < bytes.size; size++) {
		uint8_t *copy = malloc(size + !size);

		memcpy(copy, bytes.data, size);
		refuse(log, copy, size, "damaged");
		free(copy);
	}
	bytes.data = realloc(bytes.data, bytes.size + 1);
	bytes.data[bytes.size] = 0;
	refuse(log, bytes.data, bytes.size + 1, "trailing data");
	free(bytes.data);
	snap_log_destroy(log);
}

static void render(const struct snap_log *log)
{
	static const char *const formats[] = { "text", "json", "folded" };
	const struct snap_options options = { .symbols = true,
					      .lines = true,
					      .inlines = true,
					      .group_by = SNAP_GROUP_STACK,
					      .verbose = 2,
					      .show_build_id = true };
	struct snap_recording *recording = NULL;

	fine(snap_analyze_log(log, &options, &recording));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(formats); i++) {
		char *text = NULL;
		size_t size = 0;
		FILE *out = open_memstream(&text, &size);

		fine(snap_render_recording(snap_format_by_name(formats[i]), recording, &options,
					   out));
		fclose(out);
		free(text);
	}
	snap_recording_destroy(recording);
}

static void forget_names(struct snap_log *log)
{
	for (size_t i = 0; i < log->frame_count; i++)
		log->frames[i].name = 0;
	log->name_count = 0;
	log->capture->warning_count = 0;
	log->explained_count = 0;
	snap_hash_table_clear(&log->index->explained);
}

/* True: they were read, and renderers can live with them; the log is as it was. */
static bool try_bytes(struct snap_log *log, struct bytes bytes)
{
	struct bytes before = file_of(log);
	uint8_t *copy = malloc(bytes.size);
	struct stacksnap_error *err;

	memcpy(copy, bytes.data, bytes.size);
	asked = 0;
	err = snap_log_names_read(log, copy, bytes.size);
	/* The log's arena and interner grow in large steps. */
	if (asked > 16 * bytes.size + (4 << 20))
		fail_msg("%zu bytes made it ask for %zu", bytes.size, asked);
	free(copy);
	if (err) {
		assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
		assert_null(strstr(snap_error_message(err), "memory"));
		snap_error_destroy(err);
		check_same(before, file_of(log));
	} else {
		free(before.data);
		render(log);
		forget_names(log);
	}
	return !err;
}

/* A bit of each byte. */
static void test_flipped_anywhere(void **state _unused_)
{
	struct snap_log *log = make_log(12, 4);
	struct bytes bytes = small();
	size_t read = 0;

	for (size_t at = 0; at < bytes.size; at++) {
		uint8_t flip = (uint8_t)(1 << at * 5 % 8);

		bytes.data[at] ^= flip;
		read += try_bytes(log, bytes);
		bytes.data[at] ^= flip;
	}
	/* Both happen. */
	assert_in_range(read, bytes.size / 10, bytes.size - bytes.size / 10);
	snap_log_destroy(log);
	free(bytes.data);
}

static void test_claims(void **state _unused_)
{
	static const uint64_t claims[] = { 20, 1ull << 26, 1ull << 62, INT64_MAX };
	struct snap_log *log = make_log(12, 4);
	struct bytes bytes = small();
	uint8_t kept_bytes[8];

	for (size_t at = 0; at + 8 <= bytes.size; at++)
		for (size_t i = 0; i < SNAP_ARRAY_SIZE(claims); i++) {
			memcpy(kept_bytes, bytes.data + at, 8);
			memcpy(bytes.data + at, &claims[i], 8);
			try_bytes(log, bytes);
			memcpy(bytes.data + at, kept_bytes, 8);
		}
	snap_log_destroy(log);
	free(bytes.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_nothing_new),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_of_another_log),
		cmocka_unit_test(test_cut_off_anywhere),
		cmocka_unit_test(test_flipped_anywhere),
		cmocka_unit_test(test_claims),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
