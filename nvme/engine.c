/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: jobs are divided into commands, of which each job has a window in
 * flight.  Jobs with something to post take turns.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weir/domain-user.h>

#include "nvme/nvme.h"

/* What a DMA context has: a queue for each device, from the first job on. */
struct engine {
	struct weir_reactor *reactor;
	struct weir_nvme_queue *queues;
};

static struct nvme_job *part_of(struct weir_job *job)
{
	return weir_job_area(job);
}

static void list_push(struct weir_nvme_queue *queue, struct weir_job *job)
{
	struct nvme_job *p = part_of(job);

	p->next = NULL;
	p->pprev = queue->last;
	*queue->last = job;
	queue->last = &p->next;
}

static void list_del(struct nvme_job *p)
{
	if (!p->pprev)
		return;
	*p->pprev = p->next;
	if (p->next)
		part_of(p->next)->pprev = p->pprev;
	else
		p->queue->last = p->pprev;
	p->pprev = NULL;
}

static void end(struct weir_job *job, struct nvme_job *p)
{
	uint64_t done = p->posted;

	list_del(p);
	p->queue->n_fills -= p->is_fill;
	/* Commands behind the first failed one may be done: they do not count. */
	if (p->failed_at < done)
		done = p->failed_at;
	weir_job_end(job, done, p->res, p->code);
}

/* Commands. */

static bool is_ours(const struct weir_domain *domain)
{
	return domain && weir_domain_kind(domain) == WEIR_DOMAIN_NVME;
}

/* The side on the device; of a copy there, the one that is written. */
static int far_side(const struct nvme_job *p)
{
	return p->opcode == NVME_READ ? WEIR_JOB_SRC : WEIR_JOB_DST;
}

/* How much of the rest of @job the next command has at most; *@slba is where. */
static uint64_t next_len(struct weir_job *job, struct nvme_job *p,
			 const struct weir_nvme_info *info, uint64_t *slba)
{
	uint64_t len = info->max_transfer;
	struct iovec far;

	weir_job_pieces(job, far_side(p), p->posted, &far, 1);
	*slba = (uintptr_t)far.iov_base / info->block_size;
	return far.iov_len < len ? far.iov_len : len;
}

/* Memory of @job from what is posted on, at most @len bytes, into @slot.  Returns how
 * many: whole blocks, or 0 if one is in too many pieces. */
static uint64_t set_memory(struct slot *slot, struct weir_job *job, uint64_t len)
{
	struct nvme_job *p = part_of(job);
	int near = p->opcode == NVME_READ ? WEIR_JOB_DST : WEIR_JOB_SRC;
	uint32_t block = slot->queue->card->info.block_size, i;
	uint32_t n = weir_job_pieces(job, near, p->posted, slot->iov, PIECES);
	uint64_t sum = 0, left;

	for (i = 0; i < n && sum < len; i++)
		sum += slot->iov[i].iov_len;
	len = sum < len ? sum - sum % block : len;
	for (n = 0, left = len; left; n++) {
		if (slot->iov[n].iov_len > left)
			slot->iov[n].iov_len = left;
		left -= slot->iov[n].iov_len;
	}
	slot->is_vec = n > 1;
	slot->pt.addr = slot->is_vec ? (uintptr_t)slot->iov :
				       (uintptr_t)slot->iov[0].iov_base;
	slot->pt.data_len = slot->is_vec ? n : (uint32_t)len;
	return len;
}

/* For a copy on the device from what is posted on. */
static uint64_t set_range(struct slot *slot, struct weir_job *job, uint64_t len)
{
	const struct weir_nvme_info *info = &slot->queue->card->info;
	struct iovec from;

	weir_job_pieces(job, WEIR_JOB_SRC, part_of(job)->posted, &from, 1);
	if (from.iov_len < len)
		len = from.iov_len;
	if (info->max_copy < len)
		len = info->max_copy;
	slot->range = (struct copy_range){
		.slba = (uintptr_t)from.iov_base / info->block_size,
		.nlb = (uint16_t)(len / info->block_size - 1),
	};
	slot->pt.addr = (uintptr_t)&slot->range;
	slot->pt.data_len = sizeof(slot->range);
	return len;
}

/* The pattern begins anew with each command: commands are whole blocks. */
static uint64_t set_fill(struct slot *slot, uint64_t len)
{
	if (len > FILL_BYTES)
		len = FILL_BYTES;
	slot->pt.addr = (uintptr_t)slot->queue->fill;
	slot->pt.data_len = (uint32_t)len;
	return len;
}

/* Returns 0, or the errno with which @job cannot go on. */
static int post_command(struct weir_nvme_queue *queue, struct weir_job *job)
{
	const struct weir_nvme_info *info = &queue->card->info;
	struct slot *slot = slot_take(queue);
	struct nvme_job *p = part_of(job);
	uint64_t slba, len = next_len(job, p, info, &slba);
	uint32_t control = queue->card->control;
	int err;

	if (p->opcode == NVME_COPY)
		len = set_range(slot, job, len);
	else if (p->is_fill)
		len = set_fill(slot, len);
	else if (p->opcode != NVME_ZEROES)
		len = set_memory(slot, job, len);
	slot->job = job;
	slot->off = p->posted;
	slot->pt.opcode = p->opcode;
	slot->pt.cdw10 = (uint32_t)slba;
	slot->pt.cdw11 = (uint32_t)(slba >> 32);
	if (p->opcode != NVME_COPY)
		slot->pt.cdw12 = (uint32_t)(len / info->block_size - 1) |
				 (p->opcode == NVME_ZEROES ?
				  control & NVME_PRACT : control);
	/* The first reference tag is the address of the block. */
	if (control & NVME_PRCHK_REF)
		slot->pt.cdw14 = (uint32_t)slba;
	err = len ? slot_send(slot) : -EMSGSIZE;
	if (err) {
		slot_give(slot);
		return err;
	}
	p->posted += len;
	p->in_flight++;
	return 0;
}

/* @job has something to post, and its window is not full.  Returns false if workers
 * can take no more until one of the queue's commands has ended. */
static bool post_job(struct weir_nvme_queue *queue, struct weir_job *job)
{
	struct nvme_job *p = part_of(job);
	int err = 0;

	while (!err && queue->free && p->in_flight < WINDOW &&
	       p->posted < weir_job_bytes(job))
		err = post_command(queue, job);
	if (err == -EAGAIN && queue->stats.in_flight)
		return false;
	p->res = err;
	if (p->res || p->in_flight == WINDOW ||
	    p->posted == weir_job_bytes(job))
		list_del(p);
	if (p->res && !p->in_flight)
		end(job, p);
	return true;
}

void queue_post(struct weir_nvme_queue *queue)
{
	while (queue->first && queue->free && post_job(queue, queue->first))
		;
}

/* Whether @slot may be sent once more, and was. */
static bool send_again(struct slot *slot, int res)
{
	const struct nvme_job *p = part_of(slot->job);

	if (p->res || ++slot->tries == WEIR_NVME_TRIES ||
	    (res > 0 ? res & NVME_DNR : res != -EINTR && res != -EAGAIN) ||
	    slot_send(slot))
		return false;
	slot->queue->stats.repeated++;
	return true;
}

void job_command_ended(struct slot *slot, int res)
{
	struct weir_nvme_queue *queue = slot->queue;
	struct weir_job *job = slot->job;
	struct nvme_job *p = part_of(job);

	if (res && send_again(slot, res))
		return;
	p->in_flight--;
	if (res) {
		if (slot->off < p->failed_at)
			p->failed_at = slot->off;
		if (!p->res) {
			p->res = nvme_errno(res);
			p->code = res;
		}
		list_del(p);
	}
	slot_give(slot);
	if (!p->in_flight && (p->res || p->posted == weir_job_bytes(job)))
		end(job, p);
	else if (!p->res && !p->pprev && p->posted < weir_job_bytes(job))
		list_push(queue, job);
}

/* Jobs, at their start. */

static bool is_memory(const struct weir_domain *d)
{
	uint32_t kind = d ? weir_domain_kind(d) : WEIR_DOMAIN_SYSTEM;

	return kind == WEIR_DOMAIN_SYSTEM || kind == WEIR_DOMAIN_HUGEPAGE;
}

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	const struct card *card;

	(void)arg;
	*why = "only fills, and copies between memory of this process and an NVMe "
	       "namespace or within it";
	if (q->flags & WEIR_JOB_SIGNAL)
		return 0;
	if (q->kind == WEIR_JOB_FILL)
		return is_ours(q->dst);
	if (q->kind != WEIR_JOB_COPY && q->kind != WEIR_JOB_PULL &&
	    q->kind != WEIR_JOB_PUSH)
		return 0;
	if (!is_ours(q->src) || !is_ours(q->dst))
		return (is_ours(q->dst) && is_memory(q->src)) ||
		       (is_ours(q->src) && is_memory(q->dst));
	card = weir_domain_ctx((struct weir_domain *)q->src);
	return q->src == q->dst && card->info.max_copy;
}

/* All pieces on the device are whole blocks. */
static int check_blocks(const struct weir_job *job, int side,
			const struct card *card)
{
	uint64_t skip = 0, mask = card->info.block_size - 1;
	struct iovec iov[16];
	uint32_t n, i;

	while ((n = weir_job_pieces(job, side, skip, iov, 16))) {
		for (i = 0; i < n; i++) {
			skip += iov[i].iov_len;
			if (!(((uintptr_t)iov[i].iov_base | iov[i].iov_len) &
			      mask))
				continue;
			return weir_why_set(-EINVAL, "weir_job_start: %zu bytes "
					    "at %" PRIu64 " of %s: its blocks "
					    "have %u", iov[i].iov_len,
					    (uint64_t)(uintptr_t)iov[i].iov_base,
					    card->name, card->info.block_size);
		}
	}
	return 0;
}

static int queue_of(struct weir_nvme_queue **ret, struct engine *engine,
		    struct card *card)
{
	static const char call[] = "weir_job_start";
	struct weir_nvme_queue *queue = engine->queues;
	int err;

	while (queue && queue->card != card)
		queue = queue->next;
	if (!queue) {
		err = queue_create(&queue, engine->reactor, card, DEPTH, call);
		if (err)
			return err;
		queue->next = engine->queues;
		engine->queues = queue;
		queue->fill = aligned_alloc(4096, FILL_BYTES);
	}
	*ret = queue;
	return 0;
}

/* Bytes to write, of which a queue has one pattern at a time. */
static int take_fill(struct weir_nvme_queue *queue, uint64_t pattern)
{
	size_t i;

	if (!queue->fill)
		return -ENOMEM;
	if (queue->n_fills && queue->pattern != pattern)
		return -EAGAIN;
	for (i = 0; !queue->n_fills && i < FILL_BYTES; i += sizeof(pattern))
		memcpy(queue->fill + i, &pattern, sizeof(pattern));
	queue->pattern = pattern;
	queue->n_fills++;
	return 0;
}

static int start(void *arg, struct weir_job *job)
{
	struct weir_domain *dst = weir_job_domain(job, WEIR_JOB_DST);
	struct weir_domain *src = weir_job_domain(job, WEIR_JOB_SRC);
	struct card *card = weir_domain_ctx(is_ours(dst) ? dst : src);
	struct nvme_job *p = part_of(job);
	struct weir_nvme_queue *queue;
	int err = is_ours(src) ? check_blocks(job, WEIR_JOB_SRC, card) : 0;

	if (!err && is_ours(dst))
		err = check_blocks(job, WEIR_JOB_DST, card);
	if (!err)
		err = queue_of(&queue, arg, card);
	if (err)
		return err;
	*p = (struct nvme_job){
		.queue = queue, .failed_at = UINT64_MAX,
		.opcode = !is_ours(dst) ? NVME_READ : NVME_WRITE,
	};
	if (job->kind == WEIR_JOB_FILL) {
		if (!job->pattern && card->info.flags & WEIR_NVME_WRITE_ZEROES)
			p->opcode = NVME_ZEROES;
		else
			err = take_fill(queue, job->pattern);
		if (err)
			return err;
		p->is_fill = p->opcode == NVME_WRITE;
	} else if (is_ours(src) && is_ours(dst)) {
		p->opcode = NVME_COPY;
	}
	list_push(queue, job);
	queue_post(queue);
	return 0;
}

static void cancel(void *arg, struct weir_job *job)
{
	struct nvme_job *p = part_of(job);

	(void)arg;
	if (p->res || p->posted == weir_job_bytes(job))
		return;
	p->res = -ECANCELED;
	list_del(p);
	if (!p->in_flight)
		end(job, p);
}

static void flush(void *arg)
{
	struct engine *engine = arg;
	struct weir_nvme_queue *queue;

	for (queue = engine->queues; queue; queue = queue->next)
		queue_submit(queue);
}

const struct weir_engine_ops nvme_engine_ops = {
	.size = sizeof(nvme_engine_ops), .name = "nvme",
	.flags = WEIR_ENGINE_FOREIGN | WEIR_ENGINE_NO_FILES,
	.can = can, .start = start,
	.cancel = cancel, .flush = flush,
};

int nvme_engine_open(void *arg, struct weir_reactor *r, void **ret)
{
	struct engine *engine;

	(void)arg;
	if (!strcmp(weir_reactor_backend(r), "sim"))
		return -ENODEV;
	engine = weir_fault("malloc") ? NULL : calloc(1, sizeof(*engine));
	if (!engine)
		return -ENOMEM;
	engine->reactor = r;
	*ret = engine;
	return 0;
}

void nvme_engine_close(void *arg)
{
	struct engine *engine = arg;
	struct weir_nvme_queue *queue;

	while ((queue = engine->queues)) {
		engine->queues = queue->next;
		queue_free(queue);
	}
	free(engine);
}
