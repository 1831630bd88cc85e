/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A call that is refused for good leaves a message of its own: never none, and
 * never that of an older call.
 */

#include "tests/support/ignore.h"
#include "tests/support/job-fixture.h"

#include <stdlib.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <weir/base.h>
#include <weir/call.h>
#include <weir/chain.h>
#include <weir/domain-user.h>
#include <weir/engine.h>
#include <weir/export.h>
#include <weir/file.h>
#include <weir/inventory.h>
#include <weir/kind.h>
#include <weir/pipeline.h>
#include <weir/pool.h>
#include <weir/route.h>
#include <weir/socket.h>
#include <weir/sync.h>
#include <weir/timer.h>
#include <weir/watch.h>

#include "base/why.h"

#define LEN 4096

static void says(int64_t got, int err, const char *call, const char *begins)
{
	if (got != err)
		fail_msg("%s: %lld, not %d", call, (long long)got, err);
	if (strncmp(weir_why(), begins, strlen(begins)) ||
	    strlen(weir_why()) < strlen(begins) + 8)
		fail_msg("%s: \"%s\"", call, weir_why());
	if (strstr(weir_why(), " a a") || strstr(weir_why(), " a e") ||
	    strstr(weir_why(), " a i") || strstr(weir_why(), " a o"))
		fail_msg("%s: an article: \"%s\"", call, weir_why());
}

/* @call, with these arguments, returns @err and leaves a message that names
 * it. */
#define REFUSED(err, call, ...) \
	do { \
		why(0, "an older message"); \
		says(call(__VA_ARGS__), err, #call, #call ": "); \
	} while (0)

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_chain *chain;
	char *mem;
};

static void fixture_begin(struct fixture *g, void **state)
{
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, (struct weir_dma_opts){ 0 });
	g->mem = aligned_alloc(4096, 2 * LEN);
	g->m = start_mmap(g->mem, 2 * LEN, WEIR_MMAP_WRITE);
	g->inv = start_inventory(g->r, g->m);
	assert_int_equal(weir_chain_create(&g->chain, g->r, NULL), 0);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_chain_destroy(g->chain), 0);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	free(g->mem);
}

static void nothing(struct weir_op *op, int64_t res)
{
	(void)op;
	(void)res;
}

/* Every size that is too small, or larger and not zero, is refused by name. */
static void options_of_an_unknown_version_leave_a_message(void **state)
{
	struct weir_reactor *r = start_reactor(state), *other = NULL;
	struct { size_t size; char more[2000]; } big = { .size = sizeof(big) };
	struct weir_dma *dma = NULL;
	struct weir_chain *chain = NULL;
	struct weir_pool *pool = NULL;
	struct weir_inventory *inv = NULL;
	struct weir_sync *sync = NULL;

	memset(big.more, 1, sizeof(big.more));
	REFUSED(-E2BIG, weir_reactor_create, &other, (void *)&big);
	REFUSED(-E2BIG, weir_dma_create, &dma, r, (void *)&big);
	REFUSED(-E2BIG, weir_chain_create, &chain, r, (void *)&big);
	REFUSED(-E2BIG, weir_pool_create, &pool, r, (void *)&big);
	REFUSED(-E2BIG, weir_inventory_create, &inv, r, (void *)&big);
	REFUSED(-E2BIG, weir_sync_create, &sync, (void *)&big);
}

static void refused_calls_about_jobs_leave_a_message(void **state)
{
	struct weir_dma_engine_stats es = { .size = sizeof(es) };
	struct weir_job_route route = { .size = sizeof(route) };
	struct weir_dma_stats stats = { .size = 4 };
	struct weir_dma *stopped = NULL;
	struct weir_translation t = { .size = sizeof(t) };
	struct weir_op bad, op;
	struct jrec j, k;
	struct fixture g;

	fixture_begin(&g, state);
	jrec_init(&j);
	jrec_init(&k);
	weir_op_init(&bad, NULL);
	weir_op_init(&op, nothing);
	assert_int_equal(weir_dma_create(&stopped, g.r, NULL), 0);
	weir_job_copy(&j.job, weir_operand_mem(g.mem, 8),
		      weir_operand_mem(g.mem + LEN, 9));
	REFUSED(-EMSGSIZE, weir_job_start, g.dma, &j.job);
	weir_job_copy(&j.job, weir_operand_mem(g.mem, 8),
		      weir_operand_mem(g.mem + 4, 8));
	REFUSED(-EINVAL, weir_job_start, g.dma, &j.job);
	weir_job_copy(&j.job, weir_operand_mem(g.mem, 8),
		      weir_operand_mem((void *)(UINTPTR_MAX - 3), 8));
	REFUSED(-ERANGE, weir_job_start, g.dma, &j.job);
	weir_job_copy(&j.job, weir_operand_mem(g.mem, 8),
		      weir_operand_mem(g.mem + LEN, 8));
	j.job.kind = WEIR_JOB_PULL;
	REFUSED(-EINVAL, weir_job_start, g.dma, &j.job);
	assert_non_null(strstr(weir_why(), "a pull is to memory"));
	REFUSED(-ENOENT, weir_job_get_route, &j.job, &route);
	weir_job_fill(&j.job, weir_operand_mem(g.mem, 8), 0);
	REFUSED(-EBADFD, weir_job_start, stopped, &j.job);
	STARTS(weir_job_start(g.dma, &j.job));
	REFUSED(-EINVAL, weir_job_start, g.dma, &j.job);
	REFUSED(-EINVAL, weir_job_get_route, &j.job, &route);
	REFUSED(-EBUSY, weir_dma_destroy, g.dma);
	REFUSED(-EBUSY, weir_dma_set_state_cb, g.dma, NULL, NULL);
	REFUSED(-EINVAL, weir_dma_add_engine, g.dma, NULL, NULL);
	REFUSED(-ENOENT, weir_dma_engine_stats, g.dma, 99, &es);
	REFUSED(-EINVAL, weir_dma_stats, g.dma, &stats);
	REFUSED(-EINVAL, weir_dma_stop, g.dma, &bad);
	UNTIL(g.r, j.calls);
	REFUSED(-EINVAL, weir_domain_translate, weir_domain_system(), NULL,
		weir_domain_system(), NULL, 0, 8, &t);
	REFUSED(-ERANGE, weir_domain_translate, weir_domain_system(), NULL,
		weir_domain_system(), NULL, UINT64_MAX, 8, &t);
	assert_int_equal(weir_dma_destroy(stopped), 0);
	fixture_end(&g);
}

static void refused_job_names_the_side(void **state)
{
	struct weir_mmap *locked;
	struct weir_inventory *inv;
	struct weir_buf *buf, *tail;
	struct fixture g;
	struct jrec j;

	fixture_begin(&g, state);
	jrec_init(&j);
	locked = start_mmap(g.mem, LEN, WEIR_MMAP_READ);
	inv = start_inventory(g.r, locked);
	assert_int_equal(weir_inventory_get(&buf, inv, locked, g.mem, 64,
					    g.mem, 64), 0);
	assert_int_equal(weir_inventory_get(&tail, inv, locked, g.mem + 64, 64,
					    g.mem + 64, 64), 0);
	weir_job_copy(&j.job, weir_operand_buf(buf),
		      weir_operand_mem(g.mem + LEN, 64));
	REFUSED(-EACCES, weir_job_start, g.dma, &j.job);
	assert_non_null(strstr(weir_why(), "destination may not be written"));
	weir_job_copy(&j.job, weir_operand_mem(g.mem + LEN, 8),
		      weir_operand_mem((void *)(UINTPTR_MAX - 3), 8));
	REFUSED(-ERANGE, weir_job_start, g.dma, &j.job);
	assert_non_null(strstr(weir_why(), "the source is beyond"));
	assert_int_equal(weir_buf_chain(buf, tail), 0);
	weir_job_copy(&j.job, weir_operand_mem(g.mem + LEN, 64),
		      weir_operand_buf(tail));
	REFUSED(-EPERM, weir_job_start, g.dma, &j.job);
	assert_non_null(strstr(weir_why(), "the source is a buf in the middle"));
	weir_job_copy(&j.job, weir_operand_mem(NULL, 8),
		      weir_operand_mem(g.mem, 8));
	REFUSED(-EINVAL, weir_job_start, g.dma, &j.job);
	assert_non_null(strstr(weir_why(), "the destination has no address"));
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(locked), 0);
	fixture_end(&g);
}

static void refused_calls_about_chains_leave_a_message(void **state)
{
	struct weir_chain_step step = { .size = sizeof(step) };
	struct weir_pipeline *p = NULL;
	struct weir_op op, bad;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state);
	jrec_init(&j);
	weir_op_init(&bad, NULL);
	weir_op_init(&op, nothing);
	REFUSED(-EINVAL, weir_chain_start, g.chain, &op);
	REFUSED(-EINVAL, weir_chain_get_step, g.chain, 0, &step);
	REFUSED(-EINVAL, weir_chain_add_job, g.chain, 7, g.dma, &j.job);
	weir_job_fill(&j.job, weir_operand_mem(g.mem, 8), 0);
	assert_int_equal(weir_chain_add_job(g.chain, WEIR_CHAIN_FIRST, g.dma,
					    &j.job), 0);
	REFUSED(-EINVAL, weir_chain_start, g.chain, &bad);
	STARTS(weir_chain_start(g.chain, &op));
	REFUSED(-EBUSY, weir_chain_start, g.chain, &bad);
	REFUSED(-EBUSY, weir_chain_destroy, g.chain);
	REFUSED(-EBUSY, weir_chain_add_job, g.chain, WEIR_CHAIN_FIRST, g.dma,
		&j.job);
	UNTIL(g.r, !weir_op_is_busy(&op));
	REFUSED(-EBUSY, weir_dma_destroy, g.dma);

	REFUSED(-EINVAL, weir_pipeline_create, &p, g.r, NULL);
	fixture_end(&g);
}

static void refused_calls_about_memory_leave_a_message(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_op op, bad;
	struct weir_mmap *m = NULL;
	struct weir_domain *d = NULL;
	struct weir_sync *sync = NULL;
	struct weir_inventory *inv = NULL;
	char *mem = aligned_alloc(4096, LEN);

	assert_non_null(mem);
	memset(mem, 0, LEN);
	weir_op_init(&bad, NULL);
	weir_op_init(&op, nothing);
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	REFUSED(-ENOENT, weir_mmap_memrange, m, NULL, NULL);
	REFUSED(-EINVAL, weir_mmap_set_memrange, m, NULL, 0);
	REFUSED(-EINVAL, weir_mmap_set_permissions, m, 1u << 31);
	REFUSED(-EBADFD, weir_sync_create_in, &sync, m, 0, NULL);
	assert_int_equal(weir_mmap_set_memrange(m, mem, LEN), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	REFUSED(-EINVAL, weir_mmap_stop, m, NULL, &op);
	REFUSED(-EINVAL, weir_mmap_stop, m, r, &bad);
	REFUSED(-ENOENT, weir_mmap_registered, m, r, NULL);
	REFUSED(-EINVAL, weir_mmap_import_from, r, &op, NULL, "x", NULL);
	REFUSED(-EINVAL, weir_mmap_import_from, r, &op, "/x", NULL, NULL);
	REFUSED(-EINVAL, weir_sync_create_in, &sync, m, 1, NULL);
	REFUSED(-ERANGE, weir_sync_create_in, &sync, m, LEN, NULL);
	REFUSED(-EBADMSG, weir_sync_open, &sync, m, 0);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	REFUSED(-EBADFD, weir_inventory_attach, inv, m);
	assert_int_equal(weir_mmap_destroy(m), 0);
	REFUSED(-EBADF, weir_domain_file_create, &d, -1, NULL);
	REFUSED(-EPERM, weir_domain_destroy, weir_domain_system());

	assert_int_equal(weir_inventory_destroy(inv), 0);
	free(mem);
}

static void refused_destroy_of_a_reactor_counts_every_object(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_timer *timers[2] = { NULL };
	struct weir_inventory *inv[2] = { NULL };
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	int i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_timer_create(&timers[i], r, ignore_timer,
						   NULL),
				 0);
		assert_int_equal(weir_inventory_create(&inv[i], r, NULL), 0);
	}
	REFUSED(-EBUSY, weir_reactor_destroy, r);
	assert_non_null(strstr(weir_why(), "5 objects still exist: "));
	assert_non_null(strstr(weir_why(), "weir_inventory 2"));
	assert_non_null(strstr(weir_why(), "weir_dma 1"));
	assert_non_null(strstr(weir_why(), "weir_timer 2"));
	assert_int_equal(weir_dma_destroy(dma), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_inventory_destroy(inv[i]), 0);
		weir_timer_destroy(timers[i]);
	}
}

/* What is made on a reactor that stops is refused by its own name. */
static void refused_starts_of_operations_leave_a_message(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct iovec iov = { NULL, 8 };
	struct statx stx;
	struct weir_op op;
	char c = 0;

	weir_op_init(&op, nothing);
	REFUSED(-EINVAL, weir_read, r, &op, 0, NULL, 1, 0);
	REFUSED(-EINVAL, weir_write, r, &op, 0, &c, 1, INT64_MAX);
	REFUSED(-EINVAL, weir_readv, r, &op, 0, &iov, 1, 0);
	REFUSED(-EINVAL, weir_fsync, r, &op, 0, ~0u);
	REFUSED(-EINVAL, weir_open, r, &op, AT_FDCWD, NULL, 0, 0);
	REFUSED(-EINVAL, weir_statx, r, &op, AT_FDCWD, NULL, 0, 0, &stx);
	REFUSED(-EINVAL, weir_send, r, &op, 0, &c, 1, ~0u);
	REFUSED(-EINVAL, weir_shutdown, r, &op, 0, 77);
	REFUSED(-EINVAL, weir_poll, r, &op, 0, 0);
	REFUSED(-EINVAL, weir_call, r, &op, NULL, NULL, NULL);
	REFUSED(-EINVAL, weir_capacity_wait, r, &op, NULL);
	REFUSED(-EINVAL, weir_work, r, &op, NULL, NULL);
	REFUSED(-EINVAL, weir_op_cancel, &op);
	assert_int_equal(weir_defer(r, &op), 0);
	REFUSED(-EINVAL, weir_defer, r, &op);
	REFUSED(-EINVAL, weir_nop, r, &op);
	REFUSED(-EINVAL, weir_close, r, &op, 0);
	REFUSED(-EINVAL, weir_sleep_until, r, &op, 0);
	some_turns(r, 2);
	weir_op_init(&op, NULL);
	REFUSED(-EINVAL, weir_recv, r, &op, 0, &c, 1, 0);
}

/* @call, with these arguments, returns -EAGAIN, and what it leaves is no older
 * message. */
#define FULL(call, ...) \
	do { \
		why(0, #call ": an older message"); \
		assert_int_equal(call(__VA_ARGS__), -EAGAIN); \
		assert_null(strstr(weir_why(), "older")); \
		assert_true(strlen(weir_why()) > 20); \
	} while (0)

static void call_without_capacity_leaves_no_older_message(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
			(struct weir_reactor_opts){ .ops_max = 4 });
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){
			.jobs_max = 1 });
	struct weir_pool_opts popts = { .size = sizeof(popts), .bufs = 1,
					.buf_size = 4096 };
	struct weir_inventory_opts iopts = { .size = sizeof(iopts), .bufs = 1 };
	struct weir_inventory *inv;
	struct weir_buf *buf, *more[2];
	struct weir_pool *pool;
	struct weir_mmap *m;
	struct weir_op ops[5];
	struct jrec j[2];
	char *mem = aligned_alloc(4096, LEN);
	int i;

	m = start_mmap(mem, LEN, WEIR_MMAP_WRITE);
	for (i = 0; i < 2; i++) {
		jrec_init(&j[i]);
		weir_job_fill(&j[i].job, weir_operand_mem(mem, 8), 0);
	}
	STARTS(weir_job_start(dma, &j[0].job));
	FULL(weir_job_start, dma, &j[1].job);
	UNTIL(r, j[0].calls);
	for (i = 0; i < 5; i++)
		weir_op_init(&ops[i], nothing);
	for (i = 0; i < 4; i++)
		assert_int_equal(weir_nop(r, &ops[i]), 0);
	FULL(weir_nop, r, &ops[4]);
	FULL(weir_op_start, r, &ops[4], NULL, NULL);
	FULL(weir_job_start, dma, &j[1].job);
	some_turns(r, 3);
	assert_int_equal(weir_pool_create(&pool, r, &popts), 0);
	assert_int_equal(weir_pool_get(&buf, pool), 0);
	FULL(weir_pool_get, &more[0], pool);
	FULL(weir_pool_get_sized, &more[0], pool, 100);
	FULL(weir_pool_get_bulk, more, pool, 100, 2);
	weir_buf_put(buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_inventory_create(&inv, r, &iopts), 0);
	assert_int_equal(weir_inventory_attach(inv, m), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, m, mem, 8, mem, 8), 0);
	FULL(weir_inventory_get, &more[0], inv, m, mem, 8, mem, 8);
	FULL(weir_inventory_dup, &more[0], inv, buf);
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	free(mem);
}

/* An engine, a domain and a kind that refuse, and may say why. */
struct refuser {
	int err;
	const char *says;
};

static int refuse(const struct refuser *who)
{
	return who->says ? weir_why_set(who->err, "%s", who->says) : who->err;
}

static int refuser_can(void *arg, const struct weir_engine_query *q,
		       const char **why)
{
	(void)arg, (void)why;
	return q->kind == WEIR_JOB_CRC32C;
}

static int refuser_start(void *arg, struct weir_job *job)
{
	(void)job;
	return refuse(arg);
}

static const struct weir_engine_ops refuser_ops = {
	.size = sizeof(refuser_ops), .name = "refuser", .can = refuser_can,
	.start = refuser_start,
};

static int refuser_pull(struct weir_domain *d, struct weir_reactor *r,
			struct weir_op *op, const struct weir_domain_move *m)
{
	(void)r, (void)op, (void)m;
	return refuse(weir_domain_ctx(d));
}

static struct refuser kind_shapes, kind_begins;

static int refuser_shape(const struct weir_job *job, uint64_t bytes,
			 struct weir_kind_shape *ret)
{
	(void)job, (void)bytes, (void)ret;
	return refuse(&kind_shapes);
}

static int refuser_begin(const struct weir_job *job)
{
	(void)job;
	return refuse(&kind_begins);
}

static int refuser_run(struct weir_kind_run *run)
{
	(void)run;
	return -EIO;
}

static uint32_t refuser_kind(void)
{
	static const struct weir_kind_ops ops = {
		.size = sizeof(ops), .name = "refuser",
		.shape = refuser_shape, .begin = refuser_begin,
		.run = refuser_run,
	};
	uint32_t kind = weir_kind_find("refuser");

	if (!kind)
		assert_int_equal(weir_kind_register(&ops, &kind), 0);
	return kind;
}

/* Without a message of its own, then with one. */
static void try_refuser(struct weir_dma *dma, struct weir_job *job,
			struct refuser *who)
{
	who->err = -EKEYREJECTED;
	who->says = NULL;
	REFUSED(-EKEYREJECTED, weir_job_start, dma, job);
	who->says = "acme: the key is revoked";
	why(0, "an older message");
	assert_int_equal(weir_job_start(dma, job), -EKEYREJECTED);
	assert_string_equal(weir_why(), who->says);
	who->err = 0;
	who->says = NULL;
}

static void user_function_that_refuses_a_job_leaves_a_message(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_domain_opts opts = { .size = sizeof(opts),
					 .kind = WEIR_DOMAIN_USER,
					 .len = LEN };
	struct refuser engine = { 0 }, domain = { 0 };
	struct weir_domain *d;
	struct weir_dma *dma;
	char mem[64];
	struct jrec j;

	memset(mem, 0, sizeof(mem));
	assert_int_equal(weir_dma_create(&dma, r, NULL), 0);
	assert_int_equal(weir_dma_add_engine(dma, &refuser_ops, &engine), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	jrec_init(&j);
	weir_job_crc32c(&j.job, weir_operand_mem(mem, 8), 0);
	try_refuser(dma, &j.job, &engine);
	opts.ctx = &domain;
	assert_int_equal(weir_domain_create(&d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(d, refuser_pull), 0);
	weir_job_copy(&j.job, weir_operand_mem(mem, 8),
		      weir_operand_at(d, 0, 8));
	try_refuser(dma, &j.job, &domain);
	assert_int_equal(weir_domain_destroy(d), 0);
	weir_job_registered(&j.job, refuser_kind(), weir_operand_mem(NULL, 0),
			    weir_operand_mem(mem, 8), NULL);
	try_refuser(dma, &j.job, &kind_shapes);
	try_refuser(dma, &j.job, &kind_begins);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void stopped_reactor_refuses_by_the_name_of_the_call(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_inventory *inv = NULL;
	struct weir_chain *chain = NULL;
	struct weir_dma *dma = NULL;

	weir_reactor_stop(r);
	while (weir_reactor_state(r) != WEIR_REACTOR_STOPPED)
		assert_true(weir_reactor_turn(r, 0) >= 0);
	REFUSED(-ESHUTDOWN, weir_inventory_create, &inv, r, NULL);
	REFUSED(-ESHUTDOWN, weir_chain_create, &chain, r, NULL);
	REFUSED(-ESHUTDOWN, weir_dma_create, &dma, r, NULL);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(options_of_an_unknown_version_leave_a_message),
		CASE(refused_calls_about_jobs_leave_a_message),
		CASE(refused_job_names_the_side),
		CASE(refused_calls_about_chains_leave_a_message),
		CASE(refused_calls_about_memory_leave_a_message),
		CASE(refused_destroy_of_a_reactor_counts_every_object),
		CASE(refused_starts_of_operations_leave_a_message),
		CASE(call_without_capacity_leaves_no_older_message),
		CASE(user_function_that_refuses_a_job_leaves_a_message),
		CASE(stopped_reactor_refuses_by_the_name_of_the_call),
	};

	return harness_run_all(cases, N_OF(cases));
}
