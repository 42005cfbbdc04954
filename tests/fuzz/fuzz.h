/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the fuzz targets share: bytes as a file, bytes as a source of choices, ELF files built
 * around bytes, and checks of what came out. A check that fails ends the process, which is what a
 * fuzzer looks for. Knows nothing of any one target.
 */
#pragma once

#include "api/options.h"
#include "model/files.h"
#include "render/render.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The entry of each target, called by libFuzzer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process, with the reason on stderr, unless it holds. */
void fuzz_check(bool holds, const char *what);
/* The same for what must succeed; NO_MEMORY is no finding. Destroys the error. */
void fuzz_no_error(struct stacksnap_error *err);

/* A file in memory with these bytes, at its beginning; the caller closes it. */
int fuzz_file(const void *bytes, size_t size);

/* ---- bytes as choices; at their end all are 0 ---- */

struct fuzz_bytes {
	const uint8_t *at, *end;
};

uint8_t fuzz_u8(struct fuzz_bytes *bytes);
uint64_t fuzz_u64(struct fuzz_bytes *bytes);
/* Up to `most` of the bytes as they stand; they stay where they are. */
struct fuzz_bytes fuzz_take(struct fuzz_bytes *bytes, size_t most);
/* A text of the bytes, its length first; NULL for an empty one. */
const char *fuzz_text(struct fuzz_bytes *bytes, struct snap_arena *arena);

/* ---- what came out ---- */

struct fuzz_output {
	char *bytes; /* malloc'ed, ended by a NUL */
	size_t size;
};

void fuzz_output_deinit(struct fuzz_output *output);
/* By the name of the format. What a renderer may refuse leaves no bytes. */
struct fuzz_output fuzz_render(const char *format, const struct snap_snapshot *snapshot,
			       const struct snap_options *options);
struct fuzz_output fuzz_render_recording(const char *format, const struct snap_recording *recording,
					 const struct snap_options *options);

/* Valid UTF-8 with nothing that a terminal obeys or hides, newlines apart. */
void fuzz_check_text(const struct fuzz_output *output);
/* The same, and a JSON document; `lines`: one a line. */
void fuzz_check_json(const struct fuzz_output *output, bool lines);
/* What is asked of this format: text, JSON, or a page whose only markup is its own. */
void fuzz_check_format(const struct snap_format *format, const struct fuzz_output *output);

/* ---- ELF files ---- */

struct fuzz_section {
	const char *name;
	uint32_t type; /* SHT_… */
	uint64_t flags;
	const uint8_t *data;
	size_t size;
	uint32_t link; /* index in the list + 1 */
	uint32_t info;
	uint64_t entry_size;
};

enum {
	FUZZ_TEXT_SIZE = 4096, /* bytes of code, all of them nops */
	FUZZ_MAX_SECTIONS = 24,
};
#define FUZZ_TEXT 0x1000 /* where it is */

/*
 * A 64-bit shared object of this machine: one page of code at FUZZ_TEXT, then the sections, those
 * with SHF_ALLOC in a readable segment, with .eh_frame_hdr named by PT_GNU_EH_FRAME. malloc'ed.
 */
uint8_t *fuzz_elf(const struct fuzz_section *sections, size_t count, size_t *size_ret);
/* Where a section of that list will be. */
uint64_t fuzz_elf_address(const struct fuzz_section *sections, size_t index);
