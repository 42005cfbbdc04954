/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Roles: what crosses the borders between them, and what happens when one of them dies or hangs. */
#include "base/shared_memory.h"
#include "mappings.h"
#include "model/capture.h"
#include "patience.h"
#include "roles/broker.h"
#include "roles/collector/collector.h"
#include "roles/fallback.h"
#include "roles/role.h"
#include "roles/sandbox/sandbox.h"
#include "skip.h"
#include "store/capture/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- roles ---- */

static void echo(void *context, int channel)
{
	char bytes[64];
	size_t size;
	int fd;

	while (!snap_error_ignore(snap_wire_receive(channel, bytes, sizeof(bytes), &size, &fd)) &&
	       size) {
		(*(volatile int *)context)++;
		if (snap_error_ignore(snap_wire_send(channel, bytes, size, fd)))
			return;
		snap_close(&fd);
	}
}

static void test_messages_and_descriptors(void **state _unused_)
{
	struct snap_role role = SNAP_ROLE_NONE;
	char bytes[64] = "";
	int counter = 0, pipes[2], fd = -1;
	size_t size;

	assert_int_equal(pipe(pipes), 0);
	assert_null(snap_role_spawn("echo", echo, &counter, &role));
	assert_null(snap_wire_send(role.channel, "hello", 6, pipes[1]));
	assert_null(snap_wire_receive(role.channel, bytes, sizeof(bytes), &size, &fd));
	assert_int_equal(size, 6);
	assert_string_equal(bytes, "hello");
	assert_true(fd >= 0 && fd != pipes[1]);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(read(pipes[0], bytes, 1), 1);
	/* It is a copy: what it counts is its own. */
	assert_int_equal(counter, 0);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(snap_role_end(&role), -1);
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(snap_role_end(&role), -1);
}

static void leave_at_once(void *context _unused_, int channel _unused_)
{
}

static void test_role_that_ends(void **state _unused_)
{
	struct stacksnap_error *err;
	struct snap_role role;
	char bytes[8];
	size_t size = 1;
	int status;

	assert_null(snap_role_spawn("brief", leave_at_once, NULL, &role));
	assert_true(snap_role_has_ended(&role, 5000));
	assert_null(snap_wire_receive(role.channel, bytes, sizeof(bytes), &size, NULL));
	assert_int_equal(size, 0);
	err = snap_wire_send(role.channel, "x", 1, -1);
	assert_int_equal(snap_error_errno(err), EPIPE);
	snap_error_destroy(err);
	status = snap_role_end(&role);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void look_around(void *context, int channel)
{
	int *found = context;
	sigset_t blocked;

	sigprocmask(SIG_BLOCK, NULL, &blocked);
	found[0] = sigismember(&blocked, SIGINT);
	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(&channel, 1);
	for (int fd = 3; fd < 100; fd++)
		found[1] += fcntl(fd, F_GETFD) >= 0;
	found[2] = lseek(0, 0, SEEK_CUR) == 0 && isatty(0) == 0;
}

static void test_role_has_nothing_but_its_own(void **state _unused_)
{
	int *found = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int more[20];
	struct snap_role role;

	for (int i = 0; i < 20; i++)
		more[i] = open("/dev/null", O_RDONLY);
	assert_null(snap_role_spawn("look", look_around, found, &role));
	assert_true(snap_role_has_ended(&role, 5000));
	snap_role_end(&role);
	assert_int_equal(found[0], 1);
	assert_int_equal(found[1], 1);
	assert_int_equal(found[2], 1);
	for (int i = 0; i < 20; i++)
		close(more[i]);
	munmap(found, 4096);
}

static void test_errors_travel(void **state _unused_)
{
	struct stacksnap_error *errors[] = {
		NULL,
		snap_error_no_memory(),
		snap_error_not_found(),
		snap_error_cancelled(),
		snap_error_os(EACCES, "cannot stat %s", "x"),
		snap_error_format(SNAP_ERROR_PERMISSION, "not for you"),
		snap_error_format(SNAP_ERROR_CRASHED, "gone"),
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(errors); i++) {
		struct snap_wire_error packed;
		struct stacksnap_error *there;

		snap_wire_pack_error(errors[i], &packed);
		there = snap_wire_unpack_error(&packed);
		assert_int_equal(there == NULL, errors[i] == NULL);
		if (there) {
			assert_int_equal(snap_error_code(there), snap_error_code(errors[i]));
			assert_int_equal(snap_error_errno(there), snap_error_errno(errors[i]));
			assert_string_equal(snap_error_message(there),
					    snap_error_message(errors[i]));
		}
		snap_error_destroy(there);
		snap_error_destroy(errors[i]);
	}
}

static void test_hostile_errors(void **state _unused_)
{
	struct snap_wire_error packed;
	struct stacksnap_error *error;

	memset(&packed, 0xff, sizeof(packed));
	error = snap_wire_unpack_error(&packed);
	assert_int_equal(snap_error_code(error), SNAP_ERROR_OTHER);
	assert_true(strlen(snap_error_message(error)) < sizeof(packed.message));
	snap_error_destroy(error);
}

/* ---- the broker ---- */

static struct snap_broker_request valid_request(void)
{
	return (struct snap_broker_request){ .kind = SNAP_FILE_MODULE, .name = "a.debug" };
}

static void test_requests(void **state _unused_)
{
	static const char *const names[] = { "../x", "a/b", "..", ".", "/" };
	struct snap_broker_request request = valid_request();

	assert_true(snap_broker_is_valid(&request));
	request.kind = SNAP_FILE_PERF_MAP + 1;
	assert_false(snap_broker_is_valid(&request));
	request = valid_request();
	request.build_id_size = SNAP_BROKER_BUILD_ID + 1;
	assert_false(snap_broker_is_valid(&request));
	request = valid_request();
	memset(request.name, 'a', sizeof(request.name));
	assert_false(snap_broker_is_valid(&request));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++) {
		request = valid_request();
		strcpy(request.name, names[i]);
		assert_false(snap_broker_is_valid(&request));
	}
}

static struct stacksnap_error *find(void *context, const struct snap_file_request *request,
				    int *fd_ret)
{
	const struct snap_capture *capture = context;

	assert_ptr_equal(request->process, &capture->processes[1]);
	assert_int_equal(request->map, 2);
	if (request->attempt > 0)
		return snap_error_not_found();
	*fd_ret = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return NULL;
}

static void test_local_broker(void **state _unused_)
{
	struct snap_map maps[3] = { { .start = 0 } };
	struct snap_process processes[2] = { { .pid = 1 }, { .maps = maps, .map_count = 3 } };
	struct snap_capture capture = { .processes = processes, .process_count = 2 };
	struct snap_local_broker local = { .finder = { .find = find, .context = &capture },
					   .capture = &capture };
	struct snap_broker broker = snap_local_broker(&local);
	struct snap_broker_request request = valid_request();
	struct stacksnap_error *err;
	struct snap_broker_reply reply = SNAP_BROKER_REPLY(-1);

	request.process = 1;
	request.map = 2;
	assert_null(broker.answer(broker.context, &request, &reply));
	assert_null(snap_broker_check(reply.fd));
	snap_close(&reply.fd);
	request.map = 3;
	err = broker.answer(broker.context, &request, &reply);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	snap_error_destroy(err);
	request.map = 2;
	request.process = 2;
	err = broker.answer(broker.context, &request, &reply);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	snap_error_destroy(err);
}

static void test_descriptors_that_are_given(void **state _unused_)
{
	int fds[] = {
		open("/proc/self/exe", O_PATH),
		open("/dev/null", O_RDONLY),
		open("/", O_RDONLY),
		memfd_create("x", 0),
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(fds); i++) {
		assert_true(fds[i] >= 0);
		assert_true(snap_error_ignore(snap_broker_check(fds[i])));
		close(fds[i]);
	}
	assert_true(snap_error_ignore(snap_broker_check(-1)));
}

/* ---- parsers ---- */

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
	struct snap_broker_request request = valid_request();
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
	parser_case.call.deadline_ns = now_ns() + 50000000;
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
	for (int64_t until = now_ns() + 10000000000; count > 1 && now_ns() < until;)
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
	while (now_ns() < reply->until_ns)
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
		.deadline_ns = now_ns() + time_ns,
	};

	err = snap_fallback_run(&fallback, NULL);
	in_time = now_ns() < fallback.deadline_ns;
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

/* ---- collectors ---- */

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
	assert_collector_fails((struct plan){ .hangs = true }, now_ns() + 50000000,
			       SNAP_ERROR_TIMEOUT, "gave up after 50 ms (--timeout)");
}

static void test_collector_without_its_worker(void **state _unused_)
{
	struct snap_broker_request request = valid_request();
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
		cmocka_unit_test(test_messages_and_descriptors),
		cmocka_unit_test(test_role_that_ends),
		cmocka_unit_test(test_role_has_nothing_but_its_own),
		cmocka_unit_test(test_errors_travel),
		cmocka_unit_test(test_hostile_errors),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_local_broker),
		cmocka_unit_test(test_descriptors_that_are_given),
		cmocka_unit_test(test_result),
		cmocka_unit_test(test_a_parser_has_no_trace),
		cmocka_unit_test(test_ends_of_parsers),
		cmocka_unit_test(test_parser_made_beforehand),
		cmocka_unit_test(test_parser_comes_first_for_a_second),
		cmocka_unit_test(test_parser_shares_its_result_alone),
		cmocka_unit_test(test_ladder),
		cmocka_unit_test(test_ladder_in_time),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_collector),
		cmocka_unit_test(test_replaced_collector),
		cmocka_unit_test(test_ends_of_collectors),
		cmocka_unit_test(test_collector_without_its_worker),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
