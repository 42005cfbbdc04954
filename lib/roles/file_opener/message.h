/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Message: the messages to an opener, and its answers. Both ends are copies of one program, so the
 * opener trusts what it receives. Knows nothing of what is in files.
 */
#pragma once

#include "roles/broker.h"

enum snap_file_opener_word {
	SNAP_FILE_OPENER_RULES,     /* number: enum snap_perf_map; forgets the directories */
	SNAP_FILE_OPENER_DIRECTORY, /* path: a directory of --debug-dir */
	SNAP_FILE_OPENER_DESCRIPTOR, /* number: enum snap_file_opener_descriptor; the descriptor itself */
	SNAP_FILE_OPENER_PROCESS, /* facts, path: the process whose file is requested next */
	SNAP_FILE_OPENER_FILE,    /* request; number: bytes that may be copied. Has an answer */
	SNAP_FILE_OPENER_SKIP,    /* request: a file that is not copied into what is saved */
	SNAP_FILE_OPENER_SAVE, /* a descriptor to write to. Has an answer for each file, and a last one */
};

/* For the next process or the next file; closed after that request. */
enum snap_file_opener_descriptor {
	SNAP_FILE_OPENER_REPLY, /* where the parser's answer goes; not sent: no parser waits */
	SNAP_FILE_OPENER_PROC,
	SNAP_FILE_OPENER_ROOT,
	SNAP_FILE_OPENER_EXE,
	SNAP_FILE_OPENER_FILES,
	SNAP_FILE_OPENER_DESCRIPTOR_COUNT,
};

/* What is needed of a process and one mapping to find its files. */
struct snap_file_opener_facts {
	pid_t pid, ns_pid;
	uid_t uid;
	enum snap_arch arch;
	struct snap_credentials credentials;
	bool is_live;
	bool has_map, has_head; /* the beginning of the mapping was captured */
	bool is_program;        /* the path is the program's */
	struct snap_map map;    /* without a path */
};

struct snap_file_opener_message {
	uint32_t word, number;
	struct snap_broker_request request;
	struct snap_file_opener_facts facts;
	char path[SNAP_MAX_PATH + 1]; /* only its used part is sent */
};

_Static_assert(sizeof(struct snap_file_opener_message) <= SNAP_WIRE_BYTES, "it is one message");

enum {
	SNAP_FILE_OPENER_MOST_SKIPPED = 16,
	SNAP_FILE_OPENER_MOST_OF_PROCESS =
		3, /* files of a process that block openers, before all are left out */
};

/*
 * Says that a request is done, or why not. During a save: which file comes next. During the opening
 * of a file: the opener now reads what a program may serve.
 */
struct snap_file_opener_answer {
	struct snap_wire_error error;
	uint32_t copied;        /* bytes */
	uint32_t is_on_its_way; /* there are more answers */
	struct snap_broker_request
		touching;    /* of an answer during a save: the file, by kind, process and map */
	uint32_t is_writing; /* no file is touched any more */
};
