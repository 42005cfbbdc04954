/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sockets that a thread waits with, and what belongs to them: the other end on this machine, the
 * listener that has not accepted yet, or that a connect is for. All others of a dump are left out.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "capture/wait/dump.h"
#include "capture/wait/resolver.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
	MOST_NAMESPACES = 64,
	STATE_LISTEN = 10, /* of net/tcp_states.h */
	STATE_SYN_SENT = 2,
	MOST_ENTRIES = 1 << 20,
};

/* A socket of some dump. */
struct entry {
	struct snap_socket socket;
	bool is_kept;
	unsigned uses;    /* of which calls it is the other end, bits of enum snap_wait_use */
	bool is_doubtful; /* its inode came twice in a table: a made-up line, maybe */
};

struct sockets {
	struct snap_wait_resolver *resolver;
	struct {
		uint64_t inode;
		pid_t pid;
	} namespaces[MOST_NAMESPACES];
	size_t namespace_count;
	struct entry *entries;
	size_t count, capacity;
	struct snap_hash_table by_inode, by_address;
	size_t kept;
	unsigned uses; /* of the socket whose other ends are looked for */
};

static void sockets_deinit(struct sockets *sockets)
{
	free(sockets->entries);
	snap_hash_table_deinit(&sockets->by_inode);
	snap_hash_table_deinit(&sockets->by_address);
}

/* ---- what there is ---- */

static bool has_wanted_socket(const struct snap_process *process)
{
	return snap_any(process->descriptor_count, i,
			process->descriptors[i].kind == SNAP_DESCRIPTOR_SOCKET);
}

static void add_namespace(struct sockets *sockets, const struct snap_process *process)
{
	for (size_t i = 0; i < sockets->namespace_count; i++)
		if (sockets->namespaces[i].inode == process->net_namespace)
			return;
	if (sockets->namespace_count == MOST_NAMESPACES) {
		sockets->resolver->facts->lacks |= SNAP_LACK_NAMESPACES;
		return;
	}
	sockets->namespaces[sockets->namespace_count].inode = process->net_namespace;
	sockets->namespaces[sockets->namespace_count++].pid = process->pid;
}

static void list_namespaces(struct sockets *sockets)
{
	const struct snap_capture *capture = sockets->resolver->capture;

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		if (!has_wanted_socket(process))
			continue;
		if (process->net_namespace)
			add_namespace(sockets, process);
		else
			sockets->resolver->facts->lacks |= SNAP_LACK_NAMESPACES;
	}
}

static bool is_tcp_socket(const struct snap_socket *socket)
{
	return socket->family == SNAP_SOCKET_TCP4 || socket->family == SNAP_SOCKET_TCP6;
}

/* One address of IPv4 has two forms: TCP over IPv6 may lead to it, too (ipv6(7)). */
static struct snap_socket_address plain_address(const struct snap_socket *socket,
						const struct snap_socket_address *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct snap_socket_address plain = *address;

	if (socket->family == SNAP_SOCKET_TCP4) {
		memcpy(plain.bytes, mapped, sizeof(mapped));
		memcpy(plain.bytes + sizeof(mapped), address->bytes, 4);
	}
	return plain;
}

static uint64_t hash_address(uint64_t hash, const struct snap_socket_address *address)
{
	return snap_hash_add(snap_hash_bytes(address->bytes, sizeof(address->bytes), hash),
			     address->port);
}

/* A listener is found by its port alone: hence it has no address here. */
static uint64_t hash_pair(uint64_t namespace, const struct snap_socket_address *local,
			  const struct snap_socket_address *remote)
{
	return hash_address(hash_address(namespace, local), remote);
}

static uint64_t hash_listener(uint64_t namespace, uint16_t port)
{
	return snap_hash_add(snap_hash_mix(namespace), port);
}

static uint64_t hash_of_address(const struct snap_socket *socket)
{
	struct snap_socket_address local = plain_address(socket, &socket->local),
				   remote = plain_address(socket, &socket->remote);

	if (socket->state == STATE_LISTEN)
		return hash_listener(socket->namespace, socket->local.port);
	return hash_pair(socket->namespace, &local, &remote);
}

static struct entry *find_inode(const struct sockets *sockets, uint64_t inode)
{
	struct snap_probe probe = snap_hash_table_probe(&sockets->by_inode, snap_hash_mix(inode));

	while (inode && snap_probe_next(&probe))
		if (sockets->entries[probe.number].socket.inode == inode)
			return &sockets->entries[probe.number];
	return NULL;
}

static struct stacksnap_error *add_socket_entry(struct sockets *sockets,
						const struct snap_socket *socket, bool is_text)
{
	struct entry *same = find_inode(sockets, socket->inode);
	size_t number = sockets->count;

	if (same) {
		same->is_doubtful |= is_text;
		return NULL;
	}
	if (sockets->count == MOST_ENTRIES) {
		sockets->resolver->facts->lacks |= SNAP_LACK_CUT;
		return NULL;
	}
	if (!snap_reserve_array(sockets->entries, sockets->capacity, number + 1))
		return snap_error_no_memory();
	sockets->entries[sockets->count++] = (struct entry){ .socket = *socket };
	return snap_no_memory_unless(
		(!socket->inode ||
		 snap_hash_table_add(&sockets->by_inode, snap_hash_mix(socket->inode), number)) &&
		(!is_tcp_socket(socket) ||
		 snap_hash_table_add(&sockets->by_address, hash_of_address(socket), number)));
}

static void note_lacks(struct sockets *sockets, const struct snap_dump *dump)
{
	unsigned *lacks = &sockets->resolver->facts->lacks;

	if (dump->is_cut)
		*lacks |= SNAP_LACK_CUT;
	/* A kernel without IPv6, or without one of the modules, has no such sockets. */
	if (dump->family != SNAP_SOCKET_TCP4 && dump->family != SNAP_SOCKET_UNIX)
		return;
	if (dump->is_text || dump->status)
		*lacks |= dump->is_elsewhere && dump->status == 0 ? SNAP_LACK_NAMESPACES
								  : SNAP_LACK_SOCKETS;
}

static struct stacksnap_error *take_dump(struct sockets *sockets, const struct snap_dump *dump)
{
	struct stacksnap_error *err = NULL;

	note_lacks(sockets, dump);
	for (const struct snap_dump_block *block = dump->blocks; block; block = block->next)
		for (size_t i = 0; i < block->count && !err; i++)
			err = add_socket_entry(sockets, &block->sockets[i], dump->is_text);
	for (const struct snap_dump_pending *pending = dump->pending; pending && !err;
	     pending = pending->next) {
		struct entry *entry = find_inode(sockets, pending->inode);

		if (entry && !entry->socket.peer)
			entry->socket.peer = pending->listener;
	}
	return err;
}

static struct stacksnap_error *dump_families(struct sockets *sockets,
					     const enum snap_socket_family *families, size_t count)
{
	struct snap_wait_asker *asker = sockets->resolver->asker;
	struct snap_dumps *dumps = snap_wait_asker_new_array(asker, 1, struct snap_dumps);
	size_t all = sockets->namespace_count * count;
	struct stacksnap_error *err = NULL;
	const uint8_t *marks;

	SNAP_TRY(snap_no_memory_unless(dumps));
	dumps->memory = asker->memory;
	dumps->list = snap_wait_asker_new_array(asker, all, struct snap_dump);
	SNAP_TRY(snap_no_memory_unless(dumps->list));
	for (size_t i = 0; i < all; i++) {
		size_t namespace = i / count;

		dumps->list[i] = (struct snap_dump){
			.pid = sockets->namespaces[namespace].pid,
			.namespace = sockets->namespaces[namespace].inode,
			.family = families[i % count],
		};
	}
	marks = snap_wait_asker_run(asker, snap_dump_run, dumps, all, sockets->resolver->until_ns);
	for (size_t i = 0; i < all && !err; i++)
		if (marks && marks[i] == SNAP_ITEM_DONE)
			err = take_dump(sockets, &dumps->list[i]);
	return err;
}

/* ---- which of them matter ---- */

static void keep_found_socket(struct sockets *sockets, struct entry *entry)
{
	sockets->kept += entry && !entry->is_kept;
	if (entry)
		entry->is_kept = true;
}

static void keep_peer(struct sockets *sockets, struct entry *entry)
{
	keep_found_socket(sockets, entry);
	if (entry)
		entry->uses |= sockets->uses;
}

static bool is_any(const struct snap_socket_address *address)
{
	static const uint8_t zero[16], mapped[16] = { [10] = 0xff, [11] = 0xff };

	return memcmp(address->bytes, zero, sizeof(zero)) == 0 ||
	       memcmp(address->bytes, mapped, sizeof(mapped)) == 0;
}

static bool is_same_address(const struct snap_socket_address *a,
			    const struct snap_socket_address *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* Whether an address is one of this machine, as far as this socket tells. */
static bool is_local_pair(const struct snap_socket_address *local,
			  const struct snap_socket_address *remote)
{
	static const uint8_t six[16] = { [15] = 1 };
	static const uint8_t mapped_loopback[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

	return is_same_address(local, remote) || memcmp(remote->bytes, six, sizeof(six)) == 0 ||
	       memcmp(remote->bytes, mapped_loopback, sizeof(mapped_loopback)) == 0;
}

/* All listeners that a connection to an address may be waiting for. */
static void keep_listeners(struct sockets *sockets, uint64_t namespace,
			   const struct snap_socket_address *address)
{
	struct snap_probe probe = snap_hash_table_probe(&sockets->by_address,
							hash_listener(namespace, address->port));

	while (snap_probe_next(&probe)) {
		struct entry *entry = &sockets->entries[probe.number];
		struct snap_socket_address local =
			plain_address(&entry->socket, &entry->socket.local);

		if (entry->socket.state == STATE_LISTEN && local.port == address->port &&
		    entry->socket.namespace == namespace &&
		    (is_any(&local) || is_same_address(&local, address)))
			keep_peer(sockets, entry);
	}
}

/* The same connection seen from the other side. */
static void keep_tcp_peer(struct sockets *sockets, const struct snap_socket *socket)
{
	struct snap_socket_address local = plain_address(socket, &socket->local),
				   remote = plain_address(socket, &socket->remote);
	struct snap_probe probe = snap_hash_table_probe(
		&sockets->by_address, hash_pair(socket->namespace, &remote, &local));
	bool has_owner = false;

	if (socket->state == STATE_LISTEN || !remote.port)
		return;
	while (snap_probe_next(&probe)) {
		struct entry *entry = &sockets->entries[probe.number];
		struct snap_socket_address here = plain_address(&entry->socket,
								&entry->socket.local),
					   there = plain_address(&entry->socket,
								 &entry->socket.remote);

		if (entry->socket.namespace != socket->namespace || here.port != remote.port ||
		    there.port != local.port || !is_same_address(&here, &remote) ||
		    !is_same_address(&there, &local))
			continue;
		has_owner = entry->socket.inode != 0;
		keep_peer(sockets, entry);
	}
	/*
	 * A connection that was not accepted yet has no process; the listener's processes could
	 * accept it.
	 */
	if (!has_owner && is_local_pair(&local, &remote))
		keep_listeners(sockets, socket->namespace, &remote);
}

static void keep_socket(struct sockets *sockets, uint64_t inode)
{
	struct entry *entry = find_inode(sockets, inode);

	if (!entry)
		return;
	if (entry->is_doubtful)
		entry->socket = (struct snap_socket){ .namespace = entry->socket.namespace,
						      .inode = inode,
						      .family = entry->socket.family };
	keep_found_socket(sockets, entry);
	if (entry->socket.family == SNAP_SOCKET_UNIX)
		keep_peer(sockets, find_inode(sockets, entry->socket.peer));
	else if (is_tcp_socket(&entry->socket))
		keep_tcp_peer(sockets, &entry->socket);
}

/* Whether some socket that is waited with is in none of the dumps. */
static bool keep_wanted(struct sockets *sockets)
{
	const struct snap_capture *capture = sockets->resolver->capture;
	bool all_found = true;

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->descriptor_count; k++) {
			const struct snap_descriptor *descriptor = &process->descriptors[k];
			const struct snap_wait_want *want;

			if (descriptor->kind != SNAP_DESCRIPTOR_SOCKET)
				continue;
			all_found &= find_inode(sockets, descriptor->inode) != NULL;
			want = snap_wait_find_want(sockets->resolver, i, descriptor->number);
			sockets->uses = want ? want->uses : 0;
			keep_socket(sockets, descriptor->inode);
		}
	}
	return !all_found;
}

/* ---- connect to a unix socket: the address is all that tells whose ---- */

static size_t connect_name(const struct snap_wait_resolver *resolver,
			   const struct snap_wait_caller *caller,
			   char ret[sizeof(struct sockaddr_un)])
{
	const struct snap_process *process = snap_wait_process(resolver, caller->process);
	const size_t before = offsetof(struct sockaddr_un, sun_path);
	struct sockaddr_un address = { .sun_family = AF_UNSPEC };
	uint64_t size = caller->call.arguments[2];
	size_t length;

	if (size <= before || size > sizeof(address) ||
	    !snap_wait_read_memory(process, &process->threads[caller->thread],
				   caller->call.arguments[1], &address, (size_t)size) ||
	    address.sun_family != AF_UNIX)
		return 0;
	length = (size_t)size - before;
	if (address.sun_path[0])
		length = strnlen(address.sun_path, length);
	for (size_t i = 0; i < length; i++)
		ret[i] = address.sun_path[i] ? address.sun_path[i] : '@';
	ret[length] = '\0';
	return length;
}

static void keep_connected(struct sockets *sockets, const struct snap_wait_caller *caller)
{
	char name[sizeof(struct sockaddr_un)];

	if (caller->row->call != SNAP_CALL_CONNECT ||
	    !connect_name(sockets->resolver, caller, name))
		return;
	for (size_t i = 0; i < sockets->count; i++) {
		struct entry *entry = &sockets->entries[i];

		if (entry->socket.family == SNAP_SOCKET_UNIX && entry->socket.name &&
		    entry->socket.state == STATE_LISTEN && strcmp(entry->socket.name, name) == 0)
			keep_peer(sockets, entry);
	}
}

/* ---- the result ---- */

SNAP_ORDER(compare_sockets, struct snap_socket, a, b, snap_compare(a->namespace, b->namespace),
	   snap_compare(a->inode, b->inode));

static struct stacksnap_error *give_sockets(struct sockets *sockets)
{
	struct snap_wait_facts *facts = sockets->resolver->facts;
	struct snap_arena *arena = &sockets->resolver->capture->arena;

	if (!sockets->kept)
		return NULL;
	facts->sockets = snap_arena_new_array(arena, sockets->kept, struct snap_socket);
	SNAP_TRY(snap_no_memory_unless(facts->sockets));
	for (size_t i = 0; i < sockets->count && facts->socket_count < SNAP_MAX_SOCKETS; i++) {
		struct snap_socket *kept = &facts->sockets[facts->socket_count];

		if (!sockets->entries[i].is_kept)
			continue;
		*kept = sockets->entries[i].socket;
		if (kept->name)
			kept->name = snap_arena_strdup(arena, kept->name);
		if (sockets->entries[i].socket.name && !kept->name)
			return snap_error_no_memory();
		facts->socket_count++;
	}
	qsort(facts->sockets, facts->socket_count, sizeof(*facts->sockets), compare_sockets);
	return NULL;
}

/* The processes that have them are looked up next. */
static struct stacksnap_error *give_peers(struct sockets *sockets)
{
	struct snap_wait_resolver *resolver = sockets->resolver;

	for (size_t i = 0; i < sockets->count; i++) {
		const struct entry *entry = &sockets->entries[i];

		if (!entry->uses || !entry->socket.inode)
			continue;
		if (!snap_append(resolver->peers, resolver->peer_count, resolver->peer_capacity,
				 (struct snap_wait_peer){ .inode = entry->socket.inode,
							  .uses = entry->uses }))
			return snap_error_no_memory();
	}
	return NULL;
}

struct stacksnap_error *snap_wait_ask_sockets(struct snap_wait_resolver *resolver)
{
	static const enum snap_socket_family first[] = { SNAP_SOCKET_TCP4, SNAP_SOCKET_TCP6,
							 SNAP_SOCKET_UNIX };
	static const enum snap_socket_family others[] = { SNAP_SOCKET_UDP4, SNAP_SOCKET_UDP6,
							  SNAP_SOCKET_NETLINK };
	_cleanup_(sockets_deinit) struct sockets sockets = { .resolver = resolver };
	struct stacksnap_error *err;

	list_namespaces(&sockets);
	if (!sockets.namespace_count)
		return NULL;
	err = dump_families(&sockets, first, SNAP_ARRAY_SIZE(first));
	if (!err && keep_wanted(&sockets)) {
		err = dump_families(&sockets, others, SNAP_ARRAY_SIZE(others));
		keep_wanted(&sockets);
	}
	if (err)
		return err;
	sockets.uses = SNAP_WAIT_USE_CONNECT;
	for (size_t i = 0; i < resolver->caller_count; i++)
		keep_connected(&sockets, &resolver->callers[i]);
	SNAP_TRY(give_sockets(&sockets));
	return give_peers(&sockets);
}
