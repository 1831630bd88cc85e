/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices: what their drivers can do, open, register memory, device
 * memory.
 */

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weir/dm.h>
#include <weir/domain.h>
#include <weir/mmap.h>

#include "base/alloc.h"
#include "base/why.h"
#include "rdma/device.h"

/* The features of an RDMA device, as its driver reports them. */

/* Told, and not used: where soft-RoCE takes it the data are wrong. */
static bool has_odp(const struct ibv_odp_caps *odp)
{
	const uint32_t both = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;

	return odp->general_caps & IBV_ODP_SUPPORT &&
	       (odp->per_transport_caps.rc_odp_caps & both) == both;
}

static bool has_mws(const struct ibv_device_attr *attr)
{
	return attr->max_mw > 0 &&
	       attr->device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
					 IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

/* WEIR_DEVICE_CAP_WINDOW, _ODP, _ATOMIC and others, as the driver reports
 * them. */
static uint32_t device_verbs_caps(const struct ibv_device_attr_ex *ex)
{
	const struct ibv_device_attr *attr = &ex->orig_attr;
	uint32_t caps = 0;

	if (has_odp(&ex->odp_caps))
		caps |= WEIR_DEVICE_CAP_ODP;
	if (has_mws(attr))
		caps |= WEIR_DEVICE_CAP_MW;
	if (attr->atomic_cap != IBV_ATOMIC_NONE)
		caps |= WEIR_DEVICE_CAP_ATOMIC;
	if (attr->atomic_cap == IBV_ATOMIC_GLOB)
		caps |= WEIR_DEVICE_CAP_ATOMIC_ALL;
	if (attr->max_srq > 0)
		caps |= WEIR_DEVICE_CAP_SRQ;
	return caps;
}

/*
 * RDMA devices, and how memory uses them.
 *
 * An open device is a context and one protection domain; an mmap has one memory
 * region in it.  The features of a device are determined when it is listed;
 * where rdma-core has no query for one, by a call that cannot succeed and whose
 * errno shows it.
 *
 * Fork: ibv_fork_init() is called before the first device is opened;
 * docs/internals/rdma.md says why, and what happens if it refuses.
 */

/* Since rdma-core 61; weak, because the one at run time may be newer than
 * ours. */
extern int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm) __attribute__((weak));

/* rdma-core's errno, if it has set it. */
static int error(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* The features of a device. */

/* A fault point before a call that sets errno. */
static bool fails(const char *name, int err)
{
	errno = 0;
	if (!weir_fault(name))
		return false;
	errno = err;
	return true;
}

static struct ibv_context *open_context(struct ibv_device *ibdev)
{
	return fails("ibv_open_device", EMFILE) ? NULL : ibv_open_device(ibdev);
}

static struct ibv_pd *alloc_pd(struct ibv_context *ctx)
{
	return fails("ibv_alloc_pd", ENOMEM) ? NULL : ibv_alloc_pd(ctx);
}

static struct ibv_device **get_list(int *n)
{
	*n = 0;
	return weir_fault("ibv_get_device_list") ? NULL : ibv_get_device_list(n);
}

/* Whether a call failed because there is no such thing. */
static bool is_missing(void)
{
	return errno == EOPNOTSUPP || errno == EPROTONOSUPPORT ||
	       errno == ENOSYS;
}

/* If the device supports dma-bufs, it complains about the fd -1. */
static bool has_dmabuf(struct ibv_context *ctx)
{
	struct ibv_pd *pd = alloc_pd(ctx);
	struct ibv_mr *mr;
	bool missing;

	if (!pd)
		return false;
	errno = 0;
	mr = ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0);
	missing = !mr && is_missing();
	ibv_dealloc_pd(pd);
	return !missing;
}

/* If the device supports this, the handle is refused with another errno. */
static bool has_import(struct ibv_context *ctx)
{
	struct ibv_dm *dm;

	errno = 0;
	dm = ibv_import_dm(ctx, UINT32_MAX);
	return dm || !is_missing();
}

/* soft-RoCE and the like hang on no bus. */
static bool is_virtual(const char *name)
{
	char place[DEVICE_PATH], *path;
	bool yes;

	device_rdma_path(place, name);
	path = realpath(place, NULL);
	yes = path && strstr(path, "/devices/virtual/");

	free(path);
	return yes;
}

static void describe(struct weir_device_caps *caps, struct ibv_context *ctx,
		     const struct ibv_device_attr_ex *attr)
{
	caps->flags = WEIR_DEVICE_USABLE;
	if (is_virtual(caps->name))
		caps->flags |= WEIR_DEVICE_SOFTWARE;
	caps->caps = WEIR_DEVICE_CAP_MMAP | device_verbs_caps(attr);
	caps->domains = WEIR_DEVICE_BIT(WEIR_DOMAIN_SYSTEM) |
			WEIR_DEVICE_BIT(WEIR_DOMAIN_HUGEPAGE) |
			WEIR_DEVICE_BIT(WEIR_DOMAIN_REMOTE);
	if (attr->orig_attr.max_mr_size != UINT64_MAX)
		caps->max_register = attr->orig_attr.max_mr_size;
	caps->max_segments = (uint32_t)attr->orig_attr.max_sge;
	caps->address_bits = 64;
	if (has_dmabuf(ctx)) {
		caps->caps |= WEIR_DEVICE_CAP_DMABUF;
		caps->domains |= WEIR_DEVICE_BIT(WEIR_DOMAIN_DMABUF);
	}
	if (!attr->max_dm_size)
		return;
	caps->caps |= WEIR_DEVICE_CAP_DM;
	caps->domains |= WEIR_DEVICE_BIT(WEIR_DOMAIN_DEVICE);
	caps->dm_size = attr->max_dm_size;
	if (has_import(ctx))
		caps->caps |= WEIR_DEVICE_CAP_DM_IMPORT;
	if (ibv_dm_export_dmabuf_fd)
		caps->caps |= WEIR_DEVICE_CAP_DM_DMABUF;
}

/* If access is denied, rdma-core's errno is that of a later attempt: use
 * EACCES. */
static void say_unusable(struct weir_device_caps *caps, const char *what, int err,
			 const struct ibv_device *ibdev)
{
	char node[sizeof(ibdev->dev_name) + 32];

	snprintf(node, sizeof(node), "/dev/infiniband/%s", ibdev->dev_name);
	if (access(node, R_OK | W_OK) && errno == EACCES)
		err = EACCES;
	snprintf(caps->why, sizeof(caps->why), "%s: %s%s%s", what,
		 strerror(err), err == EACCES ? "; let this user read and "
		 "write " : "", err == EACCES ? node : "");
}

static void ask(struct weir_device_caps *caps, struct ibv_device *ibdev)
{
	struct ibv_context *ctx = open_context(ibdev);
	struct ibv_device_attr_ex attr;
	int err;

	if (!ctx) {
		say_unusable(caps, "it cannot be opened", -error(), ibdev);
		return;
	}
	memset(&attr, 0, sizeof(attr));
	err = weir_fault("ibv_query_device") ? EIO :
	      ibv_query_device_ex(ctx, NULL, &attr);
	if (err)
		say_unusable(caps, "it does not tell what it can do", err,
			     ibdev);
	else
		describe(caps, ctx, &attr);
	ibv_close_device(ctx);
}

static int add(struct weir_provider_list *list, struct ibv_device *ibdev)
{
	const char *name = ibv_get_device_name(ibdev);
	struct weir_device_caps caps;
	int err;

	if (!weir_provider_list_wants(list, name))
		return 0;
	device_rdma_begin(&caps, name);
	ask(&caps, ibdev);
	err = weir_provider_list_add(list, &caps);
	/* Another provider's has the name. */
	return err == -EEXIST ? 0 : err;
}

static int list_verbs(void *arg, struct weir_provider_list *list)
{
	int n, i, err = 0;
	struct ibv_device **devs = get_list(&n);

	(void)arg;
	for (i = 0; i < n && !err; i++)
		err = add(list, devs[i]);
	if (devs)
		ibv_free_device_list(devs);
	return err ? err : device_rdma_rest(list, "rdma-core has no driver for "
					    "it; install ibverbs-providers");
}

/* Open and close. */

static void care_for_fork(void)
{
	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		ibv_fork_init();
}

static struct ibv_context *open_by_name(const char *name)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **devs;
	int n, i;

	devs = get_list(&n);
	for (i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(devs[i]), name))
			break;
	if (i < n)
		ctx = open_context(devs[i]);
	else
		errno = ENODEV;
	if (devs)
		ibv_free_device_list(devs);
	return ctx;
}

static int open_verbs(void *arg, struct weir_device *dev, void **card)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct device_verbs_open *v = mem_calloc(1, sizeof(*v));
	int err;

	(void)arg;
	if (!v)
		return why(-ENOMEM, "weir_device_open: no memory");
	pthread_once(&once, care_for_fork);
	weir_devinfo_caps(weir_device_info(dev), &caps);
	memcpy(v->name, caps.name, sizeof(v->name));
	v->ctx = open_by_name(v->name);
	if (v->ctx)
		v->pd = alloc_pd(v->ctx);
	if (v->pd) {
		*card = v;
		return 0;
	}
	err = error();
	if (v->ctx)
		ibv_close_device(v->ctx);
	free(v);
	return why(err, "weir_device_open: %s: %s", caps.name, strerror(-err));
}

static void close_verbs(void *card)
{
	struct device_verbs_open *v = card;

	if (!ibv_dealloc_pd(v->pd))
		ibv_close_device(v->ctx);
	free(v);
}

/* Memory regions. */

/* B2.1: local reads are always allowed.  mlx5 accepts all of these flags for
 * device memory, too, and no others. */
static unsigned int access_of(uint32_t permissions)
{
	static const struct {
		uint32_t permission;
		unsigned int access;
	} map[] = {
		{ WEIR_MMAP_WRITE, IBV_ACCESS_LOCAL_WRITE },
		{ WEIR_MMAP_RDMA_READ, IBV_ACCESS_REMOTE_READ },
		{ WEIR_MMAP_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE },
		{ WEIR_MMAP_RDMA_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC },
		{ WEIR_MMAP_RELAXED_ORDERING, IBV_ACCESS_RELAXED_ORDERING },
	};
	unsigned int access = 0;
	size_t i;

	for (i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		if (permissions & map[i].permission)
			access |= map[i].access;
	return access;
}

/*
 * Addresses of a dma-buf begin with its offset in a page, because the driver
 * requires the address to have the same one; those of device memory begin at 0.
 */
static struct ibv_mr *reg(struct ibv_pd *pd,
			  const struct weir_provider_range *range)
{
	unsigned int access = access_of(range->permissions) |
			      (range->flags & WEIR_PROVIDER_RANGE_MW ?
				       IBV_ACCESS_MW_BIND : 0u);

	if (fails("ibv_reg_mr", ENOMEM))
		return NULL;
	switch (range->kind) {
	case WEIR_PROVIDER_RANGE_DM:
		return ibv_reg_dm_mr(pd, weir_provider_dm_data(range->dm),
				     range->off, range->len,
				     access | IBV_ACCESS_ZERO_BASED);
	case WEIR_PROVIDER_RANGE_DMABUF:
		return ibv_reg_dmabuf_mr(pd, range->off, range->len,
					 device_range_start(range),
					 range->fd, (int)access);
	default:
		return ibv_reg_mr(pd, range->addr, range->len, access);
	}
}

uint64_t device_range_start(const struct weir_provider_range *range)
{
	if (range->kind == WEIR_PROVIDER_RANGE_DM)
		return 0;
	return range->addr ? (uintptr_t)range->addr : range->off;
}

static int say_why_not(const char *name, const struct weir_provider_range *range,
		       int err)
{
	unsigned long long len = range->len;
	struct rlimit lim;

	if (err == -ENOMEM && range->kind == WEIR_PROVIDER_RANGE_MEM &&
	    !getrlimit(RLIMIT_MEMLOCK, &lim) && lim.rlim_cur != RLIM_INFINITY)
		return why(err, "weir_mmap_keys: %s cannot register %llu KiB: "
			   "the limit of locked memory is %llu KiB; raise it "
			   "with ulimit -l or LimitMEMLOCK=", name,
			   (len + 1023) >> 10,
			   (unsigned long long)lim.rlim_cur >> 10);
	if (err == -EFAULT)
		return why(err, "weir_mmap_keys: %s cannot register %llu bytes: "
			   "they are not all mapped, cannot be written to, or "
			   "are no ordinary memory", name, len);
	return why(err, "weir_mmap_keys: %s cannot register %llu bytes: %s",
		   name, len, strerror(-err));
}

int device_mr_register(void *card, const struct weir_provider_range *range,
		       struct weir_provider_key *ret)
{
	const struct device_verbs_open *v = card;
	struct ibv_mr *mr = reg(v->pd, range);

	if (!mr)
		return say_why_not(v->name, range, error());
	ret->data = mr;
	ret->lkey = mr->lkey;
	ret->rkey = mr->rkey;
	return 0;
}

int device_mr_deregister(void *card, const struct weir_provider_key *key)
{
	const struct device_verbs_open *v = card;
	int err = weir_fault("ibv_dereg_mr") ? EBUSY : ibv_dereg_mr(key->data);

	return !err ? 0 : why(-err, "%s keeps its registration: %s", v->name,
			      strerror(err));
}

/* Device memory. */

/*
 * mana's driver does not set the pointers to the copy functions in the device
 * memory that it allocates, so they cannot be tested for NULL.
 */
static bool driver_copies(const char *name, const struct ibv_dm *ibdm)
{
	char place[DEVICE_PATH], path[DEVICE_PATH + 16], driver[DEVICE_PATH];
	const char *base;
	ssize_t n;

	device_rdma_path(place, name);
	snprintf(path, sizeof(path), "%s/device/driver", place);
	n = readlink(path, driver, sizeof(driver) - 1);
	driver[n > 0 ? n : 0] = '\0';
	base = strrchr(driver, '/');
	if (base && !strncmp(base, "/mana", 5))
		return false;
	return ibdm->memcpy_to_dm && ibdm->memcpy_from_dm;
}

static const char *name_of(const struct ibv_dm *ibdm)
{
	return ibv_get_device_name(ibdm->context->device);
}

static int dm_made(const struct device_verbs_open *v, struct ibv_dm *made,
		   uint64_t len, struct weir_provider_dm *ret, const char *call)
{
	int err;

	if (made) {
		ret->data = made;
		ret->copies = driver_copies(v->name, made);
		return 0;
	}
	err = error();
	return why(err, "%s: %s refuses %llu bytes: %s", call, v->name,
		   (unsigned long long)len, strerror(-err));
}

static int verbs_dm_alloc(void *card, size_t len, uint32_t log_align,
			  struct weir_provider_dm *ret)
{
	const struct device_verbs_open *v = card;
	struct ibv_alloc_dm_attr attr = {
		.length = len, .log_align_req = log_align,
	};
	struct ibv_dm *made = NULL;

	if (!fails("ibv_alloc_dm", ENOMEM))
		made = ibv_alloc_dm(v->ctx, &attr);
	return dm_made(v, made, len, ret, "weir_dm_alloc");
}

static int verbs_dm_import(void *card, const struct weir_dm_token *token,
			   struct weir_provider_dm *ret)
{
	const struct device_verbs_open *v = card;
	struct ibv_dm *made = NULL;

	if (!fails("ibv_import_dm", ENOMEM))
		made = ibv_import_dm(v->ctx, token->handle);
	return dm_made(v, made, token->len, ret, "weir_dm_import");
}

static int verbs_dm_release(void *card, void *dm, int imported)
{
	const struct device_verbs_open *v = card;
	int err;

	if (imported) {
		ibv_unimport_dm(dm);
		return 0;
	}
	err = ibv_free_dm(dm);
	return !err ? 0 : why(-err, "weir_dm_free: %s: %s", v->name,
			      strerror(err));
}

static int say_copied(const struct ibv_dm *ibdm, const char *call, int err)
{
	return err ? why(-err, "%s: %s: %s", call, name_of(ibdm),
			 strerror(err)) : 0;
}

static int verbs_dm_copy_to(void *dm, uint64_t off, const void *src, size_t len)
{
	return say_copied(dm, "weir_dm_copy_to",
			  ibv_memcpy_to_dm(dm, off, src, len));
}

static int verbs_dm_copy_from(void *dst, void *dm, uint64_t off, size_t len)
{
	return say_copied(dm, "weir_dm_copy_from",
			  ibv_memcpy_from_dm(dst, dm, off, len));
}

static int verbs_dm_export(void *dm, struct weir_dm_token *token)
{
	const struct ibv_dm *ibdm = dm;

	if (!(ibdm->comp_mask & IBV_DM_MASK_HANDLE))
		return why(-EOPNOTSUPP, "weir_dm_export: the driver of %s "
			   "names no handle", name_of(ibdm));
	token->handle = ibdm->handle;
	return 0;
}

static int verbs_dm_dmabuf_fd(void *dm)
{
	int fd, err;

	errno = 0;
	fd = ibv_dm_export_dmabuf_fd(dm);
	if (fd >= 0)
		return fd;
	err = error();
	return why(err, "weir_dm_dmabuf_fd: %s: %s", name_of(dm),
		   strerror(-err));
}

static const struct weir_provider_dm_ops verbs_dm_ops = {
	.size = sizeof(verbs_dm_ops),
	.alloc = verbs_dm_alloc,
	.release = verbs_dm_release,
	.copy_to = verbs_dm_copy_to,
	.copy_from = verbs_dm_copy_from,
	.get_token = verbs_dm_export,
	.import = verbs_dm_import,
	.dmabuf_fd = verbs_dm_dmabuf_fd,
};

struct weir_provider *verbs_provider;

void device_provide(struct weir_provider_ops *ops)
{
	ops->list = list_verbs;
	ops->open = open_verbs;
	ops->close = close_verbs;
	ops->mem_register = device_mr_register;
	ops->mem_deregister = device_mr_deregister;
	ops->dm = &verbs_dm_ops;
}
