/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a reactor spins: by what it has met before, and by whose CPU it is.
 * Time is a number here.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "reactor/spin.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define MOST (50 * US)
#define START (5 * MS)

/* A thread, and what the kernel knows of it. */
struct fixture {
	struct spin spin;
	struct spin_usage u;
};

static void fixture_init(struct fixture *fixture)
{
	*fixture = (struct fixture){ .u.now_ns = START };
	spin_init(&fixture->spin, MOST);
}

/* A wait for what comes in @gap_ns; a wake-up takes @wake_ns more.  Returns
 * whether it span. */
static bool waits(struct fixture *fixture, uint64_t gap_ns, uint64_t wake_ns)
{
	uint64_t budget = spin_budget(&fixture->spin, fixture->u.now_ns);

	if (budget && gap_ns <= budget) {
		spin_hit(&fixture->spin);
		return true;
	}
	if (budget)
		spin_missed(&fixture->spin);
	spin_slept(&fixture->spin, gap_ns + wake_ns);
	return budget != 0;
}

static unsigned int spins_of(struct fixture *fixture, unsigned int n,
			     uint64_t gap_ns, uint64_t wake_ns)
{
	unsigned int spins = 0;

	while (n--)
		spins += waits(fixture, gap_ns, wake_ns);
	return spins;
}

static void what_comes_in_time_is_always_spun_for(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	assert_int_equal(spins_of(&fixture, 100, 40 * US, 40 * US), 100);
	/* A late one now and then does not matter. */
	for (int i = 0; i < 100; i++) {
		assert_true(waits(&fixture, 3 * MS, 40 * US));
		assert_int_equal(spins_of(&fixture, 3, 20 * US, 40 * US), 3);
	}
}

static void what_never_comes_in_time_is_not_spun_for(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	spins_of(&fixture, 1000, 0, 0);
	assert_int_equal(spins_of(&fixture, 1000, 3 * MS, 40 * US),
			 SPIN_SCORE_MAX);
	/* Nor tried again: before a long sleep it must fail. */
	assert_int_equal(spins_of(&fixture, 100000, 3 * MS, 40 * US), 0);
}

static void it_is_tried_again_when_sleeps_are_short(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	spins_of(&fixture, 100, 3 * MS, 40 * US);
	assert_int_equal(spins_of(&fixture, SPIN_PROBE_MIN, 20 * US, 40 * US),
			 0);
	assert_int_equal(spins_of(&fixture, 100, 20 * US, 40 * US), 100);
}

/* To be woken may take much longer than to spin, and is none of the wait. */
static void however_long_it_takes_to_be_woken(void **state)
{
	static const uint64_t most[] = { MOST, 10 * US };
	struct fixture fixture;

	(void)state;
	for (int i = 0; i < 2; i++) {
		fixture_init(&fixture);
		spin_init(&fixture.spin, most[i]);
		spins_of(&fixture, 100, 3 * MS, 40 * US);
		assert_int_equal(spins_of(&fixture, SPIN_PROBE_MIN, 2 * US,
					  250 * US),
				 0);
		assert_int_equal(spins_of(&fixture, 100, 2 * US, 250 * US),
				 100);
	}
}

/*
 * The other can only run when this one sleeps, and wakes it at once: sleeps are
 * as short as can be, and no spin ever meets anything.
 */
static void two_on_one_cpu_all_but_cease_to_spin(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	for (int i = 0; i < 100000; i++) {
		if (spin_budget(&fixture.spin, fixture.u.now_ns))
			spin_missed(&fixture.spin);
		spin_slept(&fixture.spin, 2 * US);
	}
	assert_int_equal(fixture.spin.probe_every, SPIN_PROBE_MAX);
	/* And yet it finds out when the other has a CPU of its own. */
	spins_of(&fixture, SPIN_PROBE_MAX, 2 * US, 40 * US);
	assert_int_equal(spins_of(&fixture, 100, 2 * US, 40 * US), 100);
}

static void who_must_not_never_spins(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	spin_init(&fixture.spin, 0);
	assert_int_equal(spins_of(&fixture, 1000, 0, 0), 0);
}

/* @ms of spinning, of which others took @lost_ms, @times. */
static void passes(struct fixture *fixture, uint64_t ms, uint64_t lost_ms,
		   uint64_t times)
{
	fixture->u.now_ns += ms * MS;
	fixture->u.cpu_ns += (ms - lost_ms) * MS;
	fixture->u.preempted += times;
	assert_true(spin_is_due(&fixture->spin, fixture->u.now_ns));
	spin_judge(&fixture->spin, &fixture->u);
}

static bool spins(struct fixture *fixture)
{
	return spin_budget(&fixture->spin, fixture->u.now_ns) != 0;
}

static void what_was_before_the_first_look_does_not_count(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	fixture.u.preempted = 7;
	passes(&fixture, 10, 9, 7);
	assert_true(spins(&fixture));
}

static void a_cpu_that_others_use_is_left_to_them(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	passes(&fixture, 10, 0, 0);
	passes(&fixture, 10, 5, 2);
	passes(&fixture, 10, 5, 2);
	assert_false(spins(&fixture));
	fixture.u.now_ns += SPIN_JUDGED_NS;
	assert_true(spins(&fixture));
}

static void and_for_longer_each_time(void **state)
{
	uint64_t off = SPIN_JUDGED_NS, begun, spun = 0;
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	passes(&fixture, 10, 0, 0);
	passes(&fixture, 10, 5, 2);
	begun = fixture.u.now_ns;
	while (fixture.u.now_ns - begun < 10000 * MS) {
		passes(&fixture, 10, 5, 2);
		spun += 10;
		fixture.u.now_ns += off - 1;
		fixture.u.slept_ns += off - 1;
		assert_false(spins(&fixture));
		assert_false(spin_is_due(&fixture.spin, fixture.u.now_ns));
		passes(&fixture, 1, 0, 0);
		assert_true(spins(&fixture));
		if (off < SPIN_OFF_MAX_NS)
			off *= 2;
	}
	assert_true(spun < 250);
	/* One good time, and all is forgotten. */
	passes(&fixture, 10, 0, 0);
	passes(&fixture, 10, 5, 2);
	assert_true(spins(&fixture));
}

static void once_is_chance(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	passes(&fixture, 10, 0, 0);
	for (int i = 0; i < 100; i++) {
		passes(&fixture, 10, 9, 1);
		assert_true(spins(&fixture));
		passes(&fixture, 10, 0, 0);
	}
}

static void to_be_put_off_for_a_moment_means_nothing(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	passes(&fixture, 10, 0, 0);
	passes(&fixture, 10, 1, 50);
	assert_true(spins(&fixture));
	/* As much in a longer time is less. */
	passes(&fixture, 1000, 5, 2);
	assert_true(spins(&fixture));
}

static void to_sleep_is_not_to_be_put_off(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	passes(&fixture, 10, 0, 0);
	fixture.u.slept_ns += 9 * MS;
	passes(&fixture, 10, 9, 2);
	assert_true(spins(&fixture));
	/* Nor to wait elsewhere, in a callback: nobody took the CPU. */
	passes(&fixture, 10, 9, 0);
	assert_true(spins(&fixture));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_comes_in_time_is_always_spun_for),
		cmocka_unit_test(what_never_comes_in_time_is_not_spun_for),
		cmocka_unit_test(it_is_tried_again_when_sleeps_are_short),
		cmocka_unit_test(however_long_it_takes_to_be_woken),
		cmocka_unit_test(two_on_one_cpu_all_but_cease_to_spin),
		cmocka_unit_test(who_must_not_never_spins),
		cmocka_unit_test(what_was_before_the_first_look_does_not_count),
		cmocka_unit_test(a_cpu_that_others_use_is_left_to_them),
		cmocka_unit_test(and_for_longer_each_time),
		cmocka_unit_test(once_is_chance),
		cmocka_unit_test(to_be_put_off_for_a_moment_means_nothing),
		cmocka_unit_test(to_sleep_is_not_to_be_put_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
