/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that explains waits, of processes that the test forks itself: words around each futex that
 * somebody waits for, and what arguments of other calls lead to. The threads are known to wait when
 * the kernel says so.
 */
#include "api/options.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/shared_memory.h"
#include "capture/capture.h"
#include "model/wait/call.h"
#include "own_calls.h"
#include "patience.h"
#include "proc/procfs.h"
#include "skip.h"
#include "victims.h"

#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	MANY = 1000,
	PAGE = 4096,
	FAR = 2048, /* from one futex to the next: read on its own … */
	NEAR = 256, /* … and with it */
	FIRST = SNAP_WORDS_BEFORE,
	STACK = 1 << 16,
	NAP_NS = 1000000,
};

/* Shared with the victim: where its words are. */
struct place {
	uint8_t *area;
	size_t area_size;
	size_t count, stride; /* futexes from area + FIRST on, so many bytes apart */
};

static struct place *place;

static void *wait_for_futex(void *word)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, *(uint32_t *)word, NULL, NULL, 0);
	return NULL;
}

static void start_waiter(void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	if (pthread_create(&thread, &attributes, run, argument))
		_exit(3);
	pthread_attr_destroy(&attributes);
}

/* Each word has its number, and its neighbours have it as well. */
static void start_waiters(int answers)
{
	for (size_t i = 0; i < place->count; i++) {
		uint32_t *word = (uint32_t *)(void *)(place->area + FIRST + i * place->stride);

		for (int k = -SNAP_WORDS_BEFORE / 4; k < SNAP_WORDS_BEHIND / 4; k++)
			word[k] = (uint32_t)i + 1;
		start_waiter(wait_for_futex, word);
	}
	answer(answers, 0);
}

static void stand_at_futexes(int commands, int answers)
{
	start_waiters(answers);
	command(commands);
}

/* So many threads of the process are in a call of that number. */
static void await_calls(const struct victim *victim, long number, size_t count)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	const struct timespec nap = { .tv_nsec = NAP_NS };
	_cleanup_fd_ int process_fd = -1, tasks_fd = -1;
	pid_t *tids = calloc(count + 16, sizeof(*tids));
	struct snap_stat stat;
	size_t found = 0;

	assert_null(snap_procfs_open(NULL, &procfs));
	process_fd = snap_procfs_open_process(&procfs, victim->pid);
	tasks_fd = snap_procfs_open_tasks(process_fd);
	assert_true(tasks_fd >= 0);
	while (found < count) {
		ssize_t listed = snap_procfs_list(tasks_fd, tids, count + 16);

		/* It has ended. */
		assert_true(listed > 0);
		found = 0;
		for (ssize_t i = 0; i < listed && i < (ssize_t)count + 16; i++) {
			char text[256] = "";

			snap_procfs_task_read(tasks_fd, tids[i], "syscall", text, sizeof(text));
			found += text[0] != 'r' && strtol(text, NULL, 10) == number;
		}
		/* Where no thread can be made any more it ends, and stays a zombie. */
		assert_int_equal(snap_procfs_stat(process_fd, &stat), 0);
		assert_true(stat.state != 'Z');
		if (found < count)
			nanosleep(&nap, NULL);
	}
	free(tids);
}

static struct snap_capture *take_with(const struct victim *victim, struct snap_options *options)
{
	struct snap_target target = { .kind = SNAP_TARGET_PID, .pid = victim->pid };
	struct snap_capture *capture = NULL;

	options->targets = &target;
	options->target_count = 1;
	assert_null(snap_capture_take(options, NULL, &capture));
	options->targets = NULL;
	options->target_count = 0;
	snap_options_deinit(options);
	if (capture->processes[0].trouble == SNAP_TROUBLE_PERMISSION_DENIED) {
		snap_capture_destroy(capture);
		skip_because(NO_TRACING);
	}
	return capture;
}

static struct snap_capture *take(const struct victim *victim)
{
	struct snap_options options;

	snap_options_init(&options);
	return take_with(victim, &options);
}

/*
 * Between pages that nobody may read: a thread's stack that became one mapping with the area would be
 * copied with words of it, which are not read twice.
 */
static void make_place(size_t size)
{
	uint8_t *all;

	place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(place, MAP_FAILED);
	place->area_size = (size + SNAP_MOST_PAGE - 1) / SNAP_MOST_PAGE * SNAP_MOST_PAGE;
	all = mmap(NULL, place->area_size + 2ul * SNAP_MOST_PAGE, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(all, MAP_FAILED);
	place->area = all + SNAP_MOST_PAGE;
	assert_int_equal(mprotect(place->area, place->area_size, PROT_READ | PROT_WRITE), 0);
}

static void drop_place(void)
{
	munmap(place->area - SNAP_MOST_PAGE, place->area_size + 2ul * SNAP_MOST_PAGE);
	munmap(place, sizeof(*place));
}

/* All of them, or the first ones behind what does not count. */
static size_t count_words(const struct snap_process *process, size_t from)
{
	size_t found = 0;

	for (size_t i = from; process->words && i < place->count; i++) {
		uint32_t words[(SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND) / 4];
		uint64_t address =
			(uintptr_t)place->area + FIRST + i * place->stride - SNAP_WORDS_BEFORE;

		if (!snap_memory_image_read(process->words, address, words, sizeof(words)))
			continue;
		for (size_t k = 0; k < sizeof(words) / 4; k++)
			assert_int_equal(words[k], i + 1);
		found++;
	}
	return found;
}

static void check_order(const struct snap_memory_image *words)
{
	for (size_t i = 1; i < words->piece_count; i++)
		assert_true(words->pieces[i - 1].address + words->pieces[i - 1].size <=
			    words->pieces[i].address);
}

static void start_at_futexes(struct victim *victim, size_t count, size_t stride,
			     void (*body)(int commands, int answers))
{
	make_place(count * stride + PAGE);
	place->count = count;
	place->stride = stride;
	victim_start(victim, body);
	wait_answer(victim);
	await_calls(victim, SYS_futex, count);
}

static void test_many_futexes(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	/* All stacks and words have to be copied in a time that does not grow with patience. */
	const size_t many = MANY / (size_t)with_patience(1);
	const struct snap_process *process;
	struct victim victim;

	start_at_futexes(&victim, many, FAR, stand_at_futexes);
	capture = take(&victim);
	victim_end(&victim);
	process = &capture->processes[0];
	assert_int_equal(process->thread_count, many + 1);
	assert_int_equal(count_words(process, 0), many);
	check_order(process->words);
	assert_non_null(capture->waits);
	assert_true(capture->waits->monotonic_ns > 0);
	assert_true(capture->waits->boottime_ns > 0);
	assert_true(capture->waits->realtime_ns > capture->waits->monotonic_ns);
	drop_place();
}

/* A thousand who wait for one lock have its words once. */
static void stand_at_one_futex(int commands, int answers)
{
	for (size_t i = 0; i < place->count; i++)
		start_waiter(wait_for_futex, place->area + FIRST);
	answer(answers, 0);
	command(commands);
}

/* In one piece; the arguments are another. */
static void check_words(const struct snap_process *process, uint64_t bytes)
{
	assert_int_equal(process->words->piece_count, 2);
	assert_int_equal(process->words->pieces[1].address, process->args_start);
	assert_int_equal(process->words->bytes, bytes + process->args_size);
}

static void test_one_futex(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct victim victim;

	start_at_futexes(&victim, 100, FAR, stand_at_one_futex);
	capture = take(&victim);
	victim_end(&victim);
	check_words(&capture->processes[0], SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND);
	drop_place();
}

/* Locks that lie next to each other are one read, over the borders of pages. */
static void test_neighbours(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct victim victim;

	start_at_futexes(&victim, 64, NEAR, stand_at_futexes);
	capture = take(&victim);
	victim_end(&victim);
	assert_int_equal(count_words(&capture->processes[0], 0), 64);
	check_words(&capture->processes[0], 63 * NEAR + SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND);
	drop_place();
}

static void test_nobody_asks(void **state _unused_)
{
	struct victim victim;

	start_at_futexes(&victim, 4, FAR, stand_at_futexes);
	for (int no_stop = 0; no_stop < 2; no_stop++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
		struct snap_options options;

		snap_options_init(&options);
		options.explain = SNAP_EXPLAIN_NO;
		options.no_stop = no_stop;
		capture = take_with(&victim, &options);
		assert_null(capture->waits);
		assert_null(capture->processes[0].words);
	}
	victim_end(&victim);
	drop_place();
}

static bool tells_when_it_ran(void)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	char text[512];

	assert_null(snap_procfs_open(NULL, &procfs));
	return snap_procfs_system_read(&procfs, "thread-self/sched", text, sizeof(text)) > 0;
}

static void test_without_a_stop(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	const struct snap_process *process;
	struct snap_options options;
	struct victim victim;
	size_t waiting = 0;

	start_at_futexes(&victim, 100, FAR, stand_at_futexes);
	snap_options_init(&options);
	options.no_stop = options.no_bpf = options.force_stop = true;
	capture = take_with(&victim, &options);
	victim_end(&victim);
	process = &capture->processes[0];
	assert_int_equal(count_words(process, 0), 100);
	check_order(process->words);
	assert_non_null(capture->waits);
	for (size_t i = 0; i < process->thread_count; i++) {
		const struct snap_thread *thread = &process->threads[i];
		struct snap_thread_call call = snap_wait_call_of(process->arch, thread);

		if (!thread->partial || call.number != SYS_futex)
			continue;
		waiting++;
		assert_true(call.known);
		assert_true(call.arguments[0] >= (uintptr_t)place->area + FIRST);
		assert_int_equal(call.sp, thread->call.sp);
#if defined(__GLIBC__) && defined(__x86_64__)
		assert_true(call.thread_pointer > call.sp);
		assert_true(call.thread_pointer < thread->stack_address + thread->stack_size);
#endif
	}
	assert_true(waiting > 0);
	drop_place();
}

/* How many threads have a time, which is none that is longer than there was one of them. */
static size_t count_times(const struct victim *victim, bool no_stop, int64_t begin_ns)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct snap_options options;
	size_t known = 0;

	snap_options_init(&options);
	options.explain = SNAP_EXPLAIN_ALL;
	options.no_stop = no_stop;
	capture = take_with(victim, &options);
	for (size_t i = 0; i < capture->processes[0].thread_count; i++) {
		int64_t blocked_ns = capture->processes[0].threads[i].blocked_ns;

		assert_true(blocked_ns >= -1);
		assert_true(blocked_ns < snap_clock_ns(CLOCK_MONOTONIC) - begin_ns);
		known += blocked_ns >= 0;
	}
	return known;
}

static void test_since_when(void **state _unused_)
{
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	struct victim victim;

	if (!tells_when_it_ran())
		skip_because("kernel: no se.exec_start");
	start_at_futexes(&victim, 8, FAR, stand_at_futexes);
	for (int no_stop = 1; no_stop >= 0; no_stop--) {
		size_t known = 0;

		/* On a busy machine the time is up before all processors' clocks are read. */
		for (unsigned round = 0; round < 50 && !known; round++)
			known = count_times(&victim, no_stop, begin_ns);
		assert_true(known > 0);
	}
	victim_end(&victim);
	drop_place();
}

/* ---- pages that are not there ---- */

/* The first half of the pages goes when all wait. */
static void take_pages_away(int commands, int answers)
{
	stand_at_futexes(commands, answers);
	if (munmap(place->area, place->count / 2 * place->stride))
		_exit(3);
	answer(answers, 0);
	command(commands);
}

static void test_unmapped_pages(void **state _unused_)
{
	const size_t count = 64, gone = count / 2;
	struct victim victim;

	start_at_futexes(&victim, count, FAR, take_pages_away);
	tell(&victim);
	wait_answer(&victim);
	for (int no_stop = 0; no_stop < 2; no_stop++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
		struct snap_options options;

		snap_options_init(&options);
		options.no_stop = no_stop;
		capture = take_with(&victim, &options);
		assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_NONE);
		assert_int_equal(count_words(&capture->processes[0], 0), count - gone);
		assert_int_equal(capture->warning_count, no_stop);
	}
	victim_end(&victim);
	drop_place();
}

/* A child waits as its parent does, whose pages nobody serves any more. */
static void stand_at_pages_that_nobody_serves(int commands, int answers)
{
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		start_waiters(answers);
		for (;;)
			pause();
	}
	stand_at_futexes(commands, answers);
	range.range.start = (uintptr_t)place->area;
	range.range.len = place->area_size;
	answer(answers, fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 &&
					ioctl(fd, UFFDIO_REGISTER, &range) == 0 &&
					madvise(place->area, place->area_size, MADV_DONTNEED) == 0
				? (int)child
				: 0);
	command(commands);
}

static bool warns_of_words(const struct snap_capture *capture, pid_t pid)
{
	for (size_t i = 0; i < capture->warning_count; i++)
		if (strcmp(capture->warnings[i].code, "memory_stalled") == 0 &&
		    capture->warnings[i].pid == pid &&
		    strstr(capture->warnings[i].message, "wait for"))
			return true;
	return false;
}

static void test_page_that_nobody_serves(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	const size_t count = 32;
	struct victim victim, child = { .pid = 0 };
	const struct snap_process *process;
	pid_t pid;

	make_place(count * FAR + PAGE);
	place->count = count;
	place->stride = FAR;
	victim_start(&victim, stand_at_pages_that_nobody_serves);
	wait_answer(&victim);
	wait_answer(&victim);
	await_calls(&victim, SYS_futex, count);
	tell(&victim);
	child.pid = wait_answer(&victim);
	if (!child.pid) {
		victim_end(&victim);
		skip_because("kernel: no userfaultfd for the kernel's own reads");
	}
	await_calls(&child, SYS_futex, count);
	capture = take(&victim);
	pid = victim.pid;
	victim_end(&victim);
	assert_int_equal(capture->process_count, 2);
	process = &capture->processes[0];
	assert_int_equal(process->thread_count, count + 1);
	for (size_t i = 0; i <= count; i++)
		assert_true(process->threads[i].stack_size > 0);
	assert_int_equal(count_words(process, 0), 0);
	assert_true(warns_of_words(capture, pid));
	process = &capture->processes[1];
	assert_int_equal(process->pid, child.pid);
	assert_int_equal(count_words(process, 0), count);
	assert_false(warns_of_words(capture, child.pid));
	drop_place();
}

/* ---- other calls ---- */

static void *wait_in_poll(void *fds)
{
	own_poll(fds, SNAP_MAX_POLLED);
	return NULL;
}

static void *wait_in_select(void *sets)
{
	fd_set *set = sets;

	own_select(200, &set[0], &set[1]);
	return NULL;
}

static void *wait_for_several(void *waitv)
{
	syscall(SYS_futex_waitv, waitv, 2, 0, NULL, CLOCK_MONOTONIC);
	return NULL;
}

/* What the arguments name lies far from stacks, and from each other. */
static void stand_in_calls(int commands, int answers)
{
	struct pollfd *fds = (struct pollfd *)(void *)place->area;
	fd_set *sets = (fd_set *)(void *)(place->area + 3 * PAGE);
	struct futex_waitv *waitv = (struct futex_waitv *)(void *)(place->area + 6 * PAGE);

	for (int i = 0; i < SNAP_MAX_POLLED; i++)
		fds[i] = (struct pollfd){ .fd = i ? -i : commands, .events = POLLPRI };
	for (int i = 0; i < 2; i++)
		waitv[i] = (struct futex_waitv){
			.uaddr = (uintptr_t)(place->area + (8 + i) * PAGE),
			.flags = FUTEX_32,
		};
	start_waiter(wait_in_poll, fds);
	FD_ZERO(&sets[1]);
	FD_SET(commands, &sets[0]);
	start_waiter(wait_in_select, sets);
	start_waiter(wait_for_several, waitv);
	answer(answers, 0);
	command(commands);
}

static void check_arrays(const struct snap_memory_image *words)
{
	struct pollfd fds[SNAP_MAX_POLLED];
	struct futex_waitv waitv[2];
	uint64_t set[4];

	assert_non_null(words);
	check_order(words);
	assert_true(snap_memory_image_read(words, (uintptr_t)place->area, fds, sizeof(fds)));
	assert_int_equal(fds[SNAP_MAX_POLLED - 1].fd, -(SNAP_MAX_POLLED - 1));
	/* 200 descriptors are four words, of each set. */
	assert_true(
		snap_memory_image_read(words, (uintptr_t)place->area + 3 * PAGE, set, sizeof(set)));
	assert_true(set[0] || set[1] || set[2] || set[3]);
	assert_true(snap_memory_image_read(
		words, (uintptr_t)place->area + 3 * PAGE + sizeof(fd_set), set, sizeof(set)));
	assert_true(snap_memory_image_read(words, (uintptr_t)place->area + 6 * PAGE, waitv,
					   sizeof(waitv)));
	for (int i = 0; i < 2; i++) {
		uint32_t word;

		assert_int_equal(waitv[i].uaddr, (uintptr_t)(place->area + (8 + i) * PAGE));
		assert_true(snap_memory_image_read(words, waitv[i].uaddr, &word, sizeof(word)));
	}
}

static void test_arrays(void **state _unused_)
{
	struct victim victim;

	make_place(16 * PAGE);
	victim_start(&victim, stand_in_calls);
	wait_answer(&victim);
	await_calls(&victim, OWN_POLL, 1);
	await_calls(&victim, OWN_SELECT, 1);
	await_calls(&victim, SYS_futex_waitv, 1);
	/* A stop makes poll(2) restart_syscall(2): so it comes last. */
	for (int stop = 0; stop < 2; stop++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
		struct snap_options options;

		snap_options_init(&options);
		options.no_stop = !stop;
		capture = take_with(&victim, &options);
		check_arrays(capture->processes[0].words);
	}
	victim_end(&victim);
	drop_place();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_futexes),
		cmocka_unit_test(test_one_futex),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_nobody_asks),
		cmocka_unit_test(test_without_a_stop),
		cmocka_unit_test(test_since_when),
		cmocka_unit_test(test_unmapped_pages),
		cmocka_unit_test(test_page_that_nobody_serves),
		cmocka_unit_test(test_arrays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
