/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See calls.h. Nodes come as a list with depths, so brackets are closed by the difference of two
 * neighbours.
 */
#include "render/json/calls.h"

enum {
	/*
	 * Levels of the tree: two brackets each. Parsers refuse documents that are nested too
	 * deeply, CPython's at 1000 brackets, jansson at 2048; there are processes around it.
	 */
	DEEPEST = 400,
};

static void put_function(struct snap_json_writer *json, const struct snap_call_tree *tree,
			 const struct snap_call_node *node)
{
	const struct snap_frame *frame = node->frame;
	const struct snap_entry *entry = snap_call_entry(node);
	const char *name = snap_call_name(tree->options, entry);

	snap_json_text_if(json, "function", name);
	snap_json_text_if(json, "module", frame->module);
	if (!frame->module)
		snap_json_text_if(json, "file", entry->file);
	if (!name && frame->has_offset)
		snap_json_hex(json, "offset", frame->offset);
	else if (!name)
		snap_json_hex(json, "address", frame->address);
	snap_json_true_if(json, "inlined", node->inlined);
	snap_json_true_if(json, "system", entry->system);
	snap_json_true_if(json, "kernel", entry->kernel);
	snap_json_text_if(json, "language", entry->language);
	if (node->trust != SNAP_TRUST_CFI)
		snap_json_text(json, "trust", snap_trust_word(node->trust));
}

static void begin_call_node(struct snap_json_writer *json, const struct snap_call_tree *tree,
			    const struct snap_call_node *node, size_t below)
{
	snap_json_begin_line(json, NULL, '{');
	switch (node->kind) {
	case SNAP_CALL_FUNCTION:
		put_function(json, tree, node);
		break;
	case SNAP_CALL_GAP:
		snap_json_text(json, "kind", "gap");
		snap_json_number_if(json, "frames", (int64_t)node->left_out);
		break;
	case SNAP_CALL_END:
		snap_json_text(json, "kind", "end");
		snap_json_text(json, "unwind", snap_unwind_word(node->unwind));
		break;
	}
	snap_json_number(json, "count", (int64_t)node->count);
	snap_json_number_if(json, "own", (int64_t)node->own);
	if (node->depth + 1 == DEEPEST)
		snap_json_number_if(json, "cut", (int64_t)below);
	snap_json_begin(json, "children", '[');
}

static void end_call_node(struct snap_json_writer *json)
{
	snap_json_end(json, ']');
	snap_json_end(json, '}');
}

void snap_json_calls_put(struct snap_json_writer *json, const struct snap_call_tree *tree)
{
	uint32_t open = 0;

	snap_json_begin(json, "call_tree", '[');
	for (size_t i = 0; i < tree->node_count; i++) {
		const struct snap_call_node *node = &tree->nodes[i];

		if (node->depth >= DEEPEST)
			continue;
		for (; open > node->depth; open--)
			end_call_node(json);
		begin_call_node(json, tree, node, node->end - i - 1);
		open++;
	}
	for (; open; open--)
		end_call_node(json);
	snap_json_end(json, ']');
}
