/* SPDX-License-Identifier: BSD-3-Clause */

/* Connections in a weir without verbs: the calls are there, and say so. */

#include "tests/harness.h"

#include <netinet/in.h>

#include <weir/conn.h>
#include <weir/mw.h>

static void the_calls_say_what_is_missing(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct weir_listener *l = NULL;
	struct weir_conn *c = NULL;
	struct weir_reactor *r;
	size_t len = 1;

#ifdef HAVE_VERBS
	skip_because("this weir has verbs");
#endif
	r = start_reactor(state);
	assert_int_equal(weir_conn_create(&c, r, NULL, NULL), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "librdmacm-dev"));
	assert_int_equal(weir_listener_create(&l, r,
				(struct sockaddr *)&in, sizeof(in), NULL),
			 -EOPNOTSUPP);
	assert_null(c);
	assert_null(l);
	assert_int_equal(weir_conn_state(c), -EOPNOTSUPP);
	assert_null(weir_conn_peer_data(c, &len));
	assert_int_equal(len, 0);
	assert_int_equal(weir_conn_destroy(NULL), 0);
	assert_int_equal(weir_listener_destroy(NULL), 0);
	assert_int_equal(weir_mw_create(NULL, c, NULL, NULL, NULL),
			 -EOPNOTSUPP);
	assert_int_equal(weir_mw_destroy(NULL), 0);
}

int main(void)
{
	const struct harness_case cases[] = {
		CASE(the_calls_say_what_is_missing),
	};

	return harness_run(cases, N_OF(cases));
}
