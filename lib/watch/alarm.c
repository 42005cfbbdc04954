/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From conditions that hold to alerts: see alarm.h. There are few at a time, so a list will do. */
#include "watch/alarm.h"

#include "base/buffer.h"
#include "base/clock.h"

#include <string.h>

enum { MOST_ALARMS = 1 << 12 };

struct snap_alarm {
	enum snap_alert_kind kind;
	uint64_t key;
	int64_t begun_ns; /* CLOCK_MONOTONIC */
	uint64_t round;   /* that it was seen in last */
	unsigned sightings, wanted;
	uint64_t evidence; /* of the latest */
	bool raised;
	pid_t pid, tids[SNAP_ALARM_TIDS];
	size_t tid_count;
	char process[SNAP_MAX_COMM], name[SNAP_MAX_THREAD_NAME];
};

void snap_alarms_deinit(struct snap_alarms *alarms)
{
	for (size_t i = 0; i < alarms->count; i++)
		free(alarms->list[i]);
	free(alarms->list);
	alarms->list = NULL;
	alarms->count = alarms->capacity = 0;
}

void snap_alarms_begin(struct snap_alarms *alarms)
{
	alarms->round++;
}

static struct snap_alarm *find_alarm(const struct snap_alarms *alarms,
				     const struct snap_sighting *sighting)
{
	for (size_t i = 0; i < alarms->count; i++)
		if (alarms->list[i]->key == sighting->key &&
		    alarms->list[i]->kind == sighting->alert.kind)
			return alarms->list[i];
	return NULL;
}

/* What is said of it when the snapshot that showed it has gone. */
static void remember_alert(struct snap_alarm *alarm, const struct snap_alert *alert)
{
	alarm->pid = alert->pid;
	alarm->tid_count = alert->tid_count < SNAP_ALARM_TIDS ? alert->tid_count : SNAP_ALARM_TIDS;
	if (alarm->tid_count)
		memcpy(alarm->tids, alert->tids, alarm->tid_count * sizeof(*alarm->tids));
	snprintf(alarm->process, sizeof(alarm->process), "%s",
		 alert->process ? alert->process : "");
	snprintf(alarm->name, sizeof(alarm->name), "%s", alert->name ? alert->name : "");
}

static void report_alert(struct snap_alarms *alarms, struct snap_alert alert)
{
	alert.time_ns = snap_clock_ns(CLOCK_REALTIME);
	if (!alarms->enough)
		alarms->enough = !alarms->tell(alarms->context, &alert);
}

static void raise_if_due(struct snap_alarms *alarms, struct snap_alarm *alarm,
			 const struct snap_alert *sight, int64_t now_ns)
{
	struct snap_alert alert = *sight;

	if (alarm->raised || alarm->sightings < alarm->wanted ||
	    now_ns - alarm->begun_ns < alarms->rules->of[alarm->kind].for_ns)
		return;
	alarm->raised = true;
	alarms->raised++;
	alert.over = false;
	alert.since_ns = now_ns - alarm->begun_ns;
	report_alert(alarms, alert);
}

struct stacksnap_error *snap_alarms_see(struct snap_alarms *alarms,
					const struct snap_sighting *sighting, int64_t now_ns)
{
	struct snap_alarm *alarm = find_alarm(alarms, sighting);

	if (!alarms->rules->of[sighting->alert.kind].on)
		return NULL;
	if (!alarm) {
		/* More than a person reads: the alarms that exist already come first. */
		if (alarms->count >= MOST_ALARMS)
			return NULL;
		alarm = calloc(1, sizeof(*alarm));
		if (!alarm ||
		    !snap_reserve_array(alarms->list, alarms->capacity, alarms->count + 1)) {
			free(alarm);
			return snap_error_no_memory();
		}
		alarms->list[alarms->count++] = alarm;
		alarm->kind = sighting->alert.kind;
		alarm->key = sighting->key;
		alarm->begun_ns = now_ns;
		alarm->wanted = sighting->sightings;
		alarm->evidence = sighting->evidence;
		alarm->sightings = 1;
	} else if (alarm->evidence != sighting->evidence) {
		alarm->evidence = sighting->evidence;
		alarm->sightings++;
	}
	if (now_ns - sighting->holds_ns < alarm->begun_ns)
		alarm->begun_ns = now_ns - sighting->holds_ns;
	alarm->round = alarms->round;
	remember_alert(alarm, &sighting->alert);
	raise_if_due(alarms, alarm, &sighting->alert, now_ns);
	return NULL;
}

void snap_alarms_end(struct snap_alarms *alarms, int64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < alarms->count; i++) {
		struct snap_alarm *alarm = alarms->list[i];

		if (alarm->round == alarms->round) {
			alarms->list[kept++] = alarm;
			continue;
		}
		if (alarm->raised)
			report_alert(alarms,
				     (struct snap_alert){
					     .kind = alarm->kind,
					     .over = true,
					     .since_ns = now_ns - alarm->begun_ns,
					     .pid = alarm->pid,
					     .process = *alarm->process ? alarm->process : NULL,
					     .tids = alarm->tids,
					     .tid_count = alarm->tid_count,
					     .name = *alarm->name ? alarm->name : NULL,
				     });
		free(alarm);
	}
	alarms->count = kept;
}

bool snap_alarms_hold(const struct snap_alarms *alarms, enum snap_alert_kind kind)
{
	return snap_any(alarms->count, i, alarms->list[i]->kind == kind);
}

bool snap_alarms_lack_evidence(const struct snap_alarms *alarms)
{
	return snap_any(alarms->count, i, alarms->list[i]->sightings < alarms->list[i]->wanted);
}
