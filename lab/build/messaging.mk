# SPDX-License-Identifier: GPL-2.0-or-later
# The programs in tests/guest/clients: make -f messaging.mk SRC=DIR OUT=DIR LIBRARIES=DIR FABTESTS=DIR
lib = $(LIBRARIES)/usr/lib/x86_64-linux-gnu
CXXFLAGS = -std=c++20 -O2 -Wall -Wextra -Werror -isystem $(LIBRARIES)/usr/include
LDFLAGS = -s -L$(lib) -Wl,--allow-shlib-undefined

all: $(addprefix $(OUT)/bin/,ucx rpma mpi-openmpi mpi-mpich fabtests)
$(OUT)/bin/ucx: $(SRC)/ucx.cc
	$(CXX) $(CXXFLAGS) -o $@ $< $(LDFLAGS) -lucp -lucs
$(OUT)/bin/rpma: $(SRC)/rpma.cc
	$(CXX) $(CXXFLAGS) -o $@ $< $(LDFLAGS) -lrpma -libverbs
$(OUT)/bin/mpi-openmpi: $(SRC)/mpi.cc
	$(CXX) $(CXXFLAGS) -isystem $(lib)/openmpi/include -o $@ $< $(LDFLAGS) -l:libmpi.so.40
$(OUT)/bin/mpi-mpich: $(SRC)/mpi.cc
	$(CXX) $(CXXFLAGS) -isystem $(lib)/mpich/include -o $@ $< $(LDFLAGS) -l:libmpich.so.12
$(OUT)/bin/fabtests: $(FABTESTS)
	cp -r $< $@
