/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A scene for tests of waits: threads of this process that block in one call each, and a capture
 * that has them, as if it had been taken without registers.
 */
#pragma once

#include "model/capture.h"
#include "model/wait/facts.h"

#include <pthread.h>
#include <sys/types.h>

enum { SCENE_THREADS = 2048 };

struct scene_thread {
	pthread_t thread;
	pid_t tid;   /* 0: it has not begun */
	long number; /* of the call that it waits in */
	long arguments[6];
	bool is_done;
};

struct scene {
	struct scene_thread threads[SCENE_THREADS];
	size_t thread_count;
	struct snap_capture *capture;
};

void scene_init(struct scene *scene);
/* A thread that makes this call, and is in it when this returns; its place in `threads`. */
size_t scene_call(struct scene *scene, long number, long a, long b, long c, long d, long e);
/* The capture of this process and its threads; `words` are its memory, `size` bytes, or NULL. */
void scene_capture(struct scene *scene, const void *words, size_t size);
/* Adds a process that is not this one, with one thread, which has its tid. */
struct snap_process *scene_add_process(struct scene *scene, pid_t pid);
/* Waits until a thread of a process sleeps in a call. */
void scene_wait_for_call(pid_t pid, pid_t tid, long number);
/* Resolves what the capture has. */
void scene_resolve(struct scene *scene);
/* Kills the threads' calls by a signal, joins them and destroys the capture. */
void scene_deinit(struct scene *scene);

const struct snap_descriptor *scene_descriptor(const struct snap_process *process, int number);
const struct snap_socket *scene_socket(const struct scene *scene, uint64_t inode);
/* Whether a process is said to have such an end. */
bool scene_has_end(const struct scene *scene, pid_t pid, enum snap_descriptor_kind kind,
		   uint64_t inode, bool readable, bool writable);
uint64_t scene_inode(int fd);
