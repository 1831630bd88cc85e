/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Requests to a disk, as virtio has them: 16 bytes that say what is wanted, the
 * data, and a byte for the status.  How they are spread over descriptors is the
 * guest's choice, so a list of pieces is cut at both ends.  The guest's memory
 * is what the disk reads from and writes to.
 */
#include <errno.h>
#include <endian.h>

#include "weir-vhost.h"

#define ID_BYTES VIRTIO_BLK_ID_BYTES

bool device_has(const struct device *dev, unsigned int feature)
{
	return dev->features & BIT(feature);
}

uint64_t blk_features(const struct device *dev)
{
	uint64_t f = BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_RING_F_EVENT_IDX) |
		     BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VHOST_F_LOG_ALL) |
		     BIT(VHOST_USER_F_PROTOCOL_FEATURES) |
		     BIT(VIRTIO_BLK_F_SEG_MAX) | BIT(VIRTIO_BLK_F_SIZE_MAX) |
		     BIT(VIRTIO_BLK_F_BLK_SIZE) | BIT(VIRTIO_BLK_F_TOPOLOGY) |
		     BIT(VIRTIO_BLK_F_MQ);
	uint32_t can = dev->block.can;

	if (can & BLOCK_CAN_FLUSH)
		f |= BIT(VIRTIO_BLK_F_FLUSH) | BIT(VIRTIO_BLK_F_CONFIG_WCE);
	if (can & BLOCK_CAN_TRIM)
		f |= BIT(VIRTIO_BLK_F_DISCARD);
	if (can & BLOCK_CAN_ZERO)
		f |= BIT(VIRTIO_BLK_F_WRITE_ZEROES);
	if (!(can & BLOCK_CAN_WRITE))
		f |= BIT(VIRTIO_BLK_F_RO);
	return f;
}

static uint32_t block_size(const struct device *dev)
{
	uint32_t min = dev->block.block_min;

	return min < SECTOR ? SECTOR : min;
}

void blk_config(const struct device *dev, struct virtio_blk_config *ret)
{
	uint32_t size = block_size(dev);

	memset(ret, 0, sizeof(*ret));
	ret->capacity = htole64(dev->block.size / size * (size / SECTOR));
	ret->size_max = htole32(REQUEST_BYTES);
	ret->seg_max = htole32(SEG_MAX);
	ret->blk_size = htole32(size);
	ret->min_io_size = htole16(1);
	ret->wce = dev->writeback;
	ret->num_queues = htole16((uint16_t)dev->opts.queues);
	ret->max_discard_sectors = htole32(ZEROES_MAX);
	ret->max_discard_seg = htole32(1);
	ret->discard_sector_alignment = htole32(size / SECTOR);
	ret->max_write_zeroes_sectors = htole32(ZEROES_MAX);
	ret->max_write_zeroes_seg = htole32(1);
	ret->write_zeroes_may_unmap = 1;
}

/* A guest that cannot flush expects that its writes are durable. */
bool blk_is_writethrough(const struct device *dev)
{
	if (device_has(dev, VIRTIO_BLK_F_CONFIG_WCE))
		return !dev->writeback;
	return dev->block.can & BLOCK_CAN_FLUSH &&
	       !device_has(dev, VIRTIO_BLK_F_FLUSH);
}

/* Take @len bytes from the front of *@n pieces, to @to.  Returns whether there
 * were so many. */
static bool take(struct iovec **iov, uint32_t *n, void *to, size_t len)
{
	uint8_t *p = to;

	while (len) {
		struct iovec *v = *iov;
		size_t here;

		if (!*n)
			return false;
		here = v->iov_len < len ? v->iov_len : len;
		memcpy(p, v->iov_base, here);
		p += here;
		len -= here;
		v->iov_base = (uint8_t *)v->iov_base + here;
		v->iov_len -= here;
		if (!v->iov_len) {
			++*iov;
			--*n;
		}
	}
	return true;
}

/* The last byte that the guest has left for us. */
static void take_status(struct request *rq)
{
	struct iovec *v;

	rq->status = NULL;
	if (!rq->n_in)
		return;
	v = &rq->pieces[rq->n_out + rq->n_in - 1];
	v->iov_len--;
	rq->status = (uint8_t *)v->iov_base + v->iov_len;
	if (!v->iov_len)
		rq->n_in--;
}

static uint64_t bytes(const struct iovec *iov, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

static void count(struct counts *c, const struct block_io *io)
{
	switch (io->kind) {
	case BLOCK_READ:
		c->reads++;
		c->read += io->len;
		break;
	case BLOCK_WRITE:
		c->writes++;
		c->written += io->len;
		break;
	case BLOCK_FLUSH:
		c->flushes++;
		break;
	case BLOCK_TRIM:
		c->trims++;
		break;
	default:
		c->zeroes++;
		break;
	}
}

static uint8_t status_of(int64_t res)
{
	if (res >= 0)
		return VIRTIO_BLK_S_OK;
	return res == -EOPNOTSUPP ? VIRTIO_BLK_S_UNSUPP : VIRTIO_BLK_S_IOERR;
}

/* @n bytes were written for the guest, and the status is. */
static void end(struct request *rq, int64_t res, uint64_t n)
{
	if (res < 0)
		rq->ring->dev->counts.errors++;
	rq->used_len = res < 0 ? 0 : (uint32_t)n;
	if (rq->status) {
		*(volatile uint8_t *)rq->status = status_of(res);
		rq->used_len++;
	}
	request_done(rq);
}

void blk_on_io(struct block_io *io, int64_t res)
{
	struct request *rq = weir_container_of(io, struct request, io);

	end(rq, res, io->kind == BLOCK_READ ? io->len : 0);
}

static int64_t submit(struct request *rq, uint8_t kind, uint8_t flags,
		      uint64_t off, uint64_t len)
{
	const struct block *b = &rq->ring->dev->block;
	struct block_io *io = &rq->io;

	if (kind != BLOCK_FLUSH &&
	    (off > b->size || len > b->size - off || !len ||
	     (off | len) & (b->block_min - 1)))
		return -EINVAL;
	io->kind = kind;
	io->flags = flags;
	if (blk_is_writethrough(rq->ring->dev))
		io->flags |= BLOCK_FUA;
	io->off = off;
	io->len = len;
	count(&rq->ring->dev->counts, io);
	return block_submit(io);
}

/* Of what is read or written; a sector may be beyond what has a place. */
static int64_t move(struct request *rq, uint8_t kind, uint64_t sector,
		    struct iovec *iov, uint32_t n)
{
	uint64_t len = bytes(iov, n);

	if (sector > UINT64_MAX / SECTOR || len % SECTOR || len > REQUEST_BYTES)
		return -EINVAL;
	rq->io.iov = iov;
	rq->io.n_iov = n;
	return submit(rq, kind, 0, sector * SECTOR, len);
}

static int64_t clear(struct request *rq, uint8_t kind, struct iovec *iov,
		     uint32_t n)
{
	struct virtio_blk_discard_write_zeroes d;
	bool unmap;

	if (bytes(iov, n) != sizeof(d))
		return -EINVAL;
	take(&iov, &n, &d, sizeof(d));
	unmap = d.flags & htole32(VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP);
	if (d.flags & ~htole32(VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP) ||
	    (kind == BLOCK_TRIM && unmap))
		return -EOPNOTSUPP;
	if (le64toh(d.sector) > UINT64_MAX / SECTOR ||
	    le32toh(d.num_sectors) > ZEROES_MAX)
		return -EINVAL;
	return submit(rq, kind, kind == BLOCK_ZERO && !unmap ? BLOCK_NO_HOLE : 0,
		      le64toh(d.sector) * SECTOR,
		      (uint64_t)le32toh(d.num_sectors) * SECTOR);
}

/* What the disk is called.  Returns how many bytes that took. */
static uint64_t put_id(const struct request *rq, struct iovec *iov, uint32_t n)
{
	const struct device *dev = rq->ring->dev;
	const char *title = block_title(&dev->block);
	const char *slash = strrchr(title, '/');
	char id[ID_BYTES] = { 0 };
	uint64_t done = 0;

	if (*dev->block.name)
		title = dev->block.name;
	else if (slash)
		title = slash + 1;
	memcpy(id, title, strnlen(title, sizeof(id)));
	for (uint32_t i = 0; i < n && done < sizeof(id); i++) {
		uint64_t here = sizeof(id) - done;

		if (here > iov[i].iov_len)
			here = iov[i].iov_len;
		memcpy(iov[i].iov_base, id + done, here);
		done += here;
	}
	return done;
}

static bool can(const struct request *rq, uint8_t kind)
{
	return rq->ring->dev->block.can & block_needs(kind);
}

/* *@n bytes are written at once, if the request is done at once. */
static int64_t begin(struct request *rq, uint64_t *n)
{
	struct virtio_blk_outhdr head;
	struct iovec *out = rq->pieces, *in = rq->pieces + rq->n_out;
	uint32_t n_out = rq->n_out;

	if (!take(&out, &n_out, &head, sizeof(head)) || !rq->status)
		return -EINVAL;
	switch (le32toh(head.type)) {
	case VIRTIO_BLK_T_IN:
		*n = bytes(in, rq->n_in);
		return move(rq, BLOCK_READ, le64toh(head.sector), in, rq->n_in);
	case VIRTIO_BLK_T_OUT:
		if (!can(rq, BLOCK_WRITE))
			return -EROFS;
		return move(rq, BLOCK_WRITE, le64toh(head.sector), out, n_out);
	case VIRTIO_BLK_T_FLUSH:
		return can(rq, BLOCK_FLUSH) ? submit(rq, BLOCK_FLUSH, 0, 0, 0) :
					      -EOPNOTSUPP;
	case VIRTIO_BLK_T_DISCARD:
		return can(rq, BLOCK_TRIM) ?
		       clear(rq, BLOCK_TRIM, out, n_out) : -EOPNOTSUPP;
	case VIRTIO_BLK_T_WRITE_ZEROES:
		return can(rq, BLOCK_ZERO) ?
		       clear(rq, BLOCK_ZERO, out, n_out) : -EOPNOTSUPP;
	case VIRTIO_BLK_T_GET_ID:
		rq->ring->dev->counts.others++;
		*n = put_id(rq, in, rq->n_in);
		return 0;
	default:
		rq->ring->dev->counts.others++;
		return -EOPNOTSUPP;
	}
}

void request_begin(struct request *rq)
{
	uint64_t n = 0;
	int64_t res;

	take_status(rq);
	res = begin(rq, &n);
	if (res != BLOCK_LATER)
		end(rq, res, n);
}
