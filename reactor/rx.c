/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive free list; the header has the states of a buffer. */

#include "reactor/rx.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/own.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

#include <weir/socket.h>

#define PAGE 4096

static void rx_free(struct rx_free_list *rx)
{
	if (!rx)
		return;
	for (uint32_t i = 0; i < rx->n; i++)
		if (!rx->info[i].out)
			own_acquire_in(rx_buf(rx, (int)i), rx->size, 0);
	free(rx->mem);
	free(rx->free);
	free(rx->info);
	free(rx);
}

int rx_make(struct rx_free_list **ret, uint32_t n, uint32_t size)
{
	struct rx_free_list *rx = mem_calloc(1, sizeof(*rx));

	if (!rx)
		return -ENOMEM;
	rx->n = n;
	rx->size = size;
	rx->mem = mem_aligned(PAGE, (size_t)rx->n * rx->size);
	rx->free = mem_calloc(rx->n, sizeof(*rx->free));
	rx->info = mem_calloc(rx->n, sizeof(*rx->info));
	if (!rx->mem || !rx->free || !rx->info) {
		rx->n = 0;
		rx_free(rx);
		return -ENOMEM;
	}
	while (rx->n_free < rx->n) {
		own_release_in(rx_buf(rx, (int)rx->n_free), rx->size);
		rx->free[rx->n_free] = (uint16_t)rx->n_free;
		rx->n_free++;
	}
	*ret = rx;
	return 0;
}

int rx_create(struct weir_reactor *r)
{
	reactor_check_thread(r);
	return r->rx ? 0 : rx_make(&r->rx, r->opts.rx_bufs,
				   r->opts.rx_buf_size);
}

void rx_end(struct weir_reactor *r, struct rx_free_list *rx)
{
	reactor_check_thread(r);
	if (rx && r->backend->rx_end)
		r->backend->rx_end(r, rx);
	rx_free(rx);
}

int rx_take(struct rx_free_list *rx)
{
	return rx->n_free ? rx->free[--rx->n_free] : -ENOBUFS;
}

void rx_out(struct rx_free_list *rx, int id, uint32_t len)
{
	rx->info[id].out = true;
	rx->info[id].len = len;
	own_acquire_in(rx_buf(rx, id), rx->size, len);
}

void rx_put(struct weir_reactor *r, struct rx_free_list *rx, int id)
{
	reactor_check_thread(r);
	if (rx->info[id].out)
		own_release_in(rx_buf(rx, id), rx->size);
	rx->info[id].out = false;
	if (!rx->in_kernel)
		rx->free[rx->n_free++] = (uint16_t)id;
	r->backend->rx_returned(r, rx, (unsigned int)id);
}

int rx_id_of(const struct rx_free_list *rx, const void *data)
{
	uint64_t at = (uint64_t)((const char *)data - rx->mem);

	check(at / rx->size < rx->n);
	check(rx->info[at / rx->size].out);
	return (int)(at / rx->size);
}

void weir_receiver_release(struct weir_reactor *r, void *data)
{
	int id;

	reactor_check_thread(r);
	check(r->rx);
	id = rx_id_of(r->rx, data);
	check(data == rx_buf(r->rx, id));
	rx_put(r, r->rx, id);
	reactor_touch(r);
}

bool rx_error_passes(int64_t err)
{
	switch (err) {
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -EHOSTDOWN:
	case -ENETDOWN:
	case -ENONET:
	case -ENOPROTOOPT:
	case -EPROTO:
	case -EMSGSIZE:
	case -EACCES:
		return true;
	default:
		return false;
	}
}

/* Raw system calls, because the buffers are lent, and ASan's recvmmsg() would
 * report that. */
static long receive_all(int fd, struct mmsghdr *msgs, unsigned int n)
{
	long got;

	do {
		got = syscall(SYS_recvmmsg, fd, msgs, n,
			      MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static void describe(struct msghdr *msg, struct iovec *iov, void *buf,
		     uint32_t size)
{
	struct rx_head *head = buf;

	iov->iov_base = head + 1;
	iov->iov_len = size - RX_HEAD;
	*msg = (struct msghdr){
		.msg_name = head->name,
		.msg_namelen = RX_NAME,
		.msg_iov = iov,
		.msg_iovlen = 1,
		.msg_control = head->control,
		.msg_controllen = RX_CONTROL,
	};
}

static void fill_head(struct rx_head *head, const struct mmsghdr *m)
{
	head->namelen = m->msg_hdr.msg_namelen;
	head->controllen = (uint32_t)m->msg_hdr.msg_controllen;
	head->payloadlen = m->msg_len;
	head->flags = (uint32_t)m->msg_hdr.msg_flags;
}

/* Their ids in @ids; they are out then. */
static int take_datagrams(struct rx_free_list *rx, int fd, unsigned int max, int *ids)
{
	struct mmsghdr msgs[RX_BATCH];
	struct iovec iov[RX_BATCH];
	unsigned int n;
	long got;

	for (n = 0; n < max && n < RX_BATCH && rx->n_free; n++) {
		ids[n] = rx_take(rx);
		own_use(rx_buf(rx, ids[n]), rx->size);
		describe(&msgs[n].msg_hdr, &iov[n], rx_buf(rx, ids[n]),
			 rx->size);
	}
	got = n ? receive_all(fd, msgs, n) : -ENOBUFS;
	while (n > (got > 0 ? (unsigned int)got : 0)) {
		n--;
		own_unuse(rx_buf(rx, ids[n]), rx->size);
		rx->free[rx->n_free++] = (uint16_t)ids[n];
	}
	for (unsigned int i = 0; i < n; i++) {
		rx_out(rx, ids[i], RX_HEAD + msgs[i].msg_len);
		fill_head(rx_buf(rx, ids[i]), &msgs[i]);
	}
	return (int)got;
}

/*
 * As many buffers are described to the kernel as the last call has filled, and some
 * more: describing 64 for one datagram costs more than that datagram.
 */
#define BATCH_LEAST 4u

static unsigned int next_batch(const struct source *s, unsigned int n)
{
	if (n == s->batch)
		return n < RX_BATCH / 2 ? 2 * n : RX_BATCH;
	return n < s->batch / 4 && s->batch > BATCH_LEAST ? s->batch / 2 :
							    s->batch;
}

int rx_take_datagrams(struct source *s, unsigned int max)
{
	struct weir_reactor *r = s->reactor;
	struct rx_free_list *rx = s->rx;
	int ids[RX_BATCH], n;

	debug_check(s->kind == SOURCE_DATAGRAM && s->engaged);
	if (s->batch < BATCH_LEAST)
		s->batch = BATCH_LEAST;
	n = take_datagrams(rx, s->fd, s->batch < max ? s->batch : max, ids);
	if (n <= 0)
		return n;
	s->batch = next_batch(s, (unsigned int)n);
	for (int i = 0; i < n; i++) {
		if (s->zombie)
			rx_put(r, rx, ids[i]);
		else
			source_deliver(s, rx->info[ids[i]].len, ids[i]);
	}
	return n;
}
