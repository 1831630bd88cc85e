/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Timers: what it costs to set, move, stop and expire one of many.
 *
 * Deadlines are random, and so is the order in which timers are moved and
 * stopped.  "re-arm" moves each to another random time, sooner or later;
 * "extend" to one that is later than all others, as a connection's idle timeout
 * is moved with each request.  To expire, all are set within 50 ms, slept over,
 * and delivered in one go.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include <weir/reactor.h>
#include <weir/timer.h>

#ifdef HAVE_LIBEV
#include <ev.h>
#endif
#ifdef HAVE_LIBUV
#include <uv.h>
#endif

#include "bench/bench.h"

#define N_MAX 1000000
#define FAR_MS 10000	/* Deadlines that do not come while we measure. */

/* Delays in milliseconds and an order, the same for all. */
static uint32_t delay[N_MAX];
static uint32_t order[N_MAX];
static uint64_t fired;

struct peer {
	const char *name;
	bool (*open)(void);
	void (*make)(int n);	/* n timers, unset; before the clock runs */
	void (*set)(uint32_t i, uint32_t ms);
	void (*move)(uint32_t i, uint32_t ms);
	void (*stop)(uint32_t i);
	void (*now)(void);	/* Take a new look at the clock. */
	void (*turn)(void);	/* Deliver what is due, without waiting. */
	void (*unmake)(int n);
};

/* weir */

static struct weir_reactor *reactor;
static struct weir_timer *weir_timers[N_MAX];
static uint64_t weir_base;

static void on_weir(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer;
	(void)n;
	(void)arg;
	fired++;
}

static bool weir_open_loop(void)
{
	return weir_reactor_create(&reactor, NULL) == 0;
}

static void weir_make(int n)
{
	for (int i = 0; i < n; i++)
		bench_must(weir_timer_create(&weir_timers[i], reactor, on_weir,
					     NULL), "weir_timer_create");
}

static void weir_set(uint32_t i, uint32_t ms)
{
	weir_timer_start(weir_timers[i], weir_base + ms * WEIR_MSEC, 0);
}

static void weir_unset(uint32_t i)
{
	weir_timer_stop(weir_timers[i]);
}

static void weir_poll_hook(void)
{
	weir_base = weir_reactor_now(reactor);
}

static void weir_pass(void)
{
	bench_must(weir_reactor_turn(reactor, 0), "weir_reactor_turn");
}

static void weir_unmake(int n)
{
	for (int i = 0; i < n; i++)
		weir_timer_destroy(weir_timers[i]);
}

static const struct peer peer_weir = {
	"weir",     weir_open_loop, weir_make, weir_set,    weir_set,
	weir_unset, weir_poll_hook, weir_pass, weir_unmake,
};

/* libev */

#ifdef HAVE_LIBEV
static struct ev_loop *loop;
static ev_timer *ev_timers;

static void on_ev(struct ev_loop *l, ev_timer *timer, int events)
{
	(void)l;
	(void)timer;
	(void)events;
	fired++;
}

static bool ev_begin(void)
{
	loop = ev_loop_new(EVFLAG_AUTO);
	return loop != NULL;
}

static void ev_make(int n)
{
	ev_timers = calloc((size_t)n, sizeof(*ev_timers));
	for (int i = 0; i < n; i++)
		ev_timer_init(&ev_timers[i], on_ev, 0., 0.);
}

static void ev_put(uint32_t i, uint32_t ms)
{
	ev_timer_set(&ev_timers[i], ms / 1000., 0.);
	ev_timer_start(loop, &ev_timers[i]);
}

/* ev_timer_again() is libev's fast way to move one. */
static void ev_move(uint32_t i, uint32_t ms)
{
	ev_timers[i].repeat = ms / 1000.;
	ev_timer_again(loop, &ev_timers[i]);
}

static void ev_unset(uint32_t i)
{
	ev_timer_stop(loop, &ev_timers[i]);
}

static void ev_look(void)
{
	ev_now_update(loop);
}

static void ev_pass(void)
{
	ev_run(loop, EVRUN_NOWAIT);
}

static void ev_unmake(int n)
{
	(void)n;
	free(ev_timers);
}

static const struct peer peer_ev = {
	"libev", ev_begin, ev_make, ev_put, ev_move, ev_unset, ev_look, ev_pass,
	ev_unmake,
};
#endif

/* libuv */

#ifdef HAVE_LIBUV
static uv_loop_t uv;
static uv_timer_t *uv_timers;

static void on_uv(uv_timer_t *timer)
{
	(void)timer;
	fired++;
}

static bool uv_begin(void)
{
	return uv_loop_init(&uv) == 0;
}

static void uv_make(int n)
{
	uv_timers = calloc((size_t)n, sizeof(*uv_timers));
	for (int i = 0; i < n; i++)
		uv_timer_init(&uv, &uv_timers[i]);
}

static void uv_set(uint32_t i, uint32_t ms)
{
	uv_timer_start(&uv_timers[i], on_uv, ms, 0);
}

static void uv_unset(uint32_t i)
{
	uv_timer_stop(&uv_timers[i]);
}

static void uv_look(void)
{
	uv_update_time(&uv);
}

static void uv_pass(void)
{
	uv_run(&uv, UV_RUN_NOWAIT);
}

static void uv_unmake(int n)
{
	for (int i = 0; i < n; i++)
		uv_close((uv_handle_t *)&uv_timers[i], NULL);
	uv_run(&uv, UV_RUN_DEFAULT);
	free(uv_timers);
}

static const struct peer peer_uv = {
	"libuv", uv_begin, uv_make, uv_set, uv_set, uv_unset, uv_look, uv_pass,
	uv_unmake,
};
#endif

static const struct peer *const peers[] = {
	&peer_weir,
#ifdef HAVE_LIBEV
	&peer_ev,
#endif
#ifdef HAVE_LIBUV
	&peer_uv,
#endif
};

static void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

static void add(struct bench *b, const char *op, int n, const struct peer *p,
		uint64_t begun)
{
	char what[48];

	snprintf(what, sizeof(what), "%s, %d timers", op, n);
	bench_add(b, what, p->name, "ns/op",
		  (double)(bench_thread_ns() - begun) / n);
}

static void far(struct bench *b, const struct peer *p, int n)
{
	uint64_t begun;

	p->now();
	begun = bench_thread_ns();
	for (int i = 0; i < n; i++)
		p->set((uint32_t)i, FAR_MS + delay[i]);
	add(b, "insert", n, p, begun);

	begun = bench_thread_ns();
	for (int i = 0; i < n; i++)
		p->move(order[i], FAR_MS + delay[n - 1 - i]);
	add(b, "re-arm", n, p, begun);

	begun = bench_thread_ns();
	for (int i = 0; i < n; i++)
		p->move(order[i], 8 * FAR_MS + (uint32_t)i / 100);
	add(b, "extend", n, p, begun);

	begun = bench_thread_ns();
	for (int i = 0; i < n; i++)
		p->stop(order[i]);
	add(b, "cancel", n, p, begun);
}

/* All due within 50 ms, and not before the last is set. */
static void near(struct bench *b, const struct peer *p, int n)
{
	uint32_t lead = 10 + (uint32_t)(n / 2000);
	uint64_t begun;

	fired = 0;
	p->now();
	for (int i = 0; i < n; i++)
		p->set((uint32_t)i, lead + delay[i] % 50);
	sleep_ms((long)lead + 55);
	begun = bench_thread_ns();
	while (fired < (uint64_t)n)
		p->turn();
	add(b, "expire", n, p, begun);
}

static void one_size(struct bench *b, int n)
{
	uint64_t seed = 0x9e3779b97f4a7c15;

	for (int i = 0; i < n; i++) {
		delay[i] = (uint32_t)(bench_random(&seed) % 60000);
		order[i] = (uint32_t)i;
	}
	for (int i = n - 1; i > 0; i--) {
		int k = (int)(bench_random(&seed) % (uint64_t)(i + 1));
		uint32_t t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
		if (!bench_wants(b, peers[i]->name))
			continue;
		peers[i]->make(n);
		far(b, peers[i], n);
		near(b, peers[i], n);
		peers[i]->unmake(n);
	}
}

static void goals(struct bench *b)
{
	static const char *const ops[] = {
		"insert", "re-arm", "extend", "cancel", "expire",
	};
	char what[48];

	bench_goal(b, "timer re-arm at 1e5: libev takes at least 3 x",
		   "re-arm, 100000 timers", "libev", "weir", BENCH_AT_LEAST, 3);
	bench_goal(b, "timer re-arm at 1e5: libuv takes at least 12 x",
		   "re-arm, 100000 timers", "libuv", "weir", BENCH_AT_LEAST,
		   12);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		for (int n = 1000; n <= N_MAX; n *= 10) {
			snprintf(what, sizeof(what), "%s, %d timers", ops[i],
				 n);
			bench_goal(b, "no timer operation slower than libev",
				   what, "weir", "libev", BENCH_AT_MOST, 1);
		}
	}
}

int main(int argc, char **argv)
{
	static const uint64_t quick[] = { 1000, 10000 };
	static const uint64_t many[] = { 1000, 10000, 100000, N_MAX };
	static struct bench b;

	bench_init_with(&b, "timer", BENCH_DEPTHS, argc, argv);
	bench_pin(0);
	if (b.quick)
		bench_default(&b.depths, quick, ARRAY_SIZE(quick));
	bench_default(&b.depths, many, ARRAY_SIZE(many));
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++)
		if (!peers[i]->open())
			bench_die(peers[i]->name, 0);
#ifndef HAVE_LIBEV
	bench_note("libev is not installed: skipped");
#endif
#ifndef HAVE_LIBUV
	bench_note("libuv is not installed: skipped");
#endif
	for (int i = 0; i < b.depths.n; i++) {
		if (b.depths.value[i] > N_MAX)
			bench_die("--depth", E2BIG);
		for (bench_begin(&b); bench_next(&b); )
			one_size(&b, (int)b.depths.value[i]);
	}
	goals(&b);
	bench_must(weir_reactor_destroy(reactor), "destroy");
	return bench_done(&b);
}
