/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * UDP echo over loopback: 64 bytes there and back, a number of datagrams in flight
 * between two sockets.  The server is one thread of a process of its own, on one
 * CPU; the client is the same for all, recvmmsg(2) and sendmmsg(2) on another CPU.
 *
 * "bare" is a loop of these two calls, which sleeps in the first.  libuv receives
 * one datagram with a system call, unless it is asked for recvmmsg(2)
 * (UV_UDP_RECVMMSG), which programs hardly do; its sends of a turn are one
 * sendmmsg(2) if the first would have to wait.
 */

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/udp.h>

#ifdef HAVE_LIBUV
#include <uv.h>
#endif

#include "bench/bench.h"

#define MESSAGE 64
#define BATCH 64		/* Datagrams of one system call. */
#define DEPTH_MAX 256		/* In flight: what SO_RCVBUF holds for sure. */
#define RUN_MS 300
#define QUICK_MS 30

struct server {
	const char *name;
	/* Serve the socket until killed; returns only on failure. */
	void (*serve)(int fd, uint32_t how);
	uint32_t how;		/* WEIR_BACKEND_, or flags of libuv. */
	bool weir;
	bool missing;
};

/* Messages of one system call, with an address of each. */
struct batch {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_in addr[BATCH];
	char data[BATCH][2048];
};

static void batch_init(struct batch *b, bool addresses)
{
	for (int i = 0; i < BATCH; i++) {
		b->iov[i] = (struct iovec){ b->data[i], sizeof(b->data[i]) };
		b->msgs[i].msg_hdr = (struct msghdr){
			.msg_iov = &b->iov[i],
			.msg_iovlen = 1,
			.msg_name = addresses ? &b->addr[i] : NULL,
			.msg_namelen = addresses ? sizeof(b->addr[i]) : 0,
		};
	}
}

static void serve_bare(int fd, uint32_t how)
{
	static struct batch b;
	int n, sent, did;

	(void)how;
	batch_init(&b, true);
	for (;;) {
		for (int i = 0; i < BATCH; i++)
			b.iov[i].iov_len = sizeof(b.data[i]);
		n = recvmmsg(fd, b.msgs, BATCH, MSG_WAITFORONE, NULL);
		if (n < 0)
			return;
		for (int i = 0; i < n; i++)
			b.iov[i].iov_len = b.msgs[i].msg_len;
		for (sent = 0; sent < n; sent += did) {
			did = sendmmsg(fd, b.msgs + sent,
				       (unsigned int)(n - sent), 0);
			if (did <= 0)
				return;
		}
	}
}

/* weir: the answer is sent from the buffer that the question came in. */

struct answer {
	struct weir_op op;
	struct answer *next;
	struct weir_udp *udp;
	const void *data;
};

static struct answer answers[2 * DEPTH_MAX], *free_answers;

static void on_answered(struct weir_op *op, int64_t res)
{
	struct answer *a = weir_container_of(op, struct answer, op);

	if (res < 0)
		_exit(1);
	weir_udp_release(a->udp, a->data);
	a->next = free_answers;
	free_answers = a;
}

static int on_question(struct weir_udp *udp, const struct weir_udp_msg *msg,
		       int err, void *arg)
{
	struct answer *a = free_answers;

	(void)arg;
	if (err || !a)
		_exit(1);
	free_answers = a->next;
	a->udp = udp;
	a->data = msg->data;
	if (weir_udp_send(udp, &a->op, msg))
		_exit(1);
	return WEIR_UDP_KEEP;
}

static void serve_weir(int fd, uint32_t how)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = how };
	struct weir_udp_opts uopts = { .size = sizeof(uopts) };
	struct weir_reactor *r;
	struct weir_udp *udp;

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		weir_op_init(&answers[i].op, on_answered);
		answers[i].next = free_answers;
		free_answers = &answers[i];
	}
	if (weir_reactor_create(&r, &opts) ||
	    weir_udp_create(&udp, r, fd, &uopts, on_question, NULL))
		return;
	weir_reactor_run(r);
}

#ifdef HAVE_LIBUV
struct uv_answer {
	uv_udp_send_t req;
	struct uv_answer *next;
	char data[MESSAGE];
};

static struct uv_answer uv_answers[2 * DEPTH_MAX], *uv_free_answers;
static char uv_memory[BATCH][65536];

static void uv_memory_for(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
	(void)handle, (void)wanted;
	*buf = uv_buf_init(uv_memory[0], sizeof(uv_memory));
}

static void uv_answered(uv_udp_send_t *req, int status)
{
	struct uv_answer *a = req->data;

	if (status < 0)
		_exit(1);
	a->next = uv_free_answers;
	uv_free_answers = a;
}

static void uv_on_question(uv_udp_t *udp, ssize_t n, const uv_buf_t *buf,
			   const struct sockaddr *addr, unsigned int flags)
{
	struct uv_answer *a = uv_free_answers;
	uv_buf_t out;

	(void)flags;
	if (n < 0 || (addr && !a))
		_exit(1);
	if (!addr)
		return;
	uv_free_answers = a->next;
	memcpy(a->data, buf->base, (size_t)n);
	out = uv_buf_init(a->data, (unsigned int)n);
	a->req.data = a;
	if (uv_udp_send(&a->req, udp, &out, 1, addr, uv_answered))
		_exit(1);
}

static void serve_libuv(int fd, uint32_t how)
{
	uv_loop_t loop;
	uv_udp_t udp;

	for (size_t i = 0; i < ARRAY_SIZE(uv_answers); i++) {
		uv_answers[i].next = uv_free_answers;
		uv_free_answers = &uv_answers[i];
	}
	if (uv_loop_init(&loop) || uv_udp_init_ex(&loop, &udp, AF_UNSPEC | how) ||
	    uv_udp_open(&udp, fd) ||
	    uv_udp_recv_start(&udp, uv_memory_for, uv_on_question))
		return;
	uv_run(&loop, UV_RUN_DEFAULT);
}
#endif

static struct server servers[] = {
	{ .name = "bare mmsg", .serve = serve_bare },
	{ .name = "weir uring", .serve = serve_weir,
	  .how = WEIR_BACKEND_URING, .weir = true },
	{ .name = "weir ev", .serve = serve_weir, .how = WEIR_BACKEND_EV,
	  .weir = true },
#ifdef HAVE_LIBUV
	{ .name = "libuv", .serve = serve_libuv },
#if UV_VERSION_HEX >= 0x012800
	{ .name = "libuv, recvmmsg", .serve = serve_libuv,
	  .how = UV_UDP_RECVMMSG },
#endif
#endif
};

static int open_local(struct sockaddr_in *addr, const struct sockaddr_in *peer)
{
	socklen_t len = sizeof(*addr);
	int fd;

	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	bench_must(weir_udp_open(&fd, (struct sockaddr *)addr,
				 (const struct sockaddr *)peer, 0),
		   "weir_udp_open");
	if (getsockname(fd, (struct sockaddr *)addr, &len))
		bench_die("getsockname", errno);
	return fd;
}

static pid_t start_server(const struct server *s, int fd)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(0);
	s->serve(fd, s->how);
	_exit(77);
}

static void client_send(int fd, struct batch *b, int n)
{
	int did;

	for (int i = 0; i < n; i++)
		b->iov[i].iov_len = MESSAGE;
	for (int sent = 0; sent < n; sent += did) {
		did = sendmmsg(fd, b->msgs + sent, (unsigned int)(n - sent), 0);
		if (did <= 0)
			bench_die("sendmmsg", errno);
	}
}

/* Sleeps if there is nothing; nothing is lost over loopback. */
static int client_receive(int fd, struct batch *b, const char *server)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	for (;;) {
		n = recvmmsg(fd, b->msgs, BATCH, MSG_DONTWAIT, NULL);
		if (n > 0)
			return n;
		if (n < 0 && errno != EAGAIN)
			bench_die(server, errno);
		if (poll(&p, 1, 5000) <= 0)
			bench_die(server, ETIMEDOUT);
	}
}

static uint64_t client_run(int fd, struct batch *b, const char *server,
			   uint64_t until)
{
	uint64_t requests = 0;
	int n;

	while (bench_wall_ns() < until) {
		n = client_receive(fd, b, server);
		requests += (uint64_t)n;
		client_send(fd, b, n);
	}
	return requests;
}

static void measure(struct bench *b, const struct server *s, int depth)
{
	uint64_t ms = b->quick ? QUICK_MS : RUN_MS, begun, requests;
	struct sockaddr_in at, own;
	static struct batch batch;
	char what[48];
	int fd, status, server_fd = open_local(&at, NULL);
	pid_t pid = start_server(s, server_fd);
	double cpu;

	close(server_fd);
	fd = open_local(&own, &at);
	batch_init(&batch, false);
	for (int left = depth; left > 0; left -= BATCH)
		client_send(fd, &batch, left < BATCH ? left : BATCH);
	client_run(fd, &batch, s->name, bench_wall_ns() + ms / 3 * 1000000);

	cpu = bench_cpu_ns(pid);
	begun = bench_wall_ns();
	requests = client_run(fd, &batch, s->name, begun + ms * 1000000);
	begun = bench_wall_ns() - begun;
	cpu = bench_cpu_ns(pid) - cpu;
	snprintf(what, sizeof(what), "%d in flight", depth);
	bench_add(b, what, s->name, "req/s",
		  (double)requests * 1e9 / (double)begun);
	snprintf(what, sizeof(what), "%d in flight, server CPU", depth);
	bench_add(b, what, s->name, "us/req", cpu / 1e3 / (double)requests);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(fd);
}

static bool wanted(const struct bench *b, const struct server *s)
{
	return bench_wants(b, s->name) && !s->missing &&
	       (!s->weir || bench_wants_backend(b, s->how));
}

static void find_missing(void)
{
	struct server *s;
	const char *why;

	for (s = servers; s < servers + ARRAY_SIZE(servers); s++) {
		why = s->weir ? bench_backend_missing(s->how) : NULL;
		s->missing = why;
		if (why)
			bench_note("%s is not there: %s", s->name, why);
	}
#ifndef HAVE_LIBUV
	bench_note("libuv is not there: install libuv1-dev and build again");
#endif
}

static void goals(struct bench *b, int depth)
{
	char what[48], cpu[48];

	snprintf(what, sizeof(what), "%d in flight", depth);
	snprintf(cpu, sizeof(cpu), "%d in flight, server CPU", depth);
	bench_goal(b, "UDP echo, at least the bare loop", what, "weir uring",
		   "bare mmsg", BENCH_AT_LEAST, 1);
	bench_goal(b, "UDP echo, at least 1.5 times libuv", what, "weir uring",
		   "libuv", BENCH_AT_LEAST, 1.5);
	bench_goal(b, "UDP echo, server CPU at most 1.1 times the bare loop's",
		   cpu, "weir uring", "bare mmsg", BENCH_AT_MOST, 1.1);
}

int main(int argc, char **argv)
{
	static const uint64_t depths[] = { 1, 16, 64, 256 };
	static struct bench b;

	bench_init_with(&b, "udp", BENCH_BACKENDS | BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, depths, ARRAY_SIZE(depths));
	if (bench_cpus() < 2)
		bench_note("one CPU only: server and client share it");
	bench_pin(1);
	find_missing();
	for (int i = 0; i < b.depths.n; i++) {
		if (b.depths.value[i] > DEPTH_MAX)
			bench_die("--depth", E2BIG);
		for (bench_begin(&b); bench_next(&b); )
			for (size_t k = 0; k < ARRAY_SIZE(servers); k++)
				if (wanted(&b, &servers[k]))
					measure(&b, &servers[k],
						(int)b.depths.value[i]);
		goals(&b, (int)b.depths.value[i]);
	}
	return bench_done(&b);
}
