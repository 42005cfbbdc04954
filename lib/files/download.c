/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Downloads by debuginfod, through its client library loaded at run time: only when asked for
 * (--debuginfod), only after the target was released, since analysis asks for files then.
 *
 * The library takes the servers from DEBUGINFOD_URLS, and a cache, a proxy and headers from other
 * variables; so where the caller has less rights than the program (AT_SECURE) it is never loaded.
 * Says which file is on its way, and gives up when the caller's cancel flag is set.
 */
#include "files/search.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* It brings a libc, and a static program has one already. */
#ifdef SNAP_STATIC
enum { CAN_LOAD = false };
#else
enum { CAN_LOAD = true };
#endif

struct client; /* debuginfod_client of the library */
typedef int progress_function(struct client *client, long done, long total);

struct snap_download {
	void *library;
	struct client *client;
	const struct snap_options *options;
	char id[2 * 64 + 1]; /* of the file on its way */
	long reported;       /* bytes, when progress was last reported */
	struct client *(*begin)(void);
	void (*end)(struct client *client);
	int (*find_debuginfo)(struct client *client, const unsigned char *build_id, int size,
			      char **path_ret);
	void (*set_progressfn)(struct client *client, progress_function *function);
	void (*set_user_data)(struct client *client, void *data);
};

void snap_download_destroy(struct snap_download *download)
{
	if (!download)
		return;
	if (download->client)
		download->end(download->client);
	/* The library stays loaded: libcurl behind it does not like to be unloaded. */
	free(download);
}

static void report_download(const struct snap_download *download, long done, long total)
{
	const struct snap_options *options = download->options;
	char text[256];

	if (!options->progress)
		return;
	if (total > 0)
		snprintf(text, sizeof(text), "downloading debug file %.40s: %ld of %ld KiB",
			 download->id, done >> 10, total >> 10);
	else
		snprintf(text, sizeof(text), "downloading debug file %.40s: %ld KiB", download->id,
			 done >> 10);
	options->progress(options->progress_context, text);
}

/*
 * Called a few times a second while bytes arrive; not 0 ends the download. The library gives no
 * place for a pointer but its own, so the function to ask for it is looked up again.
 */
static int on_progress(struct client *client, long done, long total)
{
	enum { STEP = 1 << 20 };
	void *(*get_user_data)(struct client *) = NULL;
	struct snap_download *download = NULL;
	void *function;

	function = dlsym(RTLD_DEFAULT, "debuginfod_get_user_data");
	memcpy(&get_user_data, &function, sizeof(function));
	if (get_user_data)
		download = get_user_data(client);
	if (!download)
		return 0;
	if (download->reported < 0 || done - download->reported >= STEP) {
		download->reported = done;
		report_download(download, done, total);
	}
	return snap_options_cancelled(download->options);
}

static bool load_debuginfod(struct snap_download *download)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
		{ "debuginfod_begin", &download->begin },
		{ "debuginfod_end", &download->end },
		{ "debuginfod_find_debuginfo", &download->find_debuginfo },
		{ "debuginfod_set_progressfn", &download->set_progressfn },
		{ "debuginfod_set_user_data", &download->set_user_data },
	};

	if (!CAN_LOAD)
		return false;
	/* Global, so that on_progress finds its function. */
	download->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_GLOBAL);
	for (size_t i = 0; download->library && i < SNAP_ARRAY_SIZE(functions); i++) {
		void *symbol = dlsym(download->library, functions[i].name);

		if (!symbol)
			return false;
		memcpy(functions[i].function, &symbol, sizeof(symbol));
	}
	return download->library != NULL;
}

static struct stacksnap_error *start(struct snap_download *download)
{
	/* Not from the environment of a caller with less rights than we have. */
	const char *urls = secure_getenv("DEBUGINFOD_URLS");

	if (!urls && getenv("DEBUGINFOD_URLS"))
		return snap_error_format(SNAP_ERROR_PERMISSION,
					 "cannot download debug files: DEBUGINFOD_URLS is ignored "
					 "by a program with capabilities or another user's rights");
	if (!urls || !*urls)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "cannot download debug files: DEBUGINFOD_URLS is not set");
	if (!load_debuginfod(download))
		return snap_error_format(
			SNAP_ERROR_OTHER, "cannot download debug files: libdebuginfod.so.1 %s",
			CAN_LOAD ? "is not installed" : "is not loaded by a static program");
	download->client = download->begin();
	if (!download->client)
		return snap_error_no_memory();
	download->set_user_data(download->client, download);
	download->set_progressfn(download->client, on_progress);
	return NULL;
}

static struct stacksnap_error *ask_debuginfod(struct snap_download *download,
					      const struct snap_file_request *request, int *fd_ret)
{
	char *p = download->id;
	int fd;

	if (request->build_id_size == 0 || request->build_id_size > 64)
		return snap_error_not_found();
	for (size_t i = 0; i < request->build_id_size; i++)
		p += sprintf(p, "%02x", request->build_id[i]);
	download->reported = -1;
	/* Size 0 says that the id is given in hexadecimal digits. */
	fd = download->find_debuginfo(download->client, (const unsigned char *)download->id, 0,
				      NULL);
	if (snap_options_cancelled(download->options)) {
		snap_close(&fd);
		return snap_error_cancelled();
	}
	if (fd == -ENOENT || fd == -ENOSYS)
		return snap_error_not_found();
	if (fd < 0)
		return snap_error_os(-fd, "cannot download the debug file of build id %.40s",
				     download->id);
	*fd_ret = fd;
	return NULL;
}

struct stacksnap_error *snap_download_find(struct snap_download **download,
					   const struct snap_options *options,
					   const struct snap_file_request *request, int *fd_ret)
{
	struct stacksnap_error *err;

	if (!*download) {
		*download = calloc(1, sizeof(**download));
		if (!*download)
			return snap_error_no_memory();
		(*download)->options = options;
		err = start(*download);
		if (err)
			return err;
	}
	/* That it cannot be done was said the first time. */
	if (!(*download)->client)
		return snap_error_not_found();
	if (snap_options_cancelled(options))
		return snap_error_cancelled();
	return ask_debuginfod(*download, request, fd_ret);
}
