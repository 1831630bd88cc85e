/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Inventories and bufs: the tables of docs/internals/mem.md, and a model:
 * random calls against a reference that is too simple to be wrong.
 */

#include "tests/support/job-fixture.h"
#include "tests/support/table-fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <weir/inventory.h>

#include "base/fault.h"
#include "mem/mmap-internal.h"

#define LEN 4096
#define BUFS 16

struct fixture {
	struct weir_reactor *r;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	char *mem;
};

static void fixture_begin(struct fixture *g, void **state)
{
	struct weir_inventory_opts opts = {
		.size = sizeof(opts), .bufs = BUFS, .mmaps = 2,
	};

	g->r = start_reactor(state);
	g->mem = aligned_alloc(4096, LEN);
	memset(g->mem, 0, LEN);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, &opts), 0);
	assert_int_equal(weir_mmap_create(&g->m, NULL), 0);
	assert_int_equal(weir_mmap_set_memrange(g->m, g->mem, LEN), 0);
	assert_int_equal(weir_mmap_set_permissions(g->m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_start(g->m), 0);
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	free(g->mem);
}

static struct weir_buf *take(struct fixture *g, size_t off, size_t len,
			     size_t data, size_t data_len)
{
	struct weir_buf *buf = NULL;

	assert_int_equal(weir_inventory_get(&buf, g->inv, g->m, g->mem + off,
					    len, g->mem + off + data, data_len),
			 0);
	return buf;
}

static uint64_t n_free(struct fixture *g)
{
	struct weir_inventory_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_inventory_stats(g->inv, &s), 0);
	assert_int_equal(s.free + s.out, s.total);
	assert_int_equal(s.total, BUFS);
	return s.free;
}

static void bad_options_are_refused(void **state)
{
	struct weir_inventory_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r = start_reactor(state);
	struct weir_inventory *inv;

	opts.bufs = (1u << 24) + 1;
	assert_int_equal(weir_inventory_create(&inv, r, &opts), -EINVAL);
	opts.bufs = 0;
	opts.mmaps = 5000;
	assert_int_equal(weir_inventory_create(&inv, r, &opts), -EINVAL);
	opts.size = 2;
	assert_int_equal(weir_inventory_create(&inv, r, &opts), -EINVAL);
	assert_int_equal(weir_inventory_destroy(NULL), 0);
}

static void windows_and_data_are_where_they_were_put(void **state)
{
	struct weir_buf *buf;
	struct fixture g;

	fixture_begin(&g, state);
	buf = take(&g, 100, 50, 10, 20);
	assert_ptr_equal(weir_buf_addr(buf), g.mem + 100);
	assert_int_equal(weir_buf_len(buf), 50);
	assert_ptr_equal(weir_buf_data(buf), g.mem + 110);
	assert_int_equal(weir_buf_data_len(buf), 20);
	assert_int_equal(weir_buf_headroom(buf), 10);
	assert_int_equal(weir_buf_tailroom(buf), 20);
	assert_ptr_equal(weir_buf_mmap(buf), g.m);

	assert_int_equal(weir_buf_set_data(buf, g.mem + 100, 50), 0);
	assert_int_equal(weir_buf_tailroom(buf), 0);
	assert_int_equal(weir_buf_set_data(buf, g.mem + 150, 0), 0);
	assert_int_equal(weir_buf_set_data(buf, g.mem + 99, 1), -ERANGE);
	assert_int_equal(weir_buf_set_data(buf, g.mem + 100, 51), -ERANGE);
	assert_int_equal(weir_buf_set_data(buf, g.mem + 151, 0), -ERANGE);
	assert_int_equal(weir_buf_headroom(buf), 50);
	assert_int_equal(weir_buf_reset(buf), 0);
	assert_int_equal(weir_buf_headroom(buf), 0);
	assert_int_equal(weir_buf_data_len(buf), 0);
	weir_buf_put(buf);
	weir_buf_put(NULL);
	fixture_end(&g);
}

/* Also where pointer arithmetic may not go. */
static void *at(const struct fixture *g, size_t offset)
{
	return (void *)((uintptr_t)g->mem + offset);
}

static void a_get_checks_every_bound(void **state)
{
	static const struct {
		size_t addr, len, data, data_len;
		int err;
	} tries[] = {
		{ 0, 0, 0, 0, -EINVAL },
		{ 0, LEN + 1, 0, 0, -ERANGE },
		{ LEN - 1, 2, LEN - 1, 0, -ERANGE },
		{ (size_t)-1, 1, 0, 0, -ERANGE },
		{ 1, SIZE_MAX, 1, 0, -ERANGE },
		{ 10, 10, 9, 1, -ERANGE },
		{ 10, 10, 15, 6, -ERANGE },
		{ 10, 10, 21, 0, -ERANGE },
		{ 10, 10, 20, 0, 0 },
		{ 0, LEN, 0, LEN, 0 },
	};
	struct weir_buf *buf;
	struct fixture g;
	size_t i;
	int err;

	fixture_begin(&g, state);
	for (i = 0; i < N_OF(tries); i++) {
		buf = (void *)1;
		err = weir_inventory_get(&buf, g.inv, g.m,
					 at(&g, tries[i].addr), tries[i].len,
					 at(&g, tries[i].data),
					 tries[i].data_len);
		assert_int_equal(err, tries[i].err);
		if (err)
			assert_ptr_equal(buf, (void *)1);
		else
			weir_buf_put(buf);
		assert_int_equal(n_free(&g), BUFS);
	}
	fixture_end(&g);
}

static void attaching_is_by_mmap_and_bounded(void **state)
{
	struct weir_mmap *more[2];
	struct weir_buf *buf;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_mmap_create(&more[i], NULL), 0);
		assert_int_equal(weir_mmap_set_memrange(more[i], g.mem, LEN),
				 0);
		assert_int_equal(weir_mmap_start(more[i]), 0);
	}
	assert_int_equal(weir_inventory_attach(g.inv, more[0]), 0);
	assert_int_equal(weir_inventory_attach(g.inv, more[0]), 0);
	assert_int_equal(weir_inventory_attach(g.inv, more[1]), -ENOSPC);
	assert_int_equal(weir_inventory_get(&buf, g.inv, more[1], g.mem, 1,
					    NULL, 0), -ENOENT);
	assert_int_equal(weir_inventory_detach(g.inv, more[1]), -ENOENT);

	assert_int_equal(weir_inventory_get(&buf, g.inv, more[0], g.mem, 1,
					    NULL, 0), 0);
	assert_int_equal(weir_inventory_detach(g.inv, more[0]), -EBUSY);
	assert_int_equal(weir_inventory_detach(g.inv, g.m), 0);
	assert_int_equal(weir_inventory_attach(g.inv, more[1]), 0);
	assert_int_equal(weir_inventory_destroy(g.inv), -EBUSY);
	weir_buf_put(buf);
	fixture_end(&g);
	for (i = 0; i < 2; i++)
		assert_int_equal(weir_mmap_destroy(more[i]), 0);
}

static void inventory_takes_all_its_bufs_back(void **state)
{
	struct weir_buf *buf[BUFS], *more = NULL;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	for (i = 0; i < BUFS; i++) {
		assert_int_equal(n_free(&g), BUFS - i);
		buf[i] = take(&g, 0, 1, 0, 0);
	}
	assert_int_equal(weir_inventory_get(&more, g.inv, g.m, g.mem, 1, NULL,
					    0), -EAGAIN);
	assert_null(more);
	assert_int_equal(weir_inventory_destroy(g.inv), -EBUSY);
	for (i = 0; i < BUFS; i++)
		weir_buf_put(buf[i]);
	assert_int_equal(n_free(&g), BUFS);
	fixture_end(&g);
}

/* A3.3; acceptance 20 */
static void references_are_counted_up_to_their_bound(void **state)
{
	struct weir_buf *buf, *other;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	buf = take(&g, 0, 1, 0, 0);
	other = take(&g, 1, 1, 0, 0);
	for (i = 1; i < WEIR_BUF_REFS_MAX; i++)
		assert_int_equal(weir_buf_ref(buf), 0);
	assert_int_equal(weir_buf_refs(buf), WEIR_BUF_REFS_MAX);
	assert_int_equal(weir_buf_ref(buf), -EMSGSIZE);
	assert_int_equal(weir_buf_chain(other, buf), -EPERM);
	assert_int_equal(weir_buf_reset(buf), 0);
	assert_int_equal(weir_buf_list_len(buf), 1);
	assert_int_equal(weir_buf_chain(buf, other), 0);
	assert_int_equal(weir_buf_unchain(buf, other), 0);
	for (i = 0; i < WEIR_BUF_REFS_MAX; i++)
		weir_buf_put(buf);
	weir_buf_put(other);
	assert_int_equal(n_free(&g), BUFS);
	fixture_end(&g);
}

static void lists_are_chained_and_cut(void **state)
{
	struct weir_buf *a, *b, *c;
	struct fixture g;

	fixture_begin(&g, state);
	a = take(&g, 0, 10, 0, 1);
	b = take(&g, 10, 10, 0, 2);
	c = take(&g, 20, 10, 0, 4);
	assert_int_equal(weir_buf_is_in_list(a), 0);
	assert_int_equal(weir_buf_chain(b, c), 0);
	assert_int_equal(weir_buf_chain(a, b), 0);
	assert_int_equal(weir_buf_list_len(a), 3);
	assert_int_equal(weir_buf_list_data_len(a), 7);
	assert_ptr_equal(weir_buf_next(a), b);
	assert_ptr_equal(weir_buf_next(b), c);
	assert_null(weir_buf_next(c));
	assert_ptr_equal(weir_buf_last(a), c);
	assert_ptr_equal(weir_buf_last(b), c);
	assert_int_equal(weir_buf_is_in_list(a), 1);
	assert_int_equal(weir_buf_is_in_list(c), 1);

	assert_int_equal(weir_buf_unchain(a, a), -EINVAL);
	assert_int_equal(weir_buf_chain(a, a), -EINVAL);
	assert_int_equal(weir_buf_unchain(a, b), 0);
	assert_int_equal(weir_buf_refs(b), 1);
	assert_ptr_equal(weir_buf_last(a), a);
	assert_ptr_equal(weir_buf_last(b), c);
	assert_int_equal(weir_buf_unchain(a, c), -EINVAL);
	weir_buf_put(a);
	assert_int_equal(n_free(&g), BUFS - 2);
	weir_buf_put(b);
	assert_int_equal(n_free(&g), BUFS);
	fixture_end(&g);
}

static void a_member_of_a_list_is_not_a_list(void **state)
{
	struct weir_buf *head, *member, *other, *dup = NULL;
	struct fixture g;

	fixture_begin(&g, state);
	head = take(&g, 0, 10, 0, 0);
	member = take(&g, 10, 10, 0, 0);
	other = take(&g, 20, 10, 0, 0);
	assert_int_equal(weir_buf_chain(head, member), 0);
	assert_int_equal(weir_buf_refs(member), 0);
	assert_int_equal(weir_buf_ref(member), -EPERM);
	assert_int_equal(weir_buf_chain(member, other), -EPERM);
	assert_int_equal(weir_buf_chain(other, member), -EPERM);
	assert_int_equal(weir_buf_unchain(member, other), -EPERM);
	assert_int_equal(weir_buf_list_len(member), -EPERM);
	assert_int_equal(weir_inventory_dup(&dup, g.inv, member), -EPERM);
	assert_int_equal(weir_buf_set_data(member, g.mem + 12, 3), 0);
	weir_buf_put(head);
	weir_buf_put(other);
	fixture_end(&g);
}

static void dies(struct weir_buf *buf)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		close(2);
		weir_buf_put(buf);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status));
}

static void put_of_a_free_buf_ends_the_process(void **state)
{
	struct weir_buf *head, *member;
	struct fixture g;

	fixture_begin(&g, state);
	head = take(&g, 0, 10, 0, 0);
	member = take(&g, 10, 10, 0, 0);
	assert_int_equal(weir_buf_chain(head, member), 0);
	dies(member);
	weir_buf_put(head);
	dies(head);
	fixture_end(&g);
}

static void a_dup_shares_memory_and_nothing_else(void **state)
{
	struct weir_buf *a, *b, *dup = NULL, *rest[BUFS];
	struct fixture g;
	int n = 0;

	fixture_begin(&g, state);
	a = take(&g, 0, 10, 2, 3);
	b = take(&g, 10, 20, 5, 7);
	assert_int_equal(weir_buf_chain(a, b), 0);
	assert_int_equal(weir_buf_ref(a), 0);
	assert_int_equal(weir_inventory_dup(&dup, g.inv, a), 0);
	assert_int_equal(weir_buf_refs(dup), 1);
	assert_int_equal(weir_buf_list_len(dup), 2);
	assert_ptr_equal(weir_buf_data(dup), weir_buf_data(a));
	assert_int_equal(weir_buf_data_len(weir_buf_next(dup)), 7);
	assert_int_equal(weir_buf_reset(dup), 0);
	assert_int_equal(weir_buf_data_len(a), 3);
	weir_buf_put(dup);

	/* All or nothing. */
	while (n_free(&g) > 1)
		rest[n++] = take(&g, 0, 1, 0, 0);
	assert_int_equal(weir_inventory_dup(&dup, g.inv, a), -EAGAIN);
	assert_int_equal(n_free(&g), 1);
	while (n)
		weir_buf_put(rest[--n]);
	weir_buf_put(a);
	weir_buf_put(a);
	fixture_end(&g);
}

/* A copy that has to wait for the next turn is in flight until then. */
static void a_job_locks_the_lists_that_it_uses(void **state)
{
	struct weir_buf *src, *tail, *dst, *dup = NULL;
	static char waste[4096];
	struct jrec first, copy;
	struct weir_dma *dma;
	struct fixture g;

	fixture_begin(&g, state);
	dma = start_dma(g.r, (struct weir_dma_opts){ .turn_bytes = 4096 });
	src = take(&g, 0, 1024, 0, 1000);
	tail = take(&g, 1024, 512, 0, 512);
	dst = take(&g, 2048, 2048, 0, 0);
	assert_int_equal(weir_buf_chain(src, tail), 0);

	spend_budget(dma, &first, waste, 4096);
	jrec_init(&copy);
	weir_job_copy(&copy.job, weir_operand_buf(dst), weir_operand_buf(src));
	STARTS(weir_job_start(dma, &copy.job));

	assert_int_equal(weir_buf_set_data(src, g.mem, 1), -EBUSY);
	assert_int_equal(weir_buf_set_data(tail, g.mem + 1024, 1), -EBUSY);
	assert_int_equal(weir_buf_reset(dst), -EBUSY);
	assert_int_equal(weir_buf_unchain(src, tail), -EBUSY);
	assert_int_equal(weir_buf_chain(src, dst), -EBUSY);
	assert_int_equal(weir_buf_chain(dst, src), -EBUSY);
	assert_int_equal(weir_buf_refs(src), 2);
	assert_int_equal(weir_buf_ref(src), 0);
	assert_int_equal(weir_inventory_dup(&dup, g.inv, src), 0);
	weir_buf_put(dup);
	weir_buf_put(src);
	weir_buf_put(src);

	assert_int_equal(jrec_finish(g.r, &copy), 1512);
	assert_int_equal(weir_buf_data_len(dst), 1512);
	assert_int_equal(weir_buf_reset(dst), 0);
	assert_int_equal(n_free(&g), BUFS - 1);
	weir_buf_put(dst);
	assert_int_equal(weir_dma_destroy(dma), 0);
	fixture_end(&g);
}

/* The model: lists, of which each element is where it is. */
#define LISTS 16
#define ELEMS 40
#define TOTAL_MAX 32

struct elem {
	size_t off, len, data, data_len;
};

struct list {
	struct weir_buf *head;	/* NULL: none. */
	int refs, len;
	struct elem elem[ELEMS];
};

struct model {
	struct fixture *g;
	struct list list[LISTS];
	int out, total;
	unsigned int seed;
};

static unsigned int dice(struct model *m, unsigned int sides)
{
	return (unsigned int)rand_r(&m->seed) % sides;
}

static struct elem random_elem(struct model *m)
{
	struct elem e;

	e.off = dice(m, LEN);
	e.len = 1 + dice(m, (unsigned int)(LEN - e.off));
	e.data = dice(m, (unsigned int)e.len + 1);
	e.data_len = dice(m, (unsigned int)(e.len - e.data) + 1);
	return e;
}

static void do_get(struct model *m, struct list *a)
{
	char *mem = m->g->mem;
	struct elem e = random_elem(m);
	struct weir_buf *buf = NULL;
	int err;

	if (a->head)
		return;
	switch (dice(m, 3)) {
	case 0:
		e.data = e.data_len = 0;
		err = weir_inventory_get_by_addr(&buf, m->g->inv, m->g->m,
						 mem + e.off, e.len);
		break;
	case 1:
		e.data = 0;
		e.data_len = e.len;
		err = weir_inventory_get_by_data(&buf, m->g->inv, m->g->m,
						 mem + e.off, e.len);
		break;
	default:
		err = weir_inventory_get(&buf, m->g->inv, m->g->m, mem + e.off,
					 e.len, mem + e.off + e.data,
					 e.data_len);
	}
	assert_int_equal(err, m->out == m->total ? -EAGAIN : 0);
	if (err)
		return;
	*a = (struct list){ .head = buf, .refs = 1, .len = 1, .elem = { e } };
	m->out++;
}

static void do_put(struct model *m, struct list *a)
{
	if (!a->head)
		return;
	weir_buf_put(a->head);
	if (--a->refs)
		return;
	m->out -= a->len;
	a->head = NULL;
}

static void do_ref(struct model *m, struct list *a)
{
	(void)m;
	if (!a->head || a->refs > 5)
		return;
	assert_int_equal(weir_buf_ref(a->head), 0);
	a->refs++;
}

static void do_chain(struct model *m, struct list *a, struct list *b)
{
	int want = a == b ? -EINVAL : b->refs != 1 ? -EPERM : 0;

	(void)m;
	if (!a->head || !b->head)
		return;
	assert_int_equal(weir_buf_chain(a->head, b->head), want);
	if (want)
		return;
	memcpy(a->elem + a->len, b->elem,
	       (size_t)b->len * sizeof(b->elem[0]));
	a->len += b->len;
	b->head = NULL;
}

static struct weir_buf *nth(const struct list *a, int n)
{
	struct weir_buf *buf = a->head;

	while (n--)
		buf = weir_buf_next(buf);
	return buf;
}

static void do_unchain(struct model *m, struct list *a, struct list *b)
{
	struct weir_buf *buf;
	int at;

	if (!a->head || b->head)
		return;
	at = (int)dice(m, (unsigned int)a->len);
	buf = nth(a, at);
	assert_int_equal(weir_buf_unchain(a->head, buf), at ? 0 : -EINVAL);
	if (!at)
		return;
	*b = (struct list){ .head = buf, .refs = 1, .len = a->len - at };
	memcpy(b->elem, a->elem + at, (size_t)b->len * sizeof(b->elem[0]));
	a->len = at;
}

static void do_dup(struct model *m, struct list *a, struct list *b)
{
	int want = m->out + a->len > m->total ? -EAGAIN : 0;
	struct weir_buf *buf = NULL;

	if (!a->head || b->head)
		return;
	assert_int_equal(weir_inventory_dup(&buf, m->g->inv, a->head), want);
	if (want)
		return;
	*b = *a;
	b->head = buf;
	b->refs = 1;
	m->out += b->len;
}

static void do_set_data(struct model *m, struct list *a)
{
	struct elem *e, n;
	struct weir_buf *buf;
	char *base;
	int at, want;

	if (!a->head)
		return;
	at = (int)dice(m, (unsigned int)a->len);
	buf = nth(a, at);
	e = &a->elem[at];
	base = m->g->mem + e->off;
	if (dice(m, 4) == 0) {
		assert_int_equal(weir_buf_reset(buf), 0);
		e->data = e->data_len = 0;
		return;
	}
	n.data = dice(m, (unsigned int)e->len + 2);
	n.data_len = dice(m, (unsigned int)e->len + 2);
	want = n.data + n.data_len > e->len ? -ERANGE : 0;
	assert_int_equal(weir_buf_set_data(buf, base + n.data, n.data_len),
			 want);
	if (want)
		return;
	e->data = n.data;
	e->data_len = n.data_len;
}

static void do_expand(struct model *m)
{
	if (dice(m, 1000) || m->total == TOTAL_MAX)
		return;
	assert_int_equal(weir_inventory_expand(m->g->inv, 1), 0);
	m->total++;
}

static void model_step(struct model *m)
{
	struct list *a = &m->list[dice(m, LISTS)];
	struct list *b = &m->list[dice(m, LISTS)];

	switch (dice(m, 8)) {
	case 0:
		do_get(m, a);
		break;
	case 1:
		do_put(m, a);
		break;
	case 2:
		do_ref(m, a);
		break;
	case 3:
		do_chain(m, a, b);
		break;
	case 4:
		do_unchain(m, a, b);
		break;
	case 5:
		do_dup(m, a, b);
		break;
	case 6:
		do_set_data(m, a);
		break;
	default:
		do_expand(m);
	}
}

static void list_check(const struct model *m, const struct list *a)
{
	const struct elem *e = a->elem;
	struct weir_buf *buf;
	uint64_t bytes = 0;
	char *addr;

	for (buf = a->head; buf; buf = weir_buf_next(buf), e++) {
		addr = m->g->mem + e->off;
		assert_ptr_equal(weir_buf_addr(buf), addr);
		assert_ptr_equal(weir_buf_data(buf), addr + e->data);
		assert_int_equal(weir_buf_headroom(buf), e->data);
		assert_int_equal(weir_buf_tailroom(buf),
				 e->len - e->data - e->data_len);
		bytes += e->data_len;
	}
	assert_int_equal(e - a->elem, a->len);
	assert_int_equal(weir_buf_list_len(a->head), a->len);
	assert_int_equal(weir_buf_refs(a->head), a->refs);
	assert_int_equal(weir_buf_list_data_len(a->head), bytes);
	assert_ptr_equal(weir_buf_last(a->head), nth(a, a->len - 1));
	assert_int_equal(weir_buf_is_in_list(a->head), a->len > 1);
}

static void model_check(const struct model *m)
{
	struct weir_inventory_stats s = { .size = sizeof(s) };
	int i;

	assert_int_equal(weir_inventory_stats(m->g->inv, &s), 0);
	assert_int_equal(s.out, m->out);
	assert_int_equal(s.total, m->total);
	assert_int_equal(s.free, m->total - m->out);
	assert_int_equal(weir_mmap_num_bufs(m->g->m), m->out);
	for (i = 0; i < LISTS; i++)
		if (m->list[i].head)
			list_check(m, &m->list[i]);
}

static unsigned int choose_seed(void)
{
	const char *s = getenv("WEIR_TEST_SEED");
	unsigned int seed = s ? (unsigned int)strtoul(s, NULL, 0) :
			    want_long() ? (unsigned int)time(NULL) : 1;

	printf("# WEIR_TEST_SEED=%u\n", seed);
	return seed;
}

/* Acceptance 19 */
static void random_calls_agree_with_a_model(void **state)
{
	unsigned int steps = scaled(want_long() ? 10000000 : 100000), i;
	struct model m;
	struct fixture g;

	fixture_begin(&g, state);
	memset(&m, 0, sizeof(m));
	m.g = &g;
	m.total = BUFS;
	m.seed = choose_seed();
	for (i = 0; i < steps; i++) {
		model_step(&m);
		if (i % 16 == 0)
			model_check(&m);
	}
	for (i = 0; i < LISTS; i++)
		while (m.list[i].head)
			do_put(&m, &m.list[i]);
	assert_int_equal(m.out, 0);
	model_check(&m);
	fixture_end(&g);
}

/* The table of docs/internals/mem.md. */
enum { ALL_IN, SOME_OUT, ALL_OUT };

static const char *const states[] = { "all in", "some out", "all out" };

struct stand {
	struct fixture g;
	struct weir_buf *buf[BUFS + 1];
	int n;
	bool gone;
};

static int kept(struct stand *s, int err)
{
	s->n += !err;
	return err;
}

static int call_get(void *arg)
{
	struct stand *s = arg;

	return kept(s, weir_inventory_get(&s->buf[s->n], s->g.inv, s->g.m,
					  s->g.mem, 1, NULL, 0));
}

static int call_get_by_addr(void *arg)
{
	struct stand *s = arg;

	return kept(s, weir_inventory_get_by_addr(&s->buf[s->n], s->g.inv,
						  s->g.m, s->g.mem, 1));
}

static int call_get_by_data(void *arg)
{
	struct stand *s = arg;

	return kept(s, weir_inventory_get_by_data(&s->buf[s->n], s->g.inv,
						  s->g.m, s->g.mem, 1));
}

static int call_dup(void *arg)
{
	struct stand *s = arg;

	return kept(s, weir_inventory_dup(&s->buf[s->n], s->g.inv, s->buf[0]));
}

static int call_expand(void *arg)
{
	struct stand *s = arg;

	return weir_inventory_expand(s->g.inv, 1);
}

static int call_put(void *arg)
{
	struct stand *s = arg;

	weir_buf_put(s->buf[--s->n]);
	return 0;
}

static int call_destroy(void *arg)
{
	struct stand *s = arg;
	int err = weir_inventory_destroy(s->g.inv);

	s->gone = !err;
	return err;
}

static void inventory_answers_as_its_state_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "get", call_get }, { "get_by_addr", call_get_by_addr },
		{ "get_by_data", call_get_by_data }, { "dup", call_dup },
		{ "expand", call_expand }, { "put", call_put },
		{ "destroy", call_destroy },
	};
	struct table_cell c;
	struct stand s;
	struct table t;

	table_open(&t, "docs/internals/mem.md", "inventory: call by state", calls,
		   N_OF(calls), states, N_OF(states));
	while (table_next(&t, &c)) {
		memset(&s, 0, sizeof(s));
		fixture_begin(&s.g, state);
		while (s.n < (c.column == ALL_OUT ? BUFS : 2 * c.column))
			assert_int_equal(call_get(&s), 0);
		table_result(&c, c.call->fn(&s));
		assert_int_equal(s.gone, !strcmp(c.then, "gone"));
		while (s.n)
			call_put(&s);
		if (s.gone) {
			assert_int_equal(weir_mmap_destroy(s.g.m), 0);
			free(s.g.mem);
		} else {
			fixture_end(&s.g);
		}
		end_reactor(state);
	}
	table_close(&t);
}

static void revoked_mmap_gives_no_bufs(void **state)
{
	_Atomic uint64_t generation = 1;
	struct mmap_import import = { .mine = 1 };
	struct weir_buf *buf, *none = NULL;
	struct fixture g;

	import_init(&import, &generation, 1);
	fixture_begin(&g, state);
	g.m->import = &import;
	buf = take(&g, 0, 1, 0, 0);
	atomic_store(&generation, 2);
	assert_int_equal(weir_inventory_get(&none, g.inv, g.m, g.mem, 1, NULL,
					    0), -ESTALE);
	assert_int_equal(weir_inventory_dup(&none, g.inv, buf), -ESTALE);
	assert_null(none);
	weir_buf_put(buf);
	assert_int_equal(n_free(&g), BUFS);
	g.m->import = NULL;
	fixture_end(&g);
}

/* A caller may be older than the library, or newer. */
static void inventory_fills_as_much_of_a_struct_as_the_caller_knows(void **state)
{
	struct {
		struct weir_inventory_stats s;
		char newer[24];
	} ret;
	/* What nobody has set may be any of them. */
	static const size_t absurd[] = { sizeof(ret.s.size) - 1, 4097,
					 (size_t)-1 };
	struct fixture g;
	size_t i;

	fixture_begin(&g, state);
	memset(&ret, 0x55, sizeof(ret));
	ret.s.size = offsetof(struct weir_inventory_stats, free);
	assert_int_equal(weir_inventory_stats(g.inv, &ret.s), 0);
	assert_int_equal(ret.s.size,
			 offsetof(struct weir_inventory_stats, free));
	assert_int_equal(ret.s.total, BUFS);
	assert_int_equal(ret.s.free, 0x5555555555555555);
	ret.s.size = sizeof(ret);
	assert_int_equal(weir_inventory_stats(g.inv, &ret.s), 0);
	assert_int_equal(ret.s.size, sizeof(ret));
	assert_int_equal(ret.s.free, BUFS);
	assert_memory_equal(ret.newer, (char[24]){ 0 }, 24);
	for (i = 0; i < N_OF(absurd); i++) {
		memset(&ret, 0x55, sizeof(ret));
		ret.s.size = absurd[i];
		assert_int_equal(weir_inventory_stats(g.inv, &ret.s), -EINVAL);
		assert_starts_with(weir_why(),
				   "weir_inventory_stats: .size of the ");
		assert_int_equal(ret.s.total, 0x5555555555555555);
	}
	fixture_end(&g);
}

/* A4.1 */
static void an_inventory_can_grow_while_bufs_are_out(void **state)
{
	struct weir_inventory_stats s = { .size = sizeof(s) };
	struct weir_buf *buf[BUFS + 3], *none = NULL;
	struct fixture g;
	int i, n;

	fixture_begin(&g, state);
	for (i = 0; i < BUFS; i++)
		buf[i] = take(&g, 0, 1, 0, 0);
	assert_int_equal(weir_inventory_expand(g.inv, 1u << 24), -EINVAL);
	assert_starts_with(weir_why(), "weir_inventory_expand: 16 bufs and ");
	assert_int_equal(weir_inventory_expand(g.inv, 0), 0);
	for (n = 0; n < 2; n++) {
		fault_arm(n);
		assert_int_equal(weir_inventory_expand(g.inv, 3), -ENOMEM);
		assert_true(fault_disarm());
	}
	assert_int_equal(weir_inventory_get_by_addr(&none, g.inv, g.m, g.mem,
						    1), -EAGAIN);
	assert_int_equal(weir_inventory_expand(g.inv, 3), 0);
	for (; i < BUFS + 3; i++)
		buf[i] = take(&g, 0, 1, 0, 0);
	assert_int_equal(weir_inventory_get_by_data(&none, g.inv, g.m, g.mem,
						    1), -EAGAIN);
	assert_int_equal(weir_inventory_detach(g.inv, g.m), -EBUSY);
	while (i)
		weir_buf_put(buf[--i]);
	assert_int_equal(weir_inventory_stats(g.inv, &s), 0);
	assert_int_equal(s.total, BUFS + 3);
	assert_int_equal(s.free, BUFS + 3);
	fixture_end(&g);
}

static void failed_inventory_call_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_inventory *inv = NULL;
	int err, n = 0, fired;

	do {
		fault_arm(n++);
		err = weir_inventory_create(&inv, r, NULL);
		fired = fault_disarm();
		assert_int_equal(err, fired ? -ENOMEM : 0);
	} while (fired);
	assert_true(n > 3);
	assert_int_equal(weir_inventory_destroy(inv), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_options_are_refused),
		CASE(windows_and_data_are_where_they_were_put),
		CASE(a_get_checks_every_bound),
		CASE(attaching_is_by_mmap_and_bounded),
		CASE(inventory_takes_all_its_bufs_back),
		CASE(references_are_counted_up_to_their_bound),
		CASE(lists_are_chained_and_cut),
		CASE(a_member_of_a_list_is_not_a_list),
		CASE(put_of_a_free_buf_ends_the_process),
		CASE(a_dup_shares_memory_and_nothing_else),
		CASE(a_job_locks_the_lists_that_it_uses),
		CASE(inventory_answers_as_its_state_table_says),
		CASE(revoked_mmap_gives_no_bufs),
		CASE(inventory_fills_as_much_of_a_struct_as_the_caller_knows),
		CASE(an_inventory_can_grow_while_bufs_are_out),
		CASE(random_calls_agree_with_a_model),
		CASE(failed_inventory_call_leaves_nothing_behind),
	};

	return harness_run_all(cases, N_OF(cases));
}
