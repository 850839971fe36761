# Argosy: image -> runs -> tables and report. Rules are thin; the work is done by the library in workflow/src.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


# The first rule is the default target, here and where another workflow uses this one as a module.
rule all:
    input:
        study_results(),
        f"results/{SITE}/tables/runs.parquet",
        f"results/{SITE}/report.html",
        f"results/{SITE}/summary.json",
        f"results/{SITE}/summary.csv",
    localrule: True
    params:
        site=SITE,
    message:
        "All results and the report of {params.site} exist"


include: "workflow/rules/images.smk"
include: "workflow/rules/jobs.smk"
include: "workflow/rules/report.smk"


# If another workflow uses this one as a module, Snakemake calls only that workflow's handlers.
onstart:
    prepare_driver()


onerror:
    report_failures()
