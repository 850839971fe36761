"""Random Containerfiles give a plan, or an error of one line."""

import random
from pathlib import Path

import pytest
from fuzzing import fuzz, write
from garbled import garbled_text

from argosy_images.builder.recipe import plan
from argosy_images.oci import ImageConfig

CASES = 10_000
EVERYTHING = """\
# syntax=docker/dockerfile:1
# escape=\\
ARG VERSION=12 BASE=debian
FROM --platform=linux/amd64 ${BASE}:${VERSION:-11} AS first
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ENV A=1 B="two words" C=${VERSION:+x}
WORKDIR /a/${A}
RUN --mount=type=cache,target=/c --mount=type=bind,source=data,target=/d echo $A && \\
    # a comment
    true
RUN <<EOF cat
text $B
EOF
FROM localhost/other AS second
COPY --chown=1:2 --chmod=755 data/* "data/a b" /x/
COPY --from=first --link /a /b
ARG SUM=0000000000000000000000000000000000000000000000000000000000000000
ADD --checksum=sha256:${SUM} https://example.org/x /x
COPY <<-'A' <<B /here/
\tone
\tA
${A/1/2}
B
FROM second
COPY --from=0 /a /b
COPY --from=debian:12 /etc/hostname /h
USER 1000
EXPOSE 80
VOLUME ["/v"]
LABEL a=b "c d"="e f"
HEALTHCHECK NONE
STOPSIGNAL SIGTERM
ENTRYPOINT ["/bin/sh", "-c"]
CMD a b
"""
PIECES = (
    *"\n\r\f\0\x85\ufeff\u202e\ud7ff`#\\$=,{}*/~.['\"",
    *("\\\n", "--", "${", "${A", "${A:-${B}}", "${A:-", "${A#", "${A//x/", "$1", "[[", '["a"]'),
    *("<<E", "<<-'E'", '<<"E', "2<<E", "[!", "../", "@sha256:", "ADD", "FROM", "ONBUILD"),
    *("localhost/", "file://", "file:///%00", f"file:///{'a' * 300}", "http://", "git@"),
    *(" AS first\n", "FROM scratch\n", "--mount=", "from=", "type=tmpfs,", "source=", "--from="),
    *("--chmod=", "--exclude=", "/proc/self/", "9" * 400, "a" * 300),
)


@pytest.mark.thorough
@pytest.mark.slow
def test_garbled_files_give_a_plan_or_one_line(project: Path, tmp_path: Path) -> None:
    texts = [
        path.read_text(encoding="utf-8") for path in project.glob("containers/*/Containerfile")
    ]
    texts += [EVERYTHING] * len(texts)
    folder = tmp_path / "image"
    (folder / "data").mkdir(parents=True)
    for name in ("a b", "c", ".hidden"):
        (folder / "data" / name).write_text(name)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/Containerfile").write_text("FROM scratch\nCOPY . /\n")
    base = ImageConfig.from_oci({"Env": ["A=0"], "WorkingDir": "/w", "Shell": ["/bin/ash", "-c"]})

    def planned(chance: random.Random) -> bool:
        write(folder / "Containerfile", garbled_text(chance.choice(texts), PIECES, chance))
        return bool(plan(folder, lambda _: base, [project / "containers"]))

    fuzz(planned, CASES)
