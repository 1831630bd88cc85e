/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_DEFERRED_H
#define WEIR_REACTOR_DEFERRED_H

/*
 * A deferred call: something of a reactor's own that other threads can ask it
 * to look after, as often as they like and without ever being refused.
 *
 * Embedded in the object that is to be looked after.  What there is to do is
 * written down elsewhere first (a list of bufs that was returned, a flag);
 * sending says only that there is something.  Sends that come before the
 * deferred call runs are one.
 *
 * It travels as an operation that is returned (see mailbox.h), but is none: it
 * is not counted, has no result, and is never in flight.
 */

#include <stdatomic.h>

#include "base/provider.h"
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
		   void (*run)(struct deferred *deferred))
	PROVIDER_API(deferred_init);

/*
 * Any thread.  What was written before is seen by run().  The deferred call
 * may have run before the call returns, but its reactor must be there until
 * then: the sender holds a lock that the destroyer takes, or is counted.
 */
void deferred_send(struct deferred *deferred) PROVIDER_API(deferred_send);

/*
 * The reactor's thread: run it now, if it was sent, and nothing else.  Nobody
 * sends it any more, or waits for what it does: then it can be freed.
 */
void deferred_finish(struct deferred *deferred) PROVIDER_API(deferred_finish);

#endif /* WEIR_REACTOR_DEFERRED_H */
