/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The processed format of the Firefox Profiler (profiler.firefox.com), plain and compressed: the
 * document with its meta data and counters. Times are in milliseconds since the recording's start,
 * processor times in microseconds.
 */
#include "base/bsearch.h"
#include "render/firefox/thread.h"
#include "render/render.h"
#include "render/view/figures.h"

#include <errno.h>
#include <string.h>

enum { MOST_VISIBLE = 10 };

/* In the order of enum snap_firefox_category; the reader requires a grey one. */
static const char categories[] =
	"["
	"{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Idle\",\"color\":\"transparent\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"User\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"System\",\"color\":\"lightblue\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Kernel\",\"color\":\"purple\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"JIT\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Disk\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Go\",\"color\":\"brown\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Python\",\"color\":\"green\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"PHP\",\"color\":\"magenta\",\"subcategories\":[\"Other\"]}]";

static const char marker_schema[] =
	"["
	"{\"name\":\"State\",\"display\":[\"marker-chart\",\"marker-table\"],"
	"\"tooltipLabel\":\"{marker.data.state}\",\"chartLabel\":\"{marker.data.syscall}\","
	"\"tableLabel\":\"{marker.data.syscall}\",\"fields\":["
	"{\"key\":\"state\",\"label\":\"State\",\"format\":\"string\"},"
	"{\"key\":\"syscall\",\"label\":\"System call\",\"format\":\"string\"},"
	"{\"key\":\"wchan\",\"label\":\"Waits in\",\"format\":\"string\"}]},\n"
	"{\"name\":\"Label\",\"display\":[\"marker-chart\",\"marker-table\"],"
	"\"tooltipLabel\":\"{marker.name}\",\"chartLabel\":\"{marker.data.value}\","
	"\"tableLabel\":\"{marker.data.value}\",\"fields\":["
	"{\"key\":\"value\",\"label\":\"Value\",\"format\":\"string\"}]},\n"
	"{\"name\":\"Wait\",\"display\":[\"marker-chart\",\"marker-table\"],"
	"\"tooltipLabel\":\"{marker.data.object}\",\"chartLabel\":\"{marker.data.object}\","
	"\"tableLabel\":\"{marker.data.object}\",\"fields\":["
	"{\"key\":\"object\",\"label\":\"Waits for\",\"format\":\"string\"},"
	"{\"key\":\"holder\",\"label\":\"Held in\",\"format\":\"string\"},"
	"{\"key\":\"by\",\"label\":\"Held by\",\"format\":\"string\"}]},\n"
	"{\"name\":\"Stop\",\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
	"\"description\":\"For as long as some thread of the targets was stopped to be read.\","
	"\"tooltipLabel\":\"stopped\",\"chartLabel\":\"stopped\",\"fields\":[]}]";

/* The part of meta that is the same in all profiles. */
static const char fixed_meta[] =
	"\"version\":24,\"preprocessedProfileVersion\":66,\"product\":\"stacksnap\","
	"\"importedFrom\":\"stacksnap " SNAP_VERSION "\",\"processType\":0,\"stackwalk\":1,"
	"\"debug\":false,\"symbolicated\":true,\"symbolicationNotSupported\":true,"
	"\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true,"
	"\"keepProfileThreadOrder\":true,\"extensions\":{\"id\":[],\"name\":[],\"baseURL\":[],"
	"\"length\":0},\"toolkit\":\"\",\"misc\":\"\",\"platform\":\"Linux\",\"sampleUnits\":{"
	"\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"\xc2\xb5s\"}";

/* The fixed part of the counter of stops. */
static const char fixed_counter[] =
	"\"name\":\"stopped\",\"category\":\"stacksnap\",\"description\":\"Microseconds for "
	"which something was stopped to be read\",\"display\":{\"graphType\":\"line-rate\","
	"\"unit\":\"\",\"color\":\"red\",\"markerSchemaLocation\":null,\"sortWeight\":50,"
	"\"label\":\"Stopped\",\"tooltipRows\":[{\"type\":\"value\",\"source\":\"count\","
	"\"format\":{\"unit\":\"number\"},\"label\":\"microseconds stopped\"}]},"
	"\"mainThreadIndex\":0";

/* Samples in which a thread was not idle. */
static uint64_t busy_samples(const struct snap_track *track)
{
	return snap_sum(track->run_count, i,
			snap_firefox_category_of(track->runs[i].state) != SNAP_FIREFOX_IDLE
				? snap_run_samples(&track->runs[i])
				: 0);
}

struct ranked {
	uint64_t busy;
	size_t track;
};

SNAP_ORDER(by_busy, struct ranked, a, b, snap_compare(b->busy, a->busy),
	   snap_compare(a->track, b->track));

SNAP_ORDER(by_track, struct ranked, a, b, snap_compare(a->track, b->track));

/* The busiest threads are shown at first, the others on request; at least one is. */
static bool put_visible(struct snap_json_writer *json, const struct snap_recording *recording)
{
	_cleanup_free_ struct ranked *ranked = calloc(recording->track_count + 1, sizeof(*ranked));
	size_t count = 0;

	if (!ranked)
		return false;
	for (size_t i = 0; i < recording->track_count; i++)
		ranked[i] = (struct ranked){ busy_samples(&recording->tracks[i]), i };
	qsort(ranked, recording->track_count, sizeof(*ranked), by_busy);
	while (count < recording->track_count && count < MOST_VISIBLE &&
	       (count == 0 || ranked[count].busy))
		count++;
	if (count)
		qsort(ranked, count, sizeof(*ranked), by_track);
	snap_json_line(json);
	snap_json_list(json, "initialVisibleThreads", count, i,
		       snap_json_number(json, NULL, (int64_t)ranked[i].track));
	return true;
}

static void put_firefox_figures(struct snap_json_writer *json,
				const struct snap_recording *recording)
{
	static const enum snap_figure shown[] = {
		SNAP_FIGURE_HZ_ASKED,     SNAP_FIGURE_HZ_REACHED, SNAP_FIGURE_TICKS,
		SNAP_FIGURE_TICKS_MISSED, SNAP_FIGURE_STOPPED,
	};
	char text[SNAP_WHEN_SIZE];

	if (recording->period_ns == 0)
		return;
	snap_json_begin_line(json, "extra", '[');
	snap_json_begin(json, NULL, '{');
	snap_json_clean(json, "label", "Recording");
	snap_json_begin(json, "entries", '[');
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(shown); i++) {
		snap_json_begin(json, NULL, '{');
		snap_json_clean(json, "label", snap_figure_label(shown[i]));
		snap_json_clean(json, "format", "string");
		snap_json_clean(json, "value", snap_figure_text(&recording->stats, shown[i], text));
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
	snap_json_end(json, '}');
	snap_json_end(json, ']');
}

static bool put_meta(struct snap_json_writer *json, const struct snap_recording *recording)
{
	const struct snap_host *host = &recording->host;

	snap_json_begin(json, "meta", '{');
	snap_json_raw(json, NULL, fixed_meta);
	snap_json_line(json);
	snap_json_text(json, "abi", host->arch);
	snap_json_text(json, "oscpu", host->kernel);
	snap_json_text(json, "device", host->name);
	snap_json_number(json, "logicalCPUs", host->cpus);
	/* A snapshot has no rate: what the reader draws of a sample is a millisecond then. */
	snap_json_decimal(json, "interval", recording->period_ns ? recording->period_ns : 1000000,
			  6);
	snap_json_decimal(json, "startTime", recording->time_ns, 6);
	snap_json_line(json);
	snap_json_raw(json, "categories", categories);
	snap_json_line(json);
	snap_json_raw(json, "markerSchema", marker_schema);
	if (!put_visible(json, recording))
		return false;
	put_firefox_figures(json, recording);
	snap_json_end(json, '}');
	return true;
}

/* For how long something stood still at each tick. */
static void put_counters(struct snap_json_writer *json, const struct snap_recording *recording)
{
	snap_json_begin_line(json, "counters", '[');
	if (recording->period_ns && recording->track_count) {
		size_t process = recording->tracks[0].process;

		snap_json_begin(json, NULL, '{');
		snap_json_raw(json, NULL, fixed_counter);
		snap_firefox_put_id(json, "pid", recording, process,
				    recording->processes[process].node->pid);
		snap_json_begin_line(json, "samples", '{');
		snap_json_list(
			json, "time", recording->tick_count, i,
			snap_json_decimal(json, NULL, snap_firefox_time_us(recording, i), 3));
		snap_json_list(json, "count", recording->tick_count, i,
			       snap_json_number(json, NULL,
						snap_firefox_us(recording->ticks[i].stopped_ns)));
		snap_json_number(json, "length", (int64_t)recording->tick_count);
		snap_json_end(json, '}');
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static bool put_firefox_threads(struct snap_json_writer *json, struct snap_firefox_threads *threads)
{
	snap_json_begin_line(json, "threads", '[');
	for (size_t i = 0; i < threads->recording->track_count; i++) {
		snap_json_line(json);
		if (!snap_firefox_put_thread(threads, json, i))
			return false;
	}
	snap_json_end(json, ']');
	return true;
}

static bool put_firefox_document(struct snap_json_writer *json,
				 const struct snap_recording *recording,
				 const struct snap_firefox_tables *tables,
				 struct snap_firefox_threads *threads)
{
	snap_json_begin(json, NULL, '{');
	if (!put_meta(json, recording))
		return false;
	snap_firefox_put_libs(json, tables);
	snap_json_line(json);
	snap_json_raw(json, "pages", "[]");
	snap_json_raw(json, "profilerOverhead", "[]");
	put_counters(json, recording);
	snap_firefox_put_tables(json, tables);
	if (!put_firefox_threads(json, threads))
		return false;
	snap_json_end(json, '}');
	snap_json_end_document(json);
	snap_json_flush(json);
	return !json->failed;
}

static struct stacksnap_error *render_profile(const struct snap_recording *recording,
					      const struct snap_options *options,
					      struct snap_json_writer *json)
{
	_cleanup_(snap_profile_deinit) struct snap_profile profile;
	_cleanup_(snap_firefox_tables_deinit) struct snap_firefox_tables tables = { 0 };
	_cleanup_(snap_firefox_threads_deinit) struct snap_firefox_threads threads = { 0 };

	SNAP_TRY(snap_profile_init(&profile, recording));
	snap_profile_show_labels(&profile, options);
	SNAP_TRY(snap_firefox_tables_init(&tables, &profile));
	SNAP_TRY(snap_firefox_threads_init(&threads, recording, options, &tables));
	return snap_no_memory_unless(put_firefox_document(json, recording, &tables, &threads));
}

struct stacksnap_error *snap_render_firefox(const struct snap_recording *recording,
					    const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_json_writer_destroyp) struct snap_json_writer *json =
		snap_json_writer_create(out, SNAP_JSON_COMPACT);

	SNAP_TRY(snap_no_memory_unless(json));
	SNAP_TRY(render_profile(recording, options, json));
	return ferror(out) ? snap_error_os(errno, "cannot write the report") : NULL;
}
