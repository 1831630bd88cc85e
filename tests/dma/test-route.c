/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way a job goes: the table, what is said before and what after. */

#include "tests/support/engine-of.h"
#include "tests/support/user-domain-fixture.h"
#include "tests/support/table-fixture.h"

#include <weir/conn.h>
#include <weir/engine.h>
#include <weir/route.h>

#include "dma/route.h"
#include "tests/support/sim-calls.h"

enum { MEM, FIL, PROC, USER };

struct route_fixture {
	struct fixture *g;
	struct weir_dma *dma;
	struct weir_domain *file[2], *self;
	int fd[2];
	int src, dst;			/* Of the column. */
	struct weir_operand more;
	struct jrec j;
	char text[2048];
};

static void route_begin(struct route_fixture *w, void **state)
{
	int i;

	memset(w, 0, sizeof(*w));
	w->g = fixture_begin(state);
	w->dma = start_dma(w->g->r, (struct weir_dma_opts){ 0 });
	for (i = 0; i < 2; i++) {
		struct user_domain *s = i ? &w->g->b : &w->g->a;

		assert_int_equal(weir_domain_set_pull(s->d, user_domain_pull),
				 0);
		assert_int_equal(weir_domain_set_push(s->d, user_domain_push),
				 0);
		w->fd[i] = test_file(state, i ? "f1" : "f0", LEN, 2);
		w->file[i] = file_domain(w->fd[i]);
	}
	if (weir_domain_process_create(&w->self, getpid(), NULL))
		print_message("without processes: %s\n", weir_why());
	jrec_init(&w->j);
}

static void route_end(struct route_fixture *w)
{
	int i;

	assert_int_equal(weir_dma_destroy(w->dma), 0);
	assert_int_equal(weir_domain_destroy(w->self), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_domain_destroy(w->file[i]), 0);
		close(w->fd[i]);
	}
	fixture_end(w->g);
}

static struct weir_operand place(struct route_fixture *w, int what, int side)
{
	char *mem = w->g->mem + side * 1024;

	switch (what) {
	case FIL:
		return weir_operand_at(w->file[side], 0, 64);
	case PROC:
		return weir_operand_at(w->self, (uintptr_t)mem, 64);
	case USER:
		return weir_operand_at(side ? w->g->b.d : w->g->a.d, 0, 64);
	default:
		return weir_operand_mem(mem, 64);
	}
}

static const char *const words[] = {
	[WEIR_ROUTE_DIRECT] = "direct",
	[WEIR_ROUTE_PULL] = "pull",
	[WEIR_ROUTE_PUSH] = "push",
	[WEIR_ROUTE_BOUNCE] = "bounce",
};

/* What is said before is what is so afterwards. */
static int go(struct route_fixture *w, uint32_t kind)
{
	struct weir_job_route route = { .size = sizeof(route) };
	int said, err;

	weir_job_copy(&w->j.job, place(w, w->dst, 1), place(w, w->src, 0));
	w->j.job.kind = kind;
	if (kind == WEIR_JOB_DUALCAST || kind == WEIR_JOB_XOR) {
		w->more = kind == WEIR_JOB_XOR ? place(w, w->src, 0) :
						 place(w, w->dst, 1);
		w->more.addr += 100;
		w->j.job.more = &w->more;
		w->j.job.n_extra = 1;
	}
	if (kind == WEIR_JOB_FETCH_ADD || kind == WEIR_JOB_COMPARE_SWAP)
		w->j.job.dst.len = 8;
	assert_int_equal(weir_job_get_route(&w->j.job, &route), -ENOENT);
	said = weir_route_explain(w->dma, &w->j.job, w->text, sizeof(w->text));
	err = weir_job_start(w->dma, &w->j.job);
	assert_int_equal(err, said);
	if (err) {
		assert_starts_with(w->text, "refused: ");
		return err;
	}
	assert_int_equal(weir_job_get_route(&w->j.job, &route), -EINVAL);
	assert_true(jrec_finish(w->g->r, &w->j) >= 0);
	assert_int_equal(weir_job_get_route(&w->j.job, &route), 0);
	assert_starts_with(w->text, words[route.route]);
	assert_int_equal(route.bounced > 0, route.route == WEIR_ROUTE_BOUNCE);
	assert_int_equal(route.engine != NULL,
			 route.route != WEIR_ROUTE_BOUNCE);
	return 0;
}

#define KIND(name, kind) \
	static int go_##name(void *fixture) \
	{ \
		return go(fixture, WEIR_JOB_##kind); \
	}

KIND(copy, COPY)
KIND(pull, PULL)
KIND(push, PUSH)
KIND(copy_crc32c, COPY_CRC32C)
KIND(compare, COMPARE)
KIND(crc32c, CRC32C)
KIND(fill, FILL)
KIND(dualcast, DUALCAST)
KIND(xor, XOR)
KIND(fetch_add, FETCH_ADD)
KIND(compare_swap, COMPARE_SWAP)

static void route_agrees_with_the_table_of_routes(void **state)
{
	static const struct table_call calls[] = {
		{ "COPY", go_copy },
		{ "PULL", go_pull },
		{ "PUSH", go_push },
		{ "COPY_CRC32C", go_copy_crc32c },
		{ "COMPARE", go_compare },
		{ "CRC32C", go_crc32c },
		{ "FILL", go_fill },
		{ "DUALCAST", go_dualcast },
		{ "XOR", go_xor },
		{ "FETCH_ADD", go_fetch_add },
		{ "COMPARE_SWAP", go_compare_swap },
	};
	static const char *const columns[] = {
		"memory → memory", "memory → file", "file → memory",
		"file → file", "memory → process", "process → memory",
		"process → file", "memory → user", "user → memory",
		"user → user", "file → user",
	};
	static const int sides[][2] = {
		{ MEM, MEM }, { MEM, FIL }, { FIL, MEM }, { FIL, FIL },
		{ MEM, PROC }, { PROC, MEM }, { PROC, FIL }, { MEM, USER },
		{ USER, MEM }, { USER, USER }, { FIL, USER },
	};
	struct weir_job_route route = { .size = sizeof(route) };
	struct route_fixture w;
	struct table_cell c;
	struct table t;

	table_open(&t, "docs/internals/dma.md",
		   "job: how it goes, by kind and domains", calls, N_OF(calls),
		   columns, N_OF(columns));
	while (table_next(&t, &c)) {
		route_begin(&w, state);
		w.src = sides[c.column][0];
		w.dst = sides[c.column][1];
		if ((w.src == PROC || w.dst == PROC) && !w.self) {
			route_end(&w);
			end_reactor(state);
			continue;
		}
		table_result(&c, c.call->fn(&w));
		if (*c.then) {
			assert_int_equal(weir_job_get_route(&w.j.job, &route),
					 0);
			assert_string_equal(words[route.route], c.then);
		}
		route_end(&w);
		end_reactor(state);
	}
	table_close(&t);
}

#ifdef HAVE_VERBS
#define VERBS "verbs: not asked about files; "
#else
#define VERBS ""
#endif

static void the_plan_says_why_no_better_one(void **state)
{
	struct route_fixture w;
	size_t len;

	route_begin(&w, state);
	weir_job_copy(&w.j.job, place(&w, USER, 1), place(&w, FIL, 0));
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), 0);
	assert_string_equal(w.text,
		"bounce: pull by file, push by domain, 1 block of 262144 "
		"bytes\n  not direct: " VERBS "cpu: only memory of this process; file: "
		"only files, and memory of this process; process: only copies "
		"between another process and memory of this one; domain: only "
		"to and from memory, and between users' domains\n");

	/* More places, and each of its own kind. */
	w.more = place(&w, FIL, 0);
	weir_job_dualcast(&w.j.job, place(&w, USER, 1), &w.more,
			  place(&w, MEM, 0));
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), 0);
	assert_string_equal(w.text,
		"bounce: push by domain, push by file, 1 block of 262144 "
		"bytes\n  not direct: its operands are of several domains\n");
	w.j.job.kind = WEIR_JOB_XOR;
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), 0);
	assert_starts_with(w.text, "bounce: push by domain, pull by file, 1 ");

	/* Cut off, but always a string. */
	weir_job_copy(&w.j.job, place(&w, USER, 1), place(&w, FIL, 0));
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), 0);
	len = strlen(w.text);
	memset(w.text, 'x', sizeof(w.text));
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text, 20), 0);
	assert_string_equal(w.text, "bounce: pull by fil");
	assert_int_equal(w.text[20], 'x');
	assert_true(len > 20);
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, NULL, 0), 0);

	/* A domain that cannot be written to. */
	assert_int_equal(weir_domain_set_push(w.g->b.d, NULL), 0);
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), -EXDEV);
	assert_non_null(strstr(w.text, "no push to the destination: "));
	assert_non_null(strstr(w.text, "neither push nor transfer"));
	w.more = place(&w, USER, 1);
	weir_job_dualcast(&w.j.job, place(&w, FIL, 1), &w.more,
			  place(&w, MEM, 0));
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), -EXDEV);
	assert_non_null(strstr(w.text, "none\n"));
	assert_non_null(strstr(w.text, "no way for one beside: "));
	route_end(&w);
}

static void route_says_why_a_job_would_be_refused(void **state)
{
	struct weir_dma_stats a = { .size = sizeof(a) }, b = a;
	struct route_fixture w;
	struct rec stop;

	route_begin(&w, state);
	assert_int_equal(weir_dma_stats(w.dma, &a), 0);
	weir_job_copy(&w.j.job, weir_operand_mem(w.g->mem, 9),
		      weir_operand_mem(w.g->mem + 4, 9));
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), -EINVAL);
	assert_non_null(strstr(w.text, "overlap"));
	weir_job_copy(&w.j.job, weir_operand_mem(w.g->mem, 9),
		      weir_operand_mem(w.g->mem + 40, 8));
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), -EMSGSIZE);
	assert_int_equal(weir_dma_stats(w.dma, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(weir_op_is_busy(&w.j.job.op), 0);

	weir_job_copy(&w.j.job, weir_operand_mem(w.g->mem, 9),
		      weir_operand_mem(w.g->mem + 40, 9));
	rec_init(&stop);
	STARTS(weir_dma_stop(w.dma, &stop.op));
	assert_int_equal(finish(w.g->r, &stop), 0);
	assert_int_equal(weir_route_explain(w.dma, &w.j.job, w.text,
					    sizeof(w.text)), -EBADFD);
	assert_non_null(strstr(w.text, "not started"));
	assert_non_null(strstr(w.text, "direct: by cpu"));
	route_end(&w);
}

/* What the errno alone leaves open: one thing is wrong each time. */
enum wrong {
	BUSY,
	NO_KIND,
	NO_FLAG,
	NO_EXTRA,
	NO_CALLBACK,
	RESERVED,
	TRANSLATION,
	NO_IOV,
	NO_LENGTH,
	NO_ADDRESS,
	NO_PIECE,
	PULL,
	PUSH,
	OVERLAP,
	PIECES,
	LENGTHS,
	WRONGS,
};

static struct weir_job *wrong_job(struct route_fixture *w, enum wrong wrong)
{
	static struct iovec iov[WEIR_JOB_PIECES_MAX + 1] = { { NULL, 5 } };
	struct weir_job *job = &w->j.job;
	struct weir_operand *src = &job->src;

	weir_job_copy(job, weir_operand_mem(w->g->mem, 9),
		      weir_operand_mem(w->g->mem + 40, 9));
	job->op.fn = wrong == NO_CALLBACK ? NULL : jrec_done;
	job->flags = wrong == BUSY ? WEIR_JOB_LAZY : wrong == NO_FLAG ? 256 : 0;
	job->kind = wrong == NO_KIND ? 77 : wrong == PULL ? WEIR_JOB_PULL :
		    wrong == PUSH ? WEIR_JOB_PUSH : WEIR_JOB_COPY;
	job->n_extra = wrong == NO_EXTRA;
	src->reserved0 = wrong == RESERVED;
	src->translation = wrong == TRANSLATION ? (void *)1 : NULL;
	if (wrong == NO_LENGTH)
		job->dst.len = 0;
	if (wrong == NO_ADDRESS)
		src->addr = 0;
	if (wrong == OVERLAP)
		src->addr = job->dst.addr + 8;
	if (wrong == NO_IOV)
		src->n_iov = 2;
	if (wrong == NO_PIECE || wrong == PIECES)
		*src = weir_operand_iov(NULL, iov,
					wrong == PIECES ? N_OF(iov) : 1);
	if (wrong == LENGTHS)
		src->len = 8;
	return job;
}

static void route_says_what_exactly_is_wrong(void **state)
{
	static const char *const said[WRONGS] = {
		[BUSY] = "it is in flight",
		[NO_KIND] = "there is no such .kind",
		[NO_FLAG] = "there are no such .flags",
		[NO_EXTRA] = ".n_extra and .more are not what its kind has",
		[NO_CALLBACK] = "it has no callback",
		[RESERVED] = "the source: .reserved0 is not 0",
		[TRANSLATION] =
			"the source: a translation is for users' domains",
		[NO_IOV] = "the source: .n_iov is not 0, and .iov is NULL",
		[NO_LENGTH] = "the destination: its length is 0",
		[NO_ADDRESS] = "the source: its address is 0",
		[NO_PIECE] = "the source: the address of a piece is 0",
		[PULL] = "a pull is to memory of this process, from elsewhere",
		[PUSH] = "a push is from memory of this process, to elsewhere",
		[OVERLAP] = "the destination overlaps with another operand",
		[PIECES] = "a side has 257 pieces, and may have 256",
		[LENGTHS] = "the source has 8 bytes, the other side 9",
	};
	struct weir_job *job;
	struct route_fixture w;
	char want[160];
	int i, err;

	route_begin(&w, state);
	for (i = 0; i < WRONGS; i++) {
		job = wrong_job(&w, (enum wrong)i);
		if (i == BUSY)
			STARTS(weir_job_start(w.dma, job));
		err = weir_route_explain(w.dma, job, w.text, sizeof(w.text));
		assert_int_equal(weir_job_start(w.dma, job), err);
		assert_int_equal(err, i == PIECES || i == LENGTHS ? -EMSGSIZE :
								    -EINVAL);
		snprintf(want, sizeof(want), "refused: %s: %s\n",
			 strerror(-err), said[i]);
		assert_starts_with(w.text, want);
		if (i == BUSY)
			jrec_finish(w.g->r, &w.j);
	}
	route_end(&w);
}

/* Domains of all kinds, as far as engines look at them. */
static unsigned int some_domains(struct weir_domain **d)
{
	static const struct domain_class at_peer = {
		.is_peer = true,
	};
	static const struct domain_class at_device = {
		.is_device = true,
	};
	static struct domain_file file = { .domain.cls = &domain_class_file };
	static struct domain_remote peer = {
		.domain.cls = &at_peer,
	};
	static struct domain_process process = {
		.domain.cls = &domain_class_process,
	};
	static struct domain_user user[2] = {
		{ .domain.cls = &domain_class_user },
		{ .domain.cls = &domain_class_user,
		  .pull = user_domain_pull,
		  .push = user_domain_push,
		  .transfer = user_domain_push,
		  .fill = user_domain_push },
	};
	static struct weir_domain device = { .cls = &at_device };
	unsigned int n = 0;

	process.pid = getpid();
	d[n++] = NULL;
	d[n++] = &file.domain;
	d[n++] = &peer.domain;
	d[n++] = &process.domain;
	d[n++] = &user[0].domain;
	d[n++] = &user[1].domain;
	d[n++] = weir_domain_system();
	d[n++] = weir_domain_hugepage();
	d[n++] = &device;
	return n;
}

/* Whether a job of @kind has such sides: all, or just the one that it has. */
static bool is_question(uint32_t kind, const struct weir_domain *src,
			const struct weir_domain *dst)
{
	bool no_src = kind == WEIR_JOB_FILL || kind_is_atomic(kind);

	return !src == no_src && !dst == (kind == WEIR_JOB_CRC32C);
}

/* Of the library's own engines only one is asked. */
static void plan_asks_the_one_engine_of_the_library_that_serves(void **state)
{
	struct weir_job job = { .kind = 0 };
	struct weir_domain *d[16];
	unsigned int n = some_domains(d), i;
	struct route_fixture w;
	struct plan plan;

	route_begin(&w, state);
	for (i = 0; i < WEIR_JOB_COMPARE_SWAP * n * n; i++) {
		job.kind = i / (n * n) + 1;
		if (!is_question(job.kind, d[i / n % n], d[i % n]))
			continue;
		plan.direct.q = (struct weir_engine_query){
			.size = sizeof(plan.direct.q), .kind = job.kind,
			.src = d[i / n % n], .dst = d[i % n], .bytes = 64,
		};
		route_plan(w.dma, &job, &plan);
		assert_ptr_equal(plan.direct.engine,
				 engine_of(w.dma, job.kind, d[i / n % n],
					   d[i % n]));
	}
	route_end(&w);
}

#ifdef HAVE_VERBS
/* The plan looks at kinds of memory; whether there is a way to it now, a job. */
static void job_to_peer_without_connection_says_what_is_missing(void **state)
{
	struct weir_remote_key key = { 0 };
	struct weir_domain *far;
	struct route_fixture w;

	route_begin(&w, state);
	assert_int_equal(weir_domain_remote_create(&far, NULL), 0);
	weir_job_copy(&w.j.job, weir_operand_at(far, 4096, 64),
		      weir_operand_mem(w.g->mem, 64));
	w.j.job.dst.ctx = &key;
	assert_int_equal(weir_job_start(w.dma, &w.j.job), -ENOTCONN);
	assert_starts_with(weir_why(), "weir_job_start: ");
	assert_non_null(strstr(weir_why(), "there is no connection to it"));
	assert_int_equal(weir_domain_destroy(far), 0);
	route_end(&w);
}
#endif

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(route_says_what_exactly_is_wrong),
		CASE(route_agrees_with_the_table_of_routes),
		CASE(the_plan_says_why_no_better_one),
		CASE(route_says_why_a_job_would_be_refused),
		CASE(plan_asks_the_one_engine_of_the_library_that_serves),
#ifdef HAVE_VERBS
		CASE(job_to_peer_without_connection_says_what_is_missing),
#endif
	};

	return harness_run_all(cases, N_OF(cases));
}
