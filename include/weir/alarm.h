/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ALARM_H
#define WEIR_ALARM_H

/*
 * Alarms: timers on the wall clock, CLOCK_REALTIME, for "at three in the
 * morning" and for what a certificate or a calendar says.
 *
 * A timer of <weir/timer.h> counts the time that passes, whatever the clock
 * says, and is what a timeout needs.  An alarm follows the clock: if the clock
 * is set ahead, it is due earlier.  If the clock is set (by settimeofday(2) or a
 * jump of NTP, not by its slow corrections), every alarm is called with
 * WEIR_ALARM_CLOCK_SET, whether it is set or not, so that a program can work out
 * again when three in the morning is.
 *
 *	static void on_alarm(struct weir_alarm *alarm, uint32_t events, void *arg)
 *	{
 *		if (events & WEIR_ALARM_DUE)
 *			rotate_logs(arg);
 *		weir_alarm_set(alarm, next_midnight());
 *	}
 *
 * All alarms of a reactor share one descriptor, a timerfd(2).  After a suspend
 * an alarm that is overdue fires at once; none wakes the machine.  There are no
 * alarms in a simulated world, whose clock is that of weir_reactor_now().
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_alarm;
struct weir_reactor;

/* Why an alarm calls. */
#define WEIR_ALARM_DUE 1u	/* Its time has come. */
#define WEIR_ALARM_CLOCK_SET 2u	/* The clock was set. */

/*
 * Called when @alarm is due, once for each weir_alarm_set(), and when the clock
 * was set; @events is a set of the above.  It may set, stop and destroy any
 * alarm.
 */
typedef void weir_alarm_fn(struct weir_alarm *alarm, uint32_t events,
			   void *arg);

/*
 * Create an alarm of @r, not yet set, that calls @fn with @arg.
 *
 * Returns 0 with *@ret set, to be freed by weir_alarm_destroy(), or
 *   -EINVAL      @fn is NULL
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory
 *   -EOPNOTSUPP  in a simulated world
 *   -ESHUTDOWN   @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates ev_periodic_init() and timerfd_create(2) of CLOCK_REALTIME.
 */
WEIR_API int weir_alarm_create(struct weir_alarm **ret, struct weir_reactor *r,
			       weir_alarm_fn *fn, void *arg);

/*
 * Set @alarm to the time @when_ns: nanoseconds since 1970 began (UTC), as of
 * clock_gettime(CLOCK_REALTIME).
 *
 * If it is set already, its time is replaced.  A time in the past is due in the
 * next turn.  It never fires before its time.
 *
 * Call on the alarm's reactor.  Never blocks, never allocates; at most one
 * system call.
 *
 * Re-creates ev_periodic_start() and TFD_TIMER_CANCEL_ON_SET.
 */
WEIR_API void weir_alarm_set(struct weir_alarm *alarm, uint64_t when_ns);

/*
 * Stop @alarm: it is not due any more.  It is still called if the clock is set.
 *
 * Call on the alarm's reactor.  Never blocks, never allocates.
 *
 * Re-creates ev_periodic_stop().
 */
WEIR_API void weir_alarm_stop(struct weir_alarm *alarm);

/*
 * Stop and free @alarm.  NULL is allowed.
 *
 * Call on the alarm's reactor, from any callback.
 *
 * Re-creates uv_close() of a timer.
 */
WEIR_API void weir_alarm_destroy(struct weir_alarm *alarm);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ALARM_H */
