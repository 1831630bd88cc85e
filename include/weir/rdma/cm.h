/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_CM_H
#define WEIR_RDMA_CM_H

/*
 * The event channel of librdmacm in the loop: events of identifiers that are
 * resolved, connected and disconnected.  <weir/conn.h> uses it; use it directly
 * in programs that use librdmacm themselves.
 *
 * The library reads each event, copies it with its private data, and
 * acknowledges it before the callback runs.  So a callback may destroy the
 * identifier of the event; before the acknowledgement, that would block for
 * ever.
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
 * Called with each event; @event and its private data are valid until it
 * returns.  May destroy the identifier, and @cm.
 */
typedef void weir_cm_fn(struct weir_cm *cm, const struct rdma_cm_event *event,
			void *arg);

/*
 * Create an event channel that calls @fn with @arg, on @r, for each of its
 * events.
 *
 * Returns 0 with *@ret set, to be freed by weir_cm_destroy(), or
 *   -EINVAL      @fn is NULL
 *   -ENODEV      this system has no RDMA
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory
 *   -ESHUTDOWN   @r is stopping
 * or another errno of librdmacm.
 *
 * Call on @r's thread.
 *
 * Re-creates rdma_create_event_channel().
 */
WEIR_API int weir_cm_create(struct weir_cm **ret, struct weir_reactor *r,
			    weir_cm_fn *fn, void *arg);

/*
 * Get the event channel of @cm, to create identifiers on it or move them to it.
 *
 * Do not read or destroy it.
 *
 * Returns the event channel.  Any thread.  Never blocks.  Re-creates
 * rdma_create_event_channel().
 */
WEIR_API struct rdma_event_channel *weir_cm_events(const struct weir_cm *cm);

/*
 * Free @cm and its event channel.
 *
 * No callback runs afterwards.  Destroy its identifiers before.  NULL is
 * allowed.
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
