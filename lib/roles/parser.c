/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Work in a sandbox: see parser.h. The result lies behind a page of its own that says how it went;
 * both are read when nobody can write to them any more.
 */
#include "roles/parser.h"

#include "base/clock.h"

#include "roles/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
	TICK_MS = 20,       /* how often the cancel flag and the clock are looked at */
	MOST_CPU_S = 60,    /* of one piece of work */
	HEADER_SIZE = 4096, /* before the result */
};

static const uint64_t DEFAULT_ROOM = 256u << 20;

struct header {
	uint64_t size, place;
	uint32_t done;
	struct snap_wire_error error;
};

_Static_assert(sizeof(struct header) <= HEADER_SIZE, "the header has a page");

/* ---- in the parser ---- */

struct birth {
	const struct snap_parser_setting *setting;
	struct snap_error *(*work)(void *context, struct snap_parser_job *job);
	void *context;
	struct header *header;
	uint64_t room;
};

static unsigned cpu_seconds(int64_t deadline_ns)
{
	int64_t left = deadline_ns - snap_clock_ns(CLOCK_MONOTONIC);

	if (deadline_ns == 0 || left > MOST_CPU_S * 1000000000ll)
		return MOST_CPU_S;
	return left < 0 ? 1 : (unsigned)(left / 1000000000) + 1;
}

/* All signals are blocked in a role, and this limit is one. */
static void hear_of_the_limit(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGXCPU);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static struct snap_error *enter_sandbox(const struct snap_options *options, uid_t uid,
					unsigned cpu_s, int channel)
{
	struct snap_sandbox sandbox = { .uid = uid, .cpu_s = cpu_s, .channel = channel };

	hear_of_the_limit();
	if (options->no_sandbox)
		return NULL;
	return snap_error_wrap(snap_sandbox_enter(&sandbox),
			       "cannot enter the sandbox (--no-sandbox runs without it)");
}

static struct snap_error *do_work(const struct birth *birth, int channel, uint64_t *size_ret)
{
	const struct snap_parser_setting *setting = birth->setting;
	struct snap_parser_job job = {
		.channel = channel,
		.input = setting->input,
		.input2 = setting->input2,
		.place = &birth->header->place,
		.out = (uint8_t *)birth->header + HEADER_SIZE,
		.room = birth->room,
	};
	struct snap_error *err = enter_sandbox(setting->options, setting->uid,
					       cpu_seconds(setting->deadline_ns), channel);

	if (!err)
		err = birth->work(birth->context, &job);
	*size_ret = job.size;
	return err;
}

static void parse(void *context, int channel)
{
	struct birth *birth = context;
	const int kept[] = { channel, birth->setting->input, birth->setting->input2 };
	struct header *header = birth->header;

	/* What the C library says about a broken heap would stand among the report. */
	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(kept, SNAP_ARRAY_SIZE(kept));
	snap_wire_pack_error(do_work(birth, channel, &header->size), &header->error);
	__atomic_store_n(&header->done, 1, __ATOMIC_RELEASE);
}

/* ---- in its maker ---- */

/* Until it has ended (NULL), or there is a reason to end it. */
static struct snap_error *watch(const struct snap_parser_setting *setting,
				const struct snap_role *role)
{
	struct pollfd fds[] = {
		{ .fd = role->pidfd, .events = POLLIN },
		{ .fd = role->channel, .events = POLLIN },
	};

	for (;;) {
		bool gone = false;
		struct snap_error *err;

		if (snap_options_cancelled(setting->options))
			return snap_error_cancelled();
		if (setting->deadline_ns && snap_clock_ns(CLOCK_MONOTONIC) > setting->deadline_ns)
			return snap_error_format(SNAP_ERROR_TIMEOUT,
						 "the process that reads files took too long");
		if (poll(fds, SNAP_ARRAY_SIZE(fds), TICK_MS) < 0 && errno != EINTR)
			return snap_error_os(errno, "cannot wait for a process");
		if (fds[1].revents) {
			err = snap_broker_serve(&setting->broker, role->channel, &gone);
			if (err)
				return snap_error_wrap(err, "the process that reads files");
		}
		if (gone)
			fds[1].fd = -1;
		if (fds[0].revents)
			return NULL;
	}
}

static struct snap_error *describe_end(int status)
{
	static const char who[] = "the process that reads files";

	if (status == -1)
		return snap_error_format(SNAP_ERROR_CRASHED, "%s exited early", who);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return snap_error_format(SNAP_ERROR_CRASHED, "%s used too much processor time",
					 who);
	if (WIFSIGNALED(status))
		return snap_error_format(SNAP_ERROR_CRASHED, "%s was killed by signal %d", who,
					 WTERMSIG(status));
	return snap_error_format(SNAP_ERROR_CRASHED, "%s exited with status %d", who,
				 WEXITSTATUS(status));
}

/* What it left behind; the rest of the mapping goes. */
static struct snap_error *collect(struct header *header, uint64_t room, int status,
				  const uint8_t **bytes_ret, uint64_t *size_ret)
{
	uint64_t size = header->size, used;
	struct snap_error *err;

	if (!header->done)
		err = describe_end(status);
	else
		err = snap_wire_unpack_error(&header->error);
	if (!err && (size == 0 || size > room))
		err = snap_error_format(SNAP_ERROR_CRASHED,
					"the process that reads files left no result");
	if (err) {
		munmap(header, HEADER_SIZE + room);
		return err;
	}
	used = (size + HEADER_SIZE - 1) & ~(uint64_t)(HEADER_SIZE - 1);
	if (used < room)
		munmap((uint8_t *)header + HEADER_SIZE + used, room - used);
	*bytes_ret = (uint8_t *)header + HEADER_SIZE;
	*size_ret = size;
	munmap(header, HEADER_SIZE);
	return NULL;
}

struct snap_error *snap_parser_run(const struct snap_parser_setting *setting,
				   struct snap_error *(*work)(void *context,
							      struct snap_parser_job *job),
				   void *context, const uint8_t **bytes_ret, uint64_t *size_ret)
{
	uint64_t room = setting->room ? setting->room : DEFAULT_ROOM;
	struct birth birth = { .setting = setting, .work = work, .context = context, .room = room };
	struct snap_role role = SNAP_ROLE_NONE;
	struct snap_error *err;
	int status;

	birth.header = mmap(NULL, HEADER_SIZE + room, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (birth.header == MAP_FAILED)
		return snap_error_os(errno, "cannot reserve memory for the result");
	err = snap_role_spawn("snap-parser", parse, &birth, &role);
	if (!err) {
		err = watch(setting, &role);
		status = snap_role_end(&role);
	}
	if (setting->place_ret)
		*setting->place_ret = birth.header->place;
	if (err) {
		munmap(birth.header, HEADER_SIZE + room);
		return err;
	}
	return collect(birth.header, room, status, bytes_ret, size_ret);
}

/* ---- one that stays ---- */

struct stay {
	const struct snap_options *options;
	uid_t uid;
	void (*run)(void *context, int channel);
	void *context;
};

static void run_staying(void *context, int channel)
{
	struct stay *stay = context;

	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(&channel, 1);
	if (!snap_error_ignore(enter_sandbox(stay->options, stay->uid, 0, channel)))
		stay->run(stay->context, channel);
}

struct snap_error *snap_parser_spawn(const struct snap_options *options, uid_t uid,
				     void (*run)(void *context, int channel), void *context,
				     struct snap_role *ret)
{
	struct stay stay = { options, uid, run, context };

	return snap_role_spawn("snap-parser", run_staying, &stay, ret);
}
