/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stacksnap merge FILE…: snapshots of many hosts, and what was merged of others, as one document.
 *
 * Files that hold what was merged come first, whatever their place: a snapshot that one of them
 * holds then counts once, while the other way round the sums could not be taken apart.
 */
#include "commands.h"
#include "input.h"
#include "message.h"
#include "report.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct source {
	const char *path;
	bool merged;
	off_t size;
};

/* What a regular file holds; of others nothing is read before their turn. */
static struct source look_at(const char *path)
{
	struct source source = { .path = path };
	struct stat status;
	char head[64];
	ssize_t got;
	int fd;

	if (stat(path, &status) < 0 || !S_ISREG(status.st_mode))
		return source;
	fd = snap_cli_input_open(path);
	got = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);
	if (got > 0)
		source.merged = stacksnap_file_is_merged(head, (size_t)got);
	if (fd >= 0)
		close(fd);
	source.size = status.st_size;
	return source;
}

/* The order in which they were given decides nothing, not even which one is refused. */
static int compare_sources(const void *left, const void *right)
{
	const struct source *a = left, *b = right;

	if (a->merged != b->merged)
		return a->merged ? -1 : 1;
	if (a->merged && a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return strcmp(a->path, b->path);
}

static struct source *list_sources(const struct snap_cli_request *request)
{
	size_t count = (size_t)request->file_count;
	struct source *sources = calloc(count, sizeof(*sources));

	for (size_t i = 0; sources && i < count; i++)
		sources[i] = look_at(request->files[i]);
	if (sources)
		qsort(sources, count, sizeof(*sources), compare_sources);
	return sources;
}

static void tell(void *context, const char *line)
{
	(void)context;
	snap_cli_message("%s", line);
}

/* False: it could not be read, or not to its end. An error ends the run. */
static bool add_source(struct stacksnap_merger *merger, const char *path,
		       struct stacksnap_error **err_ret)
{
	const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
	int fd = snap_cli_input_open(path);
	struct stacksnap_error *err;

	if (fd < 0)
		return snap_cli_message("cannot read %s: %s", name, strerror(errno));
	err = stacksnap_merger_add(merger, fd, name, tell, NULL);
	close(fd);
	if (err && stacksnap_error_code(err) == STACKSNAP_ERROR_OS) {
		snap_cli_message("%s: %s", name, stacksnap_error_message(err));
		stacksnap_error_destroy(err);
		return false;
	}
	*err_ret = err;
	return true;
}

static int merge_sources(struct snap_cli_report *report, struct stacksnap_merger *merger,
			 const struct source *sources)
{
	struct stacksnap_error *err = NULL;
	bool whole = true;
	int status;

	for (int i = 0; i < report->request->file_count && !err; i++)
		whole = add_source(merger, sources[i].path, &err) && whole;
	if (err)
		return snap_cli_report_error(report, err);
	status = snap_cli_report_merged(report, merger);
	return status == SNAP_CLI_WHOLE && !whole ? SNAP_CLI_PARTIAL : status;
}

/* Before anything is read: profiles and traces have no hosts. */
static bool can_show(const char *format)
{
	static const char *const formats[] = { "text", "json", "jsonl" };

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (strcmp(format, formats[i]) == 0)
			return true;
	return snap_cli_message("format '%s' cannot show what was merged: text, json and jsonl can",
				format);
}

int snap_cli_cmd_merge(struct snap_cli_request *request)
{
	struct stacksnap_merger *merger = NULL;
	struct snap_cli_report report;
	struct source *sources = list_sources(request);
	struct stacksnap_error *err = NULL;
	int status = SNAP_CLI_TROUBLE;

	if (snap_cli_report_init(&report, request)) {
		/*
		 * As many documents as there are hosts: there is a limit only if one is asked for.
		 */
		if (!snap_cli_request_has(request, "timeout"))
			snap_cli_signals_set_timer(0);
		err = stacksnap_merger_create(request->options, &merger);
		if (err)
			status = snap_cli_report_error(&report, err);
		else if (!can_show(report.format))
			status = SNAP_CLI_USAGE;
		else if (!sources)
			snap_cli_message("out of memory");
		else
			status = merge_sources(&report, merger, sources);
	}
	stacksnap_merger_destroy(merger);
	free(sources);
	snap_cli_report_deinit(&report);
	return status;
}
