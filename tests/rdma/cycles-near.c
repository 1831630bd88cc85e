/* SPDX-License-Identifier: BSD-3-Clause */

#include "tests/rdma/cycles-near.h"

#define UNTOUCHED 0xa5

static const size_t lens[] = { 40, 4096, 20000, LEN_MAX };

/* Bytes. */

/* Different in every slot, at every place, and each time. */
static void fill(char *to, const struct site *s)
{
	uint64_t word = (uint64_t)(s - s->n->slots) << 56 | s->generation << 20;
	size_t i;

	for (i = 0; i < s->len; i += sizeof(word), word++)
		memcpy(to + i, &word, s->len - i < 8 ? s->len - i : 8);
}

static char *source_of(const struct site *s)
{
	return s->read ? s->far : s->near;
}

static char *target_of(const struct site *s)
{
	return s->read ? s->near : s->far;
}

/* What was done is there; of the rest each byte is the old one or the new. */
static void check_rest(const struct site *s)
{
	const char *is = target_of(s), *new = source_of(s);
	size_t i;

	assert_memory_equal(is, new, s->bytes);
	for (i = s->bytes; i < s->len; i++)
		if (is[i] != new[i] && is[i] != s->was[i])
			fail_msg("slot %d, byte %zu of %zu",
				 (int)(s - s->n->slots), i, s->len);
	if (s->read)		/* Its callback was the end of it. */
		assert_memory_equal(is, s->left, s->len);
}

static void check_gap(const char *from, const char *to)
{
	for (; from < to; from++)
		if ((unsigned char)*from != UNTOUCHED)
			fail_msg("%zu bytes before the next slot",
				 (size_t)(to - from));
}

void near_check(struct near *n)
{
	struct site *s;

	for (s = n->slots; s < n->slots + SLOTS; s++) {
		if (s->failed)
			check_rest(s);
		s->failed = false;
		check_gap(s->far + s->len, s->far + STRIDE);
		check_gap(s->near + s->len, s->near + STRIDE);
	}
}

/* Jobs. */

static int start(struct site *s);

static void note_failure(struct site *s, int64_t res)
{
	struct weir_op_detail detail;
	struct near *n = s->n;

	assert_int_equal(weir_op_get_detail(&s->job.op, &detail), 0);
	n->going = false;
	s->failed = true;
	s->bytes = detail.bytes;
	assert_true(s->bytes < s->len);
	if (s->read)
		memcpy(s->left, s->near, s->len);
	n->failures[n->n_failures++] = (struct failure){ res, detail.code };
	if (res == -ECANCELED)
		n->n_flushed++;
	else
		n->n_causes++;
}

static void on_job(struct weir_op *op, int64_t res)
{
	struct site *s = weir_container_of(op, struct site, job.op);
	struct near *n = s->n;

	assert_true(s->busy);
	s->busy = false;
	n->under_way--;
	if (res < 0) {
		note_failure(s, res);
		return;
	}
	assert_int_equal(res, s->len);
	assert_memory_equal(target_of(s), source_of(s), s->len);
	n->n_done++;
	n->done_now++;
	if (n->going)
		start(s);
}

static struct weir_operand here(struct site *s, struct weir_buf **b)
{
	struct near *n = s->n;

	*b = NULL;
	if (s->raw)
		return weir_operand_mem(s->near, s->len);
	assert_int_equal(weir_inventory_get(b, n->inv, n->m, s->near, s->len,
					    s->near, s->read ? 0 : s->len), 0);
	return weir_operand_buf(*b);
}

static struct weir_operand there(const struct site *s,
				 const struct weir_remote_key *key)
{
	struct weir_operand operand =
		weir_operand_at(s->n->there, (uintptr_t)s->far, s->len);

	operand.ctx = (void *)(uintptr_t)key;
	return operand;
}

static int start_with(struct site *s, const struct weir_remote_key *key)
{
	struct near *n = s->n;
	struct weir_operand near, far = there(s, key);
	struct weir_buf *b;
	int err;

	s->generation++;
	memcpy(s->was, target_of(s), s->len);
	fill(source_of(s), s);
	near = here(s, &b);
	weir_job_init(&s->job, on_job);
	if (s->read)
		weir_job_copy(&s->job, near, far);
	else
		weir_job_copy(&s->job, far, near);
	s->busy = true;
	err = weir_job_start(n->dma, &s->job);
	if (b)
		weir_buf_put(b);
	if (err) {
		s->busy = false;
		assert_int_equal(err, -ENOTCONN);
		return err;
	}
	n->under_way++;
	n->n_started++;
	return 0;
}

static int start(struct site *s)
{
	return start_with(s, &s->n->key);
}

void near_start(struct near *n)
{
	unsigned int i;

	n->going = true;
	n->done_now = 0;
	n->n_failures = 0;
	for (i = 0; i < SLOTS; i++)
		assert_int_equal(start(&n->slots[i]), 0);
}

void near_start_wrong(struct near *n)
{
	n->wrong.rkey = n->key.rkey ^ 0x5a5a00;
	n->going = false;
	UNTIL(n->r, !n->slots[0].busy);
	start_with(&n->slots[0], &n->wrong);
}

/* The connection. */

static void on_near_end(struct weir_conn *c, int why_told, void *arg)
{
	struct near *n = arg;

	(void)c;
	if (why_told == WEIR_CONN_AGAIN) {
		n->n_agains++;
		return;
	}
	n->going = false;
	n->n_ends++;
	n->why = why_told;
}

void near_reconnected(struct near *n)
{
	struct far_offer offer;
	const void *data;
	size_t len;

	data = weir_conn_peer_data(n->c, &len);
	assert_true(len >= sizeof(offer));
	memcpy(&offer, data, sizeof(offer));
	assert_int_equal(offer.addr, (uintptr_t)far_memory());
	n->key.rkey = offer.rkey;
	n->c->queue->max_len = WR_LEN;
}

static void open_connection(struct near *n, uint64_t first_ns)
{
	struct weir_conn_opts opts = {
		.size = sizeof(opts), .sends = 16, .reads = 4, .retries = 6,
		.ack_timeout = 13, .attempts = 500, .first_ns = first_ns,
		.most_ns = 100 * WEIR_MSEC,
	};
	struct address from = ip(own_ip(AF_INET), 0);
	struct rec rec;

	assert_int_equal(weir_conn_create(&n->c, n->r, NULL, &opts), 0);
	rec_init(&rec);
	STARTS(weir_conn_connect(n->c, &rec.op, sa_of(&n->to), n->to.len,
				 sa_of(&from), from.len, NULL, 0));
	assert_int_equal(finish(n->r, &rec), 0);
	weir_conn_set_end_fn(n->c, on_near_end, n);
	assert_int_equal(weir_domain_remote_create(&n->there, NULL), 0);
	assert_int_equal(weir_conn_attach(n->c, n->there), 0);
	near_reconnected(n);
}

static void place(struct near *n, unsigned int i)
{
	struct site *s = &n->slots[i];
	size_t at = (size_t)i * STRIDE;

	s->n = n;
	s->len = lens[i % N_OF(lens)];
	s->read = i / N_OF(lens) % 2;
	s->raw = i / N_OF(lens) % 3 == 2;
	s->near = (s->raw ? n->raw : n->mem) + at;
	s->far = far_memory() + at;
}

static void make_memory(struct near *n)
{
	struct weir_inventory_opts inv = { .size = sizeof(inv),
					   .bufs = 2 * SLOTS };
	unsigned int i;

	n->mem = malloc(FAR_LEN);
	n->raw = malloc(FAR_LEN);
	n->slots = calloc(SLOTS, sizeof(*n->slots));
	assert_true(n->mem && n->raw && n->slots);
	memset(n->mem, UNTOUCHED, FAR_LEN);
	memset(n->raw, UNTOUCHED, FAR_LEN);
	memset(far_memory(), UNTOUCHED, FAR_LEN);
	for (i = 0; i < SLOTS; i++)
		place(n, i);
	assert_int_equal(weir_device_open_name(&n->dev,
					       n->c->device_ref->device->name),
			 0);
	n->m = start_mmap_on(n->dev, n->mem, FAR_LEN,
			     WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&n->inv, n->r, &inv), 0);
	assert_int_equal(weir_inventory_attach(n->inv, n->m), 0);
}

void near_begin(struct near *n, void **state, uint64_t first_ns)
{
	const struct world *w = *state;

	memset(n, 0, sizeof(*n));
	n->r = start_reactor(state);
	n->backend = w->backend;
	far_start(n->r, n->backend, 0);
	n->port = far_wait();
	n->to = ip(far_ip(), n->port);
	open_connection(n, first_ns);
	make_memory(n);
	n->dma = start_dma(n->r, (struct weir_dma_opts){
			   .staging_size = 64 << 10, .staging_bufs = 2 });
}

void near_end(struct near *n)
{
	struct rec rec;

	some_turns(n->r, 3);
	assert_int_equal(weir_dma_destroy(n->dma), 0);
	rec_init(&rec);
	STARTS(weir_conn_disconnect(n->c, &rec.op));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(n->r, &rec), -ECANCELED);
	assert_int_equal(weir_conn_detach(n->c, n->there), 0);
	assert_int_equal(weir_domain_destroy(n->there), 0);
	assert_int_equal(weir_conn_destroy(n->c), 0);
	far_stop();
	assert_int_equal(weir_inventory_destroy(n->inv), 0);
	assert_int_equal(weir_mmap_destroy(n->m), 0);
	assert_int_equal(weir_device_close(n->dev), 0);
	free(n->slots);
	free(n->raw);
	free(n->mem);
	if (mocked)
		nothing_is_left();
}
