# All runs at once: their scripts cost a moment together. A checkpoint, so that Snakemake asks anew which runs
# are missing or have changed: when it plans them again, it does not look at the runs, and scripts that are
# `ancient` would leave them as they are.
checkpoint plan_runs:
    input:
        locks=image_locks(),
        packed=packed_images(),
        site=f"slurm/{SITE}/site.yaml",
        templates=script_templates(),
    output:
        scripts=update(expand(f"results/{SITE}/{{run}}/job.sbatch", run=RUNS)),
        runs=f"results/{SITE}/runs.txt",
    log:
        f"logs/{SITE}/plan.log",
    params:
        config=json.dumps(config, sort_keys=True),
        source=str(SOURCE),
        locks=lambda wildcards, input: shlex.join(
            f"--lock={lock}" for lock in input.locks
        ),
    message:
        "Planning the runs of {SITE}"
    shell:
        "argosy plan-runs {params.config:q} --source {params.source:q} {params.locks} "
        "--output {output.runs:q} 2> {log:q}"


checkpoint preflight:
    input:
        scripts=rules.plan_runs.output.scripts,
        runs=rules.plan_runs.output.runs,
    output:
        f"resources/sites/{SITE}.txt",
    log:
        f"logs/{SITE}/preflight.log",
    message:
        "Asking Slurm whether it takes the jobs of {SITE}"
    shell:
        "argosy preflight --runs {input.runs:q} --output {output:q} 2> {log:q}"


# A script that was only written anew, by a change of the site's account, say, leaves what was measured:
# the parameters say what decides the outcome.
rule run:
    input:
        lock=image_lock,
        script=ancient(f"results/{SITE}/{{experiment}}/{{run}}/job.sbatch"),
        preflight=ancient(preflight),
    output:
        result=f"results/{SITE}/{{experiment}}/{{run}}/result.json",
    log:
        f"logs/{SITE}/{{experiment}}/{{run}}/job.log",
    resources:
        scheduler=scheduler,
    params:
        description=run_description,
        hardware=hardware,
    message:
        "Running {wildcards.experiment} {wildcards.run}"
    shell:
        "bash {input.script:q} > {log:q} 2>&1"
