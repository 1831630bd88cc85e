/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two ends of libweir-tls in one process, and a wire between them that cuts, holds up,
 * changes, repeats and drops records.  The input decides what the ends start and cancel
 * and what the wire does; without a byte of it for a record, that passes.
 *
 * Whatever the wire does, an end gets the bytes that the other one has written, in order
 * and none of them wrong; it is told the end only behind the last of them, after the other
 * end has said it; and all operations end.  If the wire changes nothing, all bytes arrive.
 */

#include "tests/fuzz/fuzz-fixture.h"

#include <unistd.h>

#include <weir/reactor.h>
#include <weir/tls/tls.h>

const char fuzz_name[] = "tls";

#define WIRE_BYTES (1u << 20)	/* More than all that is written. */
#define RECORD_BYTES (5u + (1u << 16))
#define WRITE_MAX 40000u
#define WRITTEN_MAX 200000u	/* By an end. */
#define READ_MAX 50000u
#define ACTIONS 64u
#define TURNS 100000u	/* A turn moves 64 bytes at least. */

enum { CLIENT, SERVER };

/* One direction. */
struct wire {
	uint8_t bytes[WIRE_BYTES];
	size_t head, len;
	uint8_t record[RECORD_BYTES];
	size_t have;			/* Of a record that is not complete. */
	bool has_ended;
	struct weir_op *recv, *send;	/* The latter is held up. */
	void *to;
	size_t to_len, send_len;
	const struct iovec *iov;
	uint32_t n_iov;
};

struct end {
	struct weir_stream *s;
	struct wire *in, *out;
	struct weir_op shake, read, write, shut, close;
	uint64_t written, offered, got;	/* Offered: with the write in flight. */
	bool shaking, reading, writing, shutting, has_shut;
	bool has_ended, closed;
	int err;			/* Of a read: the first. */
	uint8_t to[READ_MAX], from[WRITE_MAX];
};

static struct weir_reactor *r;
static struct weir_tls_context *contexts[2][2];	/* By version and end. */
static struct wire wires[2];
static struct end ends[2];
static struct input in;
static bool is_changed;

/* ---- The wire ---- */

static void deliver(struct wire *w)
{
	struct weir_op *op = w->recv;
	size_t n = w->to_len;

	if (!op || (!w->len && !w->has_ended))
		return;
	if (n > w->len)
		n = w->len;
	if (n && take(&in, 4) == 1)
		n = 1 + take(&in, 255) % n;
	memcpy(w->to, w->bytes + w->head, n);
	w->head += n;
	w->len -= n;
	w->recv = NULL;
	weir_op_finish(op, (int64_t)n);
}

static void put(struct wire *w, const uint8_t *bytes, size_t n)
{
	if (w->head + w->len + n > WIRE_BYTES) {
		memmove(w->bytes, w->bytes + w->head, w->len);
		w->head = 0;
	}
	MUST(w->head + w->len + n <= WIRE_BYTES);
	memcpy(w->bytes + w->head + w->len, bytes, n);
	w->len += n;
}

/* A whole record is on its way. */
static void pass(struct wire *w)
{
	uint32_t what = take(&in, 200);
	size_t n = w->have;

	w->have = 0;
	is_changed |= what - 1 < 6;
	switch (what) {
	case 1:
		w->record[take(&in, 255) % n] ^= (uint8_t)(1u << take(&in, 8));
		break;
	case 2:
		return;
	case 3:
		put(w, w->record, n);
		break;
	case 4:
		n = take(&in, 255) % n;
		break;
	case 5:
		w->has_ended = true;
		n = take(&in, 255) % n;
		break;
	case 6:
		put(w, (const uint8_t *)"\x17\x03\x03\x00\x01x", 6);
		break;
	}
	put(w, w->record, n);
}

static void carry(struct wire *w, const uint8_t *bytes, size_t n)
{
	size_t whole;

	/* What follows its end is lost. */
	for (; n && !w->has_ended; n--) {
		w->record[w->have++] = *bytes++;
		if (w->have < 5)
			continue;
		whole = 5u + ((size_t)w->record[3] << 8 | w->record[4]);
		if (w->have == whole)
			pass(w);
	}
	deliver(w);
}

static void let_go(struct wire *w)
{
	struct weir_op *op = w->send;

	if (!op)
		return;
	w->send = NULL;
	for (uint32_t i = 0; i < w->n_iov; i++)
		carry(w, w->iov[i].iov_base, w->iov[i].iov_len);
	weir_op_finish(op, (int64_t)w->send_len);
}

static void cancel(struct weir_op *op, void *arg)
{
	struct end *e = arg;

	if (e->in->recv == op)
		e->in->recv = NULL;
	else
		e->out->send = NULL;
	weir_op_finish(op, -ECANCELED);
}

static int wire_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	struct end *e = arg;
	int err = weir_op_start(r, op, cancel, e);

	if (err)
		return err;
	MUST(!e->in->recv && len);
	e->in->recv = op;
	e->in->to = buf;
	e->in->to_len = len;
	deliver(e->in);
	return 0;
}

static int wire_send(void *arg, struct weir_op *op, const struct iovec *iov,
		     uint32_t n, uint32_t flags)
{
	struct end *e = arg;
	struct wire *w = e->out;
	int err = weir_op_start(r, op, cancel, e);

	(void)flags;
	if (err)
		return err;
	MUST(!w->send);
	w->send = op;
	w->iov = iov;
	w->n_iov = n;
	w->send_len = 0;
	for (uint32_t i = 0; i < n; i++)
		w->send_len += iov[i].iov_len;
	if (take(&in, 4) != 1)
		let_go(w);
	return 0;
}

static void no_cancel(struct weir_op *op, void *arg)
{
	(void)op, (void)arg;
}

static int wire_shutdown(void *arg, struct weir_op *op)
{
	struct end *e = arg;
	int err = weir_op_start(r, op, no_cancel, e);

	if (err)
		return err;
	e->out->has_ended = true;
	deliver(e->out);
	weir_op_finish(op, 0);
	return 0;
}

static const struct weir_stream_ops wire_ops = {
	.size = sizeof(wire_ops), .name = "wire", .recv = wire_recv,
	.send = wire_send, .shutdown = wire_shutdown,
};

/* ---- The ends ---- */

static uint8_t byte_at(const struct end *e, uint64_t at)
{
	return (uint8_t)(at * 131 + (at >> 8) + (e == &ends[SERVER]));
}

static void on_shaken(struct weir_op *op, int64_t res)
{
	struct end *e = weir_container_of(op, struct end, shake);

	e->shaking = false;
	MUST(res <= 0 && res > -4096);
	MUST(res >= 0 || res == -ECANCELED || is_changed || ends[0].err ||
	     ends[1].err || e->in->has_ended || ends[0].closed || ends[1].closed);
}

static void on_read(struct weir_op *op, int64_t res)
{
	struct end *e = weir_container_of(op, struct end, read);
	const struct end *other = &ends[e == &ends[CLIENT]];
	struct weir_op_detail detail;
	uint64_t n = res > 0 ? (uint64_t)res : 0;

	e->reading = false;
	MUST(res >= -4095 && res <= (int64_t)READ_MAX);
	weir_op_get_detail(op, &detail);
	if (res < 0)
		n = detail.bytes;
	MUST(e->got + n <= other->offered);
	for (uint64_t i = 0; i < n; i++)
		MUST(e->to[i] == byte_at(other, e->got + i));
	e->got += n;
	if (res < 0 && res != -ECANCELED && !e->err)
		e->err = (int)res;
	if (res)
		return;
	e->has_ended = true;
	MUST(other->has_shut && e->got == other->written);
}

/* Of one that fails, the first bytes are in the stream. */
static void on_written(struct weir_op *op, int64_t res)
{
	struct end *e = weir_container_of(op, struct end, write);
	const struct end *other = &ends[e == &ends[CLIENT]];
	uint64_t n = (uint64_t)res, len = e->offered - e->written;
	struct weir_op_detail detail;

	e->writing = false;
	weir_op_get_detail(op, &detail);
	if (res < 0)
		n = detail.bytes;
	MUST(n <= len && (res < 0 || n == len));
	e->written += n;
	e->offered = e->written;
	MUST(other->got <= e->written);
}

static void on_shut(struct weir_op *op, int64_t res)
{
	struct end *e = weir_container_of(op, struct end, shut);

	(void)res;
	e->shutting = false;
}

static void on_closed(struct weir_op *op, int64_t res)
{
	struct end *e = weir_container_of(op, struct end, close);

	(void)res;
	MUST(!e->shaking && !e->reading && !e->writing && !e->shutting);
	e->closed = true;
}

/* ---- What they do ---- */

static void begin_write(struct end *e)
{
	size_t n = take(&in, 8) ? 1 + take(&in, 255) : take(&in, 255) * 160 + 1;

	if (e->writing || n > WRITE_MAX || e->written > WRITTEN_MAX)
		return;
	for (size_t i = 0; i < n; i++)
		e->from[i] = byte_at(e, e->written + i);
	weir_op_init(&e->write, on_written);
	if (weir_stream_write(e->s, &e->write, e->from, n,
			      take(&in, 4) == 1 ? WEIR_STREAM_MORE : 0))
		return;
	e->writing = true;
	e->offered = e->written + n;
}

static void begin_read(struct end *e)
{
	size_t n = take(&in, 8) ? 1 + take(&in, 255) : READ_MAX;
	int err;

	if (e->reading || e->has_ended || e->err)
		return;
	weir_op_init(&e->read, on_read);
	err = take(&in, 3) == 1 ?
	      weir_stream_read_exact(e->s, &e->read, e->to, n) :
	      weir_stream_read(e->s, &e->read, e->to, n);
	e->reading = !err;
}

static void begin_shut(struct end *e)
{
	if (e->shutting || e->has_shut)
		return;
	weir_op_init(&e->shut, on_shut);
	e->shutting = e->has_shut = !weir_stream_shutdown(e->s, &e->shut);
}

static void begin_close(struct end *e)
{
	struct weir_stream *s = e->s;

	if (!s)
		return;
	e->s = NULL;
	weir_op_init(&e->close, on_closed);
	MUST(!weir_stream_close(s, &e->close));
}

static void turn(uint32_t n)
{
	while (n--)
		MUST(weir_reactor_turn(r, 0) >= 0);
}

static void act(struct end *e)
{
	switch (take(&in, 10)) {
	case 0:
	case 1:
		begin_read(e);
		break;
	case 2:
	case 3:
		begin_write(e);
		break;
	case 4:
		if (e->reading)
			weir_op_cancel(&e->read);
		break;
	case 5:
		if (e->writing)
			weir_op_cancel(&e->write);
		break;
	case 6:
		if (take(&in, 4) == 1)
			begin_shut(e);
		break;
	case 7:
		if (e->shaking && take(&in, 4) == 1)
			weir_op_cancel(&e->shake);
		break;
	case 8:
		if (take(&in, 16) == 1)
			begin_close(e);
		break;
	default:
		let_go(e->out);
	}
}

/* The wire passes all; both say their end, and read to that of the other. */
static bool finish(void)
{
	bool goes_on = false;

	for (int i = 0; i < 2; i++) {
		struct end *e = &ends[i];

		let_go(e->out);
		if (!e->s)
			continue;
		if (!e->writing)
			begin_shut(e);
		begin_read(e);
		goes_on |= e->writing || e->shutting ||
			   !(e->has_ended || e->err);
	}
	turn(1);
	return goes_on;
}

/* ---- Once ---- */

static void make_contexts(void)
{
	static const char key[] = "fuzz:000102030405060708090a0b0c0d0e0f\n";
	char path[] = "/tmp/weir-fuzz-tls.XXXXXX";
	int fd = mkstemp(path);

	MUST(fd >= 0 && write(fd, key, sizeof(key) - 1) == sizeof(key) - 1);
	for (int i = 0; i < 4; i++) {
		struct weir_tls_opts opts = {
			.size = sizeof(opts), .psk_file = path,
			.psk_name = i & 1 ? NULL : "fuzz",
			.flags = i & 1 ? WEIR_TLS_SERVER : WEIR_TLS_NO_VERIFY,
			.max_version = i & 2 ? WEIR_TLS_1_2 : WEIR_TLS_1_3,
		};

		MUST(!weir_tls_context_create(&contexts[i >> 1][i & 1], &opts));
	}
	close(fd);
	unlink(path);
}

static void begin(struct end *e, int which, uint32_t version)
{
	struct weir_stream_opts opts = {
		.size = sizeof(opts),
		.in_size = take(&in, 3) == 1 ? 64 + take(&in, 255) * 4 : 0,
		.out_size = take(&in, 3) == 1 ? 2 + take(&in, 255) * 4 : 0,
	};
	struct weir_tls_stream_opts tls = { .size = sizeof(tls) };
	struct weir_stream *lower;

	e->in = &wires[which];
	e->out = &wires[!which];
	MUST(!weir_stream_create(&lower, r, &wire_ops, e, &opts));
	MUST(!weir_tls_stream_create(&e->s, r, lower, contexts[version][which],
				     &tls));
	weir_op_init(&e->shake, on_shaken);
	if (take(&in, 4) != 1)
		e->shaking = !weir_tls_handshake(e->s, &e->shake);
}

static void reset(void)
{
	for (int i = 0; i < 2; i++) {
		wires[i].head = wires[i].len = wires[i].have = 0;
		wires[i].has_ended = false;
		wires[i].recv = wires[i].send = NULL;
		ends[i].written = ends[i].offered = ends[i].got = 0;
		ends[i].shaking = ends[i].reading = ends[i].writing = false;
		ends[i].shutting = ends[i].has_shut = false;
		ends[i].has_ended = ends[i].closed = false;
		ends[i].err = 0;
	}
	is_changed = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	uint32_t version, turns = 0;
	bool was_closed;

	if (!contexts[0][0])
		make_contexts();
	in = (struct input){ data, data + size };
	reset();
	MUST(!weir_reactor_create(&r, &opts));
	version = take(&in, 2);
	begin(&ends[CLIENT], CLIENT, version);
	begin(&ends[SERVER], SERVER, version);
	for (uint32_t i = 0; i < ACTIONS && in.p < in.end; i++) {
		struct end *e = &ends[take(&in, 2)];

		if (e->s)
			act(e);
		turn(take(&in, 3));
	}
	in.p = in.end;
	was_closed = !ends[CLIENT].s || !ends[SERVER].s;
	/* The other end is gone, and with it the wire. */
	for (int i = 0; i < 2; i++)
		if (!ends[i].s) {
			ends[i].out->has_ended = true;
			deliver(ends[i].out);
		}
	while (finish())
		if (++turns > TURNS)
			break;
	/* One that waits for what the wire has dropped waits for ever. */
	MUST(turns <= TURNS || is_changed || was_closed);
	for (int i = 0; i < 2 && turns > TURNS; i++)
		MUST(!ends[i].s || ends[i].has_ended || ends[i].err ||
		     !ends[i].in->has_ended);
	for (int i = 0; i < 2 && !is_changed && !was_closed; i++)
		MUST(ends[i].has_ended && ends[i].got == ends[!i].written);
	begin_close(&ends[CLIENT]);
	begin_close(&ends[SERVER]);
	for (turns = 0; !ends[CLIENT].closed || !ends[SERVER].closed; turns++) {
		MUST(turns < TURNS);
		turn(1);
	}
	MUST(!weir_reactor_destroy(r));
	return 0;
}
