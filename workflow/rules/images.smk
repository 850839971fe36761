rule image:
    input:
        image_files,
    output:
        "resources/images/{image}/image.lock",
    log:
        "logs/images/{image}.log",
    message:
        "Building image {wildcards.image}"
    shell:
        "argosy image build {wildcards.image:q} --lock {output:q} --log {log:q}"
