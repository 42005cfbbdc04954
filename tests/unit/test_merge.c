/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Documents of many hosts merged: golden files; random documents in random trees of merges give the
 * same bytes; what is broken, doubled or of another version is told and changes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/options.h"
#include "golden.h"
#include "merge/input.h"
#include "merge/sets.h"
#include "render/merged/merged.h"
#include "schema.h"
#include "snapshots.h"
#include "task_snapshots.h"

#include <sys/mman.h>

/* A merger and all that it told. */
struct bed {
	struct snap_merge_input input;
	struct snap_options options;
	struct snap_buffer told;
};

static void note(void *context, const char *line)
{
	struct bed *bed = context;

	snap_buffer_printf(&bed->told, "%s\n", line);
}

static void bed_init(struct bed *bed)
{
	*bed = (struct bed){ .input = { .merger = snap_merger_create(), .tell = note } };
	assert_non_null(bed->input.merger);
	snap_options_init(&bed->options);
	bed->options.utf8 = true;
	bed->input.options = &bed->options;
	bed->input.context = bed;
}

static void bed_deinit(struct bed *bed)
{
	snap_merger_destroy(bed->input.merger);
	snap_options_deinit(&bed->options);
	snap_buffer_deinit(&bed->told);
}

static void add_bytes(struct bed *bed, const char *bytes, size_t size)
{
	_cleanup_fd_ int fd = memfd_create("documents", MFD_CLOEXEC);

	bed->input.context = bed;
	bed->input.options = &bed->options;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_null(snap_merge_input(&bed->input, fd, "FILE"));
}

static void add(struct bed *bed, const char *text)
{
	add_bytes(bed, text, strlen(text));
}

static char *render(const struct bed *bed, const char *format)
{
	_cleanup_(snap_merged_destroyp) struct snap_merged *merged = NULL;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_null(snap_merger_finish(bed->input.merger, &merged));
	assert_null(snap_render_merged(merged, &bed->options, format, out));
	assert_int_equal(fclose(out), 0);
	return text;
}

/* What comes of some texts, one after the other. */
static char *merge(const char *const *texts, size_t count, const char *format)
{
	_cleanup_(bed_deinit) struct bed bed;

	bed_init(&bed);
	for (size_t i = 0; i < count; i++)
		add(&bed, texts[i]);
	return render(&bed, format);
}

/* A snapshot as that of another host, at another time. */
static char *of_host(const struct snap_snapshot *snapshot, const char *name, int64_t time_ns)
{
	struct snap_snapshot copy = *snapshot;
	struct snap_options options = { 0 };

	copy.host.name = name;
	copy.time_ns = time_ns;
	return golden_render(snap_render_json, &copy, &options, NULL);
}

static const int64_t SECOND = 1000000000, NOON = 1764000000000000000;

/* ---- golden files ---- */

/* 40 hosts with the service, one of which lacks it and has something else. */
static void add_fleet(struct bed *bed)
{
	for (int i = 0; i < 40; i++) {
		char name[16];
		_cleanup_free_ char *text = NULL;

		snprintf(name, sizeof(name), "web-%02d", i);
		text = of_host(i == 17 ? &gitea : &service, name, NOON + i % 7 * SECOND);
		add(bed, text);
	}
}

static void test_golden(void **state _unused_)
{
	_cleanup_(bed_deinit) struct bed bed;
	_cleanup_free_ char *json = NULL, *text = NULL, *line = NULL;

	bed_init(&bed);
	add_fleet(&bed);
	assert_int_equal(bed.input.taken, 40);
	json = render(&bed, "json");
	text = render(&bed, "text");
	line = render(&bed, "jsonl");
	schema_check("../merged/stacksnap-merged.schema.json", json);
	schema_check("../merged/stacksnap-merged.schema.json", line);
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
	golden_check("merged.document", json);
	golden_check("merged.txt", text);
}

static void test_hostile(void **state _unused_)
{
	_cleanup_free_ char *first = of_host(&hostile, "a\x1b[31m", NOON),
			    *second = of_host(&hostile_gitea, "\xe2\x80\xae", NOON), *json = NULL,
			    *again = NULL, *text = NULL;
	const char *const texts[] = { first, second };

	json = merge(texts, 2, "json");
	schema_check("../merged/stacksnap-merged.schema.json", json);
	again = merge((const char *const[]){ json }, 1, "json");
	text = merge(texts, 2, "text");
	assert_string_equal(json, again);
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (unsigned char)*at >= 0x20);
}

/* ---- the shape of the tree ---- */

struct random {
	uint64_t state;
};

static unsigned draw(struct random *random, unsigned below)
{
	random->state = snap_hash_mix(random->state + 0x1234567);
	return (unsigned)(random->state % below);
}

/* Functions, files and builds of which the stacks of all hosts are made. */
static void put_entries(struct snap_buffer *out, unsigned id, struct random *random)
{
	snap_buffer_add_text(out, "\"entries\": [");
	for (unsigned i = 0; i < 1 + id % 5; i++)
		snap_buffer_printf(
			out,
			"%s{\"function\": \"f%u\\u003c\xc3\xa9\\\\x%02x\", \"line\": %u, "
			"\"module\": "
			"\"/lib/m%u\", \"build_id\": \"%02x\", \"offset\": \"0x%x\", \"address\": "
			"\"0x%x\"}",
			i ? ",\n" : "", id + i, 1 + id % 200, 1 + i, i % 3, draw(random, 3) / 2,
			draw(random, 4), draw(random, 1000));
	snap_buffer_add_text(out, "]");
}

static void put_stack(struct snap_buffer *out, struct random *random, bool first)
{
	unsigned id = draw(random, 12), threads = 1 + draw(random, 4);

	snap_buffer_printf(out,
			   "%s\n{\"id\": \"%016x\", \"count\": %u, \"description\": \"d%u\", "
			   "\"labels\": {\"thread_name\": \"t%u\", \"state\": \"sleeping\", \"x\": "
			   "\"%u\"}, \"unwind\": \"%s\", \"threads\": [",
			   first ? "" : ",", id + 1, threads, draw(random, 2), draw(random, 2), id,
			   draw(random, 5) ? "complete" : "scanned");
	for (unsigned i = 0; i < threads; i++)
		snap_buffer_printf(out,
				   "%s{\"tid\": %u, \"name\": \"n%u\", \"wait\": {\"a\": [1]}}",
				   i ? ", " : "", 100 + draw(random, 900), draw(random, 3));
	snap_buffer_add_text(out, "], ");
	put_entries(out, id, random);
	snap_buffer_add_text(out, "}");
}

static char *random_document(struct random *random, unsigned host, unsigned time)
{
	struct snap_buffer out = { 0 };
	unsigned processes = 1 + draw(random, 3);

	snap_buffer_printf(&out,
			   "{\"schema\": \"stacksnap.snapshot\", \"schema_version\": 1,\n\"host\": "
			   "{\"name\": \"h%u\", \"boot_id\": \"b%u\"}, \"time\": "
			   "\"2026-11-20T07:%02u:00.000000000Z\",\n\"processes\": [",
			   host, host % 3, time);
	for (unsigned i = 0; i < processes; i++) {
		unsigned stacks = draw(random, 6);

		snap_buffer_printf(&out, "%s{\"pid\": %u, \"name\": \"p%u\", \"stacks\": [",
				   i ? ", " : "", 1 + draw(random, 50), i);
		for (unsigned k = 0; k < stacks; k++)
			put_stack(&out, random, k == 0);
		snap_buffer_add_text(&out, "], \"children\": []}");
	}
	snap_buffer_add_text(&out, "]}\n");
	assert_false(out.failed);
	return snap_buffer_take(&out, NULL);
}

/* Merges neighbours, a few at a time, until one is left. Consumes the texts. */
static char *merge_tree(char **texts, size_t count, struct random *random)
{
	while (count > 1) {
		size_t at = draw(random, (unsigned)count - 1), width = 2 + draw(random, 4),
		       end = at + width;
		char *merged;

		end = end < count ? end : count;
		merged = merge((const char *const *)texts + at, end - at,
			       draw(random, 2) ? "json" : "jsonl");
		for (size_t i = at; i < end; i++)
			free(texts[i]);
		memmove(texts + at + 1, texts + end, (count - end) * sizeof(*texts));
		count -= end - at - 1;
		texts[at] = merged;
	}
	return texts[0];
}

static void shuffle(char **texts, size_t count, struct random *random)
{
	for (size_t i = count; i > 1; i--) {
		size_t other = draw(random, (unsigned)i);
		char *text = texts[i - 1];

		texts[i - 1] = texts[other];
		texts[other] = text;
	}
}

static void test_any_tree(void **state _unused_)
{
	enum { DOCUMENTS = 30, TREES = 12, ROUNDS = 8 };
	struct random random = { 7 };

	for (int round = 0; round < ROUNDS; round++) {
		char *documents[DOCUMENTS], *expected;

		for (unsigned i = 0; i < DOCUMENTS; i++)
			documents[i] = random_document(&random, i % 20, i / 20 * 7 + i % 3);
		expected = merge((const char *const *)documents, DOCUMENTS, "json");
		schema_check("../merged/stacksnap-merged.schema.json", expected);
		for (int tree = 0; tree < TREES; tree++) {
			char *texts[DOCUMENTS], *got, *json;

			for (size_t i = 0; i < DOCUMENTS; i++)
				texts[i] = strdup(documents[i]);
			shuffle(texts, DOCUMENTS, &random);
			got = merge_tree(texts, DOCUMENTS, &random);
			json = merge((const char *const[]){ got }, 1, "json");
			assert_string_equal(json, expected);
			free(got);
			free(json);
		}
		for (size_t i = 0; i < DOCUMENTS; i++)
			free(documents[i]);
		free(expected);
	}
}

/* Two documents of a host at two times count one host, and each of their threads. */
static void test_one_host_twice(void **state _unused_)
{
	_cleanup_free_ char *first = of_host(&service, "a", NOON),
			    *second = of_host(&service, "a", NOON + SECOND),
			    *left = merge((const char *const[]){ first }, 1, "json"),
			    *right = merge((const char *const[]){ second }, 1, "json"),
			    *both = merge((const char *const[]){ left, right }, 2, "json");

	assert_non_null(strstr(both, "\"host_count\": 1, \"document_count\": 2"));
	assert_non_null(strstr(both, "\"host_count\": 1, \"process_count\": 2, \"thread_count\": "
				     "24"));
	assert_null(strstr(both, "\"host_count\": 2"));
}

/* The same stacks, of another build of the program: the same groups, and a line that tells. */
static void test_builds(void **state _unused_)
{
	_cleanup_free_ char *a = of_host(&service, "a", NOON), *b = of_host(&service, "b", NOON),
			    *same = merge((const char *const[]){ a, b }, 2, "text"), *other = NULL;

	assert_null(strstr(same, "builds differ"));
	for (char *at = b; (at = strstr(at, "feedc0de"));)
		memcpy(at, "feedc0df", 8);
	other = merge((const char *const[]){ a, b }, 2, "text");
	assert_non_null(strstr(other, "\nbuilds differ: /srv/orders/orderd  feedc0de on 1 host; "
				      "feedc0df on 1 host (b)\n"));
	assert_null(strstr(other, "on 1 of 2 hosts"));
}

/* ---- waits ---- */

/* Hosts with a deadlock, whichever way they were merged; one that is not sure, or ends, is none. */
static void test_deadlocks(void **state _unused_)
{
	struct snap_snapshot with = service;
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN);
	struct snap_wait_link link = { .pid = 9, .tid = 9, .wait = &wait };
	struct snap_deadlock deadlock = {
		.certain = true, .until_ns = -1, .threads = &link, .thread_count = 1, .size = 1
	};
	_cleanup_free_ char *a = NULL, *b = of_host(&service, "b", NOON), *c = NULL, *d = NULL,
			    *some = NULL, *json = NULL, *text = NULL;

	with.waits = (struct snap_waits){
		.asked = true, .deadlocks = &deadlock, .deadlock_count = 1, .deadlock_total = 1
	};
	c = of_host(&with, "c", NOON);
	a = of_host(&with, "a", NOON);
	deadlock.timed = true;
	d = of_host(&with, "d", NOON);
	some = merge((const char *const[]){ d, c }, 2, "json");
	json = merge((const char *const[]){ some, b, a }, 3, "json");
	text = merge((const char *const[]){ a, b, c, d }, 4, "text");
	schema_check("../merged/stacksnap-merged.schema.json", json);
	assert_non_null(strstr(json, "\"deadlock_hosts\": \"0,2\""));
	assert_non_null(strstr(text, "\nDEADLOCK  on 2 hosts: a, c (waits are in the merged "
				     "documents alone)\n"));
	free(snap_take_ptr(json));
	json = merge((const char *const[]){ b, d }, 2, "json");
	assert_null(strstr(json, "deadlock_hosts"));
}

/* ---- what is not taken ---- */

static void test_twice(void **state _unused_)
{
	_cleanup_(bed_deinit) struct bed bed;
	_cleanup_free_ char *a = of_host(&service, "a", NOON), *b = of_host(&service, "b", NOON),
			    *merged = merge((const char *const[]){ a, b }, 2, "json"), *got = NULL;

	bed_init(&bed);
	add(&bed, merged);
	add(&bed, a);
	assert_non_null(strstr(snap_buffer_text(&bed.told), "FILE: document 1 counts once"));
	assert_int_equal(bed.input.twice, 1);
	assert_int_equal(bed.input.skipped, 0);
	got = render(&bed, "json");
	assert_string_equal(got, merged);
	add(&bed, merged);
	assert_int_equal(bed.input.skipped, 1);
	assert_non_null(strstr(snap_buffer_text(&bed.told), "document 1 is skipped: it holds a "
							    "document that is there already"));
}

/* Adds the text between two good documents, which must be taken, and looks at what was told. */
static void check_skipped(const char *text, size_t size, size_t skipped, const char *told)
{
	_cleanup_(bed_deinit) struct bed bed;
	_cleanup_free_ char *a = of_host(&service, "a", NOON), *b = of_host(&service, "b", NOON),
			    *got = NULL,
			    *expected = merge((const char *const[]){ a, b }, 2, "json");
	_cleanup_(snap_buffer_deinit) struct snap_buffer stream = { 0 };

	bed_init(&bed);
	snap_buffer_add_text(&stream, a);
	snap_buffer_add(&stream, text, size);
	snap_buffer_add_text(&stream, "\n");
	snap_buffer_add_text(&stream, b);
	add_bytes(&bed, stream.data, stream.size);
	got = render(&bed, "json");
	assert_string_equal(got, expected);
	assert_int_equal(bed.input.skipped, skipped);
	if (!strstr(snap_buffer_text(&bed.told), told))
		fail_msg("told: %s", snap_buffer_text(&bed.told));
}

static void check_text(const char *text, const char *told)
{
	check_skipped(text, strlen(text), 1, told);
}

#define HEAD "{\"schema\": \"stacksnap.snapshot\", \"schema_version\": 1, "
#define HOST "\"host\": {\"name\": \"x\"}, \"time\": \"2026-11-20T07:52:18.106000000Z\", "

static void test_bad_documents(void **state _unused_)
{
	check_text("hello", "it is broken: not a JSON document");
	check_text("{\"schema\": \"other\"}", "not a snapshot of stacksnap");
	check_text("[]", "not a snapshot of stacksnap");
	check_text("{\"schema\": \"stacksnap.snapshot\", \"schema_version\": 2, " HOST
		   "\"processes\": []}",
		   "schema version 2 is too new");
	check_text(HEAD "\"processes\": []}", "invalid value of \"host\"");
	check_text(HEAD "\"host\": {\"name\": \"x\"}, \"processes\": []}", "\"time\"");
	check_text(HEAD HOST "\"processes\": {}}", "invalid value of \"processes\"");
	check_text(HEAD HOST "\"processes\": [1]}", "an array of objects");
	check_text(HEAD HOST "\"processes\": [{\"stacks\": []}]}", "\"pid\"");
	check_text(HEAD HOST "\"processes\": [{\"pid\": 1, \"stacks\": [{\"id\": \"12\", "
			     "\"entries\": []}]}]}",
		   "\"id\"");
	check_text(HEAD HOST "\"processes\": [{\"pid\": 1, \"stacks\": [{\"id\": "
			     "\"0123456789abcdef\", \"count\": 2, \"threads\": [{\"tid\": 1}], "
			     "\"entries\": []}]}]}",
		   "as many threads as its count");
	check_text(HEAD HOST "\"processes\": [], \"processes\": []}", "a key that comes twice");
	check_text(HEAD HOST "\"processes\": [", "the document ends in the middle");
	check_text("{\"schema\": \"stacksnap.merged\", \"schema_version\": 1, \"hosts\": "
		   "[{\"name\": \"x\", \"times\": [\"2026-11-20T07:52:18.106000000Z\"]}], "
		   "\"modules\": [], \"groups\": [{\"id\": \"0123456789abcdef\", "
		   "\"process_count\": 1, \"thread_count\": 1, \"hosts\": \"1\", \"examples\": [], "
		   "\"entries\": []}]}",
		   "numbers of hosts such as 0-3,7");
	check_skipped("[\0]", 3, 1, "broken");
}

static void test_deep_document(void **state _unused_)
{
	_cleanup_(snap_buffer_deinit) struct snap_buffer text = { 0 };

	snap_buffer_add_text(&text, HEAD HOST "\"processes\": [");
	for (int i = 0; i < 10000; i++)
		snap_buffer_add_text(&text, "{\"children\": [");
	check_skipped(text.data, text.size, 1, "too many values in each other");
}

/* A document that is cut at any place is told, and the ones around it count. */
static void test_cut_document(void **state _unused_)
{
	_cleanup_free_ char *whole = of_host(&service, "x", NOON);

	for (size_t size = 1; size < strlen(whole) - 2; size += 97)
		check_skipped(whole, size, 1, "document 2 is skipped: it is broken");
}

/* Lines of other programs: keys sorted, so that no line begins with the schema. */
static void test_lines_of_others(void **state _unused_)
{
	_cleanup_(bed_deinit) struct bed bed;

	bed_init(&bed);
	add(&bed, "{\"host\": {\"name\": \"a\"}, \"processes\": [], \"schema\": "
		  "\"stacksnap.snapshot\", \"schema_version\": 1, \"time\": "
		  "\"2026-11-20T07:52:18.106000000Z\"}\n{\"host\": \n{\"host\": {\"name\": \"b\"}, "
		  "\"processes\": [], \"schema\": \"stacksnap.snapshot\", \"schema_version\": 1, "
		  "\"time\": \"2026-11-20T07:52:18.106000000Z\"}");
	assert_int_equal(bed.input.taken, 1);
	assert_int_equal(bed.input.skipped, 1);
}

/* --group-by without the process: threads say whose they are. A process counts once. */
static void test_groups_of_all_processes(void **state _unused_)
{
	static const char text[] =
		HEAD HOST "\"stacks\": [{\"id\": \"0123456789abcdef\", \"count\": 3, \"threads\": "
			  "[{\"pid\": 2, \"tid\": 2}, {\"pid\": 1, \"tid\": 4}, {\"pid\": 1, "
			  "\"tid\": 3}], \"entries\": []}], \"processes\": [{\"pid\": 1, \"name\": "
			  "\"a\"}, {\"pid\": 2, \"name\": \"b\"}]}";
	_cleanup_free_ char *got = merge((const char *const[]){ text }, 1, "json");

	assert_non_null(strstr(got, "\"process_count\": 2, \"thread_count\": 3"));
	assert_non_null(strstr(got, "\"pid\": 1, \"process\": \"a\", \"tid\": 3}"));
}

/* A document that begins at any place of a block that is read. */
static void test_block_edges(void **state _unused_)
{
	enum { BLOCK = 1 << 18, AROUND = 14 };
	_cleanup_free_ char *a = of_host(&service, "a", NOON), *b = of_host(&service, "b", NOON),
			    *expected = merge((const char *const[]){ a, b }, 2, "json");

	for (size_t at = BLOCK - AROUND; at < BLOCK + AROUND; at++) {
		_cleanup_(snap_buffer_deinit) struct snap_buffer stream = { 0 };
		_cleanup_(bed_deinit) struct bed bed;
		_cleanup_free_ char *got = NULL;

		snap_buffer_add_text(&stream, a);
		while (stream.size < at - 1)
			snap_buffer_add_byte(&stream, ' ');
		snap_buffer_add_text(&stream, "\n");
		snap_buffer_add_text(&stream, b);
		bed_init(&bed);
		add_bytes(&bed, stream.data, stream.size);
		got = render(&bed, "json");
		assert_string_equal(got, expected);
		assert_int_equal(bed.input.skipped, 0);
	}
}

/* Labels whose keys are written in another way, or come to the same. */
static void test_labels_of_others(void **state _unused_)
{
	static const char form[] =
		HEAD "\"host\": {\"name\": \"%s\"}, \"time\": \"2026-11-20T07:52:18.106000000Z\", "
		     "\"processes\": [{\"pid\": 1, \"stacks\": [{\"id\": \"0123456789abcdef\", "
		     "\"count\": 1, \"labels\": {%s}, \"threads\": [{\"tid\": 1}], \"entries\": "
		     "[]}]}]}\n";
	char a[1024], b[1024], c[1024];
	const char *texts[] = { a, b, c };

	snprintf(a, sizeof(a), form, "a", "\"z\": \"1\", \"\\u0061\": \"2\", \"b\": \"3\"");
	snprintf(b, sizeof(b), form, "b", "\"b\": \"3\", \"\\\\x61\": \"9\", \"a\": \"2\"");
	snprintf(c, sizeof(c), form, "c", "\"a\": \"2\", \"z\": \"1\"");
	for (size_t last = 0; last < 3; last++) {
		const char *const others[] = { texts[(last + 1) % 3], texts[(last + 2) % 3] };
		_cleanup_free_ char *first = merge(others, 2, "json"),
				    *all = merge((const char *const[]){ texts[last], first }, 2,
						 "json");

		schema_check("../merged/stacksnap-merged.schema.json", all);
		assert_non_null(strstr(all, "\"labels\": {\"a\": \"2\"}"));
	}
}

/* ---- sets ---- */

static void test_sets(void **state _unused_)
{
	enum { MOST = 64 };
	struct random random = { 3 };

	for (int round = 0; round < 200; round++) {
		struct snap_host_set set = { 0 };
		bool has[MOST] = { false };
		size_t size = 0, seen = 0;

		for (int i = 0; i < 80; i++) {
			unsigned host = draw(&random, MOST);

			size += !has[host];
			has[host] = true;
			assert_true(snap_host_set_add(&set, host));
		}
		assert_int_equal(snap_host_set_size(&set), size);
		for (size_t i = 0; i < set.count; i++) {
			assert_true(i == 0 || set.ranges[i].first > set.ranges[i - 1].last + 1);
			for (uint32_t k = set.ranges[i].first; k <= set.ranges[i].last; k++, seen++)
				assert_true(has[k]);
		}
		assert_int_equal(seen, size);
		free(set.ranges);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_any_tree),
		cmocka_unit_test(test_one_host_twice),
		cmocka_unit_test(test_builds),
		cmocka_unit_test(test_groups_of_all_processes),
		cmocka_unit_test(test_deadlocks),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_bad_documents),
		cmocka_unit_test(test_deep_document),
		cmocka_unit_test(test_cut_document),
		cmocka_unit_test(test_lines_of_others),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_block_edges),
		cmocka_unit_test(test_labels_of_others),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
