/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pages of help, from the tables of options.c and the library's formats. */
#include "options.h"

#include <string.h>

enum { HELP_COLUMN = 26, EXAMPLE_COLUMN = 41, ALL_COMMANDS = ~0 };

/* The options on the first page. */
static const char *const popular[] = { "name",    "all",       "duration", "summary", "no-idle",
				       "explain", "deadlocks", "json",     "output",  "no-stop" };

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

static void print_options(unsigned commands, FILE *out)
{
	for (int group = 0; group < SNAP_CLI_GROUP_COUNT; group++) {
		bool titled = false;

		for (const struct snap_cli_option *o = snap_cli_options; o->name; o++) {
			if ((int)o->group != group || !(o->commands & commands) || !o->help)
				continue;
			if (!titled)
				fprintf(out, "\n%s:\n", snap_cli_group_title(o->group));
			titled = true;
			print_option(o, out);
		}
	}
}

static void print_formats(FILE *out)
{
	const char *name, *suffix = NULL, *help = NULL;

	fprintf(out, "Formats (-f NAME, or by the ending of -o FILE):\n");
	for (size_t i = 0; (name = stacksnap_format_name(i, &suffix, &help)); i++)
		fprintf(out, "  %-14s%-20s%s\n", name, suffix ? suffix : "", help ? help : "");
}

static void print_command(const struct snap_cli_verb *verb, FILE *out)
{
	fprintf(out, "usage: stacksnap %s\n\n%s\n\nExamples:\n", verb->usage, verb->about);
	for (int i = 0; i < SNAP_CLI_EXAMPLES; i++)
		fprintf(out, "  %-*s %s\n", EXAMPLE_COLUMN, verb->examples[i].line,
			verb->examples[i].help);
	print_options(verb->command, out);
}

static void print_overview(FILE *out)
{
	fprintf(out,
		"usage: stacksnap [OPTIONS] PID...\n"
		"       stacksnap COMMAND [OPTIONS] [PID... or FILE...]\n"
		"\nPrints what every thread of a process and of its descendants is doing: stops\n"
		"them for a few milliseconds, copies their stacks, and lets them run.\n"
		"\nCommands, each with an example; the first two are typed without their name:\n");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++)
		fprintf(out, "  %-9s %-32s %s\n", verb->name, verb->examples[0].line, verb->help);
	fprintf(out, "\nOptions that are used most:\n");
	for (size_t i = 0; i < sizeof(popular) / sizeof(popular[0]); i++)
		for (const struct snap_cli_option *o = snap_cli_options; o->name; o++)
			if (strcmp(o->name, popular[i]) == 0)
				print_option(o, out);
	fprintf(out,
		"\nMore:\n"
		"  stacksnap help COMMAND     its options, and three examples\n"
		"  stacksnap help options     all options\n"
		"  stacksnap help formats     what -f and -o can write\n"
		"  man stacksnap              RISKS, PERMISSIONS, and how to read the output\n"
		"\nExit status: 0 all shown, 1 something is missing, 2 nothing shown or the\n"
		"report cannot be written, 64 wrong usage. With --deadlocks: 0 none, 1 there is\n"
		"one, 3 one may have been missed.\n");
}

bool snap_cli_print_help(const char *topic, FILE *out)
{
	const struct snap_cli_verb *verb = snap_cli_verbs;

	while (topic && verb->name && strcmp(verb->name, topic) != 0)
		verb++;
	if (!topic) {
		print_overview(out);
	} else if (verb->name) {
		print_command(verb, out);
	} else if (strcmp(topic, "options") == 0) {
		fprintf(out,
			"All options; 'stacksnap help COMMAND' prints those of one command.\n");
		print_options((unsigned)ALL_COMMANDS, out);
		fprintf(out, "\n");
		print_formats(out);
	} else if (strcmp(topic, "formats") == 0) {
		print_formats(out);
	} else {
		return false;
	}
	return true;
}
