#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace accelopt::nki {

/// A sequence that grows at its end in chunks, so that growing moves nothing, needs no second copy
/// of a long program, and leaves references valid. Otherwise a vector.
template <typename T, std::size_t kChunk = 256>
class Chunked {
    template <typename Owner, typename Item>
    class Cursor {
      public:
        using iterator_category = std::random_access_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = Item*;
        using reference = Item&;

        Cursor() = default;
        Cursor(Owner* owner, std::size_t at) : owner_(owner), at_(at) {}
        Item& operator*() const { return (*owner_)[at_]; }
        Item* operator->() const { return &(*owner_)[at_]; }
        Item& operator[](std::ptrdiff_t n) const { return *(*this + n); }
        Cursor& operator++() { return *this += 1; }
        Cursor operator++(int) { return std::exchange(*this, *this + 1); }
        Cursor& operator--() { return *this -= 1; }
        Cursor operator--(int) { return std::exchange(*this, *this - 1); }
        Cursor& operator+=(std::ptrdiff_t n) {
            at_ += static_cast<std::size_t>(n);
            return *this;
        }
        Cursor& operator-=(std::ptrdiff_t n) { return *this += -n; }
        friend Cursor operator+(Cursor a, std::ptrdiff_t n) { return a += n; }
        friend Cursor operator+(std::ptrdiff_t n, Cursor a) { return a += n; }
        friend Cursor operator-(Cursor a, std::ptrdiff_t n) { return a -= n; }
        friend std::ptrdiff_t operator-(const Cursor& a, const Cursor& b) {
            return static_cast<std::ptrdiff_t>(a.at_ - b.at_);
        }
        bool operator==(const Cursor& other) const { return at_ == other.at_; }
        auto operator<=>(const Cursor& other) const { return at_ <=> other.at_; }

      private:
        Owner* owner_ = nullptr;
        std::size_t at_ = 0;
    };

  public:
    using value_type = T;
    using iterator = Cursor<Chunked, T>;
    using const_iterator = Cursor<const Chunked, const T>;

    Chunked() = default;
    Chunked(const Chunked& other) {
        for (const T& item : other) push_back(item);
    }
    Chunked(Chunked&& other) noexcept
        : chunks_(std::move(other.chunks_)), size_(std::exchange(other.size_, 0)) {}
    Chunked& operator=(Chunked other) noexcept {
        chunks_.swap(other.chunks_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Chunked() { clear(); }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](std::size_t k) { return *slot(k); }
    const T& operator[](std::size_t k) const { return *slot(k); }
    /// Throws std::out_of_range, as std::vector does.
    T& at(std::size_t k) { return const_cast<T&>(std::as_const(*this).at(k)); }
    const T& at(std::size_t k) const {
        if (k >= size_) throw std::out_of_range("Chunked::at");
        return *slot(k);
    }
    T& front() { return *slot(0); }
    const T& front() const { return *slot(0); }
    T& back() { return *slot(size_ - 1); }
    const T& back() const { return *slot(size_ - 1); }

    void push_back(const T& item) { emplace_back(item); }
    void push_back(T&& item) { emplace_back(std::move(item)); }
    template <typename... Arguments>
    T& emplace_back(Arguments&&... arguments) {
        if (size_ == chunks_.size() * kChunk) chunks_.push_back(std::make_unique<Chunk>());
        T* made = std::construct_at(slot(size_), std::forward<Arguments>(arguments)...);
        ++size_;
        return *made;
    }
    void pop_back() { std::destroy_at(slot(--size_)); }
    void clear() {
        while (size_ > 0) pop_back();
        chunks_.clear();
    }

    iterator begin() { return {this, 0}; }
    iterator end() { return {this, size_}; }
    const_iterator begin() const { return {this, 0}; }
    const_iterator end() const { return {this, size_}; }
    auto rbegin() { return std::reverse_iterator(end()); }
    auto rend() { return std::reverse_iterator(begin()); }
    auto rbegin() const { return std::reverse_iterator(end()); }
    auto rend() const { return std::reverse_iterator(begin()); }

  private:
    /// Raw storage: elements live from emplace_back on.
    struct Chunk {
        Chunk() {}
        ~Chunk() {}
        union {
            T items[kChunk];
        };
    };
    T* slot(std::size_t k) const { return &chunks_[k / kChunk]->items[k % kChunk]; }

    std::vector<std::unique_ptr<Chunk>> chunks_;
    std::size_t size_ = 0;
};

}  // namespace accelopt::nki
