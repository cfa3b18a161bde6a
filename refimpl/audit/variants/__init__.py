"""The known variants of each kind."""

from refimpl.audit.variant import Variant
from refimpl.audit.variants import attacks, choices, coordinates, learning, rounds, weights

VARIANTS: dict[str, tuple[Variant, ...]] = {
    **weights.VARIANTS,
    **coordinates.VARIANTS,
    **choices.VARIANTS,
    **attacks.VARIANTS,
    **learning.VARIANTS,
    **rounds.VARIANTS,
}
