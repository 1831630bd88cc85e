/* SPDX-License-Identifier: BSD-3-Clause */

/* Sockets, acceptors and receivers, as <weir/socket.h> promises them. */

#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "tests/support/sim-calls.h"

static struct rec rec;

#define RUN(r, call) \
	(rec_init(&rec), start_it(call), finish(r, &rec))

static void start_it(int err)
{
	assert_int_equal(err, 0);
}

static int tcp_listener(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = -1;

	if (harness_sim)
		return sim_listener(a, 64);
	*a = (struct sockaddr_in){ .sin_family = AF_INET };
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(weir_listen(&fd, (struct sockaddr *)a, len, 64, 0),
			 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
}

static int tcp_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static int call_up(const struct sockaddr_in *a)
{
	int fd = tcp_socket();

	assert_int_equal(connect(fd, (const struct sockaddr *)a, sizeof(*a)),
			 0);
	return fd;
}

static void listen_says_what_is_wrong(void **state)
{
	struct sockaddr_in a, b;
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = -7, l = tcp_listener(&a), l2;

	b = a;
	assert_int_equal(fcntl(l, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(weir_listen(&fd, (struct sockaddr *)&b, sizeof(b), 5,
				     0), -EADDRINUSE);
	b.sin_addr.s_addr = htonl(0xc6336401);	/* 198.51.100.1 */
	b.sin_port = 0;
	assert_int_equal(weir_listen(&fd, (struct sockaddr *)&b, sizeof(b), 5,
				     0), -EADDRNOTAVAIL);
	assert_int_equal(weir_listen(&fd, (struct sockaddr *)&b, 1, 5, 0),
			 -EINVAL);
	assert_int_equal(weir_listen(&fd, NULL, 0, 5, 0), -EINVAL);
	b.sin_family = 999;
	assert_int_equal(weir_listen(&fd, (struct sockaddr *)&b, sizeof(b), 5,
				     0), -EINVAL);
	assert_int_equal(fd, -7);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s",
		 test_path(state, "socket"));
	assert_int_equal(weir_listen(&l2, (struct sockaddr *)&un, sizeof(un),
				     5, 0), 0);
	assert_int_equal(weir_listen(&fd, (struct sockaddr *)&un, sizeof(un),
				     5, 0), -EADDRINUSE);
	close(l);
	close(l2);
}

static void reuseport_shares_a_port(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int l[2];

	(void)state;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(weir_listen(&l[0], (struct sockaddr *)&a, len, 5,
				     WEIR_LISTEN_REUSEPORT), 0);
	assert_int_equal(getsockname(l[0], (struct sockaddr *)&a, &len), 0);
	assert_int_equal(weir_listen(&l[1], (struct sockaddr *)&a, len, 5,
				     WEIR_LISTEN_REUSEPORT), 0);
	close_pair(l);
}

static void a_connection_is_made_and_used(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char out[] = "over there", in[sizeof(out)] = "";
	int l, c = tcp_socket(), s, on = 0;
	struct sockaddr_in a;
	socklen_t len = sizeof(on);
	struct rec acc;

	l = tcp_listener(&a);
	rec_init(&acc);
	STARTS(weir_accept(r, &acc.op, l, NULL, NULL, 0));
	assert_int_equal(RUN(r, weir_connect(r, &rec.op, c,
					     (struct sockaddr *)&a,
					     sizeof(a))), 0);
	UNTIL(r, acc.calls);
	s = (int)acc.res;
	assert_true(s >= 0);
	assert_int_equal(fcntl(s, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(getsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, &len),
			 0);
	assert_true(on);
	assert_int_equal(RUN(r, weir_send(r, &rec.op, c, out, sizeof(out),
					  WEIR_SOCK_MORE)), sizeof(out));
	assert_int_equal(RUN(r, weir_shutdown(r, &rec.op, c, SHUT_WR)), 0);
	assert_int_equal(RUN(r, weir_recv(r, &rec.op, s, in, sizeof(in),
					  WEIR_SOCK_ALL)), sizeof(in));
	assert_string_equal(in, out);
	/* Half closed: the end one way, the other way goes on. */
	assert_int_equal(RUN(r, weir_recv(r, &rec.op, s, in, sizeof(in), 0)),
			 0);
	assert_int_equal(RUN(r, weir_send(r, &rec.op, s, out, 4, 0)), 4);
	assert_int_equal(RUN(r, weir_recv(r, &rec.op, c, in, sizeof(in), 0)),
			 4);
	assert_int_equal(RUN(r, weir_close(r, &rec.op, s)), 0);
	assert_int_equal(RUN(r, weir_recv(r, &rec.op, c, in, sizeof(in), 0)),
			 0);
	close(c);
	close(l);
}

static void a_refused_connection_is_econnrefused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in a;
	int c = tcp_socket(), u;

	close(tcp_listener(&a));
	assert_int_equal(RUN(r, weir_connect(r, &rec.op, c,
					     (struct sockaddr *)&a,
					     sizeof(a))), -ECONNREFUSED);
	u = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s",
		 test_path(state, "nobody"));
	assert_int_equal(RUN(r, weir_connect(r, &rec.op, u,
					     (struct sockaddr *)&un,
					     sizeof(un))),
			 harness_sim ? -ECONNREFUSED : -ENOENT);
	close(c);
	close(u);
}

static void a_broken_connection_is_epipe_without_a_signal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct iovec iov = { (char[]){ "xyz" }, 3 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	char buf[10] = "";
	int sv[2];

	/* SIGPIPE would end this program. */
	socket_pair(sv);
	close(sv[1]);
	assert_int_equal(RUN(r, weir_send(r, &rec.op, sv[0], buf, 10, 0)),
			 -EPIPE);
	assert_int_equal(RUN(r, weir_sendv(r, &rec.op, sv[0], &iov, 1, 0)),
			 -EPIPE);
	assert_int_equal(RUN(r, weir_sendmsg(r, &rec.op, sv[0], &msg, 0)),
			 -EPIPE);
	close(sv[0]);
}

static void descriptors_travel_over_a_unix_socket(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char capacity[CMSG_SPACE(sizeof(int))] = "",
	     space2[sizeof(capacity)] = "";
	char byte = 'x', got = 0, text[6] = "";
	struct iovec iov = { &byte, 1 }, iov2 = { &got, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = capacity,
		.msg_controllen = sizeof(capacity),
	};
	struct msghdr in = {
		.msg_iov = &iov2, .msg_iovlen = 1,
		.msg_control = space2, .msg_controllen = sizeof(space2),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int sv[2], p[2], fd;

	socket_pair(sv);
	pipe_pair(p);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &p[1], sizeof(int));
	assert_int_equal(RUN(r, weir_sendmsg(r, &rec.op, sv[0], &msg, 0)), 1);
	assert_int_equal(RUN(r, weir_recvmsg(r, &rec.op, sv[1], &in, 0)), 1);
	assert_int_equal(got, 'x');
	c = CMSG_FIRSTHDR(&in);
	assert_non_null(c);
	assert_int_equal(c->cmsg_type, SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(write(fd, "hello", 6), 6);
	assert_int_equal(read(p[0], text, 6), 6);
	assert_string_equal(text, "hello");
	close(fd);
	close_pair(p);
	close_pair(sv);
}

/* A slow reader: as much as it likes, and turns in between. */
static void long_send(void **state, uint32_t flags, size_t len, bool vec)
{
	struct weir_reactor *r = start_reactor(state);
	char *out = malloc(len), *in = malloc(len);
	struct iovec iov[4];
	size_t got = 0;
	struct rec s;
	ssize_t n;
	int sv[2];

	assert_non_null(out);
	assert_non_null(in);
	tcp_pair(sv);
	set_nonblock(sv[1]);
	fill_pattern(out, len, 0, 7);
	iov[0] = (struct iovec){ out, 1 };
	iov[1] = (struct iovec){ out + 1, 123456 };
	iov[2] = (struct iovec){ NULL, 0 };
	iov[3] = (struct iovec){ out + 123457, len - 123457 };
	rec_init(&s);
	if (vec)
		STARTS(weir_sendv(r, &s.op, sv[0], iov, 4, flags));
	else
		STARTS(weir_send(r, &s.op, sv[0], out, len, flags));
	while (got < len) {
		n = read(sv[1], in + got, len - got < 50000 ? len - got :
							      50000);
		assert_true(n > 0 || errno == EAGAIN);
		got += n > 0 ? (size_t)n : 0;
		assert_true(weir_reactor_turn(r, n > 0 ? 0 : WEIR_MSEC) >= 0);
	}
	UNTIL(r, s.calls);
	assert_int_equal(s.res, len);
	assert_int_equal(s.detail.bytes, len);
	assert_true(is_pattern(in, len, 0, 7));
	some_turns(r, 3);
	assert_int_equal(s.calls, 1);
	close_pair(sv);
	free(out);
	free(in);
}

static size_t long_len(void)
{
	return under_valgrind() || UNDER_TSAN ? 1 << 20 : 8 << 20;
}

static void a_long_send_is_continued(void **state)
{
	long_send(state, 0, long_len(), false);
}

static void a_long_sendv_is_continued(void **state)
{
	long_send(state, 0, long_len(), true);
}

static void a_long_zero_copy_send_is_continued(void **state)
{
	long_send(state, WEIR_SOCK_ZEROCOPY, long_len(), false);
}

static void a_long_zero_copy_sendv_is_continued(void **state)
{
	long_send(state, WEIR_SOCK_ZEROCOPY, long_len(), true);
}

/* The buffer may be overwritten in the callback; the peer has the old bytes. */
static void a_zero_copy_buffer_is_free_in_the_callback(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static char buf[60000], in[60000];
	int sv[2], i;

	tcp_pair(sv);
	for (i = 0; i < 20; i++) {
		fill_pattern(buf, sizeof(buf), 0, (unsigned int)i);
		assert_int_equal(RUN(r, weir_send(r, &rec.op, sv[0], buf,
						  sizeof(buf),
						  WEIR_SOCK_ZEROCOPY)),
				 sizeof(buf));
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(recv(sv[1], in, sizeof(in), MSG_WAITALL),
				 sizeof(in));
		assert_true(is_pattern(in, sizeof(in), 0, (unsigned int)i));
	}
	close_pair(sv);
}

/* The loopback device copies, and so do backends that have no such send. */
static void a_zero_copy_send_tells_that_it_was_a_copy(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	bool told = strcmp(weir_reactor_backend(r), "uring") != 0 ||
		    !kernel_is_before(6, 3);
	struct weir_op_detail detail;
	char in[6];
	int sv[2];

	tcp_pair(sv);
	RUN(r, weir_send(r, &rec.op, sv[0], "abc", 3, WEIR_SOCK_ZEROCOPY));
	weir_op_get_detail(&rec.op, &detail);
	assert_int_equal(detail.code, told ? WEIR_SOCK_COPIED : 0);
	RUN(r, weir_send(r, &rec.op, sv[0], "def", 3, 0));
	weir_op_get_detail(&rec.op, &detail);
	assert_int_equal(detail.code, 0);
	assert_int_equal(recv(sv[1], in, 6, MSG_WAITALL), 6);
	assert_memory_equal(in, "abcdef", 6);
	close_pair(sv);
}

/* What was cancelled has not eaten what comes later. */
static void a_cancelled_recv_takes_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char in[10] = "";
	int sv[2], i;

	socket_pair(sv);
	for (i = 0; i < 50; i++) {
		rec_init(&rec);
		STARTS(weir_recv(r, &rec.op, sv[0], in, sizeof(in), 0));
		some_turns(r, i % 3);
		weir_op_cancel(&rec.op);
		assert_int_equal(finish(r, &rec), -ECANCELED);
		assert_int_equal(write(sv[1], "abc", 3), 3);
		assert_int_equal(RUN(r, weir_recv(r, &rec.op, sv[0], in,
						  sizeof(in), 0)), 3);
	}
	close_pair(sv);
}

static void operations_on_one_socket_are_served_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec recs[20];
	char in[20] = "";
	int sv[2], i, sum = 0;

	socket_pair(sv);
	for (i = 0; i < 20; i++) {
		rec_init(&recs[i]);
		STARTS(weir_recv(r, &recs[i].op, sv[0], &in[i], 1, 0));
	}
	for (i = 0; i < 20; i += 4)
		weir_op_cancel(&recs[i].op);
	/* A cancel may come too late; then another gets nothing but the end. */
	assert_int_equal(write(sv[1], "0123456789abcde", 15), 15);
	shutdown(sv[1], SHUT_WR);
	for (i = 0; i < 20; i++) {
		UNTIL(r, recs[i].calls);
		assert_int_equal(recs[i].calls, 1);
		sum += recs[i].res == 1;
	}
	assert_int_equal(sum, 15);
	close_pair(sv);
}

/* Acceptors. */

struct door {
	struct weir_acceptor *acceptor;
	int fds[200];
	int n, err, n_err;
	int destroy_at;
	bool pause;	/* After each. */
};

static void on_connection(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct door *d = arg;

	assert_ptr_equal(acceptor, d->acceptor);
	if (fd < 0) {
		d->err = fd;
		d->n_err++;
		return;
	}
	d->fds[d->n++] = fd;
	if (d->pause)
		assert_int_equal(weir_acceptor_set(acceptor, 0), 0);
	if (d->n == d->destroy_at) {
		weir_acceptor_destroy(acceptor);
		d->acceptor = NULL;
	}
}

static void open_door(struct door *d, struct weir_reactor *r, int l)
{
	memset(d, 0, sizeof(*d));
	assert_int_equal(weir_acceptor_create(&d->acceptor, r, l,
					      on_connection, d), 0);
}

static void close_door(struct door *d)
{
	weir_acceptor_destroy(d->acceptor);
	while (d->n)
		close(d->fds[--d->n]);
}

static void an_acceptor_wants_a_listening_socket(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_acceptor *a = (void *)0x77;
	int s = tcp_socket(), p[2], l;
	struct sockaddr_in addr;

	pipe_pair(p);
	l = tcp_listener(&addr);
	assert_int_equal(weir_acceptor_create(&a, r, l, NULL, NULL), -EINVAL);
	assert_int_equal(weir_acceptor_create(&a, r, s, on_connection, NULL),
			 -EINVAL);
	assert_int_equal(weir_acceptor_create(&a, r, p[0], on_connection,
					      NULL), -ENOTSOCK);
	assert_int_equal(weir_acceptor_create(&a, r, -1, on_connection, NULL),
			 -EBADF);
	assert_ptr_equal(a, (void *)0x77);
	weir_acceptor_destroy(NULL);
	close(s);
	close(l);
	close_pair(p);
}

static void an_acceptor_takes_all_who_come(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int c[40], i, l = tcp_listener(&a);

	open_door(&d, r, l);
	for (i = 0; i < 40; i++) {
		c[i] = call_up(&a);
		if (i % 7 == 0)
			UNTIL(r, d.n == i + 1);
	}
	UNTIL(r, d.n == 40);
	for (i = 0; i < 40; i++) {
		assert_int_equal(fcntl(d.fds[i], F_GETFD) & FD_CLOEXEC,
				 FD_CLOEXEC);
		close(c[i]);
	}
	assert_int_equal(d.n_err, 0);
	close_door(&d);
	close(l);
}

static void an_acceptor_may_be_destroyed_in_its_callback(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int c[5], i, l = tcp_listener(&a);

	open_door(&d, r, l);
	d.destroy_at = 2;
	for (i = 0; i < 5; i++)
		c[i] = call_up(&a);
	UNTIL(r, d.n == 2);
	some_turns(r, 5);
	assert_int_equal(d.n, 2);
	close_door(&d);
	for (i = 0; i < 5; i++)
		close(c[i]);
	close(l);
}

static void paused_acceptor_loses_nobody(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int c[12], l = tcp_listener(&a);

	open_door(&d, r, l);
	c[0] = call_up(&a);
	UNTIL(r, d.n == 1);
	/* Some come before the kernel has heard of the pause. */
	for (int i = 1; i < 4; i++)
		c[i] = call_up(&a);
	assert_int_equal(weir_acceptor_set(d.acceptor, 0), 0);
	assert_int_equal(weir_acceptor_set(d.acceptor, 0), 0);
	for (int i = 4; i < 8; i++)
		c[i] = call_up(&a);
	some_turns(r, 5);
	assert_int_equal(d.n, 1);
	assert_int_equal(weir_acceptor_set(d.acceptor, 1), 0);
	assert_int_equal(d.n, 1);
	UNTIL(r, d.n == 8);
	for (int i = 8; i < 12; i++)
		c[i] = call_up(&a);
	UNTIL(r, d.n == 12);
	assert_int_equal(d.n_err, 0);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(write(c[i], "x", 1), 1);
		close(c[i]);
	}
	close_door(&d);
	close(l);
}

/* The kernel has accepted them, and the loop has not delivered them yet. */
static void acceptor_paused_by_its_callback_keeps_the_others(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int c[20], l = tcp_listener(&a);

	open_door(&d, r, l);
	d.pause = true;
	for (int i = 0; i < 20; i++)
		c[i] = call_up(&a);
	for (int i = 1; i <= 20; i++) {
		UNTIL(r, d.n == i);
		some_turns(r, 3);
		assert_int_equal(d.n, i);
		assert_int_equal(weir_acceptor_set(d.acceptor, 1), 0);
	}
	for (int i = 0; i < 20; i++)
		close(c[i]);
	close_door(&d);
	close(l);
}

static void destroy_of_a_paused_acceptor_closes_what_it_kept(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int c[20], l = tcp_listener(&a);

	/* In the callback that pauses, paused, and between resume and turn. */
	for (int how = 0; how < 3; how++) {
		open_door(&d, r, l);
		d.pause = true;
		d.destroy_at = how ? 0 : 1;
		for (int i = 0; i < 20; i++)
			c[i] = call_up(&a);
		UNTIL(r, d.n == 1);
		some_turns(r, 3);
		if (how == 2)
			assert_int_equal(weir_acceptor_set(d.acceptor, 1), 0);
		close_door(&d);
		some_turns(r, 3);
		for (int i = 0; i < 20; i++)
			close(c[i]);
		/* Those that nobody has accepted. */
		open_door(&d, r, l);
		some_turns(r, 5);
		close_door(&d);
		some_turns(r, 3);
	}
	close(l);
}

static void stopping_reactor_refuses_to_pause_an_acceptor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int l = tcp_listener(&a);

	open_door(&d, r, l);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_acceptor_set(d.acceptor, 0), -ESHUTDOWN);
	assert_int_equal(weir_acceptor_set(d.acceptor, 1), -ESHUTDOWN);
	close_door(&d);
	close(l);
}

static struct sockaddr_storage peer;
static socklen_t peer_len;
static int peer_err;

static void on_known(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct door *d = arg;

	assert_int_equal(weir_acceptor_peer(acceptor, NULL, &peer_len),
			 -EINVAL);
	if (d->destroy_at) {
		close(fd);
		peer_err = weir_acceptor_peer(acceptor, &peer, &peer_len);
	} else {
		peer_err = weir_acceptor_peer(acceptor, &peer, &peer_len);
		close(fd);
	}
	d->n++;
}

static void assert_peer_is(int c, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage own;
	socklen_t own_len = sizeof(own);

	if (harness_sim) {
		assert_int_equal(addr->sa_family, AF_UNIX);
		return;
	}
	assert_int_equal(getsockname(c, (struct sockaddr *)&own, &own_len), 0);
	assert_int_equal(len, own_len);
	assert_memory_equal(addr, &own, len);
}

static void acceptor_tells_the_address_of_the_peer(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d = { .n = 0 };
	int c, l = tcp_listener(&a);

	assert_int_equal(weir_acceptor_create(&d.acceptor, r, l, on_known, &d),
			 0);
	c = call_up(&a);
	UNTIL(r, d.n == 1);
	assert_int_equal(peer_err, 0);
	assert_peer_is(c, (struct sockaddr *)&peer, peer_len);
	close(c);
	assert_int_equal(weir_acceptor_peer(d.acceptor, &peer, &peer_len),
			 -EINVAL);
	d.destroy_at = 1;
	c = call_up(&a);
	UNTIL(r, d.n == 2);
	assert_int_equal(peer_err, -EBADF);
	close(c);
	weir_acceptor_destroy(d.acceptor);
	close(l);
}

static void broken_connection_has_no_peer(void **state)
{
	const struct linger at_once = { .l_onoff = 1 };
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d = { .n = 0 };
	int c, l = tcp_listener(&a);

	c = call_up(&a);
	assert_int_equal(setsockopt(c, SOL_SOCKET, SO_LINGER, &at_once,
				    sizeof(at_once)), 0);
	close(c);
	assert_int_equal(weir_acceptor_create(&d.acceptor, r, l, on_known, &d),
			 0);
	UNTIL(r, d.n == 1);
	assert_int_equal(peer_err, -ENOTCONN);
	weir_acceptor_destroy(d.acceptor);
	close(l);
}

static void accept_gives_the_address_and_takes_flags(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_storage ss = { 0 };	/* Valgrind sees no write. */
	socklen_t len = sizeof(ss), small = 4;
	struct sockaddr_in a;
	int c, s, l = tcp_listener(&a);

	c = call_up(&a);
	s = (int)RUN(r, weir_accept(r, &rec.op, l, (struct sockaddr *)&ss, &len,
				    SOCK_NONBLOCK));
	assert_true(s >= 0);
	assert_peer_is(c, (struct sockaddr *)&ss, len);
	if (!harness_sim)
		assert_int_equal(fcntl(s, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	close(s);
	close(c);
	memset(&ss, 0x55, sizeof(ss));
	c = call_up(&a);
	s = (int)RUN(r, weir_accept(r, &rec.op, l, (struct sockaddr *)&ss,
				    &small, 0));
	assert_true(s >= 0);
	assert_true(small > 4 || harness_sim); /* Who calls has no name. */
	assert_int_equal(((unsigned char *)&ss)[4], 0x55);
	rec_init(&rec);
	assert_int_equal(weir_accept(r, &rec.op, l, (struct sockaddr *)&ss,
				     NULL, 0), -EINVAL);
	assert_int_equal(weir_accept(r, &rec.op, l, NULL, NULL, O_APPEND),
			 -EINVAL);
	close(s);
	close(c);
	close(l);
}

static void messages_take_the_flags_of_the_system(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char in[8] = "";
	struct iovec iov = { in, sizeof(in) }, out = { "abc", 3 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct msghdr sent = { .msg_iov = &out, .msg_iovlen = 1 };
	int sv[2];

	socket_pair(sv);
	assert_int_equal(RUN(r, weir_recvmsg(r, &rec.op, sv[0], &msg,
					     MSG_DONTWAIT)), -EAGAIN);
	assert_int_equal(RUN(r, weir_recvmsg(r, &rec.op, sv[0], &msg,
					     MSG_ERRQUEUE)), -EAGAIN);
	assert_int_equal(RUN(r, weir_sendmsg(r, &rec.op, sv[1], &sent,
					     MSG_DONTWAIT)), 3);
	UNTIL(r, RUN(r, weir_recvmsg(r, &rec.op, sv[0], &msg, MSG_PEEK)) == 3);
	assert_memory_equal(in, "abc", 3);
	memset(in, 0, sizeof(in));
	assert_int_equal(RUN(r, weir_recvmsg(r, &rec.op, sv[0], &msg, 0)), 3);
	assert_memory_equal(in, "abc", 3);
	assert_int_equal(RUN(r, weir_recvmsg(r, &rec.op, sv[0], &msg,
					     MSG_DONTWAIT)), -EAGAIN);
	stuff(sv[1]);
	assert_int_equal(RUN(r, weir_sendmsg(r, &rec.op, sv[1], &sent,
					     MSG_DONTWAIT)), -EAGAIN);
	rec_init(&rec);
	assert_int_equal(weir_recvmsg(r, &rec.op, sv[0], &msg, MSG_WAITALL),
			 -EINVAL);
	assert_int_equal(weir_sendmsg(r, &rec.op, sv[0], &msg, MSG_ZEROCOPY),
			 -EINVAL);
	close_pair(sv);
}

static void truncated_datagram_tells_its_length(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char in[2];
	struct iovec iov = { in, sizeof(in) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sv),
			 0);
	assert_int_equal(write(sv[1], "abcdef", 6), 6);
	assert_int_equal(RUN(r, weir_recvmsg(r, &rec.op, sv[0], &msg,
					     MSG_TRUNC)), 6);
	assert_int_equal(msg.msg_flags & MSG_TRUNC, MSG_TRUNC);
	close_pair(sv);
}

static void urgent_byte_is_sent_and_received(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char in = 0;
	struct iovec iov = { &in, 1 }, out = { "!", 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct msghdr sent = { .msg_iov = &out, .msg_iovlen = 1 };
	struct sockaddr_in a;
	int c, s, l = tcp_listener(&a);

	c = call_up(&a);
	s = (int)RUN(r, weir_accept(r, &rec.op, l, NULL, NULL, 0));
	assert_int_equal(RUN(r, weir_recvmsg(r, &rec.op, s, &msg, MSG_OOB)),
			 -EINVAL);
	assert_int_equal(RUN(r, weir_sendmsg(r, &rec.op, c, &sent, MSG_OOB)),
			 1);
	UNTIL(r, RUN(r, weir_recvmsg(r, &rec.op, s, &msg, MSG_OOB)) == 1);
	assert_int_equal(in, '!');
	close(c);
	close(s);
	close(l);
}

static void listener_that_is_shut_down_ends_its_acceptor_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int l = tcp_listener(&a);

	open_door(&d, r, l);
	some_turns(r, 3);
	assert_int_equal(shutdown(l, SHUT_RDWR), 0);
	UNTIL(r, d.n_err);
	some_turns(r, 50);
	assert_int_equal(d.n_err, 1);
	assert_int_equal(d.err, -EINVAL);
	assert_int_equal(d.n, 0);
	close_door(&d);
	close(l);
}

static void an_acceptor_can_follow_another(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int c, i, l = tcp_listener(&a);

	for (i = 0; i < 20; i++) {
		open_door(&d, r, l);
		if (i % 2)
			some_turns(r, 2);
		c = call_up(&a);
		UNTIL(r, d.n == 1);
		close_door(&d);
		close(c);
		/* Until the kernel has heard, it may take one more. */
		some_turns(r, 3);
	}
	close(l);
}

static void an_acceptor_pauses_when_descriptors_are_out(void **state)
{
	struct weir_reactor *r;
	struct rlimit old, few;
	struct sockaddr_in a;
	struct door d;
	int c, i, l;

	if (under_valgrind())
		skip_because("valgrind takes the connection, and drops it");
	r = start_reactor(state);
	l = tcp_listener(&a);
	open_door(&d, r, l);
	some_turns(r, 2);
	c = call_up(&a);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)c + 1;
	for (i = 0; i < c; i++)		/* No hole below. */
		if (fcntl(i, F_GETFD) < 0)
			break;
	if (i < c)
		few.rlim_cur = (rlim_t)i;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (!d.n_err && !d.n)
		if (weir_reactor_turn(r, WEIR_SEC) < 0)
			break;
	setrlimit(RLIMIT_NOFILE, &old);
	if (d.n) {
		/* Accepted before the limit was set. */
		close_door(&d);
		close(c);
		close(l);
		return;
	}
	assert_int_equal(d.err, -EMFILE);
	/* Not again and again meanwhile, and then it goes on. */
	UNTIL(r, d.n == 1);
	assert_int_equal(d.n_err, 1);
	close_door(&d);
	close(c);
	close(l);
}

static void a_stopped_reactor_takes_no_connection(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in a;
	struct door d;
	int c, l = tcp_listener(&a);

	open_door(&d, r, l);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	c = call_up(&a);
	some_turns(r, 5);
	assert_int_equal(d.n, 0);
	assert_int_equal(weir_reactor_start(r), 0);
	UNTIL(r, d.n == 1);
	close_door(&d);
	close(c);
	close(l);
}

/* Receivers. */

struct ear {
	struct weir_receiver *receiver;
	struct weir_reactor *r;
	char *in;
	size_t got, max;
	int calls, ends, pause_at;
	int64_t err;
	bool keep, destroy, own;
	void *kept[8];
	int n_kept;
};

static int on_data(struct weir_receiver *receiver, void *data, int64_t len,
		   void *arg)
{
	struct ear *e = arg;

	assert_ptr_equal(receiver, e->receiver);
	e->calls++;
	if (len <= 0) {
		assert_null(len < 0 ? data : NULL);
		e->ends++;
		e->err = len;
		return WEIR_RECEIVER_DONE;
	}
	assert_true(e->got + (size_t)len <= e->max);
	memcpy(e->in + e->got, data, (size_t)len);
	e->got += (size_t)len;
	if (e->calls == e->pause_at)
		assert_int_equal(weir_receiver_set(receiver, 0), 0);
	if (e->destroy) {
		weir_receiver_destroy(receiver);
		e->receiver = NULL;
	}
	if (!e->keep || e->n_kept == 8)
		return WEIR_RECEIVER_DONE;
	e->kept[e->n_kept++] = data;
	return WEIR_RECEIVER_KEEP;
}

/* Buffers of its own that each has; 0: it takes those of the reactor. */
static uint32_t own_bufs;

static void listen_with(struct ear *e, struct weir_reactor *r, int fd, size_t max,
			uint32_t bufs)
{
	const struct weir_receiver_opts opts = { .size = sizeof(opts), .bufs = bufs };

	*e = (struct ear){ .r = r, .max = max, .in = malloc(max), .own = bufs };
	assert_non_null(e->in);
	assert_int_equal(weir_receiver_create(&e->receiver, r, fd, bufs ? &opts : NULL,
					      on_data, e), 0);
}

static void listen_to(struct ear *e, struct weir_reactor *r, int fd,
		      size_t max)
{
	listen_with(e, r, fd, max, own_bufs);
}

static void release(struct ear *e, void *data)
{
	if (e->own)
		weir_receiver_release_own(e->receiver, data);
	else
		weir_receiver_release(e->r, data);
}

static void release_kept(struct ear *e)
{
	while (e->n_kept)
		release(e, e->kept[--e->n_kept]);
}

/* Its own buffers go with it. */
static void stop_listening(struct ear *e)
{
	weir_receiver_destroy(e->receiver);
	if (!e->own)
		release_kept(e);
	free(e->in);
}

static void a_receiver_wants_a_socket(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_receiver *v = (void *)0x77;
	int p[2], sv[2];

	pipe_pair(p);
	socket_pair(sv);
	assert_int_equal(weir_receiver_create(&v, r, sv[0], NULL, NULL, NULL),
			 -EINVAL);
	assert_int_equal(weir_receiver_create(&v, r, p[0], NULL, on_data, NULL),
			 -ENOTSOCK);
	assert_int_equal(weir_receiver_create(&v, r, -1, NULL, on_data, NULL),
			 -EBADF);
	assert_ptr_equal(v, (void *)0x77);
	weir_receiver_destroy(NULL);
	close_pair(p);
	close_pair(sv);
}

static void stream_through(void **state, struct weir_reactor_opts opts,
			   size_t len)
{
	struct weir_reactor *r = start_reactor_with(state, opts);
	char *out = malloc(len);
	size_t sent = 0, n;
	struct ear e;
	ssize_t got;
	int sv[2];

	assert_non_null(out);
	fill_pattern(out, len, 0, 5);
	tcp_pair(sv);
	set_nonblock(sv[1]);
	listen_to(&e, r, sv[0], len);
	while (sent < len) {
		n = sent % 9973 + 1;
		got = write(sv[1], out + sent, len - sent < n ? len - sent : n);
		sent += got > 0 ? (size_t)got : 0;
		assert_true(weir_reactor_turn(r, got > 0 ? 0 : WEIR_MSEC) >=
			    0);
	}
	UNTIL(r, e.got == len);
	assert_memory_equal(e.in, out, len);
	assert_int_equal(e.ends, 0);
	close(sv[1]);
	UNTIL(r, e.ends);
	assert_int_equal(e.err, 0);
	some_turns(r, 5);
	assert_int_equal(e.ends, 1);
	stop_listening(&e);
	close(sv[0]);
	free(out);
}

static void a_receiver_gets_all_in_order(void **state)
{
	stream_through(state, (struct weir_reactor_opts){ 0 },
		       (size_t)scaled(2000) << 10);
}

static void stream_passes_through_tiny_socket_buffers(void **state)
{
	stream_through(state, (struct weir_reactor_opts){
		.rx_bufs = 2, .rx_buf_size = 64 }, 100000 / (1 + !!UNDER_TSAN *
		9));
}

static void kept_buffers_hold_up_the_stream_until_released(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .rx_bufs = 2,
					    .rx_buf_size = 64 });
	char out[1000];
	struct ear e;
	int sv[2], i;

	fill_pattern(out, sizeof(out), 0, 6);
	socket_pair(sv);
	listen_to(&e, r, sv[0], sizeof(out));
	e.keep = true;
	assert_int_equal(write(sv[1], out, sizeof(out)), sizeof(out));
	UNTIL(r, e.n_kept == 2);
	some_turns(r, 10);
	assert_int_equal(e.n_kept, 2);
	assert_int_equal(e.got, 128);
	assert_true(is_pattern(e.kept[0], 64, 0, 6));
	assert_true(is_pattern(e.kept[1], 64, 64, 6));
	for (i = 0; e.got < sizeof(out); i++) {
		release(&e, e.kept[0]);
		e.kept[0] = e.kept[1];
		e.n_kept--;
		UNTIL(r, e.n_kept == 2);
	}
	assert_memory_equal(e.in, out, sizeof(out));
	stop_listening(&e);
	close_pair(sv);
}

/* What one keeps holds up the other, and its release lets both go on. */
static void receivers_share_the_free_list(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .rx_bufs = 2,
					    .rx_buf_size = 64 });
	int a[2], b[2];
	struct ear ea, eb;

	socket_pair(a);
	socket_pair(b);
	listen_to(&ea, r, a[0], 1000);
	listen_to(&eb, r, b[0], 1000);
	ea.keep = true;
	assert_int_equal(write(a[1], (char[128]){ 0 }, 128), 128);
	UNTIL(r, ea.n_kept == 2);
	assert_int_equal(write(b[1], "hello", 5), 5);
	some_turns(r, 10);
	assert_int_equal(eb.got, 0);
	/* The receiver that it came from may be gone. */
	weir_receiver_destroy(ea.receiver);
	ea.receiver = NULL;
	release_kept(&ea);
	UNTIL(r, eb.got == 5);
	stop_listening(&ea);
	stop_listening(&eb);
	close_pair(a);
	close_pair(b);
}

static void a_paused_receiver_loses_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char out[64 * 40];
	int sv[2], i;
	struct ear e;

	fill_pattern(out, sizeof(out), 0, 4);
	socket_pair(sv);
	listen_to(&e, r, sv[0], sizeof(out));
	for (i = 0; i < 40; i++) {
		if (i % 3 == 0)
			assert_int_equal(weir_receiver_set(e.receiver, 0), 0);
		assert_int_equal(write(sv[1], out + i * 64, 64), 64);
		some_turns(r, i % 4);
		if (i % 3 == 0)
			assert_int_equal(weir_receiver_set(e.receiver, 1), 0);
	}
	UNTIL(r, e.got == sizeof(out));
	assert_memory_equal(e.in, out, sizeof(out));

	assert_int_equal(weir_receiver_set(e.receiver, 0), 0);
	some_turns(r, 5);
	i = e.calls;
	assert_int_equal(write(sv[1], out, 1), 1);
	close(sv[1]);
	some_turns(r, 10);
	assert_int_equal(e.calls, i);
	e.got = 0;
	assert_int_equal(weir_receiver_set(e.receiver, 1), 0);
	UNTIL(r, e.ends);
	assert_int_equal(e.got, 1);
	assert_int_equal(e.err, 0);
	stop_listening(&e);
	close(sv[0]);
}

/* Data that the kernel has handed over when the reactor stops. */
struct last_words {
	struct rec rec, nop;
	struct weir_reactor *r;
	int fd;
};

/* Many buffers and the end come in the turn in which it pauses. */
static void pause_begin(struct ear *e, void **state, int fd[2], size_t len)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .rx_bufs = 16,
					    .rx_buf_size = 64 });
	char out[640];

	socket_pair(fd);
	listen_to(e, r, fd[0], sizeof(out));
	e->pause_at = 1;
	fill_pattern(out, len, 0, 5);
	assert_int_equal(write(fd[1], out, len), len);
	shutdown(fd[1], SHUT_WR);
	UNTIL(r, e->calls);
	some_turns(r, 5);
	assert_int_equal(e->calls, 1);
}

static void receiver_that_pauses_in_its_callback_loses_nothing(void **state)
{
	struct ear e;
	int fd[2];

	pause_begin(&e, state, fd, 640);
	assert_int_equal(weir_receiver_set(e.receiver, 1), 0);
	UNTIL(e.r, e.ends);
	assert_int_equal(e.got, 640);
	assert_true(is_pattern(e.in, 640, 0, 5));
	/* Not again, in later turns or when the reactor starts anew. */
	some_turns(e.r, 5);
	weir_reactor_stop(e.r);
	UNTIL(e.r, weir_reactor_state(e.r) == WEIR_REACTOR_STOPPED);
	assert_int_equal(weir_reactor_start(e.r), 0);
	some_turns(e.r, 5);
	assert_int_equal(e.ends, 1);
	stop_listening(&e);
	close_pair(fd);
}

static void destroyed_paused_receiver_gives_its_buffers_back(void **state)
{
	struct ear e, other;
	char out[640];
	int fd[2], sv[2];

	pause_begin(&e, state, fd, 640);
	stop_listening(&e);
	socket_pair(sv);
	listen_to(&other, e.r, sv[0], sizeof(out));
	other.keep = true;
	fill_pattern(out, sizeof(out), 0, 6);
	assert_int_equal(write(sv[1], out, sizeof(out)), sizeof(out));
	/* Eight that are kept, and two more. */
	UNTIL(e.r, other.got == sizeof(out));
	assert_true(is_pattern(other.in, sizeof(out), 0, 6));
	stop_listening(&other);
	close_pair(fd);
	close_pair(sv);
}

static void say_and_stop(struct weir_op *op, int64_t res)
{
	struct last_words *w = weir_container_of(op, struct last_words, rec.op);

	rec_done(op, res);
	assert_int_equal(write(w->fd, "abc", 3), 3);
	assert_int_equal(weir_nop(w->r, &w->nop.op), 0);
	weir_reactor_stop(w->r);
}

static void a_stopped_receiver_is_silent_and_loses_nothing(void **state)
{
	struct last_words w = { .r = start_reactor(state) };
	struct ear e;
	int sv[2];

	socket_pair(sv);
	w.fd = sv[1];
	rec_init(&w.rec);
	rec_init(&w.nop);
	w.rec.op.fn = say_and_stop;
	listen_to(&e, w.r, sv[0], 100);
	some_turns(w.r, 3);
	STARTS(weir_defer(w.r, &w.rec.op));
	assert_int_equal(weir_reactor_run(w.r), 0);
	shutdown(sv[1], SHUT_WR);
	some_turns(w.r, 5);
	assert_int_equal(e.calls, 0);

	assert_int_equal(weir_reactor_start(w.r), 0);
	UNTIL(w.r, e.ends);
	assert_int_equal(e.got, 3);
	assert_memory_equal(e.in, "abc", 3);
	stop_listening(&e);
	close_pair(sv);
}

/* The number of its descriptor may mean another socket at once. */
static void a_dead_receiver_takes_nothing_from_its_successor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int sv[2], next[2];
	struct ear e;
	char in[3];

	socket_pair(sv);
	socket_pair(next);
	assert_int_equal(write(next[1], "abc", 3), 3);
	listen_to(&e, r, sv[0], 100);
	stop_listening(&e);
	assert_int_equal(dup2(next[0], sv[0]), sv[0]);
	some_turns(r, 5);
	assert_int_equal(recv(sv[0], in, 3, MSG_DONTWAIT), 3);
	close_pair(sv);
	close_pair(next);
}

static void a_receiver_may_be_destroyed_in_its_callback(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ear e;
	int sv[2];

	socket_pair(sv);
	listen_to(&e, r, sv[0], 100);
	e.destroy = e.keep = true;
	assert_int_equal(write(sv[1], "abc", 3), 3);
	UNTIL(r, e.got);
	assert_int_equal(write(sv[1], "def", 3), 3);
	some_turns(r, 5);
	assert_int_equal(e.calls, 1);
	assert_memory_equal(e.kept[0], "abc", 3);
	stop_listening(&e);
	close_pair(sv);
}

static void a_reset_is_an_error_and_the_end(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct linger hard = { 1, 0 };
	struct ear e;
	int sv[2];

	tcp_pair(sv);
	listen_to(&e, r, sv[0], 100);
	some_turns(r, 2);
	setsockopt(sv[1], SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(sv[1]);
	UNTIL(r, e.ends);
	assert_int_equal(e.err, -ECONNRESET);
	some_turns(r, 5);
	assert_int_equal(e.calls, 1);
	stop_listening(&e);
	close(sv[0]);
}

static void destroy_with_data_on_the_way_loses_no_buffer(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .rx_bufs = 4,
					    .rx_buf_size = 64 });
	char out[64];
	struct ear e;
	int sv[2], i;

	memset(out, 'x', sizeof(out));
	for (i = 0; i < 50; i++) {
		socket_pair(sv);
		listen_to(&e, r, sv[0], 1000);
		some_turns(r, i % 3);
		assert_int_equal(write(sv[1], out, 64), 64);
		if (i % 2)
			UNTIL(r, e.got);
		stop_listening(&e);
		close_pair(sv);
	}
	/* All four are there still. */
	socket_pair(sv);
	listen_to(&e, r, sv[0], 1000);
	e.keep = true;
	for (i = 0; i < 4; i++)
		assert_int_equal(write(sv[1], out, 64), 64);
	UNTIL(r, e.n_kept == 4);
	stop_listening(&e);
	close_pair(sv);
}

/* Some may come in one bundle, in the order in which they were given back. */
static void buffers_that_come_back_in_another_order_have_the_stream(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .rx_bufs = 8, .rx_buf_size = 64 });
	size_t len = 512 * (size_t)scaled(100);
	char *out = malloc(len);
	struct ear e;
	int sv[2];

	assert_non_null(out);
	fill_pattern(out, len, 0, 7);
	socket_pair(sv);
	listen_to(&e, r, sv[0], len);
	e.keep = true;
	for (size_t sent = 0, n; sent < len; sent += n) {
		n = sent % 511 + 1;
		if (n > len - sent)
			n = len - sent;
		assert_int_equal(write(sv[1], out + sent, n), n);
		UNTIL(r, e.got == sent + n);
		/* The last, the first of those left, and so on. */
		while (e.n_kept) {
			release(&e, e.kept[--e.n_kept]);
			if (!e.n_kept)
				break;
			release(&e, e.kept[0]);
			memmove(e.kept, e.kept + 1,
				(size_t)--e.n_kept * sizeof(*e.kept));
		}
	}
	assert_memory_equal(e.in, out, len);
	stop_listening(&e);
	close_pair(sv);
	free(out);
}

/* It is destroyed in the first callback of several buffers that came at once. */
static void destroyed_receiver_gives_back_what_came_at_once(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .rx_bufs = 8, .rx_buf_size = 64 });
	char out[512] = { 0 };
	struct ear e;
	int sv[2];

	for (int i = 0; i < 20; i++) {
		socket_pair(sv);
		listen_to(&e, r, sv[0], sizeof(out));
		e.destroy = true;
		assert_int_equal(write(sv[1], out, sizeof(out)), sizeof(out));
		UNTIL(r, e.calls);
		assert_int_equal(e.calls, 1);
		stop_listening(&e);
		close_pair(sv);
	}
	socket_pair(sv);
	listen_to(&e, r, sv[0], sizeof(out));
	e.keep = true;
	assert_int_equal(write(sv[1], out, sizeof(out)), sizeof(out));
	UNTIL(r, e.n_kept == 8);
	stop_listening(&e);
	close_pair(sv);
}

/* One receiver keeps all buffers of the reactor: others that take those wait.  Another
 * keeps all of its own: nobody waits for it. */
static void receiver_with_its_own_buffers_waits_for_no_other(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .rx_bufs = 2, .rx_buf_size = 64 });
	int a[2], b[2], c[2];
	struct ear shared, own, last;

	socket_pair(a);
	socket_pair(b);
	socket_pair(c);
	listen_with(&shared, r, a[0], 1000, 0);
	listen_with(&own, r, b[0], 1000, 4);
	listen_with(&last, r, c[0], 1000, 0);
	shared.keep = own.keep = true;
	assert_int_equal(write(b[1], (char[512]){ 0 }, 512), 512);
	UNTIL(r, own.n_kept == 4);
	assert_int_equal(write(a[1], (char[128]){ 0 }, 128), 128);
	UNTIL(r, shared.n_kept == 2);
	assert_int_equal(write(c[1], "hello", 5), 5);
	some_turns(r, 10);
	assert_int_equal(own.n_kept, 4);
	assert_int_equal(last.got, 0);
	own.keep = false;
	release_kept(&own);
	UNTIL(r, own.got == 512);
	assert_int_equal(last.got, 0);
	release_kept(&shared);
	UNTIL(r, last.got == 5);
	stop_listening(&shared);
	stop_listening(&own);
	stop_listening(&last);
	close_pair(a);
	close_pair(b);
	close_pair(c);
}

static void receiver_refuses_buffers_that_cannot_be(void **state)
{
	static const struct weir_receiver_opts wrong[] = {
		{ .bufs = 3 }, { .bufs = 65536 }, { .buf_size = 64 },
		{ .bufs = 2, .buf_size = (1u << 20) + 1 },
	};
	struct { struct weir_receiver_opts known; uint64_t more; } newer = {
		.known.size = sizeof(newer), .more = 1 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_receiver *v = (void *)0x77;
	int sv[2];

	socket_pair(sv);
	for (size_t i = 0; i < N_OF(wrong); i++) {
		struct weir_receiver_opts o = wrong[i];

		o.size = sizeof(o);
		assert_int_equal(weir_receiver_create(&v, r, sv[0], &o, on_data, NULL),
				 -EINVAL);
	}
	assert_int_equal(weir_receiver_create(&v, r, sv[0], &newer.known, on_data, NULL),
			 -E2BIG);
	assert_ptr_equal(v, (void *)0x77);
	close_pair(sv);
}

/* The same with buffers of their own. */
#define OWN(fn, bufs) \
	static void own_##fn(void **state) \
	{ \
		own_bufs = bufs; \
		fn(state); \
		own_bufs = 0; \
	}

OWN(a_receiver_gets_all_in_order, 256)
OWN(stream_passes_through_tiny_socket_buffers, 2)
OWN(kept_buffers_hold_up_the_stream_until_released, 2)
OWN(a_paused_receiver_loses_nothing, 8)
OWN(receiver_that_pauses_in_its_callback_loses_nothing, 16)
OWN(a_stopped_receiver_is_silent_and_loses_nothing, 4)
OWN(a_dead_receiver_takes_nothing_from_its_successor, 4)
OWN(a_reset_is_an_error_and_the_end, 1)
OWN(buffers_that_come_back_in_another_order_have_the_stream, 8)
OWN(destroyed_receiver_gives_back_what_came_at_once, 8)

static void receiver_refuses_sockets_for_messages(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_receiver *v = NULL;
	int fd[2];

	for (int i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, i ? SOCK_SEQPACKET :
					    SOCK_DGRAM, 0, fd), 0);
		assert_int_equal(weir_receiver_create(&v, r, fd[0], NULL, on_data,
						      NULL), -EINVAL);
		assert_null(v);
		assert_starts_with(weir_why(), "weir_receiver_create: ");
		close_pair(fd);
	}
}

/* Blocking or not, and several of them. */
static void connect_waits_for_capacity_in_unix_backlog(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct rec conn[6];
	int fd[6], l, s;

	snprintf(un.sun_path, sizeof(un.sun_path), "%s",
		 test_path(state, "full"));
	assert_int_equal(weir_listen(&l, (struct sockaddr *)&un, sizeof(un), 1,
				     0), 0);
	for (int i = 0; i < 6; i++) {
		fd[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		if (i & 1)
			set_nonblock(fd[i]);
		rec_init(&conn[i]);
		STARTS(weir_connect(r, &conn[i].op, fd[i],
				    (struct sockaddr *)&un, sizeof(un)));
		some_turns(r, 2);
	}
	for (int i = 0; i < 50; i++)
		assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	/* A backlog of 1 has space for two. */
	for (int i = 0; i < 6; i++)
		assert_int_equal(conn[i].calls, i < 2);
	assert_int_equal(weir_op_cancel(&conn[4].op), 0);
	assert_int_equal(weir_op_cancel(&conn[5].op), 0);
	UNTIL(r, conn[4].calls && conn[5].calls);
	assert_int_equal(conn[4].res, -ECANCELED);
	assert_int_equal(conn[5].res, -ECANCELED);
	for (int i = 0; i < 2; i++) {
		s = accept(l, NULL, NULL);
		assert_true(s >= 0);
		close(s);
	}
	for (int i = 0; i < 4; i++) {
		UNTIL(r, conn[i].calls);
		assert_int_equal(conn[i].res, 0);
	}
	for (int i = 0; i < 6; i++)
		close(fd[i]);
	close(l);
}

/* Over a UNIX socket there is none: the caller need not know. */
static void zero_copy_send_over_a_unix_socket_is_a_copy(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char out[3000], in[3000];
	struct rec sent;
	int fd[2];

	socket_pair(fd);
	fill_pattern(out, sizeof(out), 0, 3);
	rec_init(&sent);
	STARTS(weir_send(r, &sent.op, fd[0], out, sizeof(out),
			 WEIR_SOCK_ZEROCOPY));
	assert_int_equal(finish(r, &sent), sizeof(out));
	assert_int_equal(recv(fd[1], in, sizeof(in), MSG_WAITALL), sizeof(in));
	assert_memory_equal(in, out, sizeof(out));
	close_pair(fd);
}

/* Before its first try, and between two. */
static void cancelled_connect_to_a_full_backlog_ends(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct rec conn[2];
	int fd[5], l;

	snprintf(un.sun_path, sizeof(un.sun_path), "%s",
		 test_path(state, "full"));
	assert_int_equal(weir_listen(&l, (struct sockaddr *)&un, sizeof(un), 1,
				     0), 0);
	for (int i = 0; i < 5; i++) {
		fd[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		if (i < 2)
			assert_int_equal(connect(fd[i], (struct sockaddr *)&un,
						 sizeof(un)), 0);
	}
	for (int turns = 0; turns < 3; turns++) {
		rec_init(&conn[0]);
		STARTS(weir_connect(r, &conn[0].op, fd[2 + turns],
				    (struct sockaddr *)&un, sizeof(un)));
		some_turns(r, turns);
		assert_int_equal(weir_op_cancel(&conn[0].op), 0);
		assert_int_equal(finish(r, &conn[0]), -ECANCELED);
	}
	for (int i = 0; i < 5; i++)
		close(fd[i]);
	close(l);
}

/* What lingers is a worker's: the loop goes on meanwhile, and not after an hour. */
static void close_that_lingers_does_not_hold_up_the_loop(void **state)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 3600 };
	int small = 65536, large = 1 << 20;
	struct weir_reactor *r;
	struct rec closed, other;
	char buf[65536];
	int fd[2];

	if (under_valgrind())
		skip_because("valgrind lets no other thread run in close(2)");
	r = start_reactor(state);
	tcp_pair(fd);
	/* Or else the peer's kernel may take all of it when it finds the time. */
	assert_int_equal(setsockopt(fd[1], SOL_SOCKET, SO_RCVBUF, &small,
				    sizeof(small)), 0);
	assert_int_equal(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &large,
				    sizeof(large)), 0);
	stuff(fd[0]);
	assert_int_equal(setsockopt(fd[0], SOL_SOCKET, SO_LINGER, &linger,
				    sizeof(linger)), 0);
	rec_init(&closed);
	rec_init(&other);
	STARTS(weir_close(r, &closed.op, fd[0]));
	STARTS(weir_nop(r, &other.op));
	assert_int_equal(finish(r, &other), 0);
	if (!strcmp(weir_reactor_backend(r), "ev"))
		assert_int_equal(closed.calls, 0);
	/* It ends when the peer has everything. */
	set_nonblock(fd[1]);
	while (!closed.calls) {
		while (recv(fd[1], buf, sizeof(buf), 0) > 0)
			;
		assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	}
	assert_int_equal(closed.res, 0);
	close(fd[1]);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(receiver_that_pauses_in_its_callback_loses_nothing),
		CASE(destroyed_paused_receiver_gives_its_buffers_back),
		REAL(close_that_lingers_does_not_hold_up_the_loop),
		REAL(cancelled_connect_to_a_full_backlog_ends),
		REAL(zero_copy_send_over_a_unix_socket_is_a_copy),
		REAL(listen_says_what_is_wrong),
		REAL(reuseport_shares_a_port),
		CASE(a_connection_is_made_and_used),
		CASE(a_refused_connection_is_econnrefused),
		CASE(a_broken_connection_is_epipe_without_a_signal),
		REAL(descriptors_travel_over_a_unix_socket),
		CASE(a_long_send_is_continued),
		CASE(a_long_sendv_is_continued),
		CASE(a_long_zero_copy_send_is_continued),
		CASE(a_long_zero_copy_sendv_is_continued),
		CASE(a_zero_copy_buffer_is_free_in_the_callback),
		CASE(a_zero_copy_send_tells_that_it_was_a_copy),
		CASE(a_cancelled_recv_takes_nothing),
		CASE(operations_on_one_socket_are_served_once),
		CASE(an_acceptor_wants_a_listening_socket),
		CASE(an_acceptor_takes_all_who_come),
		CASE(an_acceptor_may_be_destroyed_in_its_callback),
		REAL(listener_that_is_shut_down_ends_its_acceptor_once),
		CASE(an_acceptor_can_follow_another),
		CASE(paused_acceptor_loses_nobody),
		CASE(acceptor_paused_by_its_callback_keeps_the_others),
		CASE(destroy_of_a_paused_acceptor_closes_what_it_kept),
		CASE(stopping_reactor_refuses_to_pause_an_acceptor),
		CASE(acceptor_tells_the_address_of_the_peer),
		REAL(broken_connection_has_no_peer),
		CASE(accept_gives_the_address_and_takes_flags),
		CASE(messages_take_the_flags_of_the_system),
		REAL(truncated_datagram_tells_its_length),
		REAL(urgent_byte_is_sent_and_received),
		REAL(an_acceptor_pauses_when_descriptors_are_out),
		CASE(a_stopped_reactor_takes_no_connection),
		CASE(a_receiver_wants_a_socket),
		CASE(a_receiver_gets_all_in_order),
		CASE(stream_passes_through_tiny_socket_buffers),
		CASE(kept_buffers_hold_up_the_stream_until_released),
		CASE(receivers_share_the_free_list),
		CASE(a_paused_receiver_loses_nothing),
		CASE(a_stopped_receiver_is_silent_and_loses_nothing),
		REAL(a_dead_receiver_takes_nothing_from_its_successor),
		CASE(a_receiver_may_be_destroyed_in_its_callback),
		CASE(a_reset_is_an_error_and_the_end),
		CASE(destroy_with_data_on_the_way_loses_no_buffer),
		CASE(buffers_that_come_back_in_another_order_have_the_stream),
		CASE(destroyed_receiver_gives_back_what_came_at_once),
		CASE(receiver_with_its_own_buffers_waits_for_no_other),
		CASE(receiver_refuses_buffers_that_cannot_be),
		CASE(own_a_receiver_gets_all_in_order),
		CASE(own_stream_passes_through_tiny_socket_buffers),
		CASE(own_kept_buffers_hold_up_the_stream_until_released),
		CASE(own_a_paused_receiver_loses_nothing),
		CASE(own_receiver_that_pauses_in_its_callback_loses_nothing),
		CASE(own_a_stopped_receiver_is_silent_and_loses_nothing),
		REAL(own_a_dead_receiver_takes_nothing_from_its_successor),
		CASE(own_a_reset_is_an_error_and_the_end),
		CASE(own_buffers_that_come_back_in_another_order_have_the_stream),
		CASE(own_destroyed_receiver_gives_back_what_came_at_once),
		REAL(receiver_refuses_sockets_for_messages),
		REAL(connect_waits_for_capacity_in_unix_backlog),
	};

	return harness_run_all(cases, N_OF(cases));
}
