/* SPDX-License-Identifier: CC0-1.0 */
#ifndef CARD_H
#define CARD_H

/* A card, and what its author gives to programs beside <weir/device.h>. */

#include <pthread.h>
#include <stdatomic.h>

#include <weir/op.h>
#include <weir/provider.h>

#ifndef CARD_BYTES
#define CARD_BYTES (1u << 20)	/* Of memory. */
#endif
#define CARD_WINDOW 4096u	/* Of those, mapped into this process. */
#define CARD_QUEUE 16u		/* Requests at once. */

struct card {
	struct weir_domain *memory;	/* All of it, */
	struct weir_domain *rom;	/* and the same to be read only. */
	char *bytes;
	uint64_t broken;	/* An address at which it fails; or UINT64_MAX. */
	unsigned int refused;	/* Cancels. */

	struct weir_reactor *r;		/* Whose jobs it does; NULL: none's. */
	int in_world;			/* That reactor is simulated. */
	struct weir_event *event;	/* Requests are done. */
	struct weir_op timer;		/* In a world: when they will be. */
	pthread_t thread;		/* Else: the hardware, */
	int doorbell;			/* which waits for this eventfd. */
	struct card_request {
		struct weir_op *op;
		const struct weir_domain_move *move;
		int64_t res;	/* Bytes, or ~bytes before an error. */
	} queue[CARD_QUEUE];
	unsigned int started, ended;	/* Requests, ever. */
	atomic_uint done;
};

extern struct weir_provider *card_provider;

/* Register the provider "card".  Returns 0 or a negative errno. */
int card_register(void);

/* Have @card do jobs of @r from now on.  Returns 0 or a negative errno. */
int card_attach(struct card *card, struct weir_reactor *r, int in_world);

/* Have it do none; nothing is in flight. */
void card_detach(struct card *card);

#endif /* CARD_H */
