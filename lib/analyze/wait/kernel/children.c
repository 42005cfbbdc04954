/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Children that a thread waits for, in wait4(2), waitid(2), and vfork(2): see kernel.h. */
#include "analyze/wait/kernel/kernel.h"

enum { ID_ALL, ID_PID, ID_GROUP, ID_PIDFD }; /* idtype_t of waitid(2) */

/* Keys of crowds of children: of all, of one, of a process group. */
enum { CROWD_ALL, CROWD_ONE, CROWD_VFORK, CROWD_GROUP };

/* The number of a child as its parent knows it; 0: not known. */
static pid_t number_for_parent(const struct snap_process *parent, const struct snap_process *child)
{
	if (parent->in_host_namespace)
		return child->pid;
	/* In a namespace of its own it is number 1 there, and something else here. */
	if (child->is_namespace_init)
		return 0;
	return child->ns_pid ? child->ns_pid : child->pid;
}

static bool lives(const struct snap_process *process)
{
	return !process->vanished && process->state != 'Z' && process->state != 'X';
}

static uint64_t crowd_key(unsigned what, pid_t which, pid_t group)
{
	return snap_wait_object_of(SNAP_WAIT_CHILD, what, (uint64_t)which, (uint64_t)group);
}

/* Makes the wait one for the processes. `complete`: there are no others that could end it. */
static struct stacksnap_error *wait_for(struct snap_wait_analysis *waits,
					struct snap_waiter *waiter, uint64_t key, const pid_t *pids,
					size_t count, bool complete)
{
	const struct snap_wait_crowd *crowd = snap_wait_find_crowd(waits, key);
	struct stacksnap_error *err = NULL;

	if (!crowd)
		err = snap_wait_make_crowd(waits, key, pids, count, complete, &crowd);
	if (!err)
		snap_wait_set_peers(waits, waiter, crowd, true);
	return err;
}

static struct stacksnap_error *wait_for_one(struct snap_wait_analysis *waits,
					    struct snap_waiter *waiter, pid_t pid)
{
	waiter->wait->child = pid;
	waiter->object = snap_wait_object_of(SNAP_WAIT_CHILD, (uint64_t)pid, 0, 0);
	return wait_for(waits, waiter, crowd_key(CROWD_ONE, pid, 0), &pid, 1, true);
}

/* A child by the number that the call gives; it stays a number if no process has it. */
static struct stacksnap_error *wait_for_number(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter, pid_t number)
{
	const struct snap_process *parent = snap_waiter_process(waiter);
	const struct snap_process *all = waits->analysis->capture->processes;
	const size_t *children;
	size_t count;

	SNAP_TRY(snap_wait_children(waits, parent->pid, &children, &count));
	for (size_t i = 0; i < count; i++)
		if (number_for_parent(parent, &all[children[i]]) == number)
			return wait_for_one(waits, waiter, all[children[i]].pid);
	waiter->wait->child = number;
	waiter->wait->peers_unknown = true;
	if (parent->in_host_namespace)
		waiter->object = snap_wait_object_of(SNAP_WAIT_CHILD, (uint64_t)number, 0, 0);
	return NULL;
}

/* Those of a process group, 0: of all. `complete`: all are in the report that could be meant. */
static struct stacksnap_error *wait_for_several(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter, pid_t group,
						bool complete)
{
	const struct snap_process *parent = snap_waiter_process(waiter);
	const struct snap_process *all = waits->analysis->capture->processes;
	uint64_t key = crowd_key(group ? CROWD_GROUP : CROWD_ALL, parent->pid, group);
	const size_t *children;
	size_t count, living = 0;
	pid_t *pids;

	waiter->object =
		snap_wait_object_of(SNAP_WAIT_CHILD, (uint64_t)parent->pid, 1, (uint64_t)group);
	if (snap_wait_find_crowd(waits, key))
		return wait_for(waits, waiter, key, NULL, 0, false);
	SNAP_TRY(snap_wait_children(waits, parent->pid, &children, &count));
	pids = snap_arena_new_array(&waits->analysis->scratch, count + 1, pid_t);
	SNAP_TRY(snap_no_memory_unless(pids));
	for (size_t i = 0; i < count; i++)
		if (lives(&all[children[i]]) && (!group || all[children[i]].pgrp == group))
			pids[living++] = all[children[i]].pid;
	/*
	 * Without --no-children all of them are in the report; but the first process of a namespace
	 * inherits others' children.
	 */
	return wait_for(waits, waiter, key, pids, living,
			complete && waits->analysis->options->children &&
				!parent->is_namespace_init);
}

static struct stacksnap_error *wait_for_any(struct snap_wait_analysis *waits,
					    struct snap_waiter *waiter)
{
	return wait_for_several(waits, waiter, 0, true);
}

/*
 * The group that a process in a pid namespace of its own calls so, as this host numbers it: by the
 * process that made it, if that is there. 0: not known.
 */
static pid_t group_in_namespace(const struct snap_wait_analysis *waits,
				const struct snap_process *parent, const size_t *children,
				size_t count, pid_t group)
{
	const struct snap_process *all = waits->analysis->capture->processes;

	for (size_t i = 0; i < count; i++) {
		pid_t known = all[children[i]].pgrp;
		size_t leader = snap_wait_process_by_pid(waits, known);

		if (known && leader != SIZE_MAX && number_for_parent(parent, &all[leader]) == group)
			return known;
	}
	return 0;
}

/* Whatever is in a group of children; 0: in that of the parent. */
static struct stacksnap_error *wait_for_group(struct snap_wait_analysis *waits,
					      struct snap_waiter *waiter, pid_t group)
{
	const struct snap_process *parent = snap_waiter_process(waiter);
	const size_t *children;
	pid_t known = group;
	size_t count;

	waiter->wait->variant = "group";
	if (group == 0) {
		known = parent->pgrp;
	} else if (!parent->in_host_namespace) {
		SNAP_TRY(snap_wait_children(waits, parent->pid, &children, &count));
		known = group_in_namespace(waits, parent, children, count, group);
	}
	waiter->wait->child = -(known ? known : group);
	/* Captures of before have no groups. */
	if (known && parent->pgrp)
		return wait_for_several(waits, waiter, known, parent->in_host_namespace);
	waiter->wait->peers_unknown = true;
	return NULL;
}

static struct stacksnap_error *explain_waitid(struct snap_wait_analysis *waits,
					      struct snap_waiter *waiter)
{
	pid_t id = (pid_t)waiter->call.arguments[1];
	const struct snap_descriptor *descriptor;

	switch ((int32_t)waiter->call.arguments[0]) {
	case ID_ALL:
		return wait_for_any(waits, waiter);
	case ID_PID:
		if (id > 0)
			return wait_for_number(waits, waiter, id);
		break;
	case ID_GROUP:
		return wait_for_group(waits, waiter, id > 0 ? id : 0);
	case ID_PIDFD:
		descriptor = snap_wait_descriptor(waiter, id);
		waiter->wait->fd = SNAP_MAX(id, -1);
		waiter->wait->variant = "pidfd";
		if (!waiter->thread->thread->call_confirmed)
			waiter->wait->confidence = SNAP_WAIT_IS_LIKELY;
		if (descriptor && descriptor->kind == SNAP_DESCRIPTOR_PIDFD && descriptor->pid > 0)
			return wait_for_one(waits, waiter, descriptor->pid);
	}
	waiter->wait->peers_unknown = true;
	return NULL;
}

struct stacksnap_error *snap_wait_explain_child(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter)
{
	struct snap_wait *wait =
		snap_wait_new(waits, waiter, SNAP_WAIT_CHILD, snap_wait_call_confidence(waiter));
	pid_t pid = (pid_t)waiter->call.arguments[0];

	SNAP_TRY(snap_no_memory_unless(wait));
	if (waiter->row->call == SNAP_CALL_WAITID)
		return explain_waitid(waits, waiter);
	if (pid > 0)
		return wait_for_number(waits, waiter, pid);
	return pid == -1 ? wait_for_any(waits, waiter)
			 : wait_for_group(waits, waiter, pid == INT32_MIN ? 0 : -pid);
}

/*
 * The child that has its parent's memory: of several the one that was born last. Two threads may be
 * in vfork(2) at once, then it is likely at most.
 */
struct stacksnap_error *snap_wait_explain_vfork(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter)
{
	struct snap_wait *wait = snap_wait_new(waits, waiter, SNAP_WAIT_VFORK, SNAP_WAIT_IS_LIKELY);
	const struct snap_process *parent = snap_waiter_process(waiter), *child = NULL, *each;
	const size_t *children;
	size_t count, living = 0;

	SNAP_TRY(snap_no_memory_unless(wait));
	SNAP_TRY(snap_wait_children(waits, parent->pid, &children, &count));
	for (size_t i = 0; i < count; i++) {
		each = &waits->analysis->capture->processes[children[i]];
		if (!lives(each))
			continue;
		living++;
		if (!child || each->start_ticks > child->start_ticks ||
		    (each->start_ticks == child->start_ticks && each->pid > child->pid))
			child = each;
	}
	wait->peers_unknown = true;
	if (!child)
		return NULL;
	if (living == 1 && snap_wait_call_confidence(waiter) == SNAP_WAIT_IS_CERTAIN)
		wait->confidence = SNAP_WAIT_IS_CERTAIN;
	wait->child = child->pid;
	waiter->object = snap_wait_object_of(SNAP_WAIT_VFORK, (uint64_t)child->pid, 0, 0);
	return wait_for(waits, waiter, crowd_key(CROWD_VFORK, child->pid, 0), &child->pid, 1, true);
}
