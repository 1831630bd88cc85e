/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_OBJECT_H
#define WEIR_OBJECT_H

/*
 * Objects of a program's own on a reactor: a connection, a queue of a card, a
 * cache.  The library does for them what it does for its timers, pools and
 * connections:
 *
 *   - weir_reactor_destroy() refuses while one exists, and names it
 *   - any thread can have the object's function called on the reactor's thread,
 *     without ever being refused: weir_object_notify()
 *   - it is told when its reactor begins to stop
 *   - its counters are a section of the page of statistics, <weir/stats.h>
 *
 *	static const struct weir_object_ops ops = {
 *		.size = sizeof(ops), .name = "acme_queue",
 *		.notified = queue_notified, .stop = queue_stop,
 *	};
 *
 *	err = weir_object_create(&q->obj, reactor, &ops, "acme0", q);
 *
 * A notification has no contents: the sender first stores what there is to do,
 * and .notified looks for it.  Work that must be counted, that can be
 * cancelled, or that needs a result is an operation: weir_op_start().
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_object;
struct weir_reactor;

/* Fields that a section can have. */
#define WEIR_OBJECT_FIELDS_MAX 64

/* A number of an object's section on the page of statistics. */
struct weir_object_field {
	const char *name;	/* "packets"; up to 31 bytes are kept. */
	const char *help;	/* A line for people; up to 79 bytes. */
	uint16_t type;		/* WEIR_STATS_COUNTER or _GAUGE */
	uint16_t unit;		/* WEIR_STATS_NUMBER, _NS or _BYTES */
	uint32_t reserved;	/* 0 */
};

/*
 * The functions of an object.  Set .size to the size of the struct; zero what
 * is not needed.
 *
 * They are called on the reactor's thread, with no lock of the library held.
 * .notified and .stop may call any public function, and destroy any object,
 * also their own; the reactor's turn, run and destroy return -EBUSY to them.
 */
struct weir_object_ops {
	size_t size;
	const char *name;	/* Of the kind of object: "acme_queue". */

	/* In the loop, at least once after each weir_object_notify(); those that
	 * come before it is called are merged. */
	void (*notified)(void *arg);

	/*
	 * The reactor begins to stop, and is about to cancel its operations.
	 * The object goes on: it can start timers, is notified, and its poll
	 * hooks and watches with WEIR_THROUGH_STOP are called, until the
	 * operations have ended.  It should start nothing new.
	 */
	void (*stop)(void *arg);

	/*
	 * The section on the page of statistics, whose kind is .section, or
	 * .name if that is NULL; at most 31 bytes are kept.  Before the reactor
	 * writes the page, .publish() sets *@values, one for each field; it
	 * must do nothing else.  The table must not change while the process
	 * runs: sections with the same table are of one kind.
	 */
	const char *section;
	const struct weir_object_field *fields;
	uint32_t n_fields;	/* At most WEIR_OBJECT_FIELDS_MAX; 0: none. */
	uint32_t reserved;
	void (*publish)(void *arg, uint64_t *values);
};

/*
 * Create an object on @r, with the functions @ops, to which the library passes
 * @arg.
 *
 * The library copies @ops, but .name must stay valid as long as the object.
 * @label names this one of its kind, on the page of statistics; NULL is "".
 *
 * Returns 0 with *@ret set, to be freed by weir_object_destroy(), or
 *   -EINVAL     .name is NULL or .size was not set; or there are .fields without
 *               .publish, too many of them, or one that has no name or an
 *               unknown type or unit
 *   -E2BIG      @ops sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping or stopped
 *
 * Call on @r's thread.
 *
 * Re-creates spdk_io_channel and uv_async_init().
 */
WEIR_API int weir_object_create(struct weir_object **ret,
				struct weir_reactor *r,
				const struct weir_object_ops *ops,
				const char *label, void *arg);

/*
 * Have .notified of @obj called, once or more, on its reactor's thread.
 *
 * It sees what the caller has written before.  A reactor that sleeps is woken;
 * otherwise the call makes no system call.  A stopped reactor calls the function
 * in its next turn.  Without .notified the reactor makes a turn.
 *
 * Any thread, while @obj exists: if another one destroys it, the two need a
 * lock.  Never blocks, never allocates, is never refused.
 *
 * Re-creates uv_async_send(), and spdk_thread_send_msg() without an allocation.
 */
WEIR_API void weir_object_notify(struct weir_object *obj);

/*
 * Destroy @obj: no function of it is called any more; one that is running, and
 * makes this call, returns as usual.  Notifications that wait are dropped.
 *
 * NULL is allowed.
 *
 * Call on the object's reactor, from any callback or function, or outside a
 * turn.  Never blocks.
 *
 * Re-creates uv_close() of an async handle, and spdk_put_io_channel().
 */
WEIR_API void weir_object_destroy(struct weir_object *obj);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_OBJECT_H */
