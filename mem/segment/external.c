/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * External memory, and its description for another process.
 *
 * weir_segment_share() passes on a sealed memfd with the description alone.
 * The receiver can rely on it not to change, but not on its contents.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "mem/segment/table.h"

#define MAGIC "weirext1"
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* The layout of the memfd; the IOVAs follow. */
struct record {
	char magic[8];
	uint64_t len;
	uint64_t page_size;
	uint64_t n_iovas;
};

static int check_range(const void *addr, size_t len, const char *call)
{
	if (addr && len && (uintptr_t)addr + len - 1 >= (uintptr_t)addr)
		return 0;
	return why(-EINVAL, "%s: no range: %zu bytes at %p", call, len, addr);
}

static int check_pages(const void *addr, size_t len, size_t page,
		       const char *call)
{
	int err = check_range(addr, len, call);

	if (err)
		return err;
	if (!page || (page & (page - 1)))
		return why(-EINVAL, "%s: a page size of %zu is no power of 2",
			   call, page);
	if ((uintptr_t)addr & (page - 1) || len & (page - 1))
		return why(-EINVAL, "%s: %zu bytes at %p are no whole pages of "
			   "%zu bytes", call, len, addr, page);
	return 0;
}

static struct iova_table *make_table(size_t n)
{
	struct iova_table *table;

	if (n > (SIZE_MAX - sizeof(*table)) / sizeof(table->iova[0]))
		return NULL;
	table = mem_calloc(1, sizeof(*table) + n * sizeof(table->iova[0]));
	if (!table)
		return NULL;
	atomic_init(&table->refs, 1);
	table->n = n;
	return table;
}

/* The last step, when .iova is filled in. */
static int finish_table(struct iova_table *table, size_t page, const char *call)
{
	size_t i;

	for (i = 0; i < table->n; i++)
		if (table->iova[i] > UINT64_MAX - page)
			return why(-EINVAL, "%s: the IOVA of page %zu is too "
				   "large", call, i);
	if (iova_table_index(table, page))
		return why(-ENOMEM, "%s: no memory to sort %zu IOVAs", call,
			   table->n);
	return 0;
}

static struct segment_list *make_list(void *addr, size_t len, size_t page,
				      struct iova_table *table, bool attached)
{
	struct segment_list *list = list_create(addr, len, page);

	if (!list)
		return NULL;
	list->attached = attached;
	list->writable = true;
	list->state = LIST_LIVE;
	list->iovas = table;
	list->whole.iova = table ? table->iova[0] : WEIR_SEGMENT_NO_IOVA;
	list->whole.flags |= WEIR_SEGMENT_EXTERNAL;
	if (attached)
		list->whole.flags |= WEIR_SEGMENT_IMPORTED;
	return list;
}

static int enter(struct segment_list *list, const char *call)
{
	struct segment_list *other;
	size_t i = 0;
	int err = 0;

	segments_lock();
	other = list_in(&i, list->first, list->last);
	if (other)
		err = why(-EEXIST, "%s: %zu bytes at %p overlap list %llu, "
			  "%zu bytes at %p", call, list->whole.len,
			  list->whole.addr,
			  (unsigned long long)other->whole.list,
			  other->whole.len, other->whole.addr);
	else if (segments.n_external >= WEIR_SEGMENT_EXTERNAL_MAX)
		err = why(-ENOSPC, "%s: there are %d lists of external memory, "
			  "and more cannot be", call,
			  WEIR_SEGMENT_EXTERNAL_MAX);
	if (!err)
		err = list_insert(list, call);
	segments_unlock();
	return err;
}

/* Takes over @table, which may be NULL. */
static int add(void *addr, size_t len, size_t page, struct iova_table *table,
	       bool attached, const char *call)
{
	struct segment_list *list;
	int err;

	list = make_list(addr, len, page, table, attached);
	if (!list) {
		iova_table_put(table);
		return why(-ENOMEM, "%s: no memory", call);
	}
	err = enter(list, call);
	if (!err)
		segment_tell_added(list);
	list_put(list);
	return err;
}

int weir_segment_register(void *addr, size_t len, const uint64_t *iova_table,
			  size_t n, size_t page_size)
{
	static const char call[] = "weir_segment_register";
	struct iova_table *table = NULL;
	int err = check_pages(addr, len, page_size, call);

	if (err)
		return err;
	if (iova_table) {
		if (n != len / page_size)
			return why(-EINVAL, "%s: %zu IOVAs for %zu pages", call,
				   n, len / page_size);
		table = make_table(n);
		if (!table)
			return why(-ENOMEM, "%s: no memory for %zu IOVAs", call,
				   n);
		memcpy(table->iova, iova_table, n * sizeof(*iova_table));
		err = finish_table(table, page_size, call);
	}
	if (err) {
		iova_table_put(table);
		return err;
	}
	return add(addr, len, page_size, table, false, call);
}

/* The external memory that begins at @addr and has this length, or NULL. */
static struct segment_list *find(const void *addr, size_t len)
{
	struct segment_list *list = list_at(addr);

	if (!list || !list_is_registered(list) || list->whole.addr != addr ||
	    list->whole.len != len)
		return NULL;
	return list;
}

static bool has_mmaps(const struct segment_list *ext)
{
	struct segment_list *list;
	size_t i = 0;

	while ((list = list_in(&i, ext->first, ext->last)))
		if (!list_is_registered(list))
			return true;
	return false;
}

static int refuse_busy(const struct segment_list *list, const char *call)
{
	if (list->whole.flags & WEIR_SEGMENT_DO_NOT_FREE)
		return why(-EBUSY, "%s: it is not to be freed; clear "
			   "WEIR_SEGMENT_DO_NOT_FREE of list %llu", call,
			   (unsigned long long)list->whole.list);
	if (list->state == LIST_LEAVING)
		return why(-EBUSY, "%s: it is being removed already", call);
	if (list->telling && !pthread_equal(list->teller, pthread_self()))
		return why(-EBUSY, "%s: another thread is adding it", call);
	if (has_mmaps(list))
		return why(-EBUSY, "%s: a started mmap lies in it; stop it "
			   "first", call);
	return 0;
}

static int drop(void *addr, size_t len, bool attached, const char *call)
{
	struct segment_list *list;
	int err = check_range(addr, len, call);

	if (err)
		return err;
	segments_lock();
	list = find(addr, len);
	if (!list)
		err = why(-ENOENT, "%s: no external memory of %zu bytes begins "
			  "at %p", call, len, addr);
	else if (list->attached != attached)
		err = why(-EPERM, "%s: it was %s", call, attached ?
			  "registered: use weir_segment_unregister()" :
			  "attached: use weir_segment_detach()");
	else
		err = refuse_busy(list, call);
	if (!err)
		list->state = LIST_LEAVING;
	segments_unlock();
	if (!err)
		segment_forget(list);
	return err;
}

int weir_segment_unregister(void *addr, size_t len)
{
	return drop(addr, len, false, "weir_segment_unregister");
}

int weir_segment_detach(void *addr, size_t len)
{
	return drop(addr, len, true, "weir_segment_detach");
}

static int write_all(int fd, const void *data, size_t len)
{
	const char *at = data;
	ssize_t n;

	while (len) {
		n = fault("write") ? (errno = ENOMEM, -1) : write(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int fill(int fd, const struct record *record,
		const struct iova_table *table)
{
	int err = write_all(fd, record, sizeof(*record));

	if (!err && table)
		err = write_all(fd, table->iova,
				table->n * sizeof(table->iova[0]));
	if (!err && (fault("fcntl") ? (errno = ENOMEM, -1) :
				      fcntl(fd, F_ADD_SEALS, SEALS)))
		err = -errno;
	return err;
}

static int make_memfd(int *ret, const struct record *record,
		      const struct iova_table *table)
{
	int fd, err;

	fd = fault("memfd_create") ? (errno = EMFILE, -1) :
	     memfd_create("weir external memory",
			  MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return why(-errno, "weir_segment_share: no memfd: %s",
			   strerror(errno));
	err = fill(fd, record, table);
	if (err) {
		close(fd);
		return why(err, "weir_segment_share: the memfd cannot be "
			   "written: %s", strerror(-err));
	}
	*ret = fd;
	return 0;
}

int weir_segment_share(int *ret, void *addr, size_t len)
{
	struct record record = { .magic = MAGIC, .len = len };
	struct iova_table *table = NULL;
	struct segment_list *list;
	int err = check_range(addr, len, "weir_segment_share");

	if (err)
		return err;
	segments_lock();
	list = find(addr, len);
	if (list) {
		record.page_size = list->whole.page_size;
		table = list->iovas;
	}
	if (table) {
		record.n_iovas = table->n;
		atomic_fetch_add(&table->refs, 1);
	}
	segments_unlock();
	if (!list)
		return why(-ENOENT, "weir_segment_share: no external memory of "
			   "%zu bytes begins at %p", len, addr);
	err = make_memfd(ret, &record, table);
	iova_table_put(table);
	return err;
}

static int not_ours(const char *what)
{
	return why(-EINVAL, "weir_segment_attach: fd is not from "
		   "weir_segment_share(): %s", what);
}

static ssize_t read_at(int fd, void *data, size_t len, off_t off)
{
	if (fault("pread")) {
		errno = EIO;
		return -1;
	}
	return pread(fd, data, len, off);
}

/* It is sealed, so its contents cannot change during the read. */
static int read_record(int fd, struct record *record)
{
	struct stat st;
	int seals = fault("fcntl") ? (errno = EBADF, -1) :
				     fcntl(fd, F_GET_SEALS);

	if (seals < 0 && errno == EBADF)
		return why(-EBADF, "weir_segment_attach: fd %d is not open",
			   fd);
	if (seals < 0 || (seals & SEALS) != SEALS)
		return not_ours("it is not sealed");
	if (fault("fstat") || fstat(fd, &st))
		return not_ours("no size");
	if (read_at(fd, record, sizeof(*record), 0) != sizeof(*record) ||
	    memcmp(record->magic, MAGIC, sizeof(record->magic)))
		return not_ours("another beginning");
	if (record->n_iovas > (SIZE_MAX >> 4) ||
	    (uint64_t)st.st_size != sizeof(*record) + 8 * record->n_iovas)
		return not_ours("another length");
	return 0;
}

static int read_table(struct iova_table **ret, int fd,
		      const struct record *record)
{
	struct iova_table *table;
	ssize_t want = (ssize_t)(8 * record->n_iovas);
	int err;

	if (!record->n_iovas)
		return 0;
	if (record->n_iovas != record->len / record->page_size)
		return not_ours("another number of pages");
	table = make_table(record->n_iovas);
	if (!table)
		return why(-ENOMEM, "weir_segment_attach: no memory");
	if (read_at(fd, table->iova, (size_t)want, sizeof(*record)) != want)
		err = not_ours("the IOVAs cannot be read");
	else
		err = finish_table(table, record->page_size,
				   "weir_segment_attach");
	if (err)
		iova_table_put(table);
	else
		*ret = table;
	return err;
}

int weir_segment_attach(void *addr, size_t len, int fd)
{
	static const char call[] = "weir_segment_attach";
	struct iova_table *table = NULL;
	struct record record;
	int err = check_range(addr, len, call);

	if (!err)
		err = read_record(fd, &record);
	if (err)
		return err;
	if (record.len != len)
		return why(-ENOENT, "%s: fd %d describes %llu bytes, not %zu: "
			   "the other process has not registered them", call,
			   fd, (unsigned long long)record.len, len);
	err = check_pages(addr, len, record.page_size, call);
	if (!err)
		err = read_table(&table, fd, &record);
	if (err)
		return err;
	return add(addr, len, record.page_size, table, true, call);
}
