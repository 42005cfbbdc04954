/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Single rows of a text report: what is folded, named, numbered and shortened in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "render/view/elide.h"
#include "render/view/own.h"
#include "snapshots.h"

/* A process with one stack of one thread. */
struct report {
	struct snap_snapshot snapshot;
	struct snap_node node, *nodes[1];
	struct snap_stack stacks[2];
	struct snap_member threads[2];
	struct snap_label labels[1];
};

static void make_report(struct report *made, const struct snap_frame **frames, size_t count)
{
	*made = (struct report){ .snapshot = service };
	made->labels[0] = (struct snap_label){ "state", "sleeping" };
	for (int i = 0; i < 2; i++) {
		made->threads[i] = (struct snap_member){
			.tid = 7 + i, .name = "t", .state = SNAP_STATE_SLEEPING, .cpu = -1
		};
		made->stacks[i] = (struct snap_stack){ .id = "1111111111111111",
						       .count = 1,
						       .description = "main",
						       .labels = made->labels,
						       .label_count = 1,
						       .threads = &made->threads[i],
						       .thread_count = 1,
						       .frames = frames,
						       .frame_count = count };
	}
	made->node = (struct snap_node){ .pid = 7,
					 .name = "prog",
					 .thread_count = 8,
					 .stacks = made->stacks,
					 .stack_count = 1 };
	made->nodes[0] = &made->node;
	made->snapshot.processes = made->nodes;
	made->snapshot.root_count = made->snapshot.process_count = 1;
	made->snapshot.thread_count = made->snapshot.stack_count = 1;
}

static char *text_of(const struct report *made, struct snap_options options)
{
	options.utf8 = true;
	return golden_render(snap_render_text, &made->snapshot, &options, NULL);
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

#define PYTHON_FRAME(variable, name, path, row, of_library)                         \
	static struct snap_entry variable##_entry[] = { { .function = name,         \
							  .file = path,             \
							  .line = row,              \
							  .language = "python",     \
							  .system = of_library } }; \
	static const struct snap_frame variable = { .entries = variable##_entry, .entry_count = 1 }

PYTHON_FRAME(wait_frame, "Condition.wait", "/usr/lib/python3.11/threading.py", 320, true);
PYTHON_FRAME(get_frame, "Queue.get", "/usr/lib/python3.11/queue.py", 171, true);
PYTHON_FRAME(work_frame, "work", "/srv/app.py", 9, false);

/* The place of a row is that of its first function, so all of its functions are of one language. */
static void test_rows_of_one_language(void **state _unused_)
{
	const struct snap_frame *frames[] = { &futex_frame, &cond_frame,   &wait_frame, &get_frame,
					      &work_frame,  &thread_frame, &clone_frame };
	struct report made;
	_cleanup_free_ char *text = NULL;

	make_report(&made, frames, SNAP_ARRAY_SIZE(frames));
	text = text_of(&made, (struct snap_options){ 0 });
	assert_has(text, "__futex_abstimed_wait_common … pthread_cond_wait  libc.so.6\n");
	assert_has(text, "Condition.wait … Queue.get ");
	assert_has(text, "start_thread … clone3");
	assert_null(strstr(text, "common … Queue.get"));
}

static const char *own_name(const struct snap_frame **frames, size_t count)
{
	size_t entry;
	const struct snap_frame *own = snap_own_frame(frames, count, &entry);

	return own->entries[entry].function;
}

static void test_named_neighbour(void **state _unused_)
{
	const struct snap_frame *frames[] = { &futex_frame,    &nameless_frame, &jit_frame,
					      &at_frame,       &nameless_frame, &nameless_frame,
					      &nameless_frame, &nameless_frame, &main_frame };

	assert_string_equal(own_name(frames, 9),
			    "std::vector<Job, std::allocator<Job> >::at(unsigned long)");
	assert_null(own_name(frames, 3));
	/* One that is far away is no neighbour. */
	assert_null(own_name(frames + 4, 5));
}

static void test_pipe_in_a_summary(void **state _unused_)
{
	const struct snap_frame *frames[] = { &fsync_frame, &main_frame };
	struct snap_wait_party peers[] = { { .pid = 4711, .name = "producer" },
					   { .pid = 4712, .name = "other" } };
	struct snap_wait wait = { .kind = SNAP_WAIT_PIPE,
				  .mode = SNAP_WAIT_READ,
				  .path = "pipe:[123]",
				  .confidence = SNAP_WAIT_IS_CERTAIN,
				  .peers = peers };
	struct report made;

	make_report(&made, frames, 2);
	made.stacks[0].wait = made.threads[0].wait = &wait;
	for (size_t i = 0; i < 3; i++) {
		_cleanup_free_ char *text = NULL;

		wait.peer_count = wait.peer_total = i;
		text = text_of(&made, (struct snap_options){ .summary = true });
		assert_has(text, i == 0   ? "pipe:[123]"
				 : i == 1 ? "pipe from 4711 producer  "
					  : "pipe from 4711 producer, …");
	}
}

static void test_numbers_of_locks(void **state _unused_)
{
	const struct snap_frame *frames[] = { &futex_frame, &main_frame };
	struct snap_wait waits[2];
	struct report made;
	_cleanup_free_ char *one = NULL, *two = NULL, *all = NULL;

	make_report(&made, frames, 2);
	for (int i = 0; i < 2; i++) {
		waits[i] = (struct snap_wait){ .kind = SNAP_WAIT_MONITOR,
					       .address = 0x7000,
					       .confidence = SNAP_WAIT_IS_CERTAIN,
					       .has_owner = true,
					       .owner = { .pid = 7, .tid = 8 - i } };
		made.threads[i].wait = made.stacks[i].wait = &waits[i];
	}
	made.node.stack_count = 2;
	one = text_of(&made, (struct snap_options){ 0 });
	assert_has(one, "waits for a monitor, held by 8\n");
	waits[0].address = 0x9000;
	waits[0].owner.wait = &waits[1];
	two = text_of(&made, (struct snap_options){ 0 });
	assert_has(two, "waits for monitor #2, held by 8 (waits for monitor #1)\n");
	assert_has(two, "waits for monitor #1, held by 7\n");
	all = text_of(&made, (struct snap_options){ .verbose = 1 });
	assert_has(all, "waits for monitor 0x9000");
}

static void test_threads_that_are_not_shown(void **state _unused_)
{
	struct report made;
	_cleanup_free_ char *text = NULL;

	make_report(&made, NULL, 0);
	made.node.stack_count = made.snapshot.stack_count = made.snapshot.thread_count = 0;
	text = text_of(&made, (struct snap_options){ 0 });
	assert_has(text, "1 process, 0 of 8 threads, 0 stacks");
}

/* A process that a filter hides is in no tree. */
static void test_deadlock_of_hidden_processes(void **state _unused_)
{
	struct snap_wait wait = { .kind = SNAP_WAIT_FILE_LOCK,
				  .path = "/run/a",
				  .variant = "flock",
				  .confidence = SNAP_WAIT_IS_CERTAIN };
	struct snap_wait_link links[] = {
		{ .pid = 70, .tid = 70, .name = "left", .wait = &wait },
		{ .pid = 71, .tid = 71, .name = "right", .wait = &wait }
	};
	struct snap_deadlock deadlock = {
		.certain = true, .size = 2, .threads = links, .thread_count = 2
	};
	struct report made;
	_cleanup_free_ char *text = NULL;

	make_report(&made, NULL, 0);
	made.snapshot.waits =
		(struct snap_waits){ .asked = true, .deadlocks = &deadlock, .deadlock_count = 1 };
	made.snapshot.waits.deadlock_total = 1;
	text = text_of(&made, (struct snap_options){ 0 });
	assert_has(text, "  left[70] 70 left ");
	assert_has(text, "  right[71] 71 right ");
}

/* In a summary a long name leaves room for the columns behind it. */
static void test_long_names(void **state _unused_)
{
	static struct snap_entry entry[] = {
		{ .function = "github.com/example/proxy/v2/modules/reverse.(*updater).Init.func1",
		  .file = "metrics.go",
		  .line = 59,
		  .language = "go" },
	};
	static const struct snap_frame long_frame = { .entries = entry, .entry_count = 1 };
	const struct snap_frame *frames[] = { &long_frame };
	struct snap_task task = { .id = "5", .state = SNAP_TASK_WAITING, .wait = "select" };
	struct report made;
	_cleanup_free_ char *text = NULL, *name = NULL;

	make_report(&made, frames, 1);
	made.stacks[0].thread_count = 0;
	made.stacks[0].runtime = "go";
	made.stacks[0].tasks = &task;
	made.stacks[0].task_count = 1;
	made.stacks[0].description = entry->function;
	text = text_of(&made, (struct snap_options){ .summary = true, .width = 100 });
	name = strdup(entry->function);
	assert_null(strstr(text, name));
	snap_elide_name(name, 30, "…");
	assert_has(text, name);
	assert_has(text, "metrics.go:59\n");
	/* In one line: the columns stay. */
	assert_true(strstr(text, "metrics.go:59") < strchr(strstr(text, name), '\n'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_of_one_language),
		cmocka_unit_test(test_named_neighbour),
		cmocka_unit_test(test_pipe_in_a_summary),
		cmocka_unit_test(test_numbers_of_locks),
		cmocka_unit_test(test_threads_that_are_not_shown),
		cmocka_unit_test(test_deadlock_of_hidden_processes),
		cmocka_unit_test(test_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
