/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A capture on disk: see file.h.
 *
 *	header     magic (8), version (u32), number of processes (u32), zero (u64), hash (u64)
 *	section    kind (u32), zero (u32), length (u64), payload, zeros up to a multiple of 16,
 *	           hash of the header and the payload (u64), zero (u64)
 *	order      CAPTURE, then for each process PROCESS and its EMBEDDED ones, then END
 *
 * A capture that is handed over in memory has the highest bit of the version set, 0 for the hashes
 * of sections, and may refer to bytes of the shared mapping.
 *
 * All little endian. The bytes that are read stay in place: texts, registers and stacks point into
 * them. The fields are listed in model.c.
 */
#include "store/capture/file.h"
#include "base/table.h"

#include "store/capture/model.h"
#include "store/contents.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { VERSION = 1, FIRST_BYTES = 1 << 20 };

enum section_kind { SECTION_CAPTURE = 1, SECTION_PROCESS, SECTION_EMBEDDED, SECTION_END };

static const uint8_t MAGIC[8] = { 0x89, 's', 'n', 'a', 'p', 'c', 'a', 'p' };
static const uint64_t LARGEST_FILE = 1ull << 33;
static const uint32_t HANDED_OVER = 1u << 31; /* a bit of the version */

struct file_header {
	uint8_t magic[8];
	uint32_t version, process_count;
	uint64_t zero, hash;
};

struct section_header {
	uint32_t kind, zero;
	uint64_t length;
};

struct section_end {
	uint64_t hash, zero;
};

/* The subject of a section: the arguments of its description. */
struct subject {
	enum section_kind kind;
	struct snap_capture *capture;
	size_t process, embedded;
};

static void describe_section(struct snap_codec *codec, const struct subject *subject)
{
	struct snap_process *process = &subject->capture->processes[subject->process];

	switch (subject->kind) {
	case SECTION_CAPTURE:
		snap_code_capture(codec, subject->capture);
		break;
	case SECTION_PROCESS:
		snap_code_process(codec, subject->capture, subject->process);
		break;
	case SECTION_EMBEDDED:
		snap_code_embedded(codec, process, &process->embedded[subject->embedded]);
		break;
	case SECTION_END:
		break;
	}
}

static uint64_t padding_size(uint64_t length)
{
	return -length & (SNAP_CODEC_ALIGNMENT - 1);
}

static struct section_end make_end(const struct section_header *header, uint64_t payload_hash)
{
	uint64_t hash = snap_hash_bytes(header, sizeof(*header), payload_hash);

	return (struct section_end){ .hash = htole64(hash) };
}

static struct file_header make_header(uint32_t version, size_t process_count)
{
	struct file_header header = { .version = htole32(version),
				      .process_count = htole32((uint32_t)process_count) };

	memcpy(header.magic, MAGIC, sizeof(header.magic));
	header.hash = htole64(snap_hash_bytes(&header, offsetof(struct file_header, hash), 0));
	return header;
}

/* ---- writing ---- */

static struct stacksnap_error *write_capture_bytes(int fd, const void *bytes, size_t size)
{
	int os_errno = snap_write_all(fd, bytes, size);

	return os_errno ? snap_error_os(os_errno, "cannot write the capture") : NULL;
}

/* Where sections go. */
struct sink {
	int fd;
	uint8_t *chunk; /* SNAP_CODEC_CHUNK bytes */
	bool handed;
	const uint8_t *outside; /* with handed: the shared mapping of the capture */
	uint64_t outside_size;
};

/* Described twice: once for its length, once to write it, a chunk at a time. */
static struct stacksnap_error *write_section(const struct sink *sink, const struct subject *subject)
{
	static const uint8_t zeros[SNAP_CODEC_ALIGNMENT];
	struct snap_codec count = {
		.mode = SNAP_CODEC_COUNT,
		.handed = sink->handed,
		.outside = sink->outside,
		.outside_size = sink->outside_size,
	};
	struct snap_codec codec = {
		.mode = SNAP_CODEC_WRITE,
		.fd = sink->fd,
		.chunk = sink->chunk,
		.handed = sink->handed,
		.outside = sink->outside,
		.outside_size = sink->outside_size,
	};
	struct section_header header = { .kind = htole32(subject->kind) };
	struct section_end end;

	describe_section(&count, subject);
	header.length = htole64(count.position);
	SNAP_TRY(write_capture_bytes(sink->fd, &header, sizeof(header)));
	describe_section(&codec, subject);
	snap_codec_flush(&codec);
	if (codec.write_errno)
		return snap_error_os(codec.write_errno, "cannot write the capture");
	SNAP_TRY(write_capture_bytes(sink->fd, zeros, padding_size(count.position)));
	end = sink->handed ? (struct section_end){ 0 } : make_end(&header, codec.hash);
	return write_capture_bytes(sink->fd, &end, sizeof(end));
}

static struct stacksnap_error *write_process(const struct sink *sink, struct snap_capture *capture,
					     size_t index)
{
	struct subject subject = { .kind = SECTION_PROCESS, .capture = capture, .process = index };
	struct stacksnap_error *err = write_section(sink, &subject);

	subject.kind = SECTION_EMBEDDED;
	for (size_t i = 0; !err && i < capture->processes[index].embedded_count; i++) {
		subject.embedded = i;
		err = write_section(sink, &subject);
	}
	return err;
}

static struct stacksnap_error *write_capture(const struct snap_capture *capture, int fd,
					     bool handed)
{
	_cleanup_free_ uint8_t *chunk = malloc(SNAP_CODEC_CHUNK);
	const struct sink sink = {
		.fd = fd,
		.chunk = chunk,
		.handed = handed,
		.outside = capture->shared_fd >= 0 ? capture->shared : NULL,
		.outside_size = capture->shared_size,
	};
	struct file_header header =
		make_header(handed ? VERSION | HANDED_OVER : VERSION, capture->process_count);
	/* The descriptions also read; when they write, they change nothing. */
	struct subject subject = { .kind = SECTION_CAPTURE,
				   .capture = (struct snap_capture *)(uintptr_t)capture };
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_no_memory_unless(chunk));
	SNAP_TRY(write_capture_bytes(fd, &header, sizeof(header)));
	err = write_section(&sink, &subject);
	for (size_t i = 0; !err && i < capture->process_count; i++)
		err = write_process(&sink, subject.capture, i);
	if (err)
		return err;
	subject.kind = SECTION_END;
	return write_section(&sink, &subject);
}

struct stacksnap_error *snap_capture_write(const struct snap_capture *capture, int fd)
{
	return write_capture(capture, fd, false);
}

struct stacksnap_error *snap_capture_hand_over(const struct snap_capture *capture, int fd)
{
	return write_capture(capture, fd, true);
}

/* ---- reading ---- */

/* A file on its way into a capture. */
struct source {
	struct snap_contents contents;
	size_t at;   /* sections before this byte are read */
	bool handed; /* handed over in memory, and beside it … */
	int outside; /* … this one, -1: none */
};

static void source_deinit(struct source *source)
{
	snap_contents_deinit(&source->contents);
}

static struct stacksnap_error *truncated_capture(void)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "the capture is truncated");
}

static struct stacksnap_error *damaged_capture(const char *how)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "the capture is damaged: %s", how);
}

bool snap_capture_is_capture(const void *bytes, size_t size)
{
	return size >= sizeof(MAGIC) && memcmp(bytes, MAGIC, sizeof(MAGIC)) == 0;
}

/* The header first: a foreign file is not read to its end, which it may not have. */
static struct stacksnap_error *read_capture_header(struct source *source, uint32_t *count_ret)
{
	uint32_t mark = source->handed ? HANDED_OVER : 0, version;
	struct file_header header, right;

	if (!snap_capture_is_capture(source->contents.bytes, source->contents.size))
		return snap_error_format(SNAP_ERROR_FORMAT,
					 "this is not a capture (see --save-capture)");
	if (source->contents.size < sizeof(header))
		return truncated_capture();
	memcpy(&header, source->contents.bytes, sizeof(header));
	version = le32toh(header.version) ^ mark;
	if (version != VERSION)
		return snap_error_format(
			SNAP_ERROR_FORMAT,
			"the capture has format %u; this stacksnap reads format %u", version,
			VERSION);
	right = make_header(version | mark, le32toh(header.process_count));
	if (memcmp(&header, &right, sizeof(header)) != 0)
		return damaged_capture("invalid header");
	*count_ret = le32toh(header.process_count);
	source->at = sizeof(header);
	return *count_ret <= SNAP_MAX_PROCESSES ? NULL : damaged_capture("too many processes");
}

static struct stacksnap_error *read_section(struct source *source, const struct subject *subject)
{
	const size_t frame = sizeof(struct section_header) + sizeof(struct section_end);
	struct section_header header;
	struct section_end end, right;
	const uint8_t *payload;
	size_t left;
	uint64_t length, whole;

	SNAP_TRY(snap_contents_load(&source->contents, source->at + frame));
	payload = source->contents.bytes + source->at + sizeof(header);
	left = source->contents.total - source->at;
	if (left < frame)
		return truncated_capture();
	memcpy(&header, source->contents.bytes + source->at, sizeof(header));
	length = le64toh(header.length);
	if (le32toh(header.kind) != subject->kind || header.zero)
		return damaged_capture("misplaced section");
	left -= frame;
	whole = length + padding_size(length);
	if (length > left || whole > left)
		return truncated_capture();
	SNAP_TRY(snap_contents_load(&source->contents, source->at + frame + whole));
	if (source->contents.size - source->at < frame + whole)
		return truncated_capture();
	memcpy(&end, payload + whole, sizeof(end));
	right = source->handed ? (struct section_end){ 0 }
			       : make_end(&header, snap_codec_hash(payload, length));
	if (memcmp(&end, &right, sizeof(end)) != 0)
		return damaged_capture("checksum mismatch");
	for (uint64_t i = length; i < whole; i++) {
		if (payload[i])
			return damaged_capture("padding is not zero");
	}

	struct snap_codec codec = { .mode = SNAP_CODEC_READ,
				    .bytes = payload,
				    .size = length,
				    .arena = &subject->capture->arena,
				    .handed = source->handed,
				    .outside = subject->capture->outside,
				    .outside_size = subject->capture->outside_size };

	describe_section(&codec, subject);
	snap_codec_check(&codec, codec.position == length, "section too long");
	source->at += sizeof(header) + whole + sizeof(end);
	SNAP_TRY(snap_no_memory_unless(!snap_codec_lacks_memory(&codec)));
	return codec.problem ? damaged_capture(codec.problem) : NULL;
}

static struct stacksnap_error *read_capture_process(struct source *source,
						    struct snap_capture *capture, size_t index)
{
	struct snap_process *process = &capture->processes[index];
	struct subject subject = { .kind = SECTION_PROCESS, .capture = capture, .process = index };
	size_t least = sizeof(struct section_header) + sizeof(struct section_end), count;

	SNAP_TRY(read_section(source, &subject));
	count = process->embedded_count;
	process->embedded_count = 0;
	if (count > (source->contents.total - source->at) / least)
		return truncated_capture();
	process->embedded = snap_arena_new_array(&capture->arena, count, struct snap_embedded);
	SNAP_TRY(snap_no_memory_unless(process->embedded));
	process->embedded_count = count;
	subject.kind = SECTION_EMBEDDED;
	for (size_t i = 0; i < count; i++) {
		subject.embedded = i;
		SNAP_TRY(read_section(source, &subject));
	}
	return NULL;
}

static struct stacksnap_error *read_sections(struct source *source, uint32_t process_count,
					     struct snap_capture *capture)
{
	size_t least = sizeof(struct section_header) + sizeof(struct section_end);
	struct subject subject = { .kind = SECTION_CAPTURE, .capture = capture };
	struct stacksnap_error *err = NULL;

	if (process_count > source->contents.total / least)
		return truncated_capture();
	capture->processes =
		snap_arena_new_array(&capture->arena, process_count, struct snap_process);
	SNAP_TRY(snap_no_memory_unless(capture->processes));
	err = read_section(source, &subject);
	for (uint32_t i = 0; !err && i < process_count; i++) {
		capture->process_count = i + 1;
		err = read_capture_process(source, capture, i);
	}
	if (err)
		return err;
	subject.kind = SECTION_END;
	SNAP_TRY(read_section(source, &subject));
	return source->at == source->contents.total ? NULL : damaged_capture("trailing data");
}

static struct stacksnap_error *map_outside(struct snap_capture *capture, int fd)
{
	struct snap_contents contents;

	SNAP_TRY(snap_contents_map(&contents, fd, "capture"));
	capture->outside = snap_contents_take(&contents, &capture->outside_size);
	return NULL;
}

/* The source is loaded. */
static struct stacksnap_error *read_capture(struct source *source, uint32_t process_count,
					    struct snap_capture **ret)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();

	SNAP_TRY(snap_no_memory_unless(capture));
	if (source->handed && source->outside >= 0)
		SNAP_TRY(map_outside(capture, source->outside));
	SNAP_TRY(read_sections(source, process_count, capture));
	capture->shared = snap_contents_take(&source->contents, &capture->shared_size);
	*ret = snap_take_ptr(capture);
	return NULL;
}

struct stacksnap_error *snap_capture_read(int fd, struct snap_capture **ret)
{
	_cleanup_(source_deinit) struct source source = { .at = 0 };
	uint32_t process_count = 0;
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_contents_init(&source.contents, fd, "capture", FIRST_BYTES, LARGEST_FILE));
	err = snap_contents_load(&source.contents, sizeof(struct file_header));
	err = err ?: read_capture_header(&source, &process_count);
	/* The whole of a pipe: how long it is says what there may be in it. */
	err = err ?: snap_contents_load(&source.contents, sizeof(struct file_header));
	return err ? err : read_capture(&source, process_count, ret);
}

struct stacksnap_error *snap_capture_take_over(int fd, int shared_fd, struct snap_capture **ret)
{
	_cleanup_(source_deinit) struct source source = { .handed = true, .outside = shared_fd };
	uint32_t process_count = 0;

	SNAP_TRY(snap_contents_map(&source.contents, fd, "capture"));
	SNAP_TRY(read_capture_header(&source, &process_count));
	return read_capture(&source, process_count, ret);
}
