/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files about futexes: the parts of the call, and what names say of it.
 *
 *     names     (frames inside the C library -> which of its functions waits)     names.c, callee.c
 *     object    (that, and words of memory -> mutex, condition, … and its start)  glibc.c, musl.c,
 *               (names of other languages -> the same)        language.c, gil.c, python_lock.c
 *     owner     (tid, thread pointer -> a thread of the report, and how sure)     owner.c
 */
#pragma once

#include "analyze/wait/waiter.h"

/* linux/futex.h */
enum snap_futex_op {
	SNAP_FUTEX_WAIT = 0,
	SNAP_FUTEX_LOCK_PI = 6,
	SNAP_FUTEX_WAIT_BITSET = 9,
	SNAP_FUTEX_WAIT_REQUEUE_PI = 11,
	SNAP_FUTEX_LOCK_PI2 = 13,
};

/* What the C library was asked for. */
enum snap_lock_name {
	SNAP_NAME_NONE,
	SNAP_NAME_CONDITION,
	SNAP_NAME_MUTEX,
	SNAP_NAME_COND_LOCK, /* the mutex of a condition, which wants it back */
	SNAP_NAME_RWLOCK_READ,
	SNAP_NAME_RWLOCK_WRITE,
	SNAP_NAME_SEMAPHORE,
	SNAP_NAME_JOIN,
	SNAP_NAME_BARRIER,
	SNAP_NAME_ONCE,
	SNAP_NAME_STDIO,
	SNAP_NAME_MALLOC,
	SNAP_NAME_SYSCALL, /* syscall(3): the caller knows what it is for */
};

enum snap_libc { SNAP_LIBC_UNKNOWN, SNAP_LIBC_GNU, SNAP_LIBC_MUSL };

struct snap_futex_names {
	enum snap_lock_name name;
	enum snap_libc libc;  /* whose functions stand on the stack; UNKNOWN: none, or static */
	bool by_callee;       /* the name is that of a call, as a frame had none */
	bool is_scanned;      /* a frame above was found by a scan: it may be an old one */
	bool is_private_lock; /* of the C library itself: __lll_lock_wait_private */
	bool is_foreign;      /* a program that has a C library makes the call by itself */
	size_t first;         /* frames of the stack: the innermost one of user space … */
	size_t outside;       /* … and the first one outside of the C library */
};

/* What the names of a stack say, each looked up once, for all threads that have the stack. */
struct snap_wait_stack_names {
	struct snap_futex_names names[2]; /* where the word is that of a once, and where not */
	bool has_names[2], has_row;
	const struct snap_language_row *row; /* language.c */
	enum snap_answer is_in_once;         /* once.c */
	enum snap_answer is_in_malloc_twice; /* glibc.c */
};

/* A thread in futex(2). */
struct snap_futex {
	struct snap_wait_analysis *waits;
	struct snap_waiter *waiter;
	uint64_t address; /* of the word */
	enum snap_futex_op op;
	bool is_private;
	uint32_t value;             /* that the word had */
	const struct snap_map *map; /* that has it; NULL unknown */
	bool is_shared;             /* it can be another process's, too */
	bool can_be_overtaken;      /* a later thread may get it first: by priority, writers */
	bool lacks_stop;            /* else it would be certain: names and memory agree */
	struct snap_futex_names names;
};

/*
 * The C library calls futex(2) itself, and not by syscall(3). So where others do, the words are
 * what these have made them, and may look like a held lock of the C library.
 */
static inline bool snap_futex_is_of_others(const struct snap_futex *futex)
{
	return futex->names.is_foreign || futex->names.name == SNAP_NAME_SYSCALL;
}

static inline bool snap_futex_read(const struct snap_futex *futex, uint64_t address, void *out,
				   size_t size)
{
	return snap_wait_read(futex->waiter, address, out, size);
}

/* Whether the address lies in the stack of the waiting thread, above its stack pointer. */
bool snap_futex_is_on_own_stack(const struct snap_futex *futex, uint64_t address);
/*
 * A new wait for the object that begins at an address; NULL without memory. `confidence` is what
 * the data allow; that the thread did not stand still with the others makes it LIKELY at most.
 */
struct snap_wait *snap_futex_wait(struct snap_futex *futex, enum snap_wait_kind kind,
				  uint64_t address, enum snap_wait_confidence confidence);

/* What is waited for is an object that begins at another address. */
void snap_futex_move(const struct snap_futex *futex, uint64_t address);

/* ---- names.c, callee.c ---- */

/* Fills in futex->names. NO_MEMORY. */
struct stacksnap_error *snap_futex_find_names(struct snap_futex *futex) _must_check_;
/* What a name of the C library says; `length` bytes of it. */
enum snap_lock_name snap_futex_name_of(const char *name, size_t length);
/* The stack of a waiter; NULL: it has none. */
const struct snap_raw_stack *snap_waiter_stack(const struct snap_waiter *waiter);
/* What is known of its names by now; the waiter has a stack. */
struct snap_wait_stack_names *snap_waiter_stack_names(const struct snap_wait_analysis *waits,
						      const struct snap_waiter *waiter);
/* A frame is of a C library: by its module, or in a static program by that of the program. */
bool snap_wait_frame_is_libc(const struct snap_waiter *waiter, const struct snap_frame *frame);

/*
 * The function that was called before a return address, by relocations of the caller's file; NULL
 * in *ret: not known. NO_MEMORY.
 */
struct stacksnap_error *snap_wait_find_callee(struct snap_wait_analysis *waits,
					      const struct snap_waiter *waiter,
					      uint64_t return_address,
					      const char **ret) _must_check_;
void snap_wait_callees_deinit(struct snap_wait_analysis *waits);

/* ---- objects: each makes the wait, or leaves it NULL where data do not fit. NO_MEMORY. ---- */

struct stacksnap_error *snap_glibc_explain(struct snap_futex *futex) _must_check_;
/* What data alone tell: a thread's end, a mutex whose owner lives. */
struct stacksnap_error *snap_glibc_explain_data(struct snap_futex *futex) _must_check_;
/* The object is musl's: by the frames, or in static programs by its words. */
bool snap_musl_fits(const struct snap_futex *futex);
struct stacksnap_error *snap_musl_explain(struct snap_futex *futex) _must_check_;
struct stacksnap_error *snap_musl_explain_data(struct snap_futex *futex) _must_check_;

/* Locks of C++, Rust, Go and libraries, made of futexes without the C library. */
struct stacksnap_error *snap_language_explain(struct snap_futex *futex) _must_check_;

/*
 * A condition that was found may be the lock of a Python interpreter: says so, and names the
 * holder.
 */
struct stacksnap_error *snap_gil_explain(struct snap_futex *futex) _must_check_;

/*
 * python_lock.c: a semaphore that was found is a lock of Python: says so, and names the holder if
 * it is an RLock.
 */
void snap_python_lock_explain(struct snap_futex *futex);

/*
 * monitor.c: a thread of which Java's runtime says that it waits for a monitor. Leaves the wait
 * NULL otherwise; looks at no names. NO_MEMORY.
 */
struct stacksnap_error *snap_monitor_explain(struct snap_futex *futex) _must_check_;

/* ---- once.c ---- */

/* The owners of all waits for what is run once. All waits are explained. NO_MEMORY. */
struct stacksnap_error *snap_wait_find_runners(struct snap_wait_analysis *waits) _must_check_;

/* ---- owner.c ---- */

/*
 * The thread that a word of the object names, as the process numbers it: fills in the owner or why
 * there is none. True: it is a thread of the report that lives.
 */
bool snap_futex_own_by_tid(struct snap_futex *futex, struct snap_wait *wait, uint32_t tid);
/* The same for the thread's thread pointer. */
bool snap_futex_own_by_pointer(struct snap_futex *futex, struct snap_wait *wait, uint64_t pointer);
/* No thread of the process has the pointer: why it cannot come. */
void snap_futex_say_why_gone(struct snap_futex *futex, struct snap_wait *wait, uint64_t pointer);
/* NULL: the owner was not seen. */
void snap_futex_own_if_seen(struct snap_futex *futex, struct snap_wait *wait,
			    struct snap_waiter *owner);
/* The owner is a waiter of the report. */
void snap_futex_own(struct snap_futex *futex, struct snap_wait *wait, struct snap_waiter *owner);
/* Whether a living thread of the same process, or of one that shares the word, has a number. */
struct snap_waiter *snap_futex_find_owner(struct snap_futex *futex, uint32_t tid);
