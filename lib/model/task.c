/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Words and order of tasks, see task.h. */
#include "model/task.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <string.h>

static const char *const state_words[] = {
	[SNAP_TASK_UNKNOWN] = "unknown",   [SNAP_TASK_RUNNING] = "running",
	[SNAP_TASK_RUNNABLE] = "runnable", [SNAP_TASK_SYSCALL] = "syscall",
	[SNAP_TASK_WAITING] = "waiting",   [SNAP_TASK_DEAD] = "dead",
};

const char *snap_task_state_word(enum snap_task_state state)
{
	return state_words[state];
}

const char *snap_logical_type_word(enum snap_logical_type type)
{
	static const char *const words[] = {
		[SNAP_LOGICAL_NORMAL] = "normal", [SNAP_LOGICAL_REQUEST] = "request",
		[SNAP_LOGICAL_SYSTEM] = "system", [SNAP_LOGICAL_DEAD] = "dead",
		[SNAP_LOGICAL_NONE] = "none",     [SNAP_LOGICAL_TASK] = "task",
	};

	return words[type];
}

enum snap_logical_type snap_logical_type_of_label(const char *word)
{
	if (strcmp(word, "request") == 0)
		return SNAP_LOGICAL_REQUEST;
	return strcmp(word, "system") == 0 ? SNAP_LOGICAL_SYSTEM : SNAP_LOGICAL_NORMAL;
}

const char *snap_runtime_cut_word(enum snap_runtime_cut cut)
{
	static const char *const words[] = {
		[SNAP_RUNTIME_WHOLE] = "",
		[SNAP_RUNTIME_CUT_TIME] = "time",
		[SNAP_RUNTIME_CUT_MEMORY] = "memory",
		[SNAP_RUNTIME_CUT_RECORDS] = "records",
		[SNAP_RUNTIME_TORN] = "torn",
	};

	return words[cut];
}

static bool is_number(const char *id)
{
	return *id && id[strspn(id, "0123456789")] == '\0';
}

static int compare_numbers(const char *a, const char *b)
{
	size_t m, n;

	a += strspn(a, "0");
	b += strspn(b, "0");
	m = strlen(a);
	n = strlen(b);
	return m != n ? (m > n) - (m < n) : strcmp(a, b);
}

int snap_task_compare_ids(const char *a, const char *b)
{
	bool numbers = is_number(a);

	if (numbers != is_number(b))
		return numbers ? -1 : 1;
	return (numbers ? compare_numbers(a, b) : 0) ?: strcmp(a, b);
}

bool snap_label_clashes(const char *key)
{
	static const char *const ours[] = {
		"state",     "wait",    "pid",         "tid",     "thread_name", "syscall",
		"wchan",     "cpu",     "type",        "process", "unit",        "task",
		"task_name", "runtime", "exe_deleted", "holder",  "guessed",
	};

	if (snap_any(SNAP_ARRAY_SIZE(ours), i, strcmp(ours[i], key) == 0))
		return true;
	/* A key that looks like a changed one must not become another. */
	return snap_begins_with(key, "label.");
}
