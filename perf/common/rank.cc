#include "common/rank.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace omnes::perf {

std::string failureText(omnesResult_t result, omnesComm_t comm) {
  std::string text = omnesGetLastError(nullptr);
  if (text.empty() && comm != nullptr) text = omnesGetLastError(comm);
  const std::string code = omnesGetErrorString(result);
  return text.empty() ? code : code + ": " + text;
}

Rank::Rank(std::string program, omnesComm_t comm, int rank, int nranks, int localIndex)
    : program_(std::move(program)),
      comm_(comm),
      rank_(rank),
      nranks_(nranks),
      localIndex_(localIndex) {}

Rank::~Rank() {
  if (comm_ != nullptr) omnesCommDestroy(comm_);
}

bool Rank::failCall(omnesResult_t result, const char* call) {
  return fail(kExitLibrary, std::string(call) + ": " + failureText(result, comm_));
}

bool Rank::fail(int exitCode, const std::string& text) {
  if (exitCode_ != kExitOk) return false;
  exitCode_ = exitCode;
  error_ = "rank " + std::to_string(rank_) + ": " + text;
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), error_.c_str());
  omnesCommAbort(std::exchange(comm_, nullptr));
  return false;
}

bool Rank::leave(int exitCode) {
  exitCode_ = exitCode;
  return false;
}

bool Rank::reduce(std::vector<double>* values, omnesRedOp_t op) {
  return ok(omnesAllReduce(values->data(), values->data(), values->size(), omnesFloat64, op, comm_,
                           nullptr),
            "omnesAllReduce");
}

bool Rank::reduce(std::vector<int64_t>* values, omnesRedOp_t op) {
  return ok(omnesAllReduce(values->data(), values->data(), values->size(), omnesInt64, op, comm_,
                           nullptr),
            "omnesAllReduce");
}

bool Rank::gatherTexts(const std::string& mine, std::vector<std::string>* all) {
  constexpr size_t kRoom = 256;
  std::vector<char> table(kRoom * static_cast<size_t>(nranks_), 0);
  // Everyone else has zeros here, so that the sum is the text.
  mine.copy(table.data() + kRoom * static_cast<size_t>(rank_), kRoom - 1);
  if (!ok(omnesAllReduce(table.data(), table.data(), table.size(), omnesUint8, omnesSum, comm_,
                         nullptr),
          "omnesAllReduce")) {
    return false;
  }
  all->clear();
  for (int rank = 0; rank < nranks_; ++rank) {
    all->emplace_back(table.data() + kRoom * static_cast<size_t>(rank));
  }
  return true;
}

}  // namespace omnes::perf
