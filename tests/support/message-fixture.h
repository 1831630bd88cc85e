/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MESSAGE_FIXTURE_H
#define TESTS_MESSAGE_FIXTURE_H

/*
 * Two ends that talk, over the mock for RDMA or over soft-RoCE; both
 * receive from one queue.  What comes is written down, and its buf put or kept.
 */

#include "tests/support/conn-fixture.h"
#include "tests/support/job-fixture.h"

#include <infiniband/verbs.h>

#include <weir/device.h>
#include <weir/inventory.h>
#include <weir/message.h>
#include <weir/pool.h>

#include "rdma/engine.h"
#include "rdma/srq-internal.h"

#define HEARD_MAX 256
#define PEERS_MEM (256u << 10)

/* What one end has heard. */
struct heard {
	int n;
	struct weir_message m[HEARD_MAX];
	uint32_t sum[HEARD_MAX]; /* Of the bytes. */
	bool keep;
	struct weir_buf *kept[HEARD_MAX];
	int n_kept;
};

struct peers {
	struct ends e;
	struct weir_reactor *r;
	struct weir_srq_opts srq_opts;
	struct weir_srq *srq;
	struct heard client, server;
	struct rec *sent; /* HEARD_MAX of them. */

	/* The client's memory. */
	struct weir_device *dev;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	char *mem;
};

static inline uint32_t sum_of(const void *p, size_t len)
{
	const unsigned char *c = p;
	uint32_t sum = 5381;

	while (len--)
		sum = sum * 33 + *c++;
	return sum;
}

static inline void on_message(struct weir_conn *c, const struct weir_message *m,
			      void *arg)
{
	struct heard *h = arg;

	(void)c;
	assert_true(h->n < HEARD_MAX);
	assert_int_equal(m->size, sizeof(*m));
	h->m[h->n] = *m;
	if (m->buf) {
		assert_int_equal(weir_buf_data_len(m->buf), m->len);
		assert_ptr_equal(weir_buf_data(m->buf), m->data);
		h->sum[h->n] = sum_of(m->data, m->len);
	}
	h->n++;
	if (h->keep && m->buf)
		h->kept[h->n_kept++] = m->buf;
	else
		weir_buf_put(m->buf);
}

static inline void put_kept(struct heard *h)
{
	while (h->n_kept)
		weir_buf_put(h->kept[--h->n_kept]);
	h->keep = false;
}

static inline void peers_memory(struct peers *t)
{
	struct weir_inventory_opts inv = { .size = sizeof(inv), .bufs = 256 };

	t->mem = malloc(PEERS_MEM);
	fill_pattern(t->mem, PEERS_MEM, 0, 7);
	assert_int_equal(
		weir_device_open_name(&t->dev,
				      t->e.client->device_ref->device->name),
		0);
	t->m = start_mmap_on(t->dev, t->mem, PEERS_MEM,
			     WEIR_MMAP_READ | WEIR_MMAP_WRITE |
				     WEIR_MMAP_RDMA_WRITE);
	assert_int_equal(weir_inventory_create(&t->inv, t->r, &inv), 0);
	assert_int_equal(weir_inventory_attach(t->inv, t->m), 0);
}

/* .e.opts and .srq_opts may be set then. */
static inline void peers_init(struct peers *t, void **state)
{
	memset(t, 0, sizeof(*t));
	ends_init(&t->e, state, AF_INET);
	t->r = t->e.r;
	t->srq_opts.size = sizeof(t->srq_opts);
	t->sent = calloc(HEARD_MAX, sizeof(*t->sent));
}

static inline void peers_listen(struct peers *t)
{
	assert_int_equal(weir_conn_set_message_fn(t->e.client, on_message,
						  &t->client),
			 0);
	assert_int_equal(weir_conn_set_message_fn(t->e.server, on_message,
						  &t->server),
			 0);
}

static inline void peers_create(struct peers *t)
{
	assert_int_equal(weir_srq_create(&t->srq, t->r, &t->srq_opts), 0);
	t->e.opts.srq = t->srq;
	ends_open(&t->e);
}

static inline void peers_open(struct peers *t)
{
	peers_create(t);
	ends_establish(&t->e);
	peers_memory(t);
	peers_listen(t);
}

static inline void peers_begin(struct peers *t, void **state)
{
	peers_init(t, state);
	peers_open(t);
}

/* The two ends go, and who listened. */
static inline void peers_close(struct peers *t)
{
	assert_int_equal(weir_conn_destroy(t->e.client), 0);
	assert_int_equal(weir_conn_destroy(t->e.server), 0);
	assert_int_equal(weir_listener_destroy(t->e.l), 0);
	t->e.client = t->e.server = NULL;
	t->e.l = NULL;
}

/* And what they received from. */
static inline void peers_destroy_srq(struct peers *t)
{
	assert_int_equal(weir_srq_destroy(t->srq), 0);
	t->srq = NULL;
}

static inline void peers_end(struct peers *t)
{
	put_kept(&t->client);
	put_kept(&t->server);
	some_turns(t->r, 2);
	if (t->m) {
		assert_int_equal(weir_inventory_destroy(t->inv), 0);
		assert_int_equal(weir_mmap_destroy(t->m), 0);
		assert_int_equal(weir_device_close(t->dev), 0);
	}
	free(t->mem);
	peers_close(t);
	peers_destroy_srq(t);
	some_turns(t->r, 2);
	if (mocked) {
		nothing_is_left();
		assert_int_equal(mocked()->srqs, 0);
		assert_int_equal(mocked()->mrs, 0);
	}
	free(t->sent);
}

/* Send as the @i-th; @len bytes at @at of the client's memory. */
static inline int try_send(struct peers *t, struct weir_conn *c, int i,
			   const struct weir_message *m)
{
	rec_init(&t->sent[i]);
	return weir_message_send(c, &t->sent[i].op, m);
}

static inline struct weir_buf *peers_buf(struct peers *t, size_t at, size_t len)
{
	return get_buf(t->inv, t->m, t->mem + at, len, len);
}

static inline void send_mem(struct peers *t, int i, size_t at, size_t len)
{
	struct weir_message m = { .size = sizeof(m) };

	m.buf = peers_buf(t, at, len);
	STARTS(try_send(t, t->e.client, i, &m));
	weir_buf_put(m.buf);
}

/* A few bytes, with a number. */
static inline void send_number_by(struct peers *t, struct weir_conn *c, int i,
				  uint32_t number)
{
	struct weir_message m = { .size = sizeof(m),
				  .data = "abc",
				  .len = 3,
				  .flags = WEIR_MESSAGE_IMM,
				  .imm = number };

	STARTS(try_send(t, c, i, &m));
}

static inline void send_number(struct peers *t, int i, uint32_t number)
{
	send_number_by(t, t->e.client, i, number);
}

static inline void all_sent(struct peers *t, int n)
{
	int i;

	for (i = 0; i < n; i++)
		UNTIL(t->r, t->sent[i].calls);
	for (i = 0; i < n; i++)
		assert_int_equal(t->sent[i].calls, 1);
}

static inline void until_heard(struct peers *t, int n)
{
	UNTIL(t->r, t->server.n >= n);
	assert_int_equal(t->server.n, n);
}

static inline void until_end(struct peers *t, int which)
{
	UNTIL(t->r, t->e.n_ends[which]);
	assert_int_equal(t->e.n_ends[which], 1);
}

static inline struct weir_srq_stats srq_stats_of(const struct weir_srq *srq)
{
	struct weir_srq_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_srq_stats(srq, &s), 0);
	return s;
}

#endif /* TESTS_MESSAGE_FIXTURE_H */
