/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sockets of a recording: see sockets.h. A look is one child, which ends when it has looked. */
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
	PATIENCE_SECONDS = 5, /* for a look, which is given up then */
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
struct snap_socket_look {
	const struct snap_socket_looks *looks; /* as they were when the child was made */
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

void snap_socket_looks_init(struct snap_socket_looks *looks, struct snap_log *log)
{
	*looks = (struct snap_socket_looks){ .log = log };
}

static void end_look(struct snap_socket_looks *looks)
{
	struct snap_socket_look *look = looks->look;

	looks->look = NULL;
	if (look->pidfd >= 0) {
		snap_spawn_end(look->pidfd, 0, END_MS);
		close(look->pidfd);
	}
	if (look->memory.root_fd >= 0)
		close(look->memory.root_fd);
	munmap(look, (size_t)(look->end - (uint8_t *)look));
}

void snap_socket_looks_deinit(struct snap_socket_looks *looks)
{
	if (looks->look)
		end_look(looks);
	free(looks->wanted);
	snap_hash_table_deinit(&looks->by_inode);
}

/* ---- which are wanted ---- */

static uint64_t hash_of(uint64_t network, uint64_t inode)
{
	return snap_hash_add(snap_hash_mix(network), inode);
}

static bool is_wanted(const struct snap_socket_looks *looks, uint64_t network, uint64_t inode)
{
	struct snap_probe probe = snap_hash_table_probe(&looks->by_inode, hash_of(network, inode));

	while (snap_probe_next(&probe))
		if (looks->wanted[probe.number].inode == inode &&
		    looks->wanted[probe.number].network == network)
			return true;
	return false;
}

static struct stacksnap_error *want(struct snap_socket_looks *looks, uint64_t network, pid_t pid,
				    uint64_t inode)
{
	if (is_wanted(looks, network, inode) || looks->count == SNAP_LOG_MAX_SOCKETS)
		return NULL;
	if (!snap_reserve_array(looks->wanted, looks->capacity, looks->count + 1) ||
	    !snap_hash_table_add(&looks->by_inode, hash_of(network, inode), looks->count))
		return snap_error_no_memory();
	looks->wanted[looks->count++] =
		(struct snap_wanted_socket){ .network = network, .inode = inode, .pid = pid };
	return NULL;
}

struct stacksnap_error *
snap_socket_looks_note(struct snap_socket_looks *looks, struct snap_socket_owner *owner,
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
		looks->log->capture->processes[space].net_namespace = owner->network;
		err = want(looks, owner->network, process->facts->pid, descriptors[i].inode);
	}
	return err;
}

/* ---- the child ---- */

static bool add_found(struct snap_socket_look *look, const struct snap_socket *socket)
{
	if (look->found_count == look->found_most)
		return false;
	look->found[look->found_count++] = *socket;
	return true;
}

/* All sockets of all dumps, until one is not taken. */
static void for_each(struct snap_socket_look *look,
		     bool (*take)(struct snap_socket_look *look, const struct snap_socket *socket))
{
	for (size_t i = 0; i < look->dump_count; i++)
		for (const struct snap_dump_block *block = look->dumps.list[i].blocks; block;
		     block = block->next)
			for (size_t k = 0; k < block->count; k++)
				if (!take(look, &block->sockets[k]))
					return;
}

static bool take_wanted(struct snap_socket_look *look, const struct snap_socket *socket)
{
	return !is_wanted(look->looks, socket->namespace, socket->inode) || add_found(look, socket);
}

/* Where a peer's key stands in look->peers, or a free place; half of them are free. */
static uint64_t *place_of_peer(struct snap_socket_look *look, uint64_t key)
{
	size_t at = (size_t)snap_hash_mix(key) & (look->peer_places - 1);

	while (look->peers[at] && look->peers[at] != key)
		at = (at + 1) & (look->peer_places - 1);
	return &look->peers[at];
}

static bool is_tcp(const struct snap_socket *socket)
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
	return is_tcp(socket) && socket->remote.port
		       ? address_key(socket, &socket->remote, &socket->local)
		       : 0;
}

/*
 * The name of a connection over a unix socket is mostly the other end's; and the process that has
 * this end is waited for.
 */
static bool take_peer(struct snap_socket_look *look, const struct snap_socket *socket)
{
	uint64_t key = is_tcp(socket) ? address_key(socket, &socket->local, &socket->remote)
				      : socket->inode;

	if ((socket->family != SNAP_SOCKET_UNIX && !is_tcp(socket)) || !socket->inode ||
	    !*place_of_peer(look, key) || is_wanted(look->looks, socket->namespace, socket->inode))
		return true;
	return add_found(look, socket);
}

static void run_look(void *context)
{
	struct snap_socket_look *look = context;
	size_t wanted;

	snap_priority_lower();
	snap_spawn_close_all_but(look->memory.root_fd);
	for (size_t i = 0; i < look->dump_count; i++)
		snap_dump_run(&look->dumps, (uint32_t)i);
	for_each(look, take_wanted);
	wanted = look->found_count;
	for (size_t i = 0; i < wanted; i++) {
		uint64_t key = key_of_peer(&look->found[i]);

		if (key)
			*place_of_peer(look, key) = key;
	}
	for_each(look, take_peer);
}

/* ---- looks ---- */

/* One of each namespace; how many there are. */
static size_t list_networks(const struct snap_socket_looks *looks,
			    const struct snap_wanted_socket *ret[MOST_NAMESPACES])
{
	size_t count = 0;

	/* The latest first: those processes are more likely to be there. */
	for (size_t i = looks->count; i-- > 0;) {
		size_t at = 0;

		while (at < count && ret[at]->network != looks->wanted[i].network)
			at++;
		if (at == count && count < MOST_NAMESPACES)
			ret[count++] = &looks->wanted[i];
	}
	return count;
}

static bool fill_look(struct snap_socket_looks *looks, struct snap_socket_look *look)
{
	const struct snap_wanted_socket *networks[MOST_NAMESPACES];
	size_t count = list_networks(looks, networks), kinds = SNAP_ARRAY_SIZE(families);
	struct snap_region *region = &look->memory.region;

	look->looks = looks;
	look->dumps.memory = &look->memory;
	look->dump_count = count * kinds;
	look->found_most = 2 * looks->count;
	look->peer_places = 2;
	while (look->peer_places < 2 * look->found_most)
		look->peer_places *= 2;
	look->dumps.list = snap_region_new_array(region, look->dump_count, struct snap_dump);
	look->found = snap_region_new_array(region, look->found_most, struct snap_socket);
	look->peers = snap_region_new_array(region, look->peer_places, uint64_t);
	if (!look->dumps.list || !look->found || !look->peers)
		return false;
	for (size_t i = 0; i < look->dump_count; i++)
		look->dumps.list[i] = (struct snap_dump){ .pid = networks[i / kinds]->pid,
							  .namespace = networks[i / kinds]->network,
							  .family = families[i % kinds] };
	return true;
}

static struct stacksnap_error *begin_look(struct snap_socket_looks *looks)
{
	struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_socket_look *look;
	struct stacksnap_error *err;
	struct snap_region region;
	pid_t pid;

	err = snap_shared_scratch_create(MEMORY, &region);
	if (err)
		return err;
	look = (void *)region.next;
	region.next += (sizeof(*look) + 63) & ~(size_t)63;
	look->end = region.end;
	look->memory.region = region;
	look->memory.root_fd = look->pidfd = -1;
	looks->look = look;
	looks->asked = looks->count;
	look->begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	err = snap_procfs_open(NULL, &procfs);
	if (err)
		return err;
	look->memory.root_fd = procfs.root_fd;
	if (!fill_look(looks, look))
		return snap_error_no_memory();
	return snap_spawn(0, "snap-sockets", run_look, look, &pid, &look->pidfd);
}

static struct stacksnap_error *take_found(struct snap_socket_looks *looks)
{
	const struct snap_socket_look *look = looks->look;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < look->found_count && i < look->found_most && !err; i++)
		err = snap_log_add_socket(looks->log, &look->found[i]);
	return err;
}

/* What is under way has ended, or takes too long; else nothing. */
static struct stacksnap_error *finish_look(struct snap_socket_looks *looks, int timeout_ms)
{
	struct stacksnap_error *err = NULL;
	bool has_ended = snap_spawn_has_ended(looks->look->pidfd, timeout_ms);
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), cost = now - looks->look->begin_ns;

	if (!has_ended && cost < PATIENCE_SECONDS * SNAP_NS_PER_S)
		return NULL;
	if (has_ended)
		err = take_found(looks);
	looks->next_ns = now + (cost * SHARE > SNAP_NS_PER_S ? cost * SHARE : SNAP_NS_PER_S);
	end_look(looks);
	return err;
}

/* Without sockets a recording goes on. */
static void try_look(struct snap_socket_looks *looks)
{
	struct stacksnap_error *err = begin_look(looks);

	if (!err)
		return;
	snap_error_destroy(err);
	looks->failed = true;
	if (looks->look)
		end_look(looks);
}

struct stacksnap_error *snap_socket_looks_work(struct snap_socket_looks *looks, bool is_last)
{
	int timeout_ms = is_last ? LAST_MS : 0;
	struct stacksnap_error *err = NULL;

	if (looks->look)
		err = finish_look(looks, timeout_ms);
	if (err || looks->look || looks->failed || looks->asked == looks->count)
		return err;
	if (!is_last && snap_clock_ns(CLOCK_MONOTONIC) < looks->next_ns)
		return NULL;
	try_look(looks);
	return looks->look && is_last ? finish_look(looks, timeout_ms) : NULL;
}
