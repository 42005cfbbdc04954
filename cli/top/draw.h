/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Draw: a view of a table, and where the recorder stands, on a screen of any size. Knows what stands
 * where; nothing of curses, of what keys do, nor of how the table was made.
 */
#pragma once

#include "top/feed.h"
#include "top/screen.h"
#include "top/view.h"

/* Sets view->page_size and view->first to what the screen has room for. */
void snap_top_draw(struct snap_top_screen *screen, struct snap_top_view *view,
		   const struct snap_top_table *table, const struct snap_top_status *status);
