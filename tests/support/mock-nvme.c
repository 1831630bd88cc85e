/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/mock-nvme.h"

#include <endian.h>
#include <errno.h>
#include <linux/nvme_ioctl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <weir/base.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct mock_nvme_opts mock;
static struct mock_nvme_fault fault;
static struct stat file;	/* .st_ino is 0: there is none. */
static char *bytes;
static uint32_t tags[MOCK_NVME_BYTES / 512]; /* Of protection information. */
static bool held;
static unsigned int counts[256], waiting;
static uint32_t largest;

void mock_nvme_open(const char *path, const struct mock_nvme_opts *opts)
{
	pthread_mutex_lock(&lock);
	mock = *opts;
	if (!mock.block_size)
		mock.block_size = 512;
	memset(&fault, 0, sizeof(fault));
	memset(counts, 0, sizeof(counts));
	memset(tags, 0xff, sizeof(tags));
	held = false;
	waiting = largest = 0;
	bytes = calloc(1, MOCK_NVME_BYTES);
	if (!bytes || stat(path, &file))
		abort();
	pthread_mutex_unlock(&lock);
}

void mock_nvme_close(void)
{
	pthread_mutex_lock(&lock);
	memset(&file, 0, sizeof(file));
	free(bytes);
	bytes = NULL;
	pthread_mutex_unlock(&lock);
}

void mock_nvme_fail(const struct mock_nvme_fault *next)
{
	pthread_mutex_lock(&lock);
	fault = *next;
	pthread_mutex_unlock(&lock);
}

void mock_nvme_hold(bool hold)
{
	pthread_mutex_lock(&lock);
	held = hold;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
}

unsigned int mock_nvme_count(uint8_t opcode)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = counts[opcode];
	pthread_mutex_unlock(&lock);
	return n;
}

unsigned int mock_nvme_waiting(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = waiting;
	pthread_mutex_unlock(&lock);
	return n;
}

uint32_t mock_nvme_largest(void)
{
	return largest;
}

char *mock_nvme_bytes(void)
{
	return bytes;
}

/* Admin. */

static void put16(uint8_t *at, uint16_t n)
{
	n = htole16(n);
	memcpy(at, &n, sizeof(n));
}

static void put64(uint8_t *at, uint64_t n)
{
	n = htole64(n);
	memcpy(at, &n, sizeof(n));
}

static void identify_controller(uint8_t *page)
{
	memset(page + 4, ' ', 68);
	memcpy(page + 4, "serial", 6);
	memcpy(page + 24, "mock", 4);
	memcpy(page + 64, "1.0", 3);
	page[77] = mock.mdts;
	put16(page + 520, mock.oncs);
	page[525] = 1;
}

static void identify_namespace(uint8_t *page)
{
	put64(page, MOCK_NVME_BYTES / mock.block_size);
	page[26] = 1;
	page[29] = mock.has_pi;
	put16(page + 74, 8);
	put16(page + 76, 64);
	put16(page + 132, (uint16_t)mock.metadata_size);
	while (1u << page[134] != mock.block_size)
		page[134]++;
}

static int admin(const struct nvme_passthru_cmd64 *c)
{
	uint8_t *page = (uint8_t *)(uintptr_t)c->addr;

	if (c->opcode != 0x06 || c->data_len != 4096)
		return 1 | MOCK_NVME_DNR;
	if (mock.identify_err) {
		errno = mock.identify_err;
		return -1;
	}
	memset(page, 0, 4096);
	if (c->cdw10 == 1)
		identify_controller(page);
	else if (!c->cdw10 && c->nsid == 7)
		identify_namespace(page);
	else
		return 0xb | MOCK_NVME_DNR;
	return 0;
}

/* I/O. */

/* Between @at, of @len bytes, and the command's memory. */
static int move(const struct nvme_passthru_cmd64 *c, bool vec, char *at,
		uint64_t len)
{
	struct iovec one = { (void *)(uintptr_t)c->addr, c->data_len };
	const struct iovec *iov = vec ? (void *)(uintptr_t)c->addr : &one;
	uint32_t n = vec ? c->vec_cnt : 1, i;
	uint64_t sum = 0;

	for (i = 0; i < n; i++)
		sum += iov[i].iov_len;
	if (sum != len)
		return 2 | MOCK_NVME_DNR;
	if (sum > largest)
		largest = (uint32_t)sum;
	for (i = 0; i < n; at += iov[i++].iov_len) {
		if (c->opcode == 2)
			memcpy(iov[i].iov_base, at, iov[i].iov_len);
		else if (c->opcode == 1)
			memcpy(at, iov[i].iov_base, iov[i].iov_len);
		else if (memcmp(at, iov[i].iov_base, iov[i].iov_len))
			return 0x285 | MOCK_NVME_DNR;
	}
	return 0;
}

/* A Copy command's one range, and that of a deallocation. */
static int copy_range(const struct nvme_passthru_cmd64 *c, char *to, uint64_t left)
{
	const uint8_t *range = (const uint8_t *)(uintptr_t)c->addr;
	uint64_t slba, len;
	uint16_t nlb;

	memcpy(&slba, range + 8, sizeof(slba));
	memcpy(&nlb, range + 16, sizeof(nlb));
	len = (nlb + UINT64_C(1)) * mock.block_size;
	if (nlb >= 8)
		return 0x183 | MOCK_NVME_DNR;
	if (slba * mock.block_size + len > MOCK_NVME_BYTES || len > left)
		return 0x80 | MOCK_NVME_DNR;
	memmove(to, bytes + slba * mock.block_size, len);
	return 0;
}

static int deallocate(const struct nvme_passthru_cmd64 *c)
{
	const uint8_t *range = (const uint8_t *)(uintptr_t)c->addr;
	uint32_t nlb;
	uint64_t slba;

	memcpy(&nlb, range + 4, sizeof(nlb));
	memcpy(&slba, range + 8, sizeof(slba));
	if (slba + nlb > MOCK_NVME_BYTES / mock.block_size)
		return 0x80 | MOCK_NVME_DNR;
	memset(bytes + slba * mock.block_size, 0, (uint64_t)nlb * mock.block_size);
	return 0;
}

/* Type 1.  The device makes and strips it; the tags of blocks that were never written
 * are not checked. */
static int protect(const struct nvme_passthru_cmd64 *c, uint64_t slba,
		   uint64_t nlb)
{
	bool checks = c->cdw12 & 1u << 26;
	uint64_t i;

	if (!(c->cdw12 & 1u << 29) || (checks && c->cdw14 != (uint32_t)slba))
		return 0x181 | MOCK_NVME_DNR;
	for (i = 0; i < nlb; i++) {
		if (c->opcode == 1 || c->opcode == 8)
			tags[slba + i] = c->cdw14 + (uint32_t)i;
		else if (checks && ~tags[slba + i] &&
			 tags[slba + i] != c->cdw14 + i)
			return 0x284 | MOCK_NVME_DNR;
	}
	return 0;
}

static bool is_faulty(const struct nvme_passthru_cmd64 *c, uint64_t slba,
		      uint64_t nlb)
{
	if (!fault.times || c->opcode != fault.opcode || fault.slba < slba ||
	    fault.slba >= slba + nlb)
		return false;
	fault.times--;
	return true;
}

static int io(struct nvme_passthru_cmd64 *c, bool vec)
{
	uint64_t slba = c->cdw10 | (uint64_t)c->cdw11 << 32;
	uint64_t nlb = c->opcode == 0x19 ? 1 : (c->cdw12 & 0xffff) + 1;
	uint64_t len = nlb * mock.block_size;
	int res;

	counts[c->opcode]++;
	c->result = 100u + c->opcode;
	if (is_faulty(c, slba, nlb)) {
		errno = -fault.res;
		return fault.res < 0 ? -1 : fault.res;
	}
	if (c->nsid != 7)
		return 0xb | MOCK_NVME_DNR;
	if (c->opcode == 0)
		return 0;
	if (c->opcode == 9)
		return deallocate(c);
	if (slba + nlb > MOCK_NVME_BYTES / mock.block_size)
		return 0x80 | MOCK_NVME_DNR;
	res = mock.has_pi ? protect(c, slba, nlb) : 0;
	if (res)
		return res;
	switch (c->opcode) {
	case 1:
	case 2:
	case 5:
		return move(c, vec, bytes + slba * mock.block_size, len);
	case 8:
		memset(bytes + slba * mock.block_size, 0, len);
		return 0;
	case 0x19:
		return copy_range(c, bytes + slba * mock.block_size,
				  MOCK_NVME_BYTES - slba * mock.block_size);
	default:
		return 1 | MOCK_NVME_DNR;
	}
}

static int answer(unsigned long request, void *arg)
{
	struct nvme_passthru_cmd64 c;
	int res;

	switch (request) {
	case NVME_IOCTL_ID:
		return 7;
	case NVME_IOCTL_ADMIN_CMD:
		/* Its result has 32 bits. */
		memset(&c, 0, sizeof(c));
		memcpy(&c, arg, offsetof(struct nvme_passthru_cmd, result));
		return admin(&c);
	case NVME_IOCTL_ADMIN64_CMD:
		return admin(arg);
	case NVME_IOCTL_IO64_CMD:
	case NVME_IOCTL_IO64_CMD_VEC:
		waiting++;
		while (held)
			pthread_cond_wait(&change, &lock);
		waiting--;
		res = io(arg, request == NVME_IOCTL_IO64_CMD_VEC);
		return res;
	default:
		errno = ENOTTY;
		return -1;
	}
}

/* In the place of libc's, for the libraries too. */
WEIR_API int ioctl(int fd, unsigned long request, ...)
{
	struct stat st;
	va_list ap;
	void *arg;
	int res;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	pthread_mutex_lock(&lock);
	if (!file.st_ino || fstat(fd, &st) || st.st_ino != file.st_ino ||
	    st.st_dev != file.st_dev) {
		pthread_mutex_unlock(&lock);
		return (int)syscall(SYS_ioctl, fd, request, arg);
	}
	res = answer(request, arg);
	pthread_mutex_unlock(&lock);
	return res;
}
