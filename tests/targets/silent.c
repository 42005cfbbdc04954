/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process that does not respond to who looks at it: silent FOLDER lock | exe | root.
 *
 * lock: a thread sleeps in a page fault that keeps the lock of the address space, another one
 * queues for it; so whoever reads arguments or mappings waits. exe: its program has lost its name,
 * in a directory that lies under a file system whose server does not answer. root: its root lies in
 * that file system as well. FOLDER is a scratch directory; the mount is in a namespace of this process's
 * own, and the server ends with it.
 */
#include "victim.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { FILE_NODE = 2, MOST = 1 << 17, PAGES = 8 };

struct shared {
	atomic_bool silent; /* nothing is answered any more */
	atomic_int asked;   /* and got no answer */
};

static struct shared *shared;
static _Atomic pid_t writer;

static void answer(int fd, uint64_t unique, int error, const void *body, size_t size)
{
	static uint8_t buffer[MOST + sizeof(struct fuse_out_header)];
	struct fuse_out_header *head = (void *)buffer;

	*head = (struct fuse_out_header){ .len = (uint32_t)(sizeof(*head) + size),
					  .error = error,
					  .unique = unique };
	if (size)
		memcpy(head + 1, body, size);
	if (write(fd, buffer, head->len) < 0 && errno == ENODEV)
		_exit(0);
}

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){ .ino = node,
				   .size = node == FILE_NODE ? 1 << 16 : 0,
				   .mode = node == FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755,
				   .nlink = 1,
				   .blksize = 4096 };
}

/* The page with number n cannot be read n times, then there is no answer. */
static void serve_read(int fd, uint64_t unique, const struct fuse_read_in *in)
{
	static unsigned reads[PAGES];
	uint64_t page = in->offset / 4096;

	if (page >= PAGES || reads[page]++ < page)
		answer(fd, unique, -EIO, NULL, 0);
	else
		shared->asked++;
}

/* Names are those of the one file; nothing is remembered by the kernel. */
static void serve(int fd, const struct fuse_in_header *head, const void *body)
{
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 4096, .max_write = 4096
	};
	struct fuse_entry_out entry = { .nodeid = FILE_NODE, .attr = attributes(FILE_NODE) };
	struct fuse_attr_out attr = { .attr = attributes(head->nodeid) };
	struct fuse_open_out opened = { .open_flags = FOPEN_KEEP_CACHE };
	bool found = head->opcode == FUSE_LOOKUP && strcmp(body, "file") == 0;

	if (head->opcode == FUSE_FORGET || head->opcode == FUSE_BATCH_FORGET ||
	    head->opcode == FUSE_INTERRUPT)
		return;
	if (shared->silent)
		shared->asked++;
	else if (head->opcode == FUSE_INIT)
		answer(fd, head->unique, 0, &init, sizeof(init));
	else if (head->opcode == FUSE_READ)
		serve_read(fd, head->unique, body);
	else if (head->opcode == FUSE_LOOKUP)
		answer(fd, head->unique, found ? 0 : -ENOENT, &entry, found ? sizeof(entry) : 0);
	else if (head->opcode == FUSE_GETATTR)
		answer(fd, head->unique, 0, &attr, sizeof(attr));
	else if (head->opcode == FUSE_OPEN || head->opcode == FUSE_OPENDIR)
		answer(fd, head->unique, 0, &opened, sizeof(opened));
	else
		answer(fd, head->unique, -ENOSYS, NULL, 0);
}

static void run_server(int fd)
{
	static uint8_t buffer[MOST];
	pid_t parent = getppid();

	prctl(PR_SET_NAME, "fuse-server", 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	while (getppid() == parent) {
		ssize_t got = read(fd, buffer, sizeof(buffer));
		const struct fuse_in_header *head = (const void *)buffer;

		if (got < 0 && errno == ENODEV)
			break;
		if (got >= (ssize_t)sizeof(*head))
			serve(fd, head, head + 1);
	}
	_exit(0);
}

static void mount_it(const char *where)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char data[128];

	if (fd < 0)
		victim_cannot("/dev/fuse");
	snprintf(data, sizeof(data), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fd, getuid(),
		 getgid());
	if (mount("silent", where, "fuse", MS_NOSUID | MS_NODEV, data))
		victim_cannot("mount");
	if (fork() == 0)
		run_server(fd);
	close(fd);
}

/* ---- lock ---- */

static void *reader_main(void *page)
{
	prctl(PR_SET_NAME, "reader", 0, 0, 0);
	return (void *)(uintptr_t) * (volatile uint8_t *)page;
}

static void *writer_main(void *unused)
{
	prctl(PR_SET_NAME, "writer", 0, 0, 0);
	writer = (pid_t)syscall(SYS_gettid);
	for (;;)
		munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
	return unused;
}

static char state_of(pid_t tid)
{
	char path[64], text[512] = "", *end;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		victim_cannot(path);
	close(fd);
	end = strrchr(text, ')');
	return end && end[1] == ' ' ? end[2] : '?';
}

/* Whether the thread that wants the lock waits for it, whenever it is looked at. */
static bool is_held(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	int looks = 0;

	for (int i = 0; i < 100 && looks < 30; i++) {
		looks = state_of(writer) == 'D' ? looks + 1 : 0;
		nanosleep(&nap, NULL);
	}
	return looks == 30;
}

/*
 * A fault whose read has failed is tried again, and then the lock is kept meanwhile; after how many
 * failures is the kernel's matter. The page with number n has n of them.
 */
static void hold_lock(void)
{
	int fd = open("mount/file", O_RDONLY | O_CLOEXEC);
	uint8_t *pages = mmap(NULL, PAGES * 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	if (fd < 0 || pages == MAP_FAILED)
		victim_cannot("mount/file");
	madvise(pages, PAGES * 4096, MADV_RANDOM);
	/* Making a thread takes the lock, too. */
	victim_thread(writer_main, NULL, 1 << 16);
	while (!writer)
		sched_yield();
	for (int i = 0; i < PAGES; i++) {
		victim_thread(reader_main, pages + i * 4096, 1 << 16);
		while (shared->asked == i)
			sched_yield();
		if (is_held())
			return;
	}
	victim_cannot("lock of the address space");
}

/* ---- exe, root ---- */

static void copy_program(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open("mount/program", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	char block[4096];
	ssize_t got;

	while ((got = read(from, block, sizeof(block))) > 0)
		if (write(to, block, (size_t)got) != got)
			victim_cannot("mount/program");
	close(from);
	close(to);
}

/* The program that has a name no more; what had it lies under the mount. */
static void be_unlinked(bool enter)
{
	/* It has another name, so nobody can say without a look that there is no file of this one. */
	if (link("mount/program", "other") || unlink("mount/program"))
		victim_cannot("link");
	mount_it("mount");
	if (enter && (chroot("mount") || chdir("/")))
		victim_cannot("chroot");
	shared->silent = true;
}

int main(int argc, char **argv)
{
	char mode = argc > 2 ? argv[2][0] : 'l';
	/* Nothing may be allocated where the lock is held. */
	static char output[4096];

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	if (argc < 3 || chdir(argv[1]))
		victim_cannot("FOLDER");
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc == 3 &&
	    (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)))
		victim_cannot("unshare");
	mkdir("mount", 0755);
	if (mode != 'l' && argc == 3) {
		char *const again[] = { argv[0], argv[1], argv[2], (char[]){ "again" }, NULL };

		copy_program();
		execv("mount/program", again);
		victim_cannot("exec");
	}
	if (mode == 'l') {
		mount_it("mount");
		hold_lock();
	} else {
		be_unlinked(mode == 'r');
	}
	victim_ready("mode=%s", argv[2]);
	victim_hold();
}
