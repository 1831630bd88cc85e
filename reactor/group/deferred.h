/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_DEFERRED_H
#define WEIR_REACTOR_DEFERRED_H

/*
 * A deferred call: a function of an object of the reactor's that other threads
 * can have called on the reactor's thread, as often as they like and without
 * ever being refused.
 *
 * Embedded in the object.  The sender first stores what there is to do (a list
 * of returned bufs, a flag); sending says only that there is something.  Sends
 * that come before the deferred call runs are merged.
 *
 * It travels like an operation that is returned (see mailbox.h), but is none:
 * it is not counted, has no result, and is never in flight.
 */

#include <stdatomic.h>

#include "reactor/op-internal.h"

struct deferred {
	struct weir_op op;
	atomic_bool sent;
	void (*run)(struct deferred *deferred);
};

/*
 * Make @deferred call ready: @run is called on @r's thread, in its turn, at
 * least once after each send.
 */
void deferred_init(struct deferred *deferred, struct weir_reactor *r,
		   void (*run)(struct deferred *deferred));

/*
 * Any thread.  run() sees what the sender wrote before.  The deferred call may
 * run before this returns, but its reactor must exist until then: the sender
 * holds a lock that the destroyer takes, or is counted.
 */
void deferred_send(struct deferred *deferred);

/*
 * The reactor's thread: run it now, if it was sent, and nothing else.  No
 * thread may send it any more, or wait for it: after this it can be freed.
 */
void deferred_finish(struct deferred *deferred);

#endif /* WEIR_REACTOR_DEFERRED_H */
