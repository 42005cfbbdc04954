/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What an HTML page says about a report as a whole: when and where it was taken, what is missing
 * and why, which threads hold up others. See parts.h. Knows no stacks.
 */
#include "render/html/parts.h"
#include "render/view/elide.h"
#include "render/view/when.h"

void snap_html_put_kind(struct snap_html *html, const char *kind)
{
	struct snap_json_writer *json = html->json;

	snap_json_clean(json, "kind", kind);
	snap_json_list(json, "states", SNAP_STATE_COUNT, i,
		       snap_json_clean(json, NULL, snap_state_word(i)));
	snap_json_list(json, "task_states", SNAP_TASK_STATE_COUNT, i,
		       snap_json_clean(json, NULL, snap_task_state_word(i)));
	snap_json_list(json, "ends", SNAP_UNWIND_COUNT, i,
		       snap_json_clean(json, NULL, snap_unwind_word(i)));
}

/* ---- where and when ---- */

void snap_html_begin_facts(struct snap_html *html)
{
	snap_json_begin_line(html->json, "facts", '[');
}

void snap_html_put_fact(struct snap_html *html, const char *word, const char *text)
{
	snap_json_begin(html->json, NULL, '[');
	snap_json_clean(html->json, NULL, word);
	snap_json_text(html->json, NULL, text);
	snap_json_end(html->json, ']');
}

void snap_html_put_host(struct snap_html *html, const struct snap_host *host, int64_t time_ns)
{
	struct snap_buffer *text = &html->scratch;
	char when[SNAP_WHEN_SIZE];

	if (host->name)
		snap_html_put_fact(html, "Host", host->name);
	snap_buffer_clear(text);
	snap_buffer_printf(text, "%s%s%s", host->kernel ? host->kernel : "",
			   host->kernel && host->arch ? " " : "", host->arch ? host->arch : "");
	if (host->cpus)
		snap_buffer_printf(text, "%s%u processor%s", text->size ? ", " : "", host->cpus,
				   host->cpus == 1 ? "" : "s");
	html->failed |= text->failed;
	if (text->size)
		snap_html_put_fact(html, "System", snap_buffer_text(text));
	if (!time_ns)
		return;
	snap_when(time_ns, ' ', 3, when);
	snap_html_put_fact(html, "Time", when);
}

/* ---- what is missing ---- */

static void put_count(struct snap_html *html, size_t count, const char *one, const char *many)
{
	struct snap_buffer *text = &html->scratch;

	if (count == 0)
		return;
	snap_buffer_clear(text);
	snap_buffer_printf(text, "%zu %s", count, count == 1 ? one : many);
	html->failed |= text->failed;
	snap_json_clean(html->json, NULL, snap_buffer_text(text));
}

void snap_html_put_missing(struct snap_html *html, const struct snap_missing *missing,
			   const struct snap_warning *warnings, size_t warning_count)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, "missing", '[');
	put_count(html, missing->threads, "thread is not shown whole",
		  "threads are not shown whole");
	put_count(html, missing->processes, "process could not be read",
		  "processes could not be read");
	put_count(html, missing->modules, "module has symbols that could not be read",
		  "modules have symbols that could not be read");
	snap_json_end(json, ']');
	snap_json_begin_line(json, "warnings", '[');
	for (size_t i = 0; i < warning_count; i++) {
		snap_json_begin_line(json, NULL, '[');
		snap_json_text(json, NULL, warnings[i].message);
		snap_json_number(json, NULL, warnings[i].pid);
		snap_json_number(json, NULL, warnings[i].tid);
		snap_json_end(json, ']');
	}
	snap_json_end(json, ']');
}

/* ---- threads that hold up others ---- */

static void put_made(struct snap_html *html, const char *key, char *text)
{
	html->failed |= !text;
	snap_json_text_if(html->json, key, text);
	free(text);
}

static void put_fact_link(struct snap_html *html, const struct snap_wait_link *link)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin(json, NULL, '{');
	snap_json_number(json, "pid", link->pid);
	snap_json_number(json, "tid", link->tid);
	snap_json_text_if(json, "name", link->name);
	put_made(html, "waits", snap_wait_link_line(link->wait));
	put_made(html, "held", snap_wait_owner_line(link->wait));
	if (link->function)
		put_made(html, "function", snap_short_name(html->options, true, link->function));
	snap_json_text_if(json, "file", link->file);
	snap_json_number_if(json, "line", link->line);
	snap_json_end(json, '}');
}

static void put_deadlock(struct snap_html *html, const struct snap_deadlock *deadlock)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, NULL, '{');
	snap_json_true_if(json, "certain", snap_deadlock_is_real(deadlock));
	if (deadlock->timed)
		put_made(html, "until", snap_wait_until_text(deadlock));
	snap_json_number(json, "size", (int64_t)deadlock->size);
	snap_json_number_if(json, "behind", (int64_t)deadlock->behind);
	snap_json_list(json, "threads", deadlock->thread_count, i,
		       put_fact_link(html, &deadlock->threads[i]));
	snap_json_end(json, '}');
}

static void put_fact_contended(struct snap_html *html, const struct snap_waits *waits)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin(json, "contended", '[');
	for (size_t i = 0; i < waits->contended_count; i++) {
		snap_json_begin(json, NULL, '{');
		snap_json_number(json, "pid", waits->contended[i].pid);
		snap_json_number(json, "waiters", (int64_t)waits->contended[i].waiters);
		put_made(html, "object", snap_wait_object(waits->contended[i].wait));
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

void snap_html_put_waits(struct snap_html *html, const struct snap_waits *waits)
{
	struct snap_json_writer *json = html->json;

	if (html->options->explain == SNAP_EXPLAIN_NO)
		return;
	snap_json_line(json);
	snap_json_list(json, "deadlocks", waits->deadlock_count, i,
		       put_deadlock(html, &waits->deadlocks[i]));
	snap_json_number_if(json, "deadlocks_more",
			    (int64_t)(waits->deadlock_total - waits->deadlock_count));
	snap_json_begin(json, "blocked", '[');
	for (size_t i = 0; i < waits->blocker_count; i++) {
		snap_json_begin(json, NULL, '{');
		snap_json_number(json, "pid", waits->blockers[i].pid);
		put_made(html, "line", snap_wait_blocker_line(&waits->blockers[i]));
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
	put_fact_contended(html, waits);
	snap_json_begin(json, "waits_lack", '[');
	for (unsigned bit = 0; 1u << bit <= SNAP_LACK_ALL; bit++)
		if (waits->lacks >> bit & 1)
			snap_json_clean(json, NULL, snap_wait_lack_text(bit));
	snap_json_end(json, ']');
}
