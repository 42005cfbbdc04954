/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* discover: the tree, its labels and its targets, on a recorded machine (fixtures/procfs-tree). */
#include "discover/discover.h"
#include "discover/internal.h"
#include "skip.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_TARGETS = 8, SELF = 301 };

struct machine {
	struct snap_procfs procfs;
	struct snap_options options;
	struct snap_target targets[MAX_TARGETS];
	struct snap_capture *capture;
	regex_t regex;
};

static void machine_init_at(struct machine *machine, const char *path)
{
	*machine = (struct machine){ .options.children = true };
	assert_null(snap_procfs_open(path, &machine->procfs));
	machine->options.targets = machine->targets;
	machine->capture = snap_capture_new();
	assert_non_null(machine->capture);
	assert_int_equal(regcomp(&machine->regex, "^order", REG_EXTENDED | REG_NOSUB), 0);
}

static void machine_init(struct machine *machine)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/unit/fixtures/procfs-tree",
		 getenv("STACKSNAP_SOURCE"));
	machine_init_at(machine, path);
}

static void machine_deinit(struct machine *machine)
{
	snap_capture_destroy(machine->capture);
	snap_procfs_close(&machine->procfs);
	regfree(&machine->regex);
}

static void add_target(struct machine *machine, struct snap_target target)
{
	assert_true(machine->options.target_count < MAX_TARGETS);
	machine->targets[machine->options.target_count++] = target;
}

static void add_pid(struct machine *machine, pid_t pid)
{
	add_target(machine, (struct snap_target){ .kind = SNAP_TARGET_PID, .pid = pid });
}

static void add_text(struct machine *machine, enum snap_target_kind kind, const char *text)
{
	add_target(machine,
		   (struct snap_target){ .kind = kind, .text = text, .regex = &machine->regex });
}

/* With times that discovery may take, see struct snap_discovery; 0: there is no hurry. */
static struct stacksnap_error *discover_until(struct machine *machine, int64_t found_until_ns,
					      int64_t facts_ns)
{
	_cleanup_(snap_discovery_deinit) struct snap_discovery run = { 0 };
	struct stacksnap_error *err = snap_discovery_init(&run, &machine->options, machine->capture,
							  &machine->procfs, SELF);

	if (!err)
		err = snap_asker_new_on(&machine->procfs, 0, &run.asker);
	if (err)
		return err;
	run.owns_asker = true;
	run.table.asker = found_until_ns ? run.asker : NULL;
	run.table.until_ns = found_until_ns;
	run.facts_ns = facts_ns;
	return snap_discovery_run(&run);
}

static struct stacksnap_error *discover(struct machine *machine)
{
	return discover_until(machine, 0, 0);
}

/* The pids of the capture, in order, and that parents stand before their children. */
static void check_pids(const struct snap_capture *capture, const char *expected)
{
	char text[1024] = "";

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", i ? " " : "",
			 (int)process->pid);
		if (process->parent == SIZE_MAX)
			continue;
		assert_true(process->parent < i);
		assert_int_equal(capture->processes[process->parent].pid, process->ppid);
	}
	assert_string_equal(text, expected);
}

static const struct snap_process *process_of(const struct snap_capture *capture, pid_t pid)
{
	for (size_t i = 0; i < capture->process_count; i++)
		if (capture->processes[i].pid == pid)
			return &capture->processes[i];
	fail_msg("no process %d", (int)pid);
	return NULL;
}

static void test_a_family(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	const struct snap_process *process;

	machine_init(&machine);
	add_pid(&machine, 100);
	assert_null(discover(&machine));
	check_pids(machine.capture, "100 120 121 122 123 99");
	process = process_of(machine.capture, 120);
	assert_false(process->is_target);
	assert_string_equal(process->name, "orderd");
	assert_string_equal(process->exe, "/usr/bin/orderd");
	assert_true(process->exe_deleted);
	assert_int_equal(process->start_ticks, 60);
	assert_int_equal(process->uid, 1000);
	assert_string_equal(process->cgroup, "/system.slice/orderd.service");
	assert_string_equal(process->unit, "orderd.service");
	assert_null(process->container);
	assert_int_equal(process->args_size, 7);
	assert_memory_equal(process->args, "orderd", 7);
	assert_int_equal(process->trouble, SNAP_TROUBLE_NONE);
	assert_true(process->in_host_namespace);
	assert_false(process->is_namespace_init);
	assert_int_equal(process->start_time_ns,
			 machine.capture->host.boot_time_ns +
				 60 * (1000000000 / machine.capture->host.ticks_per_second));
	process = process_of(machine.capture, 100);
	assert_true(process->is_target);
	assert_false(process->exe_deleted);
	assert_string_equal(machine.capture->host.boot_id, "c1279347-8c35-482c-bddb-75dab2735d0e");
	assert_int_equal(machine.capture->warning_count, 0);
}

static void test_the_dead_stay_as_nodes(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	const struct snap_process *process;

	machine_init(&machine);
	add_pid(&machine, 120);
	assert_null(discover(&machine));
	process = process_of(machine.capture, 122);
	assert_int_equal(process->trouble, SNAP_TROUBLE_ZOMBIE);
	assert_non_null(strstr(process->trouble_message, "122"));
	assert_int_equal(process->state, 'Z');
	assert_false(process->vanished);
	assert_null(process->args);
	/* Its leader has exited, its threads have not: no dead process. */
	assert_int_equal(process_of(machine.capture, 123)->trouble, SNAP_TROUBLE_NONE);
	assert_int_equal(process_of(machine.capture, 123)->state, 'Z');
}

static void test_ancestors_in_the_same_cgroup(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	const struct snap_process *process;

	machine_init(&machine);
	add_pid(&machine, 121);
	add_pid(&machine, 202);
	assert_null(discover(&machine));
	check_pids(machine.capture, "121 99 202");
	/* One that was asked for, up to the cgroup's edge; one below it. */
	process = process_of(machine.capture, 121);
	assert_int_equal(process->ancestor_count, 2);
	assert_int_equal(process->ancestors[0].pid, 120);
	assert_string_equal(process->ancestors[0].name, "orderd");
	assert_int_equal(process->ancestors[0].start_ticks, 60);
	assert_int_equal(process->ancestors[1].pid, 100);
	process = process_of(machine.capture, 99);
	assert_int_equal(process->ancestor_count, 3);
	assert_int_equal(process->ancestors[0].pid, 121);
	assert_int_equal(process->ancestors[2].pid, 100);
	/* The engine's shim is in another one. */
	process = process_of(machine.capture, 202);
	assert_int_equal(process->ancestor_count, 1);
	assert_int_equal(process->ancestors[0].pid, 201);
}

static void test_namespaces(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	const struct snap_process *process;

	machine_init(&machine);
	add_pid(&machine, 200);
	assert_null(discover(&machine));
	check_pids(machine.capture, "200 201 202");
	process = process_of(machine.capture, 201);
	assert_int_equal(process->ns_pid, 1);
	assert_true(process->is_namespace_init);
	assert_false(process->in_host_namespace);
	process = process_of(machine.capture, 202);
	assert_int_equal(process->ns_pid, 7);
	assert_false(process->is_namespace_init);
	assert_int_equal(strlen(process->container), 64);
	assert_true(process_of(machine.capture, 200)->in_host_namespace);
}

static void test_one_in_the_tree_of_another_appears_once(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	add_pid(&machine, 121);
	add_pid(&machine, 300);
	add_pid(&machine, 100);
	add_pid(&machine, 121);
	assert_null(discover(&machine));
	check_pids(machine.capture, "100 120 121 122 123 99 300");
	assert_true(process_of(machine.capture, 121)->is_target);
	assert_false(process_of(machine.capture, 120)->is_target);
}

static void test_without_children(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	machine.options.children = false;
	add_pid(&machine, 121);
	add_pid(&machine, 120);
	add_pid(&machine, 99);
	add_pid(&machine, 1);
	assert_null(discover(&machine));
	check_pids(machine.capture, "1 120 121 99");
	assert_true(process_of(machine.capture, 99)->parent != SIZE_MAX);
	assert_true(process_of(machine.capture, 1)->parent == SIZE_MAX);
}

/* Neither itself nor its tracing child nor a worker of that, but what else is below it. */
static void test_never_itself(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	add_pid(&machine, 300);
	add_pid(&machine, 301);
	add_pid(&machine, 302);
	add_pid(&machine, 303);
	add_pid(&machine, 304);
	assert_null(discover(&machine));
	check_pids(machine.capture, "300 303");
	assert_int_equal(machine.capture->warning_count, 3);
	assert_string_equal(machine.capture->warnings[0].code, "own_process");
	assert_true(process_of(machine.capture, 303)->parent == SIZE_MAX);
}

static void test_nobody_but_itself_is_an_error(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	struct stacksnap_error *err;

	machine_init(&machine);
	add_pid(&machine, 301);
	err = discover(&machine);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_NOT_FOUND);
	assert_string_equal(snap_error_message(err), "301 is stacksnap itself and is left out");
	snap_error_destroy(err);
}

static void test_no_such_process(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	const struct snap_process *process;

	machine_init(&machine);
	add_pid(&machine, 4711);
	add_pid(&machine, 303);
	add_pid(&machine, 4711);
	assert_null(discover(&machine));
	check_pids(machine.capture, "303 4711");
	process = process_of(machine.capture, 4711);
	assert_int_equal(process->trouble, SNAP_TROUBLE_NO_SUCH_PROCESS);
	assert_string_equal(process->trouble_message, "cannot find 4711: no such process");
	assert_true(process->is_target);
	assert_true(process->uid == (uid_t)-1);
}

static void test_kernel_threads(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	add_pid(&machine, 2);
	assert_null(discover(&machine));
	check_pids(machine.capture, "2 30");
	assert_int_equal(process_of(machine.capture, 2)->trouble, SNAP_TROUBLE_KERNEL_THREAD);
	assert_int_equal(process_of(machine.capture, 30)->trouble, SNAP_TROUBLE_KERNEL_THREAD);
	assert_null(process_of(machine.capture, 30)->exe);
}

/* A pid that was given away meanwhile is no parent; two that name each other do not go round. */
static void test_reused_pids(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	add_pid(&machine, 400);
	add_pid(&machine, 501);
	assert_null(discover(&machine));
	check_pids(machine.capture, "400 501 500");
}

static void test_two_that_name_each_other_as_targets(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	add_pid(&machine, 501);
	add_pid(&machine, 500);
	assert_null(discover(&machine));
	check_pids(machine.capture, "500 501");
}

static void test_targets_by_name(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	machine.options.children = false;
	add_text(&machine, SNAP_TARGET_NAME, "^order");
	assert_null(discover(&machine));
	check_pids(machine.capture, "120 121 122 123 99");
	assert_true(process_of(machine.capture, 99)->is_target);
}

/* comm is "systemd-xyz" or anything; the program's own name counts as well. Never itself. */
static void test_targets_by_program(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	regfree(&machine.regex);
	assert_int_equal(
		regcomp(&machine.regex, "^(helper|orphan|stacksnap)$", REG_EXTENDED | REG_NOSUB),
		0);
	machine.options.children = false;
	add_text(&machine, SNAP_TARGET_NAME, "");
	assert_null(discover(&machine));
	check_pids(machine.capture, "121 401");
}

static void test_targets_by_group(void **state _unused_)
{
	static const struct {
		enum snap_target_kind kind;
		const char *text, *pids;
	} cases[] = {
		{ SNAP_TARGET_UNIT, "orderd", "100 120 121 122 123 99" },
		{ SNAP_TARGET_UNIT, "orderd.service", "100 120 121 122 123 99" },
		{ SNAP_TARGET_CGROUP, "/system.slice", "100 120 121 122 123 99 200 201 202" },
		{ SNAP_TARGET_CGROUP, "/user.slice/user-1000.slice/", "300 303" },
		{ SNAP_TARGET_CONTAINER, "0123456789ab", "201 202" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_(machine_deinit) struct machine machine;

		machine_init(&machine);
		add_text(&machine, cases[i].kind, cases[i].text);
		assert_null(discover(&machine));
		check_pids(machine.capture, cases[i].pids);
	}
}

static void test_targets_that_match_nothing(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine, other;
	struct stacksnap_error *err;

	machine_init(&machine);
	add_text(&machine, SNAP_TARGET_UNIT, "absent");
	err = discover(&machine);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_NOT_FOUND);
	assert_string_equal(snap_error_message(err), "no process runs in the unit 'absent'");
	snap_error_destroy(err);
	/* Beside one that is there it is no more than a warning. */
	machine_init(&other);
	add_text(&other, SNAP_TARGET_CONTAINER, "absent");
	add_pid(&other, 303);
	assert_null(discover(&other));
	check_pids(other.capture, "303");
	assert_int_equal(other.capture->warning_count, 1);
	assert_string_equal(other.capture->warnings[0].code, "target_not_found");
}

static void test_all_leaves_out_what_started_it(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	add_text(&machine, SNAP_TARGET_ALL, NULL);
	assert_null(discover(&machine));
	/* Not 1, 300, 301 and 302. 400's child is older than 400, so that pid was reused. */
	check_pids(machine.capture, "2 30 100 120 121 122 123 99 200 201 202 303 400 401 600 "
				    "500 501");
	assert_false(process_of(machine.capture, 2)->is_target);
	assert_null(process_of(machine.capture, 600)->cgroup);
	assert_int_equal(process_of(machine.capture, 600)->ancestor_count, 0);
}

static void test_cancelled(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	const volatile int cancel = 1;
	struct stacksnap_error *err;

	machine_init(&machine);
	machine.options.cancel = &cancel;
	add_pid(&machine, 100);
	err = discover(&machine);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
	snap_error_destroy(err);
}

/* Runs a command of the shell in which $0 is a folder, $1 the recorded machine. */
static void shell(const char *folder, const char *command)
{
	char text[8192];

	snprintf(text, sizeof(text), "sh -c '%s' %s \"$STACKSNAP_SOURCE\"", command, folder);
	assert_int_equal(system(text), 0);
}

/* Whoever opens a FIFO that nobody writes to waits for ever. */
static void test_processes_that_do_not_respond(void **state _unused_)
{
	static const pid_t silent[] = { 100, 121, 123 };
	_cleanup_(machine_deinit) struct machine machine;
	char folder[] = "/tmp/stacksnap-test.XXXXXX";

	assert_non_null(mkdtemp(folder));
	shell(folder, "cp -a \"$1\"/tests/unit/fixtures/procfs-tree/. $0 && cd $0 && "
		      "for pid in 100 121 123; do rm $pid/cmdline; mkfifo $pid/cmdline; done");
	machine_init_at(&machine, folder);
	add_pid(&machine, 100);
	assert_null(discover(&machine));
	shell(folder, "rm -r $0");
	check_pids(machine.capture, "100 120 121 122 123 99");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(silent); i++) {
		const struct snap_process *process = process_of(machine.capture, silent[i]);

		assert_int_equal(process->trouble, SNAP_TROUBLE_NOT_RESPONDING);
		assert_non_null(strstr(process->trouble_message, "does not respond"));
		assert_non_null(process->name);
		assert_non_null(process->cgroup);
		assert_null(process->args);
	}
	assert_int_equal(process_of(machine.capture, 120)->trouble, SNAP_TROUBLE_NONE);
	assert_string_equal(process_of(machine.capture, 120)->args, "orderd");
	assert_int_equal(process_of(machine.capture, 99)->trouble, SNAP_TROUBLE_NONE);
	assert_int_equal(machine.capture->warning_count, 0);
}

/* Whoever was named is asked in any case; of the others a warning tells that they may be missing. */
static void test_no_time_to_find_any(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;

	machine_init(&machine);
	add_pid(&machine, 100);
	assert_null(discover_until(&machine, 1, 0));
	check_pids(machine.capture, "100");
	assert_int_equal(process_of(machine.capture, 100)->trouble, SNAP_TROUBLE_NONE);
	assert_int_equal(machine.capture->warning_count, 1);
	assert_string_equal(machine.capture->warnings[0].code, "processes_late");
	assert_non_null(strstr(machine.capture->warnings[0].message, "--timeout"));
}

/* The tree is there, and says of whom nothing more is known: of all but the first ones. */
static void test_no_time_to_read_all(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	char folder[] = "/tmp/stacksnap-test.XXXXXX";
	size_t read = 0, left_out = 0;

	assert_non_null(mkdtemp(folder));
	shell(folder, "cp -a \"$1\"/tests/unit/fixtures/procfs-tree/. $0 && cd $0 && "
		      "for pid in $(seq 20000 20099); do cp -a 123 $pid; "
		      "sed -i \"s/^123 /$pid /\" $pid/stat; done");
	machine_init_at(&machine, folder);
	add_pid(&machine, 100);
	assert_null(discover_until(&machine, 0, -1));
	shell(folder, "rm -r $0");
	assert_int_equal(machine.capture->process_count, 106);
	for (size_t i = 0; i < machine.capture->process_count; i++) {
		const struct snap_process *process = &machine.capture->processes[i];

		if (process->trouble != SNAP_TROUBLE_OUT_OF_TIME) {
			read++;
			continue;
		}
		assert_non_null(strstr(process->trouble_message, "--timeout"));
		assert_non_null(process->name);
		assert_null(process->cgroup);
		left_out++;
	}
	assert_in_range(read, 64, 65);
	assert_int_equal(left_out, 106 - read);
}

/* A user with any number of processes does not take the time of another one's. */
static void test_users_take_turns(void **state _unused_)
{
	_cleanup_(machine_deinit) struct machine machine;
	char folder[] = "/tmp/stacksnap-test.XXXXXX";

	if (geteuid() != 0)
		skip_because("rights: only root makes folders of other users");
	assert_non_null(mkdtemp(folder));
	shell(folder, "cp -a \"$1\"/tests/unit/fixtures/procfs-tree/. $0 && cd $0 && "
		      "for pid in $(seq 20000 20399) 30000 30001; do cp -a 123 $pid; "
		      "sed -i \"s/^123 /$pid /\" $pid/stat; done && "
		      "chown -R 5001 20??? && chown -R 5003 3000?");
	machine_init_at(&machine, folder);
	add_pid(&machine, 100);
	assert_null(discover_until(&machine, 0, -1));
	shell(folder, "rm -r $0");
	for (pid_t pid = 30000; pid <= 30001; pid++)
		assert_int_not_equal(process_of(machine.capture, pid)->trouble,
				     SNAP_TROUBLE_OUT_OF_TIME);
	assert_int_not_equal(process_of(machine.capture, 20000)->trouble, SNAP_TROUBLE_OUT_OF_TIME);
	assert_int_equal(process_of(machine.capture, 20399)->trouble, SNAP_TROUBLE_OUT_OF_TIME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_family),
		cmocka_unit_test(test_the_dead_stay_as_nodes),
		cmocka_unit_test(test_ancestors_in_the_same_cgroup),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_one_in_the_tree_of_another_appears_once),
		cmocka_unit_test(test_without_children),
		cmocka_unit_test(test_never_itself),
		cmocka_unit_test(test_nobody_but_itself_is_an_error),
		cmocka_unit_test(test_no_such_process),
		cmocka_unit_test(test_kernel_threads),
		cmocka_unit_test(test_reused_pids),
		cmocka_unit_test(test_two_that_name_each_other_as_targets),
		cmocka_unit_test(test_targets_by_name),
		cmocka_unit_test(test_targets_by_program),
		cmocka_unit_test(test_targets_by_group),
		cmocka_unit_test(test_targets_that_match_nothing),
		cmocka_unit_test(test_all_leaves_out_what_started_it),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_processes_that_do_not_respond),
		cmocka_unit_test(test_no_time_to_find_any),
		cmocka_unit_test(test_no_time_to_read_all),
		cmocka_unit_test(test_users_take_turns),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
