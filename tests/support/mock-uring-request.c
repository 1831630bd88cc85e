/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's requests; their states are in mock-uring-internal.h. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/mock-uring-internal.h"

#define BATCH 16		/* Results of a multishot request at a time. */

static bool is_multi(const struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;

	switch (sqe->opcode) {
	case IORING_OP_POLL_ADD:
		return sqe->len;
	case IORING_OP_ACCEPT:
		return sqe->ioprio & IORING_ACCEPT_MULTISHOT;
	case IORING_OP_RECV:
		return sqe->ioprio & IORING_RECV_MULTISHOT &&
		       req->ring->version >= 600;
	default:
		return false;
	}
}

static bool is_known(unsigned int opcode)
{
	switch (opcode) {
	case IORING_OP_EPOLL_CTL:
	case IORING_OP_FADVISE:
	case IORING_OP_FILES_UPDATE:
	case IORING_OP_LINK_TIMEOUT:
	case IORING_OP_MADVISE:
	case IORING_OP_POLL_REMOVE:
	case IORING_OP_PROVIDE_BUFFERS:
	case IORING_OP_REMOVE_BUFFERS:
	case IORING_OP_SPLICE:
	case IORING_OP_SYNC_FILE_RANGE:
	case IORING_OP_TEE:
	case IORING_OP_TIMEOUT:
	case IORING_OP_TIMEOUT_REMOVE:
		return false;
	default:
		return opcode <= IORING_OP_LINKAT ||
		       opcode == IORING_OP_FSETXATTR ||
		       opcode == IORING_OP_FGETXATTR ||
		       opcode == OP_FTRUNCATE ||
		       opcode == IORING_OP_SEND_ZC;
	}
}

/* The path that an operation has, or two. */
static void take_paths(struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;

	switch (sqe->opcode) {
	case IORING_OP_RENAMEAT:
	case IORING_OP_SYMLINKAT:
	case IORING_OP_LINKAT:
		req->path[1] = strdup((const char *)(uintptr_t)sqe->addr2);
		/* fall through */
	case IORING_OP_MKDIRAT:
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
	case IORING_OP_STATX:
	case IORING_OP_UNLINKAT:
		req->path[0] = strdup((const char *)(uintptr_t)sqe->addr);
	}
}

static bool has_fd(const struct request *req)
{
	return req->sqe.opcode != IORING_OP_NOP && !req->path[0];
}

static void place(struct request *req, uint64_t steps)
{
	struct ring *ring = req->ring;

	if (req->due)
		TAILQ_REMOVE(&ring->due, req, link);
	else if (req->in_set)
		TAILQ_REMOVE(&ring->waits, req, link);
	req->due = true;
	req->at = ring->step + steps;
	TAILQ_INSERT_TAIL(&ring->due, req, link);
}

/* The kernel has a file, whatever becomes of its descriptor. */
static void own_fd(struct request *req)
{
	if (req->fd >= 0 || !has_fd(req) || req->sqe.opcode == IORING_OP_CLOSE)
		return;
	req->fd = fcntl(mock_uring_fd(req), F_DUPFD_CLOEXEC, FD_BASE);
	if (req->fd < 0) {
		perror("mock-uring: no descriptor for a request");
		abort();
	}
}

static void let_go(struct request *req)
{
	if (req->in_set)
		epoll_ctl(req->ring->epoll, EPOLL_CTL_DEL, req->fd, NULL);
	if (req->in_set && !req->due)
		TAILQ_REMOVE(&req->ring->waits, req, link);
	req->in_set = false;
	if (req->fd >= 0)
		close(req->fd);
	req->fd = -1;
}

static void free_request(struct request *req)
{
	let_go(req);
	if (req->due)
		TAILQ_REMOVE(&req->ring->due, req, link);
	free(req->path[0]);
	free(req->path[1]);
	free(req);
}

/* Its last completion; that of a zero-copy send is a notification. */
static void post(struct request *req)
{
	struct ring *ring = req->ring;
	bool zc = req->sqe.opcode == IORING_OP_SEND_ZC && !req->notif;

	if (req->res < 0 || !(req->sqe.flags & IOSQE_CQE_SKIP_SUCCESS))
		mock_uring_complete(ring, req->sqe.user_data, req->res,
				    req->flags | (zc ? IORING_CQE_F_MORE : 0));
	if (!zc) {
		free_request(req);
		return;
	}
	req->notif = true;
	req->flags = IORING_CQE_F_NOTIF;
	req->res = req->res > 0 && req->sqe.ioprio & IORING_SEND_ZC_REPORT_USAGE ?
		   (int32_t)IORING_NOTIF_USAGE_ZC_COPIED : 0;
	place(req, 1 + mock_uring_below(ring, 3));
}

static void end(struct request *req, int32_t res, uint32_t flags)
{
	struct ring *ring = req->ring;

	let_go(req);
	req->ended = true;
	req->res = res;
	req->flags = flags;
	if (mock_uring_draw(ring, mock_uring.odds.late))
		place(req, 1 + mock_uring_below(ring, 3));
	else
		post(req);
}

/* Edge by edge.  What cannot be waited for in a set is tried step by step. */
static void wait_for_fd(struct request *req)
{
	struct epoll_event ev = {
		.events = EPOLLET | mock_uring_events(req), .data.ptr = req,
	};
	struct ring *ring = req->ring;

	if (!req->tried) {
		req->thread = !is_multi(req) &&
			      mock_uring_draw(ring, mock_uring.odds.thread);
		if (mock_uring_draw(ring, mock_uring.odds.miss))
			req->misses = 1 + mock_uring_below(ring, 3);
	}
	req->tried = true;
	own_fd(req);
	if (req->sqe.opcode == IORING_OP_CONNECT && !req->connecting) {
		req->thread = true;
		place(req, 1);
		return;
	}
	if (!req->in_set &&
	    epoll_ctl(ring->epoll, EPOLL_CTL_ADD, req->fd, &ev)) {
		place(req, 1);
		return;
	}
	if (req->due)
		TAILQ_REMOVE(&ring->due, req, link);
	else if (req->in_set)
		TAILQ_REMOVE(&ring->waits, req, link);
	req->due = false;
	req->in_set = true;
	TAILQ_INSERT_TAIL(&ring->waits, req, link);
}

/* The first buffers of the ring of them: one, or those of a bundle. */
static unsigned int first_bufs(const struct request *req, const struct buf_group *g,
			       struct iovec *iov)
{
	unsigned int max = req->sqe.ioprio & RECVSEND_BUNDLE ? BUNDLE : 1, n = 0;
	uint16_t at = g->head;
	uint16_t tail = __atomic_load_n(&g->ring->tail, __ATOMIC_ACQUIRE);

	for (; n < max && at != tail; at++, n++) {
		const struct io_uring_buf *buf =
			&g->ring->bufs[at & (g->entries - 1)];

		iov[n].iov_base = (void *)(uintptr_t)buf->addr;
		iov[n].iov_len = req->sqe.len && req->sqe.len < buf->len ?
				 req->sqe.len : buf->len;
	}
	return n;
}

/* The kernel shortens the first buffer of a bundle to what there is, and somebody else
 * may take that. */
static void maybe_shorten(const struct request *req, const struct buf_group *g)
{
	struct io_uring_buf *buf = &g->ring->bufs[g->head & (g->entries - 1)];

	if (req->sqe.ioprio & RECVSEND_BUNDLE && buf->len > 1 &&
	    mock_uring_draw(req->ring, mock_uring.odds.cut_stream))
		buf->len /= 2;
}

static int32_t recv_selected(const struct request *req, uint32_t *flags)
{
	struct buf_group *g = mock_uring_group(req->ring, req->sqe.buf_group);
	struct iovec iov[BUNDLE];
	struct msghdr msg = { .msg_iov = iov };
	uint32_t id;
	long n;

	if (!g)
		return -ENOBUFS;
	msg.msg_iovlen = first_bufs(req, g, iov);
	if (!msg.msg_iovlen)
		return -ENOBUFS;
	id = g->ring->bufs[g->head & (g->entries - 1)].bid;
	n = syscall(SYS_recvmsg, mock_uring_fd(req), &msg,
		    req->sqe.msg_flags | MSG_DONTWAIT);
	if (n < 0) {
		n = -errno;
		if (n == -EAGAIN)
			maybe_shorten(req, g);
		return (int32_t)n;
	}
	/* 5.19 takes the buffer also where there is nothing for it. */
	if (n || req->ring->version < 600) {
		*flags = IORING_CQE_F_BUFFER | id << IORING_CQE_BUFFER_SHIFT;
		g->head++;
	}
	for (size_t i = 0, left = (size_t)n; left > iov[i].iov_len; left -= iov[i++].iov_len)
		g->head++;
	return (int32_t)n;
}

static int32_t try_once(struct request *req, uint32_t *flags)
{
	*flags = 0;
	return req->sqe.flags & IOSQE_BUFFER_SELECT ?
	       recv_selected(req, flags) : mock_uring_try(req);
}

static bool cq_is_full(const struct ring *ring)
{
	unsigned int head = __atomic_load_n(&ring->cq_head, __ATOMIC_ACQUIRE);

	return !STAILQ_EMPTY(&ring->overflow) ||
	       ring->cq_tail - head >= ring->cq_entries;
}

/* Since 6.18 at the latest a receive does not ask for a buffer before data come. */
static bool is_empty(const struct request *req)
{
	struct pollfd p = { .fd = mock_uring_fd(req),
			    .events = POLLIN | POLLRDHUP };

	return req->sqe.opcode == IORING_OP_RECV && req->ring->version >= 618 &&
	       poll(&p, 1, 0) == 0;
}

/* It has the last of the buffers: then it is the end of the request. */
static bool is_last_bundle(const struct request *req)
{
	const struct buf_group *g = mock_uring_group(req->ring, req->sqe.buf_group);

	return g && req->sqe.opcode == IORING_OP_RECV &&
	       req->sqe.ioprio & RECVSEND_BUNDLE &&
	       __atomic_load_n(&g->ring->tail, __ATOMIC_ACQUIRE) == g->head;
}

static void go_on_multi(struct request *req)
{
	bool poll = req->sqe.opcode == IORING_OP_POLL_ADD;
	struct ring *ring = req->ring;
	uint32_t flags;
	int32_t res;

	for (int i = 0; i < (poll ? 1 : BATCH); i++) {
		res = try_once(req, &flags);
		if (res == -EAGAIN) {
			wait_for_fd(req);
			return;
		}
		if (res < 0 || (res == 0 && req->sqe.opcode == IORING_OP_RECV)) {
			end(req, res, flags);
			return;
		}
		if (cq_is_full(ring) || is_last_bundle(req) ||
		    mock_uring_draw(ring, mock_uring.odds.end)) {
			mock_uring.ended++;
			end(req, res, flags);
			return;
		}
		mock_uring_complete(ring, req->sqe.user_data, res,
				    flags | IORING_CQE_F_MORE);
		if (is_empty(req)) {
			wait_for_fd(req);
			return;
		}
	}
	if (poll)
		wait_for_fd(req);
	else
		place(req, 1);
}

/* A thread of the kernel that writes to a pipe goes on until all is written. */
static bool goes_on(struct request *req, int32_t res)
{
	if (!req->thread || req->storage || res <= 0 ||
	    req->sqe.opcode != IORING_OP_WRITE)
		return false;
	req->done += (uint32_t)res;
	return req->done < req->sqe.len;
}

static void go_on(struct request *req)
{
	uint32_t flags;
	int32_t res;

	if (is_multi(req)) {
		go_on_multi(req);
		return;
	}
	do
		res = try_once(req, &flags);
	while (goes_on(req, res));
	if (res == -EAGAIN && req->signalled)
		end(req, req->done ? (int32_t)req->done : -EINTR, 0);
	else if (res == -EAGAIN && (!req->thread || req->path[0]) &&
		 mock_uring_says_again(req))
		end(req, res, 0);
	else if (res == -EAGAIN)
		wait_for_fd(req);
	else
		end(req, res >= 0 && req->done ? (int32_t)req->done : res,
		    flags);
}

static struct request *find(struct ring *ring, uint64_t data)
{
	struct request *req;

	TAILQ_FOREACH(req, &ring->waits, link)
		if (req->sqe.user_data == data)
			return req;
	TAILQ_FOREACH(req, &ring->due, link)
		if (req->sqe.user_data == data)
			return req;
	return NULL;
}

/* A cancel: 0 and -ECANCELED, or it comes too late or too early. */
static int32_t cancel(struct ring *ring, uint64_t data)
{
	struct request *req = find(ring, data);

	mock_uring.cancels++;
	if (!req || req->ended)
		return req && mock_uring_below(ring, 2) ? -EALREADY : -ENOENT;
	if (req->misses) {
		req->misses--;
		mock_uring.missed++;
		return mock_uring_below(ring, 2) ? -EALREADY : -ENOENT;
	}
	if (req->thread) {
		req->signalled = true;
		if (!req->due)
			place(req, 1);
		return -EALREADY;
	}
	end(req, -ECANCELED, 0);
	return 0;
}

static bool answer(struct ring *ring, const struct io_uring_sqe *sqe,
		   int32_t res)
{
	if (res < 0 || !(sqe->flags & IOSQE_CQE_SKIP_SUCCESS))
		mock_uring_complete(ring, sqe->user_data, res, 0);
	return true;
}

bool mock_uring_issue(struct ring *ring, const struct io_uring_sqe *sqe)
{
	struct request *req;
	int err = mock_uring_check(ring, sqe);

	mock_uring.requests++;
	if (!err && !is_known(sqe->opcode))
		err = -EINVAL;
	if (err)
		return answer(ring, sqe, err), false;
	if (sqe->opcode == IORING_OP_ASYNC_CANCEL)
		return answer(ring, sqe, cancel(ring, sqe->addr));
	req = calloc(1, sizeof(*req));
	if (!req)
		abort();
	req->ring = ring;
	req->sqe = *sqe;
	req->fd = -1;
	take_paths(req);
	if (sqe->opcode == IORING_OP_CONNECT)
		memcpy(&req->peer, (const void *)(uintptr_t)sqe->addr,
		       sqe->off < sizeof(req->peer) ? sqe->off :
						      sizeof(req->peer));
	if (has_fd(req) && fcntl(mock_uring_fd(req), F_GETFD) < 0) {
		end(req, -EBADF, 0);
		return false;
	}
	if (mock_uring_is_for_thread(req)) {
		req->thread = mock_uring_draw(ring, mock_uring.odds.thread);
		req->storage = true;
		own_fd(req);
		place(req, mock_uring_below(ring, 3));
	} else if (is_multi(req) && sqe->opcode == IORING_OP_POLL_ADD) {
		wait_for_fd(req);
	} else {
		go_on(req);
	}
	return true;
}

void mock_uring_notice(struct ring *ring)
{
	struct epoll_event evs[64];
	struct request *req;
	int i, n;

	do {
		n = epoll_wait(ring->epoll, evs, 64, 0);
		for (i = 0; i < n; i++) {
			req = evs[i].data.ptr;
			if (!req->due)
				place(req, mock_uring_draw(ring,
					   mock_uring.odds.late) ?
				      1 + mock_uring_below(ring, 2) : 0);
		}
	} while (n == 64);
}

void mock_uring_act(struct ring *ring)
{
	struct request *req, *next, *last;

	ring->step++;
	mock_uring_notice(ring);
	last = TAILQ_LAST(&ring->due, requests);
	for (req = TAILQ_FIRST(&ring->due); req; req = next) {
		next = req == last ? NULL : TAILQ_NEXT(req, link);
		if (req->at > ring->step)
			continue;
		if (req->ended)
			post(req);
		else
			go_on(req);
	}
}

bool mock_uring_is_due(const struct ring *ring)
{
	const struct request *req;

	TAILQ_FOREACH(req, &ring->due, link)
		if (req->at <= ring->step)
			return true;
	return false;
}

void mock_uring_drop(struct ring *ring)
{
	struct request *req;

	while ((req = TAILQ_FIRST(&ring->waits)) ||
	       (req = TAILQ_FIRST(&ring->due)))
		free_request(req);
}
