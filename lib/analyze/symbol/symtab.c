/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names from symbol tables: one pass over the table, in which each symbol is compared with the
 * sorted addresses. No table is built and nothing is sorted.
 *
 * If several symbols cover an address, the one that begins closest to it wins, then the better
 * kind. Between equals the names alone decide, so the choice is the same in each run.
 */
#include "analyze/elf/functions.h"
#include "analyze/symbol/symbolizer.h"

#include <elf.h>
#include <string.h>

/* Ranks of symbols that begin at the same address; bits, the higher the better. */
enum {
	RANK_LABEL = 1 << 0,   /* has no size: may reach to the address */
	RANK_VISIBLE = 1 << 1, /* global or weak: a name that people know */
	RANK_FUNCTION = 1 << 2,
	RANK_COVERS = 1 << 3,
};

/* Offers of one pass: real tables make about one an address, a hostile one could make billions. */
enum { MAX_OFFERS = 1 << 25 };

/* Symbols that are looked at: the largest debug files have some millions. */
enum {
	MAX_SYMBOLS = 1 << 25,
	RETURN_PAGES = 1 << 18,
	LOOK_AT_TIME = 1 << 12, /* symbols between two looks at whether the file is late */
};

bool snap_symtab_get(struct snap_image *image, bool dynamic, struct snap_symtab *ret)
{
	struct snap_bytes symbols, strings;

	if (!snap_image_symbols(image, dynamic, &symbols, &strings))
		return false;
	ret->image = image;
	ret->symbols = symbols.data;
	ret->count = symbols.size / sizeof(Elf64_Sym);
	if (ret->count > MAX_SYMBOLS)
		ret->count = MAX_SYMBOLS;
	ret->strings = (const char *)strings.data;
	ret->strings_size = strings.size;
	return ret->count > 0;
}

/* Symbol `i` of a walk through the table; pages that were read are given back now and then. */
static Elf64_Sym symbol_at(const struct snap_symtab *table, size_t i)
{
	Elf64_Sym symbol;

	if (i % RETURN_PAGES == RETURN_PAGES - 1)
		snap_image_let_go(table->image,
				  (struct snap_bytes){ table->symbols, i * sizeof(symbol) });
	memcpy(&symbol, table->symbols + i * sizeof(symbol), sizeof(symbol));
	return symbol;
}

/*
 * A name is looked at no further than it will be shown: else each symbol of a hostile table could
 * ask for the same megabytes again.
 */
/*
 * "$x", "$d.3": marks of the Arm ABIs between code and data (AAELF64, 5.5.5). Names of Swift begin
 * with "$", too.
 */
static bool is_mark(const char *name, size_t length)
{
	return length >= 2 && name[0] == '$' && strchr("adtx", name[1]) &&
	       (length == 2 || name[2] == '.');
}

const char *snap_symtab_name(const struct snap_symtab *table, const Elf64_Sym *symbol,
			     size_t *length_ret)
{
	const char *name, *version;
	size_t length, left;

	if (symbol->st_name >= table->strings_size)
		return NULL;
	name = table->strings + symbol->st_name;
	left = table->strings_size - symbol->st_name;
	length = strnlen(name, left < SNAP_MAX_MANGLED + 4 ? left : SNAP_MAX_MANGLED + 4);
	if (length == left)
		return NULL;
	length = snap_text_cut(name, length, SNAP_MAX_MANGLED);
	version = length > 1 ? memchr(name + 1, '@', length - 1) : NULL;
	if (version)
		length = (size_t)(version - name);
	if (length == 0 || is_mark(name, length))
		return NULL;
	*length_ret = length;
	return name;
}

static unsigned rank_of(const Elf64_Sym *symbol)
{
	unsigned rank = symbol->st_size ? RANK_COVERS : RANK_LABEL;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_NOTYPE)
		rank |= RANK_FUNCTION;
	if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL)
		rank |= RANK_VISIBLE;
	return rank;
}

/* Between aliases: the name that is closest to what people write. */
static bool is_nicer(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t a_bars = 0, b_bars = 0, shorter = a_length < b_length ? a_length : b_length;
	int order;

	while (a_bars < a_length && a[a_bars] == '_')
		a_bars++;
	while (b_bars < b_length && b[b_bars] == '_')
		b_bars++;
	if (a_bars != b_bars)
		return a_bars < b_bars;
	if (a_length != b_length)
		return a_length < b_length;
	order = memcmp(a, b, shorter);
	return order < 0;
}

static bool is_better(const struct snap_hit *hit, const Elf64_Sym *symbol, unsigned rank,
		      const char *name, size_t length)
{
	if (hit->symbol_rank == 0)
		return true;
	if (symbol->st_value != hit->symbol_start)
		return symbol->st_value > hit->symbol_start;
	if (rank != hit->symbol_rank)
		return rank > hit->symbol_rank;
	return is_nicer(name, length, hit->symbol, hit->symbol_length);
}

static void offer_symbol(const struct snap_symtab *table, const Elf64_Sym *symbol,
			 struct snap_hit *hit)
{
	unsigned rank = rank_of(symbol);
	size_t length;
	const char *name = snap_symtab_name(table, symbol, &length);

	if (!name)
		return;
	hit->has_aliases |= hit->symbol_rank == rank && symbol->st_value == hit->symbol_start;
	if (!is_better(hit, symbol, rank, name, length))
		return;
	hit->symbol = name;
	hit->symbol_length = length;
	hit->symbol_start = symbol->st_value;
	hit->symbol_rank = rank;
}

static bool is_data_symbol(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_shndx != SHN_ABS && symbol->st_shndx != SHN_COMMON;
}

/* A name of a part of the table may be the wrong one. Those of other tables stay. */
static void forget_symbols(const struct snap_symtab *table, struct snap_hit *hits, size_t count)
{
	const char *end = table->strings + table->strings_size;

	for (size_t i = 0; i < count; i++)
		if (hits[i].symbol >= table->strings && hits[i].symbol < end)
			hits[i].symbol_rank = 0;
}

static bool is_table_late(struct snap_symbolizer *symbolizer, size_t i)
{
	return symbolizer && i % LOOK_AT_TIME == LOOK_AT_TIME - 1 &&
	       snap_symbolizer_is_late(symbolizer);
}

static void scan(struct snap_symbolizer *symbolizer, struct snap_image *image, bool dynamic,
		 bool (*is_wanted)(const Elf64_Sym *symbol), struct snap_hit *hits, size_t count)
{
	struct snap_symtab table;
	size_t offers = 0;
	uint64_t last;

	if (count == 0 || !snap_symtab_get(image, dynamic, &table))
		return;
	last = hits[count - 1].vaddr;
	for (size_t i = 0; i < table.count && offers < MAX_OFFERS; i++) {
		Elf64_Sym symbol = symbol_at(&table, i);
		uint64_t end;

		if (is_table_late(symbolizer, i)) {
			forget_symbols(&table, hits, count);
			return;
		}
		if (symbol.st_value > last || !is_wanted(&symbol) ||
		    __builtin_add_overflow(symbol.st_value, symbol.st_size, &end) ||
		    end <= hits[0].vaddr)
			continue;
		for (size_t k = snap_hits_from(hits, count, symbol.st_value);
		     k < count && hits[k].vaddr < end; k++, offers++)
			offer_symbol(&table, &symbol, &hits[k]);
	}
}

void snap_symtab_scan(struct snap_symbolizer *symbolizer, struct snap_image *image, bool dynamic,
		      struct snap_hit *hits, size_t count)
{
	scan(symbolizer, image, dynamic, snap_symbol_is_code, hits, count);
}

void snap_symtab_scan_data(struct snap_symbolizer *symbolizer, struct snap_image *image,
			   bool dynamic, struct snap_hit *hits, size_t count)
{
	scan(symbolizer, image, dynamic, is_data_symbol, hits, count);
}

/* Where the closest symbol of each address begins: noted at the first address after it. False: late. */
static bool find_nearest(struct snap_symbolizer *symbolizer, const struct snap_symtab *table,
			 struct snap_hit *hits, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hits[i].has_nearest = false;
	for (size_t i = 0; i < table->count; i++) {
		Elf64_Sym symbol = symbol_at(table, i);
		size_t k;

		if (is_table_late(symbolizer, i))
			return false;
		if (!snap_symbol_is_code(&symbol))
			continue;
		k = snap_hits_from(hits, count, symbol.st_value);
		if (k == count || (hits[k].has_nearest && hits[k].nearest >= symbol.st_value))
			continue;
		hits[k].nearest = symbol.st_value;
		hits[k].has_nearest = true;
	}
	for (size_t i = 1; i < count; i++) {
		if (!hits[i - 1].has_nearest)
			continue;
		if (!hits[i].has_nearest || hits[i].nearest < hits[i - 1].nearest)
			hits[i].nearest = hits[i - 1].nearest;
		hits[i].has_nearest = true;
	}
	return true;
}

/*
 * A label without a size reaches to the next symbol or to the end of its section, whatever comes
 * first. A sized symbol that begins closer has ended before the address: then no symbol covers it.
 */
void snap_symtab_scan_labels(struct snap_symbolizer *symbolizer, struct snap_image *image,
			     bool dynamic, struct snap_hit *hits, size_t count)
{
	struct snap_symtab table;
	size_t offers = 0;
	bool wanted = false;

	for (size_t i = 0; i < count; i++)
		wanted |= hits[i].symbol_rank == 0;
	if (!wanted || !snap_symtab_get(image, dynamic, &table) ||
	    !find_nearest(symbolizer, &table, hits, count))
		return;
	for (size_t i = 0; i < table.count && offers < MAX_OFFERS && !is_table_late(symbolizer, i);
	     i++) {
		Elf64_Sym symbol = symbol_at(&table, i);

		if (symbol.st_size != 0 || !snap_symbol_is_code(&symbol))
			continue;
		for (size_t k = snap_hits_from(hits, count, symbol.st_value);
		     k < count && hits[k].has_nearest && hits[k].nearest == symbol.st_value;
		     k++, offers++) {
			if (hits[k].symbol_rank & RANK_COVERS)
				continue;
			if (hits[k].vaddr <
			    snap_image_section_end(image, symbol.st_shndx, symbol.st_value))
				offer_symbol(&table, &symbol, &hits[k]);
		}
	}
}
