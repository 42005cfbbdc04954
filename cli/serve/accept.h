/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Media types of the library's formats, and which of them a client accepts. Knows nothing of pages.
 */
#pragma once

/* The media type of a format's bytes; static. */
const char *snap_serve_media_type(const char *format);

/*
 * The format that an Accept header likes best, the first of equals; `usual` for "*", for an empty
 * header and for none (NULL). NULL: it wants what is not there.
 */
const char *snap_serve_accept(const char *accept, const char *usual);
