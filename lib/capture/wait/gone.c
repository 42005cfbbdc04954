/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Owners that have ended: of a lock in memory that processes share, its word names a thread as the
 * process numbers it that took the lock. Where no thread of the capture has that number, whether
 * any thread that could be meant has it is asked of the whole machine.
 *
 * A thread in the pid namespace that procfs shows is found by the number itself, whatever procfs
 * hides; all threads of processes in namespaces inside of it are looked through. A thread that has
 * the number and not the memory is not meant: numbers are given out again, and by each namespace.
 * In the end the word is read again: a thread that released the lock before it ended is no longer
 * named there. Without a stop the same is asked of private memory, as threads are born meanwhile.
 * What kind of lock it is, analysis finds out: all words that could name an owner are looked up.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "capture/wait/resolver.h"
#include "proc/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	MOST_MAPS = 1 << 22, /* bytes of maps */
	MOST_TID = 4194304,  /* PID_MAX_LIMIT of Linux */
	TID_BITS = 0x3fffffff,
	WAITERS = 2, /* what a plain mutex has in its word */
	FUTEX_COMMAND = 0x7f,
	FUTEX_PRIVATE = 0x80,
	FUTEX_WAIT = 0,
	FUTEX_LOCK_PI = 6,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_LOCK_PI2 = 13,
	MOST_PIDS = 1 << 16,
	MOST_OF_ONE = SNAP_MAX_GONE / 16, /* numbers that one process names */
	LOOK_NS = 1000000000,             /* for all threads of other namespaces */
	LINE_TEXT = 8192,                 /* of maps */
};

/* That of the namespace with all others inside of it: PROC_PID_INIT_INO of linux/proc_ns.h. */
static const char first_namespace[] = "pid:[4026531836]";

/* A number in a word. */
struct number {
	pid_t pid; /* of a process that has the word */
	pid_t tid;
	uint64_t address;
	uint64_t inode; /* of the file that is mapped there */
	uint32_t dev_major, dev_minor;
	bool is_masked;  /* above the number stand bits of the kernel's */
	bool is_private; /* the memory is that of its process alone */
	bool is_there;   /* some thread has it, or that is not known */
};

/* Seen by workers, too. */
struct numbers {
	const struct snap_wait_memory *memory;
	struct number *list; /* by tid */
	size_t count;
	bool is_first; /* this pid namespace has all others inside of it, and hides no process */
	const pid_t *pids; /* all processes of the machine */
	bool is_partial;   /* of some process not all threads were seen */
};

/* ---- in a worker ---- */

static bool has_owner_ended(char state)
{
	return state == 'Z' || state == 'X';
}

/* Whether a process shares the memory; where that cannot be read, it may. */
static bool has_memory(int root_fd, pid_t pid, const struct number *number)
{
	char name[SNAP_WAIT_NAME], text[LINE_TEXT], *line;
	_cleanup_fd_ int fd = -1;
	struct snap_lines lines;
	size_t length;
	int more;

	if (number->is_private)
		return pid == number->pid;
	snprintf(name, sizeof(name), "%d/maps", (int)pid);
	fd = snap_procfs_open_file(root_fd, name);
	if (fd < 0)
		return !snap_procfs_is_gone(fd);
	snap_lines_init(&lines, fd, text, sizeof(text));
	lines.most = MOST_MAPS;
	while ((more = snap_lines_next(&lines, &line, &length)) > 0) {
		struct snap_map map;
		const char *path;
		size_t path_length;

		if (snap_parse_map(line, length, &map, &path, &path_length) && map.shared &&
		    map.inode == number->inode && map.dev_major == number->dev_major &&
		    map.dev_minor == number->dev_minor)
			return true;
	}
	return more < 0 || lines.limited;
}

/* A thread with that number in the namespace that procfs shows, which is its own one. */
static bool is_owner_here(int root_fd, const struct number *number)
{
	struct snap_status status;

	if (sched_getscheduler(number->tid) < 0 && errno == ESRCH)
		return false;
	if (snap_procfs_task_status(root_fd, number->tid, &status))
		return true;
	return status.ns_depth <= 1 && !has_owner_ended(status.state) &&
	       has_memory(root_fd, status.tgid, number);
}

/* A thread of a process calls itself so. */
static void mark(struct numbers *numbers, pid_t pid, pid_t tid)
{
	size_t low = 0, high = numbers->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (numbers->list[middle].tid < tid)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < numbers->count && numbers->list[low].tid == tid; low++)
		numbers->list[low].is_there =
			numbers->list[low].is_there ||
			has_memory(numbers->memory->root_fd, pid, &numbers->list[low]);
}

/* Of one process; those in pid namespaces inside of ours number their threads themselves. */
static void look_inside(void *context, uint32_t item)
{
	struct numbers *numbers = context;
	pid_t pid = numbers->pids[item], tid;
	char name[SNAP_WAIT_NAME];
	_cleanup_fd_ int fd = -1;
	struct snap_numbers tasks;
	struct snap_status status;
	int more;

	if (snap_procfs_task_status(numbers->memory->root_fd, pid, &status) || status.ns_depth <= 1)
		return;
	snprintf(name, sizeof(name), "%d/task", (int)pid);
	fd = snap_procfs_open_list(numbers->memory->root_fd, name);
	if (fd < 0) {
		numbers->is_partial |= !snap_procfs_is_gone(fd);
		return;
	}
	snap_numbers_init(&tasks, fd);
	while ((more = snap_numbers_next(&tasks, &tid)) > 0)
		if (snap_procfs_task_status(fd, tid, &status) == 0 &&
		    !has_owner_ended(status.state))
			mark(numbers, pid, status.ns_pid);
	numbers->is_partial |= more < 0 && !snap_procfs_is_gone(more);
}

/* A page that a user's FUSE server has to fill is an error, or costs this worker. */
static bool still_stands(int root_fd, const struct number *number)
{
	char name[SNAP_WAIT_NAME];
	_cleanup_fd_ int fd = -1;
	uint32_t word;

	snprintf(name, sizeof(name), "%d/mem", (int)number->pid);
	fd = snap_procfs_open_file(root_fd, name);
	return fd >= 0 && pread(fd, &word, sizeof(word), (off_t)number->address) == sizeof(word) &&
	       (pid_t)(number->is_masked ? word & TID_BITS : word) == number->tid;
}

static bool is_first_namespace(int root_fd)
{
	char text[SNAP_WAIT_NAME];
	ssize_t length = snap_procfs_link(root_fd, "self/ns/pid", text, sizeof(text));
	struct snap_status status;

	return length > 0 && strcmp(text, first_namespace) == 0 &&
	       snap_procfs_task_status(root_fd, 1, &status) == 0;
}

static void look_here(void *context, uint32_t item)
{
	struct numbers *numbers = context;
	int root_fd = numbers->memory->root_fd;

	numbers->list[item].is_there = is_owner_here(root_fd, &numbers->list[item]);
	if (item == 0)
		numbers->is_first = is_first_namespace(root_fd);
}

static void look_again(void *context, uint32_t item)
{
	struct numbers *numbers = context;
	struct number *number = &numbers->list[item];

	number->is_there = number->is_there || !still_stands(numbers->memory->root_fd, number);
}

/* ---- the asking side ---- */

struct list {
	struct snap_wait_resolver *resolver;
	pid_t *living; /* numbers of threads of the capture, as they number themselves */
	size_t living_count;
	struct number *numbers;
	size_t count, capacity;
	size_t of_others; /* that processes before this one have named */
};

SNAP_FREES(list_deinit, struct list, living, numbers);

SNAP_ORDER(compare_tids, pid_t, a, b, snap_compare(*a, *b));

SNAP_ORDER(compare_numbers, struct number, a, b, snap_compare(a->tid, b->tid),
	   snap_compare(a->pid, b->pid), snap_compare(a->address, b->address));

static bool list_living(struct list *list)
{
	const struct snap_capture *capture = list->resolver->capture;
	size_t count = snap_sum(capture->process_count, i, capture->processes[i].thread_count);

	list->living = calloc(count + 1, sizeof(*list->living));
	if (!list->living)
		return false;
	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count; k++)
			if (snap_wait_is_alive(process, &process->threads[k]))
				list->living[list->living_count++] = process->threads[k].ns_tid;
	}
	qsort(list->living, list->living_count, sizeof(*list->living), compare_tids);
	return true;
}

/* The owner that a word names; if it is none, or a thread of the capture, nothing is added. */
static struct stacksnap_error *add_word(struct list *list, const struct snap_process *process,
					const struct snap_thread *thread,
					const struct snap_map *map, uint64_t address,
					bool is_masked)
{
	struct number number = { .pid = process->pid,
				 .address = address,
				 .inode = map->inode,
				 .dev_major = map->dev_major,
				 .dev_minor = map->dev_minor,
				 .is_masked = is_masked,
				 .is_private = !map->shared || !map->inode };
	uint32_t word;

	if (!snap_wait_read_memory(process, thread, address, &word, sizeof(word)))
		return NULL;
	word = is_masked ? word & TID_BITS : word;
	number.tid = (pid_t)word;
	if (word <= 1 || word > MOST_TID ||
	    bsearch(&number.tid, list->living, list->living_count, sizeof(*list->living),
		    compare_tids))
		return NULL;
	if (list->count >= SNAP_MAX_GONE || list->count - list->of_others >= MOST_OF_ONE) {
		list->resolver->facts->lacks |= SNAP_LACK_CUT;
		return NULL;
	}
	return snap_no_memory_unless(
		snap_append(list->numbers, list->count, list->capacity, number));
}

/* The words that may have an owner, of locks that the value in the call can belong to. */
static struct stacksnap_error *add_gone_thread(struct list *list,
					       const struct snap_process *process,
					       const struct snap_thread *thread)
{
	struct snap_thread_call call = snap_wait_call_of(process->arch, thread);
	unsigned op = (unsigned)call.arguments[1], command = op & FUTEX_COMMAND;
	uint64_t word = call.arguments[0];
	uint32_t value = (uint32_t)call.arguments[2];
	bool is_kernels = command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
	struct stacksnap_error *err = NULL;
	const struct snap_map *map;

	if (!call.known ||
	    snap_wait_call_row(process->arch, call.number)->call != SNAP_CALL_FUTEX ||
	    !(is_kernels || command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET))
		return NULL;
	map = snap_process_map(process, word);
	/* In a stop all threads that private memory can mean are known. */
	if (!map || (snap_taken_at_once(thread->taken) &&
		     (op & FUTEX_PRIVATE || !map->shared || !map->inode)))
		return NULL;
	/* In the word itself, and behind it as glibc has it: __owner, or __cur_writer. */
	if (is_kernels || value >> 31)
		err = add_word(list, process, thread, map, word, true);
	if (!err && !is_kernels && value == WAITERS)
		err = add_word(list, process, thread, map, word + 8, false);
	if (!err && command == FUTEX_WAIT_BITSET && value > 0 && value <= 3)
		err = add_word(list, process, thread, map, word + (word % 8 == 4 ? 12 : 16), false);
	return err;
}

static struct stacksnap_error *list_numbers(struct list *list)
{
	const struct snap_capture *capture = list->resolver->capture;
	struct stacksnap_error *err = NULL;
	size_t count = 0;

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		list->of_others = list->count;
		for (size_t k = 0; k < process->thread_count && !err; k++)
			if (snap_wait_is_alive(process, &process->threads[k]))
				err = add_gone_thread(list, process, &process->threads[k]);
	}
	if (list->count)
		qsort(list->numbers, list->count, sizeof(*list->numbers), compare_numbers);
	for (size_t i = 0; i < list->count; i++)
		if (i == 0 || compare_numbers(&list->numbers[count - 1], &list->numbers[i]) != 0)
			list->numbers[count++] = list->numbers[i];
	list->count = count;
	return err;
}

SNAP_ORDER(compare_gone, struct snap_gone_thread, a, b, snap_compare(a->pid, b->pid),
	   snap_compare(a->tid, b->tid));

/* Several words may have one number: its owner is gone only if none of them says otherwise. */
static bool is_gone(const struct numbers *numbers, size_t *at)
{
	const struct number *first = &numbers->list[*at];
	bool is_there = false;

	for (; *at < numbers->count && numbers->list[*at].tid == first->tid &&
	       numbers->list[*at].pid == first->pid;
	     ++*at)
		is_there |= numbers->list[*at].is_there;
	return !is_there;
}

static struct stacksnap_error *keep_gone(struct snap_wait_resolver *resolver,
					 const struct numbers *numbers)
{
	struct snap_wait_facts *facts = resolver->facts;

	facts->gone = snap_arena_new_array(&resolver->capture->arena, numbers->count,
					   struct snap_gone_thread);
	SNAP_TRY(snap_no_memory_unless(facts->gone));
	for (size_t i = 0; i < numbers->count;) {
		const struct number *number = &numbers->list[i];

		if (is_gone(numbers, &i))
			facts->gone[facts->gone_count++] =
				(struct snap_gone_thread){ .pid = number->pid,
							   .tid = number->tid,
							   .everywhere = numbers->is_first };
	}
	qsort(facts->gone, facts->gone_count, sizeof(*facts->gone), compare_gone);
	return NULL;
}

/* The numbers where workers see them; NULL: no memory. */
static struct numbers *share_numbers(struct snap_wait_resolver *resolver, const struct list *list)
{
	struct numbers *numbers = snap_wait_asker_new_array(resolver->asker, 1, struct numbers);

	if (!numbers)
		return NULL;
	numbers->list = snap_wait_asker_new_array(resolver->asker, list->count, struct number);
	if (!numbers->list)
		return NULL;
	memcpy(numbers->list, list->numbers, list->count * sizeof(*list->numbers));
	numbers->memory = resolver->asker->memory;
	numbers->count = list->count;
	return numbers;
}

/* False: some item was not done. */
static bool run_gone_owners(struct snap_wait_resolver *resolver, struct numbers *numbers,
			    void (*look)(void *context, uint32_t item), size_t count,
			    int64_t until_ns)
{
	const uint8_t *marks = snap_wait_asker_run(resolver->asker, look, numbers, count, until_ns);

	for (size_t i = 0; marks && i < count; i++)
		if (marks[i] != SNAP_ITEM_DONE)
			return false;
	return marks;
}

/* False: not all of the machine was looked through. */
static bool look_through(struct snap_wait_resolver *resolver, struct numbers *numbers)
{
	pid_t *pids = snap_wait_asker_new_array(resolver->asker, MOST_PIDS, pid_t);
	ssize_t count = pids ? snap_procfs_list(resolver->asker->root_fd, pids, MOST_PIDS) : -1;

	if (count <= 0 || count > MOST_PIDS)
		return false;
	numbers->pids = pids;
	return run_gone_owners(resolver, numbers, look_inside, (size_t)count,
			       snap_clock_ns(CLOCK_MONOTONIC) + LOOK_NS) &&
	       !numbers->is_partial;
}

struct stacksnap_error *snap_wait_ask_gone(struct snap_wait_resolver *resolver)
{
	_cleanup_(list_deinit) struct list list = { .resolver = resolver };
	struct stacksnap_error *err;
	struct numbers *numbers;

	SNAP_TRY(snap_no_memory_unless(list_living(&list)));
	err = list_numbers(&list);
	if (!err && list.count)
		err = snap_wait_make_asker(resolver);
	if (err || !list.count)
		return err;
	numbers = share_numbers(resolver, &list);
	SNAP_TRY(snap_no_memory_unless(numbers));
	if (!run_gone_owners(resolver, numbers, look_here, numbers->count, resolver->until_ns) ||
	    !snap_any(numbers->count, i, !numbers->list[i].is_there) ||
	    !look_through(resolver, numbers) ||
	    !run_gone_owners(resolver, numbers, look_again, numbers->count, resolver->until_ns))
		return NULL;
	return keep_gone(resolver, numbers);
}
