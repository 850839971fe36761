# Builds an image of containers/, using cached steps. Images imported by hand have no rule.
rule image:
    input:
        image_files,
    output:
        "resources/images/{image}/image.lock",
    log:
        "logs/images/{image}.log",
    wildcard_constraints:
        image=one_of(IMAGE_FILES),
    localrule: True
    params:
        site=build_site(),
        made_of=made_of,
    message:
        "Building image {wildcards.image}"
    shell:
        "argosy image build {wildcards.image:q} --lock {output:q} --log {log:q} {params.site} "
        "{params.made_of}"


# Imports an image from a registry, udocker or an archive without changes.
rule take_image:
    input:
        image_archive,
    output:
        "resources/images/{image}/image.lock",
    log:
        "logs/images/{image}.log",
    wildcard_constraints:
        image=one_of(TAKEN),
    localrule: True
    params:
        source=taken_image,
    message:
        "Importing image {wildcards.image}"
    shell:
        "argosy image import {params.source:q} {wildcards.image:q} 2> >(tee {log:q} >&2)"


# Prepares an image's programs for native runs.
rule native_environment:
    input:
        "resources/images/{image}/image.lock",
    output:
        "resources/images/{image}/native/bin/python3",
    log:
        "logs/images/{image}-native.log",
    localrule: True
    params:
        folder=subpath(output[0], ancestor=2),
    message:
        "Preparing image {wildcards.image} for runs without a container"
    shell:
        "argosy image native {wildcards.image:q} --lock {input:q} --folder {params.folder:q} > {log:q}"


# Packs an image for sites whose nodes unpack images.
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
