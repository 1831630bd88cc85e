/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: create and destroy, and the getters. */

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "rdma/srq-internal.h"

#define SENDS_DEFAULT 64
#define RECVS_DEFAULT 128
#define POSTED_MAX (1u << 20)
#define RETRIES_MAX 7
#define RETRIES_DEFAULT 6	/* Soft-RoCE takes 7 for unlimited. */
#define TIMER_MAX 31
#define READS_MAX 255
#define RESOLVE_MS_DEFAULT 5000
#define FIRST_NS_DEFAULT (100 * WEIR_MSEC)
#define MOST_NS_DEFAULT (10 * WEIR_SEC)
#define KEEPALIVE_NS_DEFAULT (10 * WEIR_SEC)
#define STALL_NS_DEFAULT (30 * WEIR_SEC)
#define GRACE_NS_DEFAULT WEIR_SEC
#define LIMIT_NS_MIN WEIR_MSEC

static uint8_t retries_of(uint8_t given, uint8_t preset)
{
	return !given ? preset : given == WEIR_CONN_NO_RETRY ? 0 : given;
}

static void fill_in(struct weir_conn_opts *opts)
{
	if (!opts->sends)
		opts->sends = SENDS_DEFAULT;
	if (!opts->recvs && opts->srq)
		opts->recvs = RECVS_DEFAULT;
	if (!opts->resolve_ms)
		opts->resolve_ms = RESOLVE_MS_DEFAULT;
	if (!opts->first_ns)
		opts->first_ns = FIRST_NS_DEFAULT;
	if (!opts->most_ns)
		opts->most_ns = MOST_NS_DEFAULT;
	if (!opts->keepalive_ns)
		opts->keepalive_ns = KEEPALIVE_NS_DEFAULT;
	if (!opts->stall_ns)
		opts->stall_ns = STALL_NS_DEFAULT;
	if (!opts->grace_ns)
		opts->grace_ns = GRACE_NS_DEFAULT;
	opts->retries = retries_of(opts->retries, RETRIES_DEFAULT);
	opts->rnr_retries = retries_of(opts->rnr_retries, RETRIES_MAX);
}

int conn_opts_load(struct weir_conn_opts *opts,
		   const struct weir_conn_opts *user,
		   const struct weir_reactor *r, const char *call)
{
	int err = opts_load(opts, sizeof(*opts), user, call);

	if (err)
		return err;
	fill_in(opts);
	if (opts->sends > POSTED_MAX || opts->recvs > POSTED_MAX)
		return why(-EINVAL, "%s: .sends and .recvs are at most %u",
			   call, POSTED_MAX);
	if (opts->retries > RETRIES_MAX || opts->rnr_retries > RETRIES_MAX)
		return why(-EINVAL, "%s: .retries and .rnr_retries are at most "
			   "%u, or WEIR_CONN_NO_RETRY", call, RETRIES_MAX);
	if (opts->ack_timeout > TIMER_MAX || opts->rnr_timer > TIMER_MAX)
		return why(-EINVAL, "%s: .ack_timeout and .rnr_timer are at "
			   "most %u: they are exponents", call, TIMER_MAX);
	if (opts->keepalive_ns < LIMIT_NS_MIN || opts->stall_ns < LIMIT_NS_MIN ||
	    opts->grace_ns < LIMIT_NS_MIN)
		return why(-EINVAL, "%s: .keepalive_ns, .stall_ns and .grace_ns "
			   "are at least 1 ms", call);
	if (opts->srq && opts->srq->r != r)
		return why(-EXDEV, "%s: .srq is another reactor's", call);
	if (opts->reads > READS_MAX || opts->resolve_ms > INT32_MAX)
		return why(-EINVAL, "%s: .reads is at most %u, .resolve_ms at "
			   "most %d", call, READS_MAX, INT32_MAX);
	return 0;
}

static const struct weir_object_field fields[] = {
	FIELD_NOW("state",
		  "1: idle, 5: established, 7: ended; see <weir/conn.h>"),
	FIELD_NOW("qp_num", "Number of its queue pair; 0: there is none"),
	FIELD_NOW("sends", "Sends that can be in flight"),
	FIELD_NOW("recvs", "Receives that can be in flight"),
	FIELD_NOW("posted", "Pieces of work in flight"),
	FIELD_COUNT("connects", "Times that it was established"),
	FIELD_COUNT("attempts", "Times that it was tried"),
};

static void publish(void *arg, uint64_t *values)
{
	const struct weir_conn *c = arg;
	const uint64_t all[] = {
		c->state,      c->qp ? c->qp->qp_num : 0,
		c->opts.sends, c->opts.srq ? 0 : c->opts.recvs,
		c->posted,     c->n_connects,
		c->n_attempts,
	};

	_Static_assert(sizeof(all) / 8 == N_FIELDS(fields), "a field for each");
	memcpy(values, all, sizeof(all));
}

static const struct weir_object_ops object_ops = {
	.size = sizeof(object_ops),
	.name = "weir_conn",
	.notified = conn_run,
	.stop = conn_stop,
	.section = "connection",
	.fields = fields,
	.n_fields = N_FIELDS(fields),
	.publish = publish,
};

static void conn_free(struct weir_conn *c)
{
	weir_timer_destroy(c->timer);
	weir_object_destroy(c->obj);
	free(c);
}

int conn_alloc(struct weir_conn **ret, struct weir_reactor *r,
	       struct weir_channel *channel, const struct weir_conn_opts *opts,
	       const char *call)
{
	struct weir_conn *c = mem_calloc(1, sizeof(*c));
	int err;

	if (!c)
		return why(-ENOMEM, "%s: no memory", call);
	c->r = r;
	c->opts = *opts;
	c->given = channel;
	c->state = WEIR_CONN_IDLE;
	c->user.event = conn_event;
	c->held_last = &c->held;
	err = weir_object_create(&c->obj, r, &object_ops, "", c);
	if (err)
		why_call(err, "weir_object_create", call);
	if (!err)
		err = weir_timer_create(&c->timer, r, conn_timer, c);
	if (!err)
		err = cm_dispatcher_get(&c->dispatcher, r);
	if (err) {
		conn_free(c);
		return err;
	}
	c->serial = c->dispatcher->serial++;
	if (opts->srq)
		opts->srq->n_users++;
	*ret = c;
	return 0;
}

int weir_conn_create(struct weir_conn **ret, struct weir_reactor *r,
		     struct weir_channel *channel,
		     const struct weir_conn_opts *user)
{
	struct weir_conn_opts opts;
	int err = conn_opts_load(&opts, user, r, "weir_conn_create");

	return err ? err : conn_alloc(ret, r, channel, &opts,
				      "weir_conn_create");
}

int weir_conn_destroy(struct weir_conn *c)
{
	if (!c)
		return 0;
	if (conn_busy(c))
		return why(-EBUSY, "weir_conn_destroy: an operation is in "
			   "flight: %s; cancel it", c->op_kind->name);
	if (c->posted)
		return why(-EBUSY, "weir_conn_destroy: work is in flight: %llu; "
			   "weir_conn_disconnect() flushes it",
			   (unsigned long long)c->posted);
	if (c->n_domains)
		return why(-EBUSY, "weir_conn_destroy: it reaches %u domains; "
			   "see weir_conn_detach()", c->n_domains);
	conn_teardown(c);
	if (c->opts.srq)
		c->opts.srq->n_users--;
	c->state = WEIR_CONN_ENDED;
	c->end_fn = NULL;
	cm_dispatcher_put(c->dispatcher);
	conn_free(c);
	return 0;
}

void weir_conn_set_end_fn(struct weir_conn *c, weir_conn_end_fn *fn, void *arg)
{
	c->end_fn = fn;
	c->end_arg = arg;
}

int weir_conn_state(const struct weir_conn *c)
{
	return (int)c->state;
}

/* Only these events carry private data. */
static bool has_data(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_CONNECT_REQUEST ||
	       type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
	       type == RDMA_CM_EVENT_REJECTED;
}

void conn_keep_data(struct weir_conn *c, const struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *param = &ev->param.conn;

	rdma_check_thread(c->r);
	c->peer_len = 0;
	if (!has_data(ev->event) || !param->private_data)
		return;
	c->peer_len = param->private_data_len;
	if (c->peer_len > sizeof(c->peer_data))
		c->peer_len = sizeof(c->peer_data);
	memcpy(c->peer_data, param->private_data, c->peer_len);
}

const void *weir_conn_peer_data(const struct weir_conn *c, size_t *len)
{
	*len = c->peer_len;
	return c->peer_len ? c->peer_data : NULL;
}

socklen_t conn_address_len(const struct sockaddr *addr, socklen_t len)
{
	socklen_t need = 0;

	if (!addr || len < sizeof(addr->sa_family))
		return 0;
	if (addr->sa_family == AF_INET)
		need = sizeof(struct sockaddr_in);
	else if (addr->sa_family == AF_INET6)
		need = sizeof(struct sockaddr_in6);
	return len < need ? 0 : need;
}

int conn_copy_address(struct sockaddr *dst, socklen_t *len,
		      const struct sockaddr *addr, const char *call)
{
	socklen_t need = conn_address_len(addr,
					  sizeof(struct sockaddr_storage));

	if (*len < need)
		return why(-EMSGSIZE, "%s: the address has %u bytes, and there "
			   "is space for %u", call, need, *len);
	memcpy(dst, addr, need);
	*len = need;
	return 0;
}

int weir_conn_peer_address(const struct weir_conn *c, struct sockaddr *addr,
			   socklen_t *len)
{
	const struct sockaddr *peer = c->id ? rdma_get_peer_addr(c->id) : NULL;

	if (!peer || !peer->sa_family)
		return why(-ENOTCONN, "weir_conn_peer_address: the connection "
			   "has no peer yet");
	return conn_copy_address(addr, len, peer, "weir_conn_peer_address");
}

int weir_conn_info(const struct weir_conn *c, struct weir_conn_info *ret)
{
	struct weir_conn_info info = {
		.size = sizeof(info),
		.state = c->state,
		.qp_num = c->qp ? c->qp->qp_num : 0,
		.sends = c->opts.sends,
		.recvs = c->opts.srq ? 0 : c->opts.recvs,
		.max_sge = c->max_sge,
		.max_inline = c->max_inline,
		.reads_out = c->reads_out,
		.reads_in = c->reads_in,
		.posted = c->posted,
		.connects = c->n_connects,
		.attempts = c->n_attempts,
	};

	if (c->device_ref)
		snprintf(info.device, sizeof(info.device), "%s",
			 c->device_ref->device->name);
	return opts_give(ret, &info, sizeof(info), "weir_conn_info");
}
