/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection to a name, as one operation: happy eyeballs, RFC 8305.
 *
 * The addresses of each family are in a queue, sorted; attempts take from both in
 * turn.  Each family is a lookup of its own, so that a server that does not answer
 * for one does not hold up the other.
 *
 *	LOOKING    nothing is known yet, or IPv4 only, for .delay_ns
 *	TRYING     an attempt was made; another one follows each failure, and each
 *	           .stagger_ns
 *	ENDING     one is connected, or the operation was cancelled, or nothing is
 *	           left; lookups and attempts are cancelled
 *
 * The caller's operation ends when none of those is in flight: then no socket is
 * left but the one that is connected.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/socket.h>

#include "base/opts.h"
#include "resolve/resolve.h"

#define STAGGER_DEFAULT (250 * WEIR_MSEC)
#define STAGGER_MIN (10 * WEIR_MSEC)
#define DELAY_DEFAULT (50 * WEIR_MSEC)
#define ATTEMPTS_MAX WEIR_CONNECT_ATTEMPTS_MAX
#define NO_ADDRESS UINT32_MAX

/* The addresses of a family, and their lookup. */
struct side {
	struct weir_op op;
	struct connect *c;
	bool looking;
	int err;
	uint32_t n, next;
	struct weir_resolve_address at[ADDRESSES_MAX];
};

struct attempt {
	struct weir_op op;
	struct connect *c;
	int fd;			/* -1: not in flight. */
	uint32_t tried;		/* Its index in .tried. */
};

enum { SIDE_IN6, SIDE_IN, N_SIDES };

struct connect {
	struct weir_resolver *v;
	struct weir_op *op;
	struct weir_connect_opts o;
	struct weir_connect_report *report;
	struct query q;
	struct weir_timer *timer;
	struct side sides[N_SIDES];
	struct attempt attempts[ATTEMPTS_MAX];
	/* What was tried, in this order. */
	struct weir_resolve_address tried[N_SIDES * ADDRESSES_MAX];
	uint32_t n_tried;
	uint32_t n_flying;	/* Attempts. */
	int side;		/* Whose turn it is; -1: that is not decided. */
	bool trying, ending;
	unsigned int entered;	/* Not to be finished yet. */
	int fd;			/* Connected; -1: none. */
	uint32_t connected;	/* Its index in .tried. */
	int err;
	struct connect *next;	/* Free. */
};

static void try_next(struct connect *c);

/* The end. */

/* The errno of lookups of which none has found an address. */
static int lookup_err(const struct connect *c)
{
	const int a = c->sides[SIDE_IN6].err, b = c->sides[SIDE_IN].err;

	/* What one server says of the name outdoes that it has no such address;
	 * that it is there outdoes that it is not. */
	if (!b || (a && a != -ENOENT && a != -ENODATA))
		return a;
	return a == -ENODATA && b == -ENOENT ? a : b;
}

static void give_report(struct connect *c)
{
	struct weir_connect_report own;
	uint32_t n;

	if (!c->report)
		return;
	opts_take(&own, sizeof(own), c->report);
	n = c->n_tried < own.addresses_max ? c->n_tried : own.addresses_max;
	if (n)
		memcpy(own.addresses, c->tried, n * sizeof(*c->tried));
	own.n_addresses = c->n_tried;
	own.connected = c->connected;
	own.err_in = c->sides[SIDE_IN].err;
	own.err_in6 = c->sides[SIDE_IN6].err;
	(void)opts_give(c->report, &own, sizeof(own), "weir_connect_name");
}

/* Finish the operation, if there is nothing left to wait for. */
static void settle(struct connect *c)
{
	struct weir_resolver *v = c->v;
	struct weir_op *op = c->op;

	if (!c->ending || c->entered || c->n_flying ||
	    c->sides[SIDE_IN6].looking || c->sides[SIDE_IN].looking)
		return;
	weir_timer_stop(c->timer);
	give_report(c);
	v->n_connects--;
	if (c->fd >= 0)
		v->stats.connected++;
	weir_op_finish(op, c->fd >= 0 ? c->fd : c->err);
	c->next = v->connects;
	v->connects = c;
}

/* Nothing new begins. */
static void end(struct connect *c, int err)
{
	if (c->ending)
		return;
	c->ending = true;
	c->err = err;
	weir_timer_stop(c->timer);
	for (int i = 0; i < N_SIDES; i++)
		if (c->sides[i].looking)
			weir_op_cancel(&c->sides[i].op);
	for (int i = 0; i < ATTEMPTS_MAX; i++)
		if (c->attempts[i].fd >= 0)
			weir_op_cancel(&c->attempts[i].op);
}

static void on_cancel(struct weir_op *op, void *arg)
{
	struct connect *c = arg;

	(void)op;
	c->entered++;
	end(c, -ECANCELED);
	c->entered--;
	settle(c);
}

/* Attempts. */

static uint32_t left(const struct side *s)
{
	return s->n - s->next;
}

/* The address to try next, which is then in .tried; NULL: none is left. */
static struct weir_resolve_address *take_address(struct connect *c)
{
	struct side *in6 = &c->sides[SIDE_IN6], *in = &c->sides[SIDE_IN], *s;
	struct source_address from6, from;
	struct weir_resolve_address *a;

	if (!left(in6) && !left(in))
		return NULL;
	if (c->side < 0 && left(in6) && left(in)) {
		sort_find_source(&in6->at[0], &from6);
		sort_find_source(&in->at[0], &from);
		c->side = sort_compare(&in6->at[0], &from6, &in->at[0],
				       &from) <= 0 ? SIDE_IN6 : SIDE_IN;
	}
	s = c->side == SIDE_IN ? in : in6;
	if (!left(s))
		s = s == in ? in6 : in;
	c->side = s == in ? SIDE_IN6 : SIDE_IN;
	a = &c->tried[c->n_tried++];
	*a = s->at[s->next++];
	return a;
}

/* The addresses are used up, and no more will come. */
static bool is_over(const struct connect *c)
{
	return !c->n_flying && !left(&c->sides[SIDE_IN6]) &&
	       !left(&c->sides[SIDE_IN]) && !c->sides[SIDE_IN6].looking &&
	       !c->sides[SIDE_IN].looking;
}

static void on_connect(struct weir_op *op, int64_t res)
{
	struct attempt *t = weir_container_of(op, struct attempt, op);
	struct connect *c = t->c;
	int fd = t->fd;

	t->fd = -1;
	c->n_flying--;
	c->entered++;
	c->tried[t->tried].err = (int32_t)res;
	if (!res && c->fd < 0 && !c->ending) {
		c->fd = fd;
		c->connected = t->tried;
		end(c, 0);
	} else {
		close(fd);
		if (!res || res == -ECANCELED)
			c->tried[t->tried].err = -EINPROGRESS;
		if (!c->ending) {
			c->err = (int)res;
			try_next(c);
		}
	}
	c->entered--;
	settle(c);
}

/* 0, or an errno with which this address has failed. */
static int attempt(struct connect *c, struct weir_resolve_address *a)
{
	struct attempt *t = c->attempts;
	int err = 0;

	while (t->fd >= 0)
		t++;
	t->fd = socket(a->addr.sa.sa_family,
		       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return -errno;
	t->c = c;
	t->tried = (uint32_t)(a - c->tried);
	if (c->o.prepare)
		err = c->o.prepare(t->fd, &a->addr.sa, c->o.arg);
	if (!err && c->ending)
		err = -ECANCELED; /* By .prepare. */
	weir_op_init(&t->op, on_connect);
	if (!err)
		err = weir_connect(c->v->r, &t->op, t->fd, &a->addr.sa, a->len);
	if (!err) {
		c->n_flying++;
		c->v->stats.attempts++;
		return 0;
	}
	close(t->fd);
	t->fd = -1;
	return err < 0 ? err : -EINVAL;
}

/* Make the next attempt that can be made.  .entered. */
static void try_next(struct connect *c)
{
	struct weir_resolve_address *a;
	int err = -EINPROGRESS;

	c->trying = true;
	while (!c->ending && err && c->n_flying < ATTEMPTS_MAX) {
		a = take_address(c);
		if (!a)
			break;
		a->err = -EINPROGRESS;
		err = attempt(c, a);
		if (err) {
			a->err = err;
			if (!c->ending)
				c->err = err;
		}
	}
	if (is_over(c))
		end(c, c->n_tried ? c->err : lookup_err(c));
	if (!c->ending && c->n_flying < ATTEMPTS_MAX &&
	    (left(&c->sides[SIDE_IN6]) || left(&c->sides[SIDE_IN])))
		weir_timer_start(c->timer, weir_reactor_now(c->v->r) +
				 c->o.stagger_ns, 0);
}

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct connect *c = arg;

	(void)timer, (void)n;
	c->entered++;
	try_next(c);
	c->entered--;
	settle(c);
}

/* Lookups. */

static void on_lookup(struct weir_op *op, int64_t res)
{
	struct side *s = weir_container_of(op, struct side, op);
	struct connect *c = s->c;
	const struct side *in = &c->sides[SIDE_IN], *in6 = &c->sides[SIDE_IN6];

	s->looking = false;
	s->err = res < 0 ? (int)res : 0;
	s->n = res < 0 ? 0 : (uint32_t)res;
	c->entered++;
	if (c->ending)
		;
	else if (c->trying ? !c->n_flying : !in6->looking &&
				(in6->n || !in->looking))
		try_next(c);
	else if (s->n && !weir_timer_is_set(c->timer))
		weir_timer_start(c->timer, weir_reactor_now(c->v->r) +
				 (c->trying ? c->o.stagger_ns : c->o.delay_ns),
				 0);
	c->entered--;
	settle(c);
}

static int look_up(struct connect *c, int side,
		   const struct weir_resolve_query *query, uint32_t family)
{
	struct weir_resolve_query q;
	struct side *s = &c->sides[side];
	int err;

	opts_take(&q, sizeof(q), query);
	q.size = sizeof(q);
	q.service = NULL; /* It was looked up. */
	q.port = c->q.port;
	q.family = family;
	s->c = c;
	weir_op_init(&s->op, on_lookup);
	err = weir_resolve(c->v, &s->op, &q, s->at, ADDRESSES_MAX);
	s->looking = !err;
	s->err = err;
	return err;
}

/* The start. */

static struct connect *connect_get(struct weir_resolver *v)
{
	struct connect *c = v->connects;

	if (c) {
		v->connects = c->next;
	} else {
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		c->v = v;
		if (weir_timer_create(&c->timer, v->r, on_timer, c)) {
			free(c);
			return NULL;
		}
	}
	for (int i = 0; i < N_SIDES; i++) {
		c->sides[i].looking = false;
		c->sides[i].err = 0;
		c->sides[i].n = c->sides[i].next = 0;
	}
	for (int i = 0; i < ATTEMPTS_MAX; i++)
		c->attempts[i].fd = -1;
	c->n_tried = c->n_flying = c->entered = 0;
	c->trying = c->ending = false;
	c->side = -1;
	c->fd = -1;
	c->connected = NO_ADDRESS;
	c->err = 0;
	return c;
}

void connects_free(struct weir_resolver *v)
{
	struct connect *c;

	while (v->connects) {
		c = v->connects;
		v->connects = c->next;
		weir_timer_destroy(c->timer);
		free(c);
	}
}

static int check_opts(struct weir_connect_opts *o,
		      const struct weir_connect_report *report)
{
	struct weir_connect_report own;
	int err;

	if (!o->stagger_ns)
		o->stagger_ns = STAGGER_DEFAULT;
	if (!o->delay_ns)
		o->delay_ns = DELAY_DEFAULT;
	if (o->stagger_ns < STAGGER_MIN)
		return weir_why_set(-EINVAL, "weir_connect_name: .stagger_ns is "
				    "below 10 ms, which RFC 8305 forbids");
	if (!report)
		return 0;
	err = opts_capacity(report, "weir_connect_name");
	if (err)
		return err;
	opts_take(&own, sizeof(own), report);
	if (own.addresses_max && !own.addresses)
		return weir_why_set(-EINVAL, "weir_connect_name: .addresses is NULL");
	return 0;
}

/* Start the lookups; they end, whatever becomes of the operation. */
static int look_up_all(struct connect *c, const struct weir_resolve_query *query)
{
	const bool is_in = c->q.numeric &&
			   c->q.addr.addr.sa.sa_family == AF_INET;
	int err = -ENODATA, err6 = -ENODATA;

	if (c->q.family != AF_INET && !is_in)
		err6 = look_up(c, SIDE_IN6, query, AF_INET6);
	if (c->q.family != AF_INET6 && (is_in || !c->q.numeric))
		err = look_up(c, SIDE_IN, query, AF_INET);
	return c->sides[SIDE_IN6].looking || c->sides[SIDE_IN].looking ? 0 :
	       err6 == -ENODATA ? err : err6;
}

static int check_start(struct weir_resolver *v, struct query *q,
		       const struct weir_resolve_query *query)
{
	int err = query_check(q, query, "weir_connect_name");

	if (err)
		return err;
	if (!q->port)
		return weir_why_set(-EINVAL, "weir_connect_name: no port; set "
				    ".service or .port");
	if (v->simulated)
		return weir_why_set(-EOPNOTSUPP, "weir_connect_name: the reactor is "
				    "simulated; connect by weir_resolve() and "
				    "weir_sim_socket()");
	if (v->n_connects >= v->connects_max ||
	    v->n_lookups + (q->numeric || q->family ? 1 : 2) > v->lookups_max)
		return -EAGAIN;
	return 0;
}

int weir_connect_name(struct weir_resolver *v, struct weir_op *op,
		      const struct weir_resolve_query *query,
		      const struct weir_connect_opts *opts,
		      struct weir_connect_report *report)
{
	struct weir_connect_opts o;
	struct connect *c;
	struct query q;
	int err;

	if (!v)
		return weir_why_set(-EINVAL, "weir_connect_name: the resolver is "
				    "NULL");
	err = opts_load(&o, sizeof(o), opts, "weir_connect_name");
	if (!err)
		err = check_opts(&o, report);
	if (!err)
		err = check_start(v, &q, query);
	if (err)
		return err;
	c = connect_get(v);
	if (!c)
		return weir_why_set(-ENOMEM, "weir_connect_name: no memory");
	err = weir_op_start(v->r, op, on_cancel, c);
	if (err) {
		c->next = v->connects;
		v->connects = c;
		return err;
	}
	c->op = op;
	c->o = o;
	c->report = report;
	c->q = q;
	v->n_connects++;
	v->stats.connects++;
	c->entered++;
	err = look_up_all(c, query);
	if (err)
		end(c, err);
	c->entered--;
	settle(c);
	return 0;
}
