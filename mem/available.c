/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The memory that is left, from /proc/meminfo and from cgroups of both
 * versions.
 *
 * The kernel grants anonymous memory by an estimate, and a memfd without one.
 * In both cases a page that is touched may find no memory; the kernel then
 * kills a process.  The page cache counts as left, because the kernel can
 * reclaim it.  All swap counts too, even if a cgroup may use less of it: this
 * check refuses what is impossible, not what is slow.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mem/available.h"

#define PATH_MAX_ 512

/* The files of a version of cgroups, and the lines of memory.stat that the
 * kernel can reclaim. */
struct version {
	const char *controller;	/* In /proc/self/cgroup. */
	const char *mount;
	const char *limit, *usage;
	const char *cache[3];	/* In memory.stat. */
};

static const struct version versions[] = {
	{ "", "/sys/fs/cgroup", "memory.max", "memory.current",
	  { "inactive_file", "active_file", "slab_reclaimable" } },
	{ "memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
	  "memory.usage_in_bytes",
	  { "total_inactive_file", "total_active_file", "" } },
};

static const char *root = "";

void memory_set_root(const char *path)
{
	root = path;
}

static FILE *open_file(const char *dir, const char *name)
{
	char path[PATH_MAX_];

	if (snprintf(path, sizeof(path), "%s%s/%s", root, dir, name) >=
	    (int)sizeof(path))
		return NULL;
	return fopen(path, "re");
}

/* The number in a file.  False: the file has none, for example "max". */
static bool read_number(const char *dir, const char *name, uint64_t *ret)
{
	FILE *f = open_file(dir, name);
	bool ok;

	if (!f)
		return false;
	ok = fscanf(f, "%" SCNu64, ret) == 1;
	fclose(f);
	return ok;
}

/* The sum of the lines of a file that begin with one of these words. */
static uint64_t sum_lines(const char *dir, const char *name,
			  const char *const *words, size_t n_words)
{
	FILE *f = open_file(dir, name);
	char line[256], word[64];
	uint64_t n, sum = 0;
	size_t i;

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63[^: ]%*[: ]%" SCNu64, word, &n) != 2)
			continue;
		for (i = 0; i < n_words; i++)
			if (!strcmp(word, words[i]))
				sum += n;
	}
	fclose(f);
	return sum;
}

/* The memory that is left in the cgroup at @dir, without swap. */
static uint64_t left_of(const struct version *v, const char *dir)
{
	uint64_t limit, usage, cache;

	if (!read_number(dir, v->limit, &limit) ||
	    !read_number(dir, v->usage, &usage))
		return UINT64_MAX;
	cache = sum_lines(dir, "memory.stat", v->cache, 3);
	usage = usage > cache ? usage - cache : 0;
	return limit > usage ? limit - usage : 0;
}

/* The least memory left of the cgroup at @path and its ancestors that are
 * mounted here. */
static uint64_t left_up_from(const struct version *v, char *path)
{
	char dir[PATH_MAX_];
	uint64_t left = UINT64_MAX, n;
	char *slash;

	do {
		if (!strcmp(path, "/"))
			*path = '\0';
		if (snprintf(dir, sizeof(dir), "%s%s", v->mount, path) <
		    (int)sizeof(dir)) {
			n = left_of(v, dir);
			left = n < left ? n : left;
		}
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return left;
}

/* Whether @name is in @list, which is separated by commas. */
static bool is_in(const char *list, const char *name)
{
	size_t len = strlen(name);
	const char *at = list;

	if (!*list || !len)
		return !*list && !len;
	while ((at = strstr(at, name))) {
		if ((at == list || at[-1] == ',') &&
		    (!at[len] || at[len] == ','))
			return true;
		at += len;
	}
	return false;
}

static uint64_t left_of_cgroups(void)
{
	FILE *f = open_file("/proc/self", "cgroup");
	char line[PATH_MAX_], *controllers, *path;
	uint64_t left = UINT64_MAX, n;
	size_t i;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
			if (!is_in(controllers + 1, versions[i].controller))
				continue;
			n = left_up_from(&versions[i], path);
			left = n < left ? n : left;
		}
	}
	if (f)
		fclose(f);
	return left;
}

uint64_t memory_available(const char **from)
{
	static const char *const memory[] = { "MemAvailable" };
	static const char *const swap[] = { "SwapFree" };
	uint64_t left = sum_lines("/proc", "meminfo", memory, 1) << 10;
	uint64_t of_cgroups = left_of_cgroups();
	uint64_t swapped = sum_lines("/proc", "meminfo", swap, 1) << 10;

	if (from)
		*from = "MemAvailable and SwapFree of /proc/meminfo";
	if (!left)
		left = UINT64_MAX;
	if (of_cgroups < left) {
		left = of_cgroups;
		if (from)
			*from = "the memory limit of its cgroup";
	}
	return left > UINT64_MAX - swapped ? UINT64_MAX : left + swapped;
}
