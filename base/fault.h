/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_FAULT_H
#define WEIR_BASE_FAULT_H

/*
 * Fault points of the core: places where an allocation or a system call can be made to
 * fail, so that a test can fail the first, the second, ... until none is left.
 *
 * Always compiled in: disarmed, a point is one load and one branch, and stands
 * only where something far slower follows.  Armed by tests that are linked with
 * the static library, and by a simulated world while it runs.
 */

#include <stdatomic.h>

#include "base/check.h"
#include "base/provider.h"

/* Points left until one fails; < 0: disarmed. */
extern atomic_long fault_countdown;

/* Fail the @nth point reached from now on (0: the next), in any thread. */
void fault_arm(long nth);

/* And, when that has failed, the @then'th one from there on (0: the next). */
void fault_arm_pair(long nth, long then);

/* Disarm.  Returns how many of the armed points were reached and failed. */
int fault_disarm(void);

/* The name of the last point that failed, for the test's message. */
const char *fault_last(void);

/*
 * Have @decide choose at each point whether it fails, in any thread, until it
 * is set to NULL.  It may be called on threads that the test did not start.
 */
void fault_ask(int (*decide)(const char *name)) PROVIDER_API(fault_ask);

int fault_hit(const char *name);
int fault_chosen(const char *name);

/* Whether the point @name is to fail now. */
static inline int fault(const char *name)
{
	if (likely(atomic_load_explicit(&fault_countdown,
					memory_order_relaxed) < 0))
		return 0;
	return fault_hit(name);
}

/* The same for a choice that does not make the call fail: it is not counted,
 * and only the function of fault_ask() chooses it. */
static inline int fault_choice(const char *name)
{
	if (likely(atomic_load_explicit(&fault_countdown,
					memory_order_relaxed) < 0))
		return 0;
	return fault_chosen(name);
}

#endif /* WEIR_BASE_FAULT_H */
