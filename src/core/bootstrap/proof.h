// The mutual proof: both ends of a fresh connection show that they know the secret of the
// communicator, and agree on who is who, before a byte of it is believed.
//
//   initiator -> acceptor   hello      version, kind, communicator, nranks, from, to, nonce
//   acceptor  -> initiator  challenge  version, nonce; or a refusal
//   initiator -> acceptor   proof      HMAC("initiator", hello, challenge)
//   acceptor  -> initiator  verdict    result, detail, HMAC("acceptor", hello, challenge, result,
//   detail)
//
// The HMAC (SHA-256, compared in constant time) covers whole frames, so every field in them is
// proven, and both nonces, so that a recorded exchange is worth nothing. The initiator proves
// first: a stranger that connects learns nothing that it could grind. Differences in wire version
// and nranks are found *after* the proof; so both sides may believe them.
//
// The machines do no I/O and allocate nothing; they say which bytes to send and where the next
// bytes belong, and never ask for more than the frame they expect. One thread at a time per object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "core/bootstrap/secret.h"
#include "core/bootstrap/socket_io.h"
#include "core/bootstrap/wire.h"

namespace omnes::core::bootstrap {

// What a connection is for. Values are on the wire. Two ranks may have several TCP connections:
// socket i is of kind kTcp + i, so that each of them is proven to be the one it says it is.
enum class LinkKind : uint32_t { kMeeting = 1, kShm = 2, kReport = 3, kKnock = 4, kTcp = 16 };
inline constexpr uint32_t kMaxSocketsPerPeer = 16;
// Precondition: socket < kMaxSocketsPerPeer.
constexpr LinkKind tcpKind(uint32_t socket) {
  return static_cast<LinkKind>(static_cast<uint32_t>(LinkKind::kTcp) + socket);
}

struct ProofIdentity {
  uint64_t commId = 0;
  uint32_t nranks = 0;  // an acceptor may leave 0: any
  uint32_t from = 0;    // rank of the initiator; ignored by acceptors
  uint32_t to = 0;      // rank of the acceptor; kNoRank for the meeting host
  LinkKind kind = LinkKind::kMeeting;
};

// What an initiator said about itself.
struct Hello {
  uint32_t wireVersion = 0;
  ProofIdentity identity;
};

// Why an acceptor says no. Values are on the wire.
enum class Refusal : uint16_t {
  kNone = 0,
  kUnknownCommunicator = 1,
  kWrongRank = 2,  // `to` or `kind` is not what listens here
  kBadProof = 3,
  kVersion = 4,
  kNranks = 5,
  kDuplicate = 6,
  kSpent = 7,
};

inline constexpr size_t kHelloBytes = 72;
inline constexpr size_t kChallengeBytes = 48;
inline constexpr size_t kProofBytes = 40;
inline constexpr size_t kVerdictBytes = 48;
inline constexpr size_t kMacBytes = 32;
inline constexpr size_t kNonceBytes = 32;

enum class ProofState : uint8_t {
  kRunning,
  kDecide,  // acceptor only: the initiator has proven itself; call decide()
  kDone,
  kFailed,
};

// What both ends share: one outgoing and one incoming frame.
class ProofMachine {
 public:
  virtual ~ProofMachine() = default;

  ProofState state() const { return state_; }
  // Why, once state() is kFailed. Output may still be pending then (a refusal for the other side).
  const base::Status& status() const { return status_; }
  // Bytes to send now; hand back how many were.
  std::span<const uint8_t> output() const {
    return std::span(out_).subspan(outSent_, outSize_ - outSent_);
  }
  void sent(size_t bytes) { outSent_ += bytes; }
  // Where the next received bytes belong; empty when nothing is expected.
  std::span<uint8_t> input() { return std::span(in_).subspan(inHave_, inWanted_ - inHave_); }
  void received(size_t bytes);
  // The connection ended before the proof did.
  void closed(int error);
  // Whether the failure is that the connection was lost, so that trying again may help.
  bool wasClosed() const { return wasClosed_; }
  // What the other side gave as its reason to say no; kNone when it did not say no.
  Refusal refusal() const { return refusal_; }

 protected:
  ProofMachine(const Secret& secret, ProofIdentity identity, uint32_t wireVersion)
      : secret_(secret), identity_(identity), wireVersion_(wireVersion) {}
  virtual void onFrame() = 0;
  void expect(size_t bytes);
  // `frame` must be one of the fixed frames; it replaces what was sent before.
  void queue(std::span<const uint8_t> frame);
  void finish();
  void setDecide() { state_ = ProofState::kDecide; }
  void setRefusal(Refusal refusal) { refusal_ = refusal; }
  void fail(base::Code code, std::string message);
  std::array<uint8_t, kMacBytes> macOf(std::string_view label, std::span<const uint8_t> tail) const;
  std::span<const uint8_t> frame() const { return std::span(in_).first(inWanted_); }

  Secret secret_;
  ProofIdentity identity_;
  uint32_t wireVersion_;
  std::array<uint8_t, kHelloBytes> hello_{};
  std::array<uint8_t, kChallengeBytes> challenge_{};

 private:
  ProofState state_ = ProofState::kRunning;
  base::Status status_;
  bool wasClosed_ = false;
  Refusal refusal_ = Refusal::kNone;
  std::array<uint8_t, kHelloBytes> out_{};
  size_t outSize_ = 0;
  size_t outSent_ = 0;
  std::array<uint8_t, kHelloBytes> in_{};
  size_t inWanted_ = 0;
  size_t inHave_ = 0;
};

// `wireVersion` is a parameter for tests only. Precondition: initCrypto() has succeeded.
class ProofInitiator final : public ProofMachine {
 public:
  ProofInitiator(const Secret& secret, const ProofIdentity& identity,
                 uint32_t wireVersion = kWireVersion);

 private:
  void onFrame() override;
  void onChallenge();
  void onVerdict();
  void failRefused(Refusal refusal, uint32_t detail, uint32_t theirVersion);

  bool awaitsVerdict_ = false;
};

class ProofAcceptor final : public ProofMachine {
 public:
  // `kinds` of them are let in, from expected.kind on.
  ProofAcceptor(const Secret& secret, const ProofIdentity& expected,
                uint32_t wireVersion = kWireVersion, uint32_t kinds = 1);

  // Valid from kDecide on, and in kFailed when isProven().
  const Hello& peer() const { return peer_; }
  bool isProven() const { return isProven_; }
  // Ends the exchange. A refusal other than kNone makes the state kFailed. Precondition: state() is
  // kDecide.
  void decide(Refusal refusal, uint32_t detail = 0);

 private:
  void onFrame() override;
  void onHello();
  void onProof();
  void refuseUnproven(Refusal refusal, const char* why);

  bool isKindExpected() const;

  const uint32_t kinds_;
  bool awaitsProof_ = false;
  bool isProven_ = false;
  Hello peer_;
};

// Moves bytes until the socket would block or the machine leaves kRunning. For use from an event
// loop; poll for POLLOUT when machine.output() is not empty, for POLLIN otherwise.
void driveProof(int fd, ProofMachine& machine);
// The same with waiting; returns machine.status(), kTimeout or the abort. A pending refusal has
// been offered to the socket by then.
base::Status runProof(int fd, ProofMachine& machine, const WaitLimits& limits);

}  // namespace omnes::core::bootstrap
