/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_DEVICE_H
#define WEIR_RDMA_DEVICE_H

/*
 * RDMA devices: devices like others (<weir/device.h>), in a program that links
 * libweir-rdma, and what only they have: a place on the bus and in the network,
 * and what rdma-core knows them by.
 *
 * Re-creates the doca_devinfo_get_...() of a network device.
 */

#include <weir/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;

/*
 * Have the devices of rdma-core in weir_device_list(), and its engine in DMA
 * contexts that are created from now on.  Loading libweir-rdma does that: call
 * this in a program that calls nothing else of it, so that the linker keeps it.
 * A second call does nothing.
 *
 * Any thread.  Never blocks.  Re-creates ibv_register_driver(), with which a
 * driver of rdma-core names itself.
 */
WEIR_API void weir_rdma_init(void);

/*
 * What rdma-core knows an open RDMA device by: to make a weir_channel of it, or
 * to ask rdma-core more.  It lives as long as @dev is open.
 *
 * Returns it, or NULL if @dev is no RDMA device.
 *
 * Any thread.  Never blocks.  Re-creates doca_rdma_bridge_get_dev_pd().
 */
WEIR_API struct ibv_context *weir_device_verbs(const struct weir_device *dev);

/*
 * The name of an RDMA device as the kernel and rdma-core have it: "mlx5_0".
 *
 * Returns 0 with it in the @size bytes at @buf, or
 *   -EOPNOTSUPP  it is no RDMA device
 *   -EMSGSIZE    it does not fit; 64 bytes are enough
 *
 * Any thread.  Never blocks.
 *
 * Re-creates doca_devinfo_get_ibdev_name().
 */
WEIR_API int weir_devinfo_ibdev(const struct weir_devinfo *info, char *buf,
				size_t size);

/*
 * The PCI address of an RDMA device: "0000:03:00.0".
 *
 * Returns 0 with it in the @size bytes at @buf, or
 *   -EOPNOTSUPP  it is no RDMA device, or is on no PCI bus
 *   -EMSGSIZE    it does not fit; 16 bytes are enough
 *
 * Any thread.  A system call.
 */
WEIR_API int weir_devinfo_pci(const struct weir_devinfo *info, char *buf,
			      size_t size);

/*
 * Whether the PCI address of an RDMA device is @addr: "0000:03:00.0", or
 * "03:00.0" for the same.
 *
 * Returns 1 if it is, 0 if it is another, or
 *   -EINVAL      @addr is no such address
 *   -EOPNOTSUPP  it is no RDMA device, or is on no PCI bus
 *
 * Any thread.  A system call.
 *
 * Re-creates doca_devinfo_is_equal_pci_addr().
 */
WEIR_API int weir_devinfo_is_pci(const struct weir_devinfo *info,
				 const char *addr);

/*
 * The network interface of an RDMA device's first port: "eth0".
 *
 * Returns 0 with it in the @size bytes at @buf, or
 *   -EOPNOTSUPP  it is no RDMA device
 *   -ENOENT      it has none
 *   -EMSGSIZE    it does not fit; 16 bytes are enough
 *
 * Any thread.  Some system calls.
 */
WEIR_API int weir_devinfo_iface(const struct weir_devinfo *info, char *buf,
				size_t size);

/*
 * The MAC address of an RDMA device's first port: 6 bytes to @mac.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  it is no RDMA device, or its link is not Ethernet
 *   -ENOENT      it has no network interface
 *   -EIO and others  what the system said when it was asked
 *
 * Any thread.  Some system calls.
 */
WEIR_API int weir_devinfo_mac(const struct weir_devinfo *info, uint8_t *mac);

/*
 * The first IPv4 address of an RDMA device's network interface: 4 bytes to
 * @addr, in the order of the network.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  it is no RDMA device
 *   -ENOENT      it has no interface, or that no such address
 *   -ENOMEM      no memory
 *
 * Any thread.  Some system calls.
 */
WEIR_API int weir_devinfo_ipv4(const struct weir_devinfo *info, uint8_t *addr);

/*
 * The first IPv6 address of an RDMA device's network interface: 16 bytes to
 * @addr, in the order of the network.
 *
 * Returns 0, or what weir_devinfo_ipv4() returns.
 *
 * Any thread.  Some system calls.
 */
WEIR_API int weir_devinfo_ipv6(const struct weir_devinfo *info, uint8_t *addr);

/*
 * The LID of an RDMA device's first port in its InfiniBand subnet.
 *
 * Returns 0 with *@lid set, or
 *   -EOPNOTSUPP  it is no RDMA device, or its link is not InfiniBand
 *   -EIO and others  what the system said when it was asked
 *
 * Any thread.  Some system calls.
 */
WEIR_API int weir_devinfo_lid(const struct weir_devinfo *info, uint16_t *lid);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_DEVICE_H */
