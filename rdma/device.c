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

#include <weir/domain.h>
#include <weir/mmap.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/dm-internal.h"
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
static bool is_virtual(const struct weir_devinfo *info)
{
	char *path = realpath(info->sysfs, NULL);
	bool yes = path && strstr(path, "/devices/virtual/");

	free(path);
	return yes;
}

static void describe(struct weir_devinfo *info, struct ibv_context *ctx,
		     const struct ibv_device_attr_ex *attr)
{
	struct weir_device_caps *caps = &info->caps;

	caps->flags = WEIR_DEVICE_USABLE;
	if (is_virtual(info))
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
static void say_unusable(struct weir_devinfo *info, const char *what, int err,
			 const struct ibv_device *ibdev)
{
	char node[sizeof(ibdev->dev_name) + 32];

	snprintf(node, sizeof(node), "/dev/infiniband/%s", ibdev->dev_name);
	if (access(node, R_OK | W_OK) && errno == EACCES)
		err = EACCES;
	snprintf(info->caps.why, sizeof(info->caps.why), "%s: %s%s%s", what,
		 strerror(err), err == EACCES ? "; let this user read and "
		 "write " : "", err == EACCES ? node : "");
}

static int add(struct device_list *list, struct ibv_device *ibdev)
{
	const char *name = ibv_get_device_name(ibdev);
	struct ibv_device_attr_ex attr;
	struct weir_devinfo *info;
	struct ibv_context *ctx;
	int err;

	if (!device_list_wants(list, name))
		return 0;
	info = device_list_add(list, &device_verbs, name);
	if (!info)
		return -ENOMEM;
	device_rdma_locate(info);
	ctx = open_context(ibdev);
	if (!ctx) {
		say_unusable(info, "it cannot be opened", -error(), ibdev);
		return 0;
	}
	memset(&attr, 0, sizeof(attr));
	err = weir_fault("ibv_query_device") ? EIO :
	      ibv_query_device_ex(ctx, NULL, &attr);
	if (err)
		say_unusable(info, "it does not tell what it can do", err,
			     ibdev);
	else
		describe(info, ctx, &attr);
	ibv_close_device(ctx);
	return 0;
}

static int list_verbs(const struct device_class *cls, struct device_list *list)
{
	int n, i, err = 0;
	struct ibv_device **devs = get_list(&n);

	(void)cls;
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

static int open_verbs(struct weir_device *dev)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct device_verbs_open *v = mem_calloc(1, sizeof(*v));
	int err;

	if (!v)
		return why(-ENOMEM, "weir_device_open: no memory");
	pthread_once(&once, care_for_fork);
	v->ctx = open_by_name(device_name(dev));
	if (v->ctx)
		v->pd = alloc_pd(v->ctx);
	if (v->pd) {
		dev->priv = v;
		return 0;
	}
	err = error();
	if (v->ctx)
		ibv_close_device(v->ctx);
	free(v);
	return why(err, "weir_device_open: %s: %s", device_name(dev),
		   strerror(-err));
}

static void close_verbs(struct weir_device *dev)
{
	struct device_verbs_open *v = dev->priv;

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
static struct ibv_mr *reg(struct ibv_pd *pd, const struct device_range *range)
{
	unsigned int access = access_of(range->permissions) |
			      (range->windows ? IBV_ACCESS_MW_BIND : 0u);

	if (fails("ibv_reg_mr", ENOMEM))
		return NULL;
	switch (range->kind) {
	case DEVICE_RANGE_DM:
		return ibv_reg_dm_mr(pd, range->dm->priv, range->off,
				     range->len,
				     access | IBV_ACCESS_ZERO_BASED);
	case DEVICE_RANGE_DMABUF:
		return ibv_reg_dmabuf_mr(pd, range->off, range->len,
					 range->addr ? (uintptr_t)range->addr :
						       range->off,
					 range->fd, (int)access);
	default:
		return ibv_reg_mr(pd, range->addr, range->len, access);
	}
}

static int say_why_not(const struct weir_device *dev,
		       const struct device_range *range, int err)
{
	const char *name = device_name(dev);
	struct rlimit lim;

	if (err == -ENOMEM && range->kind == DEVICE_RANGE_MEM &&
	    !getrlimit(RLIMIT_MEMLOCK, &lim) && lim.rlim_cur != RLIM_INFINITY)
		return why(err, "weir_mmap_keys: %s cannot register %zu KiB: "
			   "the limit of locked memory is %llu KiB; raise it "
			   "with ulimit -l or LimitMEMLOCK=", name,
			   (range->len + 1023) >> 10,
			   (unsigned long long)lim.rlim_cur >> 10);
	if (err == -EFAULT)
		return why(err, "weir_mmap_keys: %s cannot register %zu bytes: "
			   "they are not all mapped, cannot be written to, or "
			   "are no ordinary memory", name, range->len);
	return why(err, "weir_mmap_keys: %s cannot register %zu bytes: %s",
		   name, range->len, strerror(-err));
}

static int register_mr(struct weir_device *dev,
		       const struct device_range *range, struct device_mr *ret)
{
	const struct device_verbs_open *v = dev->priv;
	struct ibv_mr *mr = reg(v->pd, range);

	if (!mr)
		return say_why_not(dev, range, error());
	ret->priv = mr;
	ret->lkey = mr->lkey;
	ret->rkey = mr->rkey;
	return 0;
}

static int deregister_mr(struct weir_device *dev, const struct device_mr *mr)
{
	int err = weir_fault("ibv_dereg_mr") ? EBUSY : ibv_dereg_mr(mr->priv);

	return !err ? 0 : why(-err, "%s keeps its registration: %s",
			      device_name(dev), strerror(err));
}

/* Device memory. */

/*
 * mana's driver does not set the pointers to the copy functions in the device
 * memory that it allocates, so they cannot be tested for NULL.
 */
static bool driver_copies(const struct weir_dm *dm, const struct ibv_dm *ibdm)
{
	char path[DEVICE_PATH + 16], driver[DEVICE_PATH];
	const char *base;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/device/driver",
		 dm->device->info.sysfs);
	n = readlink(path, driver, sizeof(driver) - 1);
	driver[n > 0 ? n : 0] = '\0';
	base = strrchr(driver, '/');
	if (base && !strncmp(base, "/mana", 5))
		return false;
	return ibdm->memcpy_to_dm && ibdm->memcpy_from_dm;
}

static int dm_made(struct weir_dm *dm, struct ibv_dm *made, const char *call)
{
	int err;

	if (made) {
		dm->priv = made;
		dm->copies = driver_copies(dm, made);
		return 0;
	}
	err = error();
	return why(err, "%s: %s refuses %zu bytes: %s", call,
		   device_name(dm->device), dm->len, strerror(-err));
}

static struct ibv_context *context_of(const struct weir_dm *dm)
{
	return ((const struct device_verbs_open *)dm->device->priv)->ctx;
}

static int verbs_dm_alloc(struct weir_dm *dm, uint32_t log_align)
{
	struct ibv_alloc_dm_attr attr = {
		.length = dm->len, .log_align_req = log_align,
	};
	struct ibv_dm *made = NULL;

	if (!fails("ibv_alloc_dm", ENOMEM))
		made = ibv_alloc_dm(context_of(dm), &attr);
	return dm_made(dm, made, "weir_dm_alloc");
}

static int verbs_dm_import(struct weir_dm *dm,
			   const struct weir_dm_token *token)
{
	struct ibv_dm *made = NULL;

	if (!fails("ibv_import_dm", ENOMEM))
		made = ibv_import_dm(context_of(dm), token->handle);
	return dm_made(dm, made, "weir_dm_import");
}

static int verbs_dm_release(struct weir_dm *dm)
{
	int err;

	if (dm->imported) {
		ibv_unimport_dm(dm->priv);
		return 0;
	}
	err = ibv_free_dm(dm->priv);
	if (err)
		return why(-err, "weir_dm_free: %s: %s",
			   device_name(dm->device), strerror(err));
	return 0;
}

static int say_copied(const struct weir_dm *dm, const char *call, int err)
{
	return err ? why(-err, "%s: %s: %s", call, device_name(dm->device),
			 strerror(err)) : 0;
}

static int verbs_dm_copy_to(struct weir_dm *dm, uint64_t off, const void *src,
			    size_t len)
{
	return say_copied(dm, "weir_dm_copy_to",
			  ibv_memcpy_to_dm(dm->priv, off, src, len));
}

static int verbs_dm_copy_from(void *dst, struct weir_dm *dm, uint64_t off,
			      size_t len)
{
	return say_copied(dm, "weir_dm_copy_from",
			  ibv_memcpy_from_dm(dst, dm->priv, off, len));
}

static int verbs_dm_export(struct weir_dm *dm, struct weir_dm_token *token)
{
	const struct ibv_dm *ibdm = dm->priv;

	if (!(ibdm->comp_mask & IBV_DM_MASK_HANDLE))
		return why(-EOPNOTSUPP, "weir_dm_export: the driver of %s "
			   "names no handle", device_name(dm->device));
	token->handle = ibdm->handle;
	return 0;
}

static int verbs_dm_dmabuf_fd(struct weir_dm *dm)
{
	int fd, err;

	errno = 0;
	fd = ibv_dm_export_dmabuf_fd(dm->priv);
	if (fd >= 0)
		return fd;
	err = error();
	return why(err, "weir_dm_dmabuf_fd: %s: %s", device_name(dm->device),
		   strerror(-err));
}

static const struct dm_ops verbs_dm_ops = {
	.alloc = verbs_dm_alloc,
	.import = verbs_dm_import,
	.release = verbs_dm_release,
	.copy_to = verbs_dm_copy_to,
	.copy_from = verbs_dm_copy_from,
	.export = verbs_dm_export,
	.dmabuf_fd = verbs_dm_dmabuf_fd,
};

const struct device_class device_verbs = {
	.kind = WEIR_DEVICE_RDMA,
	.list = list_verbs,
	.open = open_verbs,
	.close = close_verbs,
	.dm = &verbs_dm_ops,
	.mr_register = register_mr,
	.mr_deregister = deregister_mr,
	.mws_drop = mmap_mws_drop,
};
