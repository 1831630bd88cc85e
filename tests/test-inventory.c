/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Inventories and bufs: the tables of mem/README.md, and a model: random calls
 * against a reference that is too simple to be wrong.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/job-kit.h"

#include <signal.h>
#include <sys/wait.h>

#include <weir/inventory.h>

#include "base/fault.h"

#define LEN 4096
#define BUFS 16

struct rig {
	struct weir_reactor *r;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	char *mem;
};

static void rig_begin(struct rig *g, void **state)
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

static void rig_end(struct rig *g)
{
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	free(g->mem);
}

static struct weir_buf *take(struct rig *g, size_t off, size_t len, size_t data,
			     size_t data_len)
{
	struct weir_buf *buf = NULL;

	assert_int_equal(weir_inventory_get(&buf, g->inv, g->m, g->mem + off,
					    len, g->mem + off + data, data_len),
			 0);
	return buf;
}

static uint64_t n_free(struct rig *g)
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
	struct rig g;

	rig_begin(&g, state);
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
	rig_end(&g);
}

/* Also where pointer arithmetic may not go. */
static void *at(const struct rig *g, size_t offset)
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
	struct rig g;
	size_t i;
	int err;

	rig_begin(&g, state);
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
	rig_end(&g);
}

static void attaching_is_by_mmap_and_bounded(void **state)
{
	struct weir_mmap *more[2];
	struct weir_buf *buf;
	struct rig g;
	int i;

	rig_begin(&g, state);
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
	rig_end(&g);
	for (i = 0; i < 2; i++)
		assert_int_equal(weir_mmap_destroy(more[i]), 0);
}

static void what_is_out_comes_back(void **state)
{
	struct weir_buf *buf[BUFS], *more = NULL;
	struct rig g;
	int i;

	rig_begin(&g, state);
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
	rig_end(&g);
}

static void references_are_counted_up_to_their_bound(void **state)
{
	struct weir_buf *buf, *other;
	struct rig g;
	int i;

	rig_begin(&g, state);
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
	rig_end(&g);
}

static void lists_are_chained_and_cut(void **state)
{
	struct weir_buf *a, *b, *c;
	struct rig g;

	rig_begin(&g, state);
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
	rig_end(&g);
}

static void a_member_of_a_list_is_not_a_list(void **state)
{
	struct weir_buf *head, *member, *other, *dup = NULL;
	struct rig g;

	rig_begin(&g, state);
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
	rig_end(&g);
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

static void to_put_what_is_not_out_ends_the_process(void **state)
{
	struct weir_buf *head, *member;
	struct rig g;

	rig_begin(&g, state);
	head = take(&g, 0, 10, 0, 0);
	member = take(&g, 10, 10, 0, 0);
	assert_int_equal(weir_buf_chain(head, member), 0);
	dies(member);
	weir_buf_put(head);
	dies(head);
	rig_end(&g);
}

static void a_dup_shares_memory_and_nothing_else(void **state)
{
	struct weir_buf *a, *b, *dup = NULL, *rest[BUFS];
	struct rig g;
	int n = 0;

	rig_begin(&g, state);
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
	rig_end(&g);
}

/* A copy that has to wait for the next turn is under way until then. */
static void a_job_locks_the_lists_that_it_uses(void **state)
{
	struct weir_buf *src, *tail, *dst, *dup = NULL;
	static char waste[4096];
	struct jrec first, copy;
	struct weir_dma *dma;
	struct rig g;

	rig_begin(&g, state);
	dma = start_dma(g.r, (struct weir_dma_opts){ .turn_bytes = 4096 });
	src = take(&g, 0, 1024, 0, 1000);
	tail = take(&g, 1024, 512, 0, 512);
	dst = take(&g, 2048, 2048, 0, 0);
	assert_int_equal(weir_buf_chain(src, tail), 0);

	spend_budget(dma, &first, waste, 4096);
	jrec_init(&copy);
	weir_job_copy(&copy.job, weir_loc_buf(dst), weir_loc_buf(src));
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
	rig_end(&g);
}

/* The model: an array of lists of descriptor numbers. */
#define MODEL_BUFS BUFS

struct model {
	struct weir_buf *buf[MODEL_BUFS];	/* Head of list i, or NULL. */
	int len[MODEL_BUFS];
	int refs[MODEL_BUFS];
	int out;
};

static void model_step(struct rig *g, struct model *m, unsigned int *seed)
{
	int a = rand_r(seed) % MODEL_BUFS, b = rand_r(seed) % MODEL_BUFS;
	struct weir_buf *buf = NULL;
	int want, err;

	switch (rand_r(seed) % 6) {
	case 0:
		if (m->buf[a])
			break;
		err = weir_inventory_get(&buf, g->inv, g->m, g->mem + a, 1,
					 NULL, 0);
		assert_int_equal(err, m->out == BUFS ? -EAGAIN : 0);
		if (err)
			break;
		m->buf[a] = buf;
		m->len[a] = m->refs[a] = 1;
		m->out++;
		break;
	case 1:
		if (!m->buf[a])
			break;
		weir_buf_put(m->buf[a]);
		if (--m->refs[a])
			break;
		m->out -= m->len[a];
		m->buf[a] = NULL;
		break;
	case 2:
		if (!m->buf[a])
			break;
		assert_int_equal(weir_buf_ref(m->buf[a]), 0);
		m->refs[a]++;
		break;
	case 3:
		if (!m->buf[a] || !m->buf[b])
			break;
		want = a == b ? -EINVAL : m->refs[b] != 1 ? -EPERM : 0;
		assert_int_equal(weir_buf_chain(m->buf[a], m->buf[b]), want);
		if (want)
			break;
		m->len[a] += m->len[b];
		m->buf[b] = NULL;
		break;
	case 4:
		if (!m->buf[a] || m->buf[b] || m->len[a] < 2)
			break;
		buf = weir_buf_next(m->buf[a]);
		assert_int_equal(weir_buf_unchain(m->buf[a], buf), 0);
		m->buf[b] = buf;
		m->len[b] = m->len[a] - 1;
		m->refs[b] = 1;
		m->len[a] = 1;
		break;
	default:
		if (!m->buf[a] || m->buf[b])
			break;
		err = weir_inventory_dup(&buf, g->inv, m->buf[a]);
		want = m->out + m->len[a] > BUFS ? -EAGAIN : 0;
		assert_int_equal(err, want);
		if (err)
			break;
		m->buf[b] = buf;
		m->len[b] = m->len[a];
		m->refs[b] = 1;
		m->out += m->len[b];
	}
}

static void model_check(struct rig *g, const struct model *m)
{
	int i;

	assert_int_equal(n_free(g), BUFS - m->out);
	assert_int_equal(weir_mmap_num_bufs(g->m), m->out);
	for (i = 0; i < MODEL_BUFS; i++) {
		if (!m->buf[i])
			continue;
		assert_int_equal(weir_buf_list_len(m->buf[i]), m->len[i]);
		assert_int_equal(weir_buf_refs(m->buf[i]), m->refs[i]);
	}
}

static void random_calls_agree_with_a_model(void **state)
{
	unsigned int steps = scaled(want_long() ? 10000000 : 200000), i, n;
	unsigned int seed = 1;
	struct model m;
	struct rig g;

	rig_begin(&g, state);
	memset(&m, 0, sizeof(m));
	for (i = 0; i < steps; i++) {
		model_step(&g, &m, &seed);
		if (i % 16 == 0)
			model_check(&g, &m);
	}
	for (n = 0; n < MODEL_BUFS; n++)
		while (m.buf[n] && m.refs[n]--)
			weir_buf_put(m.buf[n]);
	assert_int_equal(n_free(&g), BUFS);
	rig_end(&g);
}

static void any_failure_inside_leaves_nothing_behind(void **state)
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
		CASE(what_is_out_comes_back),
		CASE(references_are_counted_up_to_their_bound),
		CASE(lists_are_chained_and_cut),
		CASE(a_member_of_a_list_is_not_a_list),
		CASE(to_put_what_is_not_out_ends_the_process),
		CASE(a_dup_shares_memory_and_nothing_else),
		CASE(a_job_locks_the_lists_that_it_uses),
		CASE(random_calls_agree_with_a_model),
		CASE(any_failure_inside_leaves_nothing_behind),
	};

	return harness_run(cases, N_OF(cases));
}
