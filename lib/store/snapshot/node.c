/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The members of processes and labels, in the order of the bytes: see internal.h. Those
 * that only recordings have are left out.
 */
#include "store/snapshot/internal.h"

#include <limits.h>
#include <string.h>

enum {
	MOST_ARGS = 1 << 16,
	MOST_LABELS = 16,
	LEAST_ANCESTOR = 16,
	LEAST_LABEL = 8,
	TYPES = SNAP_TYPE_NONE + 1,
	TROUBLES = SNAP_TROUBLE_COUNT,
};

enum label_key { KEY_STATE, KEY_NAME, KEY_SYSCALL, KEY_WCHAN, KEY_CPU, KEY_TYPE, KEY_DELETED };

static const char *const label_keys[] = {
	[KEY_STATE] = "state",         [KEY_NAME] = "thread_name", [KEY_SYSCALL] = "syscall",
	[KEY_WCHAN] = "wchan",         [KEY_CPU] = "cpu",          [KEY_TYPE] = "type",
	[KEY_DELETED] = "exe_deleted",
};

enum { KEYS = SNAP_ARRAY_SIZE(label_keys) };

static uint32_t key_of(const char *key)
{
	uint32_t number = 0;

	while (number < KEYS && strcmp(label_keys[number], key) != 0)
		number++;
	return number;
}

/* Renderers print those that are words of ours as they are. */
static bool is_value(uint32_t key, const char *value)
{
	size_t length = value ? strlen(value) : 0;

	if (length == 0)
		return false;
	switch ((enum label_key)key) {
	case KEY_STATE:
		return snap_state_of_word(value) < SNAP_STATE_COUNT;
	case KEY_CPU:
		return length <= 10 && strspn(value, "0123456789") == length;
	case KEY_TYPE:
		return strcmp(value, "user") == 0 || strcmp(value, "kernel") == 0;
	case KEY_DELETED:
		return strcmp(value, "true") == 0;
	case KEY_NAME:
	case KEY_SYSCALL:
	case KEY_WCHAN:
		return true;
	}
	return false;
}

/* The number of its key. */
static uint32_t code_label(struct snap_sharing *to, struct snap_label *label)
{
	bool reads = snap_codec_reads(&to->codec);
	uint32_t key = reads ? 0 : key_of(label->key);

	snap_code_enum(&to->codec, &key, KEYS);
	snap_share_text(to, &label->value, SNAP_MAX_NAME);
	if (!reads)
		return key;
	label->key = label_keys[key];
	snap_codec_check(&to->codec, is_value(key, label->value), "label without a value");
	return key;
}

void snap_code_labels(struct snap_sharing *to, struct snap_label **labels, size_t *count)
{
	uint32_t next = 0;

	snap_code_array(&to->codec, labels, count, MOST_LABELS, sizeof(**labels), LEAST_LABEL);
	for (size_t i = 0; i < *count; i++) {
		uint32_t key = code_label(to, &(*labels)[i]);

		snap_codec_check(&to->codec, key >= next, "labels not sorted");
		next = key + 1;
	}
}

static void code_args(struct snap_sharing *to, struct snap_node *node)
{
	snap_code_array(&to->codec, &node->args, &node->arg_count, MOST_ARGS, sizeof(*node->args),
			sizeof(uint32_t));
	for (size_t i = 0; i < node->arg_count; i++) {
		snap_share_text(to, &node->args[i], SNAP_MAX_ARGS);
		snap_codec_check(&to->codec, node->args[i], "missing argument");
	}
}

static void code_ancestors(struct snap_sharing *to, struct snap_node *node)
{
	snap_code_array(&to->codec, &node->ancestors, &node->ancestor_count, SNAP_MAX_ANCESTORS,
			sizeof(*node->ancestors), LEAST_ANCESTOR);
	for (size_t i = 0; i < node->ancestor_count; i++) {
		struct snap_ancestor *ancestor = &node->ancestors[i];

		snap_code_i32(&to->codec, &ancestor->pid);
		snap_share_text(to, &ancestor->name, SNAP_MAX_NAME);
		snap_code_u64(&to->codec, &ancestor->start_ticks);
		snap_codec_check(&to->codec,
				 ancestor->pid > 0 && ancestor->start_ticks <= INT64_MAX,
				 "invalid pid of an ancestor");
	}
}

static void code_identity(struct snap_sharing *to, struct snap_node *node)
{
	struct snap_codec *codec = &to->codec;

	snap_code_i32(codec, &node->pid);
	snap_code_i32(codec, &node->ppid);
	snap_code_i32(codec, &node->ns_pid);
	snap_share_text(to, &node->name, SNAP_MAX_NAME);
	snap_share_text(to, &node->description, SNAP_MAX_NAME);
	snap_code_enumerator(codec, &node->type, TYPES);
	snap_code_enumerator(codec, &node->state, SNAP_STATE_COUNT);
	snap_share_text(to, &node->exe, SNAP_MAX_NAME);
	snap_code_u32(codec, &node->uid);
	snap_share_text(to, &node->user, SNAP_MAX_NAME);
	snap_code_moment(to, &node->start_time_ns);
	snap_code_u64(codec, &node->start_ticks);
	snap_share_text(to, &node->cgroup, SNAP_MAX_NAME);
	snap_share_text(to, &node->unit, SNAP_MAX_NAME);
	snap_share_text(to, &node->container, SNAP_MAX_NAME);
	snap_codec_check(codec, node->pid > 0 && node->ppid >= 0 && node->ns_pid >= 0,
			 "invalid pid");
	snap_codec_check(codec, node->start_ticks <= INT64_MAX, "number too large");
}

void snap_code_node(struct snap_sharing *to, struct snap_node *node)
{
	struct snap_codec *codec = &to->codec;

	code_identity(to, node);
	code_args(to, node);
	code_ancestors(to, node);
	snap_code_at_most(to, &node->thread_count, INT32_MAX);
	snap_code_at_most(to, &node->threads_missed, INT32_MAX);
	snap_code_length(to, &node->stop_duration_ns);
	snap_code_labels(to, &node->labels, &node->label_count);
	snap_code_enumerator(codec, &node->trouble, TROUBLES);
	snap_share_text(to, &node->trouble_message, SNAP_LONGEST_MESSAGE);
	snap_code_stacks(to, node);
}
