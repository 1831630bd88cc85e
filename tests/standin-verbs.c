/* SPDX-License-Identifier: BSD-3-Clause */

/* The stand-in's devices and protection domains. */

#include "tests/standin-verbs-internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct standin standin_self = { .fd = -1, .memlock = SIZE_MAX };

struct standin *standin(void)
{
	return &standin_self;
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void standin_lock(void)
{
	pthread_mutex_lock(&lock);
}

void standin_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void *standin_fail(int err)
{
	errno = err;
	return NULL;
}

void standin_hang(const char *call, const char *what)
{
	fprintf(stderr, "standin: %s() would wait for ever: %s\n", call, what);
	abort();
}

static struct ibv_device devices[STANDIN_MODELS] = {
	[STANDIN_MLX5] = { .name = "standin_mlx5" },
	[STANDIN_MANA] = { .name = "standin_mana" },
	[STANDIN_RXE] = { .name = "standin_rxe" },
	[STANDIN_SHUT] = { .name = "standin_shut",
			   .dev_name = "uverbs_standin" },
};

enum standin_model standin_model_of(const struct ibv_context *ctx)
{
	return (enum standin_model)(ctx->device - devices);
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(STANDIN_MODELS + 1, sizeof(*list));
	int i;

	for (i = 0; i < STANDIN_MODELS; i++)
		list[i] = &devices[i];
	if (n)
		*n = STANDIN_MODELS;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* What a device can. */

static void fill_limits(struct ibv_device_attr *attr)
{
	attr->max_mr_size = UINT64_C(1) << 40;
	attr->max_qp = 1 << 12;
	attr->max_qp_wr = STANDIN_MAX_WR;
	attr->max_sge = STANDIN_MAX_SGE;
	attr->max_sge_rd = STANDIN_MAX_SGE;
	attr->max_cq = 1 << 12;
	attr->max_cqe = STANDIN_MAX_CQE;
	attr->max_mr = 1 << 16;
	attr->max_pd = 1 << 12;
	attr->max_qp_rd_atom = STANDIN_MAX_READS;
	attr->max_qp_init_rd_atom = STANDIN_MAX_READS;
	attr->atomic_cap = standin_self.no_atomics ? IBV_ATOMIC_NONE :
			   standin_self.all_atomics ? IBV_ATOMIC_GLOB :
						      IBV_ATOMIC_HCA;
	attr->max_srq = 1 << 12;
	attr->max_srq_wr = STANDIN_MAX_WR;
	attr->max_srq_sge = STANDIN_MAX_SGE;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
}

int standin_query_device(struct ibv_context *ctx,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size)
{
	enum standin_model model = standin_model_of(ctx);

	(void)input;
	memset(attr, 0, size);
	fill_limits(&attr->orig_attr);
	if (model != STANDIN_MANA) {
		attr->orig_attr.max_mw = 1 << 12;
		attr->orig_attr.device_cap_flags =
			IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	}
	if (model == STANDIN_MLX5) {
		attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
		attr->odp_caps.per_transport_caps.rc_odp_caps =
			IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
	}
	attr->max_dm_size = model == STANDIN_RXE ? 0 : STANDIN_DM_SIZE;
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex ex;

	standin_query_device(ctx, NULL, &ex, sizeof(ex));
	*attr = ex.orig_attr;
	return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port,
		      struct ibv_port_attr *attr, size_t size)
{
	(void)ctx;
	if (port != 1)
		return EINVAL;
	memset(attr, 0, size);
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = IBV_MTU_1024;
	attr->gid_tbl_len = 2;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = standin_self.max_message ? standin_self.max_message :
			   STANDIN_MAX_MESSAGE;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index,
		  union ibv_gid *gid)
{
	static const uint8_t v4[16] = { [10] = 0xff, [11] = 0xff, 127, 0, 0,
					1 };

	if (port != 1 || index < 0 || index > 1) {
		errno = EINVAL;
		return -1;
	}
	memcpy(gid->raw, v4, sizeof(v4));
	gid->raw[15] = (uint8_t)(standin_model_of(ctx) + 1);
	if (index)
		return 0;
	memset(gid->raw + 10, 0, 2);
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	return 0;
}

/* Contexts. */

static void fill_context(struct verbs_context *verbs,
			 struct ibv_device *device)
{
	verbs->sz = sizeof(*verbs);
	verbs->context.device = device;
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs->context.num_comp_vectors = 2;
	verbs->query_device_ex = standin_query_device;
	verbs->query_port = query_port;
	standin_cq_ops(&verbs->context);
	standin_post_ops(&verbs->context);
	if (device != &devices[STANDIN_MANA])
		standin_window_ops(&verbs->context);
	if (device != &devices[STANDIN_RXE])
		standin_memory_ops(verbs);
}

struct ibv_context *standin_open(struct ibv_device *device, bool quiet)
{
	struct standin_context *ctx;

	if (device == &devices[STANDIN_SHUT])
		return standin_fail(EACCES);
	ctx = calloc(1, sizeof(*ctx));
	fill_context(&ctx->verbs, device);
	ctx->quiet = quiet;
	ctx->verbs.context.cmd_fd = -1;
	ctx->verbs.context.async_fd = quiet ? -1 :
				      standin_fifo_open(&ctx->async);
	if (!quiet && ctx->verbs.context.async_fd < 0) {
		free(ctx);
		return NULL;
	}
	standin_self.contexts += !quiet;
	return &ctx->verbs.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return standin_open(device, false);
}

int ibv_close_device(struct ibv_context *ibctx)
{
	struct standin_context *ctx =
		(struct standin_context *)verbs_get_ctx(ibctx);

	standin_self.contexts -= !ctx->quiet;
	standin_fifo_close(&ctx->async);
	free(ctx);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct standin_pd *pd = calloc(1, sizeof(*pd));

	pd->pd.context = ctx;
	standin_self.pds++;
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct standin_pd *pd = (struct standin_pd *)ibpd;

	if (pd->children)
		return EBUSY;
	standin_self.pds--;
	free(pd);
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return standin_self.fork_inits ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

int ibv_fork_init(void)
{
	standin_self.fork_inits++;
	return 0;
}
