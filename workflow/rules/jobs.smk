# Checkpoints, so that Snakemake asks anew which runs are missing or have changed: when it plans one
# again, it does not look at the run, and scripts that are `ancient` would leave it as it is.
checkpoint plan_run:
    input:
        lock=image_lock,
        packed=packed_image,
        site=f"slurm/{SITE}/site.yaml",
        templates=script_templates(),
    output:
        run=f"results/{SITE}/{{experiment}}/{{run}}/run.json",
        provenance=f"results/{SITE}/{{experiment}}/{{run}}/provenance.json",
        script=f"results/{SITE}/{{experiment}}/{{run}}/job.sbatch",
    log:
        f"logs/{SITE}/{{experiment}}/{{run}}/plan.log",
    params:
        description=run_description,
        site=site_options(),
        lock=lambda wildcards, input: (
            f"--lock={shlex.quote(input.lock)}" if input.lock else ""
        ),
    message:
        "Planning {wildcards.experiment} {wildcards.run}"
    shell:
        "argosy plan-run {params.description:q} {params.site} {params.lock} 2> {log:q}"


checkpoint preflight:
    input:
        expand(f"results/{SITE}/{{run}}/job.sbatch", run=RUNS),
    output:
        f"resources/sites/{SITE}.txt",
    log:
        f"logs/{SITE}/preflight.log",
    message:
        "Asking Slurm whether it takes the jobs of {SITE}"
    shell:
        "argosy preflight --output {output:q} {input:q} 2> {log:q}"


# A script that was only written anew, by a change of the site's account, say, leaves what was measured:
# the parameters say what decides the outcome.
rule run:
    input:
        lock=image_lock,
        script=ancient(rules.plan_run.output.script),
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
