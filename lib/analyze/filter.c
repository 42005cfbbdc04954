/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Filters: see filter.h. The words system and idle are those of classify.c. A snapshot that was
 * made without filters is filtered later: threads are removed from their groups, empty groups are
 * removed, and groups that lost a thread get new labels.
 */
#include "analyze/filter.h"

#include "analyze/classify.h"
#include "analyze/function_name.h"
#include "analyze/group.h"
#include "analyze/task/task.h"
#include "analyze/tree.h"
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/text.h"
#include "model/group_label.h"
#include "model/wait/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As it is shown, or as it stands in the source: "^parse$" means "parse.constprop.0", too. */
static bool name_matches(const regex_t *regex, const char *name)
{
	char own[SNAP_MAX_NAME];
	size_t length = snap_function_name_length(name);

	if (regexec(regex, name, 0, NULL, 0) == 0)
		return true;
	if (!name[length] || length >= sizeof(own))
		return false;
	memcpy(own, name, length);
	own[length] = '\0';
	return regexec(regex, own, 0, NULL, 0) == 0;
}

static bool frame_matches(const regex_t *regex, const struct snap_frame *frame)
{
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		if (entry->function && name_matches(regex, entry->function))
			return true;
		if (entry->symbol && entry->symbol != entry->function &&
		    name_matches(regex, entry->symbol))
			return true;
	}
	return false;
}

/* The innermost frame; `count`: none matches. */
static size_t find_match(const regex_t *regex, const struct snap_frame **frames, size_t count)
{
	size_t i = 0;

	while (i < count && ((i && frames[i] == frames[i - 1]) || !frame_matches(regex, frames[i])))
		i++;
	return i;
}

/* A function of the language's library, which calls a wait on behalf of the program. */
static bool stands_between(const struct snap_entry *entry, const struct snap_entry *called)
{
	if (entry->language)
		return !called->language;
	return snap_classify_rust_library(entry->symbol, entry->function) &&
	       !snap_classify_waits_for_work(entry->function);
}

/*
 * The innermost function that is not system code, or the system function that it called: one of
 * them is a wait for work. A stack of system code alone is idle, one without frames is not.
 */
static const char *idle_function(const struct snap_frame **frames, size_t count)
{
	const struct snap_entry *called = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct snap_frame *frame = frames[i];

		for (size_t k = 0; k < frame->entry_count; k++) {
			const struct snap_entry *entry = &frame->entries[k];

			if (entry->kernel)
				continue;
			if (!entry->system)
				return snap_classify_waits_for_work(entry->function)
					       ? entry->function
				       : called && snap_classify_waits_for_work(called->function)
					       ? called->function
					       : NULL;
			if (!called || !stands_between(entry, called))
				called = entry;
		}
	}
	if (!called)
		return NULL;
	return called->function ?: "";
}

struct snap_filter_stack snap_filter_check_stack(const struct snap_options *options,
						 const struct snap_frame **frames, size_t count)
{
	size_t match = options->match_regex ? find_match(options->match_regex, frames, count) : 0;
	const char *idle = idle_function(frames, count);

	return (struct snap_filter_stack){
		.matches = !options->match_regex || match < count,
		.match = match,
		.idle = idle && !snap_classify_is_busy(frames, count) ? idle : NULL,
		.at_root = snap_task_waits_at_its_root(frames, count),
		.frames = frames,
		.frame_count = count,
	};
}

/* ---- threads that others wait for ---- */

enum { MOST_GENERATIONS = 16 }; /* children of children that are waited for */

/* A wait that a thread or process must end which has something; the end of a thread is no such thing. */
static bool is_for_owner(const struct snap_wait *wait)
{
	return wait && wait->confidence >= SNAP_WAIT_IS_LIKELY &&
	       (snap_wait_kind_is(wait->kind, SNAP_KIND_LOCK) ||
		snap_wait_kind_is(wait->kind, SNAP_KIND_ENDED_BY_OWNER)) &&
	       wait->kind != SNAP_WAIT_THREAD;
}

static bool add_owner(struct snap_filter_needed *needed, const struct snap_wait_party *party,
		      enum snap_filter_need need)
{
	return snap_append(needed->owners, needed->count, needed->capacity,
			   (struct snap_filter_owner){
				   party->pid, party->tid ? party->tid : party->pid, need, 0 });
}

/* At the other end of what a thread reads or writes; a listener and an epoll have none. */
static bool add_peers(struct snap_filter_needed *needed, const struct snap_wait *wait)
{
	enum snap_filter_need need =
		wait->mode == SNAP_WAIT_WRITE ? SNAP_FILTER_READS : SNAP_FILTER_WRITES;

	return snap_all(wait->peer_count, i, add_owner(needed, &wait->peers[i], need));
}

/* A lock that any thread may have. Python's own library takes locks to wait for work. */
static bool lacks_owner(const struct snap_wait *wait, const struct snap_frame *const *frames,
			size_t count)
{
	if (wait && snap_same_text(wait->variant, "python"))
		return snap_frames_are_own_managed(frames, count);
	return is_for_owner(wait) && !wait->has_owner && !wait->holder_count &&
	       wait->owner_lack != SNAP_OWNER_KNOWN;
}

bool snap_filter_needed_add(struct snap_filter_needed *needed, pid_t pid, pid_t tid,
			    const struct snap_wait *wait, const struct snap_frame *const *frames,
			    size_t count)
{
	if (!wait || wait->confidence < SNAP_WAIT_IS_LIKELY)
		return true;
	if (lacks_owner(wait, frames, count))
		return add_owner(needed, &(struct snap_wait_party){ .pid = pid },
				 SNAP_FILTER_MAY_HAVE_LOCK);
	if (wait->kind == SNAP_WAIT_CHILD && wait->child > 0) {
		const struct snap_wait_party waiter = { .pid = pid, .tid = tid };

		if (!add_owner(needed, &waiter, SNAP_FILTER_HAS_CHILD))
			return false;
		needed->owners[needed->count - 1].child = wait->child;
		return true;
	}
	if (wait->kind == SNAP_WAIT_VFORK)
		return wait->child <= 0 ||
		       add_owner(needed, &(struct snap_wait_party){ .pid = wait->child },
				 SNAP_FILTER_READS);
	if (!is_for_owner(wait))
		return !snap_wait_kind_is(wait->kind, SNAP_KIND_HAS_ENDS) ||
		       add_peers(needed, wait);
	for (size_t i = 0; i < wait->holder_count; i++)
		if (!add_owner(needed, &wait->holders[i], SNAP_FILTER_HAS_LOCK))
			return false;
	return !wait->has_owner || add_owner(needed, &wait->owner, SNAP_FILTER_HAS_LOCK);
}

SNAP_ORDER(compare_owners, struct snap_filter_owner, a, b, snap_compare(a->pid, b->pid),
	   snap_compare(a->tid, b->tid), snap_compare(a->need, b->need));

void snap_filter_needed_deinit(struct snap_filter_needed *needed)
{
	free(needed->owners);
}

/* Among the first ones, which are sorted. */
static bool is_owner(const struct snap_filter_needed *needed, size_t count, pid_t pid, pid_t tid,
		     enum snap_filter_need need)
{
	const struct snap_filter_owner wanted = { pid, tid, need, 0 };

	return count && bsearch(&wanted, needed->owners, count, sizeof(wanted), compare_owners);
}

/* A child for which the holder of a lock waits holds it as well. *more_ret: one more is needed. */
static bool add_children(struct snap_filter_needed *needed, bool *more_ret)
{
	size_t count = needed->count;

	*more_ret = false;
	for (size_t i = 0; i < count; i++) {
		const struct snap_filter_owner owner = needed->owners[i];
		const struct snap_wait_party child = { .pid = owner.child };

		if (owner.need != SNAP_FILTER_HAS_CHILD ||
		    !is_owner(needed, count, owner.pid, owner.tid, SNAP_FILTER_HAS_LOCK) ||
		    is_owner(needed, count, child.pid, child.pid, SNAP_FILTER_HAS_LOCK))
			continue;
		if (!add_owner(needed, &child, SNAP_FILTER_HAS_LOCK))
			return false;
		*more_ret = true;
	}
	return true;
}

bool snap_filter_needed_sort(struct snap_filter_needed *needed)
{
	bool more = needed->count > 0;

	/* The last ones that were added are not yet in their places. */
	for (int depth = 0; more && depth < MOST_GENERATIONS; depth++) {
		qsort(needed->owners, needed->count, sizeof(*needed->owners), compare_owners);
		if (!add_children(needed, &more))
			return false;
	}
	if (more)
		qsort(needed->owners, needed->count, sizeof(*needed->owners), compare_owners);
	return true;
}

static bool is_needed_for(const struct snap_filter_needed *needed, pid_t pid,
			  const struct snap_member *member, enum snap_filter_need need)
{
	return needed && is_owner(needed, needed->count, pid, member->tid, need);
}

/* Locks of Python keep no owner either, but its library takes them to wait for work. */
static bool waits_for_holder(const struct snap_wait *wait)
{
	return is_for_owner(wait) &&
	       (wait->has_owner || wait->holder_count ||
		(wait->owner_lack != SNAP_OWNER_KNOWN && !snap_same_text(wait->variant, "python")));
}

static enum snap_urgency urgency_of(const struct snap_filter_needed *needed, pid_t pid,
				    const struct snap_member *member)
{
	if (member->state == SNAP_STATE_RUNNING)
		return SNAP_URGENT_RUNNING;
	if (member->state == SNAP_STATE_DISK)
		return SNAP_URGENT_DISK;
	if (is_needed_for(needed, pid, member, SNAP_FILTER_HAS_LOCK))
		return SNAP_URGENT_HOLDER;
	return waits_for_holder(member->wait) ? SNAP_URGENT_LOCK : SNAP_URGENT_REST;
}

static enum snap_urgency urgency_of_task(const struct snap_task *task)
{
	const unsigned runs = SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNING) |
			      SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNABLE) |
			      SNAP_TASK_STATE_BIT(SNAP_TASK_SYSCALL);

	return SNAP_TASK_STATE_BIT(task->state) & runs ? SNAP_URGENT_RUNNING
	       : snap_task_waits_for_lock(task)        ? SNAP_URGENT_LOCK
						       : SNAP_URGENT_REST;
}

/* That of its most urgent thread or task. */
static enum snap_urgency urgency_of_stack(const struct snap_filter_needed *needed, pid_t pid,
					  const struct snap_stack *stack)
{
	enum snap_urgency most = SNAP_URGENT_REST;

	for (size_t i = 0; i < stack->thread_count; i++)
		most = SNAP_MIN(most, urgency_of(needed, pid, &stack->threads[i]));
	for (size_t i = 0; i < stack->task_count; i++)
		most = SNAP_MIN(most, urgency_of_task(&stack->tasks[i]));
	return most;
}

static void rank_stacks(const struct snap_filter_needed *needed, pid_t pid,
			struct snap_stack *stacks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		stacks[i].urgency = urgency_of_stack(needed, pid, &stacks[i]);
}

void snap_filter_rank(const struct snap_filter_needed *needed, struct snap_node *node)
{
	rank_stacks(needed, node->pid, node->stacks, node->stack_count);
	for (size_t i = 0; i < node->logical_count; i++)
		rank_stacks(needed, node->pid, node->logical[i].stacks,
			    node->logical[i].stack_count);
}

/* A reader of what it writes waits for its children, too: they have that end as well. */
static bool is_needed(const struct snap_filter_needed *needed, pid_t pid,
		      const struct snap_member *member)
{
	bool hands_on = member->wait && member->wait->kind == SNAP_WAIT_CHILD;

	return is_needed_for(needed, pid, member, SNAP_FILTER_HAS_LOCK) ||
	       is_needed_for(needed, pid, member, SNAP_FILTER_READS) ||
	       (!hands_on && is_needed_for(needed, pid, member, SNAP_FILTER_WRITES));
}

bool snap_filter_is_idle(const struct snap_filter_needed *needed, pid_t pid,
			 const struct snap_member *member, const struct snap_filter_stack *stack)
{
	/* "idle" is also the kernel's word for its own threads that wait without load. */
	if (member->state == SNAP_STATE_IDLE)
		return true;
	if (member->state != SNAP_STATE_SLEEPING)
		return false;
	/* Whatever liburing's own functions are called. */
	if (!stack->idle && (!snap_same_text(member->syscall, "io_uring_enter") ||
			     snap_classify_is_busy(stack->frames, stack->frame_count)))
		return false;
	if (member->wait && member->wait->kind == SNAP_WAIT_SLEEP && needed &&
	    is_owner(needed, needed->count, pid, pid, SNAP_FILTER_MAY_HAVE_LOCK))
		return false;
	return !lacks_owner(member->wait, stack->frames, stack->frame_count) &&
	       !snap_classify_hands_over(member->syscall) && !waits_for_holder(member->wait) &&
	       !is_needed(needed, pid, member);
}

bool snap_filter_chooses(const regex_t *regex, const char *name, const char *id)
{
	regmatch_t found = { .rm_eo = 0 };

	if (name && regexec(regex, name, 0, NULL, 0) == 0)
		return true;
	return id && regexec(regex, id, 1, &found, 0) == 0 && found.rm_so == 0 &&
	       (size_t)found.rm_eo == strlen(id);
}

static bool is_chosen_thread(const struct snap_options *options, const struct snap_member *member)
{
	char tid[16];

	if (!options->thread_regex)
		return true;
	snprintf(tid, sizeof(tid), "%d", member->tid);
	return snap_filter_chooses(options->thread_regex, member->name ? member->name : "", tid);
}

enum snap_filter_verdict snap_filter_check_thread(const struct snap_options *options,
						  const struct snap_member *member,
						  const struct snap_filter_stack *stack)
{
	if ((options->states && !(options->states & 1u << member->state)) || !stack->matches)
		return SNAP_FILTER_HIDES;
	if (!is_chosen_thread(options, member))
		return SNAP_FILTER_HIDES;
	if (options->no_system && member->kernel)
		return SNAP_FILTER_HIDES;
	return options->no_idle && member->idle ? SNAP_FILTER_IDLE : SNAP_FILTER_SHOWS;
}

/* Which of several stacks with as many threads is named must not depend on their order. */
static bool is_more(const struct snap_idle *idle, pid_t pid, const struct snap_stack *stack,
		    size_t count)
{
	if (count != idle->most)
		return count > idle->most;
	return (strcmp(stack->id, idle->id) ?: snap_compare(pid, idle->pid)) < 0;
}

bool snap_filter_count_idle(struct snap_interner *strings, struct snap_idle *idle, pid_t pid,
			    const struct snap_stack *stack, const struct snap_member *threads,
			    size_t count)
{
	char name[SNAP_MAX_THREAD_NAME];

	idle->threads += count;
	idle->stacks++;
	if (!is_more(idle, pid, stack, count))
		return true;
	idle->most = count;
	idle->pid = pid;
	memcpy(idle->id, stack->id, sizeof(idle->id));
	idle->function = idle_function(stack->frames, stack->frame_count);
	/* Of system code alone, or where -n has cut the stack. */
	if (!snap_classify_waits_for_work(idle->function))
		idle->function = stack->frame_count ? stack->frames[0]->entries->function : NULL;
	idle->name = NULL;
	if (!snap_label_fold(threads, count, name))
		return true;
	idle->name = snap_intern(strings, name, strlen(name));
	return idle->name != NULL;
}

bool snap_filter_hides_type(const struct snap_options *options, const struct snap_node *node)
{
	return options->no_system &&
	       (node->type == SNAP_TYPE_SYSTEM || node->type == SNAP_TYPE_KERNEL ||
		node->type == SNAP_TYPE_NONE);
}

bool snap_filter_is_empty(const struct snap_options *options, const struct snap_node *node)
{
	bool filtered = options->states || options->thread_regex || options->match_regex ||
			options->no_idle;

	if (!filtered || snap_node_stack_count(node))
		return false;
	/* What could not be read might have matched: it stays, unless it has no threads at all. */
	return !node->trouble || node->type == SNAP_TYPE_DEAD || node->type == SNAP_TYPE_KERNEL;
}

/* ---- a whole snapshot ---- */

struct filtering {
	const struct snap_options *options;
	struct snap_filter_needed needed;
	struct snap_idle idle;
	struct snap_interner strings;
	bool unsaid;              /* which threads are idle */
	struct snap_node **nodes; /* parents before their children */
	size_t *parents;
	size_t count, node_capacity, parent_capacity;
};

static void filtering_deinit(struct filtering *filtering)
{
	snap_interner_deinit(&filtering->strings);
	snap_filter_needed_deinit(&filtering->needed);
	free(filtering->nodes);
	free(filtering->parents);
}

static bool list_siblings(struct filtering *filtering, struct snap_node **nodes, size_t count,
			  size_t parent)
{
	for (size_t i = 0; i < count; i++) {
		if (!snap_reserve_array(filtering->nodes, filtering->node_capacity,
					filtering->count + 1) ||
		    !snap_reserve_array(filtering->parents, filtering->parent_capacity,
					filtering->count + 1))
			return false;
		filtering->nodes[filtering->count] = nodes[i];
		filtering->parents[filtering->count++] = parent;
	}
	return true;
}

/* All processes, and takes the tree apart. */
static bool list_nodes(struct filtering *filtering, const struct snap_snapshot *snapshot)
{
	if (!list_siblings(filtering, snapshot->processes, snapshot->root_count, SIZE_MAX))
		return false;
	for (size_t i = 0; i < filtering->count; i++) {
		struct snap_node *node = filtering->nodes[i];

		if (!list_siblings(filtering, node->children, node->child_count, i))
			return false;
		node->children = NULL;
		node->child_count = 0;
	}
	return true;
}

/* Threads that have not run since the first of two snapshots. */
static void count_stuck(const struct filtering *filtering, struct snap_snapshot *snapshot)
{
	for (size_t i = 0; i < filtering->count; i++) {
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		while ((stack = snap_node_next_stack(filtering->nodes[i], &cursor)))
			for (size_t k = 0; k < stack->thread_count; k++) {
				const struct snap_member *thread = &stack->threads[k];

				snapshot->stuck += thread->stuck;
				snapshot->stuck_idle += thread->stuck && thread->idle;
				snapshot->stopped += thread->state == SNAP_STATE_STOPPED;
			}
	}
}

/* False without memory. */
static bool find_needed(struct filtering *filtering)
{
	for (size_t i = 0; i < filtering->count; i++) {
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		while ((stack = snap_node_next_stack(filtering->nodes[i], &cursor)))
			for (size_t k = 0; k < stack->thread_count; k++)
				if (!snap_filter_needed_add(
					    &filtering->needed, filtering->nodes[i]->pid,
					    stack->threads[k].tid, stack->threads[k].wait,
					    stack->frames, stack->frame_count))
					return false;
	}
	return snap_filter_needed_sort(&filtering->needed);
}

/* Moves those that stay to the front. False without memory. */
static bool filter_stack(struct filtering *filtering, const struct snap_node *node,
			 struct snap_stack *stack)
{
	struct snap_filter_stack facts =
		snap_filter_check_stack(filtering->options, stack->frames, stack->frame_count);
	_cleanup_free_ struct snap_member *idle = malloc((stack->thread_count + 1) * sizeof(*idle));
	size_t kept = 0, idle_count = 0;

	if (!idle)
		return false;
	for (size_t i = 0; i < stack->thread_count; i++) {
		struct snap_member *thread = &stack->threads[i];
		enum snap_filter_verdict verdict;

		/* Another version may have said nothing of it. */
		if (filtering->unsaid && !thread->idle)
			thread->idle =
				snap_filter_is_idle(&filtering->needed, node->pid, thread, &facts);
		verdict = snap_filter_check_thread(filtering->options, thread, &facts);
		if (verdict == SNAP_FILTER_IDLE)
			idle[idle_count++] = *thread;
		else if (verdict == SNAP_FILTER_SHOWS)
			stack->threads[kept++] = *thread;
	}
	if (idle_count && !snap_filter_count_idle(&filtering->strings, &filtering->idle, node->pid,
						  stack, idle, idle_count))
		return false;
	if (kept == stack->thread_count)
		return true;
	stack->count = stack->thread_count = kept;
	stack->wait = snap_group_wait(stack);
	stack->crashed = snap_stack_has_thread(stack, node->signal.tid);
	return kept == 0 || snap_label_stack(&filtering->strings, stack);
}

static bool filter_node(struct filtering *filtering, struct snap_node *node)
{
	size_t kept = 0;

	for (size_t i = 0; i < node->stack_count; i++) {
		if (!node->stacks[i].runtime && !filter_stack(filtering, node, &node->stacks[i]))
			return false;
		if (node->stacks[i].count)
			node->stacks[kept++] = node->stacks[i];
	}
	node->stack_count = kept;
	if (kept)
		qsort(node->stacks, kept, sizeof(*node->stacks), snap_stack_compare);
	return true;
}

void snap_filter_clear(struct snap_options *options)
{
	options->states = 0;
	options->thread_regex = options->match_regex = NULL;
	options->no_idle = false;
}

struct stacksnap_error *snap_filter_snapshot(struct snap_snapshot *snapshot,
					     const struct snap_options *options, bool regroup)
{
	_cleanup_(filtering_deinit) struct filtering filtering = {
		.options = options, .unsaid = snapshot->tool_version != NULL
	};
	bool flat = snapshot->flat;

	snap_interner_init(&filtering.strings, &snapshot->arena);
	if (!list_nodes(&filtering, snapshot) || !find_needed(&filtering))
		return snap_error_no_memory();
	/* A document has counted them before its own filters. */
	if (snapshot->again_ns && !snapshot->stuck && !snapshot->stopped)
		count_stuck(&filtering, snapshot);
	for (size_t i = 0; i < filtering.count; i++) {
		SNAP_TRY(snap_no_memory_unless(filter_node(&filtering, filtering.nodes[i])));
		SNAP_TRY(regroup ? snap_group_again(&filtering.strings, options, filtering.nodes[i])
				 : NULL);
		SNAP_TRY(snap_task_filter_node(&filtering.strings, options, filtering.nodes[i],
					       filtering.unsaid, &filtering.idle));
		snap_filter_rank(&filtering.needed, filtering.nodes[i]);
	}
	if (options->no_idle)
		snapshot->idle = filtering.idle;
	snapshot->processes = NULL;
	snapshot->root_count = 0;
	snapshot->process_count = snapshot->thread_count = snapshot->stack_count = 0;
	snapshot->task_count = 0;
	SNAP_TRY(snap_tree_build(snapshot, options, filtering.nodes, filtering.parents,
				 filtering.count));
	snapshot->flat = flat || options->flat;
	return NULL;
}
