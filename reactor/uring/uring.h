/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_URING_H
#define WEIR_REACTOR_URING_H

/*
 * The io_uring backend.
 *
 *	uring.c         operations to the kernel and back; flush, wait, wake
 *	uring/setup.c   the ring, the kernel's features, and the end
 *	uring/fill.c    the contents of submission entries
 *	uring/entry.c   those that the caller fills in
 *	uring/source.c  sources: one request each, made again when it ends
 *	uring/rx.c      receive buffers that the kernel picks
 *
 * An operation that submit() took is in one of these places:
 *
 *	             capacity, entry            last completion
 *	submit() ----------------> KERNEL -------------------> io_end(),
 *	   |                        ^  |  |                    io_step_done()
 *	   | no capacity    capacity, entry |  |  | cancel(), perhaps again and again
 *	   +---------> BACKLOG -----+  |  +--> a cancel request is queued,
 *	                 |             |       the operation stays
 *	                 | cancel()    +--> goes on: the next step, or the same
 *	                 v                  one when a poll says that it can
 *	               -ECANCELED
 *
 *	state     OP_ENGAGED  OP_QUEUED
 *	KERNEL    yes         no
 *	BACKLOG   no          yes (u->backlog; u->connects, for later, where a
 *			      UNIX listener's backlog is full)
 *
 * The result of a cancel request is ignored.  The kernel finds nothing to
 * cancel while it is about to try the request again, or while a thread of its
 * own is between two waits; the request may then wait as before.  So cancels
 * are repeated until the request ends (op_repeat_cancel(), uring_repeat()).
 *
 * An operation has one completion at the end, after which it is the library's
 * again.  Only a zero-copy send has two: the result, which is kept in op->res,
 * and the notification that the memory is free, which ends it.
 *
 * Operations in KERNEL that are sure to end by themselves are fewer than the
 * completion queue holds, so they alone never overflow it.  The rest of the
 * queue is for sources, cancel requests, and operations that wait for a peer,
 * which are not counted.  Those may overflow it: the kernel keeps the
 * completions that do not fit, sets a flag in the ring, and delivers them when
 * asked.
 *
 * An operation that is counted and not sure to end may turn out to wait: a read
 * of a pipe, a send to a peer that does not read.  So the limit can be exceeded
 * for these.  If no counted operation has ended in a turn and there is no
 * capacity for another, they are assumed to wait: the limit becomes their
 * number plus a window, and falls again as they end.
 *
 * A source has at most one request in flight, so that the last deliveries of an
 * old request come before any of a new one:
 *
 *	          arm(), request               last completion
 *	QUIET -------------------> OUT ----------------------> QUIET, and out
 *	  | no buffer, no entry     | disarm(): cancel         again if armed
 *	  v                         v
 *	WAITING                   STALE -- last completion --> likewise
 *
 *	state    engaged  stale  queued
 *	QUIET    0        no     no
 *	WAITING  0        no     yes: u->starving if it shares buffers, else u->retry;
 *				 no, if it has its own buffers and none is free
 *	OUT      1        no     no
 *	STALE    1        yes    yes: u->stale, to be cancelled again
 *
 * @armed is independent of this state, as is @zombie.
 *
 * A ring has submission entries of 64 or, if the program asks for it, 128 bytes;
 * and completions of 16, of 32, or (mixed) of 16 and where needed 32 bytes.  So
 * that operations of the usual rings pay nothing for the others, wide rings have
 * their own table of the backend, and big completions their own loop.
 */

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "reactor/backend.h"
#include "reactor/reactor-internal.h"
#include "reactor/source.h"

/*
 * Since Linux 6.2, without a feature bit.  Used on kernels that have the next
 * bit, of 6.3.
 */
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1u << 3)
#define IORING_NOTIF_USAGE_ZC_COPIED (1u << 31)
#endif
#ifndef IORING_FEAT_REG_REG_RING
#define IORING_FEAT_REG_REG_RING (1u << 13)
#endif

/* Since Linux 6.18: completions of 32 bytes only where needed. */
#ifndef IORING_SETUP_CQE_MIXED
#define IORING_SETUP_CQE_MIXED (1u << 18)
#define IORING_CQE_F_SKIP (1u << 5)
#define IORING_CQE_F_32 (1u << 15)
#endif

/* Since Linux 6.9. */
#define IORING_OP_FTRUNCATE_6_9 55

/*
 * Bundles: Linux 6.10 had them first, with errors: bytes were missing between two
 * buffers, or the buffers were not taken in turn.  The last one that is known was mended
 * in 6.16, which has the opcode of a pipe.
 */
#ifndef IORING_RECVSEND_BUNDLE
#define IORING_RECVSEND_BUNDLE (1u << 4)
#define IORING_FEAT_RECVSEND_BUNDLE (1u << 14)
#endif
#define IORING_OP_PIPE_6_16 62

#define URING_CQ_MIN 4096	/* Completion entries: a page per 256. */
#define URING_CQ_LEAST 256	/* If memory is short. */
#define URING_RESERVE 256	/* For sources and cancels. */
#define URING_FILES 1024	/* Registered files: descriptors below this. */
#define URING_BUFS 1024		/* Registered buffers: the old limit. */

#define URING_BIT(kind) (UINT64_C(1) << (kind))

_Static_assert(IO_KINDS <= 64, "a kind is a bit");

/*
 * Two counters in one word, because every operation changes both: of all
 * counted operations, and in the upper half of those that are sure to end by
 * themselves. An overflow of the lower into the upper half cancels out in the
 * difference of two words.
 */
#define URING_ONE UINT64_C(1)
#define URING_ONE_SURE (UINT64_C(1) << 32)

/* Kinds that wait for a descriptor to become readable, or writable. */
#define URING_IN_KINDS                                                     \
	(URING_BIT(IO_READ) | URING_BIT(IO_READV) | URING_BIT(IO_ACCEPT) | \
	 URING_BIT(IO_RECV) | URING_BIT(IO_RECVMSG))
#define URING_OUT_KINDS                                                    \
	(URING_BIT(IO_WRITE) | URING_BIT(IO_WRITEV) | URING_BIT(IO_SEND) | \
	 URING_BIT(IO_SENDV) | URING_BIT(IO_SENDMSG))

/* The owner of a completion, in the low bits of its user data. */
enum uring_tag {
	TAG_OP,			/* The rest is an operation. */
	TAG_SOURCE,		/* A source, its generation in bits 48..55. */
	TAG_IGNORE,		/* A cancel request. */
	TAG_WAKE,		/* The poll on the eventfd. */
	TAG_ENTRY,		/* An operation whose entry is the caller's. */
	TAG_MASK = 7,
};

#define TAG_GEN_SHIFT 48

struct source_list {
	struct source *first;
	struct source **last;
};

struct uring {
	struct io_uring ring;
	struct weir_reactor *r;

	/* Counts in units of URING_ONE and URING_ONE_SURE; the difference is in
	 * the kernel. */
	uint64_t begun, ended;
	uint32_t limit;			/* Limit of those, now. */
	uint32_t window;		/* The same, normally; and of the sure. */
	uint64_t unsupported;		/* Bits of enum io_kind. */
	uint32_t files_top;		/* Registered files are below this. */
	uint8_t *files;			/* By descriptor: registered? */
	uint32_t n_files;

	uint64_t reads_turn;		/* The last with reads, */
	uint32_t reads_now;		/* and how many it had. */
	uint32_t reads_before;		/* The same of the turn before it. */

	struct op_queue backlog;	/* Operations without capacity or entry. */
	struct op_queue connects;	/* The listener's backlog was full. */
	struct source_list retry;	/* Requests to make. */
	struct source_list starving;	/* Receivers without a buffer. */
	struct source_list stale;	/* To be cancelled again. */
	struct source *last_word;	/* Being delivered; its request ended. */

	int event_fd;			/* Written by wake(). */
	bool outside;			/* And by the ring: see pollfd(). */
	bool wake_polled;		/* The ring has a poll on it, */
	bool wake_wanted;		/* which it should have, */
	bool wake_ending;		/* or which was asked to end. */
	bool overflowed;		/* The flag was up when last seen. */

	/*
	 * The ring has set the flag for more completions, but there were none.
	 * The kernel may set that flag after we have taken the completion that
	 * it was set for, and clears it only when there is another.  So we act
	 * on it once in a turn, and ignore it when we decide whether to sleep:
	 * a wait in the kernel checks for itself.
	 */
	bool cried;

	/* Features of the kernel, as found by using them. */
	bool no_poll_multi;
	bool no_accept_multi;
	bool no_recv_multi;
	bool has_bundles;		/* The kernel has good ones, */
	bool no_bundles;		/* and refuses them now. */
	bool no_recvmsg_multi;
	bool has_send_zc;
	uint16_t zc_flags;		/* Flags of such a send. */
	bool has_cqe_skip;
	bool has_ring_fd;
	bool has_napi;			/* And it was asked for. */

	int nosignal;			/* Flags of a write; 0: it signals. */

	uint32_t sizes;			/* Setup flags of other sizes. */
	uint8_t sqe_shift;		/* 1: entries of 128 bytes. */
	bool big_cqes;			/* Some completions have 32 bytes. */
	const uint64_t *extra;		/* The rest of the present one. */
	uint64_t opcodes[4];		/* Bits: those that the kernel has. */

	unsigned int fallback; /* Index in the ladder of setup flags. */

	uint16_t rx_group;		/* Given to the last ring of buffers. */
	uint32_t n_rx_rings;

	uint16_t *free_bufs;		/* A stack of n_free_bufs indices. */
	uint32_t n_free_bufs;
};

static inline struct uring *uring_of(struct weir_reactor *r)
{
	return r->backend_data;
}

/* uring/setup.c: IORING_OP_ of each kind that is not always a worker's. */
extern const uint8_t uring_opcodes[IO_COPY_RANGE];

int uring_create(struct weir_reactor *r, const struct weir_reactor_opts *opts);
void uring_destroy(struct weir_reactor *r);

/* Before the first pollfd(): a ring whose eventfd can be relied on. */
int uring_undefer(struct weir_reactor *r);

/* uring.c: the submission queue is full: push it out and try again. */
struct io_uring_sqe *uring_sqe_slow(struct uring *u);

/* Whether the submission queue has an entry. */
static inline bool uring_has_sqe(const struct uring *u)
{
	const struct io_uring_sq *sq = &u->ring.sq;
	unsigned int head = __atomic_load_n(sq->khead, __ATOMIC_RELAXED);

	return likely(sq->sqe_tail - head < sq->ring_entries);
}

/*
 * Take that entry, without zeroing it.  Like io_uring_get_sqe(), for a ring
 * without a polling thread in the kernel.  @shift is u->sqe_shift.
 */
static inline struct io_uring_sqe *uring_next_sqe(struct uring *u,
						  unsigned int shift)
{
	struct io_uring_sq *sq = &u->ring.sq;

	return &sq->sqes[(sq->sqe_tail++ & sq->ring_mask) << shift];
}

/* Take an entry, or NULL if the kernel takes nothing now.  Not zeroed. */
static inline struct io_uring_sqe *uring_sqe(struct uring *u)
{
	return uring_has_sqe(u) ? uring_next_sqe(u, u->sqe_shift) :
				  uring_sqe_slow(u);
}

/* Ask for the end of the request with @user_data.  False: no entry. */
bool uring_cancel_request(struct uring *u, uint64_t user_data);

int uring_reap(struct weir_reactor *r, unsigned int max);
int uring_wait(struct weir_reactor *r, uint64_t timeout_ns);

/* See struct backend; a negative errno if there is none. */
int uring_pollfd(struct weir_reactor *r);

/* Have the ring poll the eventfd of wake(). */
void uring_poll_wake(struct uring *u);

/* In the kernel, and counted; and of these, sure to end by themselves. */
static inline uint32_t uring_in_flight(const struct uring *u)
{
	return (uint32_t)(u->begun - u->ended);
}

static inline uint32_t uring_sure(const struct uring *u)
{
	return (uint32_t)((u->begun - u->ended) >> 32);
}

/* Operations have no capacity, and moving the limit would make some. */
static inline bool uring_is_stuck(const struct uring *u)
{
	return unlikely(u->backlog.first) && uring_in_flight(u) >= u->limit &&
	       uring_sure(u) < u->window;
}

/* uring/fill.c: the next step of @op, in an entry that is zeroed but for its
 * user data, which is left as it is.  IO_NOP has none. */
typedef void uring_fill_fn(const struct uring *u, struct io_uring_sqe *sqe,
			   struct weir_op *op);
extern uring_fill_fn *const uring_fill[IO_KINDS];

/* uring/entry.c: the caller's entry; its completion. */
void uring_fill_entry(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op);
void uring_entry_cqe(struct uring *u, uint64_t user_data, int32_t res,
		     uint32_t flags);

/* The poll that comes before it. */
void uring_fill_polling(const struct uring *u, struct io_uring_sqe *sqe,
			struct weir_op *op);
void uring_fill_poll(struct io_uring_sqe *sqe, int fd, uint32_t bits);

/* poll(2)'s bits for @events, WEIR_ bits, and back. */
uint32_t uring_poll_bits(uint32_t events);
uint32_t uring_weir_bits(uint32_t bits);

/* uring/source.c */
int uring_arm(struct weir_reactor *r, struct source *s);
void uring_disarm(struct weir_reactor *r, struct source *s);
void uring_source_cqe(struct uring *u, uint64_t user_data, int32_t res,
		      uint32_t flags);
void uring_serve_sources(struct uring *u);

/* Ask those that are stale once more to end, some of them. */
void uring_repeat_sources(struct uring *u);

/* Whether some wait for nothing but an entry. */
bool uring_sources_wait(const struct uring *u);

/*
 * uring/rx.c: give the kernel a receive free list, if it has such rings; take it
 * back, when no request uses it.
 */
void uring_rx_setup(struct uring *u, struct rx_free_list *rx);
void uring_rx_end(struct weir_reactor *r, struct rx_free_list *rx);
/* Bytes of a buffer that the kernel has taken, and that was not given back. */
uint32_t uring_rx_len(const struct rx_free_list *rx, int id);
void uring_rx_returned(struct weir_reactor *r, struct rx_free_list *rx,
		       unsigned int id);

/* uring/setup.c */
int uring_fd_register(struct weir_reactor *r, int fd);
void uring_fd_unregister(struct weir_reactor *r, int fd);
int uring_buf_register(struct weir_reactor *r, const struct iovec *iov);
void uring_buf_unregister(struct weir_reactor *r, int index);

#endif /* WEIR_REACTOR_URING_H */
