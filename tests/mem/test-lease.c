/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Leases: each call in each state, by itself and beside others; ends by time,
 * also while the exporter does nothing; other processes that write by a lease.
 */

#include "tests/support/writer-fixture.h"

#include <weir/lease.h>

#include "mem/export/internal.h"

/* The message of the call before. */
static void assert_why(const char *begin)
{
	assert_memory_equal(weir_why(), begin, strlen(begin));
}

#define LONG (1000 * WEIR_SEC)
#define SHORT (20 * WEIR_MSEC)

/* A lease of our own memory, and an import of it here. */
struct fixture {
	struct weir_reactor *r;
	struct weir_mmap *m;
	struct weir_lease *lease;
	struct weir_mmap *im;
};

static struct weir_lease *lease_of(struct fixture *g, uint64_t duration_ns)
{
	struct weir_lease_opts opts = {
		.size = sizeof(opts), .duration_ns = duration_ns,
	};
	struct weir_lease *lease = NULL;

	assert_int_equal(weir_lease_create(&lease, g->r, g->m, &opts), 0);
	return lease;
}

static void parcel_of_lease(struct parcel *p, const struct weir_lease *lease)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	assert_int_equal(weir_lease_export(lease, &desc), 0);
	parcel_fill(p, &desc);
}

static int import_lease(struct weir_mmap **ret, const struct weir_lease *lease)
{
	struct parcel p;
	int err;

	parcel_of_lease(&p, lease);
	err = parcel_import(ret, &p, NULL);
	parcel_drop(&p);
	return err;
}

static void begin(struct fixture *g, void **state, uint64_t duration_ns)
{
	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->m = fixture_started(FIXTURE_LEN, RW);
	g->lease = lease_of(g, duration_ns);
	assert_int_equal(import_lease(&g->im, g->lease), 0);
}

static void end(struct fixture *g)
{
	assert_int_equal(weir_mmap_destroy(g->im), 0);
	assert_int_equal(weir_lease_destroy(g->lease), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
}

/* It ends soon, but not before all of this is there. */
static void begin_short(struct fixture *g, void **state)
{
	begin(g, state, LONG);
	assert_int_equal(weir_lease_renew(g->lease, SHORT), 0);
}

static struct weir_lease_info info_of(const struct weir_lease *lease)
{
	struct weir_lease_info info = { .size = sizeof(info) };

	assert_int_equal(weir_lease_info(lease, &info), 0);
	return info;
}

static uint32_t state_of(const struct weir_lease *lease)
{
	return info_of(lease).state;
}

static int64_t revoke_here(struct fixture *g, struct weir_lease *lease)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_lease_revoke(lease, &rec.op));
	return finish(g->r, &rec);
}

/* What weir_lease_export() says now. */
static int export_again(const struct weir_lease *lease)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	return weir_lease_export(lease, &desc);
}

static void open_lease_takes_each_call(void **state)
{
	struct weir_lease_info info;
	struct parcel first, again;
	struct fixture g;

	begin(&g, state, 0);
	assert_int_equal(weir_mmap_is_exported(g.m), 1);
	info = info_of(g.lease);
	assert_int_equal(info.state, WEIR_LEASE_OPEN);
	assert_int_equal(info.busy, 0);
	assert_true(info.left_ns == WEIR_FOREVER);
	parcel_of_lease(&first, g.lease);
	parcel_of_lease(&again, g.lease);
	assert_int_equal(first.len, again.len);
	assert_memory_equal(first.bytes, again.bytes, first.len);
	parcel_drop(&first);
	parcel_drop(&again);
	assert_int_equal(weir_lease_renew(g.lease, LONG), 0);
	info = info_of(g.lease);
	assert_true(info.left_ns > LONG / 2 && info.left_ns <= LONG);
	assert_int_equal(weir_lease_renew(g.lease, UINT64_MAX), 0);
	assert_true(info_of(g.lease).left_ns == WEIR_FOREVER);
	assert_int_equal(weir_mmap_is_stale(g.im), 0);
	end(&g);
}

/* A job of the importer's, as far as its exporter sees it. */
static void become_busy(struct fixture *g)
{
	assert_int_equal(import_enter(g->im->import), 0);
}

static void become_quiet(struct fixture *g)
{
	import_leave(g->im->import);
}

static void ending_lease_takes_each_call(void **state)
{
	struct fixture g;
	struct rec rec;

	begin(&g, state, 0);
	become_busy(&g);
	assert_int_equal(info_of(g.lease).busy, 1);
	assert_int_equal(weir_lease_destroy(g.lease), -EBUSY);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OPEN);
	assert_int_equal(weir_lease_revoke(g.lease, NULL), -EINPROGRESS);
	assert_why("weir_lease_revoke");
	assert_int_equal(state_of(g.lease), WEIR_LEASE_ENDING);
	assert_int_equal(weir_mmap_is_stale(g.im), 1);
	assert_int_equal(weir_mmap_is_exported(g.m), 0);
	assert_int_equal(export_again(g.lease), -ESTALE);
	assert_int_equal(weir_lease_renew(g.lease, LONG), -ESTALE);
	assert_int_equal(weir_lease_destroy(g.lease), -EBUSY);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), -EBUSY);

	rec_init(&rec);
	STARTS(weir_lease_wait(g.lease, &rec.op));
	assert_int_equal(weir_lease_destroy(g.lease), -EBUSY);
	assert_int_equal(weir_mmap_destroy(g.m), -EBUSY);
	some_turns(g.r, 3);
	assert_int_equal(rec.calls, 0);
	weir_op_cancel(&rec.op);
	assert_int_equal(finish(g.r, &rec), -ECANCELED);
	assert_non_null(strstr(weir_why(), "still use the memory: process"));

	rec_init(&rec);
	STARTS(weir_lease_revoke(g.lease, &rec.op));
	become_quiet(&g);
	assert_int_equal(finish(g.r, &rec), 0);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OVER);
	end(&g);
}

static void lease_that_is_over_takes_each_call(void **state)
{
	struct fixture g;
	struct rec rec;
	int i;

	begin(&g, state, LONG);
	assert_int_equal(revoke_here(&g, g.lease), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(state_of(g.lease), WEIR_LEASE_OVER);
		assert_true(info_of(g.lease).left_ns == 0);
		assert_int_equal(export_again(g.lease), -ESTALE);
		assert_int_equal(weir_lease_renew(g.lease, 0), -ESTALE);
		assert_int_equal(weir_lease_revoke(g.lease, NULL), 0);
		assert_int_equal(revoke_here(&g, g.lease), 0);
		rec_init(&rec);
		STARTS(weir_lease_wait(g.lease, &rec.op));
		assert_int_equal(finish(g.r, &rec), 0);
		/* Then without its mmap. */
		if (!i)
			assert_int_equal(weir_mmap_destroy(g.m), 0);
	}
	assert_int_equal(weir_lease_destroy(g.lease), 0);
	assert_int_equal(weir_lease_destroy(NULL), 0);
	assert_int_equal(weir_mmap_destroy(g.im), 0);
}

static void leases_of_an_mmap_end_one_by_one(void **state)
{
	struct weir_mmap *other_im = NULL, *shared = NULL;
	struct weir_lease *other, *third;
	struct fixture g;
	struct parcel p;

	begin(&g, state, 0);
	other = lease_of(&g, LONG);
	third = lease_of(&g, 0);
	assert_int_equal(import_lease(&other_im, other), 0);
	parcel_of(&p, g.m, NULL);
	assert_int_equal(parcel_import(&shared, &p, NULL), 0);
	parcel_drop(&p);

	assert_int_equal(revoke_here(&g, other), 0);
	assert_int_equal(weir_mmap_is_stale(other_im), 1);
	assert_int_equal(weir_mmap_is_stale(g.im), 0);
	assert_int_equal(weir_mmap_is_stale(shared), 0);
	assert_int_equal(revoke_here(&g, g.lease), 0);
	assert_int_equal(weir_mmap_is_stale(g.im), 1);
	assert_int_equal(weir_mmap_is_stale(shared), 0);
	assert_int_equal(weir_mmap_revoke(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_is_stale(shared), 1);
	assert_int_equal(state_of(third), WEIR_LEASE_OVER);

	assert_int_equal(weir_mmap_destroy(other_im), 0);
	assert_int_equal(weir_mmap_destroy(shared), 0);
	assert_int_equal(weir_lease_destroy(third), 0);
	assert_int_equal(weir_lease_destroy(other), 0);
	end(&g);
}

/* The result of @start with an operation whose deadline has passed. */
static int64_t start_late(struct fixture *g,
			  int (*start)(struct fixture *g, struct weir_op *op))
{
	struct rec rec;

	rec_init(&rec);
	weir_op_set_deadline(&rec.op, 1);
	STARTS(start(g, &rec.op));
	return finish(g->r, &rec);
}

static int revoke_lease(struct fixture *g, struct weir_op *op)
{
	return weir_lease_revoke(g->lease, op);
}

static int wait_for_lease(struct fixture *g, struct weir_op *op)
{
	return weir_lease_wait(g->lease, op);
}

static int revoke_all(struct fixture *g, struct weir_op *op)
{
	return weir_mmap_revoke(g->m, g->r, op);
}

static void late_operation_ends_no_lease(void **state)
{
	struct fixture g;

	begin(&g, state, 0);
	assert_int_equal(start_late(&g, revoke_lease), -ETIMEDOUT);
	assert_int_equal(start_late(&g, wait_for_lease), -ETIMEDOUT);
	assert_int_equal(start_late(&g, revoke_all), -ETIMEDOUT);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OPEN);
	assert_int_equal(weir_mmap_is_stale(g.im), 0);
	end(&g);
}

static void stop_of_the_mmap_ends_its_leases(void **state)
{
	struct rec waits, again;
	struct fixture g;

	begin(&g, state, LONG);
	rec_init(&waits);
	STARTS(weir_lease_wait(g.lease, &waits.op));
	rec_init(&again);
	assert_int_equal(weir_lease_wait(g.lease, &again.op), -EBUSY);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(finish(g.r, &waits), 0);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OVER);
	assert_int_equal(weir_mmap_is_stale(g.im), 1);
	end(&g);
}

static void wait_for_an_open_lease_can_be_cancelled(void **state)
{
	struct fixture g;
	struct rec rec;

	begin(&g, state, LONG);
	rec_init(&rec);
	STARTS(weir_lease_wait(g.lease, &rec.op));
	weir_op_cancel(&rec.op);
	assert_int_equal(finish(g.r, &rec), -ECANCELED);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OPEN);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(g.r) + WEIR_MSEC);
	STARTS(weir_lease_wait(g.lease, &rec.op));
	assert_int_equal(finish(g.r, &rec), -ETIMEDOUT);
	assert_int_equal(weir_mmap_is_stale(g.im), 0);
	end(&g);
}

static void lease_ends_when_its_time_is_over(void **state)
{
	struct rec waits, watches;
	struct fixture g;

	begin_short(&g, state);
	rec_init(&watches);
	STARTS(weir_mmap_watch(g.im, g.r, &watches.op));
	rec_init(&waits);
	STARTS(weir_lease_wait(g.lease, &waits.op));
	assert_int_equal(finish(g.r, &waits), 0);
	assert_int_equal(finish(g.r, &watches), -ESTALE);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OVER);
	end(&g);
}

static void lease_that_is_renewed_lives_on(void **state)
{
	struct fixture g;
	struct rec rec;

	begin(&g, state, WEIR_SEC / 2);
	assert_int_equal(weir_lease_renew(g.lease, LONG), 0);
	rec_init(&rec);
	STARTS(weir_sleep_until(g.r, &rec.op,
				weir_reactor_now(g.r) + WEIR_SEC / 2));
	assert_int_equal(finish(g.r, &rec), 0);
	assert_int_equal(weir_mmap_is_stale(g.im), 0);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OPEN);
	end(&g);
}

/* Until the clock says that the lease is over; no reactor makes a turn. */
static void wait_without_turns(const struct weir_mmap *im)
{
	while (!weir_mmap_is_stale(im))
		;
}

static void importer_sees_the_end_without_its_exporter(void **state)
{
	struct fixture g;

	begin_short(&g, state);
	wait_without_turns(g.im);
	assert_int_equal(import_enter(g.im->import), -ESTALE);
	import_leave(g.im->import);
	assert_int_equal(weir_lease_renew(g.lease, LONG), -ESTALE);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OVER);
	end(&g);
}

/* The exporter's reactor makes no turn. */
static void watch_sees_the_end_without_its_exporter(void **state)
{
	const struct world *w = *state;
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend_of(w),
	};
	struct weir_reactor *there = NULL;
	struct fixture g;
	struct rec rec;

	begin_short(&g, state);
	assert_int_equal(weir_reactor_create(&there, &opts), 0);
	rec_init(&rec);
	STARTS(weir_mmap_watch(g.im, there, &rec.op));
	assert_int_equal(finish(there, &rec), -ESTALE);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OPEN);
	assert_int_equal(weir_reactor_destroy(there), 0);
	end(&g);
}

static void late_import_of_a_lease_is_refused(void **state)
{
	struct weir_mmap *late = NULL;
	struct fixture g;
	struct parcel p;

	begin(&g, state, LONG);
	parcel_of_lease(&p, g.lease);
	assert_int_equal(weir_lease_renew(g.lease, SHORT), 0);
	wait_without_turns(g.im);
	assert_int_equal(parcel_import(&late, &p, NULL), -ESTALE);
	assert_why("weir_mmap_import: the lease has ended");
	parcel_drop(&p);
	end(&g);
}

static uint64_t clock_of_leases(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

/* When importers see the end of @lease. */
static uint64_t not_after(const struct weir_lease *lease)
{
	const struct control *page;
	struct parcel p;
	uint64_t ns;

	parcel_of_lease(&p, lease);
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED,
		    p.fds[EXPORT_FD_CONTROL], 0);
	assert_true(page != MAP_FAILED);
	ns = atomic_load(&page->not_after);
	munmap((void *)(uintptr_t)page, sizeof(*page));
	parcel_drop(&p);
	return ns;
}

static struct fixture *in_callback;

/* The reactor's time is that of the beginning of this. */
static void long_callback(struct weir_op *op, int64_t res)
{
	struct fixture *g = in_callback;
	uint64_t begun = weir_reactor_now(g->r), now;
	struct weir_lease *lease;

	(void)op, (void)res;
	do
		now = clock_of_leases();
	while (now < begun + WEIR_MSEC);
	lease = lease_of(g, LONG);
	assert_true(not_after(lease) >= now + LONG);
	now = clock_of_leases();
	assert_int_equal(weir_lease_renew(lease, 2 * LONG), 0);
	assert_true(not_after(lease) >= now + 2 * LONG);
	assert_int_equal(weir_lease_destroy(lease), 0);

	/* Importers have seen the end. */
	lease = lease_of(g, 1);
	while (clock_of_leases() <= not_after(lease))
		;
	assert_int_equal(weir_lease_renew(lease, LONG), -ESTALE);
	assert_int_equal(weir_lease_destroy(lease), 0);
	in_callback = NULL;
}

static void lease_made_in_a_long_callback_has_all_its_time(void **state)
{
	struct weir_op op;
	struct fixture g;

	begin(&g, state, 0);
	in_callback = &g;
	weir_op_init(&op, long_callback);
	STARTS(weir_defer(g.r, &op));
	UNTIL(g.r, !in_callback);
	end(&g);
}

static void lease_lives_until_the_callback_of_its_last_wait(void **state)
{
	struct rec revoke, wait;
	struct fixture g;

	begin(&g, state, 0);
	rec_init(&revoke);
	rec_init(&wait);
	STARTS(weir_lease_wait(g.lease, &wait.op));
	STARTS(weir_lease_revoke(g.lease, &revoke.op));
	assert_int_equal(weir_lease_destroy(g.lease), -EBUSY);
	UNTIL(g.r, wait.calls && revoke.calls);
	assert_int_equal(wait.res, 0);
	assert_int_equal(revoke.res, 0);
	end(&g);
}

static void lease_of_another_time_namespace_is_refused(void **state)
{
	struct weir_mmap *im = NULL;
	struct fixture g;

	begin(&g, state, 0);
	g.m->leases->line.page->time_namespace++;
	assert_int_equal(import_lease(&im, g.lease), -EOPNOTSUPP);
	assert_why("weir_mmap_import: the lease is of another time namespace");
	end(&g);
}

static void child_that_destroys_a_lease_ends_nothing(void **state)
{
	struct fixture g;
	int status;
	pid_t pid;

	begin(&g, state, LONG);
	pid = fork();
	if (!pid)
		_exit(weir_lease_destroy(g.lease) ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(weir_mmap_is_stale(g.im), 0);
	assert_int_equal(state_of(g.lease), WEIR_LEASE_OPEN);
	end(&g);
}

static void bad_arguments_are_refused(void **state)
{
	struct weir_lease_opts opts = { .size = sizeof(opts), .flags = 1u << 31 };
	struct weir_lease_info info = { .size = 1 };
	struct weir_export_desc desc = { .size = 1 };
	struct weir_lease *lease = NULL;
	struct weir_mmap *idle;
	struct fixture g;

	begin(&g, state, 0);
	assert_int_equal(weir_lease_create(&lease, g.r, g.m, &opts), -EINVAL);
	assert_int_equal(weir_lease_create(&lease, g.r, g.im, NULL), -EPERM);
	idle = fixture_mmap(FIXTURE_LEN, RW);
	assert_int_equal(weir_lease_create(&lease, g.r, idle, NULL), -EBADFD);
	assert_int_equal(weir_mmap_destroy(idle), 0);
	assert_null(lease);
	assert_int_equal(weir_lease_info(g.lease, &info), -EINVAL);
	assert_int_equal(weir_lease_export(g.lease, &desc), -EINVAL);
	assert_int_equal(weir_reactor_destroy(g.r), -EBUSY);
	assert_non_null(strstr(weir_why(), "weir_lease"));
	end(&g);
}

/* Other processes, which write. */
struct writers {
	struct weir_reactor *r;
	struct there there;
	struct proc proc;
	struct weir_lease *lease;
};

static void send_lease(struct writers *w)
{
	struct parcel p;

	parcel_of_lease(&p, w->lease);
	assert_int_equal(parcel_send(w->proc.sock, &p), 0);
	parcel_drop(&p);
	assert_int_equal(hear(w->proc.sock), 0);
}

static void end_writer(struct writers *w)
{
	assert_int_equal(say(w->proc.sock), 0);
	assert_int_equal(proc_end(&w->proc), 0);
	assert_int_equal(weir_lease_destroy(w->lease), 0);
}

static void writer_of_one_lease_goes_on_when_another_ends(void **state)
{
	const struct world *world = *state;
	struct there there = { .backend = backend_of(world) };
	struct writers w[2] = { { .there = there }, { .there = there } };
	struct fixture g = { .im = NULL };
	volatile char *mem;
	int i;

	w[1].there.engine = WORKER;
	for (i = 0; i < 2; i++)
		proc_begin(&w[i].proc, write_there, &w[i].there);
	g.r = start_reactor(state);
	g.m = fixture_started(LEN, RW);
	mem = fixture_addr(g.m);
	for (i = 0; i < 2; i++) {
		w[i].lease = lease_of(&g, 0);
		send_lease(&w[i]);
	}
	assert_int_equal(revoke_here(&g, w[0].lease), 0);
	assert_int_equal(hear(w[0].proc.sock), 0);
	for (i = 0; i < 3; i++) {
		mem[i] = OURS;
		while (mem[i] == OURS)
			weir_reactor_turn(g.r, 0);
	}
	assert_int_equal(revoke_here(&g, w[1].lease), 0);
	memset((char *)mem, OURS, LEN);
	assert_int_equal(hear(w[1].proc.sock), 0);
	assert_int_equal((unsigned char)mem[0], OURS);
	assert_memory_equal((char *)mem, (char *)mem + 1, LEN - 1);
	end_writer(&w[0]);
	end_writer(&w[1]);
	assert_int_equal(weir_mmap_destroy(g.m), 0);
}

/* This process makes no turn: it reads from a socket. */
static void writer_ends_with_its_lease_while_the_exporter_is_busy(void **state)
{
	const struct world *world = *state;
	struct writers w = { .there = { .backend = backend_of(world) } };
	struct fixture g = { .im = NULL };
	int i;

	for (i = 0; i < N_ENGINES; i++) {
		if (i == COPYING)
			continue;
		w.there.engine = (enum engine)i;
		proc_begin(&w.proc, write_there, &w.there);
		g.r = start_reactor(state);
		g.m = fixture_started(LEN, RW);
		w.lease = lease_of(&g, LONG);
		send_lease(&w);
		assert_int_equal(weir_lease_renew(w.lease, SHORT), 0);
		assert_int_equal(hear(w.proc.sock), 0);
		assert_int_equal(revoke_here(&g, w.lease), 0);
		end_writer(&w);
		assert_int_equal(weir_mmap_destroy(g.m), 0);
		end_reactor(state);
	}
}

static void exporter_hands_out_a_lease(void **state)
{
	struct weir_import_opts opts = { .size = sizeof(opts) };
	struct weir_exporter_opts one = { .size = sizeof(one), .names = 1 };
	char dir[] = "/tmp/weir-lease-XXXXXX", path[64];
	struct weir_exporter *x = NULL;
	struct fixture g;
	struct rec rec;

	begin(&g, state, 0);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	assert_int_equal(weir_exporter_create(&x, g.r, path, &one), 0);
	assert_int_equal(weir_exporter_add_lease(x, "", g.lease), -EINVAL);
	assert_int_equal(weir_exporter_add_lease(x, "a", g.lease), 0);
	assert_int_equal(weir_exporter_add_lease(x, "a", g.lease), -EEXIST);
	assert_int_equal(weir_exporter_add_lease(x, "b", g.lease), -EAGAIN);
	assert_int_equal(weir_mmap_destroy(g.im), 0);
	rec_init(&rec);
	STARTS(weir_mmap_import_from(g.r, &rec.op, path, "a", &opts));
	assert_int_equal(finish(g.r, &rec), 0);
	g.im = weir_mmap_imported(&rec.op);
	assert_non_null(g.im);
	assert_int_equal(revoke_here(&g, g.lease), 0);
	assert_int_equal(weir_mmap_is_stale(g.im), 1);
	rec_init(&rec);
	STARTS(weir_mmap_import_from(g.r, &rec.op, path, "a", &opts));
	assert_int_equal(finish(g.r, &rec), -ESTALE);
	assert_int_equal(weir_exporter_remove(x, "a"), 0);
	assert_int_equal(weir_exporter_add_lease(x, "a", g.lease), -ESTALE);
	weir_exporter_destroy(x);
	assert_int_equal(rmdir(dir), 0);
	end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(open_lease_takes_each_call),
		CASE(ending_lease_takes_each_call),
		CASE(lease_that_is_over_takes_each_call),
		CASE(leases_of_an_mmap_end_one_by_one),
		CASE(late_operation_ends_no_lease),
		CASE(stop_of_the_mmap_ends_its_leases),
		CASE(wait_for_an_open_lease_can_be_cancelled),
		CASE(lease_ends_when_its_time_is_over),
		CASE(lease_that_is_renewed_lives_on),
		REAL(importer_sees_the_end_without_its_exporter),
		REAL(watch_sees_the_end_without_its_exporter),
		REAL(late_import_of_a_lease_is_refused),
		REAL(lease_of_another_time_namespace_is_refused),
		REAL(lease_made_in_a_long_callback_has_all_its_time),
		CASE(lease_lives_until_the_callback_of_its_last_wait),
		REAL(child_that_destroys_a_lease_ends_nothing),
		CASE(bad_arguments_are_refused),
		REAL(writer_of_one_lease_goes_on_when_another_ends),
		REAL(writer_ends_with_its_lease_while_the_exporter_is_busy),
		REAL(exporter_hands_out_a_lease),
	};

	return harness_run_all(cases, N_OF(cases));
}
