/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See tree.h. Nodes are made as stacks go through them, each behind its parent, and put in order at
 * the end. Nothing recurses, as the target decides how deep its stacks are.
 */
#include "render/view/calls/tree.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/text.h"

#include <stdlib.h>

/* The parent of those on top: none of them. */
enum { TOP = UINT32_MAX };

/* What a node is known by, beside it. */
struct link {
	uint32_t parent, function;
};

struct building {
	struct snap_call_tree *tree;
	struct snap_call_functions functions;
	struct snap_call_node *nodes;
	struct link *links;
	size_t count, node_capacity, link_capacity, end_capacity;
	struct snap_hash_table table; /* of nodes */
};

static void building_deinit(struct building *building)
{
	snap_call_functions_deinit(&building->functions);
	free(building->nodes);
	free(building->links);
	snap_hash_table_deinit(&building->table);
}

/* ---- nodes ---- */

static bool make_call_node(struct building *building, uint64_t key, struct link link, uint32_t *ret)
{
	size_t number = building->count;

	if (!snap_reserve_array(building->nodes, building->node_capacity, number + 1) ||
	    !snap_reserve_array(building->links, building->link_capacity, number + 1) ||
	    !snap_hash_table_add(&building->table, key, number))
		return false;
	building->nodes[number] = (struct snap_call_node){ 0 };
	building->links[number] = link;
	building->count++;
	*ret = (uint32_t)number;
	return true;
}

/* The child of *at for a function takes its place. *is_new_ret: it was made. */
static bool go_down(struct building *building, uint32_t function, uint32_t *at, bool *is_new_ret)
{
	struct link link = { .parent = *at, .function = function };
	uint64_t key = snap_hash_add(snap_hash_mix(link.parent), function);
	struct snap_probe probe = snap_hash_table_probe(&building->table, key);

	*is_new_ret = false;
	while (snap_probe_next(&probe)) {
		const struct link *found = &building->links[probe.number];

		if (found->parent == link.parent && found->function == function) {
			*at = probe.number;
			return true;
		}
	}
	*is_new_ret = true;
	return make_call_node(building, key, link, at);
}

static bool enter_entry(struct building *building, const struct snap_frame *frame, uint32_t entry,
			uint32_t function, uint64_t weight, uint32_t *at)
{
	bool is_new, is_inlined = frame->entries[entry].inlined;
	const struct snap_entry *before;
	struct snap_call_node *node;

	if (!go_down(building, function, at, &is_new))
		return false;
	node = &building->nodes[*at];
	node->count += weight;
	if (is_new) {
		node->frame = frame;
		node->entry = entry;
		node->inlined = is_inlined;
		node->trust = frame->trust;
		return true;
	}
	before = snap_call_entry(node);
	node->inlined = node->inlined && is_inlined;
	node->trust = frame->trust > node->trust ? frame->trust : node->trust;
	node->lines_differ = node->lines_differ || before->line != frame->entries[entry].line ||
			     !snap_same_text(before->file, frame->entries[entry].file);
	return true;
}

static bool enter_frame(struct building *building, const struct snap_frame *frame, uint64_t weight,
			uint32_t *at)
{
	const uint32_t *functions = snap_call_functions_of(&building->functions, frame);
	bool reverse = building->tree->options->reverse;

	for (uint32_t i = 0; functions && i < frame->entry_count; i++) {
		uint32_t entry = reverse ? i : (uint32_t)frame->entry_count - 1 - i;

		if (!enter_entry(building, frame, entry, functions[entry], weight, at))
			return false;
	}
	return functions;
}

static bool enter_gap(struct building *building, uint64_t frames, uint64_t weight, uint32_t *at)
{
	struct snap_call_node *node;
	uint32_t function;
	bool is_new;

	if (!snap_call_functions_of_kind(&building->functions, SNAP_CALL_GAP, 0, &function) ||
	    !go_down(building, function, at, &is_new))
		return false;
	node = &building->nodes[*at];
	node->kind = SNAP_CALL_GAP;
	node->count += weight;
	node->left_out = is_new || node->left_out == frames ? frames : 0;
	return true;
}

/* Nothing is entered for a stack whose outermost function is known for sure. */
static bool enter_end(struct building *building, const struct snap_stack *stack, uint64_t weight,
		      uint32_t *at)
{
	struct snap_call_node *node;
	uint32_t function;
	bool is_new;

	if (stack->frame_count && snap_unwind_is_whole(stack->unwind) && !stack->unwind_detail)
		return true;
	if (!snap_call_functions_of_kind(&building->functions, SNAP_CALL_END, stack->unwind,
					 &function) ||
	    !go_down(building, function, at, &is_new))
		return false;
	node = &building->nodes[*at];
	node->kind = SNAP_CALL_END;
	node->unwind = stack->unwind;
	node->count += weight;
	return true;
}

/* ---- stacks ---- */

static bool end_stack(struct building *building, const struct snap_stack *stack, uint64_t weight,
		      uint32_t at)
{
	struct snap_call_tree *tree = building->tree;

	if (!snap_reserve_array(tree->ends, building->end_capacity, tree->end_count + 1))
		return false;
	tree->ends[tree->end_count] = (struct snap_call_end){ at, tree->end_count, stack };
	tree->end_count++;
	building->nodes[at].own += weight;
	tree->count += weight;
	return true;
}

static bool add_call_stack(struct building *building, const struct snap_stack *stack)
{
	bool reverse = building->tree->options->reverse;
	uint64_t weight = stack->state_samples ? stack->samples : stack->count;
	uint32_t at = TOP;

	if (!weight)
		return true;
	if (!reverse && !enter_end(building, stack, weight, &at))
		return false;
	for (size_t i = 0; i < stack->frame_count; i++) {
		size_t number = reverse ? i : stack->frame_count - 1 - i;
		bool gap = stack->gap_count && number == stack->gap_frame;

		if ((gap && !reverse && !enter_gap(building, stack->gap_count, weight, &at)) ||
		    !enter_frame(building, stack->frames[number], weight, &at) ||
		    (gap && reverse && !enter_gap(building, stack->gap_count, weight, &at)))
			return false;
	}
	if (reverse && !enter_end(building, stack, weight, &at))
		return false;
	return end_stack(building, stack, weight, at);
}

/* ---- order ---- */

static int compare_siblings(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const struct building *building = context;
	const struct snap_call_function *functions = building->functions.functions;
	const struct link *x = &building->links[a], *y = &building->links[b];

	/* Those on top come first: TOP + 1 is 0. */
	return snap_compare((uint32_t)(x->parent + 1), (uint32_t)(y->parent + 1)) ?:
	       snap_compare(building->nodes[b].count, building->nodes[a].count) ?:
	       snap_call_function_compare(&functions[x->function], &functions[y->function]);
}

/* Into `end` of each, how many nodes it has with those below it. */
static void count_below(struct building *building)
{
	for (size_t i = building->count; i-- > 0;) {
		uint32_t parent = building->links[i].parent;

		building->nodes[i].end++;
		if (parent != TOP)
			building->nodes[parent].end += building->nodes[i].end;
	}
}

/*
 * `order`: siblings together, in the order of their parents; it becomes the place of each. A parent
 * has its place before its children need it, as it was made before them.
 */
static bool place_nodes(struct building *building, uint32_t *order, uint32_t *places)
{
	struct snap_call_tree *tree = building->tree;
	uint32_t next = 0, parent = TOP;

	tree->nodes = malloc((building->count + 1) * sizeof(*tree->nodes));
	if (!tree->nodes)
		return false;
	for (size_t i = 0; i < building->count; i++) {
		const struct snap_call_node *from = &building->nodes[order[i]];
		uint32_t above = building->links[order[i]].parent;
		struct snap_call_node *to;

		if (above != parent)
			next = places[above] + 1;
		parent = above;
		places[order[i]] = next;
		to = &tree->nodes[next];
		*to = *from;
		to->depth = parent == TOP ? 0 : tree->nodes[places[parent]].depth + 1;
		next += from->end;
		to->end = next;
	}
	tree->node_count = building->count;
	for (size_t i = 0; i < tree->end_count; i++)
		tree->ends[i].node = places[tree->ends[i].node];
	return true;
}

SNAP_ORDER(compare_ends, struct snap_call_end, a, b, snap_compare(a->node, b->node),
	   snap_compare(a->number, b->number));

static bool put_in_order(struct building *building)
{
	size_t count = building->count;
	_cleanup_free_ uint32_t *order = malloc((count + 1) * sizeof(*order));
	_cleanup_free_ uint32_t *places = malloc((count + 1) * sizeof(*places));
	struct snap_call_tree *tree = building->tree;

	if (!order || !places)
		return false;
	for (size_t i = 0; i < count; i++)
		order[i] = (uint32_t)i;
	if (count)
		qsort_r(order, count, sizeof(*order), compare_siblings, building);
	count_below(building);
	if (!place_nodes(building, order, places))
		return false;
	if (tree->end_count)
		qsort(tree->ends, tree->end_count, sizeof(*tree->ends), compare_ends);
	return true;
}

/* ---- the tree ---- */

static struct building begin_call_tree(struct snap_call_tree *tree,
				       const struct snap_options *options)
{
	*tree = (struct snap_call_tree){ .options = options };
	return (struct building){ .tree = tree, .functions = { .options = options } };
}

bool snap_call_tree_init(struct snap_call_tree *tree, const struct snap_node *node,
			 const struct snap_options *options)
{
	_cleanup_(building_deinit) struct building building = begin_call_tree(tree, options);
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	while ((stack = snap_node_next_stack(node, &cursor)))
		if (!add_call_stack(&building, stack))
			return false;
	return put_in_order(&building);
}

bool snap_call_tree_init_of(struct snap_call_tree *tree, const struct snap_stack *stacks,
			    size_t count, const struct snap_options *options)
{
	_cleanup_(building_deinit) struct building building = begin_call_tree(tree, options);

	return snap_all(count, i, add_call_stack(&building, &stacks[i])) && put_in_order(&building);
}

void snap_call_tree_deinit(struct snap_call_tree *tree)
{
	free(tree->nodes);
	free(tree->ends);
}
