/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

/* weir info: everything is collected in one struct, which is then written as
 * text or as JSON. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/utsname.h>

#include <weir/device.h>
#include <weir/reactor.h>
#include <weir/uring.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

#define UNKNOWN UINT64_MAX	/* A number that the system does not tell. */

/* A feature that is not used. */
struct unused {
	char what[64];
	char why[256];
	char remedy[256];
};

struct backend {
	const char *name;
	bool usable;
	char why[512];		/* If not. */
};

struct device {
	struct weir_device_caps caps;
	char pci[16], iface[16], mac[18], ipv4[16], ipv6[46], lid[8];
};

struct hugepages {
	uint64_t size;		/* Bytes. */
	uint64_t total, free;	/* Pages. */
};

struct numa_node {
	unsigned int id;
	char cpus[128];
	uint64_t memory, free;	/* Bytes. */
};

/* Of this process; UNKNOWN: there is none. */
struct limit {
	uint64_t soft, hard;
};

struct info {
	/* find.c: from weir. */
	struct backend uring, ev;
	struct weir_uring_info features;	/* If uring is usable. */
	const char *chosen;			/* NULL: no reactor. */
	char chosen_why[512];
	struct device *devices;
	size_t n_devices;
	bool keys;				/* Exports can have a MAC. */
	char keys_why[512];			/* If not. */
	bool phys;				/* Addresses are told. */

	/* system.c: from the system. */
	struct utsname system;
	long cpus;
	uint64_t memory;
	struct limit memlock, nofile;
	bool may_lock;				/* Whatever the limit. */
	struct hugepages huge[8];
	size_t n_huge;
	char thp[32];				/* "": not told. */
	uint64_t ptrace_scope;
	uint64_t uring_disabled;		/* The sysctl. */
	bool memfd, udmabuf;
	struct numa_node *nodes;
	size_t n_nodes;

	/* info-unused.c */
	struct unused *unused;
	size_t n_unused;
	bool no_memory;
};

/* The kinds of domains, and their names. */
struct domain_kind {
	uint32_t kind;
	const char *name, *address;
	const char *remedy;	/* If nothing reaches it. */
};

extern const struct domain_kind domain_kinds[];
extern const size_t n_domain_kinds;

/* Names of bits: features of io_uring, capabilities, kinds of jobs. */
struct bit_name {
	uint64_t bit;
	const char *name;
};

extern const struct bit_name feature_names[], cap_names[], job_names[];
extern const size_t n_feature_names, n_cap_names, n_job_names;

const char *device_kind(const struct device *d);
bool is_usable(const struct device *d);
bool reaches(const struct device *d, uint32_t domain);

/* find-rdma.c: fields that @dev lacks stay "". */
struct weir_devinfo;
void find_identity(struct device *d, const struct weir_devinfo *dev);

void find_weir(struct info *info);
void find_system(struct info *info);
void find_unused(struct info *info);

/* Add a zeroed item of @size bytes to the @n at *@array.  Returns it, or NULL,
 * with info->no_memory set. */
void *add_item(struct info *info, void *array, size_t *n, size_t size);

void show_text(const struct info *info);
void show_json(const struct info *info);

#endif /* TOOLS_INFO_H */
