/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines about waits as a whole: threads that block others, waits of a deadlock. See wait.h; times and
 * owners of single waits are in text.c. */
#include "model/wait/parts.h"

#include "model/wait/kind.h"

static char *take_summary_text(struct snap_buffer *text)
{
	char *line = snap_buffer_take(text, NULL);

	snap_buffer_deinit(text);
	return line;
}

static void add_absent(struct snap_buffer *text, const struct snap_blocker *blocker)
{
	switch (blocker->lack) {
	case SNAP_OWNER_AT_FORK:
		snap_buffer_printf(text,
				   "thread %d of the parent, which held a lock when process %d was "
				   "forked: %s can release it",
				   blocker->tid, blocker->pid,
				   blocker->certain ? "no thread" : "only its copy");
		break;
	case SNAP_OWNER_REFUSED:
		snap_buffer_printf(text,
				   "a PI mutex of process %d in a deadlock that the kernel "
				   "has refused",
				   blocker->pid);
		break;
	default:
		if (blocker->tid)
			snap_buffer_printf(text, "thread %d", blocker->tid);
		else
			snap_buffer_add_text(text, "a thread");
		if (blocker->pid)
			snap_buffer_printf(text, " of process %d", blocker->pid);
		snap_buffer_add_text(text,
				     ", which has exited: no thread can release what it held");
	}
}

char *snap_wait_blocker_line(const struct snap_blocker *blocker)
{
	const struct snap_wait_party party = { .pid = blocker->pid,
					       .tid = blocker->tid,
					       .name = blocker->name,
					       .state = blocker->state,
					       .function = blocker->function,
					       .wait = blocker->wait };
	struct snap_buffer text = { 0 };

	snap_buffer_printf(&text, "%zu thread%s wait%s", blocker->blocked,
			   blocker->blocked == 1 ? "" : "s", blocker->blocked == 1 ? "s" : "");
	if (blocker->locks > 1)
		snap_buffer_printf(&text, ", through %zu locks,", blocker->locks);
	snap_buffer_add_text(&text, " for ");
	if (blocker->lack != SNAP_OWNER_KNOWN)
		add_absent(&text, blocker);
	else
		snap_wait_add_party(&text, &party, true);
	return take_summary_text(&text);
}

char *snap_wait_link_line(const struct snap_wait *wait)
{
	struct snap_buffer text = { 0 };

	snap_wait_add_brief(&text, wait);
	return take_summary_text(&text);
}

char *snap_wait_owner_line(const struct snap_wait *wait)
{
	struct snap_buffer text = { 0 };

	if (wait->has_owner && wait->kind != SNAP_WAIT_THREAD) {
		snap_buffer_add_text(&text, snap_wait_kind_is(wait->kind, SNAP_KIND_RUN)
						    ? "run by "
						    : "held by ");
		snap_wait_add_party(&text, &wait->owner, false);
	} else if (wait->holder_count) {
		snap_buffer_add_text(&text, "held by ");
		snap_wait_add_parties(&text, wait->holders, wait->holder_count, wait->holder_count,
				      false);
	} else if (wait->peer_count && wait->kind != SNAP_WAIT_CHILD) {
		snap_buffer_add_text(&text, "of ");
		snap_wait_add_parties(&text, wait->peers, wait->peer_count, wait->peer_total,
				      false);
	}
	return take_summary_text(&text);
}

static void add_until(struct snap_buffer *text, const struct snap_deadlock *deadlock)
{
	if (deadlock->timed && deadlock->until_ns >= 0) {
		snap_buffer_add_text(text, "until a time limit (");
		snap_wait_add_duration(text, deadlock->until_ns, deadlock->until_ns);
		snap_buffer_add_text(text, ")");
	} else if (deadlock->timed) {
		snap_buffer_add_text(text, "until a time limit");
	}
}

char *snap_wait_until_text(const struct snap_deadlock *deadlock)
{
	struct snap_buffer text = { 0 };

	add_until(&text, deadlock);
	return take_summary_text(&text);
}

const char *snap_wait_deadlock_word(const struct snap_deadlock *deadlock)
{
	if (!deadlock->timed)
		return deadlock->certain ? "DEADLOCK" : "possible deadlock";
	return deadlock->certain ? "circle" : "possible circle";
}

char *snap_wait_deadlock_line(const struct snap_deadlock *deadlock)
{
	const bool one = deadlock->size == 1;
	struct snap_buffer text = { 0 };

	snap_buffer_printf(&text, "%zu thread%s", deadlock->size, one ? "" : "s");
	if (deadlock->timed) {
		snap_buffer_printf(&text, " wait%s in a circle ", one ? "s" : "");
		add_until(&text, deadlock);
	}
	if (deadlock->behind)
		snap_buffer_printf(&text, ", %zu more wait%s behind %s", deadlock->behind,
				   deadlock->behind == 1 ? "s" : "", one ? "it" : "them");
	return take_summary_text(&text);
}
