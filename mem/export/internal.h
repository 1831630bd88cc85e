/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_EXPORT_INTERNAL_H
#define WEIR_MEM_EXPORT_INTERNAL_H

/*
 * Exports and imports.
 *
 *	export.c          the exporter's side of an mmap: descriptors made of it,
 *	                  revocation, which waits for importers, and leases
 *	export/process.c  what cannot be shared, by copying
 *	export/presence.c which importers are busy, and which are dead
 *	export/import.c   the importer's side
 *	export/device.c   exports by devices of providers; device-import.c: imports
 *	export/watch.c    waiting for the end of the exporter
 *	export/server.c   the exporter: its socket, requests, answers
 *	export/client.c   weir_mmap_import_from()
 *	export/message.h  the two messages that they exchange
 *	descriptor.c      the bytes
 *
 * File descriptors that go with a descriptor:
 *
 *	0  the memfd of the range; by copying: a pidfd of the exporter
 *	1  the control page, a memfd
 *	2  the lifeline, the end of a pipe to read from
 *	3  the presence page, a memfd; see presence.h
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <weir/export.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/export/descriptor.h"
#include "mem/export/presence.h"
#include "mem/mmap-internal.h"

#define EXPORT_FDS 4
#define EXPORT_FD_RANGE 0
#define EXPORT_FD_CONTROL 1
#define EXPORT_FD_LIFELINE 2
#define EXPORT_FD_PRESENCE 3

/* What is in the control page, which importers can only read. */
struct control {
	_Atomic uint64_t generation;	/* Never 0. */
	uint8_t export_id[16];

	/* The exporter, as it says itself: see presence.h. */
	uint64_t pid;
	uint64_t start_time;
	uint64_t pid_namespace;
	uint64_t fences;	/* It makes those of importers. */

	/*
	 * Of a lease with an end: when that is, in nanoseconds of
	 * CLOCK_MONOTONIC, as processes of this time namespace read it.  The
	 * exporter moves it when it renews the lease.  0: it has no end that
	 * importers check themselves.
	 */
	_Atomic uint64_t not_after;
	uint64_t time_namespace;	/* 0: no lease, or one in a world. */
};

/* The end of an exporter that its importers watch; the exporter's side. */
struct lifeline {
	struct control *page;
	int page_fd;
	int read_fd;
	int write_fd;	/* No other process has it, but forked ones. */
};

/*
 * Map the control page @fd of another process, if it is one that cannot be
 * taken away.  Returns 0 with *@ret set, or -EBADMSG or -ENOMEM.
 */
int control_map(const struct control **ret, int fd);
void control_unmap(const struct control *page);

/* The seals of a memfd that is shared, and those against writing. */
#define RANGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define RANGE_READ_ONLY (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)

/* Whether @fd has huge pages, which can run out after a hole was punched. */
static inline bool memfd_is_huge(int fd, size_t *ret_page_size)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return false;
	*ret_page_size = (size_t)fs.f_bsize;
	return fs.f_type == 0x958458f6;
}

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

/* Field 22 of /proc/PID/stat, which another process of that number does not
 * have; 0: not known. */
uint64_t process_start_time(pid_t pid);

/* Inode of our PID or time namespace; 0: not known, or 1: the kernel has no time
 * namespaces. */
uint64_t process_pid_namespace(void);
uint64_t process_time_namespace(void);

/* Whether the process @pid of our PID namespace that began at @start_time has
 * ended. */
bool process_has_ended(pid_t pid, uint64_t start_time);

/* Whether jobs by address use its domain. */
bool process_is_busy(const struct weir_mmap *mmap);

/* Check the key of a MAC, or that there is none.  Returns 0, or a negative errno
 * with a message that begins with @call. */
static inline int export_check_key(const void *key, size_t key_len,
				   const char *call)
{
	uint8_t mac[DESCRIPTOR_MAC_LEN];

	if (!key)
		return key_len ? why(-EINVAL, "%s: .key_len without .key",
				     call) : 0;
	return descriptor_mac(mac, "", 0, key, key_len, call);
}

/* A descriptor that was made; kept, for its bytes may be in use. */
struct export_blob {
	struct export_blob *next;
	size_t len;
	uint32_t kind;
	uint8_t bytes[];
};

/*
 * What an mmap was exported as, made by the first export or by a lease.  When
 * it is revoked, it moves to the mmap's list of those whose importers may be
 * busy.
 */
struct mmap_export {
	struct mmap_export *next;	/* In that list, or in that of leases. */
	struct weir_lease *lease; /* NULL: no lease's, or of one that is gone. */
	pid_t owner;		/* A forked child revokes nothing. */
	struct lifeline line;	/* .page is NULL before it is needed. */
	struct presence presence; /* Likewise. */
	int pidfd;		/* -1: not exported by copying yet. */
	uint8_t device_id[16];	/* Of those by devices, which have no line; */
	bool has_device_id;	/* if there was one. */
	struct weir_device *device;	/* By which it is a lease; NULL: none. */
	struct weir_reactor *r;		/* Of that lease. */
	struct export_blob *blobs;
	unsigned int n_blobs;
};

/*
 * export.c: the mmap's, or a new one, which becomes the mmap's by being set.
 * NULL: no memory, with a message that begins with @call.
 */
struct mmap_export *export_get(const struct weir_mmap *mmap, const char *call);

/* Free one that has not become the mmap's. */
void export_free(struct mmap_export *x);

/*
 * Keep these bytes in @x, or find them there.  Returns 0, or -EAGAIN or -ENOMEM
 * with a message.
 */
int export_keep(struct export_blob **ret, struct mmap_export *x, uint32_t kind,
		const uint8_t *bytes, size_t len, const char *call);

/*
 * export/device.c: describe @mmap as @opts and @device export it, in *@ret, and
 * register it: for @lease alone if that is not NULL.  Returns 0, or a negative errno
 * with a message that begins with @call.
 */
int export_by_device(struct export_blob **ret, struct weir_mmap *mmap,
		     struct weir_device *device, struct mmap_export *lease,
		     struct weir_export_opts *opts, const char *call);

/*
 * Revoke what @mmap was exported as, and all of its leases: importers are told.
 * They go to the list of those that are revoked.  If not @all, then only the leases
 * whose device has begun to take them back.  Cannot fail.
 */
void export_revoke(struct weir_mmap *mmap, bool all);

/*
 * When to look for busy importers again, that were waited for since @since: a part
 * of that time later.
 */
#define LOOK_MIN (50 * WEIR_USEC)
#define LOOK_MAX (10 * WEIR_MSEC)
#define LOOK_PART 8

static inline uint64_t export_look_again(uint64_t since, uint64_t now)
{
	uint64_t ns = (now - since) / LOOK_PART;

	return now + (ns < LOOK_MIN ? LOOK_MIN : ns > LOOK_MAX ? LOOK_MAX : ns);
}

/* Wait for a moment, for a slice of an importer that began just before it was
 * revoked.  False: that was often enough. */
static inline bool export_pause(unsigned int *tries)
{
	struct timespec moment = { .tv_nsec = 20000 };

	return ++*tries <= 100 && (nanosleep(&moment, NULL), true);
}

/*
 * How many reactors of importers have jobs that may touch the memory of @mmap by
 * what was revoked, and, if @exported, by what it is exported as.  What none can
 * touch any more is forgotten.  With @names, of @len bytes, which are not 0, it
 * says which processes they are of, as far as there is space.
 */
uint32_t export_count_busy(struct weir_mmap *mmap, bool exported, char *names,
			   size_t len);

/* The importer's side; see mmap_stale(). */
struct import {
	struct mmap_import base;
	const struct control *page;
	struct presence presence;
	int place;		/* There, of jobs on any thread; -1: none. */
	int lifeline;
	int exporter;		/* Its pidfd; -1: there is none. */

	/* By a provider's device, which has none of these. */
	struct weir_device *device;
	struct device_import reached;

	/* By weir_mmap_import_desc(), likewise. */
	struct device_owner *owner;
	struct weir_provider_desc desc;
	atomic_uint watches;	/* In flight: it cannot be destroyed. */
};

static inline struct import *import_of(const struct weir_mmap *mmap)
{
	return (struct import *)mmap->import;
}

/* The device by which @mmap is imported; NULL: by none.  Any thread. */
static inline struct weir_device *import_device(const struct weir_mmap *mmap)
{
	return mmap->import ? import_of(mmap)->device : NULL;
}

/* watch.c: see mmap_import.seen. */
extern const _Atomic uint64_t import_no_generation;

/* @import is stale from now on.  Any thread. */
static inline void import_set_stale(struct mmap_import *import)
{
	atomic_store(&import->seen, &import_no_generation);
	atomic_store(&import->mine, 0);
}

/*
 * Look whether the exporter of @mmap, if it is an import, has ended, for
 * mmap_stale().  Any thread; one system call.
 */
void import_poll(const struct weir_mmap *mmap);

/*
 * Which file @fd is of, which goes as the @which-th with a descriptor of @kind.
 * Returns 0 or a negative errno.
 */
static inline int export_file(struct descriptor_file *ret, int fd, uint32_t kind, int which)
{
	struct stat st;

	*ret = (struct descriptor_file){ 0, 0 };
	if (kind == DESCRIPTOR_PROCESS && which == EXPORT_FD_RANGE)
		return 0;
	if (fstat(fd, &st))
		return -errno;
	ret->dev = (uint64_t)st.st_dev;
	ret->ino = (uint64_t)st.st_ino;
	return 0;
}

/*
 * membarrier(2), with which an exporter makes the fences of its importers: see
 * presence.h.
 */
enum {
	BARRIER_QUERY = 0,
	BARRIER_GLOBAL_EXPEDITED = 2,
	BARRIER_REGISTER_GLOBAL_EXPEDITED = 4,
};

static inline long process_barrier(int command)
{
	return fault_choice("membarrier") ? -1 :
	       syscall(SYS_membarrier, command, 0, 0);
}

/* A duplicate of @fd, or a negative errno. */
int export_dup(int fd);

/*
 * A socket for exporter and importer; @flags can be SOCK_NONBLOCK.  Returns a
 * descriptor, or a negative errno with a message.
 */
static inline int export_socket(int flags, const char *call)
{
	int fd = fault("socket") ? (errno = EMFILE, -1) :
		 socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

	return fd < 0 ? why(-errno, "%s: socket: %s", call, strerror(errno)) :
			fd;
}

#define EXPORT_PATH_MAX 99	/* .XXXXXXXX is put behind it. */

/* Put @path into the address of a UNIX socket.  Returns its length. */
static inline unsigned int export_address(struct sockaddr_un *sun, const char *path)
{
	size_t len = strlen(path);

	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, path, len);
	return (unsigned int)(offsetof(struct sockaddr_un, sun_path) + len + 1);
}

/* Where it is, so that it can be removed. */
struct export_place {
	char path[EXPORT_PATH_MAX + 1];
	dev_t dev;
	ino_t ino;
};

#endif /* WEIR_MEM_EXPORT_INTERNAL_H */
