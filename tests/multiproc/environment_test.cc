// What the environment says reaches the library: settings are used, unknown ones warned of, bad
// ones refused.
#include <gtest/gtest.h>

#include "algorithms/registry.h"
#include "multiproc/process_group.h"

namespace omnes::tests {
namespace {

constexpr std::chrono::milliseconds kLimit{60000};

ProcessResult runAlone(std::map<std::string, std::string> environment) {
  ProcessGroup group;
  environment.emplace("OMNES_COMM_ID", freshAddress());
  environment.emplace("OMNES_NRANKS", "1");
  environment.emplace("OMNES_RANK", "0");
  group.start({OMNES_RANK_PROGRAM, "few"}, environment);
  return group.waitForAll(kLimit)[0];
}

TEST(Environment, UnknownVariableIsWarnedOfWithTheNearestName) {
  const ProcessResult result = runAlone({{"OMNES_TIMOUT_MS", "5"}, {"OMNES_DEBUG", "WARN"}});
  EXPECT_NE(result.output.find("OMNES_TIMOUT_MS is ignored; did you mean OMNES_TIMEOUT_MS?"),
            std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("result 0"), std::string::npos) << result.output;
  // Nothing is printed unless asked for.
  const ProcessResult quiet = runAlone({{"OMNES_TIMOUT_MS", "5"}});
  EXPECT_EQ(quiet.output, "ready\nresult 0 all sums are right\n");
}

struct BadValue {
  const char* name;
  const char* value;
  const char* valid;  // what the message must offer
};
void PrintTo(const BadValue& bad, std::ostream* out) { *out << bad.name << "=" << bad.value; }

class Refused : public ::testing::TestWithParam<BadValue> {};

TEST_P(Refused, NamesVariableValueAndWhatIsValid) {
  const BadValue& bad = GetParam();
  const ProcessResult result = runAlone({{bad.name, bad.value}});
  EXPECT_TRUE(result.hasEnded);
  EXPECT_NE(result.output.find("result 4 "), std::string::npos) << result.output;
  for (const char* text : {bad.name, bad.value, bad.valid})
    EXPECT_NE(result.output.find(text), std::string::npos)
        << text << " is not in: " << result.output;
}

INSTANTIATE_TEST_SUITE_P(Environment, Refused,
                         ::testing::Values(BadValue{"OMNES_TIMEOUT_MS", "abc", "0 to "},
                                           BadValue{"OMNES_TIMEOUT_MS", "-1", "0 to "},
                                           BadValue{"OMNES_SLOT_BYTES", "2X", "0 to 1G"},
                                           BadValue{"OMNES_DEBUG", "LOUD", "WARN"},
                                           BadValue{"OMNES_NONTEMPORAL", "maybe", "auto, on, off"},
                                           BadValue{"OMNES_DETERMINISTIC", "2", "true"},
                                           BadValue{"OMNES_ALGO", "nope", "circulant"},
                                           BadValue{"OMNES_TRANSPORTS", "pigeons", "shm"},
                                           BadValue{"OMNES_RANK", "-2", "0 to "},
                                           BadValue{"OMNES_NRANKS", "0", "1 to "}));

// A forced algorithm that quietly gave way to another would make every test "with every algorithm"
// worth nothing.
TEST(Environment, ForcedAlgorithmIsTheOneThatRuns) {
  for (const algorithms::Algorithm& algorithm : algorithms::all()) {
    if (algorithm.collective != plan::Collective::kAllReduce) continue;
    const std::string name(algorithm.name);
    ProcessGroup group;
    group.startRanks(5, {OMNES_RANK_PROGRAM, "few"},
                     {{"OMNES_ALGO", name}, {"OMNES_DEBUG", "INFO"}});
    for (const ProcessResult& result : group.waitForAll(kLimit)) {
      EXPECT_NE(result.output.find("result 0"), std::string::npos) << result.output;
      // Other collectives may not have it.
      size_t calls = 0, forced = 0;
      for (size_t at = 0; (at = result.output.find(": AllReduce of ", at)) != std::string::npos;
           ++at) {
        ++calls;
        const std::string line = result.output.substr(at, result.output.find('\n', at) - at);
        forced += line.find(" by " + name + " in ") != std::string::npos ? 1 : 0;
      }
      EXPECT_GT(calls, 0u) << result.output;
      EXPECT_EQ(forced, calls) << name << ": " << result.output;
    }
  }
}

}  // namespace
}  // namespace omnes::tests
