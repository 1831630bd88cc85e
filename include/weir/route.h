/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ROUTE_H
#define WEIR_ROUTE_H

/*
 * Routes: the way that a job goes, before and after.
 *
 * A user's domain that can translate is asked where its bytes are; if they are
 * memory of this process, nothing is pulled or pushed: the job is done there.
 * Else it goes the way that it would go without that.
 *
 * A job that one engine can do is that engine's: directly, or as a pull or a
 * push where one side is memory of this process.  What no engine does at once
 * bounces: a block of the source is pulled into staging memory of the context,
 * looked at (checksum, comparison), and pushed to the destination, while the
 * next is pulled already.  The context has .staging_bufs of them; jobs take
 * turns.
 *
 * A function of a domain or engine may start jobs that bounce in the same
 * context, and end its own operation when they have ended.  Their staging is
 * reserved:
 *   - for jobs that need no function of the user's, whenever they are started;
 *   - for others if they are started inside the function, not later from the
 *     loop, and in functions nested no more than three deep.  A job that would
 *     be nested deeper is refused, -EDEADLK.
 *
 * Staging of a cancelled job is in quarantine until the device has let go of
 * it. Up to four times another, smaller buffer takes its place.  Jobs over a
 * domain that has not let go of two wait until it does; weir_route_explain()
 * names it.
 *
 *	weir_route_explain(dma, &job, text, sizeof(text));
 *
 *	bounce: pull by file, push by domain, 3 blocks of 262144 bytes
 *	  not direct: cpu: only memory of this process; file: only files, ...
 *
 * The plan depends on what the job asks for and on what the engines say that
 * they can, and on nothing else.  If a job that bounces has to wait for staging
 * now, a line that begins with "now:" says for what.
 *
 * UCX has such a choice, and does not tell; SPDK bounces by hand.
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
#define WEIR_ROUTE_TRANSLATE 5	/* One engine, on memory that a user's domain
				 * has said it is; or through staging then. */

/* The way a job went; weir_job_get_route(). */
struct weir_job_route {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t route;		/* WEIR_ROUTE_ */
	uint32_t steps;		/* Pulls and pushes of a bounce. */
	const char *engine;	/* Of a route with one; else NULL. */
	const char *pull;	/* Of a bounce: of .src; NULL: it is memory, or
				 * there is none. */
	const char *push;	/* The same of .dst; a comparison pulls it. */
	int32_t refused;	/* The errno for which a better route was left
				 * in flight: the kernel's, to copy a file, or
				 * a domain's, to transfer. */
	uint32_t reserved;
	uint64_t bounced;	/* Bytes that went through staging. */
};

/*
 * Copy to *@ret, whose .size the caller has set, which way @job went the last
 * time.  The names are those of the engines.
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
 * Say which way @job would go if it were started in @dma now, and for each
 * better way why not: lines of text in the @len bytes at @text, cut off where
 * they end.  If it would be refused, the text says for what.  Nothing changes.
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
