/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_CM_INTERNAL_H
#define TESTS_MOCK_CM_INTERNAL_H

/* What the files of the mock for librdmacm share. */

#include "tests/support/mock-verbs-internal.h"

#include <rdma/rdma_cma.h>

/* What fits into each message of the CM, and is always told in full. */
#define MOCK_CM_REQUEST 56
#define MOCK_CM_REPLY 196
#define MOCK_CM_REJECT 148

enum mock_cm_state {
	MOCK_CM_IDLE,
	MOCK_CM_BOUND,
	MOCK_CM_LISTEN,
	MOCK_CM_ADDR_QUERY,
	MOCK_CM_ADDR,
	MOCK_CM_ROUTE_QUERY,
	MOCK_CM_ROUTE,
	MOCK_CM_CONNECT, /* Has asked. */
	MOCK_CM_REQUESTED, /* Was asked. */
	MOCK_CM_RESPONDED, /* Was answered. */
	MOCK_CM_ACCEPTED, /* Has answered. */
	MOCK_CM_ESTABLISHED,
	MOCK_CM_CLOSING, /* Has asked to disconnect. */
	MOCK_CM_CLOSED, /* Was asked to. */
	MOCK_CM_ENDED,
};

struct mock_id {
	struct rdma_cm_id id;
	struct mock_id *next;
	enum mock_cm_state state;
	struct mock_id *peer;
	const struct mock_id *listener;
	bool given; /* The program knows it. */
	uint32_t reported, acked;
	int timeout; /* As told by an option. */
	/* As the CM hands them on: of this side. */
	uint8_t responder, initiator, retries, rnr_retries;
	uint32_t qp_num, peer_qp_num;
	uint64_t last_ns; /* In a world: of what it is told. */
};

/* mock-sim.c: @ev comes in the world's time, after what was told @id before;
 * or does not come after all. */
void mock_sim_tell(struct sim_event *ev, struct mock_id *id);
void mock_sim_untell(struct sim_event *ev);

/* Whether a message, or what else rdma_cm waits for, is lost in the world; and
 * one of two things, there. */
bool mock_sim_loses(void);
bool mock_sim_flips(void);

extern struct mock_id *mock_ids;

struct mock_id *mock_id_new(struct rdma_event_channel *channel, void *context,
			    enum rdma_port_space ps);
struct ibv_context *mock_cm_verbs(void);

/* An event of @id, which is in state @next then. */
void mock_cm_tell(struct mock_id *id, enum rdma_cm_event_type type, int status,
		  enum mock_cm_state next);

/* One with a message: private data, told as @capacity bytes; @child is a new
 * id, @id its listener. */
void mock_cm_message(struct mock_id *id, struct mock_id *child,
		     enum rdma_cm_event_type type, int status,
		     enum mock_cm_state next,
		     const struct rdma_conn_param *param, uint8_t capacity);

void mock_cm_purge(struct mock_id *id);

/* It is about to be destroyed: what its peer hears of it. */
void mock_cm_leave(struct mock_id *id);

/* Who listens at where @id wants to go. */
struct mock_id *mock_cm_listener(const struct mock_id *id);

#endif /* TESTS_MOCK_CM_INTERNAL_H */
