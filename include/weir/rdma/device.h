/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_DEVICE_H
#define WEIR_RDMA_DEVICE_H

/*
 * RDMA devices, in a program that links libweir-rdma: their addresses on the
 * bus and in the network, and their rdma-core context.  <weir/device.h> has the
 * calls for all devices.
 *
 * Re-creates the doca_devinfo_get_...() of a network device.
 */

#include <weir/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;

/*
 * Register RDMA devices with weir_device_list(), and the engine "verbs" with
 * DMA contexts that are created from now on.
 *
 * Loading libweir-rdma does that too.  Call this function in a program that
 * makes no other call of libweir-rdma, so that the linker keeps the library.  A
 * second call has no effect.
 *
 * Any thread.  Never blocks.  Re-creates ibv_register_driver(), with which a
 * driver of rdma-core names itself.
 */
WEIR_API void weir_rdma_init(void);

/*
 * Get the rdma-core context of an open RDMA device, for weir_channel_create()
 * or calls of rdma-core.
 *
 * It is valid as long as @dev is open.
 *
 * Returns the context, or NULL if @dev is no RDMA device.
 *
 * Any thread.  Never blocks.  Re-creates doca_rdma_bridge_get_dev_pd().
 */
WEIR_API struct ibv_context *weir_device_verbs(const struct weir_device *dev);

/*
 * Get the name of an RDMA device in the kernel and rdma-core: "mlx5_0".
 *
 * Returns 0 with the name in the @size bytes at @buf, or
 *   -EOPNOTSUPP  @info is no RDMA device
 *   -EMSGSIZE    the name does not fit; 64 bytes are enough
 *
 * Any thread.  Never blocks.
 *
 * Re-creates doca_devinfo_get_ibdev_name().
 */
WEIR_API int weir_devinfo_ibdev(const struct weir_devinfo *info, char *buf,
				size_t size);

/*
 * Get the PCI address of an RDMA device: "0000:03:00.0".
 *
 * Returns 0 with the address in the @size bytes at @buf, or
 *   -EOPNOTSUPP  @info is no RDMA device, or not on a PCI bus
 *   -EMSGSIZE    the address does not fit; 16 bytes are enough
 *
 * Any thread.  A system call.
 *
 * Re-creates doca_devinfo_get_pci_addr_str().
 */
WEIR_API int weir_devinfo_pci(const struct weir_devinfo *info, char *buf,
			      size_t size);

/*
 * Tell whether the PCI address of an RDMA device is @addr: "0000:03:00.0", or
 * "03:00.0" for the same.
 *
 * Returns 1 if it is, 0 if it is another, or
 *   -EINVAL      @addr is not a PCI address
 *   -EOPNOTSUPP  @info is no RDMA device, or not on a PCI bus
 *
 * Any thread.  A system call.
 *
 * Re-creates doca_devinfo_is_equal_pci_addr().
 */
WEIR_API int weir_devinfo_is_pci(const struct weir_devinfo *info,
				 const char *addr);

/*
 * Get the network interface of an RDMA device's first port: "eth0".
 *
 * Returns 0 with the name in the @size bytes at @buf, or
 *   -EOPNOTSUPP  @info is no RDMA device
 *   -ENOENT      the device has no network interface
 *   -EMSGSIZE    the name does not fit; 16 bytes are enough
 *
 * Any thread.  Some system calls.
 *
 * Re-creates doca_devinfo_get_iface_name().
 */
WEIR_API int weir_devinfo_iface(const struct weir_devinfo *info, char *buf,
				size_t size);

/*
 * Get the MAC address of an RDMA device's first port: 6 bytes at @mac.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  @info is no RDMA device, or its link is not Ethernet
 *   -ENOENT      the device has no network interface
 *   -EIO and others  the system's errno
 *
 * Any thread.  Some system calls.
 *
 * Re-creates doca_devinfo_get_mac_addr().
 */
WEIR_API int weir_devinfo_mac(const struct weir_devinfo *info, uint8_t *mac);

/*
 * Get the first IPv4 address of an RDMA device's network interface: 4 bytes at
 * @addr, in network order.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  @info is no RDMA device
 *   -ENOENT      the device has no interface, or the interface no such address
 *   -ENOMEM      no memory
 *
 * Any thread.  Some system calls.
 *
 * Re-creates doca_devinfo_get_ipv4_addr().
 */
WEIR_API int weir_devinfo_ipv4(const struct weir_devinfo *info, uint8_t *addr);

/*
 * Get the first IPv6 address of an RDMA device's network interface: 16 bytes at
 * @addr, in network order.
 *
 * Returns 0, or what weir_devinfo_ipv4() returns.
 *
 * Any thread.  Some system calls.
 *
 * Re-creates doca_devinfo_get_ipv6_addr().
 */
WEIR_API int weir_devinfo_ipv6(const struct weir_devinfo *info, uint8_t *addr);

/*
 * Get the LID of an RDMA device's first port in its InfiniBand subnet.
 *
 * Returns 0 with *@lid set, or
 *   -EOPNOTSUPP  @info is no RDMA device, or its link is not InfiniBand
 *   -EIO and others  the system's errno
 *
 * Any thread.  Some system calls.
 *
 * Re-creates doca_devinfo_get_lid().
 */
WEIR_API int weir_devinfo_lid(const struct weir_devinfo *info, uint16_t *lid);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_DEVICE_H */
