/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sockets of a recording: see sockets.h. A query is one child, which ends when it has looked. */
#include "record/wait/sockets.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/priority.h"
#include "base/shared_memory.h"
#include "base/spawn.h"
#include "capture/wait/dump.h"
#include "proc/procfs.h"

#include <sys/mman.h>
#include <unistd.h>

enum {
	SHARE = 100, /* of the time one part */
	MOST_NAMESPACES = 64,
	MEMORY = 96 << 20,    /* bytes of address space */
	LAST_MS = 300,        /* for which the end waits */
	PATIENCE_SECONDS = 5, /* for a query, which is given up then */
	END_MS = 100,
};

static const enum snap_socket_family families[] = {
	SNAP_SOCKET_TCP4, SNAP_SOCKET_TCP6, SNAP_SOCKET_UNIX, SNAP_SOCKET_UDP4, SNAP_SOCKET_UDP6,
};

/* A socket that a thread waited with. */
struct snap_wanted_socket {
	uint64_t network, inode;
	pid_t pid; /* its process */
};

/* In memory that the child sees, too. */
struct snap_socket_query {
	const struct snap_socket_queries *queries; /* as they were when the child was made */
	struct snap_wait_memory memory;
	struct snap_dumps dumps;
	size_t dump_count;
	uint8_t *end;
	struct snap_socket *found; /* the wanted ones, and other ends of theirs */
	size_t found_count, found_most;
	uint64_t *peers; /* a table: other ends of wanted sockets, by inode or address */
	size_t peer_places;
	int64_t begin_ns;
	int pidfd;
};

void snap_socket_queries_init(struct snap_socket_queries *queries, struct snap_log *log)
{
	*queries = (struct snap_socket_queries){ .log = log };
}

static void end_socket_query(struct snap_socket_queries *queries)
{
	struct snap_socket_query *query = queries->query;

	queries->query = NULL;
	if (query->pidfd >= 0) {
		snap_spawn_end(query->pidfd, 0, END_MS);
		close(query->pidfd);
	}
	if (query->memory.root_fd >= 0)
		close(query->memory.root_fd);
	munmap(query, (size_t)(query->end - (uint8_t *)query));
}

void snap_socket_queries_deinit(struct snap_socket_queries *queries)
{
	if (queries->query)
		end_socket_query(queries);
	free(queries->wanted);
	snap_hash_table_deinit(&queries->by_inode);
}

/* ---- which are wanted ---- */

static uint64_t hash_of_socket(uint64_t network, uint64_t inode)
{
	return snap_hash_add(snap_hash_mix(network), inode);
}

static bool is_known_socket(const struct snap_socket_queries *queries, uint64_t network,
			    uint64_t inode)
{
	return snap_hash_find(&queries->by_inode, hash_of_socket(network, inode), i,
			      queries->wanted[i].inode == inode &&
				      queries->wanted[i].network == network) != SIZE_MAX;
}

static struct stacksnap_error *want_socket(struct snap_socket_queries *queries, uint64_t network,
					   pid_t pid, uint64_t inode)
{
	if (is_known_socket(queries, network, inode) || queries->count == SNAP_LOG_MAX_SOCKETS)
		return NULL;
	if (!snap_reserve_array(queries->wanted, queries->capacity, queries->count + 1) ||
	    !snap_hash_table_add(&queries->by_inode, hash_of_socket(network, inode),
				 queries->count))
		return snap_error_no_memory();
	queries->wanted[queries->count++] =
		(struct snap_wanted_socket){ .network = network, .inode = inode, .pid = pid };
	return NULL;
}

struct stacksnap_error *
snap_socket_queries_note(struct snap_socket_queries *queries, struct snap_socket_owner *owner,
			 const struct snap_sampled_process *process, uint32_t space,
			 const struct snap_descriptor *descriptors, size_t count)
{
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < count && !err; i++) {
		if (descriptors[i].kind != SNAP_DESCRIPTOR_SOCKET || !descriptors[i].inode)
			continue;
		if (!owner->is_asked)
			*owner = (struct snap_socket_owner){ process->net_namespace, true };
		if (!owner->network)
			return NULL;
		queries->log->capture->processes[space].net_namespace = owner->network;
		err = want_socket(queries, owner->network, process->facts->pid,
				  descriptors[i].inode);
	}
	return err;
}

/* ---- the child ---- */

static bool add_found(struct snap_socket_query *query, const struct snap_socket *socket)
{
	if (query->found_count == query->found_most)
		return false;
	query->found[query->found_count++] = *socket;
	return true;
}

/* All sockets of all dumps, until one is not taken. */
static void for_each(struct snap_socket_query *query,
		     bool (*take)(struct snap_socket_query *query,
				  const struct snap_socket *socket))
{
	for (size_t i = 0; i < query->dump_count; i++)
		for (const struct snap_dump_block *block = query->dumps.list[i].blocks; block;
		     block = block->next)
			for (size_t k = 0; k < block->count; k++)
				if (!take(query, &block->sockets[k]))
					return;
}

static bool take_wanted(struct snap_socket_query *query, const struct snap_socket *socket)
{
	return !is_known_socket(query->queries, socket->namespace, socket->inode) ||
	       add_found(query, socket);
}

/* Where a peer's key stands in query->peers, or a free place; half of them are free. */
static uint64_t *place_of_peer(struct snap_socket_query *query, uint64_t key)
{
	size_t at = (size_t)snap_hash_mix(key) & (query->peer_places - 1);

	while (query->peers[at] && query->peers[at] != key)
		at = (at + 1) & (query->peer_places - 1);
	return &query->peers[at];
}

static bool is_tcp_socket(const struct snap_socket *socket)
{
	return socket->family == SNAP_SOCKET_TCP4 || socket->family == SNAP_SOCKET_TCP6;
}

/* Of a connection on this host both ends have a socket; this is the key of one. */
static uint64_t address_key(const struct snap_socket *socket,
			    const struct snap_socket_address *local,
			    const struct snap_socket_address *remote)
{
	uint64_t hash = snap_hash_add(socket->namespace, socket->family);

	hash = snap_hash_bytes(local->bytes, sizeof(local->bytes),
			       snap_hash_add(hash, local->port));
	return snap_hash_bytes(remote->bytes, sizeof(remote->bytes),
			       snap_hash_add(hash, remote->port)) |
	       1;
}

/* 0: it has no other end that is to be known. */
static uint64_t key_of_peer(const struct snap_socket *socket)
{
	if (socket->family == SNAP_SOCKET_UNIX)
		return socket->peer;
	return is_tcp_socket(socket) && socket->remote.port
		       ? address_key(socket, &socket->remote, &socket->local)
		       : 0;
}

/*
 * The name of a connection over a unix socket is mostly the other end's; and the process that has
 * this end is waited for.
 */
static bool take_peer(struct snap_socket_query *query, const struct snap_socket *socket)
{
	uint64_t key = is_tcp_socket(socket) ? address_key(socket, &socket->local, &socket->remote)
					     : socket->inode;

	if ((socket->family != SNAP_SOCKET_UNIX && !is_tcp_socket(socket)) || !socket->inode ||
	    !*place_of_peer(query, key) ||
	    is_known_socket(query->queries, socket->namespace, socket->inode))
		return true;
	return add_found(query, socket);
}

static void run_socket_query(void *context)
{
	struct snap_socket_query *query = context;
	size_t wanted;

	snap_priority_lower();
	snap_spawn_close_all_but(query->memory.root_fd);
	for (size_t i = 0; i < query->dump_count; i++)
		snap_dump_run(&query->dumps, (uint32_t)i);
	for_each(query, take_wanted);
	wanted = query->found_count;
	for (size_t i = 0; i < wanted; i++) {
		uint64_t key = key_of_peer(&query->found[i]);

		if (key)
			*place_of_peer(query, key) = key;
	}
	for_each(query, take_peer);
}

/* ---- queries ---- */

/* One of each namespace; how many there are. */
static size_t list_networks(const struct snap_socket_queries *queries,
			    const struct snap_wanted_socket *ret[MOST_NAMESPACES])
{
	size_t count = 0;

	/* The latest first: those processes are more likely to be there. */
	for (size_t i = queries->count; i-- > 0;) {
		size_t at = 0;

		while (at < count && ret[at]->network != queries->wanted[i].network)
			at++;
		if (at == count && count < MOST_NAMESPACES)
			ret[count++] = &queries->wanted[i];
	}
	return count;
}

static bool fill_socket_query(struct snap_socket_queries *queries, struct snap_socket_query *query)
{
	const struct snap_wanted_socket *networks[MOST_NAMESPACES];
	size_t count = list_networks(queries, networks), kinds = SNAP_ARRAY_SIZE(families);
	struct snap_region *region = &query->memory.region;

	query->queries = queries;
	query->dumps.memory = &query->memory;
	query->dump_count = count * kinds;
	query->found_most = 2 * queries->count;
	query->peer_places = 2;
	while (query->peer_places < 2 * query->found_most)
		query->peer_places *= 2;
	query->dumps.list = snap_region_new_array(region, query->dump_count, struct snap_dump);
	query->found = snap_region_new_array(region, query->found_most, struct snap_socket);
	query->peers = snap_region_new_array(region, query->peer_places, uint64_t);
	if (!query->dumps.list || !query->found || !query->peers)
		return false;
	for (size_t i = 0; i < query->dump_count; i++)
		query->dumps.list[i] =
			(struct snap_dump){ .pid = networks[i / kinds]->pid,
					    .namespace = networks[i / kinds]->network,
					    .family = families[i % kinds] };
	return true;
}

static struct stacksnap_error *begin_socket_query(struct snap_socket_queries *queries)
{
	struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_socket_query *query;
	struct snap_region region;
	pid_t pid;

	SNAP_TRY(snap_shared_scratch_create(MEMORY, &region));
	query = (void *)region.next;
	region.next += (sizeof(*query) + 63) & ~(size_t)63;
	query->end = region.end;
	query->memory.region = region;
	query->memory.root_fd = query->pidfd = -1;
	queries->query = query;
	queries->asked = queries->count;
	query->begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	SNAP_TRY(snap_procfs_open(NULL, &procfs));
	query->memory.root_fd = procfs.root_fd;
	SNAP_TRY(snap_no_memory_unless(fill_socket_query(queries, query)));
	return snap_spawn(0, "snap-sockets", run_socket_query, query, &pid, &query->pidfd);
}

static struct stacksnap_error *take_socket_found(struct snap_socket_queries *queries)
{
	const struct snap_socket_query *query = queries->query;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < query->found_count && i < query->found_most && !err; i++)
		err = snap_log_add_socket(queries->log, &query->found[i]);
	return err;
}

/* What is under way has ended, or takes too long; else nothing. */
static struct stacksnap_error *finish_socket_query(struct snap_socket_queries *queries,
						   int timeout_ms)
{
	struct stacksnap_error *err = NULL;
	bool has_ended = snap_spawn_has_ended(queries->query->pidfd, timeout_ms);
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), cost = now - queries->query->begin_ns;

	if (!has_ended && cost < PATIENCE_SECONDS * SNAP_NS_PER_S)
		return NULL;
	if (has_ended)
		err = take_socket_found(queries);
	queries->next_ns = now + (cost * SHARE > SNAP_NS_PER_S ? cost * SHARE : SNAP_NS_PER_S);
	end_socket_query(queries);
	return err;
}

/* Without sockets a recording goes on. */
static void try_socket_query(struct snap_socket_queries *queries)
{
	struct stacksnap_error *err = begin_socket_query(queries);

	if (!err)
		return;
	snap_error_destroy(err);
	queries->failed = true;
	if (queries->query)
		end_socket_query(queries);
}

struct stacksnap_error *snap_socket_queries_work(struct snap_socket_queries *queries, bool is_last)
{
	int timeout_ms = is_last ? LAST_MS : 0;
	struct stacksnap_error *err = NULL;

	if (queries->query)
		err = finish_socket_query(queries, timeout_ms);
	if (err || queries->query || queries->failed || queries->asked == queries->count)
		return err;
	if (!is_last && snap_clock_ns(CLOCK_MONOTONIC) < queries->next_ns)
		return NULL;
	try_socket_query(queries);
	return queries->query && is_last ? finish_socket_query(queries, timeout_ms) : NULL;
}
