/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA in the loop, in a build without rdma-core: none. */

#include <weir/channel.h>
#include <weir/cm.h>
#include <weir/verbs-event.h>

#include <errno.h>

#include "base/why.h"

static int none(const char *call)
{
	return why(-EOPNOTSUPP, "%s: this build has no RDMA; configure it with "
		   "libibverbs-dev and librdmacm-dev there", call);
}

int weir_channel_create(struct weir_channel **ret, struct weir_reactor *r,
			struct ibv_context *ctx,
			const struct weir_channel_opts *opts)
{
	(void)ret;
	(void)r;
	(void)ctx;
	(void)opts;
	return none("weir_channel_create");
}

struct ibv_cq *weir_channel_cq(const struct weir_channel *channel)
{
	(void)channel;
	return NULL;
}

int weir_channel_reserve(struct weir_channel *channel, uint32_t n)
{
	(void)channel;
	(void)n;
	return none("weir_channel_reserve");
}

void weir_channel_release(struct weir_channel *channel, uint32_t n)
{
	(void)channel;
	(void)n;
}

void weir_channel_forget(struct weir_channel *channel, uint32_t qp_num)
{
	(void)channel;
	(void)qp_num;
}

int weir_channel_stats(const struct weir_channel *channel,
		       struct weir_channel_stats *ret)
{
	(void)channel;
	(void)ret;
	return none("weir_channel_stats");
}

int weir_channel_destroy(struct weir_channel *channel)
{
	return channel ? none("weir_channel_destroy") : 0;
}

int weir_verbs_event_create(struct weir_verbs_event **ret,
			    struct weir_reactor *r, struct ibv_context *ctx,
			    weir_verbs_event_fn *fn, void *arg)
{
	(void)ret;
	(void)r;
	(void)ctx;
	(void)fn;
	(void)arg;
	return none("weir_verbs_event_create");
}

void weir_verbs_event_destroy(struct weir_verbs_event *source)
{
	(void)source;
}

int weir_cm_create(struct weir_cm **ret, struct weir_reactor *r,
		   weir_cm_fn *fn, void *arg)
{
	(void)ret;
	(void)r;
	(void)fn;
	(void)arg;
	return none("weir_cm_create");
}

struct rdma_event_channel *weir_cm_events(const struct weir_cm *cm)
{
	(void)cm;
	return NULL;
}

void weir_cm_destroy(struct weir_cm *cm)
{
	(void)cm;
}
