/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_JOB_INTERNAL_H
#define WEIR_DMA_JOB_INTERNAL_H

/*
 * The library's part of a job, the context it runs in, and engines.
 *
 *	weir_job_start()   check, find an engine, hold bufs and domains
 *	  engine's start()  ... moves .done bytes, and moves the cursors on ...
 *	job_end()          the result; complete job->op
 *	job_leave()        commit, release, count; then the callback
 *
 * A job is on its context's list from start to end.  It counts as in flight,
 * and its bufs are marked as in use, until its callback begins.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <sys/uio.h>

#include <weir/dma.h>
#include <weir/engine.h>
#include <weir/job.h>

#include "base/provider.h"
#include "dma/operand.h"
#include "mem/mmap-internal.h"
#include "reactor/op-inline.h"
#include "reactor/stats/page.h"

struct engine;
struct slot;
struct staging_key;
struct translated;

#define JOB_IOVS 6	/* Pieces of memory that one file transfer takes. */
#define JOB_MOVE_IOVS 4	/* Pieces of both sides in a step by a domain. */

struct job_priv {
	struct weir_dma *dma;
	struct engine *engine;
	struct weir_job *next;		/* In the context's list of all. */
	struct weir_job **pprev;
	struct weir_job *q_next;	/* In the queue where it waits. */
	struct weir_job **q_pprev;	/* NULL: not in it. */
	struct cursor src, dst;
	uint64_t total;
	uint64_t done;
	union {
		uint64_t step;		/* Bytes that the step asked for. */
		uint64_t old;		/* The word before an atomic. */
	};
	uint32_t crc;
	atomic_bool stop;		/* For the worker that has it. */
	bool differ;			/* A compare has found a difference. */
	bool direct;			/* The step goes through O_DIRECT. */
	bool waits : 1;			/* For capacity in its engine. */
	bool is_step : 1;		/* Of another job. */
	bool held : 1; /* job-fence.c has it: it has not begun. */
	bool imported : 1;		/* Memory is of imports that count their
					 * jobs, and */
	bool entered : 1;		/* they do: see job_route. */
	bool passed_on : 1;		/* The -EAGAIN that it was refused with is
					 * the caller's to deal with. */
	bool begun : 1;			/* .begin of its registered kind was
					 * called, and .end was not. */
	union {
		struct iovec iov[JOB_IOVS];
		struct {
			struct weir_domain_move move;
			struct iovec move_iov[JOB_MOVE_IOVS];
		};
		uint64_t area[20];	/* A user's engine's; its end, see
					 * kind.h. */
	};
};

/* What programs were compiled with. */
_Static_assert(sizeof(struct weir_job) == 1216 &&
	       !(sizeof(struct weir_job) % 64), "part of the ABI");
_Static_assert(sizeof(struct weir_operand) == 64, "part of the ABI");
_Static_assert(offsetof(struct weir_job, kind) == 320 &&
	       offsetof(struct weir_job, src) == 344 &&
	       offsetof(struct weir_job, compare) == 488 &&
	       offsetof(struct weir_job, inner) == 496, "part of the ABI");
_Static_assert(sizeof(((struct weir_job *)0)->reserved) >= 64,
	       "later versions need it");
_Static_assert(sizeof(struct job_priv) <=
	       sizeof(((struct weir_job *)0)->engine),
	       "the library's part of a job");

/*
 * Returns the operation by which an engine does a part of @job, with the
 * callback @fn.  It is used again and again, as any operation may be, and not
 * cleared: it was cleared with the job, and nothing of it outlives its
 * callback.
 */
static inline struct weir_op *job_inner(struct weir_job *job, weir_op_fn *fn)
{
	debug_check(job->inner.state == OP_IDLE);
	job->inner.fn = fn;
	return &job->inner;
}

/* The route of a job; in the operation's part for its class. */
struct job_route {
	uint8_t route;			/* WEIR_ROUTE_; 0: not started yet. */
	int32_t refused;
	uint32_t steps;
	const char *engine, *pull, *push;
	uint64_t bounced;
	struct translated *translated;	/* To be invalidated, or NULL. */
	/* Of .imported: the one whose word is this thread's; NULL: each is
	 * counted by itself. */
	struct mmap_use *import;
};

_Static_assert(sizeof(struct job_route) <= sizeof(((struct weir_op *)0)->u),
	       "in the part of the class");

static inline struct job_route *job_route(struct weir_job *job)
{
	return (struct job_route *)(void *)&job->op.u;
}

static inline struct job_priv *job_priv(struct weir_job *job)
{
	return (struct job_priv *)(void *)job->engine;
}

/* Kinds that change one word, and have no source. */
static inline bool kind_is_atomic(uint32_t kind)
{
	return kind == WEIR_JOB_FETCH_ADD || kind == WEIR_JOB_COMPARE_SWAP;
}

/* atomic.c: whether the word of @job, an atomic of @total bytes, can be one: 0,
 * -EMSGSIZE or -EINVAL. */
int atomic_check(const struct weir_job *job, uint64_t total);

/* Why it would not be atomic although an engine could do it, or NULL. */
const char *atomic_refuse(const struct weir_job *job);

/* Do it, on the word at @p of this process.  Returns what that was. */
uint64_t atomic_do(const struct weir_job *job, void *p);

/*
 * The table of an engine, which the library's own have in common with the
 * user's, and what only they have.  Their arg is the context.
 */
struct engine_kind {
	struct weir_engine_ops ops;

	/* More to check before the start.  0, or an errno, and the reason in
	 * weir_why().  Optional. */
	int (*verify)(const struct weir_job *job,
		      const struct operand_info *src,
		      const struct operand_info *dst, uint64_t total);

	/* -EAGAIN of its start is the caller's to deal with. */
	bool refuses;

	/* Its start calls no function of the user's. */
	bool is_alone;

	/* For an engine of the library's own: it alone of these moves bytes of
	 * domains of this class. */
	const struct domain_class *serves;

	/* For translate: @job, which it has begun, ends. */
	void (*ended)(struct weir_job *job);

	/* For bounce: continue jobs that wait for staging. */
	void (*serve)(struct weir_dma *dma);
};

extern const struct engine_kind engine_cpu;
extern const struct engine_kind engine_domain;
extern const struct engine_kind engine_file;
extern const struct engine_kind engine_process;

/* The core's own engines, by their place in a context's array, before the
 * user's and those of libraries above. */
enum {
	ENGINE_CPU,
	ENGINE_FILE,
	ENGINE_PROCESS,
	ENGINE_DOMAIN,
	N_SHIPPED,
};

/* An engine in a context. */
struct engine {
	const struct engine_kind *kind;
	void *arg;
	bool unflushed;			/* Jobs have begun since the flush. */
	struct weir_job *wait;		/* For capacity, in order. */
	struct weir_job **wait_last;
	struct weir_dma_engine_stats stats;
	struct stats_item item;
	struct engine_kind own;		/* A user's. */

	/* Of a provider's: the context is destroyed.  NULL: it is no
	 * provider's. */
	void (*leave)(struct engine *e, void *arg);
	void *leave_arg;
};

/* engines.c: those that every context has, and those of providers.  Returns 0,
 * or the errno of a provider's, with a message; engines_fini() is due. */
int engines_init(struct weir_dma *dma);

/* provider.c: add the engines of all providers to @dma, which is being created.
 * Returns 0 or an errno with a message. */
int providers_attach(struct weir_dma *dma);

/* The @i-th in the order of preference. */
struct engine *engine_at(const struct weir_dma *dma, uint32_t i);

/* @job, which its engine has begun, waits for capacity in the engine; .start()
 * then continues it. */
void engine_wait(struct weir_job *job);

/* Have @e do @job, whose op is PENDING and whose cursors are at the start.
 * Returns 0, or the errno with which it is refused. */
int engine_start(struct engine *e, struct weir_job *job);

/* Have @job, which has not ended, end early. */
void engine_cancel(struct weir_job *job);

/* @job ends with @res: for job_end(). */
void engine_left(struct weir_job *job, int64_t res);

/* Ring the doorbell of each that has begun jobs since. */
void engines_flush(struct weir_dma *dma);

/* Jobs that wait for capacity in an engine of @dma. */
void engine_waits_init(struct weir_dma *dma);
void engine_waits_fini(struct weir_dma *dma);

/* @dma is being destroyed: its staging is registered with no device any more. */
void staging_keys_drop(struct weir_dma *dma);

/* Offer the waiting jobs to their engines in the next turn. */
void engines_arm(struct weir_dma *dma);

/* Nothing of @dma is in flight any more, and it is being destroyed. */
void engines_fini(struct weir_dma *dma);

/* Jobs that wait, linked by .q_next. */
struct job_queue {
	struct weir_job *first;
	struct weir_job **last;
};

/*
 * Classes of jobs through staging, see bounce.c: by how deep the job is
 * nested in functions of the user's, and those that need none.
 */
#define NESTING_MAX 4
#define SLOT_LEAF NESTING_MAX
#define SLOT_CLASSES (NESTING_MAX + 1)

/* The most state changes that wait to be reported. */
#define DMA_ARROWS 16

/* A waiter for capacity of a context for one more job. */
struct dma_capacity {
	struct dma_capacity *next;
	struct dma_capacity **pprev; /* NULL: does not wait. */
	/* There may be capacity: starts, or waits again.  Calls no callback. */
	void (*fn)(struct dma_capacity *capacity);
};

struct weir_dma {
	struct weir_reactor *r;
	uint32_t state;
	uint32_t jobs_max;
	uint64_t n_jobs;		/* Callback not begun yet. */
	uint32_t n_entered;		/* Functions of the user's that are on
					 * the stack for jobs of it. */
	struct weir_job *jobs;		/* Those without a result, oldest first. */
	struct weir_job **jobs_last;
	uint32_t n_fenced;		/* Held for what is before them. */
	struct weir_job *lazy;		/* Held until the flush. */
	struct weir_job **lazy_last;
	struct weir_op *stop_op;	/* In STOPPING. */
	uint64_t worker_min;		/* UINT64_MAX: never. */
	uint64_t file_slice;
	uint64_t stream_min;		/* Copies past the cache from here on. */

	/* bounce.c's: staging, and the jobs that wait for it. */
	uint32_t n_slots;		/* As the caller asked. */
	uint32_t staging_size;
	char *staging;
	size_t staging_len;
	struct staging_key *staging_keys; /* By device; see engine.c. */
	struct slot *slots;
	struct slot *slots_free;	/* Of those that were asked for, */
	struct slot *slots_extra;	/* the first of each class beyond 0, */
	struct slot *slots_spare;	/* for those in quarantine. */
	struct job_queue slot_wait[SLOT_CLASSES];
	struct job_queue slot_blocked;	/* Until a slot leaves quarantine. */
	uint32_t n_slot_jobs[SLOT_CLASSES];	/* With a slot. */
	uint32_t n_slot_wait;
	uint32_t n_slot_blocked;
	uint64_t slot_ticket;
	uint32_t nesting;		/* Of steps of jobs through staging, that
					 * call functions of the user's now. */
	bool in_serve;

	/* The cpu engine's: what it may still do in this turn, and what waits
	 * for the next. */
	uint64_t turn_bytes;
	uint64_t budget;
	uint64_t budget_turn;
	struct weir_job *queue;
	struct weir_job **queue_last;
	struct weir_op tick;

	/* The user's behind the library's. */
	struct engine engines[WEIR_ENGINES_MAX];
	uint32_t n_own;			/* The library's. */
	uint32_t n_engines;
	uint32_t n_for_memory;		/* The user's that are asked about
					 * jobs in memory of this process, */
	uint32_t n_for_files;		/* and with files. */
	struct engine bounce;		/* Not in .engines, */
	struct engine translate;	/* nor this. */
	struct translated *translated;
	struct translated *translated_free;
	struct weir_op engine_tick;
	struct weir_timer_node engine_nap;	/* Until the next try. */
	uint32_t engine_naps;			/* In vain, lately. */

	/* dma-state.c's: whom to tell, and of what. */
	weir_dma_state_fn *state_fn;
	void *state_arg;
	struct weir_op state_op;
	uint8_t arrows[DMA_ARROWS];	/* States; the first is reported. */
	uint32_t n_arrows;
	/* Waiters for capacity, first come first served; see capacity.c. */
	struct dma_capacity *capacity;
	struct dma_capacity **capacity_last;
	struct weir_op capacity_tick;

	uint32_t n_steps;		/* Of chains of its reactor, */
	atomic_uint n_hops;		/* and of others, and sync events. */

	/* For steps from other reactors; see flow/chain-hop.c. */
	atomic_uint n_returning;	/* Steps being returned. */
	atomic_uint gate;		/* enum gate */
	struct weir_op gate_op;

	struct weir_dma_stats stats;
	struct stats_item item;
	struct reactor_obj obj;
};

static inline void engine_init(struct engine *e, const struct engine_kind *kind,
			       void *arg)
{
	*e = (struct engine){ .kind = kind, .arg = arg };
	e->wait_last = &e->wait;
}

/* Add a user's engine, for which there is capacity. */
static inline struct engine *engine_add(struct weir_dma *dma,
					const struct weir_engine_ops *ops,
					void *arg)
{
	struct engine *e = &dma->engines[dma->n_engines];

	debug_check(dma->n_engines < WEIR_ENGINES_MAX);
	dma->n_engines++;
	if (!(ops->flags & WEIR_ENGINE_FOREIGN))
		dma->n_for_memory++;
	if (!(ops->flags & WEIR_ENGINE_NO_FILES))
		dma->n_for_files++;
	engine_init(e, &e->own, arg);
	e->own.ops = *ops;
	return e;
}

/* A job over imports checks before each slice that they are not revoked. */
#define JOB_IMPORT_SLICE ((uint64_t)1 << 20)

/* Returns how many of @n bytes @p may move before the next check. */
static inline uint64_t job_slice(const struct job_priv *p, uint64_t n)
{
	return unlikely(p->imported) && n > JOB_IMPORT_SLICE ?
		       JOB_IMPORT_SLICE : n;
}

/* job-fence.c: keep @job, which was just enlisted, from beginning, if it has to
 * wait.  Returns whether it has. */
bool order_hold(struct weir_job *job);

/* @job, which is held, ends: do not hold it. */
void order_drop(struct weir_job *job);

/* Begin what need not be held any more. */
void order_open(struct weir_dma *dma);

void order_init(struct weir_dma *dma);

/* operand-extra.c: check the operands of @job beside its two, which were
 * found to be @src and @dst and to have @total bytes.  Returns 0 or an errno.
 */
int extra_check(const struct weir_dma *dma, const struct weir_job *job,
		const struct operand_part *src, const struct operand_part *dst,
		uint64_t total);

/* The side of the further operands in their job. */
static inline enum operand_side extra_side(const struct weir_job *job)
{
	if (job->kind == WEIR_JOB_XOR)
		return OPERAND_SRC;
	return job->flags & WEIR_JOB_OVERWRITE ? OPERAND_OVERWRITE :
						 OPERAND_APPEND;
}

/* Hold and release them; extra_commit(): set the data lengths of
 * destinations. */
void extra_hold(const struct weir_dma *dma, const struct weir_job *job);
void extra_release(const struct weir_dma *dma, const struct weir_job *job);
void extra_commit(const struct weir_job *job, uint64_t n);
bool extra_stale(const struct weir_job *job);

/* job-end.c: job_enter_imports() of those that are counted one by one. */
int job_enter_each(struct weir_job *job);

/*
 * @job is about to access imports that count their jobs.  Returns 0 or -ESTALE.
 * The end of the job, however it ends, counts it out again.
 */
static inline int job_enter_imports(struct weir_job *job)
{
	struct mmap_use *import = job_route(job)->import;
	struct job_priv *p = job_priv(job);

	debug_check(p->imported && !p->entered && !p->is_step);
	p->entered = true;
	return likely(import) ? mmap_enter_own(import) : job_enter_each(job);
}

/* Whether any exporter has revoked memory of @job, which was begun. */
bool job_is_stale_slow(const struct weir_job *job);

/* Whether an exporter has revoked memory of @job, which is in flight.  On the
 * thread that has it, a worker's too. */
static inline bool job_is_stale(const struct weir_job *job)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);
	const struct mmap_use *import;

	if (likely(!p->imported))
		return false;
	import = job_route((struct weir_job *)job)->import;
	return likely(import) ? mmap_stale(import->mmap) :
				job_is_stale_slow(job);
}

/* Set @c to @skip bytes after the beginning of the @i-th further operand. */
void extra_cursor(const struct weir_job *job, uint32_t i, uint64_t skip,
		  struct cursor *c);

/* dma-state.c: the context goes to @state; its state callback is due. */
void dma_set_state(struct weir_dma *dma, uint32_t state);
void state_init(struct weir_dma *dma);

/* Whether calls are due. */
bool state_is_due(const struct weir_dma *dma);

/* Whether there is no capacity for what a start may bring. */
bool state_is_full(const struct weir_dma *dma);

/*
 * End @job with @res, or, if that is >= 0, with the bytes that it has done. No
 * engine touches its memory any more.
 */
void job_end(struct weir_job *job, int64_t res);

/* The callback of @op, a job's, is about to begin: nothing of the job is in use
 * from now on. */
void job_leave(struct weir_op *op);

/* The engine has refused @job: undo its start. */
void job_take_back(struct weir_job *job);

/*
 * Have a worker do all of @job by @fn, which advances .done and the cursors;
 * the job ends with the result of @fn.  @fn checks .stop now and then.
 */
void job_work(struct weir_job *job, int64_t (*fn)(void *job));

/* Have the worker that has @job, if one has, stop. */
void job_work_cancel(struct weir_job *job);

/*
 * A function of the user's may be called for @job from here to job_exit(): of
 * an engine or of a domain.  In between, a cancel of @job, or a stop of what
 * it is part of, is only recorded, and weir_dma_destroy() refuses its
 * context.  The two may be nested; @job may end in between, or be refused,
 * but its callback is not called before job_exit().
 */
static inline void job_enter(struct weir_job *job)
{
	job_priv(job)->dma->n_entered++;
	op_enter(&job->op);
}

static inline void job_exit(struct weir_dma *dma, struct weir_job *job)
{
	dma->n_entered--;
	op_exit(&job->op);
}

/* The same where it is not called in the start of a job: there is none, or the
 * function cancels or ends it. */
static inline void dma_enter(struct weir_dma *dma)
{
	dma->n_entered++;
	reactor_enter(dma->r);
}

static inline void dma_exit(struct weir_dma *dma)
{
	dma->n_entered--;
	reactor_exit(dma->r);
}

/* engine-cpu.c: set up and take down its part of @dma. */
void cpu_init(struct weir_dma *dma);

/* Do all of @job now, if nothing prevents that; its used sides are plain, and
 * .total is set.  Returns whether it was done: .done and .crc are set. */
bool cpu_at_once(struct weir_dma *dma, struct weir_job *job);

/* capacity.c: whether @dma is full; wait until it is not; wait no more. */
void capacity_init(struct weir_dma *dma);
static inline bool capacity_none(const struct weir_dma *dma)
{
	return dma->n_jobs >= dma->jobs_max;
}
void capacity_wait(struct weir_dma *dma, struct dma_capacity *capacity);
void capacity_wait_no_more(struct weir_dma *dma, struct dma_capacity *capacity);

/* A job has left, and there are waiters. */
void capacity_made(struct weir_dma *dma);

/* flow/chain-hop.c: its part of @dma, which hangs on its reactor. */
void hop_init(struct weir_dma *dma);

/* stats.c: the context and its engines are on the page, if there is one; or no
 * more; a user's engine is new. */
void dma_publish(struct weir_dma *dma);
void dma_unpublish(struct weir_dma *dma);
void dma_publish_engine(struct weir_dma *dma, struct engine *e);

/* dma.c: a job has ended, or a device has finished: a stop may be complete. */
void dma_left(struct weir_dma *dma);

/* A job is not in flight any more: its callback is about to begin, or its start
 * was refused. */
static inline void job_uncount(struct weir_dma *dma)
{
	dma->n_jobs--;
	if (unlikely(dma->capacity))
		capacity_made(dma);
	if (unlikely(dma->stop_op))
		dma_left(dma);
}

#endif /* WEIR_DMA_JOB_INTERNAL_H */
