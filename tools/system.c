/* SPDX-License-Identifier: BSD-3-Clause */

/* The system's part of weir info: limits, huge pages, NUMA nodes. */

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "info.h"

#define HUGEPAGES "/sys/kernel/mm/hugepages"
#define NODES "/sys/devices/system/node"
#define CAP_IPC_LOCK 14		/* Of <linux/capability.h>. */

/* The first line of a file; "" if there is none. */
static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok;

	buf[0] = 0;
	if (!f)
		return false;
	ok = fgets(buf, (int)size, f);
	fclose(f);
	buf[strcspn(buf, "\n")] = 0;
	return ok;
}

static uint64_t read_number(const char *path)
{
	char buf[64];

	if (!read_line(path, buf, sizeof(buf)) || !isdigit(buf[0]))
		return UNKNOWN;
	return strtoull(buf, NULL, 10);
}

/* The number after @key in a file of lines like "Node 0 MemFree:  123 kB". */
static uint64_t read_key(const char *path, const char *key, int base)
{
	FILE *f = fopen(path, "re");
	uint64_t found = UNKNOWN;
	char line[256], *at;

	while (f && found == UNKNOWN && fgets(line, sizeof(line), f)) {
		at = strstr(line, key);
		if (at)
			found = strtoull(at + strlen(key), NULL, base);
	}
	if (f)
		fclose(f);
	return found;
}

static uint64_t kib(uint64_t n)
{
	return n == UNKNOWN ? UNKNOWN : n << 10;
}

static struct limit limit_of(int resource)
{
	struct rlimit lim;
	struct limit ret = { UNKNOWN, UNKNOWN };

	if (getrlimit(resource, &lim))
		return ret;
	if (lim.rlim_cur != RLIM_INFINITY)
		ret.soft = lim.rlim_cur;
	if (lim.rlim_max != RLIM_INFINITY)
		ret.hard = lim.rlim_max;
	return ret;
}

static void find_limits(struct info *info)
{
	uint64_t caps = read_key("/proc/self/status", "CapEff:", 16);

	info->memlock = limit_of(RLIMIT_MEMLOCK);
	info->nofile = limit_of(RLIMIT_NOFILE);
	info->may_lock = caps != UNKNOWN && caps >> CAP_IPC_LOCK & 1;
	info->ptrace_scope = read_number("/proc/sys/kernel/yama/ptrace_scope");
	info->uring_disabled = read_number(
		"/proc/sys/kernel/io_uring_disabled");
}

/* The word in brackets: "always [madvise] never". */
static void find_thp(struct info *info)
{
	char line[64], *from, *to;

	if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", line,
		       sizeof(line)))
		return;
	from = strchr(line, '[');
	to = from ? strchr(from, ']') : NULL;
	if (to)
		snprintf(info->thp, sizeof(info->thp), "%.*s",
			 (int)(to - from - 1), from + 1);
}

static void add_hugepages(struct info *info, const char *name, uint64_t size)
{
	struct hugepages *h = &info->huge[info->n_huge++];
	char path[300];

	h->size = size << 10;
	snprintf(path, sizeof(path), HUGEPAGES "/%s/nr_hugepages", name);
	h->total = read_number(path);
	snprintf(path, sizeof(path), HUGEPAGES "/%s/free_hugepages", name);
	h->free = read_number(path);
}

static int by_size(const void *a, const void *b)
{
	const struct hugepages *x = a, *y = b;

	return (x->size > y->size) - (x->size < y->size);
}

static void find_hugepages(struct info *info)
{
	DIR *dir = opendir(HUGEPAGES);
	unsigned long long size;
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (sscanf(e->d_name, "hugepages-%llukB", &size) == 1 &&
		    info->n_huge < N_OF(info->huge))
			add_hugepages(info, e->d_name, size);
	if (dir)
		closedir(dir);
	qsort(info->huge, info->n_huge, sizeof(info->huge[0]), by_size);
}

static void add_node(struct info *info, unsigned int id)
{
	struct numa_node *node = add_item(info, &info->nodes, &info->n_nodes,
					  sizeof(*node));
	char path[100];

	if (!node)
		return;
	node->id = id;
	snprintf(path, sizeof(path), NODES "/node%u/cpulist", id);
	read_line(path, node->cpus, sizeof(node->cpus));
	snprintf(path, sizeof(path), NODES "/node%u/meminfo", id);
	node->memory = kib(read_key(path, "MemTotal:", 10));
	node->free = kib(read_key(path, "MemFree:", 10));
}

static int by_id(const void *a, const void *b)
{
	const struct numa_node *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static void find_nodes(struct info *info)
{
	DIR *dir = opendir(NODES);
	struct dirent *e;
	unsigned int id;

	while (dir && (e = readdir(dir)))
		if (sscanf(e->d_name, "node%u", &id) == 1)
			add_node(info, id);
	if (dir)
		closedir(dir);
	if (info->n_nodes)
		qsort(info->nodes, info->n_nodes, sizeof(info->nodes[0]),
		      by_id);
}

void find_system(struct info *info)
{
	int fd = memfd_create("weir-info", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	info->memfd = fd >= 0;
	if (fd >= 0)
		close(fd);
	info->udmabuf = !access("/dev/udmabuf", R_OK | W_OK);
	uname(&info->system);
	info->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	info->memory = kib(read_key("/proc/meminfo", "MemTotal:", 10));
	find_limits(info);
	find_thp(info);
	find_hugepages(info);
	find_nodes(info);
}
