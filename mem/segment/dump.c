/* SPDX-License-Identifier: BSD-3-Clause */

/* The map of segments, as text. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/domain.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/segment/table.h"

static int put(int fd, const char *text)
{
	size_t len = strlen(text);
	ssize_t n;

	while (len) {
		n = fault("write") ? (errno = EIO, -1) :
				     write(fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return why(-errno, "weir_segment_dump: fd %d: %s", fd,
				   strerror(errno));
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

static void say_flags(char *buf, size_t capacity, uint32_t flags)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} names[] = {
		{ WEIR_SEGMENT_EXTERNAL, "external" },
		{ WEIR_SEGMENT_IMPORTED, "imported" },
		{ WEIR_SEGMENT_HUGE, "huge" },
		{ WEIR_SEGMENT_DO_NOT_FREE, "do-not-free" },
		{ WEIR_SEGMENT_DIRTY, "dirty" },
		{ WEIR_SEGMENT_LOCKED, "locked" },
	};
	size_t i, at = 0;

	buf[0] = '\0';
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (flags & names[i].flag)
			at += (size_t)snprintf(buf + at, capacity - at, " %s",
					       names[i].name);
}

static void say_iova(char *buf, size_t capacity, const struct weir_segment *seg)
{
	if (seg->iova == WEIR_SEGMENT_NO_IOVA)
		snprintf(buf, capacity, "unknown");
	else if (seg->iova == (uintptr_t)seg->addr)
		snprintf(buf, capacity, "virtual");
	else
		snprintf(buf, capacity, "%#llx", (unsigned long long)seg->iova);
}

static int put_list(const struct weir_segment *seg, void *arg)
{
	char line[256], flags[96], iova[32];

	say_flags(flags, sizeof(flags), seg->flags);
	say_iova(iova, sizeof(iova), seg);
	snprintf(line, sizeof(line),
		 "list %llu: %zu bytes at %p, pages of %zu, node %d, "
		 "iova %s, fd %d, domain kind %u,%s\n",
		 (unsigned long long)seg->list, seg->len, seg->addr,
		 seg->page_size, seg->node, iova, seg->fd, seg->domain_kind,
		 *flags ? flags : " no flags");
	return put(*(const int *)arg, line);
}

int weir_segment_dump(int fd)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	char line[256];
	int err = weir_segment_walk_lists(put_list, &fd);

	if (err)
		return err;
	weir_segment_stats(&stats);
	snprintf(line, sizeof(line), "total: %llu lists, %llu bytes, %llu "
		 "external, %llu imported, %u nodes, %u channels, %u ranks, "
		 "mask of %u bits\n", (unsigned long long)stats.lists,
		 (unsigned long long)stats.bytes,
		 (unsigned long long)stats.external,
		 (unsigned long long)stats.imported, stats.nodes,
		 stats.channels, stats.ranks, stats.mask_bits);
	return put(fd, line);
}
