/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The reader, seen from its caller: see reader.h. */
#include "sample/reader/area.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	MOST_ASLEEP_MS = 100, /* of any patience, by a process's will */
	LIST_PATIENCE = 5,    /* times that of one thread, for a list */
};

/* Of one thread, of a list, and of threads whose calls are known. */
static const size_t CONTEXT_ROOMS = 1 + 2 * (size_t)SNAP_READER_MOST;
static const size_t MOST_BYTES = ((size_t)1 << 30) - (64 << 20);

struct snap_reader {
	struct snap_workers pool;
	int root_fd; /* a descriptor of our own */
	size_t most;
	unsigned runtimes;                  /* wanted */
	struct snap_reading_area *answered; /* by the last call that located a thread; NULL: none */
	struct snap_reading_area *listed;   /* has the answers to the last list; NULL: none */
	/* has what lay beside threads whose calls were known; NULL: none */
	struct snap_reading_area *called;
	int64_t context_left; /* reads */
	bool wants_bpf;
	bool late_context; /* the last call was late, and was at what lies beside a stack */
};

struct stacksnap_error *snap_reader_new(const struct snap_procfs *procfs, size_t most,
					struct snap_reader **ret)
{
	struct snap_reader *reader = calloc(1, sizeof(*reader));
	size_t bytes = most < SNAP_READING_SPACE_BYTES ? SNAP_READING_SPACE_BYTES
		       : most < MOST_BYTES             ? most
						       : MOST_BYTES;
	int error;

	SNAP_TRY(snap_no_memory_unless(reader));
	reader->most = bytes;
	reader->root_fd = fcntl(procfs->root_fd, F_DUPFD_CLOEXEC, 0);
	error = reader->root_fd < 0 ? errno : 0;
	if (!error)
		error = snap_workers_init(
			&reader->pool,
			sizeof(struct snap_reading_area) + bytes +
				(size_t)SNAP_READER_MOST * SNAP_READING_LIST_STACK +
				snap_thread_plan_work() + SNAP_THREAD_PLAN_ROOM +
				CONTEXT_ROOMS * SNAP_WAIT_CONTEXT_ROOM,
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
static struct snap_reading_area *begin_call(struct snap_reader *reader,
					    const struct snap_reader_target *target)
{
	struct snap_reading_area *area = snap_workers_area(&reader->pool);

	reader->answered = NULL;
	reader->late_context = false;
	if (area != reader->listed)
		reader->listed = NULL;
	if (area != reader->called)
		reader->called = NULL;
	if (!area)
		return NULL;
	area->root_fd = reader->root_fd;
	area->context_left = reader->context_left;
	area->wants_bpf = reader->wants_bpf;
	area->target = *target;
	area->location = (struct snap_reading_location){ .question.target = *target };
	return area;
}

static int call_worker(struct snap_reader *reader, struct snap_reading_area *area,
		       void (*run)(void *area, uint32_t item), int64_t patience_ms)
{
	struct snap_work work = { .run = run, .patience_ns = patience_ms * SNAP_NS_PER_MS };

	work.asleep_ns = snap_workers_patience(&reader->pool, MOST_ASLEEP_MS * SNAP_NS_PER_MS);
	if (area && (run == snap_reading_list || run == snap_reading_callers)) {
		work.signs = &area->list_sign_ns;
		work.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + LIST_PATIENCE * work.patience_ns;
	}
	if (area && snap_workers_call(&reader->pool, &work)) {
		reader->context_left = area->context_left;
		return area->status;
	}
	reader->late_context = area && __atomic_load_n(&area->at_context, __ATOMIC_ACQUIRE);
	reader->listed = reader->called = NULL;
	return -ETIMEDOUT;
}

int snap_reader_stat(struct snap_reader *reader, pid_t pid, pid_t tid, struct snap_stat *ret)
{
	const struct snap_reader_target target = { .pid = pid, .tid = tid };
	struct snap_reading_area *area = begin_call(reader, &target);
	int status = call_worker(reader, area, snap_reading_stat, SNAP_READER_STACK_MS);

	if (status == 0)
		*ret = area->stat;
	return status;
}

int snap_reader_try(struct snap_reader *reader, const struct snap_reader_target *target)
{
	struct snap_reading_area *area = begin_call(reader, target);

	return call_worker(reader, area, snap_reading_try, SNAP_READER_STACK_MS);
}

/* Behind all else that the area has. */
static struct snap_region context_room(const struct snap_reader *reader,
				       struct snap_reading_area *area, size_t from, size_t count)
{
	uint8_t *room =
		area->bytes + reader->most + (size_t)SNAP_READER_MOST * SNAP_READING_LIST_STACK +
		snap_thread_plan_work() + SNAP_THREAD_PLAN_ROOM + from * SNAP_WAIT_CONTEXT_ROOM;

	return (struct snap_region){ room, room + count * SNAP_WAIT_CONTEXT_ROOM };
}

int snap_reader_locate(struct snap_reader *reader, const struct snap_reader_question *question,
		       size_t most, struct snap_syscall_line *ret)
{
	struct snap_reading_area *area = begin_call(reader, &question->target);
	int status;

	if (area) {
		area->location.question = *question;
		area->location.most = (most < reader->most ? most : reader->most) & ~(size_t)15;
		area->context_room = context_room(reader, area, 0, 1);
	}
	status = call_worker(reader, area, snap_reading_location, SNAP_READER_STACK_MS);
	if (status)
		return status;
	*ret = area->location.line;
	reader->answered = area;
	return 0;
}

int snap_reader_open_bpf(struct snap_reader *reader)
{
	const struct snap_reader_target none = { .pid = 0 };
	struct snap_reading_area *area = begin_call(reader, &none);
	int status = call_worker(reader, area, snap_reading_open_bpf, SNAP_READER_SPACE_MS);

	/* A worker that comes after this one loads it again. */
	reader->wants_bpf = status == 0;
	return status;
}

static const struct snap_bpf_thread *registers_at(const struct snap_reading_location *location)
{
	return location && location->registers.registers_size ? &location->registers : NULL;
}

const struct snap_bpf_thread *snap_reader_registers_of(const struct snap_reader *reader,
						       size_t index)
{
	return registers_at(reader->listed ? &reader->listed->list[index] : NULL);
}

const struct snap_bpf_thread *snap_reader_registers(const struct snap_reader *reader)
{
	return registers_at(reader->answered ? &reader->answered->location : NULL);
}

int snap_reader_check_switches(struct snap_reader *reader, const struct snap_reader_target *target,
			       uint64_t switches)
{
	struct snap_reading_area *area = begin_call(reader, target);

	if (area)
		area->switches = switches;
	return call_worker(reader, area, snap_reading_switches, SNAP_READER_STACK_MS);
}

void snap_reader_set_context_most(struct snap_reader *reader, int64_t most)
{
	reader->context_left = most;
}

const struct snap_wait_context *snap_reader_context(const struct snap_reader *reader)
{
	return reader->answered ? &reader->answered->location.context : NULL;
}

bool snap_reader_context_was_late(const struct snap_reader *reader)
{
	return reader->late_context;
}

/* ---- lists ---- */

/* SIZE_MAX: it had not begun. */
static size_t late_item(const struct snap_reading_area *area, size_t count)
{
	uint32_t at = __atomic_load_n(&area->list_at, __ATOMIC_ACQUIRE);

	return at < count ? at : SIZE_MAX;
}

int snap_reader_locate_all(struct snap_reader *reader, const struct snap_reader_question *questions,
			   size_t count, size_t *late_ret)
{
	struct snap_reading_area *area = begin_call(reader, &questions[0].target);
	int status;

	*late_ret = SIZE_MAX;
	if (!area)
		return -ETIMEDOUT;
	area->list_count = (uint32_t)count;
	area->list_at = UINT32_MAX;
	area->level = snap_priority_level();
	area->list_bytes = area->bytes + reader->most;
	area->context_room = context_room(reader, area, 1, count);
	for (size_t i = 0; i < count; i++)
		area->list[i] = (struct snap_reading_location){ .question = questions[i],
								.most = SNAP_READING_LIST_STACK };
	status = call_worker(reader, area, snap_reading_list, SNAP_READER_STACK_MS);
	if (status) {
		*late_ret = late_item(area, count);
		return status;
	}
	reader->listed = area;
	return 0;
}

int snap_reader_located(const struct snap_reader *reader, size_t index,
			struct snap_syscall_line *ret)
{
	const struct snap_reading_location *location =
		reader->listed ? &reader->listed->list[index] : NULL;

	if (!location)
		return -ENODATA;
	*ret = location->line;
	return location->status;
}

const struct snap_wait_context *snap_reader_context_of(const struct snap_reader *reader,
						       size_t index)
{
	return reader->listed ? &reader->listed->list[index].context : NULL;
}

int snap_reader_read_context(struct snap_reader *reader, const struct snap_reader_caller *callers,
			     size_t count, size_t *late_ret)
{
	struct snap_reading_area *area = begin_call(reader, &callers[0].target);
	int status;

	*late_ret = SIZE_MAX;
	reader->called = NULL;
	if (!area)
		return -ETIMEDOUT;
	area->caller_count = (uint32_t)count;
	area->list_at = UINT32_MAX;
	area->level = snap_priority_level();
	area->context_room = context_room(reader, area, 1 + SNAP_READER_MOST, count);
	memcpy(area->callers, callers, count * sizeof(*callers));
	status = call_worker(reader, area, snap_reading_callers, SNAP_READER_STACK_MS);
	if (status)
		*late_ret = late_item(area, count);
	else
		reader->called = area;
	return status;
}

const struct snap_wait_context *snap_reader_context_called(const struct snap_reader *reader,
							   size_t index)
{
	return reader->called ? &reader->called->called[index] : NULL;
}

bool snap_reader_has_read(const struct snap_reader *reader, size_t index, uint64_t address,
			  uint8_t *bytes, size_t size, size_t *got_ret)
{
	const struct snap_reading_location *location =
		reader->listed ? &reader->listed->list[index] : NULL;

	if (!location || !location->got || location->address != address || location->asked != size)
		return false;
	memcpy(bytes, reader->listed->list_bytes + index * SNAP_READING_LIST_STACK, location->got);
	*got_ret = location->got;
	return true;
}

/* ---- memory ---- */

static bool has_answer(const struct snap_reader *reader, const struct snap_reader_target *target,
		       uint64_t address, size_t size)
{
	const struct snap_reading_location *location =
		reader->answered ? &reader->answered->location : NULL;

	return location && location->got && location->address == address &&
	       location->asked == size && location->question.target.tid == target->tid &&
	       location->question.target.pid == target->pid;
}

ssize_t snap_reader_read(struct snap_reader *reader, const struct snap_reader_target *target,
			 uint64_t address, uint8_t *bytes, size_t size)
{
	struct snap_reading_area *area = reader->answered;
	int status;

	size = size < reader->most ? size : reader->most;
	if (!has_answer(reader, target, address, size)) {
		area = begin_call(reader, target);
		if (area) {
			area->location.address = address;
			area->location.asked = size;
		}
		status = call_worker(reader, area, snap_reading_bytes, SNAP_READER_STACK_MS);
		if (status)
			return status;
	}
	memcpy(bytes, area->bytes, area->location.got);
	return (ssize_t)area->location.got;
}

int snap_reader_read_bytes(struct snap_reader *reader, const struct snap_reader_target *target,
			   struct snap_sampled_bytes *words, size_t count)
{
	struct snap_reading_area *area = begin_call(reader, target);
	const uint8_t *bytes;
	int status;

	if (area) {
		area->piece_count = (uint32_t)count;
		for (size_t i = 0; i < count; i++)
			area->pieces[i] =
				(struct snap_reading_piece){ words[i].address, words[i].size, 0 };
	}
	status = call_worker(reader, area, snap_reading_pieces, SNAP_READER_STACK_MS);
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
	struct snap_reading_area *area = begin_call(reader, target);
	int status;

	if (area) {
		uint8_t *work = area->bytes + reader->most +
				(size_t)SNAP_READER_MOST * SNAP_READING_LIST_STACK;
		uint8_t *room = work + snap_thread_plan_work();

		area->plan_work = (struct snap_region){ work, room };
		area->plan_room = (struct snap_region){ room, room + SNAP_THREAD_PLAN_ROOM };
		area->plan.thread = *thread;
		snap_thread_plan_set(&area->plan, plan);
	}
	status = call_worker(reader, area, snap_reading_plan, SNAP_READER_STACK_MS);
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

struct stacksnap_error *
snap_reader_space(struct snap_reader *reader, const struct snap_reader_target *target,
		  uint64_t taken,
		  struct stacksnap_error *(*use)(void *context, const struct snap_reader_space *),
		  void *context, int *error_ret)
{
	struct snap_reading_area *area = begin_call(reader, target);
	struct stacksnap_error *err = NULL;
	const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uint8_t *page;

	if (area) {
		area->taken = taken;
		area->wanted = reader->runtimes;
	}
	*error_ret = call_worker(reader, area, snap_reading_space, SNAP_READER_SPACE_MS);
	if (*error_ret == 0)
		err = use(context, &area->about);
	/* It is not needed any more, and there may be much of it. */
	if (*error_ret != -ETIMEDOUT) {
		page = (uint8_t *)snap_round_up((uintptr_t)area->bytes, size);
		madvise(page, SNAP_READING_SPACE_BYTES - size, MADV_REMOVE);
	}
	return err;
}
