# SPDX-License-Identifier: LGPL-2.1-or-later
"""The file that the tool of tests/faults shares with its tests (see injector.c), the list of
the sites it calls, and which errors each function can really give. Knows nothing of what a run
must show."""
import collections
import errno
import os
import struct
import subprocess

HEAD = struct.Struct("<QIIiIIIQQQ")
SLOT = struct.Struct("<QIIq24s20Q")
SLOTS = 1 << 14
SIZE = HEAD.size + SLOTS * SLOT.size

Site = collections.namedtuple("Site", "id name detail count frames")
Fault = collections.namedtuple("Fault", "site first times error")

# The first is what a short round injects. ESRCH and ENOENT are left out where they say "it has
# exited": the tool may believe that, and then its report is rightly another one. Where one thread
# or one peer is meant (GONE), a round knows what may be missing.
MEMORY = [errno.ENOMEM]
OPENING = [errno.EMFILE, errno.EACCES, errno.ENOMEM, errno.EIO, errno.EINTR]
LOOKING = [errno.EIO, errno.ENOMEM, errno.EACCES]
DENIED = [errno.EPERM]
ERRORS = {
    **dict.fromkeys(("malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "strdup",
                     "strndup", "vasprintf", "asprintf", "open_memstream", "fopencookie", "mmap64",
                     "mremap", "munmap", "madvise", "mprotect", "regcomp"), MEMORY),
    **dict.fromkeys(("open64", "openat64"), OPENING),
    **dict.fromkeys(("fstat64", "stat64", "fstatat64", "fstatfs64", "statx", "lseek64"), LOOKING),
    "realpath": [errno.EACCES, errno.ENOMEM],
    "getpwuid_r": [errno.EMFILE, errno.EIO],
    "read": [errno.EIO, errno.ENOMEM, errno.EINTR], "pread64": [errno.EIO, errno.ENOMEM],
    "write": [errno.ENOSPC, errno.EIO, errno.EINTR], "pwrite64": [errno.ENOSPC, errno.EIO],
    "ftruncate64": [errno.EIO], "getdents64": [errno.ENOMEM, errno.EIO],
    "readlink": [errno.ENOMEM, errno.EACCES], "readlinkat": [errno.ENOMEM, errno.EACCES],
    "dup": [errno.EMFILE], "mkostemp64": [errno.ENOSPC, errno.EMFILE],
    "fchmod": [errno.EIO], "fchown": [errno.EPERM], "rename": [errno.EIO, errno.ENOSPC],
    "unlink": [errno.EIO], "memfd_create": [errno.EMFILE, errno.ENOMEM],
    "eventfd": [errno.EMFILE, errno.ENOMEM], "close": [errno.EIO, errno.EINTR],
    "fcntl64": [errno.EMFILE],
    "fork": [errno.EAGAIN, errno.ENOMEM], "waitpid": [errno.EINTR, errno.ECHILD],
    "waitid": [errno.EINTR, errno.ECHILD], "kill": DENIED,
    "pidfd_open": [errno.EMFILE, errno.ENOMEM, errno.EPERM],
    "process_vm_readv": [errno.EFAULT, errno.EPERM, errno.ENOMEM],
    "poll": [errno.EINTR, errno.ENOMEM], "ppoll": [errno.EINTR, errno.ENOMEM],
    "nanosleep": [errno.EINTR], "clock_nanosleep": [errno.EINTR],
    "sched_setscheduler": DENIED, "sched_getscheduler": DENIED, "getrlimit64": DENIED,
    "setrlimit64": DENIED, "socketpair": [errno.EMFILE, errno.ENOMEM],
    "sendmsg": [errno.ENOMEM, errno.EINTR, errno.EPIPE],
    "recvmsg": [errno.ENOMEM, errno.EINTR, errno.EMFILE],
    "setgroups": DENIED, "setresuid": [errno.EAGAIN, errno.EPERM], "setresgid": DENIED,
    "ptrace": [errno.EPERM, errno.EIO, errno.ESRCH], "prctl": DENIED,
}
GONE = {("ptrace", errno.ESRCH), ("sendmsg", errno.EPIPE)}
# By their numbers on x86-64 and, where they differ, on aarch64.
SYSCALLS = {
    "wait4": ([61, 260], [errno.EINTR, errno.ECHILD]),
    "waitid": ([247, 95], [errno.EINTR, errno.ECHILD]),
    "clone3": ([435], [errno.EAGAIN, errno.ENOSYS, errno.ENOMEM, errno.EPERM]),
    "clone": ([56, 220], [errno.EAGAIN]),
    "futex": ([202, 98], [errno.EINTR]),
    "openat2": ([437], [errno.EMFILE, errno.ENOSYS, errno.EACCES, errno.EAGAIN]),
    "pidfd_open": ([434], [errno.EMFILE, errno.ENOMEM]),
    "pidfd_send_signal": ([424], DENIED),
    "close_range": ([436], [errno.ENOSYS]),
    "kcmp": ([312, 272], DENIED),
    "sched_setattr": ([314, 274], DENIED), "sched_getattr": ([315, 275], DENIED),
    "capset": ([126, 91], DENIED), "capget": ([125, 90], DENIED),
    "seccomp": ([317, 277], [errno.ENOMEM, errno.EINVAL]),
    "landlock_create_ruleset": ([444], [errno.ENOSYS, errno.ENOMEM]),
    "landlock_restrict_self": ([446], [errno.EPERM]),
}


def syscall_of(number):
    for name, (numbers, _) in SYSCALLS.items():
        if number in numbers:
            return name
    return f"syscall {number}"


def errors_of(site):
    if site.name == "syscall":
        found = SYSCALLS.get(syscall_of(site.detail))
        return found[1] if found else DENIED
    return ERRORS[site.name]


class Page:
    """The file; `environment` is what makes a tool use it."""

    def __init__(self, path):
        self.path = path
        self.environment = {"STACKSNAP_FAULT": path}

    def ask_for_list(self):
        self._write(HEAD.pack(*[0] * 10))

    def inject(self, fault):
        self._write(HEAD.pack(fault.site.id, fault.first, fault.times, fault.error, 0, 0, 0, 0, 0, 0))

    def _write(self, head):
        with open(self.path, "wb") as f:
            f.write(head)
            f.truncate(SIZE)

    def hits(self):
        with open(self.path, "rb") as f:
            return HEAD.unpack(f.read(HEAD.size))[5]

    def sites(self):
        with open(self.path, "rb") as f:
            data = f.read()
        if HEAD.unpack_from(data)[6]:
            raise AssertionError("more sites than the list has room for")
        found = []
        for i in range(SLOTS):
            slot = SLOT.unpack_from(data, HEAD.size + i * SLOT.size)
            if slot[0]:
                name = slot[4].rstrip(b"\0").decode()
                found.append(Site(slot[0], name, slot[3], slot[1], slot[5:5 + slot[2]]))
        return sorted(found, key=lambda site: (site.frames[::-1], site.name, site.detail))


class Names:
    """Where sites are, by addr2line."""

    def __init__(self, tool):
        self.tool = tool
        self.known = {}

    def learn(self, sites):
        wanted = sorted({a for site in sites for a in site.frames} - set(self.known))
        if not wanted:
            return
        # A return address stands behind its call.
        lines = subprocess.run(["addr2line", "-f", "-e", self.tool, *(hex(a - 1) for a in wanted)],
                               stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        for i, address in enumerate(wanted):
            place = lines[2 * i + 1].split(" ")[0]
            self.known[address] = (lines[2 * i], os.path.normpath(place))

    def chain(self, site, most=6):
        self.learn([site])
        named = [self.known[a] for a in site.frames]
        words = [f"{function} ({os.path.basename(place)})" for function, place in named]
        return " < ".join(words[:most])

    def place(self, site, most=2):
        """What is called, and the innermost callers that are no helpers of all: whoever else comes
        there has the same code before him."""
        self.learn([site])
        near = [self.known[a] for a in site.frames
                if "/procfs.c:" not in self.known[a][1] and
                "lib/base/" not in self.known[a][1]]
        return (site.name, site.detail, *near[:most])

    def role(self, site):
        """The functions that a process was made for, as far as the stack was followed."""
        self.learn([site])
        functions = [self.known[address][0] for address in site.frames]
        made = functions.index("snap_spawn_child") if "snap_spawn_child" in functions else len(functions)
        return tuple(functions[max(0, made - 2):made])

    def folder(self, site):
        """Of the innermost caller that is no helper of all."""
        self.learn([site])
        for address in site.frames:
            place = self.known[address][1]
            if "lib/base/" not in place:
                return "/".join(os.path.dirname(place).split("/")[-2:])
        return "?"


def describe(site, names):
    what = syscall_of(site.detail) if site.name == "syscall" else site.name
    if site.name in ("ptrace", "prctl", "fcntl64"):
        what += f" {site.detail:#x}"
    return f"{what} in {names.chain(site)}"
