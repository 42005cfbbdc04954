/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recording files, .snaprec, of what has names already: a slice of a recording, or a snapshot.
 *
 * The way back from names to a log, whose frames are those of the recording with the names that
 * they have; store/recording/file.h writes it. What can be computed from names again (ids, descriptions
 * of stacks) is not kept. Knows nothing of the format.
 */
#include "base/buffer.h"
#include "base/table.h"
#include "render/render.h"
#include "render/snaprec_waits.h"
#include "store/log/index.h"
#include "store/recording/file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { COPY_BYTES = 1 << 16 };

struct converter {
	const struct snap_recording *recording;
	struct snap_log *log;
	struct snap_arena arena;
	/* the recording's frames that the log has, in its order, and by address and process */
	const struct snap_frame **frames;
	size_t frame_capacity;
	struct snap_hash_table table;
	struct snap_snaprec_waits waits;
};

static void converter_deinit(struct converter *converter)
{
	free(converter->frames);
	snap_hash_table_deinit(&converter->table);
	snap_arena_deinit(&converter->arena);
	snap_snaprec_waits_deinit(&converter->waits);
	snap_log_destroy(converter->log);
}

/* ---- processes ---- */

static char letter_of(enum snap_state state)
{
	static const char letters[] = "RSDTtZXIP";

	for (size_t i = 0; letters[i]; i++)
		if (snap_state_of_letter(letters[i]) == state)
			return letters[i];
	return 0;
}

/* Arguments, each with its NUL. */
static bool join_args(struct converter *converter, const struct snap_node *node,
		      struct snap_process *facts)
{
	size_t size = 0, at = 0;
	char *bytes;

	for (size_t i = 0; i < node->arg_count; i++)
		size += strlen(node->args[i]) + 1;
	bytes = snap_arena_alloc(&converter->arena, size + 1);
	if (!bytes)
		return false;
	for (size_t i = 0; i < node->arg_count; i++) {
		size_t length = strlen(node->args[i]) + 1;

		memcpy(bytes + at, node->args[i], length);
		at += length;
	}
	facts->args = size ? bytes : NULL;
	facts->args_size = size < SNAP_MAX_ARGS ? size : SNAP_MAX_ARGS;
	return true;
}

static struct snap_process facts_of(const struct snap_node *node)
{
	return (struct snap_process){
		.pid = node->pid,
		.ppid = node->ppid,
		.ns_pid = node->ns_pid,
		.start_ticks = node->start_ticks,
		.start_time_ns = node->start_time_ns,
		.name = node->name,
		.state = letter_of(node->state),
		.exe = node->exe,
		.exe_deleted = snap_any(node->label_count, i,
					strcmp(node->labels[i].key, "exe_deleted") == 0),
		.uid = node->uid,
		.user = node->user,
		.cgroup = node->cgroup,
		.unit = node->unit,
		.container = node->container,
		.ancestors = node->ancestors,
		.ancestor_count = node->ancestor_count,
		.parent = SIZE_MAX,
		.trouble = node->trouble,
		.trouble_message = node->trouble_message,
		.threads_missed = node->threads_missed,
		.stop_duration_ns = node->stop_duration_ns,
	};
}

static struct stacksnap_error *convert_process(struct converter *converter, size_t index)
{
	const struct snap_recorded_process *from = &converter->recording->processes[index];
	struct snap_log *log = converter->log;
	struct snap_process facts = facts_of(from->node);
	struct snap_log_process *process;
	uint32_t parent = from->parent == SIZE_MAX ? UINT32_MAX : (uint32_t)from->parent;
	uint32_t number, space;

	SNAP_TRY(snap_no_memory_unless(join_args(converter, from->node, &facts)));
	SNAP_TRY(snap_log_add_process(log, facts.pid, facts.start_ticks, parent, UINT32_MAX, false,
				      &number));
	SNAP_TRY(snap_log_map_process(log, number, &facts, NULL, &space));
	process = &log->processes[number];
	process->first_tick = log->first_tick + from->first;
	if (from->ended)
		process->last_tick = log->first_tick + from->last;
	process->execed = from->execed;
	process->reported = (struct snap_log_reported){ .known = true,
							.type = from->node->type,
							.description = from->node->description,
							.thread_count = from->node->thread_count };
	return NULL;
}

/* ---- stacks ---- */

static bool add_frame(struct converter *converter, const struct snap_frame *frame, uint32_t space)
{
	static const struct snap_entry nothing;
	struct snap_log *log = converter->log;
	struct snap_frame name = *frame;

	if (!snap_reserve_array(log->frames, log->frame_capacity, log->frame_count + 1) ||
	    !snap_reserve_array(log->names, log->name_capacity, log->name_count + 1) ||
	    !snap_reserve_array(converter->frames, converter->frame_capacity, log->frame_count + 1))
		return false;
	if (name.entry_count == 0) {
		name.entries = snap_arena_memdup(&log->arena, &nothing, sizeof(nothing));
		name.entry_count = 1;
	}
	if (!name.entries)
		return false;
	converter->frames[log->frame_count] = frame;
	log->names[log->name_count++] = name;
	log->frames[log->frame_count] = (struct snap_log_frame){
		.bits = snap_pc_found_by(snap_pc_return(frame->address), frame->trust).bits,
		.space = space,
		.name = (uint32_t)log->name_count,
		/* One that lies in a file is named with that. */
		.is_managed = name.entries->language && !name.module,
	};
	log->frame_count++;
	return true;
}

/*
 * The log's number of a frame, which is identified by its address, and by its space;
 * what is `exact` is no return address. False without memory.
 */
static bool find_snaprec_frame(struct converter *converter, const struct snap_frame *frame,
			       uint32_t space, bool exact, uint32_t *ret)
{
	struct snap_log *log = converter->log;
	uint64_t hash = snap_hash_add(snap_hash_pointer(frame), space);
	struct snap_probe probe = snap_hash_table_probe(&converter->table, hash);
	bool known = false;

	while (!known && snap_probe_next(&probe))
		known = converter->frames[probe.number] == frame &&
			log->frames[probe.number].space == space;
	*ret = known ? probe.number : (uint32_t)log->frame_count;
	if (!known && (!add_frame(converter, frame, space) ||
		       !snap_hash_table_add(&converter->table, hash, *ret)))
		return false;
	if (exact && !log->frames[*ret].is_managed)
		log->frames[*ret].bits |= SNAP_PC_EXACT;
	return true;
}

/* Ends are identified by their texts, which are complete. */
static bool find_snaprec_reason(struct snap_log *log, const char *detail, uint32_t *ret)
{
	const char *reason;

	*ret = 0;
	if (!detail)
		return true;
	reason = snap_intern(&log->strings, detail, strnlen(detail, SNAP_MAX_NAME));
	if (!reason ||
	    !snap_reserve_array(log->reasons, log->reason_capacity, log->reason_count + 1))
		return false;
	/* The last one was mostly the same. */
	if (!log->reason_count || log->reasons[log->reason_count - 1] != reason)
		log->reasons[log->reason_count++] = reason;
	*ret = (uint32_t)log->reason_count;
	return true;
}

static bool add_snaprec_labels(struct converter *converter, const struct snap_recorded_stack *from,
			       struct snap_log_stack *stack)
{
	return !snap_error_ignore(snap_log_find_labels(converter->log, stack->space, from->labels,
						       from->label_count, true, &stack->labels));
}

static bool convert_stack(struct converter *converter, const struct snap_recorded_stack *from)
{
	struct snap_log *log = converter->log;
	struct snap_log_stack stack = {
		.space = log->processes[from->process].space,
		.frame_count = (uint32_t)from->frame_count,
		.frame_start = log->frame_id_count,
		.gap_after = from->gap_count ? (uint32_t)from->gap_frame : 0,
		.gap_count = from->gap_count,
		.end = from->unwind,
		/* Loops and glue are left out already. */
		.shows_all = true,
	};
	bool exact = true;

	if (!find_snaprec_reason(log, from->unwind_detail, &stack.reason) ||
	    !add_snaprec_labels(converter, from, &stack) ||
	    !snap_reserve_array(log->stacks, log->stack_capacity, log->stack_count + 1))
		return false;
	for (size_t i = 0; i < from->frame_count; i++) {
		const struct snap_frame *frame = from->frames[i];
		bool kernel = frame->entry_count && frame->entries[0].kernel;

		if (!snap_reserve_array(log->frame_ids, log->frame_id_capacity,
					log->frame_id_count + 1) ||
		    !find_snaprec_frame(converter, frame, stack.space, exact && !kernel,
					&log->frame_ids[log->frame_id_count]))
			return false;
		log->frame_id_count++;
		exact = exact && kernel;
	}
	log->stacks[log->stack_count++] = stack;
	return true;
}

/* ---- time ---- */

/* What happens to a thread at a tick: a run begins, or (NULL) it is not seen any more. */
struct event {
	uint32_t thread;
	const struct snap_run *run;
};

/* Calls for each event; the first time they are counted, the second time put in their places. */
static void list_events(const struct snap_recording *recording, size_t *at, struct event *events)
{
	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];

		for (size_t k = 0; k < track->run_count; k++) {
			const struct snap_run *run = &track->runs[k];
			bool goes_on = k + 1 < track->run_count && run[1].first == run->last + 1;

			if (events)
				events[at[run->first]] = (struct event){ (uint32_t)i, run };
			at[run->first]++;
			if (goes_on || run->last + 1 >= recording->tick_count)
				continue;
			if (events)
				events[at[run->last + 1]] = (struct event){ (uint32_t)i, NULL };
			at[run->last + 1]++;
		}
	}
}

/* Equal texts have equal pointers here. */
static bool find_call(struct snap_log *log, const struct snap_run *run, int16_t *ret)
{
	struct snap_log_call call = { NULL, NULL };
	size_t i = 0;

	*ret = -1;
	if (!run->syscall && !run->wchan)
		return true;
	if (run->syscall)
		call.syscall = snap_intern(&log->strings, run->syscall, strlen(run->syscall));
	if (run->wchan)
		call.wchan = snap_intern(&log->strings, run->wchan, strlen(run->wchan));
	while (i < log->call_count &&
	       (log->calls[i].syscall != call.syscall || log->calls[i].wchan != call.wchan))
		i++;
	if (i > (size_t)INT16_MAX - SNAP_LOG_FIRST_CALL)
		return true;
	if (i == log->call_count) {
		if (!snap_reserve_array(log->calls, log->call_capacity, i + 1))
			return false;
		log->calls[log->call_count++] = call;
	}
	*ret = (int16_t)(SNAP_LOG_FIRST_CALL + i);
	return true;
}

/* Tasks have states of their own, and wait for reasons of their own. */
static struct stacksnap_error *convert_event(struct converter *converter, const struct event *event)
{
	struct snap_log_change change = { .thread = event->thread,
					  .stack = SNAP_LOG_GONE,
					  .syscall = -1 };

	if (!event->run)
		return snap_log_change(converter->log, &change);
	change.stack = event->run->stack;
	change.state = (uint8_t)event->run->state;
	change.taken = (uint8_t)event->run->taken;
	if (converter->log->threads[event->thread].task)
		change.state = (uint8_t)event->run->task_state;
	SNAP_TRY(snap_no_memory_unless(find_call(converter->log, event->run, &change.syscall)));
	return snap_snaprec_find_object(converter->recording, converter->log, event->run,
					&change.object)
		       ?: snap_log_change(converter->log, &change);
}

static struct stacksnap_error *convert_ticks(struct converter *converter)
{
	const struct snap_recording *recording = converter->recording;
	size_t count = recording->tick_count, total = 0, next = 0;
	_cleanup_free_ size_t *at = calloc(count + 1, sizeof(*at));
	_cleanup_free_ struct event *events = NULL;
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(at));
	list_events(recording, at, NULL);
	for (size_t i = 0; i < count; i++) {
		size_t here = at[i];

		at[i] = total;
		total += here;
	}
	events = calloc(total + 1, sizeof(*events));
	SNAP_TRY(snap_no_memory_unless(events));
	/* Then each tick's place is where the next one's begin. */
	list_events(recording, at, events);
	for (size_t i = 0; i < count; i++) {
		err = snap_log_begin_tick(converter->log, recording->ticks[i].time_ns);
		err = err
			      ?: snap_snaprec_add_owners(&converter->waits, recording,
							 converter->log, i);
		while (!err && next < at[i])
			err = convert_event(converter, &events[next++]);
		if (err)
			return err;
		snap_snaprec_add_wakes(&converter->waits, converter->log, i);
		snap_log_end_tick(converter->log, recording->ticks[i].stopped_ns);
	}
	return NULL;
}

/* ---- all of it ---- */

static struct stacksnap_error *convert_task(struct snap_log *log, const struct snap_track *track)
{
	const struct snap_task *from = track->task;
	uint32_t process = (uint32_t)track->process, number;
	const struct snap_log_task task = {
		.id = from->id,
		.name = from->name,
		.runtime = track->runtime,
		.parent = from->parent,
		.created_by = from->created_by,
		.labels_cut = from->labels_cut,
	};

	return snap_log_add_task(log, process, log->processes[process].space, &task, from->labels,
				 from->label_count, &number);
}

static struct stacksnap_error *convert_recording(struct converter *converter)
{
	const struct snap_recording *recording = converter->recording;
	struct snap_log *log = converter->log;
	struct stacksnap_error *err = NULL;

	log->end = recording->end;
	log->stats = recording->stats;
	log->explains = recording->explains;
	/* Ticks before the first one are not there. */
	log->first_tick = recording->is_slice;
	if (recording->wakes_end)
		log->wakes_end = recording->wakes_end < recording->tick_count
					 ? log->first_tick + recording->wakes_end
					 : UINT64_MAX;
	for (size_t i = 0; !err && i < recording->process_count; i++)
		err = convert_process(converter, i);
	for (size_t i = 0; !err && i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];
		uint32_t number;

		if (track->task) {
			err = convert_task(log, track);
			continue;
		}
		err = snap_log_add_thread(log, (uint32_t)track->process, track->tid, track->ns_tid,
					  track->name, track->kernel, &number);
	}
	for (size_t i = 0; !err && i < recording->stack_count; i++)
		if (!convert_stack(converter, &recording->stacks[i]))
			err = snap_error_no_memory();
	SNAP_TRY(err ?: snap_snaprec_add_waits(&converter->waits, recording, log));
	for (size_t i = 0; i < recording->warning_count; i++) {
		const struct snap_warning *warning = &recording->warnings[i];

		snap_capture_warn(log->capture, warning->code, warning->pid, warning->tid, "%s",
				  warning->message);
	}
	return convert_ticks(converter);
}

static struct stacksnap_error *copy_file(int fd, FILE *out)
{
	_cleanup_free_ char *bytes = malloc(COPY_BYTES);
	ssize_t got = 1;

	SNAP_TRY(snap_no_memory_unless(bytes));
	for (off_t at = 0; got; at += got) {
		got = pread(fd, bytes, COPY_BYTES, at);
		if (got < 0)
			return snap_error_os(errno, "cannot read the recording in memory");
		if (fwrite(bytes, 1, (size_t)got, out) != (size_t)got)
			return snap_error_os(errno, "cannot write the recording");
	}
	return NULL;
}

struct stacksnap_error *snap_render_snaprec(const struct snap_recording *recording,
					    const struct snap_options *options _unused_, FILE *out)
{
	_cleanup_(converter_deinit) struct converter converter = { .recording = recording };
	_cleanup_fd_ int fd = memfd_create("stacksnap", MFD_CLOEXEC);

	if (fd < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	snap_arena_init(&converter.arena);
	SNAP_TRY(snap_log_create(&recording->host, recording->time_ns, recording->period_ns,
				 recording->cpu_only, &converter.log));
	SNAP_TRY(convert_recording(&converter));
	SNAP_TRY(snap_log_write(converter.log, fd));
	return copy_file(fd, out);
}
