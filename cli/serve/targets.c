/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Targets of requests: see targets.h. */
#include "serve/targets.h"

#include "message.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 10 /* of a pid */ };

static bool is_named(const struct snap_cli_setting *setting)
{
	return snap_cli_names_targets(setting->name) && setting->value &&
	       strcmp(setting->name, "pid") != 0;
}

const char *snap_serve_targets_name(const struct snap_cli_request *request, size_t index)
{
	for (size_t i = 0; i < request->setting_count; i++)
		if (is_named(&request->settings[i]) && index-- == 0)
			return request->settings[i].value;
	return NULL;
}

/* What all answers have in common: they are read by programs and browsers. */
static struct stacksnap_error *set_usual(struct stacksnap_options *options,
					 const volatile int *cancel)
{
	struct stacksnap_error *err = stacksnap_options_set(options, "charset", "utf-8");

	/* Several recordings may be going on at once. */
	if (!err)
		err = stacksnap_options_set(options, "max-memory", "32M");
	stacksnap_options_set_cancel(options, cancel);
	return err;
}

/*
 * `only`: of the targets those alone that are named so; NULL: all; "": none. `seen`: what pids mean;
 * NULL: whichever processes have them.
 */
static struct stacksnap_error *replay(const struct snap_cli_request *request, const char *only,
				      const struct stacksnap_snapshot *seen,
				      const volatile int *cancel, struct stacksnap_options **ret)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_error *err = stacksnap_options_create(&options);

	if (!err)
		err = set_usual(options, cancel);
	for (size_t i = 0; !err && i < request->setting_count; i++) {
		const struct snap_cli_setting *setting = &request->settings[i];

		if (only && snap_cli_names_targets(setting->name) &&
		    !(is_named(setting) && strcmp(setting->value, only) == 0))
			continue;
		err = stacksnap_options_set(options, setting->name, setting->value);
	}
	if (!err && seen)
		err = stacksnap_options_pin(options, seen);
	if (err)
		stacksnap_options_destroy(options);
	else
		*ret = options;
	return err;
}

static bool has_name(const struct snap_cli_request *request, const char *target)
{
	const char *name;

	for (size_t i = 0; (name = snap_serve_targets_name(request, i)); i++)
		if (strcmp(name, target) == 0)
			return true;
	return false;
}

/* The number of a process, 0 if the text is none. */
static pid_t pid_of(const char *text)
{
	long pid = 0;

	if (strlen(text) <= MOST_DIGITS && strspn(text, "0123456789") == strlen(text))
		pid = strtol(text, NULL, 10);
	return pid > 0 && pid <= 0x7fffffff ? (pid_t)pid : 0;
}

/* Whether the process is one of all targets, or a descendant, at this moment; and what was seen. */
static struct stacksnap_error *look_for(const struct snap_cli_request *request,
					const struct stacksnap_snapshot *seen, pid_t wanted,
					const volatile int *cancel, bool *found_ret,
					struct stacksnap_snapshot **list_ret)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_error *err = replay(request, NULL, seen, cancel, &options);
	pid_t pid;

	if (!err)
		err = stacksnap_list(options, list_ret);
	*found_ret = false;
	for (size_t i = 0; !err && stacksnap_snapshot_process(*list_ret, i, &pid, NULL, NULL); i++)
		*found_ret |= pid == wanted;
	stacksnap_options_destroy(options);
	return err;
}

struct stacksnap_error *snap_serve_targets_choose(const struct snap_cli_request *request,
						  const struct stacksnap_snapshot *seen,
						  const char *target, const volatile int *cancel,
						  bool *found_ret, struct stacksnap_options **ret)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_snapshot *list = NULL;
	struct stacksnap_error *err;
	pid_t pid = target ? pid_of(target) : 0;

	*found_ret = true;
	if (!target || has_name(request, target))
		return replay(request, target, seen, cancel, ret);
	*found_ret = false;
	if (!pid)
		return NULL;
	err = look_for(request, seen, pid, cancel, found_ret, &list);
	if (!err && *found_ret)
		err = replay(request, "", list, cancel, &options);
	if (!err && options)
		err = stacksnap_options_set(options, "pid", target);
	stacksnap_snapshot_destroy(list);
	if (err)
		stacksnap_options_destroy(options);
	else if (options)
		*ret = options;
	return err;
}
