/* SPDX-License-Identifier: BSD-3-Clause */
/* What calls back again and again: only while it is there. */

#include "tests/fuzz/sim-world.h"

enum kind { NONE, TIMER, EVENT, POLLER, WATCH, RECEIVER, ACCEPTOR, KINDS };

static void called(const struct source *s, enum kind kind, const void *handle)
{
	MUST(s->kind == (int)kind && s->handle == handle);
	MUST(weir_reactor_state(s->core->r) == WEIR_REACTOR_RUNNING);
}

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct source *s = arg;

	called(s, TIMER, timer);
	MUST(n && weir_sim_now(w.sim) >= s->due_ns);
	act(s->core);
}

static void on_event(struct weir_event *event, uint64_t n, void *arg)
{
	struct source *s = arg;

	called(s, EVENT, event);
	MUST(n && n == s->owed);
	s->owed = 0;
	act(s->core);
}

static int on_poller(struct weir_poller *poller, void *arg)
{
	struct source *s = arg;
	uint32_t res = byte_below(2);

	called(s, POLLER, poller);
	act(s->core);
	return (int)res;
}

static void on_watch(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct source *s = arg;
	char buf[100];

	called(s, WATCH, watch);
	MUST(events && events < WEIR_EDGE);
	if (!is_likely())
		(void)weir_sim_read(s->place->fd, buf, sizeof(buf));
	act(s->core);
}

static int on_receiver(struct weir_receiver *receiver, void *data, int64_t len,
		       void *arg)
{
	struct source *s = arg;
	struct core *c = s->core;
	uint32_t at = byte_below(HELD);
	int res = WEIR_RECEIVER_DONE;

	called(s, RECEIVER, receiver);
	MUST(!s->has_ended);
	s->has_ended = len <= 0;
	MUST((len > 0) == (data != NULL) && len > -4096);
	if (len > 0 && byte_below(2) && !c->kept[at]) {
		memset(data, 'k', (size_t)len);
		c->kept[at] = data;
		res = WEIR_RECEIVER_KEEP;
	}
	act(c);
	return res;
}

static void on_acceptor(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct source *s = arg;

	called(s, ACCEPTOR, acceptor);
	MUST(!s->has_ended && fd > -4096);
	if (fd >= 0)
		place_keep(fd, true);
	else
		s->has_ended = fd != -EMFILE && fd != -ENFILE &&
			       fd != -ENOBUFS && fd != -ENOMEM;
	act(s->core);
}

void source_end(struct source *s)
{
	switch (s->kind) {
	case TIMER:
		weir_timer_destroy(s->handle);
		break;
	case EVENT:
		weir_event_destroy(s->handle);
		break;
	case POLLER:
		weir_poller_destroy(s->handle);
		break;
	case WATCH:
		weir_watch_destroy(s->handle);
		break;
	case RECEIVER:
		weir_receiver_destroy(s->handle);
		break;
	case ACCEPTOR:
		weir_acceptor_destroy(s->handle);
		break;
	}
	if (s->place)
		s->place->users--;
	*s = (struct source){ .core = s->core };
}

static int create_on(struct source *s, enum kind kind, void **ret)
{
	struct weir_reactor *r = s->core->r;
	struct place *place = place_any();
	int err;

	if (!place)
		return -EAGAIN;
	if (kind == WATCH)
		err = weir_watch_create((struct weir_watch **)ret, r, place->fd,
					byte_below(4) |
					(byte_below(2) * WEIR_EDGE),
					on_watch, s);
	else if (kind == RECEIVER)
		err = weir_receiver_create((struct weir_receiver **)ret, r,
					   place->fd, NULL, on_receiver, s);
	else
		err = weir_acceptor_create((struct weir_acceptor **)ret, r,
					   place->fd, on_acceptor, s);
	if (err)
		return err;
	s->place = place;
	place->users++;
	return 0;
}

static void create(struct source *s, enum kind kind)
{
	struct weir_reactor *r = s->core->r;
	void *handle = NULL;
	int err;

	switch (kind) {
	case TIMER:
		err = weir_timer_create((struct weir_timer **)&handle, r,
					on_timer, s);
		break;
	case EVENT:
		err = weir_event_create((struct weir_event **)&handle, r,
					on_event, s);
		break;
	case POLLER:
		err = weir_poller_create((struct weir_poller **)&handle, r,
					 some_span(), on_poller, s);
		break;
	default:
		err = create_on(s, kind, &handle);
	}
	MUST(err != -ESHUTDOWN || s->core->is_stopped);
	MUST(!err == (handle != NULL));
	if (err)
		return;
	s->kind = (int)kind;
	s->handle = handle;
}

/* What it has besides being there. */
static void use(struct source *s)
{
	uint64_t period;

	switch (s->kind) {
	case TIMER:
		if (!byte_below(4)) {
			weir_timer_stop(s->handle);
			break;
		}
		period = byte_below(3) ? 0 : WEIR_USEC + some_span();
		s->due_ns = some_time();
		weir_timer_start(s->handle, s->due_ns, period);
		MUST(weir_timer_is_set(s->handle));
		break;
	case EVENT:
		s->owed++;
		weir_event_signal(s->handle);
		break;
	case WATCH:
		(void)weir_watch_set(s->handle, byte_below(4));
		break;
	case RECEIVER:
		if (!s->has_ended)
			(void)weir_receiver_set(s->handle,
						(int)byte_below(2));
		break;
	}
}

void source_touch(struct core *c)
{
	struct source *s = &c->sources[byte_below(SOURCES)];
	uint32_t at;

	s->core = c;
	if (!s->kind) {
		create(s, (enum kind)(1 + byte_below(KINDS - 1)));
	} else if (byte_below(3)) {
		use(s);
	} else {
		source_end(s);
		at = byte_below(HELD);
		if (c->kept[at])
			weir_receiver_release(c->r, c->kept[at]);
		c->kept[at] = NULL;
	}
}
