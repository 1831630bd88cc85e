/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The verbs engine, when something goes wrong: each job ends once, the first
 * with the true cause and the others as flushed, and what it says of the bytes
 * is so; B3.5.
 */


#include <weir/rdma/device.h>
#include "tests/support/verbs-fixture.h"

#include "base/fault.h"

#define N 8
#define LEN 5000u
#define AT(i) ((uint64_t)(i) * 6000)

static int need_mock(const char *why_not)
{
	if (!mocked)
		skip_because("%s", why_not);
	return 1;
}

/* Jobs 0 to N - 1, of which the one numbered @bad has the wrong key. */
static void start_with_bad(struct wire *l, int bad, struct weir_remote_key *key)
{
	int i;

	for (i = 0; i < N; i++) {
		if (i != bad) {
			start_write(l, i, AT(i), LEN);
			continue;
		}
		key->rkey = l->key.rkey ^ 0x5a5a00;
		jrec_init(&l->j[i]);
		weir_job_copy(&l->j[i].job, far_at(l, AT(i), 64),
			      weir_operand_mem(l->near + AT(i), 64));
		l->j[i].job.dst.ctx = key;
		STARTS(weir_job_start(l->dma, &l->j[i].job));
	}
}

static void until_ended(struct wire *l)
{
	UNTIL(l->r, l->e.n_ends[0]);
	assert_int_equal(l->e.n_ends[0], 1);
	assert_int_equal(weir_conn_state(l->c), WEIR_CONN_ENDED);
}

static void nothing_starts_any_more(struct wire *l)
{
	jrec_init(&l->j[63]);
	weir_job_copy(&l->j[63].job, far_at(l, 0, 8),
		      weir_operand_mem(l->near, 8));
	assert_int_equal(weir_job_start(l->dma, &l->j[63].job), -ENOTCONN);
}

/* From @first on; it has the cause. */
static void assert_failed_from(struct wire *l, int first, int n, int err,
			       int code)
{
	int i;

	for (i = 0; i < n; i++) {
		if (i < first) {
			assert_int_equal(l->j[i].res, LEN);
			assert_memory_equal(l->far + AT(i), l->near + AT(i),
					    LEN);
			continue;
		}
		assert_int_equal(l->j[i].res, i == first ? err : -ECANCELED);
		assert_int_equal(l->j[i].detail.code,
				 i == first ? code : IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(l->j[i].detail.bytes, 0);
	}
}

static void the_first_has_the_cause_and_the_rest_is_flushed(void **state)
{
	struct weir_remote_key key = { 0 };
	struct wire l;

	wire_begin(&l, state);
	start_with_bad(&l, 3, &key);
	wait_for(&l, N);
	assert_failed_from(&l, 3, N, -EACCES, IBV_WC_REM_ACCESS_ERR);
	until_ended(&l);
	assert_int_equal(l.e.why[0], -EIO);
	nothing_starts_any_more(&l);
	assert_memory_equal(l.far + AT(4), l.far_shadow + AT(4), LEN);
	wire_end(&l);
}

/* Most never got into the send queue. */
static void jobs_that_wait_for_capacity_are_flushed(void **state)
{
	struct weir_remote_key key = { 0 };
	struct wire l;

	wire_init(&l, state);
	l.e.opts.sends = 2;
	wire_open(&l);
	start_with_bad(&l, 1, &key);
	wait_for(&l, N);
	assert_failed_from(&l, 1, N, -EACCES, IBV_WC_REM_ACCESS_ERR);
	until_ended(&l);
	wire_end(&l);
}

static void a_revoked_key_is_an_error_and_changes_nothing(void **state)
{
	struct wire l;
	int i;

	wire_begin(&l, state);
	wire_revoke(&l);
	for (i = 0; i < N; i++)
		start_write(&l, i, AT(i), LEN);
	wait_for(&l, N);
	assert_failed_from(&l, 0, N, -EACCES, IBV_WC_REM_ACCESS_ERR);
	until_ended(&l);
	assert_is_shadow(&l);
	wire_end(&l);
}

static void job_one_byte_too_far_is_an_error(void **state)
{
	struct wire l;

	wire_begin(&l, state);
	jrec_init(&l.j[0]);
	weir_job_copy(&l.j[0].job, far_at(&l, FAR - 63, 64),
		      weir_operand_mem(l.near, 64));
	assert_int_equal(jrec_run(l.dma, &l.j[0]), -EACCES);
	assert_int_equal(l.j[0].detail.code, IBV_WC_REM_ACCESS_ERR);
	until_ended(&l);
	assert_is_shadow(&l);
	wire_end(&l);
}

static void a_cut_link_is_noticed_by_the_work(void **state)
{
	struct wire l;
	int i;

	need_mock("who cuts the link is not this program");
	wire_begin(&l, state);
	mock_set_link(MOCK_LOST);
	for (i = 0; i < N; i++)
		start_write(&l, i, AT(i), LEN);
	wait_for(&l, N);
	mock_set_link(MOCK_UP);
	assert_failed_from(&l, 0, N, -ETIMEDOUT, IBV_WC_RETRY_EXC_ERR);
	until_ended(&l);
	assert_int_equal(l.e.why[0], -ECONNRESET);
	assert_is_shadow(&l);
	wire_end(&l);
}

/* The device says so by itself; nobody knows the cause. */
static void a_qp_that_breaks_ends_all_that_is_under_way(void **state)
{
	struct wire l;
	int i;

	need_mock("soft-RoCE breaks when it wants");
	wire_begin(&l, state);
	mock_hold(true);
	for (i = 0; i < N; i++)
		start_read(&l, i, AT(i), LEN);
	weir_dma_flush(l.dma);
	mock_break(l.c->qp);
	mock_hold(false);
	wait_for(&l, N);
	for (i = 0; i < N; i++)
		assert_int_equal(l.j[i].res, -ECANCELED);
	until_ended(&l);
	assert_int_equal(l.e.why[0], -EIO);
	wire_end(&l);
}

/* Of what is in flight nothing will be told any more. */
static void a_lost_completion_queue_ends_all_that_is_under_way(void **state)
{
	struct wire l;
	int i;

	need_mock("soft-RoCE does not lose completion queues");
	wire_init(&l, state);
	l.e.opts.sends = 4;
	wire_open(&l);
	mock_hold(true);
	for (i = 0; i < N; i++)
		start_read(&l, i, AT(i), LEN);
	weir_dma_flush(l.dma);
	mock_overrun(weir_channel_cq(l.c->channel));
	wait_for(&l, N);
	for (i = 0; i < N; i++)
		assert_int_equal(l.j[i].res, i ? -ECANCELED : -EIO);
	until_ended(&l);
	mock_hold(false);
	wire_end(&l);
}

/* By when all is known: each of the library's own was told before. */
static void user_is_told(struct weir_channel *ch, int err, void *arg)
{
	struct wire *l = arg;

	assert_ptr_equal(ch, l->given);
	assert_int_equal(err, -EIO);
	assert_int_equal(l->c->posted, 0);
	assert_int_equal(weir_conn_state(l->c), WEIR_CONN_CLOSING);
	l->key.reserved++;
}

/* Whoever has made it: it is the work that is lost. */
static void overrun_of_a_queue_of_the_user_ends_its_jobs(void **state)
{
	struct weir_channel_opts opts = { .size = sizeof(opts),
					  .failed = user_is_told };
	struct weir_device *dev = NULL;
	struct wire l;
	int i;

	need_mock("soft-RoCE does not lose completion queues");
	wire_init(&l, state);
	assert_int_equal(weir_device_open_name(&dev, "mock_mlx5"), 0);
	opts.arg = &l;
	opts.depth = 1024;
	assert_int_equal(weir_channel_create(&l.given, l.r,
					     weir_device_verbs(dev), &opts),
			 0);
	l.e.others = true;
	l.e.opts.sends = 4;
	wire_open(&l);
	mock_hold(true);
	for (i = 0; i < N; i++)
		start_read(&l, i, AT(i), LEN);
	weir_dma_flush(l.dma);
	mock_overrun(weir_channel_cq(l.given));
	wait_for(&l, N);
	for (i = 0; i < N; i++)
		assert_int_equal(l.j[i].res, i ? -ECANCELED : -EIO);
	until_ended(&l);
	assert_int_equal(l.e.why[0], -EIO);
	assert_int_equal(l.key.reserved, 1);
	mock_hold(false);
	assert_is_shadow(&l);
	wire_end(&l);
	assert_int_equal(weir_channel_destroy(l.given), 0);
	assert_int_equal(weir_device_close(dev), 0);
}

/* Bytes of a failed job are its beginning. */
static void failed_job_knows_exactly_the_bytes_done(void **state)
{
	struct iovec iov[3];
	struct wire l;

	wire_begin(&l, state);
	l.c->queue->max_len = 1000;
	iov[0] = (struct iovec){ l.far, 2500 };
	iov[1] = (struct iovec){ l.far + 3000, 700 };
	iov[2] = (struct iovec){ l.far + FAR, 800 };
	jrec_init(&l.j[0]);
	l.j[0].job.kind = WEIR_JOB_COPY;
	l.j[0].job.src = weir_operand_buf(near_buf(&l, 0, 4000, true));
	l.j[0].job.dst = weir_operand_iov(l.there, iov, 3);
	l.j[0].job.dst.ctx = &l.key;
	assert_int_equal(jrec_run(l.dma, &l.j[0]), -EACCES);
	assert_int_equal(l.j[0].detail.bytes, 3200);
	assert_memory_equal(l.far, l.near, 2500);
	assert_memory_equal(l.far + 3000, l.near + 2500, 700);
	weir_buf_put(l.j[0].job.src.buf);
	until_ended(&l);
	wire_end(&l);
}

static struct jrec *first_ended;

static void note_end(struct weir_op *op, int64_t res)
{
	if (!first_ended)
		first_ended = weir_container_of(op, struct jrec, job.op);
	jrec_done(op, res);
}

/* Though it has parts behind those of others, and others are between blocks. */
static void job_with_the_cause_ends_first(void **state)
{
	static char mem[200000];
	struct iovec iov[3];
	struct wire l;
	int i;

	wire_begin(&l, state);
	l.c->queue->max_len = 1000;
	iov[0] = (struct iovec){ l.far, 2500 };
	iov[1] = (struct iovec){ l.far + FAR, 800 };
	iov[2] = (struct iovec){ l.far + 3000, 9000 };
	first_ended = NULL;
	for (i = 0; i < 3; i++) {
		jrec_init(&l.j[i]);
		weir_job_copy(&l.j[i].job, far_at(&l, 1 << 20, sizeof(mem)),
			      weir_operand_mem(mem, sizeof(mem)));
		l.j[i].job.op.fn = note_end;
		if (i == 0) {
			l.j[i].job.src =
				weir_operand_buf(near_buf(&l, 0, 12300, true));
			l.j[i].job.dst = weir_operand_iov(l.there, iov, 3);
			l.j[i].job.dst.ctx = &l.key;
		}
		STARTS(weir_job_start(l.dma, &l.j[i].job));
	}
	wait_for(&l, 3);
	assert_ptr_equal(first_ended, &l.j[0]);
	assert_int_equal(l.j[0].res, -EACCES);
	assert_int_equal(l.j[0].detail.bytes, 2500);
	for (i = 1; i < 3; i++) {
		assert_int_equal(l.j[i].res, -ECANCELED);
		assert_int_equal(l.j[i].detail.code, IBV_WC_WR_FLUSH_ERR);
	}
	weir_buf_put(l.j[0].job.src.buf);
	until_ended(&l);
	wire_end(&l);
}

/* The device has given up on one, but the end of the connection is heard first,
 * and others still wait for capacity. */
static void a_goodbye_does_not_overtake_the_cause(void **state)
{
	struct wire l;
	int i;

	need_mock("a peer says goodbye in time to be overtaken");
	wire_init(&l, state);
	l.e.opts.sends = 2;
	wire_open(&l);
	mock_kill(l.peer->qp);
	first_ended = NULL;
	for (i = 0; i < 6; i++) {
		start_write(&l, i, (uint64_t)i * LEN, LEN);
		l.j[i].job.op.fn = note_end;
	}
	weir_dma_flush(l.dma);
	conn_fail(l.c, 0);
	verbs_pump(l.c->queue);
	wait_for(&l, 6);
	assert_ptr_equal(first_ended, &l.j[0]);
	assert_int_equal(l.j[0].res, -ETIMEDOUT);
	for (i = 1; i < 6; i++) {
		assert_int_equal(l.j[i].res, -ECANCELED);
		assert_int_equal(l.j[i].detail.code, IBV_WC_WR_FLUSH_ERR);
	}
	until_ended(&l);
	wire_end(&l);
}

/* What is posted cannot be recalled, and may well be done. */
static void a_cancel_waits_for_what_is_posted(void **state)
{
	struct wire l;

	need_mock("soft-RoCE does not wait to be told");
	wire_begin(&l, state);
	mock_hold(true);
	start_write(&l, 0, 0, LEN);
	weir_dma_flush(l.dma);
	weir_op_cancel(&l.j[0].job.op);
	some_turns(l.r, 5);
	assert_int_equal(l.j[0].calls, 0);
	mock_step(1);
	wait_for(&l, 1);
	assert_int_equal(l.j[0].res, LEN);
	assert_memory_equal(l.far, l.near, LEN);
	mock_hold(false);
	wire_end(&l);
}

static void a_cancel_ends_the_rest_of_a_long_job(void **state)
{
	struct wire l;

	need_mock("soft-RoCE does not wait to be told");
	wire_init(&l, state);
	l.e.opts.sends = 4;
	wire_open(&l);
	l.c->queue->max_len = 1000;
	mock_hold(true);
	start_write(&l, 0, 0, 20000);
	start_write(&l, 1, 30000, 20000);
	weir_dma_flush(l.dma);
	weir_op_cancel(&l.j[0].job.op);
	weir_op_cancel(&l.j[1].job.op);
	UNTIL(l.r, l.j[1].calls);
	assert_int_equal(l.j[1].res, -ECANCELED);
	assert_int_equal(l.j[1].detail.bytes, 0);
	assert_int_equal(l.j[0].calls, 0);
	mock_hold(false);
	wait_for(&l, 1);
	assert_int_equal(l.j[0].res, -ECANCELED);
	assert_int_equal(l.j[0].detail.bytes, 4000);
	assert_memory_equal(l.far, l.near, 4000);
	memcpy(l.far_shadow, l.near, 4000);
	assert_is_shadow(&l);
	wire_end(&l);
}

static void a_deadline_is_a_cancel_at_a_time(void **state)
{
	struct wire l;

	need_mock("soft-RoCE does not wait to be told");
	wire_init(&l, state);
	l.e.opts.sends = 1;
	wire_open(&l);
	mock_hold(true);
	start_write(&l, 0, 0, LEN);
	start_write(&l, 1, 30000, LEN);
	assert_int_equal(weir_op_set_deadline(&l.j[1].job.op, 1), 0);
	UNTIL(l.r, l.j[1].calls);
	assert_int_equal(l.j[1].res, -ETIMEDOUT);
	mock_hold(false);
	wait_for(&l, 2);
	assert_int_equal(l.j[0].res, LEN);
	wire_end(&l);
}

/* The link is as good as cut, and the QP retries for ever. */
static void begin_stalled(struct wire *l, void **state, uint64_t grace_ns,
			  uint64_t stall_ns)
{
	need_mock("who cuts the link is not this program");
	wire_init(l, state);
	/* A keepalive would end the connection, or be the time of the check. */
	l->e.opts.keepalive_ns = WEIR_FOREVER;
	l->e.opts.grace_ns = grace_ns;
	l->e.opts.stall_ns = stall_ns;
	wire_open(l);
	mock_set_link(MOCK_STALLED);
}

static void assert_flushed(struct wire *l, int i, int64_t err)
{
	assert_int_equal(l->j[i].res, err);
	assert_int_equal(l->j[i].detail.code, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(l->j[i].detail.bytes, 0);
}

static void deadline_and_grace_end_posted_jobs(void **state)
{
	struct wire l;

	begin_stalled(&l, state, WEIR_MSEC, WEIR_FOREVER);
	start_write(&l, 0, 0, LEN);
	start_read(&l, 1, 30000, LEN);
	assert_int_equal(weir_op_set_deadline(&l.j[0].job.op, 1), 0);
	wait_for(&l, 2);
	assert_flushed(&l, 0, -ETIMEDOUT);
	assert_flushed(&l, 1, -ECANCELED);
	until_ended(&l);
	assert_int_equal(l.e.why[0], -ETIMEDOUT);
	mock_set_link(MOCK_UP);
	assert_is_shadow(&l);
	wire_end(&l);
}

static void stop_ends_posted_jobs_after_grace(void **state)
{
	struct rec stop;
	struct wire l;

	begin_stalled(&l, state, WEIR_MSEC, WEIR_FOREVER);
	start_write(&l, 0, 0, LEN);
	weir_dma_flush(l.dma);
	rec_init(&stop);
	STARTS(weir_dma_stop(l.dma, &stop.op));
	assert_int_equal(finish(l.r, &stop), 0);
	wait_for(&l, 1);
	assert_flushed(&l, 0, -ECANCELED);
	until_ended(&l);
	mock_set_link(MOCK_UP);
	wire_end(&l);
}

/* Three writes that the device has, and does when it is told: mock_step(). */
static void begin_held(struct wire *l, void **state, uint64_t grace_ns,
		       uint64_t stall_ns)
{
	int i;

	need_mock("soft-RoCE does not wait to be told");
	wire_init(l, state);
	l->e.opts.grace_ns = grace_ns;
	l->e.opts.stall_ns = stall_ns;
	wire_open(l);
	mock_hold(true);
	for (i = 0; i < 3; i++)
		start_write(l, i, AT(i), LEN);
	weir_dma_flush(l->dma);
}

/* The peer answers late, but it answers: the connection stays. */
static void grace_passes(struct wire *l)
{
	weir_timer_start(l->c->queue->grace, weir_reactor_now(l->r), 0);
	some_turns(l->r, 3);
}

static void grace_begins_anew_when_work_ends(void **state)
{
	struct wire l;
	int i;

	begin_held(&l, state, 3600 * WEIR_SEC, WEIR_FOREVER);
	weir_op_cancel(&l.j[2].job.op);
	assert_int_equal(l.c->queue->cut, 3);
	for (i = 0; i < 2; i++) {
		mock_step(1);
		UNTIL(l.r, l.j[i].calls);
		grace_passes(&l);
		assert_int_equal(weir_conn_state(l.c), WEIR_CONN_ESTABLISHED);
	}
	mock_step(1);
	wait_for(&l, 3);
	assert_int_equal(l.j[2].res, LEN);
	grace_passes(&l);
	assert_int_equal(weir_conn_state(l.c), WEIR_CONN_ESTABLISHED);
	mock_hold(false);
	wire_end(&l);
}

static void stalled_work_ends_connection_without_keepalive(void **state)
{
	struct wire l;

	begin_stalled(&l, state, WEIR_FOREVER, WEIR_MSEC);
	start_write(&l, 0, 0, LEN);
	wait_for(&l, 1);
	assert_flushed(&l, 0, -ECANCELED);
	until_ended(&l);
	assert_int_equal(l.e.why[0], -ETIMEDOUT);
	mock_set_link(MOCK_UP);
	wire_end(&l);
}

/* The device completes a job now and then: this peer is slow, not gone. */
static void stall_is_counted_from_the_last_completion(void **state)
{
	struct wire l;
	int i;

	begin_held(&l, state, WEIR_FOREVER, 60 * WEIR_SEC);
	for (i = 0; i < 3; i++) {
		l.c->moved_ns -= 60 * WEIR_SEC;
		mock_step(1);
		UNTIL(l.r, l.j[i].calls);
		conn_timer(l.c->timer, 1, l.c);
		assert_int_equal(weir_conn_state(l.c), WEIR_CONN_ESTABLISHED);
		conn_timer(l.c->timer, 1, l.c);
		assert_int_equal(weir_conn_state(l.c), WEIR_CONN_ESTABLISHED);
	}
	wait_for(&l, 3);
	mock_hold(false);
	wire_end(&l);
}

/* Its job has ended, but the device still writes to staging. */
static void staging_that_is_read_into_is_in_quarantine(void **state)
{
	struct weir_dma_stats s = { .size = sizeof(s) };
	static char mem[LEN];
	struct wire l;

	need_mock("soft-RoCE does not wait to be told");
	wire_begin(&l, state);
	mock_hold(true);
	jrec_init(&l.j[0]);
	weir_job_copy(&l.j[0].job, weir_operand_mem(mem, LEN),
		      far_at(&l, 0, LEN));
	STARTS(weir_job_start(l.dma, &l.j[0].job));
	weir_dma_flush(l.dma);
	weir_op_cancel(&l.j[0].job.op);
	wait_for(&l, 1);
	assert_int_equal(l.j[0].res, -ECANCELED);
	assert_int_equal(weir_dma_stats(l.dma, &s), 0);
	assert_int_equal(s.quarantined, 1);
	some_turns(l.r, 3);
	assert_int_equal(weir_dma_destroy(l.dma), -EBUSY);
	assert_int_equal(weir_conn_detach(l.c, l.there), -EBUSY);
	mock_hold(false);
	UNTIL(l.r, !weir_dma_stats(l.dma, &s) && !s.quarantined);
	assert_memory_equal(l.near, l.near_shadow, NEAR);
	wire_end(&l);
}

static void staging_is_registered_once_for_all_connections(void **state)
{
	struct weir_domain *back;
	static char mem[LEN];
	struct wire l;
	int before, i;

	need_mock("only the mock counts registrations");
	wire_begin(&l, state);
	assert_int_equal(weir_domain_remote_create(&back, NULL), 0);
	assert_int_equal(weir_conn_attach(l.peer, back), 0);
	before = mocked()->registrations;
	for (i = 0; i < 4; i++) {
		struct weir_operand far = far_at(&l, AT(i), LEN);

		if (i % 2)
			far.domain = back;
		jrec_init(&l.j[0]);
		weir_job_copy(&l.j[0].job, far, weir_operand_mem(mem, LEN));
		assert_int_equal(jrec_run(l.dma, &l.j[0]), LEN);
	}
	assert_int_equal(mocked()->registrations, before + 1);
	some_turns(l.r, 3);
	assert_int_equal(weir_conn_detach(l.peer, back), 0);
	assert_int_equal(weir_domain_destroy(back), 0);
	wire_end(&l);
}

static void destroy_is_refused_with_work_in_flight(void **state)
{
	struct rec stop;
	struct wire l;
	int i;

	need_mock("soft-RoCE does not wait to be told");
	wire_begin(&l, state);
	mock_hold(true);
	for (i = 0; i < N; i++)
		start_read(&l, i, AT(i), LEN);
	assert_int_equal(weir_dma_destroy(l.dma), -EBUSY);
	assert_int_equal(weir_conn_destroy(l.c), -EBUSY);
	assert_int_equal(weir_conn_detach(l.c, l.there), -EBUSY);
	assert_int_equal(weir_domain_destroy(l.there), -EBUSY);
	rec_init(&stop);
	STARTS(weir_dma_stop(l.dma, &stop.op));
	some_turns(l.r, 3);
	assert_int_equal(stop.calls, 0);
	mock_hold(false);
	assert_int_equal(finish(l.r, &stop), 0);
	wait_for(&l, N);
	for (i = 0; i < N; i++)
		assert_int_equal(l.j[i].res, LEN);
	wire_end(&l);
}

/* At each place where something may be refused, once. */
static void refused_post_ends_each_job_once(void **state)
{
	static char mem[200000];
	struct wire l;
	int i, hit, nth = 0;

	do {
		wire_init(&l, state);
		l.e.opts.sends = 16;
		wire_open(&l);
		l.c->queue->max_len = 1000;
		for (i = 0; i < N; i++)
			jrec_init(&l.j[i]);
		fault_arm(nth++);
		for (i = 0; i < 4; i++)
			start_write(&l, i, AT(i), LEN);
		weir_dma_flush(l.dma);
		weir_job_copy(&l.j[4].job, far_at(&l, 1 << 20, sizeof(mem)),
			      weir_operand_mem(mem, sizeof(mem)));
		if (weir_job_start(l.dma, &l.j[4].job))
			l.j[4].calls = 1;
		wait_for(&l, 5);
		hit = fault_disarm();
		for (i = 0; i < 5; i++)
			if (l.j[i].res < 0 && !hit)
				fail_msg("%d: %lld, with no fault", i,
					 (long long)l.j[i].res);
		some_turns(l.r, 3);
		wire_end(&l);
		assert_true(nth < 1000);
	} while (hit);
}

static void a_refused_doorbell_ends_the_connection(void **state)
{
	struct wire l;
	int i;

	wire_begin(&l, state);
	for (i = 0; i < N; i++)
		start_write(&l, i, AT(i), LEN);
	fault_arm(0);
	weir_dma_flush(l.dma);
	assert_int_equal(fault_disarm(), 1);
	wait_for(&l, N);
	assert_int_equal(l.j[0].res, -ENOMEM);
	for (i = 1; i < N; i++)
		assert_int_equal(l.j[i].res, -ECANCELED);
	until_ended(&l);
	assert_is_shadow(&l);
	wire_end(&l);
}

/* The first of the list was taken, and is not signalled. */
static void a_list_refused_in_the_middle_ends_what_was_taken(void **state)
{
	struct wire l;

	wire_begin(&l, state);
	l.c->queue->max_len = 1000;
	start_write(&l, 0, 0, LEN);
	start_write(&l, 1, AT(1), LEN);
	assert_int_equal(verbs_at(l.c->queue, 0)->send.send_flags, 0);
	verbs_at(l.c->queue, 1)->send.num_sge = 1000;
	weir_dma_flush(l.dma);
	wait_for(&l, 2);
	assert_true(l.j[0].res == -EINVAL || l.j[0].res == -ENOMEM);
	assert_int_equal(l.j[0].detail.bytes, 1000);
	assert_int_equal(l.j[1].res, -ECANCELED);
	until_ended(&l);
	memcpy(l.far_shadow, l.near, 1000);
	assert_is_shadow(&l);
	wire_end(&l);
}

static int refuse_second_post(const char *name)
{
	static int n;

	return !strcmp(name, "ibv_post_send") && n++ % 2;
}

/* Nor does the device take what would tell of it. */
static void refused_marker_ends_what_was_taken(void **state)
{
	struct wire l;

	wire_begin(&l, state);
	l.c->queue->max_len = 1000;
	start_write(&l, 0, 0, LEN);
	start_write(&l, 1, AT(1), LEN);
	verbs_at(l.c->queue, 1)->send.num_sge = 1000;
	fault_ask(refuse_second_post);
	weir_dma_flush(l.dma);
	fault_ask(NULL);
	wait_for(&l, 2);
	assert_true(l.j[0].res == -EINVAL || l.j[0].res == -ENOMEM);
	assert_int_equal(l.j[1].res, -ECANCELED);
	until_ended(&l);
	wire_end(&l);
}

/* The peer has accepted with .responder_resources 0. */
static void read_without_credit_is_refused(void **state)
{
	struct wire l;

	wire_begin(&l, state);
	l.c->reads_out = 0;
	jrec_init(&l.j[0]);
	weir_job_copy(&l.j[0].job, weir_operand_mem(l.near, LEN),
		      far_at(&l, 0, LEN));
	assert_int_equal(weir_job_start(l.dma, &l.j[0].job), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "reads"));
	weir_job_fetch_add(&l.j[0].job, far_at(&l, 0, 8), 1);
	assert_int_equal(weir_job_start(l.dma, &l.j[0].job), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "atomics"));
	start_write(&l, 1, 0, LEN);
	UNTIL(l.r, l.j[1].calls);
	assert_int_equal(l.j[1].res, LEN);
	wire_end(&l);
}

/* One of nothing, too: a QP that others receive by is there for longer. */
static void the_end_waits_for_all_that_is_posted(void **state)
{
	struct wire l;

	need_mock("soft-RoCE does not wait to be told");
	wire_begin(&l, state);
	l.c->queue->max_len = 1000;
	mock_hold(true);
	start_write(&l, 0, 0, LEN);
	start_write(&l, 1, AT(1), LEN);
	verbs_at(l.c->queue, 1)->send.num_sge = 1000;
	weir_dma_flush(l.dma);
	mock_step(1);
	wait_for(&l, 2);
	some_turns(l.r, 5);
	assert_int_equal(l.e.n_ends[0], 0);
	mock_hold(false);
	until_ended(&l);
	wire_end(&l);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(the_first_has_the_cause_and_the_rest_is_flushed),
		CASE(jobs_that_wait_for_capacity_are_flushed),
		CASE(a_revoked_key_is_an_error_and_changes_nothing),
		CASE(job_one_byte_too_far_is_an_error),
		CASE(a_cut_link_is_noticed_by_the_work),
		CASE(a_qp_that_breaks_ends_all_that_is_under_way),
		CASE(a_lost_completion_queue_ends_all_that_is_under_way),
		CASE(overrun_of_a_queue_of_the_user_ends_its_jobs),
		CASE(failed_job_knows_exactly_the_bytes_done),
		CASE(job_with_the_cause_ends_first),
		CASE(a_goodbye_does_not_overtake_the_cause),
		CASE(a_cancel_waits_for_what_is_posted),
		CASE(a_cancel_ends_the_rest_of_a_long_job),
		CASE(a_deadline_is_a_cancel_at_a_time),
		CASE(deadline_and_grace_end_posted_jobs),
		CASE(stop_ends_posted_jobs_after_grace),
		CASE(grace_begins_anew_when_work_ends),
		CASE(stalled_work_ends_connection_without_keepalive),
		CASE(stall_is_counted_from_the_last_completion),
		CASE(staging_that_is_read_into_is_in_quarantine),
		CASE(staging_is_registered_once_for_all_connections),
		CASE(destroy_is_refused_with_work_in_flight),
		CASE(refused_post_ends_each_job_once),
		CASE(a_refused_doorbell_ends_the_connection),
		CASE(a_list_refused_in_the_middle_ends_what_was_taken),
		CASE(refused_marker_ends_what_was_taken),
		CASE(read_without_credit_is_refused),
		CASE(the_end_waits_for_all_that_is_posted),
	};

	return run_over_rdma(cases, N_OF(cases));
}
