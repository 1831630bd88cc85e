/* SPDX-License-Identifier: CC0-1.0 */
/* Errors in command lines, in the same words for all programs; getopt_long() has
 * others in each libc. */
#include <stdio.h>
#include <string.h>

#include "option.h"

static const char *long_name(int c, const struct option *longs)
{
	while (longs->name && longs->val != c)
		longs++;
	return longs->name;
}

const char *option_wrong(char text[OPTION_TEXT], int c, char **argv,
			 const char *shorts, const struct option *longs)
{
	const char *name = optopt ? long_name(optopt, longs) : NULL;
	const char *word = argv[optind - 1];
	/* A letter that is known is wrong only by its value. */
	const char *what = c == ':' ? "wants a value" :
			   optopt && (name || strchr(shorts, optopt)) ?
				"takes no value" : "there is no such option";

	if (!optopt)
		snprintf(text, OPTION_TEXT, "%.60s: %s", word, what);
	else if (name && (optopt > 255 || !strncmp(word, "--", 2)))
		snprintf(text, OPTION_TEXT, "--%.60s: %s", name, what);
	else
		snprintf(text, OPTION_TEXT, "-%c: %s", optopt, what);
	return text;
}

void option_usage(const char *program, const char *fmt, va_list ap)
{
	fprintf(stderr, "%s: ", program);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "; try '%s --help'\n", program);
}
