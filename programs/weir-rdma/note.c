/* SPDX-License-Identifier: CC0-1.0 */
/* Messages: little-endian, of one form, and of a peer that may be hostile. */
#define _GNU_SOURCE 1
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "weir-rdma.h"

#define WIRE_VERSION 1u

/* As it goes over the wire.  The name, with its end, and the descriptor may
 * follow. */
struct head {
	uint32_t version_type;
	uint32_t slot;
	uint64_t off;
	uint32_t len, crc, mode, what;
	int32_t err;
	uint32_t reserved;
};

_Static_assert(sizeof(struct head) == NOTE_HEAD, "no holes");

size_t note_encode(const struct note *n, void *to, size_t capacity)
{
	struct head h = {
		.version_type = htole32(WIRE_VERSION << 16 | n->type),
		.slot = htole32(n->slot),
		.off = htole64(n->off),
		.len = htole32(n->len),
		.crc = htole32(n->crc),
		.mode = htole32(n->mode),
		.what = htole32(n->what),
		.err = (int32_t)htole32((uint32_t)n->err),
	};
	size_t name = n->name ? strlen(n->name) + 1 : 0;
	char *at = to;

	if (capacity < sizeof(h) + name + n->desc_len)
		return 0;
	memcpy(at, &h, sizeof(h));
	if (name)
		memcpy(at + sizeof(h), n->name, name);
	if (n->desc_len)
		memcpy(at + sizeof(h) + name, n->desc, n->desc_len);
	return sizeof(h) + name + n->desc_len;
}

/* What follows a HELLO: both are there, and the name has an end. */
static int decode_tail(struct note *n, const char *from, size_t len)
{
	const char *end = memchr(from, 0, len);

	if (!end || end == from || end - from >= (ptrdiff_t)NAME_BYTES)
		return -EPROTO;
	n->name = from;
	n->desc = end + 1;
	n->desc_len = len - (size_t)(end + 1 - from);
	return n->desc_len ? 0 : -EPROTO;
}

int note_decode(struct note *n, const void *from, size_t len)
{
	struct head h;

	memset(n, 0, sizeof(*n));
	if (len < sizeof(h))
		return -EPROTO;
	memcpy(&h, from, sizeof(h));
	if (le32toh(h.version_type) >> 16 != WIRE_VERSION)
		return -EPROTONOSUPPORT;
	n->type = le32toh(h.version_type) & 0xffff;
	n->slot = le32toh(h.slot);
	n->off = le64toh(h.off);
	n->len = le32toh(h.len);
	n->crc = le32toh(h.crc);
	n->mode = le32toh(h.mode);
	n->what = le32toh(h.what);
	n->err = (int32_t)le32toh((uint32_t)h.err);
	if (n->type == NOTE_HELLO)
		return decode_tail(n, (const char *)from + sizeof(h),
				   len - sizeof(h));
	return len == sizeof(h) ? 0 : -EPROTO;
}
