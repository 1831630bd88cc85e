/* SPDX-License-Identifier: BSD-3-Clause */
/* CPUs, quotas and nodes, as the kernel's files and system calls report
 * them. */

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "reactor/group/group.h"

#define PATH_LONG 512

uint32_t cpus_allowed(uint32_t *cpus, uint32_t max)
{
	uint32_t n = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		if (n < max)
			cpus[n] = cpu;
		n++;
	}
	return n;
}

int cpu_pin(uint32_t cpu)
{
	cpu_set_t set;

	if (fault("sched_setaffinity"))
		return -EPERM;
	if (cpu >= CPU_SETSIZE)
		return -EINVAL;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* The first line of a file, with no newline; false if there is none. */
static bool first_line(const char *path, char *line, size_t len)
{
	FILE *f = fopen(path, "re");
	bool got;

	if (!f)
		return false;
	got = fgets(line, (int)len, f);
	fclose(f);
	if (got)
		line[strcspn(line, "\n")] = '\0';
	return got;
}

/* Our cgroup in the unified tree: "0::/a/b". */
static bool own_cgroup(const char *root, char *path, size_t len)
{
	char name[PATH_LONG], line[PATH_LONG];
	bool found = false;
	FILE *f;

	snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
	f = fopen(name, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "0::/", 4);
	fclose(f);
	if (found)
		snprintf(path, len, "%.*s", (int)strcspn(line + 3, "\n"),
			 line + 3);
	return found;
}

/* The quota of one group: "max 100000", or "150000 100000" for 1.5 CPUs. */
static double quota_of(const char *root, const char *path)
{
	char name[2 * PATH_LONG], line[64];
	double quota, period;

	snprintf(name, sizeof(name), "%s/sys/fs/cgroup%s/cpu.max", root, path);
	if (!first_line(name, line, sizeof(line)) ||
	    sscanf(line, "%lf %lf", &quota, &period) != 2 ||
	    quota <= 0 || period <= 0)
		return 0;
	return quota / period;
}

/* A parent's quota also limits the child. */
double cpus_quota(const char *root)
{
	char path[PATH_LONG];
	double least = 0, quota;
	char *slash;

	if (!own_cgroup(root, path, sizeof(path)))
		return 0;
	for (;;) {
		quota = quota_of(root, path);
		if (quota > 0 && (!least || quota < least))
			least = quota;
		slash = strrchr(path, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* "0-1,4": how many, and whether @wanted is among them. */
static uint32_t count_list(const char *s, uint32_t wanted, bool *has)
{
	unsigned long from, to, n = 0;
	char *end;

	*has = false;
	while (*s >= '0' && *s <= '9') {
		from = to = strtoul(s, &end, 10);
		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		if (to < from || to > UINT16_MAX)
			break;
		n += to - from + 1;
		*has |= wanted >= from && wanted <= to;
		s = *end == ',' ? end + 1 : end;
	}
	return (uint32_t)n;
}

uint32_t nodes_count(const char *root)
{
	char name[PATH_LONG], line[PATH_LONG];
	bool has;

	snprintf(name, sizeof(name), "%s/sys/devices/system/node/online", root);
	if (!first_line(name, line, sizeof(line)))
		return 0;
	return count_list(line, 0, &has);
}

int node_of_cpu(const char *root, uint32_t cpu)
{
	char name[PATH_LONG], line[4096];
	bool has;

	for (int node = 0; node < NODES_MAX; node++) {
		snprintf(name, sizeof(name),
			 "%s/sys/devices/system/node/node%d/cpulist", root,
			 node);
		if (!first_line(name, line, sizeof(line)))
			continue;
		count_list(line, cpu, &has);
		if (has)
			return node;
	}
	return -1;
}

/* By the system calls themselves: a library only for that would be one too
 * many. */
static int policy_get(struct memory_policy *policy)
{
	if (fault("get_mempolicy"))
		return -EPERM;
	return syscall(SYS_get_mempolicy, &policy->mode, policy->nodes,
		       (unsigned long)NODES_MAX, NULL, 0UL) ? -errno : 0;
}

static int policy_set(const struct memory_policy *policy)
{
	if (fault("set_mempolicy"))
		return -EPERM;
	return syscall(SYS_set_mempolicy, policy->mode, policy->nodes,
		       (unsigned long)NODES_MAX) ? -errno : 0;
}

int memory_prefer(int node, struct memory_policy *old)
{
	struct memory_policy near = { .mode = MPOL_PREFERRED };
	unsigned int bits = 8 * sizeof(long);
	int err = policy_get(old);

	if (err)
		return err;
	near.nodes[(unsigned int)node / bits] =
		1UL << ((unsigned int)node % bits);
	return policy_set(&near);
}

int memory_restore(const struct memory_policy *old)
{
	return policy_set(old);
}
