/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages and signals that arrive: all of them, once, in order, after what was
 * written before them.
 */

#include "tests/support/message-fixture.h"

#include <pthread.h>

/* Two ends, and jobs beside their messages. */
struct jobs_beside {
	struct peers t;
	struct weir_dma *dma;
	struct weir_domain *there;
	struct weir_remote_key key;
	struct ibv_mr *mr;
	char *far;
	struct jrec j[16];
};

static void jobs_beside_begin(struct jobs_beside *y, void **state,
				     uint32_t sends)
{
	struct peers *t = &y->t;

	peers_init(t, state);
	t->e.opts.sends = sends;
	peers_open(t);
	y->far = calloc(1, PEERS_MEM);
	y->mr = ibv_reg_mr(t->e.server->device_ref->device->pd, y->far,
			   PEERS_MEM,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	y->key = (struct weir_remote_key){ .rkey = y->mr->rkey };
	assert_int_equal(weir_domain_remote_create(&y->there, NULL), 0);
	assert_int_equal(weir_conn_attach(t->e.client, y->there), 0);
	y->dma = start_dma(t->r,
			   (struct weir_dma_opts){ .staging_size = 64 << 10,
						   .staging_bufs = 2 });
}

static void jobs_beside_end(struct jobs_beside *y)
{
	assert_int_equal(weir_dma_destroy(y->dma), 0);
	assert_int_equal(weir_conn_detach(y->t.e.client, y->there), 0);
	assert_int_equal(weir_domain_destroy(y->there), 0);
	assert_int_equal(ibv_dereg_mr(y->mr), 0);
	free(y->far);
	peers_end(&y->t);
}

/* The @i-th: @len bytes from the client's memory, both at @at. */
static int put_there(struct jobs_beside *y, int i, size_t at, size_t len,
			    uint32_t flags)
{
	struct weir_buf *b = peers_buf(&y->t, at, len);
	struct weir_operand dst =
		weir_operand_at(y->there, (uintptr_t)y->far + at, len);
	struct weir_job *job = &y->j[i].job;
	int err;

	dst.ctx = &y->key;
	jrec_init(&y->j[i]);
	weir_job_copy(job, dst, weir_operand_buf(b));
	job->flags = flags;
	job->signal = 1000 + (uint32_t)i;
	err = weir_job_start(y->dma, job);
	weir_buf_put(b);
	return err;
}

static void messages_arrive_in_order_with_all_their_bytes(void **state)
{
	static const size_t lens[] = { 1, 63, 64, 65, 1000, 4095, 4096, 0, 17 };
	struct peers t;
	size_t i;

	peers_begin(&t, state);
	for (i = 0; i < N_OF(lens); i++) {
		if (lens[i])
			send_mem(&t, (int)i, i * 5000, lens[i]);
		else
			STARTS(try_send(&t, t.e.client, (int)i,
					&(struct weir_message){
					.size = sizeof(struct weir_message) }));
	}
	all_sent(&t, N_OF(lens));
	until_heard(&t, N_OF(lens));
	for (i = 0; i < N_OF(lens); i++) {
		assert_int_equal(t.sent[i].res, lens[i]);
		assert_int_equal(t.server.m[i].len, lens[i]);
		assert_int_equal(t.server.m[i].flags, 0);
		if (lens[i])
			assert_int_equal(t.server.sum[i],
					 sum_of(t.mem + i * 5000, lens[i]));
		else
			assert_null(t.server.m[i].buf);
	}
	assert_int_equal(t.client.n, 0);
	peers_end(&t);
}

static void a_list_of_bufs_is_one_message(void **state)
{
	struct weir_message m = { .size = sizeof(m) };
	struct weir_buf *tail;
	struct peers t;

	peers_begin(&t, state);
	m.buf = peers_buf(&t, 0, 100);
	tail = peers_buf(&t, 100, 200);
	assert_int_equal(weir_buf_chain(m.buf, tail), 0);
	tail = peers_buf(&t, 300, 33);
	assert_int_equal(weir_buf_chain(m.buf, tail), 0);
	STARTS(try_send(&t, t.e.client, 0, &m));
	assert_int_equal(weir_buf_refs(m.buf), 2);
	weir_buf_put(m.buf);
	all_sent(&t, 1);
	until_heard(&t, 1);
	assert_int_equal(t.sent[0].res, 333);
	assert_int_equal(t.server.sum[0], sum_of(t.mem, 333));
	peers_end(&t);
}

static void messages_go_both_ways(void **state)
{
	struct weir_message m = { .size = sizeof(m), .data = "pong", .len = 4,
				  .flags = WEIR_MESSAGE_IMM, .imm = 7 };
	struct peers t;

	peers_begin(&t, state);
	send_number(&t, 0, 0xdeadbeef);
	STARTS(try_send(&t, t.e.server, 1, &m));
	all_sent(&t, 2);
	until_heard(&t, 1);
	UNTIL(t.r, t.client.n);
	assert_int_equal(t.server.m[0].flags, WEIR_MESSAGE_IMM);
	assert_int_equal(t.server.m[0].imm, 0xdeadbeef);
	assert_int_equal(t.server.sum[0], sum_of("abc", 3));
	assert_int_equal(t.client.m[0].imm, 7);
	assert_int_equal(t.client.sum[0], sum_of("pong", 4));
	peers_end(&t);
}

/* Those that have no capacity wait, and are posted as a run. */
static void sends_beyond_the_capacity_wait(void **state)
{
	struct peers t;
	int i, n = 100;

	peers_init(&t, state);
	t.e.opts.sends = 3;
	peers_open(&t);
	for (i = 0; i < n; i++)
		send_number(&t, i, (uint32_t)i);
	all_sent(&t, n);
	until_heard(&t, n);
	for (i = 0; i < n; i++)
		assert_int_equal(t.server.m[i].imm, i);
	peers_end(&t);
}

/* Of 20 the first goes alone, and the rest in runs of 8. */
static void messages_of_a_turn_go_together(void **state)
{
	unsigned int posts, cqes;
	struct peers t;
	int i;

	if (!mocked)
		skip_because("soft-RoCE does not count");
	peers_begin(&t, state);
	posts = mocked()->posts;
	cqes = mocked()->cqes;
	for (i = 0; i < 20; i++)
		send_number(&t, i, (uint32_t)i);
	assert_int_equal(mocked()->posts, posts + 1);
	all_sent(&t, 20);
	until_heard(&t, 20);
	for (i = 0; i < 20; i++)
		assert_int_equal(t.server.m[i].imm, i);
	assert_int_equal(mocked()->posts, posts + 2);
	assert_int_equal(mocked()->cqes, cqes + 20 + 4);
	send_number(&t, 0, 0);
	assert_int_equal(mocked()->posts, posts + 3);
	all_sent(&t, 1);
	peers_end(&t);
}

/* Too late, or too many in flight: its bufs are the caller's again. */
static void message_that_is_not_sent_holds_no_bufs(void **state)
{
	struct weir_message m = { .size = sizeof(m) };
	struct rec late;
	struct peers t;
	struct weir_buf *b;

	peers_begin(&t, state);
	b = peers_buf(&t, 0, 4000);
	m.buf = b;
	rec_init(&late);
	weir_op_set_deadline(&late.op, weir_reactor_now(t.r));
	STARTS(weir_message_send(t.e.client, &late.op, &m));
	assert_int_equal(finish(t.r, &late), -ETIMEDOUT);
	assert_int_equal(weir_buf_refs(b), 1);
	assert_int_equal(weir_buf_reset(b), 0);
	assert_int_equal(t.server.n, 0);
	weir_buf_put(b);
	b = peers_buf(&t, 0, 4000);
	m.buf = b;
	late.op.fn = NULL;
	assert_int_equal(weir_message_send(t.e.client, &late.op, &m), -EINVAL);
	assert_starts_with(weir_why(), "weir_message_send: the operation has");
	assert_int_equal(weir_buf_refs(b), 1);
	weir_buf_put(b);
	peers_end(&t);
}

static void sends_of_a_turn_precede_its_disconnect(void **state)
{
	struct peers t;
	int i;

	if (!mocked)
		skip_because("what soft-RoCE has posted it may flush");
	peers_begin(&t, state);
	for (i = 0; i < 5; i++)
		send_number(&t, i, 1);
	assert_int_equal(do_disconnect(&t.e, t.e.client), 0);
	for (i = 0; i < 5; i++)
		assert_int_equal(t.sent[i].res, 3);
	until_heard(&t, 5);
	peers_end(&t);
}

/* Whether the bytes that a message is about were there when it came. */
struct witness {
	struct jobs_beside *y;
	size_t len;
	int calls;
	struct weir_message m;
};

static void look_at_it(struct weir_conn *c, const struct weir_message *m,
		       void *arg)
{
	struct witness *w = arg;

	(void)c;
	w->calls++;
	w->m = *m;
	assert_memory_equal(w->y->far, w->y->t.mem, w->len);
	weir_buf_put(m->buf);
}

static void a_signal_comes_once_when_all_bytes_have_landed(void **state)
{
	static const size_t lens[] = { 8, 64, 65, 4096, 100000 };
	struct witness w;
	struct jobs_beside y;
	size_t i;

	jobs_beside_begin(&y, state, 16);
	y.t.e.client->queue->max_len = 3000;
	for (i = 0; i < N_OF(lens); i++) {
		w = (struct witness){ .y = &y, .len = lens[i] };
		weir_conn_set_message_fn(y.t.e.server, look_at_it, &w);
		memset(y.far, 0, PEERS_MEM);
		STARTS(put_there(&y, 0, 0, lens[i], WEIR_JOB_SIGNAL));
		UNTIL(y.t.r, y.j[0].calls && w.calls);
		assert_int_equal(y.j[0].res, lens[i]);
		assert_int_equal(w.calls, 1);
		assert_int_equal(w.m.flags, WEIR_MESSAGE_SIGNAL |
					    WEIR_MESSAGE_IMM);
		assert_int_equal(w.m.imm, 1000);
		assert_null(w.m.buf);
	}
	jobs_beside_end(&y);
}

/* The write has parts that wait for capacity when the message is started. */
static void a_message_does_not_overtake_writes(void **state)
{
	struct witness w;
	struct jobs_beside y;

	jobs_beside_begin(&y, state, 4);
	y.t.e.client->queue->max_len = 1000;
	w = (struct witness){ .y = &y, .len = 120000 };
	weir_conn_set_message_fn(y.t.e.server, look_at_it, &w);
	STARTS(put_there(&y, 0, 0, 60000, 0));
	STARTS(put_there(&y, 1, 60000, 60000, 0));
	send_number(&y.t, 0, 1);
	STARTS(put_there(&y, 2, 130000, 60000, 0));
	UNTIL(y.t.r, w.calls);
	UNTIL(y.t.r, y.j[0].calls && y.j[1].calls && y.j[2].calls &&
		     y.t.sent[0].calls);
	assert_int_equal(y.t.sent[0].res, 3);
	jobs_beside_end(&y);
}

#define STRIDE 17000

/* A signal of a mixture: the long write before it has landed, too. */
static void hear_mixture(struct weir_conn *c, const struct weir_message *m,
			 void *arg)
{
	struct jobs_beside *y = arg;
	size_t at;

	if (m->flags & WEIR_MESSAGE_SIGNAL) {
		at = (m->imm - 1000) / 3 * 3 * STRIDE;
		assert_memory_equal(y->far + at, y->t.mem + at, STRIDE + 8);
	}
	on_message(c, m, &y->t.server);
}

/*
 * Of one turn: 20 messages, and then by turns a long write, a short signal, a
 * long one and a message; .imm is which it was.
 */
static void start_a_mixture(struct jobs_beside *y, struct jrec *order[])
{
	static const size_t lens[] = { STRIDE, 8, 10000 };
	int i, n = 20, job = 0;

	for (i = 0; i < n; i++)
		send_number(&y->t, i, (uint32_t)i);
	for (; job < 15; job++) {
		STARTS(put_there(y, job, (size_t)job * STRIDE,
				 lens[job % 3], job % 3 ? WEIR_JOB_SIGNAL : 0));
		if (job % 3)
			order[n++] = &y->j[job];
		if (job % 3 == 2) {
			send_number(&y->t, n, (uint32_t)n);
			n++;
		}
	}
}

#define N_MIXED 35

static void jobs_and_messages_arrive_as_they_were_started(void **state)
{
	static const uint32_t capacities[] = { 64, 4 };
	struct jrec *order[N_MIXED] = { NULL };
	const struct weir_message *m;
	struct jobs_beside y;
	size_t at;
	int i;

	for (at = 0; at < N_OF(capacities); at++) {
		jobs_beside_begin(&y, state, capacities[at]);
		y.t.e.client->queue->max_len = 1000;
		weir_conn_set_message_fn(y.t.e.server, hear_mixture, &y);
		start_a_mixture(&y, order);
		until_heard(&y.t, N_MIXED);
		for (i = 0; i < N_MIXED; i++) {
			m = &y.t.server.m[i];
			assert_int_equal(m->imm, order[i] ?
					 order[i]->job.signal : (uint32_t)i);
		}
		for (i = 0; i < 15; i++)
			UNTIL(y.t.r, y.j[i].calls);
		for (i = 0; i < N_MIXED; i++)
			if (!order[i])
				UNTIL(y.t.r, y.t.sent[i].calls);
		jobs_beside_end(&y);
	}
}

static void a_signal_is_for_a_peer_and_for_bytes_its_device_reaches(
	void **state)
{
	static char plain[70000], other[70000];
	struct weir_operand there;
	struct weir_job *job;
	struct jobs_beside y;

	jobs_beside_begin(&y, state, 16);
	job = &y.j[0].job;
	jrec_init(&y.j[0]);
	weir_job_copy(job, weir_operand_mem(other, 100),
		      weir_operand_mem(plain, 100));
	job->flags = WEIR_JOB_SIGNAL;
	assert_int_equal(weir_job_start(y.dma, job), -EINVAL);
	there = weir_operand_at(y.there, (uintptr_t)y.far, sizeof(plain));
	there.ctx = &y.key;
	weir_job_copy(job, there, weir_operand_mem(plain, sizeof(plain)));
	job->flags = WEIR_JOB_SIGNAL;
	assert_int_equal(weir_job_start(y.dma, job), -EXDEV);
	assert_non_null(strstr(weir_why(), "signal"));
	weir_job_copy(job, weir_operand_mem(plain, sizeof(plain)), there);
	job->flags = WEIR_JOB_SIGNAL;
	assert_int_equal(weir_job_start(y.dma, job), -EINVAL);
	assert_int_equal(y.j[0].calls, 0);
	jobs_beside_end(&y);
}

/* A window of the server's, bound as a program without weir would. */
static struct ibv_mw *bind_window(struct jobs_beside *y)
{
	struct weir_conn *server = y->t.e.server;
	struct ibv_mw *mw =
		ibv_alloc_mw(server->device_ref->device->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW };

	assert_non_null(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = y->mr, .addr = (uintptr_t)y->far, .length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	assert_int_equal(ibv_post_send(server->qp, &wr, &bad), 0);
	mw->rkey = wr.bind_mw.rkey;
	return mw;
}

static void a_key_that_is_taken_back_is_told(void **state)
{
	struct weir_message m = { .size = sizeof(m), .data = "done", .len = 4,
				  .flags = WEIR_MESSAGE_INVALIDATE };
	struct ibv_mw *mw;
	struct jobs_beside y;

	jobs_beside_begin(&y, state, 16);
	assert_int_equal(ibv_dereg_mr(y.mr), 0);
	y.mr = ibv_reg_mr(y.t.e.server->device_ref->device->pd, y.far,
			  PEERS_MEM,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = bind_window(&y);
	y.key.rkey = m.rkey = mw->rkey;
	STARTS(put_there(&y, 0, 0, 4096, 0));
	STARTS(try_send(&y.t, y.t.e.client, 0, &m));
	all_sent(&y.t, 1);
	until_heard(&y.t, 1);
	assert_int_equal(y.j[0].res, 4096);
	assert_int_equal(y.t.server.m[0].flags, WEIR_MESSAGE_INVALIDATE);
	assert_int_equal(y.t.server.m[0].rkey, mw->rkey);
	STARTS(put_there(&y, 1, 0, 4096, 0));
	UNTIL(y.t.r, y.j[1].calls);
	assert_int_equal(y.j[1].res, -EACCES);
	until_end(&y.t, 0);
	until_end(&y.t, 1);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	jobs_beside_end(&y);
}

/* The peer waits, and loses nothing. */
static void receiver_that_keeps_buffers_holds_up_the_sender(void **state)
{
	struct peers t;
	int i, n = 40;

	peers_init(&t, state);
	t.srq_opts.recvs = 4;
	t.srq_opts.bufs = 4;
	peers_open(&t);
	t.server.keep = true;
	for (i = 0; i < n; i++)
		send_number(&t, i, (uint32_t)i);
	UNTIL(t.r, t.server.n_kept == 4);
	some_turns(t.r, 20);
	assert_int_equal(t.server.n, 4);
	assert_int_equal(srq_stats_of(t.srq).posted, 0);
	assert_true(srq_stats_of(t.srq).starved > 0);
	put_kept(&t.server);
	until_heard(&t, n);
	all_sent(&t, n);
	for (i = 0; i < n; i++)
		assert_int_equal(t.server.m[i].imm, i);
	peers_end(&t);
}

static void *put_remotely(void *arg)
{
	put_kept(arg);
	return NULL;
}

static void a_buf_may_be_put_on_another_thread(void **state)
{
	pthread_t thread;
	struct peers t;
	int i;

	peers_init(&t, state);
	t.srq_opts.recvs = 2;
	t.srq_opts.bufs = 2;
	peers_open(&t);
	t.server.keep = true;
	for (i = 0; i < 6; i++)
		send_number(&t, i, (uint32_t)i);
	UNTIL(t.r, t.server.n_kept == 2);
	assert_int_equal(pthread_create(&thread, NULL, put_remotely, &t.server),
			 0);
	pthread_join(thread, NULL);
	until_heard(&t, 6);
	all_sent(&t, 6);
	peers_end(&t);
}

/* As many connections as there are, one queue. */
static void message_arrives_at_its_own_connection(void **state)
{
	enum { PAIRS = 5 };
	struct weir_conn *c[PAIRS], *s[PAIRS];
	struct heard *heard = calloc(PAIRS, sizeof(*heard));
	struct peers t;
	int i, k;

	peers_init(&t, state);
	t.srq_opts.recvs = 8;
	peers_create(&t);
	for (i = 0; i < PAIRS; i++) {
		if (i)
			assert_int_equal(weir_conn_create(&t.e.client, t.r,
						NULL, &t.e.opts), 0);
		ends_establish(&t.e);
		c[i] = t.e.client;
		s[i] = t.e.server;
		weir_conn_set_message_fn(s[i], on_message, &heard[i]);
	}
	assert_int_equal(srq_stats_of(t.srq).users, 2 * PAIRS + 1);
	for (k = 0; k < 8; k++)
		for (i = 0; i < PAIRS; i++) {
			t.e.client = c[i];
			send_number(&t, i * 8 + k, (uint32_t)(i * 100 + k));
		}
	all_sent(&t, 8 * PAIRS);
	for (i = 0; i < PAIRS; i++) {
		UNTIL(t.r, heard[i].n == 8);
		for (k = 0; k < 8; k++)
			assert_int_equal(heard[i].m[k].imm, i * 100 + k);
	}
	for (i = 0; i + 1 < PAIRS; i++) {
		assert_int_equal(weir_conn_destroy(c[i]), 0);
		assert_int_equal(weir_conn_destroy(s[i]), 0);
	}
	free(heard);
	peers_end(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(messages_arrive_in_order_with_all_their_bytes),
		CASE(a_list_of_bufs_is_one_message),
		CASE(messages_go_both_ways),
		CASE(sends_beyond_the_capacity_wait),
		CASE(messages_of_a_turn_go_together),
		CASE(message_that_is_not_sent_holds_no_bufs),
		CASE(sends_of_a_turn_precede_its_disconnect),
		CASE(a_signal_comes_once_when_all_bytes_have_landed),
		CASE(a_message_does_not_overtake_writes),
		CASE(jobs_and_messages_arrive_as_they_were_started),
		CASE(a_signal_is_for_a_peer_and_for_bytes_its_device_reaches),
		CASE(a_key_that_is_taken_back_is_told),
		CASE(receiver_that_keeps_buffers_holds_up_the_sender),
		CASE(a_buf_may_be_put_on_another_thread),
		CASE(message_arrives_at_its_own_connection),
	};

	return run_over_rdma(cases, N_OF(cases));
}
