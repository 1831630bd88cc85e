/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_NVME_H
#define TESTS_MOCK_NVME_H

/*
 * An NVMe namespace in memory.  It takes the place of ioctl(2) for one file, which the
 * tests name in WEIR_NVME_DEVICES; workers call it.  It checks of each command what a
 * device checks.
 */

#include <stdbool.h>
#include <stdint.h>

#define MOCK_NVME_BYTES (4u << 20)
#define MOCK_NVME_DNR 0x4000

struct mock_nvme_opts {
	uint32_t block_size;	/* 0: 512 */
	uint32_t metadata_size;
	bool has_pi;
	uint16_t oncs;		/* Which optional commands it has. */
	uint8_t mdts;
	int identify_err;	/* errno of Identify. */
};

/* What the next commands of an opcode come to. */
struct mock_nvme_fault {
	uint8_t opcode;
	uint64_t slba;		/* Those that have this block. */
	unsigned int times;
	int res;		/* A status, or a negative errno. */
};

/* The file at @path becomes a namespace of zeros; ends with mock_nvme_close(). */
void mock_nvme_open(const char *path, const struct mock_nvme_opts *opts);
void mock_nvme_close(void);

void mock_nvme_fail(const struct mock_nvme_fault *fault);

/* Commands wait until they are let go. */
void mock_nvme_hold(bool hold);

/* Commands of an opcode so far, and those that wait; the most bytes of one. */
unsigned int mock_nvme_count(uint8_t opcode);
unsigned int mock_nvme_waiting(void);
uint32_t mock_nvme_largest(void);

/* The bytes. */
char *mock_nvme_bytes(void);

#endif /* TESTS_MOCK_NVME_H */
