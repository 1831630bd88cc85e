/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A card in 200 lines: its discovery, its memory, its requests, and their ends.
 * A thread stands for the hardware, see card-hardware.h; in a simulated world a
 * timer does its work.  The tutorial is docs/tutorial-card.md.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/device.h>
#include <weir/domain-user.h>
#include <weir/reactor.h>
#include <weir/watch.h>

#include "card-hardware.h"

struct weir_provider *card_provider;

/* In a world, which has no other threads, and whose time is virtual. */
static void on_timer(struct weir_op *op, int64_t res)
{
	struct card *card = weir_container_of(op, struct card, timer);

	(void)res;
	while (atomic_load(&card->done) != card->started)
		execute(card);
}

/* On the reactor: end what the hardware has done. */
static void on_event(struct weir_event *event, uint64_t n, void *arg)
{
	struct card *card = arg;

	(void)event, (void)n;
	while (card->ended != atomic_load(&card->done)) {
		struct card_request rq = card->queue[card->ended++ % CARD_QUEUE];
		struct weir_op_detail detail = { .bytes = (uint64_t)~rq.res,
						 .code = 7 };

		if (rq.res < 0)
			weir_domain_set_detail(rq.op, &detail);
		weir_domain_complete(rq.op, rq.res < 0 ? -EIO : rq.res);
	}
}

/* Pull and push: begin, or refuse. */
static int card_move(struct weir_domain *d, struct weir_reactor *r,
		     struct weir_op *op, const struct weir_domain_move *move)
{
	struct card *card = weir_domain_ctx(d);
	int err = 0;

	if (r != card->r)
		return -EXDEV;
	if (card->started - card->ended == CARD_QUEUE)
		return -EAGAIN;
	card->queue[card->started % CARD_QUEUE] =
		(struct card_request){ .op = op, .move = move };
	if (!card->in_world)
		err = eventfd_write(card->doorbell, 1) ? -errno : 0;
	else if (!weir_op_is_busy(&card->timer))
		err = weir_sleep_until(r, &card->timer,
				       weir_reactor_now(r) + 5 * WEIR_USEC);
	card->started += !err;
	return err;
}

/* The hardware cannot take a request back: the job goes on to its end. */
static void card_cancel(struct weir_domain *d, struct weir_op *op)
{
	(void)op;
	((struct card *)weir_domain_ctx(d))->refused++;
}

/* What is mapped is reached in place. */
static int card_translate(struct weir_domain *d, void *ctx,
			  struct weir_domain *dst, void *dst_ctx, uint64_t addr,
			  size_t len, struct weir_translation *ret)
{
	(void)ctx, (void)dst, (void)dst_ctx;
	if (addr + len > CARD_WINDOW)
		return -EXDEV;
	ret->domain = weir_domain_system();
	ret->iov.iov_base = ((struct card *)weir_domain_ctx(d))->bytes + addr;
	ret->iov.iov_len = len;
	ret->n_iov = 1;
	return 0;
}

static int make_domain(struct weir_domain **ret, struct card *card,
		       const char *id, uint32_t flags)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .id = id,
		.ctx = card, .len = CARD_BYTES, .place = card, .flags = flags,
	};
	int err = weir_domain_create(ret, &opts);

	return err || (err = weir_domain_set_pull(*ret, card_move)) ||
	       (err = weir_domain_set_push(*ret, card_move)) ||
	       (err = weir_domain_set_translate(*ret, card_translate)) ||
	       (err = weir_domain_set_cancel(*ret, card_cancel)) ? err : 0;
}

static void card_close(void *arg)
{
	struct card *card = arg;

	weir_domain_destroy(card->memory);
	weir_domain_destroy(card->rom);
	close(card->doorbell);
	free(card);
}

static int card_open(void *arg, struct weir_device *dev, void **ret)
{
	struct card *card = calloc(1, sizeof(*card) + CARD_BYTES);
	int err = card ? 0 : -ENOMEM;

	(void)arg, (void)dev;
	if (err)
		return err;
	card->bytes = (char *)(card + 1);
	card->broken = UINT64_MAX;
	card->doorbell = eventfd(0, EFD_CLOEXEC);
	err = card->doorbell < 0 ? -errno : 0;
	if (!err)
		err = make_domain(&card->memory, card, "card", 0);
	if (!err)
		err = make_domain(&card->rom, card, "card's ROM",
				  WEIR_DOMAIN_READ_ONLY);
	if (err)
		card_close(card);
	else
		*ret = card;
	return err;
}

static int card_list(void *arg, struct weir_provider_list *list)
{
	struct weir_device_caps caps = {
		.size = sizeof(caps), .name = "card0", .dm_size = CARD_BYTES,
		.kind = WEIR_DEVICE_USER, .flags = WEIR_DEVICE_USABLE,
	};

	return arg ? -EINVAL : weir_provider_list_add(list, &caps);
}

int card_register(void)
{
	static const struct weir_provider_ops ops = {
		.size = sizeof(ops), .name = "card", .list = card_list,
		.open = card_open, .close = card_close,
	};

	return weir_provider_register(&card_provider, &ops, NULL);
}

int card_attach(struct card *card, struct weir_reactor *r, int in_world)
{
	int err = weir_event_create(&card->event, r, on_event, card);

	card->r = err ? NULL : r;
	card->in_world = in_world;
	weir_op_init(&card->timer, on_timer);
	if (!err && !in_world)
		err = -pthread_create(&card->thread, NULL, hardware, card);
	return err;
}

void card_detach(struct card *card)
{
	eventfd_write(card->doorbell, CARD_QUEUE + 1);
	if (!card->in_world)
		pthread_join(card->thread, NULL);
	weir_event_destroy(card->event);
	card->r = NULL;
}
