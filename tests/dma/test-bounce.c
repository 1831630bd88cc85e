/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs through staging: every byte, every end, and nobody waits for ever. */

#include "tests/support/bounce-fixture.h"

#include <weir/crc32c.h>

#include "tests/support/sim-calls.h"

static void try_kind(struct fixture *g, uint32_t kind, enum place from,
		     enum place to, size_t len)
{
	char *src = bytes_of(g, from, 0), *dst = bytes_of(g, to, 1);
	const size_t off = 3;
	struct jrec j;
	size_t i;

	if ((from == PROC || to == PROC) && !g->self)
		return;
	jrec_init(&j);
	fill_pattern(src, LEN, 0, (unsigned int)len);
	memset(dst, 0x55, LEN);
	weir_job_copy(&j.job, operand_of(g, to, 1, off, len),
		      operand_of(g, from, 0, off, len));
	j.job.kind = kind;
	j.job.crc = 7;
	j.job.pattern = UINT64_C(0x8877665544332211);
	if (kind == WEIR_JOB_COMPARE)
		memcpy(dst, src, LEN);
	if (kind == WEIR_JOB_COMPARE && len % 3)
		dst[off + len / 2] ^= 1;
	if (run(g, &j) != (int64_t)(kind == WEIR_JOB_COMPARE && len % 3 ?
				    len / 2 : len))
		fail_msg("kind %u from %d to %d, %zu bytes: %lld", kind, from,
			 to, len, (long long)j.res);
	assert_int_equal(j.detail.bytes, j.res);
	if (kind == WEIR_JOB_COPY || kind == WEIR_JOB_COPY_CRC32C) {
		assert_memory_equal(dst + off, src + off, len);
		for (i = 0; i < off; i++)
			assert_int_equal(dst[i], 0x55);
		assert_int_equal(dst[off + len], 0x55);
	}
	if (kind == WEIR_JOB_CRC32C || kind == WEIR_JOB_COPY_CRC32C)
		assert_int_equal(j.job.crc, weir_crc32c(7, src + off, len));
	for (i = 0; kind == WEIR_JOB_FILL && i < len; i++)
		assert_int_equal(dst[off + i] & 0xff, 0x11 * (i % 8 + 1));
}

static void kinds_run_between_any_two_places(void **state)
{
	static const uint32_t kinds[] = {
		WEIR_JOB_COPY, WEIR_JOB_COPY_CRC32C, WEIR_JOB_COMPARE,
		WEIR_JOB_CRC32C, WEIR_JOB_FILL,
	};
	static const size_t lens[] = { 1, 4095, 4096, 4097, 8192, 100000 };
	struct fixture g;
	size_t i, k, size;
	int from, to;

	for (size = 4096; size <= 262144; size *= 8) {
		fixture_begin(&g, state,
			      (struct weir_dma_opts){ .staging_bufs = 1,
						      .staging_size =
							      (uint32_t)size });
		for (i = 0; i < N_OF(lens); i++)
			for (k = 0; k < N_OF(kinds); k++)
				for (from = 0; from < N_PLACES; from++)
					for (to = 0; to < N_PLACES; to++)
						try_kind(&g, kinds[k],
							 (enum place)from,
							 (enum place)to,
							 lens[i]);
		fixture_end(&g);
		end_reactor(state);
	}
}

static void a_hundred_jobs_share_one_block_of_4_kib(void **state)
{
	enum { N = 100, EACH = LEN / N };
	struct jrec *j = calloc(N, sizeof(*j));
	struct fixture g;
	int i;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	fill_pattern(g.user[0].mem, LEN, 0, 1);
	for (i = 0; i < N; i++) {
		jrec_init(&j[i]);
		weir_job_copy(&j[i].job,
			      operand_of(&g, i % 2 ? FIL : USER, 1,
					 (uint64_t)i * EACH, EACH),
			      operand_of(&g, USER, 0, (uint64_t)i * EACH,
					 EACH));
		STARTS(weir_job_start(g.dma, &j[i].job));
	}
	assert_int_equal(stats_of(&g).bounce_waits, N - 1);
	for (i = 0; i < N; i++) {
		PUMP_UNTIL(&g, j[i].calls);
		assert_int_equal(j[i].res, EACH);
		assert_int_equal(route_of(&j[i]), WEIR_ROUTE_BOUNCE);
		assert_true(is_pattern((i % 2 ? g.view[1] : g.user[1].mem) +
				       i * EACH, EACH, (uint64_t)i * EACH, 1));
	}
	assert_int_equal(stats_of(&g).bounced, N);
	assert_int_equal(stats_of(&g).bounced_bytes, N * EACH);
	free(j);
	fixture_end(&g);
}

static void a_long_job_does_not_keep_others_waiting(void **state)
{
	struct jrec large, small;
	struct fixture g;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	jrec_init(&large);
	jrec_init(&small);
	weir_job_copy(&large.job, operand_of(&g, FIL, 1, 0, LEN),
		      operand_of(&g, USER, 0, 0, LEN));
	weir_job_copy(&small.job, operand_of(&g, USER, 1, 0, 100),
		      operand_of(&g, USER, 0, 0, 100));
	STARTS(weir_job_start(g.dma, &large.job));
	STARTS(weir_job_start(g.dma, &small.job));
	PUMP_UNTIL(&g, small.calls);
	assert_int_equal(large.calls, 0);
	PUMP_UNTIL(&g, large.calls);
	assert_int_equal(large.res, LEN);
	fixture_end(&g);
}

static void a_source_that_ends_early_is_told_exactly(void **state)
{
	struct jrec j;
	struct fixture g;
	size_t end;
	int flag;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	for (end = 0; end < 20000; end += 1 + end / 2) {
		assert_int_equal(ftruncate(g.fd[0], 0), 0);
		assert_int_equal(ftruncate(g.fd[0], (off_t)end), 0);
		for (flag = 0; flag < 2; flag++) {
			memset(g.user[1].mem, 0x55, LEN);
			jrec_init(&j);
			weir_job_copy_crc32c(&j.job,
					     operand_of(&g, USER, 1, 0, 20000),
					     operand_of(&g, FIL, 0, 0, 20000),
					     0);
			j.job.flags = flag ? WEIR_JOB_SHORT_OK : 0;
			assert_int_equal(run(&g, &j),
					 flag ? (int64_t)end : -ENODATA);
			assert_int_equal(j.detail.bytes, end);
			assert_int_equal(g.user[1].mem[end], 0x55);
			if (flag)
				assert_int_equal(j.job.crc,
						 weir_crc32c(0, g.user[1].mem,
							     end));
			else
				assert_int_equal(j.job.crc, 0);
		}
	}
	assert_int_equal(ftruncate(g.fd[0], LEN), 0);
	fixture_end(&g);
}

/* Between file systems of different kinds the kernel does not copy. */
static void files_that_the_kernel_does_not_copy_bounce(void **state)
{
	int fd = memfd_create("weir-test", MFD_CLOEXEC);
	struct weir_job_route route = { .size = sizeof(route) };
	struct weir_domain *d;
	struct jrec j;
	struct fixture g;

	assert_true(fd >= 0);
	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_size = 4096 });
	d = file_domain(fd);
	fill_pattern(g.view[0], LEN, 0, 8);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(d, 0, LEN),
		      operand_of(&g, FIL, 0, 0, LEN));
	assert_int_equal(run(&g, &j), LEN);
	assert_int_equal(pread(fd, g.mem, LEN, 0), LEN);
	assert_true(is_pattern(g.mem, LEN, 0, 8));
	assert_int_equal(weir_job_get_route(&j.job, &route), 0);
	if (route.route == WEIR_ROUTE_BOUNCE) {
		assert_int_equal(route.refused, -EXDEV);
		assert_string_equal(route.pull, "file");
		assert_string_equal(route.push, "file");
		assert_null(route.engine);
		assert_int_equal(route.bounced, LEN);
		assert_int_equal(route.steps, 2 * LEN / 4096);
		assert_int_equal(stats_of(&g).fallbacks, 1);
	} else {
		print_message("the kernel copies between these\n");
	}
	assert_int_equal(weir_domain_destroy(d), 0);
	close(fd);
	fixture_end(&g);
}

/* Whatever happens to them: each ends once, and what is told is true. */
static void errors_and_cancels_anywhere_leave_nothing_behind(void **state)
{
	enum { N = 16, EACH = LEN / N };
	unsigned int rounds = scaled(want_long() ? 20000 : 1000);
	unsigned int seed = 11, round, ok = 0, bad = 0;
	struct jrec *j = calloc(N, sizeof(*j));
	enum place from, to;
	struct fixture g;
	int i;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 3,
					      .staging_size = 4096 });
	for (round = 0; round < rounds; round++) {
		g.user[0].fail_in = (unsigned int)rand_r(&seed) % 3 * 20;
		g.user[1].fail_in = (unsigned int)rand_r(&seed) % 3 * 20;
		g.user[0].refuse_in = (unsigned int)rand_r(&seed) % 2 * 5;
		g.user[1].refuse_in = (unsigned int)rand_r(&seed) % 2 * 5;
		from = rand_r(&seed) % 2 ? USER : FIL;
		to = from == FIL || rand_r(&seed) % 2 ? USER : FIL;
		fill_pattern(bytes_of(&g, from, 0), LEN, 0, round);
		memset(bytes_of(&g, to, 1), 0, LEN);
		for (i = 0; i < N; i++) {
			jrec_init(&j[i]);
			weir_job_copy_crc32c(
				&j[i].job,
				operand_of(&g, to, 1, (uint64_t)i * EACH, EACH),
				operand_of(&g, from, 0, (uint64_t)i * EACH,
					   EACH),
				0);
			if (!(rand_r(&seed) % 8))
				weir_op_set_deadline(&j[i].job.op,
					weir_reactor_now(g.r) +
					(uint64_t)rand_r(&seed) % 50000);
			STARTS(weir_job_start(g.dma, &j[i].job));
		}
		while (stats_of(&g).in_flight) {
			i = rand_r(&seed) % (N * 4);
			if (i < N && weir_op_is_busy(&j[i].job.op))
				weir_op_cancel(&j[i].job.op);
			pump(&g);
		}
		some_turns(g.r, 2);
		for (i = 0; i < N; i++) {
			char *dst = bytes_of(&g, to, 1) + i * EACH;

			assert_int_equal(j[i].calls, 1);
			if (j[i].res >= 0)
				assert_int_equal(j[i].res, EACH);
			else if (j[i].res != -ECANCELED &&
				 j[i].res != -ETIMEDOUT)
				assert_int_equal(j[i].res, -EREMOTEIO);
			ok += j[i].res >= 0;
			bad += j[i].res < 0;
			assert_true(is_pattern(dst, j[i].detail.bytes,
					       (uint64_t)i * EACH, round));
			if (j[i].res >= 0)
				assert_int_equal(j[i].job.crc,
						 weir_crc32c(0, dst, EACH));
		}
		PUMP_UNTIL(&g, !stats_of(&g).quarantined);
	}
	assert_true(ok > 0 && bad > 0);
	free(j);
	fixture_end(&g);
}

static void data_in_staging_only_is_not_waited_for(void **state)
{
	struct rec stop;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ .staging_bufs = 1 });
	g.user[0].stuck = true;
	jrec_init(&j);
	weir_job_copy(&j.job, operand_of(&g, FIL, 1, 0, LEN),
		      operand_of(&g, USER, 0, 0, LEN));
	STARTS(weir_job_start(g.dma, &j.job));
	PUMP_UNTIL(&g, g.user[0].n_asked);
	weir_op_set_deadline(&j.job.op, weir_reactor_now(g.r) + 1);
	PUMP_UNTIL(&g, j.calls);
	assert_int_equal(j.res, -ETIMEDOUT);
	assert_int_equal(j.detail.bytes, 0);
	assert_int_equal(stats_of(&g).quarantined, 1);
	assert_int_equal(stats_of(&g).quarantines, 1);
	assert_int_equal(stats_of(&g).in_flight, 0);

	/* The staging is kept, and what the device was told of. */
	assert_int_equal(weir_dma_destroy(g.dma), -EBUSY);
	assert_starts_with(weir_why(), "weir_dma_destroy: a device has not ");
	assert_int_equal(weir_domain_destroy(g.user[0].d), -EBUSY);
	jrec_init(&j);
	weir_job_copy(&j.job, operand_of(&g, FIL, 1, 0, LEN),
		      operand_of(&g, USER, 1, 0, LEN));
	STARTS(weir_job_start(g.dma, &j.job));
	some_turns(g.r, 3);
	assert_int_equal(j.calls, 0);

	/* A stop waits for it. */
	rec_init(&stop);
	STARTS(weir_dma_stop(g.dma, &stop.op));
	some_turns(g.r, 3);
	assert_int_equal(j.res, -ECANCELED);
	assert_int_equal(stop.calls, 0);
	g.user[0].stuck = false;
	PUMP_UNTIL(&g, stop.calls);
	assert_int_equal(stats_of(&g).quarantined, 0);
	fixture_end(&g);
}

/* A push touches the destination, and a context may be the caller's memory. */
static void callers_memory_is_waited_for(void **state)
{
	struct jrec j;
	struct fixture g;
	int ctx, i;

	fixture_begin(&g, state, (struct weir_dma_opts){ .staging_bufs = 1 });
	for (i = 0; i < 2; i++) {
		g.user[i].stuck = true;
		jrec_init(&j);
		weir_job_copy(&j.job, operand_of(&g, USER, 1, 0, LEN),
			      operand_of(&g, USER, 0, 0, LEN));
		if (!i)
			j.job.src.ctx = &ctx;
		STARTS(weir_job_start(g.dma, &j.job));
		PUMP_UNTIL(&g, g.user[i].n_asked);
		assert_int_equal(weir_op_cancel(&j.job.op), 0);
		some_turns(g.r, 3);
		assert_int_equal(j.calls, 0);
		assert_int_equal(g.user[i].n_cancelled, 1);
		g.user[i].stuck = false;
		PUMP_UNTIL(&g, j.calls);
		assert_int_equal(j.res, -ECANCELED);
	}
	assert_int_equal(stats_of(&g).quarantines, 0);
	fixture_end(&g);
}

static void a_stop_in_the_middle_ends_all(void **state)
{
	enum { N = 20 };
	struct jrec j[N];
	struct rec stop;
	struct fixture g;
	int i, round;

	for (round = 0; round < 20; round++) {
		fixture_begin(&g, state,
			      (struct weir_dma_opts){ .staging_bufs = 2,
						      .staging_size = 4096 });
		for (i = 0; i < N; i++) {
			jrec_init(&j[i]);
			weir_job_copy(&j[i].job, operand_of(&g, FIL, 1, 0, LEN),
				      operand_of(&g, i % 2 ? USER : FIL, 0, 0,
						 LEN));
			j[i].job.kind = WEIR_JOB_COPY_CRC32C;
			j[i].job.dst =
				operand_of(&g, i % 3 ? FIL : USER, 1, 0, LEN);
			STARTS(weir_job_start(g.dma, &j[i].job));
		}
		for (i = 0; i < round; i++)
			pump(&g);
		rec_init(&stop);
		STARTS(weir_dma_stop(g.dma, &stop.op));
		PUMP_UNTIL(&g, stop.calls);
		for (i = 0; i < N; i++)
			assert_int_equal(j[i].calls, 1);
		fixture_end(&g);
		end_reactor(state);
	}
}

static void bounce_context_refuses_bad_attributes(void **state)
{
	static const struct weir_dma_opts bad[] = {
		{ .staging_bufs = 1025 }, { .staging_size = 4095 },
		{ .staging_size = 5000 }, { .staging_size = 65u << 20 },
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma_opts opts;
	struct weir_dma *dma;
	size_t i;

	for (i = 0; i < N_OF(bad); i++) {
		opts = bad[i];
		opts.size = sizeof(opts);
		assert_int_equal(weir_dma_create(&dma, r, &opts), -EINVAL);
		assert_starts_with(weir_why(), "weir_dma_create: .staging");
	}
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(kinds_run_between_any_two_places),
		REAL(a_hundred_jobs_share_one_block_of_4_kib),
		REAL(a_long_job_does_not_keep_others_waiting),
		REAL(a_source_that_ends_early_is_told_exactly),
		REAL(files_that_the_kernel_does_not_copy_bounce),
		REAL(errors_and_cancels_anywhere_leave_nothing_behind),
		REAL(data_in_staging_only_is_not_waited_for),
		REAL(callers_memory_is_waited_for),
		REAL(a_stop_in_the_middle_ends_all),
		CASE(bounce_context_refuses_bad_attributes),
	};

	return harness_run_all(cases, N_OF(cases));
}
