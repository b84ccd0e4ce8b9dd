// Targets of what servers send beside models: listings of S3, of the Hugging Face Hub and of ModelScope, and block
// lists.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/text.h"
#include "base/values/value.h"
#include "base/verity/block_list.h"
#include "formats/format.h"
#include "protocols/azure/listing.h"
#include "protocols/huggingface/api.h"
#include "protocols/modelscope.h"
#include "protocols/s3/xml.h"
#include "sources/file_list.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/support/one_line.h"

namespace weightfs::test {
namespace {

void check_error(const Error& error) {
  if (!is_one_line(error.message)) complain("an error that is not one line: " + quoted(error.message));
}

// The paths of a listing become files and directories of a tree.
void check_tree(const std::vector<std::string>& paths) {
  FileListBuilder builder;
  for (const std::string& path : paths)
    if (const auto added = builder.add(path, {.bytes = in_memory("")}); !added) return check_error(added.error());
  const auto list = std::move(builder).finish();
  for (const std::string& line : list.warnings)
    if (!is_one_line(line)) complain("a warning that is not one line: " + quoted(line));
  for (const auto& [path, entry] : *list.files) {
    for (size_t begin = 0; begin <= path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      const std::string component = path.substr(begin, end - begin);
      if (component.empty() || component == "." || component == ".." || component.find('\0') != component.npos)
        complain(quoted(path) + " is not a path");
      if (end < path.size() && list.files->contains(path.substr(0, end)))
        complain(quoted(path) + " runs through a file");
      begin = end + 1;
    }
  }
}

void run_s3_listing(std::string_view input) {
  const std::string error = s3::error_text(input);
  if (!error.empty() && !is_one_line(error)) complain("an error of the server that is not one line");
  const auto page = s3::parse_listing(input);
  if (!page) return check_error(page.error());
  std::vector<std::string> paths;
  for (const s3::Object& object : page->objects) {
    if (object.key.empty() || object.size > uint64_t{INT64_MAX}) complain("an object without a key or a size");
    // It is sent as a header.
    if (std::ranges::any_of(object.etag, [](char c) { return c <= ' ' || c >= 0x7f; }))
      complain(quoted(object.etag) + " is not a tag");
    paths.push_back(object.key);
  }
  check_tree(paths);
}

void run_azure_listing(std::string_view input) {
  const std::string error = azure::error_text(input);
  if (!error.empty() && !is_one_line(error)) complain("an error of the server that is not one line");
  const auto page = azure::parse_listing(input);
  if (!page) return check_error(page.error());
  std::vector<std::string> paths;
  for (const azure::Blob& blob : page->blobs) {
    if (blob.name.empty() || blob.size > uint64_t{INT64_MAX}) complain("a blob without a name or a size");
    // It is sent as a header.
    if (std::ranges::any_of(blob.etag, [](char c) { return c <= ' ' || c >= 0x7f; }))
      complain(quoted(blob.etag) + " is not a tag");
    paths.push_back(blob.name);
  }
  check_tree(paths);
}

// The texts are of the same kind, so they share a corpus.
void run_store_listings(std::string_view input) {
  run_s3_listing(input);
  run_azure_listing(input);
}

void run_hub_listing(std::string_view input) {
  const std::string text(input);
  if (const auto revision = huggingface::parse_revision(text); !revision) {
    check_error(revision.error());
  } else {
    // They are parts of URLs and keys.
    if (!huggingface::is_repository_id(revision->id)) complain(quoted(revision->id) + " is not a repository");
    if (!huggingface::is_commit(revision->commit)) complain(quoted(revision->commit) + " is not a commit");
    if (to_json_line(Value(revision->facts)).size() > 1000 + 12 * input.size()) complain("facts of too many bytes");
  }
  const auto files = huggingface::parse_files(text);
  if (!files) return check_error(files.error());
  std::vector<std::string> paths;
  for (const huggingface::ListedFile& file : *files) {
    const int digests = (file.sha256 ? 1 : 0) + (file.git_id ? 1 : 0) + (file.is_digest_hidden ? 1 : 0);
    if (digests != 1) complain(quoted(file.path) + " has not one digest");
    paths.push_back(file.path);
  }
  check_tree(paths);
}

// The texts are of the same kind, so they share a corpus.
void run_hub_listings(std::string_view input) {
  run_hub_listing(input);
  const auto list = modelscope::parse_files(std::string(input));
  if (!list) return check_error(list.error());
  std::vector<std::string> paths;
  for (const modelscope::ListedFile& file : list->files) paths.push_back(file.path);
  for (const std::string& line : list->warnings)
    if (!is_one_line(line)) complain("a warning that is not one line: " + quoted(line));
  check_tree(paths);
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string list_of(std::string_view data) {
  std::string list;
  BlockListBuilder builder(data.size(), [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<void> {
    list.resize(std::max<size_t>(list.size(), offset + bytes.size()));
    std::memcpy(&list[offset], bytes.data(), bytes.size());
    return {};
  });
  if (!builder.add(bytes_of(data)) || !builder.finish()) complain("a block list cannot be computed");
  return list;
}

// Two bytes with the size of a file, the file, and a block list. What a list verifies has no other bytes.
void run_block_list(std::string_view input) {
  if (input.size() < 2) return;
  const size_t size = static_cast<uint8_t>(input[0]) + 256U * static_cast<uint8_t>(input[1]);
  std::string data(input.substr(2, size));
  const std::string_view bytes = input.substr(2 + data.size());
  const bool is_right = bytes == list_of(data);
  const auto list = BlockList::open(counted_source(bytes));
  if (is_right && !list) complain("a right list is refused: " + list.error().message);
  if (!list) return check_error(list.error());
  const auto verified = (*list)->verify(0, bytes_of(data));
  if (is_right && !verified) complain("a right list does not verify its file");
  if (!verified) return check_error(verified.error());
  if (data.empty()) return;
  char& changed = data[data.size() / 2];
  changed = static_cast<char>(changed ^ 1);
  if ((*list)->size() == data.size() && (*list)->verify(0, bytes_of(data))) complain("a changed byte is verified");
}

}  // namespace

const Target kS3ListingTarget = {.name = "s3_listing",
                                 .run = run_store_listings,
                                 .limits = {.memory = 300'000, .memory_per_byte = 300},
                                 .mutate = mutate_text};
const Target kHubListingTarget = {.name = "hub_listing",
                                  .run = run_hub_listings,
                                  .limits = {.memory = 300'000, .memory_per_byte = 300},
                                  .mutate = mutate_text};
const Target kBlockListTarget = {.name = "block_list",
                                 .run = run_block_list,
                                 .limits = {.memory = 300'000, .memory_per_byte = 100},
                                 .mutate = mutate_numbers};

}  // namespace weightfs::test
