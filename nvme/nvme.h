/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVME_NVME_H
#define NVME_NVME_H

/* A namespace (card), a queue of commands for it, and the engine's jobs. */

#include <stdatomic.h>
#include <stdbool.h>

#include <liburing.h>
#include <linux/nvme_ioctl.h>

#include <weir/engine.h>
#include <weir/job.h>
#include <weir/nvme/nvme.h>
#include <weir/object.h>
#include <weir/poll-hook.h>
#include <weir/provider.h>
#include <weir/reactor.h>
#include <weir/stats.h>

#define PIECES 64		/* Of memory, in a command of a job. */
#define DEPTH 128		/* Commands of a queue. */
#define WINDOW 16		/* Of them, those of one job. */
#define TRANSFER_MAX (256u << 10) /* Bytes of one of them. */
#define FILL_BYTES (64u << 10)	/* Of a pattern. */

/* Opcodes. */
#define NVME_FLUSH 0x00
#define NVME_WRITE 0x01
#define NVME_READ 0x02
#define NVME_ZEROES 0x08
#define NVME_COPY 0x19
#define NVME_IDENTIFY 0x06	/* Admin. */

#define NVME_DNR 0x4000		/* In a status: do not retry. */

/* In dword 12: protection information, made or taken away by the device, which checks
 * the guard and the reference tag. */
#define NVME_PRACT (1u << 29)
#define NVME_PRCHK_GUARD (1u << 28)
#define NVME_PRCHK_REF (1u << 26)

/* An open namespace. */
struct card {
	struct weir_domain *domain;	/* NULL: for commands only. */
	struct weir_nvme_info info;
	char name[64];
	uint32_t control;	/* In dword 12 of reads and writes: NVME_PR */
	int fd;
	atomic_int refs;	/* Its device, and its queues. */
	struct card *next;	/* Of those whose domain is in use yet. */
};

/* The range of a Copy command, as the device reads it. */
struct copy_range {
	uint64_t reserved0;
	uint64_t slba;
	uint16_t nlb;		/* Less one. */
	uint16_t reserved1[7];
};

/* A command. */
struct slot {
	struct weir_nvme_queue *queue;
	struct slot *next;	/* Free. */
	struct weir_op *op;	/* Of weir_nvme_submit(), and */
	struct weir_nvme_cmd *cmd;
	struct weir_job *job;	/* or of a job, from */
	uint64_t off;		/* there on. */
	uint32_t tries;
	bool is_admin, is_vec;
	struct nvme_passthru_cmd64 pt;
	struct copy_range range;
	struct weir_op work;
	struct iovec iov[PIECES];
};

struct weir_nvme_queue {
	struct card *card;
	struct weir_reactor *reactor;
	struct weir_object *object;
	struct weir_poll_hook *hook;
	struct io_uring ring;
	bool has_ring;
	uint32_t depth;
	uint32_t unsent;	/* In the ring, not submitted. */
	uint32_t in_ring;	/* And those that were. */
	struct slot *free;
	struct weir_nvme_stats stats;

	/* The engine's. */
	struct weir_nvme_queue *next;
	struct weir_job *first, **last;	/* With something to post. */
	char *fill;		/* FILL_BYTES of .pattern, */
	uint64_t pattern;
	uint32_t n_fills;	/* while there are jobs that write it. */

	struct slot slots[];
};

/* A job of the engine, in its area. */
struct nvme_job {
	struct weir_job *next, **pprev;	/* NULL: nothing to post, or its window
					 * is full. */
	struct weir_nvme_queue *queue;
	uint64_t posted;		/* Bytes. */
	uint64_t failed_at;		/* The first that is not done; or all. */
	uint32_t in_flight;		/* Commands. */
	int32_t res;			/* 0: nothing has ended it early. */
	int32_t code;
	uint8_t opcode;
	bool is_fill;			/* Writes .fill of the queue. */
};

_Static_assert(sizeof(struct nvme_job) <= WEIR_JOB_AREA, "it fits");

/* device.c */

/* NULL: @dev is not one of ours. */
struct card *card_of(const struct weir_device *dev);

/* Returns whether @card is still open; if so card_unref() follows. */
bool card_ref(struct card *card);
void card_unref(struct card *card);

/* queue.c */

int queue_create(struct weir_nvme_queue **ret, struct weir_reactor *r,
		 struct card *card, uint32_t depth, const char *call);

/* Nothing of it is in flight. */
void queue_free(struct weir_nvme_queue *queue);

/* Sends @slot, whose .pt is complete: job_command_ended() follows, or the end of
 * .op, unless it fails.  Then it is still the caller's. */
int slot_send(struct slot *slot);

struct slot *slot_take(struct weir_nvme_queue *queue);
void slot_give(struct slot *slot);

/* Submits what was sent. */
void queue_submit(struct weir_nvme_queue *queue);

/* engine.c */

extern const struct weir_engine_ops nvme_engine_ops;

int nvme_engine_open(void *arg, struct weir_reactor *r, void **engine);
void nvme_engine_close(void *engine);

/* The command of a job has ended with @res: a status, or a negative errno. */
void job_command_ended(struct slot *slot, int res);

/* Posts what there is capacity for. */
void queue_post(struct weir_nvme_queue *queue);

/* status.c */

/* The errno for a status, or for one of the kernel's; 0: it has succeeded. */
int nvme_errno(int res);

#endif /* NVME_NVME_H */
