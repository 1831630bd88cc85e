/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider: devices, memory that is registered, exports and imports. */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/domain-user.h>
#include <weir/mmap.h>

#include "fabric/fabric.h"

#define DESC_VERSION 1

static struct weir_provider *provider;

/* Devices. */

/* What is looked for: endpoints that are connected, with one-sided access. */
static struct fi_info *hints(const struct fabric_library *lib,
			     enum fi_ep_type type)
{
	struct fi_info *h = weir_fault("malloc") ? NULL : lib->dupinfo(NULL);

	if (!h)
		return NULL;
	h->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ |
		  FI_REMOTE_WRITE;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = type;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				  FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	return h;
}

/* The address of @info as text; "" if it is of another kind. */
static void text_of(char *to, size_t size, const struct fi_info *info)
{
	const struct sockaddr_in6 *in6 = info->src_addr;
	const struct sockaddr_in *in = info->src_addr;

	*to = 0;
	if (!info->src_addr)
		return;
	if (in->sin_family == AF_INET && info->src_addrlen >= sizeof(*in))
		inet_ntop(AF_INET, &in->sin_addr, to, (socklen_t)size);
	if (in->sin_family == AF_INET6 && info->src_addrlen >= sizeof(*in6))
		inet_ntop(AF_INET6, &in6->sin6_addr, to, (socklen_t)size);
}

static void name_of(char *to, size_t size, const struct fi_info *info)
{
	char text[INET6_ADDRSTRLEN];

	text_of(text, sizeof(text), info);
	snprintf(to, size, "%s@%s", info->fabric_attr->prov_name,
		 *text ? text : info->domain_attr->name);
}

/* Addresses that need an interface beside them; and what is layered over a provider
 * that is listed itself. */
static bool is_left_out(const struct fi_info *info)
{
	const struct sockaddr_in6 *in6 = info->src_addr;

	if (strstr(info->fabric_attr->prov_name, ";ofi_rxm"))
		return true;
	return in6 && info->src_addrlen >= sizeof(*in6) &&
	       in6->sin6_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/* Why @info cannot be used; NULL: it can. */
static const char *no_use(const struct fi_info *info)
{
	const char *name = info->fabric_attr->prov_name;

	/* Its fi_trywait() says that it may be slept on, and nothing then wakes. */
	if (!strncmp(name, "tcp", 3) &&
	    info->fabric_attr->prov_version == FI_VERSION(118, 0))
		return "libfabric 1.18.0 loses wake-ups: install 1.18.1 or newer";
	if (!strcmp(name, "net"))
		return "its descriptor is readable all the time: use tcp";
	if (!strncmp(name, "sockets", 7))
		return "libfabric has deprecated it: use tcp";
	if (!strcmp(name, "shm"))
		return "it gives nothing to sleep on: use the exports of cpu";
	if (info->ep_attr->type != FI_EP_MSG)
		return "it has no connected endpoints (FI_EP_MSG): use tcp";
	if (info->domain_attr->mr_mode & FI_MR_LOCAL)
		return "it needs FI_MR_LOCAL: use tcp; for RDMA libweir-rdma";
	return NULL;
}

static int add_entry(struct weir_provider_list *list, const char *name,
		     const char *why)
{
	struct weir_device_caps caps = {
		.size = sizeof(caps), .kind = WEIR_DEVICE_FABRIC,
		.numa_node = -1, .align = 1, .address_bits = 64,
		.max_segments = WEIR_JOB_PIECES_MAX,
	};
	int err;

	snprintf(caps.name, sizeof(caps.name), "%s", name);
	if (why) {
		snprintf(caps.why, sizeof(caps.why), "%s", why);
	} else {
		caps.flags = WEIR_DEVICE_USABLE | WEIR_DEVICE_SOFTWARE;
		caps.caps = WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_IMPORT;
		/* Where it was measured that a closed connection ends access. */
		if (!strncmp(name, "tcp@", 4))
			caps.caps |= WEIR_DEVICE_CAP_EXPORT;
		caps.domains = WEIR_DEVICE_BIT(WEIR_DOMAIN_SYSTEM) |
			       WEIR_DEVICE_BIT(WEIR_DOMAIN_HUGEPAGE);
		caps.jobs = WEIR_DEVICE_BIT(WEIR_JOB_COPY) |
			    WEIR_DEVICE_BIT(WEIR_JOB_PULL) |
			    WEIR_DEVICE_BIT(WEIR_JOB_PUSH);
	}
	err = weir_provider_list_add(list, &caps);
	/* A provider may name an address twice, for two protocols. */
	return err == -EEXIST ? 0 : err;
}

static int list_type(const struct fabric_library *lib,
		     struct weir_provider_list *list, enum fi_ep_type type)
{
	struct fi_info *info = NULL, *at, *h = hints(lib, type);
	const char *why;
	char name[64];
	int err = 0;

	if (!h)
		return -ENOMEM;
	if (lib->getinfo(FABRIC_API, NULL, NULL, 0, h, &info))
		info = NULL;
	lib->freeinfo(h);
	for (at = info; at && !err; at = at->next) {
		if (is_left_out(at))
			continue;
		why = no_use(at);
		if (why)
			snprintf(name, sizeof(name), "%s",
				 at->fabric_attr->prov_name);
		else
			name_of(name, sizeof(name), at);
		err = add_entry(list, name, why);
	}
	if (info)
		lib->freeinfo(info);
	return err;
}

static int list_devices(void *arg, struct weir_provider_list *list)
{
	const char *why = "";
	const struct fabric_library *lib = fabric_library(&why);
	int err;

	(void)arg;
	if (!lib)
		return add_entry(list, "fabric", why);
	err = list_type(lib, list, FI_EP_MSG);
	return err ? err : list_type(lib, list, FI_EP_RDM);
}

/* The description of the device @name, which is open by one of its own. */
static int find_info(struct fi_info **ret, const struct fabric_library *lib,
		     const char *name)
{
	struct fi_info *info = NULL, *at, *h = hints(lib, FI_EP_MSG);
	char other[64];
	long err;

	if (!h)
		return -ENOMEM;
	err = lib->getinfo(FABRIC_API, NULL, NULL, 0, h, &info);
	lib->freeinfo(h);
	if (err)
		return weir_why_set(-ENODEV, "weir_device_open: %s: %s", name,
				    fabric_error(err));
	for (at = info; at; at = at->next) {
		name_of(other, sizeof(other), at);
		if (!strcmp(other, name))
			break;
	}
	*ret = at && !weir_fault("malloc") ? lib->dupinfo(at) : NULL;
	lib->freeinfo(info);
	if (!at)
		return weir_why_set(-ENODEV, "weir_device_open: %s is not there "
				    "any more", name);
	return *ret ? 0 : -ENOMEM;
}

static void set_limits(struct card *card, const struct weir_fabric_opts *opts)
{
	atomic_store(&card->connect_ns, opts->connect_ns ? opts->connect_ns :
							   5 * WEIR_SEC);
	atomic_store(&card->stall_ns, opts->stall_ns ? opts->stall_ns :
						       30 * WEIR_SEC);
	atomic_store(&card->grace_ns, opts->grace_ns ? opts->grace_ns : WEIR_SEC);
}

static int open_device(void *arg, struct weir_device *dev, void **ret)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	const char *why = "";
	const struct fabric_library *lib = fabric_library(&why);
	struct card *card;
	int err;

	(void)arg;
	if (!lib)
		return weir_why_set(-ENODEV, "weir_device_open: %s", why);
	weir_devinfo_caps(weir_device_info(dev), &caps);
	card = weir_fault("malloc") ? NULL : calloc(1, sizeof(*card));
	if (!card)
		return -ENOMEM;
	err = find_info(&card->info, lib, caps.name);
	if (err) {
		free(card);
		return err;
	}
	strcpy(card->name, caps.name);
	card->dev = dev;
	atomic_init(&card->refs, 1);
	set_limits(card, &(struct weir_fabric_opts){ 0 });
	*ret = card;
	return 0;
}

void card_unref(struct card *card)
{
	const char *why;

	if (atomic_fetch_sub(&card->refs, 1) > 1)
		return;
	fabric_library(&why)->freeinfo(card->info);
	free(card);
}

static void close_device(void *card)
{
	card_unref(card);
}

/* Memory. */

static int register_memory(void *arg, const struct weir_provider_range *range,
			   struct weir_provider_key *ret)
{
	struct card *card = arg;
	struct region *region;

	if (range->kind != WEIR_PROVIDER_RANGE_MEM || !range->addr)
		return weir_why_set(-EOPNOTSUPP, "weir_mmap_add_device: %s "
				    "takes memory of this process only",
				    card->name);
	region = weir_fault("malloc") ? NULL : calloc(1, sizeof(*region));
	if (!region)
		return -ENOMEM;
	region->addr = range->addr;
	region->len = range->len;
	ret->data = region;
	return 0;
}

static int deregister_memory(void *arg, const struct weir_provider_key *key)
{
	struct region *region = key->data;
	int err = region->grant ? grant_end(region->grant) : 0;

	(void)arg;
	if (!err)
		free(region);
	return err;
}

static int describe(void *arg, const struct weir_provider_key *key,
		    struct weir_provider_desc *desc)
{
	static const char call[] = "weir_mmap_export_device";
	struct fabric_desc *to = (struct fabric_desc *)desc->bytes;
	struct region *region = key->data;
	struct card *card = arg;
	const char *name = card->info->fabric_attr->prov_name;
	size_t name_len = strlen(name), len = ADDRESS_MAX;
	uint64_t be_key, base = 0;
	struct fabric *f;
	struct port *port;
	uint8_t address[ADDRESS_MAX];
	int err;

	fabric_lock();
	f = fabric_of(desc->reactor);
	fabric_unlock();
	if (!f)
		return weir_why_set(-ENOTCONN, "%s: %s has no DMA context, whose "
				    "reactor would answer peers: make one first",
				    call, desc->reactor ? "the lease's reactor" :
							  "this thread");
	err = port_of(&port, f, card, call);
	if (!err && !region->grant)
		err = grant_make(&region->grant, port, region,
				 desc->permissions);
	if (err)
		return err;
	err = port_address(port, address, &len);
	if (err || sizeof(*to) + name_len + len > WEIR_PROVIDER_DESC_MAX)
		return weir_why_set(err ? err : -EMSGSIZE, "%s: %s has an "
				    "address of %zu bytes", call, card->name,
				    len);
	if (card->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		base = desc->addr;
	memset(to, 0, sizeof(*to));
	to->version = DESC_VERSION;
	to->provider_len = (uint8_t)name_len;
	to->address_len = (uint8_t)len;
	be_key = htobe64(fi_mr_key(region->grant->mr));
	base = htobe64(base);
	memcpy(to->key, &be_key, sizeof(to->key));
	memcpy(to->base, &base, sizeof(to->base));
	memcpy(to->token, region->grant->token, TOKEN);
	memcpy(to->names, name, name_len);
	memcpy(to->names + name_len, address, len);
	desc->n_bytes = (uint32_t)(sizeof(*to) + name_len + len);
	return 0;
}

/* Imports. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fabric *fabrics[FABRICS_MAX];
static struct peer *kept;	/* Whose domain is in use. */

void fabric_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fabric_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

struct fabric *fabric_of(const struct weir_reactor *r)
{
	pthread_t self = pthread_self();
	int i;

	for (i = 0; i < FABRICS_MAX; i++)
		if (fabrics[i] && (r ? fabrics[i]->reactor == r :
				       pthread_equal(fabrics[i]->thread, self)))
			return fabrics[i];
	return NULL;
}

static bool has_links(const struct peer *peer)
{
	int i;

	for (i = 0; i < FABRICS_MAX; i++)
		if (peer->links[i])
			return true;
	return false;
}

/* Frees those of which nothing is used any more. */
void peer_retry(void)
{
	struct peer **at = &kept, *peer;

	while ((peer = *at)) {
		if (has_links(peer) || weir_domain_destroy(peer->domain)) {
			at = &peer->next;
			continue;
		}
		*at = peer->next;
		card_unref(peer->card);
		free(peer);
	}
}

static int check_desc(const struct card *card,
		      const struct weir_provider_desc *desc)
{
	static const char call[] = "weir_mmap_import_device";
	const struct fabric_desc *from = (const void *)desc->bytes;
	const struct fi_info *info = card->info;
	const char *name = info->fabric_attr->prov_name;

	if (desc->n_bytes < sizeof(*from))
		return weir_why_set(-EBADMSG, "%s: the descriptor is cut off",
				    call);
	if (from->version != DESC_VERSION)
		return weir_why_set(-EPROTONOSUPPORT, "%s: a descriptor of "
				    "version %u", call, from->version);
	if (sizeof(*from) + from->provider_len + from->address_len !=
	    desc->n_bytes || from->address_len > ADDRESS_MAX || !desc->len ||
	    desc->addr + desc->len < desc->addr)
		return weir_why_set(-EBADMSG, "%s: the descriptor makes no sense",
				    call);
	if (from->provider_len != strlen(name) ||
	    memcmp(from->names, name, from->provider_len))
		return weir_why_set(-EOPNOTSUPP, "%s: exported by %.*s, which %s "
				    "does not reach", call, from->provider_len,
				    from->names, card->name);
	/* libfabric takes an address without its length. */
	if (from->address_len == info->src_addrlen &&
	    !memcmp(from->names + from->provider_len, info->src_addr,
		    sizeof(sa_family_t)))
		return 0;
	return weir_why_set(-EOPNOTSUPP, "%s: the exporter has an address of "
			    "another kind than %s", call, card->name);
}

static int import(void *arg, const struct weir_provider_desc *desc,
		  struct weir_provider_import *ret)
{
	const struct fabric_desc *from = (const void *)desc->bytes;
	struct card *card = arg;
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_FABRIC,
		.id = card->name, .addr = desc->addr, .len = desc->len,
	};
	uint64_t be_key, base;
	struct peer *peer;
	int err = check_desc(card, desc);

	if (err)
		return err;
	peer = weir_fault("malloc") ? NULL : calloc(1, sizeof(*peer));
	if (!peer)
		return -ENOMEM;
	if (!(desc->permissions & WEIR_MMAP_PEER_WRITE))
		opts.flags = WEIR_DOMAIN_READ_ONLY;
	opts.ctx = peer;
	err = weir_domain_create(&peer->domain, &opts);
	if (err) {
		free(peer);
		return err;
	}
	memcpy(&be_key, from->key, sizeof(be_key));
	memcpy(&base, from->base, sizeof(base));
	peer->key = be64toh(be_key);
	peer->base = be64toh(base);
	peer->addr = desc->addr;
	memcpy(peer->token, from->token, TOKEN);
	memcpy(peer->address, from->names + from->provider_len,
	       from->address_len);
	peer->card = card;
	atomic_fetch_add(&card->refs, 1);
	ret->domain = peer->domain;
	ret->data = peer;
	return 0;
}

/* Links are on reactors, which close them. */
static void import_end(void *arg, const struct weir_provider_import *import)
{
	struct peer *peer = import->data;
	struct fabric *here;
	int i;

	(void)arg;
	fabric_lock();
	here = fabric_of(NULL);
	atomic_store(&peer->ended, true);
	for (i = 0; i < FABRICS_MAX; i++) {
		if (!peer->links[i])
			continue;
		if (fabrics[i] == here && !peer->links[i]->in_flight &&
		    !peer->links[i]->first) {
			link_free(peer->links[i]);
			continue;
		}
		port_wake(peer->links[i]->port);
	}
	peer->next = kept;
	kept = peer;
	peer_retry();
	fabric_unlock();
}

bool is_imported(const struct weir_domain *domain)
{
	return domain && weir_domain_kind(domain) == WEIR_DOMAIN_FABRIC;
}

/* What a reactor has, with its first DMA context. */

int fabric_engine_open(void *arg, struct weir_reactor *r, void **engine)
{
	struct fabric *f = NULL;
	int i, place = FABRICS_MAX;

	(void)arg;
	if (!strcmp(weir_reactor_backend(r), "sim") &&
	    !fabric_library_is_simulated())
		return -ENODEV;
	fabric_lock();
	for (i = FABRICS_MAX; i-- > 0;)
		if (!fabrics[i])
			place = i;
		else if (fabrics[i]->reactor == r)
			f = fabrics[i];
	if (!f && place < FABRICS_MAX)
		f = weir_fault("malloc") ? NULL : calloc(1, sizeof(*f));
	if (f && !f->contexts++) {
		f->reactor = r;
		f->thread = pthread_self();
		f->slot = (uint32_t)place;
		fabrics[place] = f;
	}
	fabric_unlock();
	*engine = f;
	return f ? 0 : place < FABRICS_MAX ? -ENOMEM : -ENODEV;
}

void fabric_engine_close(void *engine)
{
	struct fabric *f = engine;
	struct port *port;

	fabric_lock();
	if (--f->contexts) {
		fabric_unlock();
		return;
	}
	while ((port = f->ports)) {
		f->ports = port->next;
		port_free(port);
	}
	fabrics[f->slot] = NULL;
	peer_retry();
	fabric_unlock();
	free(f);
}

static const struct weir_provider_ops ops = {
	.size = sizeof(ops), .name = "fabric", .list = list_devices,
	.open = open_device, .close = close_device,
	.mem_register = register_memory, .mem_deregister = deregister_memory,
	.describe = describe, .import = import, .import_end = import_end,
	.engine = &fabric_engine_ops, .engine_open = fabric_engine_open,
	.engine_close = fabric_engine_close,
};

static void register_provider(void)
{
	weir_provider_register(&provider, &ops, NULL);
}

__attribute__((constructor)) void weir_fabric_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_provider);
}

/* Public calls. */

static struct card *card_of(const struct weir_device *dev)
{
	return provider && dev ? weir_provider_card(provider, dev) : NULL;
}

static int not_ours(const char *call)
{
	return weir_why_set(-EINVAL, "%s: the device is not one of "
			    "libweir-fabric: open \"tcp@127.0.0.1\", say", call);
}

static bool is_wanted(const struct weir_device_caps *caps, const char *address)
{
	const char *wanted = getenv("WEIR_FABRIC_PROVIDER");
	const char *at = strchr(caps->name, '@');
	size_t len = at ? (size_t)(at - caps->name) : 0;

	if (!(caps->flags & WEIR_DEVICE_USABLE) || !at ||
	    (address && strcmp(at + 1, address)))
		return false;
	return !wanted || !*wanted ||
	       (strlen(wanted) == len && !strncmp(wanted, caps->name, len));
}

int weir_fabric_open(struct weir_device **ret, const char *address)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list, *found = NULL;
	char names[256] = "";
	size_t n, i;
	int err;

	if (!ret)
		return weir_why_set(-EINVAL, "weir_fabric_open: ret is NULL");
	err = weir_device_list(&list, &n);
	if (err)
		return err;
	for (i = 0; i < n && !found; i++) {
		weir_devinfo_caps(list[i], &caps);
		if (caps.kind != WEIR_DEVICE_FABRIC)
			continue;
		snprintf(names + strlen(names), sizeof(names) - strlen(names),
			 " %s", caps.name);
		if (is_wanted(&caps, address))
			found = list[i];
	}
	err = found ? weir_device_open(ret, found) :
	      weir_why_set(-ENOENT, "weir_fabric_open: no device at %s; there "
			   "are%s", address ? address : "any address",
			   *names ? names : " none");
	weir_device_list_free(list);
	return err;
}

static bool is_sane(uint64_t ns)
{
	return !ns || ns >= WEIR_MSEC;
}

int weir_fabric_set_opts(struct weir_device *dev,
			 const struct weir_fabric_opts *opts)
{
	static const char call[] = "weir_fabric_set_opts";
	struct weir_fabric_opts own = { .size = sizeof(own) };
	struct card *card = card_of(dev);
	size_t i;

	if (!card)
		return not_ours(call);
	if (!opts || opts->size < sizeof(opts->size))
		return weir_why_set(-EINVAL, "%s: .size of the options is not set",
				    call);
	for (i = sizeof(own); i < opts->size; i++)
		if (((const char *)opts)[i])
			return weir_why_set(-E2BIG, "%s: an option is newer than "
					    "this library", call);
	memcpy(&own, opts, opts->size < sizeof(own) ? opts->size : sizeof(own));
	if (!is_sane(own.connect_ns) || !is_sane(own.stall_ns) ||
	    !is_sane(own.grace_ns))
		return weir_why_set(-EINVAL, "%s: an option is below 1 ms", call);
	set_limits(card, &own);
	return 0;
}

int weir_fabric_stats(const struct weir_device *dev,
		      struct weir_fabric_stats *ret)
{
	static const char call[] = "weir_fabric_stats";
	struct card *card = card_of(dev);
	struct weir_fabric_stats full;

	if (!card)
		return not_ours(call);
	if (!ret || ret->size < sizeof(ret->size))
		return weir_why_set(-EINVAL, "%s: .size of the answer is not set",
				    call);
	full = (struct weir_fabric_stats){
		.size = ret->size, .connects = atomic_load(&card->connects),
		.refused = atomic_load(&card->refused),
		.lost = atomic_load(&card->lost),
		.accepted = atomic_load(&card->accepted),
		.links = atomic_load(&card->links),
		.conns = atomic_load(&card->conns),
	};
	memcpy(ret, &full, ret->size < sizeof(full) ? ret->size : sizeof(full));
	return 0;
}
