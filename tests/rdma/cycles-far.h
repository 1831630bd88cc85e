/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CYCLES_FAR_H
#define TESTS_CYCLES_FAR_H

/*
 * The far end of test-conn-cycles.c: it listens, takes one connection at a
 * time, and offers its memory in the private data of its answer.
 *
 * Over soft-RoCE it is a process of its own, which can be killed; its memory is
 * shared, so that the test sees what is in it even then.  It descends from one
 * that was forked before anybody had to do with RDMA.  Over the mock it is
 * here, on the reactor of the test.
 */

#include "tests/support/conn-fixture.h"

#define FAR_LEN (4u << 20)

/* What the answer says. */
struct far_offer {
	uint64_t addr;
	uint32_t rkey, zero;
};

struct far {
	struct weir_reactor *r;
	struct weir_listener *l;
	struct weir_conn *c, *asks;	/* It has, it has been asked for. */
	struct weir_op next, accepted;
	struct weir_device *dev;
	struct ibv_mr *mr;
	char *mem;
};

/* Before anything else in main(). */
void far_prepare(void);

/* Its memory, and its address. */
char *far_memory(void);
const char *far_ip(void);

/* Begin at @port, 0: any; on @r if it is here. */
void far_start(struct weir_reactor *r, const char *backend, uint16_t port);

/* It was started: wait until it listens.  Returns its port. */
uint16_t far_wait(void);

/* End it, without a word, or as it should; all that it had must be back. */
void far_kill(void);
void far_stop(void);

/* Its QP fails, and it does not know. */
void far_break(void);

#endif /* TESTS_CYCLES_FAR_H */
