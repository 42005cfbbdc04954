/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* --help, from the tables of options.c and the library's formats. */
#include "options.h"

enum { HELP_COLUMN = 27 };

static void print_option(const struct snap_cli_option *option, FILE *out)
{
	const char *word;
	int used = 0;

	if (option->letter)
		used = fprintf(out, "  -%c, --%s", option->letter, option->name);
	else
		used = fprintf(out, "      --%s", option->name);
	if (option->argument)
		used += fprintf(out, option->value == SNAP_CLI_VALUE_OPTIONAL ? "[=%s]" : " %s",
				option->argument);
	if (used >= HELP_COLUMN)
		used = fprintf(out, "\n") - 1;
	fprintf(out, "%*s%s", HELP_COLUMN - used, "", option->help);
	for (size_t i = 0;
	     option->value == SNAP_CLI_VALUE_WORD && (word = snap_cli_option_word(option, i)); i++)
		fprintf(out, "%s%s", i ? ", " : ": ", word);
	fprintf(out, "\n");
}

static void print_group(enum snap_cli_group group, FILE *out)
{
	bool titled = false;

	for (const struct snap_cli_option *o = snap_cli_options; o->name; o++) {
		if (o->group != group)
			continue;
		if (!titled)
			fprintf(out, "\n%s:\n", snap_cli_group_title(group));
		titled = true;
		print_option(o, out);
	}
}

static void print_formats(FILE *out)
{
	const char *name, *suffix = NULL, *help = NULL;

	fprintf(out, "\nFormats (-f NAME, or by the suffix of -o FILE):\n");
	for (size_t i = 0; (name = stacksnap_format_name(i, &suffix, &help)); i++)
		fprintf(out, "  %-12s%-18s%s\n", name, suffix ? suffix : "", help ? help : "");
}

void snap_cli_print_help(FILE *out)
{
	fprintf(out, "usage: stacksnap [OPTIONS] PID...\n");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++)
		fprintf(out, "       stacksnap %s [OPTIONS] %s\n", verb->name, verb->operands);
	fprintf(out,
		"\nStops processes and their descendants for a few milliseconds, copies their\n"
		"stacks, lets them run, and prints what every thread is doing.\n"
		"\nCommands:\n"
		"  (none)                   take a snapshot and print it\n");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++)
		fprintf(out, "  %-25s%s\n", verb->name, verb->help);
	for (int group = 0; group < SNAP_CLI_GROUP_COUNT; group++)
		print_group((enum snap_cli_group)group, out);
	print_formats(out);
	fprintf(out,
		"\nA stop ends epoll_wait, semop, sigtimedwait and a few other blocking calls of "
		"the\n"
		"target with EINTR: see RISKS in stacksnap(1).\n"
		"Exit status: 0 all shown, 1 something is missing, 2 nothing shown or the report\n"
		"cannot be written, 64 usage.\n");
}
