/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the ev backend: what it does without, and whose turn it is. */

#include "tests/support/forbid.h"
#include "tests/support/harness.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "base/fault.h"

static struct weir_reactor *make(void)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_EV,
	};
	struct weir_reactor *r;

	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	return r;
}

static void unmake(struct weir_reactor *r)
{
	assert_int_equal(weir_reactor_destroy(r), 0);
}

static char text[64], got[64];
static struct iovec text_iov[2] = { { text, 3 }, { text + 3, 4 } };
static struct iovec got_iov[2] = { { got, 3 }, { got + 3, 4 } };

/* In a thread, whose filter is its own: there is nothing to assert with. */
#define CHECK(cond)                      \
	do {                             \
		if (!(cond))             \
			return __LINE__; \
	} while (0)

static int64_t ends(struct weir_reactor *r, struct rec *rec)
{
	while (!rec->calls)
		if (weir_reactor_turn(r, WEIR_SEC) < 0)
			return INT64_MIN;
	return rec->res;
}

/* A pipe that does not block is tried, one that blocks is asked first. */
static int old_kernel_moves_through_pipes(struct weir_reactor *r)
{
	struct rec in, out;
	int p[2];

	pipe_pair(p);
	for (int i = 0; i < 2; i++) {
		rec_init(&in);
		rec_init(&out);
		memset(got, 0, sizeof(got));
		CHECK(!weir_readv(r, &in.op, p[0], got_iov, 2,
				  WEIR_OFF_STREAM));
		CHECK(weir_reactor_turn(r, 0) >= 0);
		CHECK(!in.calls);
		CHECK(!weir_writev(r, &out.op, p[1], text_iov, 2,
				   WEIR_OFF_STREAM));
		CHECK(ends(r, &out) == 7);
		CHECK(ends(r, &in) == 7);
		CHECK(!memcmp(got, text, 7));
		set_nonblock(p[0]);
		set_nonblock(p[1]);
	}
	close(p[0]);
	rec_init(&out);
	CHECK(!weir_write(r, &out.op, p[1], text, 7, WEIR_OFF_STREAM));
	CHECK(ends(r, &out) == -EPIPE); /* And no SIGPIPE, which kills. */
	close(p[1]);
	return 0;
}

/* Of a pipe that blocks, and whose description others have, too. */
static int old_kernel_ends_writes_to_full_pipes(struct weir_reactor *r)
{
	static char large[200000], part[5000];
	int p[2], threads = count_threads(), n;
	struct weir_op_detail d;
	struct rec rec;

	pipe_pair(p);
	rec_init(&rec);
	CHECK(!weir_write(r, &rec.op, p[1], large, sizeof(large),
			  WEIR_OFF_STREAM));
	for (n = 0; n < 3; n++)
		CHECK(weir_reactor_turn(r, 0) >= 0);
	CHECK(read(p[0], part, sizeof(part)) == sizeof(part));
	CHECK(weir_reactor_turn(r, 0) >= 0);
	CHECK(!rec.calls && !(fcntl(p[1], F_GETFL) & O_NONBLOCK));
	CHECK(count_threads() == threads);
	CHECK(!weir_op_cancel(&rec.op));
	CHECK(ends(r, &rec) == -ECANCELED);
	weir_op_get_detail(&rec.op, &d);
	close(p[1]);
	for (uint64_t left = d.bytes - sizeof(part); left; left -= (uint64_t)n) {
		n = (int)read(p[0], part, sizeof(part));
		CHECK(n > 0 && (uint64_t)n <= left);
	}
	CHECK(!read(p[0], part, sizeof(part))); /* No other end is left. */
	close(p[0]);
	return 0;
}

static int old_kernel_moves_at_offsets(struct weir_reactor *r)
{
	struct rec rec;
	int fd = open("/dev/zero", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	CHECK(fd >= 0);
	memset(got, 1, sizeof(got));
	rec_init(&rec);
	CHECK(!weir_read(r, &rec.op, fd, got, 7, 4096));
	CHECK(ends(r, &rec) == 7);
	CHECK(!got[0] && !got[6] && got[7] == 1);
	rec_init(&rec);
	CHECK(!weir_write(r, &rec.op, fd, text, 7, 4096));
	CHECK(ends(r, &rec) == 7);
	close(fd);
	return 0;
}

static void *old_kernel(void *arg)
{
	struct weir_reactor *r = make();
	int *line = arg;

	if (forbid_range(SYS_preadv2, SYS_pwritev2,
			 SECCOMP_RET_ERRNO | ENOSYS)) {
		*line = 77;
	} else {
		*line = old_kernel_moves_through_pipes(r);
		if (!*line)
			*line = old_kernel_ends_writes_to_full_pipes(r);
		if (!*line)
			*line = old_kernel_moves_at_offsets(r);
	}
	unmake(r);
	return NULL;
}

/* The first case: whether writes can be without a signal is asked once. */
static void old_kernel_moves_bytes_without_waiting(void **state)
{
	pthread_t thread;
	int line = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, old_kernel, &line), 0);
	pthread_join(thread, NULL);
	if (line == 77)
		skip_because("no filter can be set here");
	assert_int_equal(line, 0);
}

static void timer_descriptor_is_read_when_it_expires(void **state)
{
	struct itimerspec its = { .it_value.tv_nsec = 1 };
	struct weir_reactor *r = make();
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct rec rec;
	uint64_t n = 0;

	(void)state;
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, fd, &n, sizeof(n), 0));
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(timerfd_settime(fd, 0, &its, NULL), 0);
	assert_int_equal(finish(r, &rec), sizeof(n));
	assert_int_equal(n, 1);
	close(fd);
	unmake(r);
}

static void socket_can_be_read_as_a_file(void **state)
{
	struct weir_reactor *r = make();
	struct rec rec;
	int fd[2];

	(void)state;
	socket_pair(fd);
	rec_init(&rec);
	STARTS(weir_readv(r, &rec.op, fd[0], got_iov, 2, WEIR_OFF_STREAM));
	some_turns(r, 2);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(send(fd[1], "12345", 5, 0), 5);
	assert_int_equal(shutdown(fd[1], SHUT_WR), 0);
	assert_int_equal(finish(r, &rec), 5);
	assert_memory_equal(got, "12345", 5);
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, fd[0], got, 5, 0));
	assert_int_equal(finish(r, &rec), 0);
	close_pair(fd);
	unmake(r);
}

static void operation_on_a_closed_descriptor_ends_with_ebadf(void **state)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct weir_reactor *r = make();
	struct rec rec[3];
	int fd[2], i;

	(void)state;
	socket_pair(fd);
	close_pair(fd);
	for (i = 0; i < 3; i++)
		rec_init(&rec[i]);
	STARTS(weir_connect(r, &rec[0].op, fd[0], (struct sockaddr *)&addr,
			    sizeof(addr)));
	STARTS(weir_poll(r, &rec[1].op, fd[0], WEIR_READABLE));
	STARTS(weir_accept(r, &rec[2].op, fd[0], NULL, NULL, 0));
	for (i = 0; i < 3; i++) {
		UNTIL(r, rec[i].calls);
		assert_int_equal(rec[i].res, -EBADF);
	}
	unmake(r);
}

/* A listener that no other connection can wait at, and its address. */
static int full_listener(struct sockaddr_in *addr, int first[2])
{
	socklen_t len = sizeof(*addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), i;

	*addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	assert_int_equal(bind(fd, (struct sockaddr *)addr, len), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)addr, &len), 0);
	for (i = 0; i < 2; i++) {
		first[i] = socket(AF_INET,
				  SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
				  0);
		(void)!connect(first[i], (struct sockaddr *)addr, len);
	}
	return fd;
}

static void connect_whose_error_was_read_elsewhere_ends_all_the_same(
	void **state)
{
	struct weir_reactor *r = make();
	int first[2], fd, listener, err;
	socklen_t len = sizeof(err);
	struct sockaddr_in addr;
	struct rec rec;

	(void)state;
	listener = full_listener(&addr, first);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	rec_init(&rec);
	STARTS(weir_connect(r, &rec.op, fd, (struct sockaddr *)&addr,
			    sizeof(addr)));
	some_turns(r, 2);
	assert_int_equal(rec.calls, 0);
	(void)!shutdown(fd, SHUT_RDWR); /* Gives it up. */
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(finish(r, &rec), -ENOTCONN);
	close(fd);
	close_pair(first);
	close(listener);
	unmake(r);
}

static const char *refused_point;

static int is_refused(const char *name)
{
	return !strcmp(name, refused_point);
}

/* What the kernel refuses for now is not tried again without a timer. */
static void connect_to_a_full_backlog_without_a_timer_is_refused(void **state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct weir_reactor *r = make();
	int listener, first, fd, fds;
	struct rec rec;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s",
		 test_path(state, "socket"));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (void *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(connect(first, (void *)&addr, sizeof(addr)), 0);
	fds = count_fds();
	rec_init(&rec);
	refused_point = "timerfd";
	fault_ask(is_refused);
	STARTS(weir_connect(r, &rec.op, fd, (void *)&addr, sizeof(addr)));
	fault_ask(NULL);
	assert_int_equal(finish(r, &rec), -EAGAIN);
	assert_int_equal(count_fds(), fds);
	rec_init(&rec);
	STARTS(weir_connect(r, &rec.op, fd, (void *)&addr, sizeof(addr)));
	some_turns(r, 2);
	assert_int_equal(rec.calls, 0);
	close(accept(listener, NULL, NULL));
	assert_int_equal(finish(r, &rec), 0);
	close(fd);
	close(first);
	close(listener);
	unmake(r);
}

/* The first is cut short, and stays the first: nothing comes in between. */
static void send_that_is_cut_short_stays_before_those_that_wait(void **state)
{
	enum { LEN = 1 << 20 };
	struct weir_reactor *r = make();
	char *out = malloc(2 * LEN), *in = malloc(2 * LEN);
	struct rec send[2], rec;
	size_t all = 0;
	int fd[2];

	(void)state;
	assert_true(out && in);
	fill_pattern(out, 2 * LEN, 0, 9);
	socket_pair(fd);
	rec_init(&send[0]);
	rec_init(&send[1]);
	STARTS(weir_send(r, &send[0].op, fd[0], out, LEN, 0));
	STARTS(weir_send(r, &send[1].op, fd[0], out + LEN, LEN, 0));
	while (all < 2 * LEN) {
		rec_init(&rec);
		STARTS(weir_recv(r, &rec.op, fd[1], in + all,
				 2 * LEN - all < 10000 ? 2 * LEN - all : 10000,
				 0));
		assert_true(finish(r, &rec) > 0);
		all += (size_t)rec.res;
	}
	UNTIL(r, send[0].calls && send[1].calls);
	assert_int_equal(send[0].res, LEN);
	assert_int_equal(send[1].res, LEN);
	assert_true(is_pattern(in, 2 * LEN, 0, 9));
	free(out);
	free(in);
	close_pair(fd);
	unmake(r);
}

/* And is found there when the one behind it leaves the queue. */
static void send_that_is_cut_short_survives_the_cancel_of_the_next(void **state)
{
	enum { LEN = 1 << 20 };
	struct weir_reactor *r = make();
	char *out = calloc(1, LEN), *in = malloc(LEN);
	struct rec send[2], rec;
	size_t all = 0;
	int fd[2];

	(void)state;
	assert_true(out && in);
	socket_pair(fd);
	rec_init(&send[0]);
	rec_init(&send[1]);
	STARTS(weir_send(r, &send[0].op, fd[0], out, LEN, 0));
	STARTS(weir_send(r, &send[1].op, fd[0], out, LEN, 0));
	while (all < LEN) {
		rec_init(&rec);
		STARTS(weir_recv(r, &rec.op, fd[1], in, LEN, 0));
		assert_true(finish(r, &rec) > 0);
		all += (size_t)rec.res;
		weir_op_cancel(&send[1].op);
	}
	UNTIL(r, send[0].calls && send[1].calls);
	assert_int_equal(send[0].res, LEN);
	assert_int_equal(send[1].res, -ECANCELED);
	free(out);
	free(in);
	close_pair(fd);
	unmake(r);
}

/* Beyond what a reactor reserves, EV_FDS; there may be no such descriptors. */
#define HIGH_FD 8000

static int high_copy(int fd)
{
	struct rlimit limit;
	int high;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	(void)!setrlimit(RLIMIT_NOFILE, &limit);
	high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	return high;
}

static void splice_without_memory_to_wait_ends_with_enomem(void **state)
{
	struct rlimit limit;
	struct weir_reactor *r;
	int in[2], out[2], high;
	struct rec rec;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	r = make();
	pipe_pair(in);
	pipe_pair(out);
	high = high_copy(in[0]);
	if (high < 0) {
		close_pair(in);
		close_pair(out);
		skip_because("no descriptor can be as high");
	}
	rec_init(&rec);
	refused_point = "malloc";
	fault_ask(is_refused);
	STARTS(weir_splice(r, &rec.op, high, out[1], 10));
	fault_ask(NULL);
	assert_int_equal(finish(r, &rec), -ENOMEM);
	rec_init(&rec);
	STARTS(weir_splice(r, &rec.op, high, out[1], 10));
	assert_int_equal(write(in[1], "x", 1), 1);
	assert_int_equal(finish(r, &rec), 1);
	close(high);
	close_pair(in);
	close_pair(out);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	unmake(r);
}

static bool append_is_forgotten, no_open;

static int overlayfs(const char *name)
{
	return (append_is_forgotten && !strcmp(name, "overlayfs")) ||
	       (no_open && !strcmp(name, "open"));
}

/* The system of a guest's kernel 6.1 is one that forgets; here it is asked for. */
static void append_is_at_the_end_where_the_file_system_forgets_it(void **state)
{
	struct weir_reactor *r = make();
	int fd = test_file(state, "file", 10, 1), fds = count_fds();
	struct rec rec;

	append_is_forgotten = true;
	fault_ask(overlayfs);
	rec_init(&rec);
	assert_int_equal(weir_op_set_rw(&rec.op, WEIR_RW_APPEND, 0), 0);
	STARTS(weir_writev(r, &rec.op, fd, text_iov, 2, 0));
	assert_int_equal(finish(r, &rec), 7);
	assert_int_equal(pread(fd, got, sizeof(got), 10), 7);
	assert_memory_equal(got, "abcdefg", 7);

	/* By the descriptor's position, which is the end afterwards. */
	rec_init(&rec);
	assert_int_equal(weir_op_set_rw(&rec.op, WEIR_RW_APPEND, 0), 0);
	STARTS(weir_write(r, &rec.op, fd, "hi", 2, WEIR_OFF_STREAM));
	assert_int_equal(finish(r, &rec), 2);
	assert_int_equal(pread(fd, got, sizeof(got), 17), 2);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 19);

	/* And at the end, or not at all. */
	no_open = true;
	rec_init(&rec);
	assert_int_equal(weir_op_set_rw(&rec.op, WEIR_RW_APPEND, 0), 0);
	STARTS(weir_write(r, &rec.op, fd, "x", 1, 0));
	assert_int_equal(finish(r, &rec), -EOPNOTSUPP);
	fault_ask(NULL);
	assert_int_equal(pread(fd, got, sizeof(got), 0), 19);
	assert_int_equal(count_fds(), fds);
	close(fd);
	unmake(r);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(old_kernel_moves_bytes_without_waiting),
		CASE(append_is_at_the_end_where_the_file_system_forgets_it),
		CASE(timer_descriptor_is_read_when_it_expires),
		CASE(socket_can_be_read_as_a_file),
		CASE(operation_on_a_closed_descriptor_ends_with_ebadf),
		CASE(connect_whose_error_was_read_elsewhere_ends_all_the_same),
		CASE(connect_to_a_full_backlog_without_a_timer_is_refused),
		CASE(send_that_is_cut_short_stays_before_those_that_wait),
		CASE(send_that_is_cut_short_survives_the_cancel_of_the_next),
		CASE(splice_without_memory_to_wait_ends_with_enomem),
	};
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_EV,
	};
	struct weir_reactor *r;

	memcpy(text, "abcdefg", 7);
	if (weir_reactor_create(&r, &opts)) {
		printf("1..0 # SKIP %s\n", weir_why());
		return 0;
	}
	unmake(r);
	return harness_run_plain(cases, N_OF(cases));
}
