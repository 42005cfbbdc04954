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

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/reopen.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
	TICK_MS = 5,
	MOST_OPEN = 64,  /* descriptors of the child */
	GRACE_MS = 500,  /* to remove what has come */
	PART_OF_RUN = 6, /* the budget of time is one part of --timeout … */
	MOST_KNOWN = 64, /* files that are remembered */
	NOT_THERE = -1,  /* no server has it */
	TOO_LATE = -2,   /* it exceeded its budget */
};

/* … and this is the budget of bytes. */
static const int64_t MOST_BYTES = 200000000;
/*
 * What a file may grow beyond it in a tick. The kernel keeps this limit, but with a short write,
 * after which the library says that no server has the file.
 */
static const int64_t OVERRUN_BYTES = 56000000;

/* A file that was asked for: a second parser asks again, when there may be no time left. */
struct known_file {
	char id[2 * SNAP_BROKER_BUILD_ID + 1];
	int fd; /* or NOT_THERE, TOO_LATE */
};

struct snap_download {
	struct known_file known[MOST_KNOWN];
	size_t known_count;
	int64_t left_ns, left_bytes; /* of the budget */
	int64_t given_ns;            /* to the last file */
	bool is_lost;                /* a child had to be ended */
	/* of the file on its way */
	int channel; /* of its child */
	char id[2 * SNAP_BROKER_BUILD_ID + 1];
	int64_t until_ns;
	bool is_asked;
	volatile sig_atomic_t is_cut;
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

/*
 * Makes the next write of the file the last one. Without a descriptor the library cannot make the
 * file that says, for ten minutes, that no server has it.
 */
static void cut_download(struct snap_download *download)
{
	download->is_cut = true;
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, 0 });
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 0 });
}

/* A packed answer grows as it is written, and the library counts what it has received. */
static bool has_file_over(int64_t size)
{
	struct stat info;

	for (int fd = 0; fd < MOST_OPEN; fd++) {
		if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > size)
			return true;
	}
	return false;
}

/* Every tick. It interrupts the library's wait for a server, too. */
static void on_tick(int number _unused_, siginfo_t *info, void *context _unused_)
{
	struct snap_download *download = info->si_value.sival_ptr;
	const int saved_errno = errno;

	if (info->si_code == SI_TIMER &&
	    (snap_clock_ns(CLOCK_MONOTONIC) > download->until_ns ||
	     has_file_over(download->left_bytes) ||
	     poll(&(struct pollfd){ .fd = download->channel }, 1, 0) != 0))
		cut_download(download);
	errno = saved_errno;
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
	if (done > download->left_bytes || total > download->left_bytes)
		cut_download(download);
	return download->is_cut;
}

static struct stacksnap_error *limit_download(struct snap_download *download)
{
	const rlim_t most = (rlim_t)(download->left_bytes + OVERRUN_BYTES);
	const struct timespec tick = { .tv_nsec = TICK_MS * SNAP_NS_PER_MS };
	const struct sigaction action = { .sa_sigaction = on_tick,
					  .sa_flags = SA_RESTART | SA_SIGINFO };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGALRM,
				  .sigev_value.sival_ptr = download };
	timer_t timer;
	sigset_t set;

	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ most, most });
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ MOST_OPEN, MOST_OPEN });
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaction(SIGALRM, &action, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &(struct itimerspec){ tick, tick }, NULL) < 0)
		return snap_error_os(errno, "cannot limit a download");
	return NULL;
}

static struct stacksnap_error *ask_debuginfod(struct snap_download *download, int *fd_ret)
{
	struct client *client = download->begin();
	_cleanup_fd_ int fd = -1;

	SNAP_TRY(snap_no_memory_unless(client));
	download->set_user_data(client, download);
	download->set_progressfn(client, on_progress);
	/* Size 0 says that the id is given in hexadecimal digits. */
	fd = download->find_debuginfo(client, (const unsigned char *)download->id, 0, NULL);
	signal(SIGALRM, SIG_IGN);
	if (download->is_cut)
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
	struct answer answer = { .size = 0 };
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;
	struct stat info;

	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(&channel, 1);
	snap_role_leave_priority(0);
	snap_role_outlive_thread();
	download->channel = channel;
	err = limit_download(download);
	snap_wire_pack_error(err ? err : ask_debuginfod(download, &fd), &answer.error);
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

static struct stacksnap_error *download_file(struct snap_download *download,
					     const struct snap_options *options, int64_t until_ns,
					     int *fd_ret)
{
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	struct answer answer = { .size = 0 };
	struct snap_role child;
	struct stacksnap_error *err = NULL;

	until_ns = until_ns ? until_ns - GRACE_MS * SNAP_NS_PER_MS : INT64_MAX;
	/* Behind a file that no server sends there is time for others. */
	download->given_ns = SNAP_MAX(download->left_ns, 0) / 4 * 3;
	download->until_ns = SNAP_MIN(begin_ns + download->given_ns, until_ns);
	SNAP_TRY(snap_role_spawn("snap-download", run_download, download, &child));
	download->channel = child.channel;
	err = snap_role_receive(child.channel, options,
				download->until_ns + GRACE_MS * SNAP_NS_PER_MS, &answer,
				sizeof(answer), fd_ret);
	download->is_lost = err && snap_error_code(err) == SNAP_ERROR_TIMEOUT;
	/* It removes what has come. */
	snap_close(&child.channel);
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

static const struct known_file *find_known_file(const struct snap_download *download)
{
	for (size_t i = 0; i < download->known_count; i++)
		if (strcmp(download->known[i].id, download->id) == 0)
			return &download->known[i];
	return NULL;
}

static void keep_file(struct snap_download *download, int fd)
{
	struct known_file *known = &download->known[download->known_count];

	if (download->known_count == MOST_KNOWN)
		return;
	known->fd = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0 && known->fd < 0)
		return;
	memcpy(known->id, download->id, sizeof(known->id));
	download->known_count++;
}

void snap_download_destroy(struct snap_download *download)
{
	for (size_t i = 0; download && i < download->known_count; i++)
		snap_close(&download->known[i].fd);
	free(download);
}

struct stacksnap_error *snap_download_find(struct snap_download **download,
					   const struct snap_options *options,
					   const struct snap_broker_request *request,
					   int64_t until_ns, int *fd_ret)
{
	const struct known_file *known;
	struct stacksnap_error *err = NULL;

	if (!*download) {
		*download = calloc(1, sizeof(**download));
		SNAP_TRY(snap_no_memory_unless(*download));
		(*download)->left_ns = options->timeout_ns / PART_OF_RUN;
		(*download)->left_bytes = MOST_BYTES;
		SNAP_TRY(start(*download));
	}
	/* That it cannot be done was said the first time. */
	if (!(*download)->set_user_data)
		return snap_error_not_found();
	SNAP_TRY(snap_options_check(options));
	name_download(*download, options, request);
	known = find_known_file(*download);
	if (known && known->fd == NOT_THERE)
		return snap_error_not_found();
	if (known && known->fd >= 0) {
		*fd_ret = fcntl(known->fd, F_DUPFD_CLOEXEC, 0);
		return *fd_ret < 0 ? snap_error_os(errno, "cannot open a downloaded file") : NULL;
	}
	if (!known && !(*download)->is_lost) {
		err = download_file(*download, options, until_ns, fd_ret);
		if (!err || snap_error_code(err) == SNAP_ERROR_NOT_FOUND)
			keep_file(*download, err ? NOT_THERE : *fd_ret);
		if (!err || snap_error_code(err) != SNAP_ERROR_TIMEOUT)
			return err;
		keep_file(*download, TOO_LATE);
		snap_error_destroy(err);
	}
	return snap_error_format(
		SNAP_ERROR_TIMEOUT,
		"its download exceeds %.1f s (see --timeout), or what all of a run have: 200 MB",
		(double)(*download)->given_ns / SNAP_NS_PER_S);
}
