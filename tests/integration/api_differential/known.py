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
    Divergence("operators", r"nisa\.(tensor_scalar|scalar_tensor_tensor|tensor_tensor|"
               r"activation|activation_reduce|tensor_scalar_reduce)",
               r"not <function>|logical_xor", "rsqrt, abs, logical_xor, gelu_apprx_sigmoid as op"),
    Divergence("affine-equal", r"nisa\.affine_select", r"takes one comparison",
               "a comparison by == is one comparison"),
    Divergence("broadcast-result", r"nl\.broadcast_to", r"out_of_bound|partition_step",
               "the result is a tile of its own, which may be indexed"),
    Divergence("strided-transpose", r"nisa\.nc_transpose", r"collapse to two",
               "free axes that do not merge are still a legal access pattern"),
    Divergence("transpose-mask", r"nisa\.nc_transpose", r"with a mask", "not implemented yet"),
    Divergence("array-tiling", r"nisa\.nc_matmul", r"PE tiling", "not implemented yet"),
    Divergence("affine-mask", r"nisa\.affine_select", r"with a mask|start_partition",
               "the predicate is no mask: its partitions are all processed"),
    Divergence("accumulators", r"nisa\.activation", r"kept in registers", "not implemented yet"),
    Divergence("indirect", r"nl\.(load|store)|nisa\.dma_copy", r"values of another tensor",
               "not implemented yet"),
    Divergence("reciprocal-bias", r"forbidden nisa\.activation", r"must be refused, got ok",
               "reciprocal takes no bias on NeuronCore-v2"),
]
