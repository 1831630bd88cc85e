/* SPDX-License-Identifier: BSD-3-Clause */
/* Bufs: windows, data and lists.  No path here allocates or blocks. */

#include <errno.h>
#include <sched.h>

#include "base/why.h"
#include "base/alloc.h"
#include "mem/buf-internal.h"
#include "reactor/reactor-internal.h"

static bool is_used(const struct weir_buf *head)
{
	return head->writing || head->readers;
}

int weir_buf_ref(struct weir_buf *buf)
{
	reactor_check_thread(buf->free_list->r);
	if (buf->state != BUF_HEAD)
		return why_static(-EPERM, "weir_buf_ref: the buf is a member "
				  "of a list; name the head");
	if (buf->refs == WEIR_BUF_REFS_MAX)
		return why_static(-EMSGSIZE, "weir_buf_ref: the buf has "
				  "WEIR_BUF_REFS_MAX references");
	buf->refs++;
	return 0;
}

static inline void return_to_owner(struct weir_buf *buf)
{
	struct buf_free_list *free_list = buf->free_list;

	buf->state = BUF_FREE;
	mmap_use_count(buf->use, -1);
	if (free_list->returned)
		free_list->returned(free_list, buf);
	else
		free_list_push(free_list, buf);
}

/* Only for a buf in a list. */
__attribute__((noinline)) static void list_goes_back(struct weir_buf *buf)
{
	struct weir_buf *next;

	for (; buf; buf = next) {
		next = buf->next;
		return_to_owner(buf);
	}
}

/* Drop @n references to the head @buf.  The last one returns the list, whose
 * members have no references. */
static inline void drop(struct weir_buf *buf, unsigned int n)
{
	check(n <= buf->refs);
	buf->refs = (uint16_t)(buf->refs - n);
	if (buf->refs)
		return;
	check(!is_used(buf));
	if (likely(!buf->next))
		return_to_owner(buf);
	else
		list_goes_back(buf);
}

/*
 * The first put sends the buf to its owner; later ones travel with it.  When it
 * has arrived the free list may be freed, but not while a sender still has to
 * wake the reactor.
 */
static void put_from_afar(struct weir_buf *buf)
{
	struct buf_free_list *free_list = buf->free_list;
	struct weir_buf *top;

	atomic_fetch_add(&free_list->senders, 1);
	if (!atomic_fetch_add(&buf->puts, 1)) {
		top = atomic_load(&free_list->arrivals);
		do {
			buf->behind = top;
		} while (!atomic_compare_exchange_weak(&free_list->arrivals,
						       &top, buf));
		deferred_send(&free_list->deferred);
	}
	atomic_fetch_sub(&free_list->senders, 1);
}

/* Once its puts are subtracted, a buf may be sent again. */
void free_list_collect(struct buf_free_list *free_list)
{
	struct weir_buf *buf = atomic_exchange(&free_list->arrivals, NULL);
	struct weir_buf *next;

	for (; buf; buf = next) {
		next = buf->behind;
		drop(buf, atomic_exchange(&buf->puts, 0));
	}
}

static void arrived(struct deferred *deferred)
{
	free_list_collect(
		weir_container_of(deferred, struct buf_free_list, deferred));
}

void free_list_init(struct buf_free_list *free_list, struct weir_reactor *r)
{
	free_list->r = r;
	free_list->thread = r->backend->is_here ? NULL : thread_here();
	deferred_init(&free_list->deferred, r, arrived);
}

void free_list_fini(struct buf_free_list *free_list)
{
	debug_check(free_list->n_free == free_list->total);
	while (atomic_load(&free_list->senders))
		sched_yield();
	deferred_finish(&free_list->deferred);
}

struct weir_buf *free_list_alloc_bufs(struct buf_free_list *free_list, size_t n)
{
	struct weir_buf *bufs = mem_aligned(_Alignof(struct weir_buf),
					    n * sizeof(*bufs));
	size_t i;

	for (i = 0; bufs && i < n; i++)
		bufs[i].free_list = free_list;
	return bufs;
}

/* A function of its own, so that a put on the owner saves no registers for a
 * call. */
__attribute__((noinline)) static void put_elsewhere(struct weir_buf *buf)
{
	struct weir_reactor *r = buf->free_list->r;

	if (!buf->free_list->thread && r->backend->is_here(r))
		drop(buf, 1);
	else
		put_from_afar(buf);
}

void weir_buf_put(struct weir_buf *buf)
{
	if (!buf)
		return;
	check(buf->state == BUF_HEAD);
	if (likely(free_list_is_here(buf->free_list)))
		drop(buf, 1);
	else
		put_elsewhere(buf);
}

uint32_t weir_buf_refs(const struct weir_buf *buf)
{
	return buf->state == BUF_HEAD ? buf->refs : 0;
}

void *weir_buf_addr(const struct weir_buf *buf)
{
	return buf->addr;
}

size_t weir_buf_len(const struct weir_buf *buf)
{
	return buf->len;
}

void *weir_buf_data(const struct weir_buf *buf)
{
	return buf->data;
}

size_t weir_buf_data_len(const struct weir_buf *buf)
{
	return buf->data_len;
}

size_t weir_buf_headroom(const struct weir_buf *buf)
{
	return (size_t)(buf->data - buf->addr);
}

size_t weir_buf_tailroom(const struct weir_buf *buf)
{
	return buf_tailroom(buf);
}

void weir_buf_set_tag(struct weir_buf *buf, const char *tag)
{
	atomic_store_explicit(&buf->tag, tag, memory_order_relaxed);
}

const char *weir_buf_tag(const struct weir_buf *buf)
{
	return atomic_load_explicit(&buf->tag, memory_order_relaxed);
}

struct weir_mmap *weir_buf_mmap(const struct weir_buf *buf)
{
	return buf->use->mmap;
}

/* A member does not know its head, so a job also marks the members of its list,
 * which it visits anyway. */
int weir_buf_set_data(struct weir_buf *buf, void *data, size_t len)
{
	size_t off = (size_t)((char *)data - buf->addr);

	if (is_used(buf))
		return why_static(-EBUSY, "weir_buf_set_data: a job uses the "
				  "buf; wait for its callback");
	if ((char *)data < buf->addr || off > buf->len || len > buf->len - off)
		return why_static(-ERANGE, "weir_buf_set_data: the data are "
				  "not within the buf");
	buf->data = data;
	buf->data_len = len;
	return 0;
}

int weir_buf_reset(struct weir_buf *buf)
{
	return weir_buf_set_data(buf, buf->addr, 0);
}

int weir_buf_chain(struct weir_buf *head, struct weir_buf *tail)
{
	reactor_check_thread(head->free_list->r);
	if (head == tail)
		return why_static(-EINVAL, "weir_buf_chain: a buf cannot "
				  "follow itself");
	if (head->free_list->r != tail->free_list->r)
		return why_static(-EXDEV, "weir_buf_chain: the bufs belong to "
				  "different reactors");
	if (head->state != BUF_HEAD || tail->state != BUF_HEAD)
		return why_static(-EPERM, "weir_buf_chain: one of the bufs is "
				  "a member of a list");
	if (is_used(head) || is_used(tail))
		return why_static(-EBUSY, "weir_buf_chain: a job uses one of "
				  "the lists; wait for its callback");
	if (tail->refs != 1)
		return why_static(-EPERM, "weir_buf_chain: the second list "
				  "has more than one reference");
	head->last->next = tail;
	head->last = tail->last;
	tail->state = BUF_MEMBER;
	tail->refs = 0;
	return 0;
}

int weir_buf_unchain(struct weir_buf *head, struct weir_buf *buf)
{
	struct weir_buf *prev = head;

	reactor_check_thread(head->free_list->r);
	if (head->state != BUF_HEAD)
		return why_static(-EPERM, "weir_buf_unchain: the buf is a "
				  "member of a list; name the head");
	if (is_used(head))
		return why_static(-EBUSY, "weir_buf_unchain: a job uses the "
				  "list; wait for its callback");
	while (prev && prev->next != buf)
		prev = prev->next;
	if (!prev || !buf)
		return why_static(-EINVAL, "weir_buf_unchain: the buf does "
				  "not follow the head");
	buf->state = BUF_HEAD;
	buf->refs = 1;
	buf->last = head->last;
	prev->next = NULL;
	head->last = prev;
	return 0;
}

struct weir_buf *weir_buf_next(const struct weir_buf *buf)
{
	return buf->state == BUF_FREE ? NULL : buf->next;
}

struct weir_buf *weir_buf_last(const struct weir_buf *head)
{
	const struct weir_buf *buf = head;

	if (head->state == BUF_HEAD)
		return head->last;
	while (buf->next)
		buf = buf->next;
	return (struct weir_buf *)buf;
}

int weir_buf_is_in_list(const struct weir_buf *buf)
{
	return buf->state == BUF_MEMBER ||
	       (buf->state == BUF_HEAD && buf->next);
}

int64_t weir_buf_list_len(const struct weir_buf *head)
{
	int64_t n = 0;

	if (head->state != BUF_HEAD)
		return why_static(-EPERM, "weir_buf_list_len: the buf is a "
				  "member of a list; name the head");
	for (; head; head = head->next)
		n++;
	return n;
}

uint64_t weir_buf_list_data_len(const struct weir_buf *head)
{
	uint64_t n = 0;

	for (; head; head = head->next)
		n += head->data_len;
	return n;
}
