weirinclude_HEADERS += \
	%D%/weir/base.h \
	%D%/weir/buf.h \
	%D%/weir/chain.h \
	%D%/weir/crc32c.h \
	%D%/weir/device.h \
	%D%/weir/dm.h \
	%D%/weir/dma.h \
	%D%/weir/domain.h \
	%D%/weir/export.h \
	%D%/weir/file.h \
	%D%/weir/host-glib.h \
	%D%/weir/host-libev.h \
	%D%/weir/host-libuv.h \
	%D%/weir/host-sd-event.h \
	%D%/weir/host.h \
	%D%/weir/inventory.h \
	%D%/weir/job.h \
	%D%/weir/mmap.h \
	%D%/weir/op.h \
	%D%/weir/pipeline.h \
	%D%/weir/pool.h \
	%D%/weir/reactor.h \
	%D%/weir/segment.h \
	%D%/weir/socket.h \
	%D%/weir/timer.h \
	%D%/weir/uring.h \
	%D%/weir/watch.h
