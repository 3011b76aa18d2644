// A stranger that throws things at the listeners of ranks that meet.
#pragma once

#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_address.h"
#include "unit/bootstrap_ranks.h"

namespace omnes::core::bootstrap {

// One place to attack, and an honest connection to it that was overheard: its hello, and its proof.
struct Target {
  std::string address;
  std::vector<uint8_t> hello;
  std::vector<uint8_t> proof;
};

// Overhears: plays both ends of an honest exchange and keeps what the initiator sent.
inline Target overhear(const std::string& address, const Secret& secret,
                       const ProofIdentity& identity) {
  ProofInitiator initiator(secret, identity);
  ProofAcceptor acceptor(secret, identity);
  Target target{address, {}, {}};
  const auto carry = [](ProofMachine& from, ProofMachine& to) {
    const std::vector<uint8_t> bytes(from.output().begin(), from.output().end());
    from.sent(bytes.size());
    std::copy(bytes.begin(), bytes.end(), to.input().begin());
    to.received(bytes.size());
    return bytes;
  };
  target.hello = carry(initiator, acceptor);
  carry(acceptor, initiator);
  target.proof = carry(initiator, acceptor);
  EXPECT_TRUE(acceptor.isProven());
  return target;
}

// Attacks all targets in turn until told to stop: connects and goes, sends three bytes, sends much
// noise, is silent, replays what it has overheard, or replays it with one bit changed.
class Attacker {
 public:
  explicit Attacker(unsigned seed) : random_(seed), thread_([this] { run(); }) {}
  ~Attacker() {
    // Relaxed: only ends the loop; join orders the rest.
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  void add(Target target) {
    const std::lock_guard<std::mutex> lock(mutex_);
    targets_.push_back(std::move(target));
  }
  // Relaxed: a count that tests wait for; it orders nothing.
  unsigned attacks() const { return attacks_.load(std::memory_order_relaxed); }

 private:
  // How many silent connections it keeps: more than a listener does.
  static constexpr size_t kSilent = 100;

  void run() {
    std::vector<base::UniqueFd> silent;
    while (!stop_.load(std::memory_order_relaxed)) {
      Target target;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!targets_.empty()) target = targets_[next_++ % targets_.size()];
      }
      if (target.address.empty()) {
        std::this_thread::yield();
        continue;
      }
      base::UniqueFd fd = connectTo(target.address);
      // The listener has done its work and gone, or its queue is full.
      if (!fd.isOpen()) continue;
      attack(fd, target);
      if (fd.isOpen()) silent.push_back(std::move(fd));
      if (silent.size() > kSilent)
        silent.erase(silent.begin(), silent.begin() + static_cast<ptrdiff_t>(kSilent / 2));
      attacks_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  static base::UniqueFd connectTo(const std::string& address) {
    const WaitLimits limits{inMs(kPatientMs), &realClock(), -1};
    auto attempt = connectOnce(address, limits, std::chrono::milliseconds(50));
    if (!attempt.isOk() || attempt.value().error != 0) return {};
    return std::move(attempt.value().fd);
  }
  void attack(base::UniqueFd& fd, Target& target) {
    switch (random_() % 6) {
      case 0: fd.reset(); break;
      case 1: sendSome(fd.get(), bytesOf("abc")); break;
      case 2: {
        std::vector<uint8_t> noise(65536);
        for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random_());
        sendSome(fd.get(), noise);
        break;
      }
      case 3: break;  // silent
      case 4: replay(fd, target); break;
      case 5: {
        std::vector<uint8_t>& bytes = random_() % 2 == 0 ? target.hello : target.proof;
        bytes[random_() % bytes.size()] ^= static_cast<uint8_t>(1u << random_() % 8);
        replay(fd, target);
        break;
      }
    }
  }
  static void replay(const base::UniqueFd& fd, const Target& target) {
    sendSome(fd.get(), target.hello);
    sendSome(fd.get(), target.proof);
  }

  std::mt19937 random_;
  std::mutex mutex_;
  std::vector<Target> targets_;  // guarded by mutex_
  size_t next_ = 0;              // guarded by mutex_
  std::atomic<bool> stop_{false};
  std::atomic<unsigned> attacks_{0};
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace omnes::core::bootstrap
