/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A look at call frame information before libdw gets it: libdw runs a program of any length, and
 * remembers as many states, or as long an expression, as that asks for. Knows nothing of what the
 * programs mean.
 */
#ifndef SNAP_ANALYZE_UNWIND_CFI_CHECK_H
#define SNAP_ANALYZE_UNWIND_CFI_CHECK_H

#include "analyze/elf/image.h"

/*
 * Whether libdw will find only entries of sane length in the section (".eh_frame", with the table
 * that searches it, or ".debug_frame"): what is small is, larger ones are looked through once.
 */
bool snap_cfi_is_bounded(struct snap_image *image, const char *section);

#endif
