/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two logs are the same, but for what a file does not keep: anonymous mappings at the end. */
#pragma once

#include "store/log/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline void same_text(const char *a, const char *b)
{
	if (!a || !b)
		assert_true(a == b);
	else
		assert_string_equal(a, b);
}

static inline void same_process(const struct snap_process *a, const struct snap_process *b)
{
	assert_int_equal(a->pid, b->pid);
	same_text(a->name, b->name);
	same_text(a->exe, b->exe);
	assert_int_equal(a->args_size, b->args_size);
	assert_memory_equal(a->args, b->args, a->args_size);
	same_text(a->user, b->user);
	same_text(a->cgroup, b->cgroup);
	same_text(a->trouble_message, b->trouble_message);
	assert_int_equal(a->trouble, b->trouble);
	assert_int_equal(a->ancestor_count, b->ancestor_count);
	same_text(a->ancestors[0].name, b->ancestors[0].name);
	assert_true(b->parent == SIZE_MAX);
	/* The last one of each is anonymous: nothing is looked up in it. */
	assert_int_equal(b->map_count, a->map_count - (a->maps[a->map_count - 1].path == NULL));
	for (size_t i = 0; i < b->map_count; i++) {
		assert_int_equal(a->maps[i].start, b->maps[i].start);
		assert_int_equal(a->maps[i].end, b->maps[i].end);
		assert_int_equal(a->maps[i].offset, b->maps[i].offset);
		assert_int_equal(a->maps[i].inode, b->maps[i].inode);
		assert_int_equal(a->maps[i].execute, b->maps[i].execute);
		assert_int_equal(a->maps[i].write, b->maps[i].write);
		same_text(a->maps[i].path, b->maps[i].path);
	}
	assert_int_equal(a->piece_count, b->piece_count);
	for (size_t i = 0; i < a->piece_count; i++) {
		assert_int_equal(a->pieces[i].address, b->pieces[i].address);
		assert_int_equal(a->pieces[i].size, b->pieces[i].size);
		assert_memory_equal(a->pieces[i].data, b->pieces[i].data, a->pieces[i].size);
	}
}

static inline void same_names(const struct snap_log *a, const struct snap_log *b)
{
	for (size_t i = 0; i < a->frame_count; i++) {
		const struct snap_frame *x, *y;

		assert_int_equal(a->frames[i].bits, b->frames[i].bits);
		assert_int_equal(a->frames[i].space, b->frames[i].space);
		assert_int_equal(a->frames[i].is_managed, b->frames[i].is_managed);
		assert_int_equal(!a->frames[i].name, !b->frames[i].name);
		if (!a->frames[i].name)
			continue;
		x = &a->names[a->frames[i].name - 1];
		y = &b->names[b->frames[i].name - 1];
		assert_int_equal(x->address, y->address);
		assert_int_equal(x->offset, y->offset);
		assert_int_equal(x->has_offset, y->has_offset);
		assert_int_equal(x->file_offset, y->file_offset);
		same_text(x->module, y->module);
		same_text(x->build_id, y->build_id);
		assert_int_equal(x->entry_count, y->entry_count);
		for (size_t k = 0; k < x->entry_count; k++) {
			same_text(x->entries[k].function, y->entries[k].function);
			same_text(x->entries[k].symbol, y->entries[k].symbol);
			same_text(x->entries[k].file, y->entries[k].file);
			assert_int_equal(x->entries[k].line, y->entries[k].line);
			assert_int_equal(x->entries[k].column, y->entries[k].column);
			assert_int_equal(x->entries[k].inlined, y->entries[k].inlined);
			assert_int_equal(x->entries[k].system, y->entries[k].system);
			same_text(x->entries[k].language, y->entries[k].language);
		}
	}
}

static inline void same_stacks(const struct snap_log *a, const struct snap_log *b)
{
	assert_int_equal(a->frame_count, b->frame_count);
	assert_int_equal(a->frame_id_count, b->frame_id_count);
	assert_memory_equal(a->frame_ids, b->frame_ids, a->frame_id_count * sizeof(uint32_t));
	assert_int_equal(a->stack_count, b->stack_count);
	for (size_t i = 0; i < a->stack_count; i++) {
		const struct snap_log_stack *x = &a->stacks[i], *y = &b->stacks[i];

		assert_int_equal(x->space, y->space);
		assert_int_equal(x->frame_start, y->frame_start);
		assert_int_equal(x->frame_count, y->frame_count);
		assert_int_equal(x->end, y->end);
		assert_int_equal(x->end_pc, y->end_pc);
		assert_int_equal(x->gap_after, y->gap_after);
		assert_int_equal(x->gap_count, y->gap_count);
		assert_int_equal(x->reason, y->reason);
		assert_int_equal(x->labels, y->labels);
		assert_int_equal(x->shows_all, y->shows_all);
	}
	assert_int_equal(a->label_set_count, b->label_set_count);
	for (size_t i = 0; i < a->label_set_count; i++) {
		assert_int_equal(a->label_sets[i].space, b->label_sets[i].space);
		assert_int_equal(a->label_sets[i].count, b->label_sets[i].count);
		for (size_t k = 0; k < a->label_sets[i].count; k++) {
			same_text(a->label_sets[i].labels[k].key, b->label_sets[i].labels[k].key);
			same_text(a->label_sets[i].labels[k].value,
				  b->label_sets[i].labels[k].value);
		}
	}
	assert_int_equal(a->reason_count, b->reason_count);
	for (size_t i = 0; i < a->reason_count; i++)
		same_text(a->reasons[i], b->reasons[i]);
}

static inline void same_tasks(const struct snap_log *a, const struct snap_log *b)
{
	assert_int_equal(a->task_count, b->task_count);
	for (size_t i = 0; i < a->task_count; i++) {
		const struct snap_log_task *x = &a->tasks[i], *y = &b->tasks[i];

		same_text(x->id, y->id);
		same_text(x->name, y->name);
		same_text(x->runtime, y->runtime);
		same_text(x->parent, y->parent);
		assert_int_equal(x->labels, y->labels);
		assert_int_equal(x->labels_cut, y->labels_cut);
		assert_int_equal(!x->created_by, !y->created_by);
		if (!x->created_by)
			continue;
		same_text(x->created_by->function, y->created_by->function);
		same_text(x->created_by->file, y->created_by->file);
		assert_int_equal(x->created_by->line, y->created_by->line);
	}
	assert_int_equal(a->call_count, b->call_count);
	for (size_t i = 0; i < a->call_count; i++)
		same_text(a->calls[i].wchan, b->calls[i].wchan);
}

static inline void same_change(const struct snap_log_change *a, const struct snap_log_change *b)
{
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->stack, b->stack);
	assert_int_equal(a->syscall, b->syscall);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->taken, b->taken);
	assert_int_equal(a->object, b->object);
}

static inline void same_objects(const struct snap_log *a, const struct snap_log *b)
{
	assert_int_equal(a->words_count, b->words_count);
	for (size_t i = 0; i < a->words_count; i++) {
		assert_int_equal(a->words[i].space, b->words[i].space);
		assert_int_equal(a->words[i].piece_count, b->words[i].piece_count);
		assert_true(a->words[i].hash == b->words[i].hash);
	}
	assert_int_equal(a->object_count, b->object_count);
	for (size_t i = 0; i < a->object_count; i++) {
		const struct snap_log_object *x = &a->objects[i], *y = &b->objects[i];

		assert_int_equal(x->space, y->space);
		assert_int_equal(x->call.known, y->call.known);
		assert_int_equal(x->call.number, y->call.number);
		assert_int_equal(x->call.sp, y->call.sp);
		assert_memory_equal(x->call.arguments, y->call.arguments,
				    sizeof(x->call.arguments));
		assert_int_equal(x->is_futex, y->is_futex);
		assert_int_equal(x->words, y->words);
		assert_int_equal(x->descriptor_count, y->descriptor_count);
		for (uint32_t k = 0; k < x->descriptor_count; k++) {
			assert_int_equal(x->descriptors[k].number, y->descriptors[k].number);
			assert_int_equal(x->descriptors[k].kind, y->descriptors[k].kind);
			assert_int_equal(x->descriptors[k].inode, y->descriptors[k].inode);
			assert_int_equal(x->descriptors[k].remaining_ns,
					 y->descriptors[k].remaining_ns);
			same_text(x->descriptors[k].link, y->descriptors[k].link);
		}
		assert_int_equal(snap_log_owner_bytes(a, (uint32_t)i) != NULL,
				 snap_log_owner_bytes(b, (uint32_t)i) != NULL);
	}
	assert_int_equal(a->socket_count, b->socket_count);
	for (size_t i = 0; i < a->socket_count; i++) {
		assert_int_equal(a->sockets[i].inode, b->sockets[i].inode);
		assert_int_equal(a->sockets[i].namespace, b->sockets[i].namespace);
		assert_int_equal(a->sockets[i].family, b->sockets[i].family);
		assert_int_equal(a->sockets[i].state, b->sockets[i].state);
		assert_memory_equal(&a->sockets[i].local, &b->sockets[i].local,
				    sizeof(a->sockets[i].local));
		assert_memory_equal(&a->sockets[i].remote, &b->sockets[i].remote,
				    sizeof(a->sockets[i].remote));
		assert_int_equal(a->sockets[i].receive_queue, b->sockets[i].receive_queue);
		assert_int_equal(a->sockets[i].peer, b->sockets[i].peer);
		same_text(a->sockets[i].name, b->sockets[i].name);
	}
}

static inline void same_waits(const struct snap_log *a, const struct snap_log *b)
{
	same_objects(a, b);
	assert_int_equal(a->explained_count, b->explained_count);
	for (size_t i = 0; i < a->explained_count; i++) {
		const struct snap_wait *x = a->explained[i].wait, *y = b->explained[i].wait;

		assert_int_equal(a->explained[i].stack, b->explained[i].stack);
		assert_int_equal(a->explained[i].object, b->explained[i].object);
		assert_ptr_equal(
			snap_log_explained(b, b->explained[i].stack, b->explained[i].object),
			&b->explained[i]);
		assert_int_equal(x != NULL, y != NULL);
		if (!x)
			continue;
		assert_int_equal(x->confidence, y->confidence);
		assert_int_equal(x->owner_word.address, y->owner_word.address);
		assert_int_equal(x->owner_word.form, y->owner_word.form);
		assert_int_equal(y->value, x->value == INT64_MAX ? INT64_MAX / 4 : x->value);
		if (x->value != INT64_MAX)
			assert_true(snap_wait_same(x, y));
		else
			same_text(x->symbol, y->symbol);
		if (x->peer_count)
			same_text(x->peers[0].name, y->peers[0].name);
	}
}

static inline void same_ticks(const struct snap_log *a, const struct snap_log *b)
{
	assert_int_equal(a->tick_count, b->tick_count);
	assert_int_equal(a->first_tick, b->first_tick);
	for (size_t i = 0; i < a->tick_count; i++) {
		assert_int_equal(a->ticks[i].time_ns, b->ticks[i].time_ns);
		assert_int_equal(a->ticks[i].stopped_ns, b->ticks[i].stopped_ns);
		assert_int_equal(a->ticks[i].change_end - a->first_change,
				 b->ticks[i].change_end - b->first_change);
		assert_int_equal(a->ticks[i].owner_end - a->first_owner,
				 b->ticks[i].owner_end - b->first_owner);
		assert_int_equal(a->ticks[i].wake_end - a->first_wake,
				 b->ticks[i].wake_end - b->first_wake);
	}
	assert_int_equal(a->explains, b->explains);
	assert_true(a->wakes_end == b->wakes_end);
	assert_int_equal(a->wake_count, b->wake_count);
	for (size_t i = 0; i < a->wake_count; i++) {
		assert_int_equal(a->wakes[i].thread, b->wakes[i].thread);
		assert_int_equal(a->wakes[i].ran, b->wakes[i].ran);
	}
	for (size_t i = 0; i < a->thread_count; i++)
		assert_int_equal(i < a->ran_before_count ? a->ran_before[i] : 0,
				 i < b->ran_before_count ? b->ran_before[i] : 0);
	assert_int_equal(a->change_count, b->change_count);
	for (size_t i = 0; i < a->change_count; i++)
		same_change(&a->changes[i], &b->changes[i]);
	assert_int_equal(a->before_count, b->before_count);
	for (size_t i = 0; i < a->before_count; i++)
		same_change(&a->before[i], &b->before[i]);
	assert_int_equal(a->owner_count, b->owner_count);
	if (a->owner_count)
		assert_memory_equal(a->owners, b->owners, a->owner_count * sizeof(*a->owners));
	for (size_t i = 0; i < a->object_count; i++)
		assert_int_equal(i < a->owners_before_count ? a->owners_before[i] : 0,
				 i < b->owners_before_count ? b->owners_before[i] : 0);
}

static inline void same_logs(const struct snap_log *a, const struct snap_log *b)
{
	same_text(a->capture->host.name, b->capture->host.name);
	same_text(a->capture->host.boot_id, b->capture->host.boot_id);
	assert_int_equal(a->capture->host.cpus, b->capture->host.cpus);
	assert_int_equal(a->time_ns, b->time_ns);
	assert_int_equal(a->period_ns, b->period_ns);
	assert_int_equal(a->end, b->end);
	assert_memory_equal(&a->stats, &b->stats, sizeof(a->stats));
	assert_int_equal(a->process_count, b->process_count);
	for (size_t i = 0; i < a->process_count; i++) {
		assert_int_equal(a->processes[i].pid, b->processes[i].pid);
		assert_int_equal(a->processes[i].parent, b->processes[i].parent);
		assert_int_equal(a->processes[i].space, b->processes[i].space);
		assert_int_equal(a->processes[i].first_tick, b->processes[i].first_tick);
		assert_true(a->processes[i].last_tick == b->processes[i].last_tick);
		assert_int_equal(a->processes[i].execed, b->processes[i].execed);
		assert_int_equal(a->processes[i].is_target, b->processes[i].is_target);
	}
	assert_int_equal(a->capture->process_count, b->capture->process_count);
	for (size_t i = 0; i < a->capture->process_count; i++) {
		assert_int_equal(a->spaces[i].process, b->spaces[i].process);
		same_process(&a->capture->processes[i], &b->capture->processes[i]);
	}
	assert_int_equal(a->thread_count, b->thread_count);
	for (size_t i = 0; i < a->thread_count; i++) {
		assert_int_equal(a->threads[i].process, b->threads[i].process);
		assert_int_equal(a->threads[i].tid, b->threads[i].tid);
		assert_int_equal(a->threads[i].ns_tid, b->threads[i].ns_tid);
		assert_int_equal(a->threads[i].kernel, b->threads[i].kernel);
		same_text(a->threads[i].name, b->threads[i].name);
		assert_int_equal(a->threads[i].task, b->threads[i].task);
	}
	same_tasks(a, b);
	same_stacks(a, b);
	same_names(a, b);
	same_waits(a, b);
	same_ticks(a, b);
	assert_int_equal(a->capture->warning_count, b->capture->warning_count);
	for (size_t i = 0; i < a->capture->warning_count; i++)
		same_text(a->capture->warnings[i].message, b->capture->warnings[i].message);
}
