/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The writer of JSON, render/json/writer.h, and the figures of a run, render/view/figures.h. */
#include "render/json/writer.h"
#include "render/view/figures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct bed {
	struct snap_buffer buffer;
	struct snap_json_writer *json;
};

static void bed_deinit(struct bed *bed)
{
	snap_json_writer_destroy(bed->json);
	snap_buffer_deinit(&bed->buffer);
}

static struct snap_json_writer *bed_init(struct bed *bed, enum snap_json_style style)
{
	*bed = (struct bed){ 0 };
	bed->json = snap_json_writer_create_in(&bed->buffer, style);
	assert_non_null(bed->json);
	return bed->json;
}

static const char *written(struct bed *bed)
{
	snap_json_flush(bed->json);
	return snap_buffer_text(&bed->buffer);
}

static void test_numbers_and_texts(void **state _unused_)
{
	_cleanup_(bed_deinit) struct bed bed;
	struct snap_json_writer *json = bed_init(&bed, SNAP_JSON_COMPACT);

	snap_json_begin(json, NULL, '[');
	snap_json_number(json, NULL, INT64_MIN);
	snap_json_decimal(json, NULL, -1500, 3);
	snap_json_decimal(json, NULL, 1000000007, 9);
	snap_json_decimal(json, NULL, 42000, 3);
	snap_json_decimal(json, NULL, 42, 0);
	snap_json_hex(json, NULL, 0x7f00deadbeefull);
	snap_json_hex(json, NULL, 0);
	snap_json_text(json, NULL, "a\"b\\c\033[31m");
	snap_json_text(json, NULL, NULL);
	snap_json_bool(json, NULL, true);
	snap_json_bool(json, NULL, false);
	snap_json_null(json, NULL);
	snap_json_end(json, ']');
	assert_string_equal(written(&bed), "[-9223372036854775808,-1.5,1.000000007,42,42,"
					   "\"0x7f00deadbeef\",\"0x0\","
					   "\"a\\\"b\\\\\\\\c\\\\x1b[31m\",\"\",true,false,null]");
}

/* Objects in arrays in objects, each empty, with one and with two values; two documents. */
static void put_nested(struct snap_json_writer *json)
{
	snap_json_begin(json, NULL, '{');
	snap_json_number(json, "a", 1);
	snap_json_begin(json, "b", '[');
	snap_json_begin(json, NULL, '{');
	snap_json_end(json, '}');
	snap_json_line(json);
	snap_json_begin(json, NULL, '[');
	snap_json_end(json, ']');
	snap_json_raw(json, NULL, "2, 3");
	snap_json_line(json);
	snap_json_end(json, ']');
	snap_json_line(json);
	snap_json_begin(json, "c", '{');
	snap_json_line(json);
	snap_json_clean(json, "d", "e");
	snap_json_end(json, '}');
	snap_json_end(json, '}');
	snap_json_end_document(json);
	snap_json_begin(json, NULL, '[');
	snap_json_end(json, ']');
	snap_json_end_document(json);
}

static void test_commas_and_lines_by_style(void **state _unused_)
{
	static const char *const expected[] = {
		[SNAP_JSON_COMPACT] =
			"{\"a\":1,\"b\":[{},\n[],2, 3\n],\n\"c\":{\n\"d\":\"e\"}}\n[]\n",
		[SNAP_JSON_SPACED] =
			"{\"a\": 1, \"b\": [{},\n[], 2, 3\n],\n\"c\": {\n\"d\": \"e\"}}\n[]\n",
		[SNAP_JSON_ONE_LINE] =
			"{\"a\": 1, \"b\": [{}, [], 2, 3], \"c\": {\"d\": \"e\"}}\n[]\n",
	};

	for (unsigned style = 0; style < SNAP_ARRAY_SIZE(expected); style++) {
		_cleanup_(bed_deinit) struct bed bed;

		put_nested(bed_init(&bed, style));
		assert_string_equal(written(&bed), expected[style]);
	}
}

static void test_absent_values_take_no_comma(void **state _unused_)
{
	_cleanup_(bed_deinit) struct bed bed;
	struct snap_json_writer *json = bed_init(&bed, SNAP_JSON_SPACED);

	snap_json_begin(json, NULL, '{');
	snap_json_text_if(json, "a", NULL);
	snap_json_text_if(json, "b", "");
	snap_json_number_if(json, "c", 0);
	snap_json_true_if(json, "d", false);
	snap_json_time_if(json, "e", 0);
	snap_json_text_if(json, "f", "x");
	snap_json_number_if(json, "g", -1);
	snap_json_true_if(json, "h", true);
	snap_json_time_if(json, "i", 1000000001);
	snap_json_end(json, '}');
	assert_string_equal(written(&bed), "{\"f\": \"x\", \"g\": -1, \"h\": true, "
					   "\"i\": \"1970-01-01T00:00:01.000000001Z\"}");
}

/* Whatever lies across the end of the writer's own buffer comes out whole. */
static void test_long_documents_are_whole(void **state _unused_)
{
	enum { LONG = SNAP_JSON_BUFFER + 100, COUNT = 3 * SNAP_JSON_BUFFER / 7 };
	_cleanup_(bed_deinit) struct bed bed;
	struct snap_json_writer *json = bed_init(&bed, SNAP_JSON_COMPACT);
	_cleanup_free_ char *text = malloc(LONG + 1);
	const char *at;

	memset(text, 'x', LONG);
	text[LONG] = '\0';
	snap_json_begin(json, NULL, '[');
	for (int i = 0; i < COUNT; i++)
		snap_json_number(json, NULL, 100000 + i);
	snap_json_clean(json, NULL, text);
	snap_json_end(json, ']');
	at = written(&bed);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(*at, i ? ',' : '[');
		assert_int_equal(strtol(at + 1, NULL, 10), 100000 + i);
		at += 7;
	}
	assert_memory_equal(at, ",\"xxx", 5);
	assert_int_equal(strlen(at), LONG + 4);
	assert_string_equal(at + LONG + 1, "x\"]");
}

static void test_figures_have_the_same_decimals_everywhere(void **state _unused_)
{
	static const struct {
		enum snap_figure figure;
		const char *text;
	} rows[] = {
		{ SNAP_FIGURE_HZ_ASKED, "99 Hz" },
		{ SNAP_FIGURE_HZ_REACHED, "98.7 Hz" },
		{ SNAP_FIGURE_TICKS, "990" },
		{ SNAP_FIGURE_TICKS_MISSED, "0" },
		{ SNAP_FIGURE_DURATION, "10.00 s" },
		{ SNAP_FIGURE_STOPPED, "30.1 ms" },
		{ SNAP_FIGURE_STOPPED_PERCENT, "0.30 %" },
	};
	struct snap_recording recording = { .stats = { .hz_asked = 99,
						       .hz_reached = 98.65432,
						       .ticks = 990,
						       .duration_ns = 10000000000,
						       .elapsed_ns = 20000000000,
						       .stopped_ns = 30123456 } };
	_cleanup_(bed_deinit) struct bed bed;
	struct snap_json_writer *json = bed_init(&bed, SNAP_JSON_COMPACT);
	char text[SNAP_WHEN_SIZE];

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		assert_string_equal(snap_figure_text(&recording.stats, rows[i].figure, text),
				    rows[i].text);
	for (unsigned i = 0; i < SNAP_FIGURE_COUNT; i++)
		assert_non_null(snap_figure_label(i));
	snap_json_begin(json, NULL, '{');
	snap_figures_put(json, &recording);
	snap_json_end(json, '}');
	assert_non_null(
		strstr(written(&bed), "{\"hz_asked\":99,\"hz_reached\":98.654,\"ticks\":990,"));
	assert_non_null(strstr(written(&bed), ",\"stopped_percent\":0.3012,"));
}

/* A recording file may say anything. */
static void test_figures_that_are_no_numbers_are_none(void **state _unused_)
{
	struct snap_recording_stats stats = {
		.hz_asked = NAN, .hz_reached = INFINITY, .duration_ns = -1, .stopped_ns = INT64_MAX
	};
	char text[SNAP_WHEN_SIZE];

	assert_string_equal(snap_figure_text(&stats, SNAP_FIGURE_HZ_ASKED, text), "0 Hz");
	assert_string_equal(snap_figure_text(&stats, SNAP_FIGURE_HZ_REACHED, text), "0 Hz");
	assert_string_equal(snap_figure_text(&stats, SNAP_FIGURE_STOPPED_PERCENT, text), "0.00 %");
	stats.hz_reached = -5;
	assert_string_equal(snap_figure_text(&stats, SNAP_FIGURE_HZ_REACHED, text), "0 Hz");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_and_texts),
		cmocka_unit_test(test_commas_and_lines_by_style),
		cmocka_unit_test(test_absent_values_take_no_comma),
		cmocka_unit_test(test_long_documents_are_whole),
		cmocka_unit_test(test_figures_have_the_same_decimals_everywhere),
		cmocka_unit_test(test_figures_that_are_no_numbers_are_none),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
