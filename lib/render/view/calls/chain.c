/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See chain.h. */
#include "render/view/calls/chain.h"

#include "base/buffer.h"
#include "base/text.h"

#include <string.h>

enum { SEVERAL = 3 };

/* What stacks that wait in one call have in common, or all stacks. */
struct snap_shared {
	const char *call; /* NULL: all */
	uint32_t *first;  /* functions of the first stack */
	size_t first_count, stacks;
	size_t inner, outer; /* how many all have at their ends */
	bool differ;         /* one has others than the first one */
};

void snap_chains_deinit(struct snap_chains *chains)
{
	for (size_t i = 0; i < chains->shared_count; i++)
		free(chains->shared[i].first);
	free(chains->shared);
	snap_call_functions_deinit(&chains->functions);
}

/* All of them, malloc'ed; NULL without memory. Own ones without name are passed over. */
static struct snap_link *list_links(struct snap_chains *chains, const struct snap_stack *stack,
				    const struct snap_frame *own, size_t entry, size_t *count_ret)
{
	_cleanup_free_ struct snap_link *links = NULL;
	size_t count = 0, capacity = 0, at = 0;

	while (at < stack->frame_count && stack->frames[at] != own)
		at++;
	for (; at < stack->frame_count; at++, entry = 0) {
		const struct snap_frame *frame = stack->frames[at];
		const uint32_t *numbers = snap_call_functions_of(&chains->functions, frame);

		for (size_t i = entry; numbers && i < frame->entry_count; i++) {
			const struct snap_entry *of = &frame->entries[i];

			if (count && (of->system || of->kernel || !(of->function || of->symbol) ||
				      links[count - 1].function == numbers[i]))
				continue;
			if (!snap_append(links, count, capacity,
					 (struct snap_link){ frame, (uint32_t)i, numbers[i] }))
				return NULL;
		}
		if (!numbers)
			return NULL;
	}
	*count_ret = count;
	return snap_take_ptr(links);
}

/* NULL: there is none. */
static struct snap_shared *find_shared(const struct snap_chains *chains, const char *call)
{
	for (size_t i = 0; i < chains->shared_count; i++)
		if (snap_same_text(chains->shared[i].call, call))
			return &chains->shared[i];
	return NULL;
}

static bool share_links(struct snap_chains *chains, const char *call, const struct snap_link *links,
			size_t count)
{
	struct snap_shared *shared = find_shared(chains, call);
	size_t inner = 0, outer = 0;

	if (!shared) {
		if (!snap_reserve_array(chains->shared, chains->capacity, chains->shared_count + 1))
			return false;
		shared = &chains->shared[chains->shared_count++];
		*shared = (struct snap_shared){ .call = call,
						.first = calloc(count, sizeof(*shared->first)),
						.first_count = count,
						.inner = count,
						.outer = count };
		for (size_t i = 0; shared->first && i < count; i++)
			shared->first[i] = links[i].function;
	}
	if (!shared->first)
		return false;
	while (inner < SNAP_MIN(count, shared->inner) &&
	       links[inner].function == shared->first[inner])
		inner++;
	while (outer < SNAP_MIN(count, shared->outer) &&
	       links[count - 1 - outer].function == shared->first[shared->first_count - 1 - outer])
		outer++;
	shared->differ |= inner < shared->first_count || inner < count;
	shared->inner = inner;
	shared->outer = outer;
	shared->stacks++;
	return true;
}

bool snap_chains_add(struct snap_chains *chains, const struct snap_stack *stack,
		     const struct snap_frame *frame, size_t entry)
{
	const char *call = snap_stack_label(stack, "syscall");
	size_t count;
	_cleanup_free_ struct snap_link *links = list_links(chains, stack, frame, entry, &count);

	return links && share_links(chains, NULL, links, count) &&
	       (!call || share_links(chains, call, links, count));
}

struct snap_link *snap_chains_of(struct snap_chains *chains, const struct snap_stack *stack,
				 const struct snap_frame *frame, size_t entry, size_t *count_ret)
{
	const char *calls[] = { NULL, snap_stack_label(stack, "syscall") };
	struct snap_link *links = list_links(chains, stack, frame, entry, count_ret);
	size_t inner = 0, outer = 0;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(calls); i++) {
		const struct snap_shared *shared = find_shared(chains, calls[i]);

		if (!shared || !shared->differ || (shared->call && shared->stacks < SEVERAL))
			continue;
		inner = SNAP_MAX(inner, shared->inner);
		outer = SNAP_MAX(outer, shared->outer);
	}
	if (links) {
		inner = SNAP_MIN(inner, *count_ret - 1);
		*count_ret = *count_ret > inner + outer ? *count_ret - inner - outer : 1;
		memmove(links, links + inner, *count_ret * sizeof(*links));
	}
	return links;
}
