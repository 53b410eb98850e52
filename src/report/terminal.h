#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelopt::report {

/// What a terminal can show.
struct TerminalStyle {
    int width = 100;      ///< columns
    bool colour = false;  ///< ANSI colours; never when the output is no terminal
};

enum class Colour { kBold, kDim, kRed, kYellow, kGreen, kCyan };

/// The text in a colour where the style has colours.
std::string coloured(const std::string& text, Colour colour, const TerminalStyle& style);

/// Number of characters of UTF-8 text (each taken as one column wide).
std::size_t columns_of(std::string_view text);
/// Cuts text to at most `columns` characters, the last one an ellipsis when something was cut.
std::string cut_to(std::string_view text, std::size_t columns);
/// Pads with blanks on the right (or left) to `columns` characters; longer text is left alone.
std::string pad_right(std::string_view text, std::size_t columns);
std::string pad_left(std::string_view text, std::size_t columns);

/// A bar of `cells` characters, '#' for the share (cut to [0, 1]) and '.' for the rest.
std::string bar(double share, int cells);
/// One block character per value, from empty (0) to full (`full`); at most `columns` of them, each
/// the mean of equal parts.
std::string sparkline(const std::vector<double>& values, double full, std::size_t columns);

}  // namespace accelopt::report
