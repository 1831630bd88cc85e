/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ROUTE_H
#define WEIR_ROUTE_H

/*
 * Routes: the plan for a job, and how it was executed.
 *
 * If a user's domain can translate, the library first asks it for the place of
 * its bytes.  If they are memory of this process, the job is done there,
 * without a pull or push.  Otherwise the job has the route that it would have
 * without translate.
 *
 * If one engine can do a job, that engine does it: directly, or as a pull or a
 * push if one side is memory of this process.  Any other job bounces: the
 * library pulls a block of the source into staging memory of the context,
 * computes over it (checksum, comparison), and pushes it to the destination,
 * while it pulls the next one.  The context has .staging_bufs such buffers,
 * which jobs use in turn.
 *
 * A function of a domain or engine may start jobs that bounce in the same
 * context, and end its own operation when they have ended.  Staging is reserved
 * for these jobs
 *   - if they need no user function, whenever they are started;
 *   - if they are started inside the function, not later from the loop, and in
 *     functions nested at most three deep.  A job that would be nested deeper
 *     is refused with -EDEADLK.
 *
 * Staging of a cancelled job is in quarantine until the device has released it.
 * Up to four smaller buffers replace such staging.  While a domain has not
 * released two, further jobs over it wait; weir_route_explain() names it.
 *
 *	weir_route_explain(dma, &job, text, sizeof(text));
 *
 *	bounce: pull by file, push by domain, 3 blocks of 262144 bytes
 *	  not direct: cpu: only memory of this process; file: only files, ...
 *
 * The plan depends only on the job and on the capabilities of the engines.  If
 * a job that bounces has to wait for staging now, a line that begins with
 * "now:" gives the reason.
 *
 * UCX makes such a choice and does not report it; in SPDK the caller bounces.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_dma;
struct weir_job;

/* Routes; weir_job_route.route. */
#define WEIR_ROUTE_DIRECT 1	/* One engine does it. */
#define WEIR_ROUTE_PULL 2	/* One engine, to memory of this process. */
#define WEIR_ROUTE_PUSH 3	/* One engine, from memory of this process. */
#define WEIR_ROUTE_BOUNCE 4	/* Through staging. */
#define WEIR_ROUTE_TRANSLATE 5	/* One engine, or staging, on memory to which
				 * a user's domain has translated. */

/* The route of a job; weir_job_get_route(). */
struct weir_job_route {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t route;		/* WEIR_ROUTE_ */
	uint32_t steps;		/* Pulls and pushes of a bounce. */
	const char *engine;	/* Of a route with one engine; else NULL. */
	const char *pull;	/* Of a bounce, for .src; NULL: it is memory, or
				 * there is none. */
	const char *push;	/* The same for .dst; a comparison pulls it. */
	int32_t refused;	/* The errno for which a better route was
				 * abandoned: of the kernel, to copy a file, or
				 * of a domain, to transfer. */
	uint32_t reserved;
	uint64_t bounced;	/* Bytes that went through staging. */
};

/*
 * Get the route that @job has taken.
 *
 * The caller sets .size of *@ret.  The names are those of engines.
 *
 * Returns 0, or
 *   -EINVAL  @job is in flight, or .size is smaller than the member itself
 *   -ENOENT  @job has never been started
 *
 * Call on the reactor's thread, in the callback or after it.  Never blocks.
 */
WEIR_API int weir_job_get_route(const struct weir_job *job,
				struct weir_job_route *ret);

/*
 * Explain the route that @job would take if it were started in @dma now.
 *
 * The call writes lines of text to the @len bytes at @text: the plan, and for
 * each better route the reason why it is not possible.  The text is cut if it
 * is longer.  If the job would be refused, the text has the reason.  The call
 * changes nothing.
 *
 * Returns 0, or what weir_job_start() would return.
 *
 * Call on @dma's reactor.  Never blocks.
 */
WEIR_API int weir_route_explain(struct weir_dma *dma,
				const struct weir_job *job, char *text,
				size_t len);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ROUTE_H */
