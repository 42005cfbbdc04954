/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logs on disk that are not as they were written: what is cut short is what came before; what is
 * damaged is refused, and never does harm.
 */
#include "log_story.h"

#include <endian.h>

static void test_cut_off_anywhere(void **state _unused_)
{
	size_t size, first_flush, whole = 0;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush);

	for (size_t cut = 0; cut < size; cut++) {
		struct stacksnap_error *err;
		struct snap_log *log = read_bytes(bytes, cut, &err);

		if (err) {
			/* Not even its head is there. */
			assert_true(cut < first_flush && whole == 0);
			assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
			snap_error_destroy(err);
			continue;
		}
		whole++;
		assert_int_equal(log->end, SNAP_END_UNFINISHED);
		assert_true(log->tick_count == 0 || log->tick_count == 2 || log->tick_count == 18);
		assert_int_equal(log->tick_count >= 2, cut >= first_flush);
		snap_log_destroy(log);
	}
	assert_true(whole > 100);
}

/* Behind the magic. */
enum { VERSION_AT = 8 };

static void test_flipped_anywhere(void **state _unused_)
{
	size_t size, first_flush;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush);

	for (size_t at = 0; at < size; at++) {
		struct stacksnap_error *err;

		/* A version that is one less: what the later one has more is not in this file. */
		if (at == VERSION_AT)
			continue;
		bytes[at] ^= 1 << at % 8;
		assert_null(read_bytes(bytes, size, &err));
		assert_non_null(err);
		assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
		snap_error_destroy(err);
		bytes[at] ^= 1 << at % 8;
	}
}

/* Makes all checksums right again, so that what is inside is looked at. */
static void mend(uint8_t *bytes, size_t size)
{
	size_t at = SNAP_LOG_MAGIC_SIZE;

	while (at + sizeof(struct snap_log_chunk) <= size) {
		struct snap_log_chunk chunk;
		uint64_t length;

		memcpy(&chunk, bytes + at, sizeof(chunk));
		length = le64toh(chunk.length);
		if (length > size - at - sizeof(chunk))
			return;
		chunk = snap_log_chunk_make(le32toh(chunk.type), le32toh(chunk.sequence),
					    bytes + at + sizeof(chunk), length);
		memcpy(bytes + at, &chunk, sizeof(chunk));
		at += sizeof(chunk) + length;
	}
}

static void test_hostile_values(void **state _unused_)
{
	static const uint8_t values[] = { 0, 1, 127, 128, 255 };
	size_t size, first_flush, fine_count = 0;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush), *bad = malloc(size);
	unsigned random = 1;

	for (size_t round = 0; round < 20000; round++) {
		struct stacksnap_error *err;
		struct snap_log *log;

		memcpy(bad, bytes, size);
		for (unsigned k = 0; k <= round % 3; k++) {
			random = random * 1103515245u + 12345u;
			bad[SNAP_LOG_MAGIC_SIZE + (random >> 8) % (size - SNAP_LOG_MAGIC_SIZE)] =
				values[(random >> 4) % sizeof(values)];
		}
		mend(bad, size);
		log = read_bytes(bad, size, &err);
		if (log) {
			_cleanup_fd_ int fd = memory_file();

			/* What was believed holds together. */
			fine(snap_log_write(log, fd));
			fine_count++;
		}
		snap_log_destroy(log);
		snap_error_destroy(err);
	}
	assert_true(fine_count > 0);
}

static void expect_refused(uint8_t *bytes, size_t size, const char *message)
{
	struct stacksnap_error *err;

	assert_null(read_bytes(bytes, size, &err));
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	assert_non_null(strstr(snap_error_message(err), message));
	snap_error_destroy(err);
}

static void test_what_is_said(void **state _unused_)
{
	size_t size, first_flush;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush);

	expect_refused(bytes, 0, "this is not a recording");
	expect_refused(bytes, 12, "truncated");
	expect_refused(bytes, 60, "truncated");
	expect_refused((uint8_t *)"{\"schema\": 1}    ", 16, "this is not a recording");
	bytes[first_flush - 1] ^= 1;
	expect_refused(bytes, size, "checksum mismatch");
	bytes[first_flush - 1] ^= 1;
	bytes[VERSION_AT] = 2;
	expect_refused(bytes, size, "format 2; this stacksnap reads format 1");
	bytes[VERSION_AT] = 1;
	assert_true(snap_log_is_recording(bytes, size));
	assert_false(snap_log_is_recording(bytes, 7));
}

/* ---- waits that do not hold together ---- */

static void foreign_object(struct snap_log *log)
{
	log->changes[0].object = 1;
}

static void no_object(struct snap_log *log)
{
	log->changes[log->change_count - 1].object = (uint32_t)log->object_count + 1;
}

static void foreign_words(struct snap_log *log)
{
	log->words[0].space = 0;
}

static void touching_words(struct snap_log *log)
{
	log->words[0].pieces[1].address =
		log->words[0].pieces[0].address + log->words[0].pieces[0].size;
}

static void wrapping_words(struct snap_log *log)
{
	log->words[0].pieces[1].address = UINT64_MAX - 3;
}

static void endless_words(struct snap_log *log)
{
	static uint8_t many[SNAP_LOG_MAX_OBJECT_WORDS];

	log->words[0].pieces[1].bytes = many;
	log->words[0].pieces[1].size = sizeof(many);
}

static void own_stack_of_no_futex(struct snap_log *log)
{
	log->objects[1].call.sp = 1;
}

static void unknown_descriptor(struct snap_log *log)
{
	log->objects[1].descriptors[0].kind = SNAP_DESCRIPTOR_KINDS;
}

static void hold_of_a_poll(struct snap_log *log)
{
	log->owners[0].object = 1;
}

static void two_holds(struct snap_log *log)
{
	log->owners[log->owner_count - 1] = log->owners[log->owner_count - 2];
}

static void hold_without_words(struct snap_log *log)
{
	log->owners[0].words = (uint32_t)log->words_count + 1;
}

static void one_socket_twice(struct snap_log *log)
{
	log->sockets[1].inode = log->sockets[0].inode;
}

static void unknown_family(struct snap_log *log)
{
	log->sockets[0].family = SNAP_SOCKET_FAMILIES;
}

static void no_such_sleeper(struct snap_log *log)
{
	log->wakes[1].thread = (uint32_t)log->thread_count & SNAP_LOG_WAKE_THREADS;
}

static void unknown_wake(struct snap_log *log)
{
	log->wakes[0].ran = SNAP_LOG_RAN_COUNT;
}

static void explained_twice(struct snap_log *log)
{
	log->explained[1] = log->explained[0];
}

static void explained_of_two_processes(struct snap_log *log)
{
	log->explained[0].stack = 0;
}

static struct snap_wait *wait_of(struct snap_log *log, size_t index)
{
	return (struct snap_wait *)(uintptr_t)log->explained[index].wait;
}

static void unknown_kind(struct snap_log *log)
{
	wait_of(log, 0)->kind = SNAP_WAIT_KINDS;
}

static void unknown_form(struct snap_log *log)
{
	wait_of(log, 0)->owner_word.form = SNAP_OWNER_FORMS;
}

static void odd_state(struct snap_log *log)
{
	wait_of(log, 1)->peers[0].state = '[';
}

static void odd_kind_of_descriptor(struct snap_log *log)
{
	*(uint32_t *)(uintptr_t)wait_of(log, 3)->fd_kinds = SNAP_DESCRIPTOR_KINDS;
}

static void test_waits_hold_together(void **state _unused_)
{
	static const struct {
		void (*spoil)(struct snap_log *log);
		const char *message;
	} cases[] = {
		{ foreign_object, "object of another process" },
		{ no_object, "invalid reference to an object" },
		{ foreign_words, "invalid reference to words" },
		{ touching_words, "invalid address of words" },
		{ wrapping_words, "invalid address of words" },
		{ endless_words, "invalid address of words" },
		{ own_stack_of_no_futex, "invalid flags of an object" },
		{ unknown_descriptor, "unknown kind of a descriptor" },
		{ hold_of_a_poll, "hold without an owner" },
		{ two_holds, "two holds of an object" },
		{ hold_without_words, "invalid reference to words" },
		{ one_socket_twice, "invalid reference to a socket" },
		{ unknown_family, "unknown family" },
		{ no_such_sleeper, "invalid thread reference" },
		{ unknown_wake, "unknown kind of a wake" },
		{ explained_twice, "explained twice" },
		{ explained_of_two_processes, "object of another process" },
		{ unknown_kind, "unknown kind of a wait" },
		{ unknown_form, "unknown form of an owner" },
		{ odd_state, "invalid thread state" },
		{ odd_kind_of_descriptor, "unknown kind of a descriptor" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_fd_ int fd = memory_file();
		_cleanup_free_ uint8_t *bytes = NULL;
		struct snap_log *log = make_log();
		size_t size;

		begin_story(log);
		go_on(log);
		run_waits(log);
		run_wakes(log);
		explain(log);
		cases[i].spoil(log);
		fine(snap_log_write(log, fd));
		bytes = slurp(fd, &size);
		expect_refused(bytes, size, cases[i].message);
		snap_log_destroy(log);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_off_anywhere),    cmocka_unit_test(test_flipped_anywhere),
		cmocka_unit_test(test_hostile_values),      cmocka_unit_test(test_what_is_said),
		cmocka_unit_test(test_waits_hold_together),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
