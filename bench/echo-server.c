/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The same echo server on each loop.  All send what they received at once, with
 * one send for one receive; the peers with send(2), as their users do.  A
 * client here never has more in flight than fits a socket buffer.
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/socket.h>

#ifdef HAVE_LIBEV
#include <ev.h>
#endif
#ifdef HAVE_LIBUV
#include <uv.h>
#endif

#include "bench/bench.h"
#include "bench/echo.h"

static int accept_one(int fd)
{
	int c = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	int on = 1;

	if (c >= 0)
		setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return c;
}

/* Returns false at the end of the connection. */
static bool echo_once(int fd)
{
	static char buf[ECHO_BUF];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	if (n > 0)
		return send(fd, buf, (size_t)n, MSG_NOSIGNAL) == n;
	return n < 0 && errno == EAGAIN;
}

/* epoll */

/* Another thread's set, for every second connection; -1: there is none. */
static int epoll_helper = -1;

static int epoll_next(int own)
{
	static unsigned int n;

	return epoll_helper >= 0 && n++ % 2 ? epoll_helper : own;
}

/* @fd listens, or is -1. */
static void epoll_loop(int ep, int fd, int timeout)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd }, got[256];
	int n;

	if (fd >= 0)
		bench_must(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), "epoll_ctl");
	for (;;) {
		n = epoll_wait(ep, got, 256, timeout);
		for (int i = 0; i < n; i++) {
			if (got[i].data.fd != fd) {
				if (!echo_once(got[i].data.fd))
					close(got[i].data.fd);
				continue;
			}
			e.data.fd = accept_one(fd);
			if (e.data.fd >= 0)
				epoll_ctl(epoll_next(ep), EPOLL_CTL_ADD,
					  e.data.fd, &e);
		}
	}
}

static void serve_epoll(int fd)
{
	epoll_loop(epoll_create1(EPOLL_CLOEXEC), fd, -1);
}

static void *run_epoll_helper(void *arg)
{
	bench_pin(1);
	epoll_loop(epoll_helper, -1, -1);
	return arg;
}

/* What a second core brings to a server that shares nothing. */
static void serve_two_epolls(int fd)
{
	pthread_t thread;

	epoll_helper = epoll_create1(EPOLL_CLOEXEC);
	if (!pthread_create(&thread, NULL, run_epoll_helper, NULL))
		serve_epoll(fd);
}

/* Never sleeps: the most that spinning can bring, at the price of a CPU. */
static void serve_spinning(int fd)
{
	epoll_loop(epoll_create1(EPOLL_CLOEXEC), fd, 0);
}

/* weir */

/*
 * The next request may be delivered before the callback of the send that
 * answered the last, so buffers queue up: rarely more than one, and never more
 * than a client has requests in flight.
 */
#define QUEUE 16

struct conn {
	struct weir_op send;
	struct weir_receiver *rx;
	int fd;
	bool ended;
	uint32_t head, tail;
	struct {
		void *data;
		size_t len;
	} queue[QUEUE];
};

static __thread struct weir_reactor *reactor;

static void conn_end(struct conn *c)
{
	weir_receiver_destroy(c->rx);
	weir_fd_unregister(reactor, c->fd);
	close(c->fd);
	free(c);
}

static void send_next(struct conn *c)
{
	uint32_t i = c->head % QUEUE;

	bench_must(weir_send(reactor, &c->send, c->fd, c->queue[i].data,
			     c->queue[i].len, 0), "weir_send");
}

static void on_sent(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, send);

	weir_receiver_release(reactor, c->queue[c->head++ % QUEUE].data);
	if (res < 0)
		c->ended = true;
	if (c->head != c->tail && !c->ended)
		send_next(c);
	else if (c->ended)
		conn_end(c);
}

static int on_data(struct weir_receiver *rx, void *data, int64_t len, void *arg)
{
	struct conn *c = arg;

	(void)rx;
	if (len <= 0) {
		c->ended = true;
		if (c->head == c->tail)
			conn_end(c);
		return WEIR_RECEIVER_DONE;
	}
	if (c->tail - c->head == QUEUE)
		bench_die("more requests at once than the client makes", 0);
	c->queue[c->tail % QUEUE].data = data;
	c->queue[c->tail % QUEUE].len = (size_t)len;
	if (c->tail++ == c->head)
		send_next(c);
	return WEIR_RECEIVER_KEEP;
}

/* Another core to give every second connection to; NULL: there is none. */
static struct weir_reactor *_Atomic helper;

static void serve_conn(void *arg)
{
	struct conn *c = calloc(1, sizeof(*c));
	int fd = (int)(intptr_t)arg;

	c->fd = fd;
	weir_op_init(&c->send, on_sent);
	weir_fd_register(reactor, fd);
	bench_must(weir_receiver_create(&c->rx, reactor, fd, NULL, on_data, c),
		   "weir_receiver_create");
}

static void on_conn(struct weir_acceptor *acceptor, int fd, void *arg)
{
	static unsigned int n;
	void *what = (void *)(intptr_t)fd;

	(void)acceptor;
	(void)arg;
	if (fd < 0)
		return;
	if (!helper || n++ % 2 == 0 || weir_post(helper, serve_conn, what))
		serve_conn(what);
}

static void reactor_new(uint32_t backend, uint32_t spin_ns)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend, .spin_ns = spin_ns,
		.rx_bufs = ECHO_CONNS_MAX, .rx_buf_size = ECHO_BUF,
	};

	if (weir_reactor_create(&reactor, &opts))
		_exit(77);
}

static void serve_weir(int fd, uint32_t backend, uint32_t spin_ns)
{
	struct weir_acceptor *acceptor;

	reactor_new(backend, spin_ns);
	bench_must(weir_acceptor_create(&acceptor, reactor, fd, on_conn, NULL),
		   "weir_acceptor_create");
	weir_reactor_run(reactor);
}

static void serve_uring(int fd)
{
	serve_weir(fd, WEIR_BACKEND_URING, 0);
}

static void serve_weir_ev(int fd)
{
	serve_weir(fd, WEIR_BACKEND_EV, 0);
}

/* Without spinning: what the adaptive wait brings, and what it costs. */
static void serve_no_spin(int fd)
{
	serve_weir(fd, WEIR_BACKEND_URING, WEIR_SPIN_NONE);
}

static void *run_helper(void *arg)
{
	bench_pin(1);
	reactor_new(WEIR_BACKEND_URING, WEIR_SPIN_NONE);
	atomic_store(&helper, reactor);
	weir_reactor_run(reactor);
	return arg;
}

/* Every second connection is handed to a second core. */
static void serve_two(int fd)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_helper, NULL))
		return;
	while (!atomic_load(&helper))
		sched_yield();
	serve_weir(fd, WEIR_BACKEND_URING, WEIR_SPIN_NONE);
}

/* libevent, in a program beside this one */

#ifdef BENCH_LIBEVENT
static bool find_libevent(char path[4096])
{
	ssize_t n = readlink("/proc/self/exe", path, 4096 - 32);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return false;
	/* In a build directory programs are in .libs, this one is not. */
	strcpy(slash + 1, "echo-libevent");
	if (access(path, X_OK))
		strcpy(slash + 1, "../echo-libevent");
	return !access(path, X_OK);
}

static void serve_libevent(int fd)
{
	char path[4096], number[16];

	if (!find_libevent(path))
		return;
	snprintf(number, sizeof(number), "%d", fd);
	fcntl(fd, F_SETFD, 0);
	execl(path, path, number, (char *)NULL);
}
#endif

/* libev */

#ifdef HAVE_LIBEV
static void on_ev_data(struct ev_loop *loop, ev_io *io, int events)
{
	(void)events;
	if (echo_once(io->fd))
		return;
	ev_io_stop(loop, io);
	close(io->fd);
	free(io);
}

static void on_ev_conn(struct ev_loop *loop, ev_io *io, int events)
{
	ev_io *c;
	int fd = accept_one(io->fd);

	(void)events;
	if (fd < 0)
		return;
	c = calloc(1, sizeof(*c));
	ev_io_init(c, on_ev_data, fd, EV_READ);
	ev_io_start(loop, c);
}

static void serve_libev(int fd)
{
	struct ev_loop *loop = ev_loop_new(EVBACKEND_EPOLL);
	ev_io io;

	ev_io_init(&io, on_ev_conn, fd, EV_READ);
	ev_io_start(loop, &io);
	ev_run(loop, 0);
}
#endif

/* libuv, with uv_try_write(), which is its fast way */

#ifdef HAVE_LIBUV
static void on_uv_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
	static char memory[ECHO_BUF];

	(void)handle;
	(void)size;
	*buf = uv_buf_init(memory, sizeof(memory));
}

static void on_uv_closed(uv_handle_t *handle)
{
	free(handle);
}

static void on_uv_data(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	uv_buf_t out = uv_buf_init(buf->base, n > 0 ? (unsigned int)n : 0);

	if (n < 0 || (n > 0 && uv_try_write(s, &out, 1) != n))
		uv_close((uv_handle_t *)s, on_uv_closed);
}

static void on_uv_conn(uv_stream_t *server, int status)
{
	uv_tcp_t *c;

	if (status)
		return;
	c = calloc(1, sizeof(*c));
	uv_tcp_init(server->loop, c);
	bench_must(uv_accept(server, (uv_stream_t *)c), "uv_accept");
	uv_tcp_nodelay(c, 1);
	uv_read_start((uv_stream_t *)c, on_uv_alloc, on_uv_data);
}

static void serve_libuv(int fd)
{
	static uv_loop_t loop;
	static uv_tcp_t server;

	uv_loop_init(&loop);
	uv_tcp_init(&loop, &server);
	bench_must(uv_tcp_open(&server, fd), "uv_tcp_open");
	bench_must(uv_listen((uv_stream_t *)&server, ECHO_CONNS_MAX,
			     on_uv_conn), "uv_listen");
	uv_run(&loop, UV_RUN_DEFAULT);
}
#endif

const struct echo_server echo_servers[] = {
	{ "epoll", serve_epoll, 0, false },
	{ "epoll, spinning", serve_spinning, 0, false },
	{ "epoll, two cores", serve_two_epolls, 0, true },
	{ "liburing", serve_liburing, WEIR_BACKEND_URING, false },
	{ "weir uring", serve_uring, WEIR_BACKEND_URING, false },
	{ "weir ev", serve_weir_ev, WEIR_BACKEND_EV, false },
	{ "weir no spin", serve_no_spin, WEIR_BACKEND_URING, false },
	{ "weir, two cores", serve_two, WEIR_BACKEND_URING, true },
#ifdef BENCH_LIBEVENT
	{ "libevent", serve_libevent, 0, false },
#endif
#ifdef HAVE_LIBEV
	{ "libev", serve_libev, 0, false },
#endif
#ifdef HAVE_LIBUV
	{ "libuv", serve_libuv, 0, false },
#endif
};

const unsigned int n_echo_servers = ARRAY_SIZE(echo_servers);

const char *echo_missing(const struct echo_server *s)
{
#ifdef BENCH_LIBEVENT
	char path[4096];

	if (s->serve == serve_libevent && !find_libevent(path))
		return "the program echo-libevent is not built";
#endif
	return s->backend ? bench_backend_missing(s->backend) : NULL;
}
