/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SEGMENT_EVENT_H
#define WEIR_SEGMENT_EVENT_H

/*
 * Changes of the map of memory in <weir/segment.h>: callbacks for lists that
 * are added and removed, and validators, which may refuse growth of this
 * process's memory.
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

/* Events of a list. */
#define WEIR_SEGMENT_ADDED 1	/* It was added, and is usable. */
#define WEIR_SEGMENT_REMOVING 2	/* It will be removed, but is still valid. */

/* Called with the list as one segment. */
typedef void weir_segment_event_fn(int event, const struct weir_segment *list,
				   void *arg);

/*
 * Call @fn(event, list, @arg) when a list has been added, and before one is
 * removed.
 *
 * @name is for people.  Present lists are not reported; walk for them.
 *
 * @fn runs on the thread that makes the change, with no lock held, and may call
 * any function.  A removal continues when all callbacks have returned.  @fn
 * cannot stop or destroy the mmap that is being removed (-EBUSY).  If a destroy
 * of an mmap, a pool or a shared pool has called @fn, do nothing else with that
 * object.  Callbacks run in the order of their registration.
 *
 * Returns 0, or
 *   -EINVAL        @name is NULL or empty, or @fn is NULL
 *   -ENAMETOOLONG  @name has WEIR_SEGMENT_NAME_MAX bytes or more
 *   -EEXIST        there is a callback with this name and @arg
 *   -ENOMEM        no memory
 *
 * Any thread, callbacks too.  Re-creates rte_mem_event_callback_register().
 */
WEIR_API int weir_segment_event_register(const char *name,
					 weir_segment_event_fn *fn, void *arg);

/*
 * Remove a callback of weir_segment_event_register().
 *
 * When the call returns the callback is not running, and will not run.  If the
 * call is made inside a callback or a validator, it does not wait for other
 * threads that are running the callback.
 *
 * Returns 0, or
 *   -EINVAL  @name is NULL or empty
 *   -ENAMETOOLONG  @name has WEIR_SEGMENT_NAME_MAX bytes or more
 *   -ENOENT  there is no callback with this name and @arg
 *
 * Any thread, callbacks too.  Re-creates rte_mem_event_callback_unregister().
 */
WEIR_API int weir_segment_event_unregister(const char *name, void *arg);

/*
 * Called with the total that the memory on @node would have.  Returns 0 to
 * allow the growth, or a negative errno, with which weir_mmap_start() then
 * fails.
 */
typedef int weir_segment_validator_fn(int node, uint64_t limit, uint64_t total,
				      void *arg);

/*
 * Call @fn(node, @limit, total, @arg) before memory is added to NUMA node @node
 * beyond a limit; @fn may refuse it.
 *
 * It is called if the total of this process's own memory there
 * (weir_segment_node_bytes()) would be @limit or more, so also at exactly the
 * limit.
 *
 * All validators concerned are called, in the order of their registration.  One
 * refusal is enough: the first errno is the result, and nothing changes.
 * Memory that another thread is adding at the time counts.  @fn runs on the
 * thread that adds, with no lock held, and may call any function, but not
 * start, stop or destroy the mmap in question (-EBUSY).
 *
 * Returns 0, or
 *   -EINVAL        @name is NULL or empty, @fn is NULL, or @node is negative
 *   -ENAMETOOLONG  @name has WEIR_SEGMENT_NAME_MAX bytes or more
 *   -EEXIST        there is a validator with this name and @node
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
 * Remove a validator of weir_segment_validator_register().
 *
 * Running validators are treated as callbacks by
 * weir_segment_event_unregister().
 *
 * Returns 0, or
 *   -EINVAL  @name is NULL or empty, or @node is negative
 *   -ENAMETOOLONG  @name has WEIR_SEGMENT_NAME_MAX bytes or more
 *   -ENOENT  there is no validator with this name and @node
 *
 * Any thread, callbacks too.  Re-creates
 * rte_mem_alloc_validator_unregister().
 */
WEIR_API int weir_segment_validator_unregister(const char *name, int node);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SEGMENT_EVENT_H */
