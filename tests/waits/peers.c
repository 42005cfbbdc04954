/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that wait for other processes: pipes, FIFOs, sockets, and locks of files. The other end is
 * a child, which rests. See truth.h.
 */
#include "truth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

/* Where FIFOs and files are made: what follows ':' in the mode, which is removed by who asked. */
static const char *folder;

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void use_folder(const char *where)
{
	static char own[] = "/tmp/waits.XXXXXX";

	folder = where ? where : mkdtemp(own);
	if (!folder)
		victim_cannot("mkdtemp");
}

/* A wait with a descriptor. */
struct wanted {
	int fd;
	bool write;
	const char *row, *truth;
};

static void fill(int fd)
{
	static const char block[4096];
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, block, sizeof(block)) > 0)
		;
	while (write(fd, block, 1) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

static NOINLINE void wait_with(struct actor *me)
{
	struct wanted *wanted = me->object;
	char block[4096] = "";

	if (wanted->write)
		fill(wanted->fd);
	truth(wanted->row, "'fd':%d,%s", wanted->fd, wanted->truth);
	for (;;)
		if (wanted->write)
			(void)!write(wanted->fd, block, sizeof(block));
		else
			(void)!read(wanted->fd, block, sizeof(block));
}

__attribute__((format(printf, 4, 5))) static void want(const char *row, int fd, bool write,
						       const char *format, ...)
{
	struct wanted *wanted = calloc(1, sizeof(*wanted));
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	*wanted = (struct wanted){ fd, write, row, strdup(text) };
	start(wait_with, row, wanted, NULL);
}

/* The child keeps one descriptor, and closes the other. */
struct kept {
	int keep, close;
};

static void keep_one(void *argument)
{
	struct kept *kept = argument;

	close(kept->close);
	rest("peer");
}

static pid_t keeper(int keep, int other)
{
	struct kept kept = { keep, other };
	pid_t child = start_child(keep_one, &kept);

	close(keep);
	return child;
}

static void make_pipes(const char *unused)
{
	int empty[2], full[2];
	pid_t writer, reader;

	(void)unused;
	if (pipe2(empty, O_CLOEXEC) != 0)
		victim_cannot("pipe");
	writer = keeper(empty[1], empty[0]);
	want("pipe.read", empty[0], false, "'kind':'pipe','call':'read','peers':[%d]", writer);
	if (pipe2(full, O_CLOEXEC) != 0)
		victim_cannot("pipe");
	reader = keeper(full[0], full[1]);
	want("pipe.write", full[1], true, "'kind':'pipe','call':'write','peers':[%d]", reader);
}

/* ---- FIFOs ---- */

static NOINLINE void open_fifo(struct actor *me)
{
	char *path = me->object;
	bool write = strstr(path, "/write") != NULL;

	truth(me->row, "'kind':'fifo_open','path':'%s','mode':'%s'", path,
	      write ? "write" : "read");
	for (;;)
		(void)!open(path, write ? O_WRONLY : O_RDONLY);
}

static void make_fifos(const char *where)
{
	pid_t writer;
	int both, end;

	use_folder(where);
	if (mkfifo(path_of("read"), 0600) != 0 || mkfifo(path_of("write"), 0600) != 0 ||
	    mkfifo(path_of("both"), 0600) != 0)
		victim_cannot("mkfifo");
	both = open(path_of("both"), O_RDWR | O_CLOEXEC);
	end = open(path_of("both"), O_RDONLY | O_CLOEXEC);
	writer = keeper(both, end);
	want("fifo.read", end, false, "'kind':['fifo','pipe'],'call':'read','peers':[%d]", writer);
	struct actor *reads = start(open_fifo, "fifo_open.read", strdup(path_of("read")), NULL);
	struct actor *writes = start(open_fifo, "fifo_open.write", strdup(path_of("write")), NULL);

	until_asleep(getpid(), reads->tid);
	until_asleep(getpid(), writes->tid);
}

/* ---- unix sockets ---- */

static struct sockaddr_un unix_address(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "waits-%s-%d", name, getpid());
	return address;
}

static NOINLINE void connect_unix(struct actor *me)
{
	struct sockaddr_un *address = me->object;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	truth(me->row, "'kind':'unix','fd':%d,'call':'connect','peers':[%ld],'backlog_max':0", fd,
	      me->other->number);
	for (;;)
		(void)!connect(fd, (struct sockaddr *)address, sizeof(*address));
}

static NOINLINE void accept_one(struct actor *me)
{
	int fd = (int)(intptr_t)me->object;

	truth(me->row, "'fd':%d,'call':'accept','backlog':0,'backlog_max':7,'kind':'%s'", fd,
	      strncmp(me->row, "tcp", 3) == 0 ? "tcp" : "unix");
	for (;;)
		accept(fd, NULL, NULL);
}

static void make_unix(const char *unused)
{
	static struct sockaddr_un full, idle;
	struct actor listener = { 0 };
	int pair[2], accepts = socket(AF_UNIX, SOCK_STREAM, 0), fd;

	(void)unused;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		victim_cannot("socketpair");
	want("unix.recv", pair[0], false, "'kind':'unix','call':'read','peers':[%d]",
	     keeper(pair[1], pair[0]));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		victim_cannot("socketpair");
	want("unix.send", pair[0], true, "'kind':'unix','call':'write','peers':[%d]",
	     keeper(pair[1], pair[0]));
	full = unix_address("full");
	idle = unix_address("idle");
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(fd, (struct sockaddr *)&full, sizeof(full)) != 0 || listen(fd, 0) != 0 ||
	    bind(accepts, (struct sockaddr *)&idle, sizeof(idle)) != 0 || listen(accepts, 7) != 0)
		victim_cannot("listen");
	listener.number = keeper(fd, -1);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&full, sizeof(full)) != 0)
		victim_cannot("connect");
	start(connect_unix, "unix.connect", &full, &listener);
	start(accept_one, "unix.accept", (void *)(intptr_t)accepts, NULL);
}

/* The calls by which programs read and write sockets, where they do not say read and write. */
static NOINLINE void transfer(struct actor *me)
{
	char block[4096] = "";
	struct iovec part = { block, sizeof(block) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int fd = (int)me->number;

	if (strncmp(me->row, "send", 4) == 0 || strcmp(me->row, "writev") == 0)
		fill(fd);
	truth(me->row, "'kind':'unix','fd':%d,'call':'%s','mode':'%s','peers':[%d]", fd,
	      strcmp(me->row, "recv") == 0   ? "recvfrom"
	      : strcmp(me->row, "send") == 0 ? "sendto"
					     : me->row,
	      strncmp(me->row, "re", 2) == 0 ? "read" : "write", (int)(intptr_t)me->object);
	for (;;) {
		if (strcmp(me->row, "recv") == 0)
			(void)!recv(fd, block, sizeof(block), 0);
		else if (strcmp(me->row, "recvfrom") == 0)
			(void)!recvfrom(fd, block, sizeof(block), 0, NULL, NULL);
		else if (strcmp(me->row, "recvmsg") == 0)
			(void)!recvmsg(fd, &message, 0);
		else if (strcmp(me->row, "readv") == 0)
			(void)!readv(fd, &part, 1);
		else if (strcmp(me->row, "send") == 0)
			(void)!send(fd, block, sizeof(block), 0);
		else if (strcmp(me->row, "sendto") == 0)
			(void)!sendto(fd, block, sizeof(block), 0, NULL, 0);
		else if (strcmp(me->row, "sendmsg") == 0)
			(void)!sendmsg(fd, &message, 0);
		else
			(void)!writev(fd, &part, 1);
	}
}

static void make_transfers(const char *unused)
{
	static const char *const calls[] = { "recv", "recvfrom", "recvmsg", "readv",
					     "send", "sendto",   "sendmsg", "writev" };

	(void)unused;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct actor *actor = calloc(1, sizeof(*actor));
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
			victim_cannot("socketpair");
		actor->act = transfer;
		actor->row = calls[i];
		actor->number = pair[0];
		actor->object = (void *)(intptr_t)keeper(pair[1], pair[0]);
		victim_thread(actor_main, actor, 128 << 10);
		while (!actor->tid)
			sched_yield();
	}
}

/* ---- TCP and UDP ---- */

static int tcp_listener(int backlog, struct sockaddr_in *address)
{
	socklen_t size = sizeof(*address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)address, size) != 0 || listen(fd, backlog) != 0 ||
	    getsockname(fd, (struct sockaddr *)address, &size) != 0)
		victim_cannot("listen");
	return fd;
}

/* A connection; `server` is the other end. */
static int tcp_pair(int *server, int *local, int *remote)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int listener = tcp_listener(4, &address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		victim_cannot("connect");
	*remote = ntohs(address.sin_port);
	getsockname(fd, (struct sockaddr *)&address, &size);
	*local = ntohs(address.sin_port);
	*server = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

static void tcp_wait(const char *row, bool write)
{
	int server, local, remote, fd = tcp_pair(&server, &local, &remote);
	pid_t peer = keeper(server, fd);

	want(row, fd, write,
	     "'kind':'tcp','call':'%s','state':'established','local':'127.0.0.1:%d',"
	     "'remote':'127.0.0.1:%d','peers':[%d]%s",
	     write ? "write" : "read", local, remote, peer,
	     write ? ",'queued':true" : ",'recv_queue':0");
}

/* A listener whose queue is full answers no SYN. */
static NOINLINE void connect_tcp(struct actor *me)
{
	struct sockaddr_in *address = me->object;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	truth(me->row,
	      "'kind':'tcp','fd':%d,'call':'connect','state':'syn_sent','remote':'127.0.0.1:%d'",
	      fd, ntohs(address->sin_port));
	for (;;)
		(void)!connect(fd, (struct sockaddr *)address, sizeof(*address));
}

static void make_tcp(const char *unused)
{
	static struct sockaddr_in full, idle;
	int accepts;

	(void)unused;
	tcp_wait("tcp.recv", false);
	tcp_wait("tcp.send", true);
	accepts = tcp_listener(7, &idle);
	start(accept_one, "tcp.accept", (void *)(intptr_t)accepts, NULL);
	tcp_listener(0, &full);
	for (int i = 0; i < 2; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

		connect(fd, (struct sockaddr *)&full, sizeof(full));
	}
	start(connect_tcp, "tcp.connect", &full, NULL);
}

static void make_udp(const char *unused)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), netlink = socket(AF_NETLINK, SOCK_RAW, 0);

	(void)unused;
	if (bind(fd, (struct sockaddr *)&address, size) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0)
		victim_cannot("bind");
	want("udp.recv", fd, false, "'kind':'udp','local':'127.0.0.1:%d'", ntohs(address.sin_port));
	if (netlink >= 0)
		want("netlink.recv", netlink, false, "'kind':'socket'");
}

/* ---- locks of files ---- */

struct lock {
	const char *name;
	int way; /* LOCK_EX: flock; F_SETLKW, F_OFD_SETLKW: fcntl */
	bool heir;
	_Atomic pid_t holder;
};

static int life[2]; /* a pipe whose writing end closes with the process */

static int take(const struct lock *lock, int fd)
{
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 120, .l_len = 10
	};

	return lock->way == LOCK_EX ? flock(fd, LOCK_EX) : fcntl(fd, lock->way, &range);
}

static void hold_lock(void *argument)
{
	struct lock *lock = argument;
	int fd = open(path_of(lock->name), O_RDWR);
	char byte;

	if (fd < 0 || take(lock, fd) != 0)
		_exit(1);
	/* Who took the lock is gone, its child has the description. */
	if (lock->heir) {
		if (fork() != 0)
			_exit(0);
		close(life[1]);
		lock->holder = getpid();
		truth("file_lock.heir", "'outside':true");
		if (read(life[0], &byte, 1) <= 0)
			_exit(0);
	}
	lock->holder = getpid();
	rest("file_lock.holder");
}

static NOINLINE void want_lock(struct actor *me)
{
	struct lock *lock = me->object;
	int fd = open(path_of(lock->name), O_RDWR);

	truth(me->row, "'kind':'file_lock','fd':%d,'path':'%s','holders':[%d]", fd,
	      path_of(lock->name), lock->holder);
	for (;;)
		take(lock, fd);
}

/* An open file that two processes share, by a fork or a message, is locked for both of them. */
struct message_of {
	struct lock *lock;
	int sockets[2];
	pid_t *holder;
};

static void send_descriptor(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec vector = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vector,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);

	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	if (sendmsg(socket, &message, 0) != 1)
		victim_cannot("sendmsg");
}

static void receive_descriptor(void *argument)
{
	struct message_of *of = argument;
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec vector = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vector,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };

	close(of->sockets[1]);
	if (recvmsg(of->sockets[0], &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		_exit(1);
	rest("file_lock.receiver");
}

static void hold_and_send(void *argument)
{
	struct message_of *of = argument;
	int fd = open(path_of(of->lock->name), O_RDWR | O_CLOEXEC);

	if (fd < 0 || take(of->lock, fd) != 0)
		_exit(1);
	send_descriptor(of->sockets[1], fd);
	rest("file_lock.holder");
}

static void hold_and_fork(void *argument)
{
	struct message_of *of = argument;
	int fd = open(path_of(of->lock->name), O_RDWR);

	if (fd < 0 || take(of->lock, fd) != 0)
		_exit(1);
	*of->holder = start_child(keep_one, &(struct kept){ fd, -1 });
	rest("file_lock.holder");
}

static NOINLINE void want_shared_lock(struct actor *me)
{
	struct message_of *of = me->object;
	int fd = open(path_of(of->lock->name), O_RDWR | O_CLOEXEC);

	truth(me->row, "'kind':'file_lock','fd':%d,'path':'%s','holders':[%d,%d]", fd,
	      path_of(of->lock->name), of->holder[0], of->holder[1]);
	for (;;)
		take(of->lock, fd);
}

static void make_shared_locks(const char *where)
{
	static struct lock all[] = { { .name = "ofd-forked", .way = F_OFD_SETLKW },
				     { .name = "flock-forked", .way = LOCK_EX },
				     { .name = "ofd-sent", .way = F_OFD_SETLKW },
				     { .name = "flock-sent", .way = LOCK_EX } };

	use_folder(where);
	for (int i = 0; i < 4; i++) {
		struct message_of *of = calloc(1, sizeof(*of));
		int before = truths->count;

		of->lock = &all[i];
		of->holder =
			mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		close(open(path_of(all[i].name), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, of->sockets) != 0)
			victim_cannot("socketpair");
		if (i < 2) {
			of->holder[1] = start_child(hold_and_fork, of);
			until_truths(before + 2);
		} else {
			of->holder[0] = start_child(hold_and_send, of);
			of->holder[1] = start_child(receive_descriptor, of);
		}
		close(of->sockets[0]);
		close(of->sockets[1]);
		start(want_shared_lock, all[i].name, of, NULL);
	}
}

static void make_locks(const char *where)
{
	static const struct lock all[] = {
		{ .name = "flock", .way = LOCK_EX },
		{ .name = "posix", .way = F_SETLKW },
		{ .name = "ofd", .way = F_OFD_SETLKW },
		{ .name = "heir", .way = LOCK_EX, .heir = true },
	};
	struct lock *locks =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	use_folder(where);
	if (pipe2(life, O_CLOEXEC) != 0)
		victim_cannot("pipe");
	memcpy(locks, all, sizeof(all));
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char row[32];

		close(open(path_of(locks[i].name), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
		start_child(hold_lock, &locks[i]);
		snprintf(row, sizeof(row), "file_lock.%s", locks[i].name);
		start(want_lock, strdup(row), &locks[i], NULL);
	}
}

/* ---- more locks than anybody looks at ---- */

struct many_locks {
	int files, locks; /* of each file */
};

static struct many_locks many;

static const char *numbered(int file)
{
	char name[32];

	snprintf(name, sizeof(name), "many-%d", file);
	return path_of(name);
}

static struct flock one_of(int number)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * (off_t)number, .l_len = 1
	};
}

/* The kernel goes through all locks of a file for each new one: so there are several files. */
static void hold_many(void *argument)
{
	(void)argument;
	for (int file = 0; file < many.files; file++) {
		int fd = open(numbered(file), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		for (int i = 0; i < many.locks; i++) {
			struct flock range = one_of(i);

			if (fd < 0 || fcntl(fd, F_SETLK, &range) != 0)
				_exit(1);
		}
	}
	rest("file_lock.holder");
}

static NOINLINE void want_one_of_many(struct actor *me)
{
	struct flock range = one_of(many.locks - 1);
	int fd = open(numbered((int)(intptr_t)me->object), O_RDWR | O_CLOEXEC);

	truth(me->row, "'kind':'file_lock','fd':%d,'start':%ld,'end':%ld", fd, (long)range.l_start,
	      (long)range.l_start);
	for (;;)
		fcntl(fd, F_SETLKW, &range);
}

/* "FILES,LOCKS,FOLDER" */
static void make_many_locks(const char *arguments)
{
	int end = 0;

	if (sscanf(arguments, "%d,%d,%n", &many.files, &many.locks, &end) != 2 || !end)
		victim_cannot("arguments");
	use_folder(arguments + end);
	start_child(hold_many, NULL);
	for (int file = 0; file < many.files; file++)
		start(want_one_of_many, "file_lock.many", (void *)(intptr_t)file, NULL);
}

/* ---- more sockets than anybody needs ---- */

static void have_sockets(void *argument)
{
	const int *count = argument;

	for (int i = 0; i < *count / 2; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
			_exit(1);
	}
	rest("unix.many");
}

/* So many in all, as children may have; a thread waits for one more. */
static void make_many_sockets(const char *argument)
{
	int pair[2], left = atoi(argument), most = 10000;
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < 200)
		victim_cannot("RLIMIT_NOFILE");
	if (limit.rlim_max < (rlim_t)most + 100)
		most = (int)limit.rlim_max - 100;
	for (; left > 0; left -= most)
		start_child(have_sockets, &most);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		victim_cannot("socketpair");
	want("unix.recv", pair[0], false, "'kind':'unix','call':'read','peers':[%d]",
	     keeper(pair[1], pair[0]));
}

int main(int argc, char **argv)
{
	static const struct truth_mode modes[] = {
		{ "pipes", make_pipes },
		{ "fifos", make_fifos },
		{ "unix", make_unix },
		{ "transfers", make_transfers },
		{ "tcp", make_tcp },
		{ "udp", make_udp },
		{ "locks", make_locks },
		{ "shared-locks", make_shared_locks },
		{ "many-locks", make_many_locks },
		{ "many-sockets", make_many_sockets },
		{ NULL, NULL },
	};

	(void)argc;
	return truth_main(modes, argv);
}
