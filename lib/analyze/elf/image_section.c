/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sections of an image: found by name, unpacked on demand by libelf or libzstd, and libelf's own
 * handle for libdw. Symbol tables are found by section or, without a section table, by PT_DYNAMIC. Knows
 * nothing of the contents of a section.
 */
#include "analyze/elf/internal.h"

#include "base/text.h"

#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <sys/mman.h>
#ifdef SNAP_WITH_ZSTD
#include <zstd.h>
#endif

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2 /* elf.h of glibc has it since 2.37 */
#endif

enum {
	MAX_SECTIONS = 1 << 16,
	MAX_DYNAMIC = 4096, /* entries of PT_DYNAMIC */
};

/* What the compressed sections of a file may become together: beyond, it is a bomb. */
static const uint64_t max_inflated = 96ull << 20;

struct stacksnap_error *snap_image_load_sections(struct snap_image *image)
{
	const Elf64_Ehdr *header = &image->header;
	uint64_t count = header->e_shnum, names = header->e_shstrndx;
	Elf64_Shdr first;

	if (header->e_shoff == 0 || header->e_shentsize != sizeof(first) ||
	    !range_fits(header->e_shoff, sizeof(first), image->size))
		return NULL;
	memcpy(&first, image->data + header->e_shoff, sizeof(first));
	if (count == 0)
		count = first.sh_size;
	if (names == SHN_XINDEX)
		names = first.sh_link;
	image->has_too_many_sections = count > MAX_SECTIONS;
	if (count == 0 || count > MAX_SECTIONS || names >= count ||
	    !range_fits(header->e_shoff, count * sizeof(first), image->size))
		return NULL;
	image->sections = calloc(count, sizeof(*image->sections));
	image->section_bytes = calloc(count, sizeof(*image->section_bytes));
	SNAP_TRY(snap_no_memory_unless(image->sections && image->section_bytes));
	memcpy(image->sections, image->data + header->e_shoff, count * sizeof(first));
	image->section_count = count;
	image->section_names = names;
	return NULL;
}

/* Pages of the mapped file become private and writable. */
static bool let_write(const struct snap_image *image, uint64_t from, uint64_t to)
{
	from &= ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	return mprotect((char *)image->data + from, to - from, PROT_READ | PROT_WRITE) == 0;
}

/*
 * libelf takes the section table where it lies and writes sizes and flags into it when it inflates
 * a section: those pages, and no others. What we read ourselves is our copy.
 */
static bool let_write_section_table(const struct snap_image *image)
{
	uint64_t from = image->header.e_shoff, to = image->size;

	if (!image->is_mapped || from == 0 || from >= image->size)
		return true;
	if (image->sections)
		to = from + image->section_count * sizeof(Elf64_Shdr);
	return let_write(image, from, to);
}

/*
 * libelf keeps two hundred bytes a section, and inflates the names of sections when one is asked
 * for: so not where we did without this table, nor where it is compressed.
 */
static bool libelf_may_read(const struct snap_image *image)
{
	if (!image->sections)
		return !image->has_too_many_sections;
	return !(image->sections[image->section_names].sh_flags & SHF_COMPRESSED);
}

void *snap_image_elf(struct snap_image *image)
{
	if (!image->elf && libelf_may_read(image) && elf_version(EV_CURRENT) != EV_NONE &&
	    let_write_section_table(image))
		image->elf = elf_memory((char *)image->data, image->size);
	return image->elf;
}

static struct snap_bytes raw_bytes(const struct snap_image *image, const Elf64_Shdr *section)
{
	if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL ||
	    !range_fits(section->sh_offset, section->sh_size, image->size))
		return (struct snap_bytes){ 0 };
	return (struct snap_bytes){ image->data + section->sh_offset, section->sh_size };
}

const char *snap_image_section_name(const struct snap_image *image, size_t index)
{
	struct snap_bytes names = raw_bytes(image, &image->sections[image->section_names]);
	uint64_t at = image->sections[index].sh_name;

	if (at >= names.size || !memchr(names.data + at, 0, names.size - at))
		return "";
	return (const char *)names.data + at;
}

static bool is_gnu_compressed(struct snap_bytes raw)
{
	return raw.size > 12 && memcmp(raw.data, "ZLIB", 4) == 0;
}

/* What the bytes will be inflated to, by their own word; 0: nothing believable. */
static uint64_t inflated_size(struct snap_bytes raw, bool is_gnu)
{
	uint64_t size;
	Elf64_Chdr header;

	if (is_gnu) {
		memcpy(&size, raw.data + 4, sizeof(size));
		size = __builtin_bswap64(size);
	} else {
		if (raw.size < sizeof(header))
			return 0;
		memcpy(&header, raw.data, sizeof(header));
		size = header.ch_size;
	}
	return size <= max_inflated ? size : 0;
}

uint64_t snap_image_inflated(const struct snap_image *image)
{
	uint64_t total = 0;

	for (size_t i = 0; i < image->section_count; i++) {
		const Elf64_Shdr *section = &image->sections[i];
		struct snap_bytes raw = raw_bytes(image, section);
		bool is_gnu = snap_begins_with(snap_image_section_name(image, i), ".zdebug") &&
			      is_gnu_compressed(raw);
		uint64_t size;

		if (!is_gnu && !(section->sh_flags & SHF_COMPRESSED))
			continue;
		size = inflated_size(raw, is_gnu);
		if (size == 0 || size > max_inflated - total)
			return UINT64_MAX;
		total += size;
	}
	return total;
}

/*
 * libdw inflates sections of the same handle when it opens the file; then they are there already,
 * and inflating again would fail.
 */
static struct snap_bytes inflate_section(struct snap_image *image, size_t index, bool is_gnu)
{
	Elf *elf = snap_image_elf(image);
	Elf_Scn *section = elf ? elf_getscn(elf, index) : NULL;
	GElf_Shdr header;
	Elf_Data *data;

	if (!section || !gelf_getshdr(section, &header))
		return (struct snap_bytes){ 0 };
	if (is_gnu) {
		data = elf_getdata(section, NULL);
		if (!data || !data->d_buf)
			return (struct snap_bytes){ 0 };
		if (is_gnu_compressed((struct snap_bytes){ data->d_buf, data->d_size }) &&
		    elf_compress_gnu(section, 0, 0) < 0)
			return (struct snap_bytes){ 0 };
	} else if (header.sh_flags & SHF_COMPRESSED && elf_compress(section, 0, 0) < 0) {
		return (struct snap_bytes){ 0 };
	}
	data = elf_getdata(section, NULL);
	if (!data || !data->d_buf)
		return (struct snap_bytes){ 0 };
	return (struct snap_bytes){ data->d_buf, data->d_size };
}

static bool is_zstd(struct snap_bytes raw)
{
	Elf64_Chdr header;

	memcpy(&header, raw.data, sizeof(header));
	return header.ch_type == ELFCOMPRESS_ZSTD;
}

/* libelf knows it since 0.189, if it was built so. */
static struct snap_bytes unpack_zstd(struct section_bytes *to, struct snap_bytes raw, uint64_t size)
{
#ifdef SNAP_WITH_ZSTD
	to->unpacked = malloc(size);
	if (to->unpacked && ZSTD_decompress(to->unpacked, size, raw.data + sizeof(Elf64_Chdr),
					    raw.size - sizeof(Elf64_Chdr)) == size)
		return (struct snap_bytes){ to->unpacked, size };
#else
	(void)to;
	(void)raw;
	(void)size;
#endif
	return (struct snap_bytes){ 0 };
}

static struct snap_bytes inflate_within_limit(struct snap_image *image, size_t index,
					      struct snap_bytes raw, bool is_gnu)
{
	uint64_t size = inflated_size(raw, is_gnu);

	if (size == 0 || size > max_inflated - image->inflated)
		return (struct snap_bytes){ 0 };
	image->inflated += size;
	return !is_gnu && is_zstd(raw) ? unpack_zstd(&image->section_bytes[index], raw, size)
				       : inflate_section(image, index, is_gnu);
}

struct snap_bytes snap_image_section_at(struct snap_image *image, size_t index)
{
	struct section_bytes *cached;
	struct snap_bytes raw;
	bool is_gnu;

	if (index >= image->section_count)
		return (struct snap_bytes){ 0 };
	cached = &image->section_bytes[index];
	if (cached->tried)
		return cached->bytes;
	cached->tried = true;
	raw = raw_bytes(image, &image->sections[index]);
	is_gnu = snap_begins_with(snap_image_section_name(image, index), ".zdebug") &&
		 is_gnu_compressed(raw);
	if (!is_gnu && !(image->sections[index].sh_flags & SHF_COMPRESSED))
		cached->bytes = raw;
	else
		cached->bytes = inflate_within_limit(image, index, raw, is_gnu);
	return cached->bytes;
}

/* The next section behind `index` called `name`, or ".z…" for ".debug…"; section_count: none. */
static size_t find_section(const struct snap_image *image, const char *name, size_t index)
{
	bool is_debug = snap_begins_with(name, ".debug");

	for (size_t i = index + 1; i < image->section_count; i++) {
		const char *candidate = snap_image_section_name(image, i);

		if (strcmp(candidate, name) == 0 ||
		    (is_debug && candidate[0] == '.' && candidate[1] == 'z' &&
		     strcmp(candidate + 2, name + 1) == 0))
			return i;
	}
	return image->section_count;
}

struct snap_bytes snap_image_section(struct snap_image *image, const char *name)
{
	return snap_image_section_at(image, find_section(image, name, 0));
}

bool snap_image_next_section(struct snap_image *image, const char *name, size_t *index,
			     struct snap_bytes *ret)
{
	*index = find_section(image, name, *index);
	*ret = snap_image_section_at(image, *index);
	return *index < image->section_count;
}

void snap_image_hide(struct snap_image *image, const char *section, uint32_t segment)
{
	uint8_t *data = (uint8_t *)image->data;
	uint64_t table = image->header.e_phoff, sections = image->header.e_shoff;
	uint64_t end = table + image->segment_count * sizeof(Elf64_Phdr);

	/* What is written to one table may not change the other one. */
	if (table < sections + image->section_count * sizeof(Elf64_Shdr) && sections < end)
		return;
	if (!image->is_mapped || image->elf || !let_write_section_table(image) ||
	    (image->segment_count > 0 && !let_write(image, table, end)))
		return;
	for (size_t i = 0; i < image->segment_count; i++) {
		if (image->segments[i].p_type != segment)
			continue;
		image->segments[i].p_type = PT_NULL;
		memcpy(data + table + i * sizeof(Elf64_Phdr), &image->segments[i],
		       sizeof(Elf64_Phdr));
	}
	for (size_t i = find_section(image, section, 0); i < image->section_count;
	     i = find_section(image, section, i)) {
		image->sections[i].sh_name = 0;
		memcpy(data + sections + i * sizeof(Elf64_Shdr), &image->sections[i],
		       sizeof(Elf64_Shdr));
	}
}

struct snap_bytes snap_image_packed_section(const struct snap_image *image, const char *name)
{
	size_t index = find_section(image, name, 0);

	if (index == image->section_count || !(image->sections[index].sh_flags & SHF_COMPRESSED))
		return (struct snap_bytes){ 0 };
	return raw_bytes(image, &image->sections[index]);
}

size_t snap_image_section_at_offset(const struct snap_image *image, uint64_t offset)
{
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < image->section_count; i++) {
		if (image->sections[i].sh_offset != offset || image->sections[i].sh_size == 0)
			continue;
		if (found != SIZE_MAX)
			return SIZE_MAX;
		found = i;
	}
	return found;
}

bool snap_image_section_address(struct snap_image *image, const char *name, uint64_t *ret)
{
	size_t index = find_section(image, name, 0);

	if (index == image->section_count)
		return false;
	*ret = image->sections[index].sh_addr;
	return image->sections[index].sh_type != SHT_NOBITS;
}

uint64_t snap_image_section_end(const struct snap_image *image, size_t index, uint64_t vaddr)
{
	const Elf64_Shdr *section;

	if (index >= image->section_count)
		return 0;
	section = &image->sections[index];
	return vaddr >= section->sh_addr && vaddr - section->sh_addr < section->sh_size
		       ? section->sh_addr + section->sh_size
		       : 0;
}

bool snap_image_symbols(struct snap_image *image, bool dynamic, struct snap_bytes *symbols_ret,
			struct snap_bytes *strings_ret)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const Elf64_Shdr *section = &image->sections[i];
		struct snap_bytes symbols, strings;

		if (section->sh_type != (dynamic ? SHT_DYNSYM : SHT_SYMTAB) ||
		    section->sh_entsize != sizeof(Elf64_Sym))
			continue;
		symbols = snap_image_section_at(image, i);
		strings = snap_image_section_at(image, section->sh_link);
		if (symbols.size < sizeof(Elf64_Sym) || strings.size == 0)
			continue;
		*symbols_ret = symbols;
		*strings_ret = strings;
		return true;
	}
	return dynamic && snap_image_dynamic_symbols(image, symbols_ret, strings_ret);
}

/* A 32-bit word at an address of the image, 0 if it is not in the file. */
static uint32_t dynamic_word_at(const struct snap_image *image, uint64_t vaddr)
{
	struct snap_bytes bytes = snap_image_at(image, vaddr);
	uint32_t word = 0;

	if (bytes.size >= sizeof(word))
		memcpy(&word, bytes.data, sizeof(word));
	return word;
}

/*
 * The number of symbols by the GNU hash table: the chain of the last bucket ends at the last
 * symbol. The walk is bounded by the bytes there are: dynamic_word_at() gives 0 beyond them.
 */
static uint64_t count_by_gnu_hash(const struct snap_image *image, uint64_t table)
{
	uint32_t bucket_count = dynamic_word_at(image, table),
		 first = dynamic_word_at(image, table + 4);
	uint64_t buckets = table + 16 + 8ull * dynamic_word_at(image, table + 8);
	uint64_t chains = buckets + 4ull * bucket_count;
	struct snap_bytes there = snap_image_at(image, buckets);
	uint32_t last = 0;

	if (there.size / 4 < bucket_count)
		return 0;
	for (uint32_t i = 0; i < bucket_count; i++) {
		uint32_t symbol;

		memcpy(&symbol, there.data + 4ull * i, sizeof(symbol));
		if (symbol > last)
			last = symbol;
	}
	if (last < first)
		return first;
	there = snap_image_at(image, chains);
	for (uint64_t at = 4ull * (last - first); at + 4 <= there.size; at += 4, last++) {
		uint32_t hash;

		memcpy(&hash, there.data + at, sizeof(hash));
		if (hash & 1)
			return last + 1ull;
	}
	return 0;
}

struct dynamic_table {
	uint64_t symbols, strings, strings_size, hash, gnu_hash;
};

static bool read_dynamic(const struct snap_image *image, struct dynamic_table *ret)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		struct snap_bytes bytes;

		if (image->segments[i].p_type != PT_DYNAMIC)
			continue;
		bytes = snap_image_at(image, image->segments[i].p_vaddr);
		for (size_t k = 0; k < MAX_DYNAMIC && (k + 1) * sizeof(Elf64_Dyn) <= bytes.size;
		     k++) {
			Elf64_Dyn entry;

			memcpy(&entry, bytes.data + k * sizeof(entry), sizeof(entry));
			if (entry.d_tag == DT_NULL)
				break;
			if (entry.d_tag == DT_SYMTAB)
				ret->symbols = entry.d_un.d_ptr;
			if (entry.d_tag == DT_STRTAB)
				ret->strings = entry.d_un.d_ptr;
			if (entry.d_tag == DT_STRSZ)
				ret->strings_size = entry.d_un.d_val;
			if (entry.d_tag == DT_HASH)
				ret->hash = entry.d_un.d_ptr;
			if (entry.d_tag == DT_GNU_HASH)
				ret->gnu_hash = entry.d_un.d_ptr;
		}
		return ret->symbols && ret->strings;
	}
	return false;
}

bool snap_image_dynamic_symbols(const struct snap_image *image, struct snap_bytes *symbols_ret,
				struct snap_bytes *strings_ret)
{
	struct dynamic_table table = { 0 };
	struct snap_bytes symbols, strings;
	uint64_t count;

	if (!read_dynamic(image, &table))
		return false;
	count = table.hash ? dynamic_word_at(image, table.hash + 4)
			   : count_by_gnu_hash(image, table.gnu_hash);
	symbols = snap_image_at(image, table.symbols);
	strings = snap_image_at(image, table.strings);
	if (count == 0 || count > symbols.size / sizeof(Elf64_Sym) ||
	    table.strings_size > strings.size || table.strings_size == 0)
		return false;
	symbols.size = count * sizeof(Elf64_Sym);
	strings.size = table.strings_size;
	*symbols_ret = symbols;
	*strings_ret = strings;
	return true;
}
