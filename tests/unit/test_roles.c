/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Roles and the broker: what crosses the borders between them, and what is refused there. */
#include "model/capture.h"
#include "roles/broker.h"
#include "roles/role.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

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

/* The kernel says that the other end is gone before it hands out that one's last message. */
static void test_last_message_of_an_end_that_read_not_all(void **state _unused_)
{
	char bytes[8] = "";
	size_t size;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_null(snap_wire_send(ends[0], "unread", 6, -1));
	assert_null(snap_wire_send(ends[1], "last", 4, -1));
	close(ends[1]);
	assert_null(snap_wire_receive(ends[0], bytes, sizeof(bytes), &size, NULL));
	assert_int_equal(size, 4);
	assert_memory_equal(bytes, "last", 4);
	assert_null(snap_wire_receive(ends[0], bytes, sizeof(bytes), &size, NULL));
	assert_int_equal(size, 0);
	close(ends[0]);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_and_descriptors),
		cmocka_unit_test(test_role_that_ends),
		cmocka_unit_test(test_role_has_nothing_but_its_own),
		cmocka_unit_test(test_errors_travel),
		cmocka_unit_test(test_last_message_of_an_end_that_read_not_all),
		cmocka_unit_test(test_hostile_errors),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_local_broker),
		cmocka_unit_test(test_descriptors_that_are_given),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
