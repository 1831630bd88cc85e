/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_KIND_H
#define WEIR_KIND_H

/*
 * Kinds of jobs that a program registers: compression, encryption, checksums,
 * or whatever else turns bytes into bytes.
 *
 * A kind is a table of functions.  Its jobs are started, routed, chained,
 * cancelled, given deadlines and simulated like those of the library's kinds.
 *
 *	static const struct weir_kind_ops ops = {
 *		.size = sizeof(ops), .name = "rot13",
 *		.flags = WEIR_KIND_OUTPUT, .run = rot13_run,
 *	};
 *
 *	err = weir_kind_register(&ops, &kind);
 *	...
 *	weir_job_registered(&rq->job, kind, dst, src, NULL);
 *	err = weir_job_start(dma, &rq->job);
 *
 * The library calls .run() again and again, each time with a piece of the input
 * and capacity for output, until the kind says that its output is complete.  So
 * a kind needs to know nothing of lists, domains and slices:
 *
 *   - Between memory of this process the pieces are those of the operands
 *     themselves.  The reactor's thread calls .run() in slices, within what the
 *     context may do in a turn; from .worker_min bytes on a worker does.
 *   - If a side is elsewhere, in a file, in another process or at a peer, its
 *     bytes go through staging, see <weir/route.h>: the library pulls a block,
 *     calls .run(), and pushes what that has written, while it pulls the next
 *     block.
 *   - If a kind works on units, blocks of 512 bytes say, it gets whole units,
 *     also where the pieces of a list divide one.
 *   - A program's engine may do the jobs of a kind in hardware: its .can() is
 *     asked with the number of the kind, see <weir/engine.h>.
 *
 * Input and output may differ in length.  .shape() names the capacity that a
 * destination must have; a job with less is refused with -EMSGSIZE before
 * anything has begun.  A kind that cannot know it, such as a decompression,
 * names none: then a job whose destination becomes full ends with -ENOSPC, and
 * nothing is written beyond the destination.  Bufs, as in any job, have the
 * data that were written only if the job succeeds.
 *
 * Re-creates the opcodes of the SPDK accel framework, which are an enum that
 * only SPDK can extend.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_job;

/* Kinds that a process can register. */
#define WEIR_KINDS_MAX 64

/* Bytes that a unit may have; weir_kind_shape. */
#define WEIR_KIND_UNIT_MAX 8192

/* Words that a job has for its kind: what it remembers from call to call, and
 * what it reports. */
#define WEIR_KIND_STATE 6
#define WEIR_KIND_RESULT 4

/* weir_kind_ops.flags */
#define WEIR_KIND_OUTPUT 1u	/* It has a destination. */
#define WEIR_KIND_WHOLE 2u	/* One call gets all of both sides. */
#define WEIR_KIND_EMPTY 4u	/* An input of 0 bytes makes sense. */
#define WEIR_KIND_IN_PLACE 8u	/* Both sides may be the same range. */

/* What a job of a kind needs; filled in by weir_kind_ops.shape(), and set to
 * these defaults before. */
struct weir_kind_shape {
	uint32_t in_unit;	/* Input is a multiple of this; 1. */
	uint32_t out_unit;	/* Bytes that one unit of input makes, if that
				 * is always the same; 1. */
	uint64_t out_min;	/* Capacity that the destination must have; 0:
				 * not known. */
};

/* One call of weir_kind_ops.run(). */
struct weir_kind_run {
	const struct weir_job *job;
	const void *args;	/* weir_job_args() */
	const void *in;
	size_t in_len;
	void *out;		/* Without WEIR_KIND_OUTPUT: NULL. */
	size_t out_len;
	uint64_t offset;	/* Of .in in the input of the job. */
	uint32_t last;		/* The input ends with this. */
	uint32_t reserved;
	uint64_t *state;	/* WEIR_KIND_STATE words; 0 at the first call. */
	uint64_t *result;	/* WEIR_KIND_RESULT words, for
				 * weir_job_result(); 0 at the first call. */
	size_t consumed;	/* Set by .run(): bytes of .in that are done. */
	size_t produced;	/* Bytes of .out that are written. */
};

/*
 * The functions of a kind.  Set .size to the size of the struct.
 */
struct weir_kind_ops {
	size_t size;
	const char *name;	/* For people; up to 31 bytes are kept. */
	uint32_t flags;		/* WEIR_KIND_ */
	uint32_t weight;	/* The time for a byte, in bytes that could be
				 * copied; 0: 1.  It divides what is done in a
				 * turn. */
	uint64_t worker_min;	/* Bytes of input from which on a worker calls
				 * .run(); 0: never. */

	/*
	 * Check the arguments of @job, with @bytes of input, and describe it
	 * in *@ret.  Returns 0, or the negative errno with which
	 * weir_job_start() refuses the job.  Must be without effects; it is
	 * called for weir_route_explain() too.  Optional.
	 *
	 * Called on the context's reactor.  Must not block.
	 */
	int (*shape)(const struct weir_job *job, uint64_t bytes,
		     struct weir_kind_shape *ret);

	/*
	 * @job, which .shape() has accepted, begins: claim what it needs, a
	 * stream in its arguments say.  Returns 0, and .end() is called once, just
	 * before the job's callback is due; or a negative errno, with which the
	 * job is refused, or ends if it was a fence or lazy.  Optional.
	 *
	 * Called on the context's reactor.  Must not block.
	 */
	int (*begin)(const struct weir_job *job);

	/*
	 * Work on the input @run->in, and write output to @run->out; set
	 * .consumed and .produced.
	 *
	 * Returns
	 *   0  call again, with the rest of this input and more of it.  The
	 *      call must have consumed or produced something if there was at
	 *      least a unit of input or .last, and capacity for a unit of
	 *      output.  If it has not, the job ends with -ENOSPC if its whole
	 *      capacity was in the call, or else -EIO.
	 *   1  the output is complete: the job ends well, even if there is more
	 *      input
	 *   a negative errno  the job ends with it
	 *
	 * Once .last was set, it stays set, and the calls go on with no input
	 * until one returns 1.
	 *
	 * Called on the context's reactor, or on a worker: one call at a time
	 * for each job, but any number for different jobs.  It must not call
	 * functions of this library, nor block; what it does in a call should
	 * take less than a millisecond.
	 */
	int (*run)(struct weir_kind_run *run);

	/*
	 * @job ends, with @res bytes or an errno; .run() is not called any
	 * more.  Optional.  Called on the context's reactor.  Must not block,
	 * and must not start, cancel or destroy anything.
	 */
	void (*end)(const struct weir_job *job, int64_t res);
};

/*
 * Register a kind of job for this process.
 *
 * The library copies @ops.  *@kind is set to the number of the kind, from
 * WEIR_JOB_USER on, for weir_job_registered().  A kind stays registered; a
 * module that may be unloaded must not register any.
 *
 * Returns 0, or
 *   -EINVAL  an argument is NULL, or .name or .run is; .name is empty or
 *            longer than 31 bytes; .flags has unknown bits, or
 *            WEIR_KIND_IN_PLACE without WEIR_KIND_OUTPUT; .weight is more than
 *            4096; or .size is too small for these members
 *   -E2BIG   @ops sets a member that this version does not have
 *   -EEXIST  there is a kind of that name
 *   -ENOSPC  there are WEIR_KINDS_MAX kinds
 *
 * Any thread.  Takes a lock.  Re-creates SPDK_ACCEL_MODULE_REGISTER().
 */
WEIR_API int weir_kind_register(const struct weir_kind_ops *ops,
				uint32_t *kind);

/*
 * Find the kind that is registered as @name.
 *
 * Returns its number, at least WEIR_JOB_USER, or 0: there is none.
 *
 * Any thread.  Never blocks.  Re-creates spdk_accel_get_opc_module_name() the
 * other way round.
 */
WEIR_API uint32_t weir_kind_find(const char *name);

/*
 * Get the name of the registered kind @kind.
 *
 * Returns the name, valid for the life of the process, or NULL: there is no
 * such kind.
 *
 * Any thread.  Never blocks.  Re-creates spdk_accel_get_opcode_name().
 */
WEIR_API const char *weir_kind_name(uint32_t kind);

/*
 * Get what @job, of a registered kind, reports: WEIR_KIND_RESULT words, whose
 * meaning is the kind's.
 *
 * Returns the words.  They are valid if the job has succeeded, and after the errnos for which the
 * kind says so.
 *
 * Call on the reactor's thread, in the callback or after it, until the job is
 * started again.  Never blocks.
 * Re-creates the .output_size and error block of spdk_accel_task.
 */
WEIR_API const uint64_t *weir_job_result(const struct weir_job *job);

/*
 * Set the @i-th word of what @job, of a registered kind, reports, before
 * weir_job_end(): for engines that do jobs of that kind.
 *
 * Such an engine ends a job with the bytes that it has written, or, of a kind
 * without output, that it has read; weir_job_pieces() of the destination is its
 * whole capacity.  The kind's .begin(), .run() and .end() are
 * not called for such jobs.
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end().
 * @i is less than WEIR_KIND_RESULT.  Never blocks.  Re-creates the output fields of spdk_accel_task,
 * which its modules set.
 */
WEIR_API void weir_job_set_result(struct weir_job *job, uint32_t i,
				  uint64_t value);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_KIND_H */
