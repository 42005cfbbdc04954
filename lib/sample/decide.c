/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a tick does with a thread, from what is known and was seen of it: a pure function, see
 * internal.h. Reads nothing, changes nothing, and knows nothing of how the answer is carried out.
 */
#include "sample/internal.h"

/*
 * One in an uninterruptible wait (D) does not stop until that ends, one that another process traces
 * (t) not at all. The next tick is soon; only where there is none is a stop tried and waited for.
 */
static enum snap_tick_action stop_or(enum snap_tick_action otherwise,
				     const struct snap_observation *seen,
				     const struct snap_tick_rules *rules)
{
	if (rules->never_stop)
		return otherwise;
	if (!rules->only_tick && (seen->letter == 'D' || seen->letter == 't'))
		return otherwise;
	if (seen->does_not_stop)
		return SNAP_TICK_MISS;
	if (!seen->over_budget)
		return SNAP_TICK_STOP;
	return otherwise == SNAP_TICK_SHOW_AS_IS ? otherwise : SNAP_TICK_LEAVE_OUT;
}

/* Without counters: whether it has moved is not known for sure, and a stop costs. */
static enum snap_tick_action decide_uncounted(enum snap_sampler_thread_state state,
					      const struct snap_observation *seen,
					      const struct snap_tick_rules *rules)
{
	enum snap_tick_action action;

	if (seen->too_soon)
		return SNAP_TICK_SKIP;
	action = stop_or(SNAP_TICK_MISS, seen, rules);
	/* Only the time that has passed spoke for it. */
	if (action == SNAP_TICK_LEAVE_OUT && state == SNAP_SAMPLER_THREAD_SETTLED)
		return SNAP_TICK_KEEP;
	return action;
}

static enum snap_tick_action decide_first(enum snap_sampler_thread_state state,
					  const struct snap_observation *seen,
					  const struct snap_tick_rules *rules)
{
	if (seen->is_worker)
		return SNAP_TICK_TELL;
	if (rules->cpu_only && seen->letter != 'R')
		return SNAP_TICK_TELL;
	if (rules->no_guard)
		return rules->cpu_only ? stop_or(SNAP_TICK_MISS, seen, rules)
				       : decide_uncounted(state, seen, rules);
	return SNAP_TICK_COPY;
}

enum snap_tick_action snap_tick_decide(enum snap_sampler_thread_state state,
				       const struct snap_observation *seen,
				       const struct snap_tick_rules *rules)
{
	/* A stop ends some calls with EINTR: one that runs now may soon be blocked again. */
	bool may_retry = rules->may_retry && state == SNAP_SAMPLER_THREAD_NEW;

	if (seen->sight == SNAP_SIGHT_GONE)
		return SNAP_TICK_END;
	if (seen->time_is_up)
		return SNAP_TICK_MISS;
	switch (seen->sight) {
	case SNAP_SIGHT_GONE:
		break;
	case SNAP_SIGHT_STILL:
		/* One that runs moves its counters only now and then: nothing follows from them. */
		if (state == SNAP_SAMPLER_THREAD_SETTLED && !(rules->no_guard && seen->is_due))
			return SNAP_TICK_KEEP;
		return decide_first(state, seen, rules);
	case SNAP_SIGHT_MOVED:
		return decide_first(state, seen, rules);
	case SNAP_SIGHT_SAME:
		return SNAP_TICK_KEEP;
	case SNAP_SIGHT_BLOCKED:
		return rules->cpu_only ? SNAP_TICK_TELL : SNAP_TICK_SHOW;
	case SNAP_SIGHT_QUEUED:
		return SNAP_TICK_SHOW;
	case SNAP_SIGHT_NEEDS_REGISTERS:
		return stop_or(SNAP_TICK_SHOW_AS_IS, seen, rules);
	case SNAP_SIGHT_RUNNING:
		if (may_retry)
			return SNAP_TICK_RETRY;
		if (seen->does_not_stop || rules->never_stop)
			return SNAP_TICK_MISS;
		return seen->over_budget ? SNAP_TICK_LEAVE_OUT : SNAP_TICK_STOP;
	case SNAP_SIGHT_UNREADABLE:
		if (may_retry)
			return SNAP_TICK_RETRY;
		/* A stop tells the registers, but moves the thread: the reason for the next one. */
		if (seen->seen_lately && !rules->only_tick)
			return SNAP_TICK_SKIP;
		return stop_or(SNAP_TICK_MISS, seen, rules);
	}
	return SNAP_TICK_END;
}
