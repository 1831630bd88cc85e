/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Revocation: after its end no importer of this library touches the memory, by
 * whatever engine; and the ends of processes, stopped ones, and forked ones.
 */

#include "tests/support/writer-fixture.h"

#include <sys/syscall.h>
#include <sys/un.h>

#include "mem/export/internal.h"

/* Here: the exporter, which uses the memory itself. */
struct fixture {
	struct weir_reactor *r;
	struct there there;
	struct proc proc;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_buf *buf;
};

static void export_to(struct fixture *g)
{
	struct weir_export_opts opts = {
		.size = sizeof(opts),
		.flags = g->there.engine == COPYING ? WEIR_EXPORT_COPY : 0,
	};
	struct parcel p;

	parcel_of(&p, g->m, &opts);
	assert_int_equal(parcel_send(g->proc.sock, &p), 0);
	parcel_drop(&p);
	assert_int_equal(hear(g->proc.sock), 0);
}

static void begin_with(struct fixture *g, void **state, struct there there)
{
	const struct world *w = *state;

	if (there.engine == COPYING)
		close(own_pidfd());
	memset(g, 0, sizeof(*g));
	there.backend = backend_of(w);
	there.exporter = getpid();
	g->there = there;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	proc_begin(&g->proc, write_there, &g->there);
	g->r = start_reactor(state);
	if (there.engine == COPYING)
		g->m = start_mmap(malloc(LEN), LEN, WEIR_MMAP_WRITE | RW);
	else
		g->m = fixture_started(LEN, RW);
	g->inv = start_inventory(g->r, g->m);
	assert_int_equal(weir_inventory_get(&g->buf, g->inv, g->m,
					    fixture_addr(g->m), LEN, NULL, 0),
			 0);
	export_to(g);
}

static void end(struct fixture *g)
{
	void *mem = fixture_addr(g->m);

	weir_buf_put(g->buf);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	if (g->there.engine == COPYING)
		free(mem);
	if (g->proc.pid)
		assert_int_equal(proc_end(&g->proc), 0);
}

static int64_t revoke_here(struct fixture *g, uint64_t timeout_ns)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_mmap_revoke(g->m, g->r, &rec.op));
	/* Set before, it might have passed at the start. */
	if (timeout_ns)
		weir_op_set_deadline(&rec.op, weir_reactor_now(g->r) +
					      timeout_ns);
	return finish(g->r, &rec);
}

static void assert_painted(const struct fixture *g)
{
	const char *mem = fixture_addr(g->m);

	assert_int_equal((unsigned char)mem[0], OURS);
	assert_memory_equal(mem, mem + 1, LEN - 1);
}

static void no_byte_lands_after_a_revoke(void **state)
{
	unsigned int i, n = want_long() ? 20 : 3;
	struct there there = { .engine = INLINE };
	struct fixture g;

	for (i = 0; i < n * N_ENGINES; i++) {
		there.engine = (enum engine)(i % N_ENGINES);
		begin_with(&g, state, there);
		some_turns(g.r, (int)i);
		if (revoke_here(&g, 0))
			fail_msg("%s: %s", engine_names[there.engine],
				 weir_why());
		memset(fixture_addr(g.m), OURS, LEN);
		assert_int_equal(hear(g.proc.sock), 0);
		assert_painted(&g);
		assert_int_equal(weir_mmap_num_bufs(g.m), 1);
		assert_int_equal(say(g.proc.sock), 0);
		end(&g);
		end_reactor(state);
	}
}

static void no_byte_lands_after_a_drain(void **state)
{
	struct there there = { .engine = WORKER };
	struct fixture g;
	struct rec rec;

	begin_with(&g, state, there);
	rec_init(&rec);
	STARTS(weir_mmap_drain(g.m, g.r, &rec.op));
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPING);
	some_turns(g.r, 20);
	assert_int_equal(rec.calls, 0);
	weir_buf_put(g.buf);
	assert_int_equal(finish(g.r, &rec), 0);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPED);
	memset(fixture_addr(g.m), OURS, LEN);
	assert_int_equal(hear(g.proc.sock), 0);
	assert_painted(&g);
	assert_int_equal(say(g.proc.sock), 0);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_inventory_attach(g.inv, g.m), 0);
	assert_int_equal(weir_inventory_get(&g.buf, g.inv, g.m,
					    fixture_addr(g.m), 1, NULL, 0), 0);
	end(&g);
}

static bool is_stopped(pid_t pid)
{
	char path[40], text[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	return strstr(text, ") T ") != NULL;
}

/* Stop the importer in the middle of a job, as a place says that it has. */
static void stop_busy(const struct fixture *g)
{
	do {
		assert_int_equal(kill(g->proc.pid, SIGSTOP), 0);
		while (!is_stopped(g->proc.pid))
			;
		if (export_count_busy(g->m, true, NULL, 0))
			return;
		assert_int_equal(kill(g->proc.pid, SIGCONT), 0);
	} while (true);
}

/* So that it can be stopped. */
static void put_buf(struct fixture *g)
{
	weir_buf_put(g->buf);
}

static void get_buf_again(struct fixture *g)
{
	assert_int_equal(weir_inventory_get(&g->buf, g->inv, g->m,
					    fixture_addr(g->m), 1, NULL, 0), 0);
}

static void importer_that_is_stopped_is_named(void **state)
{
	struct there there = { .engine = INLINE };
	struct fixture g;
	char name[40];

	begin_with(&g, state, there);
	stop_busy(&g);
	put_buf(&g);
	assert_int_equal(weir_mmap_destroy(g.m), -EBUSY);
	assert_non_null(strstr(weir_why(), "importers"));
	assert_int_equal(weir_mmap_is_exported(g.m), 1);
	get_buf_again(&g);
	assert_int_equal(revoke_here(&g, 3 * WEIR_MSEC), -ETIMEDOUT);
	snprintf(name, sizeof(name), "process %d;", (int)g.proc.pid);
	if (!strstr(weir_why(), name))
		fail_msg("%s not in %s", name, weir_why());
	assert_int_equal(weir_mmap_is_exported(g.m), 0);
	assert_int_equal(weir_mmap_revoke(g.m, NULL, NULL), -EINPROGRESS);
	assert_int_equal(kill(g.proc.pid, SIGCONT), 0);
	assert_int_equal(revoke_here(&g, 0), 0);
	assert_int_equal(weir_mmap_revoke(g.m, NULL, NULL), 0);
	assert_int_equal(hear(g.proc.sock), 0);
	assert_int_equal(say(g.proc.sock), 0);
	end(&g);
}

/* A child that the importer has forked has its descriptors, and no jobs. */
static void importer_that_was_killed_is_not_waited_for(void **state)
{
	struct there there = { .engine = WORKER };
	struct fixture g;
	int i, status;

	for (i = 0; i < 2; i++) {
		there.forks = i;
		begin_with(&g, state, there);
		stop_busy(&g);
		assert_int_equal(kill(g.proc.pid, SIGKILL), 0);
		/* Not reaped: its number is still taken. */
		assert_int_equal(revoke_here(&g, 0), 0);
		assert_int_equal(waitpid(g.proc.pid, &status, 0), g.proc.pid);
		close(g.proc.sock);
		g.proc.pid = 0;
		end(&g);
		end_reactor(state);
	}
}

static void stop_waits_for_importers(void **state)
{
	struct there there = { .engine = WORKER };
	struct rec rec;
	struct fixture g;

	begin_with(&g, state, there);
	put_buf(&g);
	stop_busy(&g);
	rec_init(&rec);
	STARTS(weir_mmap_stop(g.m, g.r, &rec.op));
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPING);
	/* Set before, it might have passed at the start. */
	weir_op_set_deadline(&rec.op, weir_reactor_now(g.r) + WEIR_MSEC);
	assert_int_equal(finish(g.r, &rec), -ETIMEDOUT);
	assert_non_null(strstr(weir_why(), "process "));
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STARTED);
	assert_int_equal(kill(g.proc.pid, SIGCONT), 0);
	rec_init(&rec);
	STARTS(weir_mmap_stop(g.m, g.r, &rec.op));
	assert_int_equal(finish(g.r, &rec), 0);
	memset(fixture_addr(g.m), OURS, LEN);
	assert_int_equal(hear(g.proc.sock), 0);
	assert_painted(&g);
	assert_int_equal(say(g.proc.sock), 0);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_inventory_attach(g.inv, g.m), 0);
	get_buf_again(&g);
	end(&g);
}

static void revoke_can_be_cancelled_and_called_again(void **state)
{
	struct there there = { .engine = INLINE };
	struct fixture g;
	struct rec rec[2];
	int i;

	begin_with(&g, state, there);
	put_buf(&g);
	stop_busy(&g);
	for (i = 0; i < 2; i++) {
		rec_init(&rec[i]);
		STARTS(weir_mmap_revoke(g.m, g.r, &rec[i].op));
	}
	some_turns(g.r, 10);
	weir_op_cancel(&rec[0].op);
	assert_int_equal(finish(g.r, &rec[0]), -ECANCELED);
	assert_int_equal(rec[1].calls, 0);
	assert_int_equal(weir_mmap_destroy(g.m), -EBUSY);
	assert_non_null(strstr(weir_why(), "weir_mmap_revoke"));
	assert_int_equal(kill(g.proc.pid, SIGCONT), 0);
	assert_int_equal(finish(g.r, &rec[1]), 0);
	get_buf_again(&g);
	assert_int_equal(hear(g.proc.sock), 0);
	assert_int_equal(say(g.proc.sock), 0);
	end(&g);
}

/* One process is both sides. */

static void revoked_export_can_be_exported_again(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct weir_reactor *r = start_reactor(state);
	struct parcel p, q;
	struct rec rec;

	assert_int_equal(weir_mmap_revoke(m, NULL, NULL), 0);
	parcel_of(&p, m, NULL);
	rec_init(&rec);
	STARTS(weir_mmap_revoke(m, r, &rec.op));
	assert_int_equal(weir_mmap_is_exported(m), 0);
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(parcel_import(&im, &p, NULL), -ESTALE);
	parcel_of(&q, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), -ESTALE);
	assert_int_equal(parcel_import(&im, &q, NULL), 0);
	assert_int_equal(weir_mmap_is_stale(im), 0);
	assert_int_equal(weir_mmap_revoke(im, NULL, NULL), -EPERM);
	assert_int_equal(weir_mmap_drain(im, r, &rec.op), -EPERM);
	assert_int_equal(weir_mmap_revoke(m, NULL, &rec.op), -EINVAL);
	assert_int_equal(weir_mmap_drain(m, NULL, &rec.op), -EINVAL);
	assert_int_equal(weir_mmap_drain(m, r, NULL), -EINVAL);
	assert_int_equal(weir_mmap_destroy(im), 0);
	parcel_drop(&p);
	parcel_drop(&q);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void drain_can_be_cancelled(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW);
	struct weir_reactor *r = start_reactor(state);
	struct weir_inventory *inv = start_inventory(r, m);
	struct weir_buf *buf, *other;
	struct rec rec;

	assert_int_equal(weir_inventory_get(&buf, inv, m, fixture_addr(m), 1,
					    NULL, 0), 0);
	rec_init(&rec);
	STARTS(weir_mmap_drain(m, r, &rec.op));
	assert_int_equal(weir_inventory_get(&other, inv, m, fixture_addr(m), 1,
					    NULL, 0), -EBADFD);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), -EBUSY);
	weir_op_cancel(&rec.op);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_non_null(strstr(weir_why(), "1 bufs"));
	assert_int_equal(weir_mmap_state(m), WEIR_MMAP_STARTED);
	weir_buf_put(buf);
	rec_init(&rec);
	STARTS(weir_mmap_drain(m, r, &rec.op));
	assert_int_equal(finish(r, &rec), 0);
	rec_init(&rec);
	STARTS(weir_mmap_drain(m, r, &rec.op));
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void places_of_importers_have_a_limit(void **state)
{
	struct weir_mmap *m = fixture_started(4096, RW), *im = NULL, *more = NULL;
	const struct presence *presence;
	int n = 1, last = 0, place;
	struct parcel p;

	(void)state;
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	presence = &import_of(im)->presence;
	while ((place = presence_claim(presence)) >= 0) {
		last = place;
		n++;
	}
	assert_int_equal(n, PRESENCE_PLACES);
	assert_int_equal(parcel_import(&more, &p, NULL), -EAGAIN);
	assert_non_null(strstr(weir_why(), "4095"));
	presence_release(presence, last);
	assert_int_equal(parcel_import(&more, &p, NULL), 0);
	assert_int_equal(weir_mmap_destroy(more), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* An export, and its import in this process. */
struct pair {
	struct weir_mmap *m, *im;
	struct weir_inventory *inv;
};

static void pair_begin(struct pair *p, struct weir_reactor *r)
{
	struct parcel parcel;

	p->m = fixture_started(LEN, RW);
	p->im = NULL;
	parcel_of(&parcel, p->m, NULL);
	assert_int_equal(parcel_import(&p->im, &parcel, NULL), 0);
	parcel_drop(&parcel);
	p->inv = start_inventory(r, p->im);
}

static void pair_end(struct pair *p)
{
	assert_int_equal(weir_inventory_destroy(p->inv), 0);
	assert_int_equal(weir_mmap_destroy(p->im), 0);
	assert_int_equal(weir_mmap_destroy(p->m), 0);
}

static struct weir_buf *pair_buf(struct pair *p, size_t at, size_t len,
				 size_t data)
{
	char *addr = fixture_addr(p->im) + at;
	struct weir_buf *buf = NULL;

	assert_int_equal(weir_inventory_get(&buf, p->inv, p->im, addr, len,
					    addr, data), 0);
	return buf;
}

/* Whether the exporter waits for jobs of it. */
static bool is_waited_for(const struct pair *p)
{
	return presence_count_busy(&p->m->export->presence, NULL, 0);
}

/* A job is not over when its start returns. */
static struct weir_dma *start_slow_dma(struct weir_reactor *r)
{
	return start_dma(r, (struct weir_dma_opts){
		.worker_min = UINT64_MAX, .turn_bytes = 4096 });
}

static void copy_between(struct weir_dma *dma, struct pair *from, size_t at,
			 struct pair *to)
{
	const size_t len = LEN / 16;
	struct weir_buf *src = pair_buf(from, at, len, len);
	struct weir_buf *dst = pair_buf(to, 0, len, 0);
	struct jrec j;

	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(dst), weir_operand_buf(src));
	STARTS(weir_job_start(dma, &j.job));
	assert_true(is_waited_for(from));
	assert_true(is_waited_for(to));
	assert_true(jrec_finish(weir_dma_reactor(dma), &j) == (int64_t)len);
	assert_false(is_waited_for(from));
	assert_false(is_waited_for(to));
	weir_buf_put(dst);
	weir_buf_put(src);
}

static void job_is_waited_for_by_each_exporter_whose_memory_it_uses(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_slow_dma(r);
	struct pair a, b;

	pair_begin(&a, r);
	pair_begin(&b, r);
	copy_between(dma, &a, 0, &b);
	copy_between(dma, &a, LEN / 2, &a);
	assert_int_equal(weir_dma_destroy(dma), 0);
	pair_end(&a);
	pair_end(&b);
}

/* It was checked before the revoke, and begins after it. */
static void job_that_was_held_touches_nothing_that_was_revoked(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_slow_dma(r);
	static char own[2][65536];
	struct jrec before, held;
	struct weir_buf *buf;
	struct pair p;

	pair_begin(&p, r);
	memset(own[0], 'w', sizeof(own[0]));
	jrec_init(&before);
	weir_job_copy(&before.job, weir_operand_mem(own[1], sizeof(own[1])),
		      weir_operand_mem(own[0], sizeof(own[0])));
	STARTS(weir_job_start(dma, &before.job));
	jrec_init(&held);
	buf = pair_buf(&p, 0, 64, 0);
	weir_job_copy(&held.job, weir_operand_buf(buf),
		      weir_operand_mem(own[0], 64));
	held.job.flags |= WEIR_JOB_FENCE;
	STARTS(weir_job_start(dma, &held.job));
	assert_int_equal(weir_mmap_revoke(p.m, NULL, NULL), 0);
	memset(fixture_addr(p.m), OURS, LEN);
	assert_int_equal(jrec_finish(r, &before), sizeof(own[0]));
	assert_int_equal(jrec_finish(r, &held), -ESTALE);
	assert_int_equal((unsigned char)*fixture_addr(p.m), OURS);
	weir_buf_put(buf);
	assert_int_equal(weir_dma_destroy(dma), 0);
	pair_end(&p);
}

static void importer_that_is_stopped_delays_nothing_else(void **state)
{
	struct there there = { .engine = INLINE };
	struct rec stuck, rec;
	struct fixture g;
	struct pair p;

	begin_with(&g, state, there);
	stop_busy(&g);
	rec_init(&stuck);
	STARTS(weir_mmap_revoke(g.m, g.r, &stuck.op));
	pair_begin(&p, g.r);
	rec_init(&rec);
	STARTS(weir_mmap_revoke(p.m, g.r, &rec.op));
	assert_int_equal(finish(g.r, &rec), 0);
	assert_int_equal(weir_mmap_is_stale(p.im), 1);
	rec_init(&rec);
	STARTS(weir_nop(g.r, &rec.op));
	assert_int_equal(finish(g.r, &rec), 0);
	assert_int_equal(stuck.calls, 0);
	assert_int_equal(weir_op_cancel(&stuck.op), 0);
	assert_int_equal(finish(g.r, &stuck), -ECANCELED);
	assert_int_equal(kill(g.proc.pid, SIGCONT), 0);
	assert_int_equal(revoke_here(&g, 0), 0);
	assert_int_equal(hear(g.proc.sock), 0);
	assert_int_equal(say(g.proc.sock), 0);
	pair_end(&p);
	end(&g);
}

/* Forked children. */

static void import_and_die_there(int sock, void *arg)
{
	struct weir_mmap *im = NULL;
	struct parcel p;

	(void)arg;
	EXPECT(!parcel_recv(sock, &p));
	EXPECT(!parcel_import(&im, &p, NULL));
	parcel_drop(&p);
	EXPECT(!say(sock));
	(void)hear(sock);
	EXPECT(!weir_mmap_is_stale(im));
	EXPECT(!weir_mmap_destroy(im));
}

static void child_that_destroys_what_it_inherits_revokes_nothing(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct proc proc;
	struct parcel p;
	pid_t child;
	int status;

	(void)state;
	proc_begin(&proc, import_and_die_there, NULL);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_send(proc.sock, &p), 0);
	assert_int_equal(hear(proc.sock), 0);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	parcel_drop(&p);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(weir_mmap_destroy(im) || weir_mmap_destroy(m));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(weir_mmap_is_stale(im), 0);
	assert_int_equal(say(proc.sock), 0);
	assert_int_equal(proc_end(&proc), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Exports, and has a child that lives until @sock is closed. */
static void export_there(int sock, void *arg)
{
	struct weir_mmap *m = NULL;
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct parcel p = { .n_fds = 0 };
	uint32_t i;

	(void)arg;
	EXPECT(!weir_mmap_create(&m, NULL));
	EXPECT(!weir_mmap_alloc(m, FIXTURE_LEN, WEIR_MMAP_ALLOC_MEMFD));
	EXPECT(!weir_mmap_set_permissions(m, WEIR_MMAP_WRITE | RW));
	EXPECT(!weir_mmap_start(m));
	EXPECT(!weir_mmap_export(m, NULL, &desc));
	memcpy(p.bytes, desc.bytes, desc.len);
	p.len = desc.len;
	p.n_fds = desc.n_fds;
	for (i = 0; i < desc.n_fds; i++)
		p.fds[i] = desc.fds[i];
	if (!fork()) {
		(void)hear(sock);
		_exit(0);
	}
	EXPECT(!parcel_send(sock, &p));
	pause();
}

static void death_of_exporter_is_seen_while_a_child_of_it_lives(void **state)
{
	struct weir_mmap *im = NULL;
	struct weir_reactor *r;
	struct parcel p;
	struct proc proc;
	struct rec rec;

	close(own_pidfd());
	proc_begin(&proc, export_there, NULL);
	r = start_reactor(state);
	assert_int_equal(parcel_recv(proc.sock, &p), 0);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	parcel_drop(&p);
	rec_init(&rec);
	STARTS(weir_mmap_watch(im, r, &rec.op));
	some_turns(r, 5);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(kill(proc.pid, SIGKILL), 0);
	assert_int_equal(finish(r, &rec), -ESTALE);
	assert_int_equal(weir_mmap_is_stale(im), 1);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(say(proc.sock), 0);
	assert_int_equal(proc_end(&proc), SIGKILL);
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(no_byte_lands_after_a_revoke),
		REAL(no_byte_lands_after_a_drain),
		REAL(importer_that_is_stopped_is_named),
		REAL(importer_that_was_killed_is_not_waited_for),
		REAL(stop_waits_for_importers),
		REAL(revoke_can_be_cancelled_and_called_again),
		CASE(revoked_export_can_be_exported_again),
		CASE(drain_can_be_cancelled),
		REAL(job_is_waited_for_by_each_exporter_whose_memory_it_uses),
		REAL(job_that_was_held_touches_nothing_that_was_revoked),
		REAL(importer_that_is_stopped_delays_nothing_else),
		REAL(places_of_importers_have_a_limit),
		REAL(child_that_destroys_what_it_inherits_revokes_nothing),
		REAL(death_of_exporter_is_seen_while_a_child_of_it_lives),
	};

	return harness_run_all(cases, N_OF(cases));
}
