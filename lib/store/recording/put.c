/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The columns of a recording on disk: what a log has beyond what was written already. See
 * internal.h; how they become chunks is in write.c.
 */
#include "store/capture/model.h"
#include "store/recording/internal.h"

#include <string.h>

/* ---- processes and spaces ---- */

static void put_new_processes(struct snap_log_writer *writer, const struct snap_log *log)
{
	snap_log_put(&writer->body, log->process_count - writer->processes);
	for (size_t i = writer->processes; i < log->process_count; i++) {
		const struct snap_log_process *process = &log->processes[i];

		snap_log_put(&writer->body, (uint64_t)process->pid);
		snap_log_put(&writer->body, process->start_ticks);
		snap_log_put(&writer->body,
			     process->parent == UINT32_MAX ? 0 : process->parent + 1ull);
		snap_log_put(&writer->body, process->first_tick);
		snap_log_put(&writer->body, process->is_target | process->told.known << 1);
		if (process->told.known) {
			snap_log_put(&writer->body, process->told.type);
			snap_log_put_text(writer, process->told.description, SNAP_MAX_NAME);
			snap_log_put(&writer->body, process->told.thread_count);
		}
	}
}

/* By the description that capture files have, too; memory and threads are told elsewhere. */
static void put_facts(struct snap_log_writer *writer, const struct snap_process *process)
{
	struct snap_process facts = *process;
	struct snap_capture capture = { .processes = &facts, .process_count = 1 };
	struct snap_codec count = { .mode = SNAP_CODEC_COUNT, .version = SNAP_LOG_FACTS_VERSION };
	struct snap_codec codec = { .mode = SNAP_CODEC_WRITE, .version = SNAP_LOG_FACTS_VERSION };

	facts.map_count = facts.piece_count = facts.thread_count = facts.embedded_count = 0;
	snap_code_process(&count, &capture, 0);
	snap_log_put(&writer->body, count.position);
	snap_log_put_bytes(&writer->body, NULL, count.position);
	if (writer->body.failed)
		return;
	codec.memory = writer->body.bytes + writer->body.size - count.position;
	snap_code_process(&codec, &capture, 0);
}

static void put_memory(struct snap_log_writer *writer, const struct snap_process *process)
{
	uint64_t at = 0;
	size_t count = 0;

	for (size_t i = 0; i < process->map_count; i++)
		count += snap_log_tells(&process->maps[i]);
	snap_log_put(&writer->body, count);
	for (size_t i = 0; i < process->map_count; i++) {
		const struct snap_map *map = &process->maps[i];

		if (!snap_log_tells(map))
			continue;
		snap_log_put(&writer->body, map->start - at);
		snap_log_put(&writer->body, map->end - map->start);
		snap_log_put(&writer->body, map->offset);
		snap_log_put(&writer->body, map->inode);
		snap_log_put(&writer->body, map->dev_major);
		snap_log_put(&writer->body, map->dev_minor);
		snap_log_put(&writer->body, map->read | map->write << 1 | map->execute << 2 |
						    map->shared << 3 | map->deleted << 4);
		snap_log_put_text(writer, map->path, SNAP_MAX_PATH);
		at = map->end;
	}
	snap_log_put(&writer->body, process->piece_count);
	at = 0;
	for (size_t i = 0; i < process->piece_count; i++) {
		const struct snap_piece *piece = &process->pieces[i];
		size_t size =
			piece->size < SNAP_LOG_LONGEST_TEXT ? piece->size : SNAP_LOG_LONGEST_TEXT;

		snap_log_put(&writer->body, piece->address - at);
		snap_log_put(&writer->body, snap_log_text_number(writer, piece->data, size));
		at = piece->address + size;
	}
}

static void put_spaces(struct snap_log_writer *writer, const struct snap_log *log)
{
	size_t count = 0;

	for (size_t i = 0; i < log->capture->process_count; i++)
		count += log->index->insides[i].version > writer->space_versions[i];
	snap_log_put(&writer->body, count);
	for (size_t i = 0; i < log->capture->process_count; i++) {
		if (log->index->insides[i].version <= writer->space_versions[i])
			continue;
		/* Numbers of the file have no holes. */
		if (writer->space_versions[i] == 0)
			writer->space_numbers[i] = (uint32_t)writer->spaces++;
		writer->space_versions[i] = log->index->insides[i].version;
		snap_log_put(&writer->body, writer->space_numbers[i]);
		snap_log_put(&writer->body, log->spaces[i].process);
		put_facts(writer, &log->capture->processes[i]);
		put_memory(writer, &log->capture->processes[i]);
	}
}

static bool process_changed(const struct snap_log_writer *writer, const struct snap_log *log,
			    size_t i)
{
	const struct snap_log_process *process = &log->processes[i];
	const struct snap_log_written *written = &writer->process_states[i];

	return i >= writer->processes || process->space != written->space ||
	       process->last_tick != written->last_tick || process->execed != written->execed;
}

static void put_process_states(struct snap_log_writer *writer, const struct snap_log *log)
{
	size_t count = 0;

	for (size_t i = 0; i < log->process_count; i++)
		count += process_changed(writer, log, i);
	snap_log_put(&writer->body, count);
	for (size_t i = 0; i < log->process_count; i++) {
		const struct snap_log_process *process = &log->processes[i];

		if (!process_changed(writer, log, i))
			continue;
		writer->process_states[i] =
			(struct snap_log_written){ process->space, process->last_tick,
						   process->execed };
		snap_log_put(&writer->body, i);
		snap_log_put(&writer->body, process->space == UINT32_MAX
						    ? 0
						    : writer->space_numbers[process->space] + 1ull);
		snap_log_put(&writer->body, process->last_tick + 1);
		snap_log_put(&writer->body, process->execed);
	}
	writer->processes = log->process_count;
}

void snap_log_put_processes(struct snap_log_writer *writer, const struct snap_log *log)
{
	put_new_processes(writer, log);
	put_spaces(writer, log);
	put_process_states(writer, log);
}

/* ---- threads ---- */

void snap_log_put_threads(struct snap_log_writer *writer, const struct snap_log *log)
{
	size_t renamed = 0;
	pid_t tid = 0;

	snap_log_put(&writer->body, log->thread_count - writer->threads);
	for (size_t i = writer->threads; i < log->thread_count; i++) {
		const struct snap_log_thread *thread = &log->threads[i];

		snap_log_put(&writer->body, thread->process);
		snap_log_put_signed(&writer->body, (int64_t)thread->tid - tid);
		snap_log_put_signed(&writer->body, (int64_t)thread->ns_tid - thread->tid);
		snap_log_put(&writer->body, thread->kernel);
		snap_log_put_text(writer, thread->name, SNAP_MAX_COMM);
		writer->thread_names[i] = thread->name;
		tid = thread->tid;
	}
	for (size_t i = 0; i < writer->threads; i++)
		renamed += writer->thread_names[i] != log->threads[i].name;
	snap_log_put(&writer->body, renamed);
	for (size_t i = 0; i < writer->threads; i++) {
		if (writer->thread_names[i] == log->threads[i].name)
			continue;
		snap_log_put(&writer->body, i);
		snap_log_put_text(writer, log->threads[i].name, SNAP_MAX_COMM);
		writer->thread_names[i] = log->threads[i].name;
	}
	writer->threads = log->thread_count;
}

/* ---- stacks ---- */

static void put_frames(struct snap_log_writer *writer, const struct snap_log *log)
{
	uint64_t address = 0;
	uint32_t space = 0;

	snap_log_put(&writer->body, log->frame_count - writer->frames);
	for (size_t i = writer->frames; i < log->frame_count; i++) {
		const struct snap_log_frame *frame = &log->frames[i];
		/* How it was found stays in: only whether it is exact is told with the step. */
		uint64_t now = frame->bits & ~SNAP_PC_EXACT;
		uint32_t number = writer->space_numbers[frame->space];
		int64_t step = (int64_t)number - space;

		snap_log_put(&writer->body, (((uint64_t)step << 1) ^ (step < 0 ? UINT64_MAX : 0))
							    << 1 |
						    frame->bits >> 63);
		snap_log_put_signed(&writer->body, (int64_t)(now - address));
		address = now;
		space = number;
	}
	writer->frames = log->frame_count;
}

/* How many of the outermost frames a stack has in common with the one before it. */
static uint32_t shared_frames(const struct snap_log *log, size_t index)
{
	const struct snap_log_stack *stack = &log->stacks[index], *before = stack - 1;
	const uint32_t *end = log->frame_ids + stack->frame_start + stack->frame_count;
	const uint32_t *before_end = log->frame_ids + before->frame_start + before->frame_count;
	uint32_t shared = 0;

	while (shared < stack->frame_count && shared < before->frame_count &&
	       shared < SNAP_LOG_MOST_SHARED &&
	       end[-(ptrdiff_t)shared - 1] == before_end[-(ptrdiff_t)shared - 1])
		shared++;
	return shared;
}

static void put_stack(struct snap_log_writer *writer, const struct snap_log *log, size_t index)
{
	const struct snap_log_stack *stack = &log->stacks[index];
	bool more = stack->end_pc || stack->gap_count || stack->gap_after || stack->reason;
	uint32_t shared = index ? shared_frames(log, index) : 0;
	const uint32_t *ids = log->frame_ids + stack->frame_start;
	int64_t last = 0;

	snap_log_put(&writer->body, stack->end | (more ? SNAP_LOG_MORE_BIT : 0));
	snap_log_put(&writer->body, writer->space_numbers[stack->space]);
	if (more) {
		snap_log_put(&writer->body, stack->end_pc);
		snap_log_put(&writer->body, stack->gap_count);
		snap_log_put(&writer->body, stack->gap_after);
		snap_log_put(&writer->body, stack->reason);
	}
	snap_log_put(&writer->body, shared);
	snap_log_put(&writer->body, stack->frame_count - shared);
	for (uint32_t i = stack->frame_count - shared; i-- > 0;) {
		snap_log_put_signed(&writer->body, (int64_t)ids[i] - last);
		last = ids[i];
	}
}

void snap_log_put_stacks(struct snap_log_writer *writer, const struct snap_log *log)
{
	snap_log_put(&writer->body, log->reason_count - writer->reasons);
	for (size_t i = writer->reasons; i < log->reason_count; i++)
		snap_log_put_text(writer, log->reasons[i], SNAP_MAX_NAME);
	writer->reasons = log->reason_count;
	snap_log_put(&writer->body, log->call_count - writer->calls);
	for (size_t i = writer->calls; i < log->call_count; i++) {
		snap_log_put_text(writer, log->calls[i].syscall, SNAP_MAX_NAME);
		snap_log_put_text(writer, log->calls[i].wchan, SNAP_MAX_NAME);
	}
	writer->calls = log->call_count;
	put_frames(writer, log);
	snap_log_put(&writer->body, log->stack_count - writer->stacks);
	for (size_t i = writer->stacks; i < log->stack_count; i++)
		put_stack(writer, log, i);
	writer->stacks = log->stack_count;
}

/* ---- ticks ---- */

static void put_change(struct snap_log_writer *writer, const struct snap_log_change *change,
		       uint32_t *thread)
{
	snap_log_put_signed(&writer->body, (int64_t)change->thread - *thread);
	snap_log_put(&writer->body, change->stack == SNAP_LOG_GONE ? 0 : change->stack + 1ull);
	if (change->stack != SNAP_LOG_GONE)
		snap_log_put(&writer->body, (uint64_t)(uint16_t)(change->syscall + 1) << 6 |
						    (uint64_t)change->state << 2 | change->taken);
	*thread = change->thread;
}

/* How threads stood before the first tick that is there: only ever told at first. */
static void put_before(struct snap_log_writer *writer, const struct snap_log *log)
{
	size_t count = 0, before_count = writer->sequence == 1 ? log->before_count : 0;
	uint32_t thread = 0;

	for (size_t i = 0; i < before_count; i++)
		count += log->before[i].stack != SNAP_LOG_GONE;
	snap_log_put(&writer->body, log->first_tick);
	snap_log_put(&writer->body, count);
	for (size_t i = 0; i < before_count; i++)
		if (log->before[i].stack != SNAP_LOG_GONE)
			put_change(writer, &log->before[i], &thread);
}

void snap_log_put_ticks(struct snap_log_writer *writer, const struct snap_log *log)
{
	uint64_t end = snap_log_tick_at(log);

	put_before(writer, log);
	snap_log_put(&writer->body, end - writer->ticks);
	for (; writer->ticks < end; writer->ticks++) {
		const struct snap_log_tick *tick = &log->ticks[writer->ticks - log->first_tick];
		int64_t step = tick->time_ns - writer->last_time;
		uint32_t thread = 0;

		snap_log_put_signed(&writer->body, step - writer->last_step);
		snap_log_put(&writer->body, (uint64_t)tick->stopped_ns);
		snap_log_put(&writer->body, tick->change_end - writer->changes);
		writer->last_time = tick->time_ns;
		writer->last_step = step;
		for (; writer->changes < tick->change_end; writer->changes++)
			put_change(writer, &log->changes[writer->changes - log->first_change],
				   &thread);
	}
}

/* ---- names ---- */

static void put_entry(struct snap_log_writer *writer, const struct snap_entry *entry)
{
	snap_log_put_text(writer, entry->function, SNAP_MAX_NAME);
	snap_log_put_text(writer, entry->symbol, SNAP_MAX_NAME);
	snap_log_put_text(writer, entry->file, SNAP_MAX_NAME);
	snap_log_put(&writer->body, entry->line);
	snap_log_put(&writer->body, entry->column);
	snap_log_put(&writer->body, entry->inlined | entry->system << 1 | entry->kernel << 2);
}

void snap_log_put_names(struct snap_log_writer *writer, const struct snap_log *log)
{
	size_t count = 0, last = 0;

	for (size_t i = 0; i < log->frame_count; i++)
		count += log->frames[i].name != 0;
	snap_log_put(&writer->body, count);
	for (size_t i = 0; i < log->frame_count; i++) {
		const struct snap_frame *name;

		if (!log->frames[i].name)
			continue;
		name = &log->names[log->frames[i].name - 1];
		snap_log_put(&writer->body, i - last);
		last = i;
		snap_log_put_text(writer, name->module, SNAP_MAX_NAME);
		snap_log_put_text(writer, name->build_id, SNAP_MAX_NAME);
		snap_log_put(&writer->body, name->has_offset);
		if (name->has_offset)
			snap_log_put(&writer->body, name->offset);
		snap_log_put(&writer->body, name->file_offset);
		snap_log_put(&writer->body, name->entry_count);
		for (size_t k = 0; k < name->entry_count; k++)
			put_entry(writer, &name->entries[k]);
	}
}
