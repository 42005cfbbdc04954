/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Labels of threads and groups, and the documented tables behind the words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/classify.h"
#include "analyze/function_name.h"
#include "analyze/unwind/arch.h"
#include "model/arch/registers.h"
#include "raw_process.h"
#include "skip.h"

static void check_fold(const char *expected, const char *const *names)
{
	struct snap_member threads[8] = { { 0 } };
	char out[SNAP_MAX_THREAD_NAME];
	size_t count = 0;

	for (; names[count]; count++)
		threads[count].name = names[count];
	if (!expected) {
		assert_false(snap_label_fold(threads, count, out));
		return;
	}
	assert_true(snap_label_fold(threads, count, out));
	assert_string_equal(out, expected);
}
#define CHECK_FOLD(expected, ...) check_fold(expected, (const char *const[]){ __VA_ARGS__, NULL })

static void test_names_fold(void **state _unused_)
{
	struct snap_member nameless[2] = { { .name = "a" }, { .name = NULL } };
	char out[SNAP_MAX_THREAD_NAME];

	CHECK_FOLD("worker-7", "worker-7", "worker-7");
	CHECK_FOLD("worker-*", "worker-7", "worker-8", "worker-10");
	CHECK_FOLD("http-8080-exec-*", "http-8080-exec-1", "http-8080-exec-12");
	CHECK_FOLD("*/*", "1/2", "2/3");
	CHECK_FOLD("x1y*", "x1y1", "x1y22");
	CHECK_FOLD("*", "1", "22");
	CHECK_FOLD(NULL, "worker-1", "flusher-1");
	CHECK_FOLD(NULL, "worker", "worker-1");
	CHECK_FOLD(NULL, "worker-1", "worker-");
	CHECK_FOLD(NULL, "a1b", "a1");
	assert_false(snap_label_fold(nameless, 2, out));
	assert_false(snap_label_fold(nameless, 0, out));
}

static void test_long_names_stay_inside(void **state _unused_)
{
	char a[SNAP_MAX_THREAD_NAME], b[SNAP_MAX_THREAD_NAME], out[SNAP_MAX_THREAD_NAME];
	struct snap_member threads[2] = { { .name = a }, { .name = b } };

	for (size_t i = 0; i < sizeof(a); i++) {
		a[i] = "1x"[i % 2];
		b[i] = "2x"[i % 2];
	}
	a[sizeof(a) - 1] = b[sizeof(b) - 1] = '\0';
	assert_true(snap_label_fold(threads, 2, out));
	assert_int_equal(strlen(out), sizeof(out) - 1);
	assert_memory_equal(out, "*x*x", 4);
}

static void test_labels_on_which_threads_differ_are_absent(void **state _unused_)
{
	struct raw_process made;
	const struct snap_stack *stack;

	raw_init(&made);
	RAW_STACK(&made, raw_frame(&made, 0x1000, "f", 1, false));
	raw_thread(&made, 1, "w-1", 'S', 0)->cpu = 2;
	raw_thread(&made, 2, "w-2", 'S', 0)->cpu = 2;
	made.threads[0].wchan = "futex_wait";
	made.threads[1].wchan = "pipe_read";
	stack = &raw_group(&made)->stacks[0];
	assert_string_equal(raw_label(stack, "state"), "sleeping");
	assert_string_equal(raw_label(stack, "thread_name"), "w-*");
	assert_string_equal(raw_label(stack, "cpu"), "2");
	assert_string_equal(raw_label(stack, "type"), "user");
	assert_null(raw_label(stack, "wchan"));
	assert_null(raw_label(stack, "syscall"));
	assert_string_equal(stack->threads[0].name, "w-1");
	assert_string_equal(stack->threads[1].wchan, "pipe_read");
	raw_deinit(&made);
}

static void test_syscall_names(void **state _unused_)
{
	static const struct {
		long long number;
		const char *top, *expected;
	} cases[] = {
		{ 74, "fsync", "fsync" },
		{ 219, "__poll", "poll" },
		{ 219, "__futex_abstimed_wait_common64", "futex" },
		{ 219, "clock_nanosleep@@GLIBC_2.17", "clock_nanosleep" },
		{ 219, "own_code", "restart_syscall" },
		{ 9999, "own_code", "9999" },
		{ -1, "own_code", NULL },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		struct snap_x86_64_registers registers = {
			.orig_rax = (unsigned long long)cases[i].number,
			.rax = (unsigned long long)-512
		};
		struct raw_process made;
		struct snap_thread *thread;
		const char *got;

		raw_init(&made);
		made.process.arch = SNAP_ARCH_X86_64;
		RAW_STACK(&made, raw_frame(&made, 0x1000, cases[i].top, 0, true));
		thread = raw_thread(&made, 1, "t", 'S', 0);
		thread->registers = &registers;
		thread->registers_size = sizeof(registers);
		got = raw_group(&made)->stacks[0].threads[0].syscall;
		if (cases[i].expected) {
			assert_non_null(got);
			assert_string_equal(got, cases[i].expected);
		} else {
			assert_null(got);
		}
		raw_deinit(&made);
	}
}

static void test_system_modules(void **state _unused_)
{
	assert_true(snap_classify_is_libc("/usr/lib/x86_64-linux-gnu/libc.so.6"));
	assert_true(snap_classify_is_libc("/lib/libc-2.31.so"));
	assert_true(snap_classify_is_libc("/lib/ld-musl-x86_64.so.1"));
	assert_false(snap_classify_is_libc("/lib/libcrypto.so.3"));
	assert_false(snap_classify_is_libc(NULL));
	assert_true(snap_classify_system_module("[vdso]"));
	assert_true(snap_classify_system_module("/lib64/ld-linux-x86-64.so.2"));
	assert_true(snap_classify_system_module("libpthread.so.0"));
	assert_false(snap_classify_system_module("/usr/lib/libstdc++.so.6"));
	assert_false(snap_classify_system_module("v"));
	assert_false(snap_classify_system_module("/srv/libc.so.d/app"));
}

static void test_system_functions(void **state _unused_)
{
	assert_true(snap_classify_system_function("_start", "_start", false));
	assert_true(snap_classify_system_function("__libc_start_main@@GLIBC_2.34", NULL, false));
	assert_true(snap_classify_system_function(
		"_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJPFvvEEEEEE6_M_runEv", NULL,
		false));
	assert_true(snap_classify_system_function("_ZN3std2rt10lang_start17h0123456789abcdefE",
						  "std::rt::lang_start", false));
	assert_true(snap_classify_system_function("_ZL20__gthread_mutex_lockP15pthread_mutex_t",
						  "__gthread_mutex_lock(pthread_mutex_t*)", false));
	assert_true(snap_classify_system_function("make_fcontext", "make_fcontext", false));
	assert_true(snap_classify_system_function(NULL, "runtime.goexit", false));
	assert_true(snap_classify_outermost_function("__clone"));
	assert_true(snap_classify_outermost_function("_start"));
	assert_false(snap_classify_outermost_function("start_thread"));
	assert_false(snap_classify_outermost_function("main"));
	assert_false(snap_classify_outermost_function(NULL));
	assert_false(snap_classify_system_function("main", "main", false));
	assert_false(snap_classify_system_function("restart_thread", "restart_thread", true));
	assert_false(snap_classify_system_function("epoll_wait", "epoll_wait", false));
	assert_true(snap_classify_system_function("epoll_wait", "epoll_wait", true));
	assert_true(snap_classify_system_function("__libc_read", "__libc_read", true));
	assert_false(snap_classify_system_function(NULL, NULL, true));
}

static void check_rust(const char *symbol, const char *function, bool expected)
{
	assert_int_equal(snap_classify_system_function(symbol, function, false), expected);
}

/* A program has what it uses of Rust's library inside, beside its own functions. */
static void test_library_of_rust(void **state _unused_)
{
	static const char v0[] = "_RNvNtCsjrHSEGnQ3l9_3std2rt19lang_start_internal";

	check_rust("_ZN4core3ops8function6FnOnce9call_once17heb1f4c8d65b7525dE",
		   "core::ops::function::FnOnce::call_once", true);
	check_rust("_ZN4core3ops8function6FnOnce9call_once17heb1f4c8d65b7525dE.llvm.73",
		   "core::ops::function::FnOnce::call_once", true);
	check_rust(v0, "std::rt::lang_start_internal", true);
	check_rust(v0, "<std::io::stdio::Stdin as std::io::Read>::read", true);
	check_rust(v0, "<&mut dyn core::any::Any as core::fmt::Debug>::fmt", true);
	check_rust(v0, "<fn() as core::ops::function::FnOnce<()>>::call_once", true);
	check_rust(v0, "<[app::Item]>::sort", true);
	check_rust(v0, "<str>::parse::<app::Item>", true);
	check_rust(v0, "app::travel::<std::io::Stdin>", false);
	check_rust(v0, "<app::Depot as core::fmt::Debug>::fmt", false);
	check_rust(v0, "<alloc::string::String as app::Station>::stop", false);
	check_rust(v0, "<fn() -> core::fmt::Error as app::Station>::stop", false);
	check_rust(v0, "<alloc::vec::Vec<<app::A as app::B>::C> as app::Station>::stop", false);
	check_rust(v0, "main", false);
	check_rust(v0, NULL, false);
	/* C++ has a std, too. */
	check_rust("_ZNSt6vectorIiSaIiEE9push_backERKi",
		   "std::vector<int, std::allocator<int> >::push_back(int const&)", false);
	check_rust(NULL, "std::thread::park", false);
}

static void check_library(const char *language, const char *function, const char *file,
			  bool expected)
{
	assert_int_equal(snap_classify_managed_system(language, function, file), expected);
}

/* What came with a language is told from packages and programs by its place. */
static void test_libraries_of_languages(void **state _unused_)
{
	check_library("go", "runtime.gopark", NULL, true);
	check_library("go", "net/http.(*conn).serve", "net/http/server.go", true);
	check_library("go", "sync.(*Map[go.shape.string/a.b]).Load", NULL, true);
	check_library("go", "internal/poll.(*FD).Read", NULL, true);
	check_library("go", "vendor/golang.org/x/net/http2.x", NULL, true);
	check_library("go", "main.main", "/src/net/http/main.go", false);
	check_library("go", "net.example/http.Serve", NULL, false);
	check_library("go", "github.com/net/http.Serve", NULL, false);
	check_library("go", "network.Dial", NULL, false);
	check_library("go", "net", NULL, false);
	check_library("go", "", NULL, false);
	check_library("go", NULL, NULL, false);
	check_library("python", "Thread.run", "/usr/lib/python3.11/threading.py", true);
	check_library("python", "run", "/opt/py/lib64/python3.13t/asyncio/runners.py", true);
	check_library("python", "_run_module_code", "<frozen runpy>", true);
	check_library("python", "f", "/usr/lib/python3/dist-packages/app.py", false);
	check_library("python", "f", "/usr/local/lib/python3.11/dist-packages/app.py", false);
	check_library("python", "f", "/venv/lib/python3.11/site-packages/flask/app.py", false);
	check_library("python", "f", "/srv/python3.11/app.py", false);
	check_library("python", "f", "/python3.11/app.py", false);
	check_library("python", "f", "/usr/lib/python3.x/app.py", false);
	check_library("python", "f", NULL, false);
	check_library("php", "net/http.f", "/usr/lib/python3.11/threading.py", false);
	check_library(NULL, "runtime.gopark", NULL, false);
}

/* Of a language's threads and scripts, the function that stands below all others. */
static void test_startup_of_languages(void **state _unused_)
{
	assert_true(snap_classify_managed_startup("php", "{main}", "/srv/index.php"));
	assert_true(snap_classify_managed_startup("python", "<module>", "/srv/app.py"));
	assert_true(snap_classify_managed_startup("python", "_bootstrap", NULL));
	assert_true(snap_classify_managed_startup("python", "Thread._bootstrap_inner", NULL));
	assert_true(snap_classify_managed_startup("python", "Thread.run",
						  "/usr/lib/python3.11/threading.py"));
	assert_true(snap_classify_managed_startup("python", "run", "threading.py"));
	assert_false(snap_classify_managed_startup("python", "run", "/srv/app.py"));
	assert_false(snap_classify_managed_startup("python", "run", NULL));
	assert_false(snap_classify_managed_startup("python", "{main}", NULL));
	assert_false(snap_classify_managed_startup("php", "<module>", NULL));
	assert_false(snap_classify_managed_startup("go", "<module>", NULL));
	assert_false(snap_classify_managed_startup(NULL, "<module>", NULL));
	assert_false(snap_classify_managed_startup("php", NULL, NULL));
}

static void test_waits_for_work(void **state _unused_)
{
	assert_true(snap_classify_waits_for_work("pthread_cond_wait@@GLIBC_2.3.2"));
	assert_true(snap_classify_waits_for_work("__GI___poll"));
	assert_true(snap_classify_waits_for_work("__nanosleep"));
	assert_true(snap_classify_waits_for_work(
		"std::condition_variable::wait(std::unique_lock<std::mutex>&)"));
	assert_true(snap_classify_waits_for_work("___pthread_cond_timedwait64"));
	assert_true(snap_classify_waits_for_work("std::this_thread::sleep_for<long, R<1> >(int)"));
	assert_true(snap_classify_waits_for_work("ev_run.part.0"));
	assert_true(snap_classify_waits_for_work("__sem_wait64.constprop.0.cold"));
	assert_false(snap_classify_waits_for_work("poll.other"));
	assert_false(snap_classify_waits_for_work("64"));
	assert_false(snap_classify_waits_for_work("pthread_mutex_lock"));
	assert_false(snap_classify_waits_for_work("read"));
	assert_false(snap_classify_waits_for_work("__"));
	assert_false(snap_classify_waits_for_work(""));
	assert_false(snap_classify_waits_for_work(NULL));
}

static void check_own_name(const char *name, const char *own)
{
	size_t length = snap_function_name_length(name);

	if (length != strlen(own) || strncmp(name, own, length) != 0)
		fail_msg("\"%s\" is \"%.*s\"", name, (int)length, name);
}

/* What compilers put behind a name, and nothing else that ends like that. */
static void test_suffixes_of_compilers(void **state _unused_)
{
	check_own_name("parse.constprop.0", "parse");
	check_own_name("parse.cold", "parse");
	check_own_name("parse.isra.12.constprop.0.cold", "parse");
	check_own_name("execute_ex.lto_priv.0", "execute_ex");
	check_own_name("parse.llvm.17446038472635417", "parse");
	check_own_name("foo(int) [clone .isra.0] [clone .constprop.1]", "foo(int)");
	check_own_name("foo(int) [clone .cold]", "foo(int)");
	check_own_name("_Z3fooi.part.0.lto_priv.0", "_Z3fooi");
	check_own_name("main.main.func1.2", "main.main.func1.2");
	check_own_name("net.cold.Store", "net.cold.Store");
	check_own_name("parse.0", "parse.0");
	check_own_name("parsecold", "parsecold");
	check_own_name(".cold", ".cold");
	check_own_name(" [clone .cold]", " [clone .cold]");
	check_own_name("foo [clone cold]", "foo [clone cold]");
	check_own_name("foo [clone ]", "foo [clone ]");
	check_own_name("]", "]");
	check_own_name("0", "0");
	check_own_name("", "");
}

static void check_type(enum snap_process_type expected, struct snap_process process, size_t shown)
{
	assert_int_equal(snap_classify_process(&process, shown), expected);
}

static void test_process_types(void **state _unused_)
{
	struct snap_process init = { .pid = 1,
				     .exe = "/usr/lib/systemd/systemd",
				     .state = 'S',
				     .is_namespace_init = true,
				     .in_host_namespace = true };
	struct snap_process named = init, shim = { .name = "containerd-shim", .state = 'S' };
	struct snap_process tini = { .exe = "/sbin/tini", .is_namespace_init = true, .state = 'S' };
	struct snap_process own_init = { .exe = "/app/server",
					 .is_namespace_init = true,
					 .state = 'S' };

	check_type(SNAP_TYPE_SYSTEM, init, 1);
	named.is_target = true;
	check_type(SNAP_TYPE_NORMAL, named, 1);
	check_type(SNAP_TYPE_SYSTEM, shim, 1);
	check_type(SNAP_TYPE_SYSTEM, tini, 1);
	check_type(SNAP_TYPE_NORMAL, own_init, 1);
	tini.is_namespace_init = false;
	check_type(SNAP_TYPE_NORMAL, tini, 1);
	check_type(SNAP_TYPE_KERNEL, (struct snap_process){ .flags = 0x00200040, .state = 'I' }, 0);
	check_type(SNAP_TYPE_DEAD, (struct snap_process){ .state = 'Z' }, 0);
	/* The leader has ended, its threads have not. */
	check_type(SNAP_TYPE_NORMAL, (struct snap_process){ .state = 'Z' }, 3);
	check_type(SNAP_TYPE_DEAD, (struct snap_process){ .vanished = true, .state = 'S' }, 0);
	check_type(SNAP_TYPE_NONE, (struct snap_process){ .vanished = true, .state = 'S' }, 2);
	check_type(SNAP_TYPE_DEAD, (struct snap_process){ .trouble = SNAP_TROUBLE_NO_SUCH_PROCESS },
		   0);
}

static void test_kernel_threads(void **state _unused_)
{
	struct snap_thread uring = { .flags = 0x10 }, vhost = { .flags = 0x4000 },
			   user = { .flags = 0x400040 };

	assert_true(snap_classify_kernel_thread(&uring));
	assert_true(snap_classify_kernel_thread(&vhost));
	assert_false(snap_classify_kernel_thread(&user));
}

static char *read_source(const char *name)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_fclose_ FILE *in = NULL;
	char *text = NULL;
	size_t size = 0;

	assert_true(asprintf(&path, "%s/%s", getenv("STACKSNAP_SOURCE"), name) > 0);
	in = fopen(path, "re");
	assert_non_null(in);
	assert_true(getdelim(&text, &size, '\0', in) > 0);
	return text;
}

/* Every text of the tables stands in stacksnap-json(5), which is their interface. */
static void test_tables_are_documented(void **state _unused_)
{
	static const char table[] = "static const char *const ";
	_cleanup_free_ char *source = read_source("lib/analyze/classify.c");
	_cleanup_free_ char *page = read_source("man/stacksnap-json.5.scd");
	size_t found = 0;

	for (char *p = source; (p = strstr(p, table));) {
		char *end = strstr(p, "};");

		assert_non_null(end);
		*end = '\0';
		for (char *quote = strchr(p, '"'); quote; quote = strchr(quote + 1, '"')) {
			char *close = strchr(++quote, '"');

			assert_non_null(close);
			*close = '\0';
			if (strncmp(quote, "\\\\", 2) == 0)
				quote += 2; /* a backslash for the compiler, one for the pattern */
			if (!strstr(page, quote))
				fail_msg("%s is not in stacksnap-json(5)", quote);
			quote = close;
			found++;
		}
		p = end + 1;
	}
	assert_true(found > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_fold),
		cmocka_unit_test(test_long_names_stay_inside),
		cmocka_unit_test(test_labels_on_which_threads_differ_are_absent),
		cmocka_unit_test(test_syscall_names),
		cmocka_unit_test(test_system_modules),
		cmocka_unit_test(test_system_functions),
		cmocka_unit_test(test_library_of_rust),
		cmocka_unit_test(test_libraries_of_languages),
		cmocka_unit_test(test_startup_of_languages),
		cmocka_unit_test(test_waits_for_work),
		cmocka_unit_test(test_suffixes_of_compilers),
		cmocka_unit_test(test_process_types),
		cmocka_unit_test(test_kernel_threads),
		cmocka_unit_test(test_tables_are_documented),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
