/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that cannot be shared, reached by copying: the identity of the
 * exporter, for the descriptor, and how an importer makes a domain of it.
 *
 * The danger is not in the bytes that come, but in whom they name: an exporter
 * could send the pidfd of another process, which it may not touch and we may,
 * and have us read and write there.  So a caller that imports by copying says
 * from whom the descriptor came; the process has to be that one, by number, and
 * to belong to that user, for numbers are given out again.  The start time is
 * the exporter's own word, against a number that was given out again before it
 * sent.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/export/internal.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define IMPORT "weir_mmap_import"

/* /proc/PID/stat behind the name, from the field of the state on; NULL: it cannot
 * be read. */
static char *read_stat(pid_t pid, char *text, size_t len)
{
	char path[40], *p;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fault_choice("fopen") ? NULL : fopen(path, "re");
	if (!f)
		return NULL;
	n = fread(text, 1, len - 1, f);
	fclose(f);
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && p[1] ? p + 2 : NULL;
}

/* Of @p, which begins with field 3; 0: it has not so many. */
static uint64_t number_in(const char *p, unsigned int field)
{
	for (; p && field > 3; field--) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t process_start_time(pid_t pid)
{
	char text[1024];

	return number_in(read_stat(pid, text, sizeof(text)), 22);
}

/* Without pidfds.  The first thread may be a zombie while others go on. */
static bool has_ended_by_stat(pid_t pid)
{
	char text[1024], *p;

	if (kill(pid, 0) && errno == ESRCH)
		return true;
	p = read_stat(pid, text, sizeof(text));
	return p && (*p == 'Z' || *p == 'X') && number_in(p, 20) <= 1;
}

static uint64_t namespace_of(const char *path, uint64_t otherwise)
{
	struct stat st;

	return stat(path, &st) ? otherwise : st.st_ino;
}

uint64_t process_pid_namespace(void)
{
	return namespace_of("/proc/self/ns/pid", 0);
}

uint64_t process_time_namespace(void)
{
	return namespace_of("/proc/self/ns/time", 1);
}

bool process_has_ended(pid_t pid, uint64_t start_time)
{
	struct pollfd p = { .events = POLLIN };
	uint64_t began;
	bool ended;

	p.fd = fault_choice("pidfd_open") ? (errno = EMFILE, -1) :
	       (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0)
		return errno == ESRCH || has_ended_by_stat(pid);
	ended = poll(&p, 1, 0) > 0;
	close(p.fd);
	began = process_start_time(pid);
	return ended || (start_time && began && began != start_time);
}

int process_export(struct descriptor *d, int *pidfd,
		   const struct weir_mmap *mmap)
{
	if (!mmap->cpu)
		return why(-EOPNOTSUPP, "weir_mmap_export: the range has no "
			   "addresses in this process, so it cannot be copied "
			   "from them");
	if (*pidfd < 0) {
		*pidfd = fault("pidfd_open") ? (errno = EMFILE, -1) :
			 (int)syscall(SYS_pidfd_open, getpid(), 0);
		if (*pidfd < 0)
			return why(errno == ENOSYS ? -EOPNOTSUPP : -errno,
				   "weir_mmap_export: no pidfd of this "
				   "process: %s", strerror(errno));
	}
	d->kind = DESCRIPTOR_PROCESS;
	d->pid = (uint64_t)getpid();
	d->start_time = process_start_time(getpid());
	d->addr = (uintptr_t)mmap->addr;
	return 0;
}

/* Whether @domain is the process that @peer was, and @d names. */
static int check_process(struct weir_domain *domain, const struct descriptor *d,
			 const struct weir_exporter_peer *peer)
{
	pid_t pid = weir_domain_process_pid(domain);
	char path[40];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (pid != peer->pid || stat(path, &st) || st.st_uid != peer->uid)
		return why(-EACCES, IMPORT ": the descriptor is not of the "
			   "process that has sent it");
	if (d->start_time && process_start_time(pid) != d->start_time)
		return why(-EACCES, IMPORT ": process %d is not the one that "
			   "has exported", (int)pid);
	if (!process_lives(domain_to_process(domain)))
		return why(-ESRCH, IMPORT ": process %d has ended", (int)pid);
	return 0;
}

int process_import(struct weir_mmap *mmap, const struct descriptor *d,
		   int pidfd, const struct weir_exporter_peer *peer,
		   bool write)
{
	struct weir_domain_process_opts opts = {
		.size = sizeof(opts),
		.flags = write ? 0 : WEIR_DOMAIN_PROCESS_READ_ONLY,
	};
	struct weir_domain *domain;
	int err;

	if (!peer)
		return why(-EACCES, IMPORT ": .peer is not set: whose memory "
			   "may be reached by copying?");
	if (!peer->pid)
		return why(-EOPNOTSUPP, IMPORT ": the exporter is in a PID "
			   "namespace that is neither ours nor within ours, so "
			   "its memory cannot be copied; have it export a "
			   "memfd, or join its namespace");
	err = weir_domain_process_create_pidfd(&domain, pidfd, &opts);
	if (err)
		return err == -EBADF || err == -EINVAL ?
		       why(-EBADMSG, IMPORT ": file descriptor %d is not a "
			   "pidfd", EXPORT_FD_RANGE) : err;
	err = check_process(domain, d, peer);
	if (err) {
		weir_domain_destroy(domain);
		return err;
	}
	domain->import = mmap;
	domain->first = d->addr;
	domain->size = d->len;
	mmap_set_domain(mmap, domain);
	mmap->addr = (char *)(uintptr_t)d->addr;
	mmap->len = (size_t)d->len;
	mmap->page_size = 4096;
	mmap->cpu = false;
	mmap->readonly = !write;
	return 0;
}

void process_release(struct weir_mmap *mmap)
{
	struct weir_domain *domain = mmap->domain;

	mmap_set_domain(mmap, weir_domain_system());
	weir_domain_destroy(domain);
}

bool process_is_busy(const struct weir_mmap *mmap)
{
	return weir_domain_kind(mmap->domain) == WEIR_DOMAIN_PROCESS &&
	       weir_domain_users(mmap->domain) > 1;
}
