/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes wrong between simulated hosts, over many seeds: streams against a
 * model, partitions, power cuts.
 */

#include "tests/support/harness.h"

#include <sys/un.h>

#include <weir/file.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/watch.h>

#define BIT(kind) (UINT64_C(1) << (kind))
#define TOTAL 100000

/* A program of two hosts that send each other TOTAL bytes. */
struct host {
	struct peers *peers;
	struct weir_reactor *r;
	struct weir_receiver *receiver;
	struct rec out, in, down;
	unsigned int seed;	/* Of the pattern that it sends. */
	int fd;
	char buf[TOTAL], got_buf[TOTAL];
	size_t sent, got;
	bool said_all, heard_end, err;
};

struct peers {
	struct weir_sim *sim;
	struct weir_acceptor *acceptor;
	struct host host[2];
	int listener;
	struct sockaddr_un un;
};

static void say(struct host *h);
static void hear(struct host *h);

static bool is_done(const struct host *h)
{
	return h->said_all && h->heard_end;
}

/* What a program does about an error. */
static void give_up(struct host *h)
{
	h->err = true;
	weir_receiver_destroy(h->receiver);
	h->receiver = NULL;
	if (h->fd >= 0)
		weir_sim_close(h->fd);
	h->fd = -1;
}

static void on_down(struct weir_op *op, int64_t res)
{
	struct host *h = weir_container_of(op, struct host, down.op);

	rec_done(op, res);
	h->said_all = res == 0;
	if (res < 0)
		give_up(h);
}

static void on_said(struct weir_op *op, int64_t res)
{
	struct host *h = weir_container_of(op, struct host, out.op);

	rec_done(op, res);
	h->sent += (size_t)h->out.detail.bytes;
	weir_sim_note(h->peers->sim, "sent", h->sent);
	if (res < 0)
		give_up(h);
	else if (!h->err)
		say(h);
}

static void say(struct host *h)
{
	size_t n = 1 + weir_sim_random(h->peers->sim) % 30000;

	if (n > TOTAL - h->sent)
		n = TOTAL - h->sent;
	rec_init(&h->out);
	rec_init(&h->down);
	h->out.op.fn = on_said;
	h->down.op.fn = on_down;
	if (!n)
		assert_int_equal(weir_shutdown(h->r, &h->down.op, h->fd,
					       SHUT_WR), 0);
	else if (n & 1)
		assert_int_equal(weir_send(h->r, &h->out.op, h->fd,
					   h->buf + h->sent, n, 0), 0);
	else
		assert_int_equal(weir_write(h->r, &h->out.op, h->fd,
					    h->buf + h->sent, n,
					    WEIR_OFF_STREAM), 0);
}

static void heard(struct host *h, int64_t res)
{
	struct host *peer = &h->peers->host[h == &h->peers->host[0]];

	if (res > 0) {
		assert_true(h->got + (size_t)res <= TOTAL);
		assert_true(is_pattern(h->got_buf + h->got, (size_t)res,
				       h->got, peer->seed));
		h->got += (size_t)res;
	}
	h->heard_end |= res == 0;
	if (res < 0)
		give_up(h);
	weir_sim_note(h->peers->sim, "got", h->got);
}

static void on_heard(struct weir_op *op, int64_t res)
{
	struct host *h = weir_container_of(op, struct host, in.op);

	rec_done(op, res);
	heard(h, res);
	if (res > 0 && !h->err)
		hear(h);
}

static void hear(struct host *h)
{
	size_t n = 1 + weir_sim_random(h->peers->sim) % 20000;

	if (n > TOTAL - h->got)
		n = TOTAL - h->got;
	/* One byte more than is to come would be a mistake, and show. */
	rec_init(&h->in);
	h->in.op.fn = on_heard;
	assert_int_equal(weir_recv(h->r, &h->in.op, h->fd, n ? h->got_buf +
				   h->got : h->got_buf, n ? n : 1, 0), 0);
}

static int on_data(struct weir_receiver *receiver, void *data, int64_t len,
		   void *arg)
{
	struct host *h = arg;

	(void)receiver;
	if (len > 0) {
		assert_true(h->got + (size_t)len <= TOTAL);
		memcpy(h->got_buf + h->got, data, (size_t)len);
	}
	heard(h, len);
	return WEIR_RECEIVER_DONE;
}

static void begin_peers(struct host *h)
{
	say(h);
	if (h->seed & 1)
		assert_int_equal(weir_receiver_create(&h->receiver, h->r,
						      h->fd, NULL, on_data, h), 0);
	else
		hear(h);
}

static void on_connection(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct peers *t = arg;

	(void)acceptor;
	if (fd < 0)
		return;
	assert_int_equal(t->host[1].fd, -1);
	t->host[1].fd = fd;
	begin_peers(&t->host[1]);
}

static void on_connect(struct weir_op *op, int64_t res)
{
	struct host *h = weir_container_of(op, struct host, out.op);

	rec_done(op, res);
	if (res < 0)
		give_up(h);
	else
		begin_peers(h);
}

static struct peers *peers_begin(uint64_t seed, struct weir_sim_opts opts)
{
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };
	struct peers *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	opts.size = sizeof(opts);
	assert_int_equal(weir_sim_create(&t->sim, seed, &opts), 0);
	ropts.sim = t->sim;
	for (unsigned int i = 0; i < 2; i++) {
		struct host *h = &t->host[i];

		h->peers = t;
		h->seed = (unsigned int)seed * 2 + i;
		h->fd = -1;
		fill_pattern(h->buf, TOTAL, 0, h->seed);
		assert_int_equal(weir_reactor_create(&h->r, &ropts), 0);
	}
	t->un = (struct sockaddr_un){ AF_UNIX, "b/server" };
	assert_int_equal(weir_sim_listen(t->sim, &t->listener, "b/server", 3),
			 0);
	assert_int_equal(weir_acceptor_create(&t->acceptor, t->host[1].r,
					      t->listener, on_connection, t),
			 0);
	assert_int_equal(weir_sim_socket(t->sim, &t->host[0].fd, "a/client"),
			 0);
	rec_init(&t->host[0].out);
	t->host[0].out.op.fn = on_connect;
	assert_int_equal(weir_connect(t->host[0].r, &t->host[0].out.op,
				      t->host[0].fd,
				      (struct sockaddr *)&t->un,
				      sizeof(t->un)), 0);
	return t;
}

static bool all_said(const struct peers *t)
{
	return t->host[0].got == TOTAL && t->host[1].got == TOTAL &&
	       t->host[0].heard_end && t->host[1].heard_end;
}

/* What a host got is a beginning of what the other sent; and it is all, if
 * neither saw anything go wrong. */
static void check_peers(struct peers *t)
{
	struct weir_sim_socket_stats s = { .size = sizeof(s) };

	for (unsigned int i = 0; i < 2; i++) {
		const struct host *h = &t->host[i], *peer = &t->host[!i];

		assert_true(h->got <= peer->sent + 65536);
		if (h->heard_end && !h->err && !peer->err) {
			assert_int_equal(h->got, TOTAL);
			assert_int_equal(peer->sent, TOTAL);
		}
	}
	assert_int_equal(weir_sim_socket_stats(t->sim, &s), 0);
	assert_int_equal(s.sent, s.received + s.lost + s.held);
}

static uint64_t peers_end(struct peers *t)
{
	uint64_t digest = weir_sim_digest(t->sim);

	check_peers(t);
	weir_acceptor_destroy(t->acceptor);
	for (unsigned int i = 0; i < 2; i++) {
		weir_receiver_destroy(t->host[i].receiver);
		if (t->host[i].fd >= 0)
			assert_int_equal(weir_sim_close(t->host[i].fd), 0);
		assert_int_equal(weir_reactor_destroy(t->host[i].r), 0);
	}
	check_peers(t);
	assert_int_equal(weir_sim_destroy(t->sim), 0);
	free(t);
	return digest;
}

static unsigned int seeds(void)
{
	return want_long() ? 1000 : scaled(100);
}

static void a_stream_comes_whole_and_in_order(void **state)
{
	uint64_t digest[2];

	(void)state;
	for (uint64_t seed = 0; seed < seeds(); seed++) {
		for (int i = 0; i < 2; i++) {
			struct peers *t =
				peers_begin(seed, (struct weir_sim_opts){ 0 });

			assert_int_equal(weir_sim_run(t->sim, WEIR_FOREVER, 0),
					 0);
			assert_true(all_said(t));
			digest[i] = peers_end(t);
		}
		assert_true(digest[0] == digest[1]);
	}
}

/* Run one with faults, and then without, to its end. */
static uint64_t troubled(uint64_t seed, uint64_t faults, unsigned int *whole)
{
	struct peers *t = peers_begin(
		seed, (struct weir_sim_opts){ .faults = faults,
					      .rate = 40,
					      .flags = WEIR_SIM_SWARM });

	assert_true(weir_sim_run(t->sim, 3600 * WEIR_SEC, 0) >= 0);
	check_peers(t);
	weir_sim_set_faults(t->sim, 0);
	assert_int_equal(weir_sim_run(t->sim, WEIR_FOREVER, 0), 0);
	if (all_said(t))
		++*whole;
	else
		assert_true(t->host[0].err || t->host[1].err);
	for (int i = 0; i < 2; i++) {
		struct host *h = &t->host[i];

		assert_true(h->fd < 0 || is_done(h));
	}
	return peers_end(t);
}

static void network_faults_are_reported_and_nothing_else(void **state)
{
	const uint64_t faults = WEIR_SIM_ALL_FAULTS & ~BIT(WEIR_SIM_NOMEM) &
				~BIT(WEIR_SIM_SYSCALL);
	unsigned int whole = 0, ignored;
	uint64_t digest;

	(void)state;
	for (uint64_t seed = 0; seed < seeds(); seed++) {
		digest = troubled(seed, faults, &whole);
		assert_true(digest == troubled(seed, faults, &ignored));
	}
	assert_in_range(whole, seeds() / 20, seeds() * 19 / 20);
}

/* No error is allowed: what only delays must not do more. */
static void delay_does_no_harm(void **state)
{
	const uint64_t faults = BIT(WEIR_SIM_STALL) | BIT(WEIR_SIM_EAGAIN) |
				BIT(WEIR_SIM_SHORT) | BIT(WEIR_SIM_EINTR) |
				BIT(WEIR_SIM_DELAY) | BIT(WEIR_SIM_STUCK) |
				BIT(WEIR_SIM_REORDER) | BIT(WEIR_SIM_FULL);
	unsigned int whole = 0;

	(void)state;
	for (uint64_t seed = 0; seed < seeds(); seed++)
		(void)troubled(seed, faults, &whole);
	assert_int_equal(whole, seeds());
}

static void a_partition_holds_all_until_it_is_lifted(void **state)
{
	unsigned int whole = 0;
	size_t got;

	(void)state;
	for (uint64_t seed = 0; seed < seeds(); seed++) {
		struct peers *t =
			peers_begin(seed, (struct weir_sim_opts){ 0 });

		weir_sim_run(t->sim, 200 * 1000, 0);
		assert_int_equal(weir_sim_partition(t->sim, "a/", "b/", 1), 0);
		weir_sim_run(t->sim, WEIR_MSEC, 0);
		got = t->host[0].got + t->host[1].got;
		weir_sim_run(t->sim, 3600 * WEIR_SEC, 0);
		assert_int_equal(t->host[0].got + t->host[1].got, got);
		assert_int_equal(t->host[0].err + t->host[1].err, 0);
		assert_int_equal(weir_sim_partition(t->sim, "a/", "b/", 0), 0);
		assert_int_equal(weir_sim_run(t->sim, WEIR_FOREVER, 0), 0);
		whole += all_said(t);
		if (!all_said(t))
			assert_true(t->host[0].err || t->host[1].err);
		peers_end(t);
	}
	assert_in_range(whole, 1, seeds() - 1);
}

static void a_connect_into_a_partition_times_out(void **state)
{
	struct peers *t;

	(void)state;
	for (int lifted = 0; lifted < 2; lifted++) {
		t = peers_begin(9, (struct weir_sim_opts){ 0 });
		assert_int_equal(weir_sim_partition(t->sim, "b/", "", 1), 0);
		weir_sim_run(t->sim, 100 * WEIR_SEC, 0);
		assert_int_equal(t->host[0].out.calls, 0);
		if (lifted)
			assert_int_equal(weir_sim_partition(t->sim, "b/", "",
							    0), 0);
		weir_sim_run(t->sim, WEIR_FOREVER, 0);
		assert_int_equal(all_said(t), lifted);
		if (!lifted)
			assert_int_equal(t->host[0].out.res, -ETIMEDOUT);
		peers_end(t);
	}
}

static void power_cut_ends_one_side_and_resets_or_silences_the_other(void **state)
{
	unsigned int silent = 0;
	struct peers *t;
	char c;

	(void)state;
	for (uint64_t seed = 0; seed < seeds(); seed++) {
		t = peers_begin(seed, (struct weir_sim_opts){ 0 });
		weir_sim_run(t->sim, 150 * 1000, 0);
		weir_sim_power_cut(t->sim, "b/");
		weir_sim_run(t->sim, 3600 * WEIR_SEC, 0);
		assert_true(t->host[1].fd < 0 || is_done(&t->host[1]));
		assert_int_equal(weir_sim_read(t->listener, &c, 1), -EIO);
		silent += !t->host[0].err && !is_done(&t->host[0]);
		/* The name is free for who starts again. */
		assert_int_equal(weir_sim_close(t->listener), 0);
		assert_int_equal(weir_sim_listen(t->sim, &t->listener,
						 "b/server", 3), 0);
		weir_sim_set_faults(t->sim, 0);
		assert_int_equal(weir_sim_run(t->sim, WEIR_FOREVER, 0), 0);
		assert_true(t->host[0].err || is_done(&t->host[0]));
		peers_end(t);
	}
	assert_in_range(silent, seeds() / 5, seeds() * 4 / 5);
}

static const struct harness_case cases[] = {
	CASE(a_stream_comes_whole_and_in_order),
	CASE(network_faults_are_reported_and_nothing_else),
	CASE(delay_does_no_harm),
	CASE(a_partition_holds_all_until_it_is_lifted),
	CASE(a_connect_into_a_partition_times_out),
	CASE(power_cut_ends_one_side_and_resets_or_silences_the_other),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
