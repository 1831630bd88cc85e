/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

/*
 * Memory in a simulated world that is not this process's: the common part of
 * peers and cards.
 *
 *	memory.c  a list of all in a world; moves between it and ours
 *	peer.c    a peer's, behind a queue pair
 *	card.c    a device's
 */

#include <stdbool.h>
#include <stdint.h>

#include <weir/domain-user.h>
#include <weir/sim/memory.h>

#include "sim/world.h"

struct sim_mem;

struct sim_mem_class {
	const char *what;	/* "peer" */
	/* A power cut; the end of all faults; the free function. */
	void (*cut)(struct sim_mem *m);
	void (*heal)(struct sim_mem *m);
	void (*free)(struct sim_mem *m);
};

/* Embedded in its owner as the first member. */
struct sim_mem {
	struct weir_sim *sim;
	const struct sim_mem_class *cls;
	struct weir_domain *domain;
	char *bytes;
	uint64_t len;
	char *name;
	struct sim_mem *next;
	struct sim_mem **pprev;
};

/* The direction of a move, as its device sees it. */
enum sim_move { SIM_PULL, SIM_PUSH, SIM_FILL, SIM_TRANSFER };

/* Set up @m, which is zeroed, with @len bytes and a domain that has it as its
 * context.  0 or -ENOMEM. */
int sim_mem_init(struct sim_mem *m, struct weir_sim *sim,
		 const struct sim_mem_class *cls, const char *name,
		 uint64_t len);

/* The memory of @sim whose domain @domain is; or NULL. */
struct sim_mem *sim_mem_find(struct weir_sim *sim,
			     const struct weir_domain *domain);

/* Free everything in @m, whose domain has been destroyed or was never made, but
 * not @m itself. */
void sim_mem_fini(struct sim_mem *m);

/* The side of @move that is on the device. */
const struct weir_domain_side *sim_side(const struct weir_domain_move *move,
					enum sim_move kind);

/* The number of bytes of @side. */
uint64_t sim_side_len(const struct weir_domain_side *side);

/* 0, or -ERANGE or -EINVAL: a piece is outside @m, or not aligned to @align. */
int sim_mem_check(const struct sim_mem *m, const struct weir_domain_side *side,
		  uint32_t align);

/* Move the first @n bytes of @move to or from @m; @from has the other side of a
 * transfer. */
void sim_mem_move(struct sim_mem *m, const struct weir_domain_move *move,
		  enum sim_move kind, const struct sim_mem *from, uint64_t n);

/* Add to the digest and the trace: operation @serial began, or ended. */
void sim_mem_begins(struct sim_mem *m, enum sim_move kind, uint32_t serial,
		    uint64_t len);
void sim_mem_ends(struct sim_mem *m, enum sim_move kind, uint32_t serial,
		  int64_t res);

/* Draw how long a move of @len bytes takes. */
uint64_t sim_mem_latency(struct sim_mem *m, uint64_t len);

/* Draw how long a stuck move stays so; WEIR_FOREVER: until the world is
 * healed. */
uint64_t sim_mem_stuck(struct sim_mem *m);

#endif /* SIM_MEMORY_H */
