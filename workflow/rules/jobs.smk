# Plans all runs in one job, which is fast. After a checkpoint Snakemake checks again which runs are missing
# or have changed; otherwise it would skip changed runs, since their scripts are `ancient`.
checkpoint plan_runs:
    input:
        asked=this_snakemake(),
        locks=image_locks(),
        packed=packed_images(),
        native=ancient(native_environments()),
    output:
        runs=RUNS_FILE,
        study=STUDY_FILE,
    log:
        f"logs/{SITE}/plan.log",
    localrule: True
    resources:
        study=HANDED_ON.path,
    params:
        site=SITE,
        study=hashlib.sha256(STUDY_TEXT.encode()).hexdigest(),
    message:
        "Planning the runs of {params.site}"
    shell:
        "argosy render {params.site:q} --study {resources.study:q} --runs {output.runs:q} "
        "--output {output.study:q} 2> >(tee {log:q} >&2)"


checkpoint preflight:
    input:
        runs=RUNS_FILE,
        study=STUDY_FILE,
    output:
        PREFLIGHT_FILE,
    log:
        f"logs/{SITE}/preflight.log",
    localrule: True
    params:
        site=SITE,
        scheduler=SYSTEM.NAME,
    message:
        "Checking that {params.scheduler} accepts the jobs of {params.site}"
    shell:
        "argosy preflight {params.site:q} --runs {input.runs:q} --output {output:q} 2> >(tee {log:q} >&2)"


# Neither time stamps nor Snakemake's records decide whether a run is up to date: planning compares each result
# with the request, and removes outdated ones. The executor `argosy` submits the script; other executors would
# run the command.
rule run:
    input:
        lock=ancient(image_lock) if IMAGES else [],
        script=script,
    output:
        result=f"results/{SITE}/{{experiment}}/{{run}}/result.json",
    log:
        f"logs/{SITE}/{{experiment}}/{{run}}.log",
    priority: priority
    resources:
        scheduler=FACTS.scheduler,
        avoid_bad_nodes=int(STUDY.avoid_bad_nodes and FACTS.avoid_bad_nodes),
    message:
        "Running {wildcards.experiment} {wildcards.run}"
    shell:
        "argosy start {input.script:q}"
