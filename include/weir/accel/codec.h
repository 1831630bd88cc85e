/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ACCEL_CODEC_H
#define WEIR_ACCEL_CODEC_H

/*
 * Codecs: what jobs need to compress and decompress.
 *
 * A codec has the memory and the state of one stream.  A job of the kind
 * WEIR_ACCEL_COMPRESS or WEIR_ACCEL_DECOMPRESS has a struct weir_codec_args as
 * arguments, which names a codec, and is lent until the callback.
 *
 *	struct weir_codec_opts opts = {
 *		.size = sizeof(opts), .format = WEIR_CODEC_ZSTD,
 *	};
 *
 *	err = weir_codec_create(&codec, &opts);
 *	...
 *	rq->args = (struct weir_codec_args){ .codec = codec };
 *	weir_job_registered(&rq->job, weir_accel_kind(WEIR_ACCEL_COMPRESS),
 *			    dst, src, &rq->args);
 *
 * The source of a job is a whole stream, or, with WEIR_CODEC_MORE, a part of it:
 * then the next job of the codec goes on with it.  A codec serves one job at a
 * time; a job whose codec is in use is -EBUSY, a fence waits for its turn.
 *
 *   - A destination that is too small ends the job with -ENOSPC.
 *     weir_codec_bound() tells what is always enough for a compression.  With
 *     WEIR_CODEC_FILL the job ends well when the destination is full; the next
 *     job of the codec goes on with the input that is left, 0 bytes perhaps.
 *   - Decompression accepts several streams behind each other (members, frames),
 *     as gzip(1) and zstd(1) do.  Input that is no such stream, or is damaged or
 *     cut off, ends the job with -EBADMSG; a window that is larger than
 *     .window_max, with -EMSGSIZE.
 *   - After any failure, or a cancel, the codec is as new.
 *   - An input of 0 bytes makes an empty stream.
 *
 * weir_job_result()[0] is the number of bytes of input that are done; [1] is 1 if
 * WEIR_CODEC_FILL has ended the job, or else 0.
 *
 * Formats are those of gzip(1), zstd(1), and of RFC 1950 and 1951, so files can
 * be exchanged with other programs.  zlib and libzstd do the work; libzstd
 * allocates the window of a stream when its first job begins, and keeps it.
 * Where weir was built with ISA-L, that compresses to gzip at the levels 1 to 3,
 * and decompresses it, several times as fast as zlib.
 *
 * Re-creates spdk_accel_submit_compress() and spdk_accel_submit_decompress().
 */

#include <stdbool.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_codec;

/* weir_codec_opts.format */
#define WEIR_CODEC_GZIP 1	/* RFC 1952 */
#define WEIR_CODEC_ZLIB 2	/* RFC 1950 */
#define WEIR_CODEC_DEFLATE 3	/* RFC 1951, without a frame. */
#define WEIR_CODEC_ZSTD 4	/* RFC 8878 */

/*
 * Options of weir_codec_create().  Set .size to the size of the struct; 0
 * is the default of every other member but .format.
 */
struct weir_codec_opts {
	size_t size;
	uint32_t format;
	bool decode;		/* For decompression. */
	int32_t level;		/* 1 to 9, with zstd to 22, or less than 0 for
				 * its fast levels; 0: 6, or 3 with zstd. */
	uint64_t window_max;	/* Of zstd, to decompress; 0: 128 MiB. */
};

/* weir_codec_args.flags */
#define WEIR_CODEC_MORE 1u	/* The stream goes on in the next job. */
#define WEIR_CODEC_FILL 2u	/* A full destination is no error. */

/* Arguments of a job. */
struct weir_codec_args {
	struct weir_codec *codec;
	uint32_t flags;
	uint32_t reserved;
};

/*
 * Create a codec.
 *
 * Returns 0 with *@ret set, to be freed by weir_codec_destroy(), or
 *   -EINVAL      an argument is NULL; there is no such format; .level is none
 *                of the format; or .window_max is less than 1024
 *   -EOPNOTSUPP  weir was built without zlib, or without libzstd
 *   -E2BIG       @opts sets a member that this version does not have
 *   -ENOMEM      no memory
 *
 * Any thread.  Allocates.  Re-creates spdk_accel_get_compress_level_range().
 */
WEIR_API int weir_codec_create(struct weir_codec **ret,
			       const struct weir_codec_opts *opts);

/*
 * Free @codec.  NULL is allowed.
 *
 * Returns 0, or
 *   -EBUSY  a job of it is in flight
 *
 * Call on the reactor of its jobs.  Re-creates deflateEnd() of zlib.
 */
WEIR_API int weir_codec_destroy(struct weir_codec *codec);

/*
 * Abandon the stream in @codec, of which a job with WEIR_CODEC_MORE or
 * WEIR_CODEC_FILL has done a part.
 *
 * Returns 0, or
 *   -EBUSY  a job of it is in flight
 *
 * Call on the reactor of its jobs.  Never blocks.  Re-creates deflateReset() of
 * zlib.
 */
WEIR_API int weir_codec_reset(struct weir_codec *codec);

/*
 * Get the capacity that is always enough to compress @bytes with @codec, as one
 * stream, by one job.
 *
 * Returns the number of bytes; UINT64_MAX, if @codec decompresses or the number
 * would be larger.
 *
 * Any thread.  Never blocks.  Re-creates compressBound() of zlib.
 */
WEIR_API uint64_t weir_codec_bound(const struct weir_codec *codec,
				   uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ACCEL_CODEC_H */
