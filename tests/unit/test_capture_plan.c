/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of runtimes in a capture: who is asked about which processes, what a plan copies in the
 * stop, and what becomes of one whose process is another by then, or does not answer. The plans are
 * the test's own; its victims are copies of it, and have what they point to where the test has it.
 */
#include "api/options.h"
#include "capture/capture.h"
#include "skip.h"
#include "store/capture/file.h"
#include "victims.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { NODES = 1000, PAGE = 4096 };

struct node {
	struct node *next;
	uint64_t number;
};

/* In the victim a list; here, nothing. */
static struct node *volatile head;
static uint8_t *volatile unserved_page;

struct probeing {
	unsigned asked;
	pid_t pid;             /* the last one */
	struct victim *victim; /* is told to go on while it is looked at */
	struct snap_memory_plan plan;
	bool found;
	bool once; /* then it finds nothing any more */
};

static struct stacksnap_error *probe(void *context, const struct snap_options *options,
				     struct snap_capture *capture, size_t process,
				     struct snap_memory_plan *plan, bool *found_ret)
{
	struct probeing *probeing = context;

	assert_non_null(options);
	assert_true(process < capture->process_count);
	if (probeing->once && probeing->asked++)
		return NULL;
	/* Its mappings are there, and it runs. */
	assert_non_null(snap_process_map(&capture->processes[process], (uintptr_t)&head));
	probeing->asked += !probeing->once;
	probeing->pid = capture->processes[process].pid;
	if (probeing->victim) {
		tell(probeing->victim);
		wait_answer(probeing->victim);
	}
	*plan = probeing->plan;
	*found_ret = probeing->found;
	return NULL;
}

static void plan_list(struct probeing *probeing)
{
	probeing->found = true;
	probeing->plan = (struct snap_memory_plan){
		.step_count = 2,
		.steps = {
			{ .op = SNAP_PLAN_READ, .source = SNAP_PLAN_LITERAL,
			  .address = (uintptr_t)&head, .len = sizeof(head) + 3 },
			{ .op = SNAP_PLAN_WALK, .source = 1, .next = 0,
			  .len = sizeof(struct node), .max = 2 * NODES },
		},
	};
}

static struct snap_capture *take_with(const struct victim *victim, struct probeing *probeing,
				      struct snap_options *options)
{
	struct snap_target target = { .kind = SNAP_TARGET_PID, .pid = victim->pid };
	const struct snap_stop_hook hook = { .probe = probe, .context = probeing };
	struct snap_capture *capture = NULL;

	options->targets = &target;
	options->target_count = 1;
	assert_null(snap_capture_take(options, &hook, &capture));
	options->targets = NULL;
	options->target_count = 0;
	if (capture->processes[0].trouble == SNAP_TROUBLE_PERMISSION_DENIED)
		skip_because(NO_TRACING);
	return capture;
}

/* By name: whatever the process looks like. */
static void options_by_name(struct snap_options *options)
{
	snap_options_init(options);
	options->runtimes = SNAP_RUNTIME_CPYTHON;
	options->runtimes_given = true;
	/* A busy machine is not what is tested. */
	options->runtime_budget_ns = 10000000000;
	options->stop_timeout_ns = 30000000000;
}

static void make_list(void)
{
	struct node *nodes = calloc(NODES, sizeof(*nodes));

	for (size_t i = 0; nodes && i < NODES; i++) {
		nodes[i].number = i * i;
		nodes[i].next = i + 1 < NODES ? &nodes[i + 1] : NULL;
	}
	head = nodes;
}

static void with_list(int commands, int answers)
{
	make_list();
	answer(answers, 1);
	wait_for_end(commands);
}

/* Follows the list as a reader does. */
static void check_list(const struct snap_memory_image *image)
{
	struct node node = { .next = NULL };
	size_t count = 0;

	assert_true(snap_memory_image_read(image, (uintptr_t)&head, &node.next, sizeof(node.next)));
	for (; node.next; count++) {
		assert_true(
			snap_memory_image_read(image, (uintptr_t)node.next, &node, sizeof(node)));
		assert_int_equal(node.number, count * count);
	}
	assert_int_equal(count, NODES);
}

static void test_memory_is_copied(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL, *over = NULL;
	struct probeing probeing = { .asked = 0 };
	const struct snap_memory_image *image;
	struct snap_options options;
	struct victim victim;
	int fd = memfd_create("capture", MFD_CLOEXEC);

	options_by_name(&options);
	victim_start(&victim, with_list);
	wait_answer(&victim);
	plan_list(&probeing);
	capture = take_with(&victim, &probeing, &options);
	assert_int_equal(probeing.asked, 1);
	assert_int_equal(probeing.pid, victim.pid);
	image = capture->processes[0].memory;
	assert_non_null(image);
	assert_int_equal(image->step_count, 2);
	assert_int_equal(image->steps[1].records, NODES);
	assert_int_equal(image->steps[1].cut, SNAP_PLAN_WHOLE);
	assert_true(image->taken_ns > 0);
	check_list(image);
	/* Stacks are there as ever. */
	assert_true(capture->processes[0].threads[0].stack_size > 0);
	assert_non_null(capture->processes[0].maps);
	assert_true(fd >= 0);
	assert_null(snap_capture_hand_over(capture, fd));
	assert_null(snap_capture_take_over(fd, capture->shared_fd, &over));
	assert_non_null(over->processes[0].memory);
	check_list(over->processes[0].memory);
	close(fd);
	victim_end(&victim);
	snap_options_deinit(&options);
}

/* Who does not look like it is not asked about, nor anybody where nobody wants it. */
static void test_who_is_asked(void **state _unused_)
{
	struct probeing probeing = { .asked = 0 };
	struct snap_options options;
	struct victim victim;

	snap_options_init(&options);
	assert_int_equal(options.runtimes, SNAP_RUNTIME_ALL);
	victim_start(&victim, with_list);
	wait_answer(&victim);
	plan_list(&probeing);
	for (unsigned round = 0; round < 2; round++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;

		options.runtimes = round ? 0 : SNAP_RUNTIME_ALL;
		options.runtimes_given = round;
		capture = take_with(&victim, &probeing, &options);
		assert_int_equal(probeing.asked, 0);
		assert_null(capture->processes[0].memory);
	}
	victim_end(&victim);
	snap_options_deinit(&options);
}

/* No plan, or one that makes no sense. */
static void test_no_plan(void **state _unused_)
{
	struct probeing probeing = { .asked = 0 };
	struct snap_options options;
	struct victim victim;

	options_by_name(&options);
	victim_start(&victim, with_list);
	wait_answer(&victim);
	for (unsigned round = 0; round < 2; round++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;

		plan_list(&probeing);
		probeing.found = round;
		probeing.plan.steps[1].source = 2;
		capture = take_with(&victim, &probeing, &options);
		assert_int_equal(probeing.asked, round + 1);
		assert_null(capture->processes[0].memory);
		assert_true(capture->processes[0].threads[0].stack_size > 0);
	}
	victim_end(&victim);
	snap_options_deinit(&options);
}

static void *wait_as_thread(void *argument)
{
	const int *pipes = argument;

	answer(pipes[1], 2);
	wait_for_end(pipes[0]);
	return NULL;
}

/* What it does while it is asked about, is no secret: threads are born, memory is mapped. */
static void grows(int commands, int answers)
{
	static int pipes[2];
	pthread_t thread;

	pipes[0] = commands;
	pipes[1] = answers;
	answer(answers, 1);
	if (!command(commands))
		return;
	make_list();
	pthread_create(&thread, NULL, wait_as_thread, pipes);
	wait_for_end(commands);
}

static void test_process_that_grows(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct probeing probeing = { .asked = 0 };
	struct snap_options options;
	struct victim victim;

	options_by_name(&options);
	victim_start(&victim, grows);
	wait_answer(&victim);
	plan_list(&probeing);
	probeing.victim = &victim;
	capture = take_with(&victim, &probeing, &options);
	assert_non_null(capture->processes[0].memory);
	check_list(capture->processes[0].memory);
	assert_int_equal(capture->processes[0].thread_count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(capture->processes[0].threads[i].result, SNAP_THREAD_COPIED);
		assert_true(capture->processes[0].threads[i].stack_size > 0);
	}
	victim_end(&victim);
	snap_options_deinit(&options);
}

/* Another program than the plan was made for. */
static void becomes_another(int commands, int answers)
{
	answer(answers, 1);
	if (!command(commands))
		return;
	dup2(commands, STDIN_FILENO);
	dup2(answers, STDOUT_FILENO);
	execl("/bin/sh", "sh", "-c", "printf 1234; read line", (char *)NULL);
}

/* It is asked about once more, as what it is now. */
static void test_exec_after_the_plan(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct probeing probeing = { .asked = 0 };
	struct snap_options options;
	struct victim victim;

	options_by_name(&options);
	victim_start(&victim, becomes_another);
	wait_answer(&victim);
	plan_list(&probeing);
	probeing.victim = &victim;
	probeing.once = true;
	capture = take_with(&victim, &probeing, &options);
	assert_int_equal(probeing.asked, 2);
	assert_null(capture->processes[0].memory);
	assert_string_equal(capture->processes[0].name, "sh");
	victim_end(&victim);
	snap_options_deinit(&options);
}

/* A page that nobody serves: for its sake the pause does not last, and what came before it counts. */
static void with_unserved_page(int commands, int answers)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	make_list();
	unserved_page = page;
	range.range.start = (uintptr_t)page;
	range.range.len = PAGE;
	answer(answers, fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 &&
				ioctl(fd, UFFDIO_REGISTER, &range) == 0);
	wait_for_end(commands);
}

static void test_page_that_nobody_serves(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct probeing probeing = { .asked = 0 };
	const struct snap_memory_image *image;
	struct snap_options options;
	struct victim victim;

	options_by_name(&options);
	victim_start(&victim, with_unserved_page);
	if (!wait_answer(&victim))
		skip_because("kernel: no userfaultfd for the kernel's own reads");
	plan_list(&probeing);
	probeing.plan.steps[2] = (struct snap_plan_step){ .op = SNAP_PLAN_READ,
							  .source = SNAP_PLAN_LITERAL,
							  .address = (uintptr_t)&unserved_page,
							  .len = 8 };
	probeing.plan.steps[3] =
		(struct snap_plan_step){ .op = SNAP_PLAN_READ, .source = 3, .len = 8 };
	probeing.plan.steps[4] = probeing.plan.steps[2];
	probeing.plan.step_count = 5;
	capture = take_with(&victim, &probeing, &options);
	image = capture->processes[0].memory;
	assert_non_null(image);
	check_list(image);
	assert_int_equal(image->steps[1].cut, SNAP_PLAN_WHOLE);
	assert_int_equal(image->steps[3].cut, SNAP_PLAN_CUT_TIME);
	assert_int_equal(image->steps[4].cut, SNAP_PLAN_CUT_TIME);
	assert_true(capture->processes[0].threads[0].stack_size > 0);
	assert_true(capture->processes[0].stop_duration_ns < 10000000000);
	victim_end(&victim);
	snap_options_deinit(&options);
}

/* It costs no more than the budget, whatever one call may take else. */
static void test_budget_of_who_does_not_answer(void **state _unused_)
{
	enum { LONG_NS = 60000000 };
	int64_t shortest = INT64_MAX;
	struct snap_options options;
	struct victim victim;

	options_by_name(&options);
	options.runtime_budget_ns = 5000000;
	victim_start(&victim, with_unserved_page);
	if (!wait_answer(&victim))
		skip_because("kernel: no userfaultfd for the kernel's own reads");
	/* A busy machine makes some longer. */
	for (unsigned round = 0; round < 20 && shortest >= LONG_NS; round++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
		struct probeing probeing = { .found = true };

		probeing.plan = (struct snap_memory_plan){
			.step_count = 2,
			.steps = { { .op = SNAP_PLAN_READ,
				     .source = SNAP_PLAN_LITERAL,
				     .address = (uintptr_t)&unserved_page,
				     .len = 8 },
				   { .op = SNAP_PLAN_READ, .source = 1, .len = 8 } },
		};
		capture = take_with(&victim, &probeing, &options);
		assert_non_null(capture->processes[0].memory);
		assert_int_equal(capture->processes[0].memory->steps[1].cut, SNAP_PLAN_CUT_TIME);
		if (capture->processes[0].stop_duration_ns < shortest)
			shortest = capture->processes[0].stop_duration_ns;
	}
	assert_true(shortest < LONG_NS);
	victim_end(&victim);
	snap_options_deinit(&options);
}

/* The time of one process, and that of the snapshot. */
static void test_no_time(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct probeing probeing = { .asked = 0 };
	struct snap_options options;
	struct victim victim;

	options_by_name(&options);
	options.runtime_budget_ns = 1;
	victim_start(&victim, with_list);
	wait_answer(&victim);
	plan_list(&probeing);
	capture = take_with(&victim, &probeing, &options);
	assert_non_null(capture->processes[0].memory);
	assert_int_equal(capture->processes[0].memory->steps[0].cut, SNAP_PLAN_CUT_TIME);
	assert_int_equal(capture->processes[0].memory->piece_count, 0);
	victim_end(&victim);
	snap_options_deinit(&options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_copied),
		cmocka_unit_test(test_who_is_asked),
		cmocka_unit_test(test_no_plan),
		cmocka_unit_test(test_process_that_grows),
		cmocka_unit_test(test_exec_after_the_plan),
		cmocka_unit_test(test_page_that_nobody_serves),
		cmocka_unit_test(test_budget_of_who_does_not_answer),
		cmocka_unit_test(test_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
