#include "cache/download/reassembly_buffer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace weightfs {
namespace {

constexpr size_t kBlock = 256 * 1024;
constexpr std::chrono::milliseconds kMoment{50};

}  // namespace

void Fifo::push(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (blocks_.empty() || blocks_.back().size() == kBlock) {
      blocks_.emplace_back();
      blocks_.back().reserve(kBlock);
    }
    std::vector<std::byte>& block = blocks_.back();
    const auto part = bytes.first(std::min(bytes.size(), kBlock - block.size()));
    block.insert(block.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
  }
}

size_t Fifo::pop(std::span<std::byte> out, size_t keep) {
  const size_t wanted = std::min(out.size(), size_ - std::min(size_, keep));
  for (size_t done = 0; done < wanted;) {
    const std::vector<std::byte>& block = blocks_.front();
    const size_t part = std::min(wanted - done, block.size() - begin_);
    std::memcpy(out.data() + done, block.data() + begin_, part);
    done += part;
    begin_ += part;
    if (begin_ < block.size()) continue;
    blocks_.pop_front();
    begin_ = 0;
  }
  size_ -= wanted;
  return wanted;
}

Window::Window(uint64_t begins_at, std::optional<uint64_t> size, std::shared_ptr<Memory> memory,
               std::chrono::milliseconds idle)
    : share_(std::move(memory)),
      idle_(idle),
      begins_at_(begins_at),
      at_(begins_at),
      planned_(begins_at),
      end_(size.value_or(kUnknown)) {}

Window::PiecePtr Window::first_free() const {
  for (const PiecePtr& piece : pieces_)
    if (piece->owner == Owner::nobody && !is_there(*piece)) return piece;
  return nullptr;
}

Window::PiecePtr Window::plan(uint64_t end) {
  auto piece = std::make_shared<Piece>(Piece{planned_, end});
  piece->chunk = chunked_;
  pieces_.push_back(piece);
  planned_ = end;
  return piece;
}

// What is planned may be brought even when the share has become smaller since.
bool Window::may_plan_chunk() const {
  const uint64_t most = std::clamp(share_.bytes(), kAhead, kMost);
  return chunked_ && planned_ < end_ && std::min(planned_ + kChunk, end_) <= at_ + most;
}

Window::PiecePtr Window::given(PiecePtr piece, Owner owner) {
  piece->owner = owner;
  piece->moved = Clock::now();
  return piece;
}

void Window::wait_for_work(std::unique_lock<std::mutex>& lock) {
  ++waiting_;
  changed_.wait(lock);
  --waiting_;
}

bool Window::all_there() const {
  return planned_ == end_ && std::all_of(pieces_.begin(), pieces_.end(), [&](const auto& p) { return is_there(*p); });
}

Window::PiecePtr Window::take_first() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopped_ || all_there()) return nullptr;
    PiecePtr piece = first_free();
    if (piece == nullptr && may_plan_chunk()) piece = plan(std::min(planned_ + kChunk, end_));
    if (piece == nullptr && !chunked_ && planned_ < end_) piece = plan(end_);
    if (piece != nullptr) return given(std::move(piece), Owner::leader);
    wait_for_work(lock);
  }
}

Window::PiecePtr Window::take_chunk() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopped_ || !chunked_) return nullptr;
    PiecePtr piece = first_free();
    if (piece == nullptr && planned_ == end_) return nullptr;
    if (piece == nullptr && may_plan_chunk()) piece = plan(std::min(planned_ + kChunk, end_));
    if (piece != nullptr) return given(std::move(piece), Owner::helper);
    wait_for_work(lock);
  }
}

void Window::give_back(const PiecePtr& piece) {
  const std::scoped_lock lock(mutex_);
  piece->owner = Owner::nobody;
  changed_.notify_all();
}

Window::Put Window::put(Piece& piece, std::span<const std::byte> bytes) {
  std::unique_lock lock(mutex_);
  size_t count = 0;
  while (count < bytes.size()) {
    changed_.wait(lock, [&] { return stopped_ || piece.dropped || has_room(piece) || piece.at == piece.end; });
    if (stopped_ || piece.dropped) return {Took::dropped, count};
    if (piece.at == piece.end) return {is_there(piece) ? Took::piece_is_full : Took::too_long, count};
    const uint64_t room = at_ + (piece.chunk ? kMost : kAhead) - piece.at;
    const uint64_t part = std::min({static_cast<uint64_t>(bytes.size() - count), piece.end - piece.at, room});
    piece.bytes.push(bytes.subspan(count, static_cast<size_t>(part)));
    piece.at += part;
    piece.moved = Clock::now();
    arrived_ += part;
    count += static_cast<size_t>(part);
    changed_.notify_all();
  }
  return {Took::all, count};
}

void Window::confirm(Piece& piece) {
  const std::scoped_lock lock(mutex_);
  piece.sure = true;
  changed_.notify_all();
}

std::pair<uint64_t, uint64_t> Window::bounds(const Piece& piece) const {
  const std::scoped_lock lock(mutex_);
  return {piece.at, piece.end};
}

bool Window::set_end(uint64_t end) {
  const std::scoped_lock lock(mutex_);
  if (end_ != kUnknown) return end == end_;
  for (const PiecePtr& piece : pieces_)
    if (piece->at > end) return false;
  if (at_ > end) return false;
  for (const PiecePtr& piece : pieces_)
    if (piece->end == kUnknown) piece->end = end;
  if (planned_ == kUnknown) planned_ = end;
  end_ = end;
  changed_.notify_all();
  return true;
}

uint64_t Window::end() const {
  const std::scoped_lock lock(mutex_);
  return end_;
}

bool Window::split() {
  const std::scoped_lock lock(mutex_);
  if (chunked_) return planned_ < end_;
  if (end_ == kUnknown || pieces_.empty() || planned_ != end_) return false;
  Piece& last = *pieces_.back();
  if (last.owner != Owner::leader || end_ - last.at < 2 * kChunk) return false;
  last.end = planned_ = last.at + kChunk;
  chunked_ = true;
  return true;
}

void Window::join_up() {
  const std::scoped_lock lock(mutex_);
  chunked_ = false;
  auto missing = std::find_if(pieces_.begin(), pieces_.end(), [&](const auto& p) { return !is_there(*p); });
  if (missing != pieces_.end()) {
    std::for_each(missing + 1, pieces_.end(), [](const PiecePtr& piece) { piece->dropped = true; });
    pieces_.erase(missing + 1, pieces_.end());
    PiecePtr& last = pieces_.back();
    if (last->owner == Owner::helper) last = without_owner(*last);
    last->end = planned_ = end_;
    last->chunk = false;
  }
  changed_.notify_all();
}

// The same piece, for another to bring the rest of it.
Window::PiecePtr Window::without_owner(Piece& piece) {
  auto free = std::make_shared<Piece>(Piece{piece.at, piece.end});
  free->chunk = piece.chunk;
  free->bytes = std::exchange(piece.bytes, {});
  piece.dropped = true;
  return free;
}

// The others wait behind it, and what they bring has to be kept. Only once: with a server that is slow to begin, every
// other connection would stand still as well.
void Window::free_what_stands_still() {
  if (waiting_ == 0 || pieces_.empty()) return;
  PiecePtr& first = pieces_.front();
  if (first->owner == Owner::nobody || first->again || is_there(*first) || Clock::now() - first->moved < idle_) return;
  first = without_owner(*first);
  first->again = true;
  changed_.notify_all();
}

void Window::drop_unread() {
  const std::scoped_lock lock(mutex_);
  for (const PiecePtr& piece : pieces_) piece->dropped = true;
  pieces_.clear();
  chunked_ = false;
  planned_ = at_;
  changed_.notify_all();
}

bool Window::begin_anew(Piece& piece) {
  const std::scoped_lock lock(mutex_);
  if (arrived_ > 0) return false;
  begins_at_ = at_ = piece.at = 0;
  planned_ = piece.end = end_;
  return true;
}

Window::Progress Window::progress() const {
  const std::scoped_lock lock(mutex_);
  uint64_t ready = 0;
  for (const PiecePtr& piece : pieces_) {
    ready += piece->bytes.size();
    if (!is_there(*piece)) break;
  }
  return {arrived_, ready, end_ == kUnknown ? kUnknown : end_ - at_};
}

void Window::finish(Result<void> how) {
  const std::scoped_lock lock(mutex_);
  finished_ = std::move(how);
  changed_.notify_all();
}

void Window::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

size_t Window::pop(std::span<std::byte> out) {
  while (!pieces_.empty()) {
    Piece& first = *pieces_.front();
    const size_t got = first.bytes.pop(out, first.at == end_ && !first.sure ? 1 : 0);
    at_ += got;
    const bool over = first.bytes.size() == 0 && is_there(first);
    if (over) pieces_.pop_front();
    if (got > 0 || !over) return got;
  }
  return 0;
}

std::optional<Result<size_t>> Window::next(std::span<std::byte> out) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + kMoment;
  for (;;) {
    if (const size_t got = pop(out); got > 0) {
      changed_.notify_all();
      return got;
    }
    if (at_ == end_) return Result<size_t>(0);
    if (finished_ && !*finished_) return Result<size_t>(tl::unexpected((*finished_).error()));
    if (changed_.wait_until(lock, until) == std::cv_status::no_timeout) continue;
    free_what_stands_still();
    return std::nullopt;
  }
}

uint64_t Window::begins_at() const {
  const std::scoped_lock lock(mutex_);
  return begins_at_;
}

}  // namespace weightfs
