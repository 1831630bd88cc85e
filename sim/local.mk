# libweir-sim: simulated worlds.
libsim_la_SOURCES += \
	%D%/address.c \
	%D%/aim.c \
	%D%/backend.c \
	%D%/card.c \
	%D%/card.h \
	%D%/counter.c \
	%D%/datagram.c \
	%D%/event.c \
	%D%/fault.c \
	%D%/file-data.c \
	%D%/file-name.c \
	%D%/file-path.c \
	%D%/file-user.c \
	%D%/file-world.c \
	%D%/file.c \
	%D%/file.h \
	%D%/host-find.c \
	%D%/host.c \
	%D%/memory.c \
	%D%/memory.h \
	%D%/op.c \
	%D%/parts.c \
	%D%/peer.c \
	%D%/runner-params.c \
	%D%/runner-seeds.c \
	%D%/runner.c \
	%D%/runner.h \
	%D%/schedule.c \
	%D%/signal.c \
	%D%/socket-conn.c \
	%D%/socket-connect.c \
	%D%/socket.c \
	%D%/socket.h \
	%D%/world.c \
	%D%/world.h
EXTRA_DIST += %D%/README.md
