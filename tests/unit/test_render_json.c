/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The JSON document: byte for byte, against its schema, and with names made by chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/escape.h"
#include "golden.h"
#include "skip.h"
#include "task_snapshots.h"

#include <jansson.h>

static void check_json(const char *name, const struct snap_snapshot *snapshot)
{
	struct snap_options options = { 0 };
	_cleanup_free_ char *text = golden_render(snap_render_json, snapshot, &options, NULL);
	json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(document);
	json_decref(document);
	golden_check(name, text);
}

static void test_documents(void **state _unused_)
{
	struct snap_snapshot flat = flat_service(), trouble = all_troubled(),
			     empty = { .host = TEST_HOST, .time_ns = 1 };

	check_json("service.json", &service);
	check_json("service-flat.json", &flat);
	check_json("trouble.json", &trouble);
	check_json("hostile.json", &hostile);
	check_json("empty.json", &empty);
}

static void test_tasks(void **state _unused_)
{
	struct snap_snapshot flat = flat_gitea();

	check_json("tasks.json", &gitea);
	check_json("tasks-flat.json", &flat);
	check_json("tasks-hostile.json", &hostile_gitea);
}

/* Exit status 77: there is no validator on this machine. */
static void test_schema(void **state _unused_)
{
	static const char program[] =
		"import json, sys\n"
		"try:\n"
		"    from jsonschema import Draft202012Validator as V\n"
		"except ImportError:\n"
		"    sys.exit(77)\n"
		"schema = json.load(open(sys.argv[1]))\n"
		"V.check_schema(schema)\n"
		"errors = [f'{f}: {list(e.path)}: {e.message}' for f in sys.argv[2:]\n"
		"          for e in V(schema).iter_errors(json.load(open(f)))]\n"
		"print('\\n'.join(errors), file=sys.stderr)\n"
		"sys.exit(len(errors) > 0)\n";
	const char *source = getenv("STACKSNAP_SOURCE");
	_cleanup_free_ char *command = NULL;
	int status;

	assert_non_null(source);
	assert_true(asprintf(&command,
			     "python3 -W ignore -c \"$PROGRAM\" "
			     "'%s'/lib/render/json/stacksnap-snapshot.schema.json "
			     "'%s'/tests/golden/*.json",
			     source, source) > 0);
	assert_int_equal(setenv("PROGRAM", program, 1), 0);
	status = system(command);
	assert_int_equal(unsetenv("PROGRAM"), 0);
	if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
		skip_because("missing: python3 with jsonschema");
	}
	assert_int_equal(status, 0);
}

/* A generator of its own, so that a failure comes back with the same names. */
static uint32_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

/* Pieces that hurt, and bytes at random; no NUL inside. */
static void make_name(uint64_t *seed, char *out, size_t size)
{
	static const char *const pieces[] = {
		"\033[2J",
		"\xe2\x80\xae",
		"\xe2\x81\xa6",
		"\xef\xbb\xbf",
		"\xc2\x85",
		"\\",
		"\"",
		"\n",
		"\r",
		"\t",
		"\x7f",
		"\xd8\x9c",
		"\xed\xa0\x80",
		"\xf4\x90\x80\x80",
		"\xc0\xaf",
		"\xef\xb7\x90",
		"\xe2\x80\xa8",
		"</script>",
		"%s%n",
		"a",
		"worker-12",
		"\xe6\x97\xa5",
		"std::vector<A<B>, C<",
		"(",
		"operator<",
		">",
		"/../",
		"\\x1b",
		"@@GLIBC",
		": ",
	};
	size_t n = 0, wanted = next_random(seed) % (size - 8);

	while (n < wanted) {
		if (next_random(seed) % 4 == 0) {
			out[n++] = (char)(next_random(seed) % 255 + 1);
		} else {
			const char *piece =
				pieces[next_random(seed) % (sizeof(pieces) / sizeof(*pieces))];
			size_t length = strlen(piece);

			if (n + length >= size - 1)
				break;
			memcpy(out + n, piece, length);
			n += length;
		}
	}
	if (n == 0)
		out[n++] = '\x01';
	out[n] = '\0';
}

/* A snapshot whose every text is the name. */
static struct snap_snapshot named(const char *name)
{
	static struct snap_entry entry, inlined[2];
	static struct snap_frame frame, second;
	static const struct snap_frame *frames[2];
	static struct snap_member member;
	static struct snap_label labels[4];
	static struct snap_stack stack;
	static struct snap_ancestor ancestor;
	static struct snap_warning warning;
	static const char *args[1];
	static struct snap_node node, *roots[1];

	entry = (struct snap_entry){ .function = name, .symbol = name, .file = name, .line = 7 };
	inlined[0] = (struct snap_entry){ .function = name, .inlined = true };
	inlined[1] = (struct snap_entry){ .symbol = name, .system = true };
	frame = (struct snap_frame){ 1, 1, name, NULL, true, &entry, 1, 0, SNAP_TRUST_SCAN };
	second = (struct snap_frame){ 2,    2,    name,
				      NULL, true, inlined,
				      2,    0,    SNAP_TRUST_FRAME_POINTER };
	frames[0] = &frame;
	frames[1] = &second;
	member = (struct snap_member){ 5,    5,     name, SNAP_STATE_DISK,     false,
				       name, name,  0,    SNAP_TAKEN_TOGETHER, NULL,
				       0,    false, false };
	labels[0] = (struct snap_label){ "state", "disk" };
	labels[1] = (struct snap_label){ "thread_name", name };
	labels[2] = (struct snap_label){ "syscall", name };
	labels[3] = (struct snap_label){ "wchan", name };
	stack = (struct snap_stack){ .id = "0000000000000000",
				     .count = 1,
				     .description = name,
				     .labels = labels,
				     .label_count = 4,
				     .unwind = SNAP_UNWIND_FAILED,
				     .unwind_detail = name,
				     .threads = &member,
				     .thread_count = 1,
				     .frames = frames,
				     .frame_count = 2 };
	ancestor = (struct snap_ancestor){ 4, name, 1 };
	warning = (struct snap_warning){ "code", name, 5, 5 };
	args[0] = name;
	node = (struct snap_node){ .pid = 5,
				   .ppid = 4,
				   .name = name,
				   .description = name,
				   .exe = name,
				   .args = args,
				   .arg_count = 1,
				   .user = name,
				   .cgroup = name,
				   .unit = name,
				   .container = name,
				   .ancestors = &ancestor,
				   .ancestor_count = 1,
				   .thread_count = 1,
				   .stacks = &stack,
				   .stack_count = 1,
				   .trouble = SNAP_TROUBLE_INTERNAL,
				   .trouble_message = name };
	roots[0] = &node;
	return (struct snap_snapshot){ .host = { name, name, name, name, 1, 0, 100 },
				       .time_ns = 1,
				       .process_count = 1,
				       .thread_count = 1,
				       .stack_count = 1,
				       .processes = roots,
				       .root_count = 1,
				       .warnings = &warning,
				       .warning_count = 1 };
}

/* Nothing that escaping forbids is in the text, but for our own ends of lines. */
static void assert_harmless(const char *text, unsigned flags)
{
	_cleanup_free_ char *copy = strdup(text);

	assert_non_null(copy);
	for (char *p = copy; *p; p++)
		if (*p == '\n' || *p == '\\')
			*p = ' ';
	assert_true(snap_escape_is_clean(copy, strlen(copy), flags));
}

static void assert_raw_form_comes_back(const char *document, const char *name)
{
	json_t *root = json_loads(document, JSON_REJECT_DUPLICATES, NULL);
	json_t *process = json_array_get(json_object_get(root, "processes"), 0);
	const char *shown = json_string_value(json_object_get(process, "name"));
	_cleanup_free_ char *raw = NULL;

	assert_non_null(shown);
	raw = malloc(strlen(shown) + 1);
	assert_non_null(raw);
	assert_int_equal(snap_unescape(shown, strlen(shown), raw), strlen(name));
	assert_string_equal(raw, name);
	json_decref(root);
}

static void test_hostile_names(void **state _unused_)
{
	uint64_t seed = 20261120;
	char name[200];

	for (int i = 0; i < 2000; i++) {
		struct snap_options options = { .utf8 = i % 2,
						.width = i % 3 ? 60 : 0,
						.summary = i % 5 == 0,
						.verbose = i % 7 == 0,
						.show_module = i % 4 == 0 };
		unsigned flags = options.utf8 ? 0 : SNAP_ESCAPE_ASCII;
		_cleanup_free_ char *json = NULL, *text = NULL, *list = NULL;
		struct snap_snapshot snapshot;

		make_name(&seed, name, sizeof(name));
		snapshot = named(name);
		snapshot.flat = i % 6 == 0;
		json = golden_render(snap_render_json, &snapshot, &options, NULL);
		assert_harmless(json, 0);
		assert_raw_form_comes_back(json, name);
		text = golden_render(snap_render_text, &snapshot, &options, NULL);
		assert_harmless(text, flags);
		list = golden_render(snap_render_list, &snapshot, &options, NULL);
		assert_harmless(list, flags);
	}
}

/* A million frames of one recursion: each is copied, none is built again. */
static void test_deep_stack(void **state _unused_)
{
	enum { DEPTH = 1000000 };
	_cleanup_free_ const struct snap_frame **frames = calloc(DEPTH, sizeof(*frames));
	struct snap_options options = { .utf8 = true };
	struct snap_snapshot snapshot = named("walk");
	struct snap_stack *stack = snapshot.processes[0]->stacks;
	_cleanup_free_ char *json = NULL, *text = NULL;
	size_t size;

	assert_non_null(frames);
	for (size_t i = 0; i < DEPTH; i++)
		frames[i] = stack->frames[0];
	stack->frames = frames;
	stack->frame_count = DEPTH;
	json = golden_render(snap_render_json, &snapshot, &options, &size);
	assert_true(size > 50u * DEPTH);
	text = golden_render(snap_render_text, &snapshot, &options, NULL);
	assert_non_null(strstr(text, "walk × 1000000"));
}

/* Deeper than any call stack would bear, were the tree walked by recursion. */
static void test_deep_tree(void **state _unused_)
{
	enum { DEPTH = 20000 };
	_cleanup_free_ struct snap_node *nodes = calloc(DEPTH, sizeof(*nodes));
	_cleanup_free_ struct snap_node **children = calloc(DEPTH, sizeof(struct snap_node *));
	struct snap_snapshot snapshot = { .process_count = DEPTH,
					  .processes = children,
					  .root_count = 1 };
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *json = NULL, *text = NULL, *list = NULL;
	size_t opened = 0, closed = 0;

	assert_true(nodes && children);
	for (size_t i = 0; i < DEPTH; i++) {
		children[i] = &nodes[i];
		nodes[i] = (struct snap_node){ .pid = (pid_t)i + 1, .name = "p" };
		if (i + 1 < DEPTH) {
			nodes[i].children = &children[i + 1];
			nodes[i].child_count = 1;
		}
	}
	json = golden_render(snap_render_json, &snapshot, &options, NULL);
	for (const char *p = json; *p; p++) {
		opened += *p == '{';
		closed += *p == '}';
	}
	assert_int_equal(opened, closed);
	text = golden_render(snap_render_text, &snapshot, &options, NULL);
	assert_non_null(strstr(text, "p[20000]"));
	list = golden_render(snap_render_list, &snapshot, &options, NULL);
	assert_non_null(strstr(list, "p[20000]"));
}

static void test_full_disk(void **state _unused_)
{
	struct snap_options options = { 0 };
	FILE *full = fopen("/dev/full", "we");
	struct stacksnap_error *err;

	if (!full)
		skip_because(NO_DEV_FULL);
	setvbuf(full, NULL, _IONBF, 0);
	err = snap_render_json(&service, &options, full);
	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
	snap_error_destroy(err);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_documents),  cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_schema),     cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_deep_stack), cmocka_unit_test(test_deep_tree),
		cmocka_unit_test(test_full_disk),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
