/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to what calls back again and again. */

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <time.h>

#include "tests/fuzz/calls.h"

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct object *o = arg;

	MUST(o->h == timer && n);
	act(o);
}

static void call_timer_create(struct core *c)
{
	struct object *o = object_new(A_TIMER, c);
	struct weir_timer *timer;

	if (o)
		object_made(o, &timer, CALL(weir_timer_create, &timer, c->r,
					    on_timer, o));
}

static void call_timer_start(struct core *c)
{
	struct object *o = any(A_TIMER);

	(void)c;
	if (o)
		CALLV(weir_timer_start, o->h, some_time(),
		      rnd(3) ? 0 : 100 + some_span());
}

static void call_timer_stop(struct core *c)
{
	struct object *o = any(A_TIMER);

	(void)c;
	if (o)
		CALLV(weir_timer_stop, o->h);
}

static void call_timer_is_set(struct core *c)
{
	struct object *o = any(A_TIMER);

	(void)c;
	if (o)
		(void)GOT(weir_timer_is_set, o->h);
}

static void on_watch(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct object *o = arg;

	MUST(o->h == watch && events && !(events & WEIR_EDGE));
	act(o);
}

static void call_watch_create(struct core *c)
{
	struct object *o, *fd = any(A_FD);
	struct weir_watch *watch;

	if (!fd || fd->fd_kind == FD_FILE)
		return;
	o = object_new(A_WATCH, c);
	if (!o)
		return;
	object_pin(o, fd);
	object_made(o, &watch,
		    CALL(weir_watch_create, &watch, c->r, fd->fd,
			 1 + rnd(2) + rnd(2) * WEIR_EDGE +
				 one_in(4) * WEIR_THROUGH_STOP,
			 on_watch, o));
}

static void call_watch_set(struct core *c)
{
	struct object *o = any(A_WATCH);

	(void)c;
	if (o)
		(void)CALL(weir_watch_set, o->h,
			   rnd(3) + rnd(2) * WEIR_EDGE);
}

static void on_event(struct weir_event *event, uint64_t n, void *arg)
{
	struct object *o = arg;

	MUST(o->h == event && n);
	act(o);
}

static void call_event_create(struct core *c)
{
	struct object *o = object_new(AN_EVENT, c);
	struct weir_event *event;

	if (o)
		object_made(o, &event, CALL(weir_event_create, &event, c->r,
					    on_event, o));
}

static void call_event_signal(struct core *c)
{
	struct object *o = any(AN_EVENT);

	(void)c;
	if (o)
		CALLV(weir_event_signal, o->h);
}

static void call_event_fd(struct core *c)
{
	struct object *o = any(AN_EVENT);

	(void)c;
	if (o)
		(void)GOT(weir_event_fd, o->h);
}

static void on_signal(struct weir_signal *s, const struct signalfd_siginfo *info,
		      void *arg)
{
	struct object *o = arg;

	MUST(o->h == s && info->ssi_signo == SIGUSR1);
	act(o);
}

/* One for the thread, whose mask it changes. */
static void call_signal_create(struct core *c)
{
	struct object *o;
	struct weir_signal *s;

	if (w.sim)
		return;
	o = any(A_SIGNAL) ? NULL : object_new(A_SIGNAL, c);
	if (o)
		object_made(o, &s, CALL(weir_signal_create, &s, c->r, SIGUSR1,
					on_signal, o));
	if (any(A_SIGNAL))
		raise(SIGUSR1);
}

/* It lives until it is killed, or ends at once. */
static void call_child_create(struct core *c)
{
	static char *const argvs[2][3] = { { "/bin/sleep", "1000", NULL },
					   { "/bin/true", NULL } };
	struct weir_child_opts opts = {
		.size = sizeof(opts),
		.argv = argvs[rnd(2)],
		.io = { { WEIR_STDIO_PIPE_TO, 0 }, { WEIR_STDIO_NULL, 0 } },
	};
	struct object *o = any(A_CHILD) ? NULL : object_new(A_CHILD, c);
	struct weir_child *child;

	if (o)
		object_made(o, &child, CALL(weir_child_create, &child, c->r,
					    &opts));
}

static void call_child_take_fd(struct core *c)
{
	struct object *o = any(A_CHILD);
	int fd;

	(void)c;
	if (!o)
		return;
	fd = (int)CALL(weir_child_take_fd, o->h, rnd(4));
	if (fd >= 0)
		close(fd);
}

static void call_child_pid(struct core *c)
{
	struct object *o = any(A_CHILD);

	(void)c;
	if (o)
		(void)GOT(weir_child_pid, o->h);
}

static void call_child_kill(struct core *c)
{
	struct object *o = any(A_CHILD);

	(void)c;
	if (o)
		(void)CALL(weir_child_kill, o->h, rnd(2) ? SIGKILL : 0);
}

static void call_child_wait(struct core *c)
{
	struct object *o = any_on(A_CHILD, c);
	struct task *t = o ? task_new(c) : NULL;

	if (t)
		START(t, weir_child_wait, o->h, OP(t),
		      (struct weir_child_status *)(void *)t->result);
}

static void on_alarm(struct weir_alarm *alarm, uint32_t events, void *arg)
{
	struct object *o = arg;

	/* Another program may set the clock. */
	MUST(o->h == alarm && events && !(events & ~3u));
	act(o);
}

static void call_alarm_create(struct core *c)
{
	struct object *o = object_new(AN_ALARM, c);
	struct weir_alarm *alarm;

	if (o)
		object_made(o, &alarm, CALL(weir_alarm_create, &alarm, c->r,
					    on_alarm, o));
}

/* A moment ago, now, or in an hour. */
static void call_alarm_set(struct core *c)
{
	struct object *o = any(AN_ALARM);
	struct timespec now;

	(void)c;
	clock_gettime(CLOCK_REALTIME, &now);
	if (o)
		CALLV(weir_alarm_set, o->h, (uint64_t)now.tv_sec * WEIR_SEC +
		      (uint64_t)now.tv_nsec +
		      (rnd(2) ? 0 : rnd(3600) * WEIR_SEC));
}

static void call_alarm_stop(struct core *c)
{
	struct object *o = any(AN_ALARM);

	(void)c;
	if (o)
		CALLV(weir_alarm_stop, o->h);
}

static void on_change(struct weir_fswatch *watch,
		      const struct weir_fswatch_event *event, void *arg)
{
	struct object *o = arg;

	MUST(o->h == watch && event->mask);
	act(o);
}

static void call_fswatch_create(struct core *c)
{
	struct object *o = any(A_FSWATCH) ? NULL : object_new(A_FSWATCH, c);
	struct weir_fswatch *watch;

	if (o)
		object_made(o, &watch, CALL(weir_fswatch_create, &watch, c->r,
					    on_change, o));
}

/* At most one in a watch, so that its number is known. */
static void call_fswatch_add(struct core *c)
{
	struct object *o = any(A_FSWATCH);
	int id;

	(void)c;
	if (!o)
		return;
	id = (int)CALL(weir_fswatch_add, o->h, w.dir, IN_CREATE | IN_MOVE, o);
	MUST(id > 0 || id == -EEXIST || id == -ENOENT || id == -ENOMEM ||
	     id == -ENOSPC);
	if (id > 0)
		o->fd = id;
}

static void call_fswatch_remove(struct core *c)
{
	struct object *o = any(A_FSWATCH);

	(void)c;
	if (o)
		(void)CALL(weir_fswatch_remove, o->h, o->fd);
}

static int on_poller(struct weir_poller *poller, void *arg)
{
	struct object *o = arg;

	MUST(o->h == poller);
	act(o);
	return (int)rnd(2);
}

static void call_poller_create(struct core *c)
{
	struct object *o = object_new(A_POLLER, c);
	struct weir_poller *poller;

	if (o)
		object_made(o, &poller,
			    CALL(weir_poller_create, &poller, c->r,
				 WEIR_USEC + some_span(), on_poller, o));
}

static void on_accept(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	struct object *o = arg;

	MUST(o->h == acceptor);
	if (fd >= 0 && one_in(2))
		(void)CALL(weir_acceptor_peer, acceptor,
			   &peer, &len);
	if (fd >= 0)
		fd_new(fd, FD_STREAM);
	act(o);
}

static void call_acceptor_set(struct core *c)
{
	struct object *o = any(AN_ACCEPTOR);

	(void)c;
	if (o)
		(void)CALL(weir_acceptor_set, o->h, (int)rnd(2));
}

/* Nowhere to put it. */
static void call_acceptor_peer(struct core *c)
{
	struct object *o = any(AN_ACCEPTOR);

	(void)c;
	if (o)
		MUST(CALL(weir_acceptor_peer, o->h, NULL, NULL) == -EINVAL);
}

/* A hook that says so now and then. */
static int on_hook_poll(void *arg)
{
	act(arg);
	return one_in(8);
}

static int on_hook_deliver(void *arg, uint32_t max)
{
	act(arg);
	return max && one_in(2);
}

static int on_hook_sleep(void *arg, int *fd)
{
	(void)fd;
	act(arg);
	return one_in(16);
}

static void on_hook_awake(void *arg, int readable)
{
	(void)readable;
	act(arg);
}

static void call_poll_hook_create(struct core *c)
{
	static const struct weir_poll_hook_ops ops = {
		.size = sizeof(ops),
		.name = "fuzz",
		.poll = on_hook_poll,
		.deliver = on_hook_deliver,
		.before_sleep = on_hook_sleep,
		.after_sleep = on_hook_awake,
	};
	struct object *o = object_new(A_HOOK, c);
	struct weir_poll_hook *hook;

	if (o)
		object_made(o, &hook, CALL(weir_poll_hook_create, &hook, c->r,
					   &ops, o));
}

static void call_poll_hook_stats(struct core *c)
{
	struct weir_poll_hook_stats stats = { .size = sizeof(stats) };
	struct object *o = any(A_HOOK);

	(void)c;
	if (o)
		MUST(!CALL(weir_poll_hook_stats, o->h, &stats));
}

static void on_object(void *arg)
{
	act(arg);
}

static void on_publish(void *arg, uint64_t *values)
{
	(void)arg;
	values[0] = 1;
}

static void call_object_create(struct core *c)
{
	static const struct weir_object_field fields[] = {
		{ "one", "Always 1", WEIR_STATS_GAUGE, WEIR_STATS_NUMBER, 0 },
	};
	static const struct weir_object_ops ops = {
		.size = sizeof(ops),
		.name = "fuzz",
		.notified = on_object,
		.stop = on_object,
		.fields = fields,
		.n_fields = 1,
		.publish = on_publish,
	};
	struct object *o = object_new(AN_OBJECT, c);
	struct weir_object *obj;

	if (o)
		object_made(o, &obj, CALL(weir_object_create, &obj, c->r, &ops,
					  "fuzz", o));
}

static void call_object_notify(struct core *c)
{
	struct object *o = any(AN_OBJECT);

	(void)c;
	if (o)
		CALLV(weir_object_notify, o->h);
}

static void call_acceptor_create(struct core *c)
{
	struct object *o, *fd = any(A_FD);
	struct weir_acceptor *acceptor;

	if (!fd || fd->fd_kind == FD_FILE)
		return;
	o = object_new(AN_ACCEPTOR, c);
	if (!o)
		return;
	object_pin(o, fd);
	object_made(o, &acceptor, CALL(weir_acceptor_create, &acceptor, c->r,
				       fd->fd, on_accept, o));
}

static int on_receive(struct weir_receiver *receiver, void *data, int64_t len,
		      void *arg)
{
	struct object *o = arg, *kept = NULL;

	MUST(o->h == receiver && (len > 0) == (data != NULL));
	if (len > 0) {
		memset(data, 0, (size_t)len);
		kept = one_in(3) ? object_new(KEPT, o->core) : NULL;
	}
	if (kept && o->flag)
		object_pin(kept, o);
	act(o);
	if (kept)
		kept->h = data;
	return kept ? WEIR_RECEIVER_KEEP : WEIR_RECEIVER_DONE;
}

static void call_receiver_create(struct core *c)
{
	struct weir_receiver_opts opts = {
		.size = sizeof(opts), .bufs = one_in(2) ? 1u << rnd(4) : 0,
	};
	struct object *o, *fd = any(A_FD);
	struct weir_receiver *receiver;

	if (!fd || fd->fd_kind == FD_FILE)
		return;
	o = object_new(A_RECEIVER, c);
	if (!o)
		return;
	object_pin(o, fd);
	o->flag = opts.bufs;
	object_made(o, &receiver, CALL(weir_receiver_create, &receiver, c->r,
				       fd->fd, &opts, on_receive, o));
}

static void call_receiver_set(struct core *c)
{
	struct object *o = any(A_RECEIVER);

	(void)c;
	if (o)
		(void)CALL(weir_receiver_set, o->h, (int)rnd(2));
}

/* Streams: over a pair of which the other end is a descriptor for others. */
static void call_stream_create_fd(struct core *c)
{
	struct weir_stream_opts opts = {
		.size = sizeof(opts), .in_size = 1 + rnd(300),
		.out_size = 2 + rnd(300),
	};
	struct object *o = object_new(A_STREAM, c);
	struct weir_stream *s;
	int fds[2];
	int64_t err;

	if (!o)
		return;
	if (w.sim ? weir_sim_socket_pair(w.sim, fds) :
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		object_free(o);
		return;
	}
	err = CALL(weir_stream_create_fd, &s, c->r, fds[0], fds[0], &opts);
	object_made(o, &s, err);
	if (!err) {
		fd_new(fds[1], FD_STREAM);
	} else if (w.sim) {
		weir_sim_close(fds[0]);
		weir_sim_close(fds[1]);
	} else {
		close(fds[0]);
		close(fds[1]);
	}
}

/* A transport that never answers, but ends when it is cancelled. */
static void silent_cancel(struct weir_op *op, void *arg)
{
	(void)arg;
	weir_op_finish(op, -ECANCELED);
}

static int silent_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	struct core *c = arg;

	(void)buf, (void)len;
	return weir_op_start(c->r, op, silent_cancel, NULL);
}

static const struct weir_stream_ops silent = {
	.size = sizeof(silent), .name = "silent", .recv = silent_recv,
};

static void call_stream_create(struct core *c)
{
	struct object *o = object_new(A_STREAM, c);
	struct weir_stream *s;

	if (o)
		object_made(o, &s, CALL(weir_stream_create, &s, c->r, &silent,
					c, NULL));
}

static struct task *on_stream(struct object **ret)
{
	struct object *o = any(A_STREAM);
	struct task *t = o ? task_new(o->core) : NULL;

	if (!t)
		return NULL;
	task_buf(t);
	t->any_errno = true;
	*ret = o;
	return t;
}

#define ON_STREAM(name, ...)                                         \
	static void call_stream_##name(struct core *c)               \
	{                                                            \
		struct object *o;                                    \
		struct task *t = on_stream(&o);                      \
                                                                     \
		(void)c;                                             \
		if (t)                                               \
			START(t, weir_stream_##name, o->h, OP(t)     \
			      __VA_OPT__(, ) __VA_ARGS__);           \
	}

ON_STREAM(read, rnd(4) ? t->buf : NULL, t->len)
ON_STREAM(read_exact, rnd(4) ? t->buf : NULL, t->len)
ON_STREAM(read_until, rnd(4) ? t->buf : NULL, 1 + rnd(300), "", 1)
ON_STREAM(write, t->buf, t->len, rnd(2))
ON_STREAM(flush)
ON_STREAM(shutdown)

static void call_stream_writev(struct core *c)
{
	struct object *o;
	struct task *t = on_stream(&o);

	(void)c;
	if (!t)
		return;
	t->iov[0] = (struct iovec){ t->buf, t->len / 2 };
	t->iov[1] = (struct iovec){ t->buf + t->len / 2, t->len };
	START(t, weir_stream_writev, o->h, OP(t), t->iov, rnd(3), rnd(2));
}

static void call_stream_sendfile(struct core *c)
{
	struct object *o, *fd = any(A_FD);
	struct task *t;

	(void)c;
	if (!fd || fd->fd_kind != FD_FILE)
		return;
	t = on_stream(&o);
	if (!t)
		return;
	task_pin(t, fd);
	START(t, weir_stream_sendfile, o->h, OP(t), fd->fd, rnd(100),
	      rnd(10000), rnd(2));
}

static void call_stream_pipe(struct core *c)
{
	struct object *o, *to = any(A_STREAM);
	struct task *t = to ? on_stream(&o) : NULL;

	(void)c;
	if (t)
		START(t, weir_stream_pipe, o->h, OP(t), to->h,
		      rnd(2) ? WEIR_FOREVER : rnd(500), rnd(2));
}

/* The result may be any error of the transport. */
static void call_stream_put(struct core *c)
{
	struct object *o = any(A_STREAM);
	static char bytes[400];

	(void)c;
	if (o)
		(void)GOT(weir_stream_put, o->h, bytes, rnd(400), rnd(2));
}

static void call_stream_peek(struct core *c)
{
	struct object *o = any(A_STREAM);
	const void *data;

	(void)c;
	if (o)
		MUST(GOT(weir_stream_peek, o->h, &data) <= 16384 && data);
}

static void call_stream_consume(struct core *c)
{
	struct object *o = any(A_STREAM);

	(void)c;
	if (o)
		(void)CALL(weir_stream_consume, o->h, rnd(100));
}

static void call_stream_unread(struct core *c)
{
	struct object *o = any(A_STREAM);
	static char bytes[100];

	(void)c;
	if (o)
		(void)CALL(weir_stream_unread, o->h, bytes, rnd(100));
}

static void call_stream_unsent(struct core *c)
{
	struct object *o = any(A_STREAM);

	(void)c;
	if (o)
		MUST(GOT(weir_stream_unsent, o->h) <= 302);
}

static void call_stream_transport(struct core *c)
{
	struct object *o = any(A_STREAM);

	(void)c;
	if (o)
		(void)GOT(weir_stream_transport, o->h, &silent);
}

#define DESTROY(name, what) \
	static void call_##name(struct core *c) \
	{ \
		struct object *o = any(what); \
\
		(void)c; \
		if (o) \
			object_destroy(o); \
	}

DESTROY(timer_destroy, A_TIMER)
DESTROY(watch_destroy, A_WATCH)
DESTROY(event_destroy, AN_EVENT)
DESTROY(signal_destroy, A_SIGNAL)
DESTROY(poller_destroy, A_POLLER)
DESTROY(child_destroy, A_CHILD)
DESTROY(alarm_destroy, AN_ALARM)
DESTROY(fswatch_destroy, A_FSWATCH)
DESTROY(poll_hook_destroy, A_HOOK)
DESTROY(object_destroy, AN_OBJECT)
DESTROY(acceptor_destroy, AN_ACCEPTOR)
DESTROY(receiver_destroy, A_RECEIVER)
DESTROY(stream_close, A_STREAM)

/* What a receiver has kept of the reactor's buffers, or of its own. */
static void release_kept(bool own)
{
	struct object *o = any(KEPT);

	if (o && !o->of == !own)
		object_destroy(o);
}

static void call_receiver_release(struct core *c)
{
	(void)c;
	release_kept(false);
}

static void call_receiver_release_own(struct core *c)
{
	(void)c;
	release_kept(true);
}

const struct call calls_source[] = {
	{ "weir_timer_create", call_timer_create, 12 },
	{ "weir_timer_start", call_timer_start, 24 },
	{ "weir_timer_stop", call_timer_stop, 4 },
	{ "weir_timer_is_set", call_timer_is_set, 2 },
	{ "weir_timer_destroy", call_timer_destroy, 8 },
	{ "weir_watch_create", call_watch_create, 16 },
	{ "weir_watch_set", call_watch_set, 12 },
	{ "weir_watch_destroy", call_watch_destroy, 12 },
	{ "weir_event_create", call_event_create, 6 },
	{ "weir_event_signal", call_event_signal, 16 },
	{ "weir_event_fd", call_event_fd, 2 },
	{ "weir_event_destroy", call_event_destroy, 6 },
	{ "weir_signal_create", call_signal_create, 4 },
	{ "weir_signal_destroy", call_signal_destroy, 3 },
	{ "weir_child_create", call_child_create, 1 },
	{ "weir_child_take_fd", call_child_take_fd, 2 },
	{ "weir_child_pid", call_child_pid, 2 },
	{ "weir_child_kill", call_child_kill, 2 },
	{ "weir_child_wait", call_child_wait, 4 },
	{ "weir_child_destroy", call_child_destroy, 2 },
	{ "weir_alarm_create", call_alarm_create, 4 },
	{ "weir_alarm_set", call_alarm_set, 8 },
	{ "weir_alarm_stop", call_alarm_stop, 2 },
	{ "weir_alarm_destroy", call_alarm_destroy, 3 },
	{ "weir_fswatch_create", call_fswatch_create, 2 },
	{ "weir_fswatch_add", call_fswatch_add, 4 },
	{ "weir_fswatch_remove", call_fswatch_remove, 2 },
	{ "weir_fswatch_destroy", call_fswatch_destroy, 1 },
	{ "weir_poller_create", call_poller_create, 6 },
	{ "weir_poller_destroy", call_poller_destroy, 8 },
	{ "weir_poll_hook_create", call_poll_hook_create, 2 },
	{ "weir_poll_hook_stats", call_poll_hook_stats, 2 },
	{ "weir_poll_hook_destroy", call_poll_hook_destroy, 3 },
	{ "weir_object_create", call_object_create, 4 },
	{ "weir_object_notify", call_object_notify, 8 },
	{ "weir_object_destroy", call_object_destroy, 3 },
	{ "weir_acceptor_create", call_acceptor_create, 6 },
	{ "weir_acceptor_set", call_acceptor_set, 4 },
	{ "weir_acceptor_peer", call_acceptor_peer, 2 },
	{ "weir_acceptor_destroy", call_acceptor_destroy, 6 },
	{ "weir_receiver_create", call_receiver_create, 12 },
	{ "weir_receiver_set", call_receiver_set, 8 },
	{ "weir_receiver_release", call_receiver_release, 8 },
	{ "weir_receiver_release_own", call_receiver_release_own, 8 },
	{ "weir_receiver_destroy", call_receiver_destroy, 8 },
	{ "weir_stream_create_fd", call_stream_create_fd, 10 },
	{ "weir_stream_create", call_stream_create, 2 },
	{ "weir_stream_close", call_stream_close, 6 },
	{ "weir_stream_read", call_stream_read, 10 },
	{ "weir_stream_read_exact", call_stream_read_exact, 8 },
	{ "weir_stream_read_until", call_stream_read_until, 8 },
	{ "weir_stream_write", call_stream_write, 10 },
	{ "weir_stream_writev", call_stream_writev, 8 },
	{ "weir_stream_flush", call_stream_flush, 4 },
	{ "weir_stream_shutdown", call_stream_shutdown, 2 },
	{ "weir_stream_sendfile", call_stream_sendfile, 8 },
	{ "weir_stream_pipe", call_stream_pipe, 6 },
	{ "weir_stream_put", call_stream_put, 8 },
	{ "weir_stream_peek", call_stream_peek, 4 },
	{ "weir_stream_consume", call_stream_consume, 6 },
	{ "weir_stream_unread", call_stream_unread, 6 },
	{ "weir_stream_unsent", call_stream_unsent, 3 },
	{ "weir_stream_transport", call_stream_transport, 2 },
	{ NULL, NULL, 0 },
};
