/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of a simulated file is durable.  A sector is
 *
 *	clean --> dirty --> clean	a sync
 *	            |  \
 *	  a write ^ |   +-> clean	a sync that failed, but not for it
 *	            v
 *	           lost			and for it: the cache has it, no sync
 *					will write it
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/file.h"

static const unsigned char zeros[CHUNK];

/* The medium's sector @s is what a reader sees now: remember it. */
static int save_old(struct chunk *c, uint32_t s)
{
	const unsigned char *now = c->now + s * SECTOR;

	if (!c->old) {
		if (!memcmp(now, zeros, SECTOR))
			return 0;
		c->old = calloc(1, CHUNK);
		if (!c->old)
			return -ENOMEM;
	}
	memcpy(c->old + s * SECTOR, now, SECTOR);
	return 0;
}

/* A state that is neither the first nor the last: keep it, or another. */
static int save_mid(struct inode *i, struct chunk *c, uint32_t s)
{
	if (!c->mid)
		c->mid = malloc(CHUNK);
	if (!c->mid)
		return -ENOMEM;
	if (!sim_below(&i->files->rng, c->writes[s]))
		memcpy(c->mid + s * SECTOR, c->now + s * SECTOR, SECTOR);
	return 0;
}

static int touch(struct inode *i, struct chunk *c, uint32_t s)
{
	uint8_t bit = (uint8_t)(1u << s);
	int err = 0;

	if (c->dirty & bit)
		err = save_mid(i, c, s);
	else if (!(c->lost & bit))
		err = save_old(c, s);
	if (err)
		return err;
	if (!(c->dirty & bit))
		c->writes[s] = 0;
	c->writes[s]++;
	c->dirty |= bit;
	c->lost &= (uint8_t)~bit;
	return 0;
}

int chunk_touch(struct inode *i, struct chunk *c, uint32_t first,
		uint32_t last)
{
	int err = 0;

	for (uint32_t s = first; s <= last && !err; s++)
		err = touch(i, c, s);
	if (c->dirty && !c->listed) {
		c->listed = true;
		c->dirty_next = NULL;
		*i->dirty_last = c;
		i->dirty_last = &c->dirty_next;
	}
	return err;
}

/* Call @fn with every dirty sector in [@from, @to): it is that no more. */
static void each_dirty(struct inode *i, uint64_t from, uint64_t to,
		       void (*fn)(struct inode *i, struct chunk *c, uint32_t s,
				  void *arg), void *arg)
{
	struct chunk *c, *next = i->dirty;
	uint64_t off;

	i->dirty = NULL;
	i->dirty_last = &i->dirty;
	while ((c = next)) {
		next = c->dirty_next;
		for (uint32_t s = 0; s < SECTORS; s++) {
			off = c->index * CHUNK + s * SECTOR;
			if (!(c->dirty >> s & 1) || off + SECTOR <= from ||
			    off >= to)
				continue;
			c->dirty &= (uint8_t)~(1u << s);
			fn(i, c, s, arg);
		}
		c->listed = c->dirty;
		if (c->listed) {
			c->dirty_next = NULL;
			*i->dirty_last = c;
			i->dirty_last = &c->dirty_next;
			continue;
		}
		free(c->mid);
		c->mid = NULL;
		if (c->lost)
			continue;
		free(c->old);
		c->old = NULL;
	}
}

static void save(struct inode *i, struct chunk *c, uint32_t s, void *arg)
{
	uint64_t off = c->index * CHUNK + s * SECTOR;
	int *err = arg;

	if (!err ||
	    ranges_first(&i->bad[1], off, off + SECTOR) == off + SECTOR)
		return;
	c->lost |= (uint8_t)(1u << s);
	*err = -EIO;
}

static void sync_range(struct inode *i, uint64_t from, uint64_t to, int *err)
{
	each_dirty(i, from, to, save, err);
	i->size_old = i->size;
	i->resized = 0;
	if (i->zeroed)
		inode_compact(i);
}

int inode_sync(struct inode *i, uint64_t from, uint64_t to)
{
	int err = 0;

	sync_range(i, from, to, &err);
	if (err)
		i->errors++;
	return err;
}

void inode_sync_all(struct inode *i, uint64_t from, uint64_t to)
{
	sync_range(i, from, to, NULL);
}

static void save_or_lose(struct inode *i, struct chunk *c, uint32_t s,
			 void *arg)
{
	struct weir_sim *sim = i->files->sim;
	bool is_lost = sim_rng(&i->files->rng) & 1;

	(void)arg;
	if (is_lost)
		c->lost |= (uint8_t)(1u << s);
	sim_mix(sim, is_lost);
	if (sim_traced(sim))
		sim_trace(sim, "%s: sector %llu is %s", i->name->path,
			  (unsigned long long)(c->index * SECTORS + s),
			  is_lost ? "lost" : "saved");
}

void inode_sync_failed(struct inode *i)
{
	i->errors++;
	each_dirty(i, 0, UINT64_MAX, save_or_lose, NULL);
}

/* What of a power cut is drawn for a file: none, all, or each by itself. */
enum kept {
	KEPT_NONE,
	KEPT_ALL,
	KEPT_SOME,
};

enum state {
	OLD,
	MID,
	NOW,
};

static enum state draw(struct inode *i, enum kept kept, bool has_mid)
{
	enum state state;

	if (kept != KEPT_SOME)
		return kept == KEPT_ALL ? NOW : OLD;
	state = (enum state)sim_below(&i->files->rng, 3);
	if (state == MID && !has_mid)
		state = sim_rng(&i->files->rng) & 1 ? NOW : OLD;
	return state;
}

static void put_back(struct chunk *c, uint32_t s, enum state state)
{
	const unsigned char *from = state == MID ? c->mid : c->old;

	if (state != NOW)
		memcpy(c->now + s * SECTOR, from ? from + s * SECTOR : zeros,
		       SECTOR);
}

static void keep_or_not(struct inode *i, struct chunk *c, uint32_t s, void *arg)
{
	static const char *const names[] = { "old", "in between", "new" };
	enum state state = draw(i, *(enum kept *)arg, c->writes[s] > 1);
	struct weir_sim *sim = i->files->sim;

	put_back(c, s, state);
	sim_mix(sim, c->index * SECTORS + s);
	sim_mix(sim, state);
	if (sim_traced(sim))
		sim_trace(sim, "%s: sector %llu is %s", i->name->path,
			  (unsigned long long)(c->index * SECTORS + s),
			  names[state]);
}

static void cut_size(struct inode *i, enum kept kept)
{
	struct weir_sim *sim = i->files->sim;
	enum state state;

	if (!i->resized)
		return;
	state = draw(i, kept, i->resized > 1);
	if (state != NOW)
		i->size = state == MID ? i->size_mid : i->size_old;
	i->size_old = i->size;
	i->resized = 0;
	sim_mix(sim, i->size);
	if (sim_traced(sim))
		sim_trace(sim, "%s: its size is %llu", i->name->path,
			  (unsigned long long)i->size);
}

/* What no sync has saved is gone, and so is what is beyond the end. */
static void settle(struct inode *i)
{
	uint64_t begin, end;
	struct chunk *c;

	for (uint32_t n = 0; n < i->n_chunks; n++) {
		c = i->chunks[n];
		for (uint32_t s = 0; s < SECTORS; s++)
			if (c->lost >> s & 1)
				put_back(c, s, OLD);
		c->lost = 0;
		free(c->old);
		c->old = NULL;
		begin = c->index * CHUNK;
		end = i->size > begin ? i->size - begin : 0;
		if (end < CHUNK)
			memset(c->now + end, 0, CHUNK - end);
	}
	inode_compact(i);
}

/* Space is what has data now: in whole chunks, for want of better. */
static void cut_space(struct inode *i)
{
	uint64_t begin, end;

	for (uint32_t n = 0; n < i->n_chunks; n++) {
		begin = i->chunks[n]->index * CHUNK;
		end = begin + CHUNK < i->size ? begin + CHUNK : i->size;
		ranges_add(&i->held, begin, end);
	}
	ranges_del(&i->held, i->size, UINT64_MAX);
}

void inode_cut(struct inode *i)
{
	uint64_t n = sim_below(&i->files->rng, 8);
	enum kept kept = n < 2 ? (enum kept)n : KEPT_SOME;

	cut_size(i, kept);
	each_dirty(i, 0, UINT64_MAX, keep_or_not, &kept);
	settle(i);
	if (i->kind == INODE_FILE)
		cut_space(i);
}

void chunk_durable(const struct chunk *c, unsigned char *ret)
{
	uint8_t other = c->dirty | c->lost;

	for (uint32_t s = 0; s < SECTORS; s++) {
		if (!(other >> s & 1))
			memcpy(ret + s * SECTOR, c->now + s * SECTOR, SECTOR);
		else if (c->old)
			memcpy(ret + s * SECTOR, c->old + s * SECTOR, SECTOR);
		else
			memset(ret + s * SECTOR, 0, SECTOR);
	}
}
