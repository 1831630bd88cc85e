# libweir-rdma: what needs rdma-core.
if HAVE_VERBS
librdma_la_SOURCES += \
	%D%/channel-failed.c \
	%D%/channel-internal.h \
	%D%/channel.c \
	%D%/cm-dispatcher.c \
	%D%/cm.c \
	%D%/conn-accept.c \
	%D%/conn-connect.c \
	%D%/conn-device.c \
	%D%/conn-end.c \
	%D%/conn-event.c \
	%D%/conn-internal.h \
	%D%/conn-listen.c \
	%D%/conn-qp.c \
	%D%/conn-watch.c \
	%D%/conn.c \
	%D%/device-caps.c \
	%D%/device-id.c \
	%D%/device.c \
	%D%/device.h \
	%D%/engine-atomic.c \
	%D%/engine-key.c \
	%D%/engine-post.c \
	%D%/engine-request.c \
	%D%/engine-split.c \
	%D%/engine.c \
	%D%/engine.h \
	%D%/export.c \
	%D%/export.h \
	%D%/message-queued.c \
	%D%/message.c \
	%D%/mmap-mw.c \
	%D%/mmap-mw.h \
	%D%/mw.c \
	%D%/provider.c \
	%D%/srq-device.c \
	%D%/srq-fill.c \
	%D%/srq-internal.h \
	%D%/srq-member.c \
	%D%/srq.c \
	%D%/sysfs.c \
	%D%/verbs-event.c \
	%D%/verbs-fd.c \
	%D%/verbs-fd.h
endif
