// Small texts that would become large values or large renderings: each is refused or read, and stays in the budget of
// its container whether it is read or rendered. What is really allocated is counted, by operator new.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <tuple>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/format.h"
#include "fs/layout/layout.h"
#include "fs/tree/listing.h"
#include "tests/builders/mlf_builder.h"
#include "tests/builders/tensor_cache_builder.h"
#include "tests/support/memory_folder.h"

namespace {

std::atomic<int64_t> allocated = 0;
std::atomic<int64_t> peak = 0;

void* counted_or_null(size_t size) {
  void* const memory = std::malloc(std::max<size_t>(size, 1));
  if (memory == nullptr) return nullptr;
  const int64_t now = allocated += static_cast<int64_t>(::malloc_usable_size(memory));
  for (int64_t before = peak; now > before && !peak.compare_exchange_weak(before, now);) {
  }
  return memory;
}

void* counted(size_t size) {
  void* const memory = counted_or_null(size);
  return memory != nullptr ? memory : throw std::bad_alloc();
}

void uncounted(void* memory) {
  allocated -= static_cast<int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return counted(size); }
void* operator new[](size_t size) { return counted(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return counted_or_null(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return counted_or_null(size); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, size_t) noexcept { uncounted(memory); }

namespace weightfs::hostile_values_test {
namespace {

using namespace test;
using testing::HasSubstr;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kLongToml = 2 * kMiB;

struct Case {
  std::string name;
  std::function<Files()> files;
  std::string file;  // that the model is opened by
};

void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

std::string filled(size_t size, const std::function<std::string(size_t)>& part) {
  std::string text;
  for (size_t i = 0; text.size() < size; ++i) text += part(i);
  return text;
}

std::string copies(size_t count, std::string_view part) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

std::string dotted(size_t parts, std::string_view part = "a") {
  return copies(parts - 1, fmt::format("{}.", part)) + std::string(part);
}

constexpr std::string_view kSound = "spec_version = 1\n";

Case toml(const std::string& name, const std::function<std::string()>& text) {
  return {"toml_" + name, [=] { return Files{{"carton.toml", text()}, {"MANIFEST", ""}}; }, "carton.toml"};
}

Case index(const std::string& name, const std::function<std::string()>& text, const std::string& file = "1") {
  return {"index_" + name,
          [=] {
            return Files{{"carton.toml", std::string(kSound)},
                         {"MANIFEST", ""},
                         {"tensor_data/index.toml", text()},
                         {"tensor_data/w", file}};
          },
          "carton.toml"};
}

Case carton(const std::string& name, const std::string& path, const std::function<std::string()>& text) {
  return {"carton_" + name,
          [=] {
            Files files = {{"carton.toml", std::string(kSound)}, {"MANIFEST", ""}};
            files[path] = text();
            return files;
          },
          "carton.toml"};
}

Case mlf(const std::string& name, const std::function<std::string()>& metadata) {
  return {"mlf_" + name,
          [=] {
            Files files = mlf_files(7);
            files["metadata.json"] = metadata();
            return files;
          },
          "metadata.json"};
}

Case cache(const std::string& name, const std::function<std::string()>& index) {
  return {"cache_" + name,
          [=] {
            return Files{{"tensor-cache.json", index()}, {"0.bin", "12345678"}};
          },
          "tensor-cache.json"};
}

std::string hex_of(size_t i) {
  char digits[65];
  std::snprintf(digits, sizeof digits, "%064zx", i);
  return digits;
}

std::string tensor_entry(const std::string& name, const std::string& more = "") {
  return "[[tensor]]\nname = \"" + name + "\"\ndtype = \"uint8\"\nfile = \"w\"\nshape = [1]\n" + more;
}

std::string mlf_around(const std::string& value) {
  return R"({"version": 7, "modules": {"mlp": {"memory": )" + value + "}}}";
}

std::string cache_around(const std::string& value) { return R"({"x": )" + value + R"(, "records": []})"; }

std::vector<Case> cases() {
  const auto brackets = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  return {
      toml("dots", [] { return dotted(12'000) + "=1\n"; }),
      toml("130_dots", [] { return dotted(131) + "=1\n"; }),
      toml("lines_of_9000_dots", [] { return copies(20, dotted(9'000) + "=1\n"); }),
      toml("4_mib_of_dots", [] { return copies(kLongToml / 2, "a."); }),
      toml("4_mib_of_brackets", [] { return "a=" + std::string(kLongToml, '['); }),
      toml("4_mib_of_headers_open", [] { return std::string(kLongToml, '['); }),
      toml("2000_lines_100_deep",
           [] { return filled(100'000, [](size_t i) { return dotted(97) + fmt::format(".k{}=1\n", i); }); }),
      toml("2000_lines_100_deep_apart",
           [] { return filled(400'000, [](size_t i) { return fmt::format("k{}.", i) + dotted(98) + "=1\n"; }); }),
      toml("deep_headers",
           [] { return filled(400'000, [](size_t i) { return "[" + dotted(98) + fmt::format(".k{}]\nx=1\n", i); }); }),
      toml("deep_headers_of_long_names",
           [] {
             const std::string path = dotted(20, std::string(1'000, 'n'));
             return filled(kMiB, [&](size_t i) {
               return i == 0 ? "[" + path + "]\n" : fmt::format("k{}={{}}\nz{}.y.x=1\n", i, i);
             });
           }),
      toml("arrays_of_tables", [] { return filled(kLongToml, [](size_t) { return "[[a]]\n"; }); }),
      toml("many_arrays_of_tables",
           [] { return filled(kLongToml, [](size_t i) { return fmt::format("[[a{}]]\n", i); }); }),
      toml("arrays_of_tables_below", [] { return filled(kLongToml, [](size_t) { return "[[a]]\n[[a.b]]\n"; }); }),
      toml("dotted_tables",
           [] { return filled(kLongToml, [](size_t i) { return fmt::format("a{}.b{}=1\n", i / 2, i); }); }),
      toml("repeated_header", [] { return filled(kLongToml, [](size_t) { return "[a]\n"; }); }),
      toml("repeated_key", [] { return filled(kLongToml, [](size_t) { return "a=1\n"; }); }),
      toml("empty_tables", [] { return "a=[" + copies(kLongToml / 3, "{},") + "]"; }),
      toml("empty_arrays", [] { return "a=[" + copies(kLongToml / 3, "[],") + "]"; }),
      toml("numbers", [] { return "a=[" + copies(kLongToml / 2, "0,") + "]"; }),
      toml("keys", [] { return filled(kLongToml, [](size_t i) { return fmt::format("{}=0\n", i); }); }),
      toml("inline_keys",
           [] { return "a={" + filled(kLongToml - 8, [](size_t i) { return fmt::format("{}=0,", i); }) + "z=0}"; }),
      toml("escapes", [] { return "a=\"" + copies(kLongToml / 6, "\\u0000") + "\""; }),
      toml("controls_as_key", [] { return "\"" + copies(kLongToml / 6, "\\u0001") + "\"=1"; }),
      toml("long_key_of_tables",
           [] {
             return filled(kMiB, [](size_t i) {
               return i == 0 ? "[" + std::string(500'000, 'k') + "]\n" : fmt::format("t{}.x=1\n", i);
             });
           }),
      toml("long_key_of_arrays_of_tables",
           [] {
             const std::string key(100'000, 'k');
             return filled(2 * kMiB,
                           [&](size_t i) { return i == 0 ? "[" + key + "]\nt=[{x=1}" : fmt::format(",{{x={}}}", i); }) +
                    "]";
           }),
      toml("nested_arrays_of_arrays",
           [=] { return filled(kMiB, [&](size_t i) { return fmt::format("k{}={}\n", i, brackets(99)); }); }),
      toml("quotes", [] { return "a=" + std::string(kLongToml, '"'); }),
      toml("comment", [] { return "#" + std::string(kLongToml, '['); }),
      toml("nothing", [] { return std::string(kLongToml, '\n'); }),
      toml("bytes", [] { return std::string(kLongToml, '\xFF'); }),
      toml("self_tests",
           [] {
             return filled(kLongToml, [](size_t) { return "[[self_test]]\n[self_test.inputs]\na=\"@misc/x\"\n"; });
           }),
      toml("common_fields_copied", [] { return "spec_version=1\n[[input]]\nx=[" + copies(kMiB, "\"\",") + "]"; }),

      index("tensors",
            [] { return filled(kLongToml - 200, [](size_t i) { return tensor_entry(std::to_string(i)); }); }),
      index("empty_entries", [] { return filled(kLongToml, [](size_t) { return "[[tensor]]\n"; }); }),
      index("inline_entries", [] { return "tensor=[" + copies(kLongToml / 3, "{},") + "]"; }),
      index("dimensions",
            [] { return "[[tensor]]\nname=\"a\"\ndtype=\"uint8\"\nfile=\"w\"\nshape=[" + copies(kMiB, "1,") + "]"; }),
      index("inner_of_a_long_name",
            [] {
              const std::string outer(kMiB, 'o');
              std::string inner;
              std::string all = filled(2 * kMiB, [&](size_t i) {
                inner += fmt::format("\"{}\",", i);
                return tensor_entry(std::to_string(i));
              });
              return all + "[[tensor]]\nname=\"" + outer + "\"\ndtype=\"nested\"\ninner=[" + inner + "]\n";
            }),
      index("inner_of_many",
            [] {
              return filled(kLongToml - 200, [](size_t i) {
                return fmt::format("[[tensor]]\nname=\"{}\"\ndtype=\"nested\"\ninner=[\"0\",\"1\"]\n", i);
              });
            }),
      index("long_dtypes",
            [] {
              return filled(kMiB, [](size_t i) {
                return "[[tensor]]\nname=\"" + std::to_string(i) + "\"\ndtype=\"" + std::string(10'000, 'd') +
                       std::to_string(i) + "\"\nfile=\"w\"\nshape=[]\n";
              });
            }),
      index(
          "shared_strings",
          [] {
            return filled(500'000, [](size_t i) {
              return fmt::format("[[tensor]]\nname=\"{}\"\ndtype=\"string\"\nfile=\"w\"\nshape=[4]\n", i);
            });
          },
          "data=[\"a\",\"b\",\"c\",\"d\"]"),
      index(
          "strings", [] { return "[[tensor]]\nname=\"s\"\ndtype=\"string\"\nfile=\"w\"\nshape=[1048577]\n"; },
          "data=[" + copies(kMiB, "\"\",") + "\"\"]"),

      carton("missing_files", "MANIFEST",
             [] { return filled(16 * kMiB - 128, [](size_t i) { return fmt::format("{}={}\n", i, hex_of(i)); }); }),
      carton("empty_lines", "MANIFEST", [] { return std::string(16 * kMiB, '\n'); }),
      carton(
          "links", "LINKS",
          [] { return "version=1\n[urls]\n" + filled(kLongToml - 200, [](size_t i) { return hex_of(i) + "=[]\n"; }); }),
      carton("urls", "LINKS", [] { return "version=1\n[urls]\n" + hex_of(1) + "=[" + copies(kMiB, "\"\",") + "]\n"; }),
      carton("deep_links", "LINKS", [] { return "version=1\n[" + dotted(5'000, "urls") + "]\n"; }),

      mlf("brackets", [] { return mlf_around(std::string(16 * kMiB - 100, '[')); }),
      mlf("deep", [=] { return mlf_around("[" + copies(2'000, brackets(90) + ",") + "1]"); }),
      mlf("deep_keys",
          [] { return mlf_around("[" + copies(5'000, copies(90, "{\"a\":") + "1" + copies(90, "}") + ",") + "1]"); }),
      mlf("empty_maps", [] { return mlf_around("[" + copies(4 * kMiB, "{},") + "1]"); }),
      mlf("repeated_keys", [] { return mlf_around("{" + copies(kMiB, "\"a\":1,") + "\"a\":1}"); }),
      mlf("modules",
          [] {
            return "{\"version\":7,\"modules\":{" +
                   filled(kMiB, [](size_t i) { return fmt::format("\"{}\":{{}},", i); }) + "\"z\":{}}}";
          }),
      mlf("escapes", [] { return mlf_around("\"" + copies(2 * kMiB, "\\u0000") + "\""); }),
      mlf("long_number", [] { return mlf_around(std::string(15 * kMiB, '9')); }),
      mlf("shared_main", [] { return mlf_around("{\"functions\":{\"main\":[" + copies(100'000, "0,") + "0]}}"); }),

      cache("escapes", [] { return cache_around("\"" + copies(5 * kMiB, "\\u0000") + "\""); }),
      cache("lists", [] { return cache_around("[" + copies(8 * kMiB, "[],") + "0]"); }),
      cache("shards",
            [] {
              return "{\"records\": [" +
                     filled(20 * kMiB, [](size_t i) { return cache_shard(fmt::format("{}.bin", i), 1, {}) + ","; }) +
                     cache_shard("0.bin", 8, {}) + "]}";
            }),
      cache("one_shard",
            [] {
              return "{\"records\": [" +
                     filled(20 * kMiB, [](size_t) { return cache_shard("0.bin", 8, {}, "\"x\"") + ","; }) +
                     cache_shard("0.bin", 8, {}) + "]}";
            }),
      cache("tensors",
            [] {
              std::vector<std::string> tensors;
              for (size_t i = 0; i < 95'000; ++i)
                tensors.push_back(cache_tensor(std::to_string(i), "[1]", "uint8", "raw", 1, 0));
              return cache_index({cache_shard("0.bin", 8, tensors)});
            }),
      cache("long_names",
            [] {
              std::vector<std::string> tensors;
              for (size_t i = 0; i < 400; ++i)
                tensors.push_back(
                    cache_tensor(copies(60'000, "\x7f") + std::to_string(i), "[1]", "uint8", "raw", 1, 0));
              return cache_index({cache_shard("0.bin", 8, tensors)});
            }),
      cache("deep_metadata",
            [=] { return cache_index({cache_shard("0.bin", 8, {})}, "{\"a\":" + brackets(97) + "}"); }),
  };
}

class HostileValues : public testing::TestWithParam<Case> {};

// Reads all of a rendering in pieces, as cat(1) does.
void read_through(const Result<SourcePtr>& text) {
  if (!text) {
    EXPECT_THAT(text.error().message, HasSubstr("limit")) << text.error().message;
    return;
  }
  std::vector<std::byte> piece(128 * 1024);
  for (uint64_t at = 0; at < (*text)->size(); at += piece.size()) ASSERT_TRUE((*text)->read(at, piece));
}

TEST_P(HostileValues, StayWithinBudget) {
  const Files files = GetParam().files();
  const auto folder = std::make_shared<MemoryFolder>(files);
  Container container{GetParam().file, in_memory(files.at(GetParam().file)), folder};
  uint64_t bytes = 0;
  for (const auto& [path, text] : files) bytes += text.size();
  container.budget = std::make_shared<Budget>(bytes);
  const int64_t before = allocated;
  peak = before;
  {
    auto read = read_model(container);
    if (read) {
      const auto model = std::make_shared<const Model>(std::move(*read));
      EXPECT_EQ(model->budget, container.budget);
      read_through(metadata_json(*model, "m"));
      read_through(metadata_toml(*model, "m"));
      read_through(warnings_text(*model));
      TreeBuilder tree(model);
      std::ignore = tree.add_tensors(views::kTensorsView);
      read_through(tensor_index(std::move(tree).freeze()));
      for (const auto& [place, strings] : model->per_tensor->strings) (void)strings.get();
    } else {
      EXPECT_NE(read.error().code, Code::io);
    }
    EXPECT_LE(container.budget->memory_used(), container.budget->memory_limit());
    EXPECT_LE(container.budget->time_used(), container.budget->time_limit());
  }
  const auto limit = static_cast<int64_t>(container.budget->memory_limit());
  // The folder of the test copies its files where a real one opens them.
  EXPECT_LE(peak - before, limit + 2 * static_cast<int64_t>(bytes));
  RecordProperty("peak", std::to_string(peak - before));
}

INSTANTIATE_TEST_SUITE_P(All, HostileValues, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace weightfs::hostile_values_test
