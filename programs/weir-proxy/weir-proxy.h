/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_PROXY_H
#define WEIR_PROXY_H

/*
 * weir-proxy: connections in, connections out, and bytes between them.
 *
 *	main.c      the life of the program
 *	options.c   the command line
 *	address.c   "127.0.0.1:80", "[::1]:80" and "unix:/path"
 *	config.c    the text of a configuration, and what it means
 *	control.c   signals: reload, drain, stop
 *	open.c      the sockets of a configuration, made before it is in force
 *	core.c      what each core has; it begins, takes a configuration, ends
 *	listener.c  one socket that brings connections
 *	conn.c      one connection: to a target, its two ways, its end
 *	flow.c      one way of a connection: a loop of operations
 *	buffer.c    the buffers of a core
 *	pipe.c      its pipes, for flows that carry much
 *	header.c    the header of the PROXY protocol, made and parsed
 *	target.c    targets, their servers, and which one is chosen
 *	names.c     the addresses of targets that are names
 *	check.c     health checks
 *	tls.c       connections with TLS, by streams
 *	log.c       the access log, written by a thread that moves no bytes
 *	log-line.c  what stands in it
 *
 * The path of a byte is flow.c; begin there.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weir/group.h>
#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/resolve/resolve.h>
#include <weir/timer.h>
#include <weir/watch.h>

#define NAME_MAX_ADDRESS 128	/* The longest text of an address. */
#define BUFFER_MIN 4096
#define BUFFER_MAX (1 << 20)
#define PIPE_BYTES (1 << 20)
#define CORE_CONNS_MAX 30000
#define CONN_OPS_MAX 6		/* Two flows; with TLS, two more of each side. */
#define OTHER_OPS_MAX 16384	/* Listeners, checks, lookups. */
#define LOG_RECORDS 4096	/* Of a core, not yet written; a power of 2. */

/* In a buffer, before what has come: the header of the PROXY protocol, to be sent. */
#define HEADER_CAPACITY 256
/* The longest that is taken from a client. */
#define HEADER_MAX (BUFFER_MIN - HEADER_CAPACITY)

struct weir_stream;

struct address {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* Addresses of clients: of IPv4 or IPv6, or, with AF_UNIX, all of UNIX sockets. */
struct net {
	int family;
	unsigned int bits;
	unsigned char addr[16];
};

/* ---- configuration: a copy for each core, so that none is shared ---- */

/* Of the addresses of one family of a name. */
struct lookup {
	struct weir_op op;
	struct target *target;
	sa_family_t family;
	struct weir_resolve_address *found;
	int64_t res;		/* How many; or an errno. */
};

/* A word of a line "listen": an address, or a name, which has any number of them. */
struct target {
	struct route *route;
	struct address addr;	/* If it is none by name. */
	char *host;		/* NULL: it is none. */
	uint16_t port;
	unsigned int weight;
	/* Of a name: */
	struct weir_op op;	/* Waits. */
	struct lookup lookups[2]; /* Of IPv6, IPv4. */
	int n_lookups;		/* In flight. */
	struct weir_resolve_address *found; /* For both. */
	bool known;		/* It was looked up, with whatever result. */
	bool failed;		/* That was said. */
	struct target *next;
};

/* The health check of a server; see check.c. */
struct check {
	struct weir_op op;
	int fd;
	unsigned int streak;	/* Results that contradict .down. */
	char request[512];
	char answer[12];	/* "HTTP/1.1 200" */
};

/*
 * An address of a target.  It is in its route's list until it is .gone, and its
 * memory as long as it has users.
 */
struct server {
	struct target *target;
	struct address addr;
	char name[NAME_MAX_ADDRESS];
	uint64_t rests_until;	/* It has failed; of weir_reactor_now(). */
	uint64_t bit;		/* In .tried of connections. */
	unsigned int users;	/* Connections, and the check. */
	unsigned int n_conns;	/* Of these, connections. */
	int64_t current;	/* For turns by weight, */
	uint64_t chosen;	/* and turns of equals. */
	int tls_error;		/* The last that was said; 0: it has TLS. */
	bool down;		/* By its checks. */
	bool gone;
	struct check check;
	struct server *next;
};

/* Which header of the PROXY protocol targets get. */
enum header { HEADER_NONE, HEADER_V1, HEADER_V2 };

/* What a line says of TLS. */
struct tls_words {
	char *cert, *key;	/* Files; NULL: clients come without. */
	char *alpn;
	char *client_ca;	/* A file: clients need a certificate by these. */
	char *ca;		/* A file of those whom targets need; NULL: the
				 * system's. */
	char *name;		/* Of targets, instead of their own. */
	bool to_target;
	bool no_verify;
};

struct tls;

/* A line "listen A B to C D". */
struct route {
	struct config *config;
	struct target *targets, **targets_end;
	struct server *servers;
	unsigned int n_servers;
	uint64_t turn;		/* Of the choices. */
	enum header header;
	bool least;		/* Connections, not turns. */
	struct net *nets;	/* Whose connections begin with a header. */
	unsigned int n_nets;
	uint64_t check_ns;	/* 0: no checks. */
	char *check_path;	/* NULL: a connection is all. */
	struct tls_words tls;
	struct tls *tls_in, *tls_out; /* NULL: bytes as they are. */
	struct route *next;
};

struct listen {
	struct address addr;
	char name[NAME_MAX_ADDRESS];
	struct route *route;
	int fd;			/* New; -1: a core has it already. */
	struct listen *next;
};

struct config {
	struct core *core;	/* Whose copy it is. */
	unsigned int users;	/* Its core, and connections made by it, and
				 * operations of its targets. */
	bool retired;		/* Another one is in force, or none. */
	struct listen *listens;
	struct route *routes;
	uint64_t connect_ns, idle_ns, rest_ns, drain_ns, resolve_ns;
	uint64_t rise, fall;	/* Checks that make a server up, or down. */
	struct weir_resolver *resolver; /* NULL: there are no names. */
	char *nameservers;	/* NULL: those of the system. */
	uint64_t connections;	/* At a time, on all cores. */
	uint64_t buffer;	/* Bytes of one. */
	uint64_t zerocopy;	/* Sends from so many bytes on; 0: none. */
	uint64_t splice;	/* Flows of so many at a time; 0: none. */
	uint64_t unix_mode;	/* Of names that are listened at. */
	char *log;		/* A path; NULL: no log. */
};

/* ---- a connection ---- */

/* How it ended. */
enum end {
	END_OPEN,
	END_DONE,		/* Both ways came to their ends. */
	END_RESET,
	END_IDLE,
	END_NO_TARGET,
	END_STOPPED,		/* By us, or for want of memory. */
	END_BAD_HEADER,		/* Of the PROXY protocol, or none in time. */
	END_BAD_TLS,		/* The handshake of the client. */
};

/* What the operation of a flow is. */
enum step { STEP_NONE, STEP_WAIT, STEP_RECEIVE, STEP_SEND, STEP_SHUT, STEP_OVER };

/* Bytes go in and come out; both ends do not wait. */
struct pipe {
	int in, out;
	struct pipe *next;
};

/* One way: what comes from .from goes to .to. */
struct flow {
	struct weir_op op;
	struct conn *conn;
	int from, to;
	enum step step;
	uint32_t at, len;	/* What of it is still to be sent. */
	char *buf;		/* Only while bytes are on their way, */
	struct pipe *pipe;	/* as is this, which is used instead. */
	uint32_t much;		/* Of late, how often much came at a time. */
	uint64_t bytes;		/* Sent. */
	bool asked;		/* For a send without a copy, which */
	bool copied;		/* turned out to be none. */
};

struct conn {
	struct core *core;
	struct config *config;
	struct listen *listen;	/* Of .config. */
	struct server *server;	/* Connected, or to be; NULL: none was tried. */
	unsigned int tries;	/* Servers that were not tried yet, */
	uint64_t tried;		/* and the bits of the others. */
	enum end end;
	bool broken;		/* A way was cut short; the other goes on. */
	int client_fd, target_fd;
	struct weir_stream *front, *back; /* With TLS; they own these then. */
	struct flow up, down;	/* To the target; to the client. */
	struct address client, local; /* By the header, if there was one. */
	uint64_t began_ns, connected_ns;
	uint64_t active_ns;	/* When a byte moved last. */
	struct conn *next, **pprev;
};

/* ---- a core ---- */

struct listener {
	struct weir_op op;	/* Accepts, or rests after an error. */
	struct core *core;
	struct listen *listen;	/* Of the core's configuration. */
	int fd;
	int taken;		/* A connection that waits; -1: none. */
	bool gone;
	bool failed;		/* That was said. */
	char name[NAME_MAX_ADDRESS];
	struct listener *next;
};

/* What a line of the log says.  Times are of the wall clock and lengths. */
struct log_record {
	struct address client;
	char listen[NAME_MAX_ADDRESS];
	char target[NAME_MAX_ADDRESS]; /* The server. */
	uint64_t ended_ns, lasted_ns, connect_ns;
	uint64_t up, down;
	enum end end;
};

/* One core writes, the log's worker reads. */
struct log_queue {
	struct log_record *records;
	atomic_uint in, out;
	atomic_ulong dropped;
};

struct core {
	struct proxy *proxy;
	struct weir_reactor *r;
	uint32_t index;
	struct config *config;
	struct listener *listeners;
	struct conn *conns;
	unsigned int n_conns, n_listeners;
	bool draining, drained;
	struct weir_timer *again;	/* Core 0 could not be told. */
	struct buffer *buffers;	/* Free ones. */
	unsigned int n_buffers;	/* That are free. */
	uint32_t buffer_size;
	struct pipe *pipes;	/* Free ones. */
	unsigned int n_pipes;	/* In all. */
	struct log_queue log;
} __attribute__((aligned(64)));	/* No cache line is two cores'. */

struct log {
	struct weir_op op;	/* The worker that writes. */
	struct proxy *proxy;
	int fd;			/* -1: no log. */
	int next_fd;		/* -1: none; the worker's turn ends first. */
	bool again;		/* Asked for while the worker is busy. */
	bool failed;		/* That was said, */
	unsigned long lost;	/* and lines were lost, of which the log */
				/* is told; */
	bool torn;		/* its last line has no end. */
	atomic_bool asked;	/* A core wants it written. */
	atomic_bool leave;	/* There is something better than to wait. */
};

struct options {
	const char *file;	/* NULL: all of it is in .text. */
	char *text;		/* Of the command line. */
	uint32_t cores;
	bool check;		/* Look at the configuration, and end. */
};

/* Core 0's thread only, but for what others read: .cores and .group. */
struct proxy {
	struct options o;
	struct weir_group *group;
	struct core *cores;
	uint32_t n_cores;
	uint64_t conns_max;	/* By its descriptors, of all cores. */
	struct config *config;	/* A copy to compare with. */
	struct config **first;	/* What the cores begin with. */
	struct weir_signal *signals[3];
	struct weir_timer *drain;
	uint32_t n_drained;
	bool draining;
	struct log log;
};

/* options.c: 0; or -1, and *@status is what to exit with. */
int parse_options(struct options *o, int argc, char **argv, int *status);

/* main.c: a message to stderr.  Any thread. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* address.c: 0 or -1.  @name has capacity for NAME_MAX_ADDRESS. */
int address_parse(struct address *ret, const char *text);
void address_print(char *name, const struct address *a);
void address_unmap(struct address *a);
void address_set_port(struct address *a, uint16_t port);
/* Splits "name:80"; @host has capacity for the text. */
int address_split(const char *text, char *host, uint16_t *port);
int net_parse(struct net *ret, const char *text);
bool net_has(const struct net *net, const struct address *a);

/* config.c: complains and returns NULL if it makes no sense. */
char *config_text(const struct options *o);
/* What can be shared it has from @like, of the same text. */
struct config *config_parse(const char *text, const struct config *like);
struct config *config_get(struct config *c);
void config_put(struct config *c);
struct listen *config_listen(const struct config *c, const char *name);

/* open.c */
struct config **configs_open(struct proxy *p, struct config **plan);
void configs_close(struct proxy *p, struct config **each);
void names_remove(const struct config *old, const struct config *now);

/* control.c */
int control_begin(struct proxy *p);
void control_end(struct proxy *p);
void control_drained(void *arg);	/* A struct core; a post to core 0. */

/* core.c */
int core_begin(struct weir_group *group, uint32_t index, void *arg);
void core_end(struct weir_group *group, uint32_t index, void *arg);
void core_take(struct core *c, struct config *config);
void core_drain(void *arg);		/* Posts: a struct core. */
void core_kill(void *arg);
void core_left(struct core *c);		/* A connection, or a listener. */
void core_names_known(struct core *c);
bool core_is_full(const struct core *c);
void core_take_post(void *arg);		/* A post: a struct config. */

/* listener.c */
int listener_create(struct core *c, struct listen *listen);
void listener_go_on(struct listener *l);
void listener_close(struct listener *l);

/* conn.c */
void conn_create(struct listener *l, int fd);
void conn_end(struct conn *c, enum end end);
void conn_try_next(struct conn *c);
void conn_check(struct conn *c);	/* After a callback: was it the last? */
void conn_next_after_failure(struct conn *c);
bool conn_is_idle(const struct conn *c);
/* The header for the target; returns its length, at most HEADER_CAPACITY. */
size_t conn_header(struct conn *c, unsigned char *to);

/* flow.c */
void flow_wait(struct flow *f);
void flow_send(struct flow *f);		/* What it has. */
void flow_release(struct flow *f);	/* Its buffer or pipe, if any. */
void flow_over(struct flow *f);		/* No bytes go this way any more. */
void flow_cut_short(struct flow *f);	/* The receiver has gone. */

/* tls.c: makes what the words of @route want, or shares that of @like; 0, or -1 with
 * a message. */
int tls_make(struct route *route, const struct route *like);
void tls_free(struct route *route);
void tls_accept(struct conn *c);	/* Then conn_try_next(). */
void tls_begin(struct conn *c);		/* With its target. */
void tls_close(struct weir_stream *s);

/* buffer.c */
char *buffer_get(struct core *c);
void buffer_put(struct core *c, char *buf);
void buffers_free(struct core *c);

/* pipe.c: NULL if there is none to be had. */
struct pipe *pipe_get(struct core *c);
void pipe_put(struct core *c, struct pipe *p, bool empty);
void pipes_free(struct core *c);

/* header.c: the header for a connection from @client to @local; returns its length,
 * at most HEADER_CAPACITY. */
size_t header_make(unsigned char *to, enum header version,
		   const struct address *client, const struct address *local);
/*
 * The header at the beginning of @p: its length, 0 if it is not complete, or -1 if it
 * is none.  It sets *@client and *@local, unless the sender speaks for itself.
 */
ssize_t header_parse(const unsigned char *p, size_t len, struct address *client,
		     struct address *local);

/* target.c */
struct target *target_add(struct route *route);
struct server *server_add(struct target *t, const struct address *addr);
void server_remove(struct server *s);
void server_put(struct server *s);
struct server *server_choose(struct route *route, uint64_t now, uint64_t tried);
void route_free(struct route *route);
void config_begin(struct config *c, const struct config *before);
void config_retire(struct config *c);
bool route_is_ready(const struct route *route);

/* names.c */
void names_begin(struct target *t);
void names_end(struct target *t);
void names_inherit(struct target *t, const struct target *from);

/* check.c */
void check_begin(struct server *s);

/* log.c */
int log_begin(struct proxy *p);
int log_open(struct log *log, const char *path);
void log_leave(struct log *log);
void log_conn(struct conn *c);		/* On its core. */
void log_end(struct proxy *p);

/* log-line.c: returns its length. */
size_t log_line(char *to, size_t capacity, const struct log_record *rec);

#endif /* WEIR_PROXY_H */
