/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What a loop costs that has nothing to do: CPU time of the process, in percent
 * of one CPU, over some seconds of waiting.  "after work" waits right after a
 * busy time, when an adaptive loop expects more; "10 Hz" has a timer.
 *
 * "two cores" is a group of two, beside two loops on two threads: CPU time of
 * one of them, and how often it wakes up, as the kernel counts it.
 */

#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <weir/group.h>
#include <weir/reactor.h>
#include <weir/timer.h>

#ifdef HAVE_LIBEV
#include <ev.h>
#endif
#ifdef HAVE_LIBUV
#include <uv.h>
#endif

#include "bench/bench.h"

#define CORES 2

static uint64_t span_ns;

/* What all threads but this one have used, and how often they slept. */
struct used {
	double cpu_s;
	long sleeps;
};

static double cpu_s(const struct rusage *ru)
{
	return (double)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) +
	       (double)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec) / 1e6;
}

static struct used used_by_others(void)
{
	struct rusage all, own;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &own);
	return (struct used){ cpu_s(&all) - cpu_s(&own),
			      all.ru_nvcsw - own.ru_nvcsw };
}

static void pause_for(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / WEIR_SEC),
			       .tv_nsec = (long)(ns % WEIR_SEC) };

	nanosleep(&ts, NULL);
}

/* CORES threads idle; the first moments, in which they fall asleep, are not
 * counted. */
static void measure_cores(struct bench *b, const char *variant)
{
	double s = (double)span_ns / 1e9;
	struct used begun, now;

	pause_for(span_ns / 10);
	begun = used_by_others();
	pause_for(span_ns);
	now = used_by_others();
	bench_add(b, "two cores", variant, "% each",
		  fmax(0, now.cpu_s - begun.cpu_s) * 100 / s / CORES);
	bench_add(b, "two cores, wake-ups", variant, "per s each",
		  (double)(now.sleeps - begun.sleeps) / s / CORES);
}

/* weir */

static void weir_group_idle(struct bench *b, uint32_t backend,
			    const char *variant)
{
	struct weir_reactor_opts reactor = {
		.size = sizeof(reactor), .backend = backend,
	};
	struct weir_group_opts opts = {
		.size = sizeof(opts), .n_cores = CORES, .reactor = &reactor,
	};
	struct weir_group *group;

	if (!bench_wants(b, variant))
		return;
	bench_must(weir_group_create(&group, &opts), "weir_group_create");
	if (!weir_group_start(group)) {
		measure_cores(b, variant);
		weir_group_stop(group);
		bench_must(weir_group_run(group), "weir_group_run");
	}
	bench_must(weir_group_destroy(group), "weir_group_destroy");
}

struct weir_idle {
	struct weir_reactor *r;
	struct weir_op op;
	int left;
};

static void on_wake(void *arg)
{
	(void)arg;
}

static void on_tick(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer;
	(void)n;
	(void)arg;
}

static void on_nop(struct weir_op *op, int64_t res)
{
	struct weir_idle *idle = op->data;

	(void)res;
	if (idle->left--)
		bench_must(weir_nop(idle->r, op), "weir_nop");
}

static double cpu_of_wait(struct weir_reactor *r)
{
	uint64_t end = bench_wall_ns() + span_ns, now;
	uint64_t cpu = bench_process_ns();

	while ((now = bench_wall_ns()) < end)
		bench_must(weir_reactor_turn(r, end - now), "turn");
	return (double)(bench_process_ns() - cpu) * 100 / (double)span_ns;
}

static void weir_idle(struct bench *b, uint32_t backend, const char *variant)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend,
	};
	struct weir_idle idle = { .left = 100000 };
	struct weir_timer *timer;

	if (!bench_wants(b, variant))
		return;
	if (weir_reactor_create(&idle.r, &opts)) {
		bench_note("%s is not there: %s", variant, weir_why());
		return;
	}
	bench_add(b, "idle", variant, "%", cpu_of_wait(idle.r));

	weir_op_init(&idle.op, on_nop);
	idle.op.data = &idle;
	bench_must(weir_nop(idle.r, &idle.op), "weir_nop");
	while (idle.left > 0)
		bench_must(weir_reactor_turn(idle.r, WEIR_FOREVER), "turn");
	bench_must(weir_post(idle.r, on_wake, NULL), "weir_post");
	bench_add(b, "idle after work", variant, "%", cpu_of_wait(idle.r));

	bench_must(weir_timer_create(&timer, idle.r, on_tick, NULL), "timer");
	weir_timer_start(timer, weir_reactor_now(idle.r), 100 * WEIR_MSEC);
	bench_add(b, "idle but for 10 Hz", variant, "%", cpu_of_wait(idle.r));
	weir_timer_destroy(timer);
	bench_must(weir_reactor_destroy(idle.r), "destroy");
}

/* libev */

#ifdef HAVE_LIBEV
static void on_ev(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)timer;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

static void on_ev_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)timer;
	(void)events;
}

static double ev_wait(struct ev_loop *loop)
{
	ev_timer end;
	uint64_t cpu = bench_process_ns();

	ev_now_update(loop);
	ev_timer_init(&end, on_ev, (double)span_ns / 1e9, 0.);
	ev_timer_start(loop, &end);
	ev_run(loop, 0);
	return (double)(bench_process_ns() - cpu) * 100 / (double)span_ns;
}

static void libev_idle(struct bench *b)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	ev_timer tick;

	bench_add(b, "idle", "libev", "%", ev_wait(loop));
	ev_timer_init(&tick, on_ev_tick, 0.1, 0.1);
	ev_timer_start(loop, &tick);
	bench_add(b, "idle but for 10 Hz", "libev", "%", ev_wait(loop));
	ev_timer_stop(loop, &tick);
	ev_loop_destroy(loop);
}
#endif

/* libuv */

#ifdef HAVE_LIBUV
static void on_uv(uv_timer_t *timer)
{
	uv_stop(timer->loop);
}

static void on_uv_tick(uv_timer_t *timer)
{
	(void)timer;
}

static double uv_wait(uv_loop_t *loop)
{
	static uv_timer_t end;
	uint64_t cpu = bench_process_ns();

	uv_update_time(loop);
	uv_timer_init(loop, &end);
	uv_timer_start(&end, on_uv, span_ns / 1000000, 0);
	uv_run(loop, UV_RUN_DEFAULT);
	cpu = bench_process_ns() - cpu;
	uv_close((uv_handle_t *)&end, NULL);
	uv_run(loop, UV_RUN_NOWAIT);
	return (double)cpu * 100 / (double)span_ns;
}

static void libuv_idle(struct bench *b)
{
	static uv_timer_t tick;
	uv_loop_t loop;

	uv_loop_init(&loop);
	bench_add(b, "idle", "libuv", "%", uv_wait(&loop));
	uv_timer_init(&loop, &tick);
	uv_timer_start(&tick, on_uv_tick, 100, 100);
	bench_add(b, "idle but for 10 Hz", "libuv", "%", uv_wait(&loop));
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
}
#endif

#ifdef HAVE_LIBUV
struct uv_core {
	pthread_t thread;
	uv_loop_t loop;
	uv_async_t end;
};

static void on_uv_end(uv_async_t *end)
{
	uv_close((uv_handle_t *)end, NULL);
}

static void *run_uv(void *arg)
{
	uv_run(arg, UV_RUN_DEFAULT);
	return NULL;
}

static void libuv_cores_idle(struct bench *b)
{
	struct uv_core cores[CORES];

	for (int i = 0; i < CORES; i++) {
		uv_loop_init(&cores[i].loop);
		uv_async_init(&cores[i].loop, &cores[i].end, on_uv_end);
		bench_must(-pthread_create(&cores[i].thread, NULL, run_uv,
					   &cores[i].loop), "pthread_create");
	}
	measure_cores(b, "libuv");
	for (int i = 0; i < CORES; i++) {
		uv_async_send(&cores[i].end);
		pthread_join(cores[i].thread, NULL);
		uv_loop_close(&cores[i].loop);
	}
}
#endif

static void goals_of(struct bench *b, const char *variant)
{
	static const char *const cases[] = {
		"idle", "idle after work", "idle but for 10 Hz", "two cores",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		bench_goal(b, "idle loop: at most 0.5 % of a CPU", cases[i],
			   variant, NULL, BENCH_AT_MOST, 0.5);
	bench_goal(b, "idle core: at most one wake-up per second",
		   "two cores, wake-ups", variant, NULL, BENCH_AT_MOST, 1);
}

static void goals(struct bench *b)
{
	goals_of(b, "weir uring");
	goals_of(b, "weir ev");
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "idle", argc, argv);
	span_ns = b.quick ? 50 * WEIR_MSEC : WEIR_SEC;
	/* Others hardly matter for what is not running; save time. */
	b.reps = b.reps > 3 ? 3 : b.reps;
	b.noise_max = 2;
	b.reference = "libev";
	for (bench_begin(&b); bench_next(&b); ) {
		weir_idle(&b, WEIR_BACKEND_URING, "weir uring");
		weir_idle(&b, WEIR_BACKEND_EV, "weir ev");
		weir_group_idle(&b, WEIR_BACKEND_URING, "weir uring");
		weir_group_idle(&b, WEIR_BACKEND_EV, "weir ev");
#ifdef HAVE_LIBEV
		if (bench_wants(&b, "libev"))
			libev_idle(&b);
#endif
#ifdef HAVE_LIBUV
		if (bench_wants(&b, "libuv")) {
			libuv_idle(&b);
			libuv_cores_idle(&b);
		}
#endif
	}
	goals(&b);
	return bench_done(&b);
}
