/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The presence page: places, which processes have claimed them, and whether
 * these are alive.
 *
 * Two things tell of a dead importer, for neither always does: its number and
 * start time, if it is of our PID namespace; and a lock on the first byte of its
 * place, by a file description of its own, which a child that it has forked
 * holds, too.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/export/internal.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define TMPFS 0x01021994
#define BURYING UINT64_MAX	/* Instead of a pid: it is being freed. */

static struct presence_page *map(int fd)
{
	void *p = fault("mmap") ? MAP_FAILED :
		  mmap(NULL, sizeof(struct presence_page),
		       PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

void presence_close(struct presence *p)
{
	if (p->page)
		munmap(p->page, sizeof(*p->page));
	if (p->fd >= 0)
		close(p->fd);
	*p = (struct presence){ NULL, -1, false };
}

int presence_create(struct presence *p)
{
	int err = 0;

	*p = (struct presence){ NULL, -1, false };
	p->fd = fault("memfd_create") ? (errno = EMFILE, -1) :
		memfd_create("weir-presence", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (p->fd < 0)
		return -errno;
	if (fault("ftruncate") || ftruncate(p->fd, sizeof(*p->page)))
		err = -ENOMEM;
	else if (!(p->page = map(p->fd)))
		err = -ENOMEM;
	else if (fault("seal") || fcntl(p->fd, F_ADD_SEALS, SEALS))
		err = -EOPNOTSUPP;
	if (err)
		presence_close(p);
	return err;
}

static int bad(const char *what)
{
	return why(-EBADMSG, "weir_mmap_import: file descriptor %d is not the "
		   "presence page of the export: %s", EXPORT_FD_PRESENCE, what);
}

/*
 * A description of our own, which the lock then belongs to.  Without /proc it
 * is the exporter's, and there is no lock.
 */
static int reopen(int fd, bool *own)
{
	char path[40];
	int copy;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	copy = fault_choice("open") ? -1 : open(path, O_RDWR | O_CLOEXEC);
	*own = copy >= 0;
	return copy >= 0 ? copy : export_dup(fd);
}

int presence_open(struct presence *p, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS)
		return bad("it is not sealed");
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS)
		return bad("it is no memfd of ordinary pages");
	if (fstat(fd, &st) || st.st_size != sizeof(*p->page))
		return bad("it has another size");
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
		return bad("it cannot be written");
	p->page = NULL;
	p->fd = reopen(fd, &p->own_file);
	if (p->fd < 0)
		return why(p->fd, "weir_mmap_import: no file descriptor left");
	p->page = map(p->fd);
	if (!p->page) {
		presence_close(p);
		return why(-ENOMEM, "weir_mmap_import: no memory to map the "
			   "presence page");
	}
	return 0;
}

static struct flock lock_of(int place, short type)
{
	return (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)(offsetof(struct presence_page, places) +
				   (size_t)place *
				   sizeof(struct presence_place)),
		.l_len = 1,
	};
}

/* Write the identity of this process; the namespace last, for it makes the start
 * time count. */
static void sign(const struct presence *p, int place)
{
	struct presence_place *here = &p->page->places[place];
	struct flock lock = lock_of(place, F_WRLCK);
	uint64_t used = atomic_load(&p->page->used);

	atomic_store(&here->busy, 0);
	atomic_store(&here->start_time, process_start_time(getpid()));
	atomic_store(&here->pid_namespace, process_pid_namespace());
	atomic_store(&here->locked,
		     p->own_file && !fcntl(p->fd, F_OFD_SETLK, &lock));
	while (used < (uint64_t)place + 1 &&
	       !atomic_compare_exchange_weak(&p->page->used, &used,
					     (uint64_t)place + 1))
		;
}

static int claim(const struct presence *p)
{
	uint64_t pid;
	int i;

	for (i = 0; i < PRESENCE_PLACES; i++) {
		pid = 0;
		if (!atomic_load(&p->page->places[i].pid) &&
		    atomic_compare_exchange_strong(&p->page->places[i].pid,
						   &pid, (uint64_t)getpid()))
			return i;
	}
	return -ENOSPC;
}

static bool is_dead(const struct presence *p, int place)
{
	struct presence_place *there = &p->page->places[place];
	uint64_t pid = atomic_load(&there->pid);
	uint64_t namespace = atomic_load(&there->pid_namespace);
	struct flock lock = lock_of(place, F_WRLCK);

	if (pid == (uint64_t)getpid() && namespace == process_pid_namespace())
		return false;
	if (namespace && namespace == process_pid_namespace() && pid <= INT32_MAX &&
	    process_has_ended((pid_t)pid, atomic_load(&there->start_time)))
		return true;
	return atomic_load(&there->locked) &&
	       !fcntl(p->fd, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

/* A free place has no identity: otherwise the next claimer, which writes its own
 * after its number, could be taken for the previous one. */
static void free_place(struct presence_place *place)
{
	atomic_store(&place->pid_namespace, 0);
	atomic_store(&place->locked, 0);
	atomic_store(&place->busy, 0);
	atomic_store(&place->pid, 0);
}

/* Free @place, whose claimer @pid has died, unless another process does. */
static void bury(const struct presence *p, int place, uint64_t pid)
{
	struct presence_place *there = &p->page->places[place];

	if (pid != BURYING &&
	    atomic_compare_exchange_strong(&there->pid, &pid, BURYING))
		free_place(there);
}

static void bury_all(const struct presence *p)
{
	uint64_t pid;
	int i;

	for (i = 0; i < PRESENCE_PLACES; i++) {
		pid = atomic_load(&p->page->places[i].pid);
		if (pid && is_dead(p, i))
			bury(p, i, pid);
	}
}

int presence_claim(const struct presence *p)
{
	int place = claim(p);

	if (place < 0) {
		bury_all(p);
		place = claim(p);
	}
	if (place >= 0)
		sign(p, place);
	return place;
}

/* A forked child has no place of its own: this is its parent's. */
void presence_release(const struct presence *p, int place)
{
	struct presence_place *here = &p->page->places[place];
	struct flock lock = lock_of(place, F_UNLCK);

	if (atomic_load(&here->pid) != (uint64_t)getpid())
		return;
	debug_check(!atomic_load(&here->busy));
	if (atomic_load(&here->locked))
		(void)fcntl(p->fd, F_OFD_SETLK, &lock);
	free_place(here);
}

static void name(char *names, size_t len, const struct presence_place *there)
{
	size_t n = strlen(names);
	const char *other = "";

	if (atomic_load(&there->pid_namespace) != process_pid_namespace())
		other = " of another PID namespace";
	snprintf(names + n, len - n, "%sprocess %llu%s", n ? ", " : "",
		 (unsigned long long)atomic_load(&there->pid), other);
}

uint32_t presence_count_busy(const struct presence *p, char *names, size_t len)
{
	uint64_t used = atomic_load(&p->page->used), pid, last = 0;
	struct presence_place *there;
	uint32_t n = 0;
	uint64_t i;

	if (used > PRESENCE_PLACES)
		used = PRESENCE_PLACES;
	for (i = 0; i < used; i++) {
		there = &p->page->places[i];
		pid = atomic_load(&there->pid);
		if (!pid || pid == BURYING || !atomic_load(&there->busy))
			continue;
		if (is_dead(p, (int)i)) {
			bury(p, (int)i, pid);
			continue;
		}
		n++;
		if (names && pid != last)
			name(names, len, there);
		last = pid;
	}
	return n;
}
