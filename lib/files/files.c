/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "files/files.h"

struct snap_files {
	const struct snap_capture *capture;
};

struct snap_error *snap_files_create(const struct snap_options *options _unused_,
				     const struct snap_capture *capture, struct snap_files **ret)
{
	struct snap_files *files = calloc(1, sizeof(*files));

	if (!files)
		return snap_error_no_memory();
	files->capture = capture;
	*ret = files;
	return NULL;
}

void snap_files_destroy(struct snap_files *files)
{
	free(files);
}

static struct snap_error *
find(void *context _unused_, const struct snap_file_request *request _unused_, int *fd_ret _unused_)
{
	return snap_error_not_found();
}

struct snap_file_finder snap_files_finder(struct snap_files *files)
{
	return (struct snap_file_finder){ .find = find, .context = files };
}

struct snap_error *snap_files_embed(struct snap_files *files _unused_,
				    struct snap_capture *capture _unused_)
{
	return NULL;
}
