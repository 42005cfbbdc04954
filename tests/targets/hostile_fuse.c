/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file whose server stops to answer: hostile_fuse FOLDER stack | args | code | open | flush |
 * getattr | root | detached | chroot | overlay | swapped | asleep |
 * words | exec | inside.
 *
 * stack: a thread stands on a page of it. args: the page of the arguments is one of it. code: a
 * thread runs in it, and reads of its other pages are not answered any more. open: not even its
 * opening is. flush, getattr: reading is answered, but nobody who closes it, or asks for its size.
 * root: as open, and the mount is the process's root directory. The next four: as stack, with an
 * innocent child, and the mounts do not tell: the mount is detached; out of sight; below another
 * file system; and the page is only put there, by a process outside of the tree, when the process
 * stands still. asleep: as detached, and the thread sleeps there. words: as detached, and
 * threads wait at a futex in front of which such a page lies, with stacks of their own. exec: a thread is about to run it; with an innocent child. inside: threads open it and ask for its size,
 * and have stacks of their own. Whoever waits for such an
 * answer sits in state D and cannot be killed; all are freed when the server ends, as it does with
 * this process. FOLDER holds "image", what is served; the mount is in a namespace of this process's
 * own.
 */
#include "instructions.h"
#include "victim.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

enum { CODE = 0x1000, WORD = 0x3000, FILE_NODE = 2, MOST = 1 << 17 };

struct shared {
	atomic_bool silent_reads, silent_opens;
	atomic_uint silent_call; /* an opcode */
	atomic_int asked;
};

static struct shared *shared;
static uint8_t *image;
static size_t image_size;
static atomic_int in_position;
static int kept_open; /* as long as we live */

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
				   .size = node == FILE_NODE ? image_size : 0,
				   .mode = node == FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755,
				   .nlink = 1,
				   .blksize = 4096 };
}

static void serve_read(int fd, const struct fuse_in_header *head, const struct fuse_read_in *in)
{
	size_t size = in->size < MOST ? in->size : MOST;

	if (shared->silent_reads) {
		shared->asked++;
		return;
	}
	if (in->offset >= image_size)
		size = 0;
	else if (size > image_size - in->offset)
		size = image_size - in->offset;
	answer(fd, head->unique, 0, image + in->offset, size);
}

static void serve(int fd, const struct fuse_in_header *head)
{
	const void *body = head + 1;
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 4096, .max_write = 4096
	};
	struct fuse_entry_out entry = { .nodeid = FILE_NODE, .attr = attributes(FILE_NODE) };
	struct fuse_attr_out attr = { .attr = attributes(head->nodeid) };
	struct fuse_statfs_out space = { .st = { .bsize = 4096, .namelen = 255 } };
	struct fuse_open_out opened = { .open_flags = FOPEN_KEEP_CACHE };

	if (head->opcode == FUSE_INIT)
		answer(fd, head->unique, 0, &init, sizeof(init));
	else if (head->opcode == FUSE_READ)
		serve_read(fd, head, body);
	else if (shared->silent_opens || shared->silent_call == head->opcode)
		shared->asked++;
	else if (head->opcode == FUSE_LOOKUP)
		answer(fd, head->unique, strcmp(body, "file") == 0 ? 0 : -ENOENT, &entry,
		       strcmp(body, "file") == 0 ? sizeof(entry) : 0);
	else if (head->opcode == FUSE_GETATTR)
		answer(fd, head->unique, 0, &attr, sizeof(attr));
	else if (head->opcode == FUSE_STATFS)
		answer(fd, head->unique, 0, &space, sizeof(space));
	else if (head->opcode == FUSE_OPEN || head->opcode == FUSE_OPENDIR)
		answer(fd, head->unique, 0, &opened, sizeof(opened));
	else if (head->opcode == FUSE_FLUSH || head->opcode == FUSE_RELEASE)
		answer(fd, head->unique, 0, NULL, 0);
	else if (head->opcode != FUSE_FORGET && head->opcode != FUSE_BATCH_FORGET &&
		 head->opcode != FUSE_INTERRUPT)
		answer(fd, head->unique, -ENOSYS, NULL, 0);
}

/* Until the victim has gone, who holds the other end of the pipe. */
static _Noreturn void run_server(int fd, int victim)
{
	static uint8_t buffer[MOST];
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = victim } };

	prctl(PR_SET_NAME, "fuse-server", 0, 0, 0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	while (poll(fds, 2, -1) > 0 && !fds[1].revents) {
		ssize_t got = read(fd, buffer, sizeof(buffer));

		if (got < 0 && errno == ENODEV)
			break;
		if (got >= (ssize_t)sizeof(struct fuse_in_header))
			serve(fd, (const void *)buffer);
	}
	_exit(0);
}

/* Nobody's descendant: who stops the victim and all that it has made does not stop the server. */
static void make_server(int fd)
{
	int victim[2];
	pid_t between;

	if (pipe2(victim, O_CLOEXEC))
		victim_cannot("pipe");
	between = fork();
	if (between == 0) {
		close(victim[1]);
		if (fork() == 0)
			run_server(fd, victim[0]);
		_exit(0);
	}
	close(victim[0]);
	kept_open = victim[1];
	waitpid(between, NULL, 0);
}

static void read_image(void)
{
	int fd = open("image", O_RDONLY | O_CLOEXEC);
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		victim_cannot("image");
	image_size = (size_t)status.st_size;
	image = mmap(NULL, image_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
}

static void mount_it(void)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char data[128];

	if (fd < 0)
		victim_cannot("/dev/fuse");
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		victim_cannot("unshare");
	mkdir("mount", 0755);
	snprintf(data, sizeof(data), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fd, getuid(),
		 getgid());
	if (mount("hostile", "mount", "fuse", MS_NOSUID | MS_NODEV, data))
		victim_cannot("mount");
	make_server(fd);
	close(fd);
}

static uint8_t *map_file(void *where, int protection)
{
	int fd = open("mount/file", O_RDONLY | O_CLOEXEC);
	uint8_t *at = mmap(where, 0x4000, protection, MAP_PRIVATE | (where ? MAP_FIXED : 0), fd, 0);

	if (fd < 0 || at == MAP_FAILED)
		victim_cannot("mount/file");
	madvise(at, 0x4000, MADV_RANDOM);
	/* The page of the code is there before the server falls silent. */
	if (protection & PROT_EXEC)
		in_position = ((volatile uint8_t *)at)[CODE] * 0;
	close(fd);
	return at;
}

static void *stack_main(void *stack)
{
	prctl(PR_SET_NAME, "on-stack", 0, 0, 0);
	in_position++;
	stand_spinning(stack);
}

static void *sleeping_stack_main(void *stack)
{
	prctl(PR_SET_NAME, "on-stack", 0, 0, 0);
	in_position++;
	stand_waiting(stack);
}

static void *futex_main(void *word)
{
	in_position++;
	for (;;)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	return NULL;
}

static void *code_main(void *code)
{
	prctl(PR_SET_NAME, "in-code", 0, 0, 0);
	in_position++;
	((void (*)(void))code)();
	return NULL;
}

/* Nothing on the main thread's stack above this frame is needed any more. */
static void replace_arguments(char *arguments)
{
	uintptr_t page = (uintptr_t)arguments & ~(uintptr_t)4095;
	int fd = open("mount/file", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || mmap((void *)page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
			   0) == MAP_FAILED)
		victim_cannot("arguments");
	close(fd);
}

/* Nobody can be seized beside a thread whose exec waits for its program. */
static void *exec_main(void *unused)
{
	char *const arguments[] = { (char *)"silent", NULL };

	in_position++;
	execv("mount/file", arguments);
	return unused;
}

/* ---- where the mounts do not tell ---- */

enum { INNOCENTS = 3, CROWD = 100 };

static NOINLINE void *innocent_wait(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* A child that does no harm; its pid. */
static pid_t make_innocent(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	close(STDOUT_FILENO);
	close(kept_open);
	if (getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, "innocent", 0, 0, 0);
	for (int i = 1; i < INNOCENTS; i++)
		victim_thread(innocent_wait, NULL, 0);
	innocent_wait(NULL);
	_exit(0);
}

/* The file again, through a file system of the kernel above its own. */
static void cover_mount(void)
{
	mkdir("empty", 0755);
	mkdir("cover", 0755);
	if (mount("overlay", "cover", "overlay", 0, "lowerdir=mount:empty"))
		victim_cannot("overlay");
	umount2("mount", MNT_DETACH);
}

static uint8_t *map_as(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *at = mmap(NULL, 0x4000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	if (fd < 0 || at == MAP_FAILED)
		victim_cannot(path);
	madvise(at, 0x4000, MADV_RANDOM);
	close(fd);
	return at;
}

static struct {
	pid_t victim;
	int file;
	uint8_t *page;
} swapper;

static bool stands_still(pid_t pid)
{
	char path[32], text[512];
	const char *end;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY);
	got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	end = strrchr(text, ')');
	return end && end[1] && end[2] == 't';
}

/* Shares the memory, and is nobody's descendant. */
static int run_swapper(void *unused)
{
	(void)unused;
	while (kill(swapper.victim, 0) == 0 && !stands_still(swapper.victim))
		;
	mmap(swapper.page, 0x4000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, swapper.file,
	     0);
	syscall(SYS_exit_group, 0);
	return 0;
}

static int run_between(void *unused)
{
	static _Alignas(16) char stack[1 << 16];

	(void)unused;
	clone(run_swapper, stack + sizeof(stack), CLONE_VM | CLONE_FILES, NULL);
	syscall(SYS_exit_group, 0);
	return 0;
}

static void swap_when_stopped(void)
{
	static _Alignas(16) char stack[1 << 16];
	pid_t between;

	swapper.victim = getpid();
	swapper.file = open("mount/file", O_RDONLY);
	swapper.page =
		mmap(NULL, 0x4000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	victim_thread(stack_main, swapper.page + 0x800, 0);
	/* A stop of many threads takes long enough for the swapper to see it. */
	for (int i = 0; i < CROWD; i++)
		victim_thread(innocent_wait, NULL, 1 << 16);
	between = clone(run_between, stack + sizeof(stack), CLONE_VM | CLONE_FILES, NULL);
	if (swapper.file < 0 || between < 0)
		victim_cannot("swapper");
	waitpid(between, NULL, __WALL);
}

static _Noreturn void hide_the_mount(const char *how)
{
	pid_t innocent = make_innocent();
	uint8_t *at = NULL;

	if (strcmp(how, "overlay") == 0) {
		cover_mount();
		at = map_as("cover/file");
	} else if (strcmp(how, "swapped") != 0 && strcmp(how, "exec") != 0) {
		at = map_as("mount/file");
	}
	/* That page, and those that tell which file it is, are there before. */
	if (strcmp(how, "words") == 0) {
		memset(at + WORD, 0, sizeof(uint32_t));
		in_position = (((volatile uint8_t *)at)[0] + ((volatile uint8_t *)at)[CODE]) * 0;
	}
	if ((strcmp(how, "detached") == 0 || strcmp(how, "asleep") == 0 ||
	     strcmp(how, "words") == 0) &&
	    umount2("mount", MNT_DETACH))
		victim_cannot("umount");
	mkdir("jail", 0755);
	if (strcmp(how, "chroot") == 0 && (chroot("jail") || chdir("/")))
		victim_cannot("chroot");
	shared->silent_reads = true;
	if (strcmp(how, "exec") == 0)
		victim_thread(exec_main, NULL, 0);
	else if (strcmp(how, "words") == 0)
		for (int i = 0; i < INNOCENTS; i++)
			victim_thread(futex_main, at + WORD, 0);
	else if (at)
		victim_thread(strcmp(how, "asleep") ? stack_main : sleeping_stack_main, at + 0x800,
			      0);
	else
		swap_when_stopped();
	while (!in_position || (strcmp(how, "words") == 0 && in_position < INNOCENTS) ||
	       (strcmp(how, "exec") == 0 && !shared->asked))
		sched_yield();
	victim_ready("innocent=%d", innocent);
	victim_hold();
	_exit(0);
}

static void *open_main(void *unused)
{
	(void)unused;
	for (;;)
		(void)!open("mount/file", O_RDONLY | O_CLOEXEC);
	return NULL;
}

static void *size_main(void *descriptor)
{
	struct stat status;

	for (;;)
		(void)!fstat((int)(intptr_t)descriptor, &status);
	return NULL;
}

/* Both ask the server for something that it does not tell. */
static void wait_inside(void)
{
	int fd = open("mount/file", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		victim_cannot("open");
	shared->silent_opens = true;
	shared->silent_call = FUSE_GETATTR;
	victim_thread(open_main, NULL, 0);
	victim_thread(size_main, (void *)(intptr_t)fd, 0);
	victim_ready("fuse");
	victim_hold();
}

int main(int argc, char **argv)
{
	char mode = argc > 2 ? argv[2][0] : 's';
	/* The page of the arguments must hold nothing else: the frames of main lie far below. */
	char *far = __builtin_alloca(1 << 16);

	far[0] = mode;
	if (argc < 3 || chdir(argv[1]))
		victim_cannot("FOLDER");
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	read_image();
	mount_it();
	if (strcmp(argv[2], "detached") == 0 || strcmp(argv[2], "chroot") == 0 ||
	    strcmp(argv[2], "overlay") == 0 || strcmp(argv[2], "swapped") == 0 ||
	    strcmp(argv[2], "asleep") == 0 || strcmp(argv[2], "words") == 0 ||
	    strcmp(argv[2], "exec") == 0)
		hide_the_mount(argv[2]);
	if (strcmp(argv[2], "inside") == 0)
		wait_inside();
	shared->silent_reads = far[0] == 's' || far[0] == 'a';
	if (mode == 's')
		victim_thread(stack_main, map_file(NULL, PROT_READ | PROT_WRITE) + 0x800, 0);
	else if (mode != 'a')
		victim_thread(code_main, map_file(NULL, PROT_READ | PROT_EXEC) + CODE, 0);
	while (mode != 'a' && !in_position)
		sched_yield();
	if (mode == 'r' && (chroot("mount") || chdir("/")))
		victim_cannot("chroot");
	victim_ready("fuse");
	if (mode == 'a')
		replace_arguments(argv[0]);
	/* One page was read: that the thread stands in. */
	if (mode == 'c' || mode == 'o' || mode == 'r')
		shared->silent_reads = true;
	shared->silent_opens = mode == 'o' || mode == 'r';
	shared->silent_call = mode == 'f' ? FUSE_FLUSH : mode == 'g' ? FUSE_GETATTR : 0;
	victim_hold();
}
