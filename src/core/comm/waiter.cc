#include "core/comm/waiter.h"

#include <time.h>

#include <algorithm>

namespace omnes::core {

void Waiter::sleep(std::vector<pollfd>* fds) {
  const timespec nap{0, static_cast<long>(napNs_)};
  ppoll(fds->data(), fds->size(), &nap, nullptr);
  napNs_ = std::min(napNs_ + napNs_ / 8, kMostNapNs);
}

}  // namespace omnes::core
