/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics: jobs over one word.  The rules for them are checked before any
 * engine is asked; in memory of this process such a job is one instruction.
 */

#include <errno.h>

#include "dma/job-internal.h"
#include "mem/buf-internal.h"

#define WORD sizeof(uint64_t)

/* The user defines what addresses in a domain of the user's mean. */
int atomic_check(const struct weir_job *job, uint64_t total)
{
	struct cursor c;

	if (total != WORD)
		return -EMSGSIZE;
	cursor_init(&c, &job->dst, OPERAND_UPDATE, WORD);
	if (c.len != WORD)
		return -EINVAL;
	return c.addr % WORD && !domain_is_user(operand_domain(&job->dst)) ?
		       -EINVAL :
		       0;
}

/*
 * A device's atomics are atomic with those of the processor only if the device
 * says so.  Peers reach the word by the devices of the mmap, if its permissions
 * allow that.
 */
const char *atomic_refuse(const struct weir_job *job)
{
	struct cursor c;

	if (!job->dst.buf)
		return NULL;
	cursor_init(&c, &job->dst, OPERAND_UPDATE, WORD);
	return mmap_atomics_are_apart(c.buf->use->mmap) ?
		       "peers may do atomics there, by a device whose atomics "
		       "are not atomic to the processor" : NULL;
}

uint64_t atomic_do(const struct weir_job *job, void *p)
{
	uint64_t *word = p, old = job->compare;

	if (job->kind == WEIR_JOB_FETCH_ADD)
		return __atomic_fetch_add(word, job->pattern,
					  __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(word, &old, job->pattern, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return old;
}

uint64_t weir_job_old(const struct weir_job *job)
{
	return job_priv((struct weir_job *)job)->old;
}
