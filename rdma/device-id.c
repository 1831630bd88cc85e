/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices as the kernel shows them in /sys: which there are, and where
 * each is on the bus and in the network.
 */

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/rdma/device.h>

#include "base/why.h"
#include "rdma/device.h"

/*
 * RDMA devices as the kernel shows them in /sys, including those that cannot be
 * used, which rdma-core does not list.
 */

const char *device_sysfs = "/sys";

/*
 * Read the first line of @file in the device's directory.  Returns 0 or an
 * errno; in that case @buf may be changed.
 */
static int device_sysfs_read(const struct weir_devinfo *info, const char *file,
		      char *buf, size_t size)
{
	char path[2 * DEVICE_PATH];
	bool ok;
	FILE *f;

	if (weir_fault("fopen"))
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
	if (!weir_fault("opendir"))
		dir = opendir(path);
	if (!dir)	/* This system has none. */
		return 0;
	while (!err && (e = readdir(dir)))
		err = add(list, e->d_name, reason);
	closedir(dir);
	return err;
}

/*
 * The identity of an RDMA device: its place on the bus and in the network, from
 * the kernel's files in /sys.  For a device with several ports the first is
 * used.
 */

#define PORT "ports/1/"

struct pci {
	unsigned int domain, bus, slot, function;
};

static int not_rdma(const struct weir_devinfo *info, const char *call)
{
	if (info->caps.kind == WEIR_DEVICE_RDMA)
		return 0;
	return why(-EOPNOTSUPP, "%s: %s is no RDMA device: it has none", call,
		   info->caps.name);
}

static int give(const char *call, char *buf, size_t size, const char *s)
{
	size_t len = strlen(s) + 1;

	if (len > size)
		return why(-EMSGSIZE, "%s: the buffer has %zu bytes; %zu are "
			   "needed", call, size, len);
	memcpy(buf, s, len);
	return 0;
}

static int system_said(const char *call, const struct weir_devinfo *info,
		       const char *what, int err)
{
	return why(err, "%s: %s: %s: %s", call, info->caps.name, what,
		   strerror(-err));
}

int weir_devinfo_ibdev(const struct weir_devinfo *info, char *buf, size_t size)
{
	int err = not_rdma(info, "weir_devinfo_ibdev");

	return err ? err : give("weir_devinfo_ibdev", buf, size,
				info->caps.name);
}

/* "0000:03:00.0", or "03:00.0" for the same. */
static bool pci_parse(const char *s, struct pci *ret)
{
	struct pci p = { 0 };
	int end = 0;

	/* No signs, blanks or 0x, which scanf() would take. */
	if (s[strspn(s, "0123456789abcdefABCDEF:.")])
		return false;
	if (sscanf(s, "%8x:%2x:%2x.%1x%n", &p.domain, &p.bus, &p.slot,
		   &p.function, &end) == 4 && !s[end]) {
		*ret = p;
		return true;
	}
	p.domain = 0;
	end = 0;
	if (sscanf(s, "%2x:%2x.%1x%n", &p.bus, &p.slot, &p.function, &end) !=
	    3 || s[end])
		return false;
	*ret = p;
	return true;
}

/* The device link of /sys ends in the address, if it is one of PCI's. */
static int pci_find(const struct weir_devinfo *info, const char *call,
		    struct pci *ret)
{
	char path[2 * DEVICE_PATH], link[4096];
	const char *name;
	ssize_t n;
	int err = not_rdma(info, call);

	if (err)
		return err;
	snprintf(path, sizeof(path), "%s/device", info->sysfs);
	n = weir_fault("readlink") ? -1 : readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = 0;
	name = strrchr(link, '/');
	if (!pci_parse(name ? name + 1 : link, ret))
		return why(-EOPNOTSUPP, "%s: %s is on no PCI bus", call,
			   info->caps.name);
	return 0;
}

int weir_devinfo_pci(const struct weir_devinfo *info, char *buf, size_t size)
{
	char s[32];
	struct pci p;
	int err = pci_find(info, "weir_devinfo_pci", &p);

	if (err)
		return err;
	snprintf(s, sizeof(s), "%04x:%02x:%02x.%x", p.domain, p.bus, p.slot,
		 p.function);
	return give("weir_devinfo_pci", buf, size, s);
}

int weir_devinfo_is_pci(const struct weir_devinfo *info, const char *addr)
{
	struct pci mine, its;
	int err;

	if (!pci_parse(addr, &its))
		return why(-EINVAL, "weir_devinfo_is_pci: %s is no address; "
			   "use one like 0000:03:00.0 or 03:00.0", addr);
	err = pci_find(info, "weir_devinfo_is_pci", &mine);
	if (err)
		return err;
	return mine.domain == its.domain && mine.bus == its.bus &&
	       mine.slot == its.slot && mine.function == its.function;
}

/* The only entry of a directory under the device's. */
static bool only_entry(const struct weir_devinfo *info, const char *dirname,
		       char *name)
{
	char path[2 * DEVICE_PATH];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%s", info->sysfs, dirname);
	dir = weir_fault("opendir") ? NULL : opendir(path);
	if (!dir)
		return false;
	while (!found && (e = readdir(dir)))
		if (e->d_name[0] != '.' && strlen(e->d_name) < IFNAMSIZ) {
			strcpy(name, e->d_name);
			found = true;
		}
	closedir(dir);
	return found;
}

/* By the files of the port, the bus, or, for old soft-RoCE, its parent. */
static int iface_find(const struct weir_devinfo *info, const char *call,
		      char name[IFNAMSIZ])
{
	int err = not_rdma(info, call);

	if (err)
		return err;
	err = device_sysfs_read(info, PORT "gid_attrs/ndevs/0", name, IFNAMSIZ);
	if (err && !only_entry(info, "device/net", name))
		err = device_sysfs_read(info, "parent", name, IFNAMSIZ);
	else
		err = 0;
	if (err || !*name)
		return why(-ENOENT, "%s: %s has no network interface", call,
			   info->caps.name);
	return 0;
}

int weir_devinfo_iface(const struct weir_devinfo *info, char *buf, size_t size)
{
	char name[IFNAMSIZ];
	int err = iface_find(info, "weir_devinfo_iface", name);

	return err ? err : give("weir_devinfo_iface", buf, size, name);
}

static int want_link(const struct weir_devinfo *info, const char *call,
		     const char *wanted)
{
	char link[32];
	int err = not_rdma(info, call);

	if (err)
		return err;
	err = device_sysfs_read(info, PORT "link_layer", link, sizeof(link));
	if (err)
		return system_said(call, info, "cannot read its link layer",
				   err);
	if (strcmp(link, wanted))
		return why(-EOPNOTSUPP, "%s: the link of %s is %s, not %s",
			   call, info->caps.name, link, wanted);
	return 0;
}

static int mac_read(const char *iface, uint8_t *mac)
{
	struct weir_devinfo net = { .cls = NULL };
	unsigned int b[6];
	char s[32];
	int err, i;

	snprintf(net.sysfs, sizeof(net.sysfs), "%.40s/class/net/%s",
		 device_sysfs, iface);
	err = device_sysfs_read(&net, "address", s, sizeof(s));
	if (err)
		return err;
	if (sscanf(s, "%2x:%2x:%2x:%2x:%2x:%2x", &b[0], &b[1], &b[2], &b[3],
		   &b[4], &b[5]) != 6)
		return -EIO;
	for (i = 0; i < 6; i++)
		mac[i] = (uint8_t)b[i];
	return 0;
}

int weir_devinfo_mac(const struct weir_devinfo *info, uint8_t *mac)
{
	static const char call[] = "weir_devinfo_mac";
	char iface[IFNAMSIZ];
	int err = want_link(info, call, "Ethernet");

	if (!err)
		err = iface_find(info, call, iface);
	if (err)
		return err;
	err = mac_read(iface, mac);
	return err ? system_said(call, info, "no address of its interface",
				 err) : 0;
}

static const void *address_of(const struct ifaddrs *a)
{
	if (a->ifa_addr->sa_family == AF_INET)
		return &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr;
	return &((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr;
}

/* Copy the first address of @family that the interface has. */
static int address_find(const struct weir_devinfo *info, const char *call,
			int family, void *ret, size_t size)
{
	struct ifaddrs *all = NULL, *a;
	char iface[IFNAMSIZ];
	int err = iface_find(info, call, iface);

	if (err)
		return err;
	if (weir_fault("getifaddrs") || getifaddrs(&all))
		return system_said(call, info, "no addresses", -ENOMEM);
	for (a = all; a; a = a->ifa_next)
		if (!strcmp(a->ifa_name, iface) && a->ifa_addr &&
		    a->ifa_addr->sa_family == family)
			break;
	if (a)
		memcpy(ret, address_of(a), size);
	freeifaddrs(all);
	if (a)
		return 0;
	return why(-ENOENT, "%s: the interface %s of %s has no such address",
		   call, iface, info->caps.name);
}

int weir_devinfo_ipv4(const struct weir_devinfo *info, uint8_t *addr)
{
	return address_find(info, "weir_devinfo_ipv4", AF_INET, addr, 4);
}

int weir_devinfo_ipv6(const struct weir_devinfo *info, uint8_t *addr)
{
	return address_find(info, "weir_devinfo_ipv6", AF_INET6, addr, 16);
}

int weir_devinfo_lid(const struct weir_devinfo *info, uint16_t *lid)
{
	static const char call[] = "weir_devinfo_lid";
	char s[16];
	int err = want_link(info, call, "InfiniBand");

	if (err)
		return err;
	err = device_sysfs_read(info, PORT "lid", s, sizeof(s));
	if (err)
		return system_said(call, info, "cannot read its LID", err);
	*lid = (uint16_t)strtoul(s, NULL, 0);
	return 0;
}
