/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffered streams over a transport.
 *
 *	read:  transport --in_op--> input buffer --> the caller's
 *	write: the caller's --> output buffer, a ring --out_op--> transport
 *
 * One receive and one operation of the writing direction are in flight at a
 * time.  They are the stream's own, so an operation of the caller's that only
 * waits can leave at any time: what arrives later is in the buffer.  Two cases
 * are bound to them, and wait for their end: bytes that go directly from or to
 * the caller's memory because there are many, and the steps of a file or a
 * shutdown.
 *
 * Operations of the caller's end by op_complete(), so no callback runs in here;
 * but a transport's functions may be the user's, and call anything.
 */

#include <weir/stream.h>

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "reactor/io.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

#define IN_SIZE ((size_t)16 << 10)
#define OUT_SIZE ((size_t)64 << 10)
#define FILE_STEP ((uint64_t)1 << 20)	/* By one sendfile(2), in a turn. */
#define FILE_SMALL ((uint64_t)32 << 10)	/* Cheaper to copy, with what precedes. */

enum kind { READ, EXACT, UNTIL, WRITE, FLUSH, SHUT, SENDFILE, PIPE };

/* What out_op is doing. */
enum step { SENDS, POLLS, READS_FILE, PAUSES, SHUTS };

/* An operation of the caller's: the parameters in its op->u. */
struct req {
	struct weir_stream *s;
	union {
		uint8_t *buf;
		const struct iovec *iov;
		struct weir_stream *from;	/* PIPE; NULL: it has ended. */
	};
	uint64_t len;			/* In all. */
	uint64_t done;
	union {
		const void *delim;
		uint64_t off;		/* SENDFILE: of the first byte. */
	};
	union {
		uint64_t delim_len;
		uint64_t seg_off;	/* Into the piece .seg. */
	};
	uint32_t seg, n;		/* n pieces; 0: .buf is the only one. */
	int32_t fd;
	uint8_t kind, flags;
	bool has_pages;			/* SENDFILE: sendfile(2) is possible. */
} __attribute__((may_alias));

_Static_assert(sizeof(struct req) <= sizeof(((struct weir_op *)0)->u),
	       "it is in the operation");

/* The transport of weir_stream_create_fd(). */
struct fds {
	struct weir_reactor *reactor;
	int in, out;
	bool in_socket, out_socket;
	bool keep;
};

struct weir_stream {
	struct reactor_obj obj;
	struct weir_reactor *reactor;
	struct weir_stream_ops ops;
	void *arg;

	uint8_t *in;			/* in_len bytes from in_head on. */
	size_t in_size, in_head, in_len;
	size_t scanned;			/* Without the delimiter of the reader. */
	struct weir_op *reader;		/* The read in flight, or NULL. */
	struct weir_op in_op;
	bool in_busy;
	bool in_direct;			/* It receives into the reader's memory. */
	bool in_ended;
	int in_err;

	uint8_t *out;			/* A ring: out_len bytes from out_head. */
	size_t out_size, out_head, out_len, out_low;
	struct op_queue writers;
	struct weir_op out_op;
	struct iovec iov[3];		/* What it sends: */
	size_t sends_ring;		/* so many bytes of the ring, */
	size_t sends_direct;		/* and of the first writer. */
	enum step step;
	bool out_busy;
	bool blocked;			/* Until out_low is reached. */
	bool hold;			/* WEIR_STREAM_MORE */
	bool shut;			/* The transport was. */
	unsigned int n_shut;		/* SHUT in .writers. */
	int out_err;

	bool closing, close_begun, own_bufs;
	struct weir_op *closer;		/* NULL: no callback. */
	int close_err;

	struct fds fds;
	void *memory;
};

static void out_run(struct weir_stream *s);
static void end_pipe(struct weir_stream *s, struct weir_op *op, int64_t res,
		     int side);
static void close_run(struct weir_stream *s);

static struct req *req_of(struct weir_op *op)
{
	return (struct req *)(void *)&op->u;
}

static void end(struct weir_op *op, int64_t res)
{
	op->detail.bytes = req_of(op)->done;
	op_complete(op, res);
}

/* A result that is no property of the stream: it can go on. */
static bool is_passing(int64_t res)
{
	return res == -ECANCELED || res == -ESHUTDOWN || res == -EAGAIN;
}

/*
 * in_op and out_op have capacity of their own, for what waits for them has been
 * admitted already.
 */
static void own_begins(struct weir_stream *s, bool *busy)
{
	debug_check(!*busy);
	*busy = true;
	reactor_reserve(s->reactor, 1);
}

static void own_ends(struct weir_stream *s, bool *busy)
{
	debug_check(*busy);
	*busy = false;
	reactor_reserve(s->reactor, -1);
}

/* ---- Reading ---- */

static void take(struct weir_stream *s, size_t n)
{
	debug_check(n <= s->in_len);
	s->in_head += n;
	s->in_len -= n;
	s->scanned = 0;
}

static void take_to(struct weir_stream *s, struct req *rq, size_t n)
{
	if (!rq->buf || !n)
		return;
	memcpy(rq->buf + rq->done, s->in + s->in_head, n);
	take(s, n);
	rq->done += n;
}

static size_t least(uint64_t a, uint64_t b)
{
	return (size_t)(a < b ? a : b);
}

/*
 * The three kinds of reads: each returns whether it has its result in *@res.
 * Without one, and after the end or an error, the caller decides.
 */
static bool try_some(struct weir_stream *s, struct req *rq, int64_t *res)
{
	if (!s->in_len)
		return false;
	*res = (int64_t)(rq->buf ? least(rq->len, s->in_len) : s->in_len);
	take_to(s, rq, (size_t)*res);
	return true;
}

static bool try_exact(struct weir_stream *s, struct req *rq, int64_t *res)
{
	uint64_t left = rq->len - rq->done;

	if (s->in_len >= left || rq->len > s->in_size)
		take_to(s, rq, least(left, s->in_len));
	*res = (int64_t)rq->len;
	return rq->buf ? rq->done == rq->len : s->in_len >= rq->len;
}

static bool try_until(struct weir_stream *s, struct req *rq, int64_t *res)
{
	size_t look = least(rq->len, s->in_len);
	size_t back = least(rq->delim_len - 1, s->scanned);
	const uint8_t *data = s->in + s->in_head;
	const uint8_t *from = data + s->scanned - back;
	const uint8_t *at = memmem(from, look - (size_t)(from - data),
				   rq->delim, rq->delim_len);

	s->scanned = look;
	if (at) {
		*res = (int64_t)((uint64_t)(at - data) + rq->delim_len);
		take_to(s, rq, (size_t)*res);
		return true;
	}
	*res = -EMSGSIZE;
	return s->in_len >= rq->len;
}

/* Nothing more will come: the result of what still waits. */
static int64_t at_end(struct weir_stream *s, struct req *rq)
{
	if (s->in_err)
		return s->in_err;
	if (rq->kind == UNTIL)
		return s->in_len ? -ENODATA : 0;
	if (rq->kind == READ)
		return 0;
	if (!rq->buf)
		return (int64_t)s->in_len;
	take_to(s, rq, s->in_len);
	return (int64_t)rq->done;
}

static bool try_read(struct weir_stream *s, struct req *rq, int64_t *res)
{
	bool has = rq->kind == READ ? try_some(s, rq, res) :
		   rq->kind == EXACT ? try_exact(s, rq, res) :
				       try_until(s, rq, res);

	if (has || !(s->in_ended || s->in_err))
		return has;
	*res = at_end(s, rq);
	return true;
}

/* So many that a copy by way of the buffer would cost more than it saves. */
static bool is_direct(const struct weir_stream *s, const struct req *rq)
{
	return (rq->kind == READ || rq->kind == EXACT) && rq->buf &&
	       !s->in_len && rq->len - rq->done >= s->in_size;
}

/* Bytes that must be in the buffer together. */
static size_t needed(const struct weir_stream *s, const struct req *rq)
{
	return rq->kind == UNTIL || (rq->kind == EXACT &&
				     rq->len <= s->in_size) ?
	       (size_t)rq->len : s->in_len + 1;
}

static void compact(struct weir_stream *s, size_t need)
{
	if (!s->in_head || (s->in_len && s->in_head + need <= s->in_size))
		return;
	memmove(s->in, s->in + s->in_head, s->in_len);
	s->in_head = 0;
}

/* A function of the transport has returned @err; it may have closed @s, or
 * cancelled what is bound to @op, when there was nothing to cancel yet. */
static void was_called(struct weir_stream *s, struct weir_op *op, int err,
		       bool cancelled)
{
	if (likely(!s->closing && !cancelled))
		return;
	if (!err)
		weir_op_cancel(op);
	else if (s->closing)
		close_run(s);
}

static int receive(struct weir_stream *s)
{
	struct req *rq = req_of(s->reader);
	uint8_t *to;
	size_t len;
	int err;

	if (s->in_busy)
		return 0;
	s->in_direct = is_direct(s, rq);
	if (s->in_direct) {
		to = rq->buf + rq->done;
		len = least(rq->len - rq->done, IO_STEP_MAX);
	} else {
		compact(s, needed(s, rq));
		to = s->in + s->in_head + s->in_len;
		len = s->in_size - s->in_head - s->in_len;
	}
	debug_check(len);
	own_begins(s, &s->in_busy);
	reactor_enter(s->reactor);
	err = s->ops.recv(s->arg, &s->in_op, to, len);
	reactor_exit(s->reactor);
	if (err) {
		own_ends(s, &s->in_busy);
		s->in_direct = false;
	}
	was_called(s, &s->in_op, err,
		   s->in_direct && op_cancel_wanted(s->reader));
	return err;
}

static void end_read(struct weir_stream *s, int64_t res)
{
	struct weir_op *op = s->reader;

	s->reader = NULL;
	end(op, res);
}

/* @err is why nothing was received, if that is no property of the stream. */
static void read_run(struct weir_stream *s, int err)
{
	struct weir_op *op = s->reader;
	struct weir_stream *to;
	int64_t res;

	if (!op)
		return;
	if (req_of(op)->kind == PIPE) {
		to = req_of(op)->s;
		if (err)
			end_pipe(to, op, err, WEIR_STREAM_FROM);
		out_run(to);
		return;
	}
	if (try_read(s, req_of(op), &res)) {
		end_read(s, res);
		return;
	}
	if (op_cancel_wanted(op) || s->closing)
		err = -ECANCELED;
	else if (!err)
		err = receive(s);
	if (err && s->reader == op)
		end_read(s, err);
}

static void received_directly(struct weir_stream *s, int64_t res)
{
	struct req *rq = req_of(s->reader);

	s->in_direct = false;
	if (res <= 0)
		return;
	rq->done += (uint64_t)res;
	if (rq->kind == READ)
		end_read(s, res);
}

static void on_in(struct weir_op *op, int64_t res)
{
	struct weir_stream *s = weir_container_of(op, struct weir_stream,
						  in_op);

	own_ends(s, &s->in_busy);
	if (s->close_begun) {
		if (res < 0)
			s->close_err = (int)res;
		close_run(s);
		return;
	}
	if (s->in_direct)
		received_directly(s, res);
	else if (res > 0)
		s->in_len += (size_t)res;
	if (!res)
		s->in_ended = true;
	else if (res < 0 && !is_passing(res))
		s->in_err = (int)res;
	read_run(s, is_passing(res) ? (int)res : 0);
	if (s->closing)
		close_run(s);
}

/* ---- Writing ---- */

static struct iovec piece_of(struct req *rq)
{
	struct iovec v;

	if (!rq->n) {
		v.iov_base = rq->buf + rq->done;
		v.iov_len = (size_t)(rq->len - rq->done);
		return v;
	}
	while (rq->seg < rq->n && rq->iov[rq->seg].iov_len == rq->seg_off) {
		rq->seg++;
		rq->seg_off = 0;
	}
	if (rq->seg == rq->n)
		return (struct iovec){ 0 };
	v = rq->iov[rq->seg];
	v.iov_base = (uint8_t *)v.iov_base + rq->seg_off;
	v.iov_len -= (size_t)rq->seg_off;
	return v;
}

static void advance(struct req *rq, size_t n)
{
	rq->done += n;
	if (rq->n)
		rq->seg_off += n;
}

static size_t ring_free(const struct weir_stream *s)
{
	return s->out_size - s->out_len;
}

/* Put bytes in, as many as there is capacity for. */
static size_t ring_put(struct weir_stream *s, const void *data, size_t len)
{
	size_t n = least(len, ring_free(s));
	size_t at = (s->out_head + s->out_len) % s->out_size;
	size_t first = least(n, s->out_size - at);

	if (!n)
		return 0;
	memcpy(s->out + at, data, first);
	memcpy(s->out, (const uint8_t *)data + first, n - first);
	s->out_len += n;
	return n;
}

static void ring_take(struct weir_stream *s, size_t n)
{
	debug_check(n <= s->out_len);
	s->out_len -= n;
	s->out_head = s->out_len ? (s->out_head + n) % s->out_size : 0;
	if (s->out_len <= s->out_low)
		s->blocked = false;
}

static bool goes_directly(const struct weir_stream *s, size_t len)
{
	return len > s->out_size / 2;
}

static void end_write(struct weir_stream *s, struct weir_op *op, int64_t res)
{
	struct req *rq = req_of(op);

	op_queue_del(&s->writers, op);
	if (rq->kind == PIPE && rq->from) {
		rq->from->reader = NULL;
		rq->from = NULL;
	}
	if (rq->kind == SHUT)
		s->n_shut--;
	end(op, res);
}

static void end_pipe(struct weir_stream *s, struct weir_op *op, int64_t res,
		     int side)
{
	op->detail.code = side;
	end_write(s, op, res);
}

static void fail_writers(struct weir_stream *s, int err)
{
	while (s->writers.first) {
		if (req_of(s->writers.first)->kind == PIPE)
			s->writers.first->detail.code = WEIR_STREAM_TO;
		end_write(s, s->writers.first, err);
	}
}

/* The operation at the head has out_op, or its memory. */
static bool is_bound(const struct weir_stream *s, const struct weir_op *op)
{
	return s->out_busy && s->writers.first == op &&
	       (s->step == SENDS ? s->sends_direct : 1);
}

/* Copy from @op, the first.  Returns false if it must wait. */
static bool fill_by_write(struct weir_stream *s, struct weir_op *op)
{
	struct req *rq = req_of(op);
	struct iovec v;

	while (rq->done < rq->len) {
		v = piece_of(rq);
		if (s->blocked || goes_directly(s, v.iov_len))
			return false;
		advance(rq, ring_put(s, v.iov_base, v.iov_len));
		s->blocked = !ring_free(s);
	}
	s->hold = rq->flags & WEIR_STREAM_MORE;
	end_write(s, op, (int64_t)rq->len);
	return true;
}

static bool fill_by_pipe(struct weir_stream *s, struct weir_op *op)
{
	struct req *rq = req_of(op);
	struct weir_stream *from = rq->from;
	size_t n;
	int err;

	s->hold = false;
	if (!from)
		return false;
	while (!s->blocked && from->in_len && rq->done < rq->len) {
		n = ring_put(s, from->in + from->in_head,
			     least(from->in_len, rq->len - rq->done));
		take(from, n);
		rq->done += n;
		s->blocked = !ring_free(s);
	}
	if (rq->done == rq->len) {
		end_write(s, op, (int64_t)rq->done);
		return true;
	}
	if (from->in_len || from->in_ended)
		return false;
	err = from->in_err ? from->in_err : receive(from);
	if (!err || s->writers.first != op)
		return false;
	end_pipe(s, op, err, WEIR_STREAM_FROM);
	return true;
}

/* Move what waits into the ring, as far as its order allows. */
static void fill(struct weir_stream *s)
{
	struct weir_op *op;
	bool more = true;

	while (more && (op = s->writers.first) && !is_bound(s, op)) {
		if (req_of(op)->kind == WRITE)
			more = fill_by_write(s, op);
		else if (req_of(op)->kind == PIPE)
			more = fill_by_pipe(s, op);
		else
			more = false;
	}
}

/* Not for good, if @err is no property of the stream. */
static void out_failed(struct weir_stream *s, int err)
{
	if (!is_passing(err))
		s->out_err = err;
	fail_writers(s, err);
}

/* out_op was started, or refused with @err. */
static void step_begun(struct weir_stream *s, int err)
{
	struct weir_op *op = s->writers.first;

	if (unlikely(err)) {
		own_ends(s, &s->out_busy);
		out_failed(s, err);
	}
	was_called(s, &s->out_op, err,
		   op && is_bound(s, op) && op_cancel_wanted(op));
}

/* Send the ring, and after it the large piece of the first writer, if any. */
static void send_now(struct weir_stream *s, struct weir_op *op)
{
	size_t first = least(s->out_len, s->out_size - s->out_head);
	struct req *rq = op ? req_of(op) : NULL;
	uint32_t n = 0, flags = 0;
	int err;

	s->sends_ring = s->out_len;
	s->sends_direct = 0;
	if (first)
		s->iov[n++] = (struct iovec){ s->out + s->out_head, first };
	if (s->out_len > first)
		s->iov[n++] = (struct iovec){ s->out, s->out_len - first };
	if (rq && rq->kind == WRITE) {
		s->iov[n] = piece_of(rq);
		if (goes_directly(s, s->iov[n].iov_len))
			s->sends_direct = s->iov[n++].iov_len;
	}
	if (rq && (rq->kind == SENDFILE ||
		   (rq->kind == WRITE && rq->flags & WEIR_STREAM_MORE)))
		flags = WEIR_STREAM_MORE;
	own_begins(s, &s->out_busy);
	s->step = SENDS;
	reactor_enter(s->reactor);
	err = s->ops.send(s->arg, &s->out_op, s->iov, n, flags);
	reactor_exit(s->reactor);
	step_begun(s, err);
}

/* What had to wait for out_op to end ends now. */
static bool must_end(const struct weir_stream *s, const struct weir_op *op)
{
	return s->closing || op_cancel_wanted(op);
}

/* Returns false if the send has failed: what it left in the ring waits for the next
 * operation. */
static bool sent(struct weir_stream *s, int64_t res)
{
	uint64_t n = res < 0 ? s->out_op.detail.bytes : (uint64_t)res;
	struct weir_op *op = s->sends_direct ? s->writers.first : NULL;
	size_t ring = least(n, s->sends_ring);
	size_t direct = least(n - ring, s->sends_direct);
	bool cancelled = op && must_end(s, op);
	struct req *rq;

	s->sends_ring = s->sends_direct = 0;
	ring_take(s, ring);
	if (op) {
		rq = req_of(op);
		advance(rq, direct);
		if (rq->done == rq->len) {
			s->hold = rq->flags & WEIR_STREAM_MORE;
			end_write(s, op, (int64_t)rq->len);
		} else if (cancelled) {
			end_write(s, op, -ECANCELED);
		}
	}
	if (res >= 0 || (cancelled && is_passing(res)))
		return true;
	out_failed(s, (int)res);
	return false;
}

static void shut_now(struct weir_stream *s)
{
	int err;

	own_begins(s, &s->out_busy);
	s->step = SHUTS;
	reactor_enter(s->reactor);
	err = s->ops.shutdown(s->arg, &s->out_op);
	reactor_exit(s->reactor);
	step_begun(s, err);
}

/* What the first writer, a shutdown or a pipe, ends with, and what follows it: a
 * pipe cannot refuse later writes, for it may end without a shutdown. */
static void was_shut(struct weir_stream *s, int64_t res)
{
	struct weir_op *op = s->writers.first;
	struct req *rq = req_of(op);
	int err = res < 0 ? (int)res : 0;

	s->shut = s->shut || !is_passing(res);
	end_pipe(s, op, !err && rq->kind == PIPE ? (int64_t)rq->done : err,
		 err && rq->kind == PIPE ? WEIR_STREAM_TO : 0);
	while (s->shut && (op = s->writers.first)) {
		rq = req_of(op);
		end_pipe(s, op, rq->kind == SHUT ? err :
			 rq->kind == FLUSH ? 0 : -EPIPE,
			 rq->kind == PIPE ? WEIR_STREAM_TO : 0);
	}
}

/* ---- Files ---- */

struct cache_range {
	uint64_t off, len;
};

struct cache_counts {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif

/* Whether the page is up to date, not only present. */
static bool is_read(int fd, uint64_t off)
{
	uint8_t byte;
	struct iovec v = { &byte, 1 };

	return preadv2(fd, &v, 1, (off_t)off, RWF_NOWAIT) == 1;
}

/*
 * Whether all pages of a range are in the page cache: then sendfile(2) does not
 * wait for a disk.  The kernel reads pages in order, so the last page is up to date
 * only if the earlier ones are.
 */
static bool is_cached(int fd, uint64_t off, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct cache_range range = { off, len };
	struct cache_counts counts = { 0 };

	return !fault("cachestat") &&
	       !syscall(__NR_cachestat, fd, &range, &counts, 0) &&
	       counts.cached >= (off + len - 1) / page - off / page + 1 &&
	       is_read(fd, off + len - 1);
}

static int64_t send_pages(int out, int fd, uint64_t off, size_t len)
{
	struct io_sigpipe sigpipe;
	int mode = io_nonblock_begin(out);
	off_t at = (off_t)off;
	int64_t n;

	if (mode < 0)
		return mode;
	io_sigpipe_begin(&sigpipe);
	do {
		n = sendfile(out, fd, &at, len);
		n = n < 0 ? -errno : n;
	} while (n == -EINTR);
	/* It may have raised the signal after it had sent a part. */
	io_sigpipe_end(&sigpipe, n != (int64_t)len);
	io_nonblock_end(out, mode);
	return n;
}

/* A small part that is in the page cache joins what is in the ring. */
static bool copy_small(struct weir_stream *s, struct req *rq)
{
	uint64_t left = rq->len - rq->done;
	size_t at = (s->out_head + s->out_len) % s->out_size;
	size_t flat = least(ring_free(s), s->out_size - at);
	struct iovec v = { s->out + at, (size_t)left };
	ssize_t n;

	if (!rq->has_pages || left > FILE_SMALL || left > flat)
		return false;
	n = preadv2(rq->fd, &v, 1, (off_t)(rq->off + rq->done), RWF_NOWAIT);
	if (n <= 0)
		return false;
	s->out_len += (size_t)n;
	rq->done += (uint64_t)n;
	return rq->done == rq->len;
}

static void step_begins(struct weir_stream *s, enum step step)
{
	s->step = step;
	own_begins(s, &s->out_busy);
}

static void read_file(struct weir_stream *s, struct req *rq)
{
	debug_check(!s->out_len);
	s->out_head = 0;
	step_begins(s, READS_FILE);
	step_begun(s, weir_read(s->reactor, &s->out_op, rq->fd, s->out,
				least(rq->len - rq->done, s->out_size),
				rq->off + rq->done));
}

static void file_was_read(struct weir_stream *s, int64_t res)
{
	struct weir_op *op = s->writers.first;
	struct req *rq = req_of(op);

	if (res > 0) {
		s->out_len = (size_t)res;
		rq->done += (uint64_t)res;
	}
	if (res > 0 && rq->done < rq->len && !must_end(s, op))
		return;
	s->hold = rq->flags & WEIR_STREAM_MORE;
	end_write(s, op, res < 0 ? res : rq->done < rq->len && res > 0 ?
		  -ECANCELED : (int64_t)rq->done);
}

/* One step of the first writer; the ring is empty. */
static void file_step(struct weir_stream *s, struct weir_op *op)
{
	struct req *rq = req_of(op);
	size_t len = least(rq->len - rq->done, FILE_STEP);
	int64_t n;

	if (!rq->has_pages || !is_cached(rq->fd, rq->off + rq->done, len)) {
		read_file(s, rq);
		return;
	}
	n = send_pages(s->fds.out, rq->fd, rq->off + rq->done, len);
	if (n > 0) {
		rq->done += (uint64_t)n;
		if (rq->done == rq->len) {
			end_write(s, op, (int64_t)rq->done);
			return;
		}
	}
	if (n == -EAGAIN || (n > 0 && (size_t)n < len)) {
		step_begins(s, POLLS);
		step_begun(s, weir_poll(s->reactor, &s->out_op, s->fds.out,
					WEIR_WRITABLE));
	} else if (n > 0) {
		/* The others of this turn come first. */
		step_begins(s, PAUSES);
		op_defer(s->reactor, &s->out_op);
	} else if (n == 0 || n == -EINVAL || n == -ENOSYS || n == -EIO) {
		rq->has_pages = false;
	} else {
		s->out_err = (int)n;
	}
}

static void after_pause(struct weir_stream *s)
{
	struct weir_op *op = s->writers.first;

	if (must_end(s, op))
		end_write(s, op, -ECANCELED);
}

/* ---- The queue of writes ---- */

/* The ring is empty, and out_op idle: do what the first writer is. */
static void step(struct weir_stream *s, struct weir_op *op)
{
	struct req *rq = req_of(op);

	switch ((enum kind)rq->kind) {
	case FLUSH:
		end_write(s, op, 0);
		break;
	case SHUT:
		shut_now(s);
		break;
	case SENDFILE:
		file_step(s, op);
		break;
	case PIPE:
		/* What it moves is in the ring, so it has ended. */
		if (rq->flags & WEIR_STREAM_KEEP_OPEN) {
			end_write(s, op, (int64_t)rq->done);
			break;
		}
		if (rq->from) {
			rq->from->reader = NULL;
			rq->from = NULL;
		}
		shut_now(s);
		break;
	default:
		break;
	}
}

/* Whether the first writer has something to do on an empty ring. */
static bool has_step(struct weir_op *op)
{
	struct req *rq = req_of(op);

	return rq->kind != PIPE || !rq->from ||
	       (rq->from->in_ended && !rq->from->in_len);
}

static void out_run(struct weir_stream *s)
{
	struct weir_op *op;

	while (!s->closing) {
		if (s->out_err && !s->out_busy)
			fail_writers(s, s->out_err);
		fill(s);
		op = s->writers.first;
		if (op && req_of(op)->kind == SENDFILE && !is_bound(s, op) &&
		    copy_small(s, req_of(op))) {
			s->hold = req_of(op)->flags & WEIR_STREAM_MORE;
			end_write(s, op, (int64_t)req_of(op)->done);
			continue;
		}
		if (s->out_busy || s->out_err)
			return;
		if ((s->out_len && (op || !s->hold)) ||
		    (op && req_of(op)->kind == WRITE)) {
			send_now(s, op);
			/* Refused, as while the reactor stops: not at once again. */
			if (!s->out_busy)
				return;
		} else if (op && has_step(op)) {
			step(s, op);
		} else {
			return;
		}
	}
}

static void on_out(struct weir_op *op, int64_t res)
{
	struct weir_stream *s = weir_container_of(op, struct weir_stream,
						  out_op);
	bool goes_on = true;

	own_ends(s, &s->out_busy);
	if (s->close_begun) {
		if (res < 0)
			s->close_err = (int)res;
		close_run(s);
		return;
	}
	if (s->step == SENDS)
		goes_on = sent(s, res);
	else if (s->step == READS_FILE)
		file_was_read(s, res);
	else if (s->step == SHUTS)
		was_shut(s, res);
	else
		after_pause(s);
	if (s->closing)
		close_run(s);
	else if (goes_on)
		out_run(s);
}

/* ---- Operations of the caller's ---- */

static void read_cancel(struct weir_op *op)
{
	struct weir_stream *s = req_of(op)->s;

	debug_check(s->reader == op);
	if (s->in_direct)
		weir_op_cancel(&s->in_op);
	else
		end_read(s, -ECANCELED);
}

static void write_cancel(struct weir_op *op)
{
	struct weir_stream *s = req_of(op)->s;

	if (is_bound(s, op)) {
		weir_op_cancel(&s->out_op);
		return;
	}
	end_write(s, op, -ECANCELED);
	out_run(s);
}

static const struct weir_op_class read_class = {
	.name = "stream read",
	.cancel = read_cancel,
};

static const struct weir_op_class write_class = {
	.name = "stream write",
	.cancel = write_cancel,
};

static const struct weir_op_class close_class = {
	.name = "stream close",
};

static int read_begins(struct weir_stream *s, struct weir_op *op,
		       struct req rq, const char *call)
{
	struct weir_reactor *r = s->reactor;
	int err;

	if (!s->ops.recv)
		return why(-EOPNOTSUPP, "%s: the stream is only for writing",
			   call);
	if (s->closing)
		return why(-ESHUTDOWN, "%s: the stream was closed", call);
	if (rq.len > INT64_MAX)
		return why(-EINVAL, "%s: the length is beyond INT64_MAX", call);
	if (s->reader)
		return why(-EBUSY, "%s: another read of the stream is in "
			   "flight", call);
	err = op_begin(r, op, &read_class);
	if (err)
		return op_refused(err, op, call);
	rq.s = s;
	*req_of(op) = rq;
	s->reader = op;
	s->scanned = 0;
	read_run(s, 0);
	return 0;
}

int weir_stream_read(struct weir_stream *s, struct weir_op *op, void *buf,
		     size_t len)
{
	if (buf && !len)
		return why_static(-EINVAL, "weir_stream_read: no bytes");
	return read_begins(s, op, (struct req){ .kind = READ, .buf = buf,
				.len = len }, "weir_stream_read");
}

int weir_stream_read_exact(struct weir_stream *s, struct weir_op *op,
			   void *buf, size_t len)
{
	if (!buf && len > s->in_size)
		return why_static(-EMSGSIZE, "weir_stream_read_exact: the input "
				  "buffer is smaller; raise .in_size, or give "
				  "a buffer");
	return read_begins(s, op, (struct req){ .kind = EXACT, .buf = buf,
				.len = len }, "weir_stream_read_exact");
}

int weir_stream_read_until(struct weir_stream *s, struct weir_op *op,
			   void *buf, size_t max, const void *delim,
			   size_t delim_len)
{
	if (!max || !delim || !delim_len)
		return why_static(-EINVAL, "weir_stream_read_until: no bytes, or "
				  "no delimiter");
	if (max > s->in_size)
		return why_static(-EMSGSIZE, "weir_stream_read_until: the input "
				  "buffer is smaller than @max; raise .in_size");
	return read_begins(s, op, (struct req){ .kind = UNTIL, .buf = buf,
				.len = max, .delim = delim,
				.delim_len = delim_len },
				"weir_stream_read_until");
}

size_t weir_stream_peek(const struct weir_stream *s, const void **ret)
{
	*ret = s->in + s->in_head;
	return s->in_len;
}

int weir_stream_consume(struct weir_stream *s, size_t len)
{
	if (s->reader)
		return why_static(-EBUSY, "weir_stream_consume: a read is in "
				  "flight");
	if (len > s->in_len)
		return why_static(-ERANGE, "weir_stream_consume: fewer bytes are "
				  "buffered");
	take(s, len);
	return 0;
}

int weir_stream_unread(struct weir_stream *s, const void *buf, size_t len)
{
	size_t by;

	if (s->reader)
		return why_static(-EBUSY, "weir_stream_unread: a read is in "
				  "flight");
	/* What is received now arrives behind the buffered bytes: they stay. */
	if (len > s->in_head && (s->in_busy || len > s->in_size - s->in_len))
		return why_static(-EMSGSIZE, "weir_stream_unread: the input "
				  "buffer has no capacity for these bytes");
	if (len > s->in_head) {
		by = s->in_size - s->in_len;
		memmove(s->in + by, s->in + s->in_head, s->in_len);
		s->in_head = by;
	}
	s->in_head -= len;
	s->in_len += len;
	if (len)
		memcpy(s->in + s->in_head, buf, len);
	return 0;
}

static int check_write(const struct weir_stream *s, uint32_t flags,
		       uint32_t known, const char *call)
{
	if (!s->ops.send)
		return why(-EOPNOTSUPP, "%s: the stream is only for reading",
			   call);
	if (flags & ~known)
		return why(-EINVAL, "%s: unknown flags", call);
	if (s->closing)
		return why(-ESHUTDOWN, "%s: the stream was closed", call);
	return 0;
}

static int write_state(const struct weir_stream *s)
{
	return s->out_err ? s->out_err : s->shut || s->n_shut ? -EPIPE : 0;
}

int weir_stream_put(struct weir_stream *s, const void *buf, size_t len,
		    uint32_t flags)
{
	int err = check_write(s, flags, WEIR_STREAM_MORE, "weir_stream_put");

	if (!err)
		err = write_state(s);
	if (err)
		return err;
	if (s->reactor->attention & ATTENTION_STOPPING)
		return why_static(-ESHUTDOWN, "weir_stream_put: the reactor is "
				  "stopping");
	if (len > s->out_size)
		return why_static(-EMSGSIZE, "weir_stream_put: the output buffer "
				  "is smaller; raise .out_size, or use "
				  "weir_stream_write()");
	if (s->writers.first || s->blocked || len > ring_free(s)) {
		/* What is held must go, or there is never any. */
		s->hold = false;
		out_run(s);
		return -EAGAIN;
	}
	ring_put(s, buf, len);
	s->hold = flags & WEIR_STREAM_MORE;
	out_run(s);
	return 0;
}

static int write_begins(struct weir_stream *s, struct weir_op *op,
			struct req rq, const char *call)
{
	struct weir_reactor *r = s->reactor;
	int err = op_begin(r, op, &write_class);

	if (err)
		return op_refused(err, op, call);
	rq.s = s;
	*req_of(op) = rq;
	err = rq.kind == FLUSH || rq.kind == SHUT ? s->out_err : write_state(s);
	if (err || (rq.kind == SHUT && s->shut)) {
		op->detail.code = rq.kind == PIPE ? WEIR_STREAM_TO : 0;
		end(op, err);
		return 0;
	}
	if (rq.kind == SHUT)
		s->n_shut++;
	if (rq.kind == PIPE)
		rq.from->reader = op;
	op_queue_push(&s->writers, op);
	out_run(s);
	return 0;
}

int weir_stream_write(struct weir_stream *s, struct weir_op *op,
		      const void *buf, size_t len, uint32_t flags)
{
	int err = check_write(s, flags, WEIR_STREAM_MORE, "weir_stream_write");

	if (err)
		return err;
	if ((!buf && len) || len > INT64_MAX)
		return why_static(-EINVAL, "weir_stream_write: no buffer, or its "
				  "length is beyond INT64_MAX");
	return write_begins(s, op, (struct req){ .kind = WRITE,
			    .buf = (uint8_t *)(uintptr_t)buf, .len = len,
			    .flags = (uint8_t)flags }, "weir_stream_write");
}

int weir_stream_writev(struct weir_stream *s, struct weir_op *op,
		       const struct iovec *iov, uint32_t n, uint32_t flags)
{
	int err = check_write(s, flags, WEIR_STREAM_MORE, "weir_stream_writev");
	uint64_t total = 0;
	uint32_t i;

	if (err)
		return err;
	if (n > IOV_MAX)
		return why_static(-EMSGSIZE, "weir_stream_writev: more than "
				  "IOV_MAX pieces");
	for (i = 0; i < n; i++) {
		if (!iov || iov[i].iov_len > INT64_MAX - total ||
		    (!iov[i].iov_base && iov[i].iov_len))
			return why_static(-EINVAL, "weir_stream_writev: pieces "
					  "that are none, or too many bytes");
		total += iov[i].iov_len;
	}
	return write_begins(s, op, (struct req){ .kind = WRITE, .iov = iov,
			    .n = n, .len = total, .flags = (uint8_t)flags },
			    "weir_stream_writev");
}

int weir_stream_flush(struct weir_stream *s, struct weir_op *op)
{
	int err = check_write(s, 0, 0, "weir_stream_flush");

	return err ? err : write_begins(s, op, (struct req){ .kind = FLUSH },
					"weir_stream_flush");
}

static int check_shutdown(const struct weir_stream *s, const char *call)
{
	return s->ops.shutdown ? 0 : why(-EOPNOTSUPP, "%s: the transport has no "
					 "half close", call);
}

int weir_stream_shutdown(struct weir_stream *s, struct weir_op *op)
{
	int err = check_write(s, 0, 0, "weir_stream_shutdown");

	if (!err)
		err = check_shutdown(s, "weir_stream_shutdown");
	return err ? err : write_begins(s, op, (struct req){ .kind = SHUT },
					"weir_stream_shutdown");
}

size_t weir_stream_unsent(const struct weir_stream *s)
{
	return s->out_len;
}

int weir_stream_sendfile(struct weir_stream *s, struct weir_op *op, int fd,
			 uint64_t off, uint64_t len, uint32_t flags)
{
	struct req rq = { .kind = SENDFILE, .fd = fd, .off = off, .len = len,
			  .flags = (uint8_t)flags };
	int err = check_write(s, flags, WEIR_STREAM_MORE,
			      "weir_stream_sendfile");
	struct stat st;
	uint64_t size;

	if (err)
		return err;
	if (off > INT64_MAX || len > INT64_MAX - off)
		return why_static(-EINVAL, "weir_stream_sendfile: beyond "
				  "INT64_MAX");
	if (s->fds.out_socket && !fd_is_virtual(fd) && !fstat(fd, &st) &&
	    S_ISREG(st.st_mode)) {
		size = (uint64_t)st.st_size;
		rq.has_pages = true;
		rq.len = off > size ? 0 : least(len, size - off);
	}
	if (!rq.len)
		rq.kind = FLUSH;
	return write_begins(s, op, rq, "weir_stream_sendfile");
}

int weir_stream_pipe(struct weir_stream *from, struct weir_op *op,
		     struct weir_stream *to, uint64_t max, uint32_t flags)
{
	int err = check_write(to, flags, WEIR_STREAM_KEEP_OPEN,
			      "weir_stream_pipe");

	if (!err && !(flags & WEIR_STREAM_KEEP_OPEN))
		err = check_shutdown(to, "weir_stream_pipe");
	if (err)
		return err;
	if (!from->ops.recv)
		return why_static(-EOPNOTSUPP, "weir_stream_pipe: @from is only "
				  "for writing");
	if (from->closing)
		return why_static(-ESHUTDOWN, "weir_stream_pipe: @from was "
				  "closed");
	if (from == to || from->reactor != to->reactor || !max)
		return why_static(-EINVAL, "weir_stream_pipe: the two are one, "
				  "or of different reactors, or @max is 0");
	if (from->reader)
		return why_static(-EBUSY, "weir_stream_pipe: another read of "
				  "@from is in flight");
	return write_begins(to, op, (struct req){ .kind = PIPE, .from = from,
			    .len = max, .flags = (uint8_t)flags },
			    "weir_stream_pipe");
}

void *weir_stream_transport(const struct weir_stream *s,
			    const struct weir_stream_ops *ops)
{
	return s->ops.recv == ops->recv && s->ops.send == ops->send ? s->arg :
								      NULL;
}

/* ---- Descriptors ---- */

static int fd_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	struct fds *f = arg;

	return f->in_socket ? weir_recv(f->reactor, op, f->in, buf, len, 0) :
	       weir_read(f->reactor, op, f->in, buf, len, WEIR_OFF_STREAM);
}

static int fd_send(void *arg, struct weir_op *op, const struct iovec *iov,
		   uint32_t n, uint32_t flags)
{
	struct fds *f = arg;

	return f->out_socket ?
	       weir_sendv(f->reactor, op, f->out, iov, n,
			  flags & WEIR_STREAM_MORE ? WEIR_SOCK_MORE : 0) :
	       weir_writev(f->reactor, op, f->out, iov, n, WEIR_OFF_STREAM);
}

static int fd_shutdown(void *arg, struct weir_op *op)
{
	struct fds *f = arg;
	int fd = f->out;

	if (f->in == f->out)
		return weir_shutdown(f->reactor, op, fd, SHUT_WR);
	f->out = -1;
	if (f->keep || fd < 0) {
		op_defer(f->reactor, op);
		return 0;
	}
	return weir_close(f->reactor, op, fd);
}

static const struct weir_stream_ops fd_ops = {
	.size = sizeof(fd_ops),
	.name = "fd",
	.recv = fd_recv,
	.send = fd_send,
	.shutdown = fd_shutdown,
};

/* ---- Its life ---- */

static void stream_free(struct weir_stream *s)
{
	free(s->memory);
	free(s);
}

/* Begin to release the transport; in_op and out_op are idle. */
static void close_begin(struct weir_stream *s)
{
	struct fds *f = &s->fds;
	int err = 0;

	s->close_begun = true;
	own_begins(s, &s->out_busy);
	if (s->ops.close) {
		reactor_enter(s->reactor);
		err = s->ops.close(s->arg, &s->out_op);
		reactor_exit(s->reactor);
	} else if (s->arg == f && !f->keep) {
		if (f->in >= 0 && f->in != f->out) {
			own_begins(s, &s->in_busy);
			(void)weir_close(s->reactor, &s->in_op, f->in);
		}
		if (f->out >= 0) {
			(void)weir_close(s->reactor, &s->out_op, f->out);
			return;
		}
	}
	if (err)
		s->close_err = err;
	if (err || !s->ops.close)
		op_defer(s->reactor, &s->out_op);
}

static void close_run(struct weir_stream *s)
{
	struct weir_op *op = s->closer;
	int err = s->close_err;

	if (s->in_busy || s->out_busy)
		return;
	if (!s->close_begun) {
		close_begin(s);
		return;
	}
	debug_check(!s->reader && !s->writers.first);
	stream_free(s);
	if (op)
		op_complete(op, err);
}

static void cancel_all(struct weir_stream *s)
{
	struct weir_op *op = s->reader, *next;
	struct weir_stream *to;

	if (op && req_of(op)->kind == PIPE) {
		to = req_of(op)->s;
		end_write(to, op, -ECANCELED);
		out_run(to);
	} else if (op && !s->in_direct) {
		end_read(s, -ECANCELED);
	}
	for (op = s->writers.first; op; op = next) {
		next = op->next;
		if (!is_bound(s, op))
			end_write(s, op, -ECANCELED);
	}
	if (s->in_busy)
		weir_op_cancel(&s->in_op);
	if (s->out_busy)
		weir_op_cancel(&s->out_op);
}

int weir_stream_close(struct weir_stream *s, struct weir_op *op)
{
	int err = 0;

	if (op)
		err = op_begin_always(s->reactor, op, &close_class);
	else if (!s->own_bufs)
		err = -EINVAL;
	if (err)
		return why_static(err, "weir_stream_close: the operation is in "
				  "flight or has no callback; or there is none, "
				  "and the buffers are the caller's");
	debug_check(!s->closing);
	s->closing = true;
	s->closer = op;
	reactor_detach(&s->obj);
	cancel_all(s);
	close_run(s);
	return 0;
}

/* The program of @s was killed in its world. */
static void abandon(struct reactor_obj *obj)
{
	struct weir_stream *s = weir_container_of(obj, struct weir_stream, obj);

	reactor_detach(obj);
	stream_free(s);
}

static int load_opts(struct weir_stream_opts *o,
		     const struct weir_stream_opts *user, const char *call)
{
	int err = opts_load(o, sizeof(*o), user, call);

	if (err)
		return err;
	if (o->flags & ~WEIR_STREAM_KEEP_FDS || o->reserved)
		return why(-EINVAL, "%s: unknown flags, or .reserved is not 0",
			   call);
	if ((o->in && !o->in_size) || (o->out && !o->out_size))
		return why(-EINVAL, "%s: a buffer without its size", call);
	if (!o->in_size)
		o->in_size = IN_SIZE;
	if (!o->out_size)
		o->out_size = OUT_SIZE;
	if (o->out_low >= o->out_size || o->in_size > SIZE_MAX / 4 ||
	    o->out_size > SIZE_MAX / 4)
		return why(-EINVAL, "%s: .out_low is %zu, which is not less than "
			   ".out_size, %zu; or a size is absurd", call,
			   o->out_low, o->out_size);
	if (!o->out_low)
		o->out_low = o->out_size / 2;
	return 0;
}

static int give_buffers(struct weir_stream *s,
			const struct weir_stream_opts *o, const char *call)
{
	size_t in = o->in || !s->ops.recv ? 0 : o->in_size;
	size_t out = o->out || !s->ops.send ? 0 : o->out_size;

	s->own_bufs = !o->in && !o->out;
	/* Not zeroed: what a connection does not use stays untouched. */
	s->memory = fault("malloc") ? NULL : malloc(in + out + 1);
	if (!s->memory)
		return why(-ENOMEM, "%s: no memory for buffers of %zu and %zu "
			   "bytes", call, in, out);
	s->in = o->in ? o->in : s->memory;
	s->out = o->out ? o->out : (uint8_t *)s->memory + in;
	s->in_size = o->in_size;
	s->out_size = o->out_size;
	s->out_low = o->out_low;
	return 0;
}

static int stream_new(struct weir_stream **ret, struct weir_reactor *r,
		      const struct weir_stream_ops *ops,
		      const struct weir_stream_opts *o, const char *call)
{
	struct weir_stream *s = mem_calloc(1, sizeof(*s));
	int err;

	if (!s)
		return why(-ENOMEM, "%s: no memory", call);
	s->reactor = r;
	s->ops = *ops;
	op_queue_init(&s->writers);
	weir_op_init(&s->in_op, on_in);
	weir_op_init(&s->out_op, on_out);
	s->obj.abandon = abandon;
	err = give_buffers(s, o, call);
	if (!err)
		err = reactor_attach(r, &s->obj, "weir_stream");
	if (err) {
		stream_free(s);
		return why_call(err, "weir_stream", call);
	}
	*ret = s;
	return 0;
}

int weir_stream_create(struct weir_stream **ret, struct weir_reactor *r,
		       const struct weir_stream_ops *user, void *arg,
		       const struct weir_stream_opts *opts)
{
	struct weir_stream_ops ops;
	struct weir_stream_opts o;
	int err = user ? opts_load(&ops, sizeof(ops), user,
				   "weir_stream_create") : -EINVAL;

	if (err)
		return err;
	if (!ops.name || !(ops.recv || ops.send))
		return why(-EINVAL, "weir_stream_create: .name is NULL, or there "
			   "is neither .recv nor .send");
	err = load_opts(&o, opts, "weir_stream_create");
	if (!err)
		err = stream_new(ret, r, &ops, &o, "weir_stream_create");
	if (!err)
		(*ret)->arg = arg;
	return err;
}

/* Whether @fd is a socket, for which recv(2) costs less: 1, 0 or an errno. */
static int learn(int fd)
{
	socklen_t len = sizeof(int);
	int type;

	if (fd_is_virtual(fd) ? !vfd_ops->is_open(fd) : fcntl(fd, F_GETFD) < 0)
		return why(-EBADF, "weir_stream_create_fd: descriptor %d is not "
			   "open", fd);
	if (fd_is_virtual(fd) ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len))
		return 0;
	if (type != SOCK_STREAM)
		return why(-EINVAL, "weir_stream_create_fd: descriptor %d is a "
			   "socket for messages, not a stream", fd);
	return 1;
}

int weir_stream_create_fd(struct weir_stream **ret, struct weir_reactor *r,
			  int in, int out, const struct weir_stream_opts *opts)
{
	int in_kind = in < 0 ? 0 : learn(in);
	int out_kind = out < 0 || in_kind < 0 ? 0 : learn(out);
	struct weir_stream_ops ops = fd_ops;
	struct weir_stream_opts o;
	struct weir_stream *s;
	int err;

	if (in_kind < 0 || out_kind < 0)
		return in_kind < 0 ? in_kind : out_kind;
	if (in < 0 && out < 0)
		return why(-EINVAL, "weir_stream_create_fd: no descriptor");
	if (in < 0)
		ops.recv = NULL;
	if (out < 0)
		ops.send = NULL;
	err = load_opts(&o, opts, "weir_stream_create_fd");
	if (!err)
		err = stream_new(&s, r, &ops, &o, "weir_stream_create_fd");
	if (err)
		return err;
	s->arg = &s->fds;
	s->fds = (struct fds){
		.reactor = r, .in = in, .out = out, .in_socket = in_kind,
		.out_socket = out_kind, .keep = o.flags & WEIR_STREAM_KEEP_FDS,
	};
	*ret = s;
	return 0;
}
