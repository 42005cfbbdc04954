/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks call frame information before libdw reads it: see cfi_check.h.
 *
 * A pointer can lead anywhere into a section: an entry points to its CIE, the search table to an
 * entry. So the starts of the entries are marked by reading the section in order, and no pointer
 * may lead elsewhere. A program is found as libdw finds it: by the search table in .eh_frame_hdr,
 * entry for entry. Without that table libdw reads all entries in turn, so all are checked, once.
 */
#include "analyze/unwind/cfi_check.h"

#include "analyze/elf/cursor.h"
#include "base/bytes.h"
#include "base/cleanup.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <string.h>

enum {
	MAX_REGISTERS = 512,  /* no processor has so many */
	MAX_REMEMBERED = 256, /* states of one program */
	/* Of an entry. The longest real ones, of generated functions, are a few ten thousands. */
	LONGEST_ENTRY = 1 << 18,
	HEADER_VERSION = 1,
	TABLE_HEAD = SNAP_FRAME_HEADER_SIZE,
	HEADER_SIZE = TABLE_HEAD - 4, /* without a table, which begins with a count */
	TABLE_ENTRY = 8,
	/* The only encodings that linkers write. */
	POINTER_ENCODING = DW_EH_PE_pcrel | DW_EH_PE_sdata4,
	COUNT_ENCODING = DW_EH_PE_udata4,
	TABLE_ENCODING = DW_EH_PE_datarel | DW_EH_PE_sdata4,
	OPCODE_HIGH = 0xc0,
};

/* ---- .eh_frame_hdr ---- */

bool snap_frame_header_read(struct snap_bytes bytes, uint64_t vaddr, struct snap_frame_header *ret)
{
	uint64_t count;

	*ret = (struct snap_frame_header){ .vaddr = vaddr };
	if (bytes.size < HEADER_SIZE || bytes.data[0] != HEADER_VERSION ||
	    bytes.data[1] != POINTER_ENCODING)
		return false;
	ret->frames_vaddr = vaddr + 4 + (uint64_t)(int64_t)(int32_t)snap_u32_at(bytes.data + 4);
	if (bytes.data[3] == DW_EH_PE_omit)
		return true;
	if (bytes.size < TABLE_HEAD || bytes.data[2] != COUNT_ENCODING ||
	    bytes.data[3] != TABLE_ENCODING)
		return false;
	count = snap_u32_at(bytes.data + HEADER_SIZE);
	if (count > (bytes.size - TABLE_HEAD) / TABLE_ENTRY)
		return false;
	ret->has_table = true;
	ret->table = (struct snap_bytes){ bytes.data + TABLE_HEAD, count * TABLE_ENTRY };
	return true;
}

bool snap_frame_header_find(const struct snap_image *image, struct snap_frame_header *ret)
{
	uint64_t vaddr, offset;

	return snap_image_segment(image, PT_GNU_EH_FRAME, &vaddr, &offset) &&
	       snap_frame_header_read(snap_image_at(image, vaddr), vaddr, ret);
}

void snap_frame_header_hide(struct snap_image *image)
{
	struct snap_frame_header header;

	if (!snap_frame_header_find(image, &header))
		snap_image_hide(image, ".eh_frame_hdr", PT_GNU_EH_FRAME);
}

/* The address that an entry of the table is about (0) or lies at (1). */
static uint64_t table_address(const struct snap_frame_header *header, size_t index, size_t which)
{
	uint32_t distance =
		snap_u32_at(header->table.data + index * TABLE_ENTRY + which * sizeof(distance));

	return header->vaddr + (uint64_t)(int64_t)(int32_t)distance;
}

/* ---- how long entries are ---- */

struct section {
	struct snap_bytes bytes;
	uint64_t address;
	bool is_eh;
	uint8_t *starts; /* a bit for every fourth byte */
};

static bool is_start(const struct section *section, uint64_t at)
{
	return at < section->bytes.size && at % 4 == 0 &&
	       section->starts[at / 32] >> (at / 4 % 8) & 1;
}

/* The CIE of the entry at `at`, itself if it is one. */
static uint64_t offset_of_cie(const struct section *section, uint64_t at)
{
	uint32_t id = snap_u32_at(section->bytes.data + at + 4);

	if (section->is_eh)
		return id ? at + 4 - id : at;
	return id == UINT32_MAX ? at : id;
}

/* Goes through the entries in their order; what lies behind a terminator is no entry. */
static bool mark_starts(const struct section *section)
{
	uint64_t at = 0;

	while (section->bytes.size - at >= 8) {
		uint32_t length = snap_u32_at(section->bytes.data + at);

		if (length == 0)
			break;
		if (length > LONGEST_ENTRY || length > section->bytes.size - at - 4)
			return false;
		section->starts[at / 32] |= (uint8_t)(1u << at / 4 % 8);
		if (length < 4 || length % 4 != 0 || !is_start(section, offset_of_cie(section, at)))
			return false;
		at += 4 + (uint64_t)length;
	}
	return true;
}

static bool is_table_fine(const struct section *section, struct snap_bytes bytes, uint64_t vaddr)
{
	struct snap_frame_header header;

	if (bytes.size < TABLE_HEAD)
		return true;
	if (!snap_frame_header_read(bytes, vaddr, &header) ||
	    header.frames_vaddr != section->address)
		return false;
	return snap_all(header.table.size / TABLE_ENTRY, i,
			is_start(section, table_address(&header, i, 1) - section->address));
}

/* By section and by segment: whichever libdw takes. */
static bool are_tables_fine(struct snap_image *image, const struct section *section)
{
	uint64_t vaddr, offset;

	if (snap_image_section_address(image, ".eh_frame_hdr", &vaddr) &&
	    !is_table_fine(section, snap_image_section(image, ".eh_frame_hdr"), vaddr))
		return false;
	return !snap_image_segment(image, PT_GNU_EH_FRAME, &vaddr, &offset) ||
	       is_table_fine(section, snap_image_at(image, vaddr), vaddr);
}

/* Without sections, the header that the segment names says where .eh_frame lies. */
static bool find_section(struct snap_image *image, const char *name, struct section *section)
{
	struct snap_frame_header header;

	section->is_eh = strcmp(name, ".eh_frame") == 0;
	if (snap_image_section_address(image, name, &section->address)) {
		section->bytes = snap_image_section(image, name);
		return true;
	}
	if (!section->is_eh || !snap_frame_header_find(image, &header))
		return false;
	section->address = header.frames_vaddr;
	section->bytes = snap_image_at(image, section->address);
	return true;
}

/* libdw takes the last header before .eh_frame, and .eh_frame as it lies in the file. */
static bool is_read_in_another_way(struct snap_image *image)
{
	struct snap_bytes bytes;
	size_t index = 0;

	return snap_image_packed_section(image, ".eh_frame").size > 0 ||
	       snap_image_packed_section(image, ".eh_frame_hdr").size > 0 ||
	       (snap_image_next_section(image, ".eh_frame_hdr", &index, &bytes) &&
		snap_image_next_section(image, ".eh_frame_hdr", &index, &bytes));
}

bool snap_cfi_is_bounded(struct snap_image *image, const char *name)
{
	struct section section = { 0 };
	bool is_bounded;

	if (strcmp(name, ".eh_frame") == 0 && is_read_in_another_way(image))
		return false;
	if (!find_section(image, name, &section) || section.bytes.size <= LONGEST_ENTRY)
		return true;
	section.starts = calloc(section.bytes.size / 32 + 1, 1);
	if (!section.starts)
		return false;
	is_bounded = mark_starts(&section) && (!section.is_eh || are_tables_fine(image, &section));
	free(section.starts);
	return is_bounded;
}

/* ---- what programs ask for ---- */

/* The operands of an instruction, a letter each: r register, u and s LEB, b block, 1 2 4 8 bytes.
 */
static const char *operands_of(uint8_t opcode)
{
	static const char *const operands[] = {
		[DW_CFA_nop] = "",
		[DW_CFA_set_loc] = "a",
		[DW_CFA_advance_loc1] = "1",
		[DW_CFA_advance_loc2] = "2",
		[DW_CFA_advance_loc4] = "4",
		[DW_CFA_offset_extended] = "ru",
		[DW_CFA_restore_extended] = "r",
		[DW_CFA_undefined] = "r",
		[DW_CFA_same_value] = "r",
		[DW_CFA_register] = "rr",
		[DW_CFA_remember_state] = "",
		[DW_CFA_restore_state] = "",
		[DW_CFA_def_cfa] = "ru",
		[DW_CFA_def_cfa_register] = "r",
		[DW_CFA_def_cfa_offset] = "u",
		[DW_CFA_def_cfa_expression] = "b",
		[DW_CFA_expression] = "rb",
		[DW_CFA_offset_extended_sf] = "rs",
		[DW_CFA_def_cfa_sf] = "rs",
		[DW_CFA_def_cfa_offset_sf] = "s",
		[DW_CFA_val_offset] = "ru",
		[DW_CFA_val_offset_sf] = "rs",
		[DW_CFA_val_expression] = "rb",
		[DW_CFA_MIPS_advance_loc8] = "8",
		[DW_CFA_GNU_window_save] = "",
		[DW_CFA_GNU_args_size] = "u",
		[DW_CFA_GNU_negative_offset_extended] = "ru",
	};

	if (opcode & OPCODE_HIGH)
		return (opcode & OPCODE_HIGH) == DW_CFA_offset ? "u" : "";
	return opcode < SNAP_ARRAY_SIZE(operands) ? operands[opcode] : NULL;
}

/* False: it names a register that there is not. */
static bool skip_operand(struct snap_cursor *cursor, char operand, unsigned address_size)
{
	switch (operand) {
	case 'r':
		return snap_cursor_uleb(cursor) < MAX_REGISTERS;
	case 'u':
	case 's':
		(void)snap_cursor_uleb(cursor);
		return true;
	case 'b':
		snap_cursor_skip(cursor, snap_cursor_uleb(cursor));
		return true;
	case 'a':
		snap_cursor_skip(cursor, address_size);
		return true;
	default:
		snap_cursor_skip(cursor, (uint64_t)(operand - '0'));
		return true;
	}
}

/* What libdw does not understand ends the program for both. */
static bool is_program_fine(const uint8_t *at, const uint8_t *end, unsigned address_size)
{
	struct snap_cursor cursor = { at, end, false };
	unsigned remembered = 0;

	while (cursor.p < cursor.end) {
		uint8_t opcode = snap_cursor_u8(&cursor);
		const char *operands = operands_of(opcode);

		if (!operands)
			return true;
		if (opcode == DW_CFA_remember_state && ++remembered > MAX_REMEMBERED)
			return false;
		for (; *operands; operands++)
			if (!skip_operand(&cursor, *operands, address_size))
				return false;
	}
	return true;
}

/* Bytes of an encoded pointer; 0: a form that compilers do not write. */
static unsigned pointer_size(uint8_t encoding)
{
	switch (encoding & 0x07) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
		return 8;
	case DW_EH_PE_udata4:
		return 4;
	case DW_EH_PE_udata2:
		return 2;
	default:
		return 0;
	}
}

/* How the addresses in the FDEs of a CIE are written; false: in no way that is known here. */
static bool read_augmentation(const Dwarf_CIE *cie, unsigned *size_ret, bool *has_length_ret)
{
	const char *letter = cie->augmentation;
	const uint8_t *data = cie->augmentation_data;
	size_t left = cie->augmentation_data_size;

	*size_ret = 8;
	*has_length_ret = *letter == 'z';
	if (!*letter)
		return true;
	if (*letter != 'z' || !data)
		return false;
	for (letter++; *letter; letter++) {
		size_t size = *letter == 'R' || *letter == 'L' ? 1 : 0;

		if (*letter == 'P')
			size = left ? 1 + pointer_size(*data) : 1;
		else if (size == 0 && *letter != 'S' && *letter != 'B')
			return false;
		if (size > left || (*letter == 'P' && size == 1))
			return false;
		if (*letter == 'R')
			*size_ret = pointer_size(*data);
		data += size;
		left -= size;
	}
	return *size_ret != 0;
}

static bool next_entry(const struct snap_cfi_programs *check, uint64_t offset, Dwarf_Off *next_ret,
		       Dwarf_CFI_Entry *ret)
{
	struct snap_bytes bytes = snap_image_bytes(check->image);
	Elf_Data data = { .d_buf = (void *)(uintptr_t)check->frames.data,
			  .d_type = ELF_T_BYTE,
			  .d_version = EV_CURRENT,
			  .d_size = check->frames.size };

	return offset < check->frames.size &&
	       dwarf_next_cfi(bytes.data, &data, check->is_eh_frame, offset, next_ret, ret) == 0;
}

/* The program of an FDE and that of its CIE. */
static bool is_fde_fine(const struct snap_cfi_programs *check, const Dwarf_FDE *fde)
{
	struct snap_cursor cursor = { fde->start, fde->end, false };
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;
	unsigned size;
	bool has_length;

	/* libdw finds no rule either. */
	if (!next_entry(check, fde->CIE_pointer, &next, &entry) || !dwarf_cfi_cie_p(&entry))
		return true;
	if (!read_augmentation(&entry.cie, &size, &has_length))
		return false;
	snap_cursor_skip(&cursor, 2ull * size);
	if (has_length)
		snap_cursor_skip(&cursor, snap_cursor_uleb(&cursor));
	return is_program_fine(entry.cie.initial_instructions, entry.cie.initial_instructions_end,
			       size) &&
	       is_program_fine(cursor.p, cursor.end, size);
}

/* Entry by entry; what is wrong with one is no reason for libdw not to go on to the next. */
static bool is_whole_fine(const struct snap_cfi_programs *check)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next = 0;

	for (uint64_t at = 0; at < check->frames.size; at = next) {
		next = at;
		if (next_entry(check, at, &next, &entry) && !dwarf_cfi_cie_p(&entry) &&
		    !is_fde_fine(check, &entry.fde))
			return false;
		if (next <= at)
			break;
	}
	return true;
}

/* ---- the search table ---- */

/*
 * .eh_frame and its table as libdw takes them: at the place of the file that the segment names, and
 * so far behind it as the header says.
 */
static enum snap_cfi_lookup read_cfi_header(struct snap_cfi_programs *check, uint64_t vaddr,
					    uint64_t offset)
{
	struct snap_bytes bytes = snap_image_at(check->image, vaddr);
	const uint8_t *file = snap_image_bytes(check->image).data;
	struct snap_frame_header *header = &check->header;

	if (!snap_frame_header_read(bytes, vaddr, header))
		return SNAP_CFI_REFUSED;
	check->frames = snap_image_at(check->image, header->frames_vaddr);
	/* What libdw will read is what is looked at. */
	if (!check->frames.size || (uint64_t)(bytes.data - file) != offset ||
	    (uint64_t)(check->frames.data - file) != offset + (header->frames_vaddr - vaddr))
		return SNAP_CFI_REFUSED;
	if (header->has_table)
		return SNAP_CFI_TABLE;
	return is_whole_fine(check) ? SNAP_CFI_WHOLE : SNAP_CFI_REFUSED;
}

/*
 * Whether libdw takes the table that the segment names: it goes by sections where there are some,
 * and by a table only if that comes before the section it is about.
 */
static bool is_table_used(const struct snap_cfi_programs *check, struct snap_bytes section)
{
	const uint8_t *file = snap_image_bytes(check->image).data;
	struct snap_bytes head = snap_image_section(check->image, ".eh_frame_hdr");
	uint64_t vaddr, frames_vaddr;

	return snap_image_section_address(check->image, ".eh_frame_hdr", &vaddr) &&
	       snap_image_section_address(check->image, ".eh_frame", &frames_vaddr) &&
	       vaddr == check->header.vaddr && frames_vaddr == check->header.frames_vaddr &&
	       section.data == check->frames.data && head.data &&
	       head.data + TABLE_HEAD == check->header.table.data &&
	       head.size >= TABLE_HEAD + check->header.table.size &&
	       snap_image_section_at_offset(check->image, (uint64_t)(head.data - file)) <
		       snap_image_section_at_offset(check->image,
						    (uint64_t)(section.data - file)) &&
	       snap_image_section_at_offset(check->image, (uint64_t)(section.data - file)) !=
		       SIZE_MAX;
}

static bool is_section_fine(const struct snap_cfi_programs *check, struct snap_bytes section)
{
	struct snap_cfi_programs whole = *check;

	whole.frames = section;
	return is_whole_fine(&whole);
}

static void prepare_programs(struct snap_cfi_programs *check)
{
	const char *name = check->is_eh_frame ? ".eh_frame" : ".debug_frame";
	struct snap_bytes section = snap_image_section(check->image, name);
	uint64_t vaddr, offset;

	check->tried = true;
	if (!check->is_eh_frame ||
	    !snap_image_segment(check->image, PT_GNU_EH_FRAME, &vaddr, &offset)) {
		/* A table that only the sections tell of: no linker makes such a file. */
		if (check->is_eh_frame &&
		    snap_image_section_address(check->image, ".eh_frame_hdr", &vaddr))
			return;
		if (is_section_fine(check, section))
			check->lookup = SNAP_CFI_WHOLE;
		return;
	}
	check->lookup = read_cfi_header(check, vaddr, offset);
	/* Where it is not clear which way libdw goes, both have to be fine. */
	if (section.size && check->lookup != SNAP_CFI_REFUSED &&
	    !(check->lookup == SNAP_CFI_TABLE && is_table_used(check, section)) &&
	    !is_section_fine(check, section))
		check->lookup = SNAP_CFI_REFUSED;
}

/* As in libdw (binary_search_fde), so that a table out of order leads to the same entry. */
static bool find_entry(const struct snap_cfi_programs *check, uint64_t vaddr, size_t *ret)
{
	size_t count = check->header.table.size / TABLE_ENTRY, low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (vaddr < table_address(&check->header, middle, 0)) {
			high = middle;
		} else if (low + 1 < count && middle + 1 < count &&
			   vaddr >= table_address(&check->header, middle + 1, 0)) {
			low = middle + 1;
		} else {
			*ret = middle;
			return true;
		}
	}
	return false;
}

uint64_t snap_cfi_function_before(const struct snap_cfi_programs *check, uint64_t vaddr)
{
	size_t index;

	if (check->lookup != SNAP_CFI_TABLE || !find_entry(check, vaddr, &index))
		return 0;
	return table_address(&check->header, index, 0) <= vaddr
		       ? table_address(&check->header, index, 0) + 1
		       : 0;
}

bool snap_cfi_program_is_bounded(struct snap_cfi_programs *check, uint64_t vaddr)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;
	size_t index;

	if (!check->tried)
		prepare_programs(check);
	if (check->lookup != SNAP_CFI_TABLE)
		return check->lookup == SNAP_CFI_WHOLE;
	if (!find_entry(check, vaddr, &index) ||
	    !next_entry(check, table_address(&check->header, index, 1) - check->header.frames_vaddr,
			&next, &entry) ||
	    dwarf_cfi_cie_p(&entry))
		return true;
	return is_fde_fine(check, &entry.fde);
}
