/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots made by hand, for the tests of the renderers: a service with a helper, one in which
 * every text is hostile, one in which nothing went well. Static data, never written.
 */
#pragma once

#include "model/snapshot.h"

#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define LIBC_ID "0123456789abcdef0123456789abcdef01234567"
#define APP "/srv/orders/orderd"
#define APP_ID "feedc0de"

/* A frame of the C library, of the program with a line, or of no known name. */
#define SYSTEM_FRAME(variable, name, at)                                    \
	static struct snap_entry variable##_entry[] = {                     \
		{ .function = name, .symbol = name, .system = true },       \
	};                                                                  \
	static const struct snap_frame variable = {                         \
		0x7f0000000000 + (at), (at)-1, LIBC,   LIBC_ID,       true, \
		variable##_entry,      1,      (at)-1, SNAP_TRUST_CFI       \
	}
#define OWN_FRAME(variable, name, path, row, at)                                              \
	static struct snap_entry variable##_entry[] = {                                       \
		{ .function = name, .symbol = name, .file = path, .line = row, .column = 3 }, \
	};                                                                                    \
	static const struct snap_frame variable = {                                           \
		0x555500000000 + (at), (at)-1, APP,         APP_ID,        true,              \
		variable##_entry,      1,      (at)-0x1001, SNAP_TRUST_CFI                    \
	}

SYSTEM_FRAME(futex_frame, "__futex_abstimed_wait_common", 0x89f70);
SYSTEM_FRAME(cond_frame, "pthread_cond_wait@@GLIBC_2.3.2", 0x8c5c0);
SYSTEM_FRAME(thread_frame, "start_thread", 0x8d134);
SYSTEM_FRAME(clone_frame, "clone3", 0x10d7dc);
SYSTEM_FRAME(call_main_frame, "__libc_start_call_main", 0x2724a);
SYSTEM_FRAME(start_main_frame, "__libc_start_main_impl", 0x27305);
SYSTEM_FRAME(fsync_frame, "fsync", 0x101a24);
SYSTEM_FRAME(qsort_inner_frame, "msort_with_tmp", 0x3f2a1);
SYSTEM_FRAME(qsort_frame, "qsort_r", 0x3f8b0);
OWN_FRAME(worker_frame, "worker_main", "src/worker.c", 92, 0x21f0);
OWN_FRAME(flush_frame, "flush_journal", "/build/orders/src/./journal/../journal.c", 341, 0x3300);
OWN_FRAME(flusher_frame, "flusher_main", "/build/orders/src/journal.c", 388, 0x3410);
OWN_FRAME(main_frame, "main", "/build/orders/src/main.c", 17, 0x1200);
OWN_FRAME(compare_frame, "compare", "/build/orders/src/tree.c", 8, 0x4100);
OWN_FRAME(walk_frame, "walk", "/build/orders/src/tree.c", 31, 0x4200);
OWN_FRAME(first_walk_frame, "walk", "/build/orders/src/tree.c", 31, 0x4210);

static struct snap_entry pop_entries[] = {
	{ .function = "queue_pop", .symbol = "queue_pop", .file = "src/queue.c", .line = 57 },
};
static const struct snap_frame pop_frame = { 0x555500002100, 0x20ff, APP,    APP_ID,        true,
					     pop_entries,    1,      0x10ff, SNAP_TRUST_CFI };
static struct snap_entry at_entries[] = {
	{ .function = "std::vector<Job, std::allocator<Job> >::at(unsigned long)",
	  .symbol = "_ZNSt6vectorI3JobSaIS0_EE2atEm",
	  .file = "include/vector",
	  .line = 13,
	  .inlined = true },
	{ .function = "next_job", .symbol = "next_job", .file = "src/worker.c", .line = 80 },
};
static const struct snap_frame at_frame = { 0x5555000021a0, 0x219f, APP,    APP_ID,        true,
					    at_entries,     2,      0x119f, SNAP_TRUST_CFI };
static struct snap_entry nameless_entries[] = { { .function = NULL } };
static const struct snap_frame nameless_frame = {
	0x555600005001, 0x5000, "/srv/orders/order-helper", NULL, true, nameless_entries, 1, 0,
	SNAP_TRUST_CFI
};
static const struct snap_frame jit_frame = { 0x7e0000001234,   0, NULL, NULL,          false,
					     nameless_entries, 1, 0,    SNAP_TRUST_CFI };
static struct snap_entry kernel_entries[] = {
	{ .function = "jbd2_log_wait_commit", .symbol = "jbd2_log_wait_commit", .kernel = true },
};
static const struct snap_frame kernel_frame = { 0, 0, "[jbd2]",      NULL, false, kernel_entries,
						1, 0, SNAP_TRUST_CFI };

static const struct snap_frame *worker_frames[] = { &futex_frame, &cond_frame,   &pop_frame,
						    &at_frame,    &worker_frame, &thread_frame,
						    &clone_frame };
static const struct snap_frame *flusher_frames[] = { &kernel_frame,  &fsync_frame,  &flush_frame,
						     &flusher_frame, &thread_frame, &clone_frame };
static const struct snap_frame *tree_frames[] = {
	&compare_frame, &qsort_inner_frame, &qsort_frame,     &first_walk_frame,
	&walk_frame,    &walk_frame,        &walk_frame,      &walk_frame,
	&walk_frame,    &main_frame,        &call_main_frame, &start_main_frame
};
static const struct snap_frame *helper_frames[] = { &nameless_frame, &jit_frame };

static struct snap_label worker_labels[] = {
	{ "state", "sleeping" },
	{ "thread_name", "worker-*" },
	{ "syscall", "futex" },
	{ "type", "user" },
};
static struct snap_label flusher_labels[] = {
	{ "state", "disk" },    { "thread_name", "flusher" },
	{ "syscall", "fsync" }, { "wchan", "jbd2_log_wait_commit" },
	{ "cpu", "3" },         { "type", "user" },
};
static struct snap_label tree_labels[] = {
	{ "state", "running" },
	{ "type", "user" },
};
static struct snap_label helper_labels[] = {
	{ "state", "running" },
	{ "thread_name", "order-helper" },
	{ "cpu", "0" },
	{ "type", "user" },
};
static struct snap_label stuck_labels[] = {
	{ "state", "disk" },
	{ "thread_name", "io" },
	{ "wchan", "folio_wait_bit" },
	{ "type", "user" },
};

static struct snap_member workers[12] = {
	{ 1240, 40, "worker-0", SNAP_STATE_SLEEPING, false, "futex", NULL, 0, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1241, 41, "worker-1", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1242, 42, "worker-2", SNAP_STATE_SLEEPING, false, "futex", NULL, -1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1250, 0, "worker-3", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1252, 0, "worker-4", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1254, 0, "worker-5", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1256, 0, "worker-6", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1258, 0, "worker-7", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1260, 0, "worker-8", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1262, 0, "worker-9", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1264, 0, "worker-10", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
	{ 1265, 0, "worker-11", SNAP_STATE_SLEEPING, false, "futex", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
};
static struct snap_member flushers[] = {
	{ 1302, 52, "flusher", SNAP_STATE_DISK, false, "fsync", "jbd2_log_wait_commit", 3,
	  SNAP_TAKEN_TOGETHER, NULL, 0, false, false },
};
static struct snap_member walkers[] = {
	{ 1234, 7, "orderd", SNAP_STATE_RUNNING, false, NULL, NULL, 1, SNAP_TAKEN_TOGETHER, NULL, 0,
	  false, false },
	{ 1303, 53, "reindex", SNAP_STATE_RUNNING, false, NULL, NULL, 2, SNAP_TAKEN_TOGETHER, NULL,
	  0, false, false },
};
static struct snap_member helpers[] = {
	{ 1310, 60, "order-helper", SNAP_STATE_RUNNING, false, NULL, NULL, 0, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
};
static struct snap_member stuck[] = {
	{ 1304, 54, "io", SNAP_STATE_DISK, false, NULL, "folio_wait_bit", -1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
};

static struct snap_stack service_stacks[] = {
	{ .id = "00c0ffee00c0ffee",
	  .count = 12,
	  .description = "worker_main",
	  .labels = worker_labels,
	  .label_count = 4,
	  .threads = workers,
	  .thread_count = 12,
	  .frames = worker_frames,
	  .frame_count = 7 },
	{ .id = "1111111111111111",
	  .count = 2,
	  .description = "main",
	  .labels = tree_labels,
	  .label_count = 2,
	  .gap_frame = 5,
	  .gap_count = 9488,
	  .threads = walkers,
	  .thread_count = 2,
	  .frames = tree_frames,
	  .frame_count = 12 },
	{ .id = "2222222222222222",
	  .count = 1,
	  .description = "flusher_main",
	  .labels = flusher_labels,
	  .label_count = 6,
	  .threads = flushers,
	  .thread_count = 1,
	  .frames = flusher_frames,
	  .frame_count = 6 },
	{ .id = "3333333333333333",
	  .count = 1,
	  .description = "(unknown)",
	  .labels = stuck_labels,
	  .label_count = 4,
	  .unwind = SNAP_UNWIND_NOT_STOPPED,
	  .unwind_detail = "state disk, wchan folio_wait_bit",
	  .threads = stuck,
	  .thread_count = 1 },
};
static struct snap_stack helper_stacks[] = {
	{ .id = "4444444444444444",
	  .count = 1,
	  .description = "(unknown)",
	  .labels = helper_labels,
	  .label_count = 4,
	  .unwind = SNAP_UNWIND_NO_CFI,
	  .unwind_detail = "order-helper+0x5000: no unwind information",
	  .threads = helpers,
	  .thread_count = 1,
	  .frames = helper_frames,
	  .frame_count = 2 },
};

static const char *service_args[] = { "orderd", "--config", "orderd.toml", "" };
static struct snap_ancestor service_ancestors[] = { { 1200, "run.sh", 90000 }, { 1, NULL, 0 } };
static struct snap_label service_labels[] = { { "exe_deleted", "true" } };
static struct snap_node helper_node = {
	.pid = 1310,
	.ppid = 1234,
	.ns_pid = 60,
	.name = "order-helper",
	.description = "order-helper",
	.state = SNAP_STATE_RUNNING,
	.uid = 1001,
	.user = "orders",
	.start_time_ns = 1795160000000000000,
	.start_ticks = 12345700,
	.unit = "orderd.service",
	.thread_count = 1,
	.stop_duration_ns = 7400000,
	.stacks = helper_stacks,
	.stack_count = 1,
};
static struct snap_node *service_children[] = { &helper_node };
static struct snap_node service_node = {
	.pid = 1234,
	.ppid = 1200,
	.ns_pid = 7,
	.name = "orderd",
	.description = "orderd --config orderd.toml",
	.state = SNAP_STATE_SLEEPING,
	.exe = APP,
	.args = service_args,
	.arg_count = 4,
	.uid = 1001,
	.user = "orders",
	.start_time_ns = 1795160000000000000,
	.start_ticks = 12345678,
	.cgroup = "/system.slice/orderd.service",
	.unit = "orderd.service",
	.container = "3f2a11d0",
	.ancestors = service_ancestors,
	.ancestor_count = 2,
	.thread_count = 17,
	.threads_missed = 1,
	.stop_duration_ns = 7400000,
	.labels = service_labels,
	.label_count = 1,
	.stacks = service_stacks,
	.stack_count = 4,
	.children = service_children,
	.child_count = 1,
};
static struct snap_node *service_roots[] = { &service_node };
static struct snap_warning service_warnings[] = {
	{ "thread_not_stopped", "thread 1304 could not be stopped in time", 1234, 1304 },
	{ "perf_map_refused", "perf map of process 1310 not used", 1310, 0 },
};
#define TEST_HOST                                                                             \
	{                                                                                     \
		"db-7", "6.1.0", "x86_64", "11111111-2222-3333-4444-555555555555", 16, 0, 100 \
	}
static const struct snap_snapshot service = {
	.host = TEST_HOST,
	.time_ns = 1795420338106000000,
	.duration_ns = 21000000,
	.stop_duration_ns = 7400000,
	.stop_skew_ns = 310000,
	.threads_stopped = 17,
	.threads_late = 1,
	.stop_rounds = 1,
	.process_count = 2,
	.thread_count = 17,
	.stack_count = 5,
	.processes = service_roots,
	.root_count = 1,
	.warnings = service_warnings,
	.warning_count = 2,
};

/* The same two processes as --flat puts them. */
static struct snap_node flat_service_node, *flat_roots[] = { &flat_service_node, &helper_node };
static inline struct snap_snapshot flat_service(void)
{
	struct snap_snapshot flat = service;

	flat_service_node = service_node;
	flat_service_node.children = NULL;
	flat_service_node.child_count = 0;
	flat.processes = flat_roots;
	flat.root_count = 2;
	flat.flat = true;
	return flat;
}

/* Controls, a bidirectional override, a backslash, bytes that are no UTF-8, a noncharacter. */
#define HOSTILE "a\033[31m\n\xe2\x80\xae\\x\xff\xc2\x9b\xef\xbf\xbe\xc3\xa9"
static struct snap_entry hostile_entries[] = {
	{ HOSTILE "fn", HOSTILE "sym", HOSTILE "/file.c", 1, 0, false, false, false, false, NULL },
};
static const struct snap_frame hostile_frame = { 1,    2,    "/" HOSTILE "/lib",
						 "aa", true, hostile_entries,
						 1,    2,    SNAP_TRUST_CFI };
static const struct snap_frame *hostile_frames[] = { &hostile_frame };
static struct snap_member hostile_members[] = {
	{ 9, 0, HOSTILE, SNAP_STATE_STOPPED, true, HOSTILE, HOSTILE, 0, SNAP_TAKEN_TOGETHER, NULL,
	  0, false, false },
};
static struct snap_label hostile_labels[] = {
	{ "state", "stopped" }, { "thread_name", HOSTILE }, { "syscall", HOSTILE },
	{ "wchan", HOSTILE },   { "type", "kernel" },
};
static struct snap_stack hostile_stacks[] = {
	{ .id = "5555555555555555",
	  .count = 1,
	  .description = HOSTILE,
	  .labels = hostile_labels,
	  .label_count = 5,
	  .unwind = SNAP_UNWIND_UNREADABLE,
	  .unwind_detail = HOSTILE ": +0x1: stack memory is gone",
	  .threads = hostile_members,
	  .thread_count = 1,
	  .frames = hostile_frames,
	  .frame_count = 1 },
};
static const char *hostile_args[] = { HOSTILE, "", HOSTILE };
static struct snap_ancestor hostile_ancestors[] = { { 8, HOSTILE, 1 } };
static struct snap_node hostile_node = {
	.pid = 9,
	.ppid = 8,
	.name = HOSTILE,
	.description = HOSTILE " " HOSTILE,
	.state = SNAP_STATE_STOPPED,
	.exe = HOSTILE,
	.args = hostile_args,
	.arg_count = 3,
	.user = HOSTILE,
	.cgroup = HOSTILE,
	.unit = HOSTILE,
	.container = HOSTILE,
	.ancestors = hostile_ancestors,
	.ancestor_count = 1,
	.thread_count = 1,
	.stacks = hostile_stacks,
	.stack_count = 1,
	.trouble = SNAP_TROUBLE_INTERNAL,
	.trouble_message = HOSTILE,
};
static struct snap_node *hostile_roots[] = { &hostile_node };
static struct snap_warning hostile_warnings[] = { { "hostile", HOSTILE, 0, 0 } };
static const struct snap_snapshot hostile = {
	.host = { HOSTILE, HOSTILE, HOSTILE, HOSTILE, 0, 0, 0 },
	.time_ns = 1,
	.process_count = 1,
	.thread_count = 1,
	.stack_count = 1,
	.processes = hostile_roots,
	.root_count = 1,
	.warnings = hostile_warnings,
	.warning_count = 1,
};

/* Each process has another trouble; nothing was stopped. */
#define TROUBLED(number, kind, word, reason, text)                                           \
	{                                                                                    \
		.pid = (number), .ppid = 1, .name = "p" #number, .type = (kind),             \
		.description = (word), .uid = (uid_t)-1, .trouble = (reason),                \
		.trouble_message = (text), .thread_count = (kind) == SNAP_TYPE_DEAD ? 0 : 1, \
		.threads_missed = (kind) == SNAP_TYPE_DEAD ? 0 : 1,                          \
	}
static struct snap_node troubled[] = {
	TROUBLED(10, SNAP_TYPE_DEAD, "(dead process)", SNAP_TROUBLE_NO_SUCH_PROCESS,
		 "there is no process 10"),
	TROUBLED(11, SNAP_TYPE_NORMAL, "sshd: me", SNAP_TROUBLE_PERMISSION_DENIED,
		 "cannot trace 11: Operation not permitted (kernel.yama.ptrace_scope is 1; run as "
		 "root)"),
	TROUBLED(12, SNAP_TYPE_NORMAL, "prog", SNAP_TROUBLE_ALREADY_TRACED, "traced by gdb[77]"),
	TROUBLED(13, SNAP_TYPE_DEAD, "(dead process)", SNAP_TROUBLE_EXITED, NULL),
	TROUBLED(14, SNAP_TYPE_KERNEL, "(kernel thread)", SNAP_TROUBLE_KERNEL_THREAD, NULL),
	TROUBLED(15, SNAP_TYPE_SYSTEM, "/sbin/init", SNAP_TROUBLE_STOP_TIMEOUT, NULL),
	TROUBLED(16, SNAP_TYPE_NONE, "(unassociated)", SNAP_TROUBLE_NONE, NULL),
	TROUBLED(17, SNAP_TYPE_DEAD, "(dead process)", SNAP_TROUBLE_ZOMBIE, NULL),
	TROUBLED(18, SNAP_TYPE_NORMAL, NULL, SNAP_TROUBLE_UNSUPPORTED_ARCH, NULL),
};
static struct snap_node *troubled_children[] = { &troubled[1], &troubled[2], &troubled[3],
						 &troubled[4], &troubled[6], &troubled[7] };
static struct snap_node *troubled_roots[] = { &troubled[0], &troubled[5], &troubled[8] };
static inline struct snap_snapshot all_troubled(void)
{
	troubled[5].children = troubled_children;
	troubled[5].child_count = 6;
	return (struct snap_snapshot){ .host = TEST_HOST,
				       .time_ns = 1795420338106000000,
				       .process_count = 9,
				       .processes = troubled_roots,
				       .root_count = 3 };
}
