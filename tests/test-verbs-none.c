/* SPDX-License-Identifier: BSD-3-Clause */

/* RDMA in the loop where the build has none: every call says so. */

#include "tests/harness.h"

#include <weir/channel.h>
#include <weir/cm.h>
#include <weir/verbs-event.h>

static void there_is_no_channel(void **state)
{
	struct weir_channel *ch = (void *)0x77;

	assert_int_equal(weir_channel_create(&ch, start_reactor(state), NULL,
					     NULL), -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_channel_create: this build");
	assert_ptr_equal(ch, (void *)0x77);
	assert_int_equal(weir_channel_destroy(NULL), 0);
}

static void there_are_no_events(void **state)
{
	struct weir_verbs_event *ev = (void *)0x77;

	assert_int_equal(weir_verbs_event_create(&ev, start_reactor(state),
						 NULL, NULL, NULL),
			 -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_verbs_event_create: this build");
	assert_ptr_equal(ev, (void *)0x77);
	weir_verbs_event_destroy(NULL);
}

static void there_is_no_cm(void **state)
{
	struct weir_cm *cm = (void *)0x77;

	assert_int_equal(weir_cm_create(&cm, start_reactor(state), NULL, NULL),
			 -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_cm_create: this build");
	assert_ptr_equal(cm, (void *)0x77);
	weir_cm_destroy(NULL);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(there_is_no_channel),
		CASE(there_are_no_events),
		CASE(there_is_no_cm),
	};

	return harness_run(cases, N_OF(cases));
}
