/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An example of libstacksnap(3): a flight recorder. It keeps the last seconds of another process in
 * memory, and writes them down when that process has more threads than it should, or when a signal
 * interrupts it.
 *
 *     usage: record-example PID SECONDS FILE [CONDITION]
 *     cc record.c -o record-example $(pkg-config --cflags --libs stacksnap)
 *
 * FILE's suffix says in which format; a condition is "threads>100", "state=disk for 5s" …
 */
#include <signal.h>
#include <stacksnap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct flight {
	struct stacksnap_options *options;
	struct stacksnap_recorder *recorder;
	const char *path, *format;
	struct stacksnap_error *error; /* of writing; ends the flight */
	int status;
};

/* What the signal handler may touch. */
static struct stacksnap_recorder *volatile running;

static void on_interrupt(int number)
{
	(void)number;
	stacksnap_recorder_stop(running);
}

/* What is held now, with names, to the file. The targets are not needed for that. */
static struct stacksnap_error *dump(struct flight *flight)
{
	struct stacksnap_recording *recording = NULL;
	struct stacksnap_error *error;
	FILE *out;

	error = stacksnap_recorder_slice(flight->recorder, flight->options, &recording);
	if (error)
		return error;
	flight->status = (int)stacksnap_recording_outcome(recording);
	out = fopen(flight->path, "w");
	if (!out) {
		perror(flight->path);
		flight->status = 2;
	} else {
		error = stacksnap_recording_render(recording, flight->options, flight->format, out);
		if (fclose(out) != 0)
			flight->status = 2;
	}
	if (!error)
		error = stacksnap_recording_summary(recording, flight->options, stderr);
	stacksnap_recording_destroy(recording);
	return error;
}

/* After each look at the threads, in the thread that called stacksnap_recorder_run(). */
static int on_tick(void *context, const struct stacksnap_recorder_status *status)
{
	struct flight *flight = context;

	if (status->condition)
		flight->error = dump(flight);
	return flight->error == NULL;
}

static struct stacksnap_error *set_options(struct flight *flight, char **argv, int argc)
{
	struct stacksnap_error *error;

	error = stacksnap_options_set(flight->options, "pid", argv[1]);
	if (!error)
		error = stacksnap_options_set(flight->options, "ring", argv[2]);
	if (!error)
		error = stacksnap_options_set(flight->options, "duration", "0");
	if (!error && argc > 4)
		error = stacksnap_options_set(flight->options, "until", argv[4]);
	return error;
}

static struct stacksnap_error *fly(struct flight *flight)
{
	struct sigaction action = { .sa_handler = on_interrupt };
	struct stacksnap_error *error;

	error = stacksnap_recorder_create(flight->options, &flight->recorder);
	if (error)
		return error;
	running = flight->recorder;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	fprintf(stderr, "record-example: recording\n");
	error = stacksnap_recorder_run(flight->recorder, on_tick, flight);
	if (!error)
		error = flight->error;
	return error ? error : dump(flight);
}

/* Messages may hold bytes of the target: escape what goes to a terminal. */
static void print_error(struct stacksnap_error *error)
{
	const char *message = stacksnap_error_message(error);
	size_t length = strlen(message), size = 4 * length + 1;
	char *text = malloc(size);

	if (text) {
		stacksnap_escape(message, length, 1, text, size);
		fprintf(stderr, "record-example: %s\n", text);
	}
	free(text);
	stacksnap_error_destroy(error);
}

int main(int argc, char **argv)
{
	struct flight flight = { .status = 2 };
	struct stacksnap_error *error;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: record-example PID SECONDS FILE [CONDITION]\n");
		return 64;
	}
	flight.path = argv[3];
	flight.format = stacksnap_format_of_path(argv[3]);
	if (!flight.format)
		flight.format = "json";
	error = stacksnap_options_create(&flight.options);
	if (!error)
		error = set_options(&flight, argv, argc);
	if (!error)
		error = fly(&flight);
	if (error) {
		print_error(error);
		flight.status = 2;
	}
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	stacksnap_recorder_destroy(flight.recorder);
	stacksnap_options_destroy(flight.options);
	return flight.status;
}
