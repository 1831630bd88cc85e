/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_NBD_H
#define WEIR_NBD_H

/*
 * weir-nbd: a server of block devices.  README.md says how it is built, and
 * docs/tutorial-nbd.md follows a read through it.  In the sources begin with
 * conn.c, in whose conn_pump() each callback ends.  Files, memory and plugins are
 * reached by ../block.
 *
 * A connection and its requests are its core's; the server and the exports are
 * not changed once the group runs, but for what is atomic.
 */

#include <endian.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include <weir/buf.h>
#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/timer.h>
#include <weir/watch.h>

#include "../block/block.h"
#include "server.h"

/* Bounds. */
#define PORT 10809
#define EXPORTS_MAX 64u
#define LISTENERS_MAX 16u
#define CORES_MAX 64u
#define CONNECTIONS_MAX 4096u
#define PEERS_MAX (CONNECTIONS_MAX + 256u) /* Also of those that are closing. */
#define REQUESTS 128u		/* Of a connection, in flight. */
#define CELL 4096u
#define RX_BYTES (256u << 10)
#define SLAB_BYTES (2u << 20)
#define CELLS ((SLAB_BYTES - RX_BYTES) / CELL)
#define PIECE BLOCK_PIECE	/* Bytes of a request that move at once. */
#define PAYLOAD_MAX (32u << 20)	/* Of a read or write. */
#define BATCH_BYTES (1u << 20)	/* After which no reply joins a batch. */
#define OPTION_MAX (16u << 10)	/* Bytes of an option's data. */
#define EXTENTS_MAX ((CELL - 4) / 8)

/* The protocol: what is sent, with the names that its document has. */

#define NBD_MAGIC UINT64_C(0x4e42444d41474943)
#define NBD_OPTION_MAGIC UINT64_C(0x49484156454f5054)
#define NBD_REP_MAGIC UINT64_C(0x3e889045565a9)
#define NBD_REQUEST_MAGIC 0x25609513u
#define NBD_SIMPLE_REPLY_MAGIC 0x67446698u
#define NBD_STRUCTURED_REPLY_MAGIC 0x668e33efu

enum { NBD_FLAG_FIXED_NEWSTYLE = 1, NBD_FLAG_NO_ZEROES = 2 };

enum { NBD_OPT_EXPORT_NAME = 1, NBD_OPT_ABORT, NBD_OPT_LIST,
       NBD_OPT_STARTTLS = 5, NBD_OPT_INFO, NBD_OPT_GO, NBD_OPT_STRUCTURED_REPLY,
       NBD_OPT_LIST_META_CONTEXT, NBD_OPT_SET_META_CONTEXT };

#define NBD_REP_ACK 1u
#define NBD_REP_SERVER 2u
#define NBD_REP_INFO 3u
#define NBD_REP_META_CONTEXT 4u
#define NBD_REP_ERR(n) (UINT32_C(1) << 31 | (n))
#define NBD_REP_ERR_UNSUP NBD_REP_ERR(1)
#define NBD_REP_ERR_POLICY NBD_REP_ERR(2)
#define NBD_REP_ERR_INVALID NBD_REP_ERR(3)
#define NBD_REP_ERR_PLATFORM NBD_REP_ERR(4)
#define NBD_REP_ERR_TLS_REQD NBD_REP_ERR(5)
#define NBD_REP_ERR_UNKNOWN NBD_REP_ERR(6)
#define NBD_REP_ERR_SHUTDOWN NBD_REP_ERR(7)
#define NBD_REP_ERR_TOO_BIG NBD_REP_ERR(9)

enum { NBD_INFO_EXPORT, NBD_INFO_NAME, NBD_INFO_DESCRIPTION,
       NBD_INFO_BLOCK_SIZE };

enum {
	NBD_FLAG_HAS_FLAGS = 1 << 0,
	NBD_FLAG_READ_ONLY = 1 << 1,
	NBD_FLAG_SEND_FLUSH = 1 << 2,
	NBD_FLAG_SEND_FUA = 1 << 3,
	NBD_FLAG_SEND_TRIM = 1 << 5,
	NBD_FLAG_SEND_WRITE_ZEROES = 1 << 6,
	NBD_FLAG_SEND_DF = 1 << 7,
	NBD_FLAG_CAN_MULTI_CONN = 1 << 8,
	NBD_FLAG_SEND_CACHE = 1 << 10,
	NBD_FLAG_SEND_FAST_ZERO = 1 << 11,
};

enum { NBD_CMD_READ, NBD_CMD_WRITE, NBD_CMD_DISC, NBD_CMD_FLUSH, NBD_CMD_TRIM,
       NBD_CMD_CACHE, NBD_CMD_WRITE_ZEROES, NBD_CMD_BLOCK_STATUS, NBD_CMDS };

enum { NBD_CMD_FLAG_FUA = 1, NBD_CMD_FLAG_NO_HOLE = 2, NBD_CMD_FLAG_DF = 4,
       NBD_CMD_FLAG_REQ_ONE = 8, NBD_CMD_FLAG_FAST_ZERO = 16 };

#define NBD_REPLY_FLAG_DONE 1u
enum { NBD_REPLY_TYPE_NONE, NBD_REPLY_TYPE_OFFSET_DATA,
       NBD_REPLY_TYPE_BLOCK_STATUS = 5, NBD_REPLY_TYPE_ERROR = 32769,
       NBD_REPLY_TYPE_ERROR_OFFSET };

enum { NBD_STATE_HOLE = 1, NBD_STATE_ZERO = 2 };

enum { NBD_EPERM = 1, NBD_EIO = 5, NBD_ENOMEM = 12, NBD_EINVAL = 22,
       NBD_ENOSPC = 28, NBD_EOVERFLOW = 75, NBD_ENOTSUP = 95,
       NBD_ESHUTDOWN = 108 };

#define NBD_REQUEST_BYTES 28u
#define ALLOCATION_ID 1u	/* Of base:allocation, our only context. */

/* Numbers on the wire have their most significant byte first. */
static inline uint16_t get16(const void *p)
{
	uint16_t n;

	memcpy(&n, p, sizeof(n));
	return be16toh(n);
}

static inline uint32_t get32(const void *p)
{
	uint32_t n;

	memcpy(&n, p, sizeof(n));
	return be32toh(n);
}

static inline uint64_t get64(const void *p)
{
	uint64_t n;

	memcpy(&n, p, sizeof(n));
	return be64toh(n);
}

/* Each returns where the next one goes. */
static inline uint8_t *put16(uint8_t *p, unsigned int n)
{
	uint16_t be = htobe16((uint16_t)n);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

static inline uint8_t *put32(uint8_t *p, uint32_t n)
{
	uint32_t be = htobe32(n);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

static inline uint8_t *put64(uint8_t *p, uint64_t n)
{
	uint64_t be = htobe64(n);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

struct conn;
struct core;
struct request;
struct server;

/* export.c: what is served, as clients see it. */
uint16_t export_flags(const struct block *b);
struct block *export_find(struct server *server, const void *name, size_t len);
bool export_extent(struct block_io *io, uint64_t len, bool hole);

/* cells.c: places in a slab. */

struct cells {
	uint64_t taken[(CELLS + 63) / 64];
};

int cells_take(struct cells *cells, uint32_t n);
void cells_give(struct cells *cells, uint32_t first, uint32_t n);

/* request.c: what a client has asked for. */

struct request {
	struct block_io io;	/* Of the piece that is due. */
	struct iovec v;		/* Its data. */
	struct conn *conn;
	struct request *next;	/* Among the free ones, or in the queue. */
	uint64_t cookie, off;
	uint32_t len;
	uint16_t flags, type;	/* NBD_CMD_FLAG_, NBD_CMD_ */
	uint32_t done;		/* Bytes of the pieces before this one. */
	uint32_t piece;		/* Bytes of this one. */
	uint32_t got;		/* Of a write's, from the client. */
	uint32_t error;		/* NBD_E... */
	uint32_t extents;	/* Of a block status. */
	uint8_t *data;		/* Of the piece: cells, or memory itself. */
	int cell;		/* The first; -1: none. */
	uint32_t n_cells;
	uint32_t head_len;
	bool running;		/* A piece of a write is being written. */
	uint8_t head[40];	/* Of the reply. */
};

void request_init(struct request *rq, struct conn *c);
bool request_parse(struct conn *c);
void request_done(struct request *rq, int64_t res);
void request_sent(struct request *rq);
void request_end(struct request *rq, uint32_t error);
uint32_t nbd_error(int64_t err);

/* pages.c: long replies of memory. */

struct pages {
	int pipe[2];
	bool tried, open;	/* The pipe. */
	uint32_t in_pipe;	/* Bytes. */
	struct iovec rest;	/* What is not there yet. */
};

bool pages_take(struct conn *c, const struct request *rq, uint32_t len);
bool pages_left(const struct conn *c);
int pages_send(struct conn *c);
void pages_sent(struct conn *c, int64_t n);
void pages_end(struct conn *c);

/* reply.c */

void reply_queue(struct request *rq);
void reply_flush(struct conn *c);
void reply_sent(struct conn *c);

/* hello.c: until requests may come. */

void hello_begin(struct conn *c);
bool hello_parse(struct conn *c);
void hello_sent(struct conn *c);

/* peer.c */

/* An IP address that has connections, those that are served, and others. */
struct peer {
	struct in6_addr addr;
	_Atomic uint32_t connections, served;
};

int peer_get(struct peer **ret, struct server *server, int fd);
void peer_put(struct peer *p);
bool peer_enter(struct peer *p, uint32_t max);
void peer_leave(struct peer *p);
void peer_refuse(struct core *core, int fd, const char *why);

/* conn.c: a client. */

enum state { GREETING, HAGGLING, SERVING, CLOSING };

struct conn {
	struct server *server;
	struct core *core;
	struct conn *next, **pprev;	/* Of its core's. */
	struct block *export;
	struct peer *peer;	/* NULL: of a UNIX socket. */
	int fd;
	struct weir_stream *tls; /* NULL: bytes are received and sent plainly. */
	enum state state;
	bool displaces;		/* An older handshake, to be let in. */
	bool in_hello;		/* It counts in .n_hellos. */
	bool admitted;		/* It counts in .peer->served. */
	bool structured, no_zeroes;
	const struct block *status_of;	/* base:allocation was selected. */
	bool status;		/* And it is of the export. */
	enum { GO_ON, GO_SERVE, GO_TLS, GO_AWAY } then;	/* After this reply. */
	uint8_t *reply_end;	/* Of what is written to an option. */
	bool ending;		/* Nothing more is to be received. */
	bool stopping;		/* The server is: NBD_ESHUTDOWN. */
	uint32_t busy;		/* Operations in flight, but for .queue's. */
	uint64_t hello_began_ns;
	uint64_t active_ns;	/* When something was received or sent. */
	uint64_t half_ends_ns;	/* For half a request; 0: not set yet. */
	uint32_t half_bytes;	/* That came since it was set. */

	void *slab;		/* SLAB_BYTES; NULL: it was refused. */
	uint8_t *rx;		/* Its first part, */
	uint8_t *cell_base;	/* and the rest. */
	uint32_t head, tail;	/* Of what was received and not yet parsed. */
	uint64_t skip;		/* Bytes to come that are dropped. */
	struct cells cells;
	struct request *filling; /* A write whose data are to come, */
	struct request *refused; /* or are skipped. */
	struct weir_op rx_op, tx_op, flush_op;
	bool receiving, direct, sending, flushing;
	bool blocked;		/* There is no capacity to parse more. */

	struct block_queue queue;	/* Once there is an export. */
	struct request *free;
	struct request *ready, **ready_end;	/* To be sent, */
	struct request *out;			/* on their way. */
	struct request *stream;	/* A reply that is cut in pieces, */
	bool stream_ready;	/* and the next one can be sent. */
	uint32_t used;		/* Requests that are not free. */
	uint64_t tx_ends_ns;	/* When the client must have taken them. */
	uint32_t n_iov, n_bytes; /* Of the replies that are sent. */
	struct pages pages;	/* Of the last of them. */
	struct iovec iov[2 * REQUESTS];
	struct request requests[REQUESTS];
};

extern const char conn_too_many[];

void conn_on_rx(struct weir_op *op, int64_t res);
uint64_t conn_hello_end(const struct conn *c);

struct conn *conn_make(struct server *server, struct core *core,
		       struct peer *peer, int fd);
void conn_unmake(struct conn *c);
void conn_adopt(void *conn);	/* On its core. */
int conn_take_export(struct conn *c, struct block *b);
void conn_serve(struct conn *c);
void conn_is_active(struct conn *c);
void conn_pump(struct conn *c);
void conn_drop(struct conn *c);
void conn_end(struct conn *c);
void conn_finish(struct conn *c);
void conn_send(struct conn *c);
void conn_flush_later(struct conn *c);

/* tls.c, or no-tls.c */

int tls_open(struct server *server);
void tls_close(struct server *server);
void tls_reload(struct server *server);
void tls_begin(struct conn *c);
void tls_say_end(struct conn *c);
void tls_end(struct conn *c);

/* core.c */

/* What clients did, by this core. */
struct counts {
	uint64_t requests[NBD_CMDS];
	uint64_t read, written;	/* Bytes. */
	uint64_t errors;
	uint64_t sends;
	uint64_t refused;	/* Connections. */
};

struct core {
	struct server *server;
	struct weir_reactor *reactor;
	struct block_core block;
	struct conn *conns;
	struct weir_timer *grace;
	bool stopping, empty;	/* The latter was told to core 0. */
	struct counts counts;
	uint64_t silent_until_ns;	/* No refusal is said before, */
	uint32_t unsaid;		/* but counted. */
	_Atomic uint32_t n_conns;	/* With those that are on their way; */
	_Atomic uint32_t n_hellos;	/* of them, not served yet. */
};

void core_stop(void *core);
void core_check_end(struct core *core);

/* listen.c */

int listen_begin(struct server *server);
void listen_end(struct server *server);
int listen_open(struct server *server);
void listen_close(struct server *server);

/* options.c */

enum tls_mode { TLS_OFF, TLS_ON, TLS_REQUIRE };

struct opts {
	const char *unix_path, *address, *port;
	uint32_t cores, connections, per_peer;
	uint32_t timeout_s, handshake_s, idle_s, grace_s;
	const char *tls_dir, *tls_psk;
	enum tls_mode tls;	/* Whether clients may, or must, use it. */
	bool tls_verify_peer;
	bool tcp;		/* Also beside other sockets. */
	bool read_only;		/* All of them. */
	bool stats, quiet;
};

int options_parse(struct server *server, int argc, char **argv);
void usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* server.c */

struct server {
	struct opts opts;
	struct weir_tls_context *tls;	/* NULL: off. */
	struct block exports[EXPORTS_MAX];
	uint32_t n_exports;
	int listeners[LISTENERS_MAX];
	struct weir_acceptor *acceptors[LISTENERS_MAX];
	uint32_t n_listeners;
	bool unix_made;		/* The name of a socket is to be removed. */
	struct core cores[CORES_MAX];
	uint32_t n_cores;
	struct peer peers[PEERS_MAX];
	uint32_t n_peers;	/* That were ever in use at a time. */
	server_stopped_fn *stopped;
	void *stopped_arg;
	int stop_err;		/* A file is not on its disk. */
	struct weir_op stop_op;
	uint32_t n_told;	/* Cores that know of the stop, */
	uint32_t n_empty;	/* have no connection left; */
	uint32_t n_synced;	/* exports that are on their disks. */
};

void server_empty(void *server);	/* On core 0. */
void say(const char *what, int err);

#endif /* WEIR_NBD_H */
