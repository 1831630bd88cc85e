/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The verbs engine does what the cpu engine does: test-conform.c's comparison,
 * between a peer's memory and here.  What is registered here, and memory of a
 * device, goes directly; other memory, sums, and what goes from peer to peer,
 * through staging.  Both ends are this process.  Over the mock, and with fewer
 * rounds over soft-RoCE in the guest.
 */

#include "tests/support/conform-fixture.h"
#include "tests/support/conn-fixture.h"

#include <weir/device.h>
#include <weir/export.h>
#include <weir/rdma/export.h>
#include <weir/rdma/mw.h>

/* Here: as it is; bufs that the device knows; the device's own.  There: what is
 * known by a key, and bufs of what a window has opened. */
enum where { MEMORY, NEAR, DM, KEY, IMPORT, PLACES };

static const char *const names[] = {
	"memory", "registered memory", "device memory", "key", "import",
};

#define RIGHTS (WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE)

struct pair {
	struct fixture g;
	struct ends e;
	struct weir_device *dev, *far_dev;
	struct weir_domain *there;
	struct weir_mmap *theirs[PLACES][AREAS];
	struct weir_mw *w[AREAS];
	struct weir_remote_key key[AREAS];
};

/* One end of the pair is at the peer. */
static bool is_tried(const struct fixture *g, int from, int to)
{
	return g->place[from].remote || g->place[to].remote;
}

static void connect_ends(struct pair *l, void **state)
{
	ends_init(&l->e, state, AF_INET);
	ends_open(&l->e);
	ends_establish(&l->e);
	assert_int_equal(
		weir_device_open_name(&l->dev,
				      l->e.client->device_ref->device->name),
		0);
	assert_int_equal(
		weir_device_open_name(&l->far_dev,
				      l->e.server->device_ref->device->name),
		0);
	assert_int_equal(weir_domain_remote_create(&l->there, NULL), 0);
	assert_int_equal(weir_conn_attach(l->e.client, l->there), 0);
}

static struct weir_mmap *mmap_on(struct weir_device *dev)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_add_device(m, dev), 0);
	assert_int_equal(weir_mmap_set_permissions(m, RIGHTS), 0);
	return m;
}

static void near_begin(struct pair *l, int area)
{
	struct place *p = &l->g.place[NEAR];

	p->m[area] = mmap_on(l->dev);
	assert_int_equal(weir_mmap_set_memrange(p->m[area], p->mem[area],
						l->g.area), 0);
}

/* None that is large enough is as good as none. */
static void dm_begin(struct pair *l, int area)
{
	struct place *p = &l->g.place[DM];

	p->moves_only = true;
	p->there = !weir_dm_alloc(&p->dm[area], l->dev, l->g.area, 0);
	if (!p->there)
		return;
	p->base[area] = 0;
	p->m[area] = mmap_on(l->dev);
	assert_int_equal(weir_mmap_set_dm(p->m[area], p->dm[area], 0,
					  l->g.area), 0);
}

static void import(struct pair *l, struct weir_mmap **m,
		   const struct weir_export_desc *desc)
{
	assert_int_equal(weir_mmap_import_rdma(m, l->there, desc->bytes,
					       desc->len, NULL), 0);
}

/* Without a window, and used without the import. */
static void key_begin(struct pair *l, int area)
{
	struct weir_import_info info = { .size = sizeof(info) };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct place *p = &l->g.place[KEY];
	struct weir_mmap *im = NULL;

	assert_int_equal(weir_mmap_export_rdma(l->theirs[KEY][area],
					       l->far_dev, NULL, &desc), 0);
	import(l, &im, &desc);
	assert_int_equal(weir_mmap_import_info(im, &info), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	l->key[area].rkey = info.rkey;
	p->ctx[area] = &l->key[area];
	p->d[area] = l->there;
}

static void import_begin(struct pair *l, int area)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct rec opened;

	rec_init(&opened);
	STARTS(weir_mw_create(&l->w[area], l->e.server, &opened.op,
			      l->theirs[IMPORT][area], NULL));
	assert_int_equal(result_of(l->g.r, &opened), 0);
	assert_int_equal(weir_mw_export(l->w[area], &desc), 0);
	import(l, &l->g.place[IMPORT].m[area], &desc);
}

static void far_begin(struct pair *l, int where, int area)
{
	struct place *p = &l->g.place[where];
	struct weir_mmap *m = mmap_on(l->far_dev);

	p->remote = true;
	assert_int_equal(weir_mmap_set_memrange(m, p->mem[area], l->g.area),
			 0);
	assert_int_equal(weir_mmap_start(m), 0);
	l->theirs[where][area] = m;
	if (where == KEY)
		key_begin(l, area);
	else
		import_begin(l, area);
}

static void place_begin(struct pair *l, int where, int area)
{
	struct place *p = &l->g.place[where];

	p->name = names[where];
	memory_begin(&l->g, p, area);
	if (where == NEAR)
		near_begin(l, area);
	if (where == DM)
		dm_begin(l, area);
	if (where >= KEY)
		far_begin(l, where, area);
	if (p->m[area] && !p->remote)
		assert_int_equal(weir_mmap_start(p->m[area]), 0);
	if (p->m[area])
		assert_int_equal(weir_inventory_attach(l->g.inv, p->m[area]),
				 0);
	if (p->there)
		fill_area(&l->g, p, area);
}

static void pair_begin(struct pair *l, void **state, size_t max,
		       struct weir_dma_opts opts)
{
	struct weir_inventory_opts inv = {
		.size = sizeof(inv), .bufs = 4 * WEIR_JOB_PIECES_MAX,
	};
	int where, area;

	memset(l, 0, sizeof(*l));
	connect_ends(l, state);
	fixture_init(&l->g, l->e.r, max, opts);
	l->g.places = PLACES;
	l->g.is_tried = is_tried;
	assert_int_equal(weir_inventory_create(&l->g.inv, l->g.r, &inv), 0);
	for (where = 0; where < PLACES; where++)
		for (area = 0; area < AREAS; area++)
			place_begin(l, where, area);
}

static void place_end(struct pair *l, int where, int area)
{
	struct place *p = &l->g.place[where];

	if (where == IMPORT)
		assert_int_equal(weir_mw_destroy(l->w[area]), 0);
	assert_int_equal(weir_mmap_destroy(p->m[area]), 0);
	assert_int_equal(weir_mmap_destroy(l->theirs[where][area]), 0);
	if (p->dm[area])
		assert_int_equal(weir_dm_free(p->dm[area]), 0);
	free(p->mem[area]);
}

static void pair_end(struct pair *l)
{
	int i;

	some_turns(l->g.r, 3);
	fixture_fini(&l->g);
	assert_int_equal(weir_inventory_destroy(l->g.inv), 0);
	for (i = 0; i < PLACES * AREAS; i++)
		place_end(l, i / AREAS, i % AREAS);
	assert_int_equal(weir_conn_detach(l->e.client, l->there), 0);
	assert_int_equal(weir_domain_destroy(l->there), 0);
	assert_int_equal(weir_device_close(l->dev), 0);
	assert_int_equal(weir_device_close(l->far_dev), 0);
	ends_destroy(&l->e);
}

/* Rounds of a random length up to @max, in random pieces at random places. */
static void rounds(struct pair *l, int n, size_t max, uint32_t pieces,
		   unsigned int seed)
{
	struct spec s = { .seed = seed };
	int i, area;

	for (i = 0; i < n; i++) {
		s.len = 1 + (size_t)rand_r(&seed) % max;
		s.narrow = i % 2;
		for (area = 0; area < AREAS; area++) {
			s.off[area] = GUARD + (size_t)rand_r(&seed) % 64;
			s.n[area] = 1 + (uint32_t)rand_r(&seed) % pieces;
		}
		try_all(&l->g, &s);
	}
}

/* How many; fewer where each costs more. */
static int some(int n)
{
	return want_long() ? 10 * n : mocked ? n : (n + 11) / 12;
}

/* Around what is inlined, what one packet has, and what one work request. */
static void verbs_engine_agrees_with_memory_at_every_size(void **state)
{
	static const size_t lens[] = {
		1, 64, 65, 1025, 16385, 63, 1023, 65537, (1 << 20) + 1,
		3000003,
	};
	struct spec s = { .off = { GUARD, GUARD + 3, GUARD + 1 },
			  .n = { 1, 1, 1 } };
	size_t i, most = mocked ? (1 << 20) + 1 : 16385;
	struct pair l;

	if (want_long())
		most = 3000003;
	pair_begin(&l, state, most, (struct weir_dma_opts){ 0 });
	for (i = 0; i < N_OF(lens) && lens[i] <= most; i++) {
		s.len = lens[i];
		s.narrow = i % 2;
		try_all(&l.g, &s);
	}
	pair_end(&l);
}

static void lists_are_as_in_memory(void **state)
{
	struct pair l;

	pair_begin(&l, state, 8192, (struct weir_dma_opts){ 0 });
	rounds(&l, some(24), 8192, 40, 1);
	rounds(&l, some(4), 8192, WEIR_JOB_PIECES_MAX, 2);
	pair_end(&l);
}

static void verbs_engine_agrees_with_memory_for_large_jobs(void **state)
{
	size_t most = mocked || want_long() ? 3 << 20 : 200000;
	struct pair l;

	pair_begin(&l, state, most, (struct weir_dma_opts){ 0 });
	rounds(&l, some(2), most, 20, 3);
	pair_end(&l);
}

/* Of staging, of the work requests, and of the send queue. */
static void verbs_engine_agrees_with_memory_in_small_blocks(void **state)
{
	struct pair l;

	pair_begin(&l, state, 40000,
		   (struct weir_dma_opts){ .staging_bufs = 1,
					   .staging_size = 4096 });
	rounds(&l, some(12), 40000, 9, 4);
	pair_end(&l);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(verbs_engine_agrees_with_memory_at_every_size),
		CASE(lists_are_as_in_memory),
		CASE(verbs_engine_agrees_with_memory_for_large_jobs),
		CASE(verbs_engine_agrees_with_memory_in_small_blocks),
	};

	return run_over_rdma(cases, N_OF(cases));
}
