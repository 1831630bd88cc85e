/* SPDX-License-Identifier: BSD-3-Clause */
/* The way between two simulated sockets: its time, what it holds, how it cuts
 * and stalls; and watches on what is not always what it was said to be. */

#include "tests/support/harness.h"

#include <sys/un.h>

#include <weir/file.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/watch.h>

#define BIT(kind) (UINT64_C(1) << (kind))

struct wire {
	struct weir_sim *sim;
	struct weir_reactor *r;
	int fd[2];
	struct rec rec;
};

static void wire_begin(struct wire *w, uint64_t seed, uint64_t faults,
		       uint32_t rate)
{
	struct weir_sim_opts opts = { .size = sizeof(opts), .faults = faults,
				      .rate = rate };
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };

	assert_int_equal(weir_sim_create(&w->sim, seed, &opts), 0);
	ropts.sim = w->sim;
	assert_int_equal(weir_reactor_create(&w->r, &ropts), 0);
	assert_int_equal(weir_sim_socket_pair(w->sim, w->fd), 0);
	rec_init(&w->rec);
}

static void wire_end(struct wire *w)
{
	assert_int_equal(weir_reactor_destroy(w->r), 0);
	assert_int_equal(weir_sim_destroy(w->sim), 0);
}

static void run(struct wire *w)
{
	assert_true(weir_sim_run(w->sim, WEIR_FOREVER, 0) >= 0);
}

static void a_byte_takes_the_time_of_the_wire(void **state)
{
	struct wire w;
	char c;

	(void)state;
	wire_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_set_latency(w.sim, WEIR_SIM_WIRE,
					      3 * WEIR_SEC, 0), 0);
	assert_int_equal(weir_sim_write(w.fd[0], "x", 1), 1);
	weir_sim_run(w.sim, 3 * WEIR_SEC - 1, 0);
	assert_int_equal(weir_sim_read(w.fd[1], &c, 1), -EAGAIN);
	weir_sim_run(w.sim, 1, 0);
	assert_int_equal(weir_sim_read(w.fd[1], &c, 1), 1);
	/* And so does the news of an end. */
	assert_int_equal(weir_sim_shutdown(w.fd[1], SHUT_WR), 0);
	weir_sim_run(w.sim, 3 * WEIR_SEC - 1, 0);
	assert_int_equal(weir_sim_read(w.fd[0], &c, 1), -EAGAIN);
	weir_sim_run(w.sim, 1, 0);
	assert_int_equal(weir_sim_read(w.fd[0], &c, 1), 0);
	wire_end(&w);
}

/* As often as it takes; how many reads it took. */
static unsigned int reads_of(uint64_t seed, uint64_t wire_ns)
{
	char out[1000], in[1000];
	unsigned int n = 0;
	struct wire w;
	ssize_t got;
	size_t sum;

	wire_begin(&w, seed, 0, 0);
	weir_sim_set_latency(w.sim, WEIR_SIM_WIRE, 0, wire_ns);
	fill_pattern(out, sizeof(out), 0, 1);
	assert_int_equal(weir_sim_write(w.fd[0], out, 500), 500);
	assert_int_equal(weir_sim_write(w.fd[0], out + 500, 500), 500);
	for (sum = 0; sum < sizeof(in); sum += got > 0 ? (size_t)got : 0) {
		got = weir_sim_read(w.fd[1], in + sum, sizeof(in) - sum);
		n += got > 0;
		if (got <= 0)
			weir_sim_run(w.sim, WEIR_FOREVER, 1);
	}
	assert_memory_equal(in, out, sizeof(in));
	wire_end(&w);
	return n;
}

static void stream_is_cut_and_joined_by_chance(void **state)
{
	unsigned int seen[16] = { 0 }, kinds = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		unsigned int n = reads_of(seed, WEIR_MSEC);

		assert_in_range(n, 1, 15);
		kinds += !seen[n]++;
		assert_int_equal(reads_of(seed, 0), 1);
	}
	assert_true(kinds >= 4);
	assert_true(seen[1] > 0);
}

static void a_send_waits_for_capacity(void **state)
{
	static char out[300000], in[300000];
	struct weir_sim_socket_stats s = { .size = sizeof(s) };
	struct wire w;

	(void)state;
	wire_begin(&w, 1, 0, 0);
	fill_pattern(out, sizeof(out), 0, 2);
	assert_int_equal(weir_send(w.r, &w.rec.op, w.fd[0], out, sizeof(out),
				   0), 0);
	run(&w);
	assert_int_equal(w.rec.calls, 0);
	assert_int_equal(weir_sim_socket_stats(w.sim, &s), 0);
	assert_int_equal(s.held, 2 * 65536);
	assert_int_equal(s.sent, s.held);
	for (size_t sum = 0; sum < sizeof(in);) {
		ssize_t n = weir_sim_read(w.fd[1], in + sum, 10000);

		assert_true(n > 0 || n == -EAGAIN);
		sum += n > 0 ? (size_t)n : 0;
		run(&w);
	}
	assert_int_equal(w.rec.calls, 1);
	assert_int_equal(w.rec.res, sizeof(out));
	assert_memory_equal(in, out, sizeof(out));
	wire_end(&w);
}

static void stalled_bytes_come_when_the_world_is_healed(void **state)
{
	unsigned int late = 0, stuck = 0;
	struct wire w;
	ssize_t n;
	char c;

	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		wire_begin(&w, seed, BIT(WEIR_SIM_STALL), 1);
		/* Faults are of a run only. */
		assert_int_equal(weir_send(w.r, &w.rec.op, w.fd[0], "x", 1, 0),
				 0);
		weir_sim_run(w.sim, WEIR_MSEC / 2, 0);
		n = weir_sim_read(w.fd[1], &c, 1);
		late += n == -EAGAIN;
		weir_sim_run(w.sim, 300 * WEIR_SEC, 0);
		if (n < 0)
			n = weir_sim_read(w.fd[1], &c, 1);
		stuck += n == -EAGAIN;
		weir_sim_set_faults(w.sim, 0);
		run(&w);
		if (n < 0)
			n = weir_sim_read(w.fd[1], &c, 1);
		assert_int_equal(n, 1);
		wire_end(&w);
	}
	assert_true(late >= 40);
	assert_in_range(stuck, 5, 25);
}

static void received_bytes_are_read_after_a_shutdown_of_reading(void **state)
{
	struct wire w;
	char in[8];

	(void)state;
	wire_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_write(w.fd[0], "abc", 3), 3);
	run(&w);
	assert_int_equal(weir_sim_shutdown(w.fd[1], SHUT_RD), 0);
	assert_int_equal(weir_sim_read(w.fd[1], in, 2), 2);
	assert_int_equal(weir_sim_read(w.fd[1], in, 2), 1);
	assert_int_equal(weir_sim_read(w.fd[1], in, 2), 0);
	wire_end(&w);
}

/* A program of the old school: it reads until -EAGAIN whenever it is told. */
struct reader {
	struct weir_watch *watch;
	struct wire *w;
	size_t got;
	unsigned int calls, vain;
	bool all;
};

static void on_ready(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct reader *rd = arg;
	char in[3000];
	ssize_t n;

	assert_ptr_equal(watch, rd->watch);
	assert_true(events & WEIR_READABLE);
	rd->calls++;
	do {
		n = weir_sim_read(rd->w->fd[1], in, sizeof(in));
		assert_true(n > 0 || n == -EAGAIN);
		rd->vain += n < 0;
		if (n > 0)
			assert_true(is_pattern(in, (size_t)n, rd->got, 9));
		rd->got += n > 0 ? (size_t)n : 0;
	} while (rd->all && n > 0);
}

static unsigned int watched(uint64_t seed, uint32_t edge, uint64_t faults)
{
	static char out[100000];
	struct reader rd = { .all = edge };
	struct wire w;

	wire_begin(&w, seed, faults, 3);
	rd.w = &w;
	fill_pattern(out, sizeof(out), 0, 9);
	assert_int_equal(weir_watch_create(&rd.watch, w.r, w.fd[1],
					   WEIR_READABLE | edge, on_ready,
					   &rd), 0);
	assert_int_equal(weir_send(w.r, &w.rec.op, w.fd[0], out, sizeof(out),
				   0), 0);
	run(&w);
	if (faults & BIT(WEIR_SIM_STALL)) {
		weir_sim_set_faults(w.sim, 0);
		run(&w);
	}
	assert_int_equal(rd.got, sizeof(out));
	assert_int_equal(w.rec.res, sizeof(out));
	weir_watch_destroy(rd.watch);
	wire_end(&w);
	return rd.vain;
}

/* No news are lost by a read that was in vain. */
static void spurious_readiness_is_reported_again(void **state)
{
	unsigned int vain = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		assert_int_equal(watched(seed, 0, 0), 0);
		vain += watched(seed, 0, BIT(WEIR_SIM_EAGAIN));
		watched(seed, WEIR_EDGE, 0);
		watched(seed, WEIR_EDGE, BIT(WEIR_SIM_EAGAIN));
		watched(seed, WEIR_EDGE, BIT(WEIR_SIM_EAGAIN) |
			BIT(WEIR_SIM_SHORT) | BIT(WEIR_SIM_STALL));
	}
	assert_true(vain > 100);
}

static struct sockaddr_un server = { AF_UNIX, "server" };

static void a_connect_that_was_cancelled_goes_on(void **state)
{
	struct wire w;
	int l, c;

	(void)state;
	wire_begin(&w, 1, 0, 0);
	weir_sim_set_latency(w.sim, WEIR_SIM_WIRE, WEIR_SEC, 0);
	assert_int_equal(weir_sim_listen(w.sim, &l, "server", 1), 0);
	assert_int_equal(weir_sim_socket(w.sim, &c, "client"), 0);
	assert_int_equal(weir_connect(w.r, &w.rec.op, c,
				      (struct sockaddr *)&server,
				      sizeof(server)), 0);
	weir_sim_run(w.sim, WEIR_SEC / 2, 0);
	weir_op_cancel(&w.rec.op);
	weir_sim_run(w.sim, WEIR_MSEC, 0);
	assert_int_equal(w.rec.res, -ECANCELED);
	assert_int_equal(weir_sim_connect(c, (struct sockaddr *)&server,
					  sizeof(server)), -EALREADY);
	/* The second finds the first one's doing. */
	rec_init(&w.rec);
	assert_int_equal(weir_connect(w.r, &w.rec.op, c,
				      (struct sockaddr *)&server,
				      sizeof(server)), 0);
	run(&w);
	assert_int_equal(w.rec.res, 0);
	assert_true(weir_sim_accept(l) >= 0);
	wire_end(&w);
}

static void a_connect_without_a_reactor_is_told_by_readiness(void **state)
{
	struct wire w;
	int l, c;

	(void)state;
	wire_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_listen(w.sim, &l, "server", 1), 0);
	assert_int_equal(weir_sim_socket(w.sim, &c, "client"), 0);
	assert_int_equal(weir_sim_connect(c, (struct sockaddr *)&server,
					  sizeof(server)), -EINPROGRESS);
	assert_int_equal(weir_sim_write(c, "x", 1), -EAGAIN);
	assert_int_equal(weir_poll(w.r, &w.rec.op, c, WEIR_WRITABLE), 0);
	run(&w);
	assert_int_equal(w.rec.res, WEIR_WRITABLE);
	assert_int_equal(weir_sim_connect(c, (struct sockaddr *)&server,
					  sizeof(server)), -EISCONN);
	assert_int_equal(weir_sim_connect(l, (struct sockaddr *)&server,
					  sizeof(server)), -EINVAL);
	wire_end(&w);
}

static const struct harness_case cases[] = {
	CASE(a_byte_takes_the_time_of_the_wire),
	CASE(stream_is_cut_and_joined_by_chance),
	CASE(a_send_waits_for_capacity),
	CASE(stalled_bytes_come_when_the_world_is_healed),
	CASE(received_bytes_are_read_after_a_shutdown_of_reading),
	CASE(spurious_readiness_is_reported_again),
	CASE(a_connect_that_was_cancelled_goes_on),
	CASE(a_connect_without_a_reactor_is_told_by_readiness),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
