/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Data buffers: a shared pool has the memory, and the pool of each reactor hands
 * it out.  Here one reactor takes both buffers.  A third request waits, first come
 * first served, and gets the buffer that is put next.
 */

#include <stdio.h>
#include <string.h>

#include <weir/buf.h>
#include <weir/pool.h>
#include <weir/reactor.h>
#include <weir/shared-pool.h>

#define BUFS 2

static struct weir_buf *waited_for;

static void on_buffer(struct weir_op *op, int64_t res)
{
	if (res < 0)
		fprintf(stderr, "36-pools: %s\n", strerror((int)-res));
	else
		waited_for = weir_pool_taken(op);
}

/* Take all buffers, wait for one more, and put one. */
static int use(struct weir_reactor *r, struct weir_pool *pool)
{
	struct weir_buf *bufs[BUFS], *none;
	struct weir_op op;
	int err = 0;

	for (int i = 0; i < BUFS && !err; i++)
		err = weir_pool_get(&bufs[i], pool);
	if (err)
		return err;
	for (int i = 0; i < BUFS; i++)
		weir_buf_set_tag(bufs[i], "a request");
	err = weir_pool_get(&none, pool);
	printf("a third buffer now: %s\n", strerror(-err));

	weir_op_init(&op, on_buffer);
	err = weir_pool_wait(pool, &op);
	if (err)
		return err;
	weir_buf_put(bufs[0]);
	while (weir_op_is_busy(&op))
		weir_reactor_turn(r, WEIR_FOREVER);
	printf("a third buffer later: %s\n",
	       waited_for == bufs[0] ? "the one that was put" : "another");
	err = weir_pool_destroy(pool);
	printf("destroy now: %s\n", err ? weir_why() : "done");

	weir_buf_put(bufs[1]);
	if (waited_for)
		weir_buf_put(waited_for);
	return waited_for == bufs[0] ? 0 : -1;
}

int main(void)
{
	struct weir_shared_pool_class class = { .buf_size = 65536, .bufs = BUFS };
	struct weir_shared_pool_opts shared_opts = {
		.size = sizeof(shared_opts), .classes = &class, .n_classes = 1,
	};
	struct weir_pool_opts opts = { .size = sizeof(opts), .cache = 1 };
	struct weir_shared_pool *shared;
	struct weir_pool *pool;
	struct weir_reactor *r;
	char text[1024];
	int err;

	err = weir_reactor_create(&r, NULL);
	if (!err)
		err = weir_shared_pool_create(&shared, &shared_opts);
	if (err)
		return fprintf(stderr, "36-pools: %s\n", weir_why()), 1;
	opts.shared_pool = shared;
	err = weir_pool_create(&pool, r, &opts);
	if (err)
		return fprintf(stderr, "36-pools: %s\n", weir_why()), 1;
	weir_shared_pool_describe(shared, text, sizeof(text));
	printf("%s", text);

	err = use(r, pool);
	return err || weir_pool_destroy(pool) ||
	       weir_shared_pool_destroy(shared) || weir_reactor_destroy(r);
}
