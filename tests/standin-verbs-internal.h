/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_STANDIN_VERBS_INTERNAL_H
#define TESTS_STANDIN_VERBS_INTERNAL_H

/* What the files of the stand-in share.  One lock is around everything. */

#include "tests/standin-verbs.h"

#include <infiniband/verbs.h>

#include "reactor/sim.h"

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

/* The kernel's object of device memory, and a handle of it. */
struct standin_memory {
	char *bytes;
	size_t len;
	int fd, refs, mrs;
};

struct standin_dm {
	struct ibv_dm dm;
	struct standin_memory *memory;
};

struct standin_mr {
	struct ibv_mr mr;
	struct standin_memory *memory;
	char *bytes;			/* NULL: the CPU does not reach it. */
	uint64_t iova;
	unsigned int access;
	int windows;			/* Bound to it. */
	void *mapped;
	size_t mapped_len;
};

struct standin_qp;
struct standin_cq;

struct standin_mw {
	struct ibv_mw mw;
	uint32_t rkey;			/* What the device knows. */
	struct standin_mr *mr;		/* NULL: not bound. */
	struct standin_qp *qp;		/* Type 2: the one it is bound on. */
	uint64_t addr, len;
	unsigned int access;
};

/* Keys: an index, and a byte that tells what was from what is. */
#define STANDIN_RKEY 0x80000000u

uint32_t standin_key_new(struct standin_mr *mr, struct standin_mw *mw);
void standin_key_free(uint32_t key);

struct standin_span {
	char *at;
	size_t len;
};

/* What @sge names, with at least @need of enum ibv_access_flags.  A wrong key
 * is IBV_WC_LOC_QP_OP_ERR, a wrong range IBV_WC_LOC_PROT_ERR. */
enum ibv_wc_status standin_local(const struct standin_qp *qp,
				 const struct ibv_sge *sge, unsigned int need,
				 struct standin_span *ret);
enum ibv_wc_status standin_remote(const struct standin_qp *qp, uint32_t rkey,
				  uint64_t addr, size_t len, unsigned int need,
				  struct standin_span *ret);

struct standin_wqe;

enum ibv_wc_status standin_bind(struct standin_qp *qp,
				const struct standin_wqe *wqe);
bool standin_invalidate(struct standin_qp *qp, uint32_t rkey);
void standin_unbind_all(const struct standin_qp *qp);
void standin_window_ops(struct ibv_context *ctx);

/* A work request, as the device has it. */
struct standin_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t imm;			/* Or the rkey to invalidate. */
	uint64_t remote_addr, compare_add, swap;
	uint32_t rkey;
	struct standin_mw *mw;
	uint32_t mw_key;		/* By which the user knows it. */
	struct ibv_mw_bind_info bind;
	char *inlined;
	struct standin_span inlined_span;
	int n_sge;
	struct ibv_sge sge[STANDIN_MAX_SGE];
};

/* The bytes of one side of a transfer. */
struct standin_side {
	struct standin_span span[STANDIN_MAX_SGE];
	int n;
	size_t len;
};

enum ibv_wc_status standin_sges(const struct standin_qp *qp,
				const struct standin_wqe *wqe,
				unsigned int need, struct standin_side *ret);
enum ibv_wc_status standin_local_side(const struct standin_qp *qp,
				      const struct standin_wqe *wqe,
				      unsigned int need,
				      struct standin_side *ret);
void standin_move(const struct standin_side *to,
		  const struct standin_side *from);

/* Slots [head, next) are done and not free yet, [next, tail) to be done. */
struct standin_ring {
	struct standin_wqe *wqe;
	uint32_t size, head, next, tail;
};

void standin_ring_open(struct standin_ring *ring, uint32_t size);
void standin_ring_close(struct standin_ring *ring);
struct standin_wqe *standin_ring_next(struct standin_ring *ring);
struct standin_wqe *standin_ring_room(struct standin_ring *ring);

struct standin_srq {
	struct ibv_srq srq;
	struct standin_ring ring;
	uint32_t max_sge, limit, taken;	/* Taken and not polled yet. */
	uint32_t reported;
	int users;
};

struct standin_qp {
	struct ibv_qp qp;
	struct standin_qp *next;
	enum ibv_qp_state state;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	struct standin_ring sq, rq;
	uint32_t silent;		/* Done since the last CQE. */
	uint32_t flush_to;		/* Of its receives. */
	bool soft;			/* Soft-RoCE has ways of its own. */
	bool sig_all;
	bool killed;			/* Answers nothing. */
	bool lost;			/* Its CQ was overrun. */
	bool told_last;			/* IBV_EVENT_QP_LAST_WQE_REACHED */
	uint32_t reported;
	/* In a simulated world: */
	struct sim_event timer;		/* When it goes on. */
	bool blocked;			/* Until something changes. */
	uint32_t number;		/* In this world. */
};

extern struct standin_qp *standin_qps;

struct standin_qp *standin_qp_find(uint32_t num);
void standin_qp_event(struct standin_qp *qp, enum ibv_event_type type);
void standin_qp_fail(struct standin_qp *qp);
void standin_cq_forget(struct standin_cq *cq, struct standin_qp *qp);
struct standin_wqe *standin_srq_take(struct standin_srq *srq);
int standin_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad);
void standin_post_ops(struct ibv_context *ctx);

/* STANDIN_LOST */
bool standin_is_cut(void);

/* Do what can be done, unless it is held. */
void standin_pump(void);

/* The next work request of @qp, if it has one.  Returns whether it was done. */
bool standin_step_qp(struct standin_qp *qp);

/* Whether it has one. */
bool standin_qp_is_due(struct standin_qp *qp);

/* It ends with @status, if there is one to be sent. */
void standin_fail_next(struct standin_qp *qp, enum ibv_wc_status status);

/* standin-sim.c: whether there is a world; what happens in it. */
bool standin_in_world(void);

/* All QPs that are due, and not blocked, get their time. */
void standin_sim_pump(void);

/* A processor looks at a queue: somebody may be quicker. */
void standin_sim_meanwhile(void);

/* @qp has ended a work request. */
void standin_sim_ended(const struct standin_qp *qp, const struct ibv_wc *wc);

/* Whether the device takes no work request of @qp now. */
bool standin_sim_refuses(const struct standin_qp *qp);

struct standin_qp *standin_sim_qp(void);
void standin_sim_qp_free(struct standin_qp *qp);

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
