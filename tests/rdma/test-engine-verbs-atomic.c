/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Atomics at a peer: each is done once, tells what was there, and needs its
 * right; and where a word would not be atomic to all, it is refused.
 */

#include "tests/support/verbs-fixture.h"

#include <weir/chain.h>
#include <weir/export.h>
#include <weir/route.h>

#include "base/fault.h"
#include "mem/device-internal.h"

#define N 48

/* The @i-th word there. */
static uint64_t *word(struct wire *l, int i)
{
	return (uint64_t *)(void *)l->far + i;
}

static struct weir_operand word_at(struct wire *l, int i)
{
	return far_at(l, 8 * (uint64_t)i, 8);
}

static int64_t add(struct wire *l, struct weir_operand operand, uint64_t n)
{
	jrec_init(&l->j[0]);
	weir_job_fetch_add(&l->j[0].job, operand, n);
	return jrec_run(l->dma, &l->j[0]);
}

static uint64_t shadow(struct wire *l, int i)
{
	uint64_t n;

	memcpy(&n, l->far_shadow + 8 * i, 8);
	return n;
}

static void set_shadow(struct wire *l, int i, uint64_t n)
{
	memcpy(l->far_shadow + 8 * i, &n, 8);
}

static void a_word_there_is_added_to_and_swapped(void **state)
{
	struct weir_job_route route = { .size = sizeof(route) };
	uint64_t was;
	struct wire l;

	wire_begin(&l, state);
	was = shadow(&l, 5);
	assert_int_equal(add(&l, word_at(&l, 5), 7), 8);
	assert_true(weir_job_old(&l.j[0].job) == was);
	set_shadow(&l, 5, was + 7);
	assert_is_shadow(&l);
	assert_int_equal(weir_job_get_route(&l.j[0].job, &route), 0);
	assert_int_equal(route.route, WEIR_ROUTE_DIRECT);
	assert_string_equal(route.engine, "verbs");
	jrec_init(&l.j[0]);
	weir_job_compare_swap(&l.j[0].job, word_at(&l, 5), was + 7, 99);
	assert_int_equal(jrec_run(l.dma, &l.j[0]), 8);
	assert_true(weir_job_old(&l.j[0].job) == was + 7);
	assert_int_equal(jrec_run(l.dma, &l.j[0]), 8);
	assert_true(weir_job_old(&l.j[0].job) == 99);
	set_shadow(&l, 5, 99);
	assert_is_shadow(&l);
	wire_end(&l);
}

/* Beside reads and writes, of which there are few at once. */
static void each_is_done_once(void **state, uint32_t sends, uint32_t reads)
{
	struct wire l;
	int i, k = 0;

	wire_init(&l, state);
	l.e.opts.sends = sends;
	l.e.opts.reads = reads;
	wire_open(&l);
	set_shadow(&l, 1, 0);
	*word(&l, 1) = 0;
	for (i = 0; i < N; i++) {
		jrec_init(&l.j[i]);
		if (i % 4 == 3) {
			start_read(&l, i, 4096 + (uint64_t)i * 64, 64);
			continue;
		}
		weir_job_fetch_add(&l.j[i].job, word_at(&l, 1), 1);
		STARTS(weir_job_start(l.dma, &l.j[i].job));
		assert_true(l.c->queue->reads <= reads);
	}
	wait_for(&l, N);
	for (i = 0; i < N; i++) {
		assert_int_equal(l.j[i].res, i % 4 == 3 ? 64 : 8);
		if (i % 4 == 3)
			memcpy(l.near_shadow + 4096 + i * 64,
			       l.far_shadow + 4096 + i * 64, 64);
		else
			assert_true(weir_job_old(&l.j[i].job) == (uint64_t)k++);
	}
	set_shadow(&l, 1, (uint64_t)k);
	assert_is_shadow(&l);
	wire_end(&l);
}

static void verbs_atomics_are_each_done_once(void **state)
{
	each_is_done_once(state, 64, 16);
}

static void a_window_of_two_is_enough(void **state)
{
	each_is_done_once(state, 16, 2);
}

static void a_window_of_one_is_enough(void **state)
{
	each_is_done_once(state, 1, 1);
}

/* It keeps their answers where it keeps those of reads. */
static void no_more_are_under_way_than_the_peer_takes(void **state)
{
	const struct verbs_queue *q;
	struct wire l;
	int i;

	wire_init(&l, state);
	l.e.opts.reads = 2;
	wire_open(&l);
	q = l.c->queue;
	for (i = 0; i < 8; i++) {
		jrec_init(&l.j[i]);
		weir_job_fetch_add(&l.j[i].job, word_at(&l, 1), 1);
		STARTS(weir_job_start(l.dma, &l.j[i].job));
	}
	start_read(&l, 8, 4096, 64);
	weir_dma_flush(l.dma);
	assert_int_equal(q->reads, 2);
	assert_int_equal(q->tail - q->head, 2);
	start_write(&l, 9, 8192, 64);
	assert_int_equal(q->tail - q->head, 3);
	wait_for(&l, 10);
	assert_int_equal(q->reads, 0);
	wire_end(&l);
}

/* And its first words. */
static void import_words(struct wire *l, struct import *im, uint32_t rights)
{
	import_far(l, im, rights);
	assert_int_equal(weir_inventory_get(&im->buf, l->inv, im->m, l->far,
					    4096, l->far, 4096), 0);
}

static struct weir_operand word_of(const struct import *im, int i)
{
	struct weir_operand operand = weir_operand_buf(im->buf);

	operand.addr = 8 * (uint64_t)i;
	operand.len = 8;
	return operand;
}

static void atomic_access_has_a_right_of_its_own(void **state)
{
	struct import im;
	struct wire l;

	wire_begin(&l, state);
	import_words(&l, &im, WEIR_MMAP_RDMA_ATOMIC);
	set_shadow(&l, 9, shadow(&l, 9) + 1);
	assert_int_equal(add(&l, word_of(&im, 9), 1), 8);
	assert_is_shadow(&l);
	jrec_init(&l.j[0]);
	weir_job_copy(&l.j[0].job, weir_operand_buf(im.buf),
		      weir_operand_mem(l.near, 8));
	assert_int_equal(weir_job_start(l.dma, &l.j[0].job), -EACCES);
	import_end(&l, &im);
	import_words(&l, &im, WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE);
	weir_job_fetch_add(&l.j[0].job, word_of(&im, 9), 1);
	assert_int_equal(weir_job_start(l.dma, &l.j[0].job), -EACCES);
	weir_job_fetch_add(&l.j[0].job, word_at(&l, 0), 1);
	l.j[0].job.dst.addr += 4;
	assert_int_equal(weir_job_start(l.dma, &l.j[0].job), -EINVAL);
	import_end(&l, &im);
	assert_is_shadow(&l);
	wire_end(&l);
}

static void until_ended(struct wire *l)
{
	UNTIL(l->r, l->e.n_ends[0]);
}

static void a_wrong_key_changes_nothing(void **state)
{
	struct weir_remote_key key;
	struct wire l;
	int i;

	wire_begin(&l, state);
	key = l.key;
	key.rkey ^= 0x5a5a00;
	for (i = 0; i < 8; i++) {
		jrec_init(&l.j[i]);
		weir_job_fetch_add(&l.j[i].job, word_at(&l, 1), 1);
		if (i == 3)
			l.j[i].job.dst.ctx = &key;
		STARTS(weir_job_start(l.dma, &l.j[i].job));
	}
	wait_for(&l, 8);
	for (i = 0; i < 8; i++)
		assert_int_equal(l.j[i].res, i < 3 ? 8 :
					     i > 3 ? -ECANCELED : -EACCES);
	assert_int_equal(l.j[3].detail.bytes, 0);
	until_ended(&l);
	set_shadow(&l, 1, shadow(&l, 1) + 3);
	assert_is_shadow(&l);
	wire_end(&l);
}

/* Data first, then the word that says so. */
static void a_chain_signals_by_one(void **state)
{
	struct weir_chain *chain = NULL;
	struct weir_job data, signal;
	struct rec rec;
	struct wire l;
	int i;

	wire_begin(&l, state);
	weir_job_init(&data, NULL);
	weir_job_init(&signal, NULL);
	weir_job_copy(&data, far_at(&l, 4096, 64),
		      weir_operand_mem(l.near, 64));
	weir_job_fetch_add(&signal, word_at(&l, 0), 1);
	rec_init(&rec);
	assert_int_equal(weir_chain_create(&chain, l.r, NULL), 0);
	assert_int_equal(weir_chain_add_job(chain, -1, l.dma, &data), 0);
	assert_int_equal(weir_chain_add_job(chain, 0, l.dma, &signal), 1);
	for (i = 0; i < 3; i++) {
		STARTS(weir_chain_start(chain, &rec.op));
		assert_int_equal(finish(l.r, &rec), 2);
		set_shadow(&l, 0, shadow(&l, 0) + 1);
		memcpy(l.far_shadow + 4096, l.near, 64);
		assert_is_shadow(&l);
	}
	assert_int_equal(weir_chain_destroy(chain), 0);
	wire_end(&l);
}

static void posted_atomic_is_done_although_cancelled(void **state)
{
	struct wire l;
	int i;

	if (!mocked)
		skip_because("soft-RoCE does not wait to be told");
	wire_init(&l, state);
	l.e.opts.sends = 1;
	wire_open(&l);
	mock_hold(true);
	for (i = 0; i < 2; i++) {
		jrec_init(&l.j[i]);
		weir_job_fetch_add(&l.j[i].job, word_at(&l, 1), 1);
		STARTS(weir_job_start(l.dma, &l.j[i].job));
	}
	weir_dma_flush(l.dma);
	weir_op_cancel(&l.j[1].job.op);
	weir_op_cancel(&l.j[0].job.op);
	UNTIL(l.r, l.j[1].calls);
	assert_int_equal(l.j[1].res, -ECANCELED);
	assert_int_equal(l.j[0].calls, 0);
	mock_hold(false);
	wait_for(&l, 2);
	assert_int_equal(l.j[0].res, 8);
	assert_true(weir_job_old(&l.j[0].job) == shadow(&l, 1));
	set_shadow(&l, 1, shadow(&l, 1) + 1);
	assert_is_shadow(&l);
	wire_end(&l);
}

/* Twice: what was refused leaves nothing behind. */
static void words_that_are_not_registered_are_refused(void **state)
{
	struct wire l;
	int i, err = 1;

	wire_begin(&l, state);
	for (i = 0; err; i++) {
		jrec_init(&l.j[0]);
		weir_job_fetch_add(&l.j[0].job, word_at(&l, 1), 1);
		fault_arm(i);
		err = weir_job_start(l.dma, &l.j[0].job);
		fault_disarm();
		assert_int_equal(err, i < 2 ? -ENOMEM : 0);
	}
	wait_for(&l, 1);
	assert_int_equal(l.j[0].res, 8);
	wire_end(&l);
}

static void explain(struct wire *l, int err, const char *part)
{
	char text[1024];

	assert_int_equal(weir_route_explain(l->dma, &l->j[0].job, text,
					    sizeof(text)), err);
	if (!strstr(text, part))
		fail_msg("no '%s' in: %s", part, text);
	/* It is linked. */
	assert_null(strstr(text, "link libweir-rdma"));
}

static void a_device_that_does_none_is_said_to(void **state)
{
	struct ibv_device_attr *attr;
	enum ibv_atomic_cap cap;
	struct wire l;

	wire_begin(&l, state);
	attr = &l.c->device_ref->device->attr;
	cap = attr->atomic_cap;
	attr->atomic_cap = IBV_ATOMIC_NONE;
	jrec_init(&l.j[0]);
	weir_job_fetch_add(&l.j[0].job, word_at(&l, 0), 1);
	assert_int_equal(weir_job_start(l.dma, &l.j[0].job), -EXDEV);
	explain(&l, -EXDEV, "verbs: the device of the connection does no "
		"atomics");
	attr->atomic_cap = cap;
	wire_end(&l);
}

/* Peers come by the device, we by the processor. */
static int add_here_too(struct wire *l, uint32_t rights)
{
	struct weir_buf *b = NULL;
	struct weir_mmap *m;
	int err;

	m = start_mmap(l->far, 4096, WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_add_device(m, l->dev), 0);
	assert_int_equal(weir_mmap_set_permissions(m, rights | WEIR_MMAP_WRITE),
			 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_inventory_attach(l->inv, m), 0);
	assert_int_equal(weir_inventory_get(&b, l->inv, m, l->far, 8, l->far,
					    8), 0);
	jrec_init(&l->j[0]);
	weir_job_fetch_add(&l->j[0].job, weir_operand_buf(b), 1);
	err = weir_job_start(l->dma, &l->j[0].job);
	if (err)
		explain(l, err, "not direct: peers may do atomics there, by a "
			"device whose atomics are not atomic to the processor");
	else
		assert_int_equal(jrec_finish(l->r, &l->j[0]), 8);
	weir_buf_put(b);
	assert_int_equal(weir_inventory_detach(l->inv, m), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

static void ours_and_a_peers_are_not_mixed_where_that_is_none(void **state)
{
	struct wire l;
	uint32_t caps;

	wire_begin(&l, state);
	assert_int_equal(add_here_too(&l, WEIR_MMAP_RDMA_ATOMIC), -EXDEV);
	assert_int_equal(add_here_too(&l, WEIR_MMAP_RDMA_WRITE), 0);
	caps = l.dev->info.caps.caps;
	l.dev->info.caps.caps |= WEIR_DEVICE_CAP_ATOMIC_ALL;
	assert_int_equal(add_here_too(&l, WEIR_MMAP_RDMA_ATOMIC), 0);
	l.dev->info.caps.caps = caps;
	wire_end(&l);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_word_there_is_added_to_and_swapped),
		CASE(verbs_atomics_are_each_done_once),
		CASE(a_window_of_two_is_enough),
		CASE(a_window_of_one_is_enough),
		CASE(no_more_are_under_way_than_the_peer_takes),
		CASE(atomic_access_has_a_right_of_its_own),
		CASE(a_wrong_key_changes_nothing),
		CASE(a_chain_signals_by_one),
		CASE(posted_atomic_is_done_although_cancelled),
		CASE(words_that_are_not_registered_are_refused),
		CASE(a_device_that_does_none_is_said_to),
		CASE(ours_and_a_peers_are_not_mixed_where_that_is_none),
	};

	return run_over_rdma(cases, N_OF(cases));
}
