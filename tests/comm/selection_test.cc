// What OMNES_ALGO may say, and which algorithms are tried for a call.
#include "core/comm/selection.h"

#include <gtest/gtest.h>

#include "core/comm/algorithm_choice.h"

namespace omnes::core {
namespace {

using plan::Collective;

AlgorithmChoice parsed(const std::string& text) {
  auto choice = AlgorithmChoice::parse(text);
  EXPECT_TRUE(choice.isOk()) << text << ": " << choice.status().message();
  return choice.isOk() ? std::move(choice).value() : AlgorithmChoice();
}

std::vector<std::string> namesOf(const std::vector<const algorithms::Algorithm*>& algorithms) {
  std::vector<std::string> out;
  for (const auto* algorithm : algorithms) out.emplace_back(algorithm->name);
  return out;
}

JobShape jobOf(std::vector<int32_t> hosts) {
  JobShape job;
  job.nranks = static_cast<int32_t>(hosts.size());
  job.usesNetwork = true;
  job.hierarchy = plan::simplified({job.nranks, {{std::move(hosts)}}});
  return job;
}

SelectionRules rulesOf(const std::string& text, bool deterministic = false) {
  return {parsed(text), deterministic};
}

std::string firstOf(const SelectionRules& rules, Collective collective, uint64_t count,
                    const JobShape& job) {
  const Candidates found = candidates(rules, {.collective = collective, .count = count}, job);
  return found.algorithms.empty() ? "none" : std::string(found.algorithms[0]->name);
}

TEST(AlgorithmChoice, ReadsListsForAllAndForOne) {
  const AlgorithmChoice choice =
      parsed(" Ring ,LINEAR; AllReduce : ^ ring, direct ;allgather:circulant;");
  EXPECT_EQ(choice.text(), "ring,linear;allreduce:^ring,direct;allgather:circulant");
  EXPECT_EQ(parsed(choice.text()).text(), choice.text());
  EXPECT_TRUE(choice.of(Collective::kAllReduce)->excludes);
  EXPECT_EQ(namesOf(choice.of(Collective::kAllGather)->algorithmsOf(Collective::kAllGather)),
            std::vector<std::string>{"circulant"});
  EXPECT_FALSE(choice.of(Collective::kReduceScatter)->excludes);
  EXPECT_EQ(namesOf(choice.of(Collective::kBarrier)->algorithmsOf(Collective::kBarrier)),
            std::vector<std::string>{});
  EXPECT_TRUE(parsed("").isEmpty());
  EXPECT_TRUE(parsed(" ; ").isEmpty());
  EXPECT_EQ(parsed("").of(Collective::kAllReduce), nullptr);
  EXPECT_EQ(parsed("allreduce:ring").of(Collective::kAllGather), nullptr);
}

// C73: NCCL's name for whatever takes a logarithmic number of rounds.
TEST(AlgorithmChoice, TreeIsWhatEachCollectiveHasOfTheKind) {
  const AlgorithmChoice choice = parsed("Tree");
  const auto named = [&](Collective collective) {
    return namesOf(choice.of(collective)->algorithmsOf(collective));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(named(Collective::kAllReduce), Names{"tree"});
  EXPECT_EQ(named(Collective::kAllGather), Names{"tree"});
  EXPECT_EQ(named(Collective::kBroadcast), Names{"double_binary_tree"});
  EXPECT_EQ(named(Collective::kGather), Names{"binomial"});
  EXPECT_EQ(named(Collective::kAllToAll), Names{"bruck"});
  EXPECT_EQ(named(Collective::kBarrier), Names{});
}

TEST(AlgorithmChoice, TextsThatMeanTheSameAgree) {
  EXPECT_EQ(parsed("allgather:ring;AllReduce:RING,ring").text(),
            parsed("allreduce:ring ;allgather: ring").text());
}

struct BadChoice {
  const char* text;
  std::vector<const char*> parts;  // of the message
};
void PrintTo(const BadChoice& bad, std::ostream* out) { *out << bad.text; }

class BadChoices : public ::testing::TestWithParam<BadChoice> {};

TEST_P(BadChoices, AreNamedWithWhatIsValid) {
  const auto choice = AlgorithmChoice::parse(GetParam().text);
  ASSERT_FALSE(choice.isOk());
  EXPECT_EQ(choice.status().code(), base::Code::kInvalidArgument);
  EXPECT_NE(choice.status().message().find("OMNES_ALGO"), std::string_view::npos);
  for (const char* part : GetParam().parts)
    EXPECT_NE(choice.status().message().find(part), std::string_view::npos)
        << part << " is not in: " << choice.status().message();
}

INSTANTIATE_TEST_SUITE_P(
    Tokens, BadChoices,
    ::testing::Values(
        BadChoice{"rings", {"\"rings\"", "ring", "dissemination", "hierarchical"}},
        BadChoice{"CollnetDirect", {"collnetdirect", "direct", "ring"}},
        BadChoice{"NVLSTree", {"nvlstree", "valid: "}}, BadChoice{"ring,", {"\"\"", "ring"}},
        BadChoice{"^", {"\"\""}}, BadChoice{"ring,^direct", {"\"^direct\""}},
        BadChoice{"allreduce:dissemination", {"dissemination", "AllReduce", "recursive_doubling"}},
        BadChoice{"barrier:ring", {"\"ring\"", "Barrier", "valid: dissemination, direct"}},
        BadChoice{"reduceall:ring", {"\"reduceall\"", "allreduce, reducescatter"}},
        BadChoice{"allreduce:", {"\"\"", "AllReduce"}},
        BadChoice{"ring;direct", {"two lists", "\"ring\"", "\"direct\""}},
        BadChoice{"allreduce:ring;allreduce:direct", {"two lists", "AllReduce"}},
        BadChoice{"barrier:^direct,dissemination", {"leaves no algorithm", "Barrier"}},
        BadChoice{"allreduce:ring:direct", {"ring:direct"}}));

TEST(Selection, ListsAreOrdersOfPreference) {
  const JobShape job = jobOf({0, 1, 2});
  const Shape shape{.collective = Collective::kAllReduce, .count = 1 << 20};
  const Candidates found = candidates(rulesOf("linear,ring"), shape, job);
  ASSERT_GT(found.algorithms.size(), 2u);
  EXPECT_EQ(found.asked, 2u);
  EXPECT_EQ(found.refused, "");
  EXPECT_EQ(found.algorithms[0]->name, "linear");
  EXPECT_EQ(found.algorithms[1]->name, "ring");
}

TEST(Selection, ExcludedOnesComeLast) {
  const Shape shape{.collective = Collective::kAllReduce, .count = 1 << 20};
  const JobShape job = jobOf({0, 1, 2});
  const Candidates found = candidates(rulesOf("^direct,ring"), shape, job);
  const auto names = namesOf(found.algorithms);
  for (size_t i = 0; i < found.asked; ++i)
    EXPECT_TRUE(names[i] != "direct" && names[i] != "ring") << names[i];
  EXPECT_EQ(names.size(), found.asked + 2);
}

TEST(Selection, AnAlgorithmThatACollectiveLacksIsRefusedInWords) {
  const Candidates found =
      candidates(rulesOf("ring"), {.collective = Collective::kBarrier}, jobOf({0, 1}));
  EXPECT_EQ(found.asked, 0u);
  EXPECT_FALSE(found.algorithms.empty());
  for (const char* part : {"\"ring\"", "Barrier", "dissemination", "2 ranks"})
    EXPECT_NE(found.refused.find(part), std::string::npos) << found.refused;
}

TEST(Selection, DeterministicKeepsSumsInRankOrder) {
  const JobShape job = jobOf({0, 0, 1, 1});
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter})
    for (const uint64_t count : {0, 1, 1 << 10, 1 << 24}) {
      const Candidates found =
          candidates(rulesOf("", true), {.collective = collective, .count = count}, job);
      ASSERT_FALSE(found.algorithms.empty());
      for (const auto* algorithm : found.algorithms)
        EXPECT_TRUE(algorithm->addsInRankOrder) << algorithm->name;
    }
  EXPECT_EQ(checkRules(rulesOf("ring", true)).code(), base::Code::kInvalidUsage);
  EXPECT_EQ(checkRules(rulesOf("reducescatter:circulant", true)).code(), base::Code::kInvalidUsage);
  EXPECT_TRUE(checkRules(rulesOf("allgather:ring", true)).isOk());
  EXPECT_TRUE(checkRules(rulesOf("dissemination", true)).isOk());
  EXPECT_TRUE(checkRules(rulesOf("ring,direct", true)).isOk());
  EXPECT_TRUE(checkRules(rulesOf("^direct", true)).isOk());
  EXPECT_TRUE(checkRules(rulesOf("ring")).isOk());
}

// A name that the collective lacks would be passed over in silence.
TEST(Selection, PrefersOnlyWhatTheCollectiveHas) {
  for (const algorithms::Algorithm& registered : algorithms::all())
    for (const int32_t nranks : {1, 2, 3, 5, 8, 17, 64})
      for (const int32_t ranksPerHost : {1, 3, nranks})
        for (const bool sharesCores : {false, true})
          for (uint64_t count = 0; count <= uint64_t{1} << 24; count = count * 8 + 1) {
            std::vector<int32_t> hosts;
            for (int32_t rank = 0; rank < nranks; ++rank) hosts.push_back(rank / ranksPerHost);
            JobShape job = jobOf(hosts);
            job.sharesCores = sharesCores;
            const Collective collective = registered.collective;
            const Shape shape{.collective = collective,
                              .count = count,
                              .root = plan::hasRoot(collective) ? 0 : -1};
            const auto names = preferredNames(shape, job);
            EXPECT_FALSE(names.empty()) << plan::nameOf(collective);
            for (const std::string_view name : names)
              EXPECT_NE(algorithms::find(collective, name), nullptr)
                  << name << " for " << plan::nameOf(collective) << " of " << count << " by "
                  << nranks;
          }
}

// Something must be left for every call: any number of ranks, any size, any hosts.
TEST(Selection, EveryCollectiveHasCandidatesForAllSizes) {
  for (const algorithms::Algorithm& registered : algorithms::all())
    for (const bool deterministic : {false, true})
      for (const int32_t nranks : {1, 2, 3, 8, 17, 64})
        for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 34}) {
          std::vector<int32_t> hosts;
          for (int32_t rank = 0; rank < nranks; ++rank) hosts.push_back(rank / 3);
          const Shape shape{.collective = registered.collective,
                            .count = count,
                            .root = plan::hasRoot(registered.collective) ? 0 : -1};
          const auto found = candidates(rulesOf("", deterministic), shape, jobOf(hosts));
          EXPECT_FALSE(found.algorithms.empty())
              << plan::nameOf(registered.collective) << " " << nranks << " x " << count;
        }
}

TEST(Selection, HierarchicalForLongMessagesOfHostsWithSeveralRanks) {
  const JobShape mixed = jobOf({0, 0, 0, 1});
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    EXPECT_EQ(firstOf({}, collective, 1 << 22, mixed), "hierarchical");
    EXPECT_NE(firstOf({}, collective, 1, mixed), "hierarchical");
    EXPECT_EQ(firstOf({}, collective, 1 << 22, jobOf({0, 1, 2, 3})), "direct");
    EXPECT_EQ(firstOf({}, collective, 1 << 22, jobOf({0, 0, 0, 0})), "direct");
  }
}

}  // namespace
}  // namespace omnes::core
