/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * TCP echo over loopback: 64 bytes there and back, one request under way in
 * each connection.  The server is one thread of a process of its own, on one
 * CPU; the client is the same for all, epoll on another CPU.
 *
 * The client sleeps when it has nothing to do, as clients do; it does not spin.
 */

#include <dirent.h>
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

#define MESSAGE 64

struct client {
	int ep;
	int fd[ECHO_CONNS_MAX];
	uint64_t sent_ns[ECHO_CONNS_MAX];
	int n;
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

static void client_send(struct client *c, int i)
{
	static const char message[MESSAGE];

	c->sent_ns[i] = bench_wall_ns();
	if (send(c->fd[i], message, MESSAGE, MSG_NOSIGNAL) != MESSAGE)
		bench_die("send", errno);
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
	if (recv(c->fd[i], buf, MESSAGE, MSG_WAITALL) != MESSAGE)
		bench_die("recv: the server is gone", ECONNRESET);
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
			bench_die("the server does not answer", ETIMEDOUT);
		for (int i = 0; i < n; i++)
			on_answer(c, (int)got[i].data.u32);
	}
}

/* CPU seconds of the busiest thread of @pid: what it could do at most is what
 * that one can. */
static double busiest_thread(pid_t pid)
{
	char dir[64], path[400];
	unsigned long long ns, most = 0;
	struct dirent *entry;
	FILE *f;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/task", pid);
	d = opendir(dir);
	while (d && (entry = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s/schedstat", dir,
			 entry->d_name);
		f = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (f && fscanf(f, "%llu", &ns) == 1 && ns > most)
			most = ns;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return (double)most / 1e9;
}

static double server_cpu(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void add_all(struct bench *b, struct client *c, const char *variant,
		    double seconds, double cpu, double busiest)
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
	bench_add(b, what, variant, "req/s", (double)c->requests / busiest);
}

static void measure(struct bench *b, const struct echo_server *s, int conns)
{
	static struct client c;
	struct sockaddr_in addr;
	uint64_t ms = b->quick ? 30 : 500, begun;
	int fd = listen_local(&addr), status;
	pid_t pid = start_server(s, fd);
	char what[48];
	clockid_t clock;
	static struct bench_hist latency;
	double cpu, busiest;

	c.latency = NULL;
	close(fd);
	clock_getcpuclockid(pid, &clock);
	client_connect(&c, &addr, conns);
	client_run(&c, bench_wall_ns() + ms / 3 * 1000000);

	c.requests = 0;
	memset(&latency, 0, sizeof(latency));
	c.latency = &latency;
	cpu = server_cpu(clock);
	busiest = busiest_thread(pid);
	begun = bench_wall_ns();
	client_run(&c, begun + ms * 1000000);
	begun = bench_wall_ns() - begun;
	cpu = server_cpu(clock) - cpu;
	busiest = busiest_thread(pid) - busiest;
	add_all(b, &c, s->name, (double)begun / 1e9, cpu, busiest);
	snprintf(what, sizeof(what), "%d connections", conns);
	bench_hist_merge(bench_latency(b, what, s->name), &latency);

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	client_close(&c);
}

static bool wanted(const struct bench *b, const struct echo_server *s)
{
	return bench_wants(b, s->name) &&
	       (!s->backend || bench_wants_backend(b, s->backend));
}

static void measure_all(struct bench *b, int conns)
{
	const struct echo_server *s;

	for (s = echo_servers; s < echo_servers + n_echo_servers; s++)
		if (wanted(b, s) && echo_can_run(s))
			measure(b, s, conns);
}

static void goals(struct bench *b)
{
	static const char *const peers[] = { "libev", "libuv" };
	static const char *const all[] = {
		"epoll", "liburing", "libev", "libuv", "libevent",
	};
	static const int few[] = { 1, 4 }, many[] = { 64, 1000 };
	char what[48];

	for (size_t i = 0; i < ARRAY_SIZE(few) * ARRAY_SIZE(peers); i++) {
		snprintf(what, sizeof(what), "%d connections", few[i / 2]);
		bench_goal(b, "echo, 1 and 4 connections: 3 x libev and libuv",
			   what, "weir uring", peers[i % 2], BENCH_AT_LEAST,
			   3);
		snprintf(what, sizeof(what), "%d connections, server CPU",
			 few[i / 2]);
		bench_goal(b, "echo, 1 and 4 connections: no more CPU/request",
			   what, "weir uring", peers[i % 2], BENCH_AT_MOST, 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(many) * ARRAY_SIZE(all); i++) {
		snprintf(what, sizeof(what), "%d connections", many[i % 2]);
		bench_goal(b, "echo, 64 and 1000 connections: the best of all",
			   what, "weir uring", all[i / 2], BENCH_AT_LEAST, 1);
		snprintf(what, sizeof(what), "%d connections, p99",
			 many[i % 2]);
		bench_goal(b, "echo, 64 and 1000 connections: p99 no worse",
			   what, "weir uring", all[i / 2], BENCH_AT_MOST, 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		snprintf(what, sizeof(what), "%d connections, capacity",
			 many[i]);
		bench_goal(b, "echo, two cores: at least 1.7 times one", what,
			   "weir, two cores", "weir no spin", BENCH_AT_LEAST,
			   1.7);
	}
}

int main(int argc, char **argv)
{
	static const uint64_t conns[] = { 1, 4, 64, 1000 };
	static struct bench b;

	bench_init_with(&b, "echo", BENCH_BACKENDS | BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, conns, ARRAY_SIZE(conns));
	bench_need_fds(4 * ECHO_CONNS_MAX);
	if (bench_cpus() < 2)
		bench_note("one CPU only: server and client share it");
	bench_pin(1);
	for (unsigned int k = 0; k < n_echo_servers; k++)
		if (!echo_can_run(&echo_servers[k]))
			bench_note("%s is not there: %s", echo_servers[k].name,
				   weir_why());
	for (int i = 0; i < b.depths.n; i++) {
		if (b.depths.value[i] > ECHO_CONNS_MAX)
			bench_die("--depth", E2BIG);
		for (bench_begin(&b); bench_next(&b); )
			measure_all(&b, (int)b.depths.value[i]);
	}
	goals(&b);
	return bench_done(&b);
}
