# SPDX-License-Identifier: GPL-2.0-or-later
# fabtests without its autotools: make -f fabtests.mk SRC=DIR OUT=DIR LIBRARIES=DIR builds the programs in OUT/bin.
# Makefile.am says which sources a program has. Its conditionals are for other systems and for GPUs.
$(shell mkdir -p $(OUT) && sed -E -e '/^(if|else|endif)\>/d' -e '/^(test|real_man|dist-hook)/,$$d' $(SRC)/Makefile.am >$(OUT)/sources.mk)
include $(OUT)/sources.mk
VPATH = $(SRC)
CPPFLAGS = -D_GNU_SOURCE -DHAVE_EPOLL=1 -DHAVE_CLOCK_GETTIME=1 -DPACKAGE_VERSION='"$(VERSION)"' -DCONFIG_PATH='"."' -I$(SRC)/include -I$(SRC)/multinode/include \
	-I$(LIBRARIES)/usr/include
CFLAGS = -O1 -w
programs = $(filter functional/% benchmarks/% unit/% ubertest/% multinode/%,$(bin_PROGRAMS))
objects = $(patsubst %.c,$(OUT)/o/%.o,$(filter-out common/osx/%,$(filter %.c,$1)))

all: $(addprefix $(OUT)/bin/,$(notdir $(programs)))
$(OUT)/o/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
define program
$(OUT)/bin/$(notdir $1): $(call objects,$($(subst /,_,$1)_SOURCES) $(libfabtests_la_SOURCES))
	@mkdir -p $$(@D)
	$$(CC) -s -o $$@ $$^ -L$(LIBRARIES)/usr/lib/x86_64-linux-gnu -lfabric -lpthread -lrt -Wl,--allow-shlib-undefined
endef
$(foreach p,$(programs),$(eval $(call program,$p)))
