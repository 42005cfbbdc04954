/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Decides whether a thread of 3.11 to 3.13 runs an event loop, as asyncio.get_running_loop() would.
 * Only then the heap is copied, among whose objects tasks are found. 3.13 has the loop in the state
 * of a thread, earlier versions have it in a dict of the thread. The process runs meanwhile, so
 * data that makes no sense may be changing, and counts as a loop. Knows nothing of loops
 * themselves.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/asyncio.h"

enum {
	MOST_READS = 1000, /* of a process */
	MOST_ENTRIES = 128,
	MOST_OTHERS = 16,
	/* a dict, its keys */
	DICT_KEYS = 32,
	KEYS_LOG_INDEX_BYTES = 9,
	KEYS_KIND = 10,
	KEYS_COUNT = 24,
	KEYS_SIZE = 32,
	GENERAL = 0, /* an entry has a hash before its key */
	ALL_STRINGS = 1,
	HOLDER_LOOP = 16, /* 3.11: in the object that represents the loop */
	HOLDER_MINOR = 11,
};

enum answer { NO, YES, UNKNOWN };

struct looking {
	const struct snap_python *python;
	uint64_t key;                 /* address of the string below; 0: not yet known */
	uint64_t others[MOST_OTHERS]; /* of other strings, as threads have the same ones */
	size_t other_count;
	size_t reads;
};

static const char name[] = "__asyncio_running_event_loop__";

static bool look_at_loop_thread(struct looking *looking, uint64_t address, void *out, size_t size)
{
	return looking->reads++ < MOST_READS &&
	       snap_runtime_read(looking->python->process, address, out, size);
}

static enum answer is_key(struct looking *looking, uint64_t address)
{
	const struct snap_python_layout *layout = &looking->python->layout;
	uint8_t text[SNAP_PYTHON_RECORD];
	size_t length = sizeof(name) - 1, size = layout->string.ascii + length;

	if (looking->key)
		return address == looking->key ? YES : NO;
	for (size_t i = 0; i < looking->other_count; i++)
		if (looking->others[i] == address)
			return NO;
	/* A shorter string has fewer bytes, so its length comes first. */
	if (!look_at_loop_thread(looking, address, text, layout->string.ascii))
		return UNKNOWN;
	if (snap_runtime_field(text, layout->string.length, 8) == length) {
		if (!look_at_loop_thread(looking, address, text, size))
			return UNKNOWN;
		if (memcmp(text + layout->string.ascii, name, length) == 0) {
			looking->key = address;
			return YES;
		}
	}
	if (looking->other_count < MOST_OTHERS)
		looking->others[looking->other_count++] = address;
	return NO;
}

static enum answer is_loop(struct looking *looking, uint64_t value)
{
	if (looking->python->layout.minor == HOLDER_MINOR &&
	    !look_at_loop_thread(looking, value + HOLDER_LOOP, &value, sizeof(value)))
		return UNKNOWN;
	return value == looking->python->heap.none ? NO : YES;
}

/* What a thread's dict says. */
static enum answer ask_dict(struct looking *looking, uint64_t dict)
{
	uint8_t head[KEYS_SIZE], log;
	uint64_t entries[MOST_ENTRIES * 3], keys, count, words;
	enum answer answer;

	if (!look_at_loop_thread(looking, dict + DICT_KEYS, &keys, sizeof(keys)) ||
	    !look_at_loop_thread(looking, keys, head, sizeof(head)))
		return UNKNOWN;
	count = snap_runtime_field(head, KEYS_COUNT, 8);
	log = head[KEYS_LOG_INDEX_BYTES];
	if (count == 0)
		return NO;
	if (count > MOST_ENTRIES || log > 16 || head[KEYS_KIND] > ALL_STRINGS)
		return UNKNOWN;
	words = head[KEYS_KIND] == GENERAL ? 3 : 2;
	if (!look_at_loop_thread(looking, keys + KEYS_SIZE + (1u << log), entries,
				 count * words * sizeof(*entries)))
		return UNKNOWN;
	for (size_t i = 0; i < count; i++) {
		const uint64_t *entry = entries + i * words + (words - 2); /* key, value */

		if (!entry[0] || !entry[1])
			continue;
		answer = is_key(looking, entry[0]);
		if (answer != NO)
			return answer == YES ? is_loop(looking, entry[1]) : UNKNOWN;
	}
	return NO;
}

/* One thread; where the next one is. */
static enum answer ask_thread(struct looking *looking, uint64_t *thread)
{
	const struct snap_python *python = looking->python;
	uint8_t state[SNAP_PYTHON_RECORD];
	uint32_t field =
		python->heap.thread_loop ? python->heap.thread_loop : python->heap.thread_dict;
	uint64_t found;

	if (!look_at_loop_thread(looking, *thread, state, field + sizeof(found)))
		return UNKNOWN;
	*thread = snap_runtime_field(state, python->layout.thread.next, 8);
	found = snap_runtime_field(state, field, 8);
	if (!found)
		return NO;
	return python->heap.thread_loop ? YES : ask_dict(looking, found);
}

bool snap_python_may_run_loop(const struct snap_python *python)
{
	const struct snap_python_layout *layout = &python->layout;
	struct looking looking = { .python = python };
	uint64_t interpreter, thread;

	if (!python->heap.none ||
	    !look_at_loop_thread(&looking, python->runtime + layout->runtime.interpreters,
				 &interpreter, sizeof(interpreter)))
		return true;
	while (interpreter) {
		if (!look_at_loop_thread(&looking, interpreter + layout->interpreter.threads,
					 &thread, sizeof(thread)))
			return true;
		while (thread)
			if (ask_thread(&looking, &thread) != NO)
				return true;
		if (!look_at_loop_thread(&looking, interpreter + layout->interpreter.next,
					 &interpreter, sizeof(interpreter)))
			return true;
	}
	return false;
}
