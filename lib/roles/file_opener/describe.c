/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Describes a process to an opener: see describe.h. */
#include "roles/file_opener/describe.h"

#include <stddef.h>
#include <string.h>

static bool has_head(const struct snap_process *process, const struct snap_map *map)
{
	for (size_t i = 0; i < process->piece_count; i++)
		if (process->pieces[i].address == map->start)
			return map->offset == 0;
	return false;
}

/* They are O_PATH descriptors: closing them never blocks. */
static struct stacksnap_error *send_descriptors(int channel, const struct snap_live *live)
{
	const int fds[SNAP_FILE_OPENER_DESCRIPTOR_COUNT] = {
		[SNAP_FILE_OPENER_REPLY] = -1,
		[SNAP_FILE_OPENER_PROC] = live->proc_fd,
		[SNAP_FILE_OPENER_ROOT] = live->root_fd,
		[SNAP_FILE_OPENER_EXE] = live->exe_fd,
		[SNAP_FILE_OPENER_FILES] = live->files_fd,
	};
	struct snap_file_opener_message message = { .word = SNAP_FILE_OPENER_DESCRIPTOR };
	struct stacksnap_error *err = NULL;

	for (uint32_t i = 0; !err && i < SNAP_FILE_OPENER_DESCRIPTOR_COUNT; i++) {
		message.number = i;
		if (fds[i] >= 0)
			err = snap_wire_send(channel, &message,
					     offsetof(struct snap_file_opener_message, path) + 1,
					     fds[i]);
	}
	return err;
}

struct stacksnap_error *snap_file_opener_describe(int channel, const struct snap_capture *capture,
						  const struct snap_broker_request *request)
{
	const struct snap_process *process = &capture->processes[request->process];
	const struct snap_map *map =
		request->map < process->map_count ? &process->maps[request->map] : NULL;
	struct snap_file_opener_message message = { .word = SNAP_FILE_OPENER_PROCESS };
	struct snap_file_opener_facts *facts = &message.facts;
	const char *path = map && map->path ? map->path : "";
	struct stacksnap_error *err = NULL;

	*facts = (struct snap_file_opener_facts){
		.pid = process->pid,
		.ns_pid = process->ns_pid,
		.uid = process->uid,
		.arch = process->arch,
		.credentials = process->credentials,
		.is_live = capture->live != NULL,
		.has_map = map != NULL,
		.is_program = process->exe && strcmp(path, process->exe) == 0,
	};
	if (map) {
		facts->map = *map;
		facts->map.path = NULL;
		facts->has_head = has_head(process, map);
	}
	if (strlen(path) < sizeof(message.path))
		strcpy(message.path, path);
	if (capture->live)
		err = send_descriptors(channel, &capture->live[request->process]);
	return err ? err
		   : snap_wire_send(channel, &message,
				    offsetof(struct snap_file_opener_message, path) +
					    strlen(message.path) + 1,
				    -1);
}
