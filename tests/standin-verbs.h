/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_STANDIN_VERBS_H
#define TESTS_STANDIN_VERBS_H

/*
 * A stand-in for RDMA devices: what rdma-core offers, as far as weir uses it,
 * defined by the test program, which comes before the library that has the real
 * thing.  No card is there; what is transferred is copied within the process.
 * The rules are those of the drivers, as read in rdma-core and tried on
 * soft-RoCE (test-verbs-rules.c holds both to the same cases):
 *
 *	standin_mlx5	all of it, with mlx5's checks
 *	standin_mana	device memory, but copies nothing and imports nothing
 *	standin_rxe	memory regions and nothing else, as soft-RoCE
 *	standin_shut	cannot be opened by this user
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_async_event;
struct ibv_context;
struct ibv_cq;

#define STANDIN_DM_SIZE (128u << 10)
#define STANDIN_MAX_CQE 65535
#define STANDIN_MAX_WR 8192
#define STANDIN_MAX_SGE 30
#define STANDIN_MAX_READS 16
#define STANDIN_MAX_MESSAGE (1u << 30)

struct standin {
	/* What there is now; all 0 when everything was given back. */
	int contexts, pds, mrs, dms, imports, channels, cqs;

	/* Events of all kinds that were read and not acknowledged yet. */
	int unacked;

	/* How often: polled and armed, acknowledged (the calls), completions
	 * and completion events made. */
	unsigned int polls, arms, acks, cqes, events;

	/* What the last registration asked for, and how many there were. */
	unsigned int access;
	uint64_t off, iova;
	size_t len;
	int fd;
	int registrations;

	/* What it is to refuse. */
	size_t memlock;		/* More bytes than this are ENOMEM. */
	bool bound;		/* To deregister is EBUSY: a window is bound. */
	int dmabuf_errno;	/* Of a dma-buf of device memory; 0: it works. */

	/* Calls of ibv_fork_init(), and registrations before the first. */
	int fork_inits, unsafe;
};

/* NULL in programs that have no stand-in: they see what is there. */
struct standin *standin(void) __attribute__((weak));

/* Where the real thing would wait for ever, because events were not
 * acknowledged, the stand-in says so and ends the program (SIGABRT). */

/* A completion of no work request; @status is one of enum ibv_wc_status.
 * false: the CQ was overrun, by this one or before. */
bool standin_complete(struct ibv_cq *cq, uint64_t wr_id, int status,
		      bool solicited) __attribute__((weak));

/* An event without a completion. */
void standin_fire(struct ibv_cq *cq) __attribute__((weak));

/* As if one more had come than there is room for. */
void standin_overrun(struct ibv_cq *cq) __attribute__((weak));

bool standin_is_armed(const struct ibv_cq *cq) __attribute__((weak));

/* An asynchronous event, of any kind. */
void standin_async(struct ibv_context *ctx,
		   const struct ibv_async_event *event) __attribute__((weak));

#endif /* TESTS_STANDIN_VERBS_H */
