/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated sockets of datagrams: whole, late, twice, or not at all. */

#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <weir/sim/host.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/udp.h>
#include <weir/watch.h>

#define BIT(kind) (UINT64_C(1) << (kind))

#define IN(ip, port) \
	(struct sockaddr *)&(struct sockaddr_in){ \
		.sin_family = AF_INET, .sin_port = htons(port), \
		.sin_addr.s_addr = inet_addr(ip) }, \
	(socklen_t)sizeof(struct sockaddr_in)

/* Two hosts, 10.0.0.1 and 10.0.0.2, with a socket each, which 53 is the port of. */
struct net {
	struct weir_sim *sim;
	struct weir_sim_host *host[2];
	struct weir_reactor *r;
	int fd[2];
};

static void start(struct weir_sim_host *host, void *arg)
{
	(void)host, (void)arg;
}

static void net_begin(struct net *n, uint64_t seed, uint64_t faults)
{
	struct weir_sim_opts opts = { .size = sizeof(opts), .faults = faults,
				      .rate = 4 };
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };
	static const char *const names[] = { "a", "b" };

	assert_int_equal(weir_sim_create(&n->sim, seed, &opts), 0);
	ropts.sim = n->sim;
	assert_int_equal(weir_reactor_create(&n->r, &ropts), 0);
	for (int i = 0; i < 2; i++) {
		struct weir_sim_host_opts h = { .size = sizeof(h),
						.name = names[i],
						.start = start };

		assert_int_equal(weir_sim_host_create(&n->host[i], n->sim, &h),
				 0);
		assert_int_equal(weir_sim_host_start(n->host[i]), 0);
	}
	weir_sim_run(n->sim, WEIR_USEC, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weir_sim_datagram(n->sim, n->host[i],
						   &n->fd[i], AF_INET), 0);
		assert_int_equal(weir_sim_bind(n->fd[i], IN("0.0.0.0", 53)), 0);
	}
}

static void net_end(struct net *n)
{
	assert_int_equal(weir_reactor_destroy(n->r), 0);
	assert_int_equal(weir_sim_destroy(n->sim), 0);
}

static void run(struct net *n)
{
	weir_sim_run(n->sim, WEIR_SEC, 0);
}

static void datagram_arrives_as_a_whole(void **state)
{
	char in[16], from_text[INET_ADDRSTRLEN];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct net n;

	(void)state;
	net_begin(&n, 1, 0);
	assert_int_equal(weir_sim_sendto(n.fd[0], "hello", 5,
					 IN("10.0.0.2", 53)), 5);
	assert_int_equal(weir_sim_recvfrom(n.fd[1], in, 8, NULL, NULL), -EAGAIN);
	run(&n);
	assert_int_equal(weir_sim_poll(n.fd[1], WEIR_READABLE), WEIR_READABLE);
	assert_int_equal(weir_sim_recvfrom(n.fd[1], in, 8,
					   (struct sockaddr *)&from, &len), 5);
	assert_memory_equal(in, "hello", 5);
	inet_ntop(AF_INET, &from.sin_addr, from_text, sizeof(from_text));
	assert_string_equal(from_text, "10.0.0.1");
	assert_int_equal(ntohs(from.sin_port), 53);
	/* What does not fit is lost; an empty one is one. */
	assert_int_equal(weir_sim_sendto(n.fd[1], "hello", 5,
					 (struct sockaddr *)&from, len), 5);
	run(&n);
	assert_int_equal(weir_sim_recvfrom(n.fd[0], in, 2, NULL, NULL), 2);
	assert_int_equal(weir_sim_recvfrom(n.fd[0], in, 2, NULL, NULL), -EAGAIN);
	assert_int_equal(weir_sim_sendto(n.fd[1], "", 0,
					 (struct sockaddr *)&from, len), 0);
	run(&n);
	assert_int_equal(weir_sim_recvfrom(n.fd[0], in, 2, NULL, NULL), 0);
	net_end(&n);
}

static void operations_have_addresses(void **state)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(53) };
	char in[16], out[] = "question";
	struct iovec iov = { out, 8 };
	struct sockaddr_storage from;
	struct msghdr msg = { .msg_name = &to, .msg_namelen = sizeof(to),
			      .msg_iov = &iov, .msg_iovlen = 1 };
	struct weir_receiver *receiver;
	struct rec rec;
	struct net n;

	(void)state;
	net_begin(&n, 1, 0);
	to.sin_addr.s_addr = inet_addr("10.0.0.2");
	rec_init(&rec);
	STARTS(weir_sendmsg(n.r, &rec.op, n.fd[0], &msg, 0));
	assert_int_equal(finish(n.r, &rec), 8);
	iov = (struct iovec){ in, 4 };
	msg = (struct msghdr){ .msg_name = &from, .msg_namelen = sizeof(from),
			       .msg_iov = &iov, .msg_iovlen = 1 };
	rec_init(&rec);
	STARTS(weir_recvmsg(n.r, &rec.op, n.fd[1], &msg, 0));
	assert_int_equal(finish(n.r, &rec), 4);
	assert_int_equal(msg.msg_flags, MSG_TRUNC);
	assert_int_equal(msg.msg_namelen, sizeof(struct sockaddr_in));
	assert_int_equal(ntohl(((struct sockaddr_in *)&from)->sin_addr.s_addr),
			 0x0a000001);
	/* Connected: by plain sends and receives, from that peer alone. */
	rec_init(&rec);
	STARTS(weir_connect(n.r, &rec.op, n.fd[1], (struct sockaddr *)&from,
			    sizeof(struct sockaddr_in)));
	assert_int_equal(finish(n.r, &rec), 0);
	rec_init(&rec);
	STARTS(weir_send(n.r, &rec.op, n.fd[1], "answer", 6, 0));
	assert_int_equal(finish(n.r, &rec), 6);
	rec_init(&rec);
	STARTS(weir_recv(n.r, &rec.op, n.fd[0], in, sizeof(in), 0));
	assert_int_equal(finish(n.r, &rec), 6);
	assert_memory_equal(in, "answer", 6);
	assert_int_equal(weir_receiver_create(&receiver, n.r, n.fd[0], NULL,
					      (weir_receiver_fn *)NULL, NULL),
			 -EINVAL);
	net_end(&n);
}

static void datagrams_are_lost_doubled_and_late(void **state)
{
	unsigned int lost = 0, doubled = 0, turned = 0;
	uint8_t out, in, last;
	struct net n;
	unsigned int seen[64];

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		net_begin(&n, seed, BIT(WEIR_SIM_RESET) | BIT(WEIR_SIM_STALL) |
				    BIT(WEIR_SIM_REORDER) | BIT(WEIR_SIM_DELAY));
		memset(seen, 0, sizeof(seen));
		for (out = 0; out < 64; out++) {
			/* In a callback, where there are faults. */
			struct iovec iov = { &out, 1 };
			struct sockaddr_in to = { .sin_family = AF_INET,
						  .sin_port = htons(53) };
			struct msghdr msg = { .msg_name = &to,
					      .msg_namelen = sizeof(to),
					      .msg_iov = &iov,
					      .msg_iovlen = 1 };
			struct rec rec;

			to.sin_addr.s_addr = inet_addr("10.0.0.2");
			rec_init(&rec);
			STARTS(weir_sendmsg(n.r, &rec.op, n.fd[0], &msg, 0));
			assert_int_equal(finish(n.r, &rec), 1);
		}
		weir_sim_run(n.sim, 10 * WEIR_SEC, 0);
		for (last = 0; weir_sim_recvfrom(n.fd[1], &in, 1, NULL, NULL) ==
			       1; last = in) {
			assert_in_range(in, 0, 63);
			turned += in < last;
			doubled += ++seen[in] > 1;
		}
		for (int i = 0; i < 64; i++)
			lost += !seen[i];
		net_end(&n);
	}
	assert_true(lost > 100 && doubled > 50 && turned > 100);
}

static void datagram_to_nobody_is_refused_or_lost(void **state)
{
	static char much[60000];
	struct weir_sim_link link = { .size = sizeof(link), .cut = 1 };
	char in[8];
	struct net n;
	int c;

	(void)state;
	net_begin(&n, 1, 0);
	assert_int_equal(weir_sim_datagram(n.sim, n.host[0], &c, AF_INET), 0);
	assert_int_equal(weir_sim_sendto(c, "x", 1, NULL, 0), -EDESTADDRREQ);
	assert_int_equal(weir_sim_sendto(c, much, 65508, IN("10.0.0.2", 53)),
			 -EMSGSIZE);
	assert_int_equal(weir_sim_connect(c, IN("10.0.0.2", 54)), 0);
	assert_int_equal(weir_sim_sendto(c, "x", 1, NULL, 0), 1);
	run(&n);
	assert_int_equal(weir_sim_recvfrom(c, in, 8, NULL, NULL),
			 -ECONNREFUSED);
	assert_int_equal(weir_sim_recvfrom(c, in, 8, NULL, NULL), -EAGAIN);
	/* Through no cut, and not from a host without power. */
	assert_int_equal(weir_sim_host_link(n.host[0], n.host[1], &link), 0);
	assert_int_equal(weir_sim_connect(c, IN("10.0.0.2", 53)), 0);
	assert_int_equal(weir_sim_sendto(c, "x", 1, NULL, 0), 1);
	run(&n);
	assert_int_equal(weir_sim_recvfrom(n.fd[1], in, 8, NULL, NULL),
			 -EAGAIN);
	link.cut = 0;
	assert_int_equal(weir_sim_host_link(n.host[0], n.host[1], &link), 0);
	/* As many bytes as fit into its queue. */
	for (int i = 0; i < 10; i++)
		assert_int_equal(weir_sim_sendto(c, much, sizeof(much), NULL,
						 0), sizeof(much));
	run(&n);
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_sim_recvfrom(n.fd[1], in, 8, NULL, NULL),
				 8);
	assert_int_equal(weir_sim_recvfrom(n.fd[1], in, 8, NULL, NULL),
			 -EAGAIN);
	assert_int_equal(weir_sim_host_power_off(n.host[1]), 0);
	assert_int_equal(weir_sim_recvfrom(n.fd[1], in, 8, NULL, NULL), -EBADF);
	assert_int_equal(weir_sim_sendto(c, "x", 1, NULL, 0), 1);
	run(&n);
	assert_int_equal(weir_sim_recvfrom(c, in, 8, NULL, NULL), -EAGAIN);
	net_end(&n);
}

static void addresses_of_datagrams_are_checked(void **state)
{
	struct sockaddr_un un = { AF_UNIX, "log" };
	struct sockaddr_storage got;
	socklen_t len = sizeof(got);
	char in[8];
	struct net n;
	int a, b;

	(void)state;
	net_begin(&n, 1, 0);
	assert_int_equal(weir_sim_datagram(n.sim, NULL, &a, AF_PACKET),
			 -EAFNOSUPPORT);
	assert_int_equal(weir_sim_datagram(n.sim, n.host[0], &a, AF_UNIX), 0);
	assert_int_equal(weir_sim_datagram(n.sim, n.host[0], &b, AF_UNIX), 0);
	assert_int_equal(weir_sim_bind(a, IN("10.0.0.1", 1)), -EAFNOSUPPORT);
	assert_int_equal(weir_sim_bind(a, (struct sockaddr *)&un, sizeof(un)),
			 0);
	assert_int_equal(weir_sim_bind(a, (struct sockaddr *)&un, sizeof(un)),
			 -EINVAL);
	assert_int_equal(weir_sim_bind(b, (struct sockaddr *)&un, sizeof(un)),
			 -EADDRINUSE);
	assert_int_equal(weir_sim_sendto(b, "x", 1, (struct sockaddr *)&un,
					 sizeof(un)), 1);
	run(&n);
	assert_int_equal(weir_sim_recvfrom(a, in, 8, NULL, NULL), 1);
	assert_int_equal(weir_sim_getpeername(a, (struct sockaddr *)&got, &len),
			 -ENOTCONN);
	assert_int_equal(weir_sim_getsockname(a, (struct sockaddr *)&got, &len),
			 0);
	assert_string_equal(((struct sockaddr_un *)&got)->sun_path, "a/log");
	assert_int_equal(weir_sim_datagram(n.sim, n.host[0], &b, AF_INET), 0);
	assert_int_equal(weir_sim_bind(b, IN("10.0.0.1", 0)), 0);
	len = sizeof(got);
	assert_int_equal(weir_sim_getsockname(b, (struct sockaddr *)&got, &len),
			 0);
	assert_int_equal(ntohs(((struct sockaddr_in *)&got)->sin_port), 32769);
	net_end(&n);
}

/* What a struct weir_udp was told; it may answer. */
struct received {
	struct weir_udp *udp;
	int n, errors, err;
	uint64_t sum;		/* Of the first bytes, and their order. */
	bool answers;
	struct weir_udp_msg last;
	char text[32];
	struct rec sends[400];
	int sent;
};

static int on_datagram(struct weir_udp *udp, const struct weir_udp_msg *msg,
		       int err, void *arg)
{
	struct received *t = arg;
	struct weir_udp_msg answer;

	if (err) {
		t->errors++;
		t->err = err;
		return WEIR_UDP_DONE;
	}
	t->n++;
	t->last = *msg;
	t->sum = 31 * t->sum + *(unsigned char *)msg->data;
	memcpy(t->text, msg->data, msg->len);
	if (!t->answers)
		return WEIR_UDP_DONE;
	answer = *msg;
	answer.data = t->text;
	rec_init(&t->sends[t->sent]);
	assert_int_equal(weir_udp_send(udp, &t->sends[t->sent++].op, &answer),
			 0);
	return WEIR_UDP_DONE;
}

static void begin_udp(struct net *n, int i, struct received *t, uint32_t flags)
{
	struct weir_udp_opts opts = { .size = sizeof(opts), .flags = flags,
				      .bufs = 4, .buf_size = 32 };

	memset(t, 0, sizeof(*t));
	assert_int_equal(weir_udp_create(&t->udp, n->r, n->fd[i], &opts,
					 on_datagram, t), 0);
}

static void send_from(struct received *t, const char *text, uint32_t len,
		      const char *to)
{
	struct weir_udp_msg msg = { .data = (void *)(uintptr_t)text,
				    .len = len };
	struct rec *rec = &t->sends[t->sent++];

	msg.peer.in = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(53),
		.sin_addr.s_addr = inet_addr(to),
	};
	rec_init(rec);
	assert_int_equal(weir_udp_send(t->udp, &rec->op, &msg), 0);
}

static void udp_socket_answers_in_a_world(void **state)
{
	static struct received a, b;
	struct net n;

	(void)state;
	net_begin(&n, 1, 0);
	begin_udp(&n, 0, &a, WEIR_UDP_GRO);
	begin_udp(&n, 1, &b, WEIR_UDP_LOCAL | WEIR_UDP_TIMES);
	b.answers = true;
	send_from(&a, "question", 8, "10.0.0.2");
	run(&n);
	assert_int_equal(a.n, 1);
	assert_memory_equal(a.text, "question", 8);
	assert_int_equal(a.sends[0].res, 8);
	assert_int_equal(b.last.local.in.sin_addr.s_addr,
			 inet_addr("10.0.0.2"));
	assert_int_equal(ntohs(b.last.local.in.sin_port), 53);
	assert_int_equal(b.last.peer.in.sin_addr.s_addr,
			 inet_addr("10.0.0.1"));
	assert_true(b.last.arrived_ns > 0);
	/* As on Linux: an empty one, one that is too long. */
	send_from(&a, "", 0, "10.0.0.2");
	run(&n);
	assert_int_equal(b.last.len, 0);
	b.answers = false;
	send_from(&a, "0123456789012345678901234567890123456789"
		  "0123456789012345678901234567890123456789", 80, "10.0.0.2");
	run(&n);
	assert_int_equal(b.last.flags, WEIR_UDP_TRUNCATED);
	assert_in_range(b.last.len, 32, 79);
	weir_udp_destroy(a.udp);
	weir_udp_destroy(b.udp);
	net_end(&n);
}

static uint64_t stormy(uint64_t seed, int *got)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
	static struct received a, b;
	uint64_t sum;
	struct net n;

	net_begin(&n, seed, BIT(WEIR_SIM_STALL) | BIT(WEIR_SIM_REORDER) |
			    BIT(WEIR_SIM_DELAY));
	begin_udp(&n, 0, &a, 0);
	begin_udp(&n, 1, &b, 0);
	for (int i = 0; i < 26; i++)
		send_from(&a, letters + i, 1, "10.0.0.2");
	run(&n);
	for (int i = 0; i < 26; i++)
		assert_int_equal(a.sends[i].res, 1);
	*got = b.n;
	sum = b.sum;
	weir_udp_destroy(a.udp);
	weir_udp_destroy(b.udp);
	net_end(&n);
	return sum;
}

/* Loss, doubles and order are the seed's. */
static void seed_decides_what_a_udp_socket_gets(void **state)
{
	int got, again, some_lost = 0, different = 0;
	uint64_t sum, last = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		sum = stormy(seed, &got);
		assert_int_equal(stormy(seed, &again), sum);
		assert_int_equal(got, again);
		some_lost += got != 26;
		different += sum != last;
		last = sum;
	}
	assert_true(some_lost > 0);
	assert_int_equal(different, 8);
}

static void udp_socket_ends_with_its_host(void **state)
{
	struct sockaddr_in group = { .sin_family = AF_INET };
	const struct sockaddr *g = (const struct sockaddr *)&group;
	struct weir_udp_opts opts = { .size = sizeof(opts),
				      .flags = WEIR_UDP_TXTIME };
	static struct received a, b;
	struct weir_udp *udp;
	struct net n;

	(void)state;
	group.sin_addr.s_addr = inet_addr("239.1.2.3");
	net_begin(&n, 1, 0);
	assert_int_equal(weir_udp_create(&udp, n.r, n.fd[0], &opts, on_datagram,
					 &a), -EOPNOTSUPP);
	begin_udp(&n, 0, &a, 0);
	begin_udp(&n, 1, &b, 0);
	assert_int_equal(weir_udp_join(a.udp, g, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(weir_udp_leave(a.udp, g, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(weir_udp_option(a.udp, WEIR_UDP_TTL, 1), -EOPNOTSUPP);
	assert_false(weir_udp_is_ended(b.udp));
	weir_sim_power_cut(n.sim, "b:");
	run(&n);
	assert_int_equal(b.errors, 1);
	assert_int_equal(b.err, -EIO);
	assert_true(weir_udp_is_ended(b.udp));
	assert_int_equal(weir_udp_set(b.udp, 0), 0);
	assert_int_equal(weir_udp_set(b.udp, 1), 0);
	send_from(&b, "x", 1, "10.0.0.1");
	run(&n);
	assert_int_equal(b.sends[0].res, -EIO);
	assert_int_equal(b.errors, 1);
	weir_udp_destroy(a.udp);
	weir_udp_destroy(b.udp);
	net_end(&n);
}

static const struct harness_case cases[] = {
	CASE(datagram_arrives_as_a_whole),
	CASE(operations_have_addresses),
	CASE(datagrams_are_lost_doubled_and_late),
	CASE(datagram_to_nobody_is_refused_or_lost),
	CASE(addresses_of_datagrams_are_checked),
	CASE(udp_socket_answers_in_a_world),
	CASE(seed_decides_what_a_udp_socket_gets),
	CASE(udp_socket_ends_with_its_host),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
