/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Lookups, as <weir/resolve/resolve.h> promises them, over both sources: c-ares, and
 * getaddrinfo on workers.
 */

#include "tests/support/harness.h"

#include <netinet/in.h>
#include <sys/resource.h>

#include <weir/resolve/resolve.h>

#include "tests/support/dns-fixture.h"
#include "tests/support/resolve-fixture.h"

#define MANY "many.test"

static const struct dns_name names[] = {
	{ .name = "one.test", .addresses = "192.0.2.1", .ttl = 77 },
	{ .name = "both.test", .addresses = "192.0.2.1 192.0.2.2 2001:db8::1 2001:db8::2", .ttl = 60 },
	{ .name = "twice.test", .addresses = "192.0.2.1 192.0.2.1 192.0.2.1" },
	{ .name = MANY, .addresses = "192.0.2.9 192.0.2.8 192.0.2.7 192.0.2.6 192.0.2.5 192.0.2.4" },
	{ .name = "empty.test", .addresses = "" },
	{ .name = "six.test", .addresses = "2001:db8::6" },
	{ .name = "broken.test", .rcode = 2 },
	{ .name = "refused.test", .rcode = 5 },
	{ .name = "garbage.test", .flags = DNS_GARBAGE },
	{ .name = "few.test", .addresses = "192.0.2.1", .flags = DNS_FEW },
	{ .name = "silent.test", .flags = DNS_SILENT_A | DNS_SILENT_AAAA },
	{ .name = "part.test", .addresses = "192.0.2.1", .flags = DNS_SILENT_AAAA },
	{ .name = "large.test", .addresses = "192.0.2.1 192.0.2.2", .flags = DNS_TRUNCATED },
	{ .name = "lies.test", .addresses = "192.0.2.1 2001:db8::1", .flags = DNS_LIES },
	{ .name = "held.test", .addresses = "192.0.2.1", .flags = DNS_HOLD_A | DNS_HOLD_AAAA },
	{ .name = "host.inside.test", .addresses = "192.0.2.3" },
};

/* A server and a resolver that asks it. */
struct fixture {
	struct weir_reactor *r;
	struct dns d;
	struct weir_resolver *v;
	struct weir_resolve_address at[64];
};

static void begin_with(void **state, struct fixture *f,
		       struct weir_resolver_opts o)
{
	const struct world *w = *state;

	f->r = w->r ? w->r : start_reactor(state);
	dns_start(&f->d, f->r, names, N_OF(names));
	o.size = sizeof(o);
	o.source = source_of(state);
	o.servers = f->d.server;
	if (!o.search)
		o.search = "";
	assert_int_equal(weir_resolver_create(&f->v, f->r, &o), 0);
}

static void begin(void **state, struct fixture *f)
{
	begin_with(state, f, (struct weir_resolver_opts){
		.tries = 1, .timeout_ns = WEIR_SEC });
}

static void finish_all(struct fixture *f)
{
	assert_int_equal(weir_resolver_destroy(f->v), 0);
	dns_stop(&f->d);
}

static struct weir_resolve_query query_of(const char *name, uint32_t family)
{
	return (struct weir_resolve_query){
		.size = sizeof(struct weir_resolve_query), .name = name,
		.family = family, .port = 80,
	};
}

static int start(struct fixture *f, struct rec *rec, const char *name,
		 uint32_t family)
{
	struct weir_resolve_query q = query_of(name, family);

	return weir_resolve(f->v, &rec->op, &q, f->at, N_OF(f->at));
}

/* The result of one of several, which may have ended while another was waited for. */
static int64_t result_of(struct fixture *f, struct rec *rec)
{
	UNTIL(f->r, rec->calls);
	assert_int_equal(rec->calls, 1);
	return rec->res;
}

static int64_t look_up(struct fixture *f, const char *name, uint32_t family)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(start(f, &rec, name, family));
	return finish(f->r, &rec);
}

/* All addresses that were found, as text. */
static const char *texts(const struct fixture *f, int64_t n)
{
	static char text[64 * (INET6_ADDRSTRLEN + 1)];
	char one[INET6_ADDRSTRLEN];

	text[0] = 0;
	for (int64_t i = 0; i < n; i++) {
		const void *addr = f->at[i].addr.sa.sa_family == AF_INET ?
				   (const void *)&f->at[i].addr.in.sin_addr :
				   (const void *)&f->at[i].addr.in6.sin6_addr;

		assert_non_null(inet_ntop(f->at[i].addr.sa.sa_family, addr, one,
					  sizeof(one)));
		strcat(text, i ? " " : "");
		strcat(text, one);
	}
	return text;
}

static void lookup_finds_address_port_and_time_to_live(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(look_up(&f, "one.test", AF_UNSPEC), 1);
	assert_string_equal(texts(&f, 1), "192.0.2.1");
	assert_int_equal(ntohs(f.at[0].addr.in.sin_port), 80);
	assert_int_equal(f.at[0].len, sizeof(struct sockaddr_in));
	assert_int_equal(f.at[0].ttl, source_of(state) == WEIR_RESOLVE_CARES ?
			 77 : UINT32_MAX);
	assert_int_equal(look_up(&f, "ONE.Test.", AF_UNSPEC), 1);
	assert_int_equal(stats_of(f.v).found, 2);
	assert_int_equal(stats_of(f.v).sockets, 0);
	finish_all(&f);
}

static void lookup_has_addresses_of_asked_families_once_each(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(look_up(&f, "both.test", AF_UNSPEC), 4);
	assert_int_equal(look_up(&f, "both.test", AF_INET), 2);
	assert_int_equal(look_up(&f, "both.test", AF_INET6), 2);
	assert_non_null(strstr(texts(&f, 2), "2001:db8::2"));
	assert_int_equal(look_up(&f, "twice.test", AF_UNSPEC), 1);
	/* None is better than another: the server's order, but for glibc's own. */
	assert_int_equal(look_up(&f, MANY, AF_INET), 6);
	if (source_of(state) == WEIR_RESOLVE_CARES)
		assert_string_equal(texts(&f, 6), "192.0.2.9 192.0.2.8 192.0.2.7 "
				    "192.0.2.6 192.0.2.5 192.0.2.4");
	finish_all(&f);
}

static void lookup_stores_no_more_than_fits(void **state)
{
	struct weir_resolve_query q = query_of(MANY, AF_INET);
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	memset(f.at, 0x5a, sizeof(f.at));
	rec_init(&rec);
	STARTS(weir_resolve(f.v, &rec.op, &q, f.at, 2));
	assert_int_equal(finish(f.r, &rec), 2);
	for (size_t i = 0; i < sizeof(f.at[2]); i++)
		assert_int_equal(((unsigned char *)&f.at[2])[i], 0x5a);
	finish_all(&f);
}

static void failures_of_lookups_are_distinct(void **state)
{
	struct fixture f;

	begin(state, &f);
	memset(f.at, 0x5a, sizeof(f.at));
	assert_int_equal(look_up(&f, "nobody.test", AF_UNSPEC), -ENOENT);
	assert_int_equal(look_up(&f, "empty.test", AF_UNSPEC), -ENODATA);
	assert_int_equal(look_up(&f, "six.test", AF_INET), -ENODATA);
	assert_int_equal(look_up(&f, "broken.test", AF_INET), -EREMOTEIO);
	assert_int_equal(look_up(&f, "refused.test", AF_INET), -EREMOTEIO);
	assert_int_equal(look_up(&f, "silent.test", AF_INET), -ETIMEDOUT);
	assert_int_equal(((unsigned char *)f.at)[0], 0x5a);
	finish_all(&f);
	assert_string_equal(weir_resolve_error(-ENOENT),
			    "the name does not exist");
	assert_string_equal(weir_resolve_error(-EPIPE), "Broken pipe");
	assert_string_equal(weir_resolve_error(3), "no error");
	assert_string_equal(weir_resolve_error(INT64_MIN), "unknown error");
}

static void answers_that_are_none_fail_the_lookup(void **state)
{
	struct fixture f;
	int64_t res;

	begin(state, &f);
	res = look_up(&f, "garbage.test", AF_INET);
	assert_true(res == -EREMOTEIO || res == -ETIMEDOUT || res == -ENODATA);
	/* What it has may count, or not. */
	res = look_up(&f, "few.test", AF_INET);
	assert_true(res == 1 || res == -EREMOTEIO || res == -ETIMEDOUT ||
		    res == -ENODATA);
	assert_int_equal(stats_of(f.v).sockets, 0);
	finish_all(&f);
}

static void truncated_answer_is_asked_for_by_tcp(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(look_up(&f, "large.test", AF_INET), 2);
	assert_true(f.d.by_tcp > 0);
	assert_int_equal(stats_of(f.v).sockets, 0);
	finish_all(&f);
}

static void answers_to_other_queries_do_not_count(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(look_up(&f, "lies.test", AF_INET), 1);
	assert_string_equal(texts(&f, 1), "192.0.2.1");
	finish_all(&f);
}

static void search_domains_are_tried_unless_a_dot_ends_the_name(void **state)
{
	struct fixture f;

	begin_with(state, &f, (struct weir_resolver_opts){
		.tries = 1, .search = "outside.test inside.test" });
	assert_int_equal(look_up(&f, "host", AF_INET), 1);
	assert_string_equal(texts(&f, 1), "192.0.2.3");
	assert_int_equal(look_up(&f, "host.", AF_INET), -ENOENT);
	finish_all(&f);
	begin(state, &f);
	assert_int_equal(look_up(&f, "host", AF_INET), -ENOENT);
	finish_all(&f);
}

/* A line of it that c-ares does not know by itself, as it does localhost. */
static bool find_host(char *addr, char *name)
{
	struct in_addr in;
	char line[256];
	FILE *hosts = fopen("/etc/hosts", "re");
	bool found = false;

	while (hosts && !found && fgets(line, sizeof(line), hosts))
		found = sscanf(line, "%31s %127[^ \t\n#]", addr, name) == 2 &&
			inet_pton(AF_INET, addr, &in) == 1 &&
			!strstr(name, "localhost");
	if (hosts)
		fclose(hosts);
	return found;
}

static void hosts_file_is_read(void **state)
{
	char addr[32], name[128];
	struct fixture f;
	int64_t n;

	if (!find_host(addr, name))
		skip_because("/etc/hosts has no name but localhost");
	begin(state, &f);
	n = look_up(&f, name, AF_INET);
	assert_true(n >= 1);
	assert_non_null(strstr(texts(&f, n), addr));
	assert_int_equal(f.d.queries, 0);
	finish_all(&f);
}

/* Also in the family of which the hosts file says nothing.  (Memory that c-ares loses
 * there is seen by ASan and valgrind.) */
static void localhost_is_this_machine(void **state)
{
	static const char *const local[] = { "localhost", "localhost.",
					     "a.localhost", "a.localhost." };
	struct fixture f;
	int64_t n;

	begin(state, &f);
	for (size_t i = 0; i < N_OF(local); i++) {
		n = look_up(&f, local[i], AF_INET);
		if (n < 1 || !strstr(texts(&f, n), "127."))
			fail_msg("%s: %d", local[i], (int)n);
		/* About names below it c-ares asks, when the hosts file has none. */
		assert_true(!f.d.queries || i > 1);
		if (source_of(state) != WEIR_RESOLVE_CARES)
			break;
	}
	f.d.queries = 0;
	/* getaddrinfo() asks about it. */
	if (source_of(state) == WEIR_RESOLVE_CARES) {
		n = look_up(&f, "localhost", AF_INET6);
		assert_true(n >= 1);
		assert_non_null(strstr(texts(&f, n), "::1"));
	}
	assert_int_equal(f.d.queries, 0);
	finish_all(&f);
}

static void numeric_addresses_are_not_looked_up(void **state)
{
	struct fixture f;

	begin(state, &f);
	assert_int_equal(look_up(&f, "192.0.2.55", AF_UNSPEC), 1);
	assert_string_equal(texts(&f, 1), "192.0.2.55");
	assert_int_equal(ntohs(f.at[0].addr.in.sin_port), 80);
	assert_int_equal(look_up(&f, "::1", AF_UNSPEC), 1);
	assert_string_equal(texts(&f, 1), "::1");
	assert_int_equal(f.at[0].len, sizeof(struct sockaddr_in6));
	assert_int_equal(look_up(&f, "fe80::1%lo", AF_UNSPEC), 1);
	assert_true(f.at[0].addr.in6.sin6_scope_id > 0);
	assert_int_equal(look_up(&f, "::1", AF_INET), -ENODATA);
	assert_int_equal(look_up(&f, "192.0.2.1", AF_INET6), -ENODATA);
	assert_int_equal(f.d.queries, 0);
	assert_int_equal(stats_of(f.v).local, 5);
	finish_all(&f);
}

static void table_is_looked_in_first(void **state)
{
	struct fixture f;

	begin_with(state, &f, (struct weir_resolver_opts){
		.table = "# ours\n192.0.2.40 one.test alias  # two names\n"
			 "2001:db8::40\tone.test\n" });
	assert_int_equal(look_up(&f, "one.test", AF_UNSPEC), 2);
	assert_string_equal(texts(&f, 2), "192.0.2.40 2001:db8::40");
	assert_int_equal(look_up(&f, "Alias.", AF_UNSPEC), 1);
	assert_int_equal(look_up(&f, "alias", AF_INET6), -ENODATA);
	assert_int_equal(f.d.queries, 0);
	assert_int_equal(look_up(&f, "both.test", AF_INET), 2);
	finish_all(&f);
}

static void services_are_ports_or_names(void **state)
{
	struct weir_resolve_query q = query_of("192.0.2.1", AF_INET);
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	q.service = "8080";
	rec_init(&rec);
	STARTS(weir_resolve(f.v, &rec.op, &q, f.at, 1));
	assert_int_equal(finish(f.r, &rec), 1);
	assert_int_equal(ntohs(f.at[0].addr.in.sin_port), 8080);
	q.service = "http";
	if (weir_resolve(f.v, &rec.op, &q, f.at, 1)) {
		finish_all(&f);
		skip_because("there is no services(5)");
	}
	rec.calls = 0;
	assert_int_equal(finish(f.r, &rec), 1);
	assert_int_equal(ntohs(f.at[0].addr.in.sin_port), 80);
	finish_all(&f);
}

static void query_that_is_none_is_refused(void **state)
{
	static const char *const bad[] = {
		"", ".", "..", "a..b", ".a", "a b", "a\n", "\xc3\xa4.test",
		"127.1", "0x7f.0.0.1", "1.2.3.4.5", "10.0.0.256", "a.0x10",
		"a.0X10",
		"2130706433",
		"abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij1234",
	};
	struct weir_resolve_query q;
	struct fixture f;
	struct rec rec;
	char name[300];
	size_t i;

	begin(state, &f);
	rec_init(&rec);
	for (i = 0; i < N_OF(bad); i++) {
		q = query_of(bad[i], 0);
		assert_int_equal(start(&f, &rec, bad[i], 0), -EINVAL);
		assert_int_equal(weir_resolve_check(&q), -EINVAL);
	}
	for (i = 0; i < sizeof(name); i++)
		name[i] = i % 10 == 9 ? '.' : 'a';
	name[254] = 0;
	assert_int_equal(start(&f, &rec, name, 0), -ENAMETOOLONG);
	assert_starts_with(weir_why(), "weir_resolve: the name has 254");
	q = query_of(name, 0);
	assert_int_equal(weir_resolve_check(&q), -ENAMETOOLONG);
	name[253] = 0;
	assert_int_equal(weir_resolve_check(&q), 0);
	assert_int_equal(look_up(&f, name, 0), -ENOENT);

	assert_int_equal(start(&f, &rec, NULL, 0), -EINVAL);
	assert_int_equal(start(&f, &rec, "one.test", AF_UNIX), -EINVAL);
	q = query_of("one.test", 0);
	assert_int_equal(weir_resolve(f.v, &rec.op, &q, NULL, 1), -EINVAL);
	assert_int_equal(weir_resolve(f.v, &rec.op, &q, f.at, 0), -EINVAL);
	assert_int_equal(weir_resolve(f.v, &rec.op, NULL, f.at, 1), -EINVAL);
	q.port = 65536;
	assert_int_equal(weir_resolve(f.v, &rec.op, &q, f.at, 1), -EINVAL);
	q.port = 0;
	q.service = "70000";
	assert_int_equal(weir_resolve(f.v, &rec.op, &q, f.at, 1), -EINVAL);
	q.service = "no-such-service";
	assert_int_equal(weir_resolve(f.v, &rec.op, &q, f.at, 1), -EINVAL);
	assert_starts_with(weir_why(), "weir_resolve: there is no service");
	q.service = NULL;
	q.flags = 1u << 30;
	assert_int_equal(weir_resolve(f.v, &rec.op, &q, f.at, 1), -EINVAL);
	q.flags = WEIR_RESOLVE_NUMERIC;
	assert_int_equal(weir_resolve(f.v, &rec.op, &q, f.at, 1), -EINVAL);
	rec.op.fn = NULL;
	assert_int_equal(start(&f, &rec, "one.test", 0), -EINVAL);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(stats_of(f.v).in_flight, 0);
	finish_all(&f);
}

static void newer_options_are_refused(void **state)
{
	struct { struct weir_resolve_query q; uint64_t more; } q = {
		{ .size = sizeof(q), .name = "192.0.2.1" }, 1 };
	struct { struct weir_resolver_opts o; uint64_t more; } o = {
		{ .size = sizeof(o) }, 1 };
	struct weir_resolver *v = (void *)0x77;
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	rec_init(&rec);
	assert_int_equal(weir_resolve(f.v, &rec.op, &q.q, f.at, 1), -E2BIG);
	assert_int_equal(weir_resolve_check(&q.q), -E2BIG);
	assert_int_equal(weir_resolver_create(&v, f.r, &o.o), -E2BIG);
	q.more = o.more = 0;
	STARTS(weir_resolve(f.v, &rec.op, &q.q, f.at, 1));
	assert_int_equal(finish(f.r, &rec), 1);
	assert_ptr_equal(v, (void *)0x77);
	assert_int_equal(weir_resolver_create(&v, f.r, &o.o), 0);
	assert_int_equal(weir_resolver_destroy(v), 0);
	finish_all(&f);
}

static void bad_options_are_refused(void **state)
{
	static const struct weir_resolver_opts bad[] = {
		{ .source = 3 }, { .reserved = 1 }, { .lookups_max = 4097 },
		{ .connects_max = 4097 }, { .workers_max = 257 },
		{ .tries = 17 }, { .timeout_ns = 1 },
		{ .timeout_ns = 3601 * WEIR_SEC },
		{ .table = "192.0.2.1\n" }, { .table = "nonsense name\n" },
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_resolver_stats s = { .size = 4 };
	struct weir_resolver_opts o;
	struct weir_resolver *v = NULL;
	int err;

	for (size_t i = 0; i < N_OF(bad); i++) {
		o = bad[i];
		assert_int_equal(weir_resolver_create(&v, r, &o), -EINVAL);
		o.size = sizeof(o);
		assert_int_equal(weir_resolver_create(&v, r, &o), -EINVAL);
	}
	o = (struct weir_resolver_opts){
		.size = sizeof(o), .source = source_of(state),
		.servers = "no address",
	};
	err = weir_resolver_create(&v, r, &o);
	assert_true(err == -EINVAL || err == -EOPNOTSUPP);
	assert_int_equal(weir_resolver_create(NULL, r, NULL), -EINVAL);
	assert_int_equal(weir_resolver_create(&v, NULL, NULL), -EINVAL);
	assert_null(v);
	assert_int_equal(weir_resolver_destroy(NULL), 0);
	o.servers = NULL;
	assert_int_equal(weir_resolver_create(&v, r, &o), 0);
	assert_int_equal(weir_resolver_stats(v, &s), -EINVAL);
	assert_starts_with(weir_resolver_source(v), o.source ==
			   WEIR_RESOLVE_CARES ? "c-ares " : "getaddrinfo");
	assert_int_equal(weir_resolver_destroy(v), 0);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_resolver_create(&v, r, &o), -ESHUTDOWN);
}

static void getaddrinfo_refuses_servers_that_it_cannot_ask(void **state)
{
	static const char *const bad[] = {
		"::1", "[::1]:53", "127.0.0.1:0", "127.0.0.1:x", "localhost",
		"127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4", "",
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_resolver_opts o = { .size = sizeof(o), .source = libc };
	struct weir_resolver *v;

	for (size_t i = 0; i < N_OF(bad); i++) {
		o.servers = bad[i];
		assert_int_equal(weir_resolver_create(&v, r, &o), -EOPNOTSUPP);
	}
	o.servers = "127.0.0.1,127.0.0.2:5353";
	assert_int_equal(weir_resolver_create(&v, r, &o), 0);
	assert_int_equal(weir_resolver_destroy(v), 0);
}

static void cancelled_lookup_ends_and_leaves_no_socket(void **state)
{
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	rec_init(&rec);
	STARTS(start(&f, &rec, "held.test", AF_UNSPEC));
	UNTIL(f.r, f.d.n_held > 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(f.r, &rec), -ECANCELED);
	assert_int_equal(stats_of(f.v).sockets, 0);
	assert_int_equal(stats_of(f.v).in_flight, 0);
	/* The one after it has nothing of it. */
	assert_int_equal(look_up(&f, "one.test", AF_UNSPEC), 1);
	assert_string_equal(texts(&f, 1), "192.0.2.1");
	dns_release(&f.d);
	UNTIL(f.r, !stats_of(f.v).lingering);
	finish_all(&f);
}

static void deadline_ends_lookup(void **state)
{
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(f.r) + 20 * WEIR_MSEC);
	STARTS(start(&f, &rec, "held.test", AF_UNSPEC));
	assert_int_equal(finish(f.r, &rec), -ETIMEDOUT);
	assert_int_equal(weir_op_is_late(&rec.op), 1);
	assert_int_equal(stats_of(f.v).sockets, 0);
	/* One that has passed at the start. */
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, 1);
	STARTS(start(&f, &rec, "held.test", AF_UNSPEC));
	assert_int_equal(finish(f.r, &rec), -ETIMEDOUT);
	dns_release(&f.d);
	UNTIL(f.r, !stats_of(f.v).lingering);
	finish_all(&f);
}

static void half_of_the_answers_is_none_if_the_lookup_is_cancelled(void **state)
{
	struct fixture f;
	struct rec rec;

	begin(state, &f);
	rec_init(&rec);
	STARTS(start(&f, &rec, "part.test", AF_UNSPEC));
	UNTIL(f.r, f.d.queries == 2);
	some_turns(f.r, 20);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(f.r, &rec), -ECANCELED);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(f.r) + 50 * WEIR_MSEC);
	STARTS(start(&f, &rec, "part.test", AF_UNSPEC));
	assert_int_equal(finish(f.r, &rec), -ETIMEDOUT);
	UNTIL(f.r, !stats_of(f.v).lingering);
	finish_all(&f);
}

/* Not the default, which is that of the system. */
static void silence_of_getaddrinfo_is_measured_by_its_own_timeout(void **state)
{
	struct fixture f;

	setenv("RES_OPTIONS", "timeout:1 attempts:1", 1);
	begin_with(state, &f, (struct weir_resolver_opts){ .workers_max = 1 });
	assert_int_equal(look_up(&f, "silent.test", AF_INET), -ETIMEDOUT);
	finish_all(&f);
	unsetenv("RES_OPTIONS");
}

static void lookups_in_flight_are_bounded(void **state)
{
	struct rec recs[3];
	struct fixture f;

	begin_with(state, &f, (struct weir_resolver_opts){
		.lookups_max = 2, .tries = 1, .timeout_ns = WEIR_SEC });
	for (int i = 0; i < 3; i++)
		rec_init(&recs[i]);
	STARTS(start(&f, &recs[0], "held.test", AF_INET));
	STARTS(start(&f, &recs[1], "held.test", AF_INET));
	assert_int_equal(start(&f, &recs[2], "one.test", AF_INET), -EAGAIN);
	assert_int_equal(weir_resolver_destroy(f.v), -EBUSY);
	assert_starts_with(weir_why(), "weir_resolver_destroy: 2 lookups");
	UNTIL(f.r, f.d.n_held == 2);
	dns_release(&f.d);
	assert_int_equal(result_of(&f, &recs[0]), 1);
	assert_int_equal(result_of(&f, &recs[1]), 1);
	assert_int_equal(look_up(&f, "one.test", AF_INET), 1);
	finish_all(&f);
}

static void many_lookups_are_in_flight_at_a_time(void **state)
{
	struct rec recs[64];
	struct fixture f;

	begin_with(state, &f, (struct weir_resolver_opts){
		.tries = 3, .timeout_ns = 5 * WEIR_SEC });
	for (size_t i = 0; i < N_OF(recs); i++) {
		rec_init(&recs[i]);
		STARTS(start(&f, &recs[i], i % 2 ? "one.test" : MANY,
			     AF_INET));
	}
	for (size_t i = 0; i < N_OF(recs); i += 3)
		assert_int_equal(weir_op_cancel(&recs[i].op), 0);
	for (size_t i = 0; i < N_OF(recs); i++) {
		int64_t res = result_of(&f, &recs[i]);

		assert_true(res == (i % 2 ? 1 : 6) ||
			    (!(i % 3) && res == -ECANCELED));
	}
	UNTIL(f.r, !stats_of(f.v).lingering);
	assert_int_equal(stats_of(f.v).sockets, 0);
	finish_all(&f);
}

static void stop_of_reactor_ends_lookups(void **state)
{
	struct rec recs[4];
	struct fixture f;

	begin(state, &f);
	for (size_t i = 0; i < N_OF(recs); i++) {
		rec_init(&recs[i]);
		STARTS(start(&f, &recs[i], "silent.test", AF_INET));
	}
	weir_reactor_stop(f.r);
	assert_int_equal(weir_reactor_run(f.r), 0);
	for (size_t i = 0; i < N_OF(recs); i++) {
		assert_int_equal(recs[i].calls, 1);
		assert_int_equal(recs[i].res, -ECANCELED);
	}
	rec_init(&recs[0]);
	assert_int_equal(start(&f, &recs[0], "one.test", AF_INET), -ESHUTDOWN);
	finish_all(&f);
}

struct destroyer {
	struct weir_op op;
	struct weir_resolver *v;
	int calls;
};

static void destroy_it(struct weir_op *op, int64_t res)
{
	struct destroyer *d = weir_container_of(op, struct destroyer, op);

	(void)res;
	d->calls++;
	assert_int_equal(weir_resolver_destroy(d->v), 0);
}

static void callback_may_destroy_resolver(void **state)
{
	struct weir_resolve_query q = query_of("one.test", AF_INET);
	struct destroyer d = { .calls = 0 };
	struct fixture f;

	begin(state, &f);
	d.v = f.v;
	weir_op_init(&d.op, destroy_it);
	STARTS(weir_resolve(f.v, &d.op, &q, f.at, 1));
	UNTIL(f.r, d.calls);
	dns_stop(&f.d);
	/* Also that of a lookup whose thread lingers. */
	begin(state, &f);
	d.v = f.v;
	d.calls = 0;
	q.name = "silent.test";
	STARTS(weir_resolve(f.v, &d.op, &q, f.at, 1));
	UNTIL(f.r, f.d.queries);
	assert_int_equal(weir_op_cancel(&d.op), 0);
	UNTIL(f.r, d.calls);
	dns_stop(&f.d);
}

static void cancelled_getaddrinfo_lingers_and_is_counted(void **state)
{
	struct rec recs[3];
	struct fixture f;

	begin_with(state, &f, (struct weir_resolver_opts){
		.tries = 1, .timeout_ns = WEIR_SEC, .workers_max = 1 });
	for (size_t i = 0; i < N_OF(recs); i++)
		rec_init(&recs[i]);
	STARTS(start(&f, &recs[0], "held.test", AF_INET));
	STARTS(start(&f, &recs[1], "held.test", AF_INET));
	STARTS(start(&f, &recs[2], "one.test", AF_INET));
	UNTIL(f.r, f.d.n_held == 1);
	weir_op_cancel(&recs[0].op);
	weir_op_cancel(&recs[1].op); /* It waits for the worker. */
	assert_int_equal(result_of(&f, &recs[0]), -ECANCELED);
	assert_int_equal(result_of(&f, &recs[1]), -ECANCELED);
	assert_int_equal(stats_of(f.v).lingering, 1);
	assert_int_equal(stats_of(f.v).in_flight, 1);
	assert_int_equal(recs[2].calls, 0);
	dns_release(&f.d);
	assert_int_equal(result_of(&f, &recs[2]), 1);
	assert_int_equal(stats_of(f.v).lingering, 0);
	finish_all(&f);
}

#ifdef HAVE_CARES
static void without_descriptors_lookup_fails_and_says_so(void **state)
{
	struct fixture f;
	struct rlimit limit, none;
	int64_t res;

	begin(state, &f);
	/* The channel, and the timer, are made. */
	assert_int_equal(look_up(&f, "one.test", AF_INET), 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	res = look_up(&f, "one.test", AF_INET);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(res, -EMFILE);
	assert_int_equal(look_up(&f, "one.test", AF_INET), 1);
	finish_all(&f);
}
#endif

static void simulated_reactor_has_names_of_the_table(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_resolver_opts o = {
		.size = sizeof(o), .table = "10.0.0.2 peer\n10.0.0.3 peer\n",
	};
	struct weir_connect_report report = { .size = sizeof(report) };
	struct weir_resolve_address at[4];
	struct weir_resolve_query q = query_of("peer", 0);
	struct weir_resolver *v;
	struct rec rec;

	if (strcmp(weir_reactor_backend(r), "sim"))
		return;
	rec_init(&rec);
	assert_int_equal(weir_resolver_create(&v, r, &o), 0);
	STARTS(weir_resolve(v, &rec.op, &q, at, N_OF(at)));
	assert_int_equal(finish(r, &rec), 2);
	assert_int_equal(at[1].addr.in.sin_addr.s_addr, htonl(0x0a000003));
	assert_int_equal(weir_connect_name(v, &rec.op, &q, NULL, &report),
			 -EOPNOTSUPP);
	q.name = "other";
	assert_int_equal(weir_resolve(v, &rec.op, &q, at, 4), -EOPNOTSUPP);
	q.name = "10.0.0.1";
	rec_init(&rec);
	STARTS(weir_resolve(v, &rec.op, &q, at, N_OF(at)));
	assert_int_equal(finish(r, &rec), 1);
	assert_int_equal(weir_resolver_destroy(v), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		BOTH(lookup_finds_address_port_and_time_to_live),
		BOTH(lookup_has_addresses_of_asked_families_once_each),
		BOTH(lookup_stores_no_more_than_fits),
		BOTH(failures_of_lookups_are_distinct),
		BOTH(answers_that_are_none_fail_the_lookup),
		BOTH(truncated_answer_is_asked_for_by_tcp),
		BOTH(answers_to_other_queries_do_not_count),
		BOTH(search_domains_are_tried_unless_a_dot_ends_the_name),
		BOTH(hosts_file_is_read),
		BOTH(localhost_is_this_machine),
		BOTH(numeric_addresses_are_not_looked_up),
		BOTH(table_is_looked_in_first),
		BOTH(services_are_ports_or_names),
		BOTH(query_that_is_none_is_refused),
		BOTH(newer_options_are_refused),
		BOTH(bad_options_are_refused),
		{ "getaddrinfo_refuses_servers_that_it_cannot_ask",
		  getaddrinfo_refuses_servers_that_it_cannot_ask, &libc, true },
		BOTH(cancelled_lookup_ends_and_leaves_no_socket),
		BOTH(deadline_ends_lookup),
		BOTH(half_of_the_answers_is_none_if_the_lookup_is_cancelled),
		{ "silence_of_getaddrinfo_is_measured_by_its_own_timeout",
		  silence_of_getaddrinfo_is_measured_by_its_own_timeout, &libc,
		  true },
		BOTH(lookups_in_flight_are_bounded),
		BOTH(many_lookups_are_in_flight_at_a_time),
		BOTH(stop_of_reactor_ends_lookups),
		BOTH(callback_may_destroy_resolver),
		{ "cancelled_getaddrinfo_lingers_and_is_counted",
		  cancelled_getaddrinfo_lingers_and_is_counted, &libc, true },
#ifdef HAVE_CARES
		{ "without_descriptors_lookup_fails_and_says_so",
		  without_descriptors_lookup_fails_and_says_so, &cares, true },
#endif
		CASE(simulated_reactor_has_names_of_the_table),
	};

	return harness_run_all(cases, N_OF(cases));
}
