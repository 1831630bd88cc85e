/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A domain of one's own: a file in which everything is encrypted, with a key
 * that comes with each transfer.  The tutorial is docs/tutorial-domain.md.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/dma.h>
#include <weir/domain-user.h>
#include <weir/file.h>
#include <weir/job.h>
#include <weir/reactor.h>

/* The store, which does one transfer at a time. */
struct store {
	int fd;
	struct weir_op op;		/* Our own read or write. */
	struct weir_op *user;		/* What it is for; NULL: we are free. */
	const struct weir_domain_move *move;
	char copy[65536];		/* Encrypted, on the way to the file. */
};

/* A byte to hide another with.  Put a cipher here that was made for disks. */
static char pad(uint64_t off, uint64_t key)
{
	uint64_t x = (key + off / 8) * UINT64_C(0x9e3779b97f4a7c15);

	return (char)((x ^ x >> 31) >> off % 8 * 8);
}

/* Encrypt or decrypt @n bytes of @iov: to @to, or in place if that is NULL. */
static void cipher(char *to, const struct iovec *iov, int64_t n,
		   const struct weir_domain_side *side)
{
	uint64_t off = (uintptr_t)side->iov->iov_base;
	uint64_t key = *(uint64_t *)side->ctx;

	for (; n > 0; iov++)
		for (size_t i = 0; i < iov->iov_len && n > 0; i++, n--) {
			char *p = (char *)iov->iov_base + i;

			*(to ? to++ : p) = *p ^ pad(off++, key);
		}
}

/* The file has done its part: the transfer is done. */
static void on_file(struct weir_op *op, int64_t res)
{
	struct store *store = weir_container_of(op, struct store, op);
	struct weir_op *user = store->user;

	if (store->move->src.ctx)
		cipher(NULL, store->move->dst.iov, res, &store->move->src);
	store->user = NULL;
	weir_domain_complete(user, res);
}

/* Pull and push: begin, or refuse. */
static int store_move(struct weir_domain *d, struct weir_reactor *r,
		      struct weir_op *op, const struct weir_domain_move *m)
{
	struct store *s = weir_domain_ctx(d);
	const struct weir_domain_side *side = m->src.ctx ? &m->src : &m->dst;
	uint64_t off = (uintptr_t)side->iov->iov_base;
	size_t len = side->iov->iov_len;
	int err;

	if (!side->ctx)
		return -EACCES; /* No key. */
	if (side->n_iov != 1 || len > sizeof(s->copy))
		return -EMSGSIZE;
	if (s->user)
		return -EAGAIN;
	weir_op_init(&s->op, on_file);
	if (m->dst.ctx)
		cipher(s->copy, m->src.iov, (int64_t)len, side);
	err = m->src.ctx ? weir_readv(r, &s->op, s->fd, m->dst.iov,
				      m->dst.n_iov, off) :
			   weir_write(r, &s->op, s->fd, s->copy, len, off);
	s->move = m;
	s->user = err ? NULL : op;
	return err;
}

/* Our read or write is to end early, and with it the transfer. */
static void store_cancel(struct weir_domain *d, struct weir_op *op)
{
	(void)op;
	weir_op_cancel(&((struct store *)weir_domain_ctx(d))->op);
}

static void on_copied(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

static int64_t copy(struct weir_dma *dma, struct weir_operand to,
		    struct weir_operand from)
{
	struct weir_job job;
	int64_t res;

	weir_job_init(&job, on_copied);
	weir_job_copy(&job, to, from);
	job.op.data = &res;
	res = weir_job_start(dma, &job);
	while (weir_op_is_busy(&job.op))
		weir_reactor_turn(weir_dma_reactor(dma), WEIR_FOREVER);
	return res;
}

int main(void)
{
	char text[] = "Nobody is to read this.", back[sizeof(text)];
	static struct store store;
	struct weir_domain_opts opts = { .size = sizeof(opts), .ctx = &store,
					 .kind = WEIR_DOMAIN_USER };
	struct weir_operand mem = weir_operand_mem(text, sizeof(text)), there;
	FILE *file = tmpfile();
	uint64_t key = 0x5eed;
	struct weir_reactor *r;
	struct weir_domain *d;
	struct weir_dma *dma;
	int bad;

	if (!file || weir_reactor_create(&r, NULL) ||
	    weir_dma_create(&dma, r, NULL) || weir_dma_start(dma) ||
	    weir_domain_create(&d, &opts) ||
	    weir_domain_set_pull(d, store_move) ||
	    weir_domain_set_push(d, store_move) ||
	    weir_domain_set_cancel(d, store_cancel))
		return fprintf(stderr, "12-user-domain: %s\n", weir_why()), 1;
	store.fd = fileno(file);
	there = weir_operand_at(d, 1000, sizeof(text));
	bad = copy(dma, there, mem) != -EACCES;
	there.ctx = &key;
	bad |= copy(dma, there, mem) < 0 || fseek(file, 1000, SEEK_SET) ||
	       !fread(back, 1, sizeof(back), file) || !memcmp(back, text, 8);
	bad |= copy(dma, weir_operand_mem(back, sizeof(back)), there) < 0 ||
	       memcmp(back, text, sizeof(text));
	printf("from the store: %.23s\n", back);
	fclose(file);
	return bad || weir_dma_destroy(dma) || weir_domain_destroy(d) ||
	       weir_reactor_destroy(r);
}
