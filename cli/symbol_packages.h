/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbol packages: which package has the debug symbols of a file, by its build id, as apt's lists of this
 * machine say it (Build-Ids: of dbgsym packages, deb-control(5)). Asks no network. Knows nothing of
 * reports.
 */
#pragma once

enum { SNAP_CLI_PACKAGE_NAME = 128 };

struct snap_cli_symbol_packages {
	const char *folder; /* of the lists, as apt keeps them: not packed */
	char found[SNAP_CLI_PACKAGE_NAME];
};

/* To be given to stacksnap_options_set_symbol_packages(): `context` is a struct snap_cli_symbol_packages. */
const char *snap_cli_find_symbol_package(void *context, const char *build_id);
