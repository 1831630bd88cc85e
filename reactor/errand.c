/* SPDX-License-Identifier: BSD-3-Clause */

#include <sched.h>

#include "reactor/errand.h"
#include "reactor/reactor-internal.h"

/* Cleared first: what is sent while it runs is another errand. */
static void errand_home(struct weir_op *op)
{
	struct errand *errand = weir_container_of(op, struct errand, op);

	atomic_store(&errand->sent, false);
	errand->run(errand);
}

static const struct weir_op_class errand_class = {
	.name = "errand",
	.home = errand_home,
};

void errand_init(struct errand *errand, struct weir_reactor *r,
		 void (*run)(struct errand *errand))
{
	memset(errand, 0, sizeof(*errand));
	errand->op.reactor = r;
	errand->op.cls = &errand_class;
	errand->run = run;
}

void errand_send(struct errand *errand)
{
	if (!atomic_load(&errand->sent) &&
	    !atomic_exchange(&errand->sent, true))
		op_return(&errand->op);
}

/* Between its mark and its arrival a sender may have lost its processor. */
void errand_finish(struct errand *errand)
{
	struct weir_reactor *r = errand->op.reactor;

	reactor_check_thread(r);
	while (atomic_load(&errand->sent)) {
		if (mailbox_take(r, &errand->op))
			errand_home(&errand->op);
		else
			sched_yield();
	}
}
