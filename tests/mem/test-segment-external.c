/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: external memory, and the tables of docs/internals/mem.md, cell by
 * cell. The numbers are those of the rules and cases that are re-created, of
 * DPDK's rte_extmem and test_external_mem.c.
 */

#include "tests/support/segment-fixture.h"
#include "tests/support/table-fixture.h"

#define N 8
#define LEN EXT_LEN

/* The columns of the table of external memory. */
enum column { UNKNOWN, EXTERNAL, ATTACHED, WITH_MMAP, KEPT, REMOVING };

static const char *const columns[] = {
	"unknown", "registered", "attached", "registered, an mmap lies in it",
	"registered, do not free", "its removal is being told",
};

struct fixture {
	char *p;
	struct weir_mmap *m;	/* WITH_MMAP: lies in it. */
	int fd;			/* Of the description. */
	uint64_t id;
};

static int do_register(void *fixture)
{
	struct fixture *g = fixture;
	return weir_segment_register(g->p, LEN, ext_iovas, 2, PAGE);
}

static int do_unregister(void *fixture)
{
	struct fixture *g = fixture;
	return weir_segment_unregister(g->p, LEN);
}

static int do_attach(void *fixture)
{
	struct fixture *g = fixture;
	return weir_segment_attach(g->p, LEN, g->fd);
}

static int do_detach(void *fixture)
{
	struct fixture *g = fixture;
	return weir_segment_detach(g->p, LEN);
}

static int do_share(void *fixture)
{
	struct fixture *g = fixture;
	int fd, err = weir_segment_share(&fd, g->p, LEN);

	if (!err)
		close(fd);
	return err;
}

static int do_start_in_it(void *fixture)
{
	struct fixture *g = fixture;
	struct weir_mmap *m = stopped_mmap(g->p + 50, 100);
	int err = weir_mmap_start(m);

	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

static int do_find(void *fixture)
{
	struct fixture *g = fixture;
	struct weir_segment seg = SEGMENT;

	return weir_segment_find(&seg, g->p);
}

static int do_iova(void *fixture)
{
	struct fixture *g = fixture;
	uint64_t iova;

	return weir_segment_iova(&iova, g->p);
}

static int do_fd(void *fixture)
{
	struct fixture *g = fixture;
	uint64_t off;
	int fd;

	return weir_segment_fd(&fd, &off, g->p);
}

static int do_set_flags(void *fixture)
{
	struct fixture *g = fixture;
	return weir_segment_set_flags(g->id, WEIR_SEGMENT_DIRTY, 0);
}

static int do_clean(void *fixture)
{
	struct fixture *g = fixture;
	int res = weir_segment_clean(g->id);

	return res > 0 ? 0 : res;
}

static int do_lock(void *fixture)
{
	struct fixture *g = fixture;
	return weir_segment_lock(g->id);
}

static int do_unlock(void *fixture)
{
	struct fixture *g = fixture;
	return weir_segment_unlock(g->id);
}

static const struct table_call calls[] = {
	{ "register", do_register },
	{ "attach", do_attach },
	{ "unregister", do_unregister },
	{ "detach", do_detach },
	{ "share", do_share },
	{ "mmap_start in it", do_start_in_it },
	{ "find", do_find },
	{ "iova", do_iova },
	{ "fd", do_fd },
	{ "set_flags", do_set_flags },
	{ "clean", do_clean },
	{ "lock", do_lock },
	{ "unlock", do_unlock },
};

static void fixture_begin(struct fixture *g, char *p, enum column col)
{
	memset(g, 0, sizeof(*g));
	g->p = p;
	g->fd = description(p);
	if (col == ATTACHED)
		assert_int_equal(do_attach(g), 0);
	else if (col != UNKNOWN)
		assert_int_equal(do_register(g), 0);
	g->id = list_of(p);
	if (col == WITH_MMAP)
		g->m = started_mmap(p + PAGE, 10);
	if (col == KEPT)
		assert_int_equal(weir_segment_set_flags(g->id,
					WEIR_SEGMENT_DO_NOT_FREE, 0), 0);
}

static void fixture_end(struct fixture *g)
{
	weir_mmap_destroy(g->m);
	weir_segment_set_flags(g->id, 0, WEIR_SEGMENT_DO_NOT_FREE);
	if (do_unregister(g) == -EPERM)
		assert_int_equal(do_detach(g), 0);
	assert_int_equal(n_lists(), 0);
	close(g->fd);
}

struct in_removal {
	struct fixture *g;
	const struct table_cell *cell;
	int calls;
	int res;
};

static void on_removal(int event, const struct weir_segment *list, void *arg)
{
	struct in_removal *in = arg;

	(void)list;
	if (event != WEIR_SEGMENT_REMOVING || in->calls++)
		return;
	in->res = in->cell->call->fn(in->g);
}

static int call_in_removal(struct fixture *g, const struct table_cell *cell)
{
	struct in_removal in = { g, cell, 0, 1 };

	assert_int_equal(weir_segment_event_register("cell", on_removal, &in),
			 0);
	assert_int_equal(do_unregister(g), 0);
	assert_int_equal(weir_segment_event_unregister("cell", &in), 0);
	assert_int_equal(in.calls, 1);
	return in.res;
}

/* 54, 56 */
static void external_memory_answers_as_the_table_says(void **state)
{
	char *p = pages(N);
	struct table t;
	struct table_cell c;
	struct fixture g;

	(void)state;
	table_open(&t, "docs/internals/mem.md", "external memory: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, p, (enum column)c.column);
		table_result(&c, c.column == REMOVING ?
					 call_in_removal(&g, &c) :
					 c.call->fn(&g));
		fixture_end(&g);
	}
	table_close(&t);
	pages_end(p, N);
}

/* C1.9, 51 */
static void bad_ranges_and_tables_are_refused(void **state)
{
	static const uint64_t wraps[] = { 0, UINT64_MAX - PAGE + 1 };
	char *p = pages(N);
	const struct {
		void *addr;
		size_t len;
		const uint64_t *iovas;
		size_t n;
		size_t page;
	} bad[] = {
		{ NULL, LEN, ext_iovas, 2, PAGE },
		{ p, 0, ext_iovas, 0, PAGE },
		{ p, LEN, ext_iovas, 2, 0 },
		{ p, LEN, ext_iovas, 2, PAGE - 1 },
		{ p, LEN, ext_iovas, 2, 3 * PAGE },
		{ p + 1, LEN, ext_iovas, 2, PAGE },
		{ p, LEN + 1, ext_iovas, 2, PAGE },
		{ p, LEN, ext_iovas, 1, PAGE },
		{ p, LEN, ext_iovas, 3, PAGE },
		{ p, LEN, ext_iovas, 0, PAGE },
		{ p, LEN, wraps, 2, PAGE },
		{ p, SIZE_MAX - PAGE + 1, NULL, 0, PAGE },
	};
	size_t i;

	(void)state;
	for (i = 0; i < N_OF(bad); i++)
		if (weir_segment_register(bad[i].addr, bad[i].len, bad[i].iovas,
					  bad[i].n, bad[i].page) != -EINVAL)
			fail_msg("row %zu is not refused", i);
	assert_int_equal(weir_segment_unregister(NULL, LEN), -EINVAL);
	assert_int_equal(weir_segment_unregister(p, 0), -EINVAL);
	assert_int_equal(weir_segment_detach(NULL, LEN), -EINVAL);
	assert_int_equal(weir_segment_share(&(int){ 0 }, NULL, LEN), -EINVAL);
	assert_int_equal(n_lists(), 0);
	pages_end(p, N);
}

/* C1.9, 56 */
static void unregister_wants_the_exact_range(void **state)
{
	char *p = pages(N);
	int fd;

	(void)state;
	assert_int_equal(weir_segment_register(p + PAGE, LEN, NULL, 0, PAGE),
			 0);
	assert_int_equal(weir_segment_unregister(p + PAGE, PAGE), -ENOENT);
	assert_int_equal(weir_segment_unregister(p + 2 * PAGE, PAGE), -ENOENT);
	assert_int_equal(weir_segment_unregister(p, 3 * PAGE), -ENOENT);
	assert_int_equal(weir_segment_share(&fd, p + PAGE, PAGE), -ENOENT);
	assert_int_equal(weir_segment_unregister(p + PAGE, LEN), 0);
	assert_int_equal(weir_segment_unregister(p + PAGE, LEN), -ENOENT);
	pages_end(p, N);
}

/* C1.9, 56 */
static void register_refuses_a_range_that_is_known(void **state)
{
	static const struct { int from, n; } over[] = {
		{ 2, 2 }, { 1, 2 }, { 3, 2 }, { 1, 4 }, { 2, 1 },
	};
	char *p = pages(N);
	struct weir_mmap *m;
	size_t i, round;

	(void)state;
	for (round = 0; round < 2; round++) {
		m = round ? started_mmap(p + LEN, LEN) : NULL;
		if (!round)
			assert_int_equal(weir_segment_register(p + LEN, LEN,
						NULL, 0, PAGE), 0);
		for (i = 0; i < N_OF(over); i++)
			assert_int_equal(weir_segment_register(
				p + (size_t)over[i].from * PAGE,
				(size_t)over[i].n * PAGE, NULL, 0, PAGE),
				-EEXIST);
		assert_int_equal(weir_segment_register(p, LEN, NULL, 0, PAGE),
				 0);
		assert_int_equal(weir_segment_register(p + 2 * LEN, LEN, NULL,
						       0, PAGE), 0);
		assert_int_equal(weir_segment_unregister(p, LEN), 0);
		assert_int_equal(weir_segment_unregister(p + 2 * LEN, LEN), 0);
		if (!round)
			assert_int_equal(weir_segment_unregister(p + LEN, LEN),
					 0);
		weir_mmap_destroy(m);
	}
	pages_end(p, N);
}

/* C1.9 */
static void external_memory_has_a_limit(void **state)
{
	size_t i, n = WEIR_SEGMENT_EXTERNAL_MAX;
	char *p = pages(n + 1), *last = p + n * PAGE;
	int fd;

	(void)state;
	assert_int_equal(weir_segment_register(last, PAGE, NULL, 0, PAGE), 0);
	assert_int_equal(weir_segment_share(&fd, last, PAGE), 0);
	assert_int_equal(weir_segment_unregister(last, PAGE), 0);
	for (i = 0; i < n; i++)
		assert_int_equal(weir_segment_register(p + i * PAGE, PAGE, NULL,
						       0, PAGE), 0);
	assert_int_equal(weir_segment_register(last, PAGE, NULL, 0, PAGE),
			 -ENOSPC);
	assert_int_equal(weir_segment_attach(last, PAGE, fd), -ENOSPC);
	close(fd);
	for (i = 0; i < n; i++)
		assert_int_equal(weir_segment_unregister(p + i * PAGE, PAGE),
				 0);
	assert_int_equal(n_lists(), 0);
	pages_end(p, n + 1);
}

/* C1.8, C1.9, 55, 56: with a table */
static void a_table_gives_the_iovas(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N);
	uint64_t iova;
	void *back;

	(void)state;
	assert_int_equal(weir_segment_register(p, LEN, ext_iovas, 2, PAGE), 0);
	assert_int_equal(weir_segment_iova(&iova, p + PAGE + 17), 0);
	assert_int_equal(iova, ext_iovas[1] + 17);
	assert_int_equal(weir_segment_from_iova(&back, iova), 0);
	assert_ptr_equal(back, p + PAGE + 17);
	assert_int_equal(weir_segment_from_iova(&back, ext_iovas[1] + PAGE),
			 -ENOENT);
	assert_int_equal(weir_segment_from_iova(&back, (uintptr_t)p), -ENOENT);
	assert_int_equal(weir_segment_find(&seg, p + PAGE), 0);
	assert_int_equal(seg.iova, ext_iovas[1]);
	assert_int_equal(weir_segment_find_list(&seg, p + PAGE), 0);
	assert_int_equal(seg.iova, ext_iovas[0]);
	assert_int_equal(seg.flags, WEIR_SEGMENT_EXTERNAL | WEIR_SEGMENT_DIRTY);
	assert_int_equal(weir_segment_iova(NULL, p), -EINVAL);
	assert_int_equal(weir_segment_iova(&iova, NULL), -EINVAL);
	assert_int_equal(weir_segment_from_iova(NULL, 0), -EINVAL);
	assert_int_equal(weir_segment_unregister(p, LEN), 0);
	pages_end(p, N);
}

/* What answers for an IOVA must have it; somebody does if any page has it. */
static void check_iova(const char *p, const uint64_t *iovas, size_t n,
		       uint64_t iova)
{
	size_t i, off;
	void *back;
	int err = weir_segment_from_iova(&back, iova);

	for (i = 0; i < n && iova - iovas[i] >= PAGE; i++)
		;
	assert_int_equal(err, i < n ? 0 : -ENOENT);
	if (err)
		return;
	off = (size_t)((char *)back - p);
	assert_true(off < n * PAGE);
	assert_true(iovas[off / PAGE] + off % PAGE == iova);
}

static void iova_lookup_works_for_any_table(void **state)
{
	uint64_t iovas[8];
	unsigned int round, seed = 1;
	char *p = pages(N_OF(iovas));
	size_t i;

	(void)state;
	for (round = 0; round < scaled(2000); round++) {
		/* Few different ones, also such that are no multiples. */
		for (i = 0; i < N_OF(iovas); i++)
			iovas[i] = 0x100000 + (uint64_t)(rand_r(&seed) % 12) *
				   (round & 1 ? PAGE : PAGE / 2);
		assert_int_equal(weir_segment_register(p, N_OF(iovas) * PAGE,
						       iovas, N_OF(iovas),
						       PAGE), 0);
		for (i = 0; i < 32; i++)
			check_iova(p, iovas, N_OF(iovas), 0x100000 - PAGE +
				   rand_r(&seed) % (14 * PAGE));
		assert_int_equal(weir_segment_unregister(p, N_OF(iovas) * PAGE),
				 0);
	}
	pages_end(p, N_OF(iovas));
}

/* A look-up that visited each page would take days. */
static void iovas_of_many_pages_are_found(void **state)
{
	size_t n = scaled(1 << 20), i;
	uint64_t *iovas = calloc(n, sizeof(*iovas));
	char *p = mmap(NULL, n * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		       MAP_NORESERVE, -1, 0);
	void *back;

	(void)state;
	assert_true(iovas && p != MAP_FAILED);
	for (i = 0; i < n; i++)
		iovas[i] = i * UINT64_C(2654435761) % n * 2 * PAGE;
	assert_int_equal(weir_segment_register(p, n * PAGE, iovas, n, PAGE), 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(weir_segment_from_iova(&back, iovas[i] + 5),
				 0);
		assert_ptr_equal(back, p + i * PAGE + 5);
	}
	assert_int_equal(weir_segment_unregister(p, n * PAGE), 0);
	munmap(p, n * PAGE);
	free(iovas);
}

/* C1.9, 55, 56: without one */
static void iovas_without_a_table_are_unknown(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N);
	uint64_t iova = 5;
	void *back;

	(void)state;
	assert_int_equal(weir_segment_register(p, LEN, NULL, 0, PAGE), 0);
	assert_int_equal(weir_segment_iova(&iova, p), -EOPNOTSUPP);
	assert_int_equal(iova, 5);
	assert_int_equal(weir_segment_from_iova(&back, (uintptr_t)p), -ENOENT);
	assert_int_equal(weir_segment_find(&seg, p + PAGE), 0);
	assert_true(seg.iova == WEIR_SEGMENT_NO_IOVA);
	assert_int_equal(weir_segment_unregister(p, LEN), 0);
	pages_end(p, N);
}

static void an_mmap_in_external_memory_is_external(void **state)
{
	struct weir_segment seg = SEGMENT, list = SEGMENT;
	struct weir_mmap *m, *over;
	char *p = pages(N);
	uint64_t iova;

	(void)state;
	assert_int_equal(weir_segment_register(p, LEN, ext_iovas, 2, PAGE), 0);
	m = started_mmap(p + PAGE + 5, 20);
	over = started_mmap(p + PAGE + 100, 2 * PAGE);	/* Not wholly in it. */
	assert_int_equal(weir_segment_iova(&iova, p + PAGE + 6), 0);
	assert_int_equal(iova, ext_iovas[1] + 6);
	assert_int_equal(weir_segment_find_list(&list, p + PAGE + 6), 0);
	assert_ptr_equal(list.addr, p);
	assert_int_equal(weir_segment_find_list(&seg, p + LEN), 0);
	assert_int_equal(seg.flags, WEIR_SEGMENT_DIRTY);
	assert_int_equal(weir_segment_find_list(&seg, p + LEN - 1), 0);
	assert_ptr_equal(seg.addr, p);
	weir_mmap_destroy(over);
	weir_mmap_destroy(m);
	assert_int_equal(weir_segment_unregister(p, LEN), 0);
	pages_end(p, N);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(external_memory_answers_as_the_table_says),
		CASE(bad_ranges_and_tables_are_refused),
		CASE(unregister_wants_the_exact_range),
		CASE(register_refuses_a_range_that_is_known),
		CASE(external_memory_has_a_limit),
		CASE(a_table_gives_the_iovas),
		CASE(iova_lookup_works_for_any_table),
		CASE(iovas_of_many_pages_are_found),
		CASE(iovas_without_a_table_are_unknown),
		CASE(an_mmap_in_external_memory_is_external),
	};

	return harness_run_plain(cases, N_OF(cases));
}
