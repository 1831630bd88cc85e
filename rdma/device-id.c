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

void device_rdma_path(char path[DEVICE_PATH], const char *name)
{
	snprintf(path, DEVICE_PATH, "%.40s/class/infiniband/%s", device_sysfs,
		 name);
}

/*
 * Read the first line of @file in the directory @place.  Returns 0 or an errno;
 * in that case @buf may be changed.
 */
static int read_line(const char *place, const char *file, char *buf,
		     size_t size)
{
	char path[2 * DEVICE_PATH];
	bool ok;
	FILE *f;

	if (weir_fault("fopen"))
		return -EMFILE;
	snprintf(path, sizeof(path), "%s/%s", place, file);
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

/* The same of an RDMA device. */
static int device_sysfs_read(const char *name, const char *file, char *buf,
			     size_t size)
{
	char place[DEVICE_PATH];

	device_rdma_path(place, name);
	return read_line(place, file, buf, size);
}

void device_rdma_begin(struct weir_device_caps *caps, const char *name)
{
	char node[16];

	*caps = (struct weir_device_caps){
		.size = sizeof(*caps),
		.kind = WEIR_DEVICE_RDMA,
		.numa_node = -1,
	};
	snprintf(caps->name, sizeof(caps->name), "%s", name);
	if (!device_sysfs_read(name, "device/numa_node", node, sizeof(node)))
		caps->numa_node = atoi(node);
}

/* What rdma-core has listed is there already. */
static int add(struct weir_provider_list *list, const char *name,
	       const char *reason)
{
	struct weir_device_caps caps;
	int err;

	if (name[0] == '.' || !weir_provider_list_wants(list, name))
		return 0;
	device_rdma_begin(&caps, name);
	snprintf(caps.why, sizeof(caps.why), "%s", reason);
	err = weir_provider_list_add(list, &caps);
	return err == -EEXIST ? 0 : err;
}

int device_rdma_rest(struct weir_provider_list *list, const char *reason)
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

/* The name of an RDMA device.  Returns 0, or -EOPNOTSUPP if it is none. */
static int name_of(const struct weir_devinfo *info, const char *call,
		   char name[64])
{
	struct weir_device_caps caps = { .size = sizeof(caps) };

	weir_devinfo_caps(info, &caps);
	memcpy(name, caps.name, sizeof(caps.name));
	if (caps.kind == WEIR_DEVICE_RDMA)
		return 0;
	return why(-EOPNOTSUPP, "%s: %s is no RDMA device: it has none", call,
		   name);
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

static int system_said(const char *call, const char *name, const char *what,
		       int err)
{
	return why(err, "%s: %s: %s: %s", call, name, what, strerror(-err));
}

int weir_devinfo_ibdev(const struct weir_devinfo *info, char *buf, size_t size)
{
	char name[64];
	int err = name_of(info, "weir_devinfo_ibdev", name);

	return err ? err : give("weir_devinfo_ibdev", buf, size, name);
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
	char dev[64], place[DEVICE_PATH], path[2 * DEVICE_PATH], link[4096];
	const char *name;
	ssize_t n;
	int err = name_of(info, call, dev);

	if (err)
		return err;
	device_rdma_path(place, dev);
	snprintf(path, sizeof(path), "%s/device", place);
	n = weir_fault("readlink") ? -1 : readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = 0;
	name = strrchr(link, '/');
	if (!pci_parse(name ? name + 1 : link, ret))
		return why(-EOPNOTSUPP, "%s: %s is on no PCI bus", call, dev);
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
static bool only_entry(const char *dev, const char *dirname, char *name)
{
	char place[DEVICE_PATH], path[2 * DEVICE_PATH];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	device_rdma_path(place, dev);
	snprintf(path, sizeof(path), "%s/%s", place, dirname);
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
	char dev[64];
	int err = name_of(info, call, dev);

	if (err)
		return err;
	err = device_sysfs_read(dev, PORT "gid_attrs/ndevs/0", name, IFNAMSIZ);
	if (err && !only_entry(dev, "device/net", name))
		err = device_sysfs_read(dev, "parent", name, IFNAMSIZ);
	else
		err = 0;
	if (err || !*name)
		return why(-ENOENT, "%s: %s has no network interface", call,
			   dev);
	return 0;
}

int weir_devinfo_iface(const struct weir_devinfo *info, char *buf, size_t size)
{
	char name[IFNAMSIZ];
	int err = iface_find(info, "weir_devinfo_iface", name);

	return err ? err : give("weir_devinfo_iface", buf, size, name);
}

/* Sets @dev to its name. */
static int want_link(const struct weir_devinfo *info, const char *call,
		     const char *wanted, char dev[64])
{
	char link[32];
	int err = name_of(info, call, dev);

	if (err)
		return err;
	err = device_sysfs_read(dev, PORT "link_layer", link, sizeof(link));
	if (err)
		return system_said(call, dev, "cannot read its link layer",
				   err);
	if (strcmp(link, wanted))
		return why(-EOPNOTSUPP, "%s: the link of %s is %s, not %s",
			   call, dev, link, wanted);
	return 0;
}

static int mac_read(const char *iface, uint8_t *mac)
{
	char place[DEVICE_PATH], s[32];
	unsigned int b[6];
	int err, i;

	snprintf(place, sizeof(place), "%.40s/class/net/%s", device_sysfs,
		 iface);
	err = read_line(place, "address", s, sizeof(s));
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
	char iface[IFNAMSIZ], dev[64];
	int err = want_link(info, call, "Ethernet", dev);

	if (!err)
		err = iface_find(info, call, iface);
	if (err)
		return err;
	err = mac_read(iface, mac);
	return err ? system_said(call, dev, "no address of its interface",
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
		return why(-ENOMEM, "%s: no memory for the addresses of %s", call,
			   iface);
	for (a = all; a; a = a->ifa_next)
		if (!strcmp(a->ifa_name, iface) && a->ifa_addr &&
		    a->ifa_addr->sa_family == family)
			break;
	if (a)
		memcpy(ret, address_of(a), size);
	freeifaddrs(all);
	if (a)
		return 0;
	return why(-ENOENT, "%s: the interface %s has no IPv%d address", call,
		   iface, family == AF_INET ? 4 : 6);
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
	char s[16], dev[64];
	int err = want_link(info, call, "InfiniBand", dev);

	if (err)
		return err;
	err = device_sysfs_read(dev, PORT "lid", s, sizeof(s));
	if (err)
		return system_said(call, dev, "cannot read its LID", err);
	*lid = (uint16_t)strtoul(s, NULL, 0);
	return 0;
}
