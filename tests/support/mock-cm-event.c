/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's event channels of rdma_cm. */

#include "tests/support/mock-cm-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct channel {
	struct rdma_event_channel channel;
	struct mock_fifo events;
};

/* What a program is given; the event is first. */
struct told {
	struct rdma_cm_event event;
	struct mock_id *owner; /* Waits for the acknowledgement. */
	enum mock_cm_state next;
	struct told *behind; /* Held, or on its way. */
	struct sim_event timer;
	uint8_t data[MOCK_CM_REPLY];
};

static struct told *held_first;
static bool held, timewait_held = true;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *ch = calloc(1, sizeof(*ch));

	ch->channel.fd = mock_fifo_open(&ch->events);
	if (ch->channel.fd < 0) {
		free(ch);
		return NULL;
	}
	mock_lock();
	mock_self.cm_channels++;
	mock_unlock();
	return &ch->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct channel *ch = (struct channel *)channel;
	struct mock_id *id;

	mock_lock();
	for (id = mock_ids; id; id = id->next)
		if (id->id.channel == channel)
			abort(); /* They would have nothing. */
	mock_self.cm_channels--;
	mock_unlock();
	mock_fifo_close(&ch->events);
	free(ch);
}

/* What was held is not to take an id back; no news leads to IDLE. */
static void advance(struct mock_id *id, enum mock_cm_state next)
{
	if (next == MOCK_CM_IDLE)
		return;
	if (id->state < MOCK_CM_CONNECT || next > id->state)
		id->state = next;
}

static void deliver(struct told *told)
{
	struct channel *ch = (struct channel *)told->owner->id.channel;
	struct mock_event e = { .owner = told->owner, .more = told };

	if (told->event.event != RDMA_CM_EVENT_CONNECT_REQUEST)
		advance(told->owner, told->next);
	mock_fifo_put(&ch->events, &e);
}

static bool is_held(const struct told *told)
{
	return held || (timewait_held &&
			told->event.event == RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

/* Its time has come, in a world. */
static void arrive(struct weir_sim *sim, struct sim_event *ev)
{
	struct told *told = weir_container_of(ev, struct told, timer);
	struct told **at = &held_first;

	(void)sim;
	mock_lock();
	while (*at != told)
		at = &(*at)->behind;
	*at = told->behind;
	told->behind = NULL;
	deliver(told);
	mock_unlock();
}

static void enqueue(struct told *told)
{
	struct told **at = &held_first;
	bool travels = mock_in_world() && !is_held(told);

	if (!travels && !is_held(told)) {
		deliver(told);
		return;
	}
	while (*at)
		at = &(*at)->behind;
	*at = told;
	told->timer.fire = arrive;
	if (travels)
		mock_sim_tell(&told->timer, told->owner);
}

void mock_cm_message(struct mock_id *id, struct mock_id *child,
		     enum rdma_cm_event_type type, int status,
		     enum mock_cm_state next,
		     const struct rdma_conn_param *param, uint8_t capacity)
{
	struct told *told = calloc(1, sizeof(*told));

	told->owner = id;
	told->next = next;
	told->event.id = child ? &child->id : &id->id;
	told->event.listen_id = child ? &id->id : NULL;
	told->event.event = type;
	told->event.status = status;
	if (param) {
		told->event.param.conn = *param;
		told->event.param.conn.private_data = told->data;
		told->event.param.conn.private_data_len = capacity;
		if (param->private_data_len)
			memcpy(told->data, param->private_data,
			       param->private_data_len);
	}
	enqueue(told);
}

void mock_cm_tell(struct mock_id *id, enum rdma_cm_event_type type, int status,
		  enum mock_cm_state next)
{
	mock_cm_message(id, NULL, type, status, next, NULL, 0);
}

/* libibverbs' device of an id is known when the program has read of it. */
static void learn(struct told *told)
{
	struct mock_id *id = (struct mock_id *)told->event.id;

	id->given = true;
	if (told->event.event == RDMA_CM_EVENT_ADDR_RESOLVED ||
	    told->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		id->id.verbs = mock_cm_verbs();
		id->id.port_num = 1;
	}
}

int rdma_get_cm_event(struct rdma_event_channel *channel,
		      struct rdma_cm_event **event)
{
	struct mock_event e;
	struct told *told;

	if (mock_fifo_take(&((struct channel *)channel)->events, &e))
		return -1;
	told = e.more;
	told->owner->reported++;
	mock_self.unacked++;
	learn(told);
	*event = &told->event;
	mock_unlock();
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct told *told = (struct told *)event;

	mock_lock();
	told->owner->acked++;
	mock_self.unacked--;
	mock_unlock();
	memset(told, 0xa5, sizeof(*told));
	free(told);
	return 0;
}

/* A request that nobody read is refused. */
static void drop(struct mock_id *listener)
{
	struct mock_id **at = &mock_ids, *id;

	while ((id = *at)) {
		if (id->given || id->listener != listener) {
			at = &id->next;
			continue;
		}
		*at = id->next;
		mock_cm_leave(id);
		mock_cm_purge(id);
		mock_self.ids--;
		free(id);
		at = &mock_ids;
	}
}

void mock_cm_purge(struct mock_id *id)
{
	struct channel *ch = (struct channel *)id->id.channel;
	struct told **at = &held_first, *told;

	while ((told = *at)) {
		if (told->owner != id) {
			at = &told->behind;
			continue;
		}
		*at = told->behind;
		mock_sim_untell(&told->timer);
		free(told);
	}
	mock_fifo_purge(&ch->events, id);
	if (id->state == MOCK_CM_LISTEN)
		drop(id);
}

int rdma_migrate_id(struct rdma_cm_id *ibid, struct rdma_event_channel *channel)
{
	struct mock_id *id = (struct mock_id *)ibid;
	struct channel *from = (struct channel *)ibid->channel;
	struct mock_event **at, *e;

	mock_lock();
	if (id->reported != id->acked)
		mock_hang("rdma_migrate_id", "events not acked");
	for (at = &from->events.first; (e = *at);) {
		if (e->owner != id) {
			at = &e->next;
			continue;
		}
		mock_fifo_put(&((struct channel *)channel)->events, e);
		e->more = NULL;
		e->owner = from;
	}
	mock_fifo_purge(&from->events, from);
	ibid->channel = channel;
	mock_unlock();
	return 0;
}

/* What tests tell it. */

unsigned int mock_cm_step(unsigned int most)
{
	unsigned int done = 0;
	struct told *told;

	mock_lock();
	while (done < most && (told = held_first)) {
		held_first = told->behind;
		told->behind = NULL;
		deliver(told);
		done++;
	}
	mock_unlock();
	return done;
}

/* Those that are held no more. */
static void let_go(void)
{
	struct told **at = &held_first, *told;

	while ((told = *at)) {
		if (is_held(told)) {
			at = &told->behind;
			continue;
		}
		*at = told->behind;
		told->behind = NULL;
		deliver(told);
	}
}

void mock_cm_hold(bool hold)
{
	mock_lock();
	held = hold;
	let_go();
	mock_unlock();
}

void mock_cm_hold_timewait(bool hold)
{
	mock_lock();
	timewait_held = hold;
	let_go();
	mock_unlock();
}

void mock_cm_remove_device(void)
{
	struct mock_id *id;

	mock_lock();
	for (id = mock_ids; id; id = id->next)
		if (id->id.verbs && id->state != MOCK_CM_LISTEN)
			mock_cm_tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0,
				     MOCK_CM_ENDED);
	mock_unlock();
}
