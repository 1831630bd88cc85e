/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Copies that are not what their source is: compressed, decompressed, encrypted
 * or decrypted.  One job takes a file through: it reads blocks, a worker turns
 * them into others, and while those are written the next are read.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/accel/kinds.h>

#include "weir-cp.h"

static const uint32_t formats[] = {
	[CONVERT_GZIP] = WEIR_CODEC_GZIP,
	[CONVERT_ZSTD] = WEIR_CODEC_ZSTD,
};

/* The key is 32 or 64 bytes; anything else is no key.  Returns how many. */
static int read_key(const char *path, unsigned char *key)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, key, 65);

	if (n < 0)
		fprintf(stderr, "weir-cp: key file %s: %s\n", path,
			strerror(errno));
	else if (n != 32 && n != 64)
		fprintf(stderr, "weir-cp: key file %s: a key of 32 or 64 bytes "
			"is wanted, for AES-128 or AES-256\n", path);
	if (fd >= 0)
		close(fd);
	return n == 32 || n == 64 ? (int)n : -1;
}

int convert_setup(struct cp *cp)
{
	struct weir_xts_opts opts = { .size = sizeof(opts),
				      .sector = cp->opts.sector,
				      .count_512 = true };
	unsigned char key[65];
	int n, err;

	if (!cp->opts.key)
		return 0;
	n = read_key(cp->opts.key, key);
	if (n < 0)
		return -1;
	opts.key = key;
	opts.key_len = (uint32_t)n;
	err = weir_xts_create(&cp->xts, &opts);
	explicit_bzero(key, sizeof(key));
	if (err)
		fprintf(stderr, "weir-cp: %s\n", weir_why());
	return err;
}

/* What a compressed file begins with.  0: it is none. */
static enum convert format_of(const struct file *f)
{
	static const unsigned char zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
	unsigned char magic[4];
	ssize_t n = pread(f->src, magic, 4, 0);

	if (n >= 2 && magic[0] == 0x1f && magic[1] == 0x8b)
		return CONVERT_GZIP;
	/* Or a frame that is to be skipped. */
	if (n == 4 && (!memcmp(magic, zstd, 4) ||
		       ((magic[0] & 0xf0) == 0x50 && magic[1] == 0x2a &&
			magic[2] == 0x4d && magic[3] == 0x18)))
		return CONVERT_ZSTD;
	return CONVERT_NOT;
}

static int make_codec(struct file *f)
{
	const struct cp_opts *o = &f->cp->opts;
	struct weir_codec_opts opts = { .size = sizeof(opts),
					.level = o->level };
	enum convert format = o->convert;
	int err;

	if (format == CONVERT_BACK) {
		opts.decode = true;
		format = format_of(f);
	}
	if (format == CONVERT_NOT)
		return file_wrong(f, "is neither of gzip nor of zstd", 0);
	opts.format = formats[format];
	err = weir_codec_create(&f->codec.codec, &opts);
	return err ? file_wrong(f, "make a codec for", err) : 0;
}

/* Returns 1: it is to be moved, or a negative errno. */
int convert_open(struct file *f)
{
	enum convert what = f->cp->opts.convert;

	if (what == CONVERT_ENCRYPT || what == CONVERT_DECRYPT) {
		if (f->st.st_size % f->cp->opts.sector)
			return file_wrong(f, "has a size that is no multiple "
					  "of the sector", 0);
		/* There are no sectors, and nothing to do. */
		if (!f->st.st_size)
			return 0;
		f->xts.xts = f->cp->xts;
		return 1;
	}
	return make_codec(f) ? f->err : 1;
}

static void on_converted(struct weir_op *op, int64_t res)
{
	struct file *f = weir_container_of(op, struct file, job.op);

	if (res < 0) {
		file_wrong(f, res == -EBADMSG ? "is damaged or cut off" :
			   "convert", res == -EBADMSG ? 0 : (int)res);
	} else {
		f->data = f->written = f->scanned = (uint64_t)res;
		f->st.st_size = res;
	}
	file_moved(f);
}

void convert_begin(struct file *f)
{
	static const uint32_t kinds[] = {
		[CONVERT_GZIP] = WEIR_ACCEL_COMPRESS,
		[CONVERT_ZSTD] = WEIR_ACCEL_COMPRESS,
		[CONVERT_BACK] = WEIR_ACCEL_DECOMPRESS,
		[CONVERT_ENCRYPT] = WEIR_ACCEL_ENCRYPT,
		[CONVERT_DECRYPT] = WEIR_ACCEL_DECRYPT,
	};
	enum convert what = f->cp->opts.convert;
	int err;

	weir_job_init(&f->job, on_converted);
	weir_job_registered(&f->job, weir_accel_kind(kinds[what]),
			    weir_operand_at(f->dst_domain, 0, INT64_MAX),
			    weir_operand_at(f->src_domain, 0,
					    (uint64_t)f->st.st_size),
			    f->codec.codec ? (const void *)&f->codec :
					     (const void *)&f->xts);
	err = weir_job_start(f->cp->dma, &f->job);
	if (!err)
		return;
	file_wrong(f, "convert", err);
	file_moved(f);
}

void convert_drop(struct file *f)
{
	weir_codec_destroy(f->codec.codec);
	f->codec.codec = NULL;
}
