/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated connections and pipes, as <weir/sim/socket.h> promises them. */

#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/sim/file.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/watch.h>

#define BIT(kind) (UINT64_C(1) << (kind))

/* A world with two reactors, as on two hosts. */
struct net {
	struct weir_sim *sim;
	struct weir_reactor *r[2];
	struct rec rec[4];
};

static void net_begin_with(struct net *n, uint64_t seed,
			   struct weir_sim_opts opts)
{
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };

	memset(n, 0, sizeof(*n));
	opts.size = sizeof(opts);
	assert_int_equal(weir_sim_create(&n->sim, seed, &opts), 0);
	ropts.sim = n->sim;
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_reactor_create(&n->r[i], &ropts), 0);
	for (size_t i = 0; i < N_OF(n->rec); i++)
		rec_init(&n->rec[i]);
}

static void net_begin(struct net *n, uint64_t seed)
{
	net_begin_with(n, seed, (struct weir_sim_opts){ 0 });
}

/* What was sent is with somebody, or lost, or on its way. */
static void check_bytes(struct net *n)
{
	struct weir_sim_socket_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_sim_socket_stats(n->sim, &s), 0);
	assert_int_equal(s.sent, s.received + s.lost + s.held);
}

static void net_end(struct net *n)
{
	check_bytes(n);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_reactor_destroy(n->r[i]), 0);
	assert_int_equal(weir_sim_destroy(n->sim), 0);
}

static void run(struct net *n)
{
	assert_true(weir_sim_run(n->sim, WEIR_FOREVER, 0) >= 0);
	check_bytes(n);
}

#define RES(n, i, call)                                           \
	(rec_init(&(n)->rec[i]), start_it(call), run(n),           \
	 assert_int_equal((n)->rec[i].calls, 1), (n)->rec[i].res)

static void start_it(int err)
{
	assert_int_equal(err, 0);
}

static struct sockaddr_un to_name(const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	strcpy(un.sun_path, name);
	return un;
}

static int connect_to(struct net *n, struct rec *rec, int fd, const char *name)
{
	static struct sockaddr_un un[4];
	static int next;

	un[++next % 4] = to_name(name);
	rec_init(rec);
	return weir_connect(n->r[0], &rec->op, fd,
			    (struct sockaddr *)&un[next % 4], sizeof(un[0]));
}

static void a_connection_is_made_and_used(void **state)
{
	char out[] = "over there", in[sizeof(out)] = "";
	struct net n;
	int l, c, s;

	(void)state;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_listen(n.sim, &l, "b:7", 4), 0);
	assert_int_equal(weir_sim_socket(n.sim, &c, "a"), 0);
	assert_int_equal(weir_accept(n.r[1], &n.rec[1].op, l, NULL, NULL, 0), 0);
	assert_int_equal(RES(&n, 0, connect_to(&n, &n.rec[0], c, "b:7")), 0);
	assert_int_equal(n.rec[1].calls, 1);
	s = (int)n.rec[1].res;
	assert_true(s >= 0);
	assert_int_equal(RES(&n, 0, connect_to(&n, &n.rec[0], c, "b:7")),
			 -EISCONN);
	assert_int_equal(RES(&n, 0, weir_send(n.r[0], &n.rec[0].op, c, out,
					      sizeof(out), WEIR_SOCK_MORE)),
			 sizeof(out));
	assert_int_equal(RES(&n, 0, weir_shutdown(n.r[0], &n.rec[0].op, c,
						  SHUT_WR)), 0);
	assert_int_equal(RES(&n, 1, weir_recv(n.r[1], &n.rec[1].op, s, in,
					      sizeof(in), WEIR_SOCK_ALL)),
			 sizeof(in));
	assert_string_equal(in, out);
	/* Half closed: the end one way, the other way goes on. */
	assert_int_equal(RES(&n, 1, weir_recv(n.r[1], &n.rec[1].op, s, in, 4,
					      0)), 0);
	assert_int_equal(RES(&n, 0, weir_send(n.r[0], &n.rec[0].op, c, out, 1,
					      0)), -EPIPE);
	assert_int_equal(RES(&n, 1, weir_send(n.r[1], &n.rec[1].op, s, out, 4,
					      0)), 4);
	assert_int_equal(RES(&n, 0, weir_recv(n.r[0], &n.rec[0].op, c, in, 4,
					      WEIR_SOCK_ALL)), 4);
	assert_int_equal(RES(&n, 1, weir_close(n.r[1], &n.rec[1].op, s)), 0);
	assert_int_equal(RES(&n, 0, weir_recv(n.r[0], &n.rec[0].op, c, in, 4,
					      0)), 0);
	assert_int_equal(weir_sim_close(c), 0);
	assert_int_equal(weir_sim_close(c), -EBADF);
	assert_int_equal(weir_sim_close(l), 0);
	net_end(&n);
}

static void an_internet_address_is_a_name(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr other = { .sa_family = 999 };
	struct net n;
	int l, l6, c, c6;

	(void)state;
	net_begin(&n, 1);
	in.sin_port = in6.sin6_port = htons(7000);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in6.sin6_addr = in6addr_loopback;
	assert_int_equal(weir_sim_listen(n.sim, &l, "127.0.0.1:7000", 1), 0);
	assert_int_equal(weir_sim_listen(n.sim, &l6, "[::1]:7000", 1), 0);
	assert_int_equal(weir_sim_socket(n.sim, &c, ""), 0);
	assert_int_equal(weir_sim_socket(n.sim, &c6, ""), 0);
	assert_int_equal(RES(&n, 0, weir_connect(n.r[0], &n.rec[0].op, c,
						 &other, sizeof(other))),
			 -EAFNOSUPPORT);
	assert_int_equal(RES(&n, 0, weir_connect(n.r[0], &n.rec[0].op, c,
						 (struct sockaddr *)&in, 4)),
			 -EINVAL);
	assert_int_equal(RES(&n, 0, weir_connect(n.r[0], &n.rec[0].op, c,
						 (struct sockaddr *)&in,
						 sizeof(in))), 0);
	assert_int_equal(RES(&n, 0, weir_connect(n.r[0], &n.rec[0].op, c6,
						 (struct sockaddr *)&in6,
						 sizeof(in6))), 0);
	assert_int_equal(weir_sim_accept(l6) >= 0, 1);
	assert_int_equal(weir_sim_accept(l6), -EAGAIN);
	assert_int_equal(weir_sim_accept(c), -EINVAL);
	net_end(&n);
}

static void connect_without_a_listener_or_backlog_is_refused(void **state)
{
	struct net n;
	int l, c[3], s;

	(void)state;
	net_begin(&n, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_sim_socket(n.sim, &c[i], "a"), 0);
	assert_int_equal(RES(&n, 0, connect_to(&n, &n.rec[0], c[0], "b:7")),
			 -ECONNREFUSED);
	assert_int_equal(weir_sim_listen(n.sim, &l, "b:7", 2), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(RES(&n, 0, connect_to(&n, &n.rec[0], c[i],
						       "b:7")),
				 i == 2 ? -ECONNREFUSED : 0);
	s = weir_sim_accept(l);
	assert_true(s >= 0);
	assert_int_equal(RES(&n, 0, connect_to(&n, &n.rec[0], c[2], "b:7")),
			 0);
	/* Nobody will accept the other two: they are reset. */
	assert_int_equal(weir_sim_close(l), 0);
	run(&n);
	assert_int_equal(weir_sim_read(c[0], &s, 1), -EAGAIN);
	assert_int_equal(weir_sim_read(c[1], &s, 1), -ECONNRESET);
	assert_int_equal(weir_sim_read(c[2], &s, 1), -ECONNRESET);
	assert_int_equal(weir_sim_read(c[2], &s, 1), 0);
	assert_int_equal(weir_sim_write(c[2], &s, 1), -EPIPE);
	assert_int_equal(RES(&n, 0, connect_to(&n, &n.rec[0], c[2], "b:7")),
			 -EISCONN);
	net_end(&n);
}

static void names_are_checked(void **state)
{
	char longest[WEIR_SIM_NAME_MAX + 1];
	struct net n;
	int fd = -7, l, fds[2];
	char c;

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_socket(n.sim, &fd, NULL), -EINVAL);
	assert_int_equal(weir_sim_socket(n.sim, &fd, longest), -EINVAL);
	assert_int_equal(weir_sim_listen(n.sim, &fd, NULL, 1), -EINVAL);
	assert_int_equal(weir_sim_listen(n.sim, &fd, "", 1), -EINVAL);
	assert_int_equal(weir_sim_listen(n.sim, &fd, longest, 1), -EINVAL);
	assert_int_equal(weir_sim_listen(n.sim, &fd, "a", 0), -EINVAL);
	assert_int_equal(weir_sim_listen(n.sim, &l, longest + 1, 1), 0);
	assert_int_equal(weir_sim_listen(n.sim, &fd, longest + 1, 1),
			 -EADDRINUSE);
	assert_int_equal(fd, -7);
	assert_int_equal(weir_sim_partition(n.sim, NULL, "a", 1), -EINVAL);
	assert_int_equal(weir_sim_partition(n.sim, "a", longest, 1), -EINVAL);
	assert_int_equal(weir_sim_partition(n.sim, "a", "b", 0), -ENOENT);
	assert_int_equal(weir_sim_partition(n.sim, "a", "b", 1), 0);
	assert_int_equal(weir_sim_partition(n.sim, "a", "b", 1), -EEXIST);
	assert_int_equal(weir_sim_partition(n.sim, "b", "a", 1), -EEXIST);
	assert_int_equal(weir_sim_partition(n.sim, "b", "a", 0), 0);
	assert_int_equal(weir_sim_partition(n.sim, "a", "b", 0), -ENOENT);

	assert_int_equal(weir_sim_pipe(n.sim, fds), 0);
	assert_int_equal(weir_sim_shutdown(l, 77), -EINVAL);
	assert_int_equal(weir_sim_shutdown(l, SHUT_WR), -ENOTCONN);
	assert_int_equal(weir_sim_shutdown(fds[0], SHUT_WR), -ENOTSOCK);
	assert_int_equal(weir_sim_shutdown(1, SHUT_WR), -EBADF);
	assert_int_equal(weir_sim_reset(fds[0]), -ENOTSOCK);
	assert_int_equal(weir_sim_reset(l), -ENOTCONN);
	assert_int_equal(weir_sim_read(1, &c, 1), -EBADF);
	assert_int_equal(weir_sim_write(1, &c, 1), -EBADF);
	assert_int_equal(weir_sim_accept(1), -EBADF);
	assert_int_equal(weir_sim_read(fds[1], &c, 1), -EBADF);
	assert_int_equal(weir_sim_write(fds[0], &c, 1), -EBADF);
	net_end(&n);
}

static void a_pipe_holds_64_kib_and_takes_no_time(void **state)
{
	static char buf[70000], in[70000];
	struct net n;
	int p[2];

	(void)state;
	net_begin(&n, 1);
	fill_pattern(buf, sizeof(buf), 0, 3);
	assert_int_equal(weir_sim_pipe(n.sim, p), 0);
	assert_int_equal(weir_sim_write(p[1], "abc", 3), 3);
	assert_int_equal(weir_sim_read(p[0], in, sizeof(in)), 3);
	assert_memory_equal(in, "abc", 3);
	assert_int_equal(weir_sim_read(p[0], in, 1), -EAGAIN);
	for (size_t sum = 0; sum < 65536;) {
		ssize_t got = weir_sim_write(p[1], buf + sum,
					     sizeof(buf) - sum);

		assert_true(got > 0);
		sum += (size_t)got;
		assert_true(sum <= 65536);
	}
	assert_int_equal(weir_sim_write(p[1], buf, 1), -EAGAIN);
	assert_int_equal(RES(&n, 0, weir_recv(n.r[0], &n.rec[0].op, p[0], in,
					      1, 0)), -ENOTSOCK);
	for (size_t sum = 0; sum < 65536;) {
		ssize_t got = weir_sim_read(p[0], in + sum, 5000);

		assert_true(got > 0);
		sum += (size_t)got;
	}
	assert_memory_equal(in, buf, 65536);
	assert_int_equal(weir_sim_write(p[1], "x", 1), 1);
	assert_int_equal(weir_sim_close(p[1]), 0);
	assert_int_equal(weir_sim_read(p[0], in, 10), 1);
	assert_int_equal(weir_sim_read(p[0], in, 10), 0);
	weir_sim_close(p[0]);
	assert_int_equal(weir_sim_pipe(n.sim, p), 0);
	weir_sim_close(p[0]);
	assert_int_equal(RES(&n, 0, weir_write(n.r[0], &n.rec[0].op, p[1],
					       buf, 5, WEIR_OFF_STREAM)),
			 -EPIPE);
	net_end(&n);
}

/* @fd[0] of "a" and @fd[1] of "b"; the listener is closed. */
static void connect_pair(struct net *n, int fd[2])
{
	int l;

	assert_int_equal(weir_sim_listen(n->sim, &l, "b:7", 4), 0);
	assert_int_equal(weir_sim_socket(n->sim, &fd[0], "a"), 0);
	assert_int_equal(weir_accept(n->r[1], &n->rec[1].op, l, NULL, NULL, 0), 0);
	assert_int_equal(RES(n, 0, connect_to(n, &n->rec[0], fd[0], "b:7")),
			 0);
	assert_int_equal(n->rec[1].calls, 1);
	fd[1] = (int)n->rec[1].res;
	assert_true(fd[1] >= 0);
	assert_int_equal(weir_sim_close(l), 0);
}

/* What @fd takes until it is full, in pieces that fill nothing evenly. */
static size_t write_until_full(struct net *n, int fd, const char *buf,
			       size_t len)
{
	size_t sum = 0;
	ssize_t got;

	for (;;) {
		assert_true(sum + 1000 <= len);
		got = weir_sim_write(fd, buf + sum, 1000);
		if (got == -EAGAIN)
			return sum;
		assert_true(got > 0);
		sum += (size_t)got;
		run(n);
	}
}

static void a_connection_holds_64_kib_at_each_end(void **state)
{
	static char buf[3 * 65536], in[sizeof(buf)];
	struct net n;
	size_t sum;
	int fd[2];

	(void)state;
	net_begin(&n, 1);
	fill_pattern(buf, sizeof(buf), 0, 3);
	connect_pair(&n, fd);
	assert_int_equal(write_until_full(&n, fd[0], buf, sizeof(buf)),
			 2 * 65536);
	for (sum = 0; sum < 2 * 65536; run(&n)) {
		ssize_t got = weir_sim_read(fd[1], in + sum, 5000);

		assert_true(got > 0);
		sum += (size_t)got;
	}
	assert_int_equal(weir_sim_read(fd[1], in, 1), -EAGAIN);
	assert_memory_equal(in, buf, sum);
	weir_sim_close(fd[0]);
	weir_sim_close(fd[1]);
	net_end(&n);
}

/* Nothing acknowledges, so a sender's space is used up; and nothing resets,
 * until the host has power again. */
static void sender_to_a_silent_host_is_held_up(void **state)
{
	static char buf[3 * 65536];
	unsigned int silent = 0;
	ssize_t got;
	int fd[2];
	char c;

	(void)state;
	for (uint64_t seed = 0; seed < 16; seed++) {
		struct net n;

		net_begin(&n, seed);
		connect_pair(&n, fd);
		weir_sim_power_cut(n.sim, "b");
		run(&n);
		got = weir_sim_read(fd[0], &c, 1);
		if (got == -EAGAIN) {
			silent++;
			assert_int_equal(write_until_full(&n, fd[0], buf,
							  sizeof(buf)), 65536);
			assert_int_equal(weir_sim_close(fd[1]), 0);
			run(&n);
			assert_int_equal(weir_sim_read(fd[0], &c, 1), -EAGAIN);
			weir_sim_set_faults(n.sim, 0);
			run(&n);
			got = weir_sim_read(fd[0], &c, 1);
		} else {
			assert_int_equal(weir_sim_close(fd[1]), 0);
		}
		assert_int_equal(got, -ECONNRESET);
		assert_int_equal(weir_sim_close(fd[0]), 0);
		net_end(&n);
	}
	assert_in_range(silent, 1, 15);
}

/* As Linux: reads go on to what has come, then the error once, then the end. */
static void a_reset_is_told_once_at_each_end(void **state)
{
	struct net n;
	char c[4];
	int fd[2];

	(void)state;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
	assert_int_equal(weir_sim_write(fd[0], "abc", 3), 3);
	run(&n);
	assert_int_equal(weir_sim_write(fd[0], "def", 3), 3);
	assert_int_equal(weir_sim_reset(fd[0]), 0);
	assert_int_equal(weir_sim_reset(fd[0]), -ENOTCONN);
	assert_int_equal(weir_sim_write(fd[0], c, 1), -ECONNRESET);
	assert_int_equal(weir_sim_write(fd[0], c, 1), -EPIPE);
	assert_int_equal(weir_sim_read(fd[0], c, 1), 0);
	/* The other has not heard yet. */
	assert_int_equal(weir_sim_write(fd[1], c, 1), 1);
	run(&n);
	assert_int_equal(weir_sim_read(fd[1], c, 4), 3);
	assert_int_equal(weir_sim_read(fd[1], c, 4), -ECONNRESET);
	assert_int_equal(weir_sim_read(fd[1], c, 4), 0);
	assert_int_equal(weir_sim_write(fd[1], c, 4), -EPIPE);
	assert_int_equal(weir_sim_shutdown(fd[1], SHUT_RDWR), 0);
	net_end(&n);
}

/* An end that the peer sends afterwards is no orderly one. */
static void a_reset_is_the_last_that_an_end_hears(void **state)
{
	struct net n;
	int fd[2];
	char c;

	(void)state;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
	assert_int_equal(weir_sim_reset(fd[0]), 0);
	assert_int_equal(weir_sim_shutdown(fd[1], SHUT_WR), 0);
	run(&n);
	assert_int_equal(weir_sim_read(fd[0], &c, 1), -ECONNRESET);
	assert_int_equal(weir_sim_read(fd[0], &c, 1), 0);
	net_end(&n);
}

static void a_close_with_data_unread_is_a_reset(void **state)
{
	struct net n;
	int fd[2];
	char c;

	(void)state;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
	assert_int_equal(weir_sim_write(fd[0], "abc", 3), 3);
	run(&n);
	weir_sim_close(fd[1]);
	run(&n);
	assert_int_equal(weir_sim_read(fd[0], &c, 1), -ECONNRESET);
	weir_sim_close(fd[0]);

	/* And so is what comes to a socket that has been closed. */
	assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
	weir_sim_close(fd[1]);
	assert_int_equal(weir_sim_write(fd[0], "abc", 3), 3);
	run(&n);
	assert_int_equal(weir_sim_write(fd[0], &c, 1), -EPIPE);
	assert_int_equal(weir_sim_read(fd[0], &c, 1), 0);
	net_end(&n);
}

static void close_ends_the_operations_that_wait(void **state)
{
	struct net n;
	char in[4];
	int fd[2], l;

	(void)state;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
	assert_int_equal(weir_sim_listen(n.sim, &l, "l", 4), 0);
	assert_int_equal(weir_recv(n.r[0], &n.rec[0].op, fd[0], in, 4, 0), 0);
	assert_int_equal(weir_accept(n.r[0], &n.rec[1].op, l, NULL, NULL, 0), 0);
	assert_int_equal(weir_poll(n.r[0], &n.rec[2].op, fd[0],
				   WEIR_READABLE), 0);
	run(&n);
	weir_sim_close(fd[0]);
	weir_sim_close(l);
	run(&n);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(n.rec[i].calls, 1);
		assert_int_equal(n.rec[i].res, -EBADF);
	}
	net_end(&n);
}

struct message {
	struct msghdr msg;
	struct iovec iov;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))];
	char bytes[16];
};

/* Of @len bytes, and with the @n descriptors at @fds. */
static struct msghdr *message(struct message *m, size_t len, const int *fds,
			      size_t n)
{
	struct cmsghdr *c = (struct cmsghdr *)(void *)m->control;

	memset(m, 0, sizeof(*m));
	memset(m->bytes, 'a', sizeof(m->bytes));
	m->iov = (struct iovec){ m->bytes, len };
	m->msg = (struct msghdr){ .msg_iov = &m->iov, .msg_iovlen = 1 };
	if (n) {
		m->msg.msg_control = m->control;
		m->msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		if (fds)
			memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	return &m->msg;
}

static int first_of(const struct message *m)
{
	const struct cmsghdr *c = (const void *)m->control;
	int fd;

	assert_int_equal(c->cmsg_level, SOL_SOCKET);
	assert_int_equal(c->cmsg_type, SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

#define SEND_MSG(n, fd, m) \
	RES(n, 0, weir_sendmsg((n)->r[0], &(n)->rec[0].op, fd, m, 0))
#define RECV_MSG(n, fd, m) \
	RES(n, 1, weir_recvmsg((n)->r[1], &(n)->rec[1].op, fd, m, 0))

static void descriptors_are_sent_with_their_byte(void **state)
{
	int fd[2], p[2], got, file;
	struct message m;
	struct net n;
	char in[32];

	(void)state;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
	assert_int_equal(weir_sim_pipe(n.sim, p), 0);
	file = weir_sim_file_open(n.sim, "f", O_RDWR | O_CREAT, 0600);
	assert_int_equal(weir_sim_write(fd[0], "xyz", 3), 3);
	assert_int_equal(SEND_MSG(&n, fd[0], message(&m, 4, p, 2)), 4);
	assert_int_equal(SEND_MSG(&n, fd[0], message(&m, 4, &file, 1)), 4);
	/* The sender's own are not needed any more. */
	assert_int_equal(weir_sim_close(p[0]), 0);
	assert_int_equal(weir_sim_close(file), 0);
	run(&n);
	/* A read ends where others begin than are with its first byte. */
	assert_int_equal(RECV_MSG(&n, fd[1], message(&m, 16, NULL, 3)), 3);
	assert_int_equal(m.msg.msg_controllen, 0);
	assert_int_equal(RECV_MSG(&n, fd[1], message(&m, 16, NULL, 3)), 4);
	assert_int_equal(m.msg.msg_controllen, CMSG_LEN(2 * sizeof(int)));
	got = first_of(&m);
	assert_int_equal(weir_sim_write(p[1], "via", 3), 3);
	assert_int_equal(weir_sim_read(got, in, 8), 3);
	assert_int_equal(weir_sim_close(p[1]), 0);
	assert_int_equal(weir_sim_read(got, in, 8), -EAGAIN);
	assert_int_equal(RECV_MSG(&n, fd[1], message(&m, 16, NULL, 1)), 4);
	file = first_of(&m);
	assert_int_equal(weir_sim_pwrite(file, "data", 4, 0), 4);
	assert_int_equal(weir_sim_file_size(n.sim, "f"), 4);
	net_end(&n);
}

static void descriptors_that_nobody_takes_are_closed(void **state)
{
	int fd[2], p[2], q[2];
	struct message m;
	struct net n;
	char in[32];

	(void)state;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
	assert_int_equal(weir_sim_pipe(n.sim, p), 0);
	assert_int_equal(weir_sim_pipe(n.sim, q), 0);
	/* By a plain read, for want of space, and by a close. */
	assert_int_equal(SEND_MSG(&n, fd[0], message(&m, 1, &p[1], 1)), 1);
	assert_int_equal(SEND_MSG(&n, fd[0], message(&m, 1, q, 2)), 1);
	assert_int_equal(weir_sim_close(p[1]), 0);
	assert_int_equal(weir_sim_close(q[1]), 0);
	run(&n);
	assert_int_equal(weir_sim_read(p[0], in, 1), -EAGAIN);
	assert_int_equal(RES(&n, 1, weir_recv(n.r[1], &n.rec[1].op, fd[1], in,
					      sizeof(in), 0)), 1);
	run(&n);
	assert_int_equal(weir_sim_read(p[0], in, 1), 0);
	message(&m, 16, NULL, 1);
	m.msg.msg_controllen = CMSG_LEN(sizeof(int));
	assert_int_equal(RECV_MSG(&n, fd[1], &m.msg), 1);
	assert_int_equal(m.msg.msg_flags, MSG_CTRUNC);
	assert_int_equal(weir_sim_close(first_of(&m)), 0);
	run(&n);
	assert_int_equal(weir_sim_read(q[0], in, 1), 0);
	assert_int_equal(SEND_MSG(&n, fd[0], message(&m, 1, p, 1)), 1);
	assert_int_equal(SEND_MSG(&n, fd[0], message(&m, 1, &fd[0], 1)), 1);
	assert_int_equal(weir_sim_close(fd[1]), 0);
	run(&n);
	/* And what cannot be sent. */
	assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
	p[1] = 3;
	assert_int_equal(SEND_MSG(&n, fd[0], message(&m, 1, &p[1], 1)), -EBADF);
	message(&m, 1, p, 1);
	((struct cmsghdr *)(void *)m.control)->cmsg_type = SCM_RIGHTS + 1;
	assert_int_equal(SEND_MSG(&n, fd[0], &m.msg), -EOPNOTSUPP);
	/* A world that ends has some on their way. */
	assert_int_equal(SEND_MSG(&n, fd[0], message(&m, 1, p, 1)), 1);
	net_end(&n);
}

/* Its first cancel, or the first few, find nothing, and it waits as before. */
static void deadline_ends_receive_that_is_being_tried(void **state)
{
	struct weir_sim_stats s = { .size = sizeof(s) };
	uint64_t n_faults = 0;
	char buf[8];
	struct net n;
	int fd[2];

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		net_begin_with(&n, seed, (struct weir_sim_opts){
			.faults = BIT(WEIR_SIM_EAGAIN), .rate = 2 });
		assert_int_equal(weir_sim_socket_pair(n.sim, fd), 0);
		assert_int_equal(weir_recv(n.r[0], &n.rec[0].op, fd[0], buf,
					   sizeof(buf), WEIR_SOCK_ALL), 0);
		weir_op_set_deadline(&n.rec[0].op, weir_reactor_now(n.r[0]) +
				     WEIR_SEC);
		run(&n);
		assert_int_equal(n.rec[0].calls, 1);
		assert_int_equal(n.rec[0].res, -ETIMEDOUT);
		assert_int_equal(weir_sim_stats(n.sim, &s), 0);
		n_faults += s.faults[WEIR_SIM_EAGAIN];
		net_end(&n);
	}
	assert_true(n_faults > 0);
}

/* From a socket through a pipe to another one. */
static void bytes_are_spliced_through_a_pipe(void **state)
{
	static char out[100000], in[100000];
	uint64_t got = 0, moved = 0;
	int a[2], b[2], p[2];
	struct net n;

	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		net_begin_with(&n, seed, (struct weir_sim_opts){
			.faults = BIT(WEIR_SIM_SHORT) | BIT(WEIR_SIM_EAGAIN),
			.rate = 4 });
		assert_int_equal(weir_sim_socket_pair(n.sim, a), 0);
		assert_int_equal(weir_sim_socket_pair(n.sim, b), 0);
		assert_int_equal(weir_sim_pipe(n.sim, p), 0);
		for (size_t i = 0; i < sizeof(out); i++)
			out[i] = (char)weir_sim_random(n.sim);
		start_it(weir_send(n.r[0], &n.rec[0].op, a[0], out,
				   sizeof(out), 0));
		for (got = moved = 0; got < sizeof(out);) {
			int64_t res = RES(&n, 1, weir_splice(
				n.r[1], &n.rec[1].op, a[1], p[1], 30000));

			assert_true(res > 0);
			while (res > 0) {
				int64_t m = RES(&n, 2, weir_splice(
					n.r[1], &n.rec[2].op, p[0], b[0],
					(size_t)res));

				assert_true(m > 0);
				res -= m;
				moved += (uint64_t)m;
				while (got < moved)
					got += (uint64_t)RES(&n, 3, weir_recv(
						n.r[0], &n.rec[3].op, b[1],
						in + got, sizeof(in) - got, 0));
			}
		}
		assert_int_equal(n.rec[0].res, sizeof(out));
		assert_memory_equal(in, out, sizeof(out));
		/* The end is 0, and a reader that has gone -EPIPE. */
		assert_int_equal(weir_sim_close(a[0]), 0);
		assert_int_equal(RES(&n, 1, weir_splice(n.r[1], &n.rec[1].op,
							a[1], p[1], 10)), 0);
		assert_int_equal(weir_sim_write(p[1], "x", 1), 1);
		assert_int_equal(weir_sim_close(b[1]), 0);
		run(&n);
		assert_int_equal(RES(&n, 1, weir_splice(n.r[1], &n.rec[1].op,
							p[0], b[0], 1)), -EPIPE);
		net_end(&n);
	}
}

static void splice_waits_for_either_side_and_is_cancelled(void **state)
{
	int a[2], p[2], file;
	char in[8];
	struct net n;

	(void)state;
	net_begin(&n, 1);
	assert_int_equal(weir_sim_socket_pair(n.sim, a), 0);
	assert_int_equal(weir_sim_pipe(n.sim, p), 0);
	start_it(weir_splice(n.r[0], &n.rec[0].op, a[1], p[1], 8));
	run(&n);
	assert_int_equal(n.rec[0].calls, 0);
	weir_op_cancel(&n.rec[0].op);
	run(&n);
	assert_int_equal(n.rec[0].res, -ECANCELED);
	/* A pipe that is full. */
	while (weir_sim_write(p[1], "12345678", 8) > 0)
		;
	assert_int_equal(weir_sim_write(a[0], "abc", 3), 3);
	rec_init(&n.rec[0]);
	start_it(weir_splice(n.r[0], &n.rec[0].op, a[1], p[1], 8));
	run(&n);
	assert_int_equal(n.rec[0].calls, 0);
	while (weir_sim_read(p[0], in, sizeof(in)) > 0)
		;
	run(&n);
	assert_int_equal(n.rec[0].res, 3);
	/* What cannot be spliced. */
	file = weir_sim_file_open(n.sim, "f", O_RDWR | O_CREAT, 0600);
	assert_int_equal(RES(&n, 0, weir_splice(n.r[0], &n.rec[0].op, file,
						p[1], 1)), -EINVAL);
	assert_int_equal(RES(&n, 0, weir_splice(n.r[0], &n.rec[0].op, a[0],
						a[1], 1)), -EINVAL);
	assert_int_equal(RES(&n, 0, weir_splice(n.r[0], &n.rec[0].op, p[1],
						a[1], 1)), -EBADF);
	assert_int_equal(RES(&n, 0, weir_splice(n.r[0], &n.rec[0].op, 5, p[1],
						1)), -EBADF);
	net_end(&n);
}

/* Both are -ETIMEDOUT, but after the one there is nothing to wait for. */
static void timeout_of_a_connection_is_not_that_of_a_deadline(void **state)
{
	struct sockaddr_un to = to_name("b:1");
	int found = 0, l, c;
	char in[8];
	struct net n;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		net_begin(&n, seed);
		assert_int_equal(weir_sim_listen(n.sim, &l, "b:1", 1), 0);
		assert_int_equal(weir_sim_socket(n.sim, &c, "a"), 0);
		assert_int_equal(RES(&n, 0, weir_connect(
			n.r[0], &n.rec[0].op, c, (struct sockaddr *)&to,
			sizeof(to))), 0);
		rec_init(&n.rec[0]);
		weir_op_set_deadline(&n.rec[0].op, weir_reactor_now(n.r[0]) +
						   WEIR_SEC);
		assert_int_equal(weir_sim_partition(n.sim, "a", "b", 1), 0);
		start_it(weir_recv(n.r[0], &n.rec[0].op, c, in, 8, 0));
		run(&n);
		assert_int_equal(n.rec[0].res, -ETIMEDOUT);
		assert_int_equal(weir_op_is_late(&n.rec[0].op), 1);
		rec_init(&n.rec[0]);
		start_it(weir_recv(n.r[0], &n.rec[0].op, c, in, 8, 0));
		assert_int_equal(weir_sim_write(c, "x", 1), 1);
		assert_int_equal(weir_sim_partition(n.sim, "a", "b", 0), 0);
		run(&n);
		if (n.rec[0].calls && n.rec[0].res == -ETIMEDOUT) {
			assert_int_equal(weir_op_is_late(&n.rec[0].op), 0);
			found++;
		}
		weir_op_cancel(&n.rec[0].op);
		run(&n);
		net_end(&n);
	}
	assert_true(found > 0);
}

static const struct harness_case cases[] = {
	CASE(timeout_of_a_connection_is_not_that_of_a_deadline),
	CASE(bytes_are_spliced_through_a_pipe),
	CASE(splice_waits_for_either_side_and_is_cancelled),
	CASE(a_connection_is_made_and_used),
	CASE(an_internet_address_is_a_name),
	CASE(connect_without_a_listener_or_backlog_is_refused),
	CASE(names_are_checked),
	CASE(a_pipe_holds_64_kib_and_takes_no_time),
	CASE(a_connection_holds_64_kib_at_each_end),
	CASE(sender_to_a_silent_host_is_held_up),
	CASE(a_reset_is_told_once_at_each_end),
	CASE(a_reset_is_the_last_that_an_end_hears),
	CASE(a_close_with_data_unread_is_a_reset),
	CASE(close_ends_the_operations_that_wait),
	CASE(descriptors_are_sent_with_their_byte),
	CASE(descriptors_that_nobody_takes_are_closed),
	CASE(deadline_ends_receive_that_is_being_tried),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
