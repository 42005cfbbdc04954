/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call trees: what they count, in which order, and what is said of stacks that are not whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "render/view/calls/tree.h"
#include "task_snapshots.h"

/* ---- stacks at random ---- */

enum { FUNCTIONS = 5, STACKS = 60, MOST_FRAMES = 7, ROUNDS = 200 };

struct made {
	struct snap_entry entries[2 * FUNCTIONS];
	struct snap_frame frames[2 * FUNCTIONS];
	const struct snap_frame *of_stacks[STACKS][MOST_FRAMES];
	struct snap_stack stacks[STACKS];
	uint64_t states[SNAP_STATE_COUNT];
};

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 16;
}

/* Each function is at two addresses, of which a tree knows nothing. */
static void make_functions(struct made *made)
{
	static const char *const names[FUNCTIONS] = { "main", "walk", "read", "poll", "scan" };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(made->entries); i++) {
		made->entries[i] = (struct snap_entry){ .function = names[i % FUNCTIONS],
							.line = (uint32_t)(i / FUNCTIONS + 1) };
		made->frames[i] = (struct snap_frame){ .address = 0x1000 + i,
						       .module = "/bin/app",
						       .entries = &made->entries[i],
						       .entry_count = 1 };
	}
}

static void make_stacks(struct made *made, uint32_t *random, bool sampled)
{
	make_functions(made);
	for (size_t i = 0; i < STACKS; i++) {
		struct snap_stack *stack = &made->stacks[i];

		*stack = (struct snap_stack){ .count = 1 + next_random(random) % 4,
					      .samples = next_random(random) % 9,
					      .state_samples = sampled ? made->states : NULL,
					      .frames = made->of_stacks[i],
					      .frame_count = next_random(random) % MOST_FRAMES };
		for (size_t k = 0; k < stack->frame_count; k++)
			made->of_stacks[i][k] =
				&made->frames[next_random(random) % SNAP_ARRAY_SIZE(made->frames)];
		if (stack->frame_count && next_random(random) % 4 == 0)
			stack->unwind = SNAP_UNWIND_NO_CFI;
		if (stack->frame_count && next_random(random) % 4 == 0) {
			stack->gap_count = 7;
			stack->gap_frame = next_random(random) % stack->frame_count;
		}
	}
}

/* ---- the same by brute force ---- */

/* How a stack that is not whole ended: each way is a node of its own. */
static char letter_of_end(enum snap_unwind_end unwind)
{
	return unwind == SNAP_UNWIND_NO_CFI ? '!' : '?';
}

/* A stack from where its tree begins, a letter a node: of a function, '~' a gap, '!' and '?' an end. */
static void spell(const struct snap_stack *stack, bool reverse, char *out)
{
	bool is_broken = !stack->frame_count || !snap_unwind_is_whole(stack->unwind);
	size_t n = 0;

	if (is_broken && !reverse)
		out[n++] = letter_of_end(stack->unwind);
	for (size_t i = 0; i < stack->frame_count; i++) {
		size_t number = reverse ? i : stack->frame_count - 1 - i;
		bool gap = stack->gap_count && number == stack->gap_frame;
		/* The first letters of all names differ. */
		char letter = stack->frames[number]->entries->function[0];

		if (gap && !reverse)
			out[n++] = '~';
		out[n++] = letter;
		if (gap && reverse)
			out[n++] = '~';
	}
	if (is_broken && reverse)
		out[n++] = letter_of_end(stack->unwind);
	out[n] = '\0';
}

static char letter_of(const struct snap_call_node *node)
{
	return node->kind == SNAP_CALL_GAP   ? '~'
	       : node->kind == SNAP_CALL_END ? letter_of_end(node->unwind)
					     : snap_call_entry(node)->function[0];
}

/* What stacks have that begin with a path, or are nothing but that. */
static void count_path(const struct made *made, bool reverse, bool sampled, const char *path,
		       uint64_t *count_ret, uint64_t *own_ret)
{
	*count_ret = *own_ret = 0;
	for (size_t i = 0; i < STACKS; i++) {
		const struct snap_stack *stack = &made->stacks[i];
		uint64_t weight = sampled ? stack->samples : stack->count;
		char word[2 * MOST_FRAMES + 2];

		spell(stack, reverse, word);
		if (strncmp(word, path, strlen(path)) != 0)
			continue;
		*count_ret += weight;
		*own_ret += strcmp(word, path) == 0 ? weight : 0;
	}
}

/* How many different beginnings the stacks have: as many nodes there are. */
static size_t count_paths(const struct made *made, bool reverse, bool sampled)
{
	static char words[STACKS][2 * MOST_FRAMES + 2];
	size_t paths = 0;

	for (size_t i = 0; i < STACKS; i++) {
		const struct snap_stack *stack = &made->stacks[i];

		words[i][0] = '\0';
		if (sampled ? stack->samples : stack->count)
			spell(stack, reverse, words[i]);
		for (size_t length = 1; length <= strlen(words[i]); length++) {
			bool is_new = true;

			for (size_t k = 0; k < i; k++)
				is_new = is_new && strncmp(words[k], words[i], length) != 0;
			paths += is_new;
		}
	}
	return paths;
}

static void check_order(const struct snap_call_node *a, const struct snap_call_node *b)
{
	assert_true(a->count >= b->count);
	if (a->count == b->count && a->kind == SNAP_CALL_FUNCTION && b->kind == SNAP_CALL_FUNCTION)
		assert_true(strcmp(snap_call_entry(a)->function, snap_call_entry(b)->function) < 0);
}

/* Sums of children, their order, and where each branch ends. */
static void check_node(const struct snap_call_tree *tree, size_t number)
{
	const struct snap_call_node *node = &tree->nodes[number];
	uint64_t sum = node->own;
	size_t child = number + 1, before = 0;

	for (; child < node->end; before = child, child = tree->nodes[child].end) {
		assert_int_equal(tree->nodes[child].depth, node->depth + 1);
		sum += tree->nodes[child].count;
		if (before)
			check_order(&tree->nodes[before], &tree->nodes[child]);
	}
	assert_int_equal(child, node->end);
	assert_int_equal(sum, node->count);
	assert_true(node->count > 0);
}

static void check_ends(const struct snap_call_tree *tree, bool sampled)
{
	size_t at = 0;

	for (size_t i = 0; i < tree->node_count; i++) {
		uint64_t own = 0;

		for (; at < tree->end_count && tree->ends[at].node == i; at++)
			own += sampled ? tree->ends[at].stack->samples
				       : tree->ends[at].stack->count;
		assert_int_equal(own, tree->nodes[i].own);
	}
	assert_int_equal(at, tree->end_count);
}

static void check_tree(const struct made *made, const struct snap_call_tree *tree, bool reverse,
		       bool sampled)
{
	char path[2 * MOST_FRAMES + 2] = "";
	uint64_t all = 0, count, own;

	for (size_t i = 0; i < tree->node_count; i++) {
		const struct snap_call_node *node = &tree->nodes[i];

		check_node(tree, i);
		path[node->depth] = letter_of(node);
		path[node->depth + 1] = '\0';
		count_path(made, reverse, sampled, path, &count, &own);
		assert_int_equal(node->count, count);
		assert_int_equal(node->own, own);
		all += node->own;
	}
	count_path(made, reverse, sampled, "", &count, &own);
	assert_int_equal(all, count);
	assert_int_equal(tree->count, count);
	assert_int_equal(tree->node_count, count_paths(made, reverse, sampled));
	check_ends(tree, sampled);
}

static void test_equals_brute_force(void **state _unused_)
{
	static struct made made;
	uint32_t random = 12;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct snap_options options = { .call_tree = true, .reverse = round & 1 };
		bool sampled = round & 2;
		struct snap_call_tree tree;

		make_stacks(&made, &random, sampled);
		assert_true(snap_call_tree_init_of(&tree, made.stacks, STACKS, &options));
		check_tree(&made, &tree, options.reverse, sampled);
		snap_call_tree_deinit(&tree);
	}
}

/* ---- depth ---- */

/* A million calls of one function: no stack of ours is as deep. */
static void test_deep(void **state _unused_)
{
	enum { DEEP = 1000000, LESS_DEEP = DEEP / 10 };
	static struct made made;
	const struct snap_frame **frames = malloc(DEEP * sizeof(const struct snap_frame *));
	struct snap_options options = { .call_tree = true, .utf8 = true };
	struct snap_stack stack = { .count = 3, .frames = frames, .frame_count = DEEP };
	struct snap_node process = { .pid = 1, .name = "deep", .stacks = &stack, .stack_count = 1 };
	struct snap_node *roots[] = { &process };
	struct snap_snapshot snapshot = service;
	struct snap_call_tree tree;

	assert_non_null(frames);
	make_functions(&made);
	for (size_t i = 0; i < DEEP; i++)
		frames[i] = &made.frames[i % 2 ? 1 : 1 + FUNCTIONS];
	assert_true(snap_call_tree_init_of(&tree, &stack, 1, &options));
	assert_int_equal(tree.node_count, DEEP);
	assert_int_equal(tree.nodes[DEEP - 1].depth, DEEP - 1);
	assert_int_equal(tree.nodes[DEEP - 1].own, 3);
	snap_call_tree_deinit(&tree);
	snapshot.processes = roots;
	snapshot.root_count = 1;
	for (unsigned i = 0; i < 2; i++) {
		_cleanup_free_ char *text = NULL, *json = NULL;

		options.reverse = i;
		stack.frame_count = DEEP;
		text = golden_render(snap_render_text, &snapshot, &options, NULL);
		assert_non_null(strstr(text, "3 × walk × 1000000"));
		stack.frame_count = LESS_DEEP;
		json = golden_render(snap_render_json, &snapshot, &options, NULL);
		/* Parsers refuse what is nested so deeply. */
		assert_non_null(strstr(json, "\"cut\": 99600, \"children\": []"));
	}
	free(frames);
}

/* ---- what is one function ---- */

static void test_identity(void **state _unused_)
{
	struct snap_entry entries[] = {
		{ .function = "run", .file = "/a.py", .line = 1, .language = "python" },
		{ .function = "run", .file = "/a.py", .line = 2, .language = "python" },
		{ .function = "run", .file = "/b.py", .line = 1, .language = "python" },
		{ .function = "run" },
		{ .function = "run" },
		{ .function = NULL },
		{ .function = NULL },
	};
	static const char *const modules[] = { NULL,     NULL,     NULL,    "/bin/a",
					       "/bin/b", "/bin/a", "/bin/a" };
	struct snap_frame frames[SNAP_ARRAY_SIZE(entries)];
	const struct snap_frame *pointers[SNAP_ARRAY_SIZE(entries)];
	struct snap_stack stacks[SNAP_ARRAY_SIZE(entries)];
	struct snap_options options = { .call_tree = true };
	_cleanup_(snap_call_tree_deinit) struct snap_call_tree tree;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(entries); i++) {
		frames[i] = (struct snap_frame){ .module = modules[i],
						 .offset = i,
						 .has_offset = modules[i],
						 .entries = &entries[i],
						 .entry_count = 1 };
		frames[i].trust = i == 1 ? SNAP_TRUST_SCAN : SNAP_TRUST_CFI;
		pointers[i] = &frames[i];
		stacks[i] =
			(struct snap_stack){ .count = 1, .frames = &pointers[i], .frame_count = 1 };
	}
	assert_true(snap_call_tree_init_of(&tree, stacks, SNAP_ARRAY_SIZE(stacks), &options));
	/* The first two are one; without a name each place is its own. */
	assert_int_equal(tree.node_count, 6);
	assert_int_equal(tree.nodes[0].count, 2);
	assert_true(tree.nodes[0].lines_differ);
	assert_int_equal(tree.nodes[0].trust, SNAP_TRUST_SCAN);
	assert_ptr_equal(tree.nodes[1].frame, &frames[2]);
	assert_false(tree.nodes[1].lines_differ);
	assert_ptr_equal(tree.nodes[2].frame, &frames[3]);
	assert_ptr_equal(tree.nodes[3].frame, &frames[4]);
	assert_ptr_equal(tree.nodes[4].frame, &frames[5]);
	assert_ptr_equal(tree.nodes[5].frame, &frames[6]);
}

/* ---- reports ---- */

static void check_golden(const struct snap_snapshot *snapshot, struct snap_options options,
			 const char *name)
{
	_cleanup_free_ char *text = golden_render(snap_render_text, snapshot, &options, NULL),
			    *file = NULL;

	assert_true(asprintf(&file, "calls-%s.txt", name) > 0);
	golden_check(file, text);
}

static void test_text(void **state _unused_)
{
	const struct snap_options plain = { .call_tree = true, .utf8 = true };
	struct snap_options options = plain;

	check_golden(&service, options, "plain");
	options.width = 80;
	check_golden(&service, options, "narrow");
	options.reverse = true;
	check_golden(&service, options, "reverse");
	options = plain;
	options.utf8 = false;
	check_golden(&hostile, options, "hostile");
	options = plain;
	options.show_module = true;
	options.reverse = true;
	check_golden(&service, options, "modules");
	check_golden(&gitea, plain, "tasks");
}

static void test_flat_has_the_same_trees(void **state _unused_)
{
	struct snap_options options = { .call_tree = true, .utf8 = true, .flat = true };
	struct snap_snapshot flat = flat_service();
	_cleanup_free_ char *text = golden_render(snap_render_text, &flat, &options, NULL);

	assert_non_null(strstr(text, "\norderd[1234]"));
	assert_non_null(strstr(text, "\norder-helper[1310]"));
	assert_non_null(strstr(text, "(callers unknown: no_cfi)"));
}

static void test_together(void **state _unused_)
{
	struct snap_options options = {
		.call_tree = true, .utf8 = true, .together = true, .group_by = SNAP_GROUP_STACK
	};

	check_golden(&service, options, "together");
}

static void test_json(void **state _unused_)
{
	struct snap_options options = { .call_tree = true };
	_cleanup_free_ char *json = golden_render(snap_render_json, &service, &options, NULL),
			    *reverse = NULL, *none = NULL;

	golden_check("calls.json", json);
	assert_null(strstr(json, "\"reverse\""));
	options.reverse = true;
	reverse = golden_render(snap_render_json, &service, &options, NULL);
	assert_non_null(strstr(reverse, "\"reverse\": true"));
	options.call_tree = false;
	none = golden_render(snap_render_json, &service, &options, NULL);
	assert_null(strstr(none, "\"reverse\""));
	assert_null(strstr(none, "\"call_tree\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equals_brute_force),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_flat_has_the_same_trees),
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_json),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
