/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Copies that are not what their source is: compressed, decompressed, encrypted
 * or decrypted.  The blocks of all files pass through one flow:
 *
 *	read -> convert -> write	in a buffer of the pool, of two parts
 *
 * Several blocks are read and written at the same time.  A codec has the state
 * of a stream, so the blocks of a file are compressed in their order, one at a
 * time: each waits for its turn.  Sectors are encrypted in any order.
 *
 * What a block becomes is written behind what the blocks before it became.  If
 * that is more than the buffer holds, the step that converts it writes a part,
 * and goes on.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/accel/kinds.h>
#include <weir/buf.h>
#include <weir/chain.h>
#include <weir/file.h>
#include <weir/kind.h>
#include <weir/pipeline.h>

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
	err = weir_codec_create(&f->codec, &opts);
	return err ? file_wrong(f, "make a codec for", err) : 0;
}

static bool by_sectors(const struct cp *cp)
{
	return cp->opts.convert == CONVERT_ENCRYPT ||
	       cp->opts.convert == CONVERT_DECRYPT;
}

/* Returns 1: it is to be moved, or a negative errno. */
int convert_open(struct file *f)
{
	if (by_sectors(f->cp) && f->st.st_size % f->cp->opts.sector)
		return file_wrong(f, "has a size that is no multiple of the "
				  "sector", 0);
	/* There are no sectors, and nothing to do. */
	if (by_sectors(f->cp) && !f->st.st_size)
		return 0;
	if (!by_sectors(f->cp) && make_codec(f))
		return f->err;
	/* Holes are converted too; and nothing becomes a stream. */
	f->ext[0] = (struct extent){ 0, (uint64_t)f->st.st_size };
	f->scanned = f->ext[0].end;
	f->n_ext = 1;
	f->cur_ext = 0;
	return 1;
}

void convert_drop(struct file *f)
{
	weir_codec_destroy(f->codec);
	f->codec = NULL;
}

/* Capacity for what a block becomes, behind it.  What is decompressed grows. */
static size_t capacity_of(const struct cp *cp)
{
	return by_sectors(cp) ? 0 : cp->opts.convert == CONVERT_BACK ?
	       2 * cp->opts.block : cp->opts.block;
}

size_t convert_buf_size(const struct cp *cp)
{
	return cp->opts.block + capacity_of(cp);
}

/* Steps of a slot's chain. */
enum { STEP_READ, STEP_CONVERT, STEP_WRITE };

static void convert_next(struct unit *u);

static int read_block(struct weir_chain *chain, uint32_t step,
		      struct weir_op *op, void *arg)
{
	struct unit *u = weir_slot_data(weir_chain_ctx(chain));
	struct flow *flow = arg;

	(void)step;
	return u->len ? weir_read(flow->cp->reactor, op, u->file->src, u->in,
				  u->len, u->off) : 1;
}

static void end_step(struct unit *u, int64_t res)
{
	struct weir_op *op = u->op;

	u->op = NULL;
	weir_op_finish(op, res);
}

static bool has_failed(const struct file *f)
{
	return f->err || f->ended_early;
}

/* The blocks of @f that wait go on: the next one, or all, to fail. */
static void pass_turn(struct file *f)
{
	struct unit **at = &f->turns, *u;

	while ((u = *at)) {
		if (!has_failed(f) && u->off != f->turn) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		if (!has_failed(f)) {
			convert_next(u);
			return;
		}
		end_step(u, -ECANCELED);
	}
}

/* All of the block is converted, and its output is to be written. */
static void converted(struct unit *u)
{
	struct file *f = u->file;

	u->out_off = by_sectors(f->cp) ? u->off : f->written;
	f->written = u->out_off + u->n_out > f->written ?
			     u->out_off + u->n_out : f->written;
	f->turn = u->off + u->len;
	end_step(u, 0);
	pass_turn(f);
}

static void on_part_written(struct weir_op *op, int64_t res)
{
	struct unit *u = weir_container_of(op, struct unit, part);

	u->in_part = false;
	if (res < 0) {
		/* What cannot be written is no failure to convert. */
		u->write_failed = true;
		end_step(u, res);
		return;
	}
	u->file->written += u->n_out;
	convert_next(u);
}

/* It is more than the buffer holds. */
static void write_part(struct unit *u)
{
	struct file *f = u->file;
	int err;

	weir_op_init(&u->part, on_part_written);
	err = weir_write(f->cp->reactor, &u->part, f->dst, u->out, u->n_out,
			 f->written);
	u->in_part = !err;
	if (err)
		end_step(u, err);
}

static void on_converted(struct weir_op *op, int64_t res)
{
	struct unit *u = weir_container_of(op, struct unit, first.op);
	const uint64_t *result = weir_job_result(&u->first);

	u->in_job = false;
	if (res < 0) {
		end_step(u, res);
		return;
	}
	u->n_out = (uint64_t)res;
	if (by_sectors(u->file->cp)) {
		converted(u);
		return;
	}
	u->done += result[0];
	if (result[1])
		write_part(u);
	else
		converted(u);
}

/* Convert what is left of the block. */
static void convert_next(struct unit *u)
{
	static const uint32_t kinds[] = {
		[CONVERT_GZIP] = WEIR_ACCEL_COMPRESS,
		[CONVERT_ZSTD] = WEIR_ACCEL_COMPRESS,
		[CONVERT_BACK] = WEIR_ACCEL_DECOMPRESS,
		[CONVERT_ENCRYPT] = WEIR_ACCEL_ENCRYPT,
		[CONVERT_DECRYPT] = WEIR_ACCEL_DECRYPT,
	};
	struct file *f = u->file;
	struct cp *cp = f->cp;
	bool sectors = by_sectors(cp);
	int err;

	weir_job_init(&u->first, on_converted);
	weir_job_registered(&u->first, weir_accel_kind(kinds[cp->opts.convert]),
			    weir_operand_mem(u->out, sectors ? u->len :
							       capacity_of(cp)),
			    weir_operand_mem(u->in + u->done, u->len - u->done),
			    sectors ? (const void *)&u->xts :
				      (const void *)&u->codec);
	err = weir_job_start(cp->dma, &u->first);
	u->in_job = !err;
	if (err)
		end_step(u, err);
}

static void on_cancel(struct weir_op *op, void *arg)
{
	struct unit *u = arg, **at;

	(void)op;
	if (u->in_job || u->in_part) {
		weir_op_cancel(u->in_job ? &u->first.op : &u->part);
		return;
	}
	for (at = &u->file->turns; *at != u; at = &(*at)->next)
		;
	*at = u->next;
	end_step(u, -ECANCELED);
}

static int convert_block(struct weir_chain *chain, uint32_t step,
			 struct weir_op *op, void *arg)
{
	struct unit *u = weir_slot_data(weir_chain_ctx(chain));
	struct weir_chain_step read = { .size = sizeof(read) };
	struct flow *flow = arg;
	struct file *f = u->file;
	int err;

	(void)step;
	weir_chain_get_step(chain, STEP_READ, &read);
	if (!f->err && (uint64_t)read.res < u->len)
		f->ended_early = true;
	if (has_failed(f))
		return -ECANCELED;
	err = weir_op_start(flow->cp->reactor, op, on_cancel, u);
	if (err)
		return err;
	u->op = op;
	if (by_sectors(f->cp) || f->turn == u->off) {
		convert_next(u);
		return 0;
	}
	u->next = f->turns;
	f->turns = u;
	return 0;
}

static int write_block(struct weir_chain *chain, uint32_t step,
		       struct weir_op *op, void *arg)
{
	struct unit *u = weir_slot_data(weir_chain_ctx(chain));
	struct flow *flow = arg;

	(void)step;
	return u->n_out ? weir_write(flow->cp->reactor, op, u->file->dst,
				     u->out, u->n_out, u->out_off) : 1;
}

int convert_build(struct weir_slot *slot, void *arg)
{
	struct weir_chain *chain = weir_slot_chain(slot);
	int step = weir_chain_add_op(chain, WEIR_CHAIN_FIRST, read_block, arg);

	if (step >= 0)
		step = weir_chain_add_op(chain, step, convert_block, arg);
	if (step >= 0)
		step = weir_chain_add_op(chain, step, write_block, arg);
	return step < 0 ? step : 0;
}

/* @u, a block of its file, is to pass through @slot. */
void convert_set(struct weir_slot *slot, struct unit *u)
{
	struct file *f = u->file;
	uint64_t size = (uint64_t)f->st.st_size;

	u->in = weir_buf_addr(weir_slot_buf(slot));
	u->out = by_sectors(f->cp) ? u->in : u->in + f->cp->opts.block;
	u->done = u->n_out = 0;
	u->in_job = u->in_part = u->write_failed = false;
	u->xts = (struct weir_xts_args){ f->cp->xts, u->off / 512 };
	u->codec = (struct weir_codec_args){
		.codec = f->codec,
		.flags = WEIR_CODEC_FILL |
			 (u->off + u->len < size ? WEIR_CODEC_MORE : 0),
	};
}

/* @u has ended, with a failure of its file perhaps.  Returns what failed. */
const char *convert_failed(struct weir_slot *slot, const struct unit *u,
			   int err)
{
	int step = weir_chain_failed_step(weir_slot_chain(slot));

	if (step == STEP_READ)
		return "read";
	if (step == STEP_WRITE || u->write_failed)
		return "write the copy of";
	return err == -EBADMSG ? "is damaged or cut off" : "convert";
}

/* No block of @f will come after @u any more, or it has failed. */
void convert_done(struct unit *u)
{
	struct file *f = u->file;

	if (has_failed(f)) {
		pass_turn(f);
	} else if (f->in_flight == 0 && !f->queued) {
		f->data = f->written;
		f->st.st_size = (off_t)f->written;
		f->scanned = f->written;
	}
}
