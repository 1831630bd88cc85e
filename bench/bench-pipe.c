/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Readiness of many descriptors: some of N pipes have a byte in them at any
 * time.  Each event reads it and writes one into another pipe, at random.
 *
 * The watchers are set up outside the measurement, and taken down after it, so
 * that at any time each pipe is watched by one loop only.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/watch.h>

#ifdef HAVE_LIBEV
#include <ev.h>
#endif
#ifdef HAVE_LIBUV
#include <uv.h>
#endif

#include "bench/bench.h"

#define PIPES_MAX 9900	/* Fits into the usual 20,000 descriptors. */

static int rd[PIPES_MAX], wr[PIPES_MAX];
static int n_pipes;
static uint64_t left, pending, seed = 0x2545f4914f6cdd1d;

/*
 * What each event does, in each loop: read what is there, usually one byte, and
 * pass on as many.  A short read says that the pipe is empty, which
 * is what users of edges must see.  Returns false at the end.
 */
static bool on_byte(int fd)
{
	char c[16];
	ssize_t n = read(fd, c, sizeof(c));
	int to;

	for (; n > 0; n--) {
		if (!left) {
			if (!--pending)
				return false;
			continue;
		}
		left--;
		to = (int)(bench_random(&seed) % (uint64_t)n_pipes);
		if (write(wr[to], c, 1) != 1)
			bench_die("write to a pipe", errno);
	}
	return true;
}

struct peer {
	const char *name;
	bool (*open)(const struct peer *p);
	void (*watch)(int n);
	void (*run)(void);
	void (*unwatch)(int n);
	uint32_t how;
};

/* epoll */

static int epfd;

static bool ep_begin(const struct peer *p)
{
	(void)p;
	epfd = epoll_create1(EPOLL_CLOEXEC);
	return epfd >= 0;
}

static void ep_watch(int n)
{
	struct epoll_event e = { .events = EPOLLIN };

	for (int i = 0; i < n; i++) {
		e.data.fd = rd[i];
		bench_must(epoll_ctl(epfd, EPOLL_CTL_ADD, rd[i], &e), "epoll");
	}
}

static void ep_unwatch(int n)
{
	for (int i = 0; i < n; i++)
		epoll_ctl(epfd, EPOLL_CTL_DEL, rd[i], NULL);
}

static void ep_run(void)
{
	struct epoll_event e[256];
	bool going = true;
	int n;

	while (going) {
		n = epoll_wait(epfd, e, 256, -1);
		for (int i = 0; i < n; i++)
			going &= on_byte(e[i].data.fd);
	}
}

/* weir: two backends, and one variant that asks for edges */

static struct weir_reactor *reactors[3];
static struct weir_reactor *reactor;
static struct weir_watch *watches[PIPES_MAX];
static uint32_t weir_events;

static void on_weir(struct weir_watch *watch, uint32_t events, void *arg)
{
	(void)watch;
	(void)events;
	if (!on_byte((int)(intptr_t)arg))
		weir_reactor_break(reactor);
}

static bool weir_begin(const struct peer *p)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = p->how,
	};

	return !weir_reactor_create(&reactors[p->how], &opts);
}

static void weir_watch_all(int n)
{
	for (int i = 0; i < n; i++)
		bench_must(weir_watch_create(&watches[i], reactor, rd[i],
					     weir_events, on_weir,
					     (void *)(intptr_t)rd[i]),
			   "weir_watch_create");
}

static void weir_uring_watch(int n)
{
	reactor = reactors[WEIR_BACKEND_URING];
	weir_events = WEIR_READABLE;
	weir_watch_all(n);
}

static void weir_edge_watch(int n)
{
	reactor = reactors[WEIR_BACKEND_URING];
	weir_events = WEIR_READABLE | WEIR_EDGE;
	weir_watch_all(n);
}

static void weir_ev_watch(int n)
{
	reactor = reactors[WEIR_BACKEND_EV];
	weir_events = WEIR_READABLE;
	weir_watch_all(n);
}

static void weir_run(void)
{
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
}

static void weir_unwatch(int n)
{
	for (int i = 0; i < n; i++)
		weir_watch_destroy(watches[i]);
	while (weir_reactor_turn(reactor, 0) > 0)
		;
}

/* libev */

#ifdef HAVE_LIBEV
static struct ev_loop *loop;
static ev_io ev_ios[PIPES_MAX];

static void on_ev(struct ev_loop *l, ev_io *io, int events)
{
	(void)events;
	if (!on_byte(io->fd))
		ev_break(l, EVBREAK_ALL);
}

static bool ev_begin(const struct peer *p)
{
	(void)p;
	loop = ev_loop_new(EVBACKEND_EPOLL);
	return loop != NULL;
}

static void ev_watch(int n)
{
	for (int i = 0; i < n; i++) {
		ev_io_init(&ev_ios[i], on_ev, rd[i], EV_READ);
		ev_io_start(loop, &ev_ios[i]);
	}
	ev_run(loop, EVRUN_NOWAIT);
}

static void ev_run_loop(void)
{
	ev_run(loop, 0);
}

static void ev_unwatch(int n)
{
	for (int i = 0; i < n; i++)
		ev_io_stop(loop, &ev_ios[i]);
	ev_run(loop, EVRUN_NOWAIT);
}
#endif

/* libuv */

#ifdef HAVE_LIBUV
static uv_loop_t uv;
static uv_poll_t uv_polls[PIPES_MAX];

static void on_uv(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	if (!on_byte((int)(intptr_t)poll->data))
		uv_stop(&uv);
}

static bool uv_begin(const struct peer *p)
{
	(void)p;
	return uv_loop_init(&uv) == 0;
}

static void uv_watch(int n)
{
	for (int i = 0; i < n; i++) {
		bench_must(uv_poll_init(&uv, &uv_polls[i], rd[i]), "uv_poll");
		uv_polls[i].data = (void *)(intptr_t)rd[i];
		uv_poll_start(&uv_polls[i], UV_READABLE, on_uv);
	}
	uv_run(&uv, UV_RUN_NOWAIT);
}

static void uv_run_loop(void)
{
	uv_run(&uv, UV_RUN_DEFAULT);
}

static void uv_unwatch(int n)
{
	for (int i = 0; i < n; i++)
		uv_close((uv_handle_t *)&uv_polls[i], NULL);
	uv_run(&uv, UV_RUN_DEFAULT);
}
#endif

static const struct peer peers[] = {
	{ "epoll", ep_begin, ep_watch, ep_run, ep_unwatch, 0 },
	{ "weir uring", weir_begin, weir_uring_watch, weir_run, weir_unwatch,
	  WEIR_BACKEND_URING },
	{ "weir edge", weir_begin, weir_edge_watch, weir_run, weir_unwatch,
	  WEIR_BACKEND_URING },
	{ "weir ev", weir_begin, weir_ev_watch, weir_run, weir_unwatch,
	  WEIR_BACKEND_EV },
#ifdef HAVE_LIBEV
	{ "libev", ev_begin, ev_watch, ev_run_loop, ev_unwatch, 0 },
#endif
#ifdef HAVE_LIBUV
	{ "libuv", uv_begin, uv_watch, uv_run_loop, uv_unwatch, 0 },
#endif
};

static bool usable[ARRAY_SIZE(peers)];

static void open_all(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
		if (peers[i].how && reactors[peers[i].how]) {
			usable[i] = true;
			continue;
		}
		usable[i] = peers[i].open(&peers[i]);
		if (!usable[i])
			bench_note("%s is not there: %s", peers[i].name,
				   weir_why());
	}
}

static double measure(const struct peer *p, int active, uint64_t events)
{
	uint64_t begun;

	p->watch(n_pipes);
	/* The first bytes; while they go round, none is added or lost. */
	pending = (uint64_t)active;
	left = events;
	for (int i = 0; i < active; i++)
		if (write(wr[i * (n_pipes / active)], "x", 1) != 1)
			bench_die("write to a pipe", errno);
	begun = bench_thread_ns();
	p->run();
	begun = bench_thread_ns() - begun;
	p->unwatch(n_pipes);
	return (double)begun / (double)(events + (uint64_t)active);
}

static void one_size(struct bench *b, int n, int active)
{
	uint64_t events = b->quick ? 2000 : 100000;
	char what[48];

	n_pipes = n;
	snprintf(what, sizeof(what), "%d pipes, %d active", n, active);
	for (bench_begin(b); bench_next(b); )
		for (size_t i = 0; i < ARRAY_SIZE(peers); i++)
			if (usable[i] && bench_wants(b, peers[i].name))
				bench_add(b, what, peers[i].name, "ns/event",
					  measure(&peers[i], active, events));
}

static int make_pipes(int wanted)
{
	unsigned int capacity =
		bench_need_fds((unsigned int)(2 * wanted) + 100);
	int n = wanted, fd[2];

	if (capacity < (unsigned int)(2 * wanted) + 100)
		n = ((int)capacity - 100) / 2;
	for (int i = 0; i < n; i++) {
		bench_must(pipe2(fd, O_NONBLOCK | O_CLOEXEC), "pipe");
		rd[i] = fd[0];
		wr[i] = fd[1];
	}
	if (n < wanted)
		bench_note("space for %d pipes only (ulimit -n)", n);
	return n;
}

int main(int argc, char **argv)
{
	static const int sizes[][2] = {
		{ 100, 1 }, { 100, 10 }, { 1000, 100 }, { PIPES_MAX, 100 },
	};
	static struct bench b;
	int most;

	bench_init(&b, "pipe", argc, argv);
	bench_pin(0);
	most = make_pipes(b.quick ? 1000 : PIPES_MAX);
	open_all();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (sizes[i][0] <= most)
			one_size(&b, sizes[i][0], sizes[i][1]);
	for (size_t i = 1; i <= WEIR_BACKEND_EV; i++)
		if (reactors[i])
			bench_must(weir_reactor_destroy(reactors[i]), "destroy");
	return bench_done(&b);
}
