/* SPDX-License-Identifier: CC0-1.0 */
#ifndef BLOCK_H
#define BLOCK_H

/*
 * What front ends serve: files, block devices, memory, and what plugins bring.
 * README.md says how it is built.
 *
 *	block_parse(), block_open()	what a command line names
 *	block_core_begin()		on each reactor that is to reach it
 *	block_queue_begin()		for each client, or queue of one
 *	block_submit() ...		requests, on the queue's reactor
 *	block_queue_end(), block_core_end(), block_close()
 *
 * A block is not changed while it is served, but for what is atomic and for
 * block_measure().
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weir/op.h>
#include <weir/reactor.h>

#include "plugin.h"

struct weir_dma;
struct weir_inventory;
struct weir_job;

/* Bounds. */
#define BLOCK_MIN_MAX 4096u	/* Of .block_min. */
#define BLOCK_TEXT_MAX 255u	/* Bytes of a name, a description. */
#define BLOCK_PIECE (256u << 10) /* Of zeroes that are written at once, */
#define BLOCK_SLICE (8u << 20)	/* and of a trim, and what else moves none. */
#define BLOCKS_MAX 64u		/* Of a core. */

/* What can be asked for. */
#define BLOCK_CAN_WRITE 1u
#define BLOCK_CAN_FLUSH 2u	/* And BLOCK_FUA. */
#define BLOCK_CAN_TRIM 4u
#define BLOCK_CAN_ZERO 8u
#define BLOCK_CAN_CACHE 16u

struct block_io;
struct backing;

/* What a shared object brings. */
struct plugin {
	const char *path;	/* NULL: there is none. */
	const char *args;
	void *handle;		/* Of the loader. */
	struct nbd_plugin fns;
	struct nbd_plugin_export brought;
	bool open;
};

struct block {
	const char *program;	/* Messages begin with it. */
	const char *name;
	const char *path;	/* NULL: memory, or a plugin's. */
	const char *text;	/* A description, for people. */
	bool read_only, direct;
	const struct backing *backing;
	uint64_t size;
	uint32_t block_min;	/* Requests are multiples of it. */
	uint32_t can;		/* BLOCK_CAN_ */
	int fd;			/* -1: none. */
	int durable_fd;		/* The same file, opened by O_DSYNC. */
	_Atomic int lost;	/* How a flush failed: none succeeds then. */
	_Atomic bool truncated;	/* The file was, and it was said. */
	const char *why;	/* It cannot be opened; NULL: the errno says. */
	uint8_t *base;		/* Of memory, else NULL; */
	_Atomic uint64_t *used;	/* and a bit for each of its blocks. */
	struct plugin plugin;
};

/*
 * Parse @arg, as [name=NAME,]path=PATH[,ro][,direct]; it is cut to pieces,
 * which stay in use.  @usage says on stderr what is wrong.  Returns 0 or -1.
 */
int block_parse(struct block *b, const char *program, char *arg,
		void (*usage)(const char *fmt, ...));

/*
 * The same for an argument that is no option: what does not begin with one of
 * these words and a = is the path of a file, with all its commas.
 */
int block_parse_operand(struct block *b, const char *program, char *arg,
			void (*usage)(const char *fmt, ...));

/*
 * Open it; may block.  Call block_close() in any case.  Returns 0, or an errno,
 * which block_why() explains:
 *   -ENOTBLK  it is neither a file nor a block device
 *   -ESTALE   the name became that of another file meanwhile
 *   -ENOMEM   no memory
 *   others    those of open(2), of mmap(2), or of the plugin
 */
int block_open(struct block *b);
void block_close(struct block *b);
const char *block_why(const struct block *b, int err);

/* Where its bytes are, for messages. */
const char *block_title(const struct block *b);

/*
 * Measure it again: a file may have been made longer, or shorter.  When nothing
 * is submitted at that moment by another core.  Returns 1: .size has changed,
 * 0, or an errno.
 */
int block_measure(struct block *b);

/* Whether BLOCK_FUA makes only that request durable, and not all that were done
 * before it: then each piece of a larger one needs it. */
static inline bool block_fua_is_own(const struct block *b)
{
	return b->durable_fd >= 0;
}

/*
 * Flush: @op completes when all that was written before is durable, with 0 or an
 * errno of fsync(2) or the plugin.  Returns 0 if it was started, or an errno:
 *   -EOPNOTSUPP  it is memory, which is not durable
 *   others       those of weir_fsync(), or of the plugin
 */
int block_sync(const struct block *b, struct weir_reactor *r,
	       struct weir_op *op);

/*
 * Of memory (.base is not NULL) front ends may use the bytes themselves.
 * block_peek() returns @len bytes at @off, for reading.  If nothing was ever
 * written there, it returns zeroes; @len is then at most BLOCK_PIECE.
 * Call block_expect() before bytes are written through .base, and again
 * afterwards.
 */
const uint8_t *block_peek(const struct block *b, uint64_t off, uint32_t len);
void block_expect(const struct block *b, uint64_t off, uint64_t len);

/* What a reactor needs to reach blocks. */
struct block_core {
	struct weir_reactor *reactor;
	struct block *blocks;
	uint32_t n_blocks;
	struct weir_dma *dma;		/* For plugins: where jobs run, */
	struct weir_inventory *inventory; /* and bufs of their mmaps. */
};

/* To reach @n blocks by @ios requests at a time.  Call block_core_end() in any
 * case.  Returns 0, -ENOMEM, or for plugins an errno of weir_dma_create(). */
int block_core_begin(struct block_core *core, struct weir_reactor *r,
		     struct block *blocks, uint32_t n, uint32_t ios);
void block_core_end(struct block_core *core);

/*
 * Requests of one client, @depth at a time.  Small writes to files are gathered
 * until block_queue_kick(), and a worker does them together.
 */
struct block_queue {
	struct block *block;
	struct block_core *core;
	uint32_t busy;		/* Operations in flight. */
	bool cancelled;
	void (*settled)(struct block_queue *q);
	struct block_io *slow, **slow_end; /* The first one runs. */
	struct weir_op batch_op;
	struct block_io *batch;		/* It is being written. */
	struct block_io *gathered, **gathered_end;
	struct weir_job *jobs;		/* Of a plugin's block. */
	uint32_t n_jobs;
	struct weir_job **free_jobs;
	uint32_t n_free_jobs;
};

/*
 * Begin with nothing in flight.  Each operation that ends calls the .fn of one
 * request or of several, and then @settled, which may free the queue if .busy
 * is 0.  Returns 0 or -ENOMEM.
 */
int block_queue_begin(struct block_queue *q, struct block *b,
		      struct block_core *core, uint32_t depth,
		      void (*settled)(struct block_queue *q));

/* .busy is 0. */
void block_queue_end(struct block_queue *q);

/* Write what was gathered, unless the last batch is still being written: then
 * call it again after .settled of that.  If no worker can be had, or the queue
 * was cancelled, it calls .fn of the requests itself. */
void block_queue_kick(struct block_queue *q);

/* The answers are not wanted any more: what can be cancelled is, and what was
 * not begun ends with -ECANCELED.  What is in flight still ends by itself. */
void block_queue_cancel(struct block_queue *q);

enum block_kind { BLOCK_READ, BLOCK_WRITE, BLOCK_FLUSH, BLOCK_TRIM, BLOCK_CACHE,
		  BLOCK_ZERO, BLOCK_STATUS };

/* What of .can a request of @kind takes. */
static inline uint32_t block_needs(uint8_t kind)
{
	switch (kind) {
	case BLOCK_WRITE:
		return BLOCK_CAN_WRITE;
	case BLOCK_FLUSH:
		return BLOCK_CAN_FLUSH;
	case BLOCK_TRIM:
		return BLOCK_CAN_TRIM;
	case BLOCK_CACHE:
		return BLOCK_CAN_CACHE;
	case BLOCK_ZERO:
		return BLOCK_CAN_ZERO;
	default:
		return 0;
	}
}

/* Flags of a request. */
#define BLOCK_FUA 1u	/* What it changes is durable when it ends. */
#define BLOCK_NO_HOLE 2u	/* Zeroes are allocated. */
#define BLOCK_FAST 4u	/* -EOPNOTSUPP rather than write zeroes. */

/* @res: 0 or an errno. */
typedef void block_io_fn(struct block_io *io, int64_t res);

/* @len bytes are a hole or data; false: no more is needed.  Any thread. */
typedef bool block_extent_fn(struct block_io *io, uint64_t len, bool hole);

/* A request, which the caller embeds in its own. */
struct block_io {
	struct weir_op op;
	struct block_queue *queue;
	block_io_fn *fn;
	uint64_t off, len;	/* In the block, and multiples of .block_min. */
	const struct iovec *iov; /* Of a read or a write, of .len bytes. */
	uint32_t n_iov;		/* Up to IOV_MAX. */
	uint8_t kind, flags;
	block_extent_fn *extent; /* Of BLOCK_STATUS. */

	/* The layer's. */
	bool by_hand;		/* Zeroes are written, piece by piece. */
	bool flushing;		/* All is written, and is to be durable. */
	bool durable;		/* It is when it is written. */
	uint32_t piece;		/* Bytes of the slice that is due, */
	uint64_t done;		/* and of those before it. */
	int64_t res;		/* Of a write in a batch. */
	struct block_io *next;
	struct weir_job *job;
};

#define BLOCK_LATER 1

/*
 * Do @io, of which the first part is filled in.  The caller has checked range,
 * alignment and .can.
 *
 * Returns 0: it is done; an errno: it has failed; or BLOCK_LATER: .fn will be
 * called once, from the reactor's turn, and until then .iov and its memory are
 * the layer's.  Trims, zeroes and hints of a queue are done one after the
 * other, slice by slice, so that a worker is never busy with one for long.
 *
 * It fails, at once or by .fn, with
 *   -ECANCELED   block_queue_cancel() was called
 *   -EOPNOTSUPP  BLOCK_FAST, and zeroes would have to be written
 *   -EIO         the file has become shorter, or what the file system says
 *   -ENOMEM      no memory for the operation
 *   others       those of the system's call, or of the plugin's domain
 * After a flush that has failed none succeeds, as it is unknown what is lost:
 * each fails with that errno.
 */
int64_t block_submit(struct block_io *io);

#endif /* BLOCK_H */
