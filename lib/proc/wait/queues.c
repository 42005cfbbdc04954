/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines of System V tables: see queues.h; written by ipc/msg.c and ipc/sem.c of Linux. */
#include "proc/wait/queues.h"

#include "proc/text_cursor.h"

/* Numbers with blanks between them. */
static bool take_fields(const char *line, size_t length, int64_t *ret, size_t count)
{
	struct snap_text_cursor cursor = { line, line + length };

	for (size_t i = 0; i < count; i++) {
		snap_skip_blanks(&cursor);
		if (!snap_take_signed(&cursor, &ret[i]))
			return false;
	}
	return cursor.at == cursor.end || *cursor.at == ' ';
}

static bool is_id(int64_t number)
{
	return number >= 0 && number <= INT32_MAX;
}

/* key, msqid, perms, cbytes, qnum, lspid, lrpid, … */
bool snap_parse_message_queue(const char *line, size_t length, struct snap_ipc_queue *ret)
{
	enum { ID = 1, BYTES = 3, MESSAGES, SENDER, RECEIVER, FIELDS };
	int64_t fields[FIELDS];

	if (!take_fields(line, length, fields, FIELDS) || !is_id(fields[ID]) || fields[BYTES] < 0 ||
	    fields[MESSAGES] < 0 || !is_id(fields[SENDER]) || !is_id(fields[RECEIVER]))
		return false;
	*ret = (struct snap_ipc_queue){ .id = (int32_t)fields[ID],
					.messages = (uint64_t)fields[MESSAGES],
					.bytes = (uint64_t)fields[BYTES],
					.last_sender = (pid_t)fields[SENDER],
					.last_receiver = (pid_t)fields[RECEIVER] };
	return true;
}

/* key, semid, perms, nsems, … */
bool snap_parse_semaphore_set(const char *line, size_t length, struct snap_ipc_queue *ret)
{
	enum { ID = 1, COUNT = 3, FIELDS };
	int64_t fields[FIELDS];

	if (!take_fields(line, length, fields, FIELDS) || !is_id(fields[ID]) || fields[COUNT] < 0)
		return false;
	*ret = (struct snap_ipc_queue){ .is_semaphore = true, .id = (int32_t)fields[ID] };
	return true;
}
