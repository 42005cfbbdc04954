/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tables of commands and options: see options.h. */
#include "options.h"

#include <limits.h>

enum {
	SNAPSHOT = SNAP_CLI_SNAPSHOT,
	WATCH = SNAP_CLI_WATCH,
	RENDER = SNAP_CLI_RENDER,
	LIST = SNAP_CLI_LIST,
	RECORD = SNAP_CLI_RECORD,
	TOP = SNAP_CLI_TOP,
	MERGE = SNAP_CLI_MERGE,
	DIFF = SNAP_CLI_DIFF,
	SERVE = SNAP_CLI_SERVE,
	CORE = SNAP_CLI_CORE,
	SAVED = RENDER | CORE,
	SNAPSHOTS = SNAPSHOT | WATCH,
	LIVE = SNAPSHOTS | LIST | RECORD | TOP | SERVE,
	RECORDER = RECORD | TOP,
	TAKER = SNAPSHOTS | RECORDER | SERVE,
	SHOWN = SNAPSHOTS | SAVED | RECORD,
	STACKS = SHOWN | DIFF | SERVE,
	SEEN = STACKS | TOP,
	TREES = SNAPSHOTS | SAVED | LIST | RECORD | DIFF | SERVE,
	PRINTED = SNAPSHOTS | SAVED | LIST | RECORD | DIFF | MERGE,
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
	{ "snapshot",
	  "[OPTIONS] PID...",
	  "what each thread is doing now",
	  "Stops the processes and their descendants for a few milliseconds, copies their\n"
	  "stacks, and prints what each thread is doing. The stop ends epoll_wait, semop\n"
	  "and a few other blocking calls with EINTR: see RISKS in stacksnap(1).",
	  SNAP_CLI_SNAPSHOT,
	  0,
	  0,
	  { { "stacksnap 1329", "one process and its descendants" },
	    { "stacksnap --all --summary", "one line per group of threads" },
	    { "stacksnap --again 1 -o a.html 1329", "a page, with what was stuck for 1 s" } } },
	{ "watch",
	  "--watch[=LIST] [OPTIONS] PID...",
	  "report deadlocks and stuck threads",
	  "Checks the threads again and again, without a stop, and prints a line for each\n"
	  "problem when it begins and when it ends.",
	  SNAP_CLI_WATCH,
	  0,
	  0,
	  { { "stacksnap --watch 1329", "all usual problems, until Ctrl-C" },
	    { "stacksnap --watch=deadlock --once 1329", "check twice; exit status 1: found" },
	    { "stacksnap --watch -o a-%N.txt 1329", "also write a snapshot of each alert" } } },
	{ "record",
	  "record [OPTIONS] PID...",
	  "where time goes: sample threads",
	  "Samples the threads many times a second, and prints where their time goes.",
	  SNAP_CLI_RECORD,
	  0,
	  0,
	  { { "stacksnap record -d 10 1329", "ten seconds, as text" },
	    { "stacksnap record -o a.html 1329", "a page with a flame graph" },
	    { "stacksnap record --ring 1m -o a.html 1329", "the last minute before Ctrl-C" } } },
#ifdef SNAP_WITH_TOP
	{ "top",
	  "top [OPTIONS] PID...",
	  "the same live, full screen",
	  "Samples the threads and shows live what they are doing; ? shows the keys.",
	  SNAP_CLI_TOP,
	  0,
	  0,
	  { { "stacksnap top 1329", "one process" },
	    { "stacksnap top --all --no-idle", "all processes, no idle threads" },
	    { "stacksnap top --name 'redis|nginx'", "processes by name" } } },
#endif
	{ "render",
	  "render [OPTIONS] FILE",
	  "print a saved file in any format",
	  "Prints a recording, a capture, a JSON snapshot or a core in any format.",
	  SNAP_CLI_RENDER,
	  1,
	  1,
	  { { "stacksnap render a.snaprec", "a recording, as text" },
	    { "stacksnap render --from -10s a.snaprec", "its last ten seconds" },
	    { "stacksnap render a.json -o a.html", "a JSON snapshot as a page" } } },
	{ "core",
	  "core [OPTIONS] FILE",
	  "threads of a core file",
	  "Prints what the threads of a core file were doing.",
	  SNAP_CLI_CORE,
	  1,
	  1,
	  { { "stacksnap core core.1329", "a core; - reads standard input" },
	    { "stacksnap core --exe ./redis core.1329", "its program is elsewhere" },
	    { "stacksnap core -o a.json core.1329", "as JSON" } } },
	{ "merge",
	  "merge [OPTIONS] FILE...",
	  "snapshots of many hosts as one",
	  "Merges JSON snapshots of many hosts; what few hosts do comes first.",
	  SNAP_CLI_MERGE,
	  1,
	  INT_MAX,
	  { { "stacksnap merge *.json", "which host is different" },
	    { "stacksnap merge -o all.json *.json", "one document, to be merged again" },
	    { "cat *.json | stacksnap merge -", "from standard input" } } },
	{ "diff",
	  "diff [OPTIONS] FILE FILE",
	  "what changed between two files",
	  "Compares two files: JSON snapshots, captures, or recordings and slices of them.",
	  SNAP_CLI_DIFF,
	  2,
	  2,
	  { { "stacksnap diff a.json b.json", "two snapshots" },
	    { "stacksnap diff a.snaprec@0..5s b.snaprec", "five seconds of a recording" },
	    { "stacksnap diff -o a.html a.json b.json", "as a page" } } },
	{ "list",
	  "list [OPTIONS] [PID...]",
	  "the process tree; stops nothing",
	  "Prints the tree of processes, all of them if none is named. It stops nothing.",
	  SNAP_CLI_LIST,
	  0,
	  0,
	  { { "stacksnap list", "all processes" },
	    { "stacksnap list --no-system", "without kernel threads and similar" },
	    { "stacksnap list --json 1329", "a process and its descendants" } } },
#ifdef SNAP_WITH_SERVE
	{ "serve",
	  "serve [OPTIONS] PID...",
	  "snapshots and profiles over HTTP",
	  "Answers HTTP requests with snapshots, profiles and metrics.",
	  SNAP_CLI_SERVE,
	  0,
	  0,
	  { { "stacksnap serve 1329", "on http://127.0.0.1:6099" },
	    { "stacksnap serve --listen unix:s.sock 1329", "on a socket in the file system" },
	    { "stacksnap serve --all --token-file t", "requests must send the token in t" } } },
#endif
	{ "help",
	  "help [COMMAND]",
	  "options of one command",
	  "Prints the page of a command, of all options, or of the output formats.",
	  SNAP_CLI_HELP,
	  0,
	  1,
	  { { "stacksnap help record", "what 'record --help' prints" },
	    { "stacksnap help options", "all options" },
	    { "stacksnap help formats", "what -f and -o can write" } } },
	{ .name = NULL },
};

/*
 * A row: name, letter, argument, help, group, commands, whether the library or the tool keeps it,
 * kind of value.
 */
const struct snap_cli_option snap_cli_options[] = {
	{ "pid", 'p', "PID", "process ids, separated by commas; -p may be left out", TARGETS, LIVE,
	  LIBRARY, PID },
	{ "name", 0, "REGEX", "processes whose command or program name matches", TARGETS, LIVE,
	  LIBRARY, TEXT },
	{ "unit", 'u', "UNIT", "processes of a systemd unit", TARGETS, LIVE, LIBRARY, TEXT },
	{ "cgroup", 0, "PATH", "processes of a control group", TARGETS, LIVE, LIBRARY, DIRECTORY },
	{ "container", 0, "ID", "processes of a container, by id or name", TARGETS, LIVE, LIBRARY,
	  TEXT },
	{ "all", 'a', NULL, "all processes of the machine", TARGETS, LIVE, LIBRARY, NONE },
	{ "no-children", 0, NULL, "without the descendants of these processes", TARGETS, LIVE,
	  LIBRARY, NONE },

	{ "hz", 0, "RATE", "samples per second, 1 to 10000 (99)", RECORDING, RECORDER, LIBRARY,
	  TEXT },
	{ "task-hz", 0, "RATE", "samples of waiting tasks per second (1); 0 = none", RECORDING,
	  RECORDER, LIBRARY, TEXT },
	{ "duration", 'd', "TIME", "length of the recording: 30, 5m, 1h; 0 = no end (30)",
	  RECORDING, RECORD, LIBRARY, TEXT },
	{ "mode", 0, "MODE", "sample all threads or running ones", RECORDING, RECORDER, LIBRARY,
	  WORD },
	{ "ring", 0, "TIME", "keep the last TIME; SIGUSR1 and the end write it", RECORDING,
	  RECORDER, LIBRARY, TEXT },
	{ "until", 0, "CONDITION", "end, or write the ring, when 'cpu<5% for 10s'", RECORDING,
	  RECORD, LIBRARY, TEXT },
	{ "stats", 0, "FILE", "write statistics of the run as JSON", RECORDING, RECORD, HERE,
	  FILE_NAME },
	{ "from", 0, "TIME", "show only what is later: 5s, -10s, RFC 3339", RECORDING, RENDER,
	  LIBRARY, TEXT },
	{ "to", 0, "TIME", "show only what is earlier", RECORDING, RENDER, LIBRARY, TEXT },
	{ "interval", 0, "TIME", "time between jsonl documents (one per sample)", RECORDING,
	  RECORD | RENDER, LIBRARY, TEXT },

	{ "watch", 0, "LIST", "watch for deadlocks, stuck threads, similar problems", WATCHING,
	  SNAPSHOTS, LIBRARY, OPTIONAL },
	{ "every", 0, "TIME", "time between two checks (1)", WATCHING, WATCH, LIBRARY, TEXT },
	{ "once", 0, NULL, "check twice; exit status 1 if there was an alert", WATCHING, WATCH,
	  LIBRARY, NONE },
	{ "again", 0, "TIME", "take two snapshots, show what is stuck in the second", WATCHING,
	  SNAPSHOT, LIBRARY, TEXT },

#ifdef SNAP_WITH_SERVE
	{ "listen", 0, "PLACE", "ADDRESS:PORT or unix:PATH (127.0.0.1:6099)", SERVING, SERVE, HERE,
	  TEXT },
	{ "host", 0, "NAME", "another name in the Host of requests; repeatable", SERVING, SERVE,
	  HERE, TEXT },
	{ "token-file", 0, "FILE", "file with the token that requests must send", SERVING, SERVE,
	  HERE, FILE_NAME },
#endif

	{ "flat", 0, NULL, "list processes without nesting", VIEWS, TREES, LIBRARY, NONE },
	{ "no-system", 0, NULL, "hide service managers, kernel threads and similar", VIEWS, TREES,
	  LIBRARY, NONE },
	{ "no-idle", 0, NULL, "hide threads that wait for work", VIEWS, SEEN, LIBRARY, NONE },
	{ "state", 0, "LIST", "only threads in these states: running,disk or R,D", VIEWS, SEEN,
	  LIBRARY, WORDS },
	{ "thread", 0, "REGEX", "only threads whose name matches", VIEWS, SEEN, LIBRARY, TEXT },
	{ "match", 0, "REGEX", "only stacks with a function that matches", VIEWS, SEEN, LIBRARY,
	  TEXT },
	{ "group-by", 0, "LIST", "what threads of a group share (process,stack,state)", VIEWS,
	  STACKS, LIBRARY, WORDS },
	{ "per-thread", 0, NULL, "one stack per thread", VIEWS, STACKS, LIBRARY, NONE },
	{ "no-fold", 0, NULL, "show similar processes one by one", VIEWS, SNAPSHOTS | RENDER,
	  LIBRARY, NONE },
	{ "all-groups", 0, NULL, "on a terminal: more than three screens of groups", VIEWS, SHOWN,
	  HERE, NONE },
	{ "call-tree", 0, NULL, "all stacks of a process as one tree, with counts", VIEWS, SHOWN,
	  LIBRARY, NONE },
	{ "reverse", 0, NULL, "with --call-tree: from the innermost functions", VIEWS, SHOWN,
	  LIBRARY, NONE },
	{ "summary", 0, NULL, "one line per group of threads", VIEWS, STACKS, LIBRARY, NONE },
	{ "state-frames", 0, "WHERE", "show states as frames", VIEWS, SNAPSHOTS | RECORD | SAVED,
	  LIBRARY, WORD },
	{ "explain", 0, NULL, "more about waits: hints, since when, for how long", VIEWS,
	  SNAPSHOTS | SAVED, LIBRARY, NONE },
	{ "deadlocks", 0, NULL, "deadlocks, blockers; status 1: deadlock, 3: perhaps", VIEWS,
	  SNAPSHOTS | SAVED, LIBRARY, NONE },
	{ "no-explain", 0, NULL, "do not find out what threads wait for", VIEWS, SEEN, LIBRARY,
	  NONE },
	{ "task-tree", 0, "KEYS", "labels that nest tasks: id,parent,description,type", VIEWS,
	  STACKS, LIBRARY, TEXT },
	{ "system-tasks", 0, NULL, "also show a runtime's own tasks", VIEWS, SEEN, LIBRARY, NONE },
	{ "threads", 0, NULL, "also show the threads that run tasks", VIEWS, SEEN, LIBRARY, NONE },
	{ "native", 0, NULL, "also show an interpreter's own frames", VIEWS, SEEN, LIBRARY, NONE },

	{ "max-frames", 'n', "COUNT", "frames shown per stack, 0 = all (512)", FRAMES, STACKS,
	  LIBRARY, TEXT },
	{ "module", 'm', NULL, "show the module of each frame", FRAMES, STACKS | MERGE, LIBRARY,
	  NONE },
	{ "build-id", 'b', NULL, "show build ids and offsets in files", FRAMES, STACKS | MERGE,
	  LIBRARY, NONE },
	{ "raw", 'r', NULL, "show names as linked, not demangled", FRAMES, SEEN, LIBRARY, NONE },
	{ "quiet", 'q', NULL, "show addresses, look no names up", FRAMES, STACKS, LIBRARY, NONE },
	{ "no-symbolize", 0, NULL, NULL, FRAMES, STACKS, LIBRARY, NONE },
	{ "no-inlines", 0, NULL, "leave out inlined functions", FRAMES, SEEN, LIBRARY, NONE },
	{ "no-lines", 0, NULL, "leave out source files and lines", FRAMES, STACKS, LIBRARY, NONE },
	{ "inlines", 'i', NULL, NULL, FRAMES, STACKS, HERE, NONE },
	{ "source", 's', NULL, NULL, FRAMES, STACKS, HERE, NONE },
	{ "kernel", 0, NULL, "show kernel frames, where permitted", FRAMES, SNAPSHOTS, LIBRARY,
	  NONE },
	{ "runtimes", 0, "LIST", "runtimes to look for: auto, none, or go,php (auto)", FRAMES,
	  TAKER | CORE, LIBRARY, WORDS },
	{ "full-names", 0, NULL, "never shorten long names", FRAMES, SEEN | MERGE, LIBRARY, NONE },

	{ "json", 'j', NULL, "print one JSON document", OUTPUT, PRINTED, HERE, NONE },
	{ "format", 'f', "NAME", "output format, see 'stacksnap help formats'", OUTPUT, PRINTED,
	  HERE, FORMAT },
	{ "output", 'o', "FILE", "write to FILE; its ending selects the format", OUTPUT, PRINTED,
	  HERE, FILE_NAME },
	{ "color", 0, "WHEN", "color the text", OUTPUT, PRINTED | TOP, HERE, WORD },
	{ "no-pager", 0, NULL, "write long reports to the terminal without a pager", OUTPUT,
	  PRINTED & ~WATCH, HERE, NONE },
	{ "width", 0, "COLUMNS", "width of the text, 0 = no limit", OUTPUT, PRINTED, LIBRARY,
	  TEXT },

	{ "no-stop", 0, NULL, "stop no process, only threads that must be, one by one", SAFETY,
	  SNAPSHOTS, LIBRARY, NONE },
	{ "stop-all", 0, NULL, "stop threads that sleep, too", SAFETY, SNAPSHOTS, LIBRARY, NONE },
	{ "force-stop", 0, NULL, "stop threads in calls that it ends early, too", SAFETY, TAKER,
	  LIBRARY, NONE },
	{ "no-sandbox", 0, NULL, "read the targets' files without a sandbox", SAFETY, TREES | TOP,
	  LIBRARY, NONE },
	{ "max-stack", 0, "BYTES", "bytes copied of each thread's stack (1M)", SAFETY, TAKER | CORE,
	  LIBRARY, TEXT },
	{ "runtime-budget", 0, "MS", "longest copy of a runtime's memory (30)", SAFETY, TAKER,
	  LIBRARY, TEXT },
	{ "runtime-memory", 0, "BYTES", "bytes copied of a runtime's memory (64M)", SAFETY,
	  TAKER | CORE, LIBRARY, TEXT },
	{ "max-memory", 0, "BYTES", "memory for recorded samples (256M, serve: 32M)", SAFETY,
	  RECORDER | SERVE, LIBRARY, TEXT },
	{ "max-stopped", 0, "PERCENT", "most of the time that a process is stopped (3)", SAFETY,
	  RECORDER | SERVE, LIBRARY, TEXT },
	{ "stop-timeout", 0, "MS", "longest stop in milliseconds (1000)", SAFETY, TAKER, LIBRARY,
	  TEXT },
	{ "timeout", 0, "MS", "longest run in milliseconds (stop timeout + 10000)", SAFETY,
	  EVERY | TOP, LIBRARY, TEXT },
	{ "engine", 0, "NAME", "unwinder (ptrace is slow)", SAFETY, SNAPSHOTS | SAVED, LIBRARY,
	  WORD },

	{ "save-capture", 0, "FILE", "also save what was read, for 'stacksnap render'", FILES,
	  SNAPSHOT, HERE, FILE_NAME },
	{ "exe", 0, "FILE", "the program of the core, if it is elsewhere", FILES, CORE, LIBRARY,
	  FILE_NAME },
	{ "debug-dir", 0, "DIR", "another directory of programs and debug files", FILES, SEEN,
	  LIBRARY, DIRECTORY },
	{ "debuginfod", 0, NULL, "download missing debug files, after the stop", FILES, STACKS,
	  LIBRARY, NONE },
	{ "perf-map", 0, "WHEN", "names of JIT code from perf maps", FILES, SEEN, LIBRARY, WORD },

	{ "verbose", 'v', NULL, "more detail; twice: the trace, too", GENERAL, EVERY | TOP, LIBRARY,
	  NONE },
	{ "version", 'V', NULL, "print the version", GENERAL, EVERY | TOP, HERE, NONE },
	{ "help", 'h', NULL, "print the help of the command", GENERAL, EVERY | TOP, HERE, NONE },
	{ NULL, 0, NULL, NULL, GENERAL, 0, HERE, NONE },
};

const struct snap_cli_verb *snap_cli_verb_of(enum snap_cli_command command)
{
	const struct snap_cli_verb *verb = snap_cli_verbs;

	while (verb->command != command)
		verb++;
	return verb;
}

bool snap_cli_verb_is_word(const struct snap_cli_verb *verb)
{
	return !(verb->command & SNAPSHOTS);
}

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
