"""Real builds: cache, resumption, errors, and what stays out of the image."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import psutil
import pytest
from image_programs import BASE, built, contained

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.archive.packing import pack_image
from argosy_images.builder.builder import build_image
from argosy_images.builder.workspace import MOST_LAYERS, OverlayWorkspace
from argosy_images.engines.models import Container
from argosy_images.interchange.exporting import export_image
from argosy_images.interchange.importing import import_image
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = pytest.mark.container


def build(store: Store, folder: Path, text: str) -> ImageLock:
    return built(store, folder, f"{BASE}\n{text}")


def steps_run(folder: Path) -> list[str]:
    """Return the titles of the steps that the last build ran."""
    lines = (folder / "build.log").read_text().splitlines()
    return [line.partition("] ")[2] for line in lines if line.startswith("# [")]


def read(store: Store, lock: ImageLock, path: str) -> str:
    return (store.root(lock.digest) / path).read_text()


def test_instructions_do_what_they_say(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "b").write_text("b")
    (folder / "a").write_text("a")
    (folder / "link").symlink_to("a")
    (folder / "sub" / "link").symlink_to("b")
    lock = build(
        store,
        folder,
        'ARG WHO=world\nENV GREETING="hello $WHO"\nWORKDIR /srv/app\n'
        'RUN echo "$GREETING" > said && pwd > where\nCOPY a link sub /files/\n'
        'RUN ["/bin/sh", "-c", "echo exec > /exec"]\nLABEL a.b=c\n',
    )
    assert read(store, lock, "srv/app/said") == "hello world\n"
    assert read(store, lock, "srv/app/where") == "/srv/app\n"
    assert read(store, lock, "files/a") + read(store, lock, "files/b") == "ab"
    files = store.root(lock.digest) / "files"
    # The folder's link was copied last, and stays a link.
    assert (files / "link").readlink() == Path("b")
    assert read(store, lock, "exec") == "exec\n"
    assert lock.config.environment["GREETING"] == "hello world"
    assert (lock.config.workdir, lock.config.labels) == ("/srv/app", {"a.b": "c"})
    assert ImageLock.read(folder / "image.lock") == lock


@pytest.mark.thorough
def test_packages_that_give_files_away_and_users_install_without_root(
    store: Store, tmp_path: Path
) -> None:
    lock = build(
        store,
        tmp_path / "image",
        # This package's ssh-agent belongs to a group of its own.
        "RUN apt-get update && apt-get install -y --no-install-recommends openssh-client\n"
        "RUN groupadd --system team && useradd --create-home --gid team member"
        " && touch /home/member/x && chown member:team /home/member/x && chmod u+s /bin/ls\n",
    )
    assert "member:" in read(store, lock, "etc/passwd")
    assert "_ssh:" in read(store, lock, "etc/group")
    assert (store.root(lock.digest) / "usr/bin/ssh-agent").exists()


def test_stages_and_what_is_copied_between_them(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "unused").write_text("x")
    text = """
FROM docker.io/library/debian:bookworm-slim AS tools
RUN mkdir /out && echo one > /out/one && ln -s /out/one /out/link && chmod 700 /out/one
FROM docker.io/library/debian:bookworm-slim AS unneeded
RUN exit 9
FROM scratch
COPY --from=tools /out/ /from/tools/
COPY --from=tools --chmod=755 /out/o* /program
ENTRYPOINT ["/program"]
CMD ["--help"]
USER 1000
EXPOSE 80 443/udp
STOPSIGNAL SIGINT
VOLUME /data
"""
    lock = built(store, folder, text)
    root = store.root(lock.digest)
    assert read(store, lock, "from/tools/one") == "one\n"
    assert (root / "from/tools/link").readlink() == Path("/out/one")
    assert stat.S_IMODE((root / "from/tools/one").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "program").stat().st_mode) == 0o755
    assert not (root / "bin").exists()
    config = lock.config
    assert (config.entrypoint, config.cmd) == (("/program",), ("--help",))
    assert (config.user, config.exposed, config.stop_signal) == (
        "1000",
        ("443/udp", "80/tcp"),
        "SIGINT",
    )
    assert config.volumes == ("/data",)


def test_another_image_of_the_project_is_a_stage(store: Store, tmp_path: Path) -> None:
    build(store, tmp_path / "shared", "RUN echo wheel > /wheel\n")
    assert len(steps_run(tmp_path / "shared")) == 1
    folder = tmp_path / "image"
    lock = build(store, folder, "COPY --from=localhost/shared /wheel /wheels/\n")
    assert steps_run(folder) == ["COPY --from=localhost/shared /wheel /wheels/"]
    assert read(store, lock, "wheels/wheel") == "wheel\n"


def test_here_documents(store: Store, tmp_path: Path) -> None:
    text = """ENV WHO=me
RUN <<EOF
set -e
echo "$WHO" > /by-shell
EOF
RUN <<'EOF'
#!/usr/bin/env -S sed -n w/by-program
a line
EOF
RUN cat <<A > /a && cat <<B >> /a
first $WHO
A
second
B
COPY --chmod=600 <<one <<"two" /files/
$WHO "quoted"
one
$WHO
two
SHELL ["/bin/bash", "-c"]
RUN [[ -e /a ]] && echo bash > /by-bash
"""
    lock = build(store, tmp_path / "image", text)
    assert read(store, lock, "by-shell") == "me\n"
    assert read(store, lock, "a") == "first me\nsecond\n"
    assert read(store, lock, "files/one") == 'me "quoted"\n'
    assert read(store, lock, "files/two") == "$WHO\n"
    assert read(store, lock, "by-bash") == "bash\n"


def test_mounts_of_a_step_leave_nothing_in_the_image(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "input").write_text("data")
    text = """FROM docker.io/library/debian:bookworm-slim AS other
RUN echo from-stage > /file
FROM docker.io/library/debian:bookworm-slim
RUN --mount=type=cache,target=/cache date +%N > /cache/x && cp /cache/x /first
RUN --mount=type=cache,target=/cache cp /cache/x /second
RUN --mount=source=input,target=/in/put --mount=from=other,source=/file,target=/of/stage \
    cat /in/put /of/stage > /both && ! touch /in/put
RUN --mount=source=.,target=/context,rw touch /context/new && ls /context > /listed
RUN --mount=type=tmpfs,target=/scratch touch /scratch/x
RUN echo "10.1.2.3 licence" >> /etc/hosts && echo > /etc/resolv.conf && grep licence /etc/hosts
RUN ! grep licence /etc/hosts && cp /etc/resolv.conf /seen
"""
    (folder / "Containerfile").write_text(text)
    host = [Path(name).read_bytes() for name in ("/etc/hosts", "/etc/resolv.conf")]
    lock = build_image(store, folder, tmp_path / "image.lock", tmp_path / "build.log")
    assert [Path(name).read_bytes() for name in ("/etc/hosts", "/etc/resolv.conf")] == host
    assert read(store, lock, "seen").encode() == host[1]
    assert lock.steps[-2].diff_id is None
    assert read(store, lock, "first") == read(store, lock, "second")
    assert read(store, lock, "both") == "datafrom-stage\n"
    assert "new" in read(store, lock, "listed")
    assert not (folder / "new").exists()
    root = store.root(lock.digest)
    assert not [
        name for name in ("cache", "in", "of", "context", "scratch") if (root / name).exists()
    ]


@pytest.mark.thorough
def test_more_steps_than_one_mount_can_join(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "file").write_text("x")
    steps = MOST_LAYERS + 20
    text = "".join(f"COPY file /files/{number}\n" for number in range(steps))
    lock = build(store, folder, f"{text}RUN rm /files/0 /files/79 && ls /files | wc -l > /count\n")
    assert read(store, lock, "count") == f"{steps - 2}\n"
    left = {path.name for path in (store.root(lock.digest) / "files").iterdir()}
    assert left == {str(number) for number in range(1, steps - 1)}


def test_a_step_that_changes_nothing_is_no_layer(store: Store, tmp_path: Path) -> None:
    lock = build(store, tmp_path / "image", "RUN touch /x && rm /x\nRUN true\n")
    assert [step.diff_id for step in lock.steps[1:]] == [None, None]


def test_a_mounted_folder_lacks_what_the_ignore_file_names(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    files = {
        **dict.fromkeys(("seen", "secret.env", "keys/private", "keys/public", "all/x"), "1\n"),
        ".containerignore": "secret.env\nkeys\n!keys/public\nall\nbuild.log\nimage.lock\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    lock = build(
        store,
        folder,
        "RUN --mount=type=bind,target=/c cd /c && find . -type f | sort >/whole\n"
        "RUN --mount=type=bind,source=keys,target=/k cd /k && find . -type f >/keys\n",
    )
    assert (
        read(store, lock, "whole") == "./.containerignore\n./Containerfile\n./keys/public\n./seen\n"
    )
    assert read(store, lock, "keys") == "./public\n"


@pytest.mark.thorough
def test_without_an_overlay_the_same_files_come_out(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "image"
    other = "RUN mkdir /made && echo 5 > /made/a && ln /made/a /made/b\n"
    text = (
        f"{other}{BASE}\n"
        "RUN mkdir -p /d/sub && echo 1 > /d/sub/x && echo 1 > /d/y && ln -s d /link && touch /gone\n"
        "RUN rm -r /d/sub /gone && mkdir /d/sub && echo 2 > /d/sub/z && chmod 711 /d\n"
        "RUN rm -r /d && echo file > /d && rm /etc/motd\n"
        "RUN echo 3 > /first && ln /first /second && mkdir /own\n"
        "COPY --from=0 /made /made\n"
        "RUN --mount=type=bind,from=0,source=/made,target=/m cp -a /m/a /own/ && (echo x >> /m/a; true)\n"
    )
    by_overlay = build(store, folder, text)
    expected = listing(store.root(by_overlay.digest))
    # Remove everything except the base, which is a link into the project's store.
    for made in (*store.layer("any").parent.iterdir(), store.root(by_overlay.digest)):
        if not made.is_symlink():
            remove_tree(made)
    monkeypatch.setattr(OverlayWorkspace, "works", staticmethod(lambda folder: False))
    by_copies = build(store, folder, text)
    assert len(steps_run(folder)) == 7
    assert listing(store.root(by_copies.digest)) == expected
    root = store.root(by_copies.digest)
    assert (root / "first").samefile(root / "second")
    # Writes to a mount of another stage do not change that stage.
    assert read(store, by_copies, "own/a") == "5\n"
    assert read(store, by_copies, "made/a") == "5\n"
    # Layers made without an overlay can be used with one.
    monkeypatch.undo()
    more = build(store, folder, text + "RUN ls / > /listed\n")
    assert "link" in read(store, more, "listed")
    assert "gone" not in read(store, more, "listed")


def listing(root: Path) -> list[tuple[str, str, int]]:
    return [
        (
            str(path.relative_to(root)),
            stat.filemode(path.lstat().st_mode),
            path.lstat().st_size if path.is_file() else 0,
        )
        for path in sorted(root.rglob("*"))
    ]


def test_folders_that_deny_their_owner_access_are_frozen_and_read(
    store: Store, tmp_path: Path
) -> None:
    """Root enters them elsewhere; programs of a run are root, but without capabilities."""
    folder = tmp_path / "image"
    (folder / "conf/sub").mkdir(parents=True)
    (folder / "conf/sub/file").write_text("copied\n")
    lock = build(
        store,
        folder,
        "COPY --chmod=644 conf /conf\n"
        "RUN mkdir -p /a/b && echo made > /a/b/c && chmod 000 /a/b && chmod 300 /a\n"
        "RUN cat /conf/sub/file /a/b/c > /seen\n",
    )
    command = ["cat", "/seen", "/conf/sub/file", "/a/b/c"]
    path = {"PATH": "/usr/bin:/bin"}
    outcome, said = contained(store, Container(store.root(lock.digest), command, environment=path))
    assert (outcome.status, said) == (0, "copied\nmade\n" * 2)
    assert (store.root(lock.digest) / "a").stat().st_mode & 0o777 == 0o500
    # Exported images keep the modes, and others their digest.
    export_image(store, lock, tmp_path / "image.tar")
    other = import_image(Store(tmp_path / "other"), tmp_path, tmp_path / "image.tar", "other")
    assert other.digest == lock.digest
    pack_image(store, lock, print)


def test_only_the_edited_last_step_runs_again(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    text = "RUN date +%N > /first\nRUN echo one > /last && rm -f /etc/motd\n"
    first = build(store, folder, text)
    assert len(steps_run(folder)) == 2
    assert build(store, folder, text) == first
    assert steps_run(folder) == []
    second = build(store, folder, text.replace("one", "two"))
    assert steps_run(folder) == ["RUN echo two > /last && rm -f /etc/motd"]
    assert second.digest != first.digest
    assert read(store, second, "last") == "two\n"
    assert read(store, second, "first") == read(store, first, "first")
    assert not (store.root(second.digest) / "etc/motd").exists()
    assert build(store, folder, text).digest == first.digest


def test_a_store_behind_a_symbolic_link(store: Store, tmp_path: Path) -> None:
    (tmp_path / "larger-disk").symlink_to(store.path)
    linked = Store(tmp_path / "larger-disk")
    lock = build(linked, tmp_path / "image", "RUN echo made > /made\n")
    assert read(store, lock, "made") == "made\n"
    outcome, said = contained(linked, Container(linked.root(lock.digest), ["cat", "/made"]))
    assert (outcome.status, said) == (0, "made\n")


def test_comments_and_layout_leave_the_lock_as_it_is(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    build(store, folder, "RUN true\n")
    before = (folder / "image.lock").read_bytes()
    build(store, folder, "\n# why\nRUN   true\n")
    assert (folder / "image.lock").read_bytes() == before


def test_a_failing_step_names_its_line_and_keeps_those_before(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    with pytest.raises(ArgosyError) as problem:
        build(store, folder, "RUN echo fine > /fine\n\nRUN echo 'a reason' && exit 3\n")
    message = str(problem.value)
    assert message.startswith(f"{folder}/Containerfile:4: RUN failed with exit status 3; ")
    assert "a reason" in message
    assert str(folder / "build.log") in message
    assert "\n" not in message
    assert not (folder / "image.lock").exists()
    build(store, folder, "RUN echo fine > /fine\n\nRUN true\n")
    assert steps_run(folder) == ["RUN true"]


def test_a_command_that_the_image_lacks_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match=r"Containerfile:2: RUN .*no-such-command"):
        build(store, tmp_path / "image", "RUN no-such-command --now\n")


def test_a_killed_build_goes_on_at_the_last_whole_step(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    folder = tmp_path / "image"
    folder.mkdir()
    text = "RUN date +%N > /first\nRUN touch /started && sleep 30\n"
    (folder / "Containerfile").write_text(f"{BASE}\n{text}")
    builder = subprocess.Popen(
        [sys.executable, "-m", "argosy.cli", "image", "build", "image"],
        cwd=make_project(tmp_path, folder),
        env={**os.environ, "ARGOSY_STORE": str(store.path)},
    )
    deadline = time.monotonic() + 60
    while not list(store.path.glob("builds/image/*/trees/*/upper/started")):
        assert builder.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    family = psutil.Process(builder.pid).children(recursive=True)
    assert len(family) > 2
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive
    assert [*temporary.iterdir()]
    build(store, folder, text.replace("sleep 30", "true"))
    assert steps_run(folder) == ["RUN touch /started && true"]
    # The temporary files of the killed build are gone, too.
    assert not [*temporary.iterdir()]


BUILD = """
import sys
from pathlib import Path
from argosy_images.builder.builder import build_image
from argosy_images.store.store import Store
folder = Path(sys.argv[2])
build_image(Store(Path(sys.argv[1])), folder, folder / "image.lock", folder / "build.log")
"""


def test_a_step_that_two_images_share_is_carried_out_once(store: Store, tmp_path: Path) -> None:
    step = "RUN --mount=type=cache,target=/kept echo once >> /kept/done; sleep 1; cp /kept/done /done\n"
    builds = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "Containerfile").write_text(f"{BASE}\n{step}RUN echo {name} > /name\n")
        command = [sys.executable, "-c", BUILD, store.path, folder]
        builds.append((folder, subprocess.Popen(command, stderr=subprocess.PIPE)))
    for folder, process in builds:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said.decode()
        lock = ImageLock.read(folder / "image.lock")
        assert (read(store, lock, "done"), read(store, lock, "name")) == (
            "once\n",
            f"{folder.name}\n",
        )


def make_project(tmp_path: Path, image: Path) -> Path:
    project = tmp_path / "project"
    (project / "containers").mkdir(parents=True)
    (project / "containers" / image.name).symlink_to(image)
    return project


def test_the_hosts_settings_reach_the_build_and_stay_out_of_the_image(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, wheels = tmp_path / "ca.pem", tmp_path / "wheels"
    bundle.write_text("CERTIFICATE-OF-THE-SITE")
    wheels.mkdir()
    (wheels / "a-wheel.whl").write_text("WHEEL")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("https_proxy", "http://user:PROXY-PASSWORD@proxy.example.org:3128")
    # The lock contains the instruction, so the instruction must not contain the secrets.
    certificate = sha256(b"CERTIFICATE-OF-THE-SITE").hexdigest()
    proxy = sha256(b"http://user:PROXY-PASSWORD@proxy.example.org:3128").hexdigest()
    lock = build(
        store,
        tmp_path / "image",
        f'RUN sha256sum < "$SSL_CERT_FILE" | grep {certificate} && ls $PIP_FIND_LINKS/a-wheel.whl'
        f' && printf %s "$https_proxy" | sha256sum | grep {proxy}\n',
    )
    found = subprocess.run(
        [
            "grep",
            "-rlE",
            "CERTIFICATE-OF-THE-SITE|PROXY-PASSWORD|proxy.example.org",
            store.root(lock.digest),
            store.layer("").parent,
            tmp_path / "image" / "build.log",
            store.description(lock.digest),
        ],
        capture_output=True,
        text=True,
    )
    assert found.stdout == ""
    assert "PIP_FIND_LINKS" not in lock.config.environment


def test_an_image_without_a_file_has_its_mount_points(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    (folder / "empty").mkdir(parents=True)
    lock = built(store, folder, "FROM scratch\nCOPY empty /\nENV TOLD=yes\n")
    assert (store.root(lock.digest) / "job").is_dir()
    assert lock.config.environment["TOLD"] == "yes"
