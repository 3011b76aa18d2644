#include "base/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace omnes::base {
namespace {

UniqueFd rawMemfd(size_t bytes, int seals) {
  UniqueFd fd(memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)), 0);
  if (seals != 0) {
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  }
  return fd;
}

TEST(Memfd, TwoMappingsShareZeroedMemory) {
  constexpr size_t kBytes = 3 * 4096 + 100;
  auto fd = createSharedMemory("omnes_test", kBytes);
  ASSERT_TRUE(fd.isOk()) << fd.status().message();
  EXPECT_NE(fcntl(fd.value().get(), F_GETFD) & FD_CLOEXEC, 0);
  auto one = mapShared(fd.value().get(), kBytes);
  auto two = mapShared(fd.value().get(), kBytes);
  ASSERT_TRUE(one.isOk() && two.isOk());
  fd.value().reset();
  EXPECT_EQ(one.value().size(), kBytes);
  for (const std::byte b : one.value().bytes()) ASSERT_EQ(b, std::byte{0});
  std::memset(one.value().data(), 7, kBytes);
  EXPECT_EQ(two.value().data()[kBytes - 1], std::byte{7});
}

TEST(Memfd, CannotBeShrunkGrownOrUnsealed) {
  auto fd = createSharedMemory("omnes_test", 8192);
  ASSERT_TRUE(fd.isOk());
  EXPECT_NE(ftruncate(fd.value().get(), 4096), 0);
  EXPECT_NE(ftruncate(fd.value().get(), 16384), 0);
  EXPECT_NE(fcntl(fd.value().get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(ftruncate(fd.value().get(), 8192), 0);
}

TEST(Memfd, TooMuchIsAnErrorThatStatesBytesNeededAndAvailable) {
  const size_t bytes = size_t{1} << 50;
  const auto fd = createSharedMemory("omnes_test", bytes);
  ASSERT_FALSE(fd.isOk());
  EXPECT_EQ(fd.status().code(), Code::kSystemError);
  EXPECT_NE(fd.status().message().find(std::to_string(bytes)), std::string::npos)
      << fd.status().message();
  EXPECT_NE(fd.status().message().find("available"), std::string::npos) << fd.status().message();
}

TEST(Memfd, FileSizeLimitIsAnErrorAndNoSignal) {
  rlimit saved;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &saved), 0);
  rlimit small = saved;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto fd = createSharedMemory("omnes_test", 8192);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &saved), 0);
  ASSERT_FALSE(fd.isOk());
  EXPECT_NE(fd.status().message().find("ulimit -f"), std::string::npos) << fd.status().message();
}

TEST(Memfd, DescriptorLimitIsNamed) {
  rlimit saved;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &saved), 0);
  rlimit small = saved;
  small.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  const auto fd = createSharedMemory("omnes_test", 8192);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &saved), 0);
  ASSERT_FALSE(fd.isOk());
  EXPECT_NE(fd.status().message().find("ulimit -n"), std::string::npos) << fd.status().message();
}

TEST(Memfd, AllocationEndsUnderAStormOfSignals) {
  struct sigaction ignore {
  }, savedAction;
  ignore.sa_handler = [](int) {};  // without SA_RESTART
  ASSERT_EQ(sigaction(SIGALRM, &ignore, &savedAction), 0);
  const itimerval storm{{0, 1000}, {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &storm, nullptr), 0);
  const auto fd = createSharedMemory("omnes_test", size_t{16} << 20);
  const itimerval calm{};
  ASSERT_EQ(setitimer(ITIMER_REAL, &calm, nullptr), 0);
  ASSERT_EQ(sigaction(SIGALRM, &savedAction, nullptr), 0);
  EXPECT_TRUE(fd.isOk()) << fd.status().message();
}

TEST(Memfd, ReceivedDescriptorsAreCheckedBeforeTheyAreMapped) {
  EXPECT_TRUE(mapShared(rawMemfd(4096, F_SEAL_SHRINK).get(), 4096).isOk());
  // Not sealed, other sizes than announced, not memory at all, holes.
  EXPECT_EQ(mapShared(rawMemfd(4096, 0).get(), 4096).status().code(), Code::kRemoteError);
  EXPECT_EQ(mapShared(rawMemfd(4096, F_SEAL_GROW).get(), 4096).status().code(), Code::kRemoteError);
  EXPECT_EQ(mapShared(rawMemfd(4096, F_SEAL_SHRINK).get(), 8192).status().code(),
            Code::kRemoteError);
  EXPECT_EQ(mapShared(rawMemfd(8192, F_SEAL_SHRINK).get(), 4096).status().code(),
            Code::kRemoteError);
  EXPECT_FALSE(mapShared(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)).get(), 4096).isOk());
  EXPECT_FALSE(mapShared(UniqueFd().get(), 4096).isOk());
  EXPECT_FALSE(mapShared(rawMemfd(4096, F_SEAL_SHRINK).get(), 0).isOk());
  UniqueFd sparse(memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sparse.get(), 1 << 20), 0);
  ASSERT_EQ(fcntl(sparse.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(mapShared(sparse.get(), 1 << 20).status().code(), Code::kRemoteError);
}

TEST(Mapping, MovesItsMemory) {
  auto made = Mapping::anonymous(5000);
  ASSERT_TRUE(made.isOk());
  Mapping one = std::move(made).value();
  one.data()[4999] = std::byte{1};
  Mapping two = std::move(one);
  EXPECT_FALSE(one.isMapped());  // NOLINT: looking at what was moved from is the point
  EXPECT_EQ(two.data()[4999], std::byte{1});
  two = Mapping();
  EXPECT_FALSE(two.isMapped());
  EXPECT_FALSE(Mapping::anonymous(0).isOk());
}

TEST(Memory, PageCacheOfAGroupCountsAsFree) {
  using internal::groupAvailableBytes;
  EXPECT_EQ(groupAvailableBytes(1000, 400, ""), 600u);
  EXPECT_EQ(groupAvailableBytes(1000, 400, "anon 1\ninactive_file 100\nactive_file 50\n"), 750u);
  EXPECT_EQ(groupAvailableBytes(1000, 400,
                                "cache 9\ninactive_file 1\nactive_file 1\ntotal_cache 9\n"
                                "total_inactive_file 100\ntotal_active_file 50\n"),
            750u);
  EXPECT_EQ(groupAvailableBytes(1000, 1200, ""), 0u);
  EXPECT_EQ(groupAvailableBytes(1000, 100, "x\ninactive_file 500\n"), 1000u);
}

TEST(Memory, AvailableIsKnown) { EXPECT_GT(availableMemoryBytes(), uint64_t{1} << 20); }

}  // namespace
}  // namespace omnes::base
