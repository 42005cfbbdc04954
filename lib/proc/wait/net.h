/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines of the tables of sockets in the folder net of a process, for namespaces that sock_diag
 * cannot be asked in.
 *
 * Pure functions, as those of proc/parse.h. A path of a unix socket stands there as it is, so it
 * may hold a newline and lines of its own: callers ignore inodes that come twice.
 */
#pragma once

#include "model/wait/facts.h"

/*
 * A line of tcp, tcp6, udp or udp6, without its newline; `family` says which. Of a listener the
 * queues are unknown, as its limit does not stand there. False: the head, or not the kernel's.
 */
bool snap_parse_inet_socket(const char *line, size_t length, enum snap_socket_family family,
			    struct snap_socket *ret);

/* A line of unix; name and peer are left unknown. */
bool snap_parse_unix_socket(const char *line, size_t length, struct snap_socket *ret);
