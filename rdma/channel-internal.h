/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_CHANNEL_INTERNAL_H
#define RDMA_CHANNEL_INTERNAL_H

/*
 * Channels inside: channel.c has their work, channel.c their end.
 */

#include <stdatomic.h>

#include <weir/object.h>
#include <weir/poll-hook.h>
#include <weir/reactor.h>
#include <weir/rdma/channel.h>
#include <weir/stats.h>

#include "base/check.h"
#include "rdma/verbs-fd.h"

/* Fields of sections on the page of statistics, line by line. */
#define FIELD_COUNT(name, help) \
	{ name, help, WEIR_STATS_COUNTER, WEIR_STATS_NUMBER, 0 }
#define FIELD_NOW(name, help) \
	{ name, help, WEIR_STATS_GAUGE, WEIR_STATS_NUMBER, 0 }
#define N_FIELDS(fields) (sizeof(fields) / sizeof((fields)[0]))

/*
 * A user inside the library that has work on a channel of any creator.
 * Embedded in its owner.
 */
struct channel_user {
	/* No completion will come any more.  Called once, in the turn, before
	 * the callback of the channel's creator.  @user is off the channel by
	 * then. */
	void (*failed)(struct channel_user *user, int err);
	struct channel_user *next;
	struct channel_user **pprev;	/* NULL: of none. */
};

struct weir_channel {
	struct weir_reactor *reactor;
	struct weir_poll_hook *hook;
	struct weir_object *obj; /* Notified of its failure. */
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_wc *wc;
	struct ibv_wc *wc_told;	/* It was .wc when its telling began, or NULL. */
	uint32_t head, tail;	/* Polled, not delivered yet. */
	uint32_t wc_max;
	uint32_t batch;
	uint32_t unacked;	/* Events. */
	bool armed;		/* An event has come or will. */
	bool event_seen;	/* And nothing polled since. */
	bool delivering;
	bool closed;
	uint32_t refs;		/* Freed by the last. */
	bool told;		/* The failure was reported. */
	atomic_bool failed;
	struct channel_user *users;
	weir_channel_failed_fn *fn;
	void *arg;
	struct weir_channel_stats stats;
	struct weir_channel *next;
};

/* On the channel's thread.  Removing a user that is on no channel is
 * allowed. */
void channel_user_add(struct weir_channel *ch, struct channel_user *user);
void channel_user_del(struct channel_user *user);

/*
 * Reserve as weir_channel_reserve() does, and make the completion queue larger
 * if it has no capacity.  -EAGAIN: the device does not.
 */
int channel_reserve(struct weir_channel *ch, uint32_t n);

static inline bool channel_has_to_tell(const struct weir_channel *ch)
{
	return atomic_load(&ch->failed) && !ch->told;
}

#endif /* RDMA_CHANNEL_INTERNAL_H */
