// Damaged plans: whatever the interpreter finds wrong, the verifier must reject.
#include "mutants.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "algorithms/registry.h"
#include "plan/interpreter.h"
#include "plan/text.h"
#include "plan/verifier.h"
#include "registry_checks.h"

namespace omnes::plan::testing {
namespace {

// Mutants that the interpreter finds wrong.
#ifdef OMNES_LIGHT_TEST
constexpr int kWanted = 2000;
#else
constexpr int kWanted = 20000;
#endif

bool isRightByPlay(const Set& plans, bool inPlace, uint64_t seed, std::string* reason) {
  for (int32_t credits : {-1, 0}) {
    InterpretOptions options;
    options.inPlace = inPlace;
    options.credits = credits;
    options.seed = seed;
    options.schedules = 3;
    options.maxStates = plans.size() <= 3 ? 300 : 0;
    const base::Status status = interpret(plans, options);
    if (status.isOk()) continue;
    *reason = std::string(status.message()) + (credits == 0 ? " (lent)" : "");
    return false;
  }
  return true;
}

struct Tally {
  int wrong = 0;       // found wrong by the interpreter
  int equivalent = 0;  // right for both
  int stricter = 0;    // rejected by the verifier although the interpreter saw nothing
  int none = 0;        // nothing to change
};

TEST(Mutants, ThatTheInterpreterFindsWrongAreRejected) {
  const char* given = std::getenv("OMNES_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  std::printf("seed %llu (OMNES_TEST_SEED)\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  std::map<std::string, Tally> tallies;
  Tally all;
  const auto algorithms = algorithms::all();
  for (int i = 0; all.wrong < kWanted && i < 10 * kWanted; ++i) {
    const auto& algorithm = algorithms[random() % algorithms.size()];
    const int32_t n = 2 + static_cast<int32_t>(random() % 5);
    const bool inPlace = random() % 2 == 0;
    const int32_t root = hasRoot(algorithm.collective)
                             ? static_cast<int32_t>(random() % static_cast<size_t>(n))
                             : -1;
    if (!supports(algorithm, n, root)) continue;
    Set plans = makePlans(algorithm, n, root);
    const Set original = plans;
    const std::string what = mutate(&plans, &random);
    Tally& tally = tallies[what];
    if (plans == original) {
      ++all.none;
      continue;
    }
    std::string reason;
    const bool isRight = isRightByPlay(plans, inPlace, seed + static_cast<uint64_t>(i), &reason);
    const auto proof = verify(plans, {.inPlace = inPlace});
    if (!proof.isOk()) {
      const std::string message(proof.status().message());
      ASSERT_EQ(message.rfind("property ", 0), 0u) << message;
      ASSERT_NE(message.find("n=" + std::to_string(n)), std::string::npos) << message;
    }
    if (isRight) {
      ++(proof.isOk() ? tally.equivalent : tally.stricter);
      continue;
    }
    ++tally.wrong;
    ++all.wrong;
    ASSERT_FALSE(proof.isOk()) << labelOf(algorithm, n, root) << (inPlace ? " in place" : "")
                               << ", mutant " << i << " (" << what << ") passes, but: " << reason;
  }
  for (const auto& [what, tally] : tallies) {
    if (what.empty()) continue;
    std::printf("%-44s %5d wrong, all rejected; %4d equivalent; %4d rejected though they ran\n",
                what.c_str(), tally.wrong, tally.equivalent, tally.stricter);
    all.equivalent += tally.equivalent;
    all.stricter += tally.stricter;
  }
  std::printf("%-44s %5d wrong, all rejected; %4d equivalent; %4d rejected though they ran\n",
              "all", all.wrong, all.equivalent, all.stricter);
  EXPECT_GE(all.wrong, kWanted);
}

}  // namespace
}  // namespace omnes::plan::testing
