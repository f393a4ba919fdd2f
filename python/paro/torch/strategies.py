"""The strategies, and what each asks of FSDP2."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from paro._library import strategy_letters, strategy_rows


class Scope(enum.Enum):
    """Over whom a state is split: nobody (every rank has all), a group, or all ranks.

    Attributes:
        N: Nobody.
        I: The ranks of a group ("intra").
        G: All ranks ("global").
    """

    N = "N"
    I = "I"  # noqa: E741
    G = "G"


@dataclass(frozen=True)
class Strategy:
    """Scopes of a model's states, as "IIG".

    Attributes:
        parameters: Of the parameters, between their uses.
        gradients: Of the gradients, between micro-batches.
        optimizer: Of the optimizer's state and masters.
    """

    parameters: Scope
    gradients: Scope
    optimizer: Scope

    def __str__(self) -> str:
        return self.parameters.value + self.gradients.value + self.optimizer.value

    @property
    def shards(self) -> Scope:
        """Over whom FSDP2 shards. What the optimizer splits further is ours: see splits_shards."""
        states = (self.parameters, self.gradients)
        return Scope.I if self.optimizer is Scope.G and Scope.I in states else self.optimizer

    @property
    def splits_shards(self) -> bool:
        """Whether ranks of different groups that hold the same shard split the optimizer's state."""
        return self.optimizer is Scope.G and self.shards is Scope.I

    @property
    def keeps_unsharded(self) -> bool:
        """Whether parameters stay gathered between micro-batches."""
        return self.parameters is Scope.N and self.shards is not Scope.N

    @property
    def reduces_last_only(self) -> bool:
        """Whether every rank sums whole gradients until the last micro-batch."""
        return self.gradients is Scope.N

    @property
    def splits_every_sum(self) -> bool:
        """Whether gradients leave the group's scope in every micro-batch."""
        return self.splits_shards and self.gradients is Scope.G


_NOT_ON_FSDP2 = "GIG"
_SCOPES = tuple(Scope)  # as paro.h numbers them

# What FSDP2 can have of libparo's strategies, by their letters.
STRATEGIES = {
    row.letters.decode(): Strategy(*(_SCOPES[each] for each in (row.parameters, row.gradients, row.optimizer)))
    for row in strategy_rows()
    if row.letters.decode() != _NOT_ON_FSDP2
}


def strategy_of(name: str | Strategy) -> Strategy:
    """The strategy of a name.

    Args:
        name: Three letters of N, I and G in any case, a system's name ("zero3", "hsdp"), or a strategy.

    Returns:
        One of STRATEGIES.

    Raises:
        ValueError: It is none. The text says what to write instead.
    """
    letters = strategy_letters(str(name))
    if letters == _NOT_ON_FSDP2:
        raise ValueError(
            f"strategy {letters} cannot be had on FSDP2, which reduces gradients over the ranks that share "
            "a parameter's shards; III keeps both inside groups, IGG has gradients over all ranks"
        )
    return STRATEGIES[letters]
