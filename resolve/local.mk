# libweir-resolve: names and addresses, and connections to names.
libweir_resolve_la_SOURCES = \
	%D%/connect.c \
	%D%/libc.c \
	%D%/query.c \
	%D%/resolve.h \
	%D%/resolver.c \
	%D%/sort.c \
	%D%/table.c
if HAVE_CARES
libweir_resolve_la_SOURCES += %D%/cares.c
endif
libweir_resolve_la_CFLAGS = $(AM_CFLAGS) $(CARES_CFLAGS)
libweir_resolve_la_LIBADD = libbase.la libweir.la $(CARES_LIBS)
libweir_resolve_la_LDFLAGS = $(lib_ldflags) \
	-Wl,--version-script=$(srcdir)/weir-resolve.map
EXTRA_libweir_resolve_la_DEPENDENCIES = weir-resolve.map
EXTRA_DIST += %D%/README.md
