/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A storm: hundreds of operations of all kinds at once, cancelled and overtaken
 * by deadlines at random, on descriptors that others use too.  Each completes
 * exactly once, with a result that it may have; no stream loses or repeats a
 * byte of what the results say was moved; and at the end nothing is left.
 *
 * The seed is fixed, and printed when a test fails; WEIR_TEST_SEED sets it.
 */

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "tests/support/harness.h"

#include "tests/support/sim-calls.h"

#define SLOTS 256
#define STREAMS 8
#define PIECE 3000		/* Bytes of a transfer, at most. */
#define FILE_BYTES (1 << 20)

enum what { NOP, DEFER, SLEEP, WORK, READ, WRITE, POLL, STATX, WHATS };

struct slot {
	struct weir_op op;
	struct storm *storm;
	enum what what;
	bool busy;
	uint64_t len, off;
	int fd;
	char buf[PIECE];
	struct statx stx;
};

/* A socket pair with one writer and one reader at a time. */
struct stream {
	struct weir_op send, recv;
	struct storm *storm;
	int fd[2];
	uint64_t sent, received;	/* By what the results say. */
	uint64_t asked;			/* Of the send in flight. */
	bool sending, receiving;
	char out[PIECE], in[PIECE];
};

struct storm {
	struct weir_reactor *r;
	uint64_t rng;
	unsigned int left;		/* Operations still to start. */
	unsigned int started, ended;
	int file, pipe[2];
	struct slot slots[SLOTS];
	struct stream streams[STREAMS];
};

static uint64_t rnd(struct storm *s, uint64_t n)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return s->rng % n;
}

static void count_end(struct storm *s)
{
	s->ended++;
	if (!s->left && s->ended == s->started)
		weir_reactor_stop(s->r);
}

static bool was_stopped(int64_t res)
{
	return res == -ECANCELED || res == -ETIMEDOUT;
}

/* What a slot's operation may have come to. */
static void check_slot(struct slot *sl, int64_t res)
{
	struct weir_op_detail d;

	assert_int_equal(weir_op_get_detail(&sl->op, &d), 0);
	if (was_stopped(res)) {
		/* No cancel comes in between; its start may come too late. */
		assert_true(sl->what != DEFER || res == -ETIMEDOUT);
		return;
	}
	switch (sl->what) {
	case READ:
		assert_int_equal(res, sl->len);
		assert_int_equal(d.bytes, sl->len);
		assert_true(is_pattern(sl->buf, sl->len, sl->off, 7));
		break;
	case WRITE:
		assert_int_equal(res, sl->len);
		break;
	case WORK:
		assert_int_equal(res, 42);
		break;
	case POLL:
		assert_true(res & WEIR_WRITABLE);
		break;
	default:
		assert_int_equal(res, 0);
	}
}

static void start_something(struct storm *s, struct slot *sl);

static void slot_done(struct weir_op *op, int64_t res)
{
	struct slot *sl = weir_container_of(op, struct slot, op);
	struct storm *s = sl->storm;

	assert_true(sl->busy);
	assert_int_equal(harness_starting, 0);
	sl->busy = false;
	check_slot(sl, res);
	if (s->left)
		start_something(s, sl);
	count_end(s);
}

static int64_t answer(void *arg)
{
	(void)arg;
	return 42;
}

static int start_transfer(struct storm *s, struct slot *sl)
{
	sl->len = 1 + rnd(s, PIECE);
	sl->off = rnd(s, FILE_BYTES - sl->len);
	if (sl->what == READ)
		return weir_read(s->r, &sl->op, s->file, sl->buf, sl->len,
				 sl->off);
	fill_pattern(sl->buf, sl->len, sl->off, 7);
	return weir_write(s->r, &sl->op, s->file, sl->buf, sl->len, sl->off);
}

static int start_kind(struct storm *s, struct slot *sl)
{
	switch (sl->what) {
	case NOP:
		return weir_nop(s->r, &sl->op);
	case DEFER:
		return weir_defer(s->r, &sl->op);
	case SLEEP:
		return weir_sleep_until(s->r, &sl->op, weir_reactor_now(s->r) +
					rnd(s, 300) * WEIR_USEC);
	case WORK:
		return weir_work(s->r, &sl->op, answer, NULL);
	case POLL:
		return weir_poll(s->r, &sl->op, s->pipe[1], WEIR_WRITABLE);
	case STATX:
		return weir_statx(s->r, &sl->op, s->file, "", AT_EMPTY_PATH,
				  STATX_SIZE, &sl->stx);
	default:
		return start_transfer(s, sl);
	}
}

/* The hand of fate: a deadline before, a cancel after, a cancel elsewhere. */
static void start_something(struct storm *s, struct slot *sl)
{
	uint64_t fate = rnd(s, 8);
	struct slot *other = &s->slots[rnd(s, SLOTS)];

	sl->what = (enum what)rnd(s, WHATS);
	if (fate == 0)
		weir_op_set_deadline(&sl->op, weir_reactor_now(s->r) +
				     rnd(s, 200) * WEIR_USEC);
	sl->busy = true;
	s->left--;
	s->started++;
	STARTS(start_kind(s, sl));
	if (fate == 1)
		assert_int_equal(weir_op_cancel(&sl->op), 0);
	if (fate == 2 && other->busy)
		assert_int_equal(weir_op_cancel(&other->op), 0);
	if (fate == 3 && other->busy)
		(void)weir_op_set_deadline(&other->op, WEIR_FOREVER);
}

static void stream_send(struct stream *t);
static void stream_recv(struct stream *t);

/* What the kernel took is in the detail, however the send ended. */
static void send_done(struct weir_op *op, int64_t res)
{
	struct stream *t = weir_container_of(op, struct stream, send);
	struct weir_op_detail d;

	assert_true(t->sending);
	t->sending = false;
	assert_int_equal(weir_op_get_detail(op, &d), 0);
	assert_true(res == (int64_t)t->asked || was_stopped(res));
	assert_true(d.bytes <= t->asked);
	t->sent += d.bytes;
	stream_send(t);
	count_end(t->storm);
}

static void recv_done(struct weir_op *op, int64_t res)
{
	struct stream *t = weir_container_of(op, struct stream, recv);
	struct weir_op_detail d;

	assert_true(t->receiving);
	t->receiving = false;
	assert_int_equal(weir_op_get_detail(op, &d), 0);
	assert_true((res > 0 && res == (int64_t)d.bytes) || was_stopped(res));
	assert_true(is_pattern(t->in, d.bytes, t->received, 1));
	t->received += d.bytes;
	stream_recv(t);
	count_end(t->storm);
}

/* At the end they have nobody to wait for, a full buffer or an empty one. */
static void set_timeout(struct storm *s, struct weir_op *op)
{
	weir_op_set_deadline(op, weir_reactor_now(s->r) +
			     (100 + rnd(s, 1000)) * WEIR_USEC);
}

static void stream_send(struct stream *t)
{
	struct storm *s = t->storm;

	if (!s->left)
		return;
	s->left--;
	s->started++;
	t->sending = true;
	set_timeout(s, &t->send);
	t->asked = 1 + rnd(s, PIECE);
	fill_pattern(t->out, t->asked, t->sent, 1);
	STARTS(weir_send(s->r, &t->send, t->fd[0], t->out, t->asked, 0));
	if (!rnd(s, 6))
		weir_op_cancel(&t->send);
}

static void stream_recv(struct stream *t)
{
	struct storm *s = t->storm;

	if (!s->left)
		return;
	s->left--;
	s->started++;
	t->receiving = true;
	set_timeout(s, &t->recv);
	STARTS(weir_recv(s->r, &t->recv, t->fd[1], t->in, 1 + rnd(s, PIECE),
			 0));
	if (!rnd(s, 6))
		weir_op_cancel(&t->recv);
}

static uint64_t seed(void)
{
	const char *text = getenv("WEIR_TEST_SEED");

	return text ? strtoull(text, NULL, 0) | 1 : UINT64_C(0x9e3779b97f4a7c15);
}

static struct storm *storm_begin(void **state, unsigned int n)
{
	struct storm *s = calloc(1, sizeof(*s));
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .ring_entries = 16 };

	assert_non_null(s);
	s->rng = seed();
	print_message("# seed %#llx\n", (unsigned long long)s->rng);
	s->r = start_reactor_with(state, opts);
	s->left = n;
	s->file = test_file(state, "storm", FILE_BYTES, 7);
	pipe_pair(s->pipe);
	for (int i = 0; i < SLOTS; i++) {
		weir_op_init(&s->slots[i].op, slot_done);
		s->slots[i].storm = s;
	}
	for (int i = 0; i < STREAMS; i++) {
		struct stream *t = &s->streams[i];

		t->storm = s;
		if (i % 2)
			tcp_pair(t->fd);
		else
			socket_pair(t->fd);
		weir_op_init(&t->send, send_done);
		weir_op_init(&t->recv, recv_done);
	}
	return s;
}

static void storm_start(struct storm *s)
{
	for (int i = 0; i < SLOTS; i++)
		start_something(s, &s->slots[i]);
	for (int i = 0; i < STREAMS; i++) {
		stream_send(&s->streams[i]);
		stream_recv(&s->streams[i]);
	}
}

static void storm_end(struct storm *s)
{
	for (int i = 0; i < SLOTS; i++)
		assert_false(s->slots[i].busy);
	close(s->file);
	close_pair(s->pipe);
	for (int i = 0; i < STREAMS; i++)
		close_pair(s->streams[i].fd);
	free(s);
}

static void everything_completes_exactly_once(void **state)
{
	struct storm *s = storm_begin(state, scaled(want_long() ? 2000000 :
								  100000) +
					     SLOTS + 2 * STREAMS);

	storm_start(s);
	assert_int_equal(weir_reactor_run(s->r), 0);
	assert_int_equal(s->ended, s->started);
	end_reactor(state);
	storm_end(s);
}

/* Stop from the outside, in the middle: the same, by the drain. */
static void a_stop_in_the_middle_drains_all(void **state)
{
	struct storm *s = storm_begin(state, UINT32_MAX);
	struct weir_reactor_stats st = { .size = sizeof(st) };

	storm_start(s);
	some_turns(s->r, 50);
	s->left = 0;
	weir_reactor_stop(s->r);
	assert_int_equal(weir_reactor_run(s->r), 0);
	assert_int_equal(s->ended, s->started);
	assert_int_equal(weir_reactor_stats(s->r, &st), 0);
	assert_int_equal(st.in_flight, 0);
	assert_int_equal(st.completed, s->started);
	end_reactor(state);
	storm_end(s);
}

static const struct harness_case cases[] = {
	CASE(everything_completes_exactly_once),
	CASE(a_stop_in_the_middle_drains_all),
};

int main(void)
{
	return harness_run_all(cases, N_OF(cases));
}
