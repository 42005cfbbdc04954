/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The runtime of Go: its goroutines with their stacks and labels, for Go 1.18 and later on x86-64,
 * whether or not the program has symbols. The parts are in internal.h.
 */
#include "analyze/runtime/go/internal.h"

#include "base/text.h"

#include <string.h>

enum {
	MOST_AT_ONCE = 4096,
	SAMPLE = 64,
	FORKED_NOT_EXECED = 0x40, /* PF_FORKNOEXEC of linux/sched.h */
};

void snap_go_deinit(struct snap_go *go)
{
	snap_hash_table_deinit(&go->site_table);
	snap_pointer_table_deinit(&go->label_table);
	snap_pointer_table_deinit(&go->threads);
	snap_pointer_table_deinit(&go->busy);
	free(go->sites);
	free(go->labels);
}

static struct stacksnap_error *why_not(const struct snap_go *go)
{
	SNAP_TRY(snap_no_memory_unless(!go->no_memory));
	return snap_options_cancelled(go->process->options) ? snap_error_cancelled() : NULL;
}

/*
 * The addresses of goroutines, at most `most`, as far as they can be read; malloc'ed. *torn_ret:
 * there are more.
 */
static uint64_t *read_goroutine_list(struct snap_go *go, size_t most, size_t *count_ret,
				     bool *torn_ret)
{
	uint64_t header[3], *list = NULL;
	size_t count = 0, capacity = 0;

	*count_ret = 0;
	*torn_ret = true;
	if (!snap_runtime_read(go->process, go->list_at, header, sizeof(header)))
		return NULL;
	if (header[1] < most)
		most = header[1];
	while (count < most) {
		size_t part = most - count < MOST_AT_ONCE ? most - count : MOST_AT_ONCE;
		uint64_t *larger;

		if (capacity < count + part) {
			capacity = 2 * (count + part);
			larger = realloc(list, capacity * sizeof(*list));
			if (!larger) {
				go->no_memory = true;
				break;
			}
			list = larger;
		}
		if (!snap_runtime_read(go->process, header[0] + 8 * count, list + count, 8 * part))
			break;
		count += part;
	}
	*torn_ret = count < most;
	*count_ret = count;
	return list;
}

/*
 * The layout that a plan is made for: the version's, unless its name says that it may have another
 * one. Then a few goroutines tell, if they hold still.
 */
static const struct snap_go_layout *likely_layout(struct snap_go *go)
{
	const struct snap_go_layout *found = NULL;
	_cleanup_free_ uint64_t *list = NULL;
	size_t count;
	bool torn;

	if (!go->version || go->version[strspn(go->version, "0123456789.")] != '\0' ||
	    go->minor > SNAP_GO_LAST) {
		list = read_goroutine_list(go, SAMPLE, &count, &torn);
		found = snap_go_find_layout(go, list, count);
	}
	return found ? found : snap_go_layout_of(go->minor ? go->minor : SNAP_GO_LAST);
}

static struct stacksnap_error *probe_go(const struct snap_runtime_process *process,
					struct snap_memory_plan *plan, bool *found_ret)
{
	_cleanup_(snap_go_deinit) struct snap_go go = { .process = process };

	if (process->process->arch != SNAP_ARCH_X86_64)
		return NULL;
	*found_ret = snap_go_find_texts(&go) || go.is_there;
	if (go.text_count > 0 && snap_go_find_runtime(&go)) {
		go.layout = likely_layout(&go);
		if (process->is_of_thread)
			snap_go_make_plan_of_thread(&go, plan);
		else
			snap_go_make_plan(&go, plan);
	}
	return why_not(&go);
}

/* Those that the threads run alone. */
static void read_current(struct snap_go *go, struct snap_runtime_result *result)
{
	size_t most = go->process->process->thread_count;
	_cleanup_free_ uint64_t *list = calloc(most + 1, sizeof(*list));

	go->no_memory |= !list;
	if (list)
		snap_go_read_goroutines(go, list, snap_go_current(go, list, most), result);
}

/* Fills the result; what it returns is why there are no goroutines, NULL: there are. */
static const char *read_goroutines(struct snap_go *go, struct snap_runtime_result *result)
{
	const bool is_of_thread = go->process->is_of_thread;
	_cleanup_free_ uint64_t *list = NULL;
	size_t count;

	if (go->text_count == 0)
		return snap_runtime_why(go->process, "its table of functions is not understood");
	if (!snap_go_find_runtime(go))
		return snap_runtime_why(go->process, "its list of goroutines was not found");
	snap_go_list_threads(go);
	list = read_goroutine_list(go, is_of_thread ? SNAP_GO_FEW : SNAP_GO_MOST_GOROUTINES, &count,
				   &result->torn);
	if (count == 0)
		return snap_runtime_why(go->process, "its list of goroutines cannot be read");
	go->layout = snap_go_find_layout(go, list, count);
	if (!go->layout)
		return snap_runtime_why(go->process, "goroutines not understood");
	for (size_t i = 0; i < go->text_count; i++)
		go->texts[i].table.wrapper_kind = snap_go_wrapper_kind(&go->texts[i].table);
	if (is_of_thread)
		read_current(go, result);
	else
		snap_go_read_goroutines(go, list, count, result);
	snap_go_find_idle_threads(go, result);
	return NULL;
}

/*
 * Whether it was forked and has not begun a program yet, as each child that Go makes for a moment:
 * the goroutines in its memory are its parent's, and none of them runs here.
 */
static bool is_copy_of_parent(const struct snap_process *process)
{
	return process->thread_count == 1 && (process->flags & FORKED_NOT_EXECED);
}

/* What is to be said of goroutines that are not shown, all of them or some. */
static void explain_go_refusal(struct snap_go *go, const char *refused,
			       struct snap_runtime_result *result)
{
	const char *version = go->version ? go->version : "", *space = go->version ? " " : "";
	struct snap_arena *arena = go->process->arena;

	if (refused)
		result->refused = snap_arena_printf(arena, "Go%s%s: %s", space, version, refused);
	else if (go->other)
		result->refused = snap_arena_printf(
			arena, "Go%s%s: goroutines of another runtime, that of %s, are not shown",
			space, version, snap_base_name(go->other->module->path));
	go->no_memory |= (refused || go->other) && !result->refused;
}

static struct stacksnap_error *read_runtime(const struct snap_runtime_process *process,
					    struct snap_runtime_result **ret)
{
	_cleanup_(snap_go_deinit) struct snap_go go = { .process = process };
	struct snap_runtime_result *result;
	const char *refused;

	*ret = NULL;
	if (process->process->arch != SNAP_ARCH_X86_64)
		return NULL;
	if (!snap_go_find_texts(&go) && !go.is_there)
		return why_not(&go);
	result = snap_arena_new(process->arena, struct snap_runtime_result);
	SNAP_TRY(snap_no_memory_unless(result));
	result->name = "go";
	result->has_tasks = true;
	refused = read_goroutines(&go, result);
	if (refused && is_copy_of_parent(process->process))
		return why_not(&go);
	explain_go_refusal(&go, refused, result);
	result->version = go.version;
	*ret = result;
	return why_not(&go);
}

const struct snap_runtime snap_runtime_go = { .name = "go",
					      .kind = SNAP_RUNTIME_GO,
					      .lacks = SNAP_LACK_GO_LOCKS,
					      .probe = probe_go,
					      .read = read_runtime };
