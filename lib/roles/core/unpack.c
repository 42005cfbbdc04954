/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unpacking in a sandbox: see core.h. A parser has the packed file, and memory of two halves that
 * it shares with its maker. It fills one half while the maker writes the other one to the file. So
 * it opens and writes no file, and the maker limits the size of the result.
 *
 *     maker --packed file--> parser
 *           <--a half is filled--
 *           --it is free again-->
 */
#include "roles/core/core.h"

#include "core/unpack.h"
#include "roles/parser.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

enum {
	HALF = 1 << 20,
	HALVES = 2,
	INPUT = 1 << 16,
	BLOCK = 4096, /* of zeros, which become a hole */
	HEAD = 6,
};

/* A packed file can hold any number of zeros; it must not keep us busy for ever. */
static const uint64_t MOST_BYTES = 1ull << 42;

/* From the parser: so many bytes are in a half. */
struct filled {
	uint32_t half, size, is_last;
	struct snap_wire_error error; /* with the last one */
};

/* ---- in the parser ---- */

struct unpacking {
	enum snap_packing packing;
	uint8_t *memory; /* shared */
	int fd;          /* the packed file */
	uint8_t input[INPUT];
	struct snap_unpack_step step;
	bool at_end; /* of the file */
};

/* Fills a half, or less of it at the end. */
static struct stacksnap_error *fill_unpacked(struct unpacking *unpacking,
					     struct snap_unpacker *unpacker, uint8_t *half,
					     struct filled *filled)
{
	struct snap_unpack_step *step = &unpacking->step;
	struct stacksnap_error *err = NULL;

	step->out = half;
	step->out_size = HALF;
	while (!err && step->out_size && !filled->is_last) {
		size_t room = step->out_size, left;

		if (step->in_size == 0 && !unpacking->at_end) {
			ssize_t got = read(unpacking->fd, unpacking->input, INPUT);

			if (got < 0 && errno == EINTR)
				continue;
			if (got < 0)
				return snap_error_os(errno, "cannot read the packed file");
			unpacking->at_end = got == 0;
			step->in = unpacking->input;
			step->in_size = (size_t)got;
		}
		left = step->in_size;
		err = snap_unpacker_step(unpacker, step);
		/* The last step has neither taken nor given bytes. */
		filled->is_last = step->out_size == room && step->in_size == left &&
				  (unpacking->at_end || left);
	}
	filled->size = (uint32_t)(HALF - step->out_size);
	return err;
}

static void send_all(struct unpacking *unpacking, int channel)
{
	_cleanup_(snap_unpacker_destroyp) struct snap_unpacker *unpacker = NULL;
	struct filled filled = { .half = 0 };
	struct stacksnap_error *err = snap_unpacker_create(unpacking->packing, &unpacker);
	uint32_t word;
	size_t size;

	for (unsigned count = 0; !filled.is_last; count++) {
		filled.half = count % HALVES;
		filled.size = 0;
		/* Waits until the half is free again. */
		if (count >= HALVES && (snap_error_ignore(snap_wire_receive(
						channel, &word, sizeof(word), &size, NULL)) ||
					size == 0))
			return;
		err = err
			      ?: fill_unpacked(unpacking, unpacker,
					       unpacking->memory + (size_t)filled.half * HALF,
					       &filled);
		filled.is_last |= err != NULL;
		snap_wire_pack_error(err, &filled.error);
		if (snap_error_ignore(snap_wire_send(channel, &filled, sizeof(filled), -1)))
			break;
	}
	snap_error_destroy(err);
}

static void run_parser(void *context, int channel)
{
	struct unpacking *unpacking = context;
	uint32_t word;
	size_t size;

	if (!snap_error_ignore(
		    snap_wire_receive(channel, &word, sizeof(word), &size, &unpacking->fd)) &&
	    unpacking->fd >= 0)
		send_all(unpacking, channel);
}

/* ---- in its maker ---- */

struct output {
	int fd;
	uint64_t size;    /* of the file so far */
	uint64_t written; /* of it, without holes */
	uint64_t most;    /* the limit of `written` */
};

/* A file without a name, in a directory with room for more than memory holds. */
static struct stacksnap_error *open_output(struct output *output)
{
	const char *directory = getenv("TMPDIR");
	struct statvfs info;

	if (!directory || !*directory)
		directory = "/var/tmp";
	output->fd = open(directory, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	if (output->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
		char path[PATH_MAX];

		/* A file system without O_TMPFILE. */
		snprintf(path, sizeof(path), "%s/stacksnap-XXXXXX", directory);
		output->fd = mkostemp(path, O_CLOEXEC);
		if (output->fd >= 0)
			unlink(path);
	}
	if (output->fd < 0)
		return snap_error_os(errno, "cannot unpack into %s (TMPDIR)", directory);
	output->most = UINT64_MAX;
	if (fstatvfs(output->fd, &info) == 0)
		output->most = (uint64_t)info.f_bavail * info.f_frsize / 2;
	return NULL;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* Writes bytes that are not all zero. */
static int write_run(struct output *output, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t put = pwrite(output->fd, bytes, size, (off_t)output->size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? errno : EIO;
		bytes += put;
		size -= (size_t)put;
		output->size += (size_t)put;
		output->written += (size_t)put;
	}
	return 0;
}

/* 0 or an errno; ENOSPC: there is no room for more. */
static int write_half(struct output *output, const uint8_t *bytes, size_t size)
{
	int error = 0;

	for (size_t at = 0, end; at < size && !error; at = end) {
		size_t part = size - at < BLOCK ? size - at : BLOCK;

		end = at + part;
		if (is_zero(bytes + at, part)) {
			output->size += part;
			continue;
		}
		while (end < size) {
			part = size - end < BLOCK ? size - end : BLOCK;
			if (is_zero(bytes + end, part))
				break;
			end += part;
		}
		if (output->written + (end - at) > output->most)
			return ENOSPC;
		error = write_run(output, bytes + at, end - at);
	}
	return output->size > MOST_BYTES ? EFBIG : error;
}

/* Waits for the next message of the parser. */
static struct stacksnap_error *receive_unpacked(const struct snap_role *role,
						const struct snap_options *options,
						int64_t deadline_ns, struct filled *filled)
{
	struct stacksnap_error *err = snap_role_receive(role->channel, options, deadline_ns, filled,
							sizeof(*filled), NULL);

	if (!err && (filled->half >= HALVES || filled->size > HALF))
		err = snap_error_format(SNAP_ERROR_CRASHED, "invalid answer");
	return snap_error_wrap(err, "unpacking");
}

/* Why not all of it was written; NULL: it was. */
static const char *cut_by(int error)
{
	switch (error) {
	case 0:
		return NULL;
	case ENOSPC:
	case EDQUOT:
		return "there is no room for more of it in $TMPDIR";
	case EFBIG:
		return "it is larger than any core";
	default:
		return "$TMPDIR cannot be written";
	}
}

static struct stacksnap_error *take_all(const struct snap_role *role, const uint8_t *memory,
					const struct snap_options *options, int64_t deadline_ns,
					struct output *output, const char **cut_ret)
{
	struct filled filled = { .is_last = 0 };
	uint32_t word = 0;
	int error = 0;

	while (!filled.is_last && !error) {
		SNAP_TRY(receive_unpacked(role, options, deadline_ns, &filled));
		error = write_half(output, memory + (size_t)filled.half * HALF, filled.size);
		snap_error_destroy(snap_wire_send(role->channel, &word, sizeof(word), -1));
	}
	*cut_ret = cut_by(error);
	if (!error) {
		struct stacksnap_error *err = snap_wire_unpack_error(&filled.error);

		/* The bytes before the damage may be all that is needed. */
		if (err && output->size == 0)
			return err;
		if (err)
			*cut_ret = "it is damaged, or cut off";
		snap_error_destroy(err);
	}
	if (ftruncate(output->fd, (off_t)output->size) < 0)
		return snap_error_os(errno, "cannot unpack the file");
	return NULL;
}

static struct stacksnap_error *unpack(struct unpacking *unpacking, int fd,
				      const struct snap_options *options, int64_t deadline_ns,
				      struct output *output, const char **cut_ret)
{
	struct snap_role role = SNAP_ROLE_NONE;
	const struct snap_parser_stay stay = {
		.options = options,
		.run = run_parser,
		.context = unpacking,
		.memory = unpacking->memory,
		.memory_size = HALVES * HALF,
	};
	struct stacksnap_error *err = snap_parser_spawn(&stay, &role);
	uint32_t word = 0;

	err = err ?: snap_wire_send(role.channel, &word, sizeof(word), fd);
	err = err ?: take_all(&role, unpacking->memory, options, deadline_ns, output, cut_ret);
	snap_role_end(&role);
	return err;
}

struct stacksnap_error *snap_core_unpack_in_sandbox(int fd, const struct snap_options *options,
						    int64_t deadline_ns, int *fd_ret,
						    const char **cut_ret)
{
	_cleanup_free_ struct unpacking *unpacking = calloc(1, sizeof(*unpacking));
	_cleanup_fd_ int out = -1;
	struct output output = { .fd = -1 };
	struct stacksnap_error *err = NULL;
	uint8_t head[HEAD];
	ssize_t got = pread(fd, head, sizeof(head), 0);

	*fd_ret = -1;
	*cut_ret = NULL;
	SNAP_TRY(snap_no_memory_unless(unpacking));
	/* What cannot be read is reported by its reader; a pipe is not unpacked. */
	unpacking->packing = got < 0 ? SNAP_PACKING_NONE : snap_packing_of(head, (size_t)got);
	unpacking->fd = -1;
	if (unpacking->packing == SNAP_PACKING_NONE)
		return NULL;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return snap_error_os(errno, "cannot read the core");
	SNAP_TRY(open_output(&output));
	out = output.fd;
	unpacking->memory = mmap(NULL, HALVES * HALF, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	SNAP_TRY(snap_no_memory_unless(unpacking->memory != MAP_FAILED));
	err = unpack(unpacking, fd, options, deadline_ns, &output, cut_ret);
	munmap(unpacking->memory, HALVES * HALF);
	if (!err)
		*fd_ret = snap_take_fd(&out);
	return err;
}
