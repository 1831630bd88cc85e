/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/fault.h"

atomic_long fault_countdown = -1;
static _Atomic(const char *) last = "";
static atomic_int fired;

void fault_arm(long nth)
{
	atomic_store(&fired, 0);
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

int fault_hit(const char *name)
{
	if (atomic_fetch_sub(&fault_countdown, 1) != 0)
		return 0;
	atomic_store(&last, name);
	atomic_store(&fired, 1);
	return 1;
}
