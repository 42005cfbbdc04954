/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The files of a core that has no list of them (NT_FILE): the kernel omits a list that is too long,
 * and other writers of cores may know none. Memory has what is needed: an ELF header where each
 * module begins, and the list of libraries that the dynamic linker keeps for debuggers (link.h).
 *
 * All of it may be forged: every number is an address at most, which is read if it is in the core.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/text.h"
#include "core/notes.h"

#include <elf.h>
#include <string.h>

enum {
	MOST_IMAGES = 1 << 12, /* ELF headers that are looked at, and entries of the list */
	MOST_FILES = 1 << 15,  /* segments of all images */
	MOST_HEADERS = 64,     /* of an image */
	MOST_DYNAMIC = 256,    /* entries of a dynamic section */
	LOOK_RANGES = 16,      /* of an image without headers … */
	LOOK_BYTES = 1 << 20,  /* … the bytes of each that are searched … */
	LOOK_TAGS = 1 << 16,   /* … and the places in them that may be a tag */
};

struct image {
	uint64_t base, bias;
	uint64_t dynamic;            /* the address of its dynamic section; 0: none */
	size_t first_file, end_file; /* of notes->files */
	const char *path;            /* NULL: not known */
};

/* struct link_map, as far as debuggers may read it. */
struct library {
	uint64_t bias, name, dynamic, next, previous;
};

struct finding {
	struct snap_core_notes *notes;
	struct snap_core_memory memory;
	struct snap_capture *capture;
	struct image *images; /* MOST_IMAGES of them */
	size_t count, looked_at;
};

static size_t read_image(struct finding *finding, uint64_t address, void *bytes, size_t size)
{
	return snap_core_memory_bytes(&finding->memory, address, bytes, size);
}

static uint64_t page_of(const struct finding *finding, uint64_t address)
{
	return address & ~(finding->notes->aux.page - 1);
}

/* The index of the range at an address, or else of the next one. */
static size_t range_from(const struct snap_core_notes *notes, uint64_t address)
{
	return snap_first_not(notes->range_count, i,
			      notes->ranges[i].segment.address + notes->ranges[i].segment.size <=
				      address);
}

static void add_image_file(struct snap_core_notes *notes, uint64_t start, uint64_t end,
			   uint64_t offset)
{
	if (start < end && end <= INT64_MAX && notes->file_count < MOST_FILES)
		notes->files[notes->file_count++] =
			(struct snap_core_file){ .start = start, .end = end, .offset = offset };
}

/* Code of a file that was mapped as data is in memory that is not executable. */
static bool is_mapped_as_data(const struct snap_core_notes *notes, uint64_t code)
{
	size_t i = range_from(notes, code);

	return i < notes->range_count && notes->ranges[i].segment.address <= code &&
	       !notes->ranges[i].execute;
}

/* Where program headers say that segments lie; false: nothing was loaded like that. */
static bool take_segments(struct finding *finding, const Elf64_Phdr *headers, size_t count,
			  struct image *image)
{
	struct snap_core_notes *notes = finding->notes;
	bool has_bias = false;

	for (size_t i = 0; i < count; i++) {
		uint64_t offset = page_of(finding, headers[i].p_offset), start, end;

		if (headers[i].p_type == PT_DYNAMIC)
			image->dynamic = headers[i].p_vaddr;
		if (headers[i].p_type != PT_LOAD || (!has_bias && offset))
			continue;
		if (!has_bias)
			image->bias = image->base - page_of(finding, headers[i].p_vaddr);
		has_bias = true;
		start = image->bias + headers[i].p_vaddr;
		if (headers[i].p_flags & PF_X && is_mapped_as_data(notes, start))
			return false;
		if (headers[i].p_filesz &&
		    !__builtin_add_overflow(start, headers[i].p_filesz, &end))
			add_image_file(notes, page_of(finding, start),
				       snap_round_up(end, notes->aux.page), offset);
	}
	image->dynamic += image->dynamic ? image->bias : 0;
	return has_bias;
}

/* An image that begins with its ELF header there, if any does. */
static void find_image(struct finding *finding, uint64_t base)
{
	struct snap_core_notes *notes = finding->notes;
	struct image image = { .base = base, .first_file = notes->file_count };
	Elf64_Phdr headers[MOST_HEADERS];
	Elf64_Ehdr elf;
	size_t size;

	if (base == notes->aux.vdso || finding->looked_at == MOST_IMAGES ||
	    read_image(finding, base, &elf, sizeof(elf)) != sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_machine != notes->layout->machine || elf.e_phentsize != sizeof(*headers) ||
	    elf.e_phnum > MOST_HEADERS || (elf.e_type != ET_EXEC && elf.e_type != ET_DYN))
		return;
	finding->looked_at++;
	size = elf.e_phnum * sizeof(*headers);
	if (read_image(finding, base + elf.e_phoff, headers, size) != size ||
	    !take_segments(finding, headers, elf.e_phnum, &image)) {
		notes->file_count = image.first_file;
		return;
	}
	image.end_file = notes->file_count;
	finding->images[finding->count++] = image;
}

/*
 * An image whose header is not in the core: up to the first memory that is written. A gap is code
 * that was left out: before the dynamic section, or else at the beginning. Offsets are guessed: see
 * bias_of_image().
 */
static struct image *add_bare_image(struct finding *finding, uint64_t base, uint64_t dynamic)
{
	struct snap_core_notes *notes = finding->notes;
	struct image *image = &finding->images[finding->count];
	size_t first = range_from(notes, base);
	uint64_t end = base;

	if (page_of(finding, base) != base || base == notes->aux.vdso ||
	    finding->count == MOST_IMAGES)
		return NULL;
	for (size_t i = first; i < notes->range_count && i < first + LOOK_RANGES; i++) {
		const struct snap_core_range *range = &notes->ranges[i];
		bool has_gap = range->segment.address > end;

		if (end > (dynamic ?: base) && (has_gap || (dynamic && !range->write)))
			break;
		end = range->segment.address + range->segment.size;
		if (range->write)
			break;
	}
	*image = (struct image){ base, 0, dynamic, notes->file_count, 0, NULL };
	add_image_file(notes, base, end, 0);
	image->end_file = notes->file_count;
	finding->count += image->end_file > image->first_file;
	return image->end_file > image->first_file ? image : NULL;
}

static struct image *image_at(const struct finding *finding, uint64_t address)
{
	const struct snap_core_file *files = finding->notes->files;

	for (size_t i = 0; i < finding->count; i++)
		for (size_t k = finding->images[i].first_file; k < finding->images[i].end_file; k++)
			if (files[k].start <= address && address < files[k].end)
				return &finding->images[i];
	return NULL;
}

/* ---- names ---- */

/* What a text in memory names, "/NAME" where it has no folder; NULL: it is empty, or not there. */
static const char *read_path(struct finding *finding, uint64_t address)
{
	char text[SNAP_MAX_PATH];
	size_t size = address ? read_image(finding, address, text, sizeof(text)) : 0;

	if (!memchr(text, 0, size) || !text[0])
		return NULL;
	return snap_arena_printf(&finding->capture->arena, "%s%s", text[0] == '/' ? "" : "/",
				 text[0] == '/' ? text : snap_base_name(text));
}

/* The value of a tag in the dynamic section of an image; 0: none. */
static uint64_t read_tag(struct finding *finding, const struct image *image, int64_t tag)
{
	Elf64_Dyn entries[MOST_DYNAMIC];
	size_t size =
		image->dynamic ? read_image(finding, image->dynamic, entries, sizeof(entries)) : 0;

	for (size_t i = 0; i < size / sizeof(*entries) && entries[i].d_tag != DT_NULL; i++)
		if (entries[i].d_tag == tag)
			return entries[i].d_un.d_val;
	return 0;
}

/* The dynamic linker adds the bias to the address of the texts, or does not. */
static const char *read_soname(struct finding *finding, const struct image *image)
{
	uint64_t texts = read_tag(finding, image, DT_STRTAB);
	uint64_t name = read_tag(finding, image, DT_SONAME);

	if (texts < image->bias)
		texts += image->bias;
	return name ? read_path(finding, texts + name) : NULL;
}

/* The first library of the list that a struct r_debug begins: the program. All 0: it is not there. */
static struct library read_first(struct finding *finding, uint64_t debug)
{
	struct library first = { .bias = 0 };
	uint64_t words[2];

	if (debug && read_image(finding, debug, words, sizeof(words)) == sizeof(words) &&
	    read_image(finding, words[1], &first, sizeof(first)) == sizeof(first) &&
	    first.previous == 0)
		return first;
	return (struct library){ .bias = 0 };
}

/* Without program headers: the tag DT_DEBUG leads to a list that leads back to where the tag is. */
static struct library look_for_first(struct finding *finding, uint64_t base)
{
	const struct snap_core_notes *notes = finding->notes;
	_cleanup_free_ uint64_t *words = malloc(LOOK_BYTES);
	size_t first = range_from(notes, base), tags = 0;

	for (size_t i = first; words && i < notes->range_count && i < first + LOOK_RANGES; i++) {
		uint64_t start = notes->ranges[i].segment.address;
		size_t count = read_image(finding, start, words, LOOK_BYTES) / sizeof(*words);

		for (size_t k = 0; k + 1 < count && tags < LOOK_TAGS; k++) {
			struct library library;

			if (words[k] != DT_DEBUG)
				continue;
			tags++;
			library = read_first(finding, words[k + 1]);
			if (start + k * sizeof(*words) - library.dynamic <
			    MOST_DYNAMIC * sizeof(Elf64_Dyn))
				return library;
		}
	}
	return (struct library){ .bias = 0 };
}

/* Gives the images their names, and adds those that have no header in the core. */
static void take_libraries(struct finding *finding, struct library library)
{
	for (size_t i = 0; i < MOST_IMAGES && library.dynamic; i++) {
		struct image *image = NULL;

		for (size_t k = 0; k < finding->count && !image; k++)
			if (finding->images[k].dynamic == library.dynamic)
				image = &finding->images[k];
		if (!image && i && library.bias)
			image = add_bare_image(finding, library.bias, library.dynamic);
		if (image && !image->path)
			image->path = read_path(finding, library.name);
		if (read_image(finding, library.next, &library, sizeof(library)) != sizeof(library))
			return;
	}
}

/* What the program was started as names it, if it is a whole path. */
static void name_program(struct finding *finding, struct image *program)
{
	struct snap_core_notes *notes = finding->notes;
	const char *name = finding->capture->processes->name ?: "program";
	char first = 0;

	read_image(finding, notes->aux.name, &first, 1);
	program->path = read_path(finding, notes->aux.name);
	notes->program_unnamed = first != '/' || !program->path;
	if (!program->path)
		program->path =
			snap_arena_printf(&finding->capture->arena, "/%s", snap_base_name(name));
}

struct stacksnap_error *snap_core_find_files(struct snap_core_notes *notes, int fd,
					     struct snap_core *core)
{
	_cleanup_free_ struct image *images = calloc(MOST_IMAGES, sizeof(*images));
	struct finding finding = {
		notes, snap_core_memory_of(core, fd), core->capture, images, 0, 0
	};
	uint64_t base = notes->aux.phdr - sizeof(Elf64_Ehdr), page = notes->aux.page;
	struct library first = { .bias = 0 };
	struct image *program;

	SNAP_TRY(snap_no_memory_unless(images &&
				       snap_reserve_array_most(notes->files, notes->file_capacity,
							       MOST_FILES, SNAP_MAX_MAPS)));
	if (page < SNAP_PAGE || page > SNAP_MOST_PAGE || page & (page - 1))
		notes->aux.page = SNAP_PAGE;
	for (size_t i = 0; i < notes->range_count; i++)
		find_image(&finding, notes->ranges[i].segment.address);
	program = image_at(&finding, notes->aux.phdr) ?: image_at(&finding, notes->aux.entry);
	if (program) {
		first = read_first(&finding, read_tag(&finding, program, DT_DEBUG));
	} else if (notes->aux.phdr) {
		first = look_for_first(&finding, base);
		program = add_bare_image(&finding, base, first.dynamic);
	}
	if (program)
		name_program(&finding, program);
	take_libraries(&finding, first);
	for (struct image *image = images; image < images + finding.count; image++) {
		image->path = image->path ?: read_soname(&finding, image)
				   ?: snap_arena_printf(&core->capture->arena, "/ELF-%llx",
							(unsigned long long)image->base);
		SNAP_TRY(snap_no_memory_unless(image->path));
		for (size_t k = image->first_file; k < image->end_file; k++)
			notes->files[k].path = image->path;
	}
	return NULL;
}
