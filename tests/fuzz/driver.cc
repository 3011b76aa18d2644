// Runs a fuzz target without libFuzzer: mutates its seeds for some seconds.
//
//   driver SECONDS [SEED [FIRST [COUNT]]]
// Input number i depends on (seed, i) alone, so that a finding, which names both, is replayed by
// "driver 60 SEED i 1". An input that takes longer than 30 s is a finding too.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "fuzz/target.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

using Random = std::mt19937_64;

uint64_t g_seed = 0;
uint64_t g_input = 0;

// Async-signal-safe apart from snprintf of integers, in a process that ends anyway.
void sayWhere() {
  char text[128];
  const int size = std::snprintf(text, sizeof(text), "finding: seed %llu input %llu\n",
                                 static_cast<unsigned long long>(g_seed),
                                 static_cast<unsigned long long>(g_input));
  (void)!write(STDERR_FILENO, text, static_cast<size_t>(size));
}

void onSignal(int number) {
  sayWhere();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void watchForFindings() {
  std::signal(SIGALRM, onSignal);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(sayWhere);
  std::signal(SIGABRT, onSignal);
#else
  for (const int number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) std::signal(number, onSignal);
#endif
}

size_t below(Random* random, size_t limit) { return limit == 0 ? 0 : (*random)() % limit; }

// The digits around or after a place, so that numbers become other numbers.
void replaceNumber(std::string* text, Random* random) {
  static const char* const kNumbers[] = {
      "0",           "1",          "-1",  "2",     "3",
      "7",           "255",        "256", "65536", "2147483647",
      "-2147483648", "4294967296", "1e9", "0.5",   "9223372036854775808",
      "\"1\"",       "null",       "[]"};
  const size_t begin = text->find_first_of("0123456789", below(random, text->size()));
  if (begin == std::string::npos) return;
  size_t end = text->find_first_not_of("0123456789", begin);
  if (end == std::string::npos) end = text->size();
  text->replace(begin, end - begin, kNumbers[below(random, std::size(kNumbers))]);
}

void mutateOnce(std::string* text, const std::string& other, Random* random) {
  const size_t at = below(random, text->size() + 1);
  const size_t length = 1 + below(random, size_t{1} << below(random, 9));
  switch (below(random, 8)) {
    case 0:
      if (at < text->size()) (*text)[at] = static_cast<char>((*random)());
      break;
    case 1: text->erase(at, length); break;
    case 2: text->insert(at, text->substr(below(random, text->size() + 1), length)); break;
    case 3: text->insert(at, other.substr(below(random, other.size() + 1), length)); break;
    case 4: text->insert(at, 1 + below(random, 3), "{}[]<>\"/,&;"[below(random, 11)]); break;
    default: replaceNumber(text, random); break;
  }
}

std::string inputFor(const std::vector<std::string>& seeds, Random* random) {
  std::string text = seeds[below(random, seeds.size())];
  const std::string& other = seeds[below(random, seeds.size())];
  for (size_t left = 1 + below(random, 6); left > 0; --left) mutateOnce(&text, other, random);
  return text;
}

uint64_t numberOr(int argc, char** argv, int index, uint64_t otherwise) {
  return argc > index ? std::strtoull(argv[index], nullptr, 10) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(numberOr(argc, argv, 1, 20));
  g_seed = numberOr(argc, argv, 2, std::random_device()());
  const uint64_t first = numberOr(argc, argv, 3, 0);
  const uint64_t count = numberOr(argc, argv, 4, UINT64_MAX);
  std::printf("seed %llu\n", static_cast<unsigned long long>(g_seed));
  std::fflush(stdout);
  watchForFindings();
  const std::vector<std::string> seeds = omnes::fuzz::seeds();
  for (const std::string& seed : seeds)
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(seed.data()), seed.size());
  uint64_t done = 0;
  for (; done < count && Clock::now() < end; ++done) {
    g_input = first + done;
    std::seed_seq sequence{g_seed, g_seed >> 32, g_input, g_input >> 32};
    Random random(sequence);
    const std::string text = inputFor(seeds, &random);
    alarm(30);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
  std::printf("%llu inputs, no finding\n", static_cast<unsigned long long>(done));
  return done == 0 ? 1 : 0;
}
