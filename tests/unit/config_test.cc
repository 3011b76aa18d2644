#include "base/config.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>

namespace omnes::base {
namespace {

Result<Config> parse(std::initializer_list<const char*> variables) {
  std::vector<const char*> list(variables);
  list.push_back(nullptr);
  return Config::fromVariables(list.data());
}

LauncherVariables launcher(std::initializer_list<const char*> variables) {
  std::vector<const char*> list(variables);
  list.push_back(nullptr);
  return launcherVariables(list.data());
}

void expectRefused(const char* variable, std::initializer_list<const char*> parts) {
  const auto config = parse({variable});
  ASSERT_FALSE(config.isOk()) << variable;
  EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
  for (const char* part : parts) {
    EXPECT_NE(config.status().message().find(part), std::string::npos)
        << "no '" << part << "' in: " << config.status().message();
  }
}

TEST(Config, DefaultsWhenNothingIsSet) {
  const auto config = parse({"PATH=/bin"});
  ASSERT_TRUE(config.isOk());
  const Config& c = config.value();
  EXPECT_EQ(c.timeoutMs.value, 1800000);
  EXPECT_EQ(c.initTimeoutMs.value, 60000);
  EXPECT_EQ(c.spin.value, -1);
  EXPECT_EQ(c.slotBytes.value, 0u);
  EXPECT_EQ(c.nonTemporal.value, Choice::kAuto);
  EXPECT_EQ(c.debug.value, DebugLevel::kNone);
  EXPECT_FALSE(c.requireSecret.value);
  for (size_t row = 0; row < settingTable().size(); ++row) EXPECT_FALSE(c.isRowSet(row));
  EXPECT_TRUE(c.warnings.empty());
}

TEST(Config, ValuesOfEveryKind) {
  const auto config =
      parse({"OMNES_TIMEOUT_MS=0", "OMNES_SLOT_BYTES=64KiB", "OMNES_REQUIRE_SECRET=Yes",
             "OMNES_NONTEMPORAL=OFF", "OMNES_DEBUG=trace", "OMNES_ALGO=ring", "OMNES_RANK=3",
             "OMNES_DETERMINISTIC=0", "OMNES_SPIN=-1"});
  ASSERT_TRUE(config.isOk()) << config.status().message();
  const Config& c = config.value();
  EXPECT_EQ(c.timeoutMs.value, 0);
  EXPECT_EQ(c.slotBytes.value, 65536u);
  EXPECT_TRUE(c.requireSecret.value);
  EXPECT_EQ(c.nonTemporal.value, Choice::kOff);
  EXPECT_EQ(c.debug.value, DebugLevel::kTrace);
  EXPECT_EQ(c.algo.value, "ring");
  EXPECT_EQ(c.rank.value, 3);
  EXPECT_TRUE(c.deterministic.isSet);
  EXPECT_FALSE(c.deterministic.value);
  EXPECT_TRUE(c.spin.isSet);
}

TEST(Config, EmptyValueIsUnset) {
  const auto config = parse({"OMNES_TIMEOUT_MS=", "OMNES_DEBUG="});
  ASSERT_TRUE(config.isOk());
  EXPECT_FALSE(config.value().timeoutMs.isSet);
}

TEST(Config, EnvironmentWinsOverTheProgram) {
  const auto config = parse({"OMNES_TIMEOUT_MS=5"});
  ASSERT_TRUE(config.isOk());
  EXPECT_EQ(config.value().timeoutMs.over(7), 5);
  EXPECT_EQ(config.value().initTimeoutMs.over(7), 7);
  EXPECT_EQ(config.value().algo.over("tree"), "tree");
}

TEST(Config, BadValuesNameVariableValueAndWhatIsValid) {
  expectRefused("OMNES_NRANKS=0", {"OMNES_NRANKS", "'0'", "1 to 2147483647"});
  expectRefused("OMNES_RANK=-1", {"OMNES_RANK", "'-1'", "0 to"});
  expectRefused("OMNES_TIMEOUT_MS=soon", {"OMNES_TIMEOUT_MS", "'soon'", "valid: 0 to"});
  expectRefused("OMNES_SLOT_BYTES=2G", {"OMNES_SLOT_BYTES", "'2G'", "0 to 1G"});
  expectRefused("OMNES_SLOT_BYTES=1.5X", {"OMNES_SLOT_BYTES", "'1.5X'"});
  expectRefused("OMNES_DETERMINISTIC=2", {"OMNES_DETERMINISTIC", "'2'", "1, 0, true, false"});
  expectRefused("OMNES_NONTEMPORAL=maybe", {"OMNES_NONTEMPORAL", "'maybe'", "auto, on, off"});
  expectRefused("OMNES_DEBUG=LOUD", {"OMNES_DEBUG", "'LOUD'", "VERSION", "TRACE"});
  expectRefused("OMNES_DEBUG_SUBSYS=init,colls",
                {"OMNES_DEBUG_SUBSYS", "'colls'", "bootstrap", "coll"});
  expectRefused("OMNES_DEBUG_FILE=log.%q", {"OMNES_DEBUG_FILE", "%h", "%p"});
}

TEST(Config, UnknownNamesWarnWithTheNearest) {
  const auto config =
      parse({"OMNES_TIMEOUT=5", "OMNES_DEBUG_SUBSYSTEM=init", "OMNES_XYZZY_PLUGH=1", "OMNESIA=1"});
  ASSERT_TRUE(config.isOk());
  const auto& warnings = config.value().warnings;
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("OMNES_TIMEOUT is"), std::string::npos);
  EXPECT_NE(warnings[0].find("did you mean OMNES_TIMEOUT_MS?"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("OMNES_DEBUG_SUBSYS?"), std::string::npos) << warnings[1];
  EXPECT_EQ(warnings[2].find("did you mean"), std::string::npos) << warnings[2];
}

TEST(Config, ValuesThatMayBeSecretsAreNeverShown) {
  const auto config =
      parse({"OMNES_SECRET_FILE=canary", "OMNES_SECRT=canary", "OMNES_API_KEY=canary"});
  ASSERT_TRUE(config.isOk());
  for (size_t row = 0; row < settingTable().size(); ++row) {
    EXPECT_EQ(config.value().valueText(row).find("canary"), std::string::npos)
        << settingTable()[row].name;
  }
  for (const auto& warning : config.value().warnings)
    EXPECT_EQ(warning.find("canary"), std::string::npos);
  const auto bad = parse({"OMNES_REQUIRE_SECRET=canary"});
  ASSERT_FALSE(bad.isOk());
  EXPECT_EQ(bad.status().message().find("canary"), std::string::npos) << bad.status().message();
  EXPECT_NE(bad.status().message().find("OMNES_REQUIRE_SECRET"), std::string::npos);
}

TEST(Config, TableIsCompleteAndItsDefaultsAreValid) {
  std::set<std::string> names;
  for (size_t row = 0; row < settingTable().size(); ++row) {
    const SettingInfo& info = settingTable()[row];
    EXPECT_TRUE(names.insert(info.name).second) << info.name << " twice";
    EXPECT_EQ(std::string(info.name).rfind("OMNES_", 0), 0u);
    EXPECT_NE(std::string(info.sentence).back(), '.') << info.name;
    EXPECT_EQ(Config().valueText(row), info.defaultValue) << info.name;
    if (info.defaultValue.empty()) continue;
    const std::string variable = std::string(info.name) + "=" + info.defaultValue;
    const auto config = parse({variable.c_str()});
    ASSERT_TRUE(config.isOk()) << config.status().message();
    EXPECT_TRUE(config.value().isRowSet(row));
    EXPECT_EQ(config.value().valueText(row), info.defaultValue);
  }
  EXPECT_GE(names.size(), 17u);
}

TEST(Config, LogSettingsFollow) {
  const auto config =
      parse({"OMNES_DEBUG=info", "OMNES_DEBUG_SUBSYS=init", "OMNES_DEBUG_FILE=x.%p"});
  ASSERT_TRUE(config.isOk());
  const LogSettings log = config.value().logSettings();
  EXPECT_EQ(log.level, DebugLevel::kInfo);
  EXPECT_EQ(log.subsystems, static_cast<uint32_t>(LogSubsystem::kInit));
  EXPECT_EQ(log.filePattern, "x.%p");
}

TEST(Config, ReadsTheRealEnvironment) { EXPECT_TRUE(Config::fromEnvironment().isOk()); }

TEST(Launcher, NoneFound) {
  const auto found = launcher({"HOME=/", "RANK=", "PMI_SIZE=4"});
  EXPECT_FALSE(found.isLaunched());
  EXPECT_FALSE(found.rank.has_value());
  EXPECT_FALSE(found.isOneHost());
}

TEST(Launcher, OpenMpiWinsOverTheSlurmAroundIt) {
  const auto found = launcher({"SLURM_PROCID=0", "SLURM_NTASKS=1", "OMPI_COMM_WORLD_RANK=2",
                               "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
                               "PMIX_RANK=2", "PMIX_NAMESPACE=job1"});
  EXPECT_EQ(found.launcher, "Open MPI");
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.size, 4);
  EXPECT_EQ(found.jobId, "job1");
  EXPECT_TRUE(found.isOneHost());
}

TEST(Launcher, PmiTorchrunAndPmix) {
  const auto pmi = launcher({"PMI_RANK=1", "PMI_SIZE=8", "MPI_LOCALNRANKS=4"});
  EXPECT_EQ(pmi.launcher, "PMI");
  EXPECT_EQ(pmi.rank, 1);
  EXPECT_FALSE(pmi.isOneHost());
  const auto torchrun = launcher({"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
                                  "MASTER_ADDR=node0", "MASTER_PORT=29500"});
  EXPECT_EQ(torchrun.launcher, "torchrun");
  EXPECT_EQ(torchrun.localRank, 1);
  EXPECT_EQ(torchrun.masterAddress, "node0");
  EXPECT_EQ(torchrun.masterPort, 29500);
  const auto pmix = launcher({"PMIX_RANK=0", "PMIX_NAMESPACE=ns"});
  EXPECT_EQ(pmix.launcher, "PMIx");
  EXPECT_FALSE(pmix.size.has_value());
}

TEST(Launcher, SlurmStepsAreWorldsOfTheirOwn) {
  const auto found =
      launcher({"SLURM_PROCID=1", "SLURM_NTASKS=8", "SLURM_NNODES=4", "SLURM_JOB_ID=77",
                "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=1"});
  EXPECT_EQ(found.launcher, "Slurm");
  EXPECT_EQ(found.size, 2);
  EXPECT_EQ(found.jobId, "77.3");
  EXPECT_TRUE(found.isOneHost());
}

TEST(Launcher, NonsenseIsAbsent) {
  const auto found = launcher({"OMPI_COMM_WORLD_RANK=x", "PMI_RANK=-1", "RANK=99999999999"});
  EXPECT_FALSE(found.isLaunched());
}

}  // namespace
}  // namespace omnes::base
