/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The acceptance cases 1 to 11: the samples of DOCA DMA, in weir's terms; and
 * of its rules 24.  Each case bears the number and the sample's name;
 * docs/rules.md has the table.
 */

#include "tests/support/export-fixture.h"
#include "tests/support/job-fixture.h"

#include <poll.h>

#include <weir/buf.h>
#include <weir/device.h>
#include <weir/inventory.h>

#include "base/fault.h"

#define TASKS 16
#define PART 65536	/* Bytes of a task. */

/* A task: a source and a destination, each a buf. */
struct task {
	struct jrec j;
	struct weir_buf *src, *dst;
	unsigned int seed;
};

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	char *mem;		/* Sources, then destinations. */
	struct task tasks[TASKS];
};

static struct weir_buf *take(struct fixture *g, size_t part, size_t data_len)
{
	struct weir_buf *buf = NULL;
	char *at = g->mem + part * PART;

	assert_int_equal(weir_inventory_get(&buf, g->inv, g->m, at, PART, at,
					    data_len), 0);
	return buf;
}

static void task_begin(struct fixture *g, size_t i)
{
	struct task *t = &g->tasks[i];

	t->seed = (unsigned int)i + 1;
	t->src = take(g, i, PART);
	t->dst = take(g, TASKS + i, 0);
	fill_pattern(weir_buf_data(t->src), PART, 0, t->seed);
	jrec_init(&t->j);
	weir_job_copy(&t->j.job, weir_operand_buf(t->dst),
		      weir_operand_buf(t->src));
}

/* @turn_bytes: of it, not everything is done inside the starts. */
static void fixture_begin(struct fixture *g, void **state, uint32_t turn_bytes)
{
	struct weir_dma_opts opts = { .turn_bytes = turn_bytes };
	size_t i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor_with(state,
				  (struct weir_reactor_opts){ .hosted = 1 });
	g->mem = calloc(2 * TASKS, PART);
	g->m = start_mmap(g->mem, 2 * TASKS * PART, WEIR_MMAP_WRITE);
	g->dma = start_dma(g->r, opts);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
	for (i = 0; i < TASKS; i++)
		task_begin(g, i);
}

static void fixture_end(struct fixture *g)
{
	size_t i;

	for (i = 0; i < TASKS; i++) {
		weir_buf_put(g->tasks[i].src);
		weir_buf_put(g->tasks[i].dst);
	}
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	free(g->mem);
}

static void check_copied(const struct task *t)
{
	assert_int_equal(t->j.calls, 1);
	assert_int_equal(t->j.res, PART);
	assert_int_equal(weir_buf_data_len(t->dst), PART);
	assert_true(is_pattern(weir_buf_data(t->dst), PART, 0, t->seed));
}

static void start_all(struct fixture *g)
{
	size_t i;

	for (i = 0; i < TASKS; i++)
		STARTS(weir_job_start(g->dma, &g->tasks[i].j.job));
}

/* What the guide has its reader make, step by step. */
struct flow {
	struct weir_device *dev;
	struct weir_mmap *src_map, *dst_map;
	struct weir_inventory *inv;
	struct weir_buf *src, *dst;
	struct weir_dma *dma;
	char from[1000], to[1000];
};

static int flow_mmap(struct weir_mmap **ret, struct flow *f, char *mem,
		     uint32_t permissions)
{
	int err = weir_mmap_create(ret, NULL);

	if (!err)
		err = weir_mmap_set_memrange(*ret, mem, sizeof(f->from));
	if (!err)
		err = weir_mmap_set_permissions(*ret, permissions);
	if (!err)
		err = weir_mmap_add_device(*ret, f->dev);
	return err ? err : weir_mmap_start(*ret);
}

static int flow_bufs(struct flow *f, struct weir_reactor *r)
{
	int err = weir_inventory_create(&f->inv, r, NULL);

	if (!err)
		err = weir_inventory_attach(f->inv, f->src_map);
	if (!err)
		err = weir_inventory_attach(f->inv, f->dst_map);
	if (!err)
		err = weir_inventory_get_by_data(&f->src, f->inv, f->src_map,
						 f->from, sizeof(f->from));
	if (!err)
		err = weir_inventory_get_by_addr(&f->dst, f->inv, f->dst_map,
						 f->to, sizeof(f->to));
	return err;
}

static int flow_job(struct flow *f, struct weir_reactor *r)
{
	struct jrec j;
	int err = weir_dma_create(&f->dma, r, NULL);

	if (!err)
		err = weir_dma_start(f->dma);
	if (err)
		return err;
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(f->dst),
		      weir_operand_buf(f->src));
	err = weir_job_start(f->dma, &j.job);
	return err ? err : (int)jrec_finish(r, &j);
}

/* Back in reverse, from wherever it got to. */
static void flow_end(struct flow *f)
{
	assert_int_equal(weir_dma_destroy(f->dma), 0);
	weir_buf_put(f->dst);
	weir_buf_put(f->src);
	assert_int_equal(weir_inventory_destroy(f->inv), 0);
	assert_int_equal(weir_mmap_destroy(f->dst_map), 0);
	assert_int_equal(weir_mmap_destroy(f->src_map), 0);
	assert_int_equal(weir_device_close(f->dev), 0);
}

static int flow(struct weir_reactor *r, struct flow *f)
{
	int err = weir_device_open_name(&f->dev, "cpu");

	if (!err)
		err = flow_mmap(&f->src_map, f, f->from, WEIR_MMAP_READ);
	if (!err)
		err = flow_mmap(&f->dst_map, f, f->to, WEIR_MMAP_WRITE);
	if (!err)
		err = flow_bufs(f, r);
	return err ? err : flow_job(f, r);
}

/* Acceptance 1, dma_local_copy; A11.6: whatever fails, all before unwinds. */
static void case_1_a_local_copy_end_to_end(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct flow f;
	int n = 0, fired, res;

	do {
		memset(&f, 0, sizeof(f));
		fill_pattern(f.from, sizeof(f.from), 0, 1);
		fault_arm(n++);
		res = flow(r, &f);
		fired = fault_disarm();
		if (res >= 0) {
			assert_int_equal(res, sizeof(f.to));
			assert_int_equal(weir_buf_data_len(f.dst), res);
			assert_memory_equal(f.from, f.to, sizeof(f.to));
		} else {
			assert_true(fired);
		}
		flow_end(&f);
	} while (fired);
	assert_int_equal(res, sizeof(f.to));
	assert_true(n > 8);
}

/* Three bufs of @m, one list: @data bytes in each. */
static struct weir_buf *list_of(struct weir_inventory *inv,
				struct weir_mmap *m, size_t data)
{
	struct weir_buf *head = NULL, *buf = NULL;
	char *at = fixture_addr(m);
	int i;

	for (i = 0; i < 3; i++, at += 3000) {
		if (weir_inventory_get(&buf, inv, m, at, 3000, at, data))
			return NULL;
		if (!head)
			head = buf;
		else if (weir_buf_chain(head, buf))
			return NULL;
	}
	return head;
}

/* The other side of case 2: what is there comes here, changed it goes back. */
static void copy_there(int sock, void *arg)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = *(uint32_t *)arg };
	struct weir_mmap *theirs = NULL;
	struct weir_inventory *inv = NULL;
	struct weir_reactor *r = NULL;
	struct weir_dma *dma = NULL;
	struct weir_buf *list;
	static char here[9000];
	struct parcel p;
	struct jrec j;

	EXPECT(!parcel_recv(sock, &p) && !parcel_import(&theirs, &p, NULL));
	parcel_drop(&p);
	EXPECT(!weir_reactor_create(&r, &opts));
	EXPECT(!weir_inventory_create(&inv, r, NULL));
	EXPECT(!weir_inventory_attach(inv, theirs));
	EXPECT(!weir_dma_create(&dma, r, NULL) && !weir_dma_start(dma));

	list = list_of(inv, theirs, 3000);
	EXPECT(list);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(here, 9000),
		      weir_operand_buf(list));
	EXPECT(!weir_job_start(dma, &j.job));
	EXPECT(jrec_finish(r, &j) == 9000);
	EXPECT(is_pattern(here, 9000, 0, 1));
	fill_pattern(here, 9000, 0, 2);

	/* More than there is capacity for is refused, whole. */
	weir_job_copy(&j.job, weir_operand_buf(list),
		      weir_operand_mem(here, 9000));
	EXPECT(weir_job_start(dma, &j.job) == -EMSGSIZE);
	EXPECT(weir_buf_list_data_len(list) == 9000);
	j.job.flags = WEIR_JOB_OVERWRITE;
	EXPECT(!weir_job_start(dma, &j.job));
	EXPECT(jrec_finish(r, &j) == 9000);
	weir_buf_put(list);
	EXPECT(!weir_dma_destroy(dma) && !weir_inventory_destroy(inv));
	EXPECT(!weir_mmap_destroy(theirs) && !weir_reactor_destroy(r));
}

/* Acceptance 2, dma_copy_host and dma_copy_dpu; DOCA has its own word for too
 * much, TOO_BIG. */
static void case_2_two_processes_in_both_directions(void **state)
{
	uint32_t backend = backend_of(*state);
	struct weir_mmap *m;
	struct parcel p;
	struct proc proc;

	proc_begin(&proc, copy_there, &backend);
	m = fixture_started(9000, RW);
	fill_pattern(fixture_addr(m), 9000, 0, 1);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_send(proc.sock, &p), 0);
	assert_int_equal(proc_end(&proc), 0);
	assert_true(is_pattern(fixture_addr(m), 9000, 0, 2));
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Acceptance 2: and a list that is too long. */
static void case_2_a_list_of_too_many_pieces_is_refused(void **state)
{
	static struct iovec iov[WEIR_JOB_PIECES_MAX + 1];
	struct weir_dma *dma = start_dma(start_reactor(state),
					 (struct weir_dma_opts){ 0 });
	static char from[N_OF(iov)], to[N_OF(iov)];
	struct jrec j;
	uint32_t i;

	for (i = 0; i < N_OF(iov); i++)
		iov[i] = (struct iovec){ from + i, 1 };
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(to, N_OF(iov)),
		      weir_operand_iov(NULL, iov, N_OF(iov)));
	assert_int_equal(weir_job_start(dma, &j.job), -EMSGSIZE);
	weir_job_copy(&j.job, weir_operand_mem(to, N_OF(iov) - 1),
		      weir_operand_iov(NULL, iov, N_OF(iov) - 1));
	assert_int_equal(jrec_run(dma, &j), N_OF(iov) - 1);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

/* Acceptance 3, pe_polling. */
static void case_3_sixteen_jobs_polled_to_the_last(void **state)
{
	struct fixture g;
	size_t i;
	int turns = 0;

	fixture_begin(&g, state, 2 * PART);
	start_all(&g);
	assert_true(weir_dma_in_flight(g.dma) > 0);
	while (weir_dma_in_flight(g.dma) && turns++ < 10000)
		assert_true(weir_reactor_turn(g.r, 0) >= 0);
	some_turns(g.r, 1);
	for (i = 0; i < TASKS; i++)
		check_copied(&g.tasks[i]);
	fixture_end(&g);
}

/* Acceptance 4, pe_event: asleep in poll() but for what is due.  The jobs go
 * to a file, so that their ends come from elsewhere. */
static void case_4_sixteen_jobs_by_the_descriptor(void **state)
{
	struct weir_domain *file;
	struct pollfd pfd = { .events = POLLIN };
	struct fixture g;
	size_t i, done = 0, before;
	int fd, turns = 0;

	fixture_begin(&g, state, 0);
	fd = test_file(state, "file", 0, 0);
	file = file_domain(fd);
	pfd.fd = weir_reactor_fd(g.r);
	assert_true(pfd.fd >= 0);
	for (i = 0; i < TASKS; i++)
		weir_job_copy(&g.tasks[i].j.job,
			      weir_operand_at(file, i * PART, PART),
			      weir_operand_buf(g.tasks[i].src));
	start_all(&g);
	while (done < TASKS && turns++ < 10000) {
		/* A lost wake-up would be a time-out. */
		assert_int_equal(poll(&pfd, 1, 60000), 1);
		assert_int_equal(weir_reactor_fd(g.r), pfd.fd);
		assert_true(weir_reactor_turn(g.r, 0) >= 0);
		for (before = done, done = 0, i = 0; i < TASKS; i++)
			done += g.tasks[i].j.calls == 1;
		assert_true(done >= before);
	}
	for (i = 0; i < TASKS; i++) {
		assert_int_equal(g.tasks[i].j.res, PART);
		assert_int_equal(pread(fd, g.mem, PART, (off_t)(i * PART)),
				 PART);
		assert_true(is_pattern(g.mem, PART, 0, g.tasks[i].seed));
	}
	fixture_end(&g);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
}

/* The arrows that a context has gone along. */
struct arrows {
	int n;
	int prev[8], next[8];
};

static void on_state(struct weir_dma *dma, int prev, int next, void *arg)
{
	struct arrows *a = arg;

	(void)dma;
	assert_int_equal(harness_starting, 0);
	assert_true(a->n < 8);
	a->prev[a->n] = prev;
	a->next[a->n++] = next;
}

static size_t count_ended(const struct fixture *g)
{
	size_t i, n = 0;

	for (i = 0; i < TASKS; i++)
		n += g->tasks[i].j.calls > 0;
	return n;
}

/* Half of them are short and have ended: stop, with the rest in flight. */
static void stop_at_half(struct fixture *g, struct rec *stopped)
{
	struct weir_buf *src;
	size_t i;

	for (i = 0; i < TASKS; i += 2) {
		src = g->tasks[i].src;
		assert_int_equal(weir_buf_set_data(src, weir_buf_addr(src),
						   1000), 0);
	}
	start_all(g);
	UNTIL(g->r, count_ended(g) == TASKS / 2);
	rec_init(stopped);
	STARTS(weir_dma_stop(g->dma, &stopped->op));
	assert_int_not_equal(weir_dma_state(g->dma), WEIR_DMA_RUNNING);
	assert_int_equal(weir_job_start(g->dma, &g->tasks[0].j.job), -EBADFD);
	assert_int_equal(finish(g->r, stopped), 0);
	assert_int_equal(weir_dma_state(g->dma), WEIR_DMA_STOPPED);
}

/* Acceptance 5, pe_async_stop. */
static void case_5_a_stop_after_half_of_them(void **state)
{
	struct rec stopped, first;
	struct arrows a = { 0 };
	size_t i;
	struct fixture g;

	fixture_begin(&g, state, 4096);
	rec_init(&first);
	STARTS(weir_dma_stop(g.dma, &first.op));
	finish(g.r, &first);
	assert_int_equal(weir_dma_set_state_cb(g.dma, on_state, &a), 0);
	assert_int_equal(weir_dma_start(g.dma), 0);
	stop_at_half(&g, &stopped);
	for (i = 0; i < TASKS; i++) {
		assert_int_equal(g.tasks[i].j.calls, 1);
		assert_int_equal(g.tasks[i].j.res, i % 2 ? -ECANCELED : 1000);
		assert_int_equal(weir_buf_data_len(g.tasks[i].dst),
				 i % 2 ? 0 : 1000);
	}
	UNTIL(g.r, a.n == 3);
	assert_int_equal(a.next[0], WEIR_DMA_RUNNING);
	assert_int_equal(a.next[1], WEIR_DMA_STOPPING);
	assert_int_equal(a.prev[2], WEIR_DMA_STOPPING);
	assert_int_equal(a.next[2], WEIR_DMA_STOPPED);
	fixture_end(&g);
}

/* Acceptance 6, pe_multi_context.  A6.1, A6.6: the reactor counts what is in
 * flight in all of them, and is not destroyed before them. */
static void case_6_four_contexts_on_one_reactor(void **state)
{
	struct weir_reactor_stats of_all = { .size = sizeof(of_all) };
	struct weir_dma_stats st = { .size = sizeof(st) };
	struct weir_dma *dma[4];
	struct fixture g;
	size_t i, sum = 0;

	fixture_begin(&g, state, 0);
	for (i = 0; i < 4; i++)
		dma[i] = start_dma(g.r, (struct weir_dma_opts){
			.turn_bytes = 4096 });
	for (i = 0; i < TASKS; i++)
		STARTS(weir_job_start(dma[i % 4], &g.tasks[i].j.job));
	for (i = 0; i < 4; i++)
		sum += weir_dma_in_flight(dma[i]);
	assert_int_equal(weir_reactor_stats(g.r, &of_all), 0);
	assert_true(sum > 0 && of_all.in_flight >= sum);
	UNTIL(g.r, count_ended(&g) == TASKS);
	assert_int_equal(weir_reactor_stats(g.r, &of_all), 0);
	assert_int_equal(of_all.in_flight, 0);
	assert_int_equal(weir_reactor_destroy(g.r), -EBUSY);
	for (i = 0; i < TASKS; i++)
		check_copied(&g.tasks[i]);
	for (i = 0; i < 4; i++) {
		assert_int_equal(weir_dma_stats(dma[i], &st), 0);
		assert_int_equal(st.completed, 4);
		assert_int_equal(weir_dma_destroy(dma[i]), 0);
	}
	fixture_end(&g);
}

/* Case 7: all of it, driven by the state callback and the jobs' own. */
struct reactive {
	struct fixture g;
	struct weir_dma *dma;
	struct rec stopped;
	size_t n;
	int last;		/* State. */
};

static void on_reactive_job(struct weir_op *op, int64_t res)
{
	struct task *t = weir_container_of(op, struct task, j.job.op);
	struct reactive *x = op->data;

	t->j.calls++;
	t->j.res = res;
	if (++x->n == TASKS)
		assert_int_equal(weir_dma_stop(x->dma, &x->stopped.op), 0);
}

static void on_reactive_state(struct weir_dma *dma, int prev, int next,
			      void *arg)
{
	struct reactive *x = arg;
	struct task *t;

	(void)prev;
	x->last = next;
	if (next == WEIR_DMA_STOPPED)
		weir_reactor_break(x->g.r);
	if (next != WEIR_DMA_RUNNING)
		return;
	for (t = x->g.tasks; t < x->g.tasks + TASKS; t++) {
		t->j.job.op.fn = on_reactive_job;
		t->j.job.op.data = x;
		assert_int_equal(weir_job_start(dma, &t->j.job), 0);
	}
}

/* Acceptance 7, pe_reactive. */
static void case_7_the_states_drive_it_all(void **state)
{
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	static struct reactive x;
	size_t i;

	memset(&x, 0, sizeof(x));
	fixture_begin(&x.g, state, 0);
	rec_init(&x.stopped);
	assert_int_equal(weir_dma_create(&x.dma, x.g.r, &opts), 0);
	assert_int_equal(weir_dma_set_state_cb(x.dma, on_reactive_state, &x),
			 0);
	assert_int_equal(weir_dma_start(x.dma), 0);
	assert_true(weir_reactor_run(x.g.r) >= 0);
	assert_int_equal(x.last, WEIR_DMA_STOPPED);
	for (i = 0; i < TASKS; i++)
		check_copied(&x.g.tasks[i]);
	UNTIL(x.g.r, x.stopped.calls);
	assert_int_equal(weir_dma_destroy(x.dma), 0);
	fixture_end(&x.g);
}

/* Acceptance 8, pe_single_task_cb: one function for the good and the bad. */
static void case_8_one_callback_for_both_ends(void **state)
{
	struct weir_domain *file;
	struct jrec good, bad;
	struct fixture g;
	int fd;

	fixture_begin(&g, state, 0);
	fd = test_file(state, "short", 1000, 3);
	file = file_domain(fd);
	jrec_init(&good);
	jrec_init(&bad);
	weir_job_copy(&good.job, weir_operand_mem(g.mem, 1000),
		      weir_operand_at(file, 0, 1000));
	weir_job_copy(&bad.job, weir_operand_mem(g.mem + 1000, 1000),
		      weir_operand_at(file, 500, 1000));
	STARTS(weir_job_start(g.dma, &good.job));
	STARTS(weir_job_start(g.dma, &bad.job));
	UNTIL(g.r, good.calls && bad.calls);
	assert_int_equal(good.res, 1000);
	assert_int_equal(bad.res, -ENODATA);
	assert_int_equal(bad.detail.bytes, 500);
	fixture_end(&g);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
}

/*
 * Acceptance 9, pe_task_error: what hardware finds out when it is too late is
 * refused before anything starts here, and harms nobody else.
 */
static void case_9_one_of_255_is_of_no_length(void **state)
{
	static struct jrec jobs[255];
	struct rec stopped;
	struct fixture g;
	size_t i, refused = 0;
	int err;

	fixture_begin(&g, state, 4096);
	for (i = 0; i < N_OF(jobs); i++) {
		jrec_init(&jobs[i]);
		weir_job_copy(
			&jobs[i].job,
			weir_operand_mem(g.mem + 16 * PART + i * 100, 100),
			weir_operand_mem(g.mem + i * 100, i == 100 ? 0 : 100));
		err = weir_job_start(g.dma, &jobs[i].job);
		assert_int_equal(err, i == 100 ? -EINVAL : 0);
		refused += err != 0;
	}
	assert_int_equal(refused, 1);
	assert_int_equal(weir_dma_state(g.dma), WEIR_DMA_RUNNING);
	UNTIL(g.r, !weir_dma_in_flight(g.dma) && jobs[254].calls);
	for (i = 0; i < N_OF(jobs); i++) {
		assert_int_equal(jobs[i].calls, i != 100);
		assert_int_equal(jobs[i].res, i != 100 ? 100 : 0);
	}
	rec_init(&stopped);
	STARTS(weir_dma_stop(g.dma, &stopped.op));
	assert_int_equal(finish(g.r, &stopped), 0);
	fixture_end(&g);
}

/* Case 10: four jobs for sixteen pairs. */
struct again {
	struct fixture *g;
	struct jrec jobs[4];
	size_t next, done;
};

static void set_pair(struct again *a, struct jrec *j)
{
	struct task *t = &a->g->tasks[a->next++];

	weir_job_copy(&j->job, weir_operand_buf(t->dst),
		      weir_operand_buf(t->src));
}

static void on_again(struct weir_op *op, int64_t res)
{
	struct jrec *j = weir_container_of(op, struct jrec, job.op);
	struct again *a = op->data;

	assert_int_equal(res, PART);
	a->done++;
	if (a->next == TASKS)
		return;
	set_pair(a, j);
	assert_int_equal(weir_job_start(a->g->dma, &j->job), 0);
}

/* Acceptance 10, pe_task_resubmit. */
static void case_10_four_jobs_started_again_in_their_callbacks(void **state)
{
	struct again a = { 0 };
	struct fixture g;
	size_t i;

	fixture_begin(&g, state, PART);
	a.g = &g;
	for (i = 0; i < N_OF(a.jobs); i++) {
		weir_job_init(&a.jobs[i].job, on_again);
		a.jobs[i].job.op.data = &a;
		set_pair(&a, &a.jobs[i]);
		assert_int_equal(weir_job_start(g.dma, &a.jobs[i].job), 0);
	}
	UNTIL(g.r, a.done == TASKS);
	for (i = 0; i < TASKS; i++)
		assert_true(is_pattern(weir_buf_data(g.tasks[i].dst), PART, 0,
				       g.tasks[i].seed));
	fixture_end(&g);
}

/* Acceptance 11, pe_task_try_submit: there is no start that does not look. */
static void case_11_what_makes_no_sense_stays_the_callers(void **state)
{
	struct task *t;
	struct fixture g;

	fixture_begin(&g, state, 0);
	t = &g.tasks[0];
	t->j.job.kind = 0;
	assert_int_equal(weir_job_start(g.dma, &t->j.job), -EINVAL);
	t->j.job.kind = 1000;
	assert_int_equal(weir_job_start(g.dma, &t->j.job), -EINVAL);
	weir_job_copy(&t->j.job, weir_operand_buf(t->src),
		      weir_operand_buf(t->src));
	assert_int_equal(weir_job_start(g.dma, &t->j.job) < 0, 1);
	assert_int_equal(weir_op_is_busy(&t->j.job.op), 0);
	assert_int_equal(weir_buf_refs(t->src), 1);
	some_turns(g.r, 3);
	assert_int_equal(t->j.calls, 0);
	weir_job_copy(&t->j.job, weir_operand_buf(t->dst),
		      weir_operand_buf(t->src));
	assert_int_equal(jrec_run(g.dma, &t->j), PART);
	check_copied(t);
	fixture_end(&g);
}

/* Acceptance 24; A8.4 */
static void case_24_a_read_only_import_is_no_destination(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN,
					      WEIR_MMAP_WRITE |
						      WEIR_MMAP_PEER_READ),
			 *im = NULL;
	struct weir_buf *buf = NULL;
	struct parcel p;
	struct fixture g;

	fixture_begin(&g, state, 0);
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 3);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	assert_int_equal(weir_inventory_attach(g.inv, im), 0);
	assert_int_equal(weir_inventory_get(&buf, g.inv, im, fixture_addr(im),
					    100, NULL, 0),
			 0);
	weir_job_copy(&g.tasks[0].j.job, weir_operand_buf(buf),
		      weir_operand_mem(g.mem, 50));
	assert_int_equal(weir_job_start(g.dma, &g.tasks[0].j.job), -EACCES);
	weir_job_fill(&g.tasks[0].j.job, weir_operand_buf(buf), 0);
	assert_int_equal(weir_job_start(g.dma, &g.tasks[0].j.job), -EACCES);
	assert_int_equal(weir_buf_data_len(buf), 0);

	/* As a source it is as good as any. */
	assert_int_equal(weir_buf_set_data(buf, fixture_addr(im), 100), 0);
	weir_job_copy(&g.tasks[0].j.job, weir_operand_mem(g.mem, 100),
		      weir_operand_buf(buf));
	assert_int_equal(jrec_run(g.dma, &g.tasks[0].j), 100);
	assert_true(is_pattern(g.mem, 100, 0, 3));
	weir_buf_put(buf);
	fixture_end(&g);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(case_1_a_local_copy_end_to_end),
		CASE(case_2_two_processes_in_both_directions),
		CASE(case_2_a_list_of_too_many_pieces_is_refused),
		CASE(case_3_sixteen_jobs_polled_to_the_last),
		CASE(case_4_sixteen_jobs_by_the_descriptor),
		CASE(case_5_a_stop_after_half_of_them),
		CASE(case_6_four_contexts_on_one_reactor),
		CASE(case_7_the_states_drive_it_all),
		CASE(case_8_one_callback_for_both_ends),
		CASE(case_9_one_of_255_is_of_no_length),
		CASE(case_10_four_jobs_started_again_in_their_callbacks),
		CASE(case_11_what_makes_no_sense_stays_the_callers),
		CASE(case_24_a_read_only_import_is_no_destination),
	};

	return harness_run(cases, N_OF(cases));
}
