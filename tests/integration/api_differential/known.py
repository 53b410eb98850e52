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


KNOWN = []
