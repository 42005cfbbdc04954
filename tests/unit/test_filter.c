/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Filters of threads, and the views of the tree: whole analyses of captures without registers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analyze.h"
#include "analyze/classify.h"
#include "analyze/filter.h"
#include "raw_process.h"

static void make_mixed(struct raw_process *made)
{
	struct snap_frame_record *wait, *lock, *reads, *own;

	raw_init(made);
	wait = raw_frame(made, 0x1000, "pthread_cond_wait", 0, true);
	lock = raw_frame(made, 0x1010, "pthread_mutex_lock", 0, true);
	reads = raw_frame(made, 0x1020, "read", 0, true);
	own = raw_frame(made, 0x2000, "worker_main", 5, false);
	RAW_STACK(made, wait, own);
	RAW_STACK(made, lock, own);
	RAW_STACK(made, reads, own);
	RAW_STACK(made, wait, raw_frame(made, 0x1030, "start_thread", 0, true));
	RAW_STACK(made, raw_frame(made, 0x2010, "uv__io_poll", 0, false), own);
	raw_thread(made, 1, "pool-1", 'S', 0);
	raw_thread(made, 2, "pool-2", 'S', 1);
	raw_thread(made, 3, "net", 'S', 2);
	raw_thread(made, 4, "timer", 'S', 3);
	raw_thread(made, 5, "loop", 'S', 4);
	raw_thread(made, 6, "pool-3", 'R', 0);
	raw_thread(made, 7, "iou-wrk", 'S', 2)->flags = 0x10;
}

/* The tids that are left, as bits. */
static unsigned shown_tids(struct raw_process *made)
{
	const struct snap_node *node = raw_group(made);
	unsigned tids = 0;

	for (size_t i = 0; i < node->stack_count; i++)
		for (size_t k = 0; k < node->stacks[i].count; k++)
			tids |= 1u << node->stacks[i].threads[k].tid;
	return tids;
}

static void test_no_idle(void **state _unused_)
{
	struct raw_process made;

	make_mixed(&made);
	assert_int_equal(shown_tids(&made), 0xfe);
	made.options.no_idle = true;
	/* Left: the lock, the reads, and the one that runs. */
	assert_int_equal(shown_tids(&made), 1u << 2 | 1u << 3 | 1u << 6 | 1u << 7);
	raw_deinit(&made);
}

/* What the library of a language calls, it calls for its caller; an answer is no work. */
static void test_no_idle_behind_a_library(void **state _unused_)
{
	struct snap_frame_record *wait, *reads, *library, *own;
	struct raw_process made;

	raw_init(&made);
	wait = raw_frame(&made, 0x1000, "sem_clockwait", 0, true);
	reads = raw_frame(&made, 0x1010, "read", 0, true);
	library = raw_frame(&made, 0x1020, "Queue.get", 0, true);
	((struct snap_entry *)library->frame.entries)->language = "python";
	own = raw_frame(&made, 0x2000, "worker", 5, false);
	RAW_STACK(&made, wait, library, library, own);
	RAW_STACK(&made, reads, library, own);
	raw_thread(&made, 1, "pool", 'S', 0);
	raw_thread(&made, 2, "net", 'S', 1);
	made.options.no_idle = true;
	assert_int_equal(shown_tids(&made), 1u << 2);
	raw_deinit(&made);
}

static void test_no_idle_behind_the_library_of_rust(void **state _unused_)
{
	static const char *const functions[] = { "std::thread::park", "std::thread::sleep",
						 "std::sync::Mutex::lock" };
	struct snap_frame_record *waits[3], *own;
	struct raw_process made;

	raw_init(&made);
	waits[0] = waits[2] = raw_frame(&made, 0x1000, "syscall", 0, true);
	waits[1] = raw_frame(&made, 0x1010, "clock_nanosleep", 0, true);
	own = raw_frame(&made, 0x2000, "worker", 5, false);
	for (unsigned i = 0; i < 3; i++) {
		struct snap_frame_record *library =
			raw_frame(&made, 0x3000 + i, functions[i], 0, true);

		library->frame.entries[0].symbol = "_ZN3std5thing17h0123456789abcdefE";
		RAW_STACK(&made, waits[i], library, own);
		raw_thread(&made, (pid_t)i + 1, "rust", 'S', i);
	}
	made.options.no_idle = true;
	assert_int_equal(shown_tids(&made), 1u << 3);
	raw_deinit(&made);
}

static void test_no_idle_behind_headers_of_cxx(void **state _unused_)
{
	static const struct {
		const char *symbol, *function, *file;
		bool system;
	} rows[] = {
		{ "_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int>::push_back(int&&)",
		  "/usr/include/c++/12/bits/stl_vector.h", true },
		{ "_ZNSs6appendEPKc", "std::string::append", "/opt/gcc/include/c++/13/x.h", true },
		{ NULL, "std::__1::mutex::lock", "/usr/lib/llvm-14/include/c++/v1/mutex", true },
		{ "_ZNSt4hashI5OrderEclERKS0_", "std::hash<Order>::operator()", "/srv/order.h",
		  false },
		{ "_Z4workv", "work()", "/usr/include/c++/12/bits/atomic_base.h", false },
		{ "_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int>::push_back(int&&)", NULL,
		  false },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		assert_int_equal(
			snap_classify_cxx_library(rows[i].symbol, rows[i].function, rows[i].file),
			rows[i].system);
}

static void test_states_names_kernel(void **state _unused_)
{
	struct raw_process made;
	regex_t regex;

	make_mixed(&made);
	made.options.states = 1u << SNAP_STATE_RUNNING;
	assert_int_equal(shown_tids(&made), 1u << 6);
	made.options.states = 0;
	made.options.no_system = true;
	assert_int_equal(shown_tids(&made), 0x7e);
	made.options.no_system = false;
	assert_int_equal(regcomp(&regex, "^pool-[12]$", REG_EXTENDED | REG_NOSUB), 0);
	made.options.thread_regex = &regex;
	assert_int_equal(shown_tids(&made), 1u << 1 | 1u << 2);
	regfree(&regex);
	raw_deinit(&made);
}

static void test_match_looks_at_both_names(void **state _unused_)
{
	struct raw_process made;
	regex_t regex;

	make_mixed(&made);
	made.entries[1].function = "shown(int)";
	made.entries[1].symbol = "_Z5showni";
	assert_int_equal(regcomp(&regex, "^shown\\(int", REG_EXTENDED | REG_NOSUB), 0);
	made.options.match_regex = &regex;
	assert_int_equal(shown_tids(&made), 1u << 2);
	regfree(&regex);
	assert_int_equal(regcomp(&regex, "^_Z5sho", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(shown_tids(&made), 1u << 2);
	regfree(&regex);
	assert_int_equal(regcomp(&regex, "no such", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(shown_tids(&made), 0);
	regfree(&regex);
	raw_deinit(&made);
}

static void test_match_knows_suffixes_of_compilers(void **state _unused_)
{
	struct raw_process made;
	regex_t regex;

	make_mixed(&made);
	made.entries[1].function = "parse.constprop.0";
	made.options.match_regex = &regex;
	assert_int_equal(regcomp(&regex, "^parse$", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(shown_tids(&made), 1u << 2);
	regfree(&regex);
	assert_int_equal(regcomp(&regex, "constprop", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(shown_tids(&made), 1u << 2);
	regfree(&regex);
	assert_int_equal(regcomp(&regex, "^pars$", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(shown_tids(&made), 0);
	regfree(&regex);
	raw_deinit(&made);
}

static struct stacksnap_error *find_nothing(void *context _unused_,
					    const struct snap_file_request *request _unused_,
					    int *fd_ret _unused_)
{
	return snap_error_not_found();
}

/*
 * 1 init (system) -> 10 app -> 12 shim (system) -> 13 deep; 1 -> 11 zombie; 1 -> 2 kthread;
 * 20 another root.
 */
enum { INIT, KTHREAD, APP, ZOMBIE, SHIM, DEEP, OTHER, PROCESSES };
static void make_family(struct snap_process *family, struct snap_thread *threads)
{
	static const struct {
		pid_t pid;
		const char *name;
		size_t parent;
		char state;
	} facts[PROCESSES] = {
		[INIT] = { 1, "systemd", SIZE_MAX, 'S' }, [KTHREAD] = { 2, "kthreadd", INIT, 'S' },
		[APP] = { 10, "app", INIT, 'S' },         [ZOMBIE] = { 11, "gone", INIT, 'Z' },
		[SHIM] = { 12, "conmon", APP, 'S' },      [DEEP] = { 13, "deep", SHIM, 'S' },
		[OTHER] = { 20, "other", SIZE_MAX, 'S' },
	};

	for (size_t i = 0; i < PROCESSES; i++) {
		threads[i] = (struct snap_thread){ .tid = facts[i].pid,
						   .name = facts[i].name,
						   .state = facts[i].state,
						   .cpu = -1,
						   .result = SNAP_THREAD_NOT_STOPPED };
		family[i] = (struct snap_process){ .pid = facts[i].pid,
						   .name = facts[i].name,
						   .state = facts[i].state,
						   .parent = facts[i].parent,
						   .uid = (uid_t)-1,
						   .threads = &threads[i],
						   .thread_count = 1 };
	}
	family[KTHREAD].flags = 0x00200000;
	family[KTHREAD].trouble = SNAP_TROUBLE_KERNEL_THREAD;
	family[ZOMBIE].trouble = SNAP_TROUBLE_ZOMBIE;
}

/* "1(2 10(12(13)) 11) 20": the pids as the tree has them. */
static char *shape_of(const struct snap_node *const *nodes, size_t count, char *out)
{
	for (size_t i = 0; i < count; i++) {
		out += sprintf(out, "%s%d", i ? " " : "", nodes[i]->pid);
		if (nodes[i]->child_count) {
			*out++ = '(';
			out = shape_of((const struct snap_node *const *)nodes[i]->children,
				       nodes[i]->child_count, out);
			*out++ = ')';
		}
	}
	*out = '\0';
	return out;
}

static void check_shape(struct snap_options options, const char *expected)
{
	const struct snap_file_finder finder = { .find = find_nothing };
	struct snap_process family[PROCESSES];
	struct snap_thread threads[PROCESSES];
	struct snap_capture capture = { .processes = family, .process_count = PROCESSES };
	struct snap_snapshot *snapshot = NULL;
	char shape[256];

	options.group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE;
	make_family(family, threads);
	assert_null(snap_analyze(&capture, &options, &finder, &snapshot));
	shape_of((const struct snap_node *const *)snapshot->processes, snapshot->root_count, shape);
	assert_string_equal(shape, expected);
	snap_snapshot_destroy(snapshot);
}

static void test_tree_views(void **state _unused_)
{
	regex_t regex;

	check_shape((struct snap_options){ 0 }, "1(2 10(12(13)) 11) 20");
	check_shape((struct snap_options){ .no_system = true }, "10(13) 11 20");
	check_shape((struct snap_options){ .flat = true }, "1 2 10 12 13 11 20");
	check_shape((struct snap_options){ .flat = true, .no_system = true }, "10 13 11 20");
	assert_int_equal(regcomp(&regex, "^deep$", REG_EXTENDED | REG_NOSUB), 0);
	/* What leads to a thread that matches stays; without nesting there is no need. */
	check_shape((struct snap_options){ .thread_regex = &regex }, "1(10(12(13)))");
	check_shape((struct snap_options){ .thread_regex = &regex, .no_system = true }, "10(13)");
	check_shape((struct snap_options){ .thread_regex = &regex, .flat = true }, "13");
	regfree(&regex);
}

static void test_counts_and_missing(void **state _unused_)
{
	const struct snap_file_finder finder = { .find = find_nothing };
	struct snap_options options = { .states = 1u << SNAP_STATE_RUNNING,
					.group_by = SNAP_GROUP_STACK };
	struct snap_process family[PROCESSES];
	struct snap_thread threads[PROCESSES];
	struct snap_capture capture = { .processes = family, .process_count = PROCESSES };
	struct snap_snapshot *snapshot = NULL;

	make_family(family, threads);
	threads[OTHER].state = 'R';
	threads[OTHER].result = SNAP_THREAD_COPIED;
	threads[DEEP].result = SNAP_THREAD_VANISHED;
	family[APP].threads_missed = 2;
	family[SHIM].trouble = SNAP_TROUBLE_PERMISSION_DENIED;
	assert_null(snap_analyze(&capture, &options, &finder, &snapshot));
	/* The one that runs, and the one that could not be read, with what leads to it. */
	assert_int_equal(snapshot->process_count, 4);
	assert_int_equal(snapshot->thread_count, 1);
	assert_int_equal(snapshot->stack_count, 1);
	assert_int_equal(snapshot->processes[0]->children[0]->thread_count, 3);
	assert_int_equal(snapshot->missing.processes, 1);
	/* init and app were not stopped, two of app were missed; who vanished does not count. */
	assert_int_equal(snapshot->missing.threads, 4);
	assert_int_equal(snapshot->missing.shown, 4);
	snap_snapshot_destroy(snapshot);
}

/* The kernel's frames come first, and lines that are none are left out. */
static void test_kernel_frames(void **state _unused_)
{
	static const char text[] = "[<0>] futex_wait+0x12/0x34\n"
				   "[<ffffffff81>] ext4_sync_file+0x1/0x2 [ext4]\n"
				   "junk\n[<0>]\n[<0>] \n[<0>] +0x1/0x2\n[<0>] bare\n]\n";
	const struct snap_file_finder finder = { .find = find_nothing };
	struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	struct snap_thread threads[2] = {
		{ .tid = 1,
		  .state = 'D',
		  .cpu = -1,
		  .result = SNAP_THREAD_NOT_STOPPED,
		  .kernel_stack = text },
		{ .tid = 2,
		  .state = 'D',
		  .cpu = -1,
		  .result = SNAP_THREAD_NOT_STOPPED,
		  .kernel_stack = text },
	};
	struct snap_process process = {
		.pid = 1, .state = 'D', .parent = SIZE_MAX, .threads = threads, .thread_count = 2
	};
	struct snap_capture capture = { .processes = &process, .process_count = 1 };
	struct snap_snapshot *snapshot = NULL;
	const struct snap_stack *stack;

	assert_null(snap_analyze(&capture, &options, &finder, &snapshot));
	assert_int_equal(snapshot->stack_count, 1);
	stack = &snapshot->processes[0]->stacks[0];
	assert_int_equal(stack->count, 2);
	assert_int_equal(stack->frame_count, 3);
	assert_string_equal(stack->frames[0]->entries[0].function, "futex_wait");
	assert_null(stack->frames[0]->module);
	assert_string_equal(stack->frames[1]->entries[0].function, "ext4_sync_file");
	assert_string_equal(stack->frames[1]->module, "[ext4]");
	assert_string_equal(stack->frames[2]->entries[0].symbol, "bare");
	assert_true(stack->frames[2]->entries[0].kernel);
	assert_int_equal(stack->unwind, SNAP_UNWIND_NOT_STOPPED);
	snap_snapshot_destroy(snapshot);
}

static void check_args(const char *bytes, size_t size, size_t expected, const char *description)
{
	const struct snap_file_finder finder = { .find = find_nothing };
	struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	struct snap_process process = { .pid = 1,
					.name = "comm",
					.state = 'S',
					.parent = SIZE_MAX,
					.args = bytes,
					.args_size = size };
	struct snap_capture capture = { .processes = &process, .process_count = 1 };
	struct snap_snapshot *snapshot = NULL;

	assert_null(snap_analyze(&capture, &options, &finder, &snapshot));
	assert_int_equal(snapshot->processes[0]->arg_count, expected);
	assert_string_equal(snapshot->processes[0]->description, description);
	snap_snapshot_destroy(snapshot);
}

static void test_arguments(void **state _unused_)
{
	static const char title[100] = "postgres: writer";

	check_args("prog\0-x\0\0", 9, 3, "prog -x");
	check_args("prog\0-x", 7, 2, "prog -x");
	check_args(title, sizeof(title), 1, "postgres: writer");
	check_args(title, 0, 0, "comm");
	check_args("\0\0", 2, 0, "comm");
}

/* Children of hidden processes move up, however many are hidden in between. */
static void test_long_chains(void **state _unused_)
{
	enum { DEPTH = 5000 };
	const struct snap_file_finder finder = { .find = find_nothing };
	struct snap_options options = { .no_system = true, .group_by = SNAP_GROUP_STACK };
	_cleanup_free_ struct snap_process *chain = calloc(DEPTH, sizeof(*chain));
	struct snap_capture capture = { .processes = chain, .process_count = DEPTH };
	struct snap_snapshot *snapshot = NULL;

	assert_non_null(chain);
	for (size_t i = 0; i < DEPTH; i++)
		chain[i] = (struct snap_process){ .pid = (pid_t)i + 1,
						  .name = i + 1 < DEPTH ? "systemd" : "last",
						  .state = 'S',
						  .parent = i ? i - 1 : SIZE_MAX };
	assert_null(snap_analyze(&capture, &options, &finder, &snapshot));
	assert_int_equal(snapshot->root_count, 1);
	assert_int_equal(snapshot->processes[0]->pid, DEPTH);
	snap_snapshot_destroy(snapshot);
}

/* A wait for a lock is none for work, whatever functions make it: those of Rust are all its library's. */
static void test_locks_below_libraries_are_not_idle(void **state _unused_)
{
	static const struct {
		enum snap_wait_kind kind;
		enum snap_owner_lack lack;
		const char *variant;
		bool is_idle;
	} rows[] = {
		{ SNAP_WAIT_ONCE, SNAP_OWNER_NOT_KEPT, NULL, false },
		{ SNAP_WAIT_MUTEX, SNAP_OWNER_NOT_KEPT, NULL, false },
		{ SNAP_WAIT_MUTEX, SNAP_OWNER_NOT_KEPT, "python", true },
		{ SNAP_WAIT_MUTEX, SNAP_OWNER_NOT_SEEN, NULL, false },
		{ SNAP_WAIT_CONDITION, SNAP_OWNER_NOT_KEPT, NULL, true },
		{ SNAP_WAIT_SEMAPHORE, SNAP_OWNER_NOT_KEPT, NULL, true },
	};
	const struct snap_filter_stack stack = { .idle = "syscall" };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_wait wait = snap_wait_init(rows[i].kind, SNAP_WAIT_IS_CERTAIN);
		const struct snap_member member = { .tid = 7,
						    .state = SNAP_STATE_SLEEPING,
						    .wait = &wait };

		wait.owner_lack = rows[i].lack;
		wait.variant = rows[i].variant;
		assert_int_equal(snap_filter_is_idle(NULL, 7, &member, &stack), rows[i].is_idle);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_idle),
		cmocka_unit_test(test_no_idle_behind_a_library),
		cmocka_unit_test(test_no_idle_behind_the_library_of_rust),
		cmocka_unit_test(test_no_idle_behind_headers_of_cxx),
		cmocka_unit_test(test_locks_below_libraries_are_not_idle),
		cmocka_unit_test(test_states_names_kernel),
		cmocka_unit_test(test_match_looks_at_both_names),
		cmocka_unit_test(test_match_knows_suffixes_of_compilers),
		cmocka_unit_test(test_tree_views),
		cmocka_unit_test(test_counts_and_missing),
		cmocka_unit_test(test_kernel_frames),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_long_chains),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
