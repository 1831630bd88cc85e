/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts: programs that are killed, paused and started, clocks, links, and
 * disturbances that the world draws. */

#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/un.h>

#include <weir/dma.h>
#include <weir/file.h>
#include <weir/job.h>
#include <weir/sim/file.h>
#include <weir/sim/host.h>
#include <weir/sim/memory.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/timer.h>
#include <weir/watch.h>

#define BIT(kind) (UINT64_C(1) << (kind))

/* A program with all kinds of objects, which counts its callbacks. */
struct program {
	struct weir_sim_host *host;
	struct weir_reactor *r;
	struct weir_op op, sleep;
	struct weir_timer *timer;
	struct weir_acceptor *acceptor;
	struct weir_receiver *receiver;
	struct weir_event *event;
	struct weir_poller *poller;
	void (*begin)(struct program *p);	/* After the reactor is there. */
	int listener, fd, conn;
	char *mem;		/* Its own; freed by gone(). */
	char buf[64];
	int64_t res;
	int calls, starts, gones, got;
};

static void program_start(struct weir_sim_host *host, void *arg)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct program *p = arg;

	p->starts++;
	p->mem = malloc(100);
	memset(&p->op, 0, sizeof(p->op));
	memset(&p->sleep, 0, sizeof(p->sleep));
	opts.sim = weir_sim_host_world(host);
	assert_int_equal(weir_reactor_create(&p->r, &opts), 0);
	if (p->begin)
		p->begin(p);
}

static void program_gone(void *arg)
{
	struct program *p = arg;

	p->gones++;
	free(p->mem);
	p->mem = NULL;
	p->r = NULL;
}

static struct weir_sim *world(uint64_t seed, uint64_t faults)
{
	struct weir_sim_opts opts = { .size = sizeof(opts), .faults = faults };
	struct weir_sim *sim;

	opts.rate = 16;
	assert_int_equal(weir_sim_create(&sim, seed, &opts), 0);
	return sim;
}

static void add_with(struct program *p, struct weir_sim *sim,
		     struct weir_sim_host_opts opts)
{
	opts.size = sizeof(opts);
	opts.start = program_start;
	opts.gone = program_gone;
	opts.arg = p;
	assert_int_equal(weir_sim_host_create(&p->host, sim, &opts), 0);
	assert_int_equal(weir_sim_host_start(p->host), 0);
}

static void add(struct program *p, struct weir_sim *sim, const char *name)
{
	add_with(p, sim, (struct weir_sim_host_opts){ .name = name });
}

static void run_ms(struct weir_sim *sim, uint64_t ms)
{
	assert_true(weir_sim_run(sim, ms * WEIR_MSEC, 0) >= 0);
}

static void on_op(struct weir_op *op, int64_t res)
{
	struct program *p = weir_container_of(op, struct program, op);

	p->res = res;
	p->calls++;
}

static void on_sleep(struct weir_op *op, int64_t res)
{
	struct program *p = weir_container_of(op, struct program, sleep);

	(void)res;
	p->calls++;
}

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n;
	((struct program *)arg)->calls++;
}

static void on_event(struct weir_event *event, uint64_t n, void *arg)
{
	(void)event, (void)n;
	((struct program *)arg)->calls++;
}

static int on_poll(struct weir_poller *poller, void *arg)
{
	(void)poller;
	((struct program *)arg)->calls++;
	return 0;
}

static int on_data(struct weir_receiver *receiver, void *data, int64_t len,
		   void *arg)
{
	struct program *p = arg;

	(void)receiver, (void)data;
	p->calls++;
	if (len > 0)
		p->got += (int)len;
	else
		p->res = len;
	return 0;
}

static void on_conn(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct program *p = arg;

	(void)acceptor;
	p->calls++;
	p->conn = fd;
	assert_int_equal(weir_receiver_create(&p->receiver, p->r, fd, NULL, on_data,
					      p), 0);
}

/* Something of everything is in flight. */
static void begin_all(struct program *p)
{
	struct weir_sim *sim = weir_sim_host_world(p->host);

	p->op.fn = on_op;
	p->sleep.fn = on_sleep;
	assert_int_equal(weir_sim_listen(sim, &p->listener, "a:1", 4), 0);
	assert_int_equal(weir_acceptor_create(&p->acceptor, p->r, p->listener,
					      on_conn, p), 0);
	assert_int_equal(weir_timer_create(&p->timer, p->r, on_timer, p), 0);
	weir_timer_start(p->timer, 0, WEIR_MSEC);
	assert_int_equal(weir_event_create(&p->event, p->r, on_event, p), 0);
	assert_int_equal(weir_poller_create(&p->poller, p->r, WEIR_MSEC,
					    on_poll, p), 0);
	assert_int_equal(weir_sleep_until(p->r, &p->sleep,
					  weir_reactor_now(p->r) + WEIR_SEC),
			 0);
	assert_int_equal(weir_sim_socket(sim, &p->fd, "a:2"), 0);
	weir_op_set_deadline(&p->op, weir_reactor_now(p->r) + WEIR_SEC);
	assert_int_equal(weir_poll(p->r, &p->op, p->listener, WEIR_WRITABLE),
			 0);
}

/* A client, which sends to the listener of host a. */
static void on_connected(struct weir_op *op, int64_t res)
{
	struct program *p = weir_container_of(op, struct program, op);

	p->res = res;
	p->calls++;
	if (!res)
		assert_int_equal(weir_receiver_create(&p->receiver, p->r, p->fd, NULL,
						      on_data, p), 0);
}

static void begin_client(struct program *p)
{
	static const struct sockaddr_un to = { AF_UNIX, "a:1" };
	struct weir_sim *sim = weir_sim_host_world(p->host);

	p->op.fn = on_connected;
	assert_int_equal(weir_sim_socket(sim, &p->fd, "b"), 0);
	assert_int_equal(weir_connect(p->r, &p->op, p->fd, (const void *)&to,
				      sizeof(to)), 0);
}

/* A server and its client, connected. */
static struct weir_sim *pair(struct program *a, struct program *b,
			     uint64_t seed)
{
	struct weir_sim *sim = world(seed, 0);

	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	a->begin = begin_all;
	b->begin = begin_client;
	add(a, sim, "a");
	run_ms(sim, 1);
	add(b, sim, "b");
	run_ms(sim, 10);
	assert_int_equal(b->res, 0);
	assert_int_equal(b->calls, 1);
	assert_non_null(a->receiver);
	return sim;
}

static void killed_program_runs_no_callback(void **state)
{
	struct program a, b;
	struct weir_sim *sim = pair(&a, &b, 1);
	int calls = a.calls;

	(void)state;
	assert_true(calls > 10);
	assert_int_equal(weir_sim_write(b.fd, "x", 1), 1);
	weir_event_signal(a.event);
	assert_int_equal(weir_sim_host_kill(a.host), 0);
	assert_int_equal(a.gones, 1);
	assert_int_equal(weir_sim_host_state(a.host), WEIR_SIM_HOST_DOWN);
	run_ms(sim, 5000);
	assert_int_equal(a.calls, calls);
	assert_false(weir_op_is_busy(&a.op));
	assert_false(weir_op_is_busy(&a.sleep));
	assert_int_equal(weir_sim_close(a.listener), -EBADF);
	assert_int_equal(weir_sim_close(a.conn), -EBADF);
	assert_int_equal(weir_sim_host_start(a.host), 0);
	run_ms(sim, 5);
	assert_int_equal(a.starts, 2);
	assert_true(a.calls > calls);
	assert_int_equal(weir_sim_destroy(sim), 0);
	assert_int_equal(a.gones, 2);
	assert_int_equal(b.gones, 1);
}

static void on_suicide(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct program *p = arg;

	(void)timer, (void)n;
	p->calls++;
	if (p->calls == 1) {
		assert_int_equal(weir_sim_host_kill(p->host), 0);
		assert_int_equal(p->gones, 0);
		assert_int_equal(weir_sim_host_kill(p->host), -EALREADY);
		assert_int_equal(weir_sim_host_power_off(p->host), 0);
	}
}

static void begin_suicide(struct program *p)
{
	assert_int_equal(weir_timer_create(&p->timer, p->r, on_suicide, p), 0);
	weir_timer_start(p->timer, 0, 1);
}

static void program_that_kills_itself_ends_after_its_turn(void **state)
{
	struct program a = { .begin = begin_suicide };
	struct weir_sim *sim = world(1, 0);

	(void)state;
	add(&a, sim, "a");
	run_ms(sim, 1000);
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.gones, 1);
	assert_int_equal(weir_sim_host_state(a.host), WEIR_SIM_HOST_OFF);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void begin_write(struct program *p)
{
	p->op.fn = on_op;
	p->fd = weir_sim_file_open(weir_sim_host_world(p->host), "a/f",
				   O_RDWR | O_CREAT, 0600);
	assert_true(p->fd >= 0);
	assert_int_equal(weir_write(p->r, &p->op, p->fd, "written", 7, 0), 0);
}

/* How many of 64 seeds keep what was written, but not synced. */
static int kept_of(int (*end)(struct weir_sim_host *host))
{
	int kept = 0;

	for (uint64_t seed = 0; seed < 64; seed++) {
		struct program a = { .begin = begin_write };
		struct weir_sim *sim = world(seed, 0);

		add(&a, sim, "a");
		run_ms(sim, 10);
		assert_int_equal(a.res, 7);
		assert_int_equal(end(a.host), 0);
		kept += weir_sim_file_size(sim, "a/f") == 7;
		assert_int_equal(weir_sim_destroy(sim), 0);
	}
	return kept;
}

static void kill_keeps_the_page_cache_and_power_off_does_not(void **state)
{
	int kept;

	(void)state;
	assert_int_equal(kept_of(weir_sim_host_kill), 64);
	kept = kept_of(weir_sim_host_power_off);
	assert_in_range(kept, 1, 63);
}

static void peer_of_killed_program_sees_the_end_of_the_stream(void **state)
{
	struct program a, b;
	struct weir_sim *sim = pair(&a, &b, 3);

	(void)state;
	b.res = 1;
	assert_int_equal(weir_sim_host_kill(a.host), 0);
	run_ms(sim, 10);
	assert_int_equal(b.res, 0);
	assert_int_equal(weir_sim_host_kill(b.host), 0);
	assert_int_equal(weir_sim_host_start(b.host), 0);
	run_ms(sim, 10);
	assert_int_equal(b.res, -ECONNREFUSED);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void peer_of_host_without_power_hears_nothing_until_it_starts(
	void **state)
{
	struct program a, b;
	struct weir_sim *sim = pair(&a, &b, 4);

	(void)state;
	b.res = 1;
	assert_int_equal(weir_sim_host_power_off(a.host), 0);
	assert_int_equal(weir_sim_write(b.fd, "x", 1), 1);
	run_ms(sim, 60000);
	assert_int_equal(b.res, 1);
	assert_int_equal(weir_sim_host_start(a.host), 0);
	run_ms(sim, 10);
	assert_int_equal(b.res, -ECONNRESET);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void connect_to_host_without_power_waits(void **state)
{
	struct program a, b;
	struct weir_sim *sim = pair(&a, &b, 5);

	(void)state;
	assert_int_equal(weir_sim_host_power_off(a.host), 0);
	assert_int_equal(weir_sim_host_kill(b.host), 0);
	assert_int_equal(weir_sim_host_start(b.host), 0);
	b.calls = 0;
	run_ms(sim, 100);
	assert_int_equal(b.calls, 0);
	assert_int_equal(weir_sim_host_start(a.host), 0);
	run_ms(sim, 2000);
	assert_int_equal(b.calls, 1);
	assert_int_equal(b.res, 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void paused_program_makes_no_turns_and_its_clock_goes_on(void **state)
{
	struct program a, b;
	struct weir_sim *sim = pair(&a, &b, 6);
	uint64_t now = weir_sim_host_now(a.host);
	int calls = a.calls;

	(void)state;
	assert_int_equal(weir_sim_host_pause(a.host, 1), 0);
	assert_int_equal(weir_sim_host_pause(a.host, 1), -EALREADY);
	assert_int_equal(weir_sim_write(b.fd, "x", 1), 1);
	run_ms(sim, 1000);
	assert_int_equal(a.calls, calls);
	assert_int_equal(weir_sim_host_now(a.host) - now, WEIR_SEC);
	assert_int_equal(weir_sim_host_pause(a.host, 0), 0);
	assert_int_equal(weir_sim_host_pause(a.host, 0), -EALREADY);
	run_ms(sim, 1);
	assert_int_equal(a.got, 1);
	assert_int_equal(weir_sim_host_kill(a.host), 0);
	assert_int_equal(weir_sim_host_pause(a.host, 1), -ESRCH);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void begin_sleep(struct program *p)
{
	p->sleep.fn = on_sleep;
	assert_int_equal(weir_sleep_until(p->r, &p->sleep,
					  weir_reactor_now(p->r) +
					  10 * WEIR_SEC), 0);
}

static void host_has_a_clock_of_its_own(void **state)
{
	struct program a = { .begin = begin_sleep }, b = a;
	struct weir_sim *sim = world(7, 0);
	uint64_t apart;

	(void)state;
	add_with(&a, sim, (struct weir_sim_host_opts){
		.name = "a", .ahead_ns = 3600 * WEIR_SEC });
	add_with(&b, sim, (struct weir_sim_host_opts){
		.name = "b", .drift = 100000000 });
	run_ms(sim, 9000);
	assert_int_equal(b.calls, 0);
	apart = weir_reactor_now(b.r) - weir_sim_now(sim);
	assert_int_equal(apart, 900 * WEIR_MSEC);
	assert_int_equal(weir_reactor_now(a.r) - weir_sim_now(sim),
			 3600 * WEIR_SEC);
	run_ms(sim, 100);
	assert_int_equal(b.calls, 1);
	assert_int_equal(a.calls, 0);
	run_ms(sim, 1000);
	assert_int_equal(a.calls, 1);
	assert_int_equal(weir_sim_host_set_drift(b.host, 100000001), -EINVAL);
	apart = weir_reactor_now(b.r) - weir_sim_now(sim);
	assert_int_equal(weir_sim_host_set_drift(b.host, 0), 0);
	run_ms(sim, 1000);
	assert_int_equal(weir_reactor_now(b.r) - weir_sim_now(sim), apart);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void host_has_a_wall_clock(void **state)
{
	struct program a = { .begin = NULL }, b = a;
	struct weir_sim *sim = world(7, 0);
	uint64_t day = 24 * 3600 * WEIR_SEC;

	(void)state;
	add(&a, sim, "a");
	add_with(&b, sim, (struct weir_sim_host_opts){
		.name = "b", .wall_ns = 20000 * day, .drift = 100000000 });
	assert_int_equal(weir_sim_host_wall(a.host), 1000000000 * WEIR_SEC);
	assert_int_equal(weir_sim_host_wall(b.host), 20000 * day);
	run_ms(sim, 10000);
	assert_int_equal(weir_sim_host_wall(a.host), 1000000010 * WEIR_SEC);
	assert_int_equal(weir_sim_host_wall(b.host), 20000 * day + 11 * WEIR_SEC);
	weir_sim_host_set_wall(a.host, day);
	assert_int_equal(weir_sim_host_wall(a.host), day);
	assert_int_equal(weir_sim_host_now(a.host), weir_sim_now(sim));
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void on_signal(struct weir_signal *signal,
		      const struct signalfd_siginfo *info, void *arg)
{
	struct program *p = arg;

	(void)signal;
	p->calls++;
	p->res = info->ssi_signo;
}

static void begin_signal(struct program *p)
{
	struct weir_signal *signal;

	assert_int_equal(weir_signal_create(&signal, p->r, SIGTERM, on_signal,
					    p), 0);
	assert_int_equal(weir_signal_create(&signal, p->r, SIGTERM, on_signal,
					    p), -EBUSY);
	assert_int_equal(weir_signal_create(&signal, p->r, SIGKILL, on_signal,
					    p), -EINVAL);
}

static void program_gets_its_signals(void **state)
{
	struct program a = { .begin = begin_signal }, b = { .begin = NULL };
	struct weir_sim *sim = world(9, 0);

	(void)state;
	add(&a, sim, "a");
	add(&b, sim, "b");
	run_ms(sim, 10);
	assert_int_equal(weir_sim_signal(sim, a.host, SIGTERM), 0);
	assert_int_equal(weir_sim_signal(sim, a.host, SIGTERM), 0);
	run_ms(sim, 10);
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.res, SIGTERM);
	assert_int_equal(weir_sim_signal(sim, a.host, SIGCHLD), 0);
	assert_int_equal(weir_sim_signal(sim, a.host, SIGSTOP), 0);
	assert_int_equal(weir_sim_host_state(a.host), WEIR_SIM_HOST_PAUSED);
	assert_int_equal(weir_sim_signal(sim, a.host, SIGTERM), 0);
	run_ms(sim, 10);
	assert_int_equal(a.calls, 1);
	assert_int_equal(weir_sim_signal(sim, a.host, SIGCONT), 0);
	run_ms(sim, 10);
	assert_int_equal(a.calls, 2);
	/* Who does not ask for it is killed. */
	assert_int_equal(weir_sim_signal(sim, b.host, SIGTERM), 0);
	assert_int_equal(weir_sim_host_state(b.host), WEIR_SIM_HOST_DOWN);
	assert_int_equal(weir_sim_signal(sim, b.host, SIGTERM), -ESRCH);
	assert_int_equal(weir_sim_signal(sim, a.host, SIGKILL), 0);
	assert_int_equal(a.gones, 1);
	assert_int_equal(weir_sim_signal(sim, NULL, SIGTERM), -ESRCH);
	assert_int_equal(weir_sim_signal(sim, NULL, 0), -EINVAL);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void signal_reaches_what_is_on_no_host(void **state)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_signal *signal;
	struct program p = { .calls = 0 };

	(void)state;
	opts.sim = world(9, 0);
	assert_int_equal(weir_reactor_create(&p.r, &opts), 0);
	assert_int_equal(weir_signal_create(&signal, p.r, SIGHUP, on_signal,
					    &p), 0);
	assert_int_equal(weir_sim_signal(opts.sim, NULL, SIGHUP), 0);
	run_ms(opts.sim, 1);
	assert_int_equal(p.calls, 1);
	weir_signal_destroy(signal);
	assert_int_equal(weir_sim_signal(opts.sim, NULL, SIGHUP), -ESRCH);
	assert_int_equal(weir_reactor_destroy(p.r), 0);
	assert_int_equal(weir_sim_destroy(opts.sim), 0);
}

#define IN(ip, port) \
	(struct sockaddr *)&(struct sockaddr_in){ \
		.sin_family = AF_INET, .sin_port = htons(port), \
		.sin_addr.s_addr = inet_addr(ip) }, \
	(socklen_t)sizeof(struct sockaddr_in)

static void hosts_have_internet_addresses(void **state)
{
	struct program a = { .begin = NULL }, b = a;
	struct weir_sim *sim = world(9, 0);
	struct sockaddr_storage got;
	struct sockaddr_in *in = (struct sockaddr_in *)&got;
	struct sockaddr_un un = { AF_UNIX, "run/s" };
	socklen_t len = sizeof(got);
	int l, c, s, u, uc;

	(void)state;
	add(&a, sim, "a");
	add(&b, sim, "b");
	assert_string_equal(weir_sim_host_name(b.host), "b");
	assert_int_equal(weir_sim_host_address(b.host), 0x0a000002);
	assert_null(weir_sim_host_here());
	run_ms(sim, 1);
	assert_int_equal(weir_sim_host_socket(a.host, &l, AF_INET), 0);
	assert_int_equal(weir_sim_host_socket(a.host, &l, AF_PACKET),
			 -EAFNOSUPPORT);
	assert_int_equal(weir_sim_bound_listen(l, 1), -EINVAL);
	assert_int_equal(weir_sim_bind(l, (struct sockaddr *)&un, sizeof(un)),
			 -EAFNOSUPPORT);
	assert_int_equal(weir_sim_bind(l, IN("0.0.0.0", 80)), 0);
	assert_int_equal(weir_sim_bind(l, IN("0.0.0.0", 80)), -EINVAL);
	assert_int_equal(weir_sim_bound_listen(l, 4), 0);
	assert_int_equal(weir_sim_bound_listen(l, 5), 0);
	assert_int_equal(weir_sim_getsockname(l, (struct sockaddr *)&got, &len),
			 0);
	assert_int_equal(ntohl(in->sin_addr.s_addr), 0x0a000001);
	assert_int_equal(ntohs(in->sin_port), 80);

	/* From the other host by its address, from there also as itself. */
	assert_int_equal(weir_sim_host_socket(b.host, &c, AF_INET), 0);
	assert_int_equal(weir_sim_connect(c, IN("10.0.0.1", 80)), -EINPROGRESS);
	run_ms(sim, 1000);
	s = weir_sim_accept(l);
	assert_true(s >= 0);
	assert_int_equal(weir_sim_poll(c, WEIR_READABLE | WEIR_WRITABLE),
			 WEIR_WRITABLE);
	len = sizeof(got);
	assert_int_equal(weir_sim_getpeername(s, (struct sockaddr *)&got, &len),
			 0);
	assert_int_equal(len, sizeof(*in));
	assert_int_equal(ntohl(in->sin_addr.s_addr), 0x0a000002);
	assert_int_equal(ntohs(in->sin_port), 32768);
	assert_int_equal(weir_sim_close_resets(s, 1), 0);
	assert_int_equal(weir_sim_close(s), 0);
	run_ms(sim, 1000);
	assert_int_equal(weir_sim_take_error(c), -ECONNRESET);
	assert_int_equal(weir_sim_take_error(c), 0);
	assert_int_equal(weir_sim_host_socket(a.host, &c, AF_INET), 0);
	assert_int_equal(weir_sim_connect(c, IN("127.0.0.1", 80)), -EINPROGRESS);
	run_ms(sim, 1000);
	assert_true(weir_sim_accept(l) >= 0);
	assert_int_equal(weir_sim_host_socket(b.host, &c, AF_INET), 0);
	assert_int_equal(weir_sim_connect(c, IN("127.0.0.1", 80)), -EINPROGRESS);
	run_ms(sim, 1000);
	assert_int_equal(weir_sim_take_error(c), -ECONNREFUSED);

	/* A path is one of the host's; port 0 is one that is free. */
	assert_int_equal(weir_sim_host_socket(a.host, &u, AF_UNIX), 0);
	assert_int_equal(weir_sim_bind(u, (struct sockaddr *)&un, sizeof(un)),
			 0);
	assert_int_equal(weir_sim_bound_listen(u, 1), 0);
	assert_int_equal(weir_sim_host_socket(a.host, &uc, AF_UNIX), 0);
	assert_int_equal(weir_sim_connect(uc, (struct sockaddr *)&un,
					  sizeof(un)), -EINPROGRESS);
	run_ms(sim, 1000);
	assert_true(weir_sim_accept(u) >= 0);
	assert_int_equal(weir_sim_host_socket(a.host, &c, AF_INET), 0);
	assert_int_equal(weir_sim_bind(c, IN("10.0.0.1", 80)), -EADDRINUSE);
	assert_int_equal(weir_sim_bind(c, IN("10.0.0.1", 0)), 0);
	assert_int_equal(weir_sim_bound_listen(c, 0), 0);
	len = sizeof(got);
	assert_int_equal(weir_sim_getsockname(c, (struct sockaddr *)&got, &len),
			 0);
	assert_int_equal(ntohs(in->sin_port), 49152);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void begin_open(struct program *p)
{
	p->op.fn = on_op;
	assert_int_equal(weir_open(p->r, &p->op, AT_FDCWD, "/data/log",
				   O_RDWR | O_CREAT, 0600), 0);
}

static void program_sees_the_tree_of_its_host(void **state)
{
	struct program a = { .begin = begin_open }, b = a;
	struct weir_sim *sim = world(8, 0);

	(void)state;
	add(&a, sim, "a");
	add(&b, sim, "b");
	run_ms(sim, 10);
	assert_true(a.res >= 0 && b.res >= 0);
	assert_int_equal(weir_sim_file_size(sim, "a/data/log"), 0);
	assert_int_equal(weir_sim_file_size(sim, "b/data/log"), 0);
	assert_int_equal(weir_sim_file_size(sim, "data/log"), -ENOENT);
	assert_int_equal(weir_sim_host_kill(a.host), 0);
	assert_int_equal(weir_sim_close((int)a.res), -EBADF);
	assert_int_equal(weir_sim_close((int)b.res), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void set_link(struct program *from, struct program *to, uint32_t cut,
		     uint64_t min_ns, uint64_t bytes_per_s)
{
	struct weir_sim_link link = { .size = sizeof(link), .cut = cut,
				      .min_ns = min_ns,
				      .bytes_per_s = bytes_per_s };

	assert_int_equal(weir_sim_host_link(from->host, to->host, &link), 0);
}

static void cut_of_one_direction_leaves_the_other(void **state)
{
	static char block[1 << 20];
	struct program a, b;
	struct weir_sim *sim = pair(&a, &b, 9);
	ssize_t n, sum = 0;

	(void)state;
	set_link(&a, &b, 1, 0, 0);
	assert_int_equal(weir_sim_write(a.conn, "held", 4), 4);
	for (int i = 0; i < 10; i++) {
		n = weir_sim_write(b.fd, block, sizeof(block));
		sum += n > 0 ? n : 0;
		run_ms(sim, 10);
	}
	assert_int_equal(b.got, 0);
	assert_int_equal(a.got, sum);
	assert_int_equal(sum, 65536);	/* Nothing was acknowledged. */
	set_link(&a, &b, 0, 0, 0);
	run_ms(sim, 10);
	if (b.got == 4)			/* Else it has timed out. */
		assert_true(weir_sim_write(b.fd, block, 9) == 9);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void connect_needs_both_directions(void **state)
{
	struct program a, b;
	struct weir_sim *sim = pair(&a, &b, 10);

	(void)state;
	for (int way = 0; way < 2; way++) {
		set_link(way ? &a : &b, way ? &b : &a, 1, 0, 0);
		assert_int_equal(weir_sim_host_kill(b.host), 0);
		assert_int_equal(weir_sim_host_start(b.host), 0);
		b.calls = 0;
		run_ms(sim, 500);
		assert_int_equal(b.calls, 0);
		set_link(way ? &a : &b, way ? &b : &a, 0, 0, 0);
		run_ms(sim, 2000);
		assert_int_equal(b.calls, 1);
		assert_int_equal(b.res, 0);
	}
	set_link(&a, &b, 1, 0, 0);
	assert_int_equal(weir_sim_host_kill(b.host), 0);
	assert_int_equal(weir_sim_host_start(b.host), 0);
	run_ms(sim, 200000);
	assert_int_equal(b.res, -ETIMEDOUT);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void link_has_latency_and_bandwidth(void **state)
{
	static char block[50000];
	struct program a, b;
	struct weir_sim *sim = pair(&a, &b, 11);

	(void)state;
	set_link(&b, &a, 0, 100 * WEIR_MSEC, 0);
	assert_int_equal(weir_sim_write(b.fd, "x", 1), 1);
	run_ms(sim, 99);
	assert_int_equal(a.got, 0);
	run_ms(sim, 2);
	assert_int_equal(a.got, 1);
	set_link(&b, &a, 0, 0, 100000);		/* Half a second. */
	assert_int_equal(weir_sim_write(b.fd, block, sizeof(block)),
			 sizeof(block));
	run_ms(sim, 480);
	assert_true(a.got < (int)sizeof(block));
	run_ms(sim, 40);
	assert_int_equal(a.got, 1 + sizeof(block));
	assert_int_equal(weir_sim_destroy(sim), 0);
}

/* A program that repeats an operation for ever. */
static void on_busy(struct weir_op *op, int64_t res)
{
	struct program *p = weir_container_of(op, struct program, op);

	p->calls++;
	p->got += res < 0;
	assert_int_equal(weir_write(p->r, &p->op, p->fd, "x", 1, 0), 0);
}

static void begin_busy(struct program *p)
{
	char path[80];

	p->op.fn = on_busy;
	snprintf(path, sizeof(path), "%s/f", p->buf);
	p->fd = weir_sim_file_open(weir_sim_host_world(p->host), path,
				   O_RDWR | O_CREAT, 0600);
	assert_int_equal(weir_write(p->r, &p->op, p->fd, "x", 1, 0), 0);
}

static void add_busy(struct program *p, struct weir_sim *sim, const char *name,
		     struct weir_sim_host_opts opts)
{
	*p = (struct program){ .begin = begin_busy };
	snprintf(p->buf, sizeof(p->buf), "%s", name);
	opts.name = name;
	add_with(p, sim, opts);
}

static void host_has_faults_of_its_own(void **state)
{
	struct weir_sim_opts opts = { .size = sizeof(opts),
				      .faulty_hosts = "c,b" };
	struct program a, b, c;
	struct weir_sim *sim = world(12, BIT(WEIR_SIM_ERROR));

	(void)state;
	add_busy(&a, sim, "a", (struct weir_sim_host_opts){
		.flags = WEIR_SIM_HOST_HEALTHY });
	add_busy(&b, sim, "b", (struct weir_sim_host_opts){ .rate = 4 });
	add_busy(&c, sim, "c", (struct weir_sim_host_opts){
		.faults = BIT(WEIR_SIM_DELAY) });
	run_ms(sim, 100);
	assert_int_equal(a.got, 0);
	assert_int_equal(c.got, 0);
	assert_in_range(b.got, b.calls / 8, b.calls / 2);
	assert_int_equal(weir_sim_destroy(sim), 0);

	opts.faults = BIT(WEIR_SIM_ERROR);
	assert_int_equal(weir_sim_create(&sim, 12, &opts), 0);
	add_busy(&a, sim, "a", (struct weir_sim_host_opts){ .rate = 4 });
	add_busy(&b, sim, "b", (struct weir_sim_host_opts){ .rate = 4 });
	run_ms(sim, 100);
	assert_int_equal(a.got, 0);
	assert_true(b.got > 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static int state_of(const struct program *p)
{
	return weir_sim_host_state(p->host);
}

#define DISTURBANCES \
	(BIT(WEIR_SIM_KILL) | BIT(WEIR_SIM_POWER) | BIT(WEIR_SIM_PAUSE) | \
	 BIT(WEIR_SIM_PARTITION))

/* Three hosts, of which at most @most are disturbed.  Returns the digest. */
static uint64_t disturb(uint64_t seed, uint32_t most, int *seen, int *starts)
{
	struct weir_sim *sim = world(seed, DISTURBANCES);
	static const char *const names[] = { "a", "b", "c" };
	struct program p[3];
	uint64_t digest;
	int down;

	weir_sim_hosts_max_disturbed(sim, most);
	for (int i = 0; i < 3; i++)
		add_busy(&p[i], sim, names[i], (struct weir_sim_host_opts){
			.recovery_ns = WEIR_MSEC });
	run_ms(sim, 1);
	for (int n = 0; n < 200; n++) {
		assert_true(weir_sim_run(sim, WEIR_MSEC, 0) >= 0);
		down = 0;
		for (int i = 0; i < 3; i++)
			down += state_of(&p[i]) != WEIR_SIM_HOST_RUNNING;
		assert_true((uint32_t)down <= most);
		*seen |= 1 << down;
	}
	weir_sim_set_faults(sim, 0);
	run_ms(sim, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(state_of(&p[i]), WEIR_SIM_HOST_RUNNING);
		assert_int_equal(p[i].starts, p[i].gones + 1);
		*starts += p[i].starts;
	}
	digest = weir_sim_digest(sim);
	assert_int_equal(weir_sim_destroy(sim), 0);
	return digest;
}

static void world_disturbs_at_most_so_many_hosts(void **state)
{
	int seen = 0, starts = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 5; seed++)
		disturb(seed, 1, &seen, &starts);
	assert_int_equal(seen, 3);
	assert_true(starts > 15);
	for (uint64_t seed = 0; seed < 5; seed++)
		disturb(seed, 3, &seen, &starts);
	assert_true(seen & 8);
}

static void same_seed_disturbs_alike(void **state)
{
	int seen, starts;

	(void)state;
	for (uint64_t seed = 20; seed < 24; seed++)
		assert_int_equal(disturb(seed, 2, &seen, &starts),
				 disturb(seed, 2, &seen, &starts));
}

/* A program that copies to a peer. */
static struct weir_sim_peer *peer;

static void on_copied(struct weir_op *op, int64_t res)
{
	struct program *p = op->data;

	p->calls++;
	p->res = res;
}

static void begin_copy(struct program *p)
{
	static struct weir_job job;
	static char text[6] = "text";
	struct weir_dma *dma;

	weir_job_init(&job, on_copied);
	job.op.data = p;
	assert_int_equal(weir_dma_create(&dma, p->r, NULL), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	weir_job_copy(&job, weir_operand_at(weir_sim_peer_domain(peer), 0, 6),
		      weir_operand_mem(text, 6));
	p->got = weir_job_start(dma, &job);
}

/* Its reactor cannot be freed without its DMA context, and stays. */
static void program_with_a_dma_context_is_killed_like_others(void **state)
{
	const struct weir_sim_peer_opts opts = { .size = sizeof(opts),
						 .bytes = 6 };
	struct program a = { .begin = begin_copy };
	struct weir_sim *sim = world(13, 0);

	(void)state;
	assert_int_equal(weir_sim_peer_create(&peer, sim, &opts), 0);
	add(&a, sim, "a");
	run_ms(sim, 10);
	for (int i = 1; i < 4; i++) {
		assert_int_equal(a.starts, i);
		/* Peers are not for programs that can be killed. */
		assert_int_equal(a.calls ? a.res : a.got, -EOPNOTSUPP);
		assert_int_equal(weir_sim_host_kill(a.host), 0);
		assert_int_equal(a.gones, i);
		assert_int_equal(weir_sim_host_start(a.host), 0);
		run_ms(sim, 10);
	}
	assert_int_equal(weir_sim_host_kill(a.host), 0);
	assert_int_equal(weir_sim_peer_destroy(peer), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static void invalid_hosts_are_refused(void **state)
{
	static const char *const bad[] = { NULL, "", "a/b", "a:b", "a,b" };
	struct weir_sim_host_opts opts = { .size = sizeof(opts),
					   .start = program_start };
	struct weir_sim_link link = { .size = sizeof(link) };
	struct weir_sim *sim = world(1, 0);
	struct weir_sim_host *host;
	struct program a = { .begin = NULL };

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		opts.name = bad[i];
		assert_int_equal(weir_sim_host_create(&host, sim, &opts),
				 -EINVAL);
	}
	opts.name = "a";
	opts.start = NULL;
	assert_int_equal(weir_sim_host_create(&host, sim, &opts), -EINVAL);
	opts.start = program_start;
	opts.flags = 2;
	assert_int_equal(weir_sim_host_create(&host, sim, &opts), -EINVAL);
	opts.flags = 0;
	opts.drift = -100000001;
	assert_int_equal(weir_sim_host_create(&host, sim, &opts), -EINVAL);
	opts.drift = 0;
	add(&a, sim, "a");
	assert_int_equal(weir_sim_host_create(&host, sim, &opts), -EEXIST);
	assert_int_equal(weir_sim_host_start(a.host), -EALREADY);
	assert_int_equal(weir_sim_host_link(a.host, a.host, &link), -EINVAL);
	opts.name = "file";
	assert_int_equal(weir_sim_file_write(sim, "file", "", 0, 0), 0);
	assert_int_equal(weir_sim_host_create(&host, sim, &opts), -EEXIST);
	run_ms(sim, 1);
	assert_int_equal(weir_sim_host_power_off(a.host), 0);
	assert_int_equal(weir_sim_host_power_off(a.host), -EALREADY);
	assert_int_equal(weir_sim_host_kill(a.host), -EALREADY);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static const struct harness_case cases[] = {
	CASE(killed_program_runs_no_callback),
	CASE(program_that_kills_itself_ends_after_its_turn),
	CASE(kill_keeps_the_page_cache_and_power_off_does_not),
	CASE(peer_of_killed_program_sees_the_end_of_the_stream),
	CASE(peer_of_host_without_power_hears_nothing_until_it_starts),
	CASE(connect_to_host_without_power_waits),
	CASE(paused_program_makes_no_turns_and_its_clock_goes_on),
	CASE(host_has_a_clock_of_its_own),
	CASE(host_has_a_wall_clock),
	CASE(program_gets_its_signals),
	CASE(signal_reaches_what_is_on_no_host),
	CASE(hosts_have_internet_addresses),
	CASE(program_sees_the_tree_of_its_host),
	CASE(cut_of_one_direction_leaves_the_other),
	CASE(connect_needs_both_directions),
	CASE(link_has_latency_and_bandwidth),
	CASE(host_has_faults_of_its_own),
	CASE(world_disturbs_at_most_so_many_hosts),
	CASE(same_seed_disturbs_alike),
	CASE(program_with_a_dma_context_is_killed_like_others),
	CASE(invalid_hosts_are_refused),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
