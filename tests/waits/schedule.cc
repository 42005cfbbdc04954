// SPDX-License-Identifier: LGPL-2.1-or-later
// The schedule with mutexes of C++, in classes: see schedule.h.
#include "schedule.h"

#include <mutex>

static std::mutex ledger_lock, journal_lock, cache_lock;

struct ledger {
	static NOINLINE void post(actor *me, int64_t round_ns)
	{
		std::unique_lock<std::mutex> guard(ledger_lock, std::defer_lock);

		HOLD(me, guard.lock(), KEEP_UNTIL(round_ns, 50), guard.unlock());
	}
	static NOINLINE void audit(actor *me, int64_t round_ns)
	{
		std::unique_lock<std::mutex> guard(ledger_lock, std::defer_lock);

		HOLD(me, guard.lock(), KEEP_UNTIL(round_ns, 90), guard.unlock());
	}
	static NOINLINE void read(actor *me, int64_t)
	{
		HOLD(me, ledger_lock.lock(), (void)0, ledger_lock.unlock());
	}
};

struct journal {
	static NOINLINE void write(actor *me, int64_t round_ns)
	{
		HOLD(me, journal_lock.lock(), KEEP_UNTIL(round_ns, 20), journal_lock.unlock());
	}
	static NOINLINE void read(actor *me, int64_t)
	{
		HOLD(me, journal_lock.lock(), (void)0, journal_lock.unlock());
	}
};

struct cache {
	static NOINLINE void fill(actor *me, int64_t round_ns)
	{
		HOLD(me, cache_lock.lock(), KEEP_UNTIL(round_ns, 10), cache_lock.unlock());
	}
	static NOINLINE void look_up(actor *me, int64_t)
	{
		HOLD(me, cache_lock.lock(), (void)0, cache_lock.unlock());
	}
};

int main()
{
	static const char *const names[LOCKS] = { "ledger_lock", "journal_lock", "cache_lock" };
	static actor actors[ACTORS] = {
		{ 0, "ledger::post", ledger::post, 0, 0, nullptr, nullptr },
		{ 0, "ledger::audit", ledger::audit, 1, 0, nullptr, nullptr },
		{ 0, "ledger::read", ledger::read, 2, 0, nullptr, nullptr },
		{ 1, "journal::write", journal::write, 0, 0, nullptr, nullptr },
		{ 1, "journal::read", journal::read, 1, 0, nullptr, nullptr },
		{ 1, "journal::read", journal::read, 2, 0, nullptr, nullptr },
		{ 2, "cache::fill", cache::fill, 0, 0, nullptr, nullptr },
		{ 2, "cache::look_up", cache::look_up, 1, 0, nullptr, nullptr },
		{ 2, "cache::look_up", cache::look_up, 2, 0, nullptr, nullptr },
	};

	return schedule_main(actors, names);
}
