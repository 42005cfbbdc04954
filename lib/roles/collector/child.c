/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The keeper itself: see collector.h. Takes the capture, writes it down, then answers one request
 * after the other until its supervisor has gone.
 */
#include "files/files.h"
#include "roles/collector/internal.h"
#include "roles/sandbox/sandbox.h"
#include "store/capture/file.h"

#include <string.h>

struct keeper {
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

static struct snap_error *take(struct keeper *keeper, const struct snap_keeper_birth *birth)
{
	struct snap_error *err;

	err = birth->start->make(birth->start->context, &keeper->options, &keeper->capture);
	if (err)
		return err;
	return snap_capture_hand_over(keeper->capture, birth->bytes);
}

/* ---- requests ---- */

static void forget_files(struct keeper *keeper)
{
	snap_files_destroy(keeper->files);
	keeper->files = NULL;
}

static void set_rules(struct keeper *keeper, uint32_t perf_map)
{
	forget_files(keeper);
	keeper->options.perf_map = (enum snap_perf_map)perf_map;
	keeper->options.debug_dirs = NULL;
	keeper->options.debug_dir_count = keeper->options.debug_dir_capacity = 0;
}

/* Without memory it is not looked into. */
static void add_directory(struct keeper *keeper, const char *path)
{
	struct snap_options *options = &keeper->options;
	size_t count = options->debug_dir_count;
	const char **grown = snap_arena_new_array(&keeper->arena, count + 1, const char *);

	forget_files(keeper);
	if (!grown)
		return;
	if (count)
		memcpy(grown, options->debug_dirs, count * sizeof(*grown));
	grown[count] = snap_arena_strdup(&keeper->arena, path);
	if (!grown[count])
		return;
	options->debug_dirs = grown;
	options->debug_dir_count = count + 1;
}

static struct snap_error *need_files(struct keeper *keeper)
{
	if (keeper->files)
		return NULL;
	return snap_files_create(&keeper->options, keeper->capture, &keeper->files);
}

static struct snap_error *find(struct keeper *keeper, const struct snap_broker_request *request,
			       int *fd_ret)
{
	struct snap_local_broker local = { .capture = keeper->capture };
	struct snap_broker broker = snap_local_broker(&local);
	struct snap_error *err = need_files(keeper);

	if (err)
		return err;
	local.finder = snap_files_finder(keeper->files);
	return broker.answer(broker.context, request, fd_ret);
}

static struct snap_error *save(struct keeper *keeper, int fd)
{
	struct snap_error *err = need_files(keeper);

	if (!err)
		err = snap_files_embed(keeper->files, keeper->capture);
	return err ? err : snap_capture_write(keeper->capture, fd);
}

static struct snap_error *reply(const struct keeper *keeper, struct snap_error *error, int fd)
{
	struct snap_wire_error answer;

	snap_wire_pack_error(error, &answer);
	snap_error_destroy(error);
	return snap_wire_send(keeper->channel, &answer, sizeof(answer), fd);
}

/* One request; an error when there is nobody to answer to. */
static struct snap_error *serve(struct keeper *keeper, const struct snap_keeper_message *message,
				int given)
{
	_cleanup_fd_ int fd = -1;
	struct snap_error *err;

	switch ((enum snap_keeper_kind)message->kind) {
	case SNAP_KEEPER_RULES:
		set_rules(keeper, message->perf_map);
		return NULL;
	case SNAP_KEEPER_DIRECTORY:
		add_directory(keeper, message->path);
		return NULL;
	case SNAP_KEEPER_FILE:
		err = find(keeper, &message->request, &fd);
		return reply(keeper, err, err ? -1 : fd);
	case SNAP_KEEPER_SAVE:
		return reply(keeper, save(keeper, given), -1);
	}
	return snap_error_format(SNAP_ERROR_FORMAT, "a request makes no sense");
}

/* The worker, until its supervisor has gone. */
static void serve_all(void *context, int channel)
{
	struct keeper *keeper = context;

	close(keeper->channel);
	keeper->channel = channel;
	for (;;) {
		struct snap_keeper_message message;
		_cleanup_fd_ int given = -1;
		size_t size;

		if (snap_error_ignore(
			    snap_wire_receive(channel, &message, sizeof(message), &size, &given)) ||
		    size < SNAP_KEEPER_RULES_SIZE)
			return;
		if (snap_error_ignore(serve(keeper, &message, given)))
			return;
	}
}

/* Says how it went, and hands over a new worker; false when there is nobody to say it to. */
static bool present(struct keeper *keeper, struct snap_error *error)
{
	struct snap_keeper_taken taken = { .parser_uid = 0 };

	snap_role_end(&keeper->worker);
	if (!error) {
		taken.parser_uid = pick_uid(keeper->capture);
		taken.shared_follows = keeper->capture->shared_fd >= 0;
		error = snap_role_spawn("snap-keeper", serve_all, keeper, &keeper->worker);
	}
	snap_wire_pack_error(error, &taken.error);
	snap_error_destroy(error);
	if (snap_error_ignore(
		    snap_wire_send(keeper->channel, &taken, sizeof(taken), keeper->worker.channel)))
		return false;
	/* Where only the supervisor holds it, its end is the worker's. */
	snap_close(&keeper->worker.channel);
	if (taken.shared_follows) {
		uint32_t word = 0;

		error = snap_wire_send(keeper->channel, &word, sizeof(word),
				       keeper->capture->shared_fd);
		snap_close(&keeper->capture->shared_fd);
		if (snap_error_ignore(error))
			return false;
	}
	return taken.error.code == 0;
}

void snap_keeper_main(void *context, int channel)
{
	const struct snap_keeper_birth *birth = context;
	const int kept[] = { channel, birth->bytes, birth->start->input };
	struct keeper keeper = { .channel = channel, .worker = SNAP_ROLE_NONE };
	uint32_t wish;
	size_t size;

	/* An output that somebody waits for the end of is not held open here. */
	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(kept, SNAP_ARRAY_SIZE(kept));
	if (birth->options)
		keeper.options = *birth->options;
	/* The supervisor downloads by itself. */
	keeper.options.self = getppid();
	keeper.options.cancel = birth->cancel;
	keeper.options.progress = NULL;
	keeper.options.debuginfod = false;
	snap_arena_init(&keeper.arena);
	if (!present(&keeper, take(&keeper, birth)))
		return;
	snap_role_outlive_thread();
	/* Whatever is said: it is the wish for another worker. */
	while (!snap_error_ignore(snap_wire_receive(channel, &wish, sizeof(wish), &size, NULL)) &&
	       size > 0 && present(&keeper, NULL))
		;
	snap_role_end(&keeper.worker);
}
