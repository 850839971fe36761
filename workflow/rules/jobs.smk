# All runs at once: their scripts cost a moment together. A checkpoint, so that Snakemake asks anew which runs
# are missing or have changed: when it plans them again, it does not look at the runs, and scripts that are
# `ancient` would leave them as they are.
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
        "Asking {params.scheduler} whether it accepts the jobs of {params.site}"
    shell:
        "argosy preflight {params.site:q} --runs {input.runs:q} --output {output:q} 2> >(tee {log:q} >&2)"


# Nothing here is compared by its time or by what Snakemake remembers: planning compares what a result is of
# with what is asked for, and takes away what is of something else. The executor `argosy` submits the script;
# the command is what any other executor would do instead.
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
