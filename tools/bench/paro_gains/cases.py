"""What is measured: models, the systems for each, and the ratios that the method's authors published.

Their figures (arXiv 2310.06003 and its later text; 32 GPUs in groups of 8, 2000 Gbit/s inside and 80
Gbit/s between, 10 micro-batches of 4 samples of 512 tokens) stand beside ours as theirs.
"""
import dataclasses

SOME = "NNG,NII,NGG,NGG/ring,ING,III,IIG,IIG/ring,IGG,GGG,GGG/ring,zero1,zero2,zero3,mics,hsdp,hpz"
SWEPT = "IIG,NII,III,ING,NGG,GGG,zero2,zero3"
SCALING = "scaling"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    what: str
    model: str
    scale: str          # so large that starting and waking, which scale does not touch, are a per cent or two
    scale_one_nic: str  # smaller: what goes between nodes takes longer there
    systems: str
    factors: str = "1"
    theirs: tuple = ()  # ((ours, baseline), how many times as fast), as published

    def arguments(self, nics):
        scale = self.scale if nics > 1 else self.scale_one_nic
        return ["--model", self.model, "--scale", scale, "--systems", self.systems,
                "--compute-factors", self.factors, "--steps", "1"]


CASES = (
    Case("7b", "7B, all trained, every strategy and baseline", "llama-7b", "1/1000", "1/4000", "all",
         theirs=((("IIG", "zero3"), 2.28), (("NII", "zero2"), 1.67))),
    Case("7b-sweep", "the same, computation a quarter to four times as long", "llama-7b", "1/4000", "1/8000",
         SWEPT,
         "0.25,0.5,1,2,4", ((("IIG", "zero3"), 2.28), (("NII", "zero2"), 1.67))),
    Case("65b", "65B, all trained", "llama-65b", "1/18500", "1/37000", SOME, theirs=((("IIG", "zero3"), 1.86),)),
    Case("65b-sixteenth", "65B, a sixteenth trained", "llama-65b,trainable=4.0625e9", "1/18500", "1/37000", SOME,
         theirs=((("III", "zero3"), 3.64), (("IIG", "zero3"), 3.66))),
    Case("65b-peft", "65B, 3 in 1000 trained", "llama-65b,trainable=1.95e8", "1/18500", "1/37000", SOME,
         theirs=((("ING", "zero3"), 1.44),)),
)

# Drawn against the ratio of computation to communication.
RATIOS = (("IIG", "zero3"), ("NII", "zero2"), ("III", "zero3"), ("ING", "zero3"))


def published_regime(trained_share):
    """Computation over ZeRO-3's communication, in seconds of a step, on the published cluster."""
    parameters, ranks, rate, tokens = 7e9, 32, 10e9, 4 * 512
    compute_s = (2 * parameters + 2 * parameters * (1 + trained_share)) * tokens / (312e12 * 0.4)
    share = (ranks - 1) / ranks / rate
    communication_s = (2 * 2 * parameters + 2 * parameters * trained_share) * share
    return compute_s / communication_s
