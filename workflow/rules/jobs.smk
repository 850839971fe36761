rule plan_run:
    input:
        lock=image_lock,
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
        site=SITE,
    message:
        "Planning {wildcards.experiment} {wildcards.run}"
    shell:
        "argosy plan-run {params.description:q} --site {params.site:q} --lock {input.lock:q} 2> {log:q}"


rule run:
    input:
        script=rules.plan_run.output.script,
    output:
        result=f"results/{SITE}/{{experiment}}/{{run}}/result.json",
    log:
        f"logs/{SITE}/{{experiment}}/{{run}}/job.log",
    message:
        "Running {wildcards.experiment} {wildcards.run}"
    shell:
        "bash {input.script:q} > {log:q} 2>&1"
