/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public API over the pipeline: see stacksnap.h. */
#include "stacksnap.h"

#include "pipeline.h"

__attribute__((visibility("default"))) const char *stacksnap_version(void)
{
	return SNAP_VERSION;
}
