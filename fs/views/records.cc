#include "fs/views/records.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

namespace weightfs::views {
namespace {

class Records final : public Source {
 public:
  Records(size_t count, AppendRecord append) : count_(count), append_(std::move(append)) {}

  Result<void> measure(const RecordSize& size_of, const BudgetPtr& budget) {
    for (size_t i = 0; i < count_; ++i) {
      if (blocks_.empty() || size_ - blocks_.back().begin >= kBlockSize) blocks_.push_back({size_, i});
      const uint64_t size = size_of(i);
      if (budget != nullptr) {
        TRY_VOID(budget->charge(Cost::rendered, size));
        budget->release(Cost::rendered, size);
      }
      size_ += size;
    }
    blocks_.shrink_to_fit();
    return {};
  }

  uint64_t size() const override { return size_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_ || out.empty()) return size_t{0};
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset));
    const auto begins_after = [](uint64_t at, const Block& block) { return at < block.begin; };
    const Block block = *std::prev(std::upper_bound(blocks_.begin(), blocks_.end(), offset, begins_after));
    auto skip = static_cast<size_t>(offset - block.begin);
    std::string text;
    size_t done = 0;
    for (size_t i = block.record; done < wanted && i < count_; ++i) {
      text.clear();
      TRY_VOID(append_(text, i));
      const size_t skipped = std::min(skip, text.size());
      const size_t copied = std::min(text.size() - skipped, wanted - done);
      if (copied > 0) std::memcpy(out.data() + done, text.data() + skipped, copied);
      done += copied;
      skip -= skipped;
    }
    return done;
  }

 private:
  static constexpr uint64_t kBlockSize = 16 * 1024;

  struct Block {
    uint64_t begin;  // offset of its first record
    size_t record;
  };

  size_t count_;
  AppendRecord append_;
  std::vector<Block> blocks_;
  uint64_t size_ = 0;
};

}  // namespace

Result<SourcePtr> records(size_t count, AppendRecord append, const RecordSize& size_of, const BudgetPtr& budget) {
  const auto made = std::make_shared<Records>(count, std::move(append));
  TRY_VOID(made->measure(size_of, budget));
  return made;
}

Result<SourcePtr> records(size_t count, AppendRecord append, const BudgetPtr& budget) {
  std::string text;
  Result<void> appended;
  const auto size_of = [&](size_t record) -> uint64_t {
    text.clear();
    if (auto done = append(text, record); !done && appended) appended = done;
    return text.size();
  };
  auto made = records(count, append, size_of, budget);
  TRY_VOID(appended);
  return made;
}

}  // namespace weightfs::views
