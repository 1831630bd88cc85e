/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ACCEL_CODEC_INTERNAL_H
#define WEIR_ACCEL_CODEC_INTERNAL_H

/* A codec, and the libraries that do its work: each has a table. */

#include <stdbool.h>

#include <weir/accel/codec.h>
#include <weir/kind.h>

struct coder {
	/* Make .state.  0, -EINVAL (the level), or -ENOMEM. */
	int (*create)(struct weir_codec *codec);
	void (*destroy)(struct weir_codec *codec);
	/* Back to the beginning of a stream. */
	void (*reset)(struct weir_codec *codec);
	/* As weir_kind_ops.run(); @end: the stream ends with this input. */
	int (*code)(struct weir_codec *codec, struct weir_kind_run *run,
		    bool end);
	uint64_t (*bound)(const struct weir_codec *codec, uint64_t bytes);
};

extern const struct coder coder_isal, coder_zlib, coder_zstd;

/* Whether coder_isal does what @opts asks for. */
bool isal_can_do(const struct weir_codec_opts *opts);

struct weir_codec {
	struct weir_codec_opts opts;
	const struct coder *coder;
	void *state;
	bool busy;		/* A job has it, */
	bool full;		/* and ended early: WEIR_CODEC_FILL. */
	bool between;		/* Decompression: a stream has ended, and no
				 * other has begun. */
	bool any;		/* There was a stream. */
};

#endif /* WEIR_ACCEL_CODEC_INTERNAL_H */
