/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers the parts of RDMA with the core: its devices, and the engine
 * "verbs". */

#include <pthread.h>

#include <weir/rdma/device.h>

#include "rdma/device.h"
#include "rdma/engine.h"

static void provide(void)
{
	device_class_add(&device_verbs);
	verbs_area_find();
	verbs_place = engine_kind_add(&engine_verbs);
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
