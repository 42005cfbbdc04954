/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot as bytes: see file.h.
 *
 *	MAGIC, head, warnings
 *	number of processes, of roots
 *	each process, parents before their children, siblings in their order: what it is, its
 *	stacks, the number of its children
 *
 * So each process has one place in the tree whatever the bytes are, and neither writing nor reading
 * needs recursion.
 */
#include "store/snapshot/file.h"

#include "store/snapshot/internal.h"

#include <string.h>

enum {
	MOST_WARNINGS = 1 << 20,
	LEAST_WARNING = 16,
};

static const uint64_t MAGIC = 0x70616e7370616e73; /* "snapsnap" */

/* ---- head, warnings ---- */

static void code_host(struct snap_sharing *to, struct snap_host *host)
{
	int64_t ticks = host->ticks_per_second;

	snap_share_text(to, &host->name, SNAP_MAX_NAME);
	snap_share_text(to, &host->kernel, SNAP_MAX_NAME);
	snap_share_text(to, &host->arch, SNAP_MAX_NAME);
	snap_share_text(to, &host->boot_id, SNAP_MAX_NAME);
	snap_code_u32(&to->codec, &host->cpus);
	snap_code_moment(to, &host->boot_time_ns);
	snap_code_i64(&to->codec, &ticks);
	if (snap_codec_reads(&to->codec))
		host->ticks_per_second = (long)ticks;
}

static void code_head(struct snap_sharing *to, struct snap_snapshot *snapshot)
{
	struct snap_missing *missing = &snapshot->missing;

	code_host(to, &snapshot->host);
	snap_code_moment(to, &snapshot->time_ns);
	snap_code_length(to, &snapshot->duration_ns);
	snap_code_length(to, &snapshot->stop_duration_ns);
	snap_code_length(to, &snapshot->stop_skew_ns);
	snap_code_bool(&to->codec, &snapshot->many_instants);
	snap_code_bool(&to->codec, &snapshot->flat);
	snap_code_at_most(to, &missing->threads, INT64_MAX);
	snap_code_at_most(to, &missing->processes, INT64_MAX);
	snap_code_at_most(to, &missing->modules, INT64_MAX);
	snap_code_at_most(to, &missing->shown, INT64_MAX);
}

static void code_warnings(struct snap_sharing *to, struct snap_snapshot *snapshot)
{
	struct snap_codec *codec = &to->codec;

	snap_code_array(codec, &snapshot->warnings, &snapshot->warning_count, MOST_WARNINGS,
			sizeof(*snapshot->warnings), LEAST_WARNING);
	if (snap_codec_reads(codec))
		snapshot->warning_capacity = snapshot->warning_count;
	for (size_t i = 0; i < snapshot->warning_count; i++)
		snap_code_warning(to, &snapshot->warnings[i]);
}

/* ---- the tree ---- */

/* Siblings that are being described. */
struct level {
	struct snap_node **nodes;
	size_t count, next;
};

struct tree {
	struct snap_sharing *to;
	struct level *levels;
	size_t depth, capacity;
	/* READ: all processes, and the pointers to them, of which so many are used */
	struct snap_node *nodes;
	struct snap_node **links;
	size_t count, node_count, link_count;
};

static void tree_deinit(struct tree *tree)
{
	free(tree->levels);
}

/* Room for all processes, of which each then has one place. */
static void begin_tree(struct tree *tree, size_t process_count)
{
	struct snap_codec *codec = &tree->to->codec;

	tree->count = process_count;
	snap_code_array(codec, &tree->nodes, &tree->count, SNAP_MAX_PROCESSES, sizeof(*tree->nodes),
			SNAP_LEAST_NODE);
	if (!snap_codec_reads(codec))
		return;
	tree->links = snap_arena_new_array(codec->arena, tree->count + 1, struct snap_node *);
	if (!tree->links)
		snap_codec_refuse_memory(codec);
}

static void enter_level(struct tree *tree, struct snap_node ***nodes, size_t *count)
{
	struct snap_sharing *to = tree->to;
	size_t left = tree->count - tree->link_count;

	snap_code_at_most(to, count, SNAP_MAX_PROCESSES);
	if (snap_codec_reads(&to->codec)) {
		snap_codec_check(&to->codec, *count <= left, "too many processes");
		*count = to->codec.problem ? 0 : *count;
		*nodes = *count ? &tree->links[tree->link_count] : NULL;
		tree->link_count += *count;
		for (size_t i = 0; i < *count; i++)
			(*nodes)[i] = &tree->nodes[tree->node_count++];
	}
	if (*count == 0)
		return;
	if (!snap_grow_array(tree->levels, tree->capacity, tree->depth)) {
		to->no_memory = true;
		snap_codec_refuse_memory(&to->codec);
		return;
	}
	tree->levels[tree->depth++] = (struct level){ *nodes, *count, 0 };
}

static void code_next(struct tree *tree, struct level *level, bool flat)
{
	struct snap_codec *codec = &tree->to->codec;
	struct snap_node *node = level->nodes[level->next];

	level->next++;
	snap_code_node(tree->to, node);
	enter_level(tree, &node->children, &node->child_count);
	snap_codec_check(codec, !flat || node->child_count == 0, "nested process in a flat tree");
}

static void count_node(struct snap_snapshot *snapshot, const struct snap_node *node)
{
	snapshot->stack_count += node->stack_count;
	for (size_t i = 0; i < node->stack_count; i++)
		snapshot->thread_count += node->stacks[i].count;
}

static void code_tree(struct snap_sharing *to, struct snap_snapshot *snapshot)
{
	_cleanup_(tree_deinit) struct tree tree = { .to = to };

	begin_tree(&tree, snapshot->process_count);
	enter_level(&tree, &snapshot->processes, &snapshot->root_count);
	while (tree.depth && !to->codec.problem) {
		struct level *level = &tree.levels[tree.depth - 1];

		if (level->next == level->count)
			tree.depth--;
		else
			code_next(&tree, level, snapshot->flat);
	}
	if (!snap_codec_reads(&to->codec))
		return;
	snap_codec_check(&to->codec, tree.node_count == tree.count, "process outside of the tree");
	snapshot->process_count = tree.count;
	for (size_t i = 0; i < tree.node_count; i++)
		count_node(snapshot, &tree.nodes[i]);
	snap_codec_check(&to->codec, snapshot->thread_count <= SNAP_MAX_THREADS,
			 "too many threads");
}

static void code_snapshot(struct snap_sharing *to, struct snap_snapshot *snapshot)
{
	uint64_t magic = MAGIC;

	snap_code_u64(&to->codec, &magic);
	snap_codec_check(&to->codec, magic == MAGIC, "bad magic number");
	code_head(to, snapshot);
	code_warnings(to, snapshot);
	code_tree(to, snapshot);
	snap_codec_check(&to->codec, to->codec.position == to->codec.size, "trailing data");
}

/* ---- all of it ---- */

uint64_t snap_snapshot_size(const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_sharing_deinit) struct snap_sharing to = { .codec.mode = SNAP_CODEC_COUNT };

	/* The descriptions also read; when they count or write, they change nothing. */
	code_snapshot(&to, (struct snap_snapshot *)(uintptr_t)snapshot);
	return to.no_memory ? UINT64_MAX : to.codec.position;
}

struct snap_error *snap_snapshot_write(const struct snap_snapshot *snapshot, uint8_t *bytes)
{
	_cleanup_(snap_sharing_deinit) struct snap_sharing to = { .codec.mode = SNAP_CODEC_WRITE,
								  .codec.memory = bytes };

	code_snapshot(&to, (struct snap_snapshot *)(uintptr_t)snapshot);
	return to.no_memory ? snap_error_no_memory() : NULL;
}

struct snap_error *snap_snapshot_read(const uint8_t *bytes, uint64_t size,
				      struct snap_snapshot **ret)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = snap_snapshot_new();
	_cleanup_(snap_sharing_deinit) struct snap_sharing to = { .codec.mode = SNAP_CODEC_READ,
								  .codec.bytes = bytes,
								  .codec.size = size };

	if (!snapshot)
		return snap_error_no_memory();
	to.codec.arena = &snapshot->arena;
	code_snapshot(&to, snapshot);
	if (to.no_memory || snap_codec_lacks_memory(&to.codec))
		return snap_error_no_memory();
	if (to.codec.problem)
		return snap_error_format(SNAP_ERROR_FORMAT, "the snapshot is damaged: %s",
					 to.codec.problem);
	*ret = snap_take_ptr(snapshot);
	return NULL;
}
