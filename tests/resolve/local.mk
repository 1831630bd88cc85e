# Names: over both sources, where the library has c-ares.
resolve_tests += %D%/test-connect-name %D%/test-resolve
# What no query reaches on every machine.
resolve_tests += %D%/test-resolve-sort
%C%_test_resolve_sort_SOURCES = %D%/test-resolve-sort.c resolve/query.c resolve/sort.c
