/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A spsc and both its notifies: reactor/group/spsc.c, with reactor/wait.c.
 *
 * The sender posts and calls, as much as there is capacity for, shows it at the end
 * of its turn, waits for capacity when it is refused, and sleeps; the receiver runs
 * and answers it, and sleeps.  Each is woken by nothing but the other.  A call
 * may be cancelled at any time.  Each step is one of the code's operations on
 * what both see, all of which are sequentially consistent, but for what is
 * shown or answered early: that may be seen or not, and rings or does not.
 *
 * Shown: all is run, in order; each call is answered, as it was run; no cell is
 * written to that was not read; who sleeps is fallback for once; and it all ends.
 *
 * wrong: SLEEP_AT_ONCE_SENDER SLEEP_AT_ONCE_RECEIVER PUBLISH_AFTER_NOTIFY
 * wrong: NO_NOTIFY_FOR_CAPACITY ANSWER_AFTER_NOTIFY WANT_TOO_LATE
 * wrong: NO_LAST_PUBLISH NO_LAST_ANSWER BEYOND_WHAT_IS_ANSWERED
 */

#define CELLS 2
#define ALL 4
#define HALF (CELLS / 2)

/* Both see these. */
byte tail, head;
bool wants_capacity;
mtype = { POST, CALL, CANCELLED };
mtype kind[CELLS];
byte number_in[CELLS], result[CELLS];
bool s_asleep, r_asleep;
byte s_notify, r_notify;
byte s_notified, r_notified;		/* Who pays for the end of this sleep. */

/* The sender's own. */
byte next, done, n_calls;
bool is_call[CELLS];
bool waits;
byte ended;

#define NOT_RUN 255

/* mailbox_wake(): the look, the exchange, the eventfd. */
inline wake(asleep, notify, fallback)
{
	if
	:: asleep ->
		atomic {
			if
			:: asleep ->
				asleep = false;
				notify++;
				fallback++;
				assert(fallback <= 1)
			:: else
			fi
		}
	:: else
	fi
}

/* spsc_has_capacity(): spsc_forget_posts(), and the look. */
inline forget_posts()
{
	if
	:: !n_calls -> done = head
	:: else
	fi
}

#define CAPACITY (next - done <= HALF)

/* spsc_post(), spsc_call(), of which the latter may be cancelled. */
inline write_one()
{
	number_in[next % CELLS] = next;
	if
	:: kind[next % CELLS] = POST;
		is_call[next % CELLS] = false
	:: kind[next % CELLS] = CALL;
		is_call[next % CELLS] = true;
		n_calls++
	fi;
	next++
}

/* has_news() */
inline look_for_news()
{
	news = n_calls && head != done;
	if
	:: !news && waits ->
		forget_posts();
		news = CAPACITY
	:: else
	fi
}

/* publish_early(), and answer_early(): perhaps. */
inline publish_early()
{
	if
	:: tail = next;
		if
		:: wake(r_asleep, r_notify, r_notified)
		:: true
		fi
#ifdef NO_LAST_PUBLISH
		;
		shown = next
#endif
	:: true
	fi
}

inline answer_early()
{
	if
	:: head = taken;
		if
		:: calls -> wake(s_asleep, s_notify, s_notified)
		:: true
		fi
#ifdef NO_LAST_ANSWER
		;
		calls = false
#endif
	:: true
	fi
}

#ifdef BEYOND_WHAT_IS_ANSWERED
#define ANSWERED (h != done)
#else
#define ANSWERED (h > done)
#endif

/* tell_ends(): the answer is that of this very call, whose callback sends. */
inline tell_ends()
{
	h = head;
	do
	:: n_calls && ANSWERED ->
		pos = done;
		done++;
		if
		:: is_call[pos % CELLS] ->
			assert(result[pos % CELLS] == pos ||
			       (result[pos % CELLS] == NOT_RUN &&
				kind[pos % CELLS] == CANCELLED));
			n_calls--;
			do
			:: next < ALL ->
				if
				:: next - done == CELLS -> forget_posts()
				:: else
				fi;
				if
				:: next - done < CELLS ->
					write_one();
					publish_early()
				:: else -> break
				fi
			:: break
			od
		:: else
		fi
	:: else -> break
	od
}

proctype sender()
{
	byte shown, h, pos;
	bool news;

turn:	tell_ends();
	/* tell_capacity() */
	if
	:: waits ->
		forget_posts();
		if
		:: CAPACITY -> waits = false; wants_capacity = false
		:: else
		fi
	:: else
	fi;
	/* The callbacks: messages, until one is refused. */
	do
	:: next < ALL && !waits ->
		if
		:: next - done == CELLS -> forget_posts()
		:: else
		fi;
		if
		:: next - done < CELLS ->
			write_one();
			publish_early()
		:: else ->
			/* weir_capacity_wait() */
			waits = true;
#ifndef WANT_TOO_LATE
			wants_capacity = true
#endif
		fi
	:: else -> break
	od;
	/* rings_publish() */
	if
	:: shown != next ->
		shown = next;
#ifdef PUBLISH_AFTER_NOTIFY
		wake(r_asleep, r_notify, r_notified);
		tail = next
#else
		tail = next;
		wake(r_asleep, r_notify, r_notified)
#endif
	:: else
	fi;
	if
	:: next == ALL && !n_calls -> goto end
	:: else
	fi;
	look_for_news();
	if
	:: news -> goto turn
	:: else
	fi;
	/* sleep_until() */
	d_step {
		s_asleep = true;
		s_notified = 0
	}
#ifndef SLEEP_AT_ONCE_SENDER
	look_for_news();
	if
	:: news -> goto awake
	:: else
	fi;
#endif
#ifdef WANT_TOO_LATE
	wants_capacity = waits;
#endif
	/* spsc_cancel(), of the first that was not told; it wakes nobody. */
	do
	:: atomic { s_notify > 0 -> s_notify = 0 }; break
	:: n_calls && is_call[done % CELLS] && kind[done % CELLS] == CALL ->
		kind[done % CELLS] = CANCELLED
	od;
awake:	s_asleep = false;
	goto turn;
end:	ended++
}

proctype receiver()
{
	byte taken, seen;
	bool calls;

turn:	/* spsc_run() */
	seen = tail;
	if
	:: taken == seen -> goto idle
	:: else
	fi;
	calls = false;
	do
	:: taken != seen ->
		assert(number_in[taken % CELLS] == taken);
		if
		:: kind[taken % CELLS] == CALL ->
			result[taken % CELLS] = taken;
			calls = true
		:: kind[taken % CELLS] == CANCELLED ->
			result[taken % CELLS] = NOT_RUN;
			calls = true
		:: else
		fi;
		taken++;
		answer_early()
	:: else -> break
	od;
	/* answer() */
#ifndef ANSWER_AFTER_NOTIFY
	head = taken;
#endif
	if
	:: calls -> wake(s_asleep, s_notify, s_notified)
#ifndef NO_NOTIFY_FOR_CAPACITY
	:: !calls && wants_capacity && seen - taken <= HALF ->
		wake(s_asleep, s_notify, s_notified)
#endif
	:: else
	fi;
#ifdef ANSWER_AFTER_NOTIFY
	head = taken;
#endif
	goto turn;
idle:	if
	:: taken == ALL -> goto end
	:: else
	fi;
	d_step {
		r_asleep = true;
		r_notified = 0
	}
#ifndef SLEEP_AT_ONCE_RECEIVER
	if
	:: tail != taken -> goto awake
	:: else
	fi;
#endif
	atomic { r_notify > 0 -> r_notify = 0 }
awake:	r_asleep = false;
	goto turn;
end:	ended++
}

init {
	atomic {
		run sender();
		run receiver()
	}
}

ltl both_come_to_their_end { <> (ended == 2) }
