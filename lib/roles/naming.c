/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Naming: see naming.h. */
#include "roles/naming.h"

#include "base/clock.h"

#include "analyze/log/log.h"
#include "roles/parser.h"
#include "roles/sandbox/sandbox.h"
#include "store/recording/names.h"

#include <string.h>
#include <sys/mman.h>

enum {
	MOST_REFUSED = 8,        /* files that ended a parser */
	LEAST_ROOM = 256 << 20,  /* bytes of names … */
	ROOM_OF_FRAME = 1 << 10, /* … and for each frame */
};

static const int64_t PATIENCE_WITH_DOWNLOADS_NS = 600000000000;

/* With how much the parser is trusted: each kind sees less of what the target made than the last.
 */
enum kind { WITH_FILES, WITHOUT_FILES, WITHOUT_MEMORY, KIND_COUNT };

struct task {
	struct snap_log *log; /* in the parser: its own copy */
	const struct snap_options *options;
	enum kind kind;
};

/* ---- in the parser ---- */

static struct snap_error *work(void *context, struct snap_parser_job *job)
{
	struct task *task = context;
	struct snap_log *log = task->log;
	size_t from = log->name_count, warnings_from = log->capture->warning_count;
	struct snap_remote_finder remote = { .channel = job->channel,
					     .capture = log->capture,
					     .place = job->place };
	struct snap_file_finder finder =
		task->kind == WITH_FILES ? snap_remote_finder(&remote) : snap_no_files();
	struct snap_error *err;

	/* Without the beginnings of modules there is nothing but what the kernel says of them. */
	for (size_t i = 0; i < log->capture->process_count && task->kind == WITHOUT_MEMORY; i++)
		log->capture->processes[i].piece_count = 0;
	err = snap_analyze_log_names(log, task->options, &finder);
	if (err)
		return err;
	job->size = snap_log_names_size(log, from, warnings_from);
	if (job->size > job->room)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "the names do not fit into their memory");
	return snap_log_names_write(log, from, warnings_from, job->out);
}

/* ---- in its maker ---- */

static bool is_named(const struct snap_log *log)
{
	for (size_t i = 0; i < log->frame_count; i++)
		if (log->frames[i].name == 0)
			return false;
	return true;
}

static struct snap_error *choose_uid(const struct snap_log *log, uid_t *ret)
{
	const struct snap_capture *capture = log->capture;
	_cleanup_free_ uid_t *taken = calloc(capture->process_count + 1, sizeof(*taken));

	if (!taken)
		return snap_error_no_memory();
	for (size_t i = 0; i < capture->process_count; i++)
		taken[i] = capture->processes[i].uid;
	*ret = snap_sandbox_pick_uid(taken, capture->process_count);
	return NULL;
}

/* When an attempt has to be over: it leaves time for those behind it. */
static int64_t share(int64_t deadline_ns, enum kind kind)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), left = deadline_ns - now;

	return kind == WITHOUT_MEMORY ? deadline_ns : now + (left > 0 ? left / 4 * 3 : 0);
}

/* The broker, but for files that have ended a parser before: they cost their own names alone. */
struct guard {
	struct snap_broker inner;
	uint64_t refused[MOST_REFUSED]; /* snap_broker_place() */
	size_t count;
};

static struct snap_error *answer(void *context, const struct snap_broker_request *request,
				 int *fd_ret)
{
	const struct guard *guard = context;

	for (size_t i = 0; i < guard->count; i++)
		if (guard->refused[i] == snap_broker_place(request))
			return snap_error_not_found();
	return guard->inner.answer(guard->inner.context, request, fd_ret);
}

/* Whether the same kind may be tried again without the file at which it ended. */
static bool refuse(struct guard *guard, uint64_t place)
{
	if (place == 0 || guard->count == MOST_REFUSED)
		return false;
	for (size_t i = 0; i < guard->count; i++)
		if (guard->refused[i] == place)
			return false;
	guard->refused[guard->count++] = place;
	return true;
}

static struct snap_error *run(struct task *task, struct guard *guard, uid_t uid,
			      int64_t deadline_ns, uint64_t *place_ret)
{
	struct snap_parser_setting setting = {
		.options = task->options,
		.broker = { .answer = answer, .context = guard },
		.uid = uid,
		.deadline_ns = deadline_ns,
		.room = LEAST_ROOM + task->log->frame_count * ROOM_OF_FRAME,
		.input = -1,
		.place_ret = place_ret,
	};
	const uint8_t *bytes;
	struct snap_error *err;
	uint64_t size;

	err = snap_parser_run(&setting, work, task, &bytes, &size);
	if (err)
		return err;
	err = snap_log_names_read(task->log, bytes, size);
	munmap((void *)(uintptr_t)bytes, size);
	return err;
}

/* The first trouble is told, with what is left of the names. */
static void warn(struct snap_log *log, const struct snap_error *trouble, int kind)
{
	static const char *const rest[KIND_COUNT + 1] = {
		[WITH_FILES] = "functions of a file or more are unknown",
		[WITHOUT_FILES] = "functions are unknown, frames have modules and offsets",
		[WITHOUT_MEMORY] = "functions are unknown, frames have modules",
		[KIND_COUNT] = "frames have only addresses",
	};

	snap_capture_warn(log->capture, "parser_failed", 0, 0, "%s: %s",
			  snap_error_message(trouble), rest[kind]);
}

struct snap_error *snap_naming_run(struct snap_log *log, const struct snap_options *options,
				   const struct snap_broker *broker, int64_t patience_ns)
{
	_cleanup_(snap_error_destroyp) struct snap_error *trouble = NULL;
	struct task task = { .log = log, .options = options };
	struct guard guard = { .inner = *broker };
	int64_t deadline_ns = snap_clock_ns(CLOCK_MONOTONIC) + patience_ns;
	int kind = WITH_FILES;
	struct snap_error *err;
	uid_t uid = 0;

	if (is_named(log))
		return NULL;
	/* Who downloads has deadlines of his own. */
	if (options->debuginfod && patience_ns < PATIENCE_WITH_DOWNLOADS_NS)
		deadline_ns = snap_clock_ns(CLOCK_MONOTONIC) + PATIENCE_WITH_DOWNLOADS_NS;
	err = choose_uid(log, &uid);
	if (err)
		return err;
	while (kind < KIND_COUNT) {
		uint64_t place = 0;

		task.kind = (enum kind)kind;
		err = run(&task, &guard, uid, share(deadline_ns, task.kind), &place);
		if (!err)
			break;
		if (snap_error_code(err) == SNAP_ERROR_CANCELLED)
			return err;
		/* The first trouble is the one that matters: the others follow from it. */
		if (trouble)
			snap_error_destroy(err);
		else
			trouble = err;
		if (!refuse(&guard, place))
			kind++;
	}
	if (trouble)
		warn(log, trouble, kind);
	return NULL;
}
