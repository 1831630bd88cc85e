/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a reactor: reactor/turn.c, op.c, worker.c, source.c, reactor.c and
 * the free_list of mem/buf.c.
 *
 * In flight when it is told to stop: an operation that the kernel has, one that
 * a worker may take, a source that was destroyed but whose request the kernel
 * still has, and a buf that another thread puts.  Stop, cancel, drain,
 * unregister, free; and whoever is late is waited for.
 *
 * Shown: each operation has one callback; the kernel writes only to memory that
 * is still there; nobody touches the reactor or the free_list once they are gone;
 * and the reactor comes to its end, though the kernel's operation may end by
 * nothing but a cancel.
 *
 * wrong: NO_DRAIN NO_JOIN NO_ZOMBIES NO_SENDERS NO_DEFERRED_FINISH NO_CANCEL
 */

/* The operation that the kernel has. */
bool asked, cqe;
byte callbacks_io;

/* The worker's operation. */
bool lock, queued = true, quit, worker_ended;
byte callbacks_work;
bool work_returned;

/* The source. */
bool engaged = true, disarmed, last_word;
bool zombie, source_gone;

/* The buf, and its free_list. */
byte senders, out = 1;
bool arrival, sent, deferred_arrived;
bool free_list_gone;

byte in_flight = 2;
bool gone;			/* The reactor. */
byte ended;

/* What op_return() touches when the op is already on its way. */
inline mailbox_wake()
{
	assert(!gone)
}

proctype kernel_op()
{
	/* It may be stuck: then only a cancel ends it. */
	bool stuck;

	if
	:: stuck = true; asked
	:: skip
	fi;
	assert(!gone && !callbacks_io);	/* Its last bytes, and the CQE. */
	cqe = true;
	ended++
}

/* A multishot request: what was on the way still comes, then the last word. */
proctype kernel_source()
{
	byte said;

	do
	:: said < 2 ->
		assert(!source_gone && !gone);
		said++
	:: disarmed -> break
	od;
	assert(!source_gone && !gone);
	last_word = true;
	ended++
}

/* worker_main() */
proctype worker()
{
	bool mine;

	atomic { !lock; lock = true }
	mine = queued;
	queued = false;
	lock = false;
	if
	:: mine ->
		assert(!gone && !callbacks_work);	/* io_sync() */
		/* op_return() */
		work_returned = true;
		mailbox_wake()
	:: else
	fi;
	/* take(): nothing more, until the pool is closed. */
	quit;
	worker_ended = true;
	ended++
}

/* put_from_afar(), deferred_send() */
proctype other_thread()
{
	bool was;

	assert(!free_list_gone);
	atomic { senders++ }
	arrival = true;
	atomic {
		was = sent;
		sent = true
	}
	if
	:: !was ->
		assert(!free_list_gone);
		deferred_arrived = true;
		mailbox_wake()
	:: else
	fi;
	assert(!free_list_gone);
	atomic { senders-- }
	ended++
}

/* One turn's work: mailbox_run() and reap(). */
#define something (cqe || work_returned || deferred_arrived || last_word)

inline free_list_collect()
{
	if
	:: arrival ->
		arrival = false;
		out--
	:: else
	fi
}

inline do_one()
{
	if
	:: cqe ->
		cqe = false;
		callbacks_io++;
		in_flight--
	:: work_returned ->
		work_returned = false;
		callbacks_work++;
		in_flight--
	:: deferred_arrived ->
		/* deferred_arrived(), arrived() */
		assert(!free_list_gone);
		deferred_arrived = false;
		sent = false;
		free_list_collect()
	:: last_word ->
		/* source_unref() */
		last_word = false;
		engaged = false;
		if
		:: zombie ->
			zombie = false;
			source_gone = true
		:: else
		fi
	fi
}

proctype reactor()
{
	bool mine;

	/* source_destroy(): its request is still out. */
	disarmed = true;
#ifdef NO_ZOMBIES
	source_gone = true;
#else
	atomic {
		if
		:: engaged -> zombie = true
		:: else -> source_gone = true
		fi
	}
#endif

	/* weir_inventory_destroy(): -EBUSY while bufs are out. */
	do
	:: free_list_collect();
		if
		:: out == 0 -> break
		:: out > 0 && something -> do_one()
		:: out > 0 && arrival
		fi
	od;
	/* free_list_fini() */
#ifndef NO_SENDERS
	senders == 0;
#endif
#ifndef NO_DEFERRED_FINISH
	do
	:: !sent -> break
	:: sent && something -> do_one()
	od;
#endif
	free_list_gone = true;

	/* weir_reactor_destroy(): begin_stopping(), op_cancel_all() */
#ifndef NO_CANCEL
	asked = true;
	/* worker_cancel() */
	atomic { !lock; lock = true }
	mine = queued;
	queued = false;
	lock = false;
	if
	:: mine ->
		callbacks_work++;
		in_flight--
	:: else
	fi;
#endif
	/* turn_until_stopped(), is_drained() */
#ifndef NO_DRAIN
	do
	:: in_flight == 0 && !zombie && !deferred_arrived -> break
	:: something -> do_one()
	od;
	assert(callbacks_io == 1 && callbacks_work == 1 && source_gone);
#endif
	/* worker_fini() */
	quit = true;
#ifndef NO_JOIN
	worker_ended;
#endif
	gone = true;
	ended++
}

init {
	atomic {
		run kernel_op();
		run kernel_source();
		run worker();
		run other_thread();
		run reactor()
	}
}

ltl it_comes_to_its_end { <> (ended == 5) }
