/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gzip by ISA-L: decompression, and compression with the levels that ISA-L
 * has.  It takes a fraction of the time of zlib.
 */

#include <errno.h>
#include <stdlib.h>
#include <isa-l.h>

#include "accel/codec.h"

struct encoder {
	struct isal_zstream z;
	uint8_t level_buf[ISAL_DEF_LVL3_DEFAULT];
};

/* The header is read by a call of its own, for isal_inflate() forgets where in
 * a header it is if the input of a call ends inside it. */
struct decoder {
	struct inflate_state z;
	struct isal_gzip_header header;
	bool in_header;
};

bool isal_can_do(const struct weir_codec_opts *opts)
{
	return opts->format == WEIR_CODEC_GZIP &&
	       (opts->decode || (opts->level >= 1 &&
				 opts->level <= ISAL_DEF_MAX_LEVEL));
}

/* isal_deflate() changes .gzip_flag when it has written the header. */
static void begin_stream(struct encoder *e)
{
	isal_deflate_reset(&e->z);
	e->z.gzip_flag = IGZIP_GZIP;
}

static void begin_member(struct decoder *d)
{
	isal_inflate_reset(&d->z);
	isal_gzip_header_init(&d->header);
	d->z.crc_flag = ISAL_GZIP_NO_HDR_VER;
	d->in_header = true;
}

static int isal_create(struct weir_codec *codec)
{
	static const uint32_t buf_size[] = {
		0, ISAL_DEF_LVL1_DEFAULT, ISAL_DEF_LVL2_DEFAULT,
		ISAL_DEF_LVL3_DEFAULT,
	};
	struct encoder *e;
	struct decoder *d;

	if (codec->opts.decode) {
		codec->state = d = calloc(1, sizeof(*d));
		if (!d)
			return -ENOMEM;
		isal_inflate_init(&d->z);
		begin_member(d);
		return 0;
	}
	codec->state = e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	isal_deflate_init(&e->z);
	e->z.level = (uint32_t)codec->opts.level;
	e->z.level_buf = e->level_buf;
	e->z.level_buf_size = buf_size[e->z.level];
	begin_stream(e);
	return 0;
}

static void isal_destroy(struct weir_codec *codec)
{
	free(codec->state);
}

static void isal_reset(struct weir_codec *codec)
{
	if (codec->opts.decode)
		begin_member(codec->state);
	else
		begin_stream(codec->state);
}

static int encode(struct isal_zstream *z, struct weir_kind_run *run, bool end)
{
	int res;

	z->next_in = (uint8_t *)(uintptr_t)run->in;
	z->avail_in = (uint32_t)run->in_len;
	z->next_out = run->out;
	z->avail_out = (uint32_t)run->out_len;
	z->end_of_stream = end;
	res = isal_deflate(z);
	run->consumed = run->in_len - z->avail_in;
	run->produced = run->out_len - z->avail_out;
	if (res != COMP_OK)
		return -EIO;
	if (end)
		return z->internal_state.state == ZSTATE_END;
	return run->last && !z->avail_in;
}

/* gzip(1) accepts zeros behind the last member: tapes are padded. */
static void skip_zeros(struct inflate_state *z)
{
	while (z->avail_in && !*z->next_in) {
		z->next_in++;
		z->avail_in--;
	}
}

static int decode(struct weir_codec *codec, struct decoder *d, bool last,
		  bool end)
{
	struct inflate_state *z = &d->z;
	uint32_t in = z->avail_in, out = z->avail_out;
	int res;

	if (codec->between && codec->any)
		skip_zeros(z);
	if (codec->between && !z->avail_in)
		return last ? end && !codec->any ? -EBADMSG : 1 : 0;
	codec->between = false;
	if (d->in_header) {
		res = isal_read_gzip_header(z, &d->header);
		d->in_header = res == ISAL_END_INPUT;
	} else {
		res = isal_inflate(z);
	}
	if (res < 0)
		return -EBADMSG;
	if (z->block_state == ISAL_BLOCK_FINISH) {
		begin_member(d);
		codec->between = true;
		codec->any = true;
		return last && !z->avail_in;
	}
	if (z->avail_in < in || z->avail_out < out || !z->avail_out)
		return 0;
	/* All is consumed, and all written that can be. */
	return !last ? 0 : end ? -EBADMSG : 1;
}

static int isal_code(struct weir_codec *codec, struct weir_kind_run *run,
		     bool end)
{
	struct decoder *d = codec->state;
	int res;

	if (!codec->opts.decode)
		return encode(&((struct encoder *)codec->state)->z, run, end);
	d->z.next_in = (uint8_t *)(uintptr_t)run->in;
	d->z.avail_in = (uint32_t)run->in_len;
	d->z.next_out = run->out;
	d->z.avail_out = (uint32_t)run->out_len;
	res = decode(codec, d, run->last, end);
	run->consumed = run->in_len - d->z.avail_in;
	run->produced = run->out_len - d->z.avail_out;
	return res;
}

/* What cannot be compressed is stored, or coded with eight bits and little more
 * for a byte, behind a table. */
static uint64_t isal_bound(const struct weir_codec *codec, uint64_t bytes)
{
	(void)codec;
	return bytes + (bytes >> 3) + 2 * ISAL_DEF_MAX_HDR_SIZE;
}

const struct coder coder_isal = {
	.create = isal_create,
	.destroy = isal_destroy,
	.reset = isal_reset,
	.code = isal_code,
	.bound = isal_bound,
};
