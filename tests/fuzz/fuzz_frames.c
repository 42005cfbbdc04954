/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unwind rows: a file is built around the bytes. The first one says which sections there are: 1
 * .eh_frame, 2 .debug_frame (of the same bytes), 4 .eh_frame_hdr; the second how many of the others
 * are the latter's.
 */
#include "fuzz.h"
#include "fuzz_lookup.h"

#include <elf.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = { data, data + size }, header;
	uint8_t which = fuzz_u8(&bytes);
	struct fuzz_section sections[3];
	size_t count = 0, frame_size;
	uint8_t *elf;
	int fd;

	header = fuzz_take(&bytes, fuzz_u8(&bytes));
	frame_size = (size_t)(bytes.end - bytes.at);
	if (which & 1)
		sections[count++] = (struct fuzz_section){ .name = ".eh_frame",
							   .type = SHT_PROGBITS,
							   .flags = SHF_ALLOC,
							   .data = bytes.at,
							   .size = frame_size };
	if (which & 2)
		sections[count++] = (struct fuzz_section){ .name = ".debug_frame",
							   .type = SHT_PROGBITS,
							   .data = bytes.at,
							   .size = frame_size };
	if (which & 4)
		sections[count++] =
			(struct fuzz_section){ .name = ".eh_frame_hdr",
					       .type = SHT_PROGBITS,
					       .flags = SHF_ALLOC,
					       .data = header.at,
					       .size = (size_t)(header.end - header.at) };
	elf = fuzz_elf(sections, count, &size);
	fd = fuzz_file(elf, size);
	free(elf);
	fuzz_lookup_frames(fd);
	close(fd);
	return 0;
}
