rule tables:
    input:
        results=study_results(),
        runs=ancient(RUNS_FILE),
    output:
        runs=update(f"results/{SITE}/tables/runs.parquet"),
        steps=update(f"results/{SITE}/tables/steps.parquet"),
        metrics=update(f"results/{SITE}/tables/metrics.parquet"),
        collectives=update(f"results/{SITE}/tables/collectives.parquet"),
        layers=update(f"results/{SITE}/tables/layers.parquet"),
        failures=update(f"results/{SITE}/tables/failures.parquet"),
        nodes=update(f"results/{SITE}/tables/nodes.parquet"),
        printed=update(f"results/{SITE}/tables/printed.parquet"),
        telemetry=update(f"results/{SITE}/tables/telemetry.parquet"),
        timeline=update(f"results/{SITE}/tables/timeline.parquet"),
        gpus=update(f"results/{SITE}/tables/gpus.parquet"),
        unread=update(f"results/{SITE}/tables/unread.parquet"),
        problems=update(f"results/{SITE}/tables/problems.parquet"),
    log:
        f"logs/{SITE}/tables.log",
    localrule: True
    params:
        site=SITE,
        folder=subpath(output.runs, ancestor=2),
    message:
        "Collecting the records of {params.site}"
    shell:
        "argosy tables {params.folder:q} --runs {input.runs:q} 2> >(tee {log:q} >&2)"


rule write_report:
    input:
        rules.tables.output,
        costs=costs_file,
    output:
        html=report(
            f"results/{SITE}/report.html",
            caption="../report/scaling.rst",
            category="Scaling",
            labels={"site": SITE, "file": "report"},
        ),
        # Not deleted before the rule runs: the report adds its measurements to the history.
        json=update(f"results/{SITE}/summary.json"),
        csv=report(
            f"results/{SITE}/summary.csv",
            caption="../report/summary.rst",
            category="Scaling",
            labels={"site": SITE, "file": "table"},
        ),
    log:
        f"logs/{SITE}/report.log",
    localrule: True
    params:
        site=SITE,
        folder=subpath(output.html, parent=True),
        costs=lambda wildcards, input: (
            f"--costs={shlex.quote(input.costs)}" if input.costs else ""
        ),
    message:
        "Writing the report of {params.site}"
    shell:
        "argosy report --from-tables {params.folder:q} {params.costs} 2> >(tee {log:q} >&2)"


# Not a default target: a paper needs figures once, and every new run would draw them again.
rule figures:
    input:
        rules.write_report.output.json,
    output:
        report(
            directory(f"results/{SITE}/figures"),
            patterns=["{chart}.svg"],
            caption="../report/figure.rst",
            category="Figures",
            labels={"site": SITE, "chart": "{chart}"},
        ),
    log:
        f"logs/{SITE}/figures.log",
    localrule: True
    params:
        site=SITE,
        folder=subpath(input[0], parent=True),
    message:
        "Drawing the figures of {params.site}"
    shell:
        "argosy figures {params.folder:q} {output:q} > {log:q}"
