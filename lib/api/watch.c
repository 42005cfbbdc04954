/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public API's watchers and alerts: see stacksnap.h. Knows nothing of terminals, files or exit
 * statuses.
 */
#include "api/api.h"

#include "pipeline.h"
#include "render/alert.h"
#include "render/render.h"
#include "watch/watcher.h"

struct stacksnap_watcher {
	struct snap_watcher *inner;
	const struct stacksnap_options *options;
	int (*tell)(void *context, const struct stacksnap_alert *alert);
	void *context;
};

struct stacksnap_alert {
	const struct snap_alert *inner;
};

static struct stacksnap_error *
take_alert_snapshot(void *context, const struct snap_options *options, struct snap_snapshot **ret)
{
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector = NULL;

	(void)context;
	return snap_pipeline_take(options, ret, &collector);
}

static bool report_alert(void *context, const struct snap_alert *alert)
{
	struct stacksnap_watcher *watcher = context;
	const struct stacksnap_alert shown = { .inner = alert };

	return watcher->tell(watcher->context, &shown);
}

API struct stacksnap_error *stacksnap_watcher_create(const struct stacksnap_options *options,
						     struct stacksnap_watcher **ret)
{
	struct stacksnap_watcher *watcher = calloc(1, sizeof(*watcher));
	const struct snap_watcher_calls calls = { .take = take_alert_snapshot,
						  .tell = report_alert,
						  .context = watcher };
	struct stacksnap_error *err = snap_api_check_targets(&options->values);

	if (!err && !watcher)
		err = snap_error_no_memory();
	err = err ?: snap_watcher_create(&options->values, &calls, &watcher->inner);
	if (err) {
		free(watcher);
		return err;
	}
	watcher->options = options;
	*ret = watcher;
	return NULL;
}

API void stacksnap_watcher_destroy(struct stacksnap_watcher *watcher)
{
	if (!watcher)
		return;
	snap_watcher_destroy(watcher->inner);
	free(watcher);
}

API struct stacksnap_error *stacksnap_watcher_run(struct stacksnap_watcher *watcher,
						  int (*alert)(void *context,
							       const struct stacksnap_alert *alert),
						  void *context, size_t *raised_ret)
{
	watcher->tell = alert;
	watcher->context = context;
	return snap_watcher_run(watcher->inner, raised_ret);
}

API const char *stacksnap_watcher_lack(const struct stacksnap_watcher *watcher, size_t index)
{
	return snap_api_lack(snap_watcher_lacks(watcher->inner), index);
}

API void stacksnap_watcher_stop(struct stacksnap_watcher *watcher)
{
	snap_watcher_stop(watcher->inner);
}

API int stacksnap_alert_is_over(const struct stacksnap_alert *alert)
{
	return alert->inner->over;
}

API struct stacksnap_error *stacksnap_alert_render(const struct stacksnap_alert *alert,
						   const struct stacksnap_options *options,
						   int json, FILE *out)
{
	return json ? snap_render_alert_json(alert->inner, out)
		    : snap_render_alert_text(alert->inner, &options->values, out);
}

API int stacksnap_alert_has_snapshot(const struct stacksnap_alert *alert)
{
	return alert->inner->snapshot != NULL;
}

API struct stacksnap_error *stacksnap_alert_render_snapshot(const struct stacksnap_alert *alert,
							    const struct stacksnap_options *options,
							    const char *format, FILE *out)
{
	const struct snap_format *found = snap_format_by_name(format);

	if (!found)
		return snap_error_format(SNAP_ERROR_INVALID, "unknown format '%s'", format);
	if (!alert->inner->snapshot)
		return snap_error_format(SNAP_ERROR_INVALID, "this alert came without a snapshot");
	return snap_render_snapshot(found, alert->inner->snapshot, &options->values, out);
}
