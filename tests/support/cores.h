/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CORES_H
#define TESTS_CORES_H

/*
 * Reactors on threads of their own, for tests of what passes between them.
 *
 * The test's thread gives a core something to do and waits until it is done:
 *
 *	core_begin(&core, state);
 *	core_do(&core, take_two, &args);	runs there, in a turn
 *	core_end(&core);			the reactor must be destroyable
 *
 * In a simulated world a core is one more reactor of the test's thread, and the
 * world goes on until it is done.
 *
 * cmocka's assertions jump, and so must not be used on such a thread: MUST()
 * ends the program instead.
 */

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "reactor/reactor-internal.h"
#include "tests/support/harness.h"

#include <weir/sim/world.h>

#define MUST(cond)                                                        \
	do {                                                              \
		if (!(cond)) {                                            \
			fprintf(stderr, "%s:%d: %s does not hold; %s\n",  \
				__FILE__, __LINE__, #cond, weir_why());   \
			abort();                                          \
		}                                                         \
	} while (0)

struct core {
	struct weir_reactor *r;
	pthread_t thread;
	uint32_t backend;
	sem_t up;
	sem_t done;
	sem_t leave;
	void (*fn)(struct core *core, void *arg);
	void *arg;
};

static void *core_main(void *arg)
{
	struct core *core = arg;
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = core->backend,
	};
	int err;

	do
		err = weir_reactor_create(&core->r, &opts);
	while (err == -ENOMEM && !sched_yield());
	MUST(!err);
	sem_post(&core->up);
	MUST(weir_reactor_run(core->r) == 0);
	/* Who has woken us must be done with it. */
	while (sem_wait(&core->leave))
		;
	MUST(weir_reactor_destroy(core->r) == 0);
	return NULL;
}

static inline void core_begin(struct core *core, void **state)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .sim = harness_sim };
	const struct world *w = *state;

	memset(core, 0, sizeof(*core));
	core->backend = backend_of(w);
	sem_init(&core->up, 0, 0);
	sem_init(&core->done, 0, 0);
	sem_init(&core->leave, 0, 0);
	if (harness_sim) {
		assert_int_equal(weir_reactor_create(&core->r, &opts), 0);
		return;
	}
	assert_int_equal(pthread_create(&core->thread, NULL, core_main, core),
			 0);
	while (sem_wait(&core->up))
		;
}

static void core_run_fn(void *arg)
{
	struct core *core = arg;

	core->fn(core, core->arg);
	sem_post(&core->done);
}

/* core_do() in two: the test's thread has something to do meanwhile. */
static inline void core_post(struct core *core,
			     void (*fn)(struct core *core, void *arg),
			     void *arg)
{
	core->fn = fn;
	core->arg = arg;
	while (weir_post(core->r, core_run_fn, core))
		if (harness_sim)
			weir_sim_run(harness_sim, WEIR_MSEC, 0);
		else
			sched_yield();
}

static inline void core_wait(struct core *core)
{
	if (harness_sim) {
		UNTIL(core->r, !sem_trywait(&core->done));
		return;
	}
	while (sem_wait(&core->done))
		;
}

static inline void core_do(struct core *core,
			   void (*fn)(struct core *core, void *arg), void *arg)
{
	core_post(core, fn, arg);
	core_wait(core);
}

/* For what a core is to tell. */
static inline void await(sem_t *sem)
{
	while (harness_sim ? sem_trywait(sem) : sem_wait(sem))
		if (harness_sim)
			weir_sim_run(harness_sim, WEIR_MSEC, 0);
}

/* Until the core is in its reactor's wait, with nothing to do. */
static inline void core_await_sleep(struct core *core)
{
	if (harness_sim) {
		weir_sim_run(harness_sim, WEIR_MSEC, 0);
		return;
	}
	while (!atomic_load(&core->r->mailbox.asleep))
		sched_yield();
}

static inline void core_end(struct core *core)
{
	weir_reactor_stop(core->r);
	if (harness_sim) {
		assert_int_equal(weir_reactor_run(core->r), 0);
		assert_int_equal(weir_reactor_destroy(core->r), 0);
	} else {
		sem_post(&core->leave);
		pthread_join(core->thread, NULL);
	}
	sem_destroy(&core->up);
	sem_destroy(&core->done);
	sem_destroy(&core->leave);
}

#endif /* TESTS_CORES_H */
