/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Snapshots read back from their JSON: the same bytes again, filters, and documents that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/filter.h"
#include "api/options.h"
#include "golden.h"
#include "schema.h"
#include "store/json/read.h"
#include "task_snapshots.h"
#include "wait_rows.h"

#include <sys/mman.h>

static int file_with(const char *text, size_t size)
{
	int fd = memfd_create("document", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), (ssize_t)size);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static struct snap_snapshot *read_text(const char *text)
{
	_cleanup_fd_ int fd = file_with(text, strlen(text));
	struct snap_snapshot *snapshot = NULL;
	struct stacksnap_error *err = snap_snapshot_read_json(fd, &snapshot);

	if (err)
		fail_msg("%s", snap_error_message(err));
	return snapshot;
}

static void check_round_trip(const struct snap_snapshot *snapshot)
{
	struct snap_options options = { 0 };
	_cleanup_free_ char *first = golden_render(snap_render_json, snapshot, &options, NULL);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = read_text(first);
	_cleanup_free_ char *second = golden_render(snap_render_json, back, &options, NULL);
	struct snap_options text_options = { .utf8 = true, .verbose = 1 };
	_cleanup_free_ char *text = golden_render(snap_render_text, snapshot, &text_options, NULL);
	_cleanup_free_ char *text_back = golden_render(snap_render_text, back, &text_options, NULL);

	assert_string_equal(first, second);
	assert_string_equal(text, text_back);
}

static void test_same_bytes(void **state _unused_)
{
	struct snap_snapshot flat = flat_service(), trouble = all_troubled(),
			     empty = { .host = TEST_HOST, .time_ns = 1 };

	check_round_trip(&service);
	check_round_trip(&flat);
	check_round_trip(&trouble);
	check_round_trip(&hostile);
	check_round_trip(&empty);
}

static void test_tasks(void **state _unused_)
{
	struct snap_snapshot flat = flat_gitea();

	check_round_trip(&gitea);
	check_round_trip(&flat);
	check_round_trip(&hostile_gitea);
}

static void test_waits(void **state _unused_)
{
	struct snap_snapshot waiting = waiting_snapshot();
	struct snap_options options = { 0 };
	_cleanup_free_ char *json = golden_render(snap_render_json, &waiting, &options, NULL);

	check_round_trip(&waiting);
	schema_check("stacksnap-snapshot.schema.json", json);
}

/* What a document says of tasks is held to its form. */
static void test_tasks_refused(void **state _unused_)
{
	static const char *const changes[][2] = {
		{ "\"id\": \"web\", ", "" },
		{ "\"name\": \"(dead process)\", ", "" },
		{ "\"type\": \"dead\"", "\"type\": 7" },
		{ "\"count\": 4", "\"count\": 5" },
		{ "\"empty\": \"\"", "\"empty\": 7" },
		{ "\"tid\": 4109", "\"tid\": 0" },
		{ "\"cut\": \"time\"", "\"cut\": \"tame\"" },
		{ "\"type\": \"none\"", "\"id\": \"x\", \"type\": \"none\"" },
	};
	struct snap_options options = { 0 };
	_cleanup_free_ char *good = golden_render(snap_render_json, &gitea, &options, NULL);

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(changes); i++) {
		const char *at = strstr(good, changes[i][0]);
		_cleanup_free_ char *bad = NULL;

		assert_non_null(at);
		assert_true(asprintf(&bad, "%.*s%s%s", (int)(at - good), good, changes[i][1],
				     at + strlen(changes[i][0])) > 0);
		{
			_cleanup_fd_ int fd = file_with(bad, strlen(bad));
			struct snap_snapshot *snapshot = NULL;

			if (!snap_error_ignore(snap_snapshot_read_json(fd, &snapshot)))
				fail_msg("taken: %s", changes[i][1]);
		}
	}
}

static void test_trust(void **state _unused_)
{
	struct snap_frame by_scan = worker_frame, by_frame_pointer = thread_frame;
	const struct snap_frame *frames[] = { &futex_frame, &by_scan, &by_frame_pointer };
	struct snap_stack stack = service_stacks[0];
	struct snap_node node = { .pid = 1,
				  .description = "p",
				  .stacks = &stack,
				  .stack_count = 1,
				  .thread_count = stack.count };
	struct snap_node *roots[] = { &node };
	struct snap_snapshot snapshot = { .host = TEST_HOST,
					  .time_ns = 1,
					  .process_count = 1,
					  .thread_count = stack.count,
					  .stack_count = 1,
					  .processes = roots,
					  .root_count = 1 };
	struct snap_options options = { 0 };
	_cleanup_free_ char *json = NULL;

	by_scan.trust = SNAP_TRUST_SCAN;
	by_frame_pointer.trust = SNAP_TRUST_FRAME_POINTER;
	stack.frames = frames;
	stack.frame_count = SNAP_ARRAY_SIZE(frames);
	stack.unwind = SNAP_UNWIND_SCANNED;
	check_round_trip(&snapshot);
	json = golden_render(snap_render_json, &snapshot, &options, NULL);
	assert_non_null(strstr(json, "\"trust\": \"scan\""));
	assert_non_null(strstr(json, "\"trust\": \"frame_pointer\""));
	assert_non_null(strstr(json, "\"unwind\": \"scanned\""));
	assert_null(strstr(json, "\"cfi\""));
}

static void test_raw_bytes_come_back(void **state _unused_)
{
	struct snap_options options = { 0 };
	_cleanup_free_ char *text = golden_render(snap_render_json, &hostile, &options, NULL);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = read_text(text);
	const struct snap_node *node = back->processes[0];

	assert_string_equal(node->name, HOSTILE);
	assert_string_equal(node->args[0], HOSTILE);
	assert_string_equal(node->args[1], "");
	assert_string_equal(node->stacks[0].threads[0].name, HOSTILE);
	assert_string_equal(node->stacks[0].frames[0]->entries[0].file, HOSTILE "/file.c");
	assert_true(back->time_ns == 1);
}

/* Frames are the same objects where they were: a renderer's caches depend on it. */
static void test_frames_are_shared(void **state _unused_)
{
	struct snap_options options = { 0 };
	_cleanup_free_ char *text = golden_render(snap_render_json, &service, &options, NULL);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = read_text(text);
	const struct snap_stack *walk = &back->processes[0]->stacks[1],
				*work = &back->processes[0]->stacks[0],
				*flush = &back->processes[0]->stacks[2];

	assert_int_equal(walk->frame_count, 12);
	assert_ptr_equal(walk->frames[4], walk->frames[8]);
	assert_ptr_not_equal(walk->frames[3], walk->frames[4]);
	assert_int_equal(walk->gap_frame, 5);
	assert_int_equal(walk->gap_count, 9488);
	assert_int_equal(work->frames[3]->entry_count, 2);
	assert_ptr_equal(work->frames[6], flush->frames[5]);
	assert_int_equal(flush->frames[0]->address, 0);
	assert_true(back->processes[0]->children[0]->uid == 1001);
}

static void test_missing_is_derived(void **state _unused_)
{
	struct snap_options options = { 0 };
	struct snap_snapshot trouble = all_troubled();
	_cleanup_free_ char *text = golden_render(snap_render_json, &service, &options, NULL);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = read_text(text);
	_cleanup_free_ char *text2 = golden_render(snap_render_json, &trouble, &options, NULL);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back2 = read_text(text2);

	/* One could not be stopped, one is not shown. */
	assert_int_equal(back->missing.threads, 2);
	assert_int_equal(back->missing.processes, 0);
	assert_int_equal(back->missing.shown, 2);
	/* No such process, denied, traced, timeout, arch. */
	assert_int_equal(back2->missing.processes, 5);
	assert_int_equal(back2->missing.shown, 1);
	assert_int_equal(back2->missing.threads, 1);
}

/* ---- filters ---- */

static struct snap_snapshot *filtered(const struct snap_options *options)
{
	struct snap_options plain = { 0 };
	_cleanup_free_ char *text = golden_render(snap_render_json, &service, &plain, NULL);
	struct snap_snapshot *back = read_text(text);

	assert_null(snap_filter_snapshot(back, options, false));
	return back;
}

static void test_filter_of_states(void **state _unused_)
{
	struct snap_options options = { .states = 1u << SNAP_STATE_DISK };
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = filtered(&options);

	assert_int_equal(back->process_count, 1);
	assert_int_equal(back->thread_count, 2);
	assert_int_equal(back->stack_count, 2);
	assert_int_equal(back->processes[0]->child_count, 0);
	assert_int_equal(back->processes[0]->thread_count, 17);
	assert_int_equal(back->missing.threads, 2);
}

static void test_filter_of_threads(void **state _unused_)
{
	regex_t regex;
	struct snap_options options = { .thread_regex = &regex };
	const struct snap_stack *stack;

	assert_int_equal(regcomp(&regex, "^worker-(1|3)$|helper", REG_EXTENDED), 0);
	{
		_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = filtered(&options);

		assert_int_equal(back->process_count, 2);
		stack = &back->processes[0]->stacks[0];
		assert_int_equal(stack->count, 2);
		assert_int_equal(stack->threads[1].tid, 1250);
		assert_string_equal(stack->labels[1].value, "worker-*");
		/* Both were on one processor, as all were not. */
		assert_string_equal(stack->labels[3].key, "cpu");
	}
	regfree(&regex);
}

/* What is hidden is the parent; it stays for the sake of its child. */
static void test_filter_of_functions(void **state _unused_)
{
	regex_t regex;
	struct snap_options options = { .match_regex = &regex };

	assert_int_equal(regcomp(&regex, "^std::vector", REG_EXTENDED), 0);
	{
		_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = filtered(&options);

		assert_int_equal(back->process_count, 1);
		assert_int_equal(back->thread_count, 12);
	}
	regfree(&regex);
}

static void test_flat(void **state _unused_)
{
	struct snap_options options = { .flat = true }, plain = { 0 };
	struct snap_snapshot flat = flat_service();
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = filtered(&options);
	_cleanup_free_ char *got = golden_render(snap_render_json, back, &plain, NULL),
			    *wanted = golden_render(snap_render_json, &flat, &plain, NULL);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *again = read_text(wanted);
	_cleanup_free_ char *got_again = NULL;

	assert_string_equal(got, wanted);
	assert_null(snap_filter_snapshot(again, &plain, false));
	got_again = golden_render(snap_render_json, again, &plain, NULL);
	assert_string_equal(got_again, wanted);
}

static void test_no_filter_changes_nothing(void **state _unused_)
{
	struct snap_options options = { 0 };
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = filtered(&options);
	_cleanup_free_ char *got = golden_render(snap_render_json, back, &options, NULL),
			    *wanted = golden_render(snap_render_json, &service, &options, NULL);

	assert_string_equal(got, wanted);
}

/* ---- documents that lie ---- */

#define HEAD "{\"schema\": \"stacksnap.snapshot\", \"schema_version\": 1, "
#define PROCESS                                                                            \
	HEAD "\"processes\": [{\"pid\": 1, \"type\": \"normal\", \"state\": \"running\", " \
	     "\"thread_count\": 1, "
#define STACK                                                                \
	PROCESS "\"stacks\": [{\"id\": \"0123456789abcdef\", \"count\": 1, " \
		"\"description\": \"x\", \"labels\": {}, \"unwind\": \"complete\", "
#define THREAD "{\"tid\": 1, \"state\": \"running\", \"type\": \"user\"}"
#define THREADS "\"threads\": [" THREAD "], "

/* How many threads --no-idle shows of two processes, whose threads have these further keys. */
static size_t count_busy(const char *version, const char *first, const char *second)
{
	static const char process[] =
		"{\"pid\": %d, \"type\": \"normal\", \"state\": \"sleeping\", \"thread_count\": 1, "
		"\"stacks\": [{\"id\": \"0123456789abcdef\", \"count\": 1, \"description\": \"x\", "
		"\"labels\": {}, \"unwind\": \"limit\", \"threads\": [{\"tid\": %d, \"state\": "
		"\"sleeping\", \"type\": \"user\"%s}], \"entries\": [{\"address\": \"0x1\", "
		"\"function\": \"%s\", \"system\": true}]}]}";
	struct snap_options options = { .no_idle = true };
	_cleanup_free_ char *text = NULL, *one = NULL, *two = NULL;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	assert_true(asprintf(&one, process, 1, 1, first, "wait4") > 0);
	assert_true(asprintf(&two, process, 2, 2, second, "read") > 0);
	assert_true(asprintf(&text,
			     HEAD "\"tool\": {\"name\": \"stacksnap\", \"version\": \"%s\"}, "
				  "\"processes\": [%s, %s]}",
			     version, one, two) > 0);
	snapshot = read_text(text);
	assert_null(snap_filter_snapshot(snapshot, &options, false));
	return snapshot->thread_count;
}

/* By the whole stack, which a document may not have; one of another version may not say it. */
static void test_filter_of_idle(void **state _unused_)
{
	static const char idle[] = ", \"idle\": true";

	assert_int_equal(count_busy(SNAP_VERSION, "", ""), 2);
	assert_int_equal(count_busy(SNAP_VERSION, idle, ""), 1);
	assert_int_equal(count_busy(SNAP_VERSION, idle, idle), 0);
	assert_int_equal(count_busy("0.0.1", "", ""), 0);
}

/* Which reads what it writes waits for its child; which writes what it should read does not. */
static void test_filter_of_parents(void **state _unused_)
{
	static const char
		child[] = ", \"wait\": {\"kind\": \"child\", \"confidence\": \"certain\"}",
		reads[] = ", \"syscall\": \"read\", \"wait\": {\"kind\": \"pipe\", \"mode\": "
			  "\"read\", \"peers\": [{\"pid\": 1}], \"confidence\": "
			  "\"certain\"}",
		writes[] = ", \"syscall\": \"write\", \"wait\": {\"kind\": \"pipe\", "
			   "\"mode\": \"write\", \"peers\": [{\"pid\": 1}], "
			   "\"confidence\": \"certain\"}";

	assert_int_equal(count_busy("0.0.1", child, reads), 0);
	assert_int_equal(count_busy("0.0.1", "", reads), 1);
	assert_int_equal(count_busy("0.0.1", child, writes), 2);
}

static void test_wrong_documents(void **state _unused_)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "not a JSON document" },
		{ "[1]", "not a JSON object" },
		{ "{", "not a JSON document" },
		{ "{\"a\": 1, \"a\": 2}", "duplicate" },
		{ "{}", "not a stacksnap snapshot" },
		{ "{\"schema\": \"other\"}", "not a stacksnap snapshot" },
		{ "{\"schema\": \"stacksnap.snapshot\"}", "schema_version" },
		{ "{\"schema\": \"stacksnap.snapshot\", \"schema_version\": 2}", "too new" },
		{ "{\"schema\": \"stacksnap.snapshot\", \"schema_version\": 0}", "an integer" },
		{ HEAD "\"time\": \"2026-02-30T07:52:18.106000000Z\"}", "time" },
		{ HEAD "\"time\": \"2026-11-20 07:52:18.106000000Z\"}", "time" },
		{ HEAD "\"processes\": {}}", "array" },
		{ HEAD "\"processes\": [1]}", "objects" },
		{ HEAD "\"processes\": [null]}", "objects" },
		{ HEAD "\"processes\": [{\"pid\": 0}]}", "pid" },
		{ HEAD "\"processes\": [{\"pid\": 4294967296}]}", "pid" },
		{ HEAD "\"processes\": [{\"pid\": 1.5}]}", "pid" },
		{ HEAD "\"processes\": [{\"type\": \"normal\"}]}", "\"pid\"" },
		{ HEAD "\"processes\": [{\"pid\": 1, \"type\": \"odd\"}]}", "type" },
		{ PROCESS "\"name\": null}]}", "name" },
		{ PROCESS "\"name\": \"a\\\\x00b\"}]}", "name" },
		{ PROCESS "\"args\": [1]}]}", "args" },
		{ PROCESS "\"uid\": -1}]}", "uid" },
		{ PROCESS "\"error\": {\"code\": \"\"}}]}", "code" },
		{ PROCESS "\"stacks\": [{\"id\": \"0123\"}]}]}", "id" },
		{ PROCESS "\"stacks\": [{\"id\": \"0123456789ABCDEF\"}]}]}", "id" },
		{ STACK "\"threads\": []}]}]}", "threads" },
		{ STACK "\"threads\": [" THREAD ", " THREAD "]}]}]}", "threads" },
		{ STACK THREADS "\"entries\": [{}]}]}]}", "address" },
		{ STACK THREADS "\"entries\": [{\"address\": \"12\"}]}]}]}", "address" },
		{ STACK THREADS "\"entries\": [{\"address\": \"0x12345678901234567\"}]}]}]}",
		  "address" },
		{ STACK THREADS "\"entries\": [{\"address\": \"0x1\", \"inlined\": 1}]}]}]}",
		  "inlined" },
		{ STACK THREADS "\"entries\": [{\"address\": \"0x1\", \"line\": 4294967296}]}]}]}",
		  "line" },
		{ STACK THREADS "\"gap\": {\"after\": 1, \"count\": 1}, "
				"\"entries\": [{\"address\": \"0x1\"}]}]}]}",
		  "after" },
		{ HEAD "\"warnings\": [{\"code\": \"\\u001b\", \"message\": \"m\"}]}", "code" },
		{ HEAD "\"warnings\": [{\"code\": \"c\"}]}", "warnings" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_fd_ int fd = file_with(cases[i].text, strlen(cases[i].text));
		struct snap_snapshot *snapshot = NULL;
		_cleanup_(snap_error_destroyp) struct stacksnap_error *err =
			snap_snapshot_read_json(fd, &snapshot);

		if (!err)
			fail_msg("taken: %s", cases[i].text);
		assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
		if (!strstr(snap_error_message(err), cases[i].says))
			fail_msg("%s: %s", cases[i].text, snap_error_message(err));
		assert_null(snapshot);
	}
}

static void test_unknown_keys_are_left_alone(void **state _unused_)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = read_text(
		STACK THREADS "\"entries\": [{\"address\": \"0x1\", \"new\": [null]}], \"later\": "
			      "1.5}], \"x\": {}}], \"more\": null}");

	assert_int_equal(back->thread_count, 1);
	assert_true(back->flat);
}

/* No description, the first and the last moment, the longest stop: it can be printed. */
static void test_extremes(void **state _unused_)
{
	const struct snap_options plain = { .verbose = 1 }, summary = { .summary = true };
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = read_text(
		"{\"schema\": \"stacksnap.snapshot\", \"schema_version\": 1, \"time\": "
		"\"2262-04-11T23:47:16.854775807Z\", \"duration_ns\": 9223372036854775807, "
		"\"stop_duration_ns\": 9223372036854775807, \"processes\": [{\"pid\": 1, "
		"\"type\": \"normal\", \"state\": \"running\", \"start_time\": "
		"\"1677-09-21T00:12:44.000000000Z\", \"thread_count\": 1, \"stacks\": [{\"id\": "
		"\"0123456789abcdef\", \"count\": 1, \"unwind\": \"complete\", " THREADS
		"\"entries\": [{\"address\": \"0x1\"}]}]}]}");
	_cleanup_free_ char *text = golden_render(snap_render_text, back, &plain, NULL);
	_cleanup_free_ char *short_text = golden_render(snap_render_text, back, &summary, NULL);

	assert_non_null(strstr(text, "2262-04-11"));
	assert_non_null(strstr(short_text, "[1]"));
	assert_string_equal(back->processes[0]->stacks[0].description, "(unknown)");
	for (const struct snap_format *format = snap_formats; format->name; format++) {
		char *bytes = NULL;
		size_t size = 0;
		FILE *out = open_memstream(&bytes, &size);

		assert_null(snap_render_snapshot(format, back, &plain, out));
		fclose(out);
		free(bytes);
	}
}

/* Every cut of a document is refused, none is believed, none crashes. */
static void test_cut_documents(void **state _unused_)
{
	struct snap_options options = { 0 };
	size_t size;
	_cleanup_free_ char *text = golden_render(snap_render_json, &service, &options, &size);

	for (size_t cut = 0; cut < size - 2; cut += 7) {
		_cleanup_fd_ int fd = file_with(text, cut);
		struct snap_snapshot *snapshot = NULL;

		assert_true(snap_error_ignore(snap_snapshot_read_json(fd, &snapshot)));
	}
}

/* Bytes changed by chance: an error, or a snapshot that every renderer can print. */
static void test_changed_documents(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	uint64_t seed = 20261120;
	size_t size, taken = 0;
	_cleanup_free_ char *text = golden_render(snap_render_json, &gitea, &options, &size);
	_cleanup_free_ char *copy = malloc(size);

	assert_non_null(copy);
	for (int i = 0; i < 3000; i++) {
		struct snap_snapshot *snapshot = NULL;
		_cleanup_fd_ int fd = -1;

		memcpy(copy, text, size);
		for (int k = 0; k < 3; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			copy[(seed >> 33) % size] = "0123456789\",:{}[]xa"[(seed >> 20) % 19];
		}
		fd = file_with(copy, size);
		if (snap_error_ignore(snap_snapshot_read_json(fd, &snapshot)))
			continue;
		taken++;
		assert_null(snap_filter_snapshot(snapshot, &options, false));
		free(golden_render(snap_render_json, snapshot, &options, NULL));
		free(golden_render(snap_render_text, snapshot, &options, NULL));
		snap_snapshot_destroy(snapshot);
	}
	assert_true(taken > 0);
}

/* Few bytes that would take much memory: values beside what is known. */
static void test_dear_documents(void **state _unused_)
{
	static const char *const values[] = { "{}", "[]", "\"\"", "[[]]", "{\"a\":{}}" };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(values); i++) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);
		struct snap_snapshot *snapshot = NULL;
		struct stacksnap_error *err;

		fputs(HEAD "\"x\": [0", out);
		for (int k = 0; k < 300000; k++)
			fprintf(out, ",%s", values[i]);
		fputs("]}", out);
		assert_int_equal(fclose(out), 0);
		{
			_cleanup_fd_ int fd = file_with(text, size);

			err = snap_snapshot_read_json(fd, &snapshot);
		}
		free(text);
		assert_non_null(err);
		assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
		assert_non_null(strstr(snap_error_message(err), "too many values"));
		snap_error_destroy(err);
	}
}

/* What looks like values inside of texts is none. */
static void test_signs_in_texts(void **state _unused_)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputs(HEAD "\"processes\": [], \"x\": \"\\\"", out);
	for (int k = 0; k < 1000000; k++)
		fputs("{}", out);
	fputs("\"}", out);
	assert_int_equal(fclose(out), 0);
	snap_snapshot_destroy(read_text(text));
	free(text);
}

/* 900 processes deep: nothing recurses here. */
static void test_deep_tree(void **state _unused_)
{
	enum { DEPTH = 900 };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputs(HEAD "\"processes\": [", out);
	for (int i = 1; i <= DEPTH; i++)
		fprintf(out,
			"%s{\"pid\": %d, \"type\": \"normal\", \"state\": \"sleeping\", "
			"\"thread_count\": 0, \"stacks\": []",
			i > 1 ? ", \"children\": [" : "", i);
	for (int i = 1; i <= DEPTH; i++)
		fputs("}]", out);
	fputs("}", out);
	assert_int_equal(fclose(out), 0);
	{
		_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = read_text(text);

		assert_int_equal(back->process_count, DEPTH);
		assert_int_equal(back->root_count, 1);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_bytes),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_tasks_refused),
		cmocka_unit_test(test_trust),
		cmocka_unit_test(test_raw_bytes_come_back),
		cmocka_unit_test(test_frames_are_shared),
		cmocka_unit_test(test_missing_is_derived),
		cmocka_unit_test(test_filter_of_states),
		cmocka_unit_test(test_filter_of_threads),
		cmocka_unit_test(test_filter_of_functions),
		cmocka_unit_test(test_filter_of_idle),
		cmocka_unit_test(test_filter_of_parents),
		cmocka_unit_test(test_flat),
		cmocka_unit_test(test_no_filter_changes_nothing),
		cmocka_unit_test(test_wrong_documents),
		cmocka_unit_test(test_unknown_keys_are_left_alone),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_cut_documents),
		cmocka_unit_test(test_changed_documents),
		cmocka_unit_test(test_dear_documents),
		cmocka_unit_test(test_signs_in_texts),
		cmocka_unit_test(test_deep_tree),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
