/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libmicrohttpd, loaded late: see library.h. */
#include "serve/library.h"

#include "message.h"

#include <dlfcn.h>
#include <string.h>

struct snap_serve_library snap_serve_library;

bool snap_serve_library_load(void)
{
	static const char file[] = "libmicrohttpd.so.12";
	struct snap_serve_library *library = &snap_serve_library;
	const struct {
		const char *name;
		void *function;
	} functions[] = {
		{ "MHD_add_connection", &library->add_connection },
		{ "MHD_add_response_header", &library->add_response_header },
		{ "MHD_create_response_from_buffer", &library->create_response_from_buffer },
		{ "MHD_create_response_from_fd64", &library->create_response_from_fd64 },
		{ "MHD_destroy_response", &library->destroy_response },
		{ "MHD_get_connection_info", &library->get_connection_info },
		{ "MHD_get_connection_values", &library->get_connection_values },
		{ "MHD_get_daemon_info", &library->get_daemon_info },
		{ "MHD_get_timeout", &library->get_timeout },
		{ "MHD_lookup_connection_value", &library->lookup_connection_value },
		{ "MHD_queue_response", &library->queue_response },
		{ "MHD_resume_connection", &library->resume_connection },
		{ "MHD_run", &library->run },
		{ "MHD_start_daemon", &library->start_daemon },
		{ "MHD_stop_daemon", &library->stop_daemon },
		{ "MHD_suspend_connection", &library->suspend_connection },
	};
	/* Never closed: its threads' and locks' ends are the program's. */
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; handle && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *symbol = dlsym(handle, functions[i].name);

		if (!symbol)
			handle = NULL;
		else
			memcpy(functions[i].function, &symbol, sizeof(symbol));
	}
	if (!handle)
		snap_cli_message("cannot serve: %s is not installed, or too old", file);
	return handle;
}
