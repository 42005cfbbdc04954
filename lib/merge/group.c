/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups of a merger: see state.h. Each property has its operation. None of them depends on the
 * order in which documents arrive.
 */
#include "merge/state.h"

#include <string.h>

static bool find_group(struct snap_merger *merger, uint64_t id, uint32_t *ret)
{
	uint64_t hash = snap_hash_mix(id);

	if (snap_hash_got(&merger->group_table, hash, i, merger->groups[i].id == id, ret))
		return true;
	if (!snap_reserve_array_zeroed(merger->groups, merger->group_capacity,
				       merger->group_count + 1) ||
	    !snap_hash_table_add(&merger->group_table, hash, merger->group_count))
		return false;
	merger->groups[merger->group_count].id = id;
	*ret = (uint32_t)merger->group_count++;
	return true;
}

/* ---- bodies: the smallest ---- */

static int compare_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
	int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

	return order ? order : (a_size > b_size) - (a_size < b_size);
}

static bool replace(char **text, size_t *size, const char *bytes, size_t count)
{
	char *grown = realloc(*text, count + 1);

	if (!grown)
		return false;
	memcpy(grown, bytes, count);
	grown[count] = '\0';
	*text = grown;
	*size = count;
	return true;
}

static bool add_host_to_modules(struct snap_merger *merger, const uint32_t *modules, size_t count,
				uint32_t host)
{
	return snap_all(count, i, snap_host_set_add(&merger->modules[modules[i]].hosts, host));
}

/* Numbers of the modules that a stack of a snapshot is in. */
static bool number_modules(struct snap_merger *merger, const struct snap_merge_document *document,
			   const struct snap_merge_stack *stack)
{
	if (!snap_reserve_array(merger->stack_modules, merger->stack_module_capacity,
				stack->place_count + 1))
		return false;
	return snap_all(stack->place_count, i,
			snap_merger_module(merger, &document->places[stack->place_at + i],
					   &merger->stack_modules[i]));
}

static bool keep_modules(struct snap_merger *merger, struct snap_merge_group *group, size_t count)
{
	uint32_t *modules = realloc(group->modules, (count + 1) * sizeof(*modules));

	if (!modules)
		return false;
	memcpy(modules, merger->stack_modules, count * sizeof(*modules));
	group->modules = modules;
	group->module_count = count;
	return true;
}

/*
 * A snapshot's stack is in some modules, which its host has therefore. Mostly the body is the one
 * that is known, whose modules are known, too.
 */
static bool add_body(struct snap_merger *merger, const struct snap_merge_document *document,
		     const struct snap_merge_stack *stack, struct snap_merge_group *group)
{
	const char *body = document->text.data + stack->body_at;
	int order = group->body
			    ? compare_bytes(body, stack->body_size, group->body, group->body_size)
			    : -1;

	if (order == 0 && (document->merged || group->modules))
		return document->merged ||
		       add_host_to_modules(merger, group->modules, group->module_count,
					   merger->numbers[0]);
	if (!document->merged) {
		if (!number_modules(merger, document, stack) ||
		    !add_host_to_modules(merger, merger->stack_modules, stack->place_count,
					 merger->numbers[0]))
			return false;
		if (order <= 0 && !keep_modules(merger, group, stack->place_count))
			return false;
	}
	if (order >= 0)
		return true;
	if (document->merged) {
		free(snap_take_ptr(group->modules));
		group->module_count = 0;
	}
	group->entries_size = stack->entries_size;
	return replace(&group->body, &group->body_size, body, stack->body_size);
}

/* ---- labels: those that all agree on ---- */

static size_t line_size(const char *at, const char *end)
{
	return (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) + 1 - at);
}

/* Keeps those lines of a sorted list that are in another one. */
static size_t intersect(char *kept, size_t size, const char *other, size_t other_size)
{
	const char *at = kept, *end = kept + size, *other_end = other + other_size;
	char *out = kept;

	while (at < end && other < other_end) {
		size_t length = line_size(at, end), other_length = line_size(other, other_end);
		int order = compare_bytes(at, length, other, other_length);

		if (order == 0) {
			memmove(out, at, length);
			out += length;
		}
		at += order <= 0 ? length : 0;
		other += order >= 0 ? other_length : 0;
	}
	return (size_t)(out - kept);
}

static bool add_merged_labels(const struct snap_merge_document *document,
			      const struct snap_merge_stack *stack, struct snap_merge_group *group)
{
	const char *labels = stack->labels_size ? document->labels.data + stack->labels_at : "";

	if (!group->labels)
		return replace(&group->labels, &group->labels_size, labels, stack->labels_size);
	if (group->labels_size != stack->labels_size ||
	    memcmp(group->labels, labels, stack->labels_size) != 0)
		group->labels_size =
			intersect(group->labels, group->labels_size, labels, stack->labels_size);
	return true;
}

/* ---- examples: the smallest of each of the first hosts ---- */

static int compare_hosts(const struct snap_merger *merger, uint32_t a, uint32_t b)
{
	return a == b ? 0 : snap_merger_compare_hosts(&merger->hosts[a], &merger->hosts[b]);
}

static int compare_body_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

/* Of one host. */
static bool is_smaller(const struct snap_merged_example *a, const struct snap_merged_example *b)
{
	int order = (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns) ?:
		    (a->pid > b->pid) - (a->pid < b->pid) ?:
		    (a->tid > b->tid) - (a->tid < b->tid) ?:
		    compare_body_texts(a->task, b->task) ?:
		    compare_body_texts(a->process, b->process) ?: compare_body_texts(a->thread, b->thread);

	return order < 0;
}

static bool add_example(struct snap_merger *merger, const struct snap_merge_example *from,
			struct snap_merge_group *group)
{
	struct snap_merged_example example = {
		.host = merger->numbers[from->host],
		.time_ns = from->time_ns,
		.pid = from->pid,
		.tid = from->tid,
	};
	size_t at = 0, rest;
	int order = 1;

	while (at < group->example_count &&
	       (order = compare_hosts(merger, group->examples[at].host, example.host)) < 0)
		at++;
	if (at == SNAP_MERGED_EXAMPLES)
		return true;
	if (!snap_merger_intern(merger, &from->process, &example.process) ||
	    !snap_merger_intern(merger, &from->thread, &example.thread) ||
	    !snap_merger_intern(merger, &from->task, &example.task))
		return false;
	if (at < group->example_count && order == 0) {
		if (is_smaller(&example, &group->examples[at]))
			group->examples[at] = example;
		return true;
	}
	if (group->example_count < SNAP_MERGED_EXAMPLES)
		group->example_count++;
	rest = group->example_count - at - 1;
	memmove(&group->examples[at + 1], &group->examples[at], rest * sizeof(example));
	group->examples[at] = example;
	return true;
}

/* ---- the whole ---- */

static bool add_hosts(struct snap_merger *merger, const struct snap_merge_document *document,
		      const struct snap_merge_stack *stack, struct snap_merge_group *group)
{
	if (!document->merged)
		return snap_host_set_add(&group->hosts, merger->numbers[0]);
	if (!snap_merge_parse_set(&stack->hosts, document->host_count, &merger->set))
		return false;
	for (size_t i = 0; i < merger->set.count; i++)
		for (uint32_t host = merger->set.ranges[i].first;
		     host <= merger->set.ranges[i].last; host++)
			if (!snap_host_set_add(&group->hosts, merger->numbers[host]))
				return false;
	return true;
}

bool snap_merger_add_stack(struct snap_merger *merger, const struct snap_merge_document *document,
			   const struct snap_merge_stack *stack, uint32_t *ret)
{
	struct snap_merge_group *group;

	if (!find_group(merger, stack->id, ret))
		return false;
	group = &merger->groups[*ret];
	group->process_count += stack->processes;
	group->thread_count += stack->threads;
	group->task_count += stack->tasks;
	if (!add_hosts(merger, document, stack, group) ||
	    !add_body(merger, document, stack, group) || !add_merged_labels(document, stack, group))
		return false;
	return snap_all(stack->example_count, i,
			add_example(merger, &document->examples[stack->example_at + i], group));
}
