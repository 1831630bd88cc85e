/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of files in a world: chunks, which of them are durable, and what a
 * power cut keeps. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <weir/crc32c.h>

#include "sim/file.h"

/* Sets of bytes of a file: those that take space, and those that are bad. */

/* The first range that ends after @off. */
static uint32_t place(const struct ranges *set, uint64_t off)
{
	uint32_t low = 0, high = set->n, mid;

	debug_check(!set->n || set->at);
	while (low < high) {
		mid = low + (high - low) / 2;
		if (set->at[mid].to <= off)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int reserve(struct ranges *set)
{
	uint32_t max = set->max ? 2 * set->max : 4;
	struct range *at;

	debug_check(set->n <= set->max);
	if (set->n < set->max)
		return 0;
	at = realloc(set->at, max * sizeof(*at));
	if (!at)
		return -ENOMEM;
	set->at = at;
	set->max = max;
	return 0;
}

/* Replace @n ranges from @i on by @by, which are 0 or 1. */
static void replace(struct ranges *set, uint32_t i, uint32_t n,
		    const struct range *by)
{
	uint32_t one = by ? 1 : 0;

	debug_check(i + n <= set->n);
	memmove(set->at + i + one, set->at + i + n,
		(set->n - i - n) * sizeof(*set->at));
	if (by)
		set->at[i] = *by;
	set->n = set->n - n + one;
}

int ranges_add(struct ranges *set, uint64_t from, uint64_t to)
{
	struct range whole = { from, to };
	uint32_t i, end;

	if (from >= to)
		return 0;
	if (reserve(set))
		return -ENOMEM;
	i = from ? place(set, from - 1) : 0;
	for (end = i; end < set->n && set->at[end].from <= to; end++) {
		if (set->at[end].from < whole.from)
			whole.from = set->at[end].from;
		if (set->at[end].to > whole.to)
			whole.to = set->at[end].to;
	}
	replace(set, i, end - i, &whole);
	return 0;
}

int ranges_del(struct ranges *set, uint64_t from, uint64_t to)
{
	struct range after;
	uint32_t i, end;

	if (from >= to)
		return 0;
	if (reserve(set))
		return -ENOMEM;
	i = place(set, from);
	if (i < set->n && set->at[i].from < from) {
		after = (struct range){ to, set->at[i].to };
		set->at[i++].to = from;
		if (after.to > to) {
			replace(set, i, 0, &after);
			return 0;
		}
	}
	for (end = i; end < set->n && set->at[end].to <= to; end++)
		;
	if (end < set->n && set->at[end].from < to)
		set->at[end].from = to;
	replace(set, i, end - i, NULL);
	return 0;
}

uint64_t ranges_in(const struct ranges *set, uint64_t from, uint64_t to)
{
	const struct range *r;
	uint64_t sum = 0;

	for (uint32_t i = place(set, from); i < set->n; i++) {
		r = &set->at[i];
		if (r->from >= to)
			break;
		sum += (r->to < to ? r->to : to) -
		       (r->from > from ? r->from : from);
	}
	return sum;
}

uint64_t ranges_first(const struct ranges *set, uint64_t from, uint64_t to)
{
	uint32_t i = place(set, from);

	if (i == set->n || set->at[i].from >= to)
		return to;
	return set->at[i].from > from ? set->at[i].from : from;
}

uint64_t ranges_capacity(const struct ranges *set, uint64_t from, uint64_t to,
			 uint64_t capacity)
{
	uint64_t next;

	for (uint32_t i = place(set, from); from < to; i++) {
		next = i < set->n ? set->at[i].from : to;
		if (next > to)
			next = to;
		if (next > from && next - from > capacity)
			return from + capacity;
		if (next > from)
			capacity -= next - from;
		from = i < set->n ? set->at[i].to : to;
	}
	return to;
}

static void ranges_fini(struct ranges *set)
{
	free(set->at);
	*set = (struct ranges){ 0 };
}

/*
 * Which data of a simulated file are durable.  A sector is
 *
 *	clean --> dirty --> clean	a sync
 *	            |  \
 *	  a write ^ |   +-> clean	a sync that failed for other sectors
 *	            v
 *	           lost			a sync that failed for this sector: only
 *					the cache has it; no sync writes it
 */

static const unsigned char zeros[CHUNK];

/* Remember the medium's sector @s, which is what readers see now. */
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

/* A state that is neither the first nor the last: keep it, or the present
 * one. */
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

/* Sectors @first to @last are about to be written.  0 or -ENOMEM. */
static int chunk_touch(struct inode *i, struct chunk *c, uint32_t first,
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

/* Call @fn for every dirty sector in [@from, @to), which then is not dirty any
 * more. */
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

static void inode_compact(struct inode *i);

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

/* Draw what a power cut keeps of a file: nothing, all, or a draw for each
 * sector. */
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

/* Drop the data that no sync has saved, and those beyond the end. */
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

/* The space that a file takes is that of its data, in whole chunks. */
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

/* The chunks of a simulated file, for data that were written. */


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

static uint32_t inode_place(const struct inode *i, uint64_t index)
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

/* Remove chunks that are clean and contain only zeros. */
static void inode_compact(struct inode *i)
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

int inode_flip(struct inode *i, uint64_t off, unsigned char mask)
{
	struct chunk *c = inode_need(i, off / CHUNK);

	if (!c)
		return -ENOMEM;
	off %= CHUNK;
	c->now[off] ^= mask;
	if (c->old)
		c->old[off] ^= mask;
	if (c->mid && c->writes[off / SECTOR] > 1)
		c->mid[off] ^= mask;
	return 0;
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
		sim_mix(i->files->sim, weir_crc32c(0, c->now + at, n));
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
	/* Each of the sizes in between is equally likely. */
	if (i->resized && !sim_below(&i->files->rng, i->resized))
		i->size_mid = i->size;
	i->resized++;
	i->size = size;
	i->changed_ns = i->files->sim->now_ns;
	return 0;
}
