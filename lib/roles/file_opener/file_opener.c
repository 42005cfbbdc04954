/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The side that asks openers: see opener.h. It waits for an opener no longer than its time allows,
 * and never has a descriptor of an opened file. describe.c sends what an opener needs of a process.
 */
#include "roles/file_opener/file_opener.h"

#include "base/clock.h"
#include "proc/procfs.h"
#include "roles/file_opener/describe.h"
#include "roles/file_opener/download.h"
#include "roles/file_opener/patience.h"

#include <stddef.h>
#include <string.h>

enum {
	TICK_NS = 10000000, /* then, when the tick of a role is over, the opener is looked at */
	MOST_OPENERS = SNAP_FILE_OPENER_MOST_SKIPPED,
	MOST_COPIED = 96 << 20, /* bytes, in all */
};

/*
 * How long an opener may take for a file, unless it sleeps (patience.h). An opener that is a child
 * has less time, as its maker delays others meanwhile.
 */
static const int64_t ANSWER_NS = 2000000000, CHILD_ANSWER_NS = 500000000;

struct snap_file_opener {
	struct snap_file_opener_source source; /* make NULL: they are children */
	struct snap_role child;
	int channel; /* of the current opener; -1: none */
	pid_t pid;   /* of the same */
	pid_t maker; /* the thread that made it, with which it ends; 0: it is no child */
	struct snap_patience patience;
	/* files that blocked an opener, and their processes */
	struct held {
		uint64_t who;
		struct snap_broker_request request;
	} held[MOST_OPENERS];
	uint32_t copied;
	const struct snap_capture *capture;
	/* of the current work */
	const struct snap_options *options;
	int64_t deadline_ns;
	struct snap_download *download;
};

/* ---- openers ---- */

static void run_child(void *context, int channel)
{
	const struct snap_file_opener *opener = context;

	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(&channel, 1);
	snap_role_leave_priority(0);
	snap_file_opener_serve(opener->options, NULL, channel);
}

static void make_opener(struct snap_file_opener *opener, int64_t until_ns)
{
	if (opener->channel >= 0 || opener->patience.losses == MOST_OPENERS)
		return;
	if (opener->source.make) {
		opener->channel =
			opener->source.make(opener->source.context, until_ns, &opener->pid);
		return;
	}
	if (snap_error_ignore(snap_role_spawn("snap-opener", run_child, opener, &opener->child)))
		return;
	opener->channel = opener->child.channel;
	opener->pid = opener->child.pid;
	opener->maker = gettid();
}

static void end_opener(struct snap_file_opener *opener)
{
	if (opener->source.make)
		snap_close(&opener->channel);
	else
		snap_role_end(&opener->child);
	opener->channel = -1;
}

/* Identifies a process, as its pid may be used again. */
static uint64_t who_is(const struct snap_file_opener *opener,
		       const struct snap_broker_request *request)
{
	const struct snap_process *process;

	if (!opener->capture || request->process >= opener->capture->process_count)
		return request->process;
	process = &opener->capture->processes[request->process];
	return process->start_ticks << 22 ^ (uint64_t)process->pid;
}

/* The opener is blocked by a file system, or has died. */
static void give_up(struct snap_file_opener *opener, const struct snap_broker_request *request)
{
	if (opener->patience.losses < MOST_OPENERS)
		opener->held[opener->patience.losses++] =
			(struct held){ who_is(opener, request), *request };
	end_opener(opener);
	if (opener->source.lose && opener->patience.losses < MOST_OPENERS)
		opener->source.lose(opener->source.context);
}

static struct stacksnap_error *send_path(const struct snap_file_opener *opener,
					 struct snap_file_opener_message *message, const char *path)
{
	size_t length = strlen(path);

	if (length >= sizeof(message->path))
		return NULL; /* longer than any path that can be opened */
	memcpy(message->path, path, length + 1);
	return snap_wire_send(opener->channel, message,
			      offsetof(struct snap_file_opener_message, path) + length + 1, -1);
}

/* Sends the rules of the options for opening files, and then each directory. */
static struct stacksnap_error *send_rules(const struct snap_file_opener *opener)
{
	const struct snap_options *options = opener->options;
	struct snap_file_opener_message message = { .word = SNAP_FILE_OPENER_RULES,
						    .number = options->perf_map };
	struct stacksnap_error *err = send_path(opener, &message, "");

	message.word = SNAP_FILE_OPENER_DIRECTORY;
	for (size_t i = 0; !err && i < options->debug_dir_count; i++)
		err = send_path(opener, &message, options->debug_dirs[i]);
	return err;
}

/* Makes an opener if there is none, and sends it the rules. */
static bool need_opener(struct snap_file_opener *opener, int64_t until_ns)
{
	if (opener->channel >= 0)
		return true;
	make_opener(opener, until_ns);
	if (opener->channel >= 0 && snap_error_ignore(send_rules(opener)))
		end_opener(opener);
	return opener->channel >= 0;
}

/* ---- waiting ---- */

static bool is_late(const struct snap_file_opener *opener)
{
	return opener->deadline_ns && snap_clock_ns(CLOCK_MONOTONIC) > opener->deadline_ns;
}

/* One wait: for the answer to a request, or for the next answer during a save. */
struct wait {
	struct snap_patience_wait patience; /* whole_ns 0: it may take until the deadline */
	int64_t deadline_ns;                /* 0: none */
	bool is_served;
};

static struct wait begin_wait(const struct snap_file_opener *opener, int64_t until_ns)
{
	struct wait wait = { .deadline_ns = opener->deadline_ns };

	if (until_ns && (!wait.deadline_ns || until_ns < wait.deadline_ns))
		wait.deadline_ns = until_ns;
	snap_patience_begin(&wait.patience, snap_clock_ns(CLOCK_MONOTONIC),
			    opener->source.make ? ANSWER_NS : CHILD_ANSWER_NS);
	return wait;
}

/* What procfs says of it without a delay; fields that procfs does not give stay 0. */
static void look_at_opener(const struct snap_file_opener *opener, struct snap_patience_look *look)
{
	struct snap_procfs procfs;
	struct snap_stat stat;
	uint64_t numbers[3];
	char text[128];
	ssize_t length;

	if (snap_error_ignore(snap_procfs_open(NULL, &procfs)))
		return;
	if (snap_procfs_task_stat(procfs.root_fd, opener->pid, &stat) == 0)
		look->state = stat.state;
	length =
		snap_procfs_task_read(procfs.root_fd, opener->pid, "schedstat", text, sizeof(text));
	if (length > 0 && snap_parse_schedstat(text, (size_t)length, numbers))
		look->runs = numbers[2];
	snap_procfs_close(&procfs);
}

static bool has_patience(const struct snap_file_opener *opener, struct wait *wait)
{
	struct snap_patience_look look = { .is_served = wait->is_served };

	look.now_ns = snap_clock_ns(CLOCK_MONOTONIC);
	if (wait->deadline_ns && look.now_ns > wait->deadline_ns)
		return false;
	if (!wait->patience.whole_ns)
		return true;
	look_at_opener(opener, &look);
	return !snap_patience_is_over(&opener->patience, &wait->patience, &look);
}

static struct stacksnap_error *receive_opened_file(const struct snap_file_opener *opener,
						   struct wait *wait,
						   struct snap_file_opener_answer *ret)
{
	struct stacksnap_error *err = NULL;

	do {
		snap_error_destroy(err);
		err = snap_role_receive(opener->channel, opener->options,
					snap_clock_ns(CLOCK_MONOTONIC) + TICK_NS, ret, sizeof(*ret),
					NULL);
	} while (err && snap_error_code(err) == SNAP_ERROR_TIMEOUT && has_patience(opener, wait));
	return err;
}

/* ---- files ---- */

/*
 * A file that blocked an opener is not requested again, nor is any file of a process that blocked
 * several.
 */
static bool has_held(const struct snap_file_opener *opener,
		     const struct snap_broker_request *request)
{
	uint64_t who = who_is(opener, request), file = snap_broker_file_id(request);
	unsigned count = 0;

	for (unsigned i = 0; i < opener->patience.losses; i++) {
		if (opener->held[i].who != who)
			continue;
		count++;
		if (snap_broker_file_id(&opener->held[i].request) == file)
			return true;
	}
	return count >= SNAP_FILE_OPENER_MOST_OF_PROCESS;
}

static struct stacksnap_error *send_wish(const struct snap_file_opener *opener,
					 const struct snap_broker_request *request, int reply)
{
	struct snap_file_opener_message message = { .word = SNAP_FILE_OPENER_DESCRIPTOR,
						    .number = SNAP_FILE_OPENER_REPLY };
	size_t size = offsetof(struct snap_file_opener_message, path) + 1;
	struct stacksnap_error *err = NULL;

	message.request = *request;
	if (opener->capture) {
		err = snap_file_opener_describe(opener->channel, opener->capture, request);
		message.request.process = message.request.map = 0;
	}
	if (!err && reply >= 0)
		err = snap_wire_send(opener->channel, &message, size, reply);
	message.word = SNAP_FILE_OPENER_FILE;
	message.number = MOST_COPIED - opener->copied;
	return err ? err : snap_wire_send(opener->channel, &message, size, -1);
}

/* The opener may have ended with the thread that made it: no file is the cause. */
static bool ended_with_maker(const struct snap_file_opener *opener,
			     const struct stacksnap_error *error)
{
	return opener->maker && opener->maker != gettid() &&
	       (snap_error_code(error) == SNAP_ERROR_CRASHED ||
		snap_error_code(error) == SNAP_ERROR_OS);
}

/*
 * Has the opener open a file. An error here, not in the answer: the opener cannot be used any more.
 */
static struct stacksnap_error *ask_opener(const struct snap_file_opener *opener,
					  const struct snap_broker_request *request, int channel,
					  struct wait *wait, struct snap_file_opener_answer *ret)
{
	struct stacksnap_error *err = send_wish(opener, request, channel);

	*ret = (struct snap_file_opener_answer){ .is_on_its_way = 1 };
	while (!err && ret->is_on_its_way) {
		err = receive_opened_file(opener, wait, ret);
		wait->is_served = true;
	}
	return err;
}

/* The caller goes on as if there were no such file, and can say why. */
static struct stacksnap_error *not_in_time(void)
{
	return snap_error_format(SNAP_ERROR_NOT_FOUND, "the file could not be opened in time");
}

/* NULL: there is such a file, and the parser at `channel`, if there is one, has received it. */
static struct stacksnap_error *send_opener_request(struct snap_file_opener *opener,
						   const struct snap_broker_request *request,
						   int channel, int64_t until_ns)
{
	struct snap_file_opener_answer answer;
	struct stacksnap_error *err;
	struct wait wait;

	if (has_held(opener, request) || !need_opener(opener, until_ns))
		return not_in_time();
	wait = begin_wait(opener, until_ns);
	err = ask_opener(opener, request, channel, &wait, &answer);
	if (err && ended_with_maker(opener, err)) {
		end_opener(opener);
		snap_error_destroy(err);
		if (!need_opener(opener, until_ns))
			return not_in_time();
		wait = begin_wait(opener, until_ns);
		err = ask_opener(opener, request, channel, &wait, &answer);
	}
	if (err) {
		snap_error_destroy(err);
		give_up(opener, request);
		return not_in_time();
	}
	snap_patience_end(&opener->patience, &wait.patience);
	opener->copied += answer.copied < MOST_COPIED - opener->copied
				  ? answer.copied
				  : MOST_COPIED - opener->copied;
	return snap_wire_unpack_error(&answer.error);
}

/* Downloads come last, after all places in file systems. */
static struct stacksnap_error *download(struct snap_file_opener *opener,
					const struct snap_broker_request *request, int64_t until_ns,
					int *fd_ret)
{
	if (!opener->options->debuginfod || request->build_id_size == 0 ||
	    (request->kind != SNAP_FILE_DEBUG && request->kind != SNAP_FILE_ALT))
		return snap_error_not_found();
	return snap_download_find(&opener->download, opener->options, request, until_ns, fd_ret);
}

static bool is_invalid(const struct snap_file_opener *opener,
		       const struct snap_broker_request *request)
{
	const struct snap_capture *capture = opener->capture;

	return !snap_broker_is_valid(request) ||
	       (capture && (request->process >= capture->process_count ||
			    (request->kind != SNAP_FILE_PERF_MAP &&
			     request->map >= capture->processes[request->process].map_count)));
}

static struct stacksnap_error *answer_request(void *context,
					      const struct snap_broker_request *request,
					      struct snap_broker_reply *reply)
{
	struct snap_file_opener *opener = context;
	struct snap_broker_request before = *request;
	struct stacksnap_error *err, *downloaded;

	if (is_invalid(opener, request))
		return snap_error_format(SNAP_ERROR_FORMAT, "invalid request for a file");
	err = send_opener_request(opener, request, reply->channel, reply->until_ns);
	if (!err)
		reply->is_sent = true;
	if (!err || snap_error_code(err) != SNAP_ERROR_NOT_FOUND)
		return err;
	/* The first attempt for which there is no place is that for the download. */
	if (request->attempt > 0) {
		before.attempt--;
		if (!opener->options->debuginfod ||
		    snap_error_is(send_opener_request(opener, &before, -1, reply->until_ns),
				  SNAP_ERROR_NOT_FOUND))
			return err;
	}
	downloaded = download(opener, request, reply->until_ns, &reply->fd);
	/* The local reason says more than that no server has the file. */
	if (downloaded && snap_error_code(downloaded) == SNAP_ERROR_NOT_FOUND) {
		snap_error_destroy(downloaded);
		return err;
	}
	snap_error_destroy(err);
	return downloaded;
}

struct snap_broker snap_file_opener_broker(struct snap_file_opener *opener)
{
	return (struct snap_broker){ .answer = answer_request, .context = opener };
}

/* ---- a whole capture ---- */

/* Has the capture saved without the files that have blocked an opener. */
static struct stacksnap_error *send_save(const struct snap_file_opener *opener, int fd)
{
	struct snap_file_opener_message message = { .word = SNAP_FILE_OPENER_SKIP };
	size_t size = offsetof(struct snap_file_opener_message, path) + 1;
	struct stacksnap_error *err = NULL;

	for (unsigned i = 0; !err && i < opener->patience.losses; i++) {
		message.request = opener->held[i].request;
		err = snap_wire_send(opener->channel, &message, size, -1);
	}
	message.word = SNAP_FILE_OPENER_SAVE;
	return err ? err : snap_wire_send(opener->channel, &message, size, fd);
}

/* Tries once. *held_ret: the file that the opener was at when it stopped to answer. */
static struct stacksnap_error *try_save(const struct snap_file_opener *opener, int fd,
					struct snap_broker_request *held_ret,
					struct snap_file_opener_answer *ret)
{
	struct snap_file_opener_answer answer = { .is_on_its_way = 1 };
	struct stacksnap_error *err = send_save(opener, fd);

	while (!err && answer.is_on_its_way) {
		struct wait wait = begin_wait(opener, 0);

		if (answer.is_writing)
			wait.patience.whole_ns = 0;
		*held_ret = answer.touching;
		err = receive_opened_file(opener, &wait, &answer);
	}
	*ret = answer;
	return err;
}

struct stacksnap_error *snap_file_opener_save(struct snap_file_opener *opener, int fd)
{
	for (;;) {
		struct snap_broker_request held = { 0 };
		struct snap_file_opener_answer answer;
		struct stacksnap_error *err;

		if (!need_opener(opener, opener->deadline_ns))
			return snap_error_format(SNAP_ERROR_CRASHED,
						 "the process that reads the targets has exited");
		err = try_save(opener, fd, &held, &answer);
		if (!err)
			return snap_wire_unpack_error(&answer.error);
		give_up(opener, &held);
		if (snap_error_code(err) != SNAP_ERROR_TIMEOUT || answer.is_writing ||
		    is_late(opener))
			return snap_error_wrap(err, "cannot save the capture");
		snap_error_destroy(err);
	}
}

/* ---- beginning and end ---- */

struct stacksnap_error *snap_file_opener_create(const struct snap_file_opener_source *source,
						struct snap_file_opener **ret)
{
	struct snap_file_opener *opener = calloc(1, sizeof(*opener));

	SNAP_TRY(snap_no_memory_unless(opener));
	if (source)
		opener->source = *source;
	opener->child = SNAP_ROLE_NONE;
	opener->channel = -1;
	*ret = opener;
	return NULL;
}

void snap_file_opener_destroy(struct snap_file_opener *opener)
{
	if (!opener)
		return;
	end_opener(opener);
	snap_download_destroy(opener->download);
	free(opener);
}

void snap_file_opener_set_capture(struct snap_file_opener *opener,
				  const struct snap_capture *capture)
{
	opener->capture = capture;
}

void snap_file_opener_set_options(struct snap_file_opener *opener,
				  const struct snap_options *options, int64_t deadline_ns)
{
	opener->options = options;
	opener->deadline_ns = deadline_ns;
	snap_download_destroy(opener->download);
	opener->download = NULL;
	if (opener->channel >= 0 && snap_error_ignore(send_rules(opener)))
		end_opener(opener);
}

unsigned snap_file_opener_losses(const struct snap_file_opener *opener)
{
	return opener->patience.losses;
}
