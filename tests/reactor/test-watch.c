/* SPDX-License-Identifier: BSD-3-Clause */

/* Watches, events, signals and pollers, as <weir/watch.h> promises them. */

#include "tests/support/harness.h"

#include <limits.h>

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <weir/watch.h>

#include "tests/support/sim-calls.h"

struct seen {
	struct weir_watch *watch;
	struct weir_reactor *r;
	int calls;
	uint32_t events;
	int drain;	/* Read this dry in the callback, or -1. */
	void (*then)(struct seen *seen);
};

static void on_watch(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct seen *s = arg;
	char buf[4096];

	assert_ptr_equal(watch, s->watch);
	s->calls++;
	s->events |= events;
	while (s->drain >= 0 && read(s->drain, buf, sizeof(buf)) > 0)
		;
	if (s->then)
		s->then(s);
}

static void watch_fd(struct seen *s, struct weir_reactor *r, int fd,
		     uint32_t events)
{
	*s = (struct seen){ .drain = -1, .r = r };
	assert_int_equal(weir_watch_create(&s->watch, r, fd, events, on_watch,
					   s), 0);
}

static void put_byte(int fd)
{
	assert_int_equal(write(fd, "x", 1), 1);
}

static void get_byte(int fd)
{
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
}

static void bad_arguments_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_watch *w = (void *)0x77;
	int file = test_file(state, "file", 10, 1);
	int p[2];

	pipe_pair(p);
	assert_int_equal(weir_watch_create(&w, r, p[0], WEIR_READABLE, NULL,
					   NULL), -EINVAL);
	assert_int_equal(weir_watch_create(&w, r, p[0], WEIR_HANGUP, on_watch,
					   NULL), -EINVAL);
	assert_int_equal(weir_watch_create(&w, r, p[0], 1u << 20, on_watch,
					   NULL), -EINVAL);
	assert_int_equal(weir_watch_create(&w, r, -1, WEIR_READABLE, on_watch,
					   NULL), -EBADF);
	assert_int_equal(weir_watch_create(&w, r, 1 << 20, WEIR_READABLE,
					   on_watch, NULL), -EBADF);
	assert_int_equal(weir_watch_create(&w, r, file, WEIR_READABLE,
					   on_watch, NULL), -EPERM);
	assert_ptr_equal(w, (void *)0x77);
	weir_watch_destroy(NULL);
	close(file);
	close_pair(p);
}

static void readable_is_told_in_every_turn(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int p[2], i, before;

	pipe_pair(p);
	watch_fd(&s, r, p[0], WEIR_READABLE);
	some_turns(r, 5);
	assert_int_equal(s.calls, 0);
	put_byte(p[1]);
	UNTIL(r, s.calls);
	assert_int_equal(s.events, WEIR_READABLE);
	/* Level-triggered: as long as nobody reads. */
	for (i = 0; i < 5; i++) {
		before = s.calls;
		UNTIL(r, s.calls > before);
	}
	get_byte(p[0]);
	some_turns(r, 3);
	before = s.calls;
	some_turns(r, 5);
	assert_int_equal(s.calls, before);
	put_byte(p[1]);
	UNTIL(r, s.calls > before);
	weir_watch_destroy(s.watch);
	close_pair(p);
}

static void watch_is_called_once_in_a_turn(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int p[2], i, before;

	pipe_pair(p);
	put_byte(p[1]);
	watch_fd(&s, r, p[0], WEIR_READABLE);
	for (i = 0; i < 50; i++) {
		before = s.calls;
		assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
		assert_true(s.calls <= before + 1);
	}
	assert_true(s.calls > 10);
	weir_watch_destroy(s.watch);
	close_pair(p);
}

static void writable_is_told(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int sv[2];
	char buf[65536];

	socket_pair(sv);
	stuff(sv[0]);
	set_nonblock(sv[1]);
	watch_fd(&s, r, sv[0], WEIR_WRITABLE);
	some_turns(r, 5);
	assert_int_equal(s.calls, 0);
	while (read(sv[1], buf, sizeof(buf)) > 0)
		;
	UNTIL(r, s.calls);
	assert_int_equal(s.events, WEIR_WRITABLE);
	weir_watch_destroy(s.watch);
	close_pair(sv);
}

static void watch_reports_reading_and_writing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int sv[2];

	socket_pair(sv);
	put_byte(sv[1]);
	watch_fd(&s, r, sv[0], WEIR_READABLE | WEIR_WRITABLE);
	UNTIL(r, s.events == (WEIR_READABLE | WEIR_WRITABLE));
	weir_watch_destroy(s.watch);
	close_pair(sv);
}

static void a_hang_up_is_told_unasked(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s, out;
	int p[2], q[2];

	pipe_pair(p);
	pipe_pair(q);
	watch_fd(&s, r, p[0], WEIR_READABLE);
	stuff(q[1]);
	watch_fd(&out, r, q[1], WEIR_WRITABLE);
	some_turns(r, 3);
	close(p[1]);
	UNTIL(r, s.events & WEIR_HANGUP);
	close(q[0]);
	UNTIL(r, out.events & WEIR_ERROR);
	weir_watch_destroy(s.watch);
	weir_watch_destroy(out.watch);
	close(p[0]);
	close(q[1]);
}

static void edge_watch_reports_changes_only(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int p[2], i, before;

	pipe_pair(p);
	set_nonblock(p[0]);
	watch_fd(&s, r, p[0], WEIR_READABLE | WEIR_EDGE);
	s.drain = p[0];
	for (i = 0; i < 20; i++) {
		before = s.calls;
		put_byte(p[1]);
		UNTIL(r, s.calls > before);
	}
	some_turns(r, 3);
	before = s.calls;
	some_turns(r, 10);
	assert_int_equal(s.calls, before);
	weir_watch_destroy(s.watch);
	close_pair(p);
}

static void watch_can_be_paused_and_changed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int sv[2], before;

	socket_pair(sv);
	put_byte(sv[1]);
	watch_fd(&s, r, sv[0], WEIR_READABLE);
	UNTIL(r, s.calls);
	assert_int_equal(weir_watch_set(s.watch, 0), 0);
	before = s.calls;
	some_turns(r, 10);
	assert_int_equal(s.calls, before);

	s.events = 0;
	assert_int_equal(weir_watch_set(s.watch, WEIR_WRITABLE), 0);
	UNTIL(r, s.calls > before);
	some_turns(r, 5);
	assert_int_equal(s.events, WEIR_WRITABLE);
	assert_int_equal(weir_watch_set(s.watch, 1u << 20), -EINVAL);

	s.events = 0;
	assert_int_equal(weir_watch_set(s.watch, WEIR_READABLE), 0);
	UNTIL(r, s.events & WEIR_READABLE);
	weir_watch_destroy(s.watch);
	close_pair(sv);
}

/* A library that ends an operation, and tells of it by a descriptor, which in a
 * world is one of the system. */
struct library {
	struct weir_watch *watch;
	struct rec rec;
	int fd;
	int told;
};

static void library_tells(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct library *l = arg;
	eventfd_t n;

	assert_ptr_equal(watch, l->watch);
	assert_int_equal(events, WEIR_READABLE);
	assert_int_equal(eventfd_read(l->fd, &n), 0);
	l->told++;
	if (weir_op_is_busy(&l->rec.op))
		weir_op_finish(&l->rec.op, -ECANCELED);
}

static void library_cancels(struct weir_op *op, void *arg)
{
	struct library *l = arg;

	(void)op;
	assert_int_equal(eventfd_write(l->fd, 1), 0);
}

static void library_open(struct library *l, struct weir_reactor *r)
{
	*l = (struct library){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	assert_true(l->fd >= 0);
	rec_init(&l->rec);
	STARTS(weir_watch_create(&l->watch, r, l->fd,
				 WEIR_READABLE | WEIR_THROUGH_STOP,
				 library_tells, l));
}

static void library_close(struct library *l)
{
	weir_watch_destroy(l->watch);
	close(l->fd);
}

static void watch_through_stop_ends_operation_in_flight(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct library l;

	library_open(&l, r);
	STARTS(weir_op_start(r, &l.rec.op, library_cancels, &l));
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(l.told, 1);
	assert_int_equal(l.rec.res, -ECANCELED);
	/* It continues after a start. */
	assert_int_equal(weir_reactor_start(r), 0);
	assert_int_equal(eventfd_write(l.fd, 1), 0);
	UNTIL(r, l.told == 2);
	library_close(&l);
}

static void pause_while_stopping(struct weir_op *op, void *arg)
{
	struct library *l = arg;

	assert_int_equal(eventfd_write(l->fd, 1), 0);
	assert_int_equal(weir_watch_set(l->watch, WEIR_WRITABLE), -ESHUTDOWN);
	assert_int_equal(weir_watch_set(l->watch, 0), 0);
	assert_int_equal(weir_op_finish(op, 0), 0);
}

static void watch_through_stop_can_be_paused_at_any_time(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct library l;

	library_open(&l, r);
	assert_int_equal(eventfd_write(l.fd, 1), 0);
	UNTIL(r, l.told == 1);
	assert_int_equal(weir_watch_set(l.watch, 0), 0);
	assert_int_equal(eventfd_write(l.fd, 1), 0);
	some_turns(r, 10);
	assert_int_equal(l.told, 1);
	assert_int_equal(weir_watch_set(l.watch, WEIR_READABLE), 0);
	UNTIL(r, l.told == 2);
	assert_int_equal(weir_watch_set(l.watch, WEIR_THROUGH_STOP), -EINVAL);
	STARTS(weir_op_start(r, &l.rec.op, pause_while_stopping, &l));
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(l.told, 2);
	library_close(&l);
}

static void turned_on_and_off_often_it_tells_still(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int p[2], i, before;

	pipe_pair(p);
	watch_fd(&s, r, p[0], WEIR_READABLE);
	for (i = 0; i < 1000; i++) {
		weir_watch_set(s.watch, 0);
		weir_watch_set(s.watch, WEIR_READABLE);
		if (i % 50 == 0)
			some_turns(r, 1);
	}
	assert_int_equal(s.calls, 0);
	put_byte(p[1]);
	UNTIL(r, s.calls);
	weir_watch_set(s.watch, 0);
	before = s.calls;
	some_turns(r, 3);
	assert_int_equal(s.calls, before);
	weir_watch_destroy(s.watch);
	close_pair(p);
}

static void several_may_watch_one_descriptor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen a, b, c;
	int sv[2], before;

	socket_pair(sv);
	watch_fd(&a, r, sv[0], WEIR_READABLE);
	watch_fd(&b, r, sv[0], WEIR_READABLE);
	watch_fd(&c, r, sv[0], WEIR_WRITABLE);
	UNTIL(r, c.calls);
	assert_int_equal(a.calls + b.calls, 0);
	assert_int_equal(c.events, WEIR_WRITABLE);
	put_byte(sv[1]);
	UNTIL(r, a.calls && b.calls);
	assert_int_equal(a.events, WEIR_READABLE);

	weir_watch_destroy(a.watch);
	before = b.calls;
	UNTIL(r, b.calls > before);
	weir_watch_destroy(b.watch);
	before = c.calls;
	UNTIL(r, c.calls > before);
	assert_int_equal(c.events, WEIR_WRITABLE);
	weir_watch_destroy(c.watch);
	close_pair(sv);
}

static void destroy_it(struct seen *s)
{
	weir_watch_destroy(s->watch);
	s->watch = NULL;
}

static void watch_callback_may_destroy_its_watch(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int p[2];

	pipe_pair(p);
	put_byte(p[1]);
	watch_fd(&s, r, p[0], WEIR_READABLE);
	s.then = destroy_it;
	UNTIL(r, s.calls);
	some_turns(r, 5);
	assert_int_equal(s.calls, 1);
	close_pair(p);
}

static struct seen *other;

static void destroy_other(struct seen *s)
{
	(void)s;
	if (other->watch)
		destroy_it(other);
}

static void a_callback_may_destroy_another_that_is_due(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen a, b;
	int p[2], q[2], i;

	for (i = 0; i < 2; i++) {
		pipe_pair(p);
		pipe_pair(q);
		watch_fd(&a, r, p[0], WEIR_READABLE);
		watch_fd(&b, r, i ? p[0] : q[0], WEIR_READABLE);
		some_turns(r, 2);
		put_byte(p[1]);
		put_byte(q[1]);
		a.then = destroy_other;
		other = &b;
		UNTIL(r, a.calls);
		assert_true(b.calls <= 1);
		b.calls = 0;
		some_turns(r, 5);
		assert_int_equal(b.calls, 0);
		weir_watch_destroy(a.watch);
		close_pair(p);
		close_pair(q);
	}
}

/* The number of a closed descriptor means another file soon. */
static void a_number_may_be_used_again_at_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s, t;
	int p[2], q[2], i, old;

	for (i = 0; i < 20; i++) {
		pipe_pair(p);
		pipe_pair(q);
		watch_fd(&s, r, p[0], WEIR_READABLE);
		put_byte(p[1]);
		if (i % 2)
			UNTIL(r, s.calls);
		weir_watch_destroy(s.watch);
		old = s.calls;
		assert_int_equal(dup2(q[0], p[0]), p[0]);
		watch_fd(&t, r, p[0], WEIR_READABLE);
		some_turns(r, 3);
		assert_int_equal(t.calls, 0);
		put_byte(q[1]);
		UNTIL(r, t.calls);
		assert_int_equal(s.calls, old);
		weir_watch_destroy(t.watch);
		close_pair(p);
		close_pair(q);
	}
}

static void stopped_it_is_silent_and_started_it_goes_on(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_watch *w;
	struct seen s;
	int p[2];

	pipe_pair(p);
	watch_fd(&s, r, p[0], WEIR_READABLE);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	put_byte(p[1]);
	some_turns(r, 5);
	assert_int_equal(s.calls, 0);
	assert_int_equal(weir_watch_set(s.watch, WEIR_READABLE), -ESHUTDOWN);
	assert_int_equal(weir_watch_create(&w, r, p[0], WEIR_READABLE,
					   on_watch, NULL), -ESHUTDOWN);
	assert_int_equal(weir_reactor_start(r), 0);
	UNTIL(r, s.calls);
	weir_watch_destroy(s.watch);
	close_pair(p);
}

static void watches_are_called_when_there_are_200(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s[200];
	int p[200][2], i;

	for (i = 0; i < 200; i++) {
		pipe_pair(p[i]);
		watch_fd(&s[i], r, p[i][0], WEIR_READABLE);
	}
	for (i = 199; i >= 0; i--)
		put_byte(p[i][1]);
	for (i = 0; i < 200; i++) {
		UNTIL(r, s[i].calls);
		weir_watch_destroy(s[i].watch);
		close_pair(p[i]);
	}
}

/* Events. */

struct counter {
	struct weir_event *event;
	uint64_t sum;
	int calls;
	bool destroy;
};

static void on_event(struct weir_event *event, uint64_t n, void *arg)
{
	struct counter *c = arg;

	assert_ptr_equal(event, c->event);
	assert_true(n > 0);
	c->sum += n;
	c->calls++;
	if (c->destroy)
		weir_event_destroy(event);
}

static void an_event_adds_up(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct counter c = { 0 };
	int i;

	assert_int_equal(weir_event_create(&c.event, r, NULL, &c), -EINVAL);
	assert_int_equal(weir_event_create(&c.event, r, on_event, &c), 0);
	some_turns(r, 3);
	assert_int_equal(c.calls, 0);
	for (i = 0; i < 5; i++)
		weir_event_signal(c.event);
	assert_int_equal(c.calls, 0);
	UNTIL(r, c.sum == 5);
	assert_int_equal(eventfd_write(weir_event_fd(c.event), 7), 0);
	UNTIL(r, c.sum == 12);
	some_turns(r, 3);
	assert_int_equal(c.sum, 12);
	weir_event_destroy(c.event);
	weir_event_destroy(NULL);
}

static void *signal_many(void *arg)
{
	unsigned int i, n = scaled(2000);

	for (i = 0; i < n; i++)
		weir_event_signal(arg);
	return NULL;
}

static void event_may_be_signalled_by_any_thread(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct counter c = { 0 };
	pthread_t t[3];
	int i;

	assert_int_equal(weir_event_create(&c.event, r, on_event, &c), 0);
	for (i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, signal_many, c.event);
	UNTIL(r, c.sum == 3 * scaled(2000));
	for (i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	weir_event_destroy(c.event);
}

static void an_event_may_be_destroyed_in_its_callback(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct counter c = { .destroy = true };

	assert_int_equal(weir_event_create(&c.event, r, on_event, &c), 0);
	weir_event_signal(c.event);
	UNTIL(r, c.calls);
	some_turns(r, 5);
	assert_int_equal(c.calls, 1);
}

/* Signals. */

/* Beyond readable and writable. */

static void socket_of_tcp(int sv[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	sv[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(sv[0], (struct sockaddr *)&a, len), 0);
	sv[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	assert_true(sv[1] >= 0);
	close(l);
}

static void end_of_the_peer_is_told_beside_unread_data(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s, in;
	int sv[2];

	socket_pair(sv);
	watch_fd(&s, r, sv[0], WEIR_RDHUP);
	watch_fd(&in, r, sv[0], WEIR_READABLE);
	put_byte(sv[1]);
	UNTIL(r, in.calls > 0);
	some_turns(r, 3);
	assert_int_equal(s.calls, 0);
	shutdown(sv[1], SHUT_WR);
	UNTIL(r, s.calls > 0);
	assert_int_equal(s.events & ~WEIR_HANGUP, WEIR_RDHUP);
	assert_int_equal(in.events & (WEIR_RDHUP | WEIR_PRI), 0);
	/* It lasts, so it is told again, until it is not asked for. */
	UNTIL(r, s.calls > 1);
	assert_int_equal(weir_watch_set(s.watch, 0), 0);
	s.calls = 0;
	some_turns(r, 3);
	assert_int_equal(s.calls, 0);
	weir_watch_destroy(s.watch);
	weir_watch_destroy(in.watch);
	close_pair(sv);
}

static void end_of_the_peer_is_told_once_at_its_edge(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s;
	int sv[2];

	socket_pair(sv);
	watch_fd(&s, r, sv[0], WEIR_RDHUP | WEIR_WRITABLE | WEIR_EDGE);
	UNTIL(r, s.calls == 1);
	assert_int_equal(s.events, WEIR_WRITABLE);
	shutdown(sv[1], SHUT_WR);
	UNTIL(r, s.calls == 2);
	assert_int_equal(s.events & WEIR_RDHUP, WEIR_RDHUP);
	some_turns(r, 5);
	assert_int_equal(s.calls, 2);
	weir_watch_destroy(s.watch);
	close_pair(sv);
}

static void urgent_byte_is_told_if_it_is_asked_for(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct seen s, in;
	char byte;
	int sv[2];

	socket_of_tcp(sv);
	watch_fd(&s, r, sv[0], WEIR_PRI);
	watch_fd(&in, r, sv[0], WEIR_READABLE);
	put_byte(sv[1]);
	UNTIL(r, in.calls > 0);
	some_turns(r, 3);
	assert_int_equal(s.calls, 0);
	assert_int_equal(send(sv[1], "!", 1, MSG_OOB), 1);
	UNTIL(r, s.calls > 0);
	assert_int_equal(s.events, WEIR_PRI);
	assert_int_equal(in.events & WEIR_PRI, 0);
	assert_int_equal(weir_watch_set(s.watch, WEIR_PRI | WEIR_READABLE), 0);
	s.events = 0;
	UNTIL(r, s.events == (WEIR_PRI | WEIR_READABLE));
	assert_int_equal(recv(sv[0], &byte, 1, MSG_OOB), 1);
	assert_int_equal(byte, '!');
	s.events = 0;
	some_turns(r, 3);
	assert_int_equal(s.events & WEIR_PRI, 0);
	weir_watch_destroy(s.watch);
	weir_watch_destroy(in.watch);
	close_pair(sv);
}

static int last_signo, n_signals;
static struct signalfd_siginfo last_info;

static void on_signal(struct weir_signal *signal,
		      const struct signalfd_siginfo *info, void *arg)
{
	last_signo = (int)info->ssi_signo;
	last_info = *info;
	n_signals++;
	if (arg)
		weir_signal_destroy(signal);
}

static bool is_blocked(int signo)
{
	sigset_t set;

	pthread_sigmask(SIG_SETMASK, NULL, &set);
	return sigismember(&set, signo);
}

static void a_signal_comes_from_the_loop(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_signal *usr, *hup, *again;

	n_signals = 0;
	assert_false(is_blocked(SIGUSR1));
	assert_int_equal(weir_signal_create(&usr, r, SIGUSR1, on_signal, NULL),
			 0);
	assert_int_equal(weir_signal_create(&hup, r, SIGHUP, on_signal, NULL),
			 0);
	assert_true(is_blocked(SIGUSR1));
	assert_int_equal(weir_signal_create(&again, r, SIGUSR1, on_signal,
					    NULL), -EBUSY);
	kill(getpid(), SIGUSR1);
	assert_int_equal(n_signals, 0);
	UNTIL(r, n_signals == 1);
	assert_int_equal(last_signo, SIGUSR1);
	kill(getpid(), SIGHUP);
	UNTIL(r, n_signals == 2);
	assert_int_equal(last_signo, SIGHUP);
	weir_signal_destroy(usr);
	assert_false(is_blocked(SIGUSR1));
	assert_true(is_blocked(SIGHUP));
	weir_signal_destroy(hup);
	assert_false(is_blocked(SIGHUP));
	weir_signal_destroy(NULL);
}

static void a_signal_that_cannot_be_is_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_signal *s;

	assert_int_equal(weir_signal_create(&s, r, SIGUSR1, NULL, NULL),
			 -EINVAL);
	assert_int_equal(weir_signal_create(&s, r, 0, on_signal, NULL),
			 -EINVAL);
	assert_int_equal(weir_signal_create(&s, r, 1000, on_signal, NULL),
			 -EINVAL);
	assert_int_equal(weir_signal_create(&s, r, SIGKILL, on_signal, NULL),
			 -EINVAL);
	assert_int_equal(weir_signal_create(&s, r, SIGSTOP, on_signal, NULL),
			 -EINVAL);
}

static void a_signal_may_be_destroyed_in_its_callback(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_signal *s;

	n_signals = 0;
	assert_int_equal(weir_signal_create(&s, r, SIGUSR2, on_signal, r), 0);
	kill(getpid(), SIGUSR2);
	UNTIL(r, n_signals);
	some_turns(r, 3);
	assert_int_equal(n_signals, 1);
	assert_false(is_blocked(SIGUSR2));
}

/* Pollers. */

struct polled {
	struct weir_poller *poller;
	int calls, busy;
	bool destroy;
};

static int on_poll(struct weir_poller *poller, void *arg)
{
	struct polled *p = arg;

	assert_ptr_equal(poller, p->poller);
	p->calls++;
	if (p->destroy)
		weir_poller_destroy(poller);
	return p->busy;
}

static void signal_tells_who_sent_it_and_what(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_signal *s;

	n_signals = 0;
	assert_int_equal(weir_signal_create(&s, r, SIGUSR1, on_signal, NULL),
			 0);
	assert_int_equal(sigqueue(getpid(), SIGUSR1, (union sigval){
				  .sival_int = 4711 }), 0);
	UNTIL(r, n_signals == 1);
	assert_int_equal(last_info.ssi_signo, SIGUSR1);
	assert_int_equal(last_info.ssi_pid, getpid());
	assert_int_equal(last_info.ssi_uid, getuid());
	assert_int_equal(last_info.ssi_code, SI_QUEUE);
	assert_int_equal(last_info.ssi_int, 4711);
	weir_signal_destroy(s);
}

static void a_poller_runs_in_every_turn(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct polled p = { 0 };
	int i;

	assert_int_equal(weir_poller_create(&p.poller, r, 0, NULL, &p),
			 -EINVAL);
	assert_int_equal(weir_poller_create(&p.poller, r, WEIR_SEC, on_poll,
					    &p), 0);
	for (i = 1; i <= 10; i++) {
		some_turns(r, 1);
		assert_int_equal(p.calls, i);
	}
	weir_poller_destroy(p.poller);
	weir_poller_destroy(NULL);
	some_turns(r, 3);
	assert_int_equal(p.calls, 10);
}

static void a_poller_without_period_never_lets_it_sleep(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct polled p = { 0 };

	assert_int_equal(weir_poller_create(&p.poller, r, 0, on_poll, &p), 0);
	UNTIL(r, p.calls >= 100);
	assert_int_equal(weir_reactor_stats(r, &st), 0);
	assert_int_equal(st.sleeps, 0);
	weir_poller_destroy(p.poller);
}

static void an_idle_poller_lets_it_sleep_for_its_period(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct polled p = { 0 };

	assert_int_equal(weir_poller_create(&p.poller, r, 2 * WEIR_MSEC,
					    on_poll, &p), 0);
	UNTIL(r, p.calls >= 10);
	assert_int_equal(weir_reactor_stats(r, &st), 0);
	assert_true(st.sleeps >= 3);
	assert_true(st.turns < 100);
	weir_poller_destroy(p.poller);
}

static void a_busy_poller_starves_nobody(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct polled p = { .busy = 1 };
	struct rec nap, nop;

	rec_init(&nap);
	rec_init(&nop);
	assert_int_equal(weir_poller_create(&p.poller, r, 0, on_poll, &p), 0);
	STARTS(weir_nop(r, &nop.op));
	STARTS(weir_sleep_until(r, &nap.op,
				weir_reactor_now(r) + WEIR_MSEC));
	UNTIL(r, nap.calls && nop.calls);
	weir_poller_destroy(p.poller);
}

static void pollers_that_did_much_count_as_one_each(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct polled p = { .busy = INT_MAX }, q = { .busy = INT_MAX };

	assert_int_equal(weir_poller_create(&p.poller, r, 0, on_poll, &p), 0);
	assert_int_equal(weir_poller_create(&q.poller, r, 0, on_poll, &q), 0);
	assert_int_equal(weir_reactor_turn(r, 0), 2);
	weir_poller_destroy(p.poller);
	weir_poller_destroy(q.poller);
}

static void a_poller_may_be_destroyed_in_its_callback(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct polled p = { .destroy = true }, q = { 0 };

	assert_int_equal(weir_poller_create(&p.poller, r, 0, on_poll, &p), 0);
	assert_int_equal(weir_poller_create(&q.poller, r, 0, on_poll, &q), 0);
	some_turns(r, 5);
	assert_int_equal(p.calls, 1);
	assert_true(q.calls >= 4);
	weir_poller_destroy(q.poller);
}

struct changed {
	unsigned int calls;
	uint32_t events;
};

static void note_events(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct changed *seen = arg;

	seen->calls++;
	seen->events |= events;
	assert_int_equal(weir_watch_set(watch, 0), 0);
}

/* Though what it was set to before has come meanwhile. */
static void changed_watch_reports_what_it_is_set_to(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_watch *watch;
	struct changed seen;
	int sv[2];

	for (int turns = 0; turns < 3; turns++) {
		seen = (struct changed){ 0 };
		socket_pair(sv);
		assert_int_equal(weir_watch_create(&watch, r, sv[0],
						   WEIR_READABLE, note_events,
						   &seen), 0);
		some_turns(r, turns);
		assert_int_equal(write(sv[1], "x", 1), 1);
		assert_int_equal(weir_watch_set(watch, WEIR_WRITABLE), 0);
		UNTIL(r, seen.calls);
		assert_int_equal(seen.events, WEIR_WRITABLE);
		weir_watch_destroy(watch);
		close_pair(sv);
	}
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(end_of_the_peer_is_told_beside_unread_data),
		CASE(end_of_the_peer_is_told_once_at_its_edge),
		REAL(urgent_byte_is_told_if_it_is_asked_for),
		REAL(signal_tells_who_sent_it_and_what),
		REAL(changed_watch_reports_what_it_is_set_to),
		REAL(bad_arguments_are_refused),
		CASE(readable_is_told_in_every_turn),
		CASE(watch_is_called_once_in_a_turn),
		CASE(writable_is_told),
		CASE(watch_reports_reading_and_writing),
		CASE(a_hang_up_is_told_unasked),
		CASE(edge_watch_reports_changes_only),
		CASE(watch_can_be_paused_and_changed),
		CASE(watch_through_stop_ends_operation_in_flight),
		CASE(watch_through_stop_can_be_paused_at_any_time),
		CASE(turned_on_and_off_often_it_tells_still),
		CASE(several_may_watch_one_descriptor),
		CASE(watch_callback_may_destroy_its_watch),
		CASE(a_callback_may_destroy_another_that_is_due),
		REAL(a_number_may_be_used_again_at_once),
		CASE(stopped_it_is_silent_and_started_it_goes_on),
		CASE(watches_are_called_when_there_are_200),
		CASE(an_event_adds_up),
		REAL(event_may_be_signalled_by_any_thread),
		CASE(an_event_may_be_destroyed_in_its_callback),
		REAL(a_signal_comes_from_the_loop),
		REAL(a_signal_that_cannot_be_is_refused),
		REAL(a_signal_may_be_destroyed_in_its_callback),
		CASE(a_poller_runs_in_every_turn),
		CASE(a_poller_without_period_never_lets_it_sleep),
		CASE(an_idle_poller_lets_it_sleep_for_its_period),
		CASE(a_busy_poller_starves_nobody),
		CASE(pollers_that_did_much_count_as_one_each),
		CASE(a_poller_may_be_destroyed_in_its_callback),
	};

	return harness_run_all(cases, N_OF(cases));
}
