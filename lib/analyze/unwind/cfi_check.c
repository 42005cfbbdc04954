/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See cfi_check.h. An entry may begin wherever something points to: an entry to its CIE, the search
 * table to an entry. So the beginnings that the section has in order are marked, and nothing may
 * point elsewhere.
 */
#include "analyze/unwind/cfi_check.h"

#include "base/cleanup.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Of an entry. The longest real ones, of generated functions, are a few ten thousands. */
	LONGEST = 1 << 18,
	/* The only encodings that linkers write: pc-relative, number of entries, table. */
	ENCODING_POINTER = 0x1b,
	ENCODING_COUNT = 0x03,
	ENCODING_TABLE = 0x3b,
};

struct section {
	struct snap_bytes bytes;
	uint64_t address;
	bool is_eh;
	uint8_t *starts; /* a bit for every fourth byte */
};

static uint32_t word_at(struct snap_bytes bytes, uint64_t at)
{
	uint32_t word;

	memcpy(&word, bytes.data + at, sizeof(word));
	return word;
}

static bool is_start(const struct section *section, uint64_t at)
{
	return at < section->bytes.size && at % 4 == 0 &&
	       section->starts[at / 32] >> (at / 4 % 8) & 1;
}

/* The CIE of the entry at `at`, itself if it is one. */
static uint64_t cie_of(const struct section *section, uint64_t at)
{
	uint32_t id = word_at(section->bytes, at + 4);

	if (section->is_eh)
		return id ? at + 4 - id : at;
	return id == UINT32_MAX ? at : id;
}

/* Goes through the entries in their order; what lies behind a terminator is no entry. */
static bool mark_starts(const struct section *section)
{
	uint64_t at = 0;

	while (section->bytes.size - at >= 8) {
		uint32_t length = word_at(section->bytes, at);

		if (length == 0)
			break;
		if (length > LONGEST || length > section->bytes.size - at - 4)
			return false;
		section->starts[at / 32] |= (uint8_t)(1u << at / 4 % 8);
		if (length < 4 || length % 4 != 0 || !is_start(section, cie_of(section, at)))
			return false;
		at += 4 + (uint64_t)length;
	}
	return true;
}

/* version, three encodings, the address of .eh_frame, a count, then pairs relative to the table. */
static bool check_table(const struct section *section, struct snap_bytes table, uint64_t address)
{
	uint64_t count;

	if (table.size < 12)
		return true;
	if (table.data[1] != ENCODING_POINTER || table.data[2] != ENCODING_COUNT ||
	    table.data[3] != ENCODING_TABLE)
		return false;
	if (address + 4 + (uint64_t)(int32_t)word_at(table, 4) != section->address)
		return false;
	count = word_at(table, 8);
	if (count > (table.size - 12) / 8)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		int32_t entry = (int32_t)word_at(table, 12 + 8 * i + 4);

		if (!is_start(section, address + (uint64_t)(int64_t)entry - section->address))
			return false;
	}
	return true;
}

/* By section and by segment: whichever libdw takes. */
static bool check_tables(struct snap_image *image, const struct section *section)
{
	uint64_t address;

	if (snap_image_section_address(image, ".eh_frame_hdr", &address) &&
	    !check_table(section, snap_image_section(image, ".eh_frame_hdr"), address))
		return false;
	return !snap_image_segment(image, PT_GNU_EH_FRAME, &address) ||
	       check_table(section, snap_image_at(image, address), address);
}

/* Without sections, the table of the segment says where .eh_frame lies. */
static bool find(struct snap_image *image, const char *name, struct section *section)
{
	uint64_t table;
	struct snap_bytes bytes;

	section->is_eh = strcmp(name, ".eh_frame") == 0;
	if (snap_image_section_address(image, name, &section->address)) {
		section->bytes = snap_image_section(image, name);
		return true;
	}
	if (!section->is_eh || !snap_image_segment(image, PT_GNU_EH_FRAME, &table))
		return false;
	bytes = snap_image_at(image, table);
	if (bytes.size < 12 || bytes.data[1] != ENCODING_POINTER)
		return false;
	section->address = table + 4 + (uint64_t)(int64_t)(int32_t)word_at(bytes, 4);
	section->bytes = snap_image_at(image, section->address);
	return true;
}

bool snap_cfi_is_bounded(struct snap_image *image, const char *name)
{
	struct section section = { 0 };
	bool is_bounded;

	if (!find(image, name, &section))
		return true;
	if (section.bytes.size <= LONGEST)
		return true;
	section.starts = calloc(section.bytes.size / 32 + 1, 1);
	if (!section.starts)
		return false;
	is_bounded = mark_starts(&section) && (!section.is_eh || check_tables(image, &section));
	free(section.starts);
	return is_bounded;
}
