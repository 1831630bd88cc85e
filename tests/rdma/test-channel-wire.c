/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Channels with queue pairs that move bytes: nothing that completes is lost.
 * Linked once with the mock and once with the real libraries, for a guest
 * whose devices are real as far as programs can see.
 */

#include "tests/support/harness.h"

#include <pthread.h>

#include <infiniband/verbs.h>

#include <weir/rdma/channel.h>
#include <weir/rdma/verbs-event.h>
#include <weir/watch.h>

#include "tests/support/cores.h"
#include "tests/support/mock-verbs.h"
#include "tests/support/qp.h"

#define DEPTH 32
#define MESSAGE 64u

struct end;

/* A receive or a send, by its slot in the bytes. */
struct slot {
	struct weir_wr wr;
	struct end *end;
	uint32_t at;
};

struct end {
	struct weir_channel *ch;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct slot recvs[DEPTH], sends[DEPTH];
	uint64_t bytes[2 * DEPTH][MESSAGE / 8];
	uint64_t next;			/* What is sent next, */
	uint64_t expected;		/* and received. */
	uint64_t want;
	uint32_t window;
	bool answers;			/* Sends one for each received. */
	uint64_t sent;			/* And told of it. */
	uint64_t flushed;
	int forgotten;			/* 1: no call may come any more. */
};

static struct {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct qp_path path;
} dev;

static void open_device(void)
{
	struct ibv_device **list;
	int n = 0;

	list = ibv_get_device_list(&n);
	if (!list || !n)
		skip_because("this machine has no RDMA device");
	dev.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	assert_non_null(dev.ctx);
	dev.pd = ibv_alloc_pd(dev.ctx);
	assert_non_null(dev.pd);
	dev.path = (struct qp_path){ .timeout = 14, .retries = 7,
				     .rnr_retries = 7 };
	dev.path.gid_index = !ibv_query_gid(dev.ctx, 1, 1, &dev.path.gid);
	assert_int_equal(ibv_query_gid(dev.ctx, 1, dev.path.gid_index,
				       &dev.path.gid), 0);
}

static void close_device(void)
{
	assert_int_equal(ibv_dealloc_pd(dev.pd), 0);
	assert_int_equal(ibv_close_device(dev.ctx), 0);
	if (mocked)
		assert_int_equal(mocked()->unacked, 0);
}

static int post_recv(struct slot *slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot->end->bytes[slot->at],
		.length = MESSAGE, .lkey = slot->end->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)&slot->wr,
				  .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(slot->end->qp, &wr, &bad);
}

static int send_next(struct end *end)
{
	struct slot *slot = &end->sends[end->next % DEPTH];
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->bytes[slot->at],
		.length = MESSAGE, .lkey = end->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)&slot->wr, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	end->bytes[slot->at][0] = end->next++;
	return ibv_post_send(end->qp, &wr, &bad);
}

/* One answer for each; or as many unanswered as the window is. */
static bool may_send(const struct end *end)
{
	if (end->next - end->sent == DEPTH)
		return false;
	if (end->answers)
		return end->next < end->expected;
	return end->next < end->want &&
	       end->next - end->expected < end->window;
}

static void send_all(struct end *end)
{
	while (may_send(end))
		MUST(!send_next(end));
}

static void on_sent(struct weir_wr *wr, const struct ibv_wc *wc)
{
	struct end *end = weir_container_of(wr, struct slot, wr)->end;

	MUST(!end->forgotten);
	MUST(wc->status == IBV_WC_SUCCESS);
	end->sent++;
	send_all(end);
}

static void on_received(struct weir_wr *wr, const struct ibv_wc *wc)
{
	struct slot *slot = weir_container_of(wr, struct slot, wr);
	struct end *end = slot->end;

	MUST(!end->forgotten);
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		end->flushed++;
		return;
	}
	MUST(wc->status == IBV_WC_SUCCESS && wc->byte_len == MESSAGE);
	MUST(end->bytes[slot->at][0] == end->expected++);
	MUST(!post_recv(slot));
	send_all(end);
}

static void make_end(struct end *end, struct weir_reactor *r)
{
	struct weir_channel_opts opts = {
		.size = sizeof(opts), .depth = 2 * DEPTH,
	};
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
	};
	uint32_t i;

	memset(end, 0, sizeof(*end));
	assert_int_equal(weir_channel_create(&end->ch, r, dev.ctx, &opts), 0);
	assert_int_equal(weir_channel_reserve(end->ch, 2 * DEPTH), 0);
	end->mr = ibv_reg_mr(dev.pd, end->bytes, sizeof(end->bytes),
			     IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(end->mr);
	attr.send_cq = attr.recv_cq = weir_channel_cq(end->ch);
	end->qp = ibv_create_qp(dev.pd, &attr);
	assert_non_null(end->qp);
	for (i = 0; i < DEPTH; i++) {
		end->recvs[i] = (struct slot){ { on_received }, end, i };
		end->sends[i] = (struct slot){ { on_sent }, end, DEPTH + i };
	}
}

static void connect_end(struct end *end, const struct end *peer)
{
	uint32_t i;

	assert_int_equal(qp_init(end->qp, 0), 0);
	for (i = 0; i < DEPTH; i++)
		assert_int_equal(post_recv(&end->recvs[i]), 0);
	assert_int_equal(qp_rtr(end->qp, peer->qp, &dev.path), 0);
	assert_int_equal(qp_rts(end->qp, &dev.path), 0);
}

static void make_pair(struct end *a, struct weir_reactor *ra, struct end *b,
		      struct weir_reactor *rb)
{
	make_end(a, ra);
	make_end(b, rb);
	connect_end(a, b);
	connect_end(b, a);
}

static void break_qp(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert_int_equal(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE), 0);
}

/* The queue pair goes first; what it left behind is forgotten. */
static void destroy_end(struct end *end)
{
	uint32_t qp_num = end->qp->qp_num;

	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	weir_channel_forget(end->ch, qp_num);
	end->forgotten = 1;
	weir_channel_release(end->ch, 2 * DEPTH);
	assert_int_equal(weir_channel_destroy(end->ch), 0);
	assert_int_equal(ibv_dereg_mr(end->mr), 0);
}

static struct weir_channel_stats stats_of(const struct end *end)
{
	struct weir_channel_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_channel_stats(end->ch, &stats), 0);
	return stats;
}

static unsigned int messages(void)
{
	return scaled(want_long() ? 100000 : 2000);
}

/* There is no event but what the device sends: lost, it would hang. */
#define SLEEP_UNTIL(r, cond)                                              \
	do {                                                              \
		while (!(cond))                                           \
			assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0); \
	} while (0)

static struct weir_reactor *reactor_that_does_not_spin(void **state)
{
	return start_reactor_with(state, (struct weir_reactor_opts){
		.size = sizeof(struct weir_reactor_opts),
		.spin_ns = WEIR_SPIN_NONE });
}

static void ping_pong(struct weir_reactor *r, uint32_t window)
{
	static struct end a, b;

	open_device();
	make_pair(&a, r, &b, r);
	b.answers = true;
	a.want = messages();
	a.window = window;
	send_all(&a);
	SLEEP_UNTIL(r, a.expected == a.want && b.sent == a.want &&
		    a.sent == a.want);
	assert_int_equal(b.expected, a.want);
	assert_int_equal(stats_of(&a).completions, 2 * a.want);
	assert_int_equal(stats_of(&b).completions, 2 * a.want);
	destroy_end(&a);
	destroy_end(&b);
	close_device();
}

/* Within a device that answers at once nothing need be armed. */
static void sleeping_no_message_is_lost(void **state)
{
	ping_pong(reactor_that_does_not_spin(state), 1);
}

static void spinning_no_message_is_lost(void **state)
{
	ping_pong(start_reactor(state), 1);
}

static void completions_are_not_lost_in_a_crowd(void **state)
{
	ping_pong(reactor_that_does_not_spin(state), DEPTH / 2);
}

static int keep_busy(struct weir_poller *poller, void *arg)
{
	(void)poller;
	(void)arg;
	return 1;
}

static void busy_no_message_is_lost(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poller *poller;

	assert_int_equal(weir_poller_create(&poller, r, 0, keep_busy, NULL),
			 0);
	ping_pong(r, 4);
	weir_poller_destroy(poller);
}

/* The far end sleeps on a thread of its own. */
static struct end far;

static void make_far(struct core *core, void *arg)
{
	(void)arg;
	make_end(&far, core->r);
	far.answers = true;
}

static void destroy_far(struct core *core, void *arg)
{
	(void)core;
	(void)arg;
	destroy_end(&far);
}

static void messages_between_two_cores_are_not_lost(void **state)
{
	struct weir_reactor *r = reactor_that_does_not_spin(state);
	static struct end a;
	struct core core;

	open_device();
	core_begin(&core, state);
	core_do(&core, make_far, NULL);
	make_end(&a, r);
	connect_end(&a, &far);
	connect_end(&far, &a);
	a.want = messages();
	a.window = 4;
	send_all(&a);
	SLEEP_UNTIL(r, a.expected == a.want && a.sent == a.want);
	core_do(&core, destroy_far, NULL);
	core_end(&core);
	assert_int_equal(far.expected, a.want);
	if (!mocked)
		assert_true(stats_of(&a).events > 0);
	destroy_end(&a);
	close_device();
}

/* B3.5 */
static void flushed_completions_of_a_broken_queue_pair_are_reported(void **state)
{
	struct weir_reactor *r = reactor_that_does_not_spin(state);
	static struct end a, b;

	open_device();
	make_pair(&a, r, &b, r);
	break_qp(&a);
	SLEEP_UNTIL(r, a.flushed == DEPTH);
	some_turns(r, 3);
	assert_int_equal(a.flushed, DEPTH);
	destroy_end(&a);
	destroy_end(&b);
	close_device();
}

static void completions_of_a_destroyed_queue_pair_are_forgotten(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static struct end a, b;
	int i;

	open_device();
	for (i = 0; i < 20; i++) {
		make_pair(&a, r, &b, r);
		a.want = a.window = DEPTH;
		send_all(&a);
		if (i % 2)
			some_turns(r, 1);
		if (i % 3 == 0)
			break_qp(&b);
		destroy_end(&b);
		destroy_end(&a);
		some_turns(r, 3);
	}
	close_device();
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(sleeping_no_message_is_lost),
		CASE(spinning_no_message_is_lost),
		CASE(completions_are_not_lost_in_a_crowd),
		CASE(busy_no_message_is_lost),
		CASE(messages_between_two_cores_are_not_lost),
		CASE(flushed_completions_of_a_broken_queue_pair_are_reported),
		CASE(completions_of_a_destroyed_queue_pair_are_forgotten),
	};

	return mocked ? harness_run_all(cases, N_OF(cases)) :
			harness_run(cases, N_OF(cases));
}
