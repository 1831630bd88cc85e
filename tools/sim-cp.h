/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TOOLS_SIM_CP_H
#define TOOLS_SIM_CP_H

/* The scenario of weir-cp: sim-cp.c has the disks, their faults and the rules;
 * sim-copier.c has the program that copies. */

#include <sys/stat.h>
#ifndef HAVE_STRUCT_STATX
#include <linux/stat.h>
#endif

#include <weir/chain.h>
#include <weir/dma.h>
#include <weir/job.h>
#include <weir/pipeline.h>
#include <weir/pool.h>

#include "sim-fixture.h"

#define HOSTS 2
#define COPIERS 2	/* Of each host, */
#define SOURCES 4	/* and its files. */
#define SPAN 6144	/* Source n has from n to n + 1 times so much. */
#define ABSENT SOURCES	/* As what is in a destination: nothing. */

struct host;

/* The stages of a copy, in order up to SYNC_DIR unless something fails. */
enum stage {
	OPEN_DIR, CLEAN, OPEN_SOURCE, OPEN_TEMP, LOOK, MOVE, SYNC, RENAME,
	SYNC_DIR, DROP, CLOSE_TEMP, CLOSE_SOURCE, CLOSE_DIR, STAGES
};

/* Copies one file after the other to the same destination. */
struct copier {
	struct host *host;
	uint32_t number;
	struct weir_pipeline *pipeline;
	struct task task;
	bool is_busy;
	bool is_waiting;	/* To begin its stage: there was no capacity. */
	enum stage stage;
	uint32_t from;		/* The source. */
	int dir, source, temp;	/* Descriptors, or -1. */
	struct weir_domain *from_domain, *to_domain;
	struct statx st;
	uint64_t off;		/* The next block's. */
	uint32_t crc;
	int err;		/* The first. */
	unsigned int tries;	/* To remove the temporary file. */
	bool may_have_temp;

	/* Facts for the rules, unknown to the program. */
	bool cut;		/* Its power. */
	bool may_fail;
	uint32_t allowed;	/* 1 << what may be there after a cut. */
	char name[4], temp_name[5], path[16], temp_path[16];
};

struct host {
	struct program *program;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_pool *pool;
	size_t block;
	struct copier copiers[COPIERS];
	size_t sizes[SOURCES];
	uint32_t crcs[SOURCES];
	uint64_t stamps[SOURCES];
	bool is_full, is_bad;	/* Its disk may fail. */
	char prefix[4], out[8], sources[SOURCES][8];
};

struct program {
	struct run *run;
	struct host hosts[HOSTS];
	uint64_t copied, failed;
};

/* sim-copier.c */

void copier_set_up(struct copier *c);
void copier_start(struct copier *c, uint32_t from);
void copier_go_on(struct copier *c);	/* If it waits for capacity. */

/* sim-cp.c: @c has ended, with .err. */
void copier_ended(struct copier *c);

#endif /* TOOLS_SIM_CP_H */
