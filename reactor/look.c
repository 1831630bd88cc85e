/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is written to memory by somebody who cannot wake us without help: words
 * of other processes, completion queues of devices.  As long as the reactor is
 * awake it looks itself, which is cheaper than any help; before it sleeps, it
 * says so, and looks once more.
 */

#include "reactor/op-inline.h"

bool look_has_room(const struct weir_reactor *r)
{
	return r->plain_looks.n < LOOKS_MAX;
}

static struct look_list *list_of(struct weir_reactor *r,
				 const struct weir_look *look)
{
	return look->cls->deliver ? &r->looks : &r->plain_looks;
}

void look_begin(struct weir_reactor *r, struct weir_look *look,
		const struct weir_look_class *cls)
{
	struct look_list *list;

	look->cls = cls;
	list = list_of(r, look);
	look->next = list->first;
	look->pprev = &list->first;
	if (look->next)
		look->next->pprev = &look->next;
	list->first = look;
	list->n++;
	r->n_looks++;
}

void look_end(struct weir_reactor *r, struct weir_look *look)
{
	struct look_list *list;

	if (!look->pprev)
		return;
	list = list_of(r, look);
	if (list->at == look)
		list->at = look->next;
	*look->pprev = look->next;
	if (look->next)
		look->next->pprev = look->pprev;
	look->pprev = NULL;
	list->n--;
	r->n_looks--;
}

/* One may end its own look, or another: .at is moved on by that. */
static struct weir_look *next(struct look_list *list)
{
	struct weir_look *look = list->at ? list->at : list->first;

	if (look)
		list->at = look->next;
	return look;
}

/* How many have their turn. */
static uint32_t share(const struct look_list *list)
{
	return list->n < LOOKS_AT_ONCE ? list->n : LOOKS_AT_ONCE;
}

static bool run(struct look_list *list)
{
	uint32_t n = share(list);
	struct weir_look *look;
	bool any = false;

	while (n-- && (look = next(list)))
		any |= look->cls->look(look);
	return any;
}

bool looks_run(struct weir_reactor *r, bool spinning)
{
	bool any = run(&r->plain_looks);

	return (spinning && run(&r->looks)) || any;
}

unsigned int looks_deliver(struct weir_reactor *r)
{
	uint32_t n = share(&r->looks);
	struct weir_look *look;
	unsigned int ran = 0;

	while (n-- && ran < r->turn_max && (look = next(&r->looks)))
		ran += look->cls->deliver(look);
	return ran;
}

/* All: what is left out here might never be heard of. */
bool looks_asleep(struct weir_reactor *r)
{
	struct weir_look *look;
	bool any = false;

	for (look = r->plain_looks.first; look; look = look->next)
		any |= look->cls->asleep(look);
	for (look = r->looks.first; look; look = look->next)
		any |= look->cls->asleep(look);
	return any;
}

void looks_awake(struct weir_reactor *r)
{
	struct weir_look *look;

	for (look = r->plain_looks.first; look; look = look->next)
		if (look->cls->awake)
			look->cls->awake(look);
	for (look = r->looks.first; look; look = look->next)
		if (look->cls->awake)
			look->cls->awake(look);
}
