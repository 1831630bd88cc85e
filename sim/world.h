/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

/*
 * The internals of a simulated world.  docs/internals/sim.md lists its objects.
 *
 *	world.c        the world: its life, its steps
 *	schedule.c     which reactor has the next turn
 *	parts.c        its parts, trace and digest
 *	event.c        the heap of events; random streams
 *	fault.c        faults
 *	host.c         hosts: their programs, links and disturbances
 *	host-find.c    what others ask about hosts: names, clocks, links
 *	aim.c          aimed faults
 *	backend.c      the backend, and its sources
 *	op.c           descriptors, and the states and steps of operations
 *	counter.c      the simplest kind of descriptor
 *	signal.c       signals, which are descriptors, too
 *	socket.h       connections
 *	file.h         files
 *
 * All of it belongs to the world's thread.  It calls malloc() itself, so that
 * the allocations of the simulation have no injected faults.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/sim/host.h>
#include <weir/sim/world.h>

#include "reactor/io.h"
#include "reactor/source.h"

struct sim_aim;
struct sim_fd;
struct weir_sim;

/* Something that happens at a time.  Embedded; in the heap while @queued. */
struct sim_event {
	uint64_t at_ns;
	void (*fire)(struct weir_sim *sim, struct sim_event *ev);
	struct sim_event *child;	/* A pairing heap: the first child, */
	struct sim_event *next;		/* the next one of the same parent, */
	struct sim_event **pprev;	/* and the pointer to this one. */
	uint32_t tie;			/* Drawn: order among equal times. */
	bool queued;
};

/* Call @ev->fire() after @delay_ns.  It must not be queued. */
void sim_at(struct weir_sim *sim, struct sim_event *ev, uint64_t delay_ns);

/* No effect if it is not queued. */
void sim_unqueue(struct weir_sim *sim, struct sim_event *ev);

/* A random stream: splitmix64. */
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

/* The faults of a world or a host: how often each occurs (0: never), and its
 * random stream. */
struct sim_faults {
	uint32_t rate[WEIR_SIM_FAULTS];
	struct sim_rng rng[WEIR_SIM_FAULTS];
};

/* A part of the world that has a state of its own: files, connections. */
struct sim_part {
	const char *name;
	void (*cut)(struct sim_part *part, const char *prefix);	/* Or NULL. */
	void (*heal)(struct sim_part *part);			/* Or NULL. */
	/* A host loses power, or has it again; NULL: it does not matter. */
	void (*off)(struct sim_part *part, struct weir_sim_host *host);
	void (*on)(struct sim_part *part, struct weir_sim_host *host);
	/* A link is now cut, or is not any more; or NULL. */
	void (*link)(struct sim_part *part, struct weir_sim_host *from,
		     struct weir_sim_host *to);
	/* The world is about to be destroyed, before everything in it; or
	 * NULL. */
	void (*end)(struct sim_part *part);
	/* Whether all of it can be freed with the world: 0, or -EBUSY with a
	 * message.  NULL: it can. */
	int (*may_destroy)(const struct sim_part *part);
	void (*destroy)(struct sim_part *part);
	struct sim_part *next;
};

struct latency {
	uint64_t min_ns, mean_ns;
};

#define SIM_WORKERS 16		/* Workers whose times are kept apart. */

/* One reactor in a world; r->backend_data. */
struct sim_reactor {
	struct weir_sim *sim;
	struct weir_reactor *r;
	struct weir_sim_host *host;	/* NULL: it is on none. */
	char label[32];		/* "reactor 1", "a: reactor 1" */
	uint32_t id;		/* From 0, in the order of creation. */
	uint32_t turn_max;	/* Of its options. */
	struct weir_sim_turns turns;
	uint64_t asleep_until_ns; /* Unless it is woken. */
	/* Its place in the schedule; see schedule.c. */
	uint8_t place;
	bool touched;
	uint32_t index;
	uint64_t due_ns;
	struct sim_reactor *next_touched;
	/* reap() left some results for the next turn. */
	bool full;
	uint64_t free_at_ns;	/* Its core is busy until then. */
	/* Its workers are busy until these times. */
	uint64_t worker_ns[SIM_WORKERS];
	uint32_t workers;
	struct op_queue done;	/* Operations with a result in op->res. */
	struct source *sources;	/* Armed. */
	struct source *cursor;	/* The next source for reap(). */
	/* The source that reap() calls now; NULL: it was destroyed. */
	struct source *current;
	/* One was reserved, so that work is never refused. */
	bool has_worker;
	uint32_t n_bufs;	/* Registered, */
	uint32_t next_buf;	/* and the number of the next. */
	struct sim_reactor *next;
};

#define SIM_BEGINNING (1000 * WEIR_SEC)	/* The clock's first value. */

struct weir_sim {
	struct backend_world world;	/* First. */
	uint64_t seed;
	uint64_t now_ns;
	/* The end of the clock's last step, as requested. */
	uint64_t target_ns;
	struct sim_event *heap;
	struct sim_reactor *reactors;
	struct sim_reactor *turning;	/* The world has given it a turn. */
	/* The schedule of many reactors. */
	struct sim_reactor **ready, **sleepers, *touched;
	uint32_t n_live, max_live, n_ready, n_sleepers;
	uint32_t n_reactors;	/* Created so far. */
	/* Among all worlds; the upper bits of its fds. */
	uint32_t slot;
	uint32_t serial;	/* Of operations. */
	bool running;		/* In weir_sim_run(). */
	uint32_t depth;		/* The number of nested steps. */

	struct sim_rng order;	/* The next reactor. */
	struct sim_rng time;	/* How long things take. */
	struct sim_rng chance;	/* Draws of devices: splits, torn writes. */
	struct sim_rng user;	/* weir_sim_random() */
	struct sim_faults own_faults;	/* Of what is on no host. */
	struct sim_faults *faults;	/* Of what acts now. */
	struct sim_faults no_faults;	/* While a program starts. */
	struct weir_sim_opts opts;	/* Defaults of hosts. */
	uint64_t faults_max;
	bool healed;		/* No faults. */

	struct weir_sim_host *hosts;	/* In the order of creation. */
	struct weir_sim_host *here;	/* The one that acts now; or NULL. */
	uint32_t n_hosts;
	uint32_t disturbed_max;

	/* Aimed faults; NULL: there are none.  *@ret is the one that hits, for
	 * .spoil(), which is told what the call returned. */
	enum sim_aimed (*aimed)(struct weir_sim *sim, struct weir_op *op,
				struct sim_fd *f, int64_t *res,
				struct sim_aim **ret);
	void (*spoil)(struct weir_sim *sim, struct sim_aim *aim,
		      struct weir_op *op, struct sim_fd *f, int64_t res);

	struct latency latency[WEIR_SIM_DEVICES];
	struct op_queue stuck;
	struct sim_part *parts;
	struct observer *observers;
	struct sim_event observation; /* The next call of the observers. */
	struct sim_fd **fds;
	uint32_t n_fds;

	uint64_t digest;
	struct weir_sim_stats stats;
	void (*trace)(const char *line, void *arg);
	void *trace_arg;
};

/* Whose disturbance has cut a link. */
#define TROUBLE_OF_FROM 1u
#define TROUBLE_OF_TO 2u

/* Network from a host to another. */
struct sim_link {
	struct weir_sim_host *to;
	struct sim_link *next;
	bool cut;		/* By the user, */
	uint32_t troubles;	/* and by disturbances: TROUBLE_ bits. */
	struct latency latency;	/* 0: that of the wire. */
	uint64_t bytes_per_s;	/* 0: no limit. */
	uint64_t free_ns;	/* It carries earlier data until then. */
};

struct weir_sim_host {
	struct weir_sim *sim;
	struct weir_sim_host *next;
	char *name;
	uint32_t id;
	enum weir_sim_host_state state;
	bool ending;		/* In its own turn: end it afterwards. */
	bool ending_off;	/* By a loss of power. */
	void (*start)(struct weir_sim_host *host, void *arg);
	void (*gone)(void *arg);
	void *arg;
	/* An operation begins on it: draw whether it is disturbed. */
	void (*begins)(struct weir_sim_host *host);
	struct sim_faults faults;
	struct sim_rng rng;	/* Of its disturbances. */
	struct sim_link *links;
	struct sim_event starts, ends;
	/* A disturbance that was drawn: it begins, and ends. */
	struct sim_event trouble, relief;
	enum weir_sim_fault kind;
	bool troubled;
	uint64_t recovery_ns, restart_ns;
	uint64_t well_ns;	/* It counts as disturbed until then. */
	/* Its clock was .clock_ns at the world's .since_ns. */
	uint64_t clock_ns, since_ns;
	uint64_t wall_ns;	/* The wall clock is ahead of it by so much. */
	int32_t drift;
};

static inline struct sim_reactor *sim_of(const struct weir_reactor *r)
{
	return r->backend_data;
}

/* schedule.c */

/* Draw one of the reactors that are due now; or return when the first one will
 * be. */
struct sim_reactor *sim_pick(struct weir_sim *sim, uint64_t *next_ns);

/* It may have become due: evaluate it, or all, in the next step.  In a world of
 * few reactors those that were touched once stay so. */
static inline void sim_touch(struct sim_reactor *sr)
{
	if (sr->touched)
		return;
	sr->touched = true;
	sr->next_touched = sr->sim->touched;
	sr->sim->touched = sr;
}

void sim_touch_all(struct weir_sim *sim);

/* When it has something to do, in the time of the world. */
uint64_t sim_next_turn(const struct sim_reactor *sr);

/* A reactor is created (0 or -ENOMEM), or destroyed. */
int sim_schedule_add(struct sim_reactor *sr);
void sim_schedule_del(struct sim_reactor *sr);

/* world.c */

/*
 * With real threads a reactor with nothing to do sleeps until a thread that has
 * work for it wakes it.  A world of few reactors sees such work in any case.  So
 * it counts the turns for which no thread has woken the reactor.
 */
static inline void sim_fall_asleep(struct sim_reactor *sr)
{
	sr->asleep_until_ns = sim_next_turn(sr);
	if (sr->asleep_until_ns)
		atomic_store(&sr->r->mailbox.asleep, true);
}

/* Make one step, not beyond @until_ns.  False: there was none. */
bool sim_step(struct weir_sim *sim, uint64_t until_ns);

/* The part of this name, or NULL; make a new one. */
struct sim_part *sim_part(struct weir_sim *sim, const char *name);
void sim_part_add(struct weir_sim *sim, struct sim_part *part);

/* sim_backend.observe: @observer polls memory that another process writes to
 * without a message. */
void sim_observe(struct weir_reactor *r, struct observer *observer);

/* Something has happened, so the observers should poll. */
void sim_happened(struct weir_sim *sim);

/* Whether the caller acts for @r, which is in a world: it is in a turn of @r,
 * or outside all turns.  Reactors of a world behave as if each had a thread. */
bool sim_is_here(const struct weir_reactor *r);

/* Draw how long @device takes this time. */
uint64_t sim_latency_of(struct weir_sim *sim, const struct latency *l);

static inline uint64_t sim_latency(struct weir_sim *sim,
				   enum weir_sim_device device)
{
	return sim_latency_of(sim, &sim->latency[device]);
}

/* Add to the digest: never an address, the size of a type, or uninitialized
 * data. */
void sim_mix(struct weir_sim *sim, uint64_t value);

/* Write a line of the trace.  Check sim_traced() first if the arguments are
 * expensive. */
__attribute__((format(printf, 2, 3))) void sim_trace(struct weir_sim *sim,
						     const char *fmt, ...);

static inline bool sim_traced(const struct weir_sim *sim)
{
	return sim->trace != NULL;
}

/* fault.c */


/* Draw whether the fault @kind happens now; @where is for the trace. */
bool sim_fault(struct weir_sim *sim, enum weir_sim_fault kind,
	       const char *where);

/* Draw how @op fails: an error that the system call may return. */
int sim_draw_error(struct weir_sim *sim, const struct weir_op *op);

/* The library's fault points use this world while it runs. */
void sim_faults_enter(struct weir_sim *sim);
void sim_faults_leave(struct weir_sim *sim);

/* The random stream of the fault @kind. */
static inline struct sim_rng *sim_fault_rng(struct weir_sim *sim,
					    enum weir_sim_fault kind)
{
	return &sim->faults->rng[kind];
}

/* Draw rates for @faults, 0 or more bits, from streams after @stream. */
void sim_faults_init(struct weir_sim *sim, struct sim_faults *ret,
		     uint64_t faults, uint32_t rate, uint64_t stream);

/* Hosts: host-find.c */

/* The host that acts on this thread. */
extern _Thread_local struct weir_sim_host *sim_acting;

/* From now on @host acts (NULL: what is on none).  Returns which one did. */
static inline struct weir_sim_host *sim_enter(struct weir_sim *sim,
					      struct weir_sim_host *host)
{
	struct weir_sim_host *outer = sim->here;

	sim->here = sim_acting = host;
	sim->faults = host ? &host->faults : &sim->own_faults;
	return outer;
}

/* The host whose name is that of the socket or path @name; or NULL. */
struct weir_sim_host *sim_host_named(struct weir_sim *sim, const char *name);

/* Its IP address, in the order of the machine: 10.0.0.1 and so on. */
static inline uint32_t sim_host_ip(const struct weir_sim_host *host)
{
	return (10u << 24) + 1 + host->id;
}

/* The clock of @host, or of the world. */
uint64_t sim_clock(const struct weir_sim *sim,
		   const struct weir_sim_host *host);

/* The time of the world at which that clock is @ns. */
uint64_t sim_world_time(const struct weir_sim_host *host, uint64_t ns);

/* The link from @from to @to, or NULL: nothing was set. */
struct sim_link *sim_link(struct weir_sim_host *from,
			  const struct weir_sim_host *to);

static inline bool sim_link_is_cut(const struct sim_link *link)
{
	return link && (link->cut || link->troubles);
}

static inline bool sim_host_runs(const struct weir_sim_host *host)
{
	return !host || (host->state == WEIR_SIM_HOST_RUNNING && !host->ending);
}

/* What an aimed fault does to a call. */
enum sim_aimed {
	AIMED_NOT,		/* Nothing. */
	AIMED_FAILS,		/* It fails with *@res. */
	AIMED_DONE,		/* It ends with *@res, and does nothing. */
	AIMED_STUCK,		/* It does not end. */
	AIMED_SPOILT,		/* It is made, and .spoil() follows. */
};

/* A descriptor, embedded in its object.  Operations in flight refer to it, so
 * it is not freed while a closed one has some. */
struct sim_fd {
	struct weir_sim *sim;
	const struct sim_fd_class *cls;
	struct weir_sim_host *host;	/* NULL: it is on none. */
	int fd;			/* One of its numbers; -1: closed. */
	uint32_t opens;		/* Numbers, and descriptors on their way. */
	uint32_t flags;		/* O_, those that its class uses. */
	/* The reactor that has sources on it; with .shared, one of several. */
	struct sim_reactor *watcher;
	bool shared;
	uint32_t users;
	uint32_t changes;	/* Times that sim_fd_changed() was called. */
	/* Its power was cut: all calls fail with -EIO. */
	bool dead;
	struct op_queue waiting; /* Operations that wait for it to be ready. */
};

/* The step cannot be made yet: the operation waits for sim_fd_changed(). */
#define SIM_NOT_YET INT64_MIN

/*
 * The kind of a descriptor.  A function that is NULL gives -EINVAL, or what its
 * comment says.  Each works at once, because the time that it takes has passed,
 * and returns what the system call would.
 */
struct sim_fd_class {
	const char *name;
	enum weir_sim_device device;	/* How long calls take. */
	/* A call may wait for ever, and can be cancelled then. */
	bool waits;
	bool socket;	/* Otherwise -ENOTSOCK to calls for sockets. */
	bool datagrams;	/* What is sent at once arrives at once, or not at all. */
	/* Then the next one into a buffer for a SOURCE_DATAGRAM of @flags: the
	 * bytes in it, or SIM_NOT_YET. */
	int64_t (*datagram)(struct sim_fd *f, void *buf, uint32_t size,
			    uint32_t flags);

	/* READ, READV, RECV and receivers: to memory; at most as much as
	 * requested. */
	int64_t (*read)(struct sim_fd *f, const struct io_step *step);
	/* WRITE, WRITEV, SEND, SENDV: from memory. */
	int64_t (*write)(struct sim_fd *f, const struct io_step *step);
	/* A connection's descriptor, or SIM_NOT_YET. */
	int64_t (*accept)(struct sim_fd *f);
	/* All other calls with a descriptor, by op->kind; see io.h. */
	int64_t (*call)(struct sim_fd *f, struct weir_op *op);
	/* SPLICE from this one: up to @len bytes; or SIM_NOT_YET, with the one
	 * in *@blocked that is not ready. */
	int64_t (*splice)(struct sim_fd *in, struct sim_fd *out, uint64_t len,
			  struct sim_fd **blocked);
	/* WEIR_READABLE and the like, at present; NULL: both. */
	uint32_t (*events)(struct sim_fd *f);
	/* @err was drawn for @op, which ends with it. */
	void (*failed)(struct sim_fd *f, struct weir_op *op, int err);
	/* A transfer is cut short where a multiple of this is; NULL: 1. */
	uint32_t (*grain)(struct sim_fd *f, const struct io_step *step);
	/* The latency if it is not that of @device; NULL: it is. */
	uint64_t (*delay)(struct sim_fd *f, const struct weir_op *op);
	/* A socket's: bind(2), and its name or its peer's, or NULL, with the
	 * family of the address.  NULL: as ends and listeners of streams. */
	int (*bind)(struct sim_fd *f, const struct sockaddr *addr,
		    socklen_t len);
	const char *(*get_name)(struct sim_fd *f, bool peer, int *family);
	/* What it is, for the trace: ", 'a/log'".  NULL: nothing more. */
	void (*describe)(struct sim_fd *f, char *ret, size_t capacity);
	/* Its number was released. */
	void (*closed)(struct sim_fd *f);
	/* It is not used any more: free it. */
	void (*release)(struct sim_fd *f);
};

/* op.c */

#define SIM_WORLDS 16
extern const struct backend sim_backend;
extern struct weir_sim *sim_worlds[SIM_WORLDS];

/* Assign a number to @f, which is zeroed except for .flags: the number, or
 * -EMFILE. */
int sim_fd_open(struct weir_sim *sim, struct sim_fd *f,
		const struct sim_fd_class *cls);

/* The descriptor of this number; NULL: there is none. */
struct sim_fd *sim_fd_find(int fd);

/* Close its only number; operations that wait for it end with -EBADF. */
void sim_fd_close(struct sim_fd *f);

/* Give it another number: that, or -EMFILE. */
int sim_fd_dup(struct sim_fd *f);

/* Close its number @fd, or, if that is -1, one that is on its way. */
void sim_fd_drop(struct sim_fd *f, int fd);

/* Close all numbers of descriptors of @host; NULL: of all. */
void sim_fds_close(struct weir_sim *sim, const struct weir_sim_host *host);

/* Its state has changed: operations that wait for it retry. */
void sim_fd_changed(struct sim_fd *f);

/* Its power was cut: waiting and later operations fail. */
void sim_fd_kill(struct sim_fd *f);

static inline void sim_fd_use(struct sim_fd *f)
{
	f->users++;
}

/* The most bytes that @step moves. */
uint64_t sim_step_len(const struct io_step *step);

/* Copy @len bytes from or to the memory of @step, @skip bytes into it. */
void sim_step_fill(const struct io_step *step, uint64_t skip, const void *from,
		   uint64_t len);
void sim_step_drain(const struct io_step *step, uint64_t skip, void *to,
		    uint64_t len);

/* op.c: backend.submit, .cancel; the end of an operation. */
void sim_submit(struct weir_reactor *r, struct weir_op *op);
bool sim_cancel(struct weir_reactor *r, struct weir_op *op);
void sim_io_reap(struct weir_sim *sim, struct weir_op *op);

static inline const char *sim_io_name(const struct weir_op *op)
{
	return io_classes[op->kind].name;
}

/* Which of @wanted, and of the conditions that are always reported, hold for
 * @f; or SIM_NOT_YET. */
int64_t sim_poll_now(struct sim_fd *f, uint32_t wanted);

/* Make sure that there is a worker: 0, or -EAGAIN. */
int sim_worker_ensure(struct weir_reactor *r);

/* Forget all operations of @sr's reactor, which will be abandoned. */
void sim_ops_forget(struct sim_reactor *sr);

/* Continue stuck operations: all, those on @f, or those that @which selects. */
void sim_stuck_heal(struct weir_sim *sim);
void sim_stuck_again(struct weir_sim *sim,
		     bool (*which)(struct weir_op *op, void *arg), void *arg);

/* The value of sim->serial after @op began. */
uint32_t sim_io_serial(const struct weir_op *op);

/* counter.c: an eventfd, for weir_event: its number, or -EMFILE. */
int sim_counter_open(struct weir_reactor *r);
extern const struct vfd_counter_ops sim_counter_ops;	/* vfd_ops */

/* signal.c: for vfd_ops. */
extern const struct vfd_signal_ops sim_signal_ops;

/* Whether @op has a path and no descriptor. */
static inline bool sim_names_path(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_OPEN: case IO_STATX: case IO_RENAME: case IO_UNLINK:
	case IO_MKDIR: case IO_LINK: case IO_SYMLINK: case IO_READLINK:
	case IO_CHMOD: case IO_CHOWN: case IO_UTIMENS:
		return true;
	default:
		return false;
	}
}

/* Whether it has two paths. */
static inline bool sim_names_two(const struct weir_op *op)
{
	return op->kind == IO_RENAME || op->kind == IO_LINK;
}

/* file-path.c: operations with a path. */
int64_t sim_path_call(struct weir_sim *sim, struct weir_op *op);

#define SIM_PATH_BYTES 4096

/* Its names, from the root of the world, to @name and @to of that size; only a
 * rename has a second one.  0 or a negative errno. */
int sim_path_names(struct weir_sim *sim, const struct weir_op *op, char *name,
		   char *to);

/* Whether the power of its path was cut since it began. */
bool sim_path_is_cut(struct weir_sim *sim, const struct weir_op *op);

/* file-world.c: COPY_RANGE between two descriptors. */
int64_t sim_copy_range(struct weir_sim *sim, struct weir_op *op);

/* vfd_ops */
int sim_file_info(int fd, struct vfd_info *ret);
int sim_file_reopen(int fd, int flags);
int sim_socket_peer(int fd, struct sockaddr_storage *ret, uint32_t *len);
int sim_socket_name(int fd, struct sockaddr_storage *ret, uint32_t *len);
int sim_datagram_option(int fd, int level, int name);
int64_t sim_datagram_send(int fd, const struct msghdr *msg);

#endif /* SIM_WORLD_H */
