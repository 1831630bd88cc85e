/* SPDX-License-Identifier: CC0-1.0 */
#ifndef COMMON_OPTION_H
#define COMMON_OPTION_H

#include <getopt.h>
#include <stdarg.h>

#define OPTION_TEXT 128

/*
 * What is wrong with the option for which getopt_long() has returned @c, which
 * is '?' or ':' (@shorts begins with ':'), and which one it is.  Returns @text.
 */
const char *option_wrong(char text[OPTION_TEXT], int c, char **argv,
			 const char *shorts, const struct option *longs);

/* Report an error in the command line of @program on standard error. */
void option_usage(const char *program, const char *fmt, va_list ap);

#endif /* COMMON_OPTION_H */
