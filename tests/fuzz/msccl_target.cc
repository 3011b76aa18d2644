// MSCCL's XML: any text gives plans or an error.
#include <string_view>

#include "fuzz/plan_checks.h"
#include "fuzz/target.h"
#include "plan/msccl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto plans =
      omnes::plan::fromMscclXml(std::string_view(reinterpret_cast<const char*>(data), size));
  if (plans.isOk()) omnes::fuzz::checkAccepted(plans.value());
  return 0;
}

namespace omnes::fuzz {

std::vector<std::string> seeds() {
  return {
      R"(<algo name="pair" nchannels="1" ngpus="2" proto="Simple" coll="allreduce" inplace="1">
 <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="1"><tb id="0" send="1" recv="1" chan="0">
  <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  <step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
  <step s="2" type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="1" deps="0" hasdep="0"/>
 </tb><tb id="1" send="-1" recv="-1" chan="0">
  <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="0" deps="1" hasdep="1"/>
 </tb></gpu>
 <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="1"><tb id="0" send="0" recv="0" chan="0">
  <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  <step s="1" type="r" srcbuf="i" srcoff="1" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
  <step s="2" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  <step s="3" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  <step s="4" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
 </tb></gpu>
</algo>)",
      R"(<algo name="gather" nchannels="2" ngpus="2" proto="LL" coll="allgather" inplace="0">
 <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0"><tb id="0" send="1" recv="1" chan="1">
  <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  <step s="2" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
 </tb></gpu>
 <gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0"><tb id="0" send="0" recv="0" chan="1">
  <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  <step s="2" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
 </tb></gpu>
</algo>)"};
}

}  // namespace omnes::fuzz
