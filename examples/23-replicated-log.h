/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A log on three nodes.  The leader stores a record and sends it to followers,
 * which store it and answer how many they have.  Then it is on two disks of
 * three: it is acknowledged.  Reactor and descriptors come from outside.
 */
#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/socket.h>

#define LOG_MAX 64

struct record {
	uint64_t number, value;		/* Numbers begin with 1. */
	char fill[496];			/* A sector: written whole or not. */
};

/* Connections, one for each record, and the one operation on them. */
struct link {
	struct weir_op op;
	struct node *node;
	int fd, is_waiting;		/* For the disk. */
	uint64_t has;			/* Records of the follower. */
};

/* The caller sets what is above .links: of a follower, no functions. */
struct node {
	struct weir_reactor *r;
	int file, listener;
	void (*dial)(struct link *l, struct weir_op *op);  /* Sets its .fd. */
	void (*on_ack)(struct node *n, const struct record *rec);
	struct link links[2];		/* A follower has one. */
	struct weir_op op;		/* On the file. */
	int is_ready;			/* To store another record. */
	uint64_t count, acked;		/* Durable here; and on two disks. */
	struct record log[LOG_MAX + 1];
};

static void begin(struct weir_op *op, int64_t res);

/* The operation of @l for its next step, which may take a second. */
static struct weir_op *step(struct link *l, weir_op_fn *fn)
{
	l->op.fn = fn;
	weir_op_set_deadline(&l->op, weir_reactor_now(l->node->r) + WEIR_SEC);
	return &l->op;
}

static void on_closed(struct weir_op *op, int64_t res)
{
	struct link *l = weir_container_of(op, struct link, op);
	uint64_t now = weir_reactor_now(l->node->r);

	(void)res;
	weir_sleep_until(l->node->r, step(l, begin), now + 100 * WEIR_USEC);
}

/* Well or badly, this connection has ended; there will be another. */
static void hang_up(struct weir_op *op, int64_t res)
{
	struct link *l = weir_container_of(op, struct link, op);

	(void)res;
	op->fn = on_closed;
	weir_close(l->node->r, op, l->fd);
}

static void answer(struct link *l)
{
	if (weir_send(l->node->r, step(l, hang_up), l->fd,
		      &l->node->count, sizeof(l->node->count), 0))
		hang_up(&l->op, 0);
}

/* After an error nobody knows what is on the disk: then, no more. */
static void on_synced(struct weir_op *op, int64_t res)
{
	struct node *n = weir_container_of(op, struct node, op);

	if (res < 0)
		return;
	n->count++;
	n->is_ready = 1;
	for (struct link *l = n->links; l < n->links + 2; l++)
		if (l->is_waiting)
			n->dial ? begin(&l->op, 0) : answer(l);
}

static void on_written(struct weir_op *op, int64_t res)
{
	struct node *n = weir_container_of(op, struct node, op);

	op->fn = on_synced;
	if (res > 0)
		weir_fsync(n->r, op, n->file, 0);
}

/* Store what is at the end of .log. */
static void store(struct node *n)
{
	n->is_ready = 0;
	n->op.fn = on_written;
	weir_write(n->r, &n->op, n->file, &n->log[n->count],
		   sizeof(*n->log), n->count * sizeof(*n->log));
}

/* A link of the leader: connect, send a record, hear how many are there. */
static void on_count(struct weir_op *op, int64_t res)
{
	struct link *l = weir_container_of(op, struct link, op);
	struct node *n = l->node;

	if (res != sizeof(l->has) || l->has > n->count)
		l->has = 0;
	while (n->acked < l->has)
		n->on_ack(n, &n->log[n->acked++]);
	hang_up(op, res);
}

static void on_sent(struct weir_op *op, int64_t res)
{
	struct link *l = weir_container_of(op, struct link, op);

	if (res < 0 || weir_recv(l->node->r, step(l, on_count), l->fd,
				 &l->has, sizeof(l->has), WEIR_SOCK_ALL))
		hang_up(op, res);
}

static void on_connected(struct weir_op *op, int64_t res)
{
	struct link *l = weir_container_of(op, struct link, op);

	if (res < 0 || weir_send(l->node->r, step(l, on_sent), l->fd,
				 &l->node->log[l->has],
				 sizeof(struct record), 0))
		hang_up(op, res);
}

/* The link of a follower: accept, receive a record, store it, answer. */
static void on_record(struct weir_op *op, int64_t res)
{
	struct link *l = weir_container_of(op, struct link, op);
	struct node *n = l->node;

	l->is_waiting = res == sizeof(*n->log) &&
			n->log[n->count].number == n->count + 1;
	if (l->is_waiting)
		store(n);
	else
		answer(l);		/* It is another that is wanted. */
}

static void on_accepted(struct weir_op *op, int64_t res)
{
	struct link *l = weir_container_of(op, struct link, op);
	struct node *n = l->node;

	l->fd = (int)res;
	if (res < 0)
		on_closed(op, res);
	else if (weir_recv(n->r, step(l, on_record), l->fd,
			   &n->log[n->count], sizeof(*n->log), WEIR_SOCK_ALL))
		hang_up(op, res);
}

static void begin(struct weir_op *op, int64_t res)
{
	struct link *l = weir_container_of(op, struct link, op);
	struct node *n = l->node;

	op->fn = on_accepted;
	l->is_waiting = n->dial && l->has == n->count;
	if (!res && !n->dial)
		weir_accept(n->r, op, n->listener);
	else if (!res && !l->is_waiting)
		n->dial(l, step(l, on_connected));
}

/* At the leader; it does nothing while another is being stored, or if full. */
static void log_append(struct node *n, uint64_t value)
{
	if (!n->is_ready || n->count == LOG_MAX)
		return;
	n->log[n->count] = (struct record){ n->count + 1, value, "" };
	store(n);
}

/* Begin, with the @len bytes in .log that were read of the file. */
static void node_start(struct node *n, int64_t len)
{
	for (; len >= (int64_t)sizeof(*n->log); len -= sizeof(*n->log))
		n->count += n->log[n->count].number == n->count + 1;
	n->is_ready = 1;
	for (int i = 0; i < (n->dial ? 2 : 1); i++) {
		n->links[i].node = n;
		begin(&n->links[i].op, 0);
	}
}
