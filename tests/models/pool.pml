/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that reactors share: mem/shared-pool-move.c, and foreign puts of mem/buf.c.
 *
 * Three reactors with a cache each share one buffer, or two.  Each takes one,
 * or waits for one, and puts it back itself or has another thread put it.  That a
 * reactor with something in its mailbox wakes up is shown by mailbox.pml; here
 * one sleeps until there is.
 *
 * .n_waiting is read without the lock and relaxed, so a reactor may see an old
 * value until it has had the lock, as an deferred does: see look().
 *
 * Shown: nobody sleeps for a buffer while one is free anywhere, in the shared pool,
 * in a cache or on its way back; buffers are neither lost nor made; and what
 * rule 1 of mem/shared-pool-internal.h says.
 *
 * long: BUFS=2
 * wrong: NO_RECALL NO_POLL_IN_PUT RECALL_ONCE GIVE_WITHOUT_SERVE
 */

#define CORES 3
#ifndef BUFS
#define BUFS 1
#endif
#define CACHE_MAX 1

/* The shared pool. */
byte n_free = BUFS;
byte n_waiting;
chan waiters = [CORES] of { byte };

/* Pools. */
byte cached[CORES], owned[CORES], arrivals[CORES], seen[CORES];
bool recalled[CORES];		/* The pool's deferred is in flight. */
bool coming[CORES];		/* The free_list's deferred is. */
bool served[CORES];		/* A wait is returned. */
bool waits[CORES];
#ifdef RECALL_ONCE
bool was_recalled;
#endif

chan afar = [BUFS] of { byte };	/* To who puts them: whose they are. */
byte done;

/* store_has_waiters() */
inline look(me)
{
	if
	:: seen[me] = n_waiting
	:: skip
	fi
}

/* serve() */
inline serve(who)
{
	do
	:: n_waiting > 0 && n_free > 0 ->
		waiters ? who;
		n_waiting--;
		n_free--;
		owned[who]++;
		served[who] = true
	:: else -> break
	od;
	assert(n_waiting == 0 || n_free == 0);
	who = 0
}

/* shrink() */
inline shrink(me, keep)
{
	if
	:: cached[me] > keep ->
		n_free = n_free + cached[me] - (keep);
		owned[me] = owned[me] - cached[me] + (keep);
		cached[me] = keep
	:: else
	fi
}

/* give(), under the lock, which lets its owner see what is. */
inline give(me, who)
{
	seen[me] = n_waiting;
	if
	:: n_waiting > 0 ->
		who = 0;
		if
		:: cached[me] > n_waiting -> who = cached[me] - n_waiting
		:: else
		fi;
		shrink(me, who);
#ifndef GIVE_WITHOUT_SERVE
		serve(who)
#endif
	:: else
	fi;
	if
	:: cached[me] > CACHE_MAX -> shrink(me, CACHE_MAX / 2)
	:: else
	fi;
	seen[me] = n_waiting
}

/* recall() */
inline recall(me, who)
{
	who = 0;
	do
	:: who < CORES ->
		if
		:: who != me && owned[who] > 0 -> recalled[who] = true
		:: else
		fi;
		who++
	:: else -> break
	od;
	who = 0
}

/* returned() of mem/pool.c: a buf is on the owner. */
inline put(me, who)
{
	cached[me]++;
	look(me);
	if
#ifdef NO_POLL_IN_PUT
	:: cached[me] > CACHE_MAX ->
#else
	:: cached[me] > CACHE_MAX || seen[me] > 0 ->
#endif
		atomic { give(me, who) }
	:: else
	fi
}

/* What the mailbox brings: free_list_collect(), store_deferred(). */
#define something_for(me) (coming[me] || recalled[me])

inline mail(me, who)
{
	if
	:: coming[me] ->
		coming[me] = false;
		do
		:: arrivals[me] > 0 ->
			arrivals[me]--;
			put(me, who)
		:: else -> break
		od
	:: recalled[me] ->
		recalled[me] = false;
		atomic { give(me, who) }
	fi
}

/* store_wait(): from the cache, from the shared pool, or in the queue. */
inline wait_for_one(me, who)
{
	look(me);
	if
	:: cached[me] > 0 && seen[me] == 0 -> cached[me]--
	:: else ->
		atomic {
			give(me, who);
			if
			:: n_waiting == 0 && cached[me] > 0 -> cached[me]--
			:: n_waiting == 0 && cached[me] == 0 && n_free > 0 ->
				/* Half a cache more is none, with one of 1. */
				n_free--;
				owned[me]++
			:: else ->
				waits[me] = true;
				waiters ! me;
				n_waiting++;
				seen[me] = n_waiting;
#ifdef NO_RECALL
				skip
#else
				if
#ifdef RECALL_ONCE
				:: n_waiting == 1 && !was_recalled ->
					was_recalled = true;
#else
				:: n_waiting == 1 ->
#endif
					recall(me, who)
				:: else
				fi
#endif
			fi
		}
	fi
}

proctype core(byte me)
{
	byte who, i;

	do
	:: i < 1 + me % 2 ->
		wait_for_one(me, who);
		do
		:: waits[me] && served[me] ->
			/* wait_returned() */
			atomic {
				served[me] = false;
				waits[me] = false
			}
		:: something_for(me) -> mail(me, who)
		:: !waits[me] -> break
		od;
		if
		:: put(me, who)
		:: afar ! me
		fi;
		i++
	:: else -> break
	od;
	done++;
	/* An idle reactor, whose cache may be full. */
end:	do
	:: something_for(me) -> mail(me, who)
	od
}

/* put_from_afar() */
proctype other_thread()
{
	byte whose;

end:	do
	:: afar ? whose ->
		arrivals[whose]++;
		coming[whose] = true
	od
}

init {
	atomic {
		byte c;

		run other_thread();
		for (c : 0 .. CORES - 1) {
			run core(c)
		}
	}
}

ltl each_has_had_its_buffers { <> (done == CORES) }
