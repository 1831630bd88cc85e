/* SPDX-License-Identifier: BSD-3-Clause */

/* The library's part of weir info: backends, devices, and the names of
 * things. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/cuda/device.h>
#include <weir/domain.h>
#include <weir/export.h>
#include <weir/fabric/device.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/nvme/nvme.h>
#include <weir/segment.h>

#include "info.h"

const struct domain_kind domain_kinds[] = {
	{ WEIR_DOMAIN_SYSTEM, "system", "pointers of this process", "" },
	{ WEIR_DOMAIN_FILE, "file", "offsets in a file or block device", "" },
	{ WEIR_DOMAIN_HUGEPAGE, "hugepage", "pointers into huge pages", "" },
	{ WEIR_DOMAIN_PROCESS, "process", "pointers of another process",
	  "allow pidfd_open(2) and process_vm_readv(2); Linux 5.3" },
	{ WEIR_DOMAIN_REMOTE, "remote", "memory of a peer, by RDMA",
	  "an RDMA card, and a weir with verbs" },
	{ WEIR_DOMAIN_DEVICE, "device", "offsets in device memory",
	  "an RDMA card with memory that can be allocated" },
	{ WEIR_DOMAIN_DMABUF, "dmabuf", "offsets in a dma-buf",
	  "an RDMA card that registers dma-bufs" },
};
const size_t n_domain_kinds = N_OF(domain_kinds);

const struct bit_name feature_names[] = {
	{ WEIR_URING_DEFER_TASKRUN, "defer-taskrun" },
	{ WEIR_URING_COOP_TASKRUN, "coop-taskrun" },
	{ WEIR_URING_RING_FD, "registered-ring" },
	{ WEIR_URING_FILES, "registered-files" },
	{ WEIR_URING_BUFFERS, "registered-buffers" },
	{ WEIR_URING_BUFFER_RINGS, "buffer-rings" },
	{ WEIR_URING_SEND_ZC, "zero-copy-send" },
	{ WEIR_URING_CQE_SKIP, "cqe-skip" },
	{ WEIR_URING_SQE128, "sqe128" },
	{ WEIR_URING_CQE32, "cqe32" },
	{ WEIR_URING_CQE_MIXED, "cqe-mixed" },
	{ WEIR_URING_RECV_BUNDLES, "receive-bundles" },
	{ WEIR_URING_NAPI, "napi" },
};
const size_t n_feature_names = N_OF(feature_names);

const struct bit_name cap_names[] = {
	{ WEIR_DEVICE_CAP_MMAP, "mmap" },
	{ WEIR_DEVICE_CAP_DMABUF, "dmabuf" },
	{ WEIR_DEVICE_CAP_DM, "dm" },
	{ WEIR_DEVICE_CAP_DM_IMPORT, "dm-import" },
	{ WEIR_DEVICE_CAP_DM_DMABUF, "dm-dmabuf" },
	{ WEIR_DEVICE_CAP_EXPORT, "export" },
	{ WEIR_DEVICE_CAP_IMPORT, "import" },
	{ WEIR_DEVICE_CAP_ODP, "odp" },
	{ WEIR_DEVICE_CAP_MW, "window" },
	{ WEIR_DEVICE_CAP_ATOMIC, "atomic" },
	{ WEIR_DEVICE_CAP_ATOMIC_ALL, "atomic-all" },
	{ WEIR_DEVICE_CAP_SRQ, "srq" },
	{ WEIR_DEVICE_CAP_DOMAIN, "domain" },
};
const size_t n_cap_names = N_OF(cap_names);

const struct bit_name job_names[] = {
	{ WEIR_DEVICE_BIT(WEIR_JOB_COPY), "copy" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_PULL), "pull" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_PUSH), "push" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_FILL), "fill" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_CRC32C), "crc32c" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_COPY_CRC32C), "copy+crc32c" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_COMPARE), "compare" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_DUALCAST), "dualcast" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_XOR), "xor" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_FETCH_ADD), "fetch-add" },
	{ WEIR_DEVICE_BIT(WEIR_JOB_COMPARE_SWAP), "compare-swap" },
};
const size_t n_job_names = N_OF(job_names);

const char *device_kind(const struct device *d)
{
	switch (d->caps.kind) {
	case WEIR_DEVICE_CPU:
		return "cpu";
	case WEIR_DEVICE_IO_URING:
		return "io_uring";
	case WEIR_DEVICE_SOFT_DM:
		return "soft-dm";
	case WEIR_DEVICE_RDMA:
		return "rdma";
	case WEIR_DEVICE_CUDA:
		return "cuda";
	case WEIR_DEVICE_FABRIC:
		return "fabric";
	case WEIR_DEVICE_NVME:
		return "nvme";
	default:
		return d->caps.kind >= WEIR_DEVICE_USER ? "user" : "unknown";
	}
}

bool is_usable(const struct device *d)
{
	return d->caps.flags & WEIR_DEVICE_USABLE;
}

bool reaches(const struct device *d, uint32_t domain)
{
	return is_usable(d) && d->caps.domains & WEIR_DEVICE_BIT(domain);
}

/* The message without the name of the call at its beginning. */
static void keep_why(char *to, size_t size)
{
	const char *at = strstr(weir_why(), ": ");

	snprintf(to, size, "%s", at ? at + 2 : weir_why());
}

static void find_ev(struct backend *ev)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_EV,
	};
	struct weir_reactor *r;

	ev->name = "ev";
	ev->usable = !weir_reactor_create(&r, &opts);
	if (ev->usable)
		weir_reactor_destroy(r);
	else
		keep_why(ev->why, sizeof(ev->why));
}

/* The backend of a program that does not choose one. */
static void find_backends(struct info *info)
{
	struct weir_reactor *r;

	info->uring.name = "uring";
	info->features.size = sizeof(info->features);
	info->uring.usable = !weir_uring_probe(&info->features);
	if (!info->uring.usable)
		keep_why(info->uring.why, sizeof(info->uring.why));
	find_ev(&info->ev);
	if (weir_reactor_create(&r, NULL)) {
		keep_why(info->chosen_why, sizeof(info->chosen_why));
		return;
	}
	info->chosen = weir_reactor_backend(r);
	snprintf(info->chosen_why, sizeof(info->chosen_why), "%s",
		 weir_reactor_describe(r));
	weir_reactor_destroy(r);
}

static void find_devices(struct info *info)
{
	struct weir_devinfo **list;
	struct device *d;
	size_t i, n;

	weir_cuda_init();
#ifdef HAVE_LIBFABRIC
	weir_fabric_init();
#endif
#ifdef HAVE_NVME
	weir_nvme_init();
#endif
	if (weir_device_list(&list, &n)) {
		info->no_memory = true;
		return;
	}
	for (i = 0; i < n; i++) {
		d = add_item(info, &info->devices, &info->n_devices,
			     sizeof(*d));
		if (!d)
			break;
		d->caps.size = sizeof(d->caps);
		weir_devinfo_caps(list[i], &d->caps);
#ifdef HAVE_VERBS
		find_identity(d, list[i]);
#endif
	}
	weir_device_list_free(list);
}

static int export_with_key(struct weir_mmap *mmap)
{
	static const char key[32] = "to see whether there are any";
	struct weir_export_opts opts = {
		.size = sizeof(opts), .key = key, .key_len = sizeof(key),
	};
	struct weir_export_desc desc = { .size = sizeof(desc) };

	if (weir_mmap_alloc(mmap, 4096, WEIR_MMAP_ALLOC_MEMFD) ||
	    weir_mmap_set_permissions(mmap, WEIR_MMAP_PEER_READ) ||
	    weir_mmap_start(mmap))
		return -1;
	return weir_mmap_export(mmap, &opts, &desc);
}

static void find_keys(struct info *info)
{
	struct weir_mmap *mmap;

	if (weir_mmap_create(&mmap, NULL)) {
		info->no_memory = true;
		return;
	}
	info->keys = !export_with_key(mmap);
	if (!info->keys)
		keep_why(info->keys_why, sizeof(info->keys_why));
	weir_mmap_destroy(mmap);
}

void find_weir(struct info *info)
{
	find_keys(info);
	info->phys = !weir_segment_phys_allowed();
	find_backends(info);
	find_devices(info);
}
