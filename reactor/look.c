/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Operations that end by what is written to memory, by somebody who cannot wake
 * us without help.  As long as the reactor is awake it looks itself, which is
 * cheaper than any help; before it sleeps, it says so.
 */

#include "reactor/op-inline.h"

bool look_begin(struct weir_op *op)
{
	struct weir_reactor *r = op->reactor;

	if (r->n_looks == LOOKS_MAX)
		return false;
	r->looks[r->n_looks++] = op;
	return true;
}

void look_end(struct weir_op *op)
{
	struct weir_reactor *r = op->reactor;
	unsigned int i;

	for (i = 0; i < r->n_looks; i++) {
		if (r->looks[i] != op)
			continue;
		r->looks[i] = r->looks[--r->n_looks];
		return;
	}
}

/* From the end, because one that ends its look moves the last to its place. */
void looks_run(struct weir_reactor *r)
{
	unsigned int i;

	for (i = r->n_looks; i; i--)
		r->looks[i - 1]->cls->look(r->looks[i - 1]);
}

void looks_asleep(struct weir_reactor *r)
{
	unsigned int i;

	for (i = 0; i < r->n_looks; i++)
		r->looks[i]->cls->asleep(r->looks[i], true);
}

void looks_awake(struct weir_reactor *r)
{
	unsigned int i;

	for (i = 0; i < r->n_looks; i++)
		r->looks[i]->cls->asleep(r->looks[i], false);
}
