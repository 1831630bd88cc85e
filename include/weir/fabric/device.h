/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_FABRIC_DEVICE_H
#define WEIR_FABRIC_DEVICE_H

/*
 * Memory of processes on other machines, over whatever libfabric reaches them by.
 *
 * A program that is linked with libweir-fabric has a device for each provider of
 * libfabric and each address of this machine: "tcp@192.0.2.1", say.  Mmaps and leases
 * are exported and imported by it, and jobs with bufs of an import are done by an
 * engine "fabric" that each DMA context has:
 *
 *	weir_device_open_name(&dev, "tcp@192.0.2.1");	// the exporter
 *	weir_mmap_add_device(m, dev);
 *	weir_dma_create(&dma, r, NULL);
 *	weir_lease_create(&lease, r, m, &lease_opts);
 *	weir_lease_export(lease, &desc);
 *
 *	weir_device_open_name(&dev, "tcp@192.0.2.2");	// the importer
 *	weir_dma_create(&dma, r, NULL);
 *	weir_mmap_import_device(&m, dev, bytes, len, NULL);
 *	weir_job_start(dma, &job);
 *
 * How the bytes get there is the program's choice.
 *
 * The reactor that exports has to turn: with most providers it is the exporter's
 * processor that moves the bytes.  A lease is served by its own reactor, an export of an
 * mmap by one of the calling thread.  That reactor needs a DMA context first; exports end
 * with its last one.  If libfabric does not close a connection of an export then, it is
 * kept, and weir_mmap_stop() of its memory returns -EBUSY from then on.
 *
 * An importer connects with its first job, and again when a connection has ended and
 * there is another job.  Each lease, and each export of an mmap, has connections
 * of its own.  When the exporter takes back its memory these are closed first, and
 * then the registration: once that is done nothing is written or read by them any
 * more, whatever the peer does.  Where libfabric closes a connection only later, the
 * revoke or the stop waits for that.  An idle connection causes no wake-ups, and a peer
 * that has disappeared is noticed by the next job.
 *
 * Reads and writes are done when the peer's memory has them (delivery-complete).
 * libfabric does not say which of several operations has failed: if one fails, the
 * connection ends, all jobs of which something was in flight end with -ECONNRESET, and
 * the others go on over a new one.  .code of weir_op_get_detail() has libfabric's
 * own error.  A job ends with
 *
 *	-ECONNREFUSED  no process listens there: the exporter has ended
 *	-ESTALE        the exporter has taken the memory back, or the import was
 *	               destroyed
 *	-ETIMEDOUT     no answer, see struct weir_fabric_opts
 *	-ECONNRESET    the connection has ended: the peer has, or it has taken the
 *	               memory back, or has refused an operation; or the import was
 *	               destroyed, with the job not posted yet
 *
 * weir_job_start() also refuses a job if there is no memory or descriptor for a
 * connection, or libfabric refuses one at once: with its errno, and weir_why().
 *
 * A cancel and a deadline stop what has not been posted.  libfabric cannot take back
 * what has been: the job ends when that has, and if it has not in .grace_ns, the
 * connection is closed.
 *
 * A peer that has a descriptor can do what it grants: its key is random, and the
 * connection shows a secret of 128 bits.  Nothing is encrypted, so both can be seen on
 * the network.  Importers that show each other their descriptors must trust each
 * other: a key works on any connection of the exporter's reactor.
 *
 * Connected endpoints (FI_EP_MSG) are used, of providers that need no registration of
 * memory on the importer's side: that is tcp.  The others are listed with the reason.
 * RDMA devices are libweir-rdma's.
 *
 * Jobs are copies between memory of this process and an import; other kinds, files
 * and other peers go through staging.  There is no engine in a simulated world, unless
 * WEIR_FABRIC_LIBRARY names a library that is made for that: it has a symbol
 * weir_sim_fabric, and does nothing but on the world's thread.
 *
 * libfabric is loaded when devices are first listed.  WEIR_FABRIC_LIBRARY names another
 * file than libfabric.so.1.  A library that it loads installs handlers of signals; those
 * that the program had are restored.
 *
 * The calls are in libweir-fabric.
 */

#include <weir/device.h>
#include <weir/domain.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of the domain of an import, and of the devices. */
#define WEIR_DOMAIN_FABRIC (WEIR_DOMAIN_USER + 0x6662)
#define WEIR_DEVICE_FABRIC (WEIR_DEVICE_USER + 0x6662)

/*
 * Register the devices with weir_device_list(), and the engine "fabric" with DMA
 * contexts that are created from now on.
 *
 * Loading libweir-fabric does that too.  Call this function in a program that makes no
 * other call of libweir-fabric, so that the linker keeps the library.  A second call
 * has no effect.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates fi_prov_ini(), at the first list of devices.
 */
WEIR_API void weir_fabric_init(void);

/*
 * Open the device at @address, an address of this machine as text: "192.0.2.1".  NULL:
 * the first that can be used.
 *
 * Of several providers it is the one that WEIR_FABRIC_PROVIDER names, or else the first.
 *
 * Returns 0 with *@ret set, to be closed by weir_device_close(), or
 *   -EINVAL  @ret is NULL
 *   -ENOENT  no device has that address; weir_why() says which there are
 *   -EMFILE, -ENOMEM, -EDEADLK  see weir_device_open()
 *
 * Any thread.  The first call may take half a second.
 *
 * Re-creates fi_getinfo() with FI_SOURCE.
 */
WEIR_API int weir_fabric_open(struct weir_device **ret, const char *address);

/*
 * Options of a device; weir_fabric_set_opts().  Set .size to the size of the struct;
 * 0 is the default of every other member.  At least 1 ms; WEIR_FOREVER: no limit.
 */
struct weir_fabric_opts {
	size_t size;
	uint64_t connect_ns;	/* Until a peer has answered; default 5 s. */
	uint64_t stall_ns;	/* Jobs are in flight, and nothing of them has
				 * ended; default 30 s. */
	uint64_t grace_ns;	/* A job was cancelled, and has not ended;
				 * default 1 s. */
};

/*
 * Set the options of @dev, of connections that are made or used from now on.
 *
 * Returns 0, or, with nothing changed:
 *   -EINVAL  @dev is not a device of this library; @opts is NULL or its .size not
 *            set; or an option is below 1 ms
 *   -E2BIG   @opts sets a member that this version does not have
 *
 * Any thread.  Never blocks.
 *
 * Re-creates nothing of libfabric, whose operations have no deadline.
 */
WEIR_API int weir_fabric_set_opts(struct weir_device *dev,
				  const struct weir_fabric_opts *opts);

/* Counters of a device; weir_fabric_stats(). */
struct weir_fabric_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t connects;	/* Connections that were made to exporters, */
	uint64_t refused;	/* that could not be made, */
	uint64_t lost;		/* and that have ended without our asking. */
	uint64_t accepted;	/* Connections of importers. */
	uint32_t links;		/* Of the first, those there are now. */
	uint32_t conns;		/* Of the last, likewise. */
};

/*
 * Get the counters of @dev.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  @dev is not a device of this library, or .size is smaller than the
 *            member itself
 *
 * Any thread.  Never blocks.
 *
 * Re-creates nothing: fi_cntr_read() counts operations.
 */
WEIR_API int weir_fabric_stats(const struct weir_device *dev,
			       struct weir_fabric_stats *ret);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_FABRIC_DEVICE_H */
