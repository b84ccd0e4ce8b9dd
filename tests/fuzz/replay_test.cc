// Replays the corpora of all fuzz targets: the seeds, and the inputs that once failed or that extend the coverage. The
// last are members of covers.zip.
#include <gtest/gtest.h>
#include <zip.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/target.h"

namespace weightfs::test::replay_test {
namespace {

struct Entry {
  const Target* target;
  std::string name;
  std::string bytes;
};

// For GoogleTest.
void PrintTo(const Entry& entry, std::ostream* out) { *out << entry.target->name << '/' << entry.name; }

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return bytes;
}

void add_members(const std::filesystem::path& path, const Target& target, std::vector<Entry>& entries) {
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive{::zip_open(path.c_str(), ZIP_RDONLY, nullptr), ::zip_discard};
  if (archive == nullptr) throw std::runtime_error("cannot open " + path.string());
  for (zip_int64_t i = 0; i < ::zip_get_num_entries(archive.get(), 0); ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    zip_stat_t status{};
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file{::zip_fopen_index(archive.get(), index, 0),
                                                                 ::zip_fclose};
    if (file == nullptr || ::zip_stat_index(archive.get(), index, 0, &status) != 0)
      throw std::runtime_error("cannot read " + path.string());
    std::string bytes(status.size, '\0');
    if (::zip_fread(file.get(), bytes.data(), bytes.size()) != static_cast<zip_int64_t>(bytes.size()))
      throw std::runtime_error("cannot read " + path.string());
    entries.push_back({&target, status.name, std::move(bytes)});
  }
}

std::vector<Entry> corpus() {
  std::vector<Entry> entries;
  for (const Target* target : targets())
    for (const auto& file :
         std::filesystem::directory_iterator(std::filesystem::path(WEIGHTFS_CORPUS) / target->name)) {
      if (file.path().filename() == "covers.zip")
        add_members(file.path(), *target, entries);
      else
        entries.push_back({target, file.path().filename().string(), content(file.path())});
    }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.target->name, std::string_view(a.name)) < std::pair(b.target->name, std::string_view(b.name));
  });
  return entries;
}

class FuzzCorpus : public testing::TestWithParam<Entry> {};

// A failed check ends the process: the line "[ RUN ]" before it names the file.
TEST_P(FuzzCorpus, PassesAllChecks) { run_checked(*GetParam().target, GetParam().bytes); }

INSTANTIATE_TEST_SUITE_P(Files, FuzzCorpus, testing::ValuesIn(corpus()), [](const auto& test) {
  std::string name = std::string(test.param.target->name) + "_" + test.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace weightfs::test::replay_test
