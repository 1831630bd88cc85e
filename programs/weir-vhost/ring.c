/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Rings: requests come by the available ring, and are answered by the used one.
 * While the reactor is awake it looks at the rings itself, and front ends need
 * not say that there is something; before it sleeps, each ring asks for that.
 *
 * A ring whose contents make no sense is broken: it is not read any more until
 * the front end starts it anew.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "weir-vhost.h"

/* In memory of the guest, which it may change at any time. */
static uint16_t load(const __virtio16 *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void store(__virtio16 *p, uint16_t n)
{
	__atomic_store_n(p, n, __ATOMIC_RELEASE);
}

/* Before all that is loaded afterwards: each side stores what it has done, and then
 * looks whether the other is to be told. */
static void store_first(__virtio16 *p, uint16_t n)
{
	__atomic_store_n(p, n, __ATOMIC_SEQ_CST);
}

/* Where the front end says for which index it wants to be told, and where it is
 * said to it. */
static __virtio16 *used_event(const struct ring *ring)
{
	return &ring->avail->ring[ring->num];
}

static __virtio16 *avail_event(const struct ring *ring)
{
	return (__virtio16 *)(void *)&ring->used->ring[ring->num];
}

static uint64_t avail_bytes(const struct ring *ring)
{
	return sizeof(*ring->avail) + (ring->num + 1) * sizeof(__virtio16);
}

static uint64_t used_bytes(const struct ring *ring)
{
	return sizeof(*ring->used) +
	       ring->num * sizeof(struct vring_used_elem) + sizeof(__virtio16);
}

void ring_init(struct ring *ring, struct device *dev, uint32_t index)
{
	*ring = (struct ring){ .dev = dev, .index = index, .kick = -1,
			       .call = -1, .err = -1 };
}

int ring_find(struct ring *ring)
{
	const struct memory *m = &ring->dev->memory;
	uint64_t desc_bytes = ring->num * sizeof(*ring->desc);

	if (ring->addr.desc % 16 || ring->addr.avail % 2 ||
	    ring->addr.used % 4)
		return weir_why_set(-EINVAL, "a ring that is not aligned");
	ring->desc = memory_at_uva(m, ring->addr.desc, desc_bytes);
	ring->avail = memory_at_uva(m, ring->addr.avail, avail_bytes(ring));
	ring->used = memory_at_uva(m, ring->addr.used, used_bytes(ring));
	if (!ring->desc || !ring->avail || !ring->used)
		return weir_why_set(-EFAULT, "a ring that is not in memory");
	return 0;
}

bool ring_can_run(const struct ring *ring)
{
	return ring->started && ring->enabled && !ring->broken &&
	       !ring->dev->waiting && !ring->dev->closing;
}

bool ring_is_busy(const struct ring *ring)
{
	return ring->queue.busy || ring->flushing;
}

void ring_break(struct ring *ring, const char *why)
{
	uint64_t one = 1;

	if (ring->broken)
		return;
	ring->broken = true;
	fprintf(stderr, "weir-vhost: queue %u: %s: it is not served until it is "
		"started again\n", ring->index, why);
	if (ring->err >= 0 && write(ring->err, &one, sizeof(one)) < 0)
		return;
}

/* The used ring's part from @from on, if it is to be copied once more. */
static void log_used(const struct ring *ring, const void *from, uint64_t len)
{
	uint64_t off = (uint64_t)((const uint8_t *)from -
				  (const uint8_t *)ring->used);

	if (ring->addr.flags & VRING_F_LOG &&
	    device_has(ring->dev, VHOST_F_LOG_ALL))
		memory_log_gpa(&ring->dev->memory, ring->addr.log + off, len);
}

/* What the guest is to see of a request. */
static void log_request(const struct ring *ring, const struct request *rq)
{
	const struct iovec *in = rq->pieces + rq->n_out;

	if (!device_has(ring->dev, VHOST_F_LOG_ALL))
		return;
	for (uint32_t i = 0; i < rq->n_in; i++)
		memory_log(&ring->dev->memory, in[i].iov_base, in[i].iov_len);
	if (rq->status)
		memory_log(&ring->dev->memory, rq->status, 1);
}

static bool wants_call(struct ring *ring, uint16_t was)
{
	uint16_t now = ring->used_idx;
	bool first = !ring->signalled_valid;

	if (!device_has(ring->dev, VIRTIO_RING_F_EVENT_IDX))
		return !(load(&ring->avail->flags) & VRING_AVAIL_F_NO_INTERRUPT);
	ring->signalled_valid = true;
	return first || vring_need_event(load(used_event(ring)), now, was);
}

static void call(struct ring *ring, uint16_t was)
{
	uint64_t one = 1;

	if (!wants_call(ring, was)) {
		ring->dev->counts.spared++;
		return;
	}
	ring->dev->counts.calls++;
	/* A counter that is full tells as well. */
	if (ring->call >= 0 && write(ring->call, &one, sizeof(one)) < 0)
		return;
}

/*
 * Answer what is done, all of it by one new index.  The steps are those of the
 * document: whenever this process is killed, the next one can tell what was
 * answered.
 */
static void publish(struct ring *ring)
{
	struct inflight *fl = ring->inflight;
	uint16_t was = ring->used_idx, mask = (uint16_t)(ring->num - 1);
	struct request *first = ring->done, *rq;

	if (!first)
		return;
	ring->done = NULL;
	ring->done_end = &ring->done;
	for (rq = first; rq; rq = rq->next) {
		struct vring_used_elem *e =
			&ring->used->ring[ring->used_idx & mask];

		log_request(ring, rq);
		e->id = rq->head;
		e->len = rq->used_len;
		log_used(ring, e, sizeof(*e));
		ring->used_idx++;
		if (!fl)
			continue;
		fl->desc[rq->head].next = fl->last_batch_head;
		store(&fl->last_batch_head, rq->head);
	}
	store_first(&ring->used->idx, ring->used_idx);
	log_used(ring, &ring->used->idx, sizeof(ring->used->idx));
	for (rq = first; fl && rq; rq = rq->next)
		__atomic_store_n(&fl->desc[rq->head].inflight, 0,
				 __ATOMIC_RELEASE);
	if (fl)
		store(&fl->used_idx, ring->used_idx);
	while (first) {
		rq = first;
		first = rq->next;
		rq->next = ring->free;
		ring->free = rq;
		ring->busy--;
	}
	call(ring, was);
}

/* One descriptor, as it was at one time. */
struct desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags, next;
};

static struct desc read_desc(const struct vring_desc *p)
{
	const volatile struct vring_desc *v = p;

	return (struct desc){ v->addr, v->len, v->flags, v->next };
}

static const char not_in_memory[] = "a descriptor that is not in memory";
static const char too_long[] = "a chain that is too long";

/* Add the memory of @d to @rq.  Returns NULL, or what is wrong. */
static const char *add(struct request *rq, const struct desc *d)
{
	uint32_t n = rq->n_out + rq->n_in;
	int err;

	if (!(d->flags & VRING_DESC_F_WRITE) && rq->n_in)
		return "a descriptor to read from behind one to write to";
	err = memory_map(&rq->ring->dev->memory, d->addr, d->len, rq->pieces,
			 &n, PIECES_MAX);
	if (err)
		return err == -EFAULT ? not_in_memory : too_long;
	if (d->flags & VRING_DESC_F_WRITE)
		rq->n_in = n - rq->n_out;
	else
		rq->n_out = n;
	return NULL;
}

/* A table of the guest's is copied, as it may lie anywhere. */
static const char *add_table(struct request *rq, const struct desc *table)
{
	struct vring_desc descs[DESCS_MAX];
	uint32_t n = table->len / sizeof(*descs), n_iov = 0, left = n, i = 0;
	struct iovec iov[REGIONS_MAX];
	uint8_t *to = (uint8_t *)descs;

	if (!n || table->len % sizeof(*descs) ||
	    table->flags & (VRING_DESC_F_NEXT | VRING_DESC_F_WRITE))
		return "a table that makes no sense";
	if (n > DESCS_MAX)
		return too_long;
	if (memory_map(&rq->ring->dev->memory, table->addr, table->len, iov,
		       &n_iov, REGIONS_MAX))
		return not_in_memory;
	for (uint32_t k = 0; k < n_iov; k++) {
		memcpy(to, iov[k].iov_base, iov[k].iov_len);
		to += iov[k].iov_len;
	}
	for (;;) {
		struct desc d = read_desc(&descs[i]);
		const char *why;

		if (d.flags & VRING_DESC_F_INDIRECT)
			return "a table in a table";
		why = add(rq, &d);
		if (why)
			return why;
		if (!(d.flags & VRING_DESC_F_NEXT))
			return NULL;
		if (!--left)
			return "a chain without an end";
		if (d.next >= n)
			return "a descriptor behind the end of its table";
		i = d.next;
	}
}

/* The chain that begins at @rq->head.  Returns NULL, or what is wrong. */
static const char *walk(struct request *rq)
{
	const struct ring *ring = rq->ring;
	uint32_t limit = ring->num < DESCS_MAX ? ring->num : DESCS_MAX;
	uint32_t i = rq->head;

	for (uint32_t n = 0; n < limit; n++) {
		struct desc d = read_desc(&ring->desc[i]);
		const char *why;

		if (d.flags & VRING_DESC_F_INDIRECT) {
			if (!device_has(ring->dev, VIRTIO_RING_F_INDIRECT_DESC))
				return "a table that was not negotiated";
			return n ? "a table behind other descriptors" :
				   add_table(rq, &d);
		}
		why = add(rq, &d);
		if (why)
			return why;
		if (!(d.flags & VRING_DESC_F_NEXT))
			return NULL;
		if (d.next >= ring->num)
			return "a descriptor behind the end of the ring";
		i = d.next;
	}
	return too_long;
}

static bool begin(struct ring *ring, uint16_t head)
{
	struct request *rq = ring->free;
	const char *why;

	if (head >= ring->num) {
		ring_break(ring, "a descriptor behind the end of the ring");
		return false;
	}
	rq->head = head;
	rq->n_out = 0;
	rq->n_in = 0;
	why = walk(rq);
	if (why) {
		ring_break(ring, why);
		return false;
	}
	ring->free = rq->next;
	ring->busy++;
	request_begin(rq);
	return true;
}

/* Remember that @head is being worked on: a server that follows this one does
 * it again.  Returns whether it makes sense. */
static bool remember(struct ring *ring, uint16_t head)
{
	struct inflight *fl = ring->inflight;

	if (!fl || head >= ring->num)
		return true;
	if (fl->desc[head].inflight) {
		ring_break(ring, "a descriptor that is in flight already");
		return false;
	}
	fl->desc[head].counter = ring->counter++;
	__atomic_store_n(&fl->desc[head].inflight, 1, __ATOMIC_RELEASE);
	return true;
}

/* Requests that another server has left. */
static uint32_t run_again(struct ring *ring)
{
	uint32_t done = 0;

	while (ring->at_again < ring->n_again && ring->free &&
	       !ring->broken) {
		ring->dev->counts.again++;
		begin(ring, ring->again[ring->at_again++].head);
		done++;
	}
	return done;
}

static uint16_t n_available(struct ring *ring)
{
	uint16_t n = (uint16_t)(load(&ring->avail->idx) - ring->last_avail);

	if (n <= ring->num)
		return n;
	ring_break(ring, "more requests than it has descriptors");
	return 0;
}

/* Begin what has come, as far as there is capacity.  Returns how many there
 * were. */
static uint32_t run(struct ring *ring)
{
	uint16_t mask = (uint16_t)(ring->num - 1);
	uint32_t n, done = 0, again;

	if (!ring_can_run(ring))
		return 0;
	again = run_again(ring);
	n = ring->at_again == ring->n_again ? n_available(ring) : 0;
	while (done < n && done < AT_ONCE && ring->free && !ring->broken) {
		uint16_t head = load(&ring->avail->ring[ring->last_avail &
							mask]);

		if (!remember(ring, head))
			break;
		ring->last_avail++;
		done++;
		if (!begin(ring, head))
			break;
	}
	if (!done && !again)
		return 0;
	block_queue_kick(&ring->queue);
	publish(ring);
	return done + again;
}

static void answer(struct ring *ring)
{
	if (ring->started && !ring->dev->closing)
		publish(ring);
}

/* Answer what is done, and begin what has come, and what was gathered while a
 * batch was being written: of that, too, some may end at once. */
static void go_on(struct ring *ring)
{
	answer(ring);
	run(ring);
	block_queue_kick(&ring->queue);
	answer(ring);
	device_check(ring->dev);
}

static void on_flush(struct weir_op *op, int64_t res)
{
	struct ring *ring = weir_container_of(op, struct ring, flush_op);

	(void)res;
	ring->flushing = false;
	go_on(ring);
}

/* When the turn has seen what else is done: one answer for all of it. */
static void on_settled(struct block_queue *q)
{
	struct ring *ring = weir_container_of(q, struct ring, queue);

	if (ring->flushing)
		return;
	ring->flushing = !weir_defer(ring->dev->reactor, &ring->flush_op);
	if (!ring->flushing)
		go_on(ring);
}

void request_done(struct request *rq)
{
	struct ring *ring = rq->ring;

	rq->next = NULL;
	*ring->done_end = rq;
	ring->done_end = &rq->next;
}

void ring_kick(struct ring *ring)
{
	if (ring_can_run(ring) && !ring->flushing &&
	    !weir_defer(ring->dev->reactor, &ring->flush_op))
		ring->flushing = true;
}

static int on_poll(void *arg)
{
	return run(arg) != 0;
}

/* Ask to be told of what comes, and look whether it has come meanwhile. */
static int before_sleep(void *arg, int *fd)
{
	struct ring *ring = arg;

	*fd = ring->kick;
	if (!ring_can_run(ring))
		return 0;
	if (device_has(ring->dev, VIRTIO_RING_F_EVENT_IDX))
		store_first(avail_event(ring), ring->last_avail);
	else
		store_first(&ring->used->flags, 0);
	log_used(ring, avail_event(ring), sizeof(__virtio16));
	log_used(ring, ring->used, sizeof(__virtio16));
	return ring->free && n_available(ring);
}

static void after_sleep(void *arg, int readable)
{
	struct ring *ring = arg;
	uint64_t n;

	if (readable && read(ring->kick, &n, sizeof(n)) > 0)
		ring->dev->counts.kicks++;
	if (ring_can_run(ring) &&
	    !device_has(ring->dev, VIRTIO_RING_F_EVENT_IDX))
		store(&ring->used->flags, VRING_USED_F_NO_NOTIFY);
}

static const struct weir_poll_hook_ops hook_ops = {
	.size = sizeof(hook_ops),
	.name = "ring",
	.poll = on_poll,
	.before_sleep = before_sleep,
	.after_sleep = after_sleep,
};

static int older_first(const void *a, const void *b)
{
	uint64_t x = ((const struct again *)a)->counter;
	uint64_t y = ((const struct again *)b)->counter;

	return x < y ? -1 : x > y;
}

/*
 * The last batch was answered, if the server was killed between the new index
 * of the used ring and what it then says of the batch.  The list may make no
 * sense, and is no longer than the ring.  Returns whether it does.
 */
static bool end_batch(struct inflight *fl, uint32_t num, uint16_t used)
{
	uint16_t batch = (uint16_t)(used - fl->used_idx);
	uint16_t head = load(&fl->last_batch_head);

	if (batch > num)
		return false;
	for (; batch; batch--) {
		if (head >= num)
			return false;
		fl->desc[head].inflight = 0;
		head = load(&fl->desc[head].next);
	}
	return true;
}

/* What another server has left, in the order in which it came. */
static int recover(struct ring *ring)
{
	struct inflight *fl = ring->inflight;
	uint16_t used = ring->used_idx;
	bool fresh = !fl->version, ended;
	struct again *again;

	/* What .desc_num says may have become another number. */
	if (ring->num != ring->dev->inflight_num || fl->desc_num != ring->num)
		return weir_why_set(-EINVAL, "requests in flight of a ring of "
				    "another size");
	ended = !fresh && end_batch(fl, ring->num, used);
	fl->version = 1;
	for (uint32_t i = 0; i < ring->num && !fresh; i++) {
		if (!fl->desc[i].inflight)
			continue;
		again = &ring->again[ring->n_again++];
		again->head = (uint16_t)i;
		again->counter = __atomic_load_n(&fl->desc[i].counter,
						 __ATOMIC_RELAXED);
		if (again->counter >= ring->counter)
			ring->counter = again->counter + 1;
	}
	if (ring->n_again && !ended)
		return weir_why_set(-EINVAL,
				    "requests in flight that make no sense");
	store(&fl->used_idx, used);
	qsort(ring->again, ring->n_again, sizeof(*ring->again), older_first);
	if (ring->n_again)
		ring->last_avail = (uint16_t)(used + ring->n_again);
	return 0;
}

static int make_requests(struct ring *ring)
{
	uint32_t n = ring->num < REQUESTS ? ring->num : REQUESTS;

	ring->again = calloc(ring->num, sizeof(*ring->again));
	ring->requests = calloc(n, sizeof(*ring->requests));
	if (!ring->again || !ring->requests)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct request *rq = &ring->requests[i];

		rq->ring = ring;
		rq->io.queue = &ring->queue;
		rq->io.fn = blk_on_io;
		rq->next = ring->free;
		ring->free = rq;
	}
	return block_queue_begin(&ring->queue, &ring->dev->block,
				 &ring->dev->core, n, on_settled);
}

static int start(struct ring *ring)
{
	int err = ring_find(ring);

	if (!err)
		err = make_requests(ring);
	if (err)
		return err;
	ring->used_idx = load(&ring->used->idx);
	if (ring->inflight)
		err = recover(ring);
	return err ? err : ring_watch(ring);
}

int ring_watch(struct ring *ring)
{
	weir_poll_hook_destroy(ring->hook);
	ring->hook = NULL;
	return weir_poll_hook_create(&ring->hook, ring->dev->reactor, &hook_ops,
				     ring);
}

/* Nothing is in flight. */
static void stop(struct ring *ring)
{
	weir_poll_hook_destroy(ring->hook);
	ring->hook = NULL;
	block_queue_end(&ring->queue);
	free(ring->requests);
	free(ring->again);
	ring->requests = NULL;
	ring->again = NULL;
	ring->started = false;
}

int ring_start(struct ring *ring)
{
	int err;

	ring->free = NULL;
	ring->done = NULL;
	ring->done_end = &ring->done;
	ring->busy = 0;
	ring->n_again = 0;
	ring->at_again = 0;
	ring->counter = 0;
	ring->broken = false;
	ring->signalled_valid = false;
	weir_op_init(&ring->flush_op, on_flush);
	err = start(ring);
	if (err) {
		stop(ring);
		return err;
	}
	ring->started = true;
	ring_kick(ring);
	return 0;
}

void ring_close(struct ring *ring)
{
	if (ring->started)
		stop(ring);
	close_one(&ring->kick);
	close_one(&ring->call);
	close_one(&ring->err);
}
