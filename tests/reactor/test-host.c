/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Hosting: weir_reactor_fd() in a bare epoll, which knows nothing of weir but
 * "readable: make a turn that does not wait".
 */

#include "tests/support/harness.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/timer.h>
#include <weir/watch.h>

struct host {
	struct weir_reactor *r;
	int epoll;
	int turns;
};

static void host_open(struct host *h, struct weir_reactor *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = weir_reactor_fd(r);

	assert_true(fd >= 0);
	assert_int_equal(weir_reactor_fd(r), fd);
	*h = (struct host){ .r = r, .epoll = epoll_create1(EPOLL_CLOEXEC) };
	assert_int_equal(epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &ev), 0);
}

/* One round of the host's loop: 1 if weir had a turn. */
static int host_round(struct host *h, int timeout_ms)
{
	struct epoll_event ev;
	int n;

	do
		n = epoll_wait(h->epoll, &ev, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return 0;
	assert_true(weir_reactor_turn(h->r, 0) >= 0);
	h->turns++;
	return 1;
}

/* Let it become quiet: no turn for some time, with nothing due. */
static void host_settle(struct host *h)
{
	int i;

	for (i = 0; host_round(h, 0); i++)
		assert_true(i < 100);
}

/* The host sleeps without a timeout: what is not told hangs. */
#define HOST_UNTIL(h, cond)                                           \
	do {                                                          \
		int rounds_ = 0;                                      \
		while (!(cond)) {                                     \
			host_round(h, -1);                            \
			assert_true(++rounds_ < TURNS_MAX);           \
		}                                                     \
	} while (0)

static void host_close(struct host *h)
{
	close(h->epoll);
}

static void idle_it_is_quiet(void **state)
{
	struct host h;

	host_open(&h, start_reactor(state));
	host_settle(&h);
	assert_int_equal(host_round(&h, 20), 0);
	host_close(&h);
}

/* 2.5; A6.4 */
static void operation_started_outside_a_turn_completes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 4096, 1), i;
	struct rec nop, defer, read, work;
	char buf[4096];
	struct host h;

	host_open(&h, r);
	for (i = 1; i <= 20; i++) {
		rec_init(&nop);
		rec_init(&defer);
		rec_init(&read);
		STARTS(weir_nop(r, &nop.op));
		HOST_UNTIL(&h, nop.calls);
		STARTS(weir_defer(r, &defer.op));
		HOST_UNTIL(&h, defer.calls);
		STARTS(weir_read(r, &read.op, fd, buf, sizeof(buf), 0));
		HOST_UNTIL(&h, read.calls);
		assert_int_equal(read.res, sizeof(buf));
		if (i % 3 == 0)
			host_settle(&h);
	}
	/* A cancel outside a turn, too. */
	rec_init(&work);
	STARTS(weir_sleep_until(r, &work.op, WEIR_FOREVER - 1));
	host_settle(&h);
	weir_op_cancel(&work.op);
	HOST_UNTIL(&h, work.calls);
	close(fd);
	host_close(&h);
}

static const struct weir_reactor_opts may_be_late = { .hosted = 1 };

static void operation_started_before_the_fd_completes(void **state)
{
	struct weir_reactor *r = start_reactor_with(state, may_be_late);
	struct rec nop, nap;
	struct host h;

	rec_init(&nop);
	rec_init(&nap);
	STARTS(weir_nop(r, &nop.op));
	STARTS(weir_sleep_until(r, &nap.op,
				weir_reactor_now(r) + WEIR_MSEC));
	host_open(&h, r);
	HOST_UNTIL(&h, nop.calls && nap.calls);
	host_close(&h);
}

static void a_socket_is_told(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec recv;
	struct host h;
	int sv[2], i;
	char byte;

	socket_pair(sv);
	host_open(&h, r);
	for (i = 0; i < 10; i++) {
		rec_init(&recv);
		STARTS(weir_recv(r, &recv.op, sv[0], &byte, 1, 0));
		host_settle(&h);
		assert_int_equal(host_round(&h, 0), 0);
		assert_int_equal(write(sv[1], "x", 1), 1);
		HOST_UNTIL(&h, recv.calls);
	}
	close_pair(sv);
	host_close(&h);
}

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n;
	++*(int *)arg;
}

static void an_earlier_timer_set_outside_is_told(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int late = 0, soon = 0, periodic = 0;
	struct weir_timer *a, *b;
	struct host h;

	assert_int_equal(weir_timer_create(&a, r, on_timer, &late), 0);
	assert_int_equal(weir_timer_create(&b, r, on_timer, &soon), 0);
	host_open(&h, r);
	weir_timer_start(a, weir_reactor_now(r) + 3600 * WEIR_SEC, 0);
	host_settle(&h);
	weir_timer_start(b, weir_reactor_now(r) + 2 * WEIR_MSEC, 0);
	HOST_UNTIL(&h, soon);
	assert_int_equal(late, 0);
	host_settle(&h);
	weir_timer_start(a, weir_reactor_now(r) + 2 * WEIR_MSEC, 0);
	HOST_UNTIL(&h, late);

	weir_timer_destroy(b);
	assert_int_equal(weir_timer_create(&b, r, on_timer, &periodic), 0);
	weir_timer_start(b, weir_reactor_now(r) + WEIR_MSEC, WEIR_MSEC);
	HOST_UNTIL(&h, periodic >= 5);
	weir_timer_destroy(a);
	weir_timer_destroy(b);
	/* Turns in vain may come of what was set; but they come to an end. */
	for (int i = 0; host_round(&h, 5); i++)
		assert_true(i < 20);
	host_close(&h);
}

static void a_deadline_set_outside_is_told(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec recv;
	struct host h;
	int sv[2];
	char byte;

	socket_pair(sv);
	host_open(&h, r);
	rec_init(&recv);
	STARTS(weir_recv(r, &recv.op, sv[0], &byte, 1, 0));
	host_settle(&h);
	weir_op_set_deadline(&recv.op, weir_reactor_now(r) + 2 * WEIR_MSEC);
	HOST_UNTIL(&h, recv.calls);
	assert_int_equal(recv.res, -ETIMEDOUT);
	close_pair(sv);
	host_close(&h);
}

struct poster {
	struct weir_reactor *r;
	atomic_int go;
	int ran;
};

static void count(void *arg)
{
	++*(int *)arg;
}

static void *post_when_told(void *arg)
{
	struct poster *p = arg;
	int i;

	for (i = 1; i <= 50; i++) {
		while (atomic_load(&p->go) < i)
			sched_yield();
		while (weir_post(p->r, count, &p->ran))
			sched_yield();
	}
	return NULL;
}

static void a_post_from_another_thread_is_told(void **state)
{
	struct poster p = { .r = start_reactor(state) };
	struct host h;
	pthread_t t;
	int i;

	host_open(&h, p.r);
	assert_int_equal(pthread_create(&t, NULL, post_when_told, &p), 0);
	for (i = 1; i <= 50; i++) {
		if (i % 2)
			host_settle(&h);
		atomic_store(&p.go, i);
		HOST_UNTIL(&h, p.ran == i);
	}
	pthread_join(t, NULL);
	/* And from its own. */
	host_settle(&h);
	assert_int_equal(weir_post(p.r, count, &p.ran), 0);
	HOST_UNTIL(&h, p.ran == 51);
	host_close(&h);
}

/* 2.5; A6.4 */
static void work_left_by_a_bounded_turn_is_reported(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .turn_max = 4 });
	struct rec defer[50], nop[50];
	int i, ran = 0;
	struct host h;

	host_open(&h, r);
	for (i = 0; i < 50; i++) {
		rec_init(&defer[i]);
		rec_init(&nop[i]);
		STARTS(weir_defer(r, &defer[i].op));
		STARTS(weir_nop(r, &nop[i].op));
		assert_int_equal(weir_post(r, count, &ran), 0);
	}
	for (i = 0; i < 50; i++)
		HOST_UNTIL(&h, defer[i].calls && nop[i].calls);
	HOST_UNTIL(&h, ran == 50);
	host_settle(&h);
	host_close(&h);
}

static void on_watch(struct weir_watch *watch, uint32_t events, void *arg)
{
	(void)watch, (void)events;
	++*(int *)arg;
}

static void a_watch_is_told_again_and_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_watch *w;
	struct host h;
	int p[2], n = 0, i;
	char byte;

	pipe_pair(p);
	host_open(&h, r);
	assert_int_equal(weir_watch_create(&w, r, p[0], WEIR_READABLE,
					   on_watch, &n), 0);
	host_settle(&h);
	assert_int_equal(write(p[1], "x", 1), 1);
	for (i = 1; i <= 5; i++)
		HOST_UNTIL(&h, n >= i);
	assert_int_equal(read(p[0], &byte, 1), 1);
	host_settle(&h);
	weir_watch_destroy(w);
	close_pair(p);
	host_close(&h);
}

/* 2.5; A6.4 */
/* An eventfd that another thread writes is what a ring may tell late. */
static void watch_made_before_the_fd_is_told(void **state)
{
	struct weir_reactor *r = start_reactor_with(state, may_be_late);
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), n = 0;
	struct weir_watch *w;
	struct host h;

	assert_int_equal(weir_watch_create(&w, r, fd, WEIR_READABLE, on_watch,
					   &n), 0);
	some_turns(r, 2);
	host_open(&h, r);
	host_settle(&h);
	for (int i = 1; i <= 5; i++) {
		assert_int_equal(eventfd_write(fd, 1), 0);
		HOST_UNTIL(&h, n >= i);
	}
	weir_watch_destroy(w);
	close(fd);
	host_close(&h);
}

static void reactor_in_use_refuses_a_host(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_watch *w;
	struct rec nop;
	int p[2], n = 0;

	pipe_pair(p);
	rec_init(&nop);
	STARTS(weir_nop(r, &nop.op));
	assert_int_equal(weir_reactor_fd(r), -EBUSY);
	assert_starts_with(weir_why(), "weir_reactor_fd: the reactor is in use");
	finish(r, &nop);
	assert_int_equal(weir_watch_create(&w, r, p[0], WEIR_READABLE,
					   on_watch, &n), 0);
	assert_int_equal(weir_reactor_fd(r), -EBUSY);
	weir_watch_destroy(w);
	some_turns(r, 2);
	weir_fd_register(r, p[0]);
	assert_true(weir_reactor_fd(r) >= 0);
	weir_fd_unregister(r, p[0]);
	close_pair(p);
}

/* Sets that contain each other: epoll refuses them, and libev would abort. */
static void reactor_that_polls_its_own_set_ends_it_or_waits(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec own, copy, outer;
	struct host h;
	int dupped;

	host_open(&h, r);
	dupped = dup(weir_reactor_fd(r));
	rec_init(&own), rec_init(&copy), rec_init(&outer);
	STARTS(weir_poll(r, &own.op, weir_reactor_fd(r), WEIR_WRITABLE));
	STARTS(weir_poll(r, &copy.op, dupped, WEIR_WRITABLE));
	STARTS(weir_poll(r, &outer.op, h.epoll, WEIR_WRITABLE));
	some_turns(r, 3);
	weir_op_cancel(&own.op);
	weir_op_cancel(&copy.op);
	weir_op_cancel(&outer.op);
	UNTIL(r, own.calls && copy.calls && outer.calls);
	if (strcmp(weir_reactor_backend(r), "ev") == 0) {
		assert_int_equal(own.res, -ELOOP);
		assert_int_equal(copy.res, -ELOOP);
		assert_int_equal(outer.res, -ELOOP);
	}
	close(dupped);
	host_close(&h);
}

static void several_turns_for_one_event_do_no_harm(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec nop;
	struct host h;
	int i;

	host_open(&h, r);
	for (i = 0; i < 20; i++) {
		rec_init(&nop);
		STARTS(weir_nop(r, &nop.op));
		some_turns(r, 3);
		HOST_UNTIL(&h, nop.calls);
		host_settle(&h);
		some_turns(r, 3);
		assert_int_equal(host_round(&h, 0), 0);
	}
	host_close(&h);
}

static void a_stop_is_told(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec nap;
	struct host h;

	host_open(&h, r);
	rec_init(&nap);
	STARTS(weir_sleep_until(r, &nap.op, WEIR_FOREVER - 1));
	host_settle(&h);
	weir_reactor_stop(r);
	HOST_UNTIL(&h, nap.calls);
	assert_int_equal(nap.res, -ECANCELED);
	while (weir_reactor_state(r) != WEIR_REACTOR_STOPPED)
		host_round(&h, -1);
	/* And then there is nothing to do. */
	host_settle(&h);
	assert_int_equal(weir_reactor_start(r), 0);
	assert_int_equal(host_round(&h, -1), 1);
	host_close(&h);
}

static int64_t nap_a_little(void *arg)
{
	usleep(2000);
	return (int64_t)(intptr_t)arg;
}

static void a_worker_that_ends_is_told(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec work;
	struct host h;
	int i;

	host_open(&h, r);
	for (i = 0; i < 10; i++) {
		rec_init(&work);
		STARTS(weir_work(r, &work.op, nap_a_little, (void *)5));
		host_settle(&h);
		HOST_UNTIL(&h, work.calls);
		assert_int_equal(work.res, 5);
	}
	host_close(&h);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(idle_it_is_quiet),
		CASE(operation_started_outside_a_turn_completes),
		CASE(operation_started_before_the_fd_completes),
		CASE(a_socket_is_told),
		CASE(an_earlier_timer_set_outside_is_told),
		CASE(a_deadline_set_outside_is_told),
		CASE(a_post_from_another_thread_is_told),
		CASE(work_left_by_a_bounded_turn_is_reported),
		CASE(a_watch_is_told_again_and_again),
		CASE(watch_made_before_the_fd_is_told),
		CASE(reactor_in_use_refuses_a_host),
		CASE(reactor_that_polls_its_own_set_ends_it_or_waits),
		CASE(several_turns_for_one_event_do_no_harm),
		CASE(a_stop_is_told),
		CASE(a_worker_that_ends_is_told),
	};

	return harness_run(cases, N_OF(cases));
}
