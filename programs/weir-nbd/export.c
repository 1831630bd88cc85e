/* SPDX-License-Identifier: CC0-1.0 */
/* What is served, as clients see it: found, described, with its holes. */
#include "weir-nbd.h"

/* One descriptor serves all connections, so they see what each has flushed. */
#define FLAGS_ALWAYS (NBD_FLAG_HAS_FLAGS | NBD_FLAG_CAN_MULTI_CONN)

static const struct { uint32_t can; unsigned int flags; } offers[] = {
	{ BLOCK_CAN_FLUSH, NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA },
	{ BLOCK_CAN_TRIM, NBD_FLAG_SEND_TRIM },
	{ BLOCK_CAN_ZERO, NBD_FLAG_SEND_WRITE_ZEROES |
			  NBD_FLAG_SEND_FAST_ZERO },
	{ BLOCK_CAN_CACHE, NBD_FLAG_SEND_CACHE },
};

uint16_t export_flags(const struct block *b)
{
	unsigned int flags = FLAGS_ALWAYS;

	if (!(b->can & BLOCK_CAN_WRITE))
		flags |= NBD_FLAG_READ_ONLY;
	for (size_t i = 0; i < sizeof(offers) / sizeof(*offers); i++)
		if (b->can & offers[i].can)
			flags |= offers[i].flags;
	return (uint16_t)flags;
}

/* No name means the one that has none, or the only one. */
struct block *export_find(struct server *server, const void *name, size_t len)
{
	for (uint32_t i = 0; i < server->n_exports; i++) {
		struct block *b = &server->exports[i];

		if (strlen(b->name) == len && !memcmp(b->name, name, len))
			return b;
	}
	return !len && server->n_exports == 1 ? server->exports : NULL;
}

/* One more of a block status, as it will be sent; false: there is capacity for
 * no more. */
bool export_extent(struct block_io *io, uint64_t len, bool hole)
{
	struct request *rq = weir_container_of(io, struct request, io);
	uint8_t *p = rq->data + 8 * rq->extents;

	p = put32(p, (uint32_t)len);
	put32(p, hole ? NBD_STATE_HOLE | NBD_STATE_ZERO : 0);
	rq->extents++;
	return rq->extents < EXTENTS_MAX &&
	       !(rq->flags & NBD_CMD_FLAG_REQ_ONE);
}
