#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"

/// The message of the configuration error that `action` throws; "no error" when it throws none.
template <typename Action>
std::string config_error(Action action) {
    try {
        action();
    } catch (const accelopt::Error& error) {
        CHECK(error.source() == accelopt::ErrorSource::kConfig);
        return error.what();
    }
    return "no error";
}
