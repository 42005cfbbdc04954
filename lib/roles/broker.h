/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Broker: how a parser gets files. The parser asks by number and kind, never by path. The process
 * that answers checks the request, finds the file and hands over a read-only descriptor of a
 * regular file.
 *
 *     parser --request--> broker --request--> opener (roles/file_opener/file_opener.h)
 *       ^                        <---word----   |
 *       +------------------descriptor-----------+
 *
 * The process that relays the request never has the file open: closing a file that a file system in
 * user space serves can wait for that file system without end. Knows nothing of what is in the
 * files.
 */
#pragma once

#include "model/files.h"
#include "model/options.h"
#include "roles/role.h"

enum { SNAP_BROKER_NAME = 256, SNAP_BROKER_BUILD_ID = 64 };

/* struct snap_file_request as plain bytes. */
struct snap_broker_request {
	uint32_t sequence; /* of this parser's requests */
	uint32_t kind;     /* enum snap_file_kind */
	uint32_t process;  /* index in the capture */
	uint32_t map;      /* index in its mappings */
	uint32_t attempt;
	uint32_t build_id_size; /* 0 to SNAP_BROKER_BUILD_ID */
	uint8_t build_id[SNAP_BROKER_BUILD_ID];
	char name[SNAP_BROKER_NAME]; /* ended by NUL, no slash; "" none */
};

/* The answer to a request; the parser accepts only the answer to its last request. */
struct snap_broker_answer {
	uint32_t sequence;
	struct snap_wire_error error; /* none: the message has a descriptor */
	uint32_t is_copy;             /* see struct snap_file_identity */
	uint64_t dev, inode;
};

/* What becomes of a request. */
struct snap_broker_reply {
	int channel;      /* to the parser; -1: only asks whether there is a file */
	int64_t until_ns; /* CLOCK_MONOTONIC: the end of the wait; 0: none */
	bool is_sent;     /* is set: the answer is on its way to the channel */
	int fd;           /* is set: else the descriptor, the caller's; -1: none */
};

#define SNAP_BROKER_REPLY(to) ((struct snap_broker_reply){ .channel = (to), .fd = -1 })

/*
 * Answers requests. Errors as of struct snap_file_finder: then nothing is sent, and there is no fd.
 */
struct snap_broker {
	struct stacksnap_error *(*answer)(void *context, const struct snap_broker_request *request,
					  struct snap_broker_reply *reply);
	void *context;
	int64_t until_ns; /* of each reply */
};

/* Answers by a finder of this process, about a capture of this process. */
struct snap_local_broker {
	struct snap_file_finder finder;
	const struct snap_capture *capture;
};
struct snap_broker snap_local_broker(struct snap_local_broker *local);

/*
 * The file that a request is about, as a number that is not 0: a module, or the perf map of a
 * process. The kind of the request makes no difference.
 */
uint64_t snap_broker_file_id(const struct snap_broker_request *request);

/* Whether a request from another process is valid: ranges, ends, no slash. */
bool snap_broker_is_valid(const struct snap_broker_request *request);

/* A descriptor that may be given to a parser: a regular file, open for reading alone. FORMAT. */
struct stacksnap_error *snap_broker_check(int fd) _must_check_;

/* Sends the answer to a request; `error`, which is consumed, or a descriptor. OS. */
struct stacksnap_error *snap_broker_send(int channel, uint32_t sequence,
					 struct stacksnap_error *error, int fd,
					 const struct snap_file_identity *identity) _must_check_;

/*
 * In the parser: a finder that asks over the channel. `capture` is what requests point into; one
 * request at a time.
 */
struct snap_remote_finder {
	int channel;
	const struct snap_capture *capture;
	uint64_t *file_id; /* where snap_broker_file_id() of what is read is noted; NULL: nowhere */
	/* receives the number, plus 1, of the process whose runtimes are read; NULL: not wanted */
	uint64_t *runtimes_of;
	bool out_of_step;  /* the last request was not answered: no other is sent */
	uint32_t sequence; /* of the last request */
};
struct snap_file_finder snap_remote_finder(struct snap_remote_finder *remote);

/*
 * The other side: answers one request that has arrived at `channel`. *gone_ret: the parser has
 * gone.
 */
struct stacksnap_error *snap_broker_serve(const struct snap_broker *broker, int channel,
					  bool *gone_ret) _must_check_;

/* The same for a request that was received already; checked here. *gone_ret is only set to true. */
struct stacksnap_error *snap_broker_serve_request(const struct snap_broker *broker, int channel,
						  const struct snap_broker_request *request,
						  bool *gone_ret) _must_check_;

/* A finder that finds nothing; a broker that refuses every request. */
struct snap_file_finder snap_no_files(void);
struct snap_broker snap_no_broker(void);
