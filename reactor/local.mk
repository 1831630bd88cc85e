libcore_la_SOURCES += \
	%D%/acceptor.c \
	%D%/alarm.c \
	%D%/backend.h \
	%D%/cached.c \
	%D%/cached.h \
	%D%/child.c \
	%D%/group/call.c \
	%D%/group/deferred.c \
	%D%/group/deferred.h \
	%D%/event.c \
	%D%/file.c \
	%D%/fs.c \
	%D%/fswatch.c \
	%D%/group/core.c \
	%D%/group/cpu.c \
	%D%/group/load.c \
	%D%/group/group.c \
	%D%/group/group.h \
	%D%/host.c \
	%D%/io-kinds.h \
	%D%/io-sync.c \
	%D%/io.c \
	%D%/io.h \
	%D%/group/spsc-inline.h \
	%D%/group/spsc.c \
	%D%/group/spsc.h \
	%D%/poll-hook.c \
	%D%/group/mailbox.c \
	%D%/group/mailbox.h \
	%D%/object.c \
	%D%/object-user.c \
	%D%/op-inline.h \
	%D%/op-internal.h \
	%D%/op-user.c \
	%D%/op.c \
	%D%/poller.c \
	%D%/reactor-internal.h \
	%D%/reactor.c \
	%D%/receiver.c \
	%D%/rx.c \
	%D%/rx.h \
	%D%/signal.c \
	%D%/socket.c \
	%D%/source.c \
	%D%/splice.c \
	%D%/stream.c \
	%D%/source.h \
	%D%/spin.h \
	%D%/stats/ask.c \
	%D%/stats/layout.h \
	%D%/stats/list.c \
	%D%/stats/page-internal.h \
	%D%/stats/page.c \
	%D%/stats/page.h \
	%D%/stats/place.h \
	%D%/stats/publish.c \
	%D%/stats/publish.h \
	%D%/stats/read.c \
	%D%/stats/read.h \
	%D%/timer.c \
	%D%/turn.c \
	%D%/udp.c \
	%D%/uring/entry.c \
	%D%/uring/fill.c \
	%D%/uring/rx.c \
	%D%/uring/probe.c \
	%D%/uring/setup.c \
	%D%/uring/source.c \
	%D%/uring/uring.c \
	%D%/uring/uring.h \
	%D%/wait.c \
	%D%/watch.c \
	%D%/wheel.c \
	%D%/wheel.h \
	%D%/worker.c


if HAVE_LIBEV
libcore_la_SOURCES += \
	%D%/ev/mem.c \
	%D%/ev/op.c \
	%D%/ev/source.c \
	%D%/ev/ev.c \
	%D%/ev/ev.h
endif

EXTRA_DIST += %D%/README.md
