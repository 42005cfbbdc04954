/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs a command beside a heartbeat file and prints one line of JSON about both.
 *
 *   hbrun HBFILE OUTFILE COMMAND ARGUMENT...     (COMMAND "-": waits 300 ms, for the base noise)
 *
 * A command that takes longer than 120 s is killed. Standard output goes to OUTFILE, standard error
 * to OUTFILE.err. wall, user, sys in seconds; rss in KiB; pause_ms: the longest gap seen while it
 * ran; rc: its status. Keeps its own memory small, so that the child's ru_maxrss is the child's.
 */
#include "hb.h"
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	struct hb_file *hb = hb_map(argv[1], 0);
	uint64_t g0[2] = { hb->t[0].ngaps, hb->t[1].ngaps };
	uint64_t t0 = hb_now();
	struct rusage ru;
	memset(&ru, 0, sizeof ru);
	int st = 0;
	if (!strcmp(argv[3], "-")) {
		usleep(300000);
	} else {
		pid_t p = fork();
		if (p == 0) {
			int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0666);
			int nul = open("/dev/null", O_RDONLY);
			char name[4096];
			snprintf(name, sizeof name, "%s.err", argv[2]);
			int err = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
			dup2(nul, 0);
			dup2(fd, 1);
			dup2(err, 2);
			execvp(argv[3], argv + 3);
			_exit(127);
		}
		struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, p, 0), .events = POLLIN };
		if (end.fd >= 0 && poll(&end, 1, 120000) == 0)
			kill(p, SIGKILL);
		wait4(p, &st, 0, &ru);
	}
	uint64_t t1 = hb_now();
	usleep(20000); /* let the gap that the command ended with be written */
	double pause = 0, stopped = 0;
	uint64_t first = 0, last = 0;
	int gaps = 0;
	for (int h = 0; h < 2; h++) {
		uint64_t n = hb->t[h].ngaps;
		uint64_t from = n > HB_RING && g0[h] < n - HB_RING ? n - HB_RING : g0[h];
		for (uint64_t k = from; k < n; k++) {
			struct hb_gap g = hb->t[h].ring[k % HB_RING];
			if (g.start + g.len < t0 || g.start > t1)
				continue;
			if (g.len / 1e6 > pause)
				pause = g.len / 1e6;
			if (g.len > 1000000) {
				if (h == 0) {
					stopped += g.len / 1e6;
					gaps++;
				}
				if (!first || g.start < first)
					first = g.start;
				if (g.start + g.len > last)
					last = g.start + g.len;
			}
		}
	}
	double wall = (t1 - t0) / 1e9;
	printf("{\"wall\":%.6f,\"user\":%.6f,\"sys\":%.6f,\"rss\":%ld,\"pause_ms\":%.3f,\"span_"
	       "ms\":%.3f,\"stopped_ms\":%.3f,\"gaps\":%d,\"rc\":%d}\n",
	       wall, ru.ru_utime.tv_sec + ru.ru_utime.tv_usec / 1e6,
	       ru.ru_stime.tv_sec + ru.ru_stime.tv_usec / 1e6, ru.ru_maxrss, pause,
	       (last - first) / 1e6, stopped, gaps,
	       WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st));
	return 0;
}
