/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * TCP echo over loopback: 64 bytes there and back, one request in flight in
 * each connection.  The server is one thread of a process of its own, on one
 * CPU; the client is the same for all, epoll on another CPU.
 *
 * The client sleeps when it has nothing to do, as clients do; it does not spin.
 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/base.h>

#include "bench/bench.h"
#include "bench/echo.h"
#include "bench/tasks.h"

#define MESSAGE 64

/* Short, so that five repetitions of all servers fit --limit 15. */
#define RUN_MS 200
#define QUICK_MS 30

struct client {
	int ep;
	int fd[ECHO_CONNS_MAX];
	uint64_t sent_ns[ECHO_CONNS_MAX];
	int n;
	const char *server;
	uint64_t requests;
	struct bench_hist *latency;	/* NULL: not yet. */
};

static int listen_local(struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*addr);

	memset(addr, 0, sizeof(*addr));
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)addr, sizeof(*addr)) ||
	    listen(fd, ECHO_CONNS_MAX) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		bench_die("listen", errno);
	return fd;
}

static pid_t start_server(const struct echo_server *s, int fd)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(0);
	s->serve(fd);
	_exit(77);
}

/* What the client had from the server, which it cannot go on without. */
static void server_failed(const struct client *c, const char *how, int err)
{
	char what[96];

	snprintf(what, sizeof(what), "%s, %d connections: %s", c->server, c->n,
		 how);
	bench_die(what, err);
}

static void client_send(struct client *c, int i)
{
	static const char message[MESSAGE];

	c->sent_ns[i] = bench_wall_ns();
	if (send(c->fd[i], message, MESSAGE, MSG_NOSIGNAL) != MESSAGE)
		server_failed(c, "send", errno);
}

static void client_connect(struct client *c, const struct sockaddr_in *addr,
			   int n)
{
	struct epoll_event e = { .events = EPOLLIN };
	int on = 1;

	c->n = n;
	c->requests = 0;
	c->ep = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < n; i++) {
		c->fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (c->fd[i] < 0 ||
		    connect(c->fd[i], (const struct sockaddr *)addr,
			    sizeof(*addr)))
			bench_die("connect", errno);
		setsockopt(c->fd[i], IPPROTO_TCP, TCP_NODELAY, &on,
			   sizeof(on));
		e.data.u32 = (uint32_t)i;
		epoll_ctl(c->ep, EPOLL_CTL_ADD, c->fd[i], &e);
	}
	for (int i = 0; i < n; i++)
		client_send(c, i);
}

static void client_close(struct client *c)
{
	for (int i = 0; i < c->n; i++)
		close(c->fd[i]);
	close(c->ep);
}

static void on_answer(struct client *c, int i)
{
	char buf[MESSAGE];
	/* What is as short as this comes in one piece over loopback. */
	ssize_t n = recv(c->fd[i], buf, MESSAGE, MSG_WAITALL);

	if (n != MESSAGE)
		server_failed(c, "recv: the server is gone",
			      n < 0 ? errno : ECONNRESET);
	c->requests++;
	if (c->latency)
		bench_hist_add(c->latency, bench_wall_ns() - c->sent_ns[i]);
	client_send(c, i);
}

static void client_run(struct client *c, uint64_t until)
{
	struct epoll_event got[256];
	int n;

	while (bench_wall_ns() < until) {
		n = epoll_wait(c->ep, got, 256, 5000);
		if (!n)
			server_failed(c, "no answer", ETIMEDOUT);
		for (int i = 0; i < n; i++)
			on_answer(c, (int)got[i].data.u32);
	}
}

static double server_cpu(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void add_all(struct bench *b, struct client *c, const char *variant,
		    double seconds, double cpu, uint64_t busiest_ns)
{
	char what[48];

	if (!c->requests)
		return;
	snprintf(what, sizeof(what), "%d connections", c->n);
	bench_add(b, what, variant, "req/s", (double)c->requests / seconds);
	snprintf(what, sizeof(what), "%d connections, p50", c->n);
	bench_add(b, what, variant, "us",
		  bench_hist_quantile(c->latency, 0.5) / 1e3);
	snprintf(what, sizeof(what), "%d connections, p99", c->n);
	bench_add(b, what, variant, "us",
		  bench_hist_quantile(c->latency, 0.99) / 1e3);
	snprintf(what, sizeof(what), "%d connections, server CPU", c->n);
	bench_add(b, what, variant, "us/req",
		  cpu * 1e6 / (double)c->requests);
	snprintf(what, sizeof(what), "%d connections, capacity", c->n);
	bench_add(b, what, variant, "req/s",
		  (double)c->requests * 1e9 / (double)busiest_ns);
}

static void measure(struct bench *b, const struct echo_server *s, int conns)
{
	static struct client c;
	struct sockaddr_in addr;
	uint64_t ms = b->quick ? QUICK_MS : RUN_MS, begun;
	int fd = listen_local(&addr), status;
	pid_t pid = start_server(s, fd);
	char what[48];
	clockid_t clock;
	static struct bench_hist latency;
	static struct bench_tasks before, after;
	double cpu;

	c.latency = NULL;
	c.server = s->name;
	close(fd);
	clock_getcpuclockid(pid, &clock);
	client_connect(&c, &addr, conns);
	client_run(&c, bench_wall_ns() + ms / 3 * 1000000);

	c.requests = 0;
	memset(&latency, 0, sizeof(latency));
	c.latency = &latency;
	cpu = server_cpu(clock);
	bench_tasks_of(&before, pid);
	begun = bench_wall_ns();
	client_run(&c, begun + ms * 1000000);
	begun = bench_wall_ns() - begun;
	cpu = server_cpu(clock) - cpu;
	bench_tasks_of(&after, pid);
	/* What it could do at most is what its busiest thread can. */
	add_all(b, &c, s->name, (double)begun / 1e9, cpu,
		bench_tasks_busiest(&before, &after));
	snprintf(what, sizeof(what), "%d connections", conns);
	bench_hist_merge(bench_latency(b, what, s->name), &latency);

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	client_close(&c);
}

static bool wanted(const struct bench *b, const struct echo_server *s)
{
	return bench_wants(b, s->name) &&
	       bench_wants_cores(b, s->two ? 2 : 1) &&
	       (!s->backend || bench_wants_backend(b, s->backend));
}

static void measure_all(struct bench *b, int conns)
{
	const struct echo_server *s;

	for (s = echo_servers; s < echo_servers + n_echo_servers; s++)
		if (wanted(b, s) && !echo_missing(s))
			measure(b, s, conns);
}

/* @goal of weir in case @what, beside the first @n peers. */
static void goals_beside(struct bench *b, const char *goal, const char *what,
			 int n, enum bench_bound bound, double figure)
{
	static const char *const peers[] = {
		"libev", "libuv", "libevent", "epoll", "liburing",
	};

	for (int i = 0; i < n; i++)
		bench_goal(b, goal, what, "weir uring", peers[i], bound, figure);
}

/* Of what no peer is better at: the rate, and its slowest. */
static void goals_of_all(struct bench *b, int conns)
{
	char what[48], p99[48];

	snprintf(what, sizeof(what), "%d connections", conns);
	snprintf(p99, sizeof(p99), "%d connections, p99", conns);
	goals_beside(b, "echo, 1, 64 and 1000 connections: the best of all",
		     what, 5, BENCH_AT_LEAST, 1);
	goals_beside(b, "echo, 1, 64 and 1000 connections: p99 no worse",
		     p99, 5, BENCH_AT_MOST, 1);
}

/* Of what libev and libuv do. */
static void goals_of_few(struct bench *b, int conns)
{
	char what[48], cpu[48];

	snprintf(what, sizeof(what), "%d connections", conns);
	snprintf(cpu, sizeof(cpu), "%d connections, server CPU", conns);
	goals_beside(b, "echo, 1 and 4 connections: 3 x libev and libuv",
		     what, 2, BENCH_AT_LEAST, 3);
	goals_beside(b, "echo, 1 and 4 connections: no more CPU/request",
		     cpu, 2, BENCH_AT_MOST, 1);
}

static void goals_of_two_cores(struct bench *b, int conns)
{
	char what[48];

	snprintf(what, sizeof(what), "%d connections, capacity", conns);
	bench_goal(b, "echo, two cores: at least 1.7 times one", what,
		   "weir, two cores", "weir no spin", BENCH_AT_LEAST, 1.7);
}

static void goals(struct bench *b)
{
	static const int all[] = { 1, 64, 1000 };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		goals_of_all(b, all[i]);
	goals_of_few(b, 1);
	goals_of_few(b, 4);
	goals_of_two_cores(b, 64);
	goals_of_two_cores(b, 1000);
}

static void say_what_is_missing(void)
{
	const struct echo_server *s;
	const char *why;

	for (s = echo_servers; s < echo_servers + n_echo_servers; s++) {
		why = echo_missing(s);
		if (why)
			bench_note("%s is not there: %s", s->name, why);
	}
}

int main(int argc, char **argv)
{
	static const uint64_t conns[] = { 1, 4, 64, 1000 };
	static struct bench b;

	bench_init_with(&b, "echo", BENCH_BACKENDS | BENCH_DEPTHS | BENCH_CORES,
			argc, argv);
	bench_default(&b.depths, conns, ARRAY_SIZE(conns));
	bench_need_fds(4 * ECHO_CONNS_MAX);
	if (bench_cpus() < 2)
		bench_note("one CPU only: server and client share it");
	bench_pin(1);
	say_what_is_missing();
	for (int i = 0; i < b.depths.n; i++) {
		if (b.depths.value[i] > ECHO_CONNS_MAX)
			bench_die("--depth", E2BIG);
		for (bench_begin(&b); bench_next(&b); )
			measure_all(&b, (int)b.depths.value[i]);
	}
	goals(&b);
	return bench_done(&b);
}
