/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a recording learns of sockets, with some of this process: which, when, and of whom. */
#include "base/clock.h"
#include "fine.h"
#include "record/wait/sockets.h"
#include "skip.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

struct bed {
	struct snap_log *log;
	struct snap_socket_queries queries;
	struct snap_socket_owner owner;
	struct snap_process facts;
	struct snap_sampled_process process;
	uint32_t space;
};

static int set_up(void **state)
{
	const struct snap_host host = { .name = "host" };
	struct bed *bed = calloc(1, sizeof(*bed));
	struct stat network;
	uint32_t process;

	bed->facts = (struct snap_process){ .pid = getpid(), .name = "p", .parent = SIZE_MAX };
	assert_int_equal(stat("/proc/self/ns/net", &network), 0);
	bed->process = (struct snap_sampled_process){ .facts = &bed->facts,
						      .net_namespace = network.st_ino };
	fine(snap_log_create(&host, 1, 10000000, false, &bed->log));
	fine(snap_log_add_process(bed->log, getpid(), 1, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(bed->log, process, &bed->facts, NULL, &bed->space));
	snap_socket_queries_init(&bed->queries, bed->log);
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	snap_socket_queries_deinit(&bed->queries);
	snap_log_destroy(bed->log);
	free(bed);
	return 0;
}

static uint64_t note(struct bed *bed, int fd)
{
	struct snap_descriptor descriptor = { .number = fd, .kind = SNAP_DESCRIPTOR_SOCKET };
	struct stat status;

	assert_int_equal(fstat(fd, &status), 0);
	descriptor.inode = status.st_ino;
	fine(snap_socket_queries_note(&bed->queries, &bed->owner, &bed->process, bed->space,
				      &descriptor, 1));
	return status.st_ino;
}

static const struct snap_socket *find(const struct bed *bed, uint64_t inode)
{
	for (size_t i = 0; i < bed->log->socket_count; i++)
		if (bed->log->sockets[i].inode == inode)
			return &bed->log->sockets[i];
	return NULL;
}

/* Works as the ticks do, until a look has begun and ended. */
static void look(struct bed *bed)
{
	fine(snap_socket_queries_work(&bed->queries, false));
	if (bed->queries.failed)
		skip_because("no child can be made");
	assert_non_null(bed->queries.query);
	while (bed->queries.query) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		fine(snap_socket_queries_work(&bed->queries, false));
	}
}

static int listen_on(int family, const void *address, socklen_t size)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, address, size), 0);
	assert_int_equal(listen(fd, 3), 0);
	return fd;
}

static void test_sockets_and_other_ends(void **state)
{
	struct bed *bed = *state;
	struct sockaddr_in local = { .sin_family = AF_INET,
				     .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int tcp = listen_on(AF_INET, &local, sizeof(local)), pair[2];
	uint64_t tcp_inode, pair_inode;
	const struct snap_socket *found;
	struct stat other;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	fstat(pair[1], &other);
	/* nobody waits yet: nobody looks */
	fine(snap_socket_queries_work(&bed->queries, false));
	assert_null(bed->queries.query);
	tcp_inode = note(bed, tcp);
	pair_inode = note(bed, pair[0]);
	assert_int_not_equal(bed->owner.network, 0);
	assert_int_equal(bed->log->capture->processes[bed->space].net_namespace,
			 bed->owner.network);
	look(bed);
	found = find(bed, tcp_inode);
	if (!found)
		skip_because("the kernel does not tell of sockets");
	getsockname(tcp, (void *)&local, &(socklen_t){ sizeof(local) });
	assert_int_equal(found->family, SNAP_SOCKET_TCP4);
	assert_int_equal(found->local.port, ntohs(local.sin_port));
	assert_int_equal(found->namespace, bed->owner.network);
	found = find(bed, pair_inode);
	assert_non_null(found);
	assert_int_equal(found->peer, other.st_ino);
	assert_non_null(find(bed, other.st_ino));
	/* those and no others */
	assert_int_equal(bed->log->socket_count, 3);
	close(tcp);
	close(pair[0]);
	close(pair[1]);
}

/* Another look is for another socket alone, and not at once; the end does not wait for its time. */
static void test_looks_are_rare(void **state)
{
	struct bed *bed = *state;
	int first = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), second;
	struct sockaddr_in local = { .sin_family = AF_INET,
				     .sin_addr = { htonl(INADDR_LOOPBACK) } };
	uint64_t inode;

	assert_int_equal(bind(first, (void *)&local, sizeof(local)), 0);
	(void)note(bed, first);
	look(bed);
	assert_true(bed->queries.next_ns > snap_clock_ns(CLOCK_MONOTONIC) + 500000000);
	(void)note(bed, first);
	bed->queries.next_ns = 0;
	fine(snap_socket_queries_work(&bed->queries, false));
	assert_null(bed->queries.query);
	bed->queries.next_ns = INT64_MAX;
	second = listen_on(AF_INET, &local, sizeof(local));
	inode = note(bed, second);
	fine(snap_socket_queries_work(&bed->queries, false));
	assert_null(bed->queries.query);
	fine(snap_socket_queries_work(&bed->queries, true));
	while (bed->queries.query)
		fine(snap_socket_queries_work(&bed->queries, true));
	if (bed->log->socket_count)
		assert_non_null(find(bed, inode));
	close(first);
	close(second);
}

/* A look that is under way ends with the recording. */
static void test_end_in_the_middle(void **state)
{
	struct bed *bed = *state;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)note(bed, fd);
	fine(snap_socket_queries_work(&bed->queries, false));
	close(fd);
}

/* A process whose network cannot be told has no sockets. */
static void test_unknown_network(void **state)
{
	struct bed *bed = *state;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	bed->process.net_namespace = 0;
	(void)note(bed, fd);
	fine(snap_socket_queries_work(&bed->queries, true));
	assert_null(bed->queries.query);
	assert_int_equal(bed->log->socket_count, 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sockets_and_other_ends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_looks_are_rare, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end_in_the_middle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unknown_network, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
