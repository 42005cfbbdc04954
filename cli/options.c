/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tables of commands and options: see options.h. No code but what prints a title. */
#include "options.h"

enum {
	SNAPSHOT = SNAP_CLI_SNAPSHOT,
	RENDER = SNAP_CLI_RENDER,
	LIST = SNAP_CLI_LIST,
	RECORD = SNAP_CLI_RECORD,
	LIVE = SNAPSHOT | LIST | RECORD,
	STACKS = SNAPSHOT | RENDER | RECORD,
	EVERY = SNAPSHOT | RENDER | LIST | RECORD,
};

enum { LIBRARY = false, HERE = true };

#define TARGETS SNAP_CLI_TARGETS
#define RECORDING SNAP_CLI_RECORDING
#define VIEWS SNAP_CLI_VIEWS
#define FRAMES SNAP_CLI_FRAMES
#define OUTPUT SNAP_CLI_OUTPUT
#define SAFETY SNAP_CLI_SAFETY
#define FILES SNAP_CLI_FILES
#define GENERAL SNAP_CLI_GENERAL

#define NONE SNAP_CLI_VALUE_NONE
#define TEXT SNAP_CLI_VALUE_TEXT
#define PID SNAP_CLI_VALUE_PID
#define FILE_NAME SNAP_CLI_VALUE_FILE
#define DIRECTORY SNAP_CLI_VALUE_DIRECTORY
#define WORD SNAP_CLI_VALUE_WORD
#define WORDS SNAP_CLI_VALUE_WORDS
#define FORMAT SNAP_CLI_VALUE_FORMAT

#define STATES "running sleeping disk stopped traced zombie dead idle parked unknown"
#define LABELS "stack state name syscall wchan cpu type tid"

const struct snap_cli_verb snap_cli_verbs[] = {
	{ "record", "[PID...]", "sample threads for a while, to see where time goes",
	  SNAP_CLI_RECORD },
	{ "render", "FILE", "print a recording, a capture or a JSON snapshot", SNAP_CLI_RENDER },
	{ "list", "[PID...]", "print the process tree; nothing is stopped", SNAP_CLI_LIST },
	{ NULL, NULL, NULL, 0 },
};

/* A row: name, letter, argument, help, group, commands, who keeps it, kind of value, words. */
const struct snap_cli_option snap_cli_options[] = {
	{ "pid", 'p', "PID", "target process, or several, with commas; -p is optional", TARGETS,
	  LIVE, LIBRARY, PID, NULL },
	{ "name", 0, "REGEX", "targets by command name or executable name", TARGETS, LIVE, LIBRARY,
	  TEXT, NULL },
	{ "unit", 'u', "UNIT", "targets by systemd unit", TARGETS, LIVE, LIBRARY, TEXT, NULL },
	{ "cgroup", 0, "PATH", "targets by control group", TARGETS, LIVE, LIBRARY, DIRECTORY,
	  NULL },
	{ "container", 0, "ID", "targets by container id", TARGETS, LIVE, LIBRARY, TEXT, NULL },
	{ "all", 'a', NULL, "the whole machine", TARGETS, LIVE, LIBRARY, NONE, NULL },
	{ "no-children", 0, NULL, "leave out descendants of the targets", TARGETS, LIVE, LIBRARY,
	  NONE, NULL },

	{ "hz", 0, "RATE", "samples per second, 1 to 10000 (99)", RECORDING, RECORD, LIBRARY, TEXT,
	  NULL },
	{ "rate", 0, "RATE", "same as --hz", RECORDING, RECORD, LIBRARY, TEXT, NULL },
	{ "duration", 'd', "TIME", "length: 30, 5m, 1h; 0 = until Ctrl-C (30)", RECORDING, RECORD,
	  LIBRARY, TEXT, NULL },
	{ "mode", 0, "MODE", "wall (all threads) or cpu (running ones)", RECORDING, RECORD, LIBRARY,
	  WORD, "wall cpu" },
	{ "ring", 0, "TIME", "keep the last TIME, written on SIGUSR1 and at the end", RECORDING,
	  RECORD, LIBRARY, TEXT, NULL },
	{ "until", 0, "CONDITION", "stop, or write the ring, when 'cpu<5% for 10s'", RECORDING,
	  RECORD, LIBRARY, TEXT, NULL },
	{ "stats", 0, "FILE", "write statistics of the run as JSON", RECORDING, RECORD, HERE,
	  FILE_NAME, NULL },
	{ "from", 0, "TIME", "start of the part to show: 5s, -10s, RFC 3339", RECORDING, RENDER,
	  LIBRARY, TEXT, NULL },
	{ "to", 0, "TIME", "end of the part to show", RECORDING, RENDER, LIBRARY, TEXT, NULL },
	{ "interval", 0, "TIME", "time between jsonl documents (one per sample)", RECORDING,
	  RECORD | RENDER, LIBRARY, TEXT, NULL },
	{ "state-frames", 0, "WHERE", "show states as frames: root, leaf or no", RECORDING,
	  SNAPSHOT | RECORD | RENDER, LIBRARY, WORD, "root leaf no" },

	{ "flat", 0, NULL, "list processes without nesting", VIEWS, EVERY, LIBRARY, NONE, NULL },
	{ "no-system", 0, NULL, "hide service managers, kernel threads and the like", VIEWS, EVERY,
	  LIBRARY, NONE, NULL },
	{ "no-idle", 0, NULL, "hide threads that wait for work", VIEWS, STACKS, LIBRARY, NONE,
	  NULL },
	{ "state", 0, "LIST", "only threads in these states, as running,disk", VIEWS, STACKS,
	  LIBRARY, WORDS, STATES },
	{ "thread", 0, "REGEX", "only threads with a matching name", VIEWS, STACKS, LIBRARY, TEXT,
	  NULL },
	{ "match", 0, "REGEX", "only stacks with a matching function", VIEWS, STACKS, LIBRARY, TEXT,
	  NULL },
	{ "group-by", 0, "LIST", "what the threads of a group share (stack,state)", VIEWS, STACKS,
	  LIBRARY, WORDS, LABELS },
	{ "per-thread", 0, NULL, "one stack per thread", VIEWS, STACKS, LIBRARY, NONE, NULL },
	{ "summary", 0, NULL, "one line per group", VIEWS, STACKS, LIBRARY, NONE, NULL },

	{ "max-frames", 'n', "COUNT", "frames shown per stack, 0 = all (512)", FRAMES, STACKS,
	  LIBRARY, TEXT, NULL },
	{ "module", 'm', NULL, "show the module of each frame", FRAMES, STACKS, LIBRARY, NONE,
	  NULL },
	{ "build-id", 'b', NULL, "show build ids and offsets", FRAMES, STACKS, LIBRARY, NONE,
	  NULL },
	{ "raw", 'r', NULL, "names as linked, not demangled", FRAMES, STACKS, LIBRARY, NONE, NULL },
	{ "quiet", 'q', NULL, "no symbols, only addresses", FRAMES, STACKS, LIBRARY, NONE, NULL },
	{ "no-inlines", 0, NULL, "leave out inlined functions", FRAMES, STACKS, LIBRARY, NONE,
	  NULL },
	{ "no-lines", 0, NULL, "leave out source files and lines", FRAMES, STACKS, LIBRARY, NONE,
	  NULL },
	{ "inlines", 'i', NULL, "no effect: inlined functions are on by default", FRAMES, STACKS,
	  HERE, NONE, NULL },
	{ "source", 's', NULL, "no effect: source lines are on by default", FRAMES, STACKS, HERE,
	  NONE, NULL },
	{ "kernel", 0, NULL, "show kernel frames, where permitted", FRAMES, SNAPSHOT, LIBRARY, NONE,
	  NULL },
	{ "full-names", 0, NULL, "never shorten long names", FRAMES, STACKS, LIBRARY, NONE, NULL },

	{ "json", 'j', NULL, "same as --format json", OUTPUT, EVERY, HERE, NONE, NULL },
	{ "format", 'f', "NAME", "output format, see below", OUTPUT, EVERY, HERE, FORMAT, NULL },
	{ "output", 'o', "FILE", "write to FILE; its suffix selects the format", OUTPUT, EVERY,
	  HERE, FILE_NAME, NULL },
	{ "color", 0, "WHEN", "auto, always or never", OUTPUT, EVERY, HERE, WORD,
	  "auto always never" },
	{ "width", 0, "COLUMNS", "width of the text, 0 = unlimited", OUTPUT, EVERY, LIBRARY, TEXT,
	  NULL },

	{ "no-stop", 0, NULL, "read blocked threads as they are, stop others alone", SAFETY,
	  SNAPSHOT, LIBRARY, NONE, NULL },
	{ "no-sandbox", 0, NULL, "read files of the targets without a sandbox", SAFETY, EVERY,
	  LIBRARY, NONE, NULL },
	{ "max-stack", 0, "BYTES", "bytes copied per thread stack (1M)", SAFETY, SNAPSHOT | RECORD,
	  LIBRARY, TEXT, NULL },
	{ "stop-timeout", 0, "MS", "longest stop in milliseconds (1000)", SAFETY, SNAPSHOT | RECORD,
	  LIBRARY, TEXT, NULL },
	{ "timeout", 0, "MS", "longest run in milliseconds (stop timeout + 10000)", SAFETY, EVERY,
	  LIBRARY, TEXT, NULL },
	{ "engine", 0, "NAME", "auto, libunwind, or ptrace (slow: unwinds while stopped)", SAFETY,
	  SNAPSHOT | RENDER, LIBRARY, WORD, "auto libunwind ptrace" },

	{ "save-capture", 0, "FILE", "also save the capture, for 'stacksnap render'", FILES,
	  SNAPSHOT, HERE, FILE_NAME, NULL },
	{ "debug-dir", 0, "DIR", "another directory of programs and debug files", FILES, STACKS,
	  LIBRARY, DIRECTORY, NULL },
	{ "debuginfod", 0, NULL, "download missing debug files, after the stop", FILES, STACKS,
	  LIBRARY, NONE, NULL },
	{ "perf-map", 0, "WHEN", "names of JIT code: auto, always or never", FILES, STACKS, LIBRARY,
	  WORD, "auto always never" },

	{ "verbose", 'v', NULL, "more detail; twice: even more", GENERAL, EVERY, LIBRARY, NONE,
	  NULL },
	{ "version", 'V', NULL, "print the version", GENERAL, EVERY, HERE, NONE, NULL },
	{ "help", 'h', NULL, "print this help", GENERAL, EVERY, HERE, NONE, NULL },
	{ NULL, 0, NULL, NULL, GENERAL, 0, HERE, NONE, NULL },
};

const char *snap_cli_group_title(enum snap_cli_group group)
{
	switch (group) {
	case SNAP_CLI_TARGETS:
		return "Targets";
	case SNAP_CLI_RECORDING:
		return "Recording";
	case SNAP_CLI_VIEWS:
		return "Views, filters, groups";
	case SNAP_CLI_FRAMES:
		return "Stacks";
	case SNAP_CLI_OUTPUT:
		return "Output";
	case SNAP_CLI_SAFETY:
		return "Limits and safety";
	case SNAP_CLI_FILES:
		return "Files";
	case SNAP_CLI_GENERAL:
		return "General";
	case SNAP_CLI_GROUP_COUNT:
		break;
	}
	return "";
}
