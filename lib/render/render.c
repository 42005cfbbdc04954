/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of formats: see render.h for what a new one takes. */
#include "render/render.h"

#include "render/gzip.h"
#include "render/pprof/threads.h"

#include <errno.h>
#include <string.h>

const struct snap_format snap_formats[] = {
	{ "text", ".txt", "a tree to read", snap_render_text, snap_render_text_recording, SNAP_TEXT,
	  SNAP_FRAMES_IN_TEXT },
	{ "json", ".json", "for programs, see stacksnap-json(5)", snap_render_json,
	  snap_render_json_recording, SNAP_TEXT, SNAP_FRAMES_IN_GROUPS },
	{ "json-gz", ".json.gz", "the same, compressed", snap_render_json,
	  snap_render_json_recording, SNAP_GZIP, SNAP_FRAMES_IN_GROUPS },
	{ "jsonl", ".jsonl", "JSON Lines: a document per line and moment", snap_render_jsonl,
	  snap_render_jsonl_recording, SNAP_TEXT, SNAP_FRAMES_IN_TICKS },
	{ "pprof", ".pb.gz", "a profile for go tool pprof", NULL, snap_render_pprof, SNAP_BINARY,
	  SNAP_FRAMES_IN_ROWS },
	{ "folded", ".folded", "one line per stack, for flame graphs", NULL, snap_render_folded,
	  SNAP_TEXT, SNAP_FRAMES_IN_LINES },
	{ "chrome", ".trace.json", "trace events: Perfetto, chrome://tracing", NULL,
	  snap_render_chrome, SNAP_TEXT, SNAP_FRAMES_IN_CHANGES },
	{ "chrome-gz", ".trace.json.gz", "the same, compressed", NULL, snap_render_chrome,
	  SNAP_GZIP, SNAP_FRAMES_IN_CHANGES },
	{ "speedscope", ".speedscope.json", "for speedscope.app", NULL, snap_render_speedscope,
	  SNAP_TEXT, SNAP_FRAMES_IN_SAMPLES },
	{ "speedscope-gz", ".speedscope.json.gz", "the same, compressed", NULL,
	  snap_render_speedscope, SNAP_GZIP, SNAP_FRAMES_IN_SAMPLES },
	{ "firefox", ".firefox.json", "for profiler.firefox.com", NULL, snap_render_firefox,
	  SNAP_TEXT, SNAP_FRAMES_IN_TABLES },
	{ "firefox-gz", ".firefox.json.gz", "the same, compressed", NULL, snap_render_firefox,
	  SNAP_GZIP, SNAP_FRAMES_IN_TABLES },
	{ "html", ".html", "a page for a browser, one file", snap_render_html,
	  snap_render_html_recording, SNAP_TEXT, SNAP_FRAMES_IN_TABLES },
	{ "snaprec", ".snaprec", "a recording, for stacksnap render", NULL, snap_render_snaprec,
	  SNAP_BINARY, SNAP_FRAMES_AS_NUMBERS },
	{ NULL, NULL, NULL, NULL, NULL, SNAP_TEXT, SNAP_FRAMES_AS_NUMBERS },
};

/* What is no format of a file: the print of `stacksnap list`, and pages of `stacksnap serve`. */
static const struct snap_format other_formats[] = {
	{ "list", NULL, "the process tree only", snap_render_list, NULL, SNAP_TEXT,
	  SNAP_FRAMES_AS_NUMBERS },
	{ "thread-counts", NULL, "stacks with their counts, as Go prints them",
	  snap_render_thread_counts, NULL, SNAP_TEXT, SNAP_FRAMES_AS_NUMBERS },
	{ "thread-dump", NULL, "each thread with its stack, as Go prints them",
	  snap_render_thread_dump, NULL, SNAP_TEXT, SNAP_FRAMES_AS_NUMBERS },
};

const struct snap_format *snap_format_by_name(const char *name)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(other_formats); i++)
		if (strcmp(other_formats[i].name, name) == 0)
			return &other_formats[i];
	for (const struct snap_format *format = snap_formats; format->name; format++)
		if (strcmp(format->name, name) == 0)
			return format;
	return NULL;
}

static bool ends_with(const char *text, const char *tail)
{
	size_t length = strlen(text), tail_length = strlen(tail);

	return length > tail_length && strcmp(text + length - tail_length, tail) == 0;
}

const struct snap_format *snap_format_by_path(const char *path)
{
	const struct snap_format *best = NULL;

	for (const struct snap_format *format = snap_formats; format->name; format++)
		if (format->suffix && ends_with(path, format->suffix) &&
		    (!best || strlen(format->suffix) > strlen(best->suffix)))
			best = format;
	return best;
}

static ssize_t write_gzip(void *gzip, const char *bytes, size_t size)
{
	snap_gzip_write(gzip, bytes, size);
	return (ssize_t)size;
}

/* One of snapshot and recording is there; a snapshot only for a format that shows one as such. */
static struct stacksnap_error *render_uncompressed(const struct snap_format *format,
						   const struct snap_snapshot *snapshot,
						   const struct snap_recording *recording,
						   const struct snap_options *options, FILE *out)
{
	return snapshot ? format->snapshot(snapshot, options, out)
			: format->recording(recording, options, out);
}

static struct stacksnap_error *render_in_format(const struct snap_format *format,
						const struct snap_snapshot *snapshot,
						const struct snap_recording *recording,
						const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_gzip_destroyp) struct snap_gzip *gzip = NULL;
	_cleanup_fclose_ FILE *packed = NULL;
	struct stacksnap_error *err = NULL;

	if (format->bytes != SNAP_GZIP)
		return render_uncompressed(format, snapshot, recording, options, out);
	SNAP_TRY(snap_gzip_create(out, &gzip));
	packed = fopencookie(gzip, "w", (cookie_io_functions_t){ .write = write_gzip });
	SNAP_TRY(snap_no_memory_unless(packed));
	err = render_uncompressed(format, snapshot, recording, options, packed);
	fclose(snap_take_ptr(packed));
	err = err ?: snap_gzip_finish(gzip);
	if (!err && ferror(out))
		err = snap_error_os(errno, "cannot write the report");
	return err;
}

struct stacksnap_error *snap_render_snapshot(const struct snap_format *format,
					     const struct snap_snapshot *snapshot,
					     const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;

	if (format->snapshot)
		return render_in_format(format, snapshot, NULL, options, out);
	return snap_recording_of_snapshot(snapshot, &recording)
		       ?: render_in_format(format, NULL, recording, options, out);
}

struct stacksnap_error *snap_render_recording_telling(const struct snap_format *format,
						      const struct snap_recording *recording,
						      const struct snap_options *options, FILE *out,
						      char **warning_ret)
{
	_cleanup_(snap_limited_deinit) struct snap_limited limited = { 0 };
	struct stacksnap_error *err;

	*warning_ret = NULL;
	if (!format->recording)
		return snap_error_format(SNAP_ERROR_INVALID, "a recording cannot be written as %s",
					 format->name);
	err = snap_limited_init(&limited, recording, options, format->frames);
	if (!err && limited.warning)
		*warning_ret = strdup(limited.warning);
	return err ? err : render_in_format(format, NULL, &limited.recording, options, out);
}

struct stacksnap_error *snap_render_recording(const struct snap_format *format,
					      const struct snap_recording *recording,
					      const struct snap_options *options, FILE *out)
{
	_cleanup_free_ char *warning = NULL;

	return snap_render_recording_telling(format, recording, options, out, &warning);
}
