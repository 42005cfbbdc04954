/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Collectors: what they hand over, and what happens when one of them dies, hangs or is replaced. */
#include "base/clock.h"
#include "model/capture.h"
#include "roles/broker.h"
#include "roles/collector/collector.h"
#include "store/capture/file.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct plan {
	pid_t *who; /* shared: the collector's pid */
	bool fails, hangs, dies;
	bool is_blocked; /* the first one, in the middle of its capture */
};

/* The file for the capture, as the collector's caller made it. */
static int find_capture_file(void)
{
	for (int fd = 3; fd < 64; fd++) {
		char place[64], link[64] = "";

		(void)snprintf(place, sizeof(place), "/proc/self/fd/%d", fd);
		if (readlink(place, link, sizeof(link) - 1) > 0 &&
		    strstr(link, "stacksnap-capture"))
			return fd;
	}
	return -1;
}

/* A parent sleeps uninterruptibly until the child of its vfork ends. */
static void block(void)
{
	pid_t child = vfork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

static struct stacksnap_error *make(void *context, const struct snap_options *options,
				    struct snap_capture **ret)
{
	const struct plan *plan = context;
	struct snap_capture *capture;

	assert_int_equal(options->self, getppid());
	if (plan->is_blocked && !*plan->who) {
		*plan->who = getpid();
		assert_int_equal(write(find_capture_file(), "a part", 6), 6);
		block();
	}
	*plan->who = getpid();
	if (plan->fails)
		return snap_error_format(SNAP_ERROR_PERMISSION, "not for you");
	if (plan->dies)
		raise(SIGKILL);
	while (plan->hangs)
		pause();
	capture = snap_capture_new();
	capture->host = (struct snap_host){ .name = "h", .kernel = "k", .arch = "a", .cpus = 1 };
	*ret = capture;
	return NULL;
}

static struct stacksnap_error *start_and_await(const struct snap_options *options,
					       struct plan *plan, int64_t deadline_ns,
					       struct snap_collector **ret)
{
	struct snap_collector_start start = {
		.make = make, .context = plan, .input = -1, .deadline_ns = deadline_ns
	};

	plan->who = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_null(snap_collector_start(options, &start, ret));
	return snap_collector_await(*ret);
}

static void test_collector(void **state _unused_)
{
	struct snap_options options = { .timeout_ns = 1000000000 };
	struct plan plan = { .fails = false };
	struct snap_capture *capture = NULL;
	struct snap_collector *collector = NULL;

	assert_null(start_and_await(&options, &plan, 0, &collector));
	assert_int_not_equal(*plan.who, getpid());
	assert_null(snap_capture_take_over(snap_collector_bytes(collector),
					   snap_collector_shared(collector), &capture));
	assert_string_equal(capture->host.name, "h");
	snap_capture_destroy(capture);
	snap_collector_destroy(collector);
	assert_int_equal(kill(*plan.who, 0), -1);
	munmap(plan.who, 4096);
}

/* What one left that was replaced is no part of its successor's capture. */
static void test_replaced_collector(void **state _unused_)
{
	struct snap_options options = { .timeout_ns = 1000000000 };
	struct plan plan = { .is_blocked = true };
	struct snap_capture *capture = NULL;
	struct snap_collector *collector = NULL;

	assert_null(start_and_await(&options, &plan, 0, &collector));
	assert_null(snap_capture_take_over(snap_collector_bytes(collector),
					   snap_collector_shared(collector), &capture));
	assert_string_equal(capture->host.name, "h");
	snap_capture_destroy(capture);
	snap_collector_destroy(collector);
	munmap(plan.who, 4096);
}

static void assert_collector_fails(struct plan plan, int64_t deadline_ns, enum snap_error_code code,
				   const char *words)
{
	struct snap_options options = { .timeout_ns = 50000000 };
	struct snap_collector *collector = NULL;
	struct stacksnap_error *err = start_and_await(&options, &plan, deadline_ns, &collector);

	assert_non_null(err);
	assert_int_equal(snap_error_code(err), code);
	assert_non_null(strstr(snap_error_message(err), words));
	snap_error_destroy(err);
	snap_collector_destroy(collector);
	assert_int_equal(kill(*plan.who, 0), -1);
	munmap(plan.who, 4096);
}

static void test_ends_of_collectors(void **state _unused_)
{
	assert_collector_fails((struct plan){ .fails = true }, 0, SNAP_ERROR_PERMISSION,
			       "not for you");
	assert_collector_fails((struct plan){ .dies = true }, 0, SNAP_ERROR_CRASHED,
			       "was killed by signal 9");
	assert_collector_fails((struct plan){ .hangs = true },
			       snap_clock_ns(CLOCK_MONOTONIC) + 50000000, SNAP_ERROR_TIMEOUT,
			       "gave up after 50 ms (--timeout)");
}

static void test_collector_without_its_worker(void **state _unused_)
{
	struct snap_broker_request request = { .kind = SNAP_FILE_MODULE, .name = "a.debug" };
	struct snap_options options = { .timeout_ns = 1000000000 };
	struct plan plan = { .fails = false };
	struct snap_collector *collector = NULL;
	struct snap_broker broker;
	struct stacksnap_error *err;
	char path[64], children[64] = "";
	struct snap_broker_reply reply = SNAP_BROKER_REPLY(-1);
	FILE *file;

	assert_null(start_and_await(&options, &plan, 0, &collector));
	broker = snap_collector_broker(collector, &options, 0);
	/* A request that makes no sense is answered; one after the worker's death finds nothing. */
	request.process = 9;
	err = broker.answer(broker.context, &request, &reply);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	snap_error_destroy(err);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", *plan.who, *plan.who);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(children, sizeof(children), file));
	fclose(file);
	kill(atoi(children), SIGKILL);
	err = broker.answer(broker.context, &request, &reply);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_NOT_FOUND);
	snap_error_destroy(err);
	/* Another worker has taken its place, but for that process. */
	request.process = 10;
	err = broker.answer(broker.context, &request, &reply);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	snap_error_destroy(err);
	snap_collector_destroy(collector);
	munmap(plan.who, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collector),
		cmocka_unit_test(test_replaced_collector),
		cmocka_unit_test(test_ends_of_collectors),
		cmocka_unit_test(test_collector_without_its_worker),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
