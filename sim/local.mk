# libweir-sim: simulated worlds.
libsim_la_SOURCES += \
	%D%/backend.c \
	%D%/call.c \
	%D%/card-control.c \
	%D%/card.c \
	%D%/card.h \
	%D%/counter.c \
	%D%/event.c \
	%D%/fault.c \
	%D%/fd.c \
	%D%/file-data.c \
	%D%/file-fd.c \
	%D%/file-name.c \
	%D%/file-path.c \
	%D%/file-range.c \
	%D%/file-sync.c \
	%D%/file-user.c \
	%D%/file-world.c \
	%D%/file.c \
	%D%/file.h \
	%D%/memory.c \
	%D%/memory.h \
	%D%/op.c \
	%D%/parts.c \
	%D%/peer.c \
	%D%/socket-conn.c \
	%D%/socket-connect.c \
	%D%/socket-flow.c \
	%D%/socket-make.c \
	%D%/socket.c \
	%D%/socket.h \
	%D%/source.c \
	%D%/world.c \
	%D%/world.h
