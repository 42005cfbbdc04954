/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The schedule with mutexes of the C library: see schedule.h. */
#include "schedule.h"

static pthread_mutex_t ledger_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

static NOINLINE void post_ledger(struct actor *me, int64_t round_ns)
{
	HOLD(me, pthread_mutex_lock(&ledger_lock), KEEP_UNTIL(round_ns, 50),
	     pthread_mutex_unlock(&ledger_lock));
}

static NOINLINE void audit_ledger(struct actor *me, int64_t round_ns)
{
	HOLD(me, pthread_mutex_lock(&ledger_lock), KEEP_UNTIL(round_ns, 90),
	     pthread_mutex_unlock(&ledger_lock));
}

static NOINLINE void read_ledger(struct actor *me, int64_t round_ns)
{
	(void)round_ns;
	HOLD(me, pthread_mutex_lock(&ledger_lock), (void)0, pthread_mutex_unlock(&ledger_lock));
}

static NOINLINE void write_journal(struct actor *me, int64_t round_ns)
{
	HOLD(me, pthread_mutex_lock(&journal_lock), KEEP_UNTIL(round_ns, 20),
	     pthread_mutex_unlock(&journal_lock));
}

static NOINLINE void read_journal(struct actor *me, int64_t round_ns)
{
	(void)round_ns;
	HOLD(me, pthread_mutex_lock(&journal_lock), (void)0, pthread_mutex_unlock(&journal_lock));
}

static NOINLINE void fill_cache(struct actor *me, int64_t round_ns)
{
	HOLD(me, pthread_mutex_lock(&cache_lock), KEEP_UNTIL(round_ns, 10),
	     pthread_mutex_unlock(&cache_lock));
}

static NOINLINE void look_up_cache(struct actor *me, int64_t round_ns)
{
	(void)round_ns;
	HOLD(me, pthread_mutex_lock(&cache_lock), (void)0, pthread_mutex_unlock(&cache_lock));
}

int main(void)
{
	static const char *const names[LOCKS] = { "ledger_lock", "journal_lock", "cache_lock" };
	static struct actor actors[ACTORS] = {
		{ .lock = 0, .function = "post_ledger", .act = post_ledger, .after = 0 },
		{ .lock = 0, .function = "audit_ledger", .act = audit_ledger, .after = 1 },
		{ .lock = 0, .function = "read_ledger", .act = read_ledger, .after = 2 },
		{ .lock = 1, .function = "write_journal", .act = write_journal, .after = 0 },
		{ .lock = 1, .function = "read_journal", .act = read_journal, .after = 1 },
		{ .lock = 1, .function = "read_journal", .act = read_journal, .after = 2 },
		{ .lock = 2, .function = "fill_cache", .act = fill_cache, .after = 0 },
		{ .lock = 2, .function = "look_up_cache", .act = look_up_cache, .after = 1 },
		{ .lock = 2, .function = "look_up_cache", .act = look_up_cache, .after = 2 },
	};

	return schedule_main(actors, names);
}
