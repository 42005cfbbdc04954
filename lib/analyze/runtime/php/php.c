/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * PHP 7.3 to 8.5 without threads (NTS): the functions that run, and their request. The two
 * functions of runtime.h.
 */
#include "analyze/runtime/php/php.h"
#include "analyze/runtime/memory.h"

static struct stacksnap_error *probe_php(const struct snap_runtime_process *process,
					 struct snap_memory_plan *plan, bool *found_ret)
{
	struct snap_php php;

	if (!snap_php_find(process, &php))
		return NULL;
	*found_ret = true;
	if (!snap_php_layout(&php))
		snap_php_plan(&php, plan);
	else if (!process->is_of_thread)
		snap_php_plan_refusal(&php, plan);
	return NULL;
}

/* "PHP 8.6.0: it is newer than 8.5"; false: no memory. */
static bool refuse_php(const struct snap_php *php, const char *why,
		       struct snap_runtime_result *result)
{
	const char *version = php->version ? php->version : "";

	result->refused = snap_arena_printf(php->process->arena, "PHP%s%s: %s",
					    php->version ? " " : "", version, why);
	return result->refused;
}

/* What the server said of the request; it is stale when nothing runs. False: no memory. */
static bool fill_request(const struct snap_php *php, struct snap_runtime_result *result)
{
	static const struct {
		const char *key;
		uint32_t offset;
	} texts[] = {
		{ "request_method", SNAP_PHP_REQUEST_METHOD },
		{ "request_uri", SNAP_PHP_REQUEST_URI },
		{ "query_string", SNAP_PHP_REQUEST_QUERY },
	};

	if (!php->request || result->thread_count == 0)
		return true;
	result->labels = snap_arena_new_array(php->process->arena, SNAP_ARRAY_SIZE(texts),
					      struct snap_label);
	if (!result->labels)
		return false;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(texts); i++) {
		const char *value;
		uint64_t address;

		if (!snap_runtime_word(php->process, php->request + texts[i].offset, &address))
			continue;
		if (!snap_php_text(php, address, &value))
			return false;
		if (value && value[0])
			result->labels[result->label_count++] =
				(struct snap_label){ texts[i].key, value };
	}
	return true;
}

static struct stacksnap_error *fill_php_result(struct snap_php *php,
					       struct snap_runtime_result *result)
{
	const char *why = snap_php_layout(php);

	result->version = php->version;
	if (!why && !snap_runtime_word(php->process, php->executor + php->current, &php->innermost))
		why = snap_runtime_why(php->process, "its memory cannot be read");
	if (why)
		return refuse_php(php, why, result) ? NULL : snap_error_no_memory();
	SNAP_TRY(snap_php_frames(php, result));
	if (result->refused && !refuse_php(php, result->refused, result))
		return snap_error_no_memory();
	return fill_request(php, result) ? NULL : snap_error_no_memory();
}

static struct stacksnap_error *read_php(const struct snap_runtime_process *process,
					struct snap_runtime_result **ret)
{
	struct snap_php php;
	struct snap_runtime_result *result;

	*ret = NULL;
	if (!snap_php_find(process, &php))
		return NULL;
	result = snap_arena_new(process->arena, struct snap_runtime_result);
	SNAP_TRY(snap_no_memory_unless(result));
	result->name = "php";
	SNAP_TRY(fill_php_result(&php, result));
	*ret = result;
	return NULL;
}

const struct snap_runtime snap_runtime_php = {
	.name = "php", .kind = SNAP_RUNTIME_PHP, .probe = probe_php, .read = read_php
};
