/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Signals and the clock of the run: see signals.h. */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* State of the process: a signal handler has no other place. */
static volatile int cancel;
static volatile sig_atomic_t caught, timed_out, requested, outlives;

/* What ends a run in order; complete before `stop` is set. */
static struct {
	void (*volatile stop)(void *context);
	void *context;
} order;

enum { MAX_LEFTOVERS = 4 };
static const struct snap_cli_leftover *volatile leftovers[MAX_LEFTOVERS];

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

/*
 * Signals within a second mean the same: timeout(1) sends one to its command and one to the group,
 * and a hurried user presses Ctrl-C twice. A recording needs that second to name its addresses.
 */
enum { ONE_WISH_MS = 1000 };

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* The first is a wish, a later one an order: whatever goes on then, half a file must not stay. */
static void on_signal(int number)
{
	static int64_t heard_ms;
	int64_t now = now_ms();
	int old_errno = errno;

	if (heard_ms && now - heard_ms < ONE_WISH_MS)
		return;
	if (heard_ms) {
		for (int i = 0; i < MAX_LEFTOVERS; i++)
			if (leftovers[i])
				unlinkat(leftovers[i]->folder, leftovers[i]->name, 0);
		signal(number, SIG_DFL);
		raise(number);
	} else if (order.stop) {
		order.stop(order.context);
	} else if (outlives) {
		cancel = 1;
	} else {
		caught = number;
		cancel = 1;
		alarm(1);
	}
	heard_ms = now;
	errno = old_errno;
}

static void on_request(int number)
{
	(void)number;
	requested = 1;
}

/*
 * After a signal that came between the last look at the flag and a write that blocks: the write
 * ends, now or a second later.
 */
static void on_alarm(int number)
{
	(void)number;
	if (caught)
		alarm(1);
	else
		timed_out = 1;
	cancel = 1;
}

/* For the ending signals, unless they are ignored. */
static void handle_ending(int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags }, old;

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaddset(&action.sa_mask, ending[i]);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(ending[i], &action, NULL);
}

void snap_cli_signals_init(void)
{
	struct sigaction action;

	/* No SA_RESTART: a wait is to end and look at the flag. */
	handle_ending(0);
	action = (struct sigaction){ .sa_handler = on_alarm };
	sigemptyset(&action.sa_mask);
	sigaction(SIGALRM, &action, NULL);
	sigaddset(&action.sa_mask, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &action.sa_mask, NULL);
	signal(SIGPIPE, SIG_IGN);
}

const volatile int *snap_cli_signals_flag(void)
{
	return &cancel;
}

void snap_cli_signals_set_timer(unsigned milliseconds)
{
	struct itimerval timer = { 0 };

	/* Again and again: the first may come between a look at the flag and the wait after it. */
	timer.it_interval.tv_usec = milliseconds ? 100000 : 0;
	timer.it_value.tv_sec = milliseconds / 1000;
	timer.it_value.tv_usec = milliseconds % 1000 * 1000;
	setitimer(ITIMER_REAL, &timer, NULL);
}

void snap_cli_signals_outlive(void)
{
	outlives = 1;
	/* One may have come already. */
	caught = 0;
}

void snap_cli_signals_end_in_order(void (*stop)(void *context), void *context)
{
	order.stop = NULL;
	order.context = context;
	order.stop = stop;
	/* With SA_RESTART: what is being written is to be written. Waits for a tick end anyhow. */
	handle_ending(SA_RESTART);
}

void snap_cli_signals_add_leftover(const struct snap_cli_leftover *leftover)
{
	int i = 0;

	while (i < MAX_LEFTOVERS && leftovers[i])
		i++;
	if (i < MAX_LEFTOVERS)
		leftovers[i] = leftover;
}

void snap_cli_signals_remove_leftover(const struct snap_cli_leftover *leftover)
{
	for (int i = 0; i < MAX_LEFTOVERS; i++)
		if (leftovers[i] == leftover)
			leftovers[i] = NULL;
}

void snap_cli_signals_catch_requests(void)
{
	struct sigaction action = { .sa_handler = on_request, .sa_flags = SA_RESTART };

	sigemptyset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
}

bool snap_cli_signals_take_request(void)
{
	bool was = requested;

	requested = 0;
	return was;
}

bool snap_cli_signals_timed_out(void)
{
	return timed_out;
}

int snap_cli_signals_caught(void)
{
	return caught;
}

void snap_cli_signals_die(void)
{
	sigset_t set;

	if (!caught)
		return;
	signal(caught, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, caught);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(caught);
	_exit(128 + caught);
}
