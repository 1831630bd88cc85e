/* SPDX-License-Identifier: BSD-3-Clause */

/* Two ends of a connection on one device, made by hand. */

#include "tests/support/mock-verbs.h"
#include "tests/support/qp.h"
#include "tests/rdma/verbs-rules.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct rules self;
static struct rules_opts how;
static struct qp_path path;

static void open_device(const char *device)
{
	struct ibv_device **list;
	int i, n = 0;

	memset(&self, 0, sizeof(self));
	self.device = device;
	list = ibv_get_device_list(&n);
	for (i = 0; list && i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), self.device))
			self.ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	assert_non_null(self.ctx);
}

struct rules *rules_begin(void **state)
{
	const struct world *w = *state;

	open_device(w->arg);
	self.pd = ibv_alloc_pd(self.ctx);
	assert_non_null(self.pd);
	return &self;
}

static void close_end(struct rules_end *end)
{
	if (end->qp)
		assert_int_equal(ibv_destroy_qp(end->qp), 0);
	if (end->cq)
		assert_int_equal(ibv_destroy_cq(end->cq), 0);
	if (end->mr)
		assert_int_equal(ibv_dereg_mr(end->mr), 0);
	free(end->bytes);
}

void rules_end(void)
{
	close_end(&self.a);
	close_end(&self.b);
	if (self.channel)
		assert_int_equal(ibv_destroy_comp_channel(self.channel), 0);
	assert_int_equal(ibv_dealloc_pd(self.pd), 0);
	assert_int_equal(ibv_close_device(self.ctx), 0);
	if (!mocked)
		return;
	assert_int_equal(mocked()->contexts, 0);
	assert_int_equal(mocked()->pds, 0);
	assert_int_equal(mocked()->mrs, 0);
	assert_int_equal(mocked()->mws, 0);
	assert_int_equal(mocked()->qps, 0);
	assert_int_equal(mocked()->srqs, 0);
	assert_int_equal(mocked()->cqs, 0);
	assert_int_equal(mocked()->channels, 0);
	assert_int_equal(mocked()->unacked, 0);
}

bool rules_is_soft(const struct rules *rules)
{
	return strstr(rules->device, "rxe");
}

static void make_end(struct rules_end *end, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = !how.quiet,
		.cap = { how.depth, srq ? 0 : how.depth, 3, srq ? 0 : 3,
			 how.max_inline },
	};

	end->bytes = aligned_alloc(RULES_LEN, RULES_LEN);
	memset(end->bytes, 0, RULES_LEN);
	end->mr = ibv_reg_mr(self.pd, end->bytes, RULES_LEN,
			     RULES_REMOTE | IBV_ACCESS_MW_BIND);
	assert_non_null(end->mr);
	end->cq = ibv_create_cq(self.ctx, 64, end, self.channel, 0);
	assert_non_null(end->cq);
	attr.send_cq = attr.recv_cq = end->cq;
	end->qp = ibv_create_qp(self.pd, &attr);
	assert_non_null(end->qp);
	end->depth = attr.cap.max_send_wr;
}

struct rules *rules_ends(void **state, const struct rules_opts *opts)
{
	how = *opts;
	if (!how.depth)
		how.depth = 8;
	if (!how.access)
		how.access = RULES_REMOTE;
	if (!how.srq)
		rules_begin(state);
	self.channel = ibv_create_comp_channel(self.ctx);
	assert_non_null(self.channel);
	make_end(&self.a, NULL);
	make_end(&self.b, how.srq);
	path = (struct qp_path){
		.reads = how.shy ? 0 : 4, .timeout = 10,
		.retries = (uint8_t)(how.retries ? how.retries : 3),
		.rnr_retries = (uint8_t)how.rnr_retries,
	};
	path.gid_index = !ibv_query_gid(self.ctx, 1, 1, &path.gid);
	assert_int_equal(ibv_query_gid(self.ctx, 1, path.gid_index, &path.gid),
			 0);
	return &self;
}

struct rules *rules_pair(void **state, const struct rules_opts *opts)
{
	rules_connect(rules_ends(state, opts));
	return &self;
}

/* From state to state. */

int rules_init(struct rules_end *end)
{
	return qp_init(end->qp, how.access);
}

int rules_rtr(struct rules_end *end, const struct rules_end *peer)
{
	return qp_rtr(end->qp, peer->qp, &path);
}

int rules_rts(struct rules_end *end)
{
	return qp_rts(end->qp, &path);
}

void rules_connect(struct rules *rules)
{
	assert_int_equal(rules_init(&rules->a), 0);
	assert_int_equal(rules_init(&rules->b), 0);
	assert_int_equal(rules_rtr(&rules->a, &rules->b), 0);
	assert_int_equal(rules_rtr(&rules->b, &rules->a), 0);
	assert_int_equal(rules_rts(&rules->a), 0);
	assert_int_equal(rules_rts(&rules->b), 0);
}

int rules_to(struct rules_end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state rules_state(struct rules_end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* Work requests. */

#define WRS 16

struct ibv_send_wr *rules_wr(enum ibv_wr_opcode opcode,
			     const struct rules_end *from,
			     const struct rules_end *to, size_t off, size_t len,
			     uint64_t id)
{
	static struct ibv_send_wr wrs[WRS];
	static struct ibv_sge sges[WRS];
	static unsigned int next;
	struct ibv_send_wr *wr = &wrs[next % WRS];
	struct ibv_sge *sge = &sges[next++ % WRS];

	memset(wr, 0, sizeof(*wr));
	sge->addr = (uintptr_t)from->bytes + off;
	sge->length = (uint32_t)len;
	sge->lkey = from->mr->lkey;
	wr->wr_id = id;
	wr->opcode = opcode;
	wr->sg_list = sge;
	wr->num_sge = 1;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = (uintptr_t)to->bytes + off;
		wr->wr.atomic.rkey = to->mr->rkey;
	} else {
		wr->wr.rdma.remote_addr = (uintptr_t)to->bytes + off;
		wr->wr.rdma.rkey = to->mr->rkey;
	}
	return wr;
}

int rules_send(struct rules_end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(end->qp, wr, &bad);
}

int rules_recv(struct rules_end *end, size_t off, size_t len, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)end->bytes + off, (uint32_t)len,
			       end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 },
			   *bad;

	return ibv_post_recv(end->qp, &wr, &bad);
}

/* Completions. */

/* Far beyond what is needed, and less than what ends all cases. */
#define WAIT_SECONDS 8

struct ibv_wc rules_wait(struct ibv_cq *cq)
{
	time_t end = time(NULL) + WAIT_SECONDS;
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (!n && !mocked && time(NULL) <= end);
	assert_int_equal(n, 1);
	return wc;
}

void rules_expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = rules_wait(cq);

	if (wc.status != status)
		print_error("%lu: %s, not %s\n", (unsigned long)wc.wr_id,
			    ibv_wc_status_str(wc.status),
			    ibv_wc_status_str(status));
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.status, status);
}

void rules_idle(const struct rules *rules)
{
	(void)rules;
	if (!mocked)
		poll(NULL, 0, 50);
}

void rules_expect_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	rules_idle(&self);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

static void in_child(void (*fn)(void **state), void **state)
{
	int null = open("/dev/null", O_WRONLY);

	dup2(null, 1);
	dup2(null, 2);
	signal(SIGALRM, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
	fn(state);
	_exit(0);
}

void rules_wait_for_ever(void (*fn)(void **state), void **state)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		in_child(fn, state);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGABRT);
}
