/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The text report, byte for byte, and the pieces it is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "render/text/source_paths.h"
#include "render/view/calls/chain.h"
#include "render/view/elide.h"
#include "render/view/when.h"
#include "task_snapshots.h"

static void check_text(const char *name, const struct snap_snapshot *snapshot,
		       const struct snap_options *options)
{
	_cleanup_free_ char *text = golden_render(snap_render_text, snapshot, options, NULL);

	golden_check(name, text);
}

static void test_tree(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };

	check_text("service.txt", &service, &options);
	options.utf8 = false;
	check_text("service-ascii.txt", &service, &options);
}

/* How the threads were seen: at one instant but for those that are late, or one by one. */
static void test_instants(void **state _unused_)
{
	static const struct {
		enum snap_taken first, others;
		bool many_instants;
		const char *text;
	} cases[] = {
		{ SNAP_TAKEN_TOGETHER, SNAP_TAKEN_CONFIRMED, false,
		  "   one instant, 17 of 18 threads stopped for 7.4 ms\n" },
		{ SNAP_TAKEN_UNSTOPPED, SNAP_TAKEN_CONFIRMED, false,
		  "   one instant, 1 thread late, 17 of 18 threads stopped for 7.4 ms\n" },
		{ SNAP_TAKEN_ALONE, SNAP_TAKEN_UNSTOPPED, true,
		  "   not stopped: 11 of 17 threads read without a stop, 1 stopped one by one, not "
		  "at one instant\n" },
	};
	struct snap_options options = { .utf8 = true };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;
		struct snap_snapshot snapshot = service;

		snapshot.many_instants = cases[i].many_instants;
		for (size_t k = 0; k < SNAP_ARRAY_SIZE(workers); k++)
			workers[k].taken = k ? cases[i].others : cases[i].first;
		text = golden_render(snap_render_text, &snapshot, &options, NULL);
		if (!strstr(text, cases[i].text))
			fail_msg("%s is not in %s", cases[i].text, text);
	}
	for (size_t k = 0; k < SNAP_ARRAY_SIZE(workers); k++)
		workers[k].taken = SNAP_TAKEN_TOGETHER;
}

static void test_tasks(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	struct snap_snapshot flat = flat_gitea();

	check_text("tasks.txt", &gitea, &options);
	check_text("tasks-flat.txt", &flat, &options);
	check_text("tasks-hostile.txt", &hostile_gitea, &options);
	options.summary = true;
	check_text("tasks-summary.txt", &gitea, &options);
	options.utf8 = false;
	check_text("tasks-hostile-summary.txt", &hostile_gitea, &options);
}

/* Requests that wait for the same thing are one, with the numbers of all; with -v each by itself. */
static void test_alike(void **state _unused_)
{
	enum { REQUESTS = 5, MARKED = 3 };
	static const char *const ids[] = { "7", "8", "9", "10", "20" }, *const task_ids[] = {
		"31", "30", "33", "40", "50"
	};
	struct snap_logical logical[REQUESTS + 1] = { gitea_logical[0] };
	struct snap_stack stacks[REQUESTS], other = queue_stacks[0];
	struct snap_task tasks[REQUESTS];
	struct snap_node node = gitea_node, *nodes[] = { &node };
	struct snap_snapshot snapshot = gitea;
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *apart = NULL;

	for (size_t i = 0; i < REQUESTS; i++) {
		logical[i + 1] = gitea_logical[1];
		logical[i + 1].id = ids[i];
		logical[i + 1].stacks = &stacks[i];
		stacks[i] = request_stacks[0];
		stacks[i].tasks = &tasks[i];
		tasks[i] = request_tasks[0];
		tasks[i].id = task_ids[i];
	}
	/* One of them stands elsewhere, one has another name. */
	stacks[MARKED].frames = other.frames;
	stacks[MARKED].frame_count = other.frame_count;
	logical[2].name = "POST: /me/repo";
	node.logical = logical;
	node.logical_count = REQUESTS + 1;
	node.child_count = 0;
	snapshot.processes = nodes;
	check_text("tasks-alike.txt", &snapshot, &options);
	options.summary = true;
	check_text("tasks-alike-summary.txt", &snapshot, &options);
	options.verbose = 1;
	apart = golden_render(snap_render_text, &snapshot, &options, NULL);
	for (size_t i = 0; i < REQUESTS; i++) {
		_cleanup_free_ char *id = NULL;

		assert_true(asprintf(&id, " [%s]", ids[i]) > 0);
		assert_non_null(strstr(apart, id));
	}
}

static void test_terminal(void **state _unused_)
{
	struct snap_options options = { .utf8 = true, .color = true, .width = 70 };

	check_text("service-terminal.txt", &service, &options);
	options.color = false;
	options.full_names = true;
	check_text("service-full-names.txt", &service, &options);
}

static void test_views(void **state _unused_)
{
	struct snap_options options = { .utf8 = true, .summary = true };
	struct snap_snapshot flat = flat_service();

	check_text("service-summary.txt", &service, &options);
	check_text("service-flat-summary.txt", &flat, &options);
	options.summary = false;
	check_text("service-flat.txt", &flat, &options);
}

static void test_details(void **state _unused_)
{
	struct snap_options options = { .utf8 = true,
					.verbose = 1,
					.show_module = true,
					.show_build_id = true,
					.raw_names = true };

	check_text("service-details.txt", &service, &options);
}

static void test_trouble(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	struct snap_snapshot snapshot = all_troubled();
	_cleanup_free_ char *list = NULL;

	check_text("trouble.txt", &snapshot, &options);
	list = golden_render(snap_render_list, &snapshot, &options, NULL);
	golden_check("trouble-list.txt", list);
}

static void test_list(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *list = golden_render(snap_render_list, &service, &options, NULL);

	golden_check("service-list.txt", list);
}

static void test_nothing_left(void **state _unused_)
{
	struct snap_snapshot empty = { .host = TEST_HOST, .time_ns = 1795420338106000000 };
	struct snap_options options = { .utf8 = true, .no_idle = true };

	check_text("nothing.txt", &empty, &options);
}

/* What shows the functions of a runtime is what has not been done, and what can be. */
static void check_remedy(const char *runtime, const char *option, bool is_core, const char *says)
{
	struct snap_node_runtime of = { .name = runtime, .unread = true };
	const char *args[] = { runtime, option };
	struct snap_node node = *gitea.processes[0], *root = &node;
	struct snap_snapshot snapshot = gitea;
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *text = NULL;

	node.pid = 77;
	node.exe = "/opt/jdk/bin/java";
	node.args = args;
	node.arg_count = 2;
	node.runtimes = &of;
	node.runtime_count = 1;
	snapshot.processes = &root;
	snapshot.root_count = 1;
	snapshot.waits.lacks = is_core ? SNAP_LACK_CORE : 0;
	text = golden_render(snap_render_text, &snapshot, &options, NULL);
	if (!strstr(text, says))
		fail_msg("%s: not in %.800s", says, text);
}

static void test_remedies(void **state _unused_)
{
	check_remedy(
		"java", "-jar", false,
		"java (functions of Java are not shown: jcmd 77 Compiler.perfmap, or jstack 77)");
	check_remedy("java", "-jar", true,
		     "java (functions of Java are not shown: jhsdb jstack --exe /opt/jdk/bin/java "
		     "--core FILE)");
	check_remedy("node", "app.js", false,
		     "node (functions of JavaScript are not shown: node --perf-basic-prof)");
	check_remedy("node", "--perf_basic_prof", false,
		     "node (functions of JavaScript are not shown: node "
		     "--interpreted-frames-native-stack)");
	check_remedy("node", "--interpreted-frames-native-stack", false,
		     "node (functions of JavaScript are not shown: node --perf-basic-prof)");
}

static void test_hostile(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };

	check_text("hostile.txt", &hostile, &options);
	options.utf8 = false;
	check_text("hostile-ascii.txt", &hostile, &options);
}

/* ---- folders of source paths ---- */

enum { MOST_PATHS = 8 };

struct source_tree {
	struct snap_folders folders;
	struct snap_entry entries[MOST_PATHS];
	struct snap_frame frames[MOST_PATHS];
	size_t count;
};

static void add_source(struct source_tree *tree, const struct snap_options *options,
		       const char *module, const char *path)
{
	struct snap_frame *frame = &tree->frames[tree->count];

	assert_true(tree->count < MOST_PATHS);
	tree->entries[tree->count].function = "f";
	tree->entries[tree->count].file = path;
	*frame = (struct snap_frame){ .module = module,
				      .entries = &tree->entries[tree->count++],
				      .entry_count = 1 };
	for (int line = 0; line < 10; line++)
		assert_true(snap_folders_add(&tree->folders, options, frame));
}

static void check_source(const struct source_tree *tree, const struct snap_options *options,
			 size_t number, const char *expected)
{
	const struct snap_frame *frame = &tree->frames[number];
	_cleanup_free_ char *path =
		snap_folders_path(&tree->folders, options, frame, &frame->entries[0]);

	assert_string_equal(path, expected);
}

/* Of a module that shows these paths: what is left of the first. */
static void check_folder(const char *const *paths, const char *expected)
{
	struct snap_options options = { .utf8 = true };
	struct source_tree tree = { .count = 0 };

	for (size_t i = 0; paths[i]; i++)
		add_source(&tree, &options, "/bin/service", paths[i]);
	check_source(&tree, &options, 0, expected);
	snap_folders_deinit(&tree.folders);
}

#define PATHS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_folders(void **state _unused_)
{
	check_folder(PATHS("/tmp/build/Python-3.11/Objects/call.c",
			   "/tmp/build/Python-3.11/Python/ceval.c"),
		     "Objects/call.c");
	/* Each keeps its last folder, the one of a single path too. */
	check_folder(PATHS("/home/me/orders/src/queue.c"), "src/queue.c");
	check_folder(PATHS("/home/me/orders/main.c", "/home/me/orders/src/queue.c"),
		     "orders/main.c");
	/* Whole folders alone; "." and ".." are none. */
	check_folder(PATHS("/build/orders-1/src/a.c", "/build/orders-2/src/b.c"),
		     "orders-1/src/a.c");
	check_folder(PATHS("/build/x/../orders/./src/a.c", "/build/orders/lib/b.c"), "src/a.c");
	/* A path that is relative, or from somewhere else, would be taken for one of them. */
	check_folder(PATHS("/build/orders/src/a.c", "src/b.c"), "/build/orders/src/a.c");
	check_folder(PATHS("/build/orders/src/a.c", "/usr/include/b.h"), "/build/orders/src/a.c");
	check_folder(PATHS("/a.c", "/src/b.c"), "/a.c");
	check_folder(PATHS("src/a.c"), "src/a.c");
}

/* A language's own code has a folder of its own, whether it lies in a module or not. */
static void test_folders_of_libraries(void **state _unused_)
{
	static const char *const modules[] = { "/bin/service", NULL };
	struct snap_options options = { .utf8 = true };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(modules); i++) {
		struct source_tree tree = { .count = 0 };

		for (size_t k = 0; k < 3; k++) {
			tree.entries[k].language = "go";
			tree.entries[k].system = k < 2;
		}
		add_source(&tree, &options, modules[i], "/usr/lib/go/src/net/http/server.go");
		add_source(&tree, &options, modules[i], "/usr/lib/go/src/sync/mutex.go");
		add_source(&tree, &options, modules[i], "/home/me/orders/src/main.go");
		check_source(&tree, &options, 0, "net/http/server.go");
		check_source(&tree, &options, 1, "sync/mutex.go");
		check_source(&tree, &options, 2, "src/main.go");
		snap_folders_deinit(&tree.folders);
	}
}

static void test_folders_of_modules(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	struct source_tree tree = { .count = 0 };
	struct snap_sheet lines;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	add_source(&tree, &options, "/bin/service", "/build/service/src/a\x1b.c");
	add_source(&tree, &options, "/lib/one.so", "/build/one\n/src/b.c");
	add_source(&tree, &options, "/lib/one.so", "/build/one\n/lib/c.c");
	add_source(&tree, &options, NULL, "/build/jit/src/d.c");
	check_source(&tree, &options, 0, "src/a\x1b.c");
	check_source(&tree, &options, 1, "src/b.c");
	check_source(&tree, &options, 2, "lib/c.c");
	check_source(&tree, &options, 3, "/build/jit/src/d.c");
	snap_sheet_init(&lines, &options, out);
	snap_folders_note(&tree.folders, &lines, true);
	snap_sheet_deinit(&lines);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "\nfolders left out of source paths (--full-names): "
				  "/build/service/ (service), /build/one\\x0a/ (one.so)\n");
	free(text);
	options.full_names = true;
	check_source(&tree, &options, 0, "/build/service/src/a\x1b.c");
	snap_folders_deinit(&tree.folders);
}

/* A line that is shown once is not worth another one. */
static void test_folders_that_do_not_pay(void **state _unused_)
{
	struct snap_entry entry = { .function = "main", .file = "/home/me/src/main.c" };
	struct snap_frame frame = { .module = "/bin/one", .entries = &entry, .entry_count = 1 };
	struct snap_options options = { .utf8 = true };
	struct snap_folders folders = { .count = 0 };
	_cleanup_free_ char *path = NULL;

	assert_true(snap_folders_add(&folders, &options, &frame));
	path = snap_folders_path(&folders, &options, &frame, &entry);
	assert_string_equal(path, entry.file);
	snap_folders_deinit(&folders);
}

/* ---- functions in a line of --summary ---- */

/* Names in the order of calls from the inside, the innermost one its own; "-": without name. */
static void make_chain(const char *names, const char *call, struct snap_stack *stack)
{
	static struct snap_frame frames[64];
	static struct snap_entry entries[64];
	static const struct snap_frame *pointers[64];
	static struct snap_label labels[16];
	static size_t used, label_used;
	static char texts[512];
	static size_t size;
	char *rest = strcpy(&texts[size], names), *name;

	size += strlen(names) + 1;
	labels[label_used] = (struct snap_label){ "syscall", call };
	*stack = (struct snap_stack){ .frames = &pointers[used],
				      .labels = &labels[label_used++],
				      .label_count = call != NULL };
	while ((name = strsep(&rest, " "))) {
		entries[used].function = strcmp(name, "-") == 0 ? NULL : name;
		frames[used].entries = &entries[used];
		frames[used].entry_count = 1;
		pointers[used] = &frames[used];
		used++;
		stack->frame_count++;
	}
}

static void test_what_groups_share_is_left_out(void **state _unused_)
{
	static const struct {
		const char *names, *call, *left;
	} rows[] = {
		{ "wait latch sleep sleep - lock update loop main", "epoll_wait",
		  "latch sleep lock update " },
		{ "wait latch checkpoint loop main", "epoll_wait", "latch checkpoint " },
		{ "wait read loop main", "epoll_wait", "read " },
		{ "loop main", "pselect6", "loop " },
	};
	struct snap_options options = { 0 };
	struct snap_chains chains = { .functions = { .options = &options } };
	struct snap_stack stacks[SNAP_ARRAY_SIZE(rows)];

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		make_chain(rows[i].names, rows[i].call, &stacks[i]);
		assert_true(snap_chains_add(&chains, &stacks[i], stacks[i].frames[0], 0));
	}
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		size_t count;
		_cleanup_free_ struct snap_link *links =
			snap_chains_of(&chains, &stacks[i], stacks[i].frames[0], 0, &count);
		char text[128] = "";

		for (size_t k = 0; k < count; k++)
			strcat(strcat(text, links[k].frame->entries->function), " ");
		assert_string_equal(text, rows[i].left);
	}
	snap_chains_deinit(&chains);
}

/* One group, or equal ones, have nothing that tells them apart: all of it is shown. */
static void test_equal_groups_are_whole(void **state _unused_)
{
	struct snap_options options = { 0 };
	struct snap_chains chains = { .functions = { .options = &options } };
	struct snap_stack stacks[4];

	for (size_t i = 0; i < 4; i++) {
		struct snap_link *links;
		size_t count;

		make_chain("pop main", "futex", &stacks[i]);
		assert_true(snap_chains_add(&chains, &stacks[i], stacks[i].frames[0], 0));
		links = snap_chains_of(&chains, &stacks[i], stacks[i].frames[0], 0, &count);
		assert_int_equal(count, 2);
		free(links);
	}
	snap_chains_deinit(&chains);
}

/* ---- frames that were not found by CFI ---- */

static void test_guessed(void **state _unused_)
{
	struct snap_frame scanned = worker_frame, pointed = at_frame, libc = thread_frame;
	const struct snap_frame *frames[] = {
		&futex_frame, &cond_frame,   &pop_frame, &pointed,
		&scanned,     &worker_frame, &libc,      &clone_frame
	};
	struct snap_node node = *service.processes[0], *nodes[] = { &node };
	struct snap_options options = { .utf8 = true };
	struct snap_snapshot snapshot = service;
	struct snap_stack stack = node.stacks[0];

	pointed.trust = SNAP_TRUST_FRAME_POINTER;
	scanned.trust = libc.trust = SNAP_TRUST_SCAN;
	stack.frames = frames;
	stack.frame_count = SNAP_ARRAY_SIZE(frames);
	stack.unwind = SNAP_UNWIND_SCANNED;
	stack.unwind_detail = NULL;
	node.stacks = &stack;
	node.stack_count = 1;
	node.child_count = 0;
	snapshot.processes = nodes;
	snapshot.root_count = 1;
	check_text("guessed.txt", &snapshot, &options);
	options.utf8 = false;
	options.verbose = 1;
	check_text("guessed-ascii.txt", &snapshot, &options);
	options.verbose = 0;
	options.summary = true;
	frames[2] = &pointed;
	check_text("guessed-summary.txt", &snapshot, &options);
}

/* ---- columns of --summary ---- */

static size_t column_of(const char *report, const char *text)
{
	const char *at = strstr(report, text), *line = at;
	_cleanup_free_ char *before = NULL;

	assert_non_null(at);
	while (line > report && line[-1] != '\n')
		line--;
	before = strndup(line, (size_t)(at - line));
	return snap_text_width(before);
}

/* These begin in one column, each in its line. */
static void check_column(const char *report, const char *const *texts)
{
	for (size_t i = 1; texts[i]; i++)
		assert_int_equal(column_of(report, texts[i]), column_of(report, texts[0]));
}

static void check_columns(const struct snap_snapshot *snapshot, unsigned width)
{
	struct snap_options options = { .utf8 = true, .summary = true, .width = width };
	_cleanup_free_ char *text = golden_render(snap_render_text, snapshot, &options, NULL);

	check_column(text, PATHS("worker-*", "orderd, reindex", "flusher  ", "io   ",
				 "order-helper    "));
	check_column(text, PATHS("sleeping in", "RUNNING", "DISK in jbd2", "DISK in folio"));
	check_column(text, PATHS("queue_pop", "compare", "flush_journal", "order-helper+"));
	check_column(text, PATHS("src/queue.c", "/build/orders/src/tree.c"));
}

static void test_columns(void **state _unused_)
{
	struct snap_snapshot flat = flat_service();

	check_columns(&service, 0);
	check_columns(&flat, 0);
	check_columns(&service, 140);
}

static void check_elided(const char *name, size_t room, const char *expected)
{
	char text[512];

	strcpy(text, name);
	snap_elide_name(text, room, "…");
	assert_string_equal(text, expected);
}

static void test_elide_names(void **state _unused_)
{
	const char *at = "std::vector<Job, std::allocator<Job> >::at(unsigned long)";

	check_elided(at, 80, at);
	check_elided(at, 40, "std::vector<Job, …>::at(unsigned long)");
	check_elided(at, 33, "std::vector<Job, …>::at(…)");
	check_elided(at, 22, "std::vector<…>::at(…)");
	check_elided(at, 10, "std:…at(…)");
	check_elided(at, 4, "…at(…)");
	check_elided("ns::map<K, V<int>, C<K> >::find[abi:cxx11](K const&) [clone .part.0]", 31,
		     "ns::map<K, …, …>::find(…)");
	check_elided("very_long_function_name_with_tail", 20, "very_long…_with_tail");
	check_elided("operator<< <char>(std::ostream&, A<B<C> > const&)", 20,
		     "operator<< <char>(…)");
	check_elided("a::operator()(std::pair<int, int>) const", 25, "a::operator()(…) const");
	check_elided("a::operator-><x<y> >(int)", 22, "a::operator-><…>(int)");
	check_elided("(anonymous namespace)::run(std::function<void (int)>)", 30,
		     "(anonymous namespace)::run(…)");
	check_elided("git.example.org/shop/server/modules/queue.(*Queue).Run", 48,
		     "git.example.org/shop/se…dules/queue.(*Queue).Run");
	check_elided("broken<<<<<<<<<<<<<<<<<<<<<<<<<<((((((", 20, "broken<<<…<<<<((((((");
	check_elided("", 0, "");
}

/* Whoever made it: gcc before version 5 and since, llvm; it may be a part of a name. */
static void test_strings_have_their_short_name(void **state _unused_)
{
	check_elided(
		"f(std::__cxx11::basic_string<char, std::char_traits<char>, "
		"std::allocator<char> > const&, std::basic_string<char, std::char_traits<char>, "
		"std::allocator<char>>)",
		512, "f(std::string const&, std::string)");
	check_elided("std::__1::basic_string<char, std::__1::char_traits<char>, "
		     "std::__1::allocator<char>>::append(char)",
		     64, "std::string::append(char)");
	check_elided("std::basic_string<char, std::char_traits<char>, Mine<int> >::size()", 80,
		     "std::basic_string<char, std::char_traits<char>, Mine<int> >::size()");
}

/* Without a terminal no name loses its middle, and all of it is there if it is asked for. */
static void test_short_names(void **state _unused_)
{
	struct snap_options options = { 0 };
	const char
		*made = "std::vector<std::pair<int, int>, std::allocator<std::pair<int, int> > "
			">::at()",
		*plain = "a_name_of_a_function_in_c_that_is_longer_than_any_line_should_ever_be_0";
	const struct {
		bool full, utf8;
		const char *name, *expected;
	} rows[] = {
		{ false, true, made, "std::vector<…, …>::at()" },
		{ false, false, made, "std::vector<..., ...>::at()" },
		{ true, true, made, made },
		{ false, true, plain, plain },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_free_ char *name = NULL;

		options.full_names = rows[i].full;
		name = snap_short_name(&options, rows[i].utf8, rows[i].name);
		assert_string_equal(name, rows[i].expected);
	}
}

static void test_elide_stays_linear(void **state _unused_)
{
	static char name[4096];

	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = "<(>{:x)"[i % 7];
	snap_elide_name(name, 60, "...");
	assert_true(strlen(name) < sizeof(name));
	memset(name, '<', sizeof(name) - 1);
	snap_elide_name(name, 60, "...");
	assert_true(snap_text_width(name) <= 60);
	strcpy(name, "a<");
	while (strlen(name) < sizeof(name) - 16)
		strcat(name, "operator<,");
	strcat(name, ">");
	snap_elide_name(name, 60, "...");
	assert_true(strlen(name) < sizeof(name));
}

static void test_elide_paths(void **state _unused_)
{
	char path[] = "/build/orders/src/queue.c:57    ";
	char end[] = "some long command line    ", short_end[16], escape[32];

	path[28] = '\0';
	snap_elide_path(path, 18, "…");
	assert_string_equal(path, "…/src/queue.c:57");
	snap_elide_path(path, 4, "…");
	assert_string_equal(path, "queue.c:57");
	end[22] = '\0';
	strcpy(short_end, "ab");
	snap_elide_end(short_end, 1, "…");
	assert_string_equal(short_end, "ab");
	strcpy(short_end, "日本語");
	snap_elide_end(short_end, 5, "…");
	assert_string_equal(short_end, "日本…");
	snap_elide_end(end, 10, "…");
	assert_string_equal(end, "some long…");
	/* An escape is one character: it stays whole or goes. */
	strcpy(escape, "ab\\x1b\\\\cdefgh");
	assert_int_equal(snap_text_width(escape), 14);
	snap_elide_end(escape, 6, "…");
	assert_string_equal(escape, "ab…");
	assert_int_equal(snap_text_width("日本e\xcc\x81"), 5);
	assert_string_equal(
		snap_source_path("/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/a.rs"),
		"library/a.rs");
	assert_string_equal(snap_source_path("/rustc/5980/library/a.rs"),
			    "/rustc/5980/library/a.rs");
}

static void test_times(void **state _unused_)
{
	char text[SNAP_WHEN_SIZE];

	snap_when(1795420338106999999, ' ', 3, text);
	assert_string_equal(text, "2026-11-23 07:52:18.106Z");
	snap_when(-1, 'T', 9, text);
	assert_string_equal(text, "1969-12-31T23:59:59.999999999Z");
	snap_when_uptime(59999999999, text);
	assert_string_equal(text, "59s");
	snap_when_uptime(725000000000, text);
	assert_string_equal(text, "12m05s");
	snap_when_uptime(11220000000000, text);
	assert_string_equal(text, "3h07m");
	snap_when_uptime(273600000000000, text);
	assert_string_equal(text, "3d04h");
	snap_when_length(850400, text);
	assert_string_equal(text, "850 us");
	snap_when_length(7449000, text);
	assert_string_equal(text, "7.4 ms");
	snap_when_length(1259000000, text);
	assert_string_equal(text, "1.25 s");
	/* As a document may say. */
	snap_when_length(INT64_MAX, text);
	assert_string_equal(text, "9223372036.85 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_instants),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_details),
		cmocka_unit_test(test_trouble),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_nothing_left),
		cmocka_unit_test(test_remedies),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_elide_names),
		cmocka_unit_test(test_what_groups_share_is_left_out),
		cmocka_unit_test(test_equal_groups_are_whole),
		cmocka_unit_test(test_strings_have_their_short_name),
		cmocka_unit_test(test_short_names),
		cmocka_unit_test(test_elide_stays_linear),
		cmocka_unit_test(test_elide_paths),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_folders),
		cmocka_unit_test(test_folders_of_modules),
		cmocka_unit_test(test_folders_of_libraries),
		cmocka_unit_test(test_folders_that_do_not_pay),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_guessed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
