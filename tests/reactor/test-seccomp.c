/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Where io_uring is forbidden: in most containers a filter answers EPERM, older
 * kernels answer ENOSYS, and some filters kill.  Each is tried in a child, with
 * a filter of our own.
 */

#include "tests/support/child-fixture.h"

#include <weir/file.h>
#include <weir/uring.h>

static struct rec rec;

/* A reactor that does something, on @backend. */
static int works_on(struct weir_reactor *r, const char *backend)
{
	char buf[16];
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	CHECK(!strcmp(weir_reactor_backend(r), backend));
	rec_init(&rec);
	CHECK(!weir_read(r, &rec.op, fd, buf, sizeof(buf), WEIR_OFF_STREAM));
	while (!rec.calls)
		CHECK(weir_reactor_turn(r, WEIR_SEC) >= 0);
	CHECK(rec.res == sizeof(buf));
	close(fd);
	CHECK(!weir_reactor_destroy(r));
	return 0;
}

/* The calls of io_uring from @first to @last are. */
static int refused_calls(uint32_t first, uint32_t last, int err)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_uring_info info = { .size = sizeof(info) };
	struct weir_reactor *r;

	if (forbid_range(first, last, SECCOMP_RET_ERRNO | (uint32_t)err))
		return 77;
	unsetenv("WEIR_BACKEND");
	CHECK(!weir_reactor_create(&r, NULL));
	/* It says what happened. */
	CHECK(strstr(weir_reactor_describe(r), "io_uring"));
	if (works_on(r, "ev"))
		return 1;
	setenv("WEIR_BACKEND", "auto", 1);
	CHECK(!weir_reactor_create(&r, NULL));
	if (works_on(r, "ev"))
		return 1;

	/* To ask for it is no harm, and tells the same. */
	CHECK(weir_uring_probe(&info) == -EOPNOTSUPP);
	CHECK(!strncmp(weir_why(), "weir_uring_probe: ", 18));
	CHECK(strstr(weir_why(), "io_uring"));

	/* By name there is no other way. */
	setenv("WEIR_BACKEND", "uring", 1);
	CHECK(weir_reactor_create(&r, NULL) == -EOPNOTSUPP);
	CHECK(strstr(weir_why(), "io_uring"));
	unsetenv("WEIR_BACKEND");
	opts.backend = WEIR_BACKEND_URING;
	CHECK(weir_reactor_create(&r, &opts) == -EOPNOTSUPP);
	CHECK(strlen(weir_why()) > 20);
	return 0;
}

static int refused_with(int err)
{
	return refused_calls(NR_URING_SETUP, NR_URING_REGISTER, err);
}

static int refused_einval(void)
{
	return refused_with(EINVAL);
}

static int refused_enter(void)
{
	if (refused_calls(NR_URING_ENTER, NR_URING_ENTER, EPERM))
		return 1;
	CHECK(strstr(weir_why(), "io_uring_enter"));
	return 0;
}

static int refused_register(void)
{
	if (refused_calls(NR_URING_REGISTER, NR_URING_REGISTER, EPERM))
		return 1;
	CHECK(strstr(weir_why(), "io_uring_register"));
	return 0;
}

/* Without it there is no reactor, and the limit is not to blame. */
static int refused_eventfd_with(int err)
{
	struct weir_reactor *r;

	if (forbid_call(SYS_eventfd2, err))
		return 77;
	unsetenv("WEIR_BACKEND");
	CHECK(weir_reactor_create(&r, NULL) == -err);
	CHECK(strstr(weir_why(), "eventfd") && strstr(weir_why(), "seccomp"));
	CHECK(!strstr(weir_why(), "ulimit"));
	setenv("WEIR_BACKEND", "ev", 1);
	CHECK(weir_reactor_create(&r, NULL) == -err);
	CHECK(strstr(weir_why(), "eventfd") && strstr(weir_why(), "seccomp"));
	return 0;
}

static int refused_eventfd_eperm(void)
{
	return refused_eventfd_with(EPERM);
}

static int refused_eventfd_eacces(void)
{
	return refused_eventfd_with(EACCES);
}

static int refused_eventfd_enosys(void)
{
	return refused_eventfd_with(ENOSYS);
}

static int refused_later(void)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = WEIR_BACKEND_URING,
					  .spin_ns = WEIR_SPIN_NONE };
	struct weir_reactor *r;

	if (weir_reactor_create(&r, &opts) ||
	    forbid_call(NR_URING_ENTER, EPERM))
		return 77;
	rec_init(&rec);
	CHECK(!weir_nop(r, &rec.op));
	CHECK(weir_reactor_run(r) == -EPERM);
	CHECK(strstr(weir_why(), "uring") && strstr(weir_why(), "not permitted"));
	return 0;
}

static int refused_eperm(void)
{
	return refused_with(EPERM);
}

static int refused_enosys(void)
{
	return refused_with(ENOSYS);
}

static int refused_eacces(void)
{
	return refused_with(EACCES);
}

static int named_ev_does_not_probe(void)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_uring_info info = { .size = sizeof(info) };
	struct weir_reactor *r;

	if (forbid_uring(SECCOMP_RET_KILL_PROCESS))
		return 77;
	setenv("WEIR_BACKEND", "ev", 1);
	CHECK(!weir_reactor_create(&r, NULL));
	if (works_on(r, "ev"))
		return 1;
	CHECK(weir_uring_probe(&info) == -EOPNOTSUPP);
	unsetenv("WEIR_BACKEND");
	opts.backend = WEIR_BACKEND_EV;
	CHECK(!weir_reactor_create(&r, &opts));
	return works_on(r, "ev");
}

/* The proof that the filter is one: it must kill. */
static int probing_is_killed(void)
{
	if (forbid_uring(SECCOMP_RET_KILL_PROCESS))
		return 77;
	syscall(NR_URING_SETUP, 0, NULL);
	return 0;
}

static void eperm_ends_on_ev_and_says_why(void **state)
{
	(void)state;
	assert_int_equal(in_child(refused_eperm), 0);
}

static void enosys_ends_on_ev_and_says_why(void **state)
{
	(void)state;
	assert_int_equal(in_child(refused_enosys), 0);
}

static void eacces_ends_on_ev_and_says_why(void **state)
{
	(void)state;
	assert_int_equal(in_child(refused_eacces), 0);
}

static void einval_ends_on_ev_and_says_why(void **state)
{
	(void)state;
	assert_int_equal(in_child(refused_einval), 0);
}

/* As before Linux 5.10 for pipes: nothing tells the kernel not to wait. */
static int read_without_preadv2(void)
{
	struct weir_reactor *r;
	char c = 0, more = 1;
	int p[2];

	setenv("WEIR_BACKEND", "ev", 1);
	CHECK(!weir_reactor_create(&r, NULL));
	if (forbid_range(SYS_preadv2, SYS_pwritev2,
			 SECCOMP_RET_ERRNO | ENOSYS))
		return 77;
	pipe_pair(p);
	rec_init(&rec);
	alarm(10);
	CHECK(!weir_read(r, &rec.op, p[0], &c, 1, WEIR_OFF_STREAM));
	CHECK(weir_reactor_turn(r, 0) >= 0);
	CHECK(!rec.calls);
	CHECK(write(p[1], "x", 1) == 1);
	while (!rec.calls)
		CHECK(weir_reactor_turn(r, WEIR_SEC) >= 0);
	CHECK(rec.res == 1 && c == 'x');
	/* So does a write that finds no capacity, on a worker. */
	stuff(p[1]);
	rec_init(&rec);
	CHECK(!weir_write(r, &rec.op, p[1], &more, 1, WEIR_OFF_STREAM));
	CHECK(weir_reactor_turn(r, 0) >= 0);
	CHECK(!rec.calls);
	for (int i = 0; i < 4096; i++)
		CHECK(read(p[0], &c, 1) == 1);
	while (!rec.calls)
		CHECK(weir_reactor_turn(r, WEIR_SEC) >= 0);
	CHECK(rec.res == 1);
	close_pair(p);
	CHECK(!weir_reactor_destroy(r));
	return 0;
}

static void read_of_a_pipe_on_an_old_kernel_does_not_block_the_loop(void **state)
{
	(void)state;
	assert_int_equal(in_child(read_without_preadv2), 0);
}

static void refused_io_uring_enter_ends_on_ev(void **state)
{
	(void)state;
	assert_int_equal(in_child(refused_enter), 0);
}

static void refused_io_uring_register_ends_on_ev(void **state)
{
	(void)state;
	assert_int_equal(in_child(refused_register), 0);
}

static void refused_eventfd_is_named_with_its_cause(void **state)
{
	(void)state;
	assert_int_equal(in_child(refused_eventfd_eperm), 0);
	assert_int_equal(in_child(refused_eventfd_eacces), 0);
	assert_int_equal(in_child(refused_eventfd_enosys), 0);
}

static void run_returns_error_of_refused_io_uring_enter(void **state)
{
	(void)state;
	if (under_valgrind())
		skip_because("it polls outside of the ring there");
	assert_int_equal(in_child(refused_later), 0);
}

static void a_filter_that_kills_is_not_touched_when_ev_is_named(void **state)
{
	int status;

	(void)state;
	if (under_valgrind())
		skip_because("valgrind would be the one to be killed");
	status = in_child(probing_is_killed);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(in_child(named_ev_does_not_probe), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(eperm_ends_on_ev_and_says_why),
		CASE(enosys_ends_on_ev_and_says_why),
		CASE(eacces_ends_on_ev_and_says_why),
		CASE(einval_ends_on_ev_and_says_why),
		CASE(refused_io_uring_enter_ends_on_ev),
		CASE(read_of_a_pipe_on_an_old_kernel_does_not_block_the_loop),
		CASE(refused_io_uring_register_ends_on_ev),
		CASE(refused_eventfd_is_named_with_its_cause),
		CASE(run_returns_error_of_refused_io_uring_enter),
		CASE(a_filter_that_kills_is_not_touched_when_ev_is_named),
	};

#ifndef HAVE_LIBEV
	printf("1..0 # SKIP built without libev\n");
	return 0;
#endif
	return harness_run_plain(cases, N_OF(cases));
}
