"""Divergences from the documentation that are not settled yet, each with its reason. A failure that
one of these explains is counted under it, not forgiven silently; an entry that explains nothing any
more fails the test, so that it goes with the fix."""
import dataclasses
import re


@dataclasses.dataclass
class Divergence:
    name: str
    apis: str  # regular expression of API names
    fault: str  # regular expression of what is wrong
    reason: str

    def explains(self, api, fault):
        return re.fullmatch(self.apis, api) and re.search(self.fault, fault)


KNOWN = [
    Divergence("exact-int32", r"nisa\.tensor_tensor", r"elements wrong.* as int32",
               "32-bit integer add, subtract, multiply are exact (GpSimd); here float32"),
    Divergence("unary-integer-dtype", r"nl\.\w+", r"^y0 is float32.*expected u?int",
               "a unary function's dtype defaults to the integer dtype of its tile"),
    Divergence("promotion", r"nl\.\w+", r"^y0 is \w+\[.*expected (float32|float16|int32|int16|bfloat16)",
               "weak scalars are float32 and int32; mixed integers widen"),
    Divergence("promotion-values", r"nl\.(multiply|power|add|subtract|minimum|maximum|mod|divide|where)",
               r"elements wrong|uninitialized_read", "the same, seen in an existing destination"),
    Divergence("operators", r"nisa\.(tensor_scalar|scalar_tensor_tensor|tensor_tensor|"
               r"activation|activation_reduce|tensor_scalar_reduce)",
               r"not <function>|logical_xor", "rsqrt, abs, logical_xor, gelu_apprx_sigmoid as op"),
    Divergence("affine-equal", r"nisa\.affine_select", r"takes one comparison",
               "a comparison by == is one comparison"),
    Divergence("scalar-engine-copy", r"nisa\.tensor_copy", r"elements wrong",
               "the Scalar Engine copies int32 through float32"),
    Divergence("broadcast-result", r"nl\.broadcast_to", r"out_of_bound|partition_step",
               "the result is a tile of its own, which may be indexed"),
    Divergence("bit-reduction", r"nisa\.tensor_reduce", r"elements wrong.* as u?int32",
               "bitvec reductions work on bit patterns, not on float32"),
    Divergence("profile-parameters", r"nki\.profile", r"unexpected keyword",
               "working_directory, overwrite and profile_nth are parameters"),
    Divergence("strided-transpose", r"nisa\.nc_transpose", r"collapse to two",
               "free axes that do not merge are still a legal access pattern"),
    Divergence("affine-mask", r"nisa\.affine_select", r"with a mask", "not implemented yet"),
    Divergence("accumulators", r"nisa\.activation", r"kept in registers", "not implemented yet"),
    Divergence("indirect", r"nl\.(load|store)|nisa\.dma_copy", r"values of another tensor",
               "not implemented yet"),
    Divergence("not-refused", r"forbidden (nisa\.(activation|affine_select|memset|nc_matmul|"
               r"tensor_copy|tensor_reduce|tensor_scalar|tensor_tensor)|nl\.bitwise_and)",
               r"must be refused, got ok", "stricter on the device"),
]
