/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A whole ELF file: names, lines, inlined functions and frames of it, itself as its companion. */
#include "fuzz.h"
#include "fuzz_lookup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size);

	fuzz_lookup_names(fd, fd);
	fuzz_lookup_frames(fd);
	close(fd);
	return 0;
}
