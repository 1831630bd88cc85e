/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A file whose size says nothing, as in /proc and /sys, or one that has become
 * shorter while it was copied: read from its beginning to wherever it ends.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/crc32c.h>

#include "weir-cp.h"

#define CHUNK (128u << 10)

static int write_all(int fd, const char *buf, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		buf += n;
		len -= (size_t)n;
	}
	return 0;
}

static int pass_on(struct file *f, int in, int out, char *buf)
{
	uint64_t total = 0;
	ssize_t n;

	f->crc = 0;
	while ((n = read(in, buf, CHUNK)) != 0) {
		if (atomic_load(&f->cp->stop))
			return file_wrong(f, NULL, -ECANCELED);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_wrong(f, "read", -errno);
		if (write_all(out, buf, (size_t)n))
			return file_wrong(f, "write the copy of", -errno);
		if (f->cp->opts.checksum)
			f->crc = weir_crc32c(f->crc, buf, (size_t)n);
		total += (uint64_t)n;
	}
	f->st.st_size = (off_t)total;
	f->scanned = f->written = f->data = total;
	return 0;
}

/* Returns 0, or a negative errno. */
int file_stream(struct file *f)
{
	int in = f->src_buffered >= 0 ? f->src_buffered : f->src;
	int out = f->dst_buffered >= 0 ? f->dst_buffered : f->dst;
	char *buf = malloc(CHUNK);
	int err = 0;

	if (!buf)
		return file_wrong(f, "copy", -ENOMEM);
	f->n_ext = f->cur_ext = 0;
	if (lseek(in, 0, SEEK_SET) < 0)
		err = file_wrong(f, "read", -errno);
	else if (lseek(out, 0, SEEK_SET) < 0 || ftruncate(out, 0))
		err = file_wrong(f, "write the copy of", -errno);
	else
		err = pass_on(f, in, out, buf);
	free(buf);
	return err;
}

int64_t file_stream_work(void *arg)
{
	return file_stream(arg);
}
