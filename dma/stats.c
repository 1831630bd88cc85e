/* SPDX-License-Identifier: BSD-3-Clause */
/* DMA contexts and their engines on the page of statistics. */

#include "base/opts.h"
#include "dma/job-internal.h"

static const struct stats_field dma_fields[] = {
	STATS_COUNT("started", "Jobs started"),
	STATS_COUNT("completed", "Jobs that ended with success"),
	STATS_COUNT("failed", "Jobs that failed, but were not cancelled"),
	STATS_COUNT("cancelled", "Jobs that were cancelled"),
	STATS_COUNT("refused", "Starts answered -EAGAIN"),
	STATS_NOW("in_flight", "Jobs in flight"),
	STATS_BYTE_COUNT("bytes", "Moved by jobs that have ended"),
	STATS_COUNT("cpu_jobs", "Jobs of the engine cpu"),
	STATS_COUNT("file_jobs", "Jobs of the engine file"),
	STATS_COUNT("worker_jobs", "Of those of cpu, those that a worker did"),
	STATS_COUNT("fixed", "Transfers that used registered memory"),
	STATS_COUNT("process_jobs", "Jobs of the engine process"),
	STATS_COUNT("domain_jobs", "Jobs of the engine domain"),
	STATS_COUNT("translated", "Jobs over what was memory in truth"),
	STATS_COUNT("bounced", "Jobs that went through staging"),
	STATS_BYTE_COUNT("bounced_bytes", "Moved through staging"),
	STATS_COUNT("bounce_waits", "Jobs that had to wait for staging"),
	STATS_COUNT("fallbacks", "Jobs that a better route refused"),
	STATS_COUNT("quarantines", "Jobs that ended before the device let go"),
	STATS_NOW("quarantined", "Staging that a device has not let go of"),
	STATS_COUNT("fused", "Steps of chains done with the one before"),
};
STATS_FITS(dma_fields, struct weir_dma_stats, started);

static const struct stats_kind dma_kind = STATS_KIND("dma", dma_fields);

static const struct stats_field engine_fields[] = {
	STATS_COUNT("jobs", "Jobs that it began, whole ones"),
	STATS_COUNT("steps", "Steps that it began of jobs in several"),
	STATS_COUNT("failed", "Of both, those that failed or were cancelled"),
	STATS_BYTE_COUNT("bytes", "Moved"),
	STATS_COUNT("waited", "Jobs and steps that found no capacity at first"),
	STATS_NOW("waiting", "Jobs and steps that wait for capacity"),
	STATS_NOW("under_way", "Jobs and steps in flight"),
};
STATS_FITS(engine_fields, struct weir_dma_engine_stats, jobs);

static const struct stats_kind engine_kind =
	STATS_KIND("engine", engine_fields);

static void publish(struct stats_item *item, uint64_t now)
{
	struct weir_dma_stats stats = { .size = sizeof(stats) };

	weir_dma_stats(weir_container_of(item, struct weir_dma, item), &stats);
	stats_put(item->record, now, &stats.started);
}

static void publish_engine(struct stats_item *item, uint64_t now)
{
	struct engine *e = weir_container_of(item, struct engine, item);

	stats_put(item->record, now, &e->stats.jobs);
}

void dma_publish_engine(struct weir_dma *dma, struct engine *e)
{
	reactor_check_thread(dma->r);
	if (dma->item.record)
		stats_item_add(dma->r, &e->item, &engine_kind, publish_engine,
			       stats_record_id(dma->item.record),
			       e->kind->ops.name);
}

void dma_publish(struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	stats_item_add(dma->r, &dma->item, &dma_kind, publish, 0, "");
	for (uint32_t i = 0; i < dma->n_engines; i++)
		dma_publish_engine(dma, &dma->engines[i]);
}

void dma_unpublish(struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	for (uint32_t i = 0; i < dma->n_engines; i++)
		stats_item_del(&dma->engines[i].item);
	stats_item_del(&dma->item);
}

int weir_dma_stats(const struct weir_dma *dma, struct weir_dma_stats *ret)
{
	struct weir_dma_stats stats = dma->stats;

	stats.in_flight = dma->n_jobs;
	stats.cpu_jobs = dma->engines[ENGINE_CPU].stats.jobs;
	stats.file_jobs = dma->engines[ENGINE_FILE].stats.jobs;
	stats.process_jobs = dma->engines[ENGINE_PROCESS].stats.jobs;
	stats.domain_jobs = dma->engines[ENGINE_DOMAIN].stats.jobs;
	return opts_give(ret, &stats, sizeof(stats), "weir_dma_stats");
}
