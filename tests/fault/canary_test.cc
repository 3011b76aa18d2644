// A secret that appears in no line of the log at any level, and in no error text: neither as it is
// nor in hexadecimal or base64.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "fault/fault_job.h"

namespace omnes::tests {
namespace {

std::string hex(const std::string& bytes, const char* digits) {
  std::string out;
  for (const unsigned char c : bytes) out += {digits[c >> 4], digits[c & 15]};
  return out;
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const unsigned char c : bytes) {
    bits = bits << 8 | c;
    for (have += 8; have >= 6; have -= 6) out += kDigits[bits >> (have - 6) & 63];
  }
  return out;
}

// Every way in which six bytes in a row of the secret could show.
std::vector<std::string> traces(const std::string& secret) {
  std::vector<std::string> all;
  constexpr size_t kPiece = 6;
  for (size_t at = 0; at + kPiece <= secret.size(); ++at) {
    const std::string piece = secret.substr(at, kPiece);
    all.push_back(piece);
    all.push_back(hex(piece, "0123456789abcdef"));
    all.push_back(hex(piece, "0123456789ABCDEF"));
    // The digits of six bytes depend on where in a group of three they begin; the first three
    // digits of a group are of these bytes alone, so `at` takes care of it.
    all.push_back(base64(piece));
  }
  return all;
}

std::string pieceOf(const std::string& text, const std::string& secret) {
  for (const std::string& trace : traces(secret))
    if (text.find(trace) != std::string::npos) return trace;
  return "";
}

// A known secret whose bytes are printable: a raw one would show as it is.
constexpr char kCanary[] = "Canary-7f3c9e51-Xq0vZtWm";

class Canary : public ::testing::Test {
 protected:
  Canary() {
    char pattern[] = "/tmp/omnes-canary-XXXXXX";
    folder_ = mkdtemp(pattern);
    secretFile_ = folder_ + "/secret";
    {
      std::ofstream file(secretFile_, std::ios::binary);
      file << kCanary;
    }
    chmod(secretFile_.c_str(), 0600);
  }
  ~Canary() override {
    for (const std::string& name : {secretFile_, folder_ + "/id"}) unlink(name.c_str());
    rmdir(folder_.c_str());
  }
  Environment loud() const {
    return {{"OMNES_DEBUG", "TRACE"}, {"OMNES_SECRET_FILE", secretFile_}};
  }

  std::string folder_, secretFile_;
};

TEST(CanarySearch, FindsEveryForm) {
  const std::string secret(kCanary);
  EXPECT_EQ(pieceOf("nothing of it", secret), "");
  for (size_t skip = 0; skip < 3; ++skip) {
    const std::string part = secret.substr(skip, 12);
    EXPECT_NE(pieceOf("x" + part + "x", secret), "");
    EXPECT_NE(pieceOf("x" + hex(part, "0123456789abcdef") + "x", secret), "");
    EXPECT_NE(pieceOf("x" + base64("ab" + part) + "x", secret), "");
    EXPECT_NE(pieceOf("x" + base64("a" + part) + "x", secret), "");
  }
}

struct Scene {
  const char* scenario;
  bool killsOne;
};

TEST_F(Canary, TheSecretFileIsInNoLogAndNoError) {
  for (const Carrier& carrier : {kShm, kTcp, kMixed22})
    for (const Scene& scene :
         {Scene{"few", false}, Scene{"few stream", false}, Scene{"loop-small", true},
          Scene{"mismatch-count", false}, Scene{"leave", false}, Scene{"children", false}}) {
      SCOPED_TRACE(std::string(carrier.name) + " " + scene.scenario);
      ProcessGroup group;
      startJob(&group, carrier, carrier.onFirstHost == 0 ? 3 : 4, scene.scenario, loud());
      if (scene.killsOne) {
        ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
        group.kill(1, SIGKILL);
      }
      for (const ProcessResult& result : group.waitForAll(2 * kStartLimit)) {
        EXPECT_TRUE(result.hasEnded) << result.output;
        EXPECT_NE(result.output.find(" init "), std::string::npos) << "no log: nothing is shown";
        EXPECT_EQ(pieceOf(result.output, kCanary), "");
      }
    }
}

// Errors of the init itself: another secret, a missing rank, a file that others may read.
TEST_F(Canary, ErrorsOfJoiningDoNotShowTheSecret) {
  const std::string address = freshAddress();
  ProcessGroup group;
  for (const char* rank : {"0", "1"}) {
    Environment environment = loud();
    environment.insert({{"OMNES_COMM_ID", address},
                        {"OMNES_NRANKS", "3"},
                        {"OMNES_RANK", rank},
                        {"OMNES_INIT_TIMEOUT_MS", "1000"}});
    if (*rank == '1') environment["OMNES_SECRET_FILE"] = "/dev/null";
    group.start(playing("few"), environment);
  }
  chmod(secretFile_.c_str(), 0600);
  for (const ProcessResult& result : group.waitForAll(kStartLimit)) {
    EXPECT_TRUE(result.hasEnded) << result.output;
    EXPECT_GT(codeOf(result), 0) << result.output;
    EXPECT_EQ(pieceOf(result.output, kCanary), "") << result.output;
  }
}

TEST_F(Canary, TheSecretOfAUniqueIdIsInNoLogAndNoError) {
  ProcessGroup group;
  const std::string idFile = folder_ + "/id";
  group.start(playing("canary"), {{"OMNES_DEBUG", "TRACE"}, {"OMNES_TEST_ID_FILE", idFile}});
  const ProcessResult& result = group.waitForAll(kStartLimit)[0];
  expectEnd(result, 0, {0, {"all has been said", "damaged: [1-9]", " init "}, kStartLimit});
  std::ifstream file(idFile, std::ios::binary);
  const std::string id{std::istreambuf_iterator<char>(file), {}};
  ASSERT_EQ(id.size(), 128u);
  // Bytes 16 to 31 (docs/wire.md).
  EXPECT_EQ(pieceOf(result.output, id.substr(16, 16)), "") << result.output;
}

}  // namespace
}  // namespace omnes::tests
