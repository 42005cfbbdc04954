/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reader, seen from its caller and from within a worker: see reader.h. A worker has no
 * descriptor but procfs, so it opens what it needs by number; the memory of processes it keeps open,
 * some of them. That a number still means the same process is the caller's to know, who holds files
 * of the thread; that it is the same program is looked at when its memory is opened.
 */
#include "sample/reader.h"

#include "base/clock.h"
#include "base/workers.h"
#include "stop/plan/candidate.h"
#include "stop/plan/of_thread.h"
#include "stop/words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum {
	KEPT = 64, /* processes whose memory a worker keeps open */
	LINES = 1 << 16,
	SPACE_BYTES = 96 << 20, /* address space for a list of mappings while it is read */
	SYSCALL_TEXT = 256,
	PATH = 64,
	LIST_STACK = 64 << 10, /* bytes of a stack that are read with a list; most are smaller */
	MOST_ASLEEP_MS = 100,  /* of any patience, by a process's will */
	LIST_PATIENCE = 5,     /* times that of one thread, for a list */
	PAGE = 4096,
	MS = 1000000,
};

#if defined(__x86_64__)
static const enum snap_arch OWN_ARCH = SNAP_ARCH_X86_64;
#else
static const enum snap_arch OWN_ARCH = SNAP_ARCH_AARCH64;
#endif
static const size_t MOST_BYTES = ((size_t)1 << 30) - (64 << 20);

struct kept_memory {
	pid_t pid;
	uint64_t program;
	int fd; /* + 1; 0: none */
};

/* Where a thread is, and what was read of its stack. */
struct location {
	struct snap_reader_question question;
	size_t most;
	int status;
	struct snap_syscall_line line;
	uint64_t address;
	size_t asked, got; /* bytes from there on */
	struct snap_beside beside;
};

/* A piece of memory that is asked for; its bytes follow those of the one before. */
struct piece {
	uint64_t address;
	uint32_t size, got;
};

/* What a worker shares with the caller. */
struct area {
	/* the question */
	int root_fd;
	int nice; /* the caller's */
	struct snap_reader_target target;
	/* the answer */
	int status;
	struct location location; /* of one thread; or bytes of memory alone */
	struct snap_stat stat;
	struct snap_space space;
	uint64_t taken;            /* by spaces that were read before, and by this one */
	unsigned wanted, runtimes; /* bits of enum snap_runtime_kind; asked for, and found */
	/* a list of threads, with its own bytes, which stay as they are until the next list */
	uint32_t list_count, list_at;
	struct location list[SNAP_READER_MOST];
	uint8_t *list_bytes;
	int64_t list_sign_ns; /* when the one at hand was begun */
	/* what lies beside stacks: where it goes, and whether it is being read */
	struct snap_region beside_room;
	uint32_t at_beside;
	struct piece pieces[SNAP_SAMPLED_WORDS_MOST];
	uint32_t piece_count;
	/* a plan for single threads, with memory for notes, and for its image */
	struct snap_thread_plan plan;
	struct snap_region plan_work, plan_room;
	/* the worker's */
	int own_nice;
	struct kept_memory kept[KEPT];
	struct snap_region records;
	_Alignas(64) uint8_t bytes[];
};

struct snap_reader {
	struct snap_workers pool;
	int root_fd; /* a descriptor of our own */
	size_t most;
	unsigned runtimes;     /* wanted */
	struct area *answered; /* by the last call that located a thread; NULL: none */
	struct area *listed;   /* has the answers to the last list; NULL: none */
	bool late_beside;      /* the last call was late, and was at what lies beside a stack */
};

/* ---- in a worker ---- */

static int open_task_file(const struct area *area, const char *name)
{
	char path[PATH];

	snprintf(path, sizeof(path), "%d/task/%d/%s", (int)area->target.pid, (int)area->target.tid,
		 name);
	return snap_procfs_open_file(area->root_fd, path);
}

/* Whether the thread runs the program that is meant. */
static bool is_same_program(const struct area *area)
{
	_cleanup_fd_ int fd = open_task_file(area, "");
	struct snap_stat stat;

	if (!area->target.program)
		return true;
	return fd >= 0 && snap_procfs_stat(fd, &stat) == 0 &&
	       (stat.program == area->target.program || !stat.program);
}

/* The descriptor stays the worker's; a negative errno. */
static int open_memory(struct area *area)
{
	struct kept_memory *kept = &area->kept[(unsigned)area->target.pid % KEPT];
	int fd;

	if (kept->fd && kept->pid == area->target.pid && kept->program == area->target.program)
		return kept->fd - 1;
	fd = open_task_file(area, "mem");
	if (fd < 0)
		return fd;
	if (!is_same_program(area)) {
		close(fd);
		return -ESTALE;
	}
	if (kept->fd)
		close(kept->fd - 1);
	*kept = (struct kept_memory){ area->target.pid, area->target.program, fd + 1 };
	return fd;
}

static ssize_t read_memory(struct area *area, uint64_t address, void *bytes, size_t size)
{
	int fd = open_memory(area);
	ssize_t got = fd < 0 ? fd : pread(fd, bytes, size, (off_t)address);

	return got < 0 && fd >= 0 ? -errno : got;
}

/* 0: that memory has gone. Its number may be another process's, of the same program, by now. */
static ssize_t read_bytes(struct area *area, uint64_t address, void *bytes, size_t size)
{
	struct kept_memory *kept = &area->kept[(unsigned)area->target.pid % KEPT];
	ssize_t got = read_memory(area, address, bytes, size);

	if (got || !size)
		return got;
	close(kept->fd - 1);
	kept->fd = 0;
	got = read_memory(area, address, bytes, size);
	return got ? got : -ESTALE;
}

static void read_stat(void *memory, uint32_t item _unused_)
{
	struct area *area = memory;
	_cleanup_fd_ int fd = area->target.tid ? open_task_file(area, "") : -1;

	if (area->target.tid)
		area->status = fd < 0 ? fd : snap_procfs_stat(fd, &area->stat);
	else
		area->status = snap_procfs_task_stat(area->root_fd, area->target.pid, &area->stat);
}

static void try_memory(void *memory, uint32_t item _unused_)
{
	struct area *area = memory;
	int fd = open_memory(area);

	area->status = fd < 0 ? fd : 0;
}

static void read_asked(void *memory, uint32_t item _unused_)
{
	struct area *area = memory;
	struct location *location = &area->location;
	ssize_t got = read_bytes(area, location->address, area->bytes, location->asked);

	area->status = got < 0 ? (int)got : 0;
	location->got = got > 0 ? (size_t)got : 0;
}

static void read_usual_stack(struct area *area, struct location *location, uint8_t *bytes)
{
	uint64_t sp = location->line.sp, from = (sp - SNAP_STACK_MARGIN) & ~15ull, size;
	const struct snap_reader_question *question = &location->question;
	ssize_t got;

	if (sp < question->start || sp >= question->end || sp < SNAP_STACK_MARGIN + 16)
		return;
	size = question->end - from;
	size = size < location->most ? size : location->most;
	got = read_bytes(area, from, bytes, size);
	if (got == -ESTALE)
		location->status = -ESTALE;
	if (got <= 0)
		return;
	location->address = from;
	location->asked = size;
	location->got = (size_t)got;
}

static ssize_t read_beside(void *context, uint64_t address, uint8_t *bytes, size_t size)
{
	return read_bytes(context, address, bytes, size);
}

/* Of the thread: each may have descriptors of its own. */
static ssize_t read_link(void *context, int32_t number, char *text, size_t size)
{
	const struct area *area = context;
	char path[PATH];

	snprintf(path, sizeof(path), "%d/task/%d/fd/%d", (int)area->target.pid,
		 (int)area->target.tid, (int)number);
	return snap_procfs_link(area->root_fd, path, text, size);
}

/* Each has its share of the room, however much those before it took. */
static void locate_beside(struct area *area, struct location *location)
{
	const struct snap_beside_source source = { read_beside, read_link, area };
	const struct snap_thread_call call = snap_word_call(&location->line, 0);
	struct snap_region *all = &area->beside_room, room = *all;

	if (snap_region_room(&room) > SNAP_BESIDE_ROOM)
		room.end = room.next + SNAP_BESIDE_ROOM;
	__atomic_store_n(&area->at_beside, 1, __ATOMIC_RELEASE);
	if (snap_beside_read(&source, OWN_ARCH, &call, &room, &location->beside) == -ESTALE)
		location->status = -ESTALE;
	__atomic_store_n(&area->at_beside, 0, __ATOMIC_RELEASE);
	all->next = room.next;
}

static void locate(struct area *area, struct location *location, uint8_t *bytes)
{
	_cleanup_fd_ int fd = -1;
	char text[SYSCALL_TEXT];
	ssize_t length;

	area->target = location->question.target;
	fd = open_task_file(area, "syscall");
	length = fd < 0 ? fd : snap_procfs_reread(fd, text, sizeof(text));
	location->status = length < 0 ? (int)length : 0;
	if (length >= 0 && !snap_parse_syscall(text, (size_t)length, &location->line))
		location->status = -EBADMSG;
	if (!location->status && !location->line.running)
		read_usual_stack(area, location, bytes);
	/* A 32-bit thread has its stack there, and its calls have other numbers. */
	if (!location->status && !location->line.running && location->question.beside &&
	    location->line.sp > UINT32_MAX)
		locate_beside(area, location);
}

static void locate_thread(void *memory, uint32_t item _unused_)
{
	struct area *area = memory;

	locate(area, &area->location, area->bytes);
	area->status = area->location.status;
}

/* As long as we wait for a processor, so does the caller, who may come before others. */
static void follow_caller(struct area *area)
{
	if (area->nice != area->own_nice)
		setpriority(PRIO_PROCESS, 0, area->nice);
	area->own_nice = area->nice;
}

static void locate_listed(void *memory, uint32_t item _unused_)
{
	struct area *area = memory;

	follow_caller(area);
	for (uint32_t i = 0; i < area->list_count; i++) {
		__atomic_store_n(&area->list_at, i, __ATOMIC_RELEASE);
		__atomic_store_n(&area->list_sign_ns, snap_clock_ns(CLOCK_MONOTONIC),
				 __ATOMIC_RELAXED);
		locate(area, &area->list[i], area->list_bytes + (size_t)i * LIST_STACK);
	}
	area->status = 0;
}

/* Nothing is mapped there; else it has gone, or may not be read. */
static bool is_unreadable(ssize_t error)
{
	return error == -EIO || error == -EFAULT || error == -EINVAL;
}

static void read_pieces(void *memory, uint32_t item _unused_)
{
	struct area *area = memory;
	uint8_t *bytes = area->bytes;

	area->status = 0;
	for (uint32_t i = 0; i < area->piece_count && !area->status; i++) {
		struct piece *piece = &area->pieces[i];
		ssize_t got = read_bytes(area, piece->address, bytes, piece->size);

		piece->got = got > 0 ? (uint32_t)got : 0;
		bytes += piece->size;
		if (got < 0 && !is_unreadable(got))
			area->status = (int)got;
	}
}

static size_t read_ranges(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		ssize_t got = read_bytes(context, (uintptr_t)ranges[i].iov_base, bytes + total,
					 ranges[i].iov_len);

		total += got > 0 ? (size_t)got : 0;
		if (got != (ssize_t)ranges[i].iov_len)
			break;
	}
	return total;
}

static void execute_plan(void *memory, uint32_t item _unused_)
{
	struct area *area = memory;
	struct snap_region room = area->plan_room;
	int fd = open_memory(area);

	area->status = fd < 0 ? fd : 0;
	if (fd >= 0)
		snap_thread_plan_execute(&area->plan, area->plan_work, SNAP_THREAD_PLAN_NS, &room);
}

static void find_runtimes(struct area *area, const struct snap_space_reader *reader)
{
	const struct snap_candidate candidate = {
		.space = &area->space,
		.wanted = area->wanted,
		.buffer = (uint8_t *)reader->buffer,
		.buffer_size = LINES,
		.read = read_ranges,
		.context = area,
	};

	area->runtimes = snap_plan_candidates(&candidate);
}

static void read_space(void *memory, uint32_t item _unused_)
{
	struct area *area = memory;
	_cleanup_fd_ int fd = -1;
	struct snap_space_reader reader = { .records = &area->records,
					    .buffer_size = LINES,
					    .read = read_ranges,
					    .context = area,
					    .taken = &area->taken };
	int error = open_memory(area);

	area->records = (struct snap_region){ area->bytes, area->bytes + SPACE_BYTES };
	area->space = (struct snap_space){ .maps = NULL };
	area->runtimes = 0;
	fd = error < 0 ? -1 : open_task_file(area, "maps");
	area->status = error < 0 ? error : fd < 0 ? fd : 0;
	if (area->status)
		return;
	reader.buffer = snap_region_alloc(&area->records, LINES);
	reader.maps = snap_region_new_array(&area->records, SNAP_MAX_MAPS, struct snap_map);
	if (!reader.buffer || !reader.maps)
		area->status = -ENOMEM;
	else
		area->status = snap_space_read_maps(&reader, fd, &area->space);
	if (area->status)
		return;
	snap_space_read_pieces(&reader, &area->space);
	if (area->wanted)
		find_runtimes(area, &reader);
}

/* ---- who asks ---- */

struct stacksnap_error *snap_reader_new(const struct snap_procfs *procfs, size_t most,
					struct snap_reader **ret)
{
	struct snap_reader *reader = calloc(1, sizeof(*reader));
	size_t bytes = most < SPACE_BYTES ? SPACE_BYTES : most < MOST_BYTES ? most : MOST_BYTES;
	int error;

	if (!reader)
		return snap_error_no_memory();
	reader->most = bytes;
	reader->root_fd = fcntl(procfs->root_fd, F_DUPFD_CLOEXEC, 0);
	error = reader->root_fd < 0 ? errno : 0;
	if (!error)
		error = snap_workers_init(
			&reader->pool,
			sizeof(struct area) + bytes + (size_t)SNAP_READER_MOST * LIST_STACK +
				snap_thread_plan_work() + SNAP_THREAD_PLAN_ROOM +
				(size_t)(SNAP_READER_MOST + 1) * SNAP_BESIDE_ROOM,
			reader->root_fd, SNAP_WORKERS_AWAKE | SNAP_WORKERS_BY_PROXY);
	if (error) {
		snap_close(&reader->root_fd);
		free(reader);
		return snap_error_os(error, "cannot create a process that reads others");
	}
	*ret = reader;
	return NULL;
}

void snap_reader_destroy(struct snap_reader *reader)
{
	if (!reader)
		return;
	snap_workers_deinit(&reader->pool);
	snap_close(&reader->root_fd);
	free(reader);
}

/* The area of the next call; NULL: too many workers were left behind. */
static struct area *begin_call(struct snap_reader *reader, const struct snap_reader_target *target)
{
	struct area *area = snap_workers_area(&reader->pool);

	reader->answered = NULL;
	reader->late_beside = false;
	if (area != reader->listed)
		reader->listed = NULL;
	if (!area)
		return NULL;
	area->root_fd = reader->root_fd;
	area->target = *target;
	area->location = (struct location){ .question.target = *target };
	return area;
}

static int call_worker(struct snap_reader *reader, struct area *area,
		       void (*run)(void *area, uint32_t item), int64_t patience_ms)
{
	struct snap_work work = { .run = run, .patience_ns = patience_ms * MS };

	work.asleep_ns = snap_workers_patience(&reader->pool, MOST_ASLEEP_MS * MS);
	if (area && run == locate_listed) {
		work.signs = &area->list_sign_ns;
		work.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + LIST_PATIENCE * work.patience_ns;
	}
	if (area && snap_workers_call(&reader->pool, &work))
		return area->status;
	reader->late_beside = area && __atomic_load_n(&area->at_beside, __ATOMIC_ACQUIRE);
	reader->listed = NULL;
	return -ETIMEDOUT;
}

int snap_reader_stat(struct snap_reader *reader, pid_t pid, pid_t tid, struct snap_stat *ret)
{
	const struct snap_reader_target target = { .pid = pid, .tid = tid };
	struct area *area = begin_call(reader, &target);
	int status = call_worker(reader, area, read_stat, SNAP_READER_STACK_MS);

	if (status == 0)
		*ret = area->stat;
	return status;
}

int snap_reader_try(struct snap_reader *reader, const struct snap_reader_target *target)
{
	struct area *area = begin_call(reader, target);

	return call_worker(reader, area, try_memory, SNAP_READER_STACK_MS);
}

/* Behind all else that the area has: first that of one thread, then that of lists. */
static struct snap_region beside_room(const struct snap_reader *reader, struct area *area,
				      size_t from, size_t count)
{
	uint8_t *room = area->bytes + reader->most + (size_t)SNAP_READER_MOST * LIST_STACK +
			snap_thread_plan_work() + SNAP_THREAD_PLAN_ROOM + from * SNAP_BESIDE_ROOM;

	return (struct snap_region){ room, room + count * SNAP_BESIDE_ROOM };
}

int snap_reader_locate(struct snap_reader *reader, const struct snap_reader_question *question,
		       size_t most, struct snap_syscall_line *ret)
{
	struct area *area = begin_call(reader, &question->target);
	int status;

	if (area) {
		area->location.question = *question;
		area->location.most = (most < reader->most ? most : reader->most) & ~(size_t)15;
		area->beside_room = beside_room(reader, area, 0, 1);
	}
	status = call_worker(reader, area, locate_thread, SNAP_READER_STACK_MS);
	if (status)
		return status;
	*ret = area->location.line;
	reader->answered = area;
	return 0;
}

const struct snap_beside *snap_reader_beside(const struct snap_reader *reader)
{
	return reader->answered ? &reader->answered->location.beside : NULL;
}

bool snap_reader_is_late_beside(const struct snap_reader *reader)
{
	return reader->late_beside;
}

/* ---- lists ---- */

int snap_reader_locate_all(struct snap_reader *reader, const struct snap_reader_question *questions,
			   size_t count, size_t *late_ret)
{
	struct area *area = begin_call(reader, &questions[0].target);
	int status;

	*late_ret = SIZE_MAX;
	if (!area)
		return -ETIMEDOUT;
	area->list_count = (uint32_t)count;
	area->list_at = UINT32_MAX;
	area->nice = getpriority(PRIO_PROCESS, 0);
	area->list_bytes = area->bytes + reader->most;
	area->beside_room = beside_room(reader, area, 1, count);
	for (size_t i = 0; i < count; i++)
		area->list[i] = (struct location){ .question = questions[i], .most = LIST_STACK };
	status = call_worker(reader, area, locate_listed, SNAP_READER_STACK_MS);
	if (status) {
		uint32_t at = __atomic_load_n(&area->list_at, __ATOMIC_ACQUIRE);

		*late_ret = at < count ? at : SIZE_MAX;
		return status;
	}
	reader->listed = area;
	return 0;
}

int snap_reader_located(const struct snap_reader *reader, size_t index,
			struct snap_syscall_line *ret)
{
	const struct location *location = reader->listed ? &reader->listed->list[index] : NULL;

	if (!location)
		return -ENODATA;
	*ret = location->line;
	return location->status;
}

const struct snap_beside *snap_reader_beside_of(const struct snap_reader *reader, size_t index)
{
	return reader->listed ? &reader->listed->list[index].beside : NULL;
}

bool snap_reader_has_read(const struct snap_reader *reader, size_t index, uint64_t address,
			  uint8_t *bytes, size_t size, size_t *got_ret)
{
	const struct location *location = reader->listed ? &reader->listed->list[index] : NULL;

	if (!location || !location->got || location->address != address || location->asked != size)
		return false;
	memcpy(bytes, reader->listed->list_bytes + index * LIST_STACK, location->got);
	*got_ret = location->got;
	return true;
}

/* ---- memory ---- */

static bool has_answer(const struct snap_reader *reader, const struct snap_reader_target *target,
		       uint64_t address, size_t size)
{
	const struct location *location = reader->answered ? &reader->answered->location : NULL;

	return location && location->got && location->address == address &&
	       location->asked == size && location->question.target.tid == target->tid &&
	       location->question.target.pid == target->pid;
}

ssize_t snap_reader_read(struct snap_reader *reader, const struct snap_reader_target *target,
			 uint64_t address, uint8_t *bytes, size_t size)
{
	struct area *area = reader->answered;
	int status;

	size = size < reader->most ? size : reader->most;
	if (!has_answer(reader, target, address, size)) {
		area = begin_call(reader, target);
		if (area) {
			area->location.address = address;
			area->location.asked = size;
		}
		status = call_worker(reader, area, read_asked, SNAP_READER_STACK_MS);
		if (status)
			return status;
	}
	memcpy(bytes, area->bytes, area->location.got);
	return (ssize_t)area->location.got;
}

int snap_reader_read_words(struct snap_reader *reader, const struct snap_reader_target *target,
			   struct snap_sampled_words *words, size_t count)
{
	struct area *area = begin_call(reader, target);
	const uint8_t *bytes;
	int status;

	if (area) {
		area->piece_count = (uint32_t)count;
		for (size_t i = 0; i < count; i++)
			area->pieces[i] = (struct piece){ words[i].address, words[i].size, 0 };
	}
	status = call_worker(reader, area, read_pieces, SNAP_READER_STACK_MS);
	if (status)
		return status;
	bytes = area->bytes;
	for (size_t i = 0; i < count; i++) {
		words[i].got = area->pieces[i].got;
		memcpy(words[i].bytes, bytes, words[i].got);
		bytes += words[i].size;
	}
	return 0;
}

int snap_reader_execute(struct snap_reader *reader, const struct snap_reader_target *target,
			const struct snap_plan_thread *thread, const struct snap_memory_plan *plan,
			const struct snap_memory_image **ret)
{
	struct area *area = begin_call(reader, target);
	int status;

	if (area) {
		uint8_t *work = area->bytes + reader->most + (size_t)SNAP_READER_MOST * LIST_STACK;
		uint8_t *room = work + snap_thread_plan_work();

		area->plan_work = (struct snap_region){ work, room };
		area->plan_room = (struct snap_region){ room, room + SNAP_THREAD_PLAN_ROOM };
		area->plan.thread = *thread;
		snap_thread_plan_set(&area->plan, plan);
	}
	status = call_worker(reader, area, execute_plan, SNAP_READER_STACK_MS);
	if (status)
		return status;
	snap_plan_finish(&area->plan.image, area->plan_room.next, area->plan_room.end);
	*ret = &area->plan.image;
	return 0;
}

void snap_reader_set_runtimes(struct snap_reader *reader, unsigned wanted)
{
	reader->runtimes = wanted;
}

struct stacksnap_error *snap_reader_space(
	struct snap_reader *reader, const struct snap_reader_target *target, uint64_t taken,
	struct stacksnap_error *(*use)(void *context, const struct snap_space *, unsigned runtimes),
	void *context, int *error_ret)
{
	struct area *area = begin_call(reader, target);
	struct stacksnap_error *err = NULL;
	uint8_t *page;

	if (area) {
		area->taken = taken;
		area->wanted = reader->runtimes;
	}
	*error_ret = call_worker(reader, area, read_space, SNAP_READER_SPACE_MS);
	if (*error_ret == 0)
		err = use(context, &area->space, area->runtimes);
	/* Nobody needs it any more, and there may be much of it. */
	if (*error_ret != -ETIMEDOUT) {
		page = (uint8_t *)(((uintptr_t)area->bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
		madvise(page, SPACE_BYTES - PAGE, MADV_REMOVE);
	}
	return err;
}
