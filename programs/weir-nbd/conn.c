/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A client: what is received goes to the parsers, what is ready is sent, and
 * all of it ends once.  Every callback ends in conn_pump(), and only that
 * frees.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/file.h>
#include <weir/stream.h>

#include "weir-nbd.h"

/* Below this the rest of a write comes with what follows it. */
#define DIRECT_MIN (32u << 10)
/* A handshake of this age makes way for a newcomer; one that goes on does not
 * get so old. */
#define HELLO_OLD_NS WEIR_SEC

const char conn_too_many[] = "too many connections (--connections)";

static void on_tx(struct weir_op *op, int64_t res);
static void on_flush(struct weir_op *op, int64_t res);

/* On core 0; NULL: no memory. */
struct conn *conn_make(struct server *server, struct core *core,
		       struct peer *peer, int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->server = server;
	c->core = core;
	c->peer = peer;
	c->fd = fd;
	weir_op_init(&c->rx_op, conn_on_rx);
	weir_op_init(&c->tx_op, on_tx);
	weir_op_init(&c->flush_op, on_flush);
	c->ready_end = &c->ready;
	for (uint32_t i = 0; i < REQUESTS; i++)
		request_init(&c->requests[i], c);
	c->in_hello = true;
	atomic_fetch_add(&core->n_conns, 1);
	atomic_fetch_add(&core->n_hellos, 1);
	return c;
}

/* The handshake is over, well or badly. */
static void leave_hello(struct conn *c)
{
	if (c->in_hello)
		atomic_fetch_sub(&c->core->n_hellos, 1);
	c->in_hello = false;
}

/* All but the socket. */
void conn_unmake(struct conn *c)
{
	leave_hello(c);
	if (c->admitted)
		peer_leave(c->peer);
	peer_put(c->peer);
	/* A client that notices the end may connect again at once. */
	atomic_fetch_sub(&c->core->n_conns, 1);
	free(c);
}

/* Address space: the system gives a page when it is first used, so a client
 * that asks for little costs little. */
static int make_slab(struct conn *c)
{
	void *p = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	/* A huge page would be all of it. */
	madvise(p, SLAB_BYTES, MADV_NOHUGEPAGE);
	c->slab = p;
	c->rx = c->slab;
	c->cell_base = c->rx + RX_BYTES;
	return 0;
}

/* Close the oldest handshake of @core, if it is old enough. */
static bool displace_one(struct core *core)
{
	uint64_t now = weir_reactor_now(core->reactor);
	struct conn *oldest = NULL;

	for (struct conn *c = core->conns; c; c = c->next)
		if (c->state < SERVING && c->slab)
			oldest = c;
	if (!oldest || now < oldest->hello_began_ns + HELLO_OLD_NS)
		return false;
	peer_refuse(core, oldest->fd, "its handshake made way for a newcomer");
	conn_drop(oldest);
	conn_pump(oldest);
	return true;
}

/* Returns NULL, or why the client is refused. */
static const char *admit(struct conn *c)
{
	struct core *core = c->core;

	if (core->stopping)
		return "the server stops";
	if (c->displaces && !displace_one(core))
		return conn_too_many;
	return make_slab(c) ? "there is no memory" : NULL;
}

void conn_adopt(void *arg)
{
	struct conn *c = arg;
	struct core *core = c->core;
	const char *why;

	c->next = core->conns;
	if (c->next)
		c->next->pprev = &c->next;
	core->conns = c;
	c->pprev = &core->conns;
	weir_fd_register(core->reactor, c->fd);
	why = admit(c);
	if (why) {
		peer_refuse(core, c->fd, why);
		conn_drop(c);
	} else {
		c->hello_began_ns = weir_reactor_now(core->reactor);
		hello_begin(c);
	}
	conn_pump(c);
}

static void conn_free(struct conn *c)
{
	struct core *core = c->core;
	int fd;

	*c->pprev = c->next;
	if (c->next)
		c->next->pprev = c->pprev;
	if (c->slab)
		munmap(c->slab, SLAB_BYTES);
	weir_fd_unregister(core->reactor, c->fd);
	fd = c->fd;
	pages_end(c);
	block_queue_end(&c->queue);
	conn_unmake(c);
	close(fd);
	core_check_end(core);
}

/* To be called again and again; what is in flight ends by itself. */
void conn_drop(struct conn *c)
{
	if (c->state == CLOSING)
		return;
	c->state = CLOSING;
	leave_hello(c);
	if (c->receiving)
		weir_op_cancel(&c->rx_op);
	if (c->sending)
		weir_op_cancel(&c->tx_op);
	if (c->export)
		block_queue_cancel(&c->queue);
}

/* Send the replies that are due, and receive nothing more. */
void conn_end(struct conn *c)
{
	c->ending = true;
	c->head = c->tail;
}

static void on_settled(struct block_queue *q)
{
	conn_pump(weir_container_of(q, struct conn, queue));
}

/* The client has named an export, and may send requests.  Returns 0 or
 * -ENOMEM. */
int conn_take_export(struct conn *c, struct block *b)
{
	int err = block_queue_begin(&c->queue, b, &c->core->block, REQUESTS,
				    on_settled);

	if (!err)
		c->export = b;
	return err;
}

/* It was told so. */
void conn_serve(struct conn *c)
{
	c->state = SERVING;
	leave_hello(c);
	conn_is_active(c);
}

/* Something was received or sent. */
void conn_is_active(struct conn *c)
{
	c->active_ns = weir_reactor_now(c->core->reactor);
}

static bool is_between_requests(const struct conn *c)
{
	return c->state == SERVING && c->head == c->tail && !c->filling &&
	       !c->skip;
}

static uint64_t idle_end(struct conn *c)
{
	if (!c->server->opts.idle_s)
		return WEIR_FOREVER;
	if (c->used)
		conn_is_active(c);
	return c->active_ns + c->server->opts.idle_s * WEIR_SEC;
}

uint64_t conn_hello_end(const struct conn *c)
{
	return c->hello_began_ns + c->server->opts.handshake_s * WEIR_SEC;
}

/* Half of a request is worth waiting for, but not for ever: a client that sends
 * a byte now and then gains no time by it. */
static uint64_t rx_deadline(struct conn *c)
{
	if (c->state < SERVING)
		return conn_hello_end(c);
	if (is_between_requests(c)) {
		c->half_ends_ns = 0;
		return idle_end(c);
	}
	if (!c->half_ends_ns || c->half_bytes >= PIECE) {
		c->half_bytes = 0;
		c->half_ends_ns = weir_reactor_now(c->core->reactor) +
				  c->server->opts.timeout_s * WEIR_SEC;
	}
	return c->half_ends_ns;
}

/* Some of @len bytes, or all of them. */
static int receive_into(struct conn *c, void *buf, uint32_t len, bool all)
{
	struct weir_reactor *r = c->core->reactor;

	if (!c->tls)
		return weir_recv(r, &c->rx_op, c->fd, buf, len,
				 all ? WEIR_SOCK_ALL : 0);
	return all ? weir_stream_read_exact(c->tls, &c->rx_op, buf, len) :
		     weir_stream_read(c->tls, &c->rx_op, buf, len);
}

static void receive(struct conn *c)
{
	struct request *w = c->filling;
	uint32_t rest = w ? w->piece - w->got : 0;
	int err;

	/* Memory is not ours alone: others may be reading what is there. */
	c->direct = rest >= DIRECT_MIN && !c->export->base;
	weir_op_set_deadline(&c->rx_op, rx_deadline(c));
	if (c->direct) {
		err = receive_into(c, w->data + w->got, rest, true);
	} else {
		memmove(c->rx, c->rx + c->head, c->tail - c->head);
		c->tail -= c->head;
		c->head = 0;
		err = receive_into(c, c->rx + c->tail, RX_BYTES - c->tail,
				   false);
	}
	if (err) {
		conn_drop(c);
		return;
	}
	c->receiving = true;
	c->busy++;
}

static bool is_idle(struct conn *c)
{
	return idle_end(c) <= weir_reactor_now(c->core->reactor);
}

void conn_on_rx(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, rx_op);

	c->receiving = false;
	c->busy--;
	if (res > 0)
		conn_is_active(c);
	if (res == -ETIMEDOUT && is_between_requests(c) && !is_idle(c))
		; /* It was answered meanwhile: its time begins anew. */
	else if (res < 0 && !c->ending)
		conn_drop(c);
	else if (res <= 0)
		c->ending = true;
	else if (c->direct)
		c->filling->got += (uint32_t)res;
	else
		c->tail += (uint32_t)res;
	c->half_bytes += res > 0 ? (uint32_t)res : 0;
	conn_pump(c);
}

/* Other clients may write to the memory that is sent from. */
static int iov_send(struct conn *c)
{
	bool in_place = c->export && c->export->base;

	if (c->tls)
		return weir_stream_writev(c->tls, &c->tx_op, c->iov, c->n_iov,
					  0);
	return weir_sendv(c->core->reactor, &c->tx_op, c->fd, c->iov, c->n_iov,
			  in_place ? WEIR_SOCK_VOLATILE : 0);
}

static void send_next(struct conn *c)
{
	int err;

	weir_op_set_deadline(&c->tx_op, c->tx_ends_ns);
	err = c->n_iov ? iov_send(c) : pages_send(c);
	if (err) {
		conn_drop(c);
		return;
	}
	c->sending = true;
	c->busy++;
}

/* What c->iov has, and pages behind it; there is one send at a time. */
void conn_send(struct conn *c)
{
	uint64_t timeout = c->server->opts.timeout_s * WEIR_SEC;
	uint64_t now = weir_reactor_now(c->core->reactor);

	c->tx_ends_ns = c->state < SERVING ? conn_hello_end(c) : now + timeout;
	c->core->counts.sends++;
	send_next(c);
}

/* @n bytes: all that c->iov had, or some of the pages. */
static void sent(struct conn *c, int64_t n)
{
	if (c->n_iov)
		c->n_iov = 0;
	else
		pages_sent(c, n);
	if (pages_left(c))
		send_next(c);
	else
		reply_sent(c);
}

static void on_tx(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, tx_op);

	c->sending = false;
	c->busy--;
	if (res >= 0)
		conn_is_active(c);
	if (res < 0)
		conn_drop(c);
	else if (c->state < SERVING)
		hello_sent(c);
	else if (c->state == SERVING)
		sent(c, res);
	conn_pump(c);
}

/* When the turn has seen what else is due: more replies, in one batch. */
void conn_flush_later(struct conn *c)
{
	if (c->sending || c->flushing)
		return;
	if (weir_defer(c->core->reactor, &c->flush_op)) {
		conn_drop(c);
		return;
	}
	c->flushing = true;
	c->busy++;
}

static void on_flush(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, flush_op);

	c->flushing = false;
	c->busy--;
	if (res < 0)
		conn_drop(c);
	else if (c->state == SERVING && !c->sending)
		reply_flush(c);
	conn_pump(c);
}

/* Bytes to skip; true if there are no more to come.  Then the write
 * that they belong to is answered. */
static bool skip(struct conn *c)
{
	uint32_t here = c->tail - c->head;
	uint32_t n = c->skip < here ? (uint32_t)c->skip : here;
	struct request *rq = c->refused;

	c->head += n;
	c->skip -= n;
	if (c->skip)
		return false;
	c->refused = NULL;
	if (rq)
		reply_queue(rq);
	return true;
}

static bool parse(struct conn *c)
{
	if (c->state == CLOSING)
		return false;
	if (!skip(c))
		return false;
	return c->state == SERVING ? request_parse(c) : hello_parse(c);
}

/* Nothing more comes, and what came as a whole is answered. */
static void check_end(struct conn *c)
{
	bool half = c->refused || c->filling;

	if (c->used != half || c->sending)
		return;
	if (c->tls)
		tls_say_end(c);
	else
		conn_drop(c);
}

/* Go on with whatever can go on.  @c may be gone afterwards. */
void conn_pump(struct conn *c)
{
	c->blocked = false;
	while (parse(c))
		;
	if (c->export)
		block_queue_kick(&c->queue);
	if (c->state != CLOSING && !c->blocked) {
		if (c->ending)
			check_end(c);
		/* Replies first: clients wait for them. */
		else if (!c->receiving && !c->flushing)
			receive(c);
	}
	if (c->state == CLOSING && !c->busy && !c->queue.busy && c->tls)
		tls_end(c);
	if (c->state == CLOSING && !c->busy && !c->queue.busy)
		conn_free(c);
}

/* The server stops: answer what is there, and take nothing more. */
void conn_finish(struct conn *c)
{
	if (c->state < SERVING)
		conn_drop(c);
	c->stopping = true;
	c->ending = true;
	if (c->state == SERVING && c->receiving)
		weir_op_cancel(&c->rx_op);
	conn_pump(c);
}
