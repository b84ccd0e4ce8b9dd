#include "formats/verify.h"

#include <array>
#include <cstdio>
#include <map>

#include "base/text.h"
#include "formats/links.h"

namespace weightfs {
namespace {

bool has_checksum(const Part& part) { return part.digest || part.crc32 || part.md5; }

std::string hex32(uint32_t number) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", number);
  return text.data();
}

// Computes what a part carries as its bytes come by.
class Sums {
 public:
  explicit Sums(const Part& part) : part_(part) {
    if (part.digest) sha256_.emplace();
    if (part.md5) md5_.emplace();
  }

  void update(std::span<const std::byte> bytes) {
    if (sha256_) sha256_->update(bytes);
    if (md5_) md5_->update(bytes);
    if (part_.crc32) crc32_ = crc32(crc32_, bytes);
  }

  // What differs, in words; empty when nothing does.
  std::string difference() {
    std::string out;
    const auto compare = [&](const char* name, const std::string& found, const std::string& wanted) {
      if (found != wanted) out += str(out.empty() ? "" : "; ", name, " is ", found, ", should be ", wanted);
    };
    if (sha256_) compare("SHA-256", sha256_->finish().hex(), part_.digest->hex());
    if (md5_) compare("MD5", md5_->finish().hex(), part_.md5->hex());
    if (part_.crc32) compare("CRC-32", hex32(crc32_), hex32(*part_.crc32));
    return out;
  }

 private:
  const Part& part_;
  std::optional<Sha256> sha256_;
  std::optional<Md5Sum> md5_;
  uint32_t crc32_ = 0;
};

class Verifier {
 public:
  Verifier(const Model& model, const std::function<void(const Progress&)>& report) : model_(model), report_(report) {
    for (const Part& part : model.parts) {
      by_path_.emplace(part.path, &part);
      if (const auto source = part.source.peek(); source && has_checksum(part)) whole_ += (*source)->size();
    }
  }

  Verification run() {
    for (const Part& part : model_.parts) {
      if (has_checksum(part))
        check(part);
      else
        ++out_.unchecked;
    }
    for (const std::string& path : model_.missing) out_.wrong.push_back(str(quoted(path), ": missing"));
    for (const std::string& path : model_.unlisted)
      out_.wrong.push_back(str(quoted(path), ": not in the container's list of its files"));
    return std::move(out_);
  }

 private:
  void check(const Part& part) {
    const auto compared = compare(part);
    if (!compared)
      out_.unreadable.push_back(about(part, compared.error()));
    else if (!compared->empty())
      out_.wrong.push_back(str(quoted(part.path), ": ", *compared));
    else
      ++out_.checked;
  }

  // Members say their name themselves when they cannot be read.
  static Error about(const Part& part, const Error& error) {
    const std::string name = quoted(part.path);
    return error.message.starts_with(name) ? error : Error{error.code, str(name, ": ", error.message)};
  }

  Result<std::string> compare(const Part& part) {
    const Part* file = followed(&part, [this](const std::string& path) {
      const auto found = by_path_.find(path);
      return found == by_path_.end() ? nullptr : found->second;
    });
    if (file == nullptr)
      return failure(Code::not_found, str("a link to ", quoted(part.link_target), ", which is not there"));
    const SourcePtr source = TRY(file->source.get());
    Sums sums(part);
    for (uint64_t offset = 0; offset < source->size();) {
      if (report_) report_({part.path, read_, whole_});
      const size_t got = TRY(source->read(offset, buffer_));
      if (got == 0) return failure(Code::io, "the source ended before its size");
      sums.update(std::span(buffer_).first(got));
      offset += got;
      read_ += got;
    }
    return sums.difference();
  }

  const Model& model_;
  const std::function<void(const Progress&)>& report_;
  std::map<std::string_view, const Part*> by_path_;
  uint64_t whole_ = 0;
  uint64_t read_ = 0;
  std::vector<std::byte> buffer_{size_t{1} << 20};
  Verification out_;
};

}  // namespace

Verification verify(const Model& model, const std::function<void(const Progress&)>& report) {
  return Verifier(model, report).run();
}

}  // namespace weightfs
