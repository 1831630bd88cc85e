/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_CARD_H
#define SIM_CARD_H

/* A card in a world: its memory, and the moves in flight. */

#include "sim/memory.h"

/* A move that is in flight, or a free slot. */
struct work {
	struct sim_event done;
	struct weir_sim_card *card;
	struct weir_op *op;	/* NULL: free. */
	const struct weir_domain_move *move;
	struct weir_sim_card *from;	/* Of a transfer, */
	uint64_t from_resets;		/* and how often that was reset. */
	struct work *next;		/* In the list of free ones. */
	uint64_t len;
	uint32_t serial;
	uint8_t kind;		/* enum sim_move */
	bool stuck;
	bool cancelled;
};

/* An answer that is valid. */
struct answer {
	struct answer *next;
	uintptr_t id;
};

struct weir_sim_card {
	struct sim_mem mem;
	uint32_t flags;
	uint32_t align;
	bool open;
	struct answer *answers;
	struct weir_sim_card_stats stats;
	struct work *free;
	uint32_t depth;
	struct work works[];
};

static inline struct weir_sim_card *sim_card_of(struct sim_mem *m)
{
	return weir_container_of(m, struct weir_sim_card, mem);
}

#endif /* SIM_CARD_H */
