/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An HTML page around a report: a single self-contained file that makes no network requests. See parts.h.
 *
 * Nothing that came from a target is markup. It stands in two places: in the text form, where each
 * sign that means something in HTML is written as a character reference, and in the data, a script
 * element of a type that no browser runs, where "<" never occurs. The policy allows the page's own
 * style and script by their hashes, and nothing else. Knows nothing of what a report says.
 */
#include "render/html/parts.h"

#include "base/escape.h"

#include <errno.h>
#include <string.h>

/* ---- what is written between tags ---- */

/* Bytes of text, with what would be markup as character references. */
static void put_escaped(FILE *out, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		switch (bytes[i]) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			putc(bytes[i], out);
			break;
		}
	}
}

static ssize_t write_text(void *context, const char *bytes, size_t size)
{
	FILE *out = context;

	put_escaped(out, bytes, size);
	/* 0 is a failure; what is the matter is asked of `out` in the end. */
	return ferror(out) ? 0 : (ssize_t)size;
}

/* In JSON "<" stands inside of texts alone, where it may be written so. */
static void write_data(void *context, const char *bytes, size_t size)
{
	FILE *out = context;
	const char *end = bytes + size, *found;

	while ((found = memchr(bytes, '<', (size_t)(end - bytes)))) {
		fwrite(bytes, 1, (size_t)(found - bytes), out);
		fputs("\\u003c", out);
		bytes = found + 1;
	}
	fwrite(bytes, 1, (size_t)(end - bytes), out);
}

/* ---- the parts of a page ---- */

/* NO_MEMORY. Released by html_deinit() in any case. */
static struct stacksnap_error *html_init(struct snap_html *html, const struct snap_options *options,
					 FILE *out)
{
	/* A row that no stack has: they begin with a call without a caller, which is 0. */
	static const uint32_t nothing[] = { UINT32_MAX, UINT32_MAX };

	*html = (struct snap_html){ .out = out, .options = options };
	html->json = snap_json_writer_create_to(write_data, out, SNAP_JSON_COMPACT);
	/* 0 means none in both. */
	return snap_no_memory_unless(html->json && snap_pool_add(&html->texts, "", 0) == 0 &&
				     snap_pool_add(&html->stacks, nothing, sizeof(nothing)) == 0);
}

static void html_deinit(struct snap_html *html)
{
	snap_json_writer_destroy(html->json);
	snap_pool_deinit(&html->texts);
	snap_pointer_table_deinit(&html->names);
	snap_pool_deinit(&html->frames);
	snap_pool_deinit(&html->stacks);
	snap_buffer_deinit(&html->scratch);
}

static struct stacksnap_error *put_page_head(const char *title, FILE *out)
{
	size_t length = strlen(title);
	_cleanup_free_ char *clean = malloc(4 * length + 1);

	SNAP_TRY(snap_no_memory_unless(clean));
	length = snap_escape(title, length, 0, clean, 4 * length + 1);
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"script-src 'sha256-%s'; style-src 'sha256-%s'; base-uri 'none'; "
		"form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta name=\"referrer\" content=\"no-referrer\">\n"
		"<meta name=\"generator\" content=\"stacksnap " SNAP_VERSION "\">\n<title>",
		snap_html_script_hash, snap_html_style_hash);
	put_escaped(out, clean, length);
	fprintf(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<header id=\"top\">\n<h1>",
		snap_html_style);
	put_escaped(out, clean, length);
	fputs("</h1>\n</header>\n<main id=\"main\">\n", out);
	return NULL;
}

/* The report as text, which is all of the page where no script runs. */
static struct stacksnap_error *put_page_text(const struct snap_html_page *page,
					     const struct snap_options *options, FILE *out)
{
	struct snap_options plain = *options;
	_cleanup_fclose_ FILE *text = NULL;
	struct stacksnap_error *err;

	/* Of the terminal that the page was made on it shows nothing. */
	plain.color = false;
	plain.utf8 = true;
	plain.width = 0;
	text = fopencookie(out, "w", (cookie_io_functions_t){ .write = write_text });
	SNAP_TRY(snap_no_memory_unless(text));
	fputs("<details id=\"text\" open>\n<summary>The report as text</summary>\n"
	      "<pre tabindex=\"0\" role=\"region\" aria-label=\"The report as text\">",
	      out);
	err = page->put_text(page->what, &plain, text);
	if (fclose(snap_take_ptr(text)) != 0 && !err && !ferror(out))
		err = snap_error_os(errno, "cannot write the report");
	fputs("</pre>\n</details>\n</main>\n", out);
	return err;
}

static struct stacksnap_error *put_data(const struct snap_html_page *page,
					const struct snap_options *options, FILE *out)
{
	_cleanup_(html_deinit) struct snap_html html = { .out = NULL };

	SNAP_TRY(html_init(&html, options, out));
	fputs("<script type=\"application/json\" id=\"data\">", out);
	snap_json_begin(html.json, NULL, '{');
	SNAP_TRY(page->put_data(page->what, &html));
	snap_html_put_tables(&html);
	snap_json_end(html.json, '}');
	snap_json_end_document(html.json);
	snap_json_flush(html.json);
	fputs("</script>\n", out);
	return snap_no_memory_unless(!html.failed && !html.json->failed);
}

struct stacksnap_error *snap_html_put_page(const struct snap_html_page *page,
					   const struct snap_options *options, FILE *out)
{
	SNAP_TRY(put_page_head(page->title, out));
	SNAP_TRY(put_page_text(page, options, out));
	SNAP_TRY(put_data(page, options, out));
	fprintf(out, "<script>%s</script>\n</body>\n</html>\n", snap_html_script);
	return ferror(out) ? snap_error_os(errno, "cannot write the report") : NULL;
}
