/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pages: their data byte for byte, and that nothing of a target is markup. */
#include "recordings.h"
#include "render/render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"

#include <jansson.h>

/* A part of a page, malloc'ed. */
static char *between(const char *page, const char *before, const char *behind)
{
	const char *from = strstr(page, before), *end;

	assert_non_null(from);
	from += strlen(before);
	end = strstr(from, behind);
	assert_non_null(end);
	return strndup(from, (size_t)(end - from));
}

/* The data; all that came from a target has been looked at. */
static char *checked_data(const char *page)
{
	_cleanup_free_ char *title = between(page, "<title>", "</title>"),
			    *heading = between(page, "<h1>", "</h1>"),
			    *text = between(page, "aria-label=\"The report as text\">", "</pre>");
	char *data = between(page, "id=\"data\">", "</script>");
	json_t *document = json_loads(data, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(document);
	json_decref(document);
	assert_null(strpbrk(title, "<>\""));
	assert_null(strpbrk(heading, "<>\""));
	assert_null(strpbrk(text, "<>\""));
	assert_null(strchr(data, '<'));
	return data;
}

static char *render_recording(const struct snap_recording *recording)
{
	struct snap_options options = { .utf8 = true };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_null(snap_render_html_recording(recording, &options, out));
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strlen(text), length);
	return text;
}

static void test_snapshots(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	struct snap_snapshot trouble = all_troubled();
	_cleanup_free_ char *page = golden_render(snap_render_html, &service, &options, NULL),
			    *data = checked_data(page),
			    *bad = golden_render(snap_render_html, &hostile, &options, NULL),
			    *bad_data = checked_data(bad),
			    *broken = golden_render(snap_render_html, &trouble, &options, NULL),
			    *broken_data = checked_data(broken);

	golden_check("service.html-data", data);
	golden_check("hostile.html-data", bad_data);
	golden_check("troubled.html-data", broken_data);
}

static void test_recordings(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *page = render_recording(recording), *data = checked_data(page);

	golden_check("service-recording.html-data", data);
}

static void test_nothing_is_a_page(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *empty = snap_recording_new();
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *nobody = snap_snapshot_new();
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *page = render_recording(empty), *data = checked_data(page),
			    *other = golden_render(snap_render_html, nobody, &options, NULL),
			    *other_data = checked_data(other);

	assert_non_null(strstr(data, "\"ticks\":[]"));
	assert_non_null(strstr(other_data, "\"processes\":[]"));
}

/* A stack leads from its innermost function to nobody, also where it is the only one. */
static void test_first_stack(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *page = golden_render(snap_render_html, &service, &options, NULL),
			    *data = checked_data(page);
	json_t *document = json_loads(data, 0, NULL), *stacks = json_object_get(document, "stacks");

	assert_true(json_array_size(stacks) > 4);
	/* The first row after that of nobody is the outermost function. */
	assert_int_equal(json_integer_value(json_array_get(stacks, 2)), 0);
	assert_int_equal(json_integer_value(json_array_get(stacks, 3)), 0);
	assert_int_not_equal(json_integer_value(json_array_get(stacks, 1)), 0);
	json_decref(document);
}

/* A device that is full: told, whatever part of the page it is. */
static void test_full_device(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	FILE *out = fopen("/dev/full", "we");
	struct stacksnap_error *err;

	assert_non_null(out);
	err = snap_render_html(&service, &options, out);
	/* What fits into the stream's buffer is found out when it is closed. */
	if (!err)
		assert_int_not_equal(fclose(out), 0);
	else
		fclose(out);
	snap_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshots),         cmocka_unit_test(test_recordings),
		cmocka_unit_test(test_nothing_is_a_page), cmocka_unit_test(test_first_stack),
		cmocka_unit_test(test_full_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
