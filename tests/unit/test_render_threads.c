/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The texts of Go's net/http/pprof, line by line: each line is one of the format's, each thread and
 * task is counted once, and no name ends a line, a label or a quotation early.
 */
#include "base/cleanup.h"
#include "render/pprof/threads.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "task_snapshots.h"

#define QUOTED "\"([^\"\\\\[:cntrl:]]|\\\\.)*\""

static const char count_line[] = "^([0-9]+) @( 0x[0-9a-f]+)+$";
static const char header_line[] =
	"^(thread|goroutine|task) [^[:cntrl:]]+ \\[[^[:cntrl:]]+ [0-9]+\\]:$";

typedef struct stacksnap_error *renderer(const struct snap_snapshot *, const struct snap_options *,
					 FILE *);

static const struct snap_snapshot *const all[] = { &service, &gitea, &hostile, &hostile_gitea };

static char *render(renderer *render_text, const struct snap_snapshot *snapshot)
{
	const struct snap_options options = { .utf8 = true };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_null(render_text(snapshot, &options, out));
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strlen(text), size);
	return text;
}

static bool matches(const char *line, const char *pattern)
{
	regex_t regex;
	bool fits;

	assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	fits = regexec(&regex, line, 0, NULL, 0) == 0;
	regfree(&regex);
	return fits;
}

static bool matches_any(const char *line, const char *const *patterns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (matches(line, patterns[i]))
			return true;
	return false;
}

static size_t member_count(const struct snap_snapshot *snapshot)
{
	return snapshot->thread_count + snapshot->task_count;
}

static void test_counts(void **state _unused_)
{
	static const char *const patterns[] = {
		"^$",
		"^threads profile: total [0-9]+$",
		count_line,
		"^# labels: \\{\"pid\":\"[0-9]+\"(, " QUOTED ":" QUOTED ")+\\}$",
		"^#\t0x[0-9a-f]+\t[^[:cntrl:]]+\t[^[:cntrl:]]+$",
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(all); i++) {
		_cleanup_free_ char *text = render(snap_render_thread_counts, all[i]);
		char *rest = text, *line, first[64];
		size_t sum = 0;

		snprintf(first, sizeof(first), "threads profile: total %zu\n",
			 member_count(all[i]));
		assert_memory_equal(text, first, strlen(first));
		while ((line = strsep(&rest, "\n"))) {
			if (!matches_any(line, patterns, SNAP_ARRAY_SIZE(patterns)))
				fail_msg("no line of the format: %s", line);
			if (matches(line, count_line))
				sum += strtoul(line, NULL, 10);
		}
		assert_int_equal(sum, member_count(all[i]));
	}
}

static void test_dumps(void **state _unused_)
{
	static const char *const patterns[] = {
		"^$",
		header_line,
		"^[^\t[:cntrl:]][^[:cntrl:]]*\\(\\.\\.\\.\\)$",
		"^\t[^[:cntrl:]]+$",
		"^\\.\\.\\.[a-z0-9 :_]+\\.\\.\\.$",
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(all); i++) {
		_cleanup_free_ char *text = render(snap_render_thread_dump, all[i]);
		char *rest = text, *line;
		size_t headers = 0;

		while ((line = strsep(&rest, "\n"))) {
			if (!matches_any(line, patterns, SNAP_ARRAY_SIZE(patterns)))
				fail_msg("no line of the format: %s", line);
			headers += matches(line, header_line);
		}
		assert_int_equal(headers, member_count(all[i]));
	}
}

/* What reads dumps of Go programs finds goroutines by their name. */
static void test_goroutines_are_called_so(void **state _unused_)
{
	_cleanup_free_ char *text = render(snap_render_thread_dump, &gitea);

	assert_non_null(strstr(text, "goroutine "));
	assert_non_null(strstr(text, "modules/queue.(*Queue).Run(...)\n\t"
				     "/build/gitea/modules/queue/queue.go:88 pc=0x406000\n"));
	assert_non_null(strstr(text, "thread "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_dumps),
		cmocka_unit_test(test_goroutines_are_called_so),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
