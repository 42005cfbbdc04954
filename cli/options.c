/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tables of commands and options: see options.h. */
#include "options.h"

enum {
	SNAPSHOT = SNAP_CLI_SNAPSHOT,
	RENDER = SNAP_CLI_RENDER,
	LIST = SNAP_CLI_LIST,
	RECORD = SNAP_CLI_RECORD,
	TOP = SNAP_CLI_TOP,
	MERGE = SNAP_CLI_MERGE,
	DIFF = SNAP_CLI_DIFF,
	SERVE = SNAP_CLI_SERVE,
	CORE = SNAP_CLI_CORE,
	SAVED = RENDER | CORE,
	LIVE = SNAPSHOT | LIST | RECORD | TOP | SERVE,
	RECORDER = RECORD | TOP,
	TAKER = SNAPSHOT | RECORDER | SERVE,
	SHOWN = SNAPSHOT | SAVED | RECORD,
	STACKS = SHOWN | DIFF | SERVE,
	SEEN = STACKS | TOP,
	TREES = SNAPSHOT | SAVED | LIST | RECORD | DIFF | SERVE,
	PRINTED = SNAPSHOT | SAVED | LIST | RECORD | DIFF | MERGE,
	EVERY = PRINTED | SERVE,
};

enum { LIBRARY = false, HERE = true };

#define TARGETS SNAP_CLI_TARGETS
#define RECORDING SNAP_CLI_RECORDING
#define VIEWS SNAP_CLI_VIEWS
#define FRAMES SNAP_CLI_FRAMES
#define WATCHING SNAP_CLI_WATCHING
#define SERVING SNAP_CLI_SERVING
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
#define OPTIONAL SNAP_CLI_VALUE_OPTIONAL

const struct snap_cli_verb snap_cli_verbs[] = {
	{ "record", "[PID...]", "sample threads for a while, to see where time goes",
	  SNAP_CLI_RECORD },
#ifdef SNAP_WITH_TOP
	{ "top", "[PID...]", "show live what threads do, full screen", SNAP_CLI_TOP },
#endif
	{ "render", "FILE", "print a recording, a capture, a JSON snapshot or a core",
	  SNAP_CLI_RENDER },
	{ "core", "FILE", "print what the threads of a core file were doing", SNAP_CLI_CORE },
	{ "merge", "FILE...", "merge JSON snapshots of many hosts, the odd one out first",
	  SNAP_CLI_MERGE },
	{ "diff", "FILE FILE", "print what changed between two of them", SNAP_CLI_DIFF },
	{ "list", "[PID...]", "print the process tree; nothing is stopped", SNAP_CLI_LIST },
#ifdef SNAP_WITH_SERVE
	{ "serve", "[PID...]", "answer with snapshots and recordings over HTTP", SNAP_CLI_SERVE },
#endif
	{ NULL, NULL, NULL, 0 },
};

/* A row: name, letter, argument, help, group, commands, who keeps it, kind of value. */
const struct snap_cli_option snap_cli_options[] = {
	{ "pid", 'p', "PID", "process ids, comma-separated; -p is optional", TARGETS, LIVE, LIBRARY,
	  PID },
	{ "name", 0, "REGEX", "targets by command name or executable name", TARGETS, LIVE, LIBRARY,
	  TEXT },
	{ "unit", 'u', "UNIT", "targets by systemd unit", TARGETS, LIVE, LIBRARY, TEXT },
	{ "cgroup", 0, "PATH", "targets by control group", TARGETS, LIVE, LIBRARY, DIRECTORY },
	{ "container", 0, "ID", "targets by container id or name", TARGETS, LIVE, LIBRARY, TEXT },
	{ "all", 'a', NULL, "the whole machine", TARGETS, LIVE, LIBRARY, NONE },
	{ "no-children", 0, NULL, "leave out descendants of the targets", TARGETS, LIVE, LIBRARY,
	  NONE },

	{ "hz", 0, "RATE", "samples per second, 1 to 10000 (99)", RECORDING, RECORDER, LIBRARY,
	  TEXT },
	{ "task-hz", 0, "RATE", "looks at tasks that wait, per second (1); 0 = none", RECORDING,
	  RECORDER, LIBRARY, TEXT },
	{ "rate", 0, "RATE", "same as --hz", RECORDING, RECORDER, LIBRARY, TEXT },
	{ "duration", 'd', "TIME", "length: 30, 5m, 1h; 0 = until Ctrl-C (30)", RECORDING, RECORD,
	  LIBRARY, TEXT },
	{ "mode", 0, "MODE", "sample all threads or running ones", RECORDING, RECORDER, LIBRARY,
	  WORD },
	{ "ring", 0, "TIME", "keep the last TIME, written on SIGUSR1 and at the end", RECORDING,
	  RECORDER, LIBRARY, TEXT },
	{ "until", 0, "CONDITION", "stop, or write the ring, when 'cpu<5% for 10s'", RECORDING,
	  RECORD, LIBRARY, TEXT },
	{ "stats", 0, "FILE", "write statistics of the run as JSON", RECORDING, RECORD, HERE,
	  FILE_NAME },
	{ "from", 0, "TIME", "start of the part to show: 5s, -10s, RFC 3339", RECORDING, RENDER,
	  LIBRARY, TEXT },
	{ "to", 0, "TIME", "end of the part to show", RECORDING, RENDER, LIBRARY, TEXT },
	{ "interval", 0, "TIME", "time between jsonl documents (one per sample)", RECORDING,
	  RECORD | RENDER, LIBRARY, TEXT },
	{ "state-frames", 0, "WHERE", "show states as frames", RECORDING, SNAPSHOT | RECORD | SAVED,
	  LIBRARY, WORD },

	{ "watch", 0, "LIST", "look on for deadlocks and the like, and tell of them", WATCHING,
	  SNAPSHOT, LIBRARY, OPTIONAL },
	{ "every", 0, "TIME", "time between two looks of --watch (1)", WATCHING, SNAPSHOT, LIBRARY,
	  TEXT },
	{ "once", 0, NULL, "look twice, and end with 1 if there was an alert", WATCHING, SNAPSHOT,
	  LIBRARY, NONE },

	{ "again", 0, "TIME", "take two snapshots, show the second with what is stuck", WATCHING,
	  SNAPSHOT, LIBRARY, TEXT },

#ifdef SNAP_WITH_SERVE
	{ "listen", 0, "PLACE", "ADDRESS:PORT or unix:PATH (127.0.0.1:6099)", SERVING, SERVE, HERE,
	  TEXT },
	{ "token-file", 0, "FILE", "the secret that requests must show", SERVING, SERVE, HERE,
	  FILE_NAME },
#endif

	{ "flat", 0, NULL, "list processes without nesting", VIEWS, TREES, LIBRARY, NONE },
	{ "no-system", 0, NULL, "hide service managers, kernel threads and the like", VIEWS, TREES,
	  LIBRARY, NONE },
	{ "no-idle", 0, NULL, "hide threads that wait for work", VIEWS, SEEN, LIBRARY, NONE },
	{ "state", 0, "LIST", "only threads in these states, as running,disk", VIEWS, SEEN, LIBRARY,
	  WORDS },
	{ "thread", 0, "REGEX", "only threads with a matching name", VIEWS, SEEN, LIBRARY, TEXT },
	{ "match", 0, "REGEX", "only stacks with a matching function", VIEWS, SEEN, LIBRARY, TEXT },
	{ "group-by", 0, "LIST", "what groups share (process,stack,state)", VIEWS, STACKS, LIBRARY,
	  WORDS },
	{ "per-thread", 0, NULL, "one stack per thread", VIEWS, STACKS, LIBRARY, NONE },
	{ "no-fold", 0, NULL, "show processes that are alike one by one", VIEWS, SNAPSHOT | RENDER,
	  LIBRARY, NONE },
	{ "call-tree", 0, NULL, "all stacks of a process as one tree of calls, with counts", VIEWS,
	  SHOWN, LIBRARY, NONE },
	{ "reverse", 0, NULL, "the tree of --call-tree from the innermost functions", VIEWS, SHOWN,
	  LIBRARY, NONE },
	{ "summary", 0, NULL, "one line per group", VIEWS, STACKS, LIBRARY, NONE },
	{ "explain", 0, NULL, "say more of waits: hints, since when, for how long", VIEWS,
	  SNAPSHOT | SAVED, LIBRARY, NONE },
	{ "deadlocks", 0, NULL, "only deadlocks and what blocks; status 1 if there is one", VIEWS,
	  SNAPSHOT | SAVED, LIBRARY, NONE },
	{ "no-explain", 0, NULL, "neither look at nor say what threads wait for", VIEWS, SEEN,
	  LIBRARY, NONE },
	{ "task-tree", 0, "KEYS", "labels that nest tasks: id,parent,description,type", VIEWS,
	  STACKS, LIBRARY, TEXT },
	{ "system-tasks", 0, NULL, "show the tasks of a runtime itself, too", VIEWS, SEEN, LIBRARY,
	  NONE },
	{ "threads", 0, NULL, "show the threads that carry tasks, too", VIEWS, SEEN, LIBRARY,
	  NONE },
	{ "native", 0, NULL, "show the frames of an interpreter itself, too", VIEWS, SEEN, LIBRARY,
	  NONE },

	{ "max-frames", 'n', "COUNT", "frames shown per stack, 0 = all (512)", FRAMES, STACKS,
	  LIBRARY, TEXT },
	{ "module", 'm', NULL, "show the module of each frame", FRAMES, STACKS | MERGE, LIBRARY,
	  NONE },
	{ "build-id", 'b', NULL, "show build ids and offsets", FRAMES, STACKS | MERGE, LIBRARY,
	  NONE },
	{ "raw", 'r', NULL, "names as linked, not demangled", FRAMES, SEEN, LIBRARY, NONE },
	{ "quiet", 'q', NULL, "no symbols, only addresses", FRAMES, STACKS, LIBRARY, NONE },
	{ "no-symbolize", 0, NULL, "the same, to be named where it is rendered", FRAMES, STACKS,
	  LIBRARY, NONE },
	{ "no-inlines", 0, NULL, "leave out inlined functions", FRAMES, SEEN, LIBRARY, NONE },
	{ "no-lines", 0, NULL, "leave out source files and lines", FRAMES, STACKS, LIBRARY, NONE },
	{ "inlines", 'i', NULL, "no effect: inlined functions are on by default", FRAMES, STACKS,
	  HERE, NONE },
	{ "source", 's', NULL, "no effect: source lines are on by default", FRAMES, STACKS, HERE,
	  NONE },
	{ "kernel", 0, NULL, "show kernel frames, where permitted", FRAMES, SNAPSHOT, LIBRARY,
	  NONE },
	{ "runtimes", 0, "LIST", "runtimes that are looked for (auto)", FRAMES, TAKER | CORE,
	  LIBRARY, WORDS },
	{ "full-names", 0, NULL, "never shorten long names", FRAMES, STACKS | MERGE, LIBRARY,
	  NONE },

	{ "json", 'j', NULL, "same as --format json", OUTPUT, PRINTED, HERE, NONE },
	{ "format", 'f', "NAME", "output format, see below", OUTPUT, PRINTED, HERE, FORMAT },
	{ "output", 'o', "FILE", "write to FILE; its suffix selects the format", OUTPUT, PRINTED,
	  HERE, FILE_NAME },
	{ "color", 0, "WHEN", "color the text", OUTPUT, PRINTED | TOP, HERE, WORD },
	{ "width", 0, "COLUMNS", "width of the text, 0 = unlimited", OUTPUT, PRINTED, LIBRARY,
	  TEXT },

	{ "no-stop", 0, NULL, "read blocked threads as they are, stop others alone", SAFETY,
	  SNAPSHOT, LIBRARY, NONE },
	{ "no-sandbox", 0, NULL, "read files of the targets without a sandbox", SAFETY, TREES | TOP,
	  LIBRARY, NONE },
	{ "max-stack", 0, "BYTES", "bytes copied per thread stack (1M)", SAFETY, TAKER | CORE,
	  LIBRARY, TEXT },
	{ "runtime-budget", 0, "MS", "longest copy of a runtime's memory (30)", SAFETY, TAKER,
	  LIBRARY, TEXT },
	{ "runtime-memory", 0, "BYTES", "memory copied of a runtime (64M)", SAFETY, TAKER | CORE,
	  LIBRARY, TEXT },
	{ "max-memory", 0, "BYTES", "memory for what is recorded (256M)", SAFETY, RECORDER | SERVE,
	  LIBRARY, TEXT },
	{ "max-stopped", 0, "PERCENT", "longest that a process stands, of the time (3)", SAFETY,
	  RECORDER | SERVE, LIBRARY, TEXT },
	{ "stop-timeout", 0, "MS", "longest stop in milliseconds (1000)", SAFETY, TAKER, LIBRARY,
	  TEXT },
	{ "timeout", 0, "MS", "longest run in milliseconds (stop timeout + 10000)", SAFETY,
	  EVERY | TOP, LIBRARY, TEXT },
	{ "engine", 0, "NAME", "unwinder (ptrace: slow)", SAFETY, SNAPSHOT | SAVED, LIBRARY, WORD },

	{ "save-capture", 0, "FILE", "also save the capture, for 'stacksnap render'", FILES,
	  SNAPSHOT, HERE, FILE_NAME },
	{ "exe", 0, "FILE", "the program of a core, where it lies elsewhere", FILES, CORE, LIBRARY,
	  FILE_NAME },
	{ "debug-dir", 0, "DIR", "another directory of programs and debug files", FILES, SEEN,
	  LIBRARY, DIRECTORY },
	{ "debuginfod", 0, NULL, "download missing debug files, after the stop", FILES, STACKS,
	  LIBRARY, NONE },
	{ "perf-map", 0, "WHEN", "names of JIT code", FILES, SEEN, LIBRARY, WORD },

	{ "verbose", 'v', NULL, "more detail; twice: even more", GENERAL, EVERY | TOP, LIBRARY,
	  NONE },
	{ "version", 'V', NULL, "print the version", GENERAL, EVERY | TOP, HERE, NONE },
	{ "help", 'h', NULL, "print this help", GENERAL, EVERY | TOP, HERE, NONE },
	{ NULL, 0, NULL, NULL, GENERAL, 0, HERE, NONE },
};

const char *snap_cli_option_word(const struct snap_cli_option *option, size_t index)
{
	if (option->value == SNAP_CLI_VALUE_FORMAT)
		return stacksnap_format_name(index, NULL, NULL);
	return stacksnap_options_value(option->name, index);
}

const char *snap_cli_group_title(enum snap_cli_group group)
{
	switch (group) {
	case SNAP_CLI_TARGETS:
		return "Targets";
	case SNAP_CLI_RECORDING:
		return "Recording";
	case SNAP_CLI_WATCHING:
		return "Watching";
	case SNAP_CLI_SERVING:
		return "Serving";
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
