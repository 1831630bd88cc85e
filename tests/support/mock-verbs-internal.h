/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_VERBS_INTERNAL_H
#define TESTS_MOCK_VERBS_INTERNAL_H

/* What the files of the mock share.  One lock is around everything. */

#include "tests/support/mock-verbs.h"

#include <infiniband/verbs.h>

#include "sim/world.h"

/* These are functions here, as they are in the library. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

enum mock_model { MOCK_MLX5, MOCK_MANA, MOCK_RXE, MOCK_SHUT, MOCK_MODELS };

extern struct mock mock_self;

enum mock_model mock_model_of(const struct ibv_context *ctx);
void *mock_fail(int err);
void mock_lock(void);
void mock_unlock(void);

/* What would wait for ever: say so, and end the program. */
__attribute__((noreturn)) void mock_hang(const char *call, const char *what);

/* Events behind a descriptor that is readable while there are any. */
struct mock_event {
	struct mock_event *next;
	const void *owner;
	struct ibv_async_event async;
	void *more; /* Freed with a purged event. */
};

struct mock_fifo {
	int fd;
	struct mock_event *first;
};

int mock_fifo_open(struct mock_fifo *fifo);
void mock_fifo_close(struct mock_fifo *fifo);
void mock_fifo_put(struct mock_fifo *fifo, const struct mock_event *event);

/* As read() does, waits or does not.  With the lock free; 0, or -1 and errno;
 * then the lock is held, that the event be counted before it is seen. */
int mock_fifo_take(struct mock_fifo *fifo, struct mock_event *ret);
void mock_fifo_purge(struct mock_fifo *fifo, const void *owner);

struct mock_context {
	struct verbs_context verbs; /* First: libibverbs looks for it. */
	struct mock_fifo async;
	bool quiet; /* librdmacm's: not counted. */
};

struct ibv_context *mock_open(struct ibv_device *device, bool quiet);
void mock_memory_ops(struct verbs_context *ctx);
void mock_cq_ops(struct ibv_context *ctx);
int mock_query_device(struct ibv_context *ctx,
		      const struct ibv_query_device_ex_input *input,
		      struct ibv_device_attr_ex *attr, size_t size);

/* What was told of @owner and not read yet is gone. */
void mock_async_purge(struct ibv_context *ctx, const void *owner);

struct mock_pd {
	struct ibv_pd pd;
	int children;
};

/* The kernel's object of device memory, and a handle of it. */
struct mock_memory {
	char *bytes;
	size_t len;
	int fd, refs, mrs;
};

struct mock_dm {
	struct ibv_dm dm;
	struct mock_memory *memory;
};

struct mock_mr {
	struct ibv_mr mr;
	struct mock_memory *memory;
	char *bytes; /* NULL: the CPU does not reach it. */
	uint64_t iova;
	unsigned int access;
	int windows; /* Bound to it. */
	void *mapped;
	size_t mapped_len;
};

struct mock_qp;
struct mock_cq;

struct mock_mw {
	struct ibv_mw mw;
	uint32_t rkey; /* What the device knows. */
	struct mock_mr *mr; /* NULL: not bound. */
	struct mock_qp *qp; /* Type 2: the one it is bound on. */
	uint64_t addr, len;
	unsigned int access;
};

/* Keys: an index, and a byte that tells what was from what is. */
#define MOCK_RKEY 0x80000000u

uint32_t mock_key_new(struct mock_mr *mr, struct mock_mw *mw);
void mock_key_free(uint32_t key);

struct mock_span {
	char *at;
	size_t len;
};

/* What @sge names, with at least @need of enum ibv_access_flags.  A wrong key
 * is IBV_WC_LOC_QP_OP_ERR, a wrong range IBV_WC_LOC_PROT_ERR. */
enum ibv_wc_status mock_local(const struct mock_qp *qp,
			      const struct ibv_sge *sge, unsigned int need,
			      struct mock_span *ret);
enum ibv_wc_status mock_remote(const struct mock_qp *qp, uint32_t rkey,
			       uint64_t addr, size_t len, unsigned int need,
			       struct mock_span *ret);

struct mock_wqe;

enum ibv_wc_status mock_bind(struct mock_qp *qp, const struct mock_wqe *wqe);
bool mock_invalidate(struct mock_qp *qp, uint32_t rkey);
void mock_unbind_all(const struct mock_qp *qp);
void mock_window_ops(struct ibv_context *ctx);

/* A work request, as the device has it. */
struct mock_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t imm; /* Or the rkey to invalidate. */
	uint64_t remote_addr, compare_add, swap;
	uint32_t rkey;
	struct mock_mw *mw;
	uint32_t mw_key; /* By which the user knows it. */
	struct ibv_mw_bind_info bind;
	char *inlined;
	struct mock_span inlined_span;
	int n_sge;
	struct ibv_sge sge[MOCK_MAX_SGE];
};

/* The bytes of one side of a transfer. */
struct mock_side {
	struct mock_span span[MOCK_MAX_SGE];
	int n;
	size_t len;
};

enum ibv_wc_status mock_sges(const struct mock_qp *qp,
			     const struct mock_wqe *wqe, unsigned int need,
			     struct mock_side *ret);
enum ibv_wc_status mock_local_side(const struct mock_qp *qp,
				   const struct mock_wqe *wqe,
				   unsigned int need, struct mock_side *ret);
void mock_move(const struct mock_side *to, const struct mock_side *from);

/* Slots [head, next) are done and not free yet, [next, tail) to be done. */
struct mock_ring {
	struct mock_wqe *wqe;
	uint32_t size, head, next, tail;
};

void mock_ring_open(struct mock_ring *ring, uint32_t size);
void mock_ring_close(struct mock_ring *ring);
struct mock_wqe *mock_ring_next(struct mock_ring *ring);
struct mock_wqe *mock_ring_capacity(struct mock_ring *ring);

struct mock_srq {
	struct ibv_srq srq;
	struct mock_ring ring;
	uint32_t max_sge, limit, taken; /* Taken and not polled yet. */
	uint32_t reported;
	int users;
};

struct mock_qp {
	struct ibv_qp qp;
	struct mock_qp *next;
	enum ibv_qp_state state;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	struct mock_ring sq, rq;
	uint32_t silent; /* Done since the last CQE. */
	uint32_t flush_to; /* Of its receives. */
	bool soft; /* Soft-RoCE has ways of its own. */
	bool sig_all;
	bool killed; /* Answers nothing. */
	bool lost; /* Its CQ was overrun. */
	bool told_last; /* IBV_EVENT_QP_LAST_WQE_REACHED */
	uint32_t reported;
	/* In a simulated world: */
	struct sim_event timer; /* When it goes on. */
	bool blocked; /* Until something changes. */
	uint32_t number; /* In this world. */
};

extern struct mock_qp *mock_qps;

struct mock_qp *mock_qp_find(uint32_t num);
void mock_qp_event(struct mock_qp *qp, enum ibv_event_type type);
void mock_qp_fail(struct mock_qp *qp);
void mock_cq_forget(struct mock_cq *cq, struct mock_qp *qp);
struct mock_wqe *mock_srq_take(struct mock_srq *srq);
int mock_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
void mock_post_ops(struct ibv_context *ctx);

/* MOCK_LOST */
bool mock_is_cut(void);

/* Do what can be done, unless it is held. */
void mock_pump(void);

/* The next work request of @qp, if it has one.  Returns whether it was done. */
bool mock_step_qp(struct mock_qp *qp);

/* Whether it has one. */
bool mock_qp_is_due(struct mock_qp *qp);

/* It ends with @status, if there is one to be sent. */
void mock_fail_next(struct mock_qp *qp, enum ibv_wc_status status);

/* mock-sim.c: whether there is a world; what happens in it. */
bool mock_in_world(void);

/* All QPs that are due, and not blocked, get their time. */
void mock_sim_pump(void);

/* A processor looks at a queue: somebody may be quicker. */
void mock_sim_meanwhile(void);

/* @qp has ended a work request. */
void mock_sim_ended(const struct mock_qp *qp, const struct ibv_wc *wc);

/* Whether the device takes no work request of @qp now. */
bool mock_sim_refuses(const struct mock_qp *qp);

struct mock_qp *mock_sim_qp(void);
void mock_sim_qp_free(struct mock_qp *qp);

void mock_qp_reported(struct ibv_qp *qp);
void mock_srq_reported(struct ibv_srq *srq);

/* One that waits to be polled. */
struct mock_cqe {
	struct ibv_wc wc;
	struct mock_qp *qp; /* Whose slots it gives back, or NULL. */
	uint32_t slots;
	bool is_recv;
};

struct mock_cq {
	struct ibv_cq cq;
	struct mock_cqe *ring;
	uint32_t size, head, count;
	bool armed, solicited_only, dead;
	uint32_t reported, async_reported;
	int users; /* QPs and SRQs. */
};

struct mock_channel {
	struct ibv_comp_channel channel;
	struct mock_fifo events;
};

/* false: the CQ is full, or was once. */
bool mock_cq_push(struct mock_cq *cq, const struct mock_cqe *cqe,
		  bool solicited);

/* A CQE was polled: its slots are free. */
void mock_qp_polled(struct mock_qp *qp, const struct mock_cqe *cqe);

/* The CQ was overrun: what its QPs do is lost. */
void mock_qps_lose(struct mock_cq *cq);

#endif /* TESTS_MOCK_VERBS_INTERNAL_H */
