/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The thread asker, from both sides: see thread_asker.h. */
#include "capture/thread_asker.h"

#include "base/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	LONGEST_STACK = 8192, /* bytes of text */
	PATH = 32,
};

static const int64_t PATIENCE_NS = 100000000, CLOCKS_NS = 300000000;

/* A question and its answer, in memory of both sides. */
struct question {
	int root_fd;
	pid_t pid, tid;
	int status;
	struct snap_stat stat;
	struct snap_syscall_line line;
	struct snap_run_clocks clocks;
	size_t size;
	char text[LONGEST_STACK];
};

struct snap_thread_asker {
	struct snap_workers pool;
	struct snap_procfs procfs;
};

/* ---- in a worker ---- */

static int open_asked_tasks(const struct question *question)
{
	char path[PATH];
	int fd;

	snprintf(path, sizeof(path), "%d/task", (int)question->pid);
	fd = openat(question->root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void read_asked_stat(void *area, uint32_t item _unused_)
{
	struct question *question = area;
	_cleanup_fd_ int fd = open_asked_tasks(question);

	question->status = fd < 0 ? fd : snap_procfs_task_stat(fd, question->tid, &question->stat);
}

static void read_asked_stack(void *area, uint32_t item _unused_)
{
	struct question *question = area;
	_cleanup_fd_ int fd = open_asked_tasks(question);
	ssize_t size = fd < 0 ? fd
			      : snap_procfs_task_read(fd, question->tid, "stack", question->text,
						      sizeof(question->text));

	question->status = size < 0 ? (int)size : 0;
	question->size = size > 0 ? (size_t)size : 0;
}

static void read_asked_call(void *area, uint32_t item _unused_)
{
	struct question *question = area;
	_cleanup_fd_ int fd = open_asked_tasks(question);
	ssize_t size = fd < 0 ? fd
			      : snap_procfs_task_read(fd, question->tid, "syscall", question->text,
						      sizeof(question->text));

	question->status = size < 0 ? (int)size : 0;
	if (size >= 0 && !snap_parse_syscall(question->text, (size_t)size, &question->line))
		question->status = -EBADMSG;
}

static void read_asked_clocks(void *area, uint32_t item _unused_)
{
	struct question *question = area;

	snap_run_clocks_read(question->root_fd, &question->clocks);
	question->status = 0;
}

/* ---- the asking side ---- */

struct stacksnap_error *snap_thread_asker_new(struct snap_thread_asker **ret)
{
	_cleanup_(snap_thread_asker_destroyp) struct snap_thread_asker *asker =
		calloc(1, sizeof(*asker));
	int error;

	SNAP_TRY(snap_no_memory_unless(asker));
	asker->procfs.root_fd = -1;
	SNAP_TRY(snap_procfs_open(NULL, &asker->procfs));
	error = snap_workers_init(&asker->pool, sizeof(struct question), asker->procfs.root_fd,
				  SNAP_WORKERS_AWAKE | SNAP_WORKERS_BY_PROXY);
	if (error)
		return snap_error_os(error, "cannot create a process that reads others");
	*ret = snap_take_ptr(asker);
	return NULL;
}

void snap_thread_asker_destroy(struct snap_thread_asker *asker)
{
	if (!asker)
		return;
	snap_workers_deinit(&asker->pool);
	snap_procfs_close(&asker->procfs);
	free(asker);
}

/* The answer, by a worker that is made if need be; of no use where it is not 0. */
static int ask_one_thread(struct snap_thread_asker *asker, pid_t pid, pid_t tid,
			  void (*run)(void *area, uint32_t item), struct question **ret)
{
	int64_t patience_ns = run == read_asked_clocks ? CLOCKS_NS : PATIENCE_NS;
	struct snap_work work = { .run = run, .patience_ns = patience_ns };
	struct question *question = snap_workers_area(&asker->pool);

	if (!question)
		return -ETIMEDOUT;
	question->root_fd = asker->procfs.root_fd;
	question->pid = pid;
	question->tid = tid;
	work.asleep_ns = snap_workers_patience(&asker->pool, patience_ns);
	if (!snap_workers_call(&asker->pool, &work))
		return -ETIMEDOUT;
	*ret = question;
	return question->status;
}

int snap_thread_ask_stat(struct snap_thread_asker *asker, pid_t pid, pid_t tid,
			 struct snap_stat *ret)
{
	struct question *question;
	int status = ask_one_thread(asker, pid, tid, read_asked_stat, &question);

	if (status == 0)
		*ret = question->stat;
	return status;
}

int snap_thread_ask_stack(struct snap_thread_asker *asker, pid_t pid, pid_t tid,
			  const char **text_ret, size_t *size_ret)
{
	struct question *question;
	int status = ask_one_thread(asker, pid, tid, read_asked_stack, &question);

	if (status == 0) {
		*text_ret = question->text;
		*size_ret = question->size;
	}
	return status;
}

int snap_thread_ask_call(struct snap_thread_asker *asker, pid_t pid, pid_t tid,
			 struct snap_syscall_line *ret)
{
	struct question *question;
	int status = ask_one_thread(asker, pid, tid, read_asked_call, &question);

	if (status == 0)
		*ret = question->line;
	return status;
}

int snap_thread_ask_clocks(struct snap_thread_asker *asker, struct snap_run_clocks *ret)
{
	struct question *question;
	int status = ask_one_thread(asker, 0, 0, read_asked_clocks, &question);

	if (status == 0)
		*ret = question->clocks;
	return status;
}
