/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Elide: names and paths made to fit, from the inside out, so that what tells them apart stays.
 *
 * Works on escaped text (valid UTF-8, no controls). Knows how C++ and Rust names are built and
 * nothing of stacks. `dots` is "…" or "..." throughout.
 */
#pragma once

#include "model/options.h"

#include <stddef.h>

/*
 * Length in bytes of the character at `p`, and its columns. The text is valid UTF-8. An escape
 * counts as one character, so that it is never cut in two.
 */
size_t snap_text_character(const char *p, size_t *columns);
/* Columns of a terminal that a text takes. */
size_t snap_text_width(const char *text);

/* Columns for the name of a function where no line says how many there are. */
enum { SNAP_NAME_COLUMNS = 64 };
/*
 * A function's name as people read it, in place: "std::string" for what it is short for. To fit
 * `most` columns template arguments that have templates inside go, then argument lists, ABI tags
 * and clone marks, then all template arguments. It may be a raw name.
 */
void snap_shorten_name(char *name, size_t most, const char *dots);
/* The same unless the options ask for full names, malloc'ed; NULL without memory. */
char *snap_short_name(const struct snap_options *options, bool utf8, const char *name);
/*
 * The same, and then the middle goes; the last component of a qualified name is not cut, so the
 * result can be wider.
 */
void snap_elide_name(char *name, size_t most, const char *dots);

/* "library/core/src/…" of Rust's library, without "/rustc/" and a hash; other files as they are. */
const char *snap_source_path(const char *file);
/* Drops leading directories: "…/src/queue.c:57", at most up to "queue.c:57". In place. */
void snap_elide_path(char *path, size_t most, const char *dots);

/* Cuts the end. In place. */
void snap_elide_end(char *text, size_t most, const char *dots);
