/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data from a connected socket, in buffers of a receive free list: the reactor's, or one
 * of its own.
 *
 * While it is paused, or its reactor stops, it keeps data that the kernel still
 * delivers in a queue of buffers, linked through the free list's info.  It
 * delivers them in later turns, after it is resumed.
 */

#include <weir/socket.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/own.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/rx.h"
#include "reactor/source.h"

#define NOT_ENDED INT64_MAX

struct weir_receiver {
	struct source source;
	weir_receiver_fn *fn;
	void *arg;
	struct weir_op resume;	/* Its callback hands out the queue. */
	struct rx_queue kept;
	int64_t end;		/* The end or error, not reported yet. */
	uint32_t entered;	/* Calls of ours on the stack that need this. */
	bool paused;
	bool released;		/* By the source: freed if nothing else needs it. */
};

static bool has_own(const struct weir_receiver *rc)
{
	return rc->source.rx->source;
}

static void free_if_unused(struct weir_receiver *rc)
{
	if (!rc->released || rc->entered || weir_op_is_busy(&rc->resume))
		return;
	if (has_own(rc))
		rx_end(rc->source.reactor, rc->source.rx);
	free(rc);
}

static void leave(struct weir_receiver *rc)
{
	rc->entered--;
	free_if_unused(rc);
}

/* Its caller has entered. */
static void give(struct weir_receiver *rc, int id)
{
	struct weir_reactor *r = rc->source.reactor;
	struct rx_free_list *rx = rc->source.rx;

	debug_check(rc->entered);
	if (rc->fn(rc, rx_buf(rx, id), rx->info[id].len, rc->arg) !=
	    WEIR_RECEIVER_KEEP) {
		check(rx->info[id].out);
		rx_put(r, rx, id);
	}
}

static bool is_silent(const struct weir_receiver *rc)
{
	return rc->paused ||
	       rc->source.reactor->state != WEIR_REACTOR_RUNNING;
}

static bool must_keep(const struct weir_receiver *rc)
{
	return is_silent(rc) || !rx_queue_empty(&rc->kept);
}

static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct weir_receiver *rc = weir_container_of(s, struct weir_receiver,
						     source);

	if (res > 0) {
		rx_out(s->rx, rx_id, (uint32_t)res);
		if (must_keep(rc)) {
			rx_queue_push(s->rx, &rc->kept, rx_id);
			return;
		}
		rc->entered++;
		give(rc, rx_id);
		leave(rc);
		return;
	}

	/* The end: reported once, after all data. */
	source_disarm(s);
	if (must_keep(rc))
		rc->end = res;
	else
		rc->fn(rc, NULL, res, rc->arg);
}

static void release(struct source *s)
{
	struct weir_receiver *rc = weir_container_of(s, struct weir_receiver,
						     source);

	rc->released = true;
	free_if_unused(rc);
}

/*
 * Hand out what was kept.  The callback may pause the receiver, or destroy it:
 * then there is nothing left to hand out, and no end to tell.
 */
static void on_resume(struct weir_op *op, int64_t res)
{
	struct weir_receiver *rc = weir_container_of(op, struct weir_receiver,
						     resume);
	int64_t end;

	(void)res;
	rc->entered++;
	while (!is_silent(rc) && !rx_queue_empty(&rc->kept))
		give(rc, rx_queue_pop(rc->source.rx, &rc->kept));
	if (!is_silent(rc) && rc->end != NOT_ENDED) {
		end = rc->end;
		rc->end = NOT_ENDED;
		rc->fn(rc, NULL, end, rc->arg);
	}
	leave(rc);
}

/* Never inside a call: what was kept comes from the loop. */
static void hand_out_later(struct weir_receiver *rc)
{
	if ((!rx_queue_empty(&rc->kept) || rc->end != NOT_ENDED) &&
	    !weir_op_is_busy(&rc->resume))
		op_defer(rc->source.reactor, &rc->resume);
}

static void on_start(struct reactor_obj *obj)
{
	struct weir_receiver *rc = weir_container_of(obj, struct weir_receiver,
						     source.obj);

	if (!rc->paused)
		hand_out_later(rc);
	source_start(obj);
}

static int check_fd(struct weir_reactor *r, int fd)
{
	socklen_t len = sizeof(int);
	int type;

	if (r->backend->check_fd)
		return r->backend->check_fd(r, SOURCE_RECV, fd,
					    "weir_receiver_create");
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len))
		return why(-errno, "weir_receiver_create: descriptor %d is not "
			   "a socket", fd);
	/* An empty message would look like the end; a long one, truncated. */
	if (type != SOCK_STREAM)
		return why(-EINVAL, "weir_receiver_create: descriptor %d is a "
			   "socket for messages, not a stream; use "
			   "weir_recvmsg()", fd);
	return 0;
}

static int load_opts(struct weir_receiver_opts *o, const struct weir_reactor *r,
		     const struct weir_receiver_opts *opts)
{
	int err = opts_load(o, sizeof(*o), opts, "weir_receiver_create");

	if (err)
		return err;
	if (o->buf_size && !o->bufs)
		return why(-EINVAL, "weir_receiver_create: .buf_size without .bufs");
	if (!o->buf_size)
		o->buf_size = r->opts.rx_buf_size;
	if (o->bufs & (o->bufs - 1) || o->bufs > RX_BUFS_MAX || o->buf_size > RX_BUF_MAX)
		return why(-EINVAL, "weir_receiver_create: .bufs is no power of 2 up to "
			   "%u, or .buf_size is over %u", RX_BUFS_MAX, RX_BUF_MAX);
	return 0;
}

static int receiver_start(struct weir_receiver *rc, struct weir_reactor *r,
			  int fd, const struct weir_receiver_opts *o)
{
	struct source *s = &rc->source;
	int err = o->bufs ? rx_make(&s->rx, o->bufs, o->buf_size) : rx_create(r);

	if (err)
		return why(err, "weir_receiver_create: no memory for receive buffers");
	if (o->bufs)
		s->rx->source = s;
	else
		s->rx = r->rx;
	s->deliver = deliver;
	s->release = release;
	err = source_init(s, r, "weir_receiver", SOURCE_RECV, fd);
	s->obj.start = on_start;
	if (err && o->bufs)
		rx_end(r, s->rx);
	return err;
}

int weir_receiver_create(struct weir_receiver **ret, struct weir_reactor *r,
			 int fd, const struct weir_receiver_opts *opts,
			 weir_receiver_fn *fn, void *arg)
{
	struct weir_receiver_opts o;
	struct weir_receiver *rc;
	int err = load_opts(&o, r, opts);

	if (!err && !fn)
		err = why(-EINVAL, "weir_receiver_create: no callback");
	if (!err)
		err = check_fd(r, fd);
	if (err)
		return err;
	rc = mem_calloc(1, sizeof(*rc));
	if (!rc)
		return why(-ENOMEM, "weir_receiver_create: no memory");
	rc->fn = fn;
	rc->arg = arg;
	rx_queue_init(&rc->kept);
	rc->end = NOT_ENDED;
	weir_op_init(&rc->resume, on_resume);
	err = receiver_start(rc, r, fd, &o);
	if (err) {
		free(rc);
		return err;
	}
	err = source_arm(&rc->source);
	if (err) {
		weir_receiver_destroy(rc);
		return why(err, "weir_receiver_create: no capacity for descriptor "
			   "%d", fd);
	}
	*ret = rc;
	return 0;
}

static int go_on(struct weir_receiver *rc)
{
	int err = 0;

	if (rc->end == NOT_ENDED)
		err = source_arm(&rc->source);
	if (!err)
		hand_out_later(rc);
	return err;
}

int weir_receiver_set(struct weir_receiver *receiver, int on)
{
	struct source *s = &receiver->source;

	reactor_check_thread(s->reactor);
	if (s->reactor->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, "weir_receiver_set: the reactor is "
			   "stopping or stopped");
	if (receiver->paused == !on)
		return 0;
	receiver->paused = !on;
	if (on)
		return go_on(receiver);
	source_disarm(s);
	return 0;
}

void weir_receiver_release_own(struct weir_receiver *receiver, void *data)
{
	struct weir_reactor *r = receiver->source.reactor;
	struct rx_free_list *rx = receiver->source.rx;
	int id;

	reactor_check_thread(r);
	check(has_own(receiver));
	id = rx_id_of(rx, data);
	check(data == rx_buf(rx, id));
	rx_put(r, rx, id);
	reactor_touch(r);
}

void weir_receiver_destroy(struct weir_receiver *receiver)
{
	struct rx_free_list *rx;
	struct weir_reactor *r;

	if (!receiver)
		return;
	r = receiver->source.reactor;
	rx = receiver->source.rx;
	while (!has_own(receiver) && !rx_queue_empty(&receiver->kept))
		rx_put(r, rx, rx_queue_pop(rx, &receiver->kept));
	rx_queue_init(&receiver->kept);
	receiver->end = NOT_ENDED;
	source_destroy(&receiver->source);
}
