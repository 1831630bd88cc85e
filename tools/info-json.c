/* SPDX-License-Identifier: BSD-3-Clause */

/* weir info as JSON. weir(1) lists the members; later versions only add
 * some. */

#include <string.h>

#include <weir/base.h>

#include "info.h"
#include "json.h"

/* null if the value is unknown. */
static void told(struct json *j, const char *key, const char *s)
{
	json_string(j, key, *s ? s : NULL);
}

static void known(struct json *j, const char *key, uint64_t n)
{
	if (n == UNKNOWN)
		json_null(j, key);
	else
		json_number(j, key, n);
}

static void bits(struct json *j, const char *key, uint64_t set,
		 const struct bit_name *names, size_t n)
{
	size_t i;

	json_open(j, key, '[');
	for (i = 0; i < n; i++)
		if (set & names[i].bit)
			json_string(j, NULL, names[i].name);
	json_close(j, ']');
}

/* Write the members of item @i of an array of objects. */
typedef void put_fn(struct json *j, const struct info *info, size_t i);

static void put_objects(struct json *j, const char *key, size_t n, put_fn *put,
			const struct info *info)
{
	size_t i;

	json_open(j, key, '[');
	for (i = 0; i < n; i++) {
		json_open(j, NULL, '{');
		put(j, info, i);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_system(struct json *j, const struct info *info)
{
	json_open(j, "system", '{');
	json_string(j, "name", info->system.sysname);
	json_string(j, "release", info->system.release);
	json_string(j, "machine", info->system.machine);
	json_number(j, "cpus", (uint64_t)info->cpus);
	known(j, "memory", info->memory);
	json_close(j, '}');
}

static void put_backends(struct json *j, const struct info *info)
{
	json_open(j, "backend", '{');
	json_string(j, "chosen", info->chosen);
	json_string(j, "why", info->chosen_why);
	json_close(j, '}');
	json_open(j, "backends", '[');
	json_open(j, NULL, '{');
	json_string(j, "name", info->uring.name);
	json_bool(j, "usable", info->uring.usable);
	told(j, "why", info->uring.why);
	bits(j, "features", info->features.features, feature_names,
	     n_feature_names);
	json_number(j, "max_files", info->features.max_files);
	json_number(j, "max_buffers", info->features.max_buffers);
	json_number(j, "max_operations", info->features.max_ops);
	json_close(j, '}');
	json_open(j, NULL, '{');
	json_string(j, "name", info->ev.name);
	json_bool(j, "usable", info->ev.usable);
	told(j, "why", info->ev.why);
	json_close(j, '}');
	json_close(j, ']');
}

static void put_domains_of(struct json *j, const struct device *d)
{
	size_t i;

	json_open(j, "domains", '[');
	for (i = 0; i < n_domain_kinds; i++)
		if (reaches(d, domain_kinds[i].kind))
			json_string(j, NULL, domain_kinds[i].name);
	json_close(j, ']');
}

static void put_identity(struct json *j, const struct device *d)
{
	told(j, "pci", d->pci);
	told(j, "interface", d->iface);
	told(j, "mac", d->mac);
	told(j, "ipv4", d->ipv4);
	told(j, "ipv6", d->ipv6);
	told(j, "lid", d->lid);
}

static void put_device(struct json *j, const struct info *info, size_t i)
{
	const struct device *d = &info->devices[i];

	json_string(j, "name", d->caps.name);
	json_string(j, "kind", device_kind(d));
	json_bool(j, "usable", is_usable(d));
	told(j, "why", d->caps.why);
	json_bool(j, "software", d->caps.flags & WEIR_DEVICE_SOFTWARE);
	bits(j, "capabilities", d->caps.caps, cap_names, n_cap_names);
	bits(j, "jobs", d->caps.jobs, job_names, n_job_names);
	put_domains_of(j, d);
	json_number(j, "max_size", d->caps.max_size);
	json_number(j, "max_register", d->caps.max_register);
	json_number(j, "max_segments", d->caps.max_segments);
	json_number(j, "align", d->caps.align);
	json_number(j, "address_bits", d->caps.address_bits);
	json_number(j, "device_memory", d->caps.dm_size);
	if (d->caps.numa_node < 0)
		json_null(j, "numa_node");
	else
		json_number(j, "numa_node", (uint64_t)d->caps.numa_node);
	put_identity(j, d);
}

static void put_domain(struct json *j, const struct info *info, size_t which)
{
	const struct domain_kind *k = &domain_kinds[which];
	bool any = false;
	size_t i;

	json_string(j, "name", k->name);
	json_number(j, "kind", k->kind);
	json_open(j, "devices", '[');
	for (i = 0; i < info->n_devices; i++)
		if (reaches(&info->devices[i], k->kind)) {
			json_string(j, NULL, info->devices[i].caps.name);
			any = true;
		}
	json_close(j, ']');
	json_bool(j, "usable", any);
}

static void put_limit(struct json *j, const char *key, const struct limit *lim)
{
	json_open(j, key, '{');
	known(j, "soft", lim->soft);
	known(j, "hard", lim->hard);
	json_close(j, '}');
}

static void put_pages(struct json *j, const struct info *info, size_t i)
{
	json_number(j, "size", info->huge[i].size);
	known(j, "total", info->huge[i].total);
	known(j, "free", info->huge[i].free);
}

static void put_limits(struct json *j, const struct info *info)
{
	json_open(j, "limits", '{');
	put_limit(j, "memlock", &info->memlock);
	json_bool(j, "memlock_exempt", info->may_lock);
	put_limit(j, "nofile", &info->nofile);
	put_objects(j, "hugepages", info->n_huge, put_pages, info);
	told(j, "transparent_hugepages", info->thp);
	known(j, "ptrace_scope", info->ptrace_scope);
	known(j, "io_uring_disabled", info->uring_disabled);
	json_bool(j, "memfd", info->memfd);
	json_bool(j, "udmabuf", info->udmabuf);
	json_bool(j, "keyed_exports", info->keys);
	json_bool(j, "physical_addresses", info->phys);
	json_close(j, '}');
}

static void put_node(struct json *j, const struct info *info, size_t i)
{
	json_number(j, "id", info->nodes[i].id);
	json_string(j, "cpus", info->nodes[i].cpus);
	known(j, "memory", info->nodes[i].memory);
	known(j, "free", info->nodes[i].free);
}

static void put_unused(struct json *j, const struct info *info, size_t i)
{
	json_string(j, "what", info->unused[i].what);
	json_string(j, "why", info->unused[i].why);
	told(j, "remedy", info->unused[i].remedy);
}

void show_json(const struct info *info)
{
	struct json j = { 0 };

	json_open(&j, NULL, '{');
	json_string(&j, "version", weir_version());
	put_system(&j, info);
	put_backends(&j, info);
	put_objects(&j, "devices", info->n_devices, put_device, info);
	put_objects(&j, "domains", n_domain_kinds, put_domain, info);
	put_limits(&j, info);
	put_objects(&j, "numa_nodes", info->n_nodes, put_node, info);
	put_objects(&j, "unused", info->n_unused, put_unused, info);
	json_close(&j, '}');
}
