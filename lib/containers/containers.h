/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Containers: which containers have a name, as the files of container engines on this host tell.
 *
 * A control group has the id of a container only; its name is in files that the engine keeps for
 * itself. They are believed if they are regular files of root or of the caller, and no other user
 * may write them. This asks no engine, knows no process, and does not say whether a container runs.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"

/* Where engines keep their files; a test has others. NULL members are not looked at. */
struct snap_container_places {
	const char *docker; /* a folder for each container, with config.v2.json in it */
	const char *
		containerd; /* a folder for each namespace, in it one for each container, with the config.json of OCI */
	const char *storage
		[2]; /* of podman and CRI-O, of root and of the caller: DRIVER-containers/containers.json */
};

/* Those of this host and of the caller's home. The text at `room` is used while the result is. */
struct snap_container_places snap_container_places(char *room, size_t size);

/*
 * Adds the ids of all containers that are called `name`: by docker, podman, CRI-O or nerdctl; or by
 * Kubernetes, as the name of the container, or POD/CONTAINER. A file that cannot be read or is
 * malformed gives no name. At most 4096 files of 4 MiB are read for each engine.
 */
void snap_containers_find_in(const struct snap_container_places *places, const char *name,
			     struct snap_container_ids *ids);
/*
 * The same in snap_container_places(), in a process that is given up after two seconds: a file system
 * may not answer, such as that of a home on a network. Then ids->is_late. NULL: no memory.
 */
struct snap_container_ids *snap_containers_find(const char *name);
