libweir_all_la_SOURCES += \
	%D%/buf-internal.h \
	%D%/buf.c \
	%D%/descriptor-mac.c \
	%D%/descriptor.c \
	%D%/descriptor.h \
	%D%/device-cpu.c \
	%D%/device-id.c \
	%D%/device-internal.h \
	%D%/device-rdma.c \
	%D%/device-soft.c \
	%D%/device-uring.c \
	%D%/device-verbs.h \
	%D%/device.c \
	%D%/dm-internal.h \
	%D%/dm-soft.c \
	%D%/dm.c \
	%D%/domain-file.c \
	%D%/domain-internal.h \
	%D%/domain-move.c \
	%D%/domain-process.c \
	%D%/domain-remote.c \
	%D%/domain-translate.c \
	%D%/domain-user.c \
	%D%/domain.c \
	%D%/export-client.c \
	%D%/export-control.c \
	%D%/export-import.c \
	%D%/export-internal.h \
	%D%/export-memfd.c \
	%D%/export-message.c \
	%D%/export-process.c \
	%D%/export-rdma.c \
	%D%/export-server.c \
	%D%/export-socket.c \
	%D%/export-watch.c \
	%D%/export.c \
	%D%/inventory.c \
	%D%/mmap-alloc.c \
	%D%/mmap-device.c \
	%D%/mmap-dmabuf.c \
	%D%/mmap-internal.h \
	%D%/mmap-keys.c \
	%D%/mmap-range.c \
	%D%/mmap-stop.c \
	%D%/mmap-use.c \
	%D%/mmap.c \
	%D%/pages.c \
	%D%/pages.h \
	%D%/pool-info.c \
	%D%/pool.c \
	%D%/segment-dump.c \
	%D%/segment-event.c \
	%D%/segment-external.c \
	%D%/segment-flags.c \
	%D%/segment-host.c \
	%D%/segment-internal.h \
	%D%/segment-phys.c \
	%D%/segment-size.c \
	%D%/segment-table.h \
	%D%/segment-walk.c \
	%D%/segment.c \
	%D%/sim-card-control.c \
	%D%/sim-card.c \
	%D%/sim-card.h \
	%D%/sim-memory.c \
	%D%/sim-memory.h \
	%D%/sim-peer.c \
	%D%/store-count.c \
	%D%/store-internal.h \
	%D%/store-move.c \
	%D%/store-room.c \
	%D%/store-slab.c \
	%D%/store-stats.c \
	%D%/store.c \
	%D%/tags.c \
	%D%/tags.h

if HAVE_VERBS
libweir_all_la_SOURCES += %D%/device-verbs.c %D%/mmap-verbs.c \
	%D%/mmap-window.c \
	%D%/mmap-window.h
endif

EXTRA_DIST += %D%/README.md
