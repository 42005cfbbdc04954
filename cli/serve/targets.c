/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Targets of requests: see targets.h. */
#include "serve/targets.h"

#include "message.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 10 /* of a pid */ };

static bool is_target(const struct snap_cli_setting *setting)
{
	static const char *const names[] = { "pid", "name", "unit", "cgroup", "container", "all" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(setting->name, names[i]) == 0)
			return true;
	return false;
}

static bool is_named(const struct snap_cli_setting *setting)
{
	return is_target(setting) && setting->value && strcmp(setting->name, "pid") != 0;
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
		err = stacksnap_options_set(options, "max-memory", "64M");
	stacksnap_options_set_cancel(options, cancel);
	return err;
}

/* `only`: of the targets those alone that are named so; NULL: all; "": none. */
static struct stacksnap_error *replay(const struct snap_cli_request *request, const char *only,
				      const volatile int *cancel, struct stacksnap_options **ret)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_error *err = stacksnap_options_create(&options);

	if (!err)
		err = set_usual(options, cancel);
	for (size_t i = 0; !err && i < request->setting_count; i++) {
		const struct snap_cli_setting *setting = &request->settings[i];

		if (only && is_target(setting) &&
		    !(is_named(setting) && strcmp(setting->value, only) == 0))
			continue;
		err = stacksnap_options_set(options, setting->name, setting->value);
	}
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

/* Whether the process is one of all targets, or a descendant, at this moment. */
static struct stacksnap_error *look_for(const struct snap_cli_request *request, pid_t wanted,
					const volatile int *cancel, bool *found_ret)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_snapshot *list = NULL;
	struct stacksnap_error *err = replay(request, NULL, cancel, &options);
	pid_t pid;

	if (!err)
		err = stacksnap_list(options, &list);
	*found_ret = false;
	for (size_t i = 0; list && stacksnap_snapshot_process(list, i, &pid, NULL, NULL); i++)
		*found_ret |= pid == wanted;
	stacksnap_snapshot_destroy(list);
	stacksnap_options_destroy(options);
	return err;
}

struct stacksnap_error *snap_serve_targets_choose(const struct snap_cli_request *request,
						  const char *target, const volatile int *cancel,
						  bool *found_ret, struct stacksnap_options **ret)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_error *err;
	pid_t pid = target ? pid_of(target) : 0;

	*found_ret = true;
	if (!target || has_name(request, target))
		return replay(request, target, cancel, ret);
	*found_ret = false;
	if (!pid)
		return NULL;
	err = look_for(request, pid, cancel, found_ret);
	if (err || !*found_ret)
		return err;
	err = replay(request, "", cancel, &options);
	if (!err)
		err = stacksnap_options_set(options, "pid", target);
	if (err)
		stacksnap_options_destroy(options);
	else
		*ret = options;
	return err;
}
