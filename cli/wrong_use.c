/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What to type instead: see wrong_use.h. */
#include "wrong_use.h"

#include "message.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LENGTH = 24 };

bool snap_cli_see_help(const struct snap_cli_request *request)
{
	if (request->command == SNAP_CLI_SNAPSHOT || request->command == SNAP_CLI_HELP)
		return snap_cli_message("see 'stacksnap --help'");
	return snap_cli_message("see 'stacksnap help %s'",
				snap_cli_verb_of(request->command)->name);
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many bytes were left out, added, replaced, or exchanged with the next one. */
static size_t count_edits(const char *a, const char *b)
{
	size_t edits[MOST_LENGTH + 1][MOST_LENGTH + 1], m = strlen(a), n = strlen(b);

	if (m > MOST_LENGTH || n > MOST_LENGTH)
		return MOST_LENGTH;
	for (size_t i = 0; i <= m; i++)
		for (size_t k = 0; k <= n; k++) {
			if (i == 0 || k == 0) {
				edits[i][k] = i + k;
				continue;
			}
			edits[i][k] = smaller(edits[i - 1][k], edits[i][k - 1]) + 1;
			edits[i][k] =
				smaller(edits[i][k], edits[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				edits[i][k] = smaller(edits[i][k], edits[i - 2][k - 2] + 1);
		}
	return edits[m][n];
}

/* The word that is most like the typed one; NULL: none is like it. */
struct guess {
	const char *typed, *word;
	size_t edits;
};

static void consider_word(struct guess *guess, const char *word)
{
	size_t edits = count_edits(guess->typed, word);

	if (edits > strlen(guess->typed) / 3 || (guess->word && edits >= guess->edits))
		return;
	guess->word = word;
	guess->edits = edits;
}

static struct guess guess_verb(const char *typed)
{
	struct guess guess = { .typed = typed };

	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++)
		consider_word(&guess, verb->name);
	return guess;
}

static void print_word(FILE *out, const char *word)
{
	const char *c = word;

	while (isalnum((unsigned char)*c) || (*c && strchr("-_=,./:@%+", *c)))
		c++;
	if (*word && !*c) {
		fprintf(out, " %s", word);
		return;
	}
	fputs(" '", out);
	for (c = word; *c; c++)
		fputs(*c == '\'' ? "'\\''" : (char[]){ *c, '\0' }, out);
	fputs("'", out);
}

/* Whether the command line is one of another command, without the word `left_out`. */
static bool fits_command(const struct snap_cli_request *request, const struct snap_cli_verb *verb,
			 const char *left_out)
{
	bool are_numbers = true;
	int count = 0;

	for (int i = 0; i < request->operand_count; i++) {
		if (request->operands[i] == left_out)
			continue;
		are_numbers = are_numbers && isdigit((unsigned char)request->operands[i][0]);
		count++;
	}
	if (!(request->takers & verb->command) || (verb->command == SNAP_CLI_HELP && count))
		return false;
	if (verb->most_files)
		return count >= verb->least_files && count <= verb->most_files;
	return are_numbers && (count || request->has_target || verb->command == SNAP_CLI_LIST);
}

/* The command line for another command, without the word `left_out`; NULL without memory. */
static char *retype(const struct snap_cli_request *request, const struct snap_cli_verb *verb,
		    const char *left_out)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputs("stacksnap", out);
	if (verb->command != SNAP_CLI_SNAPSHOT)
		fprintf(out, " %s%s", verb->command == SNAP_CLI_WATCH ? "--" : "", verb->name);
	for (int i = 1; i < request->argc; i++)
		if (request->argv[i] != left_out)
			print_word(out, request->argv[i]);
	return fclose(out) == 0 ? text : NULL;
}

bool snap_cli_wrong_option(const struct snap_cli_request *request, const char *typed)
{
	char *name = strndup(typed, strcspn(typed, "="));
	struct guess guess = { .typed = name ? name + strspn(name, "-") : "" };
	size_t length = strlen(guess.typed);
	char list[256] = "";

	for (const struct snap_cli_option *o = snap_cli_options; o->name; o++) {
		size_t used = strlen(list);

		if (length && o->help && strncmp(o->name, guess.typed, length) == 0)
			snprintf(list + used, sizeof(list) - used, "%s--%s", used ? ", " : "",
				 o->name);
		if (o->help)
			consider_word(&guess, o->name);
	}
	if (!list[0] && guess.word)
		snprintf(list, sizeof(list), "--%s", guess.word);
	snap_cli_message("unknown option '%s'%s%s%s", typed, list[0] ? ": did you mean " : "", list,
			 list[0] ? "?" : "");
	free(name);
	return snap_cli_see_help(request);
}

static bool takes_option(enum snap_cli_command command, const char *name)
{
	const struct snap_cli_option *option = snap_cli_options;

	while (strcmp(option->name, name) != 0)
		option++;
	return option->commands & command;
}

bool snap_cli_wrong_ending(const struct snap_cli_request *request, const char *ending)
{
	const char *name, *suffix = NULL;
	char list[256] = "";

	for (size_t i = 0; (name = stacksnap_format_name(i, &suffix, NULL)); i++) {
		size_t used = strlen(list);

		if (strcmp(name, ending + 1) == 0) {
			snprintf(list, sizeof(list), "%s", suffix);
			break;
		}
		snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", suffix);
	}
	if (strcmp(ending, ".capture") == 0 && takes_option(request->command, "save-capture"))
		snap_cli_message(
			"--output: no report ends with '.capture': try '--save-capture %s'",
			request->output);
	else
		snap_cli_message("--output: no format ends with '%s': use %s, or add --format",
				 ending, list);
	return snap_cli_see_help(request);
}

/* "with 'record'" */
static void print_place(const struct snap_cli_verb *verb, const struct snap_cli_verb *other,
			char *text, size_t size)
{
	if (verb->command == SNAP_CLI_SNAPSHOT)
		snprintf(text, size, "without %s",
			 other && other->command == SNAP_CLI_WATCH ? "--watch" : "a command");
	else if (verb->command == SNAP_CLI_WATCH)
		snprintf(text, size, "with --watch");
	else
		snprintf(text, size, "with '%s'", verb->name);
}

/* The word for a command that takes the place of another one: that one's, or its own elsewhere. */
static const char *misplaced_word(const struct snap_cli_request *request,
				  const struct snap_cli_verb *verb)
{
	for (int i = 0; !request->verb_word && i < request->operand_count; i++)
		if (strcmp(request->operands[i], verb->name) == 0)
			return request->operands[i];
	return request->verb_word;
}

bool snap_cli_wrong_command(const struct snap_cli_request *request,
			    const struct snap_cli_option *option)
{
	const struct snap_cli_verb *used = snap_cli_verb_of(request->command), *other = NULL;
	char place[32], list[128] = "", *text = NULL;

	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++) {
		size_t length = strlen(list);

		if (!(option->commands & verb->command))
			continue;
		snprintf(list + length, sizeof(list) - length, "%s%s", length ? ", " : "",
			 verb->name);
		/* Operands of the one are none of the other. */
		if (!other && (verb->most_files == 0) == (used->most_files == 0) &&
		    fits_command(request, verb, misplaced_word(request, verb)))
			other = verb;
	}
	print_place(used, other, place, sizeof(place));
	if (other && used->command != SNAP_CLI_WATCH)
		text = retype(request, other, misplaced_word(request, other));
	if (text)
		snap_cli_message("option '--%s' cannot be used %s: try '%s'", option->name, place,
				 text);
	else
		snap_cli_message("option '--%s' cannot be used %s, only with %s", option->name,
				 place, list);
	free(text);
	return snap_cli_see_help(request);
}

/* Whether a process runs whose command or program has that name. */
static bool is_running(const char *name)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *err = stacksnap_options_create(&options);
	bool found = false;

	if (!err)
		err = stacksnap_options_set(options, "name", name);
	if (!err)
		err = stacksnap_list(options, &snapshot);
	if (!err)
		found = stacksnap_snapshot_outcome(snapshot) != STACKSNAP_OUTCOME_NOTHING;
	stacksnap_error_destroy(err);
	stacksnap_snapshot_destroy(snapshot);
	stacksnap_options_destroy(options);
	return found;
}

/* "--watch blocked": the list must be in the same word. */
static bool is_watch_list(const struct snap_cli_request *request, const char *operand)
{
	struct stacksnap_error *err;
	bool fine;

	if (request->command != SNAP_CLI_WATCH)
		return false;
	err = stacksnap_options_set(request->options, "watch", operand);
	fine = !err;
	stacksnap_error_destroy(err);
	return fine;
}

/* How to print files in place of processes, without options if need be; NULL without memory. */
static char *retype_for_files(const struct snap_cli_request *request, const char *file)
{
	struct snap_cli_request plain = { .argv = (char *[]){ NULL, (char *)(uintptr_t)file },
					  .argc = 2 };
	const struct snap_cli_verb *verb = snap_cli_verb_of(SNAP_CLI_RENDER);
	int count = request->operand_count - (request->verb_word != NULL);

	for (int i = 0; i < request->operand_count; i++)
		if (request->operands[i] != request->verb_word &&
		    access(request->operands[i], F_OK) != 0)
			return retype(&plain, verb, NULL);
	if (count > 1)
		verb = snap_cli_verb_of(SNAP_CLI_MERGE);
	if (fits_command(request, verb, request->verb_word))
		return retype(request, verb, request->verb_word);
	/* In front of the first operand stands what argv[0] would be. */
	plain.argv = request->operands + (request->verb_word != NULL) - 1;
	plain.argc = count + 1;
	return retype(&plain, verb, NULL);
}

bool snap_cli_wrong_operand(const struct snap_cli_request *request, const char *operand)
{
	const char *what =
		request->verb_word ? "not a process id" : "neither a command nor a process id";
	const struct snap_cli_verb *verb = snap_cli_verbs;
	struct guess guess = guess_verb(operand);
	char *text = NULL, *files = NULL;

	while (guess.word && strcmp(verb->name, guess.word) != 0)
		verb++;
	if (guess.word && !request->verb_word && fits_command(request, verb, operand))
		text = retype(request, verb, operand);
	if (access(operand, F_OK) == 0)
		files = retype_for_files(request, operand);
	if (is_watch_list(request, operand))
		snap_cli_message("'%s' is %s: did you mean --watch=%s?", operand, what, operand);
	else if (text && guess.edits == 0)
		snap_cli_message(
			"'%s' %s: try '%s'", operand,
			snap_cli_verb_is_word(verb) ? "must come first" : "is not a command", text);
	else if (is_running(operand))
		snap_cli_message("'%s' is %s: did you mean --name %s?", operand, what, operand);
	else if (files)
		snap_cli_message("'%s' is %s but a file: try '%s'", operand, what, files);
	else if (text)
		snap_cli_message("'%s' is %s: did you mean '%s'?", operand, what, text);
	else if (guess.word && !request->verb_word && guess.edits)
		snap_cli_message("'%s' is %s: did you mean '%s'?", operand, what, guess.word);
	else
		snap_cli_message("'%s' is %s", operand, what);
	free(files);
	free(text);
	return snap_cli_see_help(request);
}

bool snap_cli_wrong_topic(const struct snap_cli_request *request)
{
	struct guess guess = guess_verb(request->topic);

	consider_word(&guess, "options");
	consider_word(&guess, "formats");
	if (guess.word)
		snap_cli_message("there is no help about '%s': did you mean %s?", request->topic,
				 guess.word);
	else
		snap_cli_message("there is no help about '%s'", request->topic);
	return snap_cli_see_help(request);
}

/* The option whose value is this word of argv; NULL: none. */
static const char *option_that_took(const struct snap_cli_request *request, const char *word)
{
	for (size_t i = 0; i < request->setting_count; i++)
		if (request->settings[i].value == word)
			return request->settings[i].name;
	return NULL;
}

/* Whether 1 is a value of an option. */
static bool can_be_one(const char *name)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_error *err = stacksnap_options_create(&options);

	if (!err)
		err = stacksnap_options_set(options, name, "1");
	stacksnap_options_destroy(options);
	stacksnap_error_destroy(err);
	return !err;
}

/* "--again 1329": the option took the process id, which was the last word, as its value. */
bool snap_cli_no_target(const struct snap_cli_request *request)
{
	int options_end = request->argc - (request->verb_word != NULL);
	const char *last = options_end > 0 ? request->argv[options_end - 1] : "";
	const char *name = option_that_took(request, last);
	char path[48];

	snprintf(path, sizeof(path), "/proc/%.32s", last);
	if (name && isdigit((unsigned char)*last) && access(path, F_OK) == 0 && can_be_one(name))
		snap_cli_message("no target: %s is the value of --%s, did you mean '--%s 1 %s'?",
				 last, name, name, last);
	else
		snap_cli_message("no target: give a process id, or see --name, --unit, --cgroup, "
				 "--container and --all");
	return snap_cli_see_help(request);
}
