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
struct rig {
	struct spin spin;
	struct spin_usage u;
};

static void rig_init(struct rig *rig)
{
	*rig = (struct rig){ .u.now_ns = START };
	spin_init(&rig->spin, MOST);
}

/* A wait for what comes in @gap_ns; a wake-up takes @wake_ns more.  Returns
 * whether it span. */
static bool waits(struct rig *rig, uint64_t gap_ns, uint64_t wake_ns)
{
	uint64_t budget = spin_budget(&rig->spin, rig->u.now_ns);

	if (budget && gap_ns <= budget) {
		spin_hit(&rig->spin);
		return true;
	}
	if (budget)
		spin_missed(&rig->spin);
	spin_slept(&rig->spin, gap_ns + wake_ns);
	return budget != 0;
}

static unsigned int spins_of(struct rig *rig, unsigned int n, uint64_t gap_ns,
			     uint64_t wake_ns)
{
	unsigned int spins = 0;

	while (n--)
		spins += waits(rig, gap_ns, wake_ns);
	return spins;
}

static void what_comes_in_time_is_always_spun_for(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	assert_int_equal(spins_of(&rig, 100, 40 * US, 40 * US), 100);
	/* A late one now and then does not matter. */
	for (int i = 0; i < 100; i++) {
		assert_true(waits(&rig, 3 * MS, 40 * US));
		assert_int_equal(spins_of(&rig, 3, 20 * US, 40 * US), 3);
	}
}

static void what_never_comes_in_time_is_not_spun_for(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	spins_of(&rig, 1000, 0, 0);
	assert_int_equal(spins_of(&rig, 1000, 3 * MS, 40 * US),
			 SPIN_SCORE_MAX);
	/* Nor tried again: before a long sleep it must fail. */
	assert_int_equal(spins_of(&rig, 100000, 3 * MS, 40 * US), 0);
}

static void it_is_tried_again_when_sleeps_are_short(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	spins_of(&rig, 100, 3 * MS, 40 * US);
	assert_int_equal(spins_of(&rig, SPIN_PROBE_MIN, 20 * US, 40 * US), 0);
	assert_int_equal(spins_of(&rig, 100, 20 * US, 40 * US), 100);
}

/* To be woken may take much longer than to spin, and is none of the wait. */
static void however_long_it_takes_to_be_woken(void **state)
{
	static const uint64_t most[] = { MOST, 10 * US };
	struct rig rig;

	(void)state;
	for (int i = 0; i < 2; i++) {
		rig_init(&rig);
		spin_init(&rig.spin, most[i]);
		spins_of(&rig, 100, 3 * MS, 40 * US);
		assert_int_equal(spins_of(&rig, SPIN_PROBE_MIN, 2 * US,
					  250 * US), 0);
		assert_int_equal(spins_of(&rig, 100, 2 * US, 250 * US), 100);
	}
}

/*
 * The other can only run when this one sleeps, and wakes it at once: sleeps are
 * as short as can be, and no spin ever meets anything.
 */
static void two_on_one_cpu_all_but_cease_to_spin(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	for (int i = 0; i < 100000; i++) {
		if (spin_budget(&rig.spin, rig.u.now_ns))
			spin_missed(&rig.spin);
		spin_slept(&rig.spin, 2 * US);
	}
	assert_int_equal(rig.spin.probe_every, SPIN_PROBE_MAX);
	/* And yet it finds out when the other has a CPU of its own. */
	spins_of(&rig, SPIN_PROBE_MAX, 2 * US, 40 * US);
	assert_int_equal(spins_of(&rig, 100, 2 * US, 40 * US), 100);
}

static void who_must_not_never_spins(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	spin_init(&rig.spin, 0);
	assert_int_equal(spins_of(&rig, 1000, 0, 0), 0);
}

/* @ms of spinning, of which others took @lost_ms, @times. */
static void passes(struct rig *rig, uint64_t ms, uint64_t lost_ms,
		   uint64_t times)
{
	rig->u.now_ns += ms * MS;
	rig->u.cpu_ns += (ms - lost_ms) * MS;
	rig->u.preempted += times;
	assert_true(spin_is_due(&rig->spin, rig->u.now_ns));
	spin_judge(&rig->spin, &rig->u);
}

static bool spins(struct rig *rig)
{
	return spin_budget(&rig->spin, rig->u.now_ns) != 0;
}

static void what_was_before_the_first_look_does_not_count(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.u.preempted = 7;
	passes(&rig, 10, 9, 7);
	assert_true(spins(&rig));
}

static void a_cpu_that_others_use_is_left_to_them(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	passes(&rig, 10, 0, 0);
	passes(&rig, 10, 5, 2);
	passes(&rig, 10, 5, 2);
	assert_false(spins(&rig));
	rig.u.now_ns += SPIN_JUDGED_NS;
	assert_true(spins(&rig));
}

static void and_for_longer_each_time(void **state)
{
	uint64_t off = SPIN_JUDGED_NS, begun, spun = 0;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	passes(&rig, 10, 0, 0);
	passes(&rig, 10, 5, 2);
	begun = rig.u.now_ns;
	while (rig.u.now_ns - begun < 10000 * MS) {
		passes(&rig, 10, 5, 2);
		spun += 10;
		rig.u.now_ns += off - 1;
		rig.u.slept_ns += off - 1;
		assert_false(spins(&rig));
		assert_false(spin_is_due(&rig.spin, rig.u.now_ns));
		passes(&rig, 1, 0, 0);
		assert_true(spins(&rig));
		if (off < SPIN_OFF_MAX_NS)
			off *= 2;
	}
	assert_true(spun < 250);
	/* One good time, and all is forgotten. */
	passes(&rig, 10, 0, 0);
	passes(&rig, 10, 5, 2);
	assert_true(spins(&rig));
}

static void once_is_chance(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	passes(&rig, 10, 0, 0);
	for (int i = 0; i < 100; i++) {
		passes(&rig, 10, 9, 1);
		assert_true(spins(&rig));
		passes(&rig, 10, 0, 0);
	}
}

static void to_be_put_off_for_a_moment_means_nothing(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	passes(&rig, 10, 0, 0);
	passes(&rig, 10, 1, 50);
	assert_true(spins(&rig));
	/* As much in a longer time is less. */
	passes(&rig, 1000, 5, 2);
	assert_true(spins(&rig));
}

static void to_sleep_is_not_to_be_put_off(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	passes(&rig, 10, 0, 0);
	rig.u.slept_ns += 9 * MS;
	passes(&rig, 10, 9, 2);
	assert_true(spins(&rig));
	/* Nor to wait elsewhere, in a callback: nobody took the CPU. */
	passes(&rig, 10, 9, 0);
	assert_true(spins(&rig));
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
