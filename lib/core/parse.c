/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Headers and notes of a core: see core.h. Each is read once, at its place, and no more than the
 * caps allow: a core says how long everything in it is, and may lie. What a note means is notes.c,
 * how mappings come of it maps.c.
 */
#include "base/buffer.h"
#include "base/bytes.h"
#include "core/notes.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
	MOST_NOTE_SEGMENTS = 16,
	MOST_NOTES = 1 << 24,
	HEADERS_AT_ONCE = 256,
	WINDOW = 1 << 16,
	NOTE_ALIGNMENT = 4,
};

/* Where notes are. */
struct note_segment {
	uint64_t offset, size;
};

/* A file that is read a little at a time. */
struct window {
	int fd;
	uint64_t start, size; /* what of the file is in `bytes` */
	uint8_t bytes[WINDOW];
};

struct parsing {
	struct snap_core *core;
	struct snap_core_notes notes;
	struct window window;
	uint64_t file_size;
	struct note_segment note_segments[MOST_NOTE_SEGMENTS];
	size_t note_segment_count;
};

static void parsing_destroyp(struct parsing **parsing)
{
	if (*parsing)
		snap_core_notes_deinit(&(*parsing)->notes);
	free(*parsing);
}

void snap_core_deinit(struct snap_core *core)
{
	snap_capture_destroy(core->capture);
	*core = (struct snap_core){ .capture = NULL };
}

bool snap_core_is_core(const void *bytes, size_t size)
{
	return size >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0;
}

/* `size` bytes at a place, at most a window; NULL: the file ends before. */
static const uint8_t *read_core_window(struct window *window, uint64_t offset, size_t size)
{
	if (offset < window->start || offset - window->start > window->size ||
	    size > window->size - (offset - window->start)) {
		window->start = offset;
		window->size =
			snap_core_read_at(window->fd, window->bytes, sizeof(window->bytes), offset);
	}
	return size <= window->size - (offset - window->start)
		       ? window->bytes + (offset - window->start)
		       : NULL;
}

/* ---- program headers ---- */

/* A segment of memory; one that makes no sense is left out. */
static bool add_segment(struct parsing *parsing, const Elf64_Phdr *header)
{
	struct snap_core_range range = {
		.segment = {
			.address = header->p_vaddr,
			.size = header->p_memsz,
			.offset = header->p_offset,
			.file_size = header->p_filesz,
		},
		.read = header->p_flags & PF_R,
		.write = header->p_flags & PF_W,
		.execute = header->p_flags & PF_X,
	};
	struct snap_core_notes *notes = &parsing->notes;
	uint64_t end;

	if (range.segment.file_size > range.segment.size)
		range.segment.file_size = range.segment.size;
	if (range.segment.size == 0 ||
	    __builtin_add_overflow(range.segment.address, range.segment.size, &end) ||
	    __builtin_add_overflow(range.segment.offset, range.segment.file_size, &end) ||
	    end > INT64_MAX)
		return true;
	parsing->core->truncated |= range.segment.file_size && end > parsing->file_size;
	if (notes->range_count == SNAP_MAX_MAPS)
		return true;
	if (!snap_reserve_array_most(notes->ranges, notes->range_capacity, notes->range_count + 1,
				     SNAP_MAX_MAPS))
		return false;
	notes->ranges[notes->range_count++] = range;
	return true;
}

static bool take_header(struct parsing *parsing, const Elf64_Phdr *header)
{
	if (header->p_type == PT_LOAD)
		return add_segment(parsing, header);
	if (header->p_type == PT_NOTE && parsing->note_segment_count < MOST_NOTE_SEGMENTS)
		parsing->note_segments[parsing->note_segment_count++] =
			(struct note_segment){ header->p_offset, header->p_filesz };
	return true;
}

static struct stacksnap_error *read_headers(struct parsing *parsing, const Elf64_Ehdr *elf)
{
	uint64_t count = elf->e_phnum, offset = elf->e_phoff;
	Elf64_Phdr headers[HEADERS_AT_ONCE];
	Elf64_Shdr section;

	/* More than fit into 16 bits are counted in the first section header (elf(5)). */
	if (count == PN_XNUM && snap_core_read_at(parsing->window.fd, &section, sizeof(section),
						  elf->e_shoff) == sizeof(section))
		count = section.sh_info;
	if (count > SNAP_MAX_MAPS + MOST_NOTE_SEGMENTS)
		count = SNAP_MAX_MAPS + MOST_NOTE_SEGMENTS;
	while (count) {
		size_t wanted = count < HEADERS_AT_ONCE ? (size_t)count : HEADERS_AT_ONCE;
		size_t got = snap_core_read_at(parsing->window.fd, headers,
					       wanted * sizeof(*headers), offset) /
			     sizeof(*headers);

		for (size_t i = 0; i < got; i++)
			SNAP_TRY(snap_no_memory_unless(take_header(parsing, &headers[i])));
		parsing->core->truncated |= got < wanted;
		if (got < wanted)
			break;
		count -= got;
		offset += got * sizeof(*headers);
	}
	return NULL;
}

/* ---- notes ---- */

/* The bytes of a note, which may be longer than a window; malloc'ed. NULL: they are not there. */
static uint8_t *read_long(const struct parsing *parsing, uint64_t offset, size_t size,
			  bool *no_memory_ret)
{
	uint8_t *bytes = malloc(size);

	*no_memory_ret = !bytes;
	if (!bytes || snap_core_read_at(parsing->window.fd, bytes, size, offset) == size)
		return bytes;
	free(bytes);
	return NULL;
}

/* One note of the kernel's. False without memory. */
static bool take_note(struct parsing *parsing, uint32_t type, uint64_t offset, uint32_t size)
{
	_cleanup_free_ uint8_t *copy = NULL;
	const uint8_t *bytes;
	bool no_memory = false;

	if (!snap_core_note_is_wanted(type, size))
		return true;
	if (size > WINDOW)
		bytes = copy = read_long(parsing, offset, size, &no_memory);
	else
		bytes = read_core_window(&parsing->window, offset, size);
	parsing->core->truncated |= !bytes;
	return !no_memory && (!bytes || snap_core_note_take(&parsing->notes, type, bytes, size));
}

/* The notes of a segment, up to its end or that of the file. */
static struct stacksnap_error *read_notes(struct parsing *parsing, const struct note_segment *in)
{
	static const char name[] = "CORE";
	uint64_t at = in->offset, end;

	if (__builtin_add_overflow(in->offset, in->size, &end) || end > parsing->file_size) {
		parsing->core->truncated = true;
		end = parsing->file_size;
	}
	for (unsigned i = 0; i < MOST_NOTES && at < end && end - at >= sizeof(Elf64_Nhdr); i++) {
		const uint8_t *bytes = read_core_window(&parsing->window, at, sizeof(Elf64_Nhdr));
		uint64_t name_at = at + sizeof(Elf64_Nhdr), data_at;
		Elf64_Nhdr note;
		bool is_core;

		if (!bytes)
			break;
		memcpy(&note, bytes, sizeof(note));
		data_at = name_at + snap_round_up(note.n_namesz, NOTE_ALIGNMENT);
		at = data_at + snap_round_up(note.n_descsz, NOTE_ALIGNMENT);
		bytes = note.n_namesz == sizeof(name)
				? read_core_window(&parsing->window, name_at, sizeof(name))
				: NULL;
		is_core = bytes && memcmp(bytes, name, sizeof(name)) == 0;
		if (data_at > end || note.n_descsz > end - data_at)
			break;
		if (is_core && !take_note(parsing, note.n_type, data_at, note.n_descsz))
			return snap_error_no_memory();
	}
	return NULL;
}

/* ---- the whole ---- */

static struct stacksnap_error *not_a_core(const char *what)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "%s", what);
}

/* A number of two bytes in the order of the file's own processor. */
static uint16_t header_number(const Elf64_Ehdr *elf, uint16_t number)
{
	return elf->e_ident[EI_DATA] == ELFDATA2MSB ? __builtin_bswap16(number) : number;
}

static struct stacksnap_error *refuse_machine(uint16_t machine)
{
	const char *name = snap_core_machine_name(machine);

	if (name)
		return snap_error_format(SNAP_ERROR_FORMAT,
					 "this is a core of %s, which is not supported", name);
	return snap_error_format(
		SNAP_ERROR_FORMAT,
		"this is a core of a processor that is not supported (e_machine %u)", machine);
}

static struct stacksnap_error *check_header(struct parsing *parsing, const Elf64_Ehdr *elf)
{
	uint16_t machine = header_number(elf, elf->e_machine);
	const struct snap_core_layout *layout = snap_core_layout(machine);

	/* Type and machine lie at the same place in files of 32 bits. */
	if (header_number(elf, elf->e_type) != ET_CORE)
		return not_a_core("this is an ELF file, but not a core");
	if (!layout)
		return refuse_machine(machine);
	if (elf->e_ident[EI_CLASS] != ELFCLASS64)
		return not_a_core("this is the core of a program of 32 bits, which is not "
				  "supported");
	if (elf->e_ident[EI_DATA] != ELFDATA2LSB)
		return not_a_core("this is the core of a big-endian program, which is not "
				  "supported");
	if (elf->e_phentsize != sizeof(Elf64_Phdr))
		return not_a_core("the core is damaged: invalid size of program headers");
	parsing->notes.layout = layout;
	return NULL;
}

static struct stacksnap_error *parse_core(struct parsing *parsing, int fd)
{
	struct stacksnap_error *err;
	struct stat status;
	Elf64_Ehdr elf;

	parsing->window.fd = fd;
	if (fstat(fd, &status) < 0)
		return snap_error_os(errno, "cannot examine the core");
	parsing->file_size = status.st_size > 0 ? (uint64_t)status.st_size : 0;
	if (snap_core_read_at(fd, &elf, sizeof(elf), 0) != sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
		return not_a_core("this is not a core");
	err = check_header(parsing, &elf);
	err = err ?: read_headers(parsing, &elf);
	for (size_t i = 0; !err && i < parsing->note_segment_count; i++)
		err = read_notes(parsing, &parsing->note_segments[i]);
	if (err)
		return err;
	if (parsing->notes.thread_count == 0)
		return not_a_core(parsing->core->truncated
					  ? "the core is cut off before its threads"
					  : "the core has no threads");
	return snap_core_notes_settle(&parsing->notes, fd, parsing->core);
}

struct stacksnap_error *snap_core_parse(int fd, struct snap_core *ret)
{
	_cleanup_(parsing_destroyp) struct parsing *parsing = calloc(1, sizeof(*parsing));

	SNAP_TRY(snap_no_memory_unless(parsing));
	ret->capture = snap_capture_new();
	SNAP_TRY(snap_no_memory_unless(ret->capture));
	parsing->core = ret;
	return parse_core(parsing, fd);
}
