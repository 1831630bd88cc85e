/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads for blocking calls: a queue under a lock, and at most .workers
 * threads, each created when more operations are queued than threads are idle.
 *
 *	reactor's thread                     a worker
 *	op: OP_WORKER, into the queue  --->  out of it (pprev = NULL), done
 *	back, by the mailbox           <---  op_return()
 *
 * While an operation is here a worker may read all of it except its flags,
 * which only the reactor's thread may access; so this queue does not use them.
 */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "reactor/group/group.h"
#include "reactor/io.h"

struct worker_pool {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct weir_op *first;
	struct weir_op **last;
	uint32_t n_idle;	/* Waiting for more. */
	uint32_t n_queued;
	bool quit;
	bool is_bound;		/* The reactor's thread, to one CPU; */
	cpu_set_t cpus;		/* of these. */

	uint32_t n_threads;	/* The reactor's thread only. */
	uint32_t max;
	pthread_t threads[];
};

static void queue_del(struct worker_pool *p, struct weir_op *op)
{
	*op->pprev = op->next;
	if (op->next)
		op->next->pprev = op->pprev;
	else
		p->last = op->pprev;
	op->pprev = NULL;
	debug_check(p->n_queued > 0);
	p->n_queued--;
}

/* The next operation, or NULL when the pool is closed.  Under the lock. */
static struct weir_op *take(struct worker_pool *p)
{
	struct weir_op *op;

	while (!p->first && !p->quit) {
		p->n_idle++;
		pthread_cond_wait(&p->more, &p->lock);
		p->n_idle--;
	}
	op = p->first;
	if (op)
		queue_del(p, op);
	return op;
}

static void *worker_main(void *arg)
{
	struct worker_pool *p = arg;
	struct weir_op *op;

	/* On that CPU it would hold up whom it is to relieve. */
	if (p->is_bound)
		sched_setaffinity(0, sizeof(p->cpus), &p->cpus);
	pthread_mutex_lock(&p->lock);
	while ((op = take(p))) {
		pthread_mutex_unlock(&p->lock);
		op->res = io_sync(op);
		op_return(op);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Signals are for the application's threads. */
int thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	int err;

	if (fault("pthread_create"))
		return -EAGAIN;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(ret, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

static int add_thread(struct worker_pool *p)
{
	int err = thread_start(&p->threads[p->n_threads], worker_main, p);

	if (!err)
		p->n_threads++;
	return err;
}

static int pool_create(struct weir_reactor *r)
{
	struct worker_pool *p;

	p = mem_calloc(1, sizeof(*p) + r->opts.workers * sizeof(pthread_t));
	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	p->last = &p->first;
	p->max = r->opts.workers;
	p->is_bound = core_is_bound(r, &p->cpus);
	r->workers = p;
	return 0;
}

int worker_ensure(struct weir_reactor *r)
{
	int err;

	reactor_check_thread(r);
	if (likely(r->workers && r->workers->n_threads))
		return 0;
	if (r->backend->worker_ensure)
		return r->backend->worker_ensure(r);
	err = r->workers ? 0 : pool_create(r);
	return err ? err : add_thread(r->workers);
}

void worker_submit(struct weir_reactor *r, struct weir_op *op)
{
	struct worker_pool *p;
	bool crowded;
	int err = worker_ensure(r);

	debug_check(op->reactor == r && op->state == OP_PENDING);
	reactor_check_thread(r);
	if (err) {
		/* A close must be done, even if the reactor blocks for it. */
		io_end(op, op->kind == IO_CLOSE ? io_sync(op) : err);
		return;
	}
	p = r->workers;
	op->flags |= OP_WORKER;
	pthread_mutex_lock(&p->lock);
	op->next = NULL;
	op->pprev = p->last;
	*p->last = op;
	p->last = &op->next;
	p->n_queued++;
	crowded = p->n_queued > p->n_idle;
	pthread_cond_signal(&p->more);
	pthread_mutex_unlock(&p->lock);

	/* If it cannot be, those that are there do it all. */
	if (crowded && p->n_threads < p->max)
		(void)add_thread(p);
}

bool worker_cancel(struct weir_reactor *r, struct weir_op *op)
{
	struct worker_pool *p = r->workers;
	bool waiting;

	debug_check(op->reactor == r && op->state == OP_PENDING);
	reactor_check_thread(r);
	pthread_mutex_lock(&p->lock);
	waiting = op->pprev != NULL;
	if (waiting)
		queue_del(p, op);
	pthread_mutex_unlock(&p->lock);
	return waiting;
}

void worker_fini(struct weir_reactor *r)
{
	struct worker_pool *p = r->workers;

	reactor_check_thread(r);
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	for (uint32_t i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	free(p);
	r->workers = NULL;
}
