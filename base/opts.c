/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <string.h>

#include "base/opts.h"
#include "base/why.h"

/* No struct is so large: its .size was never set. */
#define ROOM_MAX 4096

void opts_take(void *dst, size_t known, const void *ret)
{
	size_t room;

	memset(dst, 0, known);
	memcpy(&room, ret, sizeof(room));
	memcpy(dst, ret, room < known ? room : known);
}

int opts_load(void *dst, size_t known, const void *src, const char *call)
{
	const unsigned char *bytes = src;
	size_t given;

	memset(dst, 0, known);
	if (!src)
		return 0;

	memcpy(&given, src, sizeof(given));
	if (given < sizeof(given) || given > ROOM_MAX)
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

int opts_room(const void *ret, const char *call)
{
	size_t room;

	memcpy(&room, ret, sizeof(room));
	if (room < sizeof(room) || room > ROOM_MAX)
		return why(-EINVAL, "%s: .size of the result is %zu; set it to "
			   "sizeof of the struct", call, room);
	return 0;
}

int opts_give(void *ret, const void *src, size_t known, const char *call)
{
	size_t room;
	int err = opts_room(ret, call);

	if (err)
		return err;
	memcpy(&room, ret, sizeof(room));
	if (room > known)
		memset((char *)ret + known, 0, room - known);
	memcpy(ret, src, room < known ? room : known);
	memcpy(ret, &room, sizeof(room));
	return 0;
}
