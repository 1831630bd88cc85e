/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * RDMA completions: what a channel costs over the verbs that it is made of.
 * Writes of 64 bytes between two queue pairs of the first device, each
 * signalled; "window 16": as many are in flight, and both poll; "one at a
 * time, asleep": both arm the queue and sleep for each.  Includes posting and
 * the device, which is the same for both.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include <weir/rdma/channel.h>
#include <weir/reactor.h>

#include "bench/bench.h"

#define WINDOW 16u
#define BYTES 64u

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static union ibv_gid gid;
static uint8_t gid_index;

struct end {
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char bytes[4096];
};

struct pair {
	struct end a, b;
	struct ibv_cq *cq;
	struct ibv_comp_channel *comp;	/* The verbs' own. */
	struct weir_reactor *r;		/* weir's. */
	struct weir_channel *ch;
	struct weir_wr wr;
	uint64_t posted, ended, want;
	unsigned int window;
};

static struct pair pair;

static void open_device(void)
{
	struct ibv_device **list;
	int n = 0;

	list = ibv_get_device_list(&n);
	if (list && n)
		ctx = ibv_open_device(list[0]);
	if (list)
		ibv_free_device_list(list);
	if (!ctx)
		return;
	pd = ibv_alloc_pd(ctx);
	gid_index = ibv_query_gid(ctx, 1, 1, &gid) ? 0 : 1;
	if (!pd || ibv_query_gid(ctx, 1, gid_index, &gid))
		bench_die("device", EIO);
}

static void make_end(struct end *end, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { WINDOW, 1, 1, 1, 0 }, .sq_sig_all = 1,
	};

	end->mr = ibv_reg_mr(pd, end->bytes, sizeof(end->bytes),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	end->qp = ibv_create_qp(pd, &attr);
	if (!end->mr || !end->qp)
		bench_die("ibv_create_qp", errno);
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr,
		   enum ibv_qp_state state, int mask)
{
	attr->qp_state = state;
	bench_must(-ibv_modify_qp(qp, attr, IBV_QP_STATE | mask),
		   "ibv_modify_qp");
}

static void connect_to(struct end *end, const struct end *peer)
{
	struct ibv_qp_attr attr = {
		.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp->qp_num,
		.min_rnr_timer = 1, .timeout = 14, .retry_cnt = 7,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .hop_limit = 1,
				      .sgid_index = gid_index } },
	};

	modify(end->qp, &attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       IBV_QP_ACCESS_FLAGS);
	modify(end->qp, &attr, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU |
	       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	       IBV_QP_MIN_RNR_TIMER);
	modify(end->qp, &attr, IBV_QPS_RTS, IBV_QP_TIMEOUT |
	       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC);
}

static void post(void)
{
	struct ibv_sge sge = { (uintptr_t)pair.a.bytes, BYTES,
			       pair.a.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)&pair.wr, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)pair.b.bytes, pair.b.mr->rkey },
	}, *bad;

	pair.posted++;
	bench_must(-ibv_post_send(pair.a.qp, &wr, &bad), "ibv_post_send");
}

static void ended(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		bench_die(ibv_wc_status_str(wc->status), EIO);
	pair.ended++;
	if (pair.posted < pair.want)
		post();
}

static void begin(uint64_t n, unsigned int window)
{
	pair.posted = pair.ended = 0;
	pair.want = n;
	while (pair.posted < window)
		post();
}

static bool poll_once(void)
{
	struct ibv_wc wc[WINDOW];
	int i, n = ibv_poll_cq(pair.cq, (int)WINDOW, wc);

	for (i = 0; i < n; i++)
		ended(&wc[i]);
	return n > 0;
}

static void sleep_once(void)
{
	struct ibv_cq *cq;
	void *arg;

	bench_must(-ibv_req_notify_cq(pair.cq, 0), "ibv_req_notify_cq");
	if (poll_once())
		return;
	if (ibv_get_cq_event(pair.comp, &cq, &arg))
		bench_die("ibv_get_cq_event", errno);
	ibv_ack_cq_events(cq, 1);
}

static double verbs(uint64_t n, unsigned int window, bool asleep)
{
	uint64_t at = bench_wall_ns();

	begin(n, window);
	while (pair.ended < n)
		if (!poll_once() && asleep)
			sleep_once();
	return (double)(bench_wall_ns() - at) / (double)n;
}

static void on_written(struct weir_wr *wr, const struct ibv_wc *wc)
{
	(void)wr;
	ended(wc);
}

static double weir(uint64_t n, unsigned int window, bool asleep)
{
	uint64_t at = bench_wall_ns();

	begin(n, window);
	while (pair.ended < n)
		bench_must(weir_reactor_turn(pair.r, asleep ? WEIR_FOREVER : 0),
			   "weir_reactor_turn");
	return (double)(bench_wall_ns() - at) / (double)n;
}

static void open_pair(bool with_weir)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .spin_ns = WEIR_SPIN_NONE };

	memset(&pair, 0, sizeof(pair));
	pair.wr.fn = on_written;
	if (with_weir) {
		bench_must(weir_reactor_create(&pair.r, &opts), weir_why());
		bench_must(weir_channel_create(&pair.ch, pair.r, ctx, NULL),
			   weir_why());
		pair.cq = weir_channel_cq(pair.ch);
	} else {
		pair.comp = ibv_create_comp_channel(ctx);
		pair.cq = ibv_create_cq(ctx, 256, NULL, pair.comp, 0);
	}
	make_end(&pair.a, pair.cq);
	make_end(&pair.b, pair.cq);
	connect_to(&pair.a, &pair.b);
	connect_to(&pair.b, &pair.a);
}

static void close_end(struct end *end)
{
	ibv_destroy_qp(end->qp);
	ibv_dereg_mr(end->mr);
}

static void close_pair(void)
{
	close_end(&pair.a);
	close_end(&pair.b);
	if (pair.ch) {
		bench_must(weir_channel_destroy(pair.ch), weir_why());
		bench_must(weir_reactor_destroy(pair.r), weir_why());
		return;
	}
	ibv_destroy_cq(pair.cq);
	ibv_destroy_comp_channel(pair.comp);
}

static void one_rep(struct bench *b, const char *variant, bool with_weir)
{
	double (*run)(uint64_t, unsigned int, bool) = with_weir ? weir : verbs;
	uint64_t n = b->quick ? 500 : 5000;

	if (!bench_wants(b, variant))
		return;
	open_pair(with_weir);
	run(100, WINDOW, false);
	bench_add(b, "window 16", variant, "ns/op", run(n, WINDOW, false));
	bench_add(b, "one at a time, asleep", variant, "ns/op",
		  run(n, 1, true));
	close_pair();
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "channel", argc, argv);
	open_device();
	if (!ctx) {
		bench_note("no RDMA device here; in a guest there is one: "
			   "tests/vm/run --rdma bench/bench-channel");
		return bench_done(&b);
	}
	b.reference = "verbs";
	for (bench_begin(&b); bench_next(&b); ) {
		one_rep(&b, "verbs", false);
		one_rep(&b, "weir", true);
	}
	bench_goal(&b, "polling, at most 1.1 times bare verbs", "window 16",
		   "weir", "verbs", BENCH_AT_MOST, 1.1);
	bench_goal(&b, "asleep, at most 1.15 times bare verbs",
		   "one at a time, asleep", "weir", "verbs", BENCH_AT_MOST,
		   1.15);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	return bench_done(&b);
}
