/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated world: time, order, seeds, faults. */

#include "tests/support/harness.h"

#include <pthread.h>
#include <signal.h>

#include <weir/export.h>
#include <weir/file.h>
#include <weir/sim/file.h>
#include <weir/sim/world.h>
#include <weir/socket.h>
#include <weir/uring.h>
#include <weir/watch.h>

#define OPS 40

/* A program with some of everything that needs no device. */
struct program {
	struct weir_sim *sim;
	struct weir_reactor *r[3];
	struct weir_event *event;
	struct weir_op ops[OPS];
	int64_t res[OPS];
	unsigned int ran[OPS];
	unsigned int posts, signals, works, n_ended;
	int order[OPS];
};

static struct program *program_of(struct weir_op *op)
{
	return op->data;
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct program *p = program_of(op);
	unsigned int i = (unsigned int)(op - p->ops);

	p->ran[i]++;
	p->res[i] = res;
	p->order[p->n_ended++] = (int)i;
}

static void on_post(void *arg)
{
	struct program *p = arg;

	p->posts++;
	weir_event_signal(p->event);
}

static void on_event(struct weir_event *event, uint64_t n, void *arg)
{
	struct program *p = arg;

	(void)event;
	p->signals += (unsigned int)n;
}

static int64_t on_work(void *arg)
{
	struct program *p = arg;

	p->works++;
	return 7;
}

static struct weir_reactor *reactor_in(struct weir_sim *sim)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts), .sim = sim };
	struct weir_reactor *r;

	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	assert_string_equal(weir_reactor_backend(r), "sim");
	return r;
}

static void program_begin(struct program *p, uint64_t seed,
			  const struct weir_sim_opts *opts)
{
	memset(p, 0, sizeof(*p));
	assert_int_equal(weir_sim_create(&p->sim, seed, opts), 0);
	for (unsigned int i = 0; i < N_OF(p->r); i++)
		p->r[i] = reactor_in(p->sim);
	assert_int_equal(weir_event_create(&p->event, p->r[2], on_event, p),
			 0);
	for (unsigned int i = 0; i < OPS; i++) {
		struct weir_reactor *r = p->r[i % 3];

		weir_op_init(&p->ops[i], on_end);
		p->ops[i].data = p;
		switch (i % 4) {
		case 0:
			assert_int_equal(weir_nop(r, &p->ops[i]), 0);
			break;
		case 1:
			assert_int_equal(weir_sleep_until(r, &p->ops[i],
				weir_reactor_now(r) + i * WEIR_SEC), 0);
			break;
		case 2:
			assert_int_equal(weir_work(r, &p->ops[i], on_work, p),
					 0);
			break;
		default:
			assert_int_equal(weir_defer(r, &p->ops[i]), 0);
		}
		assert_int_equal(weir_post(p->r[(i + 1) % 3], on_post, p), 0);
	}
}

static void program_end(struct program *p)
{
	weir_event_destroy(p->event);
	for (unsigned int i = 0; i < N_OF(p->r); i++)
		assert_int_equal(weir_reactor_destroy(p->r[i]), 0);
	assert_int_equal(weir_sim_destroy(p->sim), 0);
}

static void program_in_a_world_happens_once(void **state)
{
	struct program p;

	(void)state;
	program_begin(&p, 1, NULL);
	assert_int_equal(weir_sim_run(p.sim, WEIR_FOREVER, 0), 0);
	for (unsigned int i = 0; i < OPS; i++) {
		assert_int_equal(p.ran[i], 1);
		assert_int_equal(p.res[i], i % 4 == 2 ? 7 : 0);
	}
	assert_int_equal(p.posts, OPS);
	assert_int_equal(p.signals, OPS);
	assert_int_equal(p.works, OPS / 4);
	program_end(&p);
}

static void time_jumps_to_what_is_next(void **state)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };
	struct program p;
	uint64_t begun;

	(void)state;
	program_begin(&p, 1, NULL);
	begun = weir_sim_now(p.sim);
	assert_int_equal(weir_sim_run(p.sim, 10 * WEIR_SEC, 0), 1);
	assert_int_equal(weir_sim_now(p.sim), begun + 10 * WEIR_SEC);
	assert_int_equal(p.ran[9], 1);
	assert_int_equal(p.ran[13], 0);
	assert_int_equal(weir_sim_run(p.sim, WEIR_FOREVER, 0), 0);
	assert_true(weir_sim_now(p.sim) >= begun + 37 * WEIR_SEC);
	assert_true(weir_sim_now(p.sim) < begun + 38 * WEIR_SEC);
	assert_int_equal(weir_sim_stats(p.sim, &stats), 0);
	assert_int_equal(stats.completions, OPS);
	assert_int_equal(stats.started, OPS);
	assert_true(stats.events < 2000);
	program_end(&p);
}

static void a_run_ends_after_so_many_events(void **state)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };
	struct program p;

	(void)state;
	program_begin(&p, 1, NULL);
	assert_int_equal(weir_sim_run(p.sim, WEIR_FOREVER, 7), 1);
	assert_int_equal(weir_sim_stats(p.sim, &stats), 0);
	assert_int_equal(stats.events, 7);
	program_end(&p);
}

static uint64_t digest_of(uint64_t seed, const struct weir_sim_opts *opts,
			  int *order)
{
	struct program p;
	uint64_t digest;

	program_begin(&p, seed, opts);
	assert_int_equal(weir_sim_run(p.sim, WEIR_FOREVER, 0), 0);
	digest = weir_sim_digest(p.sim);
	memcpy(order, p.order, sizeof(p.order));
	program_end(&p);
	return digest;
}

static void a_seed_is_a_run_and_another_is_another(void **state)
{
	struct weir_sim_opts opts = { .size = sizeof(opts), .rate = 4,
				      .faults = WEIR_SIM_ALL_FAULTS &
				      ~(UINT64_C(1) << WEIR_SIM_REFUSED) };
	int a[OPS], b[OPS];

	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		assert_true(digest_of(seed, NULL, a) ==
			    digest_of(seed, NULL, b));
		assert_memory_equal(a, b, sizeof(a));
		assert_true(digest_of(seed, NULL, a) !=
			    digest_of(seed + 1, NULL, b));
		assert_true(digest_of(seed, &opts, a) ==
			    digest_of(seed, &opts, b));
		assert_memory_equal(a, b, sizeof(a));
		assert_true(digest_of(seed, &opts, a) !=
			    digest_of(seed, NULL, b));
	}
}

static void the_order_of_what_is_due_together_is_drawn(void **state)
{
	int a[OPS], b[OPS];

	(void)state;
	(void)digest_of(1, NULL, a);
	for (uint64_t seed = 2; seed < 20; seed++) {
		(void)digest_of(seed, NULL, b);
		if (memcmp(a, b, sizeof(a)))
			return;
	}
	fail_msg("twenty seeds have one order");
}

static void a_reactor_can_be_run_alone(void **state)
{
	struct program p;

	(void)state;
	program_begin(&p, 1, NULL);
	while (!p.ran[37])
		assert_true(weir_reactor_turn(p.r[1], WEIR_FOREVER) >= 0);
	assert_int_equal(weir_reactor_turn(p.r[1], WEIR_FOREVER), -EDEADLK);
	assert_non_null(strstr(weir_why(), "nothing will ever happen"));
	program_end(&p);
}

static void count_post(void *arg)
{
	++*(int *)arg;
}

struct foreign {
	struct weir_reactor *r;
	int posts, err, is_said;
};

static void *post_from_there(void *arg)
{
	struct foreign *f = arg;

	f->err = weir_post(f->r, count_post, &f->posts);
	f->is_said = !!strstr(weir_why(), "weir_post: the reactor is simulated");
	return NULL;
}

/* No seed would decide when it comes. */
static void post_of_another_thread_is_refused(void **state)
{
	struct foreign f = { NULL, 0, 0, 0 };
	struct weir_sim *sim = NULL;
	pthread_t thread;

	(void)state;
	assert_int_equal(weir_sim_create(&sim, 1, NULL), 0);
	f.r = reactor_in(sim);
	assert_int_equal(pthread_create(&thread, NULL, post_from_there, &f), 0);
	pthread_join(thread, NULL);
	assert_int_equal(f.err, -EOPNOTSUPP);
	assert_true(f.is_said);
	post_from_there(&f);
	assert_int_equal(f.err, 0);
	assert_true(weir_sim_run(sim, WEIR_SEC, 0) >= 0);
	assert_int_equal(f.posts, 1);
	assert_int_equal(weir_reactor_destroy(f.r), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void a_world_with_reactors_is_not_destroyed(void **state)
{
	struct weir_sim *sim;
	struct weir_reactor *r;

	(void)state;
	assert_int_equal(weir_sim_create(&sim, 0, NULL), 0);
	r = reactor_in(sim);
	assert_int_equal(weir_sim_destroy(sim), -EBUSY);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
	assert_int_equal(weir_sim_destroy(NULL), 0);
}

static void a_real_descriptor_is_not_open_in_a_world(void **state)
{
	struct weir_reactor *r;
	struct weir_watch *watch;
	struct program p;
	char c;

	(void)state;
	memset(&p, 0, sizeof(p));
	assert_int_equal(weir_sim_create(&p.sim, 0, NULL), 0);
	r = reactor_in(p.sim);
	weir_op_init(&p.ops[0], on_end);
	p.ops[0].data = &p;
	assert_int_equal(weir_read(r, &p.ops[0], 0, &c, 1, 0), 0);
	assert_int_equal(weir_sim_run(p.sim, WEIR_FOREVER, 0), 0);
	assert_int_equal(p.res[0], -EBADF);
	assert_int_equal(weir_watch_create(&watch, r, 0, WEIR_READABLE, NULL,
					   NULL), -EINVAL);
	assert_int_equal(weir_reactor_fd(r), -EOPNOTSUPP);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(p.sim), 0);
}

/* And without an event its time passes at once. */
static void world_without_work_lets_time_pass(void **state)
{
	struct weir_sim *sim = NULL;
	struct weir_reactor *r;
	uint64_t now;

	(void)state;
	assert_int_equal(weir_sim_create(&sim, 0, NULL), 0);
	r = reactor_in(sim);
	now = weir_sim_now(sim);
	assert_int_equal(weir_sim_run(sim, 10 * WEIR_SEC, 0), 0);
	assert_int_equal(weir_sim_now(sim), now + 10 * WEIR_SEC);
	assert_int_equal(weir_reactor_now(r), now + 10 * WEIR_SEC);
	assert_int_equal(weir_sim_run(sim, WEIR_FOREVER, 0), 0);
	assert_int_equal(weir_sim_now(sim), now + 10 * WEIR_SEC);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void prepare(struct io_uring_sqe *sqe, void *arg)
{
	(void)sqe, (void)arg;
}

/* Each leaves a message of its own. */
static void calls_that_are_not_simulated_say_why(void **state)
{
	struct weir_exporter *exporter = NULL;
	struct weir_sim *sim = NULL;
	struct weir_reactor *r;
	struct weir_op op;

	(void)state;
#define REFUSED(call, ...) \
	do { \
		weir_op_init(&op, on_end); \
		assert_int_equal(call(__VA_ARGS__), -EOPNOTSUPP); \
		assert_starts_with(weir_why(), #call ": "); \
		assert_non_null(strstr(weir_why(), "simulated")); \
	} while (0)
	assert_int_equal(weir_sim_create(&sim, 0, NULL), 0);
	r = reactor_in(sim);
	REFUSED(weir_exporter_create, &exporter, r, "/nowhere/s", NULL);
	REFUSED(weir_mmap_import_from, r, &op, "/nowhere/s", "n", NULL);
	assert_int_equal(weir_reactor_fd(r), -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_reactor_fd: the sim backend");
	assert_int_equal(weir_uring_submit(r, &op, prepare, NULL), -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_uring_submit: ");
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static struct weir_sim *the_world;

static void run_it(struct weir_op *op, int64_t res)
{
	rec_done(op, res);
	assert_int_equal(weir_sim_run(the_world, 1, 1), -EBUSY);
}

static void a_callback_in_a_turn_from_outside_does_not_run_the_world(
	void **state)
{
	struct weir_reactor *r;
	struct rec rec;

	(void)state;
	assert_int_equal(weir_sim_create(&the_world, 0, NULL), 0);
	r = reactor_in(the_world);
	rec_init(&rec);
	rec.op.fn = run_it;
	assert_int_equal(weir_defer(r, &rec.op), 0);
	assert_int_equal(weir_reactor_turn(r, 0), 1);
	assert_int_equal(rec.calls, 1);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(the_world), 0);
}

static struct weir_sim_turns turns_of(const struct weir_reactor *r)
{
	struct weir_sim_turns turns = { .size = sizeof(turns) };

	assert_int_equal(weir_sim_turns(r, &turns), 0);
	return turns;
}

static void see_turn(struct weir_op *op, int64_t res)
{
	struct weir_sim_turns *turns = op->data;

	assert_int_equal(res, 0);
	*turns = turns_of(op->reactor);
}

static void turns_of_a_reactor_say_since_when_it_could_have_had_the_last(
	void **state)
{
	struct weir_sim_turns seen = { .size = sizeof(seen) }, after;
	struct weir_reactor *r;
	struct weir_op op;

	(void)state;
	assert_int_equal(weir_sim_create(&the_world, 0, NULL), 0);
	r = reactor_in(the_world);
	assert_int_equal(turns_of(r).turns, 0);
	weir_op_init(&op, see_turn);
	op.data = &seen;
	for (unsigned int i = 1; i < 4; i++) {
		uint64_t begun = weir_sim_now(the_world);

		assert_int_equal(weir_defer(r, &op), 0);
		assert_int_equal(weir_sim_run(the_world, WEIR_FOREVER, 0), 0);
		assert_int_equal(seen.turns, i);
		assert_int_equal(seen.whole, i - 1);
		assert_true(seen.free_ns ? seen.free_ns > begun : i == 1);
		assert_int_equal(seen.target_ns,
				 seen.free_ns ? seen.free_ns : begun);
		after = turns_of(r);
		assert_int_equal(after.turns, i);
		assert_int_equal(after.whole, i);
		assert_int_equal(after.whole_ns, weir_sim_now(the_world));
		assert_int_equal(after.whole_before, i - 1);
	}
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(the_world), 0);
}

static void a_turn_that_leaves_something_is_not_whole(void **state)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts), .turn_max = 1 };
	struct weir_reactor *r;
	struct rec recs[2];

	(void)state;
	assert_int_equal(weir_sim_create(&the_world, 0, NULL), 0);
	opts.sim = the_world;
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	for (unsigned int i = 0; i < 2; i++) {
		rec_init(&recs[i]);
		assert_int_equal(weir_defer(r, &recs[i].op), 0);
	}
	assert_int_equal(weir_sim_run(the_world, WEIR_FOREVER, 0), 0);
	assert_int_equal(turns_of(r).turns, 2);
	assert_int_equal(turns_of(r).whole, 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(the_world), 0);
}

static void a_clock_that_jumps_tells_where_it_was_to_go(void **state)
{
	struct weir_sim_opts opts = {
		.size = sizeof(opts),
		.faults = UINT64_C(1) << WEIR_SIM_CLOCK,
		.rate = 1,
	};
	uint64_t due;
	struct weir_reactor *r;
	struct rec rec;

	(void)state;
	assert_int_equal(weir_sim_create(&the_world, 0, &opts), 0);
	r = reactor_in(the_world);
	rec_init(&rec);
	due = weir_sim_now(the_world) + WEIR_SEC;
	assert_int_equal(weir_sleep_until(r, &rec.op, due), 0);
	while (!turns_of(r).turns)
		assert_int_equal(weir_sim_run(the_world, WEIR_FOREVER, 1), 1);
	assert_true(turns_of(r).target_ns < weir_sim_now(the_world));
	assert_true(turns_of(r).target_ns < due + 16384);
	assert_int_equal(weir_sim_run(the_world, WEIR_FOREVER, 0), 0);
	assert_int_equal(rec.calls, 1);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(the_world), 0);
}

static void a_reactor_in_no_world_has_no_turns_of_one(void **state)
{
	struct weir_sim_turns turns = { .size = sizeof(turns) };
	struct weir_reactor *r;

	(void)state;
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	assert_int_equal(weir_sim_turns(r, &turns), -EINVAL);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

static const struct harness_case cases[] = {
	CASE(turns_of_a_reactor_say_since_when_it_could_have_had_the_last),
	CASE(a_turn_that_leaves_something_is_not_whole),
	CASE(a_clock_that_jumps_tells_where_it_was_to_go),
	CASE(a_reactor_in_no_world_has_no_turns_of_one),
	CASE(program_in_a_world_happens_once),
	CASE(time_jumps_to_what_is_next),
	CASE(a_run_ends_after_so_many_events),
	CASE(a_seed_is_a_run_and_another_is_another),
	CASE(the_order_of_what_is_due_together_is_drawn),
	CASE(a_reactor_can_be_run_alone),
	CASE(post_of_another_thread_is_refused),
	CASE(a_world_with_reactors_is_not_destroyed),
	CASE(a_callback_in_a_turn_from_outside_does_not_run_the_world),
	CASE(a_real_descriptor_is_not_open_in_a_world),
	CASE(calls_that_are_not_simulated_say_why),
	CASE(world_without_work_lets_time_pass),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
