/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_URING_INTERNAL_H
#define TESTS_MOCK_URING_INTERNAL_H

/*
 *	mock-uring.c		rings: setup, registration, completions, enter
 *	mock-uring-request.c	a request from its entry to its end
 *	mock-uring-try.c	operations, without waiting
 *
 * A request is in one place, and ends in it or leaves it for the next:
 *
 *	NEW --> WAITS --> DUE --> gone, with its last completion
 *	  |       ^        |
 *	  +-------+--------+
 *
 *	WAITS	for its descriptor, in the epoll set
 *	DUE	to be tried, or its last completion to be made, at a step
 */

#include <liburing.h>
#include <pthread.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "tests/support/mock-uring.h"

#ifndef IORING_FEAT_REG_REG_RING
#define IORING_FEAT_REG_REG_RING (1u << 13)
#endif
#ifndef IORING_SETUP_CQE_MIXED
#define IORING_SETUP_CQE_MIXED (1u << 18)
#endif
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1u << 3)
#define IORING_NOTIF_USAGE_ZC_COPIED (1u << 31)
#endif

#define FEAT_RECVSEND_BUNDLE (1u << 14)	/* 6.10 */
#define RECVSEND_BUNDLE (1u << 4)
#define BUNDLE 8		/* Buffers in one, at most: the kernel takes more. */

#define OP_FTRUNCATE 55		/* IORING_OP_FTRUNCATE, of Linux 6.9 */

#define N_FILES 1024
#define N_BUFS 1024
#define N_GROUPS 8

/* Where the model's own descriptors begin. */
#define FD_BASE 1500

struct ring;

struct request {
	TAILQ_ENTRY(request) link;
	struct ring *ring;
	struct io_uring_sqe sqe;
	int fd;			/* A descriptor of its own; -1: none. */
	bool in_set;		/* The epoll set has it. */
	bool due;		/* In the list of those that are DUE. */
	bool ended;		/* It has its result. */
	bool thread;		/* A thread of the kernel has it; */
	bool signalled;		/* which was asked to end. */
	bool storage;		/* Its operations wait for no peer. */
	bool tried;
	bool connecting;
	bool notif;		/* The last completion is a notification. */
	uint32_t misses;	/* So many cancels miss. */
	uint64_t at;		/* The step at which it is due. */
	uint32_t done;		/* Bytes. */
	int32_t res;
	uint32_t flags;		/* Of the last completion. */
	char *path[2];
	struct sockaddr_storage peer;
};

TAILQ_HEAD(requests, request);

struct completion {
	STAILQ_ENTRY(completion) link;
	uint64_t data;
	int32_t res;
	uint32_t flags;
};

struct buf_group {
	struct io_uring_buf_ring *ring;	/* NULL: there is none. */
	unsigned int entries;
	uint16_t head;
	int id;
};

struct ring {
	struct ring *next;
	pthread_mutex_t lock;
	int version;		/* 100 * major + minor */
	unsigned int setup;	/* IORING_SETUP_ */
	uint64_t draws;
	uint64_t step;
	bool entered;
	pthread_t owner;	/* The thread that entered last. */

	unsigned int sq_head, sq_tail, sq_mask, sq_flags, sq_dropped;
	unsigned int cq_head, cq_tail, cq_mask, cq_flags, cq_overflow;
	unsigned int sq_entries, cq_entries, sqe_shift, cqe_shift;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	STAILQ_HEAD(, completion) overflow;

	int epoll;
	struct requests waits, due;

	int files[N_FILES];	/* Descriptors of the model's own, or -1. */
	bool has_files;
	struct iovec bufs[N_BUFS];
	bool has_bufs;
	struct buf_group groups[N_GROUPS];

	int event_fd;		/* -1: none. */
	pthread_t watcher;	/* The thread that signals it; */
	int kick;		/* an eventfd for that thread. */
	bool stop;
};

/* The rings of buffers of this number; NULL: there is none. */
struct buf_group *mock_uring_group(struct ring *ring, int id);

/* Whether what happens once in @n times happens now. */
bool mock_uring_draw(struct ring *ring, uint32_t n);
uint32_t mock_uring_below(struct ring *ring, uint32_t n);

/* A completion; false: the queue was full, and it will be made later. */
bool mock_uring_complete(struct ring *ring, uint64_t data, int32_t res,
			 uint32_t flags);

/* mock-uring-request.c: a new one; false: its entry is refused. */
bool mock_uring_issue(struct ring *ring, const struct io_uring_sqe *sqe);
/* All that is ready, or due at this step. */
void mock_uring_act(struct ring *ring);
/* Whether there is something of the kind, or will be without an event. */
bool mock_uring_is_due(const struct ring *ring);
void mock_uring_drop(struct ring *ring);
/* Take what the epoll set has. */
void mock_uring_notice(struct ring *ring);

/* mock-uring-try.c: the result, or -EAGAIN if it would have to wait. */
int32_t mock_uring_try(struct request *req);
/* Whether its entry makes sense to this version. */
int mock_uring_check(const struct ring *ring, const struct io_uring_sqe *sqe);
int mock_uring_fd(const struct request *req);
/* The events to wait for. */
uint32_t mock_uring_events(const struct request *req);
/* Whether a thread of the kernel always does it. */
bool mock_uring_is_for_thread(const struct request *req);
/* Whether @fd is in non-blocking mode and says so. */
bool mock_uring_says_again(const struct request *req);

#endif /* TESTS_MOCK_URING_INTERNAL_H */
