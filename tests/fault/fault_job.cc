#include "fault/fault_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

namespace omnes::tests {

Environment Carrier::environmentOf(int rank) const {
  Environment environment;
  if (transports != nullptr) environment["OMNES_TRANSPORTS"] = transports;
  if (onFirstHost != 0) environment["OMNES_HOST_ID"] = rank < onFirstHost ? "first" : "second";
  return environment;
}

std::vector<std::string> playing(const std::string& scenario) {
  const size_t space = scenario.find(' ');
  if (space == std::string::npos) return {OMNES_RANK_PROGRAM, scenario};
  return {OMNES_RANK_PROGRAM, scenario.substr(0, space), scenario.substr(space + 1)};
}

void startJob(ProcessGroup* group, const Carrier& carrier, int nranks, const std::string& scenario,
              const Environment& more, const std::vector<int>& missing) {
  // Ranks of several hosts cannot meet at an abstract socket.
  const bool isLocal = carrier.onFirstHost == 0 && carrier.transports == nullptr;
  const std::string address = isLocal ? freshAddress() : freshTcpAddress();
  for (int rank = 0; rank < nranks; ++rank) {
    if (std::find(missing.begin(), missing.end(), rank) != missing.end()) continue;
    Environment environment = carrier.environmentOf(rank);
    environment.insert(more.begin(), more.end());
    environment.emplace("OMNES_COMM_ID", address);
    environment.emplace("OMNES_NRANKS", std::to_string(nranks));
    environment.emplace("OMNES_RANK", std::to_string(rank));
    group->start(playing(scenario), environment);
  }
}

int codeOf(const ProcessResult& result) {
  const size_t at = result.output.find("result ");
  return at == std::string::npos ? -1 : std::atoi(result.output.c_str() + at + 7);
}

void expectEnd(const ProcessResult& result, int rank, const Expected& expected) {
  EXPECT_TRUE(result.hasEnded) << "rank " << rank << " hangs: " << result.output;
  EXPECT_EQ(result.signal, 0) << "rank " << rank << ": " << result.output;
  EXPECT_EQ(result.exitCode, 0) << "rank " << rank << ": " << result.output;
  EXPECT_EQ(codeOf(result), expected.code) << "rank " << rank << ": " << result.output;
  EXPECT_LT(result.endedAfter, expected.limit) << "rank " << rank << ": " << result.output;
  for (const std::string& text : expected.texts)
    EXPECT_TRUE(std::regex_search(result.output, std::regex(text)))
        << "rank " << rank << " does not say " << text << ": " << result.output;
}

void expectAll(const std::vector<ProcessResult>& results, const Expected& expected, int except) {
  for (size_t rank = 0; rank < results.size(); ++rank)
    if (static_cast<int>(rank) != except)
      expectEnd(results[rank], static_cast<int>(rank), expected);
}

std::string rankText(int rank) { return "rank " + std::to_string(rank) + "\\b"; }

}  // namespace omnes::tests
