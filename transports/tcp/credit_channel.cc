#include "transports/tcp/credit_channel.h"

#include <algorithm>
#include <cstring>

#include "transports/tcp/socket.h"

namespace omnes::transports::tcp {

void CreditChannel::forget() {
  for (Incoming* link : owed_) link->isListed = false;
  owed_.clear();
  encoded_ = sent_ = 0;
}

ssize_t CreditChannel::flush(int fd) {
  ssize_t total = 0;
  for (;;) {
    if (sent_ == encoded_) {
      if (owed_.empty()) return total;
      encoded_ = sent_ = 0;
      for (Incoming* link : owed_) {
        encode(Credit{link->stream(), link->report()}, out_ + encoded_);
        encoded_ += kCreditBytes;
        link->isListed = false;
      }
      owed_.clear();
    }
    const ssize_t sent = sendSome(fd, out_ + sent_, encoded_ - sent_);
    if (sent < 0) return sent;
    if (sent == 0) return total;
    sent_ += static_cast<size_t>(sent);
    total += sent;
  }
}

ssize_t CreditChannel::read(int fd, std::vector<Credit>* credits) {
  ssize_t total = 0;
  for (;;) {
    iovec into{in_ + received_, sizeof in_ - received_};
    const size_t asked = into.iov_len;
    const ssize_t got = receiveSome(fd, {&into, 1});
    if (got < 0) return got;
    if (got == 0) return total;
    total += got;
    received_ += static_cast<size_t>(got);
    size_t at = 0;
    for (; at + kCreditBytes <= received_; at += kCreditBytes) {
      Credit credit;
      if (!decode(in_ + at, &credit)) return kInvalidCredit;
      credits->push_back(credit);
    }
    std::memmove(in_, in_ + at, received_ - at);
    received_ -= at;
    if (static_cast<size_t>(got) < asked) return total;
  }
}

}  // namespace omnes::transports::tcp
