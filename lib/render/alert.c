/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Alerts as lines: see alert.h. What an alert is about is said in the words of the report: the line
 * of a wait, the description of a group.
 */
#include "render/alert.h"

#include "base/clock.h"
#include "base/escape.h"
#include "render/json/document.h"
#include "render/json/waits.h"
#include "render/view/elide.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { SHOWN_TIDS = 5 };

/* ---- text ---- */

static void add_escaped(struct snap_buffer *text, const struct snap_options *options,
			const char *bytes)
{
	size_t length = strlen(bytes), room = 4 * length + 1;
	char *place = snap_buffer_reserve(text, room);

	if (place)
		text->size += snap_escape(bytes, length, options->utf8 ? 0 : SNAP_ESCAPE_ASCII,
					  place, room);
}

static void add_time(struct snap_buffer *text, int64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / SNAP_NS_PER_S);
	struct tm parts;

	if (gmtime_r(&seconds, &parts))
		snap_buffer_printf(text, "%04d-%02d-%02dT%02d:%02d:%02dZ", parts.tm_year + 1900,
				   parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
				   parts.tm_sec);
}

static void add_duration(struct snap_buffer *text, int64_t ns)
{
	int64_t seconds = ns / SNAP_NS_PER_S;

	if (seconds < 60)
		snap_buffer_printf(text, "%" PRId64 " s", seconds);
	else if (seconds < 3600)
		snap_buffer_printf(text, "%" PRId64 "m%02" PRId64 "s", seconds / 60, seconds % 60);
	else
		snap_buffer_printf(text, "%" PRId64 "h%02" PRId64 "m", seconds / 3600,
				   seconds / 60 % 60);
}

/* "orderd 812: 13563, 13564", or "orderd 812: 13563 worker-1". */
static void add_threads(struct snap_buffer *text, const struct snap_options *options,
			const struct snap_alert *alert)
{
	if (alert->process) {
		add_escaped(text, options, alert->process);
		snap_buffer_add_byte(text, ' ');
	}
	snap_buffer_printf(text, "%d:", (int)alert->pid);
	for (size_t i = 0; i < alert->tid_count && i < SHOWN_TIDS; i++)
		snap_buffer_printf(text, "%s %d", i ? "," : "", (int)alert->tids[i]);
	if (alert->tid_count > SHOWN_TIDS)
		snap_buffer_printf(text, " and %zu more", alert->tid_count - SHOWN_TIDS);
	if (alert->name) {
		snap_buffer_add_byte(text, ' ');
		add_escaped(text, options, alert->name);
	}
}

static void add_alert_wait(struct snap_buffer *text, const struct snap_options *options,
			   const struct snap_alert *alert)
{
	const struct snap_wait *wait = alert->wait;
	char *line = wait ? snap_wait_line(wait, false) : NULL;

	if (!line) {
		text->failed |= wait != NULL;
		return;
	}
	snap_buffer_add_text(text, ", ");
	if (alert->kind == SNAP_ALERT_DEADLOCK && alert->count > 1)
		snap_buffer_add_text(text, "the first ");
	add_escaped(text, options, line);
	free(line);
}

/* A blocker stands in a function of its own; its group may be named after where it began. */
static void add_place(struct snap_buffer *text, const struct snap_options *options,
		      const struct snap_alert *alert)
{
	const char *place = alert->function;
	_cleanup_free_ char *brief = NULL;

	if (!place && alert->stack)
		place = alert->stack->description;
	if (!place)
		return;
	brief = snap_short_name(options, options->utf8, place);
	text->failed |= !brief;
	snap_buffer_add_text(text, ", in ");
	add_escaped(text, options, brief ? brief : "");
}

/* " with mutex ledger_lock" */
static void add_held(struct snap_buffer *text, const struct snap_options *options,
		     const struct snap_wait *held)
{
	char *object = held ? snap_wait_object(held) : NULL;

	text->failed |= held && !object;
	if (object && *object) {
		snap_buffer_add_text(text, " with ");
		add_escaped(text, options, object);
	}
	free(object);
}

static void add_what(struct snap_buffer *text, const struct snap_options *options,
		     const struct snap_alert *alert)
{
	switch (alert->kind) {
	case SNAP_ALERT_DEADLOCK:
		snap_buffer_add_text(text, alert->count == 1 ? " waits for itself"
							     : " wait for each other");
		break;
	case SNAP_ALERT_BLOCKED:
		snap_buffer_printf(text, " holds up %" PRIu64 " threads", alert->count);
		add_held(text, options, alert->held);
		break;
	case SNAP_ALERT_SPINNING:
		snap_buffer_printf(text, " uses %" PRIu64 "%% of a processor", alert->count);
		break;
	case SNAP_ALERT_POOL:
		snap_buffer_printf(text, " all %" PRIu64 " threads are busy", alert->count);
		break;
	case SNAP_ALERT_GROWTH:
		snap_buffer_printf(text, " %" PRIu64 " threads, %" PRIu64 " ten looks before",
				   alert->count, alert->before);
		break;
	case SNAP_ALERT_DISK:
		snap_buffer_add_text(text, " does not come back from the kernel");
		break;
	case SNAP_ALERT_STUCK:
	case SNAP_ALERT_PEER:
		snap_buffer_add_text(text, " does not go on");
		break;
	case SNAP_ALERT_KINDS:
		break;
	}
	add_alert_wait(text, options, alert);
	add_place(text, options, alert);
	if (alert->since_ns >= SNAP_NS_PER_S) {
		snap_buffer_add_text(text, ", for ");
		add_duration(text, alert->since_ns);
	}
}

static struct stacksnap_error *write_line(struct snap_buffer *text, FILE *out)
{
	snap_buffer_add_byte(text, '\n');
	SNAP_TRY(snap_no_memory_unless(!text->failed));
	errno = 0;
	fwrite(text->data, 1, text->size, out);
	return ferror(out) ? snap_error_os(errno, "cannot write the alert") : NULL;
}

struct stacksnap_error *snap_render_alert_text(const struct snap_alert *alert,
					       const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_buffer_deinit) struct snap_buffer text = { .data = NULL };

	add_time(&text, alert->time_ns);
	snap_buffer_printf(&text, " %s ", snap_alert_word(alert->kind));
	add_threads(&text, options, alert);
	if (alert->over) {
		snap_buffer_add_text(&text, " over after ");
		add_duration(&text, alert->since_ns);
	} else {
		add_what(&text, options, alert);
	}
	return write_line(&text, out);
}

/* ---- JSON ---- */

static void put_alert_stack(struct snap_json_writer *json, struct snap_json_entries *entries,
			    const struct snap_stack *stack)
{
	if (!stack)
		return;
	snap_json_begin(json, "stack", '{');
	snap_json_clean(json, "id", stack->id);
	snap_json_text_if(json, "description", stack->description);
	snap_json_entries_put(entries, json, stack->frames, stack->frame_count);
	snap_json_end(json, '}');
}

struct stacksnap_error *snap_render_alert_json(const struct snap_alert *alert, FILE *out)
{
	struct snap_json_document document;
	struct stacksnap_error *err =
		snap_json_document_init(&document, NULL, out, SNAP_JSON_ONE_LINE);
	struct snap_json_writer *json = document.json;

	if (!err) {
		snap_json_begin(json, NULL, '{');
		snap_json_clean(json, "schema", "stacksnap.alert");
		snap_json_number(json, "schema_version", 1);
		snap_json_time_if(json, "time", alert->time_ns);
		snap_json_clean(json, "alert", snap_alert_word(alert->kind));
		snap_json_clean(json, "state", alert->over ? "over" : "raised");
		snap_json_number(json, "since_ns", alert->since_ns);
		snap_json_number(json, "pid", alert->pid);
		snap_json_text_if(json, "process", alert->process);
		snap_json_list(json, "threads", alert->tid_count, i,
			       snap_json_number(json, NULL, alert->tids[i]));
		snap_json_text_if(json, "name", alert->name);
		snap_json_number_if(json, "count", (int64_t)alert->count);
		snap_json_number_if(json, "before", (int64_t)alert->before);
		snap_json_wait_put(json, alert->wait);
		snap_json_wait_put_as(json, "held", alert->held);
		snap_json_text_if(json, "function", alert->function);
		put_alert_stack(json, &document.entries, alert->stack);
		if (alert->deadlock)
			snap_json_deadlock_put(json, "deadlock", alert->deadlock);
		snap_json_end(json, '}');
		snap_json_end_document(json);
		err = snap_json_document_finish(&document, out);
	}
	snap_json_document_deinit(&document);
	return err;
}
