/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of functions as the source has them: compilers make copies and parts of a function, and
 * name them after it, with a suffix. A pure function of the name: it knows neither the language nor
 * the file of a function.
 */
#pragma once

#include <stddef.h>

/*
 * How much of a name is the function's own: without ".constprop.0", ".lto_priv.0.cold" and the
 * like, nor " [clone .part.0]", as demanglers write them. Never 0 but for "".
 */
size_t snap_function_name_length(const char *name);
