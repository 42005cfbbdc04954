/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stacksnap: from argv to an exit status. Puts the process in order (descriptors, locale, signals),
 * then hands the request to its command. Knows nothing of what the commands do.
 */
#include "commands.h"
#include "message.h"
#include "options.h"
#include "signals.h"
#include "trace.h"
#include "wrong_use.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#ifdef SNAP_STATIC
#include <nss.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * A descriptor 0, 1 or 2 that was closed would be given to the next file that is opened. Each gets
 * /dev/null the wrong way round, so that using it stays an error.
 */
static bool fill_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int opened;

		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
		if (opened != fd)
			return snap_cli_message("cannot open /dev/null: %s", strerror(errno));
	}
	return true;
}

/*
 * Each process of a snapshot takes a few descriptors; the soft limit is for programs that use
 * select(2), which this one does not. The library leaves its host's limits alone.
 */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Text that is not a report on stdout: --help, --version. */
static int print_and_exit(const struct snap_cli_request *request)
{
	if (request->help && !snap_cli_print_help(request->topic, stdout)) {
		snap_cli_wrong_topic(request);
		return SNAP_CLI_USAGE;
	}
	if (!request->help)
		printf("stacksnap %s\n", stacksnap_version());
	if (fclose(stdout) == 0 || errno == EPIPE)
		return SNAP_CLI_WHOLE;
	snap_cli_message("cannot write standard output: %s", strerror(errno));
	return SNAP_CLI_TROUBLE;
}

static int run(struct snap_cli_request *request)
{
	if (!snap_cli_trace_begin(request))
		return SNAP_CLI_USAGE;
	if (snap_cli_request_has(request, "no-sandbox"))
		snap_cli_message("files of the targets are read without a sandbox (--no-sandbox)");
	switch (request->command) {
	case SNAP_CLI_SNAPSHOT:
		return snap_cli_cmd_snapshot(request);
	case SNAP_CLI_WATCH:
		return snap_cli_cmd_watch(request);
	case SNAP_CLI_RECORD:
		return snap_cli_cmd_record(request);
	case SNAP_CLI_TOP:
#ifdef SNAP_WITH_TOP
		return snap_cli_cmd_top(request);
#else
		break;
#endif
	case SNAP_CLI_RENDER:
		return snap_cli_cmd_render(request);
	case SNAP_CLI_CORE:
		return snap_cli_cmd_core(request);
	case SNAP_CLI_MERGE:
		return snap_cli_cmd_merge(request);
	case SNAP_CLI_DIFF:
		return snap_cli_cmd_diff(request);
	case SNAP_CLI_LIST:
		return snap_cli_cmd_list(request);
	case SNAP_CLI_SERVE:
#ifdef SNAP_WITH_SERVE
		return snap_cli_cmd_serve(request);
#else
		break;
#endif
	case SNAP_CLI_HELP: /* print_and_exit() does it */
		break;
	}
	return SNAP_CLI_USAGE;
}

int main(int argc, char **argv)
{
	struct snap_cli_request request;
	int status;

	if (!fill_descriptors())
		return SNAP_CLI_TROUBLE;
	raise_descriptor_limit();
	setlocale(LC_CTYPE, "");
	if (geteuid() != getuid() || getegid() != getgid()) {
		snap_cli_message("refusing to run setuid or setgid: use file capabilities instead, "
				 "see PERMISSIONS in stacksnap(1)");
		return SNAP_CLI_TROUBLE;
	}
#ifdef SNAP_STATIC
	/* Names of users: other sources than /etc/passwd are libraries, made for this machine's libc. */
	__nss_configure_lookup("passwd", "files");
#endif
	snap_cli_signals_init();
	if (snap_cli_request_init(&request, argc, argv)) {
		/* Downloads are asked for by an option, not by what happens to be set. */
		if (!snap_cli_request_has(&request, "debuginfod"))
			unsetenv("DEBUGINFOD_URLS");
		status = request.help || request.version ? print_and_exit(&request) : run(&request);
		snap_cli_trace_print(&request);
	} else {
		status = request.refusal;
	}
	snap_cli_request_deinit(&request);
	snap_cli_signals_die();
	return status;
}
