/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The Go code of a file: see code.h.
 *
 * Only the runtime's own description, which lies in the data, says where the code begins. If the
 * kernel chooses the load address of the file, the words of this description are filled in at load
 * time. Then their values are in the relocations.
 */
#include "analyze/runtime/go/code.h"

#include "analyze/runtime/go/internal.h"
#include "base/bytes.h"

#include <elf.h>
#include <string.h>

enum {
	FIRST_TREES_WORD = 32, /* of the description: where the address of trees may be */
	LAST_TREES_WORD = 59,
	LEAST_WORDS = 48, /* of a description at the end of the file's data */
	MOST_TRIED = 16,  /* descriptions; each costs a look at all relocations */
	MOST_DYNAMIC = 1024,
	MOST_RELOCATIONS = 64 << 20, /* bytes */
	MOST_SEARCHED = 256 << 20,   /* bytes of a segment */
};

static const char build_magic[] = "\xff Go buildinf:";

/* The beginning of a segment that is looked through. */
static struct snap_bytes segment_bytes(const struct snap_image *image,
				       const struct snap_go_segment *segment)
{
	struct snap_bytes bytes = snap_image_at(image, segment->address);

	if (bytes.size > MOST_SEARCHED)
		bytes.size = MOST_SEARCHED;
	return bytes;
}

/* ---- version ---- */

/* Takes "go1.21.13 X:…" or "devel go1.25-…" behind its length; the first word with a number. */
static void take_version(struct snap_bytes bytes, char ret[SNAP_GO_VERSION_BYTES + 1],
			 unsigned *minor_ret)
{
	char text[SNAP_GO_VERSION_BYTES + 1] = { 0 };
	const char *found;
	size_t length;

	if (bytes.size < 34 || !(bytes.data[15] & 2))
		return;
	length = bytes.data[32] < SNAP_GO_VERSION_BYTES ? bytes.data[32] : SNAP_GO_VERSION_BYTES;
	if (bytes.data[32] & 0x80 || length > bytes.size - 33)
		return;
	memcpy(text, bytes.data + 33, length);
	found = strstr(text, "go1.");
	if (!found || sscanf(found, "go1.%2u", minor_ret) != 1)
		return;
	found += strlen("go");
	length = strcspn(found, " \t\n");
	memcpy(ret, found, length);
	ret[length] = '\0';
}

/*
 * Every program and library that Go has linked has the first of these sections, plugins have the
 * other one alone; without names of sections its magic is looked for.
 */
bool snap_go_version_find(struct snap_image *image, char version_ret[SNAP_GO_VERSION_BYTES + 1],
			  unsigned *minor_ret)
{
	struct snap_go_segment segment;
	uint64_t address;

	version_ret[0] = '\0';
	*minor_ret = 0;
	if (snap_go_has_sections(image)) {
		struct snap_bytes bytes = { .size = 0 };

		if (snap_image_section_address(image, ".go.buildinfo", &address))
			bytes = snap_image_at(image, address);
		if (bytes.size < 32 || memcmp(bytes.data, build_magic, 14) != 0)
			return snap_image_section_address(image, ".note.go.buildid", &address);
		take_version(bytes, version_ret, minor_ret);
		return true;
	}
	for (size_t i = 0; snap_go_next_segment(image, &i, &segment);) {
		struct snap_bytes bytes = segment_bytes(image, &segment);

		if (!segment.write)
			continue;
		for (size_t at = -segment.address & 15; at + 32 <= bytes.size; at += 16)
			if (memcmp(bytes.data + at, build_magic, 14) == 0) {
				take_version(
					(struct snap_bytes){ bytes.data + at, bytes.size - at },
					version_ret, minor_ret);
				return true;
			}
	}
	return false;
}

/* ---- the table of functions ---- */

static bool take_table(struct snap_image *image, uint64_t address, struct snap_go_table *ret,
		       uint64_t *address_ret)
{
	*address_ret = address;
	return snap_go_table_parse(snap_image_at(image, address), ret);
}

bool snap_go_table_find(struct snap_image *image, struct snap_go_table *ret, uint64_t *address_ret)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	struct snap_go_segment segment;
	uint64_t address;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++)
		if (snap_image_section_address(image, names[i], &address) &&
		    take_table(image, address, ret, address_ret))
			return true;
	for (size_t i = 0; snap_go_next_segment(image, &i, &segment);) {
		struct snap_bytes bytes = segment_bytes(image, &segment);
		struct snap_go_header header;

		if (segment.execute)
			continue;
		for (size_t at = -segment.address & 7; at + SNAP_GO_HEADER_BYTES <= bytes.size;
		     at += 8)
			if ((bytes.data[at] & 0xfe) == 0xf0 &&
			    snap_go_header_parse(bytes.data + at, bytes.size - at, &header) &&
			    take_table(image, segment.address + at, ret, address_ret))
				return true;
	}
	return false;
}

/* ---- the runtime's description of the code ---- */

bool snap_go_words_fit(const struct snap_go_table *table, uint64_t table_at,
		       const uint64_t words[SNAP_GO_MODULE_WORDS])
{
	const uint8_t *base = table->names.data;
	uint64_t names = words[SNAP_GO_WORD_NAMES], start = words[SNAP_GO_WORD_START];
	uint32_t first, end;

	return words[SNAP_GO_WORD_TABLE] == table_at &&
	       words[SNAP_GO_WORD_UNITS] - names == (uint64_t)(table->units.data - base) &&
	       words[SNAP_GO_WORD_FILES] - names == (uint64_t)(table->files.data - base) &&
	       names > table_at && names - table_at <= UINT32_MAX &&
	       snap_go_table_bounds(table, &first, &end) && start < words[SNAP_GO_WORD_START + 1] &&
	       start + end > start && words[SNAP_GO_WORD_FIRST] - start == first &&
	       words[SNAP_GO_WORD_FIRST + 1] - start == end;
}

void snap_go_words_code(const struct snap_go_table *table,
			const uint64_t words[SNAP_GO_MODULE_WORDS], uint64_t ret[2])
{
	uint32_t first, end = 0;

	snap_go_table_bounds(table, &first, &end);
	ret[0] = words[SNAP_GO_WORD_START];
	ret[1] = words[SNAP_GO_WORD_START] + end;
}

/* Where the trees are moves with the version; only one word leads to something that fits. */
void snap_go_trees_find(struct snap_image *image, struct snap_go_table *table, unsigned minor,
			uint64_t bias, const uint64_t words[SNAP_GO_MODULE_WORDS])
{
	const unsigned node_bytes = table->has_start_line ? 16 : 20;
	const unsigned usual = minor < 20 ? 38 : minor < 27 ? 40 : 43;
	struct snap_bytes found = { .size = 0 };
	size_t count = 0;

	for (unsigned i = FIRST_TREES_WORD; i <= LAST_TREES_WORD; i++) {
		struct snap_bytes bytes = snap_image_at(image, words[i] - bias);
		unsigned seen;

		if (bytes.size == 0 || !snap_go_trees_fit(table, bytes, node_bytes, &seen) ||
		    seen == 0)
			continue;
		if (count++ == 0 || i == usual)
			found = bytes;
	}
	if (count == 0)
		return;
	table->trees = found;
	table->node_bytes = node_bytes;
}

/* ---- the description in the file ---- */

struct search {
	struct snap_image *image;
	const struct snap_go_table *table;
	uint64_t table_at;
	struct snap_bytes relocations; /* Elf64_Rela */
	uint64_t words[SNAP_GO_MODULE_WORDS];
	unsigned tried;
};

static struct snap_bytes find_relocations(const struct snap_image *image)
{
	struct snap_bytes dynamic, found;
	uint64_t vaddr, offset, address = 0, size = 0;

	if (!snap_image_segment(image, PT_DYNAMIC, &vaddr, &offset))
		return (struct snap_bytes){ .size = 0 };
	dynamic = snap_image_at(image, vaddr);
	for (size_t i = 0; i < MOST_DYNAMIC && (i + 1) * sizeof(Elf64_Dyn) <= dynamic.size; i++) {
		Elf64_Dyn one;

		memcpy(&one, dynamic.data + i * sizeof(one), sizeof(one));
		if (one.d_tag == DT_NULL)
			break;
		if (one.d_tag == DT_RELA)
			address = one.d_un.d_ptr;
		if (one.d_tag == DT_RELASZ)
			size = one.d_un.d_val;
	}
	found = snap_image_at(image, address);
	if (address == 0 || found.size < size || size > MOST_RELOCATIONS)
		return (struct snap_bytes){ .size = 0 };
	found.size = size - size % sizeof(Elf64_Rela);
	return found;
}

/* The words at an address as they will be in memory, unbiased. */
static bool read_code_words(struct search *search, uint64_t address)
{
	struct snap_bytes bytes = snap_image_at(search->image, address);
	size_t size = sizeof(search->words);

	if (bytes.size < LEAST_WORDS * sizeof(search->words[0]))
		return false;
	memset(search->words, 0, size);
	memcpy(search->words, bytes.data, bytes.size < size ? bytes.size : size);
	for (size_t at = 0; at < search->relocations.size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela one;

		memcpy(&one, search->relocations.data + at, sizeof(one));
		if (one.r_offset - address < size && (one.r_offset - address) % 8 == 0 &&
		    ELF64_R_TYPE(one.r_info) == R_X86_64_RELATIVE)
			search->words[(one.r_offset - address) / 8] = (uint64_t)one.r_addend;
	}
	return true;
}

static bool try_address(struct search *search, uint64_t address)
{
	return search->tried++ < MOST_TRIED && read_code_words(search, address) &&
	       snap_go_words_fit(search->table, search->table_at, search->words);
}

/* Its first word is the address of the table: in the file, or in what is put there. */
static bool find_words(struct search *search)
{
	struct snap_image *image = search->image;
	struct snap_go_segment segment;
	uint64_t address;

	if (snap_image_section_address(image, ".go.module", &address) &&
	    try_address(search, address))
		return true;
	for (size_t at = 0; at < search->relocations.size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela one;

		memcpy(&one, search->relocations.data + at, sizeof(one));
		if ((uint64_t)one.r_addend == search->table_at &&
		    ELF64_R_TYPE(one.r_info) == R_X86_64_RELATIVE &&
		    try_address(search, one.r_offset))
			return true;
	}
	for (size_t i = 0; snap_go_next_segment(image, &i, &segment);) {
		struct snap_bytes bytes = segment_bytes(image, &segment);

		if (!segment.write)
			continue;
		for (size_t at = -segment.address & 7; at + 8 <= bytes.size; at += 8)
			if (snap_u64_at(bytes.data + at) == search->table_at &&
			    try_address(search, segment.address + at))
				return true;
	}
	return false;
}

bool snap_go_code_find(struct snap_image *image, bool wants_trees, struct snap_go_code *ret)
{
	struct search search = { .image = image, .table = &ret->table };
	char version[SNAP_GO_VERSION_BYTES + 1];
	uint64_t code[2];
	unsigned minor;

	if (snap_image_machine(image) != EM_X86_64 ||
	    !snap_go_version_find(image, version, &minor) ||
	    !snap_go_table_find(image, &ret->table, &search.table_at))
		return false;
	search.relocations = find_relocations(image);
	if (!find_words(&search))
		return false;
	snap_go_words_code(&ret->table, search.words, code);
	ret->start = code[0];
	ret->end = code[1];
	if (wants_trees)
		snap_go_trees_find(image, &ret->table, minor, 0, search.words);
	return true;
}
