/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Timers: once, periodic, and moved while they run.
 *
 * A ticker that ticks every 10 ms; an alarm that is put off by the first ticks,
 * as a watchdog is fed; and a thousand others that never fire, and cost nothing
 * but their memory.
 */

#include <stdio.h>

#include <weir/reactor.h>
#include <weir/timer.h>

#define N_OTHERS 1000

static struct weir_reactor *reactor;
static struct weir_timer *ticker, *watchdog, *others[N_OTHERS];
static uint64_t born, barked;
static unsigned int ticks;

static unsigned long long ms_since(uint64_t ns)
{
	return (weir_reactor_now(reactor) - ns) / WEIR_MSEC;
}

/* @n is more than 1 if the loop was late: periods are counted, not lost. */
static void on_tick(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)arg;
	ticks += (unsigned int)n;
	printf("%3llu ms: tick %u\n", ms_since(born), ticks);
	if (ticks <= 3) {
		weir_timer_start(watchdog,
				 weir_reactor_now(reactor) + 30 * WEIR_MSEC, 0);
		printf("        the watchdog is fed\n");
	}
	(void)timer;
}

static void on_bark(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
	barked = weir_reactor_now(reactor);
	printf("%3llu ms: the watchdog barks\n", ms_since(born));
	weir_reactor_stop(reactor);
}

static void on_other(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
	fprintf(stderr, "02-timer: that was to be in a year\n");
	weir_reactor_stop(reactor);
}

static int make_timers(void)
{
	uint64_t year = UINT64_C(365) * 24 * 3600 * WEIR_SEC;
	int err = weir_timer_create(&ticker, reactor, on_tick, NULL);

	if (!err)
		err = weir_timer_create(&watchdog, reactor, on_bark, NULL);
	for (int i = 0; i < N_OTHERS && !err; i++) {
		err = weir_timer_create(&others[i], reactor, on_other, NULL);
		if (!err)
			weir_timer_start(others[i], born + year, 0);
	}
	return err;
}

int main(void)
{
	if (weir_reactor_create(&reactor, NULL))
		return fprintf(stderr, "02-timer: %s\n", weir_why()), 1;
	born = weir_reactor_now(reactor);
	if (make_timers())
		return fprintf(stderr, "02-timer: %s\n", weir_why()), 1;

	weir_timer_start(ticker, born + 10 * WEIR_MSEC, 10 * WEIR_MSEC);
	weir_timer_start(watchdog, born + 30 * WEIR_MSEC, 0);
	if (weir_reactor_run(reactor))
		return fprintf(stderr, "02-timer: %s\n", weir_why()), 1;

	/* What belongs to a reactor goes before it; NULL is allowed. */
	weir_timer_destroy(ticker);
	weir_timer_destroy(watchdog);
	for (int i = 0; i < N_OTHERS; i++)
		weir_timer_destroy(others[i]);
	if (weir_reactor_destroy(reactor))
		return fprintf(stderr, "02-timer: %s\n", weir_why()), 1;

	/* Fed at 10 ms or later, it cannot have barked before 40 ms. */
	return !(ticks >= 1 && barked >= born + 40 * WEIR_MSEC);
}
