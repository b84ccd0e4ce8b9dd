// Zips and tars, valid and invalid.
#include <fmt/core.h>

#include <string_view>

#include "tests/fuzz/seeds.h"
#include "tests/support/small_models.h"

namespace weightfs::test {
namespace {

using tars::pax_record;
using tars::tar_block;
using tars::TarBuilder;

// Targets of links.
std::vector<std::string> targets() {
  return {"d/a",
          "..",
          "../..",
          "/etc/passwd",
          "../../x",
          "a/../../b",
          "",
          ".",
          "link0",
          "link9",
          std::string(4095, 'x'),
          std::string(4096, 'x'),
          "//",
          "\xFF",
          "a\nb",
          "inner.safetensors"};
}

struct Link {
  std::string path, target;
};

std::string times(int count, std::string_view text) {
  std::string all;
  for (; count > 0; --count) all += text;
  return all;
}

// Links whose directories cannot all be shown as such: there are files of their names, or they are too many.
std::vector<Link> links_under_files() {
  return {{"a/b/c/d", "../../../x"}, {"q/r", "../x"}, {times(40, "e/") + "link", times(33, "../") + "x"}};
}

void add_zip_members(Seeds& seeds) {
  ZipBuilder names;
  for (const std::string& name : hostile_names()) names.stored(name, "x");
  names.stored("caf\x82", "x").made_by = 0;
  names.stored("\xC3\xA9", "y").flags = kUtf8Flag;
  seeds["zip-names"] = names.build();

  ZipBuilder links;
  int number = 0;
  for (const std::string& target : targets()) links.link(fmt::format("link{}", number++), target);
  links.packed("deflated-link", 8, deflate_stored("d/a"), "d/a").attributes = 0120777U << 16;
  links.link("broken-link", "d/a").crc = 7;
  links.stored("link0/below", "x");
  seeds["zip-links"] = links.build();

  ZipBuilder escaped;
  for (const char* file : {"a", "a/b", "a/b/c", "q"}) escaped.stored(file, "x");
  for (const auto& [path, target] : links_under_files()) escaped.link(path, target);
  seeds["zip-links-under-files"] = escaped.build();
}

void add_zip_lies(Seeds& seeds) {
  ZipBuilder lies;
  lies.stored("crc", "x").crc = 7;
  lies.deflated("size", "abc").size = 7;
  lies.deflated("short", "abc").size = 1;
  lies.deflated("vast", "abc").size = 1ULL << 31;
  lies.zstandard("zstd-size", "abc").size = 9;
  lies.stored("unequal", "abc").size = 7;
  lies.stored("beyond", "abc").stored_size = 1U << 30;
  lies.deflated("beyond-deflated", "abc").stored_size = 1U << 30;
  lies.stored("method", "abc").method = 12;
  lies.stored("encrypted", "abc").flags = kEncryptedFlag;
  lies.stored("elsewhere", "abc").offset = 1U << 20;
  lies.stored("first", "abc").offset = 0;
  lies.stored("other", "abc").local_name = "another-name";
  lies.stored("extra", "abc").local_extra = le(0xCAFE, 2) + le(2, 2) + "xx";
  lies.stored("descriptor", "abc").flags = kDescriptorFlag;
  lies.stored("zip64", "abc").zip64 = true;
  lies.deflated("codes", "abc").data = "\x07garbage";
  lies.zstandard("magic", "abc").data = "no frame";
  seeds["zip-lies"] = lies.build();

  ZipBuilder plain;
  plain.stored("a", "a").offset = 0;
  plain.stored("a", "b");
  seeds["zip-ends-twice"] = plain.comment(ZipBuilder::end_record(1, 47, 0)).build();
  seeds["zip-junk"] = plain.comment("").junk("#!/bin/sh\n").build();
  seeds["zip-count"] = plain.junk("").claiming(60'000).build();
  seeds["zip-directory"] = plain.claiming(2).claiming_directory(1U << 30, 2).build();
  seeds["zip-64"] = ZipBuilder().zip64().build();
  ZipBuilder large;
  large.stored("a", "a").zip64 = true;
  seeds["zip-64-member"] = large.zip64().build();
  seeds["zip-64-count"] = large.claiming(~0ULL).build();
  seeds["zip-empty"] = ZipBuilder().build();
}

void add_zip_bombs(Seeds& seeds) {
  ZipBuilder bombs;
  bombs.packed("deflate", 8, deflate_bomb(200), std::string(1 + 200 * 258, 'x'));
  bombs.packed("lying", 8, deflate_bomb(200), "x");
  bombs.packed("zstd", 93, zstd::bomb(4), std::string(512 << 10, 'x'));
  bombs.packed("window", 93, zstd::frame(zstd::raw_block("x"), 27), "x");
  bombs.packed("wide", 93, zstd::frame(zstd::raw_block("x"), 31), "x");
  bombs.packed("frames", 93, zstd::sized_frame("a") + zstd::skippable("zz") + zstd::sized_frame("b"), "ab");
  bombs.packed("huffman", 8, sample_deflate(), sample_text());
  bombs.packed("fse", 93, sample_zstd(), sample_text());
  seeds["zip-bombs"] = bombs.build();
}

void add_nested(Seeds& seeds) {
  std::string inner = small_gguf();
  for (int depth = 0; depth < 3; ++depth) {
    ZipBuilder b;
    if (depth == 1)
      b.deflated("d/in.zip", inner);
    else
      b.stored(depth == 0 ? "in.gguf" : "in.zip", inner);
    b.zstandard("in.safetensors", inner_model());
    inner = b.build();
  }
  seeds["zip-nested"] = inner;
  seeds["tar-nested"] = TarBuilder().file("d/in.zip", small_zip()).file("in.tar", tiny_tar()).build();

  // Deeper than is entered, and more than one could count: each member is the same zip.
  std::string deep = inner_model();
  for (int depth = 0; depth < kMaxNestingDepth + 2; ++depth) {
    ZipBuilder b;
    b.stored(depth == 0 ? "m.safetensors" : "0.zip", deep);
    for (const char* name : {"1.zip", "2.zip"}) {
      ZipMember& member = b.stored(name, deep);
      member.data.clear();
      member.stored_size = deep.size();
      member.offset = 0;
    }
    deep = b.build();
  }
  seeds["zip-nested-deep"] = deep;

  ZipBuilder shards;
  shards.stored("s/m-00001-of-00002.gguf", small_gguf_shard(0));
  shards.deflated("s/m-00002-of-00002.gguf", small_gguf_shard(1));
  shards.stored("s/m.safetensors.index.json", small_safetensors_index());
  shards.stored("s/a.safetensors", small_safetensors());
  shards.stored("t/tensor-cache.json", small_tensor_cache());
  shards.stored("t/0.bin", "wwwwwwwwbbbb");
  shards.stored("broken.gguf", "GGUF\3");
  seeds["zip-nested-shards"] = shards.build();
}

void add_tar_members(Seeds& seeds) {
  TarBuilder names;
  for (const std::string& name : hostile_names())
    if (name.size() <= 100) names.file(name, "");
  names.pax(pax_record("path", std::string(300, 'n') + "m")).file("x", "");
  seeds["tar-names"] = names.build();

  TarBuilder links;
  int number = 0;
  for (const std::string& target : targets())
    if (target.size() <= 100) links.link(fmt::format("link{}", number++), target);
  links.hard_link("h1", "h2").hard_link("h2", "h3").hard_link("h3", "h1").hard_link("h4", "d/a");
  links.file("d/a", "1").file("d/a", "2").hard_link("h5", "./d/a").hard_link("h6", "link0");
  seeds["tar-links"] = links.build();

  TarBuilder escaped;
  for (const char* file : {"a", "a/b", "a/b/c", "q"}) escaped.file(file, "x");
  for (const auto& [path, target] : links_under_files()) escaped.link(path, target);
  seeds["tar-links-under-files"] = escaped.build();

  seeds["tar-kinds"] = TarBuilder()
                           .member({.name = "device", .type = '3'})
                           .member({.name = "block", .type = '4'})
                           .member({.name = "fifo", .type = '6'})
                           .member({.name = "contiguous", .type = '7', .size = 1}, "x")
                           .member({.name = "new", .type = 'Z', .size = 1}, "x")
                           .member({.name = "v7", .size = 1, .magic = tars::kV7}, "x")
                           .gnu_long('K', std::string(300, 'k'))
                           .gnu_long('L', std::string(300, 'l'))
                           .link("x", "y")
                           .build();
}

void add_tar_lies(Seeds& seeds) {
  seeds["tar-sizes"] =
      TarBuilder().file("a", "a").member({.name = "vast", .size = (1ULL << 33) - 1}, "x").without_end();
  std::string wide = tar_block({.name = "wide"});
  wide.replace(124, 12, std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 12));
  seeds["tar-negative"] = TarBuilder().file("a", "a").raw(tars::tar_checked(wide)).build();
  wide.replace(124, 12, std::string("\x80\0\0\0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 12));
  seeds["tar-base-256"] = TarBuilder().file("a", "a").raw(tars::tar_checked(wide)).build();
  seeds["tar-pax"] =
      TarBuilder()
          .pax(pax_record("size", "9223372036854775807") + "99 x=y\n" + pax_record("SCHILY.acl.access", "u"))
          .file("a", "a")
          .member({.name = "g", .type = 'g', .size = 20}, pax_record("comment", "x"))
          .pax(pax_record("hdrcharset", "BINARY") + pax_record("path", "\xFF"))
          .file("b", "b")
          .build();
  const std::string sparse = pax_record("GNU.sparse.major", "1") + pax_record("GNU.sparse.minor", "0") +
                             pax_record("GNU.sparse.name", "s") + pax_record("GNU.sparse.realsize", "2148");
  seeds["tar-sparse"] = TarBuilder().pax(sparse).file("x", "1\n4\n2\n" + std::string(506, '\0') + "ab").build();
  seeds["tar-sparse-vast"] = TarBuilder()
                                 .pax(pax_record("GNU.sparse.size", "4611686018427387904") +
                                      pax_record("GNU.sparse.numblocks", "1") + pax_record("GNU.sparse.map", "512,1"))
                                 .file("s", "x")
                                 .build();
  seeds["tar-checksum"] = tar_block({.name = "a"}) + std::string(512, 'x');
  seeds["tar-zeros"] = std::string(1024, '\0');
}

std::string unhex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

// The output of xz, zstd and bzip2 for a tar of one member, `a`, that holds "hello".
void add_compressed_tars(Seeds& seeds) {
  seeds["tar-xz"] = unhex(
      "fd377a585a000004e6d6b4460200210116000000742fe5a3e007ff003c5d00308033501868898301dce26e2105573538564d"
      "56f6b4b033cdd6cf455242850cdd764dae4facc60e72d4ca15b868867f1821788e2252c48d76def10000166ecaf57bd63b80"
      "00015880100000004ab977c2b1c467fb020000000004595a");
  seeds["tar-zstd"] = unhex(
      "28b52ffd640007c50100b282080fb06b0ce409cd4b5ea4f532c2004d012684ccf15585ade6407120ef8e7fefc8bf25072070"
      "1ff7fd658e3a60f2844b0486f393c3024a98d2d9");
  seeds["tar-bzip2"] = unhex(
      "425a6839314159265359afbf47f100002adb80c98040006f000000e2449e000808200054440000193d412453234c27a8018c"
      "ce3e448415eaf4316d7428c93835dc4ec221d1b650d5786bc893a0d08c01352be2ee48a70a1215f7e8fe20");
  const std::string tar = TarBuilder().file("a", "hello").build();
  seeds["tar-gzip-members"] = tars::gzip_stored(tar.substr(0, 700)) + tars::gzip_stored(tar.substr(700)) + "tail";
  seeds["tar-gzip-twice"] = tars::gzip_stored(tars::gzip_stored(tar));
  seeds["tar-gzip-header"] = tars::gzip_stored(tar, 2 | 4 | 8 | 16, std::string("\3\0xyzname\0comment\0\xAB\xCD", 20));
  seeds["tar-gzip-no-tar"] = tars::gzip_stored("hello");
  seeds["tar-gzip-mlf"] = tars::gzip_stored(small_mlf());
  const std::string header = tar_block({.name = "vast", .size = 512 << 10});
  std::string blocks = zstd::raw_block(header, false);
  for (int i = 0; i < 8; ++i) blocks += zstd::run_block('x', 128 << 10, i == 7);
  seeds["tar-zstd-bomb"] = zstd::frame(blocks, 17);
  seeds["tar-zstd-frames"] =
      zstd::sized_frame(tar.substr(0, 600)) + zstd::skippable("x") + zstd::sized_frame(tar.substr(600));
}

}  // namespace

void add_zips(Seeds& seeds) {
  add_zip_members(seeds);
  add_zip_lies(seeds);
  add_zip_bombs(seeds);
  add_nested(seeds);
}

void add_tars(Seeds& seeds) {
  add_tar_members(seeds);
  add_tar_lies(seeds);
  add_compressed_tars(seeds);
}

}  // namespace weightfs::test
