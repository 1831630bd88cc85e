/* SPDX-License-Identifier: BSD-3-Clause */
/* Zstandard, by libzstd. */

#include <errno.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "accel/codec.h"

static int make_encoder(struct weir_codec *codec)
{
	int level = codec->opts.level ? codec->opts.level : 3;
	ZSTD_CCtx *c;

	if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())
		return -EINVAL;
	c = ZSTD_createCCtx();
	if (!c)
		return -ENOMEM;
	/* As zstd(1) does, so that damage is found. */
	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	codec->state = c;
	return 0;
}

static int make_decoder(struct weir_codec *codec)
{
	ZSTD_DCtx *d = ZSTD_createDCtx();
	int log = 63 - __builtin_clzll(codec->opts.window_max);
	ZSTD_bounds bounds = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);

	if (!d)
		return -ENOMEM;
	if (log > bounds.upperBound)
		log = bounds.upperBound;
	if (log < bounds.lowerBound)
		log = bounds.lowerBound;
	ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, log);
	codec->state = d;
	return 0;
}

static int zstd_create(struct weir_codec *codec)
{
	return codec->opts.decode ? make_decoder(codec) : make_encoder(codec);
}

static void zstd_destroy(struct weir_codec *codec)
{
	if (codec->opts.decode)
		ZSTD_freeDCtx(codec->state);
	else
		ZSTD_freeCCtx(codec->state);
}

static void zstd_reset(struct weir_codec *codec)
{
	if (codec->opts.decode)
		ZSTD_DCtx_reset(codec->state, ZSTD_reset_session_only);
	else
		ZSTD_CCtx_reset(codec->state, ZSTD_reset_session_only);
}

static int error_of(size_t res)
{
	switch (ZSTD_getErrorCode(res)) {
	case ZSTD_error_memory_allocation:
		return -ENOMEM;
	case ZSTD_error_frameParameter_windowTooLarge:
		return -EMSGSIZE;
	default:
		return -EBADMSG;
	}
}

static int encode(struct weir_codec *codec, struct weir_kind_run *run, bool end,
		  ZSTD_inBuffer *in, ZSTD_outBuffer *out)
{
	size_t res = ZSTD_compressStream2(codec->state, out, in,
					  end ? ZSTD_e_end : ZSTD_e_continue);

	if (ZSTD_isError(res))
		return ZSTD_getErrorCode(res) ==
				       ZSTD_error_memory_allocation ?
			       -ENOMEM : -EIO;
	if (end)
		return res == 0;
	return run->last && in->pos == in->size;
}

static int decode(struct weir_codec *codec, struct weir_kind_run *run, bool end,
		  ZSTD_inBuffer *in, ZSTD_outBuffer *out)
{
	size_t res;

	if (codec->between && !in->size)
		return run->last ? end && !codec->any ? -EBADMSG : 1 : 0;
	codec->between = false;
	res = ZSTD_decompressStream(codec->state, out, in);
	if (ZSTD_isError(res))
		return error_of(res);
	if (!res) {
		codec->between = true;
		codec->any = true;
		return run->last && in->pos == in->size;
	}
	if (in->pos < in->size || out->pos == out->size)
		return 0;
	/* All is consumed, and all written that can be. */
	return !run->last ? 0 : end ? -EBADMSG : 1;
}

static int zstd_code(struct weir_codec *codec, struct weir_kind_run *run,
		     bool end)
{
	ZSTD_inBuffer in = { run->in, run->in_len, 0 };
	ZSTD_outBuffer out = { run->out, run->out_len, 0 };
	int res = codec->opts.decode ? decode(codec, run, end, &in, &out) :
				       encode(codec, run, end, &in, &out);

	run->consumed = in.pos;
	run->produced = out.pos;
	return res;
}

static uint64_t zstd_bound(const struct weir_codec *codec, uint64_t bytes)
{
	(void)codec;
	return bytes + (bytes >> 7) + 1024;
}

const struct coder coder_zstd = {
	.create = zstd_create,
	.destroy = zstd_destroy,
	.reset = zstd_reset,
	.code = zstd_code,
	.bound = zstd_bound,
};
