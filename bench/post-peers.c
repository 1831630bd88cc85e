/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages between threads, of weir and of its peers; see the header. */

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/reactor.h>

#ifdef HAVE_LIBEV
#include <ev.h>
#endif
#ifdef HAVE_LIBUV
#include <uv.h>
#endif

#include "bench/bench.h"
#include "bench/post-peers.h"

#define MSGS 200000	/* May be in flight at once. */
#define SAY_EVERY 1000	/* The loop says how far it is. */

struct msg {
	struct msg *next;
	struct side *to;
};

/* One loop, in its thread. */
struct side {
	const struct post_peer *peer;
	struct side *other;
	unsigned int cpu;
	pthread_t thread;
	pthread_barrier_t *ready;

	bool echo;		/* Send each back. */
	uint64_t got, sent, wanted;
	int window;		/* To begin with; 0: another side begins. */
	uint64_t begun_ns, ended_ns;
	bool over, failed;

	_Atomic(struct msg *) inbox;	/* For peers without messages. */
	struct weir_reactor *reactor;
	int epfd, evfd;
	struct io_uring ring;
#ifdef HAVE_LIBEV
	struct ev_loop *loop;
	ev_async async;
#endif
#ifdef HAVE_LIBUV
	uv_loop_t uv;
	uv_async_t uv_async;
#endif
	_Alignas(64) _Atomic uint64_t said;	/* How many it has got. */
};

static struct msg msgs[MSGS];

static void send_to(struct side *to, struct msg *m)
{
	m->to = to;
	to->peer->send(to, m);
}

static void take(struct side *s, struct msg *m)
{
	if (!(++s->got % SAY_EVERY))
		atomic_store_explicit(&s->said, s->got, memory_order_release);
	if (s->echo) {
		send_to(s->other, m);
	} else if (s->sent < s->wanted) {
		s->sent++;
		send_to(s->other, m);
	}
	if (s->got != s->wanted)
		return;
	s->ended_ns = bench_wall_ns();
	s->over = true;
	s->peer->end(s);
}

/* Returns whether the list was empty, and a wake-up is due. */
static bool push(struct side *to, struct msg *m)
{
	struct msg *top = atomic_load_explicit(&to->inbox,
					       memory_order_relaxed);

	/* Once it is in, it is theirs: look at it no more. */
	do {
		m->next = top;
	} while (!atomic_compare_exchange_weak(&to->inbox, &top, m));
	return !top;
}

static void take_all(struct side *s)
{
	struct msg *m = atomic_exchange(&s->inbox, NULL), *next;

	for (; m; m = next) {
		next = m->next;
		take(s, m);
	}
}

/* weir */

static bool weir_begin(struct side *s)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = s->peer->backend,
	};

	return !weir_reactor_create(&s->reactor, &opts);
}

static void on_post(void *arg)
{
	struct msg *m = arg;

	take(m->to, m);
}

static void weir_send_msg(struct side *to, struct msg *m)
{
	int err;

	while ((err = weir_post(to->reactor, on_post, m)) == -EAGAIN)
		sched_yield();
	bench_must(err, "weir_post");
}

static void weir_run(struct side *s)
{
	bench_must(weir_reactor_run(s->reactor), "weir_reactor_run");
}

static void weir_end(struct side *s)
{
	weir_reactor_break(s->reactor);
}

static void weir_close_loop(struct side *s)
{
	bench_must(weir_reactor_destroy(s->reactor), "destroy");
}

/* epoll and an eventfd */

static bool ep_begin(struct side *s)
{
	struct epoll_event e = { .events = EPOLLIN };

	s->epfd = epoll_create1(EPOLL_CLOEXEC);
	s->evfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return !epoll_ctl(s->epfd, EPOLL_CTL_ADD, s->evfd, &e);
}

static void ep_send(struct side *to, struct msg *m)
{
	if (push(to, m) && eventfd_write(to->evfd, 1))
		bench_die("eventfd", errno);
}

static void ep_run(struct side *s)
{
	struct epoll_event e;
	eventfd_t n;

	while (!s->over) {
		epoll_wait(s->epfd, &e, 1, -1);
		eventfd_read(s->evfd, &n);
		take_all(s);
	}
}

static void ep_end(struct side *s)
{
	(void)s;
}

static void ep_close(struct side *s)
{
	close(s->epfd);
	close(s->evfd);
}

/* libev */

#ifdef HAVE_LIBEV
static void on_ev(struct ev_loop *loop, ev_async *async, int events)
{
	(void)loop;
	(void)events;
	take_all(async->data);
}

static bool ev_begin(struct side *s)
{
	s->loop = ev_loop_new(EVFLAG_AUTO);
	ev_async_init(&s->async, on_ev);
	s->async.data = s;
	ev_async_start(s->loop, &s->async);
	return true;
}

static void ev_send(struct side *to, struct msg *m)
{
	push(to, m);
	ev_async_send(to->loop, &to->async);
}

static void ev_run_loop(struct side *s)
{
	ev_run(s->loop, 0);
}

static void ev_end(struct side *s)
{
	ev_break(s->loop, EVBREAK_ALL);
}

static void ev_close(struct side *s)
{
	ev_async_stop(s->loop, &s->async);
	ev_loop_destroy(s->loop);
}
#endif

/* libuv */

#ifdef HAVE_LIBUV
static void on_uv(uv_async_t *async)
{
	take_all(async->data);
}

static bool uv_begin(struct side *s)
{
	uv_loop_init(&s->uv);
	s->uv_async.data = s;
	return !uv_async_init(&s->uv, &s->uv_async, on_uv);
}

static void uv_send(struct side *to, struct msg *m)
{
	push(to, m);
	uv_async_send(&to->uv_async);
}

static void uv_run_loop(struct side *s)
{
	uv_run(&s->uv, UV_RUN_DEFAULT);
}

static void uv_end(struct side *s)
{
	uv_stop(&s->uv);
}

static void uv_close_loop(struct side *s)
{
	uv_close((uv_handle_t *)&s->uv_async, NULL);
	uv_run(&s->uv, UV_RUN_DEFAULT);
	uv_loop_close(&s->uv);
}
#endif

/*
 * io_uring's messages between rings, which carry what they are about.  The
 * sender has a ring of its own for them, and submits when it has a batch, or
 * nothing else to do.
 */

#define RING_BATCH 32

static _Thread_local struct io_uring *ring_here, ring_foreign;
static _Thread_local unsigned int ring_batch;

static bool ring_make(struct io_uring *ring)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_CQSIZE |
			 IORING_SETUP_DEFER_TASKRUN,
		.cq_entries = 32768,
	};

	return !io_uring_queue_init_params(RING_BATCH, ring, &p);
}

static bool ring_begin(struct side *s)
{
	ring_here = &s->ring;
	ring_batch = 0;
	return ring_make(&s->ring);
}

static void ring_flush(void)
{
	io_uring_submit(ring_here);
	ring_batch = 0;
}

/* No message of its own for what was sent well. */
static void ring_send(struct side *to, struct msg *m)
{
	struct io_uring_sqe *sqe;

	if (!ring_here && ring_make(&ring_foreign))
		ring_here = &ring_foreign;
	sqe = io_uring_get_sqe(ring_here);
	io_uring_prep_msg_ring(sqe, to->ring.ring_fd, 0, (uintptr_t)m, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	if (++ring_batch == RING_BATCH)
		ring_flush();
}

static void ring_take(struct side *s)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&s->ring, head, cqe) {
		n++;
		if (cqe->user_data)
			take(s, (struct msg *)(uintptr_t)cqe->user_data);
	}
	io_uring_cq_advance(&s->ring, n);
}

static void ring_run(struct side *s)
{
	while (!s->over) {
		io_uring_submit_and_wait(&s->ring, 1);
		ring_batch = 0;
		ring_take(s);
	}
}

/* What goes back last is not left behind. */
static void ring_end(struct side *s)
{
	(void)s;
	ring_flush();
}

/* A thread that has just sent. */
static void ring_foreign_end(void)
{
	ring_flush();
	io_uring_queue_exit(&ring_foreign);
	ring_here = NULL;
}

static void ring_close(struct side *s)
{
	io_uring_queue_exit(&s->ring);
	ring_here = NULL;
}

const struct post_peer post_peers[] = {
	{ "epoll+eventfd", 0, ep_begin, ep_send, ep_run, ep_end, ep_close,
	  NULL },
	{ "weir uring", WEIR_BACKEND_URING, weir_begin, weir_send_msg, weir_run,
	  weir_end, weir_close_loop, NULL },
	{ "weir ev", WEIR_BACKEND_EV, weir_begin, weir_send_msg, weir_run,
	  weir_end, weir_close_loop, NULL },
#ifdef HAVE_LIBEV
	{ "libev", 0, ev_begin, ev_send, ev_run_loop, ev_end, ev_close,
	  NULL },
#endif
	{ "MSG_RING", 0, ring_begin, ring_send, ring_run, ring_end,
	  ring_close, ring_foreign_end },
#ifdef HAVE_LIBUV
	{ "libuv", 0, uv_begin, uv_send, uv_run_loop, uv_end, uv_close_loop,
	  NULL },
#endif
};

const size_t n_post_peers = ARRAY_SIZE(post_peers);

const struct post_peer *post_peer(const char *name)
{
	for (size_t i = 0; i < n_post_peers; i++)
		if (!strcmp(post_peers[i].name, name))
			return &post_peers[i];
	return NULL;
}

/* Loops are closed when no thread sends to them any more: the barriers. */
static void *side_main(void *arg)
{
	struct side *s = arg;

	bench_pin(s->cpu);
	s->failed = !s->peer->open(s);
	pthread_barrier_wait(s->ready);
	if (!s->failed && !(s->other && s->other->failed)) {
		s->begun_ns = bench_wall_ns();
		for (int i = 0; i < s->window; i++) {
			s->sent++;
			send_to(s->other, &msgs[i]);
		}
		s->peer->run(s);
	}
	pthread_barrier_wait(s->ready);
	if (!s->failed)
		s->peer->close(s);
	return NULL;
}

static void side_init(struct side *s, const struct post_peer *p,
		      unsigned int cpu, pthread_barrier_t *ready,
		      uint64_t wanted)
{
	*s = (struct side){
		.peer = p, .cpu = cpu, .ready = ready, .wanted = wanted,
	};
	s->sent = wanted;
	atomic_init(&s->inbox, NULL);
	atomic_init(&s->said, 0);
}

static void side_start(struct side *s)
{
	bench_must(-pthread_create(&s->thread, NULL, side_main, s), "thread");
}

/* A message is sent again when it has come. */
static void flood(struct side *to, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		while (!(i % SAY_EVERY) &&
		       i + SAY_EVERY > MSGS + atomic_load(&to->said))
			sched_yield();
		send_to(to, &msgs[i % MSGS]);
	}
	if (to->peer->flush)
		to->peer->flush();
}

double post_flood(const struct post_peer *p, uint64_t n)
{
	static struct side s;
	pthread_barrier_t ready;
	uint64_t begun = 0;

	bench_pin(0);
	pthread_barrier_init(&ready, NULL, 2);
	side_init(&s, p, 1, &ready, n);
	side_start(&s);
	pthread_barrier_wait(&ready);
	if (!s.failed) {
		begun = bench_wall_ns();
		flood(&s, n);
	}
	pthread_barrier_wait(&ready);
	pthread_join(s.thread, NULL);
	pthread_barrier_destroy(&ready);
	bench_unpin();
	return s.failed ? __builtin_nan("")
			: (double)(s.ended_ns - begun) / (double)n;
}

double post_round_trip_on(const struct post_peer *p, unsigned int cpu,
			  int window, uint64_t n)
{
	static struct side a, b;
	pthread_barrier_t ready;

	pthread_barrier_init(&ready, NULL, 2);
	side_init(&a, p, 0, &ready, n);
	side_init(&b, p, cpu, &ready, n);
	a.other = &b;
	a.sent = 0;
	a.window = window;
	b.other = &a;
	b.echo = true;
	side_start(&a);
	side_start(&b);
	pthread_join(a.thread, NULL);
	pthread_join(b.thread, NULL);
	pthread_barrier_destroy(&ready);
	return a.failed || b.failed ? __builtin_nan("")
		: (double)(a.ended_ns - a.begun_ns) / (double)n;
}

double post_round_trip(const struct post_peer *p, int window, uint64_t n)
{
	return post_round_trip_on(p, 1, window, n);
}
