/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the threads' calls name: descriptors in arguments, in arrays of pollfd and in sets of
 * select. The arrays were copied in the stop. Knows nothing of what they lead to.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "capture/wait/resolver.h"
#include "model/memory_image.h"

#include <poll.h>
#include <string.h>

enum {
	MOST_NUMBER = 1 << 20, /* of a descriptor (fs.nr_open) */
	SET_BYTES = 128,
	NUMBER_BITS = 8,
	MOST_WATCHED = 4 * SNAP_MAX_WATCHED, /* of a process, by all its epolls */
	MOST_WANTS = 1 << 18,                /* of a capture */
};

bool snap_wait_is_alive(const struct snap_process *process, const struct snap_thread *thread)
{
	return !process->vanished && process->start_ticks &&
	       process->trouble != SNAP_TROUBLE_ZOMBIE && !(process->flags & SNAP_PF_KTHREAD) &&
	       thread->result != SNAP_THREAD_VANISHED && thread->state != 'Z' &&
	       thread->state != 'X';
}

static bool read_wanted_stack(const uint8_t *stack, size_t stack_size, uint64_t start,
			      uint64_t address, void *out, size_t size)
{
	if (!stack || address < start || address - start > stack_size ||
	    size > stack_size - (size_t)(address - start))
		return false;
	memcpy(out, stack + (address - start), size);
	return true;
}

bool snap_wait_read_memory(const struct snap_process *process, const struct snap_thread *thread,
			   uint64_t address, void *out, size_t size)
{
	return (process->words && snap_memory_image_read(process->words, address, out, size)) ||
	       read_wanted_stack(thread->stack, thread->stack_size, thread->stack_address, address,
				 out, size) ||
	       read_wanted_stack(thread->stack2, thread->stack2_size, thread->stack2_address,
				 address, out, size);
}

/* ---- the list ---- */

struct stacksnap_error *snap_wait_add_want(struct snap_wait_resolver *resolver, size_t process,
					   int32_t number, unsigned uses)
{
	if (number < 0 || number >= MOST_NUMBER)
		return NULL;
	return snap_no_memory_unless(snap_append(
		resolver->wants, resolver->want_count, resolver->want_capacity,
		(struct snap_wait_want){ .process = process, .number = number, .uses = uses }));
}

SNAP_ORDER(compare_wants, struct snap_wait_want, a, b, snap_compare(a->process, b->process),
	   snap_compare(a->number, b->number));

/* How many of a process were kept: those of calls, and those that epolls watch alone. */
struct kept {
	size_t of_calls, of_epolls;
};

static bool has_room_for_want(struct kept *kept, size_t all, const struct snap_wait_want *want)
{
	if (all >= MOST_WANTS)
		return false;
	if (want->uses == SNAP_WAIT_USE_WATCH)
		return kept->of_epolls++ < MOST_WATCHED;
	return kept->of_calls++ < SNAP_MAX_DESCRIPTORS;
}

void snap_wait_settle_wants(struct snap_wait_resolver *resolver)
{
	struct snap_wait_want *wants = resolver->wants;
	size_t count = 0, end = 0;
	struct kept kept = { 0, 0 };

	if (resolver->want_count)
		qsort(wants, resolver->want_count, sizeof(*wants), compare_wants);
	for (size_t i = 0; i < resolver->want_count; i = end) {
		struct snap_wait_want want = wants[i];

		for (end = i + 1;
		     end < resolver->want_count && compare_wants(&want, &wants[end]) == 0; end++)
			want.uses |= wants[end].uses;
		if (i && wants[i - 1].process != want.process)
			kept = (struct kept){ 0, 0 };
		if (has_room_for_want(&kept, count, &want))
			wants[count++] = want;
		else
			resolver->facts->lacks |= SNAP_LACK_CUT;
	}
	resolver->want_count = count;
}

const struct snap_wait_want *snap_wait_find_want(const struct snap_wait_resolver *resolver,
						 size_t process, int32_t number)
{
	const struct snap_wait_want key = { .process = process, .number = number };

	return resolver->want_count ? bsearch(&key, resolver->wants, resolver->want_count,
					      sizeof(key), compare_wants)
				    : NULL;
}

SNAP_ORDER(compare_descriptors, struct snap_descriptor, a, b, snap_compare(a->number, b->number));

struct snap_descriptor *snap_wait_find_descriptor(const struct snap_process *process,
						  int32_t number)
{
	const struct snap_descriptor key = { .number = number };

	return process->descriptor_count
		       ? bsearch(&key, process->descriptors, process->descriptor_count, sizeof(key),
				 compare_descriptors)
		       : NULL;
}

/* ---- calls ---- */

static struct stacksnap_error *add_wanted_polled(struct snap_wait_resolver *resolver,
						 const struct snap_wait_caller *caller,
						 const int32_t *numbers, size_t count)
{
	unsigned use = count == 1 ? SNAP_WAIT_USE_ONE : SNAP_WAIT_USE_POLL;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < count && !err; i++)
		err = snap_wait_add_want(resolver, caller->process, numbers[i], use);
	return err;
}

/* `is_sure`: it is poll; else it looks like one, or nothing is added. */
static struct stacksnap_error *want_poll(struct snap_wait_resolver *resolver,
					 const struct snap_wait_caller *caller, bool is_sure)
{
	const struct snap_process *process = snap_wait_process(resolver, caller->process);
	const struct snap_thread *thread = &process->threads[caller->thread];
	const short all_events = 0x7fff;
	uint64_t count = caller->call.arguments[1];
	int32_t numbers[SNAP_MAX_POLLED];
	size_t found = 0;

	if (!is_sure && count > SNAP_MAX_POLLED)
		return NULL;
	if (count > SNAP_MAX_POLLED)
		count = SNAP_MAX_POLLED;
	for (uint64_t i = 0; i < count; i++) {
		struct pollfd polled;

		if (!snap_wait_read_memory(process, thread,
					   caller->call.arguments[0] + i * sizeof(polled), &polled,
					   sizeof(polled)))
			break;
		if (!is_sure &&
		    (polled.revents || polled.events & ~all_events || polled.fd >= MOST_NUMBER))
			return NULL;
		if (polled.fd >= 0)
			numbers[found++] = polled.fd;
	}
	return add_wanted_polled(resolver, caller, numbers, found);
}

/* Those that are in one of the three sets, the lowest first. */
static struct stacksnap_error *want_select(struct snap_wait_resolver *resolver,
					   const struct snap_wait_caller *caller)
{
	const struct snap_process *process = snap_wait_process(resolver, caller->process);
	const struct snap_thread *thread = &process->threads[caller->thread];
	uint64_t most = caller->call.arguments[0];
	uint8_t all[SET_BYTES] = { 0 };
	int32_t numbers[SNAP_MAX_POLLED];
	size_t found = 0, bytes;

	/* The kernel reads whole words. */
	if (most > SET_BYTES * NUMBER_BITS)
		most = SET_BYTES * NUMBER_BITS;
	bytes = (size_t)(most + 63) / 64 * 8;
	for (size_t i = 1; i <= 3; i++) {
		uint8_t set[SET_BYTES];

		if (!caller->call.arguments[i] ||
		    !snap_wait_read_memory(process, thread, caller->call.arguments[i], set, bytes))
			continue;
		for (size_t k = 0; k < bytes; k++)
			all[k] |= set[k];
	}
	for (uint64_t i = 0; i < most && found < SNAP_MAX_POLLED; i++)
		if (all[i / NUMBER_BITS] >> i % NUMBER_BITS & 1)
			numbers[found++] = (int32_t)i;
	return add_wanted_polled(resolver, caller, numbers, found);
}

/* What a call that names one descriptor does with it; 0: it names none. */
static unsigned use_of(const struct snap_wait_caller *caller)
{
	const struct snap_wait_call_row *row = caller->row;

	if (row->fd < 0 || !snap_wait_call_may_wait(row, &caller->call))
		return 0;
	if (row->kind == SNAP_WAIT_FILE_LOCK)
		return SNAP_WAIT_USE_LOCK;
	if (row->kind == SNAP_WAIT_MQUEUE)
		return SNAP_WAIT_USE_MQUEUE;
	if (row->call == SNAP_CALL_CONNECT)
		return SNAP_WAIT_USE_CONNECT;
	return row->mode == SNAP_WAIT_READ    ? SNAP_WAIT_USE_READ
	       : row->mode == SNAP_WAIT_WRITE ? SNAP_WAIT_USE_WRITE
					      : SNAP_WAIT_USE_OTHER;
}

/* waitid of a pidfd: waitid(2), P_PIDFD. */
static bool is_wait_for_pidfd(const struct snap_wait_caller *caller)
{
	const uint64_t by_pidfd = 3;

	return caller->row->call == SNAP_CALL_WAITID && caller->call.arguments[0] == by_pidfd;
}

/* What one call names; *known_ret: something of it is to be asked. */
static struct stacksnap_error *want_of_call(struct snap_wait_resolver *resolver,
					    const struct snap_wait_caller *caller)
{
	switch (caller->row->call) {
	case SNAP_CALL_POLL:
		return want_poll(resolver, caller, true);
	case SNAP_CALL_RESTART:
		/* Of poll, nanosleep, clock_nanosleep or futex: which, only the code tells. */
		return want_poll(resolver, caller, false);
	case SNAP_CALL_SELECT:
		return want_select(resolver, caller);
	default:
		break;
	}
	if (is_wait_for_pidfd(caller))
		return snap_wait_add_want(resolver, caller->process,
					  (int32_t)caller->call.arguments[1], SNAP_WAIT_USE_OTHER);
	if (use_of(caller))
		return snap_wait_add_want(resolver, caller->process,
					  (int32_t)caller->call.arguments[caller->row->fd],
					  use_of(caller));
	return NULL;
}

static struct stacksnap_error *add_caller(struct snap_wait_resolver *resolver, size_t process,
					  size_t thread)
{
	const struct snap_process *of = snap_wait_process(resolver, process);
	struct snap_wait_caller caller = {
		.process = process,
		.thread = thread,
		.call = snap_wait_call_of(of->arch, &of->threads[thread]),
	};

	if (!caller.call.known)
		return NULL;
	caller.row = snap_wait_call_row(of->arch, caller.call.number);
	if (caller.row->fd < 0 && !(caller.row->facts & SNAP_CALL_IS_ASKED))
		return NULL;
	SNAP_TRY(snap_no_memory_unless(snap_append(resolver->callers, resolver->caller_count,
						   resolver->caller_capacity, caller)));
	return want_of_call(resolver, &caller);
}

struct stacksnap_error *snap_wait_find_wants(struct snap_wait_resolver *resolver)
{
	struct snap_capture *capture = resolver->capture;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count && !err; k++)
			if (snap_wait_is_alive(process, &process->threads[k]))
				err = add_caller(resolver, i, k);
		if (err)
			return err;
	}
	snap_wait_settle_wants(resolver);
	return NULL;
}
