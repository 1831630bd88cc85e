/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A stream received over TCP and loopback, as fast as it comes, and thrown away.  The
 * receiver is one thread of a process of its own, on one CPU; the sender is the same for
 * all, send(2) of 256 KiB on another CPU.
 *
 * The bare rings have the buffers that a reactor has by default, 256 of 4 KiB, and a
 * receive that stays armed: with bundles a completion has as many buffers as there are
 * data for, else each has one.  "recv" has one of 64 KiB, which suits one connection, and
 * takes that for each, also if it is idle.
 */

#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/uring.h>

#ifdef HAVE_LIBUV
#include <uv.h>
#endif

#include "bench/bench.h"

#define CHUNK (256u << 10)
#define LARGE (64u << 10)
#define BUFS 256u
#define BUF 4096u
#define GROUP 1
#define RUN_MS 400
#define QUICK_MS 40

#define RECVSEND_BUNDLE (1u << 4) /* Linux 6.10; liburing 2.3 does not have it. */

struct receiver {
	const char *name;
	/* Receive until the end, or until killed. */
	void (*serve)(int fd, uint32_t how);
	uint32_t how;		/* WEIR_BACKEND_, or flags of a receive. */
	bool weir, bare;
	bool missing;
};

static void serve_recv(int fd, uint32_t how)
{
	static char buf[LARGE];

	(void)how;
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
}

/* Rings. */

static char memory[BUFS * BUF];

static void arm(struct io_uring *ring, int fd, uint32_t flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
	sqe->ioprio |= (uint16_t)flags;
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
}

static struct io_uring_buf_ring *make_bufs(struct io_uring *ring)
{
	struct io_uring_buf_reg reg = { .ring_entries = BUFS, .bgid = GROUP };
	struct io_uring_buf_ring *bufs =
		aligned_alloc(4096, BUFS * sizeof(struct io_uring_buf));

	if (!bufs)
		return NULL;
	reg.ring_addr = (uintptr_t)bufs;
	io_uring_buf_ring_init(bufs);
	if (io_uring_register_buf_ring(ring, &reg, 0))
		return NULL;
	for (uint32_t i = 0; i < BUFS; i++)
		io_uring_buf_ring_add(bufs, memory + (size_t)i * BUF, BUF,
				      (uint16_t)i, BUFS - 1, (int)i);
	io_uring_buf_ring_advance(bufs, BUFS);
	return bufs;
}

/* Buffers are given back in the order in which they were taken. */
static uint32_t give_back(struct io_uring_buf_ring *bufs, const struct io_uring_cqe *cqe,
			  uint32_t at)
{
	uint32_t id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	uint32_t n = ((uint32_t)cqe->res + BUF - 1) / BUF;

	for (uint32_t i = 0; i < n; i++, id++)
		io_uring_buf_ring_add(bufs, memory + (size_t)(id % BUFS) * BUF, BUF,
				      (uint16_t)(id % BUFS), BUFS - 1, (int)(at + i));
	return n;
}

static void serve_ring(int fd, uint32_t how)
{
	struct io_uring_params p = { .flags = IORING_SETUP_DEFER_TASKRUN |
					      IORING_SETUP_SINGLE_ISSUER };
	struct io_uring_buf_ring *bufs;
	struct io_uring ring;

	if (io_uring_queue_init_params(256, &ring, &p))
		return;
	bufs = make_bufs(&ring);
	if (!bufs)
		return;
	arm(&ring, fd, how);
	for (;;) {
		struct io_uring_cqe *cqe;
		unsigned int head, n = 0;
		uint32_t given = 0;
		bool ended = false;

		if (io_uring_submit_and_wait(&ring, 1) < 0)
			return;
		io_uring_for_each_cqe(&ring, head, cqe) {
			if (cqe->res > 0)
				given += give_back(bufs, cqe, given);
			else if (cqe->res != -ENOBUFS)
				return;
			ended |= !(cqe->flags & IORING_CQE_F_MORE);
			n++;
		}
		io_uring_buf_ring_advance(bufs, (int)given);
		io_uring_cq_advance(&ring, n);
		if (ended)
			arm(&ring, fd, how);
	}
}

/* weir */

static int on_data(struct weir_receiver *receiver, void *data, int64_t len, void *arg)
{
	(void)receiver, (void)data;
	if (len <= 0)
		weir_reactor_stop(arg);
	return WEIR_RECEIVER_DONE;
}

static void receive_by(struct weir_reactor_opts opts, int fd)
{
	struct weir_receiver *receiver;
	struct weir_reactor *r;

	opts.size = sizeof(opts);
	bench_must(weir_reactor_create(&r, &opts), "weir_reactor_create");
	bench_must(weir_receiver_create(&receiver, r, fd, NULL, on_data, r),
		   "weir_receiver_create");
	weir_reactor_run(r);
}

static void serve_weir(int fd, uint32_t how)
{
	receive_by((struct weir_reactor_opts){ .backend = how }, fd);
}

static void serve_asleep(int fd, uint32_t how)
{
	receive_by((struct weir_reactor_opts){ .backend = how,
					       .spin_ns = WEIR_SPIN_NONE }, fd);
}

#ifdef HAVE_LIBUV
static char uv_memory[LARGE];

static void uv_memory_for(uv_handle_t *handle, size_t hint, uv_buf_t *buf)
{
	(void)handle, (void)hint;
	*buf = uv_buf_init(uv_memory, sizeof(uv_memory));
}

static void uv_on_data(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	(void)buf;
	if (n < 0)
		uv_stop(stream->loop);
}

static void serve_libuv(int fd, uint32_t how)
{
	uv_loop_t loop;
	uv_tcp_t tcp;

	(void)how;
	if (uv_loop_init(&loop) || uv_tcp_init(&loop, &tcp) || uv_tcp_open(&tcp, fd) ||
	    uv_read_start((uv_stream_t *)&tcp, uv_memory_for, uv_on_data))
		return;
	uv_run(&loop, UV_RUN_DEFAULT);
}
#endif

static struct receiver receivers[] = {
	{ .name = "bare, bundles", .serve = serve_ring, .bare = true,
	  .how = RECVSEND_BUNDLE },
	{ .name = "bare, no bundles", .serve = serve_ring, .bare = true },
	{ .name = "recv", .serve = serve_recv },
	{ .name = "weir uring", .serve = serve_weir, .how = WEIR_BACKEND_URING,
	  .weir = true },
	{ .name = "weir no spin", .serve = serve_asleep, .how = WEIR_BACKEND_URING,
	  .weir = true },
	{ .name = "weir ev", .serve = serve_weir, .how = WEIR_BACKEND_EV,
	  .weir = true },
#ifdef HAVE_LIBUV
	{ .name = "libuv", .serve = serve_libuv },
#endif
};

/* The ends of a connection. */
static void connect_both(int fds[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || fds[0] < 0 ||
	    bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &len) ||
	    connect(fds[0], (struct sockaddr *)&at, sizeof(at)))
		bench_die("connect", errno);
	fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fds[1] < 0)
		bench_die("accept4", errno);
	close(listener);
}

static pid_t start_receiver(const struct receiver *rc, int fd, int other)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(other);
	bench_pin(0);
	rc->serve(fd, rc->how);
	_exit(77);
}

static uint64_t send_until(int fd, const char *name, uint64_t until)
{
	static const char chunk[CHUNK];
	uint64_t sent = 0;

	while (bench_wall_ns() < until) {
		ssize_t n = send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL);

		if (n <= 0)
			bench_die(name, errno);
		sent += (uint64_t)n;
	}
	return sent;
}

/* What is on the way at either time is a few MiB of some GiB. */
static void measure(struct bench *b, const struct receiver *rc)
{
	uint64_t ns = UINT64_C(1000000) * (b->quick ? QUICK_MS : RUN_MS), begun, sent;
	double cpu, gb;
	int fds[2];
	pid_t pid;

	connect_both(fds);
	pid = start_receiver(rc, fds[1], fds[0]);
	close(fds[1]);
	send_until(fds[0], rc->name, bench_wall_ns() + ns / 4);
	cpu = bench_cpu_ns(pid);
	begun = bench_wall_ns();
	sent = send_until(fds[0], rc->name, begun + ns);
	begun = bench_wall_ns() - begun;
	cpu = bench_cpu_ns(pid) - cpu;
	gb = (double)sent / 1e9;
	bench_add(b, "a stream", rc->name, "GB/s", gb * 1e9 / (double)begun);
	bench_add(b, "a stream, receiver's CPU", rc->name, "ms/GB", cpu / 1e6 / gb);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
}

static const char *why_missing(const struct receiver *rc)
{
	struct weir_uring_info info = { .size = sizeof(info) };

	if (rc->weir)
		return bench_backend_missing(rc->how);
	if (!rc->bare)
		return NULL;
	if (weir_uring_probe(&info))
		return weir_why();
	if (!(info.features & WEIR_URING_DEFER_TASKRUN) ||
	    !(info.features & WEIR_URING_BUFFER_RINGS))
		return "it takes Linux 6.1";
	return rc->how && !(info.features & WEIR_URING_RECV_BUNDLES) ?
	       "they take Linux 6.16" : NULL;
}

static void find_missing(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(receivers); i++) {
		const char *why = why_missing(&receivers[i]);

		receivers[i].missing = why;
		if (why)
			bench_note("%s is not there: %s", receivers[i].name, why);
	}
#ifndef HAVE_LIBUV
	bench_note("libuv is not there: install libuv1-dev and build again");
#endif
}

static bool wanted(const struct bench *b, const struct receiver *rc)
{
	return bench_wants(b, rc->name) && !rc->missing &&
	       (!rc->weir || bench_wants_backend(b, rc->how));
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init_with(&b, "recv", BENCH_BACKENDS, argc, argv);
	if (bench_cpus() < 2)
		bench_note("one CPU only: sender and receiver share it");
	bench_pin(1);
	find_missing();
	for (bench_begin(&b); bench_next(&b); )
		for (size_t i = 0; i < ARRAY_SIZE(receivers); i++)
			if (wanted(&b, &receivers[i]))
				measure(&b, &receivers[i]);
	bench_goal(&b, "receive, CPU at most 1.1 times that of a bare ring with bundles",
		   "a stream, receiver's CPU", "weir uring", "bare, bundles",
		   BENCH_AT_MOST, 1.1);
	return bench_done(&b);
}
