/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Where a file has data and where it has holes, some extents at a time: a file
 * may have millions.  Finding out may read from the disk, so it is done on a
 * worker.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <unistd.h>

#include <weir/crc32c.h>

#include "weir-cp.h"

/* Fewer blocks than its size needs: it may have holes. */
bool file_is_sparse(const struct file *f)
{
	return (uint64_t)f->st.st_blocks * 512 < (uint64_t)f->st.st_size;
}

/* The CRC of @len zeros, by doubling. */
static uint32_t crc_of_zeros(uint64_t len)
{
	static const uint8_t zero;
	uint32_t all = 0, power = weir_crc32c(0, &zero, 1);
	uint64_t n;

	for (n = 1; len; n <<= 1) {
		if (len & n) {
			all = weir_crc32c_combine(all, power, n);
			len &= ~n;
		}
		power = weir_crc32c_combine(power, power, n);
	}
	return all;
}

/* CRCs are linear: what a part adds does not depend on the others. */
static void add_hole(struct file *f, uint64_t off, uint64_t end)
{
	if (f->cp->opts.checksum && !f->comparing && end > off)
		f->crc ^= weir_crc32c_combine(crc_of_zeros(end - off), 0,
					      (uint64_t)f->st.st_size - end);
}

/* The next data of @fd from @pos on; all to the end where the file system
 * cannot tell. */
static int next_data(const struct file *f, int fd, uint64_t pos,
		     struct extent *ret)
{
	uint64_t size = (uint64_t)f->st.st_size;
	off_t off = lseek(fd, (off_t)pos, SEEK_DATA);
	off_t end;

	if (off < 0 && errno == ENXIO) {
		ret->off = ret->end = size;
		return 0;
	}
	if (off < 0 && errno == EINVAL) {
		ret->off = pos;
		ret->end = size;
		return 0;
	}
	if (off < 0)
		return -errno;
	end = lseek(fd, off, SEEK_HOLE);
	if (end < 0)
		return -errno;
	ret->off = (uint64_t)off < size ? (uint64_t)off : size;
	ret->end = (uint64_t)end < size ? (uint64_t)end : size;
	return 0;
}

/*
 * The next extent to be moved.  When comparing it is what either side has: data
 * in the copy where the source has a hole must be found.
 */
static int next_extent(struct file *f, uint64_t pos, struct extent *ret)
{
	struct extent other;
	int err = next_data(f, f->src, pos, ret);

	if (err || !f->comparing)
		return err;
	err = next_data(f, f->dst, pos, &other);
	if (err || other.off > ret->off)
		return err;
	if (other.off < ret->off)
		*ret = other;
	else if (other.end > ret->end)
		ret->end = other.end;
	return 0;
}

void file_begin_pass(struct file *f)
{
	f->n_ext = f->cur_ext = 0;
	f->scanned = 0;
	if (!f->comparing) {
		f->written = 0;
		f->crc = 0;
	}
	if (file_is_sparse(f))
		return;
	f->ext[0] = (struct extent){ 0, (uint64_t)f->st.st_size };
	f->scanned = f->ext[0].end;
	f->n_ext = f->scanned > 0;
}

/* Find some extents.  Returns how many there are, or a negative errno. */
int file_scan(struct file *f)
{
	uint64_t size = (uint64_t)f->st.st_size;
	int err;

	if (f->cur_ext == f->n_ext)
		f->cur_ext = f->n_ext = 0;
	while (f->scanned < size && f->n_ext < EXTENTS_MAX) {
		struct extent *e = &f->ext[f->n_ext];

		err = next_extent(f, f->scanned, e);
		if (err)
			return file_wrong(f, "find the holes of", err);
		add_hole(f, f->scanned, e->off);
		f->scanned = e->end;
		if (e->off < e->end)
			f->n_ext++;
	}
	return (int)f->n_ext;
}

int64_t file_scan_work(void *arg)
{
	return file_scan(arg);
}
