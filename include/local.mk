weirinclude_HEADERS += \
	%D%/weir/alarm.h \
	%D%/weir/base.h \
	%D%/weir/buf.h \
	%D%/weir/call.h \
	%D%/weir/chain.h \
	%D%/weir/child.h \
	%D%/weir/conn.h \
	%D%/weir/crc32c.h \
	%D%/weir/device.h \
	%D%/weir/dm.h \
	%D%/weir/dma.h \
	%D%/weir/domain-user.h \
	%D%/weir/domain.h \
	%D%/weir/engine.h \
	%D%/weir/export.h \
	%D%/weir/file.h \
	%D%/weir/fs.h \
	%D%/weir/fswatch.h \
	%D%/weir/group.h \
	%D%/weir/host.h \
	%D%/weir/inventory.h \
	%D%/weir/job.h \
	%D%/weir/kind.h \
	%D%/weir/lease.h \
	%D%/weir/message.h \
	%D%/weir/mmap.h \
	%D%/weir/object.h \
	%D%/weir/op.h \
	%D%/weir/pipeline.h \
	%D%/weir/poll-hook.h \
	%D%/weir/pool.h \
	%D%/weir/provider.h \
	%D%/weir/reactor.h \
	%D%/weir/route.h \
	%D%/weir/segment-event.h \
	%D%/weir/segment.h \
	%D%/weir/shared-pool.h \
	%D%/weir/socket.h \
	%D%/weir/srq.h \
	%D%/weir/stats.h \
	%D%/weir/stream.h \
	%D%/weir/sync-remote.h \
	%D%/weir/sync.h \
	%D%/weir/timer.h \
	%D%/weir/udp.h \
	%D%/weir/uring.h \
	%D%/weir/watch.h

weirhostinclude_HEADERS += \
	%D%/weir/host/glib.h \
	%D%/weir/host/libev.h \
	%D%/weir/host/libuv.h \
	%D%/weir/host/sd-event.h

weiraccelinclude_HEADERS += \
	%D%/weir/accel/codec.h \
	%D%/weir/accel/crc.h \
	%D%/weir/accel/dif.h \
	%D%/weir/accel/kinds.h \
	%D%/weir/accel/xts.h

weircudainclude_HEADERS += \
	%D%/weir/cuda/device.h

weirsiminclude_HEADERS += \
	%D%/weir/sim/aim.h \
	%D%/weir/sim/file.h \
	%D%/weir/sim/host.h \
	%D%/weir/sim/libc.h \
	%D%/weir/sim/memory.h \
	%D%/weir/sim/runner.h \
	%D%/weir/sim/socket.h \
	%D%/weir/sim/world.h

weirresolveinclude_HEADERS += %D%/weir/resolve/resolve.h

# Also in a build without rdma-core: programs look for weir-rdma.pc.
rdma_headers = \
	%D%/weir/rdma/channel.h \
	%D%/weir/rdma/cm.h \
	%D%/weir/rdma/device.h \
	%D%/weir/rdma/export.h \
	%D%/weir/rdma/mw.h \
	%D%/weir/rdma/verbs-event.h
# Also in a build without OpenSSL.
tls_headers = %D%/weir/tls/tls.h
if HAVE_OPENSSL
weirtlsinclude_HEADERS += $(tls_headers)
endif
EXTRA_DIST += $(tls_headers)

# Also in a build without libfabric.
fabric_headers = \
	%D%/weir/fabric/device.h
if HAVE_LIBFABRIC
weirfabricinclude_HEADERS += $(fabric_headers)
else
EXTRA_DIST += $(fabric_headers)
endif

# Also in a build without these headers of Linux.
nvme_headers = \
	%D%/weir/nvme/nvme.h
if HAVE_NVME
weirnvmeinclude_HEADERS += $(nvme_headers)
else
EXTRA_DIST += $(nvme_headers)
endif
if HAVE_VERBS
weirrdmainclude_HEADERS += $(rdma_headers)
else
EXTRA_DIST += $(rdma_headers)
endif
