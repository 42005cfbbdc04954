/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the process at the other end of what a thread waits for, or the child whose exit is
 * awaited, and the thread of it. See internal.h.
 *
 * If several processes have the other end, none is named, as any of them may act. If the process
 * has several threads, no thread is named.
 */
#include "analyze/log/internal.h"
#include "base/bsearch.h"

SNAP_ORDER(by_pid, struct snap_log_program, a, b, snap_compare(a->pid, b->pid),
	   snap_compare(a->birth, b->birth), snap_compare(a->process, b->process));

/* For forged files: a process that comes after so many steps has no parent. */
enum { MOST_STEPS = 1 << 26 };

static int by_parent(const void *left, const void *right, void *context)
{
	const struct snap_log_analysis *of = context;
	const struct snap_log_program *a = &of->programs[*(const uint32_t *)left],
				      *b = &of->programs[*(const uint32_t *)right];

	return snap_compare(a->parent, b->parent) ?: snap_compare(a->birth, b->birth) ?:
	       snap_compare(a->process, b->process);
}

/* Of a tick of the run: as a moment, see struct snap_log_life. */
static uint64_t moment_of(const struct snap_log *log, uint64_t tick)
{
	return tick < log->first_tick ? 0 : tick - log->first_tick + 1;
}

bool snap_log_index_programs(struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;
	struct snap_log_program *programs = snap_arena_new_array(
		&of->analysis.scratch, log->process_count + 1, struct snap_log_program);

	if (!programs)
		return false;
	for (size_t i = 0; i < log->process_count; i++) {
		const struct snap_log_process *process = &log->processes[i];

		programs[i] = (struct snap_log_program){
			.pid = process->pid,
			.process = (uint32_t)i,
			.parent = process->parent,
			.birth = moment_of(log, process->first_tick),
			.death = process->last_tick == UINT64_MAX
					 ? SNAP_LOG_NO_DEATH
					 : moment_of(log, process->last_tick) + 1,
		};
	}
	qsort(programs, log->process_count, sizeof(*programs), by_pid);
	of->programs = programs;
	of->children =
		snap_arena_new_array(&of->analysis.scratch, log->process_count + 1, uint32_t);
	if (!of->children)
		return false;
	for (size_t i = 0; i < log->process_count; i++)
		of->children[i] = (uint32_t)i;
	qsort_r(of->children, log->process_count, sizeof(uint32_t), by_parent, of);
	of->child_steps = MOST_STEPS;
	return true;
}

/* NULL: there was none. */
static const struct snap_log_program *program_at(const struct snap_log_analysis *of, pid_t pid,
						 uint64_t moment)
{
	const struct snap_log_program *all = of->programs;
	size_t next = snap_first_not(of->log->process_count, i,
				     all[i].pid != pid ? all[i].pid < pid : all[i].birth <= moment);

	return next && all[next - 1].pid == pid && all[next - 1].death > moment ? &all[next - 1]
										: NULL;
}

static struct snap_log_owner no_end_owner(enum snap_owner_lack lack)
{
	return (struct snap_log_owner){
		.lack = lack, .thread = UINT32_MAX, .death = SNAP_LOG_NO_DEATH, .is_process = true
	};
}

/* Its only thread; of several the first one represents all of them. */
static struct snap_log_owner owner_of_end(const struct snap_log_analysis *of,
					  const struct snap_log_program *program, uint64_t moment)
{
	struct snap_log_owner owner = no_end_owner(SNAP_OWNER_KNOWN);

	owner.tid = program->pid;
	owner.death = program->death;
	snap_log_find_thread(of, program->process, moment, &owner);
	return owner;
}

struct snap_log_owner snap_log_find_peer(const struct snap_log_analysis *of,
					 const struct snap_log_wait_bytes *words, uint32_t process,
					 uint64_t moment)
{
	const struct snap_log_program *found = NULL, *own = NULL;
	struct snap_memory_image image;
	uint32_t pid;

	if (!words)
		return no_end_owner(SNAP_OWNER_NOT_SEEN);
	image = snap_log_wait_image(words);
	for (uint64_t i = 0; i < SNAP_LOG_MAX_HOLDERS; i++) {
		const struct snap_log_program *program;

		if (!snap_memory_image_read(&image, i * sizeof(pid), &pid, sizeof(pid)))
			break;
		program = program_at(of, (pid_t)pid, moment);
		/* Its own end counts if no other process has one. */
		if (program && program->process == process)
			own = program;
		else if (program && found)
			return no_end_owner(SNAP_OWNER_NOT_KEPT);
		else if (program)
			found = program;
	}
	if (!found)
		found = own;
	return found ? owner_of_end(of, found, moment) : no_end_owner(SNAP_OWNER_NOT_SEEN);
}

static bool has_number(const struct snap_log *log, const struct snap_log_program *program,
		       pid_t number)
{
	uint32_t space = log->processes[program->process].space;

	return number <= 0 || program->pid == number ||
	       (space != UINT32_MAX && log->capture->processes[space].ns_pid == number);
}

struct snap_log_owner snap_log_find_child(struct snap_log_analysis *of, uint32_t process,
					  pid_t child, uint64_t moment)
{
	const struct snap_log_program *all = of->programs, *found = NULL;
	size_t count = of->log->process_count;

	for (size_t i = snap_first_not(count, k, all[of->children[k]].parent < process);
	     i < count && all[of->children[i]].parent == process && of->child_steps; i++) {
		const struct snap_log_program *program = &all[of->children[i]];

		of->child_steps--;
		if (program->birth > moment)
			break;
		if (program->death <= moment || !has_number(of->log, program, child))
			continue;
		if (found)
			return no_end_owner(SNAP_OWNER_NOT_KEPT);
		found = program;
	}
	return found && of->child_steps ? owner_of_end(of, found, moment)
					: no_end_owner(SNAP_OWNER_NOT_SEEN);
}
