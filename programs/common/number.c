/* SPDX-License-Identifier: CC0-1.0 */
/* Numbers on command lines. */
#include "number.h"

#include <errno.h>
#include <stdlib.h>

/* Of a unit: how far to the left it moves a number; 0: it is none. */
static int shift_of(char unit)
{
	switch (unit) {
	case 'k':
	case 'K':
		return 10;
	case 'm':
	case 'M':
		return 20;
	case 'g':
	case 'G':
		return 30;
	case 't':
	case 'T':
		return 40;
	default:
		return 0;
	}
}

static int parse(const char *text, int with_unit, uint64_t min, uint64_t max,
		 uint64_t *ret)
{
	unsigned long long n;
	int shift;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	shift = with_unit ? shift_of(*end) : 0;
	end += shift != 0;
	/* strtoull() takes blanks and signs, too. */
	if (errno || *text < '0' || *text > '9' || *end)
		return -1;
	if (n > max >> shift || n << shift < min)
		return -1;
	*ret = (uint64_t)n << shift;
	return 0;
}

int number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	return parse(text, 0, min, max, ret);
}

int size_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	return parse(text, 1, min, max, ret);
}
