/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Locks that languages and libraries make of futexes themselves, without the C library. The
 * functions between the system call and the program's own functions identify them. None of them
 * keeps its owner.
 */
#include "analyze/wait/futex.h"

#include "base/text.h"

#include <string.h>

enum { MOST_ENTRIES = 48, MOST_NAME = 512 };

/*
 * What a part of a function's name says. Of several on a stack the highest rank counts, of equals
 * the innermost: a channel parks its thread, and a park is a futex.
 */
struct snap_language_row {
	const char *part;
	enum snap_wait_kind kind;
	unsigned rank;
	const char *variant;
	uint64_t before; /* the object begins so many bytes before the word */
	enum snap_wait_mode mode;
};

static const struct snap_language_row rows[] = {
	/* libstdc++, libc++abi */
	{ "__cxa_guard_acquire", SNAP_WAIT_STATIC_INIT, 3, NULL, 0, 0 },
	{ "std::__atomic_futex_unsigned_base::", SNAP_WAIT_FUTURE, 3, NULL, 0, 0 },
	{ "std::latch::", SNAP_WAIT_LATCH, 3, NULL, 0, 0 },
	{ "std::barrier", SNAP_WAIT_BARRIER, 3, NULL, 0, 0 },
	{ "std::__tree_barrier", SNAP_WAIT_BARRIER, 3, NULL, 0, 0 },
	{ "std::counting_semaphore", SNAP_WAIT_SEMAPHORE, 3, NULL, 0, 0 },
	{ "std::__atomic_semaphore::", SNAP_WAIT_SEMAPHORE, 3, NULL, 0, 0 },
	{ "std::__platform_semaphore::", SNAP_WAIT_SEMAPHORE, 3, NULL, 0, 0 },
	{ "std::__atomic_wait", SNAP_WAIT_ATOMIC, 1, NULL, 0, 0 },
	{ "std::__atomic_base", SNAP_WAIT_ATOMIC, 1, NULL, 0, 0 },
	{ "std::__detail::__platform_wait", SNAP_WAIT_ATOMIC, 1, NULL, 0, 0 },
	{ "std::__detail::__waiter", SNAP_WAIT_ATOMIC, 1, NULL, 0, 0 },
	/* Rust's standard library */
	{ "Mutex::lock_contended", SNAP_WAIT_MUTEX, 3, "rust", 0, 0 },
	{ "RwLock::read_contended", SNAP_WAIT_RWLOCK, 3, "rust", 0, SNAP_WAIT_READ },
	{ "RwLock::write_contended", SNAP_WAIT_RWLOCK, 3, "rust", 4, SNAP_WAIT_WRITE },
	{ "::Condvar::wait", SNAP_WAIT_CONDITION, 3, "rust", 0, 0 },
	{ "once::futex::Once::", SNAP_WAIT_ONCE, 3, "rust", 0, 0 },
	/* Before 1.67, as Debian 12 has it: those that wait are a list, and each is parked. */
	{ "std::sync::once::Once::call_inner", SNAP_WAIT_ONCE, 3, "rust", 0, 0 },
	{ "std::sync::mpmc::", SNAP_WAIT_CHANNEL, 4, "rust", 0, 0 },
	{ "std::sync::mpsc::", SNAP_WAIT_CHANNEL, 4, "rust", 0, 0 },
	{ "crossbeam_channel::", SNAP_WAIT_CHANNEL, 4, "crossbeam", 0, 0 },
	{ "Parker::park", SNAP_WAIT_PARK, 2, "rust", 0, 0 },
	{ "std::thread::park", SNAP_WAIT_PARK, 2, "rust", 0, 0 },
	{ "RawMutex::lock_slow", SNAP_WAIT_MUTEX, 3, "parking_lot", 0, 0 },
	{ "RawRwLock::lock_shared_slow", SNAP_WAIT_RWLOCK, 3, "parking_lot", 0, SNAP_WAIT_READ },
	{ "RawRwLock::lock_exclusive_slow", SNAP_WAIT_RWLOCK, 3, "parking_lot", 0,
	  SNAP_WAIT_WRITE },
	{ "RawRwLock::wait_for_readers", SNAP_WAIT_RWLOCK, 3, "parking_lot", 0, SNAP_WAIT_WRITE },
	{ "RawRwLock::upgrade_slow", SNAP_WAIT_RWLOCK, 3, "parking_lot", 0, SNAP_WAIT_WRITE },
	{ "parking_lot::condvar::Condvar::", SNAP_WAIT_CONDITION, 3, "parking_lot", 0, 0 },
	{ "parking_lot::once::Once::", SNAP_WAIT_ONCE, 3, "parking_lot", 0, 0 },
	{ "parking_lot_core::", SNAP_WAIT_PARK, 1, "parking_lot", 0, 0 },
	/* GLib, Qt */
	{ "g_mutex_lock_slowpath", SNAP_WAIT_MUTEX, 3, "glib", 0, 0 },
	{ "g_cond_wait", SNAP_WAIT_CONDITION, 3, "glib", 0, 0 },
	{ "QBasicMutex::lockInternal", SNAP_WAIT_MUTEX, 3, "qt", 0, 0 },
	{ "QSemaphore::", SNAP_WAIT_SEMAPHORE, 3, "qt", 0, 0 },
	/* Go: a goroutine's locks are none of a thread's */
	{ "runtime.futex", SNAP_WAIT_RUNTIME, 3, "go", 0, 0 },
	{ "runtime.notesleep", SNAP_WAIT_RUNTIME, 3, "go", 0, 0 },
	{ "runtime.notetsleep", SNAP_WAIT_RUNTIME, 3, "go", 0, 0 },
	{ "runtime.lock2", SNAP_WAIT_RUNTIME, 3, "go", 0, 0 },
};

/* Functions between such a lock and its user; behind others nothing is looked for. */
static const char *const libraries[] = {
	"std::",     "core::",        "alloc::",      "parking_lot", "lock_api",
	"crossbeam", "syscall",       "__cxa_guard",  "runtime.",    "g_mutex",
	"g_cond",    "QBasicMutex::", "QSemaphore::", "QMutex::",    NULL,
};

/* A result before the name ("void std::__atomic_wait<…>"): templates have one. */
static bool is_of_library(const char *name)
{
	static const char *const results[] = { "void ", "bool ", "int ", "unsigned ", NULL };

	for (const char *const *result = results; *result; result++)
		if (snap_begins_with(name, *result))
			name += strlen(*result);
	for (const char *const *prefix = libraries; *prefix; prefix++)
		if (snap_begins_with(name, *prefix))
			return true;
	return false;
}

static const struct snap_language_row *row_of(const char *name)
{
	const struct snap_language_row *best = NULL;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		if ((!best || rows[i].rank > best->rank) && strstr(name, rows[i].part))
			best = &rows[i];
	return best;
}

/* The name without angle brackets: "<std::sys::sync::mutex::futex::Mutex>::lock_contended". */
static bool read_name(const struct snap_futex *futex, const struct snap_entry *entry,
		      char name[MOST_NAME])
{
	const char *from = entry->function;
	size_t length = 0;

	if (entry->symbol)
		from = snap_symbolizer_demangle(futex->waits->analysis->symbolizer, entry->symbol);
	for (; from && *from && length + 1 < MOST_NAME; from++)
		if (*from != '<' && *from != '>')
			name[length++] = *from;
	name[length] = '\0';
	return length > 0;
}

/* The best row of the library's functions on top of the stack; NULL: there is none. */
static const struct snap_language_row *search_row(const struct snap_futex *futex)
{
	const struct snap_raw_stack *stack = snap_waiter_stack(futex->waiter);
	const struct snap_language_row *best = NULL;
	char name[MOST_NAME];
	size_t entries = 0, i;

	/* A program with its C library inside is one module with it: there is no outside. */
	if (futex->names.libc == SNAP_LIBC_UNKNOWN)
		i = futex->names.first;
	else
		i = futex->names.outside;
	for (; i < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];

		for (size_t k = 0; k < frame->entry_count; k++) {
			bool named = read_name(futex, &frame->entries[k], name);
			const struct snap_language_row *row = named ? row_of(name) : NULL;

			if (++entries > MOST_ENTRIES || (named && !row && !is_of_library(name)))
				return best;
			if (row && (!best || row->rank > best->rank))
				best = row;
		}
	}
	return best;
}

/* The same, which a stack and the names on it decide alone. */
static const struct snap_language_row *find_language_row(const struct snap_futex *futex)
{
	struct snap_wait_stack_names *seen;

	if (!snap_waiter_stack(futex->waiter))
		return NULL;
	seen = snap_waiter_stack_names(futex->waits, futex->waiter);
	if (!seen->has_row) {
		seen->row = search_row(futex);
		seen->has_row = true;
	}
	return seen->row;
}

struct stacksnap_error *snap_language_explain(struct snap_futex *futex)
{
	const struct snap_language_row *row;
	struct snap_wait *wait;

	if (futex->names.name != SNAP_NAME_NONE && futex->names.name != SNAP_NAME_SYSCALL)
		return NULL;
	row = find_language_row(futex);
	if (!row)
		return NULL;
	wait = snap_futex_wait(futex, row->kind, futex->address - row->before,
			       SNAP_WAIT_IS_CERTAIN);
	SNAP_TRY(snap_no_memory_unless(wait));
	wait->variant = row->variant;
	wait->mode = row->mode;
	return NULL;
}
