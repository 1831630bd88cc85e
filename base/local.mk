# What each library has a copy of, so that it need not call another's.
libbase_la_SOURCES += \
	%D%/alloc.c \
	%D%/alloc.h \
	%D%/check.c \
	%D%/check.h \
	%D%/opts.c \
	%D%/opts.h

libcore_la_SOURCES += \
	%D%/mutation.c \
	%D%/mutation.h \
	%D%/copy.c \
	%D%/copy.h \
	%D%/crc32c-arm.c \
	%D%/crc32c-x86.c \
	%D%/crc32c.c \
	%D%/crc32c.h \
	%D%/fault.c \
	%D%/fault.h \
	%D%/libc.h \
	%D%/own.c \
	%D%/own.h \
	%D%/probe.h \
	%D%/provider.h \
	%D%/relax.h \
	%D%/why.c \
	%D%/why.h
