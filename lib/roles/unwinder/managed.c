/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Managed frames in the parser of a remote unwinder: see managed.h. */
#include "roles/unwinder/managed.h"

#include "analyze/classify.h"
#include "analyze/runtime/place.h"
#include "analyze/runtime/runtimes.h"
#include "analyze/symbol/function.h"
#include "analyze/task/task.h"
#include "base/buffer.h"
#include "base/escape.h"
#include "model/stack_cut.h"
#include "roles/unwinder/answering.h"

#include <string.h>

enum {
	/* Of a process; then both sides forget all of them. */
	MOST_FRAMES = 1 << 15,
	MOST_BYTES = 8 << 20,
	LONGEST_TEXT = SNAP_MAX_NAME - 1,
};

static const char no_room[] = "too many new functions of an interpreter at once";

const char *const snap_exchange_languages[SNAP_EXCHANGE_LANGUAGES] = { "go", "python", "php" };

/* A frame that the client knows by its number. */
struct known {
	uint64_t pc;
	struct snap_entry *entries; /* texts are interned */
	size_t entry_count;
};

/* Whether the function at a pc has a name that begins so. */
struct named {
	uint64_t pc;
	const char *prefix;
	bool begins_so;
};

static struct snap_managed *managed_new(void)
{
	struct snap_managed *managed = calloc(1, sizeof(*managed));

	if (!managed)
		return NULL;
	snap_arena_init(&managed->arena);
	snap_interner_init(&managed->strings, &managed->arena);
	return managed;
}

static void release_frames(struct snap_managed *managed)
{
	snap_hash_table_deinit(&managed->table);
	snap_interner_deinit(&managed->strings);
	snap_arena_deinit(&managed->arena);
	managed->frame_count = 0;
}

void snap_managed_destroy(struct snap_managed *managed)
{
	if (!managed)
		return;
	release_frames(managed);
	snap_hash_table_deinit(&managed->name_table);
	free(managed->frames);
	free(managed->names);
	snap_runtime_symbols_deinit(&managed->symbols);
	free(managed);
}

/* ---- one answer ---- */

void snap_answering_deinit(struct snap_answering *answering)
{
	snap_arena_deinit(&answering->arena);
	free(answering->bits);
	free(answering->frames);
}

/* ---- texts, frames ---- */

bool snap_answering_put_text(struct snap_answering *answering, const char *text, uint32_t *ret)
{
	struct snap_exchange_answer *answer = &answering->exchange->answer;
	size_t length = text ? strnlen(text, LONGEST_TEXT + 4) : 0;

	*ret = 0;
	if (!text)
		return true;
	length = snap_text_cut(text, length, LONGEST_TEXT);
	if (length + 1 > SNAP_EXCHANGE_TEXT - answer->text_size)
		return false;
	memcpy(answering->exchange->room.text + answer->text_size, text, length);
	answering->exchange->room.text[answer->text_size + length] = 0;
	*ret = answer->text_size + 1;
	answer->text_size += (uint32_t)length + 1;
	return true;
}

static uint8_t number_of_language(const char *language)
{
	for (uint8_t i = 0; language && i < SNAP_EXCHANGE_LANGUAGES; i++)
		if (strcmp(snap_exchange_languages[i], language) == 0)
			return i;
	return 0;
}

static bool put_managed_entry(struct snap_answering *answering, const struct snap_entry *entry)
{
	struct snap_exchange_answer *answer = &answering->exchange->answer;
	struct snap_exchange_entry put = {
		.line = entry->line,
		.column = entry->column,
		.inlined = entry->inlined,
		.system = entry->system || snap_classify_managed_system(
						   entry->language, entry->function, entry->file),
		.language = number_of_language(entry->language),
	};

	if (answer->entry_count == SNAP_EXCHANGE_ENTRIES ||
	    !snap_answering_put_text(answering, entry->function, &put.function) ||
	    !snap_answering_put_text(answering, entry->symbol, &put.symbol) ||
	    !snap_answering_put_text(answering, entry->file, &put.file))
		return false;
	answering->exchange->room.entries[answer->entry_count++] = put;
	return true;
}

/* A frame that is new to the client; false: there is no room. */
static bool put_managed_frame(struct snap_answering *answering,
			      const struct snap_runtime_frame *frame)
{
	struct snap_exchange_answer *answer = &answering->exchange->answer;
	uint32_t entries = answer->entry_count, text = answer->text_size;
	size_t count = frame->entry_count;

	if (answer->frame_count == SNAP_EXCHANGE_FRAMES)
		return false;
	/* The last entry is the real function, not an inlined one. */
	count = SNAP_MIN(count, SNAP_EXCHANGE_MOST_ENTRIES);
	for (size_t i = 0; i < count; i++) {
		if (put_managed_entry(answering, &frame->entries[frame->entry_count - count + i]))
			continue;
		answer->entry_count = entries;
		answer->text_size = text;
		return false;
	}
	answering->exchange->room.frames[answer->frame_count++] =
		(struct snap_exchange_frame){ frame->pc, (uint32_t)count };
	return true;
}

static uint64_t hash_managed_frame(const struct snap_runtime_frame *frame)
{
	uint64_t hash = frame->pc;

	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		hash = snap_hash_add(hash, (uintptr_t)entry->function);
		hash = snap_hash_add(hash, (uintptr_t)entry->file);
		hash = snap_hash_add(hash, (uint64_t)entry->line << 32 | entry->column);
	}
	return hash;
}

static bool is_frame_known(const struct known *known, const struct snap_runtime_frame *frame)
{
	bool same = known->pc == frame->pc && known->entry_count == frame->entry_count;

	for (size_t i = 0; same && i < frame->entry_count; i++) {
		const struct snap_entry *a = &known->entries[i], *b = &frame->entries[i];

		same = a->function == b->function && a->symbol == b->symbol && a->file == b->file &&
		       a->line == b->line && a->column == b->column && a->inlined == b->inlined;
	}
	return same;
}

enum snap_numbered snap_answering_number(struct snap_answering *answering,
					 const struct snap_runtime_frame *frame, uint32_t *ret)
{
	struct snap_managed *managed = answering->managed;
	uint64_t hash = hash_managed_frame(frame);
	struct known known = { frame->pc, NULL, frame->entry_count };

	if (snap_hash_got(&managed->table, hash, i, is_frame_known(&managed->frames[i], frame),
			  ret))
		return SNAP_NUMBERED;
	known.entries = snap_arena_memdup(&managed->arena, frame->entries,
					  frame->entry_count * sizeof(*frame->entries));
	if (!known.entries ||
	    !snap_reserve_array(managed->frames, managed->frame_capacity,
				managed->frame_count + 1) ||
	    !snap_hash_table_reserve(&managed->table, managed->frame_count + 1))
		return SNAP_NUMBERED_NO_MEMORY;
	if (!put_managed_frame(answering, frame))
		return SNAP_NUMBERED_NO_ROOM;
	if (!snap_hash_table_add(&managed->table, hash, managed->frame_count))
		return SNAP_NUMBERED_NO_MEMORY;
	*ret = (uint32_t)managed->frame_count;
	managed->frames[managed->frame_count++] = known;
	return SNAP_NUMBERED;
}

/* ---- places ---- */

static const struct named *native_name_at(struct snap_answering *answering, uint64_t pc,
					  const char *prefix)
{
	const struct snap_managed_thread *thread = answering->thread;
	struct snap_managed *managed = answering->managed;
	uint64_t hash = snap_hash_add(pc, (uintptr_t)prefix);
	struct snap_probe probe = snap_hash_table_probe(&managed->name_table, hash);
	struct named *named;

	while (snap_probe_next(&probe)) {
		named = &managed->names[probe.number];
		if (named->pc == pc && named->prefix == prefix)
			return named;
	}
	if (!snap_reserve_array(managed->names, managed->name_capacity, managed->name_count + 1) ||
	    !snap_hash_table_add(&managed->name_table, hash, managed->name_count))
		return NULL;
	named = &managed->names[managed->name_count++];
	*named = (struct named){ pc, prefix,
				 snap_function_begins(thread->set, thread->modules, pc, prefix) };
	return named;
}

static bool is_function(void *context, size_t index, const char *prefix)
{
	struct snap_answering *answering = context;
	const struct named *named =
		native_name_at(answering, snap_pc_lookup(answering->pcs->pcs[index]), prefix);

	return named && named->begins_so;
}

static void add_managed(struct snap_answering *answering, const struct snap_runtime_thread *thread,
			size_t first, size_t count)
{
	memcpy(answering->frames + answering->count, thread->stack.frames + first,
	       count * sizeof(*answering->frames));
	answering->count += count;
}

/*
 * Merges the stacks. *fits_ret false: they do not fit together, and the managed frames come first.
 */
static bool merge_managed_thread(struct snap_answering *answering,
				 const struct snap_runtime_thread *thread, bool *fits_ret)
{
	const struct snap_pcs *pcs = answering->pcs;
	const struct snap_place_finder finder = { pcs->sps, pcs->count, is_function, answering };
	_cleanup_free_ size_t *loops = snap_place_runs(thread, &finder);
	size_t total = pcs->count + thread->stack.count, run = 0;

	answering->bits = calloc(total + 1, sizeof(*answering->bits));
	answering->frames = calloc(total + 1, sizeof(*answering->frames));
	if (!answering->bits || !answering->frames)
		return false;
	*fits_ret = loops;
	if (!loops)
		add_managed(answering, thread, 0, thread->stack.count);
	for (size_t i = 0; i < pcs->count; i++) {
		if (loops && run < thread->run_count && loops[run] == i) {
			add_managed(answering, thread, thread->runs[run].first,
				    thread->runs[run].count);
			run++;
		}
		answering->bits[answering->count++] = pcs->pcs[i].bits;
	}
	return true;
}

/* ---- the answer ---- */

static void set_reason(struct snap_exchange_answer *answer, const char *reason)
{
	memset(answer->reason, 0, sizeof(answer->reason));
	if (reason)
		memccpy(answer->reason, reason, 0, sizeof(answer->reason) - 1);
}

/* Puts the end of the native stack, or of the managed one if that ended early. */
static void put_end(struct snap_answering *answering, const struct snap_runtime_stack *stack,
		    bool fits)
{
	const struct snap_pcs *pcs = answering->pcs;
	struct snap_exchange_answer *answer = &answering->exchange->answer;

	answer->end = pcs->end;
	answer->end_pc = pcs->end_pc;
	answer->needs_register = pcs->needs_register;
	answer->stale_mappings = pcs->stale_mappings;
	answer->shows_all = !fits;
	set_reason(answer, pcs->reason ? pcs->reason : fits ? NULL : snap_place_none);
	if (!snap_unwind_is_whole(stack->end)) {
		answer->end = stack->end;
		answer->end_pc = 0;
		set_reason(answer, stack->reason ? stack->reason : "its frames cannot be read");
	}
}

static struct stacksnap_error *put_managed_stack(struct snap_answering *answering)
{
	struct snap_exchange *exchange = answering->exchange;
	struct snap_exchange_answer *answer = &exchange->answer;
	uint64_t most = exchange->most_pcs;
	struct snap_stack_cut cut = { answering->count, 0 };

	if (answering->count > most)
		cut = most < 2 ? (struct snap_stack_cut){ most, 0 }
			       : snap_stack_cut_to(most, answering->count, 0, 0);
	answer->managed_count = 0;
	answer->count = cut.head + cut.tail;
	for (size_t i = 0; i < answer->count; i++) {
		size_t from = i < cut.head ? i : answering->count - (answer->count - i);
		struct snap_exchange_managed placed = { .at = (uint32_t)i };
		enum snap_numbered numbered;

		exchange->pcs[i].bits = answering->bits[from];
		if (!answering->frames[from])
			continue;
		numbered =
			snap_answering_number(answering, answering->frames[from], &placed.number);
		SNAP_TRY(snap_no_memory_unless(numbered != SNAP_NUMBERED_NO_MEMORY));
		if (numbered == SNAP_NUMBERED_NO_ROOM) {
			answer->count = i;
			answer->end = SNAP_UNWIND_LIMIT;
			answer->end_pc = 0;
			set_reason(answer, no_room);
			break;
		}
		exchange->room.managed[answer->managed_count++] = placed;
	}
	answer->gap_count = answer->gap_after = 0;
	if (answer->count > cut.head && cut.tail) {
		answer->gap_after = cut.head - 1;
		answer->gap_count = answering->count - cut.head - cut.tail;
	}
	return NULL;
}

/* ---- labels ---- */

static size_t add_answered_labels(struct snap_answering *answering, const struct snap_label *from,
				  size_t count, struct snap_label *labels, size_t have)
{
	struct snap_interner *strings = &answering->managed->strings;

	for (size_t i = 0; i < count && have < SNAP_EXCHANGE_LABELS; i++) {
		const char *key = from[i].key ? snap_task_shown_key(strings, from[i].key) : NULL;

		if (key && *key)
			labels[have++] =
				(struct snap_label){ key, from[i].value ? from[i].value : "" };
	}
	return have;
}

/* Gathers labels of the process, and of the task that the thread runs. */
static size_t gather_labels(struct snap_answering *answering, struct snap_label *labels)
{
	pid_t tid = answering->thread->thread->tid;
	size_t count = 0;

	for (size_t i = 0; i < answering->result_count; i++) {
		const struct snap_runtime_result *result = answering->results[i];

		count = add_answered_labels(answering, result->labels, result->label_count, labels,
					    count);
		for (size_t k = 0; k < result->task_count; k++) {
			const struct snap_runtime_task *task = &result->tasks[k];

			if (task->tid != tid)
				continue;
			if (task->name && count < SNAP_EXCHANGE_LABELS)
				labels[count++] = (struct snap_label){ "task", task->name };
			count = add_answered_labels(answering, task->labels, task->label_count,
						    labels, count);
			break;
		}
	}
	return snap_task_sort_labels(labels, count);
}

static void put_managed_labels(struct snap_answering *answering)
{
	struct snap_exchange_answer *answer = &answering->exchange->answer;
	struct snap_label labels[SNAP_EXCHANGE_LABELS];
	size_t count = gather_labels(answering, labels);

	for (size_t i = 0; i < count; i++) {
		struct snap_exchange_label *label = &answer->labels[answer->label_count];

		/* Long keys may be the same once they are cut. */
		if (strlen(labels[i].key) <= LONGEST_TEXT &&
		    snap_answering_put_text(answering, labels[i].key, &label->key) &&
		    snap_answering_put_text(answering, labels[i].value, &label->value))
			answer->label_count++;
	}
}

/* ---- all of it ---- */

struct stacksnap_error *snap_answering_read(struct snap_answering *answering,
					    struct snap_process *process, bool is_of_thread)
{
	const struct snap_managed_thread *thread = answering->thread;
	const struct snap_runtime_process of = {
		.process = process,
		.set = thread->set,
		.modules = thread->modules,
		.options = thread->options,
		.strings = &answering->managed->strings,
		.arena = &answering->arena,
		.symbols = &answering->managed->symbols,
		.is_of_thread = is_of_thread,
	};

	for (size_t i = 0; snap_runtimes[i] && answering->result_count < SNAP_ANSWERING_RESULTS;
	     i++) {
		struct snap_runtime_result *result = NULL;

		if (answering->managed->absent & 1u << i ||
		    !(thread->options->runtimes & snap_runtimes[i]->kind))
			continue;
		SNAP_TRY(snap_runtime_read_process(snap_runtimes[i], &of, &result));
		if (result)
			answering->results[answering->result_count++] = result;
		else
			answering->managed->absent |= 1u << i;
	}
	return NULL;
}

static struct stacksnap_error *read_managed_thread(struct snap_answering *answering)
{
	struct snap_process process = *answering->thread->process;
	struct snap_thread own = *answering->thread->thread;

	process.threads = &own;
	process.thread_count = 1;
	process.memory = (struct snap_memory_image *)(uintptr_t)own.memory;
	return snap_answering_read(answering, &process, true);
}

static const struct snap_runtime_thread *find_managed_thread(const struct snap_answering *answering)
{
	for (size_t i = 0; i < answering->result_count; i++) {
		const struct snap_runtime_result *result = answering->results[i];

		for (size_t k = 0; k < result->thread_count; k++)
			if (result->threads[k].tid == answering->thread->thread->tid &&
			    result->threads[k].stack.count)
				return &result->threads[k];
	}
	return NULL;
}

bool snap_answering_begin(struct snap_managed **managed, struct snap_exchange *exchange)
{
	if (!*managed)
		*managed = managed_new();
	if (!*managed)
		return false;
	if ((*managed)->frame_count < MOST_FRAMES && (*managed)->arena.total < MOST_BYTES)
		return true;
	release_frames(*managed);
	snap_arena_init(&(*managed)->arena);
	snap_interner_init(&(*managed)->strings, &(*managed)->arena);
	exchange->answer.forgets = 1;
	return true;
}

struct stacksnap_error *snap_managed_answer(struct snap_managed **managed,
					    const struct snap_managed_thread *thread,
					    const struct snap_pcs *pcs,
					    struct snap_exchange *exchange, bool *ret)
{
	_cleanup_(snap_answering_deinit) struct snap_answering answering = { .thread = thread,
									     .pcs = pcs,
									     .exchange = exchange };
	const struct snap_runtime_thread *own;
	bool fits;

	*ret = false;
	snap_arena_init(&answering.arena);
	SNAP_TRY(snap_no_memory_unless(snap_answering_begin(managed, exchange)));
	answering.managed = *managed;
	SNAP_TRY(read_managed_thread(&answering));
	put_managed_labels(&answering);
	own = find_managed_thread(&answering);
	if (!own)
		return NULL;
	*ret = true;
	SNAP_TRY(snap_no_memory_unless(merge_managed_thread(&answering, own, &fits)));
	put_end(&answering, &own->stack, fits);
	return put_managed_stack(&answering);
}
