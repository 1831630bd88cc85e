/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_VERBS_RULES_H
#define TESTS_VERBS_RULES_H

/* What the parts of test-verbs-rules share. */

#include "tests/support/harness.h"

#include <infiniband/verbs.h>

#define RULES_LEN 4096u
#define RULES_REMOTE                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |             \
	 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* One end of a connection: its own CQ and its own bytes, all in one MR that its
 * peer may do anything with. */
struct rules_end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *bytes;
	uint32_t depth;			/* What it has capacity for. */
	struct rules_end *peer;		/* For a case that needs to know. */
};

/* One device, opened anew for each case. */
struct rules {
	const char *device;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;	/* Of all the CQs here. */
	struct rules_end a, b;
};

/* How ends are made; what is 0 is as usual. */
struct rules_opts {
	uint32_t depth, max_inline;
	struct ibv_srq *srq;		/* Of b. */
	unsigned int access;		/* Of both QPs. */
	uint8_t retries, rnr_retries;
	bool quiet;			/* Only what is asked for signals. */
	bool shy;			/* No reads, no atomics. */
};

struct rules *rules_begin(void **state);
void rules_end(void);

/* Soft-RoCE, real or not: it has ways of its own. */
bool rules_is_soft(const struct rules *rules);

/* Two ends that are made, and that are connected. */
struct rules *rules_ends(void **state, const struct rules_opts *opts);
struct rules *rules_pair(void **state, const struct rules_opts *opts);

/* What rules_connect() does, step by step. */
int rules_init(struct rules_end *end);
int rules_rtr(struct rules_end *end, const struct rules_end *peer);
int rules_rts(struct rules_end *end);
void rules_connect(struct rules *rules);
int rules_to(struct rules_end *end, enum ibv_qp_state state);
enum ibv_qp_state rules_state(struct rules_end *end);

/* A work request of @len bytes at @off of each side, made, or posted. */
struct ibv_send_wr *rules_wr(enum ibv_wr_opcode opcode,
			     const struct rules_end *from,
			     const struct rules_end *to, size_t off, size_t len,
			     uint64_t id);
int rules_send(struct rules_end *end, struct ibv_send_wr *wr);
int rules_recv(struct rules_end *end, size_t off, size_t len, uint64_t id);

/* The next completion; it is waited for. */
struct ibv_wc rules_wait(struct ibv_cq *cq);
void rules_expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);

/* Wait until what is in flight has ended, as far as one can know. */
void rules_idle(const struct rules *rules);
void rules_expect_none(struct ibv_cq *cq);

/*
 * That @fn, which calls alarm() before, never returns from what it then does.
 * It runs in a child: the real libraries wait until the alarm, and the mock
 * ends the process.
 */
void rules_wait_for_ever(void (*fn)(void **state), void **state);

struct rules_part {
	const struct harness_case *cases;
	size_t n;
};

extern const struct rules_part rules_queue, rules_error, rules_move,
	rules_memory, rules_states, rules_ids, rules_connections,
	rules_unused;

/* With the mock alone. */
extern const struct rules_part rules_told __attribute__((weak));

#endif /* TESTS_VERBS_RULES_H */
