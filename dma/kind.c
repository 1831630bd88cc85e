/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered kinds of jobs.
 *
 * The table is filled under a lock, and read without one: an entry does not
 * change once the count includes it.
 */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/kind.h"
#include "dma/route.h"

#define NAME_MAX_LEN 31
#define WEIGHT_MAX 4096

#define ALL_FLAGS (WEIR_KIND_OUTPUT | WEIR_KIND_WHOLE | WEIR_KIND_EMPTY | \
		   WEIR_KIND_IN_PLACE)

static struct kind {
	struct weir_kind_ops ops;
	char name[NAME_MAX_LEN + 1];
} kinds[WEIR_KINDS_MAX];
static atomic_uint n_kinds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const struct weir_kind_ops *kind_find(uint32_t kind)
{
	uint32_t i = kind - WEIR_JOB_USER;

	return i < atomic_load_explicit(&n_kinds, memory_order_acquire) ?
		       &kinds[i].ops : NULL;
}

const char *weir_kind_name(uint32_t kind)
{
	const struct weir_kind_ops *ops = kind_find(kind);

	return ops ? ops->name : NULL;
}

uint32_t weir_kind_find(const char *name)
{
	uint32_t i, n = atomic_load_explicit(&n_kinds, memory_order_acquire);

	for (i = 0; i < n; i++)
		if (!strcmp(kinds[i].name, name))
			return WEIR_JOB_USER + i;
	return 0;
}

static int check_ops(const struct weir_kind_ops *ops)
{
	size_t len;

	if (!ops->name || !ops->run)
		return why(-EINVAL, "weir_kind_register: .name and .run must "
			   "be set");
	len = strlen(ops->name);
	if (!len || len > NAME_MAX_LEN)
		return why(-EINVAL, "weir_kind_register: the name has %zu "
			   "bytes; 1 to %d are possible", len, NAME_MAX_LEN);
	if (ops->flags & ~ALL_FLAGS)
		return why(-EINVAL, "weir_kind_register: '%s' has unknown "
			   ".flags 0x%x", ops->name, ops->flags & ~ALL_FLAGS);
	if (ops->flags & WEIR_KIND_IN_PLACE && !(ops->flags & WEIR_KIND_OUTPUT))
		return why(-EINVAL, "weir_kind_register: '%s' is in place, and "
			   "has no output; set WEIR_KIND_OUTPUT too",
			   ops->name);
	if (ops->weight > WEIGHT_MAX)
		return why(-EINVAL, "weir_kind_register: '%s' has weight %u; "
			   "at most %d is possible", ops->name, ops->weight,
			   WEIGHT_MAX);
	return 0;
}

static int add(const struct weir_kind_ops *ops, uint32_t *ret)
{
	uint32_t n = atomic_load(&n_kinds);
	struct kind *kind = &kinds[n];

	if (weir_kind_find(ops->name))
		return why(-EEXIST, "weir_kind_register: there is a kind '%s'",
			   ops->name);
	if (n == WEIR_KINDS_MAX)
		return why(-ENOSPC, "weir_kind_register: a process has at most "
			   "%d kinds", WEIR_KINDS_MAX);
	kind->ops = *ops;
	strcpy(kind->name, ops->name);
	kind->ops.name = kind->name;
	if (!kind->ops.weight)
		kind->ops.weight = 1;
	atomic_store_explicit(&n_kinds, n + 1, memory_order_release);
	*ret = WEIR_JOB_USER + n;
	return 0;
}

int weir_kind_register(const struct weir_kind_ops *ops, uint32_t *kind)
{
	struct weir_kind_ops own;
	int err;

	if (!ops || !kind)
		return why(-EINVAL, "weir_kind_register: an argument is NULL");
	err = opts_load(&own, sizeof(own), ops, "weir_kind_register");
	if (!err)
		err = check_ops(&own);
	if (err)
		return err;
	pthread_mutex_lock(&lock);
	err = add(&own, kind);
	pthread_mutex_unlock(&lock);
	return err;
}

/* A job that runs. */

int kind_begin(struct weir_job *job)
{
	const struct weir_kind_ops *ops = kind_of(job);
	unsigned int since = why_begin();
	int err = ops->begin ? ops->begin(job) : 0;

	if (err < 0 && why_is_new(since))
		return (int)sane_result(err);
	if (err)
		return why_static(err < 0 ? (int)sane_result(err) : -EIO,
				  "weir_job_start: the job's kind cannot begin "
				  "it; what it needs, a stream say, may be in "
				  "use by another job");
	job_priv(job)->begun = true;
	return 0;
}

int kind_step(struct weir_job *job, struct kind_piece *piece)
{
	struct kind_state *st = kind_state(job);
	struct weir_kind_run run = {
		.job = job,
		.args = weir_job_args(job),
		.in = piece->in,
		.in_len = piece->in_len,
		.out = piece->out,
		.out_len = piece->out_len,
		.offset = st->consumed,
		.last = piece->last,
		.state = st->state,
		.result = st->result,
	};
	int res = kind_of(job)->run(&run);

	if (res < 0)
		return (int)sane_result(res);
	/* The kind has a bug, and what it wrote cannot be trusted. */
	if (run.consumed > run.in_len || run.produced > run.out_len || res > 1)
		return -EIO;
	if (!res && !run.consumed && !run.produced)
		return piece->out && piece->is_all ? -ENOSPC : -EIO;
	st->consumed += run.consumed;
	piece->in_len = run.consumed;
	piece->out_len = run.produced;
	return res;
}

/* What a job reports. */

const uint64_t *weir_job_result(const struct weir_job *job)
{
	return kind_state(job)->result;
}

void weir_job_set_result(struct weir_job *job, uint32_t i, uint64_t value)
{
	check(i < WEIR_KIND_RESULT);
	kind_state(job)->result[i] = value;
}
