/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_RDMA_H
#define WEIR_RDMA_H

/*
 * weir-rdma: files between hosts by RDMA.  README.md says how it is built.
 *
 * All of it runs on one reactor's thread, but what is marked "on a worker".
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <weir/conn.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/message.h>
#include <weir/mmap.h>
#include <weir/op.h>
#include <weir/pipeline.h>
#include <weir/pool.h>
#include <weir/reactor.h>
#include <weir/srq.h>
#include <weir/timer.h>
#include <weir/watch.h>

/* Bounds. */
#define PORT 7471
#define SLOTS_MAX 64u		/* Blocks of a file in flight. */
#define BLOCK_MIN 4096u
#define BLOCK_MAX (1u << 20)
#define BUFS_MAX 16u		/* Of a server, for one client. */
#define CLIENTS_MAX 64u		/* That a server has at a time. */
#define NAME_BYTES 1024u	/* Of a file's name, with its end. */
#define NOTE_BYTES 4096u	/* Of the longest message. */
#define NOTES_MAX (4 * SLOTS_MAX) /* On their way to a peer. */

/* options.c */

enum command { CMD_SERVE, CMD_PUT, CMD_GET };

struct opts {
	enum command command;
	const char *path;	/* DIR or FILE. */
	char *host;
	const char *name;	/* At the host. */
	const char *listen, *from, *port;
	uint32_t depth, clients;
	size_t block;
	uint64_t timeout_ns;
	bool read_only, fsync, progress, quiet, json;
};

int options_parse(struct opts *o, int argc, char **argv);

/* note.c: messages between the two.  Each has the members that it needs. */

enum note_type { NOTE_HELLO = 1, NOTE_READY, NOTE_BLOCK, NOTE_TAKEN, NOTE_END,
		 NOTE_DONE, NOTE_FAIL };

struct note {
	uint32_t type;
	uint32_t slot;		/* HELLO: how many there are. */
	uint64_t off;		/* HELLO, READY, END: bytes of the file. */
	uint32_t len;		/* HELLO: bytes of a slot. */
	uint32_t crc;		/* Of the block; END, DONE: of the file. */
	uint32_t mode;		/* HELLO, READY: the file's. */
	uint32_t what;		/* HELLO: CMD_PUT or CMD_GET; FAIL: FAIL_ */
	int32_t err;		/* FAIL */
	const char *name;	/* HELLO */
	const void *desc;	/* HELLO: the memory, as it was exported. */
	size_t desc_len;
};

#define NOTE_HEAD 40u		/* Bytes of all but the last three. */

size_t note_encode(const struct note *n, void *to, size_t capacity);
int note_decode(struct note *n, const void *from, size_t len);

/* What has failed; say.c makes a message of it. */
enum fail { FAIL_NOT, FAIL_CONNECT, FAIL_MEMORY, FAIL_OPEN, FAIL_READ,
	    FAIL_WRITE, FAIL_NAME, FAIL_CHECKSUM, FAIL_PROTOCOL, FAIL_PEER,
	    FAIL_BUSY, FAIL_STOPPED, FAILS };

/* file.c: the file at this end; on a worker. */

struct file {
	int root;		/* Its name is relative to this. */
	bool beneath;		/* And nothing outside of it may be reached. */
	bool sink, fsync;
	char name[NAME_BYTES];
	char temp[48];		/* Of what is not complete; "": none. */
	const char *base;	/* The last part of the name. */
	int dir, fd;		/* -1: not open. */
	uint64_t size;
	uint32_t mode;
};

void file_init(struct file *f, int root, const char *name, bool sink);
int64_t file_open_work(void *file);
int64_t file_finish_work(void *file);
void file_close(struct file *f);	/* And remove it, if not complete. */

/* staging.c: memory between the file and the connection. */

struct staging {
	struct weir_device *device;
	struct weir_mmap *mmap;		/* Ours. */
	struct weir_inventory *inventory;
	char *base;
	/* With a peer that has exported its own: */
	struct weir_pool *pool;
	struct weir_domain *there;
	struct weir_mmap *theirs;
	char *their_base;
	bool attached;
};

struct transfer;

int staging_create(struct transfer *t, uint32_t permissions);
int staging_export(struct transfer *t, struct note *hello);
int staging_import(struct transfer *t, const struct note *hello);
void staging_destroy(struct transfer *t);

/* transfer.c: one file on its way, at one of its ends. */

enum state {
	STATE_CONNECTING,
	STATE_HELLO,		/* The first message, ours or the peer's. */
	STATE_OPENING,		/* On a worker. */
	STATE_MOVING,
	STATE_FINISHING,	/* On a worker: the file gets its name. */
	STATE_DONE,		/* Both ends have said so, or it failed. */
};

struct note_op {
	struct weir_op op;
	struct transfer *t;
	struct note_op *next;
	struct weir_buf *buf;
	char bytes[NOTE_HEAD];
};

struct transfer {
	struct app *app;
	struct transfer *next;	/* In the list of all. */
	uint64_t started_ns, ended_ns;
	bool serving;		/* For a client, which exports. */
	enum state state;
	uint32_t busy;		/* What is in flight. */
	char peer[96];		/* As it is to be shown. */

	struct weir_conn *conn;
	struct weir_op conn_op, work_op, move_op, leave_op, over_op;
	struct weir_timer *timeout;
	bool leaving;		/* The connection is being taken down. */
	bool over;		/* Nothing is in flight any more. */

	struct note_op ops[NOTES_MAX], *free_ops;
	uint32_t saying;	/* Notes on their way. */

	struct file file;
	struct weir_domain *disk;
	struct staging staging;
	struct weir_pipeline *pipeline;
	bool moving;		/* .move_op is in flight. */

	uint32_t slots;		/* Of the client, */
	uint32_t bufs;		/* and blocks that are in flight here. */
	size_t block;
	uint32_t free[SLOTS_MAX], n_free;	/* Of a source. */
	bool out[SLOTS_MAX];			/* With the peer. */
	struct note queue[SLOTS_MAX];		/* Of a sink. */
	uint64_t queued, taken;			/* In and out of it. */
	uint64_t off;		/* The next block's. */
	uint64_t moved;
	uint32_t crc, peer_crc;
	bool sized;		/* The file's size is known. */
	bool ended;		/* Of a sink: no more blocks. */

	enum fail fail;
	int err;
	bool fail_there;	/* The peer has said so. */
};

struct transfer *transfer_new(struct app *app, struct weir_conn *conn);
void transfer_busy(struct transfer *t);
void transfer_idle(struct transfer *t);
void transfer_fail(struct transfer *t, enum fail fail, int err);
void transfer_done(struct transfer *t);
void transfer_listen(struct transfer *t);
void transfer_wait(struct transfer *t);
void transfer_open(struct transfer *t);
void transfer_finish(struct transfer *t);
void transfer_say(struct transfer *t, const struct note *n);

/* move.c: its blocks. */

int move_begin(struct transfer *t);
void move_note(struct transfer *t, const struct note *n);
void move_cancel(struct transfer *t);

/* client.c, serve.c: what is particular to each. */

#define BUSY "weir-rdma: busy"	/* A server's refusal. */

struct app;
int client_begin(struct app *app);
void client_note(struct transfer *t, const struct note *n);
void client_opened(struct transfer *t);
int serve_begin(struct app *app);
void serve_note(struct transfer *t, const struct note *n);
void serve_opened(struct transfer *t);
void serve_stop(struct app *app);

/* main.c */

struct app {
	struct opts opts;
	struct weir_reactor *reactor;
	struct weir_dma *dma;
	struct weir_srq *srq;
	struct weir_signal *signals[3];
	struct transfer *transfers;
	uint32_t n_transfers;
	bool failed;		/* The last transfer has. */
	bool ending;

	/* serve.c */
	int root;
	struct weir_listener *listener;
	struct weir_op next_op;
	struct weir_conn *asked;
	bool listening;

	/* say.c */
	struct weir_timer *timer;
	bool shown;
};

void app_check_end(struct app *app);

/* say.c: to people and programs. */

void say_usage_error(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
void say_listening(struct app *app);
void say_result(struct transfer *t);
void say_setup_error(struct app *app, const char *what, int err);
int progress_start(struct app *app);
void progress_stop(struct app *app);

#endif /* WEIR_RDMA_H */
