/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Facts by their keys: see kernel.h. Sorted orders are made once, and only when needed: most
 * reports have no connection on the same host, and no file lock. They are searched by halving. The
 * target chooses names and addresses, and a hash table is not safe against chosen keys.
 */
#include "analyze/wait/kernel/kernel.h"

#include "base/bsearch.h"

#include <string.h>

enum { TCP_LISTEN = 10, MAPPED = 12 /* bytes before an IPv4 address in IPv6 */ };

struct snap_wait_lookup *snap_wait_lookup_create(void)
{
	return calloc(1, sizeof(struct snap_wait_lookup));
}

void snap_wait_lookup_destroy(struct snap_wait_lookup *lookup)
{
	if (!lookup)
		return;
	free(lookup->crowds);
	snap_hash_table_deinit(&lookup->crowd_table);
	snap_pointer_table_deinit(&lookup->epolls);
	free(lookup);
}

const struct snap_descriptor *snap_wait_descriptor(const struct snap_waiter *waiter, int32_t fd)
{
	const struct snap_process *process = snap_waiter_process(waiter);
	const struct snap_raw_own *own = waiter->thread->own;
	const struct snap_descriptor *all = own ? own->descriptors : process->descriptors;
	size_t count = own ? own->descriptor_count : process->descriptor_count;
	size_t at = snap_first_not(count, i, all[i].number < fd);

	return at < count && all[at].number == fd ? &all[at] : NULL;
}

const struct snap_socket *snap_wait_socket(const struct snap_wait_analysis *waits,
					   uint64_t namespace, uint64_t inode)
{
	const struct snap_wait_facts *facts = waits->facts;
	const struct snap_socket *all = facts->sockets;
	size_t at = snap_first_not(facts->socket_count, i,
				   all[i].namespace != namespace ? all[i].namespace < namespace
								 : all[i].inode < inode);

	if (inode == 0 || at == facts->socket_count || all[at].namespace != namespace ||
	    all[at].inode != inode)
		return NULL;
	return &all[at];
}

const struct snap_socket *snap_wait_descriptor_socket(const struct snap_wait_analysis *waits,
						      const struct snap_waiter *waiter,
						      const struct snap_descriptor *descriptor)
{
	if (!descriptor || descriptor->kind != SNAP_DESCRIPTOR_SOCKET)
		return NULL;
	return snap_wait_socket(waits, snap_waiter_process(waiter)->net_namespace,
				descriptor->inode);
}

struct stacksnap_error *snap_wait_order(struct snap_wait_analysis *waits, size_t count,
					bool (*keep)(const struct snap_wait_facts *facts, size_t i),
					int (*compare)(const void *a, const void *b, void *facts),
					size_t **ret, size_t *count_ret)
{
	size_t kept = 0, *order;

	if (*ret)
		return NULL;
	order = snap_arena_new_array(&waits->analysis->scratch, count + 1, size_t);
	SNAP_TRY(snap_no_memory_unless(order));
	for (size_t i = 0; i < count; i++)
		if (keep(waits->facts, i))
			order[kept++] = i;
	qsort_r(order, kept, sizeof(*order), compare, (void *)waits->facts);
	*ret = order;
	*count_ret = kept;
	return NULL;
}

/* ---- connections ---- */

static bool is_tcp_port(const struct snap_wait_facts *facts, size_t i)
{
	enum snap_socket_family family = facts->sockets[i].family;

	return (family == SNAP_SOCKET_TCP4 || family == SNAP_SOCKET_TCP6) &&
	       facts->sockets[i].state != TCP_LISTEN;
}

/* An address as IPv6 has it: a socket of IPv6 may be connected with one of IPv4. */
static void widen_socket_range(const struct snap_socket *socket,
			       const struct snap_socket_address *address,
			       uint8_t ret[sizeof(address->bytes)])
{
	static const uint8_t prefix[MAPPED] = { [10] = 0xff, [11] = 0xff };

	if (socket->family == SNAP_SOCKET_TCP6) {
		memcpy(ret, address->bytes, sizeof(address->bytes));
		return;
	}
	memcpy(ret, prefix, MAPPED);
	memcpy(ret + MAPPED, address->bytes, sizeof(address->bytes) - MAPPED);
}

static int compare_addresses(const struct snap_socket *a, const struct snap_socket_address *of_a,
			     const struct snap_socket *b, const struct snap_socket_address *of_b)
{
	uint8_t wide_a[sizeof(of_a->bytes)], wide_b[sizeof(of_b->bytes)];

	if (of_a->port != of_b->port)
		return snap_compare(of_a->port, of_b->port);
	widen_socket_range(a, of_a, wide_a);
	widen_socket_range(b, of_b, wide_b);
	return memcmp(wide_a, wide_b, sizeof(wide_a));
}

/* The order of connections; with `swapped`, of a seen from its other end and b. */
static int compare_connection(const struct snap_socket *a, const struct snap_socket *b,
			      bool swapped)
{
	const struct snap_socket_address *local = swapped ? &a->remote : &a->local;
	const struct snap_socket_address *remote = swapped ? &a->local : &a->remote;

	return snap_compare(a->namespace, b->namespace)
		       ?: compare_addresses(a, local, b, &b->local)
		       ?: compare_addresses(a, remote, b, &b->remote);
}

static int in_order_of_connections(const void *left, const void *right, void *of)
{
	const struct snap_wait_facts *facts = of;
	size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return compare_connection(&facts->sockets[a], &facts->sockets[b], false)
		       ?: snap_compare(a, b);
}

struct stacksnap_error *snap_wait_socket_peer(struct snap_wait_analysis *waits,
					      const struct snap_socket *socket,
					      const struct snap_socket **ret)
{
	struct snap_wait_lookup *lookup = waits->lookup;
	const struct snap_socket *all = waits->facts->sockets, *found;
	size_t at;

	*ret = NULL;
	if (socket->family == SNAP_SOCKET_UNIX)
		*ret = snap_wait_socket(waits, socket->namespace, socket->peer);
	if ((socket->family != SNAP_SOCKET_TCP4 && socket->family != SNAP_SOCKET_TCP6) ||
	    socket->remote.port == 0)
		return NULL;
	SNAP_TRY(snap_wait_order(waits, waits->facts->socket_count, is_tcp_port,
				 in_order_of_connections, &lookup->connections,
				 &lookup->connection_count));
	at = snap_first_not(lookup->connection_count, i,
			    compare_connection(socket, &all[lookup->connections[i]], true) > 0);
	if (at == lookup->connection_count)
		return NULL;
	found = &all[lookup->connections[at]];
	if (compare_connection(socket, found, true) == 0 && found != socket)
		*ret = found;
	return NULL;
}

/* ---- listeners ---- */

static bool is_unix_listener(const struct snap_wait_facts *facts, size_t i)
{
	return facts->sockets[i].family == SNAP_SOCKET_UNIX &&
	       facts->sockets[i].state == TCP_LISTEN && facts->sockets[i].name;
}

static int compare_listener(const struct snap_socket *socket, uint64_t namespace, const char *name)
{
	return snap_compare(socket->namespace, namespace) ?: strcmp(socket->name, name);
}

static int in_order_of_names(const void *left, const void *right, void *of)
{
	const struct snap_wait_facts *facts = of;
	size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return compare_listener(&facts->sockets[a], facts->sockets[b].namespace,
				facts->sockets[b].name)
		       ?: snap_compare(a, b);
}

struct stacksnap_error *snap_wait_unix_listener(struct snap_wait_analysis *waits,
						uint64_t namespace, const char *name,
						const struct snap_socket **ret)
{
	struct snap_wait_lookup *lookup = waits->lookup;
	const struct snap_socket *all = waits->facts->sockets;
	size_t at, next;

	*ret = NULL;
	SNAP_TRY(snap_wait_order(waits, waits->facts->socket_count, is_unix_listener,
				 in_order_of_names, &lookup->listeners, &lookup->listener_count));
	at = snap_first_not(lookup->listener_count, i,
			    compare_listener(&all[lookup->listeners[i]], namespace, name) < 0);
	next = snap_first_not(lookup->listener_count, i,
			      compare_listener(&all[lookup->listeners[i]], namespace, name) <= 0);
	if (next - at == 1)
		*ret = &all[lookup->listeners[at]];
	return NULL;
}

/* ---- children ---- */

static int in_order_of_parents(const void *left, const void *right, void *of)
{
	const struct snap_process *processes = of;
	const struct snap_process *a = &processes[*(const size_t *)left];
	const struct snap_process *b = &processes[*(const size_t *)right];

	return snap_compare(a->ppid, b->ppid) ?: snap_compare(a->pid, b->pid);
}

struct stacksnap_error *snap_wait_children(struct snap_wait_analysis *waits, pid_t pid,
					   const size_t **ret, size_t *count_ret)
{
	const struct snap_capture *capture = waits->analysis->capture;
	const struct snap_process *all = capture->processes;
	size_t count = capture->process_count, *order = waits->lookup->by_parent, at;

	if (!order) {
		order = snap_arena_new_array(&waits->analysis->scratch, count + 1, size_t);
		SNAP_TRY(snap_no_memory_unless(order));
		for (size_t i = 0; i < count; i++)
			order[i] = i;
		qsort_r(order, count, sizeof(*order), in_order_of_parents, capture->processes);
		waits->lookup->by_parent = order;
	}
	at = snap_first_not(count, i, all[order[i]].ppid < pid);
	*ret = order + at;
	*count_ret = snap_first_not(count, i, all[order[i]].ppid <= pid) - at;
	return NULL;
}
