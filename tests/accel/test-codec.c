/* SPDX-License-Identifier: BSD-3-Clause */
/* Compression: round trips, with the programs of others too, and input that
 * means no good. */

#include "tests/accel/accel-fixture.h"

#include <stdlib.h>

#include <weir/accel/codec.h>
#include <weir/chain.h>

#define LEN (700u << 10)
#define CAP (2u << 20)

/* The levels of gzip are different libraries' where ISA-L is there. */
static const struct form {
	uint32_t format;
	int level;
} formats[] = {
	{ WEIR_CODEC_GZIP, 0 }, { WEIR_CODEC_GZIP, 1 },
	{ WEIR_CODEC_GZIP, 2 }, { WEIR_CODEC_GZIP, 3 },
	{ WEIR_CODEC_ZLIB, 0 }, { WEIR_CODEC_DEFLATE, 0 },
	{ WEIR_CODEC_ZSTD, 0 },
};

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	char *plain, *packed, *back;
	struct weir_codec *enc, *dec;
	struct weir_codec_args in, out;	/* To pack, to unpack. */
	struct jrec j;
};

static struct weir_codec *make(uint32_t format, bool decode, int level)
{
	struct weir_codec_opts opts = { .size = sizeof(opts), .format = format,
					.decode = decode, .level = level };
	struct weir_codec *codec = NULL;

	if (weir_codec_create(&codec, &opts) == -EOPNOTSUPP)
		skip_because("weir was built without zlib or libzstd");
	assert_non_null(codec);
	return codec;
}

static void codecs(struct fixture *g, struct form form)
{
	assert_int_equal(weir_codec_destroy(g->enc), 0);
	assert_int_equal(weir_codec_destroy(g->dec), 0);
	g->enc = make(form.format, false, form.level);
	g->dec = make(form.format, true, 0);
	g->in = (struct weir_codec_args){ .codec = g->enc };
	g->out = (struct weir_codec_args){ .codec = g->dec };
}

static void fixture_begin(struct fixture *g, void **state)
{
	size_t i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, (struct weir_dma_opts){ 0 });
	g->plain = malloc(LEN);
	g->packed = malloc(CAP);
	g->back = malloc(CAP);
	/* Half of it can be compressed well, half hardly. */
	fill_pattern(g->plain, LEN, 0, 7);
	for (i = 0; i < LEN; i++)
		if (i >> 12 & 1)
			g->plain[i] = (char)(i >> 5);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_codec_destroy(g->enc), 0);
	assert_int_equal(weir_codec_destroy(g->dec), 0);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	free(g->plain);
	free(g->packed);
	free(g->back);
}

static int64_t pack(struct fixture *g, size_t cap, size_t len)
{
	return run_mem(g->dma, &g->j, WEIR_ACCEL_COMPRESS, g->packed, cap,
		       g->plain, len, &g->in);
}

static int64_t unpack(struct fixture *g, size_t cap, size_t len)
{
	return run_mem(g->dma, &g->j, WEIR_ACCEL_DECOMPRESS, g->back, cap,
		       g->packed, len, &g->out);
}

static void stream_of_each_format_comes_back(void **state)
{
	static const size_t lens[] = { 1, 100, 16383, 16384, 100000, LEN };
	struct fixture g;
	size_t f, i;
	int64_t n;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		for (i = 0; i < N_OF(lens); i++) {
			n = pack(&g, weir_codec_bound(g.enc, lens[i]), lens[i]);
			assert_true(n > 0);
			assert_int_equal(weir_job_result(&g.j.job)[0], lens[i]);
			assert_int_equal(unpack(&g, CAP, (size_t)n), lens[i]);
			assert_int_equal(weir_job_result(&g.j.job)[0], n);
			assert_memory_equal(g.back, g.plain, lens[i]);
			/* Exactly enough is enough. */
			assert_int_equal(unpack(&g, lens[i], (size_t)n),
					 lens[i]);
			assert_int_equal(pack(&g, (size_t)n, lens[i]), n);
		}
		/* Nothing is a stream, too, and no input is none. */
		n = pack(&g, 100, 0);
		assert_true(n > 0);
		assert_int_equal(unpack(&g, 100, (size_t)n), 0);
		assert_int_equal(unpack(&g, 100, 0), -EBADMSG);
	}
	fixture_end(&g);
}

/* What cannot be compressed is never longer than the bound. */
static void bound_is_enough(void **state)
{
	struct fixture g;
	uint64_t bound;
	size_t f, i, len;
	uint32_t x = 1;

	fixture_begin(&g, state);
	for (i = 0; i < LEN; i++) {
		x = x * 1664525 + 1013904223;
		g.plain[i] = (char)(x >> 24);
	}
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		for (len = 0; len <= LEN; len = len * 3 + 1) {
			bound = weir_codec_bound(g.enc, len);
			assert_true(pack(&g, bound, len) > 0);
		}
		assert_true(weir_codec_bound(g.dec, 1) == UINT64_MAX);
	}
	fixture_end(&g);
}

static void output_that_is_too_small_ends_the_job(void **state)
{
	struct fixture g;
	size_t f, cap;
	int64_t n;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		n = pack(&g, CAP, 40000);
		assert_true(n > 0);
		for (cap = 1; cap < 40000; cap = cap * 2 + 1) {
			memset(g.back, 0x55, CAP);
			assert_int_equal(unpack(&g, cap, (size_t)n), -ENOSPC);
			assert_true(g.back[cap] == 0x55);
		}
		for (cap = 1; cap < (size_t)n; cap = cap * 2 + 1) {
			memset(g.packed, 0x55, CAP);
			assert_int_equal(pack(&g, cap, 40000), -ENOSPC);
			assert_true(g.packed[cap] == 0x55);
		}
		/* The codecs are as new. */
		assert_int_equal(pack(&g, CAP, 40000), n);
		assert_int_equal(unpack(&g, CAP, (size_t)n), 40000);
	}
	fixture_end(&g);
}

static void input_that_is_cut_off_or_damaged_is_refused(void **state)
{
	struct fixture g;
	size_t f, i;
	int64_t n, res;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		n = pack(&g, CAP, 9000);
		assert_true(n > 40);
		for (i = 1; i < (size_t)n; i += i < 40 ? 1 : 97)
			assert_int_equal(unpack(&g, CAP, i), -EBADMSG);
		/* Headers and trailers, and of what is between each seventh. */
		for (i = 0; i < (size_t)n;
		     i += i < 64 || i + 32 >= (size_t)n ? 1 : 7) {
			g.packed[i] ^= 0x40;
			res = unpack(&g, CAP, (size_t)n);
			g.packed[i] ^= 0x40;
			/* A flag that hides nothing, or no checksum. */
			if (res == 9000 && formats[f].format != WEIR_CODEC_DEFLATE)
				assert_memory_equal(g.back, g.plain, 9000);
			else if (res != -EBADMSG && res != -EMSGSIZE &&
				 formats[f].format != WEIR_CODEC_DEFLATE)
				fail_msg("byte %zu: %lld", i, (long long)res);
		}
		memset(g.packed + n, 0x77, 9);
		assert_int_equal(unpack(&g, CAP, (size_t)n + 9), -EBADMSG);
		assert_int_equal(unpack(&g, CAP, (size_t)n), 9000);
	}
	fixture_end(&g);
}

/* Pseudo-random input, behind a header that is right. */
static void hostile_input_does_no_harm(void **state)
{
	struct fixture g;
	size_t f, i, len, keep;
	unsigned int seed = 1, round;
	int64_t n, res;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		for (round = 0; round < 600; round++) {
			n = pack(&g, CAP, 3000);
			len = (size_t)rand_r(&seed) % (size_t)n + 1;
			keep = (size_t)rand_r(&seed) % 24;
			for (i = keep; i < len; i++)
				if (round % 3 || !(rand_r(&seed) % 50))
					g.packed[i] = (char)rand_r(&seed);
			memset(g.back, 0x55, 5001);
			res = unpack(&g, 5000, len);
			assert_true(res == -EBADMSG || res == -ENOSPC ||
				    res == -EMSGSIZE ||
				    (res >= 0 && res <= 5000));
			assert_int_equal(g.back[5000], 0x55);
		}
	}
	fixture_end(&g);
}

static void streams_behind_each_other_are_one(void **state)
{
	struct fixture g;
	int64_t a, b;
	size_t f;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		b = pack(&g, CAP, 60000);
		memcpy(g.back, g.packed, (size_t)b);
		a = pack(&g, CAP, 50000);
		memcpy(g.packed + a, g.back, (size_t)b);
		assert_int_equal(unpack(&g, CAP, (size_t)(a + b)), 110000);
		assert_memory_equal(g.back, g.plain, 50000);
		assert_memory_equal(g.back + 50000, g.plain, 60000);
		if (formats[f].format == WEIR_CODEC_GZIP) {
			memset(g.packed + a, 0, 700);
			assert_int_equal(unpack(&g, CAP, (size_t)a + 700),
					 50000);
		}
	}
	fixture_end(&g);
}

/* Jobs of one stream, of odd lengths; it is found whole. */
static void stream_goes_on_in_the_next_job(void **state)
{
	struct fixture g;
	size_t f, at, some, n, len;
	int64_t res;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		for (at = n = 0; at < 300000; at += some) {
			some = at % 7919 + 1;
			if (at + some >= 300000)
				some = 300000 - at;
			g.in.flags = at + some < 300000 ? WEIR_CODEC_MORE : 0;
			res = run_mem(g.dma, &g.j, WEIR_ACCEL_COMPRESS,
				      g.packed + n, CAP - n, g.plain + at, some,
				      &g.in);
			assert_true(res >= 0);
			n += (size_t)res;
		}
		for (at = len = 0; at < n; at += some) {
			some = n - at < 5003 ? n - at : 5003;
			g.out.flags = at + some < n ? WEIR_CODEC_MORE : 0;
			res = run_mem(g.dma, &g.j, WEIR_ACCEL_DECOMPRESS,
				      g.back + len, CAP - len, g.packed + at,
				      some, &g.out);
			assert_true(res >= 0);
			len += (size_t)res;
		}
		assert_int_equal(len, 300000);
		assert_memory_equal(g.back, g.plain, len);
		/* One that is abandoned leaves nothing behind. */
		g.out.flags = WEIR_CODEC_MORE;
		assert_true(unpack(&g, CAP, n / 2) >= 0);
		assert_int_equal(weir_codec_reset(g.dec), 0);
		g.out.flags = 0;
		assert_int_equal(unpack(&g, CAP, n), 300000);
	}
	fixture_end(&g);
}

/* Into a destination of few bytes, again and again. */
static size_t in_parts(struct fixture *g, uint32_t which, char *dst,
		       const char *src, size_t len, size_t cap,
		       struct weir_codec_args *args)
{
	size_t n = 0, done = 0;
	int64_t res;

	args->flags = WEIR_CODEC_FILL;
	do {
		memset(dst + n, 0x55, cap + 1);
		res = run_mem(g->dma, &g->j, which, dst + n, cap, src + done,
			      len - done, args);
		assert_true(res >= 0 && (size_t)res <= cap);
		assert_int_equal(dst[n + cap], 0x55);
		if (weir_job_result(&g->j.job)[1])
			assert_int_equal(res, cap);
		n += (size_t)res;
		done += weir_job_result(&g->j.job)[0];
	} while (weir_job_result(&g->j.job)[1]);
	assert_int_equal(done, len);
	args->flags = 0;
	return n;
}

static void full_destination_is_no_error_with_fill(void **state)
{
	struct fixture g;
	size_t f, cap, len, n;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		for (cap = 1; cap < 200000; cap = cap * 17 + 1) {
			/* A job for each byte would be too many of them. */
			len = cap == 1 ? 2000 : 100000;
			n = in_parts(&g, WEIR_ACCEL_COMPRESS, g.packed, g.plain,
				     len, cap, &g.in);
			assert_int_equal(in_parts(&g, WEIR_ACCEL_DECOMPRESS,
						  g.back, g.packed, n, cap,
						  &g.out), len);
			assert_memory_equal(g.back, g.plain, len);
			assert_int_equal(unpack(&g, CAP, n), len);
		}
		/* What is cut off is found in the last part. */
		g.out.flags = WEIR_CODEC_FILL;
		assert_int_equal(unpack(&g, 100001, n - 1), -EBADMSG);
		assert_int_equal(unpack(&g, 100001, n), 100000);
		assert_int_equal(weir_job_result(&g.j.job)[1], 0);
	}
	fixture_end(&g);
}

static void codec_serves_one_job_at_a_time(void **state)
{
	struct fixture g;
	struct jrec other;
	size_t f;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		jrec_init(&g.j);
		weir_job_registered(&g.j.job,
				    weir_accel_kind(WEIR_ACCEL_COMPRESS),
				    weir_operand_mem(g.packed, CAP),
				    weir_operand_mem(g.plain, LEN), &g.in);
		other = g.j;
		weir_job_registered(&other.job,
				    weir_accel_kind(WEIR_ACCEL_COMPRESS),
				    weir_operand_mem(g.back, CAP),
				    weir_operand_mem(g.plain, LEN), &g.in);
		STARTS(weir_job_start(g.dma, &g.j.job));
		assert_int_equal(weir_job_start(g.dma, &other.job), -EBUSY);
		assert_int_equal(weir_codec_reset(g.enc), -EBUSY);
		assert_int_equal(weir_codec_destroy(g.enc), -EBUSY);
		/* A fence waits until the codec is free. */
		other.job.flags = WEIR_JOB_FENCE;
		STARTS(weir_job_start(g.dma, &other.job));
		UNTIL(g.r, g.j.calls && other.calls);
		assert_true(g.j.res > 0);
		assert_int_equal(other.res, g.j.res);
		assert_memory_equal(g.back, g.packed, g.j.res);
	}
	fixture_end(&g);
}

static void job_is_cancelled_in_the_middle_of_a_stream(void **state)
{
	struct fixture g;
	int64_t n;
	int turns, i;
	size_t f;

	fixture_begin(&g, state);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		n = pack(&g, CAP, LEN);
		for (turns = 0; turns < 6; turns++) {
			jrec_init(&g.j);
			weir_job_registered(
				&g.j.job, weir_accel_kind(WEIR_ACCEL_COMPRESS),
				weir_operand_mem(g.packed, CAP),
				weir_operand_mem(g.plain, LEN), &g.in);
			STARTS(weir_job_start(g.dma, &g.j.job));
			for (i = 0; i < turns && !g.j.calls; i++)
				some_turns(g.r, 1);
			weir_op_cancel(&g.j.job.op);
			UNTIL(g.r, g.j.calls);
			assert_true(g.j.res == n || g.j.res == -ECANCELED);
		}
		assert_int_equal(pack(&g, CAP, LEN), n);
	}
	fixture_end(&g);
}

static void arguments_that_make_no_sense_are_refused(void **state)
{
	struct weir_codec_opts opts = { .size = sizeof(opts), .format = 5 };
	struct weir_codec_args args;
	struct weir_codec *codec = NULL;
	struct fixture g;

	fixture_begin(&g, state);
	codecs(&g, (struct form){ WEIR_CODEC_GZIP, 0 });
	assert_int_equal(weir_codec_create(&codec, &opts), -EINVAL);
	opts.format = 0;
	assert_int_equal(weir_codec_create(&codec, &opts), -EINVAL);
	opts.format = WEIR_CODEC_GZIP;
	opts.level = 10;
	assert_int_equal(weir_codec_create(&codec, &opts), -EINVAL);
	assert_non_null(strstr(weir_why(), "level 10"));
	opts.format = WEIR_CODEC_ZSTD;
	opts.level = 99;
	assert_int_equal(weir_codec_create(&codec, &opts), -EINVAL);
	opts.level = 0;
	opts.window_max = 1023;
	assert_int_equal(weir_codec_create(&codec, &opts), -EINVAL);
	assert_int_equal(weir_codec_create(NULL, &opts), -EINVAL);
	assert_int_equal(weir_codec_create(&codec, (void *)&(struct {
		struct weir_codec_opts opts;
		uint64_t later;
	}){ { .size = sizeof(opts) + 8 }, 1 }), -E2BIG);
	assert_null(codec);
	assert_int_equal(refused(g.dma, WEIR_ACCEL_COMPRESS, g.back, 10,
				 g.plain, 10, NULL), -EINVAL);
	args = (struct weir_codec_args){ .codec = g.dec };
	assert_int_equal(refused(g.dma, WEIR_ACCEL_COMPRESS, g.back, 10,
				 g.plain, 10, &args), -EINVAL);
	args = (struct weir_codec_args){ .codec = g.enc, .flags = 4 };
	assert_int_equal(refused(g.dma, WEIR_ACCEL_COMPRESS, g.back, 10,
				 g.plain, 10, &args), -EINVAL);
	args = (struct weir_codec_args){ .codec = g.enc };
	assert_int_equal(refused(g.dma, WEIR_ACCEL_DECOMPRESS, g.back, 10,
				 g.plain, 10, &args), -EINVAL);
	assert_int_equal(weir_codec_destroy(NULL), 0);
	fixture_end(&g);
}

/* A window of 8 MiB where 1 MiB is allowed. */
static void window_that_is_too_large_is_refused(void **state)
{
	struct weir_codec_opts opts = { .size = sizeof(opts), .decode = true,
					.format = WEIR_CODEC_ZSTD,
					.window_max = 1 << 20 };
	struct fixture g;
	int64_t n;

	fixture_begin(&g, state);
	codecs(&g, (struct form){ WEIR_CODEC_ZSTD, 0 });
	assert_int_equal(weir_codec_destroy(g.enc), 0);
	g.in.codec = g.enc = make(WEIR_CODEC_ZSTD, false, 19);
	g.in.flags = WEIR_CODEC_MORE;	/* So it does not know the length. */
	n = pack(&g, CAP, LEN);
	g.in.flags = 0;
	n += run_mem(g.dma, &g.j, WEIR_ACCEL_COMPRESS, g.packed + n,
		     CAP - (size_t)n, g.plain, 1, &g.in);
	assert_int_equal(unpack(&g, CAP, (size_t)n), LEN + 1);
	assert_int_equal(weir_codec_destroy(g.dec), 0);
	g.dec = NULL;
	assert_int_equal(weir_codec_create(&g.dec, &opts), 0);
	g.out.codec = g.dec;
	assert_int_equal(unpack(&g, CAP, (size_t)n), -EMSGSIZE);
	fixture_end(&g);
}

static bool has_program(const char *name)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null", name);
	return !system(cmd);
}

/* From file to file, so through staging, both ways. */
static void programs_of_others_read_and_write_the_same(void **state)
{
	static const struct {
		struct form form;
		const char *program;
	} peers[] = { { { WEIR_CODEC_GZIP, 0 }, "gzip" },
		      { { WEIR_CODEC_GZIP, 1 }, "gzip" },
		      { { WEIR_CODEC_GZIP, 2 }, "gzip" },
		      { { WEIR_CODEC_GZIP, 3 }, "gzip" },
		      { { WEIR_CODEC_ZSTD, 0 }, "zstd" } };
	struct weir_domain *plain, *packed;
	char cmd[256];
	struct fixture g;
	int fd[2], tested = 0;
	int64_t n, len;
	size_t i;

	fixture_begin(&g, state);
	fd[0] = test_file(state, "plain", LEN, 0);
	fd[1] = test_file(state, "packed", 0, 0);
	plain = file_domain(fd[0]);
	packed = file_domain(fd[1]);
	for (i = 0; i < N_OF(peers); i++) {
		if (!has_program(peers[i].program))
			continue;
		tested++;
		codecs(&g, peers[i].form);
		assert_int_equal(pwrite(fd[0], g.plain, LEN, 0), LEN);
		assert_int_equal(ftruncate(fd[1], 0), 0);
		n = run_kind(g.dma, &g.j, WEIR_ACCEL_COMPRESS,
			     weir_operand_at(packed, 0, INT64_MAX),
			     weir_operand_at(plain, 0, LEN), &g.in);
		assert_true(n > 0 && n < LEN);
		assert_int_equal(lseek(fd[1], 0, SEEK_END), n);
		assert_int_equal(pread(fd[1], g.packed, CAP, 0), n);
		snprintf(cmd, sizeof(cmd), "%s -dc </proc/%d/fd/%d | "
			 "cmp - /proc/%d/fd/%d", peers[i].program, getpid(),
			 fd[1], getpid(), fd[0]);
		assert_int_equal(system(cmd), 0);
		/* Its own, twice, behind ours. */
		snprintf(cmd, sizeof(cmd), "cat /proc/%d/fd/%d | %s -c "
			 ">>/proc/%d/fd/%d; %s -c </dev/null "
			 ">>/proc/%d/fd/%d", getpid(), fd[0],
			 peers[i].program, getpid(), fd[1], peers[i].program,
			 getpid(), fd[1]);
		assert_int_equal(system(cmd), 0);
		len = lseek(fd[1], 0, SEEK_END);
		assert_true(len > n);
		assert_int_equal(run_kind(g.dma, &g.j, WEIR_ACCEL_DECOMPRESS,
					  weir_operand_at(plain, 0, INT64_MAX),
					  weir_operand_at(packed, 0,
							  (uint64_t)len),
					  &g.out), 2 * LEN);
		assert_int_equal(pread(fd[0], g.back, CAP, 0), 2 * LEN);
		assert_memory_equal(g.back, g.plain, LEN);
		assert_memory_equal(g.back + LEN, g.plain, LEN);
		assert_int_equal(ftruncate(fd[0], LEN), 0);
	}
	assert_int_equal(weir_domain_destroy(plain), 0);
	assert_int_equal(weir_domain_destroy(packed), 0);
	close(fd[0]);
	close(fd[1]);
	fixture_end(&g);
	if (!tested)
		skip_because("neither gzip nor zstd is installed");
}

/* All that a header of RFC 1952 may have, and each byte in a job of its own. */
static void gzip_header_may_have_all_members(void **state)
{
	/* Its CRC-16 is that of `crc32` over the bytes before it. */
	static const unsigned char head[] = {
		0x1f, 0x8b, 8, 0x1f, 0, 0, 0, 0, 0, 3, 5, 0,
		'e', 'x', 't', 'r', 'a', 'n', 'a', 'm', 'e', 0,
		'c', 'o', 'm', 'm', 'e', 'n', 't', 0, 0x42, 0xbe,
	};
	struct fixture g;
	int64_t n, len = 0;
	size_t i;

	fixture_begin(&g, state);
	codecs(&g, (struct form){ WEIR_CODEC_GZIP, 1 });
	n = pack(&g, CAP, 5000);
	memmove(g.packed + sizeof(head), g.packed + 10, (size_t)n - 10);
	memcpy(g.packed, head, sizeof(head));
	n += (int64_t)sizeof(head) - 10;
	assert_int_equal(unpack(&g, CAP, (size_t)n), 5000);
	assert_memory_equal(g.back, g.plain, 5000);
	memset(g.back, 0, 5000);
	for (i = 0; i < (size_t)n; i++) {
		g.out.flags = i + 1 < (size_t)n ? WEIR_CODEC_MORE : 0;
		len += run_mem(g.dma, &g.j, WEIR_ACCEL_DECOMPRESS,
			       g.back + len, CAP - (size_t)len, g.packed + i, 1,
			       &g.out);
	}
	assert_int_equal(len, 5000);
	assert_memory_equal(g.back, g.plain, 5000);
	g.out.flags = 0;
	g.packed[14] ^= 1;
	assert_int_equal(unpack(&g, CAP, (size_t)n), -EBADMSG);
	fixture_end(&g);
}

/* No byte behind the input is read, and none behind the output is written:
 * there is no memory. */
static void codec_stays_inside_both_sides(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), half = 64 * page, f, len;
	struct fixture g;
	char *in, *out;
	int64_t n;

	fixture_begin(&g, state);
	in = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(in, MAP_FAILED);
	out = in + half;
	assert_int_equal(mprotect(in + half - page, page, PROT_NONE), 0);
	assert_int_equal(mprotect(out + half - page, page, PROT_NONE), 0);
	for (f = 0; f < N_OF(formats); f++) {
		codecs(&g, formats[f]);
		for (len = 1; len < 60 * page; len = len * 2 + 1) {
			memcpy(out - page - len, g.plain, len);
			n = run_mem(g.dma, &g.j, WEIR_ACCEL_COMPRESS,
				    g.packed, CAP, out - page - len, len,
				    &g.in);
			assert_true(n > 0);
			memcpy(out - page - n, g.packed, (size_t)n);
			assert_int_equal(run_mem(g.dma, &g.j,
						 WEIR_ACCEL_DECOMPRESS,
						 out + half - page - len, len,
						 out - page - n, (size_t)n,
						 &g.out), len);
			assert_memory_equal(out + half - page - len, g.plain,
					    len);
			memcpy(out - page - len, g.plain, len);
			assert_int_equal(run_mem(g.dma, &g.j,
						 WEIR_ACCEL_COMPRESS,
						 out + half - page - n,
						 (size_t)n, out - page - len,
						 len, &g.in), n);
		}
	}
	munmap(in, 2 * half);
	fixture_end(&g);
}

/* Compress, encrypt the size of it, and so on: steps of a chain. */
static void chain_compresses_and_decompresses(void **state)
{
	struct weir_chain_opts opts = { .size = sizeof(opts) };
	struct weir_chain *chain = NULL;
	struct jrec a, b;
	struct fixture g;
	struct rec rec;
	int64_t n;

	fixture_begin(&g, state);
	codecs(&g, (struct form){ WEIR_CODEC_ZSTD, 0 });
	n = pack(&g, CAP, LEN);
	memset(g.packed, 0, CAP);
	jrec_init(&a);
	jrec_init(&b);
	rec_init(&rec);
	weir_job_registered(&a.job, weir_accel_kind(WEIR_ACCEL_COMPRESS),
			    weir_operand_mem(g.packed, CAP),
			    weir_operand_mem(g.plain, LEN), &g.in);
	weir_job_registered(&b.job, weir_accel_kind(WEIR_ACCEL_DECOMPRESS),
			    weir_operand_mem(g.back, LEN),
			    weir_operand_mem(g.packed, (size_t)n), &g.out);
	assert_int_equal(weir_chain_create(&chain, g.r, &opts), 0);
	assert_int_equal(weir_chain_add_job(chain, WEIR_CHAIN_FIRST, g.dma,
					    &a.job), 0);
	assert_int_equal(weir_chain_add_job(chain, 0, g.dma, &b.job), 1);
	STARTS(weir_chain_start(chain, &rec.op));
	UNTIL(g.r, rec.calls);
	assert_int_equal(rec.res, 2);
	assert_memory_equal(g.back, g.plain, LEN);
	assert_int_equal(weir_chain_destroy(chain), 0);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(stream_of_each_format_comes_back),
		CASE(bound_is_enough),
		CASE(output_that_is_too_small_ends_the_job),
		CASE(input_that_is_cut_off_or_damaged_is_refused),
		CASE(hostile_input_does_no_harm),
		CASE(streams_behind_each_other_are_one),
		CASE(stream_goes_on_in_the_next_job),
		CASE(full_destination_is_no_error_with_fill),
		CASE(codec_serves_one_job_at_a_time),
		CASE(job_is_cancelled_in_the_middle_of_a_stream),
		CASE(arguments_that_make_no_sense_are_refused),
		CASE(window_that_is_too_large_is_refused),
		REAL(programs_of_others_read_and_write_the_same),
		CASE(gzip_header_may_have_all_members),
		CASE(codec_stays_inside_both_sides),
		CASE(chain_compresses_and_decompresses),
	};

	return harness_run_all(cases, N_OF(cases));
}
