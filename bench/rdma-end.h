/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_RDMA_END_H
#define BENCH_RDMA_END_H

/*
 * Two ends of a connection, each in a process of its own: this one, which
 * measures, and a child, which answers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/buf.h>
#include <weir/conn.h>
#include <weir/job.h>
#include <weir/message.h>

#define END_JOBS 128u		/* As many as perftest has in flight. */
#define END_MEMORY (2u << 20)	/* To move from, and to move to. */
#define END_HALF (END_MEMORY / 2)

struct end {
	struct weir_reactor *r;
	struct weir_listener *listener;
	struct weir_conn *c;
	struct weir_dma *dma;
	struct weir_domain *there;
	struct weir_device *dev;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_job *jobs;		/* END_JOBS. */
	char *mem;
	uint32_t spin_ns;
	struct weir_srq *srq;
	struct weir_op said;
	bool saying;
	uint32_t heard;			/* Messages. */
	int wire;			/* To the other process. */
	pid_t peer;
	uint64_t far;			/* Where the peer's memory is, */
	struct weir_remote_key key;	/* and by which key. */
};

/* Make the child, and connect.  Sets @end up; the child never comes back.
 * @spin_ns is the reactors'. */
void end_open(struct end *end, const char *address, uint32_t spin_ns);
void end_close(struct end *end);

/* @len bytes at @off of the peer's memory. */
struct weir_operand end_far(struct end *end, uint64_t off, uint64_t len);

/* A buf of @len bytes at @off here, with or without data. */
struct weir_buf *end_buf(struct end *end, uint64_t off, size_t len, bool data);

/*
 * 64 bytes there and 64 back, .n times: written, without ever sleeping; or
 * sent, with both ends asleep meanwhile.
 */
#define PING_BYTES 64u
struct ping {
	uint32_t n;
	uint32_t sent;
};

/* Have the child take part in @p. */
void end_ask(struct end *end, const struct ping *p);

/* rdma-ping.c: take part in it; @first is who measures, and @ns gets the time
 * of each. */
void ping_run(struct end *end, const struct ping *p, bool first, uint64_t *ns);
void ping_message(struct weir_conn *c, const struct weir_message *m,
		  void *end);

#endif /* BENCH_RDMA_END_H */
