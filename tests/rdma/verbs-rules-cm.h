/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_VERBS_RULES_CM_H
#define TESTS_VERBS_RULES_CM_H

/* What the parts of test-verbs-rules that are about rdma_cm share. */

#include "tests/rdma/verbs-rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

struct rules_cm {
	struct rules *rules;
	struct rdma_event_channel *ours, *theirs;	/* They do not wait. */
	struct rdma_cm_id *listener;		/* On theirs, or NULL. */
	struct sockaddr_storage address;		/* Of the device. */
};

struct rules_cm *rules_cm_begin(void **state, bool listens);
struct rules_cm *rules_cm_begin_6(void **state);
void rules_cm_end(void);
struct sockaddr *rules_cm_address(struct rules_cm *cm);

/* A new id on our channel, as far as it says. */
struct rdma_cm_id *rules_cm_client(struct rules_cm *cm);
struct rdma_cm_id *rules_cm_resolved(struct rules_cm *cm);
int rules_cm_resolve(struct rules_cm *cm, struct rdma_cm_id *id);

/* For the QP a, if there is one; 2 reads out, 3 in. */
int rules_cm_connect(struct rules_cm *cm, struct rdma_cm_id *id,
		     const void *data, uint8_t len);

/* The next event; one that must be that, and is acknowledged. */
struct rdma_cm_event *rules_cm_wait(struct rdma_event_channel *channel);
void rules_cm_expect(struct rdma_event_channel *channel,
		     enum rdma_cm_event_type type, struct rdma_cm_id *id,
		     int status);
struct rdma_cm_id *rules_cm_request(struct rules_cm *cm);

#endif /* TESTS_VERBS_RULES_CM_H */
