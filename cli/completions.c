/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes the completions of a shell from the tables of options.c; run at build time, not installed.
 *
 *     usage: stacksnap-completions bash|zsh|fish
 */
#include "options.h"

#include <string.h>

/* The words that an option takes; `separator` stands between them. */
static void print_words(const struct snap_cli_option *option, char separator)
{
	const char *word;

	for (size_t i = 0; (word = snap_cli_option_word(option, i)); i++)
		printf("%s%s", i ? (char[]){ separator, '\0' } : "", word);
}

static void print_pattern(const struct snap_cli_option *option)
{
	printf("\t--%s", option->name);
	if (option->letter)
		printf("|-%c", option->letter);
	printf(")\n");
}

static void print_bash_value(const struct snap_cli_option *option)
{
	switch (option->value) {
	case SNAP_CLI_VALUE_NONE:
	case SNAP_CLI_VALUE_OPTIONAL:
		return;
	case SNAP_CLI_VALUE_PID:
		print_pattern(option);
		printf("\t\tCOMPREPLY=($(compgen -W \"$(_stacksnap_pids)\" -- \"$cur\"))\n");
		break;
	case SNAP_CLI_VALUE_FILE:
		print_pattern(option);
		printf("\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n");
		break;
	case SNAP_CLI_VALUE_DIRECTORY:
		print_pattern(option);
		printf("\t\tCOMPREPLY=($(compgen -d -- \"$cur\"))\n");
		break;
	case SNAP_CLI_VALUE_WORD:
	case SNAP_CLI_VALUE_FORMAT:
		print_pattern(option);
		printf("\t\tCOMPREPLY=($(compgen -W \"");
		print_words(option, ' ');
		printf("\" -- \"$cur\"))\n");
		break;
	case SNAP_CLI_VALUE_WORDS:
		print_pattern(option);
		printf("\t\tlocal head=\"\"\n"
		       "\t\t[[ $cur == *,* ]] && head=\"${cur%%,*},\"\n"
		       "\t\tCOMPREPLY=($(compgen -P \"$head\" -W \"");
		print_words(option, ' ');
		printf("\" -- \"${cur##*,}\"))\n");
		break;
	case SNAP_CLI_VALUE_TEXT:
		print_pattern(option);
		printf("\t\tCOMPREPLY=()\n");
		break;
	}
	printf("\t\treturn\n\t\t;;\n");
}

static void print_bash(void)
{
	printf("# bash completion for stacksnap; made from its table of options\n\n"
	       "_stacksnap_pids() {\n"
	       "\tcommand ps -e -o pid= 2>/dev/null\n"
	       "}\n\n"
	       "_stacksnap() {\n"
	       "\tlocal cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
	       "\tcase \"$prev\" in\n");
	for (const struct snap_cli_option *option = snap_cli_options; option->name; option++)
		print_bash_value(option);
	printf("\tesac\n"
	       "\tif [[ $cur == -* ]]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W \"");
	for (const struct snap_cli_option *option = snap_cli_options; option->name; option++)
		printf("%s--%s", option == snap_cli_options ? "" : " ", option->name);
	printf("\" -- \"$cur\"))\n"
	       "\telif [[ $prev == render || \" ${COMP_WORDS[*]} \" =~ ' '(merge|diff)' ' ]]; "
	       "then\n"
	       "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
	       "\telse\n"
	       "\t\tCOMPREPLY=($(compgen -W \"");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++)
		printf("%s ", verb->name);
	printf("$(_stacksnap_pids)\" -- \"$cur\"))\n"
	       "\tfi\n"
	       "}\n\n"
	       "complete -F _stacksnap stacksnap\n");
}

/* In single quotes, with the brackets and colons that _arguments reads escaped. */
static void print_zsh_text(const char *text)
{
	for (; *text; text++) {
		if (strchr("[]:\\", *text))
			putchar('\\');
		if (*text == '\'')
			printf("'\\'");
		putchar(*text);
	}
}

static void print_zsh_value(const struct snap_cli_option *option)
{
	if (option->value == SNAP_CLI_VALUE_NONE)
		return;
	printf("%s:%s:", option->value == SNAP_CLI_VALUE_OPTIONAL ? ":" : "", option->argument);
	switch (option->value) {
	case SNAP_CLI_VALUE_PID:
		printf("_pids");
		break;
	case SNAP_CLI_VALUE_FILE:
		printf("_files");
		break;
	case SNAP_CLI_VALUE_DIRECTORY:
		printf("_files -/");
		break;
	case SNAP_CLI_VALUE_WORD:
	case SNAP_CLI_VALUE_FORMAT:
		printf("(");
		print_words(option, ' ');
		printf(")");
		break;
	case SNAP_CLI_VALUE_WORDS:
		printf("_sequence compadd - ");
		print_words(option, ' ');
		break;
	case SNAP_CLI_VALUE_NONE:
	case SNAP_CLI_VALUE_TEXT:
	case SNAP_CLI_VALUE_OPTIONAL:
		printf(" ");
		break;
	}
}

static void print_zsh_option(const struct snap_cli_option *option)
{
	if (option->letter)
		printf("\t'*'{-%c%s,--%s%s}'[", option->letter, option->argument ? "+" : "",
		       option->name, option->argument ? "=" : "");
	else
		printf("\t'*--%s%s[", option->name,
		       option->value == SNAP_CLI_VALUE_OPTIONAL ? "=-"
		       : option->argument                       ? "="
								: "");
	print_zsh_text(option->help);
	printf("]");
	print_zsh_value(option);
	printf("' \\\n");
}

static void print_zsh(void)
{
	printf("#compdef stacksnap\n"
	       "# zsh completion for stacksnap; made from its table of options\n\n"
	       "_stacksnap_operand() {\n"
	       "\tlocal -a verbs\n"
	       "\tif [[ -n ${words[(r)render]} || -n ${words[(r)merge]} || -n ${words[(r)diff]} "
	       "]]; then\n"
	       "\t\t_files\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\tverbs=(\n");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++) {
		printf("\t\t'%s:", verb->name);
		print_zsh_text(verb->help);
		printf("'\n");
	}
	printf("\t)\n"
	       "\t_describe -t commands command verbs\n"
	       "\t_pids\n"
	       "}\n\n"
	       "_arguments -s -S \\\n");
	for (const struct snap_cli_option *option = snap_cli_options; option->name; option++)
		print_zsh_option(option);
	printf("\t'*:target:_stacksnap_operand'\n");
}

/* Inside single quotes of fish. */
static void print_fish_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
}

static void print_fish_option(const struct snap_cli_option *option)
{
	printf("complete -c stacksnap -l %s", option->name);
	if (option->letter)
		printf(" -s %c", option->letter);
	switch (option->value) {
	case SNAP_CLI_VALUE_NONE:
	case SNAP_CLI_VALUE_OPTIONAL:
		break;
	case SNAP_CLI_VALUE_TEXT:
		printf(" -x");
		break;
	case SNAP_CLI_VALUE_PID:
		printf(" -x -a '(__fish_complete_pids)'");
		break;
	case SNAP_CLI_VALUE_FILE:
		printf(" -r -F");
		break;
	case SNAP_CLI_VALUE_DIRECTORY:
		printf(" -x -a '(__fish_complete_directories)'");
		break;
	case SNAP_CLI_VALUE_WORD:
	case SNAP_CLI_VALUE_FORMAT:
		printf(" -x -a '");
		print_words(option, ' ');
		printf("'");
		break;
	case SNAP_CLI_VALUE_WORDS:
		printf(" -x -a '(__fish_append , ");
		print_words(option, ' ');
		printf(")'");
		break;
	}
	printf(" -d '");
	print_fish_text(option->help);
	printf("'\n");
}

static void print_fish(void)
{
	printf("# fish completion for stacksnap; made from its table of options\n"
	       "complete -c stacksnap -f -n 'not __fish_seen_subcommand_from render merge diff' "
	       "-a '(__fish_complete_pids)'\n"
	       "complete -c stacksnap -n '__fish_seen_subcommand_from render merge diff' -F\n");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++) {
		printf("complete -c stacksnap -f -n '__fish_use_subcommand' -a %s -d '",
		       verb->name);
		print_fish_text(verb->help);
		printf("'\n");
	}
	for (const struct snap_cli_option *option = snap_cli_options; option->name; option++)
		print_fish_option(option);
}

int main(int argc, char **argv)
{
	const char *shell = argc == 2 ? argv[1] : "";

	if (strcmp(shell, "bash") == 0)
		print_bash();
	else if (strcmp(shell, "zsh") == 0)
		print_zsh();
	else if (strcmp(shell, "fish") == 0)
		print_fish();
	else
		return 64;
	return fflush(stdout) == 0 ? 0 : 1;
}
