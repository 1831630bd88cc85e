/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_POLL_HOOK_H
#define WEIR_POLL_HOOK_H

/*
 * Poll hooks, which attach another library's completions to the loop: those of
 * a network library, a card, or memory that another process writes.
 *
 * While a reactor is awake it polls the hook, which costs no system call and
 * sees a completion within the time of a poll.  Before the reactor sleeps, the
 * hook arms its library and names the descriptor that becomes readable at the
 * next completion.  So a busy program polls, and an idle one sleeps.
 *
 *	static int ucx_poll(void *arg)
 *	{
 *		struct ucx *u = arg;
 *
 *		return ucp_worker_progress(u->worker) > 0;
 *	}
 *
 *	static int ucx_before_sleep(void *arg, int *fd)
 *	{
 *		struct ucx *u = arg;
 *
 *		*fd = u->efd;	// of ucp_worker_get_efd()
 *		return ucp_worker_arm(u->worker) == UCS_ERR_BUSY;
 *	}
 *
 *	static const struct weir_poll_hook_ops ucx_ops = {
 *		.size = sizeof(ucx_ops), .name = "ucx",
 *		.poll = ucx_poll, .before_sleep = ucx_before_sleep,
 *	};
 *
 *	err = weir_poll_hook_create(&hook, reactor, &ucx_ops, &ucx);
 *
 * The reactor calls the functions on its thread, inside a turn, with no lock of
 * the library held:
 *
 *	spinning, or a turn:      poll
 *	poll has found something: deliver, in a turn
 *	before a sleep:           before_sleep
 *	after it, in the turn:    after_sleep, poll, deliver
 *
 * They must not block.  They may call any public function, create and destroy
 * any object, also their own hook, and stop the reactor.  They usually end
 * operations with weir_op_finish(), whose callbacks run later in the turn.  The
 * reactor's turn, run and destroy return -EBUSY to them.  What they start is
 * submitted before the reactor sleeps.
 *
 * Work in a turn is bounded.  The reactor polls at most WEIR_POLL_HOOKS_AT_ONCE
 * hooks in it, once each, and continues with the others in the next turn; .poll
 * should limit what it does in one call.  .deliver gets the number of callbacks
 * that it may still run.
 *
 * A reactor that stops polls its hooks until it has stopped, because the
 * operations in flight may need that to end.  With a host
 * (weir_reactor_fd()) the reactor counts as asleep between turns: .before_sleep
 * is called at the end of each, and the descriptor becomes a part of the
 * reactor's.  Then nothing polls between turns.
 *
 * In a simulated world, .before_sleep is called when the reactor has nothing to
 * do, and only an event of the world ends its sleep.  The descriptor may be one
 * of the world, such as weir_event_fd().  The world polls a descriptor of the
 * system at most 1 ms of its time after every other event, so what makes it
 * readable must be done on the world's thread for a run to be repeatable.
 *
 * Re-creates uv_prepare_t, uv_check_t and uv_idle_t, ev_prepare and ev_check of
 * libev, and spdk_poller with spdk_interrupt_register() for the sleep.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_poll_hook;
struct weir_reactor;

/* Hooks that a reactor polls in a turn; the others follow in the next. */
#define WEIR_POLL_HOOKS_AT_ONCE 64

/*
 * The functions of a poll hook.  Set .size to the size of the struct; zero the
 * members that are not needed.
 */
struct weir_poll_hook_ops {
	size_t size;
	const char *name;	/* For people; valid as long as the hook. */

	/*
	 * Poll once.  Returns 1 if there is something to deliver, or something
	 * was done; 0 if there was nothing; or a negative errno, which is
	 * counted and else means 0.  After 1 the reactor has a turn before it
	 * sleeps.
	 */
	int (*poll)(void *arg);

	/*
	 * Run at most @max callbacks of the hook's own, after .poll() has
	 * returned 1.  Returns how many ran: if @max, it is called again in the
	 * next turn without a poll; or a negative errno, which is counted and
	 * else means 0.  NULL: the hook has no callbacks of its own.
	 */
	int (*deliver)(void *arg, uint32_t max);

	/*
	 * The reactor is about to sleep: arrange that a descriptor becomes
	 * readable when there is something to poll for.  Then check once more,
	 * if it could have come before that.
	 *
	 * On entry *@fd is the descriptor that the reactor watched for this
	 * hook before, or -1.  The function may set another; -1 means that
	 * nothing has to be watched, because another thread wakes the reactor,
	 * by weir_post(), say.  The descriptor stays the hook's.  Keep it open
	 * until another one was returned, or the hook is destroyed.
	 *
	 * Returns 0: the reactor may sleep, until the descriptor is readable or
	 * for any other reason; 1: there is something to poll for, it must not
	 * sleep; or a negative errno: the library could not be armed.  Then, or
	 * if the descriptor cannot be watched, the failure is counted, and the
	 * reactor sleeps for at most a millisecond before it polls again.
	 */
	int (*before_sleep)(void *arg, int *fd);

	/*
	 * The reactor is awake again after .before_sleep(), which may have been
	 * called more than once; it need not have slept.  @readable is 1 if the
	 * descriptor was seen readable since this function was last called:
	 * read the event from it, unless the library does that by itself.  Also
	 * called, with 1, if the descriptor becomes readable while the reactor
	 * is awake.  NULL: not needed.
	 */
	void (*after_sleep)(void *arg, int readable);
};

/* Counters of a hook; weir_poll_hook_stats(). */
struct weir_poll_hook_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t polls;		/* Calls of .poll(). */
	uint64_t found;		/* Of them, those that returned 1. */
	uint64_t delivered;	/* Callbacks, as .deliver() returned them. */
	uint64_t sleeps;	/* Times that .before_sleep() has allowed one. */
	uint64_t refused;	/* And times that it did not. */
	uint64_t wakeups;	/* Times that the descriptor was readable. */
	uint64_t failures;	/* Of the functions, or of the watch. */
	int32_t error;		/* The last of these: a negative errno, or 0. */
	uint32_t reserved;
};

/*
 * Have @r poll by the functions @ops, to which it passes @arg.
 *
 * The library copies @ops.  The hook is polled from the next turn on.
 *
 * Returns 0 with *@ret set, to be freed by weir_poll_hook_destroy(), or
 *   -EINVAL     .poll or .before_sleep is NULL, or .size was not set
 *   -E2BIG      @ops sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread, callbacks and functions of hooks included.  Never
 * blocks.
 *
 * Re-creates uv_prepare_start() and spdk_poller_register().
 */
WEIR_API int weir_poll_hook_create(struct weir_poll_hook **ret,
				   struct weir_reactor *r,
				   const struct weir_poll_hook_ops *ops,
				   void *arg);

/*
 * Get the counters of @hook.
 *
 * The caller sets .size of *@ret.  They are also on the page of statistics, as
 * a section "poll_hook" of the reactor's, under the name of the hook.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the hook's reactor.  Never blocks.
 *
 * Re-creates spdk_poller_get_stats().
 */
WEIR_API int weir_poll_hook_stats(const struct weir_poll_hook *hook,
				  struct weir_poll_hook_stats *ret);

/*
 * End the polling of @hook, and free it.
 *
 * No function of it is called any more, not even .after_sleep(); one that is
 * running, and makes this call, returns as usual.  The caller may close the
 * descriptor at once.  Operations that only this hook would end stay in flight.
 * NULL is allowed.
 *
 * Call on the hook's reactor, from any callback or function of a hook, or
 * outside a turn.  Never blocks.
 *
 * Re-creates uv_close() of a prepare handle, and spdk_poller_unregister().
 */
WEIR_API void weir_poll_hook_destroy(struct weir_poll_hook *hook);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_POLL_HOOK_H */
