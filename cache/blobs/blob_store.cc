#include "cache/blob_store.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/cancel.h"
#include "base/proof.h"
#include "base/text.h"
#include "cache/blobs/digest_blob.h"
#include "cache/blobs/store.h"
#include "cache/store/disk_backend.h"
#include "cache/store/temp_file_backend.h"

namespace weightfs {
namespace {

using StorePtr = std::shared_ptr<Store>;
using Phase = Filling::Phase;

// Reads that end here do not make a blob of which nothing is there yet: it takes no more to see what a file is.
constexpr uint64_t kHead = 32 * 1024;

constexpr size_t kLongestText = 16 << 20;  // of what is remembered

// Takes bytes until `out` is full or the stream ends; how many came.
Result<size_t> take(Stream& stream, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const size_t got = TRY(stream.next(out.subspan(done)));
    if (got == 0) break;
    done += got;
  }
  return done;
}

// A stream that ends when the store gives up: what is decoded for one reader alone may take as long as for all.
class Abandonable final : public Stream {
 public:
  Abandonable(StorePtr store, StreamPtr stream) : store_(std::move(store)), stream_(std::move(stream)) {}
  Result<size_t> next(std::span<std::byte> out) override {
    TRY_VOID(store_->go_on());
    return stream_->next(out);
  }

 private:
  StorePtr store_;
  StreamPtr stream_;
};

Recipe abandonable(const StorePtr& store, const Recipe& recipe) {
  Recipe out = recipe;
  out.start = [store, start = recipe.start]() -> Result<StreamPtr> {
    TRY_VOID(store->go_on());
    return std::make_unique<Abandonable>(store, TRY(start()));
  };
  return out;
}

class StoredBlob final : public Source {
 public:
  StoredBlob(StorePtr store, Recipe recipe, uint64_t size)
      : store_(std::move(store)), recipe_(std::move(recipe)), size_(size), name_(store_->name_of(recipe_)) {}

  uint64_t size() const override { return size_; }
  // Keeps the blob's decoding going while the file is open, also between slow reads.
  std::shared_ptr<const void> hold() const override {
    if (size_ <= kSmallBlob) return nullptr;
    const std::scoped_lock lock(mutex_);
    auto sources = sources_.lock();
    if (sources == nullptr) sources_ = sources = std::make_shared<HeldSources>();
    return std::make_shared<Open>(Open{store_->hold(name_), std::move(sources)});
  }
  // What a container says the digest of its bytes is names them only once that has proved right.
  std::string identity() const override { return is_proved() ? "sha256 " + recipe_.digest->hex() : recipe_.key; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_ || out.empty()) return size_t{0};
    const auto wanted = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
    TRY_VOID(size_ <= kSmallBlob ? read_small(offset, wanted) : fill(offset, wanted));
    return wanted.size();
  }

 private:
  struct Open {
    std::shared_ptr<const void> self;
    std::shared_ptr<HeldSources> sources;
  };

  // Small ones are with every read, before it returns.
  bool is_proved() const {
    return recipe_.digest &&
           (size_ <= kSmallBlob || store_->shelf().opened(name_) || store_->shelf().find(name_, size_));
  }

  Result<void> read_small(uint64_t offset, std::span<std::byte> out) const {
    std::vector<std::byte> all(static_cast<size_t>(size_) + 1);
    const StreamPtr stream = TRY(proving(recipe_).start());
    TRY(take(*stream, all));
    std::memcpy(out.data(), all.data() + offset, out.size());
    return {};
  }

  Result<void> fill(uint64_t offset, std::span<std::byte> out) const {
    const Filling::Pause pause;
    if (const Kept kept = store_->shelf().opened(name_); kept && kept.range->read(offset, out)) return {};
    HeldSources::add_to_current(name_.text, [this] { return hold(); });
    if (const SourcePtr instead = fallback(offset, out.size())) return read_from(*instead, offset, out);
    const Name name = learned_name();
    auto filling = store_->running(name);
    if (filling == nullptr) {
      if (const Kept kept = store_->shelf().find(name, size_); kept && kept.range->read(offset, out)) return {};
      if (const auto failure = store_->known_failure(name)) return tl::unexpected(*failure);
      if (offset <= kHead && out.size() <= kHead - offset && !store_->is_distrusted(name))
        return read_head(offset, out);
    }
    return fill_from(std::move(filling), name, offset, out);
  }

  Result<void> read_head(uint64_t offset, std::span<std::byte> out) const {
    std::vector<std::byte> head(static_cast<size_t>(offset) + out.size());
    const StreamPtr stream = TRY(recipe_.start());
    if (const size_t got = TRY(take(*stream, head)); got < head.size())
      return failure(Code::corrupt, str(recipe_.name, ": ends at byte ", got, " of ", size_));
    std::memcpy(out.data(), head.data() + offset, out.size());
    return {};
  }

  Result<void> fill_from(Store::FillingPtr filling, const Name& name, uint64_t offset, std::span<std::byte> out) const {
    Result<void> kept;
    for (auto phase = Phase::cancelled; phase == Phase::cancelled; filling = nullptr) {
      if (filling == nullptr) {
        auto begun = store_->filling(recipe_, name);
        if (!begun) return fill_without(begun.error(), offset, out);
        filling = std::move(*begun);
      }
      auto read = filling->read(offset, out);
      if (read.phase == Phase::unkept) return fill_without(read.done.error(), offset, out);
      if (read.phase == Phase::finished) learn(filling->kept().digest);
      phase = read.phase;
      kept = std::move(read.done);
    }
    return kept;
  }

  Result<void> fill_without(const Error& reason, uint64_t offset, std::span<std::byte> out) const {
    // For a reader that was killed, and in a making that has to end, nothing is begun anew.
    if (is_cancelled()) return tl::unexpected(reason);
    store_->note(reason);
    return read_from(*fall_back(offset, out.size()), offset, out);
  }

  // Decoding that this read starts goes on while a file of this blob is open.
  Result<void> read_from(const Source& instead, uint64_t offset, std::span<std::byte> out) const {
    const auto sources = opened_sources();
    const HeldSources::Scope holding(sources.get());
    return read_exact(instead, offset, out);
  }

  std::shared_ptr<HeldSources> opened_sources() const {
    const std::scoped_lock lock(mutex_);
    return sources_.lock();
  }

  // What reads without the store, as long as that goes on where it stopped. Before it would start anew, keeping the
  // blob is tried again: there may be room by now.
  SourcePtr fallback(uint64_t offset, size_t size) const {
    const std::scoped_lock lock(mutex_);
    if (offset < fallback_end_) fallback_ = nullptr;
    fallback_end_ = fallback_ == nullptr ? 0 : offset + size;
    return fallback_;
  }

  SourcePtr fall_back(uint64_t offset, size_t size) const {
    const std::scoped_lock lock(mutex_);
    if (fallback_ == nullptr) fallback_ = unstored_blobs()->blob(abandonable(store_, recipe_));
    fallback_end_ = offset + size;
    return fallback_;
  }

  // The name of one without key and digest does not lead to it; its digest does, once it was made.
  Name learned_name() const {
    const std::scoped_lock lock(mutex_);
    Name name = name_;
    if (!name.digest && name.key.empty()) name.digest = learned_;
    return name;
  }

  void learn(const Digest& digest) const {
    const std::scoped_lock lock(mutex_);
    learned_ = digest;
  }

  StorePtr store_;
  Recipe recipe_;
  uint64_t size_;
  Name name_;
  mutable std::mutex mutex_;                    // guards the rest
  mutable std::weak_ptr<HeldSources> sources_;  // while a file of it is open: what it is decoded from for one reader
  mutable SourcePtr fallback_;
  mutable uint64_t fallback_end_ = 0;  // where its last read ended
  mutable std::optional<Digest> learned_;
};

class StoredBlobs final : public BlobStore {
 public:
  StoredBlobs(ShelfPtr shelf, StoreOptions options)
      : store_(std::make_shared<Store>(std::move(shelf), std::move(options.log), std::move(options.fetching),
                                       std::move(options.blob_directories))) {}
  ~StoredBlobs() override { store_->stop(); }

  void stop() override { store_->give_up(); }

  SourcePtr blob(Recipe recipe) override {
    const uint64_t size = recipe.size.value_or(0);
    return std::make_shared<StoredBlob>(store_, std::move(recipe), size);
  }

  Result<SourcePtr> made(Recipe recipe) override {
    recipe.size = std::nullopt;
    const Name name = store_->name_of(recipe);
    if (const Kept kept = find(name)) return known(std::move(recipe), kept.range->size(), kept.digest);
    if (const auto failure = store_->known_failure(name)) return tl::unexpected(*failure);
    if (auto small = TRY(made_small(recipe))) return small;
    const Filling::Pause pause;
    for (;;) {
      const auto filling = store_->filling(recipe, name);
      if (!filling) return made_without(filling.error(), recipe);
      const Phase phase = TRY((*filling)->wait());
      if (phase == Phase::failed) return tl::unexpected((*filling)->error());
      if (phase == Phase::unkept) return made_without((*filling)->error(), recipe);
      const Kept kept = (*filling)->kept();
      if (phase == Phase::finished) return known(std::move(recipe), kept.range->size(), kept.digest);
    }
  }

  Result<Found> named(const Wanted& wanted) override { return named_blob(store_, wanted, {}); }
  Result<Found> fetched(const Wanted& wanted, std::vector<Origin> origins) override {
    return named_blob(store_, wanted, std::move(origins));
  }
  bool is_at_hand(const Wanted& wanted) override { return weightfs::is_at_hand(*store_, wanted); }

  // A text is a blob like any other, under a key that may come to mean another.
  void remember(const std::string& key, std::string_view text) override {
    if (const auto kept = keep(key, text); !kept) store_->note(kept.error());
  }

  std::optional<std::string> recall(const std::string& key) override {
    const auto digest = store_->shelf().noted(Shelf::Of::kept, "text " + key);
    if (!digest) return std::nullopt;
    const Kept kept = store_->shelf().find(Store::name_of(*digest, std::nullopt), std::nullopt);
    if (!kept || kept.range->size() > kLongestText) return std::nullopt;
    std::string text(static_cast<size_t>(kept.range->size()), '\0');
    if (!kept.range->read(0, std::as_writable_bytes(std::span(text))) || sha256(text) != *digest) return std::nullopt;
    return text;
  }

  StoreStatus status() override { return store_->status(); }
  StoreStatus status_of_running() override { return store_->status_of_running(); }

 private:
  Result<void> keep(const std::string& key, std::string_view text) {
    if (text.size() > kLongestText) return failure(Code::unsupported, "too long a text to be remembered");
    const Digest digest = sha256(text);
    Shelf& shelf = store_->shelf();
    auto begun = TRY(shelf.begin(Store::name_of(digest, text.size()), text.size(), store_->gave_up()));
    if (begun.draft) {
      if (begun.draft->left() > 0) TRY_VOID(begun.draft->restart());
      TRY_VOID(begun.draft->reserve(text.size(), Others::make_way));
      TRY_VOID(begun.draft->write(0, std::as_bytes(std::span(text))));
      BlockSums sums;
      sums.add(std::as_bytes(std::span(text)));
      TRY(begun.draft->publish(digest, text.size(), std::move(sums)));
    }
    return shelf.note(Shelf::Of::kept, "text " + key, digest);
  }

  Kept find(const Name& name) {
    const Kept kept = store_->shelf().opened(name);
    return kept ? kept : store_->shelf().find(name, std::nullopt);
  }

  // Null when the bytes are too many to be made for each read.
  Result<SourcePtr> made_small(const Recipe& recipe) {
    std::vector<std::byte> all(kSmallBlob + 1);
    const StreamPtr stream = TRY(recipe.start());
    const auto bytes = std::span<const std::byte>(all).first(TRY(take(*stream, all)));
    if (bytes.size() > kSmallBlob) return SourcePtr();
    Proof proof(recipe);
    TRY_VOID(proof.add(bytes));
    const Digest digest = TRY(proof.end());
    return known(recipe, bytes.size(), digest);
  }

  Result<SourcePtr> made_without(const Error& reason, const Recipe& recipe) {
    store_->note(reason);
    return unstored_blobs()->made(abandonable(store_, recipe.digest ? proving(recipe) : recipe));
  }

  SourcePtr known(Recipe recipe, uint64_t size, const Digest& digest) {
    recipe.size = size;
    recipe.digest = digest;
    return blob(std::move(recipe));
  }

  StorePtr store_;
};

}  // namespace

BlobStorePtr blob_store(StoreOptions options) {
  ShelfPtr shelf;
  if (options.directory.empty())
    shelf = std::make_shared<Temporary>(options.quota);
  else
    shelf = std::make_shared<Directory>(options.directory, options.quota, options.recheck, options.log);
  return std::make_shared<StoredBlobs>(std::move(shelf), std::move(options));
}

BlobStorePtr temporary_blobs(std::optional<uint64_t> quota, std::function<void(const std::string&)> log) {
  StoreOptions options;
  options.quota = quota;
  options.log = std::move(log);
  return blob_store(std::move(options));
}

}  // namespace weightfs
