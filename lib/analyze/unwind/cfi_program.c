/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Looks through unwind programs: see cfi_program.h. A program is found as libdw finds it: by the
 * search table in .eh_frame_hdr, entry for entry; where there is none libdw reads all entries in
 * turn, so all are looked through, once.
 */
#include "analyze/unwind/cfi_program.h"

#include "analyze/elf/cursor.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <string.h>

enum {
	MAX_REGISTERS = 512,  /* no processor has so many */
	MAX_REMEMBERED = 256, /* states of one program */
	TABLE_HEAD = 12,
	TABLE_ENTRY = 8,
	POINTER_SDATA4 = DW_EH_PE_pcrel | DW_EH_PE_sdata4,
	TABLE_ENCODING = DW_EH_PE_datarel | DW_EH_PE_sdata4,
	OPCODE_HIGH = 0xc0,
};

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

/* Where the file has what the segment is about, as its header says: that is where libdw looks. */
static uint64_t segment_offset(struct snap_image *image, uint64_t vaddr)
{
	struct snap_bytes bytes = snap_image_bytes(image);
	Elf64_Ehdr header;

	if (bytes.size < sizeof(header))
		return UINT64_MAX;
	memcpy(&header, bytes.data, sizeof(header));
	for (size_t i = 0; i < header.e_phnum; i++) {
		struct snap_cursor cursor =
			snap_cursor_at(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
		Elf64_Phdr segment;

		if (cursor.failed || snap_cursor_left(&cursor) < sizeof(segment))
			break;
		memcpy(&segment, cursor.p, sizeof(segment));
		if (segment.p_type == PT_GNU_EH_FRAME)
			return segment.p_vaddr == vaddr ? segment.p_offset : UINT64_MAX;
	}
	return UINT64_MAX;
}

/* .eh_frame and its table by .eh_frame_hdr. */
static enum snap_cfi_lookup read_header(struct snap_cfi_programs *check, uint64_t vaddr)
{
	struct snap_bytes bytes = snap_image_at(check->image, vaddr);
	const uint8_t *file = snap_image_bytes(check->image).data;
	uint64_t offset = segment_offset(check->image, vaddr), count;
	struct snap_cursor cursor = snap_cursor_at(bytes, 0);
	uint32_t forms = snap_cursor_u32(&cursor);
	int64_t distance = 4 + (int64_t)(int32_t)snap_cursor_u32(&cursor);

	check->frames_vaddr = vaddr + (uint64_t)distance;
	check->frames = snap_image_at(check->image, check->frames_vaddr);
	/* What libdw will read is what is looked at. */
	if (cursor.failed || (forms & 0xffff) != (POINTER_SDATA4 << 8 | 1) || !check->frames.size ||
	    (uint64_t)(bytes.data - file) != offset ||
	    (uint64_t)(check->frames.data - file) != offset + (uint64_t)distance)
		return SNAP_CFI_REFUSED;
	if (forms >> 24 == DW_EH_PE_omit)
		return is_whole_fine(check) ? SNAP_CFI_WHOLE : SNAP_CFI_REFUSED;
	count = snap_cursor_u32(&cursor);
	if ((forms >> 16 & 0xff) != DW_EH_PE_udata4 || forms >> 24 != TABLE_ENCODING ||
	    cursor.failed || count > snap_cursor_left(&cursor) / TABLE_ENTRY)
		return SNAP_CFI_REFUSED;
	check->table = (struct snap_bytes){ cursor.p, count * TABLE_ENTRY };
	check->table_vaddr = vaddr;
	return SNAP_CFI_TABLE;
}

/* The number of the one section that begins at an offset; SIZE_MAX: none does, or several do. */
static size_t section_at(struct snap_image *image, uint64_t offset)
{
	struct snap_bytes bytes = snap_image_bytes(image);
	size_t found = SIZE_MAX;
	Elf64_Ehdr header;

	if (bytes.size < sizeof(header))
		return SIZE_MAX;
	memcpy(&header, bytes.data, sizeof(header));
	for (size_t i = 0; i < header.e_shnum; i++) {
		struct snap_cursor cursor =
			snap_cursor_at(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
		Elf64_Shdr section;

		if (cursor.failed || snap_cursor_left(&cursor) < sizeof(section))
			break;
		memcpy(&section, cursor.p, sizeof(section));
		if (section.sh_offset != offset || section.sh_size == 0)
			continue;
		if (found != SIZE_MAX)
			return SIZE_MAX;
		found = i;
	}
	return found;
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
	       vaddr == check->table_vaddr && frames_vaddr == check->frames_vaddr &&
	       section.data == check->frames.data && head.data &&
	       head.data + TABLE_HEAD == check->table.data &&
	       head.size >= TABLE_HEAD + check->table.size &&
	       section_at(check->image, (uint64_t)(head.data - file)) <
		       section_at(check->image, (uint64_t)(section.data - file)) &&
	       section_at(check->image, (uint64_t)(section.data - file)) != SIZE_MAX;
}

static bool is_section_fine(const struct snap_cfi_programs *check, struct snap_bytes section)
{
	struct snap_cfi_programs whole = *check;

	whole.frames = section;
	return is_whole_fine(&whole);
}

static void prepare(struct snap_cfi_programs *check)
{
	const char *name = check->is_eh_frame ? ".eh_frame" : ".debug_frame";
	struct snap_bytes section = snap_image_section(check->image, name);
	uint64_t vaddr;

	check->tried = true;
	if (!check->is_eh_frame || !snap_image_segment(check->image, PT_GNU_EH_FRAME, &vaddr)) {
		/* A table that only the sections tell of: no linker makes such a file. */
		if (check->is_eh_frame &&
		    snap_image_section_address(check->image, ".eh_frame_hdr", &vaddr))
			return;
		if (is_section_fine(check, section))
			check->lookup = SNAP_CFI_WHOLE;
		return;
	}
	check->lookup = read_header(check, vaddr);
	/* Where it is not clear which way libdw goes, both have to be fine. */
	if (section.size && check->lookup != SNAP_CFI_REFUSED &&
	    !(check->lookup == SNAP_CFI_TABLE && is_table_used(check, section)) &&
	    !is_section_fine(check, section))
		check->lookup = SNAP_CFI_REFUSED;
}

static uint64_t table_number(const struct snap_cfi_programs *check, size_t index, size_t which)
{
	struct snap_cursor cursor =
		snap_cursor_at(check->table, index * TABLE_ENTRY + which * sizeof(uint32_t));

	return check->table_vaddr + (uint64_t)(int64_t)(int32_t)snap_cursor_u32(&cursor);
}

/* As in libdw (binary_search_fde), so that a table out of order leads to the same entry. */
static bool find_entry(const struct snap_cfi_programs *check, uint64_t vaddr, size_t *ret)
{
	size_t count = check->table.size / TABLE_ENTRY, low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (vaddr < table_number(check, middle, 0)) {
			high = middle;
		} else if (low + 1 < count && middle + 1 < count &&
			   vaddr >= table_number(check, middle + 1, 0)) {
			low = middle + 1;
		} else {
			*ret = middle;
			return true;
		}
	}
	return false;
}

uint64_t snap_cfi_program_before(const struct snap_cfi_programs *check, uint64_t vaddr)
{
	size_t index;

	if (check->lookup != SNAP_CFI_TABLE || !find_entry(check, vaddr, &index))
		return 0;
	return table_number(check, index, 0) <= vaddr ? table_number(check, index, 0) + 1 : 0;
}

bool snap_cfi_program_is_bounded(struct snap_cfi_programs *check, uint64_t vaddr)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;
	size_t index;

	if (!check->tried)
		prepare(check);
	if (check->lookup != SNAP_CFI_TABLE)
		return check->lookup == SNAP_CFI_WHOLE;
	if (!find_entry(check, vaddr, &index) ||
	    !next_entry(check, table_number(check, index, 1) - check->frames_vaddr, &next,
			&entry) ||
	    dwarf_cfi_cie_p(&entry))
		return true;
	return is_fde_fine(check, &entry.fde);
}
