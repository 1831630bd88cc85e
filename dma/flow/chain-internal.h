/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_CHAIN_INTERNAL_H
#define WEIR_DMA_CHAIN_INTERNAL_H

/*
 * What a chain is made of: chain.c builds it, flow/chain-run.c runs it,
 * flow/chain-run.c fuses two steps into one job, and flow/chain-hop.c to
 * steps on other reactors.
 */

#include <stdatomic.h>

#include <weir/chain.h>

#include "dma/job-internal.h"

enum step_kind {
	STEP_JOB,
	STEP_CALL,
	STEP_OP,
	STEP_FENCE,
	STEP_HOP,	/* A job in a context of another reactor. */
};

/* The side of a copy whose CRC the next step computes. */
enum fused {
	FUSED_NOT,
	FUSED_SRC,
	FUSED_DST,
};

struct dep {
	uint32_t to;		/* The step that waits. */
	uint32_t on;		/* WEIR_CHAIN_ON_ */
	struct dep *next;	/* Of those that wait for the same step. */
};

struct step {
	struct weir_chain *chain;
	uint32_t kind;		/* enum step_kind */
	uint32_t state;		/* WEIR_STEP_ */
	uint32_t n_deps;
	uint32_t n_waiting;	/* Dependencies that have not ended. */
	bool unmet;		/* One of them has not ended as it should. */
	bool last;		/* Waits for the end of others only. */
	bool has_branch;	/* A step waits for its failure. */
	bool finally;		/* Runs whatever happens, after the others. */
	uint8_t fused;		/* enum fused: its job does the next step's. */
	struct dep *deps;	/* Steps that wait for it, in order of adding. */
	struct dep **deps_last;
	struct step *next;	/* In the runnable list. */

	struct weir_dma *dma;
	struct weir_job *job;
	weir_chain_call_fn *call;
	weir_chain_start_fn *start;
	void *arg;
	struct step *pair;	/* That this fuses with; or NULL. */
	uint32_t crc_in;	/* Of the pair's job, when the pass began. */
	uint32_t crc;		/* What the pass found; while fused, what the
				 * copy's job had there. */
	uint32_t calls;		/* .n_calls when the pass ended. */

	int64_t res;
	struct weir_op_detail detail;
	const char *engine;
	struct dma_capacity capacity; /* Waits in .dma, if its .pprev is set. */

	struct step_away *away;	/* Of STEP_OP and STEP_HOP; NULL. */
};

/* What a step has that ends elsewhere.  It is large, so jobs of this thread go without. */
struct step_away {
	struct step *step;
	struct weir_op op;	/* Of STEP_HOP: both ways. */
	struct hop {
		atomic_uint word;	/* enum hop_word */
		bool begun;		/* The rest is the other thread's. */
		bool heard;		/* Of the cancel. */
		bool ended;		/* Before that, which is to come. */
		bool extra;		/* Begun beyond .ops_max there. */
		uint32_t tries;
		int64_t res;
		struct weir_op_detail detail;
		const char *engine;
		struct weir_op cancel;	/* There, on its own. */
	} hop;
};

static inline struct step_away *away_of(struct weir_op *op)
{
	return weir_container_of(op, struct step_away, op);
}

struct weir_chain {
	struct weir_reactor *r;
	void *ctx;
	struct weir_op *op;	/* Up to its callback; NULL: not in flight. */
	struct step *steps;
	struct dep *deps;
	struct step_away *away;	/* As many; in use, and zeroed, where steps say so. */
	uint32_t n_steps, steps_max;
	uint32_t n_deps, deps_max;
	int fence;		/* The last; WEIR_CHAIN_FIRST: none. */
	uint32_t depth;		/* Nesting of chains. */
	uint32_t n_parents;	/* Steps that this chain is. */
	bool changed;		/* Since prepare(). */
	uint32_t n_finally;	/* Found by it. */

	/* Of the run. */
	struct step *runnable;
	struct step **runnable_last;
	uint32_t n_left;	/* Steps that have not ended; 0: there is a
				 * result, or it is not in flight. */
	uint32_t n_ordinary;	/* Of them, those that are no finally ones. */
	uint32_t n_done;
	uint32_t n_calls;	/* Of functions of the user's. */
	int64_t err;		/* The first failure. */
	int failed_step;
	struct step *extra;	/* Has begun beyond .ops_max; NULL: none. */
	bool cancelled;
	bool cut;		/* By the cancel: a step, or what was to come. */
	bool in_run;		/* run() is on the stack. */
	bool in_fn;		/* As is a function of the user's. */
	bool sleeps;		/* The tick is a time off. */
	uint32_t tries;		/* Ticks on end that found no capacity. */
	struct weir_op tick;
	struct reactor_obj obj;
};

/* Like weir_chain_start(), but neither .ops_max nor a stop refuses it: for a
 * chain that is bounded otherwise, and is cancelled with the object that it is
 * part of. */
int chain_start_always(struct weir_chain *chain, struct weir_op *op);

/* The time in ns to wait before the @tries-th check for capacity, where nothing
 * reports it; 0: until the next turn. */
static inline uint64_t chain_backoff(uint32_t tries)
{
	if (tries < 4)
		return 0;
	return tries < 10 ? (uint64_t)16384 << (tries - 4) : WEIR_MSEC;
}

/* flow/chain-run.c: callbacks of the chain's own operations. */
void chain_tick(struct weir_op *op, int64_t res);
void chain_op_ended(struct weir_op *op, int64_t res);
void chain_capacity(struct dma_capacity *capacity);

/* @s has ended with @res, its detail set; no callback is called. */
void chain_step_ended(struct step *s, int64_t res);

/* @s, which was begun, was cancelled before it had any effect. */
void chain_step_not_begun(struct step *s);

/* chain.c: weir_chain_add_op(), for the public function @call. */
int chain_add_op(const char *call, struct weir_chain *chain, int after,
		 weir_chain_start_fn *fn, void *arg);

/* chain.c: how a step that is a chain starts it. */
int chain_start_inner(struct weir_chain *chain, uint32_t step,
		      struct weir_op *op, void *arg);

/* flow/chain-hop.c: wait until no other thread refers to @s any more. */
void hop_part(struct step *s);

/* Send @s to its reactor, or return what ends it here. */
int hop_begin(struct step *s);
void hop_cancel(struct step *s);

#endif /* WEIR_DMA_CHAIN_INTERNAL_H */
