/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_STANDIN_VERBS_INTERNAL_H
#define TESTS_STANDIN_VERBS_INTERNAL_H

/* What the files of the stand-in share.  One lock is around everything. */

#include "tests/standin-verbs.h"

#include <infiniband/verbs.h>

/* These are functions here, as they are in the library. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

enum standin_model {
	STANDIN_MLX5, STANDIN_MANA, STANDIN_RXE, STANDIN_SHUT, STANDIN_MODELS
};

extern struct standin standin_self;

enum standin_model standin_model_of(const struct ibv_context *ctx);
void *standin_fail(int err);
void standin_lock(void);
void standin_unlock(void);

/* What would wait for ever: say so, and end the program. */
__attribute__((noreturn)) void standin_hang(const char *call,
					    const char *what);

/* Events behind a descriptor that is readable while there are any. */
struct standin_event {
	struct standin_event *next;
	const void *owner;
	struct ibv_async_event async;
	void *more;			/* Freed with a purged event. */
};

struct standin_fifo {
	int fd;
	struct standin_event *first;
};

int standin_fifo_open(struct standin_fifo *fifo);
void standin_fifo_close(struct standin_fifo *fifo);
void standin_fifo_put(struct standin_fifo *fifo,
		      const struct standin_event *event);

/* As read() does, waits or does not.  With the lock free; 0, or -1 and errno;
 * then the lock is held, that the event be counted before it is seen. */
int standin_fifo_take(struct standin_fifo *fifo, struct standin_event *ret);
void standin_fifo_purge(struct standin_fifo *fifo, const void *owner);

struct standin_context {
	struct verbs_context verbs;	/* First: libibverbs looks for it. */
	struct standin_fifo async;
	bool quiet;			/* librdmacm's: not counted. */
};

struct ibv_context *standin_open(struct ibv_device *device, bool quiet);
void standin_memory_ops(struct verbs_context *ctx);
void standin_cq_ops(struct ibv_context *ctx);
int standin_query_device(struct ibv_context *ctx,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size);

/* What was told of @owner and not read yet is gone. */
void standin_async_purge(struct ibv_context *ctx, const void *owner);

struct standin_pd {
	struct ibv_pd pd;
	int children;
};

struct standin_qp {
	struct ibv_qp qp;
	uint32_t reported;
};

struct standin_srq {
	struct ibv_srq srq;
	uint32_t reported;
};

void standin_qp_reported(struct ibv_qp *qp);
void standin_srq_reported(struct ibv_srq *srq);

/* One that waits to be polled. */
struct standin_cqe {
	struct ibv_wc wc;
	struct standin_qp *qp;		/* Whose slots it gives back, or NULL. */
	uint32_t slots;
	bool is_recv;
};

struct standin_cq {
	struct ibv_cq cq;
	struct standin_cqe *ring;
	uint32_t size, head, count;
	bool armed, solicited_only, dead;
	uint32_t reported, async_reported;
	int users;			/* QPs and SRQs. */
};

struct standin_channel {
	struct ibv_comp_channel channel;
	struct standin_fifo events;
};

/* false: the CQ is full, or was once. */
bool standin_cq_push(struct standin_cq *cq, const struct standin_cqe *cqe,
		     bool solicited);

/* A CQE was polled: its slots are free. */
void standin_qp_polled(struct standin_qp *qp, const struct standin_cqe *cqe);

/* The CQ was overrun: what its QPs do is lost. */
void standin_qps_lose(struct standin_cq *cq);

#endif /* TESTS_STANDIN_VERBS_INTERNAL_H */
