#!/usr/bin/python3
"""The profile comes from the stream: with half the DMA rate the DMA-bound baselines slow down as the
cost of their descriptors says, and the PE-bound ones hardly."""
import json
import re

from harness import SOURCE, Workspace, check, run

with Workspace() as work:
    text = (SOURCE / "configs/hardware/trn1.yaml").read_text()
    value = lambda key: float(re.search(rf"^{key}: *([0-9.]+)", text, re.M).group(1))
    rate = value("dma_queue_bytes_per_ns")
    halved = re.sub(r"^(dma_queue_bytes_per_ns: *)[0-9.]+", rf"\g<1>{rate / 2}", text, flags=re.M)
    check(halved != text, "the rate was not found in trn1.yaml")
    (work / "slow.yaml").write_text(halved)

    def latencies(target):
        out, _ = run(0, ["bench", "--target", target, "--no-values", "--json"], work)
        return {p["problem"]: p["profile"] for p in json.loads(out)["problems"]}

    before, after = latencies("trn1"), latencies(str(work / "slow.yaml"))

    def descriptor_ns(run_bytes, bytes_per_ns, far):
        cost = run_bytes / bytes_per_ns + value("dma_descriptor_ns")
        return max(cost, value("dma_far_descriptor_ns")) if far else cost

    for problem, run_bytes, far in (("silu", 4096, True), ("adamw", 4096, False),
                                    ("rope_single_freq_apply", 2048, True)):
        computed = descriptor_ns(run_bytes, rate / 2, far) / descriptor_ns(run_bytes, rate, far)
        got = after[problem]["latency"] / before[problem]["latency"]
        print(f"{problem}: {got:.3f}x slower, descriptors say {computed:.3f}x")
        check(before[problem]["bound"] == "DMA", f"{problem} is DMA-bound")
        check(abs(got - computed) < 0.08 * computed, f"{problem}: {got} against {computed}")
    for problem in ("rmsnorm_matmul", "add_rmsnorm_matmul"):
        got = after[problem]["latency"] / before[problem]["latency"]
        print(f"{problem}: {got:.3f}x")
        check(got < 1.05, f"{problem} is PE-bound, and {got} times slower")
print("ok")
