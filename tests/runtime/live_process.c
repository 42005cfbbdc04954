/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process, read while it runs and while it is stopped by ptrace: see live.h. */
#include "live.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "model/arch/registers.h"
#include "proc/address_space.h"
#include "watch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { LINES = 1 << 16, MOST_STACK = 1 << 20 };

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("live_reader: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(1);
}

static void *need(void *memory)
{
	if (!memory)
		fail("out of memory");
	return memory;
}

void live_note(struct live *live, uint64_t address, uint64_t size)
{
	if (!snap_reserve_array(live->ranges, live->range_capacity, live->range_count + 1))
		fail("out of memory");
	live->ranges[live->range_count++] = (struct live_range){ address, size };
}

bool live_read(void *context, uint64_t address, void *out, size_t size)
{
	struct live *live = context;
	struct iovec to = { out, size }, from = { (void *)(uintptr_t)address, size };

	if (live->is_watched)
		live_note(live, address, size);
	return process_vm_readv(live->process.pid, &to, 1, &from, 1, 0) == (ssize_t)size;
}

/* As far as bytes can be read, for snap_space_read_pieces(). */
static size_t read_ranges(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	size_t done = 0;

	for (size_t i = 0; i < count; done += ranges[i++].iov_len)
		if (!live_read(context, (uintptr_t)ranges[i].iov_base, bytes + done,
			       ranges[i].iov_len))
			break;
	return done;
}

static void note_file(struct live *live, const struct snap_map *map, int fd)
{
	struct live_file *file;
	struct stat status;

	if (fstat(fd, &status) != 0 ||
	    !snap_reserve_array(live->files, live->file_capacity, live->file_count + 1))
		fail("out of memory");
	file = &live->files[live->file_count++];
	*file = (struct live_file){ *map, status.st_dev, status.st_ino };
	file->map.path = need(snap_arena_strdup(&live->arena, map->path));
}

struct stacksnap_error *live_find(void *context, const struct snap_file_request *request,
				  int *fd_ret)
{
	struct live *live = context;
	const struct snap_map *map = &request->process->maps[request->map];
	char name[64];
	int fd;

	if (request->kind != SNAP_FILE_MODULE || request->attempt > 1 || !map->path)
		return snap_error_not_found();
	snprintf(name, sizeof(name), "%llx-%llx", (unsigned long long)map->start,
		 (unsigned long long)map->end);
	fd = request->attempt == 0
		     ? openat(live->files_fd, name, O_RDONLY | O_CLOEXEC)
		     : openat(live->root_fd, map->path + 1, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return snap_error_os(errno, "%s", map->path);
	if (live->is_watched)
		note_file(live, map, fd);
	*fd_ret = fd;
	return NULL;
}

static int open_of(pid_t pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, flags | O_CLOEXEC);
}

/* The last number of a line "NSpid:" of status; 0: there is none. */
static pid_t ns_number(pid_t pid, pid_t tid)
{
	char path[64], line[256], *last;
	_cleanup_fclose_ FILE *file = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		last = strrchr(line, '\t');
		return last ? atoi(last + 1) : 0;
	}
	return 0;
}

void live_open(struct live *live, pid_t pid)
{
	*live = (struct live){ .process = { .pid = pid, .arch = SNAP_ARCH_X86_64 } };
	snap_arena_init(&live->arena);
	live->maps_fd = open_of(pid, "maps", O_RDONLY);
	live->files_fd = open_of(pid, "map_files", O_PATH | O_DIRECTORY);
	live->root_fd = open_of(pid, "root", O_PATH | O_DIRECTORY);
	if (live->maps_fd < 0)
		fail("process %d: %s", pid, strerror(errno));
	live->process.ns_pid = ns_number(pid, pid);
	live_look(live);
}

void live_close(struct live *live)
{
	snap_close(&live->maps_fd);
	snap_close(&live->files_fd);
	snap_close(&live->root_fd);
	free(live->files);
	free(live->ranges);
	snap_arena_deinit(&live->arena);
}

void live_look(struct live *live)
{
	_cleanup_free_ struct snap_map *maps = need(calloc(SNAP_MAX_MAPS, sizeof(*maps)));
	_cleanup_free_ char *buffer = need(malloc(LINES));
	struct snap_space space = { .maps = NULL };
	struct snap_space_reader reader = { .maps = maps,
					    .buffer = buffer,
					    .buffer_size = LINES,
					    .read = read_ranges,
					    .context = live };
	struct snap_region region, whole;
	int status;

	if (snap_scratch_create(SNAP_SPACES_BYTES, &region))
		fail("out of memory");
	whole = region;
	reader.records = &region;
	lseek(live->maps_fd, 0, SEEK_SET);
	status = snap_space_read_maps(&reader, live->maps_fd, &space);
	if (status < 0)
		fail("mappings: %s", strerror(-status));
	snap_space_read_pieces(&reader, &space);
	if (snap_space_copy(&live->arena, &space, &space))
		fail("out of memory");
	munmap(whole.next, whole.end - whole.next);
	live->process.maps = space.maps;
	live->process.map_count = space.map_count;
	live->process.pieces = space.pieces;
	live->process.piece_count = space.piece_count;
}

/* ---- stop ---- */

static bool is_known(const struct live *live, pid_t tid)
{
	for (size_t i = 0; i < live->process.thread_count; i++)
		if (live->process.threads[i].tid == tid)
			return true;
	return false;
}

/* Seizes and stops what is not yet; whether there was anything new. */
static bool stop_new_threads(struct live *live, size_t *capacity)
{
	struct snap_process *process = &live->process;
	pid_t tids[4096];
	struct snap_procfs procfs;
	ssize_t count;
	bool found = false;
	int process_fd, tasks_fd, status;

	if (snap_procfs_open(NULL, &procfs))
		fail("no procfs");
	process_fd = snap_procfs_open_process(&procfs, process->pid);
	tasks_fd = snap_procfs_open_tasks(process_fd);
	count = snap_procfs_list(tasks_fd, tids, SNAP_ARRAY_SIZE(tids));
	for (ssize_t i = 0; i < count && i < (ssize_t)SNAP_ARRAY_SIZE(tids); i++) {
		if (is_known(live, tids[i]) || ptrace(PTRACE_SEIZE, tids[i], 0, 0) != 0)
			continue;
		found = true;
		if (!snap_reserve_array(process->threads, *capacity, process->thread_count + 1))
			fail("out of memory");
		process->threads[process->thread_count++] =
			(struct snap_thread){ .tid = tids[i],
					      .ns_tid = ns_number(process->pid, tids[i]) };
		ptrace(PTRACE_INTERRUPT, tids[i], 0, 0);
		if (waitpid(tids[i], &status, __WALL) != tids[i] || !WIFSTOPPED(status))
			process->threads[--process->thread_count].tid = 0;
	}
	snap_close(&process_fd);
	snap_close(&tasks_fd);
	snap_procfs_close(&procfs);
	return found;
}

static void copy_thread(struct live *live, struct snap_thread *thread)
{
	struct snap_x86_64_registers *registers =
		need(snap_arena_new(&live->arena, struct snap_x86_64_registers));
	struct iovec to = { registers, sizeof(*registers) };
	const struct snap_map *map;
	uint64_t size;

	if (ptrace(PTRACE_GETREGSET, thread->tid, NT_PRSTATUS, &to) != 0)
		return;
	thread->result = SNAP_THREAD_COPIED;
	thread->registers = registers;
	thread->registers_size = to.iov_len;
	map = snap_process_map(&live->process, registers->rsp);
	if (!map)
		return;
	thread->stack_address = (registers->rsp - SNAP_STACK_MARGIN) & ~15ull;
	if (thread->stack_address < map->start)
		thread->stack_address = map->start;
	size = map->end - thread->stack_address;
	if (size > MOST_STACK)
		size = MOST_STACK;
	thread->stack =
		live->is_watched ? watch_new(size) : need(snap_arena_alloc(&live->arena, size));
	if (live_read(live, thread->stack_address, (void *)thread->stack, size))
		thread->stack_size = size;
	if (live->is_watched)
		watch_hide(thread->stack);
}

static int compare_threads(const void *left, const void *right)
{
	const struct snap_thread *a = left, *b = right;

	return snap_compare(a->tid, b->tid);
}

void live_stop(struct live *live)
{
	size_t capacity = 0;

	while (stop_new_threads(live, &capacity))
		;
	if (live->process.thread_count == 0)
		fail("process %d cannot be traced", live->process.pid);
	qsort(live->process.threads, live->process.thread_count, sizeof(struct snap_thread),
	      compare_threads);
	live_look(live);
	for (size_t i = 0; i < live->process.thread_count; i++)
		copy_thread(live, &live->process.threads[i]);
	live->is_stopped = true;
}

void live_go_on(struct live *live)
{
	for (size_t i = 0; i < live->process.thread_count; i++)
		ptrace(PTRACE_DETACH, live->process.threads[i].tid, 0, 0);
	live->is_stopped = false;
}
