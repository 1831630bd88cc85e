/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

/*
 * The simulated world inside.  README.md says what its objects are.
 *
 *	world.c        the world: its life, its steps
 *	parts.c        its parts, trace and digest
 *	event.c        what happens when: a heap; chances
 *	fault.c        what goes wrong
 *	backend.c      the backend, and its sources
 *	op.c           descriptors, and an operation's way with its steps
 *	counter.c      the simplest kind of descriptor
 *	socket.h   connections
 *	file.h     files
 *
 * All of it belongs to the world's thread, and allocates with malloc() itself:
 * what the simulation needs must not be a fault of its own.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/sim/world.h>

#include "reactor/io.h"
#include "reactor/source.h"

struct weir_sim;
struct sim_fd;

/* What happens at a time.  Embedded; in the heap while @queued. */
struct sim_event {
	uint64_t at_ns;
	void (*fire)(struct weir_sim *sim, struct sim_event *ev);
	struct sim_event *child;	/* A pairing heap: the first child, */
	struct sim_event *next;		/* the next one of the same parent, */
	struct sim_event **pprev;	/* and where that points to us. */
	uint32_t tie;			/* Drawn: order among equal times. */
	bool queued;
};

/* Have @ev->fire() called after @delay_ns.  It must not be queued. */
void sim_at(struct weir_sim *sim, struct sim_event *ev, uint64_t delay_ns);

/* No effect if it is not queued. */
void sim_unqueue(struct weir_sim *sim, struct sim_event *ev);

/* A stream of chances: splitmix64. */
struct sim_rng {
	uint64_t state;
};

void sim_rng_init(struct sim_rng *rng, uint64_t seed, uint64_t stream);
uint64_t sim_rng(struct sim_rng *rng);

/* From 0 to @n - 1; @n > 0. */
static inline uint64_t sim_below(struct sim_rng *rng, uint64_t n)
{
	return sim_rng(rng) % n;
}

/* A part of the world that has a state of its own: files, connections. */
struct sim_part {
	const char *name;
	void (*cut)(struct sim_part *part, const char *prefix);	/* Or NULL. */
	void (*heal)(struct sim_part *part);			/* Or NULL. */
	/* Whether all of it can go with the world: 0, or -EBUSY with a
	 * message.  NULL: it can. */
	int (*may_destroy)(const struct sim_part *part);
	void (*destroy)(struct sim_part *part);
	struct sim_part *next;
};

struct latency {
	uint64_t min_ns, mean_ns;
};

#define SIM_WORKERS 16		/* As many as are told apart. */

/* One reactor in a world; r->backend_data. */
struct sim_reactor {
	struct weir_sim *sim;
	struct weir_reactor *r;
	uint32_t id;		/* From 0, in the order of creation. */
	uint32_t turn_max;	/* As its options say. */
	struct weir_sim_turns turns;
	uint64_t asleep_until_ns; /* Unless it is woken. */
	bool full;		/* reap() left something for the next turn. */
	uint64_t free_at_ns;	/* Its core is busy until then, */
	uint64_t worker_ns[SIM_WORKERS]; /* and these, of its workers. */
	uint32_t workers;
	struct op_queue done;	/* Operations with a result in op->res. */
	struct source *sources;	/* Armed. */
	struct source *cursor;	/* The next that reap() looks at, */
	struct source *current;	/* and the one that it is in; NULL: gone. */
	bool has_worker;	/* So that none can be missing. */
	uint32_t n_bufs;	/* Registered, */
	uint32_t next_buf;	/* and the number of the next. */
	struct sim_reactor *next;
};

#define SIM_BEGINNING (1000 * WEIR_SEC)	/* What the clock says at first. */

struct weir_sim {
	struct backend_world world;	/* First. */
	uint64_t seed;
	uint64_t now_ns;
	uint64_t target_ns;	/* Where the clock's last step was to end. */
	struct sim_event *heap;
	struct sim_reactor *reactors;
	uint32_t n_reactors;	/* Ever. */
	uint32_t slot;		/* Of all worlds; the upper bits of its fds. */
	uint32_t serial;	/* Of operations. */
	bool running;		/* In weir_sim_run(). */
	uint32_t depth;		/* In how many steps we are. */

	struct sim_rng order;	/* Which is next. */
	struct sim_rng time;	/* How long it takes. */
	struct sim_rng chance;	/* What devices draw: splits, what is torn. */
	struct sim_rng user;	/* weir_sim_random() */
	struct sim_rng fault_rng[WEIR_SIM_FAULTS];
	uint32_t fault_rate[WEIR_SIM_FAULTS]; /* 0: never. */
	uint64_t faults_max;
	bool healed;		/* No faults. */

	struct latency latency[WEIR_SIM_DEVICES];
	struct op_queue stuck;
	struct sim_part *parts;
	struct observer *observers;
	struct sim_event observation; /* When they look next. */
	struct sim_fd **fds;
	uint32_t n_fds;

	uint64_t digest;
	struct weir_sim_stats stats;
	void (*trace)(const char *line, void *arg);
	void *trace_arg;
};

static inline struct sim_reactor *sim_of(const struct weir_reactor *r)
{
	return r->backend_data;
}

/* world.c */

/* Go one step on, not beyond @until_ns; false: there was none. */
bool sim_step(struct weir_sim *sim, uint64_t until_ns);

/* A part by its name, or NULL; a new one. */
struct sim_part *sim_part(struct weir_sim *sim, const char *name);
void sim_part_add(struct weir_sim *sim, struct sim_part *part);

/* sim_backend.observe: as another process would, @observer looks at memory that
 * another writes to without a message. */
void sim_observe(struct weir_reactor *r, struct observer *observer);

/* Something has happened, so that looking is of use. */
void sim_happened(struct weir_sim *sim);

/*
 * Whether the caller is @r, which is in a world: in a turn of its, or outside
 * all turns.  Reactors of a world are to behave as if each had a thread.
 */
bool sim_is_here(const struct weir_reactor *r);

/* How long @device takes this time. */
uint64_t sim_latency(struct weir_sim *sim, enum weir_sim_device device);

/* Into the digest: never an address, a size of a type, or what is not set. */
void sim_mix(struct weir_sim *sim, uint64_t value);

/* A line of the trace.  Ask sim_traced() first, where it costs anything. */
__attribute__((format(printf, 2, 3))) void sim_trace(struct weir_sim *sim,
						     const char *fmt, ...);

static inline bool sim_traced(const struct weir_sim *sim)
{
	return sim->trace != NULL;
}

/* fault.c */

void sim_faults_init(struct weir_sim *sim, const struct weir_sim_opts *opts);

/* Draw whether @kind happens now; @where is for the trace. */
bool sim_fault(struct weir_sim *sim, enum weir_sim_fault kind,
	       const char *where);

/* How @op fails: one of what the system call may say. */
int sim_draw_error(struct weir_sim *sim, const struct weir_op *op);

/* Fault points of the library are this world's while it runs. */
void sim_faults_enter(struct weir_sim *sim);
void sim_faults_leave(struct weir_sim *sim);

/*
 * A descriptor: embedded in what it is.  Operations that are in flight hold it,
 * so that one that is closed meanwhile is still there.
 */
struct sim_fd {
	struct weir_sim *sim;
	const struct sim_fd_class *cls;
	int fd;			/* -1: closed. */
	uint32_t flags;		/* O_, as far as its class wants them. */
	uint32_t users;
	uint32_t changes;	/* Times that sim_fd_changed() was called. */
	bool dead;		/* Its power was cut: all fails with -EIO. */
	struct op_queue waiting; /* For it to be ready. */
};

/* The step cannot be done yet: the operation waits for sim_fd_changed(). */
#define SIM_NOT_YET INT64_MIN

/*
 * What a descriptor is.  Functions that it lacks are -EINVAL, or what the
 * comment says.  They do their work at once, for the time that it takes has
 * passed, and return what the system call would.
 */
struct sim_fd_class {
	const char *name;
	enum weir_sim_device device;	/* How long calls take. */
	bool waits;	/* A call can wait for ever, and be cancelled then. */
	bool socket;	/* And not -ENOTSOCK to calls that want one. */

	/* READ, READV, RECV and receivers: to memory; never more than asked. */
	int64_t (*read)(struct sim_fd *f, const struct io_step *step);
	/* WRITE, WRITEV, SEND, SENDV: from memory. */
	int64_t (*write)(struct sim_fd *f, const struct io_step *step);
	/* A connection's descriptor, or SIM_NOT_YET. */
	int64_t (*accept)(struct sim_fd *f);
	/* Everything else that names a descriptor, by op->kind; see io.h. */
	int64_t (*call)(struct sim_fd *f, struct weir_op *op);
	/* WEIR_READABLE and its sisters, as it is now; NULL: both. */
	uint32_t (*events)(struct sim_fd *f);
	/* An error was drawn for @op, which ends with it. */
	void (*failed)(struct sim_fd *f, struct weir_op *op);
	/* What a transfer that is cut short is a multiple of; NULL: 1. */
	uint32_t (*grain)(struct sim_fd *f);
	/* More than the usual; NULL: the latency of @device. */
	uint64_t (*delay)(struct sim_fd *f, const struct weir_op *op);
	/* Its number is gone. */
	void (*closed)(struct sim_fd *f);
	/* And it is not used any more: free it. */
	void (*release)(struct sim_fd *f);
};

/* op.c */

#define SIM_WORLDS 16
extern const struct backend sim_backend;
extern struct weir_sim *sim_worlds[SIM_WORLDS];

/* Give @f, which is zeroed but for .flags, a number: it, or -EMFILE. */
int sim_fd_open(struct weir_sim *sim, struct sim_fd *f,
		const struct sim_fd_class *cls);

/* By number; NULL: there is none. */
struct sim_fd *sim_fd_find(int fd);

/* Take its number; what waits for it ends with -EBADF. */
void sim_fd_close(struct sim_fd *f);

/* Something about it is different: what waits for it tries again. */
void sim_fd_changed(struct sim_fd *f);

/* Its power is cut: what waits for it fails, and what comes. */
void sim_fd_kill(struct sim_fd *f);

static inline void sim_fd_use(struct sim_fd *f)
{
	f->users++;
}

/* Bytes that @step moves at most. */
uint64_t sim_step_len(const struct io_step *step);

/* Copy @len bytes from or to the memory of @step, @skip bytes into it. */
void sim_step_fill(const struct io_step *step, uint64_t skip, const void *from,
		   uint64_t len);
void sim_step_drain(const struct io_step *step, uint64_t skip, void *to,
		    uint64_t len);

/* op.c: backend.submit, .cancel; what comes after DONE. */
void sim_submit(struct weir_reactor *r, struct weir_op *op);
bool sim_cancel(struct weir_reactor *r, struct weir_op *op);
void sim_io_reap(struct weir_sim *sim, struct weir_op *op);

static inline const char *sim_io_name(const struct weir_op *op)
{
	return io_classes[op->kind].name;
}

/* Which of @wanted, and of what is always told, @f is; or SIM_NOT_YET. */
int64_t sim_poll_now(struct sim_fd *f, uint32_t wanted);

/* See to it that there is a worker: 0, or -EAGAIN. */
int sim_worker_ensure(struct weir_reactor *r);

/* What is stuck goes on: all of it, what is on @f, or what @which says. */
void sim_stuck_heal(struct weir_sim *sim);
void sim_stuck_again(struct weir_sim *sim,
		     bool (*which)(struct weir_op *op, void *arg), void *arg);

/* When @op was begun: sim->serial was this after it. */
uint32_t sim_io_serial(const struct weir_op *op);

/* counter.c: an eventfd, for weir_event: its number, or -EMFILE. */
int sim_counter_open(struct weir_reactor *r);
void sim_counter_add(int fd, uint64_t n);

/* All that was added, which is taken away. */
uint64_t sim_counter_take(int fd);

/* Whether @op names a path, and no descriptor. */
static inline bool sim_names_path(const struct weir_op *op)
{
	return op->kind == IO_OPEN || op->kind == IO_STATX ||
	       op->kind == IO_RENAME || op->kind == IO_UNLINK;
}

/* file-path.c: what does. */
int64_t sim_path_call(struct weir_sim *sim, struct weir_op *op);

/* Whether the power of a path that it names was cut since it began. */
bool sim_path_is_cut(struct weir_sim *sim, const struct weir_op *op);

/* file-world.c: COPY_RANGE between two descriptors. */
int64_t sim_copy_range(struct weir_sim *sim, struct weir_op *op);

/* vfd_ops */
int sim_file_info(int fd, struct vfd_info *ret);
int sim_file_reopen(int fd, int flags);
void sim_file_close(int fd);

#endif /* SIM_WORLD_H */
