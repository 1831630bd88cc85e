/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_VERBS_H
#define TESTS_MOCK_VERBS_H

/*
 * A mock for RDMA devices: what rdma-core offers, as far as weir uses it,
 * defined by the test program, which comes before the library that has the real
 * thing.  No card is there; what is transferred is copied within the process.
 * The rules are those of the drivers, as read in rdma-core and tried on
 * soft-RoCE (test-verbs-rules.c holds both to the same cases):
 *
 *	mock_mlx5	all of it, with mlx5's checks
 *	mock_mana	device memory, but copies nothing and imports nothing
 *	mock_rxe	neither device memory nor dma-bufs, as soft-RoCE
 *	mock_shut	cannot be opened by this user
 *
 * What soft-RoCE has of its own, as its mock has it:
 *
 *	a memory window reaches all of its region, whatever its range
 *	a receive posted in error is flushed when the QP is told ERR once more
 *	a slot is free when its work is done; a card wants the completion polled
 *	queues have more capacity than they say
 *	a wrong lkey of what is sent, and any receive that is too short or has no
 *	right, is IBV_WC_LOC_QP_OP_ERR; the sender has IBV_WC_REM_OP_ERR
 *	no event tells of a QP's error, nor of its last receive
 *	what a QP has in a CQ stays there when it is destroyed or reset
 *	the flag of a message that invalidates is not IBV_WC_WITH_INV
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_async_event;
struct ibv_context;
struct ibv_cq;
struct ibv_qp;
struct weir_sim;

#define MOCK_DM_SIZE (128u << 10)
#define MOCK_MAX_CQE 65535
#define MOCK_MAX_WR 8192
#define MOCK_MAX_SGE 30
#define MOCK_MAX_READS 16
#define MOCK_MAX_INLINE 512
#define MOCK_MAX_MESSAGE (1u << 30)

struct mock {
	/* What there is now; all 0 when everything was given back. */
	int contexts, pds, mrs, dms, imports, channels, cqs;
	int qps, srqs, mws, ids, cm_channels;

	/* Events of all kinds that were read and not acknowledged yet. */
	int unacked;

	/* How often: polled and armed, acknowledged and posted to be sent (the
	 * calls), completions and completion events made. */
	unsigned int polls, arms, acks, posts, cqes, events;

	/* What the last registration asked for, and how many there were. */
	unsigned int access;
	uint64_t off, iova;
	size_t len;
	int fd;
	int registrations;

	uint32_t max_message; /* Of a port, in bytes; 0: the most. */

	/* What it is to refuse. */
	size_t memlock; /* More bytes than this are ENOMEM. */
	bool bound; /* To deregister is EBUSY: a window is bound. */
	bool no_atomics; /* Devices say that they do none; */
	bool all_atomics; /* or that they are atomic to all here. */
	int dmabuf_errno; /* Of a dma-buf of device memory; 0: it works. */

	/* Of rdma_cm: the device that addresses belong to (NULL:
	 * mock_mlx5); what the resolving of an address or route, and a
	 * request to connect end in, as the status of an error event, or 0. */
	const char *cm_device;
	int fail_addr, fail_route, fail_connect;

	/* Calls of ibv_fork_init(), and registrations before the first. */
	int fork_inits, unsafe;
};

/* NULL in programs that have no mock: they see what is there. */
struct mock *mocked(void) __attribute__((weak));

/* Where the real thing would wait for ever, because events were not
 * acknowledged, the mock says so and ends the program (SIGABRT). */

/* A completion of no work request; @status is one of enum ibv_wc_status.
 * false: the CQ was overrun, by this one or before. */
bool mock_complete(struct ibv_cq *cq, uint64_t wr_id, int status,
		   bool solicited) __attribute__((weak));

/* An event without a completion. */
void mock_fire(struct ibv_cq *cq) __attribute__((weak));

/* As if one more had come than there is capacity for. */
void mock_overrun(struct ibv_cq *cq) __attribute__((weak));

bool mock_is_armed(const struct ibv_cq *cq) __attribute__((weak));

/* An asynchronous event, of any kind. */
void mock_async(struct ibv_context *ctx, const struct ibv_async_event *event)
	__attribute__((weak));

/*
 * Work requests are done when they are posted, in the call, unless they are
 * held: then they, and the flushes of a QP in error, wait to be told.  Each QP
 * does its own in order, and QPs take turns.
 */
void mock_hold(bool hold) __attribute__((weak));

/* Do at most @most of them.  Returns how many there were. */
unsigned int mock_step(unsigned int most) __attribute__((weak));

/*
 * The wire.  No time passes in here: where nobody answers, all the retries of a
 * QP are made at once, and end in IBV_WC_RETRY_EXC_ERR; so do those to a
 * receiver that is not ready.  Those of a QP that retries for ever (timeout 0;
 * rnr_retry 7) wait.
 */
enum mock_link {
	MOCK_UP,
	MOCK_LOST, /* Nothing arrives. */
	MOCK_STALLED, /* Nothing of a QP arrives yet. */
};
void mock_set_link(enum mock_link state) __attribute__((weak));

/* The process of this QP is dead: it answers nothing from now on. */
void mock_kill(struct ibv_qp *qp) __attribute__((weak));

/* The device takes it to the error state: IBV_EVENT_QP_FATAL. */
void mock_break(struct ibv_qp *qp) __attribute__((weak));

/*
 * Connections, by rdma_cm, are made within the process: all addresses are its
 * own, IPv4 or IPv6, but those of documentation.  No route goes to 192.0.2.0/24
 * and 2001:db8:1::/48; nobody answers in 198.51.100.0/24 and 2001:db8:2::/48;
 * no RDMA device goes to 203.0.113.0/24 and 2001:db8:3::/48.  Ports are those
 * of its listeners.  As with RoCE, private data are told in full length, filled
 * up with zeros: 56 bytes of a request, 196 of an answer, 148 of a refusal.
 *
 * What happens is told at once, unless it is held: then events wait to be told
 * to come, in order.
 */
void mock_cm_hold(bool hold) __attribute__((weak));
unsigned int mock_cm_step(unsigned int most) __attribute__((weak));

/* RDMA_CM_EVENT_TIMEWAIT_EXIT, which the kernel tells seconds after the rest,
 * is held until it is not to be. */
void mock_cm_hold_timewait(bool hold) __attribute__((weak));

/* RDMA_CM_EVENT_DEVICE_REMOVAL to all ids that have a device. */
void mock_cm_remove_device(void) __attribute__((weak));

/*
 * In a simulated world, until mock_leave(), before which all QPs and ids are
 * to be destroyed: work requests are done, and what rdma_cm tells arrives, in
 * the world's time.  Of its faults devices have
 *
 *	delay	work takes longer
 *	stall	nothing of a QP arrives for a while; what rdma_cm waits for
 *		never does
 *	reorder	events of the device or of rdma_cm's that mean nothing
 *	crash	the process of its peer is dead
 *	reset	the device takes it to the error state
 *	error	a work request fails
 *	full	its completion queue is overrun
 *	refused	ibv_post_send() is ENOMEM, perhaps in the middle of a list
 */
void mock_enter(struct weir_sim *sim) __attribute__((weak));
void mock_leave(void) __attribute__((weak));

#endif /* TESTS_MOCK_VERBS_H */
