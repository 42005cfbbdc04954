/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes that are alike are one in the text report; what makes one differ keeps it apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "render/view/fold/fold.h"
#include "task_snapshots.h"

enum { WORKERS = 6, LABELS = 4, FIRST_PID = 2001 };

/* A server and its workers, all of which are alike but for their numbers. */
struct pool {
	struct snap_node server, workers[WORKERS], *children[WORKERS], *roots[1];
	struct snap_stack stacks[WORKERS];
	struct snap_member threads[WORKERS];
	struct snap_label labels[WORKERS][LABELS], requests[WORKERS][2];
	struct snap_wait waits[WORKERS];
	const char *args[WORKERS][2];
	char descriptions[WORKERS][64];
	struct snap_snapshot snapshot;
};

static void make_worker(struct pool *pool, size_t i)
{
	struct snap_wait *wait = &pool->waits[i];

	*wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN);
	wait->address = 0x7f0000001000 + 0x1000 * i;
	wait->place = "heap";
	wait->has_owner = true;
	wait->owner = (struct snap_wait_party){ .pid = 4000 + (pid_t)i,
						.tid = 4000 + (pid_t)i,
						.name = "keeper" };
	memcpy(pool->labels[i], worker_labels, sizeof(worker_labels));
	pool->labels[i][1].value = "webd";
	pool->threads[i] = workers[0];
	pool->threads[i].tid = FIRST_PID + (pid_t)i;
	pool->threads[i].name = "webd";
	pool->threads[i].cpu = (int)i;
	pool->stacks[i] = service_stacks[0];
	pool->stacks[i].count = pool->stacks[i].thread_count = 1;
	pool->stacks[i].threads = &pool->threads[i];
	pool->stacks[i].labels = pool->labels[i];
	snprintf(pool->descriptions[i], sizeof(pool->descriptions[i]), "webd --worker %zu", i);
	pool->args[i][0] = "webd";
	pool->args[i][1] = pool->descriptions[i] + strlen("webd ");
	pool->workers[i] = (struct snap_node){
		.pid = FIRST_PID + (pid_t)i,
		.ppid = 2000,
		.name = "webd",
		.description = pool->descriptions[i],
		.exe = "/srv/webd",
		.args = pool->args[i],
		.arg_count = 2,
		.state = SNAP_STATE_SLEEPING,
		.uid = 33,
		.user = "www",
		.start_time_ns = 1795160000000000000 + (int64_t)i,
		.thread_count = 1,
		.labels = pool->requests[i],
		.stacks = &pool->stacks[i],
		.stack_count = 1,
	};
	pool->requests[i][0] = (struct snap_label){ "request_uri", "/report" };
	pool->requests[i][1] = (struct snap_label){ "query_string", "user=1" };
	pool->children[i] = &pool->workers[i];
}

static void make_pool(struct pool *pool)
{
	*pool = (struct pool){ .snapshot = service };
	for (size_t i = 0; i < WORKERS; i++)
		make_worker(pool, i);
	pool->server = helper_node;
	pool->server.pid = 2000;
	pool->server.children = pool->children;
	pool->server.child_count = WORKERS;
	pool->roots[0] = &pool->server;
	pool->snapshot.processes = pool->roots;
	pool->snapshot.process_count = WORKERS + 1;
	pool->snapshot.thread_count = pool->snapshot.stack_count = WORKERS + 1;
}

/* How many processes the view has below the server. */
static size_t count_shown(const struct pool *pool, const struct snap_options *options)
{
	_cleanup_(snap_folds_deinit) struct snap_folds folds;

	assert_true(snap_folds_init(&folds, &pool->snapshot, options));
	assert_int_equal(folds.snapshot.root_count, 1);
	return folds.snapshot.processes[0]->child_count;
}

static void test_all_are_one(void **state _unused_)
{
	struct snap_options options = { .utf8 = true }, all = { .no_fold = true };
	_cleanup_(snap_folds_deinit) struct snap_folds folds;
	const struct snap_node *node;
	struct pool pool;

	make_pool(&pool);
	assert_int_equal(count_shown(&pool, &all), WORKERS);
	assert_true(snap_folds_init(&folds, &pool.snapshot, &options));
	assert_int_equal(folds.snapshot.processes[0]->child_count, 1);
	assert_null(folds.snapshot.processes[0]->folded);
	node = folds.snapshot.processes[0]->children[0];
	assert_int_equal(node->folded_count, WORKERS);
	assert_int_equal(node->thread_count, WORKERS);
	assert_int_equal(node->stack_count, 1);
	assert_int_equal(node->stacks[0].count, WORKERS);
	assert_int_equal(node->stacks[0].thread_count, WORKERS);
	for (int i = 0; i < WORKERS; i++) {
		assert_int_equal(node->folded[i], FIRST_PID + i);
		assert_int_equal(node->stacks[0].threads[i].tid, FIRST_PID + i);
	}
	assert_string_equal(node->description, "webd --worker *");
	assert_null(snap_stack_label(&node->stacks[0], "cpu"));
	assert_string_equal(snap_stack_label(&node->stacks[0], "thread_name"), "webd");
	/* The snapshot is as it was. */
	assert_int_equal(pool.server.child_count, WORKERS);
	assert_int_equal(pool.stacks[0].count, 1);
}

static void other_program(struct pool *pool)
{
	pool->workers[2].exe = "/srv/webd.old";
}

static void no_program(struct pool *pool)
{
	pool->workers[2].exe = NULL;
}

static void other_name(struct pool *pool)
{
	pool->workers[2].name = "indexer";
}

static void other_state(struct pool *pool)
{
	pool->labels[2][0].value = "disk";
}

static void other_call(struct pool *pool)
{
	pool->labels[2][2].value = "read";
}

static void other_frames(struct pool *pool)
{
	pool->stacks[2].frames = flusher_frames;
	pool->stacks[2].frame_count = 6;
}

static void two_threads(struct pool *pool)
{
	static struct snap_member two[2];

	two[0] = two[1] = pool->threads[2];
	two[1].tid++;
	pool->stacks[2].threads = two;
	pool->stacks[2].count = pool->stacks[2].thread_count = 2;
	pool->workers[2].thread_count = 2;
}

static void other_user(struct pool *pool)
{
	pool->workers[2].uid = 0;
}

static void other_container(struct pool *pool)
{
	pool->workers[2].container = "3f2a11d0";
}

static void other_request(struct pool *pool)
{
	pool->requests[2][0].value = "/slow";
	pool->workers[2].label_count = 1;
}

static void troubled_one(struct pool *pool)
{
	pool->workers[2].trouble = SNAP_TROUBLE_PERMISSION_DENIED;
}

static void a_child(struct pool *pool)
{
	static struct snap_node *child[] = { &helper_node };

	pool->workers[2].children = child;
	pool->workers[2].child_count = 1;
}

static void other_title(struct pool *pool)
{
	static const char *titles[WORKERS][1];

	for (size_t i = 0; i < WORKERS; i++) {
		titles[i][0] = i == 2 ? "webd: shop 9 idle in transaction" : "webd: shop 8 idle";
		pool->workers[i].args = titles[i];
		pool->workers[i].arg_count = 1;
	}
}

static void all_wait(struct pool *pool)
{
	for (size_t i = 0; i < WORKERS; i++)
		pool->threads[i].wait = &pool->waits[i];
}

static void other_lock(struct pool *pool)
{
	all_wait(pool);
	pool->waits[2].symbol = "ledger_lock";
}

static void other_owner(struct pool *pool)
{
	all_wait(pool);
	pool->waits[2].owner.name = "reporter";
}

static void to_servers(struct pool *pool, const char *odd)
{
	static const char *const remotes[WORKERS] = { "10.0.0.9:40001", "10.0.0.9:40002",
						      "10.0.0.9:40003", "10.0.0.9:40004",
						      "10.0.0.9:40005", "10.0.0.9:40006" };

	for (size_t i = 0; i < WORKERS; i++) {
		pool->waits[i] = snap_wait_init(SNAP_WAIT_TCP, SNAP_WAIT_IS_CERTAIN);
		pool->waits[i].mode = SNAP_WAIT_READ;
		pool->waits[i].fd = 5 + (int32_t)i;
		pool->waits[i].local = "10.0.0.4:5432";
		pool->waits[i].remote = i == 2 && odd ? odd : remotes[i];
	}
	all_wait(pool);
}

static void other_host(struct pool *pool)
{
	to_servers(pool, "10.0.0.8:40003");
}

static void other_service(struct pool *pool)
{
	to_servers(pool, "10.0.0.9:80");
}

/* One process in which a thing differs stands apart, and alone. */
static void test_the_odd_one(void **state _unused_)
{
	static void (*const changes[])(struct pool *) = {
		other_program, no_program,    other_name,  other_state,     other_call,
		other_frames,  two_threads,   other_user,  other_container, other_request,
		troubled_one,  a_child,       other_title, other_lock,      other_owner,
		other_host,    other_service,
	};
	struct snap_options options = { .utf8 = true };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(changes); i++) {
		_cleanup_(snap_folds_deinit) struct snap_folds folds;
		const struct snap_node *server;
		struct pool pool;

		make_pool(&pool);
		for (size_t k = 0; k < WORKERS; k++)
			pool.workers[k].label_count = changes[i] == other_request;
		changes[i](&pool);
		assert_true(snap_folds_init(&folds, &pool.snapshot, &options));
		server = folds.snapshot.processes[0];
		if (server->child_count != 2)
			fail_msg("change %zu: %zu nodes", i, server->child_count);
		assert_int_equal(server->children[0]->folded_count, WORKERS - 1);
		assert_int_equal(server->children[1]->pid, FIRST_PID + 2);
		assert_null(server->children[1]->folded);
	}
}

static void numbers_of_names(struct pool *pool)
{
	static const char *const names[WORKERS] = { "webd/1",  "webd/2", "webd/3",
						    "webd/40", "webd/5", "webd/6" };

	for (size_t i = 0; i < WORKERS; i++)
		pool->workers[i].name = pool->threads[i].name = pool->labels[i][1].value = names[i];
}

static void other_arguments(struct pool *pool)
{
	pool->workers[2].description = "webd --queue mail";
}

static void same_servers(struct pool *pool)
{
	to_servers(pool, NULL);
}

static void queries(struct pool *pool)
{
	pool->requests[2][1].value = "user=2";
	for (size_t i = 0; i < WORKERS; i++)
		pool->workers[i].label_count = 2;
}

/* Pids, tids, addresses, ages, arguments, clients' ports: these differ among equals, too. */
static void test_what_may_differ(void **state _unused_)
{
	static void (*const changes[])(struct pool *) = { numbers_of_names, other_arguments,
							  all_wait, same_servers, queries };
	struct snap_options options = { .utf8 = true };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(changes); i++) {
		struct pool pool;

		make_pool(&pool);
		changes[i](&pool);
		if (count_shown(&pool, &options) != 1)
			fail_msg("change %zu keeps them apart", i);
	}
}

/* What is below workers folds with them: each has a child of its own, of two kinds in turn. */
static void test_children_fold_with_their_parents(void **state _unused_)
{
	struct snap_node below[WORKERS], *lists[WORKERS][1];
	struct snap_options options = { .utf8 = true };
	_cleanup_(snap_folds_deinit) struct snap_folds folds;
	const struct snap_node *server;
	struct pool pool;

	make_pool(&pool);
	for (size_t i = 0; i < WORKERS; i++) {
		below[i] = pool.workers[i];
		below[i].pid = 3000 + (pid_t)i;
		below[i].exe = i % 2 ? "/bin/odd" : "/bin/even";
		lists[i][0] = &below[i];
		pool.workers[i].children = lists[i];
		pool.workers[i].child_count = 1;
	}
	assert_true(snap_folds_init(&folds, &pool.snapshot, &options));
	server = folds.snapshot.processes[0];
	assert_int_equal(server->child_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct snap_node *worker = server->children[i];

		assert_int_equal(worker->folded_count, WORKERS / 2);
		assert_int_equal(worker->child_count, 1);
		assert_int_equal(worker->children[0]->folded_count, WORKERS / 2);
		assert_int_equal(worker->children[0]->folded[1], 3002 + (pid_t)i);
	}
}

static void check_text(const char *name, const struct snap_snapshot *snapshot,
		       const struct snap_options *options)
{
	_cleanup_free_ char *text = golden_render(snap_render_text, snapshot, options, NULL);

	golden_check(name, text);
}

static void test_text(void **state _unused_)
{
	struct snap_options options = { .utf8 = true };
	struct pool pool;

	make_pool(&pool);
	all_wait(&pool);
	other_state(&pool);
	queries(&pool);
	pool.threads[5].tid = pool.workers[5].pid = 2050;
	check_text("pool.txt", &pool.snapshot, &options);
	options.no_fold = true;
	check_text("pool-all.txt", &pool.snapshot, &options);
	options.no_fold = false;
	options.summary = true;
	check_text("pool-summary.txt", &pool.snapshot, &options);
	options.summary = options.utf8 = false;
	options.width = 60;
	check_text("pool-terminal.txt", &pool.snapshot, &options);
}

/* Kernel threads have neither program nor stacks, and all kinds of names. */
static void test_kernel_threads(void **state _unused_)
{
	static const char *const names[WORKERS] = { "kswapd0",    "ksoftirqd/0", "jbd2/sda1-8",
						    "khugepaged", "kworker/0:1", "rcu_gp" };
	struct snap_options options = { .utf8 = true };
	char messages[WORKERS][64];
	struct pool pool;

	make_pool(&pool);
	for (size_t i = 0; i < WORKERS; i++) {
		struct snap_node *node = &pool.workers[i];

		snprintf(messages[i], sizeof(messages[i]), "%d is a kernel thread", node->pid);
		*node = (struct snap_node){
			.pid = node->pid,
			.name = names[i],
			.description = "(kernel thread)",
			.type = SNAP_TYPE_KERNEL,
			.state = i == 2  ? SNAP_STATE_DISK
				 : i % 2 ? SNAP_STATE_IDLE
					 : SNAP_STATE_SLEEPING,
			.trouble = SNAP_TROUBLE_KERNEL_THREAD,
			.trouble_message = messages[i],
			.thread_count = 1,
			.threads_missed = 1,
		};
	}
	check_text("kernel-threads.txt", &pool.snapshot, &options);
}

/* Tasks of processes that are alike are told together; trees of tasks by their place in them. */
static void test_tasks(void **state _unused_)
{
	struct snap_node twins[2] = { gitea_node, gitea_node }, *roots[] = { &twins[0], &twins[1] };
	struct snap_snapshot snapshot = gitea;
	struct snap_options options = { .utf8 = true };
	_cleanup_(snap_folds_deinit) struct snap_folds folds;
	const struct snap_node *node;

	for (size_t i = 0; i < 2; i++)
		twins[i].exe = "/srv/gitea";
	twins[1].pid++;
	snapshot.processes = roots;
	snapshot.root_count = 2;
	assert_true(snap_folds_init(&folds, &snapshot, &options));
	assert_int_equal(folds.snapshot.root_count, 1);
	node = folds.snapshot.processes[0];
	assert_int_equal(node->task_count, 2 * gitea_node.task_count);
	assert_int_equal(node->logical_count, gitea_node.logical_count);
	for (size_t i = 0; i < node->logical_count; i++) {
		assert_int_equal(node->logical[i].task_count, 2 * gitea_logical[i].task_count);
		for (size_t k = 0; k < node->logical[i].stack_count; k++)
			assert_int_equal(node->logical[i].stacks[k].task_count,
					 2 * gitea_logical[i].stacks[k].task_count);
	}
	check_text("tasks-folded.txt", &snapshot, &options);
}

/* As many as a machine may have. */
static void test_thousands(void **state _unused_)
{
	enum { MANY = 20000 };
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ struct snap_node *nodes = calloc(MANY, sizeof(*nodes));
	_cleanup_free_ struct snap_node **children = calloc(MANY, sizeof(*children));
	_cleanup_free_ struct snap_stack *stacks = calloc(MANY, sizeof(*stacks));
	_cleanup_free_ struct snap_member *threads = calloc(MANY, sizeof(*threads));
	_cleanup_(snap_folds_deinit) struct snap_folds folds;
	struct pool pool;

	assert_true(nodes && children && stacks && threads);
	make_pool(&pool);
	for (size_t i = 0; i < MANY; i++) {
		nodes[i] = pool.workers[0];
		nodes[i].pid = 10000 + (pid_t)i;
		/* The second half of them all differ from each other. */
		nodes[i].uid = i < MANY / 2 ? 33 : (uid_t)i;
		stacks[i] = pool.stacks[0];
		threads[i] = pool.threads[0];
		threads[i].tid = nodes[i].pid;
		stacks[i].threads = &threads[i];
		nodes[i].stacks = &stacks[i];
		children[i] = &nodes[i];
	}
	pool.server.children = children;
	pool.server.child_count = MANY;
	assert_true(snap_folds_init(&folds, &pool.snapshot, &options));
	assert_int_equal(folds.snapshot.processes[0]->child_count, 1 + MANY / 2);
	assert_int_equal(folds.snapshot.processes[0]->children[0]->folded_count, MANY / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_are_one),
		cmocka_unit_test(test_the_odd_one),
		cmocka_unit_test(test_what_may_differ),
		cmocka_unit_test(test_children_fold_with_their_parents),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_kernel_threads),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_thousands),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
