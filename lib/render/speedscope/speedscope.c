/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * speedscope's own format, written as a stream: profiles first (sums.c, threads.c), and then the
 * frames that they needed.
 */
#include "render/speedscope/speedscope.h"

#include "render/render.h"
#include "render/view/when.h"

#include <stdlib.h>

static void put_speedscope_frames(struct snap_scope *scope)
{
	struct snap_json_writer *json = scope->json;

	snap_json_begin(json, "frames", '[');
	for (size_t i = 0; i < scope->frames.keys.count; i++) {
		const struct snap_scope_frame *frame = &scope->frames.list[i];

		snap_json_begin_line(json, NULL, '{');
		snap_json_clean(json, "name", frame->name);
		snap_json_text_if(json, "file", frame->file);
		snap_json_number_if(json, "line", frame->line);
		snap_json_number_if(json, "col", frame->column);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static struct stacksnap_error *put_speedscope_head(struct snap_scope *scope)
{
	const struct snap_recording *recording = scope->recording;
	struct snap_json_writer *json = scope->json;
	const char *root = recording->process_count ? snap_profile_process(&scope->profile, 0) : "";
	const char *name = NULL;
	char when[SNAP_WHEN_SIZE];

	snap_when(recording->time_ns, 'T', 3, when);
	if (root)
		name = snap_arena_printf(&scope->profile.arena, "%s%s%s", root, *root ? " " : "",
					 when);
	SNAP_TRY(snap_no_memory_unless(name));
	snap_json_clean(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
	snap_json_line(json);
	snap_json_clean(json, "exporter", "stacksnap@" SNAP_VERSION);
	snap_json_line(json);
	snap_json_clean(json, "name", name);
	snap_json_line(json);
	snap_json_number(json, "activeProfileIndex", 0);
	snap_json_line(json);
	return NULL;
}

static struct stacksnap_error *put_speedscope_document(struct snap_scope *scope)
{
	struct snap_json_writer *json = scope->json;

	snap_json_begin(json, NULL, '{');
	SNAP_TRY(put_speedscope_head(scope));
	snap_json_begin(json, "profiles", '[');
	SNAP_TRY(snap_scope_put_sums(scope));
	SNAP_TRY(scope->recording->period_ns ? snap_scope_put_threads(scope) : NULL);
	snap_json_end(json, ']');
	snap_json_begin_line(json, "shared", '{');
	put_speedscope_frames(scope);
	snap_json_end(json, '}');
	snap_json_end(json, '}');
	snap_json_end_document(json);
	snap_json_flush(json);
	return snap_no_memory_unless(!json->failed);
}

static void scope_deinit(struct snap_scope *scope)
{
	snap_timeline_deinit(&scope->timeline);
	snap_profile_deinit(&scope->profile);
	snap_scope_frames_deinit(&scope->frames);
	snap_json_writer_destroy(scope->json);
	snap_scope_waits_deinit(&scope->waits);
	free(scope->stacks);
}

struct stacksnap_error *snap_render_speedscope(const struct snap_recording *recording,
					       const struct snap_options *options, FILE *out)
{
	_cleanup_(scope_deinit) struct snap_scope scope = {
		.recording = recording,
		.options = options,
		.json = snap_json_writer_create(out, SNAP_JSON_COMPACT),
		.stacks = calloc(recording->stack_count + 1, sizeof(*scope.stacks)),
	};

	SNAP_TRY(snap_profile_init(&scope.profile, recording));
	snap_profile_show_labels(&scope.profile, options);
	scope.waits = (struct snap_scope_waits){ .recording = recording,
						 .options = options,
						 .profile = &scope.profile,
						 .frames = &scope.frames };
	SNAP_TRY(snap_timeline_init(&scope.timeline, recording));
	return scope.json && scope.stacks ? put_speedscope_document(&scope)
					  : snap_error_no_memory();
}
