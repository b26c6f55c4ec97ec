"""A real SLURM on this machine alone: munged, slurmctld and some slurmd, for as long as someone listens.

    python -m tests.slurm.cluster [--nodes 2] [--cpus 4] [--gpus 4]

prints the path of its slurm.conf (what SLURM_CONF has to be for sbatch, squeue, ...) once all nodes are idle, and stops
everything when its standard input ends or it is sent SIGTERM. Whoever started it can die in any way: its end of the
pipe closes. Needs Debian's slurm-wlm and munge; no systemd, no cgroups, no root, nothing outside one folder in /tmp.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import getpass
import os
import random
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")
START_SECONDS = 180
_PR_SET_CHILD_SUBREAPER = 36

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits until its old credential has expired (two minutes by default).
AuthInfo=socket={folder}/munge.socket,cred_expire=5
# A job's port follows from its number: not the same ones in two test runs at once.
FirstJobId={first_job}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
# More CPUs and GPUs are promised than there are: what runs here is tiny.
SlurmdParameters=config_overrides
GresTypes=gpu
# A job of the partition urgent takes the nodes of one in main, which is told by its --signal and requeued. It is killed
# after GraceTime: long enough for a run to save on a slow machine, and nobody waits for the rest of it.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
ReturnToService=2
KillWait=5
# Finished jobs stay visible to scontrol show job.
MinJobAge=3600
SlurmctldTimeout=60
SlurmdTimeout=60
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=300
PartitionName=urgent Nodes={names} Default=NO MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


class ClusterError(Exception):
    """SLURM did not start; the message has what its logs say."""


def lacking() -> list[str]:
    """Which of the programs are not on this machine."""
    return [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]


def clean_environment(conf: Path | None = None) -> dict[str, str]:
    """This process's environment without what a SLURM job sets, so that tests can run inside a job."""
    prefixes = ("SLURM", "SBATCH", "SALLOC", "SQUEUE", "SINFO", "SCANCEL", "SRUN", "MUNGE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return {**kept, "PATH": _path()} | ({"SLURM_CONF": str(conf)} if conf else {})


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those of the jobs (scripts/slurm/job.sh)."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for _ in range(1000):
            port = random.SystemRandom().randrange(12000, 20000)
            server = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                server.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise ClusterError(f"{count} free ports between 12000 and 20000: not found")


@contextlib.contextmanager
def cluster(nodes: int, cpus: int, gpus: int) -> Iterator[Path]:
    """Start SLURM and stop it again, whatever happens in between.

    Args:
        nodes: number of slurmd; they are called 127.0.0.1, 127.0.0.2, ..., names that resolve everywhere.
        cpus, gpus: what each node has, as far as SLURM is told.

    Yields:
        its slurm.conf.

    Raises:
        ClusterError: the nodes did not get idle in time.
    """
    # Daemons and the steps of jobs leave their parents; as a subreaper this process is then their parent.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A path in /tmp whatever TMPDIR says: a unix socket's has 107 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    conf = folder / "slurm.conf"
    try:
        _prepare(folder, nodes, cpus, gpus)
        _start(folder, nodes)
        yield conf
    finally:
        _stop(conf)
        shutil.rmtree(folder, ignore_errors=True)


def _path() -> str:
    """Debian keeps daemons in sbin, which is not on every user's PATH."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _name(node: int) -> str:
    return f"127.0.0.{node}"


def _prepare(folder: Path, nodes: int, cpus: int, gpus: int) -> None:
    folder.chmod(0o755)  # munged wants its socket's folder to be open to all
    host = socket.gethostname().partition(".")[0]
    first, *ports = free_ports(nodes + 1)
    for name in ("state", *(f"spool/{_name(node)}" for node in range(1, nodes + 1))):
        (folder / name).mkdir(parents=True, mode=0o700)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    lines = [
        f"NodeName={_name(node)} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=1000"
        f" Gres=gpu:{gpus} State=UNKNOWN"
        for node, port in enumerate(ports, start=1)
    ]
    text = CONF.format(
        host=host,
        port=first,
        user=getpass.getuser(),
        folder=folder,
        first_job=random.SystemRandom().randrange(1, 60000),
        nodes="\n".join(lines),
        names=f"127.0.0.[1-{nodes}]",
    )
    (folder / "slurm.conf").write_text(text)
    for gpu in range(gpus):  # SLURM looks whether they are there, and no further
        (folder / f"gpu{gpu}").touch()
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{gpus - 1}]\n")


def _start(folder: Path, nodes: int) -> None:
    environment = clean_environment(folder / "slurm.conf")
    munged = ["munged", "--foreground", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket"]
    munged += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed"]
    commands = [munged, ["slurmctld", "-D", "-c"], *(["slurmd", "-D", "-N", _name(n)] for n in range(1, nodes + 1))]
    deadline = time.monotonic() + START_SECONDS
    started: list[subprocess.Popen[bytes]] = []
    for number, command in enumerate(commands):
        with (folder / f"start-{number}.log").open("wb") as output:
            started.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            )
        while number == 0 and not (folder / "munge.socket").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    while _idle_nodes(environment) != nodes:
        ended = [process for process in started if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            why = f"{ended[0].args!r} ended with {ended[0].returncode}" if ended else f"not idle in {START_SECONDS} s"
            logs = [f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in sorted(folder.glob("*.log"))]
            raise ClusterError("\n".join([why, *logs]))
        time.sleep(0.1)


def _idle_nodes(environment: Mapping[str, str]) -> int:
    query = ["sinfo", "--noheader", "--partition=main", "--states=idle", "--format=%D"]
    done = subprocess.run(query, env=environment, capture_output=True, text=True, timeout=30)
    return int(done.stdout.strip() or 0)


def _stop(conf: Path) -> None:
    """End the jobs as SLURM does, then whatever is left of all that was started here."""
    environment = clean_environment(conf)
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):
        everyone = ["scancel", f"--user={getpass.getuser()}"]
        subprocess.run(everyone, env=environment, capture_output=True, timeout=5)
        deadline = time.monotonic() + 10  # KillWait and a little
        while time.monotonic() < deadline:
            left = subprocess.run(["squeue", "--noheader"], env=environment, capture_output=True, timeout=10)
            if left.returncode or not left.stdout.strip():
                break
            time.sleep(0.1)
    for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + seconds
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while _descendants() and time.monotonic() < deadline:
            time.sleep(0.05)


def _descendants() -> list[int]:
    """All living processes below this one; the dead ones among its children are laid to rest."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(entry.name))
    found, new = [], children.get(os.getpid(), [])
    while new:
        found += new
        new = [pid for parent in new for pid in children.get(parent, [])]
    return found


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Run a cluster until standard input ends; 0, or 1 if it did not start."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, default in (("--nodes", 2), ("--cpus", 4), ("--gpus", 4)):
        parser.add_argument(option, type=int, default=default)
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        with cluster(arguments.nodes, arguments.cpus, arguments.gpus) as conf:
            print(conf, flush=True)
            while select.select([sys.stdin], [], [])[0] and os.read(sys.stdin.fileno(), 4096):
                pass
    except ClusterError as error:
        print(f"SLURM did not start: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
