/* SPDX-License-Identifier: BSD-3-Clause */

#include <sched.h>

#include "reactor/group/deferred.h"
#include "reactor/reactor-internal.h"

/* Cleared first: what is sent while it runs is another deferred call. */
static void deferred_arrived(struct weir_op *op)
{
	struct deferred *deferred = weir_container_of(op, struct deferred, op);

	atomic_store(&deferred->sent, false);
	deferred->run(deferred);
}

static const struct weir_op_class deferred_class = {
	.name = "deferred call",
	.returned = deferred_arrived,
};

void deferred_init(struct deferred *deferred, struct weir_reactor *r,
		   void (*run)(struct deferred *deferred))
{
	memset(deferred, 0, sizeof(*deferred));
	deferred->op.reactor = r;
	deferred->op.cls = &deferred_class;
	deferred->run = run;
}

void deferred_send(struct deferred *deferred)
{
	if (!atomic_load(&deferred->sent) &&
	    !atomic_exchange(&deferred->sent, true))
		op_return(&deferred->op);
}

/* Between its mark and its arrival a sender may have lost its processor. */
void deferred_finish(struct deferred *deferred)
{
	struct weir_reactor *r = deferred->op.reactor;

	reactor_check_thread(r);
	while (atomic_load(&deferred->sent)) {
		if (mailbox_take(r, &deferred->op))
			deferred_arrived(&deferred->op);
		else
			sched_yield();
	}
}
