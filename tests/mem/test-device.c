/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices: what is told of them before they are opened, one instance that is
 * counted, and the table of docs/internals/mem.md.  Names and addresses of RDMA
 * devices are tested over a tree like /sys of our own.
 */

#include "tests/support/harness.h"

#include <pthread.h>
#include <stdatomic.h>

#include <weir/device.h>
#include <weir/uring.h>

#include "base/fault.h"
#include "mem/device-internal.h"

static struct weir_device_caps caps_of(const struct weir_devinfo *info)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };

	assert_int_equal(weir_devinfo_caps(info, &caps), 0);
	assert_int_equal(caps.size, sizeof(caps));
	return caps;
}

static struct weir_devinfo **list_of(size_t *n)
{
	struct weir_devinfo **list;

	assert_int_equal(weir_device_list(&list, n), 0);
	assert_null(list[*n]);
	return list;
}

static struct weir_device *opened(const char *name)
{
	struct weir_device *dev;

	if (weir_device_open_name(&dev, name))
		fail_msg("%s: %s", name, weir_why());
	return dev;
}

static void closes(struct weir_device *dev)
{
	assert_int_equal(weir_device_close(dev), 0);
}

static void the_list_has_what_every_system_has(void **state)
{
	static const struct {
		const char *name;
		uint32_t kind;
	} always[] = {
		{ "cpu", WEIR_DEVICE_CPU },
		{ "io_uring", WEIR_DEVICE_IO_URING },
		{ "soft-dm", WEIR_DEVICE_SOFT_DM },
	};
	struct weir_device_caps caps;
	struct weir_devinfo **list;
	size_t n, i;

	(void)state;
	list = list_of(&n);
	assert_true(n >= N_OF(always));
	for (i = 0; i < N_OF(always); i++) {
		caps = caps_of(list[i]);
		assert_string_equal(caps.name, always[i].name);
		assert_int_equal(caps.kind, always[i].kind);
		assert_true(caps.flags & WEIR_DEVICE_SOFTWARE);
		assert_true(caps.align >= 1);
	}
	for (; i < n; i++)
		assert_int_equal(caps_of(list[i]).kind, WEIR_DEVICE_RDMA);
	weir_device_list_free(list);
	weir_device_list_free(NULL);
}

/* A reason and a remedy, or something that it can do. */
static void unusable_device_says_why(void **state)
{
	struct weir_device_caps caps;
	struct weir_devinfo **list;
	struct weir_device *dev;
	size_t n, i;

	(void)state;
	list = list_of(&n);
	for (i = 0; i < n; i++) {
		caps = caps_of(list[i]);
		if (caps.flags & WEIR_DEVICE_USABLE) {
			assert_string_equal(caps.why, "");
			continue;
		}
		assert_true(strlen(caps.why) > 20);
		assert_int_equal(caps.caps, 0);
		assert_int_equal(caps.jobs, 0);
		assert_int_equal(caps.domains, 0);
		assert_int_equal(weir_device_open(&dev, list[i]),
				 -EOPNOTSUPP);
		assert_non_null(strstr(weir_why(), caps.why));
	}
	weir_device_list_free(list);
}

/* A2.1 */
static void an_open_device_survives_its_list(void **state)
{
	struct weir_devinfo **list;
	struct weir_device *dev;
	size_t n;

	(void)state;
	list = list_of(&n);
	assert_int_equal(weir_device_open(&dev, list[0]), 0);
	weir_device_list_free(list);
	assert_string_equal(caps_of(weir_device_info(dev)).name, "cpu");
	closes(dev);
}

/* A2.2 */
static void a_device_has_one_instance_that_is_counted(void **state)
{
	struct weir_device *first = opened("cpu"), *second;
	struct weir_devinfo **list;
	size_t n;

	(void)state;
	assert_ptr_equal(opened("cpu"), first);
	list = list_of(&n);
	assert_int_equal(weir_device_open(&second, list[0]), 0);
	assert_ptr_equal(second, first);
	weir_device_list_free(list);
	assert_ptr_not_equal(second = opened("soft-dm"), first);
	closes(second);
	assert_int_equal(first->refs, 3);
	closes(first);
	closes(first);
	assert_string_equal(device_name(first), "cpu");
	closes(first);
	closes(NULL);
}

static void device_reference_count_does_not_overflow(void **state)
{
	struct weir_device *dev = opened("cpu"), *same = NULL;

	(void)state;
	dev->refs = UINT32_MAX;
	assert_int_equal(weir_device_open_name(&same, "cpu"), -EMFILE);
	assert_null(same);
	dev->refs = 1;
	closes(dev);
}

/* A2.2: the table of docs/internals/mem.md. */
static void the_last_close_refuses_while_it_is_held(void **state)
{
	struct weir_device *dev = opened("cpu");

	(void)state;
	opened("cpu");
	device_use(dev);
	closes(dev);
	assert_int_equal(weir_device_close(dev), -EBUSY);
	assert_starts_with(weir_why(), "weir_device_close: 1 ");
	assert_ptr_equal(opened("cpu"), dev);
	closes(dev);
	device_unuse(dev);
	closes(dev);
}

static void an_unknown_name_is_told_the_known_ones(void **state)
{
	struct weir_device *dev = NULL;

	(void)state;
	assert_int_equal(weir_device_open_name(&dev, "gpu0"), -ENOENT);
	assert_null(dev);
	assert_non_null(strstr(weir_why(), "gpu0"));
	assert_non_null(strstr(weir_why(), "cpu, io_uring, soft-dm"));
}

/* A2.3 */
static void an_open_device_tells_the_same_as_its_entry(void **state)
{
	struct weir_device_caps before, after;
	struct weir_devinfo **list;
	struct weir_device *dev;
	size_t n, i;

	(void)state;
	list = list_of(&n);
	for (i = 0; i < n; i++) {
		before = caps_of(list[i]);
		if (!(before.flags & WEIR_DEVICE_USABLE))
			continue;
		assert_int_equal(weir_device_open(&dev, list[i]), 0);
		after = caps_of(weir_device_info(dev));
		assert_memory_equal(&before, &after, sizeof(before));
		closes(dev);
	}
	weir_device_list_free(list);
}

static void older_and_newer_callers_get_what_they_have_capacity_for(
	void **state)
{
	struct {
		struct weir_device_caps caps;
		uint64_t newer;
	} big = { { .size = sizeof(big) }, 7 };
	struct weir_device_caps small = {
		.size = offsetof(struct weir_device_caps, kind), .kind = 99,
	};
	struct weir_device *dev = opened("cpu");
	const struct weir_devinfo *info = weir_device_info(dev);

	(void)state;
	assert_int_equal(weir_devinfo_caps(info, &small), 0);
	assert_string_equal(small.name, "cpu");
	assert_int_equal(small.kind, 99);
	assert_int_equal(weir_devinfo_caps(info, &big.caps), 0);
	assert_int_equal(big.newer, 0);
	assert_int_equal(big.caps.size, sizeof(big));
	small.size = 4;
	assert_int_equal(weir_devinfo_caps(info, &small), -EINVAL);
	assert_starts_with(weir_why(), "weir_devinfo_caps: ");
	closes(dev);
}

/* WEIR_BACKEND=ev, until it is given back what it was. */
static char *name_ev(void)
{
	const char *env = getenv("WEIR_BACKEND");
	char *before = env ? strdup(env) : NULL;

	setenv("WEIR_BACKEND", "ev", 1);
	return before;
}

static void unname_ev(char *before)
{
	unsetenv("WEIR_BACKEND");
	if (before)
		setenv("WEIR_BACKEND", before, 1);
	free(before);
}

static void io_uring_is_not_touched_where_ev_is_named(void **state)
{
	struct weir_uring_info info = { .size = sizeof(info) };
	struct weir_device *dev = NULL;
	char *before = name_ev();

	(void)state;
	assert_int_equal(weir_device_open_name(&dev, "io_uring"), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "WEIR_BACKEND"));
	assert_int_equal(weir_uring_probe(&info), -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_uring_probe: WEIR_BACKEND");
	unname_ev(before);
}

static void a_list_leaves_the_message_as_it_was(void **state)
{
	struct weir_devinfo **list;
	struct weir_device *dev;
	char said[512];
	char *before = name_ev();	/* A reason not to be told. */
	size_t n;

	(void)state;
	weir_device_open_name(&dev, "gpu0");
	snprintf(said, sizeof(said), "%s", weir_why());
	list = list_of(&n);
	assert_string_equal(weir_why(), said);
	weir_device_list_free(list);
	unname_ev(before);
}

static void the_probe_tells_what_a_reactor_would_use(void **state)
{
	struct weir_uring_info info = { .size = sizeof(info) };
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
	};
	struct weir_reactor *r;
	const char *said;
	int err;

	(void)state;
	unsetenv("WEIR_BACKEND");
	err = weir_uring_probe(&info);
	if (err) {
		assert_int_equal(weir_reactor_create(&r, &opts), err);
		skip_because("%s", weir_why());
	}
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	said = weir_reactor_describe(r);
	assert_int_equal(!!(info.features & WEIR_URING_DEFER_TASKRUN),
			 !!strstr(said, "DEFER_TASKRUN"));
	assert_int_equal(!!(info.features & WEIR_URING_FILES),
			 !!strstr(said, " files"));
	assert_int_equal(!!(info.features & WEIR_URING_BUFFERS),
			 !!strstr(said, " buffers"));
	assert_int_equal(!!info.max_buffers,
			 !!(info.features & WEIR_URING_BUFFERS));
	assert_true(info.max_ops > 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	info.size = 1;
	assert_int_equal(weir_uring_probe(&info), -EINVAL);
}

/* Whatever fails, it is an error or a device that is not usable. */
static void failing_call_of_discovery_is_an_error_or_a_reason(void **state)
{
	bool fired = true;
	long nth;
	int err;

	(void)state;
	for (nth = 0; fired; nth++) {
		struct weir_device *dev = NULL;

		assert_true(nth < 200);
		fault_arm(nth);
		err = weir_device_open_name(&dev, "cpu");
		fired = fault_disarm();
		if (err) {
			assert_true(fired);
			assert_int_equal(err, -ENOMEM);
			assert_starts_with(weir_why(), "weir_device_");
			assert_null(dev);
		} else {
			closes(dev);
		}
	}
}

#define THREADS 4

static atomic_int go;

static void *open_and_close(void *arg)
{
	struct weir_device *dev;
	int i, err = 0;

	(void)arg;
	while (!atomic_load(&go))
		;
	for (i = 0; i < 100 && !err; i++) {
		err = weir_device_open_name(&dev, i % 2 ? "cpu" : "soft-dm");
		if (!err)
			err = weir_device_close(dev);
	}
	return err ? "failed" : NULL;
}

static void threads_may_open_and_close_at_once(void **state)
{
	pthread_t threads[THREADS];
	void *failed;
	int i;

	(void)state;
	atomic_store(&go, 0);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						open_and_close, NULL), 0);
	atomic_store(&go, 1);
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(the_list_has_what_every_system_has),
		CASE(unusable_device_says_why),
		CASE(an_open_device_survives_its_list),
		CASE(a_device_has_one_instance_that_is_counted),
		CASE(device_reference_count_does_not_overflow),
		CASE(the_last_close_refuses_while_it_is_held),
		CASE(an_unknown_name_is_told_the_known_ones),
		CASE(an_open_device_tells_the_same_as_its_entry),
		CASE(older_and_newer_callers_get_what_they_have_capacity_for),
		CASE(io_uring_is_not_touched_where_ev_is_named),
		CASE(a_list_leaves_the_message_as_it_was),
		CASE(the_probe_tells_what_a_reactor_would_use),
		CASE(failing_call_of_discovery_is_an_error_or_a_reason),
		CASE(threads_may_open_and_close_at_once),
	};

	return harness_run_plain(cases, N_OF(cases));
}
