/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of files with the time and a number in them: see output_pattern.h. */
#include "output_pattern.h"

#include "message.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Those of strftime(3) that neither hold a slash nor depend on a language, and what it makes of
 * them, parted by lines; of our own: %N, and %s, which strftime would reckon in local time.
 */
static const char time_letters[] = "YmdjHMSFTRuV";
#define TIME_FORMAT "%Y\n%m\n%d\n%j\n%H\n%M\n%S\n%F\n%T\n%R\n%u\n%V\n"
static const char own_letters[] = "Ns%";

bool snap_cli_pattern_is_stdout(const struct snap_cli_pattern *pattern)
{
	return !pattern->text || strcmp(pattern->text, "-") == 0;
}

bool snap_cli_pattern_init(struct snap_cli_pattern *pattern, const char *text)
{
	*pattern = (struct snap_cli_pattern){ .text = text };
	for (const char *c = text ? text : ""; (c = strchr(c, '%')); c += 2)
		if (!c[1] || (!strchr(time_letters, c[1]) && !strchr(own_letters, c[1])))
			return snap_cli_message(
				"--output: '%.2s' in the file name is not one of %%Y %%m %%d %%j "
				"%%H %%M %%S %%F %%T %%R %%u %%V %%s (time in UTC), %%N (number), "
				"%%%% (percent sign)",
				c);
	return true;
}

void snap_cli_pattern_deinit(struct snap_cli_pattern *pattern)
{
	free(pattern->path);
	*pattern = (struct snap_cli_pattern){ .path = NULL };
}

static void print_time(FILE *out, char letter, time_t now)
{
	size_t index = (size_t)(strchr(time_letters, letter) - time_letters);
	char text[256], *rest = text, *field = NULL;
	struct tm utc;

	if (!gmtime_r(&now, &utc) || strftime(text, sizeof(text), TIME_FORMAT, &utc) == 0)
		return;
	for (size_t i = 0; i <= index; i++)
		field = strsep(&rest, "\n");
	fputs(field ? field : "", out);
}

static void print_sequence(FILE *out, char letter, unsigned number, time_t now)
{
	if (letter == '%')
		fputc('%', out);
	else if (letter == 'N')
		fprintf(out, "%u", number);
	else if (letter == 's')
		fprintf(out, "%lld", (long long)now);
	else
		print_time(out, letter, now);
}

bool snap_cli_pattern_name(struct snap_cli_pattern *pattern)
{
	time_t now = time(NULL);
	char *path = NULL;
	size_t size = 0;
	FILE *out;

	if (snap_cli_pattern_is_stdout(pattern))
		return true;
	out = open_memstream(&path, &size);
	if (!out)
		return snap_cli_message("out of memory");
	for (const char *c = pattern->text; *c; c++)
		if (*c == '%')
			print_sequence(out, *++c, pattern->written + 1, now);
		else
			fputc(*c, out);
	if (fclose(out) != 0) {
		free(path);
		return snap_cli_message("out of memory");
	}
	free(pattern->path);
	pattern->path = path;
	return true;
}
