/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The floor of stopping: what the kernel charges to stop all threads of a process, read their
 * registers and stacks, and let them go, in the cheapest order known. Nothing is looked at, nothing
 * is checked, no late thread is caught.
 *
 *   floor PID [mem]
 *
 * SEIZE all, INTERRUPT all, wait for each, registers, copy of [sp - 128, end of mapping) of at most
 * 64 KiB a thread, DETACH in the order of the INTERRUPTs; SCHED_FIFO where permitted. The copy is
 * by process_vm_readv in batches, or with "mem" by a pread() of /proc/PID/mem a thread. Prints one
 * line with the microseconds of each phase; stop: first INTERRUPT to last DETACH.
 */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 40000, MAX_MAPS = 200000, MAX_COPY = 64 << 10, BATCH = 1024 };

struct thread {
	pid_t tid;
	bool stopped;
	struct user_regs_struct registers;
};

struct span {
	uint64_t start, end;
};

static struct thread threads[MAX_THREADS];
static struct span maps[MAX_MAPS];
static size_t thread_count, map_count;
static char *arena;
static size_t arena_size, used;
static long copied;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void list_threads(int pid)
{
	struct dirent *entry;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)) && thread_count < MAX_THREADS)
		if (entry->d_name[0] != '.')
			threads[thread_count++].tid = atoi(entry->d_name);
	if (folder)
		closedir(folder);
}

static void read_maps(int pid)
{
	char path[64], line[8192], access;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file) && map_count < MAX_MAPS) {
		struct span *map = &maps[map_count];

		if (sscanf(line, "%lx-%lx %c", &map->start, &map->end, &access) == 3 &&
		    access == 'r')
			map_count++;
	}
	if (file)
		fclose(file);
}

static uint64_t map_end(uint64_t address)
{
	size_t low = 0, high = map_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (maps[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < map_count && maps[low].start <= address ? maps[low].end : 0;
}

static uint64_t stack_pointer(const struct user_regs_struct *registers)
{
#if defined(__x86_64__)
	return registers->rsp;
#else
	return registers->sp;
#endif
}

/* What is to be copied of a thread's stack; false: nothing, or no room. */
static bool stack_of(const struct thread *thread, struct iovec *ret)
{
	uint64_t sp = stack_pointer(&thread->registers);
	uint64_t start = (sp - 128) & ~15ull, end = map_end(sp);

	if (!thread->stopped || !end)
		return false;
	ret->iov_base = (void *)start;
	ret->iov_len = end - start < MAX_COPY ? end - start : MAX_COPY;
	return used + ret->iov_len <= arena_size;
}

static void copy_by_mem(int fd)
{
	struct iovec remote;

	for (size_t i = 0; i < thread_count; i++) {
		if (!stack_of(&threads[i], &remote))
			continue;
		ssize_t got =
			pread(fd, arena + used, remote.iov_len, (off_t)(uintptr_t)remote.iov_base);

		copied += got > 0 ? got : 0;
		used += remote.iov_len;
	}
}

static void copy_in_batches(int pid)
{
	struct iovec remote[BATCH], local;

	for (size_t i = 0; i < thread_count;) {
		int count = 0;
		ssize_t got;

		local.iov_base = arena + used;
		local.iov_len = 0;
		for (; i < thread_count && count < BATCH; i++) {
			if (!stack_of(&threads[i], &remote[count]))
				continue;
			local.iov_len += remote[count].iov_len;
			used += remote[count++].iov_len;
		}
		got = process_vm_readv(pid, &local, 1, remote, (unsigned long)count, 0);
		copied += got > 0 ? got : 0;
	}
}

static void prepare(int pid)
{
	struct sched_param priority = { .sched_priority = 2 };

	list_threads(pid);
	read_maps(pid);
	arena_size = thread_count * MAX_COPY + (1 << 20);
	arena = mmap(NULL, arena_size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		exit(1);
	/* Pages of the arena are made before the stop. */
	for (size_t i = 0; i < thread_count * 8192 + 65536 && i < arena_size; i += 4096)
		arena[i] = 0;
	sched_setscheduler(0, SCHED_FIFO, &priority);
}

int main(int argc, char **argv)
{
	int pid = argc > 1 ? atoi(argv[1]) : 0, fd = -1, status;
	double seize, interrupt, wait, registers, copy, detach, end;
	char path[64];

	prepare(pid);
	if (argc > 2 && !strcmp(argv[2], "mem")) {
		snprintf(path, sizeof(path), "/proc/%d/mem", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	seize = now();
	for (size_t i = 0; i < thread_count; i++)
		ptrace(PTRACE_SEIZE, threads[i].tid, 0, PTRACE_O_TRACECLONE);
	interrupt = now();
	for (size_t i = 0; i < thread_count; i++)
		threads[i].stopped = ptrace(PTRACE_INTERRUPT, threads[i].tid, 0, 0) == 0;
	wait = now();
	for (size_t i = 0; i < thread_count; i++)
		if (threads[i].stopped)
			waitpid(threads[i].tid, &status, __WALL);
	registers = now();
	for (size_t i = 0; i < thread_count; i++) {
		struct iovec set = { &threads[i].registers, sizeof(threads[i].registers) };

		if (threads[i].stopped)
			ptrace(PTRACE_GETREGSET, threads[i].tid, NT_PRSTATUS, &set);
	}
	copy = now();
	if (fd >= 0)
		copy_by_mem(fd);
	else
		copy_in_batches(pid);
	detach = now();
	for (size_t i = 0; i < thread_count; i++)
		if (threads[i].stopped)
			ptrace(PTRACE_DETACH, threads[i].tid, 0, 0);
	end = now();
	printf("threads=%zu seize=%.0f interrupt=%.0f wait=%.0f registers=%.0f copy=%.0f "
	       "detach=%.0f stop=%.0f kib=%ld\n",
	       thread_count, interrupt - seize, wait - interrupt, registers - wait,
	       copy - registers, detach - copy, end - detach, end - interrupt, copied >> 10);
	return 0;
}
