/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Of the kernel's types what threads.bpf.c reads. Where a member lies is found when the program is
 * loaded, by name, in the types that the running kernel has of itself (BTF): so a build needs none.
 */
#pragma once

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32, __wsum;
typedef __u64 uint64_t;
enum bpf_map_type { BPF_MAP_TYPE_UNSPEC };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

#ifdef __TARGET_ARCH_arm64
struct task_uw {
	unsigned long tp_value;
};

struct thread_struct {
	struct task_uw uw;
};

struct pt_regs {
	__u64 orig_x0;
	__s32 syscallno;
};
#else
struct thread_struct {
	unsigned long fsbase;
};

struct pt_regs;
#endif

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct {
	int on_cpu, on_rq;
	unsigned int __state;
	unsigned long nvcsw, nivcsw;
	struct pid *thread_pid;
	struct thread_struct thread;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop
