/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FAULT_FIXTURE_H
#define TESTS_FAULT_FIXTURE_H

/* Fault points by their names, for tests that are linked with the static library. */

#include "tests/support/harness.h"

#include "base/fault.h"

/* The point that fails while fault_ask() has differ(); NULL: none. */
static const char *unlike;

static int differ(const char *name)
{
	return unlike && !strcmp(name, unlike);
}

/* Stop @r and start it again, when none of its sources can be watched. */
static inline void restart_unwatched(struct weir_reactor *r)
{
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	unlike = "source_start";
	fault_ask(differ);
	assert_int_equal(weir_reactor_start(r), 0);
	fault_ask(NULL);
}

#endif /* TESTS_FAULT_FIXTURE_H */
