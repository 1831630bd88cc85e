/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The pipes of a core, for flows that carry much: what is spliced through one
 * is not copied.  There are few, because each is two descriptors and may hold
 * much of the kernel's memory; a flow that gets none goes on by its buffer.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "weir-proxy.h"

#define PIPES_MAX 64		/* Of a core. */

static void pipe_free(struct core *c, struct pipe *p)
{
	close(p->out);
	close(p->in);
	free(p);
	c->n_pipes--;
}

static struct pipe *pipe_make(struct core *c)
{
	struct pipe *p = c->n_pipes < PIPES_MAX ? malloc(sizeof(*p)) : NULL;
	int fds[2];

	if (!p || pipe2(fds, O_CLOEXEC | O_NONBLOCK)) {
		free(p);
		return NULL;
	}
	p->out = fds[0];
	p->in = fds[1];
	c->n_pipes++;
	/* The kernel refuses when a user has many; a small one is no gain. */
	if (fcntl(p->in, F_SETPIPE_SZ, PIPE_BYTES) < PIPE_BYTES) {
		pipe_free(c, p);
		return NULL;
	}
	return p;
}

struct pipe *pipe_get(struct core *c)
{
	struct pipe *p = c->pipes;

	if (!p)
		return pipe_make(c);
	c->pipes = p->next;
	return p;
}

/* A pipe with bytes of a connection in it is not given to another. */
void pipe_put(struct core *c, struct pipe *p, bool empty)
{
	if (!empty) {
		pipe_free(c, p);
		return;
	}
	p->next = c->pipes;
	c->pipes = p;
}

void pipes_free(struct core *c)
{
	struct pipe *p;

	while ((p = c->pipes)) {
		c->pipes = p->next;
		pipe_free(c, p);
	}
}
