/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources on the ring; their states are in uring.h.
 *
 *	watch      one poll, made again after each delivery, so that it fires
 *	           once a turn as long as the condition holds; with WEIR_EDGE
 *	           one multishot poll; with WEIR_PRI, of an epoll set for it
 *	acceptor   one multishot accept for all connections
 *	receiver   one multishot receive for all data, into buffers that the
 *	           kernel picks when data arrive, several at a time (a bundle)
 *	           where it takes them in turn
 *	datagrams  likewise, with their addresses
 *
 * Where the kernel has no multishot request (-EINVAL), each connection or piece
 * of data takes a request of its own, and a watch with WEIR_EDGE an epoll set,
 * for a poll that is made again has no edges; where it cannot pick buffers, a
 * poll and then recv(2).  For datagrams without a multishot request, a poll and
 * then recvmmsg(2), which takes many at once.
 */

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir/watch.h>

#include "base/fault.h"
#include "base/own.h"
#include "reactor/rx.h"
#include "reactor/uring/uring.h"

static void list_push(struct source_list *list, struct source *s)
{
	debug_check(!s->queued);
	s->next = NULL;
	s->pprev = list->last;
	*list->last = s;
	list->last = &s->next;
	s->queued = true;
}

/* The list that a source is in, by the table in uring.h. */
static struct source_list *list_of(struct uring *u, const struct source *s)
{
	if (s->engaged)
		return &u->stale;
	return s->rx && !s->rx->source ? &u->starving : &u->retry;
}

static void list_del(struct source_list *list, struct source *s)
{
	debug_check(s->queued && *s->pprev == s);
	if (s->next)
		s->next->pprev = s->pprev;
	else
		list->last = s->pprev;
	*s->pprev = s->next;
	s->queued = false;
}

/* The generation has seven bits; the eighth marks a poll. */
#define GEN_POLL 0x80

static uint64_t user_data(const struct source *s)
{
	return (uintptr_t)s | (uint64_t)s->gen << TAG_GEN_SHIFT | TAG_SOURCE;
}

static void fill_watch(struct uring *u, struct io_uring_sqe *sqe,
		       const struct source *s)
{
	debug_check(s->kind == SOURCE_WATCH);
	if (unlikely(s->set))
		uring_fill_poll(sqe, s->set - 1, POLLIN);
	else
		uring_fill_poll(sqe, s->fd, uring_poll_bits(s->events));
	if (s->events & WEIR_EDGE && !u->no_poll_multi)
		sqe->len = IORING_POLL_ADD_MULTI;
}

static void fill_accept(struct uring *u, struct io_uring_sqe *sqe,
			const struct source *s)
{
	debug_check(s->kind == SOURCE_ACCEPT);
	sqe->opcode = IORING_OP_ACCEPT;
	sqe->fd = s->fd;
	sqe->accept_flags = SOCK_CLOEXEC;
	if (!u->no_accept_multi)
		sqe->ioprio = IORING_ACCEPT_MULTISHOT;
}

static void fill_recv(struct uring *u, struct io_uring_sqe *sqe,
		      const struct source *s)
{
	debug_check(s->kind == SOURCE_RECV);
	sqe->opcode = IORING_OP_RECV;
	sqe->fd = s->fd;
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = s->rx->group;
	if (u->no_recv_multi)
		sqe->len = s->rx->size;
	else
		sqe->ioprio = (uint16_t)(IORING_RECV_MULTISHOT |
					 (u->has_bundles && !u->no_bundles ?
					  IORING_RECVSEND_BUNDLE : 0));
}

_Static_assert(offsetof(struct rx_head, name) ==
		       sizeof(struct io_uring_recvmsg_out) &&
	       offsetof(struct rx_head, flags) ==
		       offsetof(struct io_uring_recvmsg_out, flags) &&
	       sizeof(struct rx_head) == sizeof(struct io_uring_recvmsg_out) +
		       RX_NAME + RX_CONTROL, "the kernel's");

static void fill_recvmsg(struct io_uring_sqe *sqe, const struct source *s)
{
	debug_check(s->kind == SOURCE_DATAGRAM);
	sqe->opcode = IORING_OP_RECVMSG;
	sqe->fd = s->fd;
	sqe->addr = (uintptr_t)s->shape;
	sqe->len = 1;
	sqe->msg_flags = MSG_CMSG_CLOEXEC;
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = s->rx->group;
	sqe->ioprio = IORING_RECV_MULTISHOT;
}

/* Tests make the kernel refuse multishot requests as an older one would. */
static void maybe_spoil(struct io_uring_sqe *sqe)
{
	if ((sqe->ioprio || sqe->len == IORING_POLL_ADD_MULTI) &&
	    fault_choice("multishot"))
		sqe->ioprio |= 1u << 14;
}

/* Ask the kernel for what @s waits for, or for when to try. */
static bool request(struct uring *u, struct source *s, bool poll_first)
{
	struct io_uring_sqe *sqe = uring_sqe(u);

	debug_check(!s->engaged);
	if (unlikely(!sqe))
		return false;
	if (s->rx && !s->rx->ring)
		poll_first = true;
	s->gen = (uint8_t)((s->gen + 1) & ~GEN_POLL);
	if (poll_first)
		s->gen |= GEN_POLL;
	s->engaged = 1;
	s->stale = false;
	s->place = u->ring.sq.sqe_tail;
	own_release(s);
	memset(sqe, 0, sizeof(*sqe));
	if (poll_first)
		uring_fill_poll(sqe, s->fd, POLLIN);
	else if (s->kind == SOURCE_WATCH)
		fill_watch(u, sqe, s);
	else if (s->kind == SOURCE_ACCEPT)
		fill_accept(u, sqe, s);
	else if (s->kind == SOURCE_RECV)
		fill_recv(u, sqe, s);
	else
		fill_recvmsg(sqe, s);
	s->multi = sqe->ioprio || sqe->len == IORING_POLL_ADD_MULTI;
	s->bundles = s->kind == SOURCE_RECV && sqe->ioprio & IORING_RECVSEND_BUNDLE;
	maybe_spoil(sqe);
	sqe->user_data = user_data(s);
	return true;
}

static uint32_t bufs_left(const struct rx_free_list *rx)
{
	return rx->ring ? rx->left : rx->n_free;
}

/* QUIET -> OUT or WAITING. */
static void want(struct uring *u, struct source *s, bool poll_first)
{
	bool hungry = s->rx && !bufs_left(s->rx);

	debug_check(!s->engaged && !s->queued);
	if (hungry && s->rx->source)
		return; /* uring_rx_returned() */
	if (hungry || !request(u, s, poll_first))
		list_push(list_of(u, s), s);
}

/* Its request has ended, and was delivered. */
static void request_ended(struct uring *u, struct source *s, bool poll_first)
{
	debug_check(s->engaged);
	if (s->queued)
		list_del(list_of(u, s), s);
	s->engaged = 0;
	s->stale = false;
	if (s->zombie)
		source_unref(s);
	else if (s->armed)
		want(u, s, poll_first);
}

static void give_back(struct uring *u, const struct source *s, int32_t res,
		      int rx_id)
{
	if (s->kind == SOURCE_ACCEPT && res >= 0)
		close(res);
	if (rx_id >= 0)
		rx_put(u->r, s->rx, rx_id);
}

/* The kernel refuses what is multishot, or everything; another source may have
 * found out in the same turn.  Returns whether to ask in another way. */
static bool ask_otherwise(struct uring *u, struct source *s, int32_t *res)
{
	bool *no_multi = s->kind == SOURCE_ACCEPT ? &u->no_accept_multi :
			 s->kind == SOURCE_RECV ? &u->no_recv_multi :
			 s->kind == SOURCE_DATAGRAM ? &u->no_recvmsg_multi :
						      &u->no_poll_multi;

	if (s->bundles) {
		u->no_bundles = true;
		return true;
	}
	/* It is not the kernel, but this descriptor. */
	if (s->kind == SOURCE_RECV && !s->multi)
		u->no_bundles = false;
	*no_multi = s->multi;
	if (s->multi && s->kind == SOURCE_DATAGRAM)
		uring_rx_end(u->r, s->rx);
	if (s->multi && s->kind == SOURCE_WATCH && !s->set)
		*res = source_set_open(s);
	return s->multi && (s->kind != SOURCE_WATCH || s->set);
}

/* Whether the error only means that the request must be made in another way. */
static bool forgiven(struct uring *u, struct source *s, int32_t *res)
{
	switch (*res) {
	case -EINTR:
		return true;
	case -ECANCELED:
		return s->stale;
	case -EAGAIN:
		return s->kind != SOURCE_WATCH;
	case -ENOBUFS:
		return s->rx;
	case -EINVAL:
		return ask_otherwise(u, s, res);
	}
	return false;
}

/*
 * Connections and bytes are never lost while their source is armed, whichever
 * request they came by; what an old poll saw is of no use.
 */
static bool wanted(const struct source *s, int32_t res)
{
	if (s->kind == SOURCE_RECV || ((s->rx || s->keeps) && res >= 0))
		return !s->zombie;
	return s->armed && !(s->kind == SOURCE_WATCH && s->stale);
}

static void deliver(struct uring *u, struct source *s, int32_t res, int rx_id)
{
	if (!wanted(s, res) || (res < 0 && forgiven(u, s, &res))) {
		give_back(u, s, res, rx_id);
		return;
	}
	if (s->kind == SOURCE_WATCH && res >= 0) {
		res = unlikely(s->set) ? (int32_t)source_set_take(s) :
		      (int32_t)uring_weir_bits((uint32_t)res);
		if (res == -EAGAIN)
			return;
	}
	if (s->kind == SOURCE_RECV && res == 0 && rx_id >= 0) {
		rx_put(u->r, s->rx, rx_id);
		rx_id = -1;
	}
	if (s->kind == SOURCE_DATAGRAM && rx_error_passes(res)) {
		source_deliver(s, res, -1);
		return;
	}
	if (res < 0 || (s->kind == SOURCE_RECV && res == 0)) {
		s->armed = false;
		source_set_close(s);
	}
	if (s->kind == SOURCE_DATAGRAM && res >= 0)
		rx_out(s->rx, rx_id, (uint32_t)res);
	source_deliver(s, res, rx_id);
}

/*
 * The kernel cannot pick buffers, and the socket is readable: receive now.  A
 * raw system call, because the buffer is lent, and ASan's recv() would report
 * it.
 */
static void receive_now(struct uring *u, struct source *s)
{
	struct rx_free_list *rx = s->rx;
	int id = rx_take(rx);
	long n;

	debug_check(s->kind == SOURCE_RECV);
	if (id < 0)
		return;
	own_use(rx_buf(rx, id), rx->size);
	do {
		n = syscall(SYS_recvfrom, s->fd, rx_buf(rx, id), rx->size,
			    MSG_DONTWAIT, NULL, NULL);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		deliver(u, s, (int32_t)n, id);
		return;
	}
	n = n < 0 ? -errno : 0;
	rx_put(u->r, rx, id);
	deliver(u, s, (int32_t)n, -1);
}

/* Likewise, and the rest at its next request. */
static void take_datagrams(struct uring *u, struct source *s)
{
	int n = rx_take_datagrams(s, u->r->turn_max);

	if (n < 0)
		deliver(u, s, n, -1);
}

/*
 * A bundle of @res bytes: the buffers behind @id's, in the order in which the kernel got
 * them, are full but for the last.  What is behind a buffer stays so until that is given
 * back.  How long a buffer is its place in the ring says: the kernel shortens the first
 * one to what is there for it, and leaves it so if that is gone then.
 */
static void deliver_bundle(struct uring *u, struct source *s, uint32_t res, int id)
{
	struct rx_free_list *rx = s->rx;

	while (res) {
		const struct rx_info *info = &rx->info[id];
		uint32_t len = uring_rx_len(rx, id);
		int behind = info->behind;

		if (len > res)
			len = res;
		check(!info->out);
		res -= len;
		if (res)
			rx->left--;
		deliver(u, s, (int32_t)len, id);
		id = behind;
	}
}

void uring_source_cqe(struct uring *u, uint64_t data, int32_t res,
		      uint32_t flags)
{
	uint64_t bits = ~(UINT64_C(0xff) << TAG_GEN_SHIFT | TAG_MASK);
	struct source *s = (struct source *)(uintptr_t)(data & bits);
	bool polled = s->gen & GEN_POLL;
	bool last = !(flags & IORING_CQE_F_MORE);
	int rx_id = -1;

	reactor_check_thread(u->r);
	own_acquire(s);
	if (flags & IORING_CQE_F_BUFFER) {
		rx_id = (int)(flags >> IORING_CQE_BUFFER_SHIFT);
		s->rx->left--;
	}
	if (last)
		u->last_word = s;
	if (rx_id >= 0 && res > 0 && s->kind == SOURCE_RECV)
		deliver_bundle(u, s, (uint32_t)res, rx_id);
	else if (!polled || res < 0)
		deliver(u, s, res, rx_id);
	else if (s->kind == SOURCE_RECV && !s->rx->ring && s->armed)
		receive_now(u, s);
	else if (s->kind == SOURCE_DATAGRAM && !s->rx->ring && s->armed)
		take_datagrams(u, s);
	u->last_word = NULL;
	if (last)
		request_ended(u, s, res == -EAGAIN);
}

int uring_arm(struct weir_reactor *r, struct source *s)
{
	struct uring *u = uring_of(r);
	int err;

	reactor_check_thread(r);
	if (s->rx && !s->rx->tried &&
	    !(s->kind == SOURCE_DATAGRAM && u->no_recvmsg_multi))
		uring_rx_setup(u, s->rx);
	/* A poll of the ring does not wake up for urgent data alone. */
	if (unlikely(s->events & WEIR_PRI ||
		     (s->events & WEIR_EDGE && u->no_poll_multi))) {
		err = source_set_open(s);
		if (err)
			return err;
	}
	s->armed = true;
	if (!s->engaged && !s->queued)
		want(u, s, false);
	return 0;
}

static bool is_pushed_out(const struct uring *u, const struct source *s)
{
	uint32_t head = __atomic_load_n(u->ring.sq.khead, __ATOMIC_RELAXED);

	return (int32_t)(s->place - head) <= 0;
}

/*
 * A request that was not pushed out has no file yet, but a number, which may
 * mean another file by then: its data or its connection would be taken.  If the
 * kernel takes nothing now, it becomes a request for nothing.
 */
static void push_out(struct uring *u, struct source *s)
{
	const struct io_uring_sq *sq = &u->ring.sq;
	struct io_uring_sqe *sqe;

	debug_check(s->engaged);
	if (s->kind == SOURCE_WATCH || is_pushed_out(u, s))
		return;
	u->r->stats.syscalls++;
	io_uring_submit(&u->ring);
	if (is_pushed_out(u, s))
		return;
	sqe = &sq->sqes[((s->place - 1) & sq->ring_mask) << u->sqe_shift];
	memset(sqe, 0, sizeof(*sqe));
	s->gen |= GEN_POLL;
	sqe->user_data = user_data(s);
}

void uring_disarm(struct weir_reactor *r, struct source *s)
{
	struct uring *u = uring_of(r);

	reactor_check_thread(r);
	s->armed = false;
	if (unlikely(s->set))
		source_set_close(s);
	if (!s->engaged) {
		if (s->queued)
			list_del(list_of(u, s), s);
		return;
	}
	if (s->stale)
		return;
	s->stale = true;
	if (u->last_word == s)
		return;
	push_out(u, s);
	uring_cancel_request(u, user_data(s));
	list_push(&u->stale, s);
	repeats_plan(r);
}

/* Receivers are fed as many as there are buffers, the rest stays in line. */
static void feed(struct uring *u)
{
	uint32_t n = u->starving.first ? bufs_left(u->r->rx) : 0;
	struct source *s;

	while (n-- && (s = u->starving.first)) {
		list_del(&u->starving, s);
		if (request(u, s, false))
			continue;
		list_push(&u->starving, s);
		return;
	}
}

void uring_serve_sources(struct uring *u)
{
	struct source *s;

	reactor_check_thread(u->r);
	while ((s = u->retry.first)) {
		if (!request(u, s, false))
			return;
		list_del(&u->retry, s);
	}
	feed(u);
}

/* Round robin: a source that was tried goes to the end. */
void uring_repeat_sources(struct uring *u)
{
	struct source *s, *first = NULL;

	reactor_check_thread(u->r);
	for (int n = 0; n < REPEATS_MAX; n++) {
		s = u->stale.first;
		if (!s || s == first ||
		    !uring_cancel_request(u, user_data(s)))
			return;
		if (!first)
			first = s;
		list_del(&u->stale, s);
		list_push(&u->stale, s);
	}
}

bool uring_sources_wait(const struct uring *u)
{
	reactor_check_thread(u->r);
	return u->retry.first || (u->starving.first && bufs_left(u->r->rx));
}
