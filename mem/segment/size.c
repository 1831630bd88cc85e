/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the machine: pages, nodes, limits. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/segment/table.h"

/*
 * Properties of the machine's memory, from /sys.
 *
 *	devices/system/node/online		NUMA nodes, "0-1,3"
 *	devices/system/edac/mc/mcM/dimmD or rankR	modules, and where they
 *	    dimm_location, size			are: "channel 1 slot 0"
 *	firmware/dmi/entries/17-N/raw		modules, root only: SMBIOS
 *						type 17, "Memory Device"
 *
 * Virtual machines and desktops often have no EDAC.  What /sys lacks is 0.
 */

#define CHANNELS_MAX 64		/* Of one controller. */

/* In the structure of SMBIOS type 17. */
#define DMI_SIZE 0x0c		/* 2 bytes; 0: an empty slot. */
#define DMI_ATTRIBUTES 0x1b	/* The low 4 bits: ranks; 0: unknown. */

static const char *sysfs = "/sys";

/* Read once: it does not change while we run, or hardly. 0: not yet. */
static atomic_uint nodes;

void segment_host_set_sysfs(const char *path)
{
	sysfs = path;
	atomic_store(&nodes, 0);
}

/* Read up to @capacity - 1 bytes of the file, 0-terminated; -1: it is
 * unreadable. */
static ssize_t read_file(char *buf, size_t capacity, const char *path)
{
	int fd = fault("open") ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, buf, capacity - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

/* The number of elements in a list such as "0-1,3". */
static unsigned int count_list(const char *text)
{
	unsigned long from, to, n = 0;
	char *end;

	for (;;) {
		from = to = strtoul(text, &end, 10);
		if (end == text)
			break;
		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		if (to >= from && to - from < 65536)
			n += to - from + 1;
		if (*end != ',')
			break;
		text = end + 1;
	}
	return (unsigned int)n;
}

uint32_t segment_host_nodes(void)
{
	unsigned int n = atomic_load_explicit(&nodes, memory_order_relaxed);
	char path[512], text[256];

	if (n)
		return n;
	snprintf(path, sizeof(path), "%s/devices/system/node/online", sysfs);
	if (read_file(text, sizeof(text), path) > 0)
		n = count_list(text);
	if (!n)
		return 1;	/* A kernel without NUMA. */
	atomic_store_explicit(&nodes, n, memory_order_relaxed);
	return n;
}

int segment_host_node_of(void *addr)
{
	size_t page = segment_base_page();
	void *at = (void *)((uintptr_t)addr & ~(page - 1));
	unsigned int cpu, node;
	int status = -ENOENT;

	if (segment_host_nodes() == 1)
		return 0;
	if (fault("move_pages") ||
	    syscall(SYS_move_pages, 0, 1UL, &at, NULL, &status, 0))
		return -1;
	if (status >= 0)
		return status;
	/* Untouched.  The thread that adds it will probably touch it first. */
	if (fault("getcpu") || syscall(SYS_getcpu, &cpu, &node, NULL))
		return -1;
	return (int)node;
}

static bool starts_with(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

/* The channel of the module in the directory @path; -1: none, or empty. */
static int channel_of(const char *path)
{
	char file[1024], text[64];
	const char *at;

	snprintf(file, sizeof(file), "%s/size", path);
	if (read_file(text, sizeof(text), file) > 0 && atoi(text) == 0)
		return -1;
	snprintf(file, sizeof(file), "%s/dimm_location", path);
	if (read_file(text, sizeof(text), file) <= 0)
		return -1;
	at = strstr(text, "channel ");
	return at ? atoi(at + strlen("channel ")) : -1;
}

static unsigned int channels_of_controller(const char *path)
{
	DIR *dir = fault("opendir") ? NULL : opendir(path);
	bool seen[CHANNELS_MAX] = { false };
	unsigned int n = 0;
	struct dirent *e;
	char sub[768];
	int ch;

	if (!dir)
		return 0;
	while ((e = readdir(dir))) {
		if (!starts_with(e->d_name, "dimm") &&
		    !starts_with(e->d_name, "rank"))
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		ch = channel_of(sub);
		if (ch < 0 || ch >= CHANNELS_MAX || seen[ch])
			continue;
		seen[ch] = true;
		n++;
	}
	closedir(dir);
	return n;
}

static uint32_t segment_host_channels(void)
{
	char path[256], sub[512];
	struct dirent *e;
	uint32_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/devices/system/edac/mc", sysfs);
	dir = fault("opendir") ? NULL : opendir(path);
	if (!dir)
		return 0;
	while ((e = readdir(dir))) {
		if (!starts_with(e->d_name, "mc"))
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		n += channels_of_controller(sub);
	}
	closedir(dir);
	return n;
}

static unsigned int ranks_of_module(const char *path)
{
	char raw[256];
	ssize_t n = read_file(raw, sizeof(raw), path);

	if (n <= DMI_ATTRIBUTES || (!raw[DMI_SIZE] && !raw[DMI_SIZE + 1]))
		return 0;
	return raw[DMI_ATTRIBUTES] & 0xf;
}

static uint32_t segment_host_ranks(void)
{
	char path[256], sub[512];
	unsigned int ranks, max = 0;
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/firmware/dmi/entries", sysfs);
	dir = fault("opendir") ? NULL : opendir(path);
	if (!dir)
		return 0;
	while ((e = readdir(dir))) {
		if (!starts_with(e->d_name, "17-"))
			continue;
		snprintf(sub, sizeof(sub), "%s/%.64s/raw", path, e->d_name);
		ranks = ranks_of_module(sub);
		if (ranks > max)
			max = ranks;
	}
	closedir(dir);
	return max;
}

/*
 * How much memory there is, and how far up its addresses go.
 *
 * Lists overlap, but each byte counts once: the sums count what lists cover
 * together.  The process's own memory is everything that is covered, less what
 * external and imported lists cover.
 */

#define OWN 1u
#define EXTERNAL 2u
#define IMPORTED 4u

static unsigned int class_of(const struct segment_list *list)
{
	if (list->whole.flags & WEIR_SEGMENT_EXTERNAL)
		return EXTERNAL;
	return list->whole.flags & WEIR_SEGMENT_IMPORTED ? IMPORTED : OWN;
}

static int node_of(const struct segment_list *list)
{
	return list->whole.node < 0 ? 0 : list->whole.node;
}

/*
 * Bytes that the lists of @classes cover together.  Of the process's own memory
 * only bytes on @node, if that is not -1.  Lists that are PENDING count only if
 * @pending.
 */
static uint64_t covered(unsigned int classes, int node, bool pending)
{
	struct segment_list *list;
	uint64_t sum = 0;
	uintptr_t next = 0;	/* The first byte that is not counted yet. */
	size_t i;

	for (i = 0; i < segments.n; i++) {
		list = segments.lists[i];
		if (!(class_of(list) & classes) || list->last < next)
			continue;
		if (list->state == LIST_PENDING && !pending)
			continue;
		if (class_of(list) == OWN && node >= 0 && node_of(list) != node)
			continue;
		if (list->first > next)
			next = list->first;
		sum += list->last - next + 1;
		next = list->last + 1;
		if (!next)
			break;
	}
	return sum;
}

uint64_t segments_own_bytes(int node, bool pending)
{
	return covered(OWN | EXTERNAL | IMPORTED, node, pending) -
	       covered(EXTERNAL | IMPORTED, -1, pending);
}

uint64_t weir_segment_node_bytes(int node)
{
	uint64_t n;

	if (node < 0)
		return 0;
	segments_lock();
	n = segments_own_bytes(node, false);
	segments_unlock();
	return n;
}

static uint64_t n_visible(void)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < segments.n; i++)
		n += segments.lists[i]->state != LIST_PENDING;
	return n;
}

int weir_segment_stats(struct weir_segment_stats *ret)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };

	stats.nodes = segment_host_nodes();
	stats.channels = segment_host_channels();
	stats.ranks = segment_host_ranks();
	segments_lock();
	stats.lists = n_visible();
	stats.bytes = segments_own_bytes(-1, false);
	stats.external = covered(EXTERNAL, -1, false);
	stats.imported = covered(EXTERNAL | IMPORTED, -1, false) -
			 stats.external;
	stats.mask_bits = segments.mask_bits;
	segments_unlock();
	return opts_give(ret, &stats, sizeof(stats), "weir_segment_stats");
}

/* The last IOVA of the list; 0: unknown.  Of an mmap in external memory only
 * its own pages count. */
static uint64_t last_iova(const struct segment_list *list)
{
	size_t page = list->whole.page_size, i, end;
	uint64_t max = 0;

	if (list->whole.iova == WEIR_SEGMENT_NO_IOVA)
		return 0;
	if (!list->iovas)
		return list->last;
	end = (list->iova_skip + list->whole.len - 1) / page;
	for (i = list->iova_skip / page; i <= end; i++)
		if (list->iovas->iova[i] > max)
			max = list->iovas->iova[i];
	return max + page - 1;
}

/* Whether all IOVAs of its table are in the mask. */
static bool table_fits(const struct segment_list *list, unsigned int bits)
{
	const struct iova_table *table = list->iovas;

	return table && !(table->runs[table->n_runs - 1].last >> bits);
}

int list_check_mask(const struct segment_list *list, unsigned int bits,
		    const char *call)
{
	uint64_t last;

	if (!bits || table_fits(list, bits))
		return 0;
	last = last_iova(list);
	if (!(last >> bits))
		return 0;
	return why(-ERANGE, "%s: the IOVAs of %zu bytes at %p reach to %#llx, "
		   "beyond %u bits", call, list->whole.len, list->whole.addr,
		   (unsigned long long)last, bits);
}

int weir_segment_check_mask(unsigned int bits)
{
	int err = 0;
	size_t i;

	if (!bits || bits > 63)
		return why(-EINVAL, "weir_segment_check_mask: %u bits; 1 to 63 "
			   "make a mask", bits);
	segments_lock();
	for (i = 0; i < segments.n && !err; i++)
		err = list_check_mask(segments.lists[i], bits,
				      "weir_segment_check_mask");
	if (!err && (!segments.mask_bits || bits < segments.mask_bits))
		segments.mask_bits = bits;
	segments_unlock();
	return err;
}

int weir_segment_set_mask(unsigned int bits)
{
	if (bits > 63)
		return why(-EINVAL, "weir_segment_set_mask: %u bits; 1 to 63 "
			   "make a mask, 0 none", bits);
	segments_lock();
	segments.mask_bits = bits;
	segments_unlock();
	return 0;
}
