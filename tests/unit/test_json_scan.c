/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The reader of JSON that keeps nothing: what it takes is what the tree reader takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "store/json/scan.h"

#include <jansson.h>
#include <string.h>

static const char *why;

/* Whether all of the text is one document. */
static bool scans(const char *text, size_t size)
{
	struct snap_json_scan *scan = calloc(1, sizeof(*scan));
	enum snap_json_token token;
	bool whole;

	assert_non_null(scan);
	snap_json_scan_begin(scan, text);
	do
		token = snap_json_scan_next(scan);
	while (token != SNAP_JSON_DONE && token != SNAP_JSON_BROKEN);
	assert_int_equal(snap_json_scan_next(scan), token);
	why = scan->why;
	whole = token == SNAP_JSON_DONE && scan->at + strspn(scan->at, " \t\r\n") == text + size;
	snap_json_scan_deinit(scan);
	free(scan);
	return whole;
}

static bool loads(const char *text, size_t size)
{
	json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	bool fine = root != NULL;

	json_decref(root);
	return fine;
}

static void check_bytes(const char *text, size_t size)
{
	bool scanned = scans(text, size), loaded = loads(text, size);

	if (scanned != loaded)
		fail_msg("%s: %.200s (%s)", scanned ? "taken" : "refused", text, why ? why : "");
}

static void check(const char *text)
{
	check_bytes(text, strlen(text));
}

static void test_values(void **state _unused_)
{
	static const char *const values[] = {
		"0",
		"-0",
		"-",
		"01",
		"1.",
		".5",
		"1.5",
		"1e5",
		"1E+5",
		"1e",
		"1e+",
		"-1.25e-3",
		"9223372036854775807",
		"9223372036854775808",
		"-9223372036854775808",
		"-9223372036854775809",
		"1e308",
		"1.7976931348623157e308",
		"1.7976931348623159e308",
		"1e309",
		"0.0001e312",
		"0.0001e313",
		"0e999999999999",
		"1e-999999999999",
		"123456789012345678901234567890.0",
		"true",
		"truex",
		"tru",
		"false",
		"null",
		"nul",
		"True",
		"\"\"",
		"\"a",
		"\"\\",
		"\"\\n\"",
		"\"\\x\"",
		"\"\\u0041\"",
		"\"\\u004\"",
		"\"\\u0000\"",
		"\"\\ud83d\\ude00\"",
		"\"\\ud83d\"",
		"\"\\ud83dx\"",
		"\"\\ude00\"",
		"\"\\ud83d\\u0041\"",
		"\"\x01\"",
		"\"\n\"",
		"\"\x7f\"",
		"\"\xc3\xa9\"",
		"\"\xc0\x80\"",
		"\"\xe0\x80\x80\"",
		"\"\xed\xa0\x80\"",
		"\"\xf4\x8f\xbf\xbf\"",
		"\"\xf4\x90\x80\x80\"",
		"\"\xff\"",
		"\"\xe2\x82\"",
		"{}",
		"[]",
		"[1,]",
		"[,1]",
		"[1 2]",
		"{\"a\":1,}",
		"{\"a\" 1}",
		"{\"a\":}",
		"{a:1}",
		"{1:1}",
		"{\"a\":1 \"b\":2}",
		"{\"a\":1,\"a\":2}",
		"{\"a\":1,\"\\u0061\":2}",
		"{\"\":1}",
		"{\"a\":{\"a\":1},\"b\":[{\"a\":1}]}",
		"[1]]",
		"{]",
		"[}",
		"\xef\xbb\xbf",
		"'a'",
		"//",
		"NaN",
		"+1",
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(values); i++) {
		char text[256];

		check(values[i]);
		snprintf(text, sizeof(text), "[%s]", values[i]);
		check(text);
		snprintf(text, sizeof(text), " {\"k\" : %s } \n", values[i]);
		check(text);
	}
	check("");
	check(" ");
	check_bytes("[1]\0", 4);
	check_bytes("[\0]", 3);
}

static void test_depth(void **state _unused_)
{
	for (int depth = SNAP_JSON_DEEPEST - 2; depth <= SNAP_JSON_DEEPEST + 2; depth++)
		for (int inner = 0; inner < 2; inner++) {
			_cleanup_(snap_buffer_deinit) struct snap_buffer text = { 0 };

			for (int i = 0; i < depth; i++)
				snap_buffer_add_text(&text, "[");
			snap_buffer_add_text(&text, inner ? "1" : "");
			for (int i = 0; i < depth; i++)
				snap_buffer_add_text(&text, "]");
			check(snap_buffer_text(&text));
		}
}

/* Objects with few keys and many are looked through in different ways. */
static void test_many_keys(void **state _unused_)
{
	for (int count = 1; count < 2000; count = count * 2 + 1)
		for (int twice = -1; twice < count; twice += 1 + count / 3) {
			_cleanup_(snap_buffer_deinit) struct snap_buffer text = { 0 };

			for (int i = 0; i < count; i++)
				snap_buffer_printf(&text, "%s\"key%d\":{\"key0\":1}", i ? "," : "{",
						   i);
			if (twice >= 0)
				snap_buffer_printf(&text, ",\"k\\u0065y%d\":1", twice);
			snap_buffer_add_text(&text, "}");
			assert_int_equal(scans(text.data, text.size), twice < 0);
			check(snap_buffer_text(&text));
		}
}

/* Each byte of a document, replaced by others. */
static void test_damage(void **state _unused_)
{
	static const char whole[] = "{\"a\": [1, -2.5e3, \"x\\u00e9\\n\", {\"b\": true}], \"c\": "
				    "null, \"d\\\"\": false, \"\xc3\xa4\": {}}";
	static const char bytes[] = "\"\\{}[],:0-.eutn \n\x01\x80\xc3";

	for (size_t i = 0; i < sizeof(whole) - 1; i++) {
		char text[sizeof(whole)];

		memcpy(text, whole, sizeof(whole));
		text[i] = '\0';
		check(text);
		for (size_t k = 0; k < sizeof(bytes) - 1; k++) {
			memcpy(text, whole, sizeof(whole));
			text[i] = bytes[k];
			check(text);
		}
	}
}

static void test_decoding(void **state _unused_)
{
	static const char text[] = "[\"a\\n\\\"\\/\\u00e9\\u20ac\\ud83d\\ude00\"]";
	struct snap_json_scan *scan = calloc(1, sizeof(*scan));
	char out[sizeof(text)];
	size_t length;

	assert_non_null(scan);
	snap_json_scan_begin(scan, text);
	assert_int_equal(snap_json_scan_next(scan), SNAP_JSON_ARRAY);
	assert_int_equal(snap_json_scan_next(scan), SNAP_JSON_STRING);
	length = snap_json_span_decode(&scan->text, out);
	out[length] = '\0';
	assert_string_equal(out, "a\n\"/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	snap_json_scan_deinit(scan);
	free(scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),    cmocka_unit_test(test_depth),
		cmocka_unit_test(test_many_keys), cmocka_unit_test(test_damage),
		cmocka_unit_test(test_decoding),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
