/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads that the page cache answers: which ones are tried, and what they cost. */

#include "tests/support/harness.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <weir/file.h>

#include "base/fault.h"
#include "reactor/cached.h"
#include "reactor/reactor-internal.h"

#define LEN 65536

static char got[2 * CACHED_MAX];

static struct cached_file *known(struct weir_reactor *r, int fd)
{
	struct cached_file *file = &r->cached.files[fd % CACHED_FILES];

	return file->fd == fd && file->uses ? file : NULL;
}

/* Calls of the loop and threads for @n reads, each in a turn of its own. */
static uint64_t cost_of_reads(struct weir_reactor *r, int fd, int n)
{
	uint64_t calls = r->stats.syscalls;
	struct rec rec;

	for (int i = 0; i < n; i++) {
		rec_init(&rec);
		STARTS(weir_read(r, &rec.op, fd, got, 100, (uint64_t)i));
		assert_int_equal(rec.calls, 0);
		assert_int_equal(finish(r, &rec), 100);
		assert_true(is_pattern(got, 100, (uint64_t)i, 1));
	}
	return r->stats.syscalls - calls;
}

static bool is_uring(void **state)
{
	struct world *w = *state;

	return !strcmp(w->backend, "uring");
}

static void cached_read_needs_neither_ring_nor_worker(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", LEN, 1);
	uint64_t calls;

	some_turns(r, 1);	/* The first one submits a poll. */
	calls = cost_of_reads(r, fd, 100);
	if (is_uring(state))
		assert_int_equal(calls, 0);
	assert_null(r->workers);
	close(fd);
}

static void cached_read_ends_where_the_file_does(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", LEN, 1);
	struct iovec iov[] = { { got, 1000 }, { got + 1000, 7000 } };
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_readv(r, &rec.op, fd, iov, 2, LEN - 3000));
	assert_int_equal(finish(r, &rec), 3000);
	assert_true(is_pattern(got, 3000, LEN - 3000, 1));
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, fd, got, 1, LEN));
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(known(r, fd)->penalty, 0);
	close(fd);
}

/* By its position: each read continues where the last one ended. */
static void cached_read_moves_the_position_of_a_stream(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", LEN, 1);
	struct rec rec;

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	for (uint64_t at = 0; at < 3000; at += 1000) {
		rec_init(&rec);
		STARTS(weir_read(r, &rec.op, fd, got, 1000, WEIR_OFF_STREAM));
		assert_int_equal(finish(r, &rec), 1000);
		assert_true(is_pattern(got, 1000, at, 1));
	}
	close(fd);
}

/* The rest of a ring's batch costs no system call more. */
static void batch_of_reads_goes_to_the_ring(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", LEN, 1);
	struct rec recs[8];
	uint64_t calls;

	for (int round = 0; round < 2; round++) {
		calls = r->stats.syscalls;
		for (int i = 0; i < 8; i++) {
			rec_init(&recs[i]);
			STARTS(weir_read(r, &recs[i].op, fd, got + i * 100, 100,
					 (uint64_t)i * 100));
		}
		for (int i = 0; i < 8; i++)
			if (!recs[i].calls)
				assert_int_equal(finish(r, &recs[i]), 100);
		assert_true(is_pattern(got, 800, 0, 1));
		if (is_uring(state))
			assert_int_equal(r->stats.syscalls - calls, 1);
	}
	close(fd);
}

static int n_asked;
static bool all_missing;

static int is_missing(const char *name)
{
	if (strcmp(name, "uncached") != 0)
		return 0;
	n_asked++;
	return all_missing;
}

static void reads_that_miss_are_tried_less_and_less(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", LEN, 1);

	n_asked = 0;
	all_missing = true;
	fault_ask(is_missing);
	(void)cost_of_reads(r, fd, 8 + 1 + 2 + 4 + 8 + 16 + 32 + 32);
	assert_int_equal(n_asked, 8);
	assert_int_equal(known(r, fd)->penalty, CACHED_PASSES);

	/* One that is there, and all are tried again. */
	all_missing = false;
	n_asked = 0;
	(void)cost_of_reads(r, fd, CACHED_PASSES + 10);
	fault_ask(NULL);
	assert_in_range(n_asked, 10, CACHED_PASSES + 10);
	assert_int_equal(known(r, fd)->penalty, 0);
	close(fd);
}

static void direct_read_is_not_tried(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", LEN, 1), direct;
	struct rec rec;
	void *block = NULL;

	direct = open(test_path(state, "file"), O_RDONLY | O_DIRECT);
	close(fd);
	if (direct < 0)
		skip_because("no O_DIRECT here");
	assert_int_equal(posix_memalign(&block, 4096, 4096), 0);
	n_asked = 0;
	all_missing = false;
	fault_ask(is_missing);
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, direct, block, 4096, 0));
	assert_int_equal(finish(r, &rec), 4096);
	fault_ask(NULL);
	assert_int_equal(n_asked, 0);
	assert_true(is_pattern(block, 4096, 0, 1));
	free(block);
	close(direct);
}

static void long_read_is_not_tried(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", CACHED_MAX + 1, 1);
	struct rec rec;

	n_asked = 0;
	all_missing = false;
	fault_ask(is_missing);
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, fd, got, CACHED_MAX + 1, 0));
	assert_int_equal(finish(r, &rec), CACHED_MAX + 1);
	fault_ask(NULL);
	assert_int_equal(n_asked, 0);
	close(fd);
}

static void number_of_a_closed_file_is_asked_about_anew(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", LEN, 1), pair[2];
	struct rec rec;

	(void)cost_of_reads(r, fd, 1);
	assert_non_null(known(r, fd));
	rec_init(&rec);
	STARTS(weir_close(r, &rec.op, fd));
	assert_int_equal(finish(r, &rec), 0);
	assert_null(known(r, fd));

	/* And a number that close(2) gave to a pipe is one of a pipe. */
	fd = test_file(state, "file", LEN, 1);
	(void)cost_of_reads(r, fd, 1);
	pipe_pair(pair);
	assert_int_equal(dup2(pair[0], fd), fd);
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, fd, got, 10, WEIR_OFF_STREAM));
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(write(pair[1], "hello", 5), 5);
	assert_int_equal(finish(r, &rec), 5);
	assert_memory_equal(got, "hello", 5);
	close(fd);
	close_pair(pair);
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(cached_read_needs_neither_ring_nor_worker),
		REAL(cached_read_ends_where_the_file_does),
		REAL(cached_read_moves_the_position_of_a_stream),
		REAL(batch_of_reads_goes_to_the_ring),
		REAL(reads_that_miss_are_tried_less_and_less),
		REAL(direct_read_is_not_tried),
		REAL(long_read_is_not_tried),
		REAL(number_of_a_closed_file_is_asked_about_anew),
	};

	return harness_run(cases, N_OF(cases));
}
