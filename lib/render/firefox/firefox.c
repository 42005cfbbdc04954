/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The processed format of the Firefox Profiler (profiler.firefox.com), plain and compressed: see
 * internal.h. Times are in milliseconds since the recording's start, of the processor in
 * microseconds.
 */
#include "render/firefox/internal.h"
#include "render/gzip.h"
#include "render/render.h"

#include <errno.h>
#include <string.h>

enum { MOST_VISIBLE = 10 };

/* In the order of enum snap_firefox_category; the reader asks for a grey one. */
static const char categories[] =
	"\"categories\":["
	"{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Idle\",\"color\":\"transparent\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"User\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"System\",\"color\":\"lightblue\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Kernel\",\"color\":\"purple\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"JIT\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Disk\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}]";

static const char marker_schema[] =
	"\"markerSchema\":["
	"{\"name\":\"State\",\"display\":[\"marker-chart\",\"marker-table\"],"
	"\"tooltipLabel\":\"{marker.data.state}\",\"chartLabel\":\"{marker.data.syscall}\","
	"\"tableLabel\":\"{marker.data.syscall}\",\"fields\":["
	"{\"key\":\"state\",\"label\":\"State\",\"format\":\"string\"},"
	"{\"key\":\"syscall\",\"label\":\"System call\",\"format\":\"string\"},"
	"{\"key\":\"wchan\",\"label\":\"Waits in\",\"format\":\"string\"}]},\n"
	"{\"name\":\"Stop\",\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
	"\"description\":\"For as long as some thread of the targets was stopped to be read.\","
	"\"tooltipLabel\":\"stopped\",\"chartLabel\":\"stopped\",\"fields\":[]}]";

/* Samples in which a thread did not wait for something to do. */
static uint64_t busy_samples(const struct snap_track *track)
{
	uint64_t samples = 0;

	for (size_t i = 0; i < track->run_count; i++)
		if (snap_firefox_category_of(track->runs[i].state) != SNAP_FIREFOX_IDLE)
			samples += snap_run_samples(&track->runs[i]);
	return samples;
}

struct ranked {
	uint64_t busy;
	size_t track;
};

static int by_busy(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;

	if (a->busy != b->busy)
		return a->busy > b->busy ? -1 : 1;
	return a->track < b->track ? -1 : a->track > b->track;
}

static int by_track(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;

	return a->track < b->track ? -1 : a->track > b->track;
}

/* The busiest threads are shown at first, the others on request; at least one is. */
static bool put_visible(struct snap_json_out *json, const struct snap_recording *recording)
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
	snap_json_out_raw(json, "\"initialVisibleThreads\":[");
	for (size_t i = 0; i < count; i++) {
		snap_json_out_raw(json, i ? "," : "");
		snap_json_out_number(json, (int64_t)ranked[i].track);
	}
	snap_json_out_raw(json, "]");
	return true;
}

static void put_extra(struct snap_json_out *json, const struct snap_recording *recording)
{
	const struct snap_recording_stats *stats = &recording->stats;
	const struct {
		const char *label;
		int64_t number; /* thousandths */
	} figures[] = {
		{ "Rate asked for (1/s)", (int64_t)(stats->hz_asked * 1000) },
		{ "Rate reached (1/s)", (int64_t)(stats->hz_reached * 1000) },
		{ "Ticks", (int64_t)stats->ticks * 1000 },
		{ "Ticks missed", (int64_t)stats->ticks_missed * 1000 },
		{ "Time stopped (ms)", stats->stopped_ns / 1000 },
	};

	if (recording->period_ns == 0)
		return;
	snap_json_out_raw(json, ",\n\"extra\":[{\"label\":\"Recording\",\"entries\":[");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(figures); i++) {
		snap_json_out_raw(json, i ? ",{\"label\":" : "{\"label\":");
		snap_json_out_clean(json, figures[i].label);
		snap_json_out_raw(json, ",\"format\":\"string\",\"value\":\"");
		snap_json_out_decimal(json, figures[i].number, 3);
		snap_json_out_raw(json, "\"}");
	}
	snap_json_out_raw(json, "]}]");
}

static bool put_meta(struct snap_json_out *json, const struct snap_recording *recording)
{
	const struct snap_host *host = &recording->host;

	snap_json_out_raw(json,
			  "{\"meta\":{\"version\":24,\"preprocessedProfileVersion\":66,"
			  "\"product\":\"stacksnap\",\"importedFrom\":\"stacksnap " SNAP_VERSION
			  "\",\"processType\":0,\"stackwalk\":1,\"debug\":false,"
			  "\"symbolicated\":true,\"symbolicationNotSupported\":true,"
			  "\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true,"
			  "\"keepProfileThreadOrder\":true,\"extensions\":{\"id\":[],"
			  "\"name\":[],\"baseURL\":[],\"length\":0},\"toolkit\":\"\","
			  "\"misc\":\"\",\"platform\":\"Linux\",\"sampleUnits\":{\"time\":"
			  "\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"\xc2\xb5s\"},"
			  "\n\"abi\":");
	snap_json_out_text(json, host->arch);
	snap_json_out_raw(json, ",\"oscpu\":");
	snap_json_out_text(json, host->kernel);
	snap_json_out_raw(json, ",\"device\":");
	snap_json_out_text(json, host->name);
	snap_json_out_raw(json, ",\"logicalCPUs\":");
	snap_json_out_number(json, host->cpus);
	/* A snapshot has no rate: what the reader draws of a sample is a millisecond then. */
	snap_json_out_raw(json, ",\"interval\":");
	snap_json_out_decimal(json, recording->period_ns ? recording->period_ns : 1000000, 6);
	snap_json_out_raw(json, ",\"startTime\":");
	snap_json_out_decimal(json, recording->time_ns, 6);
	snap_json_out_raw(json, ",\n");
	snap_json_out_raw(json, categories);
	snap_json_out_raw(json, ",\n");
	snap_json_out_raw(json, marker_schema);
	snap_json_out_raw(json, ",\n");
	if (!put_visible(json, recording))
		return false;
	put_extra(json, recording);
	snap_json_out_raw(json, "}");
	return true;
}

/* For how long something stood still at each tick. */
static void put_counters(struct snap_json_out *json, const struct snap_recording *recording)
{
	snap_json_out_raw(json, ",\n\"counters\":[");
	if (recording->period_ns && recording->track_count) {
		size_t process = recording->tracks[0].process;

		snap_json_out_raw(json,
				  "{\"name\":\"stopped\",\"category\":\"stacksnap\","
				  "\"description\":\"Microseconds for which something was "
				  "stopped to be read\",\"display\":{\"graphType\":\"line-rate\","
				  "\"unit\":\"\",\"color\":\"red\",\"markerSchemaLocation\":null,"
				  "\"sortWeight\":50,\"label\":\"Stopped\",\"tooltipRows\":[{"
				  "\"type\":\"value\",\"source\":\"count\",\"format\":{\"unit\":"
				  "\"number\"},\"label\":\"microseconds stopped\"}]},"
				  "\"mainThreadIndex\":0,\"pid\":");
		snap_firefox_put_id(json, recording, process,
				    recording->processes[process].node->pid);
		snap_json_out_raw(json, ",\n\"samples\":{\"time\":[");
		for (size_t i = 0; i < recording->tick_count; i++) {
			snap_json_out_raw(json, i ? "," : "");
			snap_json_out_decimal(json, recording->ticks[i].time_ns / 1000, 3);
		}
		snap_json_out_raw(json, "],\"count\":[");
		for (size_t i = 0; i < recording->tick_count; i++) {
			snap_json_out_raw(json, i ? "," : "");
			snap_json_out_number(json, recording->ticks[i].stopped_ns / 1000);
		}
		snap_json_out_raw(json, "],\"length\":");
		snap_json_out_number(json, (int64_t)recording->tick_count);
		snap_json_out_raw(json, "}}");
	}
	snap_json_out_raw(json, "]");
}

static bool put_threads(struct snap_json_out *json, struct snap_firefox_threads *threads)
{
	snap_json_out_raw(json, ",\n\"threads\":[");
	for (size_t i = 0; i < threads->recording->track_count; i++) {
		snap_json_out_raw(json, i ? ",\n" : "\n");
		if (!snap_firefox_put_thread(threads, json, i))
			return false;
	}
	snap_json_out_raw(json, "]}\n");
	return true;
}

static void put_rest(struct snap_json_out *json, const struct snap_recording *recording,
		     const struct snap_firefox_tables *tables)
{
	snap_json_out_raw(json, ",\n");
	snap_firefox_put_libs(json, tables);
	snap_json_out_raw(json, ",\n\"pages\":[],\"profilerOverhead\":[]");
	put_counters(json, recording);
	snap_json_out_raw(json, ",\n");
	snap_firefox_put_shared(json, tables);
}

static struct snap_error *render(const struct snap_recording *recording, struct snap_json_out *json)
{
	_cleanup_(snap_profile_deinit) struct snap_profile profile;
	_cleanup_(snap_firefox_tables_deinit) struct snap_firefox_tables tables = { 0 };
	_cleanup_(snap_firefox_threads_deinit) struct snap_firefox_threads threads = { 0 };
	struct snap_error *err;

	err = snap_profile_init(&profile, recording);
	if (err)
		return err;
	err = snap_firefox_tables_init(&tables, &profile);
	if (err)
		return err;
	err = snap_firefox_threads_init(&threads, recording, &tables);
	if (err)
		return err;
	if (!put_meta(json, recording))
		return snap_error_no_memory();
	put_rest(json, recording, &tables);
	if (!put_threads(json, &threads) || json->failed)
		return snap_error_no_memory();
	snap_json_out_flush(json);
	return NULL;
}

struct snap_error *snap_render_firefox(const struct snap_recording *recording,
				       const struct snap_options *options _unused_, FILE *out)
{
	_cleanup_(snap_json_out_destroyp) struct snap_json_out *json = snap_json_out_create(out);
	struct snap_error *err;

	if (!json)
		return snap_error_no_memory();
	err = render(recording, json);
	if (err)
		return err;
	if (ferror(out))
		return snap_error_os(errno, "cannot write the report");
	return NULL;
}

struct snap_error *snap_render_firefox_gz(const struct snap_recording *recording,
					  const struct snap_options *options _unused_, FILE *out)
{
	_cleanup_(snap_gzip_destroyp) struct snap_gzip *gzip = NULL;
	_cleanup_(snap_json_out_destroyp) struct snap_json_out *json = NULL;
	struct snap_error *err;

	err = snap_gzip_create(out, &gzip);
	if (err)
		return err;
	json = snap_json_out_create_to(snap_gzip_write, gzip);
	if (!json)
		return snap_error_no_memory();
	err = render(recording, json);
	if (err)
		return err;
	err = snap_gzip_finish(gzip);
	if (err)
		return err;
	if (ferror(out))
		return snap_error_os(errno, "cannot write the report");
	return NULL;
}
