/* SPDX-License-Identifier: CC0-1.0 */
#ifndef BLOCK_BACKING_H
#define BLOCK_BACKING_H

/* What the parts of the layer have in common; front ends need block.h. */

#include <errno.h>
#include <string.h>

#include "block.h"

/*
 * How a block does a request, or the slice of it that is due: at io->off +
 * io->done, io->piece bytes.  Each returns as block_submit() does, and after
 * BLOCK_LATER ends by block_ended().
 */
struct backing {
	int64_t (*read)(struct block_io *io);
	int64_t (*write)(struct block_io *io);
	int64_t (*flush)(struct block_io *io);
	int64_t (*trim)(struct block_io *io);
	int64_t (*cache)(struct block_io *io);
	int64_t (*zero)(struct block_io *io);
	int64_t (*status)(struct block_io *io);
};

extern const struct backing domain_backing, file_backing, memory_backing;
extern uint8_t zeroes[BLOCK_PIECE];

/* submit.c: @err is that of a start. */
int64_t block_started(struct block_io *io, int err);
void block_ended(struct block_io *io, int64_t res);
void block_on_op(struct weir_op *op, int64_t res);
int64_t block_work(struct block_io *io, int64_t (*fn)(void *io));
void block_done(struct block_io *io, int64_t res);

/* Of a flush: what was written before may be lost.  The kernel has many errors
 * for that, so these are the ones by which a flush was not begun, or was not
 * wanted any more. */
static inline bool block_is_loss(int64_t res)
{
	return res < 0 && res != -EAGAIN && res != -ENOMEM && res != -EINVAL &&
	       res != -EOPNOTSUPP && res != -ECANCELED && res != -ESHUTDOWN;
}

/* batch.c */
bool batch_wants(const struct block_io *io);
int64_t batch_add(struct block_io *io);

/* memory.c */
int memory_open(struct block *b);
void memory_close(struct block *b);
bool memory_in_use(const struct block *b, uint64_t chunk);
#define MEMORY_BLOCK (64u << 10)

/* plugin.c */
int plugin_open(struct block *b);
void plugin_close(struct block *b);

/* domain.c */
int domain_queue_begin(struct block_queue *q, uint32_t depth);
void domain_cancel(struct block_queue *q);

/* status.c */
int64_t status_work(void *io);	/* On a worker. */
int64_t memory_status(struct block_io *io);
int64_t plain_status(struct block_io *io);

#endif /* BLOCK_BACKING_H */
