/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tables for the words system, kernel, dead, none and idle: see classify.h. stacksnap-json(5)
 * prints them: keep both equal.
 */
#include "analyze/classify.h"

#include "analyze/function_name.h"
#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

/* linux/sched.h */
enum {
	PF_IO_WORKER = 0x00000010,
	PF_USER_WORKER = 0x00004000, /* since 6.4; PF_NO_SETAFFINITY is another bit */
	PF_KTHREAD = 0x00200000,
};

enum { COMM_LENGTH = 15 };

/* Modules are matched by the last part of their path, with shell patterns. */
static const char *const libc_modules[] = {
	"libc.so.*", "libc-2.*.so", "ld-musl-*", "libc.musl-*", "libc.so", NULL,
};

static const char *const system_modules[] = {
	"libc.so*",      "libc-2.*.so",  "libpthread.so*", "libpthread-2.*.so",
	"libm.so*",      "libm-2.*.so",  "libmvec.so*",    "librt.so*",
	"librt-2.*.so",  "libdl.so*",    "libdl-2.*.so",   "libanl.so*",
	"libresolv.so*", "libnss_*.so*", "ld-linux*.so*",  "ld-2.*.so",
	"ld64.so*",      "ld.so*",       "ld-musl-*",      "libc.musl-*",
	"\\[vdso]",      "\\[vsyscall]", "linux-vdso*",    NULL,
};

/* Start-up code by linkage name or displayed name, with shell patterns. */
static const char *const startup_functions[] = {
	/* C */
	"_start",
	"__libc_start_main*",
	"__libc_start_call_main*",
	"generic_start_main*",
	"libc_start_main_stage2",
	"_start_c",
	"start_thread",
	"clone",
	"__clone",
	"clone3",
	"__clone3",
	"__clone_internal*",
	/* C++ */
	"execute_native_thread_routine*",
	"_ZNSt6thread11_State_impl*",
	"_ZNSt6thread8_Invoker*",
	"_ZSt8__invoke*",
	"_ZSt13__invoke_impl*",
	"_ZNSt6thread*4_Impl*",
	"std::thread::_State_impl*",
	"std::thread::_Invoker*",
	"std::__invoke*",
	"void std::__invoke_impl*",
	/* Go */
	"runtime.goexit*",
	"runtime.main",
	"runtime.mstart*",
	"runtime.rt0_go*",
	"runtime.mcall",
	/* coroutines */
	"__start_context",
	"makecontext",
	"make_fcontext",
	"jump_fcontext",
	"ontop_fcontext",
	"trampoline_fcontext",
	"coroutine_trampoline",
	"_ZN5boost7context6detail*",
	"_ZN5boost10coroutines6detail*",
	"_ZN5boost11coroutines26detail*",
	/* threads of gcc's C++ library; Rust's allocator, panics and threads */
	"__gthread_*",
	"__rust_*",
	"__rustc::*",
	"rust_begin_unwind",
	"rust_panic*",
	NULL,
};

/* These have no caller: a stack that ends there without unwind information is whole. */
static const char *const outermost_functions[] = {
	"_start", "_start_c", "clone", "__clone", "clone3", "__clone3", NULL,
};

/*
 * Functions in which a thread waits for work. A read or a recv is none: it may be the answer of a
 * disk or of a peer that is waited for; neither is a mutex.
 */
static const char *const work_waits[] = {
	"accept",
	"accept4",
	"clock_nanosleep",
	"cnd_timedwait",
	"cnd_wait",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_wait",
	"io_getevents",
	"io_pgetevents",
	"mq_receive",
	"mq_timedreceive",
	"msgrcv",
	"nanosleep",
	"pause",
	"poll",
	"ppoll",
	"pselect",
	"pthread_cond_clockwait",
	"pthread_cond_timedwait",
	"pthread_cond_wait",
	"select",
	"sem_clockwait",
	"sem_timedwait",
	"sem_wait",
	"sigsuspend",
	"sigtimedwait",
	"sigwait",
	"sigwaitinfo",
	"sleep",
	"thrd_sleep",
	"usleep",
	"wait",
	"wait3",
	"wait4",
	"waitid",
	"waitpid",
	/* the same, called by another name */
	"io_uring_enter",
	"io_uring_get_cqe",
	"io_uring_submit_and_wait",
	"io_uring_wait_cqe",
	"io_uring_wait_cqe_timeout",
	"io_uring_wait_cqes",
	"new_sem_wait",
	"new_sem_wait_slow",
	"pthread_clockjoin_ex",
	"pthread_clockjoin_np",
	"pthread_join",
	"pthread_timedjoin_np",
	"thrd_join",
	"std::condition_variable::wait",
	"std::this_thread::sleep_for",
	"std::thread::join",
	"std::thread::park",
	"std::thread::park_timeout",
	"runtime.futexsleep",
	"runtime.netpoll",
	"runtime.notesleep",
	"runtime.usleep",
	"Unsafe_Park",
	"os::PlatformMonitor::wait",
	"PlatformMonitor::wait",
	"Parker::park",
	"uv__io_poll",
	"uv_cond_wait",
	"uv_cond_timedwait",
	"uv_sem_wait",
	"event_base_loop",
	"g_cond_wait",
	"g_cond_wait_until",
	"g_poll",
	"ev_run",
	"WaitEventSetWait",
	"QWaitCondition::wait",
	NULL,
};

/*
 * Functions of PostgreSQL, MariaDB and MySQL that wait for a lock of their own, and HotSpot's for a
 * monitor. InnoDB's have no names without debug files.
 */
static const char *const own_locks[] = {
	"LWLockAcquire",
	"LWLockAcquireOrWait",
	"LWLockWaitForVar",
	"LockBufferForCleanup",
	"MDL_context::acquire_lock",
	"MDL_wait::timed_wait",
	"ObjectMonitor::EnterI",
	"ObjectMonitor::enter",
	"ObjectMonitor::enter_internal",
	"ProcSleep",
	"ProcWaitForSignal",
	"lock_wait",
	"lock_wait_suspend_thread",
	NULL,
};

/* Functions of MariaDB and MySQL that read or write a row. Below them a thread may read a file, too. */
static const char *const row_functions[] = {
	"handler::ha_delete_row",
	"handler::ha_index_first",
	"handler::ha_index_last",
	"handler::ha_index_next",
	"handler::ha_index_next_same",
	"handler::ha_index_prev",
	"handler::ha_index_read_idx_map",
	"handler::ha_index_read_map",
	"handler::ha_rnd_next",
	"handler::ha_rnd_pos",
	"handler::ha_update_row",
	"handler::ha_write_row",
	NULL,
};

/*
 * Functions that carry out a command, or wait for the answer to one: what is waited for below them is no
 * work. In HotSpot's, a collection of garbage waits for threads that have not stopped; Python's library
 * has others that take its locks for work, as Queue.get, and polls where a read has a time limit.
 */
static const char *const busy_functions[] = {
	"Barrier.wait",
	"Future.exception",
	"Future.result",
	"PortalRun",
	"Queue.put",
	"SSLSocket.read",
	"SafepointSynchronize::begin",
	"Semaphore.acquire",
	"SocketIO.readinto",
	"dispatch_command",
	"exec_execute_message",
	"exec_simple_query",
	NULL,
};

/*
 * What else of the C library is known by name, for static programs: what stands above a wait.
 */
static const char *const libc_functions[] = {
	"__futex_abstimed_wait*",
	"__pthread_cond_*wait*",
	"futex_wait*",
	"__lll_lock_wait*",
	"__internal_syscall_cancel",
	"__syscall_cancel*",
	"syscall",
	"read",
	"write",
	"fsync",
	"fdatasync",
	"recv",
	"recvfrom",
	"recvmsg",
	"send",
	"sendto",
	"sendmsg",
	"connect",
	"pthread_mutex_lock*",
	"pthread_join",
	"pthread_rwlock_*",
	"__pthread_clockjoin_ex",
	NULL,
};

/* System calls in which a thread has something to hand over, or waits for a disk or a lock. */
static const char *const handing_calls[] = {
	"connect", "fdatasync", "flock",    "fsync",   "mq_timedsend", "msgsnd",
	"open",    "openat",    "pwrite64", "pwritev", "sendfile",     "sendmmsg",
	"sendmsg", "sendto",    "splice",   "write",   "writev",       NULL,
};

static const char *const manager_names[] = {
	"systemd",      "init",  "openrc-init", "runit",       "runsvdir", "runsv", "s6-svscan",
	"s6-supervise", "dinit", "procd",       "supervisord", "upstart",  NULL,
};

static const char *const shim_names[] = {
	"containerd-shim",
	"containerd-shim-runc-v1",
	"containerd-shim-runc-v2",
	"docker-containerd-shim",
	"conmon",
	"runc",
	"crun",
	"youki",
	"lxc-start",
	"systemd-nspawn",
	NULL,
};

static const char *const namespace_init_names[] = {
	"tini",    "tini-static", "dumb-init",         "docker-init", "podman-init", "catatonit",
	"pause",   "s6-svscan",   "s6-overlay-suexec", "runsvdir",    "runit",       "supervisord",
	"my_init", NULL,
};

static bool matches_pattern(const char *const *patterns, const char *text)
{
	for (; *patterns; patterns++)
		if (fnmatch(*patterns, text, 0) == 0)
			return true;
	return false;
}

/*
 * The patterns above have their first letters fixed, so most names are refused without fnmatch,
 * whose time a hostile name could stretch.
 */
static bool matches_name(const char *const *patterns, const char *text)
{
	for (; *patterns; patterns++) {
		size_t fixed = strcspn(*patterns, "*[");

		if (strncmp(*patterns, text, fixed) != 0)
			continue;
		if ((*patterns)[fixed] == '\0'
			    ? text[fixed] == '\0'
			    : (*patterns)[fixed + 1] == '\0' || fnmatch(*patterns, text, 0) == 0)
			return true;
	}
	return false;
}

bool snap_classify_is_libc(const char *path)
{
	return path && matches_pattern(libc_modules, snap_base_name(path));
}

bool snap_classify_system_module(const char *path)
{
	return path && matches_pattern(system_modules, snap_base_name(path));
}

bool snap_classify_startup_function(const char *symbol, const char *function)
{
	return (symbol && matches_name(startup_functions, symbol)) ||
	       (function && function != symbol && matches_name(startup_functions, function));
}

bool snap_classify_outermost_function(const char *symbol)
{
	return symbol && matches_name(outermost_functions, symbol);
}

/*
 * "pthread_cond_wait@@GLIBC_2.3.2", "__poll", "sleep_for<long>(…)", "ev_run.part.0" … -> the name
 * in the table.
 */
static bool is_listed(const char *const *list, const char *name)
{
	size_t length = strcspn(name, "@(<"), own = snap_function_name_length(name);

	if (own < length)
		length = own;
	if (snap_begins_with(name, "__GI_")) {
		name += 5;
		length -= 5;
	}
	while (length && name[0] == '_') {
		name++;
		length--;
	}
	if (length > 2 && memcmp(name + length - 2, "64", 2) == 0)
		length -= 2; /* 64-bit time under another name */
	for (; *list; list++)
		if (strncmp(*list, name, length) == 0 && (*list)[length] == '\0')
			return length > 0;
	return false;
}

/* The first part of the import paths of Go's standard library. */
static const char *const go_packages[] = {
	"archive",  "bufio",   "bytes",   "cmp",      "compress", "container", "context", "crypto",
	"database", "debug",   "embed",   "encoding", "errors",   "expvar",    "flag",    "fmt",
	"go",       "hash",    "html",    "image",    "index",    "internal",  "io",      "iter",
	"log",      "maps",    "math",    "mime",     "net",      "os",        "path",    "plugin",
	"reflect",  "regexp",  "runtime", "slices",   "sort",     "strconv",   "strings", "structs",
	"sync",     "syscall", "testing", "text",     "time",     "unicode",   "unique",  "unsafe",
	"vendor",   "weak",    NULL,
};

/* "net/http.(*conn).serve"; "net.example/http.Serve" is a program's own path. */
static bool is_in_go_library(const char *function)
{
	size_t first = strcspn(function, "/.(["), package = strcspn(function, "/([");

	if (function[first] != '/' && (function[first] != '.' || function[package] == '/'))
		return false;
	for (const char *const *name = go_packages; *name; name++)
		if (strncmp(*name, function, first) == 0 && (*name)[first] == '\0')
			return true;
	return false;
}

/* "std::io::Read", "&mut core::str::Chars"; `builtin`: also a type of the language, "fn()". */
static bool begins_in_rust_library(const char *name, bool builtin)
{
	name += strspn(name, "<&");
	name += snap_begins_with(name, "mut ") ? 4 : 0;
	name += snap_begins_with(name, "dyn ") ? 4 : 0;
	return snap_begins_with(name, "std::") || snap_begins_with(name, "core::") ||
	       snap_begins_with(name, "alloc::") ||
	       (builtin && !memchr(name, ':', strcspn(name, " <>()[]")));
}

bool snap_classify_rust_library(const char *symbol, const char *function)
{
	const size_t hash = strlen("17h0123456789abcdefE");
	size_t length = symbol && function ? snap_function_name_length(symbol) : 0;
	const char *trait = length ? strstr(function, " as ") : NULL;

	/* C++ has a std, too. */
	if (length <= hash ||
	    (!snap_begins_with(symbol, "_R") &&
	     (!snap_begins_with(symbol, "_ZN") || memcmp(symbol + length - hash, "17h", 3) != 0)))
		return false;
	/* "<type as trait>::function": a program may give types of the library its own traits. */
	return begins_in_rust_library(function, *function == '<') &&
	       (*function != '<' || !trait || begins_in_rust_library(trait + 4, false));
}

bool snap_classify_cxx_library(const char *symbol, const char *function, const char *file)
{
	/* Of std, of its types with short names, and of the library's own namespace. */
	static const char *const names[] = {
		"_ZSt*",          "_ZNSt*",          "_ZNKSt*", "_ZNS[a-z]*",   "_ZNKS[a-z]*",
		"_ZN9__gnu_cxx*", "_ZNK9__gnu_cxx*", "std::*",  "__gnu_cxx::*", NULL
	};

	/* A program may add to std in its own files. */
	return file && strstr(file, "/include/c++/") &&
	       ((symbol && matches_name(names, symbol)) ||
		(function && matches_name(names, function)));
}

/* "/usr/lib/python3.11/threading.py", but none of the packages that were installed below it. */
static bool is_in_python_library(const char *file)
{
	const char *version = strstr(file, "/python3.");
	size_t digits;

	if (snap_begins_with(file, "<frozen "))
		return true;
	if (!version || ((version - file < 4 || memcmp(version - 4, "/lib", 4) != 0) &&
			 (version - file < 6 || memcmp(version - 6, "/lib64", 6) != 0)))
		return false;
	version += strlen("/python3.");
	digits = strspn(version, "0123456789");
	/* "t": free-threaded builds have a folder of their own. */
	version += digits + (digits && version[digits] == 't');
	return digits && *version == '/' && !snap_begins_with(version, "/site-packages/") &&
	       !snap_begins_with(version, "/dist-packages/");
}

bool snap_classify_managed_system(const char *language, const char *function, const char *file)
{
	if (language && strcmp(language, "go") == 0)
		return function && is_in_go_library(function);
	return language && strcmp(language, "python") == 0 && file && is_in_python_library(file);
}

bool snap_classify_managed_startup(const char *language, const char *function, const char *file)
{
	if (!language || !function)
		return false;
	if (strcmp(language, "php") == 0)
		return strcmp(function, "{main}") == 0;
	if (strcmp(language, "python") != 0)
		return false;
	/* The thread's own run() stands below them; any other is a program's. */
	if (strcmp(function, "run") == 0 || strcmp(function, "Thread.run") == 0)
		return file && strcmp(snap_base_name(file), "threading.py") == 0;
	return strcmp(function, "<module>") == 0 || strcmp(function, "_bootstrap") == 0 ||
	       strcmp(function, "Thread._bootstrap") == 0 ||
	       strcmp(function, "_bootstrap_inner") == 0 ||
	       strcmp(function, "Thread._bootstrap_inner") == 0;
}

bool snap_classify_waits_for_work(const char *function)
{
	return function && is_listed(work_waits, function);
}

static bool calls_listed(const char *const *list, const struct snap_frame **frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < frames[i]->entry_count; k++)
			if (frames[i]->entries[k].function &&
			    is_listed(list, frames[i]->entries[k].function))
				return true;
	return false;
}

bool snap_classify_takes_own_lock(const struct snap_frame **frames, size_t count)
{
	return calls_listed(own_locks, frames, count);
}

bool snap_classify_handles_row(const struct snap_frame **frames, size_t count)
{
	return calls_listed(row_functions, frames, count);
}

bool snap_classify_hands_over(const char *syscall)
{
	return syscall && is_listed(handing_calls, syscall);
}

bool snap_classify_is_busy(const struct snap_frame **frames, size_t count)
{
	return calls_listed(busy_functions, frames, count) ||
	       snap_classify_takes_own_lock(frames, count);
}

bool snap_classify_system_function(const char *symbol, const char *function, bool static_program)
{
	if (snap_classify_startup_function(symbol, function) ||
	    snap_classify_rust_library(symbol, function))
		return true;
	return static_program && symbol &&
	       (is_listed(work_waits, symbol) || matches_name(libc_functions, symbol) ||
		snap_begins_with(symbol, "__libc_"));
}

static bool is_process_called(const struct snap_process *process, const char *const *names)
{
	const char *exe = process->exe ? snap_base_name(process->exe) : NULL;

	for (; *names; names++) {
		if (exe && strcmp(exe, *names) == 0)
			return true;
		/* comm is cut at 15 bytes, and all there is of a process that may not be read */
		if (!exe && process->name && strncmp(process->name, *names, COMM_LENGTH) == 0)
			return true;
	}
	return false;
}

static bool is_system_process(const struct snap_process *process)
{
	if (process->is_target)
		return false;
	if (process->in_host_namespace && process->is_namespace_init)
		return true;
	if (is_process_called(process, manager_names) || is_process_called(process, shim_names))
		return true;
	return process->is_namespace_init && is_process_called(process, namespace_init_names);
}

enum snap_process_type snap_classify_process(const struct snap_process *process,
					     size_t shown_threads)
{
	bool gone = process->vanished || process->trouble == SNAP_TROUBLE_NO_SUCH_PROCESS ||
		    process->trouble == SNAP_TROUBLE_EXITED;
	bool zombie = process->trouble == SNAP_TROUBLE_ZOMBIE ||
		      snap_state_of_letter(process->state) == SNAP_STATE_ZOMBIE ||
		      snap_state_of_letter(process->state) == SNAP_STATE_DEAD;

	if (process->flags & PF_KTHREAD || process->trouble == SNAP_TROUBLE_KERNEL_THREAD)
		return SNAP_TYPE_KERNEL;
	if (gone)
		return shown_threads ? SNAP_TYPE_NONE : SNAP_TYPE_DEAD;
	/* A leader can be a zombie while its other threads live on. */
	if (zombie && shown_threads == 0)
		return SNAP_TYPE_DEAD;
	return is_system_process(process) ? SNAP_TYPE_SYSTEM : SNAP_TYPE_NORMAL;
}

bool snap_classify_kernel_thread(const struct snap_thread *thread)
{
	return thread->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER);
}
