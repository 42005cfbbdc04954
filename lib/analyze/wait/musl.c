/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Objects of musl on 64-bit machines: src/internal/pthread_impl.h and stdio_impl.h of musl 1.2.3.
 *
 * Plain mutexes, read-write locks and semaphores keep no owner. Each waiter of a condition sleeps
 * on a word of its own stack, so two of them share no address.
 */
#include "analyze/wait/futex.h"

enum {
	TYPE_KIND = 3, /* bits of _m_type */
	TYPE_ROBUST = 4,
	TYPE_PI = 8,
	TYPE_SHARED = 128,
	TYPES = TYPE_KIND | TYPE_ROBUST | TYPE_PI | TYPE_SHARED,
	LOCK_TID = 0x3fffffff,
	LOCK_OWNER_DIED = 0x40000000,
	LOCK_WITHOUT_OWNER = 0x10, /* EBUSY: of a plain mutex */
	RWLOCK_COUNT = 0x7fffffff,
	FILE_TID = 0x3fffffff,
	BARRIER_CLOSED = 2,
	MOST_WAITERS = 1 << 20,
	PTHREAD_DETACH_STATE = 56,
};

struct mutex {
	uint32_t type, lock, waiters;
};

static bool keeps_musl_owner(const struct mutex *mutex)
{
	return mutex->type & (TYPE_KIND | TYPE_ROBUST | TYPE_PI);
}

static bool read_musl_mutex(const struct snap_futex *futex, struct mutex *ret)
{
	if (!snap_futex_read(futex, futex->address - 4, ret, sizeof(*ret)) ||
	    ret->type & ~(uint32_t)TYPES || ret->waiters > MOST_WAITERS || !(ret->lock & LOCK_TID))
		return false;
	return keeps_musl_owner(ret) || (ret->lock & LOCK_TID) == LOCK_WITHOUT_OWNER;
}

/* The kernel counts the threads that wait for a PI mutex. */
static bool is_waited_for(const struct mutex *mutex)
{
	return mutex->waiters > 0 || mutex->type & TYPE_PI;
}

static const char *variant_of_musl(const struct mutex *mutex)
{
	static const char *const kinds[] = { NULL, "recursive", "errorcheck", NULL };

	if (mutex->type & TYPE_ROBUST)
		return "robust";
	return mutex->type & TYPE_PI ? "pi" : kinds[mutex->type & TYPE_KIND];
}

static struct stacksnap_error *explain_musl_mutex(struct snap_futex *futex,
						  const struct mutex *mutex,
						  enum snap_wait_confidence confidence)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_MUTEX, futex->address - 4, confidence);

	SNAP_TRY(snap_no_memory_unless(wait));
	wait->variant = keeps_musl_owner(mutex) ? variant_of_musl(mutex) : "musl";
	if (keeps_musl_owner(mutex))
		wait->owner_word =
			(struct snap_owner_word){ futex->address, SNAP_OWNER_FORM_MASKED };
	if (mutex->lock & LOCK_OWNER_DIED) {
		wait->owner_lack = SNAP_OWNER_DIED;
		wait->owner.tid = (pid_t)(mutex->lock & LOCK_TID);
	} else if (keeps_musl_owner(mutex)) {
		futex->can_be_overtaken = mutex->type & (TYPE_ROBUST | TYPE_PI);
		(void)snap_futex_own_by_tid(futex, wait, mutex->lock & LOCK_TID);
	}
	return NULL;
}

/* A mutex by its name, whose words have changed or cannot be read; or a PI mutex refused. */
static struct stacksnap_error *explain_unclear_mutex(struct snap_futex *futex)
{
	bool is_refused = futex->value == 0 && snap_futex_is_on_own_stack(futex, futex->address);
	struct snap_wait *wait = snap_futex_wait(futex, SNAP_WAIT_MUTEX,
						 is_refused ? futex->address : futex->address - 4,
						 SNAP_WAIT_IS_LIKELY);

	SNAP_TRY(snap_no_memory_unless(wait));
	wait->owner_lack = is_refused ? SNAP_OWNER_REFUSED : SNAP_OWNER_UNREADABLE;
	if (is_refused) {
		wait->variant = "pi";
		wait->address = 0; /* the word is no lock's */
	}
	return NULL;
}

static struct stacksnap_error *explain_musl_rwlock(struct snap_futex *futex)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_RWLOCK, futex->address, SNAP_WAIT_IS_CERTAIN);
	uint32_t word;

	SNAP_TRY(snap_no_memory_unless(wait));
	wait->variant = "musl";
	wait->mode = futex->names.name == SNAP_NAME_RWLOCK_READ ? SNAP_WAIT_READ : SNAP_WAIT_WRITE;
	if (snap_futex_read(futex, futex->address, &word, sizeof(word)) &&
	    (word & RWLOCK_COUNT) <= MOST_WAITERS)
		wait->readers = word & RWLOCK_COUNT;
	return NULL;
}

static struct stacksnap_error *explain_musl_semaphore(struct snap_futex *futex)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_SEMAPHORE, futex->address, SNAP_WAIT_IS_CERTAIN);
	int32_t words[2]; /* value or -1, waiters */

	SNAP_TRY(snap_no_memory_unless(wait));
	if (!snap_futex_read(futex, futex->address, words, sizeof(words)))
		return NULL;
	wait->value = words[0] > 0 ? words[0] : 0;
	if (words[1] >= 0 && words[1] <= MOST_WAITERS)
		wait->waiters = words[1];
	return NULL;
}

/*
 * struct waiter of src/thread/pthread_cond_timedwait.c: two pointers, its state, which is 0 while
 * it waits, and the word.
 */
static bool is_condition(const struct snap_futex *futex)
{
	uint32_t state;

	return futex->value == BARRIER_CLOSED && futex->address % 8 == 4 &&
	       snap_futex_is_on_own_stack(futex, futex->address) &&
	       snap_futex_read(futex, futex->address - 4, &state, sizeof(state)) && state == 0;
}

/* The word is the waiter's own, unless the condition is shared. */
static struct stacksnap_error *explain_musl_condition(struct snap_futex *futex,
						      enum snap_wait_confidence confidence)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_CONDITION, futex->address, confidence);

	SNAP_TRY(snap_no_memory_unless(wait));
	if (snap_futex_is_on_own_stack(futex, futex->address))
		wait->address = 0;
	return NULL;
}

static struct stacksnap_error *explain_musl_stdio(struct snap_futex *futex)
{
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_STDIO, futex->address, SNAP_WAIT_IS_CERTAIN);
	uint32_t word;

	SNAP_TRY(snap_no_memory_unless(wait));
	wait->owner_word = (struct snap_owner_word){ futex->address, SNAP_OWNER_FORM_MASKED };
	if (snap_futex_read(futex, futex->address, &word, sizeof(word)))
		(void)snap_futex_own_by_tid(futex, wait, word & FILE_TID);
	else
		wait->owner_lack = SNAP_OWNER_UNREADABLE;
	return NULL;
}

static struct stacksnap_error *explain_plain(struct snap_futex *futex, enum snap_wait_kind kind)
{
	return snap_no_memory_unless(
		snap_futex_wait(futex, kind, futex->address, SNAP_WAIT_IS_CERTAIN));
}

/* The word lies in the other thread's struct pthread, to which its thread pointer leads. */
static struct snap_waiter *find_musl_joined(const struct snap_futex *futex)
{
	struct snap_waiter *thread = snap_waiter_by_thread_pointer(
		futex->waits, futex->waiter->process, futex->address - PTHREAD_DETACH_STATE);

	return thread != futex->waiter ? thread : NULL;
}

static struct stacksnap_error *explain_musl_join(struct snap_futex *futex,
						 enum snap_wait_confidence confidence)
{
	struct snap_waiter *thread = find_musl_joined(futex);
	struct snap_wait *wait =
		snap_futex_wait(futex, SNAP_WAIT_THREAD, futex->address - PTHREAD_DETACH_STATE,
				thread ? confidence : SNAP_WAIT_IS_LIKELY);

	SNAP_TRY(snap_no_memory_unless(wait));
	snap_futex_own_if_seen(futex, wait, thread);
	return NULL;
}

bool snap_musl_fits(const struct snap_futex *futex)
{
	struct mutex mutex;
	uint32_t behind[2];

	if (futex->names.libc != SNAP_LIBC_UNKNOWN)
		return futex->names.libc == SNAP_LIBC_MUSL;
	/* What is the owner in glibc's mutexes is nothing in musl's. */
	return find_musl_joined(futex) || is_condition(futex) ||
	       (read_musl_mutex(futex, &mutex) && is_waited_for(&mutex) &&
		snap_futex_read(futex, futex->address + 8, behind, sizeof(behind)) &&
		behind[0] == 0 && behind[1] == 0);
}

struct stacksnap_error *snap_musl_explain(struct snap_futex *futex)
{
	struct mutex mutex;

	switch (futex->names.name) {
	case SNAP_NAME_MUTEX:
	case SNAP_NAME_COND_LOCK:
		return read_musl_mutex(futex, &mutex)
			       ? explain_musl_mutex(futex, &mutex, SNAP_WAIT_IS_CERTAIN)
			       : explain_unclear_mutex(futex);
	case SNAP_NAME_CONDITION:
		return !snap_futex_is_on_own_stack(futex, futex->address) &&
				       read_musl_mutex(futex, &mutex)
			       ? explain_musl_mutex(futex, &mutex, SNAP_WAIT_IS_LIKELY)
			       : explain_musl_condition(futex, SNAP_WAIT_IS_CERTAIN);
	case SNAP_NAME_RWLOCK_READ:
	case SNAP_NAME_RWLOCK_WRITE:
		return explain_musl_rwlock(futex);
	case SNAP_NAME_SEMAPHORE:
		return explain_musl_semaphore(futex);
	case SNAP_NAME_JOIN:
		return explain_musl_join(futex, SNAP_WAIT_IS_CERTAIN);
	case SNAP_NAME_BARRIER:
		return explain_plain(futex, SNAP_WAIT_BARRIER);
	case SNAP_NAME_ONCE:
		return explain_plain(futex, SNAP_WAIT_ONCE);
	case SNAP_NAME_STDIO:
		return explain_musl_stdio(futex);
	case SNAP_NAME_MALLOC:
		return explain_plain(futex, SNAP_WAIT_MALLOC);
	case SNAP_NAME_NONE:
	case SNAP_NAME_SYSCALL:
		return NULL;
	}
	return NULL;
}

struct stacksnap_error *snap_musl_explain_data(struct snap_futex *futex)
{
	struct mutex mutex;

	if (!snap_musl_fits(futex))
		return NULL;
	if (find_musl_joined(futex))
		return explain_musl_join(futex, SNAP_WAIT_IS_LIKELY);
	if (snap_futex_is_of_others(futex))
		return NULL;
	if (is_condition(futex))
		return explain_musl_condition(futex, SNAP_WAIT_IS_LIKELY);
	if (!read_musl_mutex(futex, &mutex) || !is_waited_for(&mutex))
		return NULL;
	if (keeps_musl_owner(&mutex) && !snap_futex_find_owner(futex, mutex.lock & LOCK_TID))
		return NULL;
	return explain_musl_mutex(futex, &mutex, SNAP_WAIT_IS_LIKELY);
}
