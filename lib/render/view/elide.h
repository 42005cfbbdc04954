/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Elide: names and paths made to fit, from the inside out, so that what tells them apart stays.
 *
 * Works on escaped text (valid UTF-8, no controls). Knows how C++ and Rust names are built and
 * nothing of stacks. `dots` is "…" or "..." throughout.
 */
#pragma once

#include <stddef.h>

/*
 * Length in bytes of the character at `p`, and its columns. The text is valid UTF-8. An escape
 * counts as one character, so that it is never cut in two.
 */
size_t snap_text_character(const char *p, size_t *columns);
/* Columns of a terminal that a text takes. */
size_t snap_text_width(const char *text);

/*
 * Shortens a function's name to `most` columns: template arguments that have templates inside, then
 * argument lists, ABI tags and clone marks, then all template arguments, last the middle; the last
 * component of a qualified name is not cut, so the result can be wider. In place.
 */
void snap_elide_name(char *name, size_t most, const char *dots);

/* Drops leading directories: "…/src/queue.c:57". In place. */
void snap_elide_path(char *path, size_t most, const char *dots);

/* Cuts the end. In place. */
void snap_elide_end(char *text, size_t most, const char *dots);
