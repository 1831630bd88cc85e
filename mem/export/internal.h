/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_EXPORT_INTERNAL_H
#define WEIR_MEM_EXPORT_INTERNAL_H

/*
 * Exports and imports.
 *
 *	export.c          the exporter's side of an mmap; descriptors made of it
 *	export/memfd.c    what can be shared as it is, and its seals
 *	export/process.c  what cannot be shared, by copying
 *	export/import.c   the importer's side
 *	export/watch.c    waiting for the end of the exporter
 *	export/server.c   the exporter: requests and answers
 *	export/socket.c   its place in the file system
 *	export/client.c   weir_mmap_import_from()
 *	export/message.c  the two messages that they exchange
 *	descriptor.c      the bytes
 *
 * File descriptors that go with a descriptor:
 *
 *	0  the memfd of the range; by copying: a pidfd of the exporter
 *	1  the control page, a memfd
 *	2  the lifeline, the end of a pipe to read from
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/export.h>

#include "base/provider.h"
#include "mem/export/descriptor.h"
#include "mem/mmap-internal.h"

#define EXPORT_FDS 3
#define EXPORT_FD_RANGE 0
#define EXPORT_FD_CONTROL 1
#define EXPORT_FD_LIFELINE 2

/* What is in the control page, which importers can only read. */
struct control {
	_Atomic uint64_t generation;	/* Never 0. */
	uint8_t export_id[16];
};

/* The end of an exporter that its importers watch; the exporter's side. */
struct lifeline {
	struct control *page;
	int page_fd;
	int read_fd;
	int write_fd;	/* No other process has it. */
};

/*
 * Map the control page @fd of another process, if it is one that cannot be
 * taken away.  Returns 0 with *@ret set, or -EBADMSG or -ENOMEM.
 */
int control_map(const struct control **ret, int fd);
void control_unmap(const struct control *page);

/* Whether @fd is the end of a pipe that can be read, and only that. */
bool lifeline_is_one(int fd);

/*
 * Make the memfd of @mmap fit for importers that may write, if @write, or not.
 * Returns 0, or, with a message: -EOPNOTSUPP, this memory cannot be shared;
 * -EACCES, it has been exported with another right.
 */
int memfd_seal(const struct weir_mmap *mmap, bool write);

/*
 * Map @len bytes of the memfd @fd of another process, if it cannot be cut.
 * Returns 0 with *@ret and *@page_size set, or a negative errno with a
 * message.
 */
int memfd_map(void **ret, size_t *page_size, int fd, uint64_t len, bool write);

/* @len, and what has to be mapped for it. */
static inline size_t memfd_round(size_t len, size_t page_size)
{
	return (len + page_size - 1) / page_size * page_size;
}

/*
 * Fill @d in for @mmap, by copying; *@pidfd is opened if it is not yet.
 * Returns 0, or a negative errno with a message.
 */
int process_export(struct descriptor *d, int *pidfd,
		   const struct weir_mmap *mmap);

/*
 * Make the range of @mmap that of the process @pidfd, which has to be @peer.
 * Returns 0, or a negative errno with a message.
 */
int process_import(struct weir_mmap *mmap, const struct descriptor *d,
		   int pidfd, const struct weir_exporter_peer *peer,
		   bool write);
void process_release(struct weir_mmap *mmap);

/* Whether jobs by address use its domain. */
bool process_is_busy(const struct weir_mmap *mmap);

/* A descriptor that was made; kept, for its bytes may be in use. */
struct export_blob {
	struct export_blob *next;
	size_t len;
	uint32_t kind;
	uint8_t bytes[];
};

/* What an mmap was exported as: made by the first export, until the stop. */
struct mmap_export {
	struct lifeline line;	/* .page is NULL before it is needed. */
	int pidfd;		/* -1: not exported by copying yet. */
	uint8_t rdma_id[16];	/* Of exports by RDMA, which have no line; */
	bool has_rdma_id;	/* if there was one. */
	struct export_blob *blobs;
	unsigned int n_blobs;
};

/*
 * export.c: the mmap's, or a new one, which becomes the mmap's by being set.
 * NULL: no memory, with a message that begins with @call.
 */
struct mmap_export *export_get(const struct weir_mmap *mmap, const char *call)
	PROVIDER_API(export_get);

/* Free one that has not become the mmap's. */
void export_free(struct mmap_export *x) PROVIDER_API(export_free);

/*
 * Keep these bytes in @x, or find them there.  Returns 0, or -EAGAIN or -ENOMEM
 * with a message.
 */
int export_keep(struct export_blob **ret, struct mmap_export *x, uint32_t kind,
		const uint8_t *bytes, size_t len, const char *call)
	PROVIDER_API(export_keep);

/* export/import.c: end one that was not given away. */
struct import;
void import_free(struct import *im) PROVIDER_API(import_free);

/*
 * @mmap, whose .export is set, has stopped: its importers must find out.  Sets
 * .export to NULL.  Cannot fail.
 */
void export_revoke(struct weir_mmap *mmap);

/* The importer's side; see mmap_stale(). */
struct import {
	struct mmap_import base;
	struct mmap_remote remote;	/* By RDMA, which has none of these: */
	const struct control *page;
	int lifeline;
	atomic_uint watches;	/* In flight: it cannot be destroyed. */
};

static inline struct import *import_of(const struct weir_mmap *mmap)
{
	return (struct import *)mmap->import;
}

/*
 * Look whether the exporter of @mmap, if it is an import, has ended, for
 * mmap_stale().  Any thread; one system call.
 */
void import_poll(const struct weir_mmap *mmap);

/* A duplicate of @fd, or a negative errno. */
int export_dup(int fd);

/*
 * A socket for exporter and importer; @flags can be SOCK_NONBLOCK.  Returns a
 * descriptor, or a negative errno with a message.
 */
int export_socket(int flags, const char *call);

#define EXPORT_PATH_MAX 99	/* .XXXXXXXX is put behind it. */

/* Put @path into the address of a UNIX socket.  Returns its length. */
struct sockaddr_un;
unsigned int export_address(struct sockaddr_un *sun, const char *path);

/* Where it is, so that it can be removed. */
struct export_place {
	char path[EXPORT_PATH_MAX + 1];
	dev_t dev;
	ino_t ino;
};

/*
 * Have @fd, a socket, listen at @path, with @mode.  Returns 0 with *@ret set,
 * or a negative errno with a message.
 */
int export_listen(struct export_place *ret, int fd, const char *path,
		  uint32_t mode, int backlog);

/* Remove it, if it is still ours.  The socket is still open. */
void export_unlink(const struct export_place *place);

/*
 * The messages, one packet each: a request is a header and the name; an answer
 * is a header and, if it was granted, the descriptor, with the descriptors.
 */
#define MESSAGE_HEADER 16
#define MESSAGE_NAME_MAX 255
#define MESSAGE_REQUEST_MAX (MESSAGE_HEADER + MESSAGE_NAME_MAX)
#define MESSAGE_ANSWER_MAX (MESSAGE_HEADER + DESCRIPTOR_MAX)

size_t message_put_request(uint8_t *buf, const char *name);

/*
 * Copy the name in the @len bytes of @buf to @name, which has
 * MESSAGE_NAME_MAX + 1 bytes.  Returns 0, -EPROTO or -EPROTONOSUPPORT.
 */
int message_get_request(char *name, const uint8_t *buf, size_t len);

/* @err is 0 or a negative errno; @len bytes of a descriptor follow. */
size_t message_put_answer(uint8_t *buf, int err, const void *desc, size_t len);

/*
 * What the @len bytes of @buf answer.  Returns 0 with *@desc and *@desc_len
 * set, or the negative errno of the exporter, or -EPROTO or -EPROTONOSUPPORT.
 */
int message_get_answer(const void **desc, size_t *desc_len, const uint8_t *buf,
		       size_t len);

#endif /* WEIR_MEM_EXPORT_INTERNAL_H */
