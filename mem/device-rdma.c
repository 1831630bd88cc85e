/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * RDMA devices as the kernel shows them in /sys, and the class for a weir that
 * was built without verbs: they are there, and cannot be used.
 */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/device-internal.h"

const char *device_sysfs = "/sys";

int device_sysfs_read(const struct weir_devinfo *info, const char *file,
		      char *buf, size_t size)
{
	char path[2 * DEVICE_PATH];
	bool ok;
	FILE *f;

	if (fault("fopen"))
		return -EMFILE;
	snprintf(path, sizeof(path), "%s/%s", info->sysfs, file);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	ok = fgets(buf, (int)size, f);
	fclose(f);
	if (!ok)
		return -EIO;
	buf[strcspn(buf, "\n")] = 0;
	return 0;
}

void device_rdma_locate(struct weir_devinfo *info)
{
	char node[16];

	snprintf(info->sysfs, sizeof(info->sysfs), "%.40s/class/infiniband/%s",
		 device_sysfs, info->caps.name);
	if (!device_sysfs_read(info, "device/numa_node", node, sizeof(node)))
		info->caps.numa_node = atoi(node);
}

static int add(struct device_list *list, const char *name)
{
	struct weir_devinfo *info = device_list_add(list, &device_rdma, name);

	if (!info)
		return -ENOMEM;
	device_rdma_locate(info);
	snprintf(info->caps.why, sizeof(info->caps.why),
		 "this weir was built without verbs; install libibverbs-dev "
		 "and librdmacm-dev, configure and build again");
	return 0;
}

static int list_rdma(struct device_list *list)
{
	char path[DEVICE_PATH];
	struct dirent *e;
	DIR *dir = NULL;
	int err = 0;

	snprintf(path, sizeof(path), "%.40s/class/infiniband", device_sysfs);
	if (!fault("opendir"))
		dir = opendir(path);
	if (!dir)	/* This system has none. */
		return 0;
	while (!err && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			err = add(list, e->d_name);
	closedir(dir);
	return err;
}

const struct device_class device_rdma = {
	.kind = WEIR_DEVICE_RDMA,
	.list = list_rdma,
};
