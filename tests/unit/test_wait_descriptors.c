/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Descriptors and sockets that real threads wait with, resolved while they wait. */
#include "own_calls.h"
#include "wait_scene.h"

#include "base/cleanup.h"
#include "discover/internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#include <cmocka.h>

static char buffer[512];

static size_t call_read(struct scene *scene, int fd)
{
	return scene_call(scene, SYS_read, fd, (long)buffer, sizeof(buffer), 0, 0);
}

static const struct snap_process *process_of(const struct scene *scene)
{
	return &scene->capture->processes[0];
}

static struct scene *new_scene(void)
{
	struct scene *scene = malloc(sizeof(*scene));

	assert_non_null(scene);
	scene_init(scene);
	return scene;
}

static void test_nothing_costs_nothing(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	static uint32_t word;
	struct snap_thread *thread;

	scene_call(scene, SYS_futex, (long)&word, 0, 0, 0, 0);
	scene_capture(scene, NULL, 0);
	/* With a call that is known there is nothing to ask. */
	thread = &scene->capture->processes[0].threads[0];
	thread->call = (struct snap_thread_call){ .known = true, .number = SYS_futex };
	scene_resolve(scene);
	assert_int_equal(process_of(scene)->descriptor_count, 0);
	assert_int_equal(process_of(scene)->net_namespace, 0);
	assert_int_equal(scene->capture->waits->lacks, 0);
	scene_deinit(scene);
}

static void test_pipe(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	const struct snap_descriptor *descriptor;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	call_read(scene, ends[0]);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	descriptor = scene_descriptor(process_of(scene), ends[0]);
	assert_non_null(descriptor);
	assert_int_equal(descriptor->kind, SNAP_DESCRIPTOR_PIPE);
	assert_int_equal(descriptor->inode, scene_inode(ends[0]));
	assert_true(descriptor->readable && !descriptor->writable);
	assert_true(process_of(scene)->threads[0].call.known);
	assert_int_equal(process_of(scene)->threads[0].call.number, SYS_read);
	assert_int_equal(process_of(scene)->threads[0].call.arguments[0], ends[0]);
	assert_true(process_of(scene)->threads[0].call_confirmed);
	assert_int_equal(scene->capture->waits->lacks, 0);
	scene_deinit(scene);
	close(ends[0]);
	close(ends[1]);
}

/* What discovery asked with is used once, and answers as workers of one's own do. */
static void test_borrowed_workers(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	struct snap_asker *asker;
	struct snap_asker_loan loan;
	int ends[2];

	assert_null(snap_asker_new(0, &asker));
	assert_false(snap_asker_lend(asker, &loan));
	assert_true(snap_asker_prepare(asker, true));
	assert_int_equal(pipe(ends), 0);
	call_read(scene, ends[0]);
	scene_capture(scene, NULL, 0);
	scene->capture->asker = asker;
	scene_resolve(scene);
	assert_int_equal(scene_descriptor(process_of(scene), ends[0])->inode, scene_inode(ends[0]));
	assert_true(process_of(scene)->threads[0].call_confirmed);
	assert_int_equal(scene->capture->waits->lacks, 0);
	assert_false(snap_asker_lend(asker, &loan));
	scene_deinit(scene);
	snap_asker_destroy(asker);
	close(ends[0]);
	close(ends[1]);
}

/* A file may have such a name, and its owner may open it by that alone. */
static void test_file_that_is_called_a_pipe(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	char folder[] = "/tmp/snap-wait-XXXXXX", path[64];
	const struct snap_descriptor *descriptor;
	int fd, here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/pipe:[1]", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(chdir(folder), 0);
	fd = open("pipe:[1]", O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	call_read(scene, fd);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	descriptor = scene_descriptor(process_of(scene), fd);
	assert_non_null(descriptor);
	assert_int_equal(descriptor->kind, SNAP_DESCRIPTOR_FIFO);
	assert_string_equal(descriptor->link, path);
	assert_int_equal(descriptor->inode, scene_inode(fd));
	assert_true(descriptor->readable && descriptor->writable);
	scene_deinit(scene);
	close(fd);
	unlink(path);
	assert_int_equal(fchdir(here), 0);
	rmdir(folder);
	close(here);
}

static int listener(struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*address);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (void *)address, sizeof(*address)), 0);
	assert_int_equal(listen(fd, 7), 0);
	assert_int_equal(getsockname(fd, (void *)address, &size), 0);
	return fd;
}

static void test_tcp(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	const struct snap_socket *here, *there, *listens;
	struct sockaddr_in address;
	int server = listener(&address), client, accepted, other, idle;

	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (void *)&address, sizeof(address)), 0);
	accepted = accept(server, NULL, NULL);
	assert_true(accepted >= 0);
	other = listener(&(struct sockaddr_in){ .sin_family = AF_INET });
	idle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(idle, (void *)&address, sizeof(address)), 0);
	assert_int_equal(write(client, "abc", 3), 3);
	call_read(scene, client);
	scene_call(scene, SYS_accept4, other, 0, 0, 0, 0);
	/* Nobody has accepted this one: its peer belongs to nobody. */
	scene_call(scene, SYS_recvfrom, idle, (long)buffer, 1, 0, 0);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	here = scene_socket(scene, scene_inode(client));
	there = scene_socket(scene, scene_inode(accepted));
	assert_true(here && there);
	assert_int_equal(here->family, SNAP_SOCKET_TCP4);
	assert_int_equal(here->state, 1);
	assert_int_equal(here->remote.port, ntohs(address.sin_port));
	assert_memory_equal(here->remote.bytes, "\x7f\0\0\1", 4);
	assert_int_equal(there->local.port, here->remote.port);
	assert_int_equal(there->remote.port, here->local.port);
	assert_true(there->queues_known);
	assert_int_equal(there->receive_queue, 3);
	assert_int_equal(here->namespace, process_of(scene)->net_namespace);
	assert_int_not_equal(here->namespace, 0);
	listens = scene_socket(scene, scene_inode(other));
	assert_non_null(listens);
	assert_int_equal(listens->state, 10);
	assert_int_equal(listens->receive_queue, 0);
	assert_int_equal(listens->send_queue, 7);
	listens = scene_socket(scene, scene_inode(server));
	assert_non_null(listens);
	assert_int_equal(listens->state, 10);
	assert_int_equal(listens->receive_queue, 1);
	assert_true(process_of(scene)->threads[1].call_confirmed);
	assert_int_equal(scene->capture->waits->lacks, 0);
	scene_deinit(scene);
	for (size_t i = 0; i < 5; i++)
		close((int[]){ server, client, accepted, other, idle }[i]);
}

static void test_unix(void **state _unused_)
{
	static const char name[] = "\0snap\nwaits\x1b[31m";
	_cleanup_free_ struct scene *scene = new_scene();
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t size = (socklen_t)(sizeof(sa_family_t) + sizeof(name) - 1);
	const struct snap_socket *here, *listens;
	int pair[2], server, first, second;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	memcpy(address.sun_path, name, sizeof(name) - 1);
	server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server, (void *)&address, size), 0);
	assert_int_equal(listen(server, 0), 0);
	first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	second = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(first, (void *)&address, size), 0);
	call_read(scene, pair[0]);
	call_read(scene, first);
	scene_call(scene, SYS_connect, second, (long)&address, size, 0, 0);
	scene_capture(scene, &address, sizeof(address));
	scene_resolve(scene);
	here = scene_socket(scene, scene_inode(pair[0]));
	assert_non_null(here);
	assert_int_equal(here->family, SNAP_SOCKET_UNIX);
	assert_int_equal(here->type, SOCK_STREAM);
	assert_int_equal(here->peer, scene_inode(pair[1]));
	assert_non_null(scene_socket(scene, here->peer));
	listens = scene_socket(scene, scene_inode(server));
	assert_non_null(listens);
	assert_int_equal(listens->state, 10);
	assert_string_equal(listens->name, "@snap\nwaits\x1b[31m");
	assert_int_equal(listens->receive_queue, 1);
	/* It waits for who has not accepted it. */
	here = scene_socket(scene, scene_inode(first));
	assert_non_null(here);
	assert_int_equal(here->peer, scene_inode(server));
	scene_deinit(scene);
	for (size_t i = 0; i < 5; i++)
		close((int[]){ server, first, second, pair[0], pair[1] }[i]);
}

static void test_anonymous_files(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	const struct itimerspec time = { .it_value = { .tv_sec = 3600 } };
	/* The first one of a machine has the number 0, which is as good as none. */
	int first = eventfd(0, EFD_CLOEXEC), event = eventfd(0, EFD_CLOEXEC);
	int watch = inotify_init1(IN_CLOEXEC), signals, other;
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), idle;
	const struct snap_descriptor *descriptor;
	const struct snap_process *process;
	sigset_t set;
	pid_t child;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	sigaddset(&set, SIGUSR2);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	idle = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	other = (int)syscall(SYS_pidfd_open, child, 0);
	assert_int_equal(timerfd_settime(timer, 0, &time, NULL), 0);
	assert_true(inotify_add_watch(watch, "/", IN_CREATE) >= 0);
	call_read(scene, event);
	call_read(scene, watch);
	call_read(scene, signals);
	call_read(scene, timer);
	call_read(scene, idle);
	scene_call(scene, SYS_waitid, 3, other, 0, 4, 0);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	process = process_of(scene);
	descriptor = scene_descriptor(process, event);
	assert_true(descriptor && descriptor->kind == SNAP_DESCRIPTOR_EVENTFD);
	assert_int_not_equal(descriptor->id, 0);
	descriptor = scene_descriptor(process, watch);
	assert_true(descriptor && descriptor->kind == SNAP_DESCRIPTOR_INOTIFY);
	assert_int_equal(descriptor->watches, 1);
	descriptor = scene_descriptor(process, signals);
	assert_true(descriptor && descriptor->kind == SNAP_DESCRIPTOR_SIGNALFD);
	assert_int_equal(descriptor->signals, 1ull << (SIGRTMIN + 2) | 1ull << (SIGUSR2 - 1));
	descriptor = scene_descriptor(process, timer);
	assert_true(descriptor && descriptor->kind == SNAP_DESCRIPTOR_TIMERFD);
	assert_true(descriptor->remaining_ns > 3500000000000 &&
		    descriptor->remaining_ns <= 3600000000000);
	descriptor = scene_descriptor(process, idle);
	assert_true(descriptor && descriptor->remaining_ns == -1);
	descriptor = scene_descriptor(process, other);
	assert_true(descriptor && descriptor->kind == SNAP_DESCRIPTOR_PIDFD);
	assert_int_equal(descriptor->pid, child);
	/* The thread that waits for it reaps it. */
	kill(child, SIGKILL);
	scene_deinit(scene);
	for (size_t i = 0; i < 7; i++)
		close((int[]){ first, event, watch, signals, timer, idle, other }[i]);
}

static void test_poll_and_select(void **state _unused_)
{
	struct {
		struct pollfd polled[3];
		fd_set set;
	} words = { .polled = { { .events = POLLIN }, { .fd = -1 }, { .events = POLLIN } } };
	_cleanup_free_ struct scene *scene = new_scene();
	const struct snap_process *process;
	int ends[2], event = eventfd(0, EFD_CLOEXEC), high, memory;

	assert_int_equal(pipe(ends), 0);
	high = fcntl(event, F_DUPFD_CLOEXEC, 300);
	memory = memfd_create("x)\n1: FLOCK", MFD_CLOEXEC);
	words.polled[0].fd = ends[0];
	words.polled[2].fd = event;
	FD_ZERO(&words.set);
	FD_SET(high, &words.set);
	scene_call(scene, OWN_POLL, (long)words.polled, 3, OWN_POLL_FOR_EVER, 0, 0);
	scene_call(scene, OWN_SELECT, high + 1, (long)&words.set, 0, 0, 0);
	scene_capture(scene, &words, sizeof(words));
	scene_resolve(scene);
	process = process_of(scene);
	assert_int_equal(process->descriptor_count, 3);
	assert_int_equal(scene_descriptor(process, ends[0])->kind, SNAP_DESCRIPTOR_PIPE);
	assert_int_equal(scene_descriptor(process, event)->kind, SNAP_DESCRIPTOR_EVENTFD);
	assert_int_equal(scene_descriptor(process, high)->kind, SNAP_DESCRIPTOR_EVENTFD);
	assert_int_equal(scene_descriptor(process, high)->id, scene_descriptor(process, event)->id);
	scene_deinit(scene);
	for (size_t i = 0; i < 5; i++)
		close((int[]){ ends[0], ends[1], event, high, memory }[i]);
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
}

static void test_epoll(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	int epoll = epoll_create1(EPOLL_CLOEXEC), inner = epoll_create1(EPOLL_CLOEXEC);
	int ends[2], kept, event = eventfd(0, EFD_CLOEXEC), server;
	const struct snap_descriptor *descriptor;
	struct epoll_event events[1];
	struct sockaddr_in address;

	assert_int_equal(pipe(ends), 0);
	server = listener(&address);
	watch(epoll, ends[0]);
	watch(epoll, event);
	watch(epoll, server);
	watch(epoll, inner);
	watch(inner, event);
	/* The pipe stays watched, but its number belongs to another file now. */
	kept = fcntl(ends[0], F_DUPFD_CLOEXEC, 100);
	assert_int_equal(dup2(event, ends[0]), ends[0]);
	scene_call(scene, OWN_EPOLL_WAIT, epoll, (long)events, 1, -1, 0);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	descriptor = scene_descriptor(process_of(scene), epoll);
	assert_true(descriptor && descriptor->kind == SNAP_DESCRIPTOR_EPOLL);
	assert_int_equal(descriptor->watches, 4);
	assert_false(descriptor->watches_cut);
	assert_int_equal(descriptor->watched_count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_not_equal(descriptor->watched[i], ends[0]);
	descriptor = scene_descriptor(process_of(scene), server);
	assert_true(descriptor && descriptor->kind == SNAP_DESCRIPTOR_SOCKET);
	assert_non_null(scene_socket(scene, scene_inode(server)));
	descriptor = scene_descriptor(process_of(scene), inner);
	assert_true(descriptor && descriptor->kind == SNAP_DESCRIPTOR_EPOLL);
	assert_int_equal(descriptor->watched_count, 0);
	scene_deinit(scene);
	for (size_t i = 0; i < 7; i++)
		close((int[]){ epoll, inner, ends[0], ends[1], kept, event, server }[i]);
}

/* One epoll with more than anybody looks at: what is there is counted, and said to be cut. */
static void test_large_epoll(void **state _unused_)
{
	enum { MANY = 3000 };
	_cleanup_free_ struct scene *scene = new_scene();
	int epoll = epoll_create1(EPOLL_CLOEXEC), ends[2], count = 0;
	const struct snap_descriptor *descriptor;
	struct epoll_event events[1];
	struct rlimit limit;
	static int numbers[MANY];

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(pipe(ends), 0);
	for (; count < MANY; count++) {
		numbers[count] = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
		if (numbers[count] < 0)
			break;
		watch(epoll, numbers[count]);
	}
	scene_call(scene, OWN_EPOLL_WAIT, epoll, (long)events, 1, -1, 0);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	descriptor = scene_descriptor(process_of(scene), epoll);
	assert_non_null(descriptor);
	if (count == MANY) {
		assert_int_equal(descriptor->watches, SNAP_MAX_WATCHED);
		assert_true(descriptor->watches_cut);
		assert_int_equal(descriptor->watched_count, SNAP_MAX_WATCHED);
	}
	scene_deinit(scene);
	for (int i = 0; i < count; i++)
		close(numbers[i]);
	close(epoll);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_costs_nothing),
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_borrowed_workers),
		cmocka_unit_test(test_file_that_is_called_a_pipe),
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_unix),
		cmocka_unit_test(test_anonymous_files),
		cmocka_unit_test(test_poll_and_select),
		cmocka_unit_test(test_epoll),
		cmocka_unit_test(test_large_epoll),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
