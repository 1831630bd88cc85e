/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * What is written to memory by somebody who cannot wake us without help: words
 * of other processes, completion queues of devices.  As long as the reactor is
 * awake it looks itself, which is cheaper than any help; before it sleeps, it
 * says so, and looks once more.
 */

#include "reactor/op-inline.h"

bool look_has_room(const struct weir_reactor *r)
{
	return r->n_looks < LOOKS_MAX;
}

void look_begin(struct weir_reactor *r, struct weir_look *look,
		const struct weir_look_class *cls)
{
	look->cls = cls;
	look->next = r->looks;
	look->pprev = &r->looks;
	if (look->next)
		look->next->pprev = &look->next;
	r->looks = look;
	r->n_looks++;
}

void look_end(struct weir_reactor *r, struct weir_look *look)
{
	if (!look->pprev)
		return;
	if (r->look_next == look)
		r->look_next = look->next;
	*look->pprev = look->next;
	if (look->next)
		look->next->pprev = look->pprev;
	look->pprev = NULL;
	r->n_looks--;
}

/* One may end its own look, or another: the cursor is moved on by that. */
bool looks_run(struct weir_reactor *r, bool spinning)
{
	struct weir_look *look;
	bool any = false;

	for (look = r->looks; look; look = r->look_next) {
		r->look_next = look->next;
		if (spinning || !look->cls->deliver)
			any |= look->cls->look(look);
	}
	return any;
}

unsigned int looks_deliver(struct weir_reactor *r)
{
	struct weir_look *look;
	unsigned int ran = 0;

	for (look = r->looks; look; look = r->look_next) {
		r->look_next = look->next;
		if (look->cls->deliver)
			ran += look->cls->deliver(look);
	}
	return ran;
}

bool looks_asleep(struct weir_reactor *r)
{
	struct weir_look *look;
	bool any = false;

	for (look = r->looks; look; look = look->next)
		any |= look->cls->asleep(look);
	return any;
}

void looks_awake(struct weir_reactor *r)
{
	struct weir_look *look;

	for (look = r->looks; look; look = look->next)
		if (look->cls->awake)
			look->cls->awake(look);
}
