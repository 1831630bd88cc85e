/* SPDX-License-Identifier: BSD-3-Clause */
/* weir info: the place of RDMA devices.  Linking this file also registers
 * libweir-rdma, so the devices are listed. */

#include <arpa/inet.h>
#include <stdio.h>

#include <weir/rdma/device.h>

#include "info.h"

void find_identity(struct device *d, const struct weir_devinfo *dev)
{
	uint8_t mac[6], ipv4[4], ipv6[16];
	uint16_t lid;

	weir_devinfo_pci(dev, d->pci, sizeof(d->pci));
	weir_devinfo_iface(dev, d->iface, sizeof(d->iface));
	if (!weir_devinfo_mac(dev, mac))
		snprintf(d->mac, sizeof(d->mac),
			 "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1],
			 mac[2], mac[3], mac[4], mac[5]);
	if (!weir_devinfo_ipv4(dev, ipv4))
		inet_ntop(AF_INET, ipv4, d->ipv4, sizeof(d->ipv4));
	if (!weir_devinfo_ipv6(dev, ipv6))
		inet_ntop(AF_INET6, ipv6, d->ipv6, sizeof(d->ipv6));
	if (!weir_devinfo_lid(dev, &lid))
		snprintf(d->lid, sizeof(d->lid), "%u", lid);
}
