/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waits in reports: below groups, at the top, in JSON; the difference that options make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "schema.h"
#include "wait_rows.h"

static void check_text(const char *name, struct snap_options options)
{
	struct snap_snapshot waiting = waiting_snapshot();
	_cleanup_free_ char *text = golden_render(snap_render_text, &waiting, &options, NULL);

	golden_check(name, text);
}

static void test_text(void **state _unused_)
{
	check_text("waits.txt", (struct snap_options){ .utf8 = true });
	check_text("waits-explain.txt",
		   (struct snap_options){ .utf8 = true, .explain = SNAP_EXPLAIN_ALL });
	check_text("waits-summary.txt", (struct snap_options){ .utf8 = true, .summary = true });
	check_text("waits-terminal.txt", (struct snap_options){ .width = 60 });
}

static void test_json(void **state _unused_)
{
	struct snap_snapshot waiting = waiting_snapshot();
	struct snap_options options = { 0 };
	_cleanup_free_ char *json = golden_render(snap_render_json, &waiting, &options, NULL);

	golden_check("waits.json", json);
	schema_check("stacksnap-snapshot.schema.json", json);
}

/* Each thread of one group waits for one of many things. */
static void test_many_lines(void **state _unused_)
{
	struct snap_snapshot waiting = waiting_snapshot();
	struct snap_options options = { .utf8 = true };
	struct snap_stack *stack = &waiting.processes[0]->stacks[0];
	_cleanup_free_ char *text = NULL;

	/* Two things: seven threads, and one that waits for nothing that is known. */
	for (size_t i = 0; i < stack->thread_count; i++)
		stack->threads[i].wait = i < 7   ? stack->threads[2].wait
					 : i < 9 ? NULL
						 : stack->threads[11].wait;
	stack->count = stack->thread_count = 14;
	text = golden_render(snap_render_text, &waiting, &options, NULL);
	assert_non_null(strstr(text, "(stopped by a signal)  tids 3000, 3001, 3002, 3003, 3004 and "
				     "2 more\n"));
	assert_non_null(strstr(text, "held by 2 readers  tids 3009, 3010, 3011, 3012, 3013\n"));
}

static void test_no_explain(void **state _unused_)
{
	struct snap_snapshot waiting = waiting_snapshot();
	struct snap_options options = { .explain = SNAP_EXPLAIN_NO, .verbose = 1 };
	_cleanup_free_ char *text = golden_render(snap_render_text, &waiting, &options, NULL);

	assert_null(strstr(text, "mutex"));
	assert_null(strstr(text, "DEADLOCK"));
}

/* A search that was cut is no good sign, and who looks for deadlocks alone is told of it. */
static void test_deadlocks_that_could_be_missed(void **state _unused_)
{
	struct snap_snapshot waiting = waiting_snapshot();
	struct snap_options options = { .deadlocks_only = true }, whole = { 0 };
	_cleanup_free_ char *text = golden_render(snap_render_text, &waiting, &options, NULL);
	_cleanup_free_ char *tree = golden_render(snap_render_text, &waiting, &whole, NULL);
	_cleanup_free_ char *known = NULL;

	assert_non_null(strstr(text, "waits are not known in full: there was too little time"));
	assert_null(strstr(tree, "not known in full"));
	waiting.waits.lacks = 0;
	known = golden_render(snap_render_text, &waiting, &options, NULL);
	assert_null(strstr(known, "not known in full"));
}

/* What a group has in common stands in its line: as sure as elsewhere, escaped, and without frames. */
static void test_summary(void **state _unused_)
{
	struct snap_snapshot waiting = waiting_snapshot();
	struct snap_stack *stack = &waiting.processes[0]->stacks[1];
	struct snap_options options = { .summary = true },
			    all = { .summary = true, .explain = SNAP_EXPLAIN_ALL },
			    no = { .summary = true, .explain = SNAP_EXPLAIN_NO };
	struct snap_wait wait = *stack->wait;
	_cleanup_free_ char *sure = NULL, *guess = NULL, *asked = NULL, *refused = NULL;

	wait.symbol = "evil\033[2J";
	stack->wait = &wait;
	sure = golden_render(snap_render_text, &waiting, &options, NULL);
	assert_non_null(strstr(sure, "mutex evil\\x1b[2J"));
	refused = golden_render(snap_render_text, &waiting, &no, NULL);
	assert_null(strstr(refused, "evil"));
	wait.confidence = SNAP_WAIT_IS_GUESS;
	guess = golden_render(snap_render_text, &waiting, &options, NULL);
	assert_null(strstr(guess, "evil"));
	stack->frame_count = 0;
	asked = golden_render(snap_render_text, &waiting, &all, NULL);
	assert_non_null(strstr(asked, "   mutex evil\\x1b[2J"));
}

/* A guess is shown to who asks for it, and is in the JSON. */
static void test_guesses(void **state _unused_)
{
	struct snap_snapshot waiting = waiting_snapshot();
	struct snap_stack *stack = &waiting.processes[0]->stacks[1];
	struct snap_wait guess = *stack->threads[0].wait;
	struct snap_options sure = { 0 }, all = { .explain = SNAP_EXPLAIN_ALL };
	_cleanup_free_ char *without = NULL, *with = NULL;

	guess.confidence = SNAP_WAIT_IS_GUESS;
	guess.symbol = "guessed_lock";
	stack->threads[0].wait = &guess;
	without = golden_render(snap_render_text, &waiting, &sure, NULL);
	with = golden_render(snap_render_text, &waiting, &all, NULL);
	assert_null(strstr(without, "guessed_lock"));
	assert_non_null(strstr(with, "guessed_lock"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_many_lines),
		cmocka_unit_test(test_no_explain),
		cmocka_unit_test(test_deadlocks_that_could_be_missed),
		cmocka_unit_test(test_guesses),
		cmocka_unit_test(test_summary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
