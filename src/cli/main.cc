// The command "omnes". Exit codes: 0 done, 1 refused (what was named is wrong, or no proof), 2
// wrong command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>

#include "base/text.h"
#include "cli/files.h"
#include "cli/plan_commands.h"

namespace omnes::cli {
namespace {

constexpr int kExitRefused = 1;
constexpr int kExitUsage = 2;

// What the options of all subcommands fill. CLI11 writes through the addresses.
struct Arguments {
  PlanWords words;
  std::optional<int32_t> rank;
  std::string collective;
  std::string format = "json";
  std::string bytes = "1M";
  std::string file;
  std::string output;
};

using Action = std::function<base::Result<std::string>()>;

void addRanks(CLI::App* command, Arguments* arguments) {
  command->add_option("--nranks", arguments->words.nranks, "number of ranks (8)");
  command->add_option("--hosts", arguments->words.hosts,
                      "ranks on each host, as 3,1, for algorithms that go by hosts");
}

// A file or a registered algorithm.
void addWords(CLI::App* command, Arguments* arguments) {
  command
      ->add_option(
          "what", arguments->words.words,
          "FILE of plans (JSON, or MSCCL's XML), or COLLECTIVE ALGORITHM as \"plan list\" has them")
      ->required()
      ->expected(1, 2);
  addRanks(command, arguments);
  command->add_option("--root", arguments->words.root, "root of the collective (0)");
}

void addOutput(CLI::App* command, Arguments* arguments, const char* help) {
  command->add_option("-o,--output", arguments->output, help);
}

base::Result<std::string> runExport(const Arguments& arguments) {
  const auto bytes = base::parseSize(arguments.bytes);
  if (!bytes.isOk()) return bytes.status().withContext("--bytes");
  return exportPlans(arguments.words, arguments.format, bytes.value());
}

void addPlanCommands(CLI::App* plan, Arguments* arguments, Action* action) {
  CLI::App* list = plan->add_subcommand("list", "the registered algorithms and what they cost");
  list->add_option("--collective", arguments->collective, "of this collective only");
  addRanks(list, arguments);
  list->callback(
      [=] { *action = [=] { return listPlans(arguments->collective, arguments->words); }; });

  CLI::App* show = plan->add_subcommand("show", "the steps as text");
  addWords(show, arguments);
  show->add_option("--rank", arguments->rank, "of this rank only");
  show->callback([=] { *action = [=] { return showPlans(arguments->words, arguments->rank); }; });

  CLI::App* verify = plan->add_subcommand(
      "verify", "prove the plans of all ranks; exit code 1, and the step, when there is no proof");
  addWords(verify, arguments);
  verify->callback([=] { *action = [=] { return verifyPlans(arguments->words); }; });

  CLI::App* draw = plan->add_subcommand("draw", "an SVG of at most 16 ranks: rounds and messages");
  addWords(draw, arguments);
  addOutput(draw, arguments, "file to write, FILE.svg (standard output)");
  draw->callback([=] { *action = [=] { return drawPlans(arguments->words); }; });

  CLI::App* give = plan->add_subcommand("export", "the plans for other tools");
  addWords(give, arguments);
  give->add_option(
      "--format", arguments->format,
      "json (ours, which import reads; default), goal (LogGOPSim), or chakra (the nodes as JSON, "
      "not protobuf)");
  give->add_option("--bytes", arguments->bytes,
                   "size of the message, where the format has sizes (1M)");
  addOutput(give, arguments, "file to write (standard output)");
  give->callback([=] { *action = [=] { return runExport(*arguments); }; });

  CLI::App* import =
      plan->add_subcommand("import", "read plans, prove them, write them as our JSON");
  import->add_option("file", arguments->file, "FILE.json, or MSCCL's FILE.xml")->required();
  addOutput(import, arguments, "file to write (standard output)");
  import->callback([=] { *action = [=] { return importPlans(arguments->file);
};
}  // namespace
);
}  // namespace omnes::cli

int run(int argc, const char* const* argv) {
  Arguments arguments;
  Action action;
  CLI::App app{"Tools around the collectives library omnes.", "omnes"};
  app.require_subcommand(1);
  CLI::App* plan = app.add_subcommand("plan", "look at, prove and exchange plans of collectives");
  plan->require_subcommand(1);
  addPlanCommands(plan, &arguments, &action);
  // CLI11 reports by exceptions; they end here.
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const auto text = action();
  const base::Status status =
      text.isOk() ? writeFile(arguments.output, text.value()) : text.status();
  if (status.isOk()) return 0;
  std::fprintf(stderr, "omnes: %.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return kExitRefused;
}

}  // namespace
}  // namespace omnes::cli

int main(int argc, char** argv) { return omnes::cli::run(argc, argv); }
