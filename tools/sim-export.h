/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_EXPORT_H
#define TOOLS_SIM_EXPORT_H

/* The scenario of exported memory: sim-export.c has the exporters and
 * importers, sim-lease.c the leases, sim-moves.c the jobs over it. */

#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/export.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/lease.h>
#include <weir/mmap.h>

#include "sim-fixture.h"

#define REACTORS 3
#define SHARES 2	/* Exported mmaps, */
#define LEASES 2		/* leases of each, */
#define IMPORTS 4	/* imports, of any of them, */
#define MOVES 4		/* and jobs at a time over each of these. */
#define REGIONS 6	/* Of a share; a job is in one. */
#define REGION 8192

struct move;

/* A lease of a share, as it should be. */
struct lease {
	struct share *share;
	struct weir_lease *handle;	/* NULL: none. */
	struct weir_export_desc desc;	/* Until it ends. */
	bool is_open;
	uint64_t ends;		/* What was imported before the last: stale. */
	uint64_t not_after;	/* 0: it has no end. */
	struct due due;
	struct task revoke, wait;
};

/* An exported mmap, and the contents that it should have. */
struct share {
	struct program *program;
	uint32_t number;
	struct weir_mmap *mmap;
	bool is_started, may_write;
	struct task stop, revoke;
	uint64_t revoke_stops;	/* .stops when that began. */
	struct lease leases[LEASES];
	uint64_t stops;		/* What was imported before the last: stale. */
	uint64_t lives;		/* Memory of its own each time. */
	char *bytes;
	char shadow[REGIONS * REGION];
	struct move *busy[REGIONS];
};

struct core {
	struct weir_reactor *r;
	struct weir_dma *dma;
};

/*
 * A job between a region of a share and memory, or a file, of the importer's.
 */
struct move {
	struct import *import;
	struct weir_job job;
	struct weir_buf *buf;
	struct share *share;
	uint64_t lives;		/* Of the share, when it began. */
	uint32_t region, slot;
	uint64_t off, stamp;
	size_t len;
	bool is_under_way, writes, by_file, cancelled, has_deadline;
	bool is_frozen;		/* The share has stopped: its bytes stay. */
	char frozen[REGION];
	char local[REGION];
};

struct import {
	struct program *program;
	uint32_t number;
	struct core *core;
	struct share *share;
	struct lease *lease;		/* NULL: by the share's own export. */
	uint64_t ends;			/* Of .lease, when it was made. */
	struct weir_mmap *mmap;		/* NULL: none. */
	struct weir_inventory *inventory;
	uint64_t stops;			/* Of the share, when it was made. */
	uint64_t over_ns;		/* Its exporter had stopped; or 0. */
	bool may_write;
	bool is_detached;		/* From its inventory. */
	char *bytes;
	struct task watch;
	struct move moves[MOVES];
};

struct program {
	struct run *run;
	struct core cores[REACTORS];
	struct share shares[SHARES];
	struct import imports[IMPORTS];
	int fd;
	struct weir_domain *file;
	uint64_t stamps;
	uint64_t stale;		/* Jobs that ended so. */
};

/* Whether jobs of importers may use @s, by @lease alone if that is not NULL,
 * judging by their callbacks. */
bool is_busy(const struct share *s, const struct lease *lease);

/* Calls that fail only if there are faults: whether @err is 0. */
bool went_well(struct program *p, int err, const char *what);

/* sim-lease.c */

/* An action with a lease, on the first reactor: arg is a struct lease. */
void lease_act(void *lease);

/* Those of @s end with its export. */
void leases_revoked(struct share *s);

/* Whether a revoke of one of them, or a wait for one, is in flight. */
bool leases_are_awaited(const struct share *s);

/* Outside of all turns: leases end at their time. */
void leases_check(struct program *p);

/* The end of a scenario. */
void lease_drop(struct lease *lease);

/* An open lease of @s, or NULL. */
struct lease *lease_pick(struct share *s);

/* Whether @im should be stale. */
bool is_stale(const struct import *im);

/* sim-moves.c */

void files_set_up(struct program *p);
void files_take_down(struct program *p);

/* Start a job over @im, or try a call that is refused. */
void move_one(struct import *im);
void move_disturb(struct move *m);

/* Imports of @s from before its @stops-th revocation are over, or, with @lease,
 * those of that alone: even if callbacks of importers' jobs are due, no byte
 * changes any more. */
void share_freeze(struct share *s, const struct lease *lease, uint64_t stops);

/* All bytes of @s that no job writes are as expected. */
void share_check(struct share *s);

#endif /* TOOLS_SIM_EXPORT_H */
