/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <string.h>

#include "base/opts.h"
#include "base/why.h"

/* No struct is so large: its .size was never set. */
#define CAPACITY_MAX 4096

void opts_take(void *dst, size_t known, const void *ret)
{
	size_t capacity;

	memset(dst, 0, known);
	memcpy(&capacity, ret, sizeof(capacity));
	memcpy(dst, ret, capacity < known ? capacity : known);
}

int opts_load(void *dst, size_t known, const void *src, const char *call)
{
	const unsigned char *bytes = src;
	size_t given;

	memset(dst, 0, known);
	if (!src)
		return 0;

	memcpy(&given, src, sizeof(given));
	if (given < sizeof(given) || given > CAPACITY_MAX)
		return why(-EINVAL, "%s: .size of the options is %zu; "
			   "set it to sizeof of the struct", call, given);
	for (size_t i = known; i < given; i++)
		if (bytes[i])
			return why(-E2BIG, "%s: an option at byte %zu is newer "
				   "than this library, which knows %zu bytes",
				   call, i, known);

	opts_take(dst, known, src);
	return 0;
}

int opts_capacity(const void *ret, const char *call)
{
	size_t capacity;

	memcpy(&capacity, ret, sizeof(capacity));
	if (capacity < sizeof(capacity) || capacity > CAPACITY_MAX)
		return why(-EINVAL,
			   "%s: .size of the result is %zu; set it to "
			   "sizeof of the struct",
			   call, capacity);
	return 0;
}

int opts_give(void *ret, const void *src, size_t known, const char *call)
{
	size_t capacity;
	int err = opts_capacity(ret, call);

	if (err)
		return err;
	memcpy(&capacity, ret, sizeof(capacity));
	if (capacity > known)
		memset((char *)ret + known, 0, capacity - known);
	memcpy(ret, src, capacity < known ? capacity : known);
	memcpy(ret, &capacity, sizeof(capacity));
	return 0;
}
