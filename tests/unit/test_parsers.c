/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parsers: their results, their ends, and what is done without when one of them is lost. */
#include "base/clock.h"
#include "base/shared_memory.h"
#include "mappings.h"
#include "patience.h"
#include "roles/broker.h"
#include "roles/fallback.h"
#include "roles/sandbox/sandbox.h"
#include "skip.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A parser and what it is asked for. */
struct case_of_parser {
	struct snap_parser_start start;
	struct snap_parser_call call;
};

static struct case_of_parser plain_case(const struct snap_options *options)
{
	return (struct case_of_parser){
		.start = { .options = options, .capacity = 1 << 20 },
		.call = { .broker = snap_no_broker(), .inputs = { -1, -1 } },
	};
}

static struct stacksnap_error *run(struct case_of_parser *parser_case,
				   struct stacksnap_error *(*work)(void *context,
								   struct snap_parser_job *job),
				   void *context, const uint8_t **bytes_ret, uint64_t *size_ret)
{
	struct snap_parser *parser = NULL;
	struct stacksnap_error *err;

	parser_case->start.work = work;
	parser_case->start.context = context;
	assert_null(snap_parser_create(&parser_case->start, &parser));
	err = snap_parser_run(parser, &parser_case->call, bytes_ret, size_ret);
	/* Whatever happened: nobody is left. */
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	snap_parser_destroy(parser);
	return err;
}

static struct stacksnap_error *write_greeting(void *context, struct snap_parser_job *job)
{
	strcpy((char *)job->out, context);
	job->size = strlen(context) + 1;
	return NULL;
}

static void test_result(void **state _unused_)
{
	struct snap_options options = { .cancel = NULL };
	struct case_of_parser parser_case = plain_case(&options);
	char greeting[] = "good day";
	const uint8_t *bytes;
	uint64_t size;

	assert_null(run(&parser_case, write_greeting, greeting, &bytes, &size));
	assert_int_equal(size, 9);
	assert_string_equal((const char *)bytes, "good day");
	munmap((void *)(uintptr_t)bytes, size);
}

/* The trace of its options, and the ring where its maker has it. */
struct traced {
	const struct snap_options *options;
	const struct snap_trace *ring;
};

static struct stacksnap_error *look_for_trace(void *context, struct snap_parser_job *job)
{
	const struct traced *traced = context;
	uintptr_t page = (uintptr_t)traced->ring & ~(uintptr_t)4095;

	job->out[0] = traced->options->trace != NULL;
	/* ENOMEM: nothing is mapped there. */
	job->out[1] = madvise((void *)page, 4096, MADV_WILLNEED) == 0 || errno != ENOMEM;
	job->size = 2;
	return NULL;
}

static void test_a_parser_has_no_trace(void **state _unused_)
{
	struct snap_options options = { .cancel = NULL };
	struct case_of_parser parser_case = plain_case(&options);
	struct traced traced = { .options = &options };
	struct snap_region region;
	const uint8_t *bytes;
	uint64_t size;

	assert_null(snap_shared_scratch_create(sizeof(*traced.ring), &region));
	options.trace = (void *)region.next;
	traced.ring = options.trace;
	assert_null(run(&parser_case, look_for_trace, &traced, &bytes, &size));
	assert_int_equal(size, 2);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(bytes[1], 0);
	munmap((void *)(uintptr_t)bytes, size);
	assert_ptr_equal(options.trace, traced.ring);
	munmap(options.trace, sizeof(*options.trace));
}

static struct stacksnap_error *refuse(void *context _unused_, struct snap_parser_job *job _unused_)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "it is none");
}

static struct stacksnap_error *lie(void *context _unused_, struct snap_parser_job *job)
{
	job->size = job->capacity + 1;
	return NULL;
}

static struct stacksnap_error *die(void *context _unused_, struct snap_parser_job *job)
{
	*job->file_id = 4711;
	abort();
}

static struct stacksnap_error *leave(void *context _unused_, struct snap_parser_job *job _unused_)
{
	_exit(3);
}

static struct stacksnap_error *loop(void *context _unused_, struct snap_parser_job *job)
{
	while (job)
		(*(volatile uint64_t *)job->file_id)++;
	return NULL;
}

static struct stacksnap_error *talk_nonsense(void *context _unused_, struct snap_parser_job *job)
{
	struct snap_broker_request request = { .kind = SNAP_FILE_MODULE, .name = "a.debug" };
	struct snap_wire_error answer;
	size_t size;

	strcpy(request.name, "../../etc/shadow");
	if (!snap_error_ignore(snap_wire_send(job->channel, &request, sizeof(request), -1)) &&
	    !snap_error_ignore(
		    snap_wire_receive(job->channel, &answer, sizeof(answer), &size, NULL)))
		job->size = 1;
	return NULL;
}

/* What it says of itself is not what becomes of the run. */
static struct stacksnap_error *cancel(void *context _unused_, struct snap_parser_job *job _unused_)
{
	return snap_error_cancelled();
}

static void assert_fails(struct case_of_parser *parser_case,
			 struct stacksnap_error *(*work)(void *context,
							 struct snap_parser_job *job),
			 enum snap_error_code code, const char *words)
{
	const uint8_t *bytes = NULL;
	struct stacksnap_error *err;
	uint64_t size;

	err = run(parser_case, work, NULL, &bytes, &size);
	assert_non_null(err);
	if (!strstr(snap_error_message(err), words))
		print_message("# %s\n", snap_error_message(err));
	assert_non_null(strstr(snap_error_message(err), words));
	assert_int_equal(snap_error_code(err), code);
	assert_null(bytes);
	snap_error_destroy(err);
}

static void test_ends_of_parsers(void **state _unused_)
{
	struct snap_options options = { .cancel = NULL };
	struct case_of_parser parser_case = plain_case(&options);
	volatile int cancelled = 1;

	assert_fails(&parser_case, refuse, SNAP_ERROR_FORMAT, "it is none");
	assert_fails(&parser_case, lie, SNAP_ERROR_CRASHED, "left no result");
	assert_fails(&parser_case, die, SNAP_ERROR_CRASHED, "was killed by signal 6");
	assert_int_equal(parser_case.call.file_id, 4711);
	assert_fails(&parser_case, cancel, SNAP_ERROR_CRASHED, "exited early");
	assert_fails(&parser_case, leave, SNAP_ERROR_CRASHED, "exited with status 3");
	assert_fails(&parser_case, talk_nonsense, SNAP_ERROR_FORMAT, "invalid request");
	parser_case.call.deadline_ns = snap_clock_ns(CLOCK_MONOTONIC) + 50000000;
	assert_fails(&parser_case, loop, SNAP_ERROR_TIMEOUT, "took too long");
	assert_true(parser_case.call.file_id > 0);
	options.cancel = &cancelled;
	parser_case.call.deadline_ns = 0;
	assert_fails(&parser_case, loop, SNAP_ERROR_CANCELLED, "cancelled");
}

/* Made before there is anything to read, it waits; what it is sent is what it reads. */
static struct stacksnap_error *copy_inputs(void *context _unused_, struct snap_parser_job *job)
{
	for (int i = 0; i < SNAP_PARSER_INPUTS; i++)
		if (read(job->inputs[i], job->out + job->size++, 1) != 1)
			return snap_error_format(SNAP_ERROR_OTHER, "input %d cannot be read", i);
	return NULL;
}

static int memory_with(char byte)
{
	int fd = memfd_create("x", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
	return fd;
}

static void test_parser_made_beforehand(void **state _unused_)
{
	struct snap_options options = { .cancel = NULL };
	struct case_of_parser parser_case = plain_case(&options);
	struct snap_parser *parser = NULL;
	const uint8_t *bytes;
	uint64_t size;

	parser_case.start.work = copy_inputs;
	assert_null(snap_parser_create(&parser_case.start, &parser));
	parser_case.call.inputs[0] = memory_with('a');
	parser_case.call.inputs[1] = memory_with('b');
	assert_null(snap_parser_run(parser, &parser_case.call, &bytes, &size));
	assert_int_equal(size, 2);
	assert_memory_equal(bytes, "ab", 2);
	munmap((void *)(uintptr_t)bytes, size);
	snap_parser_destroy(parser);
	close(parser_case.call.inputs[0]);
	close(parser_case.call.inputs[1]);
	/* One that nobody has work for leaves nothing behind. */
	assert_null(snap_parser_create(&parser_case.start, &parser));
	snap_parser_destroy(parser);
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
}

static pid_t only_child(void)
{
	char path[64], children[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", gettid());
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(children, sizeof(children), file));
	fclose(file);
	return atoi(children);
}

/* What it says: its nice value at first, and after a second and a half of a processor's time. */
static struct stacksnap_error *use_the_processor(void *context, struct snap_parser_job *job)
{
	int first = getpriority(PRIO_PROCESS, 0), now = first;
	struct timespec used = { .tv_sec = 0 };

	(void)context;
	/* The maker looks every 20 ms, and on a busy machine later. */
	while (used.tv_sec < 8 && (used.tv_sec * 10 + used.tv_nsec / 100000000 < 15 || now < 0)) {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
		now = getpriority(PRIO_PROCESS, 0);
	}
	job->out[0] = (uint8_t)first;
	job->out[1] = (uint8_t)now;
	job->out[2] = getsid(0) == getpid();
	job->size = 3;
	return NULL;
}

/* Whose end a report waits for comes before others at first, and no longer than it may be trusted. */
static void test_parser_comes_first_for_a_second(void **state _unused_)
{
	struct snap_options options = { .cancel = NULL, .no_sandbox = true };
	struct case_of_parser parser_case = plain_case(&options);
	struct snap_parser *parser = NULL;
	const uint8_t *bytes;
	uint64_t size;

	if (geteuid() != 0 || setpriority(PRIO_PROCESS, 0, -1) < 0)
		skip_because("not permitted: a nice value below 0");
	assert_int_equal(setpriority(PRIO_PROCESS, 0, 0), 0);
	parser_case.start.work = use_the_processor;
	assert_null(snap_parser_create(&parser_case.start, &parser));
	assert_null(snap_parser_run(parser, &parser_case.call, &bytes, &size));
	assert_int_equal(size, 3);
	assert_int_equal((int8_t)bytes[0], -10);
	assert_int_equal((int8_t)bytes[1], 0);
	assert_true(bytes[2]);
	munmap((void *)(uintptr_t)bytes, size);
	snap_parser_destroy(parser);
}

/* It waits in its sandbox, where it has nothing of what its maker shares with others. */
static void test_parser_shares_its_result_alone(void **state _unused_)
{
	int file = memfd_create("x", MFD_CLOEXEC), count;
	struct snap_options options = { .cancel = NULL };
	struct case_of_parser parser_case = plain_case(&options);
	struct snap_parser *parser = NULL;
	struct shared_range ranges[8];
	char byte = 'a';
	void *shared[3];

	assert_int_equal(ftruncate(file, 8192), 0);
	shared[0] = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
	shared[1] = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	shared[2] = mmap(NULL, 8192, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	parser_case.start.work = copy_inputs;
	assert_null(snap_parser_create(&parser_case.start, &parser));
	count = shared_mappings(only_child(), ranges, 8);
	for (int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + 10000000000;
	     count > 1 && snap_clock_ns(CLOCK_MONOTONIC) < until;)
		count = shared_mappings(only_child(), ranges, 8);
	if (count >= 0) {
		assert_int_equal(count, 1);
		assert_int_equal(ranges[0].end - ranges[0].start, (1 << 20) + SNAP_MOST_PAGE);
	}
	assert_int_equal(pwrite(file, &byte, 1, 0), 1);
	assert_int_equal(*(char *)shared[1], 'a');
	snap_parser_destroy(parser);
	for (int i = 0; i < 3; i++)
		munmap(shared[i], 8192);
	close(file);
	if (count < 0)
		skip_because(NOT_ROOT);
}

/* ---- fallback ---- */

struct tries {
	uint64_t file_id;
	enum snap_effort succeeds;
};

/* The parser shares nothing with its maker but its result: what it has to say is asked for. */
static struct stacksnap_error *count_request(void *context,
					     const struct snap_broker_request *request,
					     struct snap_broker_reply *reply _unused_)
{
	((unsigned *)context)[request->process]++;
	return snap_error_not_found();
}

static struct stacksnap_error *die_at_file(void *context, enum snap_effort effort,
					   struct snap_parser_job *job)
{
	const struct tries *tries = context;

	struct snap_broker_request request = { .process = effort };
	struct snap_broker_answer answer;
	size_t size;

	if (snap_error_ignore(snap_wire_send(job->channel, &request, sizeof(request), -1)) ||
	    snap_error_ignore(
		    snap_wire_receive(job->channel, &answer, sizeof(answer), &size, NULL)))
		_exit(9);
	*job->file_id = tries->file_id;
	if (effort != tries->succeeds)
		abort();
	job->size = 1;
	return NULL;
}

static struct stacksnap_error *take_nothing(void *context _unused_, const uint8_t *bytes,
					    uint64_t size)
{
	munmap((void *)(uintptr_t)bytes, size);
	return NULL;
}

static void assert_ladder(uint64_t file_id, const unsigned *tried)
{
	struct snap_options options = { .cancel = NULL };
	struct tries tries = { .file_id = file_id, .succeeds = SNAP_EFFORT_NO_FILES };
	unsigned counts[SNAP_EFFORT_COUNT] = { 0 };
	struct snap_fallback fallback = {
		.work = die_at_file,
		.take = take_nothing,
		.context = &tries,
		.options = &options,
		.broker = { .answer = count_request, .context = counts },
		.inputs = { -1, -1 },
	};
	struct snap_parser *prepared = NULL;

	assert_null(snap_fallback_prepare(&fallback, &prepared));
	assert_null(snap_fallback_run(&fallback, prepared));
	assert_memory_equal(counts, tried, sizeof(counts));
	assert_int_equal(fallback.effort, SNAP_EFFORT_NO_FILES);
	assert_non_null(strstr(snap_error_message(fallback.reason), "was killed by signal 6"));
	snap_error_destroy(fallback.reason);
}

/* With the file it was at told, each effort but the last is tried once without it. */
static void test_ladder(void **state _unused_)
{
	assert_ladder(0, (const unsigned[]){ 1, 1, 1 });
	assert_ladder(7, (const unsigned[]){ 2, 1, 1 });
}

/* Looks at another file each time, and never ends with it; or is at none that it tells of. */
static struct stacksnap_error *think_for_ever(void *context, enum snap_effort effort,
					      struct snap_parser_job *job)
{
	const bool *notes_files = context;
	struct snap_broker_request request = { .process = effort };

	if (snap_error_ignore(snap_wire_send(job->channel, &request, sizeof(request), -1)))
		return NULL;
	if (*notes_files)
		*job->file_id = (uint64_t)getpid();
	for (;;)
		pause();
}

/* A file that nobody opens: whoever answers is held for as long as anybody waits for it. */
static struct stacksnap_error *hold_request(void *context,
					    const struct snap_broker_request *request,
					    struct snap_broker_reply *reply)
{
	unsigned *counts = context;

	counts[request->process]++;
	assert_true(reply->until_ns > 0);
	while (snap_clock_ns(CLOCK_MONOTONIC) < reply->until_ns)
		usleep(1000);
	return snap_error_not_found();
}

/* Each effort was tried; the last try ended, and there was time left for who needs no parser. */
static bool ladder_ends(bool notes_files, int64_t time_ns)
{
	struct snap_options options = { .cancel = NULL };
	unsigned counts[SNAP_EFFORT_COUNT] = { 0 };
	struct stacksnap_error *err;
	bool in_time;
	struct snap_fallback fallback = {
		.work = think_for_ever,
		.take = take_nothing,
		.context = &notes_files,
		.options = &options,
		.broker = { .answer = hold_request, .context = counts },
		.inputs = { -1, -1 },
		.deadline_ns = snap_clock_ns(CLOCK_MONOTONIC) + time_ns,
	};

	err = snap_fallback_run(&fallback, NULL);
	in_time = snap_clock_ns(CLOCK_MONOTONIC) < fallback.deadline_ns;
	assert_int_equal(snap_error_code(err), SNAP_ERROR_TIMEOUT);
	assert_int_equal(fallback.effort, SNAP_EFFORT_NO_FILES);
	assert_int_equal(counts[SNAP_EFFORT_ALL], notes_files ? 2 : 1);
	assert_in_range(counts[SNAP_EFFORT_NO_SYMBOLS], 1, 2);
	assert_int_equal(counts[SNAP_EFFORT_NO_FILES], 1);
	snap_error_destroy(err);
	snap_error_destroy(fallback.reason);
	return in_time;
}

/* Whatever holds each of them: all is over before the deadline, but for want of a processor. */
static void test_ladder_in_time(void **state _unused_)
{
	for (int files = 0; files < 2; files++) {
		bool in_time = false;

		for (int tries = 0; tries < 3 && !in_time; tries++)
			in_time = ladder_ends(files, with_patience(2000000000));
		assert_true(in_time);
	}
}

static void test_refusals(void **state _unused_)
{
	struct snap_refusals refusals = { .broker = snap_no_broker() };

	assert_false(snap_refuse_file(&refusals, 0, 2));
	assert_true(snap_refuse_file(&refusals, 5, 2));
	assert_false(snap_refuse_file(&refusals, 5, 2));
	assert_true(snap_refuse_file(&refusals, 6, 2));
	assert_false(snap_refuse_file(&refusals, 7, 2));
	assert_int_equal(refusals.count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result),
		cmocka_unit_test(test_a_parser_has_no_trace),
		cmocka_unit_test(test_ends_of_parsers),
		cmocka_unit_test(test_parser_made_beforehand),
		cmocka_unit_test(test_parser_comes_first_for_a_second),
		cmocka_unit_test(test_parser_shares_its_result_alone),
		cmocka_unit_test(test_ladder),
		cmocka_unit_test(test_ladder_in_time),
		cmocka_unit_test(test_refusals),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
