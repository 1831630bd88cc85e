/* SPDX-License-Identifier: CC0-1.0 */

/*
 * One job between two lists: the pieces of the source are gathered, and
 * scattered over those of the destination, which are cut in another way.  A
 * list is bufs, one after the other; what is copied is appended to the data of
 * the destination's.
 */

#include <stdio.h>
#include <string.h>

#include <weir/buf.h>
#include <weir/dma.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/reactor.h>

static char memory[4096];
static struct weir_inventory *inv;
static struct weir_mmap *map;

/* Append to the list @head a buf of @len bytes at @off, with @text in it. */
static int add(struct weir_buf **head, size_t off, size_t len,
	       const char *text)
{
	struct weir_buf *buf;
	int err = weir_inventory_get(&buf, inv, map, memory + off, len, NULL,
				     strlen(text));

	if (err)
		return err;
	memcpy(memory + off, text, strlen(text));
	if (*head)
		return weir_buf_chain(*head, buf);
	*head = buf;
	return 0;
}

static void show(const char *what, const struct weir_buf *buf)
{
	printf("%s:", what);
	for (; buf; buf = weir_buf_next(buf))
		printf(" \"%.*s\"", (int)weir_buf_data_len(buf),
		       (char *)weir_buf_data(buf));
	printf("\n");
}

static void on_copied(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

static int64_t copy(struct weir_dma *dma, struct weir_buf *dst,
		    struct weir_buf *src)
{
	struct weir_job job;
	int64_t res;

	weir_job_init(&job, on_copied);
	weir_job_copy(&job, weir_operand_buf(dst), weir_operand_buf(src));
	job.op.data = &res;
	res = weir_job_start(dma, &job);
	while (weir_op_is_busy(&job.op))
		weir_reactor_turn(weir_dma_reactor(dma), WEIR_FOREVER);
	return res;
}

int main(void)
{
	struct weir_buf *src = NULL, *dst = NULL;
	struct weir_reactor *r;
	struct weir_dma *dma;
	int64_t n, too_much;
	int bad;

	if (weir_reactor_create(&r, NULL) || weir_mmap_create(&map, NULL) ||
	    weir_mmap_set_memrange(map, memory, sizeof(memory)) ||
	    weir_mmap_set_permissions(map, WEIR_MMAP_WRITE) ||
	    weir_mmap_start(map) || weir_inventory_create(&inv, r, NULL) ||
	    weir_inventory_attach(inv, map) ||
	    weir_dma_create(&dma, r, NULL) || weir_dma_start(dma))
		return fprintf(stderr, "17-lists: %s\n", weir_why()), 1;

	/* Three pieces, anywhere, into two, one of which has data already. */
	if (add(&src, 0, 10, "A weir") || add(&src, 1000, 10, " regulates") ||
	    add(&src, 500, 10, " a stream.") ||
	    add(&dst, 2000, 16, "> ") || add(&dst, 3000, 20, ""))
		return fprintf(stderr, "17-lists: %s\n", weir_why()), 1;
	show("source", src);
	n = copy(dma, dst, src);
	show("destination", dst);
	printf("%lld bytes; %llu in the list\n", (long long)n,
	       (unsigned long long)weir_buf_list_data_len(dst));

	/* There is no space for it once more: nothing begins, nothing
	 * changes. */
	too_much = copy(dma, dst, src);
	printf("once more: %s\n", strerror((int)-too_much));
	bad = n != 26 || too_much >= 0 || weir_buf_list_data_len(dst) != 28 ||
	      memcmp(memory + 2000, "> A weir regulat", 16) ||
	      memcmp(memory + 3000, "es a stream.", 12);

	/* With the head goes the list. */
	weir_buf_put(src);
	weir_buf_put(dst);
	return weir_dma_destroy(dma) || weir_inventory_destroy(inv) ||
	       weir_mmap_destroy(map) || weir_reactor_destroy(r) || bad;
}
