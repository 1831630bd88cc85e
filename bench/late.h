/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_LATE_H
#define BENCH_LATE_H

/* What the parts of bench-late share; bench-late.c says what it measures. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/job.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/late-child.h"

/* How the bytes of a job are moved. */
enum late_engine {
	LATE_CPU, LATE_WORKER, LATE_FILE, LATE_BOUNCE, LATE_PROCESS,
	LATE_ENGINES,
};

extern const char *const late_engines[LATE_ENGINES];

/* What is being measured now. */
struct late {
	struct bench *b;
	uint32_t backend;	/* WEIR_BACKEND_URING or _EV */
	const char *backend_name;
	size_t size;		/* Bytes in flight. */
	int n;			/* Endings of each kind. */
	int n_load;		/* Revokes under load. */
	bool pinned;		/* Each of two processes has a CPU. */
};

/* A row of the result: who moved the bytes, how, and what ended that. */
struct late_row {
	const char *who, *version, *engine, *backend, *ending;
	const char *contract;	/* What its documentation says of that. */
	size_t size;
};

/* Add what @sum says of a row to the result. */
void late_tell(struct bench *b, const struct late_row *row,
	       const struct late_sum *sum);
/* Likewise of a row of weir. */
void late_tell_weir(const struct late *l, const char *engine,
		    const char *ending, const struct late_sum *sum);

/* Does the user want rows of weir by @engine? */
bool late_wants(const struct late *l, const char *engine);

/* Note one ending of ours, after which @bytes came. */
void late_count(struct late_sum *sum, uint64_t bytes, uint64_t end_ns);

struct weir_reactor *late_reactor(const struct late *l);
struct weir_dma *late_dma(struct weir_reactor *r, enum late_engine engine);
/* A file in memory that holds @source; and a domain of it. */
int late_file(const char *source, size_t size);
struct weir_domain *late_domain(int fd);
void late_plan(struct weir_job *job, enum late_engine engine,
	       struct weir_operand to, struct weir_domain *file,
	       const char *source, size_t size);

/* An operation that is waited for, and has to complete exactly once. */
struct late_end {
	int64_t res;
	int n;			/* How often it has completed. */
};

/* Note the completion of it. */
void late_ended(struct late_end *end, int64_t res);
/* Turn until @end has come.  A completion that has not come after a minute is
 * lost: that ends the program. */
void late_wait(struct weir_reactor *r, const struct late_end *end);

/* The parts. */
void late_by_others(const struct late *l);	/* late-export.c */
void late_under_load(const struct late *l);
void late_load_goals(struct bench *b, uint32_t backend, const char *name);
void late_by_us(const struct late *l);		/* late-own.c */
void late_sockets(const struct late *l);
void late_destroy(const struct late *l);
void late_by_peers(struct bench *b, size_t size, int n); /* late-peers.c */

#endif /* BENCH_LATE_H */
