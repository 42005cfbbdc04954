/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the attack programs have in common: the part of an unprivileged user with namespaces of his
 * own, a bystander that has done nothing, and a FUSE file system whose server can fall silent.
 *
 * The server is a child and ends with its parent, which sets free whoever waits for it. A request
 * that it has taken and does not answer holds the one who asked in a sleep that SIGKILL does not
 * end. A file system of a user namespace holds its own users alone: the kernel refuses the others.
 * One that fusermount3 mounted, or root of most containers, holds everybody; those are made by root
 * here. ATTACK_USER in the environment: never so.
 */
#pragma once

#include "victim.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum {
	ATTACK_UID = 60001,
	ATTACK_MOST = 1 << 17,
	ATTACK_FILE = 2,
	ATTACK_LINK = 3,
	ATTACK_DIR = 4
};

/* All work is done in a tmpfs of this process's own. */
#define ATTACK_PLACE "/mnt"
#define ATTACK_FUSE ATTACK_PLACE "/fuse"

/* Shared with the server. */
struct attack_server {
	_Atomic uint64_t silent;     /* a bit for each operation that is not answered */
	atomic_int asked;            /* how many were not */
	atomic_int failures_of_read; /* so many reads fail before that */
	atomic_int reads;            /* that were answered */
};

static struct attack_server *attack_server;
static uint8_t *attack_image;
static size_t attack_image_size;
static int attack_device = -1;

#define ATTACK_BIT(operation) (1ull << (operation))
/* Whatever looks for files, opens or reads them. */
#define ATTACK_ALL                                                                        \
	(ATTACK_BIT(FUSE_LOOKUP) | ATTACK_BIT(FUSE_GETATTR) | ATTACK_BIT(FUSE_READLINK) | \
	 ATTACK_BIT(FUSE_OPEN) | ATTACK_BIT(FUSE_OPENDIR) | ATTACK_BIT(FUSE_READDIR) |    \
	 ATTACK_BIT(FUSE_READ) | ATTACK_BIT(FUSE_STATFS) | ATTACK_BIT(FUSE_GETXATTR) |    \
	 ATTACK_BIT(FUSE_ACCESS) | ATTACK_BIT(FUSE_FLUSH) | ATTACK_BIT(FUSE_READDIRPLUS))

static void attack_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		victim_cannot(path);
	close(fd);
}

/* The device is root's alone on some machines: a node that all may open stands for those others. */
static void attack_find_device(bool host)
{
	char folder[] = "/tmp/attack-XXXXXX", node[64] = "/dev/fuse";

	if (geteuid() == 0 && !host && mkdtemp(folder)) {
		snprintf(node, sizeof(node), "%s/fuse", folder);
		if (mknod(node, S_IFCHR | 0666, makedev(10, 229)) || chmod(node, 0666))
			victim_cannot("mknod");
		attack_device = open(node, O_PATH | O_CLOEXEC);
		unlink(node);
		rmdir(folder);
	} else {
		attack_device = open(node, O_PATH | O_CLOEXEC);
	}
	if (attack_device < 0)
		victim_cannot("/dev/fuse");
}

/* An ordinary user from now on, who stays dumpable. */
__attribute__((unused)) static void attack_drop(void)
{
	if (geteuid() != 0)
		return;
	if (setgroups(0, NULL) || setresgid(ATTACK_UID, ATTACK_UID, ATTACK_UID) ||
	    setresuid(ATTACK_UID, ATTACK_UID, ATTACK_UID))
		victim_cannot("setresuid");
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/*
 * From now on in namespaces of its own, with a tmpfs at ATTACK_PLACE. Before there are threads.
 * `host`: as root in the user namespace of the host, where that is possible.
 */
__attribute__((unused)) static void attack_begin(bool host)
{
	char map[64];
	uid_t uid;
	gid_t gid;

	host = host && geteuid() == 0 && !getenv("ATTACK_USER");
	attack_find_device(host);
	if (!host)
		attack_drop();
	uid = geteuid();
	gid = getegid();
	if (unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)))
		victim_cannot("unshare");
	if (uid != 0) {
		attack_write("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", uid);
		attack_write("/proc/self/uid_map", map);
		snprintf(map, sizeof(map), "0 %u 1", gid);
		attack_write("/proc/self/gid_map", map);
	}
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", ATTACK_PLACE, "tmpfs", 0, "mode=0777"))
		victim_cannot("mount");
}

static void attack_answer(int fd, uint64_t unique, int error, const void *body, size_t size)
{
	static uint8_t buffer[ATTACK_MOST + sizeof(struct fuse_out_header)];
	struct fuse_out_header *head = (void *)buffer;

	*head = (struct fuse_out_header){ .len = (uint32_t)(sizeof(*head) + size),
					  .error = error,
					  .unique = unique };
	if (size)
		memcpy(head + 1, body, size);
	if (write(fd, buffer, head->len) < 0 && errno == ENODEV)
		_exit(0);
}

static struct fuse_attr attack_attributes(uint64_t node)
{
	struct fuse_attr attr = {
		.ino = node, .mode = S_IFDIR | 0755, .nlink = 1, .blksize = 4096
	};

	if (node == ATTACK_FILE)
		attr.mode = S_IFREG | 0755, attr.size = attack_image_size;
	else if (node == ATTACK_LINK)
		attr.mode = S_IFLNK | 0777, attr.size = 4;
	return attr;
}

static void attack_serve_read(int fd, const struct fuse_in_header *head)
{
	const struct fuse_read_in *in = (const void *)(head + 1);
	size_t size = in->size < ATTACK_MOST ? in->size : ATTACK_MOST;

	if (in->offset >= attack_image_size)
		size = 0;
	else if (size > attack_image_size - in->offset)
		size = attack_image_size - in->offset;
	attack_answer(fd, head->unique, 0, attack_image + in->offset, size);
	attack_server->reads++;
}

static uint64_t attack_node(const char *name)
{
	if (strcmp(name, "file") == 0)
		return ATTACK_FILE;
	if (strcmp(name, "link") == 0)
		return ATTACK_LINK;
	return strcmp(name, "dir") == 0 ? ATTACK_DIR : 0;
}

static void attack_serve_lookup(int fd, const struct fuse_in_header *head)
{
	const char *name = (const char *)(head + 1);
	uint64_t node = attack_node(name);
	struct fuse_entry_out entry = { .nodeid = node, .attr = attack_attributes(node) };

	attack_answer(fd, head->unique, node ? 0 : -ENOENT, &entry, node ? sizeof(entry) : 0);
	/* For those who have no memory in common with the server. */
	if (strcmp(name, "hush") == 0)
		attack_server->silent = ATTACK_ALL;
}

/* Whether nobody hears of this request again. */
static bool attack_swallow(int fd, const struct fuse_in_header *head)
{
	if (head->opcode >= 64 || !(attack_server->silent & ATTACK_BIT(head->opcode)))
		return false;
	if (head->opcode == FUSE_READ && attack_server->failures_of_read > 0) {
		attack_server->failures_of_read--;
		attack_answer(fd, head->unique, -EIO, NULL, 0);
		return true;
	}
	attack_server->asked++;
	return true;
}

static void attack_serve(int fd, const struct fuse_in_header *head)
{
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 4096, .max_write = 4096
	};
	struct fuse_attr_out attr = { .attr = attack_attributes(head->nodeid) };
	struct fuse_statfs_out statfs = { .st = { .bsize = 4096, .namelen = 255, .frsize = 4096 } };
	struct fuse_open_out opened = { .open_flags = FOPEN_KEEP_CACHE };

	if (attack_swallow(fd, head))
		return;
	if (head->opcode == FUSE_INIT)
		attack_answer(fd, head->unique, 0, &init, sizeof(init));
	else if (head->opcode == FUSE_READ)
		attack_serve_read(fd, head);
	else if (head->opcode == FUSE_LOOKUP)
		attack_serve_lookup(fd, head);
	else if (head->opcode == FUSE_GETATTR)
		attack_answer(fd, head->unique, 0, &attr, sizeof(attr));
	else if (head->opcode == FUSE_READLINK)
		attack_answer(fd, head->unique, 0, "file", 4);
	else if (head->opcode == FUSE_OPEN || head->opcode == FUSE_OPENDIR)
		attack_answer(fd, head->unique, 0, &opened, sizeof(opened));
	else if (head->opcode == FUSE_STATFS)
		attack_answer(fd, head->unique, 0, &statfs, sizeof(statfs));
	else if (head->opcode == FUSE_FLUSH || head->opcode == FUSE_RELEASE ||
		 head->opcode == FUSE_RELEASEDIR)
		attack_answer(fd, head->unique, 0, NULL, 0);
	else if (head->opcode != FUSE_FORGET && head->opcode != FUSE_BATCH_FORGET &&
		 head->opcode != FUSE_INTERRUPT)
		attack_answer(fd, head->unique, -ENOSYS, NULL, 0);
}

static void attack_run_server(int fd, pid_t parent)
{
	static uint8_t buffer[ATTACK_MOST];
	struct pollfd asked = { .fd = fd, .events = POLLIN };

	prctl(PR_SET_NAME, "fuse-server", 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	/* A parent that has dropped its rights sends no signal at its end to one who has not. */
	while (getppid() == parent) {
		ssize_t got = 0;

		if (poll(&asked, 1, 500) > 0)
			got = read(fd, buffer, sizeof(buffer));
		if (got < 0 && errno == ENODEV)
			break;
		if (got >= (ssize_t)sizeof(struct fuse_in_header))
			attack_serve(fd, (const void *)buffer);
	}
	_exit(0);
}

static void attack_read_image(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		victim_cannot("/proc/self/exe");
	attack_image_size = (size_t)status.st_size;
	attack_image = mmap(NULL, attack_image_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (attack_image == MAP_FAILED)
		victim_cannot("mmap");
}

/* Mounts it there: "file" in it is this program, "link" leads to it, "dir" is one of the same. */
__attribute__((unused)) static void attack_mount(const char *where)
{
	char data[128], device[64];
	pid_t self = getpid();
	int fd;

	attack_read_image();
	attack_server = mmap(NULL, sizeof(*attack_server), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(device, sizeof(device), "/proc/self/fd/%d", attack_device);
	fd = open(device, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		victim_cannot("/dev/fuse");
	mkdir(where, 0755);
	snprintf(data, sizeof(data), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
	if (mount("attack", where, "fuse", MS_NOSUID | MS_NODEV, data))
		victim_cannot("mount of FUSE");
	if (fork() == 0)
		attack_run_server(fd, self);
	close(fd);
}

/* So much of the file, wherever or there. Reads are answered until somebody falls silent. */
__attribute__((unused)) static uint8_t *attack_map(const char *path, void *where, size_t size,
						   int protection)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *at = mmap(where, size, protection, MAP_PRIVATE | (where ? MAP_FIXED : 0), fd, 0);

	if (fd < 0 || at == MAP_FAILED)
		victim_cannot(path);
	madvise(at, size, MADV_RANDOM);
	close(fd);
	return at;
}

/* A child that has done nothing to anybody; it ends with its parent. */
__attribute__((noinline, unused)) static void attack_innocent_wait(void)
{
	for (;;)
		pause();
}

__attribute__((unused)) static pid_t attack_bystander(void)
{
	pid_t parent = getpid(), child = fork();

	if (child != 0)
		return child;
	prctl(PR_SET_NAME, "bystander", 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	if (getppid() == parent)
		attack_innocent_wait();
	_exit(0);
}

__attribute__((unused)) static void attack_sleep_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* The state of a thread as stat says; '\0': it has gone. Allocates nothing. */
__attribute__((unused)) static char attack_state(pid_t pid, pid_t tid)
{
	char path[64], text[256], *end;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (got <= 0)
		return '\0';
	text[got] = '\0';
	end = strrchr(text, ')');
	return end && end[1] == ' ' ? end[2] : '\0';
}
