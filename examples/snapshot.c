/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An example of libstacksnap(3): a program with threads of its own takes a snapshot of another
 * process, prints it, and says in a line what came of it.
 *
 *     usage: snapshot-example PID [FORMAT]
 *     cc snapshot.c -o snapshot-example $(pkg-config --cflags --libs stacksnap) -pthread
 */
#include <pthread.h>
#include <signal.h>
#include <stacksnap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
	const char *pid, *format;
	int status;
};

/* Set by Ctrl-C: the running call lets the target go and returns CANCELLED. */
static volatile int cancel;

static void on_interrupt(int number)
{
	(void)number;
	cancel = 1;
}

/* Messages may hold bytes of the target: escape what goes to a terminal. */
static void print_error(struct stacksnap_error *error)
{
	const char *message = stacksnap_error_message(error);
	size_t length = strlen(message), size = 4 * length + 1;
	char *text = malloc(size);

	if (text) {
		stacksnap_escape(message, length, 1, text, size);
		fprintf(stderr, "snapshot-example: %s\n", text);
	}
	free(text);
	stacksnap_error_destroy(error);
}

static struct stacksnap_error *print_snapshot(const struct request *request,
					      struct stacksnap_options *options, int *status_ret)
{
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *error;

	error = stacksnap_options_set(options, "pid", request->pid);
	if (error)
		return error;
	stacksnap_options_set_cancel(options, &cancel);
	error = stacksnap_take(options, &snapshot);
	if (error)
		return error;
	/* The target has been running again for a while: there is time to print. */
	error = stacksnap_snapshot_render(snapshot, options, request->format, stdout);
	if (!error) {
		*status_ret = (int)stacksnap_snapshot_outcome(snapshot);
		fprintf(stderr, "snapshot-example: %zu processes, %zu threads, %zu stacks\n",
			stacksnap_snapshot_process_count(snapshot),
			stacksnap_snapshot_thread_count(snapshot),
			stacksnap_snapshot_stack_count(snapshot));
	}
	stacksnap_snapshot_destroy(snapshot);
	return error;
}

static void *take(void *context)
{
	struct request *request = context;
	struct stacksnap_options *options = NULL;
	struct stacksnap_error *error;

	error = stacksnap_options_create(&options);
	if (!error)
		error = print_snapshot(request, options, &request->status);
	if (error)
		print_error(error);
	stacksnap_options_destroy(options);
	return NULL;
}

int main(int argc, char **argv)
{
	struct request request = { .format = argc > 2 ? argv[2] : "text", .status = 2 };
	struct sigaction action = { .sa_handler = on_interrupt };
	pthread_t thread;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: snapshot-example PID [FORMAT]\n");
		return 64;
	}
	request.pid = argv[1];
	sigaction(SIGINT, &action, NULL);
	/* Any thread will do; objects of the library belong to one thread at a time. */
	if (pthread_create(&thread, NULL, take, &request) != 0) {
		fprintf(stderr, "snapshot-example: cannot start a thread\n");
		return 2;
	}
	pthread_join(thread, NULL);
	return request.status;
}
