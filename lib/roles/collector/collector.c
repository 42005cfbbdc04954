/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Both sides of a collector: see collector.h. The supervisor knows of the capture only where its
 * bytes are, and waits for the collector no longer than it may, whatever holds it.
 *
 *     supervisor --options, by fork--> collector
 *                <--how it went, the shared memory of the capture--
 *                <--channel of a worker--      (a copy of the collector, which opens files)
 *                --the wish for another worker-->
 *     supervisor --rules, requests--> worker --answers, descriptors--> supervisor
 */
#include "roles/collector/collector.h"

#include "base/clock.h"
#include "base/reopen.h"
#include "discover/discover.h"
#include "files/files.h"
#include "files/search.h"
#include "roles/parser.h"
#include "roles/role.h"
#include "stop/tracer.h"
#include "store/capture/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
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

/* ---- messages ---- */

/* What the supervisor asks the worker for. Each but RULES and DIRECTORY has an answer. */
enum message_kind {
	RULES,     /* perf_map; forgets the directories */
	DIRECTORY, /* path: one of --debug-dir */
	FILE_WISH, /* request; answer: snap_wire_error, a descriptor */
	SAVE,      /* a descriptor to write to; answer: snap_wire_error */
};

struct message {
	uint32_t kind;
	uint32_t perf_map; /* enum snap_perf_map */
	struct snap_broker_request request;
	char path[4096];
};

/* How much of a message is sent. */
enum {
	RULES_SIZE = offsetof(struct message, request),
	SAVE_SIZE = RULES_SIZE,
	FILE_WISH_SIZE = offsetof(struct message, path),
};

_Static_assert(sizeof(struct message) <= SNAP_WIRE_BYTES, "a message is one message");

/* The collector's first words, with the descriptor of capture->shared where there is one. */
struct capture_made {
	struct snap_wire_error error;
	uid_t parser_uid;
};

/* ---- in the collector, and in its worker ---- */

struct collector {
	int channel;                 /* to the supervisor; in the worker the worker's */
	struct snap_role worker;     /* its channel is the supervisor's */
	struct snap_options options; /* its own: rules for opening files */
	struct snap_arena arena;     /* of the directories */
	struct snap_capture *capture;
	struct snap_files *files; /* NULL: to be made under the options as they are now */
};

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

static struct stacksnap_error *need_files(struct collector *collector)
{
	if (collector->files)
		return NULL;
	return snap_files_create(&collector->options, collector->capture, &collector->files);
}

static struct stacksnap_error *find(struct collector *collector,
				    const struct snap_broker_request *request, int *fd_ret)
{
	struct snap_local_broker local = { .capture = collector->capture };
	struct snap_broker broker = snap_local_broker(&local);
	struct stacksnap_error *err = need_files(collector);

	if (err)
		return err;
	local.finder = snap_files_finder(collector->files);
	return broker.answer(broker.context, request, fd_ret);
}

static struct stacksnap_error *save(struct collector *collector, int fd)
{
	struct stacksnap_error *err = need_files(collector);

	if (!err)
		err = snap_files_embed(collector->files, collector->capture);
	return err ? err : snap_capture_write(collector->capture, fd);
}

static struct stacksnap_error *reply(const struct collector *collector,
				     struct stacksnap_error *error, int fd)
{
	struct snap_wire_error answer;

	snap_wire_pack_error(error, &answer);
	snap_error_destroy(error);
	return snap_wire_send(collector->channel, &answer, sizeof(answer), fd);
}

/* One request; an error when there is nobody to answer to. */
static struct stacksnap_error *serve(struct collector *collector, const struct message *message,
				     int given)
{
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;

	switch ((enum message_kind)message->kind) {
	case RULES:
		set_rules(collector, message->perf_map);
		return NULL;
	case DIRECTORY:
		add_directory(collector, message->path);
		return NULL;
	case FILE_WISH:
		err = find(collector, &message->request, &fd);
		return reply(collector, err, err ? -1 : fd);
	case SAVE:
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
		struct message message;
		_cleanup_fd_ int given = -1;
		size_t size;

		if (snap_error_ignore(
			    snap_wire_receive(channel, &message, sizeof(message), &size, &given)) ||
		    size < RULES_SIZE)
			return;
		if (snap_error_ignore(serve(collector, &message, given)))
			return;
	}
}

/* Says how the capture went, and hands its shared memory over. */
static struct stacksnap_error *send_capture(struct collector *collector,
					    struct stacksnap_error *error)
{
	struct capture_made made = { .parser_uid = 0 };
	int shared = -1;

	if (!error)
		error = snap_parser_pick_uid(collector->capture, &made.parser_uid);
	if (!error)
		shared = collector->capture->shared_fd;
	snap_wire_pack_error(error, &made.error);
	snap_error_destroy(error);
	return snap_wire_send(collector->channel, &made, sizeof(made), shared);
}

/* Another worker in place of the one there was. Where only the supervisor has its channel, the end
 * of the supervisor is the worker's. */
static struct stacksnap_error *send_worker(struct collector *collector)
{
	struct snap_wire_error word;
	struct stacksnap_error *err;

	snap_role_end(&collector->worker);
	err = snap_role_spawn("snap-collector", serve_all, collector, &collector->worker);
	snap_wire_pack_error(err, &word);
	snap_error_destroy(err);
	err = snap_wire_send(collector->channel, &word, sizeof(word), collector->worker.channel);
	snap_close(&collector->worker.channel);
	return err;
}

struct birth {
	const struct snap_options *options; /* NULL: a capture is read */
	const struct snap_collector_start *start;
	int bytes;            /* the memfd for the capture */
	volatile int *cancel; /* shared: not 0 when nobody wants it any more */
};

static struct stacksnap_error *make_capture(struct collector *collector, const struct birth *birth)
{
	const struct snap_collector_start *start = birth->start;
	struct stacksnap_error *err;

	err = start->make(start->context, &collector->options, &collector->capture);
	return err ? err : snap_capture_hand_over(collector->capture, birth->bytes);
}

static void take_options(struct collector *collector, const struct birth *birth)
{
	if (birth->options)
		collector->options = *birth->options;
	/* The supervisor downloads by itself. */
	collector->options.self = getppid();
	collector->options.cancel = birth->cancel;
	collector->options.progress = NULL;
	collector->options.debuginfod = false;
}

static void run_collector(void *context, int channel)
{
	const struct birth *birth = context;
	const int kept[] = { channel, birth->bytes, birth->start->input };
	struct collector collector = { .channel = channel, .worker = SNAP_ROLE_NONE };
	struct stacksnap_error *err;
	bool failed;
	uint32_t wish;
	size_t size;

	/* An output that somebody waits for the end of is not held open here. */
	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(kept, SNAP_ARRAY_SIZE(kept));
	snap_arena_init(&collector.arena);
	take_options(&collector, birth);
	err = make_capture(&collector, birth);
	failed = err != NULL;
	if (snap_error_ignore(send_capture(&collector, err)) || failed)
		return;
	snap_close(&collector.capture->shared_fd);
	snap_role_outlive_thread();
	failed = snap_error_ignore(send_worker(&collector));
	snap_tracer_end(&collector.capture->tracer_fd);
	snap_discover_end(collector.capture);
	/* Whatever is said: it is the wish for another worker. */
	while (!failed &&
	       !snap_error_ignore(snap_wire_receive(channel, &wish, sizeof(wish), &size, NULL)) &&
	       size > 0)
		failed = snap_error_ignore(send_worker(&collector));
	snap_role_end(&collector.worker);
}

/* ---- in the supervisor ---- */

struct snap_collector {
	struct snap_role role;
	int worker;           /* the channel to who opens files; -1: nobody does */
	bool worker_is_due;   /* its channel is on the way */
	unsigned workers;     /* that were given up */
	volatile int *cancel; /* shared with the collector: whether it is to end */
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

static struct stacksnap_error *describe_end(struct snap_role *role)
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
static struct stacksnap_error *await(int channel, const struct snap_options *options,
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
static struct stacksnap_error *hear(int channel, void *answer, size_t size, int *fd_ret)
{
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;
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

static struct stacksnap_error *gave_up(const struct snap_options *options)
{
	return snap_error_format(SNAP_ERROR_TIMEOUT, "gave up after %lld ms (--timeout)",
				 options ? (long long)(options->timeout_ns / 1000000) : 0ll);
}

struct stacksnap_error *snap_collector_start(const struct snap_options *options,
					     const struct snap_collector_start *start,
					     struct snap_collector **ret)
{
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector =
		calloc(1, sizeof(*collector));
	struct birth birth = { .options = options, .start = start };
	void *cancel;
	struct stacksnap_error *err;

	if (!collector)
		return snap_error_no_memory();
	collector->role = SNAP_ROLE_NONE;
	collector->worker = collector->shared = -1;
	collector->deadline_ns = start->deadline_ns;
	collector->options = options;
	collector->bytes = birth.bytes = memfd_create("stacksnap-capture", MFD_CLOEXEC);
	if (collector->bytes < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	cancel = mmap(NULL, sizeof(*collector->cancel), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (cancel == MAP_FAILED)
		return snap_error_os(errno, "cannot share memory with another process");
	collector->cancel = birth.cancel = cancel;
	err = snap_role_spawn("snap-collector", run_collector, &birth, &collector->role);
	if (err)
		return err;
	*ret = snap_take_ptr(collector);
	return NULL;
}

struct stacksnap_error *snap_collector_await(struct snap_collector *collector)
{
	const struct snap_options *options = collector->options;
	struct capture_made made;
	struct stacksnap_error *err =
		await(collector->role.channel, options, collector->deadline_ns);

	if (!err)
		err = hear(collector->role.channel, &made, sizeof(made), &collector->shared);
	if (!err) {
		collector->parser_uid = made.parser_uid;
		collector->worker_is_due = true;
		return snap_wire_unpack_error(&made.error);
	}
	if (snap_error_code(err) == SNAP_ERROR_CRASHED) {
		snap_error_destroy(err);
		return describe_end(&collector->role);
	}
	if (snap_error_code(err) == SNAP_ERROR_TIMEOUT) {
		snap_error_destroy(err);
		return gave_up(options);
	}
	return err;
}

void snap_collector_dismiss(struct snap_collector *collector)
{
	if (collector->cancel)
		*collector->cancel = 1;
	snap_close(&collector->worker);
	snap_close(&collector->role.channel);
	/* The last one who has them frees their pages: that is not us. */
	snap_close(&collector->bytes);
	snap_close(&collector->shared);
}

/*
 * Asked to go, it ends its own children and waits for them; killed, it leaves them to init, which
 * in a container may be a program that never does.
 */
static void end_collector(struct snap_collector *collector)
{
	snap_collector_dismiss(collector);
	if (collector->role.pidfd >= 0)
		snap_role_has_ended(&collector->role, PATIENCE_MS);
	snap_role_end(&collector->role);
}

void snap_collector_destroy(struct snap_collector *collector)
{
	if (!collector)
		return;
	end_collector(collector);
	if (collector->cancel)
		munmap((void *)(uintptr_t)collector->cancel, sizeof(*collector->cancel));
	snap_download_destroy(collector->download);
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
static struct stacksnap_error *send_rules(const struct snap_collector *collector,
					  const struct snap_options *options)
{
	struct message message = { .kind = RULES, .perf_map = options->perf_map };
	struct stacksnap_error *err;

	err = snap_wire_send(collector->worker, &message, RULES_SIZE, -1);
	message.kind = DIRECTORY;
	for (size_t i = 0; !err && i < options->debug_dir_count; i++) {
		size_t length = strlen(options->debug_dirs[i]);

		if (length >= sizeof(message.path))
			continue; /* longer than any path that can be opened */
		memcpy(message.path, options->debug_dirs[i], length + 1);
		err = snap_wire_send(collector->worker, &message,
				     offsetof(struct message, path) + length + 1, -1);
	}
	return err;
}

/* Receives the channel of the worker that is on its way, and tells it the rules. */
static void receive_worker(struct snap_collector *collector)
{
	struct snap_wire_error word;
	struct stacksnap_error *err;

	if (!collector->worker_is_due)
		return;
	collector->worker_is_due = false;
	err = await(collector->role.channel, collector->options,
		    snap_clock_ns(CLOCK_MONOTONIC) + ANSWER_NS);
	if (!err)
		err = hear(collector->role.channel, &word, sizeof(word), &collector->worker);
	if (!err)
		err = snap_wire_unpack_error(&word);
	if (!err)
		err = send_rules(collector, collector->options);
	if (snap_error_ignore(err))
		snap_close(&collector->worker);
}

/* In place of a worker that is held by a file system, or has died. */
static void replace_worker(struct snap_collector *collector)
{
	uint32_t wish = 0;

	snap_close(&collector->worker);
	if (collector->workers == MOST_WORKERS)
		return;
	collector->worker_is_due = !snap_error_ignore(
		snap_wire_send(collector->role.channel, &wish, sizeof(wish), -1));
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

static struct stacksnap_error *ask(struct snap_collector *collector,
				   const struct snap_broker_request *request, int *fd_ret)
{
	struct message message = { .kind = FILE_WISH, .request = *request };
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + ANSWER_NS;
	struct snap_wire_error answer;
	struct stacksnap_error *err;

	receive_worker(collector);
	if (collector->worker < 0 || has_held(collector, request->process))
		return snap_error_not_found();
	if (collector->broker_deadline_ns && collector->broker_deadline_ns < until)
		until = collector->broker_deadline_ns;
	err = snap_wire_send(collector->worker, &message, FILE_WISH_SIZE, -1);
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
static struct stacksnap_error *download(struct snap_collector *collector,
					const struct snap_broker_request *request, int *fd_ret)
{
	struct snap_file_request asked = {
		.kind = (enum snap_file_kind)request->kind,
		.build_id = request->build_id,
		.build_id_size = request->build_id_size,
	};

	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;

	if (!collector->options->debuginfod || request->build_id_size == 0 ||
	    (asked.kind != SNAP_FILE_DEBUG && asked.kind != SNAP_FILE_ALT))
		return snap_error_not_found();
	err = snap_download_find(&collector->download, collector->options, &asked, &fd);
	/* A file that has just come was opened for writing, too. */
	return err ? err : snap_reopen_regular(fd, fd_ret);
}

static struct stacksnap_error *
answer_request(void *context, const struct snap_broker_request *request, int *fd_ret)
{
	struct snap_collector *collector = context;
	struct snap_broker_request before = *request;
	struct stacksnap_error *err = ask(collector, request, fd_ret);

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

struct snap_broker snap_collector_broker(struct snap_collector *collector,
					 const struct snap_options *options, int64_t deadline_ns)
{
	collector->options = options;
	collector->broker_deadline_ns = deadline_ns;
	snap_download_destroy(collector->download);
	collector->download = NULL;
	if (collector->worker >= 0 && snap_error_ignore(send_rules(collector, options)))
		replace_worker(collector);
	return (struct snap_broker){ .answer = answer_request, .context = collector };
}

/* ---- saving ---- */

static struct stacksnap_error *copy(int from, int to, const struct snap_options *options)
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

struct stacksnap_error *snap_collector_save(struct snap_collector *collector,
					    const struct snap_options *options, int fd)
{
	_cleanup_fd_ int memory = memfd_create("stacksnap-capture", MFD_CLOEXEC);
	struct message message = { .kind = SAVE };
	struct snap_wire_error answer;
	struct stacksnap_error *err;

	if (memory < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	collector->options = options;
	receive_worker(collector);
	if (collector->worker < 0)
		return snap_error_format(SNAP_ERROR_CRASHED,
					 "the process that reads the targets has exited");
	err = send_rules(collector, options);
	if (!err)
		err = snap_wire_send(collector->worker, &message, SAVE_SIZE, memory);
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
