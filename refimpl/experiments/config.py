"""The configuration of a run."""

from dataclasses import dataclass

from refimpl.attacks import ATTACKS

Edges = tuple[tuple[int, int], ...]
MOST_BYTES = 80  # of a name: a file has two of them and a little more in its own, of 255 at most
NOT_IN_FILES = '/\\:*?"<>|'  # by the rules of Windows: results may go there


@dataclass(frozen=True)
class Config:
    """A run: everything that its numbers depend on, and the device."""

    task: str  # a name in TASKS; likewise attack, optimizer, partition and features
    rule: str  # a name in RULES, or in related.SYSTEMS
    attack: str
    seed: int
    workers: int
    attackers: int
    epochs: int
    graph: str | Edges  # a name for `graphs.build`, or the edges
    risk: str
    optimizer: str
    lr: float
    batch_size: int
    partition: str
    features: str
    dtype: str
    released: tuple[str, ...] = ()  # names in `released.DIFFERENCES`
    l2: float = 0.0
    start: str = "own"  # initial values: each worker's "own", or "common" to all
    graph_schedule: str | tuple[Edges, ...] = ""  # for systems: for `schedules.build`; "": none
    loss: float = 0.0  # for `faults.draw`, as the next two
    late: float = 0.0
    crash: int = 0
    plain: bool = False  # run the specification itself
    gpu: bool = False
    device: int = 0  # which GPU

    def __post_init__(self) -> None:
        """Raises ValueError if a name from the user's tables cannot stand in the name of a file."""
        for name in (self.task, self.rule, self.attack):
            characters = name.isprintable() and not set(name) & set(NOT_IN_FILES)
            if not characters or not 0 < len(name.encode()) <= MOST_BYTES:
                needs = f"a name of 1 to {MOST_BYTES} bytes, printable and without {NOT_IN_FILES}"
                raise ValueError(f"results are filed under {needs}, got {name!r}")

    @property
    def name(self) -> str:
        """The run's name among those of a command: adaptive_alie_seed0."""
        return f"{self.rule}_{self.attack}_seed{self.seed}"

    @property
    def faulty(self) -> bool:
        """Whether anything may go wrong in the network."""
        return bool(self.loss or self.late or self.crash)

    @property
    def liars(self) -> int:
        """The number of workers that attack: 0 if the attack is none."""
        return self.attackers if ATTACKS[self.attack].lies else 0
