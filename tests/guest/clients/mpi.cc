// SPDX-License-Identifier: GPL-2.0-or-later
// mpi ROUNDS MIB: sends and receives around a ring, reductions, broadcasts, all-to-all and
// one-sided operations, compared by every rank. Rank 0 prints the rate of the ring.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <mpi.h>
#include <unistd.h>

namespace {

int rank, size;

void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "rank %d: %s: wrong data\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Byte i of what rank r sends in step n.
char byte(int r, size_t n, size_t i) {
  return static_cast<char>((i * 2654435761u >> 13) + i * 7 + n * 31 + r * 101);
}

double ring(size_t n, size_t bytes) {
  std::vector<char> out(bytes), in(bytes);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  for (size_t i = 0; i < bytes; i++) out[i] = byte(rank, n, i);
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  MPI_Sendrecv(out.data(), bytes, MPI_BYTE, to, 1, in.data(), bytes, MPI_BYTE, from, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const double took = MPI_Wtime() - began;
  for (size_t i = 0; i < bytes; i++)
    if (in[i] != byte(from, n, i)) check(false, "ring");
  return took;
}

void collectives(int rounds) {
  for (int n = 0; n < rounds; n++) {
    long mine = rank + n, sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    check(sum == static_cast<long>(size) * n + static_cast<long>(size) * (size - 1) / 2,
          "allreduce");
  }
  const size_t each = 5000;
  std::vector<char> out(each * size), in(each * size);
  for (int r = 0; r < size; r++)
    for (size_t i = 0; i < each; i++) out[r * each + i] = byte(rank, r, i);
  MPI_Alltoall(out.data(), each, MPI_BYTE, in.data(), each, MPI_BYTE, MPI_COMM_WORLD);
  for (int r = 0; r < size; r++)
    for (size_t i = 0; i < each; i++)
      if (in[r * each + i] != byte(r, rank, i)) check(false, "alltoall");
  std::vector<char> all(100000);
  if (rank == size - 1)
    for (size_t i = 0; i < all.size(); i++) all[i] = byte(size, 0, i);
  MPI_Bcast(all.data(), all.size(), MPI_BYTE, size - 1, MPI_COMM_WORLD);
  for (size_t i = 0; i < all.size(); i++)
    if (all[i] != byte(size, 0, i)) check(false, "bcast");
}

void one_sided(int rounds) {
  long *memory;
  MPI_Win win;
  MPI_Win_allocate((size + 1) * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                   &win);
  memset(memory, 0, (size + 1) * sizeof(long));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  const long one = 1;
  for (long n = 0, old = 0, last = -1; n < rounds; n++, last = old) {
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win);
    MPI_Win_flush(0, win);
    check(old > last, "fetch and add");
  }
  const long mine = 1000 + rank;
  MPI_Put(&mine, 1, MPI_LONG, (rank + 1) % size, 1 + rank, 1, MPI_LONG, win);
  MPI_Win_flush_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  long counted = 0, other = 0;
  MPI_Get(&counted, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
  MPI_Get(&other, 1, MPI_LONG, (rank + 1) % size, 1 + rank, 1, MPI_LONG, win);
  MPI_Win_flush_all(win);
  MPI_Win_unlock_all(win);
  check(counted == static_cast<long>(size) * rounds, "the sum of the atomics");
  check(other == mine, "put and get");
  MPI_Win_free(&win);
}

}  // namespace

int main(int argc, char **argv) {
  char host[64] = "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? atoi(argv[1]) : 20, mib = argc > 2 ? atoi(argv[2]) : 4;
  gethostname(host, sizeof(host) - 1);
  printf("rank %d of %d on %s\n", rank, size, host);
  size_t n = 0;
  for (size_t bytes : {1, 100, 4096, 65537, 1 << 20}) ring(++n, bytes);
  double took = 0;
  for (int i = 0; i < mib; i++) took += ring(++n, 1 << 20);
  collectives(rounds);
  one_sided(rounds);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!rank) printf("all ranks compared everything\nrate %.1f MB/s\n", mib * 1.048576 / took);
  MPI_Finalize();
}
