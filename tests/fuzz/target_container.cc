// Any bytes as a container of each format, and of the detected one: read, and if that succeeds, mounted and walked.
// Beside the container are files for shards, an index and an unpacked directory: those that the input names, and
// siblings with the bytes after the line kSibling, or with the container's own.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "formats/format.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/support/invariants.h"

namespace weightfs::test {
namespace {

constexpr std::string_view kName = "m-00001-of-00003.gguf";

// A blob with a digest is served only if it matches: else none of its bytes is.
void check_digest(const std::string& name, const Source& bytes, const Digest& digest) {
  const auto text = read_text(bytes, 0, bytes.size());
  if (text && sha256(*text) != digest) complain(quoted(name) + ": other bytes served than those of its digest");
  if (text) return;
  std::byte first;
  if (bytes.read(0, std::span(&first, 1))) complain(quoted(name) + ": a byte served that did not prove right");
  if (text.error().code != Code::mismatch) complain(quoted(name) + ": " + text.error().message);
}

// The blobs of a manifest, and the tensors that are one each.
void check_digests(const Model& model) {
  for (const Part& part : model.parts)
    if (const auto* const digest = part.checksums.get<Digest>())
      if (const auto bytes = part.source.get()) check_digest(part.path, **bytes, *digest);
  for (const auto& [place, digest] : model.per_tensor->digests)
    check_digest(std::string(model.tensors[place].name), model.tensors[place].source, digest);
}

void try_as(const Container& container, const Format* format) {
  auto model = read_model(container, format);
  if (!model) return check_refusal(container, model.error());
  if (format == nullptr && !is_model(container).value_or(false)) complain("read, but not recognised");
  if (model->format == "ollama") check_digests(*model);
  const std::string violation = ModelInvariants(std::make_shared<Model>(std::move(*model))).violation();
  if (!violation.empty()) complain(violation);
}

// Entry files of models that are directories, and a file that has a graph beside it.
constexpr std::pair<std::string_view, std::string_view> kKeyFiles[] = {
    {"carton.toml", "carton"},
    {"metadata.json", "tvm-mlf"},
    {"tensor-cache.json", "tensor-cache"},
    {"tensors.json", "weightfs-export"},
    {"saved_model.pb", "tensorflow-savedmodel"},
    {"m.params", "tvm-params"},
};

void run_container(std::string_view bytes) {
  const Input input = parse_input(bytes);
  const Container container = input.named(kName);
  try_as(container, nullptr);
  for (const Format& format : formats()) try_as(container, &format);
  for (const auto& [name, format] : kKeyFiles) {
    const Container key = input.named(name);
    try_as(key, nullptr);
    try_as(key, format_named(format));
  }
}

}  // namespace

// Each input is read and mounted up to 24 times. A zip of zips that share their bytes is entered until its budget ends:
// `zip-nested-deep` has 3^9 of 3 KB.
// An entry of a zip, 90 bytes, may name a nested model of 2 KB that other entries name, too; its tree is walked whole.
const Target kContainerTarget = {.name = "container",
                                 .run = run_container,
                                 .limits = {.memory = 100'000'000,
                                            .memory_per_byte = 1000,
                                            .read = 12'000'000,
                                            .read_per_byte = 10'000,
                                            .time = 2'000'000'000,
                                            .time_per_byte = 500'000},
                                 .mutate = mutate_any,
                                 .repair = repair_any};

}  // namespace weightfs::test
