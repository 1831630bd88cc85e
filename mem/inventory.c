/* SPDX-License-Identifier: BSD-3-Clause */
/* Inventories: sets of descriptors, for any mmap that is attached. */

#include <errno.h>
#include <stdlib.h>

#include <weir/inventory.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/buf-internal.h"
#include "mem/tags.h"
#include "reactor/stats/page.h"

#define BUFS_DEFAULT 1024
#define BUFS_MAX (1u << 24)
#define MMAPS_DEFAULT 16
#define MMAPS_MAX 4096

/* Descriptors that were allocated together. */
struct slab {
	struct weir_buf *bufs;
	uint32_t n;
	struct slab *next;
};

struct weir_inventory {
	struct buf_free_list free_list;
	struct mmap_link *last;	/* The link of the last request. */
	uint32_t n_links;
	struct mmap_link *links;	/* Links; one with .use NULL is free. */
	struct slab *slabs;
	struct stats_item item;
	struct reactor_obj obj;
};

static const struct stats_field stats_fields[] = {
	STATS_NOW("total", "Descriptors of bufs"),
	STATS_NOW("free", "Descriptors that are free"),
	STATS_NOW("out", "Descriptors that users hold"),
};
STATS_FITS(stats_fields, struct weir_inventory_stats, total);

static const struct stats_kind stats_kind =
	STATS_KIND("inventory", stats_fields);

static void publish(struct stats_item *item, uint64_t now)
{
	struct weir_inventory_stats stats = { .size = sizeof(stats) };

	weir_inventory_stats(weir_container_of(item, struct weir_inventory,
					       item), &stats);
	stats_put(item->record, now, &stats.total);
}

static int load_opts(struct weir_inventory_opts *opts,
		     const struct weir_inventory_opts *user)
{
	int err = opts_load(opts, sizeof(*opts), user,
			    "weir_inventory_create");

	if (err)
		return err;
	if (opts->bufs > BUFS_MAX || opts->mmaps > MMAPS_MAX)
		return why(-EINVAL, "weir_inventory_create: .bufs is at most "
			   "%u, .mmaps %u", BUFS_MAX, MMAPS_MAX);
	if (!opts->bufs)
		opts->bufs = BUFS_DEFAULT;
	if (!opts->mmaps)
		opts->mmaps = MMAPS_DEFAULT;
	return 0;
}

static void inventory_free(struct weir_inventory *inv)
{
	struct slab *slab;

	while ((slab = inv->slabs)) {
		inv->slabs = slab->next;
		free(slab->bufs);
		free(slab);
	}
	free(inv->links);
	free(inv);
}

/* Add @n descriptors: 0 or -ENOMEM. */
static int add_slab(struct weir_inventory *inv, uint32_t n)
{
	struct slab *slab = mem_calloc(1, sizeof(*slab));

	debug_check(n > 0 && n <= BUFS_MAX);
	if (!slab)
		return -ENOMEM;
	slab->bufs = free_list_alloc_bufs(&inv->free_list, n);
	if (!slab->bufs) {
		free(slab);
		return -ENOMEM;
	}
	slab->n = n;
	slab->next = inv->slabs;
	inv->slabs = slab;
	inv->free_list.total += n;
	while (n--)
		free_list_push(&inv->free_list, &slab->bufs[n]);
	return 0;
}

int weir_inventory_create(struct weir_inventory **ret, struct weir_reactor *r,
			  const struct weir_inventory_opts *user)
{
	struct weir_inventory_opts opts;
	struct weir_inventory *inv;
	int err;

	err = load_opts(&opts, user);
	if (err)
		return err;
	inv = mem_calloc(1, sizeof(*inv));
	if (!inv)
		return why(-ENOMEM, "weir_inventory_create: no memory");
	free_list_init(&inv->free_list, r);
	inv->links = mem_calloc(opts.mmaps, sizeof(*inv->links));
	if (!inv->links || add_slab(inv, opts.bufs))
		err = why(-ENOMEM, "weir_inventory_create: no memory for %u "
			  "bufs", opts.bufs);
	if (!err)
		err = reactor_attach(r, &inv->obj, "weir_inventory");
	if (err) {
		inventory_free(inv);
		return err;
	}
	inv->n_links = opts.mmaps;
	inv->last = inv->links;
	stats_item_add(r, &inv->item, &stats_kind, publish, 0, "");
	*ret = inv;
	return 0;
}

int weir_inventory_expand(struct weir_inventory *inv, uint32_t n)
{
	reactor_check_thread(inv->free_list.r);
	if (n > BUFS_MAX - inv->free_list.total)
		return why(-EINVAL,
			   "weir_inventory_expand: %u bufs and %u more "
			   "are more than %u",
			   (unsigned int)inv->free_list.total, n, BUFS_MAX);
	if (n && add_slab(inv, n))
		return why(-ENOMEM, "weir_inventory_expand: no memory for %u "
			   "bufs", n);
	return 0;
}

static void count_tags(const struct weir_inventory *inv, struct tags *tags)
{
	const struct slab *slab;
	uint32_t i;

	for (slab = inv->slabs; slab; slab = slab->next)
		for (i = 0; i < slab->n; i++)
			if (slab->bufs[i].state != BUF_FREE)
				tags_add(tags, &slab->bufs[i]);
}

static int refuse_out(const struct weir_inventory *inv)
{
	struct tags tags = { 0 };

	debug_check(inv->free_list.n_free < inv->free_list.total);
	count_tags(inv, &tags);
	return why(-EBUSY, "weir_inventory_destroy: %llu bufs are out%s",
		   (unsigned long long)(inv->free_list.total -
					inv->free_list.n_free),
		   tags_text(&tags));
}

int weir_inventory_destroy(struct weir_inventory *inv)
{
	uint32_t i;

	if (!inv)
		return 0;
	reactor_check_thread(inv->free_list.r);
	free_list_collect(&inv->free_list);
	if (inv->free_list.n_free != inv->free_list.total)
		return refuse_out(inv);
	free_list_fini(&inv->free_list);
	for (i = 0; i < inv->n_links; i++)
		if (inv->links[i].use)
			mmap_detach(&inv->links[i]);
	stats_item_del(&inv->item);
	reactor_detach(&inv->obj);
	inventory_free(inv);
	return 0;
}

static inline bool is_of(const struct mmap_link *link,
			 const struct weir_mmap *mmap)
{
	return link->use && link->use->mmap == mmap;
}

static struct mmap_link *search_link(struct weir_inventory *inv,
				     const struct weir_mmap *mmap)
{
	uint32_t i;

	for (i = 0; i < inv->n_links; i++)
		if (is_of(&inv->links[i], mmap))
			return inv->last = &inv->links[i];
	return NULL;
}

static inline struct mmap_link *find_link(struct weir_inventory *inv,
					  const struct weir_mmap *mmap)
{
	if (likely(is_of(inv->last, mmap)))
		return inv->last;
	return search_link(inv, mmap);
}

int weir_inventory_attach(struct weir_inventory *inv, struct weir_mmap *mmap)
{
	uint32_t i;

	if (find_link(inv, mmap))
		return 0;
	for (i = 0; i < inv->n_links && inv->links[i].use; i++)
		;
	if (i == inv->n_links)
		return why(-ENOSPC, "weir_inventory_attach: %u mmaps are "
			   "attached; see .mmaps of weir_inventory_opts",
			   inv->n_links);
	return mmap_attach(mmap, inv->free_list.r, &inv->links[i], true,
			   "weir_inventory_attach");
}

/* Bufs are counted by mmap and reactor, not by inventory, so this walks over
 * the inventory's own bufs that are out. */
static bool has_out(const struct weir_inventory *inv,
		    const struct mmap_use *use)
{
	const struct slab *slab;
	uint32_t i;

	for (slab = inv->slabs; slab; slab = slab->next)
		for (i = 0; i < slab->n; i++)
			if (slab->bufs[i].state != BUF_FREE &&
			    slab->bufs[i].use == use)
				return true;
	return false;
}

int weir_inventory_detach(struct weir_inventory *inv, struct weir_mmap *mmap)
{
	struct mmap_link *link = find_link(inv, mmap);

	if (!link)
		return why(-ENOENT,
			   "weir_inventory_detach: the mmap is not attached");
	if (has_out(inv, link->use))
		return why(-EBUSY,
			   "weir_inventory_detach: bufs of the mmap are out");
	mmap_detach(link);
	return 0;
}

/* For an address before @base the offset wraps, and is beyond any size. */
static inline bool inside(const char *base, size_t size, const char *p,
			  size_t len)
{
	size_t off = (size_t)(p - base);

	if (mutation(off_by_one))
		size++;
	return off <= size && len <= size - off;
}

/* All checks have passed, and a descriptor is free. */
static inline struct weir_buf *take(struct weir_inventory *inv,
				    const struct mmap_link *link, char *addr,
				    size_t len, char *data, size_t data_len)
{
	struct weir_buf *buf = free_list_pop(&inv->free_list);

	debug_check(link->use);
	buf->addr = addr;
	buf->len = len;
	buf->data = data;
	buf->data_len = data_len;
	buf->use = link->use;
	buf->index = mmap_use_index(link->use, addr, len);
	buf_out(buf);
	return buf;
}

static int refuse_none(void)
{
	return why_static(-EAGAIN, "the inventory has no descriptor left; put "
			  "a buf, or see weir_inventory_expand()");
}

static int refuse_mmap(int err, bool get)
{
	if (err == -ESTALE)
		return why_static(err, get ? "weir_inventory_get: the exporter "
					     "of the mmap has revoked it" :
					     "weir_inventory_dup: the exporter "
					     "of a buf's mmap has revoked it");
	return why_static(err, get ? "weir_inventory_get: the mmap is not "
				     "started" :
				     "weir_inventory_dup: the mmap of a buf is "
				     "not started");
}

/* The rest of weir_inventory_get(), of an mmap that may be used. */
static inline int get(struct weir_buf **ret, struct weir_inventory *inv,
		      struct mmap_link *link, void *addr, size_t len,
		      void *data, size_t data_len)
{
	const struct weir_mmap *mmap = link->use->mmap;

	if (!data)
		data = addr;
	if (unlikely(!inside(mmap->addr, mmap->len, addr, len) ||
		     !inside(addr, len, data, data_len)))
		return why_static(-ERANGE, "weir_inventory_get: the bytes are "
				  "not within the mmap, or the data not "
				  "within the bytes");
	if (unlikely(!inv->free_list.free))
		return refuse_none();
	*ret = take(inv, link, addr, len, data, data_len);
	return 0;
}

/* By itself, so that others need not save registers for its calls. */
__attribute__((noinline)) static int get_after_look(
	struct weir_buf **ret, struct weir_inventory *inv,
	struct mmap_link *link, void *addr, size_t len, void *data,
	size_t data_len)
{
	int err = mmap_may_take(link->use->mmap);

	return err ? refuse_mmap(err, true) :
		     get(ret, inv, link, addr, len, data, data_len);
}

int weir_inventory_get(struct weir_buf **ret, struct weir_inventory *inv,
		       struct weir_mmap *mmap, void *addr, size_t len,
		       void *data, size_t data_len)
{
	struct mmap_link *link;

	reactor_check_thread(inv->free_list.r);
	if (!len)
		return why_static(-EINVAL, "weir_inventory_get: a buf has at "
				  "least one byte");
	link = find_link(inv, mmap);
	if (unlikely(!link))
		return why_static(-ENOENT, "weir_inventory_get: the mmap is "
				  "not attached; see weir_inventory_attach()");
	if (unlikely(!mmap_is_started(mmap) || !mmap_is_fresh(mmap)))
		return get_after_look(ret, inv, link, addr, len, data,
				      data_len);
	return get(ret, inv, link, addr, len, data, data_len);
}

static int may_dup(struct weir_inventory *inv, const struct weir_buf *src)
{
	uint64_t n = 0;
	int err;

	if (src->state != BUF_HEAD)
		return why_static(-EPERM, "weir_inventory_dup: the buf is a "
				  "member of a list; name the head");
	for (; src; src = src->next, n++) {
		if (!find_link(inv, src->use->mmap))
			return why_static(-ENOENT, "weir_inventory_dup: the mmap of a "
					  "buf is not attached");
		err = mmap_may_take(src->use->mmap);
		if (err)
			return refuse_mmap(err, false);
	}
	return n > inv->free_list.n_free ? refuse_none() : 0;
}

int weir_inventory_dup(struct weir_buf **ret, struct weir_inventory *inv,
		       const struct weir_buf *src)
{
	struct weir_buf *head = NULL, *buf;
	int err;

	reactor_check_thread(inv->free_list.r);
	err = may_dup(inv, src);
	if (err)
		return err;
	for (; src; src = src->next) {
		buf = take(inv, find_link(inv, src->use->mmap), src->addr,
			   src->len, src->data, src->data_len);
		if (!head)
			head = buf;
		else
			check(!weir_buf_chain(head, buf));
	}
	*ret = head;
	return 0;
}

int weir_inventory_stats(const struct weir_inventory *inv,
			 struct weir_inventory_stats *ret)
{
	struct weir_inventory_stats stats = {
		.size = sizeof(stats),
		.total = inv->free_list.total,
		.free = inv->free_list.n_free,
		.out = inv->free_list.total - inv->free_list.n_free,
	};

	return opts_give(ret, &stats, sizeof(stats), "weir_inventory_stats");
}
