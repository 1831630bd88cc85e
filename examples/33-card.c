/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A program that uses a user's device, the card of card.c: it finds the card,
 * copies to it and back, and handles what the card refuses and where it fails.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/device.h>
#include <weir/dma.h>
#include <weir/job.h>
#include <weir/reactor.h>

#include "card.h"

static struct weir_dma *dma;

static void on_copied(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

static int64_t copy(struct weir_operand to, struct weir_operand from,
		    int cancel)
{
	struct weir_job job;
	int64_t res;
	int err;

	weir_job_init(&job, on_copied);
	weir_job_copy(&job, to, from);
	job.op.data = &res;
	err = weir_job_start(dma, &job);
	if (err)
		return err;
	if (cancel)
		weir_op_cancel(&job.op);
	while (weir_op_is_busy(&job.op))
		weir_reactor_turn(weir_dma_reactor(dma), WEIR_FOREVER);
	return res;
}

static int fails(const char *what)
{
	fprintf(stderr, "33-card: %s: %s\n", what, weir_why());
	return 1;
}

int main(void)
{
	char text[] = "to the card and back", back[sizeof(text)];
	const size_t len = sizeof(text);
	struct weir_operand here = weir_operand_mem(text, len);
	struct weir_reactor *r;
	struct weir_device *dev;
	struct card *card;

	if (weir_reactor_create(&r, NULL) || card_register() ||
	    weir_device_open_name(&dev, "card0"))
		return fails("no card");
	card = weir_provider_card(card_provider, dev);
	if (card_attach(card, r, 0) || weir_dma_create(&dma, r, NULL) ||
	    weir_dma_start(dma))
		return fails("no context");

	/* There and back, by the card and in the window that is mapped. */
	if (copy(weir_operand_at(card->memory, 10000, len), here, 0) < 0 ||
	    copy(weir_operand_at(card->memory, 0, len),
		 weir_operand_at(card->rom, 10000, len), 0) < 0 ||
	    copy(weir_operand_mem(back, len),
		 weir_operand_at(card->memory, 0, len), 0) < 0 ||
	    memcmp(back, text, len))
		return fails("a copy");

	/* What is refused before the card is asked; what fails in the card; and a
	 * cancel that comes to nothing. */
	if (copy(weir_operand_at(card->memory, CARD_BYTES - 1, len), here,
		 0) != -ERANGE ||
	    copy(weir_operand_at(card->rom, 0, len), here, 0) != -EACCES)
		return fails("bounds and rights");
	card->broken = 20005;
	if (copy(weir_operand_at(card->memory, 20000, len), here, 0) != -EIO)
		return fails("an error");
	if (copy(weir_operand_at(card->memory, 30000, len), here, 1) < 0 ||
	    card->refused != 1)
		return fails("a cancel");
	printf("%s\n", back);
	card_detach(card);
	return weir_dma_destroy(dma) || weir_device_close(dev) ||
	       weir_provider_unregister(card_provider) ||
	       weir_reactor_destroy(r);
}
