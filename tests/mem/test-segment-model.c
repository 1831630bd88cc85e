/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: random changes against a plain array, and many threads at once.
 */

#include "tests/support/segment-fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define AREA 48			/* Pages of the model. */
#define LISTS 24

/* A list as the model has it. */
struct mlist {
	bool there;
	int from, n;		/* Pages. */
	struct weir_mmap *m;	/* NULL: external. */
	uint64_t id;
	uint64_t iovas[AREA];
	bool has_iovas;
	bool inside;		/* Lies in external memory. */
};

struct model {
	char *p;
	uint64_t rnd;
	struct mlist lists[LISTS];
};

static uint32_t rnd(struct model *m, uint32_t below)
{
	m->rnd = m->rnd * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(m->rnd >> 33) % below;
}

static bool covers(const struct mlist *l, int page)
{
	return l->there && page >= l->from && page < l->from + l->n;
}

/* Who answers for the page: external memory, else the oldest. */
static const struct mlist *answer(const struct model *m, int page)
{
	const struct mlist *best = NULL, *l;

	for (l = m->lists; l < m->lists + LISTS; l++) {
		if (!covers(l, page))
			continue;
		if (!best || (!l->m && best->m) ||
		    (!l->m == !best->m && l->id < best->id))
			best = l;
	}
	return best;
}

static bool overlaps(const struct model *m, int from, int n)
{
	int page;

	for (page = from; page < from + n; page++)
		if (answer(m, page))
			return true;
	return false;
}

/* The external list that holds all of it, or NULL. */
static const struct mlist *around(const struct model *m, int from, int n)
{
	const struct mlist *l = answer(m, from);

	return l && !l->m && covers(l, from + n - 1) ? l : NULL;
}

static void add_external(struct model *m, struct mlist *l)
{
	bool known = overlaps(m, l->from, l->n);
	char *addr = m->p + (size_t)l->from * PAGE;
	int i, err;

	l->has_iovas = rnd(m, 2);
	for (i = 0; i < l->n; i++)
		l->iovas[i] = (m->rnd >> 40 << 32) + (uint64_t)i * 7 * PAGE;
	err = weir_segment_register(addr, (size_t)l->n * PAGE,
				    l->has_iovas ? l->iovas : NULL,
				    (size_t)l->n, PAGE);
	assert_int_equal(err, known ? -EEXIST : 0);
	if (err)
		return;
	l->m = NULL;
	l->inside = false;
	l->id = list_of(addr);
	l->there = true;
}

static int newest(const struct weir_segment *seg, void *arg)
{
	uint64_t *id = arg;

	if (seg->list > *id)
		*id = seg->list;
	return 0;
}

static void add_mmap(struct model *m, struct mlist *l)
{
	l->inside = around(m, l->from, l->n);
	l->m = started_mmap(m->p + (size_t)l->from * PAGE,
			    (size_t)l->n * PAGE);
	l->id = 0;
	assert_int_equal(weir_segment_walk_lists(newest, &l->id), 0);
	l->there = true;
}

static bool is_used(const struct model *m, const struct mlist *ext)
{
	const struct mlist *l;

	for (l = m->lists; l < m->lists + LISTS; l++)
		if (l->there && l->m && l->from < ext->from + ext->n &&
		    ext->from < l->from + l->n)
			return true;
	return false;
}

static void remove_list(struct model *m, struct mlist *l)
{
	int err;

	if (l->m) {
		assert_int_equal(weir_mmap_destroy(l->m), 0);
		l->there = false;
		return;
	}
	err = weir_segment_unregister(m->p + (size_t)l->from * PAGE,
				      (size_t)l->n * PAGE);
	assert_int_equal(err, is_used(m, l) ? -EBUSY : 0);
	l->there = err != 0;
}

static void step(struct model *m)
{
	struct mlist *l = &m->lists[rnd(m, LISTS)];

	if (l->there) {
		remove_list(m, l);
		return;
	}
	l->from = (int)rnd(m, AREA);
	l->n = 1 + (int)rnd(m, AREA - (uint32_t)l->from > 12 ? 12 :
			       AREA - (uint32_t)l->from);
	if (rnd(m, 3))
		add_mmap(m, l);
	else
		add_external(m, l);
}

static void check_page(const struct model *m, int page)
{
	char *addr = m->p + (size_t)page * PAGE + 123;
	const struct mlist *l = answer(m, page);
	struct weir_segment seg = SEGMENT;
	uint64_t iova;
	int err = weir_segment_find_list(&seg, addr);

	assert_int_equal(err, l ? 0 : -ENOENT);
	if (!l)
		return;
	assert_int_equal(seg.list, l->id);
	assert_int_equal(seg.len, (size_t)l->n * PAGE);
	err = weir_segment_iova(&iova, addr);
	if (l->m) {
		assert_int_equal(err, 0);
		assert_int_equal(iova, (uintptr_t)addr);
	} else if (!l->has_iovas) {
		assert_int_equal(err, -EOPNOTSUPP);
	} else {
		assert_int_equal(iova, l->iovas[page - l->from] + 123);
	}
}

static void check_sums(const struct model *m)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	uint64_t own = 0, external = 0, lists = 0;
	const struct mlist *l;
	int page;

	for (l = m->lists; l < m->lists + LISTS; l++)
		lists += l->there;
	for (page = 0; page < AREA; page++) {
		l = answer(m, page);
		own += l && l->m;
		external += l && !l->m;
	}
	assert_int_equal(weir_segment_stats(&stats), 0);
	assert_int_equal(stats.lists, lists);
	assert_int_equal(stats.bytes, own * PAGE);
	assert_int_equal(stats.external, external * PAGE);
	assert_int_equal(stats.imported, 0);
}

struct runs {
	const struct model *m;
	int next;		/* The first page that was not seen yet. */
};

static int check_run(const struct weir_segment *run, void *arg)
{
	struct runs *runs = arg;
	int from = (int)(((char *)run->addr - runs->m->p) / (long)PAGE);
	int to = from + (int)(run->len / PAGE);

	for (; runs->next < from; runs->next++)
		assert_null(answer(runs->m, runs->next));
	for (; runs->next < to; runs->next++)
		assert_non_null(answer(runs->m, runs->next));
	assert_true(to >= AREA || !answer(runs->m, to));
	return 0;
}

static void random_changes_are_as_in_the_model(void **state)
{
	unsigned int n = want_long() ? 200000 : scaled(5000), i;
	struct model *m = calloc(1, sizeof(*m));
	struct runs runs = { .m = m };
	int page;

	(void)state;
	m->p = pages(AREA);
	m->rnd = 7;
	for (i = 0; i < n; i++) {
		step(m);
		for (page = 0; page < AREA; page++)
			check_page(m, page);
		check_sums(m);
		runs.next = 0;
		assert_int_equal(weir_segment_walk_runs(check_run, &runs), 0);
		for (page = runs.next; page < AREA; page++)
			assert_null(answer(m, page));
	}
	while (n_lists())
		for (i = 0; i < LISTS; i++)
			if (m->lists[i].there)
				remove_list(m, &m->lists[i]);
	pages_end(m->p, AREA);
	free(m);
}

/* Threads: two change, two look, one comes and goes as a listener. */
struct crowd {
	char *p;
	int who;
	unsigned int n;
	atomic_bool *over;
	atomic_long *told;
};

static void *change(void *arg)
{
	struct crowd *c = arg;
	char *p = c->p + (size_t)c->who * 4 * PAGE;
	struct weir_mmap *m;
	unsigned int i;

	for (i = 0; i < c->n; i++) {
		assert_int_equal(weir_segment_register(p, 2 * PAGE, NULL, 0,
						       PAGE), 0);
		m = started_mmap(p + PAGE, 2 * PAGE);
		weir_segment_set_flags(list_of(p), WEIR_SEGMENT_DIRTY, 0);
		weir_segment_lock(list_of(p + 2 * PAGE));
		assert_int_equal(weir_segment_unregister(p, 2 * PAGE), -EBUSY);
		assert_int_equal(weir_mmap_destroy(m), 0);
		assert_int_equal(weir_segment_unregister(p, 2 * PAGE), 0);
	}
	return NULL;
}

static int look_closely(const struct weir_segment *seg, void *arg)
{
	struct weir_segment found = SEGMENT;
	struct crowd *c = arg;

	/* It may be gone by now, but it is what it was. */
	assert_true((char *)seg->addr >= c->p);
	weir_segment_find(&found, seg->addr);
	return 0;
}

static void *look(void *arg)
{
	struct crowd *c = arg;
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	uint64_t iova;

	while (!atomic_load(c->over)) {
		assert_int_equal(weir_segment_walk(look_closely, c), 0);
		assert_int_equal(weir_segment_walk_runs(look_closely, c), 0);
		assert_int_equal(weir_segment_stats(&stats), 0);
		weir_segment_iova(&iova, c->p + PAGE);
	}
	return NULL;
}

static void count_told(int event, const struct weir_segment *list, void *arg)
{
	struct crowd *c = arg;

	(void)event, (void)list;
	atomic_fetch_add(c->told, 1);
}

static int let_grow(int node, uint64_t limit, uint64_t total, void *arg)
{
	(void)node, (void)limit, (void)total, (void)arg;
	return 0;
}

static void *listen_a_while(void *arg)
{
	struct crowd *c = arg;

	while (!atomic_load(c->over)) {
		assert_int_equal(weir_segment_event_register("x", count_told,
							     c), 0);
		assert_int_equal(weir_segment_validator_register("x", let_grow,
							NULL, 0, 0), 0);
		assert_int_equal(weir_segment_event_unregister("x", c), 0);
		assert_int_equal(weir_segment_validator_unregister("x", 0), 0);
	}
	return NULL;
}

static void threads_may_change_and_look_at_once(void **state)
{
	void *(*const roles[])(void *) = {
		change, change, look, look, listen_a_while,
	};
	struct crowd crowd[N_OF(roles)];
	pthread_t threads[N_OF(roles)];
	char *p = pages(8);
	atomic_long told = 0, told_others = 0;
	atomic_bool over = false;
	struct crowd all = { p, 0, 0, &over, &told };
	size_t i;

	(void)state;
	weir_segment_event_register("all", count_told, &all);
	for (i = 0; i < N_OF(roles); i++) {
		crowd[i] = (struct crowd){
			p, (int)i, want_long() ? 50000 : scaled(1000), &over,
			&told_others,
		};
		pthread_create(&threads[i], NULL, roles[i], &crowd[i]);
	}
	for (i = 0; i < N_OF(roles); i++) {
		pthread_join(threads[i], NULL);
		if (i == 1)
			atomic_store(&over, true);
	}
	/* Two lists a round, told coming and going. */
	assert_int_equal(atomic_load(&told), 2 * 4 * (long)crowd[0].n);
	weir_segment_event_unregister("all", &all);
	assert_int_equal(n_lists(), 0);
	pages_end(p, 8);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(random_changes_are_as_in_the_model),
		CASE(threads_may_change_and_look_at_once),
	};

	return harness_run_plain(cases, N_OF(cases));
}
