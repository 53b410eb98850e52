#pragma once

#include <string_view>

namespace accelopt::nki::interp {

/// Python's own functions. Those from kForbidden on are known in order to be refused.
enum class BuiltinId : int {
    kAbs, kAll, kAny, kBool, kDict, kDivmod, kEnumerate, kFilter, kFloat, kGetattr, kHasattr, kInt,
    kIsinstance, kLen, kList, kMap, kMax, kMin, kPow, kPrint, kRange, kReversed, kRound, kSet,
    kSlice, kSorted, kStr, kSum, kTuple, kType, kZip, kName,
    kForbidden, kOpen, kEval, kExec, kCompile, kImport, kGlobals, kLocals, kVars, kInput, kId, kDir,
    kSetattr, kDelattr, kBreakpoint, kExit, kQuit, kMemoryview, kSuper, kObject
};

/// The id of a builtin name, or -1.
int builtin_id(std::string_view name);
std::string_view builtin_name(int id);

}  // namespace accelopt::nki::interp
