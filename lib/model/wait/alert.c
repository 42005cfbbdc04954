/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The words of alerts, and when each is reported: see alert.h. */
#include "model/wait/alert.h"

#include "base/clock.h"

#include <string.h>

static const struct {
	const char *word;
	uint32_t least;
	int64_t for_s;
} kinds[SNAP_ALERT_KINDS] = {
	[SNAP_ALERT_DEADLOCK] = { "deadlock", 0, 0 },   [SNAP_ALERT_BLOCKED] = { "blocked", 3, 10 },
	[SNAP_ALERT_STUCK] = { "stuck", 0, 60 },        [SNAP_ALERT_DISK] = { "disk", 0, 10 },
	[SNAP_ALERT_SPINNING] = { "spinning", 90, 10 }, [SNAP_ALERT_POOL] = { "pool", 0, 10 },
	[SNAP_ALERT_PEER] = { "peer", 0, 5 },           [SNAP_ALERT_GROWTH] = { "growth", 20, 0 },
};

const char *snap_alert_word(enum snap_alert_kind kind)
{
	return kinds[kind].word;
}

enum snap_alert_kind snap_alert_of_word(const char *word, size_t length)
{
	for (int kind = 0; kind < SNAP_ALERT_KINDS; kind++)
		if (strlen(kinds[kind].word) == length &&
		    memcmp(kinds[kind].word, word, length) == 0)
			return (enum snap_alert_kind)kind;
	return SNAP_ALERT_KINDS;
}

struct snap_watch_rules snap_watch_default_rules(void)
{
	struct snap_watch_rules rules;

	for (int kind = 0; kind < SNAP_ALERT_KINDS; kind++)
		rules.of[kind] = (struct snap_watch_rule){
			.on = true,
			.least = kinds[kind].least,
			.for_ns = kinds[kind].for_s * SNAP_NS_PER_S,
		};
	return rules;
}
