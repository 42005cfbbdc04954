/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parts of the lines of waits: see parts.h. printf's %f is not used, as it follows the locale. */
#include "model/wait/parts.h"

#include "base/clock.h"
#include "base/escape.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

enum { LONGEST_NAME = 64, PARTIES_SHOWN = 3, FIRST_REALTIME = 34, LAST_SIGNAL = 64 };

void snap_wait_add_name(struct snap_buffer *text, const char *name)
{
	size_t length = strnlen(name, LONGEST_NAME + 4);
	size_t kept = snap_text_cut(name, length, LONGEST_NAME);

	snap_buffer_add(text, name, kept);
	if (kept < length)
		snap_buffer_add_text(text, "...");
}

void snap_wait_add_path(struct snap_buffer *text, const char *path)
{
	size_t length = strlen(path), skipped = length > LONGEST_NAME ? length - LONGEST_NAME : 0;

	if (skipped == 0) {
		snap_buffer_add(text, path, length);
		return;
	}
	/* Not in the middle of a character: its other bytes are 10xxxxxx. */
	while (skipped < length && ((unsigned char)path[skipped] & 0xc0) == 0x80)
		skipped++;
	snap_buffer_add_text(text, "...");
	snap_buffer_add(text, path + skipped, length - skipped);
}

void snap_wait_add_size(struct snap_buffer *text, int64_t bytes)
{
	if (bytes < 1024) {
		snap_buffer_printf(text, "%" PRId64 " byte%s", bytes, bytes == 1 ? "" : "s");
		return;
	}
	if (bytes < 1 << 20)
		snap_buffer_printf(text, "%" PRId64 " kB", bytes >> 10);
	else if (bytes < 1 << 30)
		snap_buffer_printf(text, "%" PRId64 ".%d MB", bytes >> 20,
				   (int)((bytes & 0xfffff) * 10 >> 20));
	else
		snap_buffer_printf(text, "%" PRId64 ".%d GB", bytes >> 30,
				   (int)((bytes & 0x3fffffff) * 10 >> 30));
}

static void add_duration(struct snap_buffer *text, int64_t ns)
{
	int64_t seconds = ns / SNAP_NS_PER_S, minutes = seconds / 60, hours = minutes / 60;

	if (seconds == 0)
		snap_buffer_printf(text, "%" PRId64 " ms", ns / SNAP_NS_PER_MS);
	else if (minutes == 0)
		snap_buffer_printf(text, "%" PRId64 ".%d s", seconds,
				   (int)(ns % SNAP_NS_PER_S / (SNAP_NS_PER_S / 10)));
	else if (hours == 0)
		snap_buffer_printf(text, "%" PRId64 " min", minutes);
	else if (hours < 24)
		snap_buffer_printf(text, "%" PRId64 "h%02dm", hours, (int)(minutes % 60));
	else
		snap_buffer_printf(text, "%" PRId64 "d%02dh", hours / 24, (int)(hours % 24));
}

void snap_wait_add_duration(struct snap_buffer *text, int64_t least_ns, int64_t most_ns)
{
	struct snap_buffer least = { 0 }, most = { 0 };

	add_duration(&least, least_ns);
	add_duration(&most, most_ns);
	snap_buffer_add_text(text, snap_buffer_text(&least));
	if (strcmp(snap_buffer_text(&least), snap_buffer_text(&most)) != 0)
		snap_buffer_printf(text, " to %s", snap_buffer_text(&most));
	snap_buffer_deinit(&least);
	snap_buffer_deinit(&most);
}

/* As kill -l of procps and bash has them; the C library uses the two signals below SIGRTMIN. */
static void add_signal(struct snap_buffer *text, int number)
{
	const char *name = number < FIRST_REALTIME ? sigabbrev_np(number) : NULL;

	if (name)
		snap_buffer_printf(text, "SIG%s", name);
	else if (number == FIRST_REALTIME)
		snap_buffer_add_text(text, "SIGRTMIN");
	else if (number > FIRST_REALTIME)
		snap_buffer_printf(text, "SIGRTMIN+%d", number - FIRST_REALTIME);
	else
		snap_buffer_printf(text, "signal %d", number);
}

void snap_wait_add_signals(struct snap_buffer *text, uint64_t signals)
{
	enum { SHOWN = 6 };
	int count = __builtin_popcountll(signals), shown = 0;

	for (int number = 1; number <= LAST_SIGNAL && shown < SHOWN; number++) {
		if (!(signals >> (number - 1) & 1))
			continue;
		if (shown++)
			snap_buffer_add_text(text, ", ");
		add_signal(text, number);
	}
	if (count > shown)
		snap_buffer_printf(text, " and %d more", count - shown);
}

/* ---- threads ---- */

static const char *doing_of_state(char state)
{
	static const char letters[] = "TtZX";
	static const char *const texts[] = { "stopped by a signal", "traced", "zombie", "dead" };
	const char *at = state ? strchr(letters, state) : NULL;

	return at ? texts[at - letters] : NULL;
}

void snap_wait_add_doing(struct snap_buffer *text, const struct snap_wait_party *party)
{
	const char *word = doing_of_state(party->state);

	if (word) {
		snap_buffer_printf(text, " (%s)", word);
	} else if (party->wait) {
		snap_buffer_add_text(text, " (");
		snap_wait_add_brief(text, party->wait);
		snap_buffer_add_byte(text, ')');
	} else if (party->outside) {
		snap_buffer_add_text(text, " (not in this report)");
	} else if (party->state == 'R' && party->function) {
		snap_buffer_add_text(text, " (running in ");
		snap_wait_add_name(text, party->function);
		snap_buffer_add_byte(text, ')');
	} else if (party->state == 'R') {
		snap_buffer_add_text(text, " (running)");
	} else if (party->function) {
		snap_buffer_add_text(text, " (in ");
		snap_wait_add_name(text, party->function);
		snap_buffer_add_byte(text, ')');
	}
}

void snap_wait_add_party(struct snap_buffer *text, const struct snap_wait_party *party, bool doing)
{
	snap_buffer_printf(text, "%d", party->tid ? party->tid : party->pid);
	if (party->name) {
		snap_buffer_add_byte(text, ' ');
		snap_wait_add_name(text, party->name);
	}
	if (doing)
		snap_wait_add_doing(text, party);
}

void snap_wait_add_parties(struct snap_buffer *text, const struct snap_wait_party *parties,
			   size_t count, size_t total, bool doing)
{
	size_t shown = count > PARTIES_SHOWN ? PARTIES_SHOWN : count;

	for (size_t i = 0; i < shown; i++) {
		if (i)
			snap_buffer_add_text(text, ", ");
		snap_wait_add_party(text, &parties[i], doing);
	}
	if (total > shown)
		snap_buffer_printf(text, " and %zu more", total - shown);
}
