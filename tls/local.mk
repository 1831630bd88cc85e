# libweir-tls: TLS as streams, on OpenSSL.
libweir_tls_la_SOURCES = \
	%D%/context.c \
	%D%/psk.c \
	%D%/stream.c \
	%D%/tls.h
libweir_tls_la_CFLAGS = $(AM_CFLAGS) $(LIBSSL_CFLAGS) $(OPENSSL_CFLAGS)
libweir_tls_la_LIBADD = libbase.la libweir.la $(LIBSSL_LIBS) $(OPENSSL_LIBS)
libweir_tls_la_LDFLAGS = $(lib_ldflags) \
	-Wl,--version-script=$(srcdir)/weir-tls.map
EXTRA_libweir_tls_la_DEPENDENCIES = weir-tls.map
EXTRA_DIST += %D%/README.md
