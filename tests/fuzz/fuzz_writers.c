/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Renderers: the bytes decide a snapshot, its shape and its texts. Nothing forbidden comes out of
 * any format, JSON is JSON, and the document is read back as the same snapshot.
 */
#include "analyze/filter.h"
#include "fuzz.h"
#include "store/json/read.h"

#include <string.h>

enum { MAX_NODES = 12 };

struct maker {
	struct fuzz_bytes bytes;
	struct snap_snapshot *snapshot;
	struct snap_frame frames[8];
};

#define NEW_ARRAY(maker, count, type) snap_arena_new_array(&(maker)->snapshot->arena, (count), type)

static const char *text(struct maker *maker)
{
	return fuzz_text(&maker->bytes, &maker->snapshot->arena);
}

static unsigned below(struct maker *maker, unsigned count)
{
	return fuzz_u8(&maker->bytes) % count;
}

/* A time, a duration, a count: not negative. */
static int64_t amount(struct maker *maker)
{
	return (int64_t)(fuzz_u64(&maker->bytes) >> (1 + below(maker, 63)));
}

static void make_frame(struct maker *maker, struct snap_frame *frame)
{
	*frame = (struct snap_frame){ .address = fuzz_u64(&maker->bytes),
				      .offset = fuzz_u64(&maker->bytes),
				      .module = text(maker),
				      .build_id = below(maker, 2) ? "00ff" : NULL,
				      .entry_count = 1 + below(maker, 3) };
	frame->has_offset = frame->module != NULL;
	frame->entries = NEW_ARRAY(maker, frame->entry_count, struct snap_entry);
	for (size_t i = 0; i < frame->entry_count; i++) {
		struct snap_entry *entry = &frame->entries[i];

		entry->symbol = text(maker);
		entry->function = below(maker, 2) ? text(maker) : entry->symbol;
		entry->file = text(maker);
		entry->line = entry->file ? below(maker, 200) : 0;
		entry->column = entry->line ? below(maker, 80) : 0;
		entry->inlined = i + 1 < frame->entry_count;
		entry->system = below(maker, 2);
	}
}

static void make_labels(struct maker *maker, struct snap_stack *stack)
{
	stack->labels = NEW_ARRAY(maker, 5, struct snap_label);
	stack->labels[stack->label_count++] = (struct snap_label){
		"state", snap_state_word((enum snap_state)below(maker, SNAP_STATE_COUNT))
	};
	for (unsigned i = 0; i < 3; i++) {
		static const char *const keys[] = { "thread_name", "syscall", "wchan" };
		const char *value = text(maker);

		if (value)
			stack->labels[stack->label_count++] = (struct snap_label){ keys[i], value };
	}
	stack->labels[stack->label_count++] = (struct snap_label){ "type", "user" };
}

static void make_stack(struct maker *maker, struct snap_stack *stack, unsigned number)
{
	snprintf(stack->id, sizeof(stack->id), "%016x", number);
	stack->count = stack->thread_count = 1 + below(maker, 5);
	stack->description = text(maker);
	make_labels(maker, stack);
	stack->unwind = (enum snap_unwind_end)below(maker, SNAP_UNWIND_COUNT);
	stack->unwind_detail = snap_unwind_is_whole(stack->unwind) ? NULL : text(maker);
	stack->threads = NEW_ARRAY(maker, stack->thread_count, struct snap_member);
	for (size_t i = 0; i < stack->thread_count; i++)
		stack->threads[i] = (struct snap_member){
			.tid = (pid_t)(100 * number + i + 1),
			.ns_tid = (pid_t)below(maker, 9),
			.name = text(maker),
			.state = (enum snap_state)below(maker, SNAP_STATE_COUNT),
			.kernel = below(maker, 2),
			.syscall = text(maker),
			.wchan = text(maker),
			.cpu = (int)below(maker, 9) - 1,
		};
	stack->frame_count = below(maker, 7);
	stack->frames = NEW_ARRAY(maker, stack->frame_count, const struct snap_frame *);
	for (size_t i = 0; i < stack->frame_count; i++)
		stack->frames[i] = &maker->frames[below(maker, SNAP_ARRAY_SIZE(maker->frames))];
	if (stack->frame_count > 2 && below(maker, 4) == 3) {
		stack->gap_frame = below(maker, (unsigned)stack->frame_count - 1);
		stack->gap_count = 1 + below(maker, 200);
	}
}

static int compare_stacks(const void *a, const void *b)
{
	const struct snap_stack *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->id, y->id);
}

static void make_facts(struct maker *maker, struct snap_node *node)
{
	node->name = text(maker);
	node->description = text(maker);
	node->type = (enum snap_process_type)below(maker, SNAP_TYPE_NONE + 1);
	node->state = (enum snap_state)below(maker, SNAP_STATE_COUNT);
	node->exe = text(maker);
	node->uid = below(maker, 2) ? (uid_t)below(maker, 256) : (uid_t)-1;
	node->user = text(maker);
	node->start_time_ns = amount(maker);
	node->start_ticks = (uint64_t)amount(maker);
	node->cgroup = text(maker);
	node->unit = text(maker);
	node->container = text(maker);
	node->threads_missed = below(maker, 3);
	node->arg_count = below(maker, 4);
	node->args = NEW_ARRAY(maker, node->arg_count, const char *);
	for (size_t i = 0; i < node->arg_count; i++) {
		node->args[i] = text(maker);
		if (!node->args[i])
			node->args[i] = "";
	}
	if (below(maker, 4) == 3) {
		node->trouble = (enum snap_trouble)(1 + below(maker, SNAP_TROUBLE_COUNT - 1));
		node->trouble_message = text(maker);
	}
}

static struct snap_node *make_node(struct maker *maker, unsigned number)
{
	struct snap_node *node = snap_arena_new(&maker->snapshot->arena, struct snap_node);

	node->pid = (pid_t)number + 1;
	node->ppid = (pid_t)below(maker, 4);
	make_facts(maker, node);
	node->stack_count = below(maker, 4);
	node->stacks = NEW_ARRAY(maker, node->stack_count, struct snap_stack);
	for (size_t i = 0; i < node->stack_count; i++) {
		make_stack(maker, &node->stacks[i], 10 * number + (unsigned)i);
		node->thread_count += node->stacks[i].count;
	}
	if (node->stack_count)
		qsort(node->stacks, node->stack_count, sizeof(*node->stacks), compare_stacks);
	maker->snapshot->stack_count += node->stack_count;
	maker->snapshot->thread_count += node->thread_count;
	return node;
}

/* Each node is a root, or a child of the one before it. */
static void make_tree(struct maker *maker)
{
	struct snap_snapshot *snapshot = maker->snapshot;
	unsigned count = below(maker, MAX_NODES);
	struct snap_node *before = NULL;

	snapshot->processes = NEW_ARRAY(maker, count, struct snap_node *);
	for (unsigned i = 0; i < count; i++) {
		struct snap_node *node = make_node(maker, i);

		if (before && below(maker, 2)) {
			before->children = NEW_ARRAY(maker, 1, struct snap_node *);
			before->children[before->child_count++] = node;
		} else {
			snapshot->processes[snapshot->root_count++] = node;
		}
		before = node;
	}
	snapshot->process_count = count;
}

static void make_snapshot(struct maker *maker)
{
	struct snap_snapshot *snapshot = maker->snapshot;

	snapshot->host = (struct snap_host){ .name = text(maker),
					     .kernel = text(maker),
					     .arch = text(maker),
					     .boot_id = text(maker),
					     .cpus = below(maker, 200) };
	snapshot->time_ns = amount(maker);
	snapshot->duration_ns = amount(maker);
	snapshot->stop_duration_ns = amount(maker);
	snapshot->stop_skew_ns = amount(maker);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(maker->frames); i++)
		make_frame(maker, &maker->frames[i]);
	make_tree(maker);
	for (unsigned i = below(maker, 3); i > 0; i--) {
		const char *message = text(maker);

		if (message)
			snap_snapshot_warn(snapshot, "fuzz", 1, 0, "%s", message);
	}
}

/* ---- what comes out ---- */

static void check_json(const struct snap_snapshot *snapshot, const struct snap_options *options)
{
	_cleanup_(fuzz_output_deinit) struct fuzz_output first = { 0 }, second = { 0 };
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *back = NULL;
	_cleanup_fd_ int fd = -1;

	first = fuzz_render("json", snapshot, options);
	fuzz_check_json(&first, false);
	fd = fuzz_file(first.bytes, first.size);
	fuzz_no_error(snap_snapshot_read_json(fd, &back));
	if (!back)
		return;
	second = fuzz_render("json", back, options);
	fuzz_check(first.size == second.size && memcmp(first.bytes, second.bytes, first.size) == 0,
		   "what was read back is rendered as the same");
}

/* What stands between two texts, which must be there. */
static struct fuzz_output between(const struct fuzz_output *output, const char *before,
				  const char *behind)
{
	char *from = memmem(output->bytes, output->size, before, strlen(before)), *end;

	fuzz_check(from, "a page has all of its parts");
	from += strlen(before);
	end = memmem(from, output->size - (size_t)(from - output->bytes), behind, strlen(behind));
	fuzz_check(end, "a page has all of its parts");
	return (struct fuzz_output){ .bytes = from, .size = (size_t)(end - from) };
}

/* No markup where names are, and data that can be read. */
static void check_page(const struct fuzz_output *output)
{
	struct fuzz_output title = between(output, "<title>", "</title>"),
			   text = between(output, "The report as text\">", "</pre>"),
			   data = between(output, "id=\"data\">", "</script>");

	fuzz_check(!memchr(title.bytes, '<', title.size), "a title is text");
	fuzz_check(!memchr(text.bytes, '<', text.size), "the text of a page is text");
	fuzz_check(!memchr(data.bytes, '<', data.size), "data of a page cannot end its element");
	fuzz_check_json(&data, false);
}

static void check_format(const char *format, const struct snap_snapshot *snapshot,
			 const struct snap_options *options)
{
	struct fuzz_output output = fuzz_render(format, snapshot, options);
	bool lines = strcmp(format, "jsonl") == 0;

	if (strcmp(format, "text") == 0 || strcmp(format, "folded") == 0 ||
	    strcmp(format, "list") == 0)
		fuzz_check_text(&output);
	else if (strcmp(format, "html") == 0)
		check_page(&output);
	else if (strcmp(format, "pprof") != 0)
		fuzz_check_json(&output, lines);
	if (strcmp(format, "text") == 0 && !options->utf8)
		for (size_t i = 0; i < output.size; i++)
			fuzz_check(!(output.bytes[i] & 0x80), "ASCII where the locale is");
	fuzz_output_deinit(&output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const others[] = { "list",       "jsonl",   "folded", "chrome",
					      "speedscope", "firefox", "pprof",  "html" };
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = snap_snapshot_new();
	_cleanup_(snap_options_deinit) struct snap_options options;
	struct maker maker = { .bytes = { data, data + size }, .snapshot = snapshot };
	unsigned choice = fuzz_u8(&maker.bytes), view = fuzz_u8(&maker.bytes);

	snap_options_init(&options);
	if (!snapshot)
		return 0;
	options.utf8 = view & 1;
	options.verbose = view >> 1 & 3;
	options.show_module = options.show_build_id = view & 8;
	options.summary = view & 16;
	options.full_names = view & 32;
	options.width = view & 64 ? 60 : 0;
	options.raw_names = view & 128;
	make_snapshot(&maker);
	check_json(snapshot, &options);
	check_format("text", snapshot, &options);
	check_format(others[choice % SNAP_ARRAY_SIZE(others)], snapshot, &options);
	return 0;
}
