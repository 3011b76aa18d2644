// Kernels alone: GB/s of one operand, for each type and operator, by the number of sources and the
// bytes of an operand. Counters: "operand" (bytes of one operand a second) and "traffic" (all
// sources and the sink).
//   reduce_bench --benchmark_filter='bfloat16/sum/.*'
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace omnes::kernels {
namespace {

// Small numbers in every type: speed must not depend on NaNs or on infinities.
std::vector<uint8_t> makeOperand(base::DataType type, size_t count, size_t seed) {
  std::vector<uint8_t> bytes(count * base::sizeOf(type));
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 37 + seed * 11) % 17) / 4;
  fromFloat32(type, values.data(), bytes.data(), count);
  return bytes;
}

void runReduce(benchmark::State& state, base::DataType type, base::ReduceOp op, bool nonTemporal) {
  const auto sourceCount = static_cast<size_t>(state.range(0));
  const auto bytes = static_cast<size_t>(state.range(1));
  const size_t count = bytes / base::sizeOf(type);
  std::vector<std::vector<uint8_t>> operands;
  std::vector<Source> sources;
  for (size_t s = 0; s < sourceCount; ++s) operands.push_back(makeOperand(type, count, s));
  for (const auto& operand : operands) sources.push_back({operand.data(), Mark::kInput});
  std::vector<uint8_t> result(bytes);
  const Sink sink{result.data(), Mark::kInput, nonTemporal};
  Reduction reduction;
  reduction.type = type;
  reduction.op = op;
  reduction.nranks = static_cast<uint32_t>(sourceCount);
  const ReduceFunction function = selectReduce(type, op);
  for (auto _ : state) {
    function(reduction, sources.data(), sourceCount, &sink, 1, count);
    benchmark::ClobberMemory();
  }
  const auto done = static_cast<double>(state.iterations()) * static_cast<double>(bytes);
  state.counters["operand"] = benchmark::Counter(done, benchmark::Counter::kIsRate);
  state.counters["traffic"] =
      benchmark::Counter(done * static_cast<double>(sourceCount + 1), benchmark::Counter::kIsRate);
}

void runCopy(benchmark::State& state, bool nonTemporal) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<uint8_t> from(bytes, 1);
  std::vector<uint8_t> to(bytes);
  for (auto _ : state) {
    copy(to.data(), from.data(), bytes, nonTemporal);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

void registerAll() {
  for (base::DataType type : base::kAllDataTypes) {
    for (base::ReduceOp op : base::kAllReduceOps) {
      if (!base::isDefined(type, op)) continue;
      const std::string name =
          std::string(base::nameOf(type)) + "/" + std::string(base::nameOf(op));
      benchmark::RegisterBenchmark(name.c_str(), runReduce, type, op, false)
          ->ArgsProduct({{2, 4, 8}, {64, 16 << 10, 256 << 10, 16 << 20}});
      benchmark::RegisterBenchmark((name + "/nt").c_str(), runReduce, type, op, true)
          ->ArgsProduct({{2}, {16 << 20}});
    }
  }
  for (bool nonTemporal : {false, true}) {
    benchmark::RegisterBenchmark(nonTemporal ? "copy/nt" : "copy", runCopy, nonTemporal)
        ->Arg(16 << 10)
        ->Arg(256 << 10)
        ->Arg(64 << 20);
  }
}

}  // namespace
}  // namespace omnes::kernels

int main(int argc, char** argv) {
  benchmark::AddCustomContext("target", omnes::kernels::targetName());
  omnes::kernels::registerAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
