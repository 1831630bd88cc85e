/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FUZZ_FIXTURE_H
#define TESTS_FUZZ_FIXTURE_H

/* What fuzz targets share: bytes that are decisions, and MUST(). */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/base.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* For the program that goes through a corpus without libFuzzer. */
extern const char fuzz_name[];

#define MUST(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, \
				__LINE__, #cond); \
			abort(); \
		} \
	} while (0)

/* Decisions; zeros, when there are none left. */
struct input {
	const uint8_t *p, *end;
};

static inline uint32_t take(struct input *in, uint32_t n)
{
	return in->p < in->end ? *in->p++ % n : 0;
}

static inline uint64_t take_u64(struct input *in)
{
	uint64_t n = 0;
	size_t len = (size_t)(in->end - in->p);

	if (len > sizeof(n))
		len = sizeof(n);
	memcpy(&n, in->p, len);
	in->p += len;
	return n;
}

/* A number near those where things go wrong for something of @len bytes. */
static inline uint64_t take_rubbish(struct input *in, uint64_t len)
{
	switch (take(in, 10)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return len - 1;
	case 3:
		return len + 1;
	case 4:
		return UINT64_MAX;
	case 5:
		return INT64_MAX;
	case 6:
		return UINT64_MAX - len + 1;
	case 7:
		return take_u64(in);
	case 8:
		return take(in, 255);
	default:
		return len;
	}
}

#endif /* TESTS_FUZZ_FIXTURE_H */
