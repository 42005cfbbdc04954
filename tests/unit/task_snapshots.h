/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot of a server with tasks, made by hand: logical processes nested by their parents, one
 * that only its child names, tasks that have no labels, two runtimes. Static data, never written.
 */
#pragma once

#include "snapshots.h"

#define GITEA "/usr/bin/gitea"
#define GO_FRAME(variable, name, path, row, at, of_runtime)                                  \
	static struct snap_entry variable##_entry[] = {                                      \
		{ .function = name,                                                          \
		  .symbol = name,                                                            \
		  .file = path,                                                              \
		  .line = row,                                                               \
		  .system = of_runtime,                                                      \
		  .language = "go" },                                                        \
	};                                                                                   \
	static const struct snap_frame variable = {                                          \
		0x400000 + (at), (at)-1, GITEA, APP_ID, true, variable##_entry, 1, (at)-1, 0 \
	}

GO_FRAME(gopark_frame, "runtime.gopark", "/usr/lib/go/src/runtime/proc.go", 398, 0x1000, true);
GO_FRAME(chanrecv_frame, "runtime.chanrecv1", "/usr/lib/go/src/runtime/chan.go", 442, 0x2000, true);
GO_FRAME(goexit_frame, "runtime.goexit", "/usr/lib/go/src/runtime/asm_amd64.s", 1650, 0x3000, true);
GO_FRAME(serve_frame, "code.gitea.io/gitea/routers.(*Router).ServeHTTP",
	 "/build/gitea/routers/router.go", 57, 0x4000, false);
GO_FRAME(walk_repo_frame, "code.gitea.io/gitea/modules/git.WalkReferences",
	 "/build/gitea/modules/git/ref.go", 120, 0x5000, false);
GO_FRAME(queue_frame, "code.gitea.io/gitea/modules/queue.(*Queue).Run",
	 "/build/gitea/modules/queue/queue.go", 88, 0x6000, false);

static struct snap_entry python_entry[] = {
	{ .function = "Handler.do_GET",
	  .file = "/srv/app/handler.py",
	  .line = 12,
	  .language = "python" },
};
static const struct snap_frame python_frame = { .entries = python_entry, .entry_count = 1 };

static const struct snap_frame *parked_frames[] = { &gopark_frame, &chanrecv_frame, &queue_frame,
						    &goexit_frame };
static const struct snap_frame *request_frames[] = { &walk_repo_frame, &serve_frame,
						     &goexit_frame };
static const struct snap_frame *python_frames[] = { &fsync_frame, &python_frame, &main_frame };

static const struct snap_entry router_entry = { .function = "net/http.(*Server).Serve",
						.file = "/usr/lib/go/src/net/http/server.go",
						.line = 3086,
						.language = "go" };

static struct snap_label request_labels[] = {
	{ "pid", "a1" },
	{ "ppid", "web" },
	{ "process-description", "GET: /me/repo" },
	{ "process-type", "request" },
	{ "state", "open" },
	{ "empty", "" },
};
static struct snap_label orphan_labels[] = {
	{ "pid", "b7" },
	{ "ppid", "b1" },
	{ "process-description", "git cat-file" },
};
static struct snap_task request_tasks[] = {
	{ .id = "412",
	  .state = SNAP_TASK_RUNNING,
	  .tid = 4100,
	  .parent = "18",
	  .created_by = &router_entry,
	  .labels = request_labels,
	  .label_count = 6 },
};
static struct snap_task queue_tasks[] = {
	{ .id = "18", .state = SNAP_TASK_WAITING, .wait = "chan receive", .since_ns = 77000000000 },
	{ .id = "19", .state = SNAP_TASK_WAITING, .wait = "chan receive" },
	{ .id = "20", .state = SNAP_TASK_WAITING, .wait = "chan receive" },
	{ .id = "0x7f00c0ffee", .state = SNAP_TASK_WAITING, .wait = "chan receive" },
};
static struct snap_task web_tasks[] = {
	{ .id = "17",
	  .name = "acceptor",
	  .state = SNAP_TASK_WAITING,
	  .wait = "chan receive",
	  .created_by = &router_entry },
};
static struct snap_task orphan_tasks[] = {
	{ .id = "500",
	  .state = SNAP_TASK_WAITING,
	  .wait = "chan receive",
	  .parent = "412",
	  .labels = orphan_labels,
	  .label_count = 3 },
};

static struct snap_label request_stack_labels[] = {
	{ "state", "running" },
	{ "label.state", "open" },
	{ "empty", "" },
};
static struct snap_label waiting_labels[] = {
	{ "state", "waiting" },
	{ "wait", "chan receive" },
};
#define TASK_STACK(number, text, made_of, of_tasks, with_labels)                       \
	{                                                                              \
		.id = number, .count = SNAP_ARRAY_SIZE(of_tasks), .description = text, \
		.runtime = "go", .labels = with_labels,                                \
		.label_count = SNAP_ARRAY_SIZE(with_labels), .tasks = of_tasks,        \
		.task_count = SNAP_ARRAY_SIZE(of_tasks), .frames = made_of,            \
		.frame_count = SNAP_ARRAY_SIZE(made_of),                               \
	}
static struct snap_stack web_stacks[] = {
	TASK_STACK("1000000000000001", "queue.(*Queue).Run", parked_frames, web_tasks,
		   waiting_labels),
};
static struct snap_stack request_stacks[] = {
	TASK_STACK("1000000000000002", "routers.(*Router).ServeHTTP", request_frames, request_tasks,
		   request_stack_labels),
};
static struct snap_stack orphan_stacks[] = {
	TASK_STACK("1000000000000003", "queue.(*Queue).Run", parked_frames, orphan_tasks,
		   waiting_labels),
};
static struct snap_stack queue_stacks[] = {
	TASK_STACK("1000000000000004", "queue.(*Queue).Run", parked_frames, queue_tasks,
		   waiting_labels),
};
static struct snap_label web_labels[] = { { "graceful-lifecycle", "with-hammer" } };
static struct snap_logical gitea_logical[] = {
	{ .id = "web",
	  .name = "Service: web",
	  .type = SNAP_LOGICAL_SYSTEM,
	  .labels = web_labels,
	  .label_count = 1,
	  .task_count = 1,
	  .stacks = web_stacks,
	  .stack_count = 1 },
	{ .id = "a1",
	  .parent = "web",
	  .name = "GET: /me/repo",
	  .type = SNAP_LOGICAL_REQUEST,
	  .depth = 1,
	  .task_count = 1,
	  .stacks = request_stacks,
	  .stack_count = 1 },
	{ .id = "b1", .name = "(dead process)", .type = SNAP_LOGICAL_DEAD },
	{ .id = "b7",
	  .parent = "b1",
	  .name = "git cat-file",
	  .depth = 1,
	  .task_count = 1,
	  .stacks = orphan_stacks,
	  .stack_count = 1 },
	{ .name = "(unassociated)",
	  .type = SNAP_LOGICAL_NONE,
	  .task_count = 4,
	  .stacks = queue_stacks,
	  .stack_count = 1 },
};

static struct snap_member python_members[] = {
	{ 4109, 0, "MainThread", SNAP_STATE_DISK, false, "fsync", NULL, 1, SNAP_TAKEN_TOGETHER,
	  NULL, 0, false, false },
};
static struct snap_label python_labels[] = { { "state", "disk" },
					     { "thread_name", "MainThread" },
					     { "syscall", "fsync" },
					     { "type", "user" } };
static struct snap_stack python_stacks[] = {
	{ .id = "1000000000000005",
	  .count = 1,
	  .description = "main",
	  .labels = python_labels,
	  .label_count = 4,
	  .threads = python_members,
	  .thread_count = 1,
	  .frames = python_frames,
	  .frame_count = 3 },
};
static struct snap_gil python_gil[] = { { 4109, 0 }, { 4110, -1 } };
static struct snap_node_runtime gitea_runtimes[] = {
	{ .name = "go",
	  .version = "1.21.13",
	  .tasks = 12,
	  .shown = 7,
	  .idle_threads = 9,
	  .cut = SNAP_RUNTIME_CUT_TIME,
	  .memory_bytes = 123456,
	  .plan_ns = 2400000 },
	{ .name = "cpython", .version = "3.11.2", .gil = python_gil, .gil_count = 2 },
};
static struct snap_label gitea_labels[] = {
	{ "exe_deleted", "true" },
	{ "request_method", "GET" },
	{ "request_uri", "/a\033b" },
};
static struct snap_node git_node = {
	.pid = 4200,
	.ppid = 4099,
	.name = "git",
	.description = "git cat-file --batch",
	.state = SNAP_STATE_SLEEPING,
	.uid = 1001,
	.thread_count = 1,
	.stacks = helper_stacks,
	.stack_count = 1,
};
static struct snap_node *gitea_children[] = { &git_node };
static struct snap_node gitea_node = {
	.pid = 4099,
	.ppid = 1,
	.name = "gitea",
	.description = "gitea web",
	.state = SNAP_STATE_SLEEPING,
	.exe = GITEA,
	.uid = 1001,
	.user = "git",
	.start_time_ns = 1795160000000000000,
	.start_ticks = 12345678,
	.thread_count = 12,
	.labels = gitea_labels,
	.label_count = 3,
	.stacks = python_stacks,
	.stack_count = 1,
	.runtimes = gitea_runtimes,
	.runtime_count = 2,
	.task_count = 7,
	.logical = gitea_logical,
	.logical_count = 5,
	.children = gitea_children,
	.child_count = 1,
};
static struct snap_node *gitea_roots[] = { &gitea_node };
static const struct snap_snapshot gitea = {
	.host = TEST_HOST,
	.time_ns = 1795420338106000000,
	.duration_ns = 21000000,
	.stop_duration_ns = 7400000,
	.process_count = 2,
	.thread_count = 2,
	.task_count = 7,
	.stack_count = 6,
	.processes = gitea_roots,
	.root_count = 1,
};

/* The same two processes as --flat puts them. */
static struct snap_node flat_gitea_node, *flat_gitea_roots[] = { &flat_gitea_node, &git_node };
static struct snap_logical flat_gitea_logical[SNAP_ARRAY_SIZE(gitea_logical)];
static inline struct snap_snapshot flat_gitea(void)
{
	struct snap_snapshot flat = gitea;

	flat_gitea_node = gitea_node;
	flat_gitea_node.children = NULL;
	flat_gitea_node.child_count = 0;
	memcpy(flat_gitea_logical, gitea_logical, sizeof(gitea_logical));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(gitea_logical); i++)
		flat_gitea_logical[i].depth = 0;
	flat_gitea_node.logical = flat_gitea_logical;
	flat.processes = flat_gitea_roots;
	flat.root_count = 2;
	flat.flat = true;
	return flat;
}

/* Every text of a task is hostile; keys too, and one looks like one of ours. */
static struct snap_label hostile_task_labels[] = { { HOSTILE, HOSTILE },
						   { "\"", "" },
						   { "", "x" } };
static const struct snap_entry hostile_creator = { .function = HOSTILE, .file = HOSTILE };
static struct snap_task hostile_tasks[] = {
	{ .id = HOSTILE,
	  .name = HOSTILE,
	  .wait = HOSTILE,
	  .parent = HOSTILE,
	  .created_by = &hostile_creator,
	  .labels = hostile_task_labels,
	  .label_count = 3 },
};
static struct snap_label hostile_task_stack_labels[] = {
	{ "state", "unknown" }, { "wait", HOSTILE }, { HOSTILE, HOSTILE },
	{ "\"", "" },           { "", "x" },
};
static struct snap_stack hostile_task_stacks[] = {
	{ .id = "6555555555555555",
	  .count = 1,
	  .description = HOSTILE,
	  .runtime = "go",
	  .labels = hostile_task_stack_labels,
	  .label_count = 5,
	  .unwind = SNAP_UNWIND_FAILED,
	  .unwind_detail = HOSTILE,
	  .tasks = hostile_tasks,
	  .task_count = 1,
	  .frames = hostile_frames,
	  .frame_count = 1 },
};
static struct snap_logical hostile_logical[] = {
	{ .id = HOSTILE,
	  .parent = HOSTILE,
	  .name = HOSTILE,
	  .labels = hostile_task_labels,
	  .label_count = 3,
	  .task_count = 1,
	  .stacks = hostile_task_stacks,
	  .stack_count = 1 },
};
static struct snap_node_runtime hostile_runtimes[] = {
	{ .name = "go", .version = HOSTILE, .tasks = 1, .shown = 1 },
};
static struct snap_node hostile_task_node = {
	.pid = 9,
	.name = HOSTILE,
	.description = HOSTILE,
	.thread_count = 1,
	.labels = hostile_task_labels,
	.label_count = 3,
	.runtimes = hostile_runtimes,
	.runtime_count = 1,
	.task_count = 1,
	.logical = hostile_logical,
	.logical_count = 1,
};
static struct snap_node *hostile_task_roots[] = { &hostile_task_node };
static const struct snap_snapshot hostile_gitea = {
	.host = TEST_HOST,
	.time_ns = 1,
	.process_count = 1,
	.task_count = 1,
	.stack_count = 1,
	.processes = hostile_task_roots,
	.root_count = 1,
};
