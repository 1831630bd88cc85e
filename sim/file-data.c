/* SPDX-License-Identifier: BSD-3-Clause */
/* What is in a simulated file: chunks, of what was ever written. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/file.h"

static const unsigned char zeros[CHUNK];

struct inode *inode_make(struct sim_files *files, enum inode_kind kind,
			 uint32_t mode)
{
	struct inode *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->files = files;
	i->kind = kind;
	i->mode = mode;
	i->refs = 1;
	i->number = 2 + files->n_inodes++;
	i->align = SECTOR;
	i->changed_ns = files->sim->now_ns;
	i->dirty_last = &i->dirty;
	i->pprev = files->inodes_last;
	*files->inodes_last = i;
	files->inodes_last = &i->next;
	return i;
}

void inode_get(struct inode *i)
{
	i->refs++;
}

static void chunk_free(struct chunk *c)
{
	free(c->old);
	free(c->mid);
	free(c);
}

void inode_put(struct inode *i)
{
	if (--i->refs)
		return;
	*i->pprev = i->next;
	if (i->next)
		i->next->pprev = i->pprev;
	else
		i->files->inodes_last = i->pprev;
	for (uint32_t n = 0; n < i->n_chunks; n++)
		chunk_free(i->chunks[n]);
	ranges_fini(&i->held);
	ranges_fini(&i->bad[0]);
	ranges_fini(&i->bad[1]);
	free(i->chunks);
	free(i);
}

uint32_t inode_place(const struct inode *i, uint64_t index)
{
	uint32_t low = 0, high = i->n_chunks, mid;

	/* Most files are written from the beginning to the end. */
	if (high && i->chunks[high - 1]->index < index)
		return high;
	while (low < high) {
		mid = low + (high - low) / 2;
		if (i->chunks[mid]->index < index)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct chunk *inode_chunk(const struct inode *i, uint64_t index)
{
	uint32_t at = inode_place(i, index);

	return at < i->n_chunks && i->chunks[at]->index == index ?
		       i->chunks[at] : NULL;
}

static bool grow(struct inode *i)
{
	uint32_t max = i->max_chunks ? 2 * i->max_chunks : 4;
	struct chunk **chunks;

	if (i->n_chunks < i->max_chunks)
		return true;
	chunks = realloc(i->chunks, max * sizeof(struct chunk *));
	if (!chunks)
		return false;
	i->chunks = chunks;
	i->max_chunks = max;
	return true;
}

struct chunk *inode_need(struct inode *i, uint64_t index)
{
	uint32_t at = inode_place(i, index);
	struct chunk *c;

	if (at < i->n_chunks && i->chunks[at]->index == index)
		return i->chunks[at];
	c = grow(i) ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return NULL;
	c->index = index;
	memmove(i->chunks + at + 1, i->chunks + at,
		(i->n_chunks - at) * sizeof(struct chunk *));
	i->chunks[at] = c;
	i->n_chunks++;
	return c;
}

void inode_compact(struct inode *i)
{
	struct chunk *c;
	uint32_t kept = 0;

	for (uint32_t n = 0; n < i->n_chunks; n++) {
		c = i->chunks[n];
		if (!c->listed && !c->old && !memcmp(c->now, zeros, CHUNK))
			chunk_free(c);
		else
			i->chunks[kept++] = c;
	}
	i->n_chunks = kept;
	i->zeroed = false;
}

static uint64_t part_of(uint64_t off, uint64_t len)
{
	uint64_t n = CHUNK - off % CHUNK;

	return n < len ? n : len;
}

void inode_read(const struct inode *i, const struct io_step *step,
		uint64_t len, uint64_t off)
{
	const struct chunk *c;
	uint64_t done, n;

	for (done = 0; done < len; done += n) {
		n = part_of(off + done, len - done);
		c = inode_chunk(i, (off + done) / CHUNK);
		sim_step_fill(step, done, c ? c->now + (off + done) % CHUNK :
					      zeros, n);
	}
}

int64_t inode_write(struct inode *i, const struct io_step *step, uint64_t len,
		    uint64_t off)
{
	struct chunk *c;
	uint64_t done, n, at;

	for (done = 0; done < len; done += n) {
		at = (off + done) % CHUNK;
		n = part_of(off + done, len - done);
		c = inode_need(i, (off + done) / CHUNK);
		if (!c || chunk_touch(i, c, (uint32_t)(at / SECTOR),
				      (uint32_t)((at + n - 1) / SECTOR)))
			return done ? (int64_t)done : -ENOMEM;
		sim_step_drain(step, done, c->now + at, n);
	}
	i->changed_ns = i->files->sim->now_ns;
	return (int64_t)len;
}

int inode_zero(struct inode *i, uint64_t from, uint64_t to)
{
	uint64_t begin, end;
	struct chunk *c;

	for (uint32_t n = inode_place(i, from / CHUNK); n < i->n_chunks; n++) {
		c = i->chunks[n];
		begin = c->index * CHUNK;
		if (begin >= to)
			break;
		end = begin + CHUNK < to ? CHUNK : to - begin;
		begin = begin < from ? from - begin : 0;
		if (chunk_touch(i, c, (uint32_t)(begin / SECTOR),
				(uint32_t)((end - 1) / SECTOR)))
			return -ENOMEM;
		memset(c->now + begin, 0, end - begin);
		i->zeroed = true;
	}
	i->changed_ns = i->files->sim->now_ns;
	return 0;
}

int inode_resize(struct inode *i, uint64_t size)
{
	int err = 0;

	if (size == i->size)
		return 0;
	if (size < i->size)
		err = inode_zero(i, size, i->size);
	if (!err && size < i->size)
		err = ranges_del(&i->held, size, UINT64_MAX);
	if (err)
		return err;
	/* Of the sizes in between, each is as likely. */
	if (i->resized && !sim_below(&i->files->rng, i->resized))
		i->size_mid = i->size;
	i->resized++;
	i->size = size;
	i->changed_ns = i->files->sim->now_ns;
	return 0;
}
