/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Labels of groups of threads: see group_label.h. */
#include "model/group_label.h"

#include "base/text.h"

#include <string.h>

enum { MAX_RUNS = SNAP_MAX_THREAD_NAME / 2 };

static size_t digits_at(const char *text)
{
	return strspn(text, "0123456789");
}

/* The name with every run of digits as a star: "worker-12" -> "worker-*". */
static void pattern_of(const char *name, char *out)
{
	size_t n = 0;

	while (*name && n < SNAP_MAX_THREAD_NAME - 1) {
		size_t digits = digits_at(name);

		out[n++] = digits ? '*' : *name;
		name += digits ? digits : 1;
	}
	out[n] = '\0';
}

/*
 * Marks the runs of digits in which two names differ; false: they differ in more than that.
 */
static bool compare_runs(const char *a, const char *b, bool *differ)
{
	for (size_t run = 0; *a || *b;) {
		size_t m = digits_at(a), n = digits_at(b);

		if (m && n) {
			if (run == MAX_RUNS)
				return false;
			if (m != n || memcmp(a, b, m) != 0)
				differ[run] = true;
			run++;
			a += m;
			b += n;
		} else if (*a++ != *b++) {
			return false;
		}
	}
	return true;
}

static const char *group_name_at(const char *const *first, size_t stride, size_t number)
{
	const void *place = (const char *)first + number * stride;

	return *(const char *const *)place;
}

bool snap_label_fold_names(const char *const *names, size_t stride, size_t count, char *out,
			   size_t size)
{
	bool differ[MAX_RUNS] = { false };
	const char *first = count ? names[0] : NULL;
	size_t n = 0, run = 0;

	if (!first)
		return false;
	for (size_t i = 1; i < count; i++) {
		const char *name = group_name_at(names, stride, i);

		if (name == first)
			continue;
		if (!name || !compare_runs(first, name, differ))
			return false;
	}
	while (*first && n < size - 1) {
		size_t digits = digits_at(first);

		if (digits && run < MAX_RUNS && differ[run]) {
			out[n++] = '*';
			first += digits;
		} else {
			for (size_t i = 0; i < (digits ? digits : 1) && n < size - 1; i++)
				out[n++] = *first++;
		}
		run += digits > 0;
	}
	out[n] = '\0';
	return true;
}

bool snap_label_fold(const struct snap_member *threads, size_t count, char *out)
{
	return snap_label_fold_names(&threads[0].name, sizeof(*threads), count, out,
				     SNAP_MAX_THREAD_NAME);
}

uint64_t snap_label_key(const struct snap_member *member, unsigned group_by, uint64_t seed)
{
	char pattern[SNAP_MAX_THREAD_NAME];
	/* So that grouping by stack alone gives what other groupings go on from. */
	uint64_t hash = group_by == SNAP_GROUP_STACK ? seed : snap_hash_number(group_by, seed);

	if (group_by & SNAP_GROUP_STATE)
		hash = snap_hash_text(snap_state_word(member->state), hash);
	if (group_by & SNAP_GROUP_NAME) {
		pattern_of(member->name ? member->name : "", pattern);
		hash = snap_hash_text(pattern, hash);
	}
	if (group_by & SNAP_GROUP_SYSCALL)
		hash = snap_hash_text(member->syscall, hash);
	if (group_by & SNAP_GROUP_WCHAN)
		hash = snap_hash_text(member->wchan, hash);
	if (group_by & SNAP_GROUP_CPU)
		hash = snap_hash_number((uint64_t)member->cpu, hash);
	if (group_by & SNAP_GROUP_TYPE)
		hash = snap_hash_number(member->kernel, hash);
	if (group_by & SNAP_GROUP_WAIT)
		hash = snap_wait_hash(member->wait, hash);
	return group_by & SNAP_GROUP_TID ? snap_hash_number((uint64_t)member->tid, hash) : hash;
}

/* The values of one thread, NULL: unknown. */
struct values {
	const char *state, *syscall, *wchan, *type;
	int cpu;
};

static struct values values_of(const struct snap_member *member)
{
	return (struct values){ snap_state_word(member->state), member->syscall, member->wchan,
				member->kernel ? "kernel" : "user", member->cpu };
}

static void clear_different(struct values *common, struct values other)
{
	if (common->state != other.state)
		common->state = NULL;
	if (!snap_same_text(common->syscall, other.syscall))
		common->syscall = NULL;
	if (!snap_same_text(common->wchan, other.wchan))
		common->wchan = NULL;
	if (common->type != other.type)
		common->type = NULL;
	if (common->cpu != other.cpu)
		common->cpu = -1;
}

/* NULL for ""; *ok becomes false without memory. */
static const char *intern_label(struct snap_interner *strings, const char *text, bool *ok)
{
	const char *kept = *text ? snap_intern(strings, text, strlen(text)) : NULL;

	if (*text && !kept)
		*ok = false;
	return kept;
}

static void add_group_label(struct snap_stack *stack, const char *key, const char *value)
{
	if (value)
		stack->labels[stack->label_count++] = (struct snap_label){ key, value };
}

bool snap_label_stack(struct snap_interner *strings, struct snap_stack *stack)
{
	enum { LABELS = 6 };
	struct values common = values_of(&stack->threads[0]);
	const struct snap_label *others = stack->labels;
	size_t other_count = stack->label_count;
	char name[SNAP_MAX_THREAD_NAME], cpu[16];
	const char *kept_name = NULL, *kept_cpu = NULL;
	bool ok = true;

	for (size_t i = 1; i < stack->thread_count; i++)
		clear_different(&common, values_of(&stack->threads[i]));
	if (snap_label_fold(stack->threads, stack->thread_count, name))
		kept_name = intern_label(strings, name, &ok);
	if (common.cpu >= 0) {
		snprintf(cpu, sizeof(cpu), "%d", common.cpu);
		kept_cpu = intern_label(strings, cpu, &ok);
	}
	stack->labels =
		snap_arena_new_array(strings->arena, LABELS + other_count, struct snap_label);
	if (!stack->labels || !ok)
		return false;
	stack->label_count = 0;
	add_group_label(stack, "state", common.state);
	add_group_label(stack, "thread_name", kept_name);
	add_group_label(stack, "syscall", common.syscall);
	add_group_label(stack, "wchan", common.wchan);
	add_group_label(stack, "cpu", kept_cpu);
	add_group_label(stack, "type", common.type);
	for (size_t i = 0; i < other_count; i++)
		if (!snap_label_clashes(others[i].key) || snap_begins_with(others[i].key, "label."))
			add_group_label(stack, others[i].key, others[i].value);
	return true;
}
