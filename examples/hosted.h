/* SPDX-License-Identifier: CC0-1.0 */

/*
 * What has to work in any host's loop: the examples 04 to 07 put a reactor into
 * one and then go through this list.  Each stage begins in a callback of the
 * host's timer, outside of any turn, while the reactor has nothing to do; so
 * the host sleeps, and nothing but weir_reactor_fd() can wake it.
 *
 *	an operation is started	   its callback comes
 *	data come for another	   so does its
 *	a third is cancelled	   and its
 *	a timer is moved up	   it fires then, not at its old time
 *	another thread posts	   it is run
 *	and writes to an eventfd   its watch sees that, each time
 *	much is due at once	   a turn does some of it, and the rest follows
 *	nothing happens		   no turns are made
 */

#ifndef HOSTED_H
#define HOSTED_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/timer.h>
#include <weir/watch.h>

#define TURN_MAX 4		/* Callbacks of a kind in a turn. */
#define MUCH 50
#define HOUR (3600 * WEIR_SEC)

struct hosted {
	struct weir_reactor *reactor;
	struct weir_timer *timer;
	/* Have the host's timer call hosted_next() after @ms. */
	void (*later)(unsigned int ms);
	int stage;
	int failed;
	uint64_t mark;
	struct weir_op op;
	char buf[256];
	int fd;
	int sock[2];
	pthread_t thread;
	struct weir_watch *watch;	/* Of .event_fd, level-triggered. */
	int event_fd;
	struct weir_op defer[MUCH];
	int left;
};

static struct hosted hosted;

static void hosted_check(int good, const char *what)
{
	printf("  %s: %s\n", what, good ? "yes" : "NO");
	hosted.failed |= !good;
	hosted.later(5);
}

static void hosted_on_read(struct weir_op *op, int64_t res)
{
	(void)op;
	hosted_check(res > 0, "an operation started outside a turn");
}

static void hosted_on_data(struct weir_op *op, int64_t res)
{
	(void)op;
	hosted_check(res == 1, "data that came while the host slept");
}

static void hosted_on_cancelled(struct weir_op *op, int64_t res)
{
	(void)op;
	hosted_check(res == -ECANCELED, "a cancel outside a turn");
}

static void hosted_on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	uint64_t now = weir_reactor_now(hosted.reactor);

	(void)timer, (void)n, (void)arg;
	hosted_check(now >= hosted.mark && now < hosted.mark + HOUR,
		     "a timer moved up outside a turn");
}

static void hosted_on_post(void *arg)
{
	(void)arg;
	pthread_join(hosted.thread, NULL);
	hosted_check(1, "a post from another thread");
}

static void *hosted_thread(void *arg)
{
	usleep(20000); /* So that the host sleeps most likely. */
	if (weir_post(hosted.reactor, hosted_on_post, arg))
		abort();
	return NULL;
}

/* More than once: it is easy to be woken by the first alone. */
static void *hosted_signaller(void *arg)
{
	usleep(20000);
	eventfd_write(hosted.event_fd, 1);
	return arg;
}

static int hosted_start_thread(void *(*fn)(void *arg))
{
	return -pthread_create(&hosted.thread, NULL, fn, NULL);
}

static void hosted_on_event(struct weir_watch *watch, uint32_t events,
			    void *arg)
{
	eventfd_t n;

	(void)watch, (void)events, (void)arg;
	eventfd_read(hosted.event_fd, &n);
	pthread_join(hosted.thread, NULL);
	if (--hosted.left == 0)
		hosted_check(1, "an eventfd written by another thread");
	else if (hosted_start_thread(hosted_signaller))
		abort();
}

static void hosted_on_defer(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
	if (--hosted.left == 0)
		hosted_check(1, "what one turn left to the next");
}

static uint64_t hosted_turns(void)
{
	struct weir_reactor_stats stats = { .size = sizeof(stats) };

	weir_reactor_stats(hosted.reactor, &stats);
	return stats.turns;
}

static int hosted_read(void)
{
	weir_op_init(&hosted.op, hosted_on_read);
	return weir_read(hosted.reactor, &hosted.op, hosted.fd, hosted.buf,
			 sizeof(hosted.buf), 0);
}

/* The next stage is the host's too: it sends, or cancels. */
static int hosted_recv(weir_op_fn *fn)
{
	hosted.later(20);
	weir_op_init(&hosted.op, fn);
	return weir_recv(hosted.reactor, &hosted.op, hosted.sock[0],
			 hosted.buf, sizeof(hosted.buf), 0);
}

static int hosted_move_timer(void)
{
	hosted.mark = weir_reactor_now(hosted.reactor) + 20 * WEIR_MSEC;
	weir_timer_start(hosted.timer, hosted.mark, 0);
	return 0;
}

static int hosted_defer_much(void)
{
	int err = 0;

	for (int i = 0; i < MUCH && !err; i++, hosted.left++)
		err = weir_defer(hosted.reactor, &hosted.defer[i]);
	return err;
}

static int hosted_begin_idling(void)
{
	hosted.mark = hosted_turns();
	hosted.later(200);
	return 0;
}

static int hosted_end_idling(void)
{
	hosted.mark = hosted_turns() - hosted.mark;
	printf("  %u turns in 200 ms of idleness\n", (unsigned int)hosted.mark);
	hosted.failed |= hosted.mark > 2;
	weir_reactor_stop(hosted.reactor);
	return 0;
}

static int hosted_begin_stage(int stage)
{
	switch (stage) {
	case 0:
		return hosted_read();
	case 1:
		return hosted_recv(hosted_on_data);
	case 2:
		return write(hosted.sock[1], "x", 1) == 1 ? 0 : -EIO;
	case 3:
		return hosted_recv(hosted_on_cancelled);
	case 4:
		return weir_op_cancel(&hosted.op);
	case 5:
		return hosted_move_timer();
	case 6:
		return hosted_start_thread(hosted_thread);
	case 7:
		hosted.left = 3;
		return hosted_start_thread(hosted_signaller);
	case 8:
		return hosted_defer_much();
	case 9:
		return hosted_begin_idling();
	default:
		return hosted_end_idling();
	}
}

/* To be called by the host's timer. */
static void hosted_next(void)
{
	if (!hosted_begin_stage(hosted.stage++))
		return;
	printf("  stage %d could not begin\n", hosted.stage - 1);
	hosted.failed = 1;
	weir_reactor_stop(hosted.reactor);
}

/* Returns a reactor for the host to drive, or NULL. */
static struct weir_reactor *hosted_create(void (*later)(unsigned int ms))
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.turn_max = TURN_MAX,
		.hosted = 1,
	};

	alarm(20); /* Should the host never be woken. */
	hosted.later = later;
	hosted.fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	hosted.event_fd = eventfd(0, EFD_CLOEXEC);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, hosted.sock))
		return NULL;
	for (int i = 0; i < MUCH; i++)
		weir_op_init(&hosted.defer[i], hosted_on_defer);
	if (weir_reactor_create(&hosted.reactor, &opts) ||
	    weir_timer_create(&hosted.timer, hosted.reactor, hosted_on_timer,
			      NULL) ||
	    weir_watch_create(&hosted.watch, hosted.reactor, hosted.event_fd,
			      WEIR_READABLE, hosted_on_event, NULL)) {
		fprintf(stderr, "%s\n", weir_why());
		return NULL;
	}
	printf("%s\n", weir_reactor_describe(hosted.reactor));

	/* In a day; stage 5 moves it up. */
	weir_timer_start(hosted.timer, weir_reactor_now(hosted.reactor) +
			 24 * HOUR, 0);
	return hosted.reactor;
}

/* Returns the exit status of the program: 0 if all stages went well. */
static int hosted_destroy(int err)
{
	weir_timer_destroy(hosted.timer);
	weir_watch_destroy(hosted.watch);
	close(hosted.event_fd);
	close(hosted.fd);
	close(hosted.sock[0]);
	close(hosted.sock[1]);
	if (weir_reactor_destroy(hosted.reactor)) {
		fprintf(stderr, "%s\n", weir_why());
		return 1;
	}
	return err || hosted.failed || hosted.stage != 11;
}

#endif /* HOSTED_H */
