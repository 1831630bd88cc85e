/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_PROVIDER_H
#define WEIR_PROVIDER_H

/*
 * Providers: devices of a program's own, or of a library that is not weir's.
 *
 * A provider is one table of functions, which is registered once.  From then on
 * its devices are like the library's:
 *
 *   - weir_device_list() lists them with their capabilities, and
 *     weir_device_open() opens them; weir info --provider=FILE shows them
 *   - weir_mmap_add_device() and weir_mmap_keys() register memory with them
 *   - weir_mmap_export_device() and weir_mmap_import_device() give their peers
 *     access to memory, in the library's descriptor
 *   - each DMA context that is created has the provider's engine
 *
 *	static const struct weir_provider_ops ops = {
 *		.size = sizeof(ops), .name = "acme",
 *		.list = acme_list, .open = acme_open, .close = acme_close,
 *	};
 *
 *	err = weir_provider_register(&acme, &ops, NULL);
 *
 * The table has no words for what other headers have.  The memory on a device is
 * a domain with bounds, rights, a place, moves, translation and a cancel:
 * <weir/domain-user.h>.  What executes jobs is an engine: <weir/engine.h>.  A
 * device tells its completions to a reactor by a poll hook (<weir/poll-hook.h>),
 * a descriptor (<weir/watch.h>) or a notification (<weir/object.h>).  Its calls
 * are operations by weir_op_begin() (<weir/op.h>), and leave their error message
 * by weir_why_set() (<weir/base.h>).
 *
 * All functions return 0 or a negative errno and leave their outputs as they
 * were when they fail, and must not block for long.  What each may call:
 *
 *   - .list(), .open() and .close() run on the thread of the call that needs
 *     them, one at a time in the process.  Inside them weir_device_list(),
 *     weir_device_open(), weir_device_open_name(), weir_device_close(),
 *     weir_provider_register() and weir_provider_unregister() return -EDEADLK;
 *     all other functions may be called.
 *   - .mem_register(), .mem_deregister() and .unbind() run on the thread of the
 *     call that needs them, or in a turn of the reactor of an operation that
 *     waits for .mem_deregister(), one at a time for each mmap.  They get a range
 *     and not the mmap, and must not call functions of the mmap that has the
 *     range.
 *   - The others run on the thread of the call that needs them, and may call
 *     any public function.
 *
 * The tutorial is docs/tutorial-card.md, and its card examples/card.c.
 *
 * Re-creates fi_provider of libfabric, the drivers of rte_dmadev, and the
 * modules of SPDK, in one table.
 */

#include <sys/uio.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_buf;
struct weir_device;
struct weir_device_caps;
struct weir_dm;
struct weir_dm_token;
struct weir_domain;
struct weir_engine_ops;
struct weir_export_desc;
struct weir_job;
struct weir_mmap;
struct weir_provider;
struct weir_provider_list;
struct weir_reactor;

/* Providers that a process can have, those that were unregistered not counted. */
#define WEIR_PROVIDERS_MAX 8

/* Bytes that the name of a provider may have, without the NUL. */
#define WEIR_PROVIDER_NAME_MAX 31

/* Bytes of its own that a provider may put into a descriptor. */
#define WEIR_PROVIDER_DESC_MAX 256

/* weir_provider_range.kind */
#define WEIR_PROVIDER_RANGE_MEM 1	/* Memory of this process, .addr. */
#define WEIR_PROVIDER_RANGE_DMABUF 2	/* A dma-buf, .fd and .off. */
#define WEIR_PROVIDER_RANGE_DOMAIN 3	/* .addr of .domain, see
					 * weir_mmap_set_domain(). */
#define WEIR_PROVIDER_RANGE_DM 4	/* Device memory, .dm from .off on. */

/* weir_provider_range.flags */
#define WEIR_PROVIDER_RANGE_MW 1u	/* Memory windows may be bound to it. */

/* Memory that is to be registered with a device. */
struct weir_provider_range {
	size_t size;		/* Of the struct, as the library knows it. */
	uint32_t kind;		/* WEIR_PROVIDER_RANGE_ */
	uint32_t permissions;	/* WEIR_MMAP_; _PEER_READ and _PEER_WRITE only
				 * if it is an export. */
	void *addr;		/* NULL: it has no address in this process. */
	uint64_t len;
	uint64_t off;		/* Where it begins in .fd or .dm. */
	int32_t fd;		/* The mmap's; -1: none. */
	uint32_t flags;		/* WEIR_PROVIDER_RANGE_MW */
	struct weir_domain *domain; /* Of a range of that kind, or NULL. */
	struct weir_dm *dm;	/* Of a range of that kind, or NULL. */
};

/*
 * A registration: the keys by which the device and its peers name the memory,
 * which weir_mmap_keys() returns, and a pointer of the provider's own.
 */
struct weir_provider_key {
	void *data;
	uint32_t lkey;
	uint32_t rkey;
};

/*
 * What a descriptor says of exported memory.  .describe() and weir_describe_fn
 * fill in the bytes, and may change .addr; .import() and weir_provider_read_desc()
 * read them.
 */
struct weir_provider_desc {
	size_t size;		/* Of the struct, as the library knows it. */
	uint64_t addr;		/* Of the first byte, as importers name it. */
	uint64_t len;
	uint32_t permissions;	/* .describe(), .import(): WEIR_MMAP_PEER_READ,
				 * _WRITE.  weir_describe_fn:
				 * WEIR_MMAP_RDMA_.  What an importer may do:
				 * WEIR_MMAP_READ, _WRITE, _RDMA_ATOMIC. */
	uint32_t n_bytes;	/* Of .bytes. */
	uint8_t bytes[WEIR_PROVIDER_DESC_MAX];
	struct weir_reactor *reactor;	/* .describe(): of the lease, on its
					 * thread; NULL: it is no lease. */
};

/*
 * What .import() has made of a descriptor.  The library sets .addr to that of
 * the descriptor before the call.
 */
struct weir_provider_import {
	struct weir_domain *domain;	/* Where the memory is reached; it has
					 * to include the range. */
	uint64_t addr;		/* Of the first byte in .domain. */
	void *data;		/* The provider's own. */
};

/* Device memory that a provider has allocated. */
struct weir_provider_dm {
	void *data;		/* The provider's own: weir_provider_dm_data(). */
	int copies;		/* .copy_to() and .copy_from() can copy it. */
};

/*
 * The functions of a provider for device memory, <weir/dm.h>, whose calls say what
 * each is to do and has to return: the library has checked all that is the same
 * for all devices.  They run on the thread of that call.  .release() must not call
 * functions of <weir/dm.h>.  Set .size to the size of the struct.
 */
struct weir_provider_dm_ops {
	size_t size;

	/* For WEIR_DEVICE_CAP_DM. */
	int (*alloc)(void *card, size_t len, uint32_t log_align,
		     struct weir_provider_dm *ret);

	/* End what .alloc() has made, or, with @imported, .import(). */
	int (*release)(void *card, void *data, int imported);

	/* Whole words of 4 bytes; both or none. */
	int (*copy_to)(void *data, uint64_t off, const void *src, size_t len);
	int (*copy_from)(void *dst, void *data, uint64_t off, size_t len);

	/* For WEIR_DEVICE_CAP_DM_IMPORT; .get_token() sets .handle or .fd.
	 * Both or none. */
	int (*get_token)(void *data, struct weir_dm_token *token);
	int (*import)(void *card, const struct weir_dm_token *token,
		      struct weir_provider_dm *ret);

	/* For WEIR_DEVICE_CAP_DM_DMABUF: a descriptor, or a negative errno. */
	int (*dmabuf_fd)(void *data);
};

/*
 * The functions of a provider.  Set .size to the size of the struct, and leave
 * what it does not have at NULL.
 *
 * @arg is what weir_provider_register() got.  @card is what .open() has given
 * for a device; without .open() it is @arg.
 */
struct weir_provider_ops {
	size_t size;
	const char *name;	/* 1 to WEIR_PROVIDER_NAME_MAX bytes, copied.
				 * Descriptors have it too: another process
				 * finds its provider by it. */

	/* Name all devices that there are now, by weir_provider_list_add().
	 * If it fails, the call that lists fails with its errno. */
	int (*list)(void *arg, struct weir_provider_list *list);

	/* The first open of @dev, and its last close.  .open() may set *@card;
	 * weir_device_info() of @dev says which device it is. */
	int (*open)(void *arg, struct weir_device *dev, void **card);
	void (*close)(void *card);

	/*
	 * Register memory of an mmap, when its keys are needed first, or an
	 * export or a lease of it.  .mem_deregister() ends that: when it has
	 * returned 0, no device or peer reads or writes the memory by @key any
	 * more.  Both or none.
	 *
	 * -EINPROGRESS, for an export or a lease: nothing new begins, but a
	 * peer still uses the memory.  It is called again until it returns 0,
	 * and does not wait itself; a revoke, drain or stop with an operation
	 * ends only then.  Name the peer by weir_why_set(), as "process 12".
	 *
	 * If it fails otherwise, the stop of the mmap fails with its errno, and
	 * a lease asks again until it returns 0.
	 */
	int (*mem_register)(void *card, const struct weir_provider_range *range,
			    struct weir_provider_key *ret);
	int (*mem_deregister)(void *card, const struct weir_provider_key *key);

	/* Describe memory that is registered as @key for importers: put what
	 * they need into @desc.  For WEIR_DEVICE_CAP_EXPORT. */
	int (*describe)(void *card, const struct weir_provider_key *key,
			struct weir_provider_desc *desc);

	/*
	 * Give access to what another process has exported.  The library has
	 * checked the descriptor's CRC, MAC and time, and that it is of a
	 * provider of this name; its sender may be hostile all the same.
	 * .import_end() is called once when the mmap is destroyed.  For
	 * WEIR_DEVICE_CAP_IMPORT; both or none.
	 */
	int (*import)(void *card, const struct weir_provider_desc *desc,
		      struct weir_provider_import *ret);
	void (*import_end)(void *card, const struct weir_provider_import *import);

	/*
	 * An engine that each DMA context has that is created from now on.  It
	 * is copied, but its .name must stay valid.  Contexts ask it before
	 * those of weir_dma_add_engine() and before the library's.  Set
	 * WEIR_ENGINE_FOREIGN if it does nothing in memory of this process:
	 * small copies there do not become slower by it then.
	 *
	 * .engine_open() is called on @r when a context is created there, and
	 * may set what the functions of the engine get, which is @arg otherwise.
	 * -ENODEV means that this context has no such engine, and another errno
	 * fails weir_dma_create().  .engine_close() is called when the context
	 * is destroyed.
	 */
	const struct weir_engine_ops *engine;
	int (*engine_open)(void *arg, struct weir_reactor *r,
			   void **engine_arg);
	void (*engine_close)(void *engine_arg);

	/* Device memory.  It is copied. */
	const struct weir_provider_dm_ops *dm;

	/*
	 * End what weir_mmap_bind() has put into *@slot.  A stop, a revoke and
	 * the end of the mmap call it before they deregister all of the mmap,
	 * unless *@slot is NULL, and set that to NULL.  If it fails, so does
	 * that call, with its errno, and asks again the next time.  In a forked
	 * child they fail without a call.
	 */
	int (*unbind)(void *card, void **slot);
};

/*
 * Register a provider.
 *
 * The library copies @ops and .name.  Lists of devices that are made from now on
 * have those of this provider, behind the library's, and contexts that are
 * created from now on have its engine.
 *
 * Returns 0 with *@ret set, to be given to weir_provider_unregister() or kept
 * until the process ends, or
 *   -EINVAL   an argument is NULL; .name is NULL, empty or too long; .list is
 *             NULL; one function of a pair is set without the other; .describe
 *             is set without .mem_register; .dm has no .alloc or .release; or
 *             .engine has no .name, .can or .start, or unknown .flags
 *   -E2BIG    @ops, .dm or .engine sets a member that this version does not have
 *   -EEXIST   there is a provider of that name, or one with an engine of that
 *             name
 *   -ENOSPC   there are WEIR_PROVIDERS_MAX providers
 *   -EDEADLK  called by a provider's .list(), .open() or .close()
 *   -ENOMEM   no memory
 *
 * Any thread.  Takes a lock.
 *
 * Re-creates fi_prov_ini() and SPDK_ACCEL_MODULE_REGISTER().
 */
WEIR_API int weir_provider_register(struct weir_provider **ret,
				    const struct weir_provider_ops *ops,
				    void *arg);

/*
 * Unregister @provider.  When the call has returned 0, no function of it is
 * called any more.  Entries in lists of devices stay valid, but opening one
 * returns -ENODEV.  NULL is allowed.
 *
 * Returns 0, or, with nothing changed:
 *   -EBUSY    a device of it is open, or a DMA context has its engine
 *   -EDEADLK  called by a provider's .list(), .open() or .close()
 *
 * Any thread, one at a time for each provider.  Takes a lock.
 *
 * Re-creates fi_provider.cleanup.
 */
WEIR_API int weir_provider_unregister(struct weir_provider *provider);

/*
 * Name a device: copy @caps to the list that .list() is to fill.
 *
 * .size and .name are set, and .kind is WEIR_DEVICE_USER or more; .flags has
 * WEIR_DEVICE_USABLE, or .why the reason and what would change it.  .align is 1
 * if it is 0.
 *
 * Returns 0, or
 *   -EINVAL  .size is too small; .name is empty or does not end; .kind is the
 *            library's; the device is not usable and .why is empty; or .caps
 *            has what the provider has no function for
 *   -E2BIG   @caps sets a member that this version does not have
 *   -EEXIST  there is a device of that name
 *   -ENOMEM  no memory
 *
 * Call on the thread of .list(), inside it.
 *
 * Re-creates rte_dma_pmd_allocate().
 */
WEIR_API int weir_provider_list_add(struct weir_provider_list *list,
				    const struct weir_device_caps *caps);

/*
 * Tell whether @list is to have the device @name: where the caller wants one
 * device, a provider need not ask the others what they can do.
 *
 * Returns 1 or 0.  Call on the thread of .list(), inside it.
 *
 * Re-creates the allow-list of rte_bus.
 */
WEIR_API int weir_provider_list_wants(const struct weir_provider_list *list,
				      const char *name);

/*
 * Get what .open() of @provider has given for @dev: what a function needs that
 * takes a device of this provider.
 *
 * Returns it, or NULL if @dev is not a device of @provider.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates fp_obj and dev_private of rte_dma_dev.
 */
WEIR_API void *weir_provider_card(const struct weir_provider *provider,
				  const struct weir_device *dev);

/*
 * Get what .alloc() or .import() of the provider has given for @dm, which is on a
 * device of that provider.
 *
 * Returns it.  Any thread.  Never blocks.
 *
 * Re-creates the driver's struct around ibv_dm.
 */
WEIR_API void *weir_provider_dm_data(const struct weir_dm *dm);

/* What a function of weir_mmap_bind() gets. */
struct weir_provider_binding {
	size_t size;		/* Of the struct, as the library knows it. */
	void **slot;		/* The provider's, for this mmap and device; NULL
				 * at first. */
	int registered;		/* Whether all of the mmap is registered, see
				 * weir_mmap_keys(). */
	struct weir_provider_key key;	/* Of that registration. */
};

/*
 * Called by weir_mmap_bind().  Returns 0, or the negative errno that that call is to
 * return.
 */
typedef int weir_mmap_bind_fn(void *arg,
			      const struct weir_provider_binding *binding);

/*
 * Bind something of a provider's to the memory of @mmap on @dev: memory windows,
 * say, which have to end before the memory does.
 *
 * @dev is a device of the caller's.  @fn is called inside this call, while @mmap is
 * not stopped, and no function of @mmap may be called in it but weir_mmap_part().
 * It puts what it has made into *binding->slot, which .unbind() of the provider
 * gets, also if @fn fails.  The library reads the slot under a lock of the mmap, and
 * .unbind() has to see under one of the provider what other threads have done.
 *
 * Returns what @fn returns, or
 *   -EBADFD      @mmap is not started, or is an import that was revoked
 *   -ENOENT      @dev is none of its devices
 *   -EOPNOTSUPP  the provider of @dev has no .unbind
 *
 * Any thread.  Takes a lock.
 *
 * Re-creates the list of memory windows of an ibv_mr.
 */
WEIR_API int weir_mmap_bind(struct weir_mmap *mmap, struct weir_device *dev,
			    weir_mmap_bind_fn *fn, void *arg);

/*
 * Get the range of @len bytes of @mmap from @off on, for peers with @permissions,
 * as .mem_register() gets it.  What peers may change, the device may.
 *
 * The caller sets .size of *@ret, and the part is within the mmap.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *   -EPERM   @mmap is an import
 *
 * Any thread, while @mmap is started.  Never blocks.
 *
 * Re-creates the address and length of ibv_mw_bind_info.
 */
WEIR_API int weir_mmap_part(const struct weir_mmap *mmap, uint64_t off,
			    uint64_t len, uint32_t permissions,
			    struct weir_provider_range *ret);

/* Bytes that a descriptor has at most. */
#define WEIR_DESCRIPTOR_MAX 1024

/* weir_describe_opts.flags */
#define WEIR_DESCRIBE_REGISTER 1u	/* Register the part for peers. */

/*
 * Options of weir_mmap_describe().  Set .size to the size of the struct and leave
 * what you do not care about at 0.
 */
struct weir_describe_opts {
	size_t size;
	uint32_t flags;		/* WEIR_DESCRIBE_ */
	uint32_t permissions;	/* WEIR_MMAP_RDMA_; 0: all of the mmap's. */
	uint64_t off;		/* Where in the range it begins. */
	uint64_t len;		/* 0: up to the end of the range. */
	uint64_t not_after;	/* Seconds of the epoch; 0: no end. */
	const void *key;	/* NULL: no MAC.  Copied, not kept. */
	size_t key_len;		/* 16 to 64 bytes. */
	void *bytes;		/* WEIR_DESCRIPTOR_MAX of the caller's, for the
				 * descriptor; NULL: the mmap keeps it. */
};

/*
 * Called by weir_mmap_describe().  @key is the registration of the part, with
 * WEIR_DESCRIBE_REGISTER; else it is empty.  .len and .permissions of @desc are those
 * of the part, and .addr is its address in this process.  The function sets .addr to
 * what peers name it by, and .bytes and .n_bytes.  Returns 0, or the negative errno
 * that that call is to return.
 */
typedef int weir_describe_fn(void *arg, const struct weir_provider_key *key,
			     struct weir_provider_desc *desc);

/*
 * Describe a part of @mmap to peers of @device, a device of @provider: make the
 * descriptor of an export whose bytes @fn writes.  weir_mmap_export_device() does that
 * for all of an mmap, by .describe(); this is for parts with rights of their own, and
 * for keys of the caller's.  A provider that has both tells them apart by its bytes.
 *
 * The arguments are checked before anything is registered and before @fn is called,
 * once, inside this call.  A registration lasts until a stop or revoke of the mmap,
 * also if the call fails after it.  The same part with the same rights is registered
 * once.  A descriptor that the mmap keeps lives until a stop or revoke, too.
 *
 * Returns 0 with *@ret set, or:
 *   -EINVAL      unknown .flags or .permissions, a key of a wrong length, or .size
 *                of @ret or @opts is too small
 *   -EPERM       @mmap is imported
 *   -EBADFD      @mmap is not started, or @fn has stopped it
 *   -ENOENT      @device is none of its devices
 *   -EOPNOTSUPP  @device is none of @provider, or that has no .mem_register; or a
 *                key, and no libsodium
 *   -EACCES      the mmap has none of WEIR_MMAP_RDMA_, or not what is asked for
 *   -ERANGE      .off and .len are not within the range
 *   -E2BIG       @opts asks for what this version does not know
 *   -EAGAIN      the mmap keeps 256 descriptors already
 *   -EIO         what @fn has written does not fit into a descriptor, it returns
 *                what is no errno, or there are no random numbers
 *   -ENOMEM, ... it cannot be registered, see weir_mmap_keys(), or what @fn returns
 *
 * The owner's thread.  Registering takes time for each page.
 *
 * Re-creates ucp_rkey_pack().
 */
WEIR_API int weir_mmap_describe(const struct weir_provider *provider,
				struct weir_mmap *mmap,
				struct weir_device *device,
				const struct weir_describe_opts *opts,
				weir_describe_fn *fn, void *arg,
				struct weir_export_desc *ret);

/*
 * Read the @len bytes at @bytes, which may be hostile, as the descriptor of an export
 * by a device of @provider, made with the key for its MAC at @key, or, with NULL,
 * without one.  The caller sets .size of *@ret; .permissions are what an importer may
 * do.  What its bytes say is for the caller to check.
 *
 * Returns 0, or, with *@ret as it was:
 *   -EBADMSG          the bytes are not a descriptor
 *   -EPROTONOSUPPORT  made by a version that says what we do not know
 *   -EKEYREJECTED     the MAC is wrong, missing, or there for no key
 *   -EKEYEXPIRED      it is after the end
 *   -EOPNOTSUPP       it is not by a device of @provider; or a key, and no
 *                     libsodium
 *   -EINVAL           @bytes is NULL, a key of a wrong length, or .size is too small
 *
 * Any thread.
 *
 * Re-creates ucp_ep_rkey_unpack().
 */
WEIR_API int weir_provider_read_desc(const struct weir_provider *provider,
				     const void *bytes, size_t len,
				     const void *key, size_t key_len,
				     struct weir_provider_desc *ret);

/*
 * Make an import of what weir_provider_read_desc() has read: an mmap with its range
 * and permissions in @domain, where the peer's memory is reached.  The caller may
 * have taken permissions away.  @rkey is its key for struct weir_remote_key, by which
 * weir_sync_remote_open() reaches it, and 0 if it has none.
 *
 * The library copies @desc.  weir_job_keys() and weir_buf_key() give that copy as .data
 * for bufs of the mmap, for each device of @provider, if that registers or imports
 * memory.
 *
 * Returns 0 with *@ret set, to be freed by weir_mmap_destroy(), or
 *   -EINVAL  @domain is memory of this process, .permissions has none or unknown
 *            ones, .n_bytes is too large, or .size of @desc too small
 *   -ERANGE  @domain does not have all of the range
 *   -E2BIG   @desc sets a member that this version does not have
 *   -ENOMEM  no memory
 *
 * Any thread.
 *
 * Re-creates the memory handle of ucp_ep_rkey_unpack().
 */
WEIR_API int weir_mmap_import_desc(struct weir_mmap **ret,
				   struct weir_provider *provider,
				   struct weir_domain *domain,
				   const struct weir_provider_desc *desc,
				   uint32_t rkey, void *user_data);

/*
 * Get what @mmap was imported from by weir_mmap_import_desc() of @provider.
 *
 * Returns it, or NULL if it was not.  Any thread, while @mmap exists.  Never blocks.
 *
 * Re-creates ucp_rkey_h.
 */
WEIR_API const struct weir_provider_desc *
weir_mmap_desc(const struct weir_mmap *mmap,
	       const struct weir_provider *provider);

/*
 * The device of @dev was removed or reset: the next weir_device_open() of that
 * name makes another instance.  @dev stays open until its users close it; the
 * provider fails their jobs.  If @dev was closed meanwhile, the call has no effect.
 *
 * Returns 0, or
 *   -EPERM    @dev is one that is always there: cpu, say
 *   -EDEADLK  called by a provider's .list(), .open() or .close()
 *
 * Any thread.  Takes a lock.
 *
 * Re-creates IBV_EVENT_DEVICE_FATAL and RTE_DEV_EVENT_REMOVE.
 */
WEIR_API int weir_provider_lost(struct weir_device *dev);

/*
 * The exporter of @mmap, an import of .import() or weir_mmap_import_desc(), takes
 * its access back:
 * jobs with bufs of it that start from now on are refused with -ESTALE.
 *
 * Returns 0, or
 *   -EPERM  @mmap is no such import
 *
 * Any thread, while @mmap exists.  Never blocks.
 *
 * Re-creates nothing: with verbs, an importer learns of it by an error of its
 * next access.
 */
WEIR_API int weir_provider_revoked(struct weir_mmap *mmap);

/*
 * Get at most @n pieces of a side of @job, from @skip bytes after its beginning,
 * as weir_job_pieces() does, and what @dev has for each:
 *
 *   - of a buf of an mmap with @dev, and of staging, its registration: .data and
 *     .lkey
 *   - of a buf of what @dev has imported, the .data that .import() has given, or
 *     the descriptor of weir_mmap_import_desc()
 *
 * Staging is registered with @dev when a context needs that first.  The library
 * keeps it registered, and @dev open, until the context is destroyed.  .rkey is 0.
 *
 * Other pieces have none.  An engine that needs one for each piece has such a
 * job done through staging, see weir_job_stage(), or refuses it in .start().
 * @iov may be NULL.
 *
 * Returns the number of keys, or
 *   -ENOENT      a piece is no buf, or its mmap does not have @dev
 *   -EPERM       @dev registers and imports no memory
 *   -EOPNOTSUPP, -ENOMEM, ...  see weir_mmap_keys(), for the first job with
 *                bufs of an mmap
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end().
 * Blocks only where a registration is made, see weir_mmap_keys().
 *
 * Re-creates the lkey that spdk_rdma_utils_get_translation() returns.
 */
WEIR_API int weir_job_keys(const struct weir_job *job, int side, uint64_t skip,
			   struct weir_device *dev, struct iovec *iov,
			   struct weir_provider_key *keys, uint32_t n);

/*
 * Get what @dev has for the memory of @buf, as weir_job_keys() does.
 *
 * Returns 0, or what weir_job_keys() returns.
 *
 * Any thread, while @buf is out; fast on the thread of its owner.  Blocks only
 * where a registration is made, see weir_mmap_keys().
 *
 * Re-creates rte_mbuf's lkey of the drivers of DPDK, mlx5_tx_mb2mr().
 */
WEIR_API int weir_buf_key(const struct weir_buf *buf, struct weir_device *dev,
			  struct weir_provider_key *ret);

/*
 * Hold list @head as the source of what a device is about to read, as
 * weir_job_start() holds that of a job: until weir_buf_release() its bufs are not
 * given back, chained or written to.
 *
 * @r is the reactor of the device.  If the list is on another reactor, its owner
 * sees to that itself.  An exporter's revocation does not wait for the release.
 *
 * Returns the number of data bytes, with the number of bufs in *@n, or the errno
 * with which weir_job_start() refuses such a source:
 *   -EPERM  @head is not the first of its list
 *   ...     and the others that weir_job_start() has for bufs
 *
 * Call on @r's thread.  Never blocks, never allocates.
 *
 * Re-creates the reference that rte_eth_tx_burst() takes to an mbuf.
 */
WEIR_API int64_t weir_buf_hold(struct weir_buf *head, struct weir_reactor *r,
			       uint32_t *n);

/*
 * Release list @head, which weir_buf_hold() holds for @r.
 *
 * Call on @r's thread.  Never blocks.
 *
 * Re-creates rte_pktmbuf_free() by a driver that has sent it.
 */
WEIR_API void weir_buf_release(struct weir_buf *head, struct weir_reactor *r);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_PROVIDER_H */
