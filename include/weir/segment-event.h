/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SEGMENT_EVENT_H
#define WEIR_SEGMENT_EVENT_H

/*
 * Changes of the map of memory in <weir/segment.h>: callbacks for lists that
 * come and go, and callbacks that are asked before this process's memory grows.
 *
 * Both belong to the process, like the map.
 *
 * Re-creates rte_memory: memory events and allocation validators.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_segment;

/* Names of callbacks are shorter than this. */
#define WEIR_SEGMENT_NAME_MAX 64

/* What happened to a list. */
#define WEIR_SEGMENT_ADDED 1	/* It is there, and usable. */
#define WEIR_SEGMENT_REMOVING 2	/* It will be gone, but still is there. */

/* Called with the list as one segment. */
typedef void weir_segment_event_fn(int event, const struct weir_segment *list,
				   void *arg);

/*
 * Have @fn(event, list, @arg) called when a list has been added, and before one
 * is removed.  @name is for people.  Lists that are there already are not told;
 * walk for them.
 *
 * It is called on the thread that makes the change, with no lock held, and may
 * call anything; removal goes on when all callbacks have returned.  It must not
 * stop or destroy the mmap whose removal it is told (-EBUSY), for that is being
 * done.  The first to register is called first.
 *
 * Returns 0, or
 *   -EINVAL        @name is NULL or empty, or @fn is NULL
 *   -ENAMETOOLONG  @name has WEIR_SEGMENT_NAME_MAX bytes or more
 *   -EEXIST        there is one with this name and @arg
 *   -ENOMEM        no memory
 *
 * Any thread, callbacks too.  Re-creates rte_mem_event_callback_register().
 */
WEIR_API int weir_segment_event_register(const char *name,
					 weir_segment_event_fn *fn, void *arg);

/*
 * Undo weir_segment_event_register().  When it returns the callback is not
 * running, and will not; called inside an event or a validator, it does not
 * wait for other threads that are in the callback.
 *
 * Returns 0, or
 *   -EINVAL  @name is NULL or empty
 *   -ENAMETOOLONG  @name has WEIR_SEGMENT_NAME_MAX bytes or more
 *   -ENOENT  there is none with this name and @arg
 *
 * Any thread, callbacks too.  Re-creates rte_mem_event_callback_unregister().
 */
WEIR_API int weir_segment_event_unregister(const char *name, void *arg);

/*
 * Called with what the memory on @node would come to.  Returns 0 to let it
 * grow, or a negative errno, with which weir_mmap_start() then fails.
 */
typedef int weir_segment_validator_fn(int node, uint64_t limit, uint64_t total,
				      void *arg);

/*
 * Have @fn(node, @limit, total, @arg) asked before memory of this process's own
 * is added to NUMA node @node, if the total there (weir_segment_node_bytes())
 * would then be @limit or more: at exactly the limit it is asked too, and may
 * say yes.
 *
 * All validators concerned are asked, in order of registration, and one refusal
 * is enough: the first one's errno is the answer, and nothing changes.  Memory
 * that another thread is adding at the time counts.  It is called on the thread
 * that adds, with no lock held, and may call anything but a start, stop or
 * destroy of the mmap that it is asked about (-EBUSY).
 *
 * Returns 0, or
 *   -EINVAL        @name is NULL or empty, @fn is NULL, or @node is negative
 *   -ENAMETOOLONG  @name has WEIR_SEGMENT_NAME_MAX bytes or more
 *   -EEXIST        there is one with this name and @node
 *   -ENOMEM        no memory
 *
 * Any thread, callbacks too.  Re-creates
 * rte_mem_alloc_validator_register().
 */
WEIR_API int weir_segment_validator_register(const char *name,
					     weir_segment_validator_fn *fn,
					     void *arg, int node,
					     uint64_t limit);

/*
 * Undo weir_segment_validator_register().  What
 * weir_segment_event_unregister() says of callbacks that run is so here too.
 *
 * Returns 0, or
 *   -EINVAL  @name is NULL or empty, or @node is negative
 *   -ENAMETOOLONG  @name has WEIR_SEGMENT_NAME_MAX bytes or more
 *   -ENOENT  there is none with this name and @node
 *
 * Any thread, callbacks too.  Re-creates
 * rte_mem_alloc_validator_unregister().
 */
WEIR_API int weir_segment_validator_unregister(const char *name, int node);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SEGMENT_EVENT_H */
