#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nki/program.h"
#include "trainium/stream.h"

namespace accelopt::trainium {

/// Where an instruction comes from, in words of the source.
struct Place {
    std::int32_t line = 0;
    std::string operation;          ///< "nl.load", "nisa.nc_transpose", "spill of acc"
    bool made_by_compiler = false;  ///< a spill or a reload: the line is its tensor's
};

/// The places of a stream's instructions: few, however long the stream is.
class Places {
  public:
    /// Both must outlive nothing: what is needed is copied.
    Places(const nki::Program& program, const Stream& stream);

    /// Dense index of an instruction's place.
    std::int32_t of(std::int32_t instruction) const { return of_[instruction]; }
    const Place& operator[](std::int32_t place) const { return places_[place]; }
    std::int32_t size() const { return static_cast<std::int32_t>(places_.size()); }

  private:
    std::vector<std::int32_t> of_;
    std::vector<Place> places_;
};

/// The tensor of an on-chip tile that a spill or a reload moves; -1 when it has none.
nki::TensorId spilled_tensor(const Stream& stream, const Instruction& instruction);

}  // namespace accelopt::trainium
