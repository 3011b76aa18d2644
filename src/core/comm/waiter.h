// How a thread waits for operations: it spins, then yields, then sleeps, and now and then lets them
// look at what is dear to look at.
//
// One wait of one thread. Peers that share memory do not wake a sleeper in this version: it looks
// again after a nap, each an eighth longer than the one before. What comes over the network wakes
// it at once, and so does the communicator's own wake-up.
#pragma once

#include <poll.h>

#include <vector>

#include "base/event.h"
#include "base/wait.h"

namespace omnes::core {

class Waiter {
 public:
  explicit Waiter(base::WaitPolicy policy) : ladder_(policy) {}

  // Something has moved: the next miss spins again.
  void reset() {
    ladder_.reset();
    napNs_ = kLeastNapNs;
  }
  // After a miss. True: now is the time for the dear look.
  bool miss() {
    stage_ = ladder_.next();
    return ladder_.timeToCheck();
  }
  // Whether the wait should now sleep().
  bool shouldSleep() const { return stage_ == base::WaitLadder::Stage::kSleep; }
  // Until one of `fds` is readable, at most for a nap.
  void sleep(std::vector<pollfd>* fds);

 private:
  static constexpr int64_t kLeastNapNs = 20'000;
  static constexpr int64_t kMostNapNs = 1'000'000;

  base::WaitLadder ladder_;
  base::WaitLadder::Stage stage_ = base::WaitLadder::Stage::kSpin;
  int64_t napNs_ = kLeastNapNs;
};

}  // namespace omnes::core
