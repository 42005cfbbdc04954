/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Image: the ELF header, the segments and the build id of a file, or of a module's captured first
 * page; see image.h. The section table is in image_section.c.
 *
 * Only 64-bit little-endian images are accepted: another word size needs another unwinder.
 */
#include "analyze/elf/internal.h"

#include "base/bytes.h"

#include <errno.h>
#include <libelf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MAX_SEGMENTS = 4096,
	MAX_HEAD_SEGMENTS = 256, /* in a captured first page */
};

static struct stacksnap_error *check_header(const Elf64_Ehdr *header)
{
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return snap_error_format(SNAP_ERROR_FORMAT, "not an ELF file");
	if (header->e_ident[EI_CLASS] == ELFCLASS32)
		return snap_error_format(SNAP_ERROR_FORMAT, "a 32-bit ELF file");
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
		return snap_error_format(SNAP_ERROR_FORMAT, "not a 64-bit little-endian ELF file");
	if (header->e_type != ET_EXEC && header->e_type != ET_DYN && header->e_type != ET_REL &&
	    header->e_type != ET_CORE)
		return snap_error_format(SNAP_ERROR_FORMAT, "an ELF file of unknown type");
	return NULL;
}

/* The number of program headers; the section 0 holds it when it does not fit (elf(5)). */
static size_t count_segments(const struct snap_image *image)
{
	const Elf64_Ehdr *header = &image->header;
	Elf64_Shdr first;

	if (header->e_phnum != PN_XNUM)
		return header->e_phnum;
	if (!range_fits(header->e_shoff, sizeof(first), image->size) || header->e_shoff == 0)
		return 0;
	memcpy(&first, image->data + header->e_shoff, sizeof(first));
	return first.sh_info;
}

static struct stacksnap_error *load_segments(struct snap_image *image)
{
	const Elf64_Ehdr *header = &image->header;
	size_t count = count_segments(image);

	if (count == 0)
		return NULL;
	if (header->e_phentsize != sizeof(Elf64_Phdr) || count > MAX_SEGMENTS ||
	    !range_fits(header->e_phoff, count * sizeof(Elf64_Phdr), image->size))
		return snap_error_format(SNAP_ERROR_FORMAT, "corrupt ELF program headers");
	image->segments = calloc(count, sizeof(Elf64_Phdr));
	SNAP_TRY(snap_no_memory_unless(image->segments));
	memcpy(image->segments, image->data + header->e_phoff, count * sizeof(Elf64_Phdr));
	image->segment_count = count;
	return NULL;
}

/* ---- build ids: the GNU note that names a build ---- */

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
		bytes = snap_round_up(name + note.n_namesz, alignment);
		if (!range_fits(bytes, note.n_descsz, notes.size))
			break;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(gnu) &&
		    memcmp(notes.data + name, gnu, sizeof(gnu)) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= SNAP_MAX_BUILD_ID)
			return (struct snap_bytes){ notes.data + bytes, note.n_descsz };
		at = snap_round_up(bytes + note.n_descsz, alignment);
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

static void load_build_id(struct snap_image *image)
{
	struct snap_bytes found = find_build_id(image);

	if (found.size == 0)
		return;
	memcpy(image->build_id, found.data, found.size);
	image->build_id_size = found.size;
}

/* ---- open and close ---- */

static struct stacksnap_error *load_image(struct snap_image *image)
{
	if (image->size < sizeof(image->header))
		return snap_error_format(SNAP_ERROR_FORMAT, "not an ELF file");
	memcpy(&image->header, image->data, sizeof(image->header));
	SNAP_TRY(check_header(&image->header));
	SNAP_TRY(load_segments(image));
	SNAP_TRY(snap_image_load_sections(image));
	load_build_id(image);
	return NULL;
}

bool snap_image_has_magic(int fd)
{
	char magic[SELFMAG];
	ssize_t count = pread(fd, magic, sizeof(magic), 0);

	return count < 0 || (count == sizeof(magic) && memcmp(magic, ELFMAG, SELFMAG) == 0);
}

struct stacksnap_error *snap_image_open(int fd, struct snap_image **ret)
{
	_cleanup_(snap_image_closep) struct snap_image *image = calloc(1, sizeof(*image));
	struct stat status;
	void *data;

	SNAP_TRY(snap_no_memory_unless(image));
	if (fstat(fd, &status) < 0)
		return snap_error_os(errno, "cannot stat the file");
	if (!S_ISREG(status.st_mode))
		return snap_error_format(SNAP_ERROR_FORMAT, "not a regular file");
	if (status.st_size < (off_t)sizeof(Elf64_Ehdr))
		return snap_error_format(SNAP_ERROR_FORMAT, "not an ELF file");
	data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return snap_error_os(errno, "cannot map the file");
	image->data = data;
	image->size = (size_t)status.st_size;
	image->is_mapped = true;
	image->dev = status.st_dev;
	image->inode = status.st_ino;
	SNAP_TRY(load_image(image));
	*ret = snap_take_ptr(image);
	return NULL;
}

struct stacksnap_error *snap_image_open_memory(const void *bytes, size_t size,
					       struct snap_image **ret)
{
	_cleanup_(snap_image_closep) struct snap_image *image = calloc(1, sizeof(*image));

	SNAP_TRY(snap_no_memory_unless(image));
	image->data = bytes;
	image->size = size;
	SNAP_TRY(load_image(image));
	*ret = snap_take_ptr(image);
	return NULL;
}

void snap_image_close(struct snap_image *image)
{
	if (!image)
		return;
	if (image->elf)
		elf_end(image->elf);
	if (image->is_mapped)
		munmap((void *)image->data, image->size);
	for (size_t i = 0; image->section_bytes && i < image->section_count; i++)
		free(image->section_bytes[i].unpacked);
	free(image->segments);
	free(image->sections);
	free(image->section_bytes);
	free(image);
}

/* The loadable segment that holds an address, NULL if none. */
static const Elf64_Phdr *segment_of(const struct snap_image *image, uint64_t vaddr)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD && vaddr >= segment->p_vaddr &&
		    vaddr - segment->p_vaddr < segment->p_memsz)
			return segment;
	}
	return NULL;
}

/* A truncated file still has what is left of it. */
struct snap_bytes snap_image_at(const struct snap_image *image, uint64_t vaddr)
{
	const Elf64_Phdr *segment = segment_of(image, vaddr);
	uint64_t into, size;

	if (!segment || segment->p_offset > image->size)
		return (struct snap_bytes){ 0 };
	into = vaddr - segment->p_vaddr;
	size = image->size - segment->p_offset;
	if (size > segment->p_filesz)
		size = segment->p_filesz;
	if (into >= size)
		return (struct snap_bytes){ 0 };
	return (struct snap_bytes){ image->data + segment->p_offset + into, size - into };
}

bool snap_image_code_segment(const struct snap_image *image, uint64_t vaddr, uint64_t *ret)
{
	const Elf64_Phdr *segment = segment_of(image, vaddr);

	if (!segment || !(segment->p_flags & PF_X))
		return false;
	*ret = segment->p_vaddr;
	return true;
}

bool snap_image_is_constant(const struct snap_image *image, uint64_t vaddr)
{
	const Elf64_Phdr *segment = segment_of(image, vaddr);

	return segment && !(segment->p_flags & PF_W);
}

static bool begins_at(const Elf64_Phdr *segment, uint64_t offset, uint64_t page)
{
	return (segment->p_offset & ~(page - 1)) == offset;
}

/* How well a mapping of `offset` fits a segment, 0: not at all. Larger pages are the rarer case. */
static int rank_segment(const Elf64_Phdr *segment, uint64_t offset)
{
	int executable = segment->p_flags & PF_X ? 1 : 0;

	if (segment->p_type != PT_LOAD)
		return 0;
	if (begins_at(segment, offset, SNAP_PAGE))
		return 6 + executable;
	if (offset >= segment->p_offset && offset - segment->p_offset < segment->p_filesz)
		return 4 + executable;
	return begins_at(segment, offset, SNAP_MOST_PAGE) ? 2 + executable : 0;
}

/*
 * Two segments may share a page of the file, which is then mapped twice. Where that leaves a
 * choice, the executable one is meant: callers pass the executable mapping.
 */
static bool bias_of_segments(const Elf64_Phdr *segments, size_t count, uint64_t start,
			     uint64_t offset, uint64_t *ret)
{
	const Elf64_Phdr *best = NULL;
	int best_rank = 0;

	for (size_t i = 0; i < count; i++) {
		int rank = rank_segment(&segments[i], offset);

		if (rank > best_rank) {
			best = &segments[i];
			best_rank = rank;
		}
	}
	if (!best)
		return false;
	*ret = (start - offset) - (best->p_vaddr - best->p_offset);
	return true;
}

bool snap_image_bias(const struct snap_image *image, uint64_t start, uint64_t offset, uint64_t *ret)
{
	return bias_of_segments(image->segments, image->segment_count, start, offset, ret);
}

bool snap_image_identity(const struct snap_image *image, uint64_t *dev_ret, uint64_t *inode_ret)
{
	if (!image->is_mapped)
		return false;
	*dev_ret = image->dev;
	*inode_ret = image->inode;
	return true;
}

uint64_t snap_image_entry(const struct snap_image *image)
{
	return image->header.e_entry;
}

uint16_t snap_image_machine(const struct snap_image *image)
{
	return image->header.e_machine;
}

bool snap_image_segment(const struct snap_image *image, uint32_t type, uint64_t *vaddr_ret,
			uint64_t *offset_ret)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		if (image->segments[i].p_type != type || image->segments[i].p_filesz == 0)
			continue;
		*vaddr_ret = image->segments[i].p_vaddr;
		*offset_ret = image->segments[i].p_offset;
		return true;
	}
	return false;
}

uint64_t snap_image_first_code(const struct snap_image *image)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < image->segment_count; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
		    segment->p_vaddr < first)
			first = segment->p_vaddr;
	}
	return first == UINT64_MAX || first == 0 ? 1 : first;
}

struct snap_bytes snap_image_build_id(const struct snap_image *image)
{
	return (struct snap_bytes){ image->build_id, image->build_id_size };
}

/* Where libelf or we wrote into a table, nothing may go back to what it was. */
static bool holds_table(const struct snap_image *image, uint64_t from, uint64_t to)
{
	uint64_t sections = image->header.e_shoff, segments = image->header.e_phoff;

	return (sections < to && from < sections + image->section_count * sizeof(Elf64_Shdr)) ||
	       (segments < to && from < segments + image->segment_count * sizeof(Elf64_Phdr));
}

void snap_image_let_go(const struct snap_image *image, struct snap_bytes bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)image->data;
	uintptr_t from = snap_round_up((uintptr_t)bytes.data, page);
	uintptr_t to = ((uintptr_t)bytes.data + bytes.size) & ~(page - 1);

	if (!image->is_mapped || bytes.size == 0 || from >= to || from < base ||
	    to - base > image->size || holds_table(image, from - base, to - base))
		return;
	madvise((void *)from, to - from, MADV_DONTNEED);
}

struct snap_bytes snap_image_bytes(const struct snap_image *image)
{
	return (struct snap_bytes){ image->data, image->size };
}

/* ---- the first page of a module as captured from memory ---- */

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

	return bias_of_segments(segments, count, start, offset, ret);
}
