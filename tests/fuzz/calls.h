/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FUZZ_CALLS_H
#define TESTS_FUZZ_CALLS_H

/* What the parts of fuzz-calls.c share: its model of the objects that exist,
 * and how a call is made and judged. */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <weir/call.h>
#include <weir/chain.h>
#include <weir/device.h>
#include <weir/dm.h>
#include <weir/dma.h>
#include <weir/domain-user.h>
#include <weir/domain.h>
#include <weir/engine.h>
#include <weir/export.h>
#include <weir/child.h>
#include <weir/alarm.h>
#include <weir/file.h>
#include <weir/fswatch.h>
#include <weir/fs.h>
#include <weir/group.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/kind.h>
#include <weir/lease.h>
#include <weir/mmap.h>
#include <weir/object.h>
#include <weir/pipeline.h>
#include <weir/poll-hook.h>
#include <weir/pool.h>
#include <weir/provider.h>
#include <weir/reactor.h>
#include <weir/route.h>
#include <weir/segment.h>
#include <weir/shared-pool.h>
#include <weir/sim/file.h>
#include <weir/sim/socket.h>
#include <weir/sim/world.h>
#include <weir/socket.h>
#include <weir/stats.h>
#include <weir/stream.h>
#include <weir/sync-remote.h>
#include <weir/sync.h>
#include <weir/timer.h>
#include <weir/udp.h>
#include <weir/uring.h>
#include <weir/watch.h>

enum {
	CORES = 2,
	TASKS = 48,
	PENDING = 64,
	MEMORY = 8192,		/* Bytes of an mmap, and of a file. */
	LEN_MAX = 1024,		/* Of a task's buffer. */
	ENGINES = 2,
	KINDS = 3,
	STEPS = 6,
	AREA = 8 * 4096,	/* External memory. */
};

/* What objects there are. */
enum what {
	A_FD, A_DMA, A_CHAIN, A_PIPELINE, A_POOL, AN_INVENTORY, A_MMAP, A_BUF,
	A_DOMAIN, A_TIMER, A_WATCH, AN_EVENT, A_SIGNAL, A_POLLER, AN_ACCEPTOR,
	A_STREAM, A_RECEIVER, A_UDP, A_SYNC, A_LEASE, AN_EXPORTER, A_SHARED_POOL,
	A_GROUP, A_PAGE, A_DEVICE, A_DM, KEPT, A_DATAGRAM, A_TRANSLATION, A_HOOK,
	AN_OBJECT, A_CHILD, AN_ALARM, A_FSWATCH,
	N_WHATS,
};

enum { OF_EACH = 8 };

/* Of descriptors. */
enum { FD_FILE, FD_STREAM, FD_PIPE, FD_LISTENS, FD_DATAGRAMS };

struct core {
	struct weir_reactor *r;	/* NULL: none. */
	uint32_t number;
};

struct link;

struct object {
	enum what what;
	void *h;		/* NULL: being made. */
	struct core *core;	/* NULL: the process has it. */
	uint32_t pins;		/* Why it must not be ended yet. */
	bool hidden;		/* It is being destroyed. */
	bool flag;		/* A domain of a file; an import; a receiver with
				 * buffers of its own; a buf whose memory another
				 * has, too. */
	int fd, fd_kind;
	char *mem;
	struct object *of;	/* That it is made of, and has pinned. */
	struct link *link;	/* Of a chain. */
};

/* An operation.  It is freed when it has ended, so that ASan sees what comes
 * too late. */
struct task {
	struct weir_job job;	/* Its .op is that of all. */
	struct core *core;
	struct fn *fn;		/* That has started it. */
	void (*end)(struct task *t, int64_t res);
	struct object *pinned[3];
	uint32_t n_pinned;
	bool starting, in_flight;
	bool is_own;		/* weir_op_start() */
	bool was_cancelled;	/* Its cancel function was called. */
	bool any_errno;		/* The kernel's, or a user's function's. */
	struct weir_operand more;
	struct iovec iov[2];
	struct msghdr msg;
	struct weir_domain_move move;
	struct weir_sync_call call;
	struct weir_shared_pool_count count;
	char result[256];	/* struct statx, an address. */
	char *buf;
	size_t len;
	uint64_t args;
};

/* What a user's engine or domain has begun, and not ended. */
struct pending {
	struct weir_job *job;
	struct weir_op *op;
	uint64_t total;
};

/* A function of the library. */
struct fn {
	const char *name;
	uint64_t returns[8], completes[8];	/* Documented errnos, as bits. */
	uint64_t calls, inner, good;	/* Inner: out of a function of ours;
					 * good: with success. */
};

/* An entry of the table: how to call it. */
struct call {
	const char *name;
	void (*fn)(struct core *c);
	uint32_t weight;
};

extern const struct call calls_reactor[], calls_op[], calls_source[],
	calls_udp[], calls_dma[], calls_flow[], calls_mem[], calls_share[];

struct world {
	uint64_t random;
	struct weir_sim *sim;	/* NULL: a real backend. */
	int backend;
	struct core cores[CORES];
	struct object *objects[N_WHATS][OF_EACH];
	struct task *tasks[TASKS];
	struct pending pending[PENDING];
	uint32_t n_pending;
	struct object *focus[16];
	struct task *focus_task[16];
	uint32_t n_focus;
	struct object *destroying; /* The last of those. */
	struct task *ended;	/* Whose callback runs, if there is still
				 * something to get from it. */
	int depth;		/* Functions of ours on the stack. */
	uint64_t calls, left;
	uint64_t inner;
	uint64_t digest;
	uint32_t posts;
	uint32_t windows;	/* Of bufs: they do not overlap soon. */
	bool ending;
	char dir[64];
};

extern struct world w;
extern uint32_t kinds[KINDS];
extern char *area;		/* External memory, of AREA bytes. */

#define MUST(cond) \
	do { \
		if (!(cond)) \
			fail(__FILE__, __LINE__, #cond); \
	} while (0)

__attribute__((noreturn)) void fail(const char *file, int line,
				    const char *what);

uint32_t rnd(uint32_t n);
static inline bool one_in(uint32_t n)
{
	return !rnd(n);
}
uint64_t some_time(void);	/* On the clock of the reactors. */
uint64_t some_span(void);

struct fn *fn_find(const char *name);
void fn_begins(struct fn *fn);
int64_t fn_ended(struct fn *fn, int64_t res);
bool fn_completes(const struct fn *fn, int64_t res);

#define FN(fn_) \
	({ \
		static struct fn *found_; \
		if (!found_) \
			found_ = fn_find(#fn_); \
		found_; \
	})

/* A call whose result, if it is negative, must be documented; */
#define CALL(fn_, ...) \
	({ \
		struct fn *f_ = FN(fn_); \
		fn_begins(f_); \
		fn_ended(f_, (int64_t)fn_(__VA_ARGS__)); \
	})

/* that returns nothing; */
#define CALLV(fn_, ...) \
	do { \
		struct fn *f_ = FN(fn_); \
		fn_begins(f_); \
		fn_(__VA_ARGS__); \
		fn_ended(f_, 0); \
	} while (0)

/* or whose result is no error in any case. */
#define GOT(fn_, ...) \
	({ \
		struct fn *f_ = FN(fn_); \
		fn_begins(f_); \
		__auto_type got_ = fn_(__VA_ARGS__); \
		fn_ended(f_, 0); \
		got_; \
	})

/* Objects: NULL, if there is none, or no place for one. */
struct object *any(enum what what);
struct object *any_on(enum what what, const struct core *c);
struct object *object_new(enum what what, struct core *c);
void object_made(struct object *o, void *h, int64_t err);
void object_free(struct object *o);
void object_pin(struct object *o, struct object *of);
struct object *fd_new(int fd, int kind);

/* Tasks. */
struct task *task_new(struct core *c);
void task_drop(struct task *t);
void task_pin(struct task *t, struct object *o);
void task_buf(struct task *t);
struct task *any_task(void);
void task_begins(struct task *t, struct fn *fn);
void task_begun(struct task *t, int64_t err);
void task_end(struct weir_op *op, int64_t res);
#define OP(t) (&(t)->job.op)

#define START(t, fn_, ...) \
	do { \
		task_begins(t, FN(fn_)); \
		task_begun(t, CALL(fn_, __VA_ARGS__)); \
	} while (0)

/* A function of the user's is called: do something, perhaps to @o. */
void act(struct object *o);
void act_task(struct task *t);

/* A function of the user's that may make no calls, or none with effects. */
void act_not(void);

/* calls-mem.c */
struct weir_mmap *some_mmap(void);

/* calls-reactor.c */
struct weir_reactor_opts reactor_opts(void);

/* calls-dma.c: what engines and domains have begun. */
void pending_end(uint32_t i, int64_t res);
void engine_add(struct object *dma);
void kinds_register(void);
void domains_begin(void);
bool operand_some(struct core *c, struct weir_operand *ret, struct task *t,
		  size_t len, bool is_dst);
bool object_destroy(struct object *o);

/* calls-flow.c */
void link_free(struct link *l);

/* calls-share.c */
void share_begin(void);
void share_end(void);

#endif /* TESTS_FUZZ_CALLS_H */
