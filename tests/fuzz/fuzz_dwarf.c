/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbol tables and debug information: a file is built of sections that the bytes give, each a
 * number, a length of two bytes, and so many bytes. The first byte says in which form: compressed
 * sections, MiniDebugInfo, with itself as the file that holds split or shared parts.
 */
#include "fuzz.h"
#include "fuzz_lookup.h"

#include <elf.h>
#include <lzma.h>
#include <string.h>
#include <zlib.h>

enum form { COMPRESSED = 1, MINI = 2, COMPANION = 4 };

static const struct {
	const char *name;
	uint32_t type, entry_size;
} kinds[] = {
	{ ".debug_info", SHT_PROGBITS, 0 },
	{ ".debug_abbrev", SHT_PROGBITS, 0 },
	{ ".debug_str", SHT_PROGBITS, 0 },
	{ ".debug_line", SHT_PROGBITS, 0 },
	{ ".debug_line_str", SHT_PROGBITS, 0 },
	{ ".debug_ranges", SHT_PROGBITS, 0 },
	{ ".debug_rnglists", SHT_PROGBITS, 0 },
	{ ".debug_addr", SHT_PROGBITS, 0 },
	{ ".debug_str_offsets", SHT_PROGBITS, 0 },
	{ ".debug_aranges", SHT_PROGBITS, 0 },
	{ ".debug_info.dwo", SHT_PROGBITS, 0 },
	{ ".debug_abbrev.dwo", SHT_PROGBITS, 0 },
	{ ".debug_str.dwo", SHT_PROGBITS, 0 },
	{ ".debug_str_offsets.dwo", SHT_PROGBITS, 0 },
	{ ".debug_line.dwo", SHT_PROGBITS, 0 },
	{ ".debug_rnglists.dwo", SHT_PROGBITS, 0 },
	{ ".gnu_debuglink", SHT_PROGBITS, 0 },
	{ ".gnu_debugaltlink", SHT_PROGBITS, 0 },
	{ ".strtab", SHT_STRTAB, 0 },
	{ ".symtab", SHT_SYMTAB, sizeof(Elf64_Sym) },
	{ ".debug_cu_index", SHT_PROGBITS, 0 },
};

struct built {
	struct fuzz_section sections[FUZZ_MAX_SECTIONS];
	uint8_t *packed[FUZZ_MAX_SECTIONS];
	size_t count;
};

static void built_deinit(struct built *built)
{
	for (size_t i = 0; i < built->count; i++)
		free(built->packed[i]);
}

static void compress_section(struct built *built, size_t index)
{
	struct fuzz_section *section = &built->sections[index];
	uLongf room = compressBound(section->size);
	uint8_t *packed = malloc(sizeof(Elf64_Chdr) + room);

	fuzz_check(packed != NULL, "room");
	*(Elf64_Chdr *)packed = (Elf64_Chdr){ .ch_type = ELFCOMPRESS_ZLIB,
					      .ch_size = section->size,
					      .ch_addralign = 1 };
	fuzz_check(compress2(packed + sizeof(Elf64_Chdr), &room, section->data, section->size, 1) ==
			   Z_OK,
		   "zlib");
	built->packed[index] = packed;
	section->data = packed;
	section->size = sizeof(Elf64_Chdr) + room;
	section->flags |= SHF_COMPRESSED;
}

static void read_sections(struct fuzz_bytes *bytes, struct built *built)
{
	uint32_t strings = 0;

	while (bytes->at < bytes->end && built->count < FUZZ_MAX_SECTIONS - 1) {
		size_t kind = fuzz_u8(bytes) % SNAP_ARRAY_SIZE(kinds);
		size_t size = fuzz_u8(bytes);
		struct fuzz_bytes taken;

		size |= (size_t)fuzz_u8(bytes) << 8;
		taken = fuzz_take(bytes, size);
		built->sections[built->count++] = (struct fuzz_section){
			.name = kinds[kind].name,
			.type = kinds[kind].type,
			.data = taken.at,
			.size = (size_t)(taken.end - taken.at),
			.entry_size = kinds[kind].entry_size,
			.link = kinds[kind].type == SHT_SYMTAB ? strings : 0,
		};
		if (kinds[kind].type == SHT_STRTAB)
			strings = (uint32_t)built->count;
	}
}

/* The file inside another one, as MiniDebugInfo. */
static uint8_t *wrap(const uint8_t *elf, size_t *size)
{
	struct fuzz_section section = { .name = ".gnu_debugdata", .type = SHT_PROGBITS };
	size_t room = lzma_stream_buffer_bound(*size), used = 0;
	uint8_t *packed = malloc(room), *outer;

	fuzz_check(packed && lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, elf, *size, packed,
						     &used, room) == LZMA_OK,
		   "xz");
	section.data = packed;
	section.size = used;
	outer = fuzz_elf(&section, 1, size);
	free(packed);
	return outer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(built_deinit) struct built built = { .count = 0 };
	struct fuzz_bytes bytes = { data, data + size };
	unsigned form = fuzz_u8(&bytes);
	_cleanup_fd_ int fd = -1;
	_cleanup_free_ uint8_t *elf = NULL;

	read_sections(&bytes, &built);
	for (size_t i = 0; i < built.count && form & COMPRESSED; i++)
		if (strncmp(built.sections[i].name, ".debug", 6) == 0)
			compress_section(&built, i);
	elf = fuzz_elf(built.sections, built.count, &size);
	if (form & MINI) {
		uint8_t *outer = wrap(elf, &size);

		free(elf);
		elf = outer;
	}
	fd = fuzz_file(elf, size);
	fuzz_lookup_names(fd, form & COMPANION ? fd : -1);
	return 0;
}
