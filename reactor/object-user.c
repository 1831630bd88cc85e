/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects of a program's own: a place in the reactor's list of objects, a
 * deferred call, and a section on the page of statistics.
 */

#include <weir/object.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "reactor/group/deferred.h"
#include "reactor/reactor-internal.h"
#include "reactor/stats/page.h"

#define CREATE "weir_object_create"

struct weir_object {
	struct reactor_obj obj;
	struct deferred deferred;
	struct weir_reactor *reactor;
	struct weir_object_ops ops;
	void *arg;
	struct weir_object *next;	/* In the reactor's list of them. */
	struct weir_object **pprev;
	struct stats_item item;
	uint64_t counters[];
};

static int check_fields(const struct weir_object_ops *ops)
{
	const struct weir_object_field *f = ops->fields;
	uint32_t i;

	if (ops->n_fields > WEIR_OBJECT_FIELDS_MAX)
		return why(-EINVAL, CREATE ": %u fields; at most %d",
			   ops->n_fields, WEIR_OBJECT_FIELDS_MAX);
	if (ops->n_fields && (!f || !ops->publish))
		return why(-EINVAL, CREATE ": .n_fields without .fields or "
			   ".publish");
	for (i = 0; i < ops->n_fields; i++)
		if (!f[i].name || !f[i].help || f[i].reserved ||
		    f[i].unit > WEIR_STATS_BYTES ||
		    (f[i].type != WEIR_STATS_COUNTER &&
		     f[i].type != WEIR_STATS_GAUGE))
			return why(-EINVAL, CREATE ": field %u has no .name or "
				   ".help, or an unknown .type or .unit", i);
	return 0;
}

static int load_ops(struct weir_object_ops *ops,
		    const struct weir_object_ops *user)
{
	int err = user ? opts_load(ops, sizeof(*ops), user, CREATE) :
			 why(-EINVAL, CREATE ": no functions");

	if (!err && (!ops->name || ops->reserved))
		err = why(-EINVAL, CREATE ": .name is NULL, or .reserved is not "
			  "0");
	return err ? err : check_fields(ops);
}

static void publish(struct stats_item *item, uint64_t now)
{
	struct weir_object *o = weir_container_of(item, struct weir_object,
						  item);

	o->ops.publish(o->arg, o->counters);
	stats_put(item->record, now, o->counters);
}

/* The page copies what it needs of a kind, and knows it by the user's table. */
static void add_section(struct weir_object *o, const char *label)
{
	struct stats_field fields[WEIR_OBJECT_FIELDS_MAX];
	const struct stats_kind kind = {
		.name = o->ops.section ? o->ops.section : o->ops.name,
		.fields = fields,
		.n_fields = o->ops.n_fields,
		.id = o->ops.fields,
	};
	const struct weir_object_field *f = o->ops.fields;
	uint32_t i;

	for (i = 0; i < kind.n_fields; i++)
		fields[i] = (struct stats_field){
			f[i].name, f[i].help, (uint8_t)f[i].type,
			(uint8_t)f[i].unit, 0,
		};
	stats_item_add(o->reactor, &o->item, &kind, publish, 0,
		       label ? label : "");
}

static void notified(struct deferred *deferred)
{
	struct weir_object *o = weir_container_of(deferred, struct weir_object,
						  deferred);

	if (!o->ops.notified)
		return;
	/* It may destroy the object. */
	o->reactor->delivered++;
	o->ops.notified(o->arg);
}

int weir_object_create(struct weir_object **ret, struct weir_reactor *r,
		       const struct weir_object_ops *user, const char *label,
		       void *arg)
{
	struct weir_object_ops ops;
	struct weir_object *o;
	int err;

	reactor_check_thread(r);
	err = load_ops(&ops, user);
	if (err)
		return err;
	if (r->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, CREATE ": the reactor is stopping or "
			   "stopped; weir_reactor_start() starts it again");
	o = mem_calloc(1, sizeof(*o) + ops.n_fields * sizeof(o->counters[0]));
	if (!o)
		return why(-ENOMEM, CREATE ": no memory");
	(void)reactor_attach(r, &o->obj, ops.name);
	o->reactor = r;
	o->ops = ops;
	o->arg = arg;
	o->next = r->user_objs;
	o->pprev = &r->user_objs;
	if (o->next)
		o->next->pprev = &o->next;
	r->user_objs = o;
	deferred_init(&o->deferred, r, notified);
	if (ops.n_fields)
		add_section(o, label);
	*ret = o;
	return 0;
}

void weir_object_notify(struct weir_object *o)
{
	deferred_send(&o->deferred);
}

void weir_object_destroy(struct weir_object *o)
{
	struct weir_reactor *r;

	if (!o)
		return;
	r = o->reactor;
	reactor_check_thread(r);
	if (r->user_obj_next == o)
		r->user_obj_next = o->next;
	*o->pprev = o->next;
	if (o->next)
		o->next->pprev = o->pprev;
	o->ops.notified = NULL;
	deferred_finish(&o->deferred);
	stats_item_del(&o->item);
	reactor_detach(&o->obj);
	free(o);
}

/* A function may destroy any of them: the list moves .user_obj_next on. */
void objects_stop(struct weir_reactor *r)
{
	struct weir_object *o;

	reactor_check_thread(r);
	for (o = r->user_objs; o; o = r->user_obj_next) {
		r->user_obj_next = o->next;
		if (o->ops.stop)
			o->ops.stop(o->arg);
	}
}
