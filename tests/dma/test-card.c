/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The card of docs/tutorial-card.md, as somebody else's code: it passes the table
 * that every engine passes, fails where its hardware does, and refuses cancels.
 * In a world a timer does what its thread does elsewhere.
 */

#define CARD_BYTES (want_long() ? 256u << 20 : 16u << 20)

#include "tests/support/conform-fixture.h"

#include <weir/device.h>
#include <weir/route.h>
#include <weir/sim/world.h>

#include "examples/card.c"

struct slot {
	struct weir_reactor *r;
	struct weir_device *dev;
	struct card *card;
};

static void slot_begin(struct slot *s, struct weir_reactor *r, int in_world)
{
	s->r = r;
	s->dev = NULL;
	assert_int_equal(card_register(), 0);
	assert_int_equal(weir_device_open_name(&s->dev, "card0"), 0);
	s->card = weir_provider_card(card_provider, s->dev);
	assert_non_null(s->card);
	assert_int_equal(card_attach(s->card, r, in_world), 0);
}

static void slot_end(struct slot *s)
{
	card_detach(s->card);
	assert_int_equal(weir_device_close(s->dev), 0);
	assert_int_equal(weir_provider_unregister(card_provider), 0);
}

/* The table, between memory and the card.  A part of the first area is in the
 * window. */
enum where { MEMORY, CARD, PLACES };

static bool is_tried(const struct fixture *g, int from, int to)
{
	(void)g;
	return from == CARD || to == CARD;
}

static void table_begin(struct fixture *g, struct slot *s, void **state,
			size_t max, struct weir_dma_opts opts)
{
	struct place *p;
	int where, area;

	slot_begin(s, start_reactor(state), harness_sim != NULL);
	fixture_init(g, s->r, max, opts);
	assert_true(AREAS * g->area <= CARD_BYTES);
	g->places = PLACES;
	g->is_tried = is_tried;
	g->place[MEMORY].name = "memory";
	g->place[CARD].name = "card";
	for (where = 0; where < PLACES; where++)
		for (area = 0; area < AREAS; area++) {
			p = &g->place[where];
			if (where == MEMORY)
				memory_begin(g, p, area);
			p->there = true;
			p->fd[area] = -1;
			if (where == CARD) {
				p->d[area] = s->card->memory;
				p->base[area] = (uint64_t)area * g->area;
				p->mem[area] = s->card->bytes + p->base[area];
			}
			fill_area(g, p, area);
		}
}

static void table_end(struct fixture *g, struct slot *s)
{
	for (int area = 0; area < AREAS; area++)
		free(g->place[MEMORY].mem[area]);
	fixture_fini(g);
	slot_end(s);
}

static void card_agrees_with_memory_at_every_size(void **state)
{
	struct fixture g;
	struct slot s;

	table_begin(&g, &s, state, conform_largest(), (struct weir_dma_opts){ 0 });
	conform_sizes(&g, conform_largest());
	table_end(&g, &s);
}

static void card_agrees_with_memory_at_every_alignment(void **state)
{
	struct fixture g;
	struct slot s;

	table_begin(&g, &s, state, 4096, (struct weir_dma_opts){ 0 });
	conform_alignments(&g, conform_step());
	table_end(&g, &s);
}

static void card_agrees_with_memory_for_every_number_of_pieces(void **state)
{
	struct fixture g;
	struct slot s;

	table_begin(&g, &s, state, 4096, (struct weir_dma_opts){ 0 });
	conform_shapes(&g);
	table_end(&g, &s);
}

static void card_agrees_with_memory_by_workers_in_small_blocks(void **state)
{
	struct fixture g;
	struct slot s;

	table_begin(&g, &s, state, 100000, CONFORM_BLOCKS);
	conform_blocks(&g);
	table_end(&g, &s);
}

/* What the tutorial says of one job. */
struct one {
	struct slot s;
	struct weir_dma *dma;
	struct jrec j;
	char mem[8192];
};

static struct one *one_begin(void **state)
{
	struct one *o = calloc(1, sizeof(*o));

	assert_non_null(o);
	slot_begin(&o->s, start_reactor(state), harness_sim != NULL);
	o->dma = start_dma(o->s.r, (struct weir_dma_opts){ 0 });
	jrec_init(&o->j);
	return o;
}

static void one_end(struct one *o)
{
	assert_int_equal(weir_dma_destroy(o->dma), 0);
	slot_end(&o->s);
	free(o);
}

static int start_copy_to(struct one *o, struct weir_domain *d, uint64_t addr,
			 size_t len)
{
	weir_job_copy(&o->j.job, weir_operand_at(d, addr, len),
		      weir_operand_mem(o->mem, len));
	return weir_job_start(o->dma, &o->j.job);
}

static void card_is_listed_with_its_memory(void **state)
{
	struct one *o = one_begin(state);
	struct weir_device_caps caps = { .size = sizeof(caps) };

	assert_int_equal(weir_devinfo_caps(weir_device_info(o->s.dev), &caps),
			 0);
	assert_string_equal(caps.name, "card0");
	assert_int_equal(caps.kind, WEIR_DEVICE_USER);
	assert_int_equal(caps.dm_size, CARD_BYTES);
	one_end(o);
}

static void card_is_asked_for_nothing_beyond_its_bounds_and_rights(void **state)
{
	struct one *o = one_begin(state);
	struct card *card = o->s.card;

	assert_int_equal(start_copy_to(o, card->memory, CARD_BYTES - 9, 10),
			 -ERANGE);
	assert_int_equal(start_copy_to(o, card->rom, 10000, 10), -EACCES);
	weir_job_copy(&o->j.job, weir_operand_at(card->memory, 10005, 10),
		      weir_operand_at(card->rom, 10000, 10));
	assert_int_equal(weir_job_start(o->dma, &o->j.job), -EINVAL);
	assert_int_equal(card->started, 0);
	one_end(o);
}

/* The error is the hardware's, after the start has returned 0. */
static void error_of_card_ends_job_with_exact_bytes(void **state)
{
	struct one *o = one_begin(state);

	o->s.card->broken = 10100;
	assert_int_equal(start_copy_to(o, o->s.card->memory, 10000, 4000), 0);
	assert_int_equal(o->j.calls, 0);
	assert_int_equal(jrec_finish(o->s.r, &o->j), -EIO);
	assert_int_equal(o->j.detail.bytes, 100);
	assert_int_equal(o->j.detail.code, 7);
	one_end(o);
}

/* The card is asked once, does not obey, and the job ends as it would have. */
static void job_whose_cancel_card_refuses_goes_on_to_its_end(void **state)
{
	struct one *o = one_begin(state);

	memset(o->mem, 0x5a, sizeof(o->mem));
	assert_int_equal(start_copy_to(o, o->s.card->memory, 10000, 8000), 0);
	weir_op_cancel(&o->j.job.op);
	weir_op_cancel(&o->j.job.op);
	assert_int_equal(o->s.card->refused, 1);
	assert_int_equal(jrec_finish(o->s.r, &o->j), 8000);
	assert_memory_equal(o->s.card->bytes + 10000, o->mem, 8000);
	one_end(o);
}

static void window_of_card_is_reached_in_place(void **state)
{
	struct weir_job_route route = { .size = sizeof(route) };
	struct one *o = one_begin(state);

	memset(o->mem, 0x33, 100);
	assert_int_equal(start_copy_to(o, o->s.card->memory, 10, 100), 0);
	assert_int_equal(jrec_finish(o->s.r, &o->j), 100);
	assert_int_equal(weir_job_get_route(&o->j.job, &route), 0);
	assert_int_equal(route.route, WEIR_ROUTE_TRANSLATE);
	assert_int_equal(o->s.card->started, 0);
	assert_memory_equal(o->s.card->bytes + 10, o->mem, 100);
	one_end(o);
}

/* The same seed gives the same run; other seeds give their own. */
static uint64_t run_in_world(uint64_t seed)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_dma *dma;
	struct weir_sim *sim = NULL;
	struct weir_reactor *r = NULL;
	static char mem[100000];
	struct jrec j[20];
	uint64_t digest;
	struct slot s;

	assert_int_equal(weir_sim_create(&sim, seed, NULL), 0);
	opts.sim = sim;
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	slot_begin(&s, r, 1);
	dma = start_dma(r, (struct weir_dma_opts){ .staging_size = 4096 });
	s.card->broken = 300000;
	for (unsigned int i = 0; i < N_OF(j); i++) {
		jrec_init(&j[i]);
		weir_job_copy(&j[i].job,
			      weir_operand_at(s.card->memory,
					      10000 + 20000 * i, 20000),
			      weir_operand_mem(mem, 20000));
		assert_int_equal(weir_job_start(dma, &j[i].job), i < CARD_QUEUE ?
							 0 : -EAGAIN);
	}
	weir_sim_run(sim, WEIR_FOREVER, 0);
	for (unsigned int i = 0; i < CARD_QUEUE; i++) {
		assert_int_equal(j[i].calls, 1);
		assert_int_equal(j[i].res, i == 14 ? -EIO : 20000);
		weir_sim_note(sim, "a copy", (uint64_t)j[i].res);
	}
	digest = weir_sim_digest(sim);
	assert_int_equal(weir_dma_destroy(dma), 0);
	slot_end(&s);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
	return digest;
}

static void card_in_world_runs_in_the_same_way_twice(void **state)
{
	uint64_t digest = run_in_world(1);

	(void)state;
	assert_int_equal(run_in_world(1), digest);
	assert_int_not_equal(run_in_world(2), digest);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(card_agrees_with_memory_at_every_size),
		CASE(card_agrees_with_memory_at_every_alignment),
		CASE(card_agrees_with_memory_for_every_number_of_pieces),
		CASE(card_agrees_with_memory_by_workers_in_small_blocks),
		CASE(card_is_listed_with_its_memory),
		CASE(card_is_asked_for_nothing_beyond_its_bounds_and_rights),
		CASE(error_of_card_ends_job_with_exact_bytes),
		CASE(job_whose_cancel_card_refuses_goes_on_to_its_end),
		CASE(window_of_card_is_reached_in_place),
		CASE(card_in_world_runs_in_the_same_way_twice),
	};

	return harness_run_all(cases, N_OF(cases));
}
