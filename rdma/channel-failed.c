/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels that fail: who finds out, and who is told.  Those of the library
 * that have work on one are told first, so that the work has ended when the one
 * who made it hears of it.
 */

#include <errno.h>
#include <pthread.h>

#include "rdma/channel-internal.h"

/* All there are, for what any thread reads of a device's events. */
static struct {
	pthread_mutex_t lock;
	struct weir_channel *first;
} channels = { .lock = PTHREAD_MUTEX_INITIALIZER };

void channel_list_add(struct weir_channel *ch)
{
	pthread_mutex_lock(&channels.lock);
	ch->next = channels.first;
	channels.first = ch;
	pthread_mutex_unlock(&channels.lock);
}

void channel_list_del(struct weir_channel *ch)
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
		verbs_fd_send(&ch->vfd);
	}
	pthread_mutex_unlock(&channels.lock);
}

void channel_user_add(struct weir_channel *ch, struct channel_user *user)
{
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

unsigned int channel_tell_failure(struct weir_channel *ch)
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
