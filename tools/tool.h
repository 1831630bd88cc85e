/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

/*
 * The command `weir`: a subcommand is a file with one function, and a line in
 * the table of weir.c.
 */

/* Exit statuses.  A subcommand returns one of them. */
#define EXIT_OK 0
#define EXIT_FAILED 1	/* What was asked for could not be done. */
#define EXIT_USAGE 2	/* The command line makes no sense; nothing done. */

int cmd_bench(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_route(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_trace(int argc, char **argv);

/* Report an error in the command line on standard error.  Returns
 * EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int usage_error(const char *fmt, ...);

/* The same for any other error.  Returns EXIT_FAILED. */
__attribute__((format(printf, 1, 2))) int failed(const char *fmt, ...);

#endif /* TOOLS_TOOL_H */
