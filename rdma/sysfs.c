/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices as the kernel shows them in /sys, and the class of those that
 * cannot be used, for rdma-core does not know them.
 */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/why.h"
#include "rdma/device.h"

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

static const struct device_class device_unusable = { .kind = WEIR_DEVICE_RDMA };

static bool is_listed(const struct device_list *list, const char *name)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		if (!strcmp(list->entries[i]->caps.name, name))
			return true;
	return false;
}

static int add(struct device_list *list, const char *name, const char *reason)
{
	struct weir_devinfo *info;

	if (name[0] == '.' || !device_list_wants(list, name) ||
	    is_listed(list, name))
		return 0;
	info = device_list_add(list, &device_unusable, name);
	if (!info)
		return -ENOMEM;
	device_rdma_locate(info);
	snprintf(info->caps.why, sizeof(info->caps.why), "%s", reason);
	return 0;
}

int device_rdma_rest(struct device_list *list, const char *reason)
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
		err = add(list, e->d_name, reason);
	closedir(dir);
	return err;
}
