/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tail calls between a call and the function that runs. DWARF says where functions end in a jump to
 * another one, and the code where these jumps lead: so a graph is made of the functions on the way, and
 * what all ways through it share is certain. As gdb does it, but by code in place of names. Only direct
 * jumps within a file are followed.
 */
#include "analyze/dwarf/dwarf.h"
#include "analyze/symbol/machine.h"

enum { MOST_FUNCTIONS = 64, MOST_SITES = 32, MOST_JUMPS = 256 };

/* A jump from one function of the graph to another, and the address behind it. */
struct jump {
	size_t from, to;
	uint64_t behind;
};

struct graph {
	struct snap_symbolizer *symbolizer;
	struct snap_dwarf *dwarf;
	const struct snap_image *image;
	const struct snap_machine *machine;
	uint64_t functions
		[MOST_FUNCTIONS];      /* first the one that runs, then the one that was called */
	bool leads[MOST_FUNCTIONS];    /* to the one that runs */
	bool leads_on[MOST_FUNCTIONS]; /* by a jump that may lead anywhere */
	size_t function_count;
	struct jump jumps[MOST_JUMPS];
	size_t jump_count;
	bool is_cut; /* there are more */
};

static uint64_t target_of_jump(const struct graph *graph, uint64_t address, size_t *size_ret)
{
	struct snap_bytes code = snap_image_at(graph->image, address);

	return code.size < SNAP_MACHINE_JUMP
		       ? 0
		       : graph->machine->read_jump(code.data, address, size_ret);
}

/* Where the jump at a site leads; 0: it is none. *behind_ret: the address behind it. */
static uint64_t target_of_site(const struct graph *graph, const struct snap_tail_site *site,
			       uint64_t *behind_ret)
{
	uint64_t target = 0;
	size_t size = 0;

	if (site->jump)
		target = target_of_jump(graph, site->jump, &size);
	*behind_ret = site->jump ? site->jump + size : site->behind;
	for (size_t i = 0; !site->jump && i < SNAP_ARRAY_SIZE(graph->machine->jump_sizes); i++) {
		size_t expected = graph->machine->jump_sizes[i];
		uint64_t found = expected && site->behind > expected
					 ? target_of_jump(graph, site->behind - expected, &size)
					 : 0;

		if (found && size == expected)
			return found;
	}
	return target;
}

static size_t index_of_function(struct graph *graph, uint64_t function)
{
	for (size_t i = 0; i < graph->function_count; i++)
		if (graph->functions[i] == function)
			return i;
	if (graph->function_count == MOST_FUNCTIONS) {
		graph->is_cut = true;
		return SIZE_MAX;
	}
	graph->functions[graph->function_count] = function;
	return graph->function_count++;
}

/* Adds the functions to which one jumps in the end. */
static void follow_function(struct graph *graph, size_t from)
{
	struct snap_hit hit = { .vaddr = graph->functions[from] };
	struct snap_tail_site sites[MOST_SITES];
	struct snap_unit *unit = NULL, *split;
	size_t count;

	snap_ranges_assign(graph->dwarf, &hit, 1, &unit, true);
	if (!unit || !snap_unit_read_root(unit, false))
		return;
	split = snap_split_unit(unit);
	count = snap_tail_sites(split ? split : unit, hit.vaddr, sites, MOST_SITES);
	graph->is_cut |= count == MOST_SITES;
	for (size_t i = 0; i < count; i++) {
		uint64_t behind, target = target_of_site(graph, &sites[i], &behind);
		size_t to = target ? index_of_function(graph, target) : SIZE_MAX;

		graph->leads_on[from] |= !target;
		graph->is_cut |= graph->jump_count == MOST_JUMPS;
		if (to != SIZE_MAX && graph->jump_count < MOST_JUMPS)
			graph->jumps[graph->jump_count++] = (struct jump){ from, to, behind };
	}
}

static void find_what_leads(struct graph *graph)
{
	bool more = true;

	graph->leads[0] = true;
	while (more) {
		more = false;
		for (size_t i = 0; i < graph->jump_count; i++) {
			const struct jump *jump = &graph->jumps[i];

			if (graph->leads[jump->to] && !graph->leads[jump->from])
				more = graph->leads[jump->from] = true;
		}
	}
}

/* The jump by which all ways leave a function; NULL: they leave it by several, or may do so. */
static const struct jump *only_jump(const struct graph *graph, size_t from)
{
	const struct jump *only = NULL;

	for (size_t i = 0; i < graph->jump_count; i++) {
		const struct jump *jump = &graph->jumps[i];

		if (jump->from != from || !graph->leads[jump->to])
			continue;
		if (only || graph->leads_on[from])
			return NULL;
		only = jump;
	}
	return only;
}

/* From the called function on, as long as there is one way only. */
static void walk_tails(const struct graph *graph, struct snap_tail_query *query)
{
	const struct jump *jump;

	for (size_t at = 1; at && graph->leads[at] && query->count < SNAP_MOST_TAILS;
	     at = jump->to) {
		jump = only_jump(graph, at);
		query->tails[query->count++] = jump ? jump->behind - 1 : graph->functions[at];
		if (!jump)
			return;
	}
}

static void find_tails(struct graph *graph, struct snap_tail_query *query)
{
	graph->functions[0] = query->runs;
	graph->functions[1] = query->called;
	graph->function_count = 2;
	graph->jump_count = 0;
	graph->is_cut = false;
	memset(graph->leads, 0, sizeof(graph->leads));
	memset(graph->leads_on, 0, sizeof(graph->leads_on));
	for (size_t i = 1; i < graph->function_count && !graph->is_cut; i++)
		follow_function(graph, i);
	find_what_leads(graph);
	if (!graph->is_cut)
		walk_tails(graph, query);
}

/* The units that will be asked for first; `queries` are sorted by the function that was called. */
static struct stacksnap_error *want_units(struct snap_dwarf *dwarf,
					  const struct snap_tail_query *queries, size_t count)
{
	_cleanup_free_ struct snap_hit *hits = calloc(count, sizeof(*hits));
	_cleanup_free_ struct snap_unit **units = calloc(count, sizeof(struct snap_unit *));

	if (!hits || !units)
		return snap_error_no_memory();
	for (size_t i = 0; i < count; i++)
		hits[i].vaddr = queries[i].called;
	snap_ranges_assign(dwarf, hits, count, units, true);
	return NULL;
}

uint64_t snap_symbolizer_call(const struct snap_module_file *file, uint64_t return_vaddr)
{
	const struct snap_machine *machine =
		file->image ? snap_machine_find(snap_image_machine(file->image)) : NULL;
	uint64_t target, slot;
	struct snap_bytes code;

	if (!machine || return_vaddr < machine->call_bytes)
		return 0;
	code = snap_image_at(file->image, return_vaddr - machine->call_bytes);
	if (code.size < machine->call_bytes)
		return 0;
	machine->read_call(code.data, return_vaddr, &target, &slot);
	code = snap_image_at(file->image, target);
	if (code.size < machine->stub_bytes ||
	    machine->stub_slot(code.data, machine->stub_bytes, target, &slot))
		return 0;
	return target;
}

struct stacksnap_error *snap_symbolizer_tails(struct snap_symbolizer *symbolizer,
					      struct snap_module_file *file,
					      struct snap_tail_query *queries, size_t count,
					      int64_t most_ns)
{
	struct snap_file_symbols *symbols = snap_symbolizer_symbols(symbolizer, file);
	_cleanup_free_ struct graph *graph = calloc(1, sizeof(*graph));
	struct stacksnap_error *err;

	if (!symbols || !graph)
		return snap_error_no_memory();
	snap_symbolizer_begin(symbolizer, most_ns);
	err = snap_symbolizer_open_dwarf(symbolizer, symbols);
	graph->dwarf = symbols->dwarf;
	if (!err && graph->dwarf)
		err = want_units(graph->dwarf, queries, count);
	graph->image = file->image;
	graph->machine = snap_machine_find(snap_image_machine(file->image));
	for (size_t i = 0; i < count && !err && graph->dwarf && graph->machine; i++) {
		if (snap_symbolizer_is_late(symbolizer))
			break;
		find_tails(graph, &queries[i]);
		err = snap_no_memory_unless(!graph->dwarf->out_of_memory);
		err = err ?: snap_options_check(symbolizer->options);
	}
	snap_symbolizer_begin(symbolizer, INT64_MAX);
	snap_debugfile_close(symbols);
	return err;
}
