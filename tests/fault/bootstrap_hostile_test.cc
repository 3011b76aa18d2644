// Strangers, forgers and the clumsy at the doors of a meeting (F14, F18-F20; cases C39, C40): each
// join still succeeds.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <random>

#include "core/bootstrap/acceptor.h"
#include "core/bootstrap/local_channel.h"
#include "fault/attacker.h"
#include "unit/bootstrap_ranks.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Status;

WaitLimits patient() { return {inMs(kPatientMs), &realClock()}; }

base::UniqueFd connectTo(const std::string& address) {
  auto attempt = connectOnce(address, patient());
  // The queue of the listener may be full for a moment.
  while (attempt.isOk() && attempt.value().error == EAGAIN)
    attempt = connectOnce(address, patient());
  return attempt.isOk() ? std::move(attempt.value().fd) : base::UniqueFd();
}

class Hostile : public ::testing::TestWithParam<const char*> {};

TEST_P(Hostile, JoinsSucceedAmongStrangers) {
  ASSERT_TRUE(initCrypto().isOk());
  unsigned attacks = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Meetable meetable = freshId(GetParam());
    const MeetingPoint& point = meetable.point;
    Attacker attacker(seed);
    attacker.add(
        overhear(point.address, point.secret, {point.commId, 2, 1, kNoRank, LinkKind::kMeeting}));
    const auto start = realClock().now();
    // Not before it has begun.
    ASSERT_TRUE(eventually([&] { return attacker.attacks() > 4; }));
    for (const JoinResult& result : joinAll(meetable.point, ranks(2))) {
      ASSERT_TRUE(result.isOk()) << result.status().message();
    }
    EXPECT_LT(realClock().now() - start, std::chrono::seconds(5));
    attacks += attacker.attacks();
    meetable.host->stop();
  }
  RecordProperty("attacks", static_cast<int>(attacks));
  EXPECT_GE(attacks, 1000u);
  EXPECT_TRUE(allHostsEnd());
}

INSTANTIATE_TEST_SUITE_P(Transports, Hostile, ::testing::Values("", "tcp:127.0.0.1:0"),
                         [](const auto& each) { return each.index == 0 ? "Unix" : "Tcp"; });

class AcceptorTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(initCrypto().isOk()); }
  void open(unsigned maxUnproven = 64, base::Duration proofTime = std::chrono::seconds(5)) {
    AcceptorOptions options;
    options.maxUnproven = maxUnproven;
    options.proofTime = proofTime;
    options.address = randomUnixAddress();
    options.secret = secret_;
    options.expected = {9, 4, 0, 0, LinkKind::kShm};
    auto acceptor = Acceptor::listen(std::move(options), realClock());
    ASSERT_TRUE(acceptor.isOk()) << acceptor.status().message();
    acceptor_ = std::move(acceptor).value();
  }
  // Steps until the condition holds.
  bool stepUntil(const std::function<bool()>& condition) {
    return eventually([&] {
      acceptor_->step(&proven_, nullptr);
      return condition();
    });
  }
  ProofInitiator initiator(uint32_t from) const {
    return ProofInitiator(secret_, {9, 4, from, 0, LinkKind::kShm});
  }

  const Secret secret_ = Secret::derive("test", bytesOf("acceptor"));
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<ProvenConnection> proven_;
};

TEST_F(AcceptorTest, KeepsFewUnprovenAndDropsTheOldest) {
  open(64);
  std::vector<base::UniqueFd> silent;
  for (unsigned i = 0; i < 200; ++i) silent.push_back(connectTo(acceptor_->address()));
  ASSERT_TRUE(stepUntil([&] { return acceptor_->counters().accepted == 200; }));
  EXPECT_EQ(acceptor_->unproven(), 64u);
  EXPECT_EQ(acceptor_->counters().dropped, 136u);
  pollfd oldest{silent.front().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&oldest, 1, 0), 1);
  pollfd newest{silent.back().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&newest, 1, 0), 0);
  ProofInitiator proof = initiator(1);
  const base::UniqueFd fd = connectTo(acceptor_->address());
  ASSERT_TRUE(stepUntil([&] {
    driveProof(fd.get(), proof);
    return proof.state() != ProofState::kRunning;
  }));
  EXPECT_EQ(proof.state(), ProofState::kDone) << proof.status().message();
}

TEST_F(AcceptorTest, DropsTheSlow) {
  open(64, std::chrono::milliseconds(20));
  const base::UniqueFd silent = connectTo(acceptor_->address());
  ASSERT_TRUE(stepUntil([&] { return acceptor_->unproven() == 1; }));
  const int ms = acceptor_->timeoutMs();
  EXPECT_GE(ms, 0);
  EXPECT_LE(ms, 20);
  ASSERT_TRUE(stepUntil([&] { return acceptor_->counters().dropped == 1; }));
  EXPECT_EQ(acceptor_->timeoutMs(), -1);
}

TEST_F(AcceptorTest, RefusesADuplicateUntilTheFirstIsForgotten) {
  open();
  const auto attempt = [&] {
    ProofInitiator proof = initiator(3);
    const base::UniqueFd fd = connectTo(acceptor_->address());
    EXPECT_TRUE(stepUntil([&] {
      driveProof(fd.get(), proof);
      return proof.state() != ProofState::kRunning;
    }));
    return proof.status();
  };
  EXPECT_EQ(attempt().message(), "");
  expectStatus(attempt(), Code::kInvalidUsage, {"already connected as rank 3"});
  acceptor_->forget(3);
  EXPECT_EQ(attempt().message(), "");
  EXPECT_EQ(acceptor_->counters().proven, 2u);
}

// An initiator that is cut off between its proof and the verdict must be able to come again.
TEST_F(AcceptorTest, ALostVerdictLeavesNoDuplicate) {
  open();
  for (int i = 0; i < 50; ++i) {
    ProofInitiator proof = initiator(2);
    base::UniqueFd fd = connectTo(acceptor_->address());
    ASSERT_TRUE(stepUntil([&] {
      driveProof(fd.get(), proof);
      return proof.output().empty() && proof.input().size() == kVerdictBytes;
    }));
    fd.reset();
    const uint64_t before = acceptor_->counters().proven + acceptor_->counters().rejected;
    ASSERT_TRUE(stepUntil(
        [&] { return acceptor_->counters().proven + acceptor_->counters().rejected > before; }));
    // It was either handed out, for its owner to find it closed, or turned away.
    for (const ProvenConnection& connection : proven_)
      acceptor_->forget(connection.hello.identity.from);
    proven_.clear();
  }
  ProofInitiator proof = initiator(2);
  const base::UniqueFd fd = connectTo(acceptor_->address());
  ASSERT_TRUE(stepUntil([&] {
    driveProof(fd.get(), proof);
    return proof.state() != ProofState::kRunning;
  }));
  EXPECT_EQ(proof.status().message(), "");
}

// ---- Forgeries
// ---------------------------------------------------------------------------------------------------

// Runs the two machines against each other; `tamper` sees each frame on its way, numbered from 0.
using Tamper = std::function<void(int frame, std::vector<uint8_t>& bytes)>;
void exchangeFrames(ProofMachine& initiator, ProofAcceptor& acceptor, const Tamper& tamper) {
  const auto carry = [&](ProofMachine& from, ProofMachine& to, int frame) {
    std::vector<uint8_t> bytes(from.output().begin(), from.output().end());
    from.sent(bytes.size());
    tamper(frame, bytes);
    std::copy_n(bytes.begin(), std::min(bytes.size(), to.input().size()), to.input().begin());
    to.received(std::min(bytes.size(), to.input().size()));
  };
  for (int frame = 0; frame < 4; ++frame) {
    if (acceptor.state() == ProofState::kDecide) acceptor.decide(Refusal::kNone);
    if (frame % 2 == 0) {
      carry(initiator, acceptor, frame);
    } else {
      if (acceptor.state() == ProofState::kDecide) acceptor.decide(Refusal::kNone);
      carry(acceptor, initiator, frame);
    }
  }
}

class Forgery : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(initCrypto().isOk()); }
  const Secret secret_ = Secret::derive("test", bytesOf("forgery"));
  const ProofIdentity identity_{77, 8, 3, 5, LinkKind::kShm};
};

TEST_F(Forgery, TheHonestAreLetIn) {
  ProofInitiator initiator(secret_, identity_);
  ProofAcceptor acceptor(secret_, identity_);
  exchangeFrames(initiator, acceptor, [](int, auto&) {});
  EXPECT_EQ(initiator.state(), ProofState::kDone);
  EXPECT_EQ(acceptor.state(), ProofState::kDone);
  EXPECT_EQ(acceptor.peer().identity.from, 3u);
}

TEST_F(Forgery, EveryFlippedBitOfEveryFrameIsNoticed) {
  constexpr size_t kSizes[] = {kHelloBytes, kChallengeBytes, kProofBytes, kVerdictBytes};
  for (int target = 0; target < 4; ++target) {
    for (size_t bit = 0; bit < 8 * kSizes[target]; ++bit) {
      ProofInitiator initiator(secret_, identity_);
      ProofAcceptor acceptor(secret_, identity_);
      exchangeFrames(initiator, acceptor, [&](int frame, std::vector<uint8_t>& bytes) {
        if (frame == target) bytes.at(bit / 8) ^= static_cast<uint8_t>(1 << (bit % 8));
      });
      ASSERT_NE(initiator.state(), ProofState::kDone) << "frame " << target << " bit " << bit;
      // What the acceptor says last cannot change its own mind.
      if (target != 3) {
        ASSERT_NE(acceptor.state(), ProofState::kDone) << "frame " << target << " bit " << bit;
      }
    }
  }
}

TEST_F(Forgery, ReplayedFramesAreWorthNothing) {
  std::vector<std::vector<uint8_t>> recorded(4);
  {
    ProofInitiator initiator(secret_, identity_);
    ProofAcceptor acceptor(secret_, identity_);
    exchangeFrames(initiator, acceptor, [&](int frame, auto& bytes) { recorded[frame] = bytes; });
    ASSERT_EQ(initiator.state(), ProofState::kDone);
  }
  for (int i = 0; i < 1000; ++i) {
    // All of the initiator's frames replayed at a new acceptor, and the other way round.
    ProofInitiator stranger(Secret::derive("test", bytesOf("stranger")), identity_);
    ProofAcceptor acceptor(secret_, identity_);
    exchangeFrames(stranger, acceptor, [&](int frame, auto& bytes) {
      if (frame % 2 == 0) bytes = recorded[frame];
    });
    ASSERT_EQ(acceptor.state(), ProofState::kFailed);
    ProofInitiator initiator(secret_, identity_);
    ProofAcceptor impostor(Secret::derive("test", bytesOf("stranger")), identity_);
    exchangeFrames(initiator, impostor, [&](int frame, auto& bytes) {
      if (frame % 2 == 1) bytes = recorded[frame];
    });
    ASSERT_EQ(initiator.state(), ProofState::kFailed);
  }
}

// The answer of one direction cannot serve as the proof of the other.
TEST_F(Forgery, AReflectedProofIsRefused) {
  ProofInitiator initiator(secret_, identity_);
  ProofAcceptor acceptor(secret_, identity_);
  std::vector<uint8_t> proof;
  exchangeFrames(initiator, acceptor, [&](int frame, std::vector<uint8_t>& bytes) {
    if (frame == 2) proof = bytes;
    if (frame == 3) std::copy_n(proof.begin() + 8, kMacBytes, bytes.begin() + 16);
  });
  EXPECT_EQ(initiator.state(), ProofState::kFailed);
}

TEST_F(Forgery, RandomBytesNeverPass) {
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    ProofAcceptor acceptor(secret_, identity_);
    ProofInitiator initiator(secret_, identity_);
    exchangeFrames(initiator, acceptor, [&](int frame, std::vector<uint8_t>& bytes) {
      // Behind a correct header, where there is more to hit.
      if (frame == i % 4) {
        for (size_t at = i % 8 == 0 ? 0 : 8; at < bytes.size(); ++at)
          bytes[at] = static_cast<uint8_t>(random());
      }
    });
    ASSERT_NE(initiator.state(), ProofState::kDone) << "round " << i;
  }
}

// ---- A proven member that misbehaves
// -------------------------------------------------------------------------------

base::UniqueFd provenMember(const MeetingPoint& point, uint32_t rank, uint32_t nranks) {
  base::UniqueFd fd = connectTo(point.address);
  ProofInitiator proof(point.secret, {point.commId, nranks, rank, kNoRank, LinkKind::kMeeting});
  EXPECT_TRUE(runProof(fd.get(), proof, patient()).isOk()) << proof.status().message();
  return fd;
}

TEST(BrokenMember, NonsenseAfterTheProofEndsTheMeetingWithItsName) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const Meetable meetable = freshId();
    const base::UniqueFd fd = provenMember(meetable.point, 1, 3);
    std::array<uint8_t, 256> noise;
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
    noise[3] |= 0x80;  // a length beyond all bounds, so that no frame is waited for
    sendSome(fd.get(), noise);
    const JoinResult other = join(meetable.point, {.rank = 0, .nranks = 3});
    expectStatus(other.status(), Code::kRemoteError, {"rank 1 died or broke off"});
  }
}

TEST(BrokenMember, AFrameOfTheWrongTimeEndsTheMeeting) {
  for (const FrameType type :
       {FrameType::kBlob, FrameType::kGoodbye, FrameType::kMet, FrameType::kGone}) {
    const Meetable meetable = freshId();
    const base::UniqueFd fd = provenMember(meetable.point, 1, 2);
    const SharedFrame frame = encodeFrame(type, Code::kOk, 1, 0, "12345678");
    ASSERT_TRUE(sendAll(fd.get(), bytesOf(*frame), patient(), "testing").isOk());
    const JoinResult other = join(meetable.point, {.rank = 0, .nranks = 2});
    expectStatus(other.status(), Code::kRemoteError, {"rank 1"});
  }
}

// ---- Descriptors
// ---------------------------------------------------------------------------------------------------

// F14: out of descriptors, a join fails with the limit's name, or succeeds; it neither hangs nor
// leaks.
TEST(Exhaustion, DescriptorsRunOut) {
  ASSERT_TRUE(initCrypto().isOk());
  ASSERT_TRUE(allHostsEnd());
  const size_t before = openDescriptors();
  rlimit saved{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved), 0);
  int failures = 0;
  for (rlim_t room = 0; room < 14; ++room) {
    rlimit tight = saved;
    tight.rlim_cur = before - 2 + room;  // counting the folder's own descriptor and the dots
    std::vector<JoinResult> results;
    const MeetingPoint point = freshAddress();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    results = joinAll(point, {{.rank = 0, .nranks = 2, .timeoutMs = 300},
                              {.rank = 1, .nranks = 2, .timeoutMs = 300}});
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &saved), 0);
    for (const JoinResult& result : results) {
      if (result.isOk()) continue;
      ++failures;
      const Code code = result.status().code();
      EXPECT_TRUE(code == Code::kSystemError || code == Code::kTimeout ||
                  code == Code::kRemoteError)
          << result.status().message();
    }
    results.clear();
    ASSERT_TRUE(allHostsEnd());
  }
  EXPECT_GT(failures, 0);
  EXPECT_TRUE(eventually([before] { return openDescriptors() == before; }, 2000))
      << openDescriptors() << " " << before;
}

}  // namespace
}  // namespace omnes::core::bootstrap
