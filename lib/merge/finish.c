/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The contents of a merger as a value in its total order: see merger.h. */
#include "merge/state.h"

#include "base/bsearch.h"

#include <stdio.h>
#include <string.h>

void snap_merged_destroy(struct snap_merged *merged)
{
	if (!merged)
		return;
	snap_arena_deinit(&merged->arena);
	free(merged);
}

struct finish {
	const struct snap_merger *merger;
	struct snap_merged *merged;
	uint32_t *numbers; /* of the hosts, in order */
	uint32_t *scratch;
	bool failed; /* no memory */
};

/* ---- hosts ---- */

struct ranked {
	const struct snap_merge_known_host *host;
	uint32_t number;
};

SNAP_ORDER(compare_ranked, struct ranked, a, b, snap_merger_compare_hosts(a->host, b->host));

SNAP_ORDER(compare_times, int64_t, a, b, snap_compare(*a, *b));

/* Times of documents go to their hosts, which are sorted by now. */
static void add_merged_times(struct finish *finish)
{
	const struct snap_merger *merger = finish->merger;
	struct snap_merged *merged = finish->merged;

	for (size_t i = 0; i < merger->document_count; i++) {
		const struct snap_merge_known_document *document = &merger->documents[i];
		struct snap_merged_host *host = &merged->hosts[finish->numbers[document->host]];

		host->times[host->time_count++] = document->time_ns;
	}
	for (size_t i = 0; i < merged->host_count; i++)
		qsort(merged->hosts[i].times, merged->hosts[i].time_count, sizeof(int64_t),
		      compare_times);
	merged->document_count = merger->document_count;
}

static void rank_hosts(struct finish *finish)
{
	const struct snap_merger *merger = finish->merger;
	struct snap_merged *merged = finish->merged;
	_cleanup_free_ struct ranked *ranked = malloc((merger->host_count + 1) * sizeof(*ranked));
	size_t count = 0;

	merged->hosts = snap_arena_new_array(&merged->arena, merger->host_count + 1,
					     struct snap_merged_host);
	if (!ranked || !merged->hosts) {
		finish->failed = true;
		return;
	}
	for (size_t i = 0; i < merger->host_count; i++)
		if (merger->hosts[i].document_count)
			ranked[count++] = (struct ranked){ &merger->hosts[i], (uint32_t)i };
	if (count > 1)
		qsort(ranked, count, sizeof(*ranked), compare_ranked);
	for (size_t i = 0; i < count && !finish->failed; i++) {
		const struct snap_merge_known_host *host = ranked[i].host;

		finish->numbers[ranked[i].number] = (uint32_t)i;
		merged->hosts[i] = (struct snap_merged_host){
			.name = host->name,
			.boot_id = host->boot_id,
			.times =
				snap_arena_new_array(&merged->arena, host->document_count, int64_t),
		};
		finish->failed = !merged->hosts[i].times;
	}
	merged->host_count = count;
	if (!finish->failed)
		add_merged_times(finish);
}

static void renumber(struct finish *finish, const struct snap_host_set *set,
		     struct snap_host_set *ret, size_t *count_ret)
{
	if (!snap_host_set_renumber(set, finish->numbers, finish->scratch, &finish->merged->arena,
				    ret))
		finish->failed = true;
	*count_ret = snap_host_set_size(ret);
}

/* ---- modules ---- */

SNAP_ORDER(compare_modules, struct snap_merged_module, a, b, strcmp(a->path, b->path),
	   strcmp(a->build_id, b->build_id));

static void add_merged_modules(struct finish *finish)
{
	const struct snap_merger *merger = finish->merger;
	struct snap_merged *merged = finish->merged;

	merged->modules = snap_arena_new_array(&merged->arena, merger->module_count + 1,
					       struct snap_merged_module);
	if (!merged->modules)
		finish->failed = true;
	for (size_t i = 0; i < merger->module_count && !finish->failed; i++) {
		const struct snap_merge_known_module *from = &merger->modules[i];
		struct snap_merged_module *module = &merged->modules[merged->module_count++];

		module->path = from->path;
		module->build_id = from->build_id;
		renumber(finish, &from->hosts, &module->hosts, &module->host_count);
	}
	if (merged->module_count > 1)
		qsort(merged->modules, merged->module_count, sizeof(*merged->modules),
		      compare_modules);
}

/* ---- groups ---- */

static enum snap_oddity judge_share(size_t with, size_t all)
{
	if (100 * with <= SNAP_MERGED_ODD_PERCENT * all)
		return SNAP_ODD_RARE;
	if (with < all && 100 * (all - with) <= SNAP_MERGED_ODD_PERCENT * all)
		return SNAP_ODD_MISSING;
	return SNAP_ODD_NOT;
}

/* The odd ones come first: what few hosts lack, then what few have; then by how many have it. */
SNAP_ORDER(compare_groups, struct snap_merged_group, a, b,
	   snap_compare(a->odd == SNAP_ODD_NOT, b->odd == SNAP_ODD_NOT),
	   snap_compare(a->odd, b->odd),
	   a->odd == SNAP_ODD_NOT ? snap_compare(b->host_count, a->host_count) : 0,
	   snap_compare(b->thread_count + b->task_count, a->thread_count + a->task_count),
	   strcmp(a->id, b->id));

static void add_group(struct finish *finish, const struct snap_merge_group *from)
{
	struct snap_merged *merged = finish->merged;
	struct snap_merged_group *group = &merged->groups[merged->group_count++];

	*group = (struct snap_merged_group){
		.body = from->body,
		.entries_size = from->entries_size,
		.body_size = from->body_size,
		.labels = from->labels,
		.labels_size = from->labels_size,
		.process_count = from->process_count,
		.thread_count = from->thread_count,
		.task_count = from->task_count,
		.example_count = from->example_count,
	};
	snprintf(group->id, sizeof(group->id), "%016llx", (unsigned long long)from->id);
	memcpy(group->examples, from->examples, sizeof(group->examples));
	for (size_t i = 0; i < group->example_count; i++)
		group->examples[i].host = finish->numbers[group->examples[i].host];
	renumber(finish, &from->hosts, &group->hosts, &group->host_count);
	group->odd = judge_share(group->host_count, merged->host_count);
	merged->odd_count += group->odd != SNAP_ODD_NOT;
}

static void add_groups(struct finish *finish)
{
	const struct snap_merger *merger = finish->merger;
	struct snap_merged *merged = finish->merged;

	merged->groups = snap_arena_new_array(&merged->arena, merger->group_count + 1,
					      struct snap_merged_group);
	if (!merged->groups)
		finish->failed = true;
	for (size_t i = 0; i < merger->group_count && !finish->failed; i++)
		add_group(finish, &merger->groups[i]);
	if (merged->group_count > 1)
		qsort(merged->groups, merged->group_count, sizeof(*merged->groups), compare_groups);
}

struct stacksnap_error *snap_merger_finish(const struct snap_merger *merger,
					   struct snap_merged **ret)
{
	_cleanup_(snap_merged_destroyp) struct snap_merged *merged = calloc(1, sizeof(*merged));
	_cleanup_free_ uint32_t *numbers = calloc(merger->host_count + 1, sizeof(*numbers)),
				*scratch = calloc(merger->host_count + 1, sizeof(*scratch));
	struct finish finish = { merger, merged, numbers, scratch, false };

	SNAP_TRY(snap_no_memory_unless(merged && numbers && scratch));
	snap_arena_init(&merged->arena);
	rank_hosts(&finish);
	if (!finish.failed)
		renumber(&finish, &merger->deadlocks, &merged->deadlocks, &merged->deadlock_count);
	if (!finish.failed)
		add_merged_modules(&finish);
	if (!finish.failed)
		add_groups(&finish);
	SNAP_TRY(snap_no_memory_unless(!finish.failed));
	*ret = snap_take_ptr(merged);
	return NULL;
}
