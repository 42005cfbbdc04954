/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libmicrohttpd, which is loaded for `serve` alone: with the libraries that it needs, a dozen
 * for TLS among them, it would cost each start of every other command a twentieth of a snapshot.
 * Its functions are called by their own names. Knows nothing of requests.
 */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>

struct snap_serve_library {
	__typeof__(MHD_add_connection) *add_connection;
	__typeof__(MHD_add_response_header) *add_response_header;
	__typeof__(MHD_create_response_from_buffer) *create_response_from_buffer;
	__typeof__(MHD_create_response_from_fd64) *create_response_from_fd64;
	__typeof__(MHD_destroy_response) *destroy_response;
	__typeof__(MHD_get_connection_info) *get_connection_info;
	__typeof__(MHD_get_connection_values) *get_connection_values;
	__typeof__(MHD_get_daemon_info) *get_daemon_info;
	__typeof__(MHD_get_timeout) *get_timeout;
	__typeof__(MHD_lookup_connection_value) *lookup_connection_value;
	__typeof__(MHD_queue_response) *queue_response;
	__typeof__(MHD_resume_connection) *resume_connection;
	__typeof__(MHD_run) *run;
	__typeof__(MHD_start_daemon) *start_daemon;
	__typeof__(MHD_stop_daemon) *stop_daemon;
	__typeof__(MHD_suspend_connection) *suspend_connection;
};

/* Filled by snap_serve_library_load(), once. */
extern struct snap_serve_library snap_serve_library;

/* Before anything else. False after a message: it is not installed. */
bool snap_serve_library_load(void);

#define MHD_add_connection snap_serve_library.add_connection
#define MHD_add_response_header snap_serve_library.add_response_header
#define MHD_create_response_from_buffer snap_serve_library.create_response_from_buffer
#define MHD_create_response_from_fd64 snap_serve_library.create_response_from_fd64
#define MHD_destroy_response snap_serve_library.destroy_response
#define MHD_get_connection_info snap_serve_library.get_connection_info
#define MHD_get_connection_values snap_serve_library.get_connection_values
#define MHD_get_daemon_info snap_serve_library.get_daemon_info
#define MHD_get_timeout snap_serve_library.get_timeout
#define MHD_lookup_connection_value snap_serve_library.lookup_connection_value
#define MHD_queue_response snap_serve_library.queue_response
#define MHD_resume_connection snap_serve_library.resume_connection
#define MHD_run snap_serve_library.run
#define MHD_start_daemon snap_serve_library.start_daemon
#define MHD_stop_daemon snap_serve_library.stop_daemon
#define MHD_suspend_connection snap_serve_library.suspend_connection
