/* SPDX-License-Identifier: BSD-3-Clause */

#include <limits.h>

#include <weir/base.h>

#include "base/fault.h"

atomic_long fault_countdown = -1;
static atomic_long countdown_then = -1;
static _Atomic(const char *) last = "";
static atomic_int fired;
static int (*_Atomic asked)(const char *name);

void fault_arm(long nth)
{
	fault_arm_pair(nth, -1);
}

void fault_arm_pair(long nth, long then)
{
	atomic_store(&fired, 0);
	atomic_store(&countdown_then, then);
	atomic_store(&fault_countdown, nth);
}

int fault_disarm(void)
{
	atomic_store(&fault_countdown, -1);
	return atomic_exchange(&fired, 0);
}

const char *fault_last(void)
{
	return atomic_load(&last);
}

/* Without a function as if disarmed; with one the count never ends. */
void fault_ask(int (*decide)(const char *name))
{
	atomic_store(&asked, decide);
	atomic_store(&fault_countdown, decide ? LONG_MAX : -1);
}

int fault_hit(const char *name)
{
	int (*decide)(const char *name) = atomic_load(&asked);
	long then;

	if (decide)
		return decide(name);
	if (atomic_fetch_sub(&fault_countdown, 1) != 0)
		return 0;
	atomic_store(&last, name);
	atomic_fetch_add(&fired, 1);
	then = atomic_exchange(&countdown_then, -1);
	if (then >= 0)
		atomic_store(&fault_countdown, then);
	return 1;
}

int fault_chosen(const char *name)
{
	int (*decide)(const char *name) = atomic_load(&asked);

	return decide && decide(name);
}

int weir_fault(const char *name)
{
	return fault(name);
}
