/* SPDX-License-Identifier: BSD-3-Clause */

/* What the example programs take for a number, and for a size. */

#include "tests/support/harness.h"

#include "programs/common/number.h"

#define NONE UINT64_MAX		/* It is refused. */

static const struct {
	const char *text;
	uint64_t number, size;
} cases[] = {
	{ "10", 10, 10 },
	{ "1000000", 1000000, 1000000 },
	{ "9", NONE, NONE },
	{ "1000001", NONE, NONE },
	{ "1K", NONE, 1024 },
	{ "900k", NONE, 921600 },
	{ "977K", NONE, NONE },
	{ "0M", NONE, NONE },
	{ "1m", NONE, NONE },
	{ "16777216T", NONE, NONE },
	{ "18014398509481985K", NONE, NONE },
	{ "99999999999999999999", NONE, NONE },
	{ "", NONE, NONE },
	{ "K", NONE, NONE },
	{ "-11", NONE, NONE },
	{ "+11", NONE, NONE },
	{ " 11", NONE, NONE },
	{ "11 ", NONE, NONE },
	{ "0x11", NONE, NONE },
	{ "11KK", NONE, NONE },
	{ "11Q", NONE, NONE },
};

/* What is refused leaves the result alone. */
static void numbers_from_ten_to_a_million_are_written(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(cases); i++) {
		uint64_t number = NONE, size = NONE;
		int err = number_parse(cases[i].text, 10, 1000000, &number);

		assert_int_equal(err, cases[i].number == NONE ? -1 : 0);
		assert_true(number == cases[i].number);
		err = size_parse(cases[i].text, 10, 1000000, &size);
		assert_int_equal(err, cases[i].size == NONE ? -1 : 0);
		assert_true(size == cases[i].size);
	}
}

static void units_are_powers_of_1024(void **state)
{
	static const char *const texts[] = { "3", "3K", "3M", "3G", "3T" };
	uint64_t want = 3, size;

	(void)state;
	for (size_t i = 0; i < N_OF(texts); i++, want *= 1024) {
		assert_int_equal(size_parse(texts[i], 0, UINT64_MAX, &size), 0);
		assert_true(size == want);
	}
}

int main(void)
{
	static const struct harness_case tests[] = {
		CASE(numbers_from_ten_to_a_million_are_written),
		CASE(units_are_powers_of_1024),
	};

	return harness_run_plain(tests, N_OF(tests));
}
