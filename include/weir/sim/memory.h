/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_MEMORY_H
#define WEIR_SIM_MEMORY_H

/*
 * Memory in a simulated world that is not this process's: a peer's, which is
 * reached by RDMA, and a device's.
 *
 *	weir_sim_peer_create(&peer, sim, &opts);
 *	domain = weir_sim_peer_domain(peer);
 *	weir_job_copy(&job, weir_operand_at(domain, 4096, len), here);
 *
 * Each is a domain of a user's kind, so jobs, chains and pipelines go there by
 * the ways that they have for any such.  Addresses begin at 0.
 *
 * A peer is behind a queue pair.  What is started waits in a send queue of so
 * many places (-EAGAIN if it is full: jobs then wait for capacity), is done in
 * order, and ends in order.  What goes wrong puts the queue pair into its error
 * state: the first to fail has the true cause, all behind it, and all that is
 * started from then on, end with -ECANCELED, until weir_sim_peer_reset().
 * Nothing in flight can be cancelled; a reset ends it.  The code of the
 * operation's detail is the completion's status as verbs have it:
 *
 *	result        code                    why
 *	-EACCES       10 REM_ACCESS_ERR       revoked, or no such right
 *	-EREMOTEIO    11 REM_OP_ERR           a fault
 *	-ETIMEDOUT    12 RETRY_EXC_ERR        the peer does not answer
 *	-EIO          21 GENERAL_ERR          a fault
 *	-ECANCELED     5 WR_FLUSH_ERR         something before it failed
 *
 * How much a failed operation has moved is not known, as with a real one: the
 * detail says 0 bytes, and the first part of the destination may be written.
 *
 * A card moves in any order, several at once, and can be cancelled.  The detail
 * of what failed has the exact bytes.  The processor must not touch its memory;
 * builds with ASan find out if it does.
 *
 * Faults: DELAY and STUCK of either, REFUSED at a start (-EAGAIN), ERROR;
 * CRASH and REVOKE of a peer, which comes back, or grants again, by itself some
 * time later or when the world is healed; CRASH of a card is a reset.
 *
 * All of them are called on the world's thread, callbacks included.
 *
 * Re-creates nothing: real cards have no such buttons.
 */

#include <weir/sim/world.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_domain;
struct weir_sim_card;
struct weir_sim_peer;

/* What a peer grants. */
#define WEIR_SIM_PEER_READ 1u
#define WEIR_SIM_PEER_WRITE 2u

/* weir_sim_peer_opts.flags: a crash loses what is in the memory. */
#define WEIR_SIM_PEER_FORGETS 1u

/*
 * Options of weir_sim_peer_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_sim_peer_opts {
	size_t size;
	uint64_t bytes;		/* Of the memory; zeroed at first. */
	uint32_t depth;		/* Of the send queue; 0: 64. */
	uint32_t flags;		/* WEIR_SIM_PEER_FORGETS */
	uint64_t retry_ns;	/* Until a silent peer is given up; 0: 0.5 s. */
	const char *name;	/* Copied; NULL: "peer". */
};

/*
 * Create a peer in @sim, which is up, grants reading and writing, and is
 * connected.
 *
 * Returns 0 with *@ret set, to be freed by weir_sim_peer_destroy() or with the
 * world, or
 *   -EINVAL  @opts is NULL, .bytes is 0, or .flags has bits that mean nothing
 *   -E2BIG   @opts sets a member that this version does not have
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread.
 */
WEIR_API int weir_sim_peer_create(struct weir_sim_peer **ret,
				  struct weir_sim *sim,
				  const struct weir_sim_peer_opts *opts);

/*
 * Free @peer, its memory and its domain.  NULL is allowed.
 *
 * Returns 0, or, with @peer as it was:
 *   -EBUSY  its domain is in use, see weir_domain_users()
 *
 * Call on the world's thread.
 */
WEIR_API int weir_sim_peer_destroy(struct weir_sim_peer *peer);

/*
 * The domain of @peer's memory: it can pull and push, which are remote reads
 * and writes.  It is the peer's, and goes with it.
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API struct weir_domain *weir_sim_peer_domain(const struct weir_sim_peer *peer);

/*
 * The memory of @peer as the peer itself sees it: for a test to look at and to
 * change.  Valid until it is destroyed.
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API void *weir_sim_peer_bytes(const struct weir_sim_peer *peer);

/*
 * Have @peer grant @rights, WEIR_SIM_PEER_, with a new key: what was started
 * with the one before fails, as after weir_sim_peer_revoke().
 *
 * Returns 0, or
 *   -EINVAL  @rights has bits that mean nothing
 *
 * Call on the world's thread.  Never blocks.  Re-creates the permissions of an
 * NVMe-oF or verbs target's ibv_bind_mw().
 */
WEIR_API int weir_sim_peer_grant(struct weir_sim_peer *peer, uint32_t rights);

/*
 * Have @peer take all rights back.  What is in flight, and what is started
 * later, fails with -EACCES when its turn comes.
 *
 * Call on the world's thread.  Never blocks.  Re-creates an IBV_WR_LOCAL_INV
 * that the peer makes.
 */
WEIR_API void weir_sim_peer_revoke(struct weir_sim_peer *peer);

/*
 * Have @peer crash: it does not answer any more, and what is in flight fails
 * with -ETIMEDOUT when all retries are used up.  No effect if it is down.
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API void weir_sim_peer_crash(struct weir_sim_peer *peer);

/*
 * Have @peer be up again, which was down.  It knows nothing of the queue pair:
 * nothing gets through before weir_sim_peer_reset().
 *
 * Returns 0, or
 *   -EALREADY  it is up
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_peer_restart(struct weir_sim_peer *peer);

/*
 * Connect the queue pair of @peer anew, whatever state it is in.  What is in
 * flight ends with -ECANCELED; what is started from now on is done.
 *
 * Returns 0, or
 *   -EHOSTUNREACH  the peer is down; what was in flight has ended all the same
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_peer_reset(struct weir_sim_peer *peer);

/* What weir_sim_peer_state() tells, bit by bit. */
#define WEIR_SIM_PEER_UP 1	/* It has not crashed. */
#define WEIR_SIM_PEER_ERROR 2	/* The queue pair is in its error state. */
#define WEIR_SIM_PEER_GRANTS 4	/* It grants some right. */

/*
 * How @peer is: an OR of WEIR_SIM_PEER_UP and its sisters.
 *
 * Call on the world's thread.  Never blocks.  Re-creates ibv_query_port(), of a
 * peer.
 */
WEIR_API uint32_t weir_sim_peer_state(const struct weir_sim_peer *peer);

/* weir_sim_card_opts.flags */
#define WEIR_SIM_CARD_TRANSFER 1u /* Moves from other cards to itself. */
#define WEIR_SIM_CARD_MAPPED 2u	/* Says where its bytes are in this process,
				 * whose processor may touch them. */
#define WEIR_SIM_CARD_EAGER 4u	/* Ends some of it inside its start. */
#define WEIR_SIM_CARD_SHORT 8u	/* May end early, with fewer bytes, by the
				 * fault SHORT. */

/*
 * Options of weir_sim_card_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_sim_card_opts {
	size_t size;
	uint64_t bytes;		/* Of the memory; zeroed at first. */
	uint32_t depth;		/* Moves at once; 0: 64. */
	uint32_t align;		/* Of addresses and lengths; power of 2, or 0. */
	uint32_t flags;		/* WEIR_SIM_CARD_ */
	uint32_t reserved;
	const char *name;	/* Copied; NULL: "card". */
};

/*
 * Create a card in @sim, with memory of its own.
 *
 * Returns 0 with *@ret set, to be freed by weir_sim_card_destroy() or with the
 * world, or
 *   -EINVAL  @opts is NULL, .bytes is 0, .align no power of 2, or .flags has
 *            bits that mean nothing
 *   -E2BIG   @opts sets a member that this version does not have
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread.
 */
WEIR_API int weir_sim_card_create(struct weir_sim_card **ret,
				  struct weir_sim *sim,
				  const struct weir_sim_card_opts *opts);

/*
 * Free @card, its memory and its domain.  NULL is allowed.
 *
 * Returns 0, or, with @card as it was:
 *   -EBUSY  its domain is in use, see weir_domain_users()
 *
 * Call on the world's thread.
 */
WEIR_API int weir_sim_card_destroy(struct weir_sim_card *card);

/*
 * The domain of @card's memory: it can pull, push and fill, and what the flags
 * say.  It is the card's, and goes with it.
 *
 * A start there returns -ENODEV after a reset, -EINVAL for what is not aligned,
 * -ERANGE for what is outside, -EXDEV for a transfer from what is no card of
 * the same world, -EAGAIN if .depth moves are in flight.
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API struct weir_domain *weir_sim_card_domain(const struct weir_sim_card *card);

/*
 * Copy @len bytes at @src to the memory of @card from @addr on: for a test.
 *
 * Returns 0, or
 *   -ERANGE  that is not all in the memory
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_card_put(struct weir_sim_card *card, uint64_t addr,
			       const void *src, size_t len);

/*
 * Copy @len bytes of the memory of @card from @addr on to @dst: for a test.
 *
 * Returns 0, or
 *   -ERANGE  that is not all in the memory
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_card_get(struct weir_sim_card *card, uint64_t addr,
			       void *dst, size_t len);

/*
 * Reset @card: what is in flight ends with -ENODEV, its memory is lost, and
 * every start is -ENODEV until weir_sim_card_open().  While somebody is told
 * where bytes of it are, if it is MAPPED, they stay there.
 *
 * Call on the world's thread.  Never blocks.  Re-creates rte_eth_dev_reset(),
 * as something that happens to a program.
 */
WEIR_API void weir_sim_card_reset(struct weir_sim_card *card);

/*
 * Open @card after a reset; its memory is zeroed.
 *
 * Returns 0, or
 *   -EALREADY  it was not reset
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_card_open(struct weir_sim_card *card);

/* What has happened on a card.  Set .size to the size of the struct. */
struct weir_sim_card_stats {
	size_t size;
	uint64_t started;
	uint64_t ended;		/* Of those; the rest is in flight. */
	uint64_t failed;	/* Of those that ended. */
	uint64_t refused;	/* At the start. */
	uint64_t in_start;	/* Ended inside the start. */
	uint64_t resets;
	uint64_t translated;	/* Answers given, and of those */
	uint64_t invalidated;	/* taken back, each once; */
	uint64_t unknown;	/* and what was taken back but not given. */
};

/*
 * Copy to *@ret, of which .size is set, what has happened on @card.
 *
 * Returns 0, or
 *   -EINVAL  .size is too small
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_card_stats(const struct weir_sim_card *card,
				 struct weir_sim_card_stats *ret);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_SIM_MEMORY_H */
