/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of options share: the row of their tables. Knows nothing of single options.
 */
#ifndef SNAP_API_OPTIONS_INTERNAL_H
#define SNAP_API_OPTIONS_INTERNAL_H

#include "base/error.h"
#include "model/options.h"

#include <stddef.h>

struct snap_setting {
	const char *name;
	const char *argument; /* what the value is, for messages; NULL: the option takes none */
	struct snap_error *(*set)(struct snap_options *options, const struct snap_setting *setting,
				  const char *value);
	size_t offset;  /* of the field, for setters that serve several options */
	unsigned value; /* what to put there */
};

/* Those about recordings; ended by a NULL name. */
extern const struct snap_setting snap_record_settings[];

#endif
