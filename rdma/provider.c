/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers the parts of RDMA with the core: its devices, and the engine
 * "verbs". */

#include <pthread.h>

#include <weir/rdma/device.h>

#include "rdma/device.h"
#include "rdma/engine.h"

/* Where that fails, for lack of memory, of a place or of its name, there is no RDMA,
 * as where there is no rdma-core. */
static void provide(void)
{
	struct weir_provider_ops ops = {
		.size = sizeof(ops),
		.name = "verbs",
		.unbind = mmap_mws_drop,
	};

	device_provide(&ops);
	verbs_engine_provide(&ops);
	(void)weir_provider_register(&verbs_provider, &ops, NULL);
}

__attribute__((constructor)) void weir_rdma_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, provide);
}

struct ibv_context *weir_device_verbs(const struct weir_device *dev)
{
	const struct device_verbs_open *v = device_verbs_of(dev);

	return v ? v->ctx : NULL;
}
