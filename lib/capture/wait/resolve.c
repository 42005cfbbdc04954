/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The order of the steps: see resolve.h. */
#include "capture/wait/resolve.h"

#include "capture/wait/resolver.h"

static void resolver_deinit(struct snap_wait_resolver *resolver)
{
	snap_wait_asker_destroy(resolver->asker);
	free(resolver->wants);
	free(resolver->callers);
	free(resolver->peers);
}

static struct stacksnap_error *ask_all(struct snap_wait_resolver *resolver)
{
	SNAP_TRY(snap_wait_ask_descriptors(resolver));
	SNAP_TRY(snap_wait_confirm_callers(resolver));
	SNAP_TRY(snap_wait_identify(resolver));
	SNAP_TRY(snap_wait_ask_sockets(resolver));
	SNAP_TRY(snap_wait_ask_locks(resolver));
	SNAP_TRY(snap_wait_ask_peers(resolver));
	return snap_wait_ask_queues(resolver);
}

struct stacksnap_error *snap_wait_make_asker(struct snap_wait_resolver *resolver)
{
	return resolver->asker ? NULL
			       : snap_wait_asker_new(resolver->capture->asker, resolver->until_ns,
						     &resolver->asker);
}

static struct stacksnap_error *resolve(struct snap_wait_resolver *resolver)
{
	struct stacksnap_error *err = NULL;

	if (snap_wait_has_silent_threads(resolver->capture)) {
		err = snap_wait_make_asker(resolver);
		err = err ?: snap_wait_ask_threads(resolver);
	}
	err = err ?: snap_wait_find_wants(resolver);
	if (!err && resolver->caller_count)
		err = snap_wait_make_asker(resolver);
	if (!err && resolver->caller_count)
		err = ask_all(resolver);
	err = err ?: snap_wait_ask_gone(resolver);
	return err ? err : snap_wait_ask_tracers(resolver);
}

void snap_capture_resolve_waits(const struct snap_options *options, struct snap_capture *capture,
				int64_t until_ns)
{
	_cleanup_(resolver_deinit) struct snap_wait_resolver resolver = {
		.options = options,
		.capture = capture,
		.facts = capture->waits,
		.until_ns = until_ns,
	};

	snap_wait_find_frozen(capture);
	/* A report without these facts is better than none. */
	if (snap_error_ignore(resolve(&resolver)))
		resolver.facts->lacks |= SNAP_LACK_CUT;
	if (resolver.asker && resolver.asker->was_late)
		resolver.facts->lacks |= SNAP_LACK_TIME;
}
