"""Explains why Slurm refuses a job or has no nodes for it, with the file and key to change."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.schedulers.slurm.given import GPU_OPTIONS, MEMORY_OPTIONS, asked_gres, mebibytes
from argosy.schedulers.slurm.options import ScriptOptions
from argosy.schedulers.slurm.partitions import Node, in_partition
from argosy_common.errors import some

FULL: tuple[tuple[str, str], ...] = (
    (r"AssocMaxSubmit\w*", "your jobs in the queue have reached the account's limit per user"),
    (r"QOSMaxSubmit\w*", "your jobs in the queue have reached the QoS's limit per user"),
    (
        r"AssocGrpSubmit\w*|MaxSubmitJobsPerAccount",
        "the jobs of your account in the queue have reached its limit",
    ),
    (r"QOSGrpSubmit\w*", "the jobs of this QoS in the queue have reached its limit"),
    (r"maintenance reservation", "a maintenance is planned"),
    (
        r"temporarily unable to accept job|unable to create job record|submissions disabled|"
        r"rate limit|try again (?:later|in (?:a|\d))|too (?:many|fast)[^.;]* submi|"
        r"too many (?:\w+ ){0,2}jobs|max(?:imum)? number of (?:\w+ )?jobs|limit of \d+ (?:\w+ )?jobs|"
        r"max(?:imum)? jobs?\b(?! (?:size|time|length|duration|memory|wall))|"
        r"jobs? limit (?:reached|exceeded)",
        "Slurm accepts no more jobs for now",
    ),
)
"""Temporary refusals: patterns of messages of Slurm and of sites, and the reason to wait."""

NO_WORD = re.compile(r"job submit limit, user's size and/or time limits")
"""Slurm's message about any limit of an account or QoS; it usually also names the limit."""

LIMIT = re.compile(r"\b((?:QOS|Assoc)(?:Max|Min|Grp)\w+|Max\w+Per(?:Account|Limit))\b")
"""The limit that a single job exceeds, as reported by a QoS with DenyOnLimit."""

LIMITED: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"Wall|Minutes", ("time",)),
    (r"Node", ("nodes",)),
    (r"Cpu|CPU", ("cpus-per-task", "nodes")),
    (r"Mem", ("mem",)),
    (r"GRES", ("gres",)),
    (r"", ("nodes", "cpus-per-task", "mem", "time")),
)
"""The options behind such a limit, by a pattern of its name."""

NO_MUNGE = re.compile(r"munge|authentication|credential", re.IGNORECASE)
"""Authentication fails: a fault of this machine, so waiting does not help."""

NO_SUCH_NODES = re.compile(r"node configuration", re.IGNORECASE)
"""No node satisfies the whole request; Slurm does not name the option at fault."""

NODE_OPTIONS = ("cpus-per-task", *MEMORY_OPTIONS, *GPU_OPTIONS, "constraint", "nodes", "partition")
"""Options that no node, or too few nodes, may satisfy."""

SLURMS_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"accounting/QOS policy", ("nodes", "time", "qos", "account")),
    (r"usage threshold", ("qos", "account")),
    (r"nodes not in this partition", ("nodelist", "partition")),
    (r"time limit", ("time",)),
    (r"memory specification|memory required", ("mem",)),
    (r"more processors|cpu count", ("cpus-per-task", "nodes")),
    (r"node count|too many nodes|PartitionNodeLimit", ("nodes",)),
    (r"invalid account|account/partition", ("account", "partition")),
    (r"invalid qos|qos specification", ("qos",)),
    (r"\bpartition", ("partition",)),
    (r"generic resource|\bgres\b", ("gres",)),
    (r"feature specification", ("constraint",)),
    (r"reservation", ("reservation",)),
    (r"license specification", ("licenses",)),
    (r"node name", ("nodelist",)),
    (r"wckey", ("wckey",)),
)
"""Messages of sbatch (slurm_errno.h), and the options that they concern."""

SITES_WORDS: tuple[tuple[str, str], ...] = (
    (r"project|account|allocation|budget|charge|\s-A\b", "account"),
    (r"partition|queue|\s-p\b", "partition"),
    (r"\bqos|quality of service|\s-q\b", "qos"),
    (r"time ?limit|wall ?-?time|--time|\s-t\b", "time"),
    (r"\bgpu|\bgres|accelerator|\s-G\b", "gres"),
    (r"constraint|feature|file ?system|\s-C\b", "constraint"),
    (r"licen[cs]e|\s-L\b", "licenses"),
    (r"reservation", "reservation"),
    (r"memory|--mem\b", "mem"),
    (r"\bcores?\b|\bcpus?\b|processors|\s-c\b", "cpus-per-task"),
    (r"number of nodes|many nodes|few nodes|\bnodes\b|--nodes|\s-N\b", "nodes"),
)
"""Words in messages of sites' submit plugins, and the option they may mean."""

NO_REASON = re.compile(
    r"(?:; |^)(?:allocation failure|Batch job submission failed): Unspecified error$|"
    r"(?:; |^)cli_filter plugin terminated with error$"
)
"""Slurm's addition to a plugin's message."""

MEMORY_BY_NODE = re.compile(
    r"mem-per-(?:cpu|gpu)|memory (?:by|per) (?:node|cpu|core|gpu)|"
    r"--mem\b[^.;]*\b(?:not|reject|disallow|forbid|instead)|"
    r"(?:do not|don't|never|without|remove|drop) (?:\w+ ){0,3}--mem\b",
    re.IGNORECASE,
)
"""Messages of sites that require memory per CPU or GPU, or no memory option."""

UNSAID = ("job-name", "chdir", "output", "open-mode", "requeue", "ntasks-per-node")
"""Options that are the same for every job."""


def wait_for(said: str, *, has_jobs: bool) -> str:
    """Return why a refused job has to wait, with Slurm's message; empty if waiting does not help.

    Args:
        has_jobs: whether the user has jobs in the queue, which may fill an unnamed limit.
    """
    for pattern, words in FULL:
        if found := re.search(pattern, said, re.IGNORECASE):
            return f"{words} ({found[0] if found[0].isalnum() else said})"
    if has_jobs and NO_WORD.search(said) and not LIMIT.search(said):
        return f"a limit of your account or QoS is reached, perhaps by your other jobs ({said})"
    return ""


def explain(run_dir: Path, said: str) -> str:
    """Return the file, the key and Slurm's message in one line, for the job of a run or a build."""
    script = ScriptOptions(run_dir)
    if NO_MUNGE.search(said):
        return f"{script.where}: munge does not run here, so Slurm cannot authenticate you: {said}"
    if MEMORY_BY_NODE.search(said) and "mem" in script.values:
        return _memory_by_node(script, said)
    if NO_SUCH_NODES.search(said) and not re.search("memory specification", said, re.IGNORECASE):
        return _of_some_node_option(script, said)
    options = _options_of(script, said)
    return refusal(script, options, said) if options else _in_the_sites_words(script, said)


def _options_of(script: ScriptOptions, said: str) -> list[str]:
    """Return the options that Slurm's message concerns; none for a site's own message."""
    if limit := LIMIT.search(said):
        asked = next(options for pattern, options in LIMITED if re.search(pattern, limit[1]))
        of = "account" if limit[1].startswith("Assoc") else "qos"
        return [*_present(script, asked), of]
    if NO_REASON.search(said):
        return []
    # The last sentence is Slurm's reason; a plugin may have printed earlier ones.
    last = said.rpartition(": ")[2]
    for words in (last, said):
        for pattern, options in SLURMS_WORDS:
            if re.search(pattern, words, re.IGNORECASE):
                return _present(script, options)
    return []


def _present(script: ScriptOptions, options: Sequence[str]) -> list[str]:
    """Return the first option, and every other option that the script has."""
    return [options[0], *(option for option in options[1:] if script.named(option))]


def refusal(script: ScriptOptions, options: Iterable[str], said: str) -> str:
    """Return the keys of these options and Slurm's message in one line."""
    return f"{_keys(script, options)}: Slurm refuses {script.where}: {said}"


def _memory_by_node(script: ScriptOptions, said: str) -> str:
    """Return the keys of a site's file for other memory options."""
    return (
        f'{script.site_file}: options: write `mem-per-cpu: "{{memory_per_cpu}}M"` if the site counts '
        f'memory by CPU, `mem-per-gpu: "{{memory_per_gpu}}M"` if by GPU, `mem: null` if it accepts none: '
        f"Slurm refuses {script.where}, which requests mem={script.values['mem']}: {said}"
    )


def _of_some_node_option(script: ScriptOptions, said: str) -> str:
    """Return the refusal with all node options and keys, since Slurm does not name the option at fault."""
    asked = [option for option in NODE_OPTIONS if option in script.values]
    keys = f"Slurm refuses {script.where}: {said}"
    if not asked:
        return f"{script.size_keys()}: {keys}"
    return f"{script.site_file}: {keys}: no nodes have all of {script.listed(asked)}"


def _keys(script: ScriptOptions, options: Iterable[str]) -> str:
    """Return the keys of the script's options (`ScriptOptions.named`)."""
    names = [name for option in options for name in script.named(option) or (option,)]
    return ", or ".join(dict.fromkeys(script.keys(name) for name in names))


def _in_the_sites_words(script: ScriptOptions, said: str) -> str:
    """Return a site's own message with the options it mentions, or else all options of the script."""
    said = NO_REASON.sub("", said) or said
    meant = [option for pattern, option in SITES_WORDS if re.search(pattern, said, re.IGNORECASE)]
    if meant:
        return (
            f"{_keys(script, meant)}: Slurm refuses {script.where} with the site's own message, "
            f"which mentions {', '.join(meant)}: {said}"
        )
    asked = script.listed([option for option in script.values if option not in UNSAID])
    of_what = f"; the script requests {asked}" if asked else ""
    return f"{script.where}: Slurm refuses {script.run_dir / 'job.sbatch'}: {said}{of_what}"


Values = Mapping[str, str | None]

_SHOWN = 3
"""Most names in a message."""


@dataclass(frozen=True)
class Shortage:
    """Too few nodes satisfy these options of the script; `words` is the reason."""

    options: tuple[str, ...]
    words: str


@dataclass(frozen=True)
class Wait:
    """Enough nodes suit, but too many are unavailable now; `words` lists them."""

    words: str


@dataclass(frozen=True)
class _Demand:
    """An option's request per node: `given_by` tests a node, `most` describes what nodes offer."""

    option: str
    given_by: Callable[[Node], bool]
    most: Callable[[Sequence[Node]], str]


def find_shortage(values: Values, nodes: list[Node]) -> Shortage | Wait | None:
    """Return why Slurm has no nodes for a script with these options; None if unknown.

    Args:
        nodes: nodes of all partitions.
    """
    here = in_partition(values.get("partition"), nodes)
    wanted = int(values.get("nodes") or 1)
    if not here:
        return None
    of = f"nodes of partition {here[0].partition}"
    if len(here) < wanted:
        return Shortage(("nodes",), f"it requests {wanted} nodes, there are {len(here)} {of}")
    suited = here
    demands = list(_demands(values, nodes))
    for demand in demands:
        giving = [each for each in here if demand.given_by(each)]
        if len(giving) < wanted:
            asked = f"it requests {demand.option}={values[demand.option]} on {wanted} {of}"
            words = f"{asked}; {len(giving)} of {len(here)} have it ({demand.most(here)})"
            return Shortage((demand.option,), words)
        suited = [each for each in suited if each in giving]
    if len(suited) < wanted:
        options = tuple(demand.option for demand in demands)
        return Shortage(options, f"{len(suited)} of {len(here)} {of} satisfy all options together")
    away = [each for each in suited if each.away]
    if len(suited) - len(away) < wanted:
        return Wait(f"of {len(suited)} {of} that suit, {_away_in_words(away)}")
    return None


def _demands(values: Values, nodes: Sequence[Node]) -> Iterator[_Demand]:
    if (cpus := values.get("cpus-per-task")) and cpus.isdigit():
        count = int(cpus)
        yield _Demand("cpus-per-task", lambda node: node.cpus >= count, _most_cpus)
        if each := mebibytes(values.get("mem-per-cpu")):
            total = each * count
            yield _Demand("mem-per-cpu", lambda node: node.memory >= total, _most_memory)
    if memory := mebibytes(values.get("mem")):
        yield _Demand("mem", lambda node: node.memory >= memory, _most_memory)
    # Some sites hide their gres.
    if any(each.gres for each in nodes):
        for option in GPU_OPTIONS:
            if asked := asked_gres(option, values.get(option)):
                yield _Demand(option, _gives_gres(asked), _kinds)
    constraint = values.get("constraint") or ""
    if re.fullmatch(r"[\w.-]+(?:&[\w.-]+)*", constraint):
        features = frozenset(constraint.split("&"))
        yield _Demand("constraint", lambda node: features <= node.features, _features)


def _gives_gres(asked: Mapping[str, int]) -> Callable[[Node], bool]:
    return lambda node: all(node.gres.get(kind, 0) >= count for kind, count in asked.items())


def _most_cpus(here: Sequence[Node]) -> str:
    return f"the largest has {max(each.cpus for each in here)} CPUs"


def _most_memory(here: Sequence[Node]) -> str:
    return f"the largest has {max(each.memory for each in here)}M"


def _kinds(here: Sequence[Node]) -> str:
    found = {f"{kind}:{count}" for each in here for kind, count in each.gres.items()}
    return f"they have {some(sorted(found, key=len, reverse=True), _SHOWN) or 'none'}"


def _features(here: Sequence[Node]) -> str:
    found = {name for each in here for name in each.features}
    return f"they have {some(sorted(found), _SHOWN)}"


def _away_in_words(away: Sequence[Node]) -> str:
    """Describe the number, names, states and reasons of unavailable nodes."""
    states = sorted({each.state for each in away})
    reasons = sorted({each.reason for each in away if each.reason})
    why = f": {some(reasons, _SHOWN)}" if reasons else ""
    names = some([each.name for each in away], _SHOWN)
    return f"{len(away)} accept no jobs now ({names}; {', '.join(states)}{why})"
