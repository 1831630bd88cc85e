/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts of bufs by tag, to find holders that did not put them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem/tags.h"

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

void tags_add(struct tags *tags, const struct weir_buf *buf)
{
	const char *tag = weir_buf_tag(buf);
	uint32_t i;

	for (i = 0; i < tags->n; i++)
		if (same(tags->owner[i].tag, tag))
			break;
	if (i == TAGS_MAX) {
		tags->others++;
		return;
	}
	if (i == tags->n)
		tags->owner[tags->n++].tag = tag;
	tags->owner[i].bufs++;
}

static int by_number(const void *va, const void *vb)
{
	const struct weir_buf_owner *a = va, *b = vb;

	return a->bufs < b->bufs ? 1 : a->bufs > b->bufs ? -1 : 0;
}

void tags_sort(struct tags *tags)
{
	qsort(tags->owner, tags->n, sizeof(tags->owner[0]), by_number);
}

/* Texts that do not fit are left out; the dots show that. */
const char *tags_text(struct tags *tags)
{
	const struct weir_buf_owner *o = tags->owner;
	size_t capacity = sizeof(tags->text) - 8, at = 0;
	uint32_t i;
	int n;

	tags_sort(tags);
	tags->text[0] = '\0';
	if (!tags->n || (tags->n == 1 && !o->tag))
		return tags->text;
	for (i = 0; i < tags->n; i++) {
		n = snprintf(tags->text + at, capacity - at, "%s%llu %s%s",
			     i ? ", " : " (", (unsigned long long)o[i].bufs,
			     o[i].tag ? "by " : "untagged",
			     o[i].tag ? o[i].tag : "");
		if (n < 0 || (size_t)n >= capacity - at)
			break;
		at += (size_t)n;
	}
	snprintf(tags->text + at, sizeof(tags->text) - at, "%s)",
		 i < tags->n || tags->others ? ", ..." : "");
	return tags->text;
}
