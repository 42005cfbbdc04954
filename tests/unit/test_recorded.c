/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recorded images (tests/runtime/recorded): of each, its reader makes the text that was equal to
 * what the program said of itself when it was recorded. No runtime is needed, and no process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analyze.h"
#include "api/options.h"
#include "recorded.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGES "tests/runtime/recorded/*.image.xz"

static const char *source_of(const char *path, char *ret, size_t size)
{
	const char *source = getenv("STACKSNAP_SOURCE");

	assert_non_null(source);
	snprintf(ret, size, "%s/%s", source, path);
	return ret;
}

static void list_images(glob_t *found)
{
	char pattern[SNAP_MAX_PATH];

	assert_int_equal(glob(source_of(IMAGES, pattern, sizeof(pattern)), 0, NULL, found), 0);
}

/* "/…/go-1.27.image.xz" -> the reader of Go */
static const struct snap_runtime *runtime_of(const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	char kind[32];

	snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(name, "-"), name);
	return recorded_runtime(kind);
}

static char *read_truth(const char *image)
{
	char path[SNAP_MAX_PATH];
	char *text = NULL;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%.*s.truth", (int)(strlen(image) - strlen(".image.xz")),
		 image);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_true(getdelim(&text, &size, '\0', file) > 0);
	fclose(file);
	return text;
}

/* The first line that differs. */
static void check_equal(const char *path, const char *text, const char *truth)
{
	size_t line = 1;

	for (; *text && *text == *truth; text++, truth++)
		line += *text == '\n';
	if (*text != *truth)
		fail_msg("%s: line %zu: \"%.*s\" should be \"%.*s\" from there on", path, line,
			 (int)strcspn(text, "\n"), text, (int)strcspn(truth, "\n"), truth);
}

static void open_image(struct recorded *recorded, const char *path)
{
	struct snap_capture *capture = recorded_open(path);

	if (!capture)
		fail_msg("%s is no recorded image", path);
	recorded_init(recorded, capture);
}

static char *read_text(struct recorded *recorded, const struct snap_runtime *runtime)
{
	struct snap_runtime_result *result = NULL;
	char *text;

	assert_non_null(runtime);
	assert_null(recorded_read(recorded, runtime, &result));
	text = recorded_text(result);
	assert_non_null(text);
	return text;
}

static void test_each_says_its_truth(void **state)
{
	glob_t found;

	(void)state;
	list_images(&found);
	assert_true(found.gl_pathc >= 20);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *truth = read_truth(found.gl_pathv[i]), *text;
		struct recorded recorded;

		open_image(&recorded, found.gl_pathv[i]);
		text = read_text(&recorded, runtime_of(found.gl_pathv[i]));
		check_equal(found.gl_pathv[i], text, truth);
		free(text);
		free(truth);
		recorded_deinit(&recorded);
	}
	globfree(&found);
}

/* The probe finds it in the process, and what its plan copies is what the reader needs. */
static void test_plans_copy_what_is_needed(void **state)
{
	struct recorded_room room = { .budget = { .records = SNAP_PLAN_RECORDS,
						  .bytes = 64 << 20,
						  .until_ns = 20000000000 } };
	glob_t found;

	(void)state;
	recorded_room_init(&room);
	list_images(&found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const struct snap_runtime *runtime = runtime_of(found.gl_pathv[i]);
		char *truth = read_truth(found.gl_pathv[i]), *text;
		struct snap_memory_plan plan = { .step_count = 0 };
		struct snap_memory_image copy = { .bytes = 0 }, *before;
		struct snap_runtime_memory memory;
		struct recorded recorded;
		bool is_there = false;

		open_image(&recorded, found.gl_pathv[i]);
		assert_null(recorded_begin(&recorded));
		memory = recorded_process(&recorded);
		recorded.given.memory = &memory;
		assert_null(runtime->probe(&recorded.given, &plan, &is_there));
		assert_true(is_there && snap_memory_plan_check(&plan));
		recorded_execute(&recorded, &plan, &room, &copy);
		before = recorded.process->memory;
		recorded.process->memory = &copy;
		text = read_text(&recorded, runtime);
		check_equal(found.gl_pathv[i], text, truth);
		recorded.process->memory = before;
		free(text);
		free(truth);
		recorded_deinit(&recorded);
	}
	globfree(&found);
	recorded_room_deinit(&room);
}

/* A reader of one runtime finds nothing in the memory of another. */
static void test_others_find_nothing(void **state)
{
	static const char *const names[] = { "go", "cpython", "php" };
	glob_t found;

	(void)state;
	list_images(&found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct recorded recorded;

		open_image(&recorded, found.gl_pathv[i]);
		for (size_t k = 0; k < SNAP_ARRAY_SIZE(names); k++) {
			const struct snap_runtime *runtime = recorded_runtime(names[k]);
			char *text;

			if (runtime == runtime_of(found.gl_pathv[i]))
				continue;
			text = read_text(&recorded, runtime);
			assert_string_equal(text, "nothing\n");
			free(text);
		}
		recorded_deinit(&recorded);
	}
	globfree(&found);
}

/* Of so many pieces one is gone. */
static void thin(struct snap_memory_image *image, size_t divisor)
{
	size_t count = 0;

	for (size_t i = 0; i < image->piece_count; i++)
		if (i % divisor != 1)
			image->pieces[count++] = image->pieces[i];
	image->piece_count = count;
}

static void check_nothing_made_up(const char *path, char *text, const char *truth)
{
	char *at = NULL;

	for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
		if (strncmp(line, "    ", 4) != 0 || line[4] == ' ')
			continue;
		/* Where Go left for a system call is a line of its own. */
		if (runtime_of(path) == &snap_runtime_go || strstr(line, ":0, "))
			*strrchr(line, ':') = '\0';
		if (!strstr(truth, line))
			fail_msg("%s: \"%s\" is made up", path, line);
	}
}

/* Then what is shown are functions of the truth, and lines, if there is one. */
static void test_what_is_missing_is_not_made_up(void **state)
{
	static const size_t divisors[] = { 2, 3, 5, 7, 11 };
	glob_t found;

	(void)state;
	list_images(&found);
	for (size_t i = 0; i < found.gl_pathc * SNAP_ARRAY_SIZE(divisors); i++) {
		const char *path = found.gl_pathv[i / SNAP_ARRAY_SIZE(divisors)];
		char *truth = read_truth(path), *text;
		struct recorded recorded;

		open_image(&recorded, path);
		thin(recorded.process->memory, divisors[i % SNAP_ARRAY_SIZE(divisors)]);
		text = read_text(&recorded, runtime_of(path));
		check_nothing_made_up(path, text, truth);
		free(text);
		free(truth);
		recorded_deinit(&recorded);
	}
	globfree(&found);
}

static void check_frame_limit(const struct snap_snapshot *snapshot, size_t most)
{
	size_t cut = 0;

	for (size_t i = 0; i < snapshot->root_count; i++)
		for (size_t k = 0; k < snapshot->processes[i]->stack_count; k++) {
			const struct snap_stack *stack = &snapshot->processes[i]->stacks[k];

			assert_true(stack->frame_count <= most);
			cut += stack->gap_count > 0;
		}
	assert_true(cut > 0);
}

/* A report of what one image says, whose longest stack is cut by less than half of what is left. */
static void test_long_stacks_are_cut(void **state)
{
	struct snap_options options;
	char path[SNAP_MAX_PATH];
	struct recorded recorded;

	(void)state;
	open_image(&recorded,
		   source_of("tests/runtime/recorded/cpython-3.13.image.xz", path, sizeof(path)));
	for (size_t most = 2; most < 98; most += 13) {
		struct snap_file_finder finder = recorded_finder(&recorded);
		struct snap_snapshot *snapshot = NULL;

		snap_options_init(&options);
		options.max_frames = most;
		assert_null(snap_analyze(recorded.capture, &options, &finder, &snapshot));
		check_frame_limit(snapshot, most);
		snap_snapshot_destroy(snapshot);
		snap_options_deinit(&options);
	}
	recorded_deinit(&recorded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_says_its_truth),
		cmocka_unit_test(test_plans_copy_what_is_needed),
		cmocka_unit_test(test_others_find_nothing),
		cmocka_unit_test(test_what_is_missing_is_not_made_up),
		cmocka_unit_test(test_long_stacks_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
