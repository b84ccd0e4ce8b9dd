// Hostile archives: the cost of reading them is bounded by the budget of the outermost container, even if members share
// data,
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/os/memory.h"
#include "formats/archive/archive.h"
#include "formats/archive/tar.h"
#include "formats/codec/codec.h"
#include "formats/codec/codec_meter.h"
#include "formats/completeness.h"
#include "formats/verify.h"
#include "tests/builders/tar_builder.h"
#include "tests/builders/zip_builder.h"
#include "tests/support/codec_reading.h"
#include "tests/support/libarchive.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_models.h"

namespace weightfs::archive_budget_test {
namespace {

using namespace archive;
using namespace test;
using namespace test::tars;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A disk that counts the bytes read.
class CountingDisk final : public Source {
 public:
  explicit CountingDisk(std::string bytes) : bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t got = TRY(bytes_->read(offset, out));
    bytes_read += got;
    return got;
  }
  std::string identity() const override { return "disk"; }
  mutable std::atomic<uint64_t> bytes_read = 0;

 private:
  SourcePtr bytes_;
};

std::string times(size_t count, std::string_view text) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

// Codecs: input that decodes to almost nothing.

struct EndlessStream {
  const char* name;
  Codec codec;
  std::function<std::string()> bytes;
};

const std::string kEmptyBlock("\0\0\0\xFF\xFF", 5);

// An empty block of dynamic codes: the most expensive input for its size.
std::string empty_dynamic_blocks(size_t count) {
  std::string bytes;
  int used = 8;
  const auto put = [&](uint32_t value, int bits) {
    for (int i = 0; i < bits; ++i, ++used) {
      if (used == 8) bytes += '\0', used = 0;
      bytes.back() = static_cast<char>(static_cast<uint8_t>(bytes.back()) | (value >> i & 1) << used);
    }
  };
  const auto put_code = [&](uint32_t code, int bits) {
    while (bits-- > 0) put(code >> bits & 1, 1);
  };
  for (; count > 0; --count) {
    put(0, 1), put(2, 2), put(0, 5), put(0, 5), put(14, 4);  // 257 literals, one distance, 18 code lengths
    for (const int symbol : {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1})
      put(symbol == 18 ? 1 : symbol <= 1 ? 2 : 0, 3);
    put_code(0, 1), put(127, 7), put_code(0, 1), put(107, 7), put_code(3, 2), put_code(3, 2);
    put_code(0, 1);  // the end of the block
  }
  return bytes;
}

std::string empty_gzip() { return gzip_stored(""); }

[[maybe_unused]] std::string empty_bzip2() { return std::string("BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0", 14); }

const EndlessStream kEndless[] = {
    {"deflate of empty stored blocks", codec::inflate_stream, [] { return times(600'000, kEmptyBlock); }},
    {"deflate of empty dynamic blocks", codec::inflate_stream, [] { return empty_dynamic_blocks(200'000); }},
    {"deflate of a byte before empty blocks", codec::inflate_stream,
     [] { return std::string("\0\1\0\xFE\xFFx", 6) + times(600'000, kEmptyBlock); }},
    {"gzip of empty stored blocks", codec::gunzip_stream,
     [] { return gzip_member(times(600'000, kEmptyBlock), "", 0); }},
    {"gzip of empty members", codec::gunzip_stream, [] { return times(150'000, empty_gzip()); }},
    {"gzip of empty members with names", codec::gunzip_stream,
     [] { return times(30, gzip_stored("", 8, std::string(100'000, 'n') + '\0')); }},
    {"zstd of empty frames", codec::zstd_stream, [] { return times(300'000, zstd::frame(zstd::raw_block(""))); }},
    {"zstd of skippable frames", codec::zstd_stream, [] { return times(300'000, zstd::skippable("")); }},
    {"zstd of a long skippable frame", codec::zstd_stream, [] { return zstd::skippable(std::string(9'000'000, 's')); }},
    {"zstd of empty blocks", codec::zstd_stream,
     [] { return zstd::frame(times(900'000, zstd::raw_block("", false))); }},
    {"zstd of windows that change", codec::zstd_stream,
     [] {
       const std::string small = times(200, zstd::frame(zstd::raw_block("")));
       return times(1'500, zstd::frame(zstd::raw_block(""), 24) + small);
     }},
    {"xz of empty streams", codec::xz_stream,
     [] {
       return times(90'000, std::string("\xFD\x37\x7A\x58\x5A\0\0\4\xE6\xD6\xB4\x46\0\0\0\0\x1C\xDF\x44\x21\x1F\xB6"
                                        "\xF3\x7D\1\0\0\0\0\4\x59\x5A",
                                        32));
     }},
    {"xz of stream padding", codec::xz_stream, [] { return xz::stream("x") + std::string(9'000'000, '\0'); }},
    {"bzip2 of empty streams", tar::bzip2_stream, [] { return times(200'000, empty_bzip2()); }},
};

TEST(CodecBudget, InputThatDecodesToAlmostNothingIsRefused) {
  for (const EndlessStream& endless : kEndless) {
    // AddressSanitizer would poison 3.6 MB for each of 75,000 streams, for over a minute.
    if (sanitized() && endless.codec == tar::bzip2_stream) continue;
    SCOPED_TRACE(endless.name);
    const auto disk = std::make_shared<const CountingDisk>(endless.bytes());
    ASSERT_GT(disk->size(), 2u << 20);
    const uint64_t before = process_memory_used();
    const auto stream = endless.codec(disk);
    const Read read = stream ? read_from(**stream, 1 << 20) : Read{"", stream.error()};
    EXPECT_THAT(read.message(), HasSubstr(" bytes of input decode to only "));
    EXPECT_TRUE(read.error && read.error->code == Code::corrupt);
    EXPECT_LE(read.bytes.size(), 1u);
    EXPECT_LE(disk->bytes_read, (1u << 20) + (256u << 10));
    EXPECT_LE(process_memory_used(), before + (24u << 20));
  }
}

TEST(CodecBudget, EndlessGzipHeaderIsNamed) {
  for (const char flag : {'\x08', '\x10'}) {
    const Read read = decode_all(codec::gunzip_stream, gzip_member("", "", 0, flag, std::string(5'000'000, 'h')));
    EXPECT_EQ(read.message(), "gzip: a header of more than 131072 bytes at byte 0");
  }
}

// libarchive makes a decoder for each. Without the charge they take seconds before 1 MiB of input is read.
TEST(CodecBudget, StreamsOfBzip2AreCharged) {
  const std::string stream("BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0", 14);
  const auto budget = std::make_shared<Budget>(0);
  const auto charge = std::make_shared<codec::DecodeCharge>(budget);
  const codec::DecodeCharge::Active active(charge);
  const auto decoded = codec::charge_decoding(charge, in_memory(times(60'000, stream)), tar::bzip2_stream, 1);
  const Read read = decoded ? read_from(**decoded, 1 << 20) : Read{"", decoded.error()};
  EXPECT_THAT(read.message(), HasSubstr("the time limit of"));
}

TEST(CodecBudget, OutputOfSlowDecodersCostsMore) {
  const auto time_of = [](uint64_t output_cost) {
    const auto budget = std::make_shared<Budget>(0);
    const auto charge = std::make_shared<codec::DecodeCharge>(budget);
    const codec::DecodeCharge::Active active(charge);
    const auto stream =
        codec::charge_decoding(charge, in_memory(gzip_stored(times(1'000, "x"))), codec::gunzip_stream, output_cost);
    EXPECT_EQ(read_from(**stream, 1 << 20).bytes.size(), 1'000u);
    return budget->time_used();
  };
  EXPECT_EQ(time_of(4) - time_of(1), 3 * (time_of(2) - time_of(1)));
  EXPECT_GT(time_of(2), time_of(1));
  const uint64_t gzip = tar::compression_of("\x1F\x8B")->output_cost;
  EXPECT_GT(tar::compression_of("BZh")->output_cost, gzip);
  EXPECT_GT(tar::compression_of(std::string_view("\xFD\x37\x7A\x58\x5A\0", 6))->output_cost, gzip);
}

// The output of usual writers is accepted.
TEST(CodecBudget, StreamsOfUsualWritersAreRead) {
  const std::string line(40, 'l');
  // Flushed after every line, as by Z_FULL_FLUSH.
  const std::string flushed =
      times(100'000, std::string("\0\x28\0\xD7\xFF", 5) + line + kEmptyBlock) + std::string("\1\0\0\xFF\xFF", 5);
  EXPECT_EQ(decode_all(codec::inflate_stream, flushed, 1 << 20).bytes.size(), 4'000'000u);
  // One member a record, blocks of bgzf, which ends with an empty member, and frames with a table to seek by.
  EXPECT_EQ(decode_all(codec::gunzip_stream, times(50'000, gzip_stored(line)), 1 << 20).bytes.size(), 2'000'000u);
  const std::string extra = le(6, 2) + "BC" + le(2, 2) + le(0, 2);
  EXPECT_EQ(decode_all(codec::gunzip_stream,
                       times(100, gzip_stored(std::string(60'000, 'b'), 4, extra)) + gzip_stored("", 4, extra))
                .message(),
            "no error");
  const std::string frames =
      times(5'000, zstd::skippable("size") + zstd::sized_frame(line)) + zstd::skippable(std::string(8 * 5'000, 't'));
  EXPECT_EQ(decode_all(codec::zstd_stream, frames, 1 << 20).bytes.size(), 200'000u);
}

// Archives.

struct Walked {
  std::string error;    // of the model, or the first one of a nested container
  uint64_t models = 0;  // that were read
  size_t parts = 0;     // of the outermost
  uint64_t bytes_read = 0;
  uint64_t most_memory = 0;  // held at once, in bytes
  BudgetPtr budget;
};

// Reads a container and its nested containers, up to this many models.
Walked walk(std::string bytes, std::string name = "m.zip", uint64_t most = 300) {
  Walked walked;
  const auto disk = std::make_shared<const CountingDisk>(std::move(bytes));
  const Container container{std::move(name), disk};
  walked.budget = container.budget;
  const uint64_t before = process_memory_used();
  const auto note = [&](const Error& error) {
    if (walked.error.empty()) walked.error = error.message;
  };
  std::vector<ModelPtr> left;
  const auto take = [&](Result<ModelPtr> model) {
    if (!model) return note(model.error());
    ++walked.models;
    left.push_back(*model);
  };
  auto outer = read_model(container);
  if (outer) {
    walked.parts = outer->parts.size();
    take(std::make_shared<const Model>(*std::move(outer)));
  } else {
    note(outer.error());
  }
  while (!left.empty() && walked.models < most) {
    const ModelPtr model = left.back();
    left.pop_back();
    if (!model->nested) continue;
    const auto nested = model->nested(model);
    if (!nested) {
      note(nested.error());
      continue;
    }
    for (const Nested& one : *nested)
      if (walked.models < most) take(one.model.get());
    walked.most_memory = std::max(walked.most_memory, process_memory_used() - std::min(before, process_memory_used()));
  }
  walked.bytes_read = disk->bytes_read;
  return walked;
}

// Members of one range: the first holds it, the others name its header.
ZipBuilder shared(size_t count, const std::function<ZipMember&(ZipBuilder&)>& add, std::string_view suffix = ".bin") {
  ZipBuilder zip;
  const ZipMember first = add(zip);
  for (size_t i = 1; i < count; ++i) {
    ZipMember& copy = zip.packed(fmt::format("{}{}", i, suffix), first.method, "", "");
    copy.data.clear();
    copy.offset = 0;
    copy.stored_size = first.data.size();
    copy.size = first.size;
    copy.crc = first.crc;
    copy.attributes = first.attributes;
  }
  return zip;
}

const std::function<ZipMember&(ZipBuilder&)> empty_link(uint16_t method, std::string data, uint64_t size) {
  return [=](ZipBuilder& zip) -> ZipMember& {
    ZipMember& member = zip.packed("0.bin", method, data, "");
    member.size = size;
    member.attributes = 0120777U << 16;
    return member;
  };
}

const std::function<ZipMember&(ZipBuilder&)> slow_member(uint16_t method, std::string data, uint64_t size) {
  return [=](ZipBuilder& zip) -> ZipMember& {
    ZipMember& member = zip.packed("0.bin", method, data, "");
    member.size = size;
    return member;
  };
}

// Each level holds the one below, under many names that share it.
std::string nested_zips(int levels, size_t names, bool deflate) {
  std::string inner = small_gguf();
  for (int level = 0; level < levels; ++level)
    inner = shared(
                names,
                [&](ZipBuilder& zip) -> ZipMember& {
                  return deflate ? zip.deflated("0.zip", inner) : zip.stored("0.zip", inner);
                },
                level == 0 ? ".gguf" : ".zip")
                .build();
  return inner;
}

std::string local_headers(size_t count, uint16_t method, const std::function<void(ZipMember&, size_t)>& change) {
  ZipBuilder zip;
  for (size_t i = 0; i < count; ++i) change(zip.packed(fmt::format("{}.bin", i), method, "", ""), i);
  return zip.build();
}

// Compressed members with overlapping ranges, 2,000 in each group. Their local headers are the beginning of the first
// member's data; the data of each begin one block of the group later. All sizes differ.
constexpr size_t kGroup = 2'000;
std::string overlapping(size_t groups, uint64_t stored, bool links) {
  const size_t block = std::string_view(kEmptyBlock).size(), headers = 30 * kGroup;
  ZipBuilder zip;
  uint64_t begin = 0;
  for (size_t group = 0; group < groups; ++group) {
    ZipMember& quoting = zip.packed(fmt::format("quoting{}", group), 8, "", "");
    const uint64_t first = begin + ZipBuilder::local_header(quoting).size();
    for (size_t i = 0; i < kGroup; ++i) {
      const size_t extra = headers - 30 * (i + 1) + block * i;
      ZipMember header;
      header.local_extra = std::string(extra, 'x');
      quoting.data += ZipBuilder::local_header(header).substr(0, 30);
    }
    quoting.data += times(stored / block, kEmptyBlock);
    begin = first + quoting.data.size();
    for (size_t i = 0; i < kGroup; ++i) {
      ZipMember& member = zip.packed(fmt::format("{}.{}.bin", group, i), 8, "", "");
      begin += ZipBuilder::local_header(member).size();
      member.offset = first + 30 * i;
      member.stored_size = stored - block * i;
      member.size = (links ? 100 : stored / 3) + i;
      if (links) member.attributes = 0120777U << 16;
    }
  }
  return zip.build();
}

struct Hostile {
  const char* name;
  std::function<std::string()> bytes;
  const char* file = "m.zip";
  const char* error_part = "";  // part of the error; "" if reading succeeds
};

const Hostile kHostile[] = {
    {"zip: links that share empty blocks",
     [] { return shared(20'000, empty_link(8, times(1'600, kEmptyBlock), 10)).build(); }},
    {"zip: links that share dynamic blocks",
     [] { return shared(20'000, empty_link(8, empty_dynamic_blocks(700), 10)).build(); }},
    {"zip: links that share empty frames",
     [] { return shared(20'000, empty_link(93, times(800, zstd::frame(zstd::raw_block(""))), 10)).build(); }},
    {"zip: links with megabytes of empty blocks",
     [] { return shared(20'000, empty_link(8, times(800'000, kEmptyBlock), 10)).build(); }},
    {"zip: links of one range and many sizes",
     [] {
       return local_headers(4'000, 8, [](ZipMember& m, size_t i) {
         if (i == 0) m.data = times(1'500, kEmptyBlock);
         m.offset = 0, m.stored_size = 7'500, m.size = i, m.attributes = 0120777U << 16;
       });
     }},
    {"zip: heads of one range and many sizes",
     [] {
       return local_headers(4'000, 8, [](ZipMember& m, size_t i) {
         if (i == 0) m.data = times(200'000, kEmptyBlock);
         m.offset = 0, m.stored_size = 1'000'000, m.size = 300'000 + i;
       });
     }},
    {"zip: heads that share empty blocks",
     [] { return shared(20'000, slow_member(8, times(800'000, kEmptyBlock), 5'000)).build(); }},
    {"zip: heads that share dynamic blocks",
     [] { return shared(20'000, slow_member(8, empty_dynamic_blocks(80'000), 1 << 20)).build(); }},
    {"zip: heads that share empty frames",
     [] { return shared(20'000, slow_member(93, times(400'000, zstd::skippable("")), 1 << 20)).build(); }},
    {"zip: heads that share a bomb",
     [] { return shared(20'000, slow_member(93, zstd::bomb(8'000), 8'000ULL << 17)).build(); }},
    {"zip: heads that share a Deflate bomb",
     [] { return shared(20'000, slow_member(8, deflate_bomb(4'000'000), 1 + 258ULL * 4'000'000)).build(); }},
    {"zip: heads of overlapping ranges", [] { return overlapping(1, 1'000'000, false); }, "m.zip", "the time limit of"},
    {"zip: links of overlapping ranges", [] { return overlapping(8, 8'000, true); }, "m.zip", "the time limit of"},
    {"zip: stored members that share a model",
     [] {
       return shared(
                  20'000, [](ZipBuilder& zip) -> ZipMember& { return zip.stored("0.gguf", small_gguf()); }, ".gguf")
           .build();
     }},
    {"zip: compressed members that share a model",
     [] {
       return shared(
                  20'000, [](ZipBuilder& zip) -> ZipMember& { return zip.deflated("0.gguf", small_gguf()); }, ".gguf")
           .build();
     }},
    {"zip: 7 levels of shared members", [] { return nested_zips(7, 10, false); }},
    {"zip: 7 levels of shared compressed members", [] { return nested_zips(7, 10, true); }},
    {"zip: 7 levels of 200 shared members", [] { return nested_zips(7, 200, false); }},
    {"zip: 12 levels", [] { return nested_zips(12, 2, false); }},
    {"zip: a compressed zip of zeros inside",
     [] {
       ZipBuilder zip;
       zip.packed("a.zip", 8, deflate_bomb(8'000'000), "").size = 1 + 258ULL * 8'000'000;
       return zip.build();
     }},
    {"zip: many names of one byte",
     [] { return local_headers(60'000, 0, [](ZipMember& m, size_t) { m.offset = 0; }); }},
    {"zip: names of 60,000 bytes",
     [] {
       ZipBuilder zip;
       for (int i = 0; i < 300; ++i) zip.stored(fmt::format("{}{}", std::string(60'000, 'n'), i), "").local_name = "";
       return zip.build();
     }},
    {"zip: the same name many times",
     [] {
       ZipBuilder zip;
       for (int i = 0; i < 30'000; ++i) zip.stored("n", "");
       return zip.build();
     }},
    {"zip: members of a size beyond all",
     [] {
       return local_headers(1'000, 8, [](ZipMember& m, size_t) { m.zip64 = true, m.size = 1ULL << 62, m.data = "x"; });
     }},
    {"zip: one member of method 99",
     [] {
       ZipBuilder zip;
       zip.stored("a", "1");
       zip.packed("b", 99, "xxxx", "yyyy");
       return zip.build();
     }},
    {"zip: every method that is not known",
     [] {
       return local_headers(400, 1,
                            [](ZipMember& m, size_t i) { m.method = static_cast<uint16_t>(i + 9), m.data = "x"; });
     }},
    {"tar: members of nothing",
     [] {
       TarBuilder tar;
       for (int i = 0; i < 30'000; ++i) tar.file(fmt::format("m{}", i), "");
       return tar.build();
     },
     "m.tar"},
    {"tar: a compressed tar of endless headers",
     [] {
       const std::string block = tar_block({.name = "m"});
       return gzip_stored(times(30'000, block));
     },
     "m.tar.gz"},
    {"tar: a gzip of zeros behind a header",
     [] {
       const std::string head = tar_block({.name = "m"});
       return gzip_stored(head) + gzip_member(deflate_bomb(9'000'000), "", 0);
     },
     "m.tar.gz", "too many bytes of decoded data: the time limit"},
    {"tar: a zstd of zeros behind a header",
     [] { return zstd::sized_frame(tar_block({.name = "m"})) + times(4, zstd::bomb(8'000)); }, "m.tar.zst",
     "too many bytes of decoded data: the time limit"},
    {"tar: empty frames behind a header",
     [] { return zstd::sized_frame(tar_block({.name = "m"})) + times(1'000'000, zstd::skippable("")); }, "m.tar.zst",
     "bytes of input decode to only "},
    {"tar: empty members behind a header",
     [] { return gzip_stored(tar_block({.name = "m"})) + times(300'000, empty_gzip()); }, "m.tar.gz",
     "bytes of input decode to only "},
    {"tar: hard links to one model",
     [] {
       TarBuilder tar;
       tar.file("0.gguf", small_gguf());
       for (int i = 1; i < 5'000; ++i) tar.hard_link(fmt::format("{}.gguf", i), "0.gguf");
       return tar.build();
     },
     "m.tar"},
    {"tar: hard links to hard links",
     [] {
       TarBuilder tar;
       tar.file("0", "x");
       for (int i = 1; i < 20'000; ++i) tar.hard_link(std::to_string(i), std::to_string(i - 1));
       return tar.build();
     },
     "m.tar"},
    {"tar: PAX headers of 70,000 bytes",
     [] {
       TarBuilder tar;
       for (int i = 0; i < 200; ++i)
         tar.pax(pax_record("comment", std::string(70'000, 'c'))).file(std::to_string(i), "");
       return tar.build();
     },
     "m.tar"},
    {"tar: an endless PAX header",
     [] { return TarBuilder().pax(pax_record("comment", std::string(900'000, 'c'))).build(); }, "m.tar",
     "bytes of headers"},
    {"tar: long names of GNU",
     [] {
       TarBuilder tar;
       for (int i = 0; i < 500; ++i) tar.gnu_long('L', fmt::format("{}{}", std::string(60'000, 'n'), i)).file("x", "");
       return tar.build();
     },
     "m.tar"},
    {"tar: long links of GNU",
     [] {
       TarBuilder tar;
       for (int i = 0; i < 500; ++i) tar.gnu_long('K', std::string(4'000, 'l')).link(std::to_string(i), "x");
       return tar.build();
     },
     "m.tar"},
};

TEST(ArchiveBudget, HostileArchivesStayWithinTheBudget) {
  for (const Hostile& hostile : kHostile) {
    SCOPED_TRACE(hostile.name);
    const std::string bytes = hostile.bytes();
    const uint64_t size = bytes.size();
    const Walked walked = walk(bytes, hostile.file);
    SCOPED_TRACE(fmt::format("{} ms charged, {} models", walked.budget->time_used() / 1'000'000, walked.models));
    // Headers that are skipped cost nothing.
    const bool is_skipped = libarchive_skips_records() && hostile.error_part == std::string_view("bytes of headers");
    if (*hostile.error_part != '\0' && !is_skipped)
      EXPECT_THAT(walked.error, HasSubstr(hostile.error_part));
    else
      EXPECT_GE(walked.models, 1u) << walked.error;
    EXPECT_LE(walked.budget->time_used(), walked.budget->time_limit());
    EXPECT_LE(walked.budget->memory_used(), walked.budget->memory_limit());
    EXPECT_LE(walked.most_memory, walked.budget->memory_limit() + 2 * size);
    // Heads of small members are read for each member, shared ones only once.
    EXPECT_LE(walked.bytes_read, 64'000'000 + 8 * size);
  }
}

// Sharing costs nothing: one range is decoded once.
TEST(ArchiveBudget, SharedHeadIsDecodedOnce) {
  const auto zip = shared(5'000, slow_member(8, empty_dynamic_blocks(2'000), 1 << 20)).build();
  // One head takes 3 ms, a member 2 us.
  EXPECT_LT(walk(zip).budget->time_used(), 50'000'000u);
}

TEST(ArchiveBudget, SharedLinkTextIsDecodedOnceAndShown) {
  const auto zip = shared(2'000, [](ZipBuilder& b) -> ZipMember& {
    ZipMember& member = b.deflated("0.bin", "target");
    member.attributes = 0120777U << 16;
    return member;
  });
  const auto disk = std::make_shared<const CountingDisk>(zip.build());
  const auto archive = zip_members({"m.zip", disk});
  ASSERT_TRUE(archive);
  ASSERT_EQ(archive->parts.size(), 2'000u);
  for (const Part& part : archive->parts) EXPECT_EQ(part.link_target, "target");
}

// When the budget is exhausted the remaining members are listed, and one line reports why they cannot be entered.
TEST(ArchiveBudget, ExhaustedBudgetListsMembersWithoutEnteringThem) {
  const std::string zip = overlapping(2, 1'000'000, false);
  const Walked walked = walk(zip);
  EXPECT_EQ(walked.parts, 2 * (kGroup + 1));
  EXPECT_THAT(walked.error, HasSubstr("the time limit of"));
}

TEST(ArchiveBudget, TooManyMembersAreRefusedNamingTheLimit) {
  const std::string tar = times(200'000, tar_block({.name = "m"}));
  const auto budget = std::make_shared<Budget>(0);
  const auto archive = tar_members(Container{"m.tar", in_memory(tar), nullptr, uncached_blobs(), 0, budget});
  ASSERT_FALSE(archive);
  EXPECT_THAT(archive.error().message, HasSubstr("too many members: the memory limit of"));
  EXPECT_LE(budget->memory_used(), budget->memory_limit());
}

TEST(ArchiveBudget, NestedContainersShareTheOutermostBudget) {
  const Container container{"m.zip", in_memory(nested_zips(3, 1, true))};
  const auto outer = std::make_shared<const Model>(*read_model(container));
  const uint64_t before = container.budget->time_used();
  const auto inner = outer->nested(outer)->at(0).model.get();
  ASSERT_TRUE(inner) << inner.error().message;
  const uint64_t after = container.budget->time_used();
  EXPECT_GT(after, before);
  ASSERT_TRUE((*inner)->nested(*inner)->at(0).model.get());
  EXPECT_GT(container.budget->time_used(), after);
}

// What a user reads is not charged.
TEST(ArchiveBudget, ReadingAMemberIsNotCharged) {
  ZipBuilder zip;
  const std::string gguf = small_gguf() + std::string(1 << 20, 'x');
  zip.deflated("m.gguf", gguf);
  const Container container{"m.zip", in_memory(zip.build())};
  const auto outer = std::make_shared<const Model>(*read_model(container));
  const auto inner = outer->nested(outer)->at(0).model.get();
  ASSERT_TRUE(inner);
  const uint64_t before = container.budget->time_used();
  EXPECT_EQ(*read_text(**outer->parts[0].source.get(), 0, gguf.size()), gguf);
  EXPECT_TRUE(read_text(**(*inner)->parts[0].source.get(), 0, gguf.size()));
  EXPECT_EQ(container.budget->time_used(), before);
}

TEST(ArchiveBudget, OneMemberOfMethod99DoesNotRefuseTheZip) {
  ZipBuilder zip;
  zip.stored("a", "1");
  zip.packed("b", 99, "xxxx", "yyyy");
  zip.stored("c", "3");
  auto archive = zip_members({"m.zip", in_memory(zip.build())});
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(*archive->text("a", 10), "1");
  EXPECT_EQ(*archive->text("c", 10), "3");
  EXPECT_THAT(archive->text("b", 10).error().message, HasSubstr("compression method 99"));
  EXPECT_THAT(archive->warnings.lines(), ElementsAre(HasSubstr("member \"b\": compression method 99")));
}

// A sparse member that is one hole.
std::string hole(std::string_view name, uint64_t size) {
  const std::string map = tar_padded(fmt::format("1\n{}\n0\n", size));
  return TarBuilder()
      .pax(pax_record("GNU.sparse.major", "1") + pax_record("GNU.sparse.minor", "0") +
           pax_record("GNU.sparse.name", name) + pax_record("GNU.sparse.realsize", std::to_string(size)))
      .file(fmt::format("GNUSparseFile.0/{}", name), map)
      .without_end();
}

TEST(ArchiveBudget, HoleCostsNothing) {
  constexpr uint64_t kHole = 1'000'000'000;
  const auto disk = std::make_shared<const CountingDisk>(TarBuilder().raw(hole("s", kHole)).build());
  const auto archive = tar_members({"m.tar", disk});
  ASSERT_TRUE(archive) << archive.error().message;
  ASSERT_EQ(archive->parts.size(), 1u);
  const SourcePtr sparse = *archive->parts[0].source.get();
  EXPECT_EQ(sparse->size(), kHole);
  const uint64_t before = disk->bytes_read;
  EXPECT_EQ(*read_text(*sparse, kHole - 1000, 1000), std::string(1000, '\0'));
  EXPECT_EQ(disk->bytes_read, before);
  EXPECT_LT(sparse->occupied(), 1000u);
}

// semantics 20.7: a program that copies all files must get to an end.
TEST(ArchiveBudget, HolesOfExabytesAreRefused) {
  const std::string tar = TarBuilder().raw(hole("s", 8'000'000'000'000'000'000)).file("a", "1").build();
  const auto archive = tar_members({"m.tar", in_memory(tar)});
  if (libarchive_skips_records()) {
    ASSERT_FALSE(archive);
    EXPECT_EQ(archive.error().message, "Tar entry size overflow");
    return;
  }
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_FALSE(read_text(**archive->parts[0].source.get(), 0, 1));
  EXPECT_EQ(*archive->text("a", 10), "1");
  EXPECT_THAT(
      archive->warnings.lines(),
      ElementsAre(HasSubstr("member \"s\": 6.9 EiB of a sparse file in a tar of 4.0 KiB; all such files may have "
                            "1.0 GiB, or 100 times the size of the tar")));
  const Model model = *read_model({"m.tar", in_memory(tar)});
  EXPECT_EQ(completeness_of(model).files, 1u);
  EXPECT_EQ(completeness_of(model).reason->code, Code::corrupt);
}

// Many members may not have what one may not have.
TEST(ArchiveBudget, HolesAreLimitedTogether) {
  TarBuilder tar;
  for (int i = 0; i < 4; ++i) tar.raw(hole(std::to_string(i), 400 << 20));
  const auto archive = tar_members({"m.tar", in_memory(tar.build())});
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->warnings.size(), 2u);
  EXPECT_TRUE(read_text(**archive->parts[1].source.get(), 0, 1));
  EXPECT_FALSE(read_text(**archive->parts[2].source.get(), 0, 1));
}

// verify.

Verification verified(const std::shared_ptr<const CountingDisk>& disk) {
  const Model model = *read_model({"m.zip", disk});
  disk->bytes_read = 0;
  return verify(model, nullptr);
}

TEST(VerifyBudget, SharedMembersAreReadOnce) {
  for (const bool deflate : {false, true}) {
    const std::string text(100'000, 't');
    const auto zip = shared(3'000, [&](ZipBuilder& b) -> ZipMember& {
      return deflate ? b.deflated("0.bin", text) : b.stored("0.bin", text);
    });
    const auto disk = std::make_shared<const CountingDisk>(zip.build());
    const Verification found = verified(disk);
    EXPECT_EQ(found.checked, 3'000u);
    EXPECT_THAT(found.unreadable, IsEmpty());
    EXPECT_LE(disk->bytes_read, 2 * disk->size());
  }
}

TEST(VerifyBudget, SharerWithAnotherChecksumIsWrong) {
  ZipBuilder zip = shared(2, [](ZipBuilder& b) -> ZipMember& { return b.stored("0.bin", "text"); });
  ZipMember& other = zip.stored("other.bin", "");
  other.offset = 0, other.stored_size = 4, other.size = 4, other.crc = 7;
  const auto disk = std::make_shared<const CountingDisk>(zip.build());
  const Verification found = verified(disk);
  EXPECT_EQ(found.checked, 2u);
  EXPECT_THAT(found.wrong, ElementsAre(AllOf(HasSubstr("other.bin"), HasSubstr("should be 00000007"))));
}

TEST(VerifyBudget, OverlappingMembersBeyondTheLimitAreNotChecked) {
  const std::string text(400'000, 't');
  ZipBuilder zip;
  zip.stored("0.bin", text);
  for (size_t i = 1; i < 1'000; ++i) {
    const std::string_view part = std::string_view(text).substr(i);
    ZipMember& member = zip.stored(fmt::format("{}.bin", i), part);
    member.data.clear();
    member.offset = 0;
    member.stored_size = member.size = part.size();
  }
  const auto disk = std::make_shared<const CountingDisk>(zip.build());
  const Verification found = verified(disk);
  EXPECT_GT(found.checked, 100u);
  ASSERT_FALSE(found.unreadable.empty());
  EXPECT_THAT(found.unreadable.front().message,
              AllOf(HasSubstr("not checked: the limit of "), HasSubstr(" of stored bytes is exceeded")));
  EXPECT_LE(disk->bytes_read, 2 * disk->size() + 65'000'000);
}

TEST(VerifyBudget, BombIsNotChecked) {
  ZipBuilder zip;
  for (int i = 0; i < 3; ++i) {
    ZipMember& member = zip.packed(std::to_string(i), 93, zstd::bomb(8'000), "");
    member.size = 8'000ULL << 17;
  }
  const auto disk = std::make_shared<const CountingDisk>(zip.build());
  const Verification found = verified(disk);
  ASSERT_EQ(found.unreadable.size(), 3u);
  EXPECT_THAT(found.unreadable.back().message, HasSubstr("not checked: the limit of "));
}

}  // namespace
}  // namespace weightfs::archive_budget_test
