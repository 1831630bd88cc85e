/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Providers, of a user's or a library above: a table of public functions, put into
 * the places where the library's own devices and engines are.  mem/device.c sees a class of
 * devices with an owner, and a context one more engine.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/provider.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/job-internal.h"
#include "mem/dm-internal.h"
#include "mem/export/internal.h"

#define REGISTER "weir_provider_register"

#define CAPS_ALL (2 * WEIR_DEVICE_CAP_DOMAIN - 1) /* That is the last. */

_Static_assert(N_SHIPPED + WEIR_PROVIDERS_MAX < WEIR_ENGINES_MAX,
	       "there is capacity for the engines of all, and a user's");
_Static_assert(sizeof(struct weir_provider_key) == sizeof(struct device_mr),
	       "the same members");

/* Guards the table.  No function of the user's is called under it, and the lock of
 * devices is not taken: a .list(), which runs under that, may make a context. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_provider *providers[WEIR_PROVIDERS_MAX];

/* What .list() is given. */
struct weir_provider_list {
	const struct weir_provider *provider;
	struct device_list *list;
};

static struct weir_provider *provider_of(const struct weir_device *dev)
{
	return weir_container_of(dev->info.cls, struct weir_provider, cls);
}

/* What a function of the user's has returned, which was called at @since: with a
 * message, if it has left none itself. */
static int result_of(int err, unsigned int since, const char *call,
		     const char *who, const char *fn)
{
	if (!err)
		return 0;
	if (err < 0 && why_is_new(since))
		return (int)sane_result(err);
	err = err < 0 ? (int)sane_result(err) : -EIO;
	return why(err, "%s: %s%s: %s", call, who, fn, strerror(-err));
}

/* A class of devices. */

static int list_devices(const struct device_class *cls,
			struct device_list *list)
{
	const struct weir_provider *p =
		weir_container_of(cls, struct weir_provider, cls);
	struct weir_provider_list own = { .provider = p, .list = list };
	unsigned int since = why_begin();

	return result_of(p->ops.list(p->arg, &own), since, "weir_device_list",
			 p->owner.name, "'s .list()");
}

static int open_device(struct weir_device *dev)
{
	const struct weir_provider *p = provider_of(dev);
	unsigned int since = why_begin();

	dev->priv = p->arg;
	return p->ops.open ? result_of(p->ops.open(p->arg, dev, &dev->priv),
				       since, "weir_device_open",
				       device_name(dev), "") : 0;
}

static void close_device(struct weir_device *dev)
{
	const struct weir_provider *p = provider_of(dev);

	if (p->ops.close)
		p->ops.close(dev->priv);
}

static void range_of(struct weir_provider_range *own,
		     const struct device_range *range)
{
	static const uint32_t kinds[] = {
		[DEVICE_RANGE_MEM] = WEIR_PROVIDER_RANGE_MEM,
		[DEVICE_RANGE_DMABUF] = WEIR_PROVIDER_RANGE_DMABUF,
		[DEVICE_RANGE_DM] = WEIR_PROVIDER_RANGE_DM,
		[DEVICE_RANGE_DOMAIN] = WEIR_PROVIDER_RANGE_DOMAIN,
	};
	bool has_off = range->kind == DEVICE_RANGE_DMABUF ||
		       range->kind == DEVICE_RANGE_DM;

	*own = (struct weir_provider_range){
		.size = sizeof(*own),
		.kind = kinds[range->kind],
		.permissions = range->permissions,
		.addr = range->addr,
		.len = range->len,
		.off = has_off ? range->off : 0,
		.fd = range->fd,
		.flags = range->windows ? WEIR_PROVIDER_RANGE_MW : 0,
		.domain = range->domain,
		.dm = range->dm,
	};
}

static int register_mem(struct weir_device *dev,
			const struct device_range *range, struct device_mr *ret)
{
	struct weir_provider_key key = { NULL, 0, 0 };
	struct weir_provider_range own;
	unsigned int since = why_begin();
	int err;

	range_of(&own, range);
	err = provider_of(dev)->ops.mem_register(dev->priv, &own, &key);
	if (!err)
		*ret = (struct device_mr){ key.data, key.lkey, key.rkey };
	return result_of(err, since, "weir_mmap_keys", device_name(dev),
			 " does not register the memory");
}

static int deregister_mem(struct weir_device *dev, const struct device_mr *mr)
{
	const struct weir_provider_key key = { mr->priv, mr->lkey, mr->rkey };
	unsigned int since = why_begin();
	int err = provider_of(dev)->ops.mem_deregister(dev->priv, &key);

	if (err == -EINPROGRESS && !why_is_new(since))
		return why(err, "device %s", device_name(dev));
	return result_of(err, since, "weir_mmap_stop", device_name(dev),
			 " keeps its registration");
}

static int unbind(struct weir_device *dev, void **slot)
{
	unsigned int since = why_begin();
	int err = provider_of(dev)->ops.unbind(dev->priv, slot);

	if (!err)
		*slot = NULL;
	/* A stop would wait for peers, and not ask again. */
	return result_of(err == -EINPROGRESS ? -EBUSY : err, since,
			 "weir_mmap_stop", device_name(dev),
			 " keeps what is bound to the memory");
}

int weir_mmap_bind(struct weir_mmap *mmap, struct weir_device *dev,
		   weir_mmap_bind_fn *fn, void *arg)
{
	struct weir_provider_binding binding = { .size = sizeof(binding) };
	struct mmap_device *md;
	int err;

	pthread_mutex_lock(&mmap->lock);
	md = *mmap_find_device(mmap, dev);
	if (mmap_may_take(mmap)) {
		err = why(-EBADFD, "weir_mmap_bind: the mmap is not started");
	} else if (!md) {
		err = why(-ENOENT, "weir_mmap_bind: device %s is none of the "
			  "mmap's; see weir_mmap_add_device()",
			  device_name(dev));
	} else if (!dev->info.cls->unbind) {
		err = why(-EOPNOTSUPP, "weir_mmap_bind: the provider of device "
			  "%s has no .unbind", device_name(dev));
	} else {
		binding.slot = &md->slot;
		binding.registered = md->registered;
		binding.key = (struct weir_provider_key){
			md->mr.priv, md->mr.lkey, md->mr.rkey };
		err = fn(arg, &binding);
	}
	pthread_mutex_unlock(&mmap->lock);
	return err;
}

int weir_mmap_part(const struct weir_mmap *mmap, uint64_t off, uint64_t len,
		   uint32_t permissions, struct weir_provider_range *ret)
{
	const struct device_range range =
		mmap_range_of_part(mmap, off, len, permissions);
	struct weir_provider_range own;

	if (mmap->import)
		return why(-EPERM, "weir_mmap_part: the mmap is imported, and "
			   "its memory is its exporter's");
	range_of(&own, &range);
	return opts_give(ret, &own, sizeof(own), "weir_mmap_part");
}

/* Device memory. */

static const struct weir_provider_dm_ops *dm_ops_of(const struct weir_dm *dm)
{
	return &provider_of(dm->device)->dm;
}

static int dm_made(struct weir_dm *dm, const struct weir_provider_dm *made,
		   int err, unsigned int since, const char *call)
{
	if (!err) {
		dm->priv = made->data;
		dm->copies = made->copies && dm_ops_of(dm)->copy_to;
	}
	return result_of(err, since, call, device_name(dm->device),
			 " gives no memory");
}

static int dm_alloc(struct weir_dm *dm, uint32_t log_align)
{
	struct weir_provider_dm made = { NULL, 0 };
	unsigned int since = why_begin();
	int err = dm_ops_of(dm)->alloc(dm->device->priv, dm->len, log_align,
				       &made);

	return dm_made(dm, &made, err, since, "weir_dm_alloc");
}

static int dm_import(struct weir_dm *dm, const struct weir_dm_token *token)
{
	struct weir_provider_dm made = { NULL, 0 };
	unsigned int since = why_begin();
	int err = dm_ops_of(dm)->import(dm->device->priv, token, &made);

	return dm_made(dm, &made, err, since, "weir_dm_import");
}

static int dm_release(struct weir_dm *dm)
{
	unsigned int since = why_begin();

	return result_of(dm_ops_of(dm)->release(dm->device->priv, dm->priv,
						dm->imported),
			 since, "weir_dm_free", device_name(dm->device), "");
}

static int dm_copy_to(struct weir_dm *dm, uint64_t off, const void *src,
		      size_t len)
{
	unsigned int since = why_begin();

	return result_of(dm_ops_of(dm)->copy_to(dm->priv, off, src, len), since,
			 "weir_dm_copy_to", device_name(dm->device), "");
}

static int dm_copy_from(void *dst, struct weir_dm *dm, uint64_t off, size_t len)
{
	unsigned int since = why_begin();

	return result_of(dm_ops_of(dm)->copy_from(dst, dm->priv, off, len),
			 since, "weir_dm_copy_from", device_name(dm->device),
			 "");
}

static int dm_export(struct weir_dm *dm, struct weir_dm_token *token)
{
	unsigned int since = why_begin();

	return result_of(dm_ops_of(dm)->get_token(dm->priv, token), since,
			 "weir_dm_export", device_name(dm->device), "");
}

static int dm_dmabuf_fd(struct weir_dm *dm)
{
	unsigned int since = why_begin();
	int fd = dm_ops_of(dm)->dmabuf_fd(dm->priv);

	return fd >= 0 ? fd : result_of(fd, since, "weir_dm_dmabuf_fd",
					device_name(dm->device), "");
}

static const struct dm_ops dm_ops = {
	.alloc = dm_alloc,
	.import = dm_import,
	.release = dm_release,
	.copy_to = dm_copy_to,
	.copy_from = dm_copy_from,
	.export = dm_export,
	.dmabuf_fd = dm_dmabuf_fd,
};

void *weir_provider_dm_data(const struct weir_dm *dm)
{
	return dm->priv;
}

static int describe(struct weir_device *dev, const struct device_mr *mr,
		    struct weir_provider_desc *desc)
{
	const struct weir_provider_key key = { mr->priv, mr->lkey, mr->rkey };
	unsigned int since = why_begin();

	return result_of(provider_of(dev)->ops.describe(dev->priv, &key, desc),
			 since, "weir_mmap_export_device", device_name(dev),
			 "");
}

static int import(struct weir_device *dev,
		  const struct weir_provider_desc *desc,
		  struct device_import *ret)
{
	struct weir_provider_import given = { .addr = desc->addr };
	unsigned int since = why_begin();
	int err = provider_of(dev)->ops.import(dev->priv, desc, &given);

	if (!err)
		*ret = (struct device_import){ given.domain, given.addr,
					       given.data };
	return result_of(err, since, "weir_mmap_import_device",
			 device_name(dev), "");
}

static void import_end(struct weir_device *dev,
		       const struct device_import *reached)
{
	const struct weir_provider_import own = {
		reached->domain, reached->addr, reached->data,
	};

	provider_of(dev)->ops.import_end(dev->priv, &own);
}

/* Registration. */

static bool one_of_two(bool a, bool b)
{
	return a != b;
}

static int check_engine(const struct weir_engine_ops *ops)
{
	if (ops->flags & ~WEIR_ENGINE_FLAGS)
		return why(-EINVAL, REGISTER ": .engine has unknown .flags");
	return ops->name && ops->can && ops->start ? 0 :
	       why(-EINVAL, REGISTER ": .engine has no .name, .can or .start");
}

static int check_ops(const struct weir_provider_ops *ops)
{
	size_t len = ops->name ? strlen(ops->name) : 0;

	if (!len || len > WEIR_PROVIDER_NAME_MAX || !ops->list)
		return why(-EINVAL, REGISTER ": .list and .name must be set, "
			   "the name with 1 to %d bytes",
			   WEIR_PROVIDER_NAME_MAX);
	if (one_of_two(ops->mem_register, ops->mem_deregister) ||
	    one_of_two(ops->import, ops->import_end) ||
	    (ops->engine_close && !ops->engine_open) ||
	    (ops->engine_open && !ops->engine))
		return why(-EINVAL, REGISTER ": %s has one function of a pair "
			   "without the other", ops->name);
	if (ops->describe && !ops->mem_register)
		return why(-EINVAL, REGISTER ": %s has .describe without "
			   ".mem_register", ops->name);
	return 0;
}

/* Of a provider that has device memory. */
static int check_dm(const struct weir_provider_dm_ops *dm)
{
	return dm->alloc && dm->release &&
	       !one_of_two(dm->copy_to, dm->copy_from) &&
	       !one_of_two(dm->get_token, dm->import) ? 0 :
	       why(-EINVAL, REGISTER ": .dm has no .alloc or .release, or one "
		   "function of a pair without the other");
}

static void free_owner(struct device_owner *owner)
{
	free(weir_container_of(owner, struct weir_provider, owner));
}

static struct weir_provider *make(const struct weir_provider_ops *ops,
				  void *arg)
{
	struct weir_provider *p = mem_calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->ops = *ops;
	strcpy(p->owner.name, ops->name);
	p->ops.name = p->owner.name;
	p->owner.free = free_owner;
	atomic_init(&p->owner.refs, 1);
	p->arg = arg;
	p->cls = (struct device_class){
		.kind = WEIR_DEVICE_USER,
		.owner = &p->owner,
		.list = list_devices,
		.open = open_device,
		.close = close_device,
		.mr_register = ops->mem_register ? register_mem : NULL,
		.mr_deregister = ops->mem_deregister ? deregister_mem : NULL,
		.describe = ops->describe ? describe : NULL,
		.import = ops->import ? import : NULL,
		.import_end = ops->import ? import_end : NULL,
		.dm = ops->dm ? &dm_ops : NULL,
		.unbind = ops->unbind ? unbind : NULL,
	};
	return p;
}

/* Under the lock. */
static int add(struct weir_provider *p)
{
	uint32_t i, place = WEIR_PROVIDERS_MAX;

	for (i = WEIR_PROVIDERS_MAX; i-- > 0;) {
		if (!providers[i])
			place = i;
		else if (!strcmp(providers[i]->owner.name, p->owner.name))
			return why(-EEXIST, REGISTER ": there is a provider %s",
				   p->owner.name);
		else if (providers[i]->ops.engine && p->ops.engine &&
			 !strcmp(providers[i]->engine.name, p->engine.name))
			return why(-EEXIST, REGISTER ": provider %s has an "
				   "engine %s", providers[i]->owner.name,
				   p->engine.name);
	}
	if (place == WEIR_PROVIDERS_MAX)
		return why(-ENOSPC, REGISTER ": a process has at most %d "
			   "providers", WEIR_PROVIDERS_MAX);
	providers[place] = p;
	return 0;
}

int weir_provider_register(struct weir_provider **ret,
			   const struct weir_provider_ops *ops, void *arg)
{
	struct weir_provider_dm_ops dm = { .size = 0 };
	struct weir_engine_ops engine;
	struct weir_provider_ops own;
	struct weir_provider *p;
	int err;

	if (!ret || !ops)
		return why(-EINVAL, REGISTER ": an argument is NULL");
	err = device_refuse_nested(REGISTER);
	if (!err)
		err = opts_load(&own, sizeof(own), ops, REGISTER);
	if (!err)
		err = check_ops(&own);
	if (!err && own.engine)
		err = opts_load(&engine, sizeof(engine), own.engine, REGISTER);
	if (!err && own.engine)
		err = check_engine(&engine);
	if (!err)
		err = opts_load(&dm, sizeof(dm), own.dm, REGISTER);
	if (!err && own.dm)
		err = check_dm(&dm);
	if (err)
		return err;
	p = make(&own, arg);
	if (!p)
		return why(-ENOMEM, REGISTER ": no memory");
	if (own.engine)
		p->engine = engine;
	p->dm = dm;
	pthread_mutex_lock(&lock);
	err = add(p);
	pthread_mutex_unlock(&lock);
	if (err) {
		free(p);
		return err;
	}
	device_class_add(&p->cls);
	*ret = p;
	return 0;
}

int weir_provider_unregister(struct weir_provider *p)
{
	static const char call[] = "weir_provider_unregister";
	uint32_t i = 0;
	int err;

	if (!p)
		return 0;
	err = device_refuse_nested(call);
	if (err)
		return err;
	pthread_mutex_lock(&lock);
	if (p->n_contexts)
		err = why(-EBUSY, "%s: %u DMA contexts have the engine of %s; "
			  "destroy them first", call, p->n_contexts,
			  p->owner.name);
	p->is_leaving = !err;
	pthread_mutex_unlock(&lock);
	if (err)
		return err;
	err = device_class_del(&p->cls, call);
	pthread_mutex_lock(&lock);
	p->is_leaving = false;
	while (!err && providers[i] != p)
		i++;
	if (!err)
		providers[i] = NULL;
	pthread_mutex_unlock(&lock);
	if (!err)
		device_owner_put(&p->owner);
	return err;
}

/* Devices. */

static int check_caps(const struct weir_provider *p,
		      const struct weir_device_caps *caps)
{
	static const char call[] = "weir_provider_list_add";
	uint32_t missing = caps->caps & ~CAPS_ALL;

	if (!caps->name[0] || !memchr(caps->name, 0, sizeof(caps->name)) ||
	    !memchr(caps->why, 0, sizeof(caps->why)))
		return why(-EINVAL, "%s: .name is empty, or a string does not "
			   "end", call);
	if (caps->kind < WEIR_DEVICE_USER &&
	    (caps->kind != WEIR_DEVICE_RDMA || strcmp(p->owner.name, "verbs")))
		return why(-EINVAL, "%s: kind %u is the library's; yours begin "
			   "with %u", call, caps->kind, WEIR_DEVICE_USER);
	if (!(caps->flags & WEIR_DEVICE_USABLE) && !caps->why[0])
		return why(-EINVAL, "%s: %s is not usable, and .why is empty",
			   call, caps->name);
	if (!p->ops.describe)
		missing |= caps->caps & WEIR_DEVICE_CAP_EXPORT;
	if (!p->ops.import)
		missing |= caps->caps & WEIR_DEVICE_CAP_IMPORT;
	if (!p->ops.unbind)
		missing |= caps->caps & WEIR_DEVICE_CAP_MW;
	if (!p->dm.alloc)
		missing |= caps->caps & WEIR_DEVICE_CAP_DM;
	if (!p->dm.import || !p->dm.get_token)
		missing |= caps->caps & WEIR_DEVICE_CAP_DM_IMPORT;
	if (!p->dm.dmabuf_fd)
		missing |= caps->caps & WEIR_DEVICE_CAP_DM_DMABUF;
	return missing ? why(-EINVAL, "%s: %s has capabilities %#x, for which "
			     "the provider has no function", call, caps->name,
			     missing) : 0;
}

static int list_add(struct weir_provider_list *list,
		    const struct weir_device_caps *user)
{
	struct weir_device_caps caps;
	struct weir_devinfo *info;
	size_t i;
	int err = opts_load(&caps, sizeof(caps), user,
			    "weir_provider_list_add");

	if (!err)
		err = check_caps(list->provider, &caps);
	if (err)
		return err;
	for (i = 0; i < list->list->n; i++)
		if (!strcmp(list->list->entries[i]->caps.name, caps.name))
			return why(-EEXIST, "weir_provider_list_add: there is "
				   "a device %s", caps.name);
	info = device_list_add(list->list, &list->provider->cls, caps.name);
	if (!info)
		return -ENOMEM;
	info->caps = caps;
	if (!caps.align)
		info->caps.align = 1;
	return 0;
}

int weir_provider_list_add(struct weir_provider_list *list,
			   const struct weir_device_caps *caps)
{
	return list_add(list, caps);
}

int weir_provider_list_wants(const struct weir_provider_list *list,
			     const char *name)
{
	return device_list_wants(list->list, name);
}

void *weir_provider_card(const struct weir_provider *p,
			 const struct weir_device *dev)
{
	return p && dev->info.cls == &p->cls ? dev->priv : NULL;
}

int weir_provider_lost(struct weir_device *dev)
{
	return device_is_dead(dev, "weir_provider_lost");
}

int weir_provider_revoked(struct weir_mmap *mmap)
{
	if (!mmap->import || !(import_of(mmap)->device || import_of(mmap)->owner))
		return why_static(-EPERM, "weir_provider_revoked: the mmap is "
				  "no import by a provider");
	import_set_stale(mmap->import);
	return 0;
}

/* Engines. */

static void uncount(struct weir_provider *p)
{
	pthread_mutex_lock(&lock);
	p->n_contexts--;
	pthread_mutex_unlock(&lock);
}

/* The engine @e of the provider @p leaves its context. */
static void detach(struct engine *e, void *provider)
{
	struct weir_provider *p = provider;

	if (p->ops.engine_close)
		p->ops.engine_close(e->arg);
	uncount(p);
}

/* Have an engine of @p in @dma, unless there is none for this context. */
static int attach(struct weir_dma *dma, struct weir_provider *p)
{
	unsigned int since = why_begin();
	struct engine *e;
	void *arg = p->arg;
	int err = p->ops.engine_open ?
		  p->ops.engine_open(p->arg, dma->r, &arg) : 0;

	if (!err) {
		e = engine_add(dma, &p->engine, arg);
		e->leave = detach;
		e->leave_arg = p;
		return 0;
	}
	uncount(p);
	return err == -ENODEV ? 0 :
	       result_of(err, since, "weir_dma_create", p->owner.name,
			 "'s .engine_open()");
}

int providers_attach(struct weir_dma *dma)
{
	struct weir_provider *all[WEIR_PROVIDERS_MAX];
	uint32_t i, n = 0;
	int err = 0;

	/* Those that are counted are not unregistered meanwhile. */
	pthread_mutex_lock(&lock);
	for (i = 0; i < WEIR_PROVIDERS_MAX; i++)
		if (providers[i] && providers[i]->ops.engine &&
		    !providers[i]->is_leaving) {
			providers[i]->n_contexts++;
			all[n++] = providers[i];
		}
	pthread_mutex_unlock(&lock);
	for (i = 0; i < n && !err; i++)
		err = attach(dma, all[i]);
	for (; i < n; i++)
		uncount(all[i]);
	return err;
}
