/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What an operation costs: IORING_OP_NOP through weir and through liburing with
 * the same setup flags; and what a deferred callback costs, with no kernel.
 *
 * "turn" drives the loop from outside, a batch at a time; "run" is the life
 * of a server, where each callback starts the next operation; "run, page" is
 * that with a page of statistics for others to read.
 */

#include <errno.h>
#include <liburing.h>
#include <math.h>

#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/stats.h>

#include "bench/bench.h"

#define BATCH_MAX 256

struct nops {
	struct weir_reactor *r;
	uint64_t done;
	uint64_t wanted;
	struct weir_op ops[BATCH_MAX];
};

static void on_nop(struct weir_op *op, int64_t res)
{
	struct nops *n = op->data;

	bench_must((int)res, "nop");
	n->done++;
}

static void on_nop_again(struct weir_op *op, int64_t res)
{
	struct nops *n = op->data;

	bench_must((int)res, "nop");
	if (++n->done == n->wanted)
		weir_reactor_break(n->r);
	if (n->done < n->wanted)
		bench_must(weir_nop(n->r, op), "weir_nop");
}

static void on_defer_again(struct weir_op *op, int64_t res)
{
	struct nops *n = op->data;

	(void)res;
	if (++n->done < n->wanted)
		bench_must(weir_defer(n->r, op), "weir_defer");
	else
		weir_reactor_break(n->r);
}

static void init(struct nops *n, struct weir_reactor *r, weir_op_fn *fn)
{
	n->r = r;
	n->done = 0;
	for (int i = 0; i < BATCH_MAX; i++) {
		weir_op_init(&n->ops[i], fn);
		n->ops[i].data = n;
	}
}

/* Each returns nanoseconds of this thread's CPU time for one operation. */
static double weir_turns(struct weir_reactor *r, int batch, uint64_t rounds)
{
	static struct nops n;
	uint64_t begun, want = 0;

	init(&n, r, on_nop);
	begun = bench_thread_ns();
	for (uint64_t i = 0; i < rounds; i++) {
		for (int k = 0; k < batch; k++)
			bench_must(weir_nop(r, &n.ops[k]), "weir_nop");
		want += (uint64_t)batch;
		while (n.done < want)
			bench_must(weir_reactor_turn(r, WEIR_FOREVER), "turn");
	}
	return (double)(bench_thread_ns() - begun) / (double)want;
}

static double weir_run(struct weir_reactor *r, int batch, uint64_t rounds,
		       bool defer)
{
	static struct nops n;
	uint64_t begun;

	init(&n, r, defer ? on_defer_again : on_nop_again);
	n.wanted = rounds * (uint64_t)batch;
	begun = bench_thread_ns();
	for (int k = 0; k < batch; k++)
		bench_must(defer ? weir_defer(r, &n.ops[k])
				 : weir_nop(r, &n.ops[k]), "start");
	bench_must(weir_reactor_run(r), "run");
	begun = bench_thread_ns() - begun;
	while (n.done < n.wanted + (uint64_t)batch - 1)
		bench_must(weir_reactor_turn(r, WEIR_FOREVER), "turn");
	if (defer) {
		/* Callbacks have asked for breaks, which turns do not take. */
		weir_reactor_break(r);
		bench_must(weir_reactor_run(r), "run");
	}
	return (double)begun / (double)n.wanted;
}

static double raw(struct io_uring *ring, int batch, uint64_t rounds)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	uint64_t begun = bench_thread_ns(), done = 0;
	unsigned int head, n;

	for (uint64_t i = 0; i < rounds; i++) {
		for (int k = 0; k < batch; k++) {
			sqe = io_uring_get_sqe(ring);
			io_uring_prep_nop(sqe);
			io_uring_sqe_set_data64(sqe, (uint64_t)k);
		}
		bench_must(io_uring_submit_and_wait(ring, (unsigned int)batch),
			   "submit");
		n = 0;
		io_uring_for_each_cqe(ring, head, cqe) {
			bench_must(cqe->res, "nop");
			n++;
		}
		io_uring_cq_advance(ring, n);
		done += n;
	}
	return (double)(bench_thread_ns() - begun) / (double)done;
}

/*
 * The floor of a deferred callback: an item goes on a list and is called from
 * it, and puts itself on the next.
 */
struct item {
	struct item *next;
	void (*fn)(struct item *item);
	uint64_t pad[6];
};

static struct item *list, **list_end = &list;
static uint64_t list_left;

static void item_again(struct item *item)
{
	if (list_left)
		list_left--;
	item->next = NULL;
	*list_end = item;
	list_end = &item->next;
}

static double raw_list(int batch, uint64_t total)
{
	static struct item items[BATCH_MAX];
	struct item *item, *next;
	uint64_t begun = bench_thread_ns();

	list = NULL;
	list_end = &list;
	list_left = total;
	for (int k = 0; k < batch; k++) {
		items[k].fn = item_again;
		item_again(&items[k]);
	}
	while (list_left) {
		item = list;
		list = NULL;
		list_end = &list;
		for (; item; item = next) {
			next = item->next;
			item->fn(item);
		}
	}
	return (double)(bench_thread_ns() - begun) / (double)total;
}

/* The setup flags that cost least, as far as the kernel has them. */
static int raw_init(struct io_uring *ring)
{
	static const unsigned int flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_COOP_TASKRUN, 0,
	};
	int err = -EINVAL;

	for (size_t i = 0; i < ARRAY_SIZE(flags) && err; i++)
		err = io_uring_queue_init(BATCH_MAX, ring, flags[i]);
	if (!err)
		io_uring_register_ring_fd(ring);
	return err;
}

static struct weir_reactor *reactor_new(const struct bench *b, uint32_t backend)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend,
	};
	struct weir_reactor *r = NULL;

	if (!bench_wants_backend(b, backend))
		return NULL;
	if (weir_reactor_create(&r, &opts))
		bench_note("no %s backend: %s",
			   backend == WEIR_BACKEND_EV ? "ev" : "uring",
			   weir_why());
	return r;
}

/* The only one that is on a page: the others were there before it. */
static struct weir_reactor *published_new(const struct bench *b)
{
	if (!weir_stats_publish(NULL))
		return reactor_new(b, WEIR_BACKEND_URING);
	bench_note("no page of statistics: %s", weir_why());
	return NULL;
}

struct loops {
	struct io_uring ring;
	bool have_ring;
	struct weir_reactor *uring;
	struct weir_reactor *page;
	struct weir_reactor *ev;
};

static void one_batch(struct bench *b, struct loops *l, int batch,
		      uint64_t total)
{
	uint64_t rounds = total / (uint64_t)batch;
	char what[32];

	snprintf(what, sizeof(what), "nop, batch %d", batch);
	if (l->have_ring && bench_wants(b, "liburing"))
		bench_add(b, what, "liburing", "ns/op",
			  raw(&l->ring, batch, rounds));
	if (l->uring && bench_wants(b, "weir turn"))
		bench_add(b, what, "weir turn", "ns/op",
			  weir_turns(l->uring, batch, rounds));
	if (l->uring && bench_wants(b, "weir run"))
		bench_add(b, what, "weir run", "ns/op",
			  weir_run(l->uring, batch, rounds, false));
	if (l->page && bench_wants(b, "weir run, page"))
		bench_add(b, what, "weir run, page", "ns/op",
			  weir_run(l->page, batch, rounds, false));
}

static void one_list(struct bench *b, int batch, uint64_t total)
{
	char what[32];

	snprintf(what, sizeof(what), "defer, batch %d", batch);
	if (bench_wants(b, "bare list"))
		bench_add(b, what, "bare list", "ns/op",
			  raw_list(batch, total));
}

static void one_defer(struct bench *b, struct weir_reactor *r,
		      const char *variant, int batch, uint64_t total)
{
	uint64_t rounds = total / (uint64_t)batch;
	char what[32];

	snprintf(what, sizeof(what), "defer, batch %d", batch);
	if (!r || !bench_wants(b, variant))
		return;
	bench_add(b, what, variant, "ns/op",
		  weir_run(r, batch, rounds, true));
}

static void one_deferred(struct bench *b, const struct loops *l, int batch,
			 uint64_t total)
{
	one_list(b, batch, total);
	one_defer(b, l->uring, "weir uring", batch, total);
	one_defer(b, l->ev, "weir ev", batch, total);
}

static int batch_of(const struct bench *b, int i)
{
	if (b->depths.value[i] > BATCH_MAX)
		bench_die("--depth", E2BIG);
	return (int)b->depths.value[i];
}

static void goals(struct bench *b)
{
	for (size_t i = 0; i <= 2; i += 2) {
		const char *what = i ? "nop, batch 32" : "nop, batch 1";

		bench_goal(b, "NOP: at most 1.12 x liburing", what,
			   "weir turn", "liburing", BENCH_AT_MOST, 1.12);
		bench_goal(b, "NOP: at most 1.12 x liburing", what,
			   "weir run", "liburing", BENCH_AT_MOST, 1.12);
		bench_goal(b, "NOP: a page costs at most 5 %", what,
			   "weir run, page", "weir run", BENCH_AT_MOST, 1.05);
	}
	bench_goal(b, "deferred callback: at most 4 ns", "defer, batch 256",
		   "weir uring", NULL, BENCH_AT_MOST, 4);
}

int main(int argc, char **argv)
{
	static const uint64_t batches[] = { 1, 4, 32, BATCH_MAX };
	static struct bench b;
	static struct loops l;
	uint64_t total;

	bench_init_with(&b, "nop", BENCH_BACKENDS | BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, batches, ARRAY_SIZE(batches));
	bench_pin(0);
	total = b.quick ? 20000 : 500000;
	l.have_ring = !raw_init(&l.ring);
	l.uring = reactor_new(&b, WEIR_BACKEND_URING);
	l.ev = reactor_new(&b, WEIR_BACKEND_EV);
	l.page = published_new(&b);

	for (bench_begin(&b); bench_next(&b); ) {
		for (int i = 0; i < b.depths.n; i++)
			one_batch(&b, &l, batch_of(&b, i), total);
		for (int i = 0; i < b.depths.n; i++)
			one_deferred(&b, &l, batch_of(&b, i), total * 4);
	}
	goals(&b);
	bench_must(weir_reactor_destroy(l.uring), "destroy");
	bench_must(weir_reactor_destroy(l.ev), "destroy");
	bench_must(weir_reactor_destroy(l.page), "destroy");
	bench_must(weir_stats_withdraw(), "withdraw");
	if (l.have_ring)
		io_uring_queue_exit(&l.ring);
	return bench_done(&b);
}
