/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* HTML pages: see pages.h. */
#include "serve/pages.h"

#include "serve/targets.h"

#include <ctype.h>
#include <string.h>

enum { MOST_SHOWN = 256 /* bytes of a text of a target */ };

static const char head[] = "<!DOCTYPE html>\n"
			   "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
			   "<meta name=\"color-scheme\" content=\"light dark\">\n"
			   "<title>stacksnap</title>\n"
			   "<style>body{font:14px/1.5 system-ui,sans-serif;margin:2em}"
			   "table{border-collapse:collapse}"
			   "th,td{text-align:left;padding:.15em 1em .15em 0;vertical-align:top}"
			   "td:first-child{text-align:right}"
			   "td.what{overflow-wrap:anywhere}</style>\n"
			   "</head><body>\n";
static const char tail[] = "</body></html>\n";

static void put_html(const char *text, FILE *out)
{
	char clean[4 * MOST_SHOWN + 1];
	size_t length = strnlen(text, MOST_SHOWN);

	stacksnap_escape(text, length, 0, clean, sizeof(clean));
	for (const char *c = clean; *c; c++) {
		switch (*c) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			fputc(*c, out);
		}
	}
	if (text[length])
		fputs("…", out);
}

/* Safe in an attribute, too: all but letters, digits and three signs are escaped. */
static void put_url_text(const char *text, FILE *out)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (isascii(c) && (isalnum(c) || strchr("-._", c)))
			fputc(c, out);
		else
			fprintf(out, "%%%02X", c);
	}
}

/* `path` may have parameters already. */
static void put_link(const char *path, const char *target, const char *text, FILE *out)
{
	fprintf(out, "<a href=\"%s", path);
	if (target) {
		fputs(strchr(path, '?') ? "&amp;target=" : "?target=", out);
		put_url_text(target, out);
	}
	fprintf(out, "\">%s</a> ", text);
}

/* Of one target, or of all with NULL. */
static void put_links(const char *target, FILE *out)
{
	fputs("snapshot ", out);
	put_link("/snapshot.txt", target, "text", out);
	put_link("/snapshot.html", target, "HTML", out);
	put_link("/snapshot.json", target, "JSON", out);
	fputs("· 10 s ", out);
	put_link("/recording.txt?seconds=10", target, "text", out);
	put_link("/recording.html?seconds=10", target, "HTML", out);
	fputs("· ", out);
	put_link("/debug/pprof/", target, "pprof", out);
}

static void put_process(pid_t pid, const char *name, const char *description, FILE *out)
{
	char target[16];

	snprintf(target, sizeof(target), "%d", (int)pid);
	fprintf(out, "<tr><td>%d</td><td>", (int)pid);
	put_html(name ? name : "?", out);
	fputs("</td><td>", out);
	put_links(target, out);
	fputs("</td><td class=\"what\">", out);
	put_html(description ? description : "", out);
	fputs("</td></tr>\n", out);
}

void snap_serve_put_home(const struct snap_cli_request *request,
			 const struct stacksnap_snapshot *list, FILE *out)
{
	const char *name, *description;
	pid_t pid;

	fputs(head, out);
	fputs("<h1>stacksnap</h1>\n<p>Each snapshot stops its processes for some milliseconds, "
	      "a recording again and again.\n",
	      out);
	put_link("/metrics", NULL, "metrics", out);
	put_link("/processes", NULL, "processes as JSON", out);
	fputs("</p>\n<table>\n<tr><td></td><td>all</td><td>", out);
	put_links(NULL, out);
	fputs("</td><td></td></tr>\n", out);
	for (size_t i = 0; (name = snap_serve_targets_name(request, i)); i++) {
		fputs("<tr><td></td><td>", out);
		put_html(name, out);
		fputs("</td><td>", out);
		put_links(name, out);
		fputs("</td><td></td></tr>\n", out);
	}
	for (size_t i = 0; stacksnap_snapshot_process(list, i, &pid, &name, &description); i++)
		put_process(pid, name, description, out);
	fprintf(out, "</table>\n<p>stacksnap %s</p>\n%s", stacksnap_version(), tail);
}

void snap_serve_put_pprof_index(const char *target, FILE *out)
{
	fputs(head, out);
	fputs("<h1>/debug/pprof/</h1>\n<table>\n<tr><td>", out);
	put_link("/debug/pprof/profile", target, "profile", out);
	fputs("</td><td>where threads run: ?seconds=30&amp;hz=99&amp;mode=cpu, or mode=wall for "
	      "those that wait, too</td></tr>\n<tr><td>",
	      out);
	put_link("/debug/pprof/threads?debug=1", target, "threads", out);
	fputs("</td><td>the stack of each thread, now, as a profile; ?debug=1 is text with "
	      "counts</td></tr>\n<tr><td>",
	      out);
	put_link("/debug/pprof/threads?debug=2", target, "full dump", out);
	fprintf(out, "</td><td>each thread by itself</td></tr>\n</table>\n%s", tail);
}
