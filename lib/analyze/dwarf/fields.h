/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds where the fields of a structure lie, by the debug information of a file. Knows nothing of
 * their meaning. It unpacks all debug information, so it is asked only if nothing else knows.
 */
#pragma once

#include "analyze/elf/image.h"

enum { SNAP_NO_FIELD = 0xffff };

struct snap_field {
	const char *structure, *name;
	uint16_t offset; /* out; SNAP_NO_FIELD: there is no such field, or it lies further out */
};

/* Looks in the units of one name; false: there is no debug information of it. */
bool snap_dwarf_fields(struct snap_image *image, const char *unit, struct snap_field *fields,
		       size_t count);
