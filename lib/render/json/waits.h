/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waits as JSON: what a thread waits for, and what follows for the whole. Knows no threads. */
#pragma once

#include "model/snapshot.h"
#include "render/json/writer.h"

/* An object with a key; nothing for NULL. */
void snap_json_wait_put_as(struct snap_json_writer *json, const char *key,
			   const struct snap_wait *wait);
/* The same with the key "wait". */
void snap_json_wait_put(struct snap_json_writer *json, const struct snap_wait *wait);
/* One deadlock: an object with a key, NULL: an element. */
void snap_json_deadlock_put(struct snap_json_writer *json, const char *key,
			    const struct snap_deadlock *deadlock);
/* "deadlocks", "blockers", "contended", "waits_lack" of a document; nothing where there is none. */
void snap_json_waits_put(struct snap_json_writer *json, const struct snap_waits *waits);
