/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_FABRIC_H
#define TESTS_MOCK_FABRIC_H

/* How tests steer mock-fabric.c; its functions are found by dlsym(). */

#include <stddef.h>
#include <stdint.h>

/* What may go wrong. */
enum mock_fabric_fault {
	MOCK_FABRIC_SETUP,	/* An object cannot be made, bound or enabled. */
	MOCK_FABRIC_REGISTER,	/* No more memory can be registered. */
	MOCK_FABRIC_CONNECT,	/* fi_connect(), fi_accept() fail. */
	MOCK_FABRIC_AGAIN,	/* A post is -FI_EAGAIN, or all by a connection; */
	MOCK_FABRIC_POST,	/* or fails. */
	MOCK_FABRIC_LOST,	/* A connection ends. */
	MOCK_FABRIC_SILENT,	/* Nothing arrives by a connection any more. */
	MOCK_FABRIC_CLOSE,	/* An endpoint or a region closes only later. */
	MOCK_FABRIC_REGION,	/* A region is not closed, for a reason of its own. */
	MOCK_FABRIC_KEY,	/* Another region has the key. */
	MOCK_FABRIC_FAULTS,
};

/* What a provider is like. */
#define MOCK_FABRIC_AUTO 1u		/* Its side needs no processor of a peer's. */
#define MOCK_FABRIC_SPINS 2u		/* Descriptors are always readable. */
#define MOCK_FABRIC_NO_WAIT 4u		/* There are none. */
#define MOCK_FABRIC_FULL 8u		/* A post to a dead peer is -FI_EAGAIN. */
#define MOCK_FABRIC_KEEPS 16u		/* Completions outlive their endpoint. */

struct mock_fabric_world {
	uint64_t mr_mode;
	size_t key_size, max_msg, iov_limit;
	uint32_t flags;
	/* A number below @n.  NULL: nothing is drawn, it is 0. */
	uint32_t (*below)(void *arg, uint32_t n);
	/* Whether this goes wrong now.  NULL: nothing does. */
	int (*fault)(void *arg, int fault);
	/* Something is on the wire: call mock_fabric_step() later.  NULL: what
	 * is sent is there at once. */
	void (*later)(void *arg);
	void *arg;
};

/* The world from now on; NULL: one in which nothing goes wrong.  There are no objects. */
void mock_fabric_enter(const struct mock_fabric_world *world);

/* Something on the wire arrives.  Returns whether there is more. */
int mock_fabric_step(void);

/* What there is. */
struct mock_fabric_left {
	int fabrics, domains, cqs, eqs, peps, eps, mrs, requests, infos, conns;
};

void mock_fabric_left(struct mock_fabric_left *ret);

#endif /* TESTS_MOCK_FABRIC_H */
