/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who has the other end of what a thread waits with, inside of the tree and outside; locks. */
#include "skip.h"
#include "wait_scene.h"

#include "base/cleanup.h"
#include "capture/wait/scan.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

static char buffer[64];

static struct scene *new_scene(void)
{
	struct scene *scene = malloc(sizeof(*scene));

	assert_non_null(scene);
	scene_init(scene);
	return scene;
}

/* A process that has what this one has but `closed`, and does nothing; it is there on return. */
static pid_t start_process(const char *name, int closed)
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		close(ready[0]);
		if (closed >= 0)
			close(closed);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	/* Its own end of this pipe is closed by then, too. */
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static const struct snap_outsider *outsider(const struct scene *scene, pid_t pid)
{
	const struct snap_wait_facts *facts = scene->capture->waits;

	for (size_t i = 0; i < facts->outsider_count; i++)
		if (facts->outsiders[i].pid == pid)
			return &facts->outsiders[i];
	return NULL;
}

static void test_pipe_inside(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	pid_t writer;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	writer = start_process("writer", ends[0]);
	close(ends[1]);
	scene_call(scene, SYS_read, ends[0], (long)buffer, 1, 0, 0);
	scene_capture(scene, NULL, 0);
	scene_add_process(scene, writer);
	scene_resolve(scene);
	assert_true(scene_has_end(scene, writer, SNAP_DESCRIPTOR_PIPE, scene_inode(ends[0]), false,
				  true));
	assert_true(scene_has_end(scene, getpid(), SNAP_DESCRIPTOR_PIPE, scene_inode(ends[0]), true,
				  false));
	/* The writer pauses: whoever else could write makes no difference. */
	assert_int_equal(scene->capture->waits->peer_count, 2);
	assert_int_equal(scene->capture->waits->outsider_count, 0);
	assert_int_equal(scene->capture->waits->lacks, 0);
	scene_deinit(scene);
	end_process(writer);
	close(ends[0]);
}

static void test_pipe_outside(void **state _unused_)
{
	static const char name[] = "held by\n1 init";
	_cleanup_free_ struct scene *scene = new_scene();
	const struct snap_outsider *found;
	pid_t writer, heir;
	int ends[2];

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	assert_int_equal(pipe(ends), 0);
	heir = start_process("heir", -1);
	writer = start_process(name, ends[0]);
	close(ends[1]);
	scene_call(scene, SYS_read, ends[0], (long)buffer, 1, 0, 0);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	assert_true(scene_has_end(scene, writer, SNAP_DESCRIPTOR_PIPE, scene_inode(ends[0]), false,
				  true));
	assert_true(
		scene_has_end(scene, heir, SNAP_DESCRIPTOR_PIPE, scene_inode(ends[0]), true, true));
	found = outsider(scene, writer);
	assert_non_null(found);
	assert_string_equal(found->name, name);
	assert_int_equal(found->state, 'S');
	assert_non_null(outsider(scene, heir));
	assert_null(outsider(scene, getpid()));
	scene_deinit(scene);
	end_process(writer);
	end_process(heir);
	close(ends[0]);
}

/* Where an ancestor could act, nobody else on the machine is asked. */
static void test_ancestors_first(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	struct snap_ancestor ancestors[2] = { { .name = "maker" }, { .name = "gone" } };
	pid_t maker, heir;
	int ends[2];

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	assert_int_equal(pipe(ends), 0);
	heir = start_process("heir", -1);
	maker = start_process("maker", ends[0]);
	close(ends[1]);
	ancestors[0].pid = maker;
	ancestors[1].pid = INT_MAX;
	scene_call(scene, SYS_read, ends[0], (long)buffer, 1, 0, 0);
	scene_capture(scene, NULL, 0);
	scene->capture->processes[0].ancestors = ancestors;
	scene->capture->processes[0].ancestor_count = 2;
	scene_resolve(scene);
	assert_non_null(outsider(scene, maker));
	assert_null(outsider(scene, heir));
	assert_int_equal(scene->capture->waits->lacks, 0);
	scene_deinit(scene);
	end_process(maker);
	end_process(heir);
	close(ends[0]);
}

/* Both wait for each other; whether for ever depends on who else has a pipe of theirs. */
static void test_circle_that_an_outsider_could_break(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	int ends[2];
	pid_t heir;

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	assert_int_equal(pipe(ends), 0);
	heir = start_process("heir", ends[0]);
	scene_call(scene, SYS_read, ends[0], (long)buffer, 1, 0, 0);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	assert_true(scene_has_end(scene, getpid(), SNAP_DESCRIPTOR_PIPE, scene_inode(ends[0]), true,
				  true));
	assert_non_null(outsider(scene, heir));
	scene_deinit(scene);
	end_process(heir);
	close(ends[0]);
	close(ends[1]);
}

static void test_sockets_and_eventfds(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	int pair[2], event = eventfd(0, EFD_CLOEXEC), other = eventfd(0, EFD_CLOEXEC);
	const struct snap_descriptor *descriptor;
	pid_t peer;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	peer = start_process("peer", pair[0]);
	scene_call(scene, SYS_read, pair[0], (long)buffer, 8, 0, 0);
	scene_call(scene, SYS_read, event, (long)buffer, 8, 0, 0);
	scene_capture(scene, NULL, 0);
	scene_add_process(scene, peer);
	scene_resolve(scene);
	assert_true(scene_has_end(scene, peer, SNAP_DESCRIPTOR_SOCKET, scene_inode(pair[1]), true,
				  true));
	assert_false(scene_has_end(scene, peer, SNAP_DESCRIPTOR_SOCKET, scene_inode(pair[0]), true,
				   true));
	descriptor = scene_descriptor(&scene->capture->processes[0], event);
	assert_non_null(descriptor);
	assert_true(
		scene_has_end(scene, peer, SNAP_DESCRIPTOR_EVENTFD, descriptor->id, true, true));
	scene_deinit(scene);
	end_process(peer);
	for (size_t i = 0; i < 4; i++)
		close((int[]){ pair[0], pair[1], event, other }[i]);
}

static void test_fifo(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	char folder[] = "/tmp/snap-wait-XXXXXX", path[64];
	int reader, writer;
	pid_t peer;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/x (deleted)", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	writer = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(fcntl(reader, F_SETFL, 0), 0);
	peer = start_process("peer", reader);
	close(writer);
	scene_call(scene, SYS_read, reader, (long)buffer, 8, 0, 0);
	scene_capture(scene, NULL, 0);
	scene_add_process(scene, peer);
	scene_resolve(scene);
	assert_true(
		scene_has_end(scene, peer, SNAP_DESCRIPTOR_FIFO, scene_inode(reader), false, true));
	scene_deinit(scene);
	end_process(peer);
	unlink(path);
	rmdir(folder);
	close(reader);
}

static const struct snap_file_lock *holder(const struct scene *scene, pid_t pid, uint64_t inode)
{
	const struct snap_wait_facts *facts = scene->capture->waits;

	for (size_t i = 0; i < facts->lock_count; i++)
		if (facts->locks[i].is_holder && facts->locks[i].pid == pid &&
		    facts->locks[i].inode == inode)
			return &facts->locks[i];
	return NULL;
}

static const struct snap_file_lock *waiter(const struct scene *scene, uint64_t inode)
{
	const struct snap_wait_facts *facts = scene->capture->waits;

	for (size_t i = 0; i < facts->lock_count; i++)
		if (facts->locks[i].waits && facts->locks[i].inode == inode)
			return &facts->locks[i];
	return NULL;
}

/* Who took the lock has closed the file; who was born with it holds it. */
static void test_heir_of_a_lock(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	char path[] = "/tmp/snap-wait-XXXXXX";
	int first = mkostemp(path, O_CLOEXEC), second = open(path, O_RDWR | O_CLOEXEC);
	const struct snap_descriptor *descriptor;
	const struct snap_file_lock *lock;
	uint64_t inode = scene_inode(first);
	pid_t heir;

	assert_int_equal(flock(first, LOCK_EX), 0);
	heir = start_process("heir", second);
	close(first);
	scene_call(scene, SYS_flock, second, LOCK_SH, 0, 0, 0);
	scene_capture(scene, NULL, 0);
	scene_add_process(scene, heir);
	scene_resolve(scene);
	descriptor = scene_descriptor(&scene->capture->processes[0], second);
	assert_non_null(descriptor);
	assert_int_equal(descriptor->kind, SNAP_DESCRIPTOR_FILE);
	assert_int_equal(descriptor->inode, inode);
	lock = holder(scene, heir, inode);
	assert_non_null(lock);
	assert_int_equal(lock->kind, SNAP_LOCK_FLOCK);
	assert_true(lock->write);
	assert_null(holder(scene, getpid(), inode));
	assert_int_equal(lock->dev_major, descriptor->dev_major);
	assert_int_equal(lock->dev_minor, descriptor->dev_minor);
	lock = waiter(scene, inode);
	assert_non_null(lock);
	assert_int_equal(lock->pid, getpid());
	assert_false(lock->write);
	assert_int_equal(scene->capture->waits->lacks, 0);
	scene_deinit(scene);
	end_process(heir);
	close(second);
	unlink(path);
}

static void test_ranges(void **state _unused_)
{
	struct flock range = { .l_type = F_WRLCK, .l_start = 120, .l_len = 10 };
	_cleanup_free_ struct scene *scene = new_scene();
	char path[] = "/tmp/snap-wait-XXXXXX";
	int first = mkostemp(path, O_CLOEXEC), second = open(path, O_RDWR | O_CLOEXEC);
	const struct snap_file_lock *lock;
	uint64_t inode = scene_inode(first);

	assert_int_equal(fcntl(first, F_OFD_SETLK, &range), 0);
	scene_call(scene, SYS_fcntl, second, F_OFD_SETLKW, (long)&range, 0, 0);
	scene_capture(scene, NULL, 0);
	scene_resolve(scene);
	lock = holder(scene, getpid(), inode);
	assert_non_null(lock);
	assert_int_equal(lock->kind, SNAP_LOCK_OFD);
	assert_int_equal(lock->start, 120);
	assert_int_equal(lock->end, 129);
	lock = waiter(scene, inode);
	assert_non_null(lock);
	assert_int_equal(lock->pid, -1);
	scene_deinit(scene);
	close(first);
	close(second);
	unlink(path);
}

static void test_queues(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	int messages = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 2, 0600);
	struct sembuf operation = { .sem_num = 1, .sem_op = -1 };
	const struct snap_wait_facts *facts;
	struct {
		long type;
		char text[8];
	} message = { .type = 1 };

	assert_true(messages >= 0 && set >= 0);
	assert_int_equal(msgsnd(messages, &message, 5, 0), 0);
	assert_int_equal(semctl(set, 1, SETVAL, 0), 0);
	/* Another type than the one that is there. */
	scene_call(scene, SYS_msgrcv, messages, (long)&message, 8, 2, 0);
	scene_call(scene, SYS_semtimedop, set, (long)&operation, 1, 0, 0);
	scene_capture(scene, &operation, sizeof(operation));
	scene_resolve(scene);
	facts = scene->capture->waits;
	assert_int_equal(facts->queue_count, 2);
	assert_int_equal(facts->queues[0].id, messages);
	assert_int_equal(facts->queues[0].messages, 1);
	assert_int_equal(facts->queues[0].bytes, 5);
	assert_int_equal(facts->queues[0].last_sender, getpid());
	assert_true(facts->queues[1].is_semaphore);
	assert_int_equal(facts->queues[1].id, set);
	assert_int_equal(facts->queues[1].last_sender, getpid());
	scene_deinit(scene);
	msgctl(messages, IPC_RMID, NULL);
	semctl(set, 0, IPC_RMID);
}

/* A process in a network namespace of its own, blocked in a read of a socket; 0: not permitted. */
static pid_t start_elsewhere(uint64_t inodes[2])
{
	int ready[2], pair[2];
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct stat status;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNET) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			_exit(1);
		for (size_t i = 0; i < 2; i++) {
			fstat(pair[i], &status);
			inodes[i] = status.st_ino;
		}
		if (write(ready[1], inodes, 2 * sizeof(*inodes)) < 0)
			_exit(1);
		_exit((int)read(pair[0], buffer, 1));
	}
	close(ready[1]);
	if (read(ready[0], inodes, 2 * sizeof(*inodes)) <= 0) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	return pid;
}

static void test_network_namespace(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	const struct snap_process *process;
	const struct snap_socket *socket;
	uint64_t inodes[2];
	pid_t pid = start_elsewhere(inodes);
	int ends[2];

	if (!pid)
		skip_because(NOT_ROOT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	scene_wait_for_call(pid, pid, SYS_read);
	scene_call(scene, SYS_read, ends[0], (long)buffer, 8, 0, 0);
	scene_capture(scene, NULL, 0);
	process = scene_add_process(scene, pid);
	scene_resolve(scene);
	process = &scene->capture->processes[1];
	assert_int_not_equal(process->net_namespace, 0);
	assert_int_not_equal(process->net_namespace, scene->capture->processes[0].net_namespace);
	socket = scene_socket(scene, inodes[0]);
	assert_non_null(socket);
	assert_int_equal(socket->namespace, process->net_namespace);
	assert_int_equal(socket->peer, inodes[1]);
	assert_true(scene_has_end(scene, pid, SNAP_DESCRIPTOR_SOCKET, inodes[1], true, true));
	socket = scene_socket(scene, scene_inode(ends[0]));
	assert_non_null(socket);
	assert_int_equal(socket->namespace, scene->capture->processes[0].net_namespace);
	assert_int_equal(scene->capture->waits->lacks, 0);
	scene_deinit(scene);
	end_process(pid);
	close(ends[0]);
	close(ends[1]);
}

/* Opens and closes without an end, where a thread waits with one number that stays. */
static void *change_table(void *context)
{
	const int *stop = context;
	int ends[2];

	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		if (pipe2(ends, O_CLOEXEC))
			continue;
		for (int number = 200; number < 264; number++)
			dup2(ends[number & 1], number);
		for (int number = 200; number < 264; number++)
			close(number);
		close(ends[0]);
		close(ends[1]);
	}
	return NULL;
}

static void test_table_that_changes(void **state _unused_)
{
	_cleanup_free_ struct scene *scene = new_scene();
	const struct snap_descriptor *descriptor;
	pthread_t changer;
	int ends[2], stop = 0;

	assert_int_equal(pipe(ends), 0);
	scene_call(scene, SYS_read, ends[0], (long)buffer, 1, 0, 0);
	assert_int_equal(pthread_create(&changer, NULL, change_table, &stop), 0);
	for (unsigned i = 0; i < 50; i++) {
		snap_capture_destroy(scene->capture);
		scene_capture(scene, NULL, 0);
		scene_resolve(scene);
		descriptor = scene_descriptor(&scene->capture->processes[0], ends[0]);
		assert_non_null(descriptor);
		assert_int_equal(descriptor->kind, SNAP_DESCRIPTOR_PIPE);
		assert_true(scene->capture->processes[0].threads[0].call_confirmed);
		assert_true(scene_has_end(scene, getpid(), SNAP_DESCRIPTOR_PIPE,
					  scene_inode(ends[0]), true, true));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(changer, NULL), 0);
	scene_deinit(scene);
	close(ends[0]);
	close(ends[1]);
}

/* ---- a process that has very much of something, and one that has a little of it ---- */

static void test_queues_of_one(void **state _unused_)
{
	enum { MANY = SNAP_MAX_QUEUES + 100 };
	_cleanup_free_ struct scene *scene = new_scene();
	int messages = msgget(IPC_PRIVATE, 0600);
	pid_t greedy = start_process("greedy", -1);
	struct snap_process *process;
	const struct snap_wait_facts *facts;

	assert_true(messages >= 0);
	scene_call(scene, SYS_msgrcv, messages, (long)buffer, 8, 2, 0);
	scene_capture(scene, NULL, 0);
	process = scene_add_process(scene, greedy);
	process->threads = snap_arena_new_array(&scene->capture->arena, MANY, struct snap_thread);
	process->thread_count = MANY;
	for (int i = 0; i < MANY; i++)
		process->threads[i] = (struct snap_thread){
			.tid = greedy,
			.state = 'S',
			.call = { .known = true,
				  .number = SYS_msgrcv,
				  .arguments = { (uint32_t)(i - MANY) } },
		};
	scene_resolve(scene);
	facts = scene->capture->waits;
	assert_int_equal(facts->queue_count, 1);
	assert_int_equal(facts->queues[0].id, messages);
	assert_int_equal(facts->lacks, SNAP_LACK_CUT);
	msgctl(messages, IPC_RMID, NULL);
	scene_deinit(scene);
	end_process(greedy);
}

/* Both are looked at for an end of a pipe and for locks on a file; the greedy one first. */
static void scan_both(pid_t greedy, pid_t modest, int pipe_end, int file, struct snap_scan *ret)
{
	static struct snap_scan list[2];
	struct snap_wait_memory memory = { .root_fd = open("/proc", O_PATH | O_DIRECTORY) };
	struct snap_wanted_peer wanted[] = {
		{ .kind = SNAP_DESCRIPTOR_FILE, .inode = scene_inode(file), .name = "file" },
		{ .kind = SNAP_DESCRIPTOR_PIPE, .inode = scene_inode(pipe_end) },
	};
	struct snap_scans scans = { .memory = &memory,
				    .list = list,
				    .wanted = wanted,
				    .wanted_count = 2,
				    .most_links = 100,
				    .most_found = 100 };

	list[0] = (struct snap_scan){ .pid = greedy };
	list[1] = (struct snap_scan){ .pid = modest };
	scans.kinds[SNAP_DESCRIPTOR_FILE] = scans.kinds[SNAP_DESCRIPTOR_PIPE] = true;
	assert_null(snap_shared_scratch_create(1 << 20, &memory.region));
	snap_scan_run(&scans, 0);
	assert_true(scans.is_cut);
	snap_scan_run(&scans, 1);
	close(memory.root_fd);
	*ret = list[1];
}

static void test_ends_of_one(void **state _unused_)
{
	char folder[] = "/tmp/stacksnap-test-XXXXXX", path[64];
	struct snap_scan scan;
	pid_t greedy, modest;
	int ends[2], file, many[600];

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	file = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(file >= 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(flock(file, LOCK_SH), 0);
	modest = start_process("modest", -1);
	/* Each of them is a lock on the file, and a descriptor. */
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(many); i++) {
		many[i] = open(path, O_RDONLY);
		assert_int_equal(flock(many[i], LOCK_SH), 0);
	}
	greedy = start_process("greedy", -1);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(many); i++)
		close(many[i]);
	scan_both(greedy, modest, ends[0], file, &scan);
	assert_int_equal(scan.status, 0);
	assert_non_null(scan.locks);
	assert_int_equal(scan.locks->lock.pid, modest);
	/* Two ends of the pipe, and the file. */
	assert_true(scan.ends && scan.ends->next && scan.ends->next->next);
	end_process(greedy);
	end_process(modest);
	close(ends[0]);
	close(ends[1]);
	close(file);
	unlink(path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipe_inside),
		cmocka_unit_test(test_pipe_outside),
		cmocka_unit_test(test_ancestors_first),
		cmocka_unit_test(test_circle_that_an_outsider_could_break),
		cmocka_unit_test(test_sockets_and_eventfds),
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_heir_of_a_lock),
		cmocka_unit_test(test_queues_of_one),
		cmocka_unit_test(test_ends_of_one),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_queues),
		cmocka_unit_test(test_network_namespace),
		cmocka_unit_test(test_table_that_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
