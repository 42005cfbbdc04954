/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A snapshot as one JSON document, see document.h and stacksnap-json(5). */
#include "render/json/document.h"
#include "render/render.h"

struct snap_error *snap_render_json(const struct snap_snapshot *snapshot,
				    const struct snap_options *options _unused_, FILE *out)
{
	_cleanup_(snap_json_writer_deinit) struct snap_json_writer writer;
	struct snap_error *err;

	err = snap_json_writer_init(&writer, out, false);
	if (err)
		return err;
	(void)snap_json_writer_put(&writer, snapshot);
	return snap_json_writer_finish(&writer, out);
}
