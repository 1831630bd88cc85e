/* SPDX-License-Identifier: BSD-3-Clause */

/* The command weir: calls the subcommand, and checks that its output was
 * written. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/base.h>

#include "tool.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what;
} commands[] = {
	{ "bench", cmd_bench, "how fast it is here, beside what else is there" },
	{ "info", cmd_info, "what there is here, and why the rest is not used" },
	{ "route", cmd_route, "which way bytes go between two places, and why" },
	{ "top", cmd_top, "what the processes that use weir do" },
	{ "trace", cmd_trace, "the life of jobs, as a picture" },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int say(int status, const char *fmt, va_list ap)
{
	fputs("weir: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputs("\n", stderr);
	return status;
}

int usage_error(const char *fmt, ...)
{
	va_list ap;
	int status;

	va_start(ap, fmt);
	status = say(EXIT_USAGE, fmt, ap);
	va_end(ap);
	return status;
}

int failed(const char *fmt, ...)
{
	va_list ap;
	int status;

	va_start(ap, fmt);
	status = say(EXIT_FAILED, fmt, ap);
	va_end(ap);
	return status;
}

static int help(void)
{
	size_t i;

	puts("Usage: weir COMMAND [OPTION...]\n"
	     "       weir --help | --version\n"
	     "\n"
	     "Commands:");
	for (i = 0; i < N_COMMANDS; i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].what);
	puts("\n"
	     "weir COMMAND --help says more.  Exit status: 0, 1 for a\n"
	     "failure, 2 for a command line that makes no sense.");
	return EXIT_OK;
}

static int version(void)
{
	printf("weir %s\n", weir_version());
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	const char *name = argv[1];
	size_t i;

	if (argc < 2)
		return usage_error("no command; weir --help lists them");
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		return help();
	if (!strcmp(name, "--version"))
		return version();
	for (i = 0; i < N_COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	return usage_error("there is no %s '%s'; weir --help lists what there "
			   "is", *name == '-' ? "option" : "command", name);
}

int main(int argc, char **argv)
{
	int status;

	if (fcntl(STDOUT_FILENO, F_GETFD) < 0)
		return failed("standard output is closed");
	/* In one write, so that its error is known. */
	setvbuf(stdout, NULL, _IOFBF, 1 << 18);
	/* A closed pipe is an error like a full disk. */
	signal(SIGPIPE, SIG_IGN);
	status = run(argc, argv);
	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && status != EXIT_USAGE)
		return failed("cannot write to standard output: %s",
			      errno ? strerror(errno) : "a write failed");
	return status;
}
