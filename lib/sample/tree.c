/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who belongs to the tree. New processes are looked for when the kernel has given away a pid, at a
 * bounded rate; each look is a discovery that reads labels of new processes alone, so that nothing
 * of it stays but the new members.
 */
#include "sample/internal.h"

#include <errno.h>
#include <string.h>

enum {
	LEAST_MS = 100, /* between two looks */
	SHARE = 20,     /* of the time at most one part in so many is spent on them */
	AGAIN_MS = 1000,
};

static int64_t ms(int64_t count)
{
	return count * SNAP_NS_PER_MS;
}

/* The first member that is not before (pid, start time). */
static size_t lower_bound(const struct snap_sampler *sampler, pid_t pid, uint64_t start_ticks)
{
	size_t low = 0, high = sampler->member_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct snap_process *process = &sampler->members[middle]->facts;

		if (process->pid < pid ||
		    (process->pid == pid && process->start_ticks < start_ticks))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct snap_member *find(const struct snap_sampler *sampler, pid_t pid, uint64_t start_ticks)
{
	size_t at = lower_bound(sampler, pid, start_ticks);
	struct snap_member *member = at < sampler->member_count ? sampler->members[at] : NULL;

	return member && member->facts.pid == pid && member->facts.start_ticks == start_ticks
		       ? member
		       : NULL;
}

void snap_member_destroy(struct snap_sampler *sampler, struct snap_member *member)
{
	snap_member_drop_live(sampler, &member->live);
	sampler->descriptors += (member->mem_fd >= 0) + (member->tasks_fd >= 0);
	snap_close(&member->mem_fd);
	snap_close(&member->tasks_fd);
	snap_arena_deinit(&member->arena);
	snap_arena_deinit(&member->space);
	free(member->threads);
	free(member->trouble_text);
	free(member);
}

static struct snap_member *new_member(void)
{
	struct snap_member *member = calloc(1, sizeof(*member));

	if (!member)
		return NULL;
	member->live = (struct snap_live){ -1, -1, -1, -1, -1 };
	member->mem_fd = member->tasks_fd = -1;
	member->shown.facts = &member->facts;
	member->shown.live = &member->live;
	snap_arena_init(&member->arena);
	snap_arena_init(&member->space);
	return member;
}

static struct snap_error *insert(struct snap_sampler *sampler, struct snap_member *member)
{
	size_t at = lower_bound(sampler, member->facts.pid, member->facts.start_ticks);

	if (!snap_grow_array(sampler->members, sampler->member_capacity, sampler->member_count))
		return snap_error_no_memory();
	memmove(sampler->members + at + 1, sampler->members + at,
		(sampler->member_count - at) * sizeof(*sampler->members));
	sampler->members[at] = member;
	sampler->member_count++;
	return NULL;
}

static struct snap_error *join(struct snap_sampler *sampler, const struct snap_capture *capture,
			       size_t index)
{
	const struct snap_process *process = &capture->processes[index];
	struct snap_member *member = new_member(), *parent = NULL;
	struct snap_error *err;

	if (!member)
		return snap_error_no_memory();
	err = snap_facts_copy(&member->arena, process, &member->facts);
	if (!err)
		err = insert(sampler, member);
	if (err) {
		snap_member_destroy(sampler, member);
		return err;
	}
	if (capture->live)
		snap_member_take_live(sampler, &capture->live[index], &member->live);
	if (process->parent < capture->process_count) {
		const struct snap_process *above = &capture->processes[process->parent];

		parent = find(sampler, above->pid, above->start_ticks);
	}
	member->shown.parent = parent ? &parent->shown : NULL;
	return NULL;
}

struct snap_error *snap_sampler_join(struct snap_sampler *sampler, struct snap_capture *capture)
{
	bool first = capture == sampler->capture;

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];
		struct snap_error *err;

		if (find(sampler, process->pid, process->start_ticks))
			continue;
		/* What went by between two looks was never there. */
		if (!first && (process->vanished || process->trouble == SNAP_TROUBLE_ZOMBIE))
			continue;
		err = join(sampler, capture, i);
		if (err)
			return err;
	}
	return NULL;
}

static const struct snap_process *known_process(void *context, pid_t pid, uint64_t start_ticks)
{
	const struct snap_member *member = find(context, pid, start_ticks);

	return member ? &member->facts : NULL;
}

static struct snap_error *refresh(struct snap_sampler *sampler)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	const struct snap_discover_known known = {
		.find = known_process,
		.context = sampler,
		.descriptors = sampler->descriptors > 0 ? sampler->descriptors / 2 : 0,
	};
	struct snap_error *err;

	if (!capture)
		return snap_error_no_memory();
	err = snap_discover_with(sampler->options, &known, capture);
	/* What the system has too little of just now does not end a recording. */
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		snap_error_destroy(err);
		sampler->refresh_due = true;
		return NULL;
	}
	return err ? err : snap_sampler_join(sampler, capture);
}

static bool may_grow(const struct snap_options *options)
{
	for (size_t i = 0; i < options->target_count; i++)
		if (options->targets[i].kind != SNAP_TARGET_PID)
			return true;
	return options->children;
}

/*
 * Another program in a process that was there may be a target by its name, and its pid is old: so
 * there is one more look some time after the last new pid.
 */
static bool is_refresh_due(struct snap_sampler *sampler)
{
	pid_t pid = snap_procfs_last_pid(sampler->loadavg_fd);

	if (!may_grow(sampler->options))
		return false;
	if (pid == 0 || pid != sampler->last_pid)
		sampler->refresh_due = true;
	if (sampler->refresh_again_ns && sampler->now_ns >= sampler->refresh_again_ns) {
		sampler->refresh_due = true;
		sampler->refresh_again_ns = 0;
	} else if (pid != sampler->last_pid) {
		sampler->refresh_again_ns = sampler->now_ns + ms(AGAIN_MS);
	}
	sampler->last_pid = pid;
	return sampler->refresh_due && sampler->now_ns >= sampler->refresh_after_ns;
}

/* Processes that have no threads to tell: have they ended? */
static void look_at_troubled(struct snap_sampler *sampler)
{
	if (sampler->now_ns < sampler->troubled_ns)
		return;
	sampler->troubled_ns = sampler->now_ns + ms(AGAIN_MS);
	for (size_t i = 0; i < sampler->member_count; i++) {
		struct snap_member *member = sampler->members[i];
		_cleanup_fd_ int fd = -1;

		if (member->sampled || !member->announced || member->lost)
			continue;
		fd = snap_member_directory(sampler, member);
		if (fd == -ESRCH)
			member->gone = true;
	}
}

static struct snap_error *announce_one(struct snap_sampler *sampler, struct snap_member *member)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_error *err = snap_member_open(sampler, member);

	if (err)
		return err;
	/* It went before anybody heard of it, unless somebody named it. */
	if (member->gone && !member->facts.is_target)
		return NULL;
	member->announced = true;
	if (member->facts.trouble == SNAP_TROUBLE_NO_SUCH_PROCESS || member->facts.vanished)
		member->gone = true;
	return sink->program(sink->context, &member->shown, false);
}

static bool is_parent_known(const struct snap_sampled_process *parent)
{
	const struct snap_member *member = (const void *)parent;

	return !member || member->announced;
}

/* Mostly a parent's pid is below its child's, and one round does. */
static struct snap_error *announce(struct snap_sampler *sampler)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < sampler->member_count; i++) {
			struct snap_member *member = sampler->members[i];
			struct snap_error *err;

			if (member->announced || member->gone ||
			    !is_parent_known(member->shown.parent))
				continue;
			err = announce_one(sampler, member);
			if (err)
				return err;
			more = true;
		}
	}
	return NULL;
}

struct snap_error *snap_sampler_follow(struct snap_sampler *sampler)
{
	struct snap_error *err = NULL;

	look_at_troubled(sampler);
	if (is_refresh_due(sampler)) {
		int64_t begin = snap_sampler_now();

		sampler->refresh_due = false;
		err = refresh(sampler);
		sampler->refresh_after_ns = snap_sampler_after(begin, ms(LEAST_MS), SHARE);
	}
	return err ? err : announce(sampler);
}

void snap_sampler_clear(struct snap_sampler *sampler, struct snap_member *member)
{
	for (size_t i = 0; i < member->thread_count; i++)
		snap_watched_end(sampler, member->threads[i]);
}

/* Children that outlive it are roots from now on. */
static void orphan(struct snap_sampler *sampler, const struct snap_member *parent)
{
	for (size_t i = 0; i < sampler->member_count; i++)
		if (sampler->members[i]->shown.parent == &parent->shown)
			sampler->members[i]->shown.parent = NULL;
}

void snap_sampler_part(struct snap_sampler *sampler)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	size_t kept = 0;

	for (size_t i = 0; i < sampler->member_count; i++) {
		struct snap_member *member = sampler->members[i];

		if (!member->gone)
			continue;
		/* Its pid may be somebody else's, who got it without the last one having moved. */
		sampler->refresh_due = true;
		if (member->announced)
			sink->ended(sink->context, &member->shown);
		orphan(sampler, member);
	}
	for (size_t i = 0; i < sampler->member_count; i++) {
		if (sampler->members[i]->gone)
			snap_member_destroy(sampler, sampler->members[i]);
		else
			sampler->members[kept++] = sampler->members[i];
	}
	sampler->member_count = kept;
}
