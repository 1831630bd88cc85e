/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Every engine does what the cpu engine does: the same result, checksum and
 * bytes, and no others, between any two places, at every size, alignment and
 * number of pieces.  Each job is done twice: in plain memory, by the reactor's
 * own thread; and between the places in question.
 */

#include "tests/support/conform-fixture.h"

#include <weir/domain-user.h>


/* The file engine has two, one of them without the page cache. */
enum where { MEMORY, FILE_CACHED, FILE_DIRECT, PROCESS, USER, PLACES };

static const char *const names[] = {
	"memory", "file", "O_DIRECT", "process", "user",
};

static char *byte_at(const struct weir_domain_side *side, uint64_t n,
		     uint64_t *left)
{
	uint32_t i = 0;

	while (n >= side->iov[i].iov_len)
		n -= side->iov[i++].iov_len;
	*left = side->iov[i].iov_len - n;
	n += (uintptr_t)side->iov[i].iov_base;
	if (!side->domain || weir_domain_kind(side->domain) < WEIR_DOMAIN_USER)
		return (char *)(uintptr_t)n;
	return (char *)weir_domain_ctx(side->domain) + n;
}

/* The user's domain: its addresses begin at 0. */
static int user_move(struct weir_domain *d, struct weir_reactor *r,
		     struct weir_op *op, const struct weir_domain_move *m)
{
	uint64_t total = 0, at, a, b;
	char *to, *from;
	uint32_t i;

	(void)d, (void)r;
	for (i = 0; i < m->dst.n_iov; i++)
		total += m->dst.iov[i].iov_len;
	for (at = 0; at < total; at += a) {
		to = byte_at(&m->dst, at, &a);
		from = byte_at(&m->src, at, &b);
		a = a < b ? a : b;
		memcpy(to, from, a);
	}
	weir_domain_complete(op, (int64_t)total);
	return 0;
}

static void file_begin(void **state, struct place *p, int area, bool direct)
{
	const char *const files[] = { "a", "b", "c", "da", "db", "dc" };
	const char *name = files[area + 3 * direct];
	int fd;

	fd = p->fd[area] = test_file(state, name, 0, 0);
	p->direct[area] = direct ? open(test_path(state, name),
					O_RDWR | O_DIRECT | O_CLOEXEC) : -1;
	p->there = !direct || p->direct[area] >= 0;
	if (p->there && direct)
		fd = p->direct[area];
	p->d[area] = file_domain(fd);
}

static void user_begin(struct place *p, int area)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER,
		.ctx = p->mem[area],
	};
	struct weir_domain *d = NULL;

	assert_int_equal(weir_domain_create(&d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(d, user_move), 0);
	assert_int_equal(weir_domain_set_push(d, user_move), 0);
	p->d[area] = d;
	p->base[area] = 0;
}

static void place_begin(struct fixture *g, void **state, int where, int area)
{
	struct place *p = &g->place[where];

	p->name = names[where];
	if (where == FILE_CACHED || where == FILE_DIRECT)
		file_begin(state, p, area, where == FILE_DIRECT);
	else
		memory_begin(g, p, area);
	if (where == PROCESS)
		p->there = !weir_domain_process_create(&p->d[area], getpid(),
						       NULL);
	if (where == USER)
		user_begin(p, area);
	fill_area(g, p, area);
}

/* Whether it is worth the time: what waits for a disk is slow, and what goes
 * through staging is pulled from and pushed to memory as well. */
static bool is_tried(const struct fixture *g, int from, int to)
{
	bool waits = from == FILE_DIRECT || to == FILE_DIRECT;

	(void)g;
	return want_long() || !waits || from == MEMORY || to == MEMORY;
}

static void fixture_begin(struct fixture *g, void **state, size_t max,
			  struct weir_dma_opts opts)
{
	int where, area;

	fixture_init(g, start_reactor(state), max, opts);
	g->places = PLACES;
	g->is_tried = is_tried;
	for (where = 0; where < PLACES; where++)
		for (area = 0; area < AREAS; area++)
			place_begin(g, state, where, area);
}

static void place_end(struct place *p)
{
	int i;

	for (i = 0; i < AREAS; i++) {
		assert_int_equal(weir_domain_destroy(p->d[i]), 0);
		if (p->fd[i] >= 0)
			close(p->fd[i]);
		if (p->direct[i] >= 0)
			close(p->direct[i]);
		free(p->mem[i]);
	}
}

static void fixture_end(struct fixture *g)
{
	int where;

	for (where = 0; where < PLACES; where++)
		place_end(&g->place[where]);
	fixture_fini(g);
}

static void engine_agrees_with_memory_at_every_size(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, conform_largest(), (struct weir_dma_opts){ 0 });
	conform_sizes(&g, conform_largest());
	fixture_end(&g);
}

static void engine_agrees_with_memory_at_every_alignment(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, 4096, (struct weir_dma_opts){ 0 });
	conform_alignments(&g, conform_step());
	fixture_end(&g);
}

static void engine_agrees_with_memory_for_every_number_of_pieces(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, 4096, (struct weir_dma_opts){ 0 });
	conform_shapes(&g);
	fixture_end(&g);
}

static void engine_agrees_with_memory_by_workers_in_small_blocks(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, 100000, CONFORM_BLOCKS);
	conform_blocks(&g);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(engine_agrees_with_memory_at_every_size),
		CASE(engine_agrees_with_memory_at_every_alignment),
		CASE(engine_agrees_with_memory_for_every_number_of_pieces),
		CASE(engine_agrees_with_memory_by_workers_in_small_blocks),
	};

	return harness_run(cases, N_OF(cases));
}
