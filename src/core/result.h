#pragma once

#include <utility>
#include <variant>

#include "core/error.h"

namespace accelopt {

/// Wraps an error value, so that Result<T, T> is not ambiguous.
template <typename E>
struct Failure {
    E error;
};
template <typename E>
Failure(E) -> Failure<E>;

/// An expected outcome: a value or an error value. Never silently ignored.
template <typename T, typename E>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Failure<E> failure) : state_(std::in_place_index<1>, std::move(failure.error)) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    const T& value() const& { return check_value(), std::get<0>(state_); }
    T& value() & { return check_value(), std::get<0>(state_); }
    T&& value() && { return check_value(), std::get<0>(std::move(state_)); }
    const E& error() const { return std::get<1>(state_); }
    const T* operator->() const { return &value(); }
    T* operator->() { return &value(); }
    const T& operator*() const& { return value(); }
    T& operator*() & { return value(); }

  private:
    void check_value() const { require(ok(), "Result::value() on an error"); }

    std::variant<T, E> state_;
};

}  // namespace accelopt
