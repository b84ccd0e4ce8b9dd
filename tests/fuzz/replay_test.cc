// Replays the corpora of all fuzz targets: the seeds, and the inputs that once failed or that extend the coverage.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace weightfs::test::replay_test {
namespace {

struct Entry {
  const Target* target;
  std::filesystem::path file;
};

// For GoogleTest.
void PrintTo(const Entry& entry, std::ostream* out) { *out << entry.file; }

std::vector<Entry> corpus() {
  std::vector<Entry> entries;
  for (const Target* target : targets())
    for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(WEIGHTFS_CORPUS) / target->name))
      entries.push_back({target, file.path()});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.file < b.file; });
  return entries;
}

class FuzzCorpus : public testing::TestWithParam<Entry> {};

// A failed check ends the process: the line "[ RUN ]" before it names the file.
TEST_P(FuzzCorpus, PassesAllChecks) {
  const auto& [target, path] = GetParam();
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_TRUE(file);
  run_checked(*target, bytes);
}

INSTANTIATE_TEST_SUITE_P(Files, FuzzCorpus, testing::ValuesIn(corpus()), [](const auto& test) {
  std::string name = std::string(test.param.target->name) + "_" + test.param.file.filename().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace weightfs::test::replay_test
