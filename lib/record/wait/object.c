/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a thread waits with: see object.h. A row of model/wait/call.h says where a call's arguments
 * lead; here stands which of them say for what it waits.
 */
#include "record/wait/object.h"

#include "base/bytes.h"
#include "model/wait/call.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>

enum {
	WAITV_BYTES = 24, /* struct futex_waitv: value, address, flags, reserved */
	SETS = 3,
	SET_WORD_BITS = 64,
	MOST_TID = 1 << 22, /* PID_MAX_LIMIT (linux/threads.h) */
	CEILING_SHIFT = 19, /* of mutexes with a priority ceiling (nptl/pthreadP.h) */
	/* Of futexes: any value that is no small one, with bit 0 and without. */
	VALUE_ODD = 5,
	VALUE_EVEN = 4,
	SOME_LIMIT = 1, /* of time, in ms; no address */
	CALL_CREAT = 85,
	CALL_OPENAT2 = 437,
};

/* ---- memory ---- */

struct source {
	const struct snap_thread *copy;
	const struct snap_memory_image *words;
};

/* How many of the bytes of a piece lie at an address, at most; they are copied. */
static size_t take_of(uint64_t start, const uint8_t *bytes, uint64_t length, uint64_t address,
		      uint8_t *ret, size_t size)
{
	if (!bytes || address < start || address - start >= length)
		return 0;
	length -= address - start;
	if (size > length)
		size = (size_t)length;
	memcpy(ret, bytes + (address - start), size);
	return size;
}

static size_t take_some(const struct source *source, uint64_t address, uint8_t *ret, size_t size)
{
	const struct snap_thread *copy = source->copy;
	size_t got =
		take_of(copy->stack_address, copy->stack, copy->stack_size, address, ret, size);

	if (!got)
		got = take_of(copy->stack2_address, copy->stack2, copy->stack2_size, address, ret,
			      size);
	for (size_t i = 0; source->words && i < source->words->piece_count && !got; i++) {
		const struct snap_memory_piece *piece = &source->words->pieces[i];

		got = take_of(piece->address, piece->bytes, piece->size, address, ret, size);
	}
	return got;
}

/* From its first byte on, without a gap; how many. */
static size_t take_bytes(const struct source *source, uint64_t address, uint8_t *ret, size_t size)
{
	size_t at = 0, got;

	while (at < size) {
		got = take_some(source, address + at, ret + at, size - at);
		if (!got)
			break;
		at += got;
	}
	return at;
}

void snap_futex_bytes_init(struct snap_futex_bytes *words, uint64_t address)
{
	struct snap_wait_range all = snap_wait_range_of_futex(address);
	uint64_t rest = SNAP_PAGE - all.address % SNAP_PAGE;
	uint32_t first = rest < all.size ? (uint32_t)rest : all.size;

	words->address = address;
	words->ranges[0] = (struct snap_wait_range){ all.address, first };
	words->ranges[1] = (struct snap_wait_range){ all.address + first, all.size - first };
	words->count = all.size > first ? 2 : 1;
	words->got[0] = words->got[1] = 0;
}

bool snap_futex_bytes_piece(const struct snap_futex_bytes *words, struct snap_memory_piece *ret)
{
	const struct snap_wait_range *ranges = words->ranges;
	uint64_t offset;

	if (words->got[0] == ranges[0].size)
		*ret = (struct snap_memory_piece){ ranges[0].address,
						   (uint64_t)words->got[0] + words->got[1],
						   words->bytes };
	else
		*ret = (struct snap_memory_piece){ ranges[1].address, words->got[1],
						   words->bytes + ranges[0].size };
	offset = words->address - ret->address;
	return words->address >= ret->address && ret->size >= sizeof(uint32_t) &&
	       offset <= ret->size - sizeof(uint32_t);
}

/* ---- pieces of an object ---- */

/* The next bytes of its memory; they lie behind those that there are. */
static uint8_t *next_bytes(struct snap_taken_object *taken)
{
	return taken->bytes + taken->words.bytes;
}

static void add_object_piece(struct snap_taken_object *taken, uint64_t address, size_t size)
{
	if (!size || taken->words.piece_count == SNAP_OBJECT_PIECES)
		return;
	taken->pieces[taken->words.piece_count++] =
		(struct snap_memory_piece){ address, size, next_bytes(taken) };
	taken->words.bytes += size;
}

/* How many bytes could be had; they are not added yet. */
static size_t read_next_number(const struct source *source, struct snap_taken_object *taken,
			       uint64_t address, uint64_t size)
{
	size_t room = sizeof(taken->bytes) - (size_t)taken->words.bytes;

	return take_bytes(source, address, next_bytes(taken), size < room ? (size_t)size : room);
}

static void add_futex(const struct source *source, struct snap_taken_object *taken,
		      uint64_t address)
{
	struct snap_memory_piece piece;
	struct snap_futex_bytes words;
	uint8_t *bytes = words.bytes;

	snap_futex_bytes_init(&words, address);
	for (size_t i = 0; i < words.count; i++) {
		words.got[i] = (uint32_t)take_bytes(source, words.ranges[i].address, bytes,
						    words.ranges[i].size);
		bytes += words.ranges[i].size;
	}
	if (!snap_futex_bytes_piece(&words, &piece))
		return;
	memcpy(next_bytes(taken), piece.bytes, (size_t)piece.size);
	add_object_piece(taken, piece.address, (size_t)piece.size);
}

/* What has come already is no part of what is waited for. */
static void add_object_polled(const struct source *source, struct snap_taken_object *taken,
			      uint64_t count)
{
	uint64_t address = taken->object.call.arguments[0];
	uint8_t *bytes = next_bytes(taken);
	size_t got;

	if (count > SNAP_MAX_POLLED)
		count = SNAP_MAX_POLLED;
	got = read_next_number(source, taken, address, count * sizeof(struct pollfd));
	got -= got % sizeof(struct pollfd);
	for (size_t at = 0; at < got; at += sizeof(struct pollfd))
		memset(bytes + at + offsetof(struct pollfd, revents), 0, sizeof(short));
	add_object_piece(taken, address, got);
}

static void add_sets(const struct source *source, struct snap_taken_object *taken, uint32_t most)
{
	const uint64_t *arguments = taken->object.call.arguments;
	uint64_t size = (arguments[0] + SET_WORD_BITS - 1) / SET_WORD_BITS * (SET_WORD_BITS / 8);

	if (size > most)
		size = most;
	for (int i = 1; i <= SETS; i++)
		if (arguments[i])
			add_object_piece(taken, arguments[i],
					 read_next_number(source, taken, arguments[i], size));
}

/* Values are those of words that others change. */
static void add_vector(const struct source *source, struct snap_taken_object *taken,
		       const struct snap_wait_call_row *row)
{
	uint64_t count = taken->object.call.arguments[1], address = taken->object.call.arguments[0];
	uint8_t *bytes = next_bytes(taken);
	size_t got;

	if (count > row->most)
		count = row->most;
	got = read_next_number(source, taken, address, count * WAITV_BYTES);
	got -= got % WAITV_BYTES;
	for (size_t at = 0; at < got; at += WAITV_BYTES)
		memset(bytes + at, 0, sizeof(uint64_t));
	add_object_piece(taken, address, got);
}

/* Padding, and the pid that callers need not set (fcntl(2)), hold old bytes. */
static void add_lock(const struct source *source, struct snap_taken_object *taken)
{
	uint64_t address = taken->object.call.arguments[2];
	struct flock asked, lock;

	if (read_next_number(source, taken, address, sizeof(asked)) < sizeof(asked))
		return;
	memcpy(&asked, next_bytes(taken), sizeof(asked));
	memset(&lock, 0, sizeof(lock));
	lock.l_type = asked.l_type;
	lock.l_whence = asked.l_whence;
	lock.l_start = asked.l_start;
	lock.l_len = asked.l_len;
	memcpy(next_bytes(taken), &lock, sizeof(lock));
	add_object_piece(taken, address, sizeof(lock));
}

static void add_object_path(const struct source *source, struct snap_taken_object *taken,
			    const struct snap_wait_call_row *row)
{
	uint64_t address = taken->object.call.arguments[row->pointer];
	size_t got = read_next_number(source, taken, address, row->bytes);
	const uint8_t *end = got ? memchr(next_bytes(taken), '\0', got) : NULL;

	add_object_piece(taken, address, end ? (size_t)(end - next_bytes(taken)) + 1 : got);
}

static void add_object_array(const struct source *source, struct snap_taken_object *taken,
			     const struct snap_wait_call_row *row)
{
	const uint64_t *arguments = taken->object.call.arguments;
	uint64_t count = row->count >= 0 ? arguments[row->count] : 1, size;

	if (row->count >= 0 && count > row->most)
		count = row->most;
	size = count * row->bytes;
	add_object_piece(taken, arguments[row->pointer],
			 read_next_number(source, taken, arguments[row->pointer], size));
}

/* ---- arguments ---- */

/*
 * A futex word's value, of which analysis asks whether it is small, has the highest bit or bit 0,
 * is that of a mutex with a ceiling, or the number of a thread whose end is waited for.
 */
static uint64_t plain_value(uint32_t value, bool is_private)
{
	if (value <= 3 || (!is_private && value < MOST_TID))
		return value;
	if (value & FUTEX_WAITERS)
		return FUTEX_WAITERS;
	if (value >> CEILING_SHIFT && (value & ((1u << CEILING_SHIFT) - 1)) == 2)
		return value;
	return value & 1 ? VALUE_ODD : VALUE_EVEN;
}

/* Which clock a timeout is of does not matter. */
static void keep_futex(const uint64_t from[], uint64_t to[])
{
	to[0] = from[0];
	to[1] = (uint32_t)from[1] & ~(uint32_t)FUTEX_CLOCK_REALTIME;
	to[2] = plain_value((uint32_t)from[2], from[1] & FUTEX_PRIVATE_FLAG);
}

/* Whether there is a time limit, not which: an address that is none, a number that means none. */
static uint64_t plain_limit(enum snap_wait_limit limit, uint64_t argument)
{
	if (limit == SNAP_LIMIT_MILLISECONDS)
		return (int32_t)argument < 0 ? UINT32_MAX : SOME_LIMIT;
	return argument ? SOME_LIMIT : 0;
}

/* Of a futex, poll, nanosleep or clock_nanosleep: which, only the code tells. */
static void keep_restarted(const uint64_t from[], uint64_t to[])
{
	to[0] = from[0];
	if (from[1] <= UINT16_MAX) /* not an address */
		to[1] = from[1];
	if (from[1] == (FUTEX_WAIT | FUTEX_PRIVATE_FLAG)) {
		to[2] = plain_value((uint32_t)from[2], true);
		to[3] = plain_limit(SNAP_LIMIT_RELATIVE, from[3]);
		return;
	}
	to[2] = plain_limit(from[1] && from[1] <= SNAP_MAX_POLLED ? SNAP_LIMIT_MILLISECONDS
								  : SNAP_LIMIT_RELATIVE,
			    from[2]);
}

/* Those arguments that say for what; all others are 0. */
static void keep_arguments(const struct snap_wait_call_row *row,
			   const struct snap_thread_call *call, uint64_t to[])
{
	const uint64_t *from = call->arguments;
	bool waits = snap_wait_call_may_wait(row, call);

	for (int i = 0; i < SNAP_CALL_ARGUMENTS; i++) {
		if (row->ints >> i & 1 || i == row->fd || i == row->count)
			to[i] = (uint32_t)from[i];
		else if (row->longs >> i & 1 || (i == row->pointer && waits))
			to[i] = from[i];
		else if (i == row->timeout && row->limit != SNAP_LIMIT_NONE)
			to[i] = plain_limit(row->limit, from[i]);
	}
	if (row->call == SNAP_CALL_FUTEX)
		keep_futex(from, to);
	else if (row->call == SNAP_CALL_RESTART)
		keep_restarted(from, to);
	else if (row->call == SNAP_CALL_FLOCK)
		to[1] = from[1] & (1 | 2); /* LOCK_SH, LOCK_EX */
	else if (row->call == SNAP_CALL_FCNTL)
		to[1] = (uint32_t)from[1];
	else if (row->call == SNAP_CALL_OPEN && call->number != CALL_CREAT &&
		 call->number != CALL_OPENAT2)
		to[row->pointer + 1] = from[row->pointer + 1] & O_ACCMODE;
}

static bool is_futex(const struct snap_wait_call_row *row, const uint64_t arguments[])
{
	if (row->call == SNAP_CALL_RESTART)
		return arguments[1] == (FUTEX_WAIT | FUTEX_PRIVATE_FLAG);
	return row->call == SNAP_CALL_FUTEX;
}

/* ---- memory by call ---- */

static void add_object_words(const struct source *source, struct snap_taken_object *taken,
			     const struct snap_wait_call_row *row)
{
	const uint64_t *arguments = taken->object.call.arguments;

	if (taken->object.is_futex) {
		add_futex(source, taken, arguments[0]);
		return;
	}
	switch (row->call) {
	case SNAP_CALL_RESTART:
		if (arguments[1] && arguments[1] <= SNAP_MAX_POLLED)
			add_object_polled(source, taken, arguments[1]);
		break;
	case SNAP_CALL_POLL:
		add_object_polled(source, taken, arguments[1]);
		break;
	case SNAP_CALL_SELECT:
		add_sets(source, taken, row->bytes);
		break;
	case SNAP_CALL_FUTEX_WAITV:
		add_vector(source, taken, row);
		break;
	case SNAP_CALL_FCNTL:
		if (arguments[2])
			add_lock(source, taken);
		break;
	case SNAP_CALL_OPEN:
	case SNAP_CALL_STAT:
		add_object_path(source, taken, row);
		break;
	default:
		if (row->pointer >= 0)
			add_object_array(source, taken, row);
	}
}

/* The word lies on the waiter's own stack: then no other thread has it. */
static bool is_on_own_stack(const struct snap_process *process, uint64_t sp, uint64_t address)
{
	const struct snap_map *map =
		sp && address >= sp ? snap_process_map(process, address) : NULL;

	return map && sp >= map->start;
}

static void add_descriptors(const struct snap_sampled_thread *thread,
			    struct snap_taken_object *taken)
{
	size_t count = thread->descriptors ? thread->descriptor_count : 0;

	if (count > SNAP_LOG_MAX_OBJECT_DESCRIPTORS)
		count = SNAP_LOG_MAX_OBJECT_DESCRIPTORS;
	for (size_t i = 0; i < count; i++) {
		const struct snap_descriptor *from = &thread->descriptors[i];

		taken->descriptors[i] = (struct snap_descriptor){
			.number = from->number,
			.kind = from->kind,
			.readable = from->readable,
			.writable = from->writable,
			.link = from->link,
			.inode = from->inode,
			.remaining_ns = -1,
		};
	}
	taken->object.descriptors = count ? taken->descriptors : NULL;
	taken->object.descriptor_count = (uint32_t)count;
}

static bool waits(const struct snap_thread *copy)
{
	switch (copy->state) {
	case 'S':
	case 'D':
	case 'T':
	case 't':
		return copy->result == SNAP_THREAD_COPIED ||
		       copy->result == SNAP_THREAD_NOT_STOPPED;
	}
	return false;
}

bool snap_object_take(const struct snap_sampled_thread *thread, const struct snap_thread *copy,
		      uint32_t space, struct snap_taken_object *ret)
{
	const struct snap_process *process = thread->process->facts;
	struct snap_thread_call call = snap_wait_call_of(process->arch, copy);
	const struct source source = { copy, thread->words };
	const struct snap_wait_call_row *row;

	if (!waits(copy) || !call.known || call.number < 0)
		return false;
	row = snap_wait_call_row(process->arch, call.number);
	ret->object = (struct snap_log_object){
		.space = space,
		.call = { .known = true, .number = call.number },
		.is_futex = is_futex(row, call.arguments),
	};
	/* A stopped thread waits for its tracer, but a lock stays what it wants. */
	if ((copy->state == 'T' || copy->state == 't') && !ret->object.is_futex)
		return false;
	keep_arguments(row, &call, ret->object.call.arguments);
	ret->words = (struct snap_memory_image){ .pieces = ret->pieces };
	add_object_words(&source, ret, row);
	/* Not how deep it stands, which differs from wait to wait. */
	if (ret->object.is_futex && is_on_own_stack(process, call.sp, call.arguments[0]))
		ret->object.call.sp = call.arguments[0];
	add_descriptors(thread, ret);
	return true;
}
