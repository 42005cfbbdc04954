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
enum {
	MAX_CANDIDATES = 16,
	MAX_MINI = 32 << 20,
	LOOK_AT_TIME = 1 << 20, /* bytes between two looks at whether the file is late */
};
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

struct checksum {
	struct snap_symbolizer *symbolizer;
	uint32_t wanted;
};

static bool accept_crc(struct snap_image *image, const void *wanted, const char **why)
{
	const struct checksum *checksum = wanted;
	struct snap_bytes bytes = snap_image_bytes(image);
	unsigned long crc = 0;

	/* All of it is read: a sparse file of a target could be a terabyte. */
	*why = "it is too large to checksum";
	if (bytes.size > max_checked)
		return false;
	*why = "its CRC differs from that of the debug link";
	for (size_t at = 0; at < bytes.size; at += LOOK_AT_TIME) {
		if (snap_symbolizer_is_late(checksum->symbolizer))
			return false;
		crc = crc32_z(crc, bytes.data + at, SNAP_MIN(bytes.size - at, LOOK_AT_TIME));
	}
	return crc == checksum->wanted;
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

	for (request.attempt = 0; request.attempt < MAX_CANDIDATES && !symbolizer->is_late;
	     request.attempt++) {
		_cleanup_fd_ int fd = -1;
		struct snap_image *image = NULL;
		struct stacksnap_error *err;

		err = symbolizer->finder->find(symbolizer->finder->context, &request, &fd);
		if (err && snap_error_code(err) == SNAP_ERROR_NOT_FOUND) {
			snap_error_destroy(err);
			break;
		}
		err = err ?: snap_image_open(fd, &image);
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
	struct checksum checksum = { .symbolizer = symbolizer };

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
	if (symbols->debug || !parse_debuglink(snap_image_section(image, ".gnu_debuglink"),
					       &request.name, &checksum.wanted))
		return symbols->debug != NULL;
	request.kind = SNAP_FILE_DEBUG_LINK;
	symbols->debug = search_file(symbolizer, symbols, request, "the debug file by debug link",
				     accept_crc, &checksum);
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

/* False: there is no memory, or it is full. */
static bool grow_mini(uint8_t **bytes, size_t *room)
{
	size_t more = *room ? SNAP_MIN(*room * 2, MAX_MINI) : LOOK_AT_TIME;
	uint8_t *grown = more > *room ? realloc(*bytes, more) : NULL;

	if (!grown)
		return false;
	*bytes = grown;
	*room = more;
	return true;
}

/* Unpacks xz; the size is not known before, so the room grows, up to a cap. NULL also where it is late. */
static uint8_t *unpack_mini(struct snap_symbolizer *symbolizer, struct snap_bytes packed,
			    size_t *size_ret)
{
	/* A dictionary of 64 MiB: xz -9. */
	const uint64_t most_memory = (uint64_t)MAX_MINI * 2;
	lzma_stream stream = LZMA_STREAM_INIT;
	_cleanup_free_ uint8_t *bytes = NULL;
	lzma_ret result = lzma_stream_decoder(&stream, most_memory, 0);
	size_t room = 0, done = 0;

	stream.next_in = packed.data;
	stream.avail_in = packed.size;
	while (result == LZMA_OK && !snap_symbolizer_is_late(symbolizer) &&
	       (done < room || grow_mini(&bytes, &room))) {
		size_t step = SNAP_MIN(room - done, LOOK_AT_TIME);

		stream.next_out = bytes + done;
		stream.avail_out = step;
		result = lzma_code(&stream, LZMA_FINISH);
		done += step - stream.avail_out;
	}
	lzma_end(&stream);
	*size_ret = done;
	return result == LZMA_STREAM_END ? snap_take_ptr(bytes) : NULL;
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
	symbols->mini_bytes = unpack_mini(symbolizer, packed, &size);
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
