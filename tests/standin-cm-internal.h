/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_STANDIN_CM_INTERNAL_H
#define TESTS_STANDIN_CM_INTERNAL_H

/* What the files of the stand-in for librdmacm share. */

#include "tests/standin-verbs-internal.h"

#include <rdma/rdma_cma.h>

/* What fits into each message of the CM, and is always told in full. */
#define STANDIN_CM_REQUEST 56
#define STANDIN_CM_REPLY 196
#define STANDIN_CM_REJECT 148

enum standin_cm_state {
	STANDIN_CM_IDLE, STANDIN_CM_BOUND, STANDIN_CM_LISTEN,
	STANDIN_CM_ADDR_QUERY, STANDIN_CM_ADDR, STANDIN_CM_ROUTE_QUERY,
	STANDIN_CM_ROUTE,
	STANDIN_CM_CONNECT,		/* Has asked. */
	STANDIN_CM_REQUESTED,		/* Was asked. */
	STANDIN_CM_RESPONDED,		/* Was answered. */
	STANDIN_CM_ACCEPTED,		/* Has answered. */
	STANDIN_CM_ESTABLISHED,
	STANDIN_CM_CLOSING,		/* Has asked to disconnect. */
	STANDIN_CM_CLOSED,		/* Was asked to. */
	STANDIN_CM_ENDED,
};

struct standin_id {
	struct rdma_cm_id id;
	struct standin_id *next;
	enum standin_cm_state state;
	struct standin_id *peer;
	const struct standin_id *listener;
	bool given;			/* The program knows it. */
	uint32_t reported, acked;
	int timeout;			/* As told by an option. */
	/* As the CM hands them on: of this side. */
	uint8_t responder, initiator, retries, rnr_retries;
	uint32_t qp_num, peer_qp_num;
	uint64_t last_ns;		/* In a world: of what it is told. */
};

/* standin-sim.c: @ev comes in the world's time, after what was told @id before;
 * or does not come after all. */
void standin_sim_tell(struct sim_event *ev, struct standin_id *id);
void standin_sim_untell(struct sim_event *ev);

/* Whether a message, or what else rdma_cm waits for, is lost in the world; and
 * one of two things, there. */
bool standin_sim_loses(void);
bool standin_sim_flips(void);

extern struct standin_id *standin_ids;

struct standin_id *standin_id_new(struct rdma_event_channel *channel,
				  void *context, enum rdma_port_space ps);
struct ibv_context *standin_cm_verbs(void);

/* An event of @id, which is in state @next then. */
void standin_cm_tell(struct standin_id *id, enum rdma_cm_event_type type,
		     int status, enum standin_cm_state next);

/* One with a message: private data, told as @room bytes; @child is a new id,
 * @id its listener. */
void standin_cm_message(struct standin_id *id, struct standin_id *child,
			enum rdma_cm_event_type type, int status,
			enum standin_cm_state next,
			const struct rdma_conn_param *param, uint8_t room);

void standin_cm_purge(struct standin_id *id);

/* It is about to be destroyed: what its peer hears of it. */
void standin_cm_leave(struct standin_id *id);

/* Who listens at where @id wants to go. */
struct standin_id *standin_cm_listener(const struct standin_id *id);

#endif /* TESTS_STANDIN_CM_INTERNAL_H */
