/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_BOUNCE_FIXTURE_H
#define TESTS_BOUNCE_FIXTURE_H

/* What the tests of jobs through staging share: every place that bytes can be
 * in, some times over. */

#include <sys/mman.h>

#include "tests/support/slow-fixture.h"

#include <weir/route.h>

#define LEN (1u << 17)
#define SIDES 4

/* Where bytes can be; all are mirrored in memory that the test reads. */
enum place { MEM, FIL, PROC, USER, N_PLACES };

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	char *mem; /* LEN for each side. */
	struct slow user[SIDES];
	struct weir_domain *file[SIDES], *self;
	int fd[SIDES];
	char *view[SIDES]; /* Of the files. */
};

static inline void fixture_begin(struct fixture *g, void **state,
				 struct weir_dma_opts opts)
{
	char name[8];
	int i;

	g->r = start_reactor(state);
	g->dma = start_dma(g->r, opts);
	g->mem = calloc(SIDES, LEN);
	g->self = NULL;
	if (weir_domain_process_create(&g->self, getpid(), NULL))
		print_message("without processes: %s\n", weir_why());
	for (i = 0; i < SIDES; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		slow_init(&g->user[i], (unsigned int)i + 1);
		g->fd[i] = test_file(state, name, LEN, 0);
		g->file[i] = file_domain(g->fd[i]);
		g->view[i] = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED,
				  g->fd[i], 0);
		assert_ptr_not_equal(g->view[i], MAP_FAILED);
	}
}

static inline void fixture_end(struct fixture *g)
{
	int i;

	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_domain_destroy(g->self), 0);
	for (i = 0; i < SIDES; i++) {
		munmap(g->view[i], LEN);
		slow_end(&g->user[i]);
		assert_int_equal(weir_domain_destroy(g->file[i]), 0);
		close(g->fd[i]);
	}
	free(g->mem);
}

/* The bytes of @place on @side, for the test to see. */
static inline char *bytes_of(struct fixture *g, enum place place, int side)
{
	return place == FIL  ? g->view[side] :
	       place == USER ? g->user[side].mem :
			       g->mem + (size_t)side * LEN;
}

static inline struct weir_operand operand_of(struct fixture *g,
					     enum place place, int side,
					     uint64_t off, uint64_t len)
{
	uint64_t addr = (uintptr_t)g->mem + (uint64_t)side * LEN + off;

	switch (place) {
	case FIL:
		return weir_operand_at(g->file[side], off, len);
	case USER:
		return weir_operand_at(g->user[side].d, off, len);
	case PROC:
		return weir_operand_at(g->self, addr, len);
	default:
		return weir_operand_at(NULL, addr, len);
	}
}

/* Turns in which the slow domains do something, now and then. */
static inline void pump(struct fixture *g)
{
	bool any = false;
	int i;

	for (i = 0; i < SIDES; i++)
		any |= slow_pump(&g->user[i]);
	assert_true(weir_reactor_turn(g->r, any ? 0 : WEIR_SEC / 1000) >= 0);
}

#define PUMP_UNTIL(g, cond) \
	do { \
		unsigned int turns_ = 0; \
		while (!(cond)) { \
			if (++turns_ > TURNS_MAX) \
				fail_msg("waiting: %s", #cond); \
			pump(g); \
		} \
	} while (0)

static inline int64_t run(struct fixture *g, struct jrec *j)
{
	STARTS(weir_job_start(g->dma, &j->job));
	PUMP_UNTIL(g, j->calls);
	assert_int_equal(j->calls, 1);
	return j->res;
}

static inline struct weir_dma_stats stats_of(struct fixture *g)
{
	return dma_stats_of(g->dma);
}

static inline uint32_t route_of(const struct jrec *j)
{
	struct weir_job_route route = { .size = sizeof(route) };

	assert_int_equal(weir_job_get_route(&j->job, &route), 0);
	return route.route;
}

/* Where the bytes of a job begin: nothing is aligned. */
#define OFF 3

/* Whether nothing was written there since it was filled with 0x55. */
__attribute__((unused)) static bool is_untouched(const char *p, size_t from,
						 size_t to)
{
	while (from < to && p[from] == 0x55)
		from++;
	return from >= to;
}

#endif /* TESTS_BOUNCE_FIXTURE_H */
