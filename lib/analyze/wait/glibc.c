/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Objects of glibc on x86-64: where each begins, relative to the word of the wait, and the meaning
 * of its words. Layouts: sysdeps/nptl/bits/struct_mutex.h, struct_rwlock.h, thread-shared-types.h
 * and sysdeps/nptl/internaltypes.h of glibc 2.36, and 2.41 for conditions.
 */
#include "analyze/wait/futex.h"

#include <string.h>

enum {
	MUTEX_TYPE = 3, /* bits of __kind (nptl/pthreadP.h) */
	MUTEX_ROBUST = 0x10,
	MUTEX_PI = 0x20,
	MUTEX_PROTECT = 0x40,
	MUTEX_SHARED = 0x80,
	MUTEX_KINDS = 0x3f3,
	LOCK_TID = 0x3fffffff, /* FUTEX_TID_MASK */
	LOCK_OWNER_DIED = 0x40000000,
	LOCK_WAITERS = 0x80000000,
	PLAIN_WAITERS = 2,
	CEILING_SHIFT = 19,
	CONDITION_WORDS = 20,   /* bytes of struct condition_words */
	CONDITION_BYTES = 48,   /* of pthread_cond_t */
	STACK_LOOK = 1024,      /* of a frame of pthread_cond_wait, from sp on */
	MOST_WAITERS = 1 << 20, /* believed */
	READERS_SHIFT = 3,
	READERS_WRITE_PHASE = 1,
	READERS_WRITE_LOCKED = 2,
	PTHREAD_TID = 720, /* in struct pthread, whose address is the thread pointer */
	PTHREAD_ALIGNMENT = 64,
	PTHREAD_MOST = 4096, /* more than struct pthread has bytes (2304) */
	THREAD_EXITING = 1,  /* states since 2.43, in which the end of a thread can be waited for */
	THREAD_JOINABLE = 2,
	MUTEX_OWNER = 8,    /* __owner; the kernel writes the other one itself */
	RWLOCK_WRITER = 24, /* __cur_writer */
};

struct mutex {
	uint32_t lock, count, owner, users, kind;
};

/* Whether the words can be a mutex that is waited for. */
static bool is_mutex(const struct mutex *mutex)
{
	if (mutex->kind & ~(uint32_t)MUTEX_KINDS)
		return false;
	if (!(mutex->kind & (MUTEX_ROBUST | MUTEX_PI)))
		return true;
	/* Between taking the word and noting the owner one of them is 0. */
	return (mutex->lock & LOCK_TID) == (mutex->owner & LOCK_TID) || mutex->owner == 0 ||
	       (mutex->lock & LOCK_TID) == 0 || mutex->lock & LOCK_OWNER_DIED;
}

static bool read_glibc_mutex(const struct snap_futex *futex, uint64_t address, struct mutex *ret)
{
	return snap_futex_read(futex, address, ret, sizeof(*ret)) && is_mutex(ret);
}

static const char *variant_of_glibc(const struct mutex *mutex)
{
	static const char *const types[] = { NULL, "recursive", "errorcheck", "adaptive" };

	if (mutex->kind & MUTEX_ROBUST)
		return "robust";
	if (mutex->kind & MUTEX_PI)
		return "pi";
	if (mutex->kind & MUTEX_PROTECT)
		return "protect";
	if (mutex->kind & MUTEX_TYPE)
		return types[mutex->kind & MUTEX_TYPE];
	return mutex->kind & MUTEX_SHARED ? "shared" : NULL;
}

/* Where the owner stands: of those that the kernel knows, in the word that it changes. */
static struct snap_owner_word owner_word_of(const struct snap_futex *futex, bool is_kernels)
{
	if (is_kernels)
		return (struct snap_owner_word){ futex->address, SNAP_OWNER_FORM_MASKED };
	return (struct snap_owner_word){ futex->address + MUTEX_OWNER, SNAP_OWNER_FORM_TID };
}

static void own_mutex(struct snap_futex *futex, struct snap_wait *wait, const struct mutex *mutex)
{
	wait->variant = variant_of_glibc(mutex);
	wait->owner_word = owner_word_of(futex, mutex->kind & (MUTEX_ROBUST | MUTEX_PI));
	if (mutex->kind & (MUTEX_ROBUST | MUTEX_PI) && mutex->lock & LOCK_OWNER_DIED) {
		wait->owner_lack = SNAP_OWNER_DIED;
		wait->owner.tid = (pid_t)(mutex->lock & LOCK_TID);
		return;
	}
	/* The kernel hands these over, by priority. */
	futex->can_be_overtaken = mutex->kind & (MUTEX_ROBUST | MUTEX_PI);
	/* The owner takes its name away first, then the lock. */
	(void)snap_futex_own_by_tid(futex, wait, mutex->lock ? mutex->owner : 0);
}

/*
 * A PI mutex that the kernel refuses, as it sees a deadlock, is slept on for ever, on a word of the
 * stack that is never woken. Which one it is stands somewhere behind that word.
 */
static struct stacksnap_error *explain_refused(struct snap_futex *futex)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_MUTEX, futex->address, SNAP_WAIT_IS_CERTAIN);
	uint64_t sp = futex->waiter->call.sp & ~7ull;

	SNAP_TRY(snap_no_memory_unless(wait));
	wait->variant = "pi";
	wait->address = 0; /* the word is no lock's */
	wait->owner_lack = SNAP_OWNER_REFUSED;
	for (uint64_t at = sp; at < sp + STACK_LOOK; at += 8) {
		struct mutex mutex;
		uint64_t address;

		if (!snap_futex_read(futex, at, &address, sizeof(address)) ||
		    snap_futex_is_on_own_stack(futex, address) ||
		    !read_glibc_mutex(futex, address, &mutex) || !(mutex.kind & MUTEX_PI) ||
		    !mutex.owner)
			continue;
		wait->address = address;
		break;
	}
	return NULL;
}

static struct stacksnap_error *explain_glibc_mutex(struct snap_futex *futex)
{
	struct snap_wait *wait;
	struct mutex mutex;
	bool is_pi = futex->op == SNAP_FUTEX_LOCK_PI || futex->op == SNAP_FUTEX_LOCK_PI2;

	if (!is_pi && futex->value == 0 && snap_futex_is_on_own_stack(futex, futex->address))
		return explain_refused(futex);
	wait = snap_futex_wait(futex, SNAP_WAIT_MUTEX, futex->address, SNAP_WAIT_IS_CERTAIN);
	SNAP_TRY(snap_no_memory_unless(wait));
	if (read_glibc_mutex(futex, futex->address, &mutex)) {
		own_mutex(futex, wait, &mutex);
		return NULL;
	}
	wait->owner_lack = SNAP_OWNER_UNREADABLE;
	wait->confidence = SNAP_WAIT_IS_LIKELY;
	wait->owner_word = owner_word_of(futex, is_pi);
	return NULL;
}

/* ---- conditions ---- */

/* From the word to the start: headers until 2.40 have __g_refs, later ones do not. */
static const uint64_t condition_starts[2][2] = { { 40, 32 }, { 44, 36 } };
static const uint64_t condition_waiters[2] = { 36, 28 }; /* __wrefs, in old ones and new ones */

/* A condition, its mutex and whether it is shared stand behind each other in its wait's frame. */
struct condition_words {
	uint64_t condition, mutex;
	uint32_t shared;
};

/* How well words of the stack fit; 0: not. Those of the mutex may not have been copied. */
static unsigned rank_condition(struct snap_futex *futex, const struct condition_words *words)
{
	struct mutex mutex;

	if (words->shared != 0 && words->shared != 1 && words->shared != MUTEX_SHARED)
		return 0;
	/*
	 * Registers that were saved may hold the condition and the word in it, and 0 behind them.
	 */
	if (words->mutex - words->condition < CONDITION_BYTES)
		return 0;
	if (words->mutex == 0 || words->mutex % 4 ||
	    !snap_process_map(snap_waiter_process(futex->waiter), words->mutex))
		return 0;
	if (!snap_futex_read(futex, words->mutex, &mutex, sizeof(mutex)))
		return snap_futex_is_on_own_stack(futex, words->mutex) ? 0 : 1;
	if (!is_mutex(&mutex) || (mutex.lock == 0) != (mutex.owner == 0))
		return 0;
	return mutex.owner == 0 || snap_futex_find_owner(futex, mutex.owner) ? 2 : 1;
}

/* Which of the starts stands on the stack, with a mutex if there is one; 2: none. */
static unsigned find_condition(struct snap_futex *futex, const uint64_t starts[2],
			       uint64_t *mutex_ret)
{
	uint64_t sp = futex->waiter->call.sp & ~7ull;
	unsigned found = 2, best = 0;

	*mutex_ret = 0;
	for (uint64_t at = sp; sp && at < sp + STACK_LOOK; at += 8) {
		struct condition_words words;
		unsigned which, rank = 0;

		if (!snap_futex_read(futex, at, &words.condition, sizeof(words.condition)))
			break;
		which = words.condition == starts[0] ? 0 : words.condition == starts[1] ? 1 : 2;
		if (which == 2)
			continue;
		if (found == 2)
			found = which;
		/* What is behind the three is padding. */
		if (snap_futex_read(futex, at, &words, CONDITION_WORDS))
			rank = rank_condition(futex, &words);
		if (rank > best) {
			best = rank;
			found = which;
			*mutex_ret = words.mutex;
		}
	}
	return found;
}

static struct stacksnap_error *explain_glibc_condition(struct snap_futex *futex)
{
	const uint64_t *distances = condition_starts[futex->address % 8 == 4];
	uint64_t starts[2] = { futex->address - distances[0], futex->address - distances[1] };
	enum snap_wait_confidence confidence = SNAP_WAIT_IS_CERTAIN;
	struct snap_wait *wait;
	struct mutex mutex;
	uint64_t mutex_address;
	unsigned which = find_condition(futex, starts, &mutex_address);
	uint32_t waiters;

	if (which == 2) {
		confidence = SNAP_WAIT_IS_LIKELY;
		which = 0;
	}
	wait = snap_futex_wait(futex, SNAP_WAIT_CONDITION, starts[which], confidence);
	SNAP_TRY(snap_no_memory_unless(wait));
	if (snap_futex_read(futex, starts[which] + condition_waiters[which], &waiters,
			    sizeof(waiters)) &&
	    waiters >> 3 <= MOST_WAITERS)
		wait->waiters = waiters >> 3;
	wait->mutex = mutex_address;
	if (mutex_address && read_glibc_mutex(futex, mutex_address, &mutex))
		wait->mutex_free = mutex.lock == 0 && mutex.owner == 0;
	return NULL;
}

/* ---- readers and writers ---- */

struct rwlock {
	uint32_t readers, writers, write_phase, writers_word, pad[2], writer, shared;
};

static void own_rwlock(struct snap_futex *futex, struct snap_wait *wait, const struct rwlock *lock)
{
	if (!(lock->readers & READERS_WRITE_PHASE)) {
		wait->readers = lock->readers >> READERS_SHIFT;
		wait->owner_lack = wait->readers ? SNAP_OWNER_NOT_KEPT : SNAP_OWNER_CHANGING;
		return;
	}
	/*
	 * Writers may be preferred to readers that came before (pthread_rwlockattr_setkind_np(3)).
	 */
	futex->can_be_overtaken = wait->mode != SNAP_WAIT_WRITE;
	(void)snap_futex_own_by_tid(futex, wait,
				    lock->readers & READERS_WRITE_LOCKED ? lock->writer : 0);
}

static struct stacksnap_error *explain_glibc_rwlock(struct snap_futex *futex)
{
	bool writes = futex->names.name == SNAP_NAME_RWLOCK_WRITE;
	uint64_t start = futex->address - 8;
	struct snap_wait *wait;
	struct rwlock lock;

	if (futex->address % 8 == 4)
		start = futex->address - 12;
	else if (futex->value > 3)
		start = futex->address;
	wait = snap_futex_wait(futex, SNAP_WAIT_RWLOCK, start, SNAP_WAIT_IS_CERTAIN);
	SNAP_TRY(snap_no_memory_unless(wait));
	if (futex->names.name != SNAP_NAME_NONE)
		wait->mode = writes ? SNAP_WAIT_WRITE : SNAP_WAIT_READ;
	/* Of readers it is 0. */
	wait->owner_word = (struct snap_owner_word){ start + RWLOCK_WRITER, SNAP_OWNER_FORM_TID };
	if (snap_futex_read(futex, start, &lock, sizeof(lock)) &&
	    lock.readers >> READERS_SHIFT <= MOST_WAITERS) {
		own_rwlock(futex, wait, &lock);
		return NULL;
	}
	wait->owner_lack = SNAP_OWNER_UNREADABLE;
	wait->confidence = SNAP_WAIT_IS_LIKELY;
	return NULL;
}

/* ---- semaphores, barriers, the ends of threads ---- */

static struct stacksnap_error *explain_glibc_semaphore(struct snap_futex *futex)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_SEMAPHORE, futex->address, SNAP_WAIT_IS_CERTAIN);
	uint32_t words[2]; /* value, waiters */

	SNAP_TRY(snap_no_memory_unless(wait));
	if (!snap_futex_read(futex, futex->address, words, sizeof(words)))
		return NULL;
	wait->value = words[0];
	if (words[1] <= MOST_WAITERS)
		wait->waiters = words[1];
	return NULL;
}

static struct stacksnap_error *explain_barrier(struct snap_futex *futex)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_BARRIER, futex->address - 4, SNAP_WAIT_IS_CERTAIN);
	uint32_t words[3]; /* in, current round, needed */

	SNAP_TRY(snap_no_memory_unless(wait));
	if (snap_futex_read(futex, futex->address - 4, words, sizeof(words)) &&
	    words[0] - words[1] <= words[2]) {
		wait->arrived = words[0] - words[1];
		wait->needed = words[2];
	}
	return NULL;
}

/* The thread whose end is waited for: the word is its tid, which the kernel clears. */
static struct snap_waiter *find_glibc_joined(const struct snap_futex *futex)
{
	struct snap_waiter *thread = snap_waiter_by_thread_pointer(
		futex->waits, futex->waiter->process, futex->address - PTHREAD_TID);

	if (!thread || futex->is_private ||
	    thread != snap_waiter_by_ns_tid(futex->waits, futex->waiter->process, futex->value))
		return NULL;
	return thread;
}

/*
 * Since glibc 2.43 the word is no tid, but a state of the thread (nptl/descr.h, joinstate),
 * somewhere in its descriptor.
 */
static struct stacksnap_error *explain_join_by_state(struct snap_futex *futex)
{
	uint64_t pointer = futex->address & ~(uint64_t)(PTHREAD_ALIGNMENT - 1);
	struct snap_waiter *thread = NULL;
	struct snap_wait *wait;

	for (size_t i = 0; i < PTHREAD_MOST / PTHREAD_ALIGNMENT && !thread && pointer; i++) {
		thread = snap_waiter_by_thread_pointer(futex->waits, futex->waiter->process,
						       pointer);
		if (!thread)
			pointer -= PTHREAD_ALIGNMENT;
	}
	wait = snap_futex_wait(futex, SNAP_WAIT_THREAD, thread ? pointer : futex->address,
			       thread ? SNAP_WAIT_IS_CERTAIN : SNAP_WAIT_IS_LIKELY);
	SNAP_TRY(snap_no_memory_unless(wait));
	snap_futex_own_if_seen(futex, wait, thread);
	return NULL;
}

static struct stacksnap_error *explain_glibc_join(struct snap_futex *futex)
{
	struct snap_waiter *thread = find_glibc_joined(futex);
	struct snap_wait *wait;

	if (!thread && (futex->value == THREAD_EXITING || futex->value == THREAD_JOINABLE))
		return explain_join_by_state(futex);
	wait = snap_futex_wait(futex, SNAP_WAIT_THREAD, futex->address - PTHREAD_TID,
			       thread ? SNAP_WAIT_IS_CERTAIN : SNAP_WAIT_IS_LIKELY);
	SNAP_TRY(snap_no_memory_unless(wait));
	wait->owner_word = (struct snap_owner_word){ futex->address, SNAP_OWNER_FORM_TID };
	if (thread)
		snap_futex_own(futex, wait, thread);
	else
		(void)snap_futex_own_by_tid(futex, wait, futex->value);
	return NULL;
}

/* ---- locks of the library itself ---- */

struct file_lock {
	uint32_t lock, count;
	uint64_t owner; /* thread pointer */
};

static struct stacksnap_error *explain_glibc_stdio(struct snap_futex *futex)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_STDIO, futex->address, SNAP_WAIT_IS_CERTAIN);
	struct file_lock lock;

	SNAP_TRY(snap_no_memory_unless(wait));
	if (!snap_futex_read(futex, futex->address, &lock, sizeof(lock))) {
		wait->owner_lack = SNAP_OWNER_UNREADABLE;
		wait->confidence = SNAP_WAIT_IS_LIKELY;
	} else {
		(void)snap_futex_own_by_pointer(futex, wait, lock.lock ? lock.owner : 0);
	}
	return NULL;
}

/* Whether malloc was interrupted by a signal whose handler calls it again. */
static bool looks_in_malloc_twice(const struct snap_futex *futex)
{
	const struct snap_raw_stack *stack = snap_waiter_stack(futex->waiter);
	bool is_behind_signal = false;

	for (size_t i = futex->names.outside; i < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];

		/* What a signal interrupted is no return address. */
		is_behind_signal |= snap_frame_record_of(frame)->bits >> 63;
		if (!is_behind_signal || !snap_wait_frame_is_libc(futex->waiter, frame))
			continue;
		for (size_t k = 0; k < frame->entry_count; k++) {
			const char *name = frame->entries[k].symbol;

			if (name && snap_futex_name_of(name, strlen(name)) == SNAP_NAME_MALLOC)
				return true;
		}
	}
	return false;
}

static bool is_in_malloc_twice(const struct snap_futex *futex)
{
	struct snap_wait_stack_names *seen = snap_waiter_stack_names(futex->waits, futex->waiter);

	if (seen->is_in_malloc_twice == SNAP_ANSWER_UNKNOWN)
		seen->is_in_malloc_twice =
			looks_in_malloc_twice(futex) ? SNAP_ANSWER_YES : SNAP_ANSWER_NO;
	return seen->is_in_malloc_twice == SNAP_ANSWER_YES;
}

static struct stacksnap_error *explain_malloc(struct snap_futex *futex)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_MALLOC, futex->address, SNAP_WAIT_IS_CERTAIN);

	SNAP_TRY(snap_no_memory_unless(wait));
	if (is_in_malloc_twice(futex)) {
		wait->variant = "signal handler";
		snap_futex_own(futex, wait, futex->waiter);
	}
	return NULL;
}

static struct stacksnap_error *explain_once(struct snap_futex *futex)
{
	return snap_no_memory_unless(
		snap_futex_wait(futex, SNAP_WAIT_ONCE, futex->address, SNAP_WAIT_IS_CERTAIN));
}

/* ---- the choice ---- */

/* What a mutex that is waited for has in its word, by its kind (nptl/pthread_mutex_lock.c). */
static bool is_mutex_value(const struct snap_futex *futex)
{
	uint32_t value = futex->value;

	return value == PLAIN_WAITERS || value & LOCK_WAITERS ||
	       (value >> CEILING_SHIFT && (value & ((1u << CEILING_SHIFT) - 1)) == PLAIN_WAITERS) ||
	       futex->op == SNAP_FUTEX_LOCK_PI || futex->op == SNAP_FUTEX_LOCK_PI2;
}

struct stacksnap_error *snap_glibc_explain(struct snap_futex *futex)
{
	switch (futex->names.name) {
	case SNAP_NAME_CONDITION:
		/* Before it returns it takes its mutex back. */
		if (futex->op == SNAP_FUTEX_WAIT && futex->value == PLAIN_WAITERS)
			return explain_glibc_mutex(futex);
		return explain_glibc_condition(futex);
	case SNAP_NAME_MUTEX:
	case SNAP_NAME_COND_LOCK:
		return explain_glibc_mutex(futex);
	case SNAP_NAME_RWLOCK_READ:
	case SNAP_NAME_RWLOCK_WRITE:
		return explain_glibc_rwlock(futex);
	case SNAP_NAME_SEMAPHORE:
		return explain_glibc_semaphore(futex);
	case SNAP_NAME_JOIN:
		return explain_glibc_join(futex);
	case SNAP_NAME_BARRIER:
		return explain_barrier(futex);
	case SNAP_NAME_ONCE:
		return explain_once(futex);
	case SNAP_NAME_STDIO:
		return explain_glibc_stdio(futex);
	case SNAP_NAME_MALLOC:
		return explain_malloc(futex);
	case SNAP_NAME_NONE:
	case SNAP_NAME_SYSCALL:
		return NULL;
	}
	return NULL;
}

/*
 * What the words of an object without a name can be: only what names a thread that lives, or
 * stands on the stack as a wait for a condition leaves it there.
 */
static bool is_owned_mutex(struct snap_futex *futex)
{
	struct mutex mutex;

	return is_mutex_value(futex) && read_glibc_mutex(futex, futex->address, &mutex) &&
	       mutex.lock != 0 && snap_futex_find_owner(futex, mutex.owner);
}

static bool is_owned_file(struct snap_futex *futex)
{
	struct file_lock lock;

	return futex->op == SNAP_FUTEX_WAIT && futex->is_private && futex->value == PLAIN_WAITERS &&
	       snap_futex_read(futex, futex->address, &lock, sizeof(lock)) &&
	       lock.lock == PLAIN_WAITERS && lock.count > 0 && lock.count <= MOST_WAITERS &&
	       snap_waiter_by_thread_pointer(futex->waits, futex->waiter->process, lock.owner);
}

static bool is_owned_rwlock(struct snap_futex *futex)
{
	uint64_t start = futex->address - (futex->address % 8 == 4 ? 12 : 8);
	struct rwlock lock;

	return futex->op == SNAP_FUTEX_WAIT_BITSET && futex->value > 0 && futex->value <= 3 &&
	       snap_futex_read(futex, start, &lock, sizeof(lock)) &&
	       (lock.readers & (READERS_WRITE_PHASE | READERS_WRITE_LOCKED)) == 3 &&
	       lock.readers >> READERS_SHIFT <= MOST_WAITERS && lock.write_phase <= 3 &&
	       lock.writers_word <= 3 && snap_futex_find_owner(futex, lock.writer);
}

static bool is_awaited_condition(struct snap_futex *futex)
{
	const uint64_t *distances = condition_starts[futex->address % 8 == 4];
	uint64_t starts[2] = { futex->address - distances[0], futex->address - distances[1] };
	uint64_t mutex;

	return futex->op == SNAP_FUTEX_WAIT_BITSET && futex->value == 0 &&
	       find_condition(futex, starts, &mutex) != 2 && mutex != 0;
}

struct stacksnap_error *snap_glibc_explain_data(struct snap_futex *futex)
{
	struct stacksnap_error *err = NULL;
	struct snap_wait *wait;

	if (futex->op == SNAP_FUTEX_WAIT_BITSET && find_glibc_joined(futex))
		return explain_glibc_join(futex);
	if (snap_futex_is_of_others(futex))
		return NULL;
	if (is_owned_mutex(futex))
		err = explain_glibc_mutex(futex);
	else if (is_owned_file(futex))
		err = explain_glibc_stdio(futex);
	else if (is_owned_rwlock(futex))
		err = explain_glibc_rwlock(futex);
	else if (is_awaited_condition(futex))
		err = explain_glibc_condition(futex);
	wait = futex->waiter->wait;
	if (wait && wait->confidence > SNAP_WAIT_IS_LIKELY)
		wait->confidence = SNAP_WAIT_IS_LIKELY;
	return err;
}
