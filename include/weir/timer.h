/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_TIMER_H
#define WEIR_TIMER_H

/*
 * Timers, which call back at a time, once or periodically.
 *
 * All timers of a reactor are in one timer wheel, in which setting, moving and
 * stopping one takes few instructions.  A reactor can have a million timers,
 * and no timer uses a descriptor.  A timer never fires early.  To wait once,
 * without an object, use weir_sleep_until().
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reactor;
struct weir_timer;

/*
 * Called when @timer fires.  @n is the number of periods that have passed since
 * it fired last: 1, or more if the loop was late; always 1 if it is not
 * periodic.  The callback may start, stop and destroy any timer, including this
 * one.
 */
typedef void weir_timer_fn(struct weir_timer *timer, uint64_t n, void *arg);

/*
 * Create a timer of @r, not yet set, that calls @fn with @arg.
 *
 * Returns 0 with *@ret set, to be freed by weir_timer_destroy(), or
 *   -EINVAL  @fn is NULL
 *   -ENOMEM  no memory
 *
 * Call on @r's thread.
 *
 * Re-creates uv_timer_init() and ev_timer_init().
 */
WEIR_API int weir_timer_create(struct weir_timer **ret, struct weir_reactor *r,
			       weir_timer_fn *fn, void *arg);

/*
 * Set @timer to fire at @when_ns, on weir_reactor_now()'s clock, and from then
 * on every @period_ns if that is not 0.
 *
 * If @timer is set already, its time is replaced.  A time in the past is due in
 * the next turn.  A periodic timer keeps its schedule when the loop is late: it
 * fires once, with the number of periods.
 *
 * Call on the timer's reactor.  Never blocks, never allocates, no system call.
 *
 * Re-creates uv_timer_start(), ev_timer_start() and rte_timer_reset().
 */
WEIR_API void weir_timer_start(struct weir_timer *timer, uint64_t when_ns,
			       uint64_t period_ns);

/*
 * Stop @timer, so that its callback does not run until it is started again.
 *
 * The call has no effect on a timer that is not set.
 *
 * Call on the timer's reactor.  Never blocks.
 *
 * Re-creates uv_timer_stop(), ev_timer_stop() and rte_timer_stop().
 */
WEIR_API void weir_timer_stop(struct weir_timer *timer);

/*
 * Tell whether @timer is set: 1 or 0.
 *
 * In its callback a periodic timer is set, any other is not.
 *
 * Returns 1 or 0.  Call on the timer's reactor.  Never blocks.
 *
 * Re-creates uv_is_active() of a timer.
 */
WEIR_API int weir_timer_is_set(const struct weir_timer *timer);

/*
 * Stop @timer and free it.
 *
 * NULL is allowed, and the timer's own callback may make this call.
 *
 * Call on the timer's reactor.  Never blocks.
 */
WEIR_API void weir_timer_destroy(struct weir_timer *timer);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_TIMER_H */
