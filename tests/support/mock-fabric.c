/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libfabric without a network, as a shared object that WEIR_FABRIC_LIBRARY names.  It
 * has one provider, "tcp", at 127.0.0.1, with what libweir-fabric has to take from
 * real ones:
 *
 *   - a write without FI_DELIVERY_COMPLETE is done when it is posted, whatever its key
 *   - a wrong key, or a range or right that a region has not, ends the connection,
 *     with completions of all that was posted there, in any order
 *   - a region that is closed stops no write that has begun; an endpoint that is
 *     closed does
 *   - what an endpoint has posted is dropped when it is closed; completions that are
 *     in the queue may stay there
 *   - a post may be -FI_EAGAIN, for as long as a peer is dead, too
 *   - an end is told by the queue of events before the completions, between them or
 *     after them
 *   - fi_cancel() does nothing
 *   - a peer's processor moves the bytes, when it reads its queue (or it does not
 *     take part: MOCK_FABRIC_AUTO)
 *   - keys are the provider's or the caller's, of some size; addresses begin at 0
 *     or at that of the memory
 *   - there are no atomics
 *
 * Which of it happens is drawn, by functions of the test's: see mock-fabric.h.
 */

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/support/mock-fabric-internal.h"

static const struct mock_fabric_world calm = {
	.key_size = 8, .max_msg = SIZE_MAX, .iov_limit = 4,
};
struct mock_fabric_world mock_world;
struct mock_fabric_left mock_left;

uint32_t mock_below(uint32_t n)
{
	return mock_world.below ? mock_world.below(mock_world.arg, n) : 0;
}

bool mock_fault(int fault)
{
	return mock_world.fault && mock_world.fault(mock_world.arg, fault);
}

void *mock_alloc(size_t len)
{
	void *p = calloc(1, len);

	if (!p)
		abort();
	return p;
}

EXPORT void mock_fabric_enter(const struct mock_fabric_world *world)
{
	mock_world = world ? *world : calm;
}

EXPORT void mock_fabric_left(struct mock_fabric_left *ret)
{
	*ret = mock_left;
}

/* Descriptions. */

void mock_info_free(struct fi_info *info)
{
	struct fi_info *next;

	for (; info; info = next) {
		next = info->next;
		if (info->fabric_attr) {
			free(info->fabric_attr->name);
			free(info->fabric_attr->prov_name);
		}
		if (info->domain_attr)
			free(info->domain_attr->name);
		free(info->fabric_attr);
		free(info->domain_attr);
		free(info->ep_attr);
		free(info->tx_attr);
		free(info->rx_attr);
		free(info->src_addr);
		free(info);
		mock_left.infos--;
	}
}

static char *text(const char *s)
{
	return s ? strcpy(mock_alloc(strlen(s) + 1), s) : NULL;
}

/* One without a copy of what follows it. */
struct fi_info *mock_info_dup(const struct fi_info *from)
{
	struct fi_info *info = mock_alloc(sizeof(*info));

	if (from)
		*info = *from;
	info->next = NULL;
	info->fabric_attr = mock_alloc(sizeof(*info->fabric_attr));
	info->domain_attr = mock_alloc(sizeof(*info->domain_attr));
	info->ep_attr = mock_alloc(sizeof(*info->ep_attr));
	info->tx_attr = mock_alloc(sizeof(*info->tx_attr));
	info->rx_attr = mock_alloc(sizeof(*info->rx_attr));
	mock_left.infos++;
	if (!from)
		return info;
	*info->fabric_attr = *from->fabric_attr;
	*info->domain_attr = *from->domain_attr;
	*info->ep_attr = *from->ep_attr;
	*info->tx_attr = *from->tx_attr;
	*info->rx_attr = *from->rx_attr;
	info->fabric_attr->name = text(from->fabric_attr->name);
	info->fabric_attr->prov_name = text(from->fabric_attr->prov_name);
	info->domain_attr->name = text(from->domain_attr->name);
	if (from->src_addr)
		info->src_addr = memcpy(mock_alloc(from->src_addrlen),
					from->src_addr, from->src_addrlen);
	return info;
}

/* The library's functions. */

EXPORT uint32_t fi_version(void)
{
	return FI_VERSION(1, 17);
}

EXPORT const char *fi_strerror(int err)
{
	return err < FI_ERRNO_OFFSET ? strerror(err) : "an error of libfabric's";
}

EXPORT struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	return mock_info_dup(info);
}

EXPORT void fi_freeinfo(struct fi_info *info)
{
	mock_info_free(info);
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service,
		      uint64_t flags, const struct fi_info *hints,
		      struct fi_info **ret)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct fi_info *info;

	(void)version, (void)node, (void)service, (void)flags;
	if (!hints || hints->ep_attr->type != FI_EP_MSG ||
	    (mock_world.mr_mode & ~(uint64_t)hints->domain_attr->mr_mode))
		return -FI_ENODATA;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	info = mock_info_dup(NULL);
	info->caps = hints->caps;
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->max_msg_size = mock_world.max_msg;
	info->tx_attr->iov_limit = mock_world.iov_limit;
	info->tx_attr->rma_iov_limit = 1;
	info->domain_attr->mr_mode = (int)mock_world.mr_mode;
	info->domain_attr->mr_key_size = mock_world.key_size;
	info->domain_attr->name = text("lo");
	info->fabric_attr->name = text("mock");
	info->fabric_attr->prov_name = text("tcp");
	info->fabric_attr->prov_version = FI_VERSION(117, 0);
	info->src_addr = memcpy(mock_alloc(sizeof(in)), &in, sizeof(in));
	info->src_addrlen = sizeof(in);
	*ret = info;
	return 0;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **ret,
		     void *context)
{
	return mock_fabric_open(attr, ret, context);
}

/* It is made for simulated worlds. */
EXPORT const int weir_sim_fabric = 1;

__attribute__((constructor)) static void begin(void)
{
	mock_fabric_enter(NULL);
}
