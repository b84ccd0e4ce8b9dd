// Targets of the archive readers: the members of a zip and of a tar, and the decoders.
#include <algorithm>
#include <array>
#include <string>

#include "formats/archive/archive.h"
#include "formats/archive/tar.h"
#include "formats/codec/codec.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/support/one_line.h"

namespace weightfs::test {
namespace {

// Reads the first bytes of the first members, as format detection does.
void check_members(const archive::Archive& archive) {
  constexpr size_t kMembers = 8;
  std::array<std::byte, 512> buffer;
  for (size_t i = 0; i < std::min(archive.parts.size(), kMembers); ++i) {
    const auto source = archive.parts[i].source.get();
    if (!source) {
      if (!is_one_line(source.error().message)) complain("an error that is not one line");
      continue;
    }
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), (*source)->size()));
    const auto got = (*source)->read(0, std::span(buffer).first(wanted));
    if (got && *got != wanted) complain("a member is shorter than its size");
  }
  for (const Part& part : archive.parts)
    if (part.path.starts_with('/')) complain(quoted(part.path) + " is not a path inside");
}

void run_zip(std::string_view input) {
  const Container container = parse_input(input).named("m.zip");
  if (const auto archive = archive::zip_members(container))
    check_members(*archive);
  else if (!is_one_line(archive.error().message))
    complain("an error that is not one line: " + quoted(archive.error().message));
}

void run_tar(std::string_view input) {
  const Container container = parse_input(input).named("m.tar");
  if (const auto archive = archive::tar_members(container))
    check_members(*archive);
  else if (!is_one_line(archive.error().message))
    complain("an error that is not one line: " + quoted(archive.error().message));
}

// The first byte chooses the decoder, the rest is decoded up to 256 KiB.
void run_codec(std::string_view input) {
  constexpr std::array kDecoders = {codec::inflate_stream, codec::gunzip_stream, codec::xz_stream, codec::zstd_stream,
                                    archive::tar::bzip2_stream};
  constexpr size_t kMaxOutput = 256 << 10;
  if (input.empty()) return;
  const auto stream = kDecoders.at(static_cast<uint8_t>(input[0]) % kDecoders.size())(counted_source(input.substr(1)));
  if (!stream) return;
  std::vector<std::byte> buffer(16 << 10);
  for (size_t all = 0; all < kMaxOutput;) {
    const auto got = (*stream)->next(buffer);
    if (!got && !is_one_line(got.error().message)) complain("an error that is not one line");
    if (!got || *got == 0) return;
    if (*got > buffer.size()) complain("more bytes than there is room for");
    all += *got;
  }
}

}  // namespace

const Target kZipTarget = {.name = "zip",
                           .run = run_zip,
                           .limits = {.memory = 12'000'000, .memory_per_byte = 400},
                           .mutate = mutate_zip,
                           .repair = repair_zip};
const Target kTarTarget = {.name = "tar",
                           .run = run_tar,
                           .limits = {.memory = 100'000'000, .memory_per_byte = 1000},
                           .mutate = mutate_tar,
                           .repair = repair_tar};
// A dictionary of xz takes 80 MiB, a window of zstd 8 MiB.
const Target kCodecTarget = {.name = "codec",
                             .run = run_codec,
                             .limits = {.memory = 100'000'000, .memory_per_byte = 100},
                             .mutate = mutate_numbers};

}  // namespace weightfs::test
