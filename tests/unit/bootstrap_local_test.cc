// Proven local connections that pass descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "bootstrap_ranks.h"
#include "core/bootstrap/local_channel.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;

WaitLimits patient() { return {inMs(kPatientMs), &realClock()}; }

LocalIdentity identity(uint32_t rank, const char* secret = "secret") {
  return {Secret::derive("test", bytesOf(secret)), 77, rank, 4};
}

class LocalChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(initCrypto().isOk());
    auto listener = LocalListener::open(identity(0), realClock());
    ASSERT_TRUE(listener.isOk()) << listener.status().message();
    listener_ = std::move(listener).value();
  }
  // Connects as `rank` from a thread while this one accepts it.
  void pair(uint32_t rank, std::optional<LocalChannel>* theirs, std::optional<LocalChannel>* ours) {
    std::thread thread([&] {
      auto channel = LocalChannel::connect(listener_->address(), identity(rank), 0, patient());
      ASSERT_TRUE(channel.isOk()) << channel.status().message();
      theirs->emplace(std::move(channel).value());
    });
    auto channel = listener_->accept(rank, patient());
    thread.join();
    ASSERT_TRUE(channel.isOk()) << channel.status().message();
    ours->emplace(std::move(channel).value());
  }
  std::unique_ptr<LocalListener> listener_;
};

TEST_F(LocalChannelTest, PassesMemoryBothWays) {
  std::optional<LocalChannel> theirs, ours;
  pair(2, &theirs, &ours);
  ASSERT_TRUE(theirs && ours);
  EXPECT_EQ(ours->peerRank(), 2u);
  EXPECT_EQ(ours->peerPid(), ::getpid());
  EXPECT_EQ(theirs->peerPid(), ::getpid());
  for (auto [from, to] : {std::pair{&*theirs, &*ours}, std::pair{&*ours, &*theirs}}) {
    for (size_t count = 0; count <= kMaxDescriptors; ++count) {
      std::vector<base::UniqueFd> files;
      std::vector<int> fds;
      for (size_t i = 0; i < count; ++i) {
        files.emplace_back(::memfd_create("test", MFD_CLOEXEC));
        ASSERT_EQ(::write(files.back().get(), &i, sizeof i), static_cast<ssize_t>(sizeof i));
        fds.push_back(files.back().get());
      }
      const std::string bytes(count * 512, 'b');
      ASSERT_TRUE(from->send(fds, bytes, patient()).isOk());
      auto message = to->receive(patient());
      ASSERT_TRUE(message.isOk()) << message.status().message();
      EXPECT_EQ(message.value().bytes, bytes);
      ASSERT_EQ(message.value().descriptors.size(), count);
      for (size_t i = 0; i < count; ++i) {
        size_t value = 99;
        const int fd = message.value().descriptors[i].get();
        ASSERT_EQ(::pread(fd, &value, sizeof value, 0), static_cast<ssize_t>(sizeof value));
        EXPECT_EQ(value, i);
        EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
      }
    }
  }
}

TEST_F(LocalChannelTest, KeepsThoseWhoComeEarly) {
  std::thread peer([&] {
    for (const uint32_t rank : {3u, 1u}) {
      auto channel = LocalChannel::connect(listener_->address(), identity(rank), 0, patient());
      ASSERT_TRUE(channel.isOk()) << channel.status().message();
      ASSERT_TRUE(channel->send({}, std::to_string(rank), patient()).isOk());
    }
  });
  for (const uint32_t rank : {1u, 3u}) {
    auto channel = listener_->accept(rank, patient());
    ASSERT_TRUE(channel.isOk()) << channel.status().message();
    auto message = channel->receive(patient());
    ASSERT_TRUE(message.isOk());
    EXPECT_EQ(message.value().bytes, std::to_string(rank));
  }
  peer.join();
}

TEST_F(LocalChannelTest, RefusesStrangersAndDuplicates) {
  std::optional<LocalChannel> theirs, ours;
  pair(2, &theirs, &ours);
  const auto refused = [&](const LocalIdentity& self, uint32_t peer,
                           std::initializer_list<const char*> parts) {
    std::optional<base::Status> status;
    std::thread thread([&] {
      status = LocalChannel::connect(listener_->address(), self, peer, patient()).status();
    });
    (void)listener_->accept(1, {inMs(200), &realClock()});
    thread.join();
    expectStatus(*status, Code::kInvalidUsage, parts);
  };
  refused(identity(3, "other"), 0, {"the secrets differ"});
  refused(identity(3), 1, {"is not rank 1"});
  refused(identity(2), 0, {"already connected as rank 2"});
  LocalIdentity larger = identity(3);
  larger.nranks = 5;
  refused(larger, 0, {"started with 5 ranks, the other side with 4"});
  LocalIdentity other = identity(3);
  other.commId = 78;
  refused(other, 0, {"another communicator"});
}

TEST_F(LocalChannelTest, NeverHangs) {
  expectStatus(listener_->accept(1, {inMs(50), &realClock()}).status(), Code::kTimeout, {"rank 1"});
  // Nobody steps the listener: the proof is not answered.
  const auto silent =
      LocalChannel::connect(listener_->address(), identity(1), 0, {inMs(50), &realClock()});
  expectStatus(silent.status(), Code::kTimeout, {});
  std::optional<LocalChannel> theirs, ours;
  pair(2, &theirs, &ours);
  expectStatus(ours->receive({inMs(50), &realClock()}).status(), Code::kTimeout, {"rank 2"});
  const auto abort = base::EventFd::open();
  ASSERT_TRUE(abort.isOk());
  abort.value().signal();
  expectStatus(ours->receive({inMs(kPatientMs), &realClock(), abort.value().fd()}).status(),
               Code::kInvalidUsage, {"aborted"});
  theirs.reset();
  expectStatus(ours->receive(patient()).status(), Code::kRemoteError, {"rank 2 hung up"});
  const std::string address = listener_->address();
  listener_.reset();
  expectStatus(LocalChannel::connect(address, identity(1), 0, patient()).status(),
               Code::kRemoteError, {"rank 0"});
}

TEST_F(LocalChannelTest, RejectsWhatIsNotAMessage) {
  const size_t before = openDescriptors();
  for (int kind = 0; kind < 3; ++kind) {
    std::optional<LocalChannel> theirs, ours;
    pair(2, &theirs, &ours);
    uint8_t raw[12] = {};
    putLe<uint32_t>(raw, kind == 0 ? 0 : 0x4c4e4d4f);
    putLe<uint32_t>(raw + 4, kind == 1 ? 0xffffffff : 0);
    putLe<uint32_t>(raw + 8, kind == 2 ? 1 : 0);
    ASSERT_TRUE(sendAll(theirs->fd(), raw, patient(), "testing").isOk());
    expectStatus(ours->receive(patient()).status(), Code::kRemoteError, {"rank 2 sent"});
    listener_->forget(2);
  }
  EXPECT_EQ(openDescriptors(), before);
}

TEST_F(LocalChannelTest, RejectsMoreDescriptorsThanEight) {
  std::optional<LocalChannel> theirs, ours;
  pair(2, &theirs, &ours);
  const std::vector<int> nine(9, theirs->fd());
  expectStatus(theirs->send(nine, "", patient()), Code::kInvalidArgument, {"8 descriptors"});
  expectStatus(theirs->send({}, std::string(kMaxLocalBytes + 1, 'x'), patient()),
               Code::kInvalidArgument, {"4096"});

  const size_t before = openDescriptors();
  uint8_t raw[12] = {};
  putLe<uint32_t>(raw, 0x4c4e4d4f);
  putLe<uint32_t>(raw + 8, 9);
  alignas(cmsghdr) char control[CMSG_SPACE(9 * sizeof(int))] = {};
  iovec io{raw, sizeof raw};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  *header = {CMSG_LEN(9 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), nine.data(), 9 * sizeof(int));
  ASSERT_EQ(::sendmsg(theirs->fd(), &message, 0), static_cast<ssize_t>(sizeof raw));
  expectStatus(ours->receive(patient()).status(), Code::kRemoteError, {"more descriptors than 8"});
  EXPECT_EQ(openDescriptors(), before);
}

}  // namespace
}  // namespace omnes::core::bootstrap
