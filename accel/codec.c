/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs, and their kinds of jobs. */

#include <errno.h>
#include <stdlib.h>

#include "accel/codec.h"
#include "accel/kinds.h"
#include "base/opts.h"
#include "base/why.h"

#define WINDOW_MAX_DEFAULT ((uint64_t)128 << 20)

/* What a call of .run() works on at most: a slow level takes a millisecond for
 * that, and a cancel waits for it. */
#define STEP ((size_t)32 << 10)

static const struct coder *coder_of(const struct weir_codec_opts *opts)
{
	(void)opts;		/* If no library is there. */
#ifdef HAVE_ISAL
	if (isal_can_do(opts))
		return &coder_isal;
#endif
#ifdef HAVE_ZLIB
	if (opts->format != WEIR_CODEC_ZSTD)
		return &coder_zlib;
#endif
#ifdef HAVE_ZSTD
	if (opts->format == WEIR_CODEC_ZSTD)
		return &coder_zstd;
#endif
	return NULL;
}

static int check_opts(const struct weir_codec_opts *opts)
{
	if (opts->format < WEIR_CODEC_GZIP || opts->format > WEIR_CODEC_ZSTD)
		return why(-EINVAL, "weir_codec_create: there is no format %u",
			   opts->format);
	if (opts->window_max && opts->window_max < 1024)
		return why(-EINVAL, "weir_codec_create: .window_max is %llu; at "
			   "least 1024 is possible",
			   (unsigned long long)opts->window_max);
	if (!coder_of(opts))
		return why(-EOPNOTSUPP, "weir_codec_create: weir was built "
			   "without %s",
			   opts->format == WEIR_CODEC_ZSTD ? "libzstd" :
							     "zlib");
	return 0;
}

int weir_codec_create(struct weir_codec **ret,
		      const struct weir_codec_opts *opts)
{
	struct weir_codec *codec;
	struct weir_codec_opts own;
	int err;

	if (!ret || !opts)
		return why(-EINVAL, "weir_codec_create: an argument is NULL");
	err = opts_load(&own, sizeof(own), opts, "weir_codec_create");
	if (!err)
		err = check_opts(&own);
	if (err)
		return err;
	codec = calloc(1, sizeof(*codec));
	if (!codec)
		return why(-ENOMEM, "weir_codec_create: no memory");
	codec->opts = own;
	if (!own.window_max)
		codec->opts.window_max = WINDOW_MAX_DEFAULT;
	codec->coder = coder_of(&own);
	err = codec->coder->create(codec);
	if (err) {
		free(codec);
		return err == -EINVAL ?
			       why(err, "weir_codec_create: level %d is none of "
				   "this format", (int)own.level) :
			       why(err, "weir_codec_create: no memory");
	}
	codec->between = true;
	*ret = codec;
	return 0;
}

int weir_codec_destroy(struct weir_codec *codec)
{
	if (!codec)
		return 0;
	if (codec->busy)
		return why(-EBUSY, "weir_codec_destroy: a job of it is in "
			   "flight; wait for its callback");
	codec->coder->destroy(codec);
	free(codec);
	return 0;
}

static void reset(struct weir_codec *codec)
{
	codec->coder->reset(codec);
	codec->between = true;
	codec->any = false;
}

int weir_codec_reset(struct weir_codec *codec)
{
	if (codec->busy)
		return why(-EBUSY, "weir_codec_reset: a job of it is in "
			   "flight; wait for its callback");
	reset(codec);
	return 0;
}

uint64_t weir_codec_bound(const struct weir_codec *codec, uint64_t bytes)
{
	return codec->opts.decode || bytes > INT64_MAX / 2 ?
		       UINT64_MAX : codec->coder->bound(codec, bytes);
}

/* The jobs. */

static int check_args(const struct weir_job *job, bool decode)
{
	const struct weir_codec_args *args = weir_job_args(job);

	return !args || !args->codec ||
	       args->flags & ~(WEIR_CODEC_MORE | WEIR_CODEC_FILL) ||
	       args->reserved || args->codec->opts.decode != decode ?
		       -EINVAL : 0;
}

static int compress_shape(const struct weir_job *job, uint64_t bytes,
			  struct weir_kind_shape *ret)
{
	(void)bytes, (void)ret;
	return check_args(job, false);
}

static int decompress_shape(const struct weir_job *job, uint64_t bytes,
			    struct weir_kind_shape *ret)
{
	(void)bytes, (void)ret;
	return check_args(job, true);
}

static struct weir_codec *codec_of(const struct weir_job *job)
{
	return ((const struct weir_codec_args *)weir_job_args(job))->codec;
}

static int claim(const struct weir_job *job)
{
	struct weir_codec *codec = codec_of(job);

	if (codec->busy)
		return -EBUSY;
	codec->busy = true;
	codec->full = false;
	return 0;
}

static void release(const struct weir_job *job, int64_t res)
{
	const struct weir_codec_args *args = weir_job_args(job);

	if (res < 0 ||
	    !(args->flags & WEIR_CODEC_MORE || args->codec->full))
		reset(args->codec);
	args->codec->busy = false;
}

/* A part of the input and output, of a length that takes a short time. */
static int code(struct weir_kind_run *run)
{
	const struct weir_codec_args *args = run->args;
	struct weir_kind_run part = *run;
	int res;

	if (args->flags & WEIR_CODEC_FILL && !run->out_len) {
		args->codec->full = true;
		run->result[1] = 1;
		return 1;
	}
	if (part.in_len > STEP) {
		part.in_len = STEP;
		part.last = 0;
	}
	if (part.out_len > 4 * STEP)
		part.out_len = 4 * STEP;
	res = args->codec->coder->code(args->codec, &part,
				       part.last &&
					       !(args->flags & WEIR_CODEC_MORE));
	run->consumed = part.consumed;
	run->produced = part.produced;
	run->result[0] += part.consumed;
	return res;
}

const struct weir_kind_ops accel_compress = {
	.size = sizeof(accel_compress),
	.name = "compress",
	.flags = WEIR_KIND_OUTPUT | WEIR_KIND_EMPTY,
	.weight = 64,
	.worker_min = 16 << 10,
	.shape = compress_shape,
	.begin = claim,
	.run = code,
	.end = release,
};

const struct weir_kind_ops accel_decompress = {
	.size = sizeof(accel_decompress),
	.name = "decompress",
	.flags = WEIR_KIND_OUTPUT | WEIR_KIND_EMPTY,
	.weight = 16,
	.worker_min = 4 << 10,
	.shape = decompress_shape,
	.begin = claim,
	.run = code,
	.end = release,
};
