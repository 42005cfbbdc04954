/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looks at processes: see soak.h. */
#include "soak.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The beginning of a file, as text; false: there is none, or nothing in it. */
static bool read_some(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

	if (fd >= 0)
		close(fd);
	if (got <= 0)
		return false;
	text[got] = '\0';
	return true;
}

char soak_state(pid_t pid, pid_t tid, pid_t *tracer_ret)
{
	char path[64], text[2048], *state, *tracer;

	*tracer_ret = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	if (!read_some(path, text, sizeof(text)))
		return '\0';
	state = strstr(text, "\nState:\t");
	tracer = strstr(text, "\nTracerPid:\t");
	if (!state || !tracer)
		return '\0';
	*tracer_ret = atoi(tracer + strlen("\nTracerPid:\t"));
	return state[strlen("\nState:\t")];
}

size_t soak_threads(pid_t pid, pid_t *tids, size_t room)
{
	struct dirent *entry;
	char path[64];
	size_t count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)) && count < room)
		if (entry->d_name[0] != '.')
			tids[count++] = atoi(entry->d_name);
	if (folder)
		closedir(folder);
	return count;
}

static size_t children_of_thread(pid_t pid, pid_t tid, pid_t *pids, size_t room)
{
	char path[64], text[8192], *word, *save;
	size_t count = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	if (!read_some(path, text, sizeof(text)))
		return 0;
	for (word = strtok_r(text, " \n", &save); word && count < room;
	     word = strtok_r(NULL, " \n", &save))
		pids[count++] = atoi(word);
	return count;
}

size_t soak_children(pid_t pid, pid_t *pids, size_t room)
{
	pid_t tids[SOAK_MAX_PIDS];
	size_t threads = soak_threads(pid, tids, SOAK_MAX_PIDS), count = 0;

	for (size_t i = 0; i < threads; i++)
		count += children_of_thread(pid, tids[i], pids + count, room - count);
	return count;
}

size_t soak_descendants(pid_t pid, pid_t *pids, size_t room)
{
	size_t count = soak_children(pid, pids, room);

	for (size_t i = 0; i < count; i++)
		count += soak_children(pids[i], pids + count, room - count);
	return count;
}

void soak_comm(pid_t pid, char name[16])
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (!read_some(path, text, sizeof(text)))
		text[0] = '\0';
	snprintf(name, 16, "%.*s", (int)strcspn(text, "\n"), text);
}

long soak_kib(pid_t pid, const char *field)
{
	char path[64], text[4096], *line;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (!read_some(path, text, sizeof(text)))
		return 0;
	line = strstr(text, field);
	return line ? atol(line + strlen(field) + 1) : 0;
}
