/* SPDX-License-Identifier: BSD-3-Clause */
/* weir_why(): one message per thread, which costs a thread one pointer. */

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "base/why.h"
#include "tests/support/harness.h"

#include <weir/base.h>

static void *fail_alone(void *arg)
{
	(void)arg;
	assert_string_equal(weir_why(), "");
	assert_int_equal(why(-EINVAL, "other: %d", 2), -EINVAL);
	assert_string_equal(weir_why(), "other: 2");
	return NULL;
}

static void message_belongs_to_its_thread(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(why(-EIO, "main: %s", "one"), -EIO);
	assert_int_equal(pthread_create(&thread, NULL, fail_alone, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(weir_why(), "main: one");
}

static pthread_key_t last_words;

static void fail_at_exit(void *arg)
{
	(void)arg;
	assert_int_equal(why(-EIO, "at exit"), -EIO);
	assert_string_equal(weir_why(), "at exit");
}

static void *fail_and_end(void *arg)
{
	(void)arg;
	assert_int_equal(pthread_setspecific(last_words, &last_words), 0);
	assert_int_equal(why(-EIO, "before"), -EIO);
	return NULL;
}

/* The key was made after the library's own, so its destructor runs later. */
static void destructor_of_thread_may_fail(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(why(-EIO, "first"), -EIO);
	assert_int_equal(pthread_key_create(&last_words, fail_at_exit), 0);
	assert_int_equal(pthread_create(&thread, NULL, fail_and_end, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(pthread_key_delete(last_words), 0);
}

static void message_of_shared_function_names_its_call(void **state)
{
	(void)state;
	why(-EIO, "weir_conn: the port is down");
	assert_int_equal(why_call(-EIO, "weir_conn", "weir_conn_accept"), -EIO);
	assert_string_equal(weir_why(), "weir_conn_accept: the port is down");
	why_call(-EIO, "weir_conn", "weir_conn_connect");
	assert_string_equal(weir_why(), "weir_conn_accept: the port is down");
}

static void message_may_contain_the_one_before_it(void **state)
{
	(void)state;
	assert_int_equal(weir_why_set(-EIO, "acme_open: no %s", "card"), -EIO);
	assert_string_equal(weir_why(), "acme_open: no card");
	assert_int_equal(weir_why_set(-ENODEV, "acme: %s", weir_why()),
			 -ENODEV);
	assert_string_equal(weir_why(), "acme: acme_open: no card");
	why_static(-EINVAL, "a literal");
	assert_int_equal(weir_why_set(-EIO, "%s, again", weir_why()), -EIO);
	assert_string_equal(weir_why(), "a literal, again");
}

static void long_message_is_cut(void **state)
{
	char text[4096];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(why(-EIO, "%s", text), -EIO);
	assert_int_equal(strlen(weir_why()), 511);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message_belongs_to_its_thread),
		cmocka_unit_test(destructor_of_thread_may_fail),
		cmocka_unit_test(message_of_shared_function_names_its_call),
		cmocka_unit_test(message_may_contain_the_one_before_it),
		cmocka_unit_test(long_message_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
