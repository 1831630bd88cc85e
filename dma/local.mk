libweir_all_la_SOURCES +=
