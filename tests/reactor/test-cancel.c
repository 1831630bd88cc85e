/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancels of transfers whose data flow, on the real kernel: another thread
 * writes to the receives' peers and reads from the sends', so a cancel finds
 * its operation waiting, being tried, or about to be tried again.  None may
 * be lost, and none of it may cost a thread.
 */

#include "tests/support/harness.h"

#include <pthread.h>
#include <stdatomic.h>

#include <weir/file.h>
#include <weir/socket.h>

#define PAIRS 2			/* One receives, one sends: so both flow fast. */
#define LEN (1u << 20)		/* More than flows in a round. */
#define FLOW_MAX 65536		/* Bytes for each pair, in a round. */
#define TURNS_ENOUGH 3000	/* Of at most 10 ms. */

struct flow {
	int pair[PAIRS][2];
	struct rec rec[PAIRS];
	char *buf;
	_Atomic int budget[PAIRS];
	_Atomic bool quit;
	pthread_t thread;
	uint64_t chance;
};

static bool receives(int i)
{
	return i % 2 == 0;
}

/* Turns that may sleep: a wait in the kernel is where the data come in. */
static void turns_that_wait(struct weir_reactor *r, uint32_t n)
{
	while (n--)
		assert_true(weir_reactor_turn(r, WEIR_MSEC / 10) >= 0);
}

static uint32_t below(struct flow *f, uint32_t n)
{
	f->chance = f->chance * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(f->chance >> 33) % n;
}

/* One piece of what pair @i is to move, at its peer. */
static void move_some(struct flow *f, int i, char *piece)
{
	int left = atomic_load(&f->budget[i]);
	int n = left < 700 ? left : 700;

	if (n <= 0)
		return;
	if (receives(i))
		send(f->pair[i][1], piece, (size_t)n,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		recv(f->pair[i][1], piece, (size_t)n, MSG_DONTWAIT);
	atomic_fetch_sub(&f->budget[i], n);
}

static void *flow_main(void *arg)
{
	struct flow *f = arg;
	char piece[700] = { 0 };

	while (!atomic_load(&f->quit)) {
		for (int i = 0; i < PAIRS; i++)
			move_some(f, i, piece);
		sched_yield();
	}
	return NULL;
}

static void flow_begin(struct flow *f)
{
	memset(f, 0, sizeof(*f));
	f->chance = 1;
	f->buf = calloc(PAIRS, LEN);
	assert_non_null(f->buf);
	for (int i = 0; i < PAIRS; i++) {
		socket_pair(f->pair[i]);
		rec_init(&f->rec[i]);
	}
	assert_int_equal(pthread_create(&f->thread, NULL, flow_main, f), 0);
}

static void flow_end(struct flow *f)
{
	atomic_store(&f->quit, true);
	pthread_join(f->thread, NULL);
	for (int i = 0; i < PAIRS; i++)
		close_pair(f->pair[i]);
	free(f->buf);
}

static void start_all(struct flow *f, struct weir_reactor *r)
{
	for (int i = 0; i < PAIRS; i++) {
		f->rec[i].calls = 0;
		if (receives(i))
			STARTS(weir_recv(r, &f->rec[i].op, f->pair[i][0],
					 f->buf + (size_t)i * LEN, LEN,
					 WEIR_SOCK_ALL));
		else
			STARTS(weir_send(r, &f->rec[i].op, f->pair[i][0],
					 f->buf + (size_t)i * LEN, LEN, 0));
	}
}

static void let_flow(struct flow *f)
{
	for (int i = 0; i < PAIRS; i++)
		atomic_store(&f->budget[i], (int)below(f, FLOW_MAX));
}

static bool all_ended(const struct flow *f)
{
	for (int i = 0; i < PAIRS; i++)
		if (!f->rec[i].calls)
			return false;
	return true;
}

/* Nothing but the cancels ends them: less flows than they are for. */
static void assert_all_end(struct flow *f, struct weir_reactor *r)
{
	int turns = 0;

	while (!all_ended(f)) {
		assert_true(weir_reactor_turn(r, WEIR_SEC / 100) >= 0);
		if (++turns > TURNS_ENOUGH)
			fail_msg("a cancel was lost");
	}
	for (int i = 0; i < PAIRS; i++)
		assert_int_equal(f->rec[i].res, -ECANCELED);
}

static void round_of_cancels(struct flow *f, struct weir_reactor *r)
{
	start_all(f, r);
	let_flow(f);
	for (int i = 0; i < PAIRS; i++) {
		turns_that_wait(r, below(f, 4));
		assert_int_equal(weir_op_cancel(&f->rec[i].op), 0);
	}
	assert_all_end(f, r);
}

static void cancel_ends_transfers_while_data_flow(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int rounds = (want_long() ? 100000 : scaled(5000)) / PAIRS;
	int threads, most = 0;
	struct flow f;

	flow_begin(&f);
	threads = count_threads();
	for (unsigned int i = 0; i <= rounds; i++) {
		round_of_cancels(&f, r);
		if (count_threads() > most)
			most = count_threads();
	}
	assert_int_equal(most, threads);
	end_reactor(state);
	flow_end(&f);
}

static void deadline_ends_transfers_while_data_flow(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct flow f;

	flow_begin(&f);
	for (unsigned int i = 0; i < scaled(200); i++) {
		start_all(&f, r);
		let_flow(&f);
		for (int j = 0; j < PAIRS; j++)
			weir_op_set_deadline(&f.rec[j].op,
					     weir_reactor_now(r) +
					     below(&f, 300000));
		UNTIL(r, all_ended(&f));
		for (int j = 0; j < PAIRS; j++)
			assert_int_equal(f.rec[j].res, -ETIMEDOUT);
	}
	end_reactor(state);
	flow_end(&f);
}

static void destroy_ends_transfers_while_data_flow(void **state)
{
	struct world *w = *state;
	struct flow f;

	flow_begin(&f);
	for (unsigned int i = 0; i < scaled(300); i++) {
		struct weir_reactor_opts opts = {
			.size = sizeof(opts), .backend = backend_of(w),
			.drain_ms = 60000,
		};
		struct weir_reactor *r;

		assert_int_equal(weir_reactor_create(&r, &opts), 0);
		start_all(&f, r);
		let_flow(&f);
		turns_that_wait(r, below(&f, 6));
		assert_int_equal(weir_reactor_destroy(r), 0);
		assert_true(all_ended(&f));
	}
	flow_end(&f);
}

#define SLOW 100
#define SLOW_LEN (4u << 20)
#define TRICKLES 300		/* More than the kernel tries one request. */

struct slow {
	int pair[SLOW][2];
	struct rec rec[SLOW];
	char *buf;
};

/* Little fits, so that a sender is woken for little. */
static void set_small(int fd)
{
	int bytes = 1;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes,
				    sizeof(bytes)), 0);
}

static void slow_begin(struct slow *s, bool pipes)
{
	s->buf = calloc(SLOW, SLOW_LEN);
	assert_non_null(s->buf);
	for (int i = 0; i < SLOW; i++) {
		if (pipes) {
			pipe_pair(s->pair[i]);
		} else {
			socket_pair(s->pair[i]);
			set_small(s->pair[i][1]);
		}
		rec_init(&s->rec[i]);
	}
}

/* Each got its share a little at a time, and none is done. */
static void slow_end(struct slow *s, void **state, int threads)
{
	assert_int_equal(count_threads(), threads);
	for (int i = 0; i < SLOW; i++)
		assert_int_equal(s->rec[i].calls, 0);
	end_reactor(state);
	for (int i = 0; i < SLOW; i++) {
		assert_int_equal(s->rec[i].res, -ECANCELED);
		close_pair(s->pair[i]);
	}
	free(s->buf);
}

static void trickling_receives_use_no_thread(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int threads = count_threads();
	struct slow s;

	slow_begin(&s, false);
	for (int i = 0; i < SLOW; i++)
		STARTS(weir_recv(r, &s.rec[i].op, s.pair[i][0],
				 s.buf + (size_t)i * SLOW_LEN, SLOW_LEN,
				 WEIR_SOCK_ALL));
	for (unsigned int n = 0; n < scaled(TRICKLES); n++) {
		for (int i = 0; i < SLOW; i++)
			assert_int_equal(write(s.pair[i][1], "x", 1), 1);
		turns_that_wait(r, 1);
	}
	slow_end(&s, state, threads);
}

/* Read from the other end, so that the writer is woken again and again. */
static void drain_a_little(struct slow *s, struct weir_reactor *r, char *piece)
{
	for (int i = 0; i < SLOW; i++)
		set_nonblock(s->pair[i][0]);
	for (unsigned int n = 0; n < scaled(3 * TRICKLES); n++) {
		for (int i = 0; i < SLOW; i++)
			if (read(s->pair[i][0], piece, 2048) < 0)
				assert_int_equal(errno, EAGAIN);
		turns_that_wait(r, 1);
	}
}

static void slow_sends_use_no_thread(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int threads = count_threads();
	char piece[2048];
	struct slow s;

	slow_begin(&s, false);
	for (int i = 0; i < SLOW; i++)
		STARTS(weir_send(r, &s.rec[i].op, s.pair[i][1], s.buf,
				 SLOW_LEN, 0));
	some_turns(r, 3);
	drain_a_little(&s, r, piece);
	slow_end(&s, state, threads);
}

/* Pipes have RWF_NOWAIT since Linux 6.4. */
static bool pipes_are_written_at_once(void)
{
	struct iovec x = { .iov_base = "x", .iov_len = 1 };
	bool ok;
	int p[2];

	pipe_pair(p);
	ok = pwritev2(p[1], &x, 1, -1, RWF_NOWAIT) == 1;
	close_pair(p);
	return ok;
}

static void slow_writes_use_no_thread(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int threads = count_threads();
	char piece[2048];
	struct slow s;

	if (!strcmp(weir_reactor_backend(r), "uring") &&
	    !pipes_are_written_at_once()) {
		end_reactor(state);
		skip_because("this kernel writes to pipes in threads of its own");
	}
	slow_begin(&s, true);
	for (int i = 0; i < SLOW; i++)
		STARTS(weir_write(r, &s.rec[i].op, s.pair[i][1], s.buf,
				  SLOW_LEN, WEIR_OFF_STREAM));
	some_turns(r, 3);
	drain_a_little(&s, r, piece);
	slow_end(&s, state, threads);
}

static const struct harness_case cases[] = {
	CASE(cancel_ends_transfers_while_data_flow),
	CASE(deadline_ends_transfers_while_data_flow),
	CASE(destroy_ends_transfers_while_data_flow),
	CASE(trickling_receives_use_no_thread),
	CASE(slow_sends_use_no_thread),
	CASE(slow_writes_use_no_thread),
};

int main(void)
{
	return harness_run(cases, N_OF(cases));
}
