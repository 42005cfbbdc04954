/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the function of the C library that waits, by the frames inside of it, from the innermost
 * outwards. If one of them has no name, it also uses what the caller called. Frames of other
 * modules do not count: a program may choose the names of its functions. Knows no memory.
 */
#include "analyze/wait/futex.h"
#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

enum {
	MOST_FRAMES = 16, /* of the C library above a wait; printf has about ten */
	FEW_FRAMES = 3,   /* in which a library is recognised: what is behind may be an old one */
};

/* Functions of each, without leading underscores, each with a space behind; see is_function_called(). */
static const char *const names[] = {
	[SNAP_NAME_MALLOC] =
		"aligned_alloc arena_get2 arena_get_retry calloc free int_free "
		"int_free_chunk int_malloc libc_calloc libc_calloc2 libc_free "
		"libc_malloc libc_malloc2 libc_memalign libc_realloc mallinfo mallinfo2 "
		"malloc malloc_info malloc_stats malloc_trim memalign mid_memalign "
		"posix_memalign pvalloc realloc valloc ",
	[SNAP_NAME_STDIO] =
		"fclose fflush fgetc fgets fgetwc flockfile fprintf fputc fputs fputwc "
		"fputws fread fscanf fseek fseeko ftell ftello ftrylockfile fwrite getc "
		"getchar getdelim getline IO lockfile perror printf putc putchar puts "
		"rewind scanf setvbuf ungetc vfprintf vfscanf vprintf ",
	[SNAP_NAME_ONCE] = "call_once pthread_once ",
	[SNAP_NAME_CONDITION] =
		"cnd_timedwait cnd_wait pthread_cond_clockwait pthread_cond_timedwait "
		"pthread_cond_wait ",
	[SNAP_NAME_SEMAPHORE] = "do_futex_wait new_sem_wait sem_clockwait sem_timedwait sem_wait ",
	[SNAP_NAME_MUTEX] = "mtx_lock mtx_timedlock pthread_mutex_clocklock pthread_mutex_lock "
			    "pthread_mutex_timedlock ",
	[SNAP_NAME_BARRIER] = "pthread_barrier_wait ",
	[SNAP_NAME_JOIN] = "pthread_clockjoin pthread_join pthread_timedjoin thrd_join ",
	[SNAP_NAME_COND_LOCK] = "pthread_mutex_cond_lock ",
	[SNAP_NAME_RWLOCK_READ] = "pthread_rwlock_clockrdlock pthread_rwlock_rdlock "
				  "pthread_rwlock_timedrdlock ",
	[SNAP_NAME_RWLOCK_WRITE] = "pthread_rwlock_clockwrlock pthread_rwlock_timedwrlock "
				   "pthread_rwlock_wrlock ",
	[SNAP_NAME_SYSCALL] = "syscall ",
};

static const char private_lock[] = "lll_lock_wait_private";

/* "__GI___pthread_mutex_lock" -> "pthread_mutex_lock" */
static void strip(const char **name, size_t *length)
{
	if (*length > 5 && memcmp(*name, "__GI_", 5) == 0) {
		*name += 5;
		*length -= 5;
	}
	while (*length && (*name)[0] == '_') {
		(*name)++;
		(*length)--;
	}
}

/* Of what the C library calls its inner functions; those of others may have any. */
static bool is_suffix(const char *text, size_t length)
{
	static const char *const suffixes[] = { "64", "_chk", ".", "@", NULL };

	for (const char *const *suffix = suffixes; *suffix; suffix++)
		if (length >= strlen(*suffix) && memcmp(text, *suffix, strlen(*suffix)) == 0)
			return true;
	return length == 0;
}

/* "pthread_mutex_lock", "pthread_mutex_lock_full", "sem_wait64.constprop.0", "sem_wait@plt" */
static bool is_function_called(const char *name, size_t length, const char *text, size_t whole)
{
	static const char *const inner[] = { "pthread_", "new_sem", "IO", "arena_", NULL };

	if (length < whole || memcmp(name, text, whole) != 0)
		return false;
	if (is_suffix(name + whole, length - whole))
		return true;
	for (const char *const *prefix = inner; *prefix && name[whole] == '_'; prefix++)
		if (snap_begins_with(text, *prefix))
			return true;
	return false;
}

enum snap_lock_name snap_futex_name_of(const char *name, size_t length)
{
	enum snap_lock_name found = SNAP_NAME_NONE;
	size_t best = 0;

	strip(&name, &length);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++) {
		size_t whole;

		for (const char *text = names[i]; text && *text; text += whole + 1) {
			whole = strcspn(text, " ");
			if (whole > best && is_function_called(name, length, text, whole)) {
				best = whole;
				found = (enum snap_lock_name)i;
			}
		}
	}
	return found;
}

const struct snap_raw_stack *snap_waiter_stack(const struct snap_waiter *waiter)
{
	const struct snap_raw_process *raw = waiter->raw;

	return waiter->thread->stack < raw->stack_count ? &raw->stacks[waiter->thread->stack]
							: NULL;
}

struct snap_wait_stack_names *snap_waiter_stack_names(const struct snap_wait_analysis *waits,
						      const struct snap_waiter *waiter)
{
	return &waits->stack_names[waiter->process][waiter->thread->stack];
}

/* Until 2.33 glibc's locks lay in a library of their own. */
static enum snap_libc libc_of(const char *path)
{
	const char *base = path ? snap_base_name(path) : "";

	if (fnmatch("libc.so.*", base, 0) == 0 || fnmatch("libc-2.*.so", base, 0) == 0 ||
	    fnmatch("libpthread.so.*", base, 0) == 0 || fnmatch("libpthread-2.*.so", base, 0) == 0)
		return SNAP_LIBC_GNU;
	if (fnmatch("ld-musl-*", base, 0) == 0 || fnmatch("libc.musl-*", base, 0) == 0 ||
	    strcmp(base, "libc.so") == 0)
		return SNAP_LIBC_MUSL;
	return SNAP_LIBC_UNKNOWN;
}

static bool has_libc(const struct snap_waiter *waiter)
{
	return waiter->raw->has_libc;
}

/* Functions that musl alone has: by which it makes calls that wait, and starts a program. */
static bool is_musls(const struct snap_frame *frame)
{
	static const char *const inner[] = { "__syscall_cp_c", "__syscall_cp_asm",
					     "__timedwait_cp", "libc_start_main_stage2",
					     "__lockfile",     "__pthread_once_full" };

	return snap_any(SNAP_ARRAY_SIZE(inner), i,
			frame->entry_count && snap_same_text(frame->entries[0].symbol, inner[i]));
}

/* Which library a static program with names is made of: one of its threads stands in it. */
static enum snap_libc libc_of_static(const struct snap_wait_analysis *waits,
				     const struct snap_waiter *waiter)
{
	const struct snap_raw_process *raw = waiter->raw;
	enum snap_answer *is_musl = &waits->static_musl[waiter->process];

	if (*is_musl == SNAP_ANSWER_UNKNOWN) {
		*is_musl = SNAP_ANSWER_NO;
		for (size_t i = 0; i < raw->stack_count && *is_musl == SNAP_ANSWER_NO; i++)
			for (size_t k = raw->stacks[i].kernel_count;
			     k < raw->stacks[i].frame_count &&
			     k < raw->stacks[i].kernel_count + FEW_FRAMES;
			     k++)
				if (is_musls(raw->stacks[i].frames[k]))
					*is_musl = SNAP_ANSWER_YES;
	}
	return *is_musl == SNAP_ANSWER_YES ? SNAP_LIBC_MUSL : SNAP_LIBC_UNKNOWN;
}

bool snap_wait_frame_is_libc(const struct snap_waiter *waiter, const struct snap_frame *frame)
{
	const struct snap_process *process = snap_waiter_process(waiter);

	if (!frame->module)
		return false;
	if (libc_of(frame->module) != SNAP_LIBC_UNKNOWN)
		return true;
	return !has_libc(waiter) && process->exe && strcmp(frame->module, process->exe) == 0;
}

/* What a frame's names say; *named_ret: the frame has one. */
static enum snap_lock_name name_of_frame(const struct snap_frame *frame, bool *is_private_ret,
					 bool *named_ret)
{
	enum snap_lock_name found = SNAP_NAME_NONE;

	*named_ret = false;
	for (size_t i = 0; i < frame->entry_count && found == SNAP_NAME_NONE; i++) {
		const char *name = frame->entries[i].symbol;
		size_t length = name ? strlen(name) : 0;

		if (!name)
			continue;
		*named_ret = true;
		found = snap_futex_name_of(name, length);
		strip(&name, &length);
		*is_private_ret |=
			is_function_called(name, length, private_lock, sizeof(private_lock) - 1);
	}
	return found;
}

static struct stacksnap_error *ask_caller(struct snap_futex *futex,
					  const struct snap_raw_stack *stack)
{
	struct snap_futex_names *found = &futex->names;
	const struct snap_frame *frame;
	struct stacksnap_error *err;
	const char *name;

	if (found->outside >= stack->frame_count)
		return NULL;
	frame = stack->frames[found->outside];
	err = snap_wait_find_callee(futex->waits, futex->waiter, frame->address, &name);
	if (err || !name)
		return err;
	found->name = snap_futex_name_of(name, strlen(name));
	found->by_callee = found->name != SNAP_NAME_NONE;
	found->is_scanned |= found->by_callee && frame->trust >= SNAP_TRUST_SCAN;
	return NULL;
}

/*
 * In a static program what is run once is of the same module as its runner, and may wait itself.
 * glibc waits for a word with bit 0, musl for 3; locks with such a word have the highest bit, too.
 */
static bool is_once_value(uint32_t value)
{
	return (value & 0x80000001) == 1;
}

/* Of the frames of a stack alone, and whether the word is that of what is run once. */
static struct stacksnap_error *find_names(struct snap_futex *futex,
					  const struct snap_raw_stack *stack)
{
	struct snap_futex_names *found = &futex->names;
	bool has_blank = false;
	size_t i;

	found->first = stack->kernel_count;
	for (i = found->first; i < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];
		bool named;

		if (i - found->first == MOST_FRAMES ||
		    !snap_wait_frame_is_libc(futex->waiter, frame))
			break;
		if (found->libc == SNAP_LIBC_UNKNOWN)
			found->libc = libc_of(frame->module);
		if (found->name == SNAP_NAME_NONE) {
			found->is_scanned |= frame->trust >= SNAP_TRUST_SCAN;
			found->name = name_of_frame(frame, &found->is_private_lock, &named);
			has_blank |= !named;
		}
	}
	found->outside = i;
	found->is_foreign = has_libc(futex->waiter) && i == found->first && i < stack->frame_count;
	if (found->name == SNAP_NAME_ONCE && !is_once_value(futex->value))
		found->name = SNAP_NAME_NONE;
	if (found->libc == SNAP_LIBC_UNKNOWN) {
		if (!has_libc(futex->waiter))
			found->libc = libc_of_static(futex->waits, futex->waiter);
		return NULL;
	}
	return found->name == SNAP_NAME_NONE && has_blank ? ask_caller(futex, stack) : NULL;
}

struct stacksnap_error *snap_futex_find_names(struct snap_futex *futex)
{
	const struct snap_raw_stack *stack = snap_waiter_stack(futex->waiter);
	struct snap_wait_stack_names *seen;
	struct stacksnap_error *err;
	size_t i = is_once_value(futex->value);

	if (!stack)
		return NULL;
	seen = snap_waiter_stack_names(futex->waits, futex->waiter);
	if (seen->has_names[i]) {
		futex->names = seen->names[i];
		return NULL;
	}
	err = find_names(futex, stack);
	if (!err) {
		seen->names[i] = futex->names;
		seen->has_names[i] = true;
	}
	return err;
}
