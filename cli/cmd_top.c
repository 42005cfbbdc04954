/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stacksnap top: what the threads of the targets do, live on a terminal. A flight recorder
 * (top/feed.h) whose last seconds are drawn again and again, each in its own thread.
 */
#include "commands.h"
#include "message.h"
#include "report.h"
#include "signals.h"
#include "terminal.h"
#include "top/draw.h"
#include "top/save.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct top {
	struct snap_cli_request *request;
	struct snap_top_feed *feed;
	struct snap_top_screen screen;
	struct snap_top_view view;
	struct snap_top_table table;
	char path[SNAP_TOP_INPUT_SIZE]; /* what is being written goes there; "": nothing is */
	bool told_end;                  /* that the recorder has ended */
};

/* What signal handlers tell the loop; they have no other place. */
static volatile sig_atomic_t told_to_end, told_to_stop, was_continued;
static const struct snap_top_feed *volatile listening;

static void wake_loop(void)
{
	if (listening)
		snap_top_feed_wake(listening);
}

/* In a signal handler. */
static void end(void *context)
{
	(void)context;
	told_to_end = 1;
	wake_loop();
}

static void on_job_control(int number)
{
	if (number == SIGCONT)
		was_continued = 1;
	else
		told_to_stop = 1;
	wake_loop();
}

static void catch_job_control(void)
{
	struct sigaction action = { .sa_handler = on_job_control, .sa_flags = SA_RESTART }, old;

	sigemptyset(&action.sa_mask);
	sigaction(SIGCONT, &action, NULL);
	/* A shell without job control ignores it. */
	if (sigaction(SIGTSTP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaction(SIGTSTP, &action, NULL);
}

/* ---- options ---- */

/*
 * Twenty looks a second suffice for shares of seconds, and a thousand threads take some percent of
 * a processor; --hz asks for more.
 */
static const struct {
	const char *name, *value;
} defaults[] = {
	{ "hz", "10" },
	{ "max-stopped", "2" },
	{ "ring", "60s" },
	{ "duration", "0" },
};

static void set_options(struct snap_cli_request *request)
{
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (!snap_cli_request_has(request, defaults[i].name))
			snap_cli_set_option(request->options, defaults[i].name, defaults[i].value);
	/* Looking on never causes more stops than the recorder's. */
	snap_cli_set_option(request->others[SNAP_CLI_OF_SNAPSHOTS], "no-stop", NULL);
	stacksnap_options_set_cancel(request->options, snap_cli_signals_flag());
	stacksnap_options_set_cancel(request->others[SNAP_CLI_OF_SNAPSHOTS],
				     snap_cli_signals_flag());
}

static bool tell_error(struct stacksnap_error *err)
{
	if (!err)
		return true;
	snap_cli_message("%s", stacksnap_error_message(err));
	stacksnap_error_destroy(err);
	return false;
}

/* What is recorded and what is written are of the same processes, whichever have their pids later. */
static bool pin_targets(const struct snap_cli_request *request)
{
	struct stacksnap_options *written = request->others[SNAP_CLI_OF_SNAPSHOTS];
	struct stacksnap_snapshot *seen = NULL;
	struct stacksnap_error *err = snap_cli_request_look(request, &seen);

	if (seen && !err)
		err = stacksnap_options_pin(request->options, seen);
	if (seen && !err)
		err = stacksnap_options_pin(written, seen);
	stacksnap_snapshot_destroy(seen);
	return tell_error(err);
}

/* ---- news of the recorder ---- */

static void take_message(void *context, const char *line)
{
	snap_top_view_tell(context, line);
}

static void take_recording(struct top *top, struct stacksnap_recording *recording)
{
	struct snap_top_table table;

	if (!tell_error(snap_top_table_init(&table, recording,
					    top->request->others[SNAP_CLI_OF_SCREEN]))) {
		snap_top_table_deinit(&table);
		return;
	}
	snap_top_table_deinit(&top->table);
	top->table = table;
	snap_top_view_renew(&top->view, &top->table);
}

static void take_answer(struct top *top)
{
	struct snap_top_answer answer;

	if (!*top->path || !snap_top_feed_answered(top->feed, &answer))
		return;
	snap_top_save(top->request, top->path, &answer);
	top->path[0] = '\0';
}

static void take_news(struct top *top)
{
	struct stacksnap_recording *recording = NULL;
	struct snap_top_status status;

	/* First: what comes after it is news for the next time. */
	snap_top_feed_listen(top->feed);
	status = snap_top_feed_status(top->feed);
	/* What was on its way when the pause began stays where it is. */
	if (!top->view.paused)
		recording = snap_top_feed_take(top->feed);
	if (recording)
		take_recording(top, recording);
	take_answer(top);
	if (status.ended && !top->told_end)
		snap_top_view_tell(&top->view, status.why);
	top->told_end = status.ended;
}

/* ---- keys ---- */

static void suggest_name(struct top *top)
{
	const struct stacksnap_group *first =
		top->table.groups ? stacksnap_groups_get(top->table.groups, 0) : NULL;

	snap_top_save_name(first && top->table.process_count == 1 ? first->pid : 0, top->view.ring,
			   top->view.input, sizeof(top->view.input));
}

static void begin_writing(struct top *top)
{
	if (*top->path) {
		snap_top_view_tell(&top->view, "the file before is still being written");
		return;
	}
	memcpy(top->path, top->view.input, sizeof(top->path));
	snap_top_view_tell(&top->view, "writing");
	snap_top_feed_ask(top->feed, top->view.ring ? SNAP_TOP_ASK_RING : SNAP_TOP_ASK_SNAPSHOT);
}

/* Gives the terminal back, and stops as if Ctrl-Z had its usual meaning. */
static void suspend(struct top *top)
{
	struct sigaction usual = { .sa_handler = SIG_DFL }, ours;

	told_to_stop = 0;
	sigemptyset(&usual.sa_mask);
	if (sigaction(SIGTSTP, NULL, &ours) != 0 || ours.sa_handler == SIG_IGN)
		return;
	snap_top_feed_hold(top->feed);
	snap_top_screen_suspend(&top->screen);
	sigaction(SIGTSTP, &usual, NULL);
	raise(SIGTSTP);
	sigaction(SIGTSTP, &ours, NULL);
	was_continued = 0;
	snap_top_screen_resume(&top->screen);
	snap_top_feed_release(top->feed);
}

/* False: it is to end. */
static bool grant(struct top *top, enum snap_top_wish wish)
{
	switch (wish) {
	case SNAP_TOP_WISH_NOTHING:
		break;
	case SNAP_TOP_WISH_QUIT:
		return false;
	case SNAP_TOP_WISH_SUSPEND:
		suspend(top);
		break;
	case SNAP_TOP_WISH_PAUSE:
		snap_top_feed_pause(top->feed, top->view.paused);
		break;
	case SNAP_TOP_WISH_NAME:
		suggest_name(top);
		break;
	case SNAP_TOP_WISH_WRITE:
		begin_writing(top);
		break;
	}
	return true;
}

/* False: it is to end. */
static bool take_keys(struct top *top)
{
	int key;

	while ((key = snap_top_screen_key(&top->screen)) != SNAP_TOP_KEY_NONE)
		if (!grant(top, snap_top_view_press(&top->view, &top->table, key)))
			return false;
	return true;
}

/* ---- the loop ---- */

/* False: the terminal has gone. */
static bool wait_for_something(struct top *top)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				{ .fd = snap_top_feed_fd(top->feed), .events = POLLIN } };
	sigset_t mask;

	/* Otherwise a resize between the look for it and the wait would be seen late. */
	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigdelset(&mask, SIGWINCH);
	if (ppoll(fds, sizeof(fds) / sizeof(fds[0]), NULL, &mask) < 0)
		return errno == EINTR;
	return !(fds[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void block_resizes(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGWINCH);
	sigprocmask(SIG_BLOCK, &mask, NULL);
}

static void look_on(struct top *top)
{
	struct snap_top_status status;

	do {
		if (told_to_stop)
			suspend(top);
		if (was_continued)
			snap_top_screen_resume(&top->screen);
		was_continued = 0;
		take_news(top);
		status = snap_top_feed_status(top->feed);
		snap_top_draw(&top->screen, &top->view, &top->table, &status);
	} while (wait_for_something(top) && !told_to_end && take_keys(top));
}

static bool may_have_color(const struct snap_cli_request *request)
{
	if (request->color == SNAP_CLI_COLOR_AUTO)
		return snap_cli_terminal_has_color(STDOUT_FILENO);
	return request->color == SNAP_CLI_COLOR_ALWAYS;
}

static int run(struct top *top)
{
	int os_errno;

	listening = top->feed;
	snap_cli_signals_end_in_order(end, top);
	catch_job_control();
	block_resizes();
	if (*snap_cli_signals_flag())
		return SNAP_CLI_WHOLE;
	if (!snap_top_screen_open(&top->screen, may_have_color(top->request), snap_cli_is_utf8()))
		return SNAP_CLI_USAGE;
	os_errno = snap_top_feed_start(top->feed);
	snap_cli_message_divert(take_message, &top->view);
	if (os_errno == 0)
		look_on(top);
	snap_top_screen_close(&top->screen);
	snap_cli_message_divert(NULL, NULL);
	if (os_errno)
		snap_cli_message("cannot create a thread: %s", strerror(os_errno));
	return os_errno || snap_top_feed_status(top->feed).failed ? SNAP_CLI_TROUBLE
								  : SNAP_CLI_WHOLE;
}

int snap_cli_cmd_top(struct snap_cli_request *request)
{
	struct top top = { .request = request };
	int status = SNAP_CLI_TROUBLE;

	if (!snap_top_screen_is_possible())
		return SNAP_CLI_USAGE;
	snap_cli_signals_outlive();
	set_options(request);
	/* Only the search for targets is bounded by --timeout. */
	snap_cli_signals_set_timer(stacksnap_options_timeout_ms(request->options));
	if (pin_targets(request))
		status = snap_top_feed_create(request, &top.feed);
	snap_cli_signals_set_timer(0);
	if (status == SNAP_CLI_WHOLE)
		status = run(&top);
	listening = NULL;
	snap_top_feed_destroy(top.feed);
	snap_top_view_deinit(&top.view);
	snap_top_table_deinit(&top.table);
	return status;
}
