/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels in the loop: a queue, its users, and its failure. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "rdma/channel-internal.h"

/*
 * Channels that fail: how the failure is found, and which users are told.
 * Users inside the library that have work on the channel come first, so that
 * their work has ended when the creator of the channel is told.
 */

/* All there are, for what any thread reads of a device's events. */
static struct {
	pthread_mutex_t lock;
	struct weir_channel *first;
} channels = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void channel_list_add(struct weir_channel *ch)
{
	pthread_mutex_lock(&channels.lock);
	ch->next = channels.first;
	channels.first = ch;
	pthread_mutex_unlock(&channels.lock);
}

/* Under the lock, because any thread may read a device's events. */
static void channel_list_del(struct weir_channel *ch)
{
	struct weir_channel **p;

	pthread_mutex_lock(&channels.lock);
	for (p = &channels.first; *p != ch; p = &(*p)->next)
		;
	*p = ch->next;
	pthread_mutex_unlock(&channels.lock);
}

void channel_cq_failed(const struct ibv_cq *cq)
{
	struct weir_channel *ch;

	pthread_mutex_lock(&channels.lock);
	for (ch = channels.first; ch && ch->cq != cq; ch = ch->next)
		;
	if (ch) {
		atomic_store(&ch->failed, true);
		weir_object_notify(ch->obj);
	}
	pthread_mutex_unlock(&channels.lock);
}

void channel_user_add(struct weir_channel *ch, struct channel_user *user)
{
	rdma_check_thread(ch->reactor);
	user->next = ch->users;
	user->pprev = &ch->users;
	if (user->next)
		user->next->pprev = &user->next;
	ch->users = user;
}

void channel_user_del(struct channel_user *user)
{
	if (!user->pprev)
		return;
	*user->pprev = user->next;
	if (user->next)
		user->next->pprev = user->pprev;
	user->pprev = NULL;
}

/* Tell all, if there is something to tell.  Returns how many callbacks of the
 * user's that was.  @ch may be gone then. */
static unsigned int channel_tell_failure(struct weir_channel *ch)
{
	struct channel_user *user;

	if (!channel_has_to_tell(ch))
		return 0;
	ch->told = true;
	while ((user = ch->users)) {
		channel_user_del(user);
		user->failed(user, -EIO);
	}
	if (ch->fn)
		ch->fn(ch, -EIO, ch->arg);
	return 1;
}

/*
 * Completion channels; docs/internals/rdma.md says why no completion is lost.
 *
 * Completions that were polled are in .wc, from .head to .tail, until a turn
 * delivers them.  The queue is polled again when .wc is empty.
 */

#define DEPTH 256
#define BATCH 64
#define CAPACITY_MAX (1u << 24) /* Limit of a growing queue. */
#define ACK_EVERY 32	/* Each takes a lock in rdma-core. */

/* Up to @max behind what is there.  Returns how many. */
static uint32_t poll_cq(struct weir_channel *ch, uint32_t max)
{
	int n;

	if (atomic_load(&ch->failed))
		return 0;
	n = ibv_poll_cq(ch->cq, (int)max, ch->wc + ch->tail);
	ch->stats.polls++;
	if (unlikely(n < 0))
		atomic_store(&ch->failed, true);
	if (n <= 0) {
		ch->stats.empty_polls++;
		return 0;
	}
	ch->tail += (uint32_t)n;
	return (uint32_t)n;
}

/* Whether there is something to tell, polled now or before. */
static bool fill(struct weir_channel *ch)
{
	if (ch->head == ch->tail) {
		ch->head = ch->tail = 0;
		poll_cq(ch, ch->batch);
	}
	if (ch->event_seen) {
		ch->event_seen = false;
		ch->stats.empty_events += ch->head == ch->tail;
	}
	return ch->head < ch->tail;
}

/* One event will follow the next completion; not those that are there. */
static void arm(struct weir_channel *ch)
{
	debug_check(!ch->armed);
	if (atomic_load(&ch->failed))
		return;
	if (ibv_req_notify_cq(ch->cq, 0)) {
		atomic_store(&ch->failed, true);
		return;
	}
	ch->armed = true;
	ch->stats.arms++;
}

static int channel_poll(void *arg)
{
	struct weir_channel *ch = arg;

	return fill(ch) || channel_has_to_tell(ch);
}

/* The second poll finds completions that came between the first poll and the
 * arm. */
static bool may_not_sleep(struct weir_channel *ch)
{
	if (fill(ch))
		return true;
	if (!ch->armed) {
		arm(ch);
		fill(ch);
	}
	return ch->head < ch->tail || channel_has_to_tell(ch);
}

static int before_sleep(void *arg, int *fd)
{
	struct weir_channel *ch = arg;

	if (may_not_sleep(ch))
		return 1;
	*fd = ch->armed ? ch->comp->fd : -1; /* Not armed: it has failed. */
	return 0;
}

/* Left over where some was forgotten: to the front, where there is capacity. */
static void move_up(struct weir_channel *ch)
{
	memmove(ch->wc, ch->wc + ch->head,
		(ch->tail - ch->head) * sizeof(*ch->wc));
	ch->tail -= ch->head;
	ch->head = 0;
}

static unsigned int tell(struct weir_channel *ch, uint32_t max)
{
	uint32_t batch = ch->batch < max ? ch->batch : max;
	unsigned int i, n = 0;
	struct weir_wr *wr;
	struct ibv_wc *wc;

	if (ch->head)
		move_up(ch);
	ch->delivering = true;
	for (i = 0; i < batch && ch->head < ch->tail; i++) {
		wc = &ch->wc[ch->head++];
		wr = (struct weir_wr *)(uintptr_t)wc->wr_id;
		if (!wr)
			continue;
		ch->stats.completions++;
		n++;
		wr->fn(wr, wc);
		if (ch->closed)
			break;
	}
	ch->delivering = false;
	free(ch->wc_told);
	ch->wc_told = NULL;
	return n;
}

/* The last reference: nothing of @ch is on the stack any more. */
static void channel_put(struct weir_channel *ch)
{
	if (--ch->refs)
		return;
	free(ch->wc);
	free(ch);
}

static int deliver(void *arg, uint32_t max)
{
	struct weir_channel *ch = arg;
	unsigned int n;

	if (!fill(ch))
		return (int)channel_tell_failure(ch);
	ch->refs++;
	n = tell(ch, max);
	channel_put(ch);
	return (int)n;
}

static void ack(struct weir_channel *ch)
{
	if (ch->unacked)
		ibv_ack_cq_events(ch->cq, ch->unacked);
	ch->unacked = 0;
}

/* Armed once at a time, so there are few. */
static void after_sleep(void *arg, int readable)
{
	struct weir_channel *ch = arg;
	struct ibv_cq *cq;
	void *cq_arg;

	if (!readable)
		return;
	while (!ibv_get_cq_event(ch->comp, &cq, &cq_arg)) {
		ch->stats.events++;
		ch->armed = false;
		ch->event_seen = true;
		if (++ch->unacked == ACK_EVERY)
			ack(ch);
	}
	if (errno != EAGAIN && errno != EINTR)
		atomic_store(&ch->failed, true);
}

static const struct weir_poll_hook_ops hook_ops = {
	.size = sizeof(hook_ops),
	.name = "channel",
	.poll = channel_poll,
	.deliver = deliver,
	.before_sleep = before_sleep,
	.after_sleep = after_sleep,
};

static int check_opts(struct ibv_context *ctx,
		      const struct weir_channel_opts *opts)
{
	if (!ctx)
		return why(-EINVAL, "weir_channel_create: no device context");
	if (opts->reserved)
		return why(-EINVAL, "weir_channel_create: .reserved is not 0");
	if (opts->depth > INT_MAX)
		return why(-EINVAL, "weir_channel_create: .depth %u is more "
			   "than any device has", opts->depth);
	if (opts->vector >= (uint32_t)ctx->num_comp_vectors)
		return why(-EINVAL, "weir_channel_create: .vector %u; the "
			   "device has %d", opts->vector,
			   ctx->num_comp_vectors);
	return 0;
}

/* rdma-core's errno, if it has set it. */
static int error(const char *what)
{
	int err = errno > 0 ? -errno : -EIO;

	return why(err, "weir_channel_create: %s failed: error %d; is .depth "
		   "more than the device has, or ulimit -n or -l too low?",
		   what, -err);
}

/* A fault point before a call that sets errno. */
static bool fails(const char *name, int err)
{
	errno = weir_fault(name) ? err : 0;
	return errno;
}

static int open_cq(struct weir_channel *ch, struct ibv_context *ctx,
		   const struct weir_channel_opts *opts)
{
	int depth = opts->depth ? (int)opts->depth : DEPTH;

	if (!fails("ibv_create_comp_channel", EMFILE))
		ch->comp = ibv_create_comp_channel(ctx);
	if (!ch->comp)
		return error("ibv_create_comp_channel()");
	if (!fails("ibv_create_cq", ENOMEM))
		ch->cq = ibv_create_cq(ctx, depth, NULL, ch->comp,
				       (int)opts->vector);
	return ch->cq ? 0 : error("ibv_create_cq()");
}

/* Allocate for a batch that is being delivered and a full queue. */
static int make_capacity(struct weir_channel *ch,
			 const struct weir_channel_opts *opts)
{
	ch->stats.capacity = (uint32_t)ch->cq->cqe;
	ch->batch = opts->batch ? opts->batch : BATCH;
	if (ch->batch > ch->stats.capacity)
		ch->batch = ch->stats.capacity;
	ch->wc_max = ch->batch + ch->stats.capacity;
	ch->wc = mem_calloc(ch->wc_max, sizeof(*ch->wc));
	return ch->wc ? 0 : why(-ENOMEM, "weir_channel_create: no memory");
}

static int open_all(struct weir_channel *ch, struct weir_reactor *r,
		    struct ibv_context *ctx,
		    const struct weir_channel_opts *opts)
{
	int err = open_cq(ch, ctx, opts);

	if (!err)
		err = make_capacity(ch, opts);
	if (err)
		return err;
	if (verbs_fd_nonblock(ch->comp->fd))
		return why(-ENOMEM, "weir_channel_create: its descriptor "
			   "cannot be made non-blocking");
	ch->fn = opts->failed;
	ch->arg = opts->arg;
	ch->reactor = r;
	ch->refs = 1;
	return weir_poll_hook_create(&ch->hook, r, &hook_ops, ch);
}

static void undo(struct weir_channel *ch)
{
	if (ch->cq)
		ibv_destroy_cq(ch->cq);
	if (ch->comp)
		ibv_destroy_comp_channel(ch->comp);
	weir_object_destroy(ch->obj);
	free(ch->wc);
	free(ch);
}

static const struct weir_object_field fields[] = {
	FIELD_COUNT("completions", "Completions told"),
	FIELD_COUNT("polls", "Polls of the completion queue"),
	FIELD_COUNT("empty_polls", "Of them, those that found nothing"),
	FIELD_COUNT("arms", "Times that the queue was armed"),
	FIELD_COUNT("events", "Events that the device has sent"),
	FIELD_COUNT("empty_events",
		    "Of them, those after which nothing was there"),
	FIELD_NOW("capacity", "Completions that the queue has capacity for"),
	FIELD_NOW("reserved", "Of them, those that are reserved"),
	FIELD_NOW("failed", "1 if the queue is dead"),
};

static void publish(void *arg, uint64_t *values)
{
	const struct weir_channel *ch = arg;
	const struct weir_channel_stats *s = &ch->stats;
	const uint64_t all[] = {
		s->completions, s->polls,    s->empty_polls,
		s->arms,        s->events,   s->empty_events,
		s->capacity,    s->reserved, atomic_load(&ch->failed),
	};

	_Static_assert(sizeof(all) / 8 == N_FIELDS(fields), "a field for each");
	memcpy(values, all, sizeof(all));
}

/* What tells of a failure polls: a turn is all that it needs. */
static const struct weir_object_ops object_ops = {
	.size = sizeof(object_ops),
	.name = "weir_channel",
	.section = "channel",
	.fields = fields,
	.n_fields = N_FIELDS(fields),
	.publish = publish,
};

int weir_channel_create(struct weir_channel **ret, struct weir_reactor *r,
			struct ibv_context *ctx,
			const struct weir_channel_opts *user)
{
	struct weir_channel_opts opts;
	struct weir_channel *ch;
	int err;

	rdma_check_thread(r);
	err = opts_load(&opts, sizeof(opts), user, "weir_channel_create");
	if (!err)
		err = check_opts(ctx, &opts);
	if (err)
		return err;
	ch = mem_calloc(1, sizeof(*ch));
	if (!ch)
		return why(-ENOMEM, "weir_channel_create: no memory");
	err = weir_object_create(&ch->obj, r, &object_ops,
				 ibv_get_device_name(ctx->device), ch);
	if (err)
		why_call(err, "weir_object_create", "weir_channel_create");
	else
		err = open_all(ch, r, ctx, &opts);
	if (err) {
		undo(ch);
		return err;
	}
	channel_list_add(ch);
	*ret = ch;
	return 0;
}

struct ibv_cq *weir_channel_cq(const struct weir_channel *ch)
{
	return ch->cq;
}

int weir_channel_reserve(struct weir_channel *ch, uint32_t n)
{
	rdma_check_thread(ch->reactor);
	if (atomic_load(&ch->failed))
		return why(-EIO, "weir_channel_reserve: the channel has "
			   "failed; destroy it, and make another");
	if (n > ch->stats.capacity - ch->stats.reserved)
		return why(-EAGAIN,
			   "weir_channel_reserve: %u asked for; %u of "
			   "%u are reserved; make it with more .depth",
			   n, ch->stats.reserved, ch->stats.capacity);
	ch->stats.reserved += n;
	return 0;
}

/* Completions that are being delivered stay in the old array until they are
 * done. */
static int use_capacity(struct weir_channel *ch, uint32_t capacity)
{
	uint32_t max = ch->batch + capacity;
	struct ibv_wc *wc = mem_calloc(max, sizeof(*wc));

	if (!wc)
		return -ENOMEM;
	memcpy(wc, ch->wc, ch->tail * sizeof(*wc));
	if (ch->delivering && !ch->wc_told)
		ch->wc_told = ch->wc;
	else
		free(ch->wc);
	ch->wc = wc;
	ch->wc_max = max;
	return 0;
}

static bool resize(struct weir_channel *ch, uint32_t capacity)
{
	return !weir_fault("ibv_resize_cq") && !ibv_resize_cq(ch->cq, (int)capacity);
}

/* Grow to @need or, if possible, to twice the present size.  Grow the array
 * first: devices round up, and the array must hold the whole queue. */
static void grow(struct weir_channel *ch, uint32_t need)
{
	uint32_t better = 2 * ch->stats.capacity, most;

	if (better < need)
		better = need;
	most = 2 * better;
	if (use_capacity(ch, most) ||
	    (!resize(ch, better) && !resize(ch, need)))
		return;
	ch->stats.capacity = (uint32_t)ch->cq->cqe;
	if (ch->stats.capacity > most)
		ch->stats.capacity = most;
}

int channel_reserve(struct weir_channel *ch, uint32_t n)
{
	uint32_t left = ch->stats.capacity - ch->stats.reserved;

	rdma_check_thread(ch->reactor);
	if (n > left && n < CAPACITY_MAX &&
	    ch->stats.reserved < CAPACITY_MAX - n && !atomic_load(&ch->failed))
		grow(ch, ch->stats.reserved + n);
	return weir_channel_reserve(ch, n);
}

void weir_channel_release(struct weir_channel *ch, uint32_t n)
{
	rdma_check_thread(ch->reactor);
	check(n <= ch->stats.reserved);
	ch->stats.reserved -= n;
}

void weir_channel_forget(struct weir_channel *ch, uint32_t qp_num)
{
	uint32_t i;

	rdma_check_thread(ch->reactor);
	if (!ch->delivering)
		move_up(ch);
	while (ch->tail < ch->wc_max && poll_cq(ch, ch->wc_max - ch->tail))
		;
	for (i = ch->head; i < ch->tail; i++)
		if (ch->wc[i].qp_num == qp_num)
			ch->wc[i].wr_id = 0;
	weir_object_notify(ch->obj);
}

int weir_channel_stats(const struct weir_channel *ch,
		       struct weir_channel_stats *ret)
{
	struct weir_channel_stats stats = ch->stats;

	stats.failed = atomic_load(&ch->failed);
	return opts_give(ret, &stats, sizeof(stats), "weir_channel_stats");
}

/* Events must be acknowledged before, and only those that were read. */
static int destroy_cq(struct weir_channel *ch)
{
	int err;

	ack(ch);
	channel_list_del(ch);
	err = ibv_destroy_cq(ch->cq);
	if (!err)
		return 0;
	channel_list_add(ch);
	return why(-err, "weir_channel_destroy: ibv_destroy_cq() failed: error "
		   "%d; destroy its queue pairs first", err);
}

int weir_channel_destroy(struct weir_channel *ch)
{
	struct ibv_comp_channel *comp;
	int err;

	if (!ch)
		return 0;
	rdma_check_thread(ch->reactor);
	if (ch->stats.reserved)
		return why(-EBUSY, "weir_channel_destroy: capacity for %u "
			   "completions is reserved", ch->stats.reserved);
	err = destroy_cq(ch);
	if (err)
		return err;
	comp = ch->comp;
	ch->closed = true;
	weir_poll_hook_destroy(ch->hook);
	weir_object_destroy(ch->obj);
	ibv_destroy_comp_channel(comp);
	channel_put(ch);
	return 0;
}
