/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs of connections, and the devices that have some. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/device.h>
#include <weir/provider.h>
#include <weir/rdma/channel.h>
#include <weir/rdma/verbs-event.h>

#include "base/alloc.h"
#include "base/why.h"
#include "rdma/device.h"
#include "rdma/srq-internal.h"

/*
 * Devices that have QPs, and their asynchronous events.
 *
 * A device belongs to the process, and is open once for all connections.  Each
 * reactor has a tap of it: a source of the device's events, each of which goes
 * to all sources, and the list of the reactor's connections.  The lock guards
 * the lists of devices and of taps.
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct conn_device *devices;
static struct conn_device_ref *device_refs;

static unsigned int news_of(const struct ibv_async_event *ev)
{
	if (!ev)	/* Some were lost. */
		return CONN_NEWS_QP;
	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return CONN_NEWS_QP;
	case IBV_EVENT_COMM_EST:
		return CONN_NEWS_DATA;
	case IBV_EVENT_DEVICE_FATAL:
		return CONN_NEWS_DEVICE;
	default:
		return 0;
	}
}

void conn_device_ref_dead(struct conn_device_ref *device_ref)
{
	pthread_mutex_lock(&lock);
	device_ref->device->dead = true;
	pthread_mutex_unlock(&lock);
	(void)weir_provider_lost(device_ref->device->dev);
}

/* Each connection handles the event in a turn of its own, and may be destroyed
 * there. */
static void on_async(struct weir_verbs_event *source,
		     const struct ibv_async_event *ev, void *arg)
{
	const struct conn_device_ref *device_ref = arg;
	unsigned int news = news_of(ev);
	bool all = !ev || news == CONN_NEWS_DEVICE;
	struct weir_conn *c;

	(void)source;
	if (news == CONN_NEWS_DEVICE)
		conn_device_ref_dead((struct conn_device_ref *)arg);
	if (ev && device_ref->srqs)
		device_ref->srq_event((struct conn_device_ref *)arg, ev);
	for (c = news ? device_ref->conns : NULL; c; c = c->ref_next) {
		if (!all && ev->element.qp != c->qp)
			continue;
		c->news |= news;
		weir_object_notify(c->obj);
	}
}

static int open_device(struct conn_device *d, const char *name)
{
	const struct device_verbs_open *v;
	int err = weir_device_open_name(&d->dev, name);

	if (err)
		return err;
	v = device_verbs_of(d->dev);
	d->ctx = v->ctx;
	d->pd = v->pd;
	snprintf(d->name, sizeof(d->name), "%s", name);
	err = weir_fault("ibv_query_device") ? EIO :
	      ibv_query_device(d->ctx, &d->attr);
	if (!err)
		return 0;
	weir_device_close(d->dev);
	return why(-err, "weir_conn: %s does not tell what it can do: %s", name,
		   strerror(err));
}

/* The lock is held. */
static int find_device(struct conn_device **ret, const char *name)
{
	struct conn_device *d;
	int err;

	debug_check(mutex_is_held(&lock));
	for (d = devices; d && (d->dead || strcmp(d->name, name));
	     d = d->next)
		;
	if (!d) {
		d = mem_calloc(1, sizeof(*d));
		err = d ? open_device(d, name) :
			  why(-ENOMEM, "weir_conn: no memory");
		if (err) {
			free(d);
			return err;
		}
		d->next = devices;
		devices = d;
	}
	d->refs++;
	*ret = d;
	return 0;
}

/*
 * Called under the lock.  Close unused devices.  If we were the last to open a
 * device and an mmap still used it, it could not be closed then; it is closed
 * when the next one is.
 */
static void close_unused(void)
{
	struct conn_device **at = &devices, *d;

	debug_check(mutex_is_held(&lock));
	while ((d = *at)) {
		if (d->refs || weir_device_close(d->dev)) {
			at = &d->next;
			continue;
		}
		*at = d->next;
		free(d);
	}
}

static struct conn_device_ref *find_ref(struct weir_reactor *r,
					const char *name)
{
	struct conn_device_ref *device_ref;

	pthread_mutex_lock(&lock);
	for (device_ref = device_refs; device_ref;
	     device_ref = device_ref->next)
		if (device_ref->r == r && !device_ref->device->dead &&
		    !strcmp(device_ref->device->name, name))
			break;
	pthread_mutex_unlock(&lock);
	return device_ref;
}

static int make_ref(struct conn_device_ref *device_ref, const char *name)
{
	int err;

	pthread_mutex_lock(&lock);
	err = find_device(&device_ref->device, name);
	pthread_mutex_unlock(&lock);
	if (err)
		return err;
	err = weir_verbs_event_create(&device_ref->events, device_ref->r,
				      device_ref->device->ctx, on_async,
				      device_ref);
	pthread_mutex_lock(&lock);
	if (err) {
		device_ref->device->refs--;
		close_unused();
	} else {
		device_ref->next = device_refs;
		device_refs = device_ref;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

/* Only @r's thread makes, finds and frees the taps of @r. */
int conn_device_ref_get(struct conn_device_ref **ret, struct weir_reactor *r,
			const char *name)
{
	struct conn_device_ref *device_ref = find_ref(r, name);
	int err;

	if (!device_ref) {
		device_ref = mem_calloc(1, sizeof(*device_ref));
		if (!device_ref)
			return why(-ENOMEM, "weir_conn: no memory");
		device_ref->r = r;
		err = make_ref(device_ref, name);
		if (err) {
			free(device_ref);
			return err;
		}
	}
	device_ref->refs++;
	*ret = device_ref;
	return 0;
}

void conn_device_ref_put(struct conn_device_ref *device_ref)
{
	struct conn_device_ref **at = &device_refs;

	debug_check(device_ref->refs > 0);
	if (--device_ref->refs)
		return;
	weir_verbs_event_destroy(device_ref->events);
	pthread_mutex_lock(&lock);
	while (*at != device_ref)
		at = &(*at)->next;
	*at = device_ref->next;
	debug_check(device_ref->device->refs > 0);
	device_ref->device->refs--;
	close_unused();
	pthread_mutex_unlock(&lock);
	free(device_ref);
}

void conn_device_ref_add(struct conn_device_ref *device_ref,
			 struct weir_conn *c)
{
	c->device_ref = device_ref;
	c->ref_next = device_ref->conns;
	c->ref_pprev = &device_ref->conns;
	if (device_ref->conns)
		device_ref->conns->ref_pprev = &c->ref_next;
	device_ref->conns = c;
}

static void conn_device_ref_del(struct weir_conn *c)
{
	*c->ref_pprev = c->ref_next;
	if (c->ref_next)
		c->ref_next->ref_pprev = c->ref_pprev;
	c->device_ref = NULL;
}

/*
 * The QP of a connection.
 *
 * rdma_cm does not make the QP, because it has device contexts of its own, and
 * memory is registered in those of weir_device.  So we move the QP from state
 * to state, with the attributes that rdma_cm computes (rdma_init_qp_attr()),
 * and then tell rdma_cm: rdma_accept(), or rdma_establish().
 */

#define SGE_DEFAULT 16
#define INLINE_DEFAULT 64
#define READS_DEFAULT 16
#define RNR_TIMER_DEFAULT 12	/* 0.64 ms */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static bool has_keepalive(const struct weir_conn *c)
{
	return c->opts.keepalive_ns != WEIR_FOREVER;
}

uint32_t conn_credits(const struct weir_conn *c)
{
	rdma_check_thread(c->r);
	return c->opts.sends + (c->opts.srq ? 0 : c->opts.recvs) +
	       has_keepalive(c);
}

/* The QP is in error before its work ends, so that nothing is written then. */
void conn_channel_failed(struct channel_user *user, int err)
{
	struct weir_conn *c = weir_container_of(user, struct weir_conn,
						channel_user);

	conn_fail(c, err);
	verbs_queue_abandon(c);
}

static void use_channel(struct weir_conn *c)
{
	c->channel_user.failed = conn_channel_failed;
	channel_user_add(c->channel, &c->channel_user);
}

static int get_channel(struct weir_conn *c)
{
	struct weir_channel_opts opts = { .size = sizeof(opts),
					  .depth = conn_credits(c) };
	int err;

	if (!c->given) {
		err = weir_channel_create(&c->channel, c->r,
					  c->device_ref->device->ctx, &opts);
		if (err)
			return err;
	} else if (weir_channel_cq(c->given)->context !=
		   c->device_ref->device->ctx) {
		return why(-EXDEV,
			   "weir_conn: the address is %s's, but the "
			   "channel is another device's",
			   c->device_ref->device->name);
	} else {
		c->channel = c->given;
	}
	err = channel_reserve(c->channel, conn_credits(c));
	if (!err) {
		use_channel(c);
		return 0;
	}
	if (!c->given)
		weir_channel_destroy(c->channel);
	c->channel = NULL;
	return why(err, "weir_conn: the channel has no capacity for %u "
		   "completions", conn_credits(c));
}

static void put_channel(struct weir_conn *c)
{
	channel_user_del(&c->channel_user);
	weir_channel_release(c->channel, conn_credits(c));
	if (!c->given)
		weir_channel_destroy(c->channel);
	c->channel = NULL;
}

static int make_beat(struct weir_conn *c)
{
	if (!has_keepalive(c))
		return 0;
	c->beat = mem_calloc(1, sizeof(*c->beat));
	if (!c->beat)
		return why(-ENOMEM, "weir_conn: no memory");
	c->beat->conn = c;
	return 0;
}

static struct ibv_qp *try_qp(struct weir_conn *c, uint32_t max_inline)
{
	const struct ibv_device_attr *attr = &c->device_ref->device->attr;
	const struct weir_srq *srq = c->opts.srq;
	uint32_t max_sge = c->opts.max_sge;
	struct ibv_qp_init_attr init = {
		.qp_context = c,
		.send_cq = weir_channel_cq(c->channel),
		.recv_cq = weir_channel_cq(srq ? srq->channel : c->channel),
		.srq = srq ? srq->srq : NULL,
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;

	if (!max_sge)
		max_sge = least(SGE_DEFAULT, (uint32_t)attr->max_sge);
	init.cap.max_send_wr = c->opts.sends + has_keepalive(c);
	init.cap.max_recv_wr = srq ? 0 : c->opts.recvs;
	init.cap.max_send_sge = max_sge;
	init.cap.max_recv_sge = init.cap.max_recv_wr ? 1 : 0;
	init.cap.max_inline_data = max_inline;
	errno = weir_fault("ibv_create_qp") ? ENOMEM : 0;
	qp = errno ? NULL : ibv_create_qp(c->device_ref->device->pd, &init);
	if (!qp)
		return NULL;
	c->max_sge = max_sge;
	c->max_inline = init.cap.max_inline_data;
	return qp;
}

/* Do without inline data if the device refuses them and the caller asked for
 * none. */
static int create_qp(struct weir_conn *c)
{
	uint32_t max_inline = c->opts.max_inline;
	int err;

	c->qp = try_qp(c, max_inline ? max_inline : INLINE_DEFAULT);
	if (!c->qp && !max_inline && errno == EINVAL)
		c->qp = try_qp(c, 0);
	if (c->qp)
		return 0;
	err = conn_error();
	return why(err,
		   "weir_conn: %s refuses a QP of %u sends and %u "
		   "receives: %s",
		   c->device_ref->device->name, c->opts.sends, c->opts.recvs,
		   strerror(-err));
}

/* The QP permits all; memory regions and windows decide what a peer may do. */
static void adjust(struct weir_conn *c, struct ibv_qp_attr *attr)
{
	const struct weir_conn_opts *opts = &c->opts;

	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_ATOMIC;
		break;
	case IBV_QPS_RTR:
		c->peer_qp = attr->dest_qp_num;
		attr->max_dest_rd_atomic = (uint8_t)c->reads_in;
		attr->min_rnr_timer = opts->rnr_timer ? opts->rnr_timer :
							RNR_TIMER_DEFAULT;
		break;
	case IBV_QPS_RTS:
		attr->max_rd_atomic = (uint8_t)c->reads_out;
		attr->retry_cnt = opts->retries;
		attr->rnr_retry = opts->rnr_retries;
		if (opts->ack_timeout)
			attr->timeout = opts->ack_timeout;
		break;
	default:
		break;
	}
}

/*
 * rdma_cm has no attributes for an id whose peer has given up: it returns
 * -EINVAL, which has no other cause.
 */
static int move(struct weir_conn *c, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0, err;

	errno = 0;
	if (weir_fault("rdma_init_qp_attr"))
		return -ENOMEM;
	if (rdma_init_qp_attr(c->id, &attr, &mask)) {
		err = conn_error();
		return why(err == -EINVAL ? -ECONNRESET : err,
			   "weir_conn: the peer has given up");
	}
	adjust(c, &attr);
	err = weir_fault("ibv_modify_qp") ? ENOMEM :
	      ibv_modify_qp(c->qp, &attr, mask);
	return !err ? 0 :
		      why(-err,
			  "weir_conn: %s does not take the QP to "
			  "state %d: %s",
			  c->device_ref->device->name, state, strerror(err));
}

/*
 * iWARP differs: its active side gets no CONNECT_RESPONSE, the target of a read
 * needs the right of remote write, and it has no immediate data.
 */
static int check_transport(const struct weir_conn *c)
{
	struct ibv_device *dev = c->id->verbs->device;

	if (dev->transport_type != IBV_TRANSPORT_IWARP)
		return 0;
	return why(-EOPNOTSUPP, "weir_conn: the address is %s's, an iWARP "
		   "device; use one of InfiniBand or RoCE",
		   ibv_get_device_name(dev));
}

/* How long a message, or a write or read, may be. */
static int ask_port(struct weir_conn *c)
{
	struct ibv_port_attr attr;
	int err = weir_fault("ibv_query_port") ?
			  EIO :
			  ibv_query_port(c->device_ref->device->ctx,
					 c->id->port_num, &attr);

	if (err)
		return why(-err,
			   "weir_conn: %s does not say what port %u can "
			   "do: %s",
			   c->device_ref->device->name, c->id->port_num,
			   strerror(err));
	c->max_message = least(attr.max_msg_sz, WEIR_MESSAGE_MAX);
	return 0;
}

static void set_reads(struct weir_conn *c)
{
	const struct ibv_device_attr *attr = &c->device_ref->device->attr;
	uint32_t reads = c->opts.reads ? c->opts.reads : READS_DEFAULT;

	c->reads_out = least(reads, (uint32_t)attr->max_qp_init_rd_atom);
	c->reads_in = least(reads, (uint32_t)attr->max_qp_rd_atom);
}

/* The QP and what it needs of others. */
static int make_qp(struct weir_conn *c)
{
	int err = 0;

	if (c->opts.srq)
		err = srq_bind(c->opts.srq, c->device_ref);
	if (!err)
		err = get_channel(c);
	if (err)
		return err;
	if (c->opts.srq)
		err = srq_join(c);
	if (!err)
		err = make_beat(c);
	if (!err)
		err = create_qp(c);
	if (!err)
		return 0;
	free(c->beat);
	c->beat = NULL;
	srq_unjoin(c);
	put_channel(c);
	return err;
}

int conn_qp_make(struct weir_conn *c)
{
	struct conn_device_ref *device_ref;
	int err = check_transport(c);

	rdma_check_thread(c->r);
	if (!err)
		err = conn_device_ref_get(
			&device_ref, c->r,
			ibv_get_device_name(c->id->verbs->device));
	if (err)
		return err;
	c->device_ref = device_ref;
	set_reads(c);
	err = ask_port(c);
	if (!err)
		err = make_qp(c);
	if (err) {
		c->device_ref = NULL;
		conn_device_ref_put(device_ref);
		return err;
	}
	conn_device_ref_add(device_ref, c);
	if (c->member)
		srq_joined(c);
	err = verbs_queue_create(c);
	if (!err)
		err = move(c, IBV_QPS_INIT);
	if (err)
		conn_qp_free(c);
	return err;
}

int conn_qp_ready(struct weir_conn *c)
{
	int err = move(c, IBV_QPS_RTR);

	rdma_check_thread(c->r);
	if (!err && c->member)
		c->member->ready = true;
	return err ? err : move(c, IBV_QPS_RTS);
}

/* All that is posted is flushed; so would be what is posted later. */
void conn_qp_error(struct weir_conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	rdma_check_thread(c->r);
	ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);
}

bool conn_qp_has_failed(struct weir_conn *c)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	rdma_check_thread(c->r);
	return ibv_query_qp(c->qp, &attr, IBV_QP_STATE, &init) ||
	       attr.qp_state == IBV_QPS_ERR || attr.qp_state == IBV_QPS_SQE;
}

/*
 * Take the connection off the list of its tap first, so that no event finds it
 * any more.  Windows are destroyed before the QP, because soft-RoCE waits for
 * them.  If the device has gone, the call that destroys the QP may fail; the QP
 * has gone too.  With a shared receive queue, the queue destroys the QP.
 */
void conn_qp_free(struct weir_conn *c)
{
	struct conn_device_ref *device_ref = c->device_ref;
	uint32_t qp_num;

	rdma_check_thread(c->r);
	verbs_queue_free(c);
	conn_drop_messages(c);
	conn_device_ref_del(c);
	if (c->windows)
		c->windows_end(c);
	if (c->member) {
		conn_qp_error(c);
		srq_leave(c);
	} else {
		qp_num = c->qp->qp_num;
		ibv_destroy_qp(c->qp);
		conn_beat_free(c->beat, c->channel, qp_num, c->orphans);
		put_channel(c);
	}
	c->beat = NULL;
	c->orphans = false;
	c->channel = NULL;
	c->qp = NULL;
	c->has_dropped = false;
	conn_device_ref_put(device_ref);
}
