/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_STANDIN_VERBS_H
#define TESTS_STANDIN_VERBS_H

/*
 * A stand-in for RDMA devices: what rdma-core offers, as far as weir uses it,
 * defined by the test program, which comes before the library that has the real
 * thing.  No card is there, nothing is transferred; what is checked is what
 * weir asks for, in which order, and what it makes of the answers.  The rules
 * are those of the drivers, as read in rdma-core and tried on soft-RoCE:
 *
 *	standin_mlx5	all of it, with mlx5's checks
 *	standin_mana	device memory, but copies nothing and imports nothing
 *	standin_rxe	memory regions and nothing else, as soft-RoCE
 *	standin_shut	cannot be opened by this user
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STANDIN_DM_SIZE (128u << 10)

struct standin {
	/* What there is now; all 0 when everything was given back. */
	int contexts, pds, mrs, dms, imports;

	/* What the last registration asked for, and how many there were. */
	unsigned int access;
	uint64_t off, iova;
	size_t len;
	int fd;
	int registrations;

	/* What it is to refuse. */
	size_t memlock;		/* More bytes than this are ENOMEM. */
	bool bound;		/* To deregister is EBUSY: a window is bound. */
	int dmabuf_errno;	/* Of a dma-buf of device memory; 0: it works. */

	/* Calls of ibv_fork_init(), and registrations before the first. */
	int fork_inits, unsafe;
};

/* NULL in programs that have no stand-in: they see what is there. */
struct standin *standin(void) __attribute__((weak));

#endif /* TESTS_STANDIN_VERBS_H */
