/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits that do not depend on the call, by the state of the thread and the kernel function that it
 * sleeps in: stopped, traced, frozen, a page that does not arrive, a disk. Also calls that name a
 * path: see kernel.h.
 */
#include "analyze/wait/kernel/kernel.h"

#include <fcntl.h>
#include <string.h>

/* What a function of the kernel (wchan, proc(5)) says of a thread that sleeps there. */
enum place {
	PLACE_OTHER,
	PLACE_VFORK,
	PLACE_FREEZER, /* control groups of version 1 */
	PLACE_FAULT,   /* a page that a process in user space fills */
	PLACE_PAGE,    /* a page of a file: a fault if the thread is in no call */
	PLACE_FUSE,
	PLACE_FIFO,
	PLACE_SLEEP, /* one that signals end: in D only frozen threads are there (version 1) */
};

static enum place wait_of_wchan(const char *wchan)
{
	static const struct {
		const char *part;
		enum place place;
	} places[] = {
		{ "kernel_clone", PLACE_VFORK },
		{ "wait_for_vfork_done", PLACE_VFORK },
		{ "_do_fork", PLACE_VFORK },
		{ "__refrigerator", PLACE_FREEZER },
		{ "handle_userfault", PLACE_FAULT },
		{ "folio_wait_bit", PLACE_PAGE },
		{ "__lock_page", PLACE_PAGE },
		{ "__folio_lock", PLACE_PAGE },
		{ "wait_on_page_bit", PLACE_PAGE },
		{ "filemap_fault", PLACE_PAGE },
		{ "request_wait_answer", PLACE_FUSE },
		{ "wait_for_partner", PLACE_FIFO },
		/* Those that need not wake to be frozen (TASK_FREEZABLE, linux/sched.h). */
		{ "do_sigtimedwait", PLACE_SLEEP },
		{ "nanosleep", PLACE_SLEEP },
		{ "futex_wait", PLACE_SLEEP },
		{ "futex_do_wait", PLACE_SLEEP },
		{ "poll_schedule_timeout", PLACE_SLEEP },
		{ "unix_stream_data_wait", PLACE_SLEEP },
	};

	for (size_t i = 0; wchan && i < SNAP_ARRAY_SIZE(places); i++)
		if (strstr(wchan, places[i].part))
			return places[i].place;
	return PLACE_OTHER;
}

static bool is_waiter_in_call(const struct snap_waiter *waiter)
{
	return waiter->call.known && waiter->call.number >= 0;
}

static struct stacksnap_error *new_wait(struct snap_wait_analysis *waits,
					struct snap_waiter *waiter, enum snap_wait_kind kind)
{
	struct snap_wait *wait = snap_wait_new(waits, waiter, kind, SNAP_WAIT_IS_CERTAIN);

	SNAP_TRY(snap_no_memory_unless(wait));
	wait->wchan = snap_analysis_text(waits->analysis, waiter->thread->thread->wchan);
	return NULL;
}

static struct stacksnap_error *new_fault(struct snap_wait_analysis *waits,
					 struct snap_waiter *waiter, const char *variant)
{
	SNAP_TRY(new_wait(waits, waiter, SNAP_WAIT_PAGE_FAULT));
	waiter->wait->variant = variant;
	return NULL;
}

static struct stacksnap_error *new_frozen(struct snap_wait_analysis *waits,
					  struct snap_waiter *waiter)
{
	struct stacksnap_error *err = new_wait(waits, waiter, SNAP_WAIT_FROZEN);

	/* That of version 1 is in a hierarchy of its own, which is not looked at. */
	if (!err && snap_waiter_process(waiter)->frozen)
		waiter->wait->cgroup =
			snap_analysis_text(waits->analysis, snap_waiter_process(waiter)->cgroup);
	return err;
}

static struct stacksnap_error *new_traced(struct snap_wait_analysis *waits,
					  struct snap_waiter *waiter)
{
	struct stacksnap_error *err = new_wait(waits, waiter, SNAP_WAIT_TRACED);
	pid_t tracer = waiter->thread->thread->tracer;

	if (err || !tracer)
		return err;
	waiter->wait->has_owner = true;
	waiter->wait->owner = snap_wait_process_party(waits, tracer);
	waiter->wait->owner.name = snap_analysis_text(waits->analysis, waiter->wait->owner.name);
	return NULL;
}

bool snap_wait_is_frozen(const struct snap_process *process, const struct snap_thread *thread)
{
	enum place place = wait_of_wchan(thread->wchan);

	return place == PLACE_FREEZER || (place == PLACE_SLEEP && thread->state == 'D') ||
	       (process->frozen && thread->state == 'S');
}

struct stacksnap_error *snap_wait_explain_state(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;
	enum place place = wait_of_wchan(thread->wchan);

	if (thread->state == 'T' || thread->group_stopped)
		return new_wait(waits, waiter, SNAP_WAIT_STOPPED);
	if (thread->state == 't')
		return new_traced(waits, waiter);
	if (snap_wait_is_frozen(snap_waiter_process(waiter), thread))
		return new_frozen(waits, waiter);
	if (place == PLACE_FAULT)
		return new_fault(waits, waiter, "userfaultfd");
	if (place == PLACE_VFORK && thread->state == 'D')
		return snap_wait_explain_vfork(waits, waiter);
	if (waiter->call.known && !is_waiter_in_call(waiter)) {
		if (place == PLACE_FUSE)
			return new_fault(waits, waiter, "fuse");
		if (place == PLACE_PAGE)
			return new_fault(waits, waiter, NULL);
	}
	return NULL;
}

/* ---- paths ---- */

/* The path that a call names; NULL: it names none, or it cannot be read to its end. */
static const char *read_path(struct snap_wait_analysis *waits, const struct snap_waiter *waiter)
{
	char path[256];
	size_t size = 0, step = 128;
	int at = waiter->row->pointer;

	if ((waiter->row->call != SNAP_CALL_OPEN && waiter->row->call != SNAP_CALL_STAT) || at < 0)
		return NULL;
	/* In pieces that become smaller towards the end of what was copied. */
	while (size < sizeof(path) - 1 && step > 0) {
		if (step > sizeof(path) - 1 - size ||
		    !snap_wait_read(waiter, waiter->call.arguments[at] + size, path + size, step)) {
			step /= 2;
			continue;
		}
		if (memchr(path + size, '\0', step))
			return snap_analysis_text(waits->analysis, path);
		size += step;
	}
	if (size < sizeof(path) - 1)
		return NULL;
	path[size] = '\0';
	return snap_analysis_text(waits->analysis, path);
}

enum { CALL_CREAT = 85, CALL_OPENAT2 = 437 };

/* Which end of a FIFO is opened; for reading, it waits for a writer. */
static enum snap_wait_mode open_mode(const struct snap_waiter *waiter)
{
	/* Of open(2) the second argument, of openat(2) the third; openat2(2) has an address. */
	uint64_t flags = waiter->call.arguments[waiter->row->pointer + 1];

	if (waiter->number == CALL_CREAT)
		return SNAP_WAIT_WRITE;
	if (waiter->number == CALL_OPENAT2 &&
	    !snap_wait_read(waiter, waiter->call.arguments[2], &flags, sizeof(flags)))
		return SNAP_WAIT_ANY_MODE;
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return SNAP_WAIT_READ;
	case O_WRONLY:
		return SNAP_WAIT_WRITE;
	}
	return SNAP_WAIT_ANY_MODE;
}

struct stacksnap_error *snap_wait_explain_path(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;
	enum place place = wait_of_wchan(thread->wchan);
	enum snap_wait_kind kind = waiter->row->call == SNAP_CALL_OPEN && place == PLACE_FIFO
					   ? SNAP_WAIT_FIFO_OPEN
					   : SNAP_WAIT_SYSCALL;

	SNAP_TRY(new_wait(waits, waiter, kind));
	waiter->wait->confidence = snap_wait_call_confidence(waiter);
	waiter->wait->path = read_path(waits, waiter);
	if (kind == SNAP_WAIT_FIFO_OPEN)
		waiter->wait->mode = open_mode(waiter);
	return NULL;
}

/* ---- disks ---- */

bool snap_wait_is_at_fuse(const struct snap_waiter *waiter)
{
	return is_waiter_in_call(waiter) &&
	       wait_of_wchan(waiter->thread->thread->wchan) == PLACE_FUSE;
}

struct stacksnap_error *snap_wait_explain_disk(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter)
{
	const struct snap_descriptor *descriptor = NULL;

	SNAP_TRY(new_wait(waits, waiter, SNAP_WAIT_DISK));
	if (is_waiter_in_call(waiter) && waiter->row->fd >= 0) {
		waiter->wait->fd = snap_wait_call_fd(waiter);
		descriptor = snap_wait_descriptor(waiter, waiter->wait->fd);
		waiter->wait->confidence = snap_wait_call_confidence(waiter);
	}
	if (wait_of_wchan(waiter->thread->thread->wchan) == PLACE_FUSE)
		waiter->wait->variant = "fuse";
	else if (waiter->row->call == SNAP_CALL_SYNC)
		waiter->wait->variant = "sync";
	waiter->wait->path =
		descriptor ? snap_wait_path(waits, descriptor) : read_path(waits, waiter);
	return NULL;
}
