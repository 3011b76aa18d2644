// Jobs of the fault tests: rank programs over every carrier, and what must have become of them.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "multiproc/process_group.h"

namespace omnes::tests {

// Ranks share cores here: the promised bounds times five (docs/CONTRIBUTING.md).
inline constexpr int kSlack = 5;
inline constexpr std::chrono::milliseconds kAbortLimit{1000 * kSlack};
inline constexpr std::chrono::milliseconds kMismatchLimit{1000 * kSlack};
inline constexpr std::chrono::milliseconds kStartLimit{30000};
// Beyond a limit, so that a late rank is told from a hanging one.
inline constexpr std::chrono::milliseconds kBeyond{5000};

using Environment = std::map<std::string, std::string>;

// What the bytes travel on.
struct Carrier {
  const char* name;
  // Ranks of "hosts" of their own: how many on the first, the rest on the second; 0 = one host.
  int onFirstHost = 0;
  const char* transports = nullptr;
  std::chrono::milliseconds deathLimit{1000 * kSlack};  // within which a death is known everywhere

  Environment environmentOf(int rank) const;
};

inline std::ostream& operator<<(std::ostream& out, const Carrier& carrier) {
  return out << carrier.name;
}

inline constexpr Carrier kShm{"shm"};
inline constexpr Carrier kTcp{"tcp", 0, "tcp", std::chrono::milliseconds(2000 * kSlack)};
inline constexpr Carrier kMixed22{"mixed22", 2, nullptr, std::chrono::milliseconds(2000 * kSlack)};
inline constexpr Carrier kMixed31{"mixed31", 3, nullptr, std::chrono::milliseconds(2000 * kSlack)};

// The scenario of the rank program, as "SCENARIO" or "SCENARIO WAY".
std::vector<std::string> playing(const std::string& scenario);

// Starts all ranks but those in `missing`. They meet at a fresh address.
void startJob(ProcessGroup* group, const Carrier& carrier, int nranks, const std::string& scenario,
              const Environment& more = {}, const std::vector<int>& missing = {});

// The number after "result ", -1 when there is none.
int codeOf(const ProcessResult& result);

struct Expected {
  int code = 0;
  std::vector<std::string> texts;  // regular expressions, each of which must be found
  std::chrono::milliseconds limit{60000};
};

// That the process ended by itself, with the code and all the texts, within the limit.
void expectEnd(const ProcessResult& result, int rank, const Expected& expected);
// The same of all ranks but `except`.
void expectAll(const std::vector<ProcessResult>& results, const Expected& expected,
               int except = -1);

// "rank N" and not "rank N1".
std::string rankText(int rank);

}  // namespace omnes::tests
