/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vhost-writer SOCKET: a front end of weir-vhost that writes blocks of 4 KiB, "block
 * 00000001" from 4096 on and so forth, and says the number of each when it is flushed.
 */

#include "tests/support/vhost-front.h"

#define BLOCK 4096u
#define NUM 16u
#define HEAD (FRONT_QUEUES * FRONT_RING_BYTES)
#define DATA (HEAD + 4096)
#define MEMORY (1u << 20)
#define WAIT_MS 60000

static void ask(struct front *f, uint32_t type, uint64_t sector, uint32_t len)
{
	struct front_queue *q = f->queues;
	struct vring_used_elem e;

	front_request(f, q, 0, type, sector, HEAD, DATA, len);
	front_kick(f, q);
	FRONT_MUST(front_wait(q, &e, WAIT_MS));
	FRONT_MUST(!f->mem[HEAD + sizeof(struct virtio_blk_outhdr)]);
}

int main(int argc, char **argv)
{
	struct front f;

	FRONT_MUST(argc == 2);
	front_memory(&f, MEMORY, false);
	while (!front_connect(&f, argv[1]))
		poll(NULL, 0, 10);
	front_hello(&f, 0);
	front_place(&f, f.queues, NUM, true);
	FRONT_MUST(!front_start(&f, f.queues));
	for (uint32_t i = 1;; i++) {
		memset(f.mem + DATA, 0, BLOCK);
		snprintf((char *)f.mem + DATA, BLOCK, "block %08u", i);
		ask(&f, VIRTIO_BLK_T_OUT, (uint64_t)i * BLOCK / SECTOR, BLOCK);
		ask(&f, VIRTIO_BLK_T_FLUSH, 0, 0);
		printf("%u\n", i);
		if (fflush(stdout))
			return 1;
	}
}
