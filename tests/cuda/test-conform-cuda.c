/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cuda engine does what the cpu engine does: test-conform.c's comparison, between
 * the memory of a GPU and other places.  The engine copies page-locked memory directly;
 * other memory, files, processes and sums go through staging.  The test reads the GPU's
 * memory with the driver's own copies.
 */

#include "tests/support/conform-fixture.h"
#include "tests/support/cuda-bare.h"

#include <weir/export.h>

#define BLOCK ((size_t)2 << 20)

/* Here; and the GPU's memory by address, by bufs, and by bufs of an import. */
enum where { MEMORY, LOCKED, FILE_CACHED, PROCESS, GPU, GPU_BUFS, IMPORT, PLACES };

static const char *const names[] = {
	"memory", "page-locked memory", "file", "process", "gpu", "gpu's bufs",
	"import of the gpu's",
};

#define RIGHTS (WEIR_MMAP_WRITE | WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

struct pair {
	struct fixture g;
	struct weir_device *dev;
	struct weir_mmap *theirs[AREAS];	/* Which are imported. */
};

/* One side is the GPU's.  How that is named does not matter to a file or process, nor,
 * but for one of each, to the GPU's memory on the other side. */
static bool is_tried(const struct fixture *g, int from, int to)
{
	(void)g;
	if (want_long() ||
	    (!is_short() && (from < FILE_CACHED || to < FILE_CACHED)))
		return from >= GPU || to >= GPU;
	return from < GPU ? to == GPU : to < GPU ? from == GPU : to == from + 1;
}

static struct weir_mmap *start_on(struct weir_device *dev, struct weir_mmap *m)
{
	assert_int_equal(weir_mmap_set_permissions(m, RIGHTS), 0);
	assert_int_equal(weir_mmap_add_device(m, dev), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	return m;
}

static void lock(struct weir_device *dev, struct weir_mmap *m, const void *mem)
{
	struct weir_cuda_pointer there = { .size = sizeof(there) };

	assert_int_equal(weir_mmap_keys(m, dev, NULL, NULL), 0);
	assert_int_equal(weir_cuda_pointer(dev, (uintptr_t)mem, &there), 0);
	assert_int_equal(there.is_host, 1);
}

static struct weir_mmap *mmap_of_gpu(struct pair *l, uint64_t addr)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_domain(m, weir_cuda_domain(l->dev), addr,
					      l->g.area), 0);
	return start_on(l->dev, m);
}

static void import(struct pair *l, struct place *p, int area)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	void *addr;

	l->theirs[area] = mmap_of_gpu(l, p->base[area]);
	assert_int_equal(weir_mmap_export_device(l->theirs[area], l->dev, NULL,
						 &desc), 0);
	assert_int_equal(weir_mmap_import_device(&p->m[area], l->dev, desc.bytes,
						 desc.len, NULL), 0);
	assert_int_equal(weir_mmap_memrange(p->m[area], &addr, NULL), 0);
	assert_int_equal((uintptr_t)addr, p->base[area]);
}

static void gpu_begin(struct pair *l, struct place *p, int where, int area)
{
	p->fd[area] = p->direct[area] = -1;
	p->there = true;
	p->remote = true;
	p->see = cuda_bare_see;
	assert_int_equal(weir_cuda_alloc(l->dev, &p->base[area], l->g.area), 0);
	p->d[area] = weir_cuda_domain(l->dev);
	if (where == GPU_BUFS)
		p->m[area] = mmap_of_gpu(l, p->base[area]);
	else if (where == IMPORT)
		import(l, p, area);
}

static void place_begin(struct pair *l, void **state, int where, int area)
{
	static const char *const files[] = { "a", "b", "c" };
	struct place *p = &l->g.place[where];

	p->name = names[where];
	if (where >= GPU) {
		gpu_begin(l, p, where, area);
	} else if (where == FILE_CACHED) {
		p->fd[area] = p->direct[area] = -1;
		p->there = !harness_sim; /* Its files are its own. */
		if (p->there)
			p->fd[area] = test_file(state, files[area], 0, 0);
		if (p->there)
			p->d[area] = file_domain(p->fd[area]);
	} else {
		memory_begin(&l->g, p, area);
	}
	if (where == PROCESS)
		p->there = !weir_domain_process_create(&p->d[area], getpid(),
						       NULL);
	if (where == LOCKED) {
		assert_int_equal(weir_mmap_create(&p->m[area], NULL), 0);
		assert_int_equal(weir_mmap_set_memrange(p->m[area],
							p->mem[area],
							l->g.area), 0);
		lock(l->dev, start_on(l->dev, p->m[area]), p->mem[area]);
	}
	if (p->there)
		fill_area(&l->g, p, area);
	if (p->m[area])
		assert_int_equal(weir_inventory_attach(l->g.inv, p->m[area]), 0);
}

static void pair_begin(struct pair *l, void **state, size_t max,
		       struct weir_dma_opts opts)
{
	struct fixture *g = &l->g;

	memset(l->theirs, 0, sizeof(l->theirs));
	fixture_init(g, start_reactor(state), max, opts);
	g->area = (g->area + BLOCK - 1) & ~(BLOCK - 1);
	free(g->seen);
	g->seen = malloc(g->area);
	for (int area = 0; area < AREAS; area++) {
		free(g->ref.mem[area]);
		memory_begin(g, &g->ref, area);
		fill_area(g, &g->ref, area);
	}
	g->places = PLACES;
	g->is_tried = is_tried;
	assert_int_equal(weir_device_open_name(&l->dev, "cuda0"), 0);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	cuda_bare_begin();
	for (int where = 0; where < PLACES; where++)
		for (int area = 0; area < AREAS; area++)
			place_begin(l, state, where, area);
}

static void area_end(struct pair *l, int where, int area)
{
	struct place *p = &l->g.place[where];

	assert_int_equal(weir_mmap_destroy(p->m[area]), 0);
	if (where == IMPORT)
		assert_int_equal(weir_mmap_destroy(l->theirs[area]), 0);
	if (where >= GPU)
		assert_int_equal(weir_cuda_free(l->dev, p->base[area]), 0);
	if (where < GPU)
		assert_int_equal(weir_domain_destroy(p->d[area]), 0);
	if (p->fd[area] >= 0)
		close(p->fd[area]);
	free(p->mem[area]);
}

static void pair_end(struct pair *l)
{
	assert_int_equal(weir_inventory_destroy(l->g.inv), 0);
	for (int where = 0; where < PLACES; where++)
		for (int area = 0; area < AREAS; area++)
			area_end(l, where, area);
	cuda_bare_end();
	fixture_fini(&l->g);
	assert_int_equal(weir_device_close(l->dev), 0);
}

/* The memory of the mock is little, and it moves no bytes in another way. */
static void engine_agrees_with_memory_at_every_size(void **state)
{
	size_t largest = conform_largest();
	struct pair l;

	if (hold && largest > 2 << 20)
		largest = 2 << 20;
	pair_begin(&l, state, largest, (struct weir_dma_opts){ 0 });
	conform_sizes(&l.g, largest);
	pair_end(&l);
}

static void engine_agrees_with_memory_at_every_alignment(void **state)
{
	struct pair l;

	pair_begin(&l, state, 4096, (struct weir_dma_opts){ 0 });
	/* The mock is slow: all of them take more than ten minutes. */
	conform_alignments(&l.g, hold && want_long() ? 16 : conform_step());
	pair_end(&l);
}

static void engine_agrees_with_memory_for_every_number_of_pieces(void **state)
{
	struct pair l;

	pair_begin(&l, state, 4096, (struct weir_dma_opts){ 0 });
	conform_shapes(&l.g);
	pair_end(&l);
}

static void engine_agrees_with_memory_in_small_blocks(void **state)
{
	struct pair l;

	pair_begin(&l, state, 100000, CONFORM_BLOCKS);
	conform_blocks(&l.g);
	pair_end(&l);
}

static const struct harness_case cases[] = {
	CASE(engine_agrees_with_memory_at_every_size),
	CASE(engine_agrees_with_memory_at_every_alignment),
	CASE(engine_agrees_with_memory_for_every_number_of_pieces),
	CASE(engine_agrees_with_memory_in_small_blocks),
};

int main(void)
{
	return cuda_bare_find() ? harness_run_all(cases, N_OF(cases)) : 0;
}
