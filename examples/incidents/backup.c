/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A nightly backup that stands in state D. It starts its packer with vfork(2), so it waits in the kernel
 * until the packer executes another program; and the packer first opens a FIFO that has no reader.
 */
#include "incident.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char fifo[] = "/tmp/backup.XXXXXX/archive";

static void remove_fifo(void)
{
	unlink(fifo);
	*strrchr(fifo, '/') = '\0';
	rmdir(fifo);
}

static pid_t start_packer(void)
{
	pid_t packer = vfork();

	if (packer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		call_oneself("packer");
		if (open(fifo, O_WRONLY) >= 0)
			execl("/bin/true", "true", NULL);
		_exit(1);
	}
	return packer;
}

static void *back_up(void *argument)
{
	(void)argument;
	call_oneself("backup-all");
	waitpid(start_packer(), NULL, 0);
	return NULL;
}

int main(void)
{
	char *slash = strrchr(fifo, '/');

	*slash = '\0';
	if (!mkdtemp(fifo))
		return 1;
	*slash = '/';
	if (mkfifo(fifo, 0600) != 0)
		return 1;
	atexit(remove_fifo);
	start(back_up, NULL);
	while (!is_in_state('D'))
		usleep(1000);
	return live();
}
