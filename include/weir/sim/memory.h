/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_MEMORY_H
#define WEIR_SIM_MEMORY_H

/*
 * Memory of others in a simulated world: of a peer, which is reached by RDMA,
 * and of a card.
 *
 *	weir_sim_peer_create(&peer, sim, &opts);
 *	domain = weir_sim_peer_domain(peer);
 *	weir_job_copy(&job, weir_operand_at(domain, 4096, len), here);
 *
 * Each is a domain of a user's kind, which jobs, chains and pipelines use like
 * any other.  Addresses begin at 0.
 *
 * A peer is behind a queue pair.  Operations wait in a bounded send queue
 * (-EAGAIN if it is full: jobs then wait for capacity), and are done and end in
 * order.  A failure puts the queue pair into its error state: the first
 * operation to fail has the cause; those behind it, and later ones, end with
 * -ECANCELED, until weir_sim_peer_reset().  An operation in flight cannot be
 * cancelled; a reset ends it.  The code of the operation's detail is the
 * completion status of verbs:
 *
 *	result        code                    why
 *	-EACCES       10 REM_ACCESS_ERR       revoked, or no such right
 *	-EREMOTEIO    11 REM_OP_ERR           a fault
 *	-ETIMEDOUT    12 RETRY_EXC_ERR        the peer does not answer
 *	-EIO          21 GENERAL_ERR          a fault
 *	-ECANCELED     5 WR_FLUSH_ERR         an operation before it failed
 *
 * As with real devices, it is unknown how much a failed operation has moved:
 * the detail has 0 bytes, and the first part of the destination may be written.
 *
 * A card does several moves at once, in any order, and they can be cancelled.
 * The detail of a failed move has the exact bytes.  The processor must not
 * access its memory; builds with ASan detect it.
 *
 * Faults: DELAY and STUCK of either, REFUSED at a start (-EAGAIN), ERROR; CRASH
 * and REVOKE of a peer, which restarts, or grants again, some time later or
 * when faults are switched off; CRASH of a card is a reset.
 *
 * Call all of them on the world's thread, callbacks included.
 */

#include <weir/sim/world.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_domain;
struct weir_sim_card;
struct weir_sim_peer;

/* Rights that a peer grants. */
#define WEIR_SIM_PEER_READ 1u
#define WEIR_SIM_PEER_WRITE 2u

/* weir_sim_peer_opts.flags: a crash clears the memory. */
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
	uint64_t retry_ns;	/* Timeout of a peer's answer; 0: 0.5 s. */
	const char *name;	/* Copied; NULL: "peer". */
};

/*
 * Create a peer in @sim, which is up, grants reading and writing, and is
 * connected.
 *
 * Returns 0 with *@ret set, to be freed by weir_sim_peer_destroy() or with the
 * world, or
 *   -EINVAL  @opts is NULL, .bytes is 0, or .flags has unknown bits
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
 * Returns 0, or, with @peer unchanged:
 *   -EBUSY  its domain is in use, see weir_domain_users()
 *
 * Call on the world's thread.
 */
WEIR_API int weir_sim_peer_destroy(struct weir_sim_peer *peer);

/*
 * Get the domain of @peer's memory.
 *
 * It can pull and push, which are remote reads and writes.  @peer owns it.
 *
 * Returns the domain.  Call on the world's thread.  Never blocks.
 */
WEIR_API struct weir_domain *weir_sim_peer_domain(const struct weir_sim_peer *peer);

/*
 * Get the memory of @peer, which a test may read and change.
 *
 * It is valid until @peer is destroyed.
 *
 * Returns the memory.  Call on the world's thread.  Never blocks.
 */
WEIR_API void *weir_sim_peer_bytes(const struct weir_sim_peer *peer);

/*
 * Make @peer grant @rights, WEIR_SIM_PEER_, with a new key.
 *
 * Operations that were started with the previous key fail, as after
 * weir_sim_peer_revoke().
 *
 * Returns 0, or
 *   -EINVAL  @rights has unknown bits
 *
 * Call on the world's thread.  Never blocks.  Re-creates the permissions of an
 * NVMe-oF or verbs target's ibv_bind_mw().
 */
WEIR_API int weir_sim_peer_grant(struct weir_sim_peer *peer, uint32_t rights);

/*
 * Make @peer revoke all rights.
 *
 * Operations in flight and later ones fail with -EACCES when the peer executes
 * them.
 *
 * Call on the world's thread.  Never blocks.  Re-creates an IBV_WR_LOCAL_INV
 * of the peer.
 */
WEIR_API void weir_sim_peer_revoke(struct weir_sim_peer *peer);

/*
 * Make @peer crash, so that it does not answer any more.
 *
 * Operations in flight fail with -ETIMEDOUT when all retries are used up.  The
 * call has no effect if @peer is down.
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API void weir_sim_peer_crash(struct weir_sim_peer *peer);

/*
 * Restart @peer after a crash.
 *
 * It does not know the queue pair: operations do not reach it before
 * weir_sim_peer_reset().
 *
 * Returns 0, or
 *   -EALREADY  @peer is up
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_peer_restart(struct weir_sim_peer *peer);

/*
 * Reset and connect the queue pair of @peer, in any state.
 *
 * Operations in flight end with -ECANCELED; later ones are executed.
 *
 * Returns 0, or
 *   -EHOSTUNREACH  @peer is down; operations in flight have ended all the same
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_peer_reset(struct weir_sim_peer *peer);

/* Bits of weir_sim_peer_state(). */
#define WEIR_SIM_PEER_UP 1	/* It has not crashed. */
#define WEIR_SIM_PEER_ERROR 2	/* The queue pair is in its error state. */
#define WEIR_SIM_PEER_GRANTS 4	/* It grants some right. */

/*
 * Get the state of @peer: WEIR_SIM_PEER_UP, _ERROR and _GRANTS, combined by OR.
 *
 * Returns the bits.  Call on the world's thread.  Never blocks.  Re-creates
 * ibv_query_port(), of a peer.
 */
WEIR_API uint32_t weir_sim_peer_state(const struct weir_sim_peer *peer);

/* weir_sim_card_opts.flags */
#define WEIR_SIM_CARD_TRANSFER 1u /* Moves from other cards to itself. */
#define WEIR_SIM_CARD_MAPPED 2u	/* Translates to addresses in this process,
				 * which the processor may access. */
#define WEIR_SIM_CARD_EAGER 4u	/* Ends some moves inside their start. */
#define WEIR_SIM_CARD_SHORT 8u	/* Moves may end early, with fewer bytes, by
				 * the fault SHORT. */

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
 *   -EINVAL  @opts is NULL, .bytes is 0, .align is no power of 2, or .flags has
 *            unknown bits
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
 * Returns 0, or, with @card unchanged:
 *   -EBUSY  its domain is in use, see weir_domain_users()
 *
 * Call on the world's thread.
 */
WEIR_API int weir_sim_card_destroy(struct weir_sim_card *card);

/*
 * Get the domain of @card's memory.
 *
 * It can pull, push and fill, and what the flags add.  @card owns it.
 *
 * A start returns -ENODEV after a reset, -EINVAL for an unaligned range,
 * -ERANGE for a range outside the memory, -EXDEV for a transfer from a domain
 * that is no card of the same world, and -EAGAIN if .depth moves are in flight.
 *
 * Returns the domain.  Call on the world's thread.  Never blocks.
 */
WEIR_API struct weir_domain *weir_sim_card_domain(const struct weir_sim_card *card);

/*
 * Copy @len bytes at @src to the memory of @card at @addr, for a test.
 *
 * Returns 0, or
 *   -ERANGE  the range is not inside the memory
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_card_put(struct weir_sim_card *card, uint64_t addr,
			       const void *src, size_t len);

/*
 * Copy @len bytes of the memory of @card at @addr to @dst, for a test.
 *
 * Returns 0, or
 *   -ERANGE  the range is not inside the memory
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_card_get(struct weir_sim_card *card, uint64_t addr,
			       void *dst, size_t len);

/*
 * Reset @card, which loses its memory.
 *
 * Moves in flight end with -ENODEV, and every start is -ENODEV until
 * weir_sim_card_open().  While there are translations of a MAPPED card, the
 * bytes stay accessible.
 *
 * Call on the world's thread.  Never blocks.  Re-creates rte_eth_dev_reset(),
 * as an event for the program.
 */
WEIR_API void weir_sim_card_reset(struct weir_sim_card *card);

/*
 * Open @card after a reset; its memory is zeroed.
 *
 * Returns 0, or
 *   -EALREADY  @card was not reset
 *
 * Call on the world's thread.  Never blocks.
 */
WEIR_API int weir_sim_card_open(struct weir_sim_card *card);

/* Counters of a card.  Set .size to the size of the struct. */
struct weir_sim_card_stats {
	size_t size;
	uint64_t started;
	uint64_t ended;		/* Of those; the rest are in flight. */
	uint64_t failed;	/* Of those that ended. */
	uint64_t refused;	/* At the start. */
	uint64_t in_start;	/* Ended inside the start. */
	uint64_t resets;
	uint64_t translated;	/* Translations made, */
	uint64_t invalidated;	/* and invalidated, each once; */
	uint64_t unknown;	/* invalidations without a translation. */
};

/*
 * Get the counters of @card.
 *
 * The caller sets .size of *@ret.
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
