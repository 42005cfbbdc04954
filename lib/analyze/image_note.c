/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Build ids: the GNU note that names a build, in a whole file or in a module's captured first page.
 * Knows notes (elf(5)) and nothing else.
 */
#include "analyze/image_inside.h"

#include <string.h>

enum { MAX_HEAD_SEGMENTS = 256 };

static uint64_t round_up(uint64_t value, uint64_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

struct snap_bytes snap_image_find_note(struct snap_bytes notes, uint64_t alignment)
{
	static const char gnu[] = "GNU";
	uint64_t at = 0;

	/* Only 8 means 8: old linkers wrote 0, 1 and 16 where 4 was meant. */
	alignment = alignment == 8 ? 8 : 4;
	while (range_fits(at, sizeof(Elf64_Nhdr), notes.size)) {
		uint64_t name, bytes;
		Elf64_Nhdr note;

		memcpy(&note, notes.data + at, sizeof(note));
		name = at + sizeof(note);
		bytes = round_up(name + note.n_namesz, alignment);
		if (!range_fits(bytes, note.n_descsz, notes.size))
			break;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(gnu) &&
		    memcmp(notes.data + name, gnu, sizeof(gnu)) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= SNAP_MAX_BUILD_ID)
			return (struct snap_bytes){ notes.data + bytes, note.n_descsz };
		at = round_up(bytes + note.n_descsz, alignment);
	}
	return (struct snap_bytes){ 0 };
}

static struct snap_bytes segment_note(struct snap_bytes file, const Elf64_Phdr *segment)
{
	if (segment->p_type != PT_NOTE ||
	    !range_fits(segment->p_offset, segment->p_filesz, file.size))
		return (struct snap_bytes){ 0 };
	return snap_image_find_note(
		(struct snap_bytes){ file.data + segment->p_offset, segment->p_filesz },
		segment->p_align);
}

/* Segments first: they are what is mapped. A debug file's may be empty, its sections are not. */
static struct snap_bytes find_build_id(struct snap_image *image)
{
	struct snap_bytes file = snap_image_bytes(image), found = { 0 };

	for (size_t i = 0; i < image->segment_count && found.size == 0; i++)
		found = segment_note(file, &image->segments[i]);
	for (size_t i = 0; i < image->section_count && found.size == 0; i++)
		if (image->sections[i].sh_type == SHT_NOTE)
			found = snap_image_find_note(snap_image_section_at(image, i),
						     image->sections[i].sh_addralign);
	return found;
}

void snap_image_load_build_id(struct snap_image *image)
{
	struct snap_bytes found = find_build_id(image);

	if (found.size == 0)
		return;
	memcpy(image->build_id, found.data, found.size);
	image->build_id_size = found.size;
}

struct snap_bytes snap_image_build_id_of_head(const void *head, size_t size)
{
	struct snap_bytes bytes = { head, size }, found = { 0 };
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (size < sizeof(header))
		return found;
	memcpy(&header, head, sizeof(header));
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_phentsize != sizeof(segment) || header.e_phnum > MAX_HEAD_SEGMENTS ||
	    !range_fits(header.e_phoff, header.e_phnum * sizeof(segment), size))
		return found;
	for (size_t i = 0; i < header.e_phnum && found.size == 0; i++) {
		memcpy(&segment, bytes.data + header.e_phoff + i * sizeof(segment),
		       sizeof(segment));
		found = segment_note(bytes, &segment);
	}
	return found;
}
