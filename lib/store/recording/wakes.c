/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When waiting threads of a recording on disk have run between two ticks. See internal.h. The order of
 * wakes is not checked, as any order has a meaning.
 */
#include "store/recording/internal.h"

enum { RAN_BITS = 2 };

static const char NO_THREAD[] = "invalid thread reference";

/* Thread and kind in one number. False: there is none to be read. */
static bool code_wake(struct snap_log_file *file, struct snap_log_wake *wake)
{
	uint64_t bits =
		snap_log_zigzag((int64_t)wake->thread - file->last.woken) << RAN_BITS | wake->ran;
	int64_t thread;

	snap_log_code_any(file, bits);
	if (__builtin_add_overflow(file->last.woken, snap_log_unzigzag(bits >> RAN_BITS), &thread))
		thread = -1;
	snap_log_check(file, thread >= 0 && (uint64_t)thread < file->log->thread_count, NO_THREAD);
	snap_log_check(file, thread <= SNAP_LOG_WAKE_THREADS, NO_THREAD);
	snap_log_check(file, (bits & 3) < SNAP_LOG_RAN_COUNT, "unknown kind of a wake");
	if (!snap_log_fine(file))
		return false;
	file->last.woken = thread;
	wake->thread = (uint32_t)thread & SNAP_LOG_WAKE_THREADS;
	wake->ran = bits & 3;
	return file->reads;
}

static bool ran_before(const struct snap_log_file *file, size_t index)
{
	return file->log->ran_before[index];
}

static void code_ran_before(struct snap_log_file *file, size_t index)
{
	struct snap_log *log = file->log;
	struct snap_log_wake wake = { .thread = index & SNAP_LOG_WAKE_THREADS };

	snap_log_check(file, !file->has_ticks, "unexpected initial state");
	if (!file->reads)
		wake.ran = log->ran_before[index] & 3;
	else if (snap_log_fine(file) && !snap_log_make_ran_before(log))
		snap_log_fail_memory(file);
	if (code_wake(file, &wake))
		log->ran_before[wake.thread] = wake.ran;
}

void snap_log_code_ran_before(struct snap_log_file *file)
{
	file->last.woken = 0;
	snap_log_code_changed(file, file->has_ticks ? 0 : file->log->ran_before_count, ran_before,
			      code_ran_before);
}

void snap_log_code_wakes(struct snap_log_file *file, struct snap_log_tick *tick)
{
	struct snap_log *log = file->log;
	size_t count = snap_log_code_count(file, (size_t)(tick->wake_end - file->wakes), 1);

	file->last.woken = 0;
	while (count-- && snap_log_fine(file)) {
		struct snap_log_wake wake = { .thread = 0 };

		if (!file->reads)
			wake = log->wakes[file->wakes - log->first_wake];
		file->wakes++;
		if (!code_wake(file, &wake))
			continue;
		if (!snap_reserve_array(log->wakes, log->wake_capacity, log->wake_count + 1)) {
			snap_log_fail_memory(file);
			return;
		}
		log->wakes[log->wake_count++] = wake;
	}
	if (file->reads)
		tick->wake_end = file->wakes;
}
