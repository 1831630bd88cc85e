/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The buffers of a core.  A free one is the next that is used, while its bytes
 * are still in the cache; what a burst has left over is given back.
 */
#include <stdlib.h>

#include "weir-proxy.h"

#define FREE_MAX 64

struct buffer {
	struct buffer *next;
};

char *buffer_get(struct core *c)
{
	struct buffer *b = c->buffers;

	if (!b)
		return malloc(c->buffer_size);
	c->buffers = b->next;
	c->n_buffers--;
	return (char *)b;
}

void buffer_put(struct core *c, char *buf)
{
	struct buffer *b = (struct buffer *)(void *)buf;

	if (c->n_buffers == FREE_MAX) {
		free(b);
		return;
	}
	b->next = c->buffers;
	c->buffers = b;
	c->n_buffers++;
}

void buffers_free(struct core *c)
{
	struct buffer *b;

	while ((b = c->buffers)) {
		c->buffers = b->next;
		free(b);
	}
	c->n_buffers = 0;
}
