/* SPDX-License-Identifier: BSD-3-Clause */
/* A reactor comes and goes: options, the choice of a backend, statistics. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/own.h"
#include "base/why.h"
#include "reactor/io.h"
#include "reactor/op-inline.h"
#include "reactor/rx.h"

#define OPS_MAX (1u << 24)
#define MAILBOX_MAX (1u << 20)
#define WORKERS_MAX 256
#define RING_MAX 32768
#define TURN_MAX (1u << 20)

/* An option that counts: its default if it is 0, refused above its limit. */
static int count(const char *name, uint32_t *value, uint32_t deflt,
		 uint32_t max)
{
	if (!*value)
		*value = deflt;
	if (*value > max)
		return why(-EINVAL, "weir_reactor_create: .%s is %u; at most %u",
			   name, *value, max);
	return 0;
}

static int opts_check(struct weir_reactor_opts *o)
{
	if (!o->sim && o->backend == WEIR_BACKEND_AUTO)
		o->sim = world_here();
	if (o->backend > WEIR_BACKEND_SIM)
		return why(-EINVAL, "weir_reactor_create: .backend is %u; use "
			   "a WEIR_BACKEND_ constant", o->backend);
	if (o->sim ? o->backend != WEIR_BACKEND_AUTO &&
		     o->backend != WEIR_BACKEND_SIM :
		     o->backend == WEIR_BACKEND_SIM)
		return why(-EINVAL, "weir_reactor_create: .sim is the world of "
			   "WEIR_BACKEND_SIM, and of no other");
	if (count("ops_max", &o->ops_max, 65536, OPS_MAX) ||
	    count("turn_max", &o->turn_max, 256, TURN_MAX) ||
	    count("mailbox", &o->mailbox, 1024, MAILBOX_MAX) ||
	    count("workers", &o->workers, 4, WORKERS_MAX) ||
	    count("ring_entries", &o->ring_entries, 256, RING_MAX) ||
	    count("rx_bufs", &o->rx_bufs, 256, RX_BUFS_MAX) ||
	    count("rx_buf_size", &o->rx_buf_size, 4096, RX_BUF_MAX) ||
	    count("drain_ms", &o->drain_ms, 5000, UINT32_MAX))
		return -EINVAL;
	if (o->sqe128 > 1 || o->cqe32 > 1)
		return why(-EINVAL, "weir_reactor_create: .sqe128 or .cqe32 is "
			   "neither 0 nor 1");
	if (o->napi_us > 1000000 || o->napi_prefer > !!o->napi_us)
		return why(-EINVAL, "weir_reactor_create: .napi_us is over 1000000, or "
			   ".napi_prefer is neither 0 nor 1, or set alone");
	if (o->hosted > 1)
		return why(-EINVAL, "weir_reactor_create: .hosted is neither 0 "
			   "nor 1");
	if (o->mailbox & (o->mailbox - 1) || o->rx_bufs & (o->rx_bufs - 1))
		return why(-EINVAL, "weir_reactor_create: .mailbox and .rx_bufs "
			   "must be powers of 2");
	if (!o->spin_ns)
		o->spin_ns = 50 * WEIR_USEC;
	return 0;
}

/* The backend of the environment, if the options do not choose one. */
static int backend_from_env(uint32_t *ret)
{
	const char *s = getenv("WEIR_BACKEND");

	if (!s || !*s || !strcmp(s, "auto"))
		*ret = WEIR_BACKEND_AUTO;
	else if (!strcmp(s, "uring"))
		*ret = WEIR_BACKEND_URING;
	else if (!strcmp(s, "ev"))
		*ret = WEIR_BACKEND_EV;
	else
		return why(-EINVAL, "weir_reactor_create: WEIR_BACKEND=%s; use "
			   "uring, ev or auto", s);
	return 0;
}

static bool not_on_this_system(int err)
{
	return err == -ENOSYS || err == -EPERM || err == -EACCES ||
	       err == -EINVAL || err == -EOPNOTSUPP;
}

/* The user's locked memory is used up, perhaps by another process. */
static bool not_for_this_user(int err)
{
	return err == -ENOMEM;
}

static int use_uring(struct weir_reactor *r)
{
	r->backend = r->opts.sqe128 ? &backend_uring_wide : &backend_uring;
	return r->backend->create(r, &r->opts);
}

static int use_ev(struct weir_reactor *r)
{
#ifdef HAVE_LIBEV
	r->backend = &backend_ev;
	return backend_ev.create(r, &r->opts);
#else
	(void)r;
	return why(-EOPNOTSUPP, "weir_reactor_create: this weir was built "
		   "without libev; install libev-dev and configure again");
#endif
}

/* libev, because io_uring was refused with the message that weir_why() has. */
static int fall_back(struct weir_reactor *r)
{
	char cause[160];
	size_t len;
	int err;

	snprintf(cause, sizeof(cause), "%s", weir_why());
	err = use_ev(r);
	if (err == -EOPNOTSUPP)
		return why(err, "%s; and this weir was built without libev",
			   cause);
	if (err)
		return err;
	len = strlen(r->describe);
	snprintf(r->describe + len, sizeof(r->describe) - len,
		 "; no io_uring: %s", cause);
	return 0;
}

static int use_world(struct weir_reactor *r)
{
	const struct backend_world *world = (const void *)r->opts.sim;

	r->backend = world->backend;
	atomic_store(&r->refuses, REFUSES_THREADS);
	return r->backend->create(r, &r->opts);
}

static int choose_backend(struct weir_reactor *r)
{
	uint32_t wanted = r->opts.backend;
	int err;

	if (r->opts.sim)
		return use_world(r);
	if (wanted == WEIR_BACKEND_AUTO) {
		err = backend_from_env(&wanted);
		if (err)
			return err;
	}
	if (wanted == WEIR_BACKEND_EV)
		return use_ev(r);
	err = use_uring(r);
	if (wanted == WEIR_BACKEND_URING)
		return not_on_this_system(err) ? -EOPNOTSUPP : err;
	if (not_on_this_system(err) || not_for_this_user(err))
		return fall_back(r);
	return err;
}

static struct weir_reactor *reactor_alloc(const struct weir_reactor_opts *opts)
{
	struct weir_reactor *r = mem_aligned(64, sizeof(*r));

	if (!r)
		return NULL;
	r->opts = *opts;
	r->ops_max = opts->ops_max;
	r->begun_max = opts->ops_max;
	r->turn_max = opts->turn_max;
	r->ready_last = &r->ready;
	r->deferred_last = &r->deferred;
	r->state = WEIR_REACTOR_RUNNING;
	r->thread = pthread_self();
	repeats_init(r);
	host_init(r);
	own_words(&r->requests, sizeof(r->requests));
	own_words(&r->refuses, sizeof(r->refuses));
	if (mailbox_init(&r->mailbox, opts->mailbox)) {
		free(r);
		return NULL;
	}
	return r;
}

static void reactor_free(struct weir_reactor *r)
{
	r->backend->destroy(r);
	mailbox_fini(&r->mailbox);
	free(r);
}

int weir_reactor_create(struct weir_reactor **ret,
			const struct weir_reactor_opts *opts)
{
	struct weir_reactor_opts o;
	struct weir_reactor *r;
	int err;

	err = opts_load(&o, sizeof(o), opts, "weir_reactor_create");
	if (!err)
		err = opts_check(&o);
	if (err)
		return err;
	r = reactor_alloc(&o);
	if (!r)
		return why(-ENOMEM, "weir_reactor_create: no memory");
	err = choose_backend(r);
	if (err) {
		mailbox_fini(&r->mailbox);
		free(r);
		return err;
	}
	wheel_init(&r->wheel, r->backend->now(r));
	wait_init(r);
	stats_begin(r);
	*ret = r;
	return 0;
}

/* How many objects of @r are as @obj is, if it is the first of these. */
static unsigned int count_like(const struct weir_reactor *r,
			       const struct reactor_obj *obj)
{
	const struct reactor_obj *other;
	unsigned int n = 0;

	for (other = r->objs; other != obj; other = other->next)
		if (!strcmp(other->what, obj->what))
			return 0;
	for (; other; other = other->next)
		n += !strcmp(other->what, obj->what);
	return n;
}

/* The objects of @r: "5 objects still exist: weir_dma 1, weir_timer 4". */
static int refuse_with_objects(struct weir_reactor *r)
{
	const struct reactor_obj *obj;
	unsigned int n = r->n_timers, like;
	char list[320] = "";
	size_t len = 0;

	for (obj = r->objs; obj; obj = obj->next) {
		n++;
		like = count_like(r, obj);
		if (like && len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len,
						", %s %u", obj->what, like);
	}
	if (r->n_timers && len < sizeof(list))
		snprintf(list + len, sizeof(list) - len, ", weir_timer %u",
			 r->n_timers);
	return why(-EBUSY, "weir_reactor_destroy: %u objects still exist: %s; "
		   "destroy them first", n, list + 2);
}

static int refuse_with_ops(struct weir_reactor *r)
{
	const struct weir_op *op = r->live ? r->live : r->repeats.due ?
				   r->repeats.due : r->repeats.asked;

	/* Calls by rings are in none of these. */
	if (!reactor_in_flight(r))
		return why(-EBUSY, "weir_reactor_destroy: the kernel still has "
			   "%u sources after %u ms; try again", r->n_zombies,
			   r->opts.drain_ms);
	return why(-EBUSY, "weir_reactor_destroy: %u operations did not end "
		   "within %u ms, the first a '%s'; try again",
		   (unsigned int)reactor_in_flight(r),
		   r->opts.drain_ms, op ? op_name(op) : "call");
}

/* End the objects that their owners have destroyed. */
static void settle(struct weir_reactor *r, uint64_t until_ns)
{
	struct reactor_obj *obj, *next;

	for (obj = r->objs; obj; obj = next) {
		next = obj->next;
		if (obj->settle)
			obj->settle(obj, until_ns);
	}
}

int weir_reactor_destroy(struct weir_reactor *r)
{
	uint64_t timeout;
	int err;

	if (!r)
		return 0;
	reactor_check_thread(r);
	if (reactor_is_entered(r))
		return why(-EBUSY, "weir_reactor_destroy: called from a "
			   "callback of the same reactor; use "
			   "weir_reactor_stop() there");
	timeout = r->opts.drain_ms * WEIR_MSEC;
	settle(r, r->backend->now(r) + timeout);
	if (r->objs || r->n_timers)
		return refuse_with_objects(r);

	weir_reactor_stop(r);
	err = turn_until_stopped(r, r->backend->now(r) + timeout);
	if (err == -ETIMEDOUT)
		return refuse_with_ops(r);
	if (err)
		return err;
	/* A callback of the drain may have made a timer. */
	if (r->n_timers)
		return refuse_with_objects(r);
	debug_check(r->ops_max == r->opts.ops_max);

	worker_fini(r);
	rx_end(r, r->rx);
	r->rx = NULL;
	timers_fini(r);
	host_fini(r);
	stats_end(r);
	reactor_free(r);
	return 0;
}

/* @by_result: linked by their order of result, not by the live list. */
static void forget_ops(struct weir_op *op, bool by_result)
{
	struct weir_op *next;

	for (; op; op = next) {
		next = by_result ? op->next : op->live_next;
		op->state = OP_IDLE;
		op->flags = 0;
		op->entered = 0;
		op->deadline = (struct weir_timer_node){ 0 };
	}
}

bool reactor_abandon(struct weir_reactor *r)
{
	struct reactor_obj *obj, *next;

	reactor_check_thread(r);
	debug_check(!reactor_is_entered(r));
	r->state = WEIR_REACTOR_STOPPED;
	r->attention |= ATTENTION_STOPPING;
	forget_ops(r->live, false);
	forget_ops(r->repeats.due, false);
	forget_ops(r->repeats.asked, false);
	forget_ops(r->ready, true);
	forget_ops(r->deferred, true);
	for (obj = r->objs; obj; obj = next) {
		next = obj->next;
		if (obj->abandon)
			obj->abandon(obj);
	}
	rx_end(r, r->rx);
	r->rx = NULL;
	stats_end(r);
	if (r->objs || r->core || r->n_hooks || r->mailbox.rings) {
		r->backend->destroy(r);
		return false;
	}
	r->n_timers = 0;
	timers_fini(r);
	reactor_free(r);
	return true;
}

const char *weir_reactor_backend(const struct weir_reactor *r)
{
	return r->backend->name;
}

const char *weir_reactor_describe(const struct weir_reactor *r)
{
	return r->describe;
}
