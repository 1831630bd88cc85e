/* SPDX-License-Identifier: BSD-3-Clause */

/* Bufs on other reactors: put on other threads, used by jobs of other
 * reactors. */

#include "tests/support/job-fixture.h"
#include "tests/support/cores.h"

#include <weir/inventory.h>
#include <weir/pool.h>
#include <weir/watch.h>

#include "mem/buf-internal.h"

#define LEN 65536
#define BUFS 64

/* A free list of each kind, on the test's own reactor. */
struct fixture {
	struct weir_reactor *r;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	char *mem;
};

static struct weir_inventory *make_inventory(struct weir_reactor *r,
					     struct weir_mmap *m, uint32_t bufs)
{
	struct weir_inventory_opts opts = {
		.size = sizeof(opts), .bufs = bufs, .mmaps = 2,
	};
	struct weir_inventory *inv = NULL;

	MUST(!weir_inventory_create(&inv, r, &opts));
	MUST(!weir_inventory_attach(inv, m));
	return inv;
}

static void fixture_begin(struct fixture *g, void **state)
{
	g->r = start_reactor(state);
	g->mem = aligned_alloc(4096, LEN);
	memset(g->mem, 0, LEN);
	g->m = start_mmap(g->mem, LEN, WEIR_MMAP_WRITE);
	g->inv = make_inventory(g->r, g->m, BUFS);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_mmap_num_bufs(g->m), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	free(g->mem);
}

static uint64_t n_out(const struct weir_inventory *inv)
{
	struct weir_inventory_stats s = { .size = sizeof(s) };

	MUST(!weir_inventory_stats(inv, &s));
	MUST(s.free + s.out == s.total);
	return s.out;
}

static struct weir_buf *take(struct fixture *g, size_t off, size_t len)
{
	struct weir_buf *buf = NULL;

	assert_int_equal(weir_inventory_get_by_data(&buf, g->inv, g->m,
						    g->mem + off, len), 0);
	return buf;
}

/* Run @fn on a thread that has no reactor, to its end. */
static void elsewhere(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, fn, arg), 0);
	pthread_join(thread, NULL);
}

static void *put(void *arg)
{
	weir_buf_put(arg);
	return NULL;
}

static void a_put_on_a_thread_without_a_reactor_sends_home(void **state)
{
	struct weir_buf *buf;
	struct fixture g;

	fixture_begin(&g, state);
	buf = take(&g, 0, 1);
	elsewhere(put, buf);
	assert_int_equal(n_out(g.inv), 1);
	assert_int_equal(weir_mmap_num_bufs(g.m), 1);
	UNTIL(g.r, !n_out(g.inv));
	fixture_end(&g);
}

/* A3.3: the whole list, wherever its head was put. */
static void a_list_comes_home_with_its_head(void **state)
{
	struct weir_buf *head;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	head = take(&g, 0, 1);
	for (i = 1; i < 5; i++)
		assert_int_equal(weir_buf_chain(head, take(&g, 0, 1)), 0);
	elsewhere(put, head);
	UNTIL(g.r, !n_out(g.inv));
	fixture_end(&g);
}

static void *put_three(void *arg)
{
	weir_buf_put(arg);
	weir_buf_put(arg);
	weir_buf_put(arg);
	return NULL;
}

static void puts_on_owner_and_on_other_reactors_add_up(void **state)
{
	struct weir_buf *buf;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	buf = take(&g, 0, 1);
	for (i = 0; i < 4; i++)
		assert_int_equal(weir_buf_ref(buf), 0);
	elsewhere(put_three, buf);
	weir_buf_put(buf);
	assert_int_equal(n_out(g.inv), 1);
	UNTIL(g.r, weir_buf_refs(buf) == 1);
	assert_int_equal(n_out(g.inv), 1);
	weir_buf_put(buf);
	assert_int_equal(n_out(g.inv), 0);
	fixture_end(&g);
}

/* Destroy looks for what has arrived, so no turn is needed. */
static void destroy_takes_in_what_has_arrived(void **state)
{
	struct weir_buf *buf;
	struct fixture g;

	fixture_begin(&g, state);
	buf = take(&g, 0, 1);
	assert_int_equal(weir_inventory_destroy(g.inv), -EBUSY);
	elsewhere(put, buf);
	assert_int_equal(weir_inventory_destroy(g.inv), 0);
	assert_int_equal(weir_mmap_destroy(g.m), 0);
	free(g.mem);
}

static void destroy_says_who_holds_the_bufs(void **state)
{
	struct weir_buf *a, *b, *c;
	struct fixture g;

	fixture_begin(&g, state);
	a = take(&g, 0, 1);
	assert_null(weir_buf_tag(a));
	assert_int_equal(weir_inventory_destroy(g.inv), -EBUSY);
	assert_string_equal(weir_why(),
			    "weir_inventory_destroy: 1 bufs are out");
	b = take(&g, 0, 1);
	c = take(&g, 0, 1);
	weir_buf_set_tag(b, "reader");
	weir_buf_set_tag(c, "reader");
	assert_string_equal(weir_buf_tag(c), "reader");
	assert_int_equal(weir_inventory_destroy(g.inv), -EBUSY);
	assert_string_equal(weir_why(), "weir_inventory_destroy: 3 bufs are "
			    "out (2 by reader, 1 untagged)");
	weir_buf_put(a);
	weir_buf_put(b);
	weir_buf_put(c);
	a = take(&g, 0, 1);
	assert_null(weir_buf_tag(a));
	weir_buf_put(a);
	fixture_end(&g);
}

static void a_waiter_is_served_by_a_put_elsewhere(void **state)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 1,
				       .buf_size = 100 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = NULL;
	struct weir_buf *buf = NULL;
	struct rec rec;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	assert_int_equal(weir_pool_get(&buf, pool), 0);
	rec_init(&rec);
	STARTS(weir_pool_wait(pool, &rec.op));
	elsewhere(put, buf);
	assert_int_equal(finish(r, &rec), 100);
	assert_ptr_equal(weir_pool_taken(&rec.op), buf);
	elsewhere(put, buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

/* A holder on another thread: what the header says it may call there. */
static void *hold(void *arg)
{
	struct weir_buf *buf = arg;
	char *addr = weir_buf_addr(buf);

	MUST(weir_buf_len(buf) == 100 && weir_buf_data_len(buf) == 100);
	MUST(weir_buf_headroom(buf) == 0 && weir_buf_tailroom(buf) == 0);
	MUST(weir_buf_list_len(buf) == 2 && weir_buf_is_in_list(buf));
	MUST(weir_buf_list_data_len(buf) == 150);
	MUST(weir_buf_last(buf) == weir_buf_next(buf));
	MUST(!weir_buf_set_data(buf, addr + 10, 20));
	MUST(weir_buf_set_data(buf, addr + 101, 0) == -ERANGE);
	MUST(!weir_buf_reset(weir_buf_next(buf)));
	MUST(weir_buf_mmap(buf));
	weir_buf_set_tag(buf, "holder");
	memset(addr, 7, 100);
	return NULL;
}

static void a_holder_elsewhere_can_look_and_set_data(void **state)
{
	struct weir_buf *buf;
	struct fixture g;

	fixture_begin(&g, state);
	buf = take(&g, 0, 100);
	assert_int_equal(weir_buf_chain(buf, take(&g, 200, 50)), 0);
	elsewhere(hold, buf);
	assert_ptr_equal(weir_buf_data(buf), g.mem + 10);
	assert_int_equal(weir_buf_list_data_len(buf), 20);
	assert_int_equal(g.mem[99], 7);
	weir_buf_put(buf);
	fixture_end(&g);
}

/* On a core that is not the owner of the bufs: jobs, and a list like theirs. */
struct guest {
	struct fixture *g;
	struct weir_buf *src, *dst;
	struct weir_inventory *inv;
	struct weir_dma *dma;
	struct weir_domain *file;
	struct jrec j;
	sem_t ended;
	struct weir_dma_stats stats;
};

static void guest_job_done(struct weir_op *op, int64_t res)
{
	struct guest *u = weir_container_of(op, struct guest, j.job.op);

	u->j.res = res;
	sem_post(&u->ended);
}

static void guest_open(struct core *core, void *arg)
{
	struct guest *u = arg;
	struct weir_dma_opts opts = { .size = sizeof(opts) };

	MUST(!weir_dma_create(&u->dma, core->r, &opts));
	MUST(!weir_dma_start(u->dma));
	u->inv = make_inventory(core->r, u->g->m, 4);
}

static void guest_close(struct core *core, void *arg)
{
	struct guest *u = arg;

	(void)core;
	u->stats.size = sizeof(u->stats);
	MUST(!weir_dma_stats(u->dma, &u->stats));
	MUST(!weir_dma_destroy(u->dma));
	MUST(!weir_inventory_destroy(u->inv));
}

static void guest_copies(struct core *core, void *arg)
{
	struct guest *u = arg;

	(void)core;
	weir_job_init(&u->j.job, guest_job_done);
	weir_job_copy(&u->j.job, weir_operand_buf(u->dst),
		      weir_operand_buf(u->src));
	MUST(!weir_job_start(u->dma, &u->j.job));
	/* Neither reference nor mark of it is seen: both are the owner's. */
	MUST(u->src->refs == 1 && !u->src->readers && !u->dst->writing);
}

static void a_job_on_another_reactor_leaves_no_marks(void **state)
{
	struct guest u = { 0 };
	struct core core;
	struct fixture g;

	fixture_begin(&g, state);
	u.g = &g;
	sem_init(&u.ended, 0, 0);
	core_begin(&core, state);
	core_do(&core, guest_open, &u);
	memset(g.mem, 5, 300);
	u.src = take(&g, 0, 100);
	assert_int_equal(weir_buf_chain(u.src, take(&g, 100, 200)), 0);
	u.dst = take(&g, 1000, 300);
	assert_int_equal(weir_buf_reset(u.dst), 0);
	core_do(&core, guest_copies, &u);
	await(&u.ended);
	assert_int_equal(u.j.res, 300);
	assert_int_equal(weir_buf_data_len(u.dst), 300);
	assert_memory_equal(g.mem, g.mem + 1000, 300);
	weir_buf_put(u.src);
	weir_buf_put(u.dst);
	core_do(&core, guest_close, &u);
	core_end(&core);
	fixture_end(&g);
}

static void guest_reads(struct core *core, void *arg)
{
	struct guest *u = arg;

	(void)core;
	weir_job_init(&u->j.job, guest_job_done);
	weir_job_copy(&u->j.job, weir_operand_buf(u->dst),
		      weir_operand_at(u->file, 0, 4096));
	MUST(!weir_job_start(u->dma, &u->j.job));
}

static void guest_dups(struct core *core, void *arg)
{
	struct guest *u = arg;
	struct weir_buf *buf = NULL;

	(void)core;
	MUST(!weir_inventory_dup(&buf, u->inv, u->dst));
	weir_buf_put(u->dst);
	MUST(weir_buf_data_len(buf) == 4096);
	MUST(!weir_buf_reset(buf));
	u->dst = buf;
}

static void guest_puts(struct core *core, void *arg)
{
	struct guest *u = arg;

	(void)core;
	weir_buf_put(u->dst);
}

/*
 * The number of a registered buffer is good on its own reactor only.  The owner
 * registers two ranges, so that its number for this one is not the guest's.
 */
static void a_dup_is_the_way_to_registered_memory_elsewhere(void **state)
{
	static char other[4096];
	struct weir_mmap *first;
	struct guest u = { 0 };
	uint64_t registered;
	struct core core;
	struct fixture g;
	int fd;

	g.r = start_reactor(state);
	first = start_mmap(other, sizeof(other), WEIR_MMAP_WRITE);
	g.mem = aligned_alloc(4096, LEN);
	g.m = start_mmap(g.mem, LEN, WEIR_MMAP_WRITE);
	g.inv = make_inventory(g.r, first, BUFS);
	assert_int_equal(weir_inventory_attach(g.inv, g.m), 0);
	fd = test_file(state, "f", 4096, 3);
	u.file = file_domain(fd);
	u.g = &g;
	sem_init(&u.ended, 0, 0);
	core_begin(&core, state);
	core_do(&core, guest_open, &u);
	registered = (uint64_t)weir_mmap_registered(g.m, core.r, NULL);

	u.dst = take(&g, 8192, 4096);
	assert_int_equal(weir_buf_reset(u.dst), 0);
	core_do(&core, guest_reads, &u);
	await(&u.ended);
	assert_int_equal(u.j.res, 4096);
	assert_true(is_pattern(g.mem + 8192, 4096, 0, 3));
	memset(g.mem, 0, LEN);

	core_do(&core, guest_dups, &u);
	core_do(&core, guest_reads, &u);
	await(&u.ended);
	assert_int_equal(u.j.res, 4096);
	assert_true(is_pattern(g.mem + 8192, 4096, 0, 3));
	core_do(&core, guest_puts, &u);
	UNTIL(g.r, !n_out(g.inv));
	core_do(&core, guest_close, &u);
	core_end(&core);
	assert_int_equal(u.stats.fixed, registered == LEN);
	assert_int_equal(weir_domain_destroy(u.file), 0);
	close(fd);
	assert_int_equal(weir_inventory_destroy(g.inv), 0);
	assert_int_equal(weir_mmap_destroy(g.m), 0);
	assert_int_equal(weir_mmap_destroy(first), 0);
	free(g.mem);
}

/* A list cannot have two homes. */
static void lists_of_different_reactors_are_not_chained(void **state)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_inventory *inv;
	struct weir_buf *a, *b;
	struct weir_reactor *r2;
	struct fixture g;

	fixture_begin(&g, state);
	opts.backend = backend_of(*state);
	opts.sim = harness_sim;
	assert_int_equal(weir_reactor_create(&r2, &opts), 0);
	inv = make_inventory(r2, g.m, 4);
	a = take(&g, 0, 1);
	assert_int_equal(weir_inventory_dup(&b, inv, a), 0);
	assert_int_equal(weir_buf_chain(a, b), -EXDEV);
	assert_int_equal(weir_buf_chain(b, a), -EXDEV);
	assert_int_equal(n_out(inv), 1);
	weir_buf_put(a);
	weir_buf_put(b);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_reactor_destroy(r2), 0);
	fixture_end(&g);
}

/*
 * Two reactors that hand each other bufs as fast as they can.  Each is of a
 * pool and holds a number that the receiver checks; some are lists with a buf
 * of an inventory at the end, and a second reference that is given back too.
 */
struct side {
	struct core core;
	struct side *other;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_pool *pool;
	struct weir_poller *poller;
	uint64_t wanted, sent, wrong;
	atomic_ulong got;
	unsigned int seed;
	struct weir_buf *stuck;	/* The other's mailbox was full. */
};

struct item {
	struct side *to;
	uint64_t number, check;
};

static void on_item(void *arg)
{
	struct weir_buf *buf = arg;
	struct item *item = weir_buf_data(buf);
	struct side *to = item->to;

	to->wrong += item->check != ~item->number ||
		     weir_buf_data_len(buf) != sizeof(*item);
	item->check = 0;
	if (weir_buf_list_len(buf) == 2)
		weir_buf_put(buf);
	weir_buf_put(buf);
	atomic_fetch_add(&to->got, 1);
}

static struct weir_buf *make_item(struct side *s)
{
	struct weir_buf *buf = NULL, *more = NULL;
	struct item *item;
	void *mem;

	if (weir_pool_get(&buf, s->pool))
		return NULL;
	item = weir_buf_addr(buf);
	*item = (struct item){ s->other, s->sent, ~s->sent };
	MUST(!weir_buf_set_data(buf, item, sizeof(*item)));
	MUST(!weir_mmap_memrange(s->m, &mem, NULL));
	if (rand_r(&s->seed) % 3 == 0 &&
	    !weir_inventory_get_by_addr(&more, s->inv, s->m, mem, 1)) {
		MUST(!weir_buf_chain(buf, more));
		MUST(!weir_buf_ref(buf));
	}
	return buf;
}

static int send_some(struct weir_poller *poller, void *arg)
{
	struct side *s = arg;
	struct weir_buf *buf;
	int n = 0;

	(void)poller;
	while (s->sent < s->wanted && n < 32) {
		buf = s->stuck ? s->stuck : make_item(s);
		s->stuck = NULL;
		if (!buf)
			break;
		if (weir_post(s->other->core.r, on_item, buf)) {
			s->stuck = buf;
			break;
		}
		s->sent++;
		n++;
	}
	return n;
}

static void side_open(struct core *core, void *arg)
{
	struct side *s = arg;
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 61,
				       .buf_size = 64, .align = 64 };

	s->inv = make_inventory(core->r, s->m, 16);
	MUST(!weir_pool_create(&s->pool, core->r, &opts));
	MUST(!weir_poller_create(&s->poller, core->r, WEIR_MSEC, send_some, s));
}

static void side_stop(struct core *core, void *arg)
{
	struct side *s = arg;

	(void)core;
	weir_poller_destroy(s->poller);
}

/* Nothing travels any more: what has not been returned yet is at the door. */
static void side_close(struct core *core, void *arg)
{
	struct weir_pool_stats st = { .size = sizeof(st) };
	struct side *s = arg;

	(void)core;
	MUST(!s->wrong && s->sent == s->wanted);
	MUST(!n_out(s->inv));
	MUST(!weir_pool_stats(s->pool, &st));
	MUST(st.free == 61 && st.total == 61 && !st.out);
	MUST(!weir_inventory_destroy(s->inv));
	MUST(!weir_pool_destroy(s->pool));
}

static void two_reactors_hand_over_bufs_and_lose_none(void **state)
{
	struct side *s = calloc(2, sizeof(*s));
	char *mem = aligned_alloc(4096, 4096);
	struct weir_mmap *m = start_mmap(mem, 4096, WEIR_MMAP_WRITE);
	int i;

	for (i = 0; i < 2; i++) {
		s[i].other = &s[1 - i];
		s[i].m = m;
		s[i].seed = (unsigned int)i + 1;
		s[i].wanted = scaled(want_long() ? 10000000 : 300000);
		core_begin(&s[i].core, state);
	}
	for (i = 0; i < 2; i++)
		core_do(&s[i].core, side_open, &s[i]);
	for (i = 0; i < 2; i++)
		while (atomic_load(&s[i].got) < s[1 - i].wanted)
			usleep(1000);
	for (i = 0; i < 2; i++)
		core_do(&s[i].core, side_stop, &s[i]);
	for (i = 0; i < 2; i++)
		core_do(&s[i].core, side_close, &s[i]);
	for (i = 0; i < 2; i++)
		core_end(&s[i].core);
	assert_int_equal(weir_mmap_num_bufs(m), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	free(mem);
	free(s);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_put_on_a_thread_without_a_reactor_sends_home),
		CASE(a_list_comes_home_with_its_head),
		CASE(puts_on_owner_and_on_other_reactors_add_up),
		CASE(destroy_takes_in_what_has_arrived),
		CASE(destroy_says_who_holds_the_bufs),
		CASE(a_waiter_is_served_by_a_put_elsewhere),
		CASE(a_holder_elsewhere_can_look_and_set_data),
		CASE(a_job_on_another_reactor_leaves_no_marks),
		REAL(a_dup_is_the_way_to_registered_memory_elsewhere),
		CASE(lists_of_different_reactors_are_not_chained),
		REAL(two_reactors_hand_over_bufs_and_lose_none),
	};

	return harness_run_all(cases, N_OF(cases));
}
