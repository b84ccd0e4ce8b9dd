#include "cache/blobs/digest_blob.h"

#include <algorithm>
#include <mutex>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/blobs/local_copies.h"

namespace weightfs {
namespace {

using StorePtr = std::shared_ptr<Store>;
using Phase = Filling::Phase;
using Wants = Filling::Wants;

bool is_fetchable(const Store& store, const std::vector<Origin>& origins) {
  return store.fetching().http != nullptr && !origins.empty();
}

// Why it cannot be had when nothing is fetched, where `reason` is why it is not at hand.
Error unfetched(Store& store, const Wanted& wanted, const Error& reason) {
  if (reason.code != Code::not_found) return reason;
  const bool offline = store.fetching().http == nullptr;
  return {Code::network, str(wanted.name, ": not cached, and ", offline ? "offline" : "nothing says where it is")};
}

// One fetch; another one asks everybody again.
FetchPtr fetch_of(const Store& store, const Wanted& wanted, std::optional<uint64_t> size,
                  const std::vector<Origin>& origins) {
  return std::make_shared<Fetch>(store.fetching().http, wanted.name, size, origins, store.fetching().options);
}

// Whether a fetch that somebody else began could fail where one of these would not.
bool asks_others(const Fetch& fetch, const std::vector<Origin>& origins) {
  const auto same = [](const Origin& a, const Origin& b) { return a.url == b.url && a.credentials == b.credentials; };
  return !std::equal(fetch.origins().begin(), fetch.origins().end(), origins.begin(), origins.end(), same);
}

class NamedBlob final : public Source, public std::enable_shared_from_this<NamedBlob> {
 public:
  NamedBlob(StorePtr store, Wanted wanted, uint64_t size, std::vector<Origin> origins)
      : store_(std::move(store)),
        wanted_(std::move(wanted)),
        size_(size),
        origins_(std::move(origins)),
        name_(Store::name_of(wanted_.digest, size)),
        copy_(search()) {}

  uint64_t size() const override { return size_; }
  std::string identity() const override {
    const bool proved = copy().peek() || store_->shelf().opened(name_) || store_->shelf().find(name_, size_);
    return proved ? "sha256 " + wanted_.digest.hex() : "";
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read(offset, out, Wants::served);
  }
  // What was read is read on from the same file, though that may lose its name meanwhile.
  std::shared_ptr<const void> hold() const override {
    const std::scoped_lock lock(mutex_);
    ++holders_;
    const auto let_go = [self = shared_from_this()](const void*) {
      RangePtr last;  // closed without the lock
      const std::scoped_lock letting_go(self->mutex_);
      if (--self->holders_ == 0) last = std::move(self->held_);
    };
    return {static_cast<const void*>(this), let_go};
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out, Wants wants) const {
    if (offset >= size_ || out.empty()) return size_t{0};
    const auto wanted = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
    TRY_VOID(wants == Wants::served ? fill(offset, wanted) : fill_arriving(offset, wanted));
    return wanted.size();
  }

 private:
  // What was given out before it was proved. With the fetch that it came from, if that knows whether it was right.
  struct Given {
    uint64_t offset;
    size_t size;
    Digest digest;
    Store::FillingPtr filling;
  };

  // Whether bytes were proved before they were read.
  enum class Bytes { proved, unproved };

  Result<void> fill(uint64_t offset, std::span<std::byte> out) const {
    TRY_VOID(still_right());
    if (TRY(fill_at_hand(offset, out)) || TRY(fill_fetching(offset, out, Wants::served)) == Bytes::proved)
      return compare_given();
    return {};
  }

  // Takes what nobody proved, too: what is in the first copy, what has come so far.
  Result<void> fill_arriving(uint64_t offset, std::span<std::byte> out) const {
    if (fill_kept(offset, out)) return {};
    if (const auto proved = copy().peek(); proved && !proved->is_cached) return read_exact(*proved->bytes, offset, out);
    const auto copies = copies_of(*store_, wanted_).found;
    const auto fits = std::find_if(copies.begin(), copies.end(), [&](const Copy& each) {
      return each.bytes->size() == size_ && may_hold(*store_, each, wanted_.digest);
    });
    if (fits == copies.end()) {
      if (!TRY(fill_at_hand(offset, out))) TRY(fill_fetching(offset, out, Wants::arriving));
      return {};
    }
    TRY_VOID(read_exact(*fits->bytes, offset, out));
    note_given(offset, out, nullptr);
    return {};
  }

  bool fill_kept(uint64_t offset, std::span<std::byte> out) const {
    Kept kept = store_->shelf().opened(name_);
    if (!kept) kept = held();
    if (!kept) kept = store_->shelf().find(name_, size_);
    if (!kept || !kept.range->read(offset, out)) return false;
    keep_held(kept.range);
    store_->account().found(wanted_.digest, size_, "cache");
    return true;
  }

  Kept held() const {
    const std::scoped_lock lock(mutex_);
    return {held_, wanted_.digest};
  }
  void keep_held(RangePtr range) const {
    const std::scoped_lock lock(mutex_);
    if (holders_ > 0) held_ = std::move(range);
  }

  // False when it has to be fetched.
  Result<bool> fill_at_hand(uint64_t offset, std::span<std::byte> out) const {
    for (int changed = 0;; ++changed) {
      const Later<Copy> searched = copy();
      if (!searched.peek() && fill_kept(offset, out)) return true;
      // While it is being fetched, nobody looks for it at every read.
      if (!searched.peek() && is_fetchable(*store_, origins_) && store_->running(name_) != nullptr) return false;
      const auto found = searched.get();
      if (!found) {
        TRY_VOID(store_->go_on());
        if (is_fetchable(*store_, origins_)) return false;
        return tl::unexpected(unfetched(*store_, wanted_, found.error()));
      }
      if (found->is_cached && fill_kept(offset, out)) return true;
      Result<void> done = failure(Code::io, str(wanted_.name, ": evicted from the cache"));
      if (!found->is_cached) done = read_exact(*found->bytes, offset, out);
      if (done) {
        store_->account().found(wanted_.digest, size_, found->where);
        return true;
      }
      // It is no longer what it was: there may be another.
      if (changed > 0) return tl::unexpected(done.error());
      search_again();
    }
  }

  Result<Bytes> fill_fetching(uint64_t offset, std::span<std::byte> out, Wants wants) const {
    if (!is_fetchable(*store_, origins_)) return tl::unexpected(unfetched(*store_, wanted_, {Code::not_found, ""}));
    store_->account().missed(wanted_.digest);
    const Filling::Pause pause;
    const Recipe recipe{wanted_.name, size_, wanted_.digest, "", {}};
    for (;;) {
      const auto filling = TRY(store_->filling(recipe, name_, fetch_of(*store_, wanted_, size_, origins_)));
      auto read = filling->read(offset, out, wants);
      if (read.phase == Phase::cancelled) continue;
      if (read.done) {
        if (auto range = filling->proved()) keep_held(std::move(range));
        if (read.phase != Phase::making) return Bytes::proved;
        note_given(offset, out, filling);
        return Bytes::unproved;
      }
      // Who fetched it for somebody else may have asked others.
      if (read.phase == Phase::failed && asks_others(*filling->fetch(), origins_) && !is_cancelled()) continue;
      return tl::unexpected(failed(read.phase, read.done.error()));
    }
  }

  Error failed(Phase phase, const Error& error) const {
    if (phase == Phase::unkept)
      return {Code::io, str(wanted_.name, ": cannot be kept, so it cannot be read: ", error.message)};
    // The file is there; what was fetched for it is not.
    const Error out{error.code == Code::not_found ? Code::io : error.code, error.message};
    const std::scoped_lock lock(mutex_);
    // Some of the wrong bytes were served: the right ones are not to be mixed with them.
    if (store_->fetching().stream && is_about_the_bytes(out) && !given_.empty()) differs_ = out;
    return out;
  }

  void note_given(uint64_t offset, std::span<const std::byte> out, Store::FillingPtr filling) const {
    Sha256 hash;
    hash.update(out);
    const std::scoped_lock lock(mutex_);
    given_.push_back({offset, out.size(), hash.finish(), std::move(filling)});
  }

  Result<void> still_right() const {
    const std::scoped_lock lock(mutex_);
    if (differs_) return tl::unexpected(*differs_);
    return {};
  }

  // Now that it is proved: whether what was given out before was the same. Whoever comes meanwhile waits.
  Result<void> compare_given() const {
    const std::scoped_lock comparing(comparing_);
    for (;;) {
      Given piece;
      {
        const std::scoped_lock lock(mutex_);
        if (differs_) return tl::unexpected(*differs_);
        if (given_.empty()) return {};
        piece = given_.back();
      }
      const bool one_making = piece.filling != nullptr && piece.filling->was_one_making();
      const bool same = one_making || TRY(is_same(piece));
      const std::scoped_lock lock(mutex_);
      if (!same)
        differs_ = Error{Code::mismatch, str(wanted_.name,
                                             ": what was read of it before it was proved came from other bytes than "
                                             "those that proved right; mount it again")};
      std::erase_if(given_, [&](const Given& each) {
        return one_making ? each.filling == piece.filling
                          : each.offset == piece.offset && each.size == piece.size && each.digest == piece.digest;
      });
    }
  }

  Result<bool> is_same(const Given& piece) const {
    std::vector<std::byte> bytes(piece.size);
    if (!TRY(fill_at_hand(piece.offset, bytes))) TRY(fill_fetching(piece.offset, bytes, Wants::whole));
    Sha256 hash;
    hash.update(bytes);
    return hash.finish() == piece.digest;
  }

  Later<Copy> search() const {
    return Later<Copy>([store = store_, wanted = wanted_] { return proved_copy(*store, wanted); });
  }
  Later<Copy> copy() const {
    const std::scoped_lock lock(mutex_);
    return copy_;
  }
  void search_again() const {
    store_->elsewhere().look_again();
    Later<Copy> anew = search();
    const std::scoped_lock lock(mutex_);
    copy_ = std::move(anew);
  }

  StorePtr store_;
  Wanted wanted_;
  uint64_t size_;
  std::vector<Origin> origins_;
  Name name_;
  mutable std::mutex comparing_;  // held before the other
  mutable std::mutex mutex_;      // guards the rest
  mutable Later<Copy> copy_;
  mutable std::vector<Given> given_;
  mutable std::optional<Error> differs_;
  mutable size_t holders_ = 0;
  mutable RangePtr held_;  // while there are holders
};

class Arriving final : public Source {
 public:
  explicit Arriving(std::shared_ptr<const NamedBlob> blob) : blob_(std::move(blob)) {}
  uint64_t size() const override { return blob_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return blob_->read(offset, out, Wants::arriving);
  }
  std::string identity() const override { return blob_->identity(); }

 private:
  std::shared_ptr<const NamedBlob> blob_;
};

Kept kept_of(Store& store, const Wanted& wanted) {
  return store.shelf().find(Store::name_of(wanted.digest, wanted.size), wanted.size);
}

// Scheme, host and port of the first origin.
std::string server_of(const std::vector<Origin>& origins) {
  if (origins.empty()) return "";
  const std::string& url = origins.front().url;
  const size_t scheme = url.find("://");
  return url.substr(0, scheme == url.npos ? scheme : url.find_first_of("/?#", scheme + 3));
}

// The size of one that is fetched: as a server says, or of what came.
Result<uint64_t> fetched_size(Store& store, const Wanted& wanted, const std::vector<Origin>& origins) {
  const Name name = Store::name_of(wanted.digest, std::nullopt);
  const bool wants_size_only = SizeQuery::is_active();
  const std::string server = server_of(origins);
  if (wants_size_only && store.is_too_large_for_size(name, server))
    return tl::unexpected(too_large_for_size(wanted.name));
  const FetchPtr fetch = fetch_of(store, wanted, std::nullopt, origins);
  if (const auto told = TRY(fetch->size(store.gave_up()))) return *told;
  store.account().missed(wanted.digest);
  const Recipe recipe{wanted.name, std::nullopt, wanted.digest, "", {}};
  const Filling::Pause pause;
  for (;;) {
    const auto filling = TRY(store.filling(recipe, name, fetch));
    if (!wants_size_only) filling->allow_any_size();
    const Phase phase = TRY(filling->wait());
    if (phase == Phase::finished) return filling->kept().range->size();
    if (phase == Phase::cancelled) continue;
    if (phase == Phase::failed && asks_others(*filling->fetch(), origins) && !is_cancelled()) continue;
    const Error error = filling->error();
    if (filling->is_too_large() && !wants_size_only) continue;  // it was begun by a thread that asked for the size
    if (filling->is_too_large()) store.set_too_large_for_size(name, server);
    return failure(phase == Phase::unkept || error.code == Code::not_found ? Code::io : error.code, error.message);
  }
}

Result<uint64_t> size_of(Store& store, const Wanted& wanted, const std::vector<Origin>& origins) {
  if (wanted.size) return *wanted.size;
  if (const Kept kept = kept_of(store, wanted)) return kept.range->size();
  const auto copy = proved_copy(store, wanted);
  if (copy) return copy->bytes->size();
  if (is_fetchable(store, origins)) return fetched_size(store, wanted, origins);
  return tl::unexpected(unfetched(store, wanted, copy.error()));
}

}  // namespace

Result<Found> named_blob(const StorePtr& store, const Wanted& wanted, std::vector<Origin> origins) {
  for (const std::string& url : wanted.urls) origins.push_back({url, Trust::container});
  store->account().asked(wanted, wanted.size);
  if (!is_fetchable(*store, origins) && !kept_of(*store, wanted)) {
    const Copies copies = copies_of(*store, wanted);
    if (copies.found.empty())
      return tl::unexpected(unfetched(*store, wanted, copies.wrong.value_or(Error{Code::not_found, ""})));
  }
  const auto size = size_of(*store, wanted, origins);
  if (!size) {
    store->account().failed(wanted.digest, size.error());
    return tl::unexpected(size.error());
  }
  store->account().asked(wanted, *size);
  const auto blob = std::make_shared<const NamedBlob>(store, wanted, *size, std::move(origins));
  return Found{blob, std::make_shared<Arriving>(blob)};
}

bool is_at_hand(Store& store, const Wanted& wanted) {
  return kept_of(store, wanted) || !copies_of(store, wanted).found.empty();
}

}  // namespace weightfs
