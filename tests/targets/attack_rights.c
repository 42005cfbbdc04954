/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Becomes a user and executes a program, over and over, at whatever moment it is looked at:
 * attack_rights UID SECRET [fixed], as root. Some children do so at one time, each in another way.
 *
 * SECRET is a copy of this program with another name for plain_hold(), where it stands. If its name is
 * as long as the program's, all addresses are the same with `fixed`: nothing but the file is another one.
 */
#include "victim.h"

#include <grp.h>
#include <sys/personality.h>
#include <sys/syscall.h>

enum { CHILDREN = 6, LONGEST_US = 40000, WAYS = 5 };

static char **arguments;
static const char *secret;
static uid_t user;
static unsigned seed;

/* Not for ever, in case that its parent has ended already. */
NOINLINE static void plain_hold(void)
{
	alarm(20);
	for (;;)
		pause();
}

static void linger(void)
{
	if (rand_r(&seed) % 3)
		usleep(rand_r(&seed) % LONGEST_US);
}

static void end_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

/* The kernel forgets with whom it ends. */
static void become_user(void)
{
	if (setgroups(0, NULL) || setresgid(user, user, user) || setresuid(user, user, user))
		_exit(1);
	end_with_parent();
}

static void execute(void)
{
	execv(secret, arguments);
	_exit(1);
}

static void *execute_in_thread(void *unused)
{
	end_with_parent();
	linger();
	execute();
	return unused;
}

/* Whose memory its parent has, too. */
static void execute_in_child(void)
{
	if (vfork() == 0) {
		if (syscall(SYS_setresuid, user, user, user))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		execute();
	}
}

static void change(int way)
{
	end_with_parent();
	linger();
	if (way == 1) { /* for a moment: it comes back by its other uids */
		if (setresuid(0, user, 0) || setresuid(0, 0, 0))
			_exit(1);
		linger();
	}
	if (way == 2)
		execute_in_child();
	become_user();
	if (way == 3) {
		victim_thread(execute_in_thread, NULL, 0);
		plain_hold();
	}
	if (way == 4)
		linger();
	execute();
}

static pid_t make_child(void)
{
	int way = rand_r(&seed) % WAYS;
	pid_t child = fork();

	if (child < 0)
		victim_cannot("fork");
	if (child)
		return child;
	setpgid(0, 0);
	seed ^= (unsigned)getpid() * 2654435761u;
	change(way);
	_exit(1);
}

static void *end_with_input(void *unused)
{
	victim_hold();
	return unused;
}

int main(int argc, char **argv)
{
	pid_t children[CHILDREN];

	if (argc < 3)
		return 2;
	if (strcmp(argv[0], argv[2]) == 0)
		plain_hold();
	if (argc > 3 && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execv(argv[0], argv);
	}
	user = (uid_t)atoi(argv[1]);
	secret = argv[2];
	arguments = calloc((size_t)argc + 1, sizeof(*arguments));
	memcpy(arguments, argv, (size_t)argc * sizeof(*arguments));
	arguments[0] = argv[2];
	seed = (unsigned)getpid();
	for (int i = 0; i < CHILDREN; i++)
		children[i] = make_child();
	victim_thread(end_with_input, NULL, 0);
	victim_ready("children=%d", CHILDREN);
	for (unsigned i = 0;; i = (i + 1) % CHILDREN) {
		usleep(rand_r(&seed) % LONGEST_US);
		kill(children[i], SIGKILL);
		kill(-children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
		children[i] = make_child();
	}
}
