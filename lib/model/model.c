/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Captures, snapshots and recordings: creation, destruction, copies, warnings and the words of their
 * enums. See model/capture.h and model/snapshot.h; more of recordings is in recording.c.
 */
#include "base/bsearch.h"
#include "base/spawn.h"
#include "model/recording.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

enum { TRACER_PATIENCE_MS = 1000 };

struct snap_capture *snap_capture_new(void)
{
	struct snap_capture *capture = calloc(1, sizeof(*capture));

	if (!capture)
		return NULL;
	snap_arena_init(&capture->arena);
	capture->shared_fd = capture->tracer_fd = -1;
	return capture;
}

void snap_live_close(struct snap_live *live)
{
	snap_close(&live->pidfd);
	snap_close(&live->proc_fd);
	snap_close(&live->root_fd);
	snap_close(&live->exe_fd);
	snap_close(&live->files_fd);
}

long snap_live_count(const struct snap_live *live)
{
	return (live->pidfd >= 0) + (live->proc_fd >= 0) + (live->root_fd >= 0) +
	       (live->exe_fd >= 0) + (live->files_fd >= 0);
}

void snap_capture_destroy(struct snap_capture *capture)
{
	if (!capture)
		return;
	for (size_t i = 0; capture->live && i < capture->process_count; i++)
		snap_live_close(&capture->live[i]);
	free(capture->live);
	if (capture->shared)
		munmap(capture->shared, capture->shared_size);
	snap_close(&capture->shared_fd);
	if (capture->end_asker)
		capture->end_asker(capture->asker);
	if (capture->tracer_fd >= 0)
		snap_spawn_end(capture->tracer_fd, TRACER_PATIENCE_MS, TRACER_PATIENCE_MS);
	snap_close(&capture->tracer_fd);
	if (capture->outside)
		munmap(capture->outside, capture->outside_size);
	snap_arena_deinit(&capture->arena);
	free(capture);
}

struct snap_snapshot *snap_snapshot_new(void)
{
	struct snap_snapshot *snapshot = calloc(1, sizeof(*snapshot));

	if (snapshot)
		snap_arena_init(&snapshot->arena);
	return snapshot;
}

void snap_snapshot_destroy(struct snap_snapshot *snapshot)
{
	if (!snapshot)
		return;
	if (snapshot->backing)
		munmap(snapshot->backing, snapshot->backing_size);
	snap_arena_deinit(&snapshot->arena);
	free(snapshot);
}

static _printf_(6, 0) void warn(struct snap_arena *arena, struct snap_warning **warnings,
				size_t *count, size_t *capacity, struct snap_warning warning,
				const char *format, va_list arguments)
{
	_cleanup_free_ char *text = NULL;

	if (vasprintf(&text, format, arguments) < 0) {
		text = NULL;
		return;
	}
	warning.message = snap_arena_strdup(arena, text);
	if (*count == *capacity) {
		size_t room = *capacity ? *capacity * 2 : 8;
		struct snap_warning *grown = snap_arena_new_array(arena, room, struct snap_warning);

		if (!grown)
			return;
		if (*count)
			memcpy(grown, *warnings, *count * sizeof(*grown));
		*warnings = grown;
		*capacity = room;
	}
	if (warning.message)
		(*warnings)[(*count)++] = warning;
}

void snap_capture_warn(struct snap_capture *capture, const char *code, pid_t pid, pid_t tid,
		       const char *format, ...)
{
	struct snap_warning warning = { .code = code, .pid = pid, .tid = tid };
	va_list arguments;

	va_start(arguments, format);
	warn(&capture->arena, &capture->warnings, &capture->warning_count,
	     &capture->warning_capacity, warning, format, arguments);
	va_end(arguments);
}

void snap_snapshot_warn(struct snap_snapshot *snapshot, const char *code, pid_t pid, pid_t tid,
			const char *format, ...)
{
	struct snap_warning warning = { .code = code, .pid = pid, .tid = tid };
	va_list arguments;

	va_start(arguments, format);
	warn(&snapshot->arena, &snapshot->warnings, &snapshot->warning_count,
	     &snapshot->warning_capacity, warning, format, arguments);
	va_end(arguments);
}

unsigned snap_frames_doubt(const struct snap_frame **frames, size_t count)
{
	return snap_sum(count, i, frames[i]->trust);
}

int snap_stack_compare_weight(const struct snap_stack *a, const struct snap_stack *b)
{
	return snap_compare(b->crashed, a->crashed) ?:
	       snap_compare(b->samples, a->samples) ?: snap_compare(b->count, a->count);
}

int snap_stack_compare_urgency(const struct snap_stack *a, const struct snap_stack *b)
{
	return snap_compare(b->crashed, a->crashed) ?:
	       snap_compare(a->urgency, b->urgency) ?: snap_stack_compare_weight(a, b);
}

bool snap_stack_has_thread(const struct snap_stack *stack, pid_t tid)
{
	for (size_t i = 0; tid && i < stack->thread_count; i++)
		if (stack->threads[i].tid == tid)
			return true;
	return tid && snap_any(stack->task_count, i, stack->tasks[i].tid == tid);
}

/* Signals that end a process with a core, or with which a debugger stops it. */
static const struct {
	int number;
	const char *word;
} signals[] = {
	{ SIGHUP, "SIGHUP" },   { SIGINT, "SIGINT" },   { SIGQUIT, "SIGQUIT" },
	{ SIGILL, "SIGILL" },   { SIGTRAP, "SIGTRAP" }, { SIGABRT, "SIGABRT" },
	{ SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" },   { SIGKILL, "SIGKILL" },
	{ SIGUSR1, "SIGUSR1" }, { SIGSEGV, "SIGSEGV" }, { SIGUSR2, "SIGUSR2" },
	{ SIGPIPE, "SIGPIPE" }, { SIGALRM, "SIGALRM" }, { SIGTERM, "SIGTERM" },
	{ SIGXCPU, "SIGXCPU" }, { SIGXFSZ, "SIGXFSZ" }, { SIGSYS, "SIGSYS" },
};

const char *snap_signal_word(int number)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(signals); i++)
		if (signals[i].number == number)
			return signals[i].word;
	return NULL;
}

int snap_stack_compare(const void *left, const void *right)
{
	const struct snap_stack *a = left, *b = right;

	return snap_stack_compare_weight(a, b) ?: strcmp(a->id, b->id);
}

const char *snap_stack_label(const struct snap_stack *stack, const char *key)
{
	for (size_t i = 0; i < stack->label_count; i++)
		if (strcmp(stack->labels[i].key, key) == 0)
			return stack->labels[i].value;
	return NULL;
}

struct snap_stack *snap_node_next_stack(const struct snap_node *node,
					struct snap_stack_cursor *cursor)
{
	if (cursor->logical == 0) {
		if (cursor->stack < node->stack_count)
			return &node->stacks[cursor->stack++];
		*cursor = (struct snap_stack_cursor){ 1, 0 };
	}
	while (cursor->logical <= node->logical_count) {
		const struct snap_logical *logical = &node->logical[cursor->logical - 1];

		if (cursor->stack < logical->stack_count)
			return &logical->stacks[cursor->stack++];
		*cursor = (struct snap_stack_cursor){ cursor->logical + 1, 0 };
	}
	return NULL;
}

size_t snap_node_stack_count(const struct snap_node *node)
{
	size_t count = node->stack_count;

	for (size_t i = 0; i < node->logical_count; i++)
		count += node->logical[i].stack_count;
	return count;
}

/* ---- copies ---- */

static bool copy_ancestors(struct snap_interner *strings, struct snap_process *process)
{
	struct snap_ancestor *copied;

	if (process->ancestor_count > SNAP_MAX_ANCESTORS)
		process->ancestor_count = SNAP_MAX_ANCESTORS;
	copied =
		snap_arena_new_array(strings->arena, process->ancestor_count, struct snap_ancestor);
	if (!copied)
		return false;
	for (size_t i = 0; i < process->ancestor_count; i++) {
		copied[i] = process->ancestors[i];
		if (!snap_intern_text(strings, &copied[i].name, SNAP_MAX_COMM))
			return false;
	}
	process->ancestors = copied;
	return true;
}

bool snap_process_copy(struct snap_interner *strings, const struct snap_process *from,
		       struct snap_process *ret)
{
	struct snap_process process = *from;
	const char **texts[] = { &process.user, &process.cgroup, &process.unit, &process.container,
				 &process.trouble_message };

	process.maps = NULL;
	process.pieces = NULL;
	process.threads = NULL;
	process.embedded = NULL;
	process.map_count = process.piece_count = process.thread_count = 0;
	process.embedded_count = 0;
	process.parent = SIZE_MAX;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(texts); i++)
		if (!snap_intern_text(strings, texts[i], SNAP_MAX_TEXT))
			return false;
	if (process.args) {
		if (process.args_size > SNAP_MAX_ARGS)
			process.args_size = SNAP_MAX_ARGS;
		process.args = snap_intern(strings, process.args, process.args_size);
		if (!process.args)
			return false;
	}
	if (!snap_intern_text(strings, &process.name, SNAP_MAX_COMM) ||
	    !snap_intern_text(strings, &process.exe, SNAP_MAX_PATH) ||
	    !copy_ancestors(strings, &process))
		return false;
	*ret = process;
	return true;
}

bool snap_frame_copy(struct snap_interner *strings, const struct snap_frame *from,
		     struct snap_frame *ret)
{
	struct snap_frame frame = *from;

	frame.entries = snap_arena_memdup(strings->arena, from->entries,
					  from->entry_count * sizeof(*from->entries));
	if (!frame.entries || !snap_intern_text(strings, &frame.module, SIZE_MAX) ||
	    !snap_intern_text(strings, &frame.build_id, SIZE_MAX))
		return false;
	for (size_t i = 0; i < frame.entry_count; i++) {
		struct snap_entry *entry = &frame.entries[i];

		if (!snap_intern_text(strings, &entry->function, SIZE_MAX) ||
		    !snap_intern_text(strings, &entry->symbol, SIZE_MAX) ||
		    !snap_intern_text(strings, &entry->file, SIZE_MAX) ||
		    !snap_intern_text(strings, &entry->language, SIZE_MAX))
			return false;
	}
	*ret = frame;
	return true;
}

/* ---- processes of a capture ---- */

/* The list lives in the arena: growing it leaves the old one behind, less than the list again. */
static bool reserve_processes(struct snap_capture *capture, size_t capacity)
{
	struct snap_process *processes;
	struct snap_live *live = reallocarray(capture->live, capacity, sizeof(*live));

	if (!live)
		return false;
	capture->live = live;
	processes = snap_arena_new_array(&capture->arena, capacity, struct snap_process);
	if (!processes)
		return false;
	if (capture->process_count)
		memcpy(processes, capture->processes, capture->process_count * sizeof(*processes));
	capture->processes = processes;
	capture->process_capacity = capacity;
	return true;
}

struct snap_process *snap_capture_append(struct snap_capture *capture)
{
	size_t count = capture->process_count;

	if (count >= capture->process_capacity && !reserve_processes(capture, 2 * count + 8))
		return NULL;
	capture->live[count] = (struct snap_live){ -1, -1, -1, -1, -1 };
	capture->processes[count] = (struct snap_process){ 0 };
	capture->process_count++;
	return &capture->processes[count];
}

void snap_process_set_trouble(struct snap_capture *capture, struct snap_process *process,
			      enum snap_trouble trouble, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	process->trouble = trouble;
	process->trouble_message = length < 0 ? NULL : snap_arena_strdup(&capture->arena, text);
	if (!process->trouble_message)
		process->trouble_message = snap_trouble_word(trouble);
}

uint64_t snap_capture_memory_bytes(const struct snap_capture *capture)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < capture->process_count; i++)
		if (capture->processes[i].memory)
			bytes += capture->processes[i].memory->bytes;
	return bytes;
}

const struct snap_map *snap_process_map(const struct snap_process *process, uint64_t address)
{
	const struct snap_map *maps = process->maps;
	size_t at = snap_first_not(process->map_count, i, maps[i].end <= address);

	return at < process->map_count && maps[at].start <= address ? &maps[at] : NULL;
}

const struct snap_map *snap_maps_stack(const struct snap_map *maps, size_t count, uint64_t sp)
{
	size_t at = snap_first_not(count, i, maps[i].end <= sp);
	/* In a core of gdb the guard pages can be read. */
	bool is_readable = at < count && maps[at].start <= sp && maps[at].read;

	for (size_t i = at; i < count; i++) {
		if (maps[i].start > sp && maps[i].start - sp > SNAP_OVERFLOW_BYTES)
			break;
		if (maps[i].read && maps[i].write)
			return &maps[i];
	}
	return is_readable ? &maps[at] : NULL;
}

/* The captured piece that holds an address, NULL if none. */
static const struct snap_piece *piece_of(const struct snap_process *process, uint64_t address)
{
	size_t next =
		snap_first_not(process->piece_count, i, process->pieces[i].address <= address);
	const struct snap_piece *piece = next ? &process->pieces[next - 1] : NULL;

	return piece && address - piece->address < piece->size ? piece : NULL;
}

const struct snap_piece *snap_process_head(const struct snap_process *process, size_t map)
{
	const struct snap_map *line = &process->maps[map];
	const struct snap_piece *piece = piece_of(process, line->start);

	return piece && piece->address == line->start && line->offset == 0 ? piece : NULL;
}

bool snap_process_read(const struct snap_process *process, uint64_t address, void *out, size_t size)
{
	const struct snap_piece *piece = piece_of(process, address);

	if (!piece || piece->size - (address - piece->address) < size)
		return false;
	memcpy(out, piece->data + (address - piece->address), size);
	return true;
}

uint64_t snap_maps_stack_end(const struct snap_map *maps, size_t count, uint64_t thread_pointer)
{
	enum { MOST_PARTS = 64 }; /* the rest of a target with more is cut off */
	uint64_t end = maps->end;

	for (size_t i = 1; i < count && i <= MOST_PARTS; i++) {
		if (maps[i].start != maps[i - 1].end || !maps[i].read || !maps[i].write ||
		    maps[i - 1].inode || maps[i].inode)
			break;
		if ((thread_pointer >= maps[i].start && thread_pointer < maps[i].end) ||
		    (maps[i].path && strcmp(maps[i].path, "[stack]") == 0))
			end = maps[i].end;
	}
	return end;
}

const char *snap_process_type_word(enum snap_process_type type)
{
	static const char *const words[] = {
		[SNAP_TYPE_NORMAL] = "normal", [SNAP_TYPE_SYSTEM] = "system",
		[SNAP_TYPE_KERNEL] = "kernel", [SNAP_TYPE_DEAD] = "dead",
		[SNAP_TYPE_NONE] = "none",
	};

	return words[type];
}

static const char *const state_words[] = {
	[SNAP_STATE_UNKNOWN] = "unknown",   [SNAP_STATE_RUNNING] = "running",
	[SNAP_STATE_SLEEPING] = "sleeping", [SNAP_STATE_DISK] = "disk",
	[SNAP_STATE_STOPPED] = "stopped",   [SNAP_STATE_TRACED] = "traced",
	[SNAP_STATE_ZOMBIE] = "zombie",     [SNAP_STATE_DEAD] = "dead",
	[SNAP_STATE_IDLE] = "idle",         [SNAP_STATE_PARKED] = "parked",
	[SNAP_STATE_FROZEN] = "frozen",
};

const char *snap_state_word(enum snap_state state)
{
	return state_words[state];
}

enum snap_state snap_state_of_word(const char *word)
{
	enum snap_state state = SNAP_STATE_UNKNOWN;

	while (state < SNAP_STATE_COUNT && strcmp(state_words[state], word) != 0)
		state++;
	return state;
}

enum snap_state snap_state_of_letter(char letter)
{
	static const uint8_t states[UINT8_MAX + 1] = {
		['R'] = SNAP_STATE_RUNNING, ['S'] = SNAP_STATE_SLEEPING, ['D'] = SNAP_STATE_DISK,
		['T'] = SNAP_STATE_STOPPED, ['t'] = SNAP_STATE_TRACED,   ['Z'] = SNAP_STATE_ZOMBIE,
		['X'] = SNAP_STATE_DEAD,    ['x'] = SNAP_STATE_DEAD,     ['I'] = SNAP_STATE_IDLE,
		['P'] = SNAP_STATE_PARKED,
	};
	_Static_assert(SNAP_STATE_UNKNOWN == 0, "of all other letters");

	return states[(uint8_t)letter];
}

const char *snap_unwind_word(enum snap_unwind_end end)
{
	static const char *const words[] = {
		[SNAP_UNWIND_COMPLETE] = "complete", [SNAP_UNWIND_LIMIT] = "limit",
		[SNAP_UNWIND_NO_CFI] = "no_cfi",     [SNAP_UNWIND_UNREADABLE] = "unreadable",
		[SNAP_UNWIND_CYCLE] = "cycle",       [SNAP_UNWIND_NOT_STOPPED] = "not_stopped",
		[SNAP_UNWIND_FAILED] = "failed",     [SNAP_UNWIND_SCANNED] = "scanned",
		[SNAP_UNWIND_GUESSED] = "guessed",
	};

	return words[end];
}

bool snap_thread_is_missing(enum snap_unwind_end end, enum snap_state state, bool kernel)
{
	return end == SNAP_UNWIND_NOT_STOPPED && !kernel && state != SNAP_STATE_ZOMBIE &&
	       state != SNAP_STATE_DEAD;
}

const char *snap_trust_word(enum snap_trust trust)
{
	static const char *const words[] = {
		[SNAP_TRUST_CFI] = "cfi",
		[SNAP_TRUST_FRAME_POINTER] = "frame_pointer",
		[SNAP_TRUST_SCAN] = "scan",
		[SNAP_TRUST_UNCONFIRMED] = "unconfirmed",
	};

	return words[trust];
}

bool snap_frames_are_own_managed(const struct snap_frame *const *frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < frames[i]->entry_count; k++)
			if (frames[i]->entries[k].language)
				return !frames[i]->entries[k].system;
	return false;
}
