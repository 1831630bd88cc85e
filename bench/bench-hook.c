/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Poll hooks: how late a loop learns of a completion that another thread makes
 * known, by a word of memory while the loop is awake ("awake"), and by an
 * eventfd while it sleeps ("asleep").  Beside a loop that does nothing else.
 *
 * "UCX": 8 bytes got from another process over TCP, which that process answers;
 * both ends by ucp_worker_progress(), or by ucp_worker_arm() and a sleep.  Beside
 * a loop of ucp_worker_progress(), and of poll(2).
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/poll-hook.h>
#include <weir/reactor.h>

#include "bench/bench.h"

#ifdef BENCH_UCX
#include "examples/ucx-peer.h"
#endif

#define AWAKE_NS WEIR_MSEC /* Longer than any gap: it never sleeps. */
#define LATE_MAX 2000

struct device {
	/* The other thread's, on lines of their own. */
	_Alignas(64) _Atomic uint64_t made;	/* Completions. */
	uint64_t made_ns;
	_Alignas(64) _Atomic uint64_t seen;
	double late_ns[LATE_MAX];
	int n;
	bool asleep;
	int efd;
	uint64_t gap_ns;	/* At least, and twice as much at most. */
};

static struct device dev;

/* On the second CPU: make one when the last was seen, after a random gap. */
static void *make(void *arg)
{
	unsigned int seed = 1;
	uint64_t until;

	(void)arg;
	bench_pin(1);
	for (int i = 1; i <= dev.n; i++) {
		while (atomic_load_explicit(&dev.seen, memory_order_acquire) !=
		       (uint64_t)i - 1)
			;
		until = bench_wall_ns() + dev.gap_ns +
			(uint64_t)rand_r(&seed) % dev.gap_ns;
		while ((dev.made_ns = bench_wall_ns()) < until)
			;
		atomic_store_explicit(&dev.made, (uint64_t)i,
				      memory_order_release);
		if (dev.asleep)
			eventfd_write(dev.efd, 1);
	}
	return NULL;
}

/* Whether there was one. */
static bool see(void)
{
	uint64_t seen = atomic_load_explicit(&dev.seen, memory_order_relaxed);

	if (atomic_load_explicit(&dev.made, memory_order_acquire) == seen)
		return false;
	dev.late_ns[seen] = (double)(bench_wall_ns() - dev.made_ns);
	atomic_store_explicit(&dev.seen, seen + 1, memory_order_release);
	return true;
}

static bool is_over(void)
{
	return atomic_load_explicit(&dev.seen, memory_order_relaxed) ==
	       (uint64_t)dev.n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of the first @n that were late. */
static double median(int n)
{
	qsort(dev.late_ns, (size_t)n, sizeof(dev.late_ns[0]), by_value);
	return dev.late_ns[n / 2];
}

/* Run @loop with the other thread beside it, and add what it says. */
static void measure(struct bench *b, const char *what, const char *variant,
		    void (*loop)(void *arg), void *arg)
{
	struct bench_hist *h = bench_latency(b, what, variant);
	pthread_t thread;

	atomic_store(&dev.made, 0);
	atomic_store(&dev.seen, 0);
	bench_must(-pthread_create(&thread, NULL, make, NULL), "thread");
	loop(arg);
	pthread_join(thread, NULL);
	for (int i = 0; i < dev.n; i++)
		bench_hist_add(h, (uint64_t)dev.late_ns[i]);
	bench_add(b, what, variant, "ns", median(dev.n));
}

/* Loops that do nothing else. */

static void bare_awake(void *arg)
{
	(void)arg;
	while (!is_over())
		see();
}

static void bare_asleep(void *arg)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	eventfd_t n;

	(void)arg;
	epoll_ctl(epoll, EPOLL_CTL_ADD, dev.efd, &ev);
	while (!is_over())
		if (epoll_wait(epoll, &ev, 1, -1) > 0) {
			eventfd_read(dev.efd, &n);
			see();
		}
	close(epoll);
}

/* weir */

static int hook_poll(void *arg)
{
	(void)arg;
	return see();
}

static int hook_before_sleep(void *arg, int *fd)
{
	(void)arg;
	*fd = dev.efd;
	return !dev.asleep || /* It writes no eventfd then. */
	       atomic_load_explicit(&dev.made, memory_order_acquire) !=
		       atomic_load_explicit(&dev.seen, memory_order_relaxed);
}

static void hook_after_sleep(void *arg, int readable)
{
	eventfd_t n;

	(void)arg;
	if (readable)
		eventfd_read(dev.efd, &n);
}

static const struct weir_poll_hook_ops hook_ops = {
	.size = sizeof(hook_ops),
	.poll = hook_poll,
	.before_sleep = hook_before_sleep,
	.after_sleep = hook_after_sleep,
};

static void weir_loop(void *arg)
{
	struct weir_reactor *r = arg;
	struct weir_poll_hook *hook;

	bench_must(weir_poll_hook_create(&hook, r, &hook_ops, NULL), "hook");
	while (!is_over())
		bench_must(weir_reactor_turn(r, WEIR_FOREVER), "turn");
	weir_poll_hook_destroy(hook);
}

static struct weir_reactor *reactor(uint32_t backend, const char *variant,
				    bool asleep)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend,
		.spin_ns = asleep ? WEIR_SPIN_NONE : AWAKE_NS,
	};
	struct weir_reactor *r;

	if (!weir_reactor_create(&r, &opts))
		return r;
	bench_note("%s is not there: %s", variant, weir_why());
	return NULL;
}

static void weir_device(struct bench *b, uint32_t backend, const char *variant,
			const char *what)
{
	struct weir_reactor *r;

	if (!bench_wants(b, variant))
		return;
	r = reactor(backend, variant, dev.asleep);
	if (!r)
		return;
	measure(b, what, variant, weir_loop, r);
	bench_must(weir_reactor_destroy(r), "destroy");
}

static void devices(struct bench *b, bool asleep)
{
	const char *what = asleep ? "asleep" : "awake";

	dev.asleep = asleep;
	dev.gap_ns = (asleep ? 50 : 5) * WEIR_USEC;
	dev.n = b->quick ? 50 : asleep ? LATE_MAX / 4 : LATE_MAX;
	if (bench_wants(b, "bare"))
		measure(b, what, "bare", asleep ? bare_asleep : bare_awake,
			NULL);
	weir_device(b, WEIR_BACKEND_URING, "weir uring", what);
	weir_device(b, WEIR_BACKEND_EV, "weir ev", what);
}

#ifdef BENCH_UCX

static struct ucx_peer peer;
static struct ucx_end end;
static bool ucx_done;

static void on_got(void *request, ucs_status_t status, void *arg)
{
	(void)arg;
	if (status)
		bench_die(ucs_status_string(status), EIO);
	ucp_request_free(request);
	ucx_done = true;
}

static void ucx_get(void)
{
	static uint64_t word;
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
		.cb.send = on_got,
	};
	void *request = ucp_get_nbx(end.ep, &word, sizeof(word), peer.addr,
				    end.key, &param);

	if (UCS_PTR_IS_ERR(request))
		bench_die("ucp_get_nbx", EIO);
	ucx_done = !request;
}

static int ucx_poll(void *arg)
{
	(void)arg;
	return ucp_worker_progress(end.worker) > 0;
}

static int ucx_before_sleep(void *arg, int *fd)
{
	(void)arg;
	*fd = end.efd;
	return ucp_worker_arm(end.worker) != UCS_OK;
}

static const struct weir_poll_hook_ops ucx_ops = {
	.size = sizeof(ucx_ops),
	.poll = ucx_poll,
	.before_sleep = ucx_before_sleep,
};

static void ucx_turn(struct weir_reactor *r, bool asleep)
{
	struct pollfd p = { .fd = end.efd, .events = POLLIN };

	if (r)
		bench_must(weir_reactor_turn(r, WEIR_FOREVER), "turn");
	else if (!ucp_worker_progress(end.worker) && asleep &&
		 ucp_worker_arm(end.worker) == UCS_OK)
		poll(&p, 1, -1);
}

/* By @r, or by a loop of UCX's functions. */
static void ucx_gets(struct bench *b, const char *variant, bool asleep,
		     struct weir_reactor *r)
{
	const char *what = asleep ? "UCX, asleep" : "UCX, awake";
	struct bench_hist *h = bench_latency(b, what, variant);
	int n = b->quick ? 50 : 500;
	struct weir_poll_hook *hook = NULL;
	uint64_t begun;

	if (r)
		bench_must(weir_poll_hook_create(&hook, r, &ucx_ops, NULL),
			   "hook");
	for (int i = 0; i < n; i++) {
		begun = bench_wall_ns();
		for (ucx_get(); !ucx_done;)
			ucx_turn(r, asleep);
		dev.late_ns[i] = (double)(bench_wall_ns() - begun);
		bench_hist_add(h, (uint64_t)dev.late_ns[i]);
	}
	weir_poll_hook_destroy(hook);
	bench_add(b, what, variant, "ns", median(n));
}

static void weir_ucx(struct bench *b, uint32_t backend, const char *variant,
		     bool asleep)
{
	struct weir_reactor *r;

	if (!bench_wants(b, variant))
		return;
	r = reactor(backend, variant, asleep);
	if (!r)
		return;
	ucx_gets(b, variant, asleep, r);
	bench_must(weir_reactor_destroy(r), "destroy");
}

static void ucx(struct bench *b, bool asleep)
{
	if (bench_wants(b, "bare"))
		ucx_gets(b, "bare", asleep, NULL);
	weir_ucx(b, WEIR_BACKEND_URING, "weir uring", asleep);
	weir_ucx(b, WEIR_BACKEND_EV, "weir ev", asleep);
}

/* Before there is a thread, because the peer is a fork, on the second CPU. */
static bool ucx_begin(void)
{
	setenv("UCX_TLS", "tcp", 1);
	bench_pin(1);
	if (ucx_peer_start(&peer, 4096) || ucx_end_open(&end) ||
	    ucx_end_connect(&end, &peer)) {
		bench_note("UCX has no transport tcp here");
		return false;
	}
	return true;
}

static void ucx_end(void)
{
	ucx_end_close(&end);
	ucx_peer_stop(&peer);
}

#else

static void ucx(struct bench *b, bool asleep)
{
	(void)b, (void)asleep;
}

static bool ucx_begin(void)
{
	bench_note("UCX is not there");
	return false;
}

static void ucx_end(void)
{
}

#endif

static void goals_of(struct bench *b, const char *variant)
{
	bench_goal(b, "awake: at most 1 us late", "awake", variant, NULL,
		   BENCH_AT_MOST, 1000);
	bench_goal(b, "asleep: at most 1.05 times an eventfd", "asleep",
		   variant, "bare", BENCH_AT_MOST, 1.05);
	bench_goal(b, "UCX: at most 1.05 times its own functions",
		   "UCX, awake", variant, "bare", BENCH_AT_MOST, 1.05);
	bench_goal(b, "UCX: at most 1.05 times its own functions",
		   "UCX, asleep", variant, "bare", BENCH_AT_MOST, 1.05);
}

int main(int argc, char **argv)
{
	static struct bench b;
	bool has_ucx;

	bench_init(&b, "hook", argc, argv);
	has_ucx = ucx_begin();
	bench_pin(0);
	dev.efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	b.reference = "bare";
	for (bench_begin(&b); bench_next(&b); ) {
		devices(&b, false);
		devices(&b, true);
		for (int asleep = 0; has_ucx && asleep < 2; asleep++)
			ucx(&b, asleep);
	}
	if (has_ucx)
		ucx_end();
	close(dev.efd);
	goals_of(&b, "weir uring");
	goals_of(&b, "weir ev");
	return bench_done(&b);
}
