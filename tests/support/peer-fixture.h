/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_PEER_FIXTURE_H
#define TESTS_PEER_FIXTURE_H

/*
 * A peer: a second thread with a reactor of its own, which does only what it is
 * told, one thing at a time.  In between it does nothing: its reactor turns
 * when it is told to turn, so that what travels to it arrives when the test
 * wants.
 *
 *	peer_begin(&p, state);
 *	got = peer_do(&p, fn, arg);	fn(&p, arg) over there, waited for
 *	peer_turn(&p);
 *	peer_end(&p);			its reactor must be destroyable
 */

#include "tests/support/harness.h"

#include <poll.h>
#include <pthread.h>

struct peer {
	struct weir_reactor *r;
	uint32_t backend;
	int err; /* Of what must go well over there. */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int64_t (*fn)(struct peer *p, void *arg); /* NULL: idle. */
	void *arg;
	int64_t ret;
	bool quit;
};

static inline void *peer_main(void *data)
{
	struct peer *p = data;
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.backend = p->backend,
	};
	int tries = 100;

	/* Others may have all that the user may lock, for a while. */
	do
		p->err = weir_reactor_create(&p->r, &opts);
	while (p->err == -ENOMEM && tries-- && !poll(NULL, 0, 20));
	pthread_mutex_lock(&p->lock);
	while (!p->quit) {
		if (p->fn) {
			p->ret = p->fn(p, p->arg);
			p->fn = NULL;
			pthread_cond_broadcast(&p->changed);
		}
		if (!p->quit)
			pthread_cond_wait(&p->changed, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	if (!p->err)
		p->err = weir_reactor_destroy(p->r);
	return NULL;
}

static inline int64_t peer_do(struct peer *p,
			      int64_t (*fn)(struct peer *p, void *arg),
			      void *arg)
{
	int64_t ret;

	pthread_mutex_lock(&p->lock);
	p->fn = fn;
	p->arg = arg;
	pthread_cond_broadcast(&p->changed);
	while (p->fn)
		pthread_cond_wait(&p->changed, &p->lock);
	ret = p->ret;
	pthread_mutex_unlock(&p->lock);
	return ret;
}

static inline int64_t peer_do_turn(struct peer *p, void *arg)
{
	(void)arg;
	return weir_reactor_turn(p->r, 0);
}

static inline void peer_turn(struct peer *p)
{
	assert_true(peer_do(p, peer_do_turn, NULL) >= 0);
}

static inline int64_t peer_do_nothing(struct peer *p, void *arg)
{
	(void)p, (void)arg;
	return 0;
}

static inline void peer_begin(struct peer *p, void **state)
{
	memset(p, 0, sizeof(*p));
	p->backend = backend_of(*state);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
	peer_do(p, peer_do_nothing, NULL);
	assert_int_equal(p->err, 0);
}

static inline void peer_end(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	assert_int_equal(p->err, 0);
}

#endif /* TESTS_PEER_FIXTURE_H */
