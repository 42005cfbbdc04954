/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Metrics: see metrics.h. */
#include "serve/metrics.h"

#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Upper ends, in seconds. */
static const double stop_buckets[SNAP_SERVE_STOP_BUCKETS] = { 0.0005, 0.001, 0.0025, 0.005, 0.01,
							      0.025,  0.05,  0.1,    0.5,   1 };

/* The last row takes all other statuses. */
static const struct {
	unsigned status;
	const char *reason;
} refusals[SNAP_SERVE_REFUSALS] = {
	{ 400, "malformed" },        { 401, "token" },  { 403, "other_site" },
	{ 404, "no_such_page" },     { 406, "format" }, { 421, "host" },
	{ 429, "too_many_at_once" }, { 0, "other" },
};

static double seconds_of(long long ns)
{
	return ns > 0 ? (double)ns / 1e9 : 0;
}

static void add_stop(struct snap_serve_metrics *metrics, double seconds)
{
	size_t bucket = 0;

	while (bucket < SNAP_SERVE_STOP_BUCKETS && seconds > stop_buckets[bucket])
		bucket++;
	metrics->stops[bucket]++;
	metrics->stopped_s += seconds;
}

void snap_serve_metrics_add_work(struct snap_serve_metrics *metrics,
				 const struct snap_serve_work *work)
{
	if (work->page != SNAP_SERVE_SNAPSHOT && work->page != SNAP_SERVE_RECORDING)
		return;
	metrics->failed += !work->is_made;
	if (!work->is_made)
		return;
	metrics->partial += work->is_partial;
	metrics->ticks += work->ticks;
	metrics->ticks_missed += work->ticks_missed;
	if (work->page == SNAP_SERVE_SNAPSHOT) {
		metrics->snapshots++;
		add_stop(metrics, seconds_of(work->stopped_ns));
	} else {
		metrics->recordings++;
		metrics->recording_stopped_s += seconds_of(work->stopped_ns);
	}
}

void snap_serve_metrics_add_refusal(struct snap_serve_metrics *metrics, unsigned status)
{
	size_t row = 0;

	while (row < SNAP_SERVE_REFUSALS - 1 && refusals[row].status != status)
		row++;
	metrics->refused[row]++;
}

/* ---- text ---- */

struct page {
	FILE *out;
	bool is_open; /* OpenMetrics, else the text format of Prometheus */
};

/* The older format has no units, calls an info a gauge, and describes each by its whole name. */
static void put_family(const struct page *page, const char *name, const char *type,
		       const char *unit, const char *help)
{
	const char *suffix = "";

	if (!page->is_open && strcmp(type, "counter") == 0)
		suffix = "_total";
	if (!page->is_open && strcmp(type, "info") == 0) {
		suffix = "_info";
		type = "gauge";
	}
	fprintf(page->out, "# TYPE %s%s %s\n", name, suffix, type);
	if (unit && page->is_open)
		fprintf(page->out, "# UNIT %s %s\n", name, unit);
	fprintf(page->out, "# HELP %s%s %s\n", name, suffix, help);
}

static void put_count(const struct page *page, const char *name, unsigned long long count,
		      const char *help)
{
	put_family(page, name, "counter", NULL, help);
	fprintf(page->out, "%s_total %llu\n", name, count);
}

static void put_stops(const struct snap_serve_metrics *metrics, const struct page *page)
{
	static const char name[] = "stacksnap_stop_seconds";
	unsigned long long sum = 0;

	put_family(page, name, "histogram", "seconds",
		   "How long the targets of a snapshot stood still.");
	for (size_t i = 0; i < SNAP_SERVE_STOP_BUCKETS; i++) {
		sum += metrics->stops[i];
		fprintf(page->out, "%s_bucket{le=\"%g\"} %llu\n", name, stop_buckets[i], sum);
	}
	sum += metrics->stops[SNAP_SERVE_STOP_BUCKETS];
	fprintf(page->out, "%s_bucket{le=\"+Inf\"} %llu\n%s_count %llu\n%s_sum %.9g\n", name, sum,
		name, sum, name, metrics->stopped_s);
}

static void put_refusals(const struct snap_serve_metrics *metrics, const struct page *page)
{
	static const char name[] = "stacksnap_requests_refused";

	put_family(page, name, "counter", NULL, "Requests that were refused, by reason.");
	for (size_t i = 0; i < SNAP_SERVE_REFUSALS; i++)
		fprintf(page->out, "%s_total{reason=\"%s\"} %llu\n", name, refusals[i].reason,
			metrics->refused[i]);
}

static void put_work(const struct snap_serve_metrics *metrics, const struct page *page)
{
	put_count(page, "stacksnap_requests", metrics->requests, "Requests that were answered.");
	put_count(page, "stacksnap_snapshots", metrics->snapshots, "Snapshots that were taken.");
	put_count(page, "stacksnap_recordings", metrics->recordings, "Recordings that were made.");
	put_count(page, "stacksnap_failures", metrics->failed,
		  "Snapshots and recordings that show nothing.");
	put_count(page, "stacksnap_partial", metrics->partial,
		  "Snapshots and recordings in which something is missing.");
	put_count(page, "stacksnap_cancelled", metrics->cancelled,
		  "Snapshots and recordings whose client went away.");
	put_count(page, "stacksnap_connections_cut", metrics->cut,
		  "Connections whose client was too slow.");
	put_stops(metrics, page);
	put_family(page, "stacksnap_recording_stopped_seconds", "counter", "seconds",
		   "How long the targets of recordings stood still.");
	fprintf(page->out, "stacksnap_recording_stopped_seconds_total %.9g\n",
		metrics->recording_stopped_s);
	put_count(page, "stacksnap_ticks", metrics->ticks, "Looks of recordings at their targets.");
	put_count(page, "stacksnap_ticks_missed", metrics->ticks_missed,
		  "Looks that came too late and were left out.");
	put_refusals(metrics, page);
	put_family(page, "stacksnap_running", "gauge", NULL,
		   "Snapshots, recordings and lists that are being made.");
	fprintf(page->out, "stacksnap_running %u\n", metrics->running);
}

/* ---- the process ---- */

/* Resident memory in bytes, 0 if it cannot be read. */
static unsigned long long resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long size = 0, resident = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	fclose(file);
	return resident * (unsigned long long)sysconf(_SC_PAGESIZE);
}

static unsigned open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned count = 0;

	if (!folder)
		return 0;
	while ((entry = readdir(folder)))
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count ? count - 1 : 0; /* that of the folder */
}

static double seconds_of_time(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* Names as all exporters of Prometheus have them; children are the library's processes. */
static void put_process(const struct page *page)
{
	struct rusage own = { 0 }, children = { 0 };

	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	put_family(page, "process_cpu_seconds", "counter", "seconds",
		   "Processor time of the server and of its processes that have ended.");
	fprintf(page->out, "process_cpu_seconds_total %.6f\n",
		seconds_of_time(&own.ru_utime) + seconds_of_time(&own.ru_stime) +
			seconds_of_time(&children.ru_utime) + seconds_of_time(&children.ru_stime));
	put_family(page, "process_resident_memory_bytes", "gauge", "bytes",
		   "Resident memory of the server.");
	fprintf(page->out, "process_resident_memory_bytes %llu\n", resident_bytes());
	put_family(page, "process_open_fds", "gauge", NULL, "Open descriptors of the server.");
	fprintf(page->out, "process_open_fds %u\n", open_descriptors());
}

void snap_serve_metrics_print(const struct snap_serve_metrics *metrics, bool is_open, FILE *out)
{
	const struct page page = { .out = out, .is_open = is_open };

	put_family(&page, "stacksnap_build", "info", NULL, "The version of the server.");
	fprintf(out, "stacksnap_build_info{version=\"%s\"} 1\n", stacksnap_version());
	put_work(metrics, &page);
	put_process(&page);
	if (is_open)
		fputs("# EOF\n", out);
}
