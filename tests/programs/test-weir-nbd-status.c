/* SPDX-License-Identifier: BSD-3-Clause */

/* What weir-nbd says of a file's holes, when the file says strange things: when
 * somebody writes between two questions, or it does not know. */

#include "tests/support/harness.h"

#include <unistd.h>

/* What the file answers to one question after the other. */
struct answer { int whence; off_t at; int error; };

static const struct answer *answers;

static off_t told(int fd, off_t off, int whence)
{
	const struct answer *a = answers++;

	(void)fd, (void)off;
	assert_int_equal(whence, a->whence);
	errno = a->error;
	return a->error ? -1 : a->at;
}

#define lseek told
#include "programs/block/status.c"
#undef lseek

bool memory_in_use(const struct block *b, uint64_t chunk)
{
	(void)b, (void)chunk;
	return false;
}


#define HOLE 1

/* What was said. */
static struct { uint64_t len; uint32_t hole; } said[4];
static uint32_t n_said;

static bool on_extent(struct block_io *io, uint64_t len, bool hole)
{
	(void)io;
	said[n_said].len = len;
	said[n_said++].hole = hole;
	return true;
}

/* Of 96 bytes, from the first one on. */
static const struct {
	struct answer answers[6];
	uint32_t extents[4][2];
	uint32_t block;
} cases[] = {
	/* Data, a hole, data. */
	{ { { SEEK_HOLE, 10, 0 }, { SEEK_HOLE, 10, 0 }, { SEEK_DATA, 30, 0 },
	    { SEEK_HOLE, 200, 0 } },
	  { { 10, 0 }, { 20, HOLE }, { 66, 0 } }, 1 },
	/* A hole to the end. */
	{ { { SEEK_HOLE, 0, 0 }, { SEEK_DATA, 0, ENXIO }, { SEEK_END, 96, 0 } },
	  { { 96, HOLE } }, 1 },
	/* A hole to the end of a file that has become shorter. */
	{ { { SEEK_HOLE, 10, 0 }, { SEEK_HOLE, 10, 0 }, { SEEK_DATA, 0, ENXIO },
	    { SEEK_END, 50, 0 }, { SEEK_HOLE, 0, ENXIO } },
	  { { 10, 0 }, { 40, HOLE }, { 46, 0 } }, 1 },
	/* The hole was written to before the second question. */
	{ { { SEEK_HOLE, 0, 0 }, { SEEK_DATA, 0, 0 } }, { { 96, 0 } }, 1 },
	/* The second question has no answer. */
	{ { { SEEK_HOLE, 0, 0 }, { SEEK_DATA, 0, EIO } }, { { 96, 0 } }, 1 },
	/* Nor has the first. */
	{ { { SEEK_HOLE, 0, EINVAL } }, { { 96, 0 } }, 1 },
	/* It has become shorter. */
	{ { { SEEK_HOLE, 0, ENXIO } }, { { 96, 0 } }, 1 },
	/* Blocks are larger than what the file goes by: holes shrink. */
	{ { { SEEK_HOLE, 10, 0 }, { SEEK_HOLE, 16, 0 }, { SEEK_DATA, 50, 0 },
	    { SEEK_HOLE, 200, 0 } },
	  { { 16, 0 }, { 32, HOLE }, { 48, 0 } }, 16 },
	/* One that is less than a block is none. */
	{ { { SEEK_HOLE, 0, 0 }, { SEEK_DATA, 10, 0 }, { SEEK_HOLE, 200, 0 } },
	  { { 16, 0 }, { 80, 0 } }, 16 },
	{ { { SEEK_HOLE, 80, 0 }, { SEEK_HOLE, 80, 0 }, { SEEK_DATA, 0, ENXIO },
	    { SEEK_END, 96, 0 } },
	  { { 80, 0 }, { 16, HOLE } }, 16 },
};

static void range_not_known_to_be_a_hole_is_data(void **state)
{
	struct block b = { .fd = 0 };
	struct block_queue q = { .block = &b };
	struct block_io io = { .queue = &q, .len = 96, .extent = on_extent };

	(void)state;
	for (size_t i = 0; i < N_OF(cases); i++) {
		answers = cases[i].answers;
		b.block_min = cases[i].block;
		n_said = 0;
		status_work(&io);
		for (uint32_t k = 0; k < n_said; k++) {
			assert_int_equal(said[k].len, cases[i].extents[k][0]);
			assert_int_equal(said[k].hole, cases[i].extents[k][1]);
		}
		assert_int_equal(cases[i].extents[n_said][0], 0);
	}
}

static const struct harness_case tests[] = {
	CASE(range_not_known_to_be_a_hole_is_data),
};

int main(void)
{
	return harness_run_plain(tests, N_OF(tests));
}
