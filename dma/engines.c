/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of engines: the library's own, and those of a context. */

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/bounce.h"
#include "dma/route.h"

/* In the order of preference: the first that can gets the job. */
static const struct engine_kind *const kinds[N_SHIPPED] = {
	[ENGINE_CPU] = &engine_cpu,
	[ENGINE_FILE] = &engine_file,
	[ENGINE_PROCESS] = &engine_process,
	[ENGINE_DOMAIN] = &engine_domain,
};

int engines_init(struct weir_dma *dma)
{
	uint32_t i;

	reactor_check_thread(dma->r);
	dma->n_own = N_SHIPPED;
	for (i = 0; i < dma->n_own; i++)
		engine_init(&dma->engines[i], kinds[i], dma);
	engine_init(&dma->bounce, &engine_bounce, dma);
	engine_init(&dma->translate, &engine_translate, dma);
	dma->n_engines = dma->n_own;
	engine_waits_init(dma);
	return providers_attach(dma);
}

/* The @i-th engine to be asked: the library's own come last. */
struct engine *engine_at(const struct weir_dma *dma, uint32_t i)
{
	uint32_t n_user = dma->n_engines - dma->n_own;
	uint32_t at = i < n_user ? dma->n_own + i : i - n_user;

	reactor_check_thread(dma->r);
	return (struct engine *)&dma->engines[at];
}

static int check_ops(const struct weir_dma *dma,
		     const struct weir_engine_ops *ops)
{
	uint32_t i;

	if (!ops->name || !ops->can || !ops->start)
		return why(-EINVAL, "weir_dma_add_engine: .name, .can and "
			   ".start must be set");
	if (ops->flags & ~WEIR_ENGINE_FLAGS)
		return why(-EINVAL, "weir_dma_add_engine: .flags has unknown "
			   "bits");
	if (dma->state != WEIR_DMA_STOPPED)
		return why(-EBUSY, "weir_dma_add_engine: the context is not "
			   "stopped; add engines before weir_dma_start()");
	for (i = 0; i < dma->n_engines; i++)
		if (!strcmp(dma->engines[i].kind->ops.name, ops->name))
			return why(-EEXIST, "weir_dma_add_engine: there is an "
				   "engine '%s'", ops->name);
	if (dma->n_engines == WEIR_ENGINES_MAX)
		return why(-ENOSPC, "weir_dma_add_engine: a context has at "
			   "most %d engines", WEIR_ENGINES_MAX);
	return 0;
}

int weir_dma_add_engine(struct weir_dma *dma, const struct weir_engine_ops *ops,
			void *arg)
{
	struct weir_engine_ops own;
	int err;

	if (!dma || !ops)
		return why(-EINVAL, "weir_dma_add_engine: an argument is NULL");
	err = opts_load(&own, sizeof(own), ops, "weir_dma_add_engine");
	if (!err)
		err = check_ops(dma, &own);
	if (err)
		return err;
	dma_publish_engine(dma, engine_add(dma, &own, arg));
	return 0;
}

int weir_dma_engine_stats(const struct weir_dma *dma, uint32_t i,
			  struct weir_dma_engine_stats *ret)
{
	struct weir_dma_engine_stats stats;
	const struct engine *e;
	int err = opts_capacity(ret, "weir_dma_engine_stats");

	if (err)
		return err;
	if (i >= dma->n_engines)
		return why(-ENOENT, "weir_dma_engine_stats: there is no engine "
			   "%u; the context has %u", i, dma->n_engines);
	e = engine_at(dma, i);
	stats = e->stats;
	stats.name = e->kind->ops.name;
	return opts_give(ret, &stats, sizeof(stats), "weir_dma_engine_stats");
}

void engines_fini(struct weir_dma *dma)
{
	uint32_t i;

	reactor_check_thread(dma->r);
	engine_waits_fini(dma);
	staging_keys_drop(dma);
	/* A user's function cannot destroy the context once more. */
	dma->n_entered++;
	for (i = dma->n_own; i < dma->n_engines; i++)
		if (dma->engines[i].leave)
			dma->engines[i].leave(&dma->engines[i],
					      dma->engines[i].leave_arg);
}
