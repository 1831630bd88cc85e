/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_IGNORE_H
#define TESTS_IGNORE_H

/* Callbacks that do nothing, for tests of something else. */

#include <unistd.h>

#include <weir/chain.h>
#include <weir/pipeline.h>
#include <weir/poll-hook.h>
#include <weir/socket.h>
#include <weir/timer.h>
#include <weir/watch.h>

static inline void ignore_timer(struct weir_timer *t, uint64_t n, void *arg)
{
	(void)t, (void)n, (void)arg;
}

static inline void ignore_watch(struct weir_watch *w, uint32_t events,
				void *arg)
{
	(void)w, (void)events, (void)arg;
}

static inline void ignore_event(struct weir_event *e, uint64_t n, void *arg)
{
	(void)e, (void)n, (void)arg;
}

static inline void ignore_signal(struct weir_signal *s,
				 const struct signalfd_siginfo *info, void *arg)
{
	(void)s, (void)info, (void)arg;
}

static inline int ignore_hook_poll(void *arg)
{
	(void)arg;
	return 0;
}

static inline int ignore_before_sleep(void *arg, int *fd)
{
	if (arg)
		*fd = *(int *)arg;
	return 0;
}

static inline int ignore_poll(struct weir_poller *p, void *arg)
{
	(void)p, (void)arg;
	return 0;
}

static inline void ignore_connection(struct weir_acceptor *a, int fd, void *arg)
{
	(void)a, (void)arg;
	if (fd >= 0)
		close(fd);
}

static inline int ignore_data(struct weir_receiver *v, void *data, int64_t len,
			      void *arg)
{
	(void)v, (void)data, (void)len, (void)arg;
	return WEIR_RECEIVER_DONE;
}

static inline int64_t ignore_step(struct weir_chain *chain, uint32_t step,
				  void *arg)
{
	(void)chain, (void)step, (void)arg;
	return 0;
}

static inline int ignore_unit(struct weir_slot *slot, int64_t res, void *arg)
{
	(void)slot, (void)res, (void)arg;
	return 0;
}

#endif /* TESTS_IGNORE_H */
