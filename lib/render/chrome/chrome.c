/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Chrome trace events, for Perfetto and Catapult's viewer: the document, and who appears in it.
 *
 * Written event by event: what is kept is names, and one number a run of the thread at hand.
 * Readers know one name a pid, so a program that execs has its last one, with an instant at each
 * exec. Slices and counters are made by their own files.
 */
#include "render/chrome/internal.h"
#include "render/render.h"
#include "render/view/when.h"

#include <stdlib.h>

void snap_chrome_event(struct snap_chrome *chrome, char kind, pid_t pid, pid_t tid)
{
	char head[] = ",\n{\"ph\":\"?\",\"pid\":";

	head[9] = kind;
	snap_json_out_raw(chrome->json, chrome->begun ? head : head + 1);
	chrome->begun = true;
	snap_json_out_number(chrome->json, pid);
	snap_json_out_raw(chrome->json, ",\"tid\":");
	snap_json_out_number(chrome->json, tid ? tid : pid);
}

void snap_chrome_time(struct snap_chrome *chrome, const char *name, int64_t ns)
{
	snap_json_out_raw(chrome->json, ",\"");
	snap_json_out_raw(chrome->json, name);
	snap_json_out_raw(chrome->json, "\":");
	snap_json_out_number(chrome->json, snap_chrome_microseconds(ns));
}

/* ---- names ---- */

/* `text` is escaped. */
static void put_name(struct snap_chrome *chrome, pid_t pid, pid_t tid, const char *kind,
		     const char *key, const char *text)
{
	snap_chrome_event(chrome, 'M', pid, tid);
	snap_json_out_raw(chrome->json, ",\"name\":\"");
	snap_json_out_raw(chrome->json, kind);
	snap_json_out_raw(chrome->json, "\",\"args\":{\"");
	snap_json_out_raw(chrome->json, key);
	snap_json_out_raw(chrome->json, "\":");
	snap_json_out_clean(chrome->json, text);
	snap_json_out_raw(chrome->json, "}}");
}

static struct snap_error *put_process_name(struct snap_chrome *chrome, const struct snap_node *node)
{
	const char *name = snap_profile_escaped(&chrome->profile, node->name ? node->name : "?");
	const char *label =
		node->description ? snap_profile_escaped(&chrome->profile, node->description) : "";

	if (!name || !label)
		return snap_error_no_memory();
	put_name(chrome, node->pid, 0, "process_name", "name", name);
	if (*label)
		put_name(chrome, node->pid, 0, "process_labels", "labels", label);
	return NULL;
}

/* The process goes on as another program, or its pid has come to another process. */
static void put_change(struct snap_chrome *chrome, const struct snap_recorded_process *before,
		       const struct snap_recorded_process *process)
{
	const struct snap_recording *recording = chrome->recording;

	if (process->first >= recording->tick_count)
		return;
	snap_chrome_event(chrome, 'i', process->node->pid, 0);
	snap_json_out_raw(chrome->json,
			  before->execed ? ",\"name\":\"exec\"" : ",\"name\":\"new process\"");
	snap_json_out_raw(chrome->json, ",\"cat\":\"process\",\"s\":\"p\"");
	snap_chrome_time(chrome, "ts", recording->ticks[process->first].time_ns);
	snap_json_out_raw(chrome->json, ",\"args\":{\"from\":");
	snap_json_out_text(chrome->json, before->node->name);
	snap_json_out_raw(chrome->json, ",\"to\":");
	snap_json_out_text(chrome->json, process->node->name);
	snap_json_out_raw(chrome->json, "}}");
}

/* ---- processes and threads ---- */

/* A process and its tracks. */
struct member {
	const struct snap_recorded_process *process;
	const struct snap_track *tracks;
	size_t track_count;
};

/* Programs of one pid next to each other, in order of time. */
static int by_pid(const void *left, const void *right)
{
	const struct snap_recorded_process *a = ((const struct member *)left)->process;
	const struct snap_recorded_process *b = ((const struct member *)right)->process;

	if (a->node->pid != b->node->pid)
		return a->node->pid < b->node->pid ? -1 : 1;
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return (a > b) - (a < b);
}

static struct member *list_members(const struct snap_recording *recording)
{
	struct member *members = calloc(recording->process_count + 1, sizeof(*members));

	if (!members)
		return NULL;
	for (size_t i = 0; i < recording->process_count; i++)
		members[i].process = &recording->processes[i];
	for (size_t i = 0; i < recording->track_count; i++) {
		struct member *member = &members[recording->tracks[i].process];

		if (member->track_count++ == 0)
			member->tracks = &recording->tracks[i];
	}
	qsort(members, recording->process_count, sizeof(*members), by_pid);
	return members;
}

static int by_tid(const void *key, const void *element)
{
	pid_t tid = *(const pid_t *)key, other = ((const struct snap_track *)element)->tid;

	return (tid > other) - (tid < other);
}

/* Whether a later program of the same pid, which is one of `count` that follow, has the thread. */
static bool goes_on(const struct member *members, size_t count, const struct snap_track *track)
{
	for (size_t i = 1; i < count; i++) {
		const struct snap_track *later =
			members[i].track_count
				? bsearch(&track->tid, members[i].tracks, members[i].track_count,
					  sizeof(*later), by_tid)
				: NULL;

		if (later && later->run_count)
			return true;
	}
	return false;
}

/* The threads of the first of `count` programs of one pid. */
static struct snap_error *put_tracks(struct snap_chrome *chrome, const struct member *members,
				     size_t count)
{
	for (size_t i = 0; i < members->track_count; i++) {
		const struct snap_track *track = &members->tracks[i];
		const char *name = snap_profile_thread(&chrome->profile, track);
		struct snap_error *err;

		if (!name)
			return snap_error_no_memory();
		if (track->run_count == 0)
			continue;
		if (!goes_on(members, count, track))
			put_name(chrome, members->process->node->pid, track->tid, "thread_name",
				 "name", name);
		err = snap_chrome_slices(chrome, track);
		if (err)
			return err;
	}
	return NULL;
}

/* All programs of one pid. */
static struct snap_error *put_programs(struct snap_chrome *chrome, const struct member *members,
				       size_t count)
{
	struct snap_error *err;

	err = put_process_name(chrome, members[count - 1].process->node);
	if (err)
		return err;
	for (size_t i = 0; i < count; i++) {
		const struct member *member = &members[i];
		size_t number = (size_t)(member->process - chrome->recording->processes);

		if (i)
			put_change(chrome, members[i - 1].process, member->process);
		err = put_tracks(chrome, member, count - i);
		if (err)
			return err;
		err = snap_chrome_states(chrome, number, member->tracks, member->track_count);
		if (err)
			return err;
	}
	return NULL;
}

static struct snap_error *put_members(struct snap_chrome *chrome, const struct member *members)
{
	size_t count = chrome->recording->process_count;

	for (size_t i = 0, next; i < count; i = next) {
		pid_t pid = members[i].process->node->pid;
		struct snap_error *err;

		for (next = i + 1; next < count && members[next].process->node->pid == pid;)
			next++;
		err = put_programs(chrome, members + i, next - i);
		if (err)
			return err;
	}
	return NULL;
}

/* ---- the document ---- */

static void put_number(struct snap_chrome *chrome, const char *key, int64_t number)
{
	snap_json_out_raw(chrome->json, ",\n\"");
	snap_json_out_raw(chrome->json, key);
	snap_json_out_raw(chrome->json, "\":");
	snap_json_out_number(chrome->json, number);
}

static void put_facts(struct snap_chrome *chrome)
{
	const struct snap_recording *recording = chrome->recording;
	char when[SNAP_WHEN_SIZE];

	snap_when(recording->time_ns, 'T', 9, when);
	snap_json_out_raw(chrome->json,
			  "\"tool\":\"stacksnap\",\n\"version\":\"" SNAP_VERSION "\",\n\"time\":");
	snap_json_out_clean(chrome->json, when);
	snap_json_out_raw(chrome->json, ",\n\"host\":");
	snap_json_out_text(chrome->json, recording->host.name);
	snap_json_out_raw(chrome->json, ",\n\"kernel\":");
	snap_json_out_text(chrome->json, recording->host.kernel);
	if (recording->period_ns == 0)
		return;
	put_number(chrome, "period_ns", recording->period_ns);
	put_number(chrome, "duration_ns", recording->stats.duration_ns);
	put_number(chrome, "ticks", (int64_t)recording->stats.ticks);
	put_number(chrome, "ticks_missed", (int64_t)recording->stats.ticks_missed);
	put_number(chrome, "stopped_ns", recording->stats.stopped_ns);
	snap_json_out_raw(chrome->json, ",\n\"end\":");
	snap_json_out_clean(chrome->json, snap_recording_end_word(recording->end));
}

static struct snap_error *put_document(struct snap_chrome *chrome)
{
	_cleanup_free_ struct member *members = list_members(chrome->recording);
	struct snap_error *err;

	if (!members)
		return snap_error_no_memory();
	snap_json_out_raw(chrome->json, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\n");
	put_facts(chrome);
	snap_json_out_raw(chrome->json, "},\n\"traceEvents\":[");
	err = put_members(chrome, members);
	if (err)
		return err;
	snap_chrome_stops(chrome);
	snap_json_out_raw(chrome->json, "\n]}\n");
	snap_json_out_flush(chrome->json);
	return chrome->json->failed ? snap_error_no_memory() : NULL;
}

static void chrome_deinit(struct snap_chrome *chrome)
{
	snap_timeline_deinit(&chrome->timeline);
	snap_profile_deinit(&chrome->profile);
	snap_json_out_destroy(chrome->json);
}

struct snap_error *snap_render_chrome(const struct snap_recording *recording,
				      const struct snap_options *options, FILE *out)
{
	_cleanup_(chrome_deinit) struct snap_chrome chrome = {
		.recording = recording,
		.options = options,
		.json = snap_json_out_create(out),
	};
	struct snap_error *err;

	err = snap_profile_init(&chrome.profile, recording);
	if (err)
		return err;
	err = snap_timeline_init(&chrome.timeline, recording);
	if (err)
		return err;
	return chrome.json ? put_document(&chrome) : snap_error_no_memory();
}
