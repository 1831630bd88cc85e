/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sync events in exported memory: acceptance case 13, remote; A10.3 and A10.4.
 * Peers are honest, hostile, or killed.
 */

#include "tests/support/export-fixture.h"

#include <poll.h>
#include <sched.h>

#include <weir/sync.h>

#include "base/fault.h"
#include "dma/sync/internal.h"
#include "reactor/reactor-internal.h"

#define THERE 0		/* Where in the memory: signalled by the exporter, */
#define BACK 64		/* by the importer, */
#define DATA 128	/* and what is written before. */
#define N_DATA 64
#define LEN 4096

struct sides {
	struct weir_mmap *m;
	struct weir_sync *there, *back;
	volatile uint64_t *data;
};

static void lay_out(struct sides *s, uint32_t rights)
{
	s->m = fixture_started(LEN, rights);
	assert_int_equal(weir_sync_create_in(&s->there, s->m, THERE, NULL), 0);
	assert_int_equal(weir_sync_create_in(&s->back, s->m, BACK, NULL), 0);
	s->data = (void *)(fixture_addr(s->m) + DATA);
}

static void clear_up(struct sides *s)
{
	assert_int_equal(weir_sync_destroy(s->there), 0);
	assert_int_equal(weir_sync_destroy(s->back), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
}

static void send_over(const struct sides *s, int sock)
{
	struct parcel p;

	parcel_of(&p, s->m, NULL);
	assert_int_equal(parcel_send(sock, &p), 0);
	parcel_drop(&p);
}

/* The same in this process. */
static void import_here(struct sides *im, const struct sides *s,
			uint32_t permissions)
{
	struct weir_import_opts opts = {
		.size = sizeof(opts), .permissions = permissions,
	};
	struct parcel p;

	im->m = NULL;
	parcel_of(&p, s->m, NULL);
	assert_int_equal(parcel_import(&im->m, &p, &opts), 0);
	parcel_drop(&p);
	assert_int_equal(weir_sync_open(&im->there, im->m, THERE), 0);
	assert_int_equal(weir_sync_open(&im->back, im->m, BACK), 0);
	im->data = (void *)(fixture_addr(im->m) + DATA);
}

/* Over there. */
static void import_there(struct sides *s, int sock)
{
	struct parcel p;

	s->m = NULL;
	EXPECT(!parcel_recv(sock, &p));
	EXPECT(!parcel_import(&s->m, &p, NULL));
	parcel_drop(&p);
	EXPECT(!weir_sync_open(&s->there, s->m, THERE));
	EXPECT(!weir_sync_open(&s->back, s->m, BACK));
	s->data = (void *)(fixture_addr(s->m) + DATA);
}

static void leave_there(struct sides *s)
{
	EXPECT(!weir_sync_destroy(s->there));
	EXPECT(!weir_sync_destroy(s->back));
	EXPECT(!weir_mmap_destroy(s->m));
}

static int64_t wait_on(struct weir_reactor *r, struct weir_sync *sync,
		       uint32_t cond, uint64_t value, uint64_t timeout_ns)
{
	struct rec rec;

	rec_init(&rec);
	if (timeout_ns)
		weir_op_set_deadline(&rec.op,
				     weir_reactor_now(r) + timeout_ns);
	STARTS(weir_sync_wait(sync, r, &rec.op, cond, value, WEIR_SYNC_ALL));
	return finish(r, &rec);
}

static void sync_event_that_does_not_fit_is_refused(void **state)
{
	static const struct {
		uint64_t off;
		int err;
	} places[] = {
		{ 4, -EINVAL }, { LEN - 24, -ERANGE }, { LEN, -ERANGE },
		{ UINT64_MAX - 7, -ERANGE }, { LEN - WEIR_SYNC_LEN, 0 },
	};
	struct weir_sync_opts opts = { .size = sizeof(opts), .flags = 2 };
	struct weir_mmap *m = fixture_mmap(LEN, RW), *plain = NULL;
	struct weir_sync *sync = NULL;
	size_t i;

	(void)state;
	assert_int_equal(weir_sync_create_in(&sync, m, 0, NULL), -EBADFD);
	assert_int_equal(weir_sync_open(&sync, m, 0), -EBADFD);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_sync_create_in(&sync, m, 0, &opts), -EINVAL);
	for (i = 0; i < N_OF(places); i++) {
		assert_int_equal(weir_sync_create_in(&sync, m, places[i].off,
						     NULL), places[i].err);
		if (places[i].err) {
			assert_int_equal(weir_sync_open(&sync, m,
							places[i].off),
					 places[i].err);
			assert_null(sync);
		}
	}

	/* It lies there: the memory stays. */
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), -EBUSY);
	assert_int_equal(weir_mmap_destroy(m), -EBUSY);
	assert_int_equal(weir_sync_destroy(sync), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);

	assert_int_equal(weir_mmap_create(&plain, NULL), 0);
	assert_int_equal(weir_mmap_alloc(plain, LEN, 0), 0);
	assert_int_equal(weir_mmap_start(plain), 0);
	assert_int_equal(weir_sync_create_in(&sync, plain, 0, NULL), -EACCES);
	assert_int_equal(weir_mmap_destroy(plain), 0);
}

static void open_refuses_memory_that_is_no_sync_event(void **state)
{
	struct weir_mmap *m = fixture_started(LEN, RW);
	struct weir_sync *sync = NULL, *creator = NULL;
	uint64_t *word = (void *)fixture_addr(m);

	(void)state;
	assert_int_equal(weir_sync_open(&sync, m, 0), -EBADMSG);
	memset(word, 0xff, WEIR_SYNC_LEN);
	assert_int_equal(weir_sync_open(&sync, m, 0), -EBADMSG);
	*word = SYNC_MAGIC + (UINT64_C(1) << 56);
	assert_int_equal(weir_sync_open(&sync, m, 0), -EPROTONOSUPPORT);
	assert_int_equal(weir_sync_create_in(&creator, m, 0, NULL), 0);
	assert_memory_equal(word, "weirsyn\1", 8);
	assert_int_equal(weir_sync_open(&sync, m, 0), 0);
	assert_int_equal(weir_sync_destroy(sync), 0);
	assert_int_equal(weir_sync_destroy(creator), 0);
	sync = NULL;
	assert_int_equal(weir_sync_open(&sync, m, 0), -ESTALE);
	assert_null(sync);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* A10.3 */
static void an_importer_opens_and_does_not_create(void **state)
{
	struct sides ex, im;
	struct weir_sync *sync = NULL;
	uint64_t value = 1;

	(void)state;
	lay_out(&ex, RO);
	import_here(&im, &ex, 0);
	assert_int_equal(weir_sync_create_in(&sync, im.m, 256, NULL), -EPERM);
	assert_int_equal(weir_sync_set(im.back, 1), -EACCES);
	assert_non_null(strstr(weir_why(), "weir_sync_set: the event was"));
	assert_int_equal(weir_sync_add(im.back, 1, &value), -EACCES);
	assert_non_null(strstr(weir_why(), "weir_sync_add: the event was"));
	assert_int_equal(value, 1);
	assert_int_equal(weir_sync_set(ex.there, 9), 0);
	assert_int_equal(weir_sync_get(im.there, &value), 0);
	assert_int_equal(value, 9);
	assert_int_equal(weir_mmap_destroy(im.m), -EBUSY);
	clear_up(&im);
	clear_up(&ex);
}

/* Nothing that was there before is left, or is written beside it. */
static void create_in_overwrites_all_bytes_of_a_sync_event(void **state)
{
	static const char zeros[WEIR_SYNC_LEN - 16];
	struct weir_mmap *m = fixture_started(LEN, RW);
	struct weir_sync *sync = NULL;
	char *p = fixture_addr(m);

	(void)state;
	memset(p, 0xff, LEN);
	assert_int_equal(weir_sync_create_in(&sync, m, 64, NULL), 0);
	assert_int_equal((unsigned char)p[63], 0xff);
	assert_memory_equal(p + 64, "weirsyn\1\0\0\0\0\0\0\0", 16);
	assert_memory_equal(p + 64 + 16, zeros, sizeof(zeros));
	assert_int_equal((unsigned char)p[64 + WEIR_SYNC_LEN], 0xff);
	assert_int_equal(weir_sync_destroy(sync), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Both mappings in one process: the watcher, step by step. */
static void signals_arrive_by_the_other_mapping(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sides ex, im;
	struct rec a, b;
	uint64_t i;

	lay_out(&ex, RW);
	import_here(&im, &ex, 0);
	for (i = 1; i <= scaled(300); i++) {
		rec_init(&a);
		rec_init(&b);
		STARTS(weir_sync_wait(im.there, r, &a.op, WEIR_SYNC_GE, i,
				      WEIR_SYNC_ALL));
		STARTS(weir_sync_wait(ex.back, r, &b.op, WEIR_SYNC_EQ, i,
				      WEIR_SYNC_ALL));
		if (i % 2)
			some_turns(r, 2);
		assert_int_equal(weir_sync_add(ex.there, 1, NULL), 0);
		assert_int_equal(finish(r, &a), 0);
		assert_int_equal(b.calls, 0);
		assert_int_equal(weir_sync_set(im.back, i), 0);
		assert_int_equal(finish(r, &b), 0);
	}
	clear_up(&im);
	clear_up(&ex);
}

static void sync_event_without_futex_waitv_is_polled(void **state)
{
	atomic_store(&sync_no_waitv, true);
	signals_arrive_by_the_other_mapping(state);
	atomic_store(&sync_no_waitv, false);
}

static void watcher_thread_reports_a_sync_event_to_a_sleeping_reactor(void **state)
{
	atomic_store(&sync_no_hooks, true);
	signals_arrive_by_the_other_mapping(state);
	atomic_store(&sync_no_hooks, false);
}

/* More waits than a reactor looks after, of which the last is signalled. */
static void sync_event_beyond_the_reactors_capacity_is_watched(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec recs[2 * HOOKS_MAX];
	struct sides ex, im;
	size_t i;

	lay_out(&ex, RW);
	import_here(&im, &ex, 0);
	for (i = 0; i < N_OF(recs); i++) {
		rec_init(&recs[i]);
		STARTS(weir_sync_wait(im.there, r, &recs[i].op, WEIR_SYNC_EQ,
				      i + 1, WEIR_SYNC_ALL));
	}
	assert_int_equal(r->n_hooks, HOOKS_MAX);
	for (i = N_OF(recs); i; i--) {
		assert_int_equal(weir_sync_set(ex.there, i), 0);
		assert_int_equal(finish(r, &recs[i - 1]), 0);
	}
	assert_int_equal(r->n_hooks, 0);
	assert_int_equal(im.there->n_left, 0);
	clear_up(&im);
	clear_up(&ex);
}

/* One of several waits, whose callback says how many have ended before. */
struct place {
	struct weir_op op;
	int *ended;
	int was;
};

static void on_place(struct weir_op *op, int64_t res)
{
	struct place *p = weir_container_of(op, struct place, op);

	assert_int_equal(res, 0);
	p->was = (*p->ended)++;
}

/* Also those that a reactor finds by itself, where one alone would travel no
 * further. */
static void several_waits_of_a_reactor_end_in_their_order(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct place p[HOOKS_MAX];
	struct sides ex, im;
	int i, ended = 0;

	lay_out(&ex, RW);
	import_here(&im, &ex, 0);
	for (i = 0; i < (int)N_OF(p); i++) {
		p[i].ended = &ended;
		weir_op_init(&p[i].op, on_place);
		STARTS(weir_sync_wait(im.there, r, &p[i].op, WEIR_SYNC_GE, 1,
				      WEIR_SYNC_ALL));
	}
	assert_int_equal(weir_sync_set(ex.there, 1), 0);
	while (ended < (int)N_OF(p))
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	for (i = 0; i < (int)N_OF(p); i++)
		assert_int_equal(p[i].was, i);
	assert_int_equal(r->n_hooks, 0);
	clear_up(&im);
	clear_up(&ex);
}

/* A reactor that never sleeps leaves it to the watcher some time. */
static void a_long_wait_is_looked_after_no_more(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sides ex, im;
	struct rec rec;

	lay_out(&ex, RW);
	import_here(&im, &ex, 0);
	rec_init(&rec);
	STARTS(weir_sync_wait(im.there, r, &rec.op, WEIR_SYNC_EQ, 1,
			      WEIR_SYNC_ALL));
	assert_int_equal(r->n_hooks, 1);
	while (r->n_hooks)
		assert_int_equal(weir_reactor_turn(r, 0), 0);
	assert_int_equal(im.there->n_left, 1);
	assert_int_equal(weir_sync_set(ex.there, 1), 0);
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(im.there->n_left, 0);

	/* And one that is cancelled is no more, either. */
	rec_init(&rec);
	STARTS(weir_sync_wait(im.there, r, &rec.op, WEIR_SYNC_EQ, 2,
			      WEIR_SYNC_ALL));
	weir_op_cancel(&rec.op);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(r->n_hooks, 0);
	clear_up(&im);
	clear_up(&ex);
}

/* Asleep in a foreign loop it cannot look: its descriptor becomes readable. */
static void a_foreign_loop_hears_of_a_signal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct pollfd p = { .fd = weir_reactor_fd(r), .events = POLLIN };
	struct sides ex, im;
	struct rec rec;
	uint64_t i;

	lay_out(&ex, RW);
	import_here(&im, &ex, 0);
	for (i = 1; i <= scaled(300); i++) {
		rec_init(&rec);
		STARTS(weir_sync_wait(im.there, r, &rec.op, WEIR_SYNC_EQ, i,
				      WEIR_SYNC_ALL));
		while (poll(&p, 1, 0))
			assert_true(weir_reactor_turn(r, 0) >= 0);
		assert_int_equal(im.there->n_left, 1);
		assert_int_equal(weir_sync_set(ex.there, i), 0);
		while (!rec.calls) {
			assert_int_equal(poll(&p, 1, 10000), 1);
			assert_true(weir_reactor_turn(r, 0) >= 0);
		}
		assert_int_equal(rec.res, 0);
	}
	clear_up(&im);
	clear_up(&ex);
}

/* It cannot say that it waits. */
static void a_reader_is_woken_or_looks(void **state)
{
	static const uint32_t rights[] = { RO, RW };
	struct weir_reactor *r = start_reactor(state);
	struct sides ex, im;
	struct rec rec;
	size_t i;

	for (i = 0; i < N_OF(rights); i++) {
		lay_out(&ex, rights[i]);
		import_here(&im, &ex, WEIR_MMAP_READ);
		assert_int_equal(im.there->always, rights[i] == RO);
		assert_false(im.there->writable);
		rec_init(&rec);
		STARTS(weir_sync_wait(im.there, r, &rec.op, WEIR_SYNC_EQ, 3,
				      WEIR_SYNC_ALL));
		some_turns(r, 3);
		assert_int_equal(weir_sync_set(ex.there, 3), 0);
		assert_int_equal(finish(r, &rec), 0);
		assert_int_equal(weir_sync_wait_blocking(im.there, WEIR_SYNC_EQ,
							 4, WEIR_SYNC_ALL,
							 3 * WEIR_MSEC),
				 -ETIMEDOUT);
		clear_up(&im);
		clear_up(&ex);
	}
}

/* A10.4 between processes; data is answered. */
static void fill(const struct sides *s, uint64_t round)
{
	size_t i;

	for (i = 0; i < N_DATA; i++)
		s->data[i] = round * 31 + i;
}

static bool is_filled(const struct sides *s, uint64_t round)
{
	size_t i;

	for (i = 0; i < N_DATA; i++)
		if (s->data[i] != round * 31 + i)
			return false;
	return true;
}

struct plan {
	uint64_t rounds;
	uint32_t backend;	/* Over there; 0: without a reactor. */
};

static int64_t there_res;

static void on_there(struct weir_op *op, int64_t res)
{
	(void)op;
	there_res = res;
}

static int wait_there(struct weir_reactor *r, struct weir_sync *sync,
		      uint64_t value)
{
	struct weir_op op;

	if (!r)
		return weir_sync_wait_blocking(sync, WEIR_SYNC_EQ, value,
					       WEIR_SYNC_ALL, WEIR_FOREVER);
	weir_op_init(&op, on_there);
	there_res = 1;
	EXPECT(!weir_sync_wait(sync, r, &op, WEIR_SYNC_EQ, value,
			       WEIR_SYNC_ALL));
	while (there_res > 0)
		EXPECT(weir_reactor_turn(r, WEIR_SEC) >= 0);
	return (int)there_res;
}

static void answer(int sock, void *arg)
{
	const struct plan *plan = arg;
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = plan->backend,
	};
	struct weir_reactor *r = NULL;
	struct sides s;
	uint64_t i;

	EXPECT(!plan->backend || !weir_reactor_create(&r, &opts));
	import_there(&s, sock);
	for (i = 1; i <= plan->rounds; i++) {
		EXPECT(!wait_there(r, s.there, i));
		EXPECT(is_filled(&s, i));
		fill(&s, ~i);
		EXPECT(!weir_sync_set(s.back, i));
	}
	leave_there(&s);
	EXPECT(!r || !weir_reactor_destroy(r));
}

static void exchange(void **state, bool reactors)
{
	struct plan plan = { .rounds = scaled(5000) };
	struct weir_reactor *r;
	struct sides s;
	struct proc proc;
	uint64_t i;

	plan.backend = reactors ? backend_of(*state) : 0;
	proc_begin(&proc, answer, &plan);
	r = start_reactor(state);
	lay_out(&s, RW);
	send_over(&s, proc.sock);
	for (i = 1; i <= plan.rounds; i++) {
		fill(&s, i);
		assert_int_equal(weir_sync_set(s.there, i), 0);
		if (reactors)
			assert_int_equal(wait_on(r, s.back, WEIR_SYNC_GE, i, 0),
					 0);
		else
			assert_int_equal(weir_sync_wait_blocking(
				s.back, WEIR_SYNC_GE, i, WEIR_SYNC_ALL,
				WEIR_FOREVER), 0);
		assert_true(is_filled(&s, ~i));
	}
	assert_int_equal(proc_end(&proc), 0);
	clear_up(&s);
}

static void reactors_of_two_processes_signal_each_other(void **state)
{
	exchange(state, true);
}

/* On this side; the other one's reactor looks. */
static void watched_sync_events_signal_each_other(void **state)
{
	atomic_store(&sync_no_hooks, true);
	exchange(state, true);
	atomic_store(&sync_no_hooks, false);
}

static void threads_of_two_processes_signal_each_other(void **state)
{
	exchange(state, false);
}

/* Adds without an end, from both sides, so that it can be killed anywhere. */
static void add_for_ever(int sock, void *arg)
{
	struct sides s;

	(void)arg;
	import_there(&s, sock);
	EXPECT(!say(sock));
	for (;;) {
		EXPECT(!weir_sync_add(s.back, 1, NULL));
		weir_sync_wait_blocking(s.there, WEIR_SYNC_NE, 0, 1, 1000);
	}
}

static void a_killed_importer_leaves_us_whole(void **state)
{
	unsigned int rounds = scaled(30);
	struct weir_reactor *r;
	struct proc proc;
	struct sides s;
	uint64_t value = 0;

	while (rounds--) {
		proc_begin(&proc, add_for_ever, NULL);
		r = start_reactor(state);
		lay_out(&s, RW);
		send_over(&s, proc.sock);
		assert_int_equal(hear(proc.sock), 0);
		assert_int_equal(wait_on(r, s.back, WEIR_SYNC_GE, 1 + rounds % 9,
					 0), 0);
		proc_kill(&proc);

		/* Nobody comes any more. */
		assert_int_equal(weir_sync_get(s.back, &value), 0);
		assert_int_equal(wait_on(r, s.back, WEIR_SYNC_GT, value,
					 WEIR_MSEC), -ETIMEDOUT);
		assert_int_equal(weir_sync_wait_blocking(
			s.back, WEIR_SYNC_GT, value, WEIR_SYNC_ALL,
			WEIR_MSEC), -ETIMEDOUT);
		assert_int_equal(weir_sync_add(s.back, 1, NULL), 0);
		assert_int_equal(wait_on(r, s.back, WEIR_SYNC_GT, value, 0), 0);
		clear_up(&s);
		end_reactor(state);
	}
}

static void export_and_sit(int sock, void *arg)
{
	struct sides s;
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct parcel p = { .n_fds = 0 };

	(void)arg;
	s.m = NULL;
	EXPECT(!weir_mmap_create(&s.m, NULL));
	EXPECT(!weir_mmap_alloc(s.m, LEN, WEIR_MMAP_ALLOC_MEMFD));
	EXPECT(!weir_mmap_set_permissions(s.m, WEIR_MMAP_WRITE | RW));
	EXPECT(!weir_mmap_start(s.m));
	EXPECT(!weir_sync_create_in(&s.there, s.m, THERE, NULL));
	EXPECT(!weir_sync_create_in(&s.back, s.m, BACK, NULL));
	EXPECT(!weir_mmap_export(s.m, NULL, &desc));
	memcpy(p.bytes, desc.bytes, desc.len);
	p.len = desc.len;
	p.n_fds = desc.n_fds;
	memcpy(p.fds, desc.fds, sizeof(desc.fds));
	EXPECT(!parcel_send(sock, &p));
	EXPECT(!hear(sock));	/* And is killed, or is told to end. */
	EXPECT(!weir_sync_destroy(s.there));
	EXPECT(!weir_sync_destroy(s.back));
	EXPECT(!hear(sock));
}

static void take_from(struct sides *s, int sock)
{
	struct parcel p;

	s->m = NULL;
	assert_int_equal(parcel_recv(sock, &p), 0);
	assert_int_equal(parcel_import(&s->m, &p, NULL), 0);
	parcel_drop(&p);
	assert_int_equal(weir_sync_open(&s->there, s->m, THERE), 0);
	assert_int_equal(weir_sync_open(&s->back, s->m, BACK), 0);
}

/* Nobody watches the mmap; waits find out by themselves. */
static void a_killed_exporter_ends_waits(void **state)
{
	struct weir_reactor *r;
	struct proc proc;
	struct sides s;
	struct rec rec;
	uint64_t value;

	proc_begin(&proc, export_and_sit, NULL);
	r = start_reactor(state);
	take_from(&s, proc.sock);
	rec_init(&rec);
	STARTS(weir_sync_wait(s.there, r, &rec.op, WEIR_SYNC_EQ, 1,
			      WEIR_SYNC_ALL));
	some_turns(r, 2);
	proc_kill(&proc);
	assert_int_equal(weir_sync_wait_blocking(s.back, WEIR_SYNC_EQ, 1,
						 WEIR_SYNC_ALL, WEIR_FOREVER),
			 -ESTALE);
	assert_starts_with(weir_why(), "weir_sync_wait_blocking: ");
	assert_int_equal(finish(r, &rec), -ESTALE);
	assert_int_equal(weir_sync_get(s.there, &value), -ESTALE);
	assert_int_equal(weir_sync_set(s.back, 1), -ESTALE);
	clear_up(&s);
}

static void a_destroyed_one_ends_waits_elsewhere(void **state)
{
	struct weir_reactor *r;
	struct proc proc;
	struct sides s;
	struct rec rec;

	proc_begin(&proc, export_and_sit, NULL);
	r = start_reactor(state);
	take_from(&s, proc.sock);
	rec_init(&rec);
	STARTS(weir_sync_wait(s.there, r, &rec.op, WEIR_SYNC_EQ, 1,
			      WEIR_SYNC_ALL));
	some_turns(r, 2);
	assert_int_equal(say(proc.sock), 0);
	assert_int_equal(weir_sync_wait_blocking(s.back, WEIR_SYNC_EQ, 1,
						 WEIR_SYNC_ALL, WEIR_FOREVER),
			 -ESTALE);
	assert_int_equal(finish(r, &rec), -ESTALE);
	assert_int_equal(say(proc.sock), 0);
	assert_int_equal(proc_end(&proc), 0);
	clear_up(&s);
}

static int destroy_all(struct sides *s)
{
	return weir_sync_destroy(s->there) || weir_sync_destroy(s->back) ||
	       weir_mmap_destroy(s->m);
}

/* A thread watches them; the child has none. */
static void child_that_destroys_sync_events_closes_none(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sides s, im;
	uint64_t value = 0;
	int status;
	pid_t pid;

	lay_out(&s, RW);
	import_here(&im, &s, 0);
	assert_int_equal(wait_on(r, im.there, WEIR_SYNC_EQ, 1, WEIR_MSEC),
			 -ETIMEDOUT);
	pid = fork();
	if (!pid) {
		alarm(60);
		_exit(destroy_all(&im) || destroy_all(&s));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(weir_sync_get(im.there, &value), 0);
	assert_int_equal(weir_sync_set(s.there, 1), 0);
	assert_int_equal(wait_on(r, im.there, WEIR_SYNC_EQ, 1, 0), 0);
	clear_up(&im);
	clear_up(&s);
}

/* Both are in one process, so that no turn comes between signal and close. */
static void signal_before_the_close_ends_the_wait_as_a_signal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = fixture_started(LEN, RW);
	struct weir_sync *creator, *opened;
	struct rec rec;

	assert_int_equal(weir_sync_create_in(&creator, m, 0, NULL), 0);
	assert_int_equal(weir_sync_open(&opened, m, 0), 0);
	rec_init(&rec);
	STARTS(weir_sync_wait(opened, r, &rec.op, WEIR_SYNC_EQ, 1,
			      WEIR_SYNC_ALL));
	assert_int_equal(weir_sync_set(creator, 1), 0);
	assert_int_equal(weir_sync_destroy(creator), 0);
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_sync_destroy(opened), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Garbage, without an end, all over both; but never the value 1 of BACK. */
static void write_garbage(int sock, void *arg)
{
	unsigned int seed = 5;
	struct sides s;
	uint64_t *words;

	(void)arg;
	import_there(&s, sock);
	words = (void *)fixture_addr(s.m);
	EXPECT(!say(sock));
	for (;;) {
		unsigned int i = (unsigned int)rand_r(&seed) % 16;
		uint64_t garbage = (uint64_t)rand_r(&seed) << 32 |
				   (unsigned int)rand_r(&seed);

		__atomic_store_n(&words[i], garbage | 2, __ATOMIC_RELAXED);
		if (garbage % 64 == 0)
			sync_futex_wake((_Atomic uint32_t *)&words[10], true);
	}
}

static void a_hostile_peer_can_only_make_us_wait(void **state)
{
	unsigned int rounds = scaled(40);
	struct weir_reactor *r;
	struct weir_sync *sync;
	struct proc proc;
	struct sides s;
	int64_t res;
	int err;

	proc_begin(&proc, write_garbage, NULL);
	r = start_reactor(state);
	lay_out(&s, RW);
	send_over(&s, proc.sock);
	assert_int_equal(hear(proc.sock), 0);
	while (rounds--) {
		res = wait_on(r, s.back, WEIR_SYNC_EQ, 1, 3 * WEIR_MSEC);
		assert_int_equal(res, -ETIMEDOUT);
		assert_int_equal(weir_sync_wait_blocking(
			s.back, WEIR_SYNC_EQ, 1, WEIR_SYNC_ALL,
			3 * WEIR_MSEC), -ETIMEDOUT);
		assert_int_equal(weir_sync_set(s.there, rounds), 0);
		assert_int_equal(weir_sync_add(s.there, 1, NULL), 0);
		sync = NULL;
		err = weir_sync_open(&sync, s.m, BACK);
		assert_true(!err || err == -EBADMSG || err == -ESTALE ||
			    err == -EPROTONOSUPPORT);
		assert_int_equal(weir_sync_destroy(sync), 0);
	}
	proc_kill(&proc);
	clear_up(&s);
}

/* The futex changes in the middle of each look: looks are counted. */
static void a_noisy_peer_gets_few_looks(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sides ex, im;
	struct rec rec;
	unsigned int i;

	lay_out(&ex, RW);
	import_here(&im, &ex, 0);
	rec_init(&rec);
	atomic_store(&sync_no_hooks, true);
	STARTS(weir_sync_wait(im.there, r, &rec.op, WEIR_SYNC_EQ, 1,
			      WEIR_SYNC_ALL));
	atomic_store(&sync_no_hooks, false);
	for (i = 0; i < 50 * SYNC_FRUITLESS_MAX; i++)
		assert_int_equal(weir_sync_set(ex.there, 2 + i), 0);
	assert_true(atomic_load(&im.there->fruitless) <=
		    SYNC_FRUITLESS_MAX + SYNC_CHECK_NS / SYNC_POLL_NS);
	assert_int_equal(weir_sync_set(ex.there, 1), 0);
	assert_int_equal(finish(r, &rec), 0);
	clear_up(&im);
	clear_up(&ex);
}

/* More of them than one thread can sleep on: they share as few as will do. */
static void operations_wait_for_many_sync_events_at_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint32_t n = want_long() ? WEIR_SYNC_WATCHED_MAX :
				      3 * SYNC_WATCHED_MAX - 1;
	struct weir_mmap *m = fixture_started(64 * (n + 1), RW);
	struct weir_sync **syncs = calloc(n + 1, sizeof(*syncs));
	struct rec *recs = calloc(n + 1, sizeof(*recs));
	uint32_t i, n_watchers = 1;

	for (i = 0; i <= n; i++)
		assert_int_equal(weir_sync_create_in(&syncs[i], m, 64 * i,
						     NULL), 0);
	for (i = 0; i < n; i++) {
		rec_init(&recs[i]);
		STARTS(weir_sync_wait(syncs[i], r, &recs[i].op, WEIR_SYNC_EQ,
				      1, WEIR_SYNC_ALL));
	}
	for (i = 1; i < n; i++)
		n_watchers += syncs[i]->watcher != syncs[i - 1]->watcher;
	assert_int_equal(n_watchers,
			 (n + SYNC_WATCHED_MAX - 1) / SYNC_WATCHED_MAX);
	rec_init(&recs[n]);
	if (n == WEIR_SYNC_WATCHED_MAX) {
		assert_int_equal(weir_sync_wait(syncs[n], r, &recs[n].op,
						WEIR_SYNC_EQ, 1,
						WEIR_SYNC_ALL), -ENOSPC);
		assert_non_null(strstr(weir_why(), "weir_sync_wait: "));
		assert_non_null(strstr(weir_why(), "8128"));
	}

	/* In reverse order, so that each thread is told of several. */
	for (i = n; i--;)
		assert_int_equal(weir_sync_set(syncs[i], 1), 0);
	for (i = 0; i < n; i++)
		UNTIL(r, recs[i].calls && !recs[i].res);

	/* A place that is given back is given again. */
	assert_int_equal(weir_sync_destroy(syncs[0]), 0);
	STARTS(weir_sync_wait(syncs[n], r, &recs[n].op, WEIR_SYNC_EQ, 1,
			      WEIR_SYNC_ALL));
	assert_int_equal(weir_sync_set(syncs[n], 1), 0);
	assert_int_equal(finish(r, &recs[n]), 0);
	for (i = 1; i <= n; i++)
		assert_int_equal(weir_sync_destroy(syncs[i]), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	free(syncs);
	free(recs);
}

static void failed_shared_sync_call_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = fixture_started(LEN, RW);
	struct weir_sync *sync, *opened;
	struct rec rec;
	int err, n = 0, fired;

	do {
		sync = opened = NULL;
		rec_init(&rec);
		fault_arm(n++);
		err = weir_sync_create_in(&sync, m, 0, NULL);
		if (!err)
			err = weir_sync_open(&opened, m, 0);
		if (!err)
			err = weir_sync_wait(opened, r, &rec.op, WEIR_SYNC_EQ,
					     1, WEIR_SYNC_ALL);
		fired = fault_disarm();
		if (!fired)
			assert_int_equal(err, 0);
		else if (!opened)
			assert_int_equal(err, -ENOMEM);
		else
			assert_int_equal(err, -EAGAIN);
		if (!err) {
			assert_int_equal(weir_sync_set(sync, 1), 0);
			assert_int_equal(finish(r, &rec), 0);
		}
		assert_int_equal(weir_sync_destroy(opened), 0);
		assert_int_equal(weir_sync_destroy(sync), 0);
	} while (fired);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(sync_event_that_does_not_fit_is_refused),
		CASE(open_refuses_memory_that_is_no_sync_event),
		CASE(an_importer_opens_and_does_not_create),
		CASE(create_in_overwrites_all_bytes_of_a_sync_event),
		CASE(signals_arrive_by_the_other_mapping),
		CASE(sync_event_without_futex_waitv_is_polled),
		CASE(watcher_thread_reports_a_sync_event_to_a_sleeping_reactor),
		CASE(sync_event_beyond_the_reactors_capacity_is_watched),
		CASE(several_waits_of_a_reactor_end_in_their_order),
		CASE(a_long_wait_is_looked_after_no_more),
		CASE(a_foreign_loop_hears_of_a_signal),
		CASE(a_reader_is_woken_or_looks),
		CASE(reactors_of_two_processes_signal_each_other),
		CASE(watched_sync_events_signal_each_other),
		CASE(threads_of_two_processes_signal_each_other),
		CASE(a_killed_importer_leaves_us_whole),
		CASE(a_killed_exporter_ends_waits),
		CASE(a_destroyed_one_ends_waits_elsewhere),
		CASE(child_that_destroys_sync_events_closes_none),
		CASE(signal_before_the_close_ends_the_wait_as_a_signal),
		CASE(a_hostile_peer_can_only_make_us_wait),
		CASE(a_noisy_peer_gets_few_looks),
		CASE(operations_wait_for_many_sync_events_at_once),
		CASE(failed_shared_sync_call_leaves_nothing_behind),
	};

	return harness_run(cases, N_OF(cases));
}
