/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_CHAINS_H
#define TOOLS_SIM_CHAINS_H

/* The scenario of chains: sim-chains.c has the chains, sim-places.c the memory
 * of their jobs. */

#include <weir/chain.h>
#include <weir/dma.h>
#include <weir/job.h>
#include <weir/sim/memory.h>
#include <weir/sync.h>

#include "sim-fixture.h"

#define REACTORS 3
#define LINKS 6		/* Chains. */
#define STEPS 6		/* Of each, at most. */
#define REGION 8192	/* Bytes that a step may move. */
#define JOBS 4		/* At a time, at most, where it was drawn. */
#define REGIONS (LINKS * STEPS)

enum place { MEMORY, CARD_A, CARD_B, PEER, PLACES };

enum step_kind { STEP_JOB, STEP_CALL, STEP_OP, STEP_SYNC };

struct core {
	struct weir_reactor *r;
	struct weir_dma *dma;
	uint32_t jobs_max;	/* 0: more than there ever are. */
	struct task stop;	/* Of the context. */
};

struct step {
	struct link *link;
	enum step_kind kind;
	uint32_t region;	/* Its part of each place. */
	uint32_t on[STEPS];	/* What it waits for, by step. */
	struct weir_dma *dma;
	struct weir_job job;
	struct weir_sync_step sync;
	enum place from, to;
	uint64_t stamp;		/* Of the source's bytes. */
	size_t len;
	struct weir_operand more[2]; /* Of a dualcast, an XOR. */
	size_t equal;		/* Bytes that a compare finds to be so. */
	uint64_t n;		/* That an atomic adds, */
	uint64_t old;		/* and what the word was at least before. */
	unsigned int calls;
	uint64_t resets;	/* Of cards, when it was prepared. */
	bool is_known;		/* All of it could be prepared. */
	bool finally;		/* Runs always, behind the others. */
};

struct link {
	struct program *program;
	struct core *core;
	struct weir_chain *chain;
	struct task task;
	uint32_t number, n_steps;
	uint32_t finally;	/* 1 << the steps that are it. */
	uint32_t first;		/* 1 << the steps that may have failed first. */
	struct due cancel;	/* When it has to have ended. */
	uint64_t stops;		/* When it was started. */
	struct step steps[STEPS];
};

struct program {
	struct run *run;
	struct core cores[REACTORS];
	struct link links[LINKS];
	struct weir_sim_card *cards[2];
	struct weir_sim_peer *peer;
	uint64_t stamps;
	uint64_t opened;	/* Cards, after resets. */
	uint64_t stops;		/* Of contexts: their beginnings and ends. */
	char sources[REGIONS][REGION];
	char targets[REGIONS][REGION];
	char seconds[REGIONS][REGION];	/* Second sources, and targets. */
	uint64_t word, sum;	/* To which is added, and what it should be. */
	struct weir_sync *sync;	/* The same of steps that signal. */
	uint64_t added;
};

void places_set_up(struct program *p);
void places_take_down(struct program *p);

/* Sometimes open or connect again what was reset. */
void places_mend(struct program *p);

/* New bytes and a new job for @s; its destination is marked. */
void step_prepare(struct step *s);

/* @s has ended with @outcome: compare its effect. */
void step_check(struct step *s, const struct weir_chain_step *outcome,
		bool disturbed);

#endif /* TOOLS_SIM_CHAINS_H */
