// What a fuzz target and the driver know of each other. libFuzzer needs the entry point only:
//   clang++ -std=c++20 -fsanitize=fuzzer,address -I. -Isrc -Itests tests/fuzz/json_target.cc ...
// gcc has no libFuzzer; there driver.cc mutates the seeds by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Returns 0; aborts on a finding.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace omnes::fuzz {

// Good inputs to begin with.
std::vector<std::string> seeds();

}  // namespace omnes::fuzz
