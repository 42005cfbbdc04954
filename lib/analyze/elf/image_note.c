/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Build ids: the GNU note that names a build, in a whole file or in a module's captured first page;
 * and what else that page alone can tell, where it was mapped. Knows nothing of sections' contents
 * but notes (elf(5)).
 */
#include "analyze/elf/image_internal.h"

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

/*
 * Copies the program headers out of a captured first page: they may lie at an odd address. The
 * number of them; 0: it is no ELF file of ours, or they go on behind the page.
 */
static size_t head_segments(struct snap_bytes head, Elf64_Phdr segments[MAX_HEAD_SEGMENTS])
{
	Elf64_Ehdr header;

	if (head.size < sizeof(header))
		return 0;
	memcpy(&header, head.data, sizeof(header));
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_phentsize != sizeof(*segments) || header.e_phnum > MAX_HEAD_SEGMENTS ||
	    !range_fits(header.e_phoff, header.e_phnum * sizeof(*segments), head.size))
		return 0;
	memcpy(segments, head.data + header.e_phoff, header.e_phnum * sizeof(*segments));
	return header.e_phnum;
}

struct snap_bytes snap_image_build_id_of_head(const void *head, size_t size)
{
	struct snap_bytes bytes = { head, size }, found = { 0 };
	Elf64_Phdr segments[MAX_HEAD_SEGMENTS];
	size_t count = head_segments(bytes, segments);

	for (size_t i = 0; i < count && found.size == 0; i++)
		found = segment_note(bytes, &segments[i]);
	return found;
}

bool snap_image_bias_of_head(const void *head, size_t size, uint64_t start, uint64_t offset,
			     uint64_t *ret)
{
	Elf64_Phdr segments[MAX_HEAD_SEGMENTS];
	size_t count = head_segments((struct snap_bytes){ head, size }, segments);

	return snap_image_bias_of_segments(segments, count, start, offset, ret);
}
