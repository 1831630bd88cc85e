/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_VERBS_EVENT_H
#define WEIR_RDMA_VERBS_EVENT_H

/*
 * Asynchronous events of an RDMA device in the loop: failed queue pairs,
 * changes of ports, the removal of the device.
 *
 * The library reads each event, copies it, and acknowledges it before callbacks
 * run.  So a callback may destroy the queue pair of the event; before the
 * acknowledgement, that would block for ever.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_async_event;
struct ibv_context;
struct weir_reactor;
struct weir_verbs_event;

/*
 * Called with each event of the device, and with NULL if some were lost because
 * the reactor made no turn for too long.  The object of @event may be gone, if
 * another reactor's callback ran first: compare its address with those of your
 * own objects, and do not dereference others.
 */
typedef void weir_verbs_event_fn(struct weir_verbs_event *source,
				 const struct ibv_async_event *event,
				 void *arg);

/*
 * Call @fn with @arg, on @r, for each asynchronous event of the device @ctx.
 *
 * A context may have several sources, on several reactors: each gets all later
 * events.  No other code may read them.
 *
 * Returns 0 with *@ret set, to be freed by weir_verbs_event_destroy(), or
 *   -EINVAL      @ctx or @fn is NULL
 *   -ENOMEM      no memory
 *   -ESHUTDOWN   @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates ibv_get_async_event(), in the loop.
 */
WEIR_API int weir_verbs_event_create(struct weir_verbs_event **ret,
				     struct weir_reactor *r,
				     struct ibv_context *ctx,
				     weir_verbs_event_fn *fn, void *arg);

/*
 * Free @source; no callback runs afterwards.
 *
 * NULL is allowed.
 *
 * Call on its reactor.  Re-creates rte_dev_event_callback_unregister().
 */
WEIR_API void weir_verbs_event_destroy(struct weir_verbs_event *source);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_VERBS_EVENT_H */
