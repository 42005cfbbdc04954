/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Renders names that somebody else chose in every format, for tests/e2e/test_hostile_names.py:
 * `hostile_names ROWS FOLDER`.
 *
 * ROWS has a process a line: its texts in hexadecimal, parted by spaces, in the order of struct
 * row. Writes a snapshot and a recording of them to FOLDER/KIND.CHARSET.FORMAT, and some views of
 * the text that elide. Not a test on its own: it judges nothing, and knows of no escape.
 */
#include "api/options.h"
#include "base/buffer.h"
#include "render/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
	const char *name, *description, *exe, *argument, *user, *cgroup, *unit, *container;
	const char *ancestor, *trouble, *thread, *syscall, *wchan, *title, *detail, *function;
	const char *symbol, *file, *module, *build_id, *inlined, *warning;
};

enum { COLUMNS = sizeof(struct row) / sizeof(char *), FRAMES = 3, LABELS = 4, TICKS = 2 };

/* What one line of ROWS becomes; everything points into its neighbours. */
struct process {
	struct row row;
	struct snap_node node;
	struct snap_ancestor ancestor;
	struct snap_stack stack;
	struct snap_member member;
	struct snap_label labels[LABELS];
	struct snap_frame frames[FRAMES];
	struct snap_entry entries[FRAMES][2];
	const struct snap_frame *pointers[FRAMES];
	const char *args[2];
};

static void die(const char *what)
{
	fprintf(stderr, "hostile_names: %s\n", what);
	exit(2);
}

static char *take_word(char **line)
{
	char *hex = strsep(line, " \n"), *out;
	size_t length = hex ? strlen(hex) / 2 : 0;

	if (length == 0)
		die("a row is short");
	out = calloc(length + 1, 1);
	for (size_t i = 0; out && i < length; i++) {
		char pair[] = { hex[2 * i], hex[2 * i + 1], '\0' };

		out[i] = (char)strtoul(pair, NULL, 16);
	}
	if (!out || strlen(out) != length)
		die("a text holds a NUL");
	return out;
}

static void fill_frames(struct process *process, uint64_t base)
{
	const struct row *row = &process->row;

	process->entries[0][0] = (struct snap_entry){
		.function = row->function, .symbol = row->symbol, .file = row->file, .line = 7
	};
	process->entries[2][0] = (struct snap_entry){ .function = row->inlined, .inlined = true };
	process->entries[2][1] = (struct snap_entry){ .symbol = row->symbol };
	for (uint64_t i = 0; i < FRAMES; i++) {
		process->frames[i] = (struct snap_frame){
			.address = base + i,
			.offset = 0x1000 + i,
			.module = i < 2 ? row->module : NULL,
			.build_id = i < 2 ? row->build_id : NULL,
			.has_offset = i < 2,
			.entries = process->entries[i],
			.entry_count = i < 2 ? 1 : 2,
		};
		process->pointers[i] = &process->frames[i];
	}
}

static void fill_stack(struct process *process)
{
	const struct row *row = &process->row;

	process->member = (struct snap_member){
		.tid = process->node.pid,
		.name = row->thread,
		.state = SNAP_STATE_SLEEPING,
		.syscall = row->syscall,
		.wchan = row->wchan,
		.cpu = -1,
	};
	memcpy(process->labels,
	       (struct snap_label[]){ { "state", "sleeping" },
				      { "thread_name", row->thread },
				      { "syscall", row->syscall },
				      { "wchan", row->wchan } },
	       sizeof(process->labels));
	process->stack = (struct snap_stack){
		.count = 1,
		.description = row->title,
		.labels = process->labels,
		.label_count = LABELS,
		.unwind = SNAP_UNWIND_FAILED,
		.unwind_detail = row->detail,
		.threads = &process->member,
		.thread_count = 1,
		.frames = process->pointers,
		.frame_count = FRAMES,
	};
	snprintf(process->stack.id, sizeof(process->stack.id), "%016x",
		 (unsigned)process->node.pid);
}

static void fill(struct process *process, pid_t pid)
{
	const struct row *row = &process->row;

	process->ancestor = (struct snap_ancestor){ 1000000, row->ancestor, 1 };
	process->args[0] = row->argument;
	process->args[1] = row->name;
	process->node = (struct snap_node){
		.pid = pid,
		.ppid = 1,
		.name = row->name,
		.description = row->description,
		.state = SNAP_STATE_SLEEPING,
		.exe = row->exe,
		.args = process->args,
		.arg_count = 2,
		.uid = 1000,
		.user = row->user,
		.start_ticks = 1,
		.cgroup = row->cgroup,
		.unit = row->unit,
		.container = row->container,
		.ancestors = &process->ancestor,
		.ancestor_count = 1,
		.thread_count = 1,
		.stacks = &process->stack,
		.stack_count = 1,
		.trouble = SNAP_TROUBLE_INTERNAL,
		.trouble_message = row->trouble,
	};
	fill_frames(process, 0x10000 + 16 * (uint64_t)pid);
	fill_stack(process);
}

static struct process *read_rows(const char *path, size_t *count_ret)
{
	FILE *in = fopen(path, "re");
	struct process *processes = NULL;
	size_t count = 0, capacity = 0, size = 0;
	char *line = NULL;

	while (in && getline(&line, &size, in) > 0) {
		const char *texts[COLUMNS];
		char *rest = line;

		for (size_t i = 0; i < COLUMNS; i++)
			texts[i] = take_word(&rest);
		if (!snap_reserve_array(processes, capacity, count + 1))
			die("out of memory");
		processes[count] = (struct process){ 0 };
		memcpy(&processes[count++].row, texts, sizeof(texts));
	}
	if (!in || !count)
		die("no rows");
	fclose(in);
	free(line);
	for (size_t i = 0; i < count; i++)
		fill(&processes[i], (pid_t)i + 1);
	*count_ret = count;
	return processes;
}

static struct snap_snapshot *make_snapshot(struct process *processes, size_t count)
{
	struct snap_snapshot *snapshot = snap_snapshot_new();
	const struct row *first = &processes[0].row;

	if (!snapshot)
		die("out of memory");
	snapshot->processes = snap_arena_new_array(&snapshot->arena, count, struct snap_node *);
	for (size_t i = 0; i < count; i++) {
		snapshot->processes[i] = &processes[i].node;
		snap_snapshot_warn(snapshot, "hostile", (pid_t)i + 1, 0, "%s",
				   processes[i].row.warning);
	}
	snapshot->host.name = first->name;
	snapshot->host.kernel = first->function;
	snapshot->host.arch = first->module;
	snapshot->host.boot_id = first->file;
	snapshot->time_ns = 1795420338106000000;
	snapshot->root_count = count;
	snapshot->process_count = snapshot->thread_count = snapshot->stack_count = count;
	return snapshot;
}

static struct snap_recording *make_recording(const struct snap_snapshot *snapshot)
{
	struct snap_recording *recording = NULL;

	if (snap_error_ignore(snap_recording_of_snapshot(snapshot, &recording)))
		die("no recording");
	recording->period_ns = 10000000;
	recording->duration_ns = TICKS * recording->period_ns;
	recording->ticks = snap_arena_new_array(&recording->arena, TICKS, struct snap_tick);
	recording->tick_count = TICKS;
	for (int i = 0; i < TICKS; i++)
		recording->ticks[i].time_ns = i * recording->period_ns;
	for (size_t i = 0; i < recording->track_count; i++)
		recording->tracks[i].runs[0].last = TICKS - 1;
	for (size_t i = 0; i < recording->process_count; i++)
		recording->processes[i].last = TICKS - 1;
	recording->stats.duration_ns = recording->duration_ns;
	recording->stats.ticks = TICKS;
	recording->stats.thread_samples = TICKS * recording->track_count;
	return recording;
}

struct documents {
	const struct snap_snapshot *snapshot;
	const struct snap_recording *recording;
	const char *folder;
};

static void write_one(const struct documents *documents, const char *kind, const char *charset,
		      const char *format_name, const struct snap_options *options)
{
	const struct snap_format *format = snap_format_by_name(format_name);
	struct stacksnap_error *err;
	char path[4096];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s.%s.%s", documents->folder, kind, charset, format_name);
	out = fopen(path, "we");
	if (!format || !out)
		die(path);
	if (strcmp(kind, "recording") == 0)
		err = snap_render_recording(format, documents->recording, options, out);
	else
		err = snap_render_snapshot(format, documents->snapshot, options, out);
	if (err)
		die(snap_error_message(err));
	if (fclose(out))
		die("cannot write");
}

static void write_formats(const struct documents *documents, const char *charset,
			  struct snap_options *options)
{
	for (const struct snap_format *format = snap_formats; format->name; format++) {
		/* Each name is to be found again. */
		options->full_names = strcmp(format->name, "text") == 0;
		write_one(documents, "snapshot", charset, format->name, options);
		write_one(documents, "recording", charset, format->name, options);
	}
	write_one(documents, "snapshot", charset, "list", options);
}

/* Narrow and wide terminals, with colours, where text is elided, cut and wrapped. */
static void write_terminals(const struct documents *documents, bool utf8,
			    struct snap_options *options)
{
	static const unsigned widths[] = { 33, 80, 200 };
	char charset[64];

	options->color = true;
	options->full_names = false;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(widths); i++) {
		options->width = widths[i];
		options->summary = i == 2;
		options->show_module = options->show_build_id = i == 1;
		options->verbose = i == 0;
		snprintf(charset, sizeof(charset), "%s-%u", utf8 ? "utf8" : "ascii", widths[i]);
		write_one(documents, "snapshot", charset, "text", options);
		write_one(documents, "snapshot", charset, "list", options);
		write_one(documents, "recording", charset, "text", options);
	}
}

int main(int argc, char **argv)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	struct process *processes;
	size_t count;

	if (argc != 3)
		die("usage: hostile_names ROWS FOLDER");
	processes = read_rows(argv[1], &count);
	snapshot = make_snapshot(processes, count);
	recording = make_recording(snapshot);
	for (int utf8 = 0; utf8 <= 1; utf8++) {
		struct documents documents = { snapshot, recording, argv[2] };
		struct snap_options options;

		snap_options_init(&options);
		options.utf8 = utf8;
		options.width = 0;
		options.verbose = 1;
		options.show_build_id = true;
		write_formats(&documents, utf8 ? "utf8" : "ascii", &options);
		write_terminals(&documents, utf8, &options);
		snap_options_deinit(&options);
	}
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < COLUMNS; k++)
			free((char *)((const char **)&processes[i].row)[k]);
	free(processes);
	return 0;
}
