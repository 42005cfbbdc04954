/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Documents, hosts and modules of a merger: see merger.h. Groups are group.c. */
#include "merge/state.h"

#include "base/bsearch.h"
#include "model/snapshot.h"

#include <string.h>

struct snap_merger *snap_merger_create(void)
{
	struct snap_merger *merger = calloc(1, sizeof(*merger));

	if (!merger)
		return NULL;
	snap_arena_init(&merger->arena);
	snap_interner_init(&merger->strings, &merger->arena);
	return merger;
}

void snap_merger_destroy(struct snap_merger *merger)
{
	if (!merger)
		return;
	for (size_t i = 0; i < merger->group_count; i++) {
		free(merger->groups[i].body);
		free(merger->groups[i].labels);
		free(merger->groups[i].hosts.ranges);
		free(merger->groups[i].modules);
	}
	for (size_t i = 0; i < merger->module_count; i++)
		free(merger->modules[i].hosts.ranges);
	free(merger->deadlocks.ranges);
	free(merger->hosts);
	free(merger->documents);
	free(merger->modules);
	free(merger->groups);
	free(merger->numbers);
	free(merger->pairs);
	free(merger->stack_modules);
	free(merger->stack_groups);
	free(merger->set.ranges);
	snap_hash_table_deinit(&merger->host_table);
	snap_hash_table_deinit(&merger->document_table);
	snap_hash_table_deinit(&merger->module_table);
	snap_hash_table_deinit(&merger->group_table);
	snap_merge_canon_deinit(&merger->canon);
	snap_interner_deinit(&merger->strings);
	snap_arena_deinit(&merger->arena);
	free(merger);
}

bool snap_merger_intern(struct snap_merger *merger, const struct snap_json_span *span,
			const char **ret)
{
	const char *raw;
	size_t length = 0;

	*ret = NULL;
	merger->canon.wrong = NULL;
	if (!span->bytes || span->length == 0)
		return true;
	raw = snap_merge_canon_raw(&merger->canon, span, SNAP_MAX_NAME, &length);
	if (raw)
		*ret = snap_intern(&merger->strings, raw, length);
	return *ret != NULL;
}

/* ---- hosts and documents ---- */

int snap_merger_compare_hosts(const struct snap_merge_known_host *a,
			      const struct snap_merge_known_host *b)
{
	return strcmp(a->name ? a->name : "", b->name ? b->name : "")
		       ?: strcmp(a->boot_id ? a->boot_id : "", b->boot_id ? b->boot_id : "");
}

static bool find_host(struct snap_merger *merger, const struct snap_merge_host *from, uint32_t *ret)
{
	struct snap_merge_known_host host = { 0 };
	struct snap_probe probe;
	uint64_t hash;

	if (!snap_merger_intern(merger, &from->name, &host.name) ||
	    !snap_merger_intern(merger, &from->boot_id, &host.boot_id))
		return false;
	hash = snap_hash_add(snap_hash_pointer(host.name), (uintptr_t)host.boot_id);
	probe = snap_hash_table_probe(&merger->host_table, hash);
	while (snap_probe_next(&probe)) {
		const struct snap_merge_known_host *known = &merger->hosts[probe.number];

		/* Texts are interned: equal ones are the same. */
		if (known->name == host.name && known->boot_id == host.boot_id) {
			*ret = probe.number;
			return true;
		}
	}
	if (!snap_reserve_array(merger->hosts, merger->host_capacity, merger->host_count + 1) ||
	    !snap_hash_table_add(&merger->host_table, hash, merger->host_count))
		return false;
	merger->hosts[merger->host_count] = host;
	*ret = (uint32_t)merger->host_count++;
	return true;
}

static uint64_t document_hash(uint32_t host, int64_t time_ns)
{
	return snap_hash_add(host, (uint64_t)time_ns);
}

static bool is_document_known(const struct snap_merger *merger, uint32_t host, int64_t time_ns)
{
	return snap_hash_find(&merger->document_table, document_hash(host, time_ns), i,
			      merger->documents[i].host == host &&
				      merger->documents[i].time_ns == time_ns) != SIZE_MAX;
}

static bool add_document(struct snap_merger *merger, uint32_t host, int64_t time_ns)
{
	if (!snap_reserve_array(merger->documents, merger->document_capacity,
				merger->document_count + 1) ||
	    !snap_hash_table_add(&merger->document_table, document_hash(host, time_ns),
				 merger->document_count))
		return false;
	merger->documents[merger->document_count++] =
		(struct snap_merge_known_document){ host, time_ns };
	merger->hosts[host].document_count++;
	return true;
}

/* ---- modules ---- */

bool snap_merger_module(struct snap_merger *merger, const struct snap_merge_place *place,
			uint32_t *ret)
{
	struct snap_merge_known_module module = { 0 };
	uint64_t hash;

	if (!snap_merger_intern(merger, &place->module, &module.path) ||
	    !snap_merger_intern(merger, &place->build_id, &module.build_id))
		return false;
	hash = snap_hash_add(snap_hash_pointer(module.path), (uintptr_t)module.build_id);
	if (snap_hash_got(&merger->module_table, hash, i,
			  merger->modules[i].path == module.path &&
				  merger->modules[i].build_id == module.build_id,
			  ret))
		return true;
	if (!snap_reserve_array(merger->modules, merger->module_capacity,
				merger->module_count + 1) ||
	    !snap_hash_table_add(&merger->module_table, hash, merger->module_count))
		return false;
	merger->modules[merger->module_count] = module;
	*ret = (uint32_t)merger->module_count++;
	return true;
}

/* The modules of what was merged, which are complete there. */
static bool add_merger_modules(struct snap_merger *merger,
			       const struct snap_merge_document *document)
{
	for (size_t i = 0; document->merged && i < document->place_count; i++) {
		const struct snap_merge_place *place = &document->places[i];
		uint32_t number;

		if (!snap_merger_module(merger, place, &number) ||
		    !snap_merge_parse_set(&place->hosts, document->host_count, &merger->set))
			return false;
		for (size_t k = 0; k < merger->set.count; k++)
			for (uint32_t host = merger->set.ranges[k].first;
			     host <= merger->set.ranges[k].last; host++)
				if (!snap_host_set_add(&merger->modules[number].hosts,
						       merger->numbers[host]))
					return false;
	}
	return true;
}

static bool add_merger_deadlocks(struct snap_merger *merger,
				 const struct snap_merge_document *document)
{
	struct snap_host_set *set = &merger->set;

	if (!document->merged)
		return !document->has_deadlock ||
		       snap_host_set_add(&merger->deadlocks, merger->numbers[0]);
	if (!document->deadlock_hosts.bytes)
		return true;
	if (!snap_merge_parse_set(&document->deadlock_hosts, document->host_count, set))
		return false;
	for (size_t i = 0; i < set->count; i++)
		for (uint32_t k = set->ranges[i].first; k <= set->ranges[i].last; k++)
			if (!snap_host_set_add(&merger->deadlocks, merger->numbers[k]))
				return false;
	return true;
}

/* ---- processes ---- */

static bool add_merger_pair(struct snap_merger *merger, uint32_t group, pid_t pid)
{
	return snap_append(merger->pairs, merger->pair_count, merger->pair_capacity,
			   (struct snap_merge_pair){ group, pid });
}

SNAP_ORDER(compare_pairs, struct snap_merge_pair, a, b, snap_compare(a->group, b->group),
	   snap_compare(a->pid, b->pid));

/* A process counts once for a group, in however many stacks its threads stand there. */
static void count_processes(struct snap_merger *merger)
{
	struct snap_merge_pair *pairs = merger->pairs;

	if (merger->pair_count > 1)
		qsort(pairs, merger->pair_count, sizeof(*pairs), compare_pairs);
	for (size_t i = 0; i < merger->pair_count; i++)
		if (i == 0 || compare_pairs(&pairs[i - 1], &pairs[i]) != 0)
			merger->groups[pairs[i].group].process_count++;
}

static bool add_stacks(struct snap_merger *merger, const struct snap_merge_document *document)
{
	uint32_t *groups;

	merger->pair_count = 0;
	if (!snap_reserve_array(merger->stack_groups, merger->stack_group_capacity,
				document->stack_count + 1))
		return false;
	groups = merger->stack_groups;
	for (size_t i = 0; i < document->stack_count; i++) {
		const struct snap_merge_stack *stack = &document->stacks[i];

		if (!snap_merger_add_stack(merger, document, stack, &groups[i]))
			return false;
		if (!document->merged && stack->process != UINT32_MAX &&
		    !add_merger_pair(merger, groups[i], document->processes[stack->process].pid))
			return false;
	}
	for (size_t i = 0; i < document->owner_count; i++)
		if (!add_merger_pair(merger, groups[document->owners[i].stack],
				     document->owners[i].pid))
			return false;
	count_processes(merger);
	return true;
}

/* ---- documents ---- */

/* What went wrong: a text that no document of ours has, or memory. */
static struct stacksnap_error *failure(const struct snap_merger *merger)
{
	if (merger->canon.wrong)
		return snap_error_format(SNAP_ERROR_FORMAT, "invalid name: expected %s",
					 merger->canon.wrong);
	return snap_error_no_memory();
}

/* Numbers for the hosts; a host that comes twice is none of ours. */
static struct stacksnap_error *number_hosts(struct snap_merger *merger,
					    const struct snap_merge_document *document)
{
	merger->serial++;
	if (!snap_reserve_array(merger->numbers, merger->number_capacity, document->host_count))
		return snap_error_no_memory();
	for (size_t i = 0; i < document->host_count; i++) {
		uint32_t number;

		if (!find_host(merger, &document->hosts[i], &number))
			return failure(merger);
		if (merger->hosts[number].serial == merger->serial)
			return snap_error_format(SNAP_ERROR_FORMAT,
						 "a host stands twice in its list");
		merger->hosts[number].serial = merger->serial;
		merger->numbers[i] = number;
	}
	return NULL;
}

static bool shares_document(const struct snap_merger *merger,
			    const struct snap_merge_document *document)
{
	for (size_t i = 0; i < document->host_count; i++) {
		const struct snap_merge_host *host = &document->hosts[i];

		for (size_t k = 0; k < host->time_count; k++)
			if (is_document_known(merger, merger->numbers[i],
					      document->times[host->time_at + k]))
				return true;
	}
	return false;
}

static bool add_documents(struct snap_merger *merger, const struct snap_merge_document *document)
{
	for (size_t i = 0; i < document->host_count; i++) {
		const struct snap_merge_host *host = &document->hosts[i];

		for (size_t k = 0; k < host->time_count; k++)
			if (!add_document(merger, merger->numbers[i],
					  document->times[host->time_at + k]))
				return false;
	}
	return true;
}

struct stacksnap_error *snap_merger_take(struct snap_merger *merger,
					 const struct snap_merge_document *document,
					 enum snap_merge_verdict *ret)
{
	SNAP_TRY(number_hosts(merger, document));
	if (shares_document(merger, document)) {
		*ret = document->merged ? SNAP_MERGE_SHARED : SNAP_MERGE_TWICE;
		return NULL;
	}
	/* Texts were looked at when it was read: what fails from here on is memory. */
	if (!add_documents(merger, document) || !add_merger_modules(merger, document) ||
	    !add_merger_deadlocks(merger, document) || !add_stacks(merger, document))
		return snap_error_no_memory();
	*ret = SNAP_MERGE_TAKEN;
	return NULL;
}
