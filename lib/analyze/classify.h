/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Classify: the documented tables. They say which processes are system processes, which functions
 * are system functions, and which waits are waits for work.
 *
 * The tables are part of the interface: stacksnap-json(5) prints them, and both change together.
 * They use names alone, and do not check what a process did with its name. Each table is asked
 * about one thing: it knows no stacks, and nothing of the rest of the capture.
 */
#pragma once

#include "model/capture.h"
#include "model/snapshot.h"

/* A mapping's path is that of a C library. NULL is none. */
bool snap_classify_is_libc(const char *path);
/* All of a module's functions are system: C library, loader, vDSO. */
bool snap_classify_system_module(const char *path);
/*
 * A function is system by its name (linkage name, or displayed name): start-up code of a language
 * in any module; `static_program`: also the waits of the C library, which is then in the program.
 */
bool snap_classify_system_function(const char *symbol, const char *function, bool static_program);
/* A function of Rust's std, core or alloc, wherever the compiler has put it. */
bool snap_classify_rust_library(const char *symbol, const char *function);
/* A function of C++'s std that the compiler took from a header into the program. */
bool snap_classify_cxx_library(const char *symbol, const char *function, const char *file);
/*
 * A managed function that is the language's own: what Go's runtime does for a program, what Python
 * does to import a module.
 */
bool snap_classify_managed_system(const char *language, const char *function, const char *file);
/* The managed function that others of a program or thread are called by: "{main}", "<module>". */
bool snap_classify_managed_startup(const char *language, const char *function, const char *file);
/* Start-up code in the narrow sense: the outermost frames below which a program's own begin. */
bool snap_classify_startup_function(const char *symbol, const char *function);
/* The first function of a program or thread: it has no caller. */
bool snap_classify_outermost_function(const char *symbol);
/* A function that waits for work rather than for an answer: the idle rule. */
bool snap_classify_waits_for_work(const char *function);
/* A system call by its name, in which a thread does not wait for work, whatever calls it. */
bool snap_classify_hands_over(const char *syscall);
/* Whether a stack waits for a lock of a database's or of HotSpot's own, whose owner memory alone can tell. */
bool snap_classify_takes_own_lock(const struct snap_frame **frames, size_t count);
/* Whether a wait for a condition in this stack is one for the lock of a row, in a database. */
bool snap_classify_handles_row(const struct snap_frame **frames, size_t count);
/* A lock of its own, or it carries out a command: what it waits for is an answer, and never work. */
bool snap_classify_is_busy(const struct snap_frame **frames, size_t count);

enum snap_process_type snap_classify_process(const struct snap_process *process,
					     size_t shown_threads);
/* A thread made by the kernel: kthread, io_uring worker, vhost. */
bool snap_classify_kernel_thread(const struct snap_thread *thread);
