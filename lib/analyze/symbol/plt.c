/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stubs of the procedure linkage table. No symbol covers them, so they are named after their
 * target, "puts@plt", as debuggers do.
 *
 * A stub jumps through a slot of the GOT, and the relocation of the slot names a dynamic symbol.
 * machine.c has the differences between processors. Reads the image itself, never its debug file,
 * which has no code.
 */
#include "analyze/symbol/machine.h"
#include "analyze/symbol/symbolizer.h"
#include "base/bsearch.h"

#include <elf.h>
#include <limits.h>

static const char *const stub_sections[] = { ".plt", ".plt.sec", ".plt.got" };
static const char *const relocation_sections[] = { ".rela.plt", ".rela.dyn" };

struct stub {
	uint64_t slot; /* where it finds the address that it jumps to */
	struct snap_hit *hit;
};

struct stubs {
	struct stub *all; /* malloc'ed, room for each hit; sorted by slot when complete */
	size_t count;
};

/* The slot of the stub around byte `into` of a section that lies at `start`. */
static bool find_slot(const struct snap_machine *machine, struct snap_bytes code, size_t into,
		      uint64_t start, uint64_t *slot_ret)
{
	size_t at = into - into % machine->step;

	for (size_t back = 0; back < machine->reach && back <= at; back += machine->step)
		if (machine->stub_slot(code.data + (at - back), code.size - (at - back),
				       start + (at - back), slot_ret))
			return true;
	return false;
}

static void collect_stubs(const struct snap_machine *machine, struct snap_image *image,
			  const char *section, struct snap_hit *hits, size_t count,
			  struct stubs *stubs)
{
	struct snap_bytes code;
	uint64_t start;

	if (!snap_image_section_address(image, section, &start))
		return;
	code = snap_image_section(image, section);
	for (size_t i = snap_hits_from(hits, count, start);
	     i < count && hits[i].vaddr - start < code.size; i++) {
		uint64_t slot;

		/* Hostile sections may overlap: there is room for each hit once. */
		if (hits[i].symbol_rank || stubs->count == count ||
		    !find_slot(machine, code, hits[i].vaddr - start, start, &slot))
			continue;
		stubs->all[stubs->count++] = (struct stub){ slot, &hits[i] };
	}
}

SNAP_ORDER(compare_stubs, struct stub, x, y, snap_compare(x->slot, y->slot),
	   snap_compare(x->hit->vaddr, y->hit->vaddr));

/* The first stub of a slot; the count of all if there is none. */
static size_t find_stub(const struct stubs *stubs, uint64_t slot)
{
	size_t at = snap_first_not(stubs->count, i, stubs->all[i].slot < slot);

	return at < stubs->count && stubs->all[at].slot == slot ? at : stubs->count;
}

/* "" if the relocation names nothing; NULL without memory. In the arena. */
static const char *stub_name(struct snap_symbolizer *symbolizer, const struct snap_symtab *table,
			     const Elf64_Rela *relocation)
{
	uint64_t index = ELF64_R_SYM(relocation->r_info);
	const char *name;
	size_t length;
	Elf64_Sym symbol;

	if (index == 0)
		return snap_arena_printf(symbolizer->arena, "*ABS*+0x%llx@plt",
					 (unsigned long long)relocation->r_addend);
	if (index >= table->count)
		return "";
	memcpy(&symbol, table->symbols + index * sizeof(symbol), sizeof(symbol));
	name = snap_symtab_name(table, &symbol, &length);
	if (!name)
		return "";
	length = snap_text_cut(name, length, SNAP_MAX_NAME - sizeof("@plt"));
	return snap_arena_printf(symbolizer->arena, "%.*s@plt", (int)length, name);
}

/* All stubs of a slot get the name of the first relocation of it that has one. */
static struct stacksnap_error *name_stubs(struct snap_symbolizer *symbolizer,
					  const struct snap_machine *machine,
					  const struct snap_symtab *table,
					  struct snap_bytes relocations, const struct stubs *stubs)
{
	for (size_t i = 0; i < relocations.size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela relocation;
		const char *name;
		size_t first;

		memcpy(&relocation, relocations.data + i * sizeof(relocation), sizeof(relocation));
		if (!machine->is_slot(ELF64_R_TYPE(relocation.r_info)))
			continue;
		first = find_stub(stubs, relocation.r_offset);
		if (first == stubs->count || stubs->all[first].hit->symbol_rank)
			continue;
		name = stub_name(symbolizer, table, &relocation);
		SNAP_TRY(snap_no_memory_unless(name));
		for (size_t k = first;
		     *name && k < stubs->count && stubs->all[k].slot == relocation.r_offset; k++) {
			stubs->all[k].hit->symbol = name;
			stubs->all[k].hit->symbol_length = strlen(name);
			stubs->all[k].hit->symbol_rank = UINT_MAX; /* no label is better */
		}
	}
	return NULL;
}

struct stacksnap_error *snap_plt_scan(struct snap_symbolizer *symbolizer, struct snap_image *image,
				      struct snap_hit *hits, size_t count)
{
	const struct snap_machine *machine = snap_machine_find(snap_image_machine(image));
	_cleanup_free_ struct stub *all = NULL;
	struct stubs stubs = { 0 };
	struct snap_symtab table;

	if (!machine)
		return NULL;
	all = calloc(count, sizeof(*all));
	SNAP_TRY(snap_no_memory_unless(all));
	stubs.all = all;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(stub_sections); i++)
		collect_stubs(machine, image, stub_sections[i], hits, count, &stubs);
	if (stubs.count == 0)
		return NULL;
	qsort(stubs.all, stubs.count, sizeof(*stubs.all), compare_stubs);
	/* A static program has relocations, but no dynamic symbols. */
	if (!snap_symtab_get(image, true, &table))
		table = (struct snap_symtab){ 0 };
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(relocation_sections); i++)
		SNAP_TRY(name_stubs(symbolizer, machine, &table,
				    snap_image_section(image, relocation_sections[i]), &stubs));
	return NULL;
}
