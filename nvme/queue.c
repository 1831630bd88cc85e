/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue: commands go by a ring of its own, with the large entries that the driver's
 * commands need, or else a worker of the reactor executes each.
 *
 * The kernel posts completions from the thread that has submitted them, which the
 * reactor's is; the descriptor of the ring then becomes readable.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "nvme/nvme.h"

#define REAPED 64		/* Completions, in a poll. */

#define RING_CMD 80		/* Bytes in an entry for the driver. */

_Static_assert(offsetof(struct nvme_passthru_cmd64, result) ==
	       sizeof(struct nvme_uring_cmd), "one is the beginning of the other");
_Static_assert(sizeof(struct nvme_uring_cmd) <= RING_CMD, "it fits");

/* Slots. */

struct slot *slot_take(struct weir_nvme_queue *queue)
{
	struct slot *slot = queue->free;

	if (!slot)
		return NULL;
	queue->free = slot->next;
	slot->op = NULL;
	slot->job = NULL;
	slot->tries = 0;
	slot->is_admin = slot->is_vec = false;
	memset(&slot->pt, 0, sizeof(slot->pt));
	slot->pt.nsid = queue->card->info.nsid;
	return slot;
}

void slot_give(struct slot *slot)
{
	slot->next = slot->queue->free;
	slot->queue->free = slot;
}

static void slot_ended(struct slot *slot, int res, uint64_t result)
{
	struct weir_nvme_queue *queue = slot->queue;
	struct weir_nvme_cmd *cmd = slot->cmd;
	struct weir_op *op = slot->op;

	queue->stats.in_flight--;
	queue->stats.failed += res != 0;
	if (slot->job) {
		job_command_ended(slot, res);
		return;
	}
	slot_give(slot);
	cmd->status = res > 0 ? (uint16_t)res : 0;
	cmd->result = result;
	weir_op_finish(op, nvme_errno(res));
}

/* By a worker. */

static int64_t run_ioctl(void *arg)
{
	struct slot *slot = arg;
	unsigned long request = slot->is_admin ? NVME_IOCTL_ADMIN64_CMD :
				slot->is_vec ? NVME_IOCTL_IO64_CMD_VEC :
				NVME_IOCTL_IO64_CMD;
	int res = ioctl(slot->queue->card->fd, request, &slot->pt);

	return res < 0 ? -errno : res;
}

static void on_ioctl(struct weir_op *op, int64_t res)
{
	struct slot *slot = weir_container_of(op, struct slot, work);
	struct weir_nvme_queue *queue = slot->queue;

	slot_ended(slot, (int)res, slot->pt.result);
	queue_post(queue);
}

static int send_by_worker(struct slot *slot)
{
	int err;

	slot->pt.result = 0;
	slot->work.fn = on_ioctl;
	err = weir_work(slot->queue->reactor, &slot->work, run_ioctl, slot);
	slot->queue->stats.by_ioctl += !err;
	return err;
}

/* By the ring, which has a place for each slot. */

static void send_by_ring(struct slot *slot)
{
	struct weir_nvme_queue *queue = slot->queue;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&queue->ring);

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, queue->card->fd, NULL, 0, 0);
	sqe->cmd_op = slot->is_vec ? NVME_URING_CMD_IO_VEC : NVME_URING_CMD_IO;
	memcpy(sqe->cmd, &slot->pt, sizeof(struct nvme_uring_cmd));
	memset((char *)sqe->cmd + sizeof(struct nvme_uring_cmd), 0,
	       RING_CMD - sizeof(struct nvme_uring_cmd));
	io_uring_sqe_set_data(sqe, slot);
	queue->unsent++;
}

int slot_send(struct slot *slot)
{
	struct weir_nvme_queue *queue = slot->queue;
	int err = 0;

	if (queue->has_ring && !slot->is_admin)
		send_by_ring(slot);
	else
		err = send_by_worker(slot);
	if (err)
		return err;
	queue->stats.commands++;
	queue->stats.in_flight++;
	return 0;
}

static int submit(struct weir_nvme_queue *queue)
{
	int n;

	if (!queue->unsent)
		return 0;
	n = io_uring_submit(&queue->ring);
	if (n < 0)
		return n;
	queue->stats.submits++;
	queue->unsent -= (uint32_t)n;
	queue->in_ring += (uint32_t)n;
	return queue->unsent ? -EAGAIN : 0;
}

/* What could not be submitted is tried again in the next poll. */
void queue_submit(struct weir_nvme_queue *queue)
{
	(void)submit(queue);
}

/* The file has no commands by io_uring: @slot, and what comes after it, goes by
 * workers. */
static int leave_ring(struct slot *slot)
{
	slot->queue->has_ring = false;
	return send_by_worker(slot);
}

static int reap(struct weir_nvme_queue *queue)
{
	struct io_uring_cqe *cqe;
	struct slot *slot;
	uint64_t result;
	int n = 0, res;

	while (queue->in_ring && n < REAPED &&
	       !io_uring_peek_cqe(&queue->ring, &cqe)) {
		slot = io_uring_cqe_get_data(cqe);
		res = cqe->res;
		result = cqe->big_cqe[0];
		io_uring_cqe_seen(&queue->ring, cqe);
		queue->in_ring--;
		n++;
		if (res == -EOPNOTSUPP) {
			res = leave_ring(slot);
			if (!res)
				continue;
		}
		slot_ended(slot, res, result);
	}
	return n;
}

static int poll_queue(void *arg)
{
	struct weir_nvme_queue *queue = arg;
	int n = reap(queue);

	if (n)
		queue_post(queue);
	queue_submit(queue);
	return n > 0;
}

static int before_sleep(void *arg, int *fd)
{
	struct weir_nvme_queue *queue = arg;
	int err = submit(queue);

	*fd = queue->ring.ring_fd;
	if (queue->in_ring && io_uring_cq_ready(&queue->ring))
		return 1;
	return err;
}

static const struct weir_poll_hook_ops hook_ops = {
	.size = sizeof(hook_ops), .name = "nvme", .poll = poll_queue,
	.before_sleep = before_sleep,
};

/* The page of statistics. */

static const struct weir_object_field fields[] = {
	{ "commands", "Sent, the repeated ones included", WEIR_STATS_COUNTER,
	  WEIR_STATS_NUMBER, 0 },
	{ "failed", "Commands that failed", WEIR_STATS_COUNTER,
	  WEIR_STATS_NUMBER, 0 },
	{ "repeated", "Commands that were sent again", WEIR_STATS_COUNTER,
	  WEIR_STATS_NUMBER, 0 },
	{ "submits", "System calls that sent some by io_uring",
	  WEIR_STATS_COUNTER, WEIR_STATS_NUMBER, 0 },
	{ "by_ioctl", "Commands that a worker sent", WEIR_STATS_COUNTER,
	  WEIR_STATS_NUMBER, 0 },
	{ "in_flight", "Commands now", WEIR_STATS_GAUGE, WEIR_STATS_NUMBER, 0 },
};

static void publish(void *arg, uint64_t *values)
{
	const struct weir_nvme_stats *s =
		&((struct weir_nvme_queue *)arg)->stats;

	values[0] = s->commands;
	values[1] = s->failed;
	values[2] = s->repeated;
	values[3] = s->submits;
	values[4] = s->by_ioctl;
	values[5] = s->in_flight;
}

static const struct weir_object_ops object_ops = {
	.size = sizeof(object_ops), .name = "nvme_queue", .fields = fields,
	.n_fields = sizeof(fields) / sizeof(fields[0]), .publish = publish,
};

/* Making and freeing. */

/* Where io_uring is off, or too old, there is none. */
static void open_ring(struct weir_nvme_queue *queue)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	};

	if (weir_fault("io_uring_setup") ||
	    io_uring_queue_init_params(queue->depth, &queue->ring, &params))
		return;
	queue->has_ring = true;
}

void queue_free(struct weir_nvme_queue *queue)
{
	weir_poll_hook_destroy(queue->hook);
	weir_object_destroy(queue->object);
	if (queue->hook)
		io_uring_queue_exit(&queue->ring);
	card_unref(queue->card);
	free(queue->fill);
	free(queue);
}

int queue_create(struct weir_nvme_queue **ret, struct weir_reactor *r,
		 struct card *card, uint32_t depth, const char *call)
{
	size_t size = sizeof(struct weir_nvme_queue) +
		      depth * sizeof(struct slot);
	struct weir_nvme_queue *queue;
	int err;

	if (!strcmp(weir_reactor_backend(r), "sim"))
		return weir_why_set(-EOPNOTSUPP, "%s: a simulated world has no "
				    "devices of the system", call);
	if (!card_ref(card))
		return weir_why_set(-ENODEV, "%s: %s was closed", call,
				    card->name);
	queue = weir_fault("malloc") ? NULL : calloc(1, size);
	if (!queue) {
		card_unref(card);
		return weir_why_set(-ENOMEM, "%s: no memory for %u commands",
				    call, depth);
	}
	queue->card = card;
	queue->reactor = r;
	queue->depth = depth;
	queue->last = &queue->first;
	while (depth--) {
		queue->slots[depth].queue = queue;
		slot_give(&queue->slots[depth]);
	}
	err = weir_object_create(&queue->object, r, &object_ops, card->name,
				 queue);
	if (!err) {
		open_ring(queue);
		if (queue->has_ring)
			err = weir_poll_hook_create(&queue->hook, r, &hook_ops,
						    queue);
		if (err)
			io_uring_queue_exit(&queue->ring);
	}
	if (err)
		queue_free(queue);
	else
		*ret = queue;
	return err;
}

/* Public calls. */

/* Whether bytes after the @known ones of a struct of @size are set. */
static bool is_newer(const void *opts, size_t size, size_t known)
{
	while (known < size)
		if (((const char *)opts)[known++])
			return true;
	return false;
}

int weir_nvme_queue_create(struct weir_nvme_queue **ret, struct weir_reactor *r,
			   struct weir_device *dev,
			   const struct weir_nvme_queue_opts *opts)
{
	static const char call[] = "weir_nvme_queue_create";
	struct weir_nvme_queue_opts own = { .size = sizeof(own) };
	struct card *card = card_of(dev);

	if (!ret || !r || !dev)
		return weir_why_set(-EINVAL, "%s: an argument is NULL", call);
	if (!card)
		return weir_why_set(-EINVAL, "%s: the device is not one of "
				    "libweir-nvme", call);
	if (opts && opts->size < sizeof(opts->size))
		return weir_why_set(-EINVAL, "%s: .size of the options is not set",
				    call);
	if (opts && is_newer(opts, opts->size, sizeof(own)))
		return weir_why_set(-E2BIG, "%s: an option is newer than this "
				    "library", call);
	if (opts)
		memcpy(&own, opts, opts->size < sizeof(own) ? opts->size :
							      sizeof(own));
	if (own.reserved || own.depth > WEIR_NVME_DEPTH_MAX)
		return weir_why_set(-EINVAL, "%s: depth %u: at most %u", call,
				    own.depth, WEIR_NVME_DEPTH_MAX);
	return queue_create(ret, r, card, own.depth ? own.depth : DEPTH, call);
}

int weir_nvme_queue_destroy(struct weir_nvme_queue *queue)
{
	if (!queue)
		return 0;
	if (queue->stats.in_flight)
		return weir_why_set(-EBUSY, "weir_nvme_queue_destroy: %u commands "
				    "are in flight: wait for their callbacks",
				    queue->stats.in_flight);
	queue_free(queue);
	return 0;
}

static int check_cmd(const struct weir_nvme_cmd *cmd)
{
	static const char call[] = "weir_nvme_submit";

	if (cmd->size < sizeof(*cmd))
		return weir_why_set(-EINVAL, "%s: .size of the command is not set",
				    call);
	if (is_newer(cmd, cmd->size, sizeof(*cmd)))
		return weir_why_set(-E2BIG, "%s: the command is newer than this "
				    "library", call);
	if (cmd->flags & ~WEIR_NVME_ADMIN || cmd->reserved0[0] ||
	    cmd->reserved0[1] || cmd->reserved0[2])
		return weir_why_set(-EINVAL, "%s: unknown .flags, or a reserved "
				    "member is set", call);
	if (cmd->data && cmd->iov)
		return weir_why_set(-EINVAL, "%s: .data and .iov are both set",
				    call);
	if ((cmd->data_len && !cmd->data) || (cmd->n_iov && !cmd->iov) ||
	    (cmd->metadata_len && !cmd->metadata))
		return weir_why_set(-EINVAL, "%s: there is a length, and no memory "
				    "for it", call);
	if (cmd->iov && cmd->flags & WEIR_NVME_ADMIN)
		return weir_why_set(-EINVAL, "%s: an admin command takes .data, "
				    "not .iov", call);
	if (cmd->n_iov > WEIR_NVME_PIECES_MAX)
		return weir_why_set(-EMSGSIZE, "%s: %u pieces, at most %u", call,
				    cmd->n_iov, WEIR_NVME_PIECES_MAX);
	return 0;
}

static void set_pt(struct slot *slot, const struct weir_nvme_cmd *cmd)
{
	struct nvme_passthru_cmd64 *pt = &slot->pt;

	slot->is_admin = cmd->flags & WEIR_NVME_ADMIN;
	slot->is_vec = cmd->iov;
	pt->opcode = cmd->opcode;
	if (cmd->nsid || slot->is_admin)
		pt->nsid = cmd->nsid;
	pt->cdw2 = cmd->cdw2;
	pt->cdw3 = cmd->cdw3;
	pt->metadata = (uintptr_t)cmd->metadata;
	pt->metadata_len = cmd->metadata_len;
	pt->addr = (uintptr_t)(cmd->iov ? (const void *)cmd->iov : cmd->data);
	pt->data_len = cmd->iov ? cmd->n_iov : cmd->data_len;
	pt->cdw10 = cmd->cdw10;
	pt->cdw11 = cmd->cdw11;
	pt->cdw12 = cmd->cdw12;
	pt->cdw13 = cmd->cdw13;
	pt->cdw14 = cmd->cdw14;
	pt->cdw15 = cmd->cdw15;
	pt->timeout_ms = cmd->timeout_ms;
}

/* Ends a command that no worker has begun; has no effect on one that was sent. */
static void cancel(struct weir_op *op, void *arg)
{
	struct slot *slot = arg;

	(void)op;
	if (weir_op_is_busy(&slot->work))
		weir_op_cancel(&slot->work);
}

int weir_nvme_submit(struct weir_nvme_queue *queue, struct weir_op *op,
		     struct weir_nvme_cmd *cmd)
{
	struct slot *slot;
	int err;

	if (!queue || !op || !cmd)
		return weir_why_set(-EINVAL, "weir_nvme_submit: an argument is "
				    "NULL");
	err = check_cmd(cmd);
	if (err)
		return err;
	slot = slot_take(queue);
	if (!slot)
		return -EAGAIN;
	err = weir_op_start(queue->reactor, op, cancel, slot);
	if (err) {
		slot_give(slot);
		return err;
	}
	set_pt(slot, cmd);
	slot->op = op;
	slot->cmd = cmd;
	cmd->status = 0;
	cmd->result = 0;
	/* What a worker does, the tools see. */
	if (cmd->data_len && queue->has_ring && !slot->is_admin)
		weir_op_lend(op, cmd->data, cmd->data_len, cmd->opcode & 1 ?
			     WEIR_LEND_OUT : WEIR_LEND_IN);
	err = slot_send(slot);
	if (err) {
		slot_give(slot);
		weir_op_finish(op, err);
	}
	return 0;
}

int weir_nvme_stats(const struct weir_nvme_queue *queue,
		    struct weir_nvme_stats *ret)
{
	struct weir_nvme_stats full;
	size_t size;

	if (!queue || !ret || ret->size < sizeof(ret->size))
		return weir_why_set(-EINVAL, "weir_nvme_stats: an argument is NULL, "
				    "or .size of the answer is not set");
	full = queue->stats;
	full.size = size = ret->size;
	memcpy(ret, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}
