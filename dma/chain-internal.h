/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_CHAIN_INTERNAL_H
#define WEIR_DMA_CHAIN_INTERNAL_H

/* What a chain is made of: chain.c builds it, chain-run.c runs it. */

#include <weir/chain.h>

#include "dma/job-internal.h"

enum step_kind {
	STEP_JOB,
	STEP_CALL,
	STEP_OP,
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
	bool has_branch;	/* Somebody waits for its failure. */
	struct dep *deps;	/* Who waits for it, in the order of adding. */
	struct dep **deps_last;
	struct step *next;	/* In the runnable list. */

	struct weir_dma *dma;
	struct weir_job *job;
	weir_chain_call_fn *call;
	weir_chain_start_fn *start;
	void *arg;

	int64_t res;
	struct weir_op_detail detail;
	struct weir_op op;	/* Of STEP_OP. */
};

struct weir_chain {
	struct weir_reactor *r;
	void *ctx;
	struct weir_op *op;	/* NULL: not under way. */
	struct step *steps;
	struct dep *deps;
	uint32_t n_steps, steps_max;
	uint32_t n_deps, deps_max;

	/* Of the run. */
	struct step *runnable;
	struct step **runnable_last;
	uint32_t n_left;	/* Steps that have not ended. */
	uint32_t n_done;
	int64_t err;		/* The first failure. */
	int failed_step;
	bool cancelled;
	bool cut;		/* By the cancel: a step, or what was to come. */
	bool in_run;		/* run() is on the stack. */
	bool in_fn;		/* So is a function of the user's. */
	struct weir_op tick;
	struct reactor_obj obj;
};

/* As weir_chain_start(), but neither .ops_max nor a stop refuses it: for what is
 * bounded otherwise, and is cancelled with what it is part of. */
int chain_start_always(struct weir_chain *chain, struct weir_op *op);

/* chain-run.c: callbacks of the chain's own operations. */
void chain_tick(struct weir_op *op, int64_t res);
void chain_job_ended(struct weir_op *op, int64_t res);
void chain_op_ended(struct weir_op *op, int64_t res);

#endif /* WEIR_DMA_CHAIN_INTERNAL_H */
