/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Bufs: windows, data and lists.  No path here allocates or blocks. */

#include <errno.h>

#include "mem/buf-internal.h"

static bool is_used(const struct weir_buf *head)
{
	return head->writing || head->readers;
}

int weir_buf_ref(struct weir_buf *buf)
{
	if (buf->state != BUF_HEAD)
		return -EPERM;
	if (buf->refs == WEIR_BUF_REFS_MAX)
		return -EMSGSIZE;
	buf->refs++;
	return 0;
}

static void go_home(struct weir_buf *buf)
{
	struct buf_stock *stock = buf->stock;

	buf->state = BUF_FREE;
	buf->refs = 0;
	mmap_use_count(buf->use, -1);
	if (stock->returned)
		stock->returned(stock, buf);
	else
		stock_push(stock, buf);
}

void weir_buf_put(struct weir_buf *buf)
{
	struct weir_buf *next;

	if (!buf)
		return;
	check(buf->state == BUF_HEAD);
	reactor_check_thread(buf->stock->r);
	if (--buf->refs)
		return;
	check(!is_used(buf));
	for (; buf; buf = next) {
		next = buf->next;
		go_home(buf);
	}
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

struct weir_mmap *weir_buf_mmap(const struct weir_buf *buf)
{
	return buf->use->mmap;
}

/*
 * A member does not know its head, so whether a job uses its list is told by
 * marks on the members too, which a job sets as it walks the list anyway.
 */
int weir_buf_set_data(struct weir_buf *buf, void *data, size_t len)
{
	size_t off = (size_t)((char *)data - buf->addr);

	if (is_used(buf))
		return -EBUSY;
	if ((char *)data < buf->addr || off > buf->len || len > buf->len - off)
		return -ERANGE;
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
	if (head == tail)
		return -EINVAL;
	if (head->state != BUF_HEAD || tail->state != BUF_HEAD)
		return -EPERM;
	if (is_used(head) || is_used(tail))
		return -EBUSY;
	if (tail->refs != 1)
		return -EPERM;
	head->last->next = tail;
	head->last = tail->last;
	tail->state = BUF_MEMBER;
	tail->refs = 0;
	return 0;
}

int weir_buf_unchain(struct weir_buf *head, struct weir_buf *buf)
{
	struct weir_buf *prev = head;

	if (head->state != BUF_HEAD)
		return -EPERM;
	if (is_used(head))
		return -EBUSY;
	while (prev && prev->next != buf)
		prev = prev->next;
	if (!prev || !buf)
		return -EINVAL;
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
		return -EPERM;
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
