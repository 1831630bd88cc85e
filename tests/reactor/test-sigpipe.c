/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever writes to what nobody reads is told -EPIPE, and gets no signal. */

#include "tests/support/harness.h"

#include <signal.h>
#include <sys/uio.h>

#include <weir/file.h>
#include <weir/socket.h>

#include "reactor/io.h"
#include "reactor/uring/uring.h"

static volatile sig_atomic_t signals;

static void on_sigpipe(int signo)
{
	(void)signo;
	signals++;
}

static char bytes[64];
static struct iovec pieces[2] = { { bytes, 32 }, { bytes + 32, 32 } };

/* All that may be written to @fd, which nobody reads. */
static void write_in_every_way(struct weir_reactor *r, int fd)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_write(r, &rec.op, fd, bytes, 64, WEIR_OFF_STREAM));
	assert_int_equal(finish(r, &rec), -EPIPE);
	rec_init(&rec);
	STARTS(weir_write(r, &rec.op, fd, bytes, 64, 0));
	assert_int_equal(finish(r, &rec), -EPIPE);
	rec_init(&rec);
	STARTS(weir_writev(r, &rec.op, fd, pieces, 2, WEIR_OFF_STREAM));
	assert_int_equal(finish(r, &rec), -EPIPE);
	assert_int_equal(signals, 0);
}

static void write_to_broken_socket(struct weir_reactor *r)
{
	int fd[2];

	signals = 0;
	signal(SIGPIPE, on_sigpipe);
	socket_pair(fd);
	close(fd[1]);
	write_in_every_way(r, fd[0]);
	close(fd[0]);
	tcp_pair(fd);
	assert_int_equal(shutdown(fd[0], SHUT_WR), 0);
	write_in_every_way(r, fd[0]);
	close_pair(fd);
	signal(SIGPIPE, SIG_DFL);
}

static void write_to_broken_socket_raises_no_signal(void **state)
{
	write_to_broken_socket(start_reactor(state));
}

/* What Linux before 6.18 has: no write without a signal. */
static void write_to_broken_socket_is_sent_on_old_kernels(void **state)
{
	const struct world *w = *state;
	struct weir_reactor *r = start_reactor(state);

	if (strcmp(w->backend, "uring"))
		skip_because("ev sends what goes to a socket");
	uring_of(r)->nosignal = 0;
	write_to_broken_socket(r);
}

static void write_to_socket_is_whole_on_old_kernels(void **state)
{
	const struct world *w = *state;
	struct weir_reactor *r = start_reactor(state);
	struct iovec iov[2];
	struct rec out, in;
	char *buf;
	int fd[2];

	if (strcmp(w->backend, "uring"))
		skip_because("ev sends what goes to a socket");
	uring_of(r)->nosignal = 0;
	buf = calloc(2, 1 << 20);
	assert_non_null(buf);
	fill_pattern(buf, 1 << 20, 0, 3);
	iov[0] = (struct iovec){ buf, 1000 };
	iov[1] = (struct iovec){ buf + 1000, (1 << 20) - 1000 };
	socket_pair(fd);
	rec_init(&out);
	rec_init(&in);
	STARTS(weir_writev(r, &out.op, fd[0], iov, 2, WEIR_OFF_STREAM));
	STARTS(weir_recv(r, &in.op, fd[1], buf + (1 << 20), 1 << 20,
			 WEIR_SOCK_ALL));
	UNTIL(r, in.calls && out.calls);
	assert_int_equal(in.res, 1 << 20);
	assert_int_equal(out.res, 1 << 20);
	assert_true(is_pattern(buf + (1 << 20), 1 << 20, 0, 3));
	close_pair(fd);
	free(buf);
}

static void write_to_broken_pipe_raises_no_signal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	const struct world *w = *state;
	int fd[2];

	if (!strcmp(w->backend, "uring") && !io_nosignal())
		skip_because("before Linux 6.18 the kernel has no other way");
	signals = 0;
	signal(SIGPIPE, on_sigpipe);
	pipe_pair(fd);
	close(fd[0]);
	write_in_every_way(r, fd[1]);
	close(fd[1]);
	signal(SIGPIPE, SIG_DFL);
}

static void splice_to_broken_pipe_and_socket_raises_no_signal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int in[2], broken[2];
	struct rec rec;

	signals = 0;
	signal(SIGPIPE, on_sigpipe);
	pipe_pair(in);
	assert_int_equal(write(in[1], bytes, 64), 64);
	socket_pair(broken);
	close(broken[1]);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, in[0], broken[0], 64));
	assert_int_equal(finish(r, &rec), -EPIPE);
	close(broken[0]);
	pipe_pair(broken);
	close(broken[0]);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, in[0], broken[1], 64));
	assert_int_equal(finish(r, &rec), -EPIPE);
	close(broken[1]);
	close_pair(in);
	assert_int_equal(signals, 0);
	signal(SIGPIPE, SIG_DFL);
}

/* The peer resets the connection when it gets the first part, before the second. */
static void splice_that_is_cut_off_raises_no_signal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static const char some[1 << 20];
	int full;
	int in[2], fd[2];
	struct rec rec;

	signals = 0;
	signal(SIGPIPE, on_sigpipe);
	for (int i = 0; i < 50; i++) {
		pipe_pair(in);
		tcp_pair(fd);
		close(fd[1]);
		/* More pages than the kernel sends at a time. */
		full = fcntl(in[1], F_SETPIPE_SZ, sizeof(some));
		if (full < 0)
			full = fcntl(in[1], F_GETPIPE_SZ);
		assert_int_equal(write(in[1], some, (size_t)full), full);
		rec_init(&rec);
		STARTS(weir_splice(r, &rec.op, in[0], fd[0], (size_t)full));
		finish(r, &rec);
		close(fd[0]);
		close_pair(in);
	}
	assert_int_equal(signals, 0);
	signal(SIGPIPE, SIG_DFL);
}

static const struct harness_case cases[] = {
	CASE(splice_that_is_cut_off_raises_no_signal),
	CASE(write_to_broken_socket_raises_no_signal),
	CASE(write_to_broken_socket_is_sent_on_old_kernels),
	CASE(write_to_socket_is_whole_on_old_kernels),
	CASE(write_to_broken_pipe_raises_no_signal),
	CASE(splice_to_broken_pipe_and_socket_raises_no_signal),
};

int main(void)
{
	return harness_run(cases, N_OF(cases));
}
