/* SPDX-License-Identifier: CC0-1.0 */
/* Requests: parsed, checked, given to their export, and answered. */
#include <errno.h>

#include "weir-nbd.h"

/* Flags that make sense with a command; FUA does with all. */
static const uint16_t flags_of[NBD_CMDS] = {
	[NBD_CMD_READ] = NBD_CMD_FLAG_DF,
	[NBD_CMD_WRITE_ZEROES] = NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO,
	[NBD_CMD_BLOCK_STATUS] = NBD_CMD_FLAG_REQ_ONE,
};

static const uint8_t kind_of[NBD_CMDS] = {
	[NBD_CMD_READ] = BLOCK_READ,
	[NBD_CMD_WRITE] = BLOCK_WRITE,
	[NBD_CMD_FLUSH] = BLOCK_FLUSH,
	[NBD_CMD_TRIM] = BLOCK_TRIM,
	[NBD_CMD_CACHE] = BLOCK_CACHE,
	[NBD_CMD_WRITE_ZEROES] = BLOCK_ZERO,
	[NBD_CMD_BLOCK_STATUS] = BLOCK_STATUS,
};

/* What the export must be able to do. */
static const uint32_t offer_of[NBD_CMDS] = {
	[NBD_CMD_FLUSH] = BLOCK_CAN_FLUSH,
	[NBD_CMD_TRIM] = BLOCK_CAN_TRIM,
	[NBD_CMD_CACHE] = BLOCK_CAN_CACHE,
	[NBD_CMD_WRITE_ZEROES] = BLOCK_CAN_ZERO,
};

static bool changes(uint16_t type)
{
	return type == NBD_CMD_WRITE || type == NBD_CMD_TRIM ||
	       type == NBD_CMD_WRITE_ZEROES;
}

static uint32_t smaller(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

static void on_io(struct block_io *io, int64_t res)
{
	request_done(weir_container_of(io, struct request, io), res);
}

void request_init(struct request *rq, struct conn *c)
{
	rq->conn = c;
	rq->io.queue = &c->queue;
	rq->io.fn = on_io;
	rq->io.iov = &rq->v;
	rq->io.n_iov = 1;
	rq->io.extent = export_extent;
	rq->cell = -1;
	rq->next = c->free;
	c->free = rq;
}

static void request_free(struct request *rq)
{
	struct conn *c = rq->conn;

	if (rq->cell >= 0)
		cells_give(&c->cells, (uint32_t)rq->cell, rq->n_cells);
	rq->cell = -1;
	rq->next = c->free;
	c->free = rq;
	c->used--;
}

/* The protocol has its own numbers, and few of them. */
uint32_t nbd_error(int64_t err)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
	case -EROFS:
		return NBD_EPERM;
	case -ENOMEM:
		return NBD_ENOMEM;
	case -EINVAL:
		return NBD_EINVAL;
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return NBD_ENOSPC;
	case -EOPNOTSUPP:
		return NBD_ENOTSUP;
	case -ESHUTDOWN:
	case -ECANCELED:
		return NBD_ESHUTDOWN;
	default:
		return NBD_EIO;
	}
}

static bool is_offered(const struct request *rq)
{
	uint32_t wanted = offer_of[rq->type];

	if (rq->flags & NBD_CMD_FLAG_FUA)
		wanted |= BLOCK_CAN_FLUSH;
	return !(wanted & ~rq->conn->export->can);
}

static uint32_t check_range(const struct request *rq)
{
	const struct block *x = rq->conn->export;

	if (!rq->len)
		return NBD_EINVAL;
	if (rq->off > x->size || rq->len > x->size - rq->off)
		return rq->type == NBD_CMD_WRITE ||
		       rq->type == NBD_CMD_WRITE_ZEROES ? NBD_ENOSPC :
							  NBD_EINVAL;
	if ((rq->off | rq->len) & (x->block_min - 1))
		return NBD_EINVAL;
	return 0;
}

static uint32_t check_size(const struct request *rq)
{
	bool structured = rq->conn->structured;

	if (rq->type == NBD_CMD_WRITE && rq->len > PAYLOAD_MAX)
		return NBD_EINVAL;
	if (rq->type != NBD_CMD_READ)
		return 0;
	if (rq->len > PAYLOAD_MAX)
		return structured ? NBD_EOVERFLOW : NBD_EINVAL;
	if (rq->flags & NBD_CMD_FLAG_DF && rq->len > PIECE)
		return NBD_EOVERFLOW;
	return 0;
}

/* Returns 0, or what the client is to be told. */
static uint32_t check(const struct request *rq)
{
	const struct conn *c = rq->conn;
	uint32_t error;

	if (c->stopping)
		return NBD_ESHUTDOWN;
	if (rq->type >= NBD_CMDS ||
	    rq->flags & ~(flags_of[rq->type] | NBD_CMD_FLAG_FUA))
		return NBD_EINVAL;
	if (rq->flags & NBD_CMD_FLAG_DF && !c->structured)
		return NBD_EINVAL;
	if (rq->type == NBD_CMD_BLOCK_STATUS && !c->status)
		return NBD_EINVAL;
	if (changes(rq->type) && c->export->read_only)
		return NBD_EPERM;
	if (!is_offered(rq))
		return NBD_EINVAL;
	if (rq->type == NBD_CMD_FLUSH)
		return rq->off || rq->len ? NBD_EINVAL : 0;
	error = check_range(rq);
	return error ? error : check_size(rq);
}

/* The bytes that are due next, and where they are. */
static void next_piece(struct request *rq)
{
	const struct block *x = rq->conn->export;
	bool moves = rq->type == NBD_CMD_READ || rq->type == NBD_CMD_WRITE;

	rq->piece = rq->len - rq->done;
	if (moves)
		rq->piece = smaller(rq->piece, PIECE);
	rq->got = 0;
	if (moves && x->base)
		rq->data = x->base + rq->off + rq->done;
}

/* Where its bytes go; false: there is no capacity now. */
static bool place(struct request *rq)
{
	struct conn *c = rq->conn;

	next_piece(rq);
	rq->n_cells = 0;
	if (rq->type == NBD_CMD_BLOCK_STATUS)
		rq->n_cells = 1;
	else if ((rq->type == NBD_CMD_READ || rq->type == NBD_CMD_WRITE) &&
		 !c->export->base)
		rq->n_cells = (rq->piece + CELL - 1) / CELL;
	if (!rq->n_cells)
		return true;
	rq->cell = cells_take(&c->cells, rq->n_cells);
	if (rq->cell < 0)
		return false;
	rq->data = c->cell_base + (uint32_t)rq->cell * CELL;
	return true;
}

/* Memory is sent from and received into, so there is nothing to move. */
static bool is_in_place(const struct request *rq)
{
	return rq->conn->export->base && (rq->type == NBD_CMD_READ ||
					  rq->type == NBD_CMD_WRITE);
}

static void run_in_place(struct request *rq)
{
	const struct block *b = rq->conn->export;
	uint64_t off = rq->off + rq->done;

	if (rq->type == NBD_CMD_READ)
		rq->data = (uint8_t *)block_peek(b, off, rq->piece);
	else
		block_expect(b, off, rq->piece);
	request_done(rq, 0);
}

static uint8_t io_flags(const struct request *rq)
{
	const struct block *x = rq->conn->export;
	bool last = rq->done + rq->piece == rq->len;
	unsigned int flags = 0;

	if (rq->flags & NBD_CMD_FLAG_FUA && (last || block_fua_is_own(x)))
		flags |= BLOCK_FUA;
	if (rq->flags & NBD_CMD_FLAG_NO_HOLE)
		flags |= BLOCK_NO_HOLE;
	if (rq->flags & NBD_CMD_FLAG_FAST_ZERO)
		flags |= BLOCK_FAST;
	return (uint8_t)flags;
}

static void run(struct request *rq)
{
	struct block_io *io = &rq->io;
	int64_t res;

	if (is_in_place(rq)) {
		run_in_place(rq);
		return;
	}
	rq->v = (struct iovec){ rq->data, rq->piece };
	rq->extents = 0;
	io->kind = kind_of[rq->type];
	io->flags = io_flags(rq);
	io->off = rq->off + rq->done;
	io->len = rq->piece;
	res = block_submit(io);
	if (res != BLOCK_LATER)
		request_done(rq, res);
}

static void read_header(struct request *rq, const uint8_t *p)
{
	rq->flags = get16(p + 4);
	rq->type = get16(p + 6);
	rq->cookie = get64(p + 8);
	rq->off = get64(p + 16);
	rq->len = get32(p + 24);
	rq->done = 0;
	rq->piece = 0;
	rq->error = 0;
}

static void begin(struct request *rq, uint32_t error)
{
	struct conn *c = rq->conn;

	c->used++;
	c->half_ends_ns = 0;
	c->head += NBD_REQUEST_BYTES;
	if (rq->type < NBD_CMDS)
		c->core->counts.requests[rq->type]++;
	if (rq->type == NBD_CMD_WRITE)
		c->filling = rq;
	if (error)
		request_end(rq, error);
	else if (rq->type != NBD_CMD_WRITE)
		run(rq);
}

static bool take_header(struct conn *c)
{
	const uint8_t *p = c->rx + c->head;
	struct request *rq = c->free;
	uint32_t error;

	if (c->tail - c->head < NBD_REQUEST_BYTES)
		return false;
	if (get32(p) != NBD_REQUEST_MAGIC) {
		conn_drop(c);
		return false;
	}
	if (get16(p + 6) == NBD_CMD_DISC) {
		conn_end(c);
		return false;
	}
	c->blocked = !rq;
	if (!rq)
		return false;
	read_header(rq, p);
	error = check(rq);
	c->blocked = !error && !place(rq);
	if (c->blocked)
		return false;
	c->free = rq->next;
	rq->next = NULL;
	begin(rq, error);
	return true;
}

static bool take_data(struct conn *c)
{
	struct request *rq = c->filling;
	uint32_t n = smaller(c->tail - c->head, rq->piece - rq->got);

	/* A piece that is complete is being written. */
	c->blocked = rq->running;
	if (c->blocked)
		return false;
	if (c->export->base && n)
		block_expect(c->export, rq->off + rq->done + rq->got, n);
	memcpy(rq->data + rq->got, c->rx + c->head, n);
	c->head += n;
	rq->got += n;
	if (rq->got < rq->piece)
		return false;
	if (rq->done + rq->piece == rq->len)
		c->filling = NULL;
	rq->running = true;
	c->half_ends_ns = 0;
	run(rq);
	return true;
}

/* Returns whether something was done, and more may be. */
bool request_parse(struct conn *c)
{
	return c->filling ? take_data(c) : take_header(c);
}

/* The end of @rq, but for its reply.  Clients do not expect one before they
 * have sent all of their data: what is missing is skipped first. */
void request_end(struct request *rq, uint32_t error)
{
	struct conn *c = rq->conn;

	rq->error = error;
	if (error)
		c->core->counts.errors++;
	if (c->filling == rq) {
		c->skip = rq->len - rq->done - rq->piece;
		c->filling = NULL;
		c->refused = rq;
	} else {
		reply_queue(rq);
	}
}

/* The piece that was due is done, well or badly. */
void request_done(struct request *rq, int64_t res)
{
	rq->running = false;
	if (rq->conn->state == CLOSING) {
		request_free(rq);
		return;
	}
	if (res >= 0 && (rq->type == NBD_CMD_READ ||
			 rq->type == NBD_CMD_BLOCK_STATUS)) {
		reply_queue(rq);
		return;
	}
	if (res >= 0) {
		rq->done += rq->piece;
		rq->piece = 0;
	}
	/* More of a write, which is to be received first. */
	if (res >= 0 && rq->done < rq->len)
		next_piece(rq);
	else
		request_end(rq, res < 0 ? nbd_error(res) : 0);
}

/* Its reply is sent: of a long read, that of a piece. */
void request_sent(struct request *rq)
{
	if (rq->type == NBD_CMD_READ && !rq->error) {
		rq->done += rq->piece;
		rq->conn->core->counts.read += rq->piece;
		if (rq->done < rq->len) {
			next_piece(rq);
			run(rq);
			return;
		}
	} else if (rq->type == NBD_CMD_WRITE && !rq->error) {
		rq->conn->core->counts.written += rq->len;
	}
	request_free(rq);
}
