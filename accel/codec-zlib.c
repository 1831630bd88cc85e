/* SPDX-License-Identifier: BSD-3-Clause */
/* gzip, zlib and raw deflate, by zlib. */

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "accel/codec.h"

#define WINDOW_BITS 15
#define MEM_LEVEL 8

/* What zlib calls the three formats. */
static int window_bits(const struct weir_codec *codec)
{
	return codec->opts.format == WEIR_CODEC_GZIP	  ? WINDOW_BITS + 16 :
	       codec->opts.format == WEIR_CODEC_DEFLATE ? -WINDOW_BITS :
							  WINDOW_BITS;
}

static int init(struct weir_codec *codec, z_stream *z)
{
	int level = codec->opts.level ? codec->opts.level : 6;
	int res;

	if (codec->opts.decode)
		res = inflateInit2(z, window_bits(codec));
	else if (level < 1 || level > 9)
		return -EINVAL;
	else
		res = deflateInit2(z, level, Z_DEFLATED, window_bits(codec),
				   MEM_LEVEL, Z_DEFAULT_STRATEGY);
	return res == Z_OK ? 0 : -ENOMEM;
}

static int zlib_create(struct weir_codec *codec)
{
	z_stream *z = calloc(1, sizeof(*z));
	int err = z ? init(codec, z) : -ENOMEM;

	if (err)
		free(z);
	else
		codec->state = z;
	return err;
}

static void zlib_destroy(struct weir_codec *codec)
{
	if (codec->opts.decode)
		inflateEnd(codec->state);
	else
		deflateEnd(codec->state);
	free(codec->state);
}

static void zlib_reset(struct weir_codec *codec)
{
	if (codec->opts.decode)
		inflateReset(codec->state);
	else
		deflateReset(codec->state);
}

static int encode(struct weir_codec *codec, struct weir_kind_run *run, bool end)
{
	z_stream *z = codec->state;
	Bytef more;
	int res;

	/* There is no capacity at all, and zlib says that it has finished only
	 * where it could have written something. */
	if (!run->out_len) {
		z->next_out = &more;
		z->avail_out = 1;
	}
	res = deflate(z, end ? Z_FINISH : Z_NO_FLUSH);
	if (res == Z_STREAM_ERROR)
		return -EIO;
	if (!run->out_len && !z->avail_out)
		return -ENOSPC;
	if (!run->out_len)
		z->avail_out = 0;
	if (end)
		return res == Z_STREAM_END;
	return run->last && !z->avail_in;
}

/* gzip(1) accepts zeros behind the last member: tapes are padded. */
static bool skip_zeros(struct weir_codec *codec, z_stream *z)
{
	if (codec->opts.format != WEIR_CODEC_GZIP || !codec->any)
		return false;
	while (z->avail_in && !*z->next_in) {
		z->next_in++;
		z->avail_in--;
	}
	return !z->avail_in;
}

static int decode(struct weir_codec *codec, struct weir_kind_run *run, bool end)
{
	z_stream *z = codec->state;
	int res;

	if (codec->between && (!z->avail_in || skip_zeros(codec, z)))
		return run->last ? end && !codec->any ? -EBADMSG : 1 : 0;
	codec->between = false;
	res = inflate(z, Z_NO_FLUSH);
	if (res == Z_STREAM_END) {
		inflateReset(z);
		codec->between = true;
		codec->any = true;
		return run->last && !z->avail_in;
	}
	if (res == Z_MEM_ERROR)
		return -ENOMEM;
	if (res != Z_OK && res != Z_BUF_ERROR)
		return -EBADMSG;
	if (z->avail_in || !z->avail_out)
		return 0;
	/* All is consumed, and all written that can be. */
	return !run->last ? 0 : end ? -EBADMSG : 1;
}

static int zlib_code(struct weir_codec *codec, struct weir_kind_run *run,
		     bool end)
{
	z_stream *z = codec->state;
	int res;

	z->next_in = (Bytef *)(uintptr_t)run->in;
	z->avail_in = (uInt)run->in_len;
	z->next_out = run->out;
	z->avail_out = (uInt)run->out_len;
	res = codec->opts.decode ? decode(codec, run, end) :
				   encode(codec, run, end);
	run->consumed = run->in_len - z->avail_in;
	run->produced = run->out_len - z->avail_out;
	return res;
}

/* deflateBound(), which is not for any thread, in numbers of 64 bits. */
static uint64_t zlib_bound(const struct weir_codec *codec, uint64_t bytes)
{
	(void)codec;
	return bytes + (bytes >> 3) + (bytes >> 8) + (bytes >> 9) + 64;
}

const struct coder coder_zlib = {
	.create = zlib_create,
	.destroy = zlib_destroy,
	.reset = zlib_reset,
	.code = zlib_code,
	.bound = zlib_bound,
};
