/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks the answers of a parser that unwinds: numbers must be in their ranges, texts must end. See
 * unwinder.h. The parser may go on writing, so each value is read once.
 */
#include "base/buffer.h"
#include "roles/unwinder/internal.h"

#include <string.h>

enum {
	MOST_REASONS = 64,     /* that are kept apart */
	MOST_FRAMES = 1 << 16, /* managed frames of a process */
	MOST_FRAME_BYTES = 64 << 20,
};

/* The managed frames of a process, by their numbers. */
struct snap_remote_frames {
	struct snap_arena arena;
	struct snap_interner strings;
	const struct snap_frame **frames;
	size_t count, capacity;
};

void snap_remote_take(void *to, const void *from, size_t size)
{
	if (size)
		memcpy(to, from, size);
	atomic_signal_fence(memory_order_seq_cst);
}

void snap_remote_forget_frames(struct snap_remote_process *process)
{
	struct snap_remote_frames *frames = process->frames;

	process->frames = NULL;
	if (!frames)
		return;
	snap_interner_deinit(&frames->strings);
	snap_arena_deinit(&frames->arena);
	free(frames->frames);
	free(frames);
}

static bool take_pcs(struct snap_remote_unwinder *unwinder, size_t count)
{
	while (unwinder->pc_capacity < count)
		if (!snap_reserve_array(unwinder->pcs, unwinder->pc_capacity,
					unwinder->pc_capacity + 1))
			return false;
	if (count)
		memcpy(unwinder->pcs, unwinder->shared_pcs, count * sizeof(*unwinder->pcs));
	return true;
}

const char *snap_remote_reason(struct snap_remote_unwinder *unwinder, const char *text, size_t size)
{
	const char *reason;
	size_t length = strnlen(text, size);

	if (length == 0 || length == size)
		return NULL;
	for (size_t i = 0; i < length; i++)
		if (text[i] < ' ' || text[i] > '~')
			return NULL;
	if (unwinder->reasons.count >= MOST_REASONS)
		return "too many different unwind errors";
	reason = snap_intern(&unwinder->reasons, text, length);
	return reason ? reason : "out of memory";
}

/* ---- managed frames ---- */

static bool make_frames(struct snap_remote_process *process)
{
	if (process->frames)
		return true;
	process->frames = calloc(1, sizeof(*process->frames));
	if (!process->frames)
		return false;
	snap_arena_init(&process->frames->arena);
	snap_interner_init(&process->frames->strings, &process->frames->arena);
	return true;
}

/* Takes the texts of the answer, and puts a NUL behind the last one. */
static bool take_answered_text(struct snap_remote_unwinder *unwinder,
			       const struct snap_exchange_answer *answer)
{
	if (answer->text_size > SNAP_EXCHANGE_TEXT)
		return false;
	while (unwinder->text_capacity < answer->text_size + 1ul)
		if (!snap_reserve_array(unwinder->text, unwinder->text_capacity,
					unwinder->text_capacity + 1))
			return false;
	snap_remote_take(unwinder->text, unwinder->room.text, answer->text_size);
	unwinder->text[answer->text_size] = 0;
	unwinder->most_memory = SNAP_MAX(unwinder->most_memory, answer->text_size);
	return true;
}

bool snap_remote_text_at(const struct snap_remote_unwinder *unwinder, uint32_t size, uint32_t place,
			 const char **ret)
{
	*ret = place ? unwinder->text + place - 1 : NULL;
	return place <= size && (!place || strnlen(*ret, SNAP_MAX_NAME) < SNAP_MAX_NAME);
}

static bool take_answered_entry(struct snap_remote_unwinder *unwinder,
				struct snap_interner *strings, uint32_t text_size, size_t index,
				struct snap_entry *ret)
{
	struct snap_exchange_entry entry;

	snap_remote_take(&entry, &unwinder->room.entries[index], sizeof(entry));
	if (entry.inlined > 1 || entry.system > 1 || entry.language >= SNAP_EXCHANGE_LANGUAGES)
		return false;
	*ret = (struct snap_entry){ .line = entry.line,
				    .column = entry.column,
				    .inlined = entry.inlined,
				    .system = entry.system,
				    .language = snap_exchange_languages[entry.language] };
	return snap_remote_text_at(unwinder, text_size, entry.function, &ret->function) &&
	       snap_remote_text_at(unwinder, text_size, entry.symbol, &ret->symbol) &&
	       snap_remote_text_at(unwinder, text_size, entry.file, &ret->file) &&
	       snap_intern_text(strings, &ret->function, SNAP_MAX_NAME) &&
	       snap_intern_text(strings, &ret->symbol, SNAP_MAX_NAME) &&
	       snap_intern_text(strings, &ret->file, SNAP_MAX_NAME);
}

/* Takes a new frame, whose entries begin at *entry, and moves *entry on. */
static bool take_answered_frame(struct snap_remote_unwinder *unwinder,
				struct snap_remote_frames *frames,
				const struct snap_exchange_answer *answer, size_t index,
				size_t *entry)
{
	struct snap_exchange_frame taken;
	struct snap_frame *frame = snap_arena_new(&frames->arena, struct snap_frame);

	snap_remote_take(&taken, &unwinder->room.frames[index], sizeof(taken));
	if (!frame || !taken.entry_count || taken.entry_count > SNAP_EXCHANGE_MOST_ENTRIES ||
	    taken.entry_count > answer->entry_count - *entry)
		return false;
	frame->address = taken.address;
	frame->entry_count = taken.entry_count;
	frame->entries = snap_arena_new_array(&frames->arena, taken.entry_count, struct snap_entry);
	return snap_all(taken.entry_count, i,
			frame->entries &&
				take_answered_entry(unwinder, &frames->strings, answer->text_size,
						    (*entry)++, &frame->entries[i])) &&
	       snap_append(frames->frames, frames->count, frames->capacity, frame);
}

/* Takes the places of managed frames among the pcs. */
static bool take_places(struct snap_remote_unwinder *unwinder,
			const struct snap_remote_process *process,
			const struct snap_exchange_answer *answer)
{
	uint64_t next = 0;

	for (size_t i = 0; i < answer->managed_count; i++) {
		struct snap_exchange_managed placed;
		const struct snap_frame *frame;

		snap_remote_take(&placed, &unwinder->room.managed[i], sizeof(placed));
		frame = snap_remote_frame(process, placed.number);
		if (placed.at < next || placed.at >= answer->count || !frame ||
		    !snap_reserve_array(unwinder->placed, unwinder->placed_capacity, i + 1))
			return false;
		next = placed.at + 1ul;
		unwinder->placed[i] = (struct snap_log_managed){ placed.at, frame };
	}
	return true;
}

static bool take_answered_labels(struct snap_remote_unwinder *unwinder,
				 const struct snap_exchange_answer *answer)
{
	for (size_t i = 0; i < answer->label_count; i++) {
		struct snap_label *label = &unwinder->labels[i];

		if (!snap_remote_text_at(unwinder, answer->text_size, answer->labels[i].key,
					 &label->key) ||
		    !snap_remote_text_at(unwinder, answer->text_size, answer->labels[i].value,
					 &label->value) ||
		    !label->key || !label->value ||
		    (i && strcmp(unwinder->labels[i - 1].key, label->key) >= 0))
			return false;
	}
	return true;
}

bool snap_remote_take_frames(struct snap_remote_unwinder *unwinder,
			     struct snap_remote_process *process,
			     const struct snap_exchange_answer *answer)
{
	size_t entry = 0;

	if (answer->frame_count > SNAP_EXCHANGE_FRAMES ||
	    answer->entry_count > SNAP_EXCHANGE_ENTRIES || answer->forgets > 1 ||
	    !take_answered_text(unwinder, answer))
		return false;
	if (answer->forgets)
		snap_remote_forget_frames(process);
	if (answer->frame_count && !make_frames(process))
		return false;
	for (size_t i = 0; i < answer->frame_count; i++)
		if (process->frames->count >= MOST_FRAMES ||
		    process->frames->arena.total > MOST_FRAME_BYTES ||
		    !take_answered_frame(unwinder, process->frames, answer, i, &entry))
			return false;
	return true;
}

const struct snap_frame *snap_remote_frame(const struct snap_remote_process *process,
					   uint32_t number)
{
	return process->frames && number < process->frames->count ? process->frames->frames[number]
								  : NULL;
}

static bool take_managed(struct snap_remote_unwinder *unwinder, struct snap_remote_process *process,
			 const struct snap_exchange_answer *answer)
{
	if (answer->managed_count > answer->count || answer->label_count > SNAP_EXCHANGE_LABELS ||
	    !snap_remote_take_frames(unwinder, process, answer) ||
	    !take_places(unwinder, process, answer) || !take_answered_labels(unwinder, answer))
		return false;
	unwinder->managed = (struct snap_remote_managed){
		.frames = unwinder->placed,
		.frame_count = answer->managed_count,
		.shows_all = answer->shows_all,
		.labels = unwinder->labels,
		.label_count = answer->label_count,
	};
	return true;
}

/* ---- all of it ---- */

bool snap_remote_take_answer(struct snap_remote_unwinder *unwinder, uint32_t number,
			     struct snap_pcs *ret)
{
	/* Read once: the parser may go on writing. */
	struct snap_exchange_answer answer;

	memcpy(&answer, &unwinder->exchange->answer, sizeof(answer));
	/* Else the compiler could read the shared memory again. */
	atomic_signal_fence(memory_order_seq_cst);
	if (answer.count > unwinder->most_pcs || answer.end >= SNAP_UNWIND_COUNT ||
	    answer.needs_register > 1 || answer.stale_mappings > 1 ||
	    (answer.gap_count && answer.gap_after >= answer.count) || answer.shows_all > 1 ||
	    !take_pcs(unwinder, answer.count) ||
	    !take_managed(unwinder, &unwinder->processes[number], &answer))
		return false;
	*ret = (struct snap_pcs){
		.pcs = unwinder->pcs,
		.count = answer.count,
		.end = (enum snap_unwind_end)answer.end,
		.end_pc = answer.end_pc,
		.missing = answer.missing,
		.gap_after = answer.gap_count ? answer.gap_after : 0,
		.gap_count = answer.gap_count,
		.needs_register = answer.needs_register,
		.stale_mappings = answer.stale_mappings,
	};
	if (snap_unwind_is_whole(ret->end) && !answer.shows_all)
		return answer.reason[0] == 0;
	ret->reason = snap_remote_reason(unwinder, answer.reason, sizeof(answer.reason));
	return ret->reason;
}
