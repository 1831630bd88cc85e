/* SPDX-License-Identifier: BSD-3-Clause */

/* The errnos that the headers of the loop document: reactors, groups, timers,
 * watches, sockets, files, published statistics. */

#include "tests/support/errnos-fixture.h"
#include "tests/support/ignore.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/group.h>
#include <weir/object.h>
#include <weir/poll-hook.h>
#include <weir/sim/world.h>
#include <weir/socket.h>
#include <weir/stats.h>
#include <weir/stream.h>
#include <weir/timer.h>
#include <weir/udp.h>
#include <weir/uring.h>
#include <weir/watch.h>

/* Reactors. */

static struct weir_reactor_opts reactor_opts(void **state)
{
	return (struct weir_reactor_opts){
		.size = sizeof(struct weir_reactor_opts),
		.backend = backend_of(*state),
	};
}

RETURNS(weir_reactor_create, EINVAL)
{
	struct weir_reactor_opts opts = reactor_opts(state);
	struct weir_reactor *r = NULL;

	opts.backend = 77;
	return weir_reactor_create(&r, &opts);
}

RETURNS(weir_reactor_create, EMFILE)
{
	struct weir_reactor_opts opts = reactor_opts(state);
	struct weir_reactor *r = NULL;

	no_descriptors();
	return plenty(weir_reactor_create(&r, &opts));
}

RETURNS(weir_reactor_create, ENOMEM)
{
	struct weir_reactor_opts opts = reactor_opts(state);
	struct weir_reactor *r = NULL;

	no_memory();
	return plenty(weir_reactor_create(&r, &opts));
}

RETURNS(weir_reactor_fd, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);

	no_descriptors();
	return plenty(weir_reactor_fd(r));
}

static void turn_inside(struct weir_op *op, int64_t res)
{
	struct rec *rec = weir_container_of(op, struct rec, op);

	rec_done(op, res);
	rec->res = weir_reactor_turn(rec->stop, 0);
	rec->stop = NULL;
}

static void run_inside(struct weir_op *op, int64_t res)
{
	struct rec *rec = weir_container_of(op, struct rec, op);

	rec_done(op, res);
	rec->res = weir_reactor_run(rec->stop);
	rec->stop = NULL;
}

/* What @fn, a callback of the reactor, has as its result. */
static int64_t inside(void **state, weir_op_fn *fn)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;

	rec_init(&rec);
	rec.op.fn = fn;
	STARTS(weir_defer(r, &rec.op));
	rec.stop = r;
	return finish(r, &rec);
}

RETURNS(weir_reactor_turn, EBUSY)
{
	return inside(state, turn_inside);
}

RETURNS(weir_reactor_run, EBUSY)
{
	return inside(state, run_inside);
}

RETURNS(weir_reactor_run, EDEADLK)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r = NULL;
	int err;

	assert_int_equal(weir_sim_create(&opts.sim, 1, NULL), 0);
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	err = weir_reactor_run(r);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(weir_sim_destroy(opts.sim), 0);
	return err;
}

RETURNS(weir_defer, EINVAL)
{
	struct weir_op op;

	weir_op_init(&op, NULL);
	return weir_defer(start_reactor(state), &op);
}

RETURNS(weir_defer, ESHUTDOWN)
{
	struct rec rec;

	rec_init(&rec);
	return weir_defer(stopped_reactor(state), &rec.op);
}

/* Set a deadline of an operation that has its result, as its callback does. */
RETURNS(weir_op_set_deadline, EINVAL)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;
	int err;

	rec_init(&rec);
	STARTS(weir_defer(r, &rec.op));
	err = weir_op_set_deadline(&rec.op, 1);
	finish(r, &rec);
	return err;
}

static int64_t no_work(void *arg)
{
	(void)arg;
	return 0;
}

RETURNS(weir_work, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;

	rec_init(&rec);
	no_memory();
	return plenty(weir_work(r, &rec.op, no_work, NULL));
}

RETURNS(weir_uring_probe, EMFILE)
{
	struct weir_uring_info info = { .size = sizeof(info) };

	unsetenv("WEIR_BACKEND");
	no_descriptors();
	return plenty(weir_uring_probe(&info));
}

/* Groups. */

static struct weir_group *group_of(uint32_t cores)
{
	struct weir_group_opts opts = { .size = sizeof(opts),
					.n_cores = cores };
	struct weir_group *g = NULL;

	assert_int_equal(weir_group_create(&g, &opts), 0);
	return g;
}

RETURNS(weir_group_create, E2BIG)
{
	struct weir_group *g = NULL;

	return weir_group_create(&g, later_options());
}

RETURNS(weir_group_create, ENOMEM)
{
	struct weir_group *g = NULL;

	no_memory();
	return plenty(weir_group_create(&g, NULL));
}

RETURNS(weir_group_set_cpus, ENOMEM)
{
	struct weir_group *g = group_of(1);
	const uint32_t cpu = 0;
	int64_t err;

	no_memory();
	err = plenty(weir_group_set_cpus(g, &cpu, 1));
	assert_int_equal(weir_group_destroy(g), 0);
	return err;
}

RETURNS(weir_group_start, EMFILE)
{
	struct weir_group *g = group_of(1);
	int64_t err;

	no_descriptors();
	err = plenty(weir_group_start(g));
	assert_int_equal(weir_group_destroy(g), 0);
	return err;
}

RETURNS(weir_group_start, ENOMEM)
{
	struct weir_group *g = group_of(1);
	int64_t err;

	no_memory();
	err = plenty(weir_group_start(g));
	assert_int_equal(weir_group_destroy(g), 0);
	return err;
}

/* What a group that runs answers to @call. */
static int64_t while_running(int (*call)(struct weir_group *g))
{
	struct weir_group *g = group_of(1);
	int err;

	assert_int_equal(weir_group_start(g), 0);
	err = call(g);
	assert_int_equal(weir_group_stop(g), 0);
	assert_int_equal(weir_group_run(g), 0);
	assert_int_equal(weir_group_destroy(g), 0);
	return err;
}

static int set_core_fns(struct weir_group *g)
{
	return weir_group_set_core_fns(g, NULL, NULL, NULL);
}

static int set_event_fn(struct weir_group *g)
{
	return weir_group_set_event_fn(g, NULL, NULL);
}

static int set_cpus(struct weir_group *g)
{
	return weir_group_set_cpus(g, NULL, 0);
}

RETURNS(weir_group_set_core_fns, EBADFD)
{
	return while_running(set_core_fns);
}

RETURNS(weir_group_set_event_fn, EBADFD)
{
	return while_running(set_event_fn);
}

RETURNS(weir_group_set_cpus, EBADFD)
{
	return while_running(set_cpus);
}

RETURNS(weir_group_destroy, EBUSY)
{
	return while_running(weir_group_destroy);
}

RETURNS(weir_group_load, EBADFD)
{
	struct weir_group_load load = { .size = sizeof(load) };
	struct weir_group *g = group_of(1);
	int err = weir_group_load(g, 0, &load);

	assert_int_equal(weir_group_destroy(g), 0);
	return err;
}

/* Sources. */

RETURNS(weir_timer_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_timer *t = NULL;

	no_memory();
	return plenty(weir_timer_create(&t, r, ignore_timer, NULL));
}

RETURNS(weir_watch_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_watch *w = NULL;
	int64_t err;
	int fd[2];

	pipe_pair(fd);
	no_memory();
	err = plenty(weir_watch_create(&w, r, fd[0], WEIR_READABLE,
				       ignore_watch, NULL));
	close_pair(fd);
	return err;
}

/* On each backend it takes a descriptor. */
RETURNS(weir_watch_create, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_watch *w = NULL;
	int64_t err;
	int fd[2];

	pipe_pair(fd);
	no_descriptors();
	err = plenty(weir_watch_create(&w, r, fd[0], WEIR_PRI, ignore_watch,
				       NULL));
	close_pair(fd);
	return err;
}

RETURNS(weir_watch_set, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_watch *w;
	int64_t err;
	int fd[2];

	pipe_pair(fd);
	assert_int_equal(weir_watch_create(&w, r, fd[0], WEIR_READABLE,
					   ignore_watch, NULL), 0);
	no_descriptors();
	err = plenty(weir_watch_set(w, WEIR_READABLE | WEIR_PRI));
	weir_watch_destroy(w);
	close_pair(fd);
	return err;
}

RETURNS(weir_event_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_event *e = NULL;

	no_memory();
	return plenty(weir_event_create(&e, r, ignore_event, NULL));
}

RETURNS(weir_event_create, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_event *e = NULL;

	no_descriptors();
	return plenty(weir_event_create(&e, r, ignore_event, NULL));
}

RETURNS(weir_event_create, ESHUTDOWN)
{
	struct weir_event *e = NULL;

	return weir_event_create(&e, stopped_reactor(state), ignore_event,
				 NULL);
}

RETURNS(weir_signal_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_signal *s = NULL;

	no_memory();
	return plenty(weir_signal_create(&s, r, SIGUSR1, ignore_signal, NULL));
}

RETURNS(weir_signal_create, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_signal *s = NULL;

	no_descriptors();
	return plenty(weir_signal_create(&s, r, SIGUSR1, ignore_signal, NULL));
}

RETURNS(weir_signal_create, ESHUTDOWN)
{
	struct weir_signal *s = NULL;

	return weir_signal_create(&s, stopped_reactor(state), SIGUSR1,
				  ignore_signal, NULL);
}

RETURNS(weir_object_create, ENOMEM)
{
	const struct weir_object_ops ops = { .size = sizeof(ops), .name = "x" };
	struct weir_reactor *r = start_reactor(state);
	struct weir_object *obj = NULL;

	no_memory();
	return plenty(weir_object_create(&obj, r, &ops, NULL, NULL));
}

RETURNS(weir_poll_hook_create, ENOMEM)
{
	const struct weir_poll_hook_ops ops = {
		.size = sizeof(ops),
		.poll = ignore_hook_poll,
		.before_sleep = ignore_before_sleep,
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook *hook = NULL;

	no_memory();
	return plenty(weir_poll_hook_create(&hook, r, &ops, NULL));
}

RETURNS(weir_poller_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poller *p = NULL;

	no_memory();
	return plenty(weir_poller_create(&p, r, 0, ignore_poll, NULL));
}

RETURNS(weir_poller_create, ESHUTDOWN)
{
	struct weir_poller *p = NULL;

	return weir_poller_create(&p, stopped_reactor(state), 0, ignore_poll,
				  NULL);
}

/* Sockets. */

/* A socket that listens, as the acceptor's. */
static int listener(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = -1;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(weir_listen(&fd, (struct sockaddr *)&in, sizeof(in),
				     1, 0), 0);
	return fd;
}

RETURNS(weir_acceptor_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_acceptor *a = NULL;
	int fd = listener();
	int64_t err;

	no_memory();
	err = plenty(weir_acceptor_create(&a, r, fd, ignore_connection, NULL));
	close(fd);
	return err;
}

RETURNS(weir_acceptor_create, ESHUTDOWN)
{
	struct weir_acceptor *a = NULL;
	int fd = listener();
	int err = weir_acceptor_create(&a, stopped_reactor(state), fd,
				       ignore_connection, NULL);

	close(fd);
	return err;
}

RETURNS(weir_receiver_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_receiver *rec = NULL;
	int64_t err;
	int sv[2];

	socket_pair(sv);
	no_memory();
	err = plenty(weir_receiver_create(&rec, r, sv[0], NULL, ignore_data, NULL));
	close_pair(sv);
	return err;
}

RETURNS(weir_receiver_create, ESHUTDOWN)
{
	struct weir_receiver *rec = NULL;
	int sv[2], err;

	socket_pair(sv);
	err = weir_receiver_create(&rec, stopped_reactor(state), sv[0], NULL,
				   ignore_data, NULL);
	close_pair(sv);
	return err;
}

static int no_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	(void)arg, (void)op, (void)buf, (void)len;
	return -EIO;
}

static const struct weir_stream_ops no_stream = {
	.size = sizeof(no_stream), .name = "none", .recv = no_recv,
};

RETURNS(weir_stream_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s = NULL;

	no_memory();
	return plenty(weir_stream_create(&s, r, &no_stream, NULL, NULL));
}

RETURNS(weir_stream_create, ESHUTDOWN)
{
	struct weir_stream *s = NULL;

	return weir_stream_create(&s, stopped_reactor(state), &no_stream, NULL,
				  NULL);
}

RETURNS(weir_stream_create_fd, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s = NULL;
	int64_t err;
	int sv[2];

	socket_pair(sv);
	no_memory();
	err = plenty(weir_stream_create_fd(&s, r, sv[0], sv[0], NULL));
	close_pair(sv);
	return err;
}

RETURNS(weir_stream_create_fd, ESHUTDOWN)
{
	struct weir_stream *s = NULL;
	int sv[2], err;

	socket_pair(sv);
	err = weir_stream_create_fd(&s, stopped_reactor(state), sv[0], sv[0],
				    NULL);
	close_pair(sv);
	return err;
}

RETURNS(weir_receiver_set, ESHUTDOWN)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_receiver *rec = NULL;
	int sv[2], err;

	socket_pair(sv);
	assert_int_equal(
		weir_receiver_create(&rec, r, sv[0], NULL, ignore_data, NULL), 0);
	assert_int_equal(weir_receiver_set(rec, 0), 0);
	weir_reactor_stop(r);
	UNTIL(r, weir_reactor_state(r) == WEIR_REACTOR_STOPPED);
	err = weir_receiver_set(rec, 1);
	weir_receiver_destroy(rec);
	close_pair(sv);
	return err;
}

RETURNS(weir_udp_open, EMFILE)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd;

	(void)state;
	no_descriptors();
	return plenty(weir_udp_open(&fd, (struct sockaddr *)&at, NULL, 0));
}

static int ignore_datagram(struct weir_udp *udp,
			   const struct weir_udp_msg *msg, int err, void *arg)
{
	(void)udp, (void)msg, (void)err, (void)arg;
	return WEIR_UDP_DONE;
}

RETURNS(weir_udp_create, ENOMEM)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct weir_reactor *r = start_reactor(state);
	struct weir_udp *udp = NULL;
	int64_t err;
	int fd;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(weir_udp_open(&fd, (struct sockaddr *)&at, NULL, 0),
			 0);
	no_memory();
	err = plenty(weir_udp_create(&udp, r, fd, NULL, ignore_datagram,
				     NULL));
	close(fd);
	return err;
}

RETURNS(weir_splice, EAGAIN)
{
	struct rec rec;
	int fd[2], err;

	pipe_pair(fd);
	rec_init(&rec);
	err = weir_splice(full_reactor(state), &rec.op, fd[0], fd[1], 1);
	close_pair(fd);
	return err;
}

RETURNS(weir_splice, ESHUTDOWN)
{
	struct rec rec;
	int fd[2], err;

	pipe_pair(fd);
	rec_init(&rec);
	err = weir_splice(stopped_reactor(state), &rec.op, fd[0], fd[1], 1);
	close_pair(fd);
	return err;
}

static int64_t listen_at(void **state, const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = -1;

	snprintf(un.sun_path, sizeof(un.sun_path), "%.100s",
		 test_path(state, name));
	return weir_listen(&fd, (struct sockaddr *)&un, sizeof(un), 1, 0);
}

RETURNS(weir_listen, ENOENT)
{
	return listen_at(state, "missing/socket");
}

RETURNS(weir_listen, ENOTDIR)
{
	close(test_file(state, "file", 1, 1));
	return listen_at(state, "file/socket");
}

RETURNS(weir_listen, EMFILE)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = -1;

	no_descriptors();
	return plenty(weir_listen(&fd, (struct sockaddr *)&in, sizeof(in), 1,
				  0));
}

/* As somebody without rights: root has them all. */
RETURNS(weir_listen, EACCES)
{
	int64_t err;

	assert_int_equal(chmod(test_dir(state), 0), 0);
	setfsuid(65533);
	err = listen_at(state, "socket");
	setfsuid(geteuid());
	assert_int_equal(chmod(test_dir(state), 0700), 0);
	return err;
}

int main(void)
{
	return run_errno_rows();
}
