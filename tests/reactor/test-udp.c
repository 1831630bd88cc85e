/* SPDX-License-Identifier: BSD-3-Clause */

/* UDP sockets, as <weir/udp.h> promises them. */

#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <weir/udp.h>

#include "base/fault.h"

#define N_MAX 512

/* What one socket was told. */
struct seen {
	int fd;
	struct weir_udp *udp;
	struct sockaddr_in addr;
	int n, errors, err;
	bool truncated;
	struct weir_udp_msg last;
	char text[70000];	/* Of the last one. */
	uint32_t numbers[N_MAX]; /* The first word of each. */
	int keep;		/* So many are kept. */
	const void *kept[N_MAX];
	int n_kept;
	int pause_at, destroy_at; /* In the callback for the n-th. */
	bool answers;
	struct rec sends[N_MAX];
};

static void begin_answer(struct seen *s, const struct weir_udp_msg *msg)
{
	struct weir_udp_msg answer = *msg;

	answer.data = s->text;
	rec_init(&s->sends[s->n]);
	STARTS(weir_udp_send(s->udp, &s->sends[s->n].op, &answer));
}

static int on_datagram(struct weir_udp *udp, const struct weir_udp_msg *msg,
		       int err, void *arg)
{
	struct seen *s = arg;

	assert_int_equal(harness_starting, 0);
	assert_true(!!msg != !!err);
	if (err) {
		s->errors++;
		s->err = err;
		return WEIR_UDP_DONE;
	}
	s->last = *msg;
	memcpy(s->text, msg->data, msg->len);
	if (s->n < N_MAX && msg->len >= 4)
		memcpy(&s->numbers[s->n], msg->data, 4);
	if (s->answers)
		begin_answer(s, msg);
	s->n++;
	if (s->n == s->pause_at)
		assert_int_equal(weir_udp_set(udp, 0), 0);
	if (s->n == s->destroy_at) {
		weir_udp_destroy(udp);
		s->udp = NULL;
	}
	if (s->n_kept >= s->keep)
		return WEIR_UDP_DONE;
	s->kept[s->n_kept++] = msg->data;
	return WEIR_UDP_KEEP;
}

static struct sockaddr_in loopback(in_port_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static void open_at(struct seen *s, const struct sockaddr_in *local,
		    const struct sockaddr_in *peer)
{
	socklen_t len = sizeof(s->addr);

	memset(s, 0, sizeof(*s));
	assert_int_equal(weir_udp_open(&s->fd, (const struct sockaddr *)local,
				       (const struct sockaddr *)peer, 0), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&s->addr, &len),
			 0);
}

static void begin_with(struct weir_reactor *r, struct seen *s,
		       struct weir_udp_opts opts)
{
	opts.size = sizeof(opts);
	assert_int_equal(weir_udp_create(&s->udp, r, s->fd, &opts, on_datagram,
					 s), 0);
}

/* Bound to a port of 127.0.0.1. */
static void begin(struct weir_reactor *r, struct seen *s)
{
	struct sockaddr_in any = loopback(0);

	open_at(s, &any, NULL);
	begin_with(r, s, (struct weir_udp_opts){ 0 });
}

static void end(struct seen *s)
{
	weir_udp_destroy(s->udp);
	close(s->fd);
}

static struct weir_udp_msg msg_to(const struct seen *to, const void *data,
				  uint32_t len)
{
	struct weir_udp_msg msg = { .data = (void *)(uintptr_t)data,
				    .len = len };

	if (to)
		msg.peer.in = to->addr;
	return msg;
}

/* Send, and its result. */
static int64_t send_one(struct weir_reactor *r, struct seen *from,
			const struct weir_udp_msg *msg)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_udp_send(from->udp, &rec.op, msg));
	return finish(r, &rec);
}

static void say(struct weir_reactor *r, struct seen *from, struct seen *to,
		const char *text)
{
	struct weir_udp_msg msg = msg_to(to, text, (uint32_t)strlen(text));

	assert_int_equal(send_one(r, from, &msg), strlen(text));
}

static struct seen a, b, c;
static char big[70000];

static void datagram_arrives_with_its_peer(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	begin(r, &a);
	begin(r, &b);
	say(r, &a, &b, "hello");
	UNTIL(r, b.n == 1);
	assert_int_equal(b.last.len, 5);
	assert_memory_equal(b.text, "hello", 5);
	assert_int_equal(b.last.flags, 0);
	assert_int_equal(b.last.segment, 0);
	assert_int_equal(b.last.peer.in.sin_family, AF_INET);
	assert_int_equal(b.last.peer.in.sin_port, a.addr.sin_port);
	assert_int_equal(b.last.peer.in.sin_addr.s_addr,
			 a.addr.sin_addr.s_addr);
	assert_int_equal(b.last.local.any.sa_family, AF_UNSPEC);
	assert_int_equal(b.last.arrived_ns, 0);
	/* An empty one is no end. */
	say(r, &a, &b, "");
	say(r, &a, &b, "again");
	UNTIL(r, b.n == 3);
	assert_int_equal(b.errors, 0);
	assert_false(weir_udp_is_ended(b.udp));
	end(&a);
	end(&b);
}

static void server_answers_copy_of_question(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	begin(r, &a);
	begin(r, &b);
	b.answers = true;
	say(r, &a, &b, "question");
	UNTIL(r, a.n == 1);
	assert_memory_equal(a.text, "question", 8);
	end(&a);
	end(&b);
}

/* More than one system call takes, and more than there are buffers. */
static void datagrams_arrive_in_order(void **state)
{
	static struct rec rec[N_MAX];
	static uint32_t number[N_MAX];
	struct weir_reactor *r = start_reactor(state);
	int n = 0, done;

	begin(r, &a);
	begin(r, &b);
	for (int round = 0; round < 4; round++) {
		done = n;
		for (; n < 100 * (round + 1); n++) {
			struct weir_udp_msg msg = msg_to(&b, &number[n], 4);

			number[n] = (uint32_t)n;
			rec_init(&rec[n]);
			STARTS(weir_udp_send(a.udp, &rec[n].op, &msg));
		}
		UNTIL(r, b.n == n);
		for (; done < n; done++) {
			assert_int_equal(rec[done].calls, 1);
			assert_int_equal(rec[done].res, 4);
			assert_int_equal(rec[done].detail.bytes, 4);
			assert_int_equal(b.numbers[done], done);
		}
	}
	end(&a);
	end(&b);
}

static void long_datagram_is_reported_truncated(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp_msg msg;

	begin(r, &a);
	memset(big, 'x', sizeof(big));
	open_at(&b, &(struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, NULL);
	begin_with(r, &b, (struct weir_udp_opts){ .buf_size = 64, .bufs = 2 });
	msg = msg_to(&b, big, 3000);
	assert_int_equal(send_one(r, &a, &msg), 3000);
	UNTIL(r, b.n == 1);
	assert_int_equal(b.last.flags, WEIR_UDP_TRUNCATED);
	assert_in_range(b.last.len, 64, 127);
	msg = msg_to(&b, "fits", 4);
	assert_int_equal(send_one(r, &a, &msg), 4);
	UNTIL(r, b.n == 2);
	assert_int_equal(b.last.flags, 0);
	assert_int_equal(b.last.len, 4);
	end(&b);
	/* And the longest there is. */
	begin(r, &b);
	weir_udp_destroy(b.udp);
	begin_with(r, &b, (struct weir_udp_opts){ .buf_size = 65535 });
	msg = msg_to(&b, big, 65507);
	assert_int_equal(send_one(r, &a, &msg), 65507);
	UNTIL(r, b.n == 1);
	assert_int_equal(b.last.len, 65507);
	end(&a);
	end(&b);
}

static void open_six(struct seen *s, const struct sockaddr_in6 *at,
		     uint32_t flags)
{
	int err;

	memset(s, 0, sizeof(*s));
	err = weir_udp_open(&s->fd, (const struct sockaddr *)at, NULL, flags);
	if (err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL)
		skip_because("there is no IPv6 here: %s", weir_why());
	assert_int_equal(err, 0);
}

static void begin_six(struct weir_reactor *r, struct seen *s, uint32_t flags)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6,
				    .sin6_addr = in6addr_loopback };

	open_six(s, &any, WEIR_UDP_V6ONLY);
	begin_with(r, s, (struct weir_udp_opts){ .flags = flags });
}

static void ipv6_has_addresses_too(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp_msg msg = { .data = big, .len = 9 };
	socklen_t len = sizeof(msg.peer.in6);

	begin_six(r, &a, 0);
	begin_six(r, &b, WEIR_UDP_LOCAL);
	b.answers = true;
	assert_int_equal(getsockname(b.fd, &msg.peer.any, &len), 0);
	assert_int_equal(send_one(r, &a, &msg), 9);
	UNTIL(r, a.n == 1);
	assert_int_equal(a.last.peer.in6.sin6_family, AF_INET6);
	assert_int_equal(a.last.peer.in6.sin6_port, msg.peer.in6.sin6_port);
	assert_int_equal(b.last.local.in6.sin6_family, AF_INET6);
	assert_memory_equal(&b.last.local.in6.sin6_addr, &in6addr_loopback, 16);
	assert_int_equal(b.last.local.in6.sin6_port, msg.peer.in6.sin6_port);
	assert_int_equal(b.last.ifindex, if_nametoindex("lo"));
	end(&a);
	end(&b);
}

/* The server listens at every address; each client must be answered from the one
 * that it has asked, or else it, being connected, gets nothing. */
static void answer_leaves_from_address_that_was_asked(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in any = { .sin_family = AF_INET }, asked;

	open_at(&b, &any, NULL);
	begin_with(r, &b, (struct weir_udp_opts){ .flags = WEIR_UDP_LOCAL });
	b.answers = true;
	asked = loopback(b.addr.sin_port);
	asked.sin_addr.s_addr = inet_addr("127.0.0.7");
	open_at(&a, NULL, &asked);
	begin_with(r, &a, (struct weir_udp_opts){ 0 });
	say(r, &a, NULL, "question");
	UNTIL(r, a.n == 1);
	assert_int_equal(b.last.local.in.sin_addr.s_addr,
			 asked.sin_addr.s_addr);
	assert_int_equal(b.last.local.in.sin_port, b.addr.sin_port);
	assert_int_equal(a.last.peer.in.sin_addr.s_addr,
			 asked.sin_addr.s_addr);
	end(&a);
	end(&b);
}

/* The ICMP message of a datagram comes before the next is sent; neither sends nor
 * the socket end by it. */
static void refusal_is_reported_and_ends_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in peer;

	begin(r, &b);
	peer = b.addr;
	end(&b);
	open_at(&a, NULL, &peer);
	begin_with(r, &a, (struct weir_udp_opts){ 0 });
	for (int i = 0; i < 3; i++) {
		say(r, &a, NULL, "anyone?");
		UNTIL(r, a.errors > i);
		assert_int_equal(a.err, -ECONNREFUSED);
	}
	/* Many at once: each is sent, whatever the one before it has met. */
	rec_init(&a.sends[0]);
	rec_init(&a.sends[1]);
	for (int i = 0; i < 2; i++) {
		struct weir_udp_msg msg = msg_to(NULL, "x", 1);

		STARTS(weir_udp_send(a.udp, &a.sends[i].op, &msg));
	}
	UNTIL(r, a.sends[0].calls && a.sends[1].calls && a.errors > 3);
	assert_int_equal(a.sends[0].res, 1);
	assert_int_equal(a.sends[1].res, 1);
	assert_false(weir_udp_is_ended(a.udp));
	/* While nothing receives, the error waits for the next send. */
	assert_int_equal(weir_udp_set(a.udp, 0), 0);
	a.errors = 0;
	for (int i = 0; i < 3; i++) {
		say(r, &a, NULL, "anyone?");
		some_turns(r, 3);
	}
	assert_int_equal(a.errors, 0);
	assert_int_equal(weir_udp_set(a.udp, 1), 0);
	UNTIL(r, a.errors > 0);
	assert_int_equal(a.err, -ECONNREFUSED);
	/* Then there is somebody. */
	open_at(&b, &peer, NULL);
	begin_with(r, &b, (struct weir_udp_opts){ 0 });
	b.answers = true;
	say(r, &a, NULL, "hello");
	UNTIL(r, a.n == 1);
	end(&a);
	end(&b);
}

static int no_gso(const char *name)
{
	return !strcmp(name, "udp_gso");
}

static int no_gro(const char *name)
{
	return !strcmp(name, "udp_gro");
}

static void send_segments(struct weir_reactor *r)
{
	struct weir_udp_msg msg;

	begin(r, &a);
	begin(r, &b);
	for (uint32_t i = 0; i < 250; i++)
		memcpy(big + 4 * i, &i, 4);
	msg = msg_to(&b, big, 1000);
	msg.segment = 300;
	assert_int_equal(send_one(r, &a, &msg), 1000);
	UNTIL(r, b.n == 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(b.numbers[i], 75 * i);
	assert_int_equal(b.last.len, 100);
	/* More than one call takes. */
	msg.segment = 16;
	assert_int_equal(send_one(r, &a, &msg), 1000);
	UNTIL(r, b.n == 4 + 63);
	assert_int_equal(b.last.len, 8);
	end(&a);
	end(&b);
}

static void segments_are_datagrams(void **state)
{
	send_segments(start_reactor(state));
}

static void segments_need_no_gso(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	fault_ask(no_gso);
	send_segments(r);
	fault_ask(NULL);
}

/* Sends of one turn: of a size, another peer, one shorter, an empty one, longer. */
static void send_several(struct weir_reactor *r)
{
	static const uint32_t lens[] = { 100, 100, 100, 40, 100, 0, 100, 200,
					 100, 100 };
	struct rec rec[N_OF(lens)];
	struct weir_udp_msg msg;
	uint32_t at = 0;

	begin(r, &a);
	begin(r, &b);
	begin(r, &c);
	for (uint32_t i = 0; i < N_OF(lens); i++) {
		memcpy(big + at, &i, 4);
		msg = msg_to(i == 1 ? &c : &b, big + at, lens[i]);
		at += lens[i] + 4;
		rec_init(&rec[i]);
		STARTS(weir_udp_send(a.udp, &rec[i].op, &msg));
	}
	UNTIL(r, b.n == N_OF(lens) - 1 && c.n == 1);
	for (uint32_t i = 0, k = 0; i < N_OF(lens); i++) {
		UNTIL(r, rec[i].calls);
		assert_int_equal(rec[i].res, lens[i]);
		if (i == 1)
			continue;
		if (lens[i])
			assert_int_equal(b.numbers[k], i);
		k++;
	}
	assert_int_equal(c.numbers[0], 1);
	assert_int_equal(b.last.len, 100);
	end(&a);
	end(&b);
	end(&c);
}

static void sends_of_a_turn_are_datagrams(void **state)
{
	send_several(start_reactor(state));
}

static int no_offload(const char *name)
{
	return !strcmp(name, "udp_offload");
}

/* As a device that cannot compute checksums: EIO. */
static void device_needs_no_offload(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	fault_ask(no_offload);
	send_several(r);
	send_segments(r);
	fault_ask(NULL);
}

/* As a path whose MTU is smaller than the datagrams, for each size. */
static int is_over_mtu(const char *name)
{
	return !strcmp(name, "udp_mtu");
}

/* Likewise, as a newer kernel says it. */
static int is_over_pmtu(const char *name)
{
	return !strcmp(name, "udp_pmtu");
}

static void datagrams_may_be_over_mtu(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	for (int i = 0; i < 2; i++) {
		fault_ask(i ? is_over_pmtu : is_over_mtu);
		send_several(r);
		assert_int_equal(a.errors, 0);
		send_several(r);
		send_segments(r);
		assert_int_equal(a.errors, 0);
	}
	fault_ask(NULL);
}

/* Counts the messages that the kernel is asked to cut, and has it refuse some. */
static int cuts;
static const char *refused_cut;

static int count_cuts(const char *name)
{
	if (!strcmp(name, "udp_offload"))
		cuts++;
	return refused_cut && !strcmp(name, refused_cut);
}

static int cuts_of_two(struct weir_reactor *r)
{
	struct weir_udp_msg msg = msg_to(&b, big, 100);
	struct rec rec[2];

	cuts = 0;
	for (int i = 0; i < 2; i++) {
		rec_init(&rec[i]);
		STARTS(weir_udp_send(a.udp, &rec[i].op, &msg));
	}
	UNTIL(r, rec[0].calls && rec[1].calls);
	assert_int_equal(rec[0].res, 100);
	assert_int_equal(rec[1].res, 100);
	return cuts;
}

/* A peer, or a route, cannot have it switched off for all others. */
static void joining_is_tried_again(void **state)
{
	static const char *const refusals[] = { "udp_offload", "udp_mtu" };
	struct weir_reactor *r = start_reactor(state);

	if (kernel_is_before(4, 18))
		skip_because("the kernel has no GSO");
	begin(r, &a);
	begin(r, &b);
	fault_ask(count_cuts);
	assert_int_equal(cuts_of_two(r), 1);
	for (size_t i = 0; i < N_OF(refusals); i++) {
		refused_cut = refusals[i];
		assert_int_equal(cuts_of_two(r), 1);
		refused_cut = NULL;
		assert_int_equal(cuts_of_two(r), 0);
		for (int k = 0; k < 1024; k++)
			say(r, &a, &b, "x");
		assert_int_equal(cuts_of_two(r), 1);
	}
	fault_ask(NULL);
	end(&a);
	end(&b);
}

static void receive_joined(struct weir_reactor *r, bool gro)
{
	struct weir_udp_msg msg;

	begin(r, &a);
	begin(r, &b);
	weir_udp_destroy(b.udp);
	begin_with(r, &b, (struct weir_udp_opts){ .flags = WEIR_UDP_GRO });
	msg = msg_to(&b, big, 1000);
	msg.segment = 300;
	assert_int_equal(send_one(r, &a, &msg), 1000);
	/* By loopback, what was not cut arrives as it was sent. */
	if (gro) {
		UNTIL(r, b.n == 1);
		assert_int_equal(b.last.len, 1000);
		assert_int_equal(b.last.segment, 300);
	} else {
		UNTIL(r, b.n == 4);
		assert_int_equal(b.last.segment, 0);
	}
	end(&a);
	end(&b);
}

static void joined_datagrams_have_segment(void **state)
{
	receive_joined(start_reactor(state), !kernel_is_before(5, 0));
}

static void datagrams_without_gro_are_not_joined(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	fault_ask(no_gro);
	receive_joined(r, false);
	fault_ask(NULL);
}

static void arrival_has_time(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct timespec ts;
	uint64_t before;

	begin(r, &a);
	begin(r, &b);
	weir_udp_destroy(b.udp);
	begin_with(r, &b, (struct weir_udp_opts){ .flags = WEIR_UDP_TIMES |
							   WEIR_UDP_LOCAL });
	clock_gettime(CLOCK_REALTIME, &ts);
	before = (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
	say(r, &a, &b, "when?");
	UNTIL(r, b.n == 1);
	/* Not the time of the test, but a time of its day. */
	assert_in_range(b.last.arrived_ns, before - 3600 * WEIR_SEC,
			before + 3600 * WEIR_SEC);
	assert_int_equal(b.last.local.in.sin_port, b.addr.sin_port);
	end(&a);
	end(&b);
}

static void departure_may_have_time(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp_opts opts = { .size = sizeof(opts),
				      .flags = WEIR_UDP_TXTIME };
	struct weir_udp_msg msg;
	struct rec rec;

	begin(r, &b);
	begin(r, &a);
	msg = msg_to(&b, "later", 5);
	msg.depart_ns = 1;
	rec_init(&rec);
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -EINVAL);
	weir_udp_destroy(a.udp);
	if (kernel_is_before(4, 19))
		skip_because("the kernel has no SO_TXTIME");
	assert_int_equal(weir_udp_create(&a.udp, r, a.fd, &opts, on_datagram,
					 &a), 0);
	assert_int_equal(send_one(r, &a, &msg), 5);
	UNTIL(r, b.n == 1);
	/* The kernel gets the time: it refuses that without the option, which
	 * another socket of this number does not have. */
	assert_int_equal(weir_udp_set(a.udp, 0), 0);
	some_turns(r, 3);
	open_at(&c, &(struct sockaddr_in){ .sin_family = AF_INET }, NULL);
	assert_int_equal(dup2(c.fd, a.fd), a.fd);
	assert_int_equal(send_one(r, &a, &msg), -EINVAL);
	msg.depart_ns = 0;
	assert_int_equal(send_one(r, &a, &msg), 5);
	close(c.fd);
	end(&a);
	end(&b);
}

static void group_gets_what_is_sent_to_it(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in any = { .sin_family = AF_INET }, group;
	const struct sockaddr *g = (const struct sockaddr *)&group;
	struct weir_udp_msg msg = { .data = big, .len = 5 };
	uint32_t lo = if_nametoindex("lo");

	open_at(&b, &any, NULL);
	begin_with(r, &b, (struct weir_udp_opts){ .flags = WEIR_UDP_LOCAL });
	begin(r, &a);
	group = loopback(b.addr.sin_port);
	group.sin_addr.s_addr = inet_addr("239.1.2.3");
	assert_int_equal(weir_udp_join(b.udp, g, NULL, lo), 0);
	assert_int_equal(weir_udp_join(b.udp, g, NULL, lo), -EADDRINUSE);
	assert_int_equal(weir_udp_option(a.udp, WEIR_UDP_MULTICAST_TTL, 0), 0);
	assert_int_equal(weir_udp_option(a.udp, WEIR_UDP_MULTICAST_LOOP, 1),
			 0);
	assert_int_equal(weir_udp_option(a.udp, WEIR_UDP_MULTICAST_IF, lo), 0);
	msg.peer.in = group;
	assert_int_equal(send_one(r, &a, &msg), 5);
	UNTIL(r, b.n == 1);
	assert_int_equal(b.last.local.in.sin_addr.s_addr,
			 group.sin_addr.s_addr);
	assert_int_equal(b.last.ifindex, lo);
	/* Another interface for one message. */
	assert_int_equal(weir_udp_option(a.udp, WEIR_UDP_MULTICAST_IF, 0), 0);
	msg.ifindex = lo;
	assert_int_equal(send_one(r, &a, &msg), 5);
	UNTIL(r, b.n == 2);
	assert_int_equal(weir_udp_leave(b.udp, g, NULL, lo), 0);
	assert_int_equal(weir_udp_leave(b.udp, g, NULL, lo), -EADDRNOTAVAIL);
	/* From one source, which is none of ours, and from ours. */
	any = loopback(0);
	any.sin_addr.s_addr = inet_addr("127.9.9.9");
	assert_int_equal(weir_udp_join(b.udp, g, (struct sockaddr *)&any, lo),
			 0);
	assert_int_equal(send_one(r, &a, &msg), 5);
	assert_int_equal(weir_udp_leave(b.udp, g, (struct sockaddr *)&any, lo),
			 0);
	any = a.addr;
	assert_int_equal(weir_udp_join(b.udp, g, (struct sockaddr *)&any, lo),
			 0);
	msg.len = 6;
	assert_int_equal(send_one(r, &a, &msg), 6);
	UNTIL(r, b.n == 3);
	assert_int_equal(b.last.len, 6);
	assert_int_equal(weir_udp_join(b.udp, g, NULL, 99999), -ENODEV);
	assert_int_equal(weir_udp_join(b.udp, (struct sockaddr *)&a.addr, NULL,
				       lo), -EINVAL);
	assert_int_equal(weir_udp_leave(b.udp, NULL, NULL, lo), -EINVAL);
	end(&a);
	end(&b);
}

/* A socket of IPv6 that serves IPv4, too, is in an IPv4 group. */
static void group_of_ipv4_is_answered_from_ipv6_socket(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct ip_mreqn group = { .imr_ifindex = (int)if_nametoindex("lo") };
	struct weir_udp_msg msg = { .data = big, .len = 5 };
	socklen_t len = sizeof(any);

	open_six(&b, &any, 0);
	begin_with(r, &b, (struct weir_udp_opts){ .flags = WEIR_UDP_LOCAL });
	b.answers = true;
	assert_int_equal(getsockname(b.fd, (struct sockaddr *)&any, &len), 0);
	begin(r, &a);
	group.imr_multiaddr.s_addr = inet_addr("239.1.2.4");
	assert_int_equal(setsockopt(b.fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group,
				    sizeof(group)), 0);
	msg.peer.in = loopback(any.sin6_port);
	msg.peer.in.sin_addr = group.imr_multiaddr;
	msg.ifindex = (uint32_t)group.imr_ifindex;
	assert_int_equal(send_one(r, &a, &msg), 5);
	UNTIL(r, a.n == 1);
	assert_int_equal(b.sends[0].res, 5);
	assert_int_equal(b.last.local.in6.sin6_addr.s6_addr32[3],
			 group.imr_multiaddr.s_addr);
	/* To the group, by the interface that the message names. */
	b.answers = false;
	msg = b.last;
	msg.data = big;
	msg.peer = b.last.local;
	assert_int_equal(send_one(r, &b, &msg), 5);
	UNTIL(r, b.n == 2);
	end(&a);
	end(&b);
}

static void options_have_ranges(void **state)
{
	static const struct {
		uint32_t option;
		uint64_t value;
		int res;
	} cases[] = {
		{ WEIR_UDP_TTL, 1, 0 },
		{ WEIR_UDP_TTL, 0, -EINVAL },
		{ WEIR_UDP_TTL, 256, -EINVAL },
		{ WEIR_UDP_MULTICAST_TTL, 255, 0 },
		{ WEIR_UDP_MULTICAST_LOOP, 2, -EINVAL },
		{ WEIR_UDP_MULTICAST_IF, 99999, -ENODEV },
		{ WEIR_UDP_BROADCAST, 1, 0 },
		{ WEIR_UDP_PACING, 1000000, 0 },
		{ WEIR_UDP_PACING, 0, 0 },
		{ 0, 0, -EINVAL },
		{ 7, 0, -EINVAL },
	};
	struct weir_reactor *r = start_reactor(state);
	int ttl = 0;
	socklen_t len = sizeof(ttl);

	begin(r, &a);
	begin_six(r, &b, 0);
	for (size_t i = 0; i < N_OF(cases); i++) {
		assert_int_equal(weir_udp_option(a.udp, cases[i].option,
						 cases[i].value),
				 cases[i].res);
		assert_int_equal(weir_udp_option(b.udp, cases[i].option,
						 cases[i].value),
				 cases[i].res);
	}
	assert_int_equal(weir_udp_option(b.udp, WEIR_UDP_TTL, 77), 0);
	assert_int_equal(getsockopt(b.fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS,
				    &ttl, &len), 0);
	assert_int_equal(ttl, 77);
	end(&a);
	end(&b);
}

static void paused_socket_loses_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint32_t number[40];
	struct rec rec[40];

	begin(r, &a);
	begin(r, &b);
	b.pause_at = 3;
	for (uint32_t i = 0; i < 40; i++) {
		struct weir_udp_msg msg = msg_to(&b, &number[i], 4);

		number[i] = i;
		rec_init(&rec[i]);
		STARTS(weir_udp_send(a.udp, &rec[i].op, &msg));
	}
	UNTIL(r, b.n == 3 && rec[39].calls);
	some_turns(r, 20);
	assert_int_equal(b.n, 3);
	/* And again, while those that were kept are handed out. */
	b.pause_at = 7;
	assert_int_equal(weir_udp_set(b.udp, 1), 0);
	assert_int_equal(b.n, 3);
	UNTIL(r, b.n == 7);
	some_turns(r, 20);
	assert_int_equal(b.n, 7);
	assert_int_equal(weir_udp_set(b.udp, 1), 0);
	UNTIL(r, b.n == 40);
	for (int i = 0; i < 40; i++)
		assert_int_equal(b.numbers[i], i);
	end(&a);
	end(&b);
}

static void stopped_reactor_goes_on_later(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp_msg msg;
	struct rec rec;

	begin(r, &a);
	begin(r, &b);
	say(r, &a, &b, "one");
	UNTIL(r, b.n == 1);
	msg = msg_to(&b, "two", 3);
	rec_init(&rec);
	STARTS(weir_udp_send(a.udp, &rec.op, &msg));
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(rec.calls, 1);
	rec_init(&rec);
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -ESHUTDOWN);
	assert_int_equal(weir_udp_set(a.udp, 0), -ESHUTDOWN);
	assert_int_equal(weir_reactor_start(r), 0);
	say(r, &a, &b, "three");
	UNTIL(r, !memcmp(b.text, "three", 5));
	end(&a);
	end(&b);
}

static void kept_buffers_hold_back_the_rest(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	begin(r, &a);
	begin(r, &b);
	weir_udp_destroy(b.udp);
	begin_with(r, &b, (struct weir_udp_opts){ .bufs = 4 });
	b.keep = 4;
	for (int i = 0; i < 10; i++)
		say(r, &a, &b, i % 2 ? "odd" : "even");
	UNTIL(r, b.n == 4);
	some_turns(r, 20);
	assert_int_equal(b.n, 4);
	assert_memory_equal(b.kept[0], "even", 4);
	assert_memory_equal(b.kept[3], "odd", 3);
	/* Any address in it; one is enough for all others. */
	weir_udp_release(b.udp, (const char *)b.kept[0] + 1);
	UNTIL(r, b.n == 10);
	weir_udp_release(b.udp, b.kept[2]);
	weir_udp_release(b.udp, b.kept[1]);
	/* Those that are kept go with the socket. */
	end(&a);
	end(&b);
}

static void callback_may_destroy_socket(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec[20];

	begin(r, &a);
	begin(r, &b);
	b.destroy_at = 3;
	for (int i = 0; i < 20; i++) {
		struct weir_udp_msg msg = msg_to(&b, "x", 1);

		rec_init(&rec[i]);
		STARTS(weir_udp_send(a.udp, &rec[i].op, &msg));
	}
	UNTIL(r, !b.udp && rec[19].calls);
	some_turns(r, 20);
	assert_int_equal(b.n, 3);
	/* Likewise among those that were kept. */
	begin_with(r, &b, (struct weir_udp_opts){ 0 });
	b.pause_at = 4;
	b.destroy_at = 6;
	for (int i = 0; i < 20; i++)
		say(r, &a, &b, "x");
	UNTIL(r, b.n == 4);
	some_turns(r, 20);
	assert_int_equal(weir_udp_set(b.udp, 1), 0);
	UNTIL(r, !b.udp);
	some_turns(r, 20);
	assert_int_equal(b.n, 6);
	end(&a);
	close(b.fd);
}

static void destroy_cancels_sends(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp_msg msg;
	struct rec rec;

	begin(r, &a);
	begin(r, &b);
	msg = msg_to(&b, "x", 1);
	rec_init(&rec);
	STARTS(weir_udp_send(a.udp, &rec.op, &msg));
	weir_udp_destroy(a.udp);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	a.udp = NULL;
	end(&a);
	end(&b);
}

static int is_full(const char *name)
{
	return !strcmp(name, "udp_full");
}

/* As a socket whose SO_SNDBUF is used up. */
static void sends_wait_for_capacity(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec[4];
	struct weir_udp_msg msg;

	begin(r, &a);
	begin(r, &b);
	msg = msg_to(&b, "x", 1);
	fault_ask(is_full);
	for (int i = 0; i < 4; i++) {
		rec_init(&rec[i]);
		if (i == 2)
			weir_op_set_deadline(&rec[i].op, weir_reactor_now(r) +
						     WEIR_MSEC);
		STARTS(weir_udp_send(a.udp, &rec[i].op, &msg));
	}
	some_turns(r, 3);
	assert_int_equal(rec[0].calls, 0);
	weir_op_cancel(&rec[1].op);
	assert_int_equal(rec[1].calls, 0);
	UNTIL(r, rec[1].calls && rec[2].calls);
	assert_int_equal(rec[1].res, -ECANCELED);
	assert_int_equal(rec[2].res, -ETIMEDOUT);
	assert_int_equal(rec[0].calls + rec[3].calls, 0);
	fault_ask(NULL);
	UNTIL(r, rec[0].calls && rec[3].calls && b.n == 2);
	assert_int_equal(rec[0].res, 1);
	assert_int_equal(rec[3].res, 1);
	/* All of them cancelled: nothing waits any more. */
	fault_ask(is_full);
	rec_init(&rec[0]);
	STARTS(weir_udp_send(a.udp, &rec[0].op, &msg));
	some_turns(r, 3);
	weir_op_cancel(&rec[0].op);
	assert_int_equal(finish(r, &rec[0]), -ECANCELED);
	fault_ask(NULL);
	some_turns(r, 10);
	assert_int_equal(b.n, 2);
	end(&a);
	end(&b);
}

static void sends_have_a_limit(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp_msg msg;
	struct rec rec[3];

	begin(r, &b);
	begin(r, &a);
	weir_udp_destroy(a.udp);
	begin_with(r, &a, (struct weir_udp_opts){ .sends_max = 2 });
	msg = msg_to(&b, "x", 1);
	for (int i = 0; i < 3; i++)
		rec_init(&rec[i]);
	STARTS(weir_udp_send(a.udp, &rec[0].op, &msg));
	STARTS(weir_udp_send(a.udp, &rec[1].op, &msg));
	assert_int_equal(weir_udp_send(a.udp, &rec[2].op, &msg), -EAGAIN);
	assert_int_equal(finish(r, &rec[1]), 1);
	STARTS(weir_udp_send(a.udp, &rec[2].op, &msg));
	assert_int_equal(finish(r, &rec[2]), 1);
	end(&a);
	end(&b);
}

static void bad_sends_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp_msg good, msg;
	struct rec rec;

	begin(r, &a);
	begin(r, &b);
	good = msg_to(&b, big, 10);
	rec_init(&rec);
	assert_int_equal(weir_udp_send(a.udp, &rec.op, NULL), -EINVAL);
	msg = good;
	msg.data = NULL;
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -EINVAL);
	msg = good;
	msg.peer.any.sa_family = AF_UNIX;
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -EINVAL);
	msg = good;
	msg.local.any.sa_family = AF_INET6;
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -EINVAL);
	msg = good;
	msg.peer.in.sin_port = 0;
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -EINVAL);
	msg = good;
	msg.reserved[3] = 1;
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -EINVAL);
	msg = good;
	msg.len = 65508;
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -EMSGSIZE);
	msg.len = 65;
	msg.segment = 1;
	assert_int_equal(weir_udp_send(a.udp, &rec.op, &msg), -EMSGSIZE);
	/* The kernel finds these. */
	msg = good;
	msg.peer.any.sa_family = AF_UNSPEC;
	assert_int_equal(send_one(r, &a, &msg), -EDESTADDRREQ);
	msg = good;
	msg.local.in = loopback(0);
	msg.local.in.sin_addr.s_addr = inet_addr("192.0.2.1");
	assert_int_equal(send_one(r, &a, &msg), -ENETUNREACH);
	msg = good;
	msg.len = 0;
	msg.data = NULL;
	assert_int_equal(send_one(r, &a, &msg), 0);
	/* None of these disturbs the next one. */
	assert_int_equal(send_one(r, &a, &good), 10);
	UNTIL(r, b.n == 2);
	assert_int_equal(a.errors, 0);
	end(&a);
	end(&b);
}

static void bad_sockets_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp_opts o = { .size = sizeof(o) };
	struct { struct weir_udp_opts o; int more; } newer = { .more = 1 };
	struct weir_udp *udp;
	int p[2];

	begin(r, &a);
	assert_int_equal(weir_udp_create(&udp, r, a.fd, NULL, NULL, NULL),
			 -EINVAL);
	assert_int_equal(weir_udp_create(&udp, r, -1, NULL, on_datagram, &a),
			 -EBADF);
	pipe_pair(p);
	assert_int_equal(weir_udp_create(&udp, r, p[0], NULL, on_datagram, &a),
			 -ENOTSOCK);
	close_pair(p);
	socket_pair(p);
	assert_int_equal(weir_udp_create(&udp, r, p[0], NULL, on_datagram, &a),
			 -EINVAL);
	close_pair(p);
	o.bufs = 3;
	assert_int_equal(weir_udp_create(&udp, r, a.fd, &o, on_datagram, &a),
			 -EINVAL);
	o.bufs = 0;
	o.buf_size = 65536;
	assert_int_equal(weir_udp_create(&udp, r, a.fd, &o, on_datagram, &a),
			 -EINVAL);
	o.buf_size = 0;
	o.flags = 1u << 31;
	assert_int_equal(weir_udp_create(&udp, r, a.fd, &o, on_datagram, &a),
			 -EINVAL);
	newer.o.size = sizeof(newer);
	assert_int_equal(weir_udp_create(&udp, r, a.fd, &newer.o, on_datagram,
					 &a), -E2BIG);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_udp_create(&udp, r, a.fd, NULL, on_datagram, &a),
			 -ESHUTDOWN);
	weir_udp_destroy(NULL);
	end(&a);
}

static void open_refuses_bad_addresses(void **state)
{
	struct sockaddr_in here = loopback(0), other = loopback(htons(9));
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	const struct sockaddr *h = (struct sockaddr *)&here;
	socklen_t len = sizeof(here);
	int fd, fd2;

	(void)state;
	assert_int_equal(weir_udp_open(&fd, NULL, NULL, 0), -EINVAL);
	assert_int_equal(weir_udp_open(&fd, h, (struct sockaddr *)&six, 0),
			 -EINVAL);
	assert_int_equal(weir_udp_open(&fd, h, NULL, 64), -EINVAL);
	assert_int_equal(weir_udp_open(NULL, h, NULL, 0), -EINVAL);
	assert_int_equal(weir_udp_open(&fd, h, (struct sockaddr *)&other, 0),
			 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
	assert_int_equal(weir_udp_open(&fd2, h, NULL, 0), -EADDRINUSE);
	close(fd);
	assert_int_equal(weir_udp_open(&fd, h, NULL, WEIR_UDP_REUSEPORT), 0);
	assert_int_equal(weir_udp_open(&fd2, h, NULL, WEIR_UDP_REUSEPORT), 0);
	close(fd2);
	close(fd);
	assert_int_equal(weir_udp_open(&fd, h, NULL, WEIR_UDP_REUSEADDR), 0);
	close(fd);
	here.sin_addr.s_addr = inet_addr("192.0.2.1");
	assert_int_equal(weir_udp_open(&fd, h, NULL, 0), -EADDRNOTAVAIL);
	here.sin_family = AF_UNIX;
	assert_int_equal(weir_udp_open(&fd, h, NULL, 0), -EINVAL);
}

/* As on a kernel without multishot requests, or without rings of buffers. */
static int refuses_multishot(const char *name)
{
	return !strcmp(name, "multishot");
}

static int refuses_rings(const char *name)
{
	return !strcmp(name, "io_uring_register");
}

static void receive_burst(struct weir_reactor *r)
{
	static struct rec rec[200];
	static uint32_t number[200];

	begin(r, &a);
	begin(r, &b);
	weir_udp_destroy(b.udp);
	begin_with(r, &b, (struct weir_udp_opts){ .bufs = 8 });
	for (uint32_t i = 0; i < 200; i++) {
		struct weir_udp_msg msg = msg_to(&b, &number[i], 4);

		number[i] = i;
		rec_init(&rec[i]);
		STARTS(weir_udp_send(a.udp, &rec[i].op, &msg));
	}
	UNTIL(r, b.n == 200);
	for (int i = 0; i < 200; i++)
		assert_int_equal(b.numbers[i], i);
	assert_int_equal(b.last.peer.in.sin_port, a.addr.sin_port);
	end(&a);
	end(&b);
}

static void socket_needs_no_multishot(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	fault_ask(refuses_multishot);
	receive_burst(r);
	receive_burst(r);
	fault_ask(NULL);
}

static void socket_needs_no_ring_of_buffers(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	fault_ask(refuses_rings);
	receive_burst(r);
	fault_ask(NULL);
}

static void few_buffers_are_enough(void **state)
{
	receive_burst(start_reactor(state));
}

static void nonblocking_socket_is_the_same(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	begin(r, &a);
	begin(r, &b);
	weir_udp_destroy(b.udp);
	set_nonblock(b.fd);
	begin_with(r, &b, (struct weir_udp_opts){ 0 });
	for (int i = 0; i < 5; i++) {
		say(r, &a, &b, "x");
		UNTIL(r, b.n == i + 1);
	}
	assert_int_equal(b.errors, 0);
	end(&a);
	end(&b);
}

/* Each fault in turn: an errno, and nothing is left. */
static void socket_survives_faults(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_in any = loopback(0);
	struct weir_udp_msg msg;
	struct rec rec;
	int64_t res = 0;
	long nth;
	int err, fired = 1;

	for (nth = 0; fired && nth < 100; nth++) {
		memset(&a, 0, sizeof(a));
		fault_arm(nth);
		err = weir_udp_open(&a.fd, (struct sockaddr *)&any, NULL,
				    WEIR_UDP_REUSEPORT);
		if (!err) {
			err = weir_udp_create(&a.udp, r, a.fd,
					      &(struct weir_udp_opts){
						      .size = sizeof(struct weir_udp_opts),
						      .flags = WEIR_UDP_LOCAL },
					      on_datagram, &a);
			if (err)
				close(a.fd);
		}
		if (!err) {
			msg = msg_to(NULL, "x", 1);
			msg.peer.in = loopback(htons(9));
			rec_init(&rec);
			STARTS(weir_udp_send(a.udp, &rec.op, &msg));
			res = finish(r, &rec);
			end(&a);
		}
		fired = fault_disarm();
		if (!fired || !err)
			assert_int_equal(err, 0);
		else
			assert_true(err == -EMFILE || err == -ENOBUFS ||
				    err == -ENOMEM);
		if (!err && (!fired || res != -ENOBUFS))
			assert_int_equal(res, 1);
	}
	assert_in_range(nth, 4, 99);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(datagram_arrives_with_its_peer),
		CASE(server_answers_copy_of_question),
		CASE(datagrams_arrive_in_order),
		CASE(long_datagram_is_reported_truncated),
		CASE(ipv6_has_addresses_too),
		CASE(answer_leaves_from_address_that_was_asked),
		CASE(refusal_is_reported_and_ends_nothing),
		CASE(segments_are_datagrams),
		CASE(segments_need_no_gso),
		CASE(sends_of_a_turn_are_datagrams),
		CASE(device_needs_no_offload),
		CASE(datagrams_may_be_over_mtu),
		CASE(joining_is_tried_again),
		CASE(joined_datagrams_have_segment),
		CASE(datagrams_without_gro_are_not_joined),
		CASE(arrival_has_time),
		CASE(departure_may_have_time),
		CASE(group_gets_what_is_sent_to_it),
		CASE(group_of_ipv4_is_answered_from_ipv6_socket),
		CASE(options_have_ranges),
		CASE(paused_socket_loses_nothing),
		CASE(stopped_reactor_goes_on_later),
		CASE(kept_buffers_hold_back_the_rest),
		CASE(callback_may_destroy_socket),
		CASE(destroy_cancels_sends),
		CASE(sends_wait_for_capacity),
		CASE(sends_have_a_limit),
		CASE(bad_sends_are_refused),
		CASE(bad_sockets_are_refused),
		CASE(open_refuses_bad_addresses),
		CASE(socket_needs_no_multishot),
		CASE(socket_needs_no_ring_of_buffers),
		CASE(few_buffers_are_enough),
		CASE(nonblocking_socket_is_the_same),
		CASE(socket_survives_faults),
	};

	return harness_run(cases, N_OF(cases));
}
