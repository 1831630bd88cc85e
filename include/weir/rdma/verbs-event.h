/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_VERBS_EVENT_H
#define WEIR_RDMA_VERBS_EVENT_H

/*
 * Asynchronous events of an RDMA device in the loop: queue pairs that have
 * failed, ports that come and go, a device that is removed.
 *
 * Each is read, copied and acknowledged before anybody is told.  So a callback
 * may destroy the queue pair that an event is about, which would wait for ever
 * otherwise.
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
 * no turn was made for too long.  What @event is about may be gone by
 * now, if another reactor's callback was told first: compare its address with
 * those that you know, and follow no other.
 */
typedef void weir_verbs_event_fn(struct weir_verbs_event *source,
				 const struct ibv_async_event *event,
				 void *arg);

/*
 * Call @fn with @arg, on @r, for each asynchronous event of the device @ctx.
 *
 * A context may have several, on several reactors: each is told of all that
 * come from now on.  No other code may read them.
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
 * Free @source: no callback follows.  NULL is allowed.
 *
 * Call on its reactor.  Re-creates rte_dev_event_callback_unregister().
 */
WEIR_API void weir_verbs_event_destroy(struct weir_verbs_event *source);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_VERBS_EVENT_H */
