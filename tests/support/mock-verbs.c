/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's devices and protection domains. */

#include "tests/support/mock-verbs-internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mock mock_self = { .fd = -1, .memlock = SIZE_MAX };

struct mock *mocked(void)
{
	return &mock_self;
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void mock_lock(void)
{
	pthread_mutex_lock(&lock);
}

void mock_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void *mock_fail(int err)
{
	errno = err;
	return NULL;
}

void mock_hang(const char *call, const char *what)
{
	fprintf(stderr, "mock: %s() would wait for ever: %s\n", call, what);
	abort();
}

static struct ibv_device devices[MOCK_MODELS] = {
	[MOCK_MLX5] = { .name = "mock_mlx5" },
	[MOCK_MANA] = { .name = "mock_mana" },
	[MOCK_RXE] = { .name = "mock_rxe" },
	[MOCK_SHUT] = { .name = "mock_shut", .dev_name = "uverbs_mock" },
};

enum mock_model mock_model_of(const struct ibv_context *ctx)
{
	return (enum mock_model)(ctx->device - devices);
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(MOCK_MODELS + 1, sizeof(*list));
	int i;

	for (i = 0; i < MOCK_MODELS; i++)
		list[i] = &devices[i];
	if (n)
		*n = MOCK_MODELS;
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
	attr->max_qp_wr = MOCK_MAX_WR;
	attr->max_sge = MOCK_MAX_SGE;
	attr->max_sge_rd = MOCK_MAX_SGE;
	attr->max_cq = 1 << 12;
	attr->max_cqe = MOCK_MAX_CQE;
	attr->max_mr = 1 << 16;
	attr->max_pd = 1 << 12;
	attr->max_qp_rd_atom = MOCK_MAX_READS;
	attr->max_qp_init_rd_atom = MOCK_MAX_READS;
	attr->atomic_cap = mock_self.no_atomics  ? IBV_ATOMIC_NONE :
			   mock_self.all_atomics ? IBV_ATOMIC_GLOB :
						   IBV_ATOMIC_HCA;
	attr->max_srq = 1 << 12;
	attr->max_srq_wr = MOCK_MAX_WR;
	attr->max_srq_sge = MOCK_MAX_SGE;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
}

int mock_query_device(struct ibv_context *ctx,
		      const struct ibv_query_device_ex_input *input,
		      struct ibv_device_attr_ex *attr, size_t size)
{
	enum mock_model model = mock_model_of(ctx);

	(void)input;
	memset(attr, 0, size);
	fill_limits(&attr->orig_attr);
	if (model != MOCK_MANA) {
		attr->orig_attr.max_mw = 1 << 12;
		attr->orig_attr.device_cap_flags =
			IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	}
	if (model == MOCK_MLX5) {
		attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
		attr->odp_caps.per_transport_caps.rc_odp_caps =
			IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
	}
	attr->max_dm_size = model == MOCK_RXE ? 0 : MOCK_DM_SIZE;
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex ex;

	mock_query_device(ctx, NULL, &ex, sizeof(ex));
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
	attr->max_msg_sz = mock_self.max_message ? mock_self.max_message :
						   MOCK_MAX_MESSAGE;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index,
		  union ibv_gid *gid)
{
	static const uint8_t v4[16] = {
		[10] = 0xff, [11] = 0xff, 127, 0, 0, 1
	};

	if (port != 1 || index < 0 || index > 1) {
		errno = EINVAL;
		return -1;
	}
	memcpy(gid->raw, v4, sizeof(v4));
	gid->raw[15] = (uint8_t)(mock_model_of(ctx) + 1);
	if (index)
		return 0;
	memset(gid->raw + 10, 0, 2);
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	return 0;
}

/* Contexts. */

static void fill_context(struct verbs_context *verbs, struct ibv_device *device)
{
	verbs->sz = sizeof(*verbs);
	verbs->context.device = device;
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs->context.num_comp_vectors = 2;
	verbs->query_device_ex = mock_query_device;
	verbs->query_port = query_port;
	mock_cq_ops(&verbs->context);
	mock_post_ops(&verbs->context);
	if (device != &devices[MOCK_MANA])
		mock_window_ops(&verbs->context);
	if (device != &devices[MOCK_RXE])
		mock_memory_ops(verbs);
}

struct ibv_context *mock_open(struct ibv_device *device, bool quiet)
{
	struct mock_context *ctx;

	if (device == &devices[MOCK_SHUT])
		return mock_fail(EACCES);
	ctx = calloc(1, sizeof(*ctx));
	fill_context(&ctx->verbs, device);
	ctx->quiet = quiet;
	ctx->verbs.context.cmd_fd = -1;
	ctx->verbs.context.async_fd = quiet ? -1 : mock_fifo_open(&ctx->async);
	if (!quiet && ctx->verbs.context.async_fd < 0) {
		free(ctx);
		return NULL;
	}
	mock_self.contexts += !quiet;
	return &ctx->verbs.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return mock_open(device, false);
}

int ibv_close_device(struct ibv_context *ibctx)
{
	struct mock_context *ctx = (struct mock_context *)verbs_get_ctx(ibctx);

	mock_self.contexts -= !ctx->quiet;
	mock_fifo_close(&ctx->async);
	free(ctx);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct mock_pd *pd = calloc(1, sizeof(*pd));

	pd->pd.context = ctx;
	mock_self.pds++;
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct mock_pd *pd = (struct mock_pd *)ibpd;

	if (pd->children)
		return EBUSY;
	mock_self.pds--;
	free(pd);
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return mock_self.fork_inits ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

int ibv_fork_init(void)
{
	mock_self.fork_inits++;
	return 0;
}
