/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_CM_H
#define WEIR_RDMA_CM_H

/*
 * The event channel of librdmacm in the loop: what happens to identifiers that
 * are being resolved, connected and disconnected.  <weir/conn.h> is built on
 * this; it is for programs that use librdmacm themselves.
 *
 * Each event is read, copied with its private data, and acknowledged before
 * anybody is told.  So a callback may destroy the identifier that it is about,
 * which would wait for ever otherwise.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdma_cm_event;
struct rdma_event_channel;
struct weir_cm;
struct weir_reactor;

/*
 * Called with each event; @event, and the private data that it points to, are
 * there until it returns.  May destroy the identifier, and @cm.
 */
typedef void weir_cm_fn(struct weir_cm *cm, const struct rdma_cm_event *event,
			void *arg);

/*
 * Make an event channel that calls @fn with @arg, on @r, for each of its
 * events.
 *
 * Returns 0 with *@ret set, to be freed by weir_cm_destroy(), or
 *   -EINVAL      @fn is NULL
 *   -ENODEV      there is no RDMA here
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory
 *   -ESHUTDOWN   @r is stopping
 * or what else librdmacm answers.
 *
 * Call on @r's thread.
 *
 * Re-creates rdma_create_event_channel().
 */
WEIR_API int weir_cm_create(struct weir_cm **ret, struct weir_reactor *r,
			    weir_cm_fn *fn, void *arg);

/*
 * The event channel of @cm, to make identifiers with, or to move them to.  Do
 * not read or destroy it.
 *
 * Any thread.  Never blocks.  Re-creates rdma_create_event_channel().
 */
WEIR_API struct rdma_event_channel *weir_cm_events(const struct weir_cm *cm);

/*
 * Free @cm and its event channel: no callback follows.  Its identifiers must be
 * destroyed before.  NULL is allowed.
 *
 * Call on its reactor.
 *
 * Re-creates rdma_destroy_event_channel().
 */
WEIR_API void weir_cm_destroy(struct weir_cm *cm);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_CM_H */
