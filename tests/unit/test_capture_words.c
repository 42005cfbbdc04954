/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that explains waits, of processes that the test forks itself: words around each futex that
 * somebody waits for, and what arguments of other calls lead to. The threads are known to wait when
 * the kernel says so.
 */
#include "api/options.h"
#include "base/cleanup.h"
#include "capture/capture.h"
#include "model/wait/call.h"
#include "proc/procfs.h"
#include "skip.h"
#include "victims.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	MANY = 1000,
	PAGE = 4096,
	STRIDE = 2048, /* from one futex to the next */
	FIRST = SNAP_WORDS_BEFORE,
	STACK = 1 << 16,
	NAP_NS = 1000000,
};

/* Shared with the victim: where its words are. */
struct place {
	uint8_t *area;
	size_t area_size;
	size_t count; /* futexes from area + FIRST on, STRIDE bytes apart */
	struct pollfd fds[SNAP_MAX_POLLED];
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
static void stand_at_futexes(int commands, int answers)
{
	for (size_t i = 0; i < place->count; i++) {
		uint32_t *word = (uint32_t *)(void *)(place->area + FIRST + i * STRIDE);

		for (int k = -SNAP_WORDS_BEFORE / 4; k < SNAP_WORDS_BEHIND / 4; k++)
			word[k] = (uint32_t)i + 1;
		start_waiter(wait_for_futex, word);
	}
	answer(answers, 0);
	command(commands);
}

/* So many threads of the process are in a call of that number. */
static void await_calls(const struct victim *victim, long number, size_t count)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	const struct timespec nap = { .tv_nsec = NAP_NS };
	_cleanup_fd_ int process_fd = -1, tasks_fd = -1;
	pid_t *tids = calloc(count + 16, sizeof(*tids));
	size_t found = 0;

	assert_null(snap_procfs_open(NULL, &procfs));
	process_fd = snap_procfs_open_process(&procfs, victim->pid);
	tasks_fd = snap_procfs_open_tasks(process_fd);
	assert_true(tasks_fd >= 0);
	while (found < count) {
		ssize_t listed = snap_procfs_list(tasks_fd, tids, count + 16);

		found = 0;
		for (ssize_t i = 0; i < listed && i < (ssize_t)count + 16; i++) {
			char text[256] = "";

			snap_procfs_task_read(tasks_fd, tids[i], "syscall", text, sizeof(text));
			found += text[0] != 'r' && strtol(text, NULL, 10) == number;
		}
		if (found < count)
			nanosleep(&nap, NULL);
	}
	free(tids);
}

static struct snap_capture *take(const struct victim *victim, enum snap_explain explain)
{
	struct snap_target target = { .kind = SNAP_TARGET_PID, .pid = victim->pid };
	struct snap_capture *capture = NULL;
	struct snap_options options;

	snap_options_init(&options);
	options.explain = explain;
	options.targets = &target;
	options.target_count = 1;
	assert_null(snap_capture_take(&options, NULL, &capture));
	options.targets = NULL;
	options.target_count = 0;
	snap_options_deinit(&options);
	if (capture->processes[0].trouble == SNAP_TROUBLE_PERMISSION_DENIED) {
		snap_capture_destroy(capture);
		skip_because(NO_TRACING);
	}
	return capture;
}

static void make_place(size_t size)
{
	place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(place, MAP_FAILED);
	place->area_size = size;
	place->area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(place->area, MAP_FAILED);
}

static void drop_place(void)
{
	munmap(place->area, place->area_size);
	munmap(place, sizeof(*place));
}

static bool has_words(const struct snap_capture *capture, size_t index)
{
	const struct snap_process *process = &capture->processes[0];
	uint32_t words[(SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND) / 4];

	if (!process->words || !snap_memory_image_read(process->words,
						       (uintptr_t)place->area + FIRST +
							       index * STRIDE - SNAP_WORDS_BEFORE,
						       words, sizeof(words)))
		return false;
	for (size_t i = 0; i < sizeof(words) / 4; i++)
		assert_int_equal(words[i], index + 1);
	return true;
}

static void test_many_futexes(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	const struct snap_process *process;
	struct victim victim;

	make_place((size_t)MANY * STRIDE + PAGE);
	place->count = MANY;
	victim_start(&victim, stand_at_futexes);
	wait_answer(&victim);
	await_calls(&victim, SYS_futex, MANY);
	capture = take(&victim, SNAP_EXPLAIN_SURE);
	victim_end(&victim);
	process = &capture->processes[0];
	assert_int_equal(process->thread_count, MANY + 1);
	for (size_t i = 0; i < MANY; i++)
		assert_true(has_words(capture, i));
	for (size_t i = 1; i < process->words->piece_count; i++)
		assert_true(process->words->pieces[i - 1].address +
				    process->words->pieces[i - 1].size <=
			    process->words->pieces[i].address);
	assert_non_null(capture->waits);
	assert_true(capture->waits->monotonic_ns > 0);
	assert_true(capture->waits->boottime_ns > 0);
	assert_true(capture->waits->realtime_ns > capture->waits->monotonic_ns);
	drop_place();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_futexes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
