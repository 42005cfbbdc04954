/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The command line: one table of options, and a request made of argv.
 *
 * The table drives getopt_long, --help and the completions. Values are checked by the library,
 * which knows the options by the same names; here stand only those that are about files and the
 * terminal. To add an option: a line in the table, a line in the library's (lib/api/options.c), the
 * manual page.
 */
#pragma once

#include "stacksnap.h"
#include "symbol_packages.h"

#include <stdbool.h>
#include <stdio.h>

enum snap_cli_command {
	SNAP_CLI_SNAPSHOT = 1 << 0, /* no word: take a snapshot */
	SNAP_CLI_RENDER = 1 << 1,
	SNAP_CLI_LIST = 1 << 2,
	SNAP_CLI_RECORD = 1 << 3,
	SNAP_CLI_DIFF = 1 << 4,
	SNAP_CLI_WATCH = 1 << 5, /* no word: a snapshot with --watch */
	SNAP_CLI_MERGE = 1 << 6,
	SNAP_CLI_TOP = 1 << 7,
	SNAP_CLI_SERVE = 1 << 8,
	SNAP_CLI_CORE = 1 << 9,
	SNAP_CLI_HELP = 1 << 10,
};

enum snap_cli_group {
	SNAP_CLI_TARGETS,
	SNAP_CLI_RECORDING,
	SNAP_CLI_WATCHING,
	SNAP_CLI_SERVING,
	SNAP_CLI_VIEWS,
	SNAP_CLI_FRAMES,
	SNAP_CLI_OUTPUT,
	SNAP_CLI_SAFETY,
	SNAP_CLI_FILES,
	SNAP_CLI_GENERAL,
	SNAP_CLI_GROUP_COUNT,
};

/* What can stand after an option, for the completions. */
enum snap_cli_value {
	SNAP_CLI_VALUE_NONE,
	SNAP_CLI_VALUE_TEXT,
	SNAP_CLI_VALUE_PID,
	SNAP_CLI_VALUE_FILE,
	SNAP_CLI_VALUE_DIRECTORY,
	SNAP_CLI_VALUE_WORD,     /* one word of the library's row */
	SNAP_CLI_VALUE_WORDS,    /* several of them, separated by commas */
	SNAP_CLI_VALUE_FORMAT,   /* one of the library's formats */
	SNAP_CLI_VALUE_OPTIONAL, /* --name[=TEXT]; "all" where it is left out */
};

struct snap_cli_option {
	const char *name;
	char letter;          /* 0: none */
	const char *argument; /* NULL: none */
	const char *help;     /* NULL: it works and is not shown */
	enum snap_cli_group group;
	unsigned commands; /* those that take it: bits of enum snap_cli_command */
	bool local;        /* not an option of the library */
	enum snap_cli_value value;
};

/* Ended by a NULL name. */
extern const struct snap_cli_option snap_cli_options[];

enum { SNAP_CLI_EXAMPLES = 3 };

/* A command and its page of help. */
struct snap_cli_verb {
	const char *name;  /* what is typed, except for a snapshot and a watch */
	const char *usage; /* what follows "stacksnap" */
	const char *help;  /* a few words */
	const char *about; /* a sentence or two */
	enum snap_cli_command command;
	int least_files, most_files; /* 0: its operands are process ids */
	struct {
		const char *line, *help;
	} examples[SNAP_CLI_EXAMPLES]; /* the first one stands in --help, too */
};

/* Ended by a NULL name. */
extern const struct snap_cli_verb snap_cli_verbs[];

const struct snap_cli_verb *snap_cli_verb_of(enum snap_cli_command command);
/* Whether its name is a word of the command line. */
bool snap_cli_verb_is_word(const struct snap_cli_verb *verb);

/* Word number `index` of those that the option takes; NULL past the last. */
const char *snap_cli_option_word(const struct snap_cli_option *option, size_t index);

const char *snap_cli_group_title(enum snap_cli_group group);

enum snap_cli_color {
	SNAP_CLI_COLOR_AUTO,
	SNAP_CLI_COLOR_ALWAYS,
	SNAP_CLI_COLOR_NEVER,
};

/* Copies of the options, for `top`, whose threads may not share one object of the library. */
enum snap_cli_other {
	SNAP_CLI_OF_SCREEN,    /* those of what is shown and written */
	SNAP_CLI_OF_SNAPSHOTS, /* those of snapshots that are taken meanwhile */
	SNAP_CLI_OTHER_COUNT,
};

/* An option of the library that was given; a value of NULL: it has none. */
struct snap_cli_setting {
	const char *name, *value;
};

/* What argv asks for. Texts are borrowed from argv or static. */
struct snap_cli_request {
	char **argv; /* borrowed; in the order of getopt_long, operands last */
	int argc;
	enum snap_cli_command command;
	const char *verb_word; /* the command in argv; NULL: it needs no word */
	unsigned takers;       /* commands that take each option that was given */
	bool has_target;       /* one of these names processes */
	char **operands;       /* in argv, with the command's word */
	int operand_count;
	struct stacksnap_options *options; /* owned */
	struct snap_cli_symbol_packages packages;
	const char *format;       /* NULL: not said */
	const char *output;       /* NULL: stdout */
	const char *save_capture; /* NULL: no */
	const char *stats;        /* NULL: no */
	const char *file;         /* the operand of render and core, the first one of diff */
	const char *second_file;  /* the second one of diff */
	char **files;             /* those of merge; borrowed */
	int file_count;
	/* of top, the same as `options`; owned */
	struct stacksnap_options *others[SNAP_CLI_OTHER_COUNT];
	const char *listen;     /* of serve; NULL: not said */
	const char *token_file; /* of serve; NULL: none */
	const char **hosts;     /* of serve; owned, the texts are not */
	size_t host_count;
	/* the library's options that were given, in order, to make more like `options`; owned */
	struct snap_cli_setting *settings;
	size_t setting_count;
	enum snap_cli_color color;
	bool all_groups, no_pager;
	bool help, version;
	const char *topic; /* of help; NULL: the first page */
	int refusal;       /* the exit status where snap_cli_request_init() says no */
};

/*
 * Reads argv. False after a message on stderr: mostly a usage error, see `refusal`. The request is
 * to be released by snap_cli_request_deinit() in any case.
 */
bool snap_cli_request_init(struct snap_cli_request *request, int argc, char **argv);
void snap_cli_request_deinit(struct snap_cli_request *request);

/* How often an option of the library was given. */
unsigned snap_cli_request_has(const struct snap_cli_request *request, const char *name);

/* Whether an option of the library says which processes are meant, and not how far. */
bool snap_cli_names_targets(const char *name);

/*
 * Which processes the pids of the command line mean, now: later ones with the same numbers are others
 * (stacksnap_options_pin()). *ret is the caller's, NULL where no pid was named.
 */
struct stacksnap_error *snap_cli_request_look(const struct snap_cli_request *request,
					      struct stacksnap_snapshot **ret);

/* The format of the report: -f, which with --watch is that of alerts, else the ending of -o, else text. */
const char *snap_cli_request_format(const struct snap_cli_request *request);

/*
 * The page of a command, of all "options" or of the "formats"; NULL: the page that names the others.
 * False: there is no page of this name.
 */
bool snap_cli_print_help(const char *topic, FILE *out);
