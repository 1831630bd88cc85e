/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver, and a lookup from its start to its end.
 *
 * A lookup is memory of the resolver's, allocated once and used again: what c-ares
 * and a worker thread write to is never the caller's.  The caller's list is written
 * when the lookup ends, and then the operation is finished; so nothing lands late.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "resolve/resolve.h"

#define CONNECTS_DEFAULT 64
#define LOOKUPS_LIMIT 4096
#define WORKERS_DEFAULT 2
#define WORKERS_LIMIT 256
#define TRIES_LIMIT 16

/* The end of a lookup. */

static struct lookup *lookup_get(struct weir_resolver *v)
{
	struct lookup *l = v->free;

	if (l)
		v->free = l->next;
	else
		l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->v = v;
	l->next = NULL;
	l->found.n = 0;
	v->n_lookups++;
	return l;
}

void lookup_put(struct lookup *l)
{
	struct weir_resolver *v = l->v;

	l->next = v->free;
	v->free = l;
	v->n_lookups--;
	if (v->destroyed && !v->n_lookups)
		resolver_free(v);
}

/*
 * Finish the caller's operation with what .found has, or with @err.  The lookup is
 * the source's until lookup_put().
 */
void lookup_end(struct lookup *l, int err)
{
	struct weir_op *op = l->op;
	uint32_t n = l->found.n < l->ret_max ? l->found.n : l->ret_max;

	l->op = NULL;
	l->v->stats.in_flight--;
	if (!err && !n)
		err = -ENODATA;
	if (!err) {
		l->v->stats.found++;
		memcpy(l->ret, l->found.at, n * sizeof(*l->ret));
	}
	weir_op_finish(op, err ? err : (int64_t)n);
}

static void on_cancel(struct weir_op *op, void *arg)
{
	struct lookup *l = arg;

	(void)op;
	l->v->source->cancel(l);
}

/* Whether @q can be answered here; then .found of @l is. */
static bool answer_here(struct weir_resolver *v, const struct query *q,
			struct found *found)
{
	if (!q->numeric)
		return table_find(v, q, found);
	if (found && (!q->family || q->family == q->addr.addr.sa.sa_family))
		found->at[found->n++] = q->addr;
	return true;
}

static int check_start(const struct weir_resolver *v, const struct query *q)
{
	if (v->n_lookups >= v->lookups_max)
		return -EAGAIN;
	if (v->simulated && !answer_here((struct weir_resolver *)(uintptr_t)v,
					 q, NULL))
		return weir_why_set(-EOPNOTSUPP, "weir_resolve: \"%s\" is not in "
				    ".table, and a simulated world has no other "
				    "names", q->name);
	return 0;
}

int weir_resolve(struct weir_resolver *v, struct weir_op *op,
		 const struct weir_resolve_query *query,
		 struct weir_resolve_address *ret, uint32_t n)
{
	struct lookup *l;
	struct query q;
	int err;

	if (!v || !ret || !n)
		return weir_why_set(-EINVAL, "weir_resolve: an argument is NULL "
				    "or 0");
	err = query_check(&q, query, "weir_resolve");
	if (!err)
		err = check_start(v, &q);
	if (err)
		return err;
	l = lookup_get(v);
	if (!l)
		return weir_why_set(-ENOMEM, "weir_resolve: no memory");
	err = weir_op_start(v->r, op, on_cancel, l);
	if (err) {
		lookup_put(l);
		return err;
	}
	l->op = op;
	l->ret = ret;
	l->ret_max = n;
	l->q = q;
	v->stats.lookups++;
	v->stats.in_flight++;
	if (!answer_here(v, &q, &l->found)) {
		v->source->start(l);
		return 0;
	}
	v->stats.local++;
	lookup_end(l, 0);
	lookup_put(l);
	return 0;
}

/* The resolver. */

void resolver_free(struct weir_resolver *v)
{
	struct lookup *l;

	while (v->free) {
		l = v->free;
		v->free = l->next;
		v->source->fini(l);
		free(l);
	}
	connects_free(v);
	table_free(v);
	free(v->servers);
	free(v->search);
	free(v);
}

static int copy_text(char **ret, const char *text)
{
	if (text)
		*ret = strdup(text);
	return text && !*ret ? -ENOMEM : 0;
}

static int check_opts(const struct weir_resolver_opts *o)
{
	if (o->source > WEIR_RESOLVE_LIBC || o->reserved)
		return weir_why_set(-EINVAL, "weir_resolver_create: .source is none "
				    "of WEIR_RESOLVE_, or .reserved is not 0");
	if (o->lookups_max > LOOKUPS_LIMIT || o->connects_max > LOOKUPS_LIMIT ||
	    o->workers_max > WORKERS_LIMIT || o->tries > TRIES_LIMIT)
		return weir_why_set(-EINVAL, "weir_resolver_create: at most %d "
				    "lookups and connects, %d workers and %d "
				    "tries are possible", LOOKUPS_LIMIT,
				    WORKERS_LIMIT, TRIES_LIMIT);
	if (o->timeout_ns && (o->timeout_ns < WEIR_MSEC ||
			      o->timeout_ns > 3600 * WEIR_SEC))
		return weir_why_set(-EINVAL, "weir_resolver_create: .timeout_ns is "
				    "not between 1 ms and an hour");
#ifndef HAVE_CARES
	if (o->source == WEIR_RESOLVE_CARES)
		return weir_why_set(-EOPNOTSUPP, "weir_resolver_create: the library "
				    "was built without c-ares");
#endif
	return 0;
}

static const struct source *choose(uint32_t source)
{
#ifdef HAVE_CARES
	if (source != WEIR_RESOLVE_LIBC)
		return &source_cares;
#endif
	(void)source;
	return &source_libc;
}

static int set_up(struct weir_resolver *v, const struct weir_resolver_opts *o)
{
	static const struct weir_object_ops ops = {
		.size = sizeof(ops), .name = "resolver",
	};
	int err;

	v->source = choose(o->source);
	v->simulated = !strcmp(weir_reactor_backend(v->r), "sim");
	v->connects_max = o->connects_max ? o->connects_max : CONNECTS_DEFAULT;
	v->lookups_max = o->lookups_max;
	if (!v->lookups_max) /* So that all connects can have two. */
		v->lookups_max = 2 * v->connects_max < LOOKUPS_LIMIT ?
				 2 * v->connects_max : LOOKUPS_LIMIT;
	v->workers_max = o->workers_max ? o->workers_max : WORKERS_DEFAULT;
	v->timeout_ns = o->timeout_ns;
	v->tries = o->tries;
	v->waiting_end = &v->waiting;
	if (copy_text(&v->servers, o->servers) ||
	    copy_text(&v->search, o->search))
		return weir_why_set(-ENOMEM, "weir_resolver_create: no memory");
	err = o->table ? table_load(v, o->table) : 0;
	if (err == -ENOMEM)
		return weir_why_set(err, "weir_resolver_create: no memory");
	if (!err && !v->simulated)
		err = v->source->init(v, "weir_resolver_create");
	if (err)
		return err;
	return weir_object_create(&v->obj, v->r, &ops, NULL, v);
}

int weir_resolver_create(struct weir_resolver **ret, struct weir_reactor *r,
			 const struct weir_resolver_opts *opts)
{
	struct weir_resolver_opts own;
	struct weir_resolver *v;
	int err;

	if (!ret || !r)
		return weir_why_set(-EINVAL, "weir_resolver_create: an argument is "
				    "NULL");
	err = opts_load(&own, sizeof(own), opts, "weir_resolver_create");
	if (!err)
		err = check_opts(&own);
	if (err)
		return err;
	v = calloc(1, sizeof(*v));
	if (!v)
		return weir_why_set(-ENOMEM, "weir_resolver_create: no memory");
	v->r = r;
	err = set_up(v, &own);
	if (err) {
		resolver_free(v);
		return err;
	}
	*ret = v;
	return 0;
}

int weir_resolver_destroy(struct weir_resolver *v)
{
	if (!v)
		return 0;
	if (v->stats.in_flight || v->n_connects)
		return weir_why_set(-EBUSY, "weir_resolver_destroy: %llu lookups and "
				    "%u connects are in flight; cancel them",
				    (unsigned long long)v->stats.in_flight,
				    v->n_connects);
	weir_object_destroy(v->obj);
	v->obj = NULL;
	v->destroyed = true;
	if (!v->n_lookups)
		resolver_free(v);
	return 0;
}

const char *weir_resolver_source(const struct weir_resolver *v)
{
	return v->source->name();
}

int weir_resolver_stats(const struct weir_resolver *v,
			struct weir_resolver_stats *ret)
{
	struct weir_resolver_stats now = v->stats;

	now.lingering = v->n_lookups - v->stats.in_flight;
	return opts_give(ret, &now, sizeof(now), "weir_resolver_stats");
}

const char *weir_resolve_error(int64_t err)
{
	static const struct { int err; const char *text; } texts[] = {
		{ ENOENT, "the name does not exist" },
		{ ENODATA, "the name has no address of that family" },
		{ EREMOTEIO, "no server can be reached, or the servers failed" },
		{ ETIMEDOUT, "no answer in time" },
		{ ECANCELED, "the lookup was cancelled" },
		{ ESHUTDOWN, "the reactor is stopping" },
	};
	const char *text;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (err == -texts[i].err)
			return texts[i].text;
	if (err >= 0)
		return "no error";
	text = err < -4095 ? NULL : strerrordesc_np((int)-err);
	return text ? text : "unknown error";
}
