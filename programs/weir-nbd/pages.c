/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Long replies of memory without a copy: what goes to the socket is not bytes
 * but the pages that have them, through a pipe.  The client's system copies
 * them when the client reads, so it may see what others write until then.
 * That is as it should be: a read whose reply was not received is not over,
 * and has no order with writes.  Pages that are given back meanwhile stay as
 * long as they are needed; the socket counts them as it counts bytes.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "weir-nbd.h"

/* Of less than a whole piece a copy costs no more than the system calls do. */
#define PAGES_MIN PIECE

/* It is made when it is first needed; many clients never do. */
static bool have_pipe(struct conn *c)
{
	struct pages *p = &c->pages;

	if (!p->tried && !pipe2(p->pipe, O_CLOEXEC)) {
		p->open = true;
		/* A smaller one is filled more often. */
		fcntl(p->pipe[1], F_SETPIPE_SZ, PIECE);
	}
	p->tried = true;
	return p->open;
}

/* Whether the @len bytes of @rq go this way, behind what c->iov has. */
bool pages_take(struct conn *c, const struct request *rq, uint32_t len)
{
	if (len < PAGES_MIN || c->tls || !c->export->base || !have_pipe(c))
		return false;
	c->pages.rest = (struct iovec){ rq->data, len };
	return true;
}

bool pages_left(const struct conn *c)
{
	return c->pages.in_pipe || c->pages.rest.iov_len;
}

static int fill(struct pages *p)
{
	ssize_t n = vmsplice(p->pipe[1], &p->rest, 1, SPLICE_F_NONBLOCK);

	if (n < 0)
		return -errno;
	p->rest.iov_base = (uint8_t *)p->rest.iov_base + n;
	p->rest.iov_len -= (size_t)n;
	p->in_pipe = (uint32_t)n;
	return 0;
}

/* Start c->tx_op with some of what is left. */
int pages_send(struct conn *c)
{
	struct pages *p = &c->pages;
	int err = p->in_pipe ? 0 : fill(p);

	return err ? err : weir_splice(c->core->reactor, &c->tx_op, p->pipe[0],
				       c->fd, p->in_pipe);
}

void pages_sent(struct conn *c, int64_t n)
{
	c->pages.in_pipe -= (uint32_t)n;
}

void pages_end(struct conn *c)
{
	if (!c->pages.open)
		return;
	close(c->pages.pipe[0]);
	close(c->pages.pipe[1]);
}
