/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_RDMA_FIXTURE_H
#define TESTS_RDMA_FIXTURE_H

/*
 * An mmap of an RDMA device, and peers of that: queue pairs of the same device,
 * which know nothing of the library.  Over the mock, or, in programs without
 * it, over soft-RoCE in the guest.
 */

#include "tests/support/harness.h"

#include <infiniband/verbs.h>

#include <weir/device.h>
#include <weir/domain.h>
#include <weir/mmap.h>

#include "rdma/device.h"
#include "tests/support/mock-verbs.h"
#include "tests/support/qp.h"

/* Which of the mocks. */
#ifndef FIXTURE_MOCK
#define FIXTURE_MOCK "mock_rxe"
#endif

#define LEN 16384u
#define PART_OFF 4096u
#define PART_LEN 1000u
#define ALL \
	(WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE | \
	 WEIR_MMAP_RDMA_ATOMIC)

/* An mmap, and a domain to import it into; both ends are this process. */
struct fixture {
	struct weir_device *dev;
	struct weir_mmap *m;
	struct weir_domain *domain;
	char *mem;
};

static inline const char *rdma_device(void)
{
	const char *name = getenv("WEIR_RDMA_DEVICE");

	if (mocked)
		return FIXTURE_MOCK;
	if (!name)
		skip_because("this machine has no RDMA device");
	return name;
}

static inline void fixture_begin(struct fixture *g, uint32_t permissions)
{
	int err = weir_device_open_name(&g->dev, rdma_device());

	if (err)
		fail_msg("%d: %s", err, weir_why());
	g->mem = aligned_alloc(4096, LEN);
	memset(g->mem, 'm', LEN);
	assert_int_equal(weir_mmap_create(&g->m, NULL), 0);
	assert_int_equal(weir_mmap_set_memrange(g->m, g->mem, LEN), 0);
	assert_int_equal(weir_mmap_set_permissions(g->m, permissions), 0);
	assert_int_equal(weir_mmap_add_device(g->m, g->dev), 0);
	assert_int_equal(weir_mmap_start(g->m), 0);
	assert_int_equal(weir_domain_remote_create(&g->domain, NULL), 0);
}

static inline void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_domain_destroy(g->domain), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_device_close(g->dev), 0);
	free(g->mem);
	if (!mocked)
		return;
	assert_int_equal(mocked()->mrs, 0);
	assert_int_equal(mocked()->pds, 0);
	assert_int_equal(mocked()->contexts, 0);
}

/* A peer: two queue pairs of the one device, for one access. */

struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct qp_path path;
};

static inline struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { 4, 4, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	assert_int_equal(qp_init(qp, QP_ALL_RIGHTS), 0);
	return qp;
}

static inline void connect_qp(const struct pair *p, struct ibv_qp *qp,
			      const struct ibv_qp *peer)
{
	assert_int_equal(qp_rtr(qp, peer, &p->path), 0);
	assert_int_equal(qp_rts(qp, &p->path), 0);
}

static inline void pair_begin(struct pair *p, const struct fixture *g)
{
	const struct device_verbs_open *v = device_verbs_of(g->dev);
	const char *index = getenv("WEIR_RDMA_GID");

	p->path = (struct qp_path){
		.gid_index = (uint8_t)(index && !mocked ? atoi(index) : 1),
		.reads = 4, .timeout = 12, .retries = 7, .rnr_retries = 3,
	};
	assert_int_equal(ibv_query_gid(v->ctx, 1, p->path.gid_index,
				       &p->path.gid), 0);
	p->cq = ibv_create_cq(v->ctx, 16, NULL, NULL, 0);
	assert_non_null(p->cq);
	p->qp[0] = make_qp(v->pd, p->cq);
	p->qp[1] = make_qp(v->pd, p->cq);
	connect_qp(p, p->qp[0], p->qp[1]);
	connect_qp(p, p->qp[1], p->qp[0]);
}

static inline void pair_end(struct pair *p)
{
	assert_int_equal(ibv_destroy_qp(p->qp[0]), 0);
	assert_int_equal(ibv_destroy_qp(p->qp[1]), 0);
	assert_int_equal(ibv_destroy_cq(p->cq), 0);
}

static inline enum ibv_wc_status do_wr(struct pair *p, int end,
				       struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	assert_int_equal(ibv_post_send(p->qp[end], wr, &bad), 0);
	do {
		n = ibv_poll_cq(p->cq, 1, &wc);
	} while (!n);
	assert_int_equal(n, 1);
	return wc.status;
}

/* What comes of @len bytes at @addr, with @rkey; READ fills @buf.  By @old,
 * or by a pair that is made for it. */
static inline enum ibv_wc_status access_by(const struct fixture *g,
					   struct pair *old,
					   enum ibv_wr_opcode opcode,
					   uint64_t addr, uint32_t rkey,
					   char *buf, size_t len)
{
	const struct device_verbs_open *v = device_verbs_of(g->dev);
	struct ibv_mr *mr = ibv_reg_mr(v->pd, buf, len, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)buf, (uint32_t)len, 0 };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};
	enum ibv_wc_status status;
	struct pair p;

	assert_non_null(mr);
	sge.lkey = mr->lkey;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	if (!old)
		pair_begin(&p, g);
	status = do_wr(old ? old : &p, 0, &wr);
	if (!old)
		pair_end(&p);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	return status;
}

static inline enum ibv_wc_status access_peer(const struct fixture *g,
					     enum ibv_wr_opcode opcode,
					     uint64_t addr, uint32_t rkey,
					     char *buf, size_t len)
{
	return access_by(g, NULL, opcode, addr, rkey, buf, len);
}

#endif /* TESTS_RDMA_FIXTURE_H */
