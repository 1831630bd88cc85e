/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of a reactor's objects, descriptors of backends, and the wake-up of
 * a foreign loop. */

#include <sys/eventfd.h>

#include "base/why.h"
#include "reactor/reactor-internal.h"

const struct vfd_ops *vfd_ops;
_Thread_local unsigned int backend_isolates;

int reactor_attach(struct weir_reactor *r, struct reactor_obj *obj,
		   const char *what)
{
	reactor_check_thread(r);
	if (r->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, "%s_create: the reactor is stopping or "
			   "stopped; weir_reactor_start() starts it again",
			   what);
	obj->what = what;
	reactor_insert(&r->objs, obj);
	return 0;
}

void reactor_detach(struct reactor_obj *obj)
{
	*obj->pprev = obj->next;
	if (obj->next)
		obj->next->pprev = obj->pprev;
}

void host_kick(struct weir_reactor *r)
{
	reactor_check_thread(r);
	if (r->host.kicked)
		return;
	r->host.kicked = true;
	if (likely(r->host.epoll >= 0))
		eventfd_write(r->host.event, 1);
}
