/* SPDX-License-Identifier: BSD-3-Clause */

/* The rules of memory regions and windows. */

#include "tests/rdma/verbs-rules.h"

#include <sys/mman.h>

/* B2.1 */
static void a_region_is_registered_or_refused(void **state)
{
	static const struct {
		size_t len;
		int access, err;
	} table[] = {
		{ RULES_LEN, 0, 0 },
		{ RULES_LEN, IBV_ACCESS_REMOTE_READ, 0 },
		{ RULES_LEN, IBV_ACCESS_LOCAL_WRITE, 0 },
		{ RULES_LEN, RULES_REMOTE, 0 },
		{ RULES_LEN, RULES_REMOTE | IBV_ACCESS_MW_BIND, 0 },
		{ RULES_LEN, IBV_ACCESS_RELAXED_ORDERING, 0 },
		{ RULES_LEN, IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ RULES_LEN, IBV_ACCESS_REMOTE_ATOMIC, EINVAL },
		{ RULES_LEN, 1 << 15, EINVAL },
		{ 0, 0, EINVAL },
		{ SIZE_MAX, 0, EINVAL },
	};
	struct rules *rules = rules_begin(state);
	char *bytes = aligned_alloc(RULES_LEN, RULES_LEN);
	struct ibv_mr *mr;
	size_t i;

	for (i = 0; i < N_OF(table); i++) {
		mr = ibv_reg_mr(rules->pd, bytes, table[i].len,
				table[i].access);
		if ((!mr ? errno : 0) != table[i].err)
			fail_msg("row %zu: %s", i, strerror(mr ? 0 : errno));
		if (mr)
			assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	free(bytes);
	rules_end();
}

/* B2.1 */
static void registration_of_memory_not_mapped_so_is_EFAULT(void **state)
{
	struct rules *rules = rules_begin(state);
	void *bytes = mmap(NULL, RULES_LEN, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	assert_null(ibv_reg_mr(rules->pd, bytes, RULES_LEN,
			       IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	mr = ibv_reg_mr(rules->pd, bytes, RULES_LEN, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(bytes, RULES_LEN);
	assert_null(ibv_reg_mr(rules->pd, bytes, RULES_LEN, 0));
	assert_int_equal(errno, EFAULT);
	rules_end();
}

/* B2.4 */
static void a_domain_with_a_region_is_busy(void **state)
{
	struct rules *rules = rules_begin(state);
	char *bytes = aligned_alloc(RULES_LEN, RULES_LEN);
	struct ibv_mr *mr = ibv_reg_mr(rules->pd, bytes, RULES_LEN, 0);

	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(rules->pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	free(bytes);
	rules_end();
}

static void a_region_that_is_gone_is_an_access_error(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mr *mr = ibv_reg_mr(rules->pd, rules->b.bytes, RULES_LEN,
				       RULES_REMOTE);
	struct ibv_send_wr *wr = rules_wr(IBV_WR_RDMA_WRITE, &rules->a,
					  &rules->b, 0, 8, 1);

	wr->wr.rdma.rkey = mr->rkey;
	memset(rules->a.bytes, 1, 8);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(rules_send(&rules->a, wr), 0);
	rules_expect(rules->a.cq, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rules->b.bytes[0], 0);
	rules_end();
}

/* Windows: B2.8.  b binds them, a is the peer. */

static struct ibv_mw *make_mw(struct rules *rules, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(rules->pd, type);

	if (!mw && errno == EOPNOTSUPP) {
		rules_end();
		skip_because("the device has no memory windows");
	}
	assert_non_null(mw);
	return mw;
}

static struct ibv_mw_bind_info range(struct rules *rules, size_t off,
				     size_t len, unsigned int access)
{
	return (struct ibv_mw_bind_info){
		rules->b.mr, (uintptr_t)rules->b.bytes + off, len, access,
	};
}

static void bind_1(struct rules *rules, struct ibv_mw *mw, size_t off,
		   size_t len, unsigned int access)
{
	struct ibv_mw_bind bind = {
		.wr_id = 5, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = range(rules, off, len, access),
	};
	struct ibv_wc wc;

	assert_int_equal(ibv_bind_mw(rules->b.qp, mw, &bind), 0);
	wc = rules_wait(rules->b.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
}

static struct ibv_wc bind_2(struct rules *rules, struct ibv_mw *mw, size_t off,
			    size_t len, unsigned int access)
{
	struct ibv_send_wr wr = {
		.wr_id = 5, .opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { mw, ibv_inc_rkey(mw->rkey),
			     range(rules, off, len, access) },
	};

	assert_int_equal(rules_send(&rules->b, &wr), 0);
	mw->rkey = wr.bind_mw.rkey;
	return rules_wait(rules->b.cq);
}

static void invalidate(struct rules *rules, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 6, .opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey,
	};

	assert_int_equal(rules_send(&rules->b, &wr), 0);
	rules_expect(rules->b.cq, 6, IBV_WC_SUCCESS);
}

/* The peer's try of 8 bytes; a key that it has. */
static void by_key(struct rules *rules, enum ibv_wr_opcode opcode,
		   uint32_t rkey, size_t off, enum ibv_wc_status status)
{
	struct ibv_send_wr *wr = rules_wr(opcode, &rules->a, &rules->b, off, 8,
					  1);

	wr->wr.rdma.rkey = rkey;
	memset(rules->a.bytes + off, 0x11, 8);
	assert_int_equal(rules_send(&rules->a, wr), 0);
	rules_expect(rules->a.cq, 1, status);
	if (opcode == IBV_WR_RDMA_WRITE)
		assert_int_equal(rules->b.bytes[off],
				 status == IBV_WC_SUCCESS ? 0x11 : 0);
}

#define BOTH (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* What is left of a window, tried once: a refusal ends the connection. */
static void within(void **state, enum ibv_mw_type type, unsigned int access,
		   enum ibv_wr_opcode opcode, size_t off,
		   enum ibv_wc_status status)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, type);

	if (type == IBV_MW_TYPE_1)
		bind_1(rules, mw, 64, 64, access);
	else
		assert_int_equal(bind_2(rules, mw, 64, 64, access).status,
				 IBV_WC_SUCCESS);
	by_key(rules, opcode, mw->rkey, off, status);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

static void each_type(void **state, unsigned int access,
		      enum ibv_wr_opcode opcode, size_t off,
		      enum ibv_wc_status status)
{
	within(state, IBV_MW_TYPE_1, access, opcode, off, status);
	within(state, IBV_MW_TYPE_2, access, opcode, off, status);
}

/* Soft-RoCE lets it reach all of its region, and no further. */
static void a_window_gives_its_range(void **state)
{
	enum ibv_wc_status near = strstr(((struct world *)*state)->arg, "rxe") ?
		IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;

	each_type(state, BOTH, IBV_WR_RDMA_WRITE, 64, IBV_WC_SUCCESS);
	each_type(state, BOTH, IBV_WR_RDMA_WRITE, 120, IBV_WC_SUCCESS);
	each_type(state, BOTH, IBV_WR_RDMA_READ, 64, IBV_WC_SUCCESS);
	each_type(state, BOTH, IBV_WR_RDMA_WRITE, 121, near);
	each_type(state, BOTH, IBV_WR_RDMA_WRITE, 63, near);
	each_type(state, BOTH, IBV_WR_RDMA_READ, 121, near);
}

static void a_window_gives_its_rights(void **state)
{
	each_type(state, IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE, 64,
		  IBV_WC_REM_ACCESS_ERR);
	each_type(state, IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ, 64,
		  IBV_WC_REM_ACCESS_ERR);
}

static void a_window_that_was_invalidated_gives_nothing(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_2);

	bind_2(rules, mw, 0, 64, BOTH);
	by_key(rules, IBV_WR_RDMA_WRITE, mw->rkey, 0, IBV_WC_SUCCESS);
	invalidate(rules, mw->rkey);
	by_key(rules, IBV_WR_RDMA_WRITE, mw->rkey, 8, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

static void a_window_that_was_bound_anew_has_a_new_key(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_1);
	uint32_t old;

	bind_1(rules, mw, 0, 64, BOTH);
	old = mw->rkey;
	bind_1(rules, mw, 64, 64, BOTH);
	assert_int_not_equal(mw->rkey, old);
	by_key(rules, IBV_WR_RDMA_WRITE, mw->rkey, 64, IBV_WC_SUCCESS);
	by_key(rules, IBV_WR_RDMA_WRITE, old, 8, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

static void a_window_that_is_gone_gives_nothing(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_2);
	uint32_t rkey;

	bind_2(rules, mw, 0, 64, BOTH);
	rkey = mw->rkey;
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	by_key(rules, IBV_WR_RDMA_WRITE, rkey, 0, IBV_WC_REM_ACCESS_ERR);
	rules_end();
}

static void a_window_of_length_0_gives_nothing(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_1);

	bind_1(rules, mw, 0, 64, BOTH);
	bind_1(rules, mw, 0, 0, 0);
	by_key(rules, IBV_WR_RDMA_WRITE, mw->rkey, 0, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

/* B2.4 */
static void a_region_with_a_window_is_busy(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_2);

	bind_2(rules, mw, 0, 64, BOTH);
	assert_int_not_equal(ibv_dereg_mr(rules->b.mr), 0);
	invalidate(rules, mw->rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

/* A window of type 2 is of the QP it was bound on alone: here a's. */
static void a_window_that_is_bound_is_not_bound_again(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_2);

	assert_int_equal(bind_2(rules, mw, 0, 64, BOTH).status,
			 IBV_WC_SUCCESS);
	assert_int_equal(bind_2(rules, mw, 0, 64, BOTH).status,
			 IBV_WC_MW_BIND_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

static void a_window_of_another_queue_pair_gives_nothing(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {
		.wr_id = 5, .opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { mw, ibv_inc_rkey(mw->rkey),
			     range(rules, 0, 64, BOTH) },
	};

	assert_int_equal(rules_send(&rules->a, &wr), 0);
	rules_expect(rules->a.cq, 5, IBV_WC_SUCCESS);
	by_key(rules, IBV_WR_RDMA_WRITE, wr.bind_mw.rkey, 0,
	       IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

static void a_message_can_invalidate_a_window(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_2);
	struct ibv_send_wr *wr;
	struct ibv_wc wc;

	bind_2(rules, mw, 0, 64, BOTH);
	assert_int_equal(rules_recv(&rules->b, 256, 64, 7), 0);
	wr = rules_wr(IBV_WR_SEND_WITH_INV, &rules->a, &rules->b, 0, 8, 2);
	wr->invalidate_rkey = mw->rkey;
	assert_int_equal(rules_send(&rules->a, wr), 0);
	rules_expect(rules->a.cq, 2, IBV_WC_SUCCESS);
	wc = rules_wait(rules->b.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	if (!rules_is_soft(rules))
		assert_true(wc.wc_flags & IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, mw->rkey);
	by_key(rules, IBV_WR_RDMA_WRITE, mw->rkey, 0, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

/* A bind that the region does not allow. */
static void a_window_is_not_more_than_its_region(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_mw *mw = make_mw(rules, IBV_MW_TYPE_2);

	assert_int_equal(bind_2(rules, mw, RULES_LEN - 63, 64, BOTH).status,
			 IBV_WC_MW_BIND_ERR);
	assert_int_equal(rules_state(&rules->b), IBV_QPS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	rules_end();
}

static const struct harness_case cases[] = {
	CASE(a_region_is_registered_or_refused),
	CASE(registration_of_memory_not_mapped_so_is_EFAULT),
	CASE(a_domain_with_a_region_is_busy),
	CASE(a_region_that_is_gone_is_an_access_error),
	CASE(a_window_gives_its_range),
	CASE(a_window_gives_its_rights),
	CASE(a_window_that_was_invalidated_gives_nothing),
	CASE(a_window_that_was_bound_anew_has_a_new_key),
	CASE(a_window_that_is_gone_gives_nothing),
	CASE(a_window_of_length_0_gives_nothing),
	CASE(a_region_with_a_window_is_busy),
	CASE(a_window_that_is_bound_is_not_bound_again),
	CASE(a_window_of_another_queue_pair_gives_nothing),
	CASE(a_message_can_invalidate_a_window),
	CASE(a_window_is_not_more_than_its_region),
};

const struct rules_part rules_memory = { cases, N_OF(cases) };
