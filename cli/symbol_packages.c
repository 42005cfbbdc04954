/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Packages of debug symbols: see symbol_packages.h. */
#include "symbol_packages.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Debian's list of all its dbgsym packages has 40 MB. */
enum { LARGEST_LIST = 256 << 20, SHORTEST_ID = 16 };

static const char id_field[] = "\nBuild-Ids:", name_field[] = "\nPackage: ";

/* Whether the text stands at `at`, of a list that ends at `end`. */
static bool is_at(const char *at, const char *end, const char *text)
{
	size_t length = strlen(text);

	return (size_t)(end - at) >= length && memcmp(at, text, length) == 0;
}

/* The name of the paragraph that `at` is in: it begins with it. */
static bool take_name(const char *list, const char *at, const char *end, char *name)
{
	size_t length = 0;

	while (at > list && !is_at(at, end, name_field))
		at--;
	at += at > list;
	if (!is_at(at, end, name_field + 1))
		return false;
	for (at += strlen(name_field + 1); at < end && *at != '\n'; at++) {
		if (length + 1 == SNAP_CLI_PACKAGE_NAME)
			return false;
		name[length++] = *at;
	}
	name[length] = 0;
	return length > 0;
}

static bool search_list(const char *list, const char *end, const char *id, char *name)
{
	const char *at = list;

	while ((at = memmem(at, (size_t)(end - at), id, strlen(id)))) {
		const char *line = memrchr(list, '\n', (size_t)(at - list));

		if (line && is_at(line, end, id_field) && take_name(list, line, end, name))
			return true;
		at++;
	}
	return false;
}

static bool search_file(int folder_fd, const char *file, const char *id, char *name)
{
	int fd = openat(folder_fd, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *list = MAP_FAILED;
	struct stat info;
	bool found;

	if (fd < 0)
		return false;
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
	    info.st_size <= LARGEST_LIST)
		list = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (list == MAP_FAILED)
		return false;
	found = search_list(list, list + info.st_size, id, name);
	munmap(list, (size_t)info.st_size);
	return found;
}

static bool is_list(const char *file)
{
	const char *end = strstr(file, "_Packages");

	return end && strcmp(end, "_Packages") == 0;
}

const char *snap_cli_find_symbol_package(void *context, const char *build_id)
{
	struct snap_cli_symbol_packages *packages = context;
	DIR *folder = strlen(build_id) < SHORTEST_ID ? NULL : opendir(packages->folder);
	struct dirent *entry;
	bool found = false;

	while (folder && !found && (entry = readdir(folder)))
		found = is_list(entry->d_name) &&
			search_file(dirfd(folder), entry->d_name, build_id, packages->found);
	if (folder)
		closedir(folder);
	return found ? packages->found : NULL;
}
