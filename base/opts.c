/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <string.h>

#include "base/opts.h"
#include "base/why.h"

int opts_load(void *dst, size_t known, const void *src, const char *call)
{
	const unsigned char *bytes = src;
	size_t given;

	memset(dst, 0, known);
	if (!src)
		return 0;

	memcpy(&given, src, sizeof(given));
	if (given < sizeof(given))
		return why(-EINVAL, "%s: .size of the options is %zu; "
			   "set it to sizeof of the struct", call, given);
	for (size_t i = known; i < given; i++)
		if (bytes[i])
			return why(-E2BIG, "%s: an option at byte %zu is newer "
				   "than this library, which knows %zu bytes",
				   call, i, known);

	memcpy(dst, src, given < known ? given : known);
	return 0;
}
