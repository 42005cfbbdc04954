/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Split DWARF: the unit in a .dwo file, or in the package PROGRAM.dwp, that belongs to a skeleton unit.
 *
 * The finder returns files with the name that the skeleton contains, and the id must be the same. A
 * unit without its .dwo keeps its lines, and the names of the symbol table. Its inlined functions are
 * missing, which is counted.
 */
#include "analyze/dwarf/dwarf.h"

#include "base/text.h"

#include <dwarf.h>
#include <limits.h>

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

/* Type units have sections of their own, all of one name, around that of the unit (DWARF 5, 7.3.2). */
static struct snap_unit *find_in_file(struct snap_dwarf *dwarf, const struct snap_unit *skeleton)
{
	struct snap_unit *unit = find_unit(dwarf, skeleton);
	struct snap_bytes next;
	size_t index = 0;

	(void)snap_image_next_section(dwarf->image, ".debug_info.dwo", &index, &next);
	while (!unit && snap_dwarf_spend(dwarf, SNAP_UNIT_WORK)) {
		if (!snap_image_next_section(dwarf->image, ".debug_info.dwo", &index, &next))
			return NULL;
		dwarf->sections[SNAP_SECTION_INFO] = next;
		dwarf->unit_count = 0;
		dwarf->indexed = false;
		unit = find_unit(dwarf, skeleton);
	}
	return unit;
}

/* As for find_unit(); one of several skeletons of an id, which nothing makes, would get another's unit. */
static struct snap_unit *find_in_package(struct snap_dwarf *package, struct snap_unit *skeleton)
{
	struct snap_unit *unit = snap_package_unit(package, skeleton->dwo_id);

	if (!unit)
		return NULL;
	unit->skeleton = skeleton;
	return snap_unit_read_root(unit, false) && unit->dwo_id == skeleton->dwo_id ? unit : NULL;
}

static struct snap_unit *try_file(struct snap_unit *skeleton, int fd)
{
	struct snap_dwarf *dwarf = skeleton->dwarf, *split;
	struct snap_image *image;
	struct snap_unit *unit;
	bool is_package;

	if (snap_error_ignore(snap_image_open(fd, &image)))
		return NULL;
	split = snap_dwarf_open(dwarf->symbolizer, dwarf->symbols, image, true);
	if (!split) {
		snap_image_close(image);
		return NULL;
	}
	split->owns_image = true;
	is_package = snap_dwarf_section(split, SNAP_SECTION_CU_INDEX).size > 0;
	unit = is_package ? find_in_package(split, skeleton) : find_in_file(split, skeleton);
	if (!unit && !is_package) {
		snap_dwarf_close(split);
		return NULL;
	}
	split->next_split = dwarf->splits;
	dwarf->splits = split;
	if (is_package)
		dwarf->package = split;
	return unit;
}

static struct snap_unit *find_named(struct snap_unit *skeleton, const char *name)
{
	struct snap_dwarf *dwarf = skeleton->dwarf;
	const struct snap_file_finder *finder = dwarf->symbolizer->finder;
	struct snap_file_request request = dwarf->symbols->file->request;
	struct snap_unit *unit = NULL;
	bool refused = false;

	request.kind = SNAP_FILE_DWO;
	request.name = name;
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
	if (!unit && refused && !dwarf->package)
		snap_symbols_trouble(
			dwarf->symbolizer, dwarf->symbols,
			"split debug file %s not used: it does not belong to this program", name);
	return unit;
}

/* As gdb names it: the program's name, and .dwp. */
static struct snap_unit *look_into_package(struct snap_unit *skeleton)
{
	struct snap_dwarf *dwarf = skeleton->dwarf;
	const char *path = dwarf->symbols->file->path;
	char name[NAME_MAX + 1];

	if (dwarf->package_tried || !path)
		return dwarf->package ? find_in_package(dwarf->package, skeleton) : NULL;
	dwarf->package_tried = true;
	if (snprintf(name, sizeof(name), "%s.dwp", snap_base_name(path)) >= (int)sizeof(name))
		return NULL;
	return find_named(skeleton, name);
}

/* clang leaves what is inlined in the skeleton, too (-fsplit-dwarf-inlining). */
static void note_missing(struct snap_unit *skeleton, const char *name)
{
	struct snap_file_symbols *symbols = skeleton->dwarf->symbols;

	if (skeleton->has_children)
		return;
	if (symbols->missing_units++ == 0)
		symbols->missing_file = snap_arena_strdup(skeleton->dwarf->symbolizer->arena, name);
}

struct snap_unit *snap_split_unit(struct snap_unit *skeleton)
{
	const char *name = skeleton->dwo_name;
	struct snap_unit *unit;

	if (!name)
		return NULL;
	name = snap_base_name(name);
	unit = look_into_package(skeleton);
	if (!unit)
		unit = find_named(skeleton, name);
	if (!unit)
		note_missing(skeleton, name);
	return unit;
}
