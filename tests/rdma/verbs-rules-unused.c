/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The rules of what weir does not use, because of what soft-RoCE says here: the
 * day that one of these cases fails there is something to be gained.
 */

#include "tests/support/mock-verbs.h"
#include "tests/rdma/verbs-rules.h"

#include <sys/mman.h>

static struct rules *real_begin(void **state)
{
	if (mocked)
		skip_because("weir does not use it: no mock for it");
	return rules_begin(state);
}

/* B2.2: pages that need not be there; of one range, and of all. */
static void no_memory_is_registered_on_demand(void **state)
{
	struct rules *rules = real_begin(state);
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
	char *bytes = aligned_alloc(RULES_LEN, RULES_LEN);
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(rules->ctx, NULL, &attr), 0);
	if (attr.odp_caps.general_caps)
		skip_because("this kernel has it; what it moves is wrong");
	assert_null(ibv_reg_mr(rules->pd, bytes, RULES_LEN, access));
	assert_true(errno == EINVAL || errno == EOPNOTSUPP);
	assert_null(ibv_reg_mr(rules->pd, NULL, SIZE_MAX, access));
	assert_true(errno == EINVAL || errno == EOPNOTSUPP);
	free(bytes);
	rules_end();
}

/* B2.3: not an errno; and what the region is then, nobody knows. */
static void a_region_is_not_registered_anew(void **state)
{
	struct rules *rules = real_begin(state);
	char *bytes = aligned_alloc(RULES_LEN, RULES_LEN);
	struct ibv_mr *mr = ibv_reg_mr(rules->pd, bytes, RULES_LEN, 0);
	int err;

	assert_non_null(mr);
	err = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			   IBV_ACCESS_LOCAL_WRITE);
	if (err) {
		assert_int_equal(err, IBV_REREG_MR_ERR_CMD);
		assert_int_equal(errno, EOPNOTSUPP);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	free(bytes);
	rules_end();
}

/* B2.5: neither what is no dma-buf nor, because of the offsets, any. */
static void no_dma_buf_is_registered(void **state)
{
	struct rules *rules = real_begin(state);
	int fd = memfd_create("no dma-buf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_null(ibv_reg_dmabuf_mr(rules->pd, 0, RULES_LEN, 0, fd, 0));
	assert_true(errno == EOPNOTSUPP || errno == EINVAL || errno == EBADF);
	assert_null(ibv_reg_dmabuf_mr(rules->pd, 1, RULES_LEN, 0, -1, 0));
	assert_true(errno == EOPNOTSUPP || errno == EINVAL || errno == EBADF);
	close(fd);
	rules_end();
}

/* B2.7 */
static void advice_is_not_taken_or_does_no_harm(void **state)
{
	struct rules *rules = real_begin(state);
	char *bytes = aligned_alloc(RULES_LEN, RULES_LEN);
	struct ibv_mr *mr = ibv_reg_mr(rules->pd, bytes, RULES_LEN, 0);
	struct ibv_sge sge = { (uintptr_t)bytes, RULES_LEN, 0 };
	int err;

	assert_non_null(mr);
	sge.lkey = mr->lkey;
	err = ibv_advise_mr(rules->pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
			    IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	assert_true(!err || err == EOPNOTSUPP || err == ENOTSUP ||
		    err == EFAULT || err == EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	free(bytes);
	rules_end();
}

static struct ibv_qp *create_for(struct rules *rules, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = rules->a.cq, .recv_cq = rules->a.cq,
		.qp_type = IBV_QPT_RC, .pd = rules->pd, .send_ops_flags = ops,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp_ex(rules->ctx, &init);
}

/* @n writes of 8 bytes, each one further on. */
static void build(struct rules *rules, struct ibv_qp_ex *qp, unsigned int n)
{
	unsigned int i;

	ibv_wr_start(qp);
	for (i = 0; i < n; i++) {
		qp->wr_id = i + 1;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, rules->b.mr->rkey,
				  (uintptr_t)rules->b.bytes + 8 * i);
		ibv_wr_set_sge(qp, rules->a.mr->lkey,
			       (uintptr_t)rules->a.bytes, 8);
	}
}

/* B3.8: all of a batch, or nothing of it. */
static void a_batch_is_posted_whole_or_not_at_all(void **state)
{
	struct rules *rules;
	struct ibv_qp_ex *qp;

	if (mocked)
		real_begin(state);
	rules = rules_ends(state, &(struct rules_opts){ 0 });
	assert_null(create_for(rules, UINT64_C(1) << 60));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(rules->a.qp), 0);
	rules->a.qp = create_for(rules, IBV_QP_EX_WITH_RDMA_WRITE);
	assert_non_null(rules->a.qp);
	rules_connect(rules);
	memset(rules->a.bytes, 7, 8);
	qp = ibv_qp_to_qp_ex(rules->a.qp);
	build(rules, qp, 2);
	ibv_wr_abort(qp);
	rules_expect_none(rules->a.cq);
	build(rules, qp, 9);	/* More than there is capacity for. */
	assert_int_not_equal(ibv_wr_complete(qp), 0);
	rules_expect_none(rules->a.cq);
	assert_int_equal(rules->b.bytes[0], 0);
	build(rules, qp, 2);
	assert_int_equal(ibv_wr_complete(qp), 0);
	rules_expect(rules->a.cq, 1, IBV_WC_SUCCESS);
	rules_expect(rules->a.cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(rules->b.bytes + 8, rules->a.bytes, 8);
	rules_end();
}

static const struct harness_case cases[] = {
	CASE(no_memory_is_registered_on_demand),
	CASE(a_region_is_not_registered_anew),
	CASE(no_dma_buf_is_registered),
	CASE(advice_is_not_taken_or_does_no_harm),
	CASE(a_batch_is_posted_whole_or_not_at_all),
};

const struct rules_part rules_unused = { cases, N_OF(cases) };
