/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_QP_H
#define TESTS_QP_H

/* A queue pair that is connected without rdma_cm, from state to state.  Each
 * returns 0 or the errno of ibv_modify_qp(). */

#include <infiniband/verbs.h>

#define QP_ALL_RIGHTS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct qp_path {
	union ibv_gid gid;	/* Of the one device, which both ends are on. */
	uint8_t gid_index;
	uint8_t reads;		/* In flight, in either direction. */
	uint8_t timeout, retries, rnr_retries;
};

static inline int qp_init(struct ibv_qp *qp, unsigned int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = access,
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			     IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline int qp_rtr(struct ibv_qp *qp, const struct ibv_qp *peer,
			 const struct qp_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num, .min_rnr_timer = 1,
		.max_dest_rd_atomic = path->reads,
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = path->gid, .hop_limit = 1,
				 .sgid_index = path->gid_index },
		},
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			     IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER);
}

static inline int qp_rts(struct ibv_qp *qp, const struct qp_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = path->timeout,
		.retry_cnt = path->retries, .rnr_retry = path->rnr_retries,
		.max_rd_atomic = path->reads,
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
			     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

#endif /* TESTS_QP_H */
