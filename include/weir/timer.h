/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_TIMER_H
#define WEIR_TIMER_H

/*
 * Timers: something that calls back at a time, once or periodically.
 *
 * All timers of a reactor live in one wheel, where setting, moving and stopping
 * one is a handful of instructions: a million at once is fine, and no timer has
 * a descriptor of its own.  A timer never fires early.  To wait once, without
 * an object, there is weir_sleep_until().
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
 * periodic.  It may start, stop and destroy any timer, this one too.
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
 */
WEIR_API int weir_timer_create(struct weir_timer **ret, struct weir_reactor *r,
			       weir_timer_fn *fn, void *arg);

/*
 * Set @timer to fire at @when_ns, on weir_reactor_now()'s clock, and from then
 * on every @period_ns if that is not 0.
 *
 * A timer that is set already is moved.  A time in the past is due in the next
 * turn.  A periodic timer keeps its rhythm when the loop is late: missed
 * periods are counted, not fired one by one.
 *
 * Call on the timer's reactor.  Never blocks, never allocates, no system call.
 */
WEIR_API void weir_timer_start(struct weir_timer *timer, uint64_t when_ns,
			       uint64_t period_ns);

/*
 * Unset @timer; its callback does not run until it is set again.  A timer that
 * is not set may be stopped.
 *
 * Call on the timer's reactor.  Never blocks.
 */
WEIR_API void weir_timer_stop(struct weir_timer *timer);

/*
 * Whether @timer is set: 1 or 0.  In its callback a periodic one is, another is
 * not.
 *
 * Call on the timer's reactor.  Never blocks.
 *
 * Re-creates uv_is_active() of a timer.
 */
WEIR_API int weir_timer_is_set(const struct weir_timer *timer);

/*
 * Stop @timer and free it.  NULL is allowed, and so is the timer's own
 * callback.
 *
 * Call on the timer's reactor.  Never blocks.
 */
WEIR_API void weir_timer_destroy(struct weir_timer *timer);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_TIMER_H */
