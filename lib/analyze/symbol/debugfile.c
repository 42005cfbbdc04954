/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Separate debug files: finds the one that belongs to an image.
 *
 * It is found by build id, which must be the same, or else by debuglink, whose CRC must match. A
 * file with the right name and another id or CRC is refused and reported. MiniDebugInfo
 * (.gnu_debugdata) is an xz-packed ELF file inside the image. Knows nothing of where files lie: the
 * finder does.
 */
#include "analyze/dwarf/dwarf.h"

#include <lzma.h>
#include <stdarg.h>
#include <string.h>
#include <zlib.h>

/* Real ones are a few hundred kilobytes, unpacked two megabytes. */
enum { MAX_CANDIDATES = 16, MAX_MINI = 32 << 20 };
static const uint64_t max_checked = 2ull << 30;

void snap_symbols_trouble(struct snap_symbolizer *symbolizer, struct snap_file_symbols *symbols,
			  const char *format, ...)
{
	char text[512];
	va_list arguments;

	if (symbols->trouble || symbolizer->is_late)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	symbols->trouble = snap_arena_strdup(symbolizer->arena, text);
}

/* Whether a candidate is the file that was asked for; the reason why not goes to `why`. */
typedef bool accept_function(struct snap_image *image, const void *wanted, const char **why);

static bool accept_build_id(struct snap_image *image, const void *wanted, const char **why)
{
	const struct snap_bytes *id = wanted;
	struct snap_bytes found = snap_image_build_id(image);

	*why = "its build id differs";
	return found.size == id->size && memcmp(found.data, id->data, id->size) == 0;
}

static bool accept_crc(struct snap_image *image, const void *wanted, const char **why)
{
	const uint32_t *crc = wanted;
	struct snap_bytes bytes = snap_image_bytes(image);

	/* All of it is read: a sparse file of a target could be a terabyte. */
	*why = "it is too large to checksum";
	if (bytes.size > max_checked)
		return false;
	*why = "its CRC differs from that of the debug link";
	return crc32_z(0, bytes.data, bytes.size) == *crc;
}

/* The debug link of Mono names the file that has it. The file may be a copy, so its inode tells nothing. */
static bool is_itself(struct snap_image *file, struct snap_image *candidate)
{
	struct snap_bytes link = snap_image_section(file, ".gnu_debuglink"),
			  same = snap_image_section(candidate, ".gnu_debuglink");

	return link.size && link.size == same.size &&
	       memcmp(link.data, same.data, link.size) == 0 &&
	       snap_image_bytes(file).size == snap_image_bytes(candidate).size;
}

/* Asks for candidates until one is accepted. Refusals are reported only if none was. */
static struct snap_image *search_file(struct snap_symbolizer *symbolizer,
				      struct snap_file_symbols *symbols,
				      struct snap_file_request request, const char *what,
				      accept_function *accept, const void *wanted)
{
	const char *why = NULL;
	char refusal[256] = "";

	for (request.attempt = 0; request.attempt < MAX_CANDIDATES; request.attempt++) {
		_cleanup_fd_ int fd = -1;
		struct snap_image *image = NULL;
		struct stacksnap_error *err;

		err = symbolizer->finder->find(symbolizer->finder->context, &request, &fd);
		if (err && snap_error_code(err) == SNAP_ERROR_NOT_FOUND) {
			snap_error_destroy(err);
			break;
		}
		if (!err)
			err = snap_image_open(fd, &image);
		if (err) {
			snprintf(refusal, sizeof(refusal), "%s", snap_error_message(err));
			snap_error_destroy(err);
			continue;
		}
		if (accept(image, wanted, &why))
			return image;
		if (!is_itself(symbols->file->image, image))
			snprintf(refusal, sizeof(refusal), "%s", why);
		snap_image_close(image);
	}
	if (refusal[0])
		snap_symbols_trouble(symbolizer, symbols, "%s not used: %s", what, refusal);
	return NULL;
}

/* .gnu_debuglink: a name, NUL, padding to 4, CRC32. */
static bool parse_debuglink(struct snap_bytes section, const char **name_ret, uint32_t *crc_ret)
{
	const uint8_t *end = section.size ? memchr(section.data, '\0', section.size) : NULL;
	size_t length, at;

	if (!end)
		return false;
	length = (size_t)(end - section.data);
	at = (length + 1 + 3) & ~(size_t)3;
	if (length == 0 || section.size < at + 4 || memchr(section.data, '/', length))
		return false;
	*name_ret = (const char *)section.data;
	memcpy(crc_ret, section.data + at, 4);
	return true;
}

bool snap_debugfile_open(struct snap_symbolizer *symbolizer, struct snap_file_symbols *symbols)
{
	struct snap_image *image = symbols->file->image;
	struct snap_file_request request = symbols->file->request;
	struct snap_bytes id = snap_image_build_id(image);
	uint32_t crc;

	if (symbols->debug_tried)
		return symbols->debug != NULL;
	symbols->debug_tried = true;
	if (id.size) {
		request.kind = SNAP_FILE_DEBUG;
		request.build_id = id.data;
		request.build_id_size = id.size;
		symbols->debug = search_file(symbolizer, symbols, request,
					     "the debug file by build id", accept_build_id, &id);
	}
	if (symbols->debug ||
	    !parse_debuglink(snap_image_section(image, ".gnu_debuglink"), &request.name, &crc))
		return symbols->debug != NULL;
	request.kind = SNAP_FILE_DEBUG_LINK;
	symbols->debug = search_file(symbolizer, symbols, request, "the debug file by debug link",
				     accept_crc, &crc);
	return symbols->debug != NULL;
}

/* .gnu_debugaltlink: a path, NUL, the build id. Only the path's last part is looked for. */
bool snap_debugfile_open_alt(struct snap_symbolizer *symbolizer, struct snap_file_symbols *symbols,
			     struct snap_image *image)
{
	struct snap_bytes section = snap_image_section(image, ".gnu_debugaltlink"), id;
	struct snap_file_request request = symbols->file->request;
	const uint8_t *end;
	const char *slash;

	if (symbols->alt_tried)
		return symbols->alt != NULL;
	symbols->alt_tried = true;
	end = section.size ? memchr(section.data, '\0', section.size) : NULL;
	if (!end)
		return false;
	id.data = end + 1;
	id.size = section.size - (size_t)(end + 1 - section.data);
	if (id.size == 0 || id.size > SNAP_MAX_BUILD_ID)
		return false;
	slash = strrchr((const char *)section.data, '/');
	request.kind = SNAP_FILE_ALT;
	request.build_id = id.data;
	request.build_id_size = id.size;
	request.name = slash ? slash + 1 : (const char *)section.data;
	symbols->alt = search_file(symbolizer, symbols, request, "the alt file of the debug file",
				   accept_build_id, &id);
	if (!symbols->alt)
		snap_symbols_trouble(symbolizer, symbols,
				     "the alt file of the debug file was not found");
	return symbols->alt != NULL;
}

/* Unpacks xz; the size is not known before, so the room doubles, up to a cap. */
static uint8_t *unpack_mini(struct snap_bytes packed, size_t *size_ret)
{
	size_t room = packed.size * 4;

	for (; room <= MAX_MINI; room *= 2) {
		_cleanup_free_ uint8_t *bytes = malloc(room);
		uint64_t memory = (uint64_t)MAX_MINI * 2; /* a dictionary of 64 MiB: xz -9 */
		size_t in = 0, out = 0;
		lzma_ret result;

		if (!bytes)
			return NULL;
		result = lzma_stream_buffer_decode(&memory, 0, NULL, packed.data, &in, packed.size,
						   bytes, &out, room);
		if (result == LZMA_OK) {
			*size_ret = out;
			return snap_take_ptr(bytes);
		}
		if (result != LZMA_BUF_ERROR)
			return NULL;
	}
	return NULL;
}

bool snap_debugfile_open_mini(struct snap_symbolizer *symbolizer, struct snap_file_symbols *symbols)
{
	struct snap_bytes packed;
	size_t size;

	if (symbols->mini_tried)
		return symbols->mini != NULL;
	symbols->mini_tried = true;
	packed = snap_image_section(symbols->file->image, ".gnu_debugdata");
	if (packed.size == 0)
		return false;
	symbols->mini_bytes = unpack_mini(packed, &size);
	if (!symbols->mini_bytes ||
	    snap_error_ignore(snap_image_open_memory(symbols->mini_bytes, size, &symbols->mini)))
		snap_symbols_trouble(symbolizer, symbols, "section .gnu_debugdata is corrupt");
	return symbols->mini != NULL;
}

void snap_debugfile_close(struct snap_file_symbols *symbols)
{
	snap_dwarf_close(symbols->dwarf);
	snap_image_close(symbols->debug);
	snap_image_close(symbols->alt);
	snap_image_close(symbols->mini);
	free(symbols->mini_bytes);
	symbols->dwarf = NULL;
	symbols->debug = symbols->alt = symbols->mini = NULL;
	symbols->mini_bytes = NULL;
	symbols->debug_tried = symbols->alt_tried = symbols->mini_tried = false;
}
