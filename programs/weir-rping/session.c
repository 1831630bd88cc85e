/* SPDX-License-Identifier: CC0-1.0 */
/*
 * One connection: its memory, known to the device that leads to the peer; what
 * it sends; and how it ends.
 */
#define _GNU_SOURCE 1
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <weir/buf.h>
#include <weir/device.h>
#include <weir/domain.h>
#include <weir/inventory.h>
#include <weir/mmap.h>

#include "weir-rping.h"

struct session *session_create(struct rping *rp, struct weir_conn *c)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->rp = rp;
	s->c = c;
	s->next = rp->sessions;
	s->pprev = &rp->sessions;
	if (s->next)
		s->next->pprev = &s->next;
	rp->sessions = s;
	return s;
}

static int get_area(struct session *s, struct area *area, uint32_t rights)
{
	int err = weir_mmap_create(&area->mmap, NULL);

	if (!err)
		err = weir_mmap_add_device(area->mmap, s->dev);
	if (!err)
		err = weir_mmap_alloc(area->mmap, s->rp->o.size, 0);
	if (!err)
		err = weir_mmap_set_permissions(area->mmap, WEIR_MMAP_READ |
						WEIR_MMAP_WRITE | rights);
	if (!err)
		err = weir_mmap_start(area->mmap);
	if (!err)
		err = weir_mmap_keys(area->mmap, s->dev, NULL, &area->rkey);
	if (!err)
		weir_mmap_memrange(area->mmap, (void **)&area->at, NULL);
	return err;
}

/* A server reads and writes; a client is read from, and written to. */
static int get_server(struct session *s)
{
	int err = get_area(s, &s->source, 0);

	if (!err)
		err = weir_inventory_create(&s->inv, s->rp->r, NULL);
	if (!err)
		err = weir_inventory_attach(s->inv, s->source.mmap);
	if (!err)
		err = weir_domain_remote_create(&s->there, NULL);
	return err ? err : weir_conn_attach(s->c, s->there);
}

static int get_client(struct session *s)
{
	int err = get_area(s, &s->source, WEIR_MMAP_RDMA_READ);

	return err ? err : get_area(s, &s->sink, WEIR_MMAP_RDMA_WRITE);
}

int session_ready(struct session *s)
{
	struct weir_conn_info info = { .size = sizeof(info) };
	int err = weir_conn_info(s->c, &info);

	if (!err)
		err = weir_device_open_name(&s->dev, info.device);
	if (!err)
		err = s->rp->o.server ? get_server(s) : get_client(s);
	if (err)
		session_fail(s, "no memory for RDMA: %s", reason(err));
	return err;
}

static void on_sent(struct weir_op *op, int64_t res)
{
	struct session *s = op->data;

	if (res < 0 && res != -ECANCELED)
		session_fail(s, "ping %llu: the peer does not take our "
			     "message: %s", (unsigned long long)s->pings + 1,
			     strerror((int)-res));
	session_callback(s);
}

void session_send(struct session *s, const struct area *area)
{
	unsigned int i = s->n_sends++ % RPING_SENDS;
	struct weir_message m = { .size = sizeof(m) };
	struct info *info = &s->sends[i].info;
	int err;

	*info = (struct info){ 0 };
	if (area)
		*info = (struct info){
			.addr = htobe64((uintptr_t)area->at),
			.rkey = htonl(area->rkey),
			.size = htonl(s->rp->o.size),
		};
	m.data = info;
	m.len = sizeof(*info);
	s->sends[i].op.data = s;
	s->sends[i].op.fn = on_sent;
	err = weir_message_send(s->c, &s->sends[i].op, &m);
	if (err && err != -ENOTCONN)
		session_fail(s, "cannot send: %s", reason(err));
}

bool session_take(struct session *s, const struct weir_message *m,
		  struct info *info)
{
	bool ok = m->buf && m->len == sizeof(*info);

	if (ok)
		memcpy(info, m->data, sizeof(*info));
	weir_buf_put(m->buf);
	if (s->failed)
		return false;
	if (!ok) {
		session_fail(s, "the peer does not speak rping: it sent %llu "
			     "bytes, not 16", (unsigned long long)m->len);
		return false;
	}
	info->addr = be64toh(info->addr);
	info->rkey = ntohl(info->rkey);
	info->size = ntohl(info->size);
	return true;
}

/* What comes first is the cause. */
void session_fail(struct session *s, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (s->failed)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	complain(s->rp, "%s", text);
	s->failed = true;
	session_end(s);
}

static void on_closed(struct weir_op *op, int64_t res)
{
	(void)res;
	session_free(op->data);
}

/* Its end function, or this, frees it: not at once, for the caller uses it. */
void session_end(struct session *s)
{
	s->failed = true;
	s->op.data = s;
	if (weir_op_is_busy(&s->op)) {
		weir_op_cancel(&s->op);
		return;
	}
	s->op.fn = on_closed;
	weir_conn_disconnect(s->c, &s->op);
}

static void put_area(struct area *area)
{
	weir_mmap_destroy(area->mmap);
}

/* Callbacks that are still to come have it. */
static bool is_awaited(const struct session *s)
{
	unsigned int i;

	for (i = 0; i < RPING_SENDS; i++)
		if (weir_op_is_busy(&s->sends[i].op))
			return true;
	return weir_op_is_busy(&s->job.op);
}

void session_callback(struct session *s)
{
	if (s->gone)
		session_free(s);
}

void session_free(struct session *s)
{
	struct rping *rp = s->rp;

	s->gone = s->failed = true;
	if (is_awaited(s))
		return;

	if (s->there)
		weir_conn_detach(s->c, s->there);
	weir_conn_destroy(s->c);
	weir_domain_destroy(s->there);
	weir_inventory_destroy(s->inv);
	put_area(&s->source);
	put_area(&s->sink);
	weir_device_close(s->dev);
	*s->pprev = s->next;
	if (s->next)
		s->next->pprev = s->pprev;
	free(s);
	rping_left(rp);
}
