/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Downloads by debuginfod, through its client library loaded at run time: only when asked for
 * (--debuginfod), only after the target was released, since analysis asks for files then.
 *
 * The library takes the servers from DEBUGINFOD_URLS, and a cache, a proxy and headers from other
 * variables; so where the caller has less rights than the program (AT_SECURE) it is never loaded.
 *
 * The library runs in a child for each file. The child ends a download that exceeds the budget, or
 * whose caller has gone, and removes what has come. If it does not, as in a search for the address
 * of a server, it is ended, and nothing more is downloaded.
 */
#include "roles/file_opener/download.h"

#include "base/clock.h"
#include "base/reopen.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

/* It brings a libc, and a static program has one already. */
#ifdef SNAP_STATIC
enum { CAN_LOAD = false };
#else
enum { CAN_LOAD = true };
#endif

struct client; /* debuginfod_client of the library */
typedef int progress_function(struct client *client, long done, long total);

enum {
	TICK_MS = 20,
	GRACE_MS = 500,  /* to remove what has come */
	PART_OF_RUN = 6, /* the budget of time is one part of --timeout … */
};

/* … and this is the budget of bytes. */
static const int64_t MOST_BYTES = 250000000;

struct snap_download {
	int64_t left_ns, left_bytes; /* of the budget */
	bool is_lost;                /* a child had to be ended */
	/* of the file on its way */
	int channel; /* of its child */
	char id[2 * SNAP_BROKER_BUILD_ID + 1];
	int64_t until_ns;
	bool is_asked, is_cut;
	struct client *(*begin)(void);
	int (*find_debuginfo)(struct client *client, const unsigned char *build_id, int size,
			      char **path_ret);
	void (*set_progressfn)(struct client *client, progress_function *function);
	void (*set_user_data)(struct client *client, void *data);
};

/* From the child, with the descriptor. */
struct answer {
	int64_t size; /* 0: the file was in the cache */
	struct snap_wire_error error;
};

/* ---- in the child ---- */

/* SIGXFSZ is blocked: it stays pending once the file has reached its limit. */
static bool is_budget_used(const struct snap_download *download)
{
	sigset_t pending;

	sigpending(&pending);
	return snap_clock_ns(CLOCK_MONOTONIC) > download->until_ns || sigismember(&pending, SIGXFSZ);
}

/*
 * Called a few times a second until the file is there; not 0 ends the download. The library gives
 * no place for a pointer but its own, so the function to ask for it is looked up again.
 */
static int on_progress(struct client *client, long done, long total)
{
	void *function = dlsym(RTLD_DEFAULT, "debuginfod_get_user_data");
	void *(*get_user_data)(struct client *) = NULL;
	struct snap_download *download;

	memcpy(&get_user_data, &function, sizeof(function));
	download = get_user_data ? get_user_data(client) : NULL;
	if (!download)
		return 1;
	download->is_asked = true;
	download->is_cut |= is_budget_used(download) || done > download->left_bytes ||
			    total > download->left_bytes;
	if (!download->is_cut && poll(&(struct pollfd){ .fd = download->channel }, 1, 0) == 0)
		return 0;
	/* Else the library would make a file that says, for ten minutes: no server has it. */
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 0 });
	return 1;
}

/* Interrupts the library's wait for a server, and makes the next write of the file the last one. */
static void end_download(int number _unused_)
{
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, 0 });
}

static void end_download_at(int64_t until_ns)
{
	int64_t left_us = (until_ns - snap_clock_ns(CLOCK_MONOTONIC)) / 1000;
	struct itimerval timer = { .it_interval.tv_usec = TICK_MS * 1000 };
	const struct sigaction action = { .sa_handler = end_download };
	sigset_t set;

	left_us = SNAP_MAX(left_us, 1);
	timer.it_value = (struct timeval){ left_us / 1000000, left_us % 1000000 };
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaction(SIGALRM, &action, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static struct stacksnap_error *ask_debuginfod(struct snap_download *download, int *fd_ret)
{
	struct client *client = download->begin();
	_cleanup_fd_ int fd = -1;

	if (!client)
		return snap_error_no_memory();
	download->set_user_data(client, download);
	download->set_progressfn(client, on_progress);
	/* Size 0 says that the id is given in hexadecimal digits. */
	fd = download->find_debuginfo(client, (const unsigned char *)download->id, 0, NULL);
	/* A write that fails between two calls of on_progress can come back as any error. */
	if (fd < 0 && (download->is_cut || is_budget_used(download)))
		return snap_error_format(SNAP_ERROR_TIMEOUT, "too late");
	if (fd == -ENOENT || fd == -ENOSYS)
		return snap_error_not_found();
	if (fd < 0)
		return snap_error_os(-fd, "cannot download the debug file of build id %.40s",
				     download->id);
	/* A file that was just downloaded is open for writing, too. */
	return snap_reopen_regular(fd, fd_ret);
}

static void run_download(void *context, int channel)
{
	struct snap_download *download = context;
	const struct rlimit most = { (rlim_t)download->left_bytes, (rlim_t)download->left_bytes };
	struct answer answer = { .size = 0 };
	_cleanup_fd_ int fd = -1;
	struct stat info;

	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(&channel, 1);
	snap_role_leave_priority(0);
	snap_role_outlive_thread();
	/* A packed answer grows as it is written: the kernel keeps the limit, by SIGXFSZ. */
	setrlimit(RLIMIT_FSIZE, &most);
	end_download_at(download->until_ns);
	download->channel = channel;
	snap_wire_pack_error(ask_debuginfod(download, &fd), &answer.error);
	if (download->is_asked && fd >= 0 && fstat(fd, &info) == 0)
		answer.size = info.st_size;
	snap_error_destroy(snap_wire_send(channel, &answer, sizeof(answer), fd));
}

/* ---- in its maker ---- */

static bool load_debuginfod(struct snap_download *download)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
		{ "debuginfod_begin", &download->begin },
		{ "debuginfod_find_debuginfo", &download->find_debuginfo },
		{ "debuginfod_set_progressfn", &download->set_progressfn },
		{ "debuginfod_set_user_data", &download->set_user_data },
	};

	/* Global, so that on_progress finds its function. It stays: libcurl likes no other end. */
	void *library = CAN_LOAD ? dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;

	for (size_t i = 0; library && i < SNAP_ARRAY_SIZE(functions); i++) {
		void *symbol = dlsym(library, functions[i].name);

		if (!symbol)
			return false;
		memcpy(functions[i].function, &symbol, sizeof(symbol));
	}
	return library != NULL;
}

static struct stacksnap_error *start(struct snap_download *download)
{
	/* Not from the environment of a caller with less rights than we have. */
	const char *urls = secure_getenv("DEBUGINFOD_URLS");

	if (!urls && getenv("DEBUGINFOD_URLS"))
		return snap_error_format(SNAP_ERROR_PERMISSION,
					 "cannot download debug files: DEBUGINFOD_URLS is ignored "
					 "by a program with capabilities or another user's rights");
	if (!urls || !*urls)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "cannot download debug files: DEBUGINFOD_URLS is not set");
	if (!load_debuginfod(download))
		return snap_error_format(
			SNAP_ERROR_OTHER, "cannot download debug files: libdebuginfod.so.1 %s",
			CAN_LOAD ? "is not installed" : "is not loaded by a static program");
	return NULL;
}

static struct stacksnap_error *await_download(const struct snap_download *download,
					      const struct snap_options *options,
					      struct answer *answer, int *fd_ret)
{
	struct pollfd event = { .fd = download->channel, .events = POLLIN };
	struct stacksnap_error *err;
	size_t size;

	while (poll(&event, 1, TICK_MS) <= 0) {
		if (snap_options_cancelled(options))
			return snap_error_cancelled();
		if (snap_clock_ns(CLOCK_MONOTONIC) > download->until_ns + GRACE_MS * SNAP_NS_PER_MS)
			return snap_error_format(SNAP_ERROR_TIMEOUT, "too late");
	}
	err = snap_wire_receive(download->channel, answer, sizeof(*answer), &size, fd_ret);
	if (err || size == sizeof(*answer))
		return err;
	return snap_error_format(SNAP_ERROR_CRASHED, "the process that downloads exited early");
}

static struct stacksnap_error *download_file(struct snap_download *download,
					     const struct snap_options *options, int64_t until_ns,
					     int *fd_ret)
{
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	struct answer answer = { .size = 0 };
	struct snap_role child;
	struct stacksnap_error *err;

	until_ns = until_ns ? until_ns - GRACE_MS * SNAP_NS_PER_MS : INT64_MAX;
	download->until_ns = SNAP_MIN(begin_ns + download->left_ns, until_ns);
	err = snap_role_spawn("snap-download", run_download, download, &child);
	if (err)
		return err;
	download->channel = child.channel;
	err = await_download(download, options, &answer, fd_ret);
	download->is_lost = err && snap_error_code(err) == SNAP_ERROR_TIMEOUT;
	/* It removes what has come. */
	snap_close(&child.channel);
	kill(child.pid, SIGALRM);
	snap_role_has_ended(&child, GRACE_MS);
	snap_role_end(&child);
	download->left_bytes -= answer.size;
	download->left_ns -= snap_clock_ns(CLOCK_MONOTONIC) - begin_ns;
	return err ? err : snap_wire_unpack_error(&answer.error);
}

static void name_download(struct snap_download *download, const struct snap_options *options,
			  const struct snap_broker_request *request)
{
	char text[256], *p = download->id;

	for (size_t i = 0; i < request->build_id_size; i++)
		p += sprintf(p, "%02x", request->build_id[i]);
	snprintf(text, sizeof(text), "downloading debug file %.40s", download->id);
	if (options->progress)
		options->progress(options->progress_context, text);
}

struct stacksnap_error *snap_download_find(struct snap_download **download,
					   const struct snap_options *options,
					   const struct snap_broker_request *request,
					   int64_t until_ns, int *fd_ret)
{
	struct stacksnap_error *err = NULL;

	if (!*download) {
		*download = calloc(1, sizeof(**download));
		if (!*download)
			return snap_error_no_memory();
		(*download)->left_ns = options->timeout_ns / PART_OF_RUN;
		(*download)->left_bytes = MOST_BYTES;
		err = start(*download);
		if (err)
			return err;
	}
	/* That it cannot be done was said the first time. */
	if (!(*download)->set_user_data)
		return snap_error_not_found();
	if (snap_options_cancelled(options))
		return snap_error_cancelled();
	name_download(*download, options, request);
	if (!(*download)->is_lost) {
		err = download_file(*download, options, until_ns, fd_ret);
		if (!err || snap_error_code(err) != SNAP_ERROR_TIMEOUT)
			return err;
		snap_error_destroy(err);
	}
	return snap_error_format(
		SNAP_ERROR_TIMEOUT,
		"its download exceeds what all of a run have: %.1f s (see --timeout), 250 MB",
		(double)(options->timeout_ns / PART_OF_RUN) / SNAP_NS_PER_S);
}
