/* SPDX-License-Identifier: BSD-3-Clause */

/* Splices between sockets and pipes, as <weir/socket.h> promises them. */

#include "tests/support/harness.h"

#include <signal.h>
#include <sys/syscall.h>

#include <weir/sim/world.h>
#include <weir/socket.h>

/* What goes in at .in[1] is spliced from .in[0] to .pipe to .out[0]. */
struct way {
	int in[2], pipe[2], out[2];
};

static struct rec rec;

/* So many calls of splice(2) are interrupted by a signal. */
static int interruptions;

/* The library's calls come here instead of to libc. */
__attribute__((visibility("default"))) ssize_t
splice(int in, off64_t *in_off, int out, off64_t *out_off, size_t len,
       unsigned int flags)
{
	if (interruptions) {
		interruptions--;
		errno = EINTR;
		return -1;
	}
	return syscall(SYS_splice, in, in_off, out, out_off, len, flags);
}

static void way_open(struct way *w)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, w->in), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, w->out), 0);
	assert_int_equal(pipe(w->pipe), 0);
}

static void way_close(struct way *w)
{
	close_pair(w->in);
	close_pair(w->out);
	close_pair(w->pipe);
}

static int64_t splice_now(struct weir_reactor *r, int in, int out, size_t len)
{
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, in, out, len));
	assert_int_equal(rec.calls, 0);
	return finish(r, &rec);
}

/* Bytes until nobody takes more; the descriptor does not wait. */
static size_t fill(int fd)
{
	static const char zeros[4096];
	size_t sum = 0;
	ssize_t n;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((n = write(fd, zeros, sizeof(zeros))) > 0)
		sum += (size_t)n;
	fcntl(fd, F_SETFL, 0);
	return sum;
}

static void drain(int fd, size_t len)
{
	char some[4096];
	ssize_t n;

	for (; len; len -= (size_t)n) {
		n = read(fd, some, len < sizeof(some) ? len : sizeof(some));
		assert_true(n > 0);
	}
}

static void bytes_go_through_a_pipe(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_op_detail detail;
	char got[16] = "";
	struct way w;

	way_open(&w);
	assert_int_equal(write(w.in[1], "spliced", 8), 8);
	assert_int_equal(splice_now(r, w.in[0], w.pipe[1], 5), 5);
	weir_op_get_detail(&rec.op, &detail);
	assert_int_equal(detail.bytes, 5);
	assert_int_equal(splice_now(r, w.in[0], w.pipe[1], 65536), 3);
	assert_int_equal(splice_now(r, w.pipe[0], w.out[0], 65536), 8);
	assert_int_equal(read(w.out[1], got, sizeof(got)), 8);
	assert_string_equal(got, "spliced");
	way_close(&w);
}

static void splice_waits_for_bytes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;

	way_open(&w);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 100));
	weir_reactor_turn(r, 0);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(write(w.in[1], "x", 1), 1);
	assert_int_equal(finish(r, &rec), 1);
	way_close(&w);
}

/* Up to Linux 6.4 a UNIX socket that is full takes what is spliced. */
static void skip_where_full_is_not_full(void)
{
	if (kernel_is_before(6, 5))
		skip_because("full UNIX sockets take more by splice here");
}

static void splice_waits_for_capacity(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;
	size_t n;

	skip_where_full_is_not_full();
	way_open(&w);
	n = fill(w.out[0]);
	assert_int_equal(write(w.pipe[1], "last", 4), 4);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, w.pipe[0], w.out[0], 100));
	weir_reactor_turn(r, 0);
	assert_int_equal(rec.calls, 0);
	drain(w.out[1], n);
	assert_int_equal(finish(r, &rec), 4);
	way_close(&w);
}

static void pipes_wait_for_each_other(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int in[2], out[2];
	size_t n;

	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, in[0], out[1], 100));
	weir_reactor_turn(r, 0);
	assert_int_equal(rec.calls, 0);
	n = fill(out[1]);
	assert_int_equal(write(in[1], "x", 1), 1);
	weir_reactor_turn(r, 0);
	assert_int_equal(rec.calls, 0);
	drain(out[0], n);
	assert_int_equal(finish(r, &rec), 1);
	close_pair(in);
	close_pair(out);
}

/* First for capacity, and when that is there, for bytes; and back again. */
static void splice_waits_for_bytes_and_capacity_in_turn(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;
	size_t n;
	int i;

	way_open(&w);
	n = fill(w.pipe[1]);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 100));
	for (i = 0; i < 3; i++) {
		weir_reactor_turn(r, 0);
		assert_int_equal(rec.calls, 0);
		drain(w.pipe[0], n);
		weir_reactor_turn(r, 0);
		assert_int_equal(rec.calls, 0);
		n = fill(w.pipe[1]);
		assert_int_equal(write(w.in[1], "x", 1), 1);
		weir_reactor_turn(r, 0);
		assert_int_equal(rec.calls, 0);
		drain(w.in[0], 1); /* Another was quicker. */
	}
	assert_int_equal(write(w.in[1], "x", 1), 1);
	weir_reactor_turn(r, 0);
	assert_int_equal(rec.calls, 0);
	drain(w.pipe[0], n);
	assert_int_equal(finish(r, &rec), 1);
	way_close(&w);
}

static void the_end_is_0(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;

	way_open(&w);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 100));
	shutdown(w.in[1], SHUT_WR);
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(splice_now(r, w.in[0], w.pipe[1], 100), 0);
	way_close(&w);
}

static void splice_without_a_reader_is_epipe(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;

	way_open(&w);
	assert_int_equal(write(w.pipe[1], "x", 1), 1);
	shutdown(w.out[0], SHUT_WR);
	assert_int_equal(splice_now(r, w.pipe[0], w.out[0], 100), -EPIPE);
	way_close(&w);
}

static void and_so_is_who_leaves_while_it_waits(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;

	skip_where_full_is_not_full();
	way_open(&w);
	fill(w.out[0]);
	assert_int_equal(write(w.pipe[1], "x", 1), 1);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, w.pipe[0], w.out[0], 100));
	weir_reactor_turn(r, 0);
	assert_int_equal(rec.calls, 0);
	shutdown(w.out[1], SHUT_RDWR);
	assert_int_equal(finish(r, &rec), -EPIPE);
	way_close(&w);
}

static int64_t recv_now(struct weir_reactor *r, int fd, char *to, size_t len)
{
	rec_init(&rec);
	STARTS(weir_recv(r, &rec.op, fd, to, len, 0));
	return finish(r, &rec);
}

/* It says so, instead of being ready for ever and moving nothing. */
static void bytes_not_spliced_can_be_received(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int tcp[2], to[2];
	char got[16] = "";

	tcp_pair(tcp);
	assert_int_equal(pipe(to), 0);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, tcp[0], to[1], 100));
	assert_int_equal(send(tcp[1], "!", 1, MSG_OOB), 1);
	assert_int_equal(send(tcp[1], "hello", 5, 0), 5);
	assert_int_equal(finish(r, &rec), -EAGAIN);
	assert_int_equal(splice_now(r, tcp[0], to[1], 100), -EAGAIN);
	assert_int_equal(recv_now(r, tcp[0], got, sizeof(got)), 5);
	assert_string_equal(got, "hello");
	assert_int_equal(send(tcp[1], "more", 4, 0), 4);
	assert_int_equal(splice_now(r, tcp[0], to[1], 100), 4);
	close_pair(tcp);
	close_pair(to);
}

static void and_before_an_end_it_is_no_end(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int tcp[2], to[2];
	char got[16] = "";

	tcp_pair(tcp);
	assert_int_equal(pipe(to), 0);
	assert_int_equal(send(tcp[1], "!", 1, MSG_OOB), 1);
	assert_int_equal(send(tcp[1], "hello", 5, 0), 5);
	shutdown(tcp[1], SHUT_WR);
	assert_int_equal(splice_now(r, tcp[0], to[1], 100), -EAGAIN);
	assert_int_equal(recv_now(r, tcp[0], got, sizeof(got)), 5);
	assert_string_equal(got, "hello");
	assert_int_equal(splice_now(r, tcp[0], to[1], 100), 0);
	close_pair(tcp);
	close_pair(to);
}

/* Inside the start, and after a poll. */
static void a_signal_interrupts_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;

	way_open(&w);
	assert_int_equal(write(w.in[1], "x", 1), 1);
	interruptions = 2;
	assert_int_equal(splice_now(r, w.in[0], w.pipe[1], 100), 1);
	assert_int_equal(interruptions, 0);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 100));
	assert_int_equal(write(w.in[1], "x", 1), 1);
	interruptions = 2;
	assert_int_equal(finish(r, &rec), 1);
	assert_int_equal(interruptions, 0);
	way_close(&w);
}

static void splice_is_cancelled_and_has_a_deadline(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;

	way_open(&w);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 100));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(r) + WEIR_MSEC);
	STARTS(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 100));
	assert_int_equal(finish(r, &rec), -ETIMEDOUT);
	way_close(&w);
}

/* Whatever becomes of it, a socket is again what it was. */
static void modes_stay_as_they_were(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct way w;
	int mode;

	for (mode = 0; mode <= O_NONBLOCK; mode += O_NONBLOCK) {
		way_open(&w);
		fcntl(w.in[0], F_SETFL, mode);
		fcntl(w.pipe[1], F_SETFL, mode);
		rec_init(&rec);
		STARTS(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 100));
		assert_int_equal(fcntl(w.in[0], F_GETFL) & O_NONBLOCK, mode);
		assert_int_equal(write(w.in[1], "x", 1), 1);
		assert_int_equal(finish(r, &rec), 1);
		assert_int_equal(fcntl(w.in[0], F_GETFL) & O_NONBLOCK, mode);
		assert_int_equal(fcntl(w.pipe[1], F_GETFL) & O_NONBLOCK, mode);
		way_close(&w);
	}
}

static void splice_refuses_descriptors_that_cannot_be_spliced(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int file = open(test_path(state, "file"), O_RDWR | O_CREAT, 0600);
	int eager = open(test_path(state, "file"), O_RDWR | O_NONBLOCK);
	struct way w;
	size_t i;

	way_open(&w);
	assert_int_equal(write(w.in[1], "x", 1), 1);
	assert_int_equal(write(w.pipe[1], "x", 1), 1);
	const struct { int in, out, res; } cases[] = {
		{ w.in[0], w.out[0], -EINVAL },		/* No pipe. */
		{ w.pipe[0], w.pipe[1], -EINVAL },	/* One and the same. */
		{ file, w.pipe[1], -EINVAL },
		{ w.pipe[0], file, -EINVAL },
		{ eager, w.pipe[1], -EINVAL },
		{ w.pipe[0], eager, -EINVAL },
		{ -1, w.pipe[1], -EBADF },
		{ w.pipe[0], -1, -EBADF },
	};

	for (i = 0; i < N_OF(cases); i++)
		assert_int_equal(splice_now(r, cases[i].in, cases[i].out, 9),
				 cases[i].res);
	rec_init(&rec);
	assert_int_equal(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 0),
			 -EINVAL);
	STARTS(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 1));
	assert_int_equal(weir_splice(r, &rec.op, w.in[0], w.pipe[1], 1),
			 -EINVAL);
	assert_int_equal(finish(r, &rec), 1);
	close(eager);
	close(file);
	way_close(&w);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bytes_go_through_a_pipe),
		CASE(splice_waits_for_bytes),
		CASE(splice_waits_for_capacity),
		CASE(pipes_wait_for_each_other),
		CASE(splice_waits_for_bytes_and_capacity_in_turn),
		CASE(the_end_is_0),
		CASE(splice_without_a_reader_is_epipe),
		CASE(and_so_is_who_leaves_while_it_waits),
		CASE(bytes_not_spliced_can_be_received),
		CASE(and_before_an_end_it_is_no_end),
		CASE(a_signal_interrupts_nothing),
		CASE(splice_is_cancelled_and_has_a_deadline),
		CASE(modes_stay_as_they_were),
		CASE(splice_refuses_descriptors_that_cannot_be_spliced),
	};

	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
