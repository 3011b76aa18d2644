#include "core/bootstrap/proof.h"

#include <poll.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Status;

constexpr uint32_t kMagic = 0x534e4d4fu;  // "OMNS"
constexpr uint8_t kEnvelope = 1;          // version of this exchange itself; frozen
enum FrameType : uint8_t { kHello = 1, kChallenge = 2, kProof = 3, kVerdict = 4 };
constexpr size_t kHeaderBytes = 8;  // magic u32, type u8, envelope u8, result u16
constexpr std::string_view kInitiatorLabel = "omnes proof of initiator";
constexpr std::string_view kAcceptorLabel = "omnes proof of acceptor";
static_assert(kMacBytes == crypto_auth_hmacsha256_BYTES);

void putHeader(uint8_t* to, FrameType type, Refusal result) {
  putLe<uint32_t>(to, kMagic);
  to[4] = type;
  to[5] = kEnvelope;
  putLe<uint16_t>(to + 6, static_cast<uint16_t>(result));
}

bool isFrame(std::span<const uint8_t> frame, FrameType type) {
  return getLe<uint32_t>(frame.data()) == kMagic && frame[4] == type && frame[5] == kEnvelope;
}

Refusal resultOf(std::span<const uint8_t> frame) {
  return static_cast<Refusal>(getLe<uint16_t>(&frame[6]));
}

std::string versionText(uint32_t ours, uint32_t theirs) {
  return "wire version " + std::to_string(ours) + " here, " + std::to_string(theirs) +
         " on the other side; use the same omnes on all ranks";
}

}  // namespace

void ProofMachine::received(size_t bytes) {
  inHave_ += bytes;
  if (inHave_ == inWanted_ && inWanted_ != 0 && state_ == ProofState::kRunning) onFrame();
}

void ProofMachine::closed(int error) {
  if (state_ == ProofState::kFailed || (state_ == ProofState::kDone && output().empty())) return;
  wasClosed_ = true;
  std::string text = "the other side closed the connection before the proof was complete";
  if (error != 0)
    text.append(" (").append(Status::fromErrno(error, "socket").message()).append(")");
  fail(Code::kRemoteError, std::move(text));
}

void ProofMachine::expect(size_t bytes) {
  inWanted_ = bytes;
  inHave_ = 0;
}

void ProofMachine::queue(std::span<const uint8_t> frame) {
  std::copy(frame.begin(), frame.end(), out_.begin());
  outSize_ = frame.size();
  outSent_ = 0;
}

void ProofMachine::finish() {
  state_ = ProofState::kDone;
  expect(0);
}

void ProofMachine::fail(Code code, std::string message) {
  state_ = ProofState::kFailed;
  status_ = Status(code, std::move(message));
  expect(0);
}

std::array<uint8_t, kMacBytes> ProofMachine::macOf(std::string_view label,
                                                   std::span<const uint8_t> tail) const {
  std::array<uint8_t, kMacBytes> mac;
  crypto_auth_hmacsha256_state state;
  ::crypto_auth_hmacsha256_init(&state, secret_.bytes().data(), secret_.bytes().size());
  ::crypto_auth_hmacsha256_update(&state, reinterpret_cast<const uint8_t*>(label.data()),
                                  label.size());
  ::crypto_auth_hmacsha256_update(&state, hello_.data(), hello_.size());
  ::crypto_auth_hmacsha256_update(&state, challenge_.data(), challenge_.size());
  ::crypto_auth_hmacsha256_update(&state, tail.data(), tail.size());
  ::crypto_auth_hmacsha256_final(&state, mac.data());
  ::sodium_memzero(&state, sizeof state);
  return mac;
}

// ---- Initiator
// --------------------------------------------------------------------------------------------------

ProofInitiator::ProofInitiator(const Secret& secret, const ProofIdentity& identity,
                               uint32_t wireVersion)
    : ProofMachine(secret, identity, wireVersion) {
  putHeader(hello_.data(), kHello, Refusal::kNone);
  putLe<uint32_t>(&hello_[8], wireVersion);
  putLe<uint32_t>(&hello_[12], static_cast<uint32_t>(identity.kind));
  putLe<uint64_t>(&hello_[16], identity.commId);
  putLe<uint32_t>(&hello_[24], identity.nranks);
  putLe<uint32_t>(&hello_[28], identity.from);
  putLe<uint32_t>(&hello_[32], identity.to);
  putLe<uint32_t>(&hello_[36], 0);
  fillRandom(std::span(hello_).subspan(40, kNonceBytes));
  queue(hello_);
  expect(kChallengeBytes);
}

void ProofInitiator::onFrame() { awaitsVerdict_ ? onVerdict() : onChallenge(); }

void ProofInitiator::onChallenge() {
  if (!isFrame(frame(), kChallenge)) {
    fail(Code::kRemoteError, "what listens there does not speak the protocol of omnes");
    return;
  }
  std::copy(frame().begin(), frame().end(), challenge_.begin());
  if (resultOf(challenge_) != Refusal::kNone) {
    failRefused(resultOf(challenge_), 0, getLe<uint32_t>(&challenge_[8]));
    return;
  }
  std::array<uint8_t, kProofBytes> proof;
  putHeader(proof.data(), kProof, Refusal::kNone);
  const auto mac = macOf(kInitiatorLabel, {});
  std::copy(mac.begin(), mac.end(), proof.begin() + kHeaderBytes);
  queue(proof);
  awaitsVerdict_ = true;
  expect(kVerdictBytes);
}

void ProofInitiator::onVerdict() {
  const std::span<const uint8_t> verdict = frame();
  if (!isFrame(verdict, kVerdict)) {
    fail(Code::kRemoteError, "the other side broke off the proof with an unknown frame");
    return;
  }
  if (resultOf(verdict) == Refusal::kBadProof) {
    failRefused(Refusal::kBadProof, 0, 0);
    return;
  }
  const auto mac = macOf(kAcceptorLabel, verdict.first(16));
  if (::sodium_memcmp(mac.data(), &verdict[16], kMacBytes) != 0) {
    fail(Code::kInvalidUsage,
         "the other side could not prove that it belongs to this communicator: its secret differs "
         "from ours");
    return;
  }
  const auto theirVersion = getLe<uint32_t>(&challenge_[8]);
  if (theirVersion != wireVersion_) {
    failRefused(Refusal::kVersion, 0, theirVersion);
  } else if (resultOf(verdict) != Refusal::kNone) {
    failRefused(resultOf(verdict), getLe<uint32_t>(&verdict[8]), theirVersion);
  } else {
    finish();
  }
}

void ProofInitiator::failRefused(Refusal refusal, uint32_t detail, uint32_t theirVersion) {
  setRefusal(refusal);
  std::string text;
  switch (refusal) {
    case Refusal::kUnknownCommunicator:
      text = "another communicator, or another user's, meets at this address";
      break;
    case Refusal::kWrongRank:
      text = "what listens there is not rank " + std::to_string(identity_.to);
      break;
    case Refusal::kBadProof:
      text =
          "the other side refused our proof: the secrets differ (same unique id or "
          "OMNES_SECRET_FILE on all ranks?)";
      break;
    case Refusal::kVersion: text = versionText(wireVersion_, theirVersion); break;
    case Refusal::kNranks:
      text = "this rank was started with " + std::to_string(identity_.nranks) +
             " ranks, the other side with " + std::to_string(detail);
      break;
    case Refusal::kDuplicate:
      text = "another process is already connected as rank " + std::to_string(identity_.from);
      break;
    case Refusal::kSpent: text = "the unique id is spent: one id makes one communicator"; break;
    default:
      text = "the other side refused the connection (reason " +
             std::to_string(static_cast<unsigned>(refusal)) + ")";
  }
  fail(Code::kInvalidUsage, std::move(text));
}

// ---- Acceptor
// ---------------------------------------------------------------------------------------------------

ProofAcceptor::ProofAcceptor(const Secret& secret, const ProofIdentity& expected,
                             uint32_t wireVersion, uint32_t kinds)
    : ProofMachine(secret, expected, wireVersion), kinds_(kinds) {
  expect(kHelloBytes);
}

bool ProofAcceptor::isKindExpected() const {
  const auto first = static_cast<uint32_t>(identity_.kind);
  const auto kind = static_cast<uint32_t>(peer_.identity.kind);
  return kind >= first && kind - first < kinds_;
}

void ProofAcceptor::onFrame() { awaitsProof_ ? onProof() : onHello(); }

void ProofAcceptor::refuseUnproven(Refusal refusal, const char* why) {
  putHeader(challenge_.data(), kChallenge, refusal);
  putLe<uint32_t>(&challenge_[8], wireVersion_);
  queue(challenge_);
  fail(Code::kInvalidUsage, why);
}

void ProofAcceptor::onHello() {
  if (!isFrame(frame(), kHello)) {
    fail(Code::kRemoteError,
         "a connection did not speak the protocol of omnes");  // and deserves no answer
    return;
  }
  std::copy(frame().begin(), frame().end(), hello_.begin());
  peer_.wireVersion = getLe<uint32_t>(&hello_[8]);
  peer_.identity.kind = static_cast<LinkKind>(getLe<uint32_t>(&hello_[12]));
  peer_.identity.commId = getLe<uint64_t>(&hello_[16]);
  peer_.identity.nranks = getLe<uint32_t>(&hello_[24]);
  peer_.identity.from = getLe<uint32_t>(&hello_[28]);
  peer_.identity.to = getLe<uint32_t>(&hello_[32]);
  if (peer_.identity.commId != identity_.commId) {
    refuseUnproven(Refusal::kUnknownCommunicator, "a connection belongs to another communicator");
    return;
  }
  if (!isKindExpected() || peer_.identity.to != identity_.to) {
    refuseUnproven(Refusal::kWrongRank, "a connection was meant for another rank or purpose");
    return;
  }
  putHeader(challenge_.data(), kChallenge, Refusal::kNone);
  putLe<uint32_t>(&challenge_[8], wireVersion_);
  putLe<uint32_t>(&challenge_[12], 0);
  fillRandom(std::span(challenge_).subspan(16, kNonceBytes));
  queue(challenge_);
  awaitsProof_ = true;
  expect(kProofBytes);
}

void ProofAcceptor::onProof() {
  const auto mac = macOf(kInitiatorLabel, {});
  // The header is not under the MAC; anything but its one valid value is refused.
  if (!isFrame(frame(), kProof) || resultOf(frame()) != Refusal::kNone ||
      ::sodium_memcmp(mac.data(), &frame()[kHeaderBytes], kMacBytes) != 0) {
    std::array<uint8_t, kVerdictBytes> verdict{};
    putHeader(verdict.data(), kVerdict, Refusal::kBadProof);
    queue(verdict);
    fail(Code::kInvalidUsage, "a connection could not prove that it belongs to this communicator");
    return;
  }
  isProven_ = true;
  const ProofIdentity& theirs = peer_.identity;
  if (peer_.wireVersion != wireVersion_) {
    decide(Refusal::kVersion);
  } else if (theirs.nranks == 0 || theirs.nranks > kMaxRanks || theirs.from >= theirs.nranks) {
    decide(Refusal::kNranks, identity_.nranks);
  } else if (identity_.nranks != 0 && theirs.nranks != identity_.nranks) {
    decide(Refusal::kNranks, identity_.nranks);
  } else {
    expect(0);
    setDecide();
  }
}

void ProofAcceptor::decide(Refusal refusal, uint32_t detail) {
  std::array<uint8_t, kVerdictBytes> verdict{};
  putHeader(verdict.data(), kVerdict, refusal);
  putLe<uint32_t>(&verdict[8], detail);
  const auto mac = macOf(kAcceptorLabel, std::span(verdict).first(16));
  std::copy(mac.begin(), mac.end(), verdict.begin() + 16);
  queue(verdict);
  const std::string who = "rank " + std::to_string(peer_.identity.from);
  switch (refusal) {
    case Refusal::kNone: finish(); break;
    case Refusal::kVersion:
      fail(Code::kInvalidUsage,
           who + " has another version: " + versionText(wireVersion_, peer_.wireVersion));
      break;
    case Refusal::kNranks:
      fail(Code::kInvalidUsage, who + " was started with " + std::to_string(peer_.identity.nranks) +
                                    " ranks, this side with " + std::to_string(identity_.nranks));
      break;
    case Refusal::kDuplicate: fail(Code::kInvalidUsage, who + " is already connected"); break;
    default: fail(Code::kInvalidUsage, who + " was refused"); break;
  }
}

// ---- I/O
// --------------------------------------------------------------------------------------------------------

void driveProof(int fd, ProofMachine& machine) {
  for (;;) {
    while (!machine.output().empty()) {
      const IoResult result = sendSome(fd, machine.output());
      if (result.state == IoState::kClosed) machine.closed(result.error);
      if (result.state != IoState::kDone) return;
      machine.sent(result.bytes);
    }
    if (machine.state() != ProofState::kRunning) return;
    const IoResult result = receiveSome(fd, machine.input());
    if (result.state == IoState::kClosed) machine.closed(result.error);
    if (result.state != IoState::kDone) return;
    machine.received(result.bytes);
  }
}

Status runProof(int fd, ProofMachine& machine, const WaitLimits& limits) {
  for (;;) {
    driveProof(fd, machine);
    if (machine.state() == ProofState::kFailed) return machine.status();
    if (machine.state() == ProofState::kDecide) return Status::ok();
    if (machine.state() == ProofState::kDone && machine.output().empty()) return Status::ok();
    const short events = machine.output().empty() ? POLLIN : POLLOUT;
    OMNES_RETURN_IF_ERROR(
        waitFor(fd, events, limits, "proving who is at the two ends of a connection"));
  }
}

}  // namespace omnes::core::bootstrap
