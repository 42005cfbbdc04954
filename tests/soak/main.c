/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * soak EXPERIMENT COUNT TOOL FOLDER: one experiment of the soak, with a count.
 *
 * Prints `figure NAME VALUE` for what it measured and `bad TEXT` for what must not be; ends with 0
 * when nothing is bad, with 1 else, with 77 where the machine cannot. FOLDER has the tests' own
 * programs.
 */
#include "arena.h"
#include "soak.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void run_int(const struct soak *soak)
{
	soak_interrupts(soak, SIGINT);
}

static void run_term(const struct soak *soak)
{
	soak_interrupts(soak, SIGTERM);
}

static void run_collector(const struct soak *soak)
{
	soak_role(soak, "snap-collector");
}

static void run_parser(const struct soak *soak)
{
	soak_role(soak, "snap-parser");
}

static void run_tracer(const struct soak *soak)
{
	soak_role(soak, "snap-tracer");
}

static void run_signals(const struct soak *soak)
{
	soak_signals(soak, false);
}

static void run_signals_record(const struct soak *soak)
{
	soak_signals(soak, true);
}

static void run_relay(const struct soak *soak)
{
	soak_churn(soak, "relay");
}

static void run_untraced(const struct soak *soak)
{
	soak_churn(soak, "untraced");
}

static void run_threads(const struct soak *soak)
{
	soak_churn(soak, "threads");
}

static void run_forks(const struct soak *soak)
{
	soak_churn(soak, "forks");
}

static void run_execs(const struct soak *soak)
{
	soak_churn(soak, "execs");
}

static void run_execs_crowd(const struct soak *soak)
{
	soak_churn(soak, "execs-crowd");
}

static const struct {
	const char *name;
	void (*run)(const struct soak *soak);
} experiments[] = {
	{ "kill", soak_kills },
	{ "int", run_int },
	{ "term", run_term },
	{ "closed", soak_closed_output },
	{ "full", soak_full_pipe },
	{ "collector", run_collector },
	{ "parser", run_parser },
	{ "tracer", run_tracer },
	{ "signals", run_signals },
	{ "signals-record", run_signals_record },
	{ "signals-ended", soak_signals_ended },
	{ "relay", run_relay },
	{ "untraced", run_untraced },
	{ "threads", run_threads },
	{ "forks", run_forks },
	{ "execs", run_execs },
	{ "execs-crowd", run_execs_crowd },
	{ "stopped", soak_group_stop },
	{ "many-threads", soak_many_threads },
	{ "many-mappings", soak_many_mappings },
	{ "hostile", soak_hostile },
	{ "mixed", soak_mixed },
};

static void usage(void)
{
	fprintf(stderr, "usage: soak EXPERIMENT COUNT TOOL FOLDER\n");
	for (size_t i = 0; i < SOAK_ARRAY_SIZE(experiments); i++)
		fprintf(stderr, "  %s\n", experiments[i].name);
	exit(64);
}

int main(int argc, char **argv)
{
	struct soak soak;

	if (argc > 1 && strcmp(argv[1], "--exec") == 0)
		return soak_exec_main(argc, argv);
	if (argc != 5)
		usage();
	soak = (struct soak){ .tool = argv[3], .tests = argv[4], .count = atol(argv[2]) };
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	srandom(1);
	for (size_t i = 0; i < SOAK_ARRAY_SIZE(experiments); i++) {
		if (strcmp(experiments[i].name, argv[1]) != 0)
			continue;
		experiments[i].run(&soak);
		return soak_bad_count() ? 1 : 0;
	}
	usage();
}
