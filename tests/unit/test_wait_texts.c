/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texts and messages about descriptors, sockets, locks and queues, those that lie among them. */
#include "proc/wait/diag.h"
#include "proc/wait/fdinfo.h"
#include "proc/wait/locks.h"
#include "proc/wait/net.h"
#include "proc/wait/queues.h"

#include "base/cleanup.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static void test_links(void **state _unused_)
{
	static const struct {
		const char *text;
		enum snap_descriptor_kind kind;
		uint64_t inode;
	} links[] = {
		{ "pipe:[4711]", SNAP_DESCRIPTOR_PIPE, 4711 },
		{ "socket:[18446744073709551615]", SNAP_DESCRIPTOR_SOCKET, UINT64_MAX },
		{ "socket:[18446744073709551616]", SNAP_DESCRIPTOR_OTHER, 0 },
		{ "pipe:[4711] (deleted)", SNAP_DESCRIPTOR_OTHER, 0 },
		{ "pipe:[]", SNAP_DESCRIPTOR_OTHER, 0 },
		{ "pipe:[-1]", SNAP_DESCRIPTOR_OTHER, 0 },
		{ "pipe:[1]\n", SNAP_DESCRIPTOR_OTHER, 0 },
		{ "/tmp/pipe:[1]", SNAP_DESCRIPTOR_FILE, 0 },
		{ "/pipe:[1]", SNAP_DESCRIPTOR_FILE, 0 },
		{ "/anon_inode:[eventfd]", SNAP_DESCRIPTOR_FILE, 0 },
		{ "anon_inode:[eventfd]", SNAP_DESCRIPTOR_EVENTFD, 0 },
		{ "anon_inode:[eventfd]x", SNAP_DESCRIPTOR_OTHER, 0 },
		{ "anon_inode:inotify", SNAP_DESCRIPTOR_INOTIFY, 0 },
		{ "anon_inode:[fanotify]", SNAP_DESCRIPTOR_FANOTIFY, 0 },
		{ "pidfd:[7]", SNAP_DESCRIPTOR_PIDFD, 0 },
		{ "", SNAP_DESCRIPTOR_OTHER, 0 },
	};
	uint64_t inode;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(links); i++) {
		assert_int_equal(
			snap_parse_descriptor_link(links[i].text, strlen(links[i].text), &inode),
			links[i].kind);
		assert_int_equal(inode, links[i].inode);
	}
	assert_true(snap_parse_namespace("net:[4026531833]", 16, &inode));
	assert_int_equal(inode, 4026531833);
	assert_false(snap_parse_namespace("net:[1] ", 8, &inode));
}

static void parse_info(struct snap_fdinfo *info, const char *line)
{
	snap_parse_fdinfo_line(line, strlen(line), info);
}

static void test_fdinfo(void **state _unused_)
{
	struct snap_epoll_watch watched[2];
	struct snap_fdinfo info;

	snap_fdinfo_init(&info, watched, 2);
	parse_info(&info, "ino:\t4711");
	parse_info(&info, "mnt_id:\t17");
	parse_info(&info, "eventfd-count:               1f");
	parse_info(&info, "eventfd-id: 10");
	parse_info(&info, "it_value: (3, 200000000)");
	parse_info(&info, "sigmask:\t0000001000000800");
	parse_info(&info, "Pid:\t-1");
	parse_info(&info, "SqTail:\t1");
	parse_info(&info, "SqHead:\t4294967295");
	assert_true(info.has_inode);
	assert_int_equal(info.inode, 4711);
	assert_int_equal(info.mount, 17);
	assert_int_equal(info.id, 10 + 1);
	assert_int_equal(info.remaining_ns, 3200000000);
	assert_int_equal(info.signals, 0x1000000800);
	assert_int_equal(info.pid, -1);
	assert_int_equal(info.count, 2);
	parse_info(&info, "pending:\t3");
	parse_info(&info, "total:\t5");
	assert_int_equal(info.count, 3);
	parse_info(&info, "tfd:       16 events:       19 data: 10  pos:0 ino:3c9bc2 sdev:9");
	parse_info(&info, "tfd:        5 events:       19 data: 10");
	parse_info(&info, "tfd:        6 events:       19 data: 10  pos:0 ino:1 sdev:9");
	parse_info(&info, "tfd:        99999999999 events: 1");
	assert_int_equal(info.watches, 3);
	assert_int_equal(info.watched_count, 2);
	assert_int_equal(watched[0].number, 16);
	assert_int_equal(watched[0].inode, 0x3c9bc2);
	assert_int_equal(watched[1].inode, 0);
	parse_info(&info, "it_value: (99999999999999999999, 0)");
	parse_info(&info, "it_value: (9223372036854775807, 0)");
	parse_info(&info, "it_value: (0, 1000000000)");
	assert_int_equal(info.remaining_ns, 3200000000);
	for (size_t i = 0; i < 2 * SNAP_MAX_WATCHED; i++)
		parse_info(&info, "inotify wd:1 ino:2 sdev:fe00000");
	assert_int_equal(info.watches, SNAP_MAX_WATCHED);
	assert_true(info.watches_cut);
}

static bool parse_lock(const char *line, struct snap_file_lock *ret)
{
	return snap_parse_file_lock(line, strlen(line), ret);
}

static void test_locks(void **state _unused_)
{
	static const char *const refused[] = {
		"1: FLOCK  ADVISORY  WRITE 713 <none>:0 0 EOF",
		"1: FLOCK  ADVISORY  WRITE 713 00:13:1 0 EOF x",
		"1: FLOCK  ADVISORY  WRITE 713 00:13:99999999999999999999 0 EOF",
		"1: POSIX  ADVISORY  WRITE -2 00:13:1 0 EOF",
		"1: POSIX  ADVISORY  WRITE 1 00:13:1 20 10",
		"1: POSIX  ADVISORY  WRITE 1 00:13:1 -1 10",
		"1: UNKNOWN UNKNOWN  READ 1 00:13:1 0 EOF",
		"4294967296: FLOCK  ADVISORY  WRITE 713 00:13:1 0 EOF",
		"1:",
		"",
	};
	struct snap_file_lock lock;
	uint64_t mount;
	uint32_t major_number, minor_number;
	static const char mount_line[] = "36 35 98:16 / /a\\012b rw - ext3 /dev/root rw";
	static const char held[] = "lock:\t1: OFDLCK ADVISORY  READ -1 fe:00:11108402 203 204";

	assert_true(parse_lock("12: POSIX  ADVISORY  WRITE 812 fe:0a:4711 100 119", &lock));
	assert_int_equal(lock.kind, SNAP_LOCK_POSIX);
	assert_true(lock.write && !lock.waits && !lock.is_holder);
	assert_int_equal(lock.number, 12);
	assert_int_equal(lock.pid, 812);
	assert_int_equal(lock.dev_major, 0xfe);
	assert_int_equal(lock.dev_minor, 10);
	assert_int_equal(lock.inode, 4711);
	assert_int_equal(lock.start, 100);
	assert_int_equal(lock.end, 119);
	assert_true(parse_lock("12:     -> FLOCK  ADVISORY  READ 9 00:13:1 0 EOF", &lock));
	assert_true(lock.waits && !lock.write);
	assert_int_equal(lock.end, UINT64_MAX);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(refused); i++)
		assert_false(parse_lock(refused[i], &lock));
	assert_true(snap_parse_held_lock(held, sizeof(held) - 1, &lock));
	assert_true(lock.is_holder);
	assert_int_equal(lock.pid, -1);
	assert_false(snap_parse_held_lock("flags: 1", 8, &lock));
	assert_true(snap_parse_mount(mount_line, sizeof(mount_line) - 1, &mount, &major_number,
				     &minor_number));
	assert_int_equal(mount, 36);
	assert_int_equal(major_number, 98);
	assert_int_equal(minor_number, 16);
}

static void test_tables(void **state _unused_)
{
	static const char tcp[] = "   1: 0100007F:BF45 0200000A:0050 01 00000003:0000000A "
				  "02:000AFE01 00000005  1000        0 4711 1 0000000000000000 20";
	static const char six[] = "   0: 00000000000000000000000001000000:0016 "
				  "00000000000000000000000000000000:0000 0A 00000000:00000001 "
				  "00:00000000 00000000     0        0 99 1 0000000000000000";
	static const char fake[] = "0000000040810d51: 00000003 00000000 00010000 0001 01 4711 "
				   "/x\n0: 0 0";
	static const char messages[] = "  0  3  600  5000  12  100  101  0 0 0 0 1 2 3";
	struct snap_ipc_queue queue;
	struct snap_socket socket;

	assert_true(snap_parse_inet_socket(tcp, sizeof(tcp) - 1, SNAP_SOCKET_TCP4, &socket));
	assert_int_equal(socket.inode, 4711);
	assert_int_equal(socket.local.port, 0xbf45);
	assert_memory_equal(socket.local.bytes, "\x7f\0\0\1", 4);
	assert_memory_equal(socket.remote.bytes, "\x0a\0\0\2", 4);
	assert_int_equal(socket.send_queue, 3);
	assert_int_equal(socket.receive_queue, 10);
	assert_int_equal(socket.retransmits, 5);
	assert_true(socket.queues_known);
	assert_true(snap_parse_inet_socket(six, sizeof(six) - 1, SNAP_SOCKET_TCP6, &socket));
	assert_int_equal(socket.local.bytes[15], 1);
	assert_false(socket.queues_known);
	/* One as the other, and cut anywhere. */
	assert_false(snap_parse_inet_socket(six, sizeof(six) - 1, SNAP_SOCKET_TCP4, &socket));
	assert_false(snap_parse_inet_socket(tcp, sizeof(tcp) - 1, SNAP_SOCKET_TCP6, &socket));
	for (size_t i = 0; i < 90; i++)
		assert_false(snap_parse_inet_socket(tcp, i, SNAP_SOCKET_TCP4, &socket));
	assert_true(snap_parse_unix_socket(fake, sizeof(fake) - 1, &socket));
	assert_int_equal(socket.inode, 4711);
	assert_int_equal(socket.state, 10);
	assert_null(socket.name);
	assert_true(snap_parse_message_queue(messages, sizeof(messages) - 1, &queue));
	assert_int_equal(queue.id, 3);
	assert_int_equal(queue.bytes, 5000);
	assert_int_equal(queue.messages, 12);
	assert_int_equal(queue.last_sender, 100);
	assert_int_equal(queue.last_receiver, 101);
	assert_false(snap_parse_message_queue("       key      msqid perms", 27, &queue));
	assert_true(snap_parse_semaphore_set("  5  7  600  2", 14, &queue));
	assert_true(queue.is_semaphore && queue.id == 7);
	assert_false(snap_parse_semaphore_set("  5  -7  600  2", 15, &queue));
}

/* A message of a unix socket with a name, and then one with a length that lies. */
static void test_messages(void **state _unused_)
{
	static const uint32_t peer = 12, pending = 13;
	uint8_t bytes[512] = { 0 };
	struct nlmsghdr header = { .nlmsg_type = SOCK_DIAG_BY_FAMILY };
	struct unix_diag_msg message = { .udiag_family = AF_UNIX, .udiag_ino = 11 };
	struct snap_diag_answer answer;
	size_t at = NLMSG_HDRLEN + sizeof(message), size;
	int error = 0;

	memcpy(bytes + NLMSG_HDRLEN, &message, sizeof(message));
	memcpy(bytes + at, &(uint16_t[]){ 4 + 3, UNIX_DIAG_NAME }, 4);
	memcpy(bytes + at + 4, "\0ab", 3);
	at += 8;
	memcpy(bytes + at, &(uint16_t[]){ 8, UNIX_DIAG_PEER }, 4);
	memcpy(bytes + at + 4, &peer, 4);
	at += 8;
	memcpy(bytes + at, &(uint16_t[]){ 8, UNIX_DIAG_ICONS }, 4);
	memcpy(bytes + at + 4, &pending, 4);
	at += 8;
	/* Longer than what is there. */
	memcpy(bytes + at, &(uint16_t[]){ 400, UNIX_DIAG_NAME }, 4);
	at += 4;
	header.nlmsg_len = (uint32_t)at;
	memcpy(bytes, &header, sizeof(header));
	size = at;
	at = 0;
	assert_int_equal(snap_diag_next(bytes, size, &at, SNAP_SOCKET_UNIX, &answer, &error),
			 SNAP_DIAG_SOCKET);
	assert_int_equal(answer.socket.inode, 11);
	assert_int_equal(answer.socket.peer, 12);
	assert_int_equal(answer.name_length, 3);
	assert_memory_equal(answer.name, "\0ab", 3);
	assert_int_equal(answer.pending_count, 1);
	assert_int_equal(snap_diag_next(bytes, size, &at, SNAP_SOCKET_UNIX, &answer, &error),
			 SNAP_DIAG_MORE);
	/* Another family's message is none of ours; and no cut of it reads behind its end. */
	at = 0;
	assert_int_equal(snap_diag_next(bytes, size, &at, SNAP_SOCKET_TCP4, &answer, &error),
			 SNAP_DIAG_MORE);
	for (size_t cut = NLMSG_HDRLEN; cut < size; cut++) {
		at = 0;
		assert_int_equal(snap_diag_next(bytes, cut, &at, SNAP_SOCKET_UNIX, &answer, &error),
				 SNAP_DIAG_ERROR);
		assert_int_equal(error, EBADMSG);
	}
	header = (struct nlmsghdr){ .nlmsg_type = NLMSG_ERROR, .nlmsg_len = NLMSG_HDRLEN + 4 };
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + NLMSG_HDRLEN, &(int32_t){ -ENOENT }, 4);
	at = 0;
	assert_int_equal(snap_diag_next(bytes, 20, &at, SNAP_SOCKET_UNIX, &answer, &error),
			 SNAP_DIAG_ERROR);
	assert_int_equal(error, ENOENT);
	header = (struct nlmsghdr){ .nlmsg_type = NLMSG_DONE, .nlmsg_len = 0 };
	memcpy(bytes, &header, sizeof(header));
	at = 0;
	assert_int_equal(snap_diag_next(bytes, 20, &at, SNAP_SOCKET_UNIX, &answer, &error),
			 SNAP_DIAG_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),    cmocka_unit_test(test_fdinfo),
		cmocka_unit_test(test_locks),    cmocka_unit_test(test_tables),
		cmocka_unit_test(test_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
