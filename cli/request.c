/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From argv to a request: see options.h. Two steps, as which options are allowed depends on the
 * command, which may stand after some of them: first getopt_long collects what is there, then the
 * command is known and each option is set.
 */
#include "commands.h"
#include "message.h"
#include "options.h"
#include "wrong_use.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_LONG = 256, MAX_OPTIONS = 96 };

struct given {
	const struct snap_cli_option *option;
	const char *value;
};

static size_t option_count(void)
{
	size_t count = 0;

	while (snap_cli_options[count].name)
		count++;
	return count;
}

/* The tables of getopt_long: val is FIRST_LONG + index, letters have their own. */
static void make_tables(struct option *longs, char *letters)
{
	*letters++ = ':';
	for (size_t i = 0; snap_cli_options[i].name; i++) {
		const struct snap_cli_option *option = &snap_cli_options[i];

		*longs++ = (struct option){
			.name = option->name,
			.has_arg = option->value == SNAP_CLI_VALUE_OPTIONAL ? optional_argument
				   : option->argument                       ? required_argument
									    : no_argument,
			.val = FIRST_LONG + (int)i,
		};
		if (!option->letter)
			continue;
		*letters++ = option->letter;
		if (option->argument)
			*letters++ = ':';
	}
	*longs = (struct option){ 0 };
	*letters = '\0';
}

static const struct snap_cli_option *option_of(int code)
{
	const struct snap_cli_option *option = snap_cli_options;

	if (code >= FIRST_LONG)
		return &snap_cli_options[code - FIRST_LONG];
	while (option->name && option->letter != code)
		option++;
	return option->name ? option : NULL;
}

static bool report_bad_option(const struct snap_cli_request *request, int code)
{
	const struct snap_cli_option *option = option_of(optopt);

	if (optopt <= 0)
		return snap_cli_wrong_option(request, request->argv[optind - 1]);
	if (code == ':' && option)
		snap_cli_message("option '--%s' needs a value (%s)", option->name,
				 option->argument);
	else if (option && optopt >= FIRST_LONG)
		snap_cli_message("option '--%s' takes no value", option->name);
	else
		snap_cli_message("unknown option '-%c'", optopt);
	return snap_cli_see_help(request);
}

/* The number of the word that was given; -1 after a message. */
static int word_number(const struct given *given)
{
	const struct snap_cli_option *option = given->option;
	char list[256] = "";
	const char *word;

	for (int i = 0; (word = snap_cli_option_word(option, (size_t)i)); i++) {
		if (strcmp(word, given->value) == 0)
			return i;
		strncat(list, i ? ", " : "", sizeof(list) - strlen(list) - 1);
		strncat(list, word, sizeof(list) - strlen(list) - 1);
	}
	snap_cli_message("--%s: '%s' is not one of %s", option->name, given->value, list);
	return -1;
}

static bool set_local(struct snap_cli_request *request, const struct given *given)
{
	static const enum snap_cli_color colors[] = { SNAP_CLI_COLOR_AUTO, SNAP_CLI_COLOR_ALWAYS,
						      SNAP_CLI_COLOR_NEVER };
	const char *name = given->option->name;
	int number = 0;

	if (strcmp(name, "json") == 0) {
		request->format = "json";
	} else if (strcmp(name, "format") == 0) {
		number = word_number(given);
		request->format = given->value;
	} else if (strcmp(name, "output") == 0) {
		request->output = given->value;
	} else if (strcmp(name, "save-capture") == 0) {
		request->save_capture = given->value;
	} else if (strcmp(name, "stats") == 0) {
		request->stats = given->value;
	} else if (strcmp(name, "listen") == 0) {
		request->listen = given->value;
	} else if (strcmp(name, "host") == 0) {
		request->hosts[request->host_count++] = given->value;
	} else if (strcmp(name, "token-file") == 0) {
		request->token_file = given->value;
	} else if (strcmp(name, "all-groups") == 0) {
		request->all_groups = true;
	} else if (strcmp(name, "no-pager") == 0) {
		request->no_pager = true;
	} else if (strcmp(name, "color") == 0) {
		number = word_number(given);
		request->color = colors[number < 0 ? 0 : number];
	}
	return number >= 0;
}

unsigned snap_cli_request_has(const struct snap_cli_request *request, const char *name)
{
	unsigned times = 0;

	for (size_t i = 0; i < request->setting_count; i++)
		times += strcmp(request->settings[i].name, name) == 0;
	return times;
}

bool snap_cli_names_targets(const char *name)
{
	const struct snap_cli_option *o = snap_cli_options;

	while (o->name && strcmp(o->name, name) != 0)
		o++;
	return o->name && o->group == SNAP_CLI_TARGETS && strcmp(name, "no-children") != 0;
}

struct stacksnap_error *snap_cli_request_look(const struct snap_cli_request *request,
					      struct stacksnap_snapshot **ret)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_error *err;

	*ret = NULL;
	if (!snap_cli_request_has(request, "pid"))
		return NULL;
	err = stacksnap_options_create(&options);
	/* Without filters, which would leave out some of them. */
	for (size_t i = 0; !err && i < request->setting_count; i++)
		if (snap_cli_names_targets(request->settings[i].name))
			err = stacksnap_options_set(options, request->settings[i].name,
						    request->settings[i].value);
	if (!err)
		err = stacksnap_list(options, ret);
	/* None of them is there, so what has their numbers later is none of them. */
	if (err && stacksnap_error_code(err) == STACKSNAP_ERROR_NOT_FOUND) {
		stacksnap_error_destroy(err);
		err = stacksnap_snapshot_create_empty(options, "", "", ret);
	}
	stacksnap_options_destroy(options);
	return err;
}

/* All errors but lack of memory are errors of usage. */
static bool refuse_value(struct snap_cli_request *request, const char *prefix,
			 struct stacksnap_error *err)
{
	bool is_usage = stacksnap_error_code(err) == STACKSNAP_ERROR_INVALID;

	snap_cli_message("%s%s", is_usage ? prefix : "", stacksnap_error_message(err));
	stacksnap_error_destroy(err);
	if (is_usage)
		return snap_cli_see_help(request);
	request->refusal = SNAP_CLI_TROUBLE;
	return false;
}

/* There is room for one an option and one an operand. */
static void note_setting(struct snap_cli_request *request, const char *name, const char *value)
{
	request->settings[request->setting_count++] =
		(struct snap_cli_setting){ .name = name, .value = value };
}

static struct stacksnap_error *set_of_library(struct snap_cli_request *request, const char *name,
					      const char *value)
{
	struct stacksnap_error *err = stacksnap_options_set(request->options, name, value);

	note_setting(request, name, value);
	for (int i = 0; i < SNAP_CLI_OTHER_COUNT && !err && request->others[i]; i++)
		err = stacksnap_options_set(request->others[i], name, value);
	return err;
}

static bool create_others(struct snap_cli_request *request)
{
	struct stacksnap_error *err = NULL;

	if (request->command != SNAP_CLI_TOP)
		return true;
	for (int i = 0; i < SNAP_CLI_OTHER_COUNT && !err; i++)
		err = stacksnap_options_create(&request->others[i]);
	return !err || refuse_value(request, "", err);
}

/* The library searches it later, and would say nothing of one that is not there. */
static bool is_directory(const char *path)
{
	int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return snap_cli_message("--debug-dir: cannot search %s: %s", path, strerror(errno));
	close(folder);
	return true;
}

static bool set_option(struct snap_cli_request *request, const struct given *given)
{
	struct stacksnap_error *err;

	if (!(given->option->commands & request->command))
		return snap_cli_wrong_command(request, given->option);
	if (given->option->local)
		return set_local(request, given) || snap_cli_see_help(request);
	if (strcmp(given->option->name, "debug-dir") == 0 && !is_directory(given->value))
		return snap_cli_see_help(request);
	err = set_of_library(request, given->option->name, given->value);
	return !err || refuse_value(request, "--", err);
}

static bool set_files(struct snap_cli_request *request, char **operands, int count)
{
	const struct snap_cli_verb *verb = snap_cli_verb_of(request->command);

	if (count < verb->least_files || count > verb->most_files) {
		snap_cli_message("'%s' needs %s: stacksnap %s", verb->name,
				 verb->most_files == 1   ? "one file"
				 : verb->most_files == 2 ? "two files"
							 : "at least one file",
				 verb->usage);
		return snap_cli_see_help(request);
	}
	request->files = operands;
	request->file_count = count;
	request->file = operands[0];
	request->second_file = count > 1 ? operands[1] : NULL;
	return true;
}

/* Or begins as one: then it is to be a process id. */
static bool is_number(const char *operand)
{
	return operand[0] >= '0' && operand[0] <= '9';
}

static bool set_operands(struct snap_cli_request *request, char **operands, int count)
{
	struct stacksnap_error *err;

	if (snap_cli_verb_of(request->command)->most_files)
		return set_files(request, operands, count);
	for (int i = 0; i < count; i++) {
		if (!is_number(operands[i]))
			return snap_cli_wrong_operand(request, operands[i]);
		err = set_of_library(request, "pid", operands[i]);
		if (err)
			return refuse_value(request, "", err);
	}
	if (request->has_target || count)
		return true;
	/* A list stops nothing: it shows all processes where none is named. */
	if (request->command != SNAP_CLI_LIST)
		return snap_cli_no_target(request);
	err = set_of_library(request, "all", NULL);
	return !err || refuse_value(request, "", err);
}

/* The verb whose word is the first operand; else the one that needs no word. */
static const struct snap_cli_verb *find_verb(char **operands, int count, bool watches)
{
	for (const struct snap_cli_verb *verb = snap_cli_verbs; count && verb->name; verb++)
		if (snap_cli_verb_is_word(verb) && strcmp(operands[0], verb->name) == 0)
			return verb;
	return snap_cli_verb_of(watches ? SNAP_CLI_WATCH : SNAP_CLI_SNAPSHOT);
}

/* "help COMMAND" and "COMMAND --help"; without a command the first page. */
static bool set_topic(struct snap_cli_request *request, const struct snap_cli_verb *verb,
		      char **operands, int count)
{
	request->help = true;
	if (verb->command == SNAP_CLI_HELP) {
		request->topic = count ? operands[0] : NULL;
		if (count > 1)
			snap_cli_message("'help' takes one command: stacksnap %s", verb->usage);
		return count <= 1 || snap_cli_see_help(request);
	}
	request->topic = verb->command == SNAP_CLI_SNAPSHOT ? NULL : verb->name;
	return true;
}

/* getopt_long takes the beginning of a name for it: `--al` must not become --all by mistake. */
static const char *find_abbreviation(int code, char **argv)
{
	const char *typed = argv[optind - 1 - (optarg && optarg == argv[optind - 1])];

	if (code < FIRST_LONG || strcspn(typed, "=") == 2 + strlen(option_of(code)->name))
		return NULL;
	return typed;
}

/* -h and -V win over all other options, and over mistakes after them. */
static bool collect_options(struct snap_cli_request *request, int argc, char **argv,
			    struct given *given, size_t *count_ret)
{
	struct option longs[MAX_OPTIONS + 1];
	char letters[2 * MAX_OPTIONS + 2];
	size_t count = 0;
	int code;

	make_tables(longs, letters);
	opterr = 0;
	while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const struct snap_cli_option *option;
		const char *abbreviation;

		if (request->help || request->version)
			continue;
		if (code == '?' || code == ':')
			return report_bad_option(request, code);
		abbreviation = find_abbreviation(code, argv);
		if (abbreviation)
			return snap_cli_wrong_option(request, abbreviation);
		option = option_of(code);
		request->help = strcmp(option->name, "help") == 0;
		request->version = strcmp(option->name, "version") == 0;
		given[count++] = (struct given){
			.option = option,
			.value = option->value == SNAP_CLI_VALUE_OPTIONAL && !optarg ? "all"
										     : optarg,
		};
	}
	*count_ret = count;
	return true;
}

/* No more options than bytes: letters can stand together. */
static size_t most_options(int argc, char **argv)
{
	size_t most = 1;

	for (int i = 0; i < argc; i++)
		most += strlen(argv[i]);
	return most;
}

static bool has_option(const struct given *given, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(given[i].option->name, name) == 0)
			return true;
	return false;
}

const char *snap_cli_request_format(const struct snap_cli_request *request)
{
	const char *format = request->command == SNAP_CLI_WATCH ? NULL : request->format;
	const char *by_ending = request->output ? stacksnap_format_of_path(request->output) : NULL;

	/* What is called .json.gz is packed, also where --json says no more than that. */
	if (!format ||
	    (by_ending && strcmp(format, "json") == 0 && strcmp(by_ending, "json-gz") == 0))
		format = by_ending;
	return format ? format : "text";
}

/* Of -o FILE. Numbers, patterns and the longer ones of mktemp(1) are no endings. */
static bool check_ending(const struct snap_cli_request *request)
{
	enum { LONGEST = sizeof(".capture") - 1 };
	const char *path = request->output ? request->output : "", *ending = strrchr(path, '.');

	if (!ending || ending == path || ending[-1] == '/' || strchr(ending, '/') ||
	    !isalpha((unsigned char)ending[1]) || strlen(ending) > LONGEST)
		return true;
	return request->format || stacksnap_format_of_path(path) ||
	       snap_cli_wrong_ending(request, ending);
}

/* Options of which one makes no sense with, or without, the other. */
static bool check_views(const struct snap_cli_request *request, const struct given *given,
			size_t count)
{
	bool has_tree = has_option(given, count, "call-tree");
	bool has_summary = has_option(given, count, "summary");
	const char *format = snap_cli_request_format(request);

	if (has_tree && has_summary)
		snap_cli_message("--call-tree and --summary are two views of the same: "
				 "give one of them");
	else if (!has_tree && has_option(given, count, "reverse"))
		snap_cli_message("--reverse needs --call-tree");
	else if (has_option(given, count, "no-stop") && has_option(given, count, "stop-all"))
		snap_cli_message("--no-stop and --stop-all exclude each other: give one of them");
	else if (has_summary && strcmp(format, "text") != 0)
		snap_cli_message("--summary is a view of the text, and the format is %s: leave "
				 "--summary out, or use --format text",
				 format);
	else
		return true;
	return snap_cli_see_help(request);
}

static bool set_all(struct snap_cli_request *request, const struct given *given, size_t count,
		    char **operands, int operand_count)
{
	const struct snap_cli_verb *verb =
		find_verb(operands, operand_count, has_option(given, count, "watch"));
	int words = snap_cli_verb_is_word(verb);
	bool fine;

	request->command = verb->command;
	request->verb_word = words ? operands[0] : NULL;
	request->operands = operands;
	request->operand_count = operand_count;
	request->takers = ~0u;
	for (size_t i = 0; i < count; i++) {
		request->takers &= given[i].option->commands;
		request->has_target |= snap_cli_names_targets(given[i].option->name);
	}
	if (request->help || verb->command == SNAP_CLI_HELP)
		return set_topic(request, verb, operands + words, operand_count - words);
	/* Before the options: they may be those of a command that is misspelt. */
	if (!words && operand_count && !is_number(operands[0]))
		return snap_cli_wrong_operand(request, operands[0]);
	fine = create_others(request);
	for (size_t i = 0; fine && i < count; i++)
		fine = set_option(request, &given[i]);
	return fine && check_ending(request) && check_views(request, given, count) &&
	       set_operands(request, operands + words, operand_count - words);
}

bool snap_cli_request_init(struct snap_cli_request *request, int argc, char **argv)
{
	struct given *given = calloc(most_options(argc, argv), sizeof(*given));
	struct stacksnap_error *err = NULL;
	size_t count = 0;
	bool fine;

	*request = (struct snap_cli_request){
		.command = SNAP_CLI_SNAPSHOT, .argc = argc, .argv = argv, .refusal = SNAP_CLI_USAGE
	};
	if (option_count() > MAX_OPTIONS)
		abort();
	request->settings =
		calloc(most_options(argc, argv) + (size_t)argc, sizeof(*request->settings));
	request->hosts = calloc(most_options(argc, argv), sizeof(*request->hosts));
	if (given && request->settings && request->hosts)
		err = stacksnap_options_create(&request->options);
	if (!given || !request->settings || !request->hosts || err) {
		free(given);
		stacksnap_error_destroy(err);
		request->refusal = SNAP_CLI_TROUBLE;
		return snap_cli_message("out of memory");
	}
	fine = collect_options(request, argc, argv, given, &count);
	if (fine && !request->version)
		fine = set_all(request, given, count, argv + optind, argc - optind);
	free(given);
	return fine;
}

void snap_cli_request_deinit(struct snap_cli_request *request)
{
	stacksnap_options_destroy(request->options);
	for (int i = 0; i < SNAP_CLI_OTHER_COUNT; i++)
		stacksnap_options_destroy(request->others[i]);
	free(request->settings);
	free(request->hosts);
	request->options = NULL;
	request->settings = NULL;
	request->hosts = NULL;
	request->setting_count = 0;
}
