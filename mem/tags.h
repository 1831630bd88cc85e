/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_TAGS_H
#define WEIR_MEM_TAGS_H

/* The holders of the bufs that are out: a count and a text for each tag. */

#include "mem/buf-internal.h"

/* Tags that are counted separately; the rest is "others". */
#define TAGS_MAX 32

struct tags {
	uint32_t n;
	uint64_t others;
	struct weir_buf_owner owner[TAGS_MAX];
	char text[128];
};

/* Count @buf, which is out. */
void tags_add(struct tags *tags, const struct weir_buf *buf);

/* The tag with the most bufs comes first. */
void tags_sort(struct tags *tags);

/* " (3 by reader, 1 untagged)", or nothing if no buf has a tag. */
const char *tags_text(struct tags *tags);

#endif /* WEIR_MEM_TAGS_H */
