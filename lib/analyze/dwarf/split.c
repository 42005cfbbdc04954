/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Split DWARF: the unit in a .dwo file that belongs to a skeleton unit.
 *
 * The finder returns files with the name that the skeleton contains, and the id must be the same. A
 * unit without its .dwo keeps its lines, and the names of the symbol table. Only inlined functions
 * are missing, so this is not reported.
 */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>

enum { MAX_CANDIDATES = 8 };

/* The unit with the skeleton's id; in DWARF 4 the id is an attribute, read with the root DIE. */
static struct snap_unit *find_unit(struct snap_dwarf *dwarf, const struct snap_unit *skeleton)
{
	if (!snap_units_index(dwarf))
		return NULL;
	for (size_t i = 0; i < dwarf->unit_count; i++) {
		struct snap_unit *unit = dwarf->units[i];

		if (unit->type != DW_UT_compile && unit->type != DW_UT_split_compile)
			continue;
		unit->skeleton = (struct snap_unit *)skeleton;
		if (snap_unit_read_root(unit, false) && unit->dwo_id == skeleton->dwo_id)
			return unit;
	}
	return NULL;
}

static struct snap_unit *try_file(struct snap_unit *skeleton, int fd)
{
	struct snap_dwarf *dwarf = skeleton->dwarf, *split;
	struct snap_image *image;
	struct snap_unit *unit;

	if (snap_error_ignore(snap_image_open(fd, &image)))
		return NULL;
	split = snap_dwarf_open(dwarf->symbolizer, dwarf->symbols, image, true);
	if (!split) {
		snap_image_close(image);
		return NULL;
	}
	split->owns_image = true;
	unit = find_unit(split, skeleton);
	if (!unit) {
		snap_dwarf_close(split);
		return NULL;
	}
	split->next_split = dwarf->splits;
	dwarf->splits = split;
	return unit;
}

struct snap_unit *snap_split_unit(struct snap_unit *skeleton)
{
	struct snap_dwarf *dwarf = skeleton->dwarf;
	const struct snap_file_finder *finder = dwarf->symbolizer->finder;
	struct snap_file_request request = dwarf->symbols->file->request;
	struct snap_unit *unit = NULL;
	bool refused = false;
	const char *slash;

	if (!skeleton->dwo_name)
		return NULL;
	slash = strrchr(skeleton->dwo_name, '/');
	request.kind = SNAP_FILE_DWO;
	request.name = slash ? slash + 1 : skeleton->dwo_name;
	for (request.attempt = 0; !unit && request.attempt < MAX_CANDIDATES; request.attempt++) {
		_cleanup_fd_ int fd = -1;
		struct stacksnap_error *err = finder->find(finder->context, &request, &fd);

		if (err && snap_error_code(err) == SNAP_ERROR_NOT_FOUND) {
			snap_error_destroy(err);
			break;
		}
		refused = true;
		if (!snap_error_ignore(err))
			unit = try_file(skeleton, fd);
	}
	if (!unit && refused)
		snap_symbols_trouble(
			dwarf->symbolizer, dwarf->symbols,
			"split debug file %s not used: it does not belong to this program",
			request.name);
	return unit;
}
