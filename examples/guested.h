/* SPDX-License-Identifier: CC0-1.0 */

/*
 * What has to work with any guest's loop: the examples 08 to 11 have a reactor
 * drive one and then go through this list.  Each stage begins in a callback of
 * the reactor's, where something is changed in the guest that it, or libweir,
 * could not know of otherwise.
 *
 *	a timer of the guest's is set	    it fires
 *	a descriptor is watched, and ready  so says the guest
 *	another thread wakes the guest	    it wakes
 *	nothing happens			    few turns are made, or none
 */

#ifndef GUESTED_H
#define GUESTED_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/timer.h>

struct guested {
	struct weir_reactor *reactor;
	struct weir_timer *timer;	/* Begins the next stage. */
	int stage;
	int failed;
	int pipe[2];
	pthread_t thread;
	uint64_t mark;
	unsigned int turns_max;		/* In 200 ms of idleness. */

	/* What the guest does, and then calls guested_check(). */
	void (*set_timer)(unsigned int ms);
	void (*watch)(int fd);		/* Read one byte, then unwatch. */
	void (*wake)(void);		/* From any thread. */
};

static struct guested guested;

static void guested_later(unsigned int ms)
{
	weir_timer_start(guested.timer, weir_reactor_now(guested.reactor) +
			 ms * WEIR_MSEC, 0);
}

/* To be called by the guest's callbacks. */
static void guested_check(int good, const char *what)
{
	printf("  %s: %s\n", what, good ? "yes" : "NO");
	guested.failed |= !good;
	guested_later(5);
}

static uint64_t guested_turns(void)
{
	struct weir_reactor_stats stats = { .size = sizeof(stats) };

	weir_reactor_stats(guested.reactor, &stats);
	return stats.turns;
}

static void *guested_thread(void *arg)
{
	usleep(20000); /* So that the reactor sleeps most likely. */
	guested.wake();
	return arg;
}

static void guested_idle(void)
{
	guested.mark = guested_turns();
	guested_later(200);
}

static void guested_end(void)
{
	guested.mark = guested_turns() - guested.mark;
	printf("  %u turns in 200 ms of idleness\n",
	       (unsigned int)guested.mark);
	guested.failed |= guested.mark > guested.turns_max;
	weir_reactor_stop(guested.reactor);
}

static void guested_next(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
	switch (guested.stage++) {
	case 0:
		guested.set_timer(20);
		break;
	case 1:
		guested.watch(guested.pipe[0]);
		break;
	case 2:
		guested.watch(guested.pipe[0]);
		guested_later(20);
		break;
	case 3:
		/* Nobody but the guest's own descriptor can tell of this. */
		guested.failed |= write(guested.pipe[1], "x", 1) != 1;
		break;
	case 4:
		guested.failed |= pthread_create(&guested.thread, NULL,
						 guested_thread, NULL) != 0;
		break;
	case 5:
		pthread_join(guested.thread, NULL);
		guested_idle();
		break;
	default:
		guested_end();
	}
}

/* Set the functions of struct guested before.  Returns a reactor, or NULL. */
static struct weir_reactor *guested_create(void)
{
	alarm(20); /* Should the guest never be served. */
	if (pipe(guested.pipe) || write(guested.pipe[1], "x", 1) != 1)
		return NULL;
	if (weir_reactor_create(&guested.reactor, NULL) ||
	    weir_timer_create(&guested.timer, guested.reactor, guested_next,
			      NULL)) {
		fprintf(stderr, "%s\n", weir_why());
		return NULL;
	}
	printf("%s\n", weir_reactor_describe(guested.reactor));
	guested_later(0);
	return guested.reactor;
}

/* Returns the exit status of the program: 0 if all stages went well. */
static int guested_destroy(void)
{
	weir_timer_destroy(guested.timer);
	close(guested.pipe[0]);
	close(guested.pipe[1]);
	if (weir_reactor_destroy(guested.reactor)) {
		fprintf(stderr, "%s\n", weir_why());
		return 1;
	}
	return guested.failed || guested.stage != 7;
}

#endif /* GUESTED_H */
