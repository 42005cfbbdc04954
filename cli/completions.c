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

/* The commands that take the option. */
static void print_verbs(const struct snap_cli_option *option, char separator)
{
	bool is_first = true;

	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++)
		if (option->commands & verb->command) {
			printf("%s%s", is_first ? "" : (char[]){ separator, '\0' }, verb->name);
			is_first = false;
		}
}

/* What is typed as the first word, or the pages of help. */
static void print_operands(bool pages)
{
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++)
		if (pages || snap_cli_verb_is_word(verb))
			printf("%s ", verb->name);
	if (pages)
		printf("options formats");
}

/* The commands whose operands are files. */
static void print_file_verbs(char separator)
{
	bool is_first = true;

	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++)
		if (verb->most_files && verb->command != SNAP_CLI_HELP) {
			printf("%s%s", is_first ? "" : (char[]){ separator, '\0' }, verb->name);
			is_first = false;
		}
}

/* Those that --help shows; the others work, too. */
static const struct snap_cli_option *next_shown(const struct snap_cli_option *option)
{
	while (option->name && !option->help)
		option++;
	return option;
}

#define FOR_EACH_SHOWN(option)                                                                  \
	for (const struct snap_cli_option *option = next_shown(snap_cli_options); option->name; \
	     option = next_shown(option + 1))

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

/* The options of each command, in a variable. */
static void print_bash_options(void)
{
	printf("\tcase $verb in\n");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++) {
		printf("\t%s) options='", verb->name);
		FOR_EACH_SHOWN(option)
		if (option->commands & verb->command)
			printf("--%s ", option->name);
		printf("' ;;\n");
	}
	printf("\tesac\n");
}

static void print_bash(void)
{
	printf("# bash completion for stacksnap; made from its table of options\n\n"
	       "_stacksnap_pids() {\n"
	       "\tcommand ps -e -o pid= 2>/dev/null\n"
	       "}\n\n"
	       "_stacksnap() {\n"
	       "\tlocal cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
	       "\tlocal word verb=snapshot options\n"
	       "\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
	       "\t\t[[ $word == --watch* ]] && verb=watch\n"
	       "\t\t[[ ' ");
	print_operands(false);
	printf("' == *\" $word \"* ]] && { verb=$word; break; }\n"
	       "\tdone\n"
	       "\tcase \"$prev\" in\n");
	FOR_EACH_SHOWN(option)
	print_bash_value(option);
	printf("\tesac\n");
	print_bash_options();
	printf("\tif [[ $cur == -* ]]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
	       "\telif [[ $verb == help ]]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W '");
	print_operands(true);
	printf("' -- \"$cur\"))\n"
	       "\telif [[ $verb == @(");
	print_file_verbs('|');
	printf(") ]]; then\n"
	       "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
	       "\telse\n"
	       "\t\t[[ $verb == snapshot ]] && options='");
	print_operands(false);
	printf("' || options=''\n"
	       "\t\tCOMPREPLY=($(compgen -W \"$options$(_stacksnap_pids)\" -- \"$cur\"))\n"
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
	printf("[[ $verb == (");
	print_verbs(option, '|');
	printf(") ]] && options+=(");
	if (option->letter)
		printf("'*'{-%c%s,--%s%s}'[", option->letter, option->argument ? "+" : "",
		       option->name, option->argument ? "=" : "");
	else
		printf("'*--%s%s[", option->name,
		       option->value == SNAP_CLI_VALUE_OPTIONAL ? "=-"
		       : option->argument                       ? "="
								: "");
	print_zsh_text(option->help);
	printf("]");
	print_zsh_value(option);
	printf("')\n");
}

static void print_zsh(void)
{
	printf("#compdef stacksnap\n"
	       "# zsh completion for stacksnap; made from its table of options\n\n"
	       "_stacksnap_operand() {\n"
	       "\tlocal -a verbs\n"
	       "\tcase $verb in\n"
	       "\thelp) compadd - ");
	print_operands(true);
	printf("; return ;;\n"
	       "\t");
	print_file_verbs('|');
	printf(") _files; return ;;\n"
	       "\tsnapshot) verbs=(\n");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++) {
		if (!snap_cli_verb_is_word(verb))
			continue;
		printf("\t\t'%s:", verb->name);
		print_zsh_text(verb->help);
		printf("'\n");
	}
	printf("\t) ;;\n"
	       "\tesac\n"
	       "\t_describe -t commands command verbs\n"
	       "\t_pids\n"
	       "}\n\n"
	       "local word verb=snapshot\n"
	       "local -a options\n"
	       "for word in ${words[2,CURRENT-1]}; do\n"
	       "\t[[ $word == --watch* ]] && verb=watch\n"
	       "\t[[ ' ");
	print_operands(false);
	printf("' == *\" $word \"* ]] && { verb=$word; break; }\n"
	       "done\n");
	FOR_EACH_SHOWN(option)
	print_zsh_option(option);
	printf("_arguments -s -S $options '*:target:_stacksnap_operand'\n");
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
	printf("complete -c stacksnap -n '__stacksnap_is ");
	print_verbs(option, ' ');
	printf("' -l %s", option->name);
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
	       "function __stacksnap_is\n"
	       "\tset -l verb snapshot\n"
	       "\tfor word in (commandline -opc)[2..]\n"
	       "\t\tstring match -q -- '--watch*' $word; and set verb watch\n"
	       "\t\tcontains -- $word ");
	print_operands(false);
	printf("; and set verb $word; and break\n"
	       "\tend\n"
	       "\tcontains -- $verb $argv\n"
	       "end\n"
	       "complete -c stacksnap -f -n 'not __stacksnap_is help ");
	print_file_verbs(' ');
	printf("' -a '(__fish_complete_pids)'\n"
	       "complete -c stacksnap -n '__stacksnap_is ");
	print_file_verbs(' ');
	printf("' -F\n"
	       "complete -c stacksnap -f -n '__stacksnap_is help' -a '");
	print_operands(true);
	printf("'\n");
	for (const struct snap_cli_verb *verb = snap_cli_verbs; verb->name; verb++) {
		if (!snap_cli_verb_is_word(verb))
			continue;
		printf("complete -c stacksnap -f -n '__stacksnap_is snapshot' -a %s -d '",
		       verb->name);
		print_fish_text(verb->help);
		printf("'\n");
	}
	FOR_EACH_SHOWN(option)
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
