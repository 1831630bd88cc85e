/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The mock's connections.  No QP is made on an id here: the program takes
 * its own from state to state, is told of the answer (CONNECT_RESPONSE), and
 * establishes the connection itself.
 */

#include "tests/support/mock-cm-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of enum ib_cm_rej_reason. */
#define NOBODY_LISTENS 8
#define BY_CONSUMER 28

static int fail(int err)
{
	errno = err;
	return -1;
}

static bool fits(const struct rdma_conn_param *param, uint8_t capacity)
{
	return !param || param->private_data_len <= capacity;
}

static void end_pair(struct mock_id *id)
{
	if (id->peer)
		id->peer->peer = NULL;
	id->peer = NULL;
}

static struct mock_id *new_child(struct mock_id *listener, struct mock_id *from)
{
	struct mock_id *child = mock_id_new(
		listener->id.channel, listener->id.context, listener->id.ps);

	child->id.route.addr.src_storage = from->id.route.addr.dst_storage;
	child->id.route.addr.dst_storage = from->id.route.addr.src_storage;
	child->state = MOCK_CM_REQUESTED;
	child->listener = listener;
	child->peer = from;
	from->peer = child;
	child->peer_qp_num = from->qp_num;
	child->responder = from->initiator;
	child->initiator = from->responder;
	child->retries = from->retries;
	child->rnr_retries = from->rnr_retries;
	mock_self.ids++;
	return child;
}

/* A message of the exchange that does not arrive. */
static bool is_lost(void)
{
	return mock_is_cut() || mock_sim_loses();
}

/* Nothing arrives: who waits for it gives up at last. */
static void give_up(struct mock_id *id)
{
	enum rdma_cm_event_type type = RDMA_CM_EVENT_UNREACHABLE;

	if (mock_sim_flips())
		type = RDMA_CM_EVENT_CONNECT_ERROR;
	mock_cm_tell(id, type, -ETIMEDOUT, MOCK_CM_ENDED);
}

static void ask(struct mock_id *id, const struct rdma_conn_param *param)
{
	struct mock_id *listener = mock_cm_listener(id), *child;
	struct rdma_conn_param seen = *param;

	if (mock_self.fail_connect) {
		mock_cm_tell(id, RDMA_CM_EVENT_UNREACHABLE,
			     mock_self.fail_connect, MOCK_CM_ENDED);
		return;
	}
	if (is_lost()) {
		give_up(id);
		return;
	}
	if (!listener) {
		mock_cm_message(id, NULL, RDMA_CM_EVENT_REJECTED,
				NOBODY_LISTENS, MOCK_CM_ENDED,
				&(struct rdma_conn_param){ 0 }, MOCK_CM_REJECT);
		return;
	}
	child = new_child(listener, id);
	seen.responder_resources = child->responder;
	seen.initiator_depth = child->initiator;
	mock_cm_message(listener, child, RDMA_CM_EVENT_CONNECT_REQUEST, 0,
			MOCK_CM_REQUESTED, &seen, MOCK_CM_REQUEST);
}

int rdma_connect(struct rdma_cm_id *ibid, struct rdma_conn_param *param)
{
	struct mock_id *id = (struct mock_id *)ibid;
	bool may;

	mock_lock();
	may = id->state == MOCK_CM_ROUTE && param &&
	      fits(param, MOCK_CM_REQUEST);
	if (may) {
		id->qp_num = param->qp_num;
		id->responder = param->responder_resources;
		id->initiator = param->initiator_depth;
		id->retries = param->retry_count & 7;
		id->rnr_retries = param->rnr_retry_count & 7;
		id->state = MOCK_CM_CONNECT;
		ask(id, param);
	}
	mock_unlock();
	return may ? 0 : fail(EINVAL);
}

static void answer(struct mock_id *id, const struct rdma_conn_param *param)
{
	struct rdma_conn_param seen = *param;
	struct mock_id *peer = id->peer;

	id->state = MOCK_CM_ACCEPTED;
	id->qp_num = param->qp_num;
	id->responder = param->responder_resources;
	id->initiator = param->initiator_depth;
	if (is_lost()) {
		give_up(id);
		give_up(peer);
		return;
	}
	peer->peer_qp_num = id->qp_num;
	peer->responder = id->initiator;
	peer->initiator = id->responder;
	peer->rnr_retries = param->rnr_retry_count & 7;
	seen.responder_resources = peer->responder;
	seen.initiator_depth = peer->initiator;
	mock_cm_message(peer, NULL, RDMA_CM_EVENT_CONNECT_RESPONSE, 0,
			MOCK_CM_RESPONDED, &seen, MOCK_CM_REPLY);
}

int rdma_accept(struct rdma_cm_id *ibid, struct rdma_conn_param *param)
{
	struct mock_id *id = (struct mock_id *)ibid;
	bool may;

	mock_lock();
	may = id->state == MOCK_CM_REQUESTED && param && id->peer &&
	      fits(param, MOCK_CM_REPLY);
	if (may)
		answer(id, param);
	mock_unlock();
	return may ? 0 : fail(EINVAL);
}

int rdma_establish(struct rdma_cm_id *ibid)
{
	struct mock_id *id = (struct mock_id *)ibid;
	bool may;

	mock_lock();
	may = id->state == MOCK_CM_RESPONDED;
	if (may) {
		id->state = MOCK_CM_ESTABLISHED;
		if (id->peer && is_lost())
			give_up(id->peer);
		else if (id->peer)
			mock_cm_tell(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0,
				     MOCK_CM_ESTABLISHED);
	}
	mock_unlock();
	return may ? 0 : fail(EINVAL);
}

static void refuse(struct mock_id *id, int reason,
		   const struct rdma_conn_param *param)
{
	id->state = MOCK_CM_ENDED;
	if (id->peer && is_lost())
		give_up(id->peer);
	else if (id->peer)
		mock_cm_message(id->peer, NULL, RDMA_CM_EVENT_REJECTED, reason,
				MOCK_CM_ENDED, param, MOCK_CM_REJECT);
	end_pair(id);
}

int rdma_reject(struct rdma_cm_id *ibid, const void *data, uint8_t len)
{
	struct mock_id *id = (struct mock_id *)ibid;
	struct rdma_conn_param param = { .private_data = data,
					 .private_data_len = len };
	bool may;

	mock_lock();
	may = (id->state == MOCK_CM_REQUESTED ||
	       id->state == MOCK_CM_RESPONDED) &&
	      fits(&param, MOCK_CM_REJECT);
	if (may)
		refuse(id, BY_CONSUMER, &param);
	mock_unlock();
	return may ? 0 : fail(EINVAL);
}

/* One who has asked is told when the other has answered; the time that packets
 * may be on their way is over at once. */
static void close_one(struct mock_id *id)
{
	mock_cm_tell(id, RDMA_CM_EVENT_DISCONNECTED,
		     mock_is_cut() ? -ETIMEDOUT : 0, MOCK_CM_CLOSED);
	mock_cm_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, MOCK_CM_ENDED);
}

static void close_first(struct mock_id *id)
{
	id->state = MOCK_CM_CLOSING;
	if (!id->peer || mock_is_cut()) {
		close_one(id);
		return;
	}
	if (id->peer->state == MOCK_CM_CLOSING) {
		mock_cm_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, MOCK_CM_ENDED);
		close_one(id->peer);
		end_pair(id);
		return;
	}
	mock_cm_tell(id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, MOCK_CM_CLOSED);
}

static void close_second(struct mock_id *id, bool gone)
{
	id->state = MOCK_CM_ENDED;
	if (!gone)
		mock_cm_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, MOCK_CM_ENDED);
	if (id->peer && id->peer->state == MOCK_CM_CLOSING)
		close_one(id->peer);
	end_pair(id);
}

int rdma_disconnect(struct rdma_cm_id *ibid)
{
	struct mock_id *id = (struct mock_id *)ibid;
	bool may = true;

	mock_lock();
	switch (id->state) {
	case MOCK_CM_ACCEPTED:
	case MOCK_CM_ESTABLISHED:
		close_first(id);
		break;
	case MOCK_CM_CLOSED:
		close_second(id, false);
		break;
	case MOCK_CM_RESPONDED: /* It comes to nothing. */
	case MOCK_CM_CLOSING:
	case MOCK_CM_ENDED:
		break;
	default:
		may = false;
	}
	mock_unlock();
	return may ? 0 : fail(EINVAL);
}

void mock_cm_leave(struct mock_id *id)
{
	struct rdma_conn_param none = { 0 };

	switch (id->state) {
	case MOCK_CM_CONNECT: /* The answer may be on its way. */
		if (id->peer && id->peer->state == MOCK_CM_ACCEPTED)
			refuse(id, BY_CONSUMER, &none);
		break;
	case MOCK_CM_REQUESTED:
	case MOCK_CM_RESPONDED:
		refuse(id, BY_CONSUMER, &none);
		break;
	case MOCK_CM_ACCEPTED: /* The peer may be established. */
		refuse(id, BY_CONSUMER, &none);
		break;
	case MOCK_CM_ESTABLISHED:
		if (id->peer && !mock_is_cut())
			mock_cm_tell(id->peer, RDMA_CM_EVENT_DISCONNECTED, 0,
				     MOCK_CM_CLOSED);
		break;
	case MOCK_CM_CLOSED:
		close_second(id, true);
		break;
	default:
		break;
	}
	end_pair(id);
}

/* What a QP has to be told. */

static void attr_init(const struct mock_id *id, struct ibv_qp_attr *attr,
		      int *mask)
{
	attr->qp_state = IBV_QPS_INIT;
	attr->pkey_index = 0;
	attr->port_num = 1;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->state < MOCK_CM_CONNECT)
		attr->qp_access_flags = 0;
	else if (id->responder)
		attr->qp_access_flags |=
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		IBV_QP_ACCESS_FLAGS;
}

static void attr_rtr(const struct mock_id *id, struct ibv_qp_attr *attr,
		     int *mask)
{
	attr->path_mtu = IBV_MTU_1024;
	attr->dest_qp_num = id->peer_qp_num;
	attr->rq_psn = id->peer_qp_num & 0xffffff;
	attr->max_dest_rd_atomic = id->responder;
	attr->min_rnr_timer = 0;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
	ibv_query_gid(mock_cm_verbs(), 1, 1, &attr->ah_attr.grh.dgid);
	attr->ah_attr.grh.sgid_index = 1;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER;
}

static void attr_rts(const struct mock_id *id, struct ibv_qp_attr *attr,
		     int *mask)
{
	attr->sq_psn = id->qp_num & 0xffffff;
	attr->retry_cnt = id->retries;
	attr->rnr_retry = id->rnr_retries;
	attr->max_rd_atomic = id->initiator;
	attr->timeout = id->timeout ? (uint8_t)id->timeout : 19;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT;
}

int rdma_init_qp_attr(struct rdma_cm_id *ibid, struct ibv_qp_attr *attr,
		      int *mask)
{
	struct mock_id *id = (struct mock_id *)ibid;
	enum ibv_qp_state to = attr->qp_state;
	int err = 0;

	mock_lock();
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = to;
	if (id->state >= MOCK_CM_ADDR &&
	    (to == IBV_QPS_INIT || id->state < MOCK_CM_CONNECT))
		attr_init(id, attr, mask);
	else if (to == IBV_QPS_RTR && id->state >= MOCK_CM_REQUESTED)
		attr_rtr(id, attr, mask);
	else if (to == IBV_QPS_RTS && id->state >= MOCK_CM_REQUESTED)
		attr_rts(id, attr, mask);
	else
		err = EINVAL;
	mock_unlock();
	return err ? fail(err) : 0;
}
