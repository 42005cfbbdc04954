/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The supervisor's side of a collector: see collector.h. Knows of the capture only where its bytes
 * are; waits for the collector no longer than it may, whatever holds it.
 */
#include "roles/collector/internal.h"

#include "base/clock.h"

#include "base/reopen.h"
#include "files/place.h"
#include "roles/role.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
	TICK_MS = 20,      /* how often the cancel flag and the clock are looked at */
	PATIENCE_MS = 150, /* how long a collector may take to end by itself */
	MOST_WORKERS = 16,
	BLOCK = 1 << 16,
};

/* How long a worker may take to open a file. */
static const int64_t ANSWER_NS = 2000000000;

struct snap_collector {
	struct snap_role role;
	int worker; /* the channel to who opens files; -1: nobody does */
	unsigned workers;
	volatile int *cancel; /* shared with the collector: its wish to stop */
	/* processes whose files held a worker: never asked for again */
	uint32_t held[MOST_WORKERS];
	int bytes, shared; /* memfds; -1: there is none */
	int64_t deadline_ns;
	uid_t parser_uid;
	/* of the broker at hand */
	const struct snap_options *options;
	int64_t broker_deadline_ns;
	struct snap_download *download;
};

static struct snap_error *describe_end(struct snap_role *role)
{
	int status;

	/* Its end of the channel closes a moment before it is to be waited for. */
	snap_role_has_ended(role, PATIENCE_MS);
	status = snap_role_end(role);
	if (status >= 0 && WIFSIGNALED(status))
		return snap_error_format(
			SNAP_ERROR_CRASHED,
			"the process that reads the targets was killed by signal %d",
			WTERMSIG(status));
	return snap_error_format(SNAP_ERROR_CRASHED,
				 "the process that reads the targets exited early");
}

/* Waits for an answer: NULL when there is something to receive, or its end. */
static struct snap_error *await(int channel, const struct snap_options *options,
				int64_t deadline_ns)
{
	struct pollfd event = { .fd = channel, .events = POLLIN };

	for (;;) {
		int ready;

		if (options && snap_options_cancelled(options))
			return snap_error_cancelled();
		if (deadline_ns && snap_clock_ns(CLOCK_MONOTONIC) > deadline_ns)
			return snap_error_format(SNAP_ERROR_TIMEOUT, "out of time");
		ready = poll(&event, 1, TICK_MS);
		if (ready > 0)
			return NULL;
		if (ready < 0 && (errno != EINTR || !options))
			return snap_error_os(errno, "cannot wait for a process");
	}
}

/* Receives one answer of a known size; CRASHED when there is nobody to give it. */
static struct snap_error *hear(int channel, void *answer, size_t size, int *fd_ret)
{
	_cleanup_fd_ int fd = -1;
	struct snap_error *err;
	size_t got;

	err = snap_wire_receive(channel, answer, size, &got, &fd);
	if (err)
		return err;
	if (got != size)
		return snap_error_format(SNAP_ERROR_CRASHED, "no answer");
	if (fd_ret)
		*fd_ret = snap_take_fd(&fd);
	return NULL;
}

static struct snap_error *gave_up(const struct snap_options *options)
{
	return snap_error_format(SNAP_ERROR_TIMEOUT, "gave up after %lld ms (--timeout)",
				 options ? (long long)(options->timeout_ns / 1000000) : 0ll);
}

/* One message has one descriptor: that of the shared mapping comes with a message of its own. */
static struct snap_error *await_shared(struct snap_collector *collector,
				       const struct snap_options *options, int64_t deadline_ns)
{
	struct snap_error *err = await(collector->role.channel, options, deadline_ns);
	uint32_t word;

	return err ? err : hear(collector->role.channel, &word, sizeof(word), &collector->shared);
}

/* The collector's word that there is a capture, or another worker. */
static struct snap_error *await_collector(struct snap_collector *collector,
					  const struct snap_options *options, int64_t deadline_ns)
{
	struct snap_collector_taken taken;
	struct snap_error *err = await(collector->role.channel, options, deadline_ns);

	if (!err)
		err = hear(collector->role.channel, &taken, sizeof(taken), &collector->worker);
	if (err && snap_error_code(err) == SNAP_ERROR_CRASHED) {
		snap_error_destroy(err);
		return describe_end(&collector->role);
	}
	if (err)
		return err;
	collector->parser_uid = taken.parser_uid;
	err = snap_wire_unpack_error(&taken.error);
	if (!err && taken.shared_follows)
		err = await_shared(collector, options, deadline_ns);
	return err;
}

struct snap_error *snap_collector_create(const struct snap_options *options,
					 const struct snap_collector_start *start,
					 struct snap_collector **ret)
{
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector =
		calloc(1, sizeof(*collector));
	struct snap_collector_birth birth = { .options = options, .start = start };
	struct snap_error *err;

	if (!collector)
		return snap_error_no_memory();
	collector->role = SNAP_ROLE_NONE;
	collector->worker = collector->shared = -1;
	collector->deadline_ns = start->deadline_ns;
	collector->bytes = birth.bytes = memfd_create("stacksnap-capture", MFD_CLOEXEC);
	if (collector->bytes < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	birth.cancel = mmap(NULL, sizeof(*birth.cancel), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (birth.cancel == MAP_FAILED)
		return snap_error_os(errno, "cannot share memory with another process");
	collector->cancel = birth.cancel;
	err = snap_role_spawn("snap-collector", snap_collector_main, &birth, &collector->role);
	if (!err)
		err = await_collector(collector, options, collector->deadline_ns);
	if (err && snap_error_code(err) == SNAP_ERROR_TIMEOUT) {
		snap_error_destroy(err);
		err = gave_up(options);
	}
	if (err)
		return err;
	*ret = snap_take_ptr(collector);
	return NULL;
}

/*
 * Asked to go, it ends its own children and waits for them; killed, it leaves them to init, which
 * in a container may be a program that never does.
 */
static void dismiss(struct snap_collector *collector)
{
	if (collector->cancel)
		*collector->cancel = 1;
	snap_close(&collector->worker);
	snap_close(&collector->role.channel);
	if (collector->role.pidfd >= 0)
		snap_role_has_ended(&collector->role, PATIENCE_MS);
	snap_role_end(&collector->role);
}

void snap_collector_destroy(struct snap_collector *collector)
{
	if (!collector)
		return;
	dismiss(collector);
	if (collector->cancel)
		munmap((void *)(uintptr_t)collector->cancel, sizeof(*collector->cancel));
	snap_download_destroy(collector->download);
	snap_close(&collector->bytes);
	snap_close(&collector->shared);
	free(collector);
}

int snap_collector_bytes(const struct snap_collector *collector)
{
	return collector->bytes;
}

int snap_collector_shared(const struct snap_collector *collector)
{
	return collector->shared;
}

int64_t snap_collector_deadline_ns(const struct snap_collector *collector)
{
	return collector->deadline_ns;
}

uid_t snap_collector_parser_uid(const struct snap_collector *collector)
{
	return collector->parser_uid;
}

/* ---- files ---- */

/* The rules of these options for opening files, and then the directories, one a message. */
static struct snap_error *send_rules(const struct snap_collector *collector,
				     const struct snap_options *options)
{
	struct snap_collector_message message = { .kind = SNAP_COLLECTOR_RULES,
						  .perf_map = options->perf_map };
	struct snap_error *err;

	err = snap_wire_send(collector->worker, &message, SNAP_COLLECTOR_RULES_SIZE, -1);
	message.kind = SNAP_COLLECTOR_DIRECTORY;
	for (size_t i = 0; !err && i < options->debug_dir_count; i++) {
		size_t length = strlen(options->debug_dirs[i]);

		if (length >= sizeof(message.path))
			continue; /* longer than any path that can be opened */
		memcpy(message.path, options->debug_dirs[i], length + 1);
		err = snap_wire_send(collector->worker, &message,
				     offsetof(struct snap_collector_message, path) + length + 1,
				     -1);
	}
	return err;
}

/* In place of a worker that is held by a file system, or has died. */
static void replace_worker(struct snap_collector *collector)
{
	uint32_t wish = 0;
	struct snap_error *err;

	snap_close(&collector->worker);
	if (collector->workers == MOST_WORKERS)
		return;
	err = snap_wire_send(collector->role.channel, &wish, sizeof(wish), -1);
	if (!err)
		err = await_collector(collector, collector->options,
				      snap_clock_ns(CLOCK_MONOTONIC) + ANSWER_NS);
	if (!err)
		err = send_rules(collector, collector->options);
	if (snap_error_ignore(err))
		snap_close(&collector->worker);
}

unsigned snap_collector_held(const struct snap_collector *collector)
{
	return collector->workers;
}

static bool has_held(const struct snap_collector *collector, uint32_t process)
{
	for (unsigned i = 0; i < collector->workers; i++)
		if (collector->held[i] == process)
			return true;
	return false;
}

static struct snap_error *ask(struct snap_collector *collector,
			      const struct snap_broker_request *request, int *fd_ret)
{
	struct snap_collector_message message = { .kind = SNAP_COLLECTOR_FILE,
						  .request = *request };
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + ANSWER_NS;
	struct snap_wire_error answer;
	struct snap_error *err;

	if (collector->worker < 0 || has_held(collector, request->process))
		return snap_error_not_found();
	if (collector->broker_deadline_ns && collector->broker_deadline_ns < until)
		until = collector->broker_deadline_ns;
	err = snap_wire_send(collector->worker, &message, SNAP_COLLECTOR_FILE_SIZE, -1);
	if (!err)
		err = await(collector->worker, collector->options, until);
	if (!err)
		err = hear(collector->worker, &answer, sizeof(answer), fd_ret);
	if (!err)
		return snap_wire_unpack_error(&answer);
	snap_error_destroy(err);
	if (collector->workers < MOST_WORKERS)
		collector->held[collector->workers++] = request->process;
	replace_worker(collector);
	return snap_error_not_found();
}

/* What is downloaded has no place in a file system: it is asked for when the places are through. */
static struct snap_error *download(struct snap_collector *collector,
				   const struct snap_broker_request *request, int *fd_ret)
{
	struct snap_file_request asked = {
		.kind = (enum snap_file_kind)request->kind,
		.build_id = request->build_id,
		.build_id_size = request->build_id_size,
	};

	_cleanup_fd_ int fd = -1;
	struct snap_error *err;

	if (!collector->options->debuginfod || request->build_id_size == 0 ||
	    (asked.kind != SNAP_FILE_DEBUG && asked.kind != SNAP_FILE_ALT))
		return snap_error_not_found();
	err = snap_download_find(&collector->download, collector->options, &asked, &fd);
	/* A file that has just come was opened for writing, too. */
	return err ? err : snap_reopen_regular(fd, fd_ret);
}

static struct snap_error *answer(void *context, const struct snap_broker_request *request,
				 int *fd_ret)
{
	struct snap_collector *collector = context;
	struct snap_broker_request before = *request;
	struct snap_error *err = ask(collector, request, fd_ret);

	if (!err || snap_error_code(err) != SNAP_ERROR_NOT_FOUND)
		return err;
	/* The first attempt that finds no place is the one for the download. */
	if (request->attempt > 0) {
		int fd = -1;

		before.attempt--;
		if (collector->options->debuginfod &&
		    snap_error_is(ask(collector, &before, &fd), SNAP_ERROR_NOT_FOUND))
			return err;
		snap_close(&fd);
	}
	snap_error_destroy(err);
	return download(collector, request, fd_ret);
}

struct snap_error *snap_collector_broker(struct snap_collector *collector,
					 const struct snap_options *options, int64_t deadline_ns,
					 struct snap_broker *ret)
{
	collector->options = options;
	collector->broker_deadline_ns = deadline_ns;
	snap_download_destroy(collector->download);
	collector->download = NULL;
	if (collector->worker >= 0 && snap_error_ignore(send_rules(collector, options)))
		replace_worker(collector);
	*ret = (struct snap_broker){ .answer = answer, .context = collector };
	return NULL;
}

/* ---- saving ---- */

static struct snap_error *copy(int from, int to, const struct snap_options *options)
{
	_cleanup_free_ uint8_t *block = malloc(BLOCK);
	off_t at = 0;

	if (!block)
		return snap_error_no_memory();
	for (;;) {
		ssize_t n = pread(from, block, BLOCK, at), done = 0;

		if (n < 0)
			return snap_error_os(errno, "cannot read the capture");
		if (n == 0)
			return NULL;
		while (done < n) {
			ssize_t put = -1;

			if (snap_options_cancelled(options))
				return snap_error_cancelled();
			put = write(to, block + done, (size_t)(n - done));
			if (put < 0 && errno != EINTR)
				return snap_error_os(errno, "cannot write the capture");
			done += put > 0 ? put : 0;
		}
		at += n;
	}
}

struct snap_error *snap_collector_save(struct snap_collector *collector,
				       const struct snap_options *options, int fd)
{
	_cleanup_fd_ int memory = memfd_create("stacksnap-capture", MFD_CLOEXEC);
	struct snap_collector_message message = { .kind = SNAP_COLLECTOR_SAVE };
	struct snap_wire_error answer;
	struct snap_error *err;

	if (memory < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	if (collector->worker < 0)
		return snap_error_format(SNAP_ERROR_CRASHED,
					 "the process that reads the targets has exited");
	collector->options = options;
	err = send_rules(collector, options);
	if (!err)
		err = snap_wire_send(collector->worker, &message, SNAP_COLLECTOR_SAVE_SIZE, memory);
	if (!err)
		err = await(collector->worker, options, collector->deadline_ns);
	if (!err)
		err = hear(collector->worker, &answer, sizeof(answer), NULL);
	if (err) {
		replace_worker(collector);
		return snap_error_wrap(err, "cannot save the capture");
	}
	err = snap_wire_unpack_error(&answer);
	return err ? err : copy(memory, fd, options);
}
