/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * weir_connect_name(), over both sources.  A blackhole is a listener on loopback
 * whose backlog is full: the kernel drops what else wants to connect.
 */

#include "tests/support/harness.h"

#include <netinet/in.h>

#include <weir/resolve/resolve.h>
#include <weir/socket.h>

#include "tests/support/dns-fixture.h"
#include "tests/support/resolve-fixture.h"

#define HOLES_MAX 12

/* 127.0.0.1 listens; 127.0.1.x are blackholes; 127.0.2.x refuse. */
static const struct dns_name names[] = {
	{ .name = "good.test", .addresses = "127.0.0.1" },
	{ .name = "both.test", .addresses = "127.0.0.1 ::1" },
	{ .name = "dead.test", .addresses = "127.0.2.1 127.0.2.2" },
	{ .name = "only-holes.test", .addresses = "127.0.1.1 127.0.1.2" },
	{ .name = "silent6.test", .addresses = "127.0.0.1", .flags = DNS_SILENT_AAAA },
	{ .name = "late6.test", .addresses = "127.0.2.1 ::1", .flags = DNS_HOLD_AAAA },
	{ .name = "late4.test", .addresses = "127.0.0.1 ::1", .flags = DNS_HOLD_A },
	{ .name = "silent.test", .flags = DNS_SILENT_A | DNS_SILENT_AAAA },
	{ .name = "held.test", .addresses = "127.0.0.1", .flags = DNS_HOLD_A | DNS_HOLD_AAAA },
	{ .name = "broken.test", .rcode = 2 },
	{ .name = "empty.test", .addresses = "" },
};

/* Those of which the order counts: glibc has one of its own. */
static const char table[] =
	"127.0.1.1 hole.test\n127.0.0.1 hole.test\n"
	"127.0.2.1 refuses.test\n127.0.2.2 refuses.test\n"
	"127.0.0.1 refuses.test\n"
	"127.0.1.1 holes.test\n127.0.1.2 holes.test\n127.0.1.3 holes.test\n"
	"127.0.1.4 holes.test\n127.0.1.5 holes.test\n127.0.1.6 holes.test\n"
	"127.0.1.7 holes.test\n127.0.1.8 holes.test\n127.0.1.9 holes.test\n"
	"127.0.1.10 holes.test\n127.0.0.1 holes.test\n";

struct hole {
	int fd, in;
};

struct fixture {
	struct weir_reactor *r;
	struct dns d;
	struct weir_resolver *v;
	uint16_t port;
	int good, good6;
	struct hole holes[HOLES_MAX];
	int n_holes;
	struct weir_resolve_address tried[32];
	struct weir_connect_report report;
};

static int listen_at(const char *text, uint16_t *port, int backlog)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(*port),
		.sin_addr.s_addr = inet_addr(text),
	};
	socklen_t len = sizeof(in);
	int fd;

	assert_int_equal(weir_listen(&fd, (void *)&in, len, backlog, 0), 0);
	assert_int_equal(getsockname(fd, (void *)&in, &len), 0);
	*port = ntohs(in.sin_port);
	return fd;
}

static int listen_at6(uint16_t port)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	int fd;

	return weir_listen(&fd, (void *)&in6, sizeof(in6), 8, 0) ? -1 : fd;
}

static void dig_hole(struct fixture *f)
{
	struct hole *h = &f->holes[f->n_holes++];
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(f->port),
	};
	char text[32];

	snprintf(text, sizeof(text), "127.0.1.%d", f->n_holes);
	h->fd = listen_at(text, &f->port, 0);
	h->in = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	in.sin_addr.s_addr = inet_addr(text);
	assert_int_equal(connect(h->in, (void *)&in, sizeof(in)), 0);
}

static void begin(void **state, struct fixture *f)
{
	struct weir_resolver_opts o = {
		.size = sizeof(o), .source = source_of(state),
		.search = "", .tries = 1, .timeout_ns = WEIR_SEC,
		.workers_max = 4, .table = table,
	};

	*f = (struct fixture){ .r = start_reactor(state) };
	f->good = listen_at("127.0.0.1", &f->port, 64);
	f->good6 = listen_at6(f->port);
	for (int i = 0; i < 10; i++)
		dig_hole(f);
	dns_start(&f->d, f->r, names, N_OF(names));
	o.servers = f->d.server;
	assert_int_equal(weir_resolver_create(&f->v, f->r, &o), 0);
	f->report = (struct weir_connect_report){
		.size = sizeof(f->report), .addresses = f->tried,
		.addresses_max = N_OF(f->tried),
	};
}

static void finish_all(struct fixture *f)
{
	UNTIL(f->r, !stats_of(f->v).lingering);
	assert_int_equal(stats_of(f->v).sockets, 0);
	assert_int_equal(weir_resolver_destroy(f->v), 0);
	dns_stop(&f->d);
	close(f->good);
	if (f->good6 >= 0)
		close(f->good6);
	for (int i = 0; i < f->n_holes; i++) {
		close(f->holes[i].in);
		close(f->holes[i].fd);
	}
}

static int start_with(struct fixture *f, struct rec *rec, const char *name,
		      struct weir_connect_opts o)
{
	struct weir_resolve_query q = {
		.size = sizeof(q), .name = name, .port = f->port,
	};

	o.size = sizeof(o);
	if (!o.stagger_ns)
		o.stagger_ns = 10 * WEIR_MSEC;
	return weir_connect_name(f->v, &rec->op, &q, &o, &f->report);
}

static int start(struct fixture *f, struct rec *rec, const char *name)
{
	return start_with(f, rec, name, (struct weir_connect_opts){ 0 });
}

/* Ends with the errno, or 0 and the socket is connected to @peer, and closed. */
static int64_t connect_to(struct fixture *f, const char *name, const char *peer)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char text[INET6_ADDRSTRLEN];
	struct rec rec;
	int64_t res;

	rec_init(&rec);
	STARTS(start(f, &rec, name));
	res = finish(f->r, &rec);
	if (res < 0)
		return res;
	assert_int_equal(getpeername((int)res, (void *)&sa, &len), 0);
	inet_ntop(sa.ss_family, sa.ss_family == AF_INET ?
		  (void *)&((struct sockaddr_in *)&sa)->sin_addr :
		  (void *)&((struct sockaddr_in6 *)&sa)->sin6_addr,
		  text, sizeof(text));
	assert_string_equal(text, peer);
	assert_int_equal(fcntl((int)res, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(fcntl((int)res, F_GETFD), FD_CLOEXEC);
	close((int)res);
	return 0;
}

static void connect_reaches_names_and_addresses(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(connect_to(&f, "good.test", "127.0.0.1"), 0);
	assert_int_equal(f.report.n_addresses, 1);
	assert_int_equal(f.report.connected, 0);
	assert_int_equal(f.tried[0].err, 0);
	assert_int_equal(f.report.err_in6, -ENODATA);
	assert_int_equal(connect_to(&f, "127.0.0.1", "127.0.0.1"), 0);
	assert_int_equal(f.report.err_in6, 0);
	assert_int_equal(stats_of(f.v).connected, 2);
	finish_all(&f);
}

static void ipv6_is_tried_first(void **state)
{
	struct fixture f;
	bool is_there;

	begin(state, &f);
	is_there = f.good6 >= 0;
	if (is_there) {
		assert_int_equal(connect_to(&f, "both.test", "::1"), 0);
		assert_int_equal(f.report.n_addresses, 1);
		/* And does not wait for IPv4. */
		assert_int_equal(connect_to(&f, "late4.test", "::1"), 0);
		assert_int_equal(connect_to(&f, "::1", "::1"), 0);
	}
	finish_all(&f);
	if (!is_there)
		skip_because("there is no IPv6");
}

static void address_that_refuses_is_followed_by_the_next_at_once(void **state)
{
	struct weir_connect_opts o = { .stagger_ns = 3600 * WEIR_SEC };
	struct fixture f;
	struct rec rec;
	int64_t res;

	begin(state, &f);
	rec_init(&rec);
	STARTS(start_with(&f, &rec, "refuses.test", o));
	res = finish(f.r, &rec);
	assert_true(res >= 0);
	close((int)res);
	assert_int_equal(f.report.n_addresses, 3);
	assert_int_equal(f.report.connected, 2);
	assert_int_equal(f.tried[0].err, -ECONNREFUSED);
	assert_int_equal(f.tried[1].err, -ECONNREFUSED);
	finish_all(&f);
}

static void address_that_does_not_answer_is_overtaken(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(connect_to(&f, "hole.test", "127.0.0.1"), 0);
	assert_int_equal(f.report.n_addresses, 2);
	assert_int_equal(f.report.connected, 1);
	assert_int_equal(f.tried[0].err, -EINPROGRESS);
	assert_int_equal(f.tried[1].err, 0);
	finish_all(&f);
}

static void attempts_in_flight_are_bounded(void **state)
{
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	rec_init(&rec);
	STARTS(start(&f, &rec, "holes.test"));
	UNTIL(f.r, stats_of(f.v).attempts == WEIR_CONNECT_ATTEMPTS_MAX);
	/* There is no ninth attempt while eight are in flight. */
	for (int i = 0; i < 5; i++)
		weir_reactor_turn(f.r, 20 * WEIR_MSEC);
	assert_int_equal(stats_of(f.v).attempts, WEIR_CONNECT_ATTEMPTS_MAX);
	weir_op_cancel(&rec.op);
	assert_int_equal(finish(f.r, &rec), -ECANCELED);
	assert_int_equal(f.report.n_addresses, WEIR_CONNECT_ATTEMPTS_MAX);
	assert_int_equal(f.report.connected, UINT32_MAX);
	finish_all(&f);
}

static void silence_for_ipv6_does_not_hold_up_ipv4(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(connect_to(&f, "silent6.test", "127.0.0.1"), 0);
	assert_int_equal(f.report.err_in6, -ECANCELED);
	finish_all(&f);
}

static void addresses_that_come_late_are_tried(void **state)
{
	struct fixture f;
	struct rec rec;
	bool is_there;
	int64_t res;

	begin(state, &f);
	is_there = f.good6 >= 0;
	rec_init(&rec);
	STARTS(start(&f, &rec, "late6.test"));
	/* IPv4 has failed, and it waits. */
	UNTIL(f.r, stats_of(f.v).attempts == 1 && f.d.n_held == 1);
	some_turns(f.r, 20);
	assert_int_equal(rec.calls, 0);
	dns_release(&f.d);
	res = finish(f.r, &rec);
	assert_int_equal(f.report.n_addresses, 2);
	if (is_there) {
		assert_true(res >= 0);
		assert_int_equal(f.report.connected, 1);
		close((int)res);
	}
	finish_all(&f);
	if (!is_there)
		skip_because("there is no IPv6");
}

static void failure_is_that_of_the_last_attempt(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(connect_to(&f, "dead.test", NULL), -ECONNREFUSED);
	assert_int_equal(f.report.n_addresses, 2);
	assert_int_equal(f.report.connected, UINT32_MAX);
	assert_int_equal(f.tried[1].err, -ECONNREFUSED);
	finish_all(&f);
}

static void failure_without_addresses_is_that_of_the_lookup(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(connect_to(&f, "nobody.test", NULL), -ENOENT);
	assert_int_equal(f.report.err_in, -ENOENT);
	assert_int_equal(connect_to(&f, "empty.test", NULL), -ENODATA);
	assert_int_equal(connect_to(&f, "broken.test", NULL), -EREMOTEIO);
	assert_int_equal(connect_to(&f, "silent.test", NULL), -ETIMEDOUT);
	assert_int_equal(f.report.n_addresses, 0);
	finish_all(&f);
}

static void deadline_ends_connect_at_each_stage(void **state)
{
	static const char *const stages[] = {
		"held.test", "silent6.test", "only-holes.test", "holes.test",
	};
	struct weir_connect_opts o = { .delay_ns = 3600 * WEIR_SEC };
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	for (size_t i = 0; i < N_OF(stages); i++) {
		rec_init(&rec);
		weir_op_set_deadline(&rec.op, weir_reactor_now(f.r) +
				     35 * WEIR_MSEC);
		STARTS(start_with(&f, &rec, stages[i], o));
		assert_int_equal(finish(f.r, &rec), -ETIMEDOUT);
		assert_int_equal(weir_op_is_late(&rec.op), 1);
	}
	dns_release(&f.d);
	finish_all(&f);
}

static void cancel_ends_connect_at_each_stage(void **state)
{
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	for (int stage = 0; stage < 4; stage++) {
		uint64_t attempts = stats_of(f.v).attempts;

		rec_init(&rec);
		STARTS(start(&f, &rec, stage < 2 ? "held.test" :
			     "only-holes.test"));
		if (stage == 1)
			UNTIL(f.r, f.d.n_held > 0);
		if (stage == 2)
			UNTIL(f.r, stats_of(f.v).attempts == attempts + 1);
		if (stage == 3)
			UNTIL(f.r, stats_of(f.v).attempts == attempts + 2);
		assert_int_equal(weir_op_cancel(&rec.op), 0);
		assert_int_equal(weir_op_cancel(&rec.op), 0);
		assert_int_equal(finish(f.r, &rec), -ECANCELED);
		dns_release(&f.d);
	}
	finish_all(&f);
}

struct preparing {
	struct rec rec;
	int calls, cancels, err;
};

static int prepare(int fd, const struct sockaddr *addr, void *arg)
{
	struct preparing *p = arg;

	assert_true(fd >= 0);
	assert_int_equal(addr->sa_family, AF_INET);
	p->calls++;
	if (p->cancels)
		weir_op_cancel(&p->rec.op);
	return p->err;
}

static void prepare_may_refuse_an_address_and_cancel(void **state)
{
	struct preparing p = { .err = -EACCES };
	struct weir_connect_opts o = { .prepare = prepare, .arg = &p };
	struct fixture f;
	int64_t res;

	begin(state, &f);
	rec_init(&p.rec);
	STARTS(start_with(&f, &p.rec, "dead.test", o));
	assert_int_equal(finish(f.r, &p.rec), -EACCES);
	assert_int_equal(p.calls, 2);
	assert_int_equal(f.tried[0].err, -EACCES);
	p.err = 0;
	rec_init(&p.rec);
	STARTS(start_with(&f, &p.rec, "good.test", o));
	res = finish(f.r, &p.rec);
	assert_true(res >= 0);
	close((int)res);
	p.cancels = 1;
	rec_init(&p.rec);
	STARTS(start_with(&f, &p.rec, "good.test", o));
	assert_int_equal(finish(f.r, &p.rec), -ECANCELED);
	finish_all(&f);
}

static void connect_that_is_wrong_is_refused(void **state)
{
	struct weir_resolve_query q = { .size = sizeof(q), .name = "good.test" };
	struct weir_connect_opts o = { .size = sizeof(o) };
	struct weir_connect_report report = { .addresses_max = 1 };
	struct { struct weir_connect_opts o; uint64_t more; } newer = {
		{ .size = sizeof(newer) }, 1 };
	struct fixture f;
	struct rec rec;
	char name[300];

	begin(state, &f);
	rec_init(&rec);
	assert_int_equal(weir_connect_name(f.v, &rec.op, &q, &o, NULL), -EINVAL);
	assert_starts_with(weir_why(), "weir_connect_name: no port");
	q.port = f.port;
	assert_int_equal(weir_connect_name(NULL, &rec.op, &q, &o, NULL),
			 -EINVAL);
	assert_int_equal(weir_connect_name(f.v, &rec.op, NULL, &o, NULL),
			 -EINVAL);
	o.stagger_ns = 9 * WEIR_MSEC;
	assert_int_equal(weir_connect_name(f.v, &rec.op, &q, &o, NULL), -EINVAL);
	o.stagger_ns = 0;
	assert_int_equal(weir_connect_name(f.v, &rec.op, &q, &o, &report),
			 -EINVAL);
	report.size = sizeof(report);
	assert_int_equal(weir_connect_name(f.v, &rec.op, &q, &o, &report),
			 -EINVAL);
	assert_int_equal(weir_connect_name(f.v, &rec.op, &q, &newer.o, NULL),
			 -E2BIG);
	memset(name, 'a', sizeof(name));
	name[299] = 0;
	q.name = name;
	assert_int_equal(weir_connect_name(f.v, &rec.op, &q, &o, NULL),
			 -ENAMETOOLONG);
	q.name = "127.0.0.1";
	q.family = AF_INET6;
	rec_init(&rec);
	STARTS(weir_connect_name(f.v, &rec.op, &q, &o, NULL));
	assert_int_equal(finish(f.r, &rec), -ENODATA);
	rec.op.fn = NULL;
	assert_int_equal(weir_connect_name(f.v, &rec.op, &q, &o, NULL), -EINVAL);
	finish_all(&f);
}

static void connects_in_flight_are_bounded(void **state)
{
	struct weir_resolver_opts o = {
		.size = sizeof(o), .source = source_of(state),
		.connects_max = 1,
	};
	struct weir_resolve_query q = { .size = sizeof(q) };
	struct weir_resolver *v;
	struct rec one, two;
	struct fixture f;

	begin(state, &f);
	assert_int_equal(weir_resolver_create(&v, f.r, &o), 0);
	rec_init(&one);
	rec_init(&two);
	q.name = "127.0.1.1";
	q.port = f.port;
	STARTS(weir_connect_name(v, &one.op, &q, NULL, NULL));
	assert_int_equal(weir_connect_name(v, &two.op, &q, NULL, NULL),
			 -EAGAIN);
	assert_int_equal(weir_resolver_destroy(v), -EBUSY);
	weir_op_cancel(&one.op);
	assert_int_equal(finish(f.r, &one), -ECANCELED);
	assert_int_equal(weir_resolver_destroy(v), 0);
	finish_all(&f);
}

static void connects_have_the_lookups_that_they_need(void **state)
{
	struct weir_resolver_opts o = {
		.size = sizeof(o), .source = source_of(state),
		.search = "", .tries = 1, .timeout_ns = WEIR_SEC,
	};
	struct weir_resolver *own;
	struct rec recs[64];
	struct fixture f;

	begin(state, &f);
	own = f.v;
	o.servers = f.d.server;
	assert_int_equal(weir_resolver_create(&f.v, f.r, &o), 0);
	f.report.addresses_max = 0;
	for (size_t i = 0; i < N_OF(recs); i++) {
		rec_init(&recs[i]);
		STARTS(start(&f, &recs[i], "silent.test"));
	}
	assert_int_equal(stats_of(f.v).in_flight, 2 * N_OF(recs));
	for (size_t i = 0; i < N_OF(recs); i++)
		assert_int_equal(weir_op_cancel(&recs[i].op), 0);
	for (size_t i = 0; i < N_OF(recs); i++) {
		UNTIL(f.r, recs[i].calls);
		assert_int_equal(recs[i].res, -ECANCELED);
	}
	UNTIL(f.r, !stats_of(f.v).lingering);
	assert_int_equal(weir_resolver_destroy(f.v), 0);
	/* And do not start without. */
	o.lookups_max = 3;
	assert_int_equal(weir_resolver_create(&f.v, f.r, &o), 0);
	rec_init(&recs[0]);
	rec_init(&recs[1]);
	STARTS(start(&f, &recs[0], "silent.test"));
	assert_int_equal(start(&f, &recs[1], "silent.test"), -EAGAIN);
	assert_int_equal(connect_to(&f, "127.0.0.1", "127.0.0.1"), 0);
	weir_op_cancel(&recs[0].op);
	assert_int_equal(finish(f.r, &recs[0]), -ECANCELED);
	UNTIL(f.r, !stats_of(f.v).lingering);
	assert_int_equal(weir_resolver_destroy(f.v), 0);
	f.v = own;
	finish_all(&f);
}

static void stop_of_reactor_ends_connects(void **state)
{
	static const char *const stages[] = {
		"held.test", "only-holes.test", "good.test",
	};
	struct rec recs[N_OF(stages)];
	struct fixture f;

	begin(state, &f);
	f.report.addresses_max = 0;
	for (size_t i = 0; i < N_OF(stages); i++) {
		rec_init(&recs[i]);
		STARTS(start(&f, &recs[i], stages[i]));
	}
	UNTIL(f.r, stats_of(f.v).attempts > 0);
	weir_reactor_stop(f.r);
	assert_int_equal(weir_reactor_run(f.r), 0);
	for (size_t i = 0; i < N_OF(stages); i++) {
		assert_int_equal(recs[i].calls, 1);
		if (recs[i].res >= 0)
			close((int)recs[i].res);
	}
	rec_init(&recs[0]);
	assert_int_equal(start(&f, &recs[0], "good.test"), -ESHUTDOWN);
	finish_all(&f);
}

int main(void)
{
	static const struct harness_case cases[] = {
		BOTH(connect_reaches_names_and_addresses),
		BOTH(ipv6_is_tried_first),
		BOTH(address_that_refuses_is_followed_by_the_next_at_once),
		BOTH(address_that_does_not_answer_is_overtaken),
		BOTH(attempts_in_flight_are_bounded),
		BOTH(silence_for_ipv6_does_not_hold_up_ipv4),
		BOTH(addresses_that_come_late_are_tried),
		BOTH(failure_is_that_of_the_last_attempt),
		BOTH(failure_without_addresses_is_that_of_the_lookup),
		BOTH(deadline_ends_connect_at_each_stage),
		BOTH(cancel_ends_connect_at_each_stage),
		BOTH(prepare_may_refuse_an_address_and_cancel),
		BOTH(connect_that_is_wrong_is_refused),
		BOTH(connects_in_flight_are_bounded),
		BOTH(connects_have_the_lookups_that_they_need),
		BOTH(stop_of_reactor_ends_connects),
	};

	return harness_run(cases, N_OF(cases));
}
