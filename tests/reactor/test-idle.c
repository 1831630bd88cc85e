/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Very many operations that wait, which is what a server with idle connections
 * has.  They take no capacity from others, and when they all end at once,
 * each ends once.
 */

#include "tests/support/harness.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/host.h>
#include <weir/socket.h>
#include <weir/watch.h>

/* More than a ring has completion entries, normally. */
#define IDLE_FEW 5000
#define IDLE_MANY 10000
#define READS 9000
#define FDS_BESIDE 64

struct crowd {
	struct weir_reactor *r;
	unsigned int n, ended;
	struct peer {
		struct weir_op op;
		struct crowd *crowd;
		int fd, calls;
		int64_t res;
		char byte;
	} *peers;
};

static unsigned int crowd_size(void)
{
	return want_long() ? IDLE_MANY : under_valgrind() ? 1000 : IDLE_FEW;
}

static void need_fds(unsigned int n, struct rlimit *old)
{
	struct rlimit more;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, old), 0);
	more = *old;
	if (more.rlim_cur < n)
		more.rlim_cur = n;
	if (more.rlim_cur > more.rlim_max || setrlimit(RLIMIT_NOFILE, &more))
		skip_because("it takes %u descriptors, and ulimit -Hn is %llu",
			     n, (unsigned long long)old->rlim_max);
}

static void peer_ended(struct weir_op *op, int64_t res)
{
	struct peer *p = weir_container_of(op, struct peer, op);

	p->calls++;
	p->res = res;
	p->crowd->ended++;
}

static int datagram_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static void crowd_begin(struct crowd *c, struct weir_reactor *r, unsigned int n)
{
	*c = (struct crowd){ .r = r, .n = n };
	c->peers = calloc(n, sizeof(*c->peers));
	assert_non_null(c->peers);
	for (unsigned int i = 0; i < n; i++) {
		weir_op_init(&c->peers[i].op, peer_ended);
		c->peers[i].crowd = c;
		c->peers[i].fd = -1;
	}
}

static void crowd_end(struct crowd *c)
{
	for (unsigned int i = 0; i < c->n; i++)
		if (c->peers[i].fd >= 0)
			close(c->peers[i].fd);
	free(c->peers);
}

/* A socket each, that is sent to by itself: half as many descriptors as pairs
 * would be. */
static void all_receive(struct crowd *c)
{
	const struct sockaddr_un unnamed = { .sun_family = AF_UNIX };

	for (unsigned int i = 0; i < c->n; i++) {
		struct peer *p = &c->peers[i];

		p->fd = datagram_socket();
		assert_int_equal(bind(p->fd, (const struct sockaddr *)&unnamed,
				      sizeof(unnamed.sun_family)), 0);
		STARTS(weir_recv(c->r, &p->op, p->fd, &p->byte, 1, 0));
	}
}

static void send_to_itself(const struct peer *p)
{
	struct sockaddr_un name;
	socklen_t len = sizeof(name);
	char byte = (char)(p - p->crowd->peers);

	assert_int_equal(getsockname(p->fd, (struct sockaddr *)&name, &len), 0);
	assert_int_equal(sendto(p->fd, &byte, 1, 0,
				(const struct sockaddr *)&name, len), 1);
}

static void all_are_sent_to(const struct crowd *c)
{
	for (unsigned int i = 0; i < c->n; i++)
		send_to_itself(&c->peers[i]);
}

static void assert_each_ended_once_with(const struct crowd *c, int64_t res)
{
	for (unsigned int i = 0; i < c->n; i++) {
		const struct peer *p = &c->peers[i];

		assert_int_equal(p->calls, 1);
		assert_int_equal(p->res, res);
	}
}

static void assert_has_its_own(const struct crowd *c)
{
	for (unsigned int i = 0; i < c->n; i++)
		assert_int_equal(c->peers[i].byte, (char)i);
}

/* One connection more is taken, and served. */
static void assert_serves_one_more(struct weir_reactor *r)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	struct rec accepted, got, sent;
	int listener, client, fd;
	char buf[4];

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(weir_listen(&listener, (struct sockaddr *)&a, len, 8,
				     0), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	rec_init(&accepted);
	STARTS(weir_accept(r, &accepted.op, listener, NULL, NULL, 0));
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&a, sizeof(a)), 0);
	fd = (int)finish(r, &accepted);
	assert_true(fd >= 0);
	assert_int_equal(send(client, "echo", 4, 0), 4);
	rec_init(&got);
	STARTS(weir_recv(r, &got.op, fd, buf, 4, WEIR_SOCK_ALL));
	assert_int_equal(finish(r, &got), 4);
	rec_init(&sent);
	STARTS(weir_send(r, &sent.op, fd, buf, 4, 0));
	assert_int_equal(finish(r, &sent), 4);
	assert_int_equal(recv(client, buf, 4, MSG_WAITALL), 4);
	assert_memory_equal(buf, "echo", 4);
	close(fd);
	close(client);
	close(listener);
}

/* A crowd with a descriptor each; @old is for its end. */
static void receivers_begin(struct crowd *c, void **state, struct rlimit *old)
{
	need_fds(crowd_size() + FDS_BESIDE, old);
	crowd_begin(c, start_reactor(state), crowd_size());
}

static void receivers_end(struct crowd *c, void **state,
			  const struct rlimit *old)
{
	end_reactor(state);
	crowd_end(c);
	setrlimit(RLIMIT_NOFILE, old);
}

static void idle_receives_keep_nobody_waiting(void **state)
{
	struct rlimit old;
	struct crowd c;

	receivers_begin(&c, state, &old);
	all_receive(&c);
	some_turns(c.r, 3);
	assert_serves_one_more(c.r);
	assert_int_equal(c.ended, 0);
	all_are_sent_to(&c);
	UNTIL(c.r, c.ended == c.n);
	assert_each_ended_once_with(&c, 1);
	assert_has_its_own(&c);
	receivers_end(&c, state, &old);
}

static void idle_receives_can_all_be_cancelled(void **state)
{
	struct rlimit old;
	struct crowd c;

	receivers_begin(&c, state, &old);
	all_receive(&c);
	some_turns(c.r, 3);
	for (unsigned int i = 0; i < c.n; i++)
		assert_int_equal(weir_op_cancel(&c.peers[i].op), 0);
	UNTIL(c.r, c.ended == c.n);
	assert_each_ended_once_with(&c, -ECANCELED);
	receivers_end(&c, state, &old);
}

/* As a foreign loop drives it: a turn when the descriptor says so. */
static void host_until(struct crowd *c)
{
	struct pollfd p = { .fd = weir_reactor_fd(c->r), .events = POLLIN };

	while (c->ended < c->n) {
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_true(weir_reactor_turn(c->r, 0) >= 0);
	}
}

/* For a host the ring is one whose completions do not wait to be asked for: so
 * they overflow. */
static void a_storm_of_completions_loses_none(void **state)
{
	const struct world *w = *state;
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct rlimit old;
	struct crowd c;

	receivers_begin(&c, state, &old);
	assert_true(weir_reactor_fd(c.r) >= 0);
	all_receive(&c);
	some_turns(c.r, 3);
	all_are_sent_to(&c);
	host_until(&c);
	assert_each_ended_once_with(&c, 1);
	assert_has_its_own(&c);
	weir_reactor_stats(c.r, &st);
	if (!strcmp(w->backend, "uring") && c.n >= IDLE_FEW)
		assert_true(st.overflows > 0);
	receivers_end(&c, state, &old);
}

static void all_read(struct crowd *c, int fd)
{
	for (unsigned int i = 0; i < c->n; i++)
		STARTS(weir_read(c->r, &c->peers[i].op, fd, &c->peers[i].byte,
				 1, 0));
}

static void write_all(int fd, unsigned int n)
{
	while (n--)
		assert_int_equal(write(fd, "x", 1), 1);
}

/* A read is counted on to end by itself.  Of a pipe it does not. */
static void reads_that_wait_keep_nobody_waiting(void **state)
{
	struct rec nop;
	struct crowd c;
	int p[2];

	pipe_pair(p);
	crowd_begin(&c, start_reactor(state), scaled(READS));
	all_read(&c, p[0]);
	rec_init(&nop);
	STARTS(weir_nop(c.r, &nop.op));
	assert_int_equal(finish(c.r, &nop), 0);
	assert_serves_one_more(c.r);
	assert_int_equal(c.ended, 0);
	write_all(p[1], c.n);
	UNTIL(c.r, c.ended == c.n);
	assert_each_ended_once_with(&c, 1);
	end_reactor(state);
	close_pair(p);
	crowd_end(&c);
}

static void count_call(struct weir_watch *watch, uint32_t events, void *arg)
{
	unsigned int *calls = arg;

	(void)watch;
	assert_true(events & WEIR_WRITABLE);
	++*calls;
}

/* Something ends in every turn, and it is nobody who has their capacity. */
static void reads_that_wait_beside_a_busy_watch_keep_nobody_waiting(void **state)
{
	struct weir_watch *watch;
	unsigned int calls = 0;
	struct crowd c;
	int p[2], s[2];

	if (scaled(READS) < READS)
		skip_because("%u operations fit into a ring", scaled(READS));
	pipe_pair(p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	crowd_begin(&c, start_reactor(state), READS);
	assert_int_equal(weir_watch_create(&watch, c.r, s[0], WEIR_WRITABLE,
					   count_call, &calls), 0);
	UNTIL(c.r, calls > 1);
	all_read(&c, p[0]);
	assert_serves_one_more(c.r);
	assert_int_equal(c.ended, 0);
	write_all(p[1], c.n);
	UNTIL(c.r, c.ended == c.n);
	assert_each_ended_once_with(&c, 1);
	weir_watch_destroy(watch);
	end_reactor(state);
	close_pair(p);
	close_pair(s);
	crowd_end(&c);
}

/* Nobody sleeps in a hosted reactor, so the limit has to move in its turns. */
static void hosted_reactor_is_idle(void **state)
{
	struct crowd c;
	int p[2];

	pipe_pair(p);
	crowd_begin(&c, start_reactor(state), scaled(READS));
	assert_true(weir_reactor_fd(c.r) >= 0);
	all_read(&c, p[0]);
	some_turns(c.r, 3);
	write_all(p[1], c.n);
	host_until(&c);
	assert_each_ended_once_with(&c, 1);
	end_reactor(state);
	close_pair(p);
	crowd_end(&c);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(idle_receives_keep_nobody_waiting),
		CASE(idle_receives_can_all_be_cancelled),
		CASE(a_storm_of_completions_loses_none),
		CASE(reads_that_wait_keep_nobody_waiting),
		CASE(reads_that_wait_beside_a_busy_watch_keep_nobody_waiting),
		CASE(hosted_reactor_is_idle),
	};

	return harness_run(cases, N_OF(cases));
}
