#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace accelopt::nki::interp {

class Heap;

/// A reference-counted object of the traced kernel. Every object is charged to its heap.
struct Object {
    virtual ~Object() = default;
    Heap* heap = nullptr;
    std::int64_t bytes = 0;  ///< charged to the heap, given back on destruction
    std::uint32_t references = 0;
};

/// An object that can hold other objects, and so be part of a cycle. The heap knows all of them,
/// to break the cycles that are left at the end.
struct Container : Object {
    ~Container() override;
    virtual void clear() = 0;
    Container* previous = nullptr;
    Container* next = nullptr;
    bool module_level = false;  ///< made by module code: kernels must not mutate it
};

/// A counted reference.
template <typename T>
class Ref {
  public:
    Ref() = default;
    explicit Ref(T* object) : object_(object) { retain(); }
    Ref(const Ref& other) : object_(other.object_) { retain(); }
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref();

    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }

  private:
    void retain() {
        if (object_ != nullptr) ++object_->references;
    }
    T* object_ = nullptr;
};

/// Owns the memory budget of Python objects. Destruction is iterative, so that a long chain of
/// nested lists cannot exhaust the stack.
class Heap {
  public:
    explicit Heap(std::int64_t limit_bytes) : limit_(limit_bytes) {}
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;
    ~Heap();

    template <typename T, typename... Arguments>
    Ref<T> make(Arguments&&... arguments) {
        constexpr std::int64_t kSize = sizeof(T) + 16;
        charge(kSize);
        T* object = new T(std::forward<Arguments>(arguments)...);
        object->heap = this;
        object->bytes = kSize;
        if constexpr (std::is_base_of_v<Container, T>) link(object);
        return Ref<T>(object);
    }

    /// Adds to what `object` is charged; throws resource_limit/memory beyond the budget.
    void grow(Object& object, std::int64_t bytes) {
        charge(bytes);
        object.bytes += bytes;
    }
    /// Throws resource_limit/memory when `bytes` more would exceed the budget.
    void charge(std::int64_t bytes);
    void destroy(Object* object);

  private:
    friend struct Container;
    void link(Container* container);
    void unlink(Container* container);

    std::int64_t live_ = 0;
    std::int64_t limit_;
    bool draining_ = false;
    std::vector<Object*> dead_;
    Container* containers_ = nullptr;
};

template <typename T>
Ref<T>::~Ref() {
    if (object_ != nullptr && --object_->references == 0) object_->heap->destroy(object_);
}

}  // namespace accelopt::nki::interp
