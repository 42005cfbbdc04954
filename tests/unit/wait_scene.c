/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A scene for tests of waits: see wait_scene.h. */
#include "wait_scene.h"

#include "base/clock.h"
#include "capture/wait/resolve.h"
#include "model/arch/registers.h"
#include "model/memory_image.h"
#include "proc/procfs.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

static const int64_t PATIENCE_NS = 20000000000;

static void on_signal(int number _unused_)
{
}

void scene_init(struct scene *scene)
{
	const struct sigaction action = { .sa_handler = on_signal };

	memset(scene, 0, sizeof(*scene));
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void *run_call(void *context)
{
	struct scene_thread *thread = context;
	const long *a = thread->arguments;

	__atomic_store_n(&thread->tid, gettid(), __ATOMIC_RELEASE);
	syscall(thread->number, a[0], a[1], a[2], a[3], a[4], a[5]);
	__atomic_store_n(&thread->is_done, true, __ATOMIC_RELEASE);
	return NULL;
}

void scene_wait_for_call(pid_t pid, pid_t tid, long number)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + PATIENCE_NS;
	struct snap_syscall_line place;
	char name[64], text[256];
	ssize_t length;

	assert_null(snap_procfs_open(NULL, &procfs));
	snprintf(name, sizeof(name), "%d/task/%d/syscall", (int)pid, (int)tid);
	do {
		assert_true(snap_clock_ns(CLOCK_MONOTONIC) < until);
		sched_yield();
		length = snap_procfs_read(procfs.root_fd, name, text, sizeof(text));
	} while (length <= 0 || !snap_parse_syscall(text, (size_t)length, &place) ||
		 place.running || place.number != number);
}

size_t scene_call(struct scene *scene, long number, long a, long b, long c, long d, long e)
{
	struct scene_thread *thread = &scene->threads[scene->thread_count];
	pthread_attr_t attributes;

	assert_true(scene->thread_count < SCENE_THREADS);
	*thread = (struct scene_thread){ .number = number, .arguments = { a, b, c, d, e } };
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	assert_int_equal(pthread_create(&thread->thread, &attributes, run_call, thread), 0);
	pthread_attr_destroy(&attributes);
	while (!__atomic_load_n(&thread->tid, __ATOMIC_ACQUIRE))
		sched_yield();
	scene_wait_for_call(getpid(), thread->tid, number);
	return scene->thread_count++;
}

static uint64_t start_of(pid_t pid)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_stat stat;

	assert_null(snap_procfs_open(NULL, &procfs));
	assert_int_equal(snap_procfs_task_stat(procfs.root_fd, pid, &stat), 0);
	return stat.start_ticks;
}

static struct snap_process *add_process(struct scene *scene, pid_t pid, size_t threads)
{
	struct snap_process *process = snap_capture_append(scene->capture);

	assert_non_null(process);
	process->pid = process->ns_pid = pid;
	process->start_ticks = start_of(pid);
	process->arch = SNAP_OWN_ARCH;
	process->parent = SIZE_MAX;
	process->state = 'S';
	process->threads =
		snap_arena_new_array(&scene->capture->arena, threads + 1, struct snap_thread);
	assert_non_null(process->threads);
	for (size_t i = 0; i < threads; i++)
		process->threads[i] = (struct snap_thread){ .state = 'S', .blocked_ns = -1 };
	process->thread_count = threads;
	return process;
}

struct snap_process *scene_add_process(struct scene *scene, pid_t pid)
{
	struct snap_process *process = add_process(scene, pid, 1);

	process->threads[0].tid = pid;
	return process;
}

static struct snap_memory_image *image_of(struct snap_arena *arena, const void *words, size_t size)
{
	struct snap_memory_image *image = snap_arena_new(arena, struct snap_memory_image);
	struct snap_memory_piece *piece = snap_arena_new(arena, struct snap_memory_piece);

	assert_true(image && piece);
	*piece = (struct snap_memory_piece){ .address = (uintptr_t)words,
					     .size = size,
					     .bytes = snap_arena_memdup(arena, words, size) };
	*image = (struct snap_memory_image){ .pieces = piece, .piece_count = 1, .bytes = size };
	return image;
}

void scene_capture(struct scene *scene, const void *words, size_t size)
{
	struct snap_process *process;

	scene->capture = snap_capture_new();
	assert_non_null(scene->capture);
	scene->capture->waits = snap_arena_new(&scene->capture->arena, struct snap_wait_facts);
	assert_non_null(scene->capture->waits);
	process = add_process(scene, getpid(), scene->thread_count);
	for (size_t i = 0; i < scene->thread_count; i++)
		process->threads[i].tid = scene->threads[i].tid;
	if (words)
		process->words = image_of(&scene->capture->arena, words, size);
}

void scene_resolve(struct scene *scene)
{
	const struct snap_options options = { .self = 0 };

	snap_capture_resolve_waits(&options, scene->capture,
				   snap_clock_ns(CLOCK_MONOTONIC) + PATIENCE_NS);
}

void scene_deinit(struct scene *scene)
{
	for (size_t i = 0; i < scene->thread_count; i++) {
		struct scene_thread *thread = &scene->threads[i];

		while (!__atomic_load_n(&thread->is_done, __ATOMIC_ACQUIRE)) {
			pthread_kill(thread->thread, SIGUSR1);
			sched_yield();
		}
		assert_int_equal(pthread_join(thread->thread, NULL), 0);
	}
	snap_capture_destroy(scene->capture);
	scene->thread_count = 0;
	scene->capture = NULL;
}

const struct snap_descriptor *scene_descriptor(const struct snap_process *process, int number)
{
	for (size_t i = 0; i < process->descriptor_count; i++)
		if (process->descriptors[i].number == number)
			return &process->descriptors[i];
	return NULL;
}

const struct snap_socket *scene_socket(const struct scene *scene, uint64_t inode)
{
	const struct snap_wait_facts *facts = scene->capture->waits;

	for (size_t i = 0; i < facts->socket_count; i++)
		if (facts->sockets[i].inode == inode)
			return &facts->sockets[i];
	return NULL;
}

bool scene_has_end(const struct scene *scene, pid_t pid, enum snap_descriptor_kind kind,
		   uint64_t inode, bool readable, bool writable)
{
	const struct snap_wait_facts *facts = scene->capture->waits;

	for (size_t i = 0; i < facts->peer_count; i++) {
		const struct snap_file_peer *end = &facts->peers[i];

		if (end->pid == pid && end->kind == kind && end->inode == inode &&
		    end->readable == readable && end->writable == writable)
			return true;
	}
	return false;
}

uint64_t scene_inode(int fd)
{
	struct stat status;

	assert_int_equal(fstat(fd, &status), 0);
	return status.st_ino;
}
