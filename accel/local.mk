# libweir-accel: kinds of jobs that compress, encrypt and protect.
libaccel_la_SOURCES += \
	%D%/codec.c \
	%D%/codec.h \
	%D%/crc.c \
	%D%/crc64.c \
	%D%/crc64.h \
	%D%/dif.c \
	%D%/kinds.c \
	%D%/kinds.h \
	%D%/xts.c
if HAVE_ISAL
libaccel_la_SOURCES += %D%/codec-isal.c
endif
if HAVE_ZLIB
libaccel_la_SOURCES += %D%/codec-zlib.c
endif
if HAVE_ZSTD
libaccel_la_SOURCES += %D%/codec-zstd.c
endif
EXTRA_DIST += %D%/README.md
