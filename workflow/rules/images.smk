rule image:
    input:
        image_files,
    output:
        "resources/images/{image}/image.lock",
    log:
        "logs/images/{image}.log",
    localrule: True
    params:
        site=build_site(),
    message:
        "Building image {wildcards.image}"
    shell:
        "argosy image build {wildcards.image:q} --lock {output:q} --log {log:q} {params.site}"


# For sites whose nodes unpack images: before their jobs are submitted.
rule pack_image:
    input:
        "resources/images/{image}/image.lock",
    output:
        "resources/images/{image}/packed.json",
    log:
        "logs/images/{image}-pack.log",
    localrule: True
    message:
        "Packing image {wildcards.image}"
    shell:
        "argosy image pack {wildcards.image:q} --lock {input:q} --output {output:q} 2> >(tee {log:q} >&2)"
