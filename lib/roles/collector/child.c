/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The collector itself: see collector.h. Takes the capture, writes it down, then answers one
 * request after the other until its supervisor has gone.
 */
#include "files/files.h"
#include "roles/collector/internal.h"
#include "roles/sandbox/sandbox.h"
#include "store/capture/file.h"

#include <string.h>

struct collector {
	int channel;                 /* to the supervisor; in the worker the worker's */
	struct snap_role worker;     /* its channel is the supervisor's */
	struct snap_options options; /* its own: rules for opening files */
	struct snap_arena arena;     /* of the directories */
	struct snap_capture *capture;
	struct snap_files *files; /* NULL: to be made under the options as they are now */
};

/* ---- the capture ---- */

static uid_t pick_uid(const struct snap_capture *capture)
{
	_cleanup_free_ uid_t *taken = calloc(capture->process_count + 1, sizeof(*taken));
	size_t count = 0;

	for (size_t i = 0; taken && i < capture->process_count; i++)
		taken[count++] = capture->processes[i].uid;
	return snap_sandbox_pick_uid(taken, count);
}

static struct snap_error *take(struct collector *collector,
			       const struct snap_collector_birth *birth)
{
	struct snap_error *err;

	err = birth->start->make(birth->start->context, &collector->options, &collector->capture);
	if (err)
		return err;
	return snap_capture_hand_over(collector->capture, birth->bytes);
}

/* ---- requests ---- */

static void forget_files(struct collector *collector)
{
	snap_files_destroy(collector->files);
	collector->files = NULL;
}

static void set_rules(struct collector *collector, uint32_t perf_map)
{
	forget_files(collector);
	collector->options.perf_map = (enum snap_perf_map)perf_map;
	collector->options.debug_dirs = NULL;
	collector->options.debug_dir_count = collector->options.debug_dir_capacity = 0;
}

/* Without memory it is not looked into. */
static void add_directory(struct collector *collector, const char *path)
{
	struct snap_options *options = &collector->options;
	size_t count = options->debug_dir_count;
	const char **grown = snap_arena_new_array(&collector->arena, count + 1, const char *);

	forget_files(collector);
	if (!grown)
		return;
	if (count)
		memcpy(grown, options->debug_dirs, count * sizeof(*grown));
	grown[count] = snap_arena_strdup(&collector->arena, path);
	if (!grown[count])
		return;
	options->debug_dirs = grown;
	options->debug_dir_count = count + 1;
}

static struct snap_error *need_files(struct collector *collector)
{
	if (collector->files)
		return NULL;
	return snap_files_create(&collector->options, collector->capture, &collector->files);
}

static struct snap_error *find(struct collector *collector,
			       const struct snap_broker_request *request, int *fd_ret)
{
	struct snap_local_broker local = { .capture = collector->capture };
	struct snap_broker broker = snap_local_broker(&local);
	struct snap_error *err = need_files(collector);

	if (err)
		return err;
	local.finder = snap_files_finder(collector->files);
	return broker.answer(broker.context, request, fd_ret);
}

static struct snap_error *save(struct collector *collector, int fd)
{
	struct snap_error *err = need_files(collector);

	if (!err)
		err = snap_files_embed(collector->files, collector->capture);
	return err ? err : snap_capture_write(collector->capture, fd);
}

static struct snap_error *reply(const struct collector *collector, struct snap_error *error, int fd)
{
	struct snap_wire_error answer;

	snap_wire_pack_error(error, &answer);
	snap_error_destroy(error);
	return snap_wire_send(collector->channel, &answer, sizeof(answer), fd);
}

/* One request; an error when there is nobody to answer to. */
static struct snap_error *serve(struct collector *collector,
				const struct snap_collector_message *message, int given)
{
	_cleanup_fd_ int fd = -1;
	struct snap_error *err;

	switch ((enum snap_collector_kind)message->kind) {
	case SNAP_COLLECTOR_RULES:
		set_rules(collector, message->perf_map);
		return NULL;
	case SNAP_COLLECTOR_DIRECTORY:
		add_directory(collector, message->path);
		return NULL;
	case SNAP_COLLECTOR_FILE:
		err = find(collector, &message->request, &fd);
		return reply(collector, err, err ? -1 : fd);
	case SNAP_COLLECTOR_SAVE:
		return reply(collector, save(collector, given), -1);
	}
	return snap_error_format(SNAP_ERROR_FORMAT, "invalid request");
}

/* The worker, until its supervisor has gone. */
static void serve_all(void *context, int channel)
{
	struct collector *collector = context;

	close(collector->channel);
	collector->channel = channel;
	for (;;) {
		struct snap_collector_message message;
		_cleanup_fd_ int given = -1;
		size_t size;

		if (snap_error_ignore(
			    snap_wire_receive(channel, &message, sizeof(message), &size, &given)) ||
		    size < SNAP_COLLECTOR_RULES_SIZE)
			return;
		if (snap_error_ignore(serve(collector, &message, given)))
			return;
	}
}

/* Says how it went, and hands over a new worker; false when there is nobody to say it to. */
static bool present(struct collector *collector, struct snap_error *error)
{
	struct snap_collector_taken taken = { .parser_uid = 0 };

	snap_role_end(&collector->worker);
	if (!error) {
		taken.parser_uid = pick_uid(collector->capture);
		taken.shared_follows = collector->capture->shared_fd >= 0;
		error = snap_role_spawn("snap-collector", serve_all, collector, &collector->worker);
	}
	snap_wire_pack_error(error, &taken.error);
	snap_error_destroy(error);
	if (snap_error_ignore(snap_wire_send(collector->channel, &taken, sizeof(taken),
					     collector->worker.channel)))
		return false;
	/* Where only the supervisor holds it, its end is the worker's. */
	snap_close(&collector->worker.channel);
	if (taken.shared_follows) {
		uint32_t word = 0;

		error = snap_wire_send(collector->channel, &word, sizeof(word),
				       collector->capture->shared_fd);
		snap_close(&collector->capture->shared_fd);
		if (snap_error_ignore(error))
			return false;
	}
	return taken.error.code == 0;
}

void snap_collector_main(void *context, int channel)
{
	const struct snap_collector_birth *birth = context;
	const int kept[] = { channel, birth->bytes, birth->start->input };
	struct collector collector = { .channel = channel, .worker = SNAP_ROLE_NONE };
	uint32_t wish;
	size_t size;

	/* An output that somebody waits for the end of is not held open here. */
	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(kept, SNAP_ARRAY_SIZE(kept));
	if (birth->options)
		collector.options = *birth->options;
	/* The supervisor downloads by itself. */
	collector.options.self = getppid();
	collector.options.cancel = birth->cancel;
	collector.options.progress = NULL;
	collector.options.debuginfod = false;
	snap_arena_init(&collector.arena);
	if (!present(&collector, take(&collector, birth)))
		return;
	snap_role_outlive_thread();
	/* Whatever is said: it is the wish for another worker. */
	while (!snap_error_ignore(snap_wire_receive(channel, &wish, sizeof(wish), &size, NULL)) &&
	       size > 0 && present(&collector, NULL))
		;
	snap_role_end(&collector.worker);
}
