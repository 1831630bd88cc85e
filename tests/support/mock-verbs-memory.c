/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's memory: of devices, and registered. */

#include "tests/support/mock-verbs-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNIT 64u
#define OPTIONAL (0x3ffu << 20)

#define DM_FLAGS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_ZERO_BASED | OPTIONAL)

#define MR_FLAGS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_MW_BIND | OPTIONAL)

#define HANDLES 256
static struct mock_memory *handles[HANDLES];
static size_t capacity = MOCK_DM_SIZE;

/* Device memory, by mlx5's rules. */

static size_t padded(size_t len)
{
	return (len + UNIT - 1) & ~(size_t)(UNIT - 1);
}

static int check_copy(const struct mock_dm *dm, uint64_t off, size_t len)
{
	if (off + len > dm->memory->len)
		return EFAULT;
	return (len & 3) || (off & 3) ? EINVAL : 0;
}

static int copy_to(struct ibv_dm *ibdm, uint64_t off, const void *src,
		   size_t len)
{
	struct mock_dm *dm = (struct mock_dm *)ibdm;
	int err = check_copy(dm, off, len);
	size_t i;
	uint32_t word;

	for (i = 0; !err && i < len; i += 4) {
		memcpy(&word, (const char *)src + i, 4);
		__atomic_store_n((uint32_t *)(dm->memory->bytes + off + i),
				 word, __ATOMIC_RELAXED);
	}
	return err;
}

static int copy_from(void *dst, struct ibv_dm *ibdm, uint64_t off, size_t len)
{
	struct mock_dm *dm = (struct mock_dm *)ibdm;
	int err = check_copy(dm, off, len);
	size_t i;
	uint32_t word;

	for (i = 0; !err && i < len; i += 4) {
		word = __atomic_load_n(
			(uint32_t *)(dm->memory->bytes + off + i),
			__ATOMIC_RELAXED);
		memcpy((char *)dst + i, &word, 4);
	}
	return err;
}

/* Behind a file, that a dma-buf of it is the same memory. */
static struct mock_memory *new_memory(size_t len)
{
	struct mock_memory *memory = calloc(1, sizeof(*memory));

	memory->len = len;
	memory->fd = memfd_create("mock-dm", MFD_CLOEXEC);
	if (memory->fd < 0 || ftruncate(memory->fd, (off_t)padded(len)))
		abort();
	memory->bytes = mmap(NULL, padded(len), PROT_READ | PROT_WRITE,
			     MAP_SHARED, memory->fd, 0);
	if (memory->bytes == MAP_FAILED)
		abort();
	return memory;
}

static struct ibv_dm *new_dm(struct ibv_context *ctx, uint32_t handle)
{
	struct mock_dm *dm = calloc(1, sizeof(*dm));

	dm->memory = handles[handle];
	dm->memory->refs++;
	dm->dm.context = ctx;
	dm->dm.handle = handle;
	dm->dm.comp_mask = IBV_DM_MASK_HANDLE;
	dm->dm.memcpy_to_dm = copy_to;
	dm->dm.memcpy_from_dm = copy_from;
	/* What malloc() had there. */
	if (mock_model_of(ctx) == MOCK_MANA)
		memset(&dm->dm.memcpy_to_dm, 0xa5,
		       2 * sizeof(dm->dm.memcpy_to_dm));
	return &dm->dm;
}

static struct ibv_dm *alloc_dm(struct ibv_context *ctx,
			       struct ibv_alloc_dm_attr *attr)
{
	struct mock_memory *memory;
	uint32_t h = 0;

	if (attr->comp_mask || attr->length > MOCK_DM_SIZE || !attr->length ||
	    attr->log_align_req > 12)
		return mock_fail(EINVAL);
	while (h < HANDLES && handles[h])
		h++;
	if (h == HANDLES || padded(attr->length) > capacity)
		return mock_fail(ENOMEM);
	memory = new_memory(attr->length);
	capacity -= padded(attr->length);
	handles[h] = memory;
	mock_self.dms++;
	return new_dm(ctx, h);
}

static void put_memory(struct mock_dm *dm)
{
	struct mock_memory *memory = dm->memory;

	free(dm);
	if (--memory->refs)
		return;
	capacity += padded(memory->len);
	munmap(memory->bytes, padded(memory->len));
	close(memory->fd);
	free(memory);
}

static int free_dm(struct ibv_dm *ibdm)
{
	struct mock_dm *dm = (struct mock_dm *)ibdm;

	if (dm->memory->mrs)
		return EBUSY;
	handles[ibdm->handle] = NULL;
	put_memory(dm);
	mock_self.dms--;
	return 0;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *ctx, uint32_t handle)
{
	if (mock_model_of(ctx) != MOCK_MLX5)
		return mock_fail(EOPNOTSUPP);
	if (handle >= HANDLES || !handles[handle])
		return mock_fail(ENOENT);
	mock_self.imports++;
	return new_dm(ctx, handle);
}

void ibv_unimport_dm(struct ibv_dm *ibdm)
{
	mock_self.imports--;
	put_memory((struct mock_dm *)ibdm);
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	int err = mock_model_of(dm->context) != MOCK_MLX5 ?
			  EOPNOTSUPP :
			  mock_self.dmabuf_errno;

	if (!err)
		return fcntl(((struct mock_dm *)dm)->memory->fd,
			     F_DUPFD_CLOEXEC, 0);
	errno = err;
	return -1;
}

/* Memory regions, by the rules of B2.1. */

static bool is_allowed(unsigned int access, unsigned int known)
{
	bool writes =
		access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	return !(access & ~known) &&
	       (!writes || (access & IBV_ACCESS_LOCAL_WRITE));
}

static struct mock_mr *new_mr(struct ibv_pd *pd, size_t len,
			      unsigned int access, char *bytes, uint64_t iova)
{
	struct mock_mr *mr = calloc(1, sizeof(*mr));
	uint32_t key;

	mock_lock();
	key = mock_key_new(mr, NULL);
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.length = len;
	mr->mr.lkey = key;
	mr->mr.rkey = key + MOCK_RKEY;
	mr->access = access;
	mr->bytes = bytes;
	mr->iova = iova;
	((struct mock_pd *)pd)->children++;
	mock_self.mrs++;
	mock_self.unsafe += !mock_self.fork_inits;
	mock_self.access = access;
	mock_self.len = len;
	mock_self.registrations++;
	mock_unlock();
	return mr;
}

/* Whether the process could do @access itself, page by page. */
static bool is_mapped(const char *addr, size_t len, unsigned int access)
{
	uintptr_t at = (uintptr_t)addr, end = at + len, from, to;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], prot[5];

	while (at < end && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s", &from, &to, prot) == 3 &&
		    from <= at && at < to && prot[0] == 'r' &&
		    (prot[1] == 'w' || !(access & IBV_ACCESS_LOCAL_WRITE)))
			at = to;
	fclose(f);
	return at >= end;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len,
				uint64_t iova, unsigned int access)
{
	struct mock_mr *mr;

	if (!len || (uintptr_t)addr + len < (uintptr_t)addr ||
	    !is_allowed(access, MR_FLAGS))
		return mock_fail(EINVAL);
	if (len > mock_self.memlock)
		return mock_fail(ENOMEM);
	if (!is_mapped(addr, len, access))
		return mock_fail(EFAULT);
	mock_self.iova = iova;
	mr = new_mr(pd, len, access, addr, iova);
	mr->mr.addr = addr;
	return &mr->mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr,
				(unsigned int)access);
}

/* A dma-buf that the CPU cannot have is never reached, then. */
static void map_dmabuf(struct mock_mr *mr, uint64_t off, int fd)
{
	uint64_t within = off & 4095;

	mr->mapped_len = mr->mr.length + within;
	mr->mapped = mmap(NULL, mr->mapped_len, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, (off_t)(off - within));
	if (mr->mapped == MAP_FAILED)
		mr->mapped = NULL;
	else
		mr->bytes = (char *)mr->mapped + within;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t off, size_t len,
				 uint64_t iova, int fd, int access)
{
	struct mock_mr *mr;

	if (mock_model_of(pd->context) == MOCK_RXE)
		return mock_fail(EOPNOTSUPP);
	if (fcntl(fd, F_GETFD) < 0)
		return mock_fail(EBADF);
	if (!len || (off & 4095) != (iova & 4095) ||
	    !is_allowed((unsigned int)access, MR_FLAGS))
		return mock_fail(EINVAL);
	mock_self.off = off;
	mock_self.iova = iova;
	mock_self.fd = fd;
	mr = new_mr(pd, len, (unsigned int)access, NULL, iova);
	map_dmabuf(mr, off, fd);
	return &mr->mr;
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm,
				uint64_t off, size_t len, unsigned int access)
{
	struct mock_dm *dm = (struct mock_dm *)ibdm;
	struct mock_mr *mr;

	if (!(access & IBV_ACCESS_ZERO_BASED) ||
	    !is_allowed(access, DM_FLAGS) || off > dm->memory->len ||
	    len > dm->memory->len - off || ibdm->context != pd->context)
		return mock_fail(EINVAL);
	mock_self.off = off;
	mr = new_mr(pd, len, access, dm->memory->bytes + off, 0);
	mr->memory = dm->memory;
	mr->memory->mrs++;
	return &mr->mr;
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct mock_mr *mr = (struct mock_mr *)ibmr;

	mock_lock();
	if (mock_self.bound || mr->windows) {
		mock_unlock();
		return EBUSY;
	}
	mock_key_free(ibmr->lkey);
	if (mr->memory)
		mr->memory->mrs--;
	if (mr->mapped)
		munmap(mr->mapped, mr->mapped_len);
	((struct mock_pd *)ibmr->pd)->children--;
	mock_self.mrs--;
	free(mr);
	mock_unlock();
	return 0;
}

void mock_memory_ops(struct verbs_context *ctx)
{
	ctx->alloc_dm = alloc_dm;
	ctx->free_dm = free_dm;
	ctx->reg_dm_mr = reg_dm_mr;
}
